//! How an agent run gets on: one tracker from the run's first agent to its last.
//!
//! Signs of life come from looks at the agent's processes, progress from what the agent
//! says it does. What an agent waits for after it has done something new, a model's answer
//! or a tool's, is an open operation of the tracker; what it repeats opens none.
//!
//! Pure. Limits: what is done about it is `policy`'s.

use std::time::{Duration, Instant};

use super::log::Heartbeat;
use super::stage::Role;
use crate::agent::activity::Activity;
use crate::progress::tracker::{BlockedOn, ChangeKind, Settings, Status, Totals, Tracker};

/// A wait is within its budget up to so many times the longest one before it.
const TIMES_THE_LONGEST: u32 = 2;

/// The tracker of a run, and what its budgets are made of.
#[derive(Debug, Clone)]
pub struct Pulse {
    tracker: Tracker,
    iteration: u32,
    /// What agents before this one had done in all.
    before: Totals,
    /// What this one had done at the last look.
    seen: Totals,
    /// When the agent last said anything.
    last_word: Instant,
    longest_wait: Duration,
    inactivity: Duration,
    /// How long such an agent usually takes at most.
    usual: Option<Duration>,
}

impl Pulse {
    /// Of a run that begins, or is taken up again, now. Silence for `inactivity` ends an
    /// agent.
    pub fn new(settings: Settings, inactivity: Duration, now: Instant) -> Pulse {
        Pulse {
            tracker: Tracker::new(settings, now),
            iteration: 0,
            before: Totals::default(),
            seen: Totals::default(),
            last_word: now,
            longest_wait: Duration::ZERO,
            inactivity,
            usual: None,
        }
    }

    /// An agent starts.
    pub fn begin(&mut self, role: &str, iteration: u32, now: Instant) {
        self.before = sum(&self.before, &self.seen);
        self.seen = Totals::default();
        self.iteration = iteration;
        self.usual = None;
        self.last_word = now;
        self.tracker.heartbeat(now, Some(u64::from(iteration)));
        let novel = format!("{role} of iteration {iteration}");
        self.tracker.change(now, ChangeKind::StateChange, &novel);
        self.open(now);
    }

    /// How long such an agent usually takes at most.
    pub fn expect(&mut self, usual: Duration) {
        self.usual = Some(usual);
    }

    /// The agent has done or said something.
    pub fn take(&mut self, activities: &[Activity], now: Instant) {
        if activities.is_empty() {
            return;
        }
        let wait = now.saturating_duration_since(self.last_word);
        self.longest_wait = self.longest_wait.max(wait);
        self.last_word = now;
        let changes = activities.iter().filter_map(change_of);
        let novel: Vec<bool> = changes
            .map(|(kind, payload)| self.tracker.change(now, kind, &payload))
            .collect();
        // What tells of no deed, as the stream's first record, leaves all as it was.
        match novel.contains(&true) {
            true => self.open(now),
            false if novel.is_empty() => {}
            false => self.tracker.end_operation(),
        }
    }

    fn open(&mut self, now: Instant) {
        let longest = self.longest_wait.saturating_mul(TIMES_THE_LONGEST);
        let budget = self.inactivity.max(longest);
        let budget = self.usual.map_or(budget, |usual| budget.max(usual));
        self.tracker.begin_operation(now, Some(budget));
    }

    /// The agent's processes, as of the newest look at them.
    pub fn look(&mut self, totals: Totals, blocked: Option<BlockedOn>, now: Instant) {
        self.seen = totals;
        self.tracker.look(now, sum(&self.before, &totals), blocked);
    }

    /// The tracker.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// How it is.
    pub fn status(&self, now: Instant) -> Status {
        self.tracker.status(now)
    }

    /// All of it, for the log. `unix` is the same moment in Unix seconds.
    pub fn heartbeat(&self, role: Role, now: Instant, unix: f64) -> Heartbeat {
        let change = self.tracker.last_change();
        let ago = change.map(|change| now.saturating_duration_since(change.at).as_secs_f64());
        Heartbeat {
            status: self.status(now).to_string(),
            heartbeats: self.tracker.heartbeat_count(),
            state_changes: self.tracker.change_count(),
            last_change: change.map(|change| change.kind.name().to_owned()),
            last_change_ts: ago.map(|ago| unix - ago),
            phase: role.name().to_owned(),
            iteration: self.iteration,
            evidence: self.evidence(),
            alive: self.tracker.alive(now),
            stuck: self.tracker.stuck(now),
        }
    }

    /// What was seen, the strongest first.
    pub fn evidence(&self) -> Vec<String> {
        let Some(deeds) = self.tracker.deeds() else {
            return Vec::new();
        };
        let mut words = Vec::new();
        if deeds.output > 0 {
            words.push(format!("output +{} bytes", deeds.output));
        }
        if deeds.io > 0 {
            words.push(format!("io +{} bytes", deeds.io));
        }
        if deeds.born > 0 || deeds.ended > 0 {
            words.push(format!("processes +{} -{}", deeds.born, deeds.ended));
        }
        words.push(format!("cpu {:.0}%", 100.0 * deeds.cpu_share));
        words
    }
}

fn sum(one: &Totals, other: &Totals) -> Totals {
    Totals {
        output: one.output.saturating_add(other.output),
        io: one.io.saturating_add(other.io),
        born: one.born.saturating_add(other.born),
        ended: one.ended.saturating_add(other.ended),
        cpu: one.cpu.saturating_add(other.cpu),
    }
}

/// What kind of progress an activity may be.
fn change_of(activity: &Activity) -> Option<(ChangeKind, String)> {
    Some(match activity {
        Activity::Text(text) => (ChangeKind::Output, text.clone()),
        Activity::ToolResult { text, .. } => (ChangeKind::Output, text.clone()),
        Activity::ToolCall { name, argument } => {
            (ChangeKind::ToolCall, format!("{name} {argument}"))
        }
        Activity::Reflection(text) => (ChangeKind::ReflectionComplete, text.clone()),
        Activity::Plan(text) => (ChangeKind::PlanGenerated, text.clone()),
        Activity::FileWritten { path } => (ChangeKind::FileWritten, path.clone()),
        Activity::Session { .. } | Activity::Final(_) | Activity::Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn pulse() -> (Pulse, Instant) {
        let settings = Settings {
            heartbeat_interval: INTERVAL,
            stuck_threshold: 3,
        };
        let now = Instant::now();
        let mut pulse = Pulse::new(settings, 30 * INTERVAL, now);
        pulse.begin("worker", 1, now);
        (pulse, now)
    }

    fn call(argument: &str) -> Activity {
        Activity::ToolCall {
            name: "Bash".to_owned(),
            argument: argument.to_owned(),
        }
    }

    fn look(pulse: &mut Pulse, now: Instant, output: u64) {
        let totals = Totals {
            output,
            ..Totals::default()
        };
        pulse.look(totals, None, now);
    }

    #[test]
    fn the_same_call_for_ever_is_stuck() {
        let (mut pulse, start) = pulse();
        for round in 1..=5 {
            let now = start + round * INTERVAL;
            pulse.take(&[call("cat config.json")], now);
            look(&mut pulse, now, u64::from(round) * 100);
        }
        assert_eq!(pulse.status(start + 5 * INTERVAL), Status::Stuck);
    }

    #[test]
    fn a_long_wait_after_something_new_is_slow() {
        let (mut pulse, start) = pulse();
        pulse.take(&[call("make")], start);
        for round in 1..=20 {
            look(&mut pulse, start + round * INTERVAL, u64::from(round));
        }
        assert_eq!(pulse.status(start + 20 * INTERVAL), Status::Slow);
    }

    #[test]
    fn a_first_call_that_takes_long_is_slow_whatever_the_stream_begins_with() {
        let (mut pulse, start) = pulse();
        let id = "1".to_owned();
        pulse.take(&[Activity::Session { id }, Activity::Other], start);
        for round in 1..=20 {
            look(&mut pulse, start + round * INTERVAL, u64::from(round));
        }
        assert_eq!(pulse.status(start + 20 * INTERVAL), Status::Slow);
    }

    #[test]
    fn new_calls_are_progress() {
        let (mut pulse, start) = pulse();
        for (round, name) in (1..).zip(["ls", "cat a", "make"]) {
            let now = start + round * INTERVAL;
            pulse.take(&[call(name)], now);
            look(&mut pulse, now, u64::from(round));
            assert_eq!(pulse.status(now), Status::Progressing, "{name}");
        }
    }

    #[test]
    fn the_next_agent_counts_from_its_own_beginning() {
        let (mut pulse, start) = pulse();
        look(&mut pulse, start + INTERVAL, 5000);
        pulse.begin("auditor", 1, start + INTERVAL);
        look(&mut pulse, start + 2 * INTERVAL, 7);
        let deeds = pulse.tracker().deeds().copied().unwrap_or_default();
        assert_eq!(deeds.output, 7);
        assert!(pulse.evidence().contains(&"output +7 bytes".to_owned()));
    }
}
