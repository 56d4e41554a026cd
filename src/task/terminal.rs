//! The emulated terminal of a task: the worker feeds it, requests look at it.
//!
//! Behind a lock of its own, since drawing takes longer than what is done under a task's
//! monitor. Work under the lock is bounded by one read of the worker.

use parking_lot::Mutex;

use crate::process::pty::TerminalSize;
use crate::text::screen::{Modes, Screen, View};

/// A screen, or what was last to be seen on it.
pub struct Terminal {
    kept: Mutex<Kept>,
}

enum Kept {
    Live(Box<Screen>),
    /// The task is over: the emulation's own memory is given back.
    Last(View),
}

impl Terminal {
    /// An empty one.
    pub fn new(size: TerminalSize) -> Terminal {
        Terminal {
            kept: Mutex::new(Kept::Live(Box::new(Screen::new(size.rows, size.cols)))),
        }
    }

    /// Takes output of the program; gives what it is to read as answers to what it asked
    /// the terminal.
    pub fn feed(&self, bytes: &[u8]) -> String {
        match &mut *self.kept.lock() {
            Kept::Live(screen) => {
                screen.feed(bytes);
                screen.take_replies()
            }
            Kept::Last(_) => String::new(),
        }
    }

    /// Takes a new size.
    pub fn resize(&self, size: TerminalSize) {
        if let Kept::Live(screen) = &mut *self.kept.lock() {
            screen.resize(size.rows, size.cols);
        }
    }

    /// No output will come: only what is to be seen is kept.
    pub fn close(&self) {
        let mut kept = self.kept.lock();
        if let Kept::Live(screen) = &*kept {
            *kept = Kept::Last(screen.view());
        }
    }

    /// What is to be seen.
    pub fn view(&self) -> View {
        match &*self.kept.lock() {
            Kept::Live(screen) => screen.view(),
            Kept::Last(view) => view.clone(),
        }
    }

    /// The modes that its program has switched; those of a fresh terminal once the task
    /// is over.
    pub fn modes(&self) -> Modes {
        match &*self.kept.lock() {
            Kept::Live(screen) => screen.modes(),
            Kept::Last(_) => Modes::default(),
        }
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Terminal")
    }
}
