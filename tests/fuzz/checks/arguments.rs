//! What a client asks for: any JSON as the arguments of any tool, and as the parameters of
//! what comes before a call. What is accepted is within the schema's bounds.

use std::time::Duration;

use serde_json::Value;
use zsh_tool::testing::mcp::arguments::read;
use zsh_tool::testing::mcp::tools::{
    KillArguments, NoArguments, PollArguments, QueryArguments, ResetArguments, RunArguments,
    SendArguments, TOOLS, TasksArguments,
};
use zsh_tool::testing::protocol::era::{Hello, negotiate};
use zsh_tool::testing::protocol::stateless::Envelope;
use zsh_tool::testing::text::keys::Key;

/// What a client may have a call wait.
const CEILING: Duration = Duration::from_secs(50);

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let given = Some(&value);
    let _ = Hello::from_params(given);
    let _ = Envelope::from_params(given);
    if let Some(text) = value.as_str() {
        let _ = negotiate(text);
        let _ = Key::parse(text);
    }
    for tool in TOOLS.iter() {
        let (name, schema) = (tool.wire_name, &tool.schema);
        let refused = [
            read::<RunArguments>(name, schema, given, CEILING).err(),
            read::<PollArguments>(name, schema, given, CEILING).err(),
            read::<SendArguments>(name, schema, given, CEILING).err(),
            read::<KillArguments>(name, schema, given, CEILING).err(),
            read::<TasksArguments>(name, schema, given, CEILING).err(),
            read::<QueryArguments>(name, schema, given, CEILING).err(),
            read::<ResetArguments>(name, schema, given, CEILING).err(),
            read::<NoArguments>(name, schema, given, CEILING).err(),
        ];
        for error in refused.into_iter().flatten() {
            assert!(!error.0.is_empty());
        }
    }
}
