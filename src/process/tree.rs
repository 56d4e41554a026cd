//! Which processes there are, and which of them belong to a task.
//!
//! A task's processes are found by parent chain, by session and by the cookie in their
//! environment, which follows them through `setsid`, `nohup` and double forks. A pid
//! means nothing without its start time, since pids are used again.
//!
//! Limits: a look at `/proc` takes its time, in which processes come and go, and it may
//! fail altogether; [`Snapshot::is_whole`] tells.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::processes::{self, holds_open, program_of};

pub use super::process_info::{Environment, Identity, ProcessInfo};
pub use super::processes::{children_of, children_of_self, look_up, name_of_descriptor};

/// The environment variable that carries a task's cookie.
pub const COOKIE_VARIABLE: &str = "ZSH_TOOL_TASK";

/// How often the newest orphans are looked for again when they had ended meanwhile.
const LATECOMER_LOOKS: usize = 16;

/// A process that becomes another program or ends does so within this time, and looks that
/// meet others each time are unclear for no longer: neither one that hangs in the kernel on
/// its way, nor a program that starts orphans without end, is to keep who looks.
const PASSING_TIME: Duration = Duration::from_millis(250);

impl ProcessInfo {
    /// Whether it is one of the named programs and leads a session of its own, as those
    /// do that are meant to stay when the server ends.
    pub fn is_daemon(&self, names: &[String]) -> bool {
        self.session == self.id.pid && self.is_named(names)
    }

    /// Whether it is one of the named programs: by its name, by the part of its title
    /// before a colon (`tmux: server`), or, for a Java machine, by its main class.
    pub fn is_named(&self, names: &[String]) -> bool {
        let title = self.name.split(':').next().unwrap_or_default();
        if names.iter().any(|name| name == title) {
            return true;
        }
        if self.name != "java" {
            return false;
        }
        let line = processes::arguments(self.id.pid).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .map(String::from_utf8_lossy)
            .any(|argument| {
                names
                    .iter()
                    .any(|name| argument.rsplit('.').next() == Some(name))
            })
    }
}

/// The processes of the machine at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    processes: HashMap<i32, ProcessInfo>,
    children: HashMap<i32, Vec<i32>>,
    failed: bool,
}

impl Snapshot {
    /// Reads `/proc`. Where it cannot be read, or not all of it, those are missing whom
    /// it did not show, and [`Snapshot::is_whole`] says so.
    pub fn take() -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.failed = !processes::visit(|process| snapshot.add(process));
        snapshot.add_latecomers();
        // What is mounted there may be something else.
        let own = std::process::id() as i32;
        snapshot.failed |= !snapshot.processes.contains_key(&own);
        snapshot
    }

    /// Processes that start others and end are never caught by a look that lasts longer
    /// than they live; the newest of them is this process's child.
    fn add_latecomers(&mut self) {
        for _ in 0..LATECOMER_LOOKS {
            let mut too_late = false;
            // The newest first: they have just begun.
            for pid in children_of_self().unwrap_or_default().into_iter().rev() {
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

    /// Whether it shows everybody who was there all the time; else it proves of nobody
    /// that he is gone.
    pub fn is_whole(&self) -> bool {
        !self.failed
    }

    /// One member of each process group that consists of these processes alone: a signal
    /// to such a group reaches those as well whom they have started since, and no others.
    pub fn groups_of<'a>(&self, members: &'a [ProcessInfo]) -> Vec<&'a ProcessInfo> {
        let pids: HashSet<i32> = members.iter().map(|member| member.id.pid).collect();
        let mut seen: HashSet<i32> = self
            .processes
            .values()
            .filter(|process| !process.zombie && !pids.contains(&process.id.pid))
            .map(|stranger| stranger.group)
            .collect();
        members
            .iter()
            .filter(|member| seen.insert(member.group))
            .collect()
    }

    /// Whether a process's own parent is gone: it was given to this process, to the first
    /// of all, or to one that is not shown.
    fn is_orphan(&self, process: &ProcessInfo) -> bool {
        let own = std::process::id() as i32;
        process.parent <= 1
            || process.parent == own
            || !self.processes.contains_key(&process.parent)
    }

    /// The process of this number.
    pub fn process(&self, pid: i32) -> Option<&ProcessInfo> {
        self.processes.get(&pid)
    }

    /// All of them, in no order.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessInfo> {
        self.processes.values()
    }

    /// The living processes of a process group.
    pub fn group(&self, group: i32) -> impl Iterator<Item = &ProcessInfo> {
        self.processes
            .values()
            .filter(move |process| process.group == group && !process.zombie)
    }

    /// All processes below `pid`, nearest first, without itself.
    pub fn descendants(&self, pid: i32) -> Vec<&ProcessInfo> {
        self.descendants_but(pid, |_| false)
    }

    /// The same without those that are spared and without what lives below them.
    pub fn descendants_but(
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

/// How a task's processes are recognised.
#[derive(Debug, Clone)]
pub struct Signs {
    /// Its shell; it leads the task's session. Not yet reaped when its start is not
    /// known: then whoever has its pid is the one.
    pub shell: Identity,
    /// The value of [`COOKIE_VARIABLE`]: `<server instance>/<task id>`.
    pub cookie: String,
    /// What its output, a pipe or a terminal, is called in `/proc/<pid>/fd` of those who
    /// write to it.
    pub output: Option<PathBuf>,
    /// Programs that are meant to outlive their command, as [`ProcessInfo::is_named`]
    /// takes them: they and what they start are spared once they have left the session
    /// and hold none of the output.
    pub daemons: Arc<[String]>,
}

impl Signs {
    fn hold_output(&self, process: &ProcessInfo) -> bool {
        self.output
            .as_ref()
            .is_some_and(|output| holds_open(process.id.pid, output))
    }

    fn has_left(&self, process: &ProcessInfo) -> bool {
        process.session != self.shell.pid && !self.hold_output(process)
    }
}

/// What is known of a task's processes from its start, and from the scans so far.
#[derive(Debug)]
pub struct Family {
    signs: Signs,
    /// How the cookie stands in an environment.
    entry: Vec<u8>,
    /// Everyone whom a scan has seen: those keep belonging when their parent is gone.
    known: HashSet<Identity>,
    /// Strangers whose environment has been read without finding the cookie.
    strangers: HashSet<Identity>,
    /// Those whose environment was met in passing, and when first.
    passing: HashMap<Identity, Instant>,
    /// Since when each look has met somebody in passing.
    unclear_since: Option<Instant>,
    /// See [`Family::is_unclear`].
    unclear: bool,
}

impl Family {
    /// A task's family, which begins with its shell.
    pub fn new(signs: Signs) -> Family {
        Family {
            entry: format!("{COOKIE_VARIABLE}={}", signs.cookie).into_bytes(),
            known: HashSet::from([signs.shell]),
            strangers: HashSet::new(),
            passing: HashMap::new(),
            unclear_since: None,
            unclear: false,
            signs,
        }
    }

    /// The task's living processes, the shell among them while it lives.
    pub fn living(&mut self, snapshot: &Snapshot) -> Vec<ProcessInfo> {
        let own = std::process::id() as i32;
        self.learn_start(snapshot);
        self.adopt_holders_of_output(snapshot, own);
        let shell = self.signs.shell;
        // The session keeps the shell's pid for as long as it has members; a new process
        // of that pid means that it had none, and the number is somebody else's.
        let session_is_ours = snapshot
            .processes
            .get(&shell.pid)
            .is_none_or(|leader| leader.id == shell);
        let mut members: HashSet<i32> = HashSet::new();
        self.unclear = false;
        let looked = Instant::now();
        for process in snapshot.processes.values() {
            let elder = process.id.started < shell.started || process.id.pid == own;
            if elder || members.contains(&process.id.pid) {
                continue;
            }
            let in_session = session_is_ours && process.session == shell.pid;
            if self.known.contains(&process.id)
                || in_session
                || self.carries_cookie(process, snapshot, looked)
            {
                members.insert(process.id.pid);
                members.extend(
                    snapshot
                        .descendants(process.id.pid)
                        .iter()
                        .map(|child| child.id.pid),
                );
            }
        }
        self.unclear_since = match self.unclear {
            true => self.unclear_since.or(Some(looked)),
            false => None,
        };
        self.unclear = self
            .unclear_since
            .is_some_and(|since| looked.duration_since(since) < PASSING_TIME);
        for daemon in self.daemons_among(&members, snapshot) {
            members.remove(&daemon);
        }
        let mut living: Vec<ProcessInfo> = members
            .iter()
            .filter_map(|pid| snapshot.processes.get(pid))
            .cloned()
            .collect();
        if snapshot.is_whole() {
            self.known.clear();
            let lives = |id: &Identity| {
                let shown = snapshot.processes.get(&id.pid);
                shown.is_some_and(|process| process.id == *id)
            };
            self.strangers.retain(lives);
            self.passing.retain(|id, _| lives(id));
        }
        self.known.extend(living.iter().map(|process| process.id));
        living.retain(|process| !process.zombie);
        living.sort_by_key(|process| process.id);
        living
    }

    /// Whether the last look for the living met an orphan at the very moment in which it
    /// became another program or ended, and in which nothing tells whose it is: who has left
    /// the session may be missing then, or whom it has started. Look after look it is so
    /// for no longer than [`PASSING_TIME`].
    pub fn is_unclear(&self) -> bool {
        self.unclear
    }

    /// Those of the task's living processes that are known without a further look at any
    /// of them: the session, whom an earlier scan found, and what lives below. Cheap, for
    /// looks that are taken again and again.
    pub fn nearest(&mut self, snapshot: &Snapshot) -> Vec<ProcessInfo> {
        self.learn_start(snapshot);
        let shell = self.signs.shell;
        let mut pids: HashSet<i32> = HashSet::new();
        for process in snapshot.processes.values() {
            let in_session = process.session == shell.pid && process.id.started >= shell.started;
            if (in_session || self.known.contains(&process.id)) && pids.insert(process.id.pid) {
                let below = snapshot.descendants(process.id.pid);
                pids.extend(below.iter().map(|child| child.id.pid));
            }
        }
        let mut nearest: Vec<ProcessInfo> = pids
            .iter()
            .filter_map(|pid| snapshot.processes.get(pid))
            .filter(|process| !process.zombie)
            .cloned()
            .collect();
        nearest.sort_by_key(|process| process.id);
        nearest
    }

    /// Learns when the shell started, if `/proc` could not be read then.
    fn learn_start(&mut self, snapshot: &Snapshot) {
        let shell = &mut self.signs.shell;
        if shell.started == 0
            && let Some(leader) = snapshot.processes.get(&shell.pid)
        {
            *shell = leader.id;
            self.known.insert(leader.id);
        }
    }

    /// The daemons among these pids, and what lives below them and has left as well.
    fn daemons_among(&self, members: &HashSet<i32>, snapshot: &Snapshot) -> Vec<i32> {
        members
            .iter()
            .filter_map(|pid| snapshot.processes.get(pid))
            .filter(|process| process.is_named(&self.signs.daemons) && self.signs.has_left(process))
            .flat_map(|daemon| {
                snapshot
                    .descendants_but(daemon.id.pid, |child| !self.signs.has_left(child))
                    .into_iter()
                    .chain([daemon])
            })
            .map(|process| process.id.pid)
            .collect()
    }

    /// Who holds the task's output belongs to it, even without any other sign, such as
    /// what `env -i setsid` leaves.
    fn adopt_holders_of_output(&mut self, snapshot: &Snapshot, own: i32) {
        if self.signs.output.is_none() {
            return;
        }
        let program = program_of(own);
        for process in snapshot.descendants(own) {
            let younger = process.id.started >= self.signs.shell.started;
            // Another task's child holds all that this process holds until it becomes
            // a shell: until then it still runs this program.
            if younger
                && !process.zombie
                && !self.known.contains(&process.id)
                && program_of(process.id.pid) != program
                && self.signs.hold_output(process)
            {
                self.known.insert(process.id);
            }
        }
    }

    fn carries_cookie(
        &mut self,
        process: &ProcessInfo,
        snapshot: &Snapshot,
        looked: Instant,
    ) -> bool {
        if self.strangers.contains(&process.id) {
            return false;
        }
        let environment = match process.zombie {
            true => Environment::Passing,
            false => processes::environment(process.id.pid),
        };
        if environment == Environment::Passing {
            let is_first = !self.passing.contains_key(&process.id);
            let met = *self.passing.entry(process.id).or_insert(looked);
            // What a zombie has started had begun before this look, and the next one shows it.
            let counts = is_first || !process.zombie && looked.duration_since(met) < PASSING_TIME;
            self.unclear |=
                counts && snapshot.is_orphan(process) && !self.is_led(process, snapshot);
            return false;
        }
        // One that is hidden now may be shown when it has become another program, and an
        // environment that was cleared on the way to one does not last either.
        let shown = matches!(&environment, Environment::Entries(entries) if !entries.is_empty());
        let carries = environment.has(&self.entry);
        // An environment changes with exec only; a process that is about to exec still
        // shows its parent's, which has the cookie, so that a stranger stays one.
        if shown && !carries {
            self.strangers.insert(process.id);
        }
        carries
    }

    /// Whether it is in the session of a living stranger, where none of the task can be.
    fn is_led(&self, process: &ProcessInfo, snapshot: &Snapshot) -> bool {
        let leader = snapshot.processes.get(&process.session);
        leader.is_some_and(|leader| {
            let elder = leader.id.started < self.signs.shell.started;
            leader.id != process.id && (elder || self.strangers.contains(&leader.id))
        })
    }
}

/// The task's cookie in a process's environment, if it has one.
pub fn cookie_of(pid: i32) -> Option<String> {
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
            zombie: false,
            hindrance: None,
            runnable: false,
            cpu_ticks: 0,
            children_ticks: 0,
        }
    }

    impl Snapshot {
        fn of(all: impl Iterator<Item = ProcessInfo>) -> Snapshot {
            let mut snapshot = Snapshot::default();
            all.for_each(|process| snapshot.add(process));
            snapshot
        }
    }

    // Above any pid of a live machine, so that no environment is found for them.
    const BASE: i32 = 50_000_000;

    fn signs(shell: Identity) -> Signs {
        Signs {
            shell,
            cookie: "i/t".to_owned(),
            output: None,
            daemons: Arc::default(),
        }
    }

    #[test]
    fn family_is_found_by_parent_chain_and_session() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(signs(shell));
        let snapshot = Snapshot::of(
            [
                process(BASE, 1, BASE, 100),
                process(BASE + 1, BASE, BASE, 101),
                process(BASE + 2, BASE + 1, BASE + 2, 102),
                process(BASE + 3, 1, BASE, 103),
                process(BASE + 4, 1, 1, 104),
            ]
            .into_iter(),
        );
        let pids: Vec<i32> = family
            .living(&snapshot)
            .iter()
            .map(|p| p.id.pid - BASE)
            .collect();
        assert_eq!(pids, [0, 1, 2, 3]);
    }

    #[test]
    fn a_member_once_seen_stays_one_when_its_parent_is_gone() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(signs(shell));
        let both = [
            process(BASE, 1, BASE, 100),
            process(BASE + 2, BASE, BASE + 2, 102),
        ];
        family.living(&Snapshot::of(both.into_iter()));
        let left = family.living(&Snapshot::of(
            [process(BASE + 2, 1, BASE + 2, 102)].into_iter(),
        ));
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_look_that_meets_an_orphan_in_passing_is_unclear() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(signs(shell));
        let mut is_unclear = |all: &[ProcessInfo]| {
            family.living(&Snapshot::of(all.iter().cloned()));
            family.is_unclear()
        };
        let shell = process(BASE, 1, BASE, 100);
        assert!(!is_unclear(std::slice::from_ref(&shell)));
        // Gone before its environment could be read; its parent went before it.
        let gone = process(BASE + 1, 1, BASE + 1, 101);
        assert!(is_unclear(&[shell.clone(), gone.clone()]));
        assert!(!is_unclear(std::slice::from_ref(&shell)));
        let with_parent = process(BASE + 2, BASE + 3, BASE + 2, 102);
        let parent = process(BASE + 3, BASE + 4, BASE + 3, 99);
        assert!(!is_unclear(&[shell.clone(), with_parent, parent]));
        let elder = process(BASE + 5, 1, BASE + 5, 99);
        assert!(!is_unclear(&[shell.clone(), elder]));
        // What a zombie may have started is there at the next look.
        let zombie = ProcessInfo {
            zombie: true,
            ..process(BASE + 6, 1, BASE + 6, 103)
        };
        assert!(is_unclear(&[shell.clone(), zombie.clone()]));
        assert!(!is_unclear(&[shell.clone(), zombie]));
        // Nobody of the task can be in the session of another.
        let led = process(BASE + 7, 1, BASE + 5, 104);
        let elder = process(BASE + 5, 1, BASE + 5, 99);
        assert!(!is_unclear(&[shell.clone(), elder, led]));
        // One that hangs on its way is not waited for without end.
        assert!(is_unclear(&[shell.clone(), gone.clone()]));
        while is_unclear(&[shell.clone(), gone.clone()]) {}
        assert!(!is_unclear(std::slice::from_ref(&shell)));
        // Neither are others that come each time.
        let mut pids = BASE + 10..;
        let mut next = || process(pids.next().unwrap_or_default(), 1, BASE + 9, 105);
        assert!(is_unclear(&[shell.clone(), next()]));
        while is_unclear(&[shell.clone(), next()]) {}
    }

    #[test]
    fn a_pid_used_again_is_a_stranger() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(signs(shell));
        family.living(&Snapshot::of([process(BASE, 1, BASE, 100)].into_iter()));
        let reused = [process(BASE, 1, 1, 900)];
        assert_eq!(family.living(&Snapshot::of(reused.into_iter())), []);
    }

    #[test]
    fn a_daemon_that_has_left_the_session_is_spared_with_what_it_started() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(Signs {
            daemons: Arc::new([format!("p{}", BASE + 1), format!("p{}", BASE + 3)]),
            ..signs(shell)
        });
        let snapshot = Snapshot::of(
            [
                process(BASE, 1, BASE, 100),
                process(BASE + 1, BASE, BASE + 1, 101),
                process(BASE + 2, BASE + 1, BASE + 2, 102),
                process(BASE + 3, BASE, BASE, 103),
            ]
            .into_iter(),
        );
        let pids: Vec<i32> = family
            .living(&snapshot)
            .iter()
            .map(|p| p.id.pid - BASE)
            .collect();
        assert_eq!(pids, [0, 3]);
    }

    #[test]
    fn elder_processes_of_the_same_session_number_are_left_out() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(signs(shell));
        let snapshot = Snapshot::of([process(BASE + 9, 1, BASE, 99)].into_iter());
        assert_eq!(family.living(&snapshot), []);
    }

    #[test]
    fn nobody_is_forgotten_by_a_look_that_failed() {
        let shell = Identity {
            pid: BASE,
            started: 100,
        };
        let mut family = Family::new(signs(shell));
        let child = || process(BASE + 2, BASE, BASE + 2, 102);
        let both = [process(BASE, 1, BASE, 100), child()];
        family.living(&Snapshot::of(both.into_iter()));
        let failed = Snapshot {
            failed: true,
            ..Snapshot::default()
        };
        assert_eq!(family.living(&failed), []);
        let orphan = ProcessInfo {
            parent: 1,
            ..child()
        };
        let left = family.living(&Snapshot::of([orphan].into_iter()));
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_shell_whose_start_could_not_be_read_is_known_by_its_pid() {
        let mut family = Family::new(signs(Identity {
            pid: BASE,
            started: 0,
        }));
        let both = [process(BASE, 1, BASE, 100), process(BASE + 1, 1, BASE, 101)];
        assert_eq!(family.living(&Snapshot::of(both.into_iter())).len(), 2);
    }

    #[test]
    fn a_group_that_is_shared_with_strangers_is_none_of_the_familys() {
        let members = [
            process(BASE, 1, BASE, 100),
            process(BASE + 1, BASE, BASE, 101),
            process(BASE + 2, BASE, BASE + 7, 102),
        ];
        let stranger = process(BASE + 3, 1, BASE + 7, 103);
        let snapshot = Snapshot::of(members.iter().cloned().chain([stranger]));
        let groups: Vec<i32> = snapshot
            .groups_of(&members)
            .into_iter()
            .map(|member| member.group - BASE)
            .collect();
        assert_eq!(groups, [0]);
    }

    #[test]
    fn a_look_at_this_machine_is_whole_and_shows_this_process() {
        let snapshot = Snapshot::take();
        assert!(snapshot.is_whole());
        assert!(
            snapshot
                .processes
                .contains_key(&(std::process::id() as i32))
        );
    }
}
