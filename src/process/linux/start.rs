//! Starting a program without copying this process.
//!
//! The child borrows the memory until its exec, as it does under `posix_spawn(3)`, which could not
//! give it a birthmark. It starts each program with the signal actions and the empty mask that
//! programs expect, in a session of its own.
//!
//! Limits: no terminal is set up here (see `pty`), and PATH is not searched.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

use libc::{c_char, c_int, c_void};

use crate::process::birth::Birth;
use crate::process::program::Program;
use crate::process::signals;
use crate::process::vfork;

/// Starts a program as the leader of a new session; its pid.
///
/// # Errors
/// As `clone(2)`, `chdir(2)` and `execve(2)`: nothing runs then. A path, argument or variable that
/// contains NUL is invalid input.
pub(crate) fn start(program: &Program) -> io::Result<i32> {
    let path = c_string(program.path.as_os_str())?;
    let directory = c_string(program.directory.as_os_str())?;
    let arguments = program.arguments.iter().map(|argument| c_string(argument));
    let arguments = arguments.collect::<io::Result<Vec<_>>>()?;
    let environment = program.environment.iter().map(assignment);
    let environment = environment.collect::<io::Result<Vec<_>>>()?;
    let (arguments, environment) = (pointers(&arguments), pointers(&environment));
    let descriptors: Vec<(RawFd, RawFd)> =
        program.descriptors.iter().map(|(ours, theirs)| (ours.as_raw_fd(), *theirs)).collect();
    Child {
        path: path.as_ptr(),
        directory: directory.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        descriptors: &descriptors,
        birth: &program.birth,
        error: 0,
    }
    .start()
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn assignment((name, value): &(OsString, OsString)) -> io::Result<CString> {
    let mut text = name.clone();
    text.push("=");
    text.push(value);
    Ok(CString::new(text.into_vec())?)
}

/// The strings' pointers and a final null pointer, as exec takes them.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// What the child needs before its exec, prepared by its parent: it shares the parent's memory and
/// may not allocate.
struct Child<'a> {
    path: *const c_char,
    directory: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    descriptors: &'a [(RawFd, RawFd)],
    birth: &'a Birth,
    /// The error that prevented the exec, set by the child.
    error: c_int,
}

impl Child<'_> {
    /// Returns once the child has begun its program; its pid.
    fn start(mut self) -> io::Result<i32> {
        let child = &raw mut self;
        // SAFETY: the child only makes system calls, and all that `child` points to outlives it.
        let (pid, error) = unsafe {
            (vfork::run(0, run, child.cast())?, (&raw const (*child).error).read_volatile())
        };
        if error == 0 {
            return Ok(pid);
        }
        vfork::reap(pid);
        Err(io::Error::from_raw_os_error(error))
    }

    /// Runs the program; returns the error if that fails. Makes only system calls.
    fn exec(&self) -> io::Error {
        if let Err(error) = self.birth.carry_out() {
            return error;
        }
        // SAFETY: all texts end with NUL and both lists with a null pointer; the parent, which is
        // suspended, keeps them.
        unsafe {
            let has_failed = libc::setsid() < 0
                || self.descriptors.iter().any(|(ours, theirs)| libc::dup2(*ours, *theirs) < 0)
                || libc::chdir(self.directory) < 0;
            if !has_failed {
                signals::reset_all();
                libc::execve(self.path, self.arguments, self.environment);
            }
        }
        io::Error::last_os_error()
    }
}

/// The child's function; returning ends it.
extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: it is the parent's, which does not touch it until the child has left.
    let child = unsafe { &mut *child.cast::<Child>() };
    child.error = child.exec().raw_os_error().unwrap_or(libc::EINVAL);
    127
}
