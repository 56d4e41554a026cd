//! The path of output from the program to its readers: it is masked, kept in the spool, drawn on
//! the emulated screen, and reported to watchers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mask::Masking;
use super::spool::SpoolWriter;
use crate::process::pty::TerminalSize;
use crate::task::live::LiveTask;
use crate::task::stream::StreamName;
use crate::task::terminal::Terminal;

/// For how long output is drawn in one turn of the worker: commands do not wait longer.
const DRAWING_PER_TURN: Duration = Duration::from_millis(20);
/// For how long remaining output is drawn when all is over.
const DRAWING_AT_THE_END: Duration = Duration::from_secs(1);

/// Frees space for output, on disk and in memory.
pub(crate) type OnPressure = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Collector {
    task: Arc<LiveTask>,
    stream: StreamName,
    pub(crate) spool: SpoolWriter,
    /// Hides secrets in the output.
    pub(crate) masking: Masking,
    /// The terminal's replies to queries in the output.
    replies: String,
    /// Until when output is drawn in this turn.
    draws_until: Instant,
    /// Called when the spools of all tasks together exceed the directory's quota.
    on_pressure: OnPressure,
}

impl Collector {
    pub(crate) fn new(
        task: Arc<LiveTask>,
        stream: StreamName,
        spool: SpoolWriter,
        on_pressure: OnPressure,
    ) -> Collector {
        let draws_until = task.facts.started.mono;
        Collector {
            task,
            stream,
            spool,
            masking: Masking::default(),
            replies: String::new(),
            draws_until,
            on_pressure,
        }
    }

    /// Begins a turn of the worker: continues with undrawn output; returns whether there was any.
    pub(crate) fn begin_turn(&mut self, now: Instant) -> bool {
        self.draws_until = now + DRAWING_PER_TURN;
        let was_behind = self.is_behind();
        if was_behind {
            self.draw(&[]);
        }
        was_behind
    }

    /// Whether there is undrawn output. The worker reads no more from the program until it is
    /// drawn.
    pub(crate) fn is_behind(&self) -> bool {
        self.task.terminal().is_some_and(Terminal::is_behind)
    }

    /// Whether a reader that must see each byte is so far behind that it could miss some.
    pub(crate) fn leaves_a_reader_behind(&self) -> bool {
        self.spool.leaves_behind(self.task.state().streams.get(self.stream).taken)
    }

    /// When to call again even if no output comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        let drawing = self.is_behind().then_some(self.draws_until);
        drawing.or(self.masking.due())
    }

    pub(crate) fn resize_screen(&self, size: TerminalSize) {
        if let Some(terminal) = self.task.terminal() {
            terminal.resize(size);
        }
    }

    /// After the last turn: draws the remaining output, unless there is no time for it. What is
    /// left over then is reported with the screen.
    pub(crate) fn close_screen(&self, hurries: bool) {
        let Some(terminal) = self.task.terminal() else {
            return;
        };
        if !hurries {
            // No program is left to read the terminal's replies.
            let _ = terminal.feed(&[], Instant::now() + DRAWING_AT_THE_END);
        }
        terminal.close();
    }

    /// Takes output of the program.
    pub(crate) fn take(&mut self, chunk: &[u8], now: Instant) {
        let shown = self.masking.pass(chunk, now);
        self.keep(&shown, now);
    }

    /// Takes what the mask no longer holds back; returns whether there was any.
    pub(crate) fn release(&mut self, now: Instant) -> bool {
        let shown = self.masking.release(now);
        shown.map(|shown| self.keep(&shown, now)).is_some()
    }

    /// Takes what the mask held back at the end of the output; returns whether there was any.
    pub(crate) fn finish(&mut self, now: Instant) -> bool {
        let rest = self.masking.finish();
        rest.map(|rest| self.keep(&rest, now)).is_some()
    }

    /// Takes the terminal's replies, for the program to read.
    pub(crate) fn take_replies(&mut self) -> String {
        std::mem::take(&mut self.replies)
    }

    fn draw(&mut self, output: &[u8]) {
        if let Some(terminal) = self.task.terminal() {
            let replies = terminal.feed(output, self.draws_until);
            self.replies.push_str(&replies);
        }
    }

    fn keep(&mut self, output: &[u8], now: Instant) {
        self.spool.append(output);
        self.draw(output);
        if self.spool.budget_exceeded() {
            (self.on_pressure)();
        }
        let spool = &self.spool;
        self.task.report_output(|state| {
            let stream = state.streams.get_mut(self.stream);
            stream.end = spool.end();
            stream.line_start = spool.line_start();
            stream.unfinished = spool.unfinished();
            state.last_output = Some(now);
            state.forget_detected();
        });
    }
}
