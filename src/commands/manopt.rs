//! `zsh-tool manopt`: the options of a program, from its manual page.
//!
//! Options from the command line come first. If no options are found, the exit code is 1 and a line
//! on stderr says why.

use std::process::ExitCode;

use super::output::{self, EXIT_USAGE};
use super::shared;
use super::signals::{self, StopRequest};
use crate::history::manopt;
use crate::shell::manpage;

/// Runs the command.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let (config, _) = shared::load_config();
    shared::adopt_orphans();
    // `man` runs in its own session, which signals of the terminal do not reach.
    let handled = signals::handle(None, &[], |request| match request {
        StopRequest::End(number) | StopRequest::EndAtOnce(number) | StopRequest::Other(number) => {
            signals::exit_at_once(&[], number)
        }
    });
    if let Err(error) = handled {
        output::complain(format_args!("cannot handle signals: {error}"));
    }
    let is_option = |word: &&str| word.starts_with('-');
    let given = words.iter().map(String::as_str);
    let used: Vec<&str> = given.clone().filter(is_option).collect();
    let words: Vec<String> = given.take_while(|word| !is_option(word)).map(str::to_owned).collect();
    if words.is_empty() {
        output::complain("name a command before its options, as in `zsh-tool manopt git push -f`");
        return ExitCode::from(EXIT_USAGE);
    }
    let sandbox = shared::tightest_sandbox(&config);
    let environment = shared::environment(&config);
    match manopt::table(&words, &environment, sandbox.as_ref(), config.manopt_timeout) {
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
