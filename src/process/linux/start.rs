//! Starting a program without copying this process.
//!
//! A fork copies the page tables, which then cost a fault for every page that any thread
//! writes to; the child throws the copy away at once. `posix_spawn(3)` lends the child
//! the memory until its exec instead. It starts each program with the signal actions and
//! the empty mask that programs expect, in a session of its own.
//!
//! Limits: no terminal is set up here (see `pty`), and PATH is not searched.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use libc::{c_char, c_int};

use crate::process::program::Program;

/// Starts a program as the leader of a new session; its pid.
///
/// # Errors
/// As `posix_spawn(3)`, including errors of the exec. A path, argument or variable that contains
/// NUL is invalid input.
pub(crate) fn start(program: &Program) -> io::Result<i32> {
    let path = c_string(program.path.as_os_str())?;
    let directory = c_string(program.directory.as_os_str())?;
    let arguments = program.arguments.iter().map(|argument| c_string(argument));
    let arguments = arguments.collect::<io::Result<Vec<_>>>()?;
    let environment = program.environment.iter().map(assignment);
    let environment = environment.collect::<io::Result<Vec<_>>>()?;

    let mut actions = MaybeUninit::uninit();
    let mut actions = Actions::new(&mut actions)?;
    for (ours, theirs) in program.descriptors {
        actions.copy_descriptor(ours.as_raw_fd(), *theirs)?;
    }
    actions.change_directory(&directory)?;
    let mut attributes = MaybeUninit::uninit();
    let mut attributes = Attributes::new(&mut attributes)?;
    attributes.set_defaults()?;

    let mut pid = 0;
    // SAFETY: all texts end with NUL and both lists with a null pointer; they, the
    // actions and the attributes outlive the call, which changes none of them.
    check(unsafe {
        libc::posix_spawn(
            &mut pid,
            path.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            pointers(&arguments).as_ptr(),
            pointers(&environment).as_ptr(),
        )
    })?;
    Ok(pid)
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

/// The strings' pointers and a final null pointer, in C's type for lists that the callee does
/// not change.
fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    let ends = std::iter::once(std::ptr::null_mut());
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain(ends).collect()
}

/// These functions return the error number instead of setting `errno`.
fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The child's actions before its exec, in order.
struct Actions<'a>(&'a mut MaybeUninit<libc::posix_spawn_file_actions_t>);

impl<'a> Actions<'a> {
    fn new(place: &'a mut MaybeUninit<libc::posix_spawn_file_actions_t>) -> io::Result<Self> {
        // SAFETY: initialises the place, which is not moved afterwards.
        check(unsafe { libc::posix_spawn_file_actions_init(place.as_mut_ptr()) })?;
        Ok(Actions(place))
    }

    fn copy_descriptor(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: the actions are initialised. The copy is open across the exec.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(self.0.as_mut_ptr(), from, to) })
    }

    fn change_directory(&mut self, directory: &CString) -> io::Result<()> {
        // SAFETY: the actions are initialised; the text is copied.
        check(unsafe {
            libc::posix_spawn_file_actions_addchdir_np(self.0.as_mut_ptr(), directory.as_ptr())
        })
    }
}

impl Drop for Actions<'_> {
    fn drop(&mut self) {
        // SAFETY: the actions are initialised and not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

/// What the child does not inherit.
struct Attributes<'a>(&'a mut MaybeUninit<libc::posix_spawnattr_t>);

impl<'a> Attributes<'a> {
    fn new(place: &'a mut MaybeUninit<libc::posix_spawnattr_t>) -> io::Result<Self> {
        // SAFETY: initialises the place, which is not moved afterwards.
        check(unsafe { libc::posix_spawnattr_init(place.as_mut_ptr()) })?;
        Ok(Attributes(place))
    }

    /// A new session, the default action for every signal, and none blocked: signals that the
    /// client ignores or blocks would change what programs do.
    fn set_defaults(&mut self) -> io::Result<()> {
        let flags = c_int::from(libc::POSIX_SPAWN_SETSID)
            | c_int::from(libc::POSIX_SPAWN_SETSIGDEF)
            | c_int::from(libc::POSIX_SPAWN_SETSIGMASK);
        let flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
        let attributes = self.0.as_mut_ptr();
        let mut every = MaybeUninit::uninit();
        let mut none = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised, and both sets before they are read.
        unsafe {
            libc::sigfillset(every.as_mut_ptr());
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::posix_spawnattr_setflags(attributes, flags))?;
            check(libc::posix_spawnattr_setsigdefault(attributes, every.as_ptr()))?;
            check(libc::posix_spawnattr_setsigmask(attributes, none.as_ptr()))
        }
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: the attributes are initialised and not used again.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}
