//! Commands that do not end by themselves and do nothing that is worth waiting for: they
//! print the same again and again, or what they wait for cannot happen.

use super::shape::{First, Shape, stuck};

const REPEATS: &[&str] = &["repeating"];
const DEADLOCK: &[&str] = &["deadlock"];
/// What nothing can write to any more.
const NO_OTHER_END: &[&str] = &["deadlock", "FIFO", "pipe"];

/// The table.
pub const SHAPES: &[Shape] = &[
    // The same output for ever
    stuck("one line", "while :; do print 'waiting for db'; sleep 1; done", REPEATS),
    stuck(
        "two lines in turn",
        "while :; do print ping; sleep 0.5; print pong; sleep 0.5; done",
        REPEATS,
    ),
    stuck(
        "numbered attempts",
        "i=0; while :; do print \"connect: attempt $((++i)) failed\"; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "retries with a delay",
        "i=0; while :; do print \"retry #$((++i)) in 1s\"; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "time of day",
        "while :; do print \"$(date '+%Y-%m-%d %H:%M:%S') db is not ready\"; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "kernel stamps",
        "while :; do read up rest < /proc/uptime; print \"[ $up] eth0: link is not ready\"; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "ids in hex",
        "while :; do printf 'request %08x timed out\\n' $((RANDOM * RANDOM + 268435456)); sleep 1; done",
        REPEATS,
    ),
    stuck(
        "UUIDs",
        "while :; do print \"job $(</proc/sys/kernel/random/uuid) not found\"; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "pids in brackets",
        "while :; do sh -c 'echo \"worker[$$]: cannot bind\"'; sleep 1; done",
        REPEATS,
    ),
    stuck("flood of one line", "yes 'the same'", REPEATS),
    stuck("curl that is refused", "until curl -sS http://127.0.0.1:1/; do sleep 1; done", REPEATS),
    stuck(
        "port that is never open",
        "until nc -z 127.0.0.1 1; do echo retrying; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "ssh that is refused",
        "while :; do ssh -F none -o BatchMode=yes -p 1 127.0.0.1; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "spinner",
        "while :; do for c in '|' / - '\\'; do printf '\\r%s connecting' $c; sleep 0.2; done; done",
        REPEATS,
    )
    .on_terminal(),
    stuck(
        "bar that does not grow",
        "while :; do printf '\\r[#####-----] 50%%'; sleep 0.5; done",
        REPEATS,
    )
    .on_terminal(),
    stuck(
        "banner of thirty lines",
        "while :; do for i in {a..z} one two three four; do print \"** part $i of the banner\"; done; sleep 2; done",
        REPEATS,
    ),
    stuck(
        "supervisor of a program that fails",
        "while :; do python3 -S -c 'raise ConnectionError(\"no database\")'; sleep 1; done",
        REPEATS,
    ),
    stuck(
        "node prints",
        "node -e 'setInterval(() => console.log(\"waiting for port 5432\"), 500)'",
        REPEATS,
    ),
    stuck(
        "python prints on a terminal",
        "python3 -c 'import time
while True:
    print(\"Connection refused. Reconnecting...\", flush=True)
    time.sleep(1)'",
        REPEATS,
    )
    .on_terminal(),
    // What cannot happen
    stuck("two threads, two locks", "python3 $PROGRAMS/two_locks.py", DEADLOCK),
    stuck("one lock taken twice", "self_lock", DEADLOCK),
    stuck("condition that nothing signals", "lost_signal", DEADLOCK),
    stuck("semaphore that nothing posts", "semaphore", DEADLOCK),
    stuck("queue that nothing fills", "python3 -c 'import queue; queue.Queue().get()'", DEADLOCK),
    stuck("workers that wait for their parent", "python3 $PROGRAMS/lost_worker.py", DEADLOCK),
    stuck("shell around a deadlock", "sh -c 'self_lock; echo done'", DEADLOCK),
    stuck("full pipe of a child", "python3 $PROGRAMS/full_pipe.py", DEADLOCK),
    stuck("FIFO without a writer", "cat fifo", NO_OTHER_END).after(&[First::Ran("mkfifo fifo")]),
    stuck("own pipe", "python3 -c 'import os; r, w = os.pipe(); os.read(r, 1)'", NO_OTHER_END),
    stuck(
        "two readers of FIFOs",
        "(read x < one; print > two) & (read x < two; print > one) & wait",
        NO_OTHER_END,
    )
    .after(&[First::Ran("mkfifo one two")]),
];
