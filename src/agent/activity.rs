//! What an agent does and says, in terms that all programs share.
//!
//! The class of an agent's failure is recognised by the words of its error message,
//! conservatively: an agent may well write about a refused connection in its work; only what
//! reads as the program's own error counts.
//!
//! Pure. Limits: the executors know which record of which program means what.

/// One thing that an agent did or said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// The agent named its own session.
    Session {
        /// The id by which its storage is found.
        id: String,
    },
    /// It said something.
    Text(String),
    /// It uses a tool.
    ToolCall {
        /// The tool.
        name: String,
        /// The most telling argument: a command, a path, else all of them as JSON.
        argument: String,
    },
    /// A tool answered.
    ToolResult {
        /// The answer, as text.
        text: String,
        /// Whether the agent marked it as an error.
        failed: bool,
    },
    /// It thought aloud.
    Reflection(String),
    /// It wrote down its plan.
    Plan(String),
    /// It wrote a file by a tool that says so.
    FileWritten {
        /// The file, as the agent named it.
        path: String,
    },
    /// Its terminal event (`result`, `completion_result`, `turn.completed`, …).
    Final(Final),
    /// Something else; a sign of life.
    Other,
}

/// An agent's terminal event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Final {
    /// Its final answer or its error message; empty if the event has none, and an [`Answer`]
    /// then has it.
    pub text: String,
    /// What the agent itself calls an error.
    pub error: Option<AgentError>,
}

/// The classes of agents' failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentError {
    /// Nothing listens where its endpoint should be, or it cannot be reached.
    ConnectionRefused,
    /// Its key or login is missing, wrong or expired.
    AuthFailed,
    /// Its endpoint answered with another error: overload, rate, quota, server.
    ApiError,
    /// A tool, or something else inside of the agent.
    ToolError,
}

impl AgentError {
    pub(crate) const NAMES: [(AgentError, &str); 4] = [
        (AgentError::ConnectionRefused, "connection_refused"),
        (AgentError::AuthFailed, "auth_failed"),
        (AgentError::ApiError, "api_error"),
        (AgentError::ToolError, "tool_error"),
    ];

    /// Its name in files and records.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(error, _)| *error == self);
        named.map_or("", |(_, name)| name)
    }

    pub(crate) fn of_name(name: &str) -> Option<AgentError> {
        let named = Self::NAMES.iter().find(|(_, known)| *known == name)?;
        Some(named.0)
    }
}

/// How the texts of a program belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Texts {
    /// Each is a message.
    #[default]
    Messages,
    /// They are pieces of one message.
    Pieces,
}

/// How many of an answer's newest bytes are kept at least; at most twice as many.
const MAX_ANSWER: usize = 4 << 20;
/// Replaces the oldest part of a text.
const LEFT_OUT: &str = "[the beginning is left out]\n";

/// An agent's answer so far: what it has said since its last act, or its terminal event's
/// text.
#[derive(Debug, Clone)]
pub struct Answer {
    texts: Texts,
    text: String,
    error: Option<AgentError>,
    is_final: bool,
}

impl Answer {
    /// Before the first activity.
    pub fn new(texts: Texts) -> Answer {
        Answer { texts, text: String::new(), error: None, is_final: false }
    }

    /// Takes the next activity.
    pub fn see(&mut self, activity: &Activity) {
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
                self.error = end.error;
                if !end.text.is_empty() {
                    self.text.clone_from(&end.text);
                }
            }
            _ => {}
        }
    }

    /// The answer so far; empty where there is none.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the terminal event was seen.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// What the terminal event calls an error.
    pub fn error(&self) -> Option<AgentError> {
        self.error
    }
}

/// Cuts a text of more than twice `most` bytes to its newest `most`, with a note. Not
/// sooner, since cutting moves all that remains.
pub(crate) fn keep_newest(text: &mut String, most: usize) {
    if text.len() > most.saturating_mul(2) {
        let cut = (text.len() - most..text.len()).find(|at| text.is_char_boundary(*at));
        text.replace_range(..cut.unwrap_or_default(), LEFT_OUT);
    }
}

impl Activity {
    /// Whether it did something, beyond saying and thinking.
    pub fn is_act(&self) -> bool {
        matches!(self, Activity::ToolResult { .. }) || self.act().is_some()
    }

    /// What it did, in words: a use of a tool or a write.
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
const LONGEST_ERROR: usize = 2_000;

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

/// The class of a failure that a program reports only on stderr or in its final text.
pub(crate) fn classify_failure(stderr: &str, final_text: &str) -> Option<AgentError> {
    let of_text = is_error_message(final_text).then(|| class_of(final_text));
    of_text.flatten().or_else(|| {
        // The newest line that matches, since programs retry.
        let lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
        lines.take(LAST_LINES).find_map(class_of)
    })
}

/// The class of a message that the program itself calls an error.
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
    text.len() <= LONGEST_ERROR && ERROR_STARTS.iter().any(|known| start.starts_with(known))
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
            answer.see(activity);
        }
        answer
    }

    #[test]
    fn an_answer_is_what_was_said_since_the_last_act() {
        let act = Activity::ToolResult { text: "x".to_owned(), failed: false };
        let said = [text("I look."), act, text("It is "), text("done.")];
        assert_eq!(answer(Texts::Pieces, &said).text(), "It is done.");
        assert_eq!(answer(Texts::Messages, &said).text(), "It is \ndone.");
    }

    #[test]
    fn an_endless_answer_is_bounded_and_keeps_its_end() {
        let piece = "é".repeat(1 << 20);
        let mut said: Vec<Activity> = (0..8).map(|_| text(&piece)).collect();
        said.push(text("the end"));
        let answer = answer(Texts::Pieces, &said);
        assert!(answer.text().len() <= 2 * MAX_ANSWER);
        assert!(answer.text().len() >= MAX_ANSWER);
        assert!(answer.text().ends_with("éthe end"));
        assert!(answer.text().starts_with(LEFT_OUT));
    }

    #[test]
    fn the_terminal_event_has_the_last_word_where_it_has_one() {
        let end = |text: &str, error| Activity::Final(Final { text: text.to_owned(), error });
        let seen = answer(Texts::Messages, &[text("a"), end("b", None)]);
        assert_eq!((seen.text(), seen.is_final(), seen.error()), ("b", true, None));
        let seen = answer(Texts::Messages, &[text("a"), end("", Some(AgentError::ApiError))]);
        assert_eq!((seen.text(), seen.error()), ("a", Some(AgentError::ApiError)));
    }

    #[test]
    fn errors_of_real_programs_are_told_apart() {
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
    fn what_an_agent_says_of_its_work_is_no_failure_of_its_own() {
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
