//! Commands that end by themselves though something is in their way, and some that are over
//! but do not end.

use super::shape::{First, Shape, ends, healthy};
use super::spinners::NODE;

/// What is said of one whose work seems done.
const DONE: &[&str] = &["seems done", "work is done", "over, but"];
const IDLE: &[&str] = &["idle"];
const REPOSITORY: &[First] = &[First::Ran("git init -q .; print a > a")];
const UNFINISHED: &[First] = &[First::Ran(
    "ln -s $NODE_PATH node_modules; print '{\"name\": \"a\"}' > package.json
cp $PROGRAMS/unfinished* .",
)];

/// Those that end.
pub const ENDING: &[Shape] = &[
    ends("nano without a terminal", "nano text", "failed", 1),
    ends("git add beside a lock", "touch .git/index.lock; git add a", "failed", 128)
        .after(REPOSITORY),
    ends("go finds its deadlock", "situations-go found", "failed", 2),
    ends("ruby finds its deadlock", "ruby -e 'Queue.new.pop'", "failed", 1),
    ends(
        "node that awaits what never comes",
        "node --input-type=module -e 'await new Promise(() => {})'",
        "failed",
        13,
    ),
    ends("wait-on gives up", "wait-on -t 4000 tcp:127.0.0.1:$FREE_PORT", "failed", 1),
    ends("curl gives up", "curl -sS --max-time 5 http://127.0.0.1:$PEER_PORT/", "failed", 28),
    ends("a spinner that ends", "node ora.mjs 7", "completed", 0).on_terminal().after(NODE),
    ends(
        "a wait that ends",
        "for i in {1..4}; do echo 'Waiting for deployment to finish...'; sleep 3; done",
        "completed",
        0,
    ),
    ends("a bash read without input", "bash -c 'read -p \"Continue? \" x || exit 5'", "failed", 5),
    ends(
        "php gives up a lock",
        "timeout 5 php -r 'flock(fopen(\"l\", \"w\"), LOCK_EX);'",
        "failed",
        124,
    )
    .after(&[First::Holds("flock l sh -c 'echo held; sleep 300'")]),
    ends("jest", "jest", "completed", 0).after(&[First::Ran(
        "ln -s $NODE_PATH node_modules; print '{\"name\": \"a\"}' > package.json
print 'test(\"adds\", () => { expect(1 + 1).toBe(2) });' > a.test.js",
    )]),
    ends(
        "concurrently until the first",
        "concurrently -k -s first 'sleep 4' 'sleep 300'",
        "completed",
        0,
    ),
    ends(
        "a FIFO whose writer comes late, below npm",
        "(sleep 6; print late > f) & npx --offline -c 'cat f'",
        "completed",
        0,
    )
    .after(&[First::Ran("mkfifo f")]),
    ends("java that waits for a child", "java -cp $BUILT Situations child sleep 5", "completed", 0),
];

/// Those that are over but do not end.
pub const OVER: &[Shape] = &[
    healthy("jest with an open server", "jest unfinished", IDLE, DONE).after(UNFINISHED),
    healthy("jest with an open server on a terminal", "jest unfinished", IDLE, DONE)
        .on_terminal()
        .after(UNFINISHED),
    healthy("mocha with a timer", "mocha unfinished_mocha.js", IDLE, DONE).after(UNFINISHED),
    healthy("unittest with a thread", "python3 unfinished_test.py", IDLE, DONE).after(UNFINISHED),
    healthy("pytest with a thread", "pytest -q unfinished_test.py", IDLE, DONE).after(UNFINISHED),
    healthy("java build with a thread", "java -cp $BUILT Situations late", IDLE, DONE),
];
