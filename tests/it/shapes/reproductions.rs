//! What people found wrong with verdicts on commands of their own, each as they ran it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::{Listed, watch};
use super::answer::Answer;
use super::corpus::{Form, LONG, SHORT};
use super::shape::{Expected, Shape};
use super::verdict::judge;
use super::workshop::Workshop;
use super::{healthy, repeating, waiting};
use crate::support::client::Client;

/// The wait of a poll that says nothing about it, in seconds.
const DEFAULT_WAIT: f64 = 2.0;
/// So many polls without output were enough for "may be hung".
const IMPATIENT_POLLS: usize = 12;

#[test]
fn a_sleep_within_its_history_is_never_called_hung() {
    never_called_hung_by_impatience(&["sleep with a history"]);
}

#[test]
fn servers_and_watchers_without_work_are_never_called_hung() {
    never_called_hung_by_impatience(&["http.server", "node server", "tail -f", "inotifywait"]);
}

#[test]
fn a_wait_for_the_end_of_what_repeats_itself_says_so_once() {
    let shape = find(repeating::SHAPES, "one line");
    let workshop = Workshop::open(SHORT.configuration, &[shape]);
    let task = start(&workshop, &shape);
    let listen = 25;
    let poll = workshop.client.poll(&task, json!({"wait_for": "end", "listen": listen}));
    let answer = Answer::of(&poll);
    assert_eq!(poll.status(), "running", "{}", poll.text);
    assert_left_alone(&answer, &poll.text);
    assert!(answer.says_any(&["prints the same for "]), "{}", poll.text);
    let both_ways = "Wait again, or zsh_kill if this cannot succeed. → zsh_poll ";
    assert!(poll.text.contains(both_ways), "{}", poll.text);
    assert!(poll.elapsed < Duration::from_secs(listen - 5), "{}", poll.text);
    let listen = 4;
    let again = workshop.client.poll(&task, json!({"wait_for": "end", "listen": listen}));
    assert!(again.elapsed >= Duration::from_millis(3900), "{}", again.text);
    assert!(!again.text.contains("zsh_kill if"), "{}", again.text);
    assert!(again.text.contains("prints the same for "), "{}", again.text);
    workshop.clean_up(&shape, &task, &[]);
    workshop.close();
}

#[test]
fn questionary_and_ipython_are_found_waiting() {
    found_as_expected(waiting::SHAPES, &["questionary confirm", "ipython"], SHORT);
}

#[test]
fn npm_init_is_found_waiting() {
    found_as_expected(waiting::SHAPES, &["npm init"], SHORT);
}

#[test]
fn the_reads_of_a_find_with_many_children_are_seen() {
    found_as_expected(healthy::SHAPES, &["checksums of a tree"], SHORT);
}

#[test]
fn the_writes_to_a_mapped_file_are_seen() {
    found_as_expected(healthy::SHAPES, &["mapped file"], SHORT);
}

#[test]
fn a_deadline_moves_for_what_prints_the_time_that_has_passed() {
    let creates =
        "for i in {1..20}; do print \"db: Still creating... [${i}s elapsed]\"; sleep 1; done
print Creation complete";
    let shape = super::shape::healthy("creation", creates, &["idle"], &[]);
    let workshop = Workshop::open(SHORT.configuration, &[shape]);
    let (mut call, _) = workshop.prepare(&shape);
    call["timeout"] = json!(8);
    call["timeout_mode"] = json!("progress");
    call["yield_after"] = json!(DEFAULT_WAIT);
    let first = workshop.client.call("zsh", call);
    // The first wait ends when it is said that only the time changes.
    let told = workshop.client.poll_to_end(&first.task_id());
    assert!(told.text.contains("prints the same for "), "{}", told.text);
    let end = workshop.client.poll_to_end(&first.task_id());
    assert_eq!(end.status(), "completed", "{}", end.text);
    assert!(end.text.contains("Creation complete"), "{}", end.text);
    workshop.close();
}

#[test]
fn polls_of_a_watcher_that_takes_keys_can_wait() {
    let shape = find(healthy::SHAPES, "node watcher that takes keys");
    let workshop = Workshop::open("", &[shape]);
    let task = start(&workshop, &shape);
    // What the program prints at its start may come in one more piece.
    for _ in 0..2 {
        let arguments = json!({"wait_for": "end", "listen": 5});
        let poll = workshop.client.poll(&task, arguments);
        assert_eq!(poll.meta["waiting_for"], Value::Null, "{}", poll.text);
        assert!(!poll.text.contains("→ zsh_send"), "{}", poll.text);
        let waited = poll.elapsed;
        assert!(waited >= Duration::from_millis(4900), "{waited:?}: {}", poll.text);
    }
    workshop.clean_up(&shape, &task, &[]);
    workshop.close();
}

/// Two compilations of a minute each are left alone to their end.
pub fn compilations_are_left_alone() {
    let shape = find(healthy::SHAPES, "two compilations in a row");
    let workshop = Workshop::open(LONG.configuration, &[shape]);
    let task = start(&workshop, &shape);
    let begun = Instant::now();
    loop {
        let poll = workshop.client.poll(&task, json!({"wait_for": "end", "listen": 10}));
        let answer = Answer::of(&poll);
        assert_left_alone(&answer, &poll.text);
        if !answer.is_running() {
            // On a busy machine its deadline may come first.
            assert!(["completed", "timeout"].contains(&poll.status()), "{}", poll.text);
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(400), "{}", poll.text);
    }
    workshop.close();
}

/// An agent polls them again and again as the defaults have it, and is never told that they
/// are hung, nor to kill them.
fn never_called_hung_by_impatience(names: &[&str]) {
    let shapes: Vec<Shape> = names.iter().map(|name| find(healthy::SHAPES, name)).collect();
    let workshop = Workshop::open(LONG.configuration, &shapes);
    let tasks: Vec<String> = shapes.iter().map(|shape| start(&workshop, shape)).collect();
    for _ in 0..IMPATIENT_POLLS {
        let polls: Vec<_> = tasks
            .iter()
            .map(|task| {
                let arguments = json!({"task_id": task, "listen": DEFAULT_WAIT});
                workshop.client.call_async("zsh_poll", arguments)
            })
            .collect();
        for poll in polls {
            let poll = poll.tool_result();
            assert_eq!(poll.status(), "running", "{}", poll.text);
            assert_left_alone(&Answer::of(&poll), &poll.text);
        }
    }
    for (shape, task) in shapes.iter().zip(&tasks) {
        assert_named(&workshop.client, shape, task);
        workshop.clean_up(shape, task, &[]);
    }
    workshop.close();
}

/// What it does is told as its shape says.
fn assert_named(client: &Client, shape: &Shape, task: &str) {
    let poll = client.poll(task, json!({"listen": 0}));
    let answer = Answer::of(&poll);
    let Expected::Healthy { statuses, says } = shape.expected else {
        panic!("{} is not healthy", shape.name);
    };
    assert!(statuses.contains(&answer.status.as_str()), "{}", poll.text);
    assert!(answer.says_any(says), "{}", poll.text);
}

fn assert_left_alone(answer: &Answer, text: &str) {
    assert!(!answer.is_stuck(), "{text}");
    assert!(!answer.says_hung(), "{text}");
    assert!(!answer.names_kill(), "{text}");
    assert_eq!(answer.waiting_for, None, "{text}");
}

/// Watches shapes one after another as the corpus does, with nothing at all to be wrong.
fn found_as_expected(table: &[Shape], names: &[&str], form: Form) {
    let shapes: Vec<Shape> = names.iter().map(|name| find(table, name)).collect();
    let workshop = Workshop::open(form.configuration, &shapes);
    for shape in &shapes {
        let answers = watch(&workshop, &Listed::default(), shape, form.watch).answers;
        let verdict = judge(shape, &answers, &form.watch);
        let lines: Vec<String> = answers.iter().map(Answer::line).collect();
        let lines = lines.join("\n");
        assert!(verdict.harm.is_empty(), "{:?}\n{lines}", verdict.harm);
        assert!(verdict.misnamed.is_empty(), "{:?}\n{lines}", verdict.misnamed);
    }
    workshop.close();
}

fn start(workshop: &Workshop, shape: &Shape) -> String {
    let (mut call, _) = workshop.prepare(shape);
    call["yield_after"] = json!(DEFAULT_WAIT);
    workshop.client.call("zsh", call).task_id()
}

fn find(table: &[Shape], name: &str) -> Shape {
    *table
        .iter()
        .find(|shape| shape.name == name)
        .unwrap_or_else(|| panic!("no shape is named {name}"))
}
