//! The progress of an agent run: one tracker from the run's first agent to its last.
//!
//! Probes of the agent's processes show signs of life; the agent's activities show progress. After
//! a new activity, the wait for a model's or a tool's answer is an open operation of the tracker.
//! Repetition opens none.
//!
//! Pure. Limits: `policy` decides how to act.

use std::time::{Duration, Instant};

use super::log::Heartbeat;
use super::state::Role;
use crate::agent::activity::Activity;
use crate::progress::tracker::{ChangeKind, Status, Totals, Tracker, TrackerSettings};
use crate::progress::tree_state::TreeState;
use crate::task::describe::tree_state_phrase;

/// A wait may take this multiple of the longest earlier wait.
const TIMES_THE_LONGEST: u32 = 2;

/// The tracker of a run, with the data for its time budgets.
#[derive(Debug, Clone)]
pub(crate) struct RunTracker {
    tracker: Tracker,
    iteration: u32,
    /// The totals of all earlier agents.
    before: Totals,
    /// The totals of this agent at the last probe.
    seen: Totals,
    /// When the agent last had an activity.
    last_activity: Instant,
    longest_wait: Duration,
    inactivity: Duration,
    /// How long such an agent usually takes.
    usual: Option<Duration>,
    /// What its processes did at the last probe, in words.
    tree_state: Option<String>,
}

impl RunTracker {
    /// Tracks a run that starts or resumes now, whose agents are killed after a silence of
    /// `inactivity`.
    pub(crate) fn new(settings: TrackerSettings, inactivity: Duration, now: Instant) -> RunTracker {
        RunTracker {
            tracker: Tracker::new(settings, now),
            iteration: 0,
            before: Totals::default(),
            seen: Totals::default(),
            last_activity: now,
            longest_wait: Duration::ZERO,
            inactivity,
            usual: None,
            tree_state: None,
        }
    }

    /// Records the start of an agent.
    pub(crate) fn begin(&mut self, role: &str, iteration: u32, now: Instant) {
        self.before = sum(&self.before, &self.seen);
        self.seen = Totals::default();
        self.iteration = iteration;
        self.usual = None;
        self.last_activity = now;
        self.tracker.heartbeat(now);
        let novel = format!("{role} of iteration {iteration}");
        self.tracker.change(now, ChangeKind::StateChange, &novel);
        self.open(now);
    }

    /// Sets how long such an agent usually takes.
    pub(crate) fn expect(&mut self, usual: Duration) {
        self.usual = Some(usual);
    }

    /// Records activities of the agent.
    pub(crate) fn record(&mut self, activities: &[Activity], now: Instant) {
        if activities.is_empty() {
            return;
        }
        let wait = now.saturating_duration_since(self.last_activity);
        self.longest_wait = self.longest_wait.max(wait);
        self.last_activity = now;
        let changes = activities.iter().filter_map(change_of);
        let novel: Vec<bool> =
            changes.map(|(kind, payload)| self.tracker.change(now, kind, &payload)).collect();
        // Records without a change, such as the stream's first, have no effect.
        if novel.contains(&true) {
            self.open(now);
        } else if !novel.is_empty() {
            self.tracker.busy_until = None;
        }
    }

    fn open(&mut self, now: Instant) {
        let longest = self.longest_wait.saturating_mul(TIMES_THE_LONGEST);
        let budget = self.inactivity.max(longest);
        let budget = self.usual.map_or(budget, |usual| budget.max(usual));
        self.tracker.busy_until = now.checked_add(budget).or(Some(now));
    }

    /// Records a probe of the agent's processes: their totals, and what they do and for how long.
    pub(crate) fn probe(
        &mut self,
        totals: Totals,
        tree_state: Option<(&TreeState, Duration)>,
        now: Instant,
    ) {
        self.seen = totals;
        let kind = tree_state.map(|(state, _)| state.kind());
        self.tree_state = tree_state.and_then(|(state, lasted)| tree_state_phrase(state, lasted));
        let totals = sum(&self.before, &totals);
        self.tracker.probe(now, totals, kind);
    }

    pub(crate) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// The current status.
    pub(crate) fn status(&self, now: Instant) -> Status {
        self.tracker.status(now)
    }

    /// The status for the log. `unix` is `now` in Unix seconds.
    pub(crate) fn heartbeat(&self, role: Role, now: Instant, unix: f64) -> Heartbeat {
        let change = self.tracker.last_change;
        let ago = change.map(|change| now.saturating_duration_since(change.at).as_secs_f64());
        Heartbeat {
            status: self.status(now).to_string(),
            heartbeats: self.tracker.heartbeat_count,
            state_changes: self.tracker.change_count,
            last_change: change.map(|change| change.kind.name().to_owned()),
            last_change_ts: ago.map(|ago| unix - ago),
            phase: role.name().to_owned(),
            iteration: self.iteration,
            evidence: self.evidence(),
            alive: self.tracker.alive(now),
            stuck: self.tracker.stuck(now),
        }
    }

    /// The evidence of the last probe, the strongest first.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let Some(delta) = self.tracker.delta() else {
            return Vec::new();
        };
        let mut words = Vec::new();
        if delta.output > 0 {
            words.push(format!("output +{} bytes", delta.output));
        }
        if delta.io > 0 {
            words.push(format!("io +{} bytes", delta.io));
        }
        if delta.born > 0 || delta.ended > 0 {
            words.push(format!("processes +{} -{}", delta.born, delta.ended));
        }
        words.extend(self.tree_state.clone());
        words.push(format!("cpu {:.0}%", 100.0 * delta.cpu_share));
        words
    }
}

fn sum(one: &Totals, other: &Totals) -> Totals {
    Totals {
        output: one.output.saturating_add(other.output),
        io: one.io.saturating_add(other.io),
        moved: one.moved.saturating_add(other.moved),
        born: one.born.saturating_add(other.born),
        ended: one.ended.saturating_add(other.ended),
        cpu: one.cpu.saturating_add(other.cpu),
    }
}

/// The kind of progress that an activity may be, with its text.
fn change_of(activity: &Activity) -> Option<(ChangeKind, String)> {
    Some(match activity {
        Activity::Text(text) | Activity::ToolResult { text, .. } => {
            (ChangeKind::Output, text.clone())
        }
        Activity::ToolCall { name, argument } => {
            (ChangeKind::ToolCall, format!("{name} {argument}"))
        }
        Activity::Reflection(text) => (ChangeKind::ReflectionComplete, text.clone()),
        Activity::Plan(text) => (ChangeKind::PlanGenerated, text.clone()),
        Activity::FileWritten { path } => (ChangeKind::FileWritten, path.clone()),
        // A retry shows that the agent is alive, not that it gets anywhere.
        Activity::Session { .. }
        | Activity::Final(_)
        | Activity::Usage(_)
        | Activity::Denied(_)
        | Activity::Retry(_)
        | Activity::Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn run_tracker() -> (RunTracker, Instant) {
        let settings = TrackerSettings { heartbeat_interval: INTERVAL, stuck_threshold: 3 };
        let now = Instant::now();
        let mut run_tracker = RunTracker::new(settings, 30 * INTERVAL, now);
        run_tracker.begin("worker", 1, now);
        (run_tracker, now)
    }

    fn call(argument: &str) -> Activity {
        Activity::ToolCall { name: "Bash".to_owned(), argument: argument.to_owned() }
    }

    #[test]
    fn an_agent_whose_build_computes_is_not_stuck() {
        let (mut run_tracker, start) = run_tracker();
        for interval in 1..=6 {
            run_tracker.record(&[call("make")], start + interval * INTERVAL);
            probe(&mut run_tracker, start + interval * INTERVAL, u64::from(interval));
        }
        let now = start + 7 * INTERVAL;
        probe(&mut run_tracker, now, 7);
        assert_eq!(run_tracker.status(now), Status::Stuck);
        let busy = TreeState::Computing { process: None, share: 0.98 };
        let totals = Totals { output: 8, ..Totals::default() };
        run_tracker.probe(totals, Some((&busy, INTERVAL)), now);
        assert_eq!(run_tracker.status(now), Status::Slow);
        let evidence = run_tracker.evidence();
        assert!(evidence.contains(&"busy: 98% CPU for 10s".to_owned()));
    }

    fn probe(run_tracker: &mut RunTracker, now: Instant, output: u64) {
        let totals = Totals { output, ..Totals::default() };
        run_tracker.probe(totals, None, now);
    }

    #[test]
    fn the_same_call_forever_is_stuck() {
        let (mut run_tracker, start) = run_tracker();
        for round in 1..=5 {
            let now = start + round * INTERVAL;
            run_tracker.record(&[call("cat config.json")], now);
            probe(&mut run_tracker, now, u64::from(round) * 100);
        }
        assert_eq!(run_tracker.status(start + 5 * INTERVAL), Status::Stuck);
    }

    #[test]
    fn a_long_wait_after_something_new_is_slow() {
        let (mut run_tracker, start) = run_tracker();
        run_tracker.record(&[call("make")], start);
        for round in 1..=20 {
            probe(&mut run_tracker, start + round * INTERVAL, u64::from(round));
        }
        assert_eq!(run_tracker.status(start + 20 * INTERVAL), Status::Slow);
    }

    #[test]
    fn a_first_call_that_takes_long_is_slow_whatever_the_stream_begins_with() {
        let (mut run_tracker, start) = run_tracker();
        let id = "1".to_owned();
        run_tracker.record(&[Activity::Session { id }, Activity::Other], start);
        for round in 1..=20 {
            probe(&mut run_tracker, start + round * INTERVAL, u64::from(round));
        }
        assert_eq!(run_tracker.status(start + 20 * INTERVAL), Status::Slow);
    }

    #[test]
    fn new_calls_are_progress() {
        let (mut run_tracker, start) = run_tracker();
        for (round, name) in (1..).zip(["ls", "cat a", "make"]) {
            let now = start + round * INTERVAL;
            run_tracker.record(&[call(name)], now);
            probe(&mut run_tracker, now, u64::from(round));
            assert_eq!(run_tracker.status(now), Status::Progressing, "{name}");
        }
    }

    #[test]
    fn the_next_agent_counts_from_its_own_beginning() {
        let (mut run_tracker, start) = run_tracker();
        probe(&mut run_tracker, start + INTERVAL, 5000);
        run_tracker.begin("auditor", 1, start + INTERVAL);
        probe(&mut run_tracker, start + 2 * INTERVAL, 7);
        let delta = run_tracker.tracker().delta().copied().unwrap_or_default();
        assert_eq!(delta.output, 7);
        assert!(run_tracker.evidence().contains(&"output +7 bytes".to_owned()));
    }
}
