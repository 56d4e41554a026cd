//! The processes of the machine and their properties, from `/proc`, and how much of them it
//! shows.
//!
//! Limits: other users' processes, and those that hide, are shown only in part, except to root.
//! Users' names come from `/etc/passwd` only; other users are shown by number.

use std::fs::{File, Metadata, ReadDir};
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use procfs::process::{Process, Stat, StatFlags};
use procfs::{FromRead, ProcError};
use rustix::fs::{Dir, Mode, OFlags};

use crate::process::probe::{Environment, Identity, ProcessInfo, StallReason, VisibilityLimit};
use crate::progress::condition::{StopSignal, Visibility};

/// More than a line of `/proc/<pid>/stat` has: 52 numbers and a name.
const STAT_BYTES: usize = 2048;

/// The directory with the processes of this PID namespace; a path that does not exist if `/proc`
/// was mounted for another one, whose pids name other processes.
fn proc_root() -> &'static Path {
    if is_of_another_namespace() {
        Path::new("/proc/of-another-namespace")
    } else {
        Path::new("/proc")
    }
}

/// The directory of a process.
pub(super) fn proc_directory(pid: i32) -> PathBuf {
    proc_root().join(pid.to_string())
}

/// Whether `/proc` was mounted for another PID namespace: for an outer one, because a new one was
/// entered without mounting `/proc` again, or for one that does not contain this process.
pub(crate) fn is_of_another_namespace() -> bool {
    static SEEN: OnceLock<bool> = OnceLock::new();
    if let Some(seen) = SEEN.get() {
        return *seen;
    }
    let is_other = match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => own_numbers(&status).map(|numbers| numbers != [std::process::id()]),
        // `/proc` does not show this process.
        Err(error) if error.kind() == ErrorKind::NotFound => is_proc(),
        // A later attempt may succeed: there may be no free descriptor now.
        Err(_) => None,
    };
    is_other.is_some_and(|is_other| *SEEN.get_or_init(|| is_other))
}

/// Whether a proc file system is mounted at `/proc`.
fn is_proc() -> Option<bool> {
    let found = rustix::fs::statfs("/proc").ok()?;
    Some(found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// The numbers that a process has in the namespace of `/proc` and in those below it, down to
/// its own, from its `status`; kernels before Linux 4.1 report the first only.
fn own_numbers(status: &str) -> Option<Vec<u32>> {
    let numbers = field(status, "NSpid:").or_else(|| field(status, "Pid:"))?;
    let numbers = numbers.split_ascii_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().ok()
}

pub fn look_up(pid: i32) -> Option<ProcessInfo> {
    stat_of(&proc_directory(pid).join("stat")).ok().map(info)
}

/// Passes all processes that `/proc` shows to `take`, except the kernel's own; returns whether it
/// could read all of them. Called each second while tasks run, and waited for by kills.
pub(crate) fn visit(mut take: impl FnMut(ProcessInfo)) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(proc_root(), flags, Mode::empty()) else {
        return false;
    };
    let Ok(all) = Dir::read_from(&root) else {
        return false;
    };
    let kernel_threads = kernel_threads();
    let mut whole = true;
    for entry in all {
        let Ok(entry) = entry else {
            whole = false;
            continue;
        };
        let name = entry.file_name().to_str().ok();
        let Some(pid) = name.and_then(|name| name.parse().ok()) else {
            continue;
        };
        if kernel_threads.binary_search(&pid).is_ok() {
            continue;
        }
        match stat_in(&root, pid) {
            Ok(stat) => take(info(stat)),
            Err(error) => whole &= is_about_one(&error),
        }
    }
    whole
}

/// The children of `kthreadd`, in order: the kernel's threads, often half of all processes, and the
/// programs that the kernel itself starts. None of them is of a task. Empty where process 2 is
/// another one, as in a container.
fn kernel_threads() -> Vec<i32> {
    const KTHREADD: i32 = 2;
    /// Whether process 2 is `kthreadd`, which lives as long as the machine.
    static IS_KTHREADD: OnceLock<bool> = OnceLock::new();
    let look = || {
        let stat = stat_of(&proc_directory(KTHREADD).join("stat")).ok()?;
        Some(*IS_KTHREADD.get_or_init(|| stat.ppid == 0 && is_of_kernel(&stat)))
    };
    // Without an answer, a later attempt may succeed.
    if IS_KTHREADD.get().copied().or_else(look) != Some(true) {
        return Vec::new();
    }
    let mut threads = children_of(KTHREADD).unwrap_or_default();
    threads.sort_unstable();
    threads
}

fn is_of_kernel(stat: &Stat) -> bool {
    stat.flags().is_ok_and(|flags| flags.contains(StatFlags::PF_KTHREAD))
}

/// The state of a process, by its file `stat`.
fn stat_of(path: &Path) -> Result<Stat, ProcError> {
    parse_stat(File::open(path)?)
}

/// The state of a process by the directory that lists all, which is not looked up again.
fn stat_in(root: &OwnedFd, pid: i32) -> Result<Stat, ProcError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(root, format!("{pid}/stat"), flags, Mode::empty());
    parse_stat(File::from(opened.map_err(std::io::Error::from)?))
}

/// Reads the line with the state of a process, which the kernel returns in a single `read`.
fn parse_stat(mut file: File) -> Result<Stat, ProcError> {
    let mut line = [0; STAT_BYTES];
    let read = file.read(&mut line)?;
    Stat::from_read(line.get(..read).unwrap_or_default())
}

/// More than a file of `/proc` with a few numbers or a name has.
const RECORD_BYTES: usize = 1024;

/// Reads a short file of `/proc` that the kernel returns in a single `read`, such as `io`, `comm` and
/// `syscall`.
pub(super) fn read_record<T>(
    path: impl AsRef<Path>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let mut bytes = [0; RECORD_BYTES];
    let read = File::open(path).ok()?.read(&mut bytes).ok()?;
    parse(str::from_utf8(bytes.get(..read)?).ok()?)
}

/// Reads a file of `/proc`. Such files report no length; the standard library would begin with 32
/// bytes.
pub(super) fn read_proc(path: impl AsRef<Path>) -> std::io::Result<Vec<u8>> {
    const USUAL_BYTES: usize = 4096;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    // The limit also keeps the standard library from asking for the length.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
pub(super) fn read_proc_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    String::from_utf8(read_proc(path)?).map_err(std::io::Error::other)
}

fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or_default()
}

fn info(stat: Stat) -> ProcessInfo {
    let stall_reason = stall_reason(&stat);
    ProcessInfo {
        is_fork: stat.flags().is_ok_and(|flags| flags.contains(StatFlags::PF_FORKNOEXEC)),
        stall_reason,
        threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        runnable: stat.state == 'R',
        resident: stat.rss.saturating_mul(page_size()),
        cpu_ticks: stat.utime + stat.stime,
        children_ticks: u64::try_from(stat.cutime + stat.cstime).unwrap_or_default(),
        system_ticks: stat.stime + u64::try_from(stat.cstime).unwrap_or_default(),
        id: Identity { pid: stat.pid, started: stat.starttime },
        parent: stat.ppid,
        origins: Vec::new(),
        group: stat.pgrp,
        session: stat.session,
        terminal: pseudo_terminal(stat.tty_nr),
        foreground: stat.tpgid,
        zombie: matches!(stat.state, 'Z' | 'X') && stall_reason != Some(StallReason::ZombieLeader),
        name: stat.comm.replace(char::is_control, "?"),
    }
}

/// The number of a pseudo-terminal in its device number, in which 256 of them have one
/// major number.
fn pseudo_terminal(device: i32) -> Option<u32> {
    /// `UNIX98_PTY_SLAVE_MAJOR` and `UNIX98_PTY_MAJOR_COUNT` of the kernel's `major.h`.
    const MAJORS: std::ops::Range<u32> = 136..144;
    let device = u32::try_from(device).ok()?;
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xfff00);
    MAJORS.contains(&major).then(|| (major - MAJORS.start) * 256 + minor)
}

/// What keeps a process from running, from its line in `/proc/<pid>/stat`.
fn stall_reason(stat: &Stat) -> Option<StallReason> {
    match stat.state {
        // The field of the exit code holds the signal while a process is stopped.
        'T' => Some(StallReason::Stopped(stop_signal(stat.exit_code))),
        'D' => Some(StallReason::DiskSleep),
        'Z' if stat.num_threads > 1 => Some(StallReason::ZombieLeader),
        _ => None,
    }
}

fn stop_signal(number: Option<i32>) -> StopSignal {
    match number {
        Some(libc::SIGSTOP) => StopSignal::Stop,
        Some(libc::SIGTSTP) => StopSignal::Keyboard,
        Some(libc::SIGTTIN) => StopSignal::Reading,
        Some(libc::SIGTTOU) => StopSignal::Writing,
        // Not reported by older kernels, nor for another user's processes.
        _ => StopSignal::Unknown,
    }
}

/// Whether an error concerns only this process, because it has ended or is hidden; others (no
/// descriptor, no memory) would affect the next process as well.
fn is_about_one(error: &ProcError) -> bool {
    match error {
        ProcError::Io(error, _) => error.raw_os_error() == Some(libc::ESRCH),
        _ => true,
    }
}

/// The children of this process that it did not start: orphans that it has adopted as subreaper.
/// `None` where the kernel does not list them (no `/proc`, no `CONFIG_PROC_CHILDREN`).
pub(crate) fn adopted_orphans() -> Option<Vec<i32>> {
    // The kernel gives orphans to the first living thread, which is the main one; a child that
    // another thread has started is listed under that thread.
    children_of(i32::try_from(std::process::id()).ok()?)
}

/// The children of a process's main thread, including those that `/proc` itself hides. `None` where
/// the kernel does not list them.
pub(crate) fn children_of(pid: i32) -> Option<Vec<i32>> {
    let path = proc_directory(pid).join(format!("task/{pid}/children"));
    let text = read_proc_text(path).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// The environment that a process was started with.
pub(crate) fn environment(pid: i32) -> Environment {
    match read_proc(proc_directory(pid).join("environ")) {
        Ok(entries) if entries.is_empty() && is_passing(pid) => Environment::InTransition,
        Ok(entries) => Environment::Entries(entries),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => {
                if is_passing(pid) {
                    Environment::InTransition
                } else {
                    Environment::Entries(Vec::new())
                }
            }
            _ => Environment::Hidden,
        },
    }
}

/// Whether an empty environment is temporary: the process is still in `execve`, which sets the end
/// of the environment last, or has just ended. False for kernel threads, and for a leader that
/// ended before its other threads: these never have one.
fn is_passing(pid: i32) -> bool {
    let stat = Process::new_with_root(proc_directory(pid)).and_then(|process| process.stat());
    stat.map_or(true, |stat| {
        let is_ended_leader = stat.state == 'Z' && stat.num_threads > 1;
        !is_of_kernel(&stat) && !is_ended_leader && stat.env_end.is_none_or(|end| end == 0)
    })
}

/// A process's arguments, each ended by NUL; none where they are not shown.
pub(crate) fn arguments(pid: i32) -> Vec<u8> {
    read_proc(proc_directory(pid).join("cmdline")).unwrap_or_default()
}

/// The name of a process's effective user, or `uid N`.
pub(crate) fn user_of(pid: i32) -> Option<String> {
    let uid = effective_uid(&read_proc_text(proc_directory(pid).join("status")).ok()?)?;
    Some(user_name(uid))
}

/// The name of a user, or `uid N`.
pub(crate) fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(uid, &users).map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// The effective user of this process.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The second number of the line `Uid:`.
fn effective_uid(status: &str) -> Option<u32> {
    field(status, "Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The name of a number in lines such as `root:x:0:0:…`.
fn name_of(uid: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == uid).then_some(name)
    })
}

/// The value after this name in a text of named lines, such as `status`, `fdinfo` and `io`.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// How much `/proc` shows of a process of this user; `None` if that cannot be determined, for lack
/// of a descriptor for example.
pub(crate) fn evidence_of(pid: i32) -> Option<Visibility> {
    let thread = proc_directory(pid).join(format!("task/{pid}"));
    if !thread.exists() {
        return Some(Visibility::Nothing);
    }
    match std::fs::read(thread.join("syscall")) {
        Ok(_) => Some(Visibility::Whole),
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
            .then_some(Visibility::NoSystemCalls),
    }
}

/// The worst of this machine's limits.
pub(crate) fn visibility_limit() -> Option<VisibilityLimit> {
    if is_of_another_namespace() {
        return Some(VisibilityLimit::AnotherNamespace);
    }
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return Some(VisibilityLimit::NoProc);
    };
    // Its existence counts, not whether it can be read: the server closes its own to other
    // processes.
    let has_calls = Path::new("/proc/thread-self/syscall").exists();
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let forbidden = scope.is_ok_and(|scope| forbids_children(&scope)) && !may_trace_all(&status);
    if !has_calls || forbidden {
        return Some(VisibilityLimit::NoSystemCalls);
    }
    // Process 1 belongs to another user, or to this one and is shown.
    (!Path::new("/proc/1").exists()).then_some(VisibilityLimit::OthersHidden)
}

/// Whether this Yama scope forbids a parent to inspect its children: 0 and 1 do not.
fn forbids_children(scope: &str) -> bool {
    scope.trim().parse().is_ok_and(|scope: u8| scope > 1)
}

/// Whether the line `CapEff:` has `CAP_SYS_PTRACE`.
fn may_trace_all(status: &str) -> bool {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    let set = field(status, "CapEff:").and_then(|set| u64::from_str_radix(set, 16).ok());
    set.is_some_and(|set| set & CAP_SYS_PTRACE != 0)
}

/// The name of a descriptor of this process in `/proc/<pid>/fd`; both ends of a pipe have the same
/// name.
pub(crate) fn name_of_descriptor(fd: &impl std::os::fd::AsRawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// The file that a process runs.
pub(crate) fn program_of(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(proc_directory(pid).join("exe")).ok()
}

/// The file that a process executes, whatever is at its path by now, and its path; `None` where that
/// is not shown.
pub(crate) fn program_file(pid: i32) -> Option<(Metadata, PathBuf)> {
    let link = proc_directory(pid).join("exe");
    Some((std::fs::metadata(&link).ok()?, std::fs::read_link(&link).ok()?))
}

/// Whether a process acts as root, which the kernel shows of every process.
pub(crate) fn acts_as_root(pid: i32) -> bool {
    let status = read_proc_text(proc_directory(pid).join("status")).unwrap_or_default();
    let users = field(&status, "Uid:").unwrap_or_default();
    users.split_ascii_whitespace().nth(1) == Some("0")
}

/// The names of a process's descriptors; none where they cannot be read.
pub(crate) fn descriptor_names(pid: i32) -> impl Iterator<Item = PathBuf> {
    names_in(std::fs::read_dir(proc_directory(pid).join("fd")))
}

fn names_in(entries: std::io::Result<ReadDir>) -> impl Iterator<Item = PathBuf> {
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_link(entry.path()).ok())
}

/// Whether the process holds the pipe or terminal `target` (as `/proc/<pid>/fd` names
/// it) open; `None` where it does not show that, because it is another user's.
pub(crate) fn holds_open(pid: i32, target: &Path) -> Option<bool> {
    match std::fs::read_dir(proc_directory(pid).join("fd")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        entries => Some(names_in(entries).any(|name| name == target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_leaves_out_what_the_kernel_runs() {
        let of_kernel = kernel_threads();
        let is_kthreadd = look_up(2).is_some_and(|process| process.name == "kthreadd");
        assert_eq!(!of_kernel.is_empty(), is_kthreadd, "{of_kernel:?}");
        let mut seen = Vec::new();
        assert!(visit(|process| seen.push(process.id.pid)));
        assert!(seen.contains(&(std::process::id() as i32)));
        assert_eq!(seen.contains(&2), look_up(2).is_some());
        assert!(!seen.iter().any(|pid| of_kernel.contains(pid)), "{seen:?} {of_kernel:?}");
    }

    #[test]
    fn a_process_has_a_number_in_each_of_its_namespaces() {
        let here = "Name:\tsh\nPid:\t4711\nPPid:\t1\nNSpid:\t4711\n";
        assert_eq!(own_numbers(here), Some(vec![4711]));
        let below = "Name:\tsh\nPid:\t4711\nPPid:\t1\nNSpid:\t4711\t12\n";
        assert_eq!(own_numbers(below), Some(vec![4711, 12]));
        assert_eq!(own_numbers("Pid:\t4711\n"), Some(vec![4711]));
        assert_eq!(own_numbers(""), None);
        assert!(!is_of_another_namespace());
    }

    #[test]
    fn kernel_threads_have_no_environment_and_ended_processes_had_one() {
        assert!(matches!(
            environment(std::process::id() as i32),
            Environment::Entries(entries) if !entries.is_empty()
        ));
        if look_up(2).is_some_and(|process| process.name == "kthreadd") {
            assert_ne!(environment(2), Environment::InTransition);
        }
        // Above any pid of a live machine.
        assert_eq!(environment(50_000_000), Environment::InTransition);
    }

    #[test]
    fn the_user_of_a_process_is_the_one_whose_rights_it_has() {
        let status = "Name:\tsudo\nUid:\t65534\t0\t0\t0\nGid:\t65534\n";
        assert_eq!(effective_uid(status), Some(0));
        assert_eq!(effective_uid("Name:\tsudo\n"), None);
    }

    #[test]
    fn users_are_named_where_they_have_a_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nwww-data:x:33:33::/:/bin/false\n";
        assert_eq!(name_of(33, users), Some("www-data"));
        assert_eq!(name_of(34, users), None);
        assert!(user_of(std::process::id() as i32).is_some());
    }

    #[test]
    fn this_process_can_be_seen_and_a_missing_one_cannot() {
        let own = std::process::id() as i32;
        assert_eq!(evidence_of(own), Some(Visibility::Whole));
        // Above any pid of a live machine.
        assert_eq!(evidence_of(50_000_000), Some(Visibility::Nothing));
    }

    #[test]
    fn a_policy_that_forbids_inspecting_children_is_recognised() {
        for (scope, forbids) in [("0\n", false), ("1\n", false), ("2\n", true), ("3\n", true)] {
            assert_eq!(forbids_children(scope), forbids, "{scope}");
        }
        assert!(may_trace_all("Name:\tx\nCapEff:\t000001fffeffffff\n"));
        assert!(!may_trace_all("CapEff:\t0000000000000000\n"));
        assert!(!may_trace_all(""));
    }

    #[test]
    fn the_arguments_of_this_process_are_its_own() {
        let own = std::env::args().next().expect("its own name");
        assert!(arguments(std::process::id() as i32).starts_with(own.as_bytes()));
        assert_eq!(arguments(50_000_000), b"");
    }
}
