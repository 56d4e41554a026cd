//! Sockets between processes of one user, in a directory that only that user can enter.
//!
//! The address of such a socket has room for 107 bytes. A longer path is used through the open
//! directory (`/proc/self/fd`), which needs `/proc`.

use std::fmt;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::probe::Identity;

/// The longest path that fits into an address (`sun_path`, less one for its end).
#[cfg(target_os = "linux")]
const LONGEST_PATH: usize = 107;
#[cfg(not(target_os = "linux"))]
const LONGEST_PATH: usize = 103;

/// The process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerProcess {
    pub(crate) uid: u32,
    /// Its pid when it connected; `None` where the system does not report it.
    pub(crate) pid: Option<i32>,
    /// The process that connected; `None` if it has ended since, or cannot be seen.
    pub(crate) process: Option<Identity>,
}

impl PeerProcess {
    /// Whether it belongs to the user of this process, or to root.
    pub(crate) fn is_trusted(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

impl fmt::Display for PeerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("an unknown process"),
        }
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
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    read_option(stream, libc::SO_PEERCRED, &mut peer)?;
    Ok(PeerProcess { uid: peer.uid, pid: Some(peer.pid), process: living_peer(stream, peer.pid) })
}

/// The process that connected, whose pid this was. The connection may have waited for long, and another
/// process may have that pid by now, which must not be taken for the one that connected.
#[cfg(target_os = "linux")]
fn living_peer(stream: &UnixStream, pid: i32) -> Option<Identity> {
    use std::os::fd::{FromRawFd, OwnedFd};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let look_up = || super::tree::look_up(pid).filter(|process| !process.zombie);
    let mut handle: libc::c_int = -1;
    match read_option(stream, libc::SO_PEERPIDFD, &mut handle) {
        Ok(()) => {
            // SAFETY: the kernel has just made this descriptor for us.
            let handle = unsafe { OwnedFd::from_raw_fd(handle) };
            let process = look_up()?;
            // Its pid was its own as long as it lived.
            let mut ended = [PollFd::new(&handle, PollFlags::IN)];
            let lives = poll(&mut ended, Some(&Timespec::default())).ok()? == 0;
            lives.then_some(process.id)
        }
        // Before Linux 6.5 only the pid is known.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            look_up().map(|process| process.id)
        }
        Err(_) => None,
    }
}

/// Reads an option of a socket.
#[cfg(target_os = "linux")]
fn read_option<T: Copy>(stream: &UnixStream, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default();
    // SAFETY: both pointers are valid for the call, which writes at most the length to the first.
    let answered = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            std::ptr::from_mut(value).cast(),
            &raw mut length,
        )
    };
    match answered {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn peer_process(stream: &UnixStream) -> io::Result<PeerProcess> {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: both pointers are valid for the call, which writes only to them.
    let answered = unsafe { libc::getpeereid(stream.as_raw_fd(), &mut uid, &mut gid) };
    match answered {
        0 => Ok(PeerProcess { uid, pid: None, process: None }),
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
                let own = i32::try_from(std::process::id()).ok();
                assert_eq!((peer.pid, peer.process.map(|process| process.pid)), (own, own));
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
        let stranger = PeerProcess { uid: own.wrapping_add(1).max(1), pid: None, process: None };
        assert!(!stranger.is_trusted());
        assert!(PeerProcess { uid: 0, ..stranger }.is_trusted());
    }
}
