//! Looks up the options of a program in its manual page.
//!
//! `man` runs with limits on its time and its output, and no process outlives it.
//! [`crate::shell::manpage`] parses what it prints. Limits: nothing is cached here, and shell
//! builtins have no page of their own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::capture::{self, Captured, Limits, RunError};
use crate::process::needs::{Needs, SandboxError};
use crate::process::sandbox::Sandbox;
use crate::process::signals::Exit;
use crate::process::spawn::{Launch, SpawnError, StderrTarget, Wiring};
use crate::sandbox::policy::Policy;
use crate::shell::manpage;
use crate::task::environment::{self, UTF8_LOCALE};

/// How much of a page to read; the longest pages of a full system have 1.5 MiB.
const MAX_OUTPUT: usize = 2 << 20;
/// The longest page name: that of a file.
const MAX_NAME: usize = 255;
/// A small stack suffices, since the page is on the heap.
const STACK: usize = 256 * 1024;

/// Finds `man` as a user's shell does.
const SCRIPT: &str = r#"exec man -- "$1""#;
/// A shell's exit codes for a program that is missing or cannot be run.
const NOT_RUNNABLE: [i32; 2] = [126, 127];
/// Exit codes for other causes than a missing page: an operational error and a failed child of
/// man-db, a system error of mandoc.
const FAULTS: [i32; 3] = [2, 3, 6];

/// Makes `man` print the page without a pager, in a fixed width, without hyphenation.
const LAYOUT: [(&str, &str); 5] = [
    ("MANPAGER", "cat"),
    ("PAGER", "cat"),
    ("MANWIDTH", "200"),
    // Options of man-db; other programs of this name ignore the variable.
    ("MANOPT", "--no-hyphenation --no-justification"),
    ("LC_ALL", UTF8_LOCALE),
];
/// Variables with which the user may have set another layout; they are removed.
const OTHER_LAYOUT: [&str; 3] = ["MANROFFOPT", "MANROFFSEQ", "MAN_KEEP_FORMATTING"];

/// The options in a manual page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionTable {
    /// The page's name, such as `git-push`.
    pub(crate) page: String,
    /// One line for each option, as [`manpage::to_text`] writes them. [`manpage::present`] selects
    /// the lines to show.
    pub(crate) text: String,
}

/// Why there are no options.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManoptError {
    /// The name cannot be that of a page.
    #[error(
        "{0:?} is not a valid name of a manual page: give the name of a program, as in `git push`"
    )]
    Name(String),
    /// `man` is missing or not executable.
    #[error("`man` was not found in PATH: install man-db, or mandoc")]
    NoMan,
    /// Its sandbox cannot be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// No page has any of these names.
    #[error("there is no manual page {}", .0.join(" or "))]
    NoPage(Vec<String>),
    /// The page names no options.
    #[error("no options were found in the manual page {0}")]
    NoOptions(String),
    /// `man` took too long and was killed.
    #[error("man has not printed the page within {} s: see ALAN_MANOPT_TIMEOUT", .0.as_secs_f64())]
    TimedOut(Duration),
    /// A signal from outside killed `man`; a page may exist.
    #[error("man was ended by signal {0}: try again")]
    Killed(i32),
    /// `man` failed; a page may exist.
    #[error("man failed with exit code {0}: run it by hand to see why")]
    Failed(i32),
    /// The shell that runs `man` could not be started.
    #[error("cannot run man: {0}")]
    Spawn(SpawnError),
}

/// Looks up a command's options, for at most `limit`.
///
/// `words` are the command's name without its directory, and its subcommands: `["git", "push"]` is
/// the page git-push, or git if that does not exist. `environment` is the environment of commands, and
/// `sandbox` that of `man`: commands may have written the program and the page.
///
/// # Errors
/// If the name is invalid, no page or no option is found, or `man` fails.
pub(crate) fn table(
    words: &[String],
    environment: &[(OsString, OsString)],
    sandbox: Option<&Policy>,
    limit: Duration,
) -> Result<OptionTable, ManoptError> {
    let deadline = Instant::now() + limit;
    let pages = pages(words)?;
    let mut without_options = None;
    for page in &pages {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(rendered) =
            show(page, environment, sandbox, left).map_err(|error| match error {
                ManoptError::TimedOut(_) => ManoptError::TimedOut(limit),
                other => other,
            })?
        else {
            continue;
        };
        let rows = manpage::parse(&rendered);
        if !rows.is_empty() {
            return Ok(OptionTable { page: page.clone(), text: manpage::to_text(&rows) });
        }
        without_options.get_or_insert(page);
    }
    Err(match without_options {
        Some(page) => ManoptError::NoOptions(page.clone()),
        None => ManoptError::NoPage(pages),
    })
}

/// Runs [`table`] on a new thread, which is not joined, and passes the result to `done` on that
/// thread.
///
/// # Errors
/// If no thread can be started; `done` is then not called.
pub(crate) fn in_background(
    words: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    sandbox: Option<Policy>,
    limit: Duration,
    done: impl FnOnce(Result<OptionTable, ManoptError>) + Send + 'static,
) -> std::io::Result<()> {
    thread::Builder::new()
        .name("manopt".to_owned())
        .stack_size(STACK)
        .spawn(move || done(table(&words, &environment, sandbox.as_ref(), limit)))
        .map(drop)
}

impl ManoptError {
    /// Whether a retry would fail in the same way.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, ManoptError::Name(_) | ManoptError::NoPage(_) | ManoptError::NoOptions(_))
    }
}

/// The pages to try, the most specific first. The list ends before the first word that cannot be a
/// subcommand.
fn pages(words: &[String]) -> Result<Vec<String>, ManoptError> {
    let Some((command, subcommands)) = words.split_first() else {
        return Err(ManoptError::Name(String::new()));
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= MAX_NAME
            && !name.starts_with('-')
            && !name.contains(|letter: char| {
                letter == '/' || letter.is_whitespace() || letter.is_control()
            })
    };
    if !is_name(command) {
        return Err(ManoptError::Name(command.clone()));
    }
    let mut pages = vec![command.clone()];
    let mut page = command.clone();
    for word in subcommands.iter().take_while(|word| is_subcommand(word)) {
        page = format!("{page}-{word}");
        if !is_name(&page) {
            break;
        }
        pages.insert(0, page.clone());
    }
    Ok(pages)
}

/// Matches `push` and `cherry-pick`, but no file, host or address.
fn is_subcommand(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// The page as `man` prints it; `None` if there is none.
fn show(
    page: &str,
    environment: &[(OsString, OsString)],
    sandbox: Option<&Policy>,
    limit: Duration,
) -> Result<Option<String>, ManoptError> {
    let directory = PathBuf::from("/");
    let needs = Needs { directory: directory.clone(), ..Needs::default() };
    let sandbox = sandbox.map(|policy| Sandbox::prepare(policy, &needs)).transpose()?.flatten();
    let launch = Launch {
        program: PathBuf::from("/bin/sh"),
        args: ["-c", SCRIPT, "sh", page].map(OsString::from).to_vec(),
        environment: man_environment(environment),
        directory,
        wiring: Wiring::Pipe(StderrTarget::Nowhere),
        group: None,
        sandbox: sandbox.map(Arc::new),
    };
    let limits = Limits { time: limit, output: MAX_OUTPUT, daemons: None };
    let Captured { exit, output } = capture::run(launch, &limits).map_err(|error| match error {
        RunError::Spawn(error) => ManoptError::Spawn(error),
        RunError::Late(limit) => ManoptError::TimedOut(limit),
    })?;
    match exit {
        // `None`: `man` was stopped after [`MAX_OUTPUT`].
        None | Some(Exit::Code(0)) => Ok(Some(String::from_utf8_lossy(&output).into_owned())),
        Some(Exit::Code(code)) if NOT_RUNNABLE.contains(&code) => Err(ManoptError::NoMan),
        Some(Exit::Code(code)) if FAULTS.contains(&code) => Err(ManoptError::Failed(code)),
        Some(Exit::Code(_)) => Ok(None),
        Some(Exit::Signal(number)) => Err(ManoptError::Killed(number)),
    }
}

fn man_environment(inherited: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let inherited: Vec<_> = inherited
        .iter()
        .filter(|(name, _)| !OTHER_LAYOUT.iter().any(|other| name == other))
        .cloned()
        .collect();
    let layout = LAYOUT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    environment::environment(&inherited, &layout, "", false)
}

/// When to look up the options of a failing command in its manual page, and when to show them. One
/// failure may be chance: by default the second in a row starts the look-up and the third shows the
/// table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionsPolicy {
    pub(crate) enabled: bool,
    /// The consecutive failure that starts the look-up.
    pub(crate) trigger: u32,
    /// The consecutive failure from which the options are shown.
    pub(crate) present: u32,
}

impl Default for OptionsPolicy {
    fn default() -> Self {
        OptionsPolicy { enabled: true, trigger: 2, present: 3 }
    }
}

impl OptionsPolicy {
    /// Whether to look the options up after this many consecutive failures. A look-up that
    /// found nothing is repeated at the next failure.
    pub(crate) fn is_to_look_up(&self, failures: u32) -> bool {
        self.enabled && failures >= self.trigger.max(1)
    }

    /// Whether to show the options after this many consecutive failures, including this one.
    pub(crate) fn is_to_show(&self, failures: u32) -> bool {
        self.enabled && failures >= self.present.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages_of(words: &[&str]) -> Option<Vec<String>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        pages(&words).ok()
    }

    #[test]
    fn the_page_of_a_subcommand_is_tried_first() {
        for (words, expected) in [
            (&["ls"][..], &["ls"][..]),
            (&["git", "push"], &["git-push", "git"]),
            (&["docker", "compose", "up"], &["docker-compose-up", "docker-compose", "docker"]),
            (&["git", "cherry-pick"], &["git-cherry-pick", "git"]),
            (&["ssh", "user@host"], &["ssh"]),
            (&["cat", "a.txt"], &["cat"]),
            (&["make", "-j", "all"], &["make"]),
            (&["chmod", "755"], &["chmod"]),
            (&["["], &["["]),
            (&["g++"], &["g++"]),
        ] {
            assert_eq!(
                pages_of(words).as_deref(),
                Some(&expected.iter().map(|page| (*page).to_owned()).collect::<Vec<_>>()[..]),
                "{words:?}"
            );
        }
    }

    #[test]
    fn a_look_up_in_the_background_gives_its_result_on_its_own_thread() {
        let (sender, result) = std::sync::mpsc::channel();
        let (words, limit) = (vec!["./ls".to_owned()], Duration::from_secs(2));
        in_background(words, Vec::new(), None, limit, move |found| {
            let name = thread::current().name().map(str::to_owned);
            sender.send((name, found)).expect("the test waits");
        })
        .expect("a thread");
        let (name, found) = result.recv_timeout(Duration::from_secs(60)).expect("a result");
        assert_eq!(name.as_deref(), Some("manopt"));
        assert!(matches!(found, Err(ManoptError::Name(name)) if name == "./ls"));
    }

    #[test]
    fn names_that_man_reads_as_options_or_files_are_refused() {
        let long = "x".repeat(MAX_NAME + 1);
        for name in ["", "-k", "/bin/ls", "./ls", "a b", "a\nb", "a\0b", &long] {
            assert_eq!(pages_of(&[name]), None, "{name:?}");
        }
        assert_eq!(pages_of(&[]), None);
        let longest = "x".repeat(MAX_NAME);
        assert_eq!(pages_of(&[&longest, "y"]), Some(vec![longest]));
    }

    #[test]
    fn the_second_failure_looks_up_and_the_third_shows() {
        let policy = OptionsPolicy::default();
        let looks_up = |failures| policy.is_to_look_up(failures);
        assert_eq!([1, 2, 3].map(looks_up), [false, true, true]);
        assert_eq!([2, 3, 4].map(|n| policy.is_to_show(n)), [false, true, true]);
        let off = OptionsPolicy { enabled: false, ..policy };
        assert!(!off.is_to_look_up(2) && !off.is_to_show(3));
    }
}
