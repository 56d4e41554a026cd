//! Untyped values from the environment or a file, and their parsers.
//!
//! A [`ValueParser`] turns a [`Raw`] value into a typed value or an error text, and shows a typed
//! value as a person would write it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::text::foreign::{self, ShowPath};

/// The most characters of a value that a warning quotes.
const QUOTED_CHARS: usize = 40;

/// The units of sizes, in bytes.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// A value before parsing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Raw>),
    Map(Vec<Field>),
    /// A value from the environment that is not UTF-8, which only a path may be.
    NotUtf8(OsString),
}

/// One `key: value` of a mapping inside the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// Empty for a key that is neither text nor an integer.
    pub(crate) key: String,
    /// From 1.
    pub(crate) line: u64,
    pub(crate) value: Raw,
}

/// Makes fields equal that only are on other lines.
pub(super) fn without_lines(fields: Vec<Field>) -> Vec<Field> {
    let plain = |Field { key, value, .. }| {
        let value = match value {
            Raw::Map(fields) => Raw::Map(without_lines(fields)),
            other => other,
        };
        Field { key, line: 0, value }
    };
    fields.into_iter().map(plain).collect()
}

impl Raw {
    pub(crate) fn from_env(value: OsString) -> Raw {
        value.into_string().map_or_else(Raw::NotUtf8, Raw::Text)
    }

    /// Whether it is empty, or an unexpanded variable of a plugin's manifest.
    pub(crate) fn is_unset(&self) -> bool {
        *self == Raw::Null || self.text().is_some_and(is_unexpanded)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as an argument or a variable of a program.
    pub(super) fn word(&self) -> Option<String> {
        match self {
            Raw::Text(text) if !text.contains('\0') => Some(text.clone()),
            Raw::Integer(number) => Some(number.to_string()),
            Raw::Float(number) => Some(number.to_string()),
            Raw::Bool(value) => Some(value.to_string()),
            _ => None,
        }
    }

    /// A program and its arguments. The program is a name, an absolute path or, if `home` is known,
    /// a path that begins with `~/`.
    pub(super) fn command(&self, home: Option<&Path>) -> Option<Vec<String>> {
        let Raw::List(items) = self else {
            return None;
        };
        let mut words: Vec<String> = items.iter().map(Raw::word).collect::<Option<_>>()?;
        let program = words.first_mut()?;
        if let (Some(rest), Some(home)) = (program.strip_prefix("~/"), home) {
            *program = home.join(rest).to_str()?.to_owned();
        }
        let is_findable =
            !program.is_empty() && (program.starts_with('/') || !program.contains('/'));
        is_findable.then_some(words)
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Raw::Null => "nothing".to_owned(),
            Raw::Text(text) => foreign::in_quotes(text, QUOTED_CHARS),
            Raw::List(_) => "a list".to_owned(),
            Raw::Map(_) => "a mapping".to_owned(),
            Raw::NotUtf8(_) => "a value that is not UTF-8".to_owned(),
            Raw::Bool(_) | Raw::Integer(_) | Raw::Float(_) => self.word().unwrap_or_default(),
        }
    }

    /// The number, even if it is text, as in the environment.
    fn number(&self) -> Option<f64> {
        match self {
            Raw::Integer(value) => Some(*value as f64),
            Raw::Float(value) => Some(*value),
            Raw::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|number: &f64| number.is_finite())
    }

    fn into_key(self) -> String {
        match self {
            Raw::Text(text) => text,
            Raw::Integer(number) => number.to_string(),
            _ => String::new(),
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Raw::Integer(value) => Some(*value),
            Raw::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

/// Whether this can be the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0', '$'])
}

/// Whether a text consists of letters, digits and `others`, beginning with a letter or digit.
pub(super) fn is_name(text: &str, others: &[char]) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(&c))
}

/// Whether a text contains a literal `${…}`.
pub(crate) fn is_unexpanded(text: &str) -> bool {
    text.split_once("${").is_some_and(|(_, rest)| rest.contains('}'))
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;

        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_none<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Raw, D::Error> {
                Raw::deserialize(inner)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
                Ok(Raw::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
                Ok(Raw::Integer(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
                Ok(Raw::Integer(value.into()))
            }
            fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
                Ok(Raw::Integer(value))
            }
            fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
                Ok(i128::try_from(value).map_or(Raw::Float(value as f64), Raw::Integer))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
                Ok(Raw::Float(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
                Ok(Raw::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Raw, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(Raw::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = entries.next_key::<Spanned<Raw>>()? {
                    fields.push(Field {
                        line: key.referenced.line(),
                        key: key.value.into_key(),
                        value: entries.next_value()?,
                    });
                }
                Ok(Raw::Map(fields))
            }
        }

        deserializer.deserialize_any(RawVisitor)
    }
}

/// Parses and shows the value of a setting.
pub(crate) trait ValueParser {
    type Value;

    /// Parses a value; the error describes the problem. `~` means the directory `home`.
    fn read(&self, raw: &Raw, home: Option<&Path>) -> Result<Self::Value, String>;

    /// The value as a person would write it.
    fn show(&self, value: &Self::Value) -> String;
}

/// The error for an unexpected value.
pub(crate) fn expected(what: impl Display, raw: &Raw) -> String {
    format!("expected {what}, found {}", raw.describe())
}

/// `true` or `false`; as text also 1, 0, yes, no, on, off.
pub(crate) struct Flag;

impl ValueParser for Flag {
    type Value = bool;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<bool, String> {
        let word = raw.word().unwrap_or_default();
        match word.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => Err(expected("true or false", raw)),
        }
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number within limits.
pub(crate) struct Count(pub(crate) RangeInclusive<usize>);

impl ValueParser for Count {
    type Value = usize;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<usize, String> {
        let (min, max) = (self.0.start(), self.0.end());
        raw.integer()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| self.0.contains(number))
            .ok_or_else(|| expected(format_args!("a whole number from {min} to {max}"), raw))
    }

    fn show(&self, value: &usize) -> String {
        value.to_string()
    }
}

/// A number of bytes within limits: an integer of megabytes, or a number with a unit.
pub(crate) struct Megabytes(pub(crate) RangeInclusive<u64>);

const MEGABYTE: u64 = 1_000_000;

impl ValueParser for Megabytes {
    type Value = u64;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<u64, String> {
        let megabytes = match raw.text() {
            Some(text) => text.trim().parse().ok(),
            None => raw.integer().and_then(|number| u64::try_from(number).ok()),
        };
        let bytes = match megabytes {
            Some(number) => number.checked_mul(MEGABYTE),
            None => Size::bytes(raw),
        };
        bytes.filter(|bytes| self.0.contains(bytes)).ok_or_else(|| {
            let (min, max) = (self.0.start() / MEGABYTE, self.0.end() / MEGABYTE);
            expected(format_args!("a size from {min} to {max} MB, in MB or as in `4 GB`"), raw)
        })
    }

    fn show(&self, value: &u64) -> String {
        format!("{} MB", value / MEGABYTE)
    }
}

/// A number of bytes within limits: an integer, or a number with a unit.
pub(crate) struct Size(pub(crate) RangeInclusive<u64>);

impl Size {
    fn bytes(raw: &Raw) -> Option<u64> {
        let Some(text) = raw.text() else {
            return raw.integer().and_then(|bytes| u64::try_from(bytes).ok());
        };
        let text = text.trim();
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
        let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
        let unit = unit.to_ascii_lowercase();
        let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
        let number = number.trim();
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(*factor);
        }
        let bytes = number.parse::<f64>().ok()? * *factor as f64;
        // The limits of all settings are in the range that a float represents exactly.
        (bytes.is_finite() && bytes >= 0.0).then_some(bytes as u64)
    }
}

impl ValueParser for Size {
    type Value = u64;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<u64, String> {
        let bytes = Size::bytes(raw).filter(|bytes| self.0.contains(bytes));
        bytes.ok_or_else(|| {
            let (min, max) = (self.show(self.0.start()), self.show(self.0.end()));
            let what = format_args!(
                "a size from {min} to {max}, in bytes or as in `256 MiB` \
                 (B, KB, MB, GB, KiB, MiB, GiB, TiB)"
            );
            expected(what, raw)
        })
    }

    fn show(&self, value: &u64) -> String {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = |shift: u32| *value > 0 && value.trailing_zeros() >= shift;
        match units.iter().find(|(_, shift)| whole(*shift)) {
            Some((unit, shift)) => format!("{} {unit}", value >> shift),
            None => format!("{value} B"),
        }
    }
}

/// A time within limits, written as a number of its unit.
pub(crate) struct Time {
    unit: Duration,
    unit_name: &'static str,
    limits: RangeInclusive<Duration>,
}

impl Time {
    pub(crate) const fn seconds(limits: RangeInclusive<Duration>) -> Time {
        Time { unit: Duration::from_secs(1), unit_name: "s", limits }
    }

    pub(crate) const fn hours(limits: RangeInclusive<Duration>) -> Time {
        Time { unit: Duration::from_secs(3600), unit_name: "h", limits }
    }
}

impl ValueParser for Time {
    type Value = Duration;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Duration, String> {
        raw.number()
            .and_then(|number| Duration::try_from_secs_f64(number * self.unit.as_secs_f64()).ok())
            .filter(|time| self.limits.contains(time))
            .ok_or_else(|| {
                let (min, max) = (self.show(self.limits.start()), self.show(self.limits.end()));
                expected(format_args!("a time from {min} to {max}"), raw)
            })
    }

    fn show(&self, value: &Duration) -> String {
        let number = value.as_secs_f64() / self.unit.as_secs_f64();
        format!("{number} {}", self.unit_name)
    }
}

/// One of a few words.
pub(crate) struct Choice<T>(PhantomData<T>);

impl<T> Choice<T> {
    pub(crate) const fn new() -> Self {
        Choice(PhantomData)
    }
}

impl<T: ValueEnum> ValueParser for Choice<T> {
    type Value = T;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<T, String> {
        let word = raw.text().unwrap_or_default().trim();
        T::from_str(word, true).map_err(|_| {
            let words: Vec<String> =
                T::value_variants().iter().map(|value| self.show(value)).collect();
            expected(format_args!("one of {}", words.join(", ")), raw)
        })
    }

    fn show(&self, value: &T) -> String {
        let word = value.to_possible_value();
        word.map_or_else(String::new, |word| word.get_name().to_owned())
    }
}

/// Text that `accepts` returns a part of, after trimming blanks.
pub(crate) struct Text {
    pub(crate) expected: &'static str,
    pub(crate) accepts: fn(&str) -> Option<&str>,
    /// Whether the error must not quote the text, because it may be a secret.
    pub(crate) is_secret: bool,
}

impl ValueParser for Text {
    type Value = String;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<String, String> {
        let text = raw.text().and_then(|text| (self.accepts)(text.trim()));
        text.map(str::to_owned).ok_or_else(|| {
            if self.is_secret {
                format!("expected {}", self.expected)
            } else {
                expected(self.expected, raw)
            }
        })
    }

    fn show(&self, value: &String) -> String {
        foreign::shown(value).into_owned()
    }
}

/// A program: a name in PATH, or a path.
pub(crate) const PROGRAM: Text = Text {
    expected: "the name or path of one program, without arguments",
    accepts: |text| {
        let is_one = text.contains('/') || !text.contains(char::is_whitespace);
        (is_one && !text.is_empty() && !text.contains('\0')).then_some(text)
    },
    is_secret: false,
};

/// A name in one line of text; other code looks it up.
pub(crate) const NAME: Text = Text {
    expected: "a name",
    accepts: |text| (!text.is_empty() && !text.contains(char::is_control)).then_some(text),
    is_secret: false,
};

/// A command line for a shell.
pub(crate) const COMMAND_LINE: Text = Text {
    expected: "a command line",
    accepts: |text| is_command_line(text).then_some(text),
    is_secret: false,
};

/// An optional value, with the word for its absence.
pub(crate) struct Optional<K>(pub(crate) K, pub(crate) &'static str);

impl<K: ValueParser> ValueParser for Optional<K> {
    type Value = Option<K::Value>;

    fn read(&self, raw: &Raw, home: Option<&Path>) -> Result<Self::Value, String> {
        if raw.text().is_some_and(|text| text.trim() == self.1) {
            return Ok(None);
        }
        self.0.read(raw, home).map(Some)
    }

    fn show(&self, value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| self.1.to_owned(), |value| self.0.show(value))
    }
}

/// A file, by an absolute path or one that begins with `~/`.
pub(crate) struct File;

impl ValueParser for File {
    type Value = Option<PathBuf>;

    fn read(&self, raw: &Raw, home: Option<&Path>) -> Result<Option<PathBuf>, String> {
        let path = match raw {
            Raw::Text(text) => match (text.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(text),
            },
            Raw::NotUtf8(path) => PathBuf::from(path),
            _ => PathBuf::new(),
        };
        let path = Some(path).filter(|path| path.is_absolute());
        let what = "an absolute path, or one that begins with `~/`";
        path.map(Some).ok_or_else(|| expected(what, raw))
    }

    fn show(&self, value: &Option<PathBuf>) -> String {
        value.as_ref().map_or_else(|| "none".to_owned(), |path| path.shown().to_string())
    }
}

/// A list of absolute paths, or such that begin with `~/`, kept as they are written.
pub(crate) struct Paths;

impl ValueParser for Paths {
    type Value = Vec<PathBuf>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Vec<PathBuf>, String> {
        // In a variable, paths that may contain anything else are separated by commas too.
        let items = items(raw);
        let none = |item: &Raw| item.text().is_some_and(|text| text.trim() == "none");
        let items = items.iter().filter(|item| !none(item));
        items
            .map(|item| {
                if item.is_unset() {
                    return Err("an item of the list is empty: in YAML, ~ alone is nothing, and \
                                \"~/\" is the home directory"
                        .to_owned());
                }
                let path = item.text().map(str::trim).filter(|path| {
                    (path.starts_with('/') || path.starts_with("~/")) && !path.contains('\0')
                });
                let what = "a list of absolute paths, or such that begin with `~/`";
                path.map(PathBuf::from).ok_or_else(|| expected(what, item))
            })
            .collect()
    }

    fn show(&self, value: &Vec<PathBuf>) -> String {
        listed(&value.iter().map(|path| path.shown().to_string()).collect::<Vec<_>>())
    }
}

/// The items of a list, which may also be text with commas, as in a variable.
fn items(raw: &Raw) -> Cow<'_, [Raw]> {
    match raw {
        Raw::List(items) => Cow::Borrowed(items),
        Raw::Text(text) if text.contains(',') => {
            text.split(',').map(|item| Raw::Text(item.trim().to_owned())).collect()
        }
        one => Cow::Borrowed(std::slice::from_ref(one)),
    }
}

/// A list of names, or a single name.
pub(crate) struct Names;

impl ValueParser for Names {
    type Value = Vec<String>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Vec<String>, String> {
        let items = items(raw);
        let names = items.iter().filter(|item| !item.is_unset()).map(|item| {
            let name = item.text().map(str::trim).filter(|name| !name.is_empty());
            name.map(str::to_owned).ok_or_else(|| expected("a list of names", item))
        });
        names.collect()
    }

    fn show(&self, value: &Vec<String>) -> String {
        listed(&value.iter().map(|name| foreign::shown(name)).collect::<Vec<_>>())
    }
}

/// A list of command lines, or a single one.
pub(crate) struct CommandLines;

impl ValueParser for CommandLines {
    type Value = Vec<String>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Vec<String>, String> {
        let items = match raw {
            Raw::List(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let lines = items.iter().filter(|item| !item.is_unset()).map(|item| {
            let line = item.text().map(str::trim).filter(|line| is_command_line(line));
            line.map(str::to_owned).ok_or_else(|| expected("a list of command lines", item))
        });
        lines.collect()
    }

    fn show(&self, value: &Vec<String>) -> String {
        listed(&value.iter().map(|line| foreign::shown(line)).collect::<Vec<_>>())
    }
}

/// Whether a shell can be given this text.
pub(crate) fn is_command_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\0')
}

/// A list of some of a few words.
pub(crate) struct Choices<T>(pub(crate) Choice<T>);

impl<T: ValueEnum> ValueParser for Choices<T> {
    type Value = Vec<T>;

    fn read(&self, raw: &Raw, directory: Option<&Path>) -> Result<Vec<T>, String> {
        let items = items(raw);
        let items = items.iter().filter(|item| !item.is_unset());
        items.map(|item| self.0.read(item, directory)).collect()
    }

    fn show(&self, value: &Vec<T>) -> String {
        listed(&value.iter().map(|one| self.0.show(one)).collect::<Vec<_>>())
    }
}

/// The address of an OpenAI-compatible endpoint: `http` or `https`, without a user, a query or a
/// fragment. A user may write the key here or in place of its variable, so the errors of both do
/// not quote the text.
pub(crate) const BASE_URL: Optional<Text> = Optional(
    Text {
        expected: "an address such as http://127.0.0.1:11434/v1, \
                   without a user, a query or a fragment",
        accepts: |text| {
            let text = text.trim_end_matches('/');
            let (scheme, rest) = text.split_once("://")?;
            let host = rest.split('/').next().filter(|host| !host.is_empty());
            let is_odd = |c: char| c.is_whitespace() || c.is_control() || "@?#".contains(c);
            let is_url = matches!(scheme, "http" | "https") && !rest.contains(is_odd);
            host.filter(|_| is_url).map(|_| text)
        },
        is_secret: true,
    },
    "none",
);

/// The name of the variable that contains the key of an endpoint.
pub(crate) const VARIABLE_NAME: Text = Text {
    expected: "the name of a variable, not the key itself",
    accepts: |name| {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_part = |c: char| is_first(c) || c.is_ascii_digit();
        (name.starts_with(is_first) && name.chars().all(is_part)).then_some(name)
    },
    is_secret: true,
};

/// An address with its port, or `off`.
pub(crate) struct Address;

impl ValueParser for Address {
    type Value = Option<SocketAddr>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Option<SocketAddr>, String> {
        let text = raw.text().unwrap_or_default().trim();
        if *raw == Raw::Bool(false) || text.eq_ignore_ascii_case("off") {
            return Ok(None);
        }
        let what = "an address with its port such as 127.0.0.1:0, or off";
        text.parse().map(Some).map_err(|_| expected(what, raw))
    }

    fn show(&self, value: &Option<SocketAddr>) -> String {
        value.map_or_else(|| "off".to_owned(), |address| address.to_string())
    }
}

/// A list of names for people to read.
pub(super) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Raw {
        Raw::Text(value.to_owned())
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let size = Size(0..=1 << 42);
        for (written, bytes) in [
            ("256 MiB", 256 << 20),
            ("2GiB", 2 << 30),
            ("500 MB", 500_000_000),
            ("1.5 KiB", 1536),
            ("10b", 10),
            ("4096", 4096),
            (" 1 tib ", 1 << 40),
        ] {
            assert_eq!(size.read(&text(written), None), Ok(bytes), "{written}");
        }
        assert_eq!(size.read(&Raw::Integer(77), None), Ok(77));
        for wrong in ["", "MiB", "5 parsecs", "-1", "1e30 GiB", "nan", "99 TiB", "1 2 MiB"] {
            let problem = size.read(&text(wrong), None).unwrap_err();
            assert!(problem.contains("from 0 B to 4 TiB"), "{problem}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        let size = Size(0..=u64::MAX);
        for (bytes, shown) in
            [(0, "0 B"), (1000, "1000 B"), (2 << 30, "2 GiB"), (1536 << 10, "1536 KiB")]
        {
            assert_eq!(size.show(&bytes), shown);
        }
    }

    #[test]
    fn times_take_fractions_and_keep_their_limits() {
        let time = Time::seconds(Duration::ZERO..=Duration::from_secs(50));
        let half = Ok(Duration::from_millis(2500));
        assert_eq!(time.read(&Raw::Float(2.5), None), half);
        assert_eq!(time.read(&text("2.5"), None), half);
        for wrong in ["-1", "inf", "nan", "51", "soon"] {
            let problem = time.read(&text(wrong), None).unwrap_err();
            assert!(problem.contains("from 0 s to 50 s"), "{problem}");
        }
    }

    #[test]
    fn flags_take_the_usual_words() {
        assert_eq!(Flag.read(&text("On"), None), Ok(true));
        assert_eq!(Flag.read(&text("0"), None), Ok(false));
        assert_eq!(Flag.read(&Raw::Bool(true), None), Ok(true));
        assert!(Flag.read(&text("maybe"), None).is_err());
    }

    #[test]
    fn paths_are_absolute_or_under_home() {
        let home = Path::new("/home/me");
        let read = |path: &str| File.read(&text(path), Some(home));
        assert_eq!(read("/a b"), Ok(Some("/a b".into())));
        assert_eq!(read("~/.env"), Ok(Some("/home/me/.env".into())));
        assert!(read(".env").is_err());
        assert!(File.read(&text("~/.env"), None).is_err());
    }

    #[test]
    fn a_program_has_no_arguments() {
        assert_eq!(PROGRAM.read(&text("zsh"), None), Ok("zsh".to_owned()));
        assert!(PROGRAM.read(&text("/opt/my shells/zsh"), None).is_ok());
        assert!(PROGRAM.read(&text("zsh -f"), None).is_err());
        assert!(PROGRAM.read(&text(" "), None).is_err());
    }

    #[test]
    fn lists_of_names_may_be_empty_or_a_single_name() {
        assert_eq!(Names.read(&Raw::List(Vec::new()), None), Ok(Vec::new()));
        assert_eq!(Names.read(&text("adb"), None), Ok(vec!["adb".to_owned()]));
        assert!(Names.read(&Raw::List(vec![Raw::Integer(1)]), None).is_err());
    }

    #[test]
    fn values_are_shown_on_one_line() {
        let value = "/x\n✔ exit=0\u{202e}".to_owned();
        let shown = r#""/x\n✔ exit=0<U+202E>""#;
        assert_eq!(PROGRAM.show(&value), shown);
        assert_eq!(Names.show(&vec!["tmux".to_owned(), value.clone()]), format!("tmux, {shown}"));
        assert_eq!(text("a\u{3164}b").describe(), r#""a<U+3164>b""#);
    }

    #[test]
    fn long_values_are_cut_in_warnings() {
        let problem = Flag.read(&text(&"é".repeat(500)), None).unwrap_err();
        assert!(problem.chars().count() < 100, "{problem}");
    }

    #[test]
    fn an_address_has_a_port_and_off_is_none() {
        let read = |text: &str| Address.read(&Raw::Text(text.to_owned()), None);
        assert_eq!(read("127.0.0.1:0"), Ok(Some(([127, 0, 0, 1], 0).into())));
        assert!(matches!(read(" [::1]:8080 "), Ok(Some(address)) if address.port() == 8080));
        assert_eq!(read("Off"), Ok(None));
        assert_eq!(Address.read(&Raw::Bool(false), None), Ok(None));
        for wrong in ["127.0.0.1", "8080", "localhost:80", "127.0.0.1:65536", "", "on"] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.contains("127.0.0.1:0, or off"), "{problem}");
        }
        assert!(Address.read(&Raw::Bool(true), None).is_err());
        assert!(Address.read(&Raw::Integer(8080), None).is_err());
    }

    #[test]
    fn an_address_is_http_and_contains_no_secret() {
        let read = |value: &str| BASE_URL.read(&text(value), None);
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
    fn a_key_in_place_of_its_variable_is_not_quoted() {
        assert_eq!(
            VARIABLE_NAME.read(&text("OPENAI_API_KEY"), None),
            Ok("OPENAI_API_KEY".to_owned())
        );
        let problem = VARIABLE_NAME.read(&text("sk-live-1234"), None).unwrap_err();
        assert!(!problem.contains("1234"), "{problem}");
    }
}
