//! The variables that direnv and mise set for a directory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{sandbox, search_path};
use crate::process::capture::{self, Limits, RunError};
use crate::process::files::{self, NoProgram};
use crate::process::needs::SandboxError;
use crate::process::signals::Exit;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::sandbox::policy::Policy;
use crate::shell::mode::EnvironmentTool;
use crate::task::sessions::Variables;
use crate::text::foreign::ShowPath;

/// How long a tool may take: `.envrc` may build things.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a tool that took too long is not run again in that directory.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest output.
const MAX_OUTPUT: usize = 4 << 20;
/// How many directories are remembered.
const MAX_DIRECTORIES: usize = 256;

/// Variables to set or, without a value, to unset.
type Changes = BTreeMap<String, Option<String>>;

/// The tools' answers, by directory.
#[derive(Debug, Default)]
pub(super) struct Tools {
    answers: Mutex<HashMap<(EnvironmentTool, PathBuf), Changes>>,
    failures: Mutex<HashMap<(EnvironmentTool, PathBuf), Failure>>,
}

#[derive(Debug)]
struct Failure {
    /// The problem as reported.
    text: String,
    /// When the tool may run again.
    retry_at: Instant,
}

impl Tools {
    /// Adds a tool's variables for this directory. The tool runs before each command: direnv gets
    /// its last answer, and evaluates nothing if that is still right. Returns a problem, unless it
    /// was returned before.
    pub(super) fn apply(
        &self,
        tool: EnvironmentTool,
        policy: &Policy,
        directory: &Path,
        variables: &mut Variables,
    ) -> Option<String> {
        let mut key = (tool, directory.to_path_buf());
        let failed = |failure: &Failure| failure.retry_at > Instant::now();
        if self.failures.lock().get(&key).is_some_and(failed) {
            return None;
        }
        let mut changes = self.answers.lock().get(&key).cloned().unwrap_or_default();
        if tool == EnvironmentTool::Direnv {
            set(variables, &changes);
        }
        let answer = run(tool, policy, directory, variables);
        let pause = match answer {
            Err(ToolError::Run(RunError::Late(_))) => PAUSE,
            _ => Duration::ZERO,
        };
        let is_missing = matches!(answer, Err(ToolError::Missing(_)));
        let (answer, problem) =
            answer.unwrap_or_else(|error| (Changes::new(), Some(error.to_string())));
        set(variables, &answer);
        changes.extend(answer);
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_DIRECTORIES {
            answers.clear();
        }
        answers.insert(key.clone(), changes);
        drop(answers);
        let mut failures = self.failures.lock();
        let Some(problem) = problem else {
            failures.remove(&key);
            return None;
        };
        let [program, ..] = tool.command_line();
        let text = if is_missing {
            // It is missing in every directory.
            key.1 = PathBuf::new();
            format!(
                "environment_tools: {program} {problem}. Install it, or remove it from the setting."
            )
        } else {
            format!(
                "environment_tools: `{}` in {}: {problem}. Run it there to see why.",
                tool.command_line().join(" "),
                directory.shown()
            )
        };
        let retry_at = Instant::now() + pause;
        let before = failures.insert(key, Failure { text: text.clone(), retry_at });
        before.is_none_or(|before| before.text != text).then_some(text)
    }
}

/// Why a tool has no answer.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error(transparent)]
    Missing(#[from] NoProgram),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("its answer is longer than {MAX_OUTPUT} bytes")]
    TooMuch,
    #[error("its answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// A tool's answer, and its problem. A failing direnv has both: it unsets what it has set.
fn run(
    tool: EnvironmentTool,
    policy: &Policy,
    directory: &Path,
    variables: &Variables,
) -> Result<(Changes, Option<String>), ToolError> {
    let [program, arguments @ ..] = tool.command_line();
    let launch = Launch {
        program: files::find_program(program, search_path(variables))?,
        args: arguments.map(OsString::from).to_vec(),
        environment: variables.clone(),
        directory: directory.to_path_buf(),
        wiring: Wiring::Pipe(StderrTarget::Nowhere),
        group: None,
        sandbox: sandbox(policy, directory)?,
    };
    let limits = Limits { time: LIMIT, output: MAX_OUTPUT, daemons: None };
    let captured = capture::run(launch, &limits)?;
    let exit = captured.exit.ok_or(ToolError::TooMuch)?;
    let hint = match tool {
        EnvironmentTool::Direnv => ": .envrc is not allowed (`direnv allow`), or fails",
        EnvironmentTool::Mise => "",
    };
    let problem =
        (exit != Exit::Code(0)).then(|| format!("it ended with exit code {}{hint}", exit.code()));
    let output = captured.output.trim_ascii();
    if output.is_empty() {
        Ok((Changes::new(), problem))
    } else {
        Ok((serde_json::from_slice(output)?, problem))
    }
}

fn set(variables: &mut Variables, changes: &Changes) {
    let usable = |name: &str, value: &Option<String>| {
        let value = value.as_deref().unwrap_or_default();
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
    };
    variables.retain(|(name, _)| {
        let name: &OsStr = name;
        name.to_str().is_none_or(|name| !changes.contains_key(name))
    });
    let new = changes.iter().filter(|(name, value)| usable(name, value));
    variables.extend(new.filter_map(|(name, value)| Some((name.into(), value.as_deref()?.into()))));
}
