//! Own mount and network namespaces: everything is read-only apart from what the policy lets be
//! written, protected parts of that are read-only too, and denied parts and the sockets of others are
//! covered.
//!
//! Root makes them directly; other users make them in a user namespace of their own, which maps only
//! the user's own id: all other files appear to belong to `nobody`.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use super::{Places, check, real, user};
use crate::process::close_on_exec;
use crate::sandbox::limits::Namespaces;
use crate::sandbox::policy::Network;

/// The most writable trees: the child has room for as many descriptors.
const MAX_TREES: usize = 64;

/// Sockets of services that would act for a command outside of its sandbox.
const SOCKETS: [&str; 10] = [
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/snapd.socket",
    "/run/libvirt/libvirt-sock",
    "/tmp/.X11-unix/X0",
    "/tmp/.X11-unix/X1",
];

/// … in the user's own directory of sockets.
const OWN_SOCKETS: [&str; 10] = [
    "bus",
    "systemd/private",
    "docker.sock",
    "podman/podman.sock",
    "gnupg/S.gpg-agent",
    "gnupg/S.gpg-agent.ssh",
    "keyring/ssh",
    "keyring/control",
    "wayland-0",
    "wayland-1",
];

/// … that look up names for a command that has no network.
const NAME_SERVICES: [&str; 3] =
    ["/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket", "/run/avahi-daemon/socket"];

/// Variables that name the sockets of programs that a person uses, which would act for a command too.
const NAMED: [&str; 11] = [
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "I3SOCK",
    "KITTY_LISTEN_ON",
    "NVIM",
    "SSH_AUTH_SOCK",
    "SWAYSOCK",
    "TMUX",
    "VSCODE_GIT_IPC_HANDLE",
    "VSCODE_IPC_HOOK_CLI",
];

/// What the child does, with all paths as the kernel takes them.
#[derive(Debug)]
pub(super) struct MountPlan {
    flags: libc::c_int,
    /// The user namespace to enter first.
    user: Option<&'static OwnedFd>,
    /// Whether everything is writable, apart from what is protected.
    writes_all: bool,
    /// Writable trees.
    write: Vec<CString>,
    /// The command's own temporary directory, which may be in what remains of a directory.
    temporary: Vec<CString>,
    /// Directories that must not be renamed, since something below them is protected.
    pinned: Vec<CString>,
    read_only: Vec<CString>,
    /// Directories that are replaced by an empty one.
    emptied: Vec<CString>,
    /// A directory that is replaced by one with nothing but one other directory in it.
    reduced: Option<Reduced>,
    /// Files that are replaced by the null device.
    covered: Vec<CString>,
    directory: CString,
}

/// What remains of a directory.
#[derive(Debug)]
struct Reduced {
    directory: CString,
    /// The directories on the way to what remains, the outermost first, and that itself.
    way: Vec<CString>,
}

/// How own namespaces can be made, found out by trying.
pub(super) fn namespaces() -> Namespaces {
    let root = rustix::process::geteuid().is_root();
    let works = |kind| {
        let places = Places { directory: "/".into(), ..Places::default() };
        MountPlan::new(&places, Network::Loopback, kind).is_ok_and(|plan| plan.works())
    };
    match root {
        true if works(Namespaces::Direct) => Namespaces::Direct,
        _ if works(Namespaces::WithUser) => Namespaces::WithUser,
        _ => Namespaces::Unavailable,
    }
}

impl MountPlan {
    /// # Errors
    /// A path contains NUL, there are too many writable trees, or there is no user namespace.
    pub(super) fn new(
        places: &Places,
        network: Network,
        kind: Namespaces,
    ) -> io::Result<MountPlan> {
        if places.write.len() > MAX_TREES {
            let text = format!(
                "there are more than {MAX_TREES} writable paths: list directories above them"
            );
            return Err(io::Error::other(text));
        }
        let (mut emptied, mut covered) = (Vec::new(), sockets(network));
        let remains = places.shared.as_deref();
        let is_reduced = |path: &&PathBuf| remains.is_some_and(|remains| remains.starts_with(path));
        for path in places.denied_inside().filter(|path| !is_reduced(path)) {
            let covers = if path.is_dir() { &mut emptied } else { &mut covered };
            covers.push(path.clone());
        }
        let reduced = places.denied.iter().find(is_reduced).zip(remains);
        let mut read_only = [&places.keep[..], &places.protect].concat();
        super::outermost(&mut read_only);
        let hidden: Vec<&PathBuf> =
            emptied.iter().chain(reduced.map(|(directory, _)| directory)).collect();
        let is_hidden = |path: &PathBuf| hidden.iter().any(|hidden| path.starts_with(hidden));
        read_only.retain(|path| !is_hidden(path));
        let mut pinned: Vec<PathBuf> = Vec::new();
        for path in read_only.iter().chain(hidden.iter().copied()) {
            let inside = |above: &&Path| {
                places.write.iter().any(|tree| above.starts_with(tree) && above != tree)
            };
            pinned.extend(path.ancestors().skip(1).take_while(inside).map(Path::to_path_buf));
        }
        pinned.sort();
        pinned.dedup();
        let writes_all = places.write.iter().any(|tree| tree == Path::new("/"));
        let mut flags = libc::CLONE_NEWNS;
        if network == Network::Loopback {
            flags |= libc::CLONE_NEWNET;
        }
        let user = match kind {
            Namespaces::WithUser => Some(user::namespace().ok_or(io::ErrorKind::Unsupported)?),
            _ => None,
        };
        Ok(MountPlan {
            flags,
            user,
            writes_all,
            write: c_paths(places.write.iter().filter(|_| !writes_all))?,
            temporary: c_paths(&places.temporary)?,
            pinned: c_paths(&pinned)?,
            read_only: c_paths(&read_only)?,
            emptied: c_paths(&emptied)?,
            covered: c_paths(&covered)?,
            reduced: reduced
                .map(|(directory, remains)| Reduced::new(directory, remains))
                .transpose()?,
            directory: CString::new(places.directory.as_os_str().as_bytes())?,
        })
    }

    /// Whether a process can carry it out.
    fn works(&self) -> bool {
        // Through a pipe, since another thread may reap the child.
        let Ok((answer, from_child)) = close_on_exec::pipe() else { return false };
        // SAFETY: the child only makes system calls and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            if self.carry_out().is_ok() {
                // SAFETY: writes a constant to a descriptor of this process.
                unsafe { libc::write(from_child.as_raw_fd(), c"+".as_ptr().cast(), 1) };
            }
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        drop(from_child);
        let has_worked = File::from(answer).read(&mut [0]).is_ok_and(|bytes| bytes == 1);
        if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0) {
            let wait =
                || rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            let _ = rustix::io::retry_on_intr(wait);
        }
        has_worked
    }

    /// Makes the namespaces and mounts. Runs in the child: makes only system calls.
    ///
    /// # Errors
    /// The system refuses one of them.
    pub(super) fn carry_out(&self) -> io::Result<()> {
        if let Some(user) = self.user {
            // SAFETY: changes what this process shares; it has one thread.
            check(unsafe { libc::setns(user.as_raw_fd(), libc::CLONE_NEWUSER) }.into())?;
        }
        // SAFETY: as above.
        check(unsafe { libc::unshare(self.flags) }.into())?;
        if self.flags & libc::CLONE_NEWNET != 0 {
            raise_loopback()?;
        }
        mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE)?;
        let mut trees = [-1; MAX_TREES];
        for (tree, path) in trees.iter_mut().zip(&self.write) {
            *tree = clone_tree(path)?;
        }
        let temporary = self.temporary.first();
        let own = temporary.map(|path| clone_tree(path)).transpose()?;
        let remains = self.reduced.as_ref().and_then(|reduced| reduced.way.last());
        let remains = remains.map(|path| clone_tree(path)).transpose()?;
        if !self.writes_all {
            set_read_only(c"/", libc::AT_RECURSIVE)?;
        }
        for (tree, path) in trees.into_iter().zip(&self.write) {
            attach(tree, path)?;
        }
        for path in &self.pinned {
            mount(Some(path), path, libc::MS_BIND | libc::MS_REC)?;
        }
        for path in &self.read_only {
            mount(Some(path), path, libc::MS_BIND | libc::MS_REC)?;
            set_read_only(path, libc::AT_RECURSIVE)?;
        }
        for path in &self.emptied {
            empty(path)?;
            set_read_only(path, 0)?;
        }
        if let (Some(reduced), Some(remains)) = (&self.reduced, remains) {
            reduced.carry_out(remains)?;
        }
        if let (Some(path), Some(own)) = (temporary, own) {
            attach(own, path)?;
        }
        for path in &self.covered {
            mount(Some(c"/dev/null"), path, libc::MS_BIND)?;
        }
        // The directory may be in a tree that was mounted meanwhile. Where it cannot be entered, the
        // start reports it.
        // SAFETY: the path ends with NUL.
        unsafe { libc::chdir(self.directory.as_ptr()) };
        Ok(())
    }
}

impl Reduced {
    fn new(directory: &Path, remains: &Path) -> io::Result<Reduced> {
        let inside = |above: &&Path| *above != directory;
        let mut way: Vec<PathBuf> =
            remains.ancestors().take_while(inside).map(Path::to_path_buf).collect();
        way.reverse();
        Ok(Reduced {
            directory: CString::new(directory.as_os_str().as_bytes())?,
            way: c_paths(&way)?,
        })
    }

    fn carry_out(&self, remains: libc::c_int) -> io::Result<()> {
        empty(&self.directory)?;
        for path in &self.way {
            // SAFETY: the path ends with NUL.
            check(unsafe { libc::mkdir(path.as_ptr(), 0o700) }.into())?;
        }
        if let Some(path) = self.way.last() {
            attach(remains, path)?;
            set_read_only(path, 0)?;
        }
        set_read_only(&self.directory, 0)
    }
}

fn c_paths<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<Vec<CString>> {
    paths.into_iter().map(|path| Ok(CString::new(path.as_os_str().as_bytes())?)).collect()
}

/// The sockets of others that exist.
fn sockets(network: Network) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let own = PathBuf::from(format!("/run/user/{user}"));
    let named = NAMED.iter().filter_map(|name| named_socket(&std::env::var(name).ok()?));
    let tmux = PathBuf::from(format!("/tmp/tmux-{user}/default"));
    let own = own.exists().then_some(own);
    let own = own.iter().flat_map(|own| OWN_SOCKETS.map(|name| own.join(name)));
    let closed = NAME_SERVICES.iter().filter(|_| network != Network::On);
    let all = SOCKETS.iter().chain(closed).map(PathBuf::from).chain(own).chain(named).chain([tmux]);
    let mut found: Vec<PathBuf> = all.filter_map(|path| real::path(&path)).collect();
    found.sort();
    found.dedup();
    found
}

/// The path in an address such as `unix:path=/run/bus,guid=1`, `unix:///run/docker.sock` or
/// `/tmp/tmux-0/default,4711,0`.
fn named_socket(address: &str) -> Option<PathBuf> {
    let path = address.strip_prefix("unix:").unwrap_or(address);
    let path = path.strip_prefix("path=").or(path.strip_prefix("//")).unwrap_or(path);
    let path = PathBuf::from(path.split(',').next()?);
    path.is_absolute().then_some(path)
}

/// Switches on the loopback interface of an own network namespace.
fn raise_loopback() -> io::Result<()> {
    // SAFETY: a request of zeros is valid; the kernel reads and writes only the local variable, and
    // the descriptor is closed again.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = check(libc::socket(libc::AF_INET, kind, 0).into())? as libc::c_int;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let raised = libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request);
        let raised = check(raised.into());
        libc::close(socket);
        raised.map(|_| ())
    }
}

fn mount(source: Option<&CStr>, target: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let source = source.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the paths end with NUL, and no data are passed.
    let mounted = unsafe { libc::mount(source, target.as_ptr(), ptr::null(), flags, ptr::null()) };
    check(mounted.into()).map(|_| ())
}

/// A copy of the mounts of a tree, as they are now.
fn clone_tree(path: &CStr) -> io::Result<libc::c_int> {
    const OPEN_TREE_CLONE: libc::c_int = 1;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE;
    // SAFETY: the path ends with NUL.
    let tree =
        check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    Ok(tree as libc::c_int)
}

fn attach(tree: libc::c_int, path: &CStr) -> io::Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: libc::c_int = 4;
    let (from, at) = (c"".as_ptr(), libc::AT_FDCWD);
    let flags = MOVE_MOUNT_F_EMPTY_PATH;
    // SAFETY: both paths end with NUL; the descriptor is this function's to close.
    unsafe {
        let call = libc::SYS_move_mount;
        check(libc::syscall(call, tree, from, at, path.as_ptr(), flags))?;
        libc::close(tree);
    }
    Ok(())
}

/// Makes a mount read-only; with `AT_RECURSIVE`, those below it too.
fn set_read_only(path: &CStr, flags: libc::c_int) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let attributes =
        libc::mount_attr { attr_set: MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let (at, size) = (libc::AT_FDCWD, size_of::<libc::mount_attr>());
    // SAFETY: the path ends with NUL, and the kernel reads `size` bytes of the local variable.
    check(unsafe {
        let call = libc::SYS_mount_setattr;
        libc::syscall(call, at, path.as_ptr(), flags, &raw const attributes, size)
    })
    .map(|_| ())
}

/// Replaces a directory by an empty one.
fn empty(path: &CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (kind, data) = (c"tmpfs".as_ptr(), c"size=16k,mode=755".as_ptr());
    // SAFETY: all texts end with NUL.
    let mounted = unsafe { libc::mount(kind, path.as_ptr(), kind, flags, data.cast()) };
    check(mounted.into()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_socket_is_found_in_its_address() {
        for (address, path) in [
            ("/tmp/tmux-0/default,4711,0", Some("/tmp/tmux-0/default")),
            ("unix:path=/run/user/0/bus,guid=1", Some("/run/user/0/bus")),
            ("unix:///run/docker.sock", Some("/run/docker.sock")),
            ("unix:/tmp/kitty", Some("/tmp/kitty")),
            ("tcp://127.0.0.1:2375", None),
            ("unix:abstract=/tmp/dbus", None),
            ("", None),
        ] {
            assert_eq!(named_socket(address), path.map(PathBuf::from), "{address}");
        }
    }
}
