//! Recovers the result of a failed agent from the agent's own storage.
//!
//! The id of the agent's session identifies the conversation. An agent that has not named its session
//! has the newest conversation of the same directory since its start. An answer after the last act is
//! success, however the process ended; otherwise any act is partial work.
//!
//! Limits: reads only regular files within the storage, each up to [`files::MAX_READ`]; incomplete
//! records are skipped.

mod files;
mod formats;

use std::time::Duration;

use serde::Deserialize;

use super::activity::{Activity, Answer, Texts, classify_failure};
use crate::text::lines::truncate;
use files::FoundFile;

pub use files::Reference;
use formats::Format;

/// How much older than the agent's start a file's time may be: kernels use the time of their last
/// tick. More would take the answer of an agent that ended just before for this agent's.
const TICK: Duration = Duration::from_millis(10);

/// How many files to open at most in search of the right one.
const MAX_OPENED: usize = 32;

/// How many of the last acts of partial work are reported.
const REPORTED_ACTS: usize = 20;
/// How many characters of each such act are reported.
const REPORTED_CHARS: usize = 200;

/// The result of a failed agent, as found in its storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// The agent had finished.
    Success {
        /// Its final answer.
        text: String,
    },
    /// The agent had acted, without a final answer.
    Partial {
        /// A list of its acts, for people and the next worker.
        what: String,
    },
    /// No conversation or no act was found.
    Nothing,
}

/// Where a program keeps its conversations.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Storage {
    /// `$VARIABLE/…`, `~/…` or `.`; the first whose variable is set counts.
    pub(crate) roots: Vec<String>,
    /// Patterns below the root; `*` matches within a name.
    pub(crate) files: Vec<String>,
    pub(crate) format: Format,
}

impl Storage {
    /// Finds the conversation and recovers its result.
    pub(super) fn recover(&self, reference: &Reference<'_>) -> Recovery {
        let mut found = files::find(&self.roots, &self.files, reference);
        found.sort_by_key(|file| std::cmp::Reverse(file.modified));
        let known = match reference.agent_session {
            Some(id) => found.iter().find_map(|file| Some((file, file.text_of_session(id)?))),
            None => self.newest(&found, reference),
        };
        let Some((file, text)) = known else {
            return Recovery::Nothing;
        };
        let activities = formats::activities(self.format, &text);
        recovery(&activities, formats::has_failed(self.format, &file.path))
    }

    fn newest<'a>(
        &self,
        found: &'a [FoundFile],
        reference: &Reference<'_>,
    ) -> Option<(&'a FoundFile, String)> {
        let since = reference.since.checked_sub(TICK)?;
        let is_newer = |file: &&FoundFile| file.may_be_written_since(since);
        found.iter().take_while(is_newer).take(MAX_OPENED).find_map(|file| {
            let text = file.text().ok()?;
            let directory = formats::directory(self.format, &file.path, &text);
            let is_other = directory.is_some_and(|known| !reference.is_directory(&known));
            (!is_other).then_some((file, text))
        })
    }
}

/// The result of a conversation; `has_failed` if the agent has noted that it failed. An error that it
/// wrote down is no answer.
fn recovery(activities: &[Activity], has_failed: bool) -> Recovery {
    let mut answer = Answer::new(Texts::Messages);
    for activity in activities {
        // It continued after an error.
        if answer.error().is_some() && matches!(activity, Activity::Text(_)) {
            answer = Answer::new(Texts::Messages);
        }
        answer.add(activity);
    }
    let text = answer.text().trim();
    let is_error = has_failed || answer.error().is_some() || classify_failure("", text).is_some();
    if !text.is_empty() && !is_error {
        let text = text.to_owned();
        return Recovery::Success { text };
    }
    let acts: Vec<String> = activities.iter().filter_map(reported_line).collect();
    if acts.is_empty() { Recovery::Nothing } else { Recovery::Partial { what: list(&acts) } }
}

fn reported_line(activity: &Activity) -> Option<String> {
    let text = activity.act()?;
    let line = text.lines().collect::<Vec<_>>().join(" ");
    Some(truncate(&line, REPORTED_CHARS).into_owned())
}

fn list(acts: &[String]) -> String {
    let last = acts.get(acts.len().saturating_sub(REPORTED_ACTS)..);
    let mut what = match acts.len() {
        more if more > REPORTED_ACTS => format!("the last {REPORTED_ACTS} of {more} actions:"),
        _ => "actions:".to_owned(),
    };
    for act in last.unwrap_or_default() {
        what.push_str("\n- ");
        what.push_str(act);
    }
    what
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use crate::arbitrary;

    /// Recorded conversations: one record per line, or one document.
    const LINES: &str = concat!(
        include_str!(
            "../../tests/fixtures/agents/claude/success/home/.claude/projects/-work-project/11111111-1111-4111-8111-111111111111.jsonl"
        ),
        include_str!(
            "../../tests/fixtures/agents/codex/success/home/.codex/sessions/2026/11/22/rollout-2026-11-22T05-56-07-01a201d3-7f4b-72a2-97d5-23f326a5f9ce.jsonl"
        ),
        include_str!(
            "../../tests/fixtures/agents/gemini/success/home/.gemini/tmp/project/chats/session-2026-11-22T06-00-11111111.jsonl"
        ),
    );
    const DOCUMENTS: &str = concat!(
        include_str!(
            "../../tests/fixtures/agents/cline/success/home/.cline/data/sessions/1795327097774_ss7df/1795327097774_ss7df.messages.json"
        ),
        include_str!(
            "../../tests/fixtures/agents/cline/shown/home/.cline/data/tasks/1795327097774/ui_messages.json"
        ),
        include_str!(
            "../../tests/fixtures/agents/gemini/document/home/.gemini/tmp/project/chats/session-2026-11-22T06-00-11111111.json"
        ),
    );
    const FORMATS: [Format; 6] = [
        Format::Claude,
        Format::Codex,
        Format::Messages,
        Format::Chat,
        Format::Parts,
        Format::Markdown,
    ];
    /// The parts of Aider's histories.
    const MARKDOWN: [&str; 10] = [
        "# aider chat started at 2026-11-22 05:58:00\n",
        "#### do it\n",
        "> Tokens: 1k sent\n",
        "> Applied edit to é.txt\n",
        "> Commit 1234 x\n",
        "> \n",
        "> Running",
        "Done.",
        "\n",
        "é",
    ];

    fn texts() -> impl Strategy<Value = String> {
        let record = arbitrary::damaged(LINES).prop_map(|record| record.to_string());
        let records = prop::collection::vec(record, 0..8).prop_map(|lines| lines.join("\n"));
        let document = arbitrary::damaged(DOCUMENTS).prop_map(|value| format!("{value:#}"));
        let pieces = prop::collection::vec(select(MARKDOWN.to_vec()), 0..20);
        prop_oneof![records, document, pieces.prop_map(|pieces| pieces.concat())]
    }

    proptest! {
        #[test]
        fn any_conversation_shows_success_acts_or_nothing(
            text in texts(),
            cut in prop::option::of(any::<Index>()),
        ) {
            let end = cut.map_or(text.len(), |cut| cut.index(text.len() + 1));
            let text = &text[..text.floor_char_boundary(end)];
            for format in FORMATS {
                match recovery(&formats::activities(format, text), false) {
                    Recovery::Success { text } => prop_assert!(!text.trim().is_empty()),
                    Recovery::Partial { what } => prop_assert!(!what.is_empty()),
                    Recovery::Nothing => {}
                }
                let nowhere = std::path::Path::new("/nowhere/a/b.messages.json");
                let _ = formats::directory(format, nowhere, text);
            }
        }
    }
}
