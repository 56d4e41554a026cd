//! Every shape of the tables on the real server, watched as an agent would.
//!
//! Here with short intervals, so that what takes a minute by default takes seconds;
//! [`crate::long`] watches with the intervals that are the default.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::agent::{self, Listed, Watch, Watched};
use super::answer::Answer;
use super::shape::{Expected, Shape};
use super::verdict::{Verdict, judge};
use super::workshop::Workshop;
use super::{ending, healthy, repeating, stuck, waiting};

/// So many shapes run on one server, which takes 64 tasks, others that hold something for
/// them among them.
const ON_ONE_SERVER: usize = 40;

/// A way to run a table.
#[derive(Clone, Copy)]
pub struct Form {
    /// Its name in the report.
    pub name: &'static str,
    /// The server's configuration file.
    pub configuration: &'static str,
    /// For how long shapes are watched.
    pub watch: Watch,
}

/// In seconds rather than minutes.
pub const SHORT: Form = Form {
    name: "short",
    configuration: "heartbeat_interval: 1\nstuck_threshold: 4\n",
    watch: Watch {
        healthy: 20.0,
        stuck: 30.0,
        other: 25.0,
        patience: 2.0,
        moving_deadline: 15,
        prompt: 3.0,
    },
};

/// With the intervals that are the default.
pub const LONG: Form = Form {
    name: "long",
    configuration: "",
    watch: Watch {
        healthy: 80.0,
        stuck: 75.0,
        other: 25.0,
        patience: 1.0,
        moving_deadline: 60,
        prompt: 3.0,
    },
};

/// What was said of a shape.
pub struct Told {
    pub shape: Shape,
    pub watched: Watched,
    pub verdict: Verdict,
}

impl Told {
    /// All that is wrong with it.
    pub fn faults(&self) -> Vec<&str> {
        let Verdict { harm, misnamed, contradictions, .. } = &self.verdict;
        let all = harm.iter().chain(misnamed).chain(contradictions);
        all.map(String::as_str).collect()
    }

    /// Whether it got the word that is expected, whatever the reason.
    pub fn is_right(&self) -> bool {
        let status = match self.shape.expected {
            Expected::Healthy { statuses, .. } => {
                statuses.contains(&last_status(&self.watched.answers))
            }
            Expected::Stuck { .. } | Expected::Waits(_) | Expected::Ends { .. } => true,
        };
        status && self.verdict.harm.is_empty()
    }

    /// Whether it was called stuck, at any time.
    pub fn is_called_stuck(&self) -> bool {
        self.watched.answers.iter().any(Answer::is_stuck)
    }

    /// What was said of it, the worst first: `stuck after 52s`, `waits for input`, `idle …`.
    pub fn got(&self) -> String {
        let answers = &self.watched.answers;
        let is_stuck = answers.iter().find(|answer| answer.is_stuck());
        let waits = answers.iter().find(|answer| answer.waiting_for.is_some());
        let last = answers.iter().rfind(|answer| !answer.listed);
        match (is_stuck, waits, last) {
            (Some(answer), _, _) | (None, Some(answer), _) | (None, None, Some(answer)) => {
                answer.line()
            }
            (None, None, None) => "nothing".to_owned(),
        }
    }
}

/// The status of the last answer while it ran.
pub fn last_status(answers: &[Answer]) -> &str {
    let last = answers.iter().rfind(|answer| answer.is_running() && !answer.listed);
    last.map(|answer| answer.status.as_str()).unwrap_or_default()
}

#[test]
fn the_tables_are_as_large_as_they_are_to_be_and_name_each_shape_once() {
    for (table, fewest) in [
        (healthy::SHAPES, 50),
        (repeating::SHAPES, 20),
        (stuck::SHAPES, 17),
        (waiting::SHAPES, 35),
        (ending::SHAPES, 10),
    ] {
        assert!(table.len() >= fewest, "{} shapes", table.len());
        let mut names: Vec<_> = table.iter().map(|shape| shape.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.len());
    }
}

#[test]
fn what_is_healthy_is_never_called_stuck() {
    healthy_shapes_are_left_alone(SHORT);
}

#[test]
fn what_repeats_itself_is_said_to_and_is_not_called_stuck() {
    repeating_shapes_are_left_alone(SHORT);
}

#[test]
fn what_is_stuck_is_named_with_its_reason() {
    stuck_shapes_are_named(SHORT);
}

#[test]
fn what_waits_for_input_is_found_within_three_seconds() {
    let told = run(waiting::SHAPES, SHORT, "waiting");
    let most = told.len() / 35;
    assert_few(&told, most, |verdict| &verdict.harm);
    assert_few(&told, 0, |verdict| &verdict.contradictions);
}

#[test]
fn what_ends_by_itself_is_told_with_its_end() {
    let told = run(ending::SHAPES, SHORT, "ending");
    assert_few(&told, 0, |verdict| &verdict.harm);
}

/// No healthy shape is called stuck or hung, or is to be killed; none waits for input. The reason
/// that is given is right for nine in ten.
pub fn healthy_shapes_are_left_alone(form: Form) {
    assert_left_alone(&run(healthy::SHAPES, form, "healthy"));
}

/// The same of shapes that repeat themselves.
pub fn repeating_shapes_are_left_alone(form: Form) {
    assert_left_alone(&run(repeating::SHAPES, form, "repeating"));
}

fn assert_left_alone(told: &[Told]) {
    let most_misnamed = told.len() / 10;
    let falsely_waiting = told.iter().filter(|told| told.verdict.falsely_waiting);
    assert_eq!(falsely_waiting.count(), 0);
    assert_few(told, 0, |verdict| &verdict.harm);
    assert_few(told, 0, |verdict| &verdict.contradictions);
    assert_few(told, most_misnamed, |verdict| &verdict.misnamed);
}

/// At least 22 of 25 stuck shapes are called so in time, with the reason and the kill; none
/// waits for input.
pub fn stuck_shapes_are_named(form: Form) {
    let told = run(stuck::SHAPES, form, "stuck");
    let falsely_waiting = told.iter().filter(|told| told.verdict.falsely_waiting);
    assert_eq!(falsely_waiting.count(), 0);
    let most = told.len() * 3 / 25;
    assert_few(&told, most, |verdict| &verdict.harm);
}

/// Runs a table, on as many servers as it needs; prints what was said.
fn run(shapes: &[Shape], form: Form, table: &str) -> Vec<Told> {
    let told = run_shapes(shapes, form);
    report(&told, form, table);
    told
}

/// Runs shapes, on as many servers as they need.
pub fn run_shapes(shapes: &[Shape], form: Form) -> Vec<Told> {
    thread::scope(|scope| {
        let servers: Vec<_> = shapes
            .chunks(ON_ONE_SERVER)
            .map(|shapes| scope.spawn(move || run_on_one_server(shapes, form)))
            .collect();
        servers.into_iter().flat_map(|server| server.join().expect("a run on one server")).collect()
    })
}

fn run_on_one_server(shapes: &[Shape], form: Form) -> Vec<Told> {
    let workshop = Workshop::open(form.configuration, shapes);
    let listed = Listed::default();
    let is_over = AtomicBool::new(false);
    let watched: Vec<Option<Watched>> = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            listed.follow(&workshop.client, || is_over.load(Ordering::Relaxed));
        });
        let watches: Vec<_> = shapes
            .iter()
            .map(|shape| scope.spawn(|| agent::watch(&workshop, &listed, shape, form.watch)))
            .collect();
        // The panic of a watch has said why.
        let watched = watches.into_iter().map(|watch| watch.join().ok()).collect();
        is_over.store(true, Ordering::Relaxed);
        follower.join().expect("the looks at the list");
        watched
    });
    let woken = workshop.close();
    let told = shapes.iter().zip(watched).map(|(shape, watched)| {
        let Some(watched) = watched else {
            return Told { shape: *shape, watched: Watched::default(), verdict: failed() };
        };
        let mut verdict = judge(shape, &watched.answers, &form.watch);
        let is_stuck = matches!(shape.expected, Expected::Stuck { .. });
        if !is_stuck && woken.contains(&watched.task) {
            verdict.harm.push("an event says that it is stuck".to_owned());
        }
        Told { shape: *shape, watched, verdict }
    });
    told.collect()
}

fn failed() -> Verdict {
    Verdict { harm: vec!["the watch failed, as said above".to_owned()], ..Verdict::default() }
}

/// The shapes with faults of a kind are few.
fn assert_few(told: &[Told], most: usize, faults: impl Fn(&Verdict) -> &Vec<String>) {
    let wrong: Vec<String> = told
        .iter()
        .filter_map(|told| {
            let faults = faults(&told.verdict);
            (!faults.is_empty()).then(|| format!("{}: {}", told.shape.name, faults.join("; ")))
        })
        .collect();
    assert!(
        wrong.len() <= most,
        "{} of {}, where {most} may be:\n{}",
        wrong.len(),
        told.len(),
        wrong.join("\n")
    );
}

/// Writes the table of what was said to `target/shapes`, and prints it: all answers of those
/// with faults.
fn report(told: &[Told], form: Form, table: &str) {
    let mut text = format!("=== {table}, {} form\n", form.name);
    for told in told {
        text.push_str(&row(told));
        if !told.faults().is_empty() {
            for answer in &told.watched.answers {
                text.push_str(&format!("        {}\n", answer.line()));
            }
        }
    }
    let file = format!("target/shapes/{table}-{}.txt", form.name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::write(&path, &text).expect("the report is written");
    // Not by `println!`, which the test harness keeps for those that fail.
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{}", summary(told, &text, &path));
}

/// All of the table where something is wrong, else where it is.
fn summary(told: &[Told], text: &str, path: &Path) -> String {
    if told.iter().any(|told| !told.faults().is_empty()) {
        text.to_owned()
    } else {
        let shapes = told.len();
        format!("{shapes} shapes, all as expected: {}", path.display())
    }
}

/// `ok   sleep before a pipe          healthy  idle, said from 12s on: sleeping on a timer`
fn row(told: &Told) -> String {
    let faults = told.faults();
    let mark = if faults.is_empty() { "ok  " } else { "FAIL" };
    let last = told.watched.answers.iter().rfind(|answer| !answer.listed);
    let said = last.map(Answer::line).unwrap_or_default();
    let mut row = format!(
        "{mark} {:35} {:10} {said}\n",
        told.shape.name,
        expected_word(&told.shape.expected)
    );
    for fault in faults {
        row.push_str(&format!("     {fault}\n"));
    }
    row
}

fn expected_word(expected: &Expected) -> &'static str {
    match expected {
        Expected::Healthy { .. } => "healthy",
        Expected::Stuck { .. } => "stuck",
        Expected::Waits(what) => what,
        Expected::Ends { .. } => "ends",
    }
}
