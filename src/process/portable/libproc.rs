//! What the libproc of macOS reports about processes.
//!
//! Limits: has been type-checked for macOS and never run there.

#![cfg(target_os = "macos")]

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};
use std::time::Duration;

use libc::{c_int, pid_t};

use crate::process::groups;
use crate::process::probe::{Identity, ProcessInfo};
use crate::progress::counters::{Bytes, Counters, Member};

/// `SZOMB` of `sys/proc.h`.
const ZOMBIE: u32 = 5;
/// A process with more children, or a group with more members, is shown in part.
const MOST: usize = 4096;

/// Looks one process up.
pub fn look_up(pid: i32) -> Option<ProcessInfo> {
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::uninit();
    let size = c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    // SAFETY: the call writes at most `size` bytes into the local variable.
    let written = unsafe {
        libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size)
    };
    if written != size {
        return None;
    }
    // SAFETY: the call has written all of it, and any bytes are valid in plain numbers.
    let info = unsafe { info.assume_init() };
    Some(ProcessInfo {
        id: Identity { pid, started: info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec },
        parent: i32::try_from(info.pbi_ppid).unwrap_or_default(),
        group: i32::try_from(info.pbi_pgid).unwrap_or_default(),
        session: groups::session(pid),
        name: name(&info.pbi_comm),
        zombie: info.pbi_status == ZOMBIE,
        ..ProcessInfo::default()
    })
}

fn name(comm: &[libc::c_char]) -> String {
    let bytes: Vec<u8> =
        comm.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).replace(char::is_control, "?")
}

/// This process, the members of all groups that it has started, and what lives below.
pub(crate) fn started() -> Vec<ProcessInfo> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let members = groups::living().into_iter().flat_map(members_of);
    let mut queue: Vec<i32> = std::iter::once(own).chain(members).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(pid) = queue.pop() {
        if seen.insert(pid)
            && let Some(process) = look_up(pid)
        {
            found.push(process);
            queue.extend(children_of(pid));
        }
    }
    found
}

fn members_of(group: i32) -> Vec<i32> {
    listed(|pids, size| {
        // SAFETY: the call writes at most `size` bytes there.
        unsafe { libc::proc_listpgrppids(group, pids, size) }
    })
}

fn children_of(pid: i32) -> Vec<i32> {
    listed(|pids, size| {
        // SAFETY: the call writes at most `size` bytes there.
        unsafe { libc::proc_listchildpids(pid, pids, size) }
    })
}

/// The pids that a call of libproc writes; it gives their count.
fn listed(call: impl FnOnce(*mut c_void, c_int) -> c_int) -> Vec<i32> {
    let mut pids: Vec<pid_t> = vec![0; MOST];
    let size = c_int::try_from(MOST * size_of::<pid_t>()).unwrap_or_default();
    let count = usize::try_from(call(pids.as_mut_ptr().cast(), size)).unwrap_or_default();
    pids.truncate(count);
    pids
}

/// What a process has read from and written to disks, and its CPU time.
pub(crate) fn usage(process: &ProcessInfo) -> Option<Member> {
    let mut usage = MaybeUninit::<libc::rusage_info_v4>::uninit();
    // SAFETY: the flavour is that of the structure, which the call fills.
    let result = unsafe {
        libc::proc_pid_rusage(process.id.pid, libc::RUSAGE_INFO_V4, usage.as_mut_ptr().cast())
    };
    if result != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, and any bytes are valid in plain numbers.
    let usage = unsafe { usage.assume_init() };
    let bytes = Counters {
        read: usage.ri_diskio_bytesread,
        written: usage.ri_diskio_byteswritten,
        ..Counters::default()
    };
    // The bytes of children that were waited for are not reported.
    Some(Member {
        key: (process.id.pid, process.id.started),
        parent: process.parent,
        io: Some(Bytes { all: bytes, own: bytes }),
        cpu: in_time(usage.ri_user_time.saturating_add(usage.ri_system_time))
            + in_time(usage.ri_child_user_time.saturating_add(usage.ri_child_system_time)),
    })
}

/// These times are counted in the ticks of `mach_absolute_time`, 125/3 ns each on Apple's
/// own processors and 1 ns on others.
fn in_time(ticks: u64) -> Duration {
    if cfg!(target_arch = "aarch64") {
        Duration::from_nanos(ticks.saturating_mul(125) / 3)
    } else {
        Duration::from_nanos(ticks)
    }
}
