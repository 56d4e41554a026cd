//! Configuration files: one YAML mapping or JSON object, each entry with its line.
//!
//! Limits: does not interpret the entries.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};

use super::value::{Field, Raw};
use crate::text::foreign;
use crate::text::lines::truncate;

/// The largest file. A configuration has a page or two; a larger file is something else.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a whole file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("there is no such file")]
    Missing,
    #[error("is a directory or a device, not a file")]
    NotAFile,
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("is larger than 1 MiB")]
    TooLarge,
    #[error("is not UTF-8 after byte {0}")]
    NotUtf8(usize),
    #[error("is not a YAML mapping of `key: value` lines: {}", parsers(.text))]
    Syntax { line: Option<u64>, text: String },
    #[error("is not a JSON object: {}", parsers(.text))]
    NotJson { line: Option<u64>, text: String },
}

/// The most characters of a parser's error, which may repeat what the file says.
const ERROR_CHARS: usize = 300;

/// The error of a parser, on one line.
fn parsers(text: &str) -> String {
    foreign::row(&truncate(text, ERROR_CHARS))
}

impl FileError {
    /// The line of the error, from 1, if known.
    pub(crate) fn line(&self) -> Option<u64> {
        match self {
            FileError::Syntax { line, .. } | FileError::NotJson { line, .. } => *line,
            _ => None,
        }
    }
}

/// Reads a YAML file.
pub(crate) fn read(path: &Path) -> Result<Vec<Field>, FileError> {
    parse(&read_bytes(path)?)
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Vec<Field>, FileError> {
    parse_json(text_of(&read_bytes(path)?)?)
}

/// Treats a missing file as an empty one.
pub(crate) fn none_if_missing(
    entries: Result<Vec<Field>, FileError>,
) -> Result<Vec<Field>, FileError> {
    match entries {
        Err(FileError::Missing) => Ok(Vec::new()),
        other => other,
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let of_io = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => FileError::Missing,
        _ => FileError::Unreadable(error),
    };
    // Check before opening, since opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(of_io)?.is_file() {
        return Err(FileError::NotAFile);
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(of_io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FileError::TooLarge);
    }
    Ok(bytes)
}

fn text_of(bytes: &[u8]) -> Result<&str, FileError> {
    std::str::from_utf8(bytes).map_err(|error| FileError::NotUtf8(error.valid_up_to()))
}

/// The entries of a YAML mapping in order, including duplicate keys.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Field>, FileError> {
    let options = serde_saphyr::options! {
        // As in YAML 1.2, `log: off` is a word.
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    let root = serde_saphyr::from_str_with_options::<Raw>(text_of(bytes)?, options);
    match root {
        Ok(Raw::Map(fields)) => Ok(fields),
        // An empty file, or a file with only comments.
        Ok(Raw::Null) => Ok(Vec::new()),
        Ok(other) => {
            Err(FileError::Syntax { line: None, text: format!("found {}", other.describe()) })
        }
        Err(error) => Err(FileError::Syntax {
            line: error.location().map(|location| location.line()).filter(|line| *line > 0),
            text: error.to_string(),
        }),
    }
}

/// The entries of a JSON object, each with the line where its key first occurs.
fn parse_json(text: &str) -> Result<Vec<Field>, FileError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let object: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|error| FileError::NotJson {
            line: u64::try_from(error.line()).ok().filter(|line| *line > 0),
            text: error.to_string(),
        })?;
    let entries = object.into_iter().map(|(key, value)| Field {
        line: line_of(&key, text),
        key,
        value: raw(value),
    });
    Ok(entries.collect())
}

fn line_of(key: &str, text: &str) -> u64 {
    let quoted = Value::from(key).to_string();
    let before = text.split(&quoted).next().unwrap_or_default();
    1 + before.matches('\n').count() as u64
}

fn raw(value: Value) -> Raw {
    match value {
        Value::Null => Raw::Null,
        Value::Bool(value) => Raw::Bool(value),
        Value::Number(number) => match number.as_i128() {
            Some(integer) => Raw::Integer(integer),
            None => Raw::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Raw::Text(text),
        Value::Array(items) => Raw::List(items.into_iter().map(raw).collect()),
        // No setting of a JSON file takes a mapping.
        Value::Object(_) => Raw::Map(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(key: &str, line: u64, value: Raw) -> Field {
        Field { key: key.to_owned(), line, value }
    }

    #[test]
    fn entries_keep_order_line_and_type() {
        let yaml = "# comment\na: 1\n\nb: 2.5\nc: yes\nd: true\ne:\n  - x\n  - 2\nf: {g: 1}\nh:\na: .inf\n";
        let text = |text: &str| Raw::Text(text.to_owned());
        let field = Field { key: "g".to_owned(), line: 10, value: Raw::Integer(1) };
        assert_eq!(
            parse(yaml.as_bytes()).unwrap(),
            [
                entry("a", 2, Raw::Integer(1)),
                entry("b", 4, Raw::Float(2.5)),
                entry("c", 5, text("yes")),
                entry("d", 6, Raw::Bool(true)),
                entry("e", 7, Raw::List(vec![text("x"), Raw::Integer(2)])),
                entry("f", 10, Raw::Map(vec![field])),
                entry("h", 11, Raw::Null),
                entry("a", 12, Raw::Float(f64::INFINITY)),
            ]
        );
    }

    #[test]
    fn an_empty_file_has_no_entries() {
        for yaml in ["", "# only a comment\n", "---\n", "{}"] {
            assert_eq!(parse(yaml.as_bytes()).unwrap(), [], "{yaml:?}");
        }
    }

    #[test]
    fn syntax_errors_name_their_line() {
        let error = parse(b"a: 1\nb: [1, 2\nc: }\n").unwrap_err();
        assert!(matches!(error.line(), Some(2..=4)), "{error:?}");
    }

    #[test]
    fn a_file_without_a_mapping_is_an_error() {
        for yaml in ["just words", "- a\n- b\n", "42"] {
            let error = parse(yaml.as_bytes()).unwrap_err();
            assert!(matches!(error, FileError::Syntax { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_directory_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(read(directory.path()), Err(FileError::NotAFile)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_yaml_like_text_is_parsed_or_refused(
            text in "([a-z]{1,3}|[:\\-?&*!|>%@`\"'#{}\\[\\],<~.0-9]|: |- |\n|\n  ){0,40}"
        ) {
            let _ = parse(text.as_bytes());
        }
    }
}
