#!/usr/bin/env bash
# Sourced by the scripts beside it, which set `scratch`, a directory.
# shellcheck disable=SC2154
passed=0 failed=0

# check NAME COMMAND...: counts whether the command succeeds. If it fails, shows its output, which
# is in $scratch/checked.
check() {
    if "${@:2}" >"$scratch/checked" 2>&1 </dev/null; then
        passed=$((passed + 1)) && echo "ok    $1"
    else
        failed=$((failed + 1)) && echo "FAIL  $1"
        cut -c1-2000 "$scratch/checked" | sed 's/^/      /'
    fi
}

# Prints how many checks have passed and failed; fails if any has.
conclude() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
