//! What an agent program says of itself, in the words that all programs share.
//!
//! Limits: data, and what follows from it. Which record of which program means what, the
//! executors know.

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
        /// The argument that tells most: a command, a path, else all of them as JSON.
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
    /// It wrote down what it is going to do.
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
    /// Its final answer, or what it says of its error; empty where the event carries none:
    /// then an [`Answer`] has it.
    pub text: String,
    /// What the agent itself calls an error.
    pub error: Option<AgentError>,
}

/// The classes of what goes wrong within an agent.
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

/// How the texts of a program belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// Each is a message of its own.
    Messages,
    /// They are pieces of one, as they came.
    Pieces,
}

/// Of an answer so many of the newest bytes are kept at least, and twice as many at most.
const MAX_ANSWER: usize = 4 << 20;
/// Stands where the oldest part of a text was.
const LEFT_OUT: &str = "[the beginning is left out]\n";

/// What an agent's answer is so far: what it has said since it last did something, or what
/// its terminal event says.
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
        Answer {
            texts,
            text: String::new(),
            error: None,
            is_final: false,
        }
    }

    /// Takes the next activity in.
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

/// Cuts the oldest bytes off where there are more than twice `most`, and says so in their
/// place. Not at each byte too many: moving the rest costs as much as it holds.
pub fn keep_newest(text: &mut String, most: usize) {
    if text.len() > most.saturating_mul(2) {
        let cut = (text.len() - most..text.len()).find(|at| text.is_char_boundary(*at));
        text.replace_range(..cut.unwrap_or_default(), LEFT_OUT);
    }
}

impl Activity {
    /// Whether the agent has done something by it, beyond saying and thinking.
    pub fn is_act(&self) -> bool {
        match self {
            Activity::ToolCall { .. }
            | Activity::ToolResult { .. }
            | Activity::FileWritten { .. } => true,
            Activity::Session { .. }
            | Activity::Text(_)
            | Activity::Reflection(_)
            | Activity::Plan(_)
            | Activity::Final(_)
            | Activity::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let act = Activity::ToolResult {
            text: "x".to_owned(),
            failed: false,
        };
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
        let end = |text: &str, error| {
            Activity::Final(Final {
                text: text.to_owned(),
                error,
            })
        };
        let seen = answer(Texts::Messages, &[text("a"), end("b", None)]);
        assert_eq!(
            (seen.text(), seen.is_final(), seen.error()),
            ("b", true, None)
        );
        let seen = answer(
            Texts::Messages,
            &[text("a"), end("", Some(AgentError::ApiError))],
        );
        assert_eq!(
            (seen.text(), seen.error()),
            ("a", Some(AgentError::ApiError))
        );
    }
}
