//! Finds the question of a menu: the last line above the options that asks something.
//!
//! The line with the cursor is one of the options, a hint, or empty, so the question has to be
//! looked for. Pure.

/// How many of the newest lines may belong to a menu.
pub(crate) const MAX_LINES: usize = 24;

/// What the prompts of bash's and zsh's `select` are by default.
const SELECT_PROMPTS: [&str; 2] = ["#?", "?#"];
/// What a question of the Inquirer family begins with: of JavaScript, Python, Go and Rust.
const QUESTION_MARKS: [&str; 2] = ["? ", "[?] "];
/// The frames of boxes, of which Clack draws only the left side.
const BORDERS: [char; 4] = ['│', '┃', '║', '|'];
/// What the options of a menu begin with.
const OPTION_MARKS: &str = "❯»›>➤▸►→●○◉◯◻◼☐☑✔*•+-([";

/// Whether an unfinished line is the whole prompt: it asks something itself, or is the mark of a
/// shell.
pub(crate) fn is_whole(last_line: &str) -> bool {
    let line = last_line.trim();
    !SELECT_PROMPTS.contains(&line)
        && (asks(line) || line.ends_with(['>', '$', '#', '%', ']', ')', '}']))
}

/// The question of the menu that these lines show, from top to bottom. `boxed_only` restricts it to
/// what is in a box: other text of a full screen with a cursor is being edited.
pub(crate) fn of_menu<'a>(
    lines: impl DoubleEndedIterator<Item = &'a str>,
    boxed_only: bool,
) -> Option<String> {
    let mut has_options = false;
    for line in lines.rev().take(MAX_LINES) {
        let (text, is_boxed) = unframed(line);
        if text.is_empty() || boxed_only && !is_boxed {
            continue;
        }
        if is_option(text) {
            has_options = true;
        } else if asks(text) && has_options {
            return Some(without_marks(text).to_owned());
        } else if is_boxed {
            has_options = true;
        }
    }
    None
}

/// The text of a line without the frame of a box, and whether it has one on both sides.
fn unframed(line: &str) -> (&str, bool) {
    let line = line.trim();
    let is_boxed = line.chars().count() > 1 && line.starts_with(BORDERS) && line.ends_with(BORDERS);
    (line.trim_matches(|it| BORDERS.contains(&it) || it.is_whitespace()), is_boxed)
}

fn asks(text: &str) -> bool {
    text.ends_with(['?', ':']) || QUESTION_MARKS.iter().any(|mark| text.starts_with(mark))
}

fn is_option(text: &str) -> bool {
    if QUESTION_MARKS.iter().any(|mark| text.starts_with(mark)) {
        return false;
    }
    let numbered = || {
        let (number, rest) = text.split_once([')', '.', ':'])?;
        let is_short = (1..=2).contains(&number.chars().count());
        Some(is_short && number.chars().all(char::is_alphanumeric) && !rest.is_empty())
    };
    text.starts_with(|it| OPTION_MARKS.contains(it)) || numbered() == Some(true)
}

/// The question without the marks before it, as in `? Which one?` and `◆  Which one?`.
fn without_marks(text: &str) -> &str {
    let text = text.strip_prefix("[?]").unwrap_or(text);
    text.trim_start_matches(|it: char| !it.is_alphanumeric() && !"\"'([{".contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(screen: &str) -> Option<String> {
        of_menu(screen.lines(), false)
    }

    #[test]
    fn a_menu_is_asked_for_above_its_options() {
        for (screen, asked) in [
            ("│\n◆  Which framework?\n│  ● Astro\n│  ○ Nuxt\n└\n", "Which framework?"),
            ("? Which template?\n❯ minimal\n  full\n\n↑↓ navigate • ⏎ select", "Which template?"),
            (
                "? Pick a flavour › - Use arrow-keys.\n❯   TypeScript\n    JavaScript",
                "Pick a flavour › - Use arrow-keys.",
            ),
            ("? What? (Use arrow keys)\n » a\n   b\n\n\n", "What? (Use arrow keys)"),
            ("[?] What size?: Jumbo\n > Jumbo\n   Large\n", "What size?: Jumbo"),
            ("Choose your favorite:\n\n* a\n  b", "Choose your favorite:"),
            ("Which colour?\n1) red\n2) green\n#? ", "Which colour?"),
            ("Old?\n1) no\nChoose an option:\n 1) build\n 2) test?\n\n", "Choose an option:"),
            (
                "┌─────────┐\n│ Which?  │\n│         │\n│ a apple │\n│ <Ok>    │\n└─────────┘",
                "Which?",
            ),
        ] {
            assert_eq!(question(screen).as_deref(), Some(asked), "{screen}");
        }
    }

    #[test]
    fn lines_without_a_question_or_options_are_no_menu() {
        for screen in ["", "a\nb\n", "* a\n* b\n", "Really?\n", "Building:\nsomething else\n"] {
            assert_eq!(question(screen), None, "{screen}");
        }
        let edited = "Things:\n* a\n* b\n~\n~\n";
        assert_eq!(of_menu(edited.lines(), true), None);
    }

    #[test]
    fn a_prompt_that_asks_is_whole() {
        for line in
            ["Name: ", ">>> ", "me@host:~$ ", "? Overwrite? (y/N) ‣ false", "In [1]:", "[Y/n]"]
        {
            assert!(is_whole(line), "{line}");
        }
        for line in ["", "  ", "#? ", "?# ", "↑↓ navigate • ⏎ select", "  full"] {
            assert!(!is_whole(line), "{line}");
        }
    }
}
