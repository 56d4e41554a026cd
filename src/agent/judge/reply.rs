//! Reads a model's reply: a letter at its beginning, and a reason.
//!
//! Models decorate the letter (`**B**`, `(C)`, `> d.`) or write prose instead. Prose that happens
//! to begin with a letter must not count as an answer: `A build is running`, `D-Bus is down`,
//! `C:\Users`, `B or C`. A letter has consequences, so a doubtful reply is [`Finding::Unknown`].
//!
//! Limits: English; the letter must be at the beginning (not `Answer: B`). Pure.

use super::{Finding, Judgement};
use crate::text::lines::truncate;

/// How much of the reason is kept, in characters.
const MAX_REASON: usize = 400;

/// Characters that may surround the letter: emphasis, quotes, brackets, headings, list marks.
const MARKUP: &[char] = &[
    '*', '_', '`', '#', '>', '~', '-', '•', '"', '\'', '“', '”', '‘', '’', '«', '»', '(', '[', '{',
];

/// Characters that may close the emphasis or quotes around the letter.
const CLOSING: [char; 7] = ['*', '_', '`', '~', '"', '”', '\''];

/// Words that never follow an article, so that an `A` before them is an answer. The first is the
/// first word of option A.
const AFTER_NO_ARTICLE: &[&str] = &[
    "making", "the", "this", "that", "these", "it", "its", "it's", "there", "because", "since",
    "as",
];

/// Words that join the letter with another one; the reply then chooses neither.
const JOINING: &[&str] = &["or", "and", "nor", "vs", "versus"];

/// Words that negate the letter before them (`B is not …`).
const NEGATING: &[&str] = &["not", "wrong", "incorrect", "false", "unlikely", "neither"];

/// Parses a reply. Anything other than an answer is unknown, with the reply's beginning as the
/// reason.
pub(crate) fn parse(reply: &str) -> Judgement {
    let reply = without_thoughts(reply).trim();
    let (finding, reason) = match answer(reply) {
        Some((finding, rest)) => (finding, reason(rest)),
        None => (Finding::Unknown, reply),
    };
    Judgement { finding, reason: truncate(reason, MAX_REASON).into_owned() }
}

/// The reply without the thinking that some models put before it.
fn without_thoughts(reply: &str) -> &str {
    match reply.trim_start().strip_prefix("<think>") {
        Some(thoughts) => thoughts.split_once("</think>").map_or(reply, |(_, after)| after),
        None => reply,
    }
}

/// The letter's finding and what follows the letter.
fn answer(reply: &str) -> Option<(Finding, &str)> {
    let start = reply.trim_start_matches(|c: char| MARKUP.contains(&c) || c.is_whitespace());
    let opened = reply.get(..reply.len() - start.len()).unwrap_or_default();
    let mut characters = start.chars();
    let letter = characters.next()?;
    let finding = Finding::from_letter(letter)?;
    let rest = characters.as_str();
    (ends_the_letter(rest, opened) && !is_one_of_several(rest) && !is_prose(letter, rest))
        .then_some((finding, rest))
}

/// Whether the letter is a separate word instead of the beginning of a word or a name.
fn ends_the_letter(rest: &str, opened: &str) -> bool {
    let mut characters = rest.chars();
    let Some(next) = characters.next() else {
        return true;
    };
    let after = characters.next();
    let is_glued = after.is_some_and(char::is_alphanumeric);
    match next {
        ')' | ']' | '}' | ',' | ';' | '!' | '…' | '–' | '—' | '”' | '’' | '»' => true,
        // `C:\Users`, `C:/Users`.
        ':' => !matches!(after, Some('\\' | '/')),
        // `a.out`, `D-Bus`, `d'accord`.
        '.' | '-' | '\'' | '"' => !is_glued,
        // `A_VARIABLE` is a name, but `_A_` closes the emphasis before the letter.
        '*' | '_' | '`' | '~' => opened.contains(next) || !is_glued,
        _ => next.is_whitespace(),
    }
}

/// Whether the reply offers another letter too: `A/B/C/D`, `B or C`, `A, B`.
fn is_one_of_several(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let after_marks = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut words = words(after_marks);
    let first = words.next().unwrap_or_default();
    let second = words.next();
    if is_joining(first) {
        return second.is_some_and(is_letter);
    }
    // `B: a loop`, `B) A build repeats`: the article.
    let is_article = first.eq_ignore_ascii_case("a")
        && is_followed_by_word(after_marks)
        && !second.is_some_and(is_joining);
    is_letter(first) && !is_article
}

fn is_joining(word: &str) -> bool {
    JOINING.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether the letter is a word of a sentence.
fn is_prose(letter: char, rest: &str) -> bool {
    let without_quotes = rest.trim_start_matches(CLOSING);
    let is_wrapped = without_quotes.len() < rest.len();
    let is_blank = |c: char| c.is_whitespace() && c != '\n';
    let after = without_quotes.trim_start_matches(is_blank);
    if after.len() == without_quotes.len() {
        return false;
    }
    // `A & B`, `C + 1`, `C # comment`, `A / B`: the character neither begins a word nor ends a
    // letter.
    if after.starts_with(['&', '+', '#', '/', '\\', '%', '<', '?', '^', '@', '$']) {
        return true;
    }
    if !after.starts_with(char::is_alphanumeric) {
        return false;
    }
    let mut words = words(after);
    let first = words.next().unwrap_or_default().to_lowercase();
    let second = words.next().unwrap_or_default().to_lowercase();
    // An article is never emphasised or quoted.
    let is_article = letter.eq_ignore_ascii_case(&'a')
        && !is_wrapped
        && !AFTER_NO_ARTICLE.contains(&first.as_str());
    is_article || is_negated(&first, &second)
}

/// `B is not …`, `B isn't …`.
fn is_negated(first: &str, second: &str) -> bool {
    let is_verb = ["is", "was", "seems", "can", "could", "would", "does"].contains(&first);
    first.ends_with("n't")
        || first.ends_with("n’t")
        || first == "cannot"
        || (is_verb && NEGATING.contains(&second))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '’';
    text.split(move |c: char| !is_part(c)).filter(|word| !word.is_empty())
}

fn is_letter(word: &str) -> bool {
    let mut characters = word.chars();
    let letter = characters.next().and_then(Finding::from_letter);
    letter.is_some() && characters.next().is_none()
}

fn is_followed_by_word(text: &str) -> bool {
    let mut characters = text.chars().skip(1);
    characters.next() == Some(' ') && characters.next().is_some_and(char::is_alphanumeric)
}

/// The text after the letter, without the separator.
fn reason(rest: &str) -> &str {
    let is_separator = |c: char| {
        c.is_whitespace()
            || matches!(c, ')' | ']' | '}' | ':' | '.' | ',' | ';' | '=' | '!')
            || matches!(c, '…' | '-' | '–' | '—' | '>' | '*' | '_' | '`' | '~')
            || matches!(c, '"' | '\'' | '”' | '’' | '»')
    };
    rest.trim_start_matches(is_separator).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Finding::{Blocked, Failed, Loop, Progress, Unknown};
    use proptest::prelude::*;

    #[test]
    fn replies_read_as_a_person_would_read_them() {
        for (reply, wanted) in [
            // The letter, plain or decorated.
            ("A", Progress),
            ("b", Loop),
            ("  C  \n", Blocked),
            ("D.", Failed),
            ("A: output grows steadily", Progress),
            ("A - slow but working", Progress),
            ("A. It writes files.", Progress),
            ("B) repeats `ls`", Loop),
            ("b) repeats", Loop),
            ("(C)", Blocked),
            ("(c) waits for the network", Blocked),
            ("[D] error", Failed),
            ("**B**", Loop),
            ("**B** - the same three calls", Loop),
            ("**B) Stuck in a loop**", Loop),
            ("__d__: crashed", Failed),
            ("**B**the same call", Loop),
            ("`B`", Loop),
            ("\"C\"", Blocked),
            ("“C” waits", Blocked),
            ("# B", Loop),
            ("> - D: out of memory", Failed),
            ("- A: fine", Progress),
            ("B\nThe agent repeats itself.", Loop),
            ("B—it repeats", Loop),
            ("C, it waits for a lock", Blocked),
            ("D; exit code 1", Failed),
            ("D!", Failed),
            ("B… it repeats", Loop),
            ("B) A loop of the same calls", Loop),
            ("C: a lock is held", Blocked),
            ("B -> loop", Loop),
            ("B = loop", Loop),
            ("B (loop)", Loop),
            ("A:slow", Progress),
            // A letter and a word: an answer unless it is the article.
            ("B stuck in a loop", Loop),
            ("b the agent repeats the same action", Loop),
            ("C blocked waiting for the network", Blocked),
            ("C not responding, waits for a lock", Blocked),
            ("D failed with exit code 1", Failed),
            ("B a build is started again and again", Loop),
            ("A making progress (slow but working)", Progress),
            ("A Making progress", Progress),
            ("A the agent writes new files", Progress),
            ("A because output grows", Progress),
            ("A build is running", Unknown),
            ("a build is running", Unknown),
            ("A progress bar is shown", Unknown),
            ("A loop was detected", Unknown),
            ("A slow but steady build", Unknown),
            ("*A build is running*", Unknown),
            ("**A** slow build, and it gets on", Progress),
            // Words, names and paths.
            ("Certainly", Unknown),
            ("Certainly! B", Unknown),
            ("Answer: B", Unknown),
            ("Blocked", Unknown),
            ("Done", Unknown),
            ("An agent at work", Unknown),
            ("a.out crashed", Unknown),
            ("D-Bus is down", Unknown),
            ("d'accord", Unknown),
            ("C++ is compiled", Unknown),
            ("C# build", Unknown),
            ("C & D", Unknown),
            ("C:\\Users is missing", Unknown),
            ("c:/users is missing", Unknown),
            ("A_VARIABLE is unset", Unknown),
            ("B2 is the bucket", Unknown),
            ("Écran", Unknown),
            ("Á", Unknown),
            ("А", Unknown), // Cyrillic.
            // More than one letter, or a negated one.
            ("A/B/C/D", Unknown),
            ("A / B", Unknown),
            ("A|B", Unknown),
            ("A, B and C are possible", Unknown),
            ("B or C", Unknown),
            ("B and D", Unknown),
            ("B, A or C", Unknown),
            ("A–D", Unknown),
            ("B? hard to say", Unknown),
            ("B is not the case", Unknown),
            ("B isn't it", Unknown),
            ("**B** is not the case", Unknown),
            ("B: is not getting anywhere", Loop),
            ("B is my answer", Loop),
            // Nothing, or something else.
            ("", Unknown),
            ("   \n", Unknown),
            ("***", Unknown),
            ("E", Unknown),
            ("1) progress", Unknown),
            ("{\"status\": \"B\"}", Unknown),
            ("I think it is B", Unknown),
            ("<think>Could be A.\nOr B.</think>\n\n**B** - loops", Loop),
            ("<think>B", Unknown),
        ] {
            assert_eq!(parse(reply).finding, wanted, "{reply:?}");
        }
    }

    #[test]
    fn the_reason_follows_the_letter() {
        for (reply, reason) in [
            ("B) repeats `ls`", "repeats `ls`"),
            ("**B** - the same (again)", "the same (again)"),
            ("B\nThe agent repeats itself.", "The agent repeats itself."),
            ("C (network)", "(network)"),
            ("A", ""),
            ("Certainly", "Certainly"),
        ] {
            assert_eq!(parse(reply).reason, reason, "{reply:?}");
        }
        let long = format!("B {}", "é".repeat(5_000));
        assert_eq!(parse(&long).reason.chars().count(), MAX_REASON + 1);
    }

    proptest! {
        #[test]
        fn no_reply_panics(reply in any::<String>()) {
            parse(&reply);
        }

        #[test]
        fn no_reply_made_of_significant_parts_panics(
            reply in "[A-Da-d*_`'\"()\\[\\]:.,;/ \n<>é—-]{0,12}"
        ) {
            parse(&reply);
        }

        #[test]
        fn a_reply_that_begins_with_a_longer_word_is_unknown(
            word in "[A-Za-z]{2,10}", rest in "[ :,.].{0,20}"
        ) {
            let reply = format!("{word}{rest}");
            prop_assert_eq!(parse(&reply).finding, Unknown);
        }
    }
}
