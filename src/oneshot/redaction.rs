//! Data without its secrets: the only kind that a run's log takes.
//!
//! JSON is redacted string by string, so that it stays JSON, and strings under a key that
//! names a secret are replaced as a whole. Plain text comes line by line; a private key
//! that spans lines is followed to its end.
//!
//! Limits: as those of [`crate::text::redact`]. Pure.

use serde_json::Value;

use crate::text::redact::{PLACEHOLDER, Redactor, is_secret_name};

/// How deep JSON is looked into; deeper values are replaced.
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
    pub fn new(mut value: Value, redactor: &Redactor) -> Redacted {
        redact_value(&mut value, redactor, 0);
        Redacted(value)
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The value, for good.
    pub fn into_value(self) -> Value {
        self.0
    }
}

fn redact_value(value: &mut Value, redactor: &Redactor, depth: usize) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(redacted) = redactor.redact(text) {
                *text = redacted;
            }
        }
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => {
            *value = Value::String(PLACEHOLDER.to_owned());
        }
        Value::Array(items) => {
            for item in items {
                redact_value(item, redactor, depth + 1);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                match field {
                    Value::String(text) if is_secret_name(key) => {
                        *text = PLACEHOLDER.to_owned();
                    }
                    field => redact_value(field, redactor, depth + 1),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Redacts lines of plain text, in their order.
#[derive(Debug, Default)]
pub struct Lines {
    within_key: bool,
}

impl Lines {
    /// The next line, redacted.
    pub fn redact(&mut self, line: &str, redactor: &Redactor) -> String {
        if self.within_key {
            self.within_key = !line.contains(KEY_END);
            return PLACEHOLDER.to_owned();
        }
        let begin = line.find(KEY_BEGIN).map(|at| line.split_at(at).1);
        self.within_key =
            begin.is_some_and(|begin| begin.contains(KEY_WORDS) && !begin.contains(KEY_END));
        redactor.redact(line).into_owned()
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
        let redacted: Vec<String> = text
            .lines()
            .map(|line| lines.redact(line, &redactor))
            .collect();
        assert_eq!(redacted.first().unwrap(), "before");
        assert_eq!(redacted.last().unwrap(), "after");
        assert!(!redacted.concat().contains("MII") && !redacted.concat().contains("q83v"));
    }

    #[test]
    fn a_certificate_is_no_private_key() {
        let mut lines = Lines::default();
        lines.redact("-----BEGIN CERTIFICATE-----", &Redactor::default());
        assert_eq!(lines.redact("MIIB", &Redactor::default()), "MIIB");
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
