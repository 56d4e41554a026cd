//! Whether what was said of a shape is right.

use super::agent::Watch;
use super::answer::Answer;
use super::corpus::last_status;
use super::shape::{Expected, Shape};

/// How many seconds an answer may take on a busy machine.
const LATE: f64 = 3.0;

/// What is wrong with the answers about one shape.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What an agent that believes the answers would do wrong, or miss.
    pub harm: Vec<String>,
    /// The status or the reason of something healthy is not the one that is expected.
    pub misnamed: Vec<String>,
    /// It is said to wait for input, and does not.
    pub falsely_waiting: bool,
    /// What contradicts itself within one answer.
    pub contradictions: Vec<String>,
}

/// Judges the answers of a watch.
pub fn judge(shape: &Shape, answers: &[Answer], watch: &Watch) -> Verdict {
    let mut verdict = Verdict::default();
    for answer in answers {
        if answer.waiting_for.is_some() && answer.status != "blocked" {
            let contradiction = format!("waits and is {:?}: {}", answer.status, answer.line());
            verdict.contradictions.push(contradiction);
        }
    }
    match shape.expected {
        Expected::Healthy { statuses, says } => {
            left_alone(answers, &mut verdict);
            ended_well(answers, &mut verdict);
            named(answers, statuses, says, &mut verdict);
        }
        Expected::Stuck { says } => {
            verdict.harm.extend(stuck_in_time(answers, says, watch.stuck * watch.patience));
            never_waiting(answers, &mut verdict);
        }
        Expected::Waits(what) => {
            verdict.harm.extend(waits_in_time(answers, what, watch.prompt));
            never_stuck(answers, &mut verdict);
        }
        Expected::Ends { status, code } => {
            left_alone(answers, &mut verdict);
            let end = answers.iter().find(|answer| !answer.is_running());
            match end {
                Some(end) if end.task == status && end.exit_code == Some(code) => {}
                Some(end) => verdict.harm.push(format!(
                    "ended as {} with {:?}, not as {status} with {code}",
                    end.task, end.exit_code
                )),
                None => verdict.harm.push("its end was not told".to_owned()),
            }
        }
    }
    verdict
}

fn left_alone(answers: &[Answer], verdict: &mut Verdict) {
    never_stuck(answers, verdict);
    never_waiting(answers, verdict);
}

fn never_stuck(answers: &[Answer], verdict: &mut Verdict) {
    type Wrong = (&'static str, fn(&Answer) -> bool);
    let wrong: [Wrong; 3] = [
        ("called stuck", Answer::is_stuck),
        ("zsh_kill is named", Answer::names_kill),
        ("called hung", Answer::says_hung),
    ];
    for (what, is_wrong) in wrong {
        if let Some(answer) = answers.iter().find(|answer| is_wrong(answer)) {
            verdict.harm.push(format!("{what} after {:.0}s", answer.at));
        }
    }
}

fn never_waiting(answers: &[Answer], verdict: &mut Verdict) {
    if let Some(answer) = answers.iter().find(|answer| answer.waiting_for.is_some()) {
        verdict.falsely_waiting = true;
        let harm = format!("said to wait for input after {:.0}s", answer.at);
        verdict.harm.push(harm);
    }
}

/// What is healthy may end before the watch does, but not by a failure: that would be one
/// of the test's own.
fn ended_well(answers: &[Answer], verdict: &mut Verdict) {
    let end = answers.iter().find(|answer| !answer.is_running());
    if let Some(end) = end.filter(|end| end.exit_code != Some(0)) {
        let harm = format!("ended as {} with {:?}", end.task, end.exit_code);
        verdict.harm.push(harm);
    }
}

fn named(answers: &[Answer], statuses: &[&str], says: &[&str], verdict: &mut Verdict) {
    let status = last_status(answers);
    if !statuses.contains(&status) {
        verdict.misnamed.push(format!("called {status:?} at last, not one of {statuses:?}"));
    }
    if !answers.iter().any(|answer| answer.says_any(says)) {
        verdict.misnamed.push(format!("no evidence says {says:?}"));
    }
}

fn stuck_in_time(answers: &[Answer], says: &[&str], budget: f64) -> Option<String> {
    let named = answers
        .iter()
        .filter(|answer| answer.is_stuck() && answer.names_kill())
        .find(|answer| answer.says_any(says));
    match named {
        Some(answer) if answer.at <= budget + LATE => None,
        Some(answer) => Some(format!("called stuck only after {:.0}s", answer.at)),
        None if answers.iter().any(|answer| answer.is_stuck() && answer.names_kill()) => {
            Some(format!("called stuck, but no evidence says {says:?}"))
        }
        None if answers.iter().any(Answer::is_stuck) => {
            Some("called stuck, but zsh_kill is not named".to_owned())
        }
        None => Some("never called stuck".to_owned()),
    }
}

fn waits_in_time(answers: &[Answer], what: &str, within: f64) -> Option<String> {
    let found = answers.iter().find(|answer| answer.waiting_for.is_some() && !answer.listed);
    match found {
        Some(answer) if answer.waiting_for.as_deref() != Some(what) => {
            Some(format!("said to wait for {:?}, not {what}", answer.waiting_for))
        }
        Some(answer) if answer.silent_for > within => {
            Some(format!("found {:.1}s after its last output", answer.silent_for))
        }
        Some(_) => None,
        None => Some("never found waiting".to_owned()),
    }
}
