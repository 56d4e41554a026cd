//! The terminal sequences that the screen's emulation (vt100) does not carry out:
//! questions to the terminal, with their answers, and features that xterm has besides.
//!
//! A [`SequenceScanner`] reads the bytes ahead of the emulation and stops after each such sequence.
//! What it holds is bounded, whatever a program writes.
//!
//! A program that asks waits for the answer, some of them forever. Answered are the
//! questions that programs wait on; the rest is left unanswered, as by a terminal that
//! lacks the feature. Programs expect that: they ask for the device attributes right
//! after such a question, and take that answer alone as a "no". No answer repeats text
//! that a program has set: it would arrive as if it had been typed. Pure.

use vte::{Params, Perform};

use super::line_drawing::CharacterSets;

/// The standard foreground, which is the cursor's colour too, as X11 writes colours.
const FOREGROUND: &str = "rgb:e5e5/e5e5/e5e5";
const BACKGROUND: &str = "rgb:0000/0000/0000";
/// The OSC numbers of the foreground, the background and the cursor.
const FOREGROUND_NUMBER: u8 = 10;
const BACKGROUND_NUMBER: u8 = 11;
const CURSOR_COLOUR_NUMBER: u8 = 12;

/// What a sequence asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceEffect {
    Query(Query),
    /// CBT: back by tab stops.
    BackTab(u16),
    /// REP. The emulation would carry it out, no matter how long that takes.
    Repeat(u16),
    /// DECSTR: the modes of a fresh terminal.
    SoftReset,
    /// Private mode 1047, set or reset.
    Alternate(bool),
    /// From here on text may be drawn differently.
    Switched,
    /// A sequence that the emulation knows and that does the same.
    Same(&'static str),
}

/// Reads what a program writes to its terminal.
#[derive(Debug, Default)]
pub(crate) struct SequenceScanner {
    /// What the last sequence asks for, in order.
    pub found: Vec<SequenceEffect>,
    /// The text of the last step, while text is drawn differently.
    pub text: String,
    character_sets: CharacterSets,
    /// Whether the cursor stays in the last column instead of wrapping.
    pub no_wrap: bool,
}

impl SequenceScanner {
    /// Undoes all that sequences have switched.
    pub fn reset(&mut self) {
        self.character_sets = CharacterSets::default();
        self.no_wrap = false;
    }

    /// Whether text is drawn differently from how the emulation would draw it. Only escape
    /// sequences change this, never a character of text.
    pub fn draws_otherwise(&self) -> bool {
        self.no_wrap || self.character_sets.any_is_drawing()
    }

    fn switch_private_modes(&mut self, params: &Params, on: bool) {
        for number in params.iter().filter_map(|param| param.first()) {
            self.found.push(match number {
                7 => {
                    self.no_wrap = !on;
                    SequenceEffect::Switched
                }
                1047 => SequenceEffect::Alternate(on),
                1048 => SequenceEffect::Same(if on { "\x1b7" } else { "\x1b8" }),
                _ => continue,
            });
        }
    }
}

impl Perform for SequenceScanner {
    fn terminated(&self) -> bool {
        !self.found.is_empty()
    }

    fn print(&mut self, character: char) {
        if self.draws_otherwise() {
            self.text.push(self.character_sets.shown(character));
        }
    }

    fn execute(&mut self, byte: u8) {
        self.character_sets.shift(byte);
        if self.draws_otherwise() {
            self.text.push(char::from(byte));
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        self.found.push(match (intermediates, byte) {
            ([], b'D') => SequenceEffect::Same("\n"),
            ([], b'E') => SequenceEffect::Same("\r\n"),
            // DECID, the older form of DA1.
            ([], b'Z') => SequenceEffect::Query(Query::PrimaryAttributes),
            ([], b'c') => return self.reset(),
            _ if self.character_sets.designate(intermediates, byte) => SequenceEffect::Switched,
            _ => return,
        });
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let first = parameter(params, 0, 0);
        // Some answers of terminals differ from questions by their numbers alone. One that
        // comes back as an echo must not be answered again.
        let bare = params.len() <= 1 && first == 0;
        self.found.push(match (intermediates, action) {
            ([], 'n') if first == 5 => SequenceEffect::Query(Query::Status),
            ([], 'n') if first == 6 => SequenceEffect::Query(Query::CursorPosition),
            ([], 'c') if bare => SequenceEffect::Query(Query::PrimaryAttributes),
            ([b'>'], 'c') if bare => SequenceEffect::Query(Query::SecondaryAttributes),
            ([], 't') if first == 18 => SequenceEffect::Query(Query::Size),
            ([], 'Z') => SequenceEffect::BackTab(first.max(1)),
            ([], 'b') => SequenceEffect::Repeat(first.max(1)),
            ([], 's') if bare => SequenceEffect::Same("\x1b7"),
            ([], 'u') if bare => SequenceEffect::Same("\x1b8"),
            ([b'!'], 'p') => SequenceEffect::SoftReset,
            ([b'?'], 'h' | 'l') => return self.switch_private_modes(params, action == 'h'),
            _ => return,
        });
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], bell: bool) {
        let (first, values) = match params {
            [b"10", values @ ..] => (FOREGROUND_NUMBER, values),
            [b"11", values @ ..] => (BACKGROUND_NUMBER, values),
            [b"12", values @ ..] => (CURSOR_COLOUR_NUMBER, values),
            _ => return,
        };
        // Each further value is for the next number.
        for (number, value) in (first..=CURSOR_COLOUR_NUMBER).zip(values) {
            if *value == b"?" {
                self.found.push(SequenceEffect::Query(Query::Colour { number, bell }));
            }
        }
    }
}

/// A question that a program asks its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    /// DSR 5.
    Status,
    /// CPR.
    CursorPosition,
    /// DA1: the kind of terminal.
    PrimaryAttributes,
    /// DA2: its version.
    SecondaryAttributes,
    /// OSC 10, 11, 12. A question that ends with BEL gets an answer that does.
    Colour { number: u8, bell: bool },
    /// XTWINOPS 18.
    Size,
}

/// What the program is to read.
pub(crate) fn answer(query: Query, screen: &vt100::Screen) -> String {
    let (rows, cols) = screen.size();
    match query {
        Query::Status => "\x1b[0n".to_owned(),
        Query::CursorPosition => {
            let (row, col) = screen.cursor_position();
            // After printing in the last column the cursor stays in it until it wraps.
            format!("\x1b[{};{}R", row + 1, (col + 1).min(cols.get()))
        }
        // A VT220 with colours.
        Query::PrimaryAttributes => "\x1b[?62;22c".to_owned(),
        Query::SecondaryAttributes => "\x1b[>0;10;1c".to_owned(),
        Query::Colour { number, bell } => {
            let colour = if number == BACKGROUND_NUMBER { BACKGROUND } else { FOREGROUND };
            let end = if bell { "\x07" } else { "\x1b\\" };
            format!("\x1b]{number};{colour}{end}")
        }
        Query::Size => format!("\x1b[8;{rows};{cols}t"),
    }
}

/// A parameter; one that is missing or 0 has the default.
pub(crate) fn parameter(params: &Params, place: usize, default: u16) -> u16 {
    params
        .iter()
        .nth(place)
        .and_then(|group| group.first().copied())
        .filter(|value| *value > 0)
        .unwrap_or(default)
}
