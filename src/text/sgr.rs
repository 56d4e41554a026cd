//! Parses and writes colours and other attributes of characters (SGR).
//!
//! The codes are those of ECMA-48 and xterm. Limits: drops fonts, frames and ideogram marks. Pure.

use std::fmt::Write;

use vte::Params;

/// The codes of bold, faint, italic, blinking and so on.
const FLAGS: [u16; 9] = [1, 2, 3, 5, 6, 7, 8, 9, OVERLINE];
const OVERLINE: u16 = 53;

/// The attributes of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// Bit N is set for `FLAGS[N]`.
    flags: u16,
    /// 0: none, 1: single, 2: double, 3: curly, 4: dotted, 5: dashed.
    underline: u8,
    foreground: Option<Colour>,
    background: Option<Colour>,
    underline_colour: Option<Colour>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    /// One of the sixteen: 8 and above are the bright ones.
    Named(u8),
    /// One of a palette of 256.
    Indexed(u8),
    Rgb(u8, u8, u8),
}

impl Style {
    /// The default: a terminal's own style.
    pub(super) const PLAIN: Style = Style {
        flags: 0,
        underline: 0,
        foreground: None,
        background: None,
        underline_colour: None,
    };

    /// Applies the parameters of one sequence, ignoring unknown ones.
    pub(super) fn apply(&mut self, params: &Params) {
        let mut groups = params.iter();
        while let Some(group) = groups.next() {
            let Some((code, rest)) = group.split_first() else {
                continue;
            };
            match *code {
                0 => *self = Style::default(),
                4 => self.underline = rest.first().map_or(1, |kind| (*kind).min(5) as u8),
                21 => self.underline = 2,
                22 => self.clear(&[1, 2]),
                23 => self.clear(&[3]),
                24 => self.underline = 0,
                25 => self.clear(&[5, 6]),
                27..=29 => self.clear(&[code - 20]),
                55 => self.clear(&[OVERLINE]),
                30..=37 => self.foreground = Some(Colour::Named((code - 30) as u8)),
                90..=97 => self.foreground = Some(Colour::Named((code - 90 + 8) as u8)),
                40..=47 => self.background = Some(Colour::Named((code - 40) as u8)),
                100..=107 => self.background = Some(Colour::Named((code - 100 + 8) as u8)),
                39 => self.foreground = None,
                49 => self.background = None,
                59 => self.underline_colour = None,
                38 | 48 | 58 => {
                    let colour = if rest.is_empty() {
                        Colour::from_groups(&mut groups)
                    } else {
                        Colour::from_parts(rest)
                    };
                    // A malformed colour changes nothing.
                    if colour.is_some() {
                        *match *code {
                            38 => &mut self.foreground,
                            48 => &mut self.background,
                            _ => &mut self.underline_colour,
                        } = colour;
                    }
                }
                code => self.flags |= bit(code),
            }
        }
    }

    fn clear(&mut self, codes: &[u16]) {
        for code in codes {
            self.flags &= !bit(*code);
        }
    }

    /// Writes the shortest sequence that changes `self` to `next`.
    fn write_change(self, next: Style, text: &mut String) {
        if self == next {
            return;
        }
        let from = if self.must_be_reset_for(next) { Style::default() } else { self };
        let mut codes: Vec<String> = Vec::new();
        if from != self {
            codes.push("0".to_owned());
        }
        for code in FLAGS {
            if next.flags & !from.flags & bit(code) != 0 {
                codes.push(code.to_string());
            }
        }
        if next.underline != from.underline {
            codes.push(match next.underline {
                1 => "4".to_owned(),
                kind => format!("4:{kind}"),
            });
        }
        for (now, before, base) in [
            (next.foreground, from.foreground, 30),
            (next.background, from.background, 40),
            (next.underline_colour, from.underline_colour, 50),
        ] {
            if let Some(colour) = now
                && now != before
            {
                codes.push(colour.code(base));
            }
        }
        // Writing to a string does not fail.
        let _ = write!(text, "\x1b[{}m", codes.join(";"));
    }

    /// Whether `self` has an attribute that `next` lacks.
    fn must_be_reset_for(self, next: Style) -> bool {
        self.flags & !next.flags != 0
            || (self.underline != 0 && next.underline == 0)
            || (self.foreground.is_some() && next.foreground.is_none())
            || (self.background.is_some() && next.background.is_none())
            || (self.underline_colour.is_some() && next.underline_colour.is_none())
    }
}

fn bit(code: u16) -> u16 {
    FLAGS.iter().position(|known| *known == code).map_or(0, |place| 1 << place)
}

impl Colour {
    /// `5:N`, `2:R:G:B`, `2:SPACE:R:G:B`.
    fn from_parts(parts: &[u16]) -> Option<Colour> {
        match *parts {
            [5, index, ..] => Some(Colour::Indexed(u8::try_from(index).ok()?)),
            [2, red, green, blue] | [2, _, red, green, blue, ..] => Colour::rgb(red, green, blue),
            _ => None,
        }
    }

    /// `5;N`, `2;R;G;B`.
    fn from_groups<'a>(groups: &mut impl Iterator<Item = &'a [u16]>) -> Option<Colour> {
        let mut next = || groups.next().and_then(|group| group.first().copied());
        match next()? {
            5 => Some(Colour::Indexed(u8::try_from(next()?).ok()?)),
            2 => Colour::rgb(next()?, next()?, next()?),
            _ => None,
        }
    }

    fn rgb(red: u16, green: u16, blue: u16) -> Option<Colour> {
        Some(Colour::Rgb(
            u8::try_from(red).ok()?,
            u8::try_from(green).ok()?,
            u8::try_from(blue).ok()?,
        ))
    }

    /// The code for a foreground (30), a background (40) or an underline (50).
    fn code(self, base: u16) -> String {
        match self {
            Colour::Named(index @ 8..) => (base + 60 + u16::from(index) - 8).to_string(),
            Colour::Named(index) => (base + u16::from(index)).to_string(),
            Colour::Indexed(index) => format!("{};5;{index}", base + 8),
            Colour::Rgb(red, green, blue) => format!("{};2;{red};{green};{blue}", base + 8),
        }
    }
}

/// Builds text whose style changes.
#[derive(Debug, Default)]
pub(super) struct StyledText {
    text: String,
    style: Style,
}

impl StyledText {
    pub(super) fn with_capacity(bytes: usize) -> StyledText {
        StyledText { text: String::with_capacity(bytes), style: Style::default() }
    }

    pub(super) fn push(&mut self, text: &str, style: Style) {
        // Most cells have one character. With some C libraries, copying them as slices would take
        // most of the time.
        for character in text.chars() {
            self.push_character(character, style);
        }
    }

    pub(super) fn push_character(&mut self, character: char, style: Style) {
        self.switch_style(style);
        self.text.push(character);
    }

    fn switch_style(&mut self, style: Style) {
        if style != self.style {
            self.style.write_change(style, &mut self.text);
            self.style = style;
        }
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.style = Style::default();
    }

    /// The text, ending in the default style.
    pub(super) fn finish(mut self) -> String {
        self.switch_style(Style::default());
        self.text
    }
}
