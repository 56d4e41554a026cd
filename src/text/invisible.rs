//! Characters that a reader does not see, which can carry text of their own: shown by their code
//! points, `<U+E0041>`.
//!
//! These are Unicode's Default_Ignorable_Code_Point, its format characters of other kinds, and the
//! separators of lines and paragraphs, at which some readers begin a line. What belongs to an emoji
//! or to a script that joins its letters stays: a joiner after a character that is not ASCII, and one
//! variation selector after a character that may have one. Pure.

use std::borrow::Cow;

const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// The text with its invisible characters shown. Colours in it (SGR sequences) stay.
pub(crate) fn show(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_invisible) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = None;
    let mut inside_colour = false;
    for character in text.chars() {
        let is_shown = is_invisible(character) && !belongs(character, before);
        if is_shown {
            shown.push_str(&code_point(character));
        } else {
            shown.push(character);
        }
        inside_colour |= character == '\u{1b}';
        if !inside_colour {
            before = (!is_shown).then_some(character);
        }
        inside_colour &= character != 'm';
    }
    Cow::Owned(shown)
}

/// `<U+E0041>`
pub(crate) fn code_point(character: char) -> String {
    format!("<U+{:04X}>", u32::from(character))
}

/// Whether a joiner or a variation selector is part of what it follows.
fn belongs(character: char, before: Option<char>) -> bool {
    let is_letter = |it: char| !it.is_ascii() && !is_invisible(it);
    before.is_some_and(|before| {
        if JOINERS.contains(&character) {
            is_letter(before) || is_selector(before)
        } else {
            // The digits of keycap emoji are ASCII.
            let is_keycap = matches!(before, '0'..='9' | '#' | '*');
            is_selector(character) && (is_keycap || is_letter(before))
        }
    })
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// See `DerivedCoreProperties.txt` and `UnicodeData.txt` of Unicode 16.
pub(crate) fn is_invisible(character: char) -> bool {
    character >= '\u{ad}'
        && matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(show(Cow::Borrowed(text)), expected);
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        for (text, expected) in [
            ("a\u{e0041}\u{e007f}b", "a<U+E0041><U+E007F>b"),
            ("\u{202e}txt.exe\u{2069}", "<U+202E>txt.exe<U+2069>"),
            ("pass\u{200b}word\u{feff}", "pass<U+200B>word<U+FEFF>"),
            ("soft\u{ad}hyphen", "soft<U+00AD>hyphen"),
            ("line\u{2028}line", "line<U+2028>line"),
            ("a\u{200d}b", "a<U+200D>b"),
            ("filler \u{3164}", "filler <U+3164>"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn emoji_and_scripts_stay_and_text_in_selectors_does_not() {
        for text in [
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "größe, 日本語, ─── ✔",
        ] {
            check(text, text);
        }
        check("😀\u{e0155}\u{e0156}", "😀\u{e0155}<U+E0156>");
        check("a\u{fe01}", "a<U+FE01>");
    }
}
