//! Status checks: a judge decides whether a running session makes progress, each check on
//! its own thread.
//!
//! At most three checks run at once, and one per session. Results are kept for ten minutes.
//! Starting a check does not block. The heuristic replaces a judge that fails or takes too long,
//! and its reason says so. If a judge panics, only its check fails.
//!
//! Limits: results are not announced; callers poll for them. A judge that never returns keeps its
//! thread, but blocks neither its session nor one of the three checks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::judge::{self, Evidence, Judge, JudgeError, Judgement};
use crate::base::clock::{Clock, Now, SystemClock};
use crate::base::sync::CondvarMutex;
use crate::process::files;

/// How many checks may run at once.
pub(crate) const MAX_AT_ONCE: usize = 3;
/// How long results are kept.
pub(crate) const RETENTION: Duration = Duration::from_secs(600);
/// How long to wait for a judge. Each judge has a shorter limit itself.
pub(crate) const CHECK_TIME: Duration = Duration::from_secs(180);
/// How many results are kept; more results replace the oldest ones early.
const MAX_KEPT: usize = 256;
/// At this number of threads of abandoned judges, no check starts.
const MAX_ABANDONED: usize = 8;
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// A judge needs a small stack, since its buffers are on the heap.
const STACK: usize = 512 * 1024;

/// Why a check was not started.
#[derive(Debug, thiserror::Error)]
pub enum CheckRefusal {
    /// A check with this id is running.
    #[error("a check with this id is running: get its result instead")]
    SameId,
    /// Another check of this session is running.
    #[error("another check of this session is running: get its result instead")]
    SameSession,
    /// Too many checks are running.
    #[error("{MAX_AT_ONCE} checks are running, which is the limit: retry when one has ended")]
    TooMany,
    /// Checks are turned off.
    #[error("status checks are off (enable_concurrent_checks)")]
    Disabled,
    /// Its thread cannot be started.
    #[error("cannot start a check: {0}")]
    Thread(io::Error),
}

/// The state of a check.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckState {
    /// The check is running.
    Pending,
    Done(Judgement),
    /// It ended without a judgement, for this reason.
    Failed(String),
}

/// A check as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub state: CheckState,
    /// When the state last changed, in Unix seconds.
    pub at: f64,
}

/// All status checks of this process.
pub struct Checks {
    enabled: bool,
    shared: Arc<Shared>,
}

/// The state that check threads share with their callers.
struct Shared {
    judge: Arc<dyn Judge>,
    clock: Arc<dyn Clock>,
    board: CondvarMutex<Board>,
}

#[derive(Default)]
struct Board {
    closed: bool,
    /// The number of the newest check. Numbers distinguish checks with the same id.
    newest: u64,
    entries: BTreeMap<String, Entry>,
    /// The numbers of checks whose threads have not ended.
    threads: BTreeSet<u64>,
}

struct Entry {
    number: u64,
    session: String,
    /// When `state` last changed.
    since: Instant,
    /// `since` in Unix seconds.
    at: f64,
    state: CheckState,
    /// The heuristic needs it if the judge does not answer.
    evidence: Arc<Evidence>,
}

impl Checks {
    /// Creates the checks; all of them ask `judge`.
    pub fn new(judge: Arc<dyn Judge>, enabled: bool) -> Checks {
        Checks::with_clock(judge, enabled, Arc::new(SystemClock))
    }

    /// Like [`Checks::new`], with another clock.
    pub(crate) fn with_clock(
        judge: Arc<dyn Judge>,
        enabled: bool,
        clock: Arc<dyn Clock>,
    ) -> Checks {
        Checks {
            enabled,
            shared: Arc::new(Shared { judge, clock, board: CondvarMutex::default() }),
        }
    }

    /// Starts a check and returns its id without waiting for it.
    ///
    /// # Errors
    /// If the check cannot be started.
    pub fn start(
        &self,
        session: &str,
        check_id: Option<&str>,
        evidence: Evidence,
    ) -> Result<String, CheckRefusal> {
        if !self.enabled {
            return Err(CheckRefusal::Disabled);
        }
        let evidence = Arc::new(evidence);
        let (id, number) = self.reserve(session, check_id, &evidence)?;
        let (shared, thread_id) = (Arc::clone(&self.shared), id.clone());
        let thread = Builder::new()
            .name(thread_name(session))
            .stack_size(STACK)
            .spawn(move || shared.run(&thread_id, number, &evidence));
        if let Err(error) = thread {
            let mut board = self.shared.board.lock();
            board.threads.remove(&number);
            board.entries.remove(&id);
            return Err(CheckRefusal::Thread(error));
        }
        Ok(id)
    }

    fn reserve(
        &self,
        session: &str,
        check_id: Option<&str>,
        evidence: &Arc<Evidence>,
    ) -> Result<(String, u64), CheckRefusal> {
        let now = self.shared.clock.now();
        let mut board = self.shared.board.lock();
        board.sweep(&now, self.shared.judge.name());
        if board.closed {
            return Err(CheckRefusal::Thread(io::Error::other("the checks have ended")));
        }
        let id = check_id.map_or_else(files::random_id, str::to_owned);
        if board.entries.get(&id).is_some_and(Entry::is_pending) {
            return Err(CheckRefusal::SameId);
        }
        let mut pending = board.entries.values().filter(|entry| entry.is_pending());
        if pending.any(|entry| entry.session == session) {
            return Err(CheckRefusal::SameSession);
        }
        let pending = board.entries.values().filter(|entry| entry.is_pending());
        let running = pending.count();
        if running >= MAX_AT_ONCE || board.threads.len() >= running + MAX_ABANDONED {
            return Err(CheckRefusal::TooMany);
        }
        board.newest += 1;
        let number = board.newest;
        let entry = Entry {
            number,
            session: session.to_owned(),
            since: now.mono,
            at: now.unix_seconds(),
            state: CheckState::Pending,
            evidence: Arc::clone(evidence),
        };
        board.entries.insert(id.clone(), entry);
        board.threads.insert(number);
        Ok((id, number))
    }

    /// A check's state, after waiting at most `wait` for its end; `None` if the id is unknown or
    /// the check was dropped.
    pub fn get(&self, check_id: &str, wait: Duration) -> Option<CheckState> {
        self.wait_for(check_id, wait).map(|check| check.state)
    }

    /// Like [`Checks::get`], with the time of the last change.
    pub fn wait_for(&self, check_id: &str, wait: Duration) -> Option<Check> {
        let limit = Instant::now() + wait;
        let Shared { judge, clock, board: monitor } = &*self.shared;
        let mut board = monitor.lock();
        loop {
            let now = clock.now();
            board.sweep(&now, judge.name());
            let entry = board.entries.get(check_id)?;
            let running_for = now.mono.saturating_duration_since(entry.since);
            let given_up_in = CHECK_TIME.saturating_sub(running_for);
            if !entry.is_pending() || Instant::now() >= limit {
                return Some(Check { state: entry.state.clone(), at: entry.at });
            }
            let deadline = limit.min(Instant::now() + given_up_in);
            board = monitor.wait(board, Some(deadline));
        }
    }

    /// Ends all checks and waits at most half a second for their threads; judges that take longer
    /// are abandoned. Refuses later checks.
    pub fn close(&self) {
        let Shared { judge, clock, board: monitor } = &*self.shared;
        let now = clock.now();
        {
            let mut board = monitor.lock();
            board.closed = true;
            let entries = board.entries.values_mut();
            for entry in entries.filter(|entry| entry.is_pending()) {
                let closed = format!("the judge {}", JudgeError::Closed);
                entry.end(CheckState::Failed(closed), &now);
            }
        }
        monitor.notify_all();
        judge.close();
        let limit = Instant::now() + CLOSE_TIME;
        let mut board = monitor.lock();
        while !board.threads.is_empty() && Instant::now() < limit {
            board = monitor.wait(board, Some(limit));
        }
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        if !self.shared.board.lock().closed {
            self.close();
        }
    }
}

impl Shared {
    /// Runs a check on its thread.
    fn run(&self, id: &str, number: u64, evidence: &Evidence) {
        let judge = self.judge.as_ref();
        let state = match catch_unwind(AssertUnwindSafe(|| judge::decide(judge, evidence))) {
            Ok(Ok(judgement)) => CheckState::Done(judgement),
            Ok(Err(error)) => CheckState::Failed(format!("the judge {error}")),
            // The panic hook has already reported the panic on stderr.
            Err(_) => CheckState::Failed(format!("the judge {} panicked", judge.name())),
        };
        let now = self.clock.now();
        {
            let mut board = self.board.lock();
            board.threads.remove(&number);
            // The check may have been abandoned, and a later one may have the same id.
            let entry = board.entries.get_mut(id);
            if let Some(entry) = entry.filter(|entry| entry.number == number && entry.is_pending())
            {
                entry.end(state, &now);
            }
        }
        self.board.notify_all();
    }
}

impl Board {
    /// Abandons judges that take too long and drops old results.
    fn sweep(&mut self, now: &Now, judge: &str) {
        for entry in self.entries.values_mut().filter(|entry| entry.is_pending()) {
            if now.mono.saturating_duration_since(entry.since) >= CHECK_TIME {
                let late = JudgeError::TimedOut(CHECK_TIME.as_secs());
                let judgement = judge::fallback(judge, &late, &entry.evidence);
                entry.end(CheckState::Done(judgement), now);
            }
        }
        self.entries.retain(|_, entry| {
            entry.is_pending() || now.mono.saturating_duration_since(entry.since) < RETENTION
        });
        while self.entries.len() >= MAX_KEPT {
            let ended = self.entries.iter().filter(|(_, entry)| !entry.is_pending());
            let oldest = ended.min_by_key(|(_, entry)| entry.number);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            self.entries.remove(&oldest);
        }
    }
}

impl Entry {
    fn is_pending(&self) -> bool {
        self.state == CheckState::Pending
    }

    fn end(&mut self, state: CheckState, now: &Now) {
        self.state = state;
        self.since = now.mono;
        self.at = now.unix_seconds();
    }
}

/// The kernel cuts thread names at 15 bytes.
fn thread_name(session: &str) -> String {
    let short: String = session.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("check-{short}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::judge::Finding;
    use crate::base::clock::FakeClock;
    use crate::progress::tracker::Status;

    /// Long enough for anything that will happen.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Answers once the test opens it.
    #[derive(Default)]
    struct Gate {
        open: CondvarMutex<bool>,
        panics: bool,
    }

    impl Gate {
        fn open(&self) {
            *self.open.lock() = true;
            self.open.notify_all();
        }
    }

    impl Judge for Gate {
        fn name(&self) -> &str {
            "gate"
        }
        fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError> {
            let mut open = self.open.lock();
            while !*open {
                open = self.open.wait(open, None);
            }
            drop(open);
            // Unwinds like a panic, but without the message on stderr.
            if self.panics && evidence.session == "panics" {
                std::panic::resume_unwind(Box::new("a fault"));
            }
            Ok(Judgement { finding: Finding::Progress, reason: evidence.session.clone() })
        }
        fn close(&self) {
            self.open();
        }
    }

    struct Setup {
        gate: Arc<Gate>,
        clock: Arc<FakeClock>,
        checks: Checks,
    }

    fn setup(panics: bool) -> Setup {
        let gate = Arc::new(Gate { panics, ..Gate::default() });
        let clock = Arc::new(FakeClock::default());
        let checks = Checks::with_clock(gate.clone(), true, clock.clone());
        Setup { gate, clock, checks }
    }

    fn start(checks: &Checks, session: &str) -> Result<String, CheckRefusal> {
        let evidence = Evidence {
            session: session.to_owned(),
            prompt_or_command: String::new(),
            status: Status::Stuck,
            evidence: Vec::new(),
            heartbeats: 0,
            state_changes: 0,
            last_change: None,
            elapsed: Duration::ZERO,
            iteration: None,
            recent: Vec::new(),
        };
        checks.start(session, Some(session), evidence)
    }

    #[test]
    fn starting_and_polling_do_not_wait_and_a_long_poll_waits_for_the_end() {
        let Setup { gate, checks, .. } = setup(false);
        start(&checks, "a").unwrap();
        assert_eq!(checks.get("a", Duration::ZERO), Some(CheckState::Pending));
        let shortly = Duration::from_millis(1);
        assert_eq!(checks.get("a", shortly), Some(CheckState::Pending));
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| checks.get("a", PATIENCE));
            gate.open();
            let done = looking.join().unwrap();
            assert!(matches!(done, Some(CheckState::Done(_))), "{done:?}");
        });
        assert_eq!(checks.get("b", PATIENCE), None);
    }

    #[test]
    fn results_are_kept_for_ten_minutes() {
        let Setup { gate, clock, checks } = setup(false);
        start(&checks, "a").unwrap();
        clock.advance(CHECK_TIME / 2);
        gate.open();
        let done = checks.wait_for("a", PATIENCE).unwrap();
        assert!(matches!(done.state, CheckState::Done(_)));
        assert_eq!(done.at, clock.now().unix_seconds());
        clock.advance(RETENTION - Duration::from_millis(1));
        assert!(checks.get("a", Duration::ZERO).is_some());
        clock.advance(Duration::from_millis(1));
        assert_eq!(checks.get("a", Duration::ZERO), None);
    }

    #[test]
    fn an_id_is_free_again_when_its_check_has_ended() {
        let Setup { gate, checks, .. } = setup(false);
        gate.open();
        for _ in 0..20 {
            start(&checks, "a").unwrap();
            assert!(matches!(checks.get("a", PATIENCE), Some(CheckState::Done(_))));
        }
    }

    #[test]
    fn a_panic_fails_only_its_check() {
        let Setup { gate, checks, .. } = setup(true);
        start(&checks, "panics").unwrap();
        start(&checks, "works").unwrap();
        gate.open();
        let failed = CheckState::Failed("the judge gate panicked".to_owned());
        assert_eq!(checks.get("panics", PATIENCE), Some(failed));
        assert!(matches!(checks.get("works", PATIENCE), Some(CheckState::Done(_))));
        start(&checks, "next").unwrap();
    }

    #[test]
    fn a_judge_that_hangs_blocks_only_its_check() {
        let Setup { clock, checks, .. } = setup(false);
        for session in ["a", "b", "c"] {
            start(&checks, session).unwrap();
        }
        assert!(matches!(start(&checks, "d"), Err(CheckRefusal::TooMany)));
        clock.advance(CHECK_TIME);
        let Some(CheckState::Done(judgement)) = checks.get("a", Duration::ZERO) else {
            panic!("the heuristic judges");
        };
        assert_eq!(judgement.finding, Finding::Loop);
        assert!(
            judgement
                .reason
                .ends_with("(by the heuristic: the judge gate gave no answer within 180 s)"),
            "{}",
            judgement.reason
        );
        start(&checks, "d").unwrap();
        start(&checks, "a").unwrap();
    }

    #[test]
    fn judges_that_hang_forever_are_bounded_in_number() {
        let Setup { clock, checks, .. } = setup(false);
        let mut started = 0;
        for number in 0..100 {
            if start(&checks, &number.to_string()).is_ok() {
                started += 1;
            }
            clock.advance(CHECK_TIME);
        }
        assert!(started <= MAX_ABANDONED + MAX_AT_ONCE, "{started}");
    }

    #[test]
    fn the_number_of_results_is_bounded() {
        let Setup { gate, checks, .. } = setup(false);
        gate.open();
        for number in 0..MAX_KEPT + 20 {
            let id = start(&checks, &number.to_string()).unwrap();
            checks.get(&id, PATIENCE);
        }
        assert!(checks.shared.board.lock().entries.len() <= MAX_KEPT);
        assert_eq!(checks.get("0", Duration::ZERO), None);
        let newest = (MAX_KEPT + 19).to_string();
        assert!(checks.get(&newest, Duration::ZERO).is_some());
    }

    #[test]
    fn closing_ends_pending_checks_joins_and_refuses_later_ones() {
        let Setup { checks, .. } = setup(false);
        start(&checks, "a").unwrap();
        checks.close();
        let closed = "the judge was closed before it answered".to_owned();
        assert_eq!(checks.get("a", Duration::ZERO), Some(CheckState::Failed(closed)));
        assert!(checks.shared.board.lock().threads.is_empty());
        assert!(matches!(start(&checks, "b"), Err(CheckRefusal::Thread(_))));
    }

    #[test]
    fn checks_that_are_off_are_refused() {
        let checks = Checks::new(Arc::new(Gate::default()), false);
        assert!(matches!(start(&checks, "a"), Err(CheckRefusal::Disabled)));
    }
}
