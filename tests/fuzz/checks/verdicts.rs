//! What an auditor says in the end: any text has one verdict or none, whatever blanks stand
//! around it, and a mere word in prose is none.

use zsh_tool::testing::agent::verdict::{FORMAT, Verdict, read};

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let judged = read(text);
    let padded = read(&format!("\n \t{text}\n\n"));
    assert_eq!(judged.as_ref().map(|judged| judged.verdict), padded.map(|judged| judged.verdict));
    // Nobody decides without one of the words.
    let upper = text.to_uppercase();
    let words = ["DONE", "RETRY", "REITERATE", "IMPOSSIBLE"];
    let is_escaped = text.contains('\\');
    if judged.is_some() {
        assert!(is_escaped || words.iter().any(|word| upper.contains(word)));
    }
    // The prompt's own example decides nothing.
    if !text.contains('{') && judged.is_none() {
        assert!(
            read(&format!("{text}\n{FORMAT}")).is_none_or(|judged| judged.verdict != Verdict::Done)
        );
    }
}
