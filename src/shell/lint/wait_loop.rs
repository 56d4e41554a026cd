//! Finds loops that may wait forever.
//!
//! A loop waits if it sleeps, or if its body does nothing. A counter or a use of the clock counts
//! as its deadline, whatever the loop does with it: a doubtful case gives no warning. A loop that
//! reads lines ends with its input. Pure.

use crate::shell::command_line::CommandLine;
use crate::shell::prefix::base_name;
use crate::shell::token::{Reserved, Token, TokenKind, WordRole};

/// What a loop has done so far.
#[derive(Debug, Clone, Copy, Default)]
struct Loop {
    depth: u32,
    in_body: bool,
    sleeps: bool,
    reads: bool,
    has_deadline: bool,
    /// Whether commands in its head and in its body do something.
    head_works: bool,
    body_works: bool,
}

impl Loop {
    fn waits_forever(self) -> bool {
        let is_busy = self.in_body && self.head_works && !self.body_works;
        (self.sleeps || is_busy) && !self.reads && !self.has_deadline
    }
}

const SLEEP: &[&str] = &["sleep", "usleep"];
/// Commands that do nothing.
const IDLE: &[&str] = &[":", "true"];
/// Commands that count.
const COUNT: &[&str] = &["let", "expr", "shift"];
/// Text that counts or reads the clock.
const COUNT_TEXT: &[&str] = &["$((", "$[", "SECONDS", "EPOCH", "date +%s"];

/// Whether a `while` or `until` waits without a deadline.
pub(super) fn waits_without_deadline(line: &CommandLine) -> bool {
    let mut open: Vec<Loop> = Vec::new();
    for token in &line.lexed().tokens {
        let word = line.written(&token.span);
        if let TokenKind::Reserved(Reserved::While | Reserved::Until) = token.kind {
            open.push(Loop { depth: token.depth, ..Loop::default() });
            continue;
        }
        let Some(innermost) = open.last_mut() else {
            continue;
        };
        if token.depth > innermost.depth {
            inspect(innermost, token, word);
            continue;
        }
        if !matches!(token.kind, TokenKind::Reserved(Reserved::Done | Reserved::BraceClose)) {
            continue;
        }
        let Some(ended) = open.pop() else { continue };
        if ended.waits_forever() {
            return true;
        }
        // The outer loop includes the actions of its inner loop.
        if let Some(outer) = open.last_mut() {
            outer.sleeps |= ended.sleeps;
            outer.has_deadline |= ended.has_deadline;
            outer.body_works = true;
        }
    }
    open.iter().any(|unfinished| unfinished.waits_forever())
}

fn inspect(found: &mut Loop, token: &Token, word: &str) {
    match token.kind {
        TokenKind::Reserved(Reserved::Do | Reserved::BraceOpen)
            if token.depth == found.depth + 1 =>
        {
            found.in_body = true;
        }
        TokenKind::Word(WordRole::Command) => {
            let name = base_name(word);
            found.sleeps |= SLEEP.contains(&name);
            found.reads |= name == "read" && !found.in_body;
            found.has_deadline |= COUNT.contains(&name);
            works(found, !IDLE.contains(&name));
        }
        // `((1))` counts nothing.
        TokenKind::Arithmetic => {
            found.has_deadline |= word.contains(|letter: char| letter.is_alphabetic());
            works(found, true);
        }
        TokenKind::Reserved(Reserved::ConditionOpen) => works(found, true),
        TokenKind::Assignment => found.has_deadline |= word.contains("+="),
        _ => {}
    }
    let may_count = matches!(token.kind, TokenKind::Word(_) | TokenKind::Assignment);
    found.has_deadline |= may_count && COUNT_TEXT.iter().any(|text| word.contains(text));
}

fn works(found: &mut Loop, does: bool) {
    if found.in_body {
        found.body_works |= does;
    } else {
        found.head_works |= does;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: &[&str] = &[
        "while ! curl -s localhost:80; do sleep 1; done",
        "until nc -z localhost 5432; do sleep 0.5; done; echo up",
        "until curl -s x >/dev/null 2>&1\ndo\n  echo waiting\n  sleep 2\ndone",
        "while true; do curl -s x && break; sleep 1; done",
        "while kill -0 $pid; do sleep 1; done",
        "while ! test -f done; do :; done",
        "until [[ -f x ]] { sleep 1 }",
        "while sleep 5; do date; done",
        "while [ \"$(curl -s -o /dev/null -w '%{http_code}' x)\" -ne 200 ]; do sleep 1; done",
        "for h in a b; do until ping -c1 $h; do sleep 1; done; done",
        "while true; do until a; do b; done; sleep 9; done",
        "(( 1 )); while (( 1 )); do sleep 1; done",
    ];

    const BOUNDED: &[&str] = &[
        "for i in {1..30}; do curl -s x && break; sleep 1; done",
        "for i in $(seq 30); do curl -s x && break; sleep 1; done",
        "repeat 30 { curl -s x && break; sleep 1 }",
        "i=0; until curl -s x; do (( ++i > 30 )) && break; sleep 1; done",
        "i=0; until curl -s x || [ $i -ge 30 ]; do i=$((i+1)); sleep 1; done",
        "while (( SECONDS < 60 )); do curl -s x && break; sleep 1; done",
        "end=$(( $(date +%s) + 60 )); until a || [ $(date +%s) -gt $end ]; do date; sleep 1; done",
        "n=0; while a; do n+=1; sleep 1; done",
        "while read -r line; do echo $line; sleep 1; done < file",
        "while IFS= read -r line; do sleep 1; done < file",
        "while (( i < 5 )); do echo $i; i=$((i + 1)); done",
        "echo 'while true; do sleep 1; done'",
        "sleep 5; while true; do make && break; done",
        "cat <<E\nwhile true; do sleep 1; done\nE",
    ];

    #[test]
    fn loops_without_a_deadline_are_found() {
        for command in WAIT {
            assert!(waits_without_deadline(&CommandLine::parse(*command)), "{command}");
        }
    }

    #[test]
    fn loops_that_count_or_read_are_no_finding() {
        for command in BOUNDED {
            assert!(!waits_without_deadline(&CommandLine::parse(*command)), "{command}");
        }
    }
}
