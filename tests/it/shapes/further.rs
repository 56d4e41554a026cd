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
use super::{outcomes, prompts, spinners, services, unending};

/// All of them.
pub const TABLES: &[(&str, &[Shape])] = &[
    ("spinners", spinners::SHAPES),
    ("services", services::SHAPES),
    ("unending", unending::SHAPES),
    ("prompts", prompts::SHAPES),
    ("ending", outcomes::ENDING),
    ("over", outcomes::OVER),
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
    "go finds its deadlock",
    "ruby finds its deadlock",
    "a spinner that ends",
    "a wait that ends",
    "jest with an open server",
];

/// With the intervals that are the default.
pub const LONG: Form = Form {
    name: "long",
    configuration: "",
    watch: Watch { healthy: 120.0, stuck: 75.0, other: 40.0, moving_deadline: 60 },
};

/// How many of a kind got the word that is expected.
#[derive(Debug, Default)]
pub struct Count {
    all: usize,
    right: usize,
    /// Of those with the right word: no evidence says what it is to say.
    without_reason: usize,
    called_stuck: usize,
    called_waiting: usize,
}

/// Watches all of the tables and writes what was said to `target/shapes/further-NAME.txt`;
/// returns the counts by expected word.
pub fn table(form: Form) -> Vec<(&'static str, Count)> {
    let only = std::env::var("SHAPES_ONLY").unwrap_or_default();
    let wanted = |shape: &&Shape| only.split(',').any(|word| shape.name.contains(word));
    let shapes: Vec<Shape> =
        TABLES.iter().flat_map(|(_, table)| table.iter()).filter(wanted).copied().collect();
    let told = run_shapes(&shapes, form);
    let counts = counts(&told);
    let text = format!("{}\n{}\n{}", summary(&counts), rows(&told), misses(&told));
    let file = format!("target/shapes/further-{}.txt", form.name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::write(&path, &text).expect("the table is written");
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}see {}", summary(&counts), path.display());
    counts
}

fn counts(told: &[Told]) -> Vec<(&'static str, Count)> {
    let mut counts: Vec<(&'static str, Count)> = Vec::new();
    for told in told {
        let kind = kind(&told.shape);
        if !counts.iter().any(|(name, _)| *name == kind) {
            counts.push((kind, Count::default()));
        }
        let Some((_, count)) = counts.iter_mut().find(|(name, _)| *name == kind) else { continue };
        count.all += 1;
        count.right += usize::from(told.is_right());
        count.without_reason += usize::from(told.is_right() && !told.verdict.misnamed.is_empty());
        count.called_stuck += usize::from(told.is_called_stuck());
        count.called_waiting += usize::from(told.verdict.falsely_waiting);
    }
    counts
}

fn summary(counts: &[(&'static str, Count)]) -> String {
    let mut text = String::from(
        "expected       all  right  wrong  no reason  called stuck  falsely waiting\n",
    );
    let mut sum = Count::default();
    for (name, count) in counts {
        line(&mut text, name, count);
        sum.all += count.all;
        sum.right += count.right;
        sum.without_reason += count.without_reason;
        sum.called_stuck += count.called_stuck;
        sum.called_waiting += count.called_waiting;
    }
    line(&mut text, "all", &sum);
    text
}

fn line(text: &mut String, name: &str, count: &Count) {
    let Count { all, right, without_reason, called_stuck, called_waiting } = count;
    let wrong = all - right;
    let _ = writeln!(
        text,
        "{name:13} {all:4} {right:6} {wrong:6} {without_reason:10} {called_stuck:13} {called_waiting:16}"
    );
}

fn rows(told: &[Told]) -> String {
    let mut text = String::new();
    for told in told {
        let mark = if told.is_right() { "right" } else { "WRONG" };
        let expected = expected(&told.shape.expected);
        let got = told.got();
        let _ = writeln!(text, "{mark} {:45} {expected:32} {got}", told.shape.name);
    }
    text
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
