#!/bin/sh
# Starts the MCP server of the plugin that this script belongs to. Arguments are
# passed on; without any it runs `serve`.
#
# A release's binary for this platform, bin/TARGET/zsh-tool, comes first, then
# bin/zsh-tool of `make install`; each is tried before it is taken. In a source tree the
# binary is target/release/zsh-tool; when there is none, or a source is newer, a build
# starts in the background and this script ends at once with an explanation,
# because clients give a server 10 to 30 s to start and a build takes minutes.
# The next start finds the binary. Only the protocol may appear on stdout, so
# everything said here goes to stderr.
#
# CLAUDE_PLUGIN_ROOT is not used: some clients pass it on unexpanded.
set -eu

readonly EXIT_TRY_AGAIN=75 # EX_TEMPFAIL of sysexits.h: reconnect later.

say() { printf 'zsh-tool: %s\n' "$*" >&2; }

die() {
    say "$@"
    exit 1
}

# This file's path with symbolic links followed, so that a link to it works.
self=$0
while [ -L "$self" ]; do
    link=$(readlink -- "$self")
    case $link in
        /*) self=$link ;;
        *) self=$(dirname -- "$self")/$link ;;
    esac
done
root=$(CDPATH='' cd -- "$(dirname -- "$self")/.." && pwd -P)
built=$root/target/release/zsh-tool
readonly root self built

# True for a set, non-empty value; a literal ${…} is an unexpanded plugin variable.
given() {
    case $1 in
        '' | *"\${"*) return 1 ;;
        *) return 0 ;;
    esac
}

# The directory that the server uses too. It must be private: the build's log and
# lock live there, and a guessable name that others can write to invites links.
open_state_dir() {
    if given "${ZSH_TOOL_STATE_DIR-}"; then
        state=$ZSH_TOOL_STATE_DIR
    elif given "${XDG_STATE_HOME-}"; then
        state=$XDG_STATE_HOME/zsh-tool
    elif given "${HOME-}"; then
        state=$HOME/.local/state/zsh-tool
    else
        die "neither ZSH_TOOL_STATE_DIR nor HOME is set: no place for the build's log"
    fi
    (umask 077 && mkdir -p -- "$state" && chmod -- 700 "$state") 2>/dev/null ||
        die "cannot make $state private to this user: set ZSH_TOOL_STATE_DIR to a directory of yours"
    log=$state/build.log
    failed=$state/build.failed
    lock=$state/build.lock
}

# Where a release has the binary for this platform, and how the programs of the platform
# begin, as od prints it (on macOS, for one processor or for several). Elsewhere a binary
# was built on the machine.
system=$(uname -sm)
case $system in
    'Linux x86_64') targets=x86_64-unknown-linux-musl header='7f 45 4c 46 02*3e 00' ;;
    'Linux aarch64') targets=aarch64-unknown-linux-musl header='7f 45 4c 46 02*b7 00' ;;
    'Darwin arm64') targets='aarch64-apple-darwin universal-apple-darwin' header='c[af] f[ae] *' ;;
    'Darwin x86_64') targets='x86_64-apple-darwin universal-apple-darwin' header='c[af] f[ae] *' ;;
    *) targets='' header='*' ;;
esac

# True when file $1 is a program for this platform, and runs. The header is read first: a
# shell may take another platform's program for a script.
runs_here() {
    [ -x "$1" ] || return 1
    found=$(od -An -v -tx1 -N20 -- "$1" | tr -s ' \n' ' ')
    found=${found# }
    # shellcheck disable=SC2254  # A pattern.
    case ${found% } in
        $header) "$1" --version >/dev/null 2>&1 </dev/null ;;
        *) return 1 ;;
    esac
}

# True when a source that goes into the binary is newer than file $1. A database
# under data/ is written by use, not by development.
sources_newer_than() {
    [ -n "$(
        find "$root/src" "$root/data" "$root/Cargo.toml" "$root/Cargo.lock" \
            -type f -newer "$1" ! -name '*.db' ! -name '*.db-*' 2>/dev/null | head -n 1
    )" ]
}

find_cargo() {
    for cargo in "$(command -v cargo || true)" "${CARGO_HOME:-${HOME-}/.cargo}/bin/cargo"; do
        [ -x "$cargo" ] && return 0
    done
    return 1
}

# The background half. The lock is the open descriptor 9 where flock(1) exists: it
# goes away with this process, however that ends. Elsewhere cargo's own lock keeps
# two builds from harming each other.
build() {
    if command -v flock >/dev/null 2>&1; then
        exec 9>"$lock"
        # Tried twice: another start may be testing the lock at this moment.
        flock -n 9 || { sleep 1 && flock -n 9; } || exit 0
    fi
    exec >"$log" 2>&1 </dev/null
    cd -- "$root"
    rm -f -- "$failed"
    # The time before the first source is read becomes the binary's, so that an
    # edit made during the build still counts as newer.
    started=$state/build.started.$$
    trap 'rm -f -- "$started" "$built.$$"' EXIT
    trap 'exit 1' HUP INT TERM
    : >"$started"
    # A target folder of its own: cargo writes its result in place, and a start in
    # that moment would run half a file. The lock must not live on in a compiler
    # cache that cargo leaves running.
    if find_cargo && "$cargo" build --release --locked --target-dir target/plugin 9>&- &&
        mkdir -p -- "$(dirname -- "$built")" &&
        cp -- target/plugin/release/zsh-tool "$built.$$" &&
        touch -r "$started" -- "$built.$$" &&
        mv -f -- "$built.$$" "$built"; then
        echo "zsh-tool: built"
    else
        touch -r "$started" -- "$failed"
        echo "zsh-tool: not built"
    fi
}

build_running() {
    command -v flock >/dev/null 2>&1 && [ -e "$lock" ] && ! flock -n "$lock" true
}

# Starts the background half in a session of its own, so that the client's ending
# of this process does not reach it. It holds none of this process's descriptors.
start_build() {
    detach=$(command -v setsid || command -v nohup)
    "$detach" /bin/sh "$root/scripts/run-mcp.sh" --build-in-background \
        </dev/null >/dev/null 2>&1 &
}

case ${1-} in
    --build-in-background)
        open_state_dir
        build
        exit 0
        ;;
    '') set -- serve ;;
esac

for target in $targets ''; do
    binary=$root/bin/${target:+$target/}zsh-tool
    runs_here "$binary" && exec "$binary" "$@"
    [ ! -e "$binary" ] || say "$binary does not run on this machine, $system"
done
if [ ! -e "$root/Cargo.toml" ]; then
    runs_here "$built" && exec "$built" "$@"
    die "$root holds neither a binary for $system nor sources: install the release for this machine"
fi
if runs_here "$built" && ! sources_newer_than "$built"; then
    exec "$built" "$@"
fi

open_state_dir
if ! find_cargo; then
    runs_here "$built" || die "not built yet, and cargo is missing: install Rust (https://rustup.rs), then reconnect (/mcp)"
    say "the sources are newer than the binary, but cargo is missing: starting the older binary"
    exec "$built" "$@"
fi
if build_running; then
    say "still being built from source (log: $log)"
else
    # These very sources failed to build: an older server is better than none, and
    # the repeated attempt picks up a mended machine (a network, a compiler).
    if [ -e "$failed" ] && ! sources_newer_than "$failed"; then
        broken=1
        say "the last build of these sources failed (log: $log), its end was:"
        tail -n 5 -- "$log" >&2 || true
    fi
    start_build
    if [ -n "${broken-}" ] && runs_here "$built"; then
        say "trying again in the background; starting the older binary meanwhile"
        exec "$built" "$@"
    fi
    say "building from source in the background, which takes 2 to 5 minutes (log: $log)"
fi
say "when it is done, reconnect: in Claude Code, /mcp, zsh-tool, Reconnect"
exit $EXIT_TRY_AGAIN
