//! The special graphics set of the VT100, which shows lines, corners and a few signs instead of
//! letters. Pure.

/// The final byte of the sequences that select the set.
pub(crate) const SET: u8 = b'0';
pub(crate) const SHIFT_OUT: u8 = 0x0e;
pub(crate) const SHIFT_IN: u8 = 0x0f;

/// The first character that is drawn differently.
const FIRST: char = '_';
/// The characters shown for `_` to `~`.
const DRAWN: [char; 32] = [
    ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─',
    '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// The character sets G0 and G1, and the one in use.
#[derive(Debug, Default)]
pub(crate) struct CharacterSets {
    /// Whether G0 and G1 are the special graphics set.
    drawing: [bool; 2],
    /// Whether G1 is in use instead of G0.
    shifted: bool,
}

impl CharacterSets {
    pub(crate) fn any_is_drawing(&self) -> bool {
        self.drawing != [false, false]
    }

    /// Carries out SO and SI.
    pub(crate) fn shift(&mut self, control: u8) {
        match control {
            SHIFT_OUT => self.shifted = true,
            SHIFT_IN => self.shifted = false,
            _ => {}
        }
    }

    /// Carries out an escape sequence that selects a set; returns false for any other sequence.
    pub(crate) fn designate(&mut self, intermediates: &[u8], set: u8) -> bool {
        let [first, second] = &mut self.drawing;
        let place = match intermediates {
            b"(" => first,
            b")" => second,
            _ => return false,
        };
        *place = set == SET;
        true
    }

    /// The character that the set in use shows for a character.
    pub(crate) fn shown(&self, character: char) -> char {
        let [first, second] = self.drawing;
        let is_drawing = if self.shifted { second } else { first };
        if is_drawing { drawn(character) } else { character }
    }
}

fn drawn(character: char) -> char {
    let place = u32::from(character).checked_sub(u32::from(FIRST));
    place.and_then(|place| DRAWN.get(place as usize)).copied().unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_become_lines_and_other_characters_stay() {
        for (character, shown) in [
            ('^', '^'),
            ('_', ' '),
            ('`', '◆'),
            ('q', '─'),
            ('x', '│'),
            ('~', '·'),
            ('\u{7f}', '\u{7f}'),
            ('A', 'A'),
            ('日', '日'),
        ] {
            assert_eq!(drawn(character), shown, "{character:?}");
        }
    }
}
