//! The single checks: shell, kernel, terminals, state directory, manual pages, the database
//! of the command history, the Claude Code plugin, secrets.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::Value;

use super::Finding;
use crate::alan::store::Status;
use crate::base::cancel::Cancel;
use crate::cli::ClientName;
use crate::commands::setup::clients::{Client, MANIFEST, plugin_folder};
use crate::commands::setup::{self, Found};
use crate::commands::{output, sandbox, shared};
use crate::config::{
    Config, DialectChoice, EnvironmentChoice, HostEntry, ResolveContext, SecretSource, SpoolMode,
};
use crate::history::manopt;
use crate::history::recorder::Recorder;
use crate::mcp::render::{notes, result};
use crate::monitor::session::now;
use crate::peer::client::{Peer, PeerCall};
use crate::peer::hosts::Purpose;
use crate::peer::relayed::RelayedClient;
use crate::peer::{ANSWER_LIMIT, PeerError};
use crate::process::capture::{self, Limits};
use crate::process::control_group::ControlGroup;
use crate::process::needs::Needs;
use crate::process::probe::VisibilityLimit;
use crate::process::sandbox::Sandbox;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::process::{files, orphans, processes, pty, tree, wait};
use crate::sandbox::policy::Policy;
use crate::task::describe;
use crate::task::environment::{self, EnvironmentSettings, Environments};
use crate::task::journal::{self, CONTROL_SOCKET};
use crate::task::sandboxes;
use crate::task::shell::{self, ShellKind};
use crate::task::snapshot::Snapshot;
use crate::text::foreign::{self, ShowPath};
use crate::text::lines::{elide_middle, grouped};
use crate::text::quantity::{seconds, size};

/// How much of what a host says a finding shows, in characters.
const REMOTE_CHARS: usize = 1_000;
/// How long a shell may take to print its version, and how much of it is read.
const VERSION_TIME: Duration = Duration::from_secs(5);
const MAX_VERSION: usize = 64 << 10;
/// How much of a command a finding shows.
const COMMAND_CHARS: usize = 60;

/// The shell that commands run in.
pub(crate) fn shell(config: &Config) -> Finding {
    const WHAT: &str = "shell";
    let own: Vec<_> = std::env::vars_os().collect();
    let shell = match shell::find(&config.shell, environment::search_path(&own)) {
        Ok(shell) => shell,
        Err(error) => return Finding::error(WHAT, error.to_string(), INSTALL_ZSH),
    };
    let version = match shell.kind {
        ShellKind::Zsh | ShellKind::Bash => version_of(&shell.path, config),
        // POSIX defines no such option.
        ShellKind::Sh => None,
    };
    let mut found = shell.path.shown().to_string();
    if let Some(version) = version {
        found = format!("{found}, {version}");
    }
    if config.dialect == DialectChoice::Bash {
        found += if shell.kind == ShellKind::Zsh {
            ", with the options of dialect: bash"
        } else {
            " (dialect: bash is for zsh alone)"
        };
    }
    match shell.note {
        None => Finding::ok(WHAT, found),
        Some(note) => Finding::warning(WHAT, format!("{found}; {note}"), INSTALL_ZSH),
    }
}

/// The directories in a login shell's PATH that this environment's PATH lacks.
pub(crate) fn login_path(config: &Config) -> Vec<Finding> {
    const WHAT: &str = "PATH";
    let supervisor = shared::supervisor(config);
    let settings = EnvironmentSettings { login: true, ..supervisor.settings.environment.clone() };
    let Ok(shell) = supervisor.find_shell(None) else {
        return Vec::new();
    };
    if supervisor.settings.sandbox.is_err() {
        // Commands are refused, and it is not known what the shell may do.
        return Vec::new();
    }
    let start =
        Environments::default().environment_for(&settings, &shell, Path::new("/"), &Policy::off());
    if let Some(problem) = start.problems.into_iter().next() {
        return vec![match config.environment {
            EnvironmentChoice::Inherit => Finding::ok(WHAT, problem),
            EnvironmentChoice::Login => Finding::warning(WHAT, problem, FIX_START_FILES),
        }];
    }
    let directories = |variables| {
        let path = environment::search_path(variables);
        let directories = std::env::split_paths(path);
        directories.map(|directory| directory.shown().to_string()).collect::<Vec<_>>()
    };
    let known = directories(&settings.inherited);
    let mut added = directories(&start.variables);
    added.retain(|directory| !known.contains(directory));
    let added = added.join(", ");
    let found = match (added.is_empty(), config.environment) {
        (true, _) => "a login shell adds nothing to it".to_owned(),
        (false, EnvironmentChoice::Login) => format!("a login shell adds {added} for commands"),
        (false, EnvironmentChoice::Inherit) => {
            format!("a login shell adds {added}; `environment: login` gives it to commands")
        }
    };
    vec![Finding::ok(WHAT, found)]
}

const FIX_START_FILES: &str = "correct the start files, or set `environment: inherit`";

const INSTALL_ZSH: &str = if cfg!(target_os = "macos") {
    "set `shell: /bin/zsh`, which comes with macOS"
} else {
    "install zsh (Debian: run `apt-get install zsh`)"
};

/// The first line of `--version`. Commands may have written the program, so it runs in the tightest
/// sandbox.
fn version_of(shell: &Path, config: &Config) -> Option<String> {
    let limits = Limits { time: VERSION_TIME, output: MAX_VERSION, daemons: None };
    let directory = PathBuf::from("/");
    let policy = shared::tightest_sandbox(config).unwrap_or_else(Policy::off);
    let needs = Needs { directory: directory.clone(), ..Needs::default() };
    let launch = Launch {
        program: shell.to_path_buf(),
        args: vec!["--version".into()],
        // The environment may contain secrets, and `--version` needs none of it.
        environment: Vec::new(),
        directory,
        wiring: Wiring::Pipe(StderrTarget::Nowhere),
        group: None,
        sandbox: Sandbox::prepare(&policy, &needs).ok()?.map(Arc::new),
    };
    let output = capture::run(launch, &limits).ok()?.output;
    let text = String::from_utf8_lossy(&output);
    Some(text.lines().next()?.trim().to_owned()).filter(|line| !line.is_empty())
}

const MOUNT_FOR_NAMESPACE: &str =
    "mount it for this one: `unshare --mount-proc`, `bwrap --proc /proc`";

/// What supervision needs from the kernel.
pub(crate) fn kernel() -> Vec<Finding> {
    let visibility_limit = processes::visibility_limit();
    if visibility_limit == Some(VisibilityLimit::Portable) {
        return vec![blocked_calls(), only_groups()];
    }
    if visibility_limit == Some(VisibilityLimit::MacOs) {
        return vec![on_macos(), blocked_calls()];
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let sees_itself = tree::look_up(own).is_some();
    let proc = match (sees_itself, visibility_limit) {
        (true, _) => Finding::ok("/proc", "readable"),
        (false, Some(VisibilityLimit::AnotherNamespace)) => Finding::error(
            "/proc",
            "shows the processes of another PID namespace: a command's processes cannot be found, \
             and those that leave its process group are not ended",
            MOUNT_FOR_NAMESPACE,
        ),
        (false, _) => Finding::error(
            "/proc",
            "cannot be read: a command's processes cannot be found, and those that leave its \
             process group are not ended",
            "mount it: run `mount -t proc proc /proc`",
        ),
    };
    let children = sees_itself.then(|| match tree::adopted_orphans() {
        Some(_) => Finding::ok("/proc/…/children", "readable"),
        None => Finding::warning(
            "/proc/…/children",
            "missing: all processes are scanned when a command ends",
            "use a kernel with CONFIG_PROC_CHILDREN",
        ),
    });
    let pidfd = match wait::pidfds_work() {
        Ok(()) => Finding::ok("pidfd", "works"),
        Err(error) => Finding::warning(
            "pidfd",
            format!("does not work ({error}): the ends of processes are noticed later"),
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

/// Whether the system calls in which commands wait can be read.
fn blocked_calls() -> Finding {
    const WHAT: &str = "/proc/…/syscall";
    let Some(visibility_limit) = processes::visibility_limit() else {
        return Finding::ok(WHAT, "readable: commands that wait for input are seen");
    };
    let what = match visibility_limit {
        VisibilityLimit::Portable | VisibilityLimit::MacOs => "blocked calls",
        _ => WHAT,
    };
    let fix = match visibility_limit {
        VisibilityLimit::NoProc => "mount it: run `mount -t proc proc /proc`",
        VisibilityLimit::AnotherNamespace => MOUNT_FOR_NAMESPACE,
        VisibilityLimit::NoSystemCalls => {
            "run `sysctl kernel.yama.ptrace_scope=1`, or give the server CAP_SYS_PTRACE"
        }
        VisibilityLimit::OthersHidden => "run `mount -o remount,hidepid=0 /proc`",
        VisibilityLimit::Portable => LINUX_IS_COMPLETE,
        VisibilityLimit::MacOs => WHAT_MACOS_LACKS,
    };
    Finding::warning(what, notes::visibility_limit(visibility_limit), fix)
}

const LINUX_IS_COMPLETE: &str = "use Linux, and a build without the feature `portable`";

const WHAT_MACOS_LACKS: &str = "see `zsh-tool help platforms` for what macOS does without";

/// How far this program can be relied on there.
fn on_macos() -> Finding {
    Finding::warning(
        "macOS",
        "experimental: built and type-checked for macOS, but its developers have never run it \
         there",
        WHAT_MACOS_LACKS,
    )
}

/// What is missing where only process groups are known.
fn only_groups() -> Finding {
    Finding::warning(
        "processes",
        "only process groups are known: processes that leave their command's group (setsid, job \
         control) are neither reported nor ended",
        LINUX_IS_COMPLETE,
    )
}

/// The limit of memory, and what holds commands to it.
pub(crate) fn memory(config: &Config) -> Finding {
    let limit = config.memory_max;
    Finding::ok("memory", describe::memory_limit(limit, ControlGroup::can_be_made()))
}

/// The sandbox of commands, and whether it can be enforced.
pub(crate) fn sandbox(config: &Config) -> Finding {
    const WHAT: &str = "sandbox";
    let summary = sandboxes::summary(&sandbox::settings(config, &shared::project_directory()));
    match summary.problem {
        None => Finding::ok(WHAT, summary.text),
        Some(problem) => Finding::error(
            WHAT,
            problem,
            "see `zsh-tool help sandbox`, and sandbox.* in the configuration",
        ),
    }
}

/// Whether commands can have a terminal.
pub(crate) fn terminal() -> Finding {
    match pty::terminals_work() {
        Ok(()) => Finding::ok("terminal", "can be opened"),
        Err(error) => Finding::error(
            "terminal",
            format!("cannot be opened ({error}): no command can run with pty"),
            if cfg!(target_os = "macos") {
                "end programs that hold terminals"
            } else {
                "mount it: run `mount -t devpts devpts /dev/pts`, or end programs that hold \
                 terminals"
            },
        ),
    }
}

/// Whether the state directory is private and writable, and has enough space.
pub(crate) fn state_directory(config: &Config) -> Vec<Finding> {
    const WHAT: &str = "state directory";
    const CHOOSE: &str = "set ZSH_TOOL_STATE_DIR to a directory of yours";
    let path = match &config.state_dir {
        Ok(path) => path,
        Err(error) => return vec![Finding::error(WHAT, error.to_string(), CHOOSE)],
    };
    let usable = files::private_dir(path).map_err(|error| error.to_string()).and_then(|()| {
        try_writing(path).map_err(|error| format!("cannot write to {}: {error}", path.shown()))
    });
    match usable {
        Ok(()) => vec![
            Finding::ok(WHAT, format!("{}, private and writable", path.shown())),
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

/// Whether the disk has enough space for the output of one task.
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
            "free some space, or lower spool_task_quota",
        ),
        Err(error) => Finding::warning(
            WHAT,
            format!("the free space below {} is unknown: {error}", path.shown()),
            "",
        ),
    }
}

/// The running detached tasks, each in its shim.
pub(crate) fn shims(config: &Config) -> Vec<Finding> {
    let shims = config.state_dir.iter().flat_map(|state| journal::shims(state));
    let living = shims.filter(|shim| journal::server_lives(shim));
    living.flat_map(|shim| tasks_of(&shim)).collect()
}

fn tasks_of(shim: &Path) -> Vec<Finding> {
    let pid = journal::server_pid(shim).map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    let finding = |entry: Snapshot| {
        let age = Duration::try_from_secs_f64(now() - entry.started()).unwrap_or_default();
        let command = elide_middle(&result::command_line(&entry.facts.command), COMMAND_CHARS);
        Finding {
            fix: format!("`zsh-tool kill {}` ends it", entry.id()),
            ..Finding::ok(
                "detached task",
                format!("{}, started {} ago, shim pid {pid}: {command}", entry.id(), seconds(age)),
            )
        }
    };
    journal::read_server(shim).into_iter().map(finding).collect()
}

/// Sockets of servers that were killed together with their guards, which would have removed them.
pub(crate) fn stale_sockets(config: &Config) -> Vec<Finding> {
    let servers = config.state_dir.iter().flat_map(|state| journal::servers(state));
    let ended = servers.filter(|server| !journal::server_lives(server));
    let sockets = ended.map(|server| server.join(CONTROL_SOCKET));
    let stale = |socket: PathBuf| {
        Finding::warning(
            "control socket",
            format!("{} has no server", socket.shown()),
            "leave it to the next server, which removes it when it starts",
        )
    };
    sockets.filter(|socket| socket.symlink_metadata().is_ok()).map(stale).collect()
}

const INSTALL_PAGES: &str = if cfg!(target_os = "macos") {
    "install the programs that you use with their manual pages"
} else {
    "install the manual pages; small images of Debian leave them out: remove `path-exclude` \
     from /etc/dpkg/dpkg.cfg.d, then run `apt-get install --reinstall man-db` and the same for the \
     programs that you use"
};

/// Whether manual pages can be looked up, which is tried with the page of `man`.
pub(crate) fn manual(config: &Config) -> Finding {
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
    let path = path.shown();
    let words = [WHAT.to_owned()];
    let sandbox = shared::tightest_sandbox(config);
    let environment = shared::environment(config);
    match manopt::table(&words, &environment, sandbox.as_ref(), config.manopt_timeout) {
        Ok(table) => Finding::ok(
            WHAT,
            format!("{path}, {} options on its own page", table.text.lines().count()),
        ),
        Err(error) => Finding::warning(WHAT, format!("{path}: {error}"), INSTALL_PAGES),
    }
}

const DATABASE: &str = "database";
/// The fix for any cause.
const CHOOSE_DATABASE: &str = "fix that, or set ALAN_DB_PATH to a file of yours";

/// Opens the database, if it exists, as a server does, which also repairs it.
pub(crate) fn database(config: &Config) -> Vec<Finding> {
    let recorder = shared::recorder(config, &shared::redactor(config));
    if recorder.store().path().as_os_str().is_empty() {
        let found = "none, since there is no state directory: the command history is lost when \
                     the server ends";
        return vec![Finding::warning(DATABASE, found, CHOOSE_DATABASE)];
    }
    if can_be_created(recorder.store().path()) {
        let path = recorder.store().path().shown();
        let found = format!("{path}, created when the first command runs");
        return vec![Finding::ok(DATABASE, found)];
    }
    let mut findings = vec![contents(&recorder)];
    findings.extend(moved_aside(&recorder.store().status()));
    recorder.close();
    findings
}

/// Whether the file is missing and could be created. Creates nothing.
fn can_be_created(path: &Path) -> bool {
    let is_missing = path.symlink_metadata().is_err();
    let existing = path.ancestors().skip(1).find(|parent| parent.exists());
    let is_writable = |parent: &Path| parent.is_dir() && files::check_writable(parent).is_ok();
    is_missing && existing.is_some_and(is_writable)
}

fn contents(recorder: &Recorder) -> Finding {
    let store = recorder.store();
    let counts = store.counts();
    let status = store.status();
    let path = status.path.shown();
    match (counts, status.failure) {
        (Ok(counts), None) => {
            Finding::ok(DATABASE, format!("{path}, {} observations", grouped(counts.observations)))
        }
        (_, Some(cause)) => unusable(&format!("{path} cannot be used ({cause})")),
        (Err(error), None) => unusable(&error.to_string()),
    }
}

/// A warning only, since commands still run.
fn unusable(found: &str) -> Finding {
    let found = format!("{found}: the command history is lost when the server ends");
    Finding::warning(DATABASE, found, CHOOSE_DATABASE)
}

fn moved_aside(status: &Status) -> Option<Finding> {
    let aside = status.moved_aside.as_ref()?.shown();
    Some(Finding::warning(
        DATABASE,
        format!("it was corrupt and was moved to {aside}; a new one was created"),
        format!("remove {aside} once you no longer need it"),
    ))
}

const PLUGIN: &str = "plugin";
const INSTALL_PLUGIN: &str = "run `make install` in the sources of this version";

/// Compares the installed plugin with this program.
pub(crate) fn plugin() -> Finding {
    let Some(folder) = plugin_folder(&|name| std::env::var_os(name)) else {
        return Finding::ok(PLUGIN, "not checked: HOME is not set");
    };
    let manifest = folder.join(MANIFEST);
    let text = match std::fs::read(&manifest) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let found = format!("not installed at {} (only Claude Code needs it)", folder.shown());
            return Finding::ok(PLUGIN, found);
        }
        Err(error) => {
            let found = format!("cannot read {}: {error}", manifest.shown());
            return Finding::warning(PLUGIN, found, INSTALL_PLUGIN);
        }
    };
    let version = serde_json::from_slice::<Value>(&text)
        .ok()
        .and_then(|manifest| Some(manifest.get("version")?.as_str()?.to_owned()));
    let Some(version) = version else {
        let found = format!("{} has no version", manifest.shown());
        return Finding::warning(PLUGIN, found, INSTALL_PLUGIN);
    };
    let binary = ["bin/zsh-tool", "target/release/zsh-tool"]
        .iter()
        .map(|name| folder.join(name))
        .find(|path| is_executable(path));
    match binary {
        None => Finding::warning(
            PLUGIN,
            format!("version {version} at {} has no binary", folder.shown()),
            INSTALL_PLUGIN,
        ),
        Some(_) if version != env!("CARGO_PKG_VERSION") => Finding::warning(
            PLUGIN,
            format!(
                "version {version} at {}, this program is {}",
                folder.shown(),
                env!("CARGO_PKG_VERSION")
            ),
            INSTALL_PLUGIN,
        ),
        Some(binary) => Finding::ok(PLUGIN, format!("version {version}, {}", binary.shown())),
    }
}

/// Where `make install` puts it.
fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The clients of this user, and whether each has this server. Claude Code may have it by the plugin.
pub(crate) fn clients() -> Vec<Finding> {
    const WHAT: &str = "client";
    let env = |name: &str| std::env::var_os(name);
    let Ok(program) = std::env::current_exe() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for name in ClientName::value_variants().iter().copied() {
        let Some(client) = Client::new(name, &env) else {
            continue;
        };
        let Some(found) = setup::found(&client, &program, &env) else {
            continue;
        };
        let add = format!("zsh-tool setup {}", name.word());
        let (title, at) = (client.title, client.place.path.shown());
        findings.push(match found {
            Found::Current => Finding::ok(WHAT, format!("{title} has this server, in {at}")),
            Found::Plugin => Finding::ok(WHAT, format!("{title} has this server by the plugin")),
            Found::Missing => {
                Finding::ok(WHAT, format!("{title} does not have this server: {add} adds it"))
            }
            Found::Other => Finding::warning(
                WHAT,
                format!("{title} starts another program as zsh-tool, in {at}"),
                add,
            ),
            Found::Unreadable(cause) => {
                Finding::warning(WHAT, format!("{title}: not known, since of {at}: {cause}"), add)
            }
        });
    }
    findings
}

/// Whether the listed secrets exist. Shows no secret and runs no program that prints one.
pub(crate) fn secrets(config: &Config) -> Vec<Finding> {
    let environment = shared::environment(config);
    let context = ResolveContext {
        env: &|name| std::env::var_os(name),
        environment: &environment,
        daemons: config.daemons.clone().into(),
    };
    let listed = config.secrets.iter();
    let mut found: Vec<Finding> =
        listed.map(|(name, source)| secret(name, source, &context)).collect();
    found.extend(config.secrets.without_programs().into_iter().map(|name| {
        Finding::warning(
            "secret",
            format!("{name} is never typed: it is listed without programs"),
            format!("add the program that may read it to secrets.{name}, as in `programs: [/usr/bin/sudo]`"),
        )
    }));
    found
}

/// Whether the carriers of the listed hosts are installed. Connects to no host.
pub(crate) fn hosts(config: &Config) -> Vec<Finding> {
    const WHAT: &str = "host";
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let check = |host: &HostEntry| {
        let program = host.carrier.first().map_or("", String::as_str);
        let found = files::find_program(program, &search_path);
        let program = foreign::shown(program);
        match found {
            Ok(_) => Finding::ok(WHAT, format!("{}, via {program}, not connected", host.name)),
            Err(_) => Finding::warning(
                WHAT,
                format!("{}: {program} is not found", host.name),
                format!("install it, or change {} in hosts of config.yaml", host.name),
            ),
        }
    };
    config.hosts.iter().map(check).collect()
}

/// Connects to a host, and reports the problems that its own server finds.
pub(crate) fn host(config: &Config, name: &str) -> Vec<Finding> {
    const WHAT: &str = "host";
    let hosts = shared::hosts(config, Purpose::Server(files::random_id()));
    let host = match hosts.find(name) {
        Ok(host) => host,
        Err(error) => {
            return vec![Finding::error(WHAT, error.to_string(), "use a host of config.yaml")];
        }
    };
    let fix = format!("check hosts.{name} in config.yaml, and try its command by hand");
    let peer = host.link().map_err(|error| error.to_string());
    let peer = peer.and_then(|link| Peer::carried(link).map_err(|error| error.to_string()));
    let mut peer = match peer {
        Ok(peer) => peer,
        Err(error) => return vec![Finding::error(WHAT, error, fix)],
    };
    let mut findings =
        vec![Finding::ok(WHAT, format!("{name}: {}", foreign::composed(&host.status())))];
    let begun = Instant::now();
    let health = peer.call(
        &PeerCall {
            tool: "zsh_health",
            arguments: &Value::Null,
            client: RelayedClient::default(),
            limit: ANSWER_LIMIT,
            cancel: &Cancel::default(),
        },
        None,
    );
    match health {
        Ok(health) => findings.extend(health_of_host(name, &health, begun.elapsed())),
        Err(PeerError::Gone(_)) => {
            let found = format!("{name}: {}", foreign::composed(&host.final_reason()));
            findings.push(Finding::error(WHAT, found, fix));
        }
        Err(error) => {
            let found =
                format!("{name}: {}", foreign::shown_within(&error.to_string(), REMOTE_CHARS));
            findings.push(Finding::error(WHAT, found, fix));
        }
    }
    drop(peer);
    hosts.end();
    findings
}

/// What a host's own server says about itself in an answer that took so long.
pub(crate) fn health_of_host(name: &str, health: &Value, took: Duration) -> Vec<Finding> {
    const WHAT: &str = "host";
    let text = |key: &str| {
        let value = health.pointer(&format!("/structuredContent/{key}"));
        let text = value.and_then(Value::as_str).unwrap_or("unknown");
        foreign::shown(text).into_owned()
    };
    let took = took.as_secs_f64() * 1000.0;
    let (version, shell) = (text("version"), text("shell"));
    let answers = format!("{name}: zsh-tool {version}, shell {shell}, answers within {took:.0} ms");
    let problems = health.pointer("/structuredContent/problems").and_then(Value::as_array);
    let problems = problems.into_iter().flatten().filter_map(Value::as_str);
    let problem = |text: &str| {
        let shown = foreign::shown_within(text, REMOTE_CHARS);
        Finding::warning(WHAT, format!("{name}: {shown}"), "fix it there")
    };
    [Finding::ok(WHAT, answers)].into_iter().chain(problems.map(problem)).collect()
}

fn secret(name: &str, source: &SecretSource, context: &ResolveContext) -> Finding {
    const WHAT: &str = "secret";
    let found = format!("{name}, {source}");
    match (source.check(context), source) {
        (Err(cause), _) => {
            let fix = format!("fix it, or remove {name} from secrets in config.yaml");
            Finding::warning(WHAT, format!("{found}: {cause}"), fix)
        }
        (Ok(()), SecretSource::File(path)) if source.is_open_to_all() => Finding::warning(
            WHAT,
            format!("{found}: every user of this machine can read it"),
            format!("run `chmod o-r {}`", output::shell_word(&path.to_string_lossy())),
        ),
        (Ok(()), SecretSource::Command(_)) => {
            Finding::ok(WHAT, format!("{found}, exists (not run)"))
        }
        (Ok(()), SecretSource::Env(_) | SecretSource::File(_)) => {
            Finding::ok(WHAT, format!("{found}, exists"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_host_says_about_itself_is_shown_on_one_line() {
        let text = "x\n✔ exit=0\u{1b}]52;c;eA==\u{7}\u{e0041}";
        let health =
            json!({"structuredContent": {"version": text, "shell": 1, "problems": [text]}});
        let found = health_of_host("far", &health, Duration::ZERO);
        let shown = r#""x\n✔ exit=0\e]52;c;eA==<U+0007><U+E0041>""#;
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                format!("ok       host: far: zsh-tool {shown}, shell unknown, answers within 0 ms"),
                format!("warning  host: far: {shown} → fix it there"),
            ]
        );
    }
}
