//! The frame around output in an answer: what is inside is the program's, what follows the closing
//! rule is the tool's.
//!
//! The closing rule names the task, and a line of output that begins like one of the tool's is
//! marked, so that no output can look like the end of itself. Pure.

use unicode_width::UnicodeWidthChar;

/// The rule above the output.
pub(crate) const OPENING: &str = "───";
/// The rule between the output and stderr that is apart from it.
pub(crate) const ERRORS: &str = "─── stderr";
/// Before a line of output that begins with a sign of the tool.
const MARK: &str = "│ ";

/// The rule below the output of this task. No line of output equals it.
pub(crate) fn closing(task: &str) -> String {
    format!("{OPENING} {task}")
}

/// Whether the tool begins lines of its own with this character.
pub(crate) fn is_sign(character: char) -> bool {
    matches!(character, '─' | '✔' | '✘' | '⟳' | '⏱' | '⌨' | '⏸' | '⚠' | 'ℹ' | '◷' | '┌' | '↻' | '…')
}

/// A line of output, marked if it begins with a sign of the tool. Colours before the sign do not
/// count.
pub(crate) fn marked(mut line: String) -> String {
    if !line.is_ascii() && begins_with_sign(&line) {
        line.insert_str(0, MARK);
    }
    line
}

/// Lines that look like those of the rules.
const LOOK_LIKE_RULES: [char; 4] = ['━', '⎯', '╌', '┄'];

/// Whether a character shows nothing, or nearly nothing, of its own: blanks, marks on other
/// characters and those that enclose them, stand-ins for what has no form.
fn is_little(character: char) -> bool {
    character.is_whitespace()
        || character.width() == Some(0)
        || matches!(character,
            '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{2800}' | '\u{fffc}' | '\u{fffd}' | '\u{110bd}' | '\u{110cd}'
            | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

fn begins_with_sign(line: &str) -> bool {
    let mut rest = line.trim_start_matches(is_little);
    while let Some(sequence) = rest.strip_prefix("\u{1b}[") {
        let end = sequence.find('m').map_or(sequence.len(), |end| end + 1);
        rest = sequence.get(end..).unwrap_or_default().trim_start_matches(is_little);
    }
    rest.starts_with(is_sign) || rest.starts_with(LOOK_LIKE_RULES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_begin_like_the_tools_are_marked() {
        for line in [
            "───",
            "✔ exit=0",
            "  ⚠ A.L.A.N.: x",
            "\u{1b}[32m✔\u{1b}[0m ok",
            "… 3 lines …",
            "\u{a0}✘",
            "\u{2800}✔ exit=0",
            "\u{301}✔ exit=0",
            "\u{fffd}✔",
            " \u{fe0f}\u{200d}✔",
            "\u{5b0}───",
            "\u{302a}\u{1d165}\u{16fe4}\u{1e8d0}⚠ x",
            "\u{110bd}\u{1f3fb}\u{6dd}✘",
            "━━━ deadbeef",
        ] {
            assert_eq!(marked(line.to_owned()), format!("{MARK}{line}"));
        }
        for line in ["", "done ✔", "-- ok", "│ box", "größe"] {
            assert_eq!(marked(line.to_owned()), line);
        }
    }

    #[test]
    fn no_line_equals_the_closing_rule() {
        let rule = closing("3dc8c9ee");
        assert_ne!(marked(rule.clone()), rule);
    }
}
