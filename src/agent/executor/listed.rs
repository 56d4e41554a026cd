//! Programs that `data/executors.yaml` describes: how they are started and what their
//! records mean, as data.
//!
//! Limits: a rule looks at one record alone.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::launch::{Ids, PromptBy};
use crate::agent::activity::{Activity, AgentError, Final, Texts};
use crate::agent::failure::class_of;
use crate::agent::json;
use crate::agent::storage::Storage;

/// The list, part of the program.
const LIST: &str = include_str!("../../../data/executors.yaml");

/// One entry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    pub program: String,
    pub arguments: Vec<String>,
    #[serde(default)]
    model: Vec<String>,
    /// Behind the user's own words.
    #[serde(default)]
    last: Vec<String>,
    prompt_by: By,
    pub install: String,
    #[serde(default)]
    texts: Joined,
    #[serde(default)]
    events: Vec<Rule>,
    pub storage: Storage,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    Stdin,
    Argument,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Joined {
    #[default]
    Messages,
    Pieces,
}

/// What a record means. Places are dotted paths into it.
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
    /// Its terminal event, with its text there; an empty place where it has none.
    #[serde(rename = "final")]
    end: Option<String>,
    /// The words of an error, where there is one.
    error: Option<String>,
}

/// The entries by name.
pub(super) fn entries() -> Result<BTreeMap<String, Listing>, String> {
    serde_saphyr::from_str(LIST).map_err(|error| error.to_string())
}

impl Listing {
    pub(super) fn prompt_by(&self) -> PromptBy {
        match self.prompt_by {
            By::Stdin => PromptBy::Stdin,
            By::Argument => PromptBy::Argument,
        }
    }

    pub(super) fn texts(&self) -> Texts {
        match self.texts {
            Joined::Messages => Texts::Messages,
            Joined::Pieces => Texts::Pieces,
        }
    }

    /// Whether its stdout has no records that mean something.
    pub(super) fn is_plain(&self) -> bool {
        self.events.is_empty()
    }

    /// Before the user's own words.
    pub(super) fn arguments(&self, ids: &Ids<'_>, prompt: &str) -> Vec<String> {
        let model = ids.model.map(|_| &self.model).into_iter().flatten();
        let words = self.arguments.iter().chain(model);
        words.map(|word| filled(word, ids, prompt)).collect()
    }

    /// Behind the user's own words.
    pub(super) fn last_arguments(&self, ids: &Ids<'_>, prompt: &str) -> Vec<String> {
        let words = self.last.iter();
        words.map(|word| filled(word, ids, prompt)).collect()
    }

    pub(super) fn classify(&self, event: &Value) -> Vec<Activity> {
        let rule = self.events.iter().find(|rule| rule.fits(event));
        vec![
            rule.and_then(|rule| rule.activity(event))
                .unwrap_or(Activity::Other),
        ]
    }
}

/// A word with one placeholder filled in; what is filled in is not looked at again.
fn filled(word: &str, ids: &Ids<'_>, prompt: &str) -> String {
    let placeholders = [
        ("{prompt}", prompt),
        ("{session}", ids.agent_session),
        ("{model}", ids.model.unwrap_or_default()),
    ];
    for (placeholder, value) in placeholders {
        if let Some((before, after)) = word.split_once(placeholder) {
            return [before, value, after].concat();
        }
    }
    word.to_owned()
}

impl Rule {
    fn fits(&self, event: &Value) -> bool {
        let mut conditions = self.when.iter();
        conditions.all(|(place, value)| json::text_at(event, place) == Some(value))
    }

    fn activity(&self, event: &Value) -> Option<Activity> {
        let said = |place: &Option<String>| Some(json::text_of(json::at(event, place.as_ref()?)?));
        if self.end.is_some() {
            let text = said(&self.end).unwrap_or_default();
            let problem = said(&self.error).filter(|problem| !problem.is_empty());
            return Some(Activity::Final(ending(text, problem)));
        }
        if self.result.is_some() {
            let error = said(&self.error).filter(|error| !error.is_empty());
            let failed = error.is_some();
            let text = said(&self.result).filter(|text| !text.is_empty()).or(error);
            let text = text.unwrap_or_default();
            return Some(Activity::ToolResult { text, failed });
        }
        if let Some(name) = said(&self.call) {
            let place = self.argument.as_deref().unwrap_or_default();
            let argument = json::at(event, place).unwrap_or(&Value::Null);
            return Some(json::call(&name, argument));
        }
        said(&self.session)
            .map(|id| Activity::Session { id })
            .or_else(|| said(&self.text).map(Activity::Text))
            .or_else(|| said(&self.reflection).map(Activity::Reflection))
            .or_else(|| said(&self.plan).map(Activity::Plan))
    }
}

/// Where there is no text, the words of the error are it.
fn ending(text: String, problem: Option<String>) -> Final {
    let error = problem.as_deref().map(|problem| {
        let class = class_of(problem).or_else(|| class_of(&text));
        class.unwrap_or(AgentError::ToolError)
    });
    let text = match problem {
        Some(problem) if text.is_empty() => problem,
        _ => text,
    };
    Final { text, error }
}
