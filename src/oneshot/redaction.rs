//! Data without secrets: the only kind that a run's log takes.
//!
//! JSON is redacted string by string, so that it stays JSON, and strings under a key that
//! names a secret are replaced as a whole. Plain text comes line by line; a private key
//! that spans lines is followed to its end.
//!
//! Limits: those of [`crate::text::redact`]. Pure.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::text::redact::{PLACEHOLDER, Redactor, is_secret_name};

/// How deep JSON is searched; deeper values are replaced.
const MAX_DEPTH: usize = 128;

/// What begins and ends a private key.
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";
const KEY_WORDS: &str = "PRIVATE KEY";

/// A value without secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Redacted(Value);

impl Redacted {
    /// A value, its strings redacted.
    pub(crate) fn new(value: Value, redactor: &Redactor) -> Redacted {
        Redacted::and_whether_changed(value, redactor).0
    }

    /// A value, its strings redacted, and whether any had to be.
    pub(crate) fn and_whether_changed(mut value: Value, redactor: &Redactor) -> (Redacted, bool) {
        let is_changed = redact_value(&mut value, redactor, 0);
        (Redacted(value), is_changed)
    }

    /// A line under a key.
    pub(crate) fn line(key: &str, line: &RedactedLine) -> Redacted {
        Redacted(json!({ key: line.0 }))
    }

    /// The value.
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// The value, for good.
    pub(crate) fn into_value(self) -> Value {
        self.0
    }
}

/// Redacts a value in place; whether it had to be changed.
fn redact_value(value: &mut Value, redactor: &Redactor, depth: usize) -> bool {
    match value {
        Value::String(text) => match redactor.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
        },
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => {
            *value = Value::String(PLACEHOLDER.to_owned());
            true
        }
        Value::Array(items) => {
            let mut is_changed = false;
            for item in items {
                is_changed |= redact_value(item, redactor, depth + 1);
            }
            is_changed
        }
        Value::Object(fields) => {
            let mut is_changed = false;
            for (key, field) in fields {
                is_changed |= match field {
                    Value::String(text) if is_secret_name(key) => {
                        *text = PLACEHOLDER.to_owned();
                        true
                    }
                    field => redact_value(field, redactor, depth + 1),
                };
            }
            is_changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A line without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedactedLine(String);

impl RedactedLine {
    /// The line, for good.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Redacts lines of plain text, in their order.
#[derive(Debug, Default)]
pub struct Lines {
    within_key: bool,
}

impl Lines {
    /// The next line, redacted.
    pub(crate) fn redact(&mut self, line: &str, redactor: &Redactor) -> RedactedLine {
        if self.within_key {
            self.within_key = !line.contains(KEY_END);
            return RedactedLine(PLACEHOLDER.to_owned());
        }
        let begin = line.find(KEY_BEGIN).map(|at| line.split_at(at).1);
        self.within_key =
            begin.is_some_and(|begin| begin.contains(KEY_WORDS) && !begin.contains(KEY_END));
        RedactedLine(redactor.redact(line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

    #[test]
    fn json_stays_json_and_loses_its_secrets() {
        let value = json!({
            "text": format!("pushed with {TOKEN}\n\"quoted\""),
            "nested": [{"api_key": "short", "count": 3}],
            "usage": {"input_tokens": 12},
        });
        let redacted = Redacted::new(value, &Redactor::default()).into_value();
        let text = redacted.to_string();
        assert!(!text.contains(TOKEN) && !text.contains("short"), "{text}");
        assert_eq!(redacted["usage"]["input_tokens"], 12);
        assert_eq!(redacted["nested"][0]["count"], 3);
        assert!(redacted["text"].as_str().unwrap().ends_with("\n\"quoted\""));
    }

    #[test]
    fn known_values_go_wherever_they_stand() {
        let redactor = Redactor::new(["correct horse".to_owned()]);
        let value = json!(["a correct horse runs"]);
        let redacted = Redacted::new(value, &redactor).into_value();
        assert_eq!(redacted, json!([format!("a {PLACEHOLDER} runs")]));
    }

    #[test]
    fn a_private_key_over_many_lines_is_followed_to_its_end() {
        let redactor = Redactor::default();
        let mut lines = Lines::default();
        let text = "before\n-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq83vEjRWeJq83v\n\
                    -----END RSA PRIVATE KEY-----\nafter";
        let redacted: Vec<String> =
            text.lines().map(|line| lines.redact(line, &redactor).into_text()).collect();
        assert_eq!(redacted.first().unwrap(), "before");
        assert_eq!(redacted.last().unwrap(), "after");
        assert!(!redacted.concat().contains("MII") && !redacted.concat().contains("q83v"));
    }

    #[test]
    fn a_certificate_is_no_private_key() {
        let mut lines = Lines::default();
        lines.redact("-----BEGIN CERTIFICATE-----", &Redactor::default());
        let next = lines.redact("MIIB", &Redactor::default());
        assert_eq!(next.into_text(), "MIIB");
    }

    #[test]
    fn what_is_nested_beyond_reason_is_replaced() {
        let mut value = json!("deep");
        for _ in 0..500 {
            value = json!([value]);
        }
        let redacted = Redacted::new(value, &Redactor::default());
        assert!(!redacted.value().to_string().contains("deep"));
    }
}
