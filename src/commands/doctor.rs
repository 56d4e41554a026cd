//! `zsh-tool doctor`: what works on this machine, what does not, and how to fix it.
//!
//! Each line has a grade (`ok`, `warning` or `error`), what was checked, what was found, and
//! the fix after an arrow. The exit code is 1 if there is an error.

pub(crate) mod checks;
mod self_check;

use std::fmt;
use std::process::ExitCode;

use super::{output, shared};
use crate::config::{Config, Warning};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Ok,
    /// Some feature is limited or missing.
    Warning,
    /// Commands cannot run properly.
    Error,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    grade: Grade,
    what: &'static str,
    found: String,
    /// How to fix it; empty if there is nothing to fix.
    fix: String,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { grade: Grade::Ok, what, found: found.into(), fix: String::new() }
    }

    fn warning(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { grade: Grade::Warning, fix: fix.into(), ..Finding::ok(what, found) }
    }

    fn error(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { grade: Grade::Error, ..Finding::warning(what, found, fix) }
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
        if !self.fix.is_empty() {
            write!(f, " → {}", self.fix)?;
        }
        Ok(())
    }
}

/// Runs the command.
pub(crate) fn run(host: Option<&str>) -> ExitCode {
    let (config, warnings) = shared::load_config();
    shared::say_what_is_logged(&config);
    let mut worst = Grade::Ok;
    let checks = match host {
        Some(host) => vec![Box::new(|| checks::host(&config, host)) as Check<'_>],
        None => checks(&config, &warnings),
    };
    for check in checks {
        // Each line is printed at once, since the last checks take a while.
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
        Box::new(|| vec![checks::shell(config)]),
        Box::new(|| checks::login_path(config)),
        Box::new(checks::kernel),
        Box::new(|| vec![checks::memory(config)]),
        Box::new(|| vec![checks::sandbox(config)]),
        Box::new(|| vec![checks::terminal()]),
        Box::new(|| checks::state_directory(config)),
        Box::new(|| checks::shims(config)),
        Box::new(|| checks::stale_sockets(config)),
        Box::new(|| checks::database(config)),
        Box::new(|| vec![checks::manual(config)]),
        Box::new(|| configuration(warnings)),
        Box::new(|| checks::secrets(config)),
        Box::new(|| checks::hosts(config)),
        Box::new(|| vec![checks::plugin()]),
        Box::new(checks::clients),
        Box::new(|| vec![self_check::run(config)]),
    ]
}

fn configuration(warnings: &[Warning]) -> Vec<Finding> {
    const WHAT: &str = "configuration";
    if warnings.is_empty() {
        return vec![Finding::ok(WHAT, "no faults (`zsh-tool config` shows the values)")];
    }
    warnings
        .iter()
        .map(|warning| Finding::warning(WHAT, warning.to_string(), "fix or remove it"))
        .collect()
}
