//! What an agent program says of itself, in the words that all programs share.
//!
//! Limits: data only. Which record of which program means what, the executors know.

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
    /// Its final answer; empty where the event carries none, as then the last
    /// [`Activity::Text`] is the answer.
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
