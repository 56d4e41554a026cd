//! Status checks: whether a session gets on is judged while it goes on, each check on a
//! thread of its own.
//!
//! At most three at once and one for each session; results are kept for ten minutes.
//! Starting one waits for nothing. A judge that fails, or that takes too long, is replaced
//! by the heuristic, which says so; one that panics costs its check.
//!
//! Limits: nobody is told of a result; who wants it asks for it. A judge that never
//! returns keeps its thread, but neither its session nor one of the three places.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::judge::{self, Evidence, Judge, JudgeError, Judgement};
use crate::base::clock::{Clock, Now, SystemClock};
use crate::base::sync::Monitor;
use crate::process::files;

/// Checks that are under way at once.
pub const MAX_AT_ONCE: usize = 3;
/// How long results are kept.
pub const RETENTION: Duration = Duration::from_secs(600);
/// A judge that has not answered by then is no longer waited for; all have limits of
/// their own that are shorter.
pub const CHECK_TIME: Duration = Duration::from_secs(180);
/// Results beyond this push out the oldest before their time.
const MAX_KEPT: usize = 256;
/// Threads of judges that were given up; with more of them no check is started.
const MAX_GIVEN_UP: usize = 8;
/// How long closing waits for judges that were told to end.
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// A judge needs little; its buffers are on the heap.
const STACK: usize = 512 * 1024;

/// Why a check was not started.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A check of this id is under way.
    #[error("a check of this id is under way: ask for its result")]
    SameId,
    /// Another check of this session is under way.
    #[error("another check of this session is under way: ask for its result")]
    SameSession,
    /// Too many are under way.
    #[error("{MAX_AT_ONCE} checks are under way, the limit: ask again when one has ended")]
    TooMany,
    /// The user wants none.
    #[error("status checks are off (enable_concurrent_checks)")]
    Disabled,
    /// There is no thread for it.
    #[error("cannot start a check: {0}")]
    Thread(io::Error),
}

/// How far a check is.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckState {
    /// Under way.
    Pending,
    /// Judged.
    Done(Judgement),
    /// Over without a judgement.
    Failed(String),
}

/// A check, for whoever asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// How far it is.
    pub state: CheckState,
    /// When it came to that, in Unix seconds.
    pub at: f64,
}

/// All status checks of this process.
pub struct Checks {
    judge: Arc<dyn Judge>,
    enabled: bool,
    clock: Arc<dyn Clock>,
    board: Arc<Monitor<Board>>,
}

/// What is known of all checks.
#[derive(Default)]
struct Board {
    closed: bool,
    /// Tells one check of an id from a later one.
    next: u64,
    entries: BTreeMap<String, Entry>,
    threads: BTreeMap<u64, JoinHandle<()>>,
    /// Threads that have nothing more to do.
    ended: Vec<u64>,
}

struct Entry {
    number: u64,
    session: String,
    /// When it came to what it is.
    since: Instant,
    /// The same, in Unix seconds.
    at: f64,
    progress: Progress,
}

enum Progress {
    /// With what the heuristic needs, should the judge not answer.
    Pending(Arc<Evidence>),
    Over(CheckState),
}

impl Checks {
    /// No check yet; `judge` is asked by all of them.
    pub fn new(judge: Arc<dyn Judge>, enabled: bool) -> Checks {
        Checks::with_clock(judge, enabled, Arc::new(SystemClock))
    }

    /// The same on another clock.
    pub fn with_clock(judge: Arc<dyn Judge>, enabled: bool, clock: Arc<dyn Clock>) -> Checks {
        Checks {
            judge,
            enabled,
            clock,
            board: Arc::default(),
        }
    }

    /// Starts a check and returns at once; the answer is its id.
    ///
    /// # Errors
    /// When it was not started.
    pub fn start(
        &self,
        session: &str,
        check_id: Option<&str>,
        evidence: Evidence,
    ) -> Result<String, Refused> {
        if !self.enabled {
            return Err(Refused::Disabled);
        }
        let evidence = Arc::new(evidence);
        let (id, number) = self.reserve(session, check_id, &evidence)?;
        let work = Work {
            id: id.clone(),
            number,
            evidence,
            judge: Arc::clone(&self.judge),
            clock: Arc::clone(&self.clock),
            board: Arc::clone(&self.board),
        };
        let thread = Builder::new()
            .name(thread_name(session))
            .stack_size(STACK)
            .spawn(move || work.run());
        let mut board = self.board.lock();
        match thread {
            Ok(thread) => {
                board.threads.insert(number, thread);
                Ok(id)
            }
            Err(error) => {
                board.entries.remove(&id);
                Err(Refused::Thread(error))
            }
        }
    }

    fn reserve(
        &self,
        session: &str,
        check_id: Option<&str>,
        evidence: &Arc<Evidence>,
    ) -> Result<(String, u64), Refused> {
        let ended = self.board.lock().take_ended();
        join(ended);
        let now = self.clock.now();
        let mut board = self.board.lock();
        board.sweep(&now, self.judge.name());
        if board.closed {
            return Err(Refused::Thread(io::Error::other("the checks have ended")));
        }
        let id = check_id.map_or_else(files::random_id, str::to_owned);
        if board.entries.get(&id).is_some_and(Entry::is_pending) {
            return Err(Refused::SameId);
        }
        let mut pending = board.entries.values().filter(|entry| entry.is_pending());
        if pending.any(|entry| entry.session == session) {
            return Err(Refused::SameSession);
        }
        let pending = board.entries.values().filter(|entry| entry.is_pending());
        let under_way = pending.count();
        if under_way >= MAX_AT_ONCE || board.threads.len() >= under_way + MAX_GIVEN_UP {
            return Err(Refused::TooMany);
        }
        board.next += 1;
        let number = board.next;
        let entry = Entry {
            number,
            session: session.to_owned(),
            since: now.mono,
            at: now.unix_seconds(),
            progress: Progress::Pending(Arc::clone(evidence)),
        };
        board.entries.insert(id.clone(), entry);
        Ok((id, number))
    }

    /// A check's state, after waiting so long at most for its end; `None`: there is no
    /// check of this id, or not any more.
    pub fn get(&self, check_id: &str, wait: Duration) -> Option<CheckState> {
        self.look(check_id, wait).map(|check| check.state)
    }

    /// The same, with the time of it.
    pub fn look(&self, check_id: &str, wait: Duration) -> Option<Check> {
        let limit = Instant::now() + wait;
        let mut board = self.board.lock();
        loop {
            let now = self.clock.now();
            board.sweep(&now, self.judge.name());
            let entry = board.entries.get(check_id)?;
            let under_way = now.mono.saturating_duration_since(entry.since);
            let given_up_in = CHECK_TIME.saturating_sub(under_way);
            let over = !entry.is_pending();
            let check = entry.check();
            if over || Instant::now() >= limit {
                return Some(check);
            }
            let deadline = limit.min(Instant::now() + given_up_in);
            board = self.board.wait(board, Some(deadline));
        }
    }

    /// Ends all checks and joins their threads; a judge that does not end in half a second
    /// is left to itself. Later ones are refused.
    pub fn close(&self) {
        let now = self.clock.now();
        {
            let mut board = self.board.lock();
            board.closed = true;
            let entries = board.entries.values_mut();
            for entry in entries.filter(|entry| entry.is_pending()) {
                let closed = format!("the judge {}", JudgeError::Closed);
                entry.end(CheckState::Failed(closed), &now);
            }
        }
        self.board.notify_all();
        self.judge.close();
        let limit = Instant::now() + CLOSE_TIME;
        let mut board = self.board.lock();
        while board.ended.len() < board.threads.len() && Instant::now() < limit {
            board = self.board.wait(board, Some(limit));
        }
        let ended = board.take_ended();
        drop(board);
        join(ended);
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        if !self.board.lock().closed {
            self.close();
        }
    }
}

/// What one check's thread does.
struct Work {
    id: String,
    number: u64,
    evidence: Arc<Evidence>,
    judge: Arc<dyn Judge>,
    clock: Arc<dyn Clock>,
    board: Arc<Monitor<Board>>,
}

impl Work {
    fn run(self) {
        let decided = catch_unwind(AssertUnwindSafe(|| {
            judge::decide(self.judge.as_ref(), &self.evidence)
        }));
        let state = match decided {
            Ok(Ok(judgement)) => CheckState::Done(judgement),
            Ok(Err(error)) => CheckState::Failed(format!("the judge {error}")),
            // The panic itself has been told on stderr.
            Err(_) => CheckState::Failed(format!("the judge {} panicked", self.judge.name())),
        };
        let now = self.clock.now();
        {
            let mut board = self.board.lock();
            board.ended.push(self.number);
            // A later check of the same id, or the end of waiting, has gone before.
            let entry = board.entries.get_mut(&self.id);
            if let Some(entry) =
                entry.filter(|entry| entry.number == self.number && entry.is_pending())
            {
                entry.end(state, &now);
            }
        }
        self.board.notify_all();
    }
}

impl Board {
    /// Gives up on judges that take too long, and drops what is out of date.
    fn sweep(&mut self, now: &Now, judge: &str) {
        for entry in self.entries.values_mut() {
            let Progress::Pending(evidence) = &entry.progress else {
                continue;
            };
            if now.mono.saturating_duration_since(entry.since) >= CHECK_TIME {
                let late = JudgeError::TimedOut(CHECK_TIME.as_secs());
                let judgement = judge::instead_of(judge, &late, evidence);
                entry.end(CheckState::Done(judgement), now);
            }
        }
        self.entries.retain(|_, entry| {
            entry.is_pending() || now.mono.saturating_duration_since(entry.since) < RETENTION
        });
        while self.entries.len() >= MAX_KEPT {
            let over = self.entries.iter().filter(|(_, entry)| !entry.is_pending());
            let oldest = over.min_by_key(|(_, entry)| entry.number);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            self.entries.remove(&oldest);
        }
    }

    /// The threads that have nothing more to do: joining them takes no time.
    fn take_ended(&mut self) -> Vec<JoinHandle<()>> {
        let (ended, early): (Vec<u64>, Vec<u64>) = std::mem::take(&mut self.ended)
            .into_iter()
            .partition(|number| self.threads.contains_key(number));
        // A thread may end before its start has noted it.
        self.ended = early;
        ended
            .iter()
            .filter_map(|number| self.threads.remove(number))
            .collect()
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A panic was caught in it.
        let _ = thread.join();
    }
}

impl Entry {
    fn is_pending(&self) -> bool {
        matches!(self.progress, Progress::Pending(_))
    }

    fn end(&mut self, state: CheckState, now: &Now) {
        self.progress = Progress::Over(state);
        self.since = now.mono;
        self.at = now.unix_seconds();
    }

    fn check(&self) -> Check {
        let state = match &self.progress {
            Progress::Pending(_) => CheckState::Pending,
            Progress::Over(state) => state.clone(),
        };
        Check { state, at: self.at }
    }
}

/// Names of threads are cut at 15 bytes.
fn thread_name(session: &str) -> String {
    let short: String = session
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(8)
        .collect();
    format!("check-{short}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::judge::Finding;
    use crate::base::clock::FakeClock;
    use crate::progress::tracker::Status;

    /// Long enough for anything that is going to happen.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Answers when it is told to.
    #[derive(Default)]
    struct Gate {
        open: Monitor<bool>,
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
            // As a fault in it would; without the words that a panic prints.
            if self.panics && evidence.session == "panics" {
                std::panic::resume_unwind(Box::new("a fault"));
            }
            Ok(Judgement {
                finding: Finding::Progress,
                reason: evidence.session.clone(),
            })
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
        let gate = Arc::new(Gate {
            panics,
            ..Gate::default()
        });
        let clock = Arc::new(FakeClock::default());
        let checks = Checks::with_clock(gate.clone(), true, clock.clone());
        Setup {
            gate,
            clock,
            checks,
        }
    }

    fn start(checks: &Checks, session: &str) -> Result<String, Refused> {
        let evidence = Evidence {
            session: session.to_owned(),
            what: String::new(),
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
    fn a_start_and_a_look_wait_for_nothing_and_a_longer_look_for_the_end() {
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
        let Setup {
            gate,
            clock,
            checks,
        } = setup(false);
        start(&checks, "a").unwrap();
        clock.advance(CHECK_TIME / 2);
        gate.open();
        let done = checks.look("a", PATIENCE).unwrap();
        assert!(matches!(done.state, CheckState::Done(_)));
        assert_eq!(done.at, clock.now().unix_seconds());
        clock.advance(RETENTION - Duration::from_millis(1));
        assert!(checks.get("a", Duration::ZERO).is_some());
        clock.advance(Duration::from_millis(1));
        assert_eq!(checks.get("a", Duration::ZERO), None);
    }

    #[test]
    fn an_id_is_free_again_when_its_check_is_over() {
        let Setup { gate, checks, .. } = setup(false);
        gate.open();
        for _ in 0..20 {
            start(&checks, "a").unwrap();
            assert!(matches!(
                checks.get("a", PATIENCE),
                Some(CheckState::Done(_))
            ));
        }
    }

    #[test]
    fn a_panic_costs_its_check_only() {
        let Setup { gate, checks, .. } = setup(true);
        start(&checks, "panics").unwrap();
        start(&checks, "works").unwrap();
        gate.open();
        let failed = CheckState::Failed("the judge gate panicked".to_owned());
        assert_eq!(checks.get("panics", PATIENCE), Some(failed));
        assert!(matches!(
            checks.get("works", PATIENCE),
            Some(CheckState::Done(_))
        ));
        start(&checks, "next").unwrap();
    }

    #[test]
    fn a_judge_that_hangs_costs_its_check_only() {
        let Setup { clock, checks, .. } = setup(false);
        for session in ["a", "b", "c"] {
            start(&checks, session).unwrap();
        }
        assert!(matches!(start(&checks, "d"), Err(Refused::TooMany)));
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
    fn judges_that_hang_for_ever_do_not_gather_without_bound() {
        let Setup { clock, checks, .. } = setup(false);
        let mut started = 0;
        for number in 0..100 {
            if start(&checks, &number.to_string()).is_ok() {
                started += 1;
            }
            clock.advance(CHECK_TIME);
        }
        assert!(started <= MAX_GIVEN_UP + MAX_AT_ONCE, "{started}");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let Setup { gate, checks, .. } = setup(false);
        gate.open();
        for number in 0..MAX_KEPT + 20 {
            let id = start(&checks, &number.to_string()).unwrap();
            checks.get(&id, PATIENCE);
        }
        assert!(checks.board.lock().entries.len() <= MAX_KEPT);
        assert_eq!(checks.get("0", Duration::ZERO), None);
        let newest = (MAX_KEPT + 19).to_string();
        assert!(checks.get(&newest, Duration::ZERO).is_some());
    }

    #[test]
    fn closing_ends_what_is_pending_joins_and_refuses_what_comes_later() {
        let Setup { checks, .. } = setup(false);
        start(&checks, "a").unwrap();
        checks.close();
        let closed = "the judge was closed before it answered".to_owned();
        assert_eq!(
            checks.get("a", Duration::ZERO),
            Some(CheckState::Failed(closed))
        );
        assert!(checks.board.lock().threads.is_empty());
        assert!(matches!(start(&checks, "b"), Err(Refused::Thread(_))));
    }

    #[test]
    fn checks_that_are_off_are_refused() {
        let checks = Checks::new(Arc::new(Gate::default()), false);
        assert!(matches!(start(&checks, "a"), Err(Refused::Disabled)));
    }
}
