//! The legacy versions of MCP and their handshake.
//!
//! Pure. A legacy connection opens with `initialize`, which settles one of the [`LEGACY_VERSIONS`]
//! for the whole connection. This server's messages do not depend on it: tools, results, progress
//! and cancellation are the same in all of them. For the version without a handshake, see
//! [`stateless`](super::stateless).

use serde::Deserialize;
use serde_json::{Value, json};

use super::message;

/// The versions that `initialize` can settle, oldest first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];
/// Offered to a client that asks for an unknown version.
pub(crate) const NEWEST_LEGACY: &str = "2025-11-25";

/// The version for a connection whose client requests `requested`: the same if it is known,
/// otherwise the newest, which the client accepts or disconnects.
pub fn negotiate(requested: &str) -> &'static str {
    LEGACY_VERSIONS.into_iter().find(|version| *version == requested).unwrap_or(NEWEST_LEGACY)
}

/// The params of `initialize` that this server uses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The version that the client requests; see [`negotiate`].
    pub protocol_version: String,
    /// Empty for a client that does not name itself.
    #[serde(default)]
    pub client_info: ClientInfo,
    #[serde(default)]
    capabilities: Value,
}

/// The client's program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClientInfo {
    /// Such as `claude-code`.
    pub name: String,
    /// In whatever form the client writes versions.
    pub version: String,
}

/// Why the params of `initialize` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// There are none.
    #[error("initialize needs params with protocolVersion")]
    Missing,
    /// A member is missing or of the wrong type.
    #[error("params of initialize: {0}")]
    Wrong(#[from] serde_json::Error),
}

impl Hello {
    /// Whether the client opens an address for the person when it is asked to.
    pub(crate) fn opens_addresses(&self) -> bool {
        self.capabilities.pointer("/elicitation/url").is_some_and(Value::is_object)
    }

    /// Reads the params of `initialize`.
    ///
    /// # Errors
    /// When `protocolVersion` is missing, or a member has the wrong type:
    /// [`INVALID_PARAMS`](super::message::INVALID_PARAMS) to the client.
    pub fn from_params(params: Option<&Value>) -> Result<Hello, HelloError> {
        match params {
            // Serde would also read the struct from an array, which MCP does not allow.
            Some(object @ Value::Object(_)) => Ok(Hello::deserialize(object)?),
            Some(_) | None => Err(HelloError::Missing),
        }
    }
}

/// The result of `initialize`; the `instructions` are for the model.
pub(crate) fn initialize_result(version: &str, instructions: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(None),
        "serverInfo": server_info(),
        "instructions": instructions,
    })
}

/// What the server can do: tools, and nothing that needs requests to the client. Tools have no
/// `listChanged`, since they do not change while the server runs.
pub(super) fn capabilities(extension: Option<&str>) -> Value {
    let mut all = json!({"tools": {}, "experimental": {SANDBOX_STATE: {}}});
    if let Some(extension) = extension {
        message::put(&mut all, "extensions", json!({extension: {}}));
    }
    all
}

/// Asks Codex to describe its sandbox in the `_meta` of each call.
pub(crate) const SANDBOX_STATE: &str = "codex/sandbox-state-meta";

pub(super) fn server_info() -> Value {
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "title": "zsh-tool",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::arbitrary;

    #[test]
    fn known_versions_are_echoed_and_unknown_ones_become_the_newest() {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(negotiate(version), version);
        }
        for unknown in ["", "2026-07-28", "1999-01-01", "2025-11-25 "] {
            assert_eq!(negotiate(unknown), "2025-11-25");
        }
        assert_eq!(LEGACY_VERSIONS.into_iter().max(), Some(NEWEST_LEGACY));
    }

    #[test]
    fn the_result_has_version_tools_server_and_instructions() {
        assert_eq!(
            initialize_result("2025-06-18", "Poll it."),
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {}, "experimental": { SANDBOX_STATE: {} } },
                "serverInfo": {
                    "name": "zsh-tool",
                    "title": "zsh-tool",
                    "version": env!("CARGO_PKG_VERSION"),
                },
                "instructions": "Poll it.",
            })
        );
    }

    #[test]
    fn a_client_may_leave_out_who_it_is_but_not_its_version() {
        let full = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "claude-code", "title": "Claude Code", "version": "2.1.330" },
        });
        let hello = Hello::from_params(Some(&full)).expect("params of a real client");
        assert_eq!(hello.protocol_version, "2025-06-18");
        assert_eq!(hello.client_info.name, "claude-code");

        let bare = json!({ "protocolVersion": "2025-06-18" });
        let hello = Hello::from_params(Some(&bare)).expect("a version is enough");
        assert_eq!(hello.client_info, ClientInfo::default());

        assert!(Hello::from_params(None).is_err());
        for wrong in [
            json!({}),
            json!({ "protocolVersion": 5 }),
            json!(["2025-06-18"]),
            json!({ "protocolVersion": "2025-06-18", "clientInfo": "claude-code" }),
        ] {
            assert!(Hello::from_params(Some(&wrong)).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_an_initialize_holds_it_is_a_hello_or_refused(
            params in arbitrary::json(
                &["protocolVersion", "clientInfo", "name", "version", "2025-06-18"].map(str::to_owned),
            ),
        ) {
            match Hello::from_params(Some(&params)) {
                Ok(hello) => prop_assert!(LEGACY_VERSIONS.contains(&negotiate(&hello.protocol_version))),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
