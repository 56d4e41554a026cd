//! What the goroutines of a Go program wait for, from the memory of its runtime.
//!
//! The kernel shows threads alone, and those of a Go program all wait in the same way, whether its
//! goroutines wait for a signal by `signal.Notify` or for each other. Limits: 64-bit programs with a
//! table of symbols, as `go build` makes them; `go run` and stripped programs have none. The layout
//! of the runtime's structures is not fixed: what is read counts only if all of it makes sense.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::elf::{self, Symbol};
use crate::process::processes;

/// The list of all goroutines (`runtime/proc.go`), a slice of pointers.
const GOROUTINES: &str = "runtime.allgs";
/// The texts of the reasons why they wait (`runtime/runtime2.go`), an array of strings.
const REASONS: &str = "runtime.waitReasonStrings";
/// A program with more goroutines is not examined.
const MAX_GOROUTINES: u64 = 10_000;
/// Where the field `atomicstatus` of `struct g` is in Go 1.14 to 1.22, from 1.23 on, and without the
/// field `ret` of `struct gobuf`.
const STATUS_AT: [usize; 3] = [144, 152, 136];
/// Where `goid` and `waitreason` are behind `atomicstatus`.
const ID_BEHIND: usize = 8;
const REASON_BEHIND: usize = 32;
/// How much of `struct g` is read.
const G_BYTES: usize = 192;

/// States of goroutines (`_Gsyscall`, `_Gwaiting` and `_Gdead`) without the bit `_Gscan`.
const IN_CALL: u32 = 3;
const WAITING: u32 = 4;
const DEAD: u32 = 6;
const LAST_STATE: u32 = 9;

/// Reasons that only another goroutine can end. None can be ended by the one that delivers signals,
/// which only sends to channels.
const FOR_OTHERS: &[&str] = &[
    "semacquire",
    "sync.Mutex.Lock",
    "sync.RWMutex.RLock",
    "sync.RWMutex.Lock",
    "sync.Cond.Wait",
    "sync.WaitGroup.Wait",
    "chan send",
    "chan send (nil chan)",
    "chan receive (nil chan)",
    "select (no cases)",
];
/// The reason of one that waits for several channels.
const SELECT: &str = "select";
/// In the place of a reason: it is in a system call or a function of C.
const CALL: &str = "call";
/// Reasons of the runtime's own goroutines.
const OF_RUNTIME: &[&str] = &[
    "GC assist marking",
    "GC background sweeper (idle)",
    "GC scavenge wait",
    "GC sweep wait",
    "GC worker (idle)",
    "GC worker init",
    "cleanup wait",
    "finalizer wait",
    "force gc (idle)",
    "trace reader (blocked)",
];

/// Where a Go program keeps what is needed here.
#[derive(Debug, Clone)]
pub(super) struct Runtime {
    goroutines: u64,
    reasons: Symbol,
}

impl Runtime {
    /// The runtime of a process; `None` without a table of symbols.
    pub(crate) fn detect(pid: i32) -> Option<Runtime> {
        let directory = processes::proc_directory(pid);
        let program = File::open(directory.join("exe")).ok()?;
        let [goroutines, reasons] = elf::symbols(&program, [GOROUTINES, REASONS])?;
        let base = if elf::is_relocated(&program)? {
            load_address(&processes::read_proc_text(directory.join("maps")).ok()?)?
        } else {
            0
        };
        let reasons = Symbol { address: reasons.address.checked_add(base)?, ..reasons };
        Some(Runtime { goroutines: goroutines.address.checked_add(base)?, reasons })
    }

    /// Whether a signal may wake a goroutine: the program has asked for signals, and one of its
    /// goroutines waits for something that the one that delivers them can end.
    pub(crate) fn awaits_signals(&self, pid: i32) -> Option<bool> {
        let memory = File::open(processes::proc_directory(pid).join("mem")).ok()?;
        let reasons = self.reasons(&memory)?;
        let goroutines = self.goroutines(&memory)?;
        let waits = STATUS_AT.iter().find_map(|at| waits(&goroutines, *at, &reasons))?;
        Some(may_be_woken_by_signals(waits))
    }

    fn reasons(&self, memory: &File) -> Option<Vec<String>> {
        const STRING: usize = 16;
        const MAX_REASONS: u64 = 128;
        const MAX_LENGTH: u64 = 128;
        if self.reasons.size > MAX_REASONS * STRING as u64 {
            return None;
        }
        let table = read(memory, self.reasons.address, usize::try_from(self.reasons.size).ok()?)?;
        let strings = table.chunks_exact(STRING).map(|string| {
            let length = elf::word(string, 8)?.min(MAX_LENGTH);
            let bytes = read(memory, elf::word(string, 0)?, usize::try_from(length).ok()?)?;
            String::from_utf8(bytes).ok()
        });
        strings.collect()
    }

    /// The beginning of each `struct g`.
    fn goroutines(&self, memory: &File) -> Option<Vec<Vec<u8>>> {
        let slice = read(memory, self.goroutines, 16)?;
        let count = elf::word(&slice, 8).filter(|count| (1..=MAX_GOROUTINES).contains(count))?;
        let pointers = read(memory, elf::word(&slice, 0)?, usize::try_from(count * 8).ok()?)?;
        let pointers = pointers.chunks_exact(8).filter_map(|pointer| elf::word(pointer, 0));
        pointers.map(|pointer| read(memory, pointer, G_BYTES)).collect()
    }
}

/// Why each goroutine that waits does so, if `atomicstatus` is at this place: every field makes
/// sense, and the first goroutine, which runs `main`, is there once.
fn waits<'a>(goroutines: &[Vec<u8>], at: usize, reasons: &'a [String]) -> Option<Vec<&'a str>> {
    const SCAN: u32 = 0x1000;
    let mut waits = Vec::new();
    let mut mains = 0;
    for goroutine in goroutines {
        let status = goroutine.get(at..at + 4)?.try_into().ok()?;
        let status = u32::from_ne_bytes(status) & !SCAN;
        let id = elf::word(goroutine, at + ID_BEHIND)?;
        if status > LAST_STATE || id > u64::from(u32::MAX) {
            return None;
        }
        mains += usize::from(id == 1);
        match status {
            WAITING => {
                let reason = usize::from(*goroutine.get(at + REASON_BEHIND)?);
                waits.push(reasons.get(reason).filter(|reason| !reason.is_empty())?.as_str());
            }
            DEAD => {}
            IN_CALL => waits.push(CALL),
            // It runs, or is about to.
            _ => waits.push("running"),
        }
    }
    (mains == 1).then_some(waits)
}

/// Whether a signal may wake one of the goroutines that wait for these reasons.
fn may_be_woken_by_signals(mut waits: Vec<&str>) -> bool {
    waits.retain(|reason| !OF_RUNTIME.contains(reason));
    // Two goroutines that a program has once it has called `signal.Notify`: that of `ensureSigM`
    // (`runtime/signal_unix.go`) and that of `loop` (`os/signal/signal_unix.go`).
    for of_signals in [SELECT, CALL] {
        let Some(place) = waits.iter().position(|reason| *reason == of_signals) else {
            return false;
        };
        waits.swap_remove(place);
    }
    // All threads wait for others, and so does one of C that a goroutine has called.
    waits.is_empty() || waits.iter().any(|reason| *reason != CALL && !FOR_OTHERS.contains(reason))
}

fn read(memory: &File, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// The address of the first mapping in a text of `/proc/<pid>/maps`, which is that of the program.
fn load_address(maps: &str) -> Option<u64> {
    let (first, _) = maps.split_once('-')?;
    u64::from_str_radix(first, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goroutine(status: u32, id: u64, reason: u8) -> Vec<u8> {
        let mut bytes = vec![0; G_BYTES];
        bytes[144..148].copy_from_slice(&status.to_ne_bytes());
        bytes[152..160].copy_from_slice(&id.to_ne_bytes());
        bytes[176] = reason;
        bytes
    }

    fn reasons() -> Vec<String> {
        ["", "semacquire", "chan receive"].map(str::to_owned).to_vec()
    }

    #[test]
    fn goroutines_that_make_sense_name_their_reasons() {
        let reasons = reasons();
        let all = [goroutine(WAITING, 1, 1), goroutine(DEAD, 0, 0), goroutine(IN_CALL, 5, 0)];
        assert_eq!(waits(&all, 144, &reasons), Some(vec!["semacquire", CALL]));
        assert_eq!(waits(&all, 152, &reasons), None, "another layout");
        let runs = [goroutine(2, 1, 0)];
        assert_eq!(waits(&runs, 144, &reasons), Some(vec!["running"]));
        for wrong in [goroutine(77, 1, 1), goroutine(WAITING, 1, 9), goroutine(WAITING, 1, 0)] {
            assert_eq!(waits(&[wrong], 144, &reasons), None);
        }
        assert_eq!(waits(&[goroutine(WAITING, 2, 1)], 144, &reasons), None, "no main");
        assert_eq!(waits(&[vec![0; 8]], 144, &reasons), None);
    }

    #[test]
    fn signals_wake_goroutines_of_programs_that_ask_for_them() {
        let asks = [SELECT, CALL, "finalizer wait"];
        for (program, woken) in [
            (&["chan receive"][..], true),
            (&["semacquire", "select"], true),
            (&["semacquire", "sync.Mutex.Lock", CALL], false),
            // What it reads may be written by a goroutine that signals wake.
            (&["IO wait"], true),
        ] {
            let with = asks.iter().chain(program).copied().collect();
            assert_eq!(may_be_woken_by_signals(with), woken, "{program:?}");
            assert!(!may_be_woken_by_signals(program.to_vec()), "{program:?}");
        }
    }

    #[test]
    fn this_program_has_no_goroutines() {
        assert!(Runtime::detect(std::process::id() as i32).is_none());
        assert!(Runtime::detect(50_000_000).is_none());
        assert_eq!(load_address("555500-5556 r--p 0 0:0 1 /x\n"), Some(0x0055_5500));
        assert_eq!(load_address(""), None);
    }
}
