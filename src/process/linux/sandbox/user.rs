//! An own user namespace, in which a process may make mounts without being root. All commands of a
//! process share one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::Sandbox;
use crate::process::birth::Birth;
use crate::process::close_on_exec;
use crate::process::program::Program;
use crate::process::start::start;

/// The namespace, made by the first call; `None` if the system refuses it.
pub(super) fn namespace() -> Option<&'static OwnedFd> {
    static MADE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    MADE.get_or_init(|| make().ok()).as_ref()
}

/// Lets a shell enter a new namespace, and takes that from it. This process cannot enter one for a
/// moment, as it has threads; nor can a child without an exec, as its files in `/proc` belong to root
/// while this process hides its own environment.
fn make() -> io::Result<OwnedFd> {
    let (input, kept) = close_on_exec::pipe()?;
    let (ready, output) = close_on_exec::pipe()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let sandbox = Sandbox { enters_user_namespace: true, ..Sandbox::default() };
    let descriptors = [(input.as_fd(), 0), (output.as_fd(), 1), (null.as_fd(), 2)];
    let pid = start(&Program {
        path: Path::new("/bin/sh"),
        arguments: ["sh", "-c", "echo ready; read -r line"].map(AsRef::as_ref).to_vec(),
        environment: &[],
        directory: Path::new("/"),
        descriptors: &descriptors,
        birth: Birth { sandbox: Some(Arc::new(sandbox)), ..Birth::default() },
    })?;
    drop(output);
    // Until it runs, its files in `/proc` may still belong to root.
    File::from(ready).read_exact(&mut [0])?;
    let namespace = take(pid);
    drop(kept);
    let pid = rustix::process::Pid::from_raw(pid);
    let wait = || rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
    let _ = rustix::io::retry_on_intr(wait);
    namespace
}

/// Gives the namespace of a process this user's id, and opens it.
fn take(pid: i32) -> io::Result<OwnedFd> {
    let directory = format!("/proc/{pid}");
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // A kernel before Linux 3.19 has no such file.
    let _ = fs::write(format!("{directory}/setgroups"), "deny");
    fs::write(format!("{directory}/uid_map"), format!("{user} {user} 1"))?;
    fs::write(format!("{directory}/gid_map"), format!("{group} {group} 1"))?;
    Ok(File::open(format!("{directory}/ns/user"))?.into())
}
