//! Commands that end by themselves, some of them after a silence.

use super::shape::{First, Shape, ends};

/// The table.
pub const SHAPES: &[Shape] = &[
    ends("silence, then the end", "sleep 12", "completed", 0),
    ends("two lines and a failure", "print one; sleep 3; print two; exit 3", "failed", 3),
    ends("death by a signal", "sleep 2; kill -9 $$", "failed", 137),
    ends("long output", "seq 200000; sleep 2", "completed", 0),
    ends("something left behind", "sleep 300 & disown; sleep 2", "completed", 0),
    ends(
        "on a terminal",
        "for i in {1..5}; do printf '\\r%d of 5' $i; sleep 0.5; done",
        "completed",
        0,
    )
    .on_terminal(),
    ends("three times the same", "repeat 3 { print waiting; sleep 1 }", "completed", 0),
    ends("a timeout of its own", "timeout 4 nc -l 127.0.0.1 $FREE_PORT", "failed", 124),
    ends(
        "a lock that is given back",
        "(flock lock sleep 5) & sleep 1; flock lock true",
        "completed",
        0,
    ),
    ends(
        "a compilation",
        "cc -O2 -pthread -o program $PROGRAMS/lost_signal.c; sleep 1",
        "completed",
        0,
    ),
    ends(
        "a thread that ends late",
        "python3 -c 'import threading; threading.Timer(6, print, [\"late\"]).start()'",
        "completed",
        0,
    ),
    ends("a FIFO that is written late", "(sleep 4; print late > fifo) & cat fifo", "completed", 0)
        .after(&[First::Ran("mkfifo fifo")]),
];
