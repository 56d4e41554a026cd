//! Any JSON for property tests: values made of given words, and recorded values of which
//! parts are replaced.
//!
//! Limits: for tests only. A recording is taken as far as it is whole values.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// Parts of a recorded value that are replaced, at most.
const MOST_REPLACED: usize = 2;

/// Numbers at which arithmetic breaks that was not meant for them.
const EDGES: [f64; 8] =
    [0.0, -1.0, 0.5, u32::MAX as f64, i64::MAX as f64, u64::MAX as f64, f64::MAX, f64::MIN];

/// Any small value; its keys and texts are often among these words.
pub(crate) fn json(words: &[String]) -> impl Strategy<Value = Value> + use<> {
    let mut words = words.to_vec();
    words.push(String::new());
    let word = prop_oneof![4 => select(words), 1 => "\\PC{0,6}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        select(EDGES.to_vec()).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..4).prop_map(Value::from_iter),
        ]
    })
}

/// One of the values of a recording, with some of its parts replaced by others.
pub(crate) fn damaged(recording: &str) -> impl Strategy<Value = Value> + use<> {
    let values = values(recording);
    let replaced = (any::<Index>(), json(&words(&values)));
    let replaced = prop::collection::vec(replaced, 0..=MOST_REPLACED);
    (select(values), replaced).prop_map(|(mut value, replaced)| {
        for (place, other) in replaced {
            let mut place = Some(place.index(parts(&value)));
            replace(&mut value, &mut place, &other);
        }
        value
    })
}

/// The values that a text holds one behind the other.
fn values(text: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    let values: Vec<Value> = values.map_while(Result::ok).collect();
    assert!(!values.is_empty(), "no JSON in {text:?}");
    values
}

/// The keys and the short texts of values.
fn words(values: &[Value]) -> Vec<String> {
    const LONGEST: usize = 40;
    let mut found = BTreeSet::new();
    let mut left: Vec<&Value> = values.iter().collect();
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) if text.len() <= LONGEST => {
                found.insert(text.clone());
            }
            Value::Array(parts) => left.extend(parts),
            Value::Object(fields) => {
                found.extend(fields.keys().cloned());
                left.extend(fields.values());
            }
            _ => {}
        }
    }
    found.into_iter().collect()
}

/// How many values this one is made of, itself included.
fn parts(value: &Value) -> usize {
    1 + match value {
        Value::Array(inner) => inner.iter().map(parts).sum(),
        Value::Object(fields) => fields.values().map(parts).sum(),
        _ => 0,
    }
}

/// Replaces the part of this number, counted from the value itself inwards.
fn replace(value: &mut Value, place: &mut Option<usize>, other: &Value) {
    match place {
        Some(0) => {
            value.clone_from(other);
            *place = None;
        }
        Some(left) => {
            *left -= 1;
            match value {
                Value::Array(inner) => {
                    inner.iter_mut().for_each(|part| replace(part, place, other))
                }
                Value::Object(fields) => {
                    fields.values_mut().for_each(|part| replace(part, place, other));
                }
                _ => {}
            }
        }
        None => {}
    }
}
