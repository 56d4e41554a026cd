//! `zsh-tool agent-openai`: makes a model behind an OpenAI-compatible endpoint an agent program that
//! can be supervised like any other. It reads the prompt from stdin and streams the model's answer
//! to stdout, one JSON object per line:
//!
//! ```text
//! {"type":"text","text":"…"}
//! {"type":"reasoning","text":"…"}
//! {"type":"result","text":"all of the text","error":null,"message":null,
//!  "usage":{"input_tokens":10,"output_tokens":5}}
//! ```
//!
//! The last line is always a `result`; its `error` is one of `connection_refused`,
//! `auth_failed`, `api_error`, and `message` has the details. `usage` is null if the endpoint
//! reports none. Exit codes: 0; 1 with an
//! error; 2 when the endpoint is not configured.
//!
//! Limits: the model has no tools, so it can only say what to do. There is no time limit: the
//! supervisor sees whether the agent makes progress.

use std::io::Read;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::output::{EXIT_USAGE, Output, OutputError, complain};
use super::shared;
use crate::agent::endpoint::{BrokenOff, Endpoint, EndpointError, Piece};

/// The maximum size of a prompt, in bytes.
const MAX_PROMPT: u64 = 16 << 20;

/// Runs the command.
pub(crate) fn run(model: Option<String>, base_url: Option<String>) -> ExitCode {
    let (config, warnings) = shared::load_config();
    for warning in &warnings {
        complain(warning);
    }
    let mut settings = shared::endpoint(&config);
    settings.model = model.or(settings.model);
    settings.base_url = base_url.or(settings.base_url);
    let endpoint = match Endpoint::new(settings) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            complain(error);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let prompt = match read_prompt() {
        Ok(prompt) => prompt,
        Err(cause) => {
            complain(cause);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let code = Output::stdout()
        .map_err(OutputError::from)
        .and_then(|output| ask(&endpoint, &prompt, output));
    ExitCode::from(code.unwrap_or_else(|error| error.report()))
}

fn read_prompt() -> Result<String, String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_PROMPT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read the prompt from stdin: {error}"))?;
    if bytes.len() as u64 > MAX_PROMPT {
        return Err("the prompt on stdin is longer than 16 MiB".to_owned());
    }
    let prompt = String::from_utf8_lossy(&bytes).into_owned();
    if prompt.trim().is_empty() {
        return Err("the prompt is empty: write it to stdin".to_owned());
    }
    Ok(prompt)
}

/// Sends the prompt and prints the answer; returns the exit code.
fn ask(endpoint: &Endpoint, prompt: &str, mut output: Output) -> Result<u8, OutputError> {
    let mut printed = Ok(());
    let mut usage = None;
    let answer = endpoint.stream(prompt, &mut |piece| {
        let line = match piece {
            Piece::Text(text) => json!({"type": "text", "text": text}),
            Piece::Thought(text) => json!({"type": "reasoning", "text": text}),
            // Endpoints that report it more than once report the whole each time.
            Piece::Usage(whole) => {
                usage = Some(*whole);
                return true;
            }
        };
        printed = print_line(&mut output, line);
        printed.is_ok()
    });
    printed?;
    let (text, error) = match answer {
        Ok(text) => (text, None),
        Err(BrokenOff { text, error }) => (text, Some(error)),
    };
    let result = json!({
        "type": "result",
        "text": text,
        "error": error.as_ref().map(|error| error.class().name()),
        "message": error.as_ref().map(EndpointError::to_string),
        "usage": usage,
    });
    print_line(&mut output, result)?;
    Ok(match error {
        None => 0,
        Some(error) => {
            complain(error);
            1
        }
    })
}

fn print_line(output: &mut Output, line: Value) -> Result<(), OutputError> {
    output.write(format!("{line}\n").as_bytes())
}
