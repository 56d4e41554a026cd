//! Lines of a run's log in words: what its agents said and did, for lists, judges and
//! terminals.
//!
//! What a record means, the code of its executor says. Limits: signs of life have no words
//! here, since while an agent is silent there would be nothing else.

use serde_json::Value;

use super::session::one_line;
use crate::agent::activity::Activity;
use crate::agent::executor::Executors;
use crate::agent::stream::Record;
use crate::oneshot::log::{Kind, Line};
use crate::oneshot::salvage;
use crate::text::lines::clip;

/// Where data that is no agent's record says what it is about.
const TELLING: [&str; 6] = ["text", "stderr", "prompt", "reason", "what", "found"];

/// A line of the log as lines for a person, each of so many characters at most; none where
/// it says nothing.
pub fn of(line: &Line, executors: Option<&Executors>, most: usize) -> Vec<String> {
    let who = line.origin.role.map_or("", |role| role.name());
    let said = said(line, executors);
    let said = said.iter();
    said.map(|said| clip(one_line(&format!("{who} {said}")).trim(), most))
        .collect()
}

/// What a line of the log says, not cut, each of it a text of its own.
pub fn said(line: &Line, executors: Option<&Executors>) -> Vec<String> {
    match line.kind {
        Kind::Heartbeat => Vec::new(),
        Kind::Activity => of_activity(line, executors),
        Kind::StateChange => of_change(line).into_iter().collect(),
        kind => vec![format!(
            "{}: {}",
            kind.name().replace('_', " "),
            gist(&line.data)
        )],
    }
}

fn of_change(line: &Line) -> Option<String> {
    let change = line.state_change()?;
    let reason = change.reason.map(|reason| format!(" ({reason})"));
    Some(format!("→ {}{}", change.to, reason.unwrap_or_default()))
}

/// What the executor's code makes of a record; of one that it does not know, the text.
fn of_activity(line: &Line, executors: Option<&Executors>) -> Vec<String> {
    if let Some(complaint) = line.data.get("stderr").and_then(Value::as_str) {
        return vec![format!("stderr: {complaint}")];
    }
    let name = line.origin.executor.as_deref();
    let Some(executor) = name.and_then(|name| executors?.find(name).ok()) else {
        return vec![gist(&line.data)];
    };
    let record = salvage::record(&line.data);
    let activities = executor.classify(&record);
    let said: Vec<String> = activities.iter().filter_map(of_deed).collect();
    match record {
        // No record of its format: a message for people.
        Record::Line(text) if said.is_empty() => vec![text],
        _ => said,
    }
}

/// What an agent did, where that is worth a line.
fn of_deed(activity: &Activity) -> Option<String> {
    Some(match activity {
        Activity::Text(text) => text.clone(),
        Activity::Reflection(text) => format!("thinks: {text}"),
        Activity::Plan(text) => format!("plans: {text}"),
        Activity::ToolCall { name, argument } => format!("{name}: {argument}"),
        Activity::ToolResult { text, failed: true } => format!("failed: {text}"),
        Activity::ToolResult { text, .. } => format!("result: {text}"),
        Activity::FileWritten { path } => format!("wrote {path}"),
        Activity::Final(last) if last.error.is_some() => {
            format!("ends with an error: {}", last.text)
        }
        Activity::Final(last) => format!("ends: {}", last.text),
        Activity::Session { .. } | Activity::Other => return None,
    })
}

/// The text of some data, or all of it.
fn gist(data: &Value) -> String {
    let text = TELLING.iter().find_map(|key| data.get(key)?.as_str());
    text.map_or_else(|| data.to_string(), str::to_owned)
}
