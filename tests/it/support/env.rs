//! A hermetic place to run in: a directory tree and an environment of its own.
//!
//! Nothing of the user's home, configuration or state reaches the program under test,
//! and nothing of the test outlives it. The limit: the system's own files
//! (`/etc/zsh/zshenv`) are read as everywhere.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tempfile::TempDir;

use super::client::Client;
use super::processes::{end, processes_with};

/// The variable by which processes that a test left behind are found.
pub const MARK_VARIABLE: &str = "ZSH_TOOL_TEST_MARK";

/// Starts the oracle without the descriptors that the test's own parents left open, and
/// without what bash adds to the environment.
pub const BARE_ZSH: &str = r#"for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || eval "exec $fd>&-"
done
exec env -u SHLVL -u OLDPWD -u PWD -u _ zsh -c "$1""#;

/// What the tool adds to a command's environment, so that bare zsh has it too.
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

/// Set by `make test-by-host`: commands run on a host, which is this machine.
const BY_HOST: &str = "ZSH_TOOL_TESTS_BY_HOST";

/// The host that calls are to name, if commands run on one.
pub fn host() -> Option<&'static str> {
    std::env::var_os(BY_HOST).map(|_| "here")
}

/// A word that no other test and no other process has.
pub fn unique_word() -> String {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a random uuid");
    uuid.trim().replace('-', "")
}

/// One test's directories and environment.
pub struct Env {
    root: TempDir,
    mark: String,
}

impl Env {
    /// Makes the directories: home, state, an empty `ZDOTDIR`, tmp and the working one.
    pub fn new() -> Env {
        let root = tempfile::Builder::new()
            .prefix("zsh-tool-it-")
            .tempdir()
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

    /// A path below the test's own root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The directory in which the server, and so every command, starts.
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Makes a named pipe in the working directory, for the test to say when a command
    /// goes on.
    pub fn named_pipe(&self, name: &str) -> PathBuf {
        let path = self.work().join(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("the mkfifo program").success());
        path
    }

    /// The word that every process of this test carries in its environment.
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

    /// A command with nothing in its environment but what the test gives.
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

    /// A server that is started and has not been spoken to.
    pub fn client_before_initialize(&self) -> Client {
        Client::start(self.serve(), self.path("stderr"))
    }

    /// Runs the command as bare `zsh -c` does, under the same surroundings as the
    /// tool's: no input, stdout and stderr on one pipe.
    pub fn bare_zsh(&self, command: &str) -> Ended {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut zsh = self.command("bash");
        zsh.args(["-c", BARE_ZSH, "bash", command])
            .envs(ADDED.iter().copied())
            .stdin(Stdio::null())
            .stdout(writer.try_clone().expect("a second end"))
            .stderr(writer);
        let mut child = zsh.spawn().expect("zsh is installed");
        // The command holds the write ends; end of file comes only without them.
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
    /// A test that fails leaves nothing on the machine either.
    fn drop(&mut self) {
        end(&processes_with(&self.mark));
    }
}

/// What a bare shell did.
pub struct Ended {
    /// 0-255, and 128 + N for a death by signal N.
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
