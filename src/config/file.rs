//! The configuration file: one YAML mapping, each entry with its line.
//!
//! Limits: says what stands in the file and where, not what it means.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy, Spanned};

use super::value::Raw;

/// A configuration is a page or two; what is larger is some other file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// One `key: value`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    /// From 1.
    pub line: u64,
    pub value: Raw,
}

/// Why nothing of the file is in use.
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
    #[error("is not a YAML mapping of `key: value` lines: {text}")]
    Syntax { line: Option<u64>, text: String },
    #[error("is not a JSON object: {text}")]
    NotJson { line: Option<u64>, text: String },
}

impl FileError {
    /// The line at fault, from 1, where one is known.
    pub(crate) fn line(&self) -> Option<u64> {
        match self {
            FileError::Syntax { line, .. } | FileError::NotJson { line, .. } => *line,
            _ => None,
        }
    }
}

/// Reads and parses the file.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>, FileError> {
    parse(&read_bytes(path)?)
}

/// Reads a configuration file, of whatever form.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let of_io = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => FileError::Missing,
        _ => FileError::Unreadable(error),
    };
    // Asked before opening, since opening a pipe would wait for a writer.
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

/// The entries of a YAML mapping in their order; a key given twice is there twice.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Entry>, FileError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| FileError::NotUtf8(error.valid_up_to()))?;
    let options = serde_saphyr::options! {
        // As YAML 1.2 has it: `log: off` is a word.
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Document>(text, options)
        .map(|document| document.0)
        .map_err(|error| FileError::Syntax {
            line: error
                .location()
                .map(|location| location.line())
                .filter(|line| *line > 0),
            text: error.to_string(),
        })
}

struct Document(Vec<Entry>);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DocumentVisitor;

        impl<'de> Visitor<'de> for DocumentVisitor {
            type Value = Document;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a mapping of settings")
            }
            /// An empty file, or one of comments only.
            fn visit_unit<E>(self) -> Result<Document, E> {
                Ok(Document(Vec::new()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    entries.push(Entry {
                        key: key.value,
                        line: key.referenced.line(),
                        value: map.next_value()?,
                    });
                }
                Ok(Document(entries))
            }
        }

        deserializer.deserialize_any(DocumentVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::Field;
    use proptest::prelude::*;

    fn entry(key: &str, line: u64, value: Raw) -> Entry {
        Entry {
            key: key.to_owned(),
            line,
            value,
        }
    }

    #[test]
    fn entries_keep_order_line_and_type() {
        let yaml = "# comment\na: 1\n\nb: 2.5\nc: yes\nd: true\ne:\n  - x\n  - 2\nf: {g: 1}\nh:\na: .inf\n";
        let text = |text: &str| Raw::Text(text.to_owned());
        let field = Field {
            key: "g".to_owned(),
            line: 10,
            value: Raw::Integer(1),
        };
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
    fn a_file_that_is_no_mapping_is_an_error() {
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
