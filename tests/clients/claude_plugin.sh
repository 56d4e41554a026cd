#!/usr/bin/env bash
# Checks the plugin with the real Claude Code in a scratch HOME:
# claude_plugin.sh BINARY FOLDER, where FOLDER holds the `claude` program.
# Nothing here needs a login or a network.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
cd "$(dirname "$0")/../.." || exit 1
repo=$PWD
binary=$1
# cargo runs by rustup, which looks for its compilers in HOME.
cargo_home=${CARGO_HOME:-$HOME/.cargo} rustup_home=${RUSTUP_HOME:-$HOME/.rustup}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A Claude Code that runs this must not leak its own settings into the checks.
for name in $(compgen -e | grep -E '^(CLAUDE|ANTHROPIC|MCP_|ZSH_TOOL_|XDG_)'); do unset "$name"; done
unset PREFIX DESTDIR
export HOME=$scratch PATH=$2:$PATH ZSH_TOOL_STATE_DIR=$scratch/state
export DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
plugin=$HOME/.claude/plugins/zsh-tool
# shellcheck source=/dev/null
. "$tests/check.sh"
shows() { # shows PATTERN COMMAND...
    "${@:2}" >"$scratch/shown" 2>&1
    cat "$scratch/shown"
    grep -qE -- "$1" "$scratch/shown"
}
hides() { ! shows "$@"; }
# Outside the repository, whose own .mcp.json Claude Code would read as well.
elsewhere() { (mkdir -p "$scratch/project" && cd "$scratch/project" && "$@"); }
# The programs that run from the scratch HOME: the plugin's, or Claude Code's copy of it.
servers() {
    local exe
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe") in "$scratch"/*) echo "$exe" ;; esac
    done
}

# The archive of a release, unpacked.
unpack_release() {
    strip -o "$scratch/stripped" "$binary" &&
        CARGO_HOME=$cargo_home RUSTUP_HOME=$rustup_home \
            scripts/package "$scratch/files" "$(uname -m)-unknown-linux-musl=$scratch/stripped" &&
        mkdir "$release" && tar -xzf "$scratch"/files/zsh-tool-*-linux-musl.tar.gz -C "$release" --strip-components 1
}
# A PATH with what the start script and Claude Code call, and no Rust.
without_rust() {
    local folder program
    mkdir "$scratch/no-rust"
    while IFS= read -r -d : folder; do
        for program in "$folder"/*; do
            case ${program##*/} in cargo* | rust*) ;; *) ln -s "$program" "$scratch/no-rust/" 2>/dev/null ;; esac
        done
    done <<<"$PATH:"
    export PATH=$scratch/no-rust
    hash -r
    ! command -v cargo && ! command -v rustc && ! command -v rustup
}
# The servers that Claude Code has started are its copy of the release's binary.
starts_its_copy() {
    local copies=("$HOME"/.claude/plugins/cache/*/zsh-tool/*/bin/*-linux-musl/zsh-tool)
    cmp "${copies[0]}" "$scratch/stripped" && [ ! -e "$ZSH_TOOL_STATE_DIR/build.log" ]
}

check "the plugin manifest is valid" claude plugin validate --strict "$repo/.claude-plugin/plugin.json"
check "the marketplace manifest is valid" claude plugin validate --strict "$repo"
allow='"allow": ["mcp__plugin_zsh-tool_zsh-tool"]'
check "it installs and prints the permission" shows '"allow": \["mcp__plugin_zsh-tool_zsh-tool"\]' scripts/install "$binary"
check "and how to deny Bash" grep -qF '"deny": ["Bash"]' "$scratch/shown"
check "what was laid out is valid" claude plugin validate --strict "$plugin"
check "it is enabled" shows '"enabled": true' claude plugin list --json
check "it brings the skill and the command" shows 'zsh-tool-config' claude plugin details zsh-tool
check "its server connects" elsewhere shows 'zsh-tool:.*Connected' claude mcp list
check "the permission that was printed allows its tools" elsewhere "$2/node" "$repo/tests/clients/plugin_permission.mjs" "$allow"
hook='{"matcher": "mcp__.*zsh-tool__zsh(_send)?", "hooks": [{"type": "command", "command": "'$binary' hook permissions"}]}'
check "the hook that was documented applies rules for Bash" elsewhere "$2/node" "$repo/tests/clients/plugin_permission.mjs" \
    '"allow": ["Bash(print *)"]' '"hooks": {"PreToolUse": ['"$hook"']}'
check "its monitor wakes the model" elsewhere "$2/node" "$repo/tests/clients/plugin_monitor.mjs"
check "no process is left" hides . servers
check "it installs again" scripts/install "$binary"
check "its server connects again" elsewhere shows 'zsh-tool:.*Connected' claude mcp list
touch "$plugin/data/alan.db"
check "it uninstalls" scripts/uninstall
check "Claude Code no longer lists it" hides 'zsh-tool@zsh-tool' claude plugin list --json
check "nor its marketplace" hides 'zsh-tool' claude plugin marketplace list --json
check "a database is kept" test -e "$plugin/data/alan.db"
check "and nothing else" test "$(find "$plugin" -type f | wc -l)" = 1
check "it uninstalls again" scripts/uninstall
check "a staged install registers nothing" env DESTDIR="$scratch/stage" PREFIX=/opt/plugins scripts/install "$binary"
check "and lays out under DESTDIR and PREFIX" test -x "$scratch/stage/opt/plugins/zsh-tool/bin/zsh-tool"
check "and is no marketplace" hides 'zsh-tool' claude plugin marketplace list --json

release=$scratch/release
check "a release is unpacked" unpack_release
PATH=$2:/usr/local/bin:/usr/bin:/bin
check "Rust is not on PATH" without_rust
check "the release's plugin is valid" claude plugin validate --strict "$release/.claude-plugin/plugin.json"
check "and its marketplace" claude plugin validate --strict "$release"
check "Claude Code adds it" claude plugin marketplace add "$release"
check "and installs it" claude plugin install zsh-tool@zsh-tool
check "its server connects without Rust" elsewhere shows 'zsh-tool:.*Connected' claude mcp list
check "it is the release's binary, and nothing is built" starts_its_copy
check "and no process is left" hides . servers
check "it uninstalls too" claude plugin uninstall zsh-tool@zsh-tool

conclude
