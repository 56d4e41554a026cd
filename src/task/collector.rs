//! Output on its way from the program to those who read it: secrets masked, then kept in
//! the spool, drawn on the emulated screen, and told to watchers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::LiveTask;
use super::masking::Masking;
use super::spool::SpoolWriter;
use super::terminal::Terminal;
use crate::process::pty::TerminalSize;

/// In one turn of the worker output is drawn for so long: orders do not wait longer.
const DRAWING_PER_TURN: Duration = Duration::from_millis(20);
/// When all is over, what is still to be drawn is drawn for so long.
const DRAWING_AT_THE_END: Duration = Duration::from_secs(1);

/// Makes room on the disk.
pub type OnPressure = Arc<dyn Fn() + Send + Sync>;

/// Takes a task's output.
pub(super) struct Collector {
    task: Arc<LiveTask>,
    /// Where it is kept.
    pub spool: SpoolWriter,
    /// What hides secrets in it.
    pub masking: Masking,
    /// What the terminal answers to queries in the output.
    replies: String,
    /// Until when output is drawn in this turn.
    draws_until: Instant,
    /// Called when the spools of all tasks have passed the directory's quota.
    on_pressure: OnPressure,
}

impl Collector {
    /// A collector that has taken nothing yet.
    pub fn new(task: Arc<LiveTask>, spool: SpoolWriter, on_pressure: OnPressure) -> Collector {
        let draws_until = task.facts.started.mono;
        Collector {
            task,
            spool,
            masking: Masking::default(),
            replies: String::new(),
            draws_until,
            on_pressure,
        }
    }

    /// A turn of the worker begins: goes on with what is still to be drawn. The answer is
    /// whether there was any.
    pub fn begin_turn(&mut self, now: Instant) -> bool {
        self.draws_until = now + DRAWING_PER_TURN;
        let was_behind = self.is_behind();
        if was_behind {
            self.draw(&[]);
        }
        was_behind
    }

    /// Whether there is output that is still to be drawn. Until it is, the program has to
    /// wait with more.
    pub fn is_behind(&self) -> bool {
        self.task.terminal().is_some_and(Terminal::is_behind)
    }

    /// Whether a reader that must not miss a byte would miss some.
    pub fn leaves_a_reader_behind(&self) -> bool {
        self.spool.leaves_behind(self.task.state().taken)
    }

    /// When to turn to it again though nothing comes.
    pub fn due(&self) -> Option<Instant> {
        let drawing = self.is_behind().then_some(self.draws_until);
        drawing.or(self.masking.due())
    }

    /// The terminal has a new size.
    pub fn resize_screen(&self, size: TerminalSize) {
        if let Some(terminal) = self.task.terminal() {
            terminal.resize(size);
        }
    }

    /// No turn will come: draws what is left, unless there is no time for it. What is left
    /// over then is told with the screen.
    pub fn close_screen(&self, hurries: bool) {
        let Some(terminal) = self.task.terminal() else {
            return;
        };
        if !hurries {
            // Nobody is there to read what the terminal answers.
            let _ = terminal.feed(&[], Instant::now() + DRAWING_AT_THE_END);
        }
        terminal.close();
    }

    /// Takes what the program wrote.
    pub fn take(&mut self, chunk: &[u8], now: Instant) {
        let shown = self.masking.pass(chunk, now);
        self.keep(&shown, now);
    }

    /// Takes what the mask holds back no longer; the answer is whether there was any.
    pub fn release(&mut self, now: Instant) -> bool {
        let shown = self.masking.release(now);
        self.keep_all(shown.as_deref(), now)
    }

    /// Takes what the mask held back at the output's end; the answer is whether there
    /// was any.
    pub fn finish(&mut self, now: Instant) -> bool {
        let rest = self.masking.finish();
        self.keep_all(rest.as_deref(), now)
    }

    /// What the program is to read as the terminal's answers to what it has asked.
    pub fn take_replies(&mut self) -> String {
        std::mem::take(&mut self.replies)
    }

    fn draw(&mut self, output: &[u8]) {
        if let Some(terminal) = self.task.terminal() {
            let replies = terminal.feed(output, self.draws_until);
            self.replies.push_str(&replies);
        }
    }

    fn keep_all(&mut self, output: Option<&[u8]>, now: Instant) -> bool {
        if let Some(output) = output {
            self.keep(output, now);
        }
        output.is_some()
    }

    fn keep(&mut self, output: &[u8], now: Instant) {
        self.spool.append(output);
        self.draw(output);
        if self.spool.budget_exceeded() {
            (self.on_pressure)();
        }
        let end = self.spool.end();
        let line_start = self.spool.line_start();
        let unfinished = self.spool.unfinished();
        self.task.report(|state| {
            state.output_end = end;
            state.line_start = line_start;
            state.unfinished = unfinished;
            state.last_output = Some(now);
            state.forget_found();
        });
    }
}
