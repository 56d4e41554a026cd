//! What real programs wrote to a terminal, as lines of text.
//!
//! Each `tests/fixtures/pty/NAME.raw` was recorded on a terminal of 80 columns, with a
//! person's keys typed at it; `NAME.txt` is what its lines read as.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use zsh_tool::testing::text::ansi::{self, Colours};

use crate::support::env::Env;

/// The width of the terminal on which they were recorded.
const COLUMNS: u16 = 80;

fn recordings() -> Vec<(PathBuf, Vec<u8>, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pty");
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("the recordings")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "raw"))
        .map(|path| {
            let text = fs::read_to_string(path.with_extension("txt")).expect("its text");
            let bytes = fs::read(&path).expect("a recording");
            (path, bytes, text)
        })
        .collect();
    found.sort();
    found
}

fn lines(bytes: &[u8], colours: Colours) -> Vec<String> {
    bytes
        .split(|byte| *byte == b'\n')
        .map(|line| ansi::readable(line, colours, Some(COLUMNS)))
        .collect()
}

#[test]
fn recorded_programs_read_as_their_terminal_showed_them() {
    let recordings = recordings();
    assert!(recordings.len() > 10);
    for (path, bytes, text) in recordings {
        let read = lines(&bytes, Colours::Drop).join("\n");
        // Files of text do not keep empty lines at their end.
        assert_eq!(read.trim_end_matches('\n'), text.trim_end_matches('\n'), "{}", path.display());
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    for (path, bytes, _) in recordings() {
        for line in lines(&bytes, Colours::Keep) {
            let last = line.rsplit_once("\u{1b}[").map(|(_, last)| last);
            assert!(last.is_none_or(|last| last.starts_with("0m")), "{line:?}");
        }
        let kept: Vec<String> = lines(&bytes, Colours::Keep)
            .iter()
            .map(|line| ansi::readable(line.as_bytes(), Colours::Drop, None))
            .collect();
        assert_eq!(kept, lines(&bytes, Colours::Drop), "{}", path.display());
    }
}

#[test]
fn a_recording_cut_anywhere_leaves_no_control_character() {
    for (path, bytes, _) in recordings() {
        for (line, columns) in
            bytes.split(|byte| *byte == b'\n').zip([80, 7, 1].into_iter().cycle())
        {
            for end in 0..line.len().min(400) {
                let text = ansi::readable(&line[..end], Colours::Drop, Some(columns));
                assert!(
                    !text.chars().any(|c| c.is_control() && c != '\t'),
                    "{}: {text:?}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn the_tools_show_lines_as_the_terminal_shows_them() {
    let env = Env::new();
    let client = env.client();
    let long = format!("printf '{}'", r"\e[?2004h$ abcdefgh \rij");
    // The line goes on where this terminal's width is reached.
    let narrow = json!({"command": long, "pty": true, "rows": 5, "cols": 10, "yield_after": 20});
    let result = client.call("zsh", narrow);
    assert_eq!(result.output(), "$ abcdefghij", "{}", result.text);
    let drawn = r"printf 'pri\b\b\bprint\r\n_\bh_\bi\r\n\e[2;2Htop\e[4;4Hbelow\n'";
    for (mode, wanted) in
        [(json!({"pty": true}), "print\nhi\ntop ⏎ below"), (json!({}), "print\nhi\ntop ⏎ below")]
    {
        let mut arguments = mode;
        arguments["command"] = json!(drawn);
        arguments["until"] = json!("^top ⏎ below$");
        arguments["yield_after"] = json!(20);
        let result = client.call("zsh", arguments);
        assert_eq!(result.meta["matched_line"], json!(3), "{}", result.text);
        let task = result.task_id();
        client.poll_to_end(&task);
        let all = client.poll(&task, json!({"full_output": true}));
        assert_eq!(all.without_numbers(), wanted);
        let found = client.poll(&task, json!({"grep": "^print$"}));
        assert_eq!(found.numbered(), [(1, "print".to_owned())], "{}", found.text);
    }
}
