//! Commands that are well: slow ones, silent ones, servers, watchers, those that wait for
//! others. None of them is ever to be called stuck.

use super::shape::{First, Shape, healthy};

const TIMER: &[&str] = &["timer"];
const LISTENING: &[&str] = &["listening"];
const WATCHING: &[&str] = &["watching"];
const SIGNAL: &[&str] = &["signal"];
const PEER: &[&str] = &["peer"];
const LOCK: &[&str] = &["lock"];
const SCREEN: &[&str] = &["interactive screen"];
const BUSY: &[&str] = &["busy"];
const IDLE: &[&str] = &["idle"];
const BLOCKED: &[&str] = &["blocked"];
/// Where a look may fall between two rounds of a loop.
const IDLE_OR_AT_WORK: &[&str] = &["idle", "slow", "progressing"];
const AT_WORK: &[&str] = &["slow", "progressing"];
/// Of what computes and prints, reads or writes now and then.
const BUSY_OR_IO: &[&str] = &["busy", "read or wrote", "printed", "started"];

/// The table.
pub const SHAPES: &[Shape] = &[
    // Timers
    healthy("sleep with a history", "sleep 100", IDLE, TIMER)
        .after(&[First::Remembered { runs: 8, milliseconds: 101_000 }]),
    healthy("sleep without end", "sleep infinity", IDLE, &["timer", "signal"]),
    healthy("sleep in the background", "sleep 300 & wait", IDLE, TIMER),
    healthy("sleep before a pipe", "sleep 300 | cat", IDLE, TIMER),
    healthy("loop of sleeps", "for i in {1..300}; do sleep 1; done", IDLE, TIMER),
    healthy(
        "date to a file each second",
        "while :; do date > now; sleep 1; done",
        IDLE_OR_AT_WORK,
        &[],
    ),
    healthy("python sleeps", "python3 -c 'import time; time.sleep(300)'", IDLE, TIMER),
    healthy("thread sleeps, main joins", "python3 $PROGRAMS/join_sleeper.py", IDLE, TIMER),
    healthy("node interval", "node -e 'setInterval(() => {}, 5000)'", IDLE, TIMER),
    healthy(
        "asyncio sleeps",
        "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(300))'",
        IDLE,
        TIMER,
    ),
    healthy("perl sleeps", "perl -e 'sleep 300'", IDLE, TIMER),
    healthy(
        "four sleeps of xargs",
        "print -l 300 300 300 300 | xargs -P 4 -n 1 sleep",
        IDLE,
        TIMER,
    ),
    healthy(
        "make whose recipe sleeps",
        "print 'all:\\n\\t@sleep 300' > Makefile; make",
        IDLE,
        TIMER,
    ),
    healthy("timeout around a sleep", "timeout 300 sleep 299", IDLE, TIMER),
    healthy("unfinished line before a sleep", "printf 'Building... '; sleep 300", IDLE, TIMER)
        .on_terminal(),
    // Screens that redraw by themselves
    healthy("watch date", "watch -n 1 date", IDLE_OR_AT_WORK, &[]).on_terminal(),
    healthy("top", "top -d 5", IDLE, SCREEN).on_terminal(),
    // On a busy machine it draws other processes each time.
    healthy("htop", "htop -d 20", IDLE_OR_AT_WORK, SCREEN).on_terminal(),
    healthy(
        "tmux around a sleep",
        "tmux -L shape-sleep -f /dev/null new 'sleep 300'",
        &["idle", "blocked"],
        &[],
    )
    .on_terminal()
    .cleaned_by("tmux -L shape-sleep kill-server"),
    // Servers
    healthy("http.server", "python3 -m http.server --bind 127.0.0.1 0", IDLE, LISTENING),
    healthy("node server", "node $PROGRAMS/serve.js", IDLE, LISTENING),
    healthy("node server on a terminal", "node $PROGRAMS/serve.js", IDLE, LISTENING).on_terminal(),
    healthy("node server that takes keys", "node $PROGRAMS/serve_keys.js", IDLE, LISTENING)
        .on_terminal(),
    healthy(
        "gunicorn and its workers",
        "gunicorn --workers 2 --bind 127.0.0.1:0 wsgiref.simple_server:demo_app",
        IDLE,
        LISTENING,
    ),
    healthy("busybox httpd", "busybox httpd -f -p 127.0.0.1:$FREE_PORT", IDLE, LISTENING),
    // By this name the checker is the server, which Debian has in a package that starts it.
    healthy(
        "redis-server",
        "ln -s $commands[redis-check-rdb] redis-server; ./redis-server --bind 127.0.0.1 --port $FREE_PORT --save ''",
        IDLE,
        LISTENING,
    ),
    healthy("nc -l", "nc -l 127.0.0.1 $FREE_PORT", IDLE, LISTENING),
    healthy("socat on a Unix socket", "socat UNIX-LISTEN:socket STDOUT", IDLE, LISTENING),
    healthy(
        "unconnected UDP socket",
        "python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind((\"127.0.0.1\", 0)); s.recv(1)'",
        IDLE,
        LISTENING,
    ),
    healthy(
        "asyncio server",
        "python3 -c 'import asyncio
async def main():
    server = await asyncio.start_server(lambda r, w: None, \"127.0.0.1\", 0)
    await server.serve_forever()
asyncio.run(main())'",
        IDLE,
        LISTENING,
    ),
    healthy(
        "perl accepts",
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\")->accept'",
        IDLE,
        LISTENING,
    ),
    healthy("ssh-agent", "ssh-agent -D -a ./agent", IDLE, LISTENING),
    // Watchers
    healthy("tail -f", "touch grows; tail -f grows", IDLE, WATCHING),
    healthy("tail -F of nothing", "tail -F missing", IDLE, &["watching", "timer"]),
    healthy("tail -f /dev/null", "tail -f /dev/null", IDLE, &["watching", "timer"]),
    healthy("inotifywait", "inotifywait -q -m .", IDLE, WATCHING),
    healthy("entr", "touch source; ls source | entr -n true", IDLE, WATCHING),
    healthy("watchmedo", "watchmedo shell-command --command=true .", IDLE, WATCHING),
    healthy("node watcher", "node $PROGRAMS/watch_keys.js", IDLE, WATCHING),
    healthy("node watcher that takes keys", "node $PROGRAMS/watch_keys.js", IDLE, WATCHING)
        .on_terminal(),
    // Peers
    healthy(
        "python waits for a peer",
        "python3 -c 'import os, socket; socket.create_connection((\"127.0.0.1\", int(os.environ[\"PEER_PORT\"]))).recv(1)'",
        BLOCKED,
        PEER,
    ),
    healthy(
        "unfinished line before a peer",
        "printf 'Logging in: '; nc -U $PEER_SOCKET < /dev/null",
        &["blocked", "idle"],
        &[],
    )
    .on_terminal(),
    healthy("long poll", "python3 $PROGRAMS/long_poll.py", BLOCKED, PEER),
    healthy("curl", "curl -s http://127.0.0.1:$PEER_PORT/", BLOCKED, PEER),
    healthy("psql", "psql -h 127.0.0.1 -p $PEER_PORT -U me -c 'select 1'", BLOCKED, PEER),
    healthy("git ls-remote", "git ls-remote git://127.0.0.1:$PEER_PORT/x", BLOCKED, PEER),
    healthy(
        "node get",
        "node -e 'require(\"http\").get({host: \"127.0.0.1\", port: process.env.PEER_PORT})'",
        BLOCKED,
        PEER,
    ),
    healthy(
        "ssh that gets no banner",
        "ssh -F none -o StrictHostKeyChecking=no -p $PEER_PORT 127.0.0.1",
        BLOCKED,
        PEER,
    )
    .on_terminal(),
    healthy("client of a Unix socket", "nc -U $PEER_SOCKET", &["blocked", "idle"], &[]),
    // Locks
    healthy("flock", "flock build.lock true", BLOCKED, LOCK)
        .after(&[First::Holds("flock build.lock sh -c 'echo held; sleep 300'")]),
    healthy("flock held by a descriptor", "flock build.lock true", BLOCKED, &["held by"])
        .after(&[First::Holds("bash -c 'exec 9>build.lock; flock 9; echo held; sleep 300; exit'")]),
    healthy(
        "record lock",
        "python3 -c 'import fcntl; fcntl.lockf(open(\"records\", \"a\"), fcntl.LOCK_EX)'",
        BLOCKED,
        LOCK,
    )
    .after(&[First::Holds("python3 $PROGRAMS/hold_record.py")]),
    healthy(
        "message and lock",
        "print 'Blocking waiting for file lock on build directory'; flock build.lock true",
        BLOCKED,
        LOCK,
    )
    .on_terminal()
    .after(&[First::Holds("flock build.lock sh -c 'echo held; sleep 300'")]),
    healthy(
        "sqlite waits while busy",
        "sqlite3 -cmd '.timeout 600000' base 'create table two (x)'",
        &["idle", "blocked", "slow"],
        &[],
    )
    .after(&[First::Holds(
        "{ print 'begin exclusive;'; print '.print held'; sleep 300 } | sqlite3 base",
    )]),
    // Signals
    healthy("pause", "perl -MPOSIX -e pause", IDLE, SIGNAL),
    healthy("sigsuspend", "sigsuspend", IDLE, SIGNAL),
    healthy(
        "sigwait",
        "python3 -c 'import signal; signal.sigwait({signal.SIGUSR1})'",
        IDLE,
        SIGNAL,
    ),
    // Held by another process
    healthy("strace around a sleep", "strace -f -o trace sleep 300", IDLE, TIMER),
    healthy("gdb runs a sleep", "gdb -q -nx -batch -ex run --args sleep 300", IDLE, TIMER),
    healthy("script around a sleep", "script -qc 'sleep 300' /dev/null", IDLE, TIMER).on_terminal(),
    // Silent writers
    healthy(
        "mapped file",
        "python3 $PROGRAMS/mapped_writer.py",
        &["progressing"],
        &["read or wrote "],
    ),
    healthy(
        "a few kilobytes at a time",
        "python3 $PROGRAMS/trickle.py",
        &["progressing"],
        &["read or wrote "],
    ),
    // Work
    healthy("loop that computes", "while :; do :; done", AT_WORK, BUSY).computing(),
    healthy(
        "computes with a file of notes",
        "python3 $PROGRAMS/counting_file.py",
        AT_WORK,
        BUSY_OR_IO,
    )
    .computing(),
    healthy("pool that computes", "python3 $PROGRAMS/pool.py", AT_WORK, BUSY).computing(),
    healthy("xz", "head -c 2G /dev/urandom | xz -9 | wc -c", AT_WORK, BUSY_OR_IO).computing(),
    healthy("openssl speed", "openssl speed -seconds 100 sha256", AT_WORK, BUSY_OR_IO).computing(),
    healthy(
        "checksums of a tree",
        // Smaller files are read like the start of a program, which does not count.
        "find /usr -xdev -type f -size +16k -exec md5sum {} \\; > sums",
        AT_WORK,
        &["read or wrote "],
    )
    .computing(),
    healthy("tar and gzip", "tar cf - /usr/lib | gzip -9 | wc -c", AT_WORK, BUSY_OR_IO).computing(),
    healthy(
        "two compilations in a row",
        "python3 $PROGRAMS/big_c.py > big.c; gcc -O3 -c big.c; gcc -O3 -c -fPIC big.c",
        AT_WORK,
        BUSY_OR_IO,
    )
    .computing(),
    healthy(
        "make of many files",
        "for i in {1..2000}; do print \"int f$i(int x) { return x * $i; }\" > f$i.c; done
print 'all: $(patsubst %.c,%.o,$(wildcard *.c))' > Makefile; make -s -j2",
        AT_WORK,
        BUSY_OR_IO,
    )
    .computing(),
];
