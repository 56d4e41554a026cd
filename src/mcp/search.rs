//! `grep` over a task's output: lines that match, with their numbers and their context.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;

use regex::Regex;

use crate::task::reading;
use crate::task::spool::Spool;
use crate::text::ansi::{self, Colours};
use crate::text::lines::{self, LINE_CHARS, Place, Shown, grouped};

/// The lines that are searched, both ends included.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// From 1.
    pub first: u64,
    /// `u64::MAX`: to the end.
    pub last: u64,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    rows: Vec<String>,
    first: u64,
    last: u64,
    matches: u64,
    unshown: u64,
    /// The first match that is not shown.
    next: Option<u64>,
}

struct Search<'a> {
    pattern: &'a Regex,
    context: usize,
    max_chars: usize,
    chars: usize,
    found: Found,
    before: VecDeque<(u64, String)>,
    /// Lines of context still to come after a match.
    after: usize,
}

/// Searches the output of a task whose terminal, if it has one, has this width; at most
/// `max_chars` of lines are kept, all matches are counted.
///
/// # Errors
/// When a spool file cannot be read.
pub fn grep(
    spool: &Spool,
    end: Place,
    columns: Option<u16>,
    pattern: &Regex,
    range: Range,
    context: usize,
    max_chars: usize,
) -> io::Result<Found> {
    let mut search = Search {
        pattern,
        context,
        max_chars,
        chars: 0,
        found: Found::default(),
        before: VecDeque::new(),
        after: 0,
    };
    let Some(from) = spool.find_line(range.first, end)? else {
        return Ok(search.found);
    };
    reading::for_each_line(spool, from, end.at.offset, |position, bytes| {
        if position.line > range.last {
            return ControlFlow::Break(());
        }
        let text = ansi::readable(bytes, Colours::Drop, columns);
        search.visit(position.line, &text);
        ControlFlow::Continue(())
    })?;
    Ok(search.found)
}

impl Search<'_> {
    fn visit(&mut self, number: u64, text: &str) {
        let clipped = || lines::clip(text, LINE_CHARS);
        if self.pattern.is_match(text) {
            self.found.matches += 1;
            if self.chars >= self.max_chars {
                self.found.unshown += 1;
                self.found.next.get_or_insert(number);
                return;
            }
            for (number, text) in std::mem::take(&mut self.before) {
                self.push(number, '-', &text);
            }
            self.push(number, ':', &clipped());
            self.after = self.context;
        } else if self.after > 0 {
            self.after -= 1;
            self.push(number, '-', &clipped());
        } else if self.context > 0 {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back((number, clipped()));
        }
    }

    fn push(&mut self, number: u64, sign: char, text: &str) {
        let found = &mut self.found;
        if self.context > 0 && found.last > 0 && number > found.last + 1 {
            found.rows.push("--".to_owned());
        }
        let row = format!("{number}{sign} {text}");
        self.chars += row.chars().count() + 1;
        found.rows.push(row);
        if found.first == 0 {
            found.first = number;
        }
        found.last = number;
    }
}

impl Found {
    /// As the body of a result.
    pub fn into_shown(mut self, pattern: &Regex, task: &str) -> Shown {
        if self.matches == 0 {
            self.rows.push(format!("(no line matches {pattern})"));
        }
        if let Some(next) = self.next {
            self.rows.push(format!(
                "… {} more matches: zsh_poll task_id={task} grep=… from_line={next} …",
                grouped(self.unshown)
            ));
        }
        Shown {
            text: self.rows.join("\n"),
            from_line: self.first,
            to_line: self.last,
            omitted_lines: 0,
        }
    }
}
