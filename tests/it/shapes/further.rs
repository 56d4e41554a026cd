//! The situations of [`super::spinners`], [`super::services`], [`super::unending`],
//! [`super::prompts`] and [`super::outcomes`]: programs of many languages, of which most
//! are in no other test, with the word that each is to get, as a table of what was expected
//! and what was said.
//!
//! `scripts/verdict-table [BINARY]` prints it for any binary. `SHAPES_ONLY=word,word`
//! restricts it to the shapes whose names contain one of these words.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::agent::Watch;
use super::corpus::{Form, Told, run_shapes};
use super::shape::{Expected, Shape};
use super::{lookalikes, outcomes, prompts, services, spinners, unending};

/// All of them.
const TABLES: &[&[Shape]] = &[
    spinners::SHAPES,
    services::SHAPES,
    lookalikes::SHAPES,
    unending::SHAPES,
    prompts::SHAPES,
    outcomes::ENDING,
    outcomes::OVER,
];

/// Those that `make test` watches, for seconds: they need no large toolchain, and start soon.
const SELECTION: &[&str] = &[
    "ora over a timer",
    "ora over a request",
    "spinner of clack",
    "frames of cli-spinners on a pipe",
    "status of rich",
    "status of rich over a request",
    "bar of tqdm",
    "shell spinner over curl",
    "shell spinner over curl on a pipe",
    "waiting for a deployment",
    "retries of ansible",
    "pg_isready before its server",
    "retries of curl",
    "php waits for a worker",
    "php -S",
    "nginx",
    "memcached",
    "webrick",
    "java httpserver",
    "erlang listener",
    "uvicorn",
    "npm over a sleep",
    "ruby over a sleep",
    "java over a sleep",
    "jshell over a script",
    "timeout over a FIFO",
    "alarm over a FIFO",
    "alarm before the reader of a FIFO",
    "alarm over an own pipe",
    "own pipe that a timer's signal ends",
    "own pipe that a timer's handler fills",
    "own socket that receives for a time",
    "own socket that sends for a time",
    "loop of longer sleeps",
    "work beside a FIFO below make",
    "own server that sleeps",
    "own server with a timer",
    "own server that has answered",
    "own server over a lock",
    "semaphore by its creator",
    "vfork over a FIFO",
    "lock that its holder takes again",
    "semaphore without a name",
    "FIFO below a directory that is open",
    "FIFO beside short commands",
    "lock of its own",
    "jest --watchAll",
    "vitest",
    "tailwind -w",
    "nodemon",
    "esbuild --watch",
    "guard",
    "ranger",
    "nnn",
    "textual",
    "blessed",
    "ruby gets",
    "redis-cli asks",
    "debugpy and its adapter",
    "apt-get beside a held lock",
    "apt-get beside a held lock on a terminal",
    "flock whose holder is stopped",
    "npm run over a FIFO",
    "npx over a FIFO",
    "pnpm run over a FIFO",
    "node over a FIFO",
    "node over a reader of its pipe",
    "concurrently over a FIFO",
    "make over a FIFO",
    "ruby over a FIFO",
    "php over a FIFO",
    "java over a FIFO",
    "asyncio over a FIFO",
    "java synchronized",
    "java locks",
    "rust mutexes",
    "ruby mutex",
    "asyncio event",
    "node Atomics",
    "git amends in vim",
    "vim without a terminal",
    "python selects its output",
    "perl selects its output",
    "jshell",
    "iex",
    "php -a",
    "fish",
    "guile",
    "clack select",
    "mc",
    "keytool",
    "ruby finds its deadlock",
    "a spinner that ends",
    "a wait that ends",
    "jest with an open server",
];

/// Those that do not get their word yet, and why. The table shows them all the same.
const UNSOLVED: &[(&str, &str)] = &[
    ("ruby mutex", "the thread that is waited for polls a pipe of its own"),
    ("ruby queue", "the thread that is waited for polls a pipe of its own"),
    ("php and its child", "the pair of sockets is held by two that wait for each other"),
    ("FIFO open at both ends", "its only holder reads it"),
    ("own terminal", "its only holder reads it"),
    ("go channel", "a goroutine's channel tells nothing of who may send"),
];

/// In seconds rather than minutes.
const SHORT: Form = Form {
    name: "short",
    configuration: "heartbeat_interval: 1\nstuck_threshold: 4\n",
    watch: Watch {
        healthy: 16.0,
        stuck: 25.0,
        other: 25.0,
        patience: 2.0,
        moving_deadline: 12,
        prompt: 6.0,
    },
};

/// With the intervals that are the default.
const LONG: Form = Form {
    name: "long",
    configuration: "",
    watch: Watch {
        healthy: 120.0,
        stuck: 75.0,
        other: 40.0,
        patience: 1.0,
        moving_deadline: 60,
        prompt: 6.0,
    },
};

#[test]
fn the_tables_name_each_situation_once_and_the_selection_is_of_them() {
    let mut names: Vec<_> = all().map(|shape| shape.name).collect();
    assert!(names.len() >= 300, "{} shapes", names.len());
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for name in SELECTION.iter().chain(UNSOLVED.iter().map(|(name, _)| name)) {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn programs_of_many_kinds_get_the_word_that_is_theirs() {
    let shapes: Vec<Shape> = all().filter(|shape| SELECTION.contains(&shape.name)).collect();
    assert_right(&table(&shapes, SHORT));
}

/// Watches all, with the intervals that are the default.
pub fn all_get_the_word_that_is_theirs() {
    let only = std::env::var("SHAPES_ONLY").unwrap_or_default();
    let wanted = |shape: &Shape| only.split(',').any(|word| shape.name.contains(word));
    let shapes: Vec<Shape> = all().filter(wanted).collect();
    assert_right(&table(&shapes, LONG));
}

fn all() -> impl Iterator<Item = Shape> {
    TABLES.iter().flat_map(|table| table.iter().copied())
}

/// No healthy one is called stuck, none waits that does not; of the stuck ones, 26 of 30 are
/// found, and the word is right for 97 of 100.
fn assert_right(told: &[Told]) {
    let is_unsolved = |told: &&Told| UNSOLVED.iter().any(|(name, _)| *name == told.shape.name);
    let told: Vec<&Told> = told.iter().filter(|told| !is_unsolved(told)).collect();
    let wrong = |told: &&&Told| !told.is_right();
    let is_stuck = |told: &&&Told| matches!(told.shape.expected, Expected::Stuck { .. });
    for told in &told {
        let harm = told.verdict.falsely_waiting || told.is_called_stuck() && !is_stuck(&told);
        assert!(!harm, "{}: {:?}", told.shape.name, told.faults());
    }
    let stuck = told.iter().filter(is_stuck).count();
    let unnamed: Vec<_> =
        told.iter().filter(is_stuck).filter(wrong).map(|told| row(told)).collect();
    assert!(unnamed.len() * 30 <= stuck * 4, "of {stuck} stuck:\n{}", unnamed.concat());
    let wrong: Vec<_> = told.iter().filter(wrong).map(|told| row(told)).collect();
    assert!(wrong.len() * 100 <= told.len() * 3, "of {}:\n{}", told.len(), wrong.concat());
}

/// Watches shapes and writes what was said to `target/shapes/further-NAME.txt`.
fn table(shapes: &[Shape], form: Form) -> Vec<Told> {
    let told = run_shapes(shapes, form);
    let summary = summary(&told);
    let rows: String = told.iter().map(row).collect();
    let text = format!("{summary}\n{rows}\n{}", misses(&told));
    let file = format!("target/shapes/further-{}.txt", form.name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::write(&path, &text).expect("the table is written");
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{summary}see {}", path.display());
    told
}

/// How many of each kind got the word that is expected; `no reason` counts those of them of
/// which no evidence says what it is to say.
fn summary(told: &[Told]) -> String {
    let mut text = String::from(
        "expected       all  right  wrong  no reason  called stuck  falsely waiting\n",
    );
    let mut kinds: Vec<_> = told.iter().map(|told| kind(&told.shape)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for name in kinds.into_iter().chain(["all"]) {
        let of_kind: Vec<_> =
            told.iter().filter(|told| name == "all" || kind(&told.shape) == name).collect();
        let count =
            |is_counted: fn(&Told) -> bool| of_kind.iter().filter(|told| is_counted(told)).count();
        let (all, right) = (of_kind.len(), count(Told::is_right));
        let unexplained = count(|told| told.is_right() && !told.verdict.misnamed.is_empty());
        let _ = writeln!(
            text,
            "{name:13} {all:4} {right:6} {:6} {unexplained:10} {:13} {:16}",
            all - right,
            count(Told::is_called_stuck),
            count(|told| told.verdict.falsely_waiting),
        );
    }
    text
}

/// `right php -S      idle      120.0s call idle ["listening on port 14120 …`
fn row(told: &Told) -> String {
    let mark = if told.is_right() { "right" } else { "WRONG" };
    let expected = expected(&told.shape.expected);
    format!("{mark} {:45} {expected:32} {}\n", told.shape.name, told.got())
}

/// All that was said of those with a fault, and what their processes were in at the end.
fn misses(told: &[Told]) -> String {
    let mut text = String::new();
    for told in told.iter().filter(|told| !told.faults().is_empty()) {
        let Shape { name, command, input, .. } = told.shape;
        let _ =
            writeln!(text, "=== {name} ({input:?}), expected {}", expected(&told.shape.expected));
        let _ = writeln!(text, "{command}");
        for fault in told.faults() {
            let _ = writeln!(text, "  ! {fault}");
        }
        let mut last = "";
        for answer in &told.watched.answers {
            // The list is looked at every two seconds.
            let is_new = answer.status != last;
            if is_new || !answer.listed && answer.waiting_for.is_none() {
                let _ = writeln!(text, "  {}", answer.line());
            }
            last = &answer.status;
        }
        for line in told.watched.tree.lines() {
            let _ = writeln!(text, "  | {line}");
        }
        for line in told.watched.last_text.lines() {
            let _ = writeln!(text, "  > {line}");
        }
    }
    text
}

fn kind(shape: &Shape) -> &'static str {
    match shape.expected {
        Expected::Healthy { statuses: [status], .. } => status,
        Expected::Healthy { .. } => "healthy",
        Expected::Stuck { .. } => "stuck",
        Expected::Waits(what) => what,
        Expected::Ends { .. } => "ends",
    }
}

fn expected(expected: &Expected) -> String {
    match expected {
        Expected::Healthy { statuses, .. } => statuses.join("|"),
        Expected::Stuck { .. } => "stuck".to_owned(),
        Expected::Waits(what) => format!("waits for {what}"),
        Expected::Ends { status, code } => format!("{status} {code}"),
    }
}
