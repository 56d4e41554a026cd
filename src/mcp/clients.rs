//! What is known of clients by the name that they give: how long one waits for an answer, and what of
//! a result reaches its model. Each row names its source. Pure.

use std::time::Duration;

use crate::protocol::era::ClientInfo;

/// Codex, whose cancellations need an interpretation of their own.
pub(super) const CODEX: &str = "codex-mcp-client";

/// Names that SDKs give where the program that uses them gives none. What one such program does
/// tells nothing of the next.
const SDK_NAMES: [&str; 9] = [
    "",
    // The official Python SDK, and with it openai-agents, autogen and LangChain's adapters.
    "mcp",
    "fastmcp",
    "mcp-client",
    "mcp-use",
    "ai-sdk-mcp-client",
    "pydantic-ai",
    "langchain-mcp-adapters",
    "rmcp",
];

/// Which part of a result that is too long reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPart {
    /// The head and the tail.
    Ends,
    /// The head: what matters must come first.
    Head,
}

/// How much of a result reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    /// Bytes of UTF-8; `None` if only the limit of all results counts.
    pub(crate) bytes: Option<usize>,
    /// Lines; `None` if their number does not count.
    pub(crate) lines: Option<usize>,
    pub(crate) part: KeptPart,
}

impl KeptOutput {
    const ALL: KeptOutput = KeptOutput { bytes: None, lines: None, part: KeptPart::Ends };

    const fn both_ends(bytes: usize) -> KeptOutput {
        KeptOutput { bytes: Some(bytes), ..KeptOutput::ALL }
    }

    const fn head(bytes: usize) -> KeptOutput {
        KeptOutput { bytes: Some(bytes), lines: None, part: KeptPart::Head }
    }
}

/// A client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    /// The longest wait of a call: less than the client's own limit.
    pub(super) ceiling: Duration,
    pub(super) output: KeptOutput,
    /// It is sent no `_meta`: its model gets results, or those that are errors, as objects.
    pub(super) hides_meta: bool,
}

impl Known {
    const fn new(ceiling_s: u64, output: KeptOutput) -> Known {
        Known { ceiling: Duration::from_secs(ceiling_s), output, hides_meta: false }
    }
}

/// A client that is not in the table: the official TypeScript SDKs, Zed and older versions of Cline give
/// up after 60 s.
const UNKNOWN: Known = Known::new(50, KeptOutput::ALL);
/// The ceiling of the calls of clients that are not in the table.
pub(super) const UNKNOWN_CEILING: Duration = UNKNOWN.ceiling;

/// What is known of a client.
pub(super) fn known(client: &ClientInfo, takes_tasks: bool) -> Known {
    match client.name.as_str() {
        // Measured, 2.1.332: in its terminal, where it takes tasks, it moves a call to the
        // background after 120 s. Headless, it waited for more than 620 s.
        "claude-code" if takes_tasks => Known::new(110, KeptOutput::ALL),
        "claude-code" => Known::new(600, KeptOutput::ALL),
        // Measured, 0.171: gives up after 300 s; cuts the middle out of more than 48 KB.
        CODEX => Known::new(280, KeptOutput::both_ends(40_000)),
        // Source: 600 s. The server's name follows. Of more than 40,000 characters, it keeps the first
        // 8,000 and the last 32,000; errors are shown as objects (measured, 0.61).
        name if name.starts_with("gemini-cli-mcp-client") => {
            Known { hides_meta: true, ..Known::new(580, KeptOutput::both_ends(40_000)) }
        }
        // Source: 600 s. Of more than about 27,700 characters, it keeps the first 2,000; errors are shown
        // as objects (measured, 0.24).
        name if name.starts_with("qwen-cli-mcp-client") => {
            Known { hides_meta: true, ..Known::new(580, KeptOutput::head(27_000)) }
        }
        // Measured, 1.18: waits for more than 340 s while progress is reported; keeps the first 2,000
        // lines or 50 KiB.
        "opencode" => {
            Known::new(330, KeptOutput { lines: Some(2_000), ..KeptOutput::head(50_000) })
        }
        // Measured, 1.0.102: waits for more than 340 s; of more than 20 KiB it keeps the first 500
        // characters.
        "copilot-cli" => Known::new(330, KeptOutput::head(20_000)),
        // Measured, 3.0: gives up after 60 s without a cancellation; shows the whole result as JSON, of
        // which it keeps both ends, 8,000 characters.
        name if name.starts_with("@cline/") => {
            Known { hides_meta: true, ..Known::new(50, KeptOutput::both_ends(8_000)) }
        }
        // Source: at least 300 s.
        name if name.replace('-', " ").starts_with("Visual Studio Code") => {
            Known::new(280, KeptOutput::ALL)
        }
        // Source: 300 s.
        "goose" | "goose-cli" | "goose-desktop" => Known::new(280, KeptOutput::ALL),
        // Source: 30 s. The edition of the IDE comes first.
        name if name.ends_with("copilot-intellij") => Known::new(20, KeptOutput::ALL),
        _ => UNKNOWN,
    }
}

/// Whether a client's name is only that of its SDK.
pub(super) fn is_sdk(name: &str) -> bool {
    SDK_NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_name() {
        let known = |name: &str, takes_tasks| {
            let client = ClientInfo { name: name.to_owned(), version: "1".to_owned() };
            super::known(&client, takes_tasks)
        };
        for (name, takes_tasks, seconds) in [
            ("claude-code", true, 110),
            ("claude-code", false, 600),
            ("codex-mcp-client", false, 280),
            ("gemini-cli-mcp-client-zsh", false, 580),
            ("qwen-cli-mcp-client-zsh-tool", false, 580),
            ("opencode", false, 330),
            ("copilot-cli", false, 330),
            ("@cline/core", false, 50),
            ("Visual Studio Code - Insiders", false, 280),
            ("Visual-Studio-Code", false, 280),
            ("goose-cli", false, 280),
            ("JetBrains-IU/copilot-intellij", false, 20),
            ("a-proxy-for-claude-code", false, 50),
            ("", false, 50),
        ] {
            assert_eq!(known(name, takes_tasks).ceiling, Duration::from_secs(seconds), "{name}");
        }
        assert_eq!(known("opencode", false).output.part, KeptPart::Head);
        assert_eq!(known("codex-mcp-client", false).output.part, KeptPart::Ends);
        assert!(known("@cline/core", false).hides_meta);
    }
}
