//! What a sandboxed command needs, and why it may not get its sandbox.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::text::foreign::ShowPath;

/// Why a command is not started in its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "the sandbox ({mode}) cannot be enforced here: {missing}; the command was not started. The user \
         can set sandbox.best_effort: true to run it all the same, or sandbox.mode: off"
    )]
    NotEnforced { mode: &'static str, missing: String },
    #[error(
        "the sandbox ({mode}) does not let commands into {}: give another cwd, or the user can take it \
         off sandbox.deny_read", directory.shown()
    )]
    Directory { mode: &'static str, directory: PathBuf },
    #[error("the sandbox ({mode}) cannot be made ready: {source}; the command was not started")]
    Io { mode: &'static str, source: io::Error },
}

/// Variables that name the sockets of programs that a person uses, which would act for a command too.
const SOCKET_VARIABLES: [&str; 28] = [
    "BUILDKIT_HOST",
    "CONTAINERD_ADDRESS",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "EMACS_SOCKET_NAME",
    "GNOME_KEYRING_CONTROL",
    "GNUPGHOME",
    "GPG_AGENT_INFO",
    "I3SOCK",
    "KITTY_LISTEN_ON",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "PULSE_SERVER",
    "SCREENDIR",
    "SESSION_MANAGER",
    "SSH_AUTH_SOCK",
    "SWAYSOCK",
    "TMUX",
    "VSCODE_GIT_IPC_HANDLE",
    "VSCODE_IPC_HOOK",
    "VSCODE_IPC_HOOK_CLI",
    "WAYLAND_DISPLAY",
    "WEZTERM_UNIX_SOCKET",
    "XDG_RUNTIME_DIR",
    "ZED_TERM_SOCK",
    "ZELLIJ_SOCKET_DIR",
];

/// The values of those variables in an environment, and the directory in which tmux has its sockets.
pub(crate) fn socket_names(environment: &[(OsString, OsString)]) -> Vec<String> {
    let name = |(name, value): &(OsString, OsString)| {
        let value = value.to_str()?;
        if name == "TMUX_TMPDIR" {
            return Some(format!("{value}/tmux-{}", rustix::process::geteuid()));
        }
        SOCKET_VARIABLES.iter().any(|it| name == it).then(|| value.to_owned())
    };
    environment.iter().filter_map(name).collect()
}

/// What one command needs besides what its policy says.
#[derive(Debug, Clone, Default)]
#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    expect(dead_code, reason = "nothing is enforced there")
)]
pub(crate) struct Needs {
    /// Where it starts.
    pub(crate) directory: PathBuf,
    /// Files that it reads and writes although they are in a directory that it may not read.
    pub(crate) files: Vec<PathBuf>,
    /// Its own temporary directory, in the shared one.
    pub(crate) temporary: Option<PathBuf>,
    /// The directory of those files and of temporary directories: it may read there.
    pub(crate) shared: Option<PathBuf>,
    /// What may name sockets of programs outside of the sandbox ([`socket_names`]).
    pub(crate) named: Vec<String>,
}
