//! Values as they are written in the environment or in the file, and what reads them.
//!
//! A [`Kind`] says what a setting takes: it turns a [`Raw`] value into a typed one or
//! into a sentence on what is wrong, and shows a typed value as a person would write it.
//! Limits: knows no setting, no file and no environment.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Longer values are cut where a warning quotes them.
const QUOTED_CHARS: usize = 40;

/// Units that a size may be written in, and their bytes.
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

/// A value without a type yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Raw>),
    Map(Vec<Field>),
    /// Of the environment, and no UTF-8: good for paths only.
    NotUtf8(OsString),
}

/// One `key: value` of a mapping inside the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// Empty for a key that is no plain text.
    pub key: String,
    /// From 1.
    pub line: u64,
    pub value: Raw,
}

impl Raw {
    /// A value of the environment.
    pub(crate) fn of_env(value: OsString) -> Raw {
        value.into_string().map_or_else(Raw::NotUtf8, Raw::Text)
    }

    /// Nothing written, or a variable of a plugin's manifest that nobody expanded.
    pub(crate) fn is_unset(&self) -> bool {
        match self {
            Raw::Null => true,
            Raw::Text(text) => is_unexpanded(text),
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Raw::Null => "nothing".to_owned(),
            Raw::Bool(value) => value.to_string(),
            Raw::Integer(value) => value.to_string(),
            Raw::Float(value) => value.to_string(),
            Raw::Text(text) if text.chars().count() > QUOTED_CHARS => {
                let start: String = text.chars().take(QUOTED_CHARS).collect();
                format!("{:?}", start + "…")
            }
            Raw::Text(text) => format!("{text:?}"),
            Raw::List(_) => "a list".to_owned(),
            Raw::Map(_) => "a mapping".to_owned(),
            Raw::NotUtf8(_) => "a value that is not UTF-8".to_owned(),
        }
    }

    /// The number, also where it is written as text (as all of the environment is).
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

/// Whether a text holds a literal `${…}`.
pub(crate) fn is_unexpanded(text: &str) -> bool {
    text.split_once("${")
        .is_some_and(|(_, rest)| rest.contains('}'))
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
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Raw::List(list))
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

/// What a setting takes.
pub(crate) trait Kind {
    type Value;

    /// The typed value, or what is wrong with the written one. `home` is what `~` means.
    fn read(&self, raw: &Raw, home: Option<&Path>) -> Result<Self::Value, String>;

    /// The value as a person would write it.
    fn show(&self, value: &Self::Value) -> String;
}

pub(crate) fn expected<T>(what: impl Display, raw: &Raw) -> Result<T, String> {
    Err(format!("expected {what}, found {}", raw.describe()))
}

/// `true` or `false`, in the environment also 1, 0, yes, no, on, off.
pub(crate) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<bool, String> {
        let word = match raw {
            Raw::Bool(value) => return Ok(*value),
            Raw::Integer(value) => value.to_string(),
            Raw::Text(text) => text.trim().to_ascii_lowercase(),
            _ => return expected("true or false", raw),
        };
        match word.as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => expected("true or false", raw),
        }
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number within limits.
pub(crate) struct Count(pub RangeInclusive<usize>);

impl Kind for Count {
    type Value = usize;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<usize, String> {
        let (least, most) = (self.0.start(), self.0.end());
        raw.integer()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| self.0.contains(number))
            .map_or_else(
                || expected(format_args!("a whole number from {least} to {most}"), raw),
                Ok,
            )
    }

    fn show(&self, value: &usize) -> String {
        value.to_string()
    }
}

/// A number of bytes within limits: an integer, or a number with a unit.
pub(crate) struct Size(pub RangeInclusive<u64>);

impl Size {
    fn bytes(raw: &Raw) -> Option<u64> {
        let Raw::Text(text) = raw else {
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
        // The limits of every setting lie far below what a float holds exactly.
        (bytes.is_finite() && bytes >= 0.0).then_some(bytes as u64)
    }
}

impl Kind for Size {
    type Value = u64;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<u64, String> {
        Size::bytes(raw)
            .filter(|bytes| self.0.contains(bytes))
            .map_or_else(
                || {
                    let (least, most) = (self.show(self.0.start()), self.show(self.0.end()));
                    let what = format_args!(
                        "a size from {least} to {most}, in bytes or as in `256 MiB` \
                         (B, KB, MB, GB, KiB, MiB, GiB, TiB)"
                    );
                    expected(what, raw)
                },
                Ok,
            )
    }

    fn show(&self, value: &u64) -> String {
        [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)]
            .into_iter()
            .find(|(_, shift)| *value > 0 && value.trailing_zeros() >= *shift)
            .map_or_else(
                || format!("{value} B"),
                |(unit, shift)| format!("{} {unit}", value >> shift),
            )
    }
}

/// A time within limits, written as a number of its unit.
pub(crate) struct Time {
    pub unit: Duration,
    pub unit_name: &'static str,
    pub limits: RangeInclusive<Duration>,
}

impl Time {
    /// In seconds.
    pub(crate) const fn seconds(limits: RangeInclusive<Duration>) -> Time {
        Time {
            unit: Duration::from_secs(1),
            unit_name: "s",
            limits,
        }
    }

    /// In hours.
    pub(crate) const fn hours(limits: RangeInclusive<Duration>) -> Time {
        Time {
            unit: Duration::from_secs(3600),
            unit_name: "h",
            limits,
        }
    }
}

impl Kind for Time {
    type Value = Duration;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Duration, String> {
        raw.number()
            .and_then(|number| Duration::try_from_secs_f64(number * self.unit.as_secs_f64()).ok())
            .filter(|time| self.limits.contains(time))
            .map_or_else(
                || {
                    let (least, most) = (self.limits.start(), self.limits.end());
                    let what =
                        format_args!("a time from {} to {}", self.show(least), self.show(most));
                    expected(what, raw)
                },
                Ok,
            )
    }

    fn show(&self, value: &Duration) -> String {
        let number = value.as_secs_f64() / self.unit.as_secs_f64();
        format!("{number} {}", self.unit_name)
    }
}

/// One of a few words.
pub(crate) struct Choice<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Kind for Choice<T> {
    type Value = T;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<T, String> {
        let found = match raw {
            Raw::Text(text) => self
                .0
                .iter()
                .find(|(word, _)| word.eq_ignore_ascii_case(text.trim())),
            _ => None,
        };
        let words = self.0.iter().map(|(word, _)| *word).collect::<Vec<_>>();
        found.map_or_else(
            || expected(format_args!("one of {}", words.join(", ")), raw),
            |(_, value)| Ok(*value),
        )
    }

    fn show(&self, value: &T) -> String {
        self.0
            .iter()
            .find(|(_, known)| known == value)
            .map_or_else(String::new, |(word, _)| (*word).to_owned())
    }
}

/// A program: a name to be found in PATH, or a path.
pub(crate) struct Program;

impl Kind for Program {
    type Value = String;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<String, String> {
        match raw {
            Raw::Text(text)
                if !text.trim().is_empty()
                    && !text.contains('\0')
                    && (text.contains('/') || !text.trim().contains(char::is_whitespace)) =>
            {
                Ok(text.trim().to_owned())
            }
            _ => expected("the name or path of one program, without arguments", raw),
        }
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }
}

/// A file, by an absolute path or one that begins with `~/`.
pub(crate) struct File;

impl Kind for File {
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
        match path.is_absolute() {
            true => Ok(Some(path)),
            false => expected("an absolute path, or one that begins with `~/`", raw),
        }
    }

    fn show(&self, value: &Option<PathBuf>) -> String {
        value
            .as_ref()
            .map_or_else(|| "none".to_owned(), |path| path.display().to_string())
    }
}

/// A list of names; one alone may stand without the list.
pub(crate) struct Names;

impl Kind for Names {
    type Value = Vec<String>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Vec<String>, String> {
        let items = match raw {
            Raw::List(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let names = items
            .iter()
            .filter(|item| !item.is_unset())
            .map(|item| match item {
                Raw::Text(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
                other => expected("a list of names", other),
            });
        names.collect()
    }

    fn show(&self, value: &Vec<String>) -> String {
        match value.is_empty() {
            true => "none".to_owned(),
            false => value.join(", "),
        }
    }
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
        for wrong in [
            "",
            "MiB",
            "5 parsecs",
            "-1",
            "1e30 GiB",
            "nan",
            "99 TiB",
            "1 2 MiB",
        ] {
            let problem = size.read(&text(wrong), None).unwrap_err();
            assert!(problem.contains("from 0 B to 4 TiB"), "{problem}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        let size = Size(0..=u64::MAX);
        for (bytes, shown) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (2 << 30, "2 GiB"),
            (1536 << 10, "1536 KiB"),
        ] {
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
        assert_eq!(Program.read(&text("zsh"), None), Ok("zsh".to_owned()));
        assert!(Program.read(&text("/opt/my shells/zsh"), None).is_ok());
        assert!(Program.read(&text("zsh -f"), None).is_err());
        assert!(Program.read(&text(" "), None).is_err());
    }

    #[test]
    fn lists_of_names_may_be_empty_or_a_single_name() {
        assert_eq!(Names.read(&Raw::List(Vec::new()), None), Ok(Vec::new()));
        assert_eq!(Names.read(&text("adb"), None), Ok(vec!["adb".to_owned()]));
        assert!(Names.read(&Raw::List(vec![Raw::Integer(1)]), None).is_err());
    }

    #[test]
    fn long_values_are_cut_in_warnings() {
        let problem = Flag.read(&text(&"é".repeat(500)), None).unwrap_err();
        assert!(problem.chars().count() < 100, "{problem}");
    }
}
