//! Commands that print the same again and again. That is said of them, and none is called stuck:
//! what they wait for may come.

use super::shape::{Shape, healthy};

const REPEATS: &[&str] = &["prints the same for "];
const ANY: &[&str] = &["idle", "slow", "progressing", "blocked"];
const UNSERVED: &[&str] = &["nothing listens on "];

/// The table.
pub const SHAPES: &[Shape] = &[
    healthy("one line", "while :; do print 'waiting for db'; sleep 1; done", ANY, REPEATS),
    healthy(
        "two lines in turn",
        "while :; do print ping; sleep 0.5; print pong; sleep 0.5; done",
        ANY, REPEATS,
    ),
    healthy(
        "numbered attempts",
        "i=0; while :; do print \"connect: attempt $((++i)) failed\"; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "retries with a delay",
        "i=0; while :; do print \"retry #$((++i)) in 1s\"; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "time of day",
        "while :; do print \"$(date '+%Y-%m-%d %H:%M:%S') db is not ready\"; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "kernel stamps",
        "while :; do read up rest < /proc/uptime; print \"[ $up] eth0: link is not ready\"; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "ids in hex",
        "while :; do printf 'request %08x timed out\\n' $((RANDOM * RANDOM + 268435456)); sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "UUIDs",
        "while :; do print \"job $(</proc/sys/kernel/random/uuid) not found\"; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "pids in brackets",
        "while :; do sh -c 'echo \"worker[$$]: cannot bind\"'; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy("flood of one line", "yes 'the same'", ANY, REPEATS),
    healthy("curl that is refused", "until curl -sS http://127.0.0.1:1/; do sleep 1; done", ANY, REPEATS),
    healthy(
        "port that is never open",
        "until nc -z 127.0.0.1 1; do echo retrying; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "ssh that is refused",
        "while :; do ssh -F none -o BatchMode=yes -p 1 127.0.0.1; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "spinner",
        "while :; do for c in '|' / - '\\'; do printf '\\r%s connecting' $c; sleep 0.2; done; done",
        ANY, REPEATS,
    )
    .on_terminal(),
    healthy(
        "bar that does not grow",
        "while :; do printf '\\r[#####-----] 50%%'; sleep 0.5; done",
        ANY, REPEATS,
    )
    .on_terminal(),
    healthy(
        "banner of thirty lines",
        "while :; do for i in {a..z} one two three four; do print \"** part $i of the banner\"; done; sleep 2; done",
        ANY, REPEATS,
    ),
    healthy(
        "supervisor of a program that fails",
        "while :; do python3 -S -c 'raise ConnectionError(\"no database\")'; sleep 1; done",
        ANY, REPEATS,
    ),
    healthy(
        "node prints",
        "node -e 'setInterval(() => console.log(\"waiting for port 5432\"), 500)'",
        ANY, REPEATS,
    ),
    healthy(
        "python prints on a terminal",
        "python3 -c 'import time
while True:
    print(\"Connection refused. Reconnecting...\", flush=True)
    time.sleep(1)'",
        ANY, REPEATS,
    )
    .on_terminal(),
    healthy(
        "timer lines",
        "for i in {1..300}; do print \"aws_instance.web: Still creating... [${i}s elapsed]\"; sleep 1; done",
        ANY,
        REPEATS,
    ),
    healthy(
        "deployment that takes its time",
        "for i in {1..300}; do print 'Waiting for deployment to finish...'; sleep 1; done",
        ANY,
        REPEATS,
    ),
    healthy(
        "port of this machine that is refused",
        "while :; do print \"waiting for 127.0.0.1:$FREE_PORT\"; sleep 1; done",
        ANY,
        UNSERVED,
    ),
    healthy(
        "spinner over a slow peer",
        "curl -s http://127.0.0.1:$PEER_PORT/ & while kill -0 $!; do for c in '|' / - '\\'; do printf '\\r%s loading' $c; sleep 0.2; done; done",
        &["blocked"],
        REPEATS,
    )
    .on_terminal(),
];
