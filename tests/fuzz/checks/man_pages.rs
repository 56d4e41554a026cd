//! Manual pages as `man` renders them: their options, within the bounds of what is shown.

use zsh_tool::testing::shell::manpage::{parse, present, to_text};

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let page = &*String::from_utf8_lossy(data);
    let rows = parse(page);
    let text = to_text(&rows);
    // Names that do not fit into one line continue in the next.
    assert!(text.lines().count() >= rows.len());
    assert!(rows.iter().all(|row| !row.tag.names.is_empty()));
    let shown = present(&text, &["-a", "--all"], 5);
    assert!(shown.lines().count() <= 5);
}
