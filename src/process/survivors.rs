//! Ending processes that outlive their supervisor ([`SurvivorQuery`]), or this process ([`Sweep`]).
//!
//! Survivors are the recorded process, if its pid and start time agree, its session, every process
//! with the given variable in its environment, and the descendants of all these. This process and
//! its ancestors are never among them. Limits: a process that has left the session and cleared its
//! environment is not found.

use std::collections::HashSet;

use super::kill::handles;
use super::orphans;
use super::signals::Signal;
use super::terminate::{GRACE, PATIENCE, PATIENCE_AT_END, Target, Termination, terminate};
use super::tree::{self, Identity, ProcessInfo, Scan};

/// How survivors are recognised.
#[derive(Debug, Clone)]
pub(crate) struct SurvivorQuery<'a> {
    /// The process that was recorded; it led a session.
    pub(crate) leader: Option<Identity>,
    /// A variable that all survivors were started with, and its value.
    pub(crate) variable: (&'a str, &'a str),
}

impl SurvivorQuery<'_> {
    /// Ends all survivors; returns those that the first scan found.
    pub(crate) fn end(&self) -> Vec<ProcessInfo> {
        let mut first = None;
        let find = || {
            let found = self.living();
            let handles = handles(&found);
            first.get_or_insert(found);
            handles
        };
        terminate(find, GRACE, PATIENCE);
        first.unwrap_or_default()
    }

    /// The survivors that are alive.
    pub(crate) fn living(&self) -> Vec<ProcessInfo> {
        let scan = Scan::take();
        let own = std::process::id() as i32;
        let ancestors = with_ancestors(own, &scan);
        let session = self.session(&scan);
        let mut found: HashSet<i32> = HashSet::new();
        for process in scan.processes() {
            let pid = process.id.pid;
            if !ancestors.contains(&pid)
                && !found.contains(&pid)
                && (session.is_some_and(|leader| is_in_session_of(leader, process))
                    || self.carries_variable(process))
            {
                let below = scan.descendants_but(pid, |child| child.id.pid == own);
                found.insert(pid);
                found.extend(below.iter().map(|child| child.id.pid));
            }
        }
        let mut found = scan.pick(&found);
        found.retain(|process| !process.zombie && !ancestors.contains(&process.id.pid));
        found
    }

    /// The leader, if the session of its number is still the one that it led. Once the leader
    /// is gone, the number may have been reused by a session whose leader is gone as well:
    /// then a member must carry the variable.
    fn session(&self, scan: &Scan) -> Option<Identity> {
        let leader = self.leader?;
        let is_the_same = match scan.process(leader.pid) {
            Some(found) => found.id == leader,
            None => {
                let mut members = scan.processes();
                members.any(|process| {
                    is_in_session_of(leader, process) && self.carries_variable(process)
                })
            }
        };
        is_the_same.then_some(leader)
    }

    fn carries_variable(&self, process: &ProcessInfo) -> bool {
        let (name, value) = self.variable;
        let wanted = format!("{name}={value}");
        tree::settled_environment(process.id.pid).has(wanted.as_bytes())
    }
}

fn is_in_session_of(leader: Identity, process: &ProcessInfo) -> bool {
    process.id == leader || (process.session == leader.pid && process.id.started >= leader.started)
}

fn with_ancestors(pid: i32, scan: &Scan) -> HashSet<i32> {
    let mut ancestors = HashSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next
        && ancestors.insert(pid)
    {
        next = scan.process(pid).map(|process| process.parent);
    }
    ancestors
}

/// The end of everything that this process has started, whether or not it belongs to a task,
/// except programs named in `spared` that lead their own session, and children that this
/// process already had when it started.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    spared: &'a [String],
    termination: Termination,
}

impl<'a> Sweep<'a> {
    /// Sends SIGTERM and SIGCONT to all processes.
    pub(crate) fn begin(spared: &'a [String]) -> Sweep<'a> {
        let mut termination = Termination::begin(GRACE, PATIENCE_AT_END);
        termination.request_end(&orphans::living(spared));
        Sweep { spared, termination }
    }

    /// Waits until all have ended or the grace is over, then sends SIGKILL to the rest.
    pub(crate) fn finish(self) {
        self.termination.finish_all(|| orphans::living(self.spared));
    }
}

/// Sends SIGKILL to all processes that [`Sweep`] ends, and does not wait.
pub(crate) fn kill_all(spared: &[String]) {
    for target in orphans::living(spared) {
        target.send(Signal::Kill);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::process::processes;

    fn sleeper(value: &str) -> Child {
        let child = Command::new("sleep")
            .arg("600")
            .env("ZSH_TOOL_TEST_SURVIVOR", value)
            .spawn()
            .expect("sleep is there");
        await_sleep(child.id() as i32, value);
        child
    }

    /// Waits until a process runs `sleep` with its environment: during exec it has none for a
    /// moment.
    fn await_sleep(pid: i32, value: &str) {
        let entry = format!("ZSH_TOOL_TEST_SURVIVOR={value}").into_bytes();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let sleeps = tree::look_up(pid).is_some_and(|found| found.name == "sleep");
            if sleeps && processes::environment(pid).has(&entry) {
                return;
            }
            assert!(Instant::now() < deadline, "{pid} does not run sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn only_a_process_with_the_variable_is_ended() {
        let own = format!("survivor-{}", std::process::id());
        let mut marked = sleeper(&own);
        let mut other = sleeper("somebody else");
        let query = SurvivorQuery { leader: None, variable: ("ZSH_TOOL_TEST_SURVIVOR", &own) };
        let ended = query.end();
        let pids: Vec<u32> = ended.iter().map(|found| found.id.pid as u32).collect();
        assert_eq!(pids, [marked.id()]);
        assert!(!marked.wait().expect("it has ended").success());
        assert!(matches!(other.try_wait(), Ok(None)));
        other.kill().expect("it lives");
        other.wait().expect("it has ended");
    }

    #[test]
    fn another_process_of_the_same_pid_is_left_alone() {
        let mut stranger = sleeper("stranger");
        let pid = stranger.id() as i32;
        let found = tree::look_up(pid).expect("it runs");
        let query = SurvivorQuery {
            leader: Some(Identity { pid, started: found.id.started - 1 }),
            variable: ("ZSH_TOOL_TEST_SURVIVOR", "nobody"),
        };
        assert!(query.end().is_empty());
        assert!(matches!(stranger.try_wait(), Ok(None)));
        let query = SurvivorQuery { leader: Some(found.id), ..query };
        assert_eq!(query.end().len(), 1);
        stranger.wait().expect("it has ended");
    }

    #[test]
    fn a_session_without_its_leader_must_carry_the_variable() {
        let own = format!("leaderless-{}", std::process::id());
        let output = Command::new("setsid")
            .args(["--wait", "sh", "-c"])
            .arg("sleep 600 >/dev/null 2>&1 & echo $$ $!")
            .env("ZSH_TOOL_TEST_SURVIVOR", &own)
            .output()
            .expect("setsid is there");
        let output = String::from_utf8_lossy(&output.stdout);
        let pids: Vec<i32> = output.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        let [leader, left] = pids[..] else {
            panic!("two pids: {output}");
        };
        await_sleep(left, &own);
        let found = tree::look_up(left).expect("it runs");
        assert_eq!(found.session, leader);
        let query = SurvivorQuery {
            leader: Some(Identity { pid: leader, started: found.id.started - 1 }),
            variable: ("ZSH_TOOL_TEST_SURVIVOR", "nobody"),
        };
        assert!(query.end().is_empty());
        assert!(tree::look_up(left).is_some_and(|found| !found.zombie));
        let query = SurvivorQuery { variable: ("ZSH_TOOL_TEST_SURVIVOR", &own), ..query };
        assert_eq!(query.end().len(), 1);
    }
}
