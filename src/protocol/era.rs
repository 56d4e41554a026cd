//! The versions of MCP that are spoken, and the handshake of the legacy ones.
//!
//! Pure. A legacy connection opens with `initialize`, which settles one
//! [`LegacyVersion`] for its whole life. Limits: what the versions differ in is not
//! decided here, because nothing that this server sends does: tools, results, progress
//! and cancellation read the same in all of them. The stateless version has no handshake
//! (it is named in every request) and so stands beside the legacy ones, in
//! [`stateless`](super::stateless), and not among them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A version that is settled by `initialize`, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LegacyVersion {
    /// The first one.
    V2024_11_05,
    /// Brought tool annotations (and batches, since withdrawn).
    V2025_03_26,
    /// Brought structured tool results and titles.
    V2025_06_18,
    /// The last one with a handshake.
    V2025_11_25,
}

impl LegacyVersion {
    /// All of them, oldest first.
    pub const ALL: [LegacyVersion; 4] = [
        LegacyVersion::V2024_11_05,
        LegacyVersion::V2025_03_26,
        LegacyVersion::V2025_06_18,
        LegacyVersion::V2025_11_25,
    ];

    /// What a client is offered that asks for a version unknown here.
    pub const NEWEST: LegacyVersion = LegacyVersion::V2025_11_25;

    /// The version as it is written in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            LegacyVersion::V2024_11_05 => "2024-11-05",
            LegacyVersion::V2025_03_26 => "2025-03-26",
            LegacyVersion::V2025_06_18 => "2025-06-18",
            LegacyVersion::V2025_11_25 => "2025-11-25",
        }
    }
}

/// The version for a connection whose client asks for `requested`: that one when it is
/// known, else the newest; the client then goes on with it or hangs up.
pub fn negotiate(requested: &str) -> LegacyVersion {
    LegacyVersion::ALL
        .into_iter()
        .find(|version| version.as_str() == requested)
        .unwrap_or(LegacyVersion::NEWEST)
}

/// What a client says of itself in `initialize`, as far as anything depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The version it would like; see [`negotiate`].
    pub protocol_version: String,
    /// Which program it is; clients that do not say stay nameless.
    #[serde(default)]
    pub client_info: ClientInfo,
}

/// Which program the client is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClientInfo {
    /// Such as `claude-code`.
    pub name: String,
    /// In whatever form the client writes versions.
    pub version: String,
}

/// The params of `initialize` are not what MCP says.
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
    /// Reads the params of `initialize`.
    ///
    /// # Errors
    /// There are no params, or no `protocolVersion` among them, or a member has the
    /// wrong type: [`INVALID_PARAMS`](super::message::INVALID_PARAMS) to the client.
    pub fn from_params(params: Option<&Value>) -> Result<Hello, HelloError> {
        match params {
            // Derived structs can also be read from arrays, which MCP does not allow.
            Some(object @ Value::Object(_)) => Ok(Hello::deserialize(object)?),
            Some(_) | None => Err(HelloError::Missing),
        }
    }
}

/// The result of `initialize`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult<'a> {
    protocol_version: &'static str,
    capabilities: Capabilities,
    server_info: ServerInfo,
    instructions: &'a str,
}

/// What the server can do: tools, and nothing that would need a request of its own.
#[derive(Debug, Serialize)]
pub(super) struct Capabilities {
    tools: Empty,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extensions: BTreeMap<&'static str, Empty>,
}

impl Capabilities {
    /// Tools and these extensions, none of which has settings.
    pub(super) fn with_extensions(extensions: impl IntoIterator<Item = &'static str>) -> Self {
        Capabilities {
            tools: Empty {},
            extensions: extensions
                .into_iter()
                .map(|name| (name, Empty {}))
                .collect(),
        }
    }
}

/// No settings; for tools no `listChanged`: they are the same for the whole life of the
/// server.
#[derive(Debug, Serialize)]
struct Empty {}

/// Who the server is.
#[derive(Debug, Serialize)]
pub(super) struct ServerInfo {
    name: &'static str,
    title: &'static str,
    version: &'static str,
}

pub(super) const SERVER_INFO: ServerInfo = ServerInfo {
    name: env!("CARGO_PKG_NAME"),
    title: "zsh-tool",
    version: env!("CARGO_PKG_VERSION"),
};

impl<'a> InitializeResult<'a> {
    /// The result for a settled version; `instructions` are for the model to read.
    pub fn new(version: LegacyVersion, instructions: &'a str) -> Self {
        InitializeResult {
            protocol_version: version.as_str(),
            capabilities: Capabilities::with_extensions([]),
            server_info: SERVER_INFO,
            instructions,
        }
    }
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
            assert_eq!(negotiate(version).as_str(), version);
        }
        for unknown in ["", "2026-07-28", "1999-01-01", "2025-11-25 "] {
            assert_eq!(negotiate(unknown).as_str(), "2025-11-25");
        }
        assert_eq!(
            LegacyVersion::ALL.into_iter().max(),
            Some(LegacyVersion::NEWEST)
        );
    }

    #[test]
    fn the_result_says_version_tools_server_and_instructions() {
        let result = InitializeResult::new(LegacyVersion::V2025_06_18, "Poll it.");
        assert_eq!(
            serde_json::to_value(result).expect("a result is JSON"),
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
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
                Ok(hello) => prop_assert!(LegacyVersion::ALL.contains(&negotiate(&hello.protocol_version))),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
