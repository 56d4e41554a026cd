//! What commands print: lines as text, without controls, and the screen of a terminal,
//! the same wherever the output was cut.

use zsh_tool::testing::text::ansi::{Colours, prompt, readable};
use zsh_tool::testing::text::lines::unfinished_character;
use zsh_tool::testing::text::mask::{Mask, Secret};
use zsh_tool::testing::text::screen::Screen;

const SECRET: &[u8] = b"abcab";

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let [rows, cols, step, output @ ..] = data else {
        return;
    };
    let step = usize::from(*step) % 32 + 1;
    draw(u16::from(*rows % 40), u16::from(*cols % 90), step, output);
    mask(step, output);
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
