//! Distinguishes slow from stuck by heartbeats (it is alive) and state changes (it makes progress).
//!
//! A *heartbeat* is evidence of life: bytes of output, bytes read or written, processes started or
//! ended. CPU time is no heartbeat, since a spinning loop is busy forever; nor is a timer, since it
//! never stops. A *state change* is novel: repeating an action, or two actions in turn, is no
//! change. A task whose processes cannot be observed is stuck if it has heartbeats and no changes.
//! If they can be observed, they show whether it is stuck; that it prints the same again and again
//! is then only a fact beside their state.
//!
//! Pure: the caller gathers the evidence and passes the time. Memory is bounded however long a task
//! runs. The tracker only judges; policies decide how to act.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cost::CpuTime;
use super::novelty::{Novel, Novelty};
use super::status_forecast::StatusForecast;
pub(crate) use super::status_forecast::{BlockedOn, Status};
use super::tree_state::TreeStateKind;

/// How many bytes read or written within an interval make a state change.
pub(crate) const BYTES_THAT_COUNT: u64 = 4 * 1024;
/// How much a runtime may read and write between two probes, collecting garbage, while its program
/// waits: Node reads up to 12 KiB.
const HOUSEKEEPING_BYTES: u64 = 16 * 1024;
/// How long a task that only prints elapsed times is not stuck although its processes cannot be
/// observed: creating a resource takes minutes.
const ONLY_TIME_PATIENCE: Duration = Duration::from_secs(600);

/// The tracker's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackerSettings {
    /// The time between probes. Default 10 s.
    pub heartbeat_interval: Duration,
    /// How many heartbeats without a change make a task stuck. Default 5.
    pub stuck_threshold: u64,
}

impl Default for TrackerSettings {
    fn default() -> TrackerSettings {
        TrackerSettings { heartbeat_interval: Duration::from_secs(10), stuck_threshold: 5 }
    }
}

/// The kind of progress of a state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChangeKind {
    /// A line of output.
    Output,
    /// A process began.
    ChildStarted,
    /// A process ended.
    ChildEnded,
    /// A state of the work changed.
    StateChange,
    /// An agent used a tool.
    ToolCall,
    /// An agent has finished reasoning.
    ReflectionComplete,
    /// An agent has made its plan.
    PlanGenerated,
    /// Bytes were read or written.
    FileWritten,
}

impl ChangeKind {
    /// Whether a process began or ended.
    fn is_of_a_child(self) -> bool {
        matches!(self, ChangeKind::ChildStarted | ChangeKind::ChildEnded)
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Output => "output",
            ChangeKind::ChildStarted => "child_started",
            ChangeKind::ChildEnded => "child_ended",
            ChangeKind::StateChange => "state_change",
            ChangeKind::ToolCall => "tool_call",
            ChangeKind::ReflectionComplete => "reflection_complete",
            ChangeKind::PlanGenerated => "plan_generated",
            ChangeKind::FileWritten => "file_written",
        }
    }
}

/// Totals of a process tree at one probe: output since its start, all others since the first probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes of output.
    pub output: u64,
    /// Bytes read and written by its processes, excluding starts of programs and repetitions.
    pub io: u64,
    /// Bytes read and written by its processes, including starts and repetitions.
    pub moved: u64,
    /// Processes that have begun.
    pub born: u64,
    /// Processes that have ended.
    pub ended: u64,
    /// CPU time of its processes.
    pub cpu: CpuTime,
}

/// A state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub at: Instant,
    pub kind: ChangeKind,
}

/// Which signs of life without novelty count as repetitions, and what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    /// All: enough of them make the task stuck.
    Heartbeats,
    /// Only output, a fact beside the state of the processes; when a probe last counted.
    Output(Option<Instant>),
}

/// The line that a task prints again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repetition {
    /// The newest of the lines that differ only in times, spinners or the number of an attempt.
    pub line: String,
    /// How long nothing else has come.
    pub lasts: Duration,
}

/// How much of a repeated line is kept, in characters.
const LINE_CHARS: usize = 300;

/// Adds up bytes until they amount to a change.
#[derive(Debug, Clone)]
pub(crate) struct ByteWindow {
    /// The longest time over which they are added up.
    window: Duration,
    bytes: u64,
    since: Instant,
}

impl ByteWindow {
    pub(crate) fn new(window: Duration, now: Instant) -> ByteWindow {
        ByteWindow { window, bytes: 0, since: now }
    }

    /// Returns whether the bytes amount to a change now; then, or at the end of the window, counting
    /// begins again.
    pub(crate) fn add(&mut self, bytes: u64, now: Instant) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let is_change = self.bytes >= BYTES_THAT_COUNT;
        if is_change || now.saturating_duration_since(self.since) >= self.window {
            (self.bytes, self.since) = (0, now);
        }
        is_change
    }
}

/// Follows one task.
#[derive(Debug, Clone)]
pub struct Tracker {
    settings: TrackerSettings,
    started: Instant,
    tree_state: Option<TreeStateKind>,
    counting: Counting,
    last_heartbeat: Option<Instant>,
    /// The number of signs of life.
    pub heartbeat_count: u64,
    /// The newest state change; `None` before the first.
    pub last_change: Option<Change>,
    /// The number of state changes.
    pub change_count: u64,
    /// Heartbeats, or outputs (see [`Counting`]), since the last novel change.
    repetitions: u64,
    novelty: Novelty,
    /// The newest line that was no change, and when a probe found it.
    repeated: Option<(String, Instant)>,
    /// When its output began to consist only of timer lines: repeated lines in which only a
    /// duration has risen. `None` after other lines or without output.
    pub(crate) only_time: Option<Instant>,
    /// The expected end of a long operation: until then the task is neither silent nor stuck.
    pub(crate) busy_until: Option<Instant>,
    /// The totals at the last probe.
    pub(crate) totals: Totals,
    last_probe: Option<Instant>,
    /// When a probe last counted as a heartbeat.
    last_counted: Option<Instant>,
    bytes: ByteWindow,
    last_bytes: Option<Instant>,
    delta: ActivityDelta,
}

/// A task's activity between two probes, or before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ActivityDelta {
    /// Whether this is the first probe, at which counting begins: I/O, processes and CPU time are
    /// then unknown.
    #[serde(default)]
    pub baseline: bool,
    /// The time between the probes. It differs at each: no reader of a task's file uses it, and the
    /// file of a silent task would be written anew each time.
    #[serde(skip)]
    pub time: Duration,
    /// Bytes of output.
    pub output: u64,
    /// Other bytes read and written that are a sign of life.
    pub io: u64,
    /// All other bytes read and written, including starts of programs and repetitions.
    #[serde(default)]
    pub moved: u64,
    /// Processes that began.
    pub born: u64,
    /// Processes that ended.
    pub ended: u64,
    /// CPU time divided by time: 1.0 is one core. Weak evidence.
    pub cpu_share: f64,
}

impl ActivityDelta {
    /// Whether the activity is more than what runtimes do while their programs wait.
    fn is_more_than_housekeeping(&self) -> bool {
        self.output > 0 || self.born > 0 || self.ended > 0 || self.io >= HOUSEKEEPING_BYTES
    }

    /// Whether the activity includes a sign of life. CPU time is none.
    pub fn shows_life(&self) -> bool {
        self.output > 0 || self.io > 0 || self.born > 0 || self.ended > 0
    }
}

impl Tracker {
    /// Tracks a task that starts now.
    pub fn new(settings: TrackerSettings, now: Instant) -> Tracker {
        Tracker {
            settings,
            started: now,
            tree_state: None,
            counting: Counting::Heartbeats,
            last_heartbeat: None,
            heartbeat_count: 0,
            last_change: None,
            change_count: 0,
            repetitions: 0,
            novelty: Novelty::default(),
            repeated: None,
            only_time: None,
            busy_until: None,
            totals: Totals::default(),
            last_probe: None,
            last_counted: None,
            bytes: ByteWindow::new(settings.heartbeat_interval, now),
            last_bytes: None,
            delta: ActivityDelta::default(),
        }
    }

    /// Records that the processes can be observed: from now on their state decides whether the task
    /// is stuck.
    pub fn count_output_alone(&mut self) {
        if self.counting == Counting::Heartbeats {
            self.counting = Counting::Output(None);
        }
    }

    /// Records a sign of life.
    pub fn heartbeat(&mut self, now: Instant) {
        self.last_heartbeat = Some(now);
        self.heartbeat_count += 1;
        if self.counting == Counting::Heartbeats {
            self.repetitions += 1;
        }
    }

    /// Records possible progress; returns whether it is novel and therefore counts. `payload` is
    /// plain text without escape sequences.
    pub fn change(&mut self, now: Instant, kind: ChangeKind, payload: &str) -> bool {
        let novel = self.novelty.add(kind, payload);
        self.record(now, kind, payload, novel)
    }

    /// Records output without the end of a line, which a probe may see while it is being drawn: a
    /// part of the line that comes again and again is nothing new.
    pub(crate) fn unfinished_line(&mut self, now: Instant, payload: &str) -> bool {
        let words = payload.trim_matches(|c: char| !c.is_alphanumeric());
        let is_part = |line: &String| line.contains(words) && line.len() > payload.len();
        if self.repeated.as_ref().is_some_and(|(line, _)| is_part(line)) {
            return self.record(now, ChangeKind::Output, payload, Novel::Same);
        }
        self.change(now, ChangeKind::Output, payload)
    }

    fn record(&mut self, now: Instant, kind: ChangeKind, payload: &str, novel: Novel) -> bool {
        if kind == ChangeKind::Output {
            self.only_time = match novel {
                Novel::OnlyTime => self.only_time.or(Some(now)),
                Novel::New | Novel::Same => None,
            };
            self.repeated = match novel {
                Novel::New => None,
                Novel::Same | Novel::OnlyTime => {
                    Some((payload.chars().take(LINE_CHARS).collect(), now))
                }
            };
        }
        if novel == Novel::New {
            self.count_change(now, kind);
        }
        novel == Novel::New
    }

    /// Records the task's totals: an increase is a sign of life, and enough bytes are progress.
    /// Call it every interval. Additional probes give evidence sooner; two heartbeats are at least
    /// half an interval apart.
    pub fn probe(&mut self, now: Instant, totals: Totals, tree_state: Option<TreeStateKind>) {
        let last_probe = self.last_probe.unwrap_or(self.started);
        let time = now.saturating_duration_since(last_probe);
        let last = self.totals;
        let cpu = totals.cpu.saturating_sub(last.cpu).total().as_secs_f64();
        self.delta = ActivityDelta {
            baseline: self.last_probe.is_none(),
            time,
            output: totals.output.saturating_sub(last.output),
            io: totals.io.saturating_sub(last.io),
            moved: totals.moved.saturating_sub(last.moved),
            born: totals.born.saturating_sub(last.born),
            ended: totals.ended.saturating_sub(last.ended),
            cpu_share: if time.is_zero() { 0.0 } else { cpu / time.as_secs_f64() },
        };
        if self.delta.shows_life() {
            self.live(now);
        }
        self.count_repetition(now);
        self.count_bytes(now);
        self.totals = totals;
        self.last_probe = Some(now);
        self.tree_state = tree_state;
    }

    /// Records a sign of life: as a new heartbeat, or by prolonging the last one.
    fn live(&mut self, now: Instant) {
        // Probes are not exactly an interval apart.
        let pause = self.settings.heartbeat_interval / 2;
        let is_another =
            self.last_counted.is_none_or(|last| now.saturating_duration_since(last) >= pause);
        if is_another || self.last_heartbeat.is_none() {
            self.last_counted = Some(now);
            self.heartbeat(now);
        }
        self.last_heartbeat = Some(now);
    }

    /// Counts output that may be a repetition; the caller records novel output after the probe.
    fn count_repetition(&mut self, now: Instant) {
        // Probes are not exactly an interval apart.
        let pause = self.settings.heartbeat_interval * 9 / 10;
        if let Counting::Output(last) = self.counting
            && self.delta.output > 0
            && last.is_none_or(|last| now.saturating_duration_since(last) >= pause)
        {
            self.counting = Counting::Output(Some(now));
            self.repetitions += 1;
        }
    }

    /// Records a change if enough bytes were transferred within an interval, in any number of
    /// probes.
    fn count_bytes(&mut self, now: Instant) {
        if self.bytes.add(self.delta.io, now) {
            self.count_change(now, ChangeKind::FileWritten);
            self.last_bytes = Some(now);
        }
    }

    /// Whether it has given a sign of life within two intervals, or may still be busy.
    pub fn alive(&self, now: Instant) -> bool {
        self.forecast(None).alive(now)
    }

    /// Whether it is alive and makes no progress.
    pub fn stuck(&self, now: Instant) -> bool {
        self.forecast(None).stuck(now)
    }

    /// The status according to the last probe.
    pub fn status(&self, now: Instant) -> Status {
        self.forecast(None).status(now)
    }

    /// The status of a running task for all times until the next probe. `held_up` is the reason for
    /// waiting according to evidence newer than the last probe.
    pub fn forecast(&self, held_up: Option<BlockedOn>) -> StatusForecast<Instant> {
        let after = |at: Instant, time| at.checked_add(time).unwrap_or(at);
        let two_intervals = self.settings.heartbeat_interval * 2;
        let quiet_from = after(self.last_heartbeat.unwrap_or(self.started), two_intervals);
        let by_design =
            matches!(self.tree_state, Some(TreeStateKind::Idle | TreeStateKind::Screen));
        let shows_life = if by_design {
            self.delta.is_more_than_housekeeping()
        } else {
            self.delta.shows_life()
        };
        let quiet = self.last_probe.is_some() && !shows_life;
        // A new task counts as novel until the first probe. What a process does after its start
        // shows whether there is progress.
        let novel_from = match self.last_change {
            Some(last) if quiet && last.kind.is_of_a_child() => None,
            Some(last) => Some(last.at),
            None => self.last_probe.is_none().then_some(self.started),
        };
        // Without output, a wait for an outside event stops the signs of life.
        let waits = matches!(self.tree_state, Some(TreeStateKind::Peer | TreeStateKind::Lock));
        let repeats = self.repetitions >= self.settings.stuck_threshold
            && self.counting == Counting::Heartbeats
            && !(quiet && waits);
        let patient_until = self.only_time.map(|since| after(since, ONLY_TIME_PATIENCE));
        let stuck_from = self.busy_until.max(patient_until).unwrap_or(self.started);
        StatusForecast {
            blocked: held_up,
            tree_state: self.tree_state,
            quiet,
            alive_until: self.busy_until.map_or(quiet_from, |until| until.max(quiet_from)),
            novel_until: novel_from.map(|from| after(from, two_intervals)),
            stuck_from: repeats.then_some(stuck_from),
        }
    }

    /// The line that it prints again and again, if it has done nothing else for long and its
    /// processes can be observed.
    pub fn repetition(&self, now: Instant) -> Option<Repetition> {
        let line = self.repeated_line(now)?.to_owned();
        Some(Repetition { line, lasts: self.unchanged_for(now) })
    }

    /// The line of [`Tracker::repetition`].
    pub(crate) fn repeated_line(&self, now: Instant) -> Option<&str> {
        let (line, at) = self.repeated.as_ref()?;
        let is_recent = now.saturating_duration_since(*at) < self.settings.heartbeat_interval * 3;
        let is_fact = matches!(self.counting, Counting::Output(_))
            && self.repetitions >= self.settings.stuck_threshold
            && is_recent;
        is_fact.then_some(line.as_str())
    }

    /// How long nothing has been new: the time since the last state change, or since the start.
    pub fn unchanged_for(&self, now: Instant) -> Duration {
        let newest = self.last_change.map_or(self.started, |last| last.at);
        now.saturating_duration_since(newest)
    }

    /// The activity between the last two probes; `None` before the first.
    pub fn delta(&self) -> Option<&ActivityDelta> {
        self.last_probe.map(|_| &self.delta)
    }

    /// Whether it reads or writes steadily: enough bytes within the last two intervals.
    pub fn moves_bytes(&self, now: Instant) -> bool {
        let two_intervals = self.settings.heartbeat_interval * 2;
        self.last_bytes.is_some_and(|last| now.saturating_duration_since(last) < two_intervals)
    }

    /// Sets how long such a task usually takes at most, from its start. Within that time it is
    /// neither silent nor stuck.
    pub fn expect(&mut self, usual: Duration) {
        self.busy_until = self.started.checked_add(usual).or(Some(self.started));
    }

    fn count_change(&mut self, now: Instant, kind: ChangeKind) {
        self.last_change = Some(Change { at: now, kind });
        self.change_count += 1;
        self.repetitions = match self.counting {
            // Probes find a loop's short programs by chance: a newly found program excuses the
            // current interval, but not earlier ones.
            Counting::Output(_) if kind.is_of_a_child() => self.repetitions.saturating_sub(1),
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::novelty::FINGERPRINTS;
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    /// A task followed on a clock that the test advances.
    struct Run {
        tracker: Tracker,
        now: Instant,
        totals: Totals,
    }

    impl Run {
        fn new() -> Run {
            let now = Instant::now();
            Run {
                tracker: Tracker::new(TrackerSettings::default(), now),
                now,
                totals: Totals::default(),
            }
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }

        fn beat(&mut self) {
            self.tracker.heartbeat(self.now);
        }

        fn change(&mut self, kind: ChangeKind, payload: &str) -> bool {
            self.tracker.change(self.now, kind, payload)
        }

        /// An interval passes, and the task is probed.
        fn interval(&mut self, does: impl FnOnce(&mut Totals)) -> Status {
            self.pass(INTERVAL);
            does(&mut self.totals);
            self.tracker.probe(self.now, self.totals, None);
            self.status()
        }

        fn status(&self) -> Status {
            self.tracker.status(self.now)
        }

        fn stuck(&self) -> bool {
            self.tracker.stuck(self.now)
        }

        fn alive(&self) -> bool {
            self.tracker.alive(self.now)
        }
    }

    #[test]
    fn the_same_action_again_and_again_is_stuck() {
        let mut run = Run::new();
        for _ in 1..=25 {
            run.beat();
            run.change(ChangeKind::ToolCall, "read_file config.json");
            run.pass(Duration::from_secs(5));
        }
        assert!(run.stuck());
        assert_eq!(run.tracker.change_count, 1);
    }

    #[test]
    fn a_long_model_call_is_alive_within_its_budget_and_dead_beyond() {
        let mut run = Run::new();
        run.beat();
        run.tracker.busy_until = Some(run.now + Duration::from_secs(60));
        run.pass(Duration::from_secs(28));
        assert!(run.alive());
        assert_eq!(run.status(), Status::Slow);
        run.pass(Duration::from_secs(32));
        assert!(!run.alive());
        assert_eq!(run.status(), Status::Silent);
    }

    #[test]
    fn beats_during_a_long_call_are_not_stuck() {
        let mut run = Run::new();
        run.change(ChangeKind::PlanGenerated, "plan");
        run.tracker.busy_until = Some(run.now + Duration::from_secs(90));
        for _ in 0..8 {
            run.pass(INTERVAL);
            run.beat();
        }
        assert!(!run.stuck());
        run.tracker.busy_until = None;
        assert!(run.stuck(), "the call is over and nothing has changed");
    }

    #[test]
    fn a_change_just_after_the_last_beat_counts() {
        let mut run = Run::new();
        for _ in 0..5 {
            run.pass(Duration::from_secs(1));
            run.beat();
        }
        assert!(run.stuck());
        run.change(ChangeKind::ToolCall, "write_file");
        assert!(!run.stuck());
        assert_eq!(run.status(), Status::Progressing);
    }

    #[test]
    fn all_heartbeats_and_changes_are_counted() {
        let mut run = Run::new();
        for number in 0..100_000_u64 {
            run.beat();
            run.change(ChangeKind::Output, &format!("step {number}"));
        }
        assert_eq!(run.tracker.heartbeat_count, 100_000);
        assert_eq!(run.tracker.change_count, 100_000);
    }

    #[test]
    fn two_actions_in_turn_are_stuck() {
        let mut run = Run::new();
        for round in 0..12 {
            run.pass(Duration::from_secs(2));
            run.beat();
            let action = if round % 2 == 0 { "edit" } else { "revert" };
            run.change(ChangeKind::ToolCall, action);
        }
        assert!(run.stuck());
    }

    #[test]
    fn a_silent_writer_progresses_and_a_spinning_loop_is_not_alive() {
        let mut writer = Run::new();
        let mut loops = Run::new();
        for _ in 0..20 {
            writer.interval(|totals| totals.io += BYTES_THAT_COUNT);
            loops.interval(|totals| totals.cpu.user += INTERVAL);
        }
        assert_eq!(writer.status(), Status::Progressing);
        assert_eq!(loops.status(), Status::Silent);
        let share = loops.tracker.delta().map(|delta| delta.cpu_share);
        assert!(share.is_some_and(|share| (share - 1.0).abs() < 0.01));
    }

    #[test]
    fn time_without_novelty_counts_from_the_last_change_or_the_start() {
        let mut run = Run::new();
        run.pass(INTERVAL);
        run.beat();
        assert_eq!(run.tracker.unchanged_for(run.now), INTERVAL);
        run.change(ChangeKind::ToolCall, "read");
        run.pass(INTERVAL / 2);
        run.change(ChangeKind::ToolCall, "read");
        assert_eq!(run.tracker.unchanged_for(run.now), INTERVAL / 2);
    }

    #[test]
    fn fewer_beats_than_the_threshold_are_never_stuck() {
        let mut run = Run::new();
        for beats in 1..=5 {
            run.beat();
            assert_eq!(run.stuck(), beats == 5, "{beats} beats");
        }
    }

    #[test]
    fn before_the_first_change_there_is_none() {
        let run = Run::new();
        assert_eq!(run.tracker.last_change, None);
        assert!(run.alive(), "it has just begun");
        assert_eq!(run.status(), Status::Progressing);
    }

    #[test]
    fn the_window_of_changes_is_that_of_the_last_beats() {
        let mut run = Run::new();
        run.change(ChangeKind::ToolCall, "first");
        for _ in 0..4 {
            run.beat();
        }
        run.change(ChangeKind::ToolCall, "second");
        for _ in 0..4 {
            run.beat();
        }
        assert!(!run.stuck(), "four beats since the last change");
        run.beat();
        assert!(run.stuck());
    }

    #[test]
    fn numbers_that_rise_are_progress_and_times_are_not() {
        for (lines, wanted) in [
            (["10% done", "20% done", "30% done"], [true, true, true]),
            (["3 left", "2 left", "1 left"], [true, false, false]),
            (["file 7 of 9", "file 7 of 9", "file 8 of 9"], [true, false, true]),
            (["12:00:01 waiting", "12:00:02 waiting", "12:00:03 waiting"], [true, false, false]),
            (
                ["still waiting (5s)", "still waiting (10s)", "still waiting (1m20s)"],
                [true, false, false],
            ),
            (["2026-11-22T12:00:01Z poll", "2026-11-22T12:00:09Z poll", "x"], [true, false, true]),
        ] {
            let mut run = Run::new();
            let novel = lines.map(|line| run.change(ChangeKind::Output, line));
            assert_eq!(novel, wanted, "{lines:?}");
        }
    }

    #[test]
    fn a_change_from_long_ago_is_novel_again() {
        let mut run = Run::new();
        assert!(run.change(ChangeKind::Output, "a"));
        let words = (0..FINGERPRINTS).map(|number| "b".repeat(number + 1));
        for word in words {
            assert!(run.change(ChangeKind::Output, &word));
        }
        assert!(run.change(ChangeKind::Output, "a"));
        assert!(!run.change(ChangeKind::Output, "a"));
        assert!(run.change(ChangeKind::ToolCall, "a"), "another kind");
    }

    #[test]
    fn a_part_of_a_repeated_line_is_no_change_while_it_is_drawn() {
        let mut run = Run::new();
        for line in ["⠋ waiting for the build", "⠙ waiting for the build"] {
            run.change(ChangeKind::Output, line);
        }
        assert!(!run.tracker.unfinished_line(run.now, "⠹ waiting for t"));
        run.change(ChangeKind::Output, "⠙ waiting for the build");
        assert!(run.change(ChangeKind::Output, "build"), "a line of its own");
        assert!(run.tracker.unfinished_line(run.now, "ready? "));
    }

    #[test]
    fn output_of_only_timers_is_timed_from_the_first_of_them() {
        let mut run = Run::new();
        assert_eq!(run.tracker.only_time, None);
        run.change(ChangeKind::Output, "db: Still creating... [10s elapsed]");
        assert_eq!(run.tracker.only_time, None, "a line that is new");
        let began = run.now + INTERVAL;
        for elapsed in 2..9 {
            run.pass(INTERVAL);
            let line = format!("db: Still creating... [{elapsed}0s elapsed]");
            assert!(!run.change(ChangeKind::Output, &line));
            assert_eq!(run.tracker.only_time, Some(began));
            run.change(ChangeKind::ChildStarted, "sleep 1");
        }
        for other in ["db: Creation complete", "db: Creation complete"] {
            run.change(ChangeKind::Output, "db: Still creating... [1m40s elapsed]");
            run.change(ChangeKind::Output, other);
            assert_eq!(run.tracker.only_time, None, "{other}");
        }
    }

    #[test]
    fn counting_begins_with_the_first_probe() {
        let mut run = Run::new();
        assert_eq!(run.tracker.delta(), None);
        for baseline in [true, false, false] {
            run.interval(|totals| totals.output += 1);
            let delta = run.tracker.delta().map(|delta| delta.baseline);
            assert_eq!(delta, Some(baseline));
        }
    }

    #[test]
    fn probes_between_intervals_give_evidence_and_no_more_heartbeats() {
        let mut run = Run::new();
        for _ in 0..40 {
            run.pass(INTERVAL / 10);
            run.totals.output += 1;
            run.tracker.probe(run.now, run.totals, None);
        }
        let intervals = 2 * 40 / 10;
        assert!(run.tracker.heartbeat_count <= intervals + 1);
        assert!(run.alive());
        assert_eq!(run.tracker.delta().map(|delta| delta.output), Some(1));
    }

    #[test]
    fn a_trickle_is_a_change_when_an_interval_of_it_is_enough() {
        for (each, wanted) in [(BYTES_THAT_COUNT / 4, true), (BYTES_THAT_COUNT / 20, false)] {
            let mut run = Run::new();
            for _ in 0..40 {
                run.pass(INTERVAL / 10);
                run.totals.io += each;
                run.tracker.probe(run.now, run.totals, None);
            }
            assert_eq!(run.tracker.moves_bytes(run.now), wanted, "{each} bytes");
            assert_eq!(run.tracker.change_count > 0, wanted, "{each} bytes");
        }
    }

    #[test]
    fn an_idle_task_is_slow_then_silent_and_slow_within_its_usual_time() {
        let mut run = Run::new();
        assert_eq!(run.interval(|_| {}), Status::Slow);
        assert_eq!(run.interval(|_| {}), Status::Silent);
        run.tracker.expect(3 * INTERVAL);
        assert_eq!(run.status(), Status::Slow);
        assert_eq!(run.interval(|_| {}), Status::Silent);
    }

    #[test]
    fn evidence_of_blocking_outranks_counting() {
        let mut run = Run::new();
        for _ in 0..9 {
            run.beat();
        }
        assert_eq!(run.status(), Status::Stuck);
        for (tree_state, status) in [
            (TreeStateKind::Peer, Status::Blocked(BlockedOn::Network)),
            (TreeStateKind::Lock, Status::Blocked(BlockedOn::Lock)),
            (TreeStateKind::Computing, Status::Slow),
        ] {
            run.tracker.probe(run.now, run.totals, Some(tree_state));
            assert_eq!(run.status(), status);
        }
        for on in [BlockedOn::Input, BlockedOn::Stop] {
            let status = run.tracker.forecast(Some(on)).status(run.now);
            assert_eq!(status, Status::Blocked(on));
        }
    }

    fn of_output(start: Instant) -> Tracker {
        let mut tracker = Tracker::new(TrackerSettings::default(), start);
        tracker.count_output_alone();
        tracker
    }

    #[test]
    fn repeated_output_of_visible_processes_is_a_fact_beside_their_state() {
        let start = Instant::now();
        let mut tracker = of_output(start);
        let mut totals = Totals::default();
        let mut look = |tracker: &mut Tracker, look: u32, output: u64| {
            let now = start + INTERVAL * look;
            totals.born += 1;
            totals.output += output;
            tracker.probe(now, totals, Some(TreeStateKind::Timer));
            if output > 0 {
                tracker.change(now, ChangeKind::Output, "waiting for db");
            }
            (tracker.status(now), tracker.repetition(now))
        };
        // A loop that keeps starting a program and prints nothing is asleep.
        for interval in 1..=9 {
            let status = look(&mut tracker, interval, 0);
            assert_eq!(status, (Status::Idle, None), "interval {interval}");
        }
        assert_eq!(look(&mut tracker, 10, 15), (Status::Progressing, None));
        for interval in 11..=14 {
            let (_, repetition) = look(&mut tracker, interval, 15);
            assert_eq!(repetition, None, "interval {interval}");
        }
        for interval in 15..=100 {
            let (status, repetition) = look(&mut tracker, interval, 15);
            let lasts = INTERVAL * (interval - 10);
            let line = "waiting for db".to_owned();
            assert_eq!(repetition, Some(Repetition { line, lasts }));
            assert_eq!(status, Status::Idle, "interval {interval}");
        }
        // Once it is silent, it no longer repeats itself.
        let later = start + INTERVAL * 104;
        assert_eq!(tracker.repetition(later), None);
    }

    #[test]
    fn programs_that_are_new_in_each_interval_are_progress_and_a_rare_one_is_not() {
        let repeats_after = |is_new: fn(u32) -> bool| {
            let start = Instant::now();
            let mut tracker = of_output(start);
            let mut totals = Totals::default();
            let repeats = |interval: &u32| {
                let now = start + INTERVAL * *interval;
                totals.output += 15;
                tracker.probe(now, totals, Some(TreeStateKind::Timer));
                tracker.change(now, ChangeKind::Output, "compiling");
                if is_new(*interval) {
                    let line = format!("cc {}", char::from(b'a' + *interval as u8));
                    tracker.change(now, ChangeKind::ChildStarted, &line);
                }
                tracker.repetition(now).is_some()
            };
            (1..=20).find(repeats)
        };
        assert_eq!(repeats_after(|_| true), None);
        assert_eq!(repeats_after(|interval| interval == 4), Some(7));
        assert_eq!(repeats_after(|_| false), Some(6));
    }

    #[test]
    fn elapsed_times_in_the_output_are_a_repetition_and_stuck_only_where_nothing_is_seen() {
        let repeated = |tracker: &mut Tracker, start: Instant, state: Option<TreeStateKind>| {
            let mut totals = Totals::default();
            let intervals = (1..=65u32).map(|interval| {
                let now = start + INTERVAL * interval;
                totals.output += 40;
                tracker.probe(now, totals, state);
                let line = format!("Still creating... [{}s elapsed]", 10 * interval);
                tracker.change(now, ChangeKind::Output, &line);
                (tracker.status(now), tracker.repetition(now).is_some())
            });
            intervals.collect::<Vec<_>>()
        };
        let start = Instant::now();
        let seen = repeated(&mut of_output(start), start, Some(TreeStateKind::Timer));
        assert_eq!(seen[10], (Status::Idle, true));
        assert_eq!(seen[64], (Status::Idle, true));
        let mut unseen = Tracker::new(TrackerSettings::default(), start);
        let unseen = repeated(&mut unseen, start, None);
        assert_eq!(unseen[59], (Status::Slow, false));
        assert_eq!(unseen[64], (Status::Stuck, false));
    }

    #[test]
    fn the_wait_of_quiet_processes_outranks_earlier_novelty() {
        let start = Instant::now();
        let mut tracker = of_output(start);
        let totals = Totals { output: 24, ..Totals::default() };
        let first = start + Duration::from_secs(1);
        tracker.probe(first, totals, Some(TreeStateKind::Idle));
        tracker.change(first, ChangeKind::Output, "listening on port 3000");
        assert_eq!(tracker.status(first), Status::Progressing);
        let second = start + Duration::from_secs(2);
        for (tree_state, status) in [
            (TreeStateKind::Idle, Status::Idle),
            (TreeStateKind::Peer, Status::Blocked(BlockedOn::Network)),
            (TreeStateKind::Deadlock, Status::Stuck),
            // A program may sleep between two steps.
            (TreeStateKind::Timer, Status::Progressing),
            (TreeStateKind::Unknown, Status::Progressing),
        ] {
            tracker.probe(second, totals, Some(tree_state));
            assert_eq!(tracker.status(second), status, "{tree_state:?}");
        }
        let later = start + 4 * INTERVAL;
        tracker.probe(later, totals, Some(TreeStateKind::Timer));
        assert_eq!(tracker.status(later), Status::Idle);
        tracker.probe(later, totals, Some(TreeStateKind::Unknown));
        assert_eq!(tracker.status(later), Status::Silent);
    }

    #[test]
    fn each_kind_of_evidence_except_cpu_time_is_a_sign_of_life() {
        type Deed = fn(&mut Totals);
        let delta: [(Deed, bool); 5] = [
            (|totals| totals.output += 1, true),
            (|totals| totals.io += 1, true),
            (|totals| totals.born += 1, true),
            (|totals| totals.ended += 1, true),
            (|totals| totals.cpu.user += INTERVAL, false),
        ];
        for (place, (deed, lives)) in delta.into_iter().enumerate() {
            let mut run = Run::new();
            for _ in 0..3 {
                run.interval(deed);
            }
            assert_eq!(run.alive(), lives, "deed {place}");
        }
    }
}
