//! The agent programs that runs can use: how to start them, how to read their output, and how to
//! recover work from their storage.
//!
//! They are entries of `data/executors.yaml`; the configuration can add and change executors. Code
//! reads the records of three programs; rules read those of the others. Limits: starts no process
//! and does not check whether a program is installed.

mod claude;
mod codex;
mod launch;
mod listed;
mod version;

use std::sync::Arc;

use serde_json::Value;

use crate::agent::activity::{Activity, AgentError, Answer};
use crate::agent::stream::{Framing, Record};
use crate::config::UserExecutor;

pub(crate) use crate::agent::activity::classify_failure;
pub use crate::agent::storage::{Recovery, Reference};
use launch::ID_VARIABLE;
pub use launch::{Ids, Launch, MAX_ARGUMENT_PROMPT, PromptBy, Role};
pub(crate) use launch::{cut_middle, exec_line};
use listed::Listing;
pub(crate) use version::{Verified, version_in};

const ROLE_VARIABLE: &str = "ONESHOT_ROLE";
pub(crate) const ITERATION_VARIABLE: &str = "ONESHOT_ITERATION";
/// For programs without an argument for the model.
const MODEL_VARIABLE: &str = "ONESHOT_MODEL";

/// The executor that runs a program of the user.
const COMMAND: &str = "command";
/// The executor that runs this program.
const OPENAI: &str = "openai";

/// An agent program.
#[derive(Debug, Clone)]
pub struct Executor {
    listing: Listing,
    /// Whether only the user's configuration describes it.
    is_user_defined: bool,
    /// The user's arguments, in addition to those that the program needs.
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Executor {
    fn new(listing: Listing, is_user_defined: bool) -> Executor {
        Executor { listing, is_user_defined, words: Vec::new(), environment: Vec::new() }
    }

    pub fn name(&self) -> &str {
        &self.listing.name
    }

    /// The program to start: a name in PATH or a path.
    pub fn program(&self) -> &str {
        &self.listing.program
    }

    /// What to do if the program is missing, as the end of a sentence: `install it: …`.
    pub fn install_hint(&self) -> String {
        let name = self.name();
        if self.is_user_defined {
            return format!(
                "put it into PATH, or give its path in executors.{name}.argv of config.yaml"
            );
        }
        if name == OPENAI {
            return "this program's own file is missing: restart it".to_owned();
        }
        format!("install it: {}", self.listing.install)
    }

    /// How it gets its prompt. Without a file, a prompt passed as an argument loses its middle if it is
    /// longer than [`MAX_ARGUMENT_PROMPT`].
    pub(crate) fn prompt_by(&self) -> PromptBy {
        self.listing.prompt_by
    }

    /// How to start it.
    pub fn launch(&self, ids: &Ids<'_>) -> Launch {
        let prompt = launch::clean(ids.prompt);
        let (stdin, prompt) = match self.prompt_by() {
            PromptBy::Stdin => (Some(prompt.into_owned()), String::new()),
            PromptBy::Argument => match ids.prompt_file {
                Some(file) => (None, launch::in_file(file)),
                None => (None, cut_middle(&prompt, MAX_ARGUMENT_PROMPT)),
            },
        };
        let words = self.listing.with_role(&self.words, ids);
        let mut argv = vec![self.program().to_owned()];
        argv.extend(if self.is_user_defined {
            launch::user_arguments(&words, self.prompt_by(), &prompt)
        } else {
            self.listing.arguments(ids, &words, &prompt)
        });
        Launch { argv, stdin, environment: self.environment(ids) }
    }

    /// Whether it is started with the id of its session, and names none otherwise.
    pub(crate) fn takes_session(&self) -> bool {
        !self.is_user_defined && self.listing.takes_session()
    }

    /// The user's variables, overridden by the variables that agents rely on.
    fn environment(&self, ids: &Ids<'_>) -> Vec<(String, String)> {
        let mut required = vec![
            (ID_VARIABLE.to_owned(), ids.oneshot.to_owned()),
            (ROLE_VARIABLE.to_owned(), ids.role.name().to_owned()),
            (ITERATION_VARIABLE.to_owned(), ids.iteration.to_string()),
        ];
        if let Some(model) = ids.model {
            required.push((MODEL_VARIABLE.to_owned(), model.to_owned()));
        }
        let mut environment = self.environment.clone();
        environment.retain(|(name, _)| required.iter().all(|(known, _)| known != name));
        environment.extend(required);
        environment
    }

    /// The format of its stdout.
    pub fn framing(&self) -> Framing {
        if self.listing.is_plain() { Framing::Plain } else { Framing::Lines }
    }

    /// Whether its whole stdout is its final text, because it has no terminal event.
    pub fn final_text_is_stdout(&self) -> bool {
        self.listing.is_plain()
    }

    /// The activities of a record of its stdout; at least one.
    pub fn classify(&self, record: &Record) -> Vec<Activity> {
        let event = match record {
            Record::Line(line) if self.final_text_is_stdout() => {
                let text = Activity::Text(format!("{line}\n"));
                return [text].into_iter().chain(self.listing.reports_in(line)).collect();
            }
            // Text between JSON records is not part of the answer.
            Record::Line(_) => return vec![Activity::Other],
            Record::Json(json) => serde_json::from_str::<Value>(json),
        };
        let meaning = |event| self.with_denials(self.listing.classify(event));
        match event {
            Ok(Value::Array(events)) if !events.is_empty() => {
                events.iter().flat_map(meaning).collect()
            }
            Ok(event) => meaning(&event),
            Err(_) => vec![Activity::Other],
        }
    }

    /// The activities, with what was denied by the words of failed tools.
    fn with_denials(&self, mut activities: Vec<Activity>) -> Vec<Activity> {
        let denials = activities.iter().filter_map(|activity| match activity {
            Activity::ToolResult { text, failed: true } if self.listing.is_denied_tool(text) => {
                Some(Activity::Denied(text.clone()))
            }
            _ => None,
        });
        let denials: Vec<Activity> = denials.collect();
        activities.extend(denials);
        activities
    }

    /// What a line of its stderr reports, if that counts.
    pub(crate) fn classify_stderr(&self, line: &str) -> Option<Activity> {
        self.listing.is_denial_on_stderr(line).then(|| Activity::Denied(line.to_owned()))
    }

    /// How the user allows it more than it may do now, as a sentence; `None` if that is unknown.
    /// `allow_edits` says whether it has the permission to change files already.
    pub(crate) fn permission_advice(&self, allow_edits: bool) -> Option<String> {
        let permission = self.listing.permission.as_ref()?;
        Some(if allow_edits {
            permission.further_advice()
        } else {
            permission.advice(self.name(), self.program())
        })
    }

    /// The options with which it is started in a role and which decide what it may do; `None` if
    /// its own settings do.
    pub(crate) fn permission(&self, role: Role) -> Option<String> {
        self.listing.permission_of(&self.words, role)
    }

    /// Whether it prints its version when asked to. A program that only the user describes may do
    /// anything instead.
    pub(crate) fn prints_version(&self) -> bool {
        !self.is_user_defined
    }

    /// The versions with which its entry was verified, the newest last.
    pub fn verified_versions(&self) -> &[String] {
        &self.listing.verified
    }

    /// Whether its entry was verified with this version, if that is known.
    pub(crate) fn verified(&self, version: Option<&str>) -> Verified {
        let known = self.verified_versions();
        if self.is_user_defined || self.name() == OPENAI {
            return Verified::NotOurs;
        }
        match version {
            _ if known.is_empty() => Verified::Never,
            Some(version) if known.iter().any(|known| known == version) => Verified::Yes,
            _ => Verified::Others(known.join(", ")),
        }
    }

    /// A collector for its final answer.
    pub fn answer(&self) -> Answer {
        Answer::new(self.listing.texts())
    }

    /// The failure that its final text reports although it may exit with 0.
    pub fn failure_in(&self, final_text: &str) -> Option<AgentError> {
        self.listing.failure_in(final_text)
    }

    /// Recovers a result from its storage.
    pub fn recover(&self, reference: &Reference<'_>) -> Recovery {
        let storage = self.listing.storage.as_ref();
        storage.map_or(Recovery::Nothing, |storage| storage.recover(reference))
    }

    /// Applies the user's entry for a built-in executor: another path of the program, more
    /// arguments, more variables.
    fn customise(&mut self, entry: &UserExecutor) -> Result<(), EntryFault> {
        if entry.prompt_by.is_some_and(|by| by != self.prompt_by()) {
            return Err(EntryFault::PromptBy);
        }
        if let Some((program, words)) = entry.argv.split_first() {
            self.listing.program.clone_from(program);
            self.words = words.to_vec();
        }
        self.take_settings(entry)
    }

    /// Takes the settings that an entry may give for every executor.
    fn take_settings(&mut self, entry: &UserExecutor) -> Result<(), EntryFault> {
        self.environment.clone_from(&entry.env);
        if let Some(auditor) = &entry.auditor {
            self.listing.auditor.clone_from(auditor);
        }
        self.listing.take_reading(&entry.reading).map_err(EntryFault::Reading)
    }
}

/// All executors, by name.
#[derive(Debug)]
pub struct Executors {
    all: Vec<Arc<Executor>>,
    /// Names whose entry in the configuration is unusable, and why.
    faulty: Vec<(String, EntryFault)>,
}

/// A fault in the user's entry for an executor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// The entry names no program.
    #[error("it has no argv; give the program and its arguments as a list")]
    NoArgv,
    /// The program determines how it reads its prompt.
    #[error("its prompt_by cannot be changed; remove that line")]
    PromptBy,
    /// A part that says how to read the program is wrong.
    #[error("{0}")]
    Reading(String),
}

/// Why there is no usable executor of a name.
#[derive(Debug, thiserror::Error)]
pub enum UnknownExecutor {
    /// No executor has this name.
    #[error("no executor {name:?}; known are {known}, and executors in config.yaml adds others")]
    NoSuch {
        name: String,
        /// The known names.
        known: String,
    },
    /// Its entry in the configuration is unusable.
    #[error("executors.{name} of config.yaml: {fault}")]
    Faulty { name: String, fault: EntryFault },
}

/// Why the built-in executors cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the built-in list of executors is faulty: {0}")]
pub struct ListError(String);

impl Executors {
    /// The built-in executors, with the user's additions and changes.
    ///
    /// # Errors
    /// If the built-in list is faulty.
    pub fn new(user: &[UserExecutor]) -> Result<Executors, ListError> {
        let mut executors = Executors {
            all: Vec::new(),
            // This executor needs the user's program.
            faulty: vec![(COMMAND.to_owned(), EntryFault::NoArgv)],
        };
        for mut listing in listed::entries().map_err(ListError)? {
            if listing.name == OPENAI {
                listing.program = own_program();
            }
            executors.all.push(Arc::new(Executor::new(listing, false)));
        }
        for entry in user {
            executors.faulty.retain(|(name, _)| *name != entry.name);
            if let Err(fault) = executors.add(entry) {
                executors.faulty.push((entry.name.clone(), fault));
            }
        }
        Ok(executors)
    }

    fn add(&mut self, entry: &UserExecutor) -> Result<(), EntryFault> {
        let known = self.all.iter_mut().find(|known| known.name() == entry.name);
        match known {
            Some(executor) => Arc::make_mut(executor).customise(entry),
            None => {
                let (program, words) = entry.argv.split_first().ok_or(EntryFault::NoArgv)?;
                let prompt_by = entry.prompt_by.unwrap_or(PromptBy::Stdin);
                let listing = Listing::of_user(&entry.name, program, prompt_by);
                let mut executor = Executor::new(listing, true);
                executor.words = words.to_vec();
                executor.take_settings(entry)?;
                self.all.push(Arc::new(executor));
                Ok(())
            }
        }
    }

    /// The executor of this name.
    ///
    /// # Errors
    /// If no executor has this name, or if its entry in the configuration is unusable.
    pub fn find(&self, name: &str) -> Result<&Arc<Executor>, UnknownExecutor> {
        if let Some((name, fault)) = self.faulty.iter().find(|(faulty, _)| faulty == name) {
            return Err(UnknownExecutor::Faulty { name: name.clone(), fault: fault.clone() });
        }
        let found = self.all.iter().find(|executor| executor.name() == name);
        found.ok_or_else(|| UnknownExecutor::NoSuch {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The names of all executors, also of those whose entry is unusable.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        let all = self.all.iter().map(|executor| executor.name());
        let others = self.faulty.iter().map(|(name, _)| name.as_str());
        let others = others.filter(|name| self.all.iter().all(|known| known.name() != *name));
        // Without an entry there is no such program to speak of.
        all.chain(others.filter(|name| *name != COMMAND))
    }

    /// The names of the usable executors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.all.iter().map(|executor| executor.name());
        names.filter(|name| self.faulty.iter().all(|(faulty, _)| faulty != name))
    }
}

/// The path of this program, or its name if the path is unknown.
fn own_program() -> String {
    let file = std::env::current_exe().ok();
    let file = file.filter(|path| path.is_file());
    let path = file.and_then(|path| path.into_os_string().into_string().ok());
    path.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::agent::deeds::Deeds;
    use crate::agent::outage;
    use crate::agent::stream::Framer;
    use crate::arbitrary;

    /// Recorded streams of each program that prints records.
    const STREAMS: &str = concat!(
        include_str!("../../tests/fixtures/agents/claude/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/claude/streams/auth.ndjson"),
        include_str!("../../tests/fixtures/agents/claude/streams/api.ndjson"),
        include_str!("../../tests/fixtures/agents/codex/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/codex/streams/refused.ndjson"),
        include_str!("../../tests/fixtures/agents/cline/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/gemini/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/gemini/streams/auth.ndjson"),
        include_str!("../../tests/fixtures/agents/qwen/streams/denied.ndjson"),
        include_str!("../../tests/fixtures/agents/opencode/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/copilot/streams/limited.ndjson"),
    );

    static EXECUTORS: LazyLock<Executors> = LazyLock::new(|| {
        let own = UserExecutor {
            name: "mine".to_owned(),
            argv: vec!["mine".to_owned()],
            ..UserExecutor::default()
        };
        Executors::new(&[own]).unwrap()
    });

    /// Reads a stdout as a run does, and checks that each record has an activity. Returns the
    /// number of records.
    fn follow(executor: &Executor, stdout: &[u8]) -> usize {
        let mut framer = Framer::new(executor.framing());
        let mut records = framer.push(stdout);
        records.extend(framer.finish());
        let mut answer = executor.answer();
        for record in &records {
            let activities = executor.classify(record);
            assert!(!activities.is_empty(), "{record:?}");
            activities.iter().for_each(|activity| answer.add(activity));
        }
        classify_failure(&String::from_utf8_lossy(stdout), answer.text());
        records.len()
    }

    /// The activities of a recorded stdout and stderr.
    fn activities(name: &str, stdout: &str, stderr: &str) -> Vec<Activity> {
        let executor = EXECUTORS.find(name).unwrap();
        let mut framer = Framer::new(executor.framing());
        let mut records = framer.push(stdout.as_bytes());
        records.extend(framer.finish());
        let of_stderr = stderr.lines().filter_map(|line| executor.classify_stderr(line));
        records.iter().flat_map(|record| executor.classify(record)).chain(of_stderr).collect()
    }

    macro_rules! stream {
        ($path:literal) => {
            include_str!(concat!("../../tests/fixtures/agents/", $path))
        };
    }

    #[test]
    fn a_denied_tool_is_recognised_in_each_recorded_stream() {
        let denied =
            |count, of| Some(format!("was denied {count} of the {of} tools that it called"));
        let idle = || Some("ran no tool and wrote no file".to_owned());
        for (name, stdout, stderr, expected) in [
            ("claude", stream!("claude/streams/denied.ndjson"), "", denied(2, 3)),
            ("claude", stream!("claude/streams/ok.ndjson"), "", denied(1, 3)),
            (
                "codex",
                stream!("codex/streams/denied.ndjson"),
                stream!("codex/streams/denied.txt"),
                denied(2, 2),
            ),
            ("codex", stream!("codex/streams/denied.ndjson"), "", idle()),
            ("codex", stream!("codex/streams/ok.ndjson"), "", None),
            (
                "gemini",
                stream!("gemini/streams/denied.ndjson"),
                // It says on stderr, too, what the failed tool says.
                "Error executing tool write_file: Tool \"write_file\" not found.",
                denied(2, 3),
            ),
            ("cline", stream!("cline/streams/ok.ndjson"), "", None),
            ("qwen", stream!("qwen/streams/denied.ndjson"), "", denied(2, 3)),
            ("qwen", stream!("qwen/streams/ok.ndjson"), "", None),
            ("opencode", stream!("opencode/streams/denied.ndjson"), "", denied(1, 2)),
            ("opencode", stream!("opencode/streams/ok.ndjson"), "", None),
            ("copilot", stream!("copilot/streams/denied.ndjson"), "", denied(2, 3)),
            ("copilot", stream!("copilot/streams/ok.ndjson"), "", denied(1, 3)),
        ] {
            let mut deeds = Deeds::default();
            let activities = activities(name, stdout, stderr);
            activities.iter().for_each(|activity| deeds.add(activity));
            let shortfall = deeds.shortfall("all is done").map(|found| found.to_string());
            assert_eq!(shortfall, expected, "{name}");
            let advice = EXECUTORS.find(name).unwrap().permission_advice(false);
            assert!(expected.is_none() || advice.is_some_and(|it| it.contains(name)), "{name}");
        }
    }

    #[test]
    fn the_attempts_in_recorded_streams_are_told() {
        for (name, stream, expected) in [
            ("claude", stream!("claude/streams/auth.ndjson"), "401 from the API, attempt 1"),
            ("claude", stream!("claude/streams/api.ndjson"), "529 from the API, attempt 1"),
            (
                "claude",
                stream!("claude/streams/refused.ndjson"),
                "no answer from the API, attempt 1",
            ),
            (
                "codex",
                stream!("codex/streams/auth.ndjson"),
                "unexpected status 401 Unauthorized: nope, url: http://127.0.0.1:41817/v1/responses, \
                 attempt 1",
            ),
            (
                "codex",
                stream!("codex/streams/refused.ndjson"),
                "Connection failed: error sending request",
            ),
            ("copilot", stream!("copilot/streams/auth.ndjson"), "401 from the API"),
            ("aider", stream!("aider/streams/api.txt"), "Retrying in 0.2 seconds..."),
        ] {
            let activities = activities(name, stream, "");
            let retry = activities.iter().find_map(|activity| match activity {
                Activity::Retry(retry) => Some(retry.to_string()),
                _ => None,
            });
            assert_eq!(retry, Some(format!("retrying: {expected}")), "{name}");
        }
    }

    /// 500 and 429 may pass, 401 does not.
    #[test]
    fn the_outages_in_recorded_streams_are_told_from_lasting_errors() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents");
        for name in EXECUTORS.names() {
            let executor = EXECUTORS.find(name).unwrap();
            let Some(newest) = executor.verified_versions().last() else { continue };
            for (case, passes) in [("failed", true), ("limited", true), ("refused", false)] {
                let folder = fixtures.join(name).join(newest).join(case);
                let stream = ["stream.ndjson", "stream.txt"].map(|file| folder.join(file));
                let stream = stream.iter().find_map(|path| fs::read_to_string(path).ok());
                let mut answer = executor.answer();
                let activities = activities(name, &stream.expect(name), "");
                activities.iter().for_each(|activity| answer.add(activity));
                let error = answer.error().or_else(|| executor.failure_in(answer.text()));
                // It was ended before it said that its endpoint had failed.
                let Some(error) = error else {
                    assert_eq!((name, case), ("qwen", "limited"));
                    continue;
                };
                let found = outage::of(error, answer.text(), 0.0);
                assert_eq!(found.is_some(), passes, "{name}, {case}: {}", answer.text());
            }
        }
    }

    proptest! {
        #[test]
        fn any_record_has_an_activity(
            records in prop::collection::vec(arbitrary::damaged(STREAMS), 1..4),
        ) {
            let lines: Vec<String> = records.iter().map(Value::to_string).collect();
            let stdout = lines.join("\n");
            for name in EXECUTORS.names() {
                let executor = EXECUTORS.find(name).unwrap();
                prop_assert!(follow(executor, stdout.as_bytes()) > 0, "{name}");
            }
        }

        #[test]
        fn a_stream_that_is_cut_and_torn_is_read_to_its_end(
            cut in any::<prop::sample::Index>(),
            torn in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let stream = STREAMS.as_bytes();
            let (before, after) = stream.split_at(cut.index(stream.len()));
            let stdout = [before, &torn, after].concat();
            for name in EXECUTORS.names() {
                follow(EXECUTORS.find(name).unwrap(), &stdout);
            }
        }
    }
}
