//! What a sandboxed task has of its own: a place for its files, apart from those that it may not read,
//! and in the mode read-only a temporary directory.

mod refusals;

pub(crate) use refusals::refusal;
pub(super) use refusals::start_error;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::journal::ServerDir;
use super::live::Confined;
use super::request::StartError;
use crate::process::files::{self, TemporaryDirectory};
use crate::process::needs::{Needs, socket_names};
use crate::process::sandbox::{self, Sandbox};
use crate::sandbox::limits::{self, Namespaces};
use crate::sandbox::policy::{self, Mode, Policy};
use crate::text::foreign::ShowPath;

/// The directory, in that of the server, for the files of sandboxed tasks.
const SHARED: &str = "sandbox";

/// That directory.
pub(super) fn shared_directory(server: &ServerDir) -> PathBuf {
    server.path.join(SHARED)
}

/// Where a task's files are.
pub(super) struct Place {
    /// `None` without a sandbox.
    shared: Option<PathBuf>,
    temporary: Option<TemporaryDirectory>,
}

impl Place {
    /// Makes the directories that a task with this policy needs.
    ///
    /// # Errors
    /// One of them cannot be made, or the server has no directory.
    pub(super) fn create(
        policy: &Policy,
        server: Result<&ServerDir, &str>,
        id: &str,
    ) -> Result<Place, StartError> {
        if policy.is_off() {
            return Ok(Place { shared: None, temporary: None });
        }
        let failed = |error: &dyn std::fmt::Display| {
            StartError::SandboxPlace(format!("no directory for the files of its sandbox: {error}"))
        };
        // Elsewhere, such as in /tmp, other sandboxed commands could replace them.
        let shared = shared_directory(server.map_err(|cause| failed(&cause))?);
        files::private_subdir(&shared).map_err(|error| failed(&error))?;
        let mut temporary = None;
        if policy.mode == Mode::ReadOnly {
            let path = shared.join(format!("{id}.tmp"));
            files::private_subdir(&path).map_err(|error| failed(&error))?;
            temporary = Some(TemporaryDirectory(path));
        }
        Ok(Place { shared: Some(shared), temporary })
    }

    /// The directory for the task's files, if it is not the server's.
    pub(super) fn directory<'a>(
        &'a self,
        server: Result<&'a ServerDir, &'a str>,
    ) -> Result<&'a Path, &'a str> {
        match &self.shared {
            Some(shared) => Ok(shared),
            None => server.map(|server| &*server.path),
        }
    }

    /// Makes programs use the temporary directory.
    pub(super) fn add_to(&self, environment: &mut Vec<(OsString, OsString)>) {
        const VARIABLE: &str = "TMPDIR";
        if let Some(TemporaryDirectory(path)) = &self.temporary {
            environment.retain(|(name, _)| name != VARIABLE);
            environment.push((VARIABLE.into(), path.clone().into()));
        }
    }

    /// What the sandbox must let the task use, which starts in `directory`.
    pub(super) fn needs<'a>(
        &self,
        directory: &Path,
        files: impl Iterator<Item = &'a Path>,
        environment: &[(OsString, OsString)],
    ) -> Needs {
        Needs {
            named: socket_names(environment),
            directory: directory.to_path_buf(),
            files: files.map(Path::to_path_buf).collect(),
            temporary: self.temporary.as_ref().map(|temporary| temporary.0.clone()),
            shared: self.shared.clone(),
        }
    }

    /// The directory that is to be removed with the task.
    pub(super) fn into_temporary(self) -> Option<TemporaryDirectory> {
        self.temporary
    }
}

/// What is known of a task's sandbox. `None` if it has none.
pub(super) fn confined(policy: Policy, sandbox: Option<&Sandbox>) -> Option<Box<Confined>> {
    if policy.is_off() {
        return None;
    }
    let (protected, absent) = sandbox
        .map(|sandbox| (sandbox.protected().to_vec(), sandbox.absent().to_vec()))
        .unwrap_or_default();
    let closed = sandbox.map(Sandbox::closed).unwrap_or_default();
    let losses = limits::losses(&policy, sandbox::abilities());
    let missing = losses.into_iter().map(|loss| loss.text().to_owned()).collect();
    Some(Box::new(Confined { policy, missing, protected, absent, closed }))
}

/// The sandbox that is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    /// The mode, what enforces it, and what it does not stop.
    pub(crate) text: String,
    /// Why commands are refused, or what is not enforced although they run.
    pub(crate) problem: Option<String>,
}

/// Describes the sandbox for people who rely on it.
pub(crate) fn summary(settings: &Result<policy::Settings, String>) -> Summary {
    let settings = match settings {
        Ok(settings) => settings,
        Err(fault) => {
            let problem = format!("{fault}; no command is started until that is corrected");
            return Summary { text: "unknown".to_owned(), problem: Some(problem) };
        }
    };
    let system = sandbox::abilities();
    let policy = settings.policy();
    let mut means = Vec::new();
    if system.abi > 0 {
        means.push(format!("Landlock (version {})", system.abi));
    }
    if system.filters {
        means.push("a filter of system calls".to_owned());
    }
    match system.namespaces {
        Namespaces::Direct => means.push("own mounts".to_owned()),
        Namespaces::WithUser => means.push("own mounts in a user namespace".to_owned()),
        Namespaces::Unavailable => {}
    }
    let means = if means.is_empty() { "nothing".to_owned() } else { means.join(", ") };
    if policy.is_off() {
        let text = format!("off; a tighter one would be enforced by {means}");
        return Summary { text, problem: None };
    }
    let gaps = limits::gaps(system).join("; ");
    let open = if gaps.is_empty() { gaps } else { format!("; not stopped: {gaps}") };
    let losses: Vec<&str> =
        limits::losses(&policy, system).iter().map(|loss| loss.text()).collect();
    let problem = (!losses.is_empty()).then(|| {
        let losses = losses.join("; ");
        if policy.best_effort {
            format!("the sandbox ({policy}) is not whole: {losses}")
        } else {
            format!(
                "commands are refused, since the sandbox ({policy}) cannot be enforced: {losses}"
            )
        }
    });
    Summary { text: format!("{policy}, enforced by {means}{open}"), problem }
}

/// Names what programs outside of the sandbox obey and was made while a command ran, or since an
/// earlier one: what is missing when it starts cannot be protected.
pub(crate) fn notes_made(sandbox: &Confined, made: &[PathBuf]) -> Vec<String> {
    let (own, others): (Vec<PathBuf>, Vec<PathBuf>) =
        made.iter().cloned().partition(|path| sandbox.absent.contains(path));
    note_made("while this ran", &own).into_iter().chain(note_made_before(&others)).collect()
}

/// The same for what was made before a command started.
pub(super) fn note_made_before(made: &[PathBuf]) -> Option<String> {
    note_made("since an earlier command started", made)
}

fn note_made(when: &str, made: &[PathBuf]) -> Option<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let made: Vec<String> = made.iter().map(|path| shown_below(path, home.as_deref())).collect();
    (!made.is_empty()).then(|| {
        format!(
            "made {when}: {}. Programs outside of the sandbox obey it, so look at it first",
            made.join(", ")
        )
    })
}

/// The path with `~` for the home directory, as that is given or without links.
fn shown_below(path: &Path, home: Option<&Path>) -> String {
    let real = home.and_then(|home| home.canonicalize().ok());
    let homes = [home, real.as_deref()].into_iter().flatten();
    match homes.filter_map(|home| path.strip_prefix(home).ok()).next() {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => Path::new("~").join(rest).shown().to_string(),
        None => path.shown().to_string(),
    }
}
