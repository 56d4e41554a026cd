//! The system call that a thread is blocked in, as `/proc/<pid>/task/<tid>/syscall` names it
//! with its arguments.
//!
//! The sets of `poll` and `select` are read from the process's memory, those of `epoll` from
//! `fdinfo`. Limits: 64-bit programs; processes of this user that do not hide or, for root, all
//! processes. A call that continues after a signal shows no arguments, and is not recognised here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use procfs::FromRead;
use procfs::process::Syscall;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};

use crate::process::files;
use crate::process::probe::ProcessInfo;
use crate::process::processes;
use crate::progress::wait::{Lock, Thread, WaitSource};

/// A larger set of descriptors is not examined: it belongs to a server.
const MAX_DESCRIPTORS: usize = 64;
/// How many entries of a `poll` are read, many of which may be unused.
const MAX_ENTRIES: usize = 1024;
/// The longest path that a call may name (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// Memory is read in pieces that end where its pages do.
const PAGE: u64 = 4096;
/// A sleep of at least this many seconds, about three years, counts as endless: `sleep
/// infinity` of coreutils asks for more.
const FOREVER_S: u64 = 100_000_000;

/// A thread, by its own directory `/proc/<pid>/task/<tid>`, which shows descriptors and memory even
/// when the main thread has ended.
pub(super) struct ThreadDirectory(pub(crate) PathBuf);

/// The threads of a process; none when it has ended.
pub(super) fn threads(process: &ProcessInfo) -> Vec<ThreadDirectory> {
    let pid = process.id.pid;
    let directory = processes::proc_directory(pid).join("task");
    // The directory of an only thread is known without a search.
    if process.threads == 1 {
        let only = directory.join(pid.to_string());
        let only = Some(only).filter(|only| only.exists());
        return only.map(ThreadDirectory).into_iter().collect();
    }
    files::entries(&directory).map(|entry| ThreadDirectory(entry.path())).collect()
}

impl ThreadDirectory {
    /// The call as the kernel writes it: `0 0x3 0x7f39… 0x20000 …`, or `running`.
    pub(crate) fn call_text(&self) -> Option<String> {
        processes::read_record(self.0.join("syscall"), |text| Some(text.to_owned()))
    }

    /// Its name (comm), at most 15 bytes.
    pub(crate) fn name(&self) -> String {
        let name = |text: &str| Some(text.trim_end_matches('\n').to_owned());
        processes::read_record(self.0.join("comm"), name).unwrap_or_default()
    }

    pub(crate) fn descriptor_name(&self, descriptor: i32) -> Option<PathBuf> {
        std::fs::read_link(self.0.join(format!("fd/{descriptor}"))).ok()
    }

    /// The kernel's `fdinfo` on a descriptor.
    pub(crate) fn descriptor_info(&self, descriptor: i32) -> Option<String> {
        processes::read_proc_text(self.0.join(format!("fdinfo/{descriptor}"))).ok()
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let file = File::open(self.0.join("mem")).ok()?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// The text at an address, up to its NUL.
    fn text_at(&self, address: u64) -> Option<String> {
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < PATH_BYTES {
            let length = PAGE - at % PAGE;
            let piece = self.memory(at, usize::try_from(length).ok()?)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend(piece.get(..end)?);
                return String::from_utf8(text).ok();
            }
            text.extend(piece);
            at += length;
        }
        None
    }

    /// The path at an address, which may be relative to this directory.
    fn path_at(&self, directory: i32, address: u64) -> Option<String> {
        let path = self.text_at(address)?;
        if directory == libc::AT_FDCWD || path.starts_with('/') {
            return Some(path);
        }
        let directory = self.descriptor_name(directory)?;
        directory.join(path).into_os_string().into_string().ok()
    }

    /// The seconds of the `struct timespec` at an address.
    fn seconds_at(&self, address: u64) -> Option<u64> {
        self.word_at(address)
    }

    /// The set of signals at an address.
    fn signals_at(&self, address: u64) -> Option<u64> {
        self.word_at(address)
    }

    fn word_at(&self, address: u64) -> Option<u64> {
        let bytes = self.memory(address, 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

/// A file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    /// The major and the minor number of its file system.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

/// The identity of the file behind a descriptor's link.
pub(super) fn identity(path: &Path) -> Option<FileIdentity> {
    let found = status(path, StatxFlags::INO)?;
    Some(FileIdentity { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino })
}

/// The type of the file behind a descriptor's link.
pub(super) fn kind(path: &Path) -> Option<FileType> {
    let found = status(path, StatxFlags::TYPE)?;
    Some(FileType::from_raw_mode(u32::from(found.stx_mode)))
}

/// Does not query the file system, which may hang.
fn status(path: &Path, wanted: StatxFlags) -> Option<Statx> {
    rustix::fs::statx(rustix::fs::CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()
}

/// What a thread is blocked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SystemCall {
    /// A call that shows by itself what the thread does.
    Plain(Thread),
    /// A futex without a time limit, at this address, which other processes may share.
    SharedFutex(u64),
    /// A read, a write, a connection or an `accept`: bytes or requests of one descriptor.
    Transfer(Awaited),
    /// A lock of the file behind this descriptor.
    FileLock(i32),
    /// Another call on the file at this path, by its number.
    OnPath { path: String, number: i64 },
    /// Another call on the file behind this descriptor, by its number.
    OnFile { descriptor: i32, number: i64 },
    /// The opening of a file, which blocks for a FIFO.
    Open(String),
    /// A wait for any of these descriptors.
    Set { descriptors: Vec<Awaited>, limit: Limit },
    /// A set that is too large, or could not be read.
    UnknownSet,
}

/// The time limit of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    None,
    /// Of about a second at most, as of a loop that looks again.
    Brief,
    Long,
}

impl Limit {
    /// By the seconds of a wait; `None` if they could not be read.
    fn of_seconds(seconds: Option<u64>) -> Limit {
        if seconds.is_some_and(|seconds| seconds <= 1) { Limit::Brief } else { Limit::Long }
    }

    /// By the milliseconds of a wait; there is no limit if they are negative.
    fn of_milliseconds(milliseconds: i32) -> Limit {
        match u64::try_from(milliseconds) {
            Ok(milliseconds) => Limit::of_seconds(Some(milliseconds / 1000)),
            Err(_) => Limit::None,
        }
    }
}

/// A descriptor of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(crate) number: i32,
    /// Whether input ends the wait; otherwise only room for output does.
    pub(crate) input: bool,
}

/// `epoll_pwait2(2)` and `futex_waitv(2)` have these numbers on every architecture.
const EPOLL_PWAIT2: i64 = 441;
const FUTEX_WAITV: i64 = 449;

/// The set of signals that glibc's thread for timers waits for (`SIGEV_THREAD` of timer_create(2)):
/// its `SIGTIMER`, which is the first real-time signal.
const SIGTIMER: u64 = 1 << 31;

/// Calls that take bytes or connections from the descriptor that is their first argument.
const INPUTS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_splice,
];
/// Calls that give bytes to the descriptor that is their first argument, or wait until it is
/// connected.
const OUTPUTS: &[i64] = &[
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_connect,
    libc::SYS_sendfile,
];

/// Calls on a file that have its path as their second argument, and as their first.
const ON_PATH_AT: &[i64] = &[
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_readlinkat,
    libc::SYS_renameat2,
];
const ON_PATH: &[i64] = &[
    libc::SYS_chdir,
    libc::SYS_execve,
    libc::SYS_statfs,
    libc::SYS_truncate,
    older::STAT,
    older::LSTAT,
    older::ACCESS,
    older::UNLINK,
    older::MKDIR,
    older::READLINK,
    older::RENAME,
];
/// Calls on the file behind the descriptor that is their first argument.
const ON_FILE: &[i64] = &[
    libc::SYS_getdents64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_syncfs,
];

// Newer architectures have only the newer calls.
#[cfg(target_arch = "x86_64")]
mod older {
    pub(super) const POLL: i64 = libc::SYS_poll;
    pub(super) const SELECT: i64 = libc::SYS_select;
    pub(super) const EPOLL_WAIT: i64 = libc::SYS_epoll_wait;
    pub(super) const PAUSE: i64 = libc::SYS_pause;
    pub(super) const VFORK: i64 = libc::SYS_vfork;
    pub(super) const OPEN: i64 = libc::SYS_open;
    pub(super) const STAT: i64 = libc::SYS_stat;
    pub(super) const LSTAT: i64 = libc::SYS_lstat;
    pub(super) const ACCESS: i64 = libc::SYS_access;
    pub(super) const UNLINK: i64 = libc::SYS_unlink;
    pub(super) const MKDIR: i64 = libc::SYS_mkdir;
    pub(super) const READLINK: i64 = libc::SYS_readlink;
    pub(super) const RENAME: i64 = libc::SYS_rename;
}
#[cfg(not(target_arch = "x86_64"))]
mod older {
    //! Calls that do not exist here: no call has a negative number.
    pub(super) const POLL: i64 = -1;
    pub(super) const SELECT: i64 = -2;
    pub(super) const EPOLL_WAIT: i64 = -3;
    pub(super) const PAUSE: i64 = -4;
    pub(super) const VFORK: i64 = -5;
    pub(super) const OPEN: i64 = -6;
    pub(super) const STAT: i64 = -7;
    pub(super) const LSTAT: i64 = -8;
    pub(super) const ACCESS: i64 = -9;
    pub(super) const UNLINK: i64 = -10;
    pub(super) const MKDIR: i64 = -11;
    pub(super) const READLINK: i64 = -12;
    pub(super) const RENAME: i64 = -13;
}

impl SystemCall {
    /// The call that this text names, if any.
    pub(crate) fn read(text: &str, thread: &ThreadDirectory) -> Option<SystemCall> {
        match Syscall::from_read(text.as_bytes()).ok()? {
            Syscall::Running => Some(SystemCall::Plain(Thread::Running)),
            Syscall::Blocked { syscall_number, argument_registers, .. } => {
                Some(resolve(syscall_number, argument_registers, thread))
            }
            _ => None,
        }
    }

    /// A sleep that ends by itself.
    const SLEEP: SystemCall = SystemCall::Plain(Thread::Waits { on: Vec::new(), timed: true });
}

/// A wait for another thread that ends by itself.
fn timed_futex() -> SystemCall {
    SystemCall::Plain(Thread::Waits { on: vec![WaitSource::Futex], timed: true })
}

fn resolve(number: i64, arguments: [u64; 6], thread: &ThreadDirectory) -> SystemCall {
    let [first, second, third, fourth, fifth, _] = arguments;
    // Descriptors and time limits are ints: the upper half of the register is ignored.
    let descriptor = first as i32;
    let of = |source| SystemCall::Plain(Thread::In(source));
    let other = || of(WaitSource::Other(format!("system call {number}")));
    let queue = |name: &'static str| of(WaitSource::Lock(Lock::new(name, None)));
    let transfer = |input| SystemCall::Transfer(Awaited { number: descriptor, input });
    let sleep = |address| match thread.seconds_at(address) {
        Some(seconds) if seconds >= FOREVER_S => of(WaitSource::Signal),
        _ => SystemCall::SLEEP,
    };
    let open = |path: Option<String>| path.map_or_else(other, SystemCall::Open);
    let on_path = |path| match path {
        Some(path) => SystemCall::OnPath { path, number },
        None => other(),
    };
    let set = |descriptors: Option<_>, limit| match descriptors {
        Some(descriptors) => SystemCall::Set { descriptors, limit },
        None => SystemCall::UnknownSet,
    };
    let limit_at = |address| match address {
        0 => Limit::None,
        address => Limit::of_seconds(thread.seconds_at(address)),
    };
    match number {
        number if INPUTS.contains(&number) => transfer(true),
        number if OUTPUTS.contains(&number) => transfer(false),
        libc::SYS_nanosleep => sleep(first),
        libc::SYS_clock_nanosleep if second & libc::TIMER_ABSTIME as u64 != 0 => SystemCall::SLEEP,
        libc::SYS_clock_nanosleep => sleep(third),
        libc::SYS_futex if waits_for_futex(second) && fourth != 0 => timed_futex(),
        libc::SYS_futex if waits_for_futex(second) => {
            match second & libc::FUTEX_PRIVATE_FLAG as u64 {
                0 => SystemCall::SharedFutex(first),
                _ => of(WaitSource::Futex),
            }
        }
        FUTEX_WAITV if fourth != 0 => timed_futex(),
        // A wait with a time limit that a stop and its end have interrupted.
        libc::SYS_restart_syscall => SystemCall::SLEEP,
        // `clone` blocks only as a `vfork`.
        libc::SYS_wait4 | libc::SYS_waitid | older::VFORK | libc::SYS_clone | libc::SYS_clone3 => {
            of(WaitSource::Child)
        }
        libc::SYS_rt_sigsuspend => of(WaitSource::Suspension),
        older::PAUSE => of(WaitSource::Signal),
        libc::SYS_rt_sigtimedwait if third == 0 => of(match thread.signals_at(first) {
            Some(SIGTIMER) => WaitSource::TimerThread,
            _ => WaitSource::Signal,
        }),
        libc::SYS_rt_sigtimedwait => SystemCall::SLEEP,
        libc::SYS_flock => SystemCall::FileLock(descriptor),
        libc::SYS_fcntl if matches!(second as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) => {
            SystemCall::FileLock(descriptor)
        }
        libc::SYS_semtimedop if fourth != 0 => SystemCall::SLEEP,
        libc::SYS_semop | libc::SYS_semtimedop => queue("a System V semaphore"),
        libc::SYS_msgrcv | libc::SYS_msgsnd => queue("a System V message queue"),
        libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend if fifth != 0 => SystemCall::SLEEP,
        libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => queue("a POSIX message queue"),
        libc::SYS_openat | libc::SYS_openat2 => open(thread.path_at(descriptor, second)),
        older::OPEN => open(thread.text_at(first)),
        number if ON_PATH.contains(&number) => on_path(thread.text_at(first)),
        number if ON_PATH_AT.contains(&number) => on_path(thread.path_at(descriptor, second)),
        number if ON_FILE.contains(&number) => SystemCall::OnFile { descriptor, number },
        older::POLL => set(polled(thread, first, second), Limit::of_milliseconds(third as i32)),
        libc::SYS_ppoll => set(polled(thread, first, second), limit_at(third)),
        older::SELECT | libc::SYS_pselect6 => {
            set(selected(thread, first, [second, third, fourth]), limit_at(fifth))
        }
        older::EPOLL_WAIT | libc::SYS_epoll_pwait => {
            set(watched_by_epoll(thread, descriptor), Limit::of_milliseconds(fourth as i32))
        }
        EPOLL_PWAIT2 => set(watched_by_epoll(thread, descriptor), limit_at(fourth)),
        _ => other(),
    }
}

/// Whether this operation of `futex(2)` waits.
fn waits_for_futex(operation: u64) -> bool {
    const COMMAND: u64 = 0x7f;
    matches!(
        (operation & COMMAND) as i32,
        libc::FUTEX_WAIT
            | libc::FUTEX_WAIT_BITSET
            | libc::FUTEX_LOCK_PI
            | libc::FUTEX_WAIT_REQUEUE_PI
    )
}

/// The descriptors of a `struct pollfd` array.
fn polled(thread: &ThreadDirectory, address: u64, count: u64) -> Option<Vec<Awaited>> {
    const ENTRY: usize = 8;
    let count = usize::try_from(count).ok().filter(|count| *count <= MAX_ENTRIES)?;
    if count == 0 {
        return Some(Vec::new());
    }
    let bytes = thread.memory(address, count * ENTRY)?;
    let entries = bytes.chunks_exact(ENTRY).filter_map(|entry| {
        let number = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let events = i16::from_ne_bytes(entry.get(4..6)?.try_into().ok()?);
        const INPUT: i16 = libc::POLLIN | libc::POLLPRI | libc::POLLRDNORM | libc::POLLRDHUP;
        let input = events & INPUT != 0;
        (number >= 0).then_some(Awaited { number, input })
    });
    let awaited: Vec<Awaited> = entries.collect();
    (awaited.len() <= MAX_DESCRIPTORS).then_some(awaited)
}

/// The descriptors below `count` in the sets of a `select`: those for input, those for
/// output, those for exceptions.
fn selected(thread: &ThreadDirectory, count: u64, sets: [u64; 3]) -> Option<Vec<Awaited>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= 1024)?;
    let mut selected = Vec::new();
    for (address, input) in sets.into_iter().zip([true, false, false]) {
        if address == 0 || count == 0 {
            continue;
        }
        let bytes = thread.memory(address, count.div_ceil(64) * 8)?;
        let is_set = |descriptor: &usize| {
            let byte = bytes.get(descriptor / 8).copied().unwrap_or_default();
            byte & (1 << (descriptor % 8)) != 0
        };
        let numbers = (0..count).filter(is_set);
        let numbers = numbers.filter_map(|descriptor| i32::try_from(descriptor).ok());
        selected.extend(numbers.map(|number| Awaited { number, input }));
    }
    (selected.len() <= MAX_DESCRIPTORS).then_some(selected)
}

/// The descriptors that an epoll instance watches.
pub(super) fn watched_by_epoll(thread: &ThreadDirectory, epoll: i32) -> Option<Vec<Awaited>> {
    let descriptors = parse_epoll(&thread.descriptor_info(epoll)?);
    (descriptors.len() <= MAX_DESCRIPTORS).then_some(descriptors)
}

/// Lines such as `tfd:        0 events:       19 data: …`, the events in hexadecimal. Reads just
/// enough to show that there are too many.
fn parse_epoll(text: &str) -> Vec<Awaited> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
            let number = words.next()?.parse().ok()?;
            let events = words.nth(1).and_then(|events| u32::from_str_radix(events, 16).ok())?;
            const INPUT: i32 =
                libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDHUP;
            const ANY: i32 = INPUT | libc::EPOLLOUT | libc::EPOLLWRNORM;
            let input = events & INPUT as u32 != 0;
            (events & ANY as u32 != 0).then_some(Awaited { number, input })
        })
        .take(MAX_DESCRIPTORS + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that does not exist: nothing of it can be read.
    fn nowhere() -> ThreadDirectory {
        ThreadDirectory(PathBuf::from("/nonexistent"))
    }

    fn call(number: i64, arguments: [u64; 6]) -> SystemCall {
        resolve(number, arguments, &nowhere())
    }

    #[test]
    fn calls_are_read_as_the_kernel_writes_them() {
        let text = "0 0x3 0x7f397e173000 0x20000 0x7f397e206b60 0xffffffff 0x0 0x7ffdd62430b8 0x7f397e2ef2ad\n";
        let read = SystemCall::Transfer(Awaited { number: 3, input: true });
        assert_eq!(SystemCall::read(text, &nowhere()), Some(read));
        for text in ["-1 0x7ffd 0x7f39", "", "x 0x1"] {
            assert_eq!(SystemCall::read(text, &nowhere()), None, "{text}");
        }
        assert_eq!(
            SystemCall::read("running\n", &nowhere()),
            Some(SystemCall::Plain(Thread::Running))
        );
    }

    #[test]
    fn time_limits_make_a_wait_end_by_itself() {
        const WAIT: u64 = 0x80;
        let futex = |timeout| call(libc::SYS_futex, [0x1000, WAIT, 0, timeout, 0, 0]);
        assert_eq!(futex(0), SystemCall::Plain(Thread::In(WaitSource::Futex)));
        assert_eq!(futex(0x2000), timed_futex());
        let shared = call(libc::SYS_futex, [0x1000, 0, 0, 0, 0, 0]);
        assert_eq!(shared, SystemCall::SharedFutex(0x1000));
        let empty = |limit| SystemCall::Set { descriptors: Vec::new(), limit };
        assert_eq!(call(libc::SYS_ppoll, [0; 6]), empty(Limit::None));
        assert_eq!(call(libc::SYS_ppoll, [0, 0, 1, 0, 0, 0]), empty(Limit::Long), "unreadable");
        let limit = Limit::of_milliseconds;
        assert_eq!([limit(-1), limit(500), limit(1000)], [Limit::None, Limit::Brief, Limit::Brief]);
        assert_eq!([limit(2000), limit(i32::MAX)], [Limit::Long; 2]);
    }

    #[test]
    fn unreadable_arguments_are_not_guessed() {
        assert_eq!(call(libc::SYS_ppoll, [0x1000, 1, 0, 0, 0, 0]), SystemCall::UnknownSet);
        let epoll = call(libc::SYS_epoll_pwait, [5, 0x1000, 8, u64::MAX, 0, 0]);
        assert_eq!(epoll, SystemCall::UnknownSet);
        let sync = WaitSource::Other(format!("system call {}", libc::SYS_sync));
        assert_eq!(call(libc::SYS_sync, [0; 6]), SystemCall::Plain(Thread::In(sync)));
    }

    #[test]
    fn epoll_entries_say_whether_they_wait_for_input() {
        let text = "pos:\t0\nflags:\t02000002\ntfd:        0 events:       19 data: 0\n\
                    tfd:        5 events:        4 data: 5\ntfd:        6 events:        8 data: 6\n\
                    tfd:  x events: 1\n";
        let awaited = |number, input| Awaited { number, input };
        assert_eq!(parse_epoll(text), [awaited(0, true), awaited(5, false)]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = SystemCall::read(&text, &nowhere());
            let _ = parse_epoll(&text);
        }
    }
}
