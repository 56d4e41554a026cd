//! Sockets between processes of one user, in a directory that only that user can enter.
//!
//! The address of such a socket has room for 107 bytes. A longer path is used through the open
//! directory (`/proc/self/fd`), which needs `/proc`.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest path that fits into an address (`sun_path`, less one for its end).
#[cfg(target_os = "linux")]
const LONGEST_PATH: usize = 107;
#[cfg(not(target_os = "linux"))]
const LONGEST_PATH: usize = 103;

/// The process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerProcess {
    pub(crate) uid: u32,
    /// `None` where the system does not report it.
    pub(crate) pid: Option<i32>,
}

impl PeerProcess {
    /// Whether it belongs to the user of this process, or to root.
    pub(crate) fn is_trusted(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// A socket that accepts connections. Its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// Listens on the socket `name` in this directory, for this user only. The directory must
    /// belong to this process: a file of that name is replaced.
    ///
    /// # Errors
    /// The directory cannot be opened, or no socket can be made in it.
    pub(crate) fn bind(directory: &Path, name: &str) -> io::Result<LocalListener> {
        let path = directory.join(name);
        let _ = std::fs::remove_file(&path);
        let listener = at_address(directory, name, UnixListener::bind)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(LocalListener { listener, path })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// As `accept(2)`: no descriptor is left, for example.
    pub(crate) fn accept(&self) -> io::Result<(UnixStream, PeerProcess)> {
        let (stream, _) = self.listener.accept()?;
        let peer = peer_process(&stream)?;
        Ok((stream, peer))
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connects to the socket `name` in a directory.
///
/// # Errors
/// No process listens there.
pub(crate) fn connect(directory: &Path, name: &str) -> io::Result<UnixStream> {
    at_address(directory, name, UnixStream::connect)
}

/// Makes a write fail if the other end does not accept it within this time.
///
/// # Errors
/// The connection is gone.
pub(crate) fn limit_writes(stream: &UnixStream, limit: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(limit))
}

fn at_address<T>(
    directory: &Path,
    name: &str,
    action: impl FnOnce(PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    let path = directory.join(name);
    if path.as_os_str().len() <= LONGEST_PATH {
        return action(path);
    }
    let open = File::open(directory)?;
    let through = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
    action(Path::new(&through).join(name))
}

#[cfg(target_os = "linux")]
fn peer_process(stream: &UnixStream) -> io::Result<PeerProcess> {
    let credentials = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(PeerProcess { uid: credentials.uid.as_raw(), pid: Some(credentials.pid.as_raw_pid()) })
}

#[cfg(not(target_os = "linux"))]
fn peer_process(stream: &UnixStream) -> io::Result<PeerProcess> {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: both pointers are valid for the call, which writes only to them.
    let answered = unsafe { libc::getpeereid(stream.as_raw_fd(), &mut uid, &mut gid) };
    match answered {
        0 => Ok(PeerProcess { uid, pid: None }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_path_too_long_for_an_address_works_and_its_file_is_removed_with_the_listener() {
        let scratch = tempfile::tempdir().expect("a directory");
        let long = scratch.path().join("d".repeat(120));
        for directory in [scratch.path(), long.as_path()] {
            std::fs::create_dir_all(directory).expect("a directory");
            let listener = LocalListener::bind(directory, "s").expect("a socket");
            let mode = std::fs::metadata(directory.join("s")).expect("the file").permissions();
            assert_eq!(mode.mode() & 0o777, 0o600);
            let mut near = connect(directory, "s").expect("a connection");
            let (mut far, peer) = listener.accept().expect("a connection");
            assert!(peer.is_trusted());
            if cfg!(target_os = "linux") {
                assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
            }
            near.write_all(b"x").expect("room");
            let mut byte = [0];
            far.read_exact(&mut byte).expect("the byte");
            drop(listener);
            assert!(!directory.join("s").exists());
            assert!(connect(directory, "s").is_err());
        }
    }

    #[test]
    fn a_stale_file_is_replaced_and_strangers_are_not_trusted() {
        let scratch = tempfile::tempdir().expect("a directory");
        std::fs::write(scratch.path().join("s"), "left").expect("a file");
        LocalListener::bind(scratch.path(), "s").expect("a socket");
        let own = rustix::process::geteuid().as_raw();
        let stranger = PeerProcess { uid: own.wrapping_add(1).max(1), pid: None };
        assert!(!stranger.is_trusted());
        assert!(PeerProcess { uid: 0, ..stranger }.is_trusted());
    }
}
