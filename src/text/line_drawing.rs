//! The special graphics set of the VT100: lines, corners and a few signs in the place of
//! letters, for programs that switch to it.

/// The final byte of the sequences that choose it.
pub const SET: u8 = b'0';

/// The first character that is drawn otherwise.
const FIRST: char = '_';
/// What is drawn for `_` to `~`.
const DRAWN: [char; 32] = [
    ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─',
    '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// What this set shows for a character; all that it does not change stays.
pub fn drawn(character: char) -> char {
    let place = u32::from(character).checked_sub(u32::from(FIRST));
    place
        .and_then(|place| DRAWN.get(place as usize))
        .copied()
        .unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_become_lines_and_the_rest_stays() {
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
