//! Landlock: which files a command reads and writes.
//!
//! The rules allow what is around the denied paths, so they hold as long as the directories that were
//! listed for them do not change. They let each command use the files and temporary directories of all
//! commands; a second layer that is made for each command keeps these apart.
//!
//! Limits: a directory's entries can be listed wherever it is. An entry that is made later beside a
//! denied path is not readable for commands that run already. Nothing is kept apart where a writable tree
//! has the state directory in it: what is made there later must be allowed.

use std::collections::HashMap;
use std::fs::{DirEntry, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};

use super::places::{self, Places};
use super::seen::Version;
use crate::process::needs::Needs;

/// Devices that programs read and write: none of them leads to other files.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// The entry of `/dev` that has files. The queues of `/dev/mqueue` are those of processes outside.
const FILES_IN_DEV: &str = "/dev/shm";

/// The version of the interface from which on signals and abstract sockets can be kept inside.
const ABI_SCOPES: u32 = 6;

/// The version of the kernel's interface; 0 if it has none.
pub(super) fn abi() -> u32 {
    const VERSION: u32 = 1;
    let none = std::ptr::null::<u8>();
    // SAFETY: with this flag the call takes no memory and only returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

fn known(abi: u32) -> ABI {
    match abi {
        0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        7 => ABI::V7,
        8 => ABI::V8,
        _ => ABI::V9,
    }
}

/// What reading is.
fn reads() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::Execute
}

/// What writing is, as far as this version knows it.
fn writes(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi) & !(reads() | AccessFs::ReadDir)
}

/// What a command may do in a writable tree: no device files, which would lead root to other files, and
/// no sockets of others.
fn given(abi: ABI) -> BitFlags<AccessFs> {
    writes(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::ResolveUnix)
}

/// What is allowed to all commands with the same paths.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) rules: Arc<OwnedFd>,
    /// All paths around the directory for the files of commands; `None` if that is not kept apart.
    around: Option<Vec<PathBuf>>,
    /// The directories whose entries it depends on.
    listed: Vec<(PathBuf, Option<Version>)>,
}

impl Layer {
    pub(super) fn is_current(&self) -> bool {
        self.listed.iter().all(|(directory, version)| Version::is_of(*version, directory))
    }

    /// # Errors
    /// No descriptor is left, or the root directory cannot be opened.
    pub(super) fn make(places: &Places, has_mounts: bool, version: u32) -> io::Result<Layer> {
        let abi = known(version);
        let handled = AccessFs::from_all(abi) & !AccessFs::ReadDir;
        let mut ruleset = Ruleset::default();
        if version >= ABI_SCOPES {
            let scopes = Scope::Signal | Scope::AbstractUnixSocket;
            ruleset = ruleset.scope(scopes).map_err(io::Error::other)?;
        }
        let inside: Vec<PathBuf> = places.denied_inside().cloned().collect();
        let (mut denied, mut kept) = (places.denied.clone(), Vec::new());
        if has_mounts {
            // What is mounted over these hides or protects them.
            denied.retain(|path| !inside.contains(path));
        } else {
            kept = [&places.keep[..], &places.system, &inside].concat();
        }
        let mut rules = Rules::new(ruleset, handled)?;
        let mut listed = Vec::new();
        rules.allow_around(Path::new("/"), &denied, reads(), &mut listed)?;
        for tree in &places.write {
            if !kept.iter().any(|kept| tree.starts_with(kept)) {
                rules.allow_around(tree, &kept, given(abi), &mut listed)?;
            }
        }
        rules.allow_devices()?;
        if let Ok(path) = Path::new(FILES_IN_DEV).canonicalize() {
            rules.allow_around(&path, &denied, AccessFs::ReadFile.into(), &mut listed)?;
        }
        if let Some(shared) = &places.shared {
            rules.allow(shared, reads() | given(abi))?;
        }
        // What is denied and does not exist may appear in the directory nearest above.
        for path in &places.denied_as_given {
            let above = path.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
            listed.extend(above.map(|above| (above.clone(), Version::read(&above))));
        }
        listed.sort_by(|a, b| a.0.cmp(&b.0));
        listed.dedup_by(|a, b| a.0 == b.0);
        let is_writable = |path: &PathBuf| places.write.iter().any(|tree| path.starts_with(tree));
        let shared = places.shared.as_ref().filter(|shared| !is_writable(shared));
        let around = shared.map(|shared| around_state(places, shared)).transpose()?;
        Ok(Layer { rules: Arc::new(rules.into_layer()?), around, listed })
    }
}

/// The paths around the state directory, which is denied, with `/dev`.
fn around_state(places: &Places, shared: &Path) -> io::Result<Vec<PathBuf>> {
    let state = places.denied.iter().filter(|denied| shared.starts_with(denied));
    let state: Vec<PathBuf> = state.cloned().collect();
    let mut paths = vec![PathBuf::from("/dev")];
    around(Path::new("/"), &Denied::new(state), &mut paths, &mut Vec::new())?;
    Ok(paths)
}

impl Layer {
    /// A layer that lets a command use no other command's files, if they can be kept apart.
    ///
    /// # Errors
    /// As [`Layer::make`].
    pub(super) fn own(&self, needs: &Needs, version: u32) -> io::Result<Option<OwnedFd>> {
        let Some(around) = &self.around else { return Ok(None) };
        let abi = known(version);
        let mut rules = Rules::new(Ruleset::default(), reads() | writes(abi))?;
        // The other layer says what of it is allowed.
        for path in around {
            rules.allow(path, reads() | writes(abi))?;
        }
        if let Some(path) = &needs.temporary {
            rules.allow(&path.canonicalize()?, reads() | given(abi))?;
        }
        for file in &needs.files {
            rules.allow(&file.canonicalize()?, reads() | AccessFs::WriteFile)?;
        }
        rules.into_layer().map(Some)
    }
}

/// A layer that is being made.
struct Rules {
    layer: RulesetCreated,
    /// What it is about; everything else it allows.
    handled: BitFlags<AccessFs>,
}

/// Denied paths, and the directories above them, by their devices and inodes: a rule for one of these
/// holds under all of its names.
struct Denied {
    paths: Vec<PathBuf>,
    known: Rc<HashMap<(u64, u64), PathBuf>>,
}

impl Denied {
    fn new(paths: Vec<PathBuf>) -> Denied {
        let all = paths.iter().flat_map(|path| path.ancestors());
        let known = all.filter(|path| *path != Path::new("/")).filter_map(|path| {
            let data = std::fs::symlink_metadata(path).ok()?;
            Some(((data.dev(), data.ino()), path.to_path_buf()))
        });
        Denied { known: Rc::new(known.collect()), paths }
    }

    /// What an entry is another name of.
    fn other_name(&self, entry: &DirEntry) -> Option<&Path> {
        let data = entry.metadata().ok()?;
        let known = self.known.get(&(data.dev(), data.ino()))?;
        Some(known.as_path()).filter(|known| *known != entry.path())
    }

    /// The denied paths in a directory, by another name of it.
    fn by_name(&self, directory: &Path, name: &Path) -> Vec<PathBuf> {
        let inside = self.paths.iter().filter_map(|path| path.strip_prefix(directory).ok());
        inside.map(|rest| name.join(rest)).collect()
    }
}

/// Collects the paths of which everything in this tree is allowed, apart from `/dev`.
fn around(
    tree: &Path,
    denied: &Denied,
    paths: &mut Vec<PathBuf>,
    listed: &mut Vec<(PathBuf, Option<Version>)>,
) -> io::Result<()> {
    let is_root = tree == Path::new("/");
    if denied.paths.iter().any(|path| path == tree) {
        return Ok(());
    }
    if !is_root && !denied.paths.iter().any(|path| path.starts_with(tree)) {
        paths.push(tree.to_path_buf());
        return Ok(());
    }
    // Read before the entries, so that a change meanwhile is noticed.
    listed.push((tree.to_path_buf(), Version::read(tree)));
    let Ok(entries) = std::fs::read_dir(tree) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let is_dev = is_root && entry.file_name() == "dev";
        if is_link || is_dev {
            continue;
        }
        match denied.other_name(&entry) {
            Some(other) => {
                let paths_here = denied.by_name(other, &path);
                let here = Denied { paths: paths_here, known: Rc::clone(&denied.known) };
                around(&path, &here, paths, listed)?;
            }
            None => around(&path, denied, paths, listed)?,
        }
    }
    Ok(())
}

/// Whether no descriptor is left.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl Rules {
    fn new(ruleset: Ruleset, handled: BitFlags<AccessFs>) -> io::Result<Rules> {
        let ruleset = ruleset.handle_access(handled).map_err(io::Error::other)?;
        Ok(Rules { layer: ruleset.create().map_err(io::Error::other)?, handled })
    }

    /// Allows these actions in all of this tree apart from what is denied: on the tree itself, or on
    /// each entry beside a denied path. `listed` collects the directories whose entries count.
    fn allow_around(
        &mut self,
        tree: &Path,
        denied: &[PathBuf],
        access: BitFlags<AccessFs>,
        listed: &mut Vec<(PathBuf, Option<Version>)>,
    ) -> io::Result<()> {
        let mut paths = Vec::new();
        around(tree, &Denied::new(denied.to_vec()), &mut paths, listed)?;
        paths.iter().try_for_each(|path| self.allow(path, access))
    }

    fn allow_devices(&mut self) -> io::Result<()> {
        let access =
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        let devices = DEVICES.iter().filter_map(|path| Path::new(path).canonicalize().ok());
        devices.into_iter().try_for_each(|path| self.allow(&path, access))
    }

    /// Allows these actions, as far as the layer is about them, on a path and below it. What cannot be
    /// opened remains denied.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        let file = match places::open(path) {
            Ok(file) => File::from(file),
            Err(error) if is_exhausted(&error) => return Err(error),
            Err(_) => return Ok(()),
        };
        let access = access & self.handled;
        let is_file = !file.metadata()?.is_dir();
        let access = if is_file { access & AccessFs::from_file(ABI::V9) } else { access };
        if !access.is_empty() {
            (&mut self.layer).add_rule(PathBeneath::new(file, access)).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn into_layer(self) -> io::Result<OwnedFd> {
        Option::from(self.layer).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}
