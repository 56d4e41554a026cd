//! Redacted data, the only data that a run's log accepts.
//!
//! JSON is redacted string by string, so that it stays JSON; strings under a key that names a
//! secret are replaced entirely. Plain text is redacted line by line, following a private key that
//! spans lines to its end.
//!
//! Limits: those of [`crate::text::redact`]. Pure.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::text::redact::{PLACEHOLDER, Redactor, is_secret};

/// How deep JSON is redacted; deeper values are replaced.
const MAX_DEPTH: usize = 128;

/// The marks around a private key.
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";
const KEY_WORDS: &str = "PRIVATE KEY";

/// A value without secrets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Redacted(Value);

impl Redacted {
    /// Redacts a value's strings.
    pub(crate) fn new(value: Value, redactor: &Redactor) -> Redacted {
        Redacted::and_whether_changed(value, redactor).0
    }

    /// Redacts a value's strings; also returns whether any changed.
    pub(crate) fn and_whether_changed(mut value: Value, redactor: &Redactor) -> (Redacted, bool) {
        let is_changed = redact_value(&mut value, redactor, 0);
        (Redacted(value), is_changed)
    }

    /// A JSON object with a line under a key.
    pub(crate) fn line(key: &str, line: &RedactedLine) -> Redacted {
        Redacted(json!({ key: line.0 }))
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }
}

/// Redacts a value in place; returns whether it changed.
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
                    Value::String(text) if is_secret(key, text) => {
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
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Redacts consecutive lines of plain text.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    within_key: bool,
}

impl Lines {
    /// Redacts the next line.
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
    fn known_secrets_are_redacted_everywhere() {
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
    fn a_certificate_is_not_a_private_key() {
        let mut lines = Lines::default();
        lines.redact("-----BEGIN CERTIFICATE-----", &Redactor::default());
        let next = lines.redact("MIIB", &Redactor::default());
        assert_eq!(next.into_text(), "MIIB");
    }

    #[test]
    fn values_nested_too_deeply_are_replaced() {
        let mut value = json!("deep");
        for _ in 0..500 {
            value = json!([value]);
        }
        let redacted = Redacted::new(value, &Redactor::default());
        assert!(!redacted.value().to_string().contains("deep"));
    }
}
