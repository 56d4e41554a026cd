//! Output on its way from the program to those who read it: secrets masked, then kept in
//! the spool, drawn on the emulated screen, and told to watchers.

use std::sync::Arc;
use std::time::Instant;

use super::live::LiveTask;
use super::masking::Masking;
use super::spool::SpoolWriter;

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
    /// Called when the spools of all tasks have passed the directory's quota.
    on_pressure: OnPressure,
}

impl Collector {
    /// A collector that has taken nothing yet.
    pub fn new(task: Arc<LiveTask>, spool: SpoolWriter, on_pressure: OnPressure) -> Collector {
        Collector {
            task,
            spool,
            masking: Masking::default(),
            replies: String::new(),
            on_pressure,
        }
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

    fn keep_all(&mut self, output: Option<&[u8]>, now: Instant) -> bool {
        if let Some(output) = output {
            self.keep(output, now);
        }
        output.is_some()
    }

    fn keep(&mut self, output: &[u8], now: Instant) {
        self.spool.append(output);
        self.replies.push_str(&self.task.draw(output));
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
