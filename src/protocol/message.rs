//! JSON-RPC 2.0 messages: bytes to [`Incoming`], results and errors to bytes.
//!
//! Pure. [`reader`](super::reader) splits a stream into messages. Limits: no batches (MCP dropped
//! them) and one request from the server, whose response changes nothing: it is recognised and not read.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::id::RequestId;

/// The bytes are not JSON (JSON-RPC 2.0, section 5.1).
pub(crate) const PARSE_ERROR: i64 = -32700;
/// The JSON is not a request object (JSON-RPC 2.0, section 5.1).
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// There is no such method (JSON-RPC 2.0, section 5.1).
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters, or the tool they name, are wrong (JSON-RPC 2.0, section 5.1).
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// The server failed, through no fault of the client (JSON-RPC 2.0, section 5.1).
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// The only valid value of `jsonrpc`.
const VERSION: &str = "2.0";

/// Sent if an error cannot itself be written as JSON.
const LAST_RESORT: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}"#;

/// One message from the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// Needs exactly one response, with the same id.
    Request {
        id: RequestId,
        /// Such as `tools/call`.
        method: String,
        /// An object or an array, if present.
        params: Option<Value>,
    },
    /// Must not be answered.
    Notification {
        /// Such as `notifications/cancelled`.
        method: String,
        /// An object or an array, if present.
        params: Option<Value>,
    },
    /// A client's response, to `elicitation/create`. It is not answered, or two peers
    /// could exchange errors forever.
    Response,
}

/// Why a frame is not a usable message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Malformed {
    /// The request's id, if it could be read.
    pub id: Option<RequestId>,
    /// The JSON-RPC error code, one of this module's constants.
    pub code: i64,
    /// What is wrong, for the client's developer.
    pub message: String,
}

impl Malformed {
    /// The answer to send; `None` for a notification, which is never answered.
    pub fn reply(&self) -> Option<Vec<u8>> {
        // Params are read last, so a message with wrong params and no id was a notification.
        let is_notification = self.id.is_none() && self.code == INVALID_PARAMS;
        (!is_notification).then(|| error(self.id.as_ref(), self.code, &self.message, None))
    }
}

/// The unparsed members of a message; `null` differs from a missing member.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses one frame.
///
/// # Errors
/// [`PARSE_ERROR`] if the frame is not JSON in UTF-8, or is nested too deeply;
/// [`INVALID_REQUEST`] if it is a batch or not a JSON-RPC 2.0 message; [`INVALID_PARAMS`] if the
/// params are neither an object nor an array.
pub fn parse(frame: &[u8]) -> Result<Incoming, Malformed> {
    let envelope = read_envelope(frame)?;
    if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
        return Ok(Incoming::Response);
    }

    let id = match envelope.id {
        None => None,
        Some(raw) => Some(RequestId::from_raw(raw).ok_or_else(|| {
            invalid_request(None, "id must be a string or a number; leave it out to notify")
        })?),
    };
    if text_of(envelope.jsonrpc).as_deref() != Some(VERSION) {
        return Err(invalid_request(id, "jsonrpc must be \"2.0\""));
    }
    let Some(method) = text_of(envelope.method) else {
        return Err(invalid_request(id, "method must be a string"));
    };
    let params = match envelope.params {
        None => None,
        Some(raw) => Some(read_params(raw, &id)?),
    };

    Ok(match id {
        Some(id) => Incoming::Request { id, method, params },
        None => Incoming::Notification { method, params },
    })
}

fn read_envelope(frame: &[u8]) -> Result<Envelope<'_>, Malformed> {
    // The first pass checks the syntax of the whole text, so that later errors are about its
    // meaning. It does not recurse, however deep the nesting.
    let text: &RawValue =
        serde_json::from_slice(frame).map_err(|error| parse_error(None, &error))?;
    // Serde would also read the struct from an array, and thus from a batch.
    match text.get().as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') => {
            return Err(invalid_request(
                None,
                "batches are not supported: send one message per frame",
            ));
        }
        _ => return Err(invalid_request(None, "a message must be a JSON object")),
    }
    serde_json::from_str(text.get()).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => invalid_request(None, &error.to_string()),
        _ => parse_error(None, &error),
    })
}

fn read_params(raw: &RawValue, id: &Option<RequestId>) -> Result<Value, Malformed> {
    // Fails for nesting beyond serde_json's limit and for a lone surrogate. The error carries the
    // id, so that the client learns which request was wrong.
    let params: Value =
        serde_json::from_str(raw.get()).map_err(|error| parse_error(id.clone(), &error))?;
    if params.is_object() || params.is_array() {
        return Ok(params);
    }
    Err(Malformed {
        id: id.clone(),
        code: INVALID_PARAMS,
        message: "params must be an object; leave it out when there are none".to_owned(),
    })
}

fn text_of(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn parse_error(id: Option<RequestId>, error: &serde_json::Error) -> Malformed {
    Malformed { id, code: PARSE_ERROR, message: format!("bad JSON: {error}") }
}

fn invalid_request(id: Option<RequestId>, message: &str) -> Malformed {
    Malformed { id, code: INVALID_REQUEST, message: format!("bad request: {message}") }
}

/// The response to a successful request. A result that cannot be written as JSON (a map whose keys
/// are not strings) becomes an [`INTERNAL_ERROR`].
pub(crate) fn response(id: &RequestId, result: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a, R> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        result: &'a R,
    }
    let jsonrpc = VERSION;
    serde_json::to_vec(&Response { jsonrpc, id, result }).unwrap_or_else(|cause| {
        let message = format!("the result cannot be written as JSON: {cause}");
        error(Some(id), INTERNAL_ERROR, &message, None)
    })
}

/// The response to a failed request; its id is `null` if it could not be read.
pub(crate) fn error(
    id: Option<&RequestId>,
    code: i64,
    message: &str,
    data: Option<Value>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RequestId>,
        error: Body<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    }
    let error = Body { code, message, data };
    serde_json::to_vec(&Response { jsonrpc: VERSION, id, error })
        .unwrap_or_else(|_| LAST_RESORT.as_bytes().to_vec())
}

/// Adds a member to an object, or replaces it; does nothing to any other value.
pub(crate) fn put(object: &mut Value, name: &str, member: impl Into<Value>) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), member.into());
    }
}

/// A request to the client, such as `elicitation/create`.
///
/// # Errors
/// When the params cannot be written as JSON.
pub(crate) fn request(
    id: &str,
    method: &str,
    params: &Value,
) -> Result<Vec<u8>, serde_json::Error> {
    let request = json!({"jsonrpc": VERSION, "id": id, "method": method, "params": params});
    serde_json::to_vec(&request)
}

/// A notification, such as `notifications/progress`.
///
/// # Errors
/// When the params cannot be written as JSON (a map whose keys are not strings).
pub(crate) fn notification(
    method: &str,
    params: &impl Serialize,
) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_vec(&Notification { jsonrpc: VERSION, method, params })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn malformed(frame: &str) -> Malformed {
        match parse(frame.as_bytes()) {
            Err(malformed) => malformed,
            Ok(incoming) => panic!("{frame} was read as {incoming:?}"),
        }
    }

    fn request_id(written: &str) -> RequestId {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{written},"method":"ping"}}"#);
        match parse(frame.as_bytes()) {
            Ok(Incoming::Request { id, .. }) => id,
            other => panic!("{frame} was read as {other:?}"),
        }
    }

    #[test]
    fn a_message_with_an_id_is_a_request_and_without_one_a_notification() {
        let request =
            br#" {"params":{"a":[1]},"method":"tools/call","id":"x","jsonrpc":"2.0","more":1} "#;
        assert_eq!(
            parse(request),
            Ok(Incoming::Request {
                id: RequestId::String("x".to_owned()),
                method: "tools/call".to_owned(),
                params: Some(json!({"a": [1]})),
            })
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Ok(Incoming::Notification {
                method: "notifications/initialized".to_owned(),
                params: None,
            })
        );
    }

    #[test]
    fn responses_of_the_client_are_recognised_even_with_a_null_id() {
        for frame in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
        ] {
            assert_eq!(parse(frame.as_bytes()), Ok(Incoming::Response), "{frame}");
        }
    }

    #[test]
    fn malformed_frames_get_the_code_and_the_id_that_could_be_read() {
        // The code, the id, the frame.
        let table = r#"
            -32700 null hello
            -32700 null {
            -32700 null {"jsonrpc":"2.0","id":1,"method":"ping"}x
            -32700 null [{"jsonrpc":"2.0",
            -32700    1 {"jsonrpc":"2.0","id":1,"method":"a","params":{"s":"\ud800"}}
            -32700    1 {"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1e999}}
            -32600 null []
            -32600 null [{"jsonrpc":"2.0","id":1,"method":"ping"}]
            -32600 null ["2.0",1,"ping",{},null,null]
            -32600 null null
            -32600 null 5
            -32600 null "ping"
            -32600 null {}
            -32600    1 {"id":1,"method":"ping"}
            -32600    1 {"jsonrpc":"1.0","id":1,"method":"ping"}
            -32600    1 {"jsonrpc":2.0,"id":1,"method":"ping"}
            -32600    1 {"jsonrpc":"2.0","id":1}
            -32600    1 {"jsonrpc":"2.0","id":1,"method":7}
            -32600    1 {"jsonrpc":"2.0","id":1,"method":null}
            -32600 null {"jsonrpc":"2.0","method":7}
            -32600 null {"jsonrpc":"2.0","id":null,"method":"ping"}
            -32600 null {"jsonrpc":"2.0","id":true,"method":"ping"}
            -32600 null {"jsonrpc":"2.0","id":{},"method":"ping"}
            -32600 null {"jsonrpc":"2.0","id":[1],"method":"ping"}
            -32600 null {"jsonrpc":"2.0","id":1e999,"method":"ping"}
            -32600 null {"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}
            -32602    1 {"jsonrpc":"2.0","id":1,"method":"a","params":5}
            -32602    1 {"jsonrpc":"2.0","id":1,"method":"a","params":"x"}
            -32602    1 {"jsonrpc":"2.0","id":1,"method":"a","params":null}
        "#;
        for row in table.trim().lines().map(str::trim) {
            let (code, rest) = row.split_once(' ').expect("a code");
            let (id, frame) = rest.trim_start().split_once(' ').expect("an id");
            let reply = malformed(frame).reply().expect("no notification");
            let reply: Value = serde_json::from_slice(&reply).expect("a reply is JSON");
            let shown = |pointer| reply.pointer(pointer).map(Value::to_string);
            assert_eq!(shown("/error/code").as_deref(), Some(code), "{frame}");
            assert_eq!(shown("/id").as_deref(), Some(id), "{frame}");
        }
        assert_eq!(malformed("").code, PARSE_ERROR);
    }

    #[test]
    fn text_that_is_not_utf8_is_a_parse_error() {
        let frame = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}";
        assert_eq!(parse(frame).map_err(|m| m.code), Err(PARSE_ERROR));
    }

    #[test]
    fn a_notification_with_wrong_params_is_not_answered() {
        let malformed = malformed(r#"{"jsonrpc":"2.0","method":"a","params":5}"#);
        assert_eq!(malformed.code, INVALID_PARAMS);
        assert_eq!(malformed.reply(), None);
    }

    #[test]
    fn nesting_without_end_does_not_overflow_the_stack() {
        let depth = 1_000_000;
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let params = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{nested}}}"#);
        assert_eq!(malformed(&params).code, PARSE_ERROR);
        assert_eq!(malformed(&params).id, Some(request_id("1")));
        let id = format!(r#"{{"jsonrpc":"2.0","id":{nested},"method":"a"}}"#);
        assert_eq!(malformed(&id).code, INVALID_REQUEST);
        assert_eq!(malformed(&nested).code, INVALID_REQUEST);
        assert_eq!(malformed(&"[".repeat(depth)).code, PARSE_ERROR);
    }

    #[test]
    fn errors_carry_a_null_id_and_data_only_when_there_is_some() {
        let plain = error(None, PARSE_ERROR, "no\nJSON", None);
        assert_eq!(
            String::from_utf8_lossy(&plain),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no\nJSON"}}"#
        );
        let id = request_id("3");
        let with_data = error(Some(&id), -32022, "version", Some(json!({"supported": []})));
        assert_eq!(
            String::from_utf8_lossy(&with_data),
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32022,"message":"version","data":{"supported":[]}}}"#
        );
    }

    #[test]
    fn a_result_that_is_no_json_is_an_internal_error_of_that_request() {
        let keyed_by_pairs = BTreeMap::from([((1, 2), 3)]);
        let answer: Value = serde_json::from_slice(&response(&request_id("3"), &keyed_by_pairs))
            .expect("an answer is JSON");
        assert_eq!(answer.get("id"), Some(&json!(3)));
        assert_eq!(answer.pointer("/error/code"), Some(&json!(INTERNAL_ERROR)));
        assert!(notification("notifications/progress", &keyed_by_pairs).is_err());
    }

    #[test]
    fn a_notification_has_no_id() {
        let bytes = notification("notifications/progress", &json!({"progress": 1}))
            .expect("params are JSON");
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(malformed) = parse(&frame) {
                let reply = malformed.reply().unwrap_or_default();
                prop_assert!(!reply.contains(&b'\n'));
            }
        }

        #[test]
        fn almost_requests_never_panic(
            frame in r#"[{\[]("(id|method|params|jsonrpc|result)":("2\.0"|-?[0-9.e]{1,5}|null|true|"[a-z\\u]{0,4}"|\{|\[|\}|\]),?){0,6}[}\]]"#
        ) {
            if let Err(malformed) = parse(frame.as_bytes()) {
                prop_assert!([PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS].contains(&malformed.code));
            }
        }

        #[test]
        fn a_response_is_one_line_whatever_it_carries(text in any::<String>(), id in any::<String>()) {
            let line = response(&RequestId::String(id), &json!({ "text": text }));
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        }
    }
}
