//! The sandbox of commands, as configured: the paths of the settings, resolved in this environment.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::process::files;
use crate::sandbox::policy::{Mode, Policy, Settings};

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
const PROTECTED: [&str; 9] = [
    ".git/hooks",
    ".git/config",
    ".claude",
    ".codex",
    ".mcp.json",
    ".envrc",
    "mise.toml",
    ".mise.toml",
    ".oneshot.json",
];

/// Files and directories of the home directory that programs outside of the sandbox run or obey, for a
/// project that has the home directory in it.
const PROTECTED_AT_HOME: [&str; 15] = [
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zlogin",
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
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = directory("HOME");
    let expanded = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().filter_map(|path| expand(path, home.as_deref())).collect()
    };
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let cache = directory("XDG_CACHE_HOME").or_else(|| below_home(".cache"));
    let cargo = directory("CARGO_HOME");
    let cargo = cargo.iter().flat_map(|cargo| CARGO_CACHES.map(|name| cargo.join(name)));
    // Many programs use /tmp wherever TMPDIR leads.
    let mut write = vec![project.to_path_buf(), std::env::temp_dir(), PathBuf::from("/tmp")];
    write.extend(cache.clone());
    write.extend(CACHES.iter().filter_map(|name| below_home(name)));
    write.extend(cargo);
    write.extend(expanded(&config.sandbox_write));
    let mut protect: Vec<PathBuf> = PROTECTED.iter().map(|name| project.join(name)).collect();
    if let Some(repository) = shared_repository(project) {
        protect.extend([project.join(".git"), repository.join("hooks"), repository.join("config")]);
        write.push(repository);
    }
    if let Some(home) = home.as_ref().filter(|home| is_inside(home, &write)) {
        protect.extend(PROTECTED_AT_HOME.iter().map(|name| home.join(name)));
        // Only what exists is protected, and a command could write a configuration of its own.
        if config.sandbox_mode != Mode::Off {
            let _ = files::private_dir(&home.join(".config/zsh-tool"));
        }
    }
    let state = config.state_dir.clone().ok();
    let mut deny_read = expanded(&config.sandbox_deny_read);
    deny_read.extend(state);
    let configuration = directory("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
    let named = variable("ZSH_TOOL_CONFIG").map(PathBuf::from);
    let plugin = directory("CLAUDE_PLUGIN_ROOT");
    let own = [configuration, cache].into_iter().flatten().map(|path| path.join("zsh-tool"));
    let database = config.alan_db.clone();
    // What this program reads decides what later commands may do.
    let denied = expanded(&config.sandbox_deny_write);
    let keep = own.chain(named).chain(plugin).chain(database).chain(denied);
    Ok(Settings {
        mode: config.sandbox_mode,
        workspace: Policy {
            mode: Mode::Workspace,
            write,
            keep: keep.collect(),
            protect,
            deny_read,
            network: config.sandbox_network,
            best_effort: config.sandbox_best_effort,
        },
    })
}

/// Whether a directory is in one of these trees.
fn is_inside(directory: &Path, trees: &[PathBuf]) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let directory = real(directory);
    trees.iter().any(|tree| directory.starts_with(real(tree)))
}

/// The repository to which a linked worktree of git belongs: commits are written there. It counts only if
/// it names this worktree too, since the worktree's own file can be changed by a command.
fn shared_repository(project: &Path) -> Option<PathBuf> {
    let link = project.join(".git");
    let text = read_line(&link)?;
    let own = project.join(text.strip_prefix("gitdir: ")?).canonicalize().ok()?;
    let back = own.join(read_line(&own.join("gitdir"))?).canonicalize().ok()?;
    let names_it = back == link.canonicalize().ok()?;
    let shared = own.join(read_line(&own.join("commondir"))?).canonicalize().ok()?;
    (names_it && own.starts_with(&shared)).then_some(shared)
}

/// The first line of a small file.
fn read_line(path: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 4096;
    let mut text = String::new();
    files::open_regular(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// A path whose `~/` means the home directory.
fn expand(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => Some(home?.join(rest)),
        Err(_) => Some(path.to_path_buf()),
    }
}
