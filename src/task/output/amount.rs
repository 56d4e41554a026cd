//! How much of an output a result shows, and of what.

use super::reading::{self, Amount};
use super::spool::Spool;
use crate::shell::command_line::CommandLine;
use crate::shell::purpose::{self, Prints};
use crate::task::live::End;
use crate::task::registry::TaskHandle;
use crate::task::stream::StreamName;
use crate::text::lines::{Choice, Position};
use crate::text::signs;

/// How much is shown besides what went wrong, in characters. Of 96 recorded failing test runs of 6 to
/// 350 KB, answers of this size keep all names and error lines in 23 % of the characters; a third more
/// kept no further fact, and a third less lost none but most of what surrounds them.
const BESIDES_FAILURES: usize = 9_000;
/// How much is shown of a command that succeeded, in characters.
const OF_SUCCESS: usize = 8_000;

/// What a result shows of a stream of a task up to `to`: as many characters as the caller has
/// `asked` for, otherwise at most `most`.
pub(crate) fn amount(
    task: &TaskHandle,
    stream: StreamName,
    to: Position,
    ended: Option<&End>,
    asked: Option<usize>,
    most: usize,
) -> Amount {
    let max_chars = asked.unwrap_or(most);
    // A character has at least one byte.
    if to.offset <= OF_SUCCESS.min(max_chars) as u64 {
        return Amount::of_ends(max_chars);
    }
    let has_succeeded = ended.is_some_and(|end| end.exit.code() == 0);
    match purpose::prints(&CommandLine::parse(&*task.live.facts.command)) {
        Prints::Data => Amount::of_ends(max_chars),
        Prints::Answers if has_succeeded => Amount::of_ends(max_chars),
        Prints::Text if !is_record(task.spools.get(stream), to) => Amount::of_ends(max_chars),
        Prints::Reports if has_succeeded => {
            let max_chars = asked.unwrap_or(most.min(OF_SUCCESS));
            Amount { max_chars, choice: Choice::Worth { aim: max_chars } }
        }
        Prints::Reports | Prints::Text | Prints::Answers => {
            let aim = asked.unwrap_or(BESIDES_FAILURES);
            Amount { max_chars, choice: Choice::Worth { aim } }
        }
    }
}

/// Whether what was printed is a record of what programs reported.
fn is_record(spool: &Spool, to: Position) -> bool {
    let (head, tail) = reading::head_and_tail(spool, to);
    head.lines().chain(tail.lines()).any(signs::is_of_a_record)
}
