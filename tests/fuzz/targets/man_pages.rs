//! Manual pages as `man` renders them: their options, within the bounds of what is shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zsh_tool::shell::manpage::{parse, present, to_text};

fuzz_target!(|page: &str| {
    let rows = parse(page);
    let text = to_text(&rows);
    assert_eq!(text.lines().count(), rows.len());
    assert!(rows.iter().all(|row| !row.names.is_empty()));
    let shown = present(&text, &["-a", "--all"], 5);
    assert!(shown.lines().count() <= 5);
});
