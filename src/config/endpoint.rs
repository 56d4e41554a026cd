//! The settings of an OpenAI-compatible endpoint: where it is, which model, which key.
//!
//! Somebody may have written a key where an address or the name of its variable belongs,
//! so that no fault of these repeats what was written there. Limits: nothing is looked up
//! and nobody is asked.

use std::path::Path;

use super::value::{Kind, Raw, expected};

/// An `http` or `https` address without a user, a query or a fragment.
pub(crate) struct BaseUrl;

impl Kind for BaseUrl {
    type Value = Option<String>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Option<String>, String> {
        let wanted = || {
            Err("expected an address such as http://127.0.0.1:11434/v1, \
                 without a user, a query or a fragment"
                .to_owned())
        };
        let Raw::Text(text) = raw else {
            return wanted();
        };
        let text = text.trim().trim_end_matches('/');
        let after_scheme = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"));
        let Some(rest) = after_scheme else {
            return wanted();
        };
        let host = rest.split('/').next().unwrap_or_default();
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "@?#".contains(c);
        if host.is_empty() || rest.contains(is_odd) {
            return wanted();
        }
        Ok(Some(text.to_owned()))
    }

    fn show(&self, value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "none".to_owned())
    }
}

/// A model's name, as the endpoint has it.
pub(crate) struct ModelName;

impl Kind for ModelName {
    type Value = Option<String>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Option<String>, String> {
        match raw {
            Raw::Text(name) if !name.trim().is_empty() => Ok(Some(name.trim().to_owned())),
            _ => expected("the name of a model", raw),
        }
    }

    fn show(&self, value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "none".to_owned())
    }
}

/// The name of a variable of the environment.
pub(crate) struct VariableName;

impl Kind for VariableName {
    type Value = String;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<String, String> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_part = |c: char| is_first(c) || c.is_ascii_digit();
        match raw {
            Raw::Text(name) if name.starts_with(is_first) && name.chars().all(is_part) => {
                Ok(name.clone())
            }
            _ => Err("expected the name of a variable, not the key itself".to_owned()),
        }
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Raw {
        Raw::Text(value.to_owned())
    }

    #[test]
    fn an_address_is_http_and_holds_nothing_secret() {
        let read = |value: &str| BaseUrl.read(&text(value), None);
        for (written, taken) in [
            ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1"),
            (" https://api.openai.com/v1/ ", "https://api.openai.com/v1"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(read(written), Ok(Some(taken.to_owned())), "{written}");
        }
        for wrong in [
            "",
            "localhost:8080/v1",
            "ftp://host/v1",
            "http://",
            "http:///v1",
            "http://me:sesame@host/v1",
            "http://host/v1?key=sesame",
            "http://host/v1#sesame",
            "http://ho st/v1",
        ] {
            let problem = read(wrong).unwrap_err();
            assert!(!problem.contains("sesame"), "{problem}");
        }
    }

    #[test]
    fn a_key_in_the_place_of_its_variable_is_not_repeated() {
        assert_eq!(
            VariableName.read(&text("OPENAI_API_KEY"), None),
            Ok("OPENAI_API_KEY".to_owned())
        );
        let problem = VariableName.read(&text("sk-live-1234"), None).unwrap_err();
        assert!(!problem.contains("1234"), "{problem}");
    }
}
