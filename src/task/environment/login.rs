//! The environment of an interactive login shell that starts with the server's: with PATH and
//! whatever else the user's startup files set. It is kept in memory only.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{EnvironmentSettings, entries, sandbox, search_path, value};
use crate::base::sync::CondvarMutex;
use crate::process::capture::{self, CaptureError, Limits};
use crate::process::files::{self, FileVersion, version};
use crate::process::needs::SandboxError;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::process::tree::COOKIE_VARIABLE;
use crate::sandbox::policy::Policy;
use crate::task::prologue::single_quoted;
use crate::task::sessions::{OF_THE_SHELL, Variables};
use crate::task::shell::{Shell, ShellKind};
use crate::text::foreign::ShowPath;

/// How long the shell may take. Its start files may wait for a network.
const LIMIT: Duration = Duration::from_secs(5);
/// The longest output: an environment, and what start files print before it.
const MAX_OUTPUT: usize = 4 << 20;

/// The start files of a shell: those of the system, and those of the user.
struct StartFiles {
    system: &'static [&'static str],
    user: &'static [&'static str],
}

const ZSH_START_FILES: StartFiles = StartFiles {
    system: &[
        "/etc/zshenv",
        "/etc/zprofile",
        "/etc/zshrc",
        "/etc/zlogin",
        "/etc/zsh/zshenv",
        "/etc/zsh/zprofile",
        "/etc/zsh/zshrc",
        "/etc/zsh/zlogin",
    ],
    user: &[".zshenv", ".zprofile", ".zlogin", ".zshrc"],
};

const OTHER_START_FILES: StartFiles = StartFiles {
    system: &["/etc/profile", "/etc/bash.bashrc", "/etc/bashrc"],
    user: &[".bash_profile", ".bash_login", ".profile", ".bashrc"],
};

/// The environment of the user's login shell, once a command has needed it.
#[derive(Debug, Default)]
pub(super) struct LoginShell(CondvarMutex<RunState>);

#[derive(Debug, Default)]
struct RunState {
    is_running: bool,
    last: Option<Arc<Answer>>,
}

/// The result of one run of the shell.
#[derive(Debug)]
struct Answer {
    /// The start files as they were before it ran.
    files: Vec<(PathBuf, Option<FileVersion>)>,
    /// `None` if the shell failed: it does not run again before a file changes.
    variables: Option<Arc<Variables>>,
}

impl Answer {
    fn is_current(&self) -> bool {
        self.files.iter().all(|(path, known)| version(path) == *known)
    }
}

impl LoginShell {
    /// The shell's environment, if it has one, and the problem, if this call has run the shell.
    pub(super) fn environment(
        &self,
        settings: &EnvironmentSettings,
        shell: &Shell,
        policy: &Policy,
    ) -> (Option<Arc<Variables>>, Option<String>) {
        let mut state = self.0.lock();
        loop {
            while state.is_running {
                state = self.0.wait(state, None);
            }
            let last = state.last.clone();
            drop(state);
            if let Some(answer) = last.filter(|answer| answer.is_current()) {
                return (answer.variables.clone(), None);
            }
            state = self.0.lock();
            if !state.is_running {
                break;
            }
        }
        state.is_running = true;
        drop(state);
        // Ends the run even if this thread panics.
        let mut running = Running { shell: self, answer: None };
        let files = start_files(shell, &settings.inherited);
        let mut versions: Vec<_> = files.iter().cloned().map(with_version).collect();
        let result = run(settings, shell, policy);
        let problem = result.as_ref().err().map(|error| {
            format!(
                "environment: login: `{} -lic` failed: {error}. Commands start with the environment of \
                 the client, until a start file such as {} changes.",
                shell.path.shown(),
                files.last().map(|path| path.shown().to_string()).unwrap_or_default(),
            )
        });
        let variables = result.ok().map(Arc::new);
        if let Some(variables) = &variables {
            // A start file may have set ZDOTDIR.
            let more = start_files(shell, variables).into_iter();
            versions.extend(more.filter(|path| !files.contains(path)).map(with_version));
        }
        running.answer = Some(Arc::new(Answer { files: versions, variables: variables.clone() }));
        (variables, problem)
    }
}

struct Running<'a> {
    shell: &'a LoginShell,
    answer: Option<Arc<Answer>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.shell.0.lock();
        *state = RunState { is_running: false, last: self.answer.take() };
        drop(state);
        self.shell.0.notify_all();
    }
}

fn with_version(path: PathBuf) -> (PathBuf, Option<FileVersion>) {
    let version = version(&path);
    (path, version)
}

fn start_files(shell: &Shell, environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let home = value(environment, "HOME");
    let (files, own) = match shell.kind {
        ShellKind::Zsh => (ZSH_START_FILES, value(environment, "ZDOTDIR").or(home)),
        ShellKind::Bash | ShellKind::Sh => (OTHER_START_FILES, home),
    };
    let own = Path::new(own.unwrap_or(OsStr::new("/")));
    let system = files.system.iter().map(PathBuf::from);
    system.chain(files.user.iter().map(|name| own.join(name))).collect()
}

/// Why there is no environment of a login shell.
#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error("the program env is missing")]
    NoEnv,
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("it did not print its environment: a start file ends or replaces the shell")]
    Nothing,
}

/// Runs the shell as a terminal window would, but without a terminal. Leaves out what its start
/// files print.
fn run(
    settings: &EnvironmentSettings,
    shell: &Shell,
    policy: &Policy,
) -> Result<Variables, LoginError> {
    let inherited = &settings.inherited;
    let env = files::find_program("env", search_path(inherited)).map_err(|_| LoginError::NoEnv)?;
    let marker = format!("zsh-tool:{}:", files::random_id());
    // Quoted names are not expanded as aliases.
    let print = format!("'printf' '%s' '{marker}'");
    let script = format!("{print}; {} -0; {print}", single_quoted(&env.to_string_lossy()));
    let directory = value(inherited, "HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let launch = Launch {
        program: shell.path.clone(),
        args: vec!["-lic".into(), script.into()],
        environment: inherited.to_vec(),
        sandbox: sandbox(policy, &directory)?,
        directory,
        wiring: Wiring::Pipe(StderrTarget::Nowhere),
        group: None,
    };
    let daemons = Some(Arc::clone(&settings.daemons));
    let limits = Limits { time: LIMIT, output: MAX_OUTPUT, daemons };
    let captured = capture::run(launch, &limits).map_err(CaptureError::from)?;
    // The exit code does not matter: it may be that of a start file's last command.
    captured.exit.ok_or(CaptureError::TooMuch(MAX_OUTPUT))?;
    let from_login = between(&captured.output, marker.as_bytes()).ok_or(LoginError::Nothing)?;
    Ok(merged(inherited, &from_login))
}

/// The entries of the environment that was printed between two markers.
fn between(output: &[u8], marker: &[u8]) -> Option<Variables> {
    let find = |text: &[u8]| text.windows(marker.len()).position(|part| part == marker);
    let rest = output.get(find(output)? + marker.len()..)?;
    rest.get(..find(rest)?).map(entries)
}

/// The login shell's variables. Those that belong to one process keep the server's values, and PATH
/// ends with the directories that only the server has.
fn merged(inherited: &[(OsString, OsString)], from_login: &[(OsString, OsString)]) -> Variables {
    let is_per_process =
        |name: &OsStr| name == COOKIE_VARIABLE || OF_THE_SHELL.iter().any(|other| name == *other);
    let own = from_login.iter().filter(|(name, _)| !is_per_process(name)).cloned();
    let kept = inherited.iter().filter(|(name, _)| is_per_process(name)).cloned();
    let mut variables: Variables = own.chain(kept).collect();
    if let (Some(first), Some(second)) = (value(from_login, "PATH"), value(inherited, "PATH")) {
        let path = joined_paths(first, second);
        variables.retain(|(name, _)| name != "PATH");
        variables.push(("PATH".into(), path));
    }
    variables
}

/// The directories of the first, then those that only the second has.
fn joined_paths(first: &OsStr, second: &OsStr) -> OsString {
    let directories = |path| OsStr::as_bytes(path).split(|byte| *byte == b':');
    let mut all: Vec<&[u8]> = directories(first).collect();
    let more: Vec<&[u8]> =
        directories(second).filter(|directory| !all.contains(directory)).collect();
    all.extend(more);
    OsString::from_vec(all.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_start_files_is_left_out() {
        let output = b"Welcome!\nA=1\0m:A=2\0B=x=\ny\0m:A=3\0bye";
        assert_eq!(between(output, b"m:"), Some(entries(b"A=2\0B=x=\ny\0")));
        assert_eq!(between(b"m:A=2\0", b"m:"), None);
        assert_eq!(between(b"", b"m:"), None);
    }

    #[test]
    fn the_users_path_comes_first_and_the_shells_own_variables_stay() {
        let inherited = entries(b"PATH=/usr/bin:/client\0PWD=/w\0GONE=1\0");
        let from_login = entries(b"PATH=/nvm:/usr/bin\0PWD=/home\0NEW=1\0");
        let expected = entries(b"NEW=1\0PWD=/w\0PATH=/nvm:/usr/bin:/client\0");
        assert_eq!(merged(&inherited, &from_login), expected);
    }
}
