//! The signals that a run takes: the first that asks for the end pauses the run, the
//! second ends everything at once; SIGUSR1 (`zsh-tool oneshot stop`) ends it for good.

use std::io;

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGCHLD, SIGUSR1};

use crate::commands::signals::{self, Asked};
use crate::oneshot::controls::{Control, Controller};
use crate::process::orphans;
use crate::task::housekeeping::wake_housekeeping;

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
    let ending = signals::not_ignored(&signals::ENDING);
    signals::take(ending, &[SIGCHLD, SIGUSR1], move |asked| match asked {
        Asked::Else(SIGUSR1) => controller.ask(Control::Cancel),
        Asked::Else(_) => wake_housekeeping(&wake),
        Asked::End(number) => controller.ask(Control::Interrupt(number)),
        Asked::EndAtOnce(number) => {
            orphans::kill_all(&daemons);
            std::process::exit(128 + number);
        }
    })
}
