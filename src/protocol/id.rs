//! Ids of requests, which responses repeat exactly as the client wrote them.
//!
//! Pure. Limits: only MCP's ids; `null`, which JSON-RPC discourages, is not one.

use std::hash::{Hash, Hasher};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// The id of a request, which its response repeats.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// A number, of any size.
    Number(NumberId),
    String(String),
}

/// A number as the client wrote it, so that `1.50` or an integer beyond 64 bits is repeated digit by
/// digit.
///
/// Two ids are equal if their values are equal as 64-bit integers or doubles, since the parsed
/// `requestId` of a cancellation has lost its digits.
#[derive(Debug, Clone)]
pub struct NumberId {
    written: Box<RawValue>,
    value: Number,
}

impl PartialEq for NumberId {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for NumberId {}

impl Hash for NumberId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl RequestId {
    /// The id in a parsed value, such as the `requestId` of `notifications/cancelled`;
    /// `None` if it is neither a number nor a string.
    pub fn from_value(value: &Value) -> Option<RequestId> {
        match value {
            Value::Number(number) => Some(RequestId::Number(NumberId {
                written: RawValue::from_string(number.to_string()).ok()?,
                value: number.clone(),
            })),
            Value::String(text) => Some(RequestId::String(text.clone())),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The id in unparsed JSON; `None` as for [`from_value`](Self::from_value), or if the number is
    /// out of the range of doubles.
    pub fn from_raw(raw: &RawValue) -> Option<RequestId> {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            return Some(RequestId::String(text));
        }
        Some(RequestId::Number(NumberId {
            value: serde_json::from_str(raw.get()).ok()?,
            written: raw.to_owned(),
        }))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RequestId::Number(number) => number.written.serialize(serializer),
            RequestId::String(text) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn read(written: &str) -> Option<RequestId> {
        let raw: &RawValue = serde_json::from_str(written).expect("the tests write JSON");
        RequestId::from_raw(raw)
    }

    fn write(id: &RequestId) -> String {
        serde_json::to_string(id).expect("ids are JSON")
    }

    #[test]
    fn ids_come_back_as_they_were_written() {
        for written in [
            "0",
            "-7",
            "1.50",
            "1e2",
            "18446744073709551615",
            "123456789012345678901234567890",
            r#""1""#,
            r#""""#,
        ] {
            let id = read(written).expect(written);
            assert_eq!(write(&id), written);
        }
    }

    #[test]
    fn other_types_and_numbers_out_of_range_are_no_ids() {
        for written in ["null", "true", "[1]", "{}", "1e999", r#""\ud800""#] {
            assert_eq!(read(written), None, "{written}");
        }
        assert_eq!(RequestId::from_value(&Value::Null), None);
    }

    #[test]
    fn a_cancellation_finds_its_request_by_value() {
        for written in ["7", "1.50", "123456789012345678901234567890", r#""7""#] {
            let calls = HashSet::from([read(written).expect(written)]);
            let named: Value = serde_json::from_str(written).expect("an id is JSON");
            let named = RequestId::from_value(&named).expect(written);
            assert!(calls.contains(&named), "{written}");
        }
        assert_ne!(read("7"), read(r#""7""#));
    }

    proptest! {
        #[test]
        fn ids_of_any_kind_keep_their_json_type(
            id in prop_oneof![
                any::<i64>().prop_map(Value::from),
                any::<u64>().prop_map(Value::from),
                any::<f64>().prop_filter("JSON has no NaN", |n| n.is_finite()).prop_map(Value::from),
                any::<String>().prop_map(Value::from),
            ]
        ) {
            let written = id.to_string();
            let id = read(&written);
            prop_assert_eq!(id.as_ref().map(write), Some(written.clone()));
            let parsed: Value = serde_json::from_str(&written).expect("JSON");
            prop_assert_eq!(id, RequestId::from_value(&parsed));
        }
    }
}
