//! What of a git directory decides which programs git runs outside, beyond its own hooks and
//! configuration: those of its submodules and work trees, and where its hooks are.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::seen::Seen;
use crate::process::files;
use crate::sandbox::git_config::{self, Variable};
use crate::text::foreign::ShowPath;

/// How deep submodules are looked for: their names have slashes, and they have submodules.
const DEPTH: usize = 8;
/// How many paths are added at most: each costs a mount. A command could make as many directories as it
/// likes, so more are refused instead of left out.
const MOST: usize = 500;
/// What git makes in each git directory, in which no submodule is looked for. Limits: nor in one that is
/// named so, as `lib/info`.
const OF_GIT: [&str; 8] =
    ["branches", "hooks", "info", "lfs", "logs", "objects", "refs", "worktrees"];
/// Where the system's configuration is, by how git was built.
const SYSTEM: [&str; 2] = ["/etc/gitconfig", "/usr/local/etc/gitconfig"];
/// Git's own configurations are smaller.
const MAX_BYTES: u64 = 1024 * 1024;

/// Adds the paths of these parts to the list: those of the repository that the directory `.git` of a work
/// tree is, or to which the file of this name leads. Those that git has not made may be missing.
///
/// # Errors
/// There are too many of them.
pub(super) fn add_parts(git: &Path, seen: &mut Seen, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let tree = git.parent().filter(|_| git.ends_with(".git"));
    let global = Configuration::of_user(seen);
    let mut parts = global.files.clone();
    let linked = seen.resolve(git).filter(|git| git.is_file());
    let led = linked.and_then(|file| led(tree.unwrap_or(git), &file, "gitdir: "));
    let git = led.as_deref().unwrap_or(git);
    // That of a linked worktree leads to the repository.
    let shared = led_by(git, "commondir");
    for git in [Some(git), shared.as_deref()].into_iter().flatten() {
        add_repository(git, tree, &global, seen, &mut parts);
        add_modules(&git.join("modules"), DEPTH, &global, seen, &mut parts)?;
    }
    paths.append(&mut parts);
    Ok(())
}

/// Where the first line of a file leads, from a directory.
fn led(directory: &Path, file: &Path, before: &str) -> Option<PathBuf> {
    let line = files::first_line(file)?;
    Some(directory.join(line.strip_prefix(before)?).components().collect())
}

/// Where the file of this name leads from a directory of git.
fn led_by(git: &Path, name: &str) -> Option<PathBuf> {
    led(git, &git.join(name), "")
}

/// Adds what is not in the git directory itself, of which this is known to be a work tree, and what is of
/// its work trees.
fn add_repository(
    git: &Path,
    tree: Option<&Path>,
    global: &Configuration,
    seen: &mut Seen,
    parts: &mut Vec<PathBuf>,
) {
    let mut own = Configuration::of(git, seen);
    let named = own.values("core", "worktree").map(|tree| git.join(tree));
    let mut trees: Vec<PathBuf> = named.chain(tree.map(Path::to_path_buf)).collect();
    if let Some(worktrees) = seen.resolve(&git.join("worktrees")) {
        for worktree in seen.directories(&worktrees) {
            // They lead git to the repository and back: another could be put in its place.
            let names = ["commondir", "config.worktree", "gitdir"];
            parts.extend(names.map(|name| worktree.join(name)));
            own.add(&worktree.join("config.worktree"), seen);
            let link = led_by(&worktree, "gitdir");
            trees.extend(link.as_deref().and_then(Path::parent).map(Path::to_path_buf));
        }
    }
    // The files that lead from work trees to this.
    let links = trees.iter().map(|tree| tree.join(".git"));
    parts.extend(links.filter(|link| link.is_file()));
    parts.extend([global, &own].into_iter().flat_map(|it| it.hooks(&trees)));
    parts.append(&mut own.files);
}

fn add_modules(
    modules: &Path,
    depth: usize,
    global: &Configuration,
    seen: &mut Seen,
    parts: &mut Vec<PathBuf>,
) -> io::Result<()> {
    // Where there are none, that is noted.
    let Some(modules) = seen.resolve(modules).filter(|_| depth > 0) else { return Ok(()) };
    let is_root = modules.ends_with("modules");
    for module in seen.directories(&modules) {
        if !is_root && OF_GIT.iter().any(|name| module.ends_with(name)) {
            continue;
        }
        let is_repository = module.join("HEAD").exists();
        let named = ["hooks", "config", "config.worktree", "commondir"];
        let named = named.map(|name| module.join(name));
        let is_part = |path: &PathBuf| is_repository || path.symlink_metadata().is_ok();
        parts.extend(named.into_iter().filter(is_part));
        add_repository(&module, None, global, seen, parts);
        if parts.len() > MOST {
            let text = format!(
                "{} has more than {MOST} parts that must be protected: remove what is no submodule",
                modules.shown()
            );
            return Err(io::Error::other(text));
        }
        // A name may have slashes, and a submodule may have others.
        add_modules(&module, depth - 1, global, seen, parts)?;
    }
    Ok(())
}

/// What configurations say. All values of a variable count, whichever of them git obeys.
#[derive(Debug, Default)]
struct Configuration {
    variables: Vec<Variable>,
    /// The files that it is made of. Those that others include count whatever the condition is.
    files: Vec<PathBuf>,
}

impl Configuration {
    /// That of a git directory.
    fn of(git: &Path, seen: &mut Seen) -> Configuration {
        let mut found = Configuration::default();
        for name in ["config", "config.worktree"] {
            found.add(&git.join(name), seen);
        }
        found
    }

    /// That of all repositories of this user.
    fn of_user(seen: &mut Seen) -> Configuration {
        let named = |name| std::env::var_os(name).map(PathBuf::from);
        let below_home = |name: &str| home().map(|home| home.join(name));
        let configuration = named("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
        let files = [
            named("GIT_CONFIG_SYSTEM"),
            configuration.map(|configuration| configuration.join("git/config")),
            below_home(".gitconfig"),
            named("GIT_CONFIG_GLOBAL"),
        ];
        let mut found = Configuration::default();
        for file in SYSTEM.map(PathBuf::from).into_iter().chain(files.into_iter().flatten()) {
            found.add(&file, seen);
        }
        found
    }

    /// Adds what a file says and those that it includes.
    fn add(&mut self, file: &Path, seen: &mut Seen) {
        // Files may include each other.
        if self.files.len() >= MOST || self.files.iter().any(|known| known == file) {
            return;
        }
        self.files.push(file.to_path_buf());
        // Where it is missing, that is noted.
        let Some(text) = seen.resolve(file).and_then(|file| read(&file)) else { return };
        let from = self.variables.len();
        self.variables.extend(git_config::variables(&text));
        let directory = file.parent().unwrap_or(file);
        let added = self.variables.get(from..).unwrap_or_default();
        let included =
            ["include", "includeif"].into_iter().flat_map(|it| values(added, it, "path"));
        let included: Vec<PathBuf> = included.map(|path| directory.join(path)).collect();
        for path in included {
            self.add(&path, seen);
        }
    }

    /// The directories of hooks that it names. A relative path counts from the work tree in which a hook
    /// runs.
    fn hooks(&self, trees: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        self.values("core", "hookspath")
            .flat_map(|path| trees.iter().map(move |tree| tree.join(&path)))
    }

    fn values(&self, section: &str, name: &str) -> impl Iterator<Item = PathBuf> {
        values(&self.variables, section, name)
    }
}

/// The paths that a variable names.
fn values(variables: &[Variable], section: &str, name: &str) -> impl Iterator<Item = PathBuf> {
    let named = variables.iter().filter(move |it| it.section == section && it.name == name);
    named.map(|it| match it.value.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => home.join(rest),
        None => PathBuf::from(&it.value),
    })
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

fn read(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    files::open_regular(file).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
