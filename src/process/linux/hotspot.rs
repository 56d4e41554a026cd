//! Counters of a Java machine, from the file `hsperfdata_<user>/<pid>` that HotSpot keeps in `/tmp`
//! for tools such as `jstat`.
//!
//! A thread that waits for another one's monitor wakes up at least once per second and tries again,
//! so the kernel cannot tell it from a thread that sleeps. HotSpot counts such vain attempts
//! (`ObjectMonitor::EnterI`). Limits: not with `-XX:-UsePerfData`, nor from another mount namespace.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::process::processes;

/// The counter of threads that woke up and did not get their monitor.
const FUTILE_WAKEUPS: &[u8] = b"sun.rt._sync_FutileWakeups";
/// More is not read: HotSpot's file has 32 KiB by default.
const MAX_BYTES: u64 = 1024 * 1024;

/// How often threads of a Java machine have tried in vain to enter a monitor; `None` if it does not
/// report that.
pub(super) fn futile_wakeups(pid: i32) -> Option<u64> {
    counter(&read_file(&file_of(pid)?)?, FUTILE_WAKEUPS)
}

/// The content of a regular file. Anybody may have put something else in its place, such as a FIFO.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let file = options.open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The file with the counters. HotSpot names it by the pid that the process has in its own
/// namespace, and its folder by the user.
fn file_of(pid: i32) -> Option<PathBuf> {
    let process = processes::proc_directory(pid);
    let status = processes::read_proc_text(process.join("status")).ok()?;
    let inner = processes::field(&status, "NSpid:")?.split_ascii_whitespace().next_back()?;
    let user = processes::user_of(pid)?;
    Some(process.join("root/tmp").join(format!("hsperfdata_{user}")).join(inner))
}

/// The value of a counter of type `long`: `PerfDataPrologue` and `PerfDataEntry` of HotSpot's
/// `perfMemory.hpp`, version 2.0.
fn counter(bytes: &[u8], name: &[u8]) -> Option<u64> {
    const MAGIC: u32 = 0xcafe_c0c0;
    let magic = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    // A byte says whether the machine that wrote it is a little-endian one.
    let is_own_order = bytes.get(4) == Some(&u8::from(cfg!(target_endian = "little")));
    if magic != MAGIC || !is_own_order || bytes.get(5) != Some(&2) {
        return None;
    }
    let mut at = word(bytes, 24)?;
    for _ in 0..word(bytes, 28)? {
        let entry = bytes.get(at..)?;
        let length = word(entry, 0)?;
        let found = entry.get(word(entry, 4)?..)?;
        let is_long = entry.get(12) == Some(&b'J') && word(entry, 8)? == 0;
        if is_long && found.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0)) {
            let data = entry.get(word(entry, 16)?..)?.get(..8)?;
            return Some(u64::from_ne_bytes(data.try_into().ok()?));
        }
        if length == 0 {
            return None;
        }
        at = at.checked_add(length)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_ne_bytes(word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one counter.
    fn file(name: &[u8], value: u64) -> Vec<u8> {
        let mut bytes = vec![0xca, 0xfe, 0xc0, 0xc0];
        bytes.extend([u8::from(cfg!(target_endian = "little")), 2, 0, 1]);
        bytes.extend([0; 16]);
        bytes.extend(32_u32.to_ne_bytes());
        bytes.extend(1_u32.to_ne_bytes());
        let data_at = (20 + name.len() + 1).next_multiple_of(8) as u32;
        bytes.extend((data_at + 8).to_ne_bytes());
        bytes.extend(20_u32.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend([b'J', 0, 4, 1]);
        bytes.extend(data_at.to_ne_bytes());
        bytes.extend(name);
        bytes.resize(32 + data_at as usize, 0);
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    #[test]
    fn only_a_file_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, fifo) = (folder.path().join("file"), folder.path().join("fifo"));
        std::fs::write(&file, "text").expect("a file");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a FIFO");
        assert_eq!(read_file(&file).as_deref(), Some(&b"text"[..]));
        assert_eq!(read_file(&fifo), None);
    }

    #[test]
    fn a_counter_is_found_by_its_name() {
        assert_eq!(counter(&file(FUTILE_WAKEUPS, 42), FUTILE_WAKEUPS), Some(42));
        assert_eq!(counter(&file(b"sun.rt.other", 42), FUTILE_WAKEUPS), None);
        assert_eq!(counter(b"", FUTILE_WAKEUPS), None);
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(mut bytes in proptest::collection::vec(0u8.., 0..200), cut in 0..200usize) {
            let _ = counter(&bytes, FUTILE_WAKEUPS);
            let whole = file(FUTILE_WAKEUPS, 7);
            bytes.splice(..0, whole.get(..cut.min(whole.len())).unwrap_or_default().iter().copied());
            let _ = counter(&bytes, FUTILE_WAKEUPS);
        }
    }
}
