//! The signals that `exec` takes: the first that asks for the end is told to the main
//! thread, the second ends everything at once.

use std::io;
use std::sync::Arc;

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::process::orphans;
use crate::process::pty::RawTerminal;
use crate::process::signals::{Signal, is_ignored};
use crate::task::housekeeping::wake_housekeeping;

/// Ask for the end.
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
    let ending = ENDING.into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(ending.chain([SIGCHLD, SIGWINCH]))?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut stopping = false;
            for signal in signals.forever() {
                match signal {
                    SIGCHLD => wake_housekeeping(&notices.wake),
                    SIGWINCH => {
                        let _ = notices.resized.try_send(());
                    }
                    number if stopping => {
                        orphans::kill_all(&daemons);
                        terminal.lock().take();
                        std::process::exit(128 + number);
                    }
                    number => {
                        stopping = true;
                        let _ = notices.signalled.try_send(number);
                    }
                }
            }
        })?;
    Ok(())
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
