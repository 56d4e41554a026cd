//! What macOS reports about processes: libproc, and one sysctl.
//!
//! For other users' processes, it shows names, states, parents and numbers, but not their usage,
//! arguments and descriptors. Limits: this has been type-checked for macOS and never run there. The layouts are those of XNU's `bsd/sys/proc_info.h`,
//! `bsd/sys/proc_info_private.h` and `bsd/sys/resource.h`, and are asserted below.

#![cfg(target_os = "macos")]

use std::ffi::{CStr, OsString, c_void};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use libc::{c_int, pid_t};

use super::darwin;
use crate::process::groups;
use crate::process::probe::{Environment, Identity, ProcessInfo, StallReason};
use crate::progress::condition::StopSignal;
use crate::progress::cost::CpuTime;
use crate::progress::counters::{Bytes, Counters, Member};

/// The most processes that are listed.
const MOST: usize = 1 << 16;
/// `PROC_PIDUNIQIDENTIFIERINFO` of `proc_info_private.h`.
const UNIQUE_IDENTIFIERS: c_int = 17;
/// `PROC_PIDFDPIPEINFO` of `proc_info.h`.
const PIPE: c_int = 6;
/// `PROC_PIDPATHINFO_MAXSIZE` of `proc_info.h`.
const PATH_BYTES: usize = 4096;
/// The argument that makes the flavours used here include ended processes.
const WITH_ZOMBIES: u64 = 1;
/// `PIPE_WANTR` of `bsd/sys/pipe.h`: a reader waits.
const READER_WAITS: c_int = 0x008;

/// `proc_uniqidentifierinfo` of `proc_info_private.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueIdentifiers {
    program: [u8; 16],
    own: u64,
    /// That of the process that started it, even after that has ended.
    origin: u64,
    version: i32,
    origin_version: i32,
    reserved: [u64; 2],
}

/// `pipe_fdinfo` of `proc_info.h`, with its `proc_fileinfo` and `pipe_info`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PipeDescriptor {
    open_flags: u32,
    status: u32,
    offset: i64,
    kind: i32,
    guard_flags: u32,
    stat: libc::vinfo_stat,
    /// Of this end.
    handle: u64,
    peer: u64,
    state: c_int,
    reserved: c_int,
}

/// `mach_timebase_info` of `osfmk/mach/mach_time.h`, which libc has as deprecated only.
#[repr(C)]
struct Timebase {
    numer: u32,
    denom: u32,
}

unsafe extern "C" {
    fn mach_timebase_info(info: *mut Timebase) -> c_int;
}

const _: () = {
    assert!(libc::PROC_PIDT_SHORTBSDINFO == 13 && libc::PROC_PIDTASKINFO == 4);
    assert!(libc::SSTOP == 4 && libc::SZOMB == 5);
    assert!(size_of::<libc::proc_bsdshortinfo>() == 64);
    assert!(offset_of!(libc::proc_bsdshortinfo, pbsi_ppid) == 4);
    assert!(offset_of!(libc::proc_bsdshortinfo, pbsi_pgid) == 8);
    assert!(offset_of!(libc::proc_bsdshortinfo, pbsi_status) == 12);
    assert!(offset_of!(libc::proc_bsdshortinfo, pbsi_comm) == 16);
    assert!(offset_of!(libc::proc_bsdshortinfo, pbsi_uid) == 36);
    assert!(size_of::<UniqueIdentifiers>() == 56);
    assert!(offset_of!(UniqueIdentifiers, own) == 16);
    assert!(offset_of!(UniqueIdentifiers, origin) == 24);
    assert!(size_of::<libc::proc_taskinfo>() == 96);
    assert!(offset_of!(libc::proc_taskinfo, pti_resident_size) == 8);
    assert!(offset_of!(libc::proc_taskinfo, pti_total_user) == 16);
    assert!(offset_of!(libc::proc_taskinfo, pti_csw) == 80);
    assert!(offset_of!(libc::proc_taskinfo, pti_threadnum) == 84);
    assert!(offset_of!(libc::proc_taskinfo, pti_numrunning) == 88);
    assert!(size_of::<libc::vinfo_stat>() == 136);
    assert!(size_of::<PipeDescriptor>() == 184);
    assert!(offset_of!(PipeDescriptor, stat) == 24);
    assert!(offset_of!(PipeDescriptor, handle) == 160);
    assert!(offset_of!(PipeDescriptor, state) == 176);
    assert!(libc::RUSAGE_INFO_V4 == 4 && size_of::<libc::rusage_info_v4>() == 296);
    assert!(offset_of!(libc::rusage_info_v4, ri_user_time) == 16);
    assert!(offset_of!(libc::rusage_info_v4, ri_child_user_time) == 96);
    assert!(offset_of!(libc::rusage_info_v4, ri_diskio_bytesread) == 144);
    assert!(offset_of!(libc::rusage_info_v4, ri_logical_writes) == 232);
    assert!(size_of::<Timebase>() == 8);
    assert!(size_of::<libc::proc_fdinfo>() == 8 && libc::PROC_PIDLISTFDS == 1);
};

/// Asks for one kind of information about a process.
fn info<T: Copy>(pid: i32, flavour: c_int, argument: u64) -> Option<T> {
    filled(|place, size| {
        // SAFETY: the call writes at most `size` bytes there.
        unsafe { libc::proc_pidinfo(pid, flavour, argument, place, size) }
    })
}

/// What a call has written, if it is complete. Only for structures of plain numbers.
fn filled<T: Copy>(call: impl FnOnce(*mut c_void, c_int) -> c_int) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let size = c_int::try_from(size_of::<T>()).ok()?;
    let written = call(value.as_mut_ptr().cast(), size);
    // SAFETY: any bytes are valid in plain numbers.
    (written == size).then(|| unsafe { value.assume_init() })
}

/// Looks up one process of any user, even an ended one.
pub fn look_up(pid: i32) -> Option<ProcessInfo> {
    let short: libc::proc_bsdshortinfo = info(pid, libc::PROC_PIDT_SHORTBSDINFO, WITH_ZOMBIES)?;
    let unique: UniqueIdentifiers = info(pid, UNIQUE_IDENTIFIERS, WITH_ZOMBIES)?;
    let task: Option<libc::proc_taskinfo> = info(pid, libc::PROC_PIDTASKINFO, 0);
    let number = |signed: i32| u64::try_from(signed).unwrap_or_default();
    let cpu = |task: libc::proc_taskinfo| {
        in_time(task.pti_total_user.saturating_add(task.pti_total_system)).as_micros()
    };
    Some(ProcessInfo {
        id: Identity { pid, started: started(unique.own) },
        parent: i32::try_from(short.pbsi_ppid).unwrap_or_default(),
        origins: vec![started(unique.origin)],
        group: i32::try_from(short.pbsi_pgid).unwrap_or_default(),
        session: groups::session(pid),
        name: name(&short.pbsi_comm),
        zombie: short.pbsi_status == libc::SZOMB,
        stall_reason: (short.pbsi_status == libc::SSTOP)
            .then_some(StallReason::Stopped(StopSignal::Unknown)),
        threads: task.map_or(0, |task| number(task.pti_threadnum)),
        runnable: task.is_some_and(|task| task.pti_numrunning > 0),
        resident: task.map_or(0, |task| task.pti_resident_size),
        cpu_ticks: task.map_or(0, |task| u64::try_from(cpu(task)).unwrap_or(u64::MAX)),
        ..ProcessInfo::default()
    })
}

/// A process's start, from its number.
fn started(number: u64) -> u64 {
    static BOOT: OnceLock<Vec<u8>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| {
        let mut name = [0_u8; 64];
        let mut size = name.len();
        // SAFETY: the call writes at most `size` bytes into the local variable.
        let result = unsafe {
            libc::sysctlbyname(
                c"kern.bootsessionuuid".as_ptr(),
                name.as_mut_ptr().cast(),
                &mut size,
                std::ptr::null_mut(),
                0,
            )
        };
        match result {
            0 => CStr::from_bytes_until_nul(&name).map(|it| it.to_bytes().to_vec()),
            _ => Ok(Vec::new()),
        }
        .unwrap_or_default()
    });
    darwin::start(boot, number)
}

fn name(comm: &[libc::c_char]) -> String {
    let bytes: Vec<u8> =
        comm.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).replace(char::is_control, "?")
}

/// All processes of the machine, and whether none may be missing.
pub(crate) fn all() -> (Vec<ProcessInfo>, bool) {
    let pids = listed(|pids, size| {
        // SAFETY: the call writes at most `size` bytes there.
        unsafe { libc::proc_listallpids(pids, size) }
    });
    let whole = !pids.is_empty() && pids.len() < MOST;
    (pids.into_iter().filter_map(look_up).collect(), whole)
}

/// The children of a process.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
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

/// The effective user of a process.
pub(crate) fn user_of(pid: i32) -> Option<u32> {
    let short: libc::proc_bsdshortinfo = info(pid, libc::PROC_PIDT_SHORTBSDINFO, WITH_ZOMBIES)?;
    Some(short.pbsi_uid)
}

/// The file that a process runs.
pub(crate) fn program_of(pid: i32) -> Option<PathBuf> {
    let mut path = vec![0_u8; PATH_BYTES];
    let size = u32::try_from(path.len()).ok()?;
    // SAFETY: the call writes at most `size` bytes there.
    let length = unsafe { libc::proc_pidpath(pid, path.as_mut_ptr().cast(), size) };
    path.truncate(usize::try_from(length).ok().filter(|length| *length > 0)?);
    Some(OsString::from_vec(path).into())
}

/// How often the threads of a process have been switched to; `None` for other users' processes.
pub(crate) fn switches(pid: i32) -> Option<u64> {
    let task: libc::proc_taskinfo = info(pid, libc::PROC_PIDTASKINFO, 0)?;
    Some(u64::from(task.pti_csw.cast_unsigned()))
}

/// The memory that counts for a process alone, in bytes.
pub(crate) fn footprint(pid: i32) -> Option<u64> {
    Some(resources(pid)?.ri_phys_footprint)
}

fn resources(pid: i32) -> Option<libc::rusage_info_v4> {
    filled(|place, size| {
        // SAFETY: the flavour is that of the structure, which the call fills.
        let result = unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V4, place.cast()) };
        if result == 0 { size } else { 0 }
    })
}

/// What a process has read from disks and written to files, and its CPU time.
pub(crate) fn usage(process: &ProcessInfo) -> Option<Member> {
    let usage = resources(process.id.pid)?;
    let bytes = Counters {
        read: usage.ri_diskio_bytesread,
        written: usage.ri_diskio_byteswritten,
        changed: usage.ri_logical_writes,
        ..Counters::default()
    };
    // The bytes of children that were waited for are not reported.
    Some(Member {
        key: (process.id.pid, process.id.started),
        parent: process.parent,
        io: Some(Bytes { all: bytes, own: bytes }),
        cpu: CpuTime {
            user: in_time(usage.ri_user_time.saturating_add(usage.ri_child_user_time)),
            system: in_time(usage.ri_system_time.saturating_add(usage.ri_child_system_time)),
        },
    })
}

fn in_time(ticks: u64) -> Duration {
    static BASE: OnceLock<(u32, u32)> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        let mut base = Timebase { numer: 1, denom: 1 };
        // SAFETY: the call writes into the local variable.
        unsafe { mach_timebase_info(&mut base) };
        (base.numer, base.denom)
    });
    darwin::time(ticks, *base)
}

/// The arguments and environment of a process, as `kern.procargs2` gives them.
fn argument_block(pid: i32) -> Option<Vec<u8>> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let mut call = |block: *mut c_void, size: &mut usize| {
        // SAFETY: the name has three numbers, and the call writes at most `size` bytes.
        let result =
            unsafe { libc::sysctl(name.as_mut_ptr(), 3, block, size, std::ptr::null_mut(), 0) };
        (result == 0).then_some(())
    };
    let mut size = 0;
    call(std::ptr::null_mut(), &mut size)?;
    let mut block = vec![0; size];
    call(block.as_mut_ptr().cast(), &mut size)?;
    block.truncate(size);
    Some(block)
}

/// A process's arguments, each ended by NUL; none where they are not shown.
pub(crate) fn arguments(pid: i32) -> Vec<u8> {
    let block = argument_block(pid).unwrap_or_default();
    darwin::arguments_and_environment(&block)
        .map_or_else(Vec::new, |(arguments, _)| arguments.to_vec())
}

/// The environment that a process was started with. It is missing in the middle of exec, and for
/// programs that the system protects: both count as hidden.
pub(crate) fn environment(pid: i32) -> Environment {
    let block = argument_block(pid).unwrap_or_default();
    match darwin::arguments_and_environment(&block) {
        Some((_, environment)) if !environment.is_empty() => {
            Environment::Entries(environment.to_vec())
        }
        _ => Environment::Hidden,
    }
}

fn pipe(pid: i32, fd: RawFd) -> Option<PipeDescriptor> {
    filled(|place, size| {
        // SAFETY: the call writes at most `size` bytes there.
        unsafe { libc::proc_pidfdinfo(pid, fd, PIPE, place, size) }
    })
}

/// The number of the read end of a pipe, of which this process holds an end.
pub(crate) fn read_end(fd: &impl AsRawFd) -> Option<u64> {
    Some(pipe(std::process::id().cast_signed(), fd.as_raw_fd())?.read_end())
}

impl PipeDescriptor {
    /// The number of the pipe's read end, which is this one or the other.
    fn read_end(&self) -> u64 {
        /// `FWRITE` of `bsd/sys/fcntl.h`.
        const WRITES: u32 = 2;
        if self.open_flags & WRITES == 0 { self.handle } else { self.peer }
    }
}

/// Whether a process holds an end of the pipe of this read end; `None` for other users'
/// processes.
pub(crate) fn holds_pipe(pid: i32, read_end: u64) -> Option<bool> {
    /// `PROX_FDTYPE_PIPE` of `proc_info.h`.
    const IS_PIPE: u32 = 6;
    let call = |place: *mut c_void, size: usize| {
        let size = c_int::try_from(size).ok()?;
        // SAFETY: the call writes at most `size` bytes there.
        let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDLISTFDS, 0, place, size) };
        usize::try_from(written).ok().filter(|written| *written > 0)
    };
    // Without a buffer, the call returns how many bytes there may be.
    let bytes = call(std::ptr::null_mut(), 0)?;
    let none = libc::proc_fdinfo { proc_fd: 0, proc_fdtype: 0 };
    let mut descriptors = vec![none; bytes / size_of::<libc::proc_fdinfo>() + 1];
    let size = size_of_val(descriptors.as_slice());
    let written = call(descriptors.as_mut_ptr().cast(), size)?;
    descriptors.truncate(written / size_of::<libc::proc_fdinfo>());
    let mut pipes = descriptors.iter().filter(|descriptor| descriptor.proc_fdtype == IS_PIPE);
    Some(pipes.any(|descriptor| {
        pipe(pid, descriptor.proc_fd).is_some_and(|pipe| pipe.read_end() == read_end)
    }))
}

/// Whether a reader waits at the read end of a pipe that is a process's stdin; `None` if its
/// stdin is something else.
pub(crate) fn is_awaited_at_stdin(pid: i32, read_end: u64) -> Option<bool> {
    let pipe = pipe(pid, 0).filter(|pipe| pipe.handle == read_end)?;
    Some(pipe.state & READER_WAITS != 0)
}
