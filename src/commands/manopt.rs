//! `zsh-tool manopt`: the options of a program as its manual page tells them.
//!
//! All of them are printed, those first that stand on the command line. Where there are
//! none the exit code is 1, and one line on stderr says what is missing.

use std::io;
use std::process::ExitCode;

use super::signals::{self, Asked};
use super::{output, setup};
use crate::cli::ManoptArguments;
use crate::process::orphans;
use crate::record::manopt;
use crate::shell::manpage;

/// As for other faults of the command line.
const EXIT_USAGE: u8 = 2;

/// Runs the command.
pub fn run(arguments: &ManoptArguments) -> ExitCode {
    let (config, _) = setup::load_config();
    setup::adopt_orphans();
    if let Err(error) = take_man_along() {
        output::complain(format_args!("signals cannot be taken: {error}"));
    }
    let is_option = |word: &&String| word.starts_with('-');
    let words: Vec<String> = arguments
        .words
        .iter()
        .take_while(|word| !is_option(word))
        .cloned()
        .collect();
    let used: Vec<&str> = arguments
        .words
        .iter()
        .filter(is_option)
        .map(String::as_str)
        .collect();
    if words.is_empty() {
        output::complain("name a command before its options, as in `zsh-tool manopt git push -f`");
        return ExitCode::from(EXIT_USAGE);
    }
    match manopt::table(&words, &setup::environment(&config), config.manopt_timeout) {
        Ok(table) => {
            if table.page != words.join("-") {
                output::complain(format_args!("these are the options of {}", table.page));
            }
            let text = manpage::present(&table.text, &used, usize::MAX);
            output::conclude(output::print(&text), 0)
        }
        Err(error) => {
            output::complain(error);
            ExitCode::FAILURE
        }
    }
}

/// From now on a signal that asks for the end ends `man` as well, which a terminal does not
/// reach in its own session.
fn take_man_along() -> io::Result<()> {
    let ending = signals::not_ignored(&signals::ENDING);
    signals::take(ending, &[], |asked| match asked {
        Asked::End(number) | Asked::EndAtOnce(number) | Asked::Else(number) => {
            orphans::kill_all(&[]);
            std::process::exit(128 + number);
        }
    })
}
