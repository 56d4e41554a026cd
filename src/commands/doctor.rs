//! `zsh-tool doctor`: what works on this machine, what does not, and how to mend it.
//!
//! Each line is `ok`, `warning` or `error`, what was looked at and what was found, with
//! the mend after an arrow. The exit code is 1 when there is an error.

mod database;
mod machine;
mod plugin;
mod secrets;
mod self_check;

use std::fmt;
use std::process::ExitCode;

use super::{output, setup};
use crate::config::{Config, Warning};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    /// As it should be.
    Ok,
    /// Something is done in a lesser way, or not at all.
    Warning,
    /// Commands cannot be run as they should.
    Error,
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    grade: Grade,
    what: &'static str,
    found: String,
    /// What to do about it; empty when there is nothing to do.
    mend: String,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            grade: Grade::Ok,
            what,
            found: found.into(),
            mend: String::new(),
        }
    }

    fn warning(what: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            grade: Grade::Warning,
            mend: mend.into(),
            ..Finding::ok(what, found)
        }
    }

    fn error(what: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            grade: Grade::Error,
            ..Finding::warning(what, found, mend)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grade = match self.grade {
            Grade::Ok => "ok",
            Grade::Warning => "warning",
            Grade::Error => "error",
        };
        write!(f, "{grade:<7}  {}: {}", self.what, self.found)?;
        if !self.mend.is_empty() {
            write!(f, " → {}", self.mend)?;
        }
        Ok(())
    }
}

/// Runs the command.
pub fn run() -> ExitCode {
    let (config, warnings) = setup::load_config();
    let mut worst = Grade::Ok;
    for check in checks(&config, &warnings) {
        // Each line appears as soon as it is known: the last ones take their time.
        for finding in check() {
            worst = worst.max(finding.grade);
            if let Err(error) = output::print(&format!("{finding}\n")) {
                return ExitCode::from(error.report());
            }
        }
    }
    match worst {
        Grade::Error => ExitCode::FAILURE,
        Grade::Ok | Grade::Warning => ExitCode::SUCCESS,
    }
}

type Check<'a> = Box<dyn FnOnce() -> Vec<Finding> + 'a>;

fn checks<'a>(config: &'a Config, warnings: &'a [Warning]) -> Vec<Check<'a>> {
    vec![
        Box::new(|| vec![machine::shell(config)]),
        Box::new(machine::kernel),
        Box::new(|| vec![machine::terminal()]),
        Box::new(|| machine::state_directory(config)),
        Box::new(|| database::check(config)),
        Box::new(|| vec![machine::manual(config)]),
        Box::new(|| configuration(warnings)),
        Box::new(|| secrets::check(config)),
        Box::new(|| vec![plugin::check()]),
        Box::new(|| vec![self_check::run(config)]),
    ]
}

fn configuration(warnings: &[Warning]) -> Vec<Finding> {
    const WHAT: &str = "configuration";
    if warnings.is_empty() {
        return vec![Finding::ok(
            WHAT,
            "no faults (`zsh-tool config` shows the values)",
        )];
    }
    warnings
        .iter()
        .map(|warning| Finding::warning(WHAT, warning.to_string(), "mend or remove it"))
        .collect()
}
