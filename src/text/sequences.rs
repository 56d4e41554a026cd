//! The terminal sequences that the screen's emulation (vt100) does not carry out: what
//! programs ask their terminal, and what xterm does besides.
//!
//! A [`Scout`] reads the bytes ahead of the emulation and stops behind each of them. What
//! it holds back is bounded, whatever a program writes.

use vte::{Params, Perform};

use super::line_drawing;
use super::replies::{ColourOf, Query};

/// The longest request in a device control string that is looked at.
const MAX_REQUEST: usize = 128;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;

/// What a sequence asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An answer.
    Query(Query),
    /// The cursor to go so many tab stops back (CBT).
    BackTab(u16),
    /// The last character so many times more (REP): the emulation carries it out, but
    /// however long that takes.
    Repeat(u16),
    /// The modes of a fresh terminal (DECSTR).
    SoftReset,
    /// The alternate screen, or the normal one (private mode 1047).
    Alternate(bool),
    /// Text may be drawn otherwise from here on.
    Switched,
    /// What another sequence does, which the emulation knows.
    Same(&'static str),
}

/// Reads what a program writes to its terminal.
#[derive(Debug, Default)]
pub struct Scout {
    /// What the last sequence asks for, in order.
    pub found: Vec<Found>,
    /// The text of the last step where text is drawn otherwise.
    pub text: String,
    request: Option<Request>,
    character_sets: CharacterSets,
    no_wrap: bool,
}

#[derive(Debug, Default)]
struct CharacterSets {
    /// Whether G0 and G1 are line drawing.
    drawing: [bool; 2],
    /// Whether G1 is in use instead of G0.
    shifted: bool,
}

/// The beginning of a device control string.
#[derive(Debug)]
struct Request {
    kind: RequestKind,
    text: String,
}

#[derive(Debug, Clone, Copy)]
enum RequestKind {
    Capability,
    Setting,
}

impl Scout {
    /// Whether the cursor stays on the last column instead of wrapping.
    pub fn no_wrap(&self) -> bool {
        self.no_wrap
    }

    /// Puts what a sequence has switched back to the beginning.
    pub fn reset(&mut self) {
        self.character_sets = CharacterSets::default();
        self.no_wrap = false;
    }

    /// Whether text is drawn otherwise than the emulation would. Only escape sequences
    /// change it, never a character within a text.
    pub fn draws_otherwise(&self) -> bool {
        self.no_wrap || self.character_sets.drawing != [false, false]
    }

    fn as_drawn(&self, character: char) -> char {
        let sets = &self.character_sets;
        let [first, second] = sets.drawing;
        let is_drawing = if sets.shifted { second } else { first };
        match is_drawing {
            true => line_drawing::drawn(character),
            false => character,
        }
    }

    fn designate(&mut self, place: usize, set: u8) {
        if let Some(drawing) = self.character_sets.drawing.get_mut(place) {
            *drawing = set == line_drawing::SET;
            self.found.push(Found::Switched);
        }
    }

    fn ask(&mut self, query: Query) {
        self.found.push(Found::Query(query));
    }

    fn switch_private_modes(&mut self, params: &Params, on: bool) {
        for number in params.iter().filter_map(|param| param.first()) {
            match number {
                7 => {
                    self.no_wrap = !on;
                    self.found.push(Found::Switched);
                }
                1047 => self.found.push(Found::Alternate(on)),
                1048 if on => self.found.push(Found::Same("\x1b7")),
                1048 => self.found.push(Found::Same("\x1b8")),
                _ => {}
            }
        }
    }
}

impl Perform for Scout {
    fn terminated(&self) -> bool {
        !self.found.is_empty()
    }

    fn print(&mut self, character: char) {
        if self.draws_otherwise() {
            self.text.push(self.as_drawn(character));
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            SHIFT_OUT => self.character_sets.shifted = true,
            SHIFT_IN => self.character_sets.shifted = false,
            _ => {}
        }
        if self.draws_otherwise() {
            self.text.push(char::from(byte));
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            ([], b'D') => self.found.push(Found::Same("\n")),
            ([], b'E') => self.found.push(Found::Same("\r\n")),
            ([], b'Z') => self.ask(Query::Kind),
            ([], b'c') => self.reset(),
            ([b'('], set) => self.designate(0, set),
            ([b')'], set) => self.designate(1, set),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let first = params.iter().next().and_then(|param| param.first());
        let first = first.copied().unwrap_or(0);
        // Answers of terminals are like some questions but for their numbers: what comes
        // back by an echo must not be answered again.
        let bare = params.len() <= 1 && first == 0;
        match (intermediates, action) {
            ([], 'n') if first == 5 => self.ask(Query::Status),
            ([], 'n') if first == 6 => self.ask(Query::Cursor { private: false }),
            ([b'?'], 'n') if first == 6 => self.ask(Query::Cursor { private: true }),
            ([], 'c') if bare => self.ask(Query::Kind),
            ([b'>'], 'c') if bare => self.ask(Query::Firmware),
            ([b'='], 'c') if bare => self.ask(Query::Unit),
            ([b'>'], 'q') if bare => self.ask(Query::Name),
            ([b'$'], 'p') => self.ask(Query::Mode {
                number: first,
                private: false,
            }),
            ([b'?', b'$'], 'p') => self.ask(Query::Mode {
                number: first,
                private: true,
            }),
            ([], 't') => self.ask(Query::Window(first)),
            ([], 'Z') => self.found.push(Found::BackTab(first.max(1))),
            ([], 'b') => self.found.push(Found::Repeat(first.max(1))),
            ([], 's') if bare => self.found.push(Found::Same("\x1b7")),
            ([], 'u') if bare => self.found.push(Found::Same("\x1b8")),
            ([b'!'], 'p') => self.found.push(Found::SoftReset),
            ([b'?'], 'h') => self.switch_private_modes(params, true),
            ([b'?'], 'l') => self.switch_private_modes(params, false),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], bell: bool) {
        let Some((kind, rest)) = params.split_first() else {
            return;
        };
        match *kind {
            b"4" => {
                for pair in rest.chunks_exact(2) {
                    if let [index, b"?"] = pair
                        && let Some(index) = number(index)
                    {
                        let of = ColourOf::Palette(index);
                        self.ask(Query::Colour { of, bell });
                    }
                }
            }
            b"10" => self.ask_for_colours(&DYNAMIC_COLOURS, rest, bell),
            b"11" => self.ask_for_colours(&DYNAMIC_COLOURS[1..], rest, bell),
            b"12" => self.ask_for_colours(&DYNAMIC_COLOURS[2..], rest, bell),
            _ => {}
        }
    }

    fn hook(&mut self, _params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        let kind = match (intermediates, action) {
            ([b'+'], 'q') => RequestKind::Capability,
            ([b'$'], 'q') => RequestKind::Setting,
            _ => return,
        };
        self.request = Some(Request {
            kind,
            text: String::new(),
        });
    }

    fn put(&mut self, byte: u8) {
        if let Some(request) = &mut self.request
            && request.text.len() < MAX_REQUEST
        {
            request.text.push(char::from(byte));
        }
    }

    fn unhook(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        match request.kind {
            RequestKind::Setting => self.ask(Query::Setting),
            RequestKind::Capability => {
                for name in request.text.split(';') {
                    // Hex digits alone: whatever else came would come back as typed.
                    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        self.ask(Query::Capability(name.to_owned()));
                    }
                }
            }
        }
    }
}

/// The colours of OSC 10, 11 and 12, each of which may go on with the next.
const DYNAMIC_COLOURS: [ColourOf; 3] =
    [ColourOf::Foreground, ColourOf::Background, ColourOf::Cursor];

impl Scout {
    fn ask_for_colours(&mut self, colours: &[ColourOf], values: &[&[u8]], bell: bool) {
        for (of, value) in colours.iter().zip(values) {
            if *value == b"?" {
                self.ask(Query::Colour { of: *of, bell });
            }
        }
    }
}

fn number(digits: &[u8]) -> Option<u8> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
