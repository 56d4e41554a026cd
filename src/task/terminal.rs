//! The emulated terminal of a task: the worker feeds it, requests look at it.
//!
//! Behind a lock of its own, since drawing takes longer than what is done under a task's
//! monitor. A few bytes may ask for the whole screen to be drawn anew: the worker says
//! until when it draws, and goes on later with what is left.

use std::time::Instant;

use parking_lot::Mutex;

use crate::process::pty::TerminalSize;
use crate::text::screen::{Modes, Screen, View};

/// Between two looks at the clock so many cells are drawn at most, some milliseconds'
/// work.
const CELLS_PER_STEP: usize = 1_000_000;

/// A screen, or what was last to be seen on it.
pub struct Terminal {
    kept: Mutex<Kept>,
}

enum Kept {
    Live(Box<Live>),
    /// The task is over: the emulation's own memory is given back.
    Last(Seen),
}

struct Live {
    screen: Screen,
    /// Output that is still to be drawn.
    undrawn: Vec<u8>,
}

/// What is to be seen on a terminal.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The screen.
    pub view: View,
    /// Bytes of output that it does not show yet, or never will once the task is over.
    pub undrawn: usize,
}

impl Terminal {
    /// An empty one.
    pub fn new(size: TerminalSize) -> Terminal {
        Terminal {
            kept: Mutex::new(Kept::Live(Box::new(Live {
                screen: Screen::new(size.rows, size.cols),
                undrawn: Vec::new(),
            }))),
        }
    }

    /// Takes output of the program and draws as much as it can until then; gives what the
    /// program is to read as answers to what it asked the terminal.
    pub fn feed(&self, bytes: &[u8], until: Instant) -> String {
        match &mut *self.kept.lock() {
            Kept::Live(live) => {
                live.feed(bytes, until);
                live.screen.take_replies()
            }
            Kept::Last(_) => String::new(),
        }
    }

    /// Whether there is output that is still to be drawn.
    pub fn is_behind(&self) -> bool {
        matches!(&*self.kept.lock(), Kept::Live(live) if !live.undrawn.is_empty())
    }

    /// Takes a new size.
    pub fn resize(&self, size: TerminalSize) {
        if let Kept::Live(live) = &mut *self.kept.lock() {
            live.screen.resize(size.rows, size.cols);
        }
    }

    /// No output will come: only what is to be seen is kept.
    pub fn close(&self) {
        let mut kept = self.kept.lock();
        if let Kept::Live(live) = &*kept {
            *kept = Kept::Last(live.seen());
        }
    }

    /// What is to be seen.
    pub fn seen(&self) -> Seen {
        match &*self.kept.lock() {
            Kept::Live(live) => live.seen(),
            Kept::Last(seen) => seen.clone(),
        }
    }

    /// What is to be seen, if it is that of a full-screen program: lines of output tell
    /// little then.
    pub fn full_screen(&self) -> Option<Seen> {
        match &*self.kept.lock() {
            Kept::Live(live) if live.screen.is_full_screen() => Some(live.seen()),
            Kept::Live(_) | Kept::Last(_) => None,
        }
    }

    /// Whether it is that of a full-screen program.
    pub fn is_full_screen(&self) -> bool {
        matches!(&*self.kept.lock(), Kept::Live(live) if live.screen.is_full_screen())
    }

    /// The modes that its program has switched; those of a fresh terminal once the task
    /// is over.
    pub fn modes(&self) -> Modes {
        match &*self.kept.lock() {
            Kept::Live(live) => live.screen.modes(),
            Kept::Last(_) => Modes::default(),
        }
    }
}

impl Live {
    fn feed(&mut self, bytes: &[u8], until: Instant) {
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

    fn seen(&self) -> Seen {
        Seen {
            view: self.screen.view(),
            undrawn: self.undrawn.len(),
        }
    }
}

/// Draws until then; gives how many bytes.
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
    fn what_is_not_drawn_in_time_is_drawn_later_and_told_until_then() {
        let terminal = Terminal::new(TerminalSize { rows: 2, cols: 10 });
        let past = Instant::now();
        let future = past + Duration::from_secs(60);
        assert_eq!(terminal.feed(b"one\x1b[6n", past), "");
        assert!(terminal.is_behind());
        assert_eq!(terminal.seen().undrawn, 7);
        assert_eq!(terminal.feed(b" two", future), "\x1b[1;4R");
        assert!(!terminal.is_behind());
        let seen = terminal.seen();
        assert_eq!((seen.view.rows[0].as_str(), seen.undrawn), ("one two", 0));
    }

    #[test]
    fn what_was_never_drawn_is_told_after_the_end() {
        let terminal = Terminal::new(TerminalSize { rows: 2, cols: 10 });
        terminal.feed(b"late", Instant::now());
        terminal.close();
        assert_eq!(terminal.seen().undrawn, 4);
        assert!(!terminal.is_behind());
    }
}
