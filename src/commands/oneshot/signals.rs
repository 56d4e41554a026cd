//! The signals that a run takes: the first that asks for the end pauses the run, the
//! second ends everything at once; SIGUSR1 (`zsh-tool oneshot stop`) ends it for good.

use std::io;

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::oneshot::controls::{Control, Controller};
use crate::process::orphans;
use crate::process::signals::is_ignored;
use crate::task::housekeeping::wake_housekeeping;

/// Ask for the end.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Takes signals from now on. Those that the caller has chosen to ignore (`nohup`, `&` in
/// a script) stay ignored.
///
/// # Errors
/// When the system refuses, or no thread can be had.
pub(super) fn take(
    controller: Controller,
    wake: Sender<()>,
    daemons: Vec<String>,
) -> io::Result<()> {
    let ending = ENDING.into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(ending.chain([SIGCHLD, SIGUSR1]))?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut stopping = false;
            for signal in signals.forever() {
                match signal {
                    SIGCHLD => wake_housekeeping(&wake),
                    SIGUSR1 => controller.ask(Control::Cancel),
                    number if stopping => {
                        orphans::kill_all(&daemons);
                        std::process::exit(128 + number);
                    }
                    number => {
                        stopping = true;
                        controller.ask(Control::Interrupt(number));
                    }
                }
            }
        })?;
    Ok(())
}
