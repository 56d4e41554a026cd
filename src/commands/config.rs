//! `zsh-tool config`: the settings in use and the source of each. Warnings go to stderr.

use std::process::ExitCode;

use super::{output, shared};
use crate::config::{Row, RunFlags};

/// Longer values do not widen the column.
const WIDEST_VALUE: usize = 40;

/// Runs the command.
pub(crate) fn run() -> ExitCode {
    let (config, mut warnings) = shared::load_config();
    let (runs, of_runs) =
        shared::load_run_settings(&config, Some(&shared::project()), &RunFlags::default());
    warnings.extend(of_runs);
    let mut rows = config.rows();
    rows.extend(runs.settings());
    let printed = output::print(&table(&rows));
    for warning in &warnings {
        output::say_on_stderr(format_args!("warning: {warning}"));
    }
    output::conclude(printed, 0)
}

fn table(rows: &[Row]) -> String {
    let width_of = |text: &str| text.chars().count();
    let keys = rows.iter().map(|row| width_of(row.key)).max();
    let values =
        rows.iter().map(|row| width_of(&row.value)).filter(|width| *width <= WIDEST_VALUE).max();
    let (keys, values) = (keys.unwrap_or(0), values.unwrap_or(0));
    rows.iter()
        .map(|row| format!("{:<keys$}  {:<values$}  {}\n", row.key, row.value, row.source))
        .collect()
}
