//! Starting a program by fork and exec, which every Unix has.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::process::close_on_exec;
use crate::process::program::Program;
use crate::process::signals;

/// Starts a program as the leader of a new session; its pid.
///
/// # Errors
/// As `fork(2)`, `chdir(2)` and `execve(2)`: nothing runs then. A path, argument or
/// variable with a NUL in it is invalid input.
pub(crate) fn start(program: &Program) -> io::Result<i32> {
    let mut command = Command::new(program.path);
    if let Some((name, arguments)) = program.arguments.split_first() {
        command.arg0(name).args(arguments);
    }
    command.env_clear().envs(program.environment.iter().cloned()).current_dir(program.directory);
    let descriptors: Vec<(RawFd, RawFd)> =
        program.descriptors.iter().map(|(ours, theirs)| (ours.as_raw_fd(), *theirs)).collect();
    let birth = program.birth.clone();
    // SAFETY: only system calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            birth.carry_out()?;
            signals::reset_all();
            close_on_exec::mark_in_child();
            for (ours, theirs) in &descriptors {
                // The copy is open across the exec.
                if libc::dup2(*ours, *theirs) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    i32::try_from(child.id()).map_err(io::Error::other)
}
