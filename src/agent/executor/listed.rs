//! The entries of `data/executors.yaml`: how to start these programs and how to read their records.
//!
//! Limits: a rule sees one record at a time. Pure.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::launch::{Ids, PromptBy, Role};
use super::{claude, codex};
use crate::agent::activity::class_of;
use crate::agent::activity::{Activity, AgentError, Final, Retry, Texts};
use crate::agent::json;
use crate::agent::storage::Storage;
use crate::agent::usage::{self, Usage, UsageReport};

const LIST: &str = include_str!("../../../data/executors.yaml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    pub(crate) name: String,
    pub(crate) program: String,
    /// The versions with which the entry was recorded.
    #[serde(default)]
    pub(crate) verified: Vec<String>,
    pub(crate) arguments: Vec<String>,
    #[serde(default)]
    model: Vec<String>,
    /// Arguments of auditors.
    #[serde(default)]
    pub(crate) auditor: Vec<String>,
    #[serde(default)]
    last: Vec<String>,
    /// In place of `last`, where the prompt is in a file.
    #[serde(default)]
    prompt_file: Vec<String>,
    pub(crate) prompt_by: PromptBy,
    #[serde(default)]
    pub(crate) install: String,
    #[serde(default)]
    texts: Texts,
    #[serde(default)]
    records: Records,
    #[serde(default)]
    events: Vec<Rule>,
    #[serde(default)]
    plain: PlainText,
    #[serde(default)]
    denied: DeniedWords,
    pub(crate) permission: Option<Permission>,
    pub(crate) storage: Option<Storage>,
}

/// The words by which a program says that a permission is lacking.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DeniedWords {
    /// In the results of failed tools.
    tools: Vec<String>,
    /// In lines of stderr, about tools without a result.
    stderr: Vec<String>,
}

/// What a program may do, and how the user allows it more.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Permission {
    /// The options that decide what it may do; one with a value ends with `=`.
    #[serde(default)]
    options: Vec<String>,
    /// The arguments that let it change files.
    #[serde(default)]
    allow: Vec<String>,
    /// Other settings that do, as the end of a sentence.
    #[serde(default)]
    settings: String,
}

impl Permission {
    /// The words without the options that decide what the program may do.
    fn remove_from(&self, words: &[String]) -> Vec<String> {
        self.divide(words).1
    }

    /// The options among the words that decide what the program may do, with their values.
    fn deciding(&self, words: &[String]) -> Vec<String> {
        self.divide(words).0
    }

    /// Divides the words into those that decide what the program may do, and the others.
    fn divide(&self, words: &[String]) -> (Vec<String>, Vec<String>) {
        let (mut deciding, mut others) = (Vec::new(), Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let has_value_apart =
                self.options.iter().find_map(|option| match option.strip_suffix('=') {
                    Some(name) if word == name => Some(true),
                    Some(_) => word.starts_with(option.as_str()).then_some(false),
                    None => (word == option).then_some(false),
                });
            let Some(has_value_apart) = has_value_apart else {
                others.push(word.clone());
                continue;
            };
            deciding.push(word.clone());
            if has_value_apart {
                deciding.extend(words.next().cloned());
            }
        }
        (deciding, others)
    }

    /// How the user allows more to the executor of this name, as a sentence.
    pub(super) fn advice(&self, name: &str, program: &str) -> String {
        let words = [program].into_iter().chain(self.allow.iter().map(String::as_str));
        let argv = words.collect::<Vec<_>>().join(", ");
        let argv = format!("`executors.{name}.argv: [{argv}]` in config.yaml");
        match (self.allow.is_empty(), self.settings.as_str()) {
            (false, "") => format!("--allow-edits, or {argv}, lets it change files"),
            (false, settings) => {
                format!("--allow-edits, or {argv}, lets it change files, and so {settings}")
            }
            (true, settings) => format!("to let it change files, {settings}"),
        }
    }
}

impl Permission {
    /// How the user allows more to an executor that may change files.
    pub(super) fn further_advice(&self) -> String {
        let settings = self.settings.trim_start_matches("do ").trim_start_matches("does ");
        if settings.is_empty() {
            "it may change files".to_owned()
        } else {
            format!("it may change files; for more, see {settings}")
        }
    }
}

/// Which code reads a program's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Records {
    #[default]
    #[serde(skip)]
    Rules,
    Claude,
    Codex,
    OpenAi,
}

/// What lines of a plain text say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PlainText {
    /// How a line begins if the endpoint has failed.
    errors: Vec<String>,
    /// How a line begins if the model has answered, whatever failed before.
    answered: Vec<String>,
    /// How a line begins if the endpoint has failed and is tried again.
    retries: Vec<String>,
    /// What a line says of the cost of an answer.
    usage: Vec<UsagePattern>,
}

/// A regular expression whose groups are named like the fields of [`UsagePlaces`].
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct UsagePattern(Regex);

impl TryFrom<String> for UsagePattern {
    type Error = regex::Error;

    fn try_from(pattern: String) -> Result<UsagePattern, regex::Error> {
        Regex::new(&pattern).map(UsagePattern)
    }
}

impl UsagePattern {
    fn read(&self, line: &str) -> Option<Usage> {
        let found = self.0.captures(line)?;
        let group = |name| found.name(name).map(|words| words.as_str());
        Some(Usage {
            input_tokens: group("input").and_then(usage::count_in_words),
            output_tokens: group("output").and_then(usage::count_in_words),
            usd: group("usd").and_then(usage::money_in_words),
            turns: group("turns").and_then(usage::count_in_words),
        })
    }
}

/// Maps a record to an activity. The fields other than `when` are dotted paths into the record.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rule {
    when: BTreeMap<String, String>,
    session: Option<String>,
    text: Option<String>,
    reflection: Option<String>,
    plan: Option<String>,
    call: Option<String>,
    argument: Option<String>,
    result: Option<String>,
    /// The path of the terminal event's text; empty if the event has none.
    #[serde(rename = "final")]
    end: Option<String>,
    /// The path of an error's message.
    error: Option<String>,
    /// The path of the HTTP status with which the endpoint failed.
    status: Option<String>,
    usage: Option<UsagePlaces>,
    /// The path of what failed before the program tries its endpoint again, and of the attempt's
    /// number.
    retry: Option<String>,
    attempt: Option<String>,
}

/// Where a record reports a cost.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UsagePlaces {
    of: UsageOf,
    /// The counts at these paths add up.
    input: Vec<String>,
    output: Vec<String>,
    usd: Option<String>,
    turns: Option<String>,
}

/// What a record's cost covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UsageOf {
    /// The session so far.
    #[default]
    Session,
    /// One answer of the model.
    Answer,
}

impl UsagePlaces {
    fn read(&self, event: &Value) -> Option<UsageReport> {
        let usage = Usage {
            input_tokens: json::count_at(event, &self.input),
            output_tokens: json::count_at(event, &self.output),
            usd: self.usd.as_ref().and_then(|path| json::money_at(event, path)),
            turns: self.turns.as_ref().and_then(|path| json::count_at(event, &[path])),
        };
        match self.of {
            UsageOf::Session => UsageReport::of_session(usage),
            UsageOf::Answer => UsageReport::of_answer(usage, None),
        }
    }
}

pub(super) fn entries() -> Result<Vec<Listing>, String> {
    serde_saphyr::from_str(LIST).map_err(|error| error.to_string())
}

impl Listing {
    /// A user-defined program, whose whole stdout is its final answer.
    pub(super) fn of_user(name: &str, program: &str, prompt_by: PromptBy) -> Listing {
        Listing {
            name: name.to_owned(),
            program: program.to_owned(),
            verified: Vec::new(),
            arguments: Vec::new(),
            model: Vec::new(),
            auditor: Vec::new(),
            prompt_file: Vec::new(),
            last: Vec::new(),
            prompt_by,
            install: String::new(),
            texts: Texts::Messages,
            records: Records::Rules,
            events: Vec::new(),
            plain: PlainText::default(),
            denied: DeniedWords::default(),
            permission: None,
            storage: None,
        }
    }

    /// Takes parts of the user's entry that say how to read the program. The error names the part.
    pub(super) fn take_reading(&mut self, reading: &[(String, Value)]) -> Result<(), String> {
        let has = |wanted: &str| reading.iter().any(|(name, _)| name == wanted);
        if has("events") && has("records") {
            return Err("records and events exclude each other: give one of them".to_owned());
        }
        for (name, value) in reading {
            match name.as_str() {
                "records" => {
                    self.records = part(name, value)?;
                    self.events.clear();
                }
                "events" => {
                    self.records = Records::Rules;
                    self.events = elements(name, value)?;
                }
                "texts" => self.texts = part(name, value)?,
                "plain" => self.plain = part(name, value)?,
                "denied" => self.denied = part(name, value)?,
                "permission" => self.permission = Some(part(name, value)?),
                _ => self.storage = Some(part(name, value)?),
            }
        }
        Ok(())
    }

    pub(super) fn texts(&self) -> Texts {
        // Lines of plain text keep their newlines.
        if self.is_plain() { Texts::Pieces } else { self.texts }
    }

    /// Whether its stdout is plain text instead of records.
    pub(super) fn is_plain(&self) -> bool {
        self.records == Records::Rules && self.events.is_empty()
    }

    /// The failure with which a plain text ends: programs may exit with 0 after it.
    pub(super) fn failure_in(&self, text: &str) -> Option<AgentError> {
        let PlainText { errors, answered, .. } = &self.plain;
        let begins = |line: &str, known: &[String]| known.iter().any(|it| line.starts_with(it));
        let telling =
            text.lines().rev().find(|line| begins(line, errors) || begins(line, answered));
        let error = telling.filter(|line| begins(line, errors))?;
        Some(class_of(error).unwrap_or(AgentError::ApiError))
    }

    /// The user's words, followed by the arguments of the role. Those of an auditor decide what it
    /// may do, whatever the words allow, which are meant for workers.
    pub(super) fn with_role(&self, words: &[String], ids: &Ids<'_>) -> Vec<String> {
        let permission = self.permission.as_ref();
        match (ids.role, permission) {
            // What the user has chosen counts.
            (Role::Worker, Some(permission))
                if ids.allow_edits && permission.remove_from(words).len() == words.len() =>
            {
                [words, &permission.allow].concat()
            }
            (Role::Worker, _) => words.to_vec(),
            (Role::Auditor, Some(permission)) if !self.auditor.is_empty() => {
                [permission.remove_from(words).as_slice(), &self.auditor].concat()
            }
            (Role::Auditor, _) => [words, &self.auditor].concat(),
        }
    }

    /// The words that decide what the program may do in a role; `None` if there are none.
    pub(super) fn permission_of(&self, words: &[String], role: Role) -> Option<String> {
        if role == Role::Auditor && !self.auditor.is_empty() {
            return Some(self.auditor.join(" "));
        }
        let deciding = self.permission.as_ref()?.deciding(words);
        (!deciding.is_empty()).then(|| deciding.join(" "))
    }

    /// Its arguments, with the user's words among them.
    pub(super) fn arguments(&self, ids: &Ids<'_>, words: &[String], prompt: &str) -> Vec<String> {
        let model = ids.model.map(|_| &self.model).into_iter().flatten();
        let first = self.arguments.iter().chain(model);
        let mut arguments: Vec<String> = first.map(|word| filled(word, ids, prompt)).collect();
        arguments.extend(words.iter().cloned());
        let by_file = ids.prompt_file.is_some() && !self.prompt_file.is_empty();
        let last = if by_file { &self.prompt_file } else { &self.last };
        arguments.extend(last.iter().map(|word| filled(word, ids, prompt)));
        arguments
    }

    /// Whether the result of a failed tool says that a permission is lacking.
    /// Whether it takes the id of its session as an argument.
    pub(super) fn takes_session(&self) -> bool {
        self.arguments.iter().chain(&self.last).any(|word| word.contains(SESSION))
    }

    pub(super) fn is_denied_tool(&self, result: &str) -> bool {
        self.denied.tools.iter().any(|known| result.contains(known.as_str()))
    }

    /// Whether a line of stderr says that a permission is lacking.
    pub(super) fn is_denial_on_stderr(&self, line: &str) -> bool {
        self.denied.stderr.iter().any(|known| line.contains(known.as_str()))
    }

    /// What a line of plain text reports, other than the text.
    pub(super) fn reports_in(&self, line: &str) -> Vec<Activity> {
        let retries = self.plain.retries.iter().any(|known| line.starts_with(known.as_str()));
        let retry = || Activity::Retry(Retry { error: line.to_owned(), attempt: None });
        let usage = self.usage_in(line).map(Activity::Usage);
        retries.then(retry).into_iter().chain(usage).collect()
    }

    /// What a line of plain text reports of the cost of an answer.
    fn usage_in(&self, line: &str) -> Option<UsageReport> {
        let mut sum = Usage::default();
        let found = self.plain.usage.iter().filter_map(|pattern| pattern.read(line));
        found.for_each(|usage| sum.add(&usage));
        UsageReport::of_answer(sum, None)
    }

    pub(super) fn classify(&self, event: &Value) -> Vec<Activity> {
        match self.records {
            Records::Claude => claude::classify(event),
            Records::Codex => codex::classify(event),
            Records::OpenAi => openai(event),
            Records::Rules => {
                let rule = self.events.iter().find(|rule| rule.fits(event));
                let activities = rule.map(|rule| rule.activities(event)).unwrap_or_default();
                if activities.is_empty() { vec![Activity::Other] } else { activities }
            }
        }
    }
}

/// The placeholder for the id of the agent's session.
const SESSION: &str = "{session}";

/// Replaces the first placeholder in a word.
fn filled(word: &str, ids: &Ids<'_>, prompt: &str) -> String {
    let placeholders = [
        ("{prompt}", prompt),
        (SESSION, ids.agent_session),
        ("{model}", ids.model.unwrap_or_default()),
        ("{prompt_file}", ids.prompt_file.unwrap_or_default()),
    ];
    for (placeholder, value) in placeholders {
        if let Some((before, after)) = word.split_once(placeholder) {
            return [before, value, after].concat();
        }
    }
    word.to_owned()
}

fn part<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("{name}: {error}"))
}

/// The elements of a list, whose errors name the element, counted from 1.
fn elements<T: DeserializeOwned>(name: &str, value: &Value) -> Result<Vec<T>, String> {
    let Value::Array(values) = value else {
        return Err(format!("{name}: expected a list"));
    };
    let numbered = (1..).zip(values);
    numbered.map(|(number, value)| part(&format!("{name}, number {number}"), value)).collect()
}

impl Rule {
    fn fits(&self, event: &Value) -> bool {
        let mut conditions = self.when.iter();
        conditions.all(|(path, value)| match json::at(event, path) {
            Some(Value::String(text)) => text == value,
            Some(Value::Bool(given)) => given.to_string() == *value,
            Some(Value::Number(given)) => given.to_string() == *value,
            _ => false,
        })
    }

    /// The activities of a record: one, or a tool's call with its result; and its cost.
    fn activities(&self, event: &Value) -> Vec<Activity> {
        let usage = self.usage.as_ref().and_then(|places| places.read(event));
        let activities = [self.called(event), self.activity(event), usage.map(Activity::Usage)];
        activities.into_iter().flatten().collect()
    }

    fn called(&self, event: &Value) -> Option<Activity> {
        let name = json::text_of(json::at(event, self.call.as_ref()?)?);
        let path = self.argument.as_deref().unwrap_or_default();
        let argument = json::at(event, path).unwrap_or(&Value::Null);
        Some(json::call(&name, argument))
    }

    /// The activity of a record other than a call.
    fn activity(&self, event: &Value) -> Option<Activity> {
        let text_in = |path: &Option<String>| Some(json::text_of(json::at(event, path.as_ref()?)?));
        let count_in =
            |path: &Option<String>| path.as_ref().and_then(|path| json::count_at(event, &[path]));
        let error = text_in(&self.error).filter(|error| !error.is_empty());
        if self.end.is_some() {
            let text = text_in(&self.end).unwrap_or_default();
            return Some(Activity::Final(final_event(text, error, count_in(&self.status))));
        }
        if self.result.is_some() {
            let failed = error.is_some();
            let text = text_in(&self.result).filter(|text| !text.is_empty()).or(error);
            let text = text.unwrap_or_default();
            return Some(Activity::ToolResult { text, failed });
        }
        if let Some(error) = text_in(&self.retry) {
            let status = count_in(&self.status).map(|status| format!("{status} from the API"));
            // Some count the attempts from 0.
            let attempt = count_in(&self.attempt).filter(|attempt| *attempt > 0);
            return Some(Activity::Retry(Retry { error: status.unwrap_or(error), attempt }));
        }
        text_in(&self.session)
            .map(|id| Activity::Session { id })
            .or_else(|| text_in(&self.text).filter(|text| !text.is_empty()).map(Activity::Text))
            .or_else(|| text_in(&self.reflection).map(Activity::Reflection))
            .or_else(|| text_in(&self.plan).map(Activity::Plan))
    }
}

/// What programs call a class of errors, where that is a single word.
const NAMED_CLASSES: [(&str, AgentError); 1] = [("auth", AgentError::AuthFailed)];
/// What Cline calls an error of its endpoint that it has no class for. It names no class of other
/// errors.
const UNCLASSED: &str = "unknown";

/// Without a text, the error's message becomes the text.
fn final_event(text: String, problem: Option<String>, status: Option<u64>) -> Final {
    let error = problem.as_deref().map(|problem| {
        let named =
            NAMED_CLASSES.iter().find(|(name, _)| *name == problem).map(|(_, class)| *class);
        let of_status = match status {
            Some(401 | 403) => Some(AgentError::AuthFailed),
            Some(400..) => Some(AgentError::ApiError),
            _ => None,
        };
        let class = named.or(of_status).or_else(|| class_of(problem)).or_else(|| class_of(&text));
        class.unwrap_or(match problem {
            UNCLASSED => AgentError::ApiError,
            _ => AgentError::ToolError,
        })
    });
    let mut text = match problem {
        Some(problem) if text.is_empty() => problem,
        _ => text,
    };
    // Whether a failure passes is read from the text.
    if let (Some(status), Some(_)) = (status.map(|status| status.to_string()), error)
        && !text.contains(&status)
    {
        text.push_str(&format!(" (HTTP status {status})"));
    }
    Final { text, error }
}

/// Reads a record of `zsh-tool agent-openai`.
fn openai(event: &Value) -> Vec<Activity> {
    let text = json::text_at(event, "text").unwrap_or_default().to_owned();
    match json::text_at(event, "type") {
        Some("text") => vec![Activity::Text(text)],
        Some("reasoning") => vec![Activity::Reflection(text)],
        Some("result") => {
            let mut activities = vec![Activity::Final(openai_result(event, text))];
            activities.extend(openai_usage(event).map(Activity::Usage));
            activities
        }
        _ => vec![Activity::Other],
    }
}

fn openai_usage(event: &Value) -> Option<UsageReport> {
    let usage = Usage::deserialize(event.get("usage")?).ok()?;
    UsageReport::of_session(usage)
}

fn openai_result(event: &Value, text: String) -> Final {
    let error = json::text_at(event, "error");
    let error = error.map(|class| AgentError::of_name(class).unwrap_or(AgentError::ApiError));
    Final { text, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(name: &str) -> Listing {
        let mut entries = entries().unwrap().into_iter();
        entries.find(|entry| entry.name == name).unwrap()
    }

    #[test]
    fn the_cost_in_a_line_of_plain_text_is_read() {
        let aider = listing("aider");
        let expected = |input, output, usd| {
            let (input_tokens, output_tokens) = (input, output);
            UsageReport::of_answer(Usage { input_tokens, output_tokens, usd, turns: None }, None)
        };
        for (line, found) in [
            ("Tokens: 17 sent, 1.1k received.", expected(Some(17), Some(1_100), None)),
            (
                "Tokens: 5.2k sent, 1.1k received. Cost: $0.02 message, $0.05 session.",
                expected(Some(5_200), Some(1_100), Some(0.02)),
            ),
            (
                "Tokens: 12k sent, 2.0k cache write, 3.1k cache hit, 12 received.",
                expected(Some(12_000), Some(12), None),
            ),
            ("Cost: $0.0060 message, $0.0060 session.", expected(None, None, Some(0.006))),
            ("I count Tokens: 5 sent, 6 received.", None),
            ("Tokens: many", None),
        ] {
            assert_eq!(aider.usage_in(line), found, "{line}");
        }
    }
}
