//! Reads an auditor's verdict from its final text.
//!
//! The last JSON object with a `verdict` key counts, bare or fenced. Without one, the last line
//! that starts with `VERDICT:` or consists of one of the words counts. Any other text is not a
//! verdict, nor is an unknown word in these places: asking again costs a minute, reading "not done"
//! as done costs the work.
//!
//! Limits: never searches prose for words. Pure.

use std::ops::Range;

use serde_json::{Map, Value};

/// An auditor's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The work is done.
    Done,
    /// The worker should continue.
    Retry,
    /// The work cannot be done.
    Impossible,
}

/// A verdict with its feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub verdict: Verdict,
    /// The auditor's explanation; may be empty.
    pub feedback: String,
}

/// Instructions that ask an auditor for a verdict. They are not themselves a verdict, so an auditor
/// that repeats its prompt decides nothing.
pub const FORMAT: &str = "\
End your answer with your verdict as one JSON object on a separate line:
{\"verdict\": <\"DONE\", \"RETRY\" or \"IMPOSSIBLE\">, \"feedback\": <what is missing and what to do, as one string>}
DONE: the task is complete, and you have checked it. RETRY: it is not complete, and another \
attempt can complete it; the feedback tells the worker how. IMPOSSIBLE: no attempt can complete \
it; the feedback says why.";

/// The words, in any case if something else marks them as a verdict.
const WORDS: [(&str, Verdict); 4] = [
    ("DONE", Verdict::Done),
    ("RETRY", Verdict::Retry),
    ("REITERATE", Verdict::Retry),
    ("IMPOSSIBLE", Verdict::Impossible),
];

/// The key that makes an object a verdict.
const VERDICT_KEY: &str = "verdict";
/// The keys of the feedback, in order of preference.
const FEEDBACK_KEYS: [&str; 3] = ["feedback", "reason", "advice"];
/// The beginning of a verdict's line, in any case.
const LINE_START: &str = "VERDICT:";

/// The verdict in a final text, if there is one.
pub fn read(final_text: &str) -> Option<Judged> {
    match last_object(final_text) {
        Some(object) => of_object(final_text, &object),
        None => of_lines(final_text),
    }
}

/// An object with the key, and the range of the JSON value that contains it.
struct FoundVerdict {
    range: Range<usize>,
    object: Map<String, Value>,
}

fn last_object(text: &str) -> Option<FoundVerdict> {
    let mut found = None;
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('{')) {
        let start = at + start;
        let rest = text.get(start..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next();
        let length = values.byte_offset();
        match value {
            Some(Ok(value)) => {
                at = start + length;
                if let Some(object) = with_verdict(value) {
                    let range = start..at;
                    found = Some(FoundVerdict { range, object });
                }
            }
            Some(Err(_)) | None => at = start + 1,
        }
    }
    found
}

/// The object itself, else the last one within it that has the key.
fn with_verdict(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => match get(&object, VERDICT_KEY) {
            Some(_) => Some(object),
            None => object.into_iter().rev().find_map(|(_, value)| with_verdict(value)),
        },
        Value::Array(items) => items.into_iter().rev().find_map(with_verdict),
        _ => None,
    }
}

/// The last value of a key, in any case.
fn get<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let mut entries = object.iter().rev();
    entries.find(|(known, _)| known.trim().eq_ignore_ascii_case(key)).map(|(_, value)| value)
}

fn of_object(text: &str, found: &FoundVerdict) -> Option<Judged> {
    let word = get(&found.object, VERDICT_KEY)?.as_str()?.trim();
    let verdict = of_word(|known| known.eq_ignore_ascii_case(word))?;
    let feedback = FEEDBACK_KEYS
        .iter()
        .filter_map(|key| get(&found.object, key))
        .map(words_of)
        .find(|text| !text.trim().is_empty());
    let feedback = feedback.unwrap_or_else(|| without_range(text, &found.range));
    Some(Judged { verdict, feedback })
}

fn of_word(is_it: impl Fn(&str) -> bool) -> Option<Verdict> {
    let (_, verdict) = WORDS.iter().find(|(word, _)| is_it(word))?;
    Some(*verdict)
}

/// A string unchanged, a list of strings as lines, or other values as JSON.
fn words_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words_of).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

/// The text without this range and without the fence around it.
fn without_range(text: &str, range: &Range<usize>) -> String {
    let before = text.get(..range.start).unwrap_or_default().trim_end();
    let after = text.get(range.end..).unwrap_or_default().trim_start();
    let (before, after) = match (fence_opened(before), after.strip_prefix("```")) {
        (Some(before), Some(after)) => (before, after),
        _ => (before, after),
    };
    join(before, after)
}

/// The text before a fence's opening line, if the text ends with such a line.
fn fence_opened(text: &str) -> Option<&str> {
    let (before, word) = text.rsplit_once("```")?;
    word.chars().all(char::is_alphanumeric).then_some(before)
}

fn join(before: &str, after: &str) -> String {
    match (before.trim(), after.trim()) {
        (before, "") => before.to_owned(),
        ("", after) => after.to_owned(),
        (before, after) => format!("{before}\n{after}"),
    }
}

fn of_lines(text: &str) -> Option<Judged> {
    let mut last = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        match of_line(line) {
            Line::Prose => {}
            Line::Unknown => last = None,
            Line::Verdict { verdict, rest } => {
                last = Some((verdict, rest, start..start + line.len()))
            }
        }
        start += line.len();
    }
    let (verdict, rest, range) = last?;
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    let feedback = join(&join(before, rest), after);
    Some(Judged { verdict, feedback })
}

/// What a line contains.
enum Line<'a> {
    /// No verdict.
    Prose,
    /// The line is marked as a verdict, but the word is unknown.
    Unknown,
    /// A verdict, followed by this text.
    Verdict { verdict: Verdict, rest: &'a str },
}

fn of_line(line: &str) -> Line<'_> {
    let line = line.trim_matches(is_decoration);
    if let Some(verdict) = of_word(|known| known == line) {
        return Line::Verdict { verdict, rest: "" };
    }
    let Some(rest) = after_start(line) else {
        return Line::Prose;
    };
    let rest = rest.trim_start_matches(|c| is_decoration(c) || is_quote(c));
    // A heading, with the verdict on a separate line below.
    if rest.is_empty() {
        return Line::Prose;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    let (word, rest) = rest.split_at(end);
    match of_word(|known| known.eq_ignore_ascii_case(word)) {
        Some(verdict) if is_word_end(rest) => Line::Verdict { verdict, rest: text_after(rest) },
        _ => Line::Unknown,
    }
}

fn after_start(line: &str) -> Option<&str> {
    let (start, rest) = line.split_at_checked(LINE_START.len())?;
    start.eq_ignore_ascii_case(LINE_START).then_some(rest)
}

/// Whether the word ends and is not the first of several alternatives, as in
/// `VERDICT: DONE|RETRY|IMPOSSIBLE`.
fn is_word_end(rest: &str) -> bool {
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some('_' | '-' | '\'' | '’'), Some(next)) if next.is_alphanumeric() => return false,
        _ => {}
    }
    let next = rest.trim_start_matches(|c| is_decoration(c) || is_quote(c));
    let other = match next.strip_prefix(['|', '/', ',']) {
        Some(other) => other,
        None => match next.get(..3).filter(|word| word.eq_ignore_ascii_case("or ")) {
            Some(_) => next.get(3..).unwrap_or_default(),
            None => return true,
        },
    };
    let other = other.trim_start_matches(|c| is_decoration(c) || is_quote(c));
    let end = other.find(|c: char| !c.is_alphanumeric()).unwrap_or(other.len());
    let other = other.get(..end).unwrap_or_default();
    of_word(|known| known.eq_ignore_ascii_case(other)).is_none()
}

/// The text after the verdict's word, without the separator.
fn text_after(rest: &str) -> &str {
    rest.trim_start_matches(|c| {
        is_decoration(c) || is_quote(c) || matches!(c, '.' | ',' | ';' | ':' | '-' | '–' | '—')
    })
}

/// Whitespace and Markdown markup around words and before lines.
fn is_decoration(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '#' | '>')
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Done, Impossible, Retry};
    use proptest::prelude::*;

    /// Replies of auditors with their verdicts.
    const REPLIES: &[(&str, Option<(Verdict, &str)>)] = &[
        // Objects.
        (r#"{"verdict":"DONE"}"#, Some((Done, ""))),
        (r#"{"verdict":"DONE","feedback":"good"}"#, Some((Done, "good"))),
        (r#"{"verdict":"retry","reason":"no tests"}"#, Some((Retry, "no tests"))),
        (r#"{"verdict":" Impossible ","advice":"no card"}"#, Some((Impossible, "no card"))),
        (r#"{"verdict":"REITERATE","feedback":"again"}"#, Some((Retry, "again"))),
        (r#"{"Verdict":"Done","Feedback":"fine"}"#, Some((Done, "fine"))),
        (r#"{"feedback":"a","verdict":"RETRY","reason":"b"}"#, Some((Retry, "a"))),
        (r#"{"verdict":"RETRY","feedback":"","reason":"b"}"#, Some((Retry, "b"))),
        (r#"{"verdict":"RETRY","feedback":["a","b"]}"#, Some((Retry, "a\nb"))),
        (r#"{"verdict":"RETRY","feedback":"  two\n lines "}"#, Some((Retry, "  two\n lines "))),
        ("I looked.\n```json\n{\"verdict\": \"DONE\"}\n```\n", Some((Done, "I looked."))),
        (
            "I looked.\n```\n{\n  \"verdict\": \"RETRY\"\n}\n```\nBye.",
            Some((Retry, "I looked.\nBye.")),
        ),
        (
            "Fix `{x}` and {\"a\": 1}.\n{\"verdict\":\"RETRY\"}",
            Some((Retry, "Fix `{x}` and {\"a\": 1}.")),
        ),
        (
            "{\"verdict\":\"DONE\"}\nNo, wait.\n{\"verdict\":\"RETRY\",\"feedback\":\"x\"}",
            Some((Retry, "x")),
        ),
        (r#"{"result":{"verdict":"DONE","reason":"ok"}}"#, Some((Done, "ok"))),
        (r#"{"verdict":"RETRY","feedback":"f","before":{"verdict":"DONE"}}"#, Some((Retry, "f"))),
        (r#"[{"verdict":"DONE"},{"verdict":"RETRY","reason":"r"}]"#, Some((Retry, "r"))),
        ("{{{ {\"verdict\":\"DONE\",\"reason\":\"r\"} }", Some((Done, "r"))),
        // An object takes precedence over every line, wherever it is.
        ("{\"verdict\":\"RETRY\",\"reason\":\"r\"}\nVERDICT: DONE", Some((Retry, "r"))),
        // Objects without a verdict.
        (r#"{"verdict":"MAYBE"}"#, None),
        (r#"{"verdict":"not DONE"}"#, None),
        (r#"{"verdict":"DONE | RETRY | IMPOSSIBLE","feedback":"..."}"#, None),
        (r#"{"verdict":true}"#, None),
        (r#"{"verdict":null}"#, None),
        (r#"{"verdict":["DONE"]}"#, None),
        ("{\"verdict\":\"DONE\"}\n{\"verdict\":\"unsure\"}", None),
        ("{\"verdict\":\"unsure\"}\nVERDICT: DONE", None),
        (r#"{"verdict":"DONE""#, None),
        (r#"{"status":"DONE"}"#, None),
        // Lines.
        ("VERDICT: DONE", Some((Done, ""))),
        ("verdict: done", Some((Done, ""))),
        ("Verdict:RETRY", Some((Retry, ""))),
        ("All good.\n\n**VERDICT: DONE**\n", Some((Done, "All good."))),
        ("**Verdict:** DONE", Some((Done, ""))),
        ("## Verdict: `RETRY`\nAdd tests.", Some((Retry, "Add tests."))),
        ("> VERDICT: REITERATE", Some((Retry, ""))),
        ("VERDICT: RETRY - the tests fail", Some((Retry, "the tests fail"))),
        ("VERDICT: RETRY. Tests fail.\r\nSee a.rs.", Some((Retry, "Tests fail.\nSee a.rs."))),
        (
            "Verdict: IMPOSSIBLE. I could not complete this",
            Some((Impossible, "I could not complete this")),
        ),
        ("DONE", Some((Done, ""))),
        ("  *DONE*  ", Some((Done, ""))),
        ("Why so.\nIMPOSSIBLE\n", Some((Impossible, "Why so."))),
        ("VERDICT: DONE\nNo.\nVERDICT: RETRY", Some((Retry, "VERDICT: DONE\nNo."))),
        ("VERDICT: RETRY\nDONE", Some((Done, "VERDICT: RETRY"))),
        ("## Verdict:\nDONE", Some((Done, "## Verdict:"))),
        ("DONE\nVerdict:\n", Some((Done, "Verdict:"))),
        ("VERDICT: DONE or so I think", Some((Done, "or so I think"))),
        // Lines without a verdict.
        ("", None),
        ("done", None),
        ("Done.", None),
        ("RETRY - not done yet", None),
        ("unsuccessful", None),
        ("The task is incomplete.", None),
        ("The task is DONE", None),
        ("NOT DONE", None),
        ("Is it DONE? No: it is not.", None),
        ("VERDICT: not done", None),
        ("VERDICT: DONE\nVERDICT: not done after all", None),
        ("VERDICT: DONEISH", None),
        ("VERDICT: DONE_BUT", None),
        ("VERDICT: done-ish", None),
        ("VERDICT: DONE|RETRY|IMPOSSIBLE", None),
        ("VERDICT: DONE, RETRY or IMPOSSIBLE", None),
        ("VERDICT: DONE or RETRY", None),
        ("VERDICT: <DONE, RETRY or IMPOSSIBLE>", None),
        ("My verdict: DONE", None),
        ("VERDICT DONE", None),
        ("The verdict is: IMPOSSIBLE to say", None),
    ];

    #[test]
    fn replies_are_read_as_a_person_would() {
        for (reply, expected) in REPLIES {
            let judged = read(reply);
            let got = judged.as_ref();
            let got = got.map(|judged| (judged.verdict, judged.feedback.as_str()));
            assert_eq!(got, *expected, "{reply}");
        }
    }

    #[test]
    fn the_requested_format_is_not_itself_a_verdict() {
        assert_eq!(read(FORMAT), None);
        for part in FORMAT.lines() {
            assert_eq!(read(part), None, "{part}");
        }
        let repeated = format!("{FORMAT}\n\nIt works.\nVERDICT: DONE");
        assert_eq!(read(&repeated).map(|judged| judged.verdict), Some(Done));
        for (word, verdict) in WORDS {
            let filled = FORMAT
                .replace("<\"DONE\", \"RETRY\" or \"IMPOSSIBLE\">", &format!("{word:?}"))
                .replace("<what is missing and what to do, as one string>", "\"so\"");
            let feedback = "so".to_owned();
            assert_eq!(read(&filled), Some(Judged { verdict, feedback }));
        }
    }

    #[test]
    fn hostile_nesting_ends() {
        for hostile in ["{", "{\"a\":", "{\"a\":[", "[{", "{\"verdict\":\"DONE\",", "\\\"{"] {
            assert_eq!(read(&hostile.repeat(4_000)), None, "{hostile}");
        }
    }

    /// Prose without a line that is a verdict.
    fn prose() -> impl Strategy<Value = String> {
        "[a-z .,'é\n]{0,80}"
            .prop_filter("no verdict", |text| !text.to_lowercase().contains("verdict"))
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(\\PC|[{}\":,\\[\\]\n]|verdict|DONE){0,60}") {
            let _ = read(&text);
        }

        #[test]
        fn prose_without_a_verdict_has_none(text in prose()) {
            prop_assert_eq!(read(&text), None);
        }

        #[test]
        fn an_object_is_found_in_any_prose(before in prose(), after in prose(), feedback in "\\PC{1,40}") {
            prop_assume!(!feedback.trim().is_empty());
            let object = serde_json::json!({"verdict": "RETRY", "feedback": feedback});
            let text = format!("{before}{object}{after}");
            let verdict = Retry;
            prop_assert_eq!(read(&text), Some(Judged { verdict, feedback }));
        }

        #[test]
        fn a_line_is_found_in_any_prose(before in prose(), after in prose()) {
            let text = format!("{before}\n  **Verdict: IMPOSSIBLE**\n{after}");
            prop_assert_eq!(read(&text).map(|judged| judged.verdict), Some(Impossible));
        }

        #[test]
        fn no_words_around_a_word_make_it_a_verdict(before in "[a-z ]{0,20}[a-z] ", after in " [a-z][a-z ]{0,20}") {
            for (word, _) in WORDS {
                prop_assert_eq!(read(&format!("{before}{word}{after}")), None);
                prop_assert_eq!(read(&format!("{before}{word}")), None);
                prop_assert_eq!(read(&format!("{word}{after}")), None);
            }
        }
    }
}
