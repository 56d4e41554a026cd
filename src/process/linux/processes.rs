//! Which processes there are and what is to be known of each, as `/proc` tells it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use procfs::ProcError;
use procfs::process::{Process, Stat, StatFlags};

use crate::process::hindrance::Hindrance;
use crate::process::process_info::{Environment, Identity, ProcessInfo};
use crate::progress::condition::StopSignal;

/// Where the processes are shown that this one's numbers mean; nothing is there when `/proc`
/// was mounted for another PID namespace: its numbers mean other processes here.
fn root() -> &'static Path {
    match is_of_another_namespace() {
        true => Path::new("/proc/of-another-namespace"),
        false => Path::new("/proc"),
    }
}

/// Where a process is shown.
pub(super) fn directory(pid: i32) -> PathBuf {
    root().join(pid.to_string())
}

/// Whether `/proc` was mounted for another PID namespace: for the one around this process's,
/// when only the processes were put into a new one, or for one that does not hold it.
pub fn is_of_another_namespace() -> bool {
    static SEEN: OnceLock<bool> = OnceLock::new();
    if let Some(seen) = SEEN.get() {
        return *seen;
    }
    let is_other = match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => own_numbers(&status).map(|numbers| numbers != [std::process::id()]),
        // This process is not among those that are shown.
        Err(error) if error.kind() == ErrorKind::NotFound => is_proc(),
        // What cannot be read now, for want of a descriptor perhaps, can be later.
        Err(_) => None,
    };
    is_other.is_some_and(|is_other| *SEEN.get_or_init(|| is_other))
}

/// Whether the file system of processes is mounted at `/proc`.
fn is_proc() -> Option<bool> {
    let found = rustix::fs::statfs("/proc").ok()?;
    Some(found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// The numbers that a process has in the namespace of `/proc` and in those below it, down to
/// its own, by its `status`; kernels before Linux 4.1 tell the first alone.
fn own_numbers(status: &str) -> Option<Vec<u32>> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let numbers = line("NSpid:").or_else(|| line("Pid:"))?;
    let numbers = numbers.split_ascii_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().ok()
}

/// Looks one process up.
pub fn look_up(pid: i32) -> Option<ProcessInfo> {
    Process::new_with_root(directory(pid))
        .ok()?
        .stat()
        .ok()
        .map(info)
}

/// Gives all processes that `/proc` shows; whether those are all.
pub fn visit(mut take: impl FnMut(ProcessInfo)) -> bool {
    let Ok(all) = procfs::process::all_processes_with_root(root()) else {
        return false;
    };
    let mut whole = true;
    for process in all {
        match process.and_then(|process| process.stat()) {
            Ok(stat) => take(info(stat)),
            Err(error) => whole &= is_about_one(&error),
        }
    }
    whole
}

fn info(stat: Stat) -> ProcessInfo {
    let hindrance = hindrance(&stat);
    ProcessInfo {
        hindrance,
        runnable: stat.state == 'R',
        cpu_ticks: stat.utime + stat.stime,
        children_ticks: u64::try_from(stat.cutime + stat.cstime).unwrap_or_default(),
        id: Identity {
            pid: stat.pid,
            started: stat.starttime,
        },
        parent: stat.ppid,
        group: stat.pgrp,
        session: stat.session,
        zombie: matches!(stat.state, 'Z' | 'X') && hindrance != Some(Hindrance::ZombieLeader),
        name: stat.comm.replace(char::is_control, "?"),
    }
}

/// What a line of `/proc/<pid>/stat` says of what keeps a process from running on.
fn hindrance(stat: &Stat) -> Option<Hindrance> {
    match stat.state {
        // The field of the exit code holds the signal while a process is stopped.
        'T' => Some(Hindrance::Stopped(stop_signal(stat.exit_code))),
        'D' => Some(Hindrance::DiskSleep),
        'Z' if stat.num_threads > 1 => Some(Hindrance::ZombieLeader),
        _ => None,
    }
}

fn stop_signal(number: Option<i32>) -> StopSignal {
    match number {
        Some(libc::SIGSTOP) => StopSignal::Stop,
        Some(libc::SIGTSTP) => StopSignal::Keyboard,
        Some(libc::SIGTTIN) => StopSignal::Reading,
        Some(libc::SIGTTOU) => StopSignal::Writing,
        // Older kernels do not tell, nor does any of another user's processes.
        _ => StopSignal::Unknown,
    }
}

/// Whether an error means no more than that this process cannot be looked at, because it
/// has ended or is hidden; others (no descriptor, no memory) would hit the next as well.
fn is_about_one(error: &ProcError) -> bool {
    !matches!(error, ProcError::Io(..))
}

/// The children of this process that were not started by it: orphans that came to it
/// as subreaper. `None` where the kernel does not tell (no `/proc`, no
/// `CONFIG_PROC_CHILDREN`).
pub fn children_of_self() -> Option<Vec<i32>> {
    // Orphans are given to the first living thread, which is the main one; threads
    // that spawn hold their own children, which are none of the adopted.
    children_listed_of(i32::try_from(std::process::id()).ok()?)
}

/// The children of a process's main thread, those too that `/proc` itself hides; none
/// where the kernel does not tell.
pub fn children_of(pid: i32) -> Vec<i32> {
    children_listed_of(pid).unwrap_or_default()
}

fn children_listed_of(pid: i32) -> Option<Vec<i32>> {
    let path = directory(pid).join(format!("task/{pid}/children"));
    let text = std::fs::read_to_string(path).ok()?;
    Some(
        text.split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
    )
}

/// The environment that a process was started with.
pub fn environment(pid: i32) -> Environment {
    match std::fs::read(directory(pid).join("environ")) {
        Ok(entries) if entries.is_empty() && is_passing(pid) => Environment::Passing,
        Ok(entries) => Environment::Entries(entries),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => match is_passing(pid) {
                true => Environment::Passing,
                false => Environment::Entries(Vec::new()),
            },
            _ => Environment::Hidden,
        },
    }
}

/// Whether a process that shows no environment will have one, or has ended: the kernel sets
/// the end of the environment as the last thing of `execve`. Kernel threads have none, nor
/// has a leader that ended before its other threads.
fn is_passing(pid: i32) -> bool {
    let stat = Process::new_with_root(directory(pid)).and_then(|process| process.stat());
    stat.map_or(true, |stat| {
        let is_of_kernel = stat
            .flags()
            .is_ok_and(|flags| flags.contains(StatFlags::PF_KTHREAD));
        let is_ended_leader = stat.state == 'Z' && stat.num_threads > 1;
        !is_of_kernel && !is_ended_leader && stat.env_end.is_none_or(|end| end == 0)
    })
}

/// A process's arguments, each ended by NUL.
pub fn arguments(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(directory(pid).join("cmdline")).ok()
}

/// The number of the user whose rights a process has.
pub fn user_number(pid: i32) -> Option<u32> {
    effective_uid(&std::fs::read_to_string(directory(pid).join("status")).ok()?)
}

/// The second number of the line `Uid:`.
fn effective_uid(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    numbers.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// What a descriptor of this process is called in `/proc/<pid>/fd`; both ends of a pipe
/// have one name.
pub fn name_of_descriptor(fd: &impl std::os::fd::AsRawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// The file that a process runs.
pub fn program_of(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(directory(pid).join("exe")).ok()
}

/// Whether the process holds the pipe or terminal `target` (as `/proc/<pid>/fd` names
/// it) open.
pub fn holds_open(pid: i32, target: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory(pid).join("fd")) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_number_in_every_namespace_that_it_is_in() {
        let here = "Name:\tsh\nPid:\t4711\nPPid:\t1\nNSpid:\t4711\n";
        assert_eq!(own_numbers(here), Some(vec![4711]));
        let below = "Name:\tsh\nPid:\t4711\nPPid:\t1\nNSpid:\t4711\t12\n";
        assert_eq!(own_numbers(below), Some(vec![4711, 12]));
        assert_eq!(own_numbers("Pid:\t4711\n"), Some(vec![4711]));
        assert_eq!(own_numbers(""), None);
        assert!(!is_of_another_namespace());
    }

    #[test]
    fn kernel_threads_have_no_environment_and_those_who_are_gone_had_one() {
        assert!(matches!(
            environment(std::process::id() as i32),
            Environment::Entries(entries) if !entries.is_empty()
        ));
        if look_up(2).is_some_and(|process| process.name == "kthreadd") {
            assert_ne!(environment(2), Environment::Passing);
        }
        // Above any pid of a live machine.
        assert_eq!(environment(50_000_000), Environment::Passing);
    }

    #[test]
    fn the_user_of_a_process_is_the_one_whose_rights_it_has() {
        let status = "Name:\tsudo\nUid:\t65534\t0\t0\t0\nGid:\t65534\n";
        assert_eq!(effective_uid(status), Some(0));
        assert_eq!(effective_uid("Name:\tsudo\n"), None);
    }
}
