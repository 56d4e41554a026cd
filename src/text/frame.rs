//! The frame around output in an answer: what is inside is the program's, what follows the closing
//! rule is the tool's.
//!
//! The closing rule names the task, and a line of output that begins like one of the tool's is
//! marked, so that no output can look like the end of itself. Pure.

/// The rule above the output.
pub(crate) const OPENING: &str = "───";
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

fn begins_with_sign(line: &str) -> bool {
    let mut rest = line.trim_start();
    while let Some(sequence) = rest.strip_prefix("\u{1b}[") {
        let end = sequence.find('m').map_or(sequence.len(), |end| end + 1);
        rest = sequence.get(end..).unwrap_or_default().trim_start();
    }
    rest.starts_with(is_sign)
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
