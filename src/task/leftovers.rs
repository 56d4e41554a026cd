//! The processes that outlive a task's shell: found by scans of the machine, watched for their end.
//!
//! Scans come less and less often while the same ones live: the end of a watched one is noticed
//! without a scan.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::process::kill::Handle;
use crate::process::orphans;
use crate::process::tree::{self, Identity, ProcessInfo, Scan, TaskProcesses};
use crate::progress::wait::ProcessName;

/// How many leftovers are watched for their end; scans notice the ends of others.
const MAX_WATCHED: usize = 32;
/// The pause before the first scan. Each further pause is twice as long.
const FIRST_SCAN_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between scans.
const LONGEST_SCAN_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a scan that did not show whether any is left.
const INCONCLUSIVE_SCAN_PAUSE: Duration = Duration::from_millis(20);
/// How often the tree is scanned while the processes found end before they can be watched. If
/// they do each time, the tree continues in processes that live no longer than a scan takes.
const SCANS: usize = 4;

/// How long a result waits for leftovers that are on their way to their program.
const NAMING_LIMIT: Duration = Duration::from_millis(20);
/// The pause between two looks at them.
const EXEC_RECHECK: Duration = Duration::from_millis(1);

/// A cheap check that spares most commands a scan of the machine: a subreaper adopts every process
/// that outlives the shell.
pub(super) fn may_leave_processes(output_is_open: bool) -> bool {
    output_is_open || orphans::adopted().is_none_or(|adopted| !adopted.is_empty())
}

/// The leftovers of one task.
#[derive(Default)]
pub(super) struct Leftovers {
    /// How many the last scan found.
    count: usize,
    /// Whether there may be others: the last scan was inconclusive.
    inconclusive: bool,
    watched: Vec<Handle>,
    /// When to scan next, and the length of the pause before.
    scan: Option<(Instant, Duration)>,
}

impl Leftovers {
    /// Whether the last scan proved that none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && !self.inconclusive
    }

    /// The processes whose ends to watch for.
    pub(super) fn watched_ends(&self) -> impl Iterator<Item = (Identity, BorrowedFd<'_>)> {
        self.watched.iter().filter_map(|handle| Some((handle.id, handle.ended()?)))
    }

    pub(super) fn next_scan(&self) -> Option<Instant> {
        self.scan.map(|(at, _)| at)
    }

    /// Whether a scan is due, because one of them has ended or the pause is over.
    pub(super) fn scan_is_due(&mut self, ended: &[Identity], now: Instant) -> bool {
        let before = self.watched.len();
        self.watched.retain(|handle| !ended.contains(&handle.id));
        self.watched.len() < before || self.next_scan().is_some_and(|at| now >= at)
    }

    /// Scans for leftovers; returns those that are alive.
    pub(super) fn scan(&mut self, processes: &mut TaskProcesses) -> Vec<ProcessName> {
        let found = processes.living(&Scan::take());
        self.update(found, processes)
    }

    /// Takes the leftovers that a scan has just found; returns those that are alive.
    pub(super) fn update(
        &mut self,
        mut found: Vec<ProcessInfo>,
        processes: &mut TaskProcesses,
    ) -> Vec<ProcessName> {
        self.watched = open_handles(&found);
        for _ in 1..SCANS {
            let is_clear = if found.is_empty() {
                !processes.is_inconclusive()
            } else {
                !self.watched.is_empty()
            };
            if is_clear {
                break;
            }
            found = processes.living(&Scan::take());
            self.watched = open_handles(&found);
        }
        let deadline = Instant::now() + NAMING_LIMIT;
        while await_exec(&found, deadline) {
            found = processes.living(&Scan::take());
            self.watched = open_handles(&found);
        }
        self.count = found.len();
        self.inconclusive = found.is_empty() && processes.is_inconclusive();
        let pause = match self.scan {
            _ if self.inconclusive => INCONCLUSIVE_SCAN_PAUSE,
            Some((_, before)) => (before * 2).clamp(FIRST_SCAN_PAUSE, LONGEST_SCAN_PAUSE),
            None => FIRST_SCAN_PAUSE,
        };
        self.scan = (!self.is_empty()).then(|| (Instant::now() + pause, pause));
        found.iter().map(ProcessInfo::label).collect()
    }
}

/// Waits until none of these processes is on its way to another program, so that each is named by
/// what it runs, and a daemon has left; returns false at once if there was none, or the deadline
/// has passed.
fn await_exec(found: &[ProcessInfo], deadline: Instant) -> bool {
    let mut starting: Vec<Identity> = found
        .iter()
        .filter(|process| process.may_be_about_to_exec())
        .map(|process| process.id)
        .collect();
    if starting.is_empty() || Instant::now() >= deadline {
        return false;
    }
    while !starting.is_empty() && Instant::now() < deadline {
        // The kernel reports an exec to tracers alone.
        std::thread::sleep(EXEC_RECHECK);
        starting.retain(|id| {
            let now = tree::look_up(id.pid);
            now.is_some_and(|now| now.id == *id && now.may_be_about_to_exec())
        });
    }
    true
}

fn open_handles(found: &[ProcessInfo]) -> Vec<Handle> {
    found.iter().filter_map(|process| Handle::open(process.id).ok()).take(MAX_WATCHED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::probe::StallReason;

    /// A shell whose child, which has made no exec, runs this script.
    fn fork(script: &str) -> (std::process::Child, ProcessInfo) {
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("({script}) & echo $!; wait")])
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut shell = shell.expect("a shell");
        let mut pid = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().expect("its output"));
        std::io::BufRead::read_line(&mut output, &mut pid).expect("the pid of its child");
        let child = tree::look_up(pid.trim().parse().expect("a number")).expect("its child");
        (shell, child)
    }

    fn end(mut shell: std::process::Child, child: &ProcessInfo) {
        let child = Handle::open(child.id).expect("the child lives");
        child.signal(crate::process::signals::Signal::Kill).expect("it is killed");
        shell.wait().expect("the shell ends");
    }

    #[test]
    fn a_leftover_that_is_about_to_exec_is_awaited_and_named_by_its_program() {
        let go = std::env::temp_dir().join(format!("go-{}", crate::process::files::random_id()));
        let script = format!("until [ -e '{}' ]; do :; done; exec sleep 600", go.to_string_lossy());
        let (shell, child) = fork(&script);
        let look = || tree::look_up(child.id.pid).expect("it lives");
        while !look().may_be_about_to_exec() {}
        assert_eq!(child.name, "sh");
        assert!(await_exec(&[look()], Instant::now() + NAMING_LIMIT), "it has not ended its loop");
        std::fs::write(&go, "").expect("a file");
        // Between the two it may have been caught waiting.
        while look().name == "sh" {
            await_exec(&[look()], Instant::now() + Duration::from_secs(30));
        }
        assert_eq!(look().name, "sleep");
        assert!(!look().is_fork);
        std::fs::remove_file(&go).expect("the file");
        end(shell, &child);
    }

    #[test]
    fn a_leftover_that_waits_is_not_awaited() {
        let (shell, child) = fork("read -r _ < /dev/null; kill -STOP $(exec sh -c 'echo $PPID')");
        let look = || tree::look_up(child.id.pid).expect("it lives");
        while look().stall_reason.is_none_or(|reason| reason == StallReason::DiskSleep) {}
        assert!(look().is_fork);
        assert!(!await_exec(&[look()], Instant::now() + Duration::from_secs(30)));
        end(shell, &child);
    }

    /// This process has never become a subreaper.
    #[test]
    fn where_orphans_go_elsewhere_there_may_always_be_leftovers() {
        assert!(may_leave_processes(false));
        assert!(may_leave_processes(true));
    }
}
