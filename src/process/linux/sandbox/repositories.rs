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
/// Git's own configurations are smaller.
const MAX_BYTES: u64 = 1024 * 1024;

/// Adds the paths of these parts to the list. Those that git has not made may be missing.
///
/// # Errors
/// There are too many of them.
pub(super) fn add_parts(git: &Path, seen: &mut Seen, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let global = Configuration::of_user(seen);
    let mut parts = global.included.clone();
    let mut own = Configuration::of(git, seen);
    let mut trees = own.trees(git);
    if let Some(worktrees) = seen.resolve(&git.join("worktrees")) {
        for worktree in seen.directories(&worktrees) {
            // The second leads git to the repository, and could lead it to one that a command has made.
            parts.extend(["config.worktree", "commondir"].map(|name| worktree.join(name)));
            own.add(&worktree.join("config.worktree"), seen);
            // The file that leads from the work tree to this.
            let link = files::first_line(&worktree.join("gitdir"));
            let link = link.map(|link| worktree.join(link));
            trees.extend(link.as_deref().and_then(Path::parent).map(Path::to_path_buf));
            parts.extend(link);
        }
    }
    parts.extend([&global, &own].into_iter().flat_map(|it| it.hooks(&trees)));
    parts.append(&mut own.included);
    add_modules(&git.join("modules"), DEPTH, &global, seen, &mut parts)?;
    paths.append(&mut parts);
    Ok(())
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
        let named =
            ["hooks", "config", "config.worktree", "commondir"].map(|name| module.join(name));
        let is_part = |path: &PathBuf| is_repository || path.symlink_metadata().is_ok();
        parts.extend(named.into_iter().filter(is_part));
        let mut own = Configuration::of(&module, seen);
        let trees = own.trees(&module);
        // The file that leads from the submodule to this.
        let links = trees.iter().map(|tree| tree.join(".git"));
        parts.extend(links.filter(|link| link.is_file()));
        parts.extend([global, &own].into_iter().flat_map(|it| it.hooks(&trees)));
        parts.append(&mut own.included);
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
    /// The files that others include, whatever the condition is.
    included: Vec<PathBuf>,
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
        let files = [
            Some(PathBuf::from("/etc/gitconfig")),
            named("XDG_CONFIG_HOME")
                .or_else(|| below_home(".config"))
                .map(|it| it.join("git/config")),
            below_home(".gitconfig"),
            named("GIT_CONFIG_GLOBAL"),
        ];
        let mut found = Configuration::default();
        for file in files.into_iter().flatten() {
            found.add(&file, seen);
        }
        found
    }

    /// Adds what a file says and those that it includes.
    fn add(&mut self, file: &Path, seen: &mut Seen) {
        // Where it is missing, that is noted.
        let Some(text) = seen.resolve(file).and_then(|file| read(&file)) else { return };
        let read = Configuration { variables: git_config::variables(&text), included: Vec::new() };
        let directory = file.parent().unwrap_or(file);
        let paths = ["include", "includeif"].into_iter().flat_map(|it| read.values(it, "path"));
        let paths: Vec<PathBuf> = paths.map(|path| directory.join(path)).collect();
        self.variables.extend(read.variables);
        for path in paths {
            // Files may include each other.
            if !self.included.contains(&path) && self.included.len() < MOST {
                self.included.push(path.clone());
                self.add(&path, seen);
            }
        }
    }

    /// The work trees that it names as those of a git directory, or the one that this is in.
    fn trees(&self, git: &Path) -> Vec<PathBuf> {
        let above = git.parent().filter(|_| git.ends_with(".git")).map(Path::to_path_buf);
        self.values("core", "worktree").map(|tree| git.join(tree)).chain(above).collect()
    }

    /// The directories of hooks that it names. A relative path counts from the work tree in which a hook
    /// runs.
    fn hooks(&self, trees: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        self.values("core", "hookspath")
            .flat_map(|path| trees.iter().map(move |tree| tree.join(&path)))
    }

    /// The paths that a variable names.
    fn values(&self, section: &str, name: &str) -> impl Iterator<Item = PathBuf> {
        let named =
            self.variables.iter().filter(move |it| it.section == section && it.name == name);
        named.map(|it| match it.value.strip_prefix("~/").zip(home()) {
            Some((rest, home)) => home.join(rest),
            None => PathBuf::from(&it.value),
        })
    }
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

fn read(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    files::open_regular(file).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
