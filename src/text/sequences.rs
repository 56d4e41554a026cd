//! Terminal sequences that the screen's emulation (vt100) lacks: queries to the terminal, with
//! their replies, and features of xterm.
//!
//! A [`SequenceScanner`] reads the bytes ahead of the emulation and stops after each such sequence.
//! Its memory is bounded, whatever a program writes.
//!
//! Some programs wait forever for the reply to a query. Queries that programs wait for are
//! answered; others are not, as by a terminal without the feature. Programs expect that: they query
//! the device attributes directly after such a query, and read that reply alone as a "no". No reply
//! repeats text that a program has set, since it would arrive as typed text. Pure.

use vte::{Params, Perform};

use super::line_drawing::CharacterSets;

/// The default foreground and cursor colour, in X11's notation.
const FOREGROUND: &str = "rgb:e5e5/e5e5/e5e5";
const BACKGROUND: &str = "rgb:0000/0000/0000";
/// The OSC numbers of the foreground, the background and the cursor.
const FOREGROUND_NUMBER: u8 = 10;
const BACKGROUND_NUMBER: u8 = 11;
const CURSOR_COLOUR_NUMBER: u8 = 12;

/// The effect of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceEffect {
    Query(Query),
    /// CBT: moves back by tab stops.
    BackTab(u16),
    /// REP. The emulation would carry it out without a limit.
    Repeat(u16),
    /// DECSTR: the modes of a fresh terminal.
    SoftReset,
    /// Private mode 1047, set or reset.
    Alternate(bool),
    /// The following text may be drawn differently.
    Switched,
    /// An equivalent sequence that the emulation supports.
    Replacement(&'static str),
}

/// Reads what a program writes to its terminal.
#[derive(Debug, Default)]
pub(crate) struct SequenceScanner {
    /// The effects of the last sequence, in order.
    pub(crate) found: Vec<SequenceEffect>,
    /// The text of the last step, while text is drawn differently.
    pub(crate) text: String,
    character_sets: CharacterSets,
    /// Whether the cursor stays in the last column instead of wrapping.
    pub(crate) no_wrap: bool,
}

impl SequenceScanner {
    /// Resets everything that sequences have switched.
    pub(crate) fn reset(&mut self) {
        self.character_sets = CharacterSets::default();
        self.no_wrap = false;
    }

    /// Whether text must be drawn differently than the emulation would. Only escape sequences
    /// change this, never a character of text.
    pub(crate) fn draws_otherwise(&self) -> bool {
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
                1048 => SequenceEffect::Replacement(if on { "\x1b7" } else { "\x1b8" }),
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
            ([], b'D') => SequenceEffect::Replacement("\n"),
            ([], b'E') => SequenceEffect::Replacement("\r\n"),
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
        // Some replies of terminals differ from queries only by their numbers. An echoed reply must
        // not be answered again.
        let bare = params.len() <= 1 && first == 0;
        self.found.push(match (intermediates, action) {
            ([], 'n') if first == 5 => SequenceEffect::Query(Query::Status),
            ([], 'n') if first == 6 => SequenceEffect::Query(Query::CursorPosition),
            ([], 'c') if bare => SequenceEffect::Query(Query::PrimaryAttributes),
            ([b'>'], 'c') if bare => SequenceEffect::Query(Query::SecondaryAttributes),
            ([], 't') if first == 18 => SequenceEffect::Query(Query::Size),
            ([], 'Z') => SequenceEffect::BackTab(first.max(1)),
            ([], 'b') => SequenceEffect::Repeat(first.max(1)),
            ([], 's') if bare => SequenceEffect::Replacement("\x1b7"),
            ([], 'u') if bare => SequenceEffect::Replacement("\x1b8"),
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
        // Each further value belongs to the next number.
        for (number, value) in (first..=CURSOR_COLOUR_NUMBER).zip(values) {
            if *value == b"?" {
                self.found.push(SequenceEffect::Query(Query::Colour { number, bell }));
            }
        }
    }
}

/// A query of a program to its terminal.
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
    /// OSC 10, 11, 12. The reply to a query that ends with BEL also ends with BEL.
    Colour { number: u8, bell: bool },
    /// XTWINOPS 18.
    Size,
}

/// The reply to a query.
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

/// A parameter, or the default if it is missing or 0.
pub(crate) fn parameter(params: &Params, index: usize, default: u16) -> u16 {
    params
        .iter()
        .nth(index)
        .and_then(|group| group.first().copied())
        .filter(|value| *value > 0)
        .unwrap_or(default)
}
