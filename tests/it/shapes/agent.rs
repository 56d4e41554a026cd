//! An agent that starts a shape and follows what the answers advise.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::answer::Answer;
use super::shape::{Expected, Shape};
use super::tree;
use super::turns::Turns;
use super::workshop::Workshop;
use crate::support::client::Client;

/// Seconds of an agent's thinking between an answer and its next call, so that answers
/// that come at once make no flood of calls.
const THINKING: Duration = Duration::from_secs(1);
/// The first wait of a command in seconds, which is the tool's default.
const FIRST_WAIT: f64 = 2.0;
/// The wait where an answer names none, in seconds.
const UNNAMED_WAIT: f64 = 10.0;
/// No wait is longer, in seconds: the client gives up on an answer after 30 s.
const LONGEST_WAIT: f64 = 25.0;
/// Of each watch there are at least so many answers.
const FEWEST_ANSWERS: f64 = 4.0;
/// How often the list of tasks is looked at.
const LIST_INTERVAL: Duration = Duration::from_secs(2);

/// So many shapes of all tests start at a time, so that none is held up by the others.
static STARTING: Turns = Turns::of(4);
/// So many of those that compute run at a time: with more, one may get less of two cores than
/// the 20 % from which on it is called busy.
static COMPUTING: Turns = Turns::of(3);

/// For how long shapes are watched, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// A healthy shape.
    pub healthy: f64,
    /// A stuck one, unless it is called so before.
    pub stuck: f64,
    /// One that waits or ends, unless it does so before.
    pub other: f64,
    /// How many times as long for one that does not have its word yet: on a busy machine programs
    /// take longer to begin.
    pub patience: f64,
    /// The deadline of one that prints the same again and again, which moves.
    pub moving_deadline: u32,
    /// How many seconds after its last output, or its start before any, one that waits is to
    /// be found.
    pub prompt: f64,
}

impl Watch {
    /// For how long this one.
    pub fn of(&self, shape: &Shape) -> f64 {
        match shape.expected {
            Expected::Healthy { .. } => self.healthy,
            Expected::Stuck { .. } => self.stuck,
            Expected::Waits(_) | Expected::Ends { .. } => self.other,
        }
    }
}

/// The rows of `zsh_tasks`, by task.
#[derive(Default)]
pub struct Listed(Mutex<HashMap<String, Vec<Answer>>>);

impl Listed {
    /// Looks at the list again and again until this says that it is enough. A look is no
    /// poll: nothing counts it.
    pub fn follow(&self, client: &Client, is_enough: impl Fn() -> bool) {
        while !is_enough() {
            let list = client.call("zsh_tasks", json!({"limit": 1000}));
            let rows = list.raw["structuredContent"]["tasks"].as_array();
            let mut listed = self.0.lock().expect("no reader panicked");
            for row in rows.into_iter().flatten() {
                let task = row["task_id"].as_str().unwrap_or_default().to_owned();
                listed.entry(task).or_default().push(Answer::from_row(row));
            }
            drop(listed);
            // The list has no event for a change: an agent looks now and then.
            thread::sleep(LIST_INTERVAL);
        }
    }

    fn of(&self, task: &str) -> Vec<Answer> {
        let listed = self.0.lock().expect("no reader panicked");
        listed.get(task).cloned().unwrap_or_default()
    }
}

/// What was seen of a shape.
#[derive(Debug, Default)]
pub struct Watched {
    /// Its task.
    pub task: String,
    /// All answers about it, in the order of their time.
    pub answers: Vec<Answer>,
    /// What its processes were in at the end.
    pub tree: String,
    /// The text of the last answer.
    pub last_text: String,
}

/// Starts a shape, watches it and ends it.
pub fn watch(workshop: &Workshop, listed: &Listed, shape: &Shape, watch: Watch) -> Watched {
    let _computing = shape.computes.then(|| COMPUTING.take());
    let starting = STARTING.take();
    let (mut call, holders) = workshop.prepare(shape);
    let budget = watch.of(shape);
    call["yield_after"] = match shape.expected {
        // It comes back as soon as it is found waiting.
        Expected::Waits(_) => json!(budget.min(LONGEST_WAIT)),
        _ => json!(FIRST_WAIT),
    };
    if matches!(shape.expected, Expected::Healthy { .. }) {
        call["timeout_mode"] = json!("progress");
    }
    if shape.repeats {
        call["timeout"] = json!(watch.moving_deadline);
    }
    let first = workshop.client.call("zsh", call);
    drop(starting);
    let task = first.task_id();
    let mut answers = vec![Answer::of(&first)];
    let mut last_text = first.text;
    while let Some(last) = answers.last()
        && !is_over(shape, last, budget, watch.patience)
    {
        let wait = next_wait(last, if last.at < budget { budget } else { budget * watch.patience });
        // What is woken at once is not asked again at once.
        let asked = Instant::now();
        let arguments = json!({"wait_for": "end", "listen": wait});
        let poll = workshop.client.poll(&task, arguments);
        answers.push(Answer::of(&poll));
        last_text.clone_from(&poll.text);
        if poll.status() == "running" {
            thread::sleep(THINKING.saturating_sub(asked.elapsed()));
        }
    }
    let tree = tree::describe(&task);
    workshop.clean_up(shape, &task, &holders);
    // After the kill its row tells how it ended, which is this agent's doing.
    let rows = listed.of(&task);
    answers.extend(rows.into_iter().filter(Answer::is_running));
    answers.sort_by(|one, other| one.at.total_cmp(&other.at));
    Watched { task, answers, tree, last_text }
}

fn is_over(shape: &Shape, last: &Answer, budget: f64, patience: f64) -> bool {
    let found = match shape.expected {
        Expected::Healthy { .. } | Expected::Ends { .. } => false,
        Expected::Stuck { .. } => last.is_stuck() && last.names_kill(),
        Expected::Waits(_) => last.waiting_for.is_some(),
    };
    let has_its_word = match shape.expected {
        Expected::Healthy { statuses, .. } => statuses.contains(&last.status.as_str()),
        Expected::Stuck { .. } | Expected::Waits(_) => false,
        Expected::Ends { .. } => true,
    };
    let limit = if has_its_word { budget } else { budget * patience };
    found || !last.is_running() || last.at >= limit
}

fn next_wait(last: &Answer, budget: f64) -> f64 {
    let named = last.named_wait().unwrap_or(UNNAMED_WAIT);
    let left = (budget - last.at).max(0.1);
    named.min(LONGEST_WAIT).min(budget / FEWEST_ANSWERS).min(left)
}
