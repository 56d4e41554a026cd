#!/usr/bin/env bash
# Checks scripts/run-mcp.sh, the plugin's start script, on a one-line crate with
# the real cargo: every state a plugin folder can be in, and what a user is told.
# shellcheck disable=SC2016  # Unexpanded variables are what some checks are about.
set -u
repo=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# GNU tools then read their arguments as those of macOS do: no option after an operand.
export POSIXLY_CORRECT=1
export ZSH_TOOL_STATE_DIR=$work/state CLAUDE_PLUGIN_ROOT='${CLAUDE_PLUGIN_ROOT}'
# Seconds a start may take when it cannot serve: clients wait 10 to 30 s.
START_LIMIT=2
passed=0 failed=0

check() { # check NAME COMMAND...
    if "${@:2}"; then
        passed=$((passed + 1)) && echo "ok    $1"
    else
        failed=$((failed + 1)) && echo "FAIL  $1"
        sed 's/^/      /' "$work/out" "$work/err" 2>/dev/null
    fi
}

plugin=$work/plugin
mkdir -p "$plugin/scripts" "$plugin/src" "$plugin/data"
cp "$repo/scripts/run-mcp.sh" "$plugin/scripts/"
printf '[package]\nname = "zsh-tool"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' >"$plugin/Cargo.toml"
program() { printf 'fn main() { println!("%s {:?}", std::env::args().skip(1).collect::<Vec<_>>()); }\n' "$1" >"$plugin/src/main.rs"; }
(cd "$plugin" && program one && cargo generate-lockfile --offline --quiet) || exit 1

start() { # start ARGUMENT...: leaves out, err, code and took (seconds) behind.
    local before=$SECONDS
    touch "$work/before"
    "$plugin/scripts/run-mcp.sh" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$? took=$((SECONDS - before))
}
# Waits for the outcome, a binary or a failure, of the build that the last start began.
await_build() {
    local binary=$plugin/target/release/zsh-tool
    until [ "$binary" -nt "$work/before" ] || [ "$ZSH_TOOL_STATE_DIR/build.failed" -nt "$work/before" ]; do
        sleep 0.1 # Not on the lock: holding it could keep the builder out.
    done
}
says() { grep -qF -- "$1" "$work/err"; }
serves() { [ "$code" = 0 ] && grep -qxF -- "$1" "$work/out"; }
refuses() { [ "$code" = 75 ] && [ ! -s "$work/out" ] && [ "$took" -le "$START_LIMIT" ]; }
last_line_says_reconnect() { tail -n 1 "$work/err" | grep -q 'reconnect: .*/mcp'; }
mode_is() { [ "$(stat -c %a "$2")" = "$1" ]; }
# Files of one test step can carry the same time, so the binary is made older.
age_binary() { touch -d '2 seconds ago' "$plugin/target/release/zsh-tool"; }

start
check "without a binary it ends at once, stdout empty" refuses
check "it says that it builds" says "building from source"
check "its last line says how to reconnect" last_line_says_reconnect
check "the state directory is private" mode_is 700 "$work/state"
await_build
start
check "after the build it serves" serves 'one ["serve"]'
start exec -- 'a b'
check "arguments are passed on" serves 'one ["exec", "--", "a b"]'

program two && age_binary
start
check "newer sources: it builds instead of serving the old binary" refuses
await_build && start
check "then the new binary serves" serves 'two ["serve"]'

echo 'broken' >"$plugin/src/main.rs" && age_binary
start
check "broken sources: it tries a build" refuses
await_build && start
check "after a failed build the older binary serves" serves 'two ["serve"]'
check "and the end of the build's log is shown" says "could not compile"
await_build
await_build

program three && start && await_build
touch -d '1 hour' "$plugin/data/alan.db" && start
check "a database under data/ is no newer source" serves 'three ["serve"]'

exec 8>"$ZSH_TOOL_STATE_DIR/build.lock" && flock 8
program four && age_binary && start
check "a running build is told, not doubled" says "still being built"
flock -u 8

target=$(uname -m)-unknown-linux-musl
mkdir -p "$plugin/bin/$target" "$work/other"
printf 'fn main() { println!("release {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")); }\n' >"$work/other/release.rs"
(cd "$work/other" && rustc --edition 2024 release.rs) || exit 1
cp "$work/other/release" "$plugin/bin/$target/zsh-tool"
start
check "a release's binary comes first" serves 'release serve'
mkdir -p "$work/elsewhere" && ln -s ../plugin/scripts/run-mcp.sh "$work/elsewhere/link"
"$work/elsewhere/link" --version >"$work/out" 2>"$work/err"
code=$?
check "it finds its folder through a symbolic link" serves 'release --version'

# A folder that a Mac and a Linux machine share: this machine plays the Mac.
mkdir "$work/mac" "$plugin/bin/aarch64-apple-darwin"
printf '#!/bin/sh\necho Darwin arm64\n' >"$work/mac/uname" && chmod +x "$work/mac/uname"
cp "$work/other/release" "$plugin/bin/zsh-tool"
cp "$work/other/release" "$plugin/bin/aarch64-apple-darwin/zsh-tool"
age_binary
PATH=$work/mac:$PATH start
check "a Linux binary is never started on a Mac" refuses
check "and it is named" says "bin/aarch64-apple-darwin/zsh-tool does not run on this machine, Darwin arm64"
check "it builds instead" says "building from source"
await_build
printf '\317\372\355\376 broken' >"$plugin/bin/aarch64-apple-darwin/zsh-tool"
PATH=$work/mac:$PATH start
check "nor is a Mac binary that does not run" refuses
await_build
rm "$plugin/bin/$target/zsh-tool"
start
check "a binary of make install serves" serves 'release serve'
printf 'exit 0' >"$plugin/bin/zsh-tool"
start
check "what is no program is not started" serves 'four ["serve"]'

rm -r "${plugin:?}/bin"
program five && age_binary
mkdir "$work/tools" # What the script needs, but no cargo.
for tool in chmod dirname find head mkdir od readlink touch tr uname; do ln -s "$(command -v $tool)" "$work/tools/"; done
PATH=$work/tools CARGO_HOME=$work/none start
check "without cargo the older binary serves" serves 'four ["serve"]'
check "and the user is told" says "cargo is missing"

ZSH_TOOL_STATE_DIR='${CLAUDE_PLUGIN_DATA}' XDG_STATE_HOME=$work/xdg start
check "an unexpanded variable counts as unset" refuses
check "and the state goes where the server's would" mode_is 700 "$work/xdg/zsh-tool"
ZSH_TOOL_STATE_DIR=$work/xdg/zsh-tool
await_build
start
check "the build from there serves" serves 'five ["serve"]'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
