//! A hermetic directory tree and environment for a test.
//!
//! The user's home, configuration and state do not reach the program under test, and no process of
//! the test outlives it. Limits: programs read the system's files (`/etc/zsh/zshenv`) as usual.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::client::Client;
use super::processes::{end, processes_with};

/// The variable that marks a test's processes, to find leftover ones.
pub const MARK_VARIABLE: &str = "ZSH_TOOL_TEST_MARK";

/// Starts the oracle without the descriptors that the test's parents left open, and without
/// variables that bash adds.
pub const BARE_ZSH: &str = r#"for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || eval "exec $fd>&-"
done
exec env -u SHLVL -u OLDPWD -u PWD -u _ zsh -c "$1""#;

/// Variables that the tool adds to a command's environment, so that bare zsh gets them too.
pub const ADDED: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
    ("ZSH_TOOL_TASK", "bare"),
];

/// The program under test.
pub fn binary() -> PathBuf {
    std::env::var_os("ZSH_TOOL_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_zsh-tool")), PathBuf::from)
}

/// A port of the loopback interface at which nothing listens. It is below those that the kernel
/// gives to connections and to listeners without a number, so that no other test gets it meanwhile.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Other processes of tests begin elsewhere.
    let start = std::process::id().wrapping_mul(101);
    let ports = std::iter::repeat_with(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(start) % COUNT;
        u16::try_from(FIRST + number).expect("below 65,536")
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.take(COUNT as usize).find(is_free).expect("a free port")
}

/// Copies a program. Another process does it: a child that this one has just started may hold a
/// file that this one writes, and what any process writes cannot be executed (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().expect("cp is installed");
    assert!(copied.success(), "a copy of {}", from.display());
}

/// Gives the signals that nohup, or a script that starts the tests in the background, ignores
/// their default: programs inherit what their parents ignore.
fn restore_signals() {
    static RESTORED: Once = Once::new();
    RESTORED.call_once(|| {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the default action runs no code of this process.
            let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
            assert_ne!(before, libc::SIG_ERR, "signal {signal} has a default");
        }
    });
}

/// Set by `make test-by-host`: commands run on a host, which is this machine.
const BY_HOST: &str = "ZSH_TOOL_TESTS_BY_HOST";

/// The host that calls must name, if commands run on one.
pub fn host() -> Option<&'static str> {
    std::env::var_os(BY_HOST).map(|_| "here")
}

/// A word that no other test or process has.
pub fn unique_word() -> String {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a random uuid");
    uuid.trim().replace('-', "")
}

/// The directories and environment of one test.
pub struct Env {
    root: TempDir,
    mark: String,
}

impl Env {
    /// Creates the directories: home, state, an empty `ZDOTDIR`, tmp and the working directory.
    pub fn new() -> Env {
        Env::new_in(&std::env::temp_dir())
    }

    /// The same below this directory.
    pub fn new_in(directory: &Path) -> Env {
        restore_signals();
        let root = tempfile::Builder::new()
            .prefix("zsh-tool-it-")
            .tempdir_in(directory)
            .expect("a temporary directory");
        for name in ["home", "state", "zdotdir", "tmp", "work"] {
            fs::create_dir(root.path().join(name)).expect("a directory for the test");
        }
        let env = Env { root, mark: unique_word() };
        if host().is_some() {
            env.configure("");
        }
        env
    }

    /// A path below the test's root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The directory in which the server, and thus every command, starts.
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Creates a named pipe in the working directory, with which the test lets a command continue.
    pub fn named_pipe(&self, name: &str) -> PathBuf {
        let path = self.work().join(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("the mkfifo program").success());
        path
    }

    /// The word in the environment of every process of this test.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Writes the configuration file.
    pub fn configure(&self, yaml: &str) {
        let hosts = host().map(|name| {
            let state = self.path("state-there");
            let binaries = binary();
            format!(
                "\nhosts:\n  {name}: {{command: [env, ZSH_TOOL_STATE_DIR={}], directory: {}, \
                 binary_directory: {}, install: never}}\n",
                state.display(),
                self.work().display(),
                binaries.parent().expect("a folder").display()
            )
        });
        let yaml = [yaml, hosts.as_deref().unwrap_or_default()].concat();
        let folder = self.path("home/.config/zsh-tool");
        fs::create_dir_all(&folder).expect("a folder for the configuration");
        fs::write(folder.join("config.yaml"), yaml).expect("a configuration file");
    }

    /// A command whose environment contains only the test's variables.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("LANG", "C.UTF-8")
            .env("TMPDIR", self.path("tmp"))
            .env("ZDOTDIR", self.path("zdotdir"))
            .env("ZSH_TOOL_STATE_DIR", self.path("state"))
            .env(MARK_VARIABLE, &self.mark)
            .current_dir(self.work());
        // With it, what is said of commands is tried in a sandbox: the words must be the same.
        if let Some(mode) = std::env::var_os("ZSH_TOOL_TESTS_SANDBOX") {
            command.env("ZSH_TOOL_SANDBOX_MODE", mode);
            command.env("ZSH_TOOL_SANDBOX_WRITE", env!("CARGO_TARGET_TMPDIR"));
        }
        // `make test-xnu-poll` preloads a library into the program under test.
        let library = std::env::var_os("LD_PRELOAD").filter(|_| program.as_ref() == binary());
        command.envs(library.map(|library| ("LD_PRELOAD", library)));
        command
    }

    /// `zsh-tool serve`, not yet started.
    pub fn serve(&self) -> Command {
        let mut command = self.command(binary());
        command.arg("serve");
        command
    }

    /// A server that is started and initialized.
    pub fn client(&self) -> Client {
        let client = self.client_before_initialize();
        client.initialize();
        client
    }

    /// A server that is started but not initialized.
    pub fn client_before_initialize(&self) -> Client {
        Client::start(self.serve(), self.path("stderr"))
    }

    /// Runs the command with bare `zsh -c` under the tool's conditions: no input, stdout and stderr
    /// on one pipe.
    pub fn bare_zsh(&self, command: &str) -> Ended {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut zsh = self.command("bash");
        zsh.args(["-c", BARE_ZSH, "bash", command])
            .envs(ADDED.iter().copied())
            .stdin(Stdio::null())
            .stdout(writer.try_clone().expect("a second end"))
            .stderr(writer);
        let mut child = zsh.spawn().expect("zsh is installed");
        // The command has the write ends open; end of file comes only when they are closed.
        drop(zsh);
        let mut output = Vec::new();
        reader.read_to_end(&mut output).expect("the output of zsh");
        let status = child.wait().expect("the end of zsh");
        Ended {
            exit_code: shell_exit_code(status),
            output: String::from_utf8(output).expect("the oracle prints UTF-8"),
        }
    }
}

impl Drop for Env {
    /// Failing tests leave no process behind either.
    fn drop(&mut self) {
        end(&processes_with(&self.mark));
    }
}

/// The result of a bare shell.
pub struct Ended {
    /// 0 to 255; 128 + N if signal N ended it.
    pub exit_code: i64,
    /// stdout and stderr in the order in which they were written.
    pub output: String,
}

/// The code that a shell reports for a wait status.
pub fn shell_exit_code(status: ExitStatus) -> i64 {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => code.into(),
        (None, Some(signal)) => 128 + i64::from(signal),
        (None, None) => panic!("neither a code nor a signal: {status:?}"),
    }
}
