//! A server that runs as an ordinary user, who cannot inspect other users' processes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::client::Client;
use super::env::{Env, binary, copy_program};

/// A user and group that own nothing.
pub const NOBODY: &str = "65534";

/// Starts a server. Tests that run as root switch to the user nobody for it.
pub fn client(env: &Env) -> Client {
    if is_root() { start(env, "true") } else { env.client() }
}

/// Like [`client`], in a new mount namespace, in which root first runs `preparation`; its `$1` is
/// the test's directory.
pub fn client_after(env: &Env, preparation: &str) -> Client {
    require_root();
    start(env, preparation)
}

/// A preparation that gives the user nobody full sudo rights without a password, with these sudo
/// defaults, such as `use_pty` or `!use_pty`.
pub fn let_sudo(defaults: &str) -> String {
    format!(
        "printf 'nobody ALL=(ALL) NOPASSWD: ALL\\nDefaults {defaults}\\n' > \"$1/sudoers\"
        chmod 440 \"$1/sudoers\"; mount --bind \"$1/sudoers\" /etc/sudoers"
    )
}

/// Runs the program under test in the same way.
pub fn command_after(env: &Env, preparation: &str, arguments: &[&str]) -> Command {
    require_root();
    prepare(env, preparation, arguments)
}

/// Fails with the remedy.
pub fn require_root() {
    assert!(
        is_root(),
        "this test mounts file systems of its own: run it as root, as in `sudo make test`"
    );
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc is mounted").uid() == 0
}

fn start(env: &Env, preparation: &str) -> Client {
    let client = Client::start(prepare(env, preparation, &["serve"]), env.path("stderr"));
    client.initialize();
    client
}

fn prepare(env: &Env, preparation: &str, arguments: &[&str]) -> Command {
    let program = env.path("zsh-tool");
    if !program.exists() {
        copy_program(&binary(), &program);
    }
    open_to_all(&env.path(""));
    open_to_all(&program);
    for name in ["home", "state", "zdotdir", "tmp", "work"] {
        let given = Command::new("chown")
            .args(["-R", &format!("{NOBODY}:{NOBODY}")])
            .arg(env.path(name))
            .status();
        assert!(given.expect("the chown program").success());
    }
    let script = format!(
        "{preparation}; shift; exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups \"$@\""
    );
    let mut command = env.command("unshare");
    command
        .args(["--mount", "sh", "-ec", &script, "sh"])
        .arg(env.path(""))
        .arg(program)
        .args(arguments);
    command
}

fn open_to_all(path: &Path) {
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).expect("a path of the test's own");
}
