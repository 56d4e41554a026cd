//! What a client asks for: any JSON as the arguments of any tool, and as the parameters of
//! what comes before a call. What is accepted is within the schema's bounds.

use serde_json::Value;
use zsh_tool::testing::mcp::arguments::read;
use zsh_tool::testing::mcp::tools::{
    KillArguments, NoArguments, PollArguments, QueryArguments, ResetArguments, RunArguments,
    SendArguments, TOOLS, TasksArguments,
};
use zsh_tool::testing::protocol::era::{Hello, negotiate};
use zsh_tool::testing::protocol::stateless::Envelope;
use zsh_tool::testing::text::keys::Key;

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
        let refused = [
            read::<RunArguments>(tool, given).err(),
            read::<PollArguments>(tool, given).err(),
            read::<SendArguments>(tool, given).err(),
            read::<KillArguments>(tool, given).err(),
            read::<TasksArguments>(tool, given).err(),
            read::<QueryArguments>(tool, given).err(),
            read::<ResetArguments>(tool, given).err(),
            read::<NoArguments>(tool, given).err(),
        ];
        for error in refused.into_iter().flatten() {
            assert!(!error.0.is_empty());
        }
    }
}
