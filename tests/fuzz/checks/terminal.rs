//! What commands print: lines as text, without controls, the screen of a terminal, the same
//! wherever the output was cut, and what a person's terminal gets, which it neither answers nor obeys
//! beyond the text.

use zsh_tool::testing::text::ansi::{Colours, prompt, readable};
use zsh_tool::testing::text::lines::unfinished_character;
use zsh_tool::testing::text::mask::{Mask, Secret};
use zsh_tool::testing::text::screen::Screen;
use zsh_tool::testing::text::terminal_filter::TerminalFilter;

const SECRET: &[u8] = b"abcab";
/// How much of a sequence the filter holds back; it passes on what is longer as text.
const LONGEST_SEQUENCE: usize = 4096;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let [rows, cols, step, output @ ..] = data else {
        return;
    };
    let step = usize::from(*step) % 32 + 1;
    draw(u16::from(*rows % 40), u16::from(*cols % 90), step, output);
    mask(step, output);
    filter(step, output, TerminalFilter::default);
    filter(step, output, TerminalFilter::for_record);
    for columns in [None, Some(u16::from(*cols))] {
        for line in output.split(|byte| *byte == b'\n') {
            let text = readable(line, Colours::Drop, columns);
            assert!(!text.chars().any(|c| c.is_control() && c != '\t'), "{text:?}");
            let coloured = readable(line, Colours::Keep, columns);
            assert_eq!(readable(coloured.as_bytes(), Colours::Drop, columns), text);
            let _ = prompt(line, columns);
        }
    }
    assert!(unfinished_character(output) <= 3);
}

fn draw(rows: u16, cols: u16, step: usize, output: &[u8]) {
    let mut whole = Screen::new(rows, cols);
    whole.feed(output);
    let mut cut = Screen::new(rows, cols);
    for bytes in output.chunks(step) {
        cut.feed(bytes);
    }
    let view = whole.view();
    assert_eq!(view, cut.view());
    assert_eq!(whole.take_replies(), cut.take_replies());
    assert!((1..=view.rows.len()).contains(&view.cursor_row.into()));
    assert!((1..=view.cols).contains(&view.cursor_col));
    whole.resize(cols, rows);
    let _ = (whole.view(), whole.modes());
}

fn mask(step: usize, output: &[u8]) {
    let Ok(secret) = Secret::new(SECRET.to_vec().into()) else {
        return;
    };
    let mut mask = Mask::default();
    mask.cover("S", &secret);
    let mut shown = Vec::new();
    for bytes in output.chunks(step) {
        shown.extend_from_slice(&mask.feed(bytes));
    }
    shown.extend(mask.finish());
    assert!(!shown.windows(SECRET.len()).any(|window| window == SECRET));
    if !output.windows(SECRET.len()).any(|window| window == SECRET) {
        assert_eq!(shown, output);
    }
}

fn filter(step: usize, output: &[u8], new: fn() -> TerminalFilter) {
    if output.len() > LONGEST_SEQUENCE {
        return;
    }
    let passed = new().pass(output);
    let mut cut = new();
    let pieces: Vec<u8> = output.chunks(step).flat_map(|bytes| cut.pass(bytes)).collect();
    assert_eq!(passed, pieces);
    // What is passed on has nothing more to leave out. A character that a sequence has cut stays.
    let whole = passed.len() - unfinished_character(&passed);
    assert_eq!(new().pass(&passed), passed[..whole]);
    let mut terminal = Screen::new(24, 80);
    terminal.feed(&passed);
    let replies = terminal.take_replies();
    assert!(replies.is_empty(), "{:?}", String::from_utf8_lossy(&passed));
    assert!(!commands(&passed), "{:?}", String::from_utf8_lossy(&passed));
}

/// Whether there is a string for the terminal other than a link or an image. Terminals carry out
/// control characters inside a sequence as if they were not in it.
fn commands(output: &[u8]) -> bool {
    let is_ignored = |byte: &u8| matches!(byte, 0..=0x17 | 0x19 | 0x1c..=0x1f | 0x7f);
    let read: Vec<u8> = output.iter().copied().filter(|byte| !is_ignored(byte)).collect();
    let is_image =
        |text: &[u8]| text.iter().find(|byte| !matches!(byte, b'0'..=b'9' | b';')) == Some(&b'q');
    let mut sequences = read.split(|byte| *byte == 0x1b).skip(1);
    sequences.any(|sequence| match sequence {
        [b']', text @ ..] => !text.starts_with(b"8;"),
        [b'P', text @ ..] => !is_image(text),
        [b'X' | b'^' | b'_', ..] => true,
        _ => false,
    }) || String::from_utf8_lossy(output).contains(['\u{90}', '\u{9b}', '\u{9d}'])
}
