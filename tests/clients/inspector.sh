#!/usr/bin/env bash
# Drives the server with the official Inspector's command line: inspector.sh BINARY FOLDER,
# where FOLDER holds `mcp-inspector` and a `node` that is new enough for it.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
binary=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch PATH=$2:$PATH ZSH_TOOL_STATE_DIR=$scratch/state
# shellcheck source=/dev/null
. "$tests/check.sh"
inspect() { # inspect ERA METHOD ARGUMENT...
    mcp-inspector --cli "$binary" serve --protocol-era "$1" --method "$2" --format json --quiet "${@:3}"
}
shows() { # shows PATTERN COMMAND...
    "${@:2}" >"$scratch/shown" 2>&1
    cat "$scratch/shown"
    grep -qE -- "$1" "$scratch/shown"
}
# The servers that run from the scratch HOME.
servers() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" = "$binary" ] && grep -qzx "HOME=$scratch" "$process/environ" && echo "$process"
    done
}
none_left() { [ -z "$(servers)" ]; }

for era in legacy modern; do
    check "$era: lists the tools" shows '"zsh_poll"' inspect $era tools/list
    # It looks for what makes schemas hard to use for some client or model.
    check "$era: every schema is portable" inspect $era tools/list --strict
    check "$era: calls a tool" shows 'hi\\n─── [0-9a-f]*\\n✘ exit=3' \
        inspect $era tools/call --tool-name zsh --tool-arg 'command=echo hi; exit 3'
    check "$era: a wrong argument is named" shows 'did you mean timeout' \
        inspect $era tools/call --tool-name zsh --tool-args-json '{"command":"true","timout":5}'
    check "$era: a structured result" shows '"structuredContent"' inspect $era tools/call --tool-name zsh_health
    check "$era: ten calls at once" shows '"ok":20,' \
        inspect $era tools/call --tool-name zsh --tool-args-json '{"command":"true"}' --load --load-requests 20 --load-concurrency 10
done
check "no server is left" none_left

conclude
