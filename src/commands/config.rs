//! `zsh-tool config`: the settings in use and where each comes from; what is wrong with
//! them follows on stderr.

use std::process::ExitCode;

use super::{output, setup};
use crate::config::Row;

/// Longer values do not move the column of the sources.
const WIDEST_VALUE: usize = 40;

/// Runs the command.
pub fn run() -> ExitCode {
    let (config, warnings) = setup::load_config();
    let printed = output::print(&table(&config.rows()));
    for warning in &warnings {
        output::say(format_args!("warning: {warning}"));
    }
    output::conclude(printed, 0)
}

fn table(rows: &[Row]) -> String {
    let width_of = |text: &str| text.chars().count();
    let keys = rows.iter().map(|row| width_of(row.key)).max();
    let values = rows
        .iter()
        .map(|row| width_of(&row.value))
        .filter(|width| *width <= WIDEST_VALUE)
        .max();
    let (keys, values) = (keys.unwrap_or(0), values.unwrap_or(0));
    rows.iter()
        .map(|row| {
            format!(
                "{:<keys$}  {:<values$}  {}\n",
                row.key, row.value, row.source
            )
        })
        .collect()
}
