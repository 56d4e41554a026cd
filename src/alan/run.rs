//! A finished run, redacted, and the database rows made from it.
//!
//! Snippets are redacted here, before anything is queued. Pure.

use std::time::{Duration, SystemTime};

use super::fingerprint::{self, Fingerprint};
use super::history::RunPlace;
use super::pattern::{CommandPattern, Segment};
use super::rows::{Observation, RecentCommand, SshObservation, timestamp, unix_seconds};
use crate::shell::outcome::{Outcome, of_exit};
use crate::shell::ssh::ExitType;
use crate::text::redact::Redactor;

/// The longest snippet, in characters.
pub(crate) const SNIPPET_CHARS: usize = 500;
/// Bytes of output that are redacted to make a snippet: enough to recognise a secret that
/// begins within the snippet.
const SNIPPET_SOURCE_BYTES: usize = 8 * 1024;

/// The exit code recorded for a kill, whatever signal ended the command.
pub(crate) const KILLED_EXIT: i32 = -9;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The command exited by itself, with this code.
    Exited(i32),
    /// Its deadline ended it, with the code that the signal caused.
    TimedOut(i32),
    /// A kill request ended it.
    Killed {
        /// From the start to the request.
        after: Duration,
    },
    /// The server's exit ended it, with the code that the signal caused.
    Interrupted(i32),
}

impl Ending {
    /// The exit code to record.
    pub fn exit_code(self) -> i32 {
        match self {
            Ending::Exited(code) | Ending::TimedOut(code) | Ending::Interrupted(code) => code,
            Ending::Killed { .. } => KILLED_EXIT,
        }
    }

    /// The outcome, given the program that determined the exit code.
    pub fn outcome(self, program: Option<&str>) -> Outcome {
        match self {
            Ending::Exited(code) => of_exit(code, program),
            Ending::TimedOut(_) => Outcome::Timeout,
            Ending::Killed { .. } => Outcome::Killed,
            Ending::Interrupted(_) => Outcome::Interrupted,
        }
    }
}

/// A finished task, not redacted yet.
#[derive(Debug, Clone)]
pub struct EndedRun<'a> {
    pub pattern: CommandPattern,
    pub ending: Ending,
    /// How long the command ran, without draining its output.
    pub duration: Duration,
    /// The CPU time of its processes, if known.
    pub cpu: Option<Duration>,
    /// The most memory, in bytes, that its processes have occupied together, if known.
    pub peak: Option<u64>,
    /// The exit codes of a pipeline's segments, from the left; empty if unknown.
    pub pipestatus: Vec<i32>,
    /// The beginning of the plain output.
    pub output_head: &'a str,
    /// The end of the plain output.
    pub output_tail: &'a str,
    pub cwd: Option<String>,
    /// The commit that was checked out there.
    pub git_head: Option<String>,
    pub at: SystemTime,
}

/// A run that is classified and redacted, ready to be stored.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// Its directory is redacted, its output is not.
    pub ended: EndedRun<'a>,
    pub outcome: Outcome,
    /// The program that determined the exit status, if known.
    pub program: Option<String>,
    pub fingerprint: Option<Fingerprint>,
    output_snippet: Option<String>,
}

/// The database rows of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRows {
    /// The whole command first, then its segments.
    pub observations: Vec<Observation>,
    /// The row of this session.
    pub recent: RecentCommand,
    /// The row of the host, for a run over SSH.
    pub ssh: Option<SshObservation>,
}

impl RunRows {
    /// The outcome of the whole command.
    pub fn outcome(&self) -> Outcome {
        self.recent.outcome()
    }
}

impl<'a> Run<'a> {
    /// Classifies and redacts a finished task.
    pub fn new(mut ended: EndedRun<'a>, redactor: &Redactor) -> Run<'a> {
        let output = [ended.output_head, ended.output_tail];
        let program = ended.pattern.deciding_program(&output).map(str::to_owned);
        let outcome = ended.ending.outcome(program.as_deref());
        let code = ended.ending.exit_code();
        let fingerprint = (outcome == Outcome::Failure)
            .then(|| fingerprint::of_failure(ended.output_tail, code, redactor))
            .flatten();
        ended.cwd = ended.cwd.map(|cwd| redactor.redact(&cwd).into_owned());
        let output_snippet = snippet(ended.output_head, redactor);
        Run { ended, outcome, program, fingerprint, output_snippet }
    }

    pub fn place(&self) -> RunPlace {
        RunPlace { cwd: self.ended.cwd.clone(), git_head: self.ended.git_head.clone() }
    }

    /// The rows of the run, under a unique id.
    pub fn rows(&self, id: &str, session: &str) -> RunRows {
        let observation = self.observation(id);
        let recent = RecentCommand {
            session_id: session.to_owned(),
            command_hash: observation.command_hash.clone(),
            command_template: observation.command_template.clone(),
            command_preview: observation.command_preview.clone(),
            timestamp: unix_seconds(self.ended.at),
            duration_ms: observation.duration_ms,
            exit_code: observation.exit_code,
            timed_out: observation.timed_out,
            success: self.outcome == Outcome::Success,
            outcome_type: observation.outcome_type.clone(),
        };
        let ssh = self.ssh(&observation);
        let mut observations = vec![observation];
        observations.extend(self.segments(id));
        RunRows { observations, recent, ssh }
    }

    fn observation(&self, id: &str) -> Observation {
        let kill_elapsed_ms = match self.ended.ending {
            Ending::Killed { after } => Some(milliseconds(after)),
            _ => None,
        };
        let errors = self.fingerprint.as_ref();
        Observation {
            id: id.to_owned(),
            command_hash: self.ended.pattern.hash.clone(),
            command_template: Some(self.ended.pattern.template.clone()),
            subcommand_template: self.ended.pattern.subcommand_template.clone(),
            command_preview: Some(self.ended.pattern.preview.clone()),
            exit_code: Some(i64::from(self.ended.ending.exit_code())),
            duration_ms: Some(kill_elapsed_ms.unwrap_or(milliseconds(self.ended.duration))),
            timed_out: self.outcome == Outcome::Timeout,
            output_snippet: self.output_snippet.clone(),
            error_snippet: errors.map(|errors| first_chars(&errors.lines.join("\n"))),
            weight: Some(1.0),
            created_at: timestamp(self.ended.at),
            last_accessed: None,
            outcome_type: Some(self.outcome.as_str().to_owned()),
            kill_elapsed_ms,
            cwd: self.ended.cwd.clone(),
            git_head: self.ended.git_head.clone(),
            failure_fingerprint: errors.map(|errors| errors.hash.clone()),
            cpu_ms: self.ended.cpu.and_then(|cpu| i64::try_from(cpu.as_millis()).ok()),
            peak_bytes: self.ended.peak.and_then(|peak| i64::try_from(peak).ok()),
        }
    }

    /// One row for each segment of a pipeline, if all their statuses are known.
    fn segments(&self, id: &str) -> Vec<Observation> {
        let segments = &self.ended.pattern.segments;
        if segments.len() < 2 || segments.len() != self.ended.pipestatus.len() {
            return Vec::new();
        }
        let rows = segments.iter().zip(&self.ended.pipestatus).enumerate();
        rows.map(|(index, (segment, code))| self.segment(id, index + 1, segment, *code)).collect()
    }

    fn segment(&self, id: &str, number: usize, segment: &Segment, code: i32) -> Observation {
        let outcome = of_exit(code, segment.program.as_deref());
        Observation {
            id: format!("{id}-{number}"),
            command_hash: segment.hash.clone(),
            command_template: Some(segment.template.clone()),
            command_preview: Some(segment.preview.clone()),
            exit_code: Some(i64::from(code)),
            weight: Some(1.0),
            created_at: timestamp(self.ended.at),
            outcome_type: Some(outcome.as_str().to_owned()),
            cwd: self.ended.cwd.clone(),
            git_head: self.ended.git_head.clone(),
            ..Observation::default()
        }
    }

    /// `None` for a command that did not exit by itself: its end says nothing about the host.
    fn ssh(&self, whole: &Observation) -> Option<SshObservation> {
        let ssh = self.ended.pattern.ssh.as_ref()?;
        let Ending::Exited(code) = self.ended.ending else {
            return None;
        };
        let remote = ssh.remote.as_ref();
        Some(SshObservation {
            id: format!("{}-ssh", whole.id),
            observation_id: Some(whole.id.clone()),
            host: ssh.host.clone(),
            remote_command: remote.map(|remote| remote.preview.clone()),
            remote_command_template: remote.map(|remote| remote.template.clone()),
            exit_code: whole.exit_code,
            exit_type: Some(ExitType::from_code(code).name().to_owned()),
            duration_ms: whole.duration_ms,
            timed_out: false,
            weight: Some(1.0),
            created_at: whole.created_at.clone(),
        })
    }
}

/// At least 1, since a row without a duration counts as a segment.
fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn snippet(output: &str, redactor: &Redactor) -> Option<String> {
    let source = output.get(..output.floor_char_boundary(SNIPPET_SOURCE_BYTES)).unwrap_or(output);
    let snippet = first_chars(&redactor.redact(source));
    (!snippet.is_empty()).then_some(snippet)
}

fn first_chars(text: &str) -> String {
    text.chars().take(SNIPPET_CHARS).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::alan::pattern::{RemoteCommand, Ssh};

    pub(crate) fn pattern(command: &str) -> CommandPattern {
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or_default();
        CommandPattern {
            hash: format!("hash of {command}"),
            template: format!("{program} *"),
            preview: command.to_owned(),
            program: Some(program.to_owned()),
            ..CommandPattern::default()
        }
    }

    pub(crate) fn ended(command: &str, ending: Ending, at: SystemTime) -> EndedRun<'static> {
        EndedRun {
            pattern: pattern(command),
            ending,
            duration: Duration::from_millis(1500),
            cpu: None,
            peak: None,
            pipestatus: Vec::new(),
            output_head: "",
            output_tail: "",
            cwd: None,
            git_head: None,
            at,
        }
    }

    #[test]
    fn a_kill_is_recorded_with_one_code() {
        let killed = Ending::Killed { after: Duration::from_secs(3) };
        assert_eq!(killed.exit_code(), -9);
        assert_eq!(killed.outcome(Some("grep")), Outcome::Killed);
    }

    fn rows(ended: EndedRun<'_>) -> RunRows {
        Run::new(ended, &Redactor::default()).rows("id", "session")
    }

    #[test]
    fn a_kill_is_recorded_with_its_time_and_code() {
        let after = Duration::from_millis(700);
        let rows = rows(ended("sleep 9", Ending::Killed { after }, SystemTime::now()));
        let whole = &rows.observations[0];
        assert_eq!(whole.outcome_type.as_deref(), Some("KILLED"));
        assert_eq!(whole.exit_code, Some(-9));
        assert_eq!((whole.kill_elapsed_ms, whole.duration_ms), (Some(700), Some(700)));
        assert!(!rows.recent.success && !whole.timed_out);
    }

    #[test]
    fn a_benign_exit_is_a_success_with_its_code() {
        let rows = rows(ended("grep x f", Ending::Exited(1), SystemTime::now()));
        assert_eq!(rows.outcome(), Outcome::Success);
        assert_eq!(rows.observations[0].exit_code, Some(1));
        assert_eq!(rows.observations[0].failure_fingerprint, None);
    }

    #[test]
    fn segments_are_observations_without_duration_when_all_statuses_are_known() {
        let segment = |program: &str| Segment {
            hash: program.to_owned(),
            template: format!("{program} *"),
            preview: program.to_owned(),
            program: Some(program.to_owned()),
        };
        let mut piped = ended("cat f | grep x", Ending::Exited(1), SystemTime::now());
        piped.pattern.segments = vec![segment("cat"), segment("grep")];
        piped.pipestatus = vec![2, 1];
        let both = rows(piped.clone()).observations;
        let facts: Vec<_> = both
            .iter()
            .skip(1)
            .map(|row| (row.exit_code, row.duration_ms, row.outcome()))
            .collect();
        assert_eq!(facts, [(Some(2), None, Outcome::Failure), (Some(1), None, Outcome::Success)]);
        piped.pipestatus = vec![1];
        assert_eq!(rows(piped).observations.len(), 1);
    }

    #[test]
    fn an_ssh_row_names_host_and_remote_command() {
        let mut remote = ended("ssh h 'git pull'", Ending::Exited(255), SystemTime::now());
        remote.pattern.ssh = Some(Ssh {
            host: "h".to_owned(),
            remote: Some(RemoteCommand {
                preview: "git pull".to_owned(),
                template: "git pull".to_owned(),
            }),
        });
        let row = rows(remote.clone()).ssh.expect("a row");
        assert_eq!(row.exit_type.as_deref(), Some("connection_failed"));
        assert_eq!(row.remote_command_template.as_deref(), Some("git pull"));
        remote.ending = Ending::TimedOut(143);
        assert_eq!(rows(remote).ssh, None);
    }

    #[test]
    fn snippets_contain_no_secret_and_at_most_500_characters() {
        let secret = format!("{}API_KEY=hunter2hunter2\n{}", "x".repeat(480), "y".repeat(900));
        let mut failed = ended("make", Ending::Exited(2), SystemTime::now());
        failed.output_head = &secret;
        failed.output_tail = "error: bad password=hunter2\n";
        let row = rows(failed).observations.remove(0);
        let (output, error) = (row.output_snippet.expect("some"), row.error_snippet.expect("some"));
        assert!(!output.contains("hunter2") && !error.contains("hunter2"), "{output} {error}");
        assert_eq!(output.chars().count(), SNIPPET_CHARS);
        assert!(row.failure_fingerprint.is_some());
    }

    proptest! {
        #[test]
        fn any_output_makes_rows(head in any::<String>(), tail in any::<String>(), code in any::<i32>()) {
            let mut run = ended("make", Ending::Exited(code), SystemTime::UNIX_EPOCH);
            run.output_head = &head;
            run.output_tail = &tail;
            let rows = Run::new(run, &Redactor::default()).rows("id", "s");
            prop_assert!(rows.observations[0].output_snippet.as_ref().is_none_or(|s| s.chars().count() <= SNIPPET_CHARS));
        }
    }
}
