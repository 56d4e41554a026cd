//! Starting this program as a process that is no descendant of its starter: the parent in between
//! ends at once, and the system hands the process to `init`, or to the subreaper nearest above.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::tree::COOKIE_VARIABLE;
use super::{birthmark, close_on_exec, signals};

/// Starts this program with these arguments in a session of its own; it inherits only this stdin
/// and stdout, and belongs to no task, even if a task or a carrier is above its starter. Returns once
/// the program has started.
///
/// # Errors
/// It cannot be started; nothing runs then.
pub(in crate::process) fn start_apart(
    arguments: &[&str],
    stdin: OwnedFd,
    stdout: Stdio,
) -> io::Result<()> {
    let mut command = Command::new(own_program()?);
    command.arg0("zsh-tool").args(arguments).env_remove(COOKIE_VARIABLE);
    command.stdin(stdin).stdout(stdout).stderr(Stdio::null());
    // SAFETY: only system calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                0 => {}
                _ => libc::_exit(0),
            }
            rustix::process::setsid()?;
            signals::reset_all();
            birthmark::remove();
            close_on_exec::restore_descriptor_limit();
            Ok(())
        });
    }
    // The pipe by which an error of the exec is reported ends with the exec of the grandchild.
    command.spawn()?.wait()?;
    Ok(())
}

/// The program that runs now, even if its file has been replaced.
#[cfg(target_os = "linux")]
fn own_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

#[cfg(not(target_os = "linux"))]
fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}
