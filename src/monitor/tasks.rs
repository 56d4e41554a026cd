//! A task as the monitor shows it, of this process or of another server.
//!
//! How it is, is said for the moment of asking. Limits: reads only.

use std::path::Path;
use std::time::Duration;

use super::output::Source;
use super::session::{Expected, Server, Session, millis, one_line};
use crate::alan::estimate::Estimate;
use crate::alan::rows::unix_seconds;
use crate::task::entry::{Entry, RecordedOutcome};
use crate::task::journal;
use crate::task::live::Input;
use crate::task::words;
use crate::text::lines::clip;

/// How much of a command is its title.
const TITLE_CHARS: usize = 300;
/// How much of a prompt is repeated.
const PROMPT_CHARS: usize = 120;

/// A task with what is needed to follow it.
#[derive(Debug, Clone)]
pub struct Task {
    /// What it is and how.
    pub entry: Entry,
    /// Whose it is.
    pub server: Server,
    /// Its output.
    pub source: Source,
}

impl Task {
    /// A task of the server of this directory.
    pub fn of_another(directory: &Path, entry: Entry) -> Task {
        let instance = directory.file_name().unwrap_or_default();
        Task {
            server: Server {
                instance: instance.to_string_lossy().into_owned(),
                pid: journal::server_pid(directory),
                own: false,
            },
            source: Source::Files {
                directory: directory.to_path_buf(),
                task: entry.id.clone(),
            },
            entry,
        }
    }

    /// As the list shows it, with so many lines of its output; `estimate` is how long such
    /// commands take, where that is known and it runs.
    pub fn session(&self, now: f64, lines: usize, estimate: Option<Estimate>) -> Session {
        let entry = &self.entry;
        let runs = entry.outcome.is_none();
        let elapsed = match entry.duration_ms {
            Some(duration) => duration as f64 / 1000.0,
            None => (now - entry.started).max(0.0),
        };
        let waiting = entry.waiting.as_ref().filter(|_| runs);
        let prompt = waiting.map(|waiting| clip(waiting.prompt.trim(), PROMPT_CHARS));
        Session {
            id: entry.id.clone(),
            kind: "task",
            title: clip(&one_line(&entry.command), TITLE_CHARS),
            description: entry.description.clone(),
            directory: entry.directory.clone(),
            pid: Some(entry.pid),
            pty: entry.pty,
            state: state_word(entry),
            status: entry.status(now).map(|status| status.to_string()),
            evidence: evidence(entry, now),
            degraded: entry
                .progress
                .as_ref()
                .is_some_and(|progress| progress.degraded),
            waiting_for: waiting.map(|waiting| words::wanted_word(waiting.wanted)),
            prompt: prompt.filter(|prompt| !prompt.is_empty()),
            started_at: entry.started,
            elapsed_ms: millis(elapsed),
            silent_ms: runs.then(|| millis(now - self.last_output())),
            duration_ms: entry.duration_ms,
            exit_code: entry.exit_code,
            leftovers: entry.leftovers.clone(),
            remaining_ms: estimate
                .as_ref()
                .and_then(|estimate| estimate.remaining(elapsed))
                .map(millis),
            estimate: estimate.map(|estimate| Expected {
                median_ms: millis(estimate.median.seconds),
                p90_ms: millis(estimate.p90.seconds),
                samples: estimate.sample_size,
            }),
            server: self.server.clone(),
            can_kill: self.server.own && !entry.is_over(),
            can_stop: false,
            tail: match lines {
                0 => Vec::new(),
                lines => self.source.tail(entry, lines),
            },
            run: None,
        }
    }

    /// When output last came, or it started, in Unix seconds. Another server's file says
    /// so later than the output's own file does.
    fn last_output(&self) -> f64 {
        let told = self.entry.last_output.unwrap_or(self.entry.started);
        let Source::Files { directory, task } = &self.source else {
            return told;
        };
        let newest = journal::output_files(directory, task).pop();
        let written = newest.and_then(|(_, path)| std::fs::metadata(path).ok()?.modified().ok());
        written.map_or(told, |at| unix_seconds(at).max(told))
    }
}

/// What a task's state is called.
pub fn state_word(entry: &Entry) -> &'static str {
    match entry.outcome {
        None => "running",
        Some(RecordedOutcome::Success) => "completed",
        Some(RecordedOutcome::Failure) => "failed",
        Some(RecordedOutcome::Timeout) => "timeout",
        Some(RecordedOutcome::Killed) => "killed",
        Some(RecordedOutcome::Interrupted) => "interrupted",
    }
}

/// Why a running task's status is what it is, the strongest evidence first.
pub fn evidence(entry: &Entry, now: f64) -> Vec<String> {
    if entry.outcome.is_some() {
        return Vec::new();
    }
    let input = if entry.pty {
        Input::Terminal
    } else {
        Input::Pipe
    };
    let waiting = entry.waiting.as_ref();
    let mut evidence: Vec<String> = waiting
        .map(|waiting| words::proof(waiting, input))
        .into_iter()
        .collect();
    evidence.extend(words::summary(&entry.conditions));
    if let Some(progress) = &entry.progress {
        let peer = progress.peer.as_ref();
        let peer = peer.map(|peer| (peer.pid, peer.name.as_str()));
        let newest = progress.last_change.map_or(entry.started, |(_, at)| at);
        let unchanged_for = Duration::try_from_secs_f64(now - newest).unwrap_or_default();
        let status = progress.outlook.status(now);
        let deeds = &progress.deeds;
        evidence.extend(words::evidence(status, deeds, peer, unchanged_for));
    }
    evidence
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    /// The files of two tasks as servers write them.
    const ENTRIES: &str = r#"
        {"id":"22e9e137","command":"sudo make","description":"Build","part_of":null,
         "directory":"/tmp","pid":26800,"started":1795337849.4,"pty":true,"outcome":null,
         "exit_code":null,"duration_ms":null,"leftovers":[],"output":["/tmp/22e9e137.0"],
         "segments":[[0,0],[1,4096]],"columns":80,"last_output":1795337850.1,
         "waiting":{"wanted":"Password","proof":"Blocked","reader":{"pid":26801,"name":"sudo"},
                    "prompt":"Password: "},
         "conditions":[{"Stopped":{"process":{"pid":1,"name":"x"},"by":"Stop","holds_up":true}},
                       {"DiskSleep":{"process":{"pid":2,"name":"y"}}}],
         "progress":{"heartbeats":3,"state_changes":2,"last_change":["Output",1795337850.1],
                     "outlook":{"blocked":"Input","alive_until":1795337860.0,
                                "novel_until":null,"stuck_from":1795337900.0},
                     "deeds":{"time":{"secs":5,"nanos":1},"output":10,"io":5000000,"born":1,
                              "ended":0,"cpu_share":0.5},
                     "peer":{"pid":3,"name":"curl"},"degraded":false}}
        {"id":"3dc8c9ee","command":"make","description":null,"directory":"/tmp","pid":7,
         "started":1795337849.4,"pty":false,"outcome":"SUCCESS","exit_code":0,
         "duration_ms":1500,"leftovers":[8],"output":[]}"#;

    #[test]
    fn a_servers_file_is_a_task() {
        let entries = serde_json::Deserializer::from_str(ENTRIES).into_iter::<Entry>();
        let entries: Vec<Entry> = entries.map(|entry| entry.expect("an entry")).collect();
        assert_eq!(entries.len(), 2);
    }

    proptest! {
        #[test]
        fn whatever_a_servers_file_holds_it_is_shown_or_left_out(
            entry in arbitrary::damaged(ENTRIES),
            now in prop_oneof![Just(1795337855.0), Just(1795339999.0), any::<f64>()],
        ) {
            let Ok(entry) = serde_json::from_str::<Entry>(&entry.to_string()) else {
                return Ok(());
            };
            let task = Task::of_another(Path::new("/nowhere/servers/a"), entry);
            let session = task.session(now, 3, None);
            prop_assert!(serde_json::to_string(&session).is_ok());
            prop_assert_eq!(session.tail.len(), 0);
        }
    }
}
