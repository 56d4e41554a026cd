//! Counts the kernel's out-of-memory kills, reduces the memory that this process uses, and keeps
//! other processes from reading it.

use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::process::processes::{self, field};

/// Where control groups of version 2 are mounted.
pub(super) const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// How many processes the kernel has killed so far for lack of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemoryKills {
    /// In this process's control group, since it was created.
    group: Option<u64>,
    /// On the machine, since it was started.
    machine: Option<u64>,
}

/// Reads both counts.
pub(crate) fn out_of_memory_kills() -> OutOfMemoryKills {
    /// Looked for once: each command reads it.
    static OF_GROUP: OnceLock<Option<PathBuf>> = OnceLock::new();
    let of_group = OF_GROUP.get_or_init(|| {
        let files = ["memory.events", "memory.oom_control"].into_iter().flat_map(group_files);
        files.into_iter().find(|file| kills_in(file).is_some())
    });
    OutOfMemoryKills {
        group: of_group.as_deref().and_then(kills_in),
        machine: kills_in(Path::new("/proc/vmstat")),
    }
}

/// The count in a kernel file, read in one go: such a file reports no length.
fn kills_in(file: &Path) -> Option<u64> {
    const MAX_BYTES: u64 = 64 * 1024;
    let mut text = String::with_capacity(8 * 1024);
    File::open(file).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    count(&text, "oom_kill ")
}

impl OutOfMemoryKills {
    /// Whether `later` counts more kills, in the group or on the machine: the command may have a
    /// group of its own.
    pub(crate) fn has_grown(self, later: OutOfMemoryKills) -> bool {
        self.has_grown_in_group(later) || grown(self.machine, later.machine)
    }

    /// Whether `later` counts more kills in this process's control group. If so, the limit of the
    /// group was reached.
    pub(crate) fn has_grown_in_group(self, later: OutOfMemoryKills) -> bool {
        grown(self.group, later.group)
    }
}

fn grown(before: Option<u64>, later: Option<u64>) -> bool {
    before.zip(later).is_some_and(|(before, later)| later > before)
}

/// How much memory this process's control group may use, in bytes; `None` for no limit.
pub(crate) fn group_limit() -> Option<u64> {
    /// Version 1 reports a number near the largest for no limit.
    const NO_LIMIT: u64 = 1 << 60;
    let text = group_file("memory.max").or_else(|| group_file("memory.limit_in_bytes"))?;
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

/// Whether this process is known never to have occupied as much memory, in bytes.
pub(crate) fn is_above_highest(bytes: u64) -> bool {
    /// What was read last. The true value only grows, so this one often decides without the file.
    static READ: AtomicU64 = AtomicU64::new(0);
    if bytes <= READ.load(Ordering::Relaxed) {
        return false;
    }
    let Some(highest) = highest() else {
        return false;
    };
    READ.store(highest, Ordering::Relaxed);
    bytes > highest
}

/// The most memory that this process has occupied so far, in bytes. Unlike that of getrusage(2), it
/// leaves out what its parent occupied when it was started.
fn highest() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let highest = field(&status, "VmHWM:")?.split_whitespace().next()?.parse::<u64>();
    highest.ok()?.checked_mul(1024)
}

/// How much memory programs can still get, in bytes: of the machine, and of this process's control
/// group. What only caches files counts as free.
pub(crate) fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = field(&machine, "MemAvailable:")?;
    let machine = machine.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024);
    let of_group = || {
        let used = group_file("memory.current").or_else(|| group_file("memory.usage_in_bytes"))?;
        let cached = count(&group_file("memory.stat")?, "inactive_file")?;
        let used = used.trim().parse::<u64>().ok()?.saturating_sub(cached);
        Some(group_limit()?.saturating_sub(used))
    };
    Some(of_group().map_or(machine, |of_group| of_group.min(machine)))
}

/// A file of this process's control group of memory.
fn group_file(name: &str) -> Option<String> {
    group_files(name).into_iter().find_map(|file| fs::read_to_string(file).ok())
}

/// Where it may be, in version 2 or 1.
fn group_files(name: &str) -> Vec<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new(CONTROL_GROUPS);
    let (root, own) = match groups.lines().find_map(|line| line.split_once(":memory:/")) {
        Some((_, own)) => (root.join("memory"), Some(own)),
        None => (root.to_path_buf(), field(&groups, "0::/")),
    };
    // In a container the name may be that of the host, which is not visible.
    own.map_or_else(Vec::new, |own| vec![root.join(own).join(name), root.join(name)])
}

/// When memory runs out, makes the kernel kill a program that this process has just started, and
/// its descendants, before this process.
pub(crate) fn prefer_for_oom_kill(pid: i32) {
    /// How much more likely, in thousandths of the memory.
    const MORE: i32 = 300;
    /// `OOM_SCORE_ADJ_MAX` of `linux/oom.h`.
    const MAX: i32 = 1000;
    /// The value of this process. Read once: it is assumed not to change after the first command.
    static OWN: OnceLock<i32> = OnceLock::new();
    let read = || fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    let Some(own) = OWN.get().copied().or_else(read) else { return };
    let raised = OWN.get_or_init(|| own).saturating_add(MORE).min(MAX).to_string();
    // The program cannot write the file itself: until its exec the file is not this user's. The
    // children that it has are changed below; later ones inherit the value.
    let mut next = vec![pid];
    while let Some(pid) = next.pop() {
        // If this is refused, the kernel chooses by size only.
        let _ = fs::write(processes::proc_directory(pid).join("oom_score_adj"), &raised);
        next.extend(processes::children_of(pid).unwrap_or_default());
    }
}

/// Lets all threads allocate from one arena. By default glibc gives each of many concurrent threads
/// an arena of its own, which keeps the memory that short-lived threads have freed: eight calls at
/// a time left 70 MiB. A second arena costs 2 MiB and makes no call faster, since each thread has a
/// cache of its own. Call this before other threads start. Other allocators need no such call.
pub(crate) fn use_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: changes a parameter of the allocator, which takes its own lock for it.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns freed memory, which the allocator would keep, to the system. Takes milliseconds, during
/// which other threads cannot allocate.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: gives away only free pages, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Drops code and constants from this process's memory. What is used again comes back from the
/// system's cache; what only the start or the last command needed does not.
pub(crate) fn drop_unchanged_pages() {
    /// The program and its libraries have about twenty.
    const MOST: usize = 64;
    // On the stack: the code that would free them afterwards would come back into memory.
    let mut ranges = [(0, 0); MOST];
    let mappings = processes::read_proc_text("/proc/self/smaps").unwrap_or_default();
    for (place, range) in ranges.iter_mut().zip(unchanged(&mappings)) {
        *place = (range.start, range.len());
    }
    drop(mappings);
    for (first, bytes) in ranges.into_iter().take_while(|(_, bytes)| *bytes > 0) {
        let first = first as *mut libc::c_void;
        // SAFETY: these pages are a private mapping of a file. It cannot be written to, and the
        // kernel has counted no page that differs from the file.
        unsafe { libc::madvise(first, bytes, libc::MADV_DONTNEED) };
    }
}

/// The addresses of the mappings in a text of `smaps` that hold what is in their files. Code and
/// constants into which the dynamic linker or a tool has written are none of them: such a page is
/// in memory or in the swap space.
fn unchanged(mappings: &str) -> Vec<Range<usize>> {
    const PLACES: [&str; 2] = ["Anonymous:", "Swap:"];
    let mut found = Vec::new();
    let mut last = None;
    let mut empty_places = 0;
    for line in mappings.lines() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        if !name.ends_with(':') {
            last = read_only_file(line);
            empty_places = 0;
        } else if PLACES.contains(&name) && value.trim() == "0 kB" {
            empty_places += 1;
            if empty_places == PLACES.len() {
                found.extend(last.take());
            }
        }
    }
    found
}

/// The addresses in the first line of a mapping, such as
/// `55d0-55e0 r-xp 00001000 08:01 77 /bin/tool`, if it is a file that this process cannot change.
fn read_only_file(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (first, end) = fields.next()?.split_once('-')?;
    let is_read_only = matches!(fields.next()?, "r-xp" | "r--p");
    let is_file = fields.nth(3)?.starts_with('/');
    let number = |text| usize::from_str_radix(text, 16).ok();
    (is_read_only && is_file).then_some(number(first)?..number(end)?)
}

/// Takes [`hide_from_other_processes`] back, for a fork that is to become another process.
pub(crate) fn show_to_other_processes() {
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
}

/// Closes this process's environment, memory and descriptors in `/proc` to other processes of this
/// user: a command that the server runs could read configured secrets there. Root can still read
/// them. Programs that this process starts are not affected.
pub(crate) fn hide_from_other_processes() {
    // Fails only on kernels without it, where secrets are better kept in a file.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn count(counts: &str, name: &str) -> Option<u64> {
    field(counts, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts_no_change_of_is_unchanged() {
        let mapping = |first: &str, changed: u32, in_swap: u32| {
            let counts = format!("Anonymous: {changed:>8} kB\nSwap: {in_swap:>8} kB\n");
            format!("{first}\nSize: 4 kB\n{counts}VmFlags: rd mr\n")
        };
        let other = mapping("1000-2000 r-xp 00000000 08:01 1 /bin/other", 0, 0);
        for (line, changed, in_swap, is_unchanged) in [
            ("55d0-55e0 r-xp 00001000 08:01 77                 /bin/tool", 0, 0, true),
            ("55d0-55e0 r--p 00000000 08:01 78                 /lib/a b/libc.so.6", 0, 0, true),
            ("55d0-55e0 r-xp 00001000 08:01 77                 /bin/tool", 4, 0, false),
            ("55d0-55e0 r--p 00009000 08:01 77                 /bin/tool", 264, 0, false),
            ("55d0-55e0 r--p 00009000 08:01 77                 /bin/tool", 0, 264, false),
            ("55d0-55e0 rwxp 00001000 08:01 77                 /bin/tool", 0, 0, false),
            ("55d0-55e0 rw-p 00000000 08:01 77                 /bin/tool", 0, 0, false),
            ("55d0-55e0 r--s 00000000 08:01 77                 /bin/tool", 0, 0, false),
            ("7ffd-7fff r-xp 00000000 00:00 0                  [vdso]", 0, 0, false),
            ("7ffd-7fff r--p 00000000 00:00 0", 0, 0, false),
        ] {
            // Between two that count by themselves.
            let text = format!("{other}{}{other}", mapping(line, changed, in_swap));
            let found: Vec<_> =
                unchanged(&text).into_iter().map(|range| (range.start, range.end)).collect();
            let other = (0x1000, 0x2000);
            let wanted =
                if is_unchanged { vec![other, (0x55d0, 0x55e0), other] } else { vec![other; 2] };
            assert_eq!(found, wanted, "{line}");
        }
        assert!(unchanged("").is_empty());
        let own = processes::read_proc_text("/proc/self/smaps").unwrap();
        assert!(!unchanged(&own).is_empty(), "{own}");
        drop_unchanged_pages();
    }

    #[test]
    fn only_kills_are_counted() {
        let events = "low 0\nhigh 3\nmax 9\noom 2\noom_kill 7\noom_group_kill 1\n";
        assert_eq!(count(events, "oom_kill "), Some(7));
        assert_eq!(count("oom 2\n", "oom_kill "), None);
    }
}
