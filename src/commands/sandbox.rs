//! The sandbox of commands, as configured: the paths of the settings, resolved in this environment.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::config::{Config, DENY_READ};
use crate::process::files;
use crate::sandbox::policy::{Bounds, Mode, Policy, SHARED_MEMORY, Settings};
use crate::text::foreign::ShowPath;

/// Caches of build tools below the home directory. What only programs outside of the sandbox would run,
/// such as `~/.cargo/bin`, is not among them.
const CACHES: [&str; 15] = [
    ".npm",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    "go/pkg",
    ".m2/repository",
    ".gradle/caches",
    ".gradle/daemon",
    ".gradle/native",
    ".gradle/wrapper/dists",
    ".local/share/pnpm/store",
    ".bun/install/cache",
    ".nuget/packages",
];

/// Caches in the directory that `CARGO_HOME` names.
const CARGO_CACHES: [&str; 5] =
    ["registry", "git", ".package-cache", ".package-cache-mutate", ".global-cache"];

/// Files and directories of a project that programs outside of the sandbox run or obey.
const PROTECTED: [&str; 8] = [
    ".husky",
    ".claude",
    ".codex",
    ".mcp.json",
    ".envrc",
    "mise.toml",
    ".mise.toml",
    ".oneshot.json",
];

/// … of its `.git`. Its submodules and work trees are looked up when a command starts.
const PROTECTED_IN_GIT: [&str; 4] = [
    "hooks",
    "config",
    "config.worktree",
    // Leads git to another repository. Nothing is there usually, so it cannot be kept, only named.
    "commondir",
];

/// Directories without which no program runs.
const NEEDED: [&str; 3] = ["/", "/dev", "/proc"];

/// Files and directories of the home directory that programs outside of the sandbox run or obey, for a
/// project that has the home directory in it.
const PROTECTED_AT_HOME: [&str; 19] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".inputrc",
    ".profile",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".gitconfig",
    ".config/autostart",
    ".config/fish",
    ".config/git",
    ".config/systemd",
    ".local/bin",
    ".cargo/bin",
];

/// The settings for commands of this project, or what is wrong with them.
pub(crate) fn settings(config: &Config, project: &Path) -> Result<Settings, String> {
    if let Some(fault) = &config.sandbox_fault {
        return Err(fault.clone());
    }
    let mode = config.sandbox_mode;
    if mode == Mode::Off {
        // Those of the defaults are looked up with the bounds.
        let written = paths(config).filter(|(_, path)| !is_default(path));
        if let Some(fault) = fault_of_paths(written, directory("HOME").as_deref()) {
            return Err(fault);
        }
        let (config, project) = (config.clone(), project.to_path_buf());
        return Ok(Settings::new(mode, move || bounds(&config, &project)));
    }
    let bounds = bounds(config, project);
    match bounds.fault_in(mode) {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(Settings::new(mode, || bounds)),
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// What a variable names by an absolute path.
fn directory(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// What commands in a sandbox may do, by the configuration and what is there now.
fn bounds(config: &Config, project: &Path) -> Bounds {
    let home = directory("HOME");
    let mut faults = faults(config, project, home.as_deref());
    if let Some(fault) = fault_of_paths(paths(config), home.as_deref()) {
        faults.extend([Mode::Workspace, Mode::ReadOnly].map(|mode| (mode, fault.clone())));
    }
    let expanded = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().filter_map(|path| expand(path, home.as_deref())).collect()
    };
    // A variable that names the root is hardly meant to open all of it.
    let is_root = |path: &PathBuf| files::real_path(path).is_some_and(|it| it == Path::new("/"));
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let cache = directory("XDG_CACHE_HOME").or_else(|| below_home(".cache"));
    let temporary = Some(std::env::temp_dir()).filter(|path| path.is_absolute());
    let named = [temporary, cache].into_iter().flatten().filter(|path| !is_root(path));
    let cargo = directory("CARGO_HOME");
    let cargo = cargo.iter().flat_map(|cargo| CARGO_CACHES.map(|name| cargo.join(name)));
    // Many programs use /tmp wherever TMPDIR leads.
    let mut write = vec![as_entered(project), PathBuf::from("/tmp"), PathBuf::from(SHARED_MEMORY)];
    write.extend(named);
    write.extend(CACHES.iter().filter_map(|name| below_home(name)));
    write.extend(cargo);
    let listed = expanded(&config.sandbox_write);
    write.extend(listed.iter().cloned());
    let (mut protect, mut git) = (Vec::new(), Vec::new());
    for root in [project].into_iter().chain(listed.iter().map(PathBuf::as_path)) {
        protect.extend(PROTECTED.iter().map(|name| root.join(name)));
        let directory = if root.ends_with(".git") { root.to_path_buf() } else { root.join(".git") };
        // A submodule's leads to its repository.
        protect.extend(Some(directory.clone()).filter(|directory| directory.is_file()));
        let led = files::first_line(&directory);
        let led = led.as_deref().and_then(|line| line.strip_prefix("gitdir: "));
        for directory in led.map(|led| root.join(led)).iter().chain([&directory]) {
            protect.extend(PROTECTED_IN_GIT.iter().map(|name| directory.join(name)));
        }
        git.push(directory);
        // What is obeyed of the repositories around may be here.
        let around = root.ancestors().skip(1).map(|above| above.join(".git"));
        git.extend(around.filter(|git| git.exists()));
    }
    if let Some(Linked { repository, own }) = linked_worktree(project) {
        protect.extend(PROTECTED_IN_GIT.map(|name| repository.join(name)));
        protect.extend(["commondir", "gitdir", "config.worktree"].map(|name| own.join(name)));
        write.push(repository);
    }
    let write = unchangeable(write);
    if let Some(home) = home.as_ref().filter(|home| is_inside(home, &write)) {
        protect.extend(PROTECTED_AT_HOME.iter().map(|name| home.join(name)));
    }
    let state = config.state_dir.clone().ok();
    let denied = expanded(&config.sandbox_deny_read);
    let configuration = directory("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    let current = std::env::current_dir().unwrap_or_default();
    let named = variable("ZSH_TOOL_CONFIG").map(|path| current.join(path));
    // Who works on a plugin has it as the project.
    let plugin = directory("CLAUDE_PLUGIN_ROOT").filter(|plugin| !project.starts_with(plugin));
    // The configuration, and the program that other machines have put here.
    let data = directory("XDG_DATA_HOME").or_else(|| below_home(".local/share"));
    let own: Vec<PathBuf> =
        [configuration, data].into_iter().flatten().map(|path| path.join("zsh-tool")).collect();
    if config.sandbox_mode != Mode::Off {
        // Only what exists can be kept, and a command could make one of its own.
        for directory in own.iter().filter(|directory| is_inside(directory, &write)) {
            let _ = files::private_dir(directory);
        }
    }
    let links = own.iter().map(|directory| directory.join("config.yaml"));
    let is_led = |file: &PathBuf| file.is_symlink() && is_inside(file, &write);
    let links = links.filter(|file| is_led(file) || is_behind_link(file, &write));
    let all = own.iter().chain(&named).chain(&config.prelude);
    let obeyed = all.filter(|path| is_replaceable(path, &write)).cloned();
    let replaceable = obeyed.chain(links).next().map(|path| {
        format!(
            "{}, which zsh-tool or its shells obey, is missing or behind a link where commands may \
             write, so that they could replace it: make it a file or a directory there, or move it \
             elsewhere",
            path.shown()
        )
    });
    let database = config.alan_db.iter().flat_map(|path| {
        ["", "-wal", "-shm", "-journal"].map(|suffix| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        })
    });
    // What this program and its shells read decides what later commands may do.
    let environment = directory("CLAUDE_ENV_FILE");
    let kept = expanded(&config.sandbox_deny_write);
    let mut fixed = denied.iter().chain(&state).chain(&kept).chain(&plugin).chain(&environment);
    let led = fixed.find(|path| is_behind_link(path, &write)).map(|path| {
        format!(
            "{} is behind a link where commands may write, so that they could lead it elsewhere: name \
             the path to which it leads",
            path.shown()
        )
    });
    // Where no sandbox is in use, it counts for a call that asks for one.
    let mode = config.sandbox_mode.max(Mode::Workspace);
    faults.extend(replaceable.or(led).map(|fault| (mode, fault)));
    let prelude = config.prelude.clone().into_iter().chain(environment);
    let keep = own.into_iter().chain(named).chain(plugin).chain(database).chain(prelude);
    let keep: Vec<PathBuf> = keep.chain(kept).collect();
    let deny_read: Vec<PathBuf> = denied.into_iter().chain(state).collect();
    Bounds {
        faults,
        workspace: Policy {
            mode: Mode::Workspace,
            write,
            keep: with_real(keep),
            protect,
            git,
            deny_read: with_real(deny_read),
            network: config.sandbox_network,
            best_effort: config.sandbox_best_effort,
        },
    }
}

/// The paths of the settings, with their keys.
fn paths(config: &Config) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let all = [
        ("sandbox.deny_read", &config.sandbox_deny_read),
        ("sandbox.deny_write", &config.sandbox_deny_write),
        ("sandbox.write", &config.sandbox_write),
    ];
    all.into_iter().flat_map(|(key, paths)| paths.iter().map(move |path| (key, path)))
}

fn is_default(path: &Path) -> bool {
    DENY_READ.iter().any(|default| path == Path::new(default))
}

/// What is wrong with paths of the settings, whatever the mode is.
fn fault_of_paths<'a>(
    mut paths: impl Iterator<Item = (&'static str, &'a PathBuf)>,
    home: Option<&Path>,
) -> Option<String> {
    paths.find_map(|(key, given)| {
        let path = expand(given, home)?;
        let shown = given.shown();
        if given.to_string_lossy().contains(['*', '?', '[']) && !path.exists() {
            return Some(format!("{key}: {shown} is a pattern, and only paths are understood"));
        }
        let Some(real) = files::real_path(&path) else {
            let goes_up = path.components().any(|part| part == Component::ParentDir);
            return goes_up.then(|| format!("{key}: it is not known where {shown} leads"));
        };
        let is_needed = key == "sandbox.deny_read" && NEEDED.iter().any(|it| real == Path::new(it));
        is_needed
            .then(|| format!("{key}: {shown} would leave no program that could be read and run"))
    })
}

/// The paths as they are given, for what appears there, and those to which they lead now, whatever becomes
/// of the links.
fn with_real(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: Vec<PathBuf> = paths.iter().filter_map(|path| files::real_path(path)).collect();
    [paths, real].concat()
}

/// Why commands cannot be confined in a mode as the user means it.
fn faults(config: &Config, project: &Path, home: Option<&Path>) -> Vec<(Mode, String)> {
    let mut faults = Vec::new();
    let below_home = paths(config).find(|(_, path)| path.starts_with("~"));
    if let Some((key, path)) = below_home.filter(|_| home.is_none()) {
        let text = format!(
            "HOME is not set to an absolute path, so that it is not known where {} of {key} is: set HOME, \
             or name absolute paths",
            path.shown()
        );
        faults.extend([(Mode::Workspace, text.clone()), (Mode::ReadOnly, text)]);
    }
    if files::real_path(project).is_some_and(|project| project == Path::new("/")) {
        let text = "the project is /, so that commands in mode workspace could write anywhere: start \
                    zsh-tool in a project, or set CLAUDE_PROJECT_DIR";
        faults.push((Mode::Workspace, text.to_owned()));
    }
    faults
}

/// Whether a directory is in one of these trees, which are named without links.
fn is_inside(directory: &Path, trees: &[PathBuf]) -> bool {
    let directory = real(directory);
    trees.iter().any(|tree| directory.starts_with(tree))
}

fn real(path: &Path) -> PathBuf {
    files::resolved(path).unwrap_or_else(|| path.to_path_buf())
}

/// The working directory by the way on which the shell that started this program went there, which may
/// lead through links. Other directories as they are.
fn as_entered(project: &Path) -> PathBuf {
    let entered = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
    let real = project.canonicalize().ok();
    let entered = entered.filter(|path| real.is_some() && path.canonicalize().ok() == real);
    entered.unwrap_or_else(|| project.to_path_buf())
}

/// The paths that no command can lead elsewhere, without links. One that goes through another of these
/// trees is writable as a part of that tree, and could be replaced by a link to anywhere. What becomes a
/// link later, by a command of another server, is writable no more.
fn unchangeable(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: Vec<PathBuf> = paths.iter().map(|path| real(path)).collect();
    let is_changeable = |path: &&PathBuf| !places_in(path, &real).is_empty();
    let kept = paths.iter().filter(|path| !is_changeable(path));
    kept.filter_map(|path| files::real_path(path)).collect()
}

/// Whether a command could put something else at this path, although a mount holds what is there: it is
/// missing, or a link, or behind one, in one of these trees.
fn is_replaceable(path: &Path, trees: &[PathBuf]) -> bool {
    places_in(path, trees).iter().any(|at| at.is_symlink() || !at.exists())
}

/// The same, of what is there.
fn is_behind_link(path: &Path, trees: &[PathBuf]) -> bool {
    places_in(path, trees).iter().any(|at| at.is_symlink())
}

/// The places on the way to a path that are in one of these trees, which are named without links: what is
/// there can be replaced.
fn places_in(path: &Path, trees: &[PathBuf]) -> Vec<PathBuf> {
    let is_in = |at: &PathBuf| {
        at.parent().is_some_and(|above| trees.iter().any(|tree| above.starts_with(tree)))
    };
    files::way(path).into_iter().filter(is_in).collect()
}

/// A worktree that `git worktree add` has made.
struct Linked {
    /// The `.git` of the repository to which it belongs, to which commits are written.
    repository: PathBuf,
    /// What the repository has of this worktree.
    own: PathBuf,
}

/// The linked worktree that a project is. Commands can change the worktree's own `.git` and what it names,
/// so only a place that git would have made counts.
fn linked_worktree(project: &Path) -> Option<Linked> {
    let link = project.join(".git");
    let text = files::first_line(&link)?;
    let own = project.join(text.strip_prefix("gitdir: ")?).canonicalize().ok()?;
    let back = own.join(files::first_line(&own.join("gitdir"))?).canonicalize().ok()?;
    let repository = own.parent().filter(|parent| parent.ends_with("worktrees"))?.parent()?;
    let shared = own.join(files::first_line(&own.join("commondir"))?).canonicalize().ok()?;
    let is_made_by_git = back == link.canonicalize().ok()?
        && shared == repository
        && repository.join("HEAD").is_file()
        && repository.join("objects").is_dir()
        && !project.starts_with(repository);
    is_made_by_git.then(|| Linked { repository: repository.to_path_buf(), own: own.clone() })
}

/// A path whose `~/` means the home directory.
fn expand(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let path = match path.strip_prefix("~") {
        Ok(rest) => home?.join(rest),
        Err(_) => path.to_path_buf(),
    };
    // A file has no slash at its end.
    Some(path.components().collect())
}
