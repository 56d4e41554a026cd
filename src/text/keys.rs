//! Parses names of keys, and gives the bytes that a terminal sends for them.
//!
//! The encoding is xterm's, which the terminfo entry `xterm-256color` describes, with its
//! modifier parameter (`CSI 1;5D` is Control and Left). A key for which a terminal has no
//! code is an error, never another key.
//!
//! Limits: no separate keypad, no function keys above F12, no newer keyboard protocols that
//! programs may request. Pure.

use super::lines::truncate;
use super::screen::Modes;

const ESCAPE: u8 = 0x1b;
/// The lowest similarity of a suggested name (0 to 1, Jaro-Winkler).
const MIN_SIMILARITY: f64 = 0.75;
/// How many characters of a wrong name an error repeats.
const SHOWN_CHARS: usize = 40;
/// The marks around pasted text, for programs that distinguish it from typing (mode 2004).
const PASTE_START: &str = "\x1b[200~";
const PASTE_END: &str = "\x1b[201~";
/// The end mark with a one-character CSI.
const PASTE_END_C1: &str = "\u{9b}201~";

/// The names of keys, for errors and documentation.
pub(crate) const KNOWN: &str = "Enter, Tab, Escape, Space, Backspace, Insert, Delete, Up, Down, Left, Right, Home, End, \
    PageUp, PageDown, F1 to F12 and single characters, each with C-, M- or S- before it (C-c, M-x, S-Tab, C-Left)";

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    modifiers: Modifiers,
    code: Code,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Modifiers {
    shift: bool,
    meta: bool,
    control: bool,
}

/// The kind of code that a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    /// The character itself.
    Character(char),
    Enter,
    Tab,
    Escape,
    Space,
    Backspace,
    /// `CSI A`, in application cursor mode `SS3 A`.
    Cursor(u8),
    /// F1 to F4: `SS3 P`.
    Function(u8),
    /// `CSI 5 ~`.
    Numbered(u8),
}

/// Named keys, in their usual spelling.
const NAMED: [(&str, Code); 27] = [
    ("Enter", Code::Enter),
    ("Tab", Code::Tab),
    ("Escape", Code::Escape),
    ("Space", Code::Space),
    ("Backspace", Code::Backspace),
    ("Insert", Code::Numbered(2)),
    ("Delete", Code::Numbered(3)),
    ("Up", Code::Cursor(b'A')),
    ("Down", Code::Cursor(b'B')),
    ("Right", Code::Cursor(b'C')),
    ("Left", Code::Cursor(b'D')),
    ("Home", Code::Cursor(b'H')),
    ("End", Code::Cursor(b'F')),
    ("PageUp", Code::Numbered(5)),
    ("PageDown", Code::Numbered(6)),
    ("F1", Code::Function(b'P')),
    ("F2", Code::Function(b'Q')),
    ("F3", Code::Function(b'R')),
    ("F4", Code::Function(b'S')),
    ("F5", Code::Numbered(15)),
    ("F6", Code::Numbered(17)),
    ("F7", Code::Numbered(18)),
    ("F8", Code::Numbered(19)),
    ("F9", Code::Numbered(20)),
    ("F10", Code::Numbered(21)),
    ("F11", Code::Numbered(23)),
    ("F12", Code::Numbered(24)),
];

/// Alternative spellings, used only for suggestions: each key has one name.
const ALIASES: [(&str, &str); 12] = [
    ("Return", "Enter"),
    ("CR", "Enter"),
    ("Esc", "Escape"),
    ("BS", "Backspace"),
    ("Del", "Delete"),
    ("Ins", "Insert"),
    ("PgUp", "PageUp"),
    ("PgDn", "PageDown"),
    ("ArrowUp", "Up"),
    ("ArrowDown", "Down"),
    ("ArrowLeft", "Left"),
    ("ArrowRight", "Right"),
];

/// Alternative spellings of modifiers in lower case, with their names.
const MODIFIER_ALIASES: [(&str, &str); 8] = [
    ("control", "C-"),
    ("ctrl", "C-"),
    ("c", "C-"),
    ("alt", "M-"),
    ("meta", "M-"),
    ("m", "M-"),
    ("shift", "S-"),
    ("s", "S-"),
];

/// Why a name is not a usable key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is unknown: the shortened name, and a suggestion.
    #[error("keys: {0:?} is not a key{hint}: known are {KNOWN}; text goes in input", hint = hint(.1.as_deref()))]
    Unknown(String, Option<String>),
    /// A terminal has no code for it: the name, and a similar key that has one.
    #[error("keys: {0} has no terminal code{hint}", hint = hint(.1.as_deref()))]
    NoCode(String, Option<String>),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(" (did you mean {nearest}?)"))
}

impl Key {
    /// Parses a name: `Enter`, `C-c`, `S-Tab`, `C-Left`, `x`. Names are case-insensitive; `C-`,
    /// `M-`, `S-` and single characters are case-sensitive.
    ///
    /// # Errors
    /// If it is not a key, or a terminal has no code for it.
    pub fn parse(name: &str) -> Result<Key, KeyError> {
        let key = read(name).ok_or_else(|| KeyError::Unknown(shown(name), nearest(name)))?;
        if !key.has_code() {
            return Err(KeyError::NoCode(shown(name), key.with_fewer_modifiers()));
        }
        Ok(key)
    }

    /// The bytes that a terminal in these modes sends.
    pub fn bytes(self, modes: Modes) -> Vec<u8> {
        self.encode(modes).unwrap_or_default()
    }

    fn has_code(self) -> bool {
        self.encode(Modes::default()).is_some()
    }

    fn encode(self, modes: Modes) -> Option<Vec<u8>> {
        let held = self.modifiers;
        match self.code {
            Code::Cursor(letter) if held.any() => Some(csi(1, held, letter)),
            Code::Cursor(letter) if modes.application_cursor => Some(vec![ESCAPE, b'O', letter]),
            Code::Cursor(letter) => Some(vec![ESCAPE, b'[', letter]),
            Code::Function(letter) if held.any() => Some(csi(1, held, letter)),
            Code::Function(letter) => Some(vec![ESCAPE, b'O', letter]),
            Code::Numbered(number) => Some(csi(number, held, b'~')),
            Code::Tab if held.shift && !held.control && !held.meta => {
                Some(vec![ESCAPE, b'[', b'Z'])
            }
            _ if held.shift => None,
            code => {
                let mut bytes = Vec::new();
                if held.meta {
                    bytes.push(ESCAPE);
                }
                if held.control {
                    bytes.push(code.with_control()?);
                } else {
                    let mut buffer = [0; 4];
                    bytes.extend_from_slice(code.character()?.encode_utf8(&mut buffer).as_bytes());
                }
                Some(bytes)
            }
        }
    }

    /// The name of the same key with fewer modifiers, so that it has a code.
    fn with_fewer_modifiers(self) -> Option<String> {
        let held = self.modifiers;
        let without_shift = Modifiers { shift: false, ..held };
        if let (true, Code::Character(character)) = (held.shift && !held.control, self.code) {
            let shifted = Key {
                modifiers: without_shift,
                code: Code::Character(character.to_ascii_uppercase()),
            };
            return Some(shifted.name());
        }
        let without_control = Modifiers { control: false, ..without_shift };
        [without_shift, without_control]
            .into_iter()
            .map(|modifiers| Key { modifiers, ..self })
            .find(|key| *key != self && key.has_code())
            .map(Key::name)
    }

    fn name(self) -> String {
        let Modifiers { shift, meta, control } = self.modifiers;
        let held = [(control, "C-"), (meta, "M-"), (shift, "S-")].into_iter();
        let mut name: String = held.filter(|(held, _)| *held).map(|(_, prefix)| prefix).collect();
        match self.code {
            Code::Character(character) => name.push(character),
            code => {
                name.extend(NAMED.iter().find(|(_, named)| *named == code).map(|(name, _)| *name))
            }
        }
        name
    }
}

impl Modifiers {
    fn any(self) -> bool {
        self.shift || self.meta || self.control
    }

    /// xterm's parameter.
    fn parameter(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.meta) + 4 * u8::from(self.control)
    }
}

impl Code {
    /// The character that the key sends without modifiers, if it is one character.
    fn character(self) -> Option<char> {
        match self {
            Code::Character(character) => Some(character),
            Code::Enter => Some('\r'),
            Code::Tab => Some('\t'),
            Code::Escape => Some('\x1b'),
            Code::Space => Some(' '),
            Code::Backspace => Some('\x7f'),
            Code::Cursor(_) | Code::Function(_) | Code::Numbered(_) => None,
        }
    }

    /// The byte that the key sends with Control.
    fn with_control(self) -> Option<u8> {
        match self {
            Code::Backspace => Some(0x08),
            Code::Space => Some(0),
            Code::Character('?') => Some(0x7f),
            Code::Character('/') => Some(0x1f),
            Code::Character(' ') => Some(0),
            Code::Character(character @ ('@'..='_' | 'a'..='z')) => {
                u8::try_from(character).ok().map(|byte| byte & 0x1f)
            }
            _ => None,
        }
    }
}

/// `CSI 5~`, `CSI 5;2~`, `CSI 1;5D`.
fn csi(number: u8, held: Modifiers, last: u8) -> Vec<u8> {
    let mut sequence = vec![ESCAPE, b'['];
    sequence.extend_from_slice(number.to_string().as_bytes());
    if held.any() {
        sequence.push(b';');
        sequence.extend_from_slice(held.parameter().to_string().as_bytes());
    }
    sequence.push(last);
    sequence
}

fn read(name: &str) -> Option<Key> {
    let mut modifiers = Modifiers::default();
    let mut rest = name;
    while let Some((prefix, after)) = rest.split_once('-')
        && !after.is_empty()
    {
        let held = match prefix {
            "C" => &mut modifiers.control,
            "M" => &mut modifiers.meta,
            "S" => &mut modifiers.shift,
            _ => break,
        };
        if std::mem::replace(held, true) {
            return None;
        }
        rest = after;
    }
    let mut characters = rest.chars();
    let code = match (characters.next(), characters.next()) {
        (Some(only), None) => Code::Character(only),
        _ => NAMED
            .iter()
            .find(|(named, _)| named.eq_ignore_ascii_case(rest))
            .map(|(_, code)| *code)?,
    };
    Some(Key { modifiers, code })
}

/// A suggestion for a wrong name.
fn nearest(name: &str) -> Option<String> {
    let mut rest = name;
    let mut held = String::new();
    while let Some((prefix, after)) = split_held(rest) {
        held.push_str(prefix);
        rest = after;
    }
    let mut characters = rest.chars();
    let key = match (characters.next(), characters.next()) {
        (Some(only), None) if held.contains('C') => only.to_ascii_lowercase().to_string(),
        (Some(only), None) => only.to_string(),
        _ => nearest_name(rest)?.to_owned(),
    };
    let suggestion = format!("{held}{key}");
    let known = read(&suggestion).is_some_and(Key::has_code);
    known.then_some(suggestion)
}

/// Splits a modifier in any spelling off a name: `Ctrl+`, `alt-`, `^`.
fn split_held(name: &str) -> Option<(&'static str, &str)> {
    let (prefix, rest) = match name.strip_prefix('^') {
        Some(rest) => ("C-", rest),
        None => {
            let (held, rest) = name.split_once(['-', '+'])?;
            let spelled = |(spelled, _): &&(&str, &str)| held.eq_ignore_ascii_case(spelled);
            (MODIFIER_ALIASES.iter().find(spelled)?.1, rest)
        }
    };
    (!rest.is_empty()).then_some((prefix, rest))
}

fn nearest_name(name: &str) -> Option<&'static str> {
    let name = shown(name).to_lowercase();
    if name.is_empty() {
        return None;
    }
    NAMED
        .into_iter()
        .map(|(known, _)| (known, known))
        .chain(ALIASES)
        .map(|(spelled, known)| (strsim::jaro_winkler(&spelled.to_lowercase(), &name), known))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

fn shown(name: &str) -> String {
    truncate(name, SHOWN_CHARS).into_owned()
}

/// The bytes that a terminal sends for typed or pasted text: lines end with CR. Text of several
/// lines is marked as pasted if the program has enabled that.
pub(crate) fn typed(text: &str, modes: Modes) -> Vec<u8> {
    let lines = text.replace("\r\n", "\r").replace('\n', "\r");
    if !modes.bracketed_paste || text.lines().nth(1).is_none() {
        return lines.into_bytes();
    }
    format!("{PASTE_START}{}{PASTE_END}", without_paste_end(&lines)).into_bytes()
}

/// Removes end marks from text, so that it cannot end its own paste, including marks that form by
/// the removal.
fn without_paste_end(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for character in text.chars() {
        kept.push(character);
        if character == '~' {
            for end in [PASTE_END, PASTE_END_C1] {
                if kept.ends_with(end) {
                    kept.truncate(kept.len() - end.len());
                }
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASTED: Modes = Modes { bracketed_paste: true, ..PLAIN };
    const PLAIN: Modes = Modes { application_cursor: false, bracketed_paste: false };

    fn bytes(name: &str) -> String {
        match Key::parse(name) {
            Ok(key) => String::from_utf8_lossy(&key.bytes(PLAIN)).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn keys_and_chords_have_the_codes_of_xterm() {
        for (name, wanted) in [
            ("Enter", "\r"),
            ("enter", "\r"),
            ("ESCAPE", "\x1b"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[Z"),
            ("Space", " "),
            ("C-Space", "\0"),
            ("Backspace", "\x7f"),
            ("C-Backspace", "\x08"),
            ("M-Backspace", "\x1b\x7f"),
            ("M-Enter", "\x1b\r"),
            ("M-Escape", "\x1b\x1b"),
            ("Up", "\x1b[A"),
            ("Home", "\x1b[H"),
            ("C-Left", "\x1b[1;5D"),
            ("S-Up", "\x1b[1;2A"),
            ("M-Right", "\x1b[1;3C"),
            ("C-M-S-End", "\x1b[1;8F"),
            ("S-M-C-End", "\x1b[1;8F"),
            ("Delete", "\x1b[3~"),
            ("C-Delete", "\x1b[3;5~"),
            ("PageDown", "\x1b[6~"),
            ("F1", "\x1bOP"),
            ("S-F1", "\x1b[1;2P"),
            ("F5", "\x1b[15~"),
            ("S-F5", "\x1b[15;2~"),
            ("f12", "\x1b[24~"),
            ("x", "x"),
            ("X", "X"),
            ("-", "-"),
            ("é", "é"),
            ("\u{3}", "\u{3}"),
            ("C-c", "\x03"),
            ("C-C", "\x03"),
            ("C-[", "\x1b"),
            ("C-\\", "\x1c"),
            ("C-]", "\x1d"),
            ("C-^", "\x1e"),
            ("C-_", "\x1f"),
            ("C-?", "\x7f"),
            ("C-@", "\0"),
            ("M-x", "\x1bx"),
            ("M-X", "\x1bX"),
            ("M--", "\x1b-"),
            ("M-é", "\x1bé"),
            ("C-M-x", "\x1b\x18"),
            ("M-C-x", "\x1b\x18"),
        ] {
            assert_eq!(bytes(name), wanted, "{name}");
        }
    }

    #[test]
    fn unmodified_cursor_keys_follow_application_cursor_mode() {
        let application = Modes { application_cursor: true, ..PLAIN };
        for (name, wanted) in
            [("Up", "\x1bOA"), ("End", "\x1bOF"), ("C-Up", "\x1b[1;5A"), ("PageUp", "\x1b[5~")]
        {
            let sent = Key::parse(name).map(|key| key.bytes(application));
            assert_eq!(sent.as_deref(), Ok(wanted.as_bytes()), "{name}");
        }
    }

    #[test]
    fn an_unknown_key_gets_a_suggestion() {
        for (name, suggestion) in [
            ("Entre", "Enter"),
            ("Return", "Enter"),
            ("Esc", "Escape"),
            ("PgDn", "PageDown"),
            ("Ctrl-C", "C-c"),
            ("Ctrl+C", "C-c"),
            ("^C", "C-c"),
            ("c-c", "C-c"),
            ("Alt+x", "M-x"),
            ("shift+tab", "S-Tab"),
            ("ctrl-Lfet", "C-Left"),
            ("F13", "F1"),
        ] {
            let error = bytes(name);
            assert!(error.starts_with(&format!("keys: {name:?} is not a key")), "{error}");
            assert!(error.contains(&format!("did you mean {suggestion}?")), "{error}");
            assert!(error.contains("PageDown, F1 to F12"), "{error}");
        }
        for name in ["", "C-", "M-C-", "C-C-x", "ls -la", "日本"] {
            let error = bytes(name);
            assert!(error.contains("is not a key: known are"), "{error}");
            assert!(error.contains("text goes in input"), "{error}");
        }
    }

    #[test]
    fn keys_without_a_terminal_code_are_refused() {
        for (name, suggestion) in [
            ("C-Enter", "Enter"),
            ("S-Enter", "Enter"),
            ("C-Tab", "Tab"),
            ("S-Space", "Space"),
            ("C-S-x", "C-x"),
            ("S-a", "A"),
            ("M-S-a", "M-A"),
            ("C-1", "1"),
        ] {
            let wanted = format!("keys: {name} has no terminal code (did you mean {suggestion}?)");
            assert_eq!(bytes(name), wanted);
        }
    }

    #[test]
    fn the_listed_names_are_the_known_ones() {
        for (name, _) in NAMED {
            let function = name.strip_prefix('F').is_some_and(|rest| rest.parse::<u8>().is_ok());
            assert!(function || KNOWN.contains(name), "{name}");
        }
    }

    #[test]
    fn a_line_ends_with_the_code_of_enter() {
        for (text, sent) in [
            ("", ""),
            ("one", "one"),
            ("one\n", "one\r"),
            ("one\ntwo\r\nthree\rfour", "one\rtwo\rthree\rfour"),
        ] {
            assert_eq!(typed(text, PLAIN), sent.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn several_lines_are_pasted_if_the_program_enabled_it() {
        for (text, sent) in [
            ("one", "one"),
            ("one\n", "one\r"),
            ("one\ntwo", "\x1b[200~one\rtwo\x1b[201~"),
            ("\n\n", "\x1b[200~\r\r\x1b[201~"),
        ] {
            assert_eq!(typed(text, PASTED), sent.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn pasted_text_does_not_end_its_own_paste() {
        for text in [
            "a\n\x1b[201~rm\n",
            "a\n\x1b[20\x1b[201~1~rm\n",
            "a\n\u{9b}201~rm\n",
            "a\n\u{9b}2\x1b[201~01~rm\n",
        ] {
            let sent = String::from_utf8(typed(text, PASTED)).unwrap_or_default();
            assert_eq!(sent, "\x1b[200~a\rrm\r\x1b[201~", "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_an_error(
            name in "(C-|M-|S-|c-|Ctrl\\+|\\^){0,4}(\\PC{0,8}|[A-Za-z]{0,9}[0-9]{0,2})",
        ) {
            match Key::parse(&name) {
                Ok(key) => {
                    prop_assert!(!key.bytes(PLAIN).is_empty());
                    let again = Key::parse(&key.name());
                    prop_assert_eq!(again, Ok(key));
                }
                Err(error) => prop_assert!(error.to_string().starts_with("keys: ")),
            }
        }

        #[test]
        fn any_text_is_pasted_whole_and_in_one(text in "[a\\n\\r~\\[201\u{9b}\x1b]{0,40}") {
            let sent = String::from_utf8(typed(&text, PASTED)).unwrap_or_default();
            prop_assert!(!sent.contains('\n'));
            if sent.starts_with(PASTE_START) {
                let ends = sent.matches(PASTE_END).count() + sent.matches(PASTE_END_C1).count();
                prop_assert_eq!(ends, 1);
                prop_assert!(sent.ends_with(PASTE_END));
            }
        }
    }
}
