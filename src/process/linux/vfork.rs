//! A child that borrows this process's memory until its exec or its end, as under `vfork(2)`.
//!
//! A fork copies the page tables, which then cost a fault for every page that any thread writes to;
//! such a child throws the copy away at once.

use std::io;
use std::ptr;

use libc::{c_int, c_void};

use crate::process::signals;

/// The child's stack; what it calls needs a few hundred bytes.
const STACK_BYTES: usize = 64 * 1024;

/// What the child runs; returning ends it.
pub(super) type Function = extern "C" fn(*mut c_void) -> c_int;

/// Runs a function in a child, with every signal blocked; returns its pid once the child has begun
/// another program or has ended. `flags` are those of `clone(2)` besides the ones that borrow the
/// memory.
///
/// # Errors
/// The system refuses a process.
///
/// # Safety
/// The function makes only system calls, and `argument` is valid for it.
pub(super) unsafe fn run(
    flags: c_int,
    function: Function,
    argument: *mut c_void,
) -> io::Result<i32> {
    // A stack begins at a multiple of 16 and grows downwards.
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = flags | libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the kernel suspends this thread until the child has left this memory, so that the stack
    // and the argument outlive their use. No signal handler can run in the child, since every signal
    // is blocked until it has replaced them.
    unsafe {
        let (mut every, mut before) = (signals::set_of([]), signals::set_of([]));
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_BLOCK, &every, &mut before);
        let pid = libc::clone(function, top.cast(), flags, argument);
        let refused = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        if pid < 0 { Err(refused) } else { Ok(pid) }
    }
}

/// Waits for the end of a child that has begun no other program.
pub(super) fn reap(pid: i32) {
    let ended = rustix::process::Pid::from_raw(pid);
    let wait = || rustix::process::waitpid(ended, rustix::process::WaitOptions::empty());
    let _ = rustix::io::retry_on_intr(wait);
}
