//! What differs between the output of a command's run and that of its last run before: lines that are
//! new, and lines that are gone.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::dispatch::{Answer, ClientProfile, NoResult, Tools, poll_call, refused, unreadable};
use super::render::notes::ResultNote;
use super::render::result::TaskResult;
use super::render::view::View;
use crate::task::output::reading;
use crate::task::registry::TaskHandle;
use crate::task::stream::StreamName;
use crate::text::ansi::Colours;
use crate::text::foreign::ShowPath;
use crate::text::lines::{self, LINE_CHARS, LinePosition, Position, Room, Shown};
use crate::text::quantity::grouped;

/// How much of the end of each output is compared.
const COMPARED_BYTES: u64 = 16 * 1024 * 1024;

/// A line of an output: its number and its text.
type NumberedLine = (u64, String);

impl Tools {
    /// The result that compares the task's output with that of the last run of the same command in the
    /// same directory. Shows no output as read: it stays new.
    pub(super) fn diff_with_last(
        &self,
        task: &Arc<TaskHandle>,
        mut notes: Vec<ResultNote>,
        max_output: usize,
        client: ClientProfile,
    ) -> Answer {
        let facts = &task.live.facts;
        let before = self
            .supervisor
            .tasks()
            .into_iter()
            .filter(|other| {
                let others = &other.live.facts;
                others.command == facts.command
                    && others.directory == facts.directory
                    && others.started.unix_seconds() < facts.started.unix_seconds()
                    && other.live.state().ended.is_some()
            })
            .max_by(|one, other| {
                let started = |task: &TaskHandle| task.live.facts.started.unix_seconds();
                started(one).total_cmp(&started(other))
            });
        let Some(before) = before else {
            return Err(refused(format!(
                "no earlier run of this command in {} is kept: leave diff out",
                facts.directory.shown()
            )));
        };
        let view = View::take(&task.live);
        let now = lines_of(task, view.deltas.output.to)?;
        let then = lines_of(&before, View::take(&before.live).deltas.output.to)?;
        let (new, gone) = (not_in(&now, &then), not_in(&then, &now));
        notes.push(ResultNote::info(format!(
            "compared with task {}, numbers aside: {} new (+), {} gone (-).",
            before.id(),
            lines::lines_of(new.len() as u64),
            lines::lines_of(gone.len() as u64)
        )));
        let shown = shown(
            &new,
            &gone,
            client.room(max_output),
            &poll_call(task, StreamName::Output),
            &poll_call(&before, StreamName::Output),
        );
        let result = TaskResult { shown, ..TaskResult::new(view, notes) };
        Ok(self.task_result(task, result, client))
    }
}

/// The lines of the end of an output.
fn lines_of(task: &TaskHandle, to: LinePosition) -> Result<Vec<NumberedLine>, NoResult> {
    let columns = task.live.state().columns;
    let begin = to.at.offset.saturating_sub(COMPARED_BYTES);
    let from = task.spools.output.position_of(begin).map_err(|error| unreadable(task, &error))?;
    let mut found = Vec::new();
    if let Some(from) = from {
        let visit = |position: Position, bytes: &[u8]| {
            let text = lines::text_of(bytes, Colours::Drop, columns);
            found.push((position.line, text));
            ControlFlow::Continue(())
        };
        reading::for_each_line(&task.spools.output, from, to.at.offset, visit)
            .map_err(|error| unreadable(task, &error))?;
    }
    Ok(found)
}

/// The lines that are not among the others, each as often as it is there more often.
fn not_in<'a>(lines: &'a [NumberedLine], others: &[NumberedLine]) -> Vec<&'a NumberedLine> {
    let mut known: HashMap<String, usize> = HashMap::new();
    for (_, text) in others {
        *known.entry(lines::without_numbers(text)).or_default() += 1;
    }
    let is_new = |line: &&NumberedLine| {
        let text = lines::without_numbers(&line.1);
        match known.get_mut(&text) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => !line.1.trim().is_empty(),
        }
    };
    lines.iter().filter(is_new).collect()
}

/// The new lines, then those that are gone, as far as there is room.
fn shown(
    new: &[&NumberedLine],
    gone: &[&NumberedLine],
    mut room: Room,
    reader: &str,
    reader_before: &str,
) -> Shown {
    let mut rows = Vec::new();
    let mut omitted = Vec::new();
    let parts = [("+", new, reader), ("-", gone, reader_before)];
    for (sign, lines, reader) in parts {
        for (place, (number, text)) in lines.iter().enumerate() {
            let text = lines::elide_middle(text, LINE_CHARS).replace('\n', " ⏎ ");
            let row = format!("{sign}{number}: {text}");
            if !room.take_line(&row) {
                let left = grouped((lines.len() - place) as u64);
                omitted.push(format!("{left} more {sign}: {reader} from_line={number}"));
                break;
            }
            rows.push(row);
        }
    }
    let lines = new.iter().map(|line| line.0);
    Shown {
        text: rows.join("\n"),
        from_line: lines.clone().min().unwrap_or_default(),
        to_line: lines.max().unwrap_or_default(),
        omission: omitted.join("; "),
        ..Shown::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_as_often_as_they_are_there_and_numbers_do_not() {
        let numbered = |text: &str| -> Vec<NumberedLine> {
            (1..).zip(text.lines().map(str::to_owned)).collect()
        };
        let before = numbered("a\nsame\nsame\nran in 0.05 s\ntest_1\n\n");
        let now = numbered("b\nsame\nsame\nsame\nran in 1.7 s\ntest_2\n");
        let texts = |lines: Vec<&NumberedLine>| -> Vec<String> {
            lines.into_iter().map(|(number, text)| format!("{number}{text}")).collect()
        };
        assert_eq!(texts(not_in(&now, &before)), ["1b", "4same", "6test_2"]);
        assert_eq!(texts(not_in(&before, &now)), ["1a", "5test_1"]);
    }
}
