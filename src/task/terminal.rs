//! The emulated terminal of a task: the worker feeds it, requests read it.
//!
//! It has a lock of its own, since drawing takes longer than a task's monitor may be held. A few
//! bytes may redraw the whole screen: the worker sets a time limit for drawing, and draws the rest
//! later.

use std::time::Instant;

use parking_lot::Mutex;

use crate::process::pty::TerminalSize;
use crate::text::screen::{Modes, Screen, ScreenView};

/// How many cells are drawn between two readings of the clock: some milliseconds' work.
const CELLS_PER_STEP: usize = 1_000_000;

/// A screen, or its last content.
pub struct Terminal {
    state: Mutex<TerminalState>,
}

enum TerminalState {
    Live(Box<LiveScreen>),
    /// The task has ended: the emulation's own memory is freed.
    Last(ScreenContent),
}

struct LiveScreen {
    screen: Screen,
    /// Output that is not drawn yet.
    undrawn: Vec<u8>,
    /// How many bytes of output have come, drawn or not.
    fed: u64,
}

/// What draws a task's screen on another terminal.
#[derive(Debug, Clone)]
pub struct Drawing {
    pub bytes: Vec<u8>,
    /// The output that it includes ends here.
    pub end: u64,
    /// Whether it shows the alternate screen.
    pub alternate: bool,
}

/// The content of a screen.
#[derive(Debug, Clone)]
pub struct ScreenContent {
    pub view: ScreenView,
    /// How many bytes of output it does not show yet, or never will once the task has ended.
    pub undrawn: usize,
}

impl Terminal {
    pub fn new(size: TerminalSize) -> Terminal {
        Terminal {
            state: Mutex::new(TerminalState::Live(Box::new(LiveScreen {
                screen: Screen::new(size.rows, size.cols),
                undrawn: Vec::new(),
                fed: 0,
            }))),
        }
    }

    /// Uses the running program's screen; `None` once the task is over.
    fn live<R>(&self, action: impl FnOnce(&mut LiveScreen) -> R) -> Option<R> {
        match &mut *self.state.lock() {
            TerminalState::Live(live) => Some(action(live)),
            TerminalState::Last(_) => None,
        }
    }

    /// Takes output of the program and draws what it can until `until`; returns the terminal's
    /// replies to the program's queries.
    pub fn feed(&self, bytes: &[u8], until: Instant) -> String {
        let replies = self.live(|live| {
            live.feed(bytes, until);
            live.screen.take_replies()
        });
        replies.unwrap_or_default()
    }

    /// Whether there is undrawn output.
    pub fn is_behind(&self) -> bool {
        self.live(|live| !live.undrawn.is_empty()).unwrap_or(false)
    }

    pub fn resize(&self, size: TerminalSize) {
        self.live(|live| live.screen.resize(size.rows, size.cols));
    }

    /// Keeps only what is on the screen: no more output will come.
    pub fn close(&self) {
        let last = self.content();
        *self.state.lock() = TerminalState::Last(last);
    }

    /// What is on the screen.
    pub fn content(&self) -> ScreenContent {
        match &*self.state.lock() {
            TerminalState::Live(live) => live.seen(),
            TerminalState::Last(seen) => seen.clone(),
        }
    }

    /// What is on the screen of a full-screen program, whose lines of output say little.
    pub fn full_screen(&self) -> Option<ScreenContent> {
        self.live(|live| live.screen.is_full_screen().then(|| live.seen())).flatten()
    }

    /// Whether a full-screen program runs.
    pub fn is_full_screen(&self) -> bool {
        self.live(|live| live.screen.is_full_screen()).unwrap_or(false)
    }

    /// Whether the alternate screen is shown.
    pub fn is_alternate(&self) -> bool {
        self.live(|live| live.screen.is_alternate()).unwrap_or(false)
    }

    /// Its size; `None` once the task is over.
    pub fn size(&self) -> Option<TerminalSize> {
        self.live(|live| {
            let (rows, cols) = live.screen.size();
            TerminalSize { rows, cols }
        })
    }

    /// What draws the screen elsewhere; `None` once the task is over.
    pub fn drawing(&self) -> Option<Drawing> {
        self.live(|live| {
            let mut bytes = live.screen.drawing();
            bytes.extend_from_slice(&live.undrawn);
            Drawing { bytes, end: live.fed, alternate: live.screen.is_alternate() }
        })
    }

    /// The modes that its program has set; those of a new terminal once the task has ended.
    pub fn modes(&self) -> Modes {
        self.live(|live| live.screen.modes()).unwrap_or_default()
    }
}

impl LiveScreen {
    fn feed(&mut self, bytes: &[u8], until: Instant) {
        self.fed += bytes.len() as u64;
        if self.undrawn.is_empty() {
            let drawn = draw(&mut self.screen, bytes, until);
            let rest = bytes.get(drawn..).unwrap_or_default();
            self.undrawn.extend_from_slice(rest);
        } else {
            self.undrawn.extend_from_slice(bytes);
            let drawn = draw(&mut self.screen, &self.undrawn, until);
            self.undrawn.drain(..drawn);
        }
    }

    fn seen(&self) -> ScreenContent {
        ScreenContent { view: self.screen.view(), undrawn: self.undrawn.len() }
    }
}

/// Draws until `until`; returns the number of bytes drawn.
fn draw(screen: &mut Screen, bytes: &[u8], until: Instant) -> usize {
    let step = (CELLS_PER_STEP / screen.cells().max(1)).max(1);
    let mut drawn = 0;
    for piece in bytes.chunks(step) {
        if Instant::now() >= until {
            break;
        }
        screen.feed(piece);
        drawn += piece.len();
    }
    drawn
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Terminal")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn output_that_is_not_drawn_in_time_is_counted_and_drawn_later() {
        let terminal = Terminal::new(TerminalSize { rows: 2, cols: 10 });
        let past = Instant::now();
        let future = past + Duration::from_secs(60);
        assert_eq!(terminal.feed(b"one\x1b[6n", past), "");
        assert!(terminal.is_behind());
        assert_eq!(terminal.content().undrawn, 7);
        assert_eq!(terminal.feed(b" two", future), "\x1b[1;4R");
        assert!(!terminal.is_behind());
        let seen = terminal.content();
        assert_eq!((seen.view.rows[0].as_str(), seen.undrawn), ("one two", 0));
    }

    #[test]
    fn output_that_was_never_drawn_is_counted_after_the_end() {
        let terminal = Terminal::new(TerminalSize { rows: 2, cols: 10 });
        terminal.feed(b"late", Instant::now());
        terminal.close();
        assert_eq!(terminal.content().undrawn, 4);
        assert!(!terminal.is_behind());
    }
}
