//! The processes of the machine, and which of them belong to a task.
//!
//! A task's processes are found by parent chain, by session, by the cookie in their environment and
//! by their birthmark, which follow them through `setsid`, `nohup` and double forks. A pid means
//! nothing without its start time, since pids are reused.
//!
//! Limits: reading `/proc` takes time, during which processes come and go, and it may fail
//! altogether; see [`Scan::is_whole`].

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::birthmark::Birthmark;
use super::probe::StallReason;
use super::processes::{self, holds_open, program_of};

pub(crate) use super::probe::{Environment, Identity, ProcessInfo};
pub use super::processes::look_up;
pub(crate) use super::processes::{adopted_orphans, children_of, name_of_descriptor};

/// The environment variable that carries a task's cookie.
pub(crate) const COOKIE_VARIABLE: &str = "ZSH_TOOL_TASK";

/// The name of this program's processes in `ps`. An agent's `pkill zsh` does not match it.
pub(super) const OWN_NAME: &CStr = c"ztool";
/// The name of a guard, which `ps` shows beside its server with the same arguments.
pub(super) const GUARD_NAME: &CStr = c"ztool-guard";
/// How the command line of a shim begins.
const SHIM_ARGUMENTS: &[u8] = b"zsh-tool\0shim\0";

/// How much of a command line is compared.
const COMMAND_LINE_BYTES: usize = 4 * 1024;

// One scan misses two kinds of processes: those in the middle of exec, which show no
// environment, and those that start another and exit. These limit the retries.

/// How often a scan reads this process's children again, to find the successors of orphans
/// that exited during it.
const LATECOMER_RETRIES: usize = 16;
/// How often [`settled_environment`] retries to read a process in the middle of exec.
const EXEC_RETRIES: usize = 200;
/// For how long a process in the middle of exec makes a scan inconclusive, and for how long a
/// series of scans may be inconclusive: neither a process that hangs in exec, nor a program
/// that starts orphans without end, may hold up the caller.
const INCONCLUSIVE_LIMIT: Duration = Duration::from_millis(250);

/// How many strangers are remembered before those that have ended are forgotten.
const MAX_STRANGERS: usize = 1024;

impl ProcessInfo {
    /// Whether it is one of the named programs: by its name, by the part of its title
    /// before a colon (`tmux: server`), or, for a Java machine, by its main class.
    pub(crate) fn is_named(&self, names: &[String]) -> bool {
        let title = self.name.split(':').next().unwrap_or_default();
        if names.iter().any(|name| name == title) {
            return true;
        }
        if self.name != "java" {
            return false;
        }
        let line = processes::arguments(self.id.pid);
        line.split(|byte| *byte == 0)
            .map(String::from_utf8_lossy)
            .any(|argument| names.iter().any(|name| argument.rsplit('.').next() == Some(name)))
    }

    /// Whether the end of a server spares it and its descendants: it leads a session of its own, and
    /// is one of the named programs or holds a detached task.
    // The portable twin for other systems than macOS adopts no orphans.
    #[cfg_attr(feature = "portable", allow(dead_code))]
    pub(crate) fn is_spared(&self, names: &[String]) -> bool {
        self.session == self.id.pid && (self.is_named(names) || self.is_shim())
    }

    /// Whether it is a shim or the guard of one. The system hands a shim that was started below a
    /// server, as on a host that is entered by a local program, to that server.
    pub(crate) fn is_shim(&self) -> bool {
        let name = self.name.as_bytes();
        [OWN_NAME, GUARD_NAME].iter().any(|own| own.to_bytes() == name)
            && processes::arguments(self.id.pid).starts_with(SHIM_ARGUMENTS)
    }
}

/// The beginning of a process's command line, enough to identify it; empty where that is not shown.
pub(crate) fn command_line(pid: i32) -> String {
    let mut line = processes::arguments(pid);
    line.truncate(COMMAND_LINE_BYTES);
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// The processes of the machine at one moment.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    processes: HashMap<i32, ProcessInfo>,
    children: HashMap<i32, Vec<i32>>,
    /// Those without a parent, once a task has asked; all tasks share a scan.
    orphans: OnceLock<Vec<i32>>,
    failed: bool,
}

impl Scan {
    /// Reads `/proc`. If that fails for some processes, they are missing, and
    /// [`Scan::is_whole`] is false.
    pub(crate) fn take() -> Scan {
        let mut scan = Scan::default();
        scan.failed = !processes::visit(|process| scan.add(process));
        scan.add_latecomers();
        // Something else may be mounted there.
        let own = std::process::id() as i32;
        scan.failed |= !scan.processes.contains_key(&own);
        scan
    }

    /// Adds processes that the scan missed because each started the next and exited before the
    /// scan reached it. The newest of such a chain is now a child of this process.
    fn add_latecomers(&mut self) {
        for _ in 0..LATECOMER_RETRIES {
            let mut too_late = false;
            // The newest first, since they have just begun.
            for pid in adopted_orphans().unwrap_or_default().into_iter().rev() {
                if !self.processes.contains_key(&pid) {
                    let found = look_up(pid);
                    too_late |= found.as_ref().is_none_or(|process| process.zombie);
                    if let Some(process) = found {
                        self.add(process);
                    }
                }
            }
            if !too_late {
                return;
            }
        }
    }

    fn add(&mut self, process: ProcessInfo) {
        let siblings = self.children.entry(process.parent).or_default();
        siblings.push(process.id.pid);
        self.processes.insert(process.id.pid, process);
    }

    /// Whether it shows every process that existed throughout the scan. If not, a missing
    /// process is not proved to be gone.
    pub(crate) fn is_whole(&self) -> bool {
        !self.failed
    }

    /// One member of each process group that consists of these processes only: a signal to such a
    /// group also reaches processes that they have started since, and no others.
    pub(crate) fn groups_of<'a>(&self, members: &'a [ProcessInfo]) -> Vec<&'a ProcessInfo> {
        let pids: HashSet<i32> = members.iter().map(|member| member.id.pid).collect();
        let mut seen: HashSet<i32> = self
            .processes
            .values()
            .filter(|process| !process.zombie && !pids.contains(&process.id.pid))
            .map(|stranger| stranger.group)
            .collect();
        members.iter().filter(|member| seen.insert(member.group)).collect()
    }

    /// Whether a process has lost its parent: its parent is now this process, init, or one that is
    /// not shown.
    fn is_orphan(&self, process: &ProcessInfo) -> bool {
        process.parent <= 1
            || !self.processes.contains_key(&process.parent)
            || process.parent == std::process::id() as i32
    }

    /// The living processes that have lost their parent.
    fn orphans(&self) -> impl Iterator<Item = &ProcessInfo> {
        let all = || {
            let processes = self.processes.values();
            let orphans = processes.filter(|process| !process.zombie && self.is_orphan(process));
            orphans.map(|process| process.id.pid).collect()
        };
        let orphans = self.orphans.get_or_init(all);
        orphans.iter().filter_map(|pid| self.processes.get(pid))
    }

    pub(crate) fn process(&self, pid: i32) -> Option<&ProcessInfo> {
        self.processes.get(&pid)
    }

    /// All of them, in no order.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &ProcessInfo> {
        self.processes.values()
    }

    /// The living members of a process group.
    pub(crate) fn group(&self, group: i32) -> impl Iterator<Item = &ProcessInfo> {
        self.processes.values().filter(move |process| process.group == group && !process.zombie)
    }

    /// The processes with these pids.
    pub(super) fn pick(&self, pids: &HashSet<i32>) -> Vec<ProcessInfo> {
        let found = pids.iter().filter_map(|pid| self.processes.get(pid));
        found.cloned().collect()
    }

    /// Adds a process and all below it.
    fn add_tree(&self, pid: i32, pids: &mut HashSet<i32>) {
        pids.insert(pid);
        pids.extend(self.descendants(pid).iter().map(|child| child.id.pid));
    }

    /// All descendants of `pid`, each after its parent, without `pid` itself.
    pub(crate) fn descendants(&self, pid: i32) -> Vec<&ProcessInfo> {
        self.descendants_but(pid, |_| false)
    }

    /// As [`Scan::descendants`], without processes that are spared and their descendants.
    pub(crate) fn descendants_but(
        &self,
        pid: i32,
        spared: impl Fn(&ProcessInfo) -> bool,
    ) -> Vec<&ProcessInfo> {
        let mut found = Vec::new();
        let mut queue = vec![pid];
        let mut seen = HashSet::from([pid]);
        while let Some(next) = queue.pop() {
            for child in self.children.get(&next).into_iter().flatten() {
                if let Some(process) = self.processes.get(child)
                    && seen.insert(*child)
                    && !spared(process)
                {
                    found.push(process);
                    queue.push(*child);
                }
            }
        }
        found
    }
}

fn sorted_living(mut processes: Vec<ProcessInfo>) -> Vec<ProcessInfo> {
    processes.retain(|process| !process.zombie);
    processes.sort_by_key(|process| process.id);
    processes
}

/// How a task's processes are recognised.
#[derive(Debug, Clone)]
pub(crate) struct MatchCriteria {
    /// Its shell, which leads the task's session. If its start time is not known, its pid
    /// identifies it, since it has not been reaped.
    pub(crate) shell: Identity,
    /// The value of [`COOKIE_VARIABLE`]: `<server instance>/<task id>`.
    pub(crate) cookie: String,
    /// The names of its outputs, pipes or a terminal, in `/proc/<pid>/fd` of the writers.
    pub(crate) outputs: Vec<PathBuf>,
    /// Programs that are meant to outlive their command, in the sense of [`ProcessInfo::is_named`]:
    /// they and their descendants are spared once they have left the session and do not hold the
    /// output.
    pub(crate) daemons: Arc<[String]>,
}

impl MatchCriteria {
    fn holds_output(&self, process: &ProcessInfo) -> bool {
        self.outputs.iter().any(|output| holds_open(process.id.pid, output) == Some(true))
    }

    fn has_left(&self, process: &ProcessInfo) -> bool {
        process.session != self.shell.pid && !self.holds_output(process)
    }
}

/// Whether the marks of processes are read.
#[derive(Debug, Clone, Copy)]
enum Marks {
    Read(Instant),
    Left,
}

/// What a process shows of the task that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Own,
    None,
    /// It is in the middle of exec or of its end.
    Undecided,
}

/// The processes of a task by their pids.
#[derive(Debug, Default)]
struct Relatives {
    pids: HashSet<i32>,
    /// Whether a process that may belong to the task shows nothing now.
    is_inconclusive: bool,
}

/// What is known of a task's processes from its start and from the scans so far.
#[derive(Debug)]
pub(crate) struct TaskProcesses {
    criteria: MatchCriteria,
    /// The cookie's entry in an environment.
    entry: Vec<u8>,
    birthmark: Birthmark,
    /// All members that scans have found: they remain members when their parent is gone.
    known: HashSet<Identity>,
    /// [`Identity::started`] of all members so far, ended ones too: a process that one of them
    /// started is a member.
    lineage: HashSet<u64>,
    /// Processes whose environment was read and has no cookie, and that have no birthmark.
    strangers: HashSet<Identity>,
    /// Processes that were seen in the middle of exec, and when first.
    unsettled: HashMap<Identity, Instant>,
    /// Since when each scan has found a process in the middle of exec.
    inconclusive_since: Option<Instant>,
    /// See [`TaskProcesses::is_inconclusive`].
    inconclusive: bool,
    /// See [`TaskProcesses::kept`].
    kept: Vec<ProcessInfo>,
}

impl TaskProcesses {
    /// The names of the task's outputs, pipes or a terminal, in `/proc/<pid>/fd` of the writers.
    pub(crate) fn outputs(&self) -> &[PathBuf] {
        &self.criteria.outputs
    }

    /// The processes of a task, which begin with its shell.
    pub(crate) fn new(criteria: MatchCriteria) -> TaskProcesses {
        TaskProcesses {
            entry: format!("{COOKIE_VARIABLE}={}", criteria.cookie).into_bytes(),
            birthmark: Birthmark::for_cookie(&criteria.cookie),
            known: HashSet::from([criteria.shell]),
            lineage: HashSet::from([criteria.shell.started]),
            strangers: HashSet::new(),
            unsettled: HashMap::new(),
            inconclusive_since: None,
            inconclusive: false,
            kept: Vec::new(),
            criteria,
        }
    }

    /// The task's living processes without daemons that have left it, with the shell while it
    /// lives.
    pub(crate) fn living(&mut self, scan: &Scan) -> Vec<ProcessInfo> {
        self.learn_start(scan);
        self.adopt_holders_of_output(scan, std::process::id() as i32);
        let now = Instant::now();
        let Relatives { mut pids, is_inconclusive } = self.relatives(scan, Marks::Read(now), true);
        let since = self.inconclusive_since.unwrap_or(now);
        self.inconclusive_since = is_inconclusive.then_some(since);
        self.inconclusive = self
            .inconclusive_since
            .is_some_and(|since| now.duration_since(since) < INCONCLUSIVE_LIMIT);
        let mut daemons = scan.pick(&pids);
        daemons.retain(|process| self.is_kept(process));
        for daemon in &daemons {
            let has_stayed = |child: &ProcessInfo| !self.criteria.has_left(child);
            let left = scan.descendants_but(daemon.id.pid, has_stayed);
            for process in left.into_iter().chain([daemon]) {
                pids.remove(&process.id.pid);
            }
        }
        self.kept = sorted_living(daemons);
        let living = scan.pick(&pids);
        self.note_lineage(&living);
        if scan.is_whole() {
            self.known.clear();
            self.forget_ended(scan);
        }
        self.known.extend(living.iter().map(|process| process.id));
        sorted_living(living)
    }

    fn forget_ended(&mut self, scan: &Scan) {
        let lives = |id: &Identity| {
            let shown = scan.processes.get(&id.pid);
            shown.is_some_and(|process| process.id == *id)
        };
        self.strangers.retain(lives);
        self.unsettled.retain(|id, _| lives(id));
    }

    /// The living daemons that the last call of [`TaskProcesses::living`] left out, without what
    /// they have started.
    pub(crate) fn kept(&self) -> &[ProcessInfo] {
        &self.kept
    }

    /// Whether the last call of [`TaskProcesses::living`] found an orphan in the middle of exec or
    /// of its end, when its task cannot be determined: it, or a process that it has started, may
    /// be missing if it has left the session. True for at most [`INCONCLUSIVE_LIMIT`] in a row.
    pub(crate) fn is_inconclusive(&self) -> bool {
        self.inconclusive
    }

    /// The task's living processes, as far as the scan and earlier scans show them: the
    /// session, processes that an earlier scan found, marked orphans, and their descendants. Cheap
    /// enough to be called often.
    pub(crate) fn known_members(&mut self, scan: &Scan) -> Vec<ProcessInfo> {
        self.learn_start(scan);
        self.adopt_marked_orphans(scan);
        let members = scan.pick(&self.relatives(scan, Marks::Left, true).pids);
        self.note_lineage(&members);
        sorted_living(members)
    }

    /// Adds the orphans that are the task's by their mark, but for daemons. Each is read once.
    fn adopt_marked_orphans(&mut self, scan: &Scan) {
        let (now, shell) = (Instant::now(), self.criteria.shell);
        for process in scan.orphans() {
            let is_unknown = process.id.started >= shell.started
                && process.session != shell.pid
                && !self.known.contains(&process.id);
            if is_unknown && self.mark(process, scan, now) == Mark::Own && !self.is_kept(process) {
                self.known.insert(process.id);
            }
        }
        if self.strangers.len() > MAX_STRANGERS {
            self.forget_ended(scan);
        }
    }

    /// Whether a member has started it, wherever it is now, as far as the system keeps that.
    fn was_started_by_member(&self, process: &ProcessInfo) -> bool {
        process.origins.iter().any(|start| self.lineage.contains(start))
    }

    fn note_lineage(&mut self, members: &[ProcessInfo]) {
        let with_origin = members.iter().filter(|member| !member.origins.is_empty());
        self.lineage.extend(with_origin.map(|member| member.id.started));
    }

    /// The task's living processes with its daemons, such as the server of a terminal
    /// multiplexer. Reads the environments of processes that are new since the last scan.
    pub(crate) fn living_with_daemons(&mut self, scan: &Scan) -> Vec<ProcessInfo> {
        let relatives = self.relatives(scan, Marks::Read(Instant::now()), false);
        sorted_living(scan.pick(&relatives.pids))
    }

    /// The processes that belong to the task by its session, by an earlier scan, by who started them
    /// or by their marks, and, if asked for, all that descend from them.
    fn relatives(&mut self, scan: &Scan, marks: Marks, with_descendants: bool) -> Relatives {
        let (own, shell) = (std::process::id() as i32, self.criteria.shell);
        // The session keeps the shell's pid while it has members. If another process has that
        // pid, the session is empty and its number was reused.
        let session_is_ours =
            scan.processes.get(&shell.pid).is_none_or(|leader| leader.id == shell);
        let mut found = Relatives::default();
        for process in scan.processes.values() {
            let is_older = process.id.started < shell.started || process.id.pid == own;
            if is_older || found.pids.contains(&process.id.pid) {
                continue;
            }
            let belongs = self.known.contains(&process.id)
                || session_is_ours && process.session == shell.pid
                || self.was_started_by_member(process);
            let belongs = belongs
                || match marks {
                    Marks::Left => false,
                    Marks::Read(now) => {
                        let mark = self.mark(process, scan, now);
                        found.is_inconclusive |= mark == Mark::Undecided;
                        mark == Mark::Own
                    }
                };
            if belongs && with_descendants {
                scan.add_tree(process.id.pid, &mut found.pids);
            } else if belongs {
                found.pids.insert(process.id.pid);
            }
        }
        found
    }

    /// Learns when the shell started, if `/proc` could not be read then.
    fn learn_start(&mut self, scan: &Scan) {
        let shell = &mut self.criteria.shell;
        if shell.started == 0
            && let Some(leader) = scan.processes.get(&shell.pid)
        {
            *shell = leader.id;
            self.known.insert(leader.id);
            self.lineage.insert(leader.id.started);
        }
    }

    /// Whether it is a daemon that outlives its command.
    fn is_kept(&self, process: &ProcessInfo) -> bool {
        process.is_named(&self.criteria.daemons) && self.criteria.has_left(process)
    }

    /// Adds the processes that hold the task's output, which belong to it even without any other
    /// sign. `env -i setsid` starts such processes.
    fn adopt_holders_of_output(&mut self, scan: &Scan, own: i32) {
        if self.criteria.outputs.is_empty() {
            return;
        }
        let program = program_of(own);
        for process in scan.descendants(own) {
            let younger = process.id.started >= self.criteria.shell.started;
            // Until its exec, another task's child holds every descriptor of this process, and
            // still runs this program.
            if younger
                && !process.zombie
                && !self.known.contains(&process.id)
                && program_of(process.id.pid) != program
                && self.criteria.holds_output(process)
            {
                self.known.insert(process.id);
            }
        }
    }

    /// Whether a living process holds the task's output open, or may: one of the task's hides its
    /// descriptors, or not all processes can be seen. Call this after
    /// [`TaskProcesses::living`].
    pub(crate) fn output_is_held(&self) -> bool {
        let outputs = &self.criteria.outputs;
        if outputs.is_empty() {
            return true;
        }
        let may_hold = |process: ProcessInfo| {
            // The threads of a leader that has ended still hold its descriptors.
            process.stall_reason == Some(StallReason::ZombieLeader)
                || outputs.iter().any(|output| holds_open(process.id.pid, output) != Some(false))
        };
        let known = self.known.iter().filter_map(|id| look_up(id.pid));
        if known.filter(|process| !process.zombie).any(may_hold) {
            return true;
        }
        // A descriptor can be passed to any process. Until its exec, another task's child holds
        // every descriptor of this process, and still runs this program.
        let scan = Scan::take();
        let own = std::process::id() as i32;
        let program = program_of(own);
        !scan.is_whole()
            || scan.processes().any(|process| {
                let pid = process.id.pid;
                let holds = |output: &PathBuf| holds_open(pid, output) == Some(true);
                pid != own && outputs.iter().any(holds) && program_of(pid) != program
            })
    }

    /// Whether it carries the task's cookie or birthmark.
    fn mark(&mut self, process: &ProcessInfo, scan: &Scan, now: Instant) -> Mark {
        if self.strangers.contains(&process.id) {
            return Mark::None;
        }
        let environment = if process.zombie {
            Environment::InTransition
        } else {
            processes::environment(process.id.pid)
        };
        if environment.has(&self.entry) || Birthmark::on(process.id.pid) == Some(self.birthmark) {
            return Mark::Own;
        }
        if environment == Environment::InTransition {
            let is_first = !self.unsettled.contains_key(&process.id);
            let first_seen = *self.unsettled.entry(process.id).or_insert(now);
            // A zombie's children began before this scan, so the next one shows them.
            let counts =
                is_first || !process.zombie && now.duration_since(first_seen) < INCONCLUSIVE_LIMIT;
            let may_belong =
                counts && scan.is_orphan(process) && !self.is_in_foreign_session(process, scan);
            return if may_belong { Mark::Undecided } else { Mark::None };
        }
        // Not remembered if hidden or empty: it may become readable after the next exec.
        let shown = matches!(&environment, Environment::Entries(entries) if !entries.is_empty());
        // An environment changes with exec only; a process that is about to exec still
        // shows its parent's, which has the cookie, so that a stranger stays one.
        if shown {
            self.strangers.insert(process.id);
        }
        Mark::None
    }

    /// Whether its session is led by a living process outside the task; no process of the task
    /// can be in such a session.
    fn is_in_foreign_session(&self, process: &ProcessInfo, scan: &Scan) -> bool {
        let leader = scan.processes.get(&process.session);
        leader.is_some_and(|leader| {
            let is_older = leader.id.started < self.criteria.shell.started;
            leader.id != process.id && (is_older || self.strangers.contains(&leader.id))
        })
    }
}

/// The environment that a process was started with, even if it is in the middle of exec.
pub(super) fn settled_environment(pid: i32) -> Environment {
    for _ in 0..EXEC_RETRIES {
        match processes::environment(pid) {
            Environment::InTransition if look_up(pid).is_some_and(|now| !now.zombie) => {
                std::thread::yield_now();
            }
            found => return found,
        }
    }
    Environment::InTransition
}

/// The task's cookie in a process's environment, if it has one.
pub(crate) fn cookie_of(pid: i32) -> Option<String> {
    let prefix = format!("{COOKIE_VARIABLE}=");
    processes::environment(pid)
        .entries()
        .find_map(|entry| entry.strip_prefix(prefix.as_bytes()))
        .map(|value| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, session: i32, started: u64) -> ProcessInfo {
        ProcessInfo {
            id: Identity { pid, started },
            parent,
            group: session,
            session,
            name: format!("p{pid}"),
            ..ProcessInfo::default()
        }
    }

    impl Scan {
        fn of(all: impl IntoIterator<Item = ProcessInfo>) -> Scan {
            let mut scan = Scan::default();
            all.into_iter().for_each(|process| scan.add(process));
            scan
        }
    }

    // Above any pid of a live machine, so that no environment is found for them.
    const BASE: i32 = 50_000_000;
    const SHELL: Identity = Identity { pid: BASE, started: 100 };

    fn criteria(shell: Identity) -> MatchCriteria {
        MatchCriteria {
            shell,
            cookie: "i/t".to_owned(),
            outputs: Vec::new(),
            daemons: Arc::default(),
        }
    }

    #[test]
    fn members_are_found_by_parent_chain_and_session() {
        let mut task = TaskProcesses::new(criteria(SHELL));
        let scan = Scan::of([
            process(BASE, 1, BASE, 100),
            process(BASE + 1, BASE, BASE, 101),
            process(BASE + 2, BASE + 1, BASE + 2, 102),
            process(BASE + 3, 1, BASE, 103),
            process(BASE + 4, 1, 1, 104),
        ]);
        let pids: Vec<i32> = task.living(&scan).iter().map(|p| p.id.pid - BASE).collect();
        assert_eq!(pids, [0, 1, 2, 3]);
    }

    #[test]
    fn a_member_once_seen_stays_one_when_its_parent_is_gone() {
        let mut task = TaskProcesses::new(criteria(SHELL));
        let both = [process(BASE, 1, BASE, 100), process(BASE + 2, BASE, BASE + 2, 102)];
        task.living(&Scan::of(both));
        let left = task.living(&Scan::of([process(BASE + 2, 1, BASE + 2, 102)]));
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn an_orphan_belongs_to_the_task_of_the_process_that_started_it() {
        let shell = Identity { pid: BASE, started: 100 };
        let from = |origins: &[u64], process: ProcessInfo| ProcessInfo {
            origins: origins.to_vec(),
            ..process
        };
        let leader = from(&[90], process(BASE, 1, BASE, 100));
        // It has left the session, and its parents have ended, the second one before any scan.
        let orphan = from(&[102, 101, 100], process(BASE + 3, 1, BASE + 3, 103));
        let stranger = from(&[90], process(BASE + 4, 1, BASE + 4, 104));
        let all = || Scan::of([&leader, &orphan, &stranger].into_iter().cloned());
        let pids = |members: Vec<ProcessInfo>| -> Vec<i32> {
            members.iter().map(|member| member.id.pid - BASE).collect()
        };
        assert_eq!(pids(TaskProcesses::new(criteria(shell)).known_members(&all())), [0, 3]);
        let mut task = TaskProcesses::new(criteria(shell));
        assert_eq!(pids(task.living(&all())), [0, 3]);
        // What it has started is a member too, when it has ended as well.
        let next = from(&[103], process(BASE + 5, 1, BASE + 5, 105));
        let later = Scan::of([leader.clone(), next, stranger.clone()]);
        assert_eq!(pids(task.living(&later)), [0, 5]);
    }

    #[test]
    fn a_scan_that_finds_an_orphan_in_the_middle_of_exec_is_inconclusive() {
        let mut task = TaskProcesses::new(criteria(SHELL));
        let mut is_inconclusive = |all: &[ProcessInfo]| {
            task.living(&Scan::of(all.iter().cloned()));
            task.is_inconclusive()
        };
        let shell = process(BASE, 1, BASE, 100);
        assert!(!is_inconclusive(std::slice::from_ref(&shell)));
        // It ended before its environment could be read, and its parent before that.
        let gone = process(BASE + 1, 1, BASE + 1, 101);
        assert!(is_inconclusive(&[shell.clone(), gone.clone()]));
        assert!(!is_inconclusive(std::slice::from_ref(&shell)));
        let with_parent = process(BASE + 2, BASE + 3, BASE + 2, 102);
        let parent = process(BASE + 3, BASE + 4, BASE + 3, 99);
        assert!(!is_inconclusive(&[shell.clone(), with_parent, parent]));
        let elder = process(BASE + 5, 1, BASE + 5, 99);
        assert!(!is_inconclusive(&[shell.clone(), elder]));
        // The next scan shows what a zombie may have started.
        let zombie = ProcessInfo { zombie: true, ..process(BASE + 6, 1, BASE + 6, 103) };
        assert!(is_inconclusive(&[shell.clone(), zombie.clone()]));
        assert!(!is_inconclusive(&[shell.clone(), zombie]));
        // No process of the task can be in the session of another.
        let led = process(BASE + 7, 1, BASE + 5, 104);
        let elder = process(BASE + 5, 1, BASE + 5, 99);
        assert!(!is_inconclusive(&[shell.clone(), elder, led]));
        // A process that hangs in exec does not make scans inconclusive for ever.
        assert!(is_inconclusive(&[shell.clone(), gone.clone()]));
        while is_inconclusive(&[shell.clone(), gone.clone()]) {}
        assert!(!is_inconclusive(std::slice::from_ref(&shell)));
        // Nor do new ones at each scan.
        let mut pids = BASE + 10..;
        let mut next = || process(pids.next().unwrap_or_default(), 1, BASE + 9, 105);
        assert!(is_inconclusive(&[shell.clone(), next()]));
        while is_inconclusive(&[shell.clone(), next()]) {}
    }

    #[test]
    fn a_pid_used_again_is_a_stranger() {
        let mut task = TaskProcesses::new(criteria(SHELL));
        task.living(&Scan::of([process(BASE, 1, BASE, 100)]));
        let reused = [process(BASE, 1, 1, 900)];
        assert_eq!(task.living(&Scan::of(reused)), []);
    }

    #[test]
    fn a_daemon_that_has_left_the_session_is_spared_with_what_it_started() {
        let mut task = TaskProcesses::new(MatchCriteria {
            daemons: Arc::new([format!("p{}", BASE + 1), format!("p{}", BASE + 3)]),
            ..criteria(SHELL)
        });
        let scan = Scan::of([
            process(BASE, 1, BASE, 100),
            process(BASE + 1, BASE, BASE + 1, 101),
            process(BASE + 2, BASE + 1, BASE + 2, 102),
            process(BASE + 3, BASE, BASE, 103),
        ]);
        let pids: Vec<i32> = task.living(&scan).iter().map(|p| p.id.pid - BASE).collect();
        assert_eq!(pids, [0, 3]);
        let kept: Vec<i32> = task.kept().iter().map(|p| p.id.pid - BASE).collect();
        assert_eq!(kept, [1]);
    }

    #[test]
    fn older_processes_with_the_same_session_number_are_left_out() {
        let mut task = TaskProcesses::new(criteria(SHELL));
        let scan = Scan::of([process(BASE + 9, 1, BASE, 99)]);
        assert_eq!(task.living(&scan), []);
    }

    #[test]
    fn a_failed_scan_forgets_no_member() {
        let mut task = TaskProcesses::new(criteria(SHELL));
        let child = || process(BASE + 2, BASE, BASE + 2, 102);
        let both = [process(BASE, 1, BASE, 100), child()];
        task.living(&Scan::of(both));
        let failed = Scan { failed: true, ..Scan::default() };
        assert_eq!(task.living(&failed), []);
        let orphan = ProcessInfo { parent: 1, ..child() };
        let left = task.living(&Scan::of([orphan]));
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_shell_whose_start_could_not_be_read_is_known_by_its_pid() {
        let mut task = TaskProcesses::new(criteria(Identity { pid: BASE, started: 0 }));
        let both = [process(BASE, 1, BASE, 100), process(BASE + 1, 1, BASE, 101)];
        assert_eq!(task.living(&Scan::of(both)).len(), 2);
    }

    #[test]
    fn a_group_that_is_shared_with_strangers_is_not_signalled() {
        let members = [
            process(BASE, 1, BASE, 100),
            process(BASE + 1, BASE, BASE, 101),
            process(BASE + 2, BASE, BASE + 7, 102),
        ];
        let stranger = process(BASE + 3, 1, BASE + 7, 103);
        let scan = Scan::of(members.iter().cloned().chain([stranger]));
        let groups: Vec<i32> =
            scan.groups_of(&members).into_iter().map(|member| member.group - BASE).collect();
        assert_eq!(groups, [0]);
    }

    #[test]
    fn a_scan_of_this_machine_is_whole_and_shows_this_process() {
        let scan = Scan::take();
        assert!(scan.is_whole());
        assert!(scan.processes.contains_key(&(std::process::id() as i32)));
    }
}
