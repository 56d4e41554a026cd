//! What a terminal answers when a program asks it something.
//!
//! A program that asks waits for the answer, some for ever. The answers are those of a
//! plain xterm: what is not known here is answered as unknown, and what a plain xterm
//! does not know (such as the keyboard protocol of kitty) is not answered, since programs
//! tell by that. Nothing that a program has set is given back to it as text: it would
//! come in as if it had been typed.

use std::fmt::Write as _;

/// Height and width of a cell in pixels, for programs that ask; there are no pixels.
const CELL_PIXELS: (u16, u16) = (16, 8);
/// The standard foreground, which is the cursor's colour too, and the background.
const FOREGROUND: Rgb = Rgb(229, 229, 229);
const BACKGROUND: Rgb = Rgb(0, 0, 0);
/// The first sixteen colours, as xterm has them.
const BASIC_COLOURS: [Rgb; 16] = [
    Rgb(0, 0, 0),
    Rgb(205, 0, 0),
    Rgb(0, 205, 0),
    Rgb(205, 205, 0),
    Rgb(0, 0, 238),
    Rgb(205, 0, 205),
    Rgb(0, 205, 205),
    Rgb(229, 229, 229),
    Rgb(127, 127, 127),
    Rgb(255, 0, 0),
    Rgb(0, 255, 0),
    Rgb(255, 255, 0),
    Rgb(92, 92, 255),
    Rgb(255, 0, 255),
    Rgb(0, 255, 255),
    Rgb(255, 255, 255),
];
/// The levels of the colour cube that follows them.
const CUBE_LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
/// Where the greys begin that follow the cube.
const FIRST_GREY: u8 = 232;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rgb(u8, u8, u8);

/// A question of a program to its terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Whether it works (DSR 5).
    Status,
    /// Where the cursor is (CPR, DECXCPR).
    Cursor {
        /// In DEC's private form.
        private: bool,
    },
    /// What kind it is (DA1).
    Kind,
    /// Which version of which kind (DA2).
    Firmware,
    /// Which unit (DA3).
    Unit,
    /// Its name (XTVERSION).
    Name,
    /// Whether a mode is set (DECRQM).
    Mode {
        /// Its number.
        number: u16,
        /// Whether it is one of DEC's private modes.
        private: bool,
    },
    /// A colour (OSC 4, 10, 11, 12).
    Colour {
        /// Which.
        of: ColourOf,
        /// Whether the question ended with BEL, as the answer then does.
        bell: bool,
    },
    /// Something about its window (XTWINOPS), by number.
    Window(u16),
    /// A terminfo capability (XTGETTCAP), by its name in hex digits.
    Capability(String),
    /// A setting (DECRQSS).
    Setting,
}

/// What has a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourOf {
    /// Text.
    Foreground,
    /// What is behind it.
    Background,
    /// The cursor.
    Cursor,
    /// One of the 256.
    Palette(u8),
}

/// What the program reads; `None`: nothing is answered.
pub fn answer(query: &Query, screen: &vt100::Screen) -> Option<String> {
    let (rows, cols) = (screen.size().0.get(), screen.size().1.get());
    Some(match query {
        Query::Status => "\x1b[0n".into(),
        Query::Cursor { private } => {
            let (row, col) = screen.cursor_position();
            let mark = if *private { "?" } else { "" };
            format!("\x1b[{mark}{};{}R", row + 1, (col + 1).min(cols))
        }
        // A VT220 with colours.
        Query::Kind => "\x1b[?62;22c".into(),
        Query::Firmware => "\x1b[>0;10;1c".into(),
        Query::Unit => "\x1bP!|00000000\x1b\\".into(),
        Query::Name => format!("\x1bP>|zsh-tool({})\x1b\\", env!("CARGO_PKG_VERSION")),
        Query::Mode { number, private } => {
            let (mark, state) = match private {
                true => ("?", private_mode(*number, screen)),
                false => ("", ModeState::Unknown),
            };
            format!("\x1b[{mark}{number};{}$y", state as u8)
        }
        Query::Colour { of, bell } => colour(*of, *bell),
        Query::Window(number) => window(*number, rows, cols)?,
        Query::Capability(name) => format!("\x1bP0+r{name}\x1b\\"),
        Query::Setting => "\x1bP0$r\x1b\\".into(),
    })
}

/// The states of a mode as DECRPM numbers them.
#[derive(Debug, Clone, Copy)]
enum ModeState {
    Unknown = 0,
    Set = 1,
    Reset = 2,
}

fn private_mode(number: u16, screen: &vt100::Screen) -> ModeState {
    use vt100::{MouseProtocolEncoding as Encoding, MouseProtocolMode as Mouse};
    let mouse = screen.mouse_protocol_mode();
    let is_set = match number {
        1 => screen.application_cursor(),
        9 => mouse == Mouse::Press,
        25 => !screen.hide_cursor(),
        47 | 1047 | 1049 => screen.alternate_screen(),
        1000 => mouse == Mouse::PressRelease,
        1002 => mouse == Mouse::ButtonMotion,
        1003 => mouse == Mouse::AnyMotion,
        1005 => screen.mouse_protocol_encoding() == Encoding::Utf8,
        1006 => screen.mouse_protocol_encoding() == Encoding::Sgr,
        2004 => screen.bracketed_paste(),
        _ => return ModeState::Unknown,
    };
    match is_set {
        true => ModeState::Set,
        false => ModeState::Reset,
    }
}

fn colour(of: ColourOf, bell: bool) -> String {
    let mut text = String::from("\x1b]");
    let (number, rgb) = match of {
        ColourOf::Foreground => ("10".into(), FOREGROUND),
        ColourOf::Background => ("11".into(), BACKGROUND),
        ColourOf::Cursor => ("12".into(), FOREGROUND),
        ColourOf::Palette(index) => (format!("4;{index}"), palette(index)),
    };
    let Rgb(red, green, blue) = rgb;
    // X11 writes each component with sixteen bits.
    let _ = write!(
        text,
        "{number};rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}"
    );
    text.push_str(if bell { "\x07" } else { "\x1b\\" });
    text
}

/// xterm's 256 colours: sixteen, a cube of 6 by 6 by 6, and 24 greys.
fn palette(index: u8) -> Rgb {
    if let Some(basic) = BASIC_COLOURS.get(usize::from(index)) {
        return *basic;
    }
    if index >= FIRST_GREY {
        let level = 8 + 10 * (index - FIRST_GREY);
        return Rgb(level, level, level);
    }
    let place = index - BASIC_COLOURS.len() as u8;
    let level = |digit: u8| CUBE_LEVELS.get(usize::from(digit)).copied().unwrap_or(0);
    Rgb(level(place / 36), level(place / 6 % 6), level(place % 6))
}

fn window(number: u16, rows: u16, cols: u16) -> Option<String> {
    let (cell_height, cell_width) = CELL_PIXELS;
    let (height, width) = (rows * cell_height, cols * cell_width);
    Some(match number {
        11 => "\x1b[1t".into(),
        13 => "\x1b[3;0;0t".into(),
        14 => format!("\x1b[4;{height};{width}t"),
        15 => format!("\x1b[5;{height};{width}t"),
        16 => format!("\x1b[6;{cell_height};{cell_width}t"),
        18 => format!("\x1b[8;{rows};{cols}t"),
        19 => format!("\x1b[9;{rows};{cols}t"),
        // The titles, which programs set, are told as empty.
        20 => "\x1b]L\x1b\\".into(),
        21 => "\x1b]l\x1b\\".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_is_that_of_xterm() {
        let table = [
            (1, Rgb(205, 0, 0)),
            (15, Rgb(255, 255, 255)),
            (16, Rgb(0, 0, 0)),
            (21, Rgb(0, 0, 255)),
            (196, Rgb(255, 0, 0)),
            (110, Rgb(135, 175, 215)),
            (231, Rgb(255, 255, 255)),
            (232, Rgb(8, 8, 8)),
            (255, Rgb(238, 238, 238)),
        ];
        for (index, rgb) in table {
            assert_eq!(palette(index), rgb, "{index}");
        }
    }
}
