//! The agent programs that runs can use: how each is started, what its output means and
//! what it leaves behind.
//!
//! Four have code of their own, some are entries of `data/executors.yaml`, and the user
//! adds others and changes these. An executor is data and three functions: it knows no
//! states and starts nothing. Limits: whether a program is installed is not known
//! here.

mod claude;
mod codex;
mod command;
mod launch;
mod listed;
mod openai;

use serde_json::Value;

use crate::agent::activity::{Activity, Answer, Texts};
use crate::agent::storage::{Format, Storage};
use crate::agent::stream::{Framing, Record};
use crate::config::UserExecutor;

pub use crate::agent::failure::classify_failure;
pub use crate::agent::storage::{Recovery, Reference};
use launch::ID_VARIABLE;
pub use launch::{Ids, Launch, MAX_ARGUMENT_PROMPT, PromptBy, Role, cut_middle};
use listed::Listing;

const ROLE_VARIABLE: &str = "ONESHOT_ROLE";
const ITERATION_VARIABLE: &str = "ONESHOT_ITERATION";
/// For programs whose command line says nothing of models.
const MODEL_VARIABLE: &str = "ONESHOT_MODEL";

/// The name of a user's own program without another name.
const COMMAND: &str = "command";

/// An agent program: how it is started, what its output means, what it leaves.
#[derive(Debug)]
pub struct Executor {
    name: String,
    program: String,
    kind: Kind,
    /// Words of the user's, beyond those that belong to the program.
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

/// What is known of a program.
#[derive(Debug)]
enum Kind {
    Claude,
    Codex,
    OpenAi,
    Listed(Box<Listing>),
    /// Its command line only.
    Command(PromptBy),
}

impl Executor {
    fn new(name: &str, program: String, kind: Kind) -> Executor {
        Executor {
            name: name.to_owned(),
            program,
            kind,
            words: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program that must be there: a name in PATH or a path.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// What to do where the program is missing, as a sentence's end: `install it: …`.
    pub fn install_hint(&self) -> String {
        match &self.kind {
            Kind::Claude => "install it: npm install -g @anthropic-ai/claude-code".to_owned(),
            Kind::Codex => "install it: npm install -g @openai/codex".to_owned(),
            Kind::Listed(listing) => format!("install it: {}", listing.install),
            Kind::OpenAi => "this program's own file is gone: start it anew".to_owned(),
            Kind::Command(_) => format!(
                "put it into PATH, or give its path in executors.{}.argv of config.yaml",
                self.name
            ),
        }
    }

    /// How it gets its prompt. By argument, the whole prompt must stay within
    /// [`MAX_ARGUMENT_PROMPT`]; what is longer has its middle cut.
    pub fn prompt_by(&self) -> PromptBy {
        match &self.kind {
            Kind::Claude | Kind::Codex | Kind::OpenAi => PromptBy::Stdin,
            Kind::Listed(listing) => listing.prompt_by(),
            Kind::Command(prompt_by) => *prompt_by,
        }
    }

    /// How to start it.
    pub fn launch(&self, ids: &Ids<'_>) -> Launch {
        let prompt = launch::clean(ids.prompt);
        let (stdin, prompt) = match self.prompt_by() {
            PromptBy::Stdin => (Some(prompt.into_owned()), String::new()),
            // Whoever writes the prompt cuts where it hurts least; here nothing may fail.
            PromptBy::Argument => (None, cut_middle(&prompt, MAX_ARGUMENT_PROMPT)),
        };
        let mut argv = vec![self.program.clone()];
        argv.extend(self.arguments(ids, &prompt));
        Launch {
            argv,
            stdin,
            environment: self.environment(ids),
        }
    }

    /// The program's own words, the user's, and what must stand last.
    fn arguments(&self, ids: &Ids<'_>, prompt: &str) -> Vec<String> {
        let (mut arguments, last) = match &self.kind {
            Kind::Claude => (claude::arguments(ids), Vec::new()),
            Kind::Codex => (codex::arguments(ids), vec![codex::LAST_ARGUMENT.to_owned()]),
            Kind::OpenAi => (openai::arguments(ids), Vec::new()),
            Kind::Listed(listing) => (
                listing.arguments(ids, prompt),
                listing.last_arguments(ids, prompt),
            ),
            Kind::Command(prompt_by) => {
                return command::arguments(&self.words, *prompt_by, prompt);
            }
        };
        arguments.extend(self.words.iter().cloned());
        arguments.extend(last);
        arguments
    }

    /// The user's variables, and ours over them: agents rely on those.
    fn environment(&self, ids: &Ids<'_>) -> Vec<(String, String)> {
        let mut ours = vec![
            (ID_VARIABLE.to_owned(), ids.oneshot.to_owned()),
            (ROLE_VARIABLE.to_owned(), ids.role.word().to_owned()),
            (ITERATION_VARIABLE.to_owned(), ids.iteration.to_string()),
        ];
        if let Some(model) = ids.model {
            ours.push((MODEL_VARIABLE.to_owned(), model.to_owned()));
        }
        let theirs = self.environment.iter();
        let theirs = theirs.filter(|(name, _)| ours.iter().all(|(known, _)| known != name));
        let mut environment: Vec<_> = theirs.cloned().collect();
        environment.extend(ours);
        environment
    }

    /// The shape of its stdout.
    pub fn framing(&self) -> Framing {
        match &self.kind {
            Kind::Claude | Kind::Codex | Kind::OpenAi => Framing::Lines,
            Kind::Listed(listing) if listing.is_plain() => Framing::Plain,
            Kind::Listed(_) => Framing::Lines,
            Kind::Command(_) => Framing::Plain,
        }
    }

    /// Whether all of its stdout is its final text, since it has no terminal event.
    pub fn final_text_is_stdout(&self) -> bool {
        self.framing() == Framing::Plain
    }

    /// What a record of its stdout means; at least one activity.
    pub fn classify(&self, record: &Record) -> Vec<Activity> {
        let event = match record {
            Record::Line(line) if self.final_text_is_stdout() => {
                return vec![Activity::Text(format!("{line}\n"))];
            }
            // What stands between the records of a program that has some is no answer.
            Record::Line(_) => return vec![Activity::Other],
            Record::Json(json) => serde_json::from_str::<Value>(json),
        };
        match event {
            Ok(Value::Array(events)) if !events.is_empty() => events
                .iter()
                .flat_map(|event| self.meaning(event))
                .collect(),
            Ok(event) => self.meaning(&event),
            Err(_) => vec![Activity::Other],
        }
    }

    fn meaning(&self, event: &Value) -> Vec<Activity> {
        match &self.kind {
            Kind::Claude => claude::classify(event),
            Kind::Codex => codex::classify(event),
            Kind::OpenAi => openai::classify(event),
            Kind::Listed(listing) => listing.classify(event),
            Kind::Command(_) => vec![Activity::Other],
        }
    }

    /// What collects its final answer from its activities.
    pub fn answer(&self) -> Answer {
        Answer::new(match &self.kind {
            Kind::Claude | Kind::Codex => Texts::Messages,
            Kind::OpenAi => Texts::Pieces,
            // Lines come with their ends.
            Kind::Listed(listing) if listing.is_plain() => Texts::Pieces,
            Kind::Listed(listing) => listing.texts(),
            Kind::Command(_) => Texts::Pieces,
        })
    }

    /// What its own storage shows.
    pub fn recover(&self, reference: &Reference<'_>) -> Recovery {
        match &self.kind {
            Kind::Claude => Storage {
                roots: vec!["$CLAUDE_CONFIG_DIR".to_owned(), "~/.claude".to_owned()],
                files: vec!["projects/*/*.jsonl".to_owned()],
                format: Format::Claude,
            }
            .recover(reference),
            Kind::Codex => Storage {
                roots: vec!["$CODEX_HOME".to_owned(), "~/.codex".to_owned()],
                files: vec!["sessions/*/*/*/rollout-*.jsonl".to_owned()],
                format: Format::Codex,
            }
            .recover(reference),
            Kind::Listed(listing) => listing.storage.recover(reference),
            Kind::OpenAi | Kind::Command(_) => Recovery::Nothing,
        }
    }
}

/// All executors, by name.
#[derive(Debug)]
pub struct Executors {
    all: Vec<Executor>,
    /// Names whose entry in the configuration cannot work, and why.
    faulty: Vec<(String, Fault)>,
}

/// What is wrong with the user's entry for an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has no program.
    #[error("it has no argv; give the program and its arguments as a list")]
    NoArgv,
    /// The program decides that.
    #[error("its prompt_by cannot be changed; leave that out")]
    PromptBy,
}

/// Why a name stands for no executor.
#[derive(Debug, thiserror::Error)]
pub enum UnknownExecutor {
    /// There is none of this name.
    #[error("no executor {name:?}; there are {known}, and executors of config.yaml adds others")]
    NoSuch {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// What the user configured of it cannot work.
    #[error("executors.{name} of config.yaml: {fault}")]
    Faulty {
        /// The name.
        name: String,
        /// What is wrong.
        fault: Fault,
    },
}

/// Why there are no executors at all.
#[derive(Debug, thiserror::Error)]
#[error("the built-in list of executors is faulty: {0}")]
pub struct ListError(String);

impl Executors {
    /// The built-in ones, with what the user adds and changes.
    ///
    /// # Errors
    /// When the built-in list is faulty.
    pub fn new(user: &[UserExecutor]) -> Result<Executors, ListError> {
        let mut executors = Executors {
            all: vec![
                Executor::new("claude", "claude".to_owned(), Kind::Claude),
                Executor::new("codex", "codex".to_owned(), Kind::Codex),
                Executor::new("openai", openai::program(), Kind::OpenAi),
            ],
            // It is nothing without a program.
            faulty: vec![(COMMAND.to_owned(), Fault::NoArgv)],
        };
        for (name, listing) in listed::entries().map_err(ListError)? {
            let program = listing.program.clone();
            let executor = Executor::new(&name, program, Kind::Listed(Box::new(listing)));
            executors.all.push(executor);
        }
        for entry in user {
            executors.faulty.retain(|(name, _)| *name != entry.name);
            if let Err(fault) = executors.take(entry) {
                executors.faulty.push((entry.name.clone(), fault));
            }
        }
        Ok(executors)
    }

    fn take(&mut self, entry: &UserExecutor) -> Result<(), Fault> {
        let known = self.all.iter_mut().find(|known| known.name == entry.name);
        match known {
            Some(executor) => executor.change(entry),
            None => {
                let (program, words) = entry.argv.split_first().ok_or(Fault::NoArgv)?;
                let kind = Kind::Command(entry.prompt_by.unwrap_or(PromptBy::Stdin));
                let mut executor = Executor::new(&entry.name, program.clone(), kind);
                executor.words = words.to_vec();
                executor.environment.clone_from(&entry.env);
                self.all.push(executor);
                Ok(())
            }
        }
    }

    /// The executor of this name.
    ///
    /// # Errors
    /// When there is none, or when what the user configured of it cannot work.
    pub fn find(&self, name: &str) -> Result<&Executor, UnknownExecutor> {
        if let Some((name, fault)) = self.faulty.iter().find(|(faulty, _)| faulty == name) {
            return Err(UnknownExecutor::Faulty {
                name: name.clone(),
                fault: *fault,
            });
        }
        let found = self.all.iter().find(|executor| executor.name == name);
        found.ok_or_else(|| UnknownExecutor::NoSuch {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The names that can be used.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.all.iter().map(Executor::name);
        names.filter(|name| self.faulty.iter().all(|(faulty, _)| faulty != name))
    }
}

impl Executor {
    /// The user's entry for a built-in one: another file of the program, further words for
    /// its command line, further variables.
    fn change(&mut self, entry: &UserExecutor) -> Result<(), Fault> {
        if entry.prompt_by.is_some_and(|by| by != self.prompt_by()) {
            return Err(Fault::PromptBy);
        }
        if let Some((program, words)) = entry.argv.split_first() {
            self.program.clone_from(program);
            self.words = words.to_vec();
        }
        self.environment.clone_from(&entry.env);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::agent::stream::Framer;
    use crate::arbitrary;

    /// Streams as they were recorded, of each program that prints records.
    const STREAMS: &str = concat!(
        include_str!("../../tests/fixtures/agents/claude/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/claude/streams/auth.ndjson"),
        include_str!("../../tests/fixtures/agents/claude/streams/api.ndjson"),
        include_str!("../../tests/fixtures/agents/codex/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/codex/streams/refused.ndjson"),
        include_str!("../../tests/fixtures/agents/cline/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/gemini/streams/ok.ndjson"),
        include_str!("../../tests/fixtures/agents/gemini/streams/auth.ndjson"),
    );

    static EXECUTORS: LazyLock<Executors> = LazyLock::new(|| {
        let own = UserExecutor {
            name: "mine".to_owned(),
            argv: vec!["mine".to_owned()],
            env: Vec::new(),
            prompt_by: None,
        };
        Executors::new(&[own]).unwrap()
    });

    /// Reads a stdout as a run does; how many records it has, each of which means something.
    fn follow(executor: &Executor, stdout: &[u8]) -> usize {
        let mut framer = Framer::new(executor.framing());
        let mut records = framer.push(stdout);
        records.extend(framer.finish());
        let mut answer = executor.answer();
        for record in &records {
            let activities = executor.classify(record);
            assert!(!activities.is_empty(), "{record:?}");
            activities.iter().for_each(|activity| answer.see(activity));
        }
        classify_failure(&String::from_utf8_lossy(stdout), answer.text());
        records.len()
    }

    proptest! {
        #[test]
        fn whatever_a_record_holds_it_means_something(
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
