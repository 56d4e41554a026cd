//! The stateless era of MCP: without a handshake, every request names its version and its client's
//! capabilities.
//!
//! Pure. Both are in `params._meta`, the *envelope*. The answer to a request depends only on that
//! request's envelope, and the server sends no requests. Limits: reads only the capabilities that
//! change an answer.

use serde_json::{Map, Value, json};

use super::era::{ClientInfo, capabilities, server_info};
use super::id::RequestId;
use super::message::{self, INVALID_PARAMS, put};

/// The version of this era, as it is written in messages.
pub(crate) const VERSION: &str = "2026-07-28";

/// The method that requests the server's capabilities.
pub(crate) const DISCOVER: &str = "server/discover";

/// The method that subscribes to notifications.
pub(crate) const LISTEN: &str = "subscriptions/listen";

/// The request's version is not served.
pub(crate) const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// The request needs a client capability that its envelope does not declare.
pub(crate) const MISSING_CLIENT_CAPABILITY: i64 = -32021;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The extension that allows a task as the answer to a call.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How many milliseconds a client may cache results that do not change while the server runs. Not
/// forever, since the next server may be a newer version.
const TTL_MS: u64 = 60 * 60 * 1000;
/// How many characters of a client's text an error message repeats.
const QUOTED_CHARS: usize = 40;

/// The envelope of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The client; empty if the envelope does not name it.
    pub client: ClientInfo,
    /// Whether the answer may be a task.
    pub takes_tasks: bool,
}

/// Why an envelope is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Required keys are missing.
    #[error("params._meta lacks {}", .0.join(" and "))]
    Missing(Vec<&'static str>),
    /// A value has the wrong type.
    #[error("{key} in params._meta must be {expected}")]
    WrongType {
        /// The value's key.
        key: &'static str,
        /// The type it should have.
        expected: &'static str,
    },
    /// The version is not served without a handshake.
    #[error(
        "protocol version {} is not served: name {VERSION}, or open with initialize for an earlier one",
        .0.chars().take(QUOTED_CHARS).collect::<String>()
    )]
    UnsupportedVersion(String),
}

impl EnvelopeError {
    /// The error for a request that needs an envelope and has none.
    pub fn no_envelope() -> EnvelopeError {
        EnvelopeError::Missing(vec![VERSION_KEY, CAPABILITIES_KEY])
    }

    /// The JSON-RPC error code.
    pub fn code(&self) -> i64 {
        match self {
            EnvelopeError::Missing(_) | EnvelopeError::WrongType { .. } => INVALID_PARAMS,
            EnvelopeError::UnsupportedVersion(_) => UNSUPPORTED_PROTOCOL_VERSION,
        }
    }

    /// The error's `data`: for an unsupported version, the supported ones.
    pub fn data(&self) -> Option<Value> {
        match self {
            EnvelopeError::UnsupportedVersion(requested) => {
                Some(json!({"supported": [VERSION], "requested": requested}))
            }
            EnvelopeError::Missing(_) | EnvelopeError::WrongType { .. } => None,
        }
    }
}

impl Envelope {
    /// Reads the envelope of a request; `None` if there is none, as in the legacy era.
    ///
    /// # Errors
    /// When the envelope lacks a key, has a value of the wrong type, or names an unsupported
    /// version.
    pub fn from_params(params: Option<&Value>) -> Result<Option<Envelope>, EnvelopeError> {
        let meta = params.and_then(|params| params.get("_meta"));
        let key = |key: &str| meta.and_then(|meta| meta.get(key));
        let (version, capabilities) = (key(VERSION_KEY), key(CAPABILITIES_KEY));
        // Checked first: another version may have other rules.
        if let Some(version) = version.and_then(Value::as_str)
            && version != VERSION
        {
            return Err(EnvelopeError::UnsupportedVersion(version.to_owned()));
        }
        let (version, capabilities) = match (version, capabilities) {
            (Some(version), Some(capabilities)) => (version, capabilities),
            (None, None) if key(CLIENT_KEY).is_none() => return Ok(None),
            (None, None) => return Err(EnvelopeError::no_envelope()),
            (None, Some(_)) => return Err(EnvelopeError::Missing(vec![VERSION_KEY])),
            (Some(_), None) => return Err(EnvelopeError::Missing(vec![CAPABILITIES_KEY])),
        };
        if !version.is_string() {
            return Err(EnvelopeError::WrongType { key: VERSION_KEY, expected: "a string" });
        }
        let capabilities = capabilities
            .as_object()
            .ok_or(EnvelopeError::WrongType { key: CAPABILITIES_KEY, expected: "an object" })?;
        let client = |member: &str| {
            let value = key(CLIENT_KEY).and_then(|client| client.get(member));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(Some(Envelope {
            client: ClientInfo { name: client("name"), version: client("version") },
            takes_tasks: capabilities
                .get("extensions")
                .and_then(|extensions| extensions.get(TASKS_EXTENSION))
                .is_some_and(Value::is_object),
        }))
    }
}

/// The type of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultType {
    /// The whole answer.
    Complete,
    /// A task, whose own result comes later.
    Task,
}

/// Adds this era's members to a result: its type and the server's name.
pub(crate) fn stamped(result_type: ResultType, result: Value) -> Value {
    let word = match result_type {
        ResultType::Complete => "complete",
        ResultType::Task => "task",
    };
    let mut stamped = Map::new();
    stamped.insert("resultType".to_owned(), word.into());
    if let Value::Object(members) = result {
        stamped.extend(members);
    }
    if let Value::Object(meta) = stamped.entry("_meta").or_insert_with(|| json!({})) {
        meta.insert(SERVER_KEY.to_owned(), server_info());
    }
    stamped.into()
}

/// Which users may get a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheScope {
    /// Every user, since the result depends only on the program.
    Public,
    /// Only this user, since the result depends on the settings.
    Private,
}

/// A [`stamped`] result that does not change while the server runs, with how long and for which
/// users it may be cached.
pub(crate) fn cacheable(scope: CacheScope, result: Value) -> Value {
    let mut result = stamped(ResultType::Complete, result);
    let scope = match scope {
        CacheScope::Public => "public",
        CacheScope::Private => "private",
    };
    put(&mut result, "ttlMs", TTL_MS);
    put(&mut result, "cacheScope", scope);
    result
}

/// The result of [`DISCOVER`].
pub(crate) fn discovery(offers_tasks: bool, instructions: &str) -> Value {
    let discovery = json!({
        "supportedVersions": [VERSION],
        "capabilities": capabilities(offers_tasks.then_some(TASKS_EXTENSION)),
        "instructions": instructions,
    });
    cacheable(CacheScope::Private, discovery)
}

/// The notification that opens the subscription of a [`LISTEN`] request. It grants none of the
/// requested notifications. `None` if the request is malformed.
pub(crate) fn acknowledgement(id: &RequestId, params: Option<&Value>) -> Option<Vec<u8>> {
    params?.get("notifications")?.as_object()?;
    let acknowledged = json!({"_meta": {SUBSCRIPTION_KEY: id}, "notifications": {}});
    message::notification("notifications/subscriptions/acknowledged", &acknowledged).ok()
}

/// The error data for a request that must declare the tasks extension.
pub(crate) fn needs_tasks_extension() -> Value {
    json!({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::era::SANDBOX_STATE;

    /// Any small JSON value, often under the names that an envelope has.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
            Just(json!(VERSION)),
        ];
        let key = prop_oneof![
            "[a-z]{1,4}",
            Just("_meta".to_owned()),
            Just("extensions".to_owned()),
            Just("name".to_owned()),
            Just(VERSION_KEY.to_owned()),
            Just(CAPABILITIES_KEY.to_owned()),
            Just(CLIENT_KEY.to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    fn read(meta: Value) -> Result<Option<Envelope>, EnvelopeError> {
        Envelope::from_params(Some(&json!({"_meta": meta})))
    }

    #[test]
    fn a_request_without_an_envelope_is_of_the_legacy_era() {
        assert_eq!(Envelope::from_params(None), Ok(None));
        assert_eq!(Envelope::from_params(Some(&json!({}))), Ok(None));
        assert_eq!(Envelope::from_params(Some(&json!([1]))), Ok(None));
        assert_eq!(read(json!({"progressToken": 1})), Ok(None));
        assert_eq!(read(json!("odd")), Ok(None));
    }

    #[test]
    fn an_envelope_names_the_client_and_whether_it_takes_tasks() {
        let bare = json!({VERSION_KEY: VERSION, CAPABILITIES_KEY: {}});
        assert_eq!(read(bare), Ok(Some(Envelope::default())));
        let full = json!({
            VERSION_KEY: VERSION,
            CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}},
            CLIENT_KEY: {"name": "claude-code", "version": "2.1.330"},
        });
        let client = ClientInfo { name: "claude-code".to_owned(), version: "2.1.330".to_owned() };
        let envelope = Envelope { client, takes_tasks: true };
        assert_eq!(read(full), Ok(Some(envelope)));
    }

    proptest! {
        #[test]
        fn any_params_are_read_or_refused(params in any_json()) {
            if let Err(error) = Envelope::from_params(Some(&params)) {
                let code = error.code();
                prop_assert!(code == INVALID_PARAMS || code == UNSUPPORTED_PROTOCOL_VERSION);
                prop_assert_eq!(error.data().is_some(), code == UNSUPPORTED_PROTOCOL_VERSION);
            }
        }

        #[test]
        fn whatever_a_result_holds_it_is_stamped(result in any_json()) {
            let stamped = stamped(ResultType::Task, result);
            prop_assert_eq!(&stamped["resultType"], &json!("task"));
        }
    }

    #[test]
    fn a_wrong_envelope_gets_its_code_and_names_the_key() {
        let table = [
            (json!({CAPABILITIES_KEY: {}}), INVALID_PARAMS, VERSION_KEY),
            (json!({CLIENT_KEY: {}}), INVALID_PARAMS, CAPABILITIES_KEY),
            (json!({VERSION_KEY: VERSION}), INVALID_PARAMS, CAPABILITIES_KEY),
            (json!({VERSION_KEY: 5, CAPABILITIES_KEY: {}}), INVALID_PARAMS, VERSION_KEY),
            (json!({VERSION_KEY: VERSION, CAPABILITIES_KEY: []}), INVALID_PARAMS, CAPABILITIES_KEY),
            (
                json!({VERSION_KEY: "2025-11-25", CAPABILITIES_KEY: {}}),
                UNSUPPORTED_PROTOCOL_VERSION,
                "2025-11-25",
            ),
        ];
        for (meta, code, named) in table {
            let error = read(meta.clone()).expect_err("a wrong envelope");
            assert_eq!(error.code(), code, "{meta}");
            assert!(error.to_string().contains(named), "{meta}: {error}");
        }
    }

    #[test]
    fn an_unknown_version_is_given_back_with_those_that_are_served() {
        let error = EnvelopeError::UnsupportedVersion("v999".to_owned());
        let data = json!({"supported": ["2026-07-28"], "requested": "v999"});
        assert_eq!(error.data(), Some(data));
        let long = EnvelopeError::UnsupportedVersion("9".repeat(5_000));
        assert!(long.to_string().len() < 200);
    }

    #[test]
    fn results_carry_their_type_and_keep_their_own_meta() {
        let result = json!({"content": [], "_meta": {"zsh-tool/result": {"exit_code": 0}}});
        let stamped = stamped(ResultType::Complete, result);
        assert_eq!(stamped["resultType"], json!("complete"));
        assert_eq!(stamped["_meta"]["zsh-tool/result"]["exit_code"], json!(0));
        assert_eq!(stamped["_meta"][SERVER_KEY]["name"], json!("zsh-tool"));
    }

    #[test]
    fn discovery_has_versions_capabilities_and_its_lifetime() {
        let discovery = discovery(true, "Poll it.");
        assert_eq!(discovery["supportedVersions"], json!(["2026-07-28"]));
        let experimental = json!({SANDBOX_STATE: {}});
        let capabilities =
            json!({"tools": {}, "experimental": experimental, "extensions": {TASKS_EXTENSION: {}}});
        assert_eq!(discovery["capabilities"], capabilities);
        assert_eq!(discovery["instructions"], json!("Poll it."));
        assert_eq!(discovery["resultType"], json!("complete"));
        assert_eq!(discovery["ttlMs"], json!(3_600_000));
        assert_eq!(discovery["cacheScope"], json!("private"));
        let without = super::discovery(false, "");
        assert_eq!(without["capabilities"], json!({"tools": {}, "experimental": experimental}));
    }
}
