//! How far a running task is: the `◷` line, and its twin for programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::insight::size;
use super::progress::{self, Standing};
use super::times::seconds;
use super::view::View;
use crate::alan::estimate::{self, Estimate, Quantile};
use crate::alan::insight::{KIND_CHARS, cut};
use crate::progress::advice::{Advice, Situation, advise};
use crate::progress::tracker::Status;
use crate::progress::{advice, condition::Condition};
use crate::task::live::Input;

/// The line is no longer than this.
const LINE_CHARS: usize = 160;

/// `◷ silent 18s · 5 empty polls · typical 47s (p90 180s, 12 runs), 35% done by now · ~25s left · progressing: io +5.5 MB · next: listen=25`
///
/// `next` is how many seconds a wait is worth, where no advice below names a call.
pub fn line(view: &View, estimate: Option<&Estimate>, next: Option<f64>) -> Option<String> {
    let mut parts = Vec::new();
    if view.silent_for >= Duration::from_secs(1) {
        parts.push(format!("silent {}", seconds(view.silent_for)));
    }
    match view.idle_polls {
        0 => {}
        1 => parts.push("1 empty poll".to_owned()),
        polls => parts.push(format!("{polls} empty polls")),
    }
    if view.queued_input > 0 {
        let waits = size(view.queued_input as u64);
        parts.push(format!("{waits} of input wait to be read"));
    }
    if let Some(estimate) = estimate {
        parts.extend(estimated(estimate, view.elapsed.as_secs_f64()));
    }
    parts.extend(view.standing.as_ref().and_then(progress::part));
    let next = next.map(|seconds| format!("next: listen={:.0}", seconds.ceil()));
    let (known, separator) = (parts.join(" · "), " · ");
    let room = LINE_CHARS - next.as_ref().map_or(0, |next| separator.len() + next.len());
    let known =
        (!known.is_empty()).then(|| format!("◷ {known}").chars().take(room).collect::<String>());
    match (known, next) {
        (Some(known), Some(next)) => Some(format!("{known}{separator}{next}")),
        (None, Some(next)) => Some(format!("◷ {next}")),
        (known, None) => known,
    }
}

/// How many seconds a wait is worth, for a task that nothing holds up.
pub fn next_wait(view: &View, estimate: Option<&Estimate>) -> Option<f64> {
    let held_up = view.waiting.is_some() || view.conditions.iter().any(Condition::holds_up);
    (view.running() && !held_up).then(|| next_poll(view, estimate))
}

fn estimated(estimate: &Estimate, elapsed: f64) -> Vec<String> {
    let runs = match estimate.sample_size {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let done = estimate.completion_probability(elapsed);
    // `100% done` would read as if this run were.
    let so_far = match done {
        1.0.. => "longer than all of them".to_owned(),
        _ => format!("{:.0}% done by now", (100.0 * done).min(99.0)),
    };
    let mut parts = vec![format!(
        "typical {} (p90 {}, {runs}), {so_far}",
        quantile(estimate.median),
        quantile(estimate.p90),
    )];
    parts.extend(
        estimate
            .remaining(elapsed)
            .map(|left| format!("~{} left", short(left))),
    );
    parts
}

fn quantile(quantile: Quantile) -> String {
    let sign = if quantile.at_least { "≥" } else { "" };
    format!("{sign}{}", short(quantile.seconds))
}

/// Seconds; tenths of short ones matter.
fn short(time: f64) -> String {
    if time < 10.0 {
        format!("{time:.1}s")
    } else {
        seconds(Duration::from_secs_f64(time))
    }
}

/// What a poll of a running task says, for programs.
pub fn meta(
    view: &View,
    input: Input,
    estimate: Option<&Estimate>,
    advice: Option<&Advice>,
) -> Value {
    let elapsed = view.elapsed.as_secs_f64();
    json!({
        "polls_since_output": view.idle_polls,
        "elapsed_since_last_output_s": tenths(view.silent_for.as_secs_f64()),
        "total_elapsed_s": tenths(elapsed),
        "alan_estimate": estimate.map(|estimate| estimate_meta(estimate, Some(elapsed))),
        "remaining_s": estimate.and_then(|estimate| estimate.remaining(elapsed)).map(tenths),
        "next_poll_s": tenths(next_poll(view, estimate)),
        "suggestion": advice.map(ToString::to_string),
        "progress": progress::meta(
            view.standing.as_ref(),
            view.waiting.as_ref(),
            &view.conditions,
            input,
        ),
    })
}

/// An estimate for programs; how much of it is over only where time has passed.
pub fn estimate_meta(estimate: &Estimate, elapsed: Option<f64>) -> Value {
    json!({
        "command_template": estimate.template,
        "median_duration_s": tenths(estimate.median.seconds),
        "p90_duration_s": tenths(estimate.p90.seconds),
        "completion_probability": elapsed.map(|elapsed| {
            (100.0 * estimate.completion_probability(elapsed)).round() / 100.0
        }),
        "sample_size": estimate.sample_size,
        "basis": estimate.basis.as_str(),
        "at_least": estimate.median.at_least,
        "p90_at_least": estimate.p90.at_least,
    })
}

/// After how many seconds the next look is worth its tokens.
pub fn next_poll(view: &View, estimate: Option<&Estimate>) -> f64 {
    let elapsed = view.elapsed.as_secs_f64();
    match estimate {
        Some(estimate) => estimate.next_poll(elapsed),
        None => estimate::next_blind_poll(elapsed),
    }
}

/// What to do about a running task, if there is anything to be advised.
pub fn advice(view: &View, new_output: bool, estimate: Option<&Estimate>) -> Option<Advice> {
    // What stopped it is told with what to do about it.
    if !view.running() || view.conditions.iter().any(Condition::holds_up) {
        return None;
    }
    let standing = view.standing.as_ref();
    advise(&Situation {
        new_output,
        idle_polls: view.idle_polls,
        silent_for: view.silent_for,
        elapsed: view.elapsed,
        estimate: estimate.map(for_advice),
        waiting_for_input: view.waiting.is_some(),
        stuck_for: standing
            .filter(|standing| standing.status == Status::Stuck)
            .map(|standing| standing.unchanged_for),
        io_progress: standing.is_some_and(|standing| standing.moves_bytes),
        does_something_new: standing.is_some_and(|standing| standing.does_something_new),
        computes: standing.is_some_and(Standing::computes),
    })
}

/// Within how long such a command is nothing but slow.
pub fn usual(estimate: &Estimate) -> Option<Duration> {
    Duration::try_from_secs_f64(estimate.p90.seconds).ok()
}

fn for_advice(estimate: &Estimate) -> advice::Estimate {
    advice::Estimate {
        template: cut(&estimate.template, KIND_CHARS).into_owned(),
        median: Duration::try_from_secs_f64(estimate.median.seconds).unwrap_or_default(),
    }
}

fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alan::estimate::Sample;

    #[test]
    fn an_estimate_reads_as_what_is_usual_and_what_is_left() {
        let samples: Vec<Sample> = (1..=10)
            .map(|run| Sample {
                seconds: 12.0 * f64::from(run),
                completed: true,
            })
            .collect();
        let estimate = Estimate::new("make *", &[], &samples).expect("enough runs");
        assert_eq!(
            estimated(&estimate, 40.0).join(" · "),
            "typical 72s (p90 2m00s, 10 runs), 30% done by now · ~44s left"
        );
        assert_eq!(
            estimated(&estimate, 121.0).join(" · "),
            "typical 72s (p90 2m00s, 10 runs), longer than all of them"
        );
        assert_eq!(short(4.26), "4.3s");
    }
}
