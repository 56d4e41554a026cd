//! Commands that do not end by themselves: what they wait for cannot happen.

use super::shape::{First, Shape, stuck};

const DEADLOCK: &[&str] = &["deadlock"];
/// What nothing can write to any more.
const NO_OTHER_END: &[&str] = &["deadlock", "FIFO", "pipe"];

/// The table.
pub const SHAPES: &[Shape] = &[
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
    stuck(
        "child of node",
        "node -e 'require(\"child_process\").execSync(\"cat fifo\")'",
        NO_OTHER_END,
    )
    .after(&[First::Ran("mkfifo fifo")]),
    stuck("child of ruby", "ruby -e 'system(\"cat fifo\")'", NO_OTHER_END)
        .after(&[First::Ran("mkfifo fifo")]),
    stuck("script of npm", "npm run hang", NO_OTHER_END).after(&[First::Ran(
        "print '{\"scripts\": {\"hang\": \"cat fifo\"}}' > package.json; mkfifo fifo",
    )]),
    stuck(
        "editor that reads its own output",
        "git init -q . && export GIT_AUTHOR_NAME=me GIT_AUTHOR_EMAIL=me@x GIT_COMMITTER_NAME=me GIT_COMMITTER_EMAIL=me@x && git commit -q --allow-empty -m one && GIT_EDITOR=vim git commit --amend --allow-empty",
        &["its own output"],
    ),
    stuck(
        "input from its own output",
        "python3 -c 'import os, select; os.dup2(2, 0); select.select([0], [], [])'",
        &["its own output"],
    ),
    stuck(
        "event loop that nothing wakes",
        "python3 -c 'import asyncio; asyncio.run(asyncio.Event().wait())'",
        DEADLOCK,
    ),
];
