//! What a tree of processes has done since its start, added up over looks at it.
//!
//! A process that ends takes its counters along, unless its parent waits for it: then the
//! kernel adds them to the parent's. Both must neither be lost nor be counted twice, and
//! a total never falls.
//!
//! Limits: what a process did between the last look at it and its end is lost when nobody
//! of the tree waits for it. How many processes began and ended between two looks is not
//! known, only how many at most. Pure: the caller looks.

use std::collections::HashMap;
use std::time::Duration;

/// What the start of a program reads of itself and its libraries, at most: about 7 KB for
/// `/bin/sleep` with glibc, more with more libraries.
const BYTES_OF_A_START: u64 = 16 * 1024;

/// Output may be taken before the look that sees it written, or after it, by what pipes
/// hold and a little more.
const SKEW: u64 = 4 * 1024 * 1024;
/// Beside so many bytes of output one byte of other reading or writing is a matter of when
/// the look came.
const OUTPUT_PER_BYTE: u64 = 64;

/// Which process: its pid and its start time, since pids are used again.
pub type Key = (i32, u64);

/// One process as a look finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub key: Key,
    /// Its parent's pid.
    pub parent: i32,
    /// What it has read and written; `None`: that cannot be read.
    pub io: Option<Bytes>,
    /// CPU time of it and of the children that it has waited for.
    pub cpu: Duration,
}

/// Bytes read and written, of files and of anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// By the process and by the children that it has waited for.
    pub all: u64,
    /// By its living threads alone.
    pub own: u64,
}

/// The totals since the first look, which is where counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Bytes read and written, without what the starts of programs may have read.
    pub io: u64,
    /// Processes that have begun.
    pub born: u64,
    /// Processes that have ended.
    pub ended: u64,
    /// CPU time.
    pub cpu: Duration,
}

/// Tells what a task read and wrote otherwise from what it wrote as output, which is told
/// as such.
#[derive(Debug, Clone, Copy, Default)]
pub struct Balance {
    /// Output that was taken before it was seen to be written.
    ahead: u64,
}

impl Balance {
    /// How many of so many bytes, read and written since the last look, are none of the
    /// output that came since then.
    pub fn beyond_output(&mut self, io: u64, output: u64) -> u64 {
        let told = output.saturating_add(self.ahead);
        self.ahead = told.saturating_sub(io).min(SKEW);
        let beyond = io.saturating_sub(told);
        match beyond < output / OUTPUT_PER_BYTE {
            true => 0,
            false => beyond,
        }
    }
}

/// Adds up what looks find.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    before: Option<HashMap<Key, Known>>,
    tally: Tally,
    hides: bool,
}

/// A process as the last look found it.
#[derive(Debug, Clone, Copy)]
struct Known {
    member: Member,
    /// How many bytes it may still read for its start alone: what starts between two looks
    /// may read the rest of it after the second. Nothing, if it is older than the counting.
    of_start: u64,
}

impl Known {
    /// How many of these bytes, read and written since the last look, are of its start.
    fn start(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.of_start);
        self.of_start -= bytes;
        bytes
    }
}

impl Ledger {
    /// Takes the next look in. `begun` is how many processes may have begun on the whole
    /// machine since the last one, at most.
    pub fn take(&mut self, members: Vec<Member>, begun: u64) -> Tally {
        self.hides = members.iter().any(|member| member.io.is_none());
        let before = self.before.as_ref();
        let known = |member: Member| {
            let of_start = before.map_or(0, |before| {
                let known = before.get(&member.key);
                known.map_or(BYTES_OF_A_START, |known| known.of_start)
            });
            (member.key, Known { member, of_start })
        };
        let mut now: HashMap<Key, Known> = members.into_iter().map(known).collect();
        if let Some(before) = before {
            let step = Step::between(before, &mut now, begun);
            self.tally.io += step.io;
            self.tally.born += step.born;
            self.tally.ended += step.ended;
            self.tally.cpu += step.cpu;
        }
        self.before = Some(now);
        self.tally
    }

    /// Whether what some of the processes read and write could not be seen.
    pub fn hides(&self) -> bool {
        self.hides
    }
}

/// What happened between two looks.
#[derive(Debug, Default)]
struct Step {
    /// Without what the starts of programs may have read.
    io: u64,
    born: u64,
    ended: u64,
    cpu: Duration,
}

/// By how much the counters of one process have risen.
#[derive(Debug, Clone, Copy, Default)]
struct Rise {
    all: u64,
    own: u64,
    cpu: Duration,
}

impl Step {
    fn between(before: &HashMap<Key, Known>, now: &mut HashMap<Key, Known>, begun: u64) -> Step {
        let mut rises: HashMap<Key, Rise> = now
            .values()
            .map(|known| &known.member)
            .map(|member| (member.key, Rise::of(member, before.get(&member.key))))
            .collect();
        let by_pid: HashMap<i32, &Member> = before
            .values()
            .map(|known| (known.member.key.0, &known.member))
            .collect();
        let gone = || {
            before
                .values()
                .filter(|known| !now.contains_key(&known.member.key))
        };
        for Known { member, .. } in gone() {
            let heir = heir_of(member, &by_pid, now);
            if let Some(rise) = heir.and_then(|heir| rises.get_mut(&heir)) {
                rise.inherit(member);
            }
        }
        let mut step = Step {
            born: count(now.keys().filter(|key| !before.contains_key(key))),
            ended: count(gone()),
            ..Step::default()
        };
        let starts_of_gone = gone()
            .map(|known| known.of_start)
            .fold(0, u64::saturating_add);
        let mut of_children = 0_u64;
        for (key, rise) in &rises {
            step.cpu += rise.cpu;
            let own = rise.own.min(rise.all);
            of_children += rise.all - own;
            let start = now.get_mut(key).map_or(0, |known| known.start(own));
            step.io += own - start;
        }
        // Those that came and went between the looks were seen in their parents alone. Who
        // was seen is not taken off: he may have begun before the count does.
        let starts_unseen = begun
            .saturating_mul(BYTES_OF_A_START)
            .saturating_add(starts_of_gone);
        step.io += of_children.saturating_sub(starts_unseen);
        step
    }
}

impl Rise {
    fn of(member: &Member, before: Option<&Known>) -> Rise {
        let bytes = member.io.unwrap_or_default();
        let (earlier, cpu) = before.map_or((Bytes::default(), Duration::ZERO), |before| {
            // What could not be read then, and can now, has not happened in between.
            (before.member.io.unwrap_or(bytes), before.member.cpu)
        });
        Rise {
            all: bytes.all.saturating_sub(earlier.all),
            own: bytes.own.saturating_sub(earlier.own),
            cpu: member.cpu.saturating_sub(cpu),
        }
    }

    /// Takes out what was counted already as the doing of a process that has ended since.
    /// Too little for that: nobody has waited for it, and its counters are gone.
    fn inherit(&mut self, gone: &Member) {
        let bytes = gone.io.unwrap_or_default().all;
        if let Some(rest) = self.all.checked_sub(bytes) {
            self.all = rest;
            self.own = self.own.min(rest);
        }
        self.cpu = self.cpu.checked_sub(gone.cpu).unwrap_or(self.cpu);
    }
}

/// Whoever of the living has waited for a process that is gone, or for its parent that is
/// gone as well.
fn heir_of(
    gone: &Member,
    before: &HashMap<i32, &Member>,
    now: &HashMap<Key, Known>,
) -> Option<Key> {
    let mut parent = gone.parent;
    // A tree is not deeper than it has members; pids that were used again may form a ring.
    for _ in 0..before.len() {
        let elder = before.get(&parent)?;
        if now.contains_key(&elder.key) {
            return Some(elder.key);
        }
        parent = elder.parent;
    }
    None
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: i32 = 10;

    fn member(pid: i32, parent: i32, io: u64) -> Member {
        Member {
            key: (pid, 1),
            parent,
            io: Some(Bytes { all: io, own: io }),
            cpu: Duration::from_millis(io),
        }
    }

    /// A process of which so much is what ended children had done.
    fn with_children(pid: i32, parent: i32, own: u64, children: u64) -> Member {
        Member {
            io: Some(Bytes {
                all: own + children,
                own,
            }),
            ..member(pid, parent, own + children)
        }
    }

    #[test]
    fn counting_begins_with_the_first_look() {
        let mut ledger = Ledger::default();
        assert_eq!(
            ledger.take(vec![member(SHELL, 1, 5_000)], 0),
            Tally::default()
        );
        let tally = ledger.take(vec![member(SHELL, 1, 5_100)], 0);
        assert_eq!((tally.io, tally.cpu), (100, Duration::from_millis(100)));
    }

    #[test]
    fn what_a_child_did_is_counted_once_when_its_parent_waits_for_it() {
        let mut ledger = Ledger::default();
        ledger.take(vec![member(SHELL, 1, 0), member(11, SHELL, 0)], 0);
        let tally = ledger.take(vec![member(SHELL, 1, 0), member(11, SHELL, 1_000)], 0);
        assert_eq!(tally.io, 1_000);
        // It has done 200 more before its end.
        let tally = ledger.take(vec![with_children(SHELL, 1, 0, 1_200)], 0);
        assert_eq!((tally.io, tally.ended), (1_200, 1));
        assert_eq!(tally.cpu, Duration::from_millis(1_200));
    }

    #[test]
    fn what_a_grandchild_did_is_counted_once_when_both_have_ended() {
        let mut ledger = Ledger::default();
        let tree = |grandchild| {
            vec![
                member(SHELL, 1, 0),
                member(11, SHELL, 0),
                member(12, 11, grandchild),
            ]
        };
        ledger.take(tree(0), 0);
        assert_eq!(ledger.take(tree(700), 0).io, 700);
        let tally = ledger.take(vec![with_children(SHELL, 1, 0, 750)], 0);
        assert_eq!((tally.io, tally.ended), (750, 2));
    }

    #[test]
    fn totals_never_fall_when_nobody_has_waited() {
        let mut ledger = Ledger::default();
        ledger.take(vec![member(SHELL, 1, 0), member(11, SHELL, 0)], 0);
        ledger.take(vec![member(SHELL, 1, 0), member(11, SHELL, 9_000)], 0);
        let tally = ledger.take(vec![member(SHELL, 1, 50)], 0);
        assert_eq!((tally.io, tally.ended), (9_050, 1));
        assert_eq!(ledger.take(Vec::new(), 0).io, 9_050);
    }

    #[test]
    fn starts_of_programs_are_no_doing_and_what_goes_beyond_them_is() {
        let mut ledger = Ledger::default();
        ledger.take(vec![member(SHELL, 1, 0)], 0);
        // Ten short programs came and went, as a loop around `sleep` has them.
        let looped = |times: u64| vec![with_children(SHELL, 1, 0, 7_000 * times)];
        assert_eq!(ledger.take(looped(10), 10).io, 0);
        assert_eq!(ledger.take(looped(20), 10).io, 0);
        // A child that is seen alive has begun by reading as well.
        let mut with_child = looped(20);
        with_child.push(member(11, SHELL, 7_000));
        let tally = ledger.take(with_child, 1);
        assert_eq!((tally.io, tally.born), (0, 1));
        // What processes of long standing do is never taken for that.
        let tally = ledger.take(vec![with_children(SHELL, 1, 5_000, 140_000)], 1_000_000);
        assert_eq!(tally.io, 5_000);
        // Children that do more than begin.
        let tally = ledger.take(vec![with_children(SHELL, 1, 5_000, 5_140_000)], 10);
        assert_eq!(tally.io, 5_000 + 5_000_000 - 10 * BYTES_OF_A_START);
    }

    #[test]
    fn what_starts_between_two_looks_may_read_for_it_after_the_second() {
        let mut ledger = Ledger::default();
        ledger.take(vec![member(SHELL, 1, 0)], 0);
        ledger.take(vec![member(SHELL, 1, 0), member(11, SHELL, 800)], 1);
        let tally = ledger.take(vec![member(SHELL, 1, 0), member(11, SHELL, 7_000)], 0);
        assert_eq!(tally.io, 0);
        ledger.take(vec![member(SHELL, 1, 0), member(12, SHELL, 800)], 1);
        // This one has ended, and its parent has waited for it.
        let tally = ledger.take(vec![with_children(SHELL, 1, 0, 14_000)], 0);
        assert_eq!(tally.io, 0);
        // A long life has one start.
        ledger.take(
            vec![with_children(SHELL, 1, 0, 14_000), member(13, SHELL, 0)],
            1,
        );
        let reads = |bytes| vec![with_children(SHELL, 1, 0, 14_000), member(13, SHELL, bytes)];
        assert_eq!(ledger.take(reads(BYTES_OF_A_START), 0).io, 0);
        assert_eq!(ledger.take(reads(BYTES_OF_A_START + 500), 0).io, 500);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut ledger = Ledger::default();
        ledger.take(vec![member(11, SHELL, 900)], 0);
        let again = Member {
            key: (11, 2),
            ..member(11, SHELL, BYTES_OF_A_START + 30)
        };
        let tally = ledger.take(vec![again], 1);
        assert_eq!((tally.io, tally.born, tally.ended), (30, 1, 1));
    }

    #[test]
    fn what_cannot_be_read_is_said_and_not_made_up_later() {
        let mut ledger = Ledger::default();
        let hidden = Member {
            io: None,
            ..member(11, SHELL, 0)
        };
        ledger.take(vec![hidden], 0);
        assert!(ledger.hides());
        assert_eq!(ledger.take(vec![member(11, SHELL, 8_000)], 0).io, 0);
        assert!(!ledger.hides());
        assert_eq!(ledger.take(vec![member(11, SHELL, 8_500)], 0).io, 500);
    }

    #[test]
    fn output_is_no_other_writing_whenever_it_is_taken() {
        let mut balance = Balance::default();
        assert_eq!(balance.beyond_output(5, 5), 0);
        assert_eq!(balance.beyond_output(9_000, 0), 9_000);
        // Taken by the reader before the look, and seen to be written by the next one.
        assert_eq!(balance.beyond_output(0, 6_000), 0);
        assert_eq!(balance.beyond_output(6_500, 0), 500);
        // A flood is never the same to a byte.
        assert_eq!(balance.beyond_output(100_100_000, 100_000_000), 0);
        assert_eq!(balance.beyond_output(200_000_000, 100_000_000), 100_000_000);
        // Of a writer that cannot be seen, output is no debt for ever.
        assert_eq!(balance.beyond_output(0, 1_000_000_000), 0);
        assert_eq!(balance.beyond_output(SKEW + 7, 0), 7);
    }

    proptest::proptest! {
        #[test]
        fn no_looks_make_a_total_fall(
            looks in proptest::collection::vec(
                proptest::collection::vec((1..6_i32, 0..6_i32, 0..u64::MAX / 1024, 0..3_u64), 0..8),
                0..12,
            )
        ) {
            let mut ledger = Ledger::default();
            let mut last = Tally::default();
            for look in looks {
                let members = look
                    .into_iter()
                    .map(|(pid, parent, io, begun)| Member { key: (pid, begun), ..member(pid, parent, io) })
                    .collect();
                let tally = ledger.take(members, 1);
                proptest::prop_assert!(tally.io >= last.io && tally.cpu >= last.cpu);
                proptest::prop_assert!(tally.born >= last.born && tally.ended >= last.ended);
                last = tally;
            }
        }
    }
}
