//! An agent's activities, in terms that all agent programs share.
//!
//! The words of an error message determine the class of an agent's failure. Only text that reads as
//! the program's own error counts, since an agent may write about a refused connection in its work.
//!
//! Pure. The executors turn the records of each program into activities.

use std::fmt;

use super::usage::UsageReport;

/// One activity of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// The agent named its own session.
    Session {
        /// The id by which to find its storage.
        id: String,
    },
    /// It wrote text.
    Text(String),
    /// It uses a tool.
    ToolCall {
        name: String,
        /// The most informative argument, such as a command or a path; otherwise all arguments as
        /// JSON.
        argument: String,
    },
    /// A tool answered.
    ToolResult {
        text: String,
        /// Whether the agent marked it as an error.
        failed: bool,
    },
    /// A tool was denied, or the agent lacks the permission to do something.
    Denied(
        /// The tool or the agent's words about it.
        String,
    ),
    /// Its endpoint failed, and it tries again.
    Retry(Retry),
    /// It wrote down its reasoning.
    Reflection(String),
    /// It wrote down its plan.
    Plan(String),
    /// It wrote a file with a tool that reports this.
    FileWritten {
        /// The file, as the agent named it.
        path: String,
    },
    /// Its terminal event (`result`, `completion_result`, `turn.completed`, …).
    Final(Final),
    /// It reported its cost.
    Usage(UsageReport),
    /// Any other record; a sign of life.
    Other,
}

/// An agent's further attempt after a failure of its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// What failed, in the agent's words.
    pub error: String,
    /// The number of the attempt, if the agent says so.
    pub attempt: Option<u64>,
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retrying: {}", self.error.trim())?;
        match self.attempt {
            Some(attempt) => write!(f, ", attempt {attempt}"),
            None => Ok(()),
        }
    }
}

/// An agent's terminal event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Final {
    /// Its final answer or error message. Empty if the event contains neither; [`Answer`] then has
    /// the text.
    pub text: String,
    /// Set if the agent reports an error.
    pub error: Option<AgentError>,
}

/// Classes of agent failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentError {
    /// Its endpoint refuses the connection or is unreachable.
    ConnectionRefused,
    /// Its key or login is missing, wrong or expired.
    AuthFailed,
    /// Its endpoint answered with another error: overload, rate, quota, server.
    ApiError,
    /// A tool or another part of the agent failed.
    ToolError,
}

impl AgentError {
    pub(crate) const NAMES: [(AgentError, &str); 4] = [
        (AgentError::ConnectionRefused, "connection_refused"),
        (AgentError::AuthFailed, "auth_failed"),
        (AgentError::ApiError, "api_error"),
        (AgentError::ToolError, "tool_error"),
    ];

    /// The name in files and records.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(error, _)| *error == self);
        named.map_or("", |(_, name)| name)
    }

    pub(crate) fn of_name(name: &str) -> Option<AgentError> {
        let named = Self::NAMES.iter().find(|(_, known)| *known == name)?;
        Some(named.0)
    }
}

/// How to join a program's texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Texts {
    /// Each text is a message.
    #[default]
    Messages,
    /// The texts are pieces of one message.
    Pieces,
}

/// An answer keeps at least this many of its newest bytes, and at most twice as many.
const MAX_ANSWER: usize = 4 << 20;
/// Replaces the oldest part of a text.
const OMITTED: &str = "[the beginning is omitted]\n";

/// An agent's answer so far: its texts since its last act, or its terminal event's text.
#[derive(Debug, Clone)]
pub struct Answer {
    texts: Texts,
    text: String,
    error: Option<AgentError>,
    is_final: bool,
}

impl Answer {
    /// An answer without any activity.
    pub fn new(texts: Texts) -> Answer {
        Answer { texts, text: String::new(), error: None, is_final: false }
    }

    /// Adds the next activity.
    pub fn add(&mut self, activity: &Activity) {
        match activity {
            Activity::Text(text) => {
                if self.texts == Texts::Messages && !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(text);
                keep_newest(&mut self.text, MAX_ANSWER);
            }
            activity if activity.is_act() => self.text.clear(),
            Activity::Final(end) => {
                self.is_final = true;
                // A second event about the same end may know less of it.
                self.error = match (self.error, end.error) {
                    (Some(known), Some(AgentError::ToolError)) => Some(known),
                    (Some(known), None) if end.text.is_empty() => Some(known),
                    (_, now) => now,
                };
                if !end.text.is_empty() {
                    self.text.clone_from(&end.text);
                }
            }
            _ => {}
        }
    }

    /// The answer so far; empty if there is none.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the terminal event has arrived.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// The error that the terminal event reports.
    pub fn error(&self) -> Option<AgentError> {
        self.error
    }
}

/// Cuts a text longer than twice `limit` bytes to its newest `limit` bytes, with a note. Shorter
/// texts are left alone, since cutting moves all remaining bytes.
pub(crate) fn keep_newest(text: &mut String, limit: usize) {
    if text.len() > limit.saturating_mul(2) {
        let cut = (text.len() - limit..text.len()).find(|at| text.is_char_boundary(*at));
        text.replace_range(..cut.unwrap_or_default(), OMITTED);
    }
}

impl Activity {
    /// Whether the agent acted, other than by writing text.
    pub fn is_act(&self) -> bool {
        matches!(self, Activity::ToolResult { .. }) || self.act().is_some()
    }

    /// A tool call or a written file, in words.
    pub(crate) fn act(&self) -> Option<String> {
        match self {
            Activity::ToolCall { name, argument } => Some(format!("{name}: {argument}")),
            Activity::FileWritten { path } => Some(format!("wrote {path}")),
            _ => None,
        }
    }
}

/// How many of the last lines of stderr are searched: an error and its stack trace.
const LAST_LINES: usize = 40;

/// The longest final text that may be an error message.
const MAX_ERROR: usize = 2_000;

/// How error messages in a final text begin, in lower case.
const ERROR_STARTS: [&str; 9] = [
    "api error",
    "[api error",
    "error:",
    "failed to authenticate",
    "invalid api key",
    "unexpected status",
    "credit balance is too low",
    "not logged in",
    "litellm.",
];

/// Words of error messages with their classes.
const WORDS: &str = include_str!("../../data/agent-failures.txt");

/// Classifies a failure that a program reports only on stderr or in its final text.
pub(crate) fn classify_failure(stderr: &str, final_text: &str) -> Option<AgentError> {
    let of_text = is_error_message(final_text).then(|| class_of(final_text));
    of_text.flatten().or_else(|| {
        // Search from the newest line, since programs retry.
        let lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
        lines.take(LAST_LINES).find_map(class_of)
    })
}

/// Classifies a message that the program reports as an error.
pub(super) fn class_of(message: &str) -> Option<AgentError> {
    let message = message.to_lowercase();
    let lines = WORDS.lines().filter(|line| !line.starts_with('#'));
    let mut words = lines.filter_map(|line| line.split_once(": "));
    let (class, _) = words.find(|(_, words)| message.contains(words))?;
    AgentError::of_name(class)
}

fn is_error_message(text: &str) -> bool {
    let text = text.trim();
    let start = text.get(..text.floor_char_boundary(40)).unwrap_or_default().to_lowercase();
    text.len() <= MAX_ERROR && ERROR_STARTS.iter().any(|known| start.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentError::{ApiError, AuthFailed, ConnectionRefused};

    fn text(text: &str) -> Activity {
        Activity::Text(text.to_owned())
    }

    fn answer(texts: Texts, activities: &[Activity]) -> Answer {
        let mut answer = Answer::new(texts);
        for activity in activities {
            answer.add(activity);
        }
        answer
    }

    #[test]
    fn an_answer_is_the_text_since_the_last_act() {
        let act = Activity::ToolResult { text: "x".to_owned(), failed: false };
        let activities = [text("I look."), act, text("It is "), text("done.")];
        assert_eq!(answer(Texts::Pieces, &activities).text(), "It is done.");
        assert_eq!(answer(Texts::Messages, &activities).text(), "It is \ndone.");
    }

    #[test]
    fn an_endless_answer_is_bounded_and_keeps_its_end() {
        let piece = "é".repeat(1 << 20);
        let mut activities: Vec<Activity> = (0..8).map(|_| text(&piece)).collect();
        activities.push(text("the end"));
        let answer = answer(Texts::Pieces, &activities);
        assert!(answer.text().len() <= 2 * MAX_ANSWER);
        assert!(answer.text().len() >= MAX_ANSWER);
        assert!(answer.text().ends_with("éthe end"));
        assert!(answer.text().starts_with(OMITTED));
    }

    #[test]
    fn the_terminal_events_text_wins_if_it_has_one() {
        let end = |text: &str, error| Activity::Final(Final { text: text.to_owned(), error });
        let seen = answer(Texts::Messages, &[text("a"), end("b", None)]);
        assert_eq!((seen.text(), seen.is_final(), seen.error()), ("b", true, None));
        let failed = || end("", Some(AgentError::ApiError));
        let seen = answer(Texts::Messages, &[text("a"), failed()]);
        assert_eq!((seen.text(), seen.error()), ("a", Some(AgentError::ApiError)));
        // An end that says nothing does not take back an error; an answer does.
        let seen = answer(Texts::Messages, &[failed(), end("", None)]);
        assert_eq!(seen.error(), Some(AgentError::ApiError));
        let seen = answer(Texts::Messages, &[failed(), end("b", None)]);
        assert_eq!((seen.text(), seen.error()), ("b", None));
    }

    #[test]
    fn errors_of_real_programs_have_their_class() {
        for (stderr, text, expected) in [
            ("", "API Error: Unable to connect to API (ConnectionRefused)", ConnectionRefused),
            ("", "Failed to authenticate. API Error: 401 nope", AuthFailed),
            ("", "API Error: 529 nope. This is a server-side issue", ApiError),
            ("", "API Error: 400 nope", ApiError),
            ("", "unexpected status 401 Unauthorized: nope, url: http://h/v1", AuthFailed),
            (
                "",
                "[API Error: {\"error\":{\"code\":401,\"status\":\"UNAUTHENTICATED\"}}]",
                AuthFailed,
            ),
            (
                "",
                "litellm.InternalServerError: OpenAIException - Connection error.",
                ConnectionRefused,
            ),
            ("Please set an Auth method in your settings.json\n", "", AuthFailed),
            ("Invalid auth method selected.\n", "", AuthFailed),
            (
                "warning: old\nTypeError: fetch failed\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:1\n\n",
                "",
                ConnectionRefused,
            ),
            ("connect ECONNREFUSED, trying again\nError: 429 Too Many Requests\n", "", ApiError),
        ] {
            assert_eq!(classify_failure(stderr, text), Some(expected), "{stderr}{text}");
        }
    }

    #[test]
    fn an_agents_text_about_its_work_is_not_its_own_failure() {
        for (stderr, text) in [
            ("", ""),
            ("", "The server answered with connection refused; I fixed the port."),
            ("", "Users were unauthorized: the API error is handled now."),
            ("Warning: 256-color support not detected.\n", "done"),
            ("error: one test failed\n", "I could not finish"),
        ] {
            assert_eq!(classify_failure(stderr, text), None, "{stderr}{text}");
        }
        let long = format!("Error: handling, a report.\n{}", "connection refused\n".repeat(200));
        assert_eq!(classify_failure("", &long), None);
        let long_ago = format!("ECONNREFUSED\n{}", "working\n".repeat(50));
        assert_eq!(classify_failure(&long_ago, ""), None);
    }
}
