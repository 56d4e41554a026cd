//! A task's screen in words and for programs.

use serde_json::{Value, json};

use super::insight::Insight;
use crate::task::live::LiveTask;
use crate::task::terminal::{Seen, Terminal};
use crate::text::lines::grouped;
use crate::text::screen::View;

/// `screen 24×80, cursor row 3 column 12, alternate screen`
pub(super) fn line(seen: &Seen) -> String {
    let view = &seen.view;
    let mut line = format!(
        "screen {}×{}, cursor row {} column {}",
        view.rows.len(),
        view.cols,
        view.cursor_row,
        view.cursor_col
    );
    if !view.cursor_visible {
        line.push_str(" (hidden)");
    }
    if view.alternate {
        line.push_str(", alternate screen");
    }
    if seen.undrawn > 0 {
        let undrawn = grouped(seen.undrawn as u64);
        line.push_str(&format!(", {undrawn} bytes of output not drawn"));
    }
    line
}

/// The twin for programs.
pub(super) fn meta(seen: &Seen) -> Value {
    let view = &seen.view;
    json!({
        "rows": view.rows.len(),
        "cols": view.cols,
        "cursor": [view.cursor_row, view.cursor_col],
        "cursor_visible": view.cursor_visible,
        "alternate": view.alternate,
        "undrawn_bytes": seen.undrawn,
        "lines": drawn_rows(view),
    })
}

/// The rows up to the last that is not empty, as far as they fit into so many characters.
pub(super) fn text(view: &View, max_chars: usize, id: &str) -> String {
    let rows = drawn_rows(view);
    let mut room = max_chars;
    let mut fitting = rows.iter().take_while(|row| {
        let taken = row.chars().count() + 1;
        let fits = taken <= room;
        room = room.saturating_sub(taken);
        fits
    });
    let shown: Vec<&str> = fitting.by_ref().map(String::as_str).collect();
    let left_out = rows.len() - shown.len();
    match (rows.len(), left_out) {
        (0, _) => "(empty screen)".to_owned(),
        (_, 0) => shown.join("\n"),
        (_, left_out) => format!(
            "{}\n… {left_out} more rows: zsh_poll task_id={id} screen=true max_output=…",
            shown.join("\n")
        ),
    }
}

/// Says, once a task, how to see what its lines tell little of.
pub(super) fn hint(task: &LiveTask) -> Option<Insight> {
    let is_full_screen = task.terminal().is_some_and(Terminal::is_full_screen);
    let is_new = is_full_screen && !std::mem::replace(&mut task.state().screen_told, true);
    is_new.then(|| {
        Insight::info("a full-screen program: zsh_poll screen=true shows what it looks like.")
    })
}

fn drawn_rows(view: &View) -> &[String] {
    let last = view.rows.iter().rposition(|row| !row.is_empty());
    view.rows
        .get(..last.map_or(0, |last| last + 1))
        .unwrap_or_default()
}
