//! Slow or stuck: a judgement from heartbeats (it lives) and state changes (it gets on).
//!
//! A *heartbeat* is evidence of life: bytes of output, bytes read or written, processes
//! born or ended. CPU time alone is none, since a loop that spins looks busy for ever;
//! a timer is none, since it never stops. A *state change* is novel: the same action
//! again, or two actions in turn, change nothing. Stuck is what beats without changing.
//!
//! Pure: the caller looks at the world, and passes the time. Memory is bounded however
//! long it runs. Limits: it decides nothing about a task; policies do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::novelty::Novelty;
use super::outlook::Outlook;
pub use super::outlook::{BlockedOn, Status};
use super::ring::keep;

/// Heartbeats that are remembered; counts go on beyond it.
pub const HEARTBEATS_KEPT: usize = 100;
/// State changes that are remembered; counts go on beyond it.
pub const CHANGES_KEPT: usize = 50;
/// Bytes read or written within an interval from which they are a change.
pub const BYTES_THAT_COUNT: u64 = 4 * 1024;
/// Without history an open operation has so many intervals from the last change.
const INTERVALS_WITHOUT_HISTORY: u32 = 5;

/// What the judgement depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How often evidence is looked at. Default 10 s.
    pub heartbeat_interval: Duration,
    /// So many heartbeats without a change are stuck. Default 5.
    pub stuck_threshold: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat_interval: Duration::from_secs(10),
            stuck_threshold: 5,
        }
    }
}

/// What kind of progress a state change is.
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
    /// An agent has reflected.
    ReflectionComplete,
    /// An agent has made its plan.
    PlanGenerated,
    /// Bytes were read or written.
    FileWritten,
}

impl ChangeKind {
    /// Its name for programs.
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

/// Totals of a process tree since its start, as one look finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes of output.
    pub output: u64,
    /// Bytes read and written by its processes, of files and of anything else.
    pub io: u64,
    /// Processes that have begun.
    pub born: u64,
    /// Processes that have ended.
    pub ended: u64,
    /// CPU time of its processes.
    pub cpu: Duration,
}

/// A sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// When.
    pub at: Instant,
    /// In which round of its work, where there are rounds.
    pub iteration: Option<u64>,
}

/// A state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: ChangeKind,
}

/// Something that is known to take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation {
    began: Instant,
    /// How long such a thing usually takes at most; `None`: nothing is known.
    budget: Option<Duration>,
}

/// Follows one task.
#[derive(Debug, Clone)]
pub struct Tracker {
    settings: Settings,
    started: Instant,
    ended: bool,
    blocked: Option<BlockedOn>,
    heartbeats: VecDeque<Heartbeat>,
    heartbeat_count: u64,
    changes: VecDeque<Change>,
    change_count: u64,
    /// Heartbeats after the last novel change.
    since: u64,
    novelty: Novelty,
    operation: Option<Operation>,
    last: Totals,
    last_look: Option<Instant>,
    /// When a look last counted as a heartbeat.
    last_counted: Option<Instant>,
    /// Bytes of the present interval that have not come to a change yet, and when it began.
    bytes: (u64, Instant),
    last_bytes: Option<Instant>,
    deeds: Deeds,
}

/// What a task did between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Deeds {
    /// The time between them.
    pub time: Duration,
    /// Bytes of output.
    pub output: u64,
    /// Bytes read and written otherwise.
    pub io: u64,
    /// Processes that began.
    pub born: u64,
    /// Processes that ended.
    pub ended: u64,
    /// CPU time over time: 1.0 is one core. Weak evidence.
    pub cpu_share: f64,
}

impl Deeds {
    fn between(last: &Totals, totals: &Totals, time: Duration) -> Deeds {
        let cpu = totals.cpu.saturating_sub(last.cpu).as_secs_f64();
        Deeds {
            time,
            output: totals.output.saturating_sub(last.output),
            io: totals.io.saturating_sub(last.io),
            born: totals.born.saturating_sub(last.born),
            ended: totals.ended.saturating_sub(last.ended),
            cpu_share: match time.is_zero() {
                true => 0.0,
                false => cpu / time.as_secs_f64(),
            },
        }
    }

    /// Whether any of it is a sign of life; CPU time is none.
    pub fn are_life(&self) -> bool {
        self.output > 0 || self.io > 0 || self.born > 0 || self.ended > 0
    }
}

impl Tracker {
    /// Begins to follow a task that starts now.
    pub fn new(settings: Settings, now: Instant) -> Tracker {
        Tracker {
            settings,
            started: now,
            ended: false,
            blocked: None,
            heartbeats: VecDeque::new(),
            heartbeat_count: 0,
            changes: VecDeque::new(),
            change_count: 0,
            since: 0,
            novelty: Novelty::default(),
            operation: None,
            last: Totals::default(),
            last_look: None,
            last_counted: None,
            bytes: (0, now),
            last_bytes: None,
            deeds: Deeds::default(),
        }
    }

    /// Takes a sign of life.
    pub fn heartbeat(&mut self, now: Instant, iteration: Option<u64>) {
        keep(
            &mut self.heartbeats,
            HEARTBEATS_KEPT,
            Heartbeat { at: now, iteration },
        );
        self.heartbeat_count += 1;
        self.since += 1;
    }

    /// Takes what may be progress; the answer is whether it is novel, and counts. The
    /// payload is plain text, without escape sequences.
    pub fn change(&mut self, now: Instant, kind: ChangeKind, payload: &str) -> bool {
        let novel = self.novelty.take(kind, payload);
        if novel {
            self.count_change(now, kind);
        }
        novel
    }

    /// Looks at the task's totals: what has risen is a sign of life, and so many bytes
    /// are progress. To be called each interval; looks in between bring evidence sooner
    /// and count as no more heartbeats than there are intervals.
    pub fn look(&mut self, now: Instant, totals: Totals, blocked: Option<BlockedOn>) {
        let last_look = self.last_look.unwrap_or(self.started);
        let time = now.saturating_duration_since(last_look);
        self.deeds = Deeds::between(&self.last, &totals, time);
        if self.deeds.are_life() {
            self.live(now);
        }
        self.count_bytes(now);
        self.last = totals;
        self.last_look = Some(now);
        self.blocked = blocked;
    }

    /// A sign of life: a heartbeat, or the last one still.
    fn live(&mut self, now: Instant) {
        // Looks at common times are not exactly an interval apart.
        let pause = self.settings.heartbeat_interval / 2;
        let is_another = self
            .last_counted
            .is_none_or(|last| now.saturating_duration_since(last) >= pause);
        match self.heartbeats.back_mut() {
            Some(last) if !is_another => last.at = now,
            _ => {
                self.last_counted = Some(now);
                self.heartbeat(now, None);
            }
        }
    }

    /// Bytes come to a change within an interval, in however many looks.
    fn count_bytes(&mut self, now: Instant) {
        let (bytes, began) = self.bytes;
        let bytes = bytes.saturating_add(self.deeds.io);
        let over = now.saturating_duration_since(began) >= self.settings.heartbeat_interval;
        if bytes >= BYTES_THAT_COUNT {
            self.count_change(now, ChangeKind::FileWritten);
            self.last_bytes = Some(now);
        }
        self.bytes = match bytes >= BYTES_THAT_COUNT || over {
            true => (0, now),
            false => (bytes, began),
        };
    }

    /// Something begins that is known to take long: until it ends, or its budget is used
    /// up, the task is neither dead nor stuck. Without a budget it has five intervals
    /// from the last change.
    pub fn begin_operation(&mut self, now: Instant, budget: Option<Duration>) {
        self.operation = Some(Operation { began: now, budget });
    }

    /// It has ended.
    pub fn end_operation(&mut self) {
        self.operation = None;
    }

    /// The task is over.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether it exists and has given a sign of life within two intervals, or is within
    /// the budget of what takes long.
    pub fn alive(&self, now: Instant) -> bool {
        !self.ended && self.outlook(None).alive(now)
    }

    /// Whether it lives and does not get on.
    pub fn stuck(&self, now: Instant) -> bool {
        !self.ended && self.outlook(None).stuck(now)
    }

    /// How it is, as far as looks have told.
    pub fn status(&self, now: Instant) -> Status {
        self.status_when(now, None)
    }

    /// The same where something newer than the last look says what holds it up.
    pub fn status_when(&self, now: Instant, held_up: Option<BlockedOn>) -> Status {
        match self.ended {
            true => Status::Ended,
            false => self.outlook(held_up).status(now),
        }
    }

    /// The same for all times from now on while nobody looks again. A task that is over
    /// has none.
    pub fn outlook(&self, held_up: Option<BlockedOn>) -> Outlook<Instant> {
        let after = |at: Instant, time| at.checked_add(time).unwrap_or(at);
        let two_intervals = self.settings.heartbeat_interval * 2;
        let newest = self.heartbeats.back().map_or(self.started, |beat| beat.at);
        let quiet_from = after(newest.max(self.started), two_intervals);
        let busy_until = self.operation.map(|operation| match operation.budget {
            Some(budget) => after(operation.began, budget),
            None => {
                let last = self.last_change().map_or(operation.began, |last| last.at);
                let budget = self.settings.heartbeat_interval * INTERVALS_WITHOUT_HISTORY;
                after(last.max(operation.began), budget)
            }
        });
        // What has just begun is new until somebody looks.
        let novel_from = match self.last_change() {
            Some(last) => Some(last.at),
            None => self.last_look.is_none().then_some(self.started),
        };
        let too_many = self.since >= self.settings.stuck_threshold;
        Outlook {
            blocked: held_up.or(self.blocked),
            alive_until: busy_until.map_or(quiet_from, |until| until.max(quiet_from)),
            novel_until: novel_from.map(|from| after(from, two_intervals)),
            stuck_from: too_many.then(|| busy_until.unwrap_or(self.started)),
        }
    }

    /// Signs of life in all.
    pub fn heartbeat_count(&self) -> u64 {
        self.heartbeat_count
    }

    /// State changes in all.
    pub fn change_count(&self) -> u64 {
        self.change_count
    }

    /// The newest state change; none before the first.
    pub fn last_change(&self) -> Option<Change> {
        self.changes.back().copied()
    }

    /// The newest signs of life, oldest first.
    pub fn heartbeats(&self) -> impl Iterator<Item = &Heartbeat> {
        self.heartbeats.iter()
    }

    /// The newest state changes, oldest first.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }

    /// For how long there has been nothing new: since the newest state change, or since the
    /// start before the first.
    pub fn unchanged_for(&self, now: Instant) -> Duration {
        let newest = self.last_change().map_or(self.started, |last| last.at);
        now.saturating_duration_since(newest)
    }

    /// What was done between the last two looks; `None` before the first.
    pub fn deeds(&self) -> Option<&Deeds> {
        self.last_look.map(|_| &self.deeds)
    }

    /// What its processes had done in all at the last look.
    pub fn totals(&self) -> Totals {
        self.last
    }

    /// What holds it up, as of the last look.
    pub fn blocked(&self) -> Option<BlockedOn> {
        self.blocked
    }

    /// Whether it reads or writes steadily: so many bytes within the last two intervals.
    pub fn moves_bytes(&self, now: Instant) -> bool {
        self.last_bytes
            .is_some_and(|last| self.within(now, last, 2))
    }

    /// How long such a task usually takes at most, counted from its start: within that it
    /// is neither dead nor stuck.
    pub fn expect(&mut self, usual: Duration) {
        self.operation = Some(Operation {
            began: self.started,
            budget: Some(usual),
        });
    }

    fn count_change(&mut self, now: Instant, kind: ChangeKind) {
        keep(&mut self.changes, CHANGES_KEPT, Change { at: now, kind });
        self.change_count += 1;
        self.since = 0;
    }

    fn within(&self, now: Instant, from: Instant, intervals: u32) -> bool {
        now.saturating_duration_since(from) < self.settings.heartbeat_interval * intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    /// A task followed on a clock that the test moves.
    struct Run {
        tracker: Tracker,
        now: Instant,
        totals: Totals,
    }

    impl Run {
        fn new() -> Run {
            let now = Instant::now();
            Run {
                tracker: Tracker::new(Settings::default(), now),
                now,
                totals: Totals::default(),
            }
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }

        fn beat(&mut self) {
            self.tracker.heartbeat(self.now, None);
        }

        fn change(&mut self, kind: ChangeKind, payload: &str) -> bool {
            self.tracker.change(self.now, kind, payload)
        }

        /// An interval passes, and the task is looked at.
        fn interval(&mut self, does: impl FnOnce(&mut Totals)) -> Status {
            self.pass(INTERVAL);
            does(&mut self.totals);
            self.tracker.look(self.now, self.totals, None);
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
        for iteration in 1..=25 {
            run.tracker.heartbeat(run.now, Some(iteration));
            run.change(ChangeKind::ToolCall, "read_file config.json");
            run.pass(Duration::from_secs(5));
        }
        assert!(run.stuck());
        assert_eq!(run.tracker.change_count(), 1);
    }

    #[test]
    fn a_long_model_call_is_alive_within_its_budget_and_dead_beyond() {
        let mut run = Run::new();
        run.beat();
        run.tracker
            .begin_operation(run.now, Some(Duration::from_secs(60)));
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
        run.tracker
            .begin_operation(run.now, Some(Duration::from_secs(90)));
        for _ in 0..8 {
            run.pass(INTERVAL);
            run.beat();
        }
        assert!(!run.stuck());
        run.tracker.end_operation();
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
    fn counts_go_on_beyond_the_rings_and_memory_does_not() {
        let mut run = Run::new();
        for number in 0..1_000_000_u64 {
            run.beat();
            run.change(ChangeKind::Output, &format!("step {number}"));
        }
        assert_eq!(run.tracker.heartbeat_count(), 1_000_000);
        assert_eq!(run.tracker.heartbeats().count(), HEARTBEATS_KEPT);
        assert_eq!(run.tracker.change_count(), 1_000_000);
        assert_eq!(run.tracker.changes().count(), CHANGES_KEPT);
        assert!(run.tracker.heartbeats.capacity() <= 2 * HEARTBEATS_KEPT);
        assert!(run.tracker.changes.capacity() <= 2 * CHANGES_KEPT);
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
    fn a_silent_writer_gets_on_and_a_spinning_loop_does_not_live() {
        let mut writer = Run::new();
        let mut loops = Run::new();
        for _ in 0..20 {
            writer.interval(|totals| totals.io += BYTES_THAT_COUNT);
            loops.interval(|totals| totals.cpu += INTERVAL);
        }
        assert_eq!(writer.status(), Status::Progressing);
        assert_eq!(loops.status(), Status::Silent);
        let share = loops.tracker.deeds().map(|deeds| deeds.cpu_share);
        assert!(share.is_some_and(|share| (share - 1.0).abs() < 0.01));
    }

    #[test]
    fn how_long_nothing_was_new_counts_from_the_last_change_or_the_start() {
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
        assert_eq!(run.tracker.last_change(), None);
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
            (
                ["file 7 of 9", "file 7 of 9", "file 8 of 9"],
                [true, false, true],
            ),
            (
                ["12:00:01 waiting", "12:00:02 waiting", "12:00:03 waiting"],
                [true, false, false],
            ),
            (
                [
                    "still waiting (5s)",
                    "still waiting (10s)",
                    "still waiting (1m20s)",
                ],
                [true, false, true],
            ),
            (
                [
                    "2026-11-22T12:00:01Z poll",
                    "2026-11-22T12:00:09Z poll",
                    "x",
                ],
                [true, false, true],
            ),
        ] {
            let mut run = Run::new();
            let novel = lines.map(|line| run.change(ChangeKind::Output, line));
            assert_eq!(novel, wanted, "{lines:?}");
        }
    }

    #[test]
    fn what_was_said_long_ago_is_novel_again() {
        let mut run = Run::new();
        assert!(run.change(ChangeKind::Output, "a"));
        for letter in 'b'..='z' {
            assert!(run.change(ChangeKind::Output, &letter.to_string()));
        }
        assert!(run.change(ChangeKind::Output, "a"));
        assert!(!run.change(ChangeKind::Output, "z"));
        assert!(run.change(ChangeKind::ToolCall, "z"), "another kind");
    }

    #[test]
    fn an_operation_without_history_has_five_intervals_from_the_last_change() {
        let mut run = Run::new();
        run.tracker.begin_operation(run.now, None);
        for _ in 0..4 {
            run.interval(|totals| totals.output += 1);
            run.beat();
        }
        assert_eq!(run.status(), Status::Slow);
        run.interval(|totals| totals.output += 1);
        assert_eq!(run.status(), Status::Stuck);
    }

    #[test]
    fn looks_between_intervals_bring_evidence_and_no_more_heartbeats() {
        let mut run = Run::new();
        for _ in 0..40 {
            run.pass(INTERVAL / 10);
            run.totals.output += 1;
            run.tracker.look(run.now, run.totals, None);
        }
        let intervals = 2 * 40 / 10;
        assert!(run.tracker.heartbeat_count() <= intervals + 1);
        assert!(run.alive());
        assert_eq!(run.tracker.deeds().map(|deeds| deeds.output), Some(1));
    }

    #[test]
    fn a_trickle_is_a_change_when_an_interval_of_it_is_enough() {
        for (each, wanted) in [(BYTES_THAT_COUNT / 4, true), (BYTES_THAT_COUNT / 20, false)] {
            let mut run = Run::new();
            for _ in 0..40 {
                run.pass(INTERVAL / 10);
                run.totals.io += each;
                run.tracker.look(run.now, run.totals, None);
            }
            assert_eq!(run.tracker.moves_bytes(run.now), wanted, "{each} bytes");
            assert_eq!(run.tracker.change_count() > 0, wanted, "{each} bytes");
        }
    }

    #[test]
    fn what_does_nothing_is_slow_and_then_silent_and_slow_for_as_long_as_is_usual() {
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
        for on in [BlockedOn::Input, BlockedOn::Network, BlockedOn::Stop] {
            run.tracker.look(run.now, run.totals, Some(on));
            assert_eq!(run.status(), Status::Blocked(on));
        }
        let newer = Some(BlockedOn::Input);
        let status = run.tracker.status_when(run.now, newer);
        assert_eq!(status, Status::Blocked(BlockedOn::Input));
        run.tracker.end();
        assert_eq!(run.status(), Status::Ended);
        assert!(!run.alive());
    }

    #[test]
    fn each_kind_of_evidence_is_a_sign_of_life_but_cpu_time() {
        type Deed = fn(&mut Totals);
        let deeds: [(Deed, bool); 5] = [
            (|totals| totals.output += 1, true),
            (|totals| totals.io += 1, true),
            (|totals| totals.born += 1, true),
            (|totals| totals.ended += 1, true),
            (|totals| totals.cpu += INTERVAL, false),
        ];
        for (place, (deed, lives)) in deeds.into_iter().enumerate() {
            let mut run = Run::new();
            for _ in 0..3 {
                run.interval(deed);
            }
            assert_eq!(run.alive(), lives, "deed {place}");
        }
    }
}
