//! Checks whether a task listens at a port. The kernel reports no `listen`, so a call that waits
//! for one checks repeatedly.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::journal;
use super::port::{Port, PortFound, PortHolder};
use super::registry::TaskHandle;
use super::supervisor::Supervisor;
use crate::process::listening;
use crate::process::probe::Listener;
use crate::process::processes;
use crate::process::scans::Scans;
use crate::process::tree::{self, MatchCriteria, ProcessInfo, Scan, TaskProcesses};

/// The pause between two checks, each of which reads two small tables.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum age of the scan that finds processes in other network namespaces.
const MAX_SCAN_AGE: Duration = Duration::from_secs(1);
/// How long another process may hold the port before the wait ends: a server that is being
/// restarted needs a moment.
const HELD_PATIENCE: Duration = Duration::from_secs(1);
/// The time limit for a connection to an address of this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(50);

/// The maximum age of the scan by which the ports of tasks are listed.
const MAX_LIST_AGE: Duration = Duration::from_millis(200);

/// What identifies the processes of a listed task.
pub(crate) struct ListedTask {
    /// The pid of its shell, which leads its session, unless the task is over.
    pub(crate) shell: Option<i32>,
    /// The processes that have outlived it.
    pub(crate) leftovers: Vec<i32>,
}

impl ListedTask {
    fn pids(&self, scan: &Scan) -> BTreeSet<i32> {
        let of_shell = self.shell.into_iter().flat_map(|shell| {
            let in_session = scan.processes().filter(move |process| process.session == shell);
            let below = scan.descendants(shell);
            let pids = in_session.chain(below).map(|process| process.id.pid);
            pids.chain([shell]).collect::<Vec<i32>>()
        });
        of_shell.chain(self.leftovers.iter().copied()).collect()
    }
}

/// The task whose process holds a port.
pub(crate) struct HoldingTask {
    pub(crate) id: String,
    /// Redacted.
    pub(crate) command: String,
    /// It belongs to another server, whose tools alone can end it.
    pub(crate) is_elsewhere: bool,
}

impl Supervisor {
    /// A wait for this task to listen at a port.
    pub(crate) fn port_watch(&self, task: &TaskHandle, port: Port) -> PortWatch {
        let processes = TaskProcesses::new(MatchCriteria {
            shell: task.live.facts.shell,
            cookie: self.cookie(task.id()),
            outputs: Vec::new(),
            daemons: Arc::default(),
        });
        PortWatch { port, processes, scans: Arc::clone(&self.scans), held_since: None }
    }

    /// The ports at which each of these tasks listens, in order.
    pub(crate) fn ports_of(&self, tasks: &[ListedTask]) -> Vec<Vec<u16>> {
        if tasks.is_empty() {
            return Vec::new();
        }
        let scan = self.scans.recent(MAX_LIST_AGE);
        let members: Vec<BTreeSet<i32>> = tasks.iter().map(|task| task.pids(&scan)).collect();
        let all: Vec<i32> = members.iter().flatten().copied().collect();
        let ports = listening::ports_of(&all);
        let of_task = |pids: &BTreeSet<i32>| {
            let own: BTreeSet<u16> =
                pids.iter().filter_map(|pid| ports.get(pid)).flatten().copied().collect();
            own.into_iter().collect()
        };
        members.iter().map(of_task).collect()
    }

    /// The task that a process belongs to: one of this server, or of another one of this user.
    pub(crate) fn task_of_process(&self, pid: i32) -> Option<HoldingTask> {
        let cookie = tree::cookie_of(pid)?;
        let (instance, id) = cookie.split_once('/')?;
        if let Some(task) = self.task(id).filter(|_| instance == self.instance) {
            let command = self.settings.redactor.redact(&task.live.facts.command).into_owned();
            return Some(HoldingTask { id: id.to_owned(), command, is_elsewhere: false });
        }
        let servers = journal::servers(self.settings.state.as_ref().ok()?);
        let is_its = |path: &&std::path::PathBuf| path.ends_with(instance);
        let server = servers.iter().find(is_its)?;
        let command = journal::read(server, id)?.facts.command.clone();
        let is_elsewhere = !journal::is_shim(server);
        Some(HoldingTask { id: id.to_owned(), command, is_elsewhere })
    }
}

/// A wait for a port.
pub(crate) struct PortWatch {
    pub(crate) port: Port,
    processes: TaskProcesses,
    scans: Arc<Scans>,
    /// Since when another process holds the port.
    held_since: Option<Instant>,
}

impl PortWatch {
    /// Checks once.
    pub(super) fn check(&mut self) -> Option<PortFound> {
        let own = std::process::id() as i32;
        let Some(listening) = listeners_at(self.port, own) else {
            return self.accepts_connections().then_some(PortFound::Served(None));
        };
        let age = if listening.is_empty() { MAX_SCAN_AGE } else { Duration::ZERO };
        let scan = self.scans.recent(age);
        let members = self.processes.living(&scan);
        if let Some(server) = self.server_in_other_namespace(&members, own) {
            return Some(PortFound::Served(Some(server.label())));
        }
        if listening.is_empty() {
            self.held_since = None;
            return None;
        }
        if let Some(server) = members.iter().find(|member| holds(member, &listening) == Some(true))
        {
            return Some(PortFound::Served(Some(server.label())));
        }
        let holder = listening::holder(&listening);
        let hides = |member: &&ProcessInfo| holds(member, &listening).is_none();
        if holder.is_none() && members.iter().any(|member| hides(&member)) {
            return self.accepts_connections().then_some(PortFound::Served(None));
        }
        let since = *self.held_since.get_or_insert_with(Instant::now);
        (since.elapsed() >= HELD_PATIENCE).then(|| PortFound::Held(port_holder(holder, &listening)))
    }

    /// A process of the task that listens at the port in another network namespace.
    fn server_in_other_namespace<'a>(
        &self,
        members: &'a [ProcessInfo],
        own: i32,
    ) -> Option<&'a ProcessInfo> {
        let here = listening::network_namespace(own);
        members.iter().find(|member| {
            let there = listening::network_namespace(member.id.pid);
            if there.is_none() || there == here {
                return false;
            }
            let listening = listeners_at(self.port, member.id.pid).unwrap_or_default();
            holds(member, &listening) == Some(true)
        })
    }

    fn accepts_connections(&self) -> bool {
        let addresses = self.port.addresses();
        addresses.iter().any(|address| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok())
    }
}

/// The sockets that serve a port in the network namespace of a process; `None` where they cannot be
/// read.
fn listeners_at(port: Port, pid: i32) -> Option<Vec<Listener>> {
    let mut listening = listening::listeners(pid)?;
    listening.retain(|listener| port.is_served_by(listener.address));
    Some(listening)
}

/// Which process holds a port now; `None` if none does.
pub(crate) fn holder_of(port: Port) -> Option<PortHolder> {
    let listening = listeners_at(port, std::process::id() as i32)?;
    (!listening.is_empty()).then(|| port_holder(listening::holder(&listening), &listening))
}

fn port_holder(holder: Option<ProcessInfo>, listening: &[Listener]) -> PortHolder {
    let own = processes::effective_user();
    let other = listening.iter().map(|listener| listener.uid).find(|uid| *uid != own);
    PortHolder {
        process: holder.map(|holder| holder.label()),
        user: other.map(processes::user_name),
    }
}

/// Whether a process holds one of these sockets; `None` where it does not show that.
fn holds(process: &ProcessInfo, listening: &[Listener]) -> Option<bool> {
    let sockets = listening::sockets_of(process.id.pid)?;
    Some(listening.iter().any(|listener| sockets.contains(&listener.inode)))
}
