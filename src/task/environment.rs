//! What a command starts with besides its own arguments: the server's environment or that of a
//! login shell, what direnv and mise add for its directory, and the files of the client that are
//! sourced before it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::by_policy::ByPolicy;
use super::sessions::{Variables, variable};
use super::shell::Shell;
use crate::process::needs::{Needs, SandboxError};
use crate::process::sandbox::Sandbox;
use crate::process::tree::COOKIE_VARIABLE;
use crate::sandbox::policy::Policy;
use crate::shell::mode::EnvironmentTool;
use client::ClientFiles;
use login::LoginShell;
use tools::Tools;

pub(crate) mod client;
mod login;
mod tools;

/// Where environments come from, by the user's settings.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentSettings {
    /// What commands inherit from the server.
    pub inherited: Arc<Variables>,
    /// Whether commands start with what a login shell makes of that.
    pub login: bool,
    /// Run for the variables of a command's directory.
    pub tools: Vec<EnvironmentTool>,
    /// Variables that hold listed secrets: no command gets them.
    pub hidden: Vec<String>,
    /// Where the client has files to source before each command.
    pub client: ClientFiles,
    /// Programs that a login shell may leave running.
    pub daemons: Arc<[String]>,
    /// The user's sandbox. The login shell and tools run in it, or in that of the command, where that
    /// one is tighter: they run programs that commands can write. `None` without one.
    pub sandbox: Option<Policy>,
}

impl EnvironmentSettings {
    /// What programs that prepare a command with this policy may do.
    fn policy_for<'a>(&'a self, command: &'a Policy) -> Cow<'a, Policy> {
        match &self.sandbox {
            Some(own) if own != command => Cow::Owned(own.meet(command)),
            _ => Cow::Borrowed(command),
        }
    }
}

/// The sandbox of a program that runs in this directory.
fn sandbox(policy: &Policy, directory: &Path) -> Result<Option<Arc<Sandbox>>, SandboxError> {
    let needs = Needs { directory: directory.to_path_buf(), ..Needs::default() };
    Ok(Sandbox::prepare(policy, &needs)?.map(Arc::new))
}

/// What one command starts with.
#[derive(Debug, Clone, Default)]
pub struct StartEnvironment {
    pub variables: Arc<Variables>,
    /// To be sourced before the command.
    pub files: Vec<PathBuf>,
    /// Problems that were not reported before.
    pub problems: Vec<String>,
}

/// The environments of a server's commands, apart for each sandbox: what a program answers that may do
/// more is not for a command that may do less, nor the other way round.
#[derive(Debug, Default)]
pub(crate) struct Environments(Mutex<ByPolicy<Arc<Answers>>>);

/// What the programs have answered in one sandbox.
#[derive(Debug, Default)]
struct Answers {
    login: LoginShell,
    tools: Tools,
}

impl Environments {
    /// What a command with this policy starts with in this directory. May run the login shell and the
    /// tools; a second command waits for the login shell that the first one has started.
    pub(crate) fn environment_for(
        &self,
        settings: &EnvironmentSettings,
        shell: &Shell,
        directory: &Path,
        policy: &Policy,
    ) -> StartEnvironment {
        let is_hidden = |name: &OsStr| settings.hidden.iter().any(|hidden| name == hidden.as_str());
        let hide = |variables: &mut Arc<Variables>| {
            if variables.iter().any(|(name, _)| is_hidden(name)) {
                Arc::make_mut(variables).retain(|(name, _)| !is_hidden(name));
            }
        };
        let mut problems = Vec::new();
        let mut variables = Arc::clone(&settings.inherited);
        if !settings.login && settings.tools.is_empty() {
            return StartEnvironment { variables, files: settings.client.files(), problems };
        }
        let policy = settings.policy_for(policy);
        let answers = self.answers(&policy);
        if settings.login {
            let (login, problem) = answers.login.environment(settings, shell, &policy);
            variables = login.unwrap_or(variables);
            problems.extend(problem);
            // Before the tools run: they run programs of the directory.
            hide(&mut variables);
        }
        for tool in &settings.tools {
            let set = Arc::make_mut(&mut variables);
            problems.extend(answers.tools.apply(*tool, &policy, directory, set));
            hide(&mut variables);
        }
        StartEnvironment { variables, files: settings.client.files(), problems }
    }

    fn answers(&self, policy: &Policy) -> Arc<Answers> {
        let mut kept = self.0.lock();
        kept.get(policy).unwrap_or_else(|| {
            let new = Arc::<Answers>::default();
            kept.put(policy, Arc::clone(&new));
            new
        })
    }
}

/// Makes programs print instead of starting a pager or asking at a prompt that no user sees. Set in
/// pipe mode, unless the user has set them.
const NON_INTERACTIVE: [(&str, &str); 5] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
];

/// The type of the emulated terminal.
const TERMINAL: &str = "xterm-256color";

/// Secrets that clients give to their servers; commands must not get them.
const CLIENT_TOKENS: [&str; 1] = ["CLAUDE_CODE_MESSAGING_TOKEN"];

/// Where programs are looked up if PATH is not set, as in shells.
const DEFAULT_PATH: &str = if cfg!(target_os = "macos") {
    // The first is where Homebrew installs on Apple's own processors.

    "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
} else {
    "/usr/local/bin:/usr/bin:/bin"
};

/// A locale with UTF-8. Not every version of macOS has C.UTF-8.
pub(crate) const UTF8_LOCALE: &str =
    if cfg!(target_os = "macos") { "en_US.UTF-8" } else { "C.UTF-8" };

/// The PATH of an environment. The server looks up the shell in its own; a call's additions affect
/// only its command.
pub(crate) fn search_path(environment: &[(OsString, OsString)]) -> &OsStr {
    value(environment, "PATH").unwrap_or(OsStr::new(DEFAULT_PATH))
}

/// The variables of `NAME=VALUE` entries that end with NUL.
pub(crate) fn entries(bytes: &[u8]) -> Variables {
    bytes.split(|byte| *byte == 0).filter_map(variable).collect()
}

fn value<'a>(environment: &'a [(OsString, OsString)], wanted: &str) -> Option<&'a OsStr> {
    let mut entries = environment.iter().rev();
    entries.find(|(name, _)| name == wanted).map(|(_, value)| value.as_os_str())
}

/// Builds a command's environment from the server's.
pub(crate) fn environment(
    inherited: &[(OsString, OsString)],
    added: &[(String, String)],
    cookie: &str,
    on_terminal: bool,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = inherited
        .iter()
        .filter(|(name, _)| !CLIENT_TOKENS.iter().any(|token| name == token))
        .cloned()
        .collect();
    let is_set = |name: &&str| value(&variables, name).is_some_and(|value| !value.is_empty());
    if !["LC_ALL", "LC_CTYPE", "LANG"].iter().any(is_set) {
        set(&mut variables, "LANG", UTF8_LOCALE);
    }
    if on_terminal {
        set(&mut variables, "TERM", TERMINAL);
    } else {
        for (name, default) in NON_INTERACTIVE {
            if value(&variables, name).is_none() {
                set(&mut variables, name, default);
            }
        }
    }
    for (name, value) in added {
        set(&mut variables, name, value);
    }
    set(&mut variables, COOKIE_VARIABLE, cookie);
    variables
}

fn set(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    variables.retain(|(known, _)| known != OsStr::new(name));
    variables.push((name.into(), value.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(
        inherited: &[(&str, &str)],
        added: &[(&str, &str)],
        on_terminal: bool,
    ) -> Vec<(String, String)> {
        let inherited: Vec<_> = inherited.iter().map(|(n, v)| (n.into(), v.into())).collect();
        let added: Vec<_> = added.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        environment(&inherited, &added, "i/t", on_terminal)
            .into_iter()
            .map(|(n, v)| (n.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()))
            .collect()
    }

    fn value<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
        variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn the_user_decides_and_the_defaults_fill_in() {
        let variables = built(&[("PAGER", "less"), ("LANG", "de_DE.UTF-8")], &[], false);
        assert_eq!(value(&variables, "PAGER"), Some("less"));
        assert_eq!(value(&variables, "GIT_PAGER"), Some("cat"));
        assert_eq!(value(&variables, "LANG"), Some("de_DE.UTF-8"));
        assert_eq!(value(&variables, "ZSH_TOOL_TASK"), Some("i/t"));
    }

    #[test]
    fn a_terminal_gets_no_non_interactive_defaults() {
        let variables = built(&[("TERM", "dumb")], &[("EDITOR", "vi")], true);
        assert_eq!(value(&variables, "TERM"), Some("xterm-256color"));
        assert_eq!(value(&variables, "PAGER"), None);
        assert_eq!(value(&variables, "EDITOR"), Some("vi"));
        assert_eq!(value(&variables, "LANG"), Some(UTF8_LOCALE));
    }

    #[test]
    fn a_command_can_neither_see_client_tokens_nor_forge_the_cookie() {
        let variables =
            built(&[("CLAUDE_CODE_MESSAGING_TOKEN", "t")], &[("ZSH_TOOL_TASK", "other")], false);
        assert_eq!(value(&variables, "CLAUDE_CODE_MESSAGING_TOKEN"), None);
        assert_eq!(value(&variables, "ZSH_TOOL_TASK"), Some("i/t"));
    }
}
