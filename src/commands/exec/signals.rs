//! The signals that `exec` takes: the first that asks for the end is told to the main
//! thread, the second ends everything at once.

use std::io;
use std::sync::Arc;

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

use crate::commands::signals::{self, Asked};
use crate::process::orphans;
use crate::process::pty::RawTerminal;
use crate::process::signals::Signal;
use crate::task::housekeeping::wake_housekeeping;

/// Ask for the end; a terminal's user can also send the last one.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The terminal while it is raw; whoever leaves takes it out, which puts it back.
pub type HeldTerminal = Arc<Mutex<Option<RawTerminal>>>;

/// Who is told of what. Each has room for one message; more would say nothing new.
pub struct Notices {
    /// Gets the number of the first signal that asks for the end.
    pub signalled: Sender<i32>,
    /// The terminal has another size.
    pub resized: Sender<()>,
    /// A process has ended.
    pub wake: Sender<()>,
}

/// Takes signals from now on. Those that the caller has chosen to ignore (`nohup`, `&`
/// in a script) stay ignored.
///
/// # Errors
/// When the system refuses, or no thread can be had.
pub fn take(notices: Notices, terminal: HeldTerminal, daemons: Vec<String>) -> io::Result<()> {
    let ending = signals::not_ignored(&ENDING);
    signals::take(ending, &[SIGCHLD, SIGWINCH], move |asked| match asked {
        Asked::Else(SIGWINCH) => {
            let _ = notices.resized.try_send(());
        }
        Asked::Else(_) => wake_housekeeping(&notices.wake),
        Asked::End(number) => {
            let _ = notices.signalled.try_send(number);
        }
        Asked::EndAtOnce(number) => {
            orphans::kill_all(&daemons);
            terminal.lock().take();
            std::process::exit(128 + number);
        }
    })
}

/// The signal of this number, if it is one that a terminal's user sends.
pub fn to_pass_on(number: i32) -> Option<Signal> {
    match number {
        SIGINT => Some(Signal::Int),
        SIGHUP => Some(Signal::Hup),
        SIGQUIT => Some(Signal::Quit),
        _ => None,
    }
}
