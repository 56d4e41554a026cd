//! An own user namespace, in which a process may make mounts without being root. All commands of a
//! process share one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use super::check;

/// The namespace, made by the first call; `None` if the system refuses it.
pub(super) fn namespace() -> Option<&'static OwnedFd> {
    static MADE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    // On a thread of its own: the children of the main thread count as adopted, and another thread reaps
    // them, while the standard library waits for this one.
    let made = || thread::scope(|scope| scope.spawn(make).join().ok()?.ok());
    MADE.get_or_init(made).as_ref()
}

/// Lets a shell enter a new namespace, and takes that from it. This process cannot enter one for a
/// moment, as it has threads; nor can a child without an exec, as its files in `/proc` belong to root
/// while this process hides its own environment.
fn make() -> io::Result<OwnedFd> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo ready; read -r line"]).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: changes what the child shares; it has one thread.
    let enter = || check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into()).map(|_| ());
    // SAFETY: only makes a system call.
    let mut child = unsafe { command.pre_exec(enter) }.spawn()?;
    // Until it runs, its files in `/proc` may still belong to root.
    let ready = child.stdout.take().map_or(Ok(()), |mut output| output.read_exact(&mut [0]));
    let namespace = ready.and_then(|()| take(child.id()));
    // Closes its input, so that it ends.
    let _ = child.wait();
    namespace
}

/// Gives the namespace of a process this user's id, and opens it.
fn take(pid: u32) -> io::Result<OwnedFd> {
    let directory = format!("/proc/{pid}");
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // A kernel before Linux 3.19 has no such file.
    let _ = fs::write(format!("{directory}/setgroups"), "deny");
    fs::write(format!("{directory}/uid_map"), format!("{user} {user} 1"))?;
    fs::write(format!("{directory}/gid_map"), format!("{group} {group} 1"))?;
    Ok(File::open(format!("{directory}/ns/user"))?.into())
}
