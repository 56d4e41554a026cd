//! Whether a process is blocked on its terminal or its stdin, as `/proc` tells it.
//!
//! In `/proc/<pid>/task/<tid>`, `syscall` names the system call that a thread is blocked
//! in and its arguments; the descriptor among them is looked up in `fd`. The sets of
//! `poll` and `select` are read from memory (`mem`), those of `epoll` from `fdinfo`.
//! Limits: Linux; processes of this user that do not hide, or any, for root. Who waits on
//! another terminal that stands behind the task's, as under `script` or sudo, is not seen.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::process::processes;
pub use crate::process::sight::{Blocked, Look, Shortcoming, Source};
use crate::progress::condition::Evidence;

/// A set of more descriptors than this is not looked at: it is a server's.
const MOST_DESCRIPTORS: usize = 64;

/// Looks at all threads of a process.
pub fn look(pid: i32, source: &Source) -> Look {
    let Ok(threads) = std::fs::read_dir(processes::directory(pid).join("task")) else {
        return Look::Otherwise;
    };
    let mut readable = false;
    for thread in threads.flatten() {
        let thread = Thread(thread.path());
        let Some(text) = thread.call() else {
            continue;
        };
        readable = true;
        if let Some(call) = Call::parse(&text)
            && let Some(blocked) = call.blocked_on(&thread, source)
        {
            return Look::Blocked(blocked);
        }
    }
    if readable {
        Look::Otherwise
    } else {
        Look::Unreadable
    }
}

/// What the threads of a process are blocked on: the names of the descriptors that they
/// read, write or wait for. Empty where that cannot be read.
pub fn awaited(pid: i32) -> Vec<PathBuf> {
    let Ok(threads) = std::fs::read_dir(processes::directory(pid).join("task")) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for thread in threads.flatten() {
        let thread = Thread(thread.path());
        let call = thread.call().and_then(|text| Call::parse(&text));
        let descriptors = call.and_then(|call| call.descriptors(&thread));
        let named = descriptors.into_iter().flatten();
        names.extend(named.filter_map(|descriptor| thread.descriptor_name(descriptor)));
    }
    names
}

/// How much can be seen of a process that is this user's own; `None` when something else
/// was in the way, such as a want of descriptors.
pub fn evidence_of(pid: i32) -> Option<Evidence> {
    let thread = main_thread(pid);
    if !thread.exists() {
        return Some(Evidence::Nothing);
    }
    match std::fs::read(thread.join("syscall")) {
        Ok(_) => Some(Evidence::Whole),
        Err(error) => matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied
        )
        .then_some(Evidence::NoCalls),
    }
}

fn main_thread(pid: i32) -> PathBuf {
    processes::directory(pid).join(format!("task/{pid}"))
}

/// The worst of this machine's shortcomings.
pub fn shortcoming() -> Option<Shortcoming> {
    if processes::is_of_another_namespace() {
        return Some(Shortcoming::AnotherNamespace);
    }
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return Some(Shortcoming::NoProc);
    };
    // Whether it can be read says nothing: the server closes its own to everybody.
    let has_calls = Path::new("/proc/thread-self/syscall").exists();
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let forbidden = scope.is_ok_and(|scope| forbids_children(&scope)) && !may_trace_all(&status);
    if !has_calls || forbidden {
        return Some(Shortcoming::NoCalls);
    }
    // The first process is another user's, or this one's own and shown.
    (!Path::new("/proc/1").exists()).then_some(Shortcoming::OthersHidden)
}

/// Whether this scope of Yama's keeps a parent from looking into its children: 0 and 1
/// do not.
fn forbids_children(scope: &str) -> bool {
    scope.trim().parse().is_ok_and(|scope: u8| scope > 1)
}

/// Whether the line `CapEff:` has `CAP_SYS_PTRACE`.
fn may_trace_all(status: &str) -> bool {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set & CAP_SYS_PTRACE != 0)
}

/// How often a process's main thread has been switched to and from; anybody may read it.
/// As long as it stays the same, the thread is in one and the same sleep, or runs without
/// a pause.
pub fn switches(pid: i32) -> Option<u64> {
    Thread(main_thread(pid)).switches()
}

/// The same for all threads together.
pub fn switches_of_all(pid: i32) -> Option<u64> {
    let threads = std::fs::read_dir(processes::directory(pid).join("task")).ok()?;
    let counts = threads
        .flatten()
        .filter_map(|thread| Thread(thread.path()).switches());
    Some(counts.fold(0, u64::saturating_add))
}

/// The sum of the lines `voluntary_ctxt_switches:` and `nonvoluntary_ctxt_switches:`.
fn parse_switches(status: &str) -> Option<u64> {
    let counts: Vec<u64> = status
        .lines()
        .filter_map(|line| {
            let (name, count) = line.split_once("ctxt_switches:")?;
            matches!(name, "voluntary_" | "nonvoluntary_").then_some(count)
        })
        .filter_map(|count| count.trim().parse().ok())
        .collect();
    (!counts.is_empty()).then(|| {
        counts
            .iter()
            .fold(0, |sum: u64, count| sum.saturating_add(*count))
    })
}

/// A thread's own directory, `/proc/<pid>/task/<tid>`: it has descriptors and memory even
/// when the main thread has ended.
struct Thread(PathBuf);

impl Thread {
    /// What it is blocked in, as the kernel writes it.
    fn call(&self) -> Option<String> {
        std::fs::read_to_string(self.0.join("syscall")).ok()
    }

    fn switches(&self) -> Option<u64> {
        parse_switches(&std::fs::read_to_string(self.0.join("status")).ok()?)
    }

    fn descriptor_name(&self, descriptor: i32) -> Option<PathBuf> {
        std::fs::read_link(self.0.join(format!("fd/{descriptor}"))).ok()
    }

    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let file = File::open(self.0.join("mem")).ok()?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }
}

/// A system call that a thread is blocked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    number: i64,
    arguments: [u64; 6],
}

impl Call {
    /// `0 0x3 0x7f39… 0x20000 …`; a thread that runs says `running`.
    fn parse(text: &str) -> Option<Call> {
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            let digits = words.next()?.strip_prefix("0x")?;
            *argument = u64::from_str_radix(digits, 16).ok()?;
        }
        Some(Call { number, arguments })
    }

    fn blocked_on(&self, thread: &Thread, source: &Source) -> Option<Blocked> {
        if self.is(&[libc::SYS_read, libc::SYS_readv]) {
            let descriptor = self.first_descriptor()?;
            return source.is_at(thread, descriptor).then_some(Blocked::Reading);
        }
        let (descriptors, timed) = self.waited_for(thread)?;
        source
            .is_waited_for(thread, &descriptors)
            .then_some(Blocked::Waiting { timed })
    }

    /// What it reads, writes, connects or waits for.
    fn descriptors(&self, thread: &Thread) -> Option<Vec<i32>> {
        if self.is(TRANSFERS) {
            return Some(vec![self.first_descriptor()?]);
        }
        self.waited_for(thread).map(|(descriptors, _)| descriptors)
    }

    /// The set that it waits for input of, and whether there is a time limit.
    fn waited_for(&self, thread: &Thread) -> Option<(Vec<i32>, bool)> {
        let [first, second, third, fourth, fifth, _] = self.arguments;
        if self.is(POLL) {
            let timed = match self.number {
                libc::SYS_ppoll => third != 0,
                // An int: -1 and all below mean no limit.
                _ => (third as i32) >= 0,
            };
            Some((polled(thread, first, second)?, timed))
        } else if self.is(SELECT) {
            Some((selected(thread, first, second)?, fifth != 0))
        } else if self.is(EPOLL) {
            let timed = match self.number {
                EPOLL_PWAIT2 => fourth != 0,
                _ => (fourth as i32) >= 0,
            };
            Some((watched_by_epoll(thread, self.first_descriptor()?)?, timed))
        } else {
            None
        }
    }

    fn first_descriptor(&self) -> Option<i32> {
        let [first, ..] = self.arguments;
        i32::try_from(first).ok()
    }

    fn is(&self, numbers: &[libc::c_long]) -> bool {
        numbers.contains(&self.number)
    }
}

/// `epoll_pwait2(2)` has this number on every architecture; libc does not name it on all.
const EPOLL_PWAIT2: i64 = 441;

/// Calls that move bytes of the descriptor that is their first argument, or connect it.
const TRANSFERS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_connect,
];

#[cfg(target_arch = "x86_64")]
const POLL: &[i64] = &[libc::SYS_poll, libc::SYS_ppoll];
#[cfg(target_arch = "x86_64")]
const SELECT: &[i64] = &[libc::SYS_select, libc::SYS_pselect6];
#[cfg(target_arch = "x86_64")]
const EPOLL: &[i64] = &[libc::SYS_epoll_wait, libc::SYS_epoll_pwait, EPOLL_PWAIT2];
// Newer architectures have only the newer calls.
#[cfg(not(target_arch = "x86_64"))]
const POLL: &[i64] = &[libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const SELECT: &[i64] = &[libc::SYS_pselect6];
#[cfg(not(target_arch = "x86_64"))]
const EPOLL: &[i64] = &[libc::SYS_epoll_pwait, EPOLL_PWAIT2];

impl Source {
    /// Whether a descriptor of a process is this input.
    fn is_at(&self, thread: &Thread, descriptor: i32) -> bool {
        thread
            .descriptor_name(descriptor)
            .is_some_and(|name| self.is_named(&name))
    }

    fn is_named(&self, name: &Path) -> bool {
        match self {
            // Opened by name or as the controlling terminal, it is the same.
            Source::Terminal(terminal) => name == terminal || name == Path::new("/dev/tty"),
            Source::TerminalOfOthers(input) | Source::Pipe(input) => name == input,
        }
    }

    /// Whether a set holds this input and nothing that a server or another terminal's
    /// program would wait for: no socket and no terminal master.
    fn is_waited_for(&self, thread: &Thread, descriptors: &[i32]) -> bool {
        let names: Vec<PathBuf> = descriptors
            .iter()
            .filter_map(|descriptor| thread.descriptor_name(*descriptor))
            .collect();
        let elsewhere = |name: &PathBuf| {
            name.to_string_lossy().starts_with("socket:")
                || name == Path::new("/dev/ptmx")
                || name == Path::new("/dev/pts/ptmx")
        };
        names.iter().any(|name| self.is_named(name)) && !names.iter().any(elsewhere)
    }
}

/// The descriptors of a `struct pollfd` array that are asked for input.
fn polled(thread: &Thread, address: u64, count: u64) -> Option<Vec<i32>> {
    const ENTRY: usize = 8;
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= MOST_DESCRIPTORS)?;
    let bytes = thread.memory(address, count * ENTRY)?;
    let entries = bytes.chunks_exact(ENTRY).filter_map(|entry| {
        let descriptor = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let events = i16::from_ne_bytes(entry.get(4..6)?.try_into().ok()?);
        (events & libc::POLLIN != 0).then_some(descriptor)
    });
    Some(entries.filter(|descriptor| *descriptor >= 0).collect())
}

/// The descriptors below `count` in the read set of a `select`.
fn selected(thread: &Thread, count: u64, address: u64) -> Option<Vec<i32>> {
    if address == 0 {
        return None;
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= 1024)?;
    let bytes = thread.memory(address, count.div_ceil(64) * 8)?;
    let is_set = |descriptor: &usize| {
        let byte = bytes.get(descriptor / 8).copied().unwrap_or_default();
        byte & (1 << (descriptor % 8)) != 0
    };
    let descriptors: Vec<i32> = (0..count)
        .filter(is_set)
        .filter_map(|descriptor| i32::try_from(descriptor).ok())
        .collect();
    (descriptors.len() <= MOST_DESCRIPTORS).then_some(descriptors)
}

/// The descriptors that an epoll instance watches for input.
fn watched_by_epoll(thread: &Thread, epoll: i32) -> Option<Vec<i32>> {
    let text = std::fs::read_to_string(thread.0.join(format!("fdinfo/{epoll}"))).ok()?;
    let descriptors = parse_epoll(&text);
    (descriptors.len() <= MOST_DESCRIPTORS).then_some(descriptors)
}

/// Lines such as `tfd:        0 events:       19 data: …`, the events in hexadecimal.
/// No more are read than tell that there are too many.
fn parse_epoll(text: &str) -> Vec<i32> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
            let descriptor = words.next()?.parse().ok()?;
            let events = words
                .nth(1)
                .and_then(|events| u32::from_str_radix(events, 16).ok())?;
            (events & libc::EPOLLIN as u32 != 0).then_some(descriptor)
        })
        .take(MOST_DESCRIPTORS + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_the_kernel_writes_them() {
        let text = "0 0x3 0x7f397e173000 0x20000 0x7f397e206b60 0xffffffff 0x0 0x7ffdd62430b8 0x7f397e2ef2ad\n";
        let call = Call::parse(text);
        assert_eq!(call.map(|call| call.number), Some(0));
        assert_eq!(call.map(|call| call.arguments[2]), Some(0x20000));
        for text in ["running", "-1 0x7ffd 0x7f39", "", "x 0x1"] {
            assert_eq!(Call::parse(text), None, "{text}");
        }
    }

    #[test]
    fn epoll_entries_are_those_that_wait_for_input() {
        let text = "pos:\t0\nflags:\t02000002\ntfd:        0 events:       19 data: 0\n\
                    tfd:        5 events:        4 data: 5\ntfd:  x events: 1\n";
        assert_eq!(parse_epoll(text), [0]);
    }

    #[test]
    fn this_process_can_be_seen_and_one_that_is_not_there_cannot() {
        let own = std::process::id() as i32;
        assert_eq!(evidence_of(own), Some(Evidence::Whole));
        // Above any pid of a live machine.
        assert_eq!(evidence_of(50_000_000), Some(Evidence::Nothing));
    }

    #[test]
    fn switches_of_both_kinds_are_added() {
        let text = "Threads:\t1\nvoluntary_ctxt_switches:\t564\nnonvoluntary_ctxt_switches:\t142\n";
        assert_eq!(parse_switches(text), Some(706));
        assert_eq!(parse_switches("Threads:\t1\n"), None);
    }

    #[test]
    fn a_policy_that_forbids_looking_into_children_is_known() {
        for (scope, forbids) in [("0\n", false), ("1\n", false), ("2\n", true), ("3\n", true)] {
            assert_eq!(forbids_children(scope), forbids, "{scope}");
        }
        assert!(may_trace_all("Name:\tx\nCapEff:\t000001fffeffffff\n"));
        assert!(!may_trace_all("CapEff:\t0000000000000000\n"));
        assert!(!may_trace_all(""));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = parse_switches(&text);
            let _ = Call::parse(&text);
            let _ = parse_epoll(&text);
        }
    }
}
