//! Own mount and network namespaces: everything is read-only apart from what the policy lets be
//! written, protected parts of that are read-only too, and denied parts and the sockets of others are
//! covered.
//!
//! Root makes them directly; other users make them in a user namespace of their own, which maps only
//! the user's own id: all other files appear to belong to `nobody`.
//!
//! Making the mounts and giving them up takes as long as the start of a shell, so commands share them.
//!
//! Limits: what is mounted outside while a command runs appears in its namespace too, where Landlock
//! alone protects it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use libc::{c_int, c_void};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use super::places::{self, Places, outermost};
use super::seen::Seen;
use super::{check, user};
use crate::process::needs::Needs;
use crate::process::vfork;
use crate::sandbox::limits::Namespaces;
use crate::sandbox::policy::Network;

/// The most writable trees: the child has room for as many descriptors.
const MAX_TREES: usize = 64;

/// Sockets of services that would act for a command outside of its sandbox.
const SOCKETS: [&str; 18] = [
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/docker/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/buildkit/buildkitd.sock",
    "/run/cri-dockerd.sock",
    "/var/lib/incus/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/io.systemd.Manager",
    "/run/systemd/machine/io.systemd.Machine",
    "/run/snapd.socket",
    "/run/libvirt/libvirt-sock",
    "/tmp/.X11-unix/X0",
    "/tmp/.X11-unix/X1",
];

/// … below the user's home directory.
const SOCKETS_AT_HOME: [&str; 9] = [
    ".docker/desktop/docker.sock",
    ".docker/run/docker.sock",
    ".colima/docker.sock",
    ".colima/default/docker.sock",
    ".orbstack/run/docker.sock",
    ".rd/docker.sock",
    ".1password/agent.sock",
    ".git-credential-cache/socket",
    ".cache/git/credential/socket",
];

/// Directories in `/tmp` that are only for sockets, whatever a command has put there.
const ONLY_FOR_SOCKETS: [&str; 4] = [".X11-unix", ".ICE-unix", "emacs", "tmux-"];

/// The beginnings of other names in `/tmp` of sockets, or of directories that have some.
const IN_TMP: [&str; 8] =
    ["dbus-", "keyring-", "nvim.", "ssh-", "tmate-", "vscode-", "zed-", "zellij-"];

/// How deep sockets are looked for in such directories, and how many entries.
const LEVELS: usize = 3;
const MOST_ENTRIES: usize = 500;

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
const NAME_SERVICES: [&str; 4] = [
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/nscd/socket",
    "/run/avahi-daemon/socket",
    "/var/lib/sss/pipes/nss",
];

/// How the mounts are made, with all paths as the kernel takes them.
#[derive(Debug)]
pub(super) struct MountPlan {
    flags: c_int,
    /// The user namespace to enter first.
    user: Option<&'static OwnedFd>,
    /// Whether everything is writable, apart from what is protected.
    writes_all: bool,
    /// Writable trees.
    write: Vec<CString>,
    /// Directories that must not be renamed, since something below them is protected.
    pinned: Vec<CString>,
    read_only: Vec<CString>,
    /// Directories that are replaced by an empty one, which is read-only.
    emptied: Vec<CString>,
    /// The same, where commands could write and may make their own.
    renewed: Vec<CString>,
    /// A directory that is replaced by one with nothing but one other directory in it.
    reduced: Option<Reduced>,
    /// The directory of devices; only files there work as devices.
    devices: Option<CString>,
    /// Files that are replaced by the null device.
    covered: Vec<CString>,
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
        let plan = MountPlan::new(&Places::default(), &Services::default(), kind);
        let plan = plan.map(|plan| MountPlan { flags: plan.flags | libc::CLONE_NEWNET, ..plan });
        plan.and_then(|plan| plan.make(Services::default())).is_ok()
    };
    match root {
        true if works(Namespaces::Direct) => Namespaces::Direct,
        _ if works(Namespaces::WithUser) => Namespaces::WithUser,
        _ => Namespaces::Unavailable,
    }
}

/// A namespace with its mounts, which lasts as long as this or a process in it does.
#[derive(Debug)]
pub(super) struct Mounts {
    user: Option<&'static OwnedFd>,
    namespace: OwnedFd,
    /// Goes with it, so that queues and shared memory of outside processes are out of reach.
    messages: OwnedFd,
    /// Its root directory, as this process sees it: it may be in a `chroot`.
    root: OwnedFd,
    /// Its table of mounts, which changes when a file below a mount is removed outside, and that of
    /// this process.
    tables: [OwnedFd; 2],
    has_changed: Mutex<bool>,
    /// What they cover.
    services: Services,
}

impl Mounts {
    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    /// Whether nothing was mounted or unmounted since.
    pub(super) fn are_current(&self) -> bool {
        let mut has_changed = self.has_changed.lock();
        let [own, outer] = &self.tables;
        // A change is reported once.
        let mut tables = [PollFd::new(own, PollFlags::PRI), PollFd::new(outer, PollFlags::PRI)];
        let polled = poll(&mut tables, Some(&rustix::event::Timespec::default()));
        let is_told = |table: &PollFd| table.revents().contains(PollFlags::PRI);
        *has_changed |= polled.is_err() || tables.iter().any(is_told);
        !*has_changed
    }
}

/// The way of one command into the mounts.
#[derive(Debug)]
pub(super) struct Entrance {
    mounts: Arc<Mounts>,
    /// The namespaces that it has for itself.
    own: c_int,
    /// Its own temporary directory.
    temporary: Option<CString>,
    directory: CString,
}

impl Entrance {
    /// # Errors
    /// A path contains NUL.
    pub(super) fn new(
        mounts: Arc<Mounts>,
        network: Network,
        needs: &Needs,
    ) -> io::Result<Entrance> {
        let c_path = |path: &PathBuf| CString::new(path.as_os_str().as_bytes());
        let temporary = needs.temporary.as_ref().filter(|_| needs.shared.is_some());
        let temporary = temporary.map(c_path).transpose()?;
        let mut own = if temporary.is_some() { libc::CLONE_NEWNS } else { 0 };
        if network == Network::Loopback {
            own |= libc::CLONE_NEWNET;
        }
        Ok(Entrance { mounts, own, temporary, directory: c_path(&needs.directory)? })
    }

    /// Enters the namespaces. Runs in the child: makes only system calls.
    ///
    /// # Errors
    /// The system refuses it.
    pub(super) fn carry_out(&self) -> io::Result<()> {
        let Mounts { user, namespace, messages, root, .. } = &*self.mounts;
        if let Some(user) = user {
            enter(user, libc::CLONE_NEWUSER)?;
        }
        enter(namespace, libc::CLONE_NEWNS)?;
        enter(messages, libc::CLONE_NEWIPC)?;
        // SAFETY: the path ends with NUL, and the descriptor is open.
        unsafe {
            check(libc::fchdir(root.as_raw_fd()).into())?;
            check(libc::chroot(c".".as_ptr()).into())?;
        }
        unshare(self.own)?;
        if let Some(temporary) = &self.temporary {
            mount(Some(temporary), temporary, libc::MS_BIND)?;
            set_attributes(temporary, 0, 0, READ_ONLY)?;
        }
        // From the root, so that nothing outside of the mounts remains in use.
        // SAFETY: the paths end with NUL.
        unsafe {
            check(libc::chdir(c"/".as_ptr()).into())?;
            check(libc::chdir(self.directory.as_ptr()).into()).map(|_| ())
        }
    }
}

/// What a child makes for this process.
struct Making<'a> {
    plan: &'a MountPlan,
    /// The namespaces, the root directory and the table of mounts.
    opened: [c_int; 4],
    error: c_int,
}

impl Making<'_> {
    /// Makes only system calls.
    fn carry_out(&mut self) -> io::Result<()> {
        self.plan.carry_out()?;
        let directory = libc::O_PATH | libc::O_DIRECTORY;
        let files = [
            (c"/proc/self/ns/mnt", libc::O_RDONLY),
            (c"/proc/self/ns/ipc", libc::O_RDONLY),
            (c"/", directory),
            (c"/proc/self/mountinfo", libc::O_RDONLY),
        ];
        for (opened, (path, flags)) in self.opened.iter_mut().zip(files) {
            // SAFETY: the path ends with NUL.
            let file = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
            *opened = check(file.into())? as c_int;
        }
        Ok(())
    }
}

/// The function of that child.
extern "C" fn make(making: *mut c_void) -> c_int {
    // SAFETY: it is the parent's, which does not touch it until the child has ended.
    let making = unsafe { &mut *making.cast::<Making>() };
    if let Err(error) = making.carry_out() {
        making.error = error.raw_os_error().unwrap_or(libc::EINVAL);
    }
    0
}

impl MountPlan {
    /// # Errors
    /// A path contains NUL, there are too many writable trees, or there is no user namespace.
    pub(super) fn new(
        places: &Places,
        services: &Services,
        kind: Namespaces,
    ) -> io::Result<MountPlan> {
        if places.write.len() > MAX_TREES {
            let text = format!(
                "there are more than {MAX_TREES} writable paths: list directories above them"
            );
            return Err(io::Error::other(text));
        }
        let (mut emptied, mut covered) = (Vec::new(), services.sockets.clone());
        let is_writable = |path: &Path| places.write.iter().any(|tree| path.starts_with(tree));
        let remains = places.shared.as_deref();
        let is_reduced = |path: &&PathBuf| remains.is_some_and(|remains| remains.starts_with(path));
        for path in places.denied.iter().filter(|path| !is_reduced(path)) {
            // Landlock does not stop the use of sockets in a directory.
            if path.is_dir() && !places.leads_to_writable(path) {
                emptied.push(path.clone());
            } else if is_writable(path) {
                covered.push(path.clone());
            }
        }
        let is_denied =
            |path: &PathBuf| places.denied.iter().any(|denied| path.starts_with(denied));
        let (renewed, others): (Vec<PathBuf>, Vec<PathBuf>) = services
            .directories
            .iter()
            .filter(|path| !is_denied(path))
            .cloned()
            .partition(|path| is_writable(path));
        emptied.extend(others);
        covered.retain(|path| !emptied.iter().any(|emptied| path.starts_with(emptied)));
        let reduced = places.denied.iter().find(is_reduced).zip(remains);
        let mut read_only = [&places.keep[..], &places.protect].concat();
        // They lead to the whole system, as the usual ones do, which are read-only.
        read_only.extend_from_slice(&places.system);
        outermost(&mut read_only);
        let hidden: Vec<&PathBuf> =
            emptied.iter().chain(&renewed).chain(reduced.map(|(directory, _)| directory)).collect();
        let is_hidden = |path: &PathBuf| hidden.iter().any(|hidden| path.starts_with(hidden));
        read_only.retain(|path| !is_hidden(path));
        let mut pinned: Vec<PathBuf> = Vec::new();
        for path in read_only.iter().chain(&covered).chain(hidden.iter().copied()) {
            let inside = |above: &&Path| {
                places.write.iter().any(|tree| above.starts_with(tree) && above != tree)
            };
            pinned.extend(path.ancestors().skip(1).take_while(inside).map(Path::to_path_buf));
        }
        pinned.sort();
        pinned.dedup();
        let writes_all = places.write.iter().any(|tree| tree == Path::new("/"));
        let user = match kind {
            Namespaces::WithUser => Some(user::namespace().ok_or(io::ErrorKind::Unsupported)?),
            _ => None,
        };
        Ok(MountPlan {
            flags: libc::CLONE_NEWNS | libc::CLONE_NEWIPC,
            user,
            writes_all,
            write: c_paths(places.write.iter().filter(|_| !writes_all))?,
            pinned: c_paths(&pinned)?,
            read_only: c_paths(&read_only)?,
            emptied: c_paths(&emptied)?,
            renewed: c_paths(&renewed)?,
            covered: c_paths(&covered)?,
            devices: Path::new("/dev").is_dir().then(|| c"/dev".into()),
            reduced: reduced
                .map(|(directory, remains)| Reduced::new(directory, remains))
                .transpose()?,
        })
    }

    /// Makes the mounts.
    ///
    /// # Errors
    /// The system refuses one of them, or descriptors have run out.
    pub(super) fn make(&self, services: Services) -> io::Result<Mounts> {
        // Opened before, so that no change is missed.
        let outer = File::open("/proc/self/mountinfo")?.into();
        let mut making = Making { plan: self, opened: [-1; 4], error: 0 };
        let child = &raw mut making;
        // The child opens files for this process, which could not open those of another user's.
        // SAFETY: it only makes system calls, and all that `child` points to outlives it.
        let pid = unsafe { vfork::run(libc::CLONE_FILES, make, child.cast()) }?;
        vfork::reap(pid);
        // SAFETY: written by the child, which has ended.
        let Making { opened, error, .. } = unsafe { child.read_volatile() };
        // SAFETY: each that is not negative was opened for this.
        let own = |number| (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) });
        match opened.map(own) {
            [Some(namespace), Some(messages), Some(root), Some(table)] => Ok(Mounts {
                user: self.user,
                namespace,
                messages,
                root,
                tables: [table, outer],
                has_changed: Mutex::new(false),
                services,
            }),
            _ => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Makes the namespaces and mounts. Runs in the child: makes only system calls.
    ///
    /// # Errors
    /// The system refuses one of them.
    fn carry_out(&self) -> io::Result<()> {
        if let Some(user) = self.user {
            enter(user, libc::CLONE_NEWUSER)?;
        }
        unshare(self.flags)?;
        // What is unmounted outside must not be held here.
        mount(None, c"/", libc::MS_REC | libc::MS_SLAVE)?;
        let mut trees = [const { None }; MAX_TREES];
        for (tree, path) in trees.iter_mut().zip(&self.write) {
            *tree = Some(clone_tree(path)?);
        }
        let remains = self.reduced.as_ref().and_then(|reduced| reduced.way.last());
        let remains = remains.map(|path| clone_tree(path)).transpose()?;
        let devices = self.devices.as_deref();
        let kept = devices.map(clone_tree).transpose()?;
        let attributes = if self.writes_all { NO_DEVICES } else { NO_DEVICES | READ_ONLY };
        set_attributes(c"/", libc::AT_RECURSIVE, attributes, 0)?;
        if let (Some(path), Some(tree)) = (devices, kept) {
            attach(tree, path)?;
            if !self.writes_all {
                set_read_only(path, libc::AT_RECURSIVE)?;
            }
        }
        for (tree, path) in trees.into_iter().flatten().zip(&self.write) {
            attach(tree, path)?;
            if Some(path.as_c_str()) != devices {
                set_attributes(path, libc::AT_RECURSIVE, NO_DEVICES, 0)?;
            }
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
        for path in &self.renewed {
            empty(path)?;
        }
        if let (Some(reduced), Some(remains)) = (&self.reduced, remains) {
            reduced.carry_out(remains)?;
        }
        for path in &self.covered {
            mount(Some(c"/dev/null"), path, libc::MS_BIND)?;
            // Without devices it cannot be opened. Otherwise the file would look empty and lose writes.
            set_attributes(path, 0, NO_DEVICES, 0)?;
        }
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

    fn carry_out(&self, remains: OwnedFd) -> io::Result<()> {
        empty(&self.directory)?;
        for path in &self.way {
            // SAFETY: the path ends with NUL.
            check(unsafe { libc::mkdir(path.as_ptr(), 0o700) }.into())?;
        }
        if let Some(path) = self.way.last() {
            attach(remains, path)?;
            set_attributes(path, 0, READ_ONLY | NO_DEVICES, 0)?;
        }
        set_read_only(&self.directory, 0)
    }
}

fn c_paths<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<Vec<CString>> {
    paths.into_iter().map(|path| Ok(CString::new(path.as_os_str().as_bytes())?)).collect()
}

/// What programs outside listen on.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Directories that have nothing else, so that what is made there later is out of reach as well.
    pub(super) directories: Vec<PathBuf>,
    /// Sockets elsewhere.
    pub(super) sockets: Vec<PathBuf>,
}

impl Services {
    /// Those that exist. `named` are the values of the variables that may name some.
    pub(super) fn find(
        network: Network,
        named: &[String],
        places: &Places,
        seen: &mut Seen,
    ) -> Services {
        let user = rustix::process::geteuid();
        let own = PathBuf::from(format!("/run/user/{}", user.as_raw()));
        let given = |name| std::env::var_os(name).map(PathBuf::from);
        // Root may use those of all users.
        let all = user.is_root().then(|| PathBuf::from("/run/user"));
        let mut directories: Vec<PathBuf> =
            all.into_iter().chain(["/run/screen", "/tmp/screens"].map(PathBuf::from)).collect();
        directories.push(own.clone());
        let name = format!("tmux-{}", user.as_raw());
        // Where they are missing, that is noted.
        let usual = ["/tmp/.X11-unix", "/tmp/.ICE-unix"].map(PathBuf::from);
        directories.extend(usual);
        directories.push(Path::new("/tmp").join(name));
        directories.push(PathBuf::from(format!("/tmp/emacs{}", user.as_raw())));
        let (emptied, in_tmp) = sockets_in_tmp();
        directories.extend(emptied);
        directories.extend(given("XDG_RUNTIME_DIR"));
        directories.extend(given("SCREENDIR"));
        let home = given("HOME");
        directories.extend(home.iter().map(|home| home.join(".screen")));
        directories.retain(|path| path.is_absolute());
        let closed = NAME_SERVICES.iter().filter(|_| network != Network::On);
        let all = SOCKETS.iter().chain(closed).map(PathBuf::from);
        let all = all.chain(OWN_SOCKETS.iter().map(|name| own.join(name))).chain(in_tmp);
        let at_home = home.iter().flat_map(|home| SOCKETS_AT_HOME.map(|name| home.join(name)));
        let all = all.chain(at_home);
        let named: Vec<PathBuf> = named.iter().flat_map(|value| named_sockets(value)).collect();
        let mut sockets: Vec<PathBuf> = all.filter_map(|path| seen.resolve(&path)).collect();
        // One that is missing is noted, since its service may start later.
        let named: Vec<PathBuf> = named.iter().filter_map(|path| seen.resolve(path)).collect();
        for path in named {
            if is_socket(&path) {
                sockets.push(path);
            } else if path.is_dir() && has_only_sockets(&path, LEVELS) {
                directories.push(path);
            } else {
                add_sockets(&path, LEVELS, &mut sockets);
            }
        }
        let mut directories: Vec<PathBuf> =
            directories.iter().filter_map(|path| seen.resolve(path)).collect();
        for directory in sockets.iter().filter_map(|path| path.parent()) {
            if has_only_sockets(directory, 1) {
                directories.extend(seen.resolve(directory));
            }
        }
        directories.retain(|path| path.is_dir() && !places.leads_to_writable(path));
        outermost(&mut directories);
        for path in &sockets {
            seen.resolve(path);
        }
        sockets.retain(|path| !directories.iter().any(|directory| path.starts_with(directory)));
        sockets.sort();
        sockets.dedup();
        Services { directories, sockets }
    }
}

fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.file_type().is_socket())
}

/// Directories in `/tmp` in which are only sockets, and the sockets in others.
fn sockets_in_tmp() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut directories, mut sockets) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let begins = |beginning: &&str| name.as_encoded_bytes().starts_with(beginning.as_bytes());
        let is_one = IN_TMP.iter().any(&begins);
        let is_sure = ONLY_FOR_SOCKETS.iter().any(begins);
        if is_sure && path.is_dir() || is_one && has_only_sockets(&path, LEVELS) {
            directories.push(path);
        } else if is_one || is_sure {
            add_sockets(&path, LEVELS, &mut sockets);
        }
    }
    (directories, sockets)
}

/// Adds a socket, or those below a directory.
fn add_sockets(path: &Path, levels: usize, sockets: &mut Vec<PathBuf>) {
    if is_socket(path) {
        sockets.push(path.to_path_buf());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.filter(|_| levels > 0).take(MOST_ENTRIES) {
        if entry.file_type().is_ok_and(|kind| kind.is_socket() || kind.is_dir()) {
            add_sockets(&entry.path(), levels - 1, sockets);
        }
    }
}

/// Whether there is nothing but sockets in a directory, and in those in it, so many levels deep.
fn has_only_sockets(directory: &Path, levels: usize) -> bool {
    let Ok(mut entries) = std::fs::read_dir(directory) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let path = entry.path();
            is_socket(&path) || levels > 1 && path.is_dir() && has_only_sockets(&path, levels - 1)
        })
    })
}

/// What may be the path in an address such as `unix:guid=1,path=/run/bus;unix:path=/run/other`,
/// `unix:///run/docker.sock`, `/tmp/tmux-0/default,4711,0` or `/run/S.gpg-agent:4711:1`.
fn named_sockets(value: &str) -> Vec<PathBuf> {
    let current = std::env::current_dir().unwrap_or_default();
    let mut found = Vec::new();
    for address in value.split(';') {
        let address = address.strip_prefix("unix:").unwrap_or(address);
        let keyed = address.split(',').find_map(|part| part.strip_prefix("path="));
        let first = address.split(',').next().unwrap_or_default();
        let before = first.split(':').next().unwrap_or_default();
        let texts = [keyed.map(decoded), Some(first.to_owned()), Some(before.to_owned())];
        let texts = texts.into_iter().flatten().filter(|text| !text.is_empty());
        // By its components, a path has no slash at its end.
        found.extend(texts.map(|text| current.join(text).components().collect::<PathBuf>()));
    }
    found.dedup();
    found
}

/// Decodes a text in which some bytes are written as `%64`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.split_first_chunk::<2>().filter(|_| *first == b'%');
        let escaped = escape.and_then(|(code, after)| {
            let code = std::str::from_utf8(code).ok()?;
            Some((u8::from_str_radix(code, 16).ok()?, after))
        });
        let (byte, after) = escaped.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Enters a namespace of this kind.
fn enter(namespace: &OwnedFd, kind: c_int) -> io::Result<()> {
    // SAFETY: changes what this process shares; it has one thread.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }.into()).map(|_| ())
}

/// Gives this process namespaces of its own, if any.
fn unshare(flags: c_int) -> io::Result<()> {
    if flags != 0 {
        // SAFETY: as above.
        check(unsafe { libc::unshare(flags) }.into())?;
    }
    if flags & libc::CLONE_NEWNET != 0 {
        raise_loopback()?;
    }
    Ok(())
}

/// Switches on the loopback interface of an own network namespace.
fn raise_loopback() -> io::Result<()> {
    // SAFETY: a request of zeros is valid; the kernel reads and writes only the local variable, and
    // the descriptor is closed again.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = check(libc::socket(libc::AF_INET, kind, 0).into())? as c_int;
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

/// Copies a tree's mounts as they are now. The path has no links; one that was put there a moment ago is
/// not followed.
fn clone_tree(path: &CStr) -> io::Result<OwnedFd> {
    const OPEN_TREE_CLONE: c_int = 1;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE | libc::AT_EMPTY_PATH;
    let directory = places::open(path)?;
    // SAFETY: the path ends with NUL, and the descriptor is open.
    let tree = check(unsafe {
        let (at, itself) = (directory.as_raw_fd(), c"".as_ptr());
        libc::syscall(libc::SYS_open_tree, at, itself, flags)
    })?;
    // SAFETY: the call has just opened it.
    Ok(unsafe { OwnedFd::from_raw_fd(tree as c_int) })
}

fn attach(tree: OwnedFd, path: &CStr) -> io::Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: c_int = 4;
    let (from, at) = (c"".as_ptr(), libc::AT_FDCWD);
    let flags = MOVE_MOUNT_F_EMPTY_PATH;
    // SAFETY: both paths end with NUL.
    check(unsafe {
        let call = libc::SYS_move_mount;
        libc::syscall(call, tree.as_raw_fd(), from, at, path.as_ptr(), flags)
    })
    .map(|_| ())
}

/// `MOUNT_ATTR_RDONLY`.
const READ_ONLY: u64 = 1;
/// `MOUNT_ATTR_NODEV`.
const NO_DEVICES: u64 = 4;

/// Makes a mount read-only; with `AT_RECURSIVE`, those below it too.
fn set_read_only(path: &CStr, flags: c_int) -> io::Result<()> {
    set_attributes(path, flags, READ_ONLY, 0)
}

fn set_attributes(path: &CStr, flags: c_int, attr_set: u64, attr_clr: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set, attr_clr, propagation: 0, userns_fd: 0 };
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
    let (kind, data) = (c"tmpfs".as_ptr(), c"size=16k,mode=700".as_ptr());
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
            ("/tmp/tmux-0/default,4711,0", "/tmp/tmux-0/default"),
            ("unix:path=/run/user/0/bus,guid=1", "/run/user/0/bus"),
            ("unix:guid=1,path=/run/user/0/bus", "/run/user/0/bus"),
            ("unix:abstract=/tmp/dbus;unix:path=/run/%62us", "/run/bus"),
            ("unix:///run/docker.sock", "/run/docker.sock"),
            ("unix:/tmp/kitty", "/tmp/kitty"),
            ("/tmp/agent/", "/tmp/agent"),
            ("/run/S.gpg-agent:4711:1", "/run/S.gpg-agent"),
        ] {
            assert!(named_sockets(address).contains(&path.into()), "{address}");
        }
        let current = std::env::current_dir().expect("a directory");
        assert!(named_sockets("agent").contains(&current.join("agent")));
        assert!(named_sockets("").is_empty());
    }
}
