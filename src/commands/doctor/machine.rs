//! What the machine has: shell, kernel, terminals, a private directory, manual pages.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Finding;
use crate::commands::setup;
use crate::config::{Config, SpoolMode};
use crate::mcp::conditions;
use crate::mcp::insight::size;
use crate::process::probe::{self, Shortcoming};
use crate::process::{files, orphans, pty, tree, wait};
use crate::record::manopt;
use crate::task::environment;
use crate::task::shell::{self, ShellKind};

/// The shell that commands run in.
pub fn shell(config: &Config) -> Finding {
    const WHAT: &str = "shell";
    let own: Vec<_> = std::env::vars_os().collect();
    let shell = match shell::find(&config.shell, environment::search_path(&own)) {
        Ok(shell) => shell,
        Err(error) => return Finding::error(WHAT, error.to_string(), INSTALL_ZSH),
    };
    let version = match shell.kind {
        ShellKind::Zsh | ShellKind::Bash => version_of(&shell.path),
        // A POSIX shell has no option for it.
        ShellKind::Sh => None,
    };
    let mut found = shell.path.display().to_string();
    if let Some(version) = version {
        found = format!("{found}, {version}");
    }
    match shell.note {
        None => Finding::ok(WHAT, found),
        Some(note) => Finding::warning(WHAT, format!("{found}; {note}"), INSTALL_ZSH),
    }
}

const INSTALL_ZSH: &str = "install zsh (Debian: run `apt-get install zsh`)";

/// The first line of what the shell says of its version.
fn version_of(shell: &Path) -> Option<String> {
    let output = Command::new(shell)
        .arg("--version")
        // It needs none, and a secret may be in this process's own.
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_owned()).filter(|line| !line.is_empty())
}

const MOUNT_FOR_NAMESPACE: &str =
    "mount it for this one: `unshare --mount-proc`, `bwrap --proc /proc`";

/// What supervision takes from the kernel.
pub fn kernel() -> Vec<Finding> {
    let shortcoming = probe::shortcoming();
    if shortcoming == Some(Shortcoming::Portable) {
        return vec![blocked_calls(), groups_alone()];
    }
    let sees_itself = tree::look_up(own_pid()).is_some();
    let proc = match (sees_itself, shortcoming) {
        (true, _) => Finding::ok("/proc", "readable"),
        (false, Some(Shortcoming::AnotherNamespace)) => Finding::error(
            "/proc",
            "shows the processes of another PID namespace: a command's cannot be found, and those \
             that leave its process group are not ended",
            MOUNT_FOR_NAMESPACE,
        ),
        (false, _) => Finding::error(
            "/proc",
            "cannot be read: a command's processes cannot be found, and those that leave its \
             process group are not ended",
            "mount it: run `mount -t proc proc /proc`",
        ),
    };
    let children = sees_itself.then(|| match tree::children_of_self() {
        Some(_) => Finding::ok("/proc/…/children", "readable"),
        None => Finding::warning(
            "/proc/…/children",
            "missing: every end of a command costs a scan of all processes",
            "use a kernel with CONFIG_PROC_CHILDREN",
        ),
    });
    let pidfd = match wait::pidfds_work() {
        Ok(()) => Finding::ok("pidfd", "works"),
        Err(error) => Finding::warning(
            "pidfd",
            format!("does not work ({error}): ends of processes are seen later"),
            "use Linux 5.3 or newer, and a sandbox that allows pidfd_open",
        ),
    };
    let subreaper = match orphans::adopt() {
        Ok(()) => Finding::ok("subreaper", "works"),
        Err(error) => Finding::warning(
            "subreaper",
            format!(
                "does not work ({error}): detached processes are found by their environment only"
            ),
            "use Linux 3.4 or newer, and a sandbox that allows PR_SET_CHILD_SUBREAPER",
        ),
    };
    let findings = [Some(proc), children, Some(blocked_calls())];
    let findings = findings.into_iter().flatten();
    findings.chain([pidfd, subreaper]).collect()
}

/// Whether it can be seen what commands wait for.
fn blocked_calls() -> Finding {
    const WHAT: &str = "/proc/…/syscall";
    let Some(shortcoming) = probe::shortcoming() else {
        return Finding::ok(WHAT, "readable: commands that wait for input are seen");
    };
    let what = match shortcoming {
        Shortcoming::Portable => "blocked calls",
        _ => WHAT,
    };
    let mend = match shortcoming {
        Shortcoming::NoProc => "mount it: run `mount -t proc proc /proc`",
        Shortcoming::AnotherNamespace => MOUNT_FOR_NAMESPACE,
        Shortcoming::NoCalls => {
            "run `sysctl kernel.yama.ptrace_scope=1`, or give the server CAP_SYS_PTRACE"
        }
        Shortcoming::OthersHidden => "run `mount -o remount,hidepid=0 /proc`",
        Shortcoming::Portable => LINUX_IS_COMPLETE,
    };
    Finding::warning(what, conditions::shortcoming_words(shortcoming), mend)
}

const LINUX_IS_COMPLETE: &str = "use Linux, and a build without the feature `portable`";

/// What is to be known of processes without what Linux alone tells.
fn groups_alone() -> Finding {
    Finding::warning(
        "processes",
        "known by their process groups alone: what leaves its command's group (setsid, job \
         control) is neither reported nor ended",
        LINUX_IS_COMPLETE,
    )
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// Whether commands can have a terminal.
pub fn terminal() -> Finding {
    match pty::terminals_work() {
        Ok(()) => Finding::ok("terminal", "can be opened"),
        Err(error) => Finding::error(
            "terminal",
            format!("cannot be opened ({error}): no command can run with pty"),
            "mount it: run `mount -t devpts devpts /dev/pts`, or end programs that hold terminals",
        ),
    }
}

/// Whether the state directory is private and writable, and has room.
pub fn state_directory(config: &Config) -> Vec<Finding> {
    const WHAT: &str = "state directory";
    const CHOOSE: &str = "set ZSH_TOOL_STATE_DIR to a directory of yours";
    let path = match &config.state_dir {
        Ok(path) => path,
        Err(error) => return vec![Finding::error(WHAT, error.to_string(), CHOOSE)],
    };
    let usable = files::private_dir(path)
        .map_err(|error| error.to_string())
        .and_then(|()| {
            try_writing(path)
                .map_err(|error| format!("cannot write to {}: {error}", path.display()))
        });
    match usable {
        Ok(()) => vec![
            Finding::ok(WHAT, format!("{}, private and writable", path.display())),
            room(path, config),
        ],
        Err(error) => vec![Finding::error(
            WHAT,
            format!("{error}; output is kept in memory, and other programs see no tasks"),
            CHOOSE,
        )],
    }
}

fn try_writing(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!("doctor-{}", files::random_id()));
    let written = files::create_private(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"written by zsh-tool doctor\n"));
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

/// Whether the disk has room for the output of one task.
fn room(path: &Path, config: &Config) -> Finding {
    const WHAT: &str = "disk";
    let wanted = match config.spool {
        SpoolMode::Disk => config.spool_task_quota,
        SpoolMode::Memory => 0,
    };
    match files::free_bytes(path) {
        Ok(free) if free >= wanted => Finding::ok(WHAT, format!("{} free", size(free))),
        Ok(free) => Finding::warning(
            WHAT,
            format!(
                "{} free, less than the output of one task may take ({}, spool_task_quota)",
                size(free),
                size(wanted)
            ),
            "make room, or lower spool_task_quota",
        ),
        Err(error) => Finding::warning(
            WHAT,
            format!("the free room below {} is unknown: {error}", path.display()),
            "",
        ),
    }
}

const INSTALL_PAGES: &str = "install the manual pages; small images of Debian leave them out: \
     remove `path-exclude` from /etc/dpkg/dpkg.cfg.d, then run `apt-get install --reinstall man-db` \
     and the same for the programs that you use";

/// Whether manual pages can be looked up: `man` must show its own.
pub fn manual(config: &Config) -> Finding {
    const WHAT: &str = "man";
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&search_path)
        .map(|directory| directory.join("man"))
        .find(|path| path.is_file());
    let Some(path) = found else {
        return Finding::warning(
            WHAT,
            "not found in PATH: options of programs cannot be looked up",
            "install it (Debian: run `apt-get install man-db`)",
        );
    };
    let path = path.display();
    let words = [WHAT.to_owned()];
    match manopt::table(&words, &setup::environment(config), config.manopt_timeout) {
        Ok(table) => Finding::ok(
            WHAT,
            format!(
                "{path}, {} options on its own page",
                table.text.lines().count()
            ),
        ),
        Err(error) => Finding::warning(WHAT, format!("{path}: {error}"), INSTALL_PAGES),
    }
}
