//! The fixture tools of the official conformance suite, which no release contains.
//!
//! The suite calls tools by its own names. Where one of the server's tools can do what a fixture
//! must do, the call is translated into a call of that tool, so that the suite sees the server's
//! real answers. Only answers that `zsh` never gives (images, for example) are written here.
//! Limits: fixtures that ask the client for something are missing, since the server never asks.

use serde_json::{Value, json};

use super::rpc_error::RpcError;
use crate::protocol::message::{INTERNAL_ERROR, put};
use crate::protocol::stateless::{self, MISSING_CLIENT_CAPABILITY};
use crate::protocol::tasks::{Failure, TaskStatus};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// A recording without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// The descriptions of tasks that must end in ways in which no command ends.
const FAILING: &str = "conformance: failing_job";
const BROKEN: &str = "conformance: protocol_error_job";

/// What a call of a fixture is replaced with.
pub(crate) enum StandIn {
    /// The params of another call.
    Call(Option<Value>),
    Result(Value),
}

/// The fixtures as `tools/list` shows them.
pub(crate) fn listed() -> impl Iterator<Item = Value> {
    let bare = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_logging_tool",
        "failing_job",
        "protocol_error_job",
    ];
    let bare = bare.into_iter().map(|name| (name, json!({})));
    let with_arguments = [
        ("greet", json!({"name": {"type": "string"}})),
        ("slow_compute", json!({"seconds": {"type": "number"}, "label": {"type": "string"}})),
    ];
    bare.chain(with_arguments).map(|(name, properties)| {
        json!({
            "name": name,
            "description": "A fixture of the conformance suite.",
            "inputSchema": {"type": "object", "properties": properties},
        })
    })
}

/// Replaces a call of a fixture, and returns any other call unchanged.
///
/// # Errors
/// When the fixture must refuse the call.
pub(crate) fn stand_in(params: Option<Value>, takes_tasks: bool) -> Result<StandIn, RpcError> {
    let name = params
        .as_ref()
        .and_then(|params| params.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let argument = |name: &str| {
        params
            .as_ref()
            .and_then(|params| params.pointer(&format!("/arguments/{name}")))
            .cloned()
            .unwrap_or_default()
    };
    let zsh = |arguments: Value| {
        let mut call = params.clone().unwrap_or_default();
        put(&mut call, "name", "zsh");
        put(&mut call, "arguments", arguments);
        Ok(StandIn::Call(Some(call)))
    };
    let result = |content: Value| Ok(StandIn::Result(json!({"content": content})));
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let resource = |mime_type: &str, text: &str| {
        json!({
            "type": "resource",
            "resource": {"uri": "test://fixture", "mimeType": mime_type, "text": text},
        })
    };
    match name.as_str() {
        "test_simple_text" | "test_streaming_elicitation" | "test_logging_tool" => {
            zsh(json!({"command": "echo This is a simple text response for testing."}))
        }
        "test_error_handling" => zsh(json!({"command": ""})),
        "test_tool_with_progress" => {
            let command = "repeat 22 { echo step; sleep 0.1 }";
            zsh(json!({"command": command, "yield_after": 20}))
        }
        "slow_compute" => {
            let seconds = argument("seconds").as_f64().unwrap_or_default();
            zsh(json!({"command": format!("sleep {seconds}; echo done"), "background": true}))
        }
        "failing_job" if !takes_tasks => {
            Err(needs("the tasks extension", stateless::needs_tasks_extension()))
        }
        "failing_job" => zsh(json!({
            "command": "sleep 1; exit 1", "background": true, "description": FAILING,
        })),
        "protocol_error_job" => zsh(json!({
            "command": "exit 1", "background": true, "description": BROKEN,
        })),
        "greet" => {
            let name = argument("name");
            let greeting = format!("Hello, {}!", name.as_str().unwrap_or_default());
            result(json!([text(&greeting)]))
        }
        "test_image_content" => result(json!([image])),
        "test_audio_content" => {
            result(json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]))
        }
        "test_embedded_resource" => result(json!([resource("text/plain", "This is a text.")])),
        "test_multiple_content_types" => result(json!([
            text("Multiple content types test:"),
            image,
            resource("application/json", "{\"test\":\"data\",\"value\":123}"),
        ])),
        "test_missing_capability" => {
            Err(needs("sampling", json!({"requiredCapabilities": {"sampling": {}}})))
        }
        _ => Ok(StandIn::Call(params)),
    }
}

fn needs(capability: &str, required: Value) -> RpcError {
    let text = format!("the client has not declared {capability} in this request");
    RpcError { data: Some(required), ..RpcError::new(MISSING_CLIENT_CAPABILITY, text) }
}

/// The status that the task of a fixture must end with.
pub(crate) fn ends_as(description: Option<&str>) -> Option<TaskStatus> {
    match description? {
        FAILING => {
            let text = json!({"type": "text", "text": "it failed"});
            let result = json!({"resultType": "complete", "content": [text], "isError": true});
            Some(TaskStatus::Completed { result })
        }
        BROKEN => Some(TaskStatus::Failed {
            error: Failure { code: INTERNAL_ERROR, message: "it broke".to_owned() },
        }),
        _ => None,
    }
}
