//! Insights about a command and their texts, which are written only here.
//!
//! [`before`] derives insights from the command's history, [`after`] from its end. Insights
//! advise and never stop anything. Pure.

pub(crate) mod after;
pub(crate) mod before;

use std::fmt;

use self::after::OutOfMemory;
use super::history::{History, RETRY_WINDOW_MINUTES};
use crate::shell::dialect::Trap;
use crate::shell::lint::Lint;
use crate::shell::outcome::Outcome;
use crate::text::failures::Change;
use crate::text::foreign;
pub(crate) use crate::text::lines::truncate;
use crate::text::quantity::size;

/// How many characters of a kind of command an insight shows. That is enough, since its reader
/// knows the command.
pub(crate) const KIND_CHARS: usize = 60;
/// How many characters of an error line an insight shows.
const ERROR_CHARS: usize = 120;

/// How much an insight matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The caller should act on it.
    Warning,
    /// Good to know.
    Info,
}

impl Level {
    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Warning => "warning",
            Level::Info => "info",
        }
    }
}

/// One insight; [`fmt::Display`] gives its text.
#[derive(Debug, Clone, PartialEq)]
pub enum Insight {
    /// The command has not run before.
    NewPattern,
    /// It ran recently in this session and failed each time.
    RetryFailed {
        /// How often it ran.
        previous: usize,
    },
    /// It ran recently in this session and succeeded each time.
    RetrySucceeded {
        /// How often it ran.
        previous: usize,
    },
    /// It ran recently in this session, with mixed results.
    RetryMixed {
        /// How often it ran.
        previous: usize,
        /// How often it succeeded.
        succeeded: usize,
    },
    /// Other commands of its kind ran recently.
    Similar {
        template: String,
        /// How often they ran.
        runs: usize,
        /// How often they succeeded.
        succeeded: usize,
    },
    /// It has succeeded this many times in a row.
    SuccessStreak(u64),
    /// It has failed this many times in a row.
    FailingStreak(u64),
    /// It often reaches its deadline.
    Timeouts {
        /// The share of its runs.
        rate: f64,
    },
    /// It nearly always succeeds.
    Reliable {
        /// The share of its runs.
        rate: f64,
        runs: usize,
    },
    /// It takes a while.
    UsuallyTakes {
        /// The median, in seconds.
        seconds: f64,
    },
    /// It usually needs more memory than is free, in bytes.
    NeedsMemory { usual: u64, free: u64 },
    /// Connections to the host often fail.
    HostFails { host: String, failed: u64, tries: u64 },
    /// Connections to the host never failed.
    HostReliable { host: String, connections: u64 },
    /// The remote command often fails.
    RemoteFails { template: String, failed: u64, runs: u64 },
    /// The remote command always succeeds, on several hosts.
    RemoteReliable { template: String, hosts: u64 },
    /// The command will not do what it appears to do.
    Pitfall(Lint),
    /// The command is written for bash, and zsh runs it otherwise.
    Dialect(Trap),
    /// What differs from the failures of its last run in this directory.
    Changes(Change),
    /// The options of a command that keeps failing.
    Options { command: String, table: String },
    /// It succeeded without output.
    NoOutput,
    /// An exit code that means the same for every program.
    Exit(UniversalExit),
    /// An exit code that is an answer, not a failure.
    NormalExit { program: String, code: i32, meaning: &'static str },
    /// A segment of a pipeline failed, which the pipeline's exit code does not show.
    MaskedSegment {
        /// Its position, from 1.
        segment: usize,
        code: i32,
    },
    /// It failed in the same way as before.
    SameFailure {
        /// How often in a row, this time included.
        times: u32,
        /// The first error line.
        line: String,
        /// What has changed since it last succeeded.
        changes: Vec<TreeChange>,
    },
    /// The database was corrupt and has been renamed.
    MovedAside { path: String, aside: String },
    /// Rows of an older database could not be read.
    UnreadableRows {
        path: String,
        rows: usize,
        /// The file that still contains them; `None` if they are lost.
        kept: Option<String>,
    },
    /// The command history is not written to disk.
    NotOnDisk { path: String, cause: String },
}

/// An exit code that means the same for every program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UniversalExit {
    /// 126.
    NotExecutable,
    /// 127.
    NotFound {
        /// The known command whose name is nearest.
        nearest: Option<String>,
    },
    /// 255 of ssh.
    SshConnection,
    /// 124 of timeout(1).
    TimeLimit,
    /// 130.
    Interrupted,
    /// 137.
    Killed {
        /// Set if the kernel reported an out-of-memory kill.
        out_of_memory: Option<OutOfMemory>,
    },
    /// 139.
    SegmentationFault,
    /// 143.
    Terminated,
}

/// A difference since the command last succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeChange {
    Directory {
        from: String,
        to: String,
    },
    /// The checked-out commit.
    GitHead {
        from: String,
        to: String,
    },
}

impl Insight {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self.usefulness() {
            Usefulness::Warning => Level::Warning,
            _ => Level::Info,
        }
    }

    fn usefulness(&self) -> Usefulness {
        match self {
            Insight::RetryFailed { .. }
            | Insight::FailingStreak(_)
            | Insight::Timeouts { .. }
            | Insight::NeedsMemory { .. }
            | Insight::HostFails { .. }
            | Insight::RemoteFails { .. }
            | Insight::Pitfall(_)
            | Insight::Dialect(_)
            | Insight::Exit(_)
            | Insight::MaskedSegment { .. }
            | Insight::SameFailure { .. }
            | Insight::MovedAside { .. }
            | Insight::UnreadableRows { .. }
            | Insight::NotOnDisk { .. } => Usefulness::Warning,
            Insight::NewPattern => Usefulness::IfAlone,
            Insight::RetryMixed { .. } => Usefulness::IfNewestRetryFailed,
            Insight::Similar { .. } => Usefulness::IfNewestSimilarFailed,
            Insight::Options { .. } | Insight::Changes(_) => Usefulness::Always,
            Insight::RetrySucceeded { .. }
            | Insight::SuccessStreak(_)
            | Insight::Reliable { .. }
            | Insight::UsuallyTakes { .. }
            | Insight::HostReliable { .. }
            | Insight::RemoteReliable { .. }
            | Insight::NoOutput
            | Insight::NormalExit { .. } => Usefulness::Never,
        }
    }
}

/// When `insights: useful` shows an insight.
enum Usefulness {
    /// Always, as a warning.
    Warning,
    Always,
    IfAlone,
    IfNewestRetryFailed,
    IfNewestSimilarFailed,
    /// It is said elsewhere, or nothing follows from it.
    Never,
}

/// Keeps the insights that `insights: useful` shows: every warning, and other insights that the
/// caller has not read elsewhere. `zsh_alan_query` shows all of them.
///
/// | insight | kept |
/// |---|---|
/// | `New pattern` | if nothing of its kind has run before, no other insight is kept, and `may_be_new` |
/// | `Retry #N in last 15m`, `Similar to` | if the newest of the counted runs did not succeed |
/// | `Options for` | yes |
/// | `Usually takes` | no: the `◷` line of a running command shows it |
/// | `No output produced`, `… = no match (normal)` | no: the body and the exit code say it |
/// | `Retry #N. Previous N succeeded`, `Streak`, `Reliable pattern`, reliable hosts and remote commands | no: nothing follows from them |
///
/// `may_be_new` is false if the command has ended, since its outcome is then known, or if the
/// result shows other remarks.
pub(crate) fn useful(
    mut insights: Vec<Insight>,
    history: &History,
    may_be_new: bool,
) -> Vec<Insight> {
    insights.retain(|insight| match insight.usefulness() {
        Usefulness::Warning | Usefulness::Always => true,
        Usefulness::IfAlone => may_be_new && history.is_first_of_kind,
        Usefulness::IfNewestRetryFailed => newest_failed(&history.retries),
        Usefulness::IfNewestSimilarFailed => newest_failed(&history.similar),
        Usefulness::Never => false,
    });
    if insights.len() > 1 {
        insights.retain(|insight| *insight != Insight::NewPattern);
    }
    insights
}

/// How many names of failures are shown.
const CHANGED_NAMES: usize = 8;

/// `Since its last run here: now failing: test_b; fixed: test_a; 3 as before.`
fn since_last_run(change: &Change) -> String {
    let listed = |what: &str, names: &[String]| {
        let shown = names.iter().take(CHANGED_NAMES).map(|name| foreign::shown(name).into_owned());
        let more = names.len().saturating_sub(CHANGED_NAMES);
        let more = (more > 0).then(|| format!("{more} more"));
        let all: Vec<String> = shown.chain(more).collect();
        (!names.is_empty()).then(|| format!("{what}: {}", all.join(", ")))
    };
    let same = (change.same > 0).then(|| format!("{} as before", change.same));
    let parts = [listed("now failing", &change.new), listed("fixed", &change.gone), same];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("Since its last run here: {}.", parts.join("; "))
}

/// Whether the newest run failed, ignoring runs interrupted by the server's exit.
fn newest_failed(newest_first: &[Outcome]) -> bool {
    let newest = newest_first.iter().find(|outcome| **outcome != Outcome::Interrupted);
    newest.is_some_and(|outcome| *outcome != Outcome::Success)
}

/// At most one line for each level, warnings first. The insights of a level are joined by
/// ` | `.
pub(crate) fn lines(insights: &[Insight]) -> Vec<(Level, String)> {
    let line = |level| {
        let texts: Vec<String> = insights
            .iter()
            .filter(|insight| insight.level() == level)
            .map(ToString::to_string)
            .collect();
        (!texts.is_empty()).then(|| (level, texts.join(" | ")))
    };
    [Level::Warning, Level::Info].into_iter().filter_map(line).collect()
}

impl fmt::Display for Insight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Insight::NewPattern => write!(f, "New pattern. No history yet."),
            Insight::RetryFailed { previous } => write!(
                f,
                "Retry #{}. Previous {previous} all failed. Different approach?",
                previous + 1
            ),
            Insight::RetrySucceeded { previous } => {
                write!(f, "Retry #{}. Previous {previous} succeeded.", previous + 1)
            }
            Insight::RetryMixed { previous, succeeded } => write!(
                f,
                "Retry #{} in last {RETRY_WINDOW_MINUTES}m. {succeeded}/{previous} succeeded.",
                previous + 1
            ),
            Insight::Similar { template, runs, succeeded } => write!(
                f,
                "Similar to '{}' - {succeeded}/{runs} succeeded recently.",
                foreign::between_quotes(&truncate(template, KIND_CHARS))
            ),
            Insight::SuccessStreak(length) => {
                write!(f, "Streak: {length} successes in a row. Solid.")
            }
            Insight::FailingStreak(length) => {
                write!(f, "Failing streak: {length}. Same approach?")
            }
            Insight::Timeouts { rate } => {
                write!(f, "{:.0}% timeout rate for this pattern.", rate * 100.0)
            }
            Insight::Reliable { rate, runs } => {
                write!(f, "Reliable pattern: {:.0}% success ({runs} runs).", rate * 100.0)
            }
            Insight::Changes(change) => f.write_str(&since_last_run(change)),
            Insight::UsuallyTakes { seconds } => write!(f, "Usually takes ~{seconds:.0}s."),
            Insight::NeedsMemory { usual, free } => write!(
                f,
                "Usually takes {} of memory, and {} are free: it may be killed. Run fewer jobs at \
                 once, or end what else runs (zsh_tasks).",
                size(*usual),
                size(*free)
            ),
            Insight::HostFails { host, failed, tries } => write!(
                f,
                "Host '{}' has {:.0}% connection failure rate ({failed}/{tries}).",
                foreign::between_quotes(host),
                100.0 * *failed as f64 / (*tries).max(1) as f64
            ),
            Insight::HostReliable { host, connections } => {
                let host = foreign::between_quotes(host);
                write!(f, "Host '{host}' is reliable: {connections} successful connections.")
            }
            Insight::RemoteFails { template, failed, runs } => write!(
                f,
                "Remote command '{}' fails often ({failed}/{runs}).",
                foreign::between_quotes(&truncate(template, KIND_CHARS))
            ),
            Insight::RemoteReliable { template, hosts } => {
                write!(
                    f,
                    "Remote command '{}' reliable across {hosts} hosts.",
                    foreign::between_quotes(&truncate(template, KIND_CHARS))
                )
            }
            Insight::Pitfall(pitfall) => write!(f, "{pitfall}"),
            Insight::Dialect(trap) => write!(f, "{trap}"),
            Insight::Options { command, table } => {
                write!(f, "Options for '{}':", foreign::between_quotes(command))?;
                table.lines().try_for_each(|row| write!(f, "\n{}", foreign::row(row)))
            }
            Insight::NoOutput => write!(f, "No output produced."),
            Insight::Exit(exit) => write!(f, "{exit}"),
            Insight::NormalExit { program, code, meaning } => {
                let program = foreign::shown(program);
                write!(f, "{program} exit {code} = {meaning} (normal)")
            }
            Insight::MaskedSegment { segment, code } => {
                write!(f, "pipe segment {segment} exited {code} (masked by downstream)")
            }
            Insight::SameFailure { times, line, changes } => {
                let line = foreign::in_quotes(line, ERROR_CHARS);
                write!(f, "Same failure {times} times: {line}.")?;
                for (index, change) in changes.iter().enumerate() {
                    let start = if index == 0 { " Since the last success: " } else { ", " };
                    write!(f, "{start}{change}")?;
                }
                if !changes.is_empty() {
                    write!(f, ".")?;
                }
                Ok(())
            }
            Insight::MovedAside { path, aside } => write!(
                f,
                "the database {path} was corrupt: it was moved to {aside}, and a new one was created."
            ),
            Insight::UnreadableRows { path, rows, kept } => {
                write!(f, "unreadable rows of the database {path} were left out: {rows}")?;
                match kept {
                    Some(kept) => write!(f, ". They are still in {kept}."),
                    None => write!(f, "."),
                }
            }
            Insight::NotOnDisk { path, cause } => write!(
                f,
                "the command history stays in memory: cannot use the database {path} ({cause})."
            ),
        }
    }
}

impl fmt::Display for UniversalExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            UniversalExit::NotExecutable => "permission denied (exit 126)",
            UniversalExit::NotFound { nearest: None } => "command not found (exit 127)",
            UniversalExit::NotFound { nearest: Some(name) } => {
                return write!(
                    f,
                    "command not found (exit 127): did you mean `{}`?",
                    foreign::shown(name)
                );
            }
            UniversalExit::SshConnection => "SSH connection failed (exit 255)",
            UniversalExit::TimeLimit => "the time limit of timeout(1) was reached (exit 124)",
            UniversalExit::Interrupted => "interrupted by SIGINT (exit 130)",
            UniversalExit::Killed { out_of_memory: None } => "killed by SIGKILL (exit 137)",
            UniversalExit::Killed { out_of_memory: Some(memory) } => {
                let highest =
                    memory.highest.map(|bytes| format!("it was seen with {}", size(bytes)));
                let limit = memory.limit.map(|bytes| format!("the limit is {}", size(bytes)));
                let known: Vec<String> = highest.into_iter().chain(limit).collect();
                f.write_str("killed by the kernel, out of memory (exit 137)")?;
                if known.is_empty() {
                    return Ok(());
                }
                return write!(f, ": {}", known.join(", "));
            }
            UniversalExit::SegmentationFault => "segmentation fault (exit 139)",
            UniversalExit::Terminated => "terminated by SIGTERM (exit 143)",
        };
        f.write_str(text)
    }
}

impl fmt::Display for TreeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeChange::Directory { from, to } => {
                write!(f, "directory {} → {}", foreign::shown(from), foreign::shown(to))
            }
            TreeChange::GitHead { from, to } => {
                let [from, to] = [from, to].map(|head| foreign::shown(short(head)));
                write!(f, "git HEAD {from} → {to}")
            }
        }
    }
}

/// Shortens a commit's hash as git does; leaves other names unchanged.
fn short(head: &str) -> &str {
    const SHOWN: usize = 8;
    let is_commit = head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { head.get(..SHOWN).unwrap_or(head) } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_kinds_and_error_lines_are_cut() {
        let similar = Insight::Similar { template: "make * && ".repeat(50), runs: 2, succeeded: 1 };
        let same = Insight::SameFailure { times: 2, line: "é".repeat(300), changes: Vec::new() };
        for (insight, most) in [(similar, 110), (same, 150)] {
            let text = insight.to_string();
            assert!(text.chars().count() < most && text.contains('…'), "{text}");
        }
        assert_eq!(truncate("make *", KIND_CHARS), "make *");
    }

    #[test]
    fn each_insight_has_its_level_and_its_words() {
        let table: Vec<(Insight, Level, &str)> = vec![
            (Insight::NewPattern, Level::Info, "New pattern. No history yet."),
            (
                Insight::RetrySucceeded { previous: 2 },
                Level::Info,
                "Retry #3. Previous 2 succeeded.",
            ),
            (
                Insight::RetryMixed { previous: 3, succeeded: 1 },
                Level::Info,
                "Retry #4 in last 15m. 1/3 succeeded.",
            ),
            (Insight::SuccessStreak(5), Level::Info, "Streak: 5 successes in a row. Solid."),
            (
                Insight::Reliable { rate: 0.964, runs: 12 },
                Level::Info,
                "Reliable pattern: 96% success (12 runs).",
            ),
            (Insight::UsuallyTakes { seconds: 46.6 }, Level::Info, "Usually takes ~47s."),
            (
                Insight::Similar {
                    template: "git push origin *".to_owned(),
                    runs: 3,
                    succeeded: 2,
                },
                Level::Info,
                "Similar to 'git push origin *' - 2/3 succeeded recently.",
            ),
            (Insight::NoOutput, Level::Info, "No output produced."),
            (
                Insight::NormalExit { program: "grep".to_owned(), code: 1, meaning: "no match" },
                Level::Info,
                "grep exit 1 = no match (normal)",
            ),
            (
                Insight::RetryFailed { previous: 2 },
                Level::Warning,
                "Retry #3. Previous 2 all failed. Different approach?",
            ),
            (Insight::FailingStreak(4), Level::Warning, "Failing streak: 4. Same approach?"),
            (
                Insight::Timeouts { rate: 0.75 },
                Level::Warning,
                "75% timeout rate for this pattern.",
            ),
            (
                Insight::HostFails { host: "vps".to_owned(), failed: 2, tries: 3 },
                Level::Warning,
                "Host 'vps' has 67% connection failure rate (2/3).",
            ),
            (
                Insight::RemoteFails { template: "git pull".to_owned(), failed: 3, runs: 4 },
                Level::Warning,
                "Remote command 'git pull' fails often (3/4).",
            ),
            (
                Insight::Exit(UniversalExit::NotFound { nearest: None }),
                Level::Warning,
                "command not found (exit 127)",
            ),
            (
                Insight::Exit(UniversalExit::NotFound { nearest: Some("cargo".to_owned()) }),
                Level::Warning,
                "command not found (exit 127): did you mean `cargo`?",
            ),
            (
                Insight::MaskedSegment { segment: 1, code: 2 },
                Level::Warning,
                "pipe segment 1 exited 2 (masked by downstream)",
            ),
            (
                Insight::HostReliable { host: "vps".to_owned(), connections: 5 },
                Level::Info,
                "Host 'vps' is reliable: 5 successful connections.",
            ),
            (
                Insight::RemoteReliable { template: "git pull".to_owned(), hosts: 3 },
                Level::Info,
                "Remote command 'git pull' reliable across 3 hosts.",
            ),
            (
                Insight::Options { command: "tar".to_owned(), table: "-x  extract".to_owned() },
                Level::Info,
                "Options for 'tar':\n-x  extract",
            ),
            (
                Insight::SameFailure {
                    times: 2,
                    line: "error: no".to_owned(),
                    changes: vec![
                        TreeChange::Directory { from: "/a".to_owned(), to: "/b".to_owned() },
                        TreeChange::GitHead { from: "a".repeat(40), to: "main".to_owned() },
                    ],
                },
                Level::Warning,
                "Same failure 2 times: \"error: no\". Since the last success: directory /a → /b, \
                 git HEAD aaaaaaaa → main.",
            ),
        ];
        for (insight, level, text) in table {
            assert_eq!((insight.level(), insight.to_string().as_str()), (level, text));
        }
    }

    #[test]
    fn useful_insights_are_warnings_or_shown_nowhere_else() {
        use Outcome::{Failure, Interrupted, Success};
        let kept = |history: &History, insights: &[Insight], may_be_new| {
            let kept = useful(insights.to_vec(), history, may_be_new);
            kept.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let new = History { is_first_of_kind: true, ..History::default() };
        let nothing_known = ["New pattern. No history yet."];
        assert_eq!(kept(&new, &[Insight::NewPattern, Insight::NoOutput], true), nothing_known);
        assert_eq!(kept(&new, &[Insight::NewPattern], false), [""; 0]);
        assert_eq!(kept(&History::default(), &[Insight::NewPattern], true), [""; 0]);
        let warning = Insight::Exit(UniversalExit::SegmentationFault);
        assert_eq!(
            kept(&new, &[Insight::NewPattern, warning], true),
            ["segmentation fault (exit 139)"]
        );
        let retry = [Insight::RetryMixed { previous: 2, succeeded: 1 }];
        let similar = [Insight::Similar { template: "a *".to_owned(), runs: 2, succeeded: 1 }];
        for (newest_first, is_kept) in [
            (vec![Success, Failure], false),
            (vec![Failure, Success], true),
            (vec![Interrupted, Failure, Success], true),
            (vec![Interrupted], false),
        ] {
            let retried = History { retries: newest_first.clone(), ..History::default() };
            assert_eq!(kept(&retried, &retry, true).len(), usize::from(is_kept));
            let alike = History { similar: newest_first, ..History::default() };
            assert_eq!(kept(&alike, &similar, true).len(), usize::from(is_kept));
        }
        let known = [
            Insight::RetrySucceeded { previous: 1 },
            Insight::SuccessStreak(3),
            Insight::Reliable { rate: 1.0, runs: 5 },
            Insight::UsuallyTakes { seconds: 47.0 },
            Insight::HostReliable { host: "h".to_owned(), connections: 3 },
        ];
        assert_eq!(kept(&History::default(), &known, true), [""; 0]);
    }

    #[test]
    fn insights_of_a_level_share_a_line_and_warnings_have_their_own() {
        assert_eq!(lines(&[]), []);
        assert_eq!(
            lines(&[
                Insight::NoOutput,
                Insight::FailingStreak(3),
                Insight::NewPattern,
                Insight::Exit(UniversalExit::Terminated)
            ]),
            [
                (
                    Level::Warning,
                    "Failing streak: 3. Same approach? | terminated by SIGTERM (exit 143)"
                        .to_owned()
                ),
                (Level::Info, "No output produced. | New pattern. No history yet.".to_owned()),
            ]
        );
    }
}
