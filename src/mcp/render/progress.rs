//! The progress of a running task: the `◷` line, the same as JSON, and advice.

use std::time::Duration;

use serde_json::{Value, json};

use super::view::{ProgressStatus, View};
use crate::alan::estimate::{self, Estimate, MIN_POLL_S, MIN_SAMPLES, Quantile};
use crate::alan::history::History;
use crate::alan::insight::{KIND_CHARS, truncate};
use crate::progress::advice::{Advice, Situation, advise};
use crate::progress::tracker::Status;
use crate::progress::{advice, condition::Condition};
use crate::shell::outcome::Outcome;
use crate::task::describe;
use crate::task::live::Input;
use crate::text::foreign;
use crate::text::quantity::{seconds, size, tenths};

/// The maximum length of the `◷` line.
const LINE_CHARS: usize = 160;

/// `◷ silent 18s · 5 empty polls · typical 47s, 90% within 180s; 4 of 12 runs had finished by this
/// time · ~25s left · progressing: read or wrote 5.5 MB · next: zsh_poll wait_for=end listen=25`
///
/// `next` is the suggested call; `None` if the advice names one.
pub(crate) fn line(
    view: &View,
    estimate: Option<&Estimate>,
    next: Option<String>,
) -> Option<String> {
    let mut parts = Vec::new();
    if view.task.attached {
        parts.push("person attached".to_owned());
    }
    if view.silent_for() >= Duration::from_secs(1) {
        parts.push(format!("silent {}", seconds(view.silent_for())));
    }
    match view.empty_polls.polls {
        0 => {}
        1 => parts.push("1 empty poll".to_owned()),
        polls => parts.push(format!("{polls} empty polls")),
    }
    if view.task.input.queued > 0 {
        let waits = size(view.task.input.queued as u64);
        parts.push(format!("{waits} of input wait to be read"));
    }
    let progress = view.progress.as_ref();
    let beside = progress.and_then(|progress| describe::beside(&progress.verdict));
    let progress = progress.and_then(ProgressStatus::summary);
    let is_new = |phrase: &String| progress.as_ref().is_none_or(|told| !told.contains(phrase));
    let beside = beside.filter(is_new);
    let next = next.map(|call| format!("next: {call}"));
    let separator = " · ";
    let room = LINE_CHARS - next.as_ref().map_or(0, |next| separator.len() + next.len());
    let join = |detail| {
        let estimated = estimate.map(|estimate| estimated(estimate, view.elapsed(), detail));
        let estimated = estimated.into_iter().flatten();
        let all: Vec<String> =
            parts.iter().cloned().chain(estimated).chain(progress.clone()).collect();
        all.into_iter().chain(beside.clone()).collect::<Vec<_>>().join(separator)
    };
    let mut known = join(Detail::Runs);
    // The task's activity matters more than the number of runs behind the estimate.
    if "◷ ".chars().count() + known.chars().count() > room {
        known = join(Detail::Durations);
    }
    let known = (!known.is_empty()).then(|| {
        let cut: String = format!("◷ {known}").chars().take(room).collect();
        foreign::closed(cut.trim_end_matches([' ', '·']))
    });
    match (known, next) {
        (Some(known), Some(next)) => Some(format!("{known}{separator}{next}")),
        (None, Some(next)) => Some(format!("◷ {next}")),
        (known, None) => known,
    }
}

/// How many seconds the next poll should wait. `None` for a task that has ended, is stopped, waits
/// for input, or waits by design.
pub(crate) fn next_wait(
    view: &View,
    estimate: Option<&Estimate>,
    ceiling: Duration,
) -> Option<f64> {
    let by_design = view.progress.as_ref().is_some_and(ProgressStatus::waits_by_design);
    let stopped = view.conditions().iter().any(Condition::holds_up);
    let held_up = view.waiting().is_some() || stopped || by_design;
    (view.running() && !held_up).then(|| next_poll(view, estimate, ceiling))
}

/// How much of an estimate is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Durations,
    /// Also how many runs had finished by this time.
    Runs,
}

fn estimated(estimate: &Estimate, elapsed: Duration, detail: Detail) -> Vec<String> {
    let elapsed = elapsed.as_secs_f64();
    let (median, p90) = (quantile(estimate.median), quantile(estimate.p90));
    let mut durations = format!("typical {median}, 90% within {p90}");
    if detail == Detail::Runs {
        let runs = estimate.sample_size;
        let finished = estimate.completed_within(elapsed);
        // A percentage would read as this run's progress.
        durations.push_str(&if finished >= runs {
            format!("; longer than all {runs} finished runs")
        } else {
            format!("; {finished} of {runs} runs had finished by this time")
        });
    }
    let mut parts = vec![durations];
    parts.extend(estimate.remaining(elapsed).map(|left| format!("~{} left", short_duration(left))));
    parts
}

fn quantile(quantile: Quantile) -> String {
    let bound = if quantile.is_bound { " or more" } else { "" };
    format!("{}{bound}", short_duration(quantile.seconds))
}

/// A duration, with tenths of a second below 10 s.
pub(crate) fn short_duration(time: f64) -> String {
    if time < 10.0 { format!("{time:.1}s") } else { seconds(Duration::from_secs_f64(time)) }
}

/// The progress of a running task, as JSON.
pub(crate) fn meta(
    view: &View,
    input: Input,
    estimate: Option<&Estimate>,
    ceiling: Duration,
    suggestion: Option<String>,
) -> Value {
    let elapsed = view.elapsed().as_secs_f64();
    json!({
        "polls_since_output": view.empty_polls.polls,
        "elapsed_since_last_output_s": tenths(view.silent_for().as_secs_f64()),
        "total_elapsed_s": tenths(elapsed),
        "alan_estimate": estimate.map(|estimate| estimate_meta(estimate, elapsed)),
        "remaining_s": estimate.and_then(|estimate| estimate.remaining(elapsed)).map(tenths),
        "next_poll_s": tenths(next_poll(view, estimate, ceiling)),
        "suggestion": suggestion,
        "progress": progress_meta(view, input),
    })
}

fn progress_meta(view: &View, input: Input) -> Value {
    let waiting = view.waiting();
    let progress = view.progress.as_ref();
    json!({
        "status": view.status().map(|status| status.to_string()),
        "evidence": evidence(view, input),
        "over_s": progress.map(|progress| tenths(progress.verdict.delta.time.as_secs_f64())),
        "waiting_for": waiting.map(|waiting| describe::wanted_word(waiting.wanted)),
        "prompt": waiting.map(|waiting| waiting.prompt.trim()),
        "tracker": progress.map(|progress| if progress.degraded { "degraded" } else { "whole" }),
    })
}

/// All evidence of a task's progress, the strongest first.
pub(crate) fn evidence(view: &View, input: Input) -> Vec<String> {
    let waiting = view.waiting();
    let mut evidence: Vec<String> =
        waiting.map(|waiting| describe::input_proof_phrase(waiting, input)).into_iter().collect();
    evidence.extend(describe::condition_phrases(view.conditions()));
    evidence.extend(view.progress.iter().flat_map(|now| describe::evidence(&now.verdict)));
    evidence
}

fn estimate_meta(estimate: &Estimate, elapsed: f64) -> Value {
    json!({
        "command_template": estimate.template,
        "median_duration_s": tenths(estimate.median.seconds),
        "p90_duration_s": tenths(estimate.p90.seconds),
        "completion_probability": (100.0 * estimate.completion_probability(elapsed)).round() / 100.0,
        "sample_size": estimate.sample_size,
        "basis": estimate.basis.as_str(),
        "at_least": estimate.median.is_bound,
        "p90_at_least": estimate.p90.is_bound,
    })
}

/// How many seconds the next poll should wait; `ceiling` is the longest wait of a call.
pub(crate) fn next_poll(view: &View, estimate: Option<&Estimate>, ceiling: Duration) -> f64 {
    let is_healthy = view.status().is_some_and(Status::extends_deadline);
    next_poll_after(view.elapsed().as_secs_f64(), is_healthy, estimate, ceiling.as_secs_f64())
}

/// A healthy task can be waited for up to the ceiling, since the wait ends when the task becomes
/// stuck.
fn next_poll_after(
    elapsed: f64,
    is_healthy: bool,
    estimate: Option<&Estimate>,
    ceiling: f64,
) -> f64 {
    let blind = if is_healthy { ceiling } else { estimate::next_blind_poll(elapsed) };
    let wait = estimate.map_or(blind, |estimate| estimate.next_poll(elapsed, blind));
    wait.clamp(MIN_POLL_S, ceiling)
}

/// When a known command has probably ended. `None` without enough completed runs, or if the last
/// run failed.
pub(crate) fn known_end(history: &History) -> Option<Duration> {
    let ended = history.runs.iter().filter(|run| run.outcome.is_complete()).count();
    let succeeded = history.runs.first().is_some_and(|run| run.outcome == Outcome::Success);
    let estimate = history.estimate.as_ref().filter(|_| ended >= MIN_SAMPLES && succeeded)?;
    Duration::try_from_secs_f64(estimate.sufficient_time()).ok()
}

/// The advice about a running task, if any.
pub(crate) fn advice(view: &View, new_output: bool, estimate: Option<&Estimate>) -> Option<Advice> {
    // The line about the stop names the remedy.
    if !view.running() || view.conditions().iter().any(Condition::holds_up) {
        return None;
    }
    let progress = view.progress.as_ref();
    advise(&Situation {
        new_output,
        empty_polls: view.empty_polls.polls,
        idle_polls: view.empty_polls.weight,
        silent_for: view.silent_for(),
        elapsed: view.elapsed(),
        estimate: estimate.map(for_advice),
        waiting_for_input: view.waiting().is_some(),
        stuck: progress.and_then(ProgressStatus::stuck_reason),
        lock_holder: progress.and_then(ProgressStatus::lock_holder).map(str::to_owned),
        mute_peer: progress.and_then(ProgressStatus::mute_peer),
        repetition: progress
            .filter(|_| view.repeats_anew)
            .and_then(|progress| describe::repetition_phrase(&progress.verdict)),
        seems_done: progress.and_then(ProgressStatus::seems_done),
        shows_screen: progress.is_some_and(ProgressStatus::accepts_keys),
        waits_by_design: progress
            .is_some_and(|progress| progress.waits_by_design() && !progress.accepts_keys()),
        io_progress: progress.is_some_and(|progress| progress.moves_bytes),
        does_something_new: progress.is_some_and(|progress| progress.does_something_new()),
        unseen: progress.is_some_and(|progress| progress.verdict.tree_state.is_none()),
    })
}

/// How long such a command may run before it is overdue: its p90 or its longest run, whichever is
/// longer.
pub(crate) fn longest_expected(estimate: &Estimate) -> Option<Duration> {
    let seconds = estimate.p90.seconds.max(estimate.longest());
    Duration::try_from_secs_f64(seconds).ok()
}

fn for_advice(estimate: &Estimate) -> advice::DurationEstimate {
    advice::DurationEstimate {
        template: truncate(&estimate.template, KIND_CHARS).into_owned(),
        median: Duration::try_from_secs_f64(estimate.median.seconds).unwrap_or_default(),
        longest: Duration::try_from_secs_f64(estimate.longest()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::estimate::Sample;
    use crate::base::clock::{Clock, SystemClock};
    use crate::process::probe::Identity;
    use crate::progress::wait::ProcessName;
    use crate::progress::waiting::{InputProof, Waiting, WantedInput};
    use crate::task::live::{Facts, LiveTask};
    use crate::task::request::AtTimeout;

    /// A task that has just started.
    fn view(waiting: Option<Waiting>) -> View {
        let now = SystemClock.now();
        let live = LiveTask::new(Facts {
            id: "3dc8c9ee".to_owned(),
            command: "make".to_owned(),
            description: None,
            part_of: None,
            detached: None,
            chosen_shell: None,
            in_session: false,
            directory: "/".into(),
            started: now,
            timeout: None,
            at_timeout: AtTimeout::Kill,
            memory_max: None,
            sandbox: None,
            input: Input::Terminal,
            shell: Identity::default(),
            start_notes: Vec::new(),
        });
        live.report(|state| state.waiting = waiting.map(Box::new));
        View::take(&live)
    }

    #[test]
    fn a_task_that_waits_for_input_is_blocked_before_anything_else_is_known_of_it() {
        let waiting = Waiting {
            wanted: WantedInput::Input,
            proof: InputProof::Blocked,
            prompt: String::new(),
            reader: ProcessName { pid: 4711, name: "cargo".into() },
            program: None,
        };
        let meta = progress_meta(&view(Some(waiting)), Input::Terminal);
        assert_eq!((&meta["status"], &meta["waiting_for"]), (&json!("blocked"), &json!("input")));
        assert_eq!(progress_meta(&view(None), Input::Terminal)["status"], Value::Null);
    }

    /// The turns of an agent that starts a command, gets control after 2 s, and then makes the call
    /// that each answer names.
    fn turns(job: f64, estimate: Option<&Estimate>, ceiling: f64) -> u32 {
        let (mut turns, mut elapsed) = (1, 2.0);
        while elapsed < job {
            elapsed += next_poll_after(elapsed, true, estimate, ceiling);
            turns += 1;
        }
        turns
    }

    #[test]
    fn a_job_takes_as_few_turns_as_its_client_allows() {
        let runs_of = |seconds: f64, runs: usize| {
            let spread = [1.0, 0.98, 1.02, 0.99, 1.01];
            let runs = spread.iter().cycle().take(runs);
            let runs = runs.map(|factor| Sample { seconds: seconds * factor, completed: true });
            Estimate::new("make *", &[], &runs.collect::<Vec<_>>())
        };
        let (unknown, terminal, codex, headless) = (50.0, 110.0, 280.0, 600.0);
        for estimate in [None, runs_of(120.0, 3), runs_of(120.0, 20)] {
            for (ceiling, limit) in
                [(unknown, 4), (terminal, 3), (130.0, 2), (codex, 2), (headless, 2)]
            {
                let turns = turns(120.0, estimate.as_ref(), ceiling);
                assert!(turns <= limit, "{turns} turns under {ceiling} s of {estimate:?}");
            }
        }
        for estimate in [None, runs_of(600.0, 3), runs_of(600.0, 20)] {
            for (ceiling, limit) in [(unknown, 13), (terminal, 7), (codex, 4), (headless, 2)] {
                let turns = turns(600.0, estimate.as_ref(), ceiling);
                assert!(turns <= limit, "{turns} turns under {ceiling} s of {estimate:?}");
            }
        }
    }

    #[test]
    fn a_task_without_signs_of_progress_is_polled_more_often() {
        assert_eq!(next_poll_after(2.0, false, None, 280.0), 20.0);
        assert_eq!(next_poll_after(30.0, false, None, 280.0), 50.0);
        assert_eq!(next_poll_after(2.0, false, None, 5.0), 5.0);
    }

    #[test]
    fn an_estimate_reads_as_what_is_usual_and_what_is_left() {
        let samples: Vec<Sample> = (1..=10)
            .map(|run| Sample { seconds: 12.0 * f64::from(run), completed: true })
            .collect();
        let estimate = Estimate::new("make *", &[], &samples).expect("enough runs");
        assert_eq!(
            estimated(&estimate, Duration::from_secs(40), Detail::Runs).join(" · "),
            "typical 72s, 90% within 118s; 3 of 10 runs had finished by this time · ~44s left"
        );
        assert_eq!(
            estimated(&estimate, Duration::from_secs(121), Detail::Runs).join(" · "),
            "typical 72s, 90% within 118s; longer than all 10 finished runs"
        );
        assert_eq!(short_duration(4.26), "4.3s");
        let mut long = view(None);
        (long.now, long.empty_polls.polls) = (long.now + 60.0, 1_000_000);
        long.task.input.queued = 5_500_000;
        let line =
            line(&long, Some(&estimate), Some("zsh_poll listen=25".to_owned())).expect("a line");
        assert!(line.contains("typical 72s, 90% within 118s · ~"), "{line}");
        assert!(line.ends_with(" · next: zsh_poll listen=25"), "{line}");
    }

    #[test]
    fn a_figure_from_few_runs_reads_as_a_bound() {
        let samples = [8.0, 10.0, 12.5].map(|seconds| Sample { seconds, completed: true });
        let estimate = Estimate::new("make *", &[], &samples).expect("enough runs");
        assert_eq!(
            estimated(&estimate, Duration::from_millis(8500), Detail::Runs).join(" · "),
            "typical 10s, 90% within 16s or more; 1 of 3 runs had finished by this time · ~2.7s left"
        );
        let meta = estimate_meta(&estimate, 0.0);
        assert_eq!((&meta["at_least"], &meta["p90_at_least"]), (&json!(false), &json!(true)));
    }
}
