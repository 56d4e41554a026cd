//! Adds up the activity of a tree of processes over consecutive probes.
//!
//! The counters of a process disappear with it, unless its parent waits for it: the kernel then
//! adds them to the parent's. No activity may be lost or counted twice, and a total never falls.
//!
//! # Activity of ended children
//!
//! The number of children that began and ended between two probes is unknown, and starting a
//! program always reads some bytes. Two rules keep a polling loop from counting as work:
//!
//! - Starting a program reads small pieces (ELF headers, libraries, `/proc`). Only bytes beyond
//!   [`BYTES_OF_A_START_CALL`] per call count as work.
//! - Interpreters read more, and the same each time. In a loop around an interpreter, the bytes per
//!   call of all intervals agree to within a few percent (measured: `pg_isready` 2349 each second,
//!   `python3 -c` 9252, `pgrep` 323); `find /usr -exec md5sum` had between 917 and 5782. So ended
//!   children count if their bytes per call are new.
//!
//! # Activity of a living child
//!
//! A process that has begun since the last probe counts immediately if its command line is new. If
//! an earlier process had the same command line, it counts only after [`PROBES_OF_A_REPETITION`]
//! probes; if it ends earlier, it counts as an ended child.
//!
//! Limits: activity after the last probe of a process is lost if its parent does not wait for it.
//! Children with the same bytes per call (`md5sum` of large files) count only while they live, and
//! children that read no more than a start (files of a kilobyte) do not count. Ended threads count
//! like ended children. Pure: the caller probes.

use super::cost::CpuTime;
use super::novelty::{Novel, Novelty, keep};
use super::tracker::Totals;
use std::collections::{HashMap, VecDeque};

/// The most bytes that the start of a program reads from its file, libraries and configuration:
/// `curl` with OpenSSL reads 46 KB, `ssh` 31 KB, `/bin/sleep` 7 KB.
const BYTES_OF_A_START: u64 = 64 * 1024;
/// The most bytes that each call of such a start reads on average. Measured on Debian 12: between
/// 318 (`pgrep`) and 1142 (`rsync --version`), except for interpreters.
const BYTES_OF_A_START_CALL: u64 = 1280;
/// Ended children that read less than this beyond their starts did no work: a probe may fall within
/// a start.
const MIN_BEYOND_STARTS: u64 = 4 * 1024;
/// Two rates count as equal if they differ by at most 1 part in this: in a loop of several commands
/// the rate varies by about as much, depending on where in the loop a probe falls.
const RATE_TOLERANCE: u64 = 32;
/// How many values of bytes per call to remember: a loop may run several commands in turn.
const RATES_KEPT: usize = 12;
/// For how many probes a process with the command line of an earlier one counts as a repetition. On
/// a busy machine the first probe may find it starting and the second may find it ending.
const PROBES_OF_A_REPETITION: u8 = 2;
/// How many bytes of a file a single written byte may mark as changed: the kernel counts the whole
/// folio, which is at most a huge page. Measured on ext4, Linux 6.18: 2 MiB for 10 bytes.
const BYTES_OF_A_FOLIO: u64 = 2 * 1024 * 1024;

/// By how many bytes the output that has been read may differ from the output that a probe sees as
/// written: the capacity of pipes, with a margin.
const SKEW: u64 = 4 * 1024 * 1024;
/// I/O beyond the output counts only if it is at least 1 part in this of the output, since output
/// and I/O are never measured at the same instant.
const OUTPUT_PER_COUNTED_BYTE: u64 = 64;

/// A process: its pid and its start time, since pids are reused.
pub(crate) type Key = (i32, u64);

/// One process as a probe finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) key: Key,
    pub(crate) parent: i32,
    /// Its I/O; `None` if unreadable.
    pub(crate) io: Option<Bytes>,
    /// CPU time of the process and of the children that it has waited for.
    pub(crate) cpu: CpuTime,
}

/// Bytes read and written, for files and any other descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bytes {
    /// By the process and by the children that it has waited for.
    pub(crate) all: Counters,
    /// Only by its living threads.
    pub(crate) own: Counters,
}

/// The kernel's counters of reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// Bytes that calls have read.
    pub(crate) read: u64,
    /// Bytes that calls have written.
    pub(crate) written: u64,
    /// Bytes of files that were marked as changed, by calls and through mappings.
    pub(crate) changed: u64,
    pub(crate) read_calls: u64,
    pub(crate) write_calls: u64,
}

impl Counters {
    /// Combines each counter with its counterpart; `None` if one of the results is `None`.
    fn zip(self, other: Counters, with: impl Fn(u64, u64) -> Option<u64>) -> Option<Counters> {
        Some(Counters {
            read: with(self.read, other.read)?,
            written: with(self.written, other.written)?,
            changed: with(self.changed, other.changed)?,
            read_calls: with(self.read_calls, other.read_calls)?,
            write_calls: with(self.write_calls, other.write_calls)?,
        })
    }

    /// The increase since then; a counter that has fallen counts as unchanged.
    fn since(self, earlier: Counters) -> Counters {
        self.zip(earlier, |now, then| Some(now.saturating_sub(then))).unwrap_or_default()
    }

    fn checked_sub(self, part: Counters) -> Option<Counters> {
        self.zip(part, u64::checked_sub)
    }

    fn at_most(self, limit: Counters) -> Counters {
        self.zip(limit, |own, limit| Some(own.min(limit))).unwrap_or_default()
    }

    pub(crate) fn saturating_add(self, other: Counters) -> Counters {
        self.zip(other, |one, other| Some(one.saturating_add(other))).unwrap_or_default()
    }

    /// The bytes that calls have read or written.
    fn moved(&self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// The fewest bytes written through mappings. Bytes written by calls are in both counters and
    /// must not count twice.
    fn mapped(&self) -> u64 {
        let by_calls = self.write_calls.saturating_mul(BYTES_OF_A_FOLIO);
        self.changed.saturating_sub(self.written).saturating_sub(by_calls)
    }

    fn calls(&self) -> u64 {
        self.read_calls.saturating_add(self.write_calls)
    }
}

/// Separates a task's other I/O from its output, which is reported as output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Balance {
    /// Output that was read before a probe saw it written.
    ahead: u64,
    /// Bytes read and written so far, and those that were not output.
    counted: u64,
    beyond: u64,
}

impl Balance {
    /// How many of the bytes read and written so far were not output, given the output since the
    /// last probe.
    pub(crate) fn beyond_output(&mut self, total: u64, output: u64) -> u64 {
        let io = total.saturating_sub(self.counted);
        self.counted = total;
        let expected = output.saturating_add(self.ahead);
        self.ahead = expected.saturating_sub(io).min(SKEW);
        let beyond = io.saturating_sub(expected);
        if beyond >= output / OUTPUT_PER_COUNTED_BYTE {
            self.beyond = self.beyond.saturating_add(beyond);
        }
        self.beyond
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ActivityCounters {
    before: Option<HashMap<Key, KnownProcess>>,
    totals: Totals,
    /// Whether the I/O of some processes was unreadable.
    pub(crate) is_incomplete: bool,
    lines: Novelty,
    rates: Rates,
}

/// A process as the last probe found it.
#[derive(Debug, Clone, Copy)]
struct KnownProcess {
    member: Member,
    /// How many bytes it may still read for its start, which may not be complete at the first probe
    /// that finds it. 0 if it is older than the first probe.
    of_start: u64,
    /// For how many probes, including this one, its I/O is not counted, because an earlier
    /// process had the same command line.
    uncounted: u8,
    /// Whether it wrote through a mapping between the last two probes.
    maps: bool,
}

impl KnownProcess {
    /// How many of these bytes, read and written since the last probe, belong to its start.
    fn start(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.of_start);
        self.of_start -= bytes;
        bytes
    }

    /// How many of the bytes written through mappings are work. A page that is modified all the
    /// time, such as a JVM's counters, counts each time the kernel has written it back, every 30 s,
    /// so a single probe proves nothing.
    fn mapped(&mut self, bytes: u64) -> u64 {
        let earlier = std::mem::replace(&mut self.maps, bytes > 0);
        if earlier { bytes } else { 0 }
    }
}

impl ActivityCounters {
    /// Adds the next probe and returns the totals since the first one, without output. `line_of`
    /// returns the command line of a process, empty if unknown.
    pub(crate) fn add(&mut self, members: Vec<Member>, line_of: impl Fn(i32) -> String) -> Totals {
        self.is_incomplete = members.iter().any(|member| member.io.is_none());
        let before = self.before.take();
        let mut now = HashMap::with_capacity(members.len());
        for member in members {
            let earlier = before.as_ref().and_then(|before| before.get(&member.key));
            let known = match earlier {
                Some(known) => {
                    KnownProcess { member, uncounted: known.uncounted.saturating_sub(1), ..*known }
                }
                None => {
                    let line = line_of(member.key.0);
                    let again = !line.is_empty() && self.lines.add((), &line) != Novel::New;
                    let counts = before.is_some();
                    let repeats = counts && again;
                    KnownProcess {
                        member,
                        of_start: if counts { BYTES_OF_A_START } else { 0 },
                        uncounted: if repeats { PROBES_OF_A_REPETITION } else { 0 },
                        maps: false,
                    }
                }
            };
            now.insert(member.key, known);
        }
        if let Some(before) = before {
            let ended_children = add_step(&mut self.totals, &before, &mut now);
            let of_children = self.rates.beyond_repetition(&ended_children);
            self.totals.io = self.totals.io.saturating_add(of_children);
        }
        self.before = Some(now);
        self.totals
    }
}

/// The values of bytes per call of ended children.
#[derive(Debug, Clone, Default)]
struct Rates {
    seen: VecDeque<u64>,
}

impl Rates {
    /// How many bytes of ended children belong neither to starts nor to a repetition. The first
    /// children only serve for comparison.
    fn beyond_repetition(&mut self, children: &Counters) -> u64 {
        let bytes = children.moved().saturating_add(children.mapped());
        let starts = children.calls().saturating_mul(BYTES_OF_A_START_CALL);
        let beyond = bytes.saturating_sub(starts);
        if beyond < MIN_BEYOND_STARTS {
            return 0;
        }
        let rate = bytes / children.calls().max(1);
        let is_same = |seen: &u64| rate.abs_diff(*seen) <= seen / RATE_TOLERANCE;
        if self.seen.iter().any(is_same) {
            return 0;
        }
        let is_first = self.seen.is_empty();
        keep(&mut self.seen, RATES_KEPT, rate);
        if is_first { 0 } else { beyond }
    }
}

/// The increase of one process's counters.
#[derive(Debug, Clone, Copy, Default)]
struct Rise {
    all: Counters,
    own: Counters,
    cpu: CpuTime,
}

/// Adds the activity between two probes. Returns the activity of ended children that no probe has
/// counted.
fn add_step(
    totals: &mut Totals,
    before: &HashMap<Key, KnownProcess>,
    now: &mut HashMap<Key, KnownProcess>,
) -> Counters {
    let mut rises: HashMap<Key, Rise> =
        now.values().map(|known| (known.member.key, Rise::since(known, before))).collect();
    let by_pid: HashMap<i32, &Member> =
        before.values().map(|known| (known.member.key.0, &known.member)).collect();
    for known in before.values().filter(|known| !now.contains_key(&known.member.key)) {
        totals.ended += 1;
        let inheritor = inheritor_of(&known.member, &by_pid, now);
        if let Some(rise) = inheritor.and_then(|inheritor| rises.get_mut(&inheritor)) {
            rise.inherit(known);
        }
    }
    let mut of_children = Counters::default();
    for (key, known) in now {
        let Some(rise) = rises.get(key) else {
            continue;
        };
        totals.born += u64::from(!before.contains_key(key));
        totals.cpu = totals.cpu.saturating_add(rise.cpu);
        totals.moved = totals.moved.saturating_add(rise.all.moved());
        let own = rise.own.at_most(rise.all);
        of_children = of_children.saturating_add(rise.all.since(own));
        let moved = own.moved();
        let beyond_start = moved - known.start(moved);
        totals.io = totals.io.saturating_add(beyond_start);
        totals.io = totals.io.saturating_add(known.mapped(own.mapped()));
    }
    of_children
}

impl Rise {
    fn since(known: &KnownProcess, before: &HashMap<Key, KnownProcess>) -> Rise {
        let member = &known.member;
        let earlier = before.get(&member.key).map(|known| &known.member);
        let bytes = member.io.unwrap_or_default();
        let counted = match earlier {
            _ if known.uncounted > 0 => bytes,
            // Bytes that have only become readable were not necessarily transferred in between.
            Some(earlier) => earlier.io.unwrap_or(bytes),
            None => Bytes::default(),
        };
        let cpu = earlier.map_or(CpuTime::default(), |earlier| earlier.cpu);
        Rise {
            all: bytes.all.since(counted.all),
            own: bytes.own.since(counted.own),
            cpu: member.cpu.saturating_sub(cpu),
        }
    }

    /// Subtracts the activity already counted for a process that has since ended. If the parent's
    /// counters are smaller, it has not waited for the process, whose counters are lost.
    fn inherit(&mut self, gone: &KnownProcess) {
        let bytes = match gone.uncounted {
            0 => gone.member.io.unwrap_or_default().all,
            _ => Counters::default(),
        };
        if let Some(rest) = self.all.checked_sub(bytes) {
            self.all = rest;
            self.own = self.own.at_most(rest);
        }
        self.cpu = self.cpu.checked_sub(gone.member.cpu).unwrap_or(self.cpu);
    }
}

/// The living process that has waited for an ended one, or for its ended parent.
fn inheritor_of(
    gone: &Member,
    before: &HashMap<i32, &Member>,
    now: &HashMap<Key, KnownProcess>,
) -> Option<Key> {
    let mut parent = gone.parent;
    // A tree is not deeper than its number of members; reused pids may form a ring.
    for _ in 0..before.len() {
        let ancestor = before.get(&parent)?;
        if now.contains_key(&ancestor.key) {
            return Some(ancestor.key);
        }
        parent = ancestor.parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SHELL: i32 = 10;
    const MEGABYTE: u64 = 1024 * 1024;

    fn read(bytes: u64) -> Counters {
        Counters { read: bytes, ..Counters::default() }
    }

    fn member(pid: i32, parent: i32, io: u64) -> Member {
        Member {
            key: (pid, 1),
            parent,
            io: Some(Bytes { all: read(io), own: read(io) }),
            cpu: CpuTime { user: Duration::from_millis(io), ..CpuTime::default() },
        }
    }

    /// A process with activity of its own and of ended children.
    fn with_children(pid: i32, parent: i32, own: u64, children: u64) -> Member {
        Member {
            io: Some(Bytes { all: read(own + children), own: read(own) }),
            ..member(pid, parent, own + children)
        }
    }

    /// A shell whose ended children have read this many bytes in this many calls.
    fn shell(bytes: u64, calls: u64) -> Vec<Member> {
        let all = Counters { read: bytes, read_calls: calls, ..Counters::default() };
        let own = Counters::default();
        vec![Member { io: Some(Bytes { all, own }), ..member(SHELL, 1, 0) }]
    }

    /// Every process has a different command line.
    fn differ(pid: i32) -> String {
        format!("step {}", "x".repeat(pid.unsigned_abs() as usize))
    }

    fn alike(_pid: i32) -> String {
        "python3 check.py".to_owned()
    }

    /// Counters that treat bytes of ended children as new.
    fn primed() -> ActivityCounters {
        ActivityCounters { rates: Rates { seen: [1].into() }, ..ActivityCounters::default() }
    }

    #[test]
    fn counting_begins_with_the_first_probe() {
        let mut counters = ActivityCounters::default();
        assert_eq!(counters.add(vec![member(SHELL, 1, 5_000)], differ), Totals::default());
        let tally = counters.add(vec![member(SHELL, 1, 5_100)], differ);
        assert_eq!((tally.io, tally.cpu.total()), (100, Duration::from_millis(100)));
    }

    #[test]
    fn a_childs_activity_counts_once_when_its_parent_waits_for_it() {
        let mut counters = primed();
        counters.add(vec![member(SHELL, 1, 0), member(11, SHELL, 0)], differ);
        let tally = counters.add(vec![member(SHELL, 1, 0), member(11, SHELL, 1_000)], differ);
        assert_eq!(tally.io, 1_000);
        // It read 8,000 more bytes before its end.
        let tally = counters.add(vec![with_children(SHELL, 1, 0, 9_000)], differ);
        assert_eq!((tally.io, tally.ended), (9_000, 1));
        assert_eq!(tally.cpu.total(), Duration::from_millis(9_000));
    }

    #[test]
    fn a_grandchilds_activity_counts_once_when_both_have_ended() {
        let mut counters = primed();
        let tree = |grandchild| {
            vec![member(SHELL, 1, 0), member(11, SHELL, 0), member(12, 11, grandchild)]
        };
        counters.add(tree(0), differ);
        assert_eq!(counters.add(tree(700), differ).io, 700);
        let tally = counters.add(vec![with_children(SHELL, 1, 0, 8_700)], differ);
        assert_eq!((tally.io, tally.ended), (8_700, 2));
    }

    #[test]
    fn totals_never_fall_when_no_parent_has_waited() {
        let mut counters = ActivityCounters::default();
        counters.add(vec![member(SHELL, 1, 0), member(11, SHELL, 0)], differ);
        counters.add(vec![member(SHELL, 1, 0), member(11, SHELL, 9_000)], differ);
        let tally = counters.add(vec![member(SHELL, 1, 50)], differ);
        assert_eq!((tally.io, tally.ended), (9_050, 1));
        assert_eq!(counters.add(Vec::new(), differ).io, 9_050);
    }

    #[test]
    fn starts_of_programs_are_no_work_however_many() {
        let mut counters = primed();
        // As measured of `sleep`, `pgrep`, `curl` and `rsync`.
        for (bytes, calls) in [(6_976, 10), (130_034, 409), (46_065, 48), (25_132, 22)] {
            for times in [1, 1_000] {
                counters.before = None;
                counters.add(shell(0, 0), differ);
                let tally = counters.add(shell(bytes * times, calls * times), differ);
                assert_eq!(tally.io, 0, "{bytes} bytes in {calls} calls");
            }
        }
    }

    /// The bytes counted in each interval, given bytes and calls of ended children.
    fn counted(intervals: &[(u64, u64)]) -> Vec<u64> {
        let mut counters = ActivityCounters::default();
        let (mut bytes, mut calls, mut last) = (0, 0, 0);
        counters.add(shell(0, 0), differ);
        let mut count = |(more, more_calls): &(u64, u64)| {
            bytes += more;
            calls += more_calls;
            let io = counters.add(shell(bytes, calls), differ).io;
            io - std::mem::replace(&mut last, io)
        };
        intervals.iter().map(&mut count).collect()
    }

    #[test]
    fn children_that_read_the_same_again_and_again_are_a_repetition() {
        // Measured each second.
        let postgres = [(643_890, 274); 30];
        assert_eq!(counted(&postgres), [0; 30]);
        let python = [(2_720_320, 294), (1_360_160, 147), (2_720_320, 294)];
        assert_eq!(counted(&python.repeat(10)), [0; 30]);
        // `python3 check.py; sleep 1`, cut anywhere.
        let (check, sleep) = ((1_353_168, 135), (6_976, 10));
        let cut = |checks: u64, sleeps: u64| {
            let bytes = check.0 * checks + sleep.0 * sleeps;
            (bytes, check.1 * checks + sleep.1 * sleeps)
        };
        let cuts = [cut(9, 9), cut(9, 8), cut(8, 9), (0, 0), cut(1, 1), cut(0, 1)];
        assert_eq!(counted(&cuts.repeat(5)), [0; 30]);
    }

    #[test]
    fn children_that_read_different_things_work() {
        // `find /usr -xdev -type f -exec md5sum {} \;`, measured each second.
        let intervals = [
            (15_497_510, 10_453),
            (21_302_794, 10_249),
            (15_703_273, 8_189),
            (10_030_611, 7_840),
            (14_932_854, 8_382),
            (16_360_237, 7_291),
            (18_169_399, 8_173),
            (7_645_823, 8_337),
            (13_463_309, 8_347),
            (46_621_481, 8_062),
            (19_933_498, 7_890),
        ];
        let counted = counted(&intervals);
        assert!(counted.iter().filter(|io| **io > 0).count() >= 7);
        assert_eq!(counted[9], 46_621_481 - 8_062 * BYTES_OF_A_START_CALL);
    }

    #[test]
    fn a_new_command_counts_while_it_lives_and_the_same_again_does_not() {
        let tree = |pid, bytes| vec![member(SHELL, 1, 0), member(pid, SHELL, bytes)];
        let beyond = MEGABYTE - BYTES_OF_A_START;
        let mut counters = ActivityCounters::default();
        counters.add(tree(11, 0), differ);
        assert_eq!(counters.add(tree(12, MEGABYTE), differ).io, beyond);
        assert_eq!(counters.add(tree(13, MEGABYTE), differ).io, 2 * beyond);
        let mut counters = ActivityCounters::default();
        let line = |pid| {
            if pid == SHELL { "zsh".to_owned() } else { alike(pid) }
        };
        counters.add(tree(11, 0), line);
        for pid in 12..40 {
            assert_eq!(counters.add(tree(pid, MEGABYTE), line).io, 0, "{pid}");
        }
        // One of them lives on, and its activity after the second probe counts.
        assert_eq!(counters.add(tree(39, 2 * MEGABYTE), line).io, 0);
        let tally = counters.add(tree(39, 4 * MEGABYTE), line);
        assert_eq!(tally.io, 2 * MEGABYTE - BYTES_OF_A_START);
        // The whole activity of an uncounted process appears in its parent.
        let mut counters = primed();
        counters.add(tree(11, 0), line);
        counters.add(tree(12, MEGABYTE), line);
        let tally = counters.add(vec![with_children(SHELL, 1, 0, 2 * MEGABYTE)], line);
        assert_eq!((tally.io, tally.born, tally.ended), (2 * MEGABYTE, 1, 2));
    }

    #[test]
    fn a_start_between_two_probes_may_read_after_the_second() {
        let mut counters = ActivityCounters::default();
        counters.add(vec![member(SHELL, 1, 0)], differ);
        let reads = |bytes| vec![member(SHELL, 1, 0), member(13, SHELL, bytes)];
        assert_eq!(counters.add(reads(800), differ).io, 0);
        // A long life has one start.
        assert_eq!(counters.add(reads(BYTES_OF_A_START), differ).io, 0);
        assert_eq!(counters.add(reads(BYTES_OF_A_START + 500), differ).io, 500);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut counters = ActivityCounters::default();
        counters.add(vec![member(11, SHELL, 900)], differ);
        let again = Member { key: (11, 2), ..member(11, SHELL, BYTES_OF_A_START + 30) };
        let tally = counters.add(vec![again], |_| "another".to_owned());
        assert_eq!((tally.io, tally.born, tally.ended), (30, 1, 1));
    }

    #[test]
    fn unreadable_io_is_reported_and_not_counted_later() {
        let mut counters = ActivityCounters::default();
        let hidden = Member { io: None, ..member(11, SHELL, 0) };
        counters.add(vec![hidden], differ);
        assert!(counters.is_incomplete);
        assert_eq!(counters.add(vec![member(11, SHELL, 8_000)], differ).io, 0);
        assert!(!counters.is_incomplete);
        assert_eq!(counters.add(vec![member(11, SHELL, 8_500)], differ).io, 500);
    }

    #[test]
    fn writes_into_mapped_files_count_and_none_twice() {
        let counts = |steps: &[Counters]| {
            let mut counters = ActivityCounters::default();
            let mut sum = Counters::default();
            counters.add(shell(0, 0), differ);
            let takes = steps.iter().map(|step| {
                sum = sum.saturating_add(*step);
                let bytes = Bytes { all: sum, own: sum };
                let member = Member { io: Some(bytes), ..member(SHELL, 1, 0) };
                counters.add(vec![member], differ).io
            });
            takes.collect::<Vec<u64>>()
        };
        let mapped = Counters { changed: 20_480, ..Counters::default() };
        let nothing = Counters::default();
        assert_eq!(counts(&[mapped; 4]), [0, 20_480, 40_960, 61_440]);
        // Occasionally: the kernel has only written back pages that are modified all the time.
        assert_eq!(counts(&[mapped, nothing, mapped, nothing, mapped]), [0; 5]);
        let written = Counters {
            written: MEGABYTE,
            changed: MEGABYTE,
            write_calls: 1,
            ..Counters::default()
        };
        assert_eq!(counts(&[written; 2]), [MEGABYTE, 2 * MEGABYTE]);
        // A line written to a log marks a whole folio.
        let log = Counters {
            written: 10,
            changed: BYTES_OF_A_FOLIO,
            write_calls: 1,
            ..Counters::default()
        };
        assert_eq!(counts(&[log; 3]), [10, 20, 30]);
    }

    #[test]
    fn output_is_no_other_io_whenever_it_is_read() {
        let mut balance = Balance::default();
        let (mut total, mut told) = (0, 0);
        let mut beyond_output = |io: u64, output: u64| {
            total += io;
            let before = std::mem::replace(&mut told, balance.beyond_output(total, output));
            told - before
        };
        assert_eq!(beyond_output(5, 5), 0);
        assert_eq!(beyond_output(9_000, 0), 9_000);
        // The reader takes it before the probe; only the next probe sees it written.
        assert_eq!(beyond_output(0, 6_000), 0);
        assert_eq!(beyond_output(6_500, 0), 500);
        // The counts of a flood are never exactly equal.
        assert_eq!(beyond_output(100_100_000, 100_000_000), 0);
        assert_eq!(beyond_output(200_000_000, 100_000_000), 100_000_000);
        // Output of an invisible writer is not subtracted forever.
        assert_eq!(beyond_output(0, 1_000_000_000), 0);
        assert_eq!(beyond_output(SKEW + 7, 0), 7);
    }

    proptest::proptest! {
        #[test]
        fn no_probes_make_a_total_fall(
            looks in proptest::collection::vec(
                proptest::collection::vec((1..6_i32, 0..6_i32, 0..u64::MAX / 1024, 0..3_u64), 0..8),
                0..12,
            )
        ) {
            let mut counters = ActivityCounters::default();
            let mut last = Totals::default();
            for look in looks {
                let members = look
                    .into_iter()
                    .map(|(pid, parent, io, begun)| Member { key: (pid, begun), ..member(pid, parent, io) })
                    .collect();
                let tally = counters.add(members, alike);
                proptest::prop_assert!(tally.io >= last.io && tally.cpu.total() >= last.cpu.total());
                proptest::prop_assert!(tally.born >= last.born && tally.ended >= last.ended);
                last = tally;
            }
        }
    }
}
