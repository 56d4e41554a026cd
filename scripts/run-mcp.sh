#!/bin/sh
# Starts the MCP server of the plugin that contains this script. Passes on its arguments;
# without any it runs `serve`.
#
# Uses a release's binary for this platform, bin/TARGET/zsh-tool, or else bin/zsh-tool of
# `make install`, each only if it runs. In a source tree the binary is
# target/release/zsh-tool. If it is missing or older than a source, this script starts a
# build in the background and exits at once with an explanation, because clients give a
# server 10 to 30 s to start and a build takes minutes. The next start finds the binary.
# Messages go to stderr, since only the protocol may appear on stdout.
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

# The server's state directory. It must be private, since the build's log and lock are in
# it, and others could place symbolic links in a shared directory.
open_state_dir() {
    if given "${ZSH_TOOL_STATE_DIR-}"; then
        state=$ZSH_TOOL_STATE_DIR
    elif given "${XDG_STATE_HOME-}"; then
        state=$XDG_STATE_HOME/zsh-tool
    elif given "${HOME-}"; then
        state=$HOME/.local/state/zsh-tool
    else
        die "neither ZSH_TOOL_STATE_DIR nor HOME is set, so there is no directory for the build's log"
    fi
    (umask 077 && mkdir -p -- "$state" && chmod -- 700 "$state") 2>/dev/null ||
        die "cannot make $state private to this user: set ZSH_TOOL_STATE_DIR to a directory of yours"
    log=$state/build.log
    failed=$state/build.failed
    lock=$state/build.lock
}

# The targets of this platform in a release, and how the platform's programs begin, as od
# prints it (on macOS, for one processor or for several). On other platforms, the binary was
# built on the machine.
system=$(uname -sm)
case $system in
    'Linux x86_64') targets=x86_64-unknown-linux-musl header='7f 45 4c 46 02*3e 00' ;;
    'Linux aarch64') targets=aarch64-unknown-linux-musl header='7f 45 4c 46 02*b7 00' ;;
    'Darwin arm64') targets='aarch64-apple-darwin universal-apple-darwin' header='c[af] f[ae] *' ;;
    'Darwin x86_64') targets='x86_64-apple-darwin universal-apple-darwin' header='c[af] f[ae] *' ;;
    *) targets='' header='*' ;;
esac

# True if file $1 is a program for this platform, and runs. The header is checked first,
# since a shell may treat another platform's program as a script.
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

# True if a source of the binary is newer than file $1. Databases under data/ are not
# sources.
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

# The build in the background. If flock(1) exists, the open descriptor 9 holds the lock,
# which is released however this process ends. Otherwise cargo's own lock keeps two builds
# apart.
build() {
    if command -v flock >/dev/null 2>&1; then
        exec 9>"$lock"
        # Tried twice, since another start may be testing the lock right now.
        flock -n 9 || { sleep 1 && flock -n 9; } || exit 0
    fi
    exec >"$log" 2>&1 </dev/null
    cd -- "$root"
    rm -f -- "$failed"
    # The binary gets the time at which the build began, so that edits during the build
    # count as newer.
    started=$state/build.started.$$
    trap 'rm -f -- "$started" "$built.$$"' EXIT
    trap 'exit 1' HUP INT TERM
    : >"$started"
    # A separate target folder: cargo writes its result in place, and a start at that moment
    # would run an incomplete file. Descriptor 9 is closed, so that a compiler cache that cargo
    # leaves running does not keep the lock.
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

# Starts the build in a new session, so that a client that ends this process does not end
# the build. It inherits none of this process's descriptors.
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
    die "$root contains neither a binary for $system nor sources: install the release for this machine"
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
    # The same sources failed to build before. An older server is better than none, and
    # another attempt succeeds if the cause (a network, a compiler) has been fixed.
    if [ -e "$failed" ] && ! sources_newer_than "$failed"; then
        broken=1
        say "the last build of these sources failed (log: $log); the log ends with:"
        tail -n 5 -- "$log" >&2 || true
    fi
    start_build
    if [ -n "${broken-}" ] && runs_here "$built"; then
        say "building again in the background, and starting the older binary"
        exec "$built" "$@"
    fi
    say "building from source in the background, which takes 2 to 5 minutes (log: $log)"
fi
say "when it is done, reconnect: in Claude Code, /mcp, zsh-tool, Reconnect"
exit $EXIT_TRY_AGAIN
