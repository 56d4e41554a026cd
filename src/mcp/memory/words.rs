//! What is remembered, as aligned lines: one for each fact or circuit.

use std::time::Duration;

use super::outputs::{self, QueryOutput, StatsOutput};
use crate::alan::history::RETRY_WINDOW_MINUTES;
use crate::alan::insight::{self, Level};
use crate::alan::store::breaker::Reset;
use crate::mcp::{render, times};
use crate::neverhang::{Rules, State};
use crate::record::consultation::{Consultation, Standing};
use crate::text::lines::grouped;

/// How much of a command or a template a line shows.
const COMMAND_CHARS: usize = 80;

/// What the database holds.
pub fn stats(stats: &StatsOutput) -> String {
    let mut rows = vec![
        ("database", stats.database.path.clone()),
        (
            "observations",
            format!(
                "{} (runs, and parts of pipelines)",
                grouped(stats.observations)
            ),
        ),
        (
            "commands",
            format!(
                "{} of {} kinds",
                grouped(stats.commands),
                grouped(stats.templates)
            ),
        ),
        (
            "hosts",
            format!("{} connections", grouped(stats.ssh_observations)),
        ),
        (
            "options",
            format!("{} manual pages", grouped(stats.cached_options)),
        ),
        ("circuits", format!("{} open", stats.circuits_open)),
    ];
    let mut label = "most frequent";
    for kind in &stats.most_frequent {
        let mut line = format!(
            "{}: {}, {} succeeded",
            one_line(&kind.template),
            plural(grouped(kind.runs), "run", "runs"),
            grouped(kind.successes)
        );
        if kind.kills > 0 {
            line.push_str(&format!(", {} killed", grouped(kind.kills)));
        }
        rows.push((std::mem::take(&mut label), line));
    }
    if stats.database.queued > 0 {
        let waiting = format!("{} records to be written", stats.database.queued);
        rows.push(("waiting", waiting));
    }
    if stats.database.dropped > 0 {
        let lost = format!("{} records, too many waited", stats.database.dropped);
        rows.push(("lost", lost));
    }
    aligned(&rows)
}

/// What is known of a command.
pub fn query(found: &Consultation, output: &QueryOutput) -> String {
    let mut lines = vec![render::echo(&output.command)];
    lines.push(aligned(&facts(output)));
    if let Some(circuit) = &found.circuit {
        lines.push(match circuit.refuses() {
            true => format!(
                "⚠ NEVERHANG: {}, {}: a run is refused unless it gets more time",
                circuit.circuit.state.as_str(),
                outlook(circuit)
            ),
            false => format!("ℹ NEVERHANG: {}", standing(circuit)),
        });
    }
    for (level, text) in insight::lines(&found.insights) {
        let sign = match level {
            Level::Warning => "⚠",
            Level::Info => "ℹ",
        };
        lines.push(format!("{sign} A.L.A.N.: {text}"));
    }
    lines.join("\n")
}

fn facts(output: &QueryOutput) -> Vec<(&'static str, String)> {
    let mut rows = vec![("kind", one_line(&output.template))];
    if let (Some(success), Some(timeout)) = (output.success_rate, output.timeout_rate) {
        rows.push((
            "runs",
            format!(
                "{}, {:.0}% succeeded, {:.0}% timed out (recent ones weigh more)",
                output.runs,
                success * 100.0,
                timeout * 100.0
            ),
        ));
    }
    let streak = &output.streak;
    if streak.current != 0 {
        rows.push((
            "streak",
            format!(
                "{} in a row (at most {} successes, {} failures)",
                match streak.current {
                    1.. => plural(streak.current, "success", "successes"),
                    _ => plural(streak.current.saturating_neg(), "failure", "failures"),
                },
                streak.longest_success,
                streak.longest_fail
            ),
        ));
    }
    if output.retry.previous > 0 {
        rows.push((
            "retries",
            format!(
                "{} in the last {RETRY_WINDOW_MINUTES} min of this session, {} succeeded",
                output.retry.previous, output.retry.succeeded
            ),
        ));
    }
    if let Some(estimate) = &output.estimate {
        let at_least = |at_least: bool| if at_least { "over " } else { "" };
        rows.push((
            "duration",
            format!(
                "typical {}{}, p90 {}{} ({} runs of this {})",
                at_least(estimate.median_at_least),
                time(estimate.median_duration_s),
                at_least(estimate.p90_at_least),
                time(estimate.p90_duration_s),
                estimate.sample_size,
                match estimate.basis.as_str() {
                    "exact" => "command",
                    _ => "kind",
                }
            ),
        ));
    }
    if output.kills.kills > 0 {
        let (kills, runs) = (output.kills.kills, output.kills.runs);
        rows.push(("kills", format!("{kills} of {runs} runs of this kind")));
    }
    if let Some(host) = output.host.as_ref().filter(|host| host.tries > 0) {
        rows.push((
            "host",
            format!(
                "{}: {} of {} connections failed",
                host.host, host.failed, host.tries
            ),
        ));
    }
    if let Some(remote) = output.remote.as_ref().filter(|remote| remote.runs > 0) {
        rows.push((
            "remote",
            format!(
                "{}: {} of {} runs failed, on {} hosts",
                one_line(&remote.template),
                remote.failed,
                remote.runs,
                remote.hosts
            ),
        ));
    }
    rows
}

/// All circuits.
pub fn circuits(circuits: &[Standing], rules: &Rules) -> String {
    if circuits.is_empty() {
        let window = time(rules.window);
        return format!("no circuits: no command has timed out in the last {window}");
    }
    let rows: Vec<[String; 5]> = circuits
        .iter()
        .map(|circuit| {
            [
                circuit.hash.clone(),
                circuit.circuit.state.as_str().to_owned(),
                timeouts(circuit),
                what_next(circuit, rules),
                one_line(&circuit.preview),
            ]
        })
        .collect();
    columns(&rows)
}

/// What closing circuits came to.
pub fn reset(reset: &Reset, asked: Option<&str>) -> String {
    let mut lines: Vec<String> = reset
        .closed
        .iter()
        .map(|named| {
            let count = named.circuit.timeouts.len();
            let forgotten = plural(count, "timeout", "timeouts");
            let command = one_line(&named.preview);
            match named.circuit.state {
                State::Closed => format!("was closed, {forgotten} forgotten: {command}"),
                State::Open { .. } | State::HalfOpen { .. } => {
                    format!("closed, {forgotten} forgotten: {command}")
                }
            }
        })
        .collect();
    if let Some(failure) = &reset.failure {
        lines.push(format!("⚠ {failure}: circuits in it are as they were"));
    } else if lines.is_empty() {
        lines.push(match asked {
            Some(command) => format!("nothing to close: no circuit of {}", one_line(command)),
            None => "nothing to close: no circuits".to_owned(),
        });
    }
    lines.join("\n")
}

fn standing(circuit: &Standing) -> String {
    format!(
        "{}, {}",
        circuit.circuit.state.as_str(),
        match circuit.circuit.state {
            State::Closed => timeouts(circuit),
            State::Open { .. } | State::HalfOpen { .. } => outlook(circuit),
        }
    )
}

fn what_next(circuit: &Standing, rules: &Rules) -> String {
    match circuit.circuit.state {
        State::Closed => format!("opens at {}", rules.threshold),
        State::Open { .. } | State::HalfOpen { .. } => outlook(circuit),
    }
}

/// What becomes of the next call.
fn outlook(circuit: &Standing) -> String {
    let left = time(circuit.retry_in.ceil());
    match (&circuit.circuit.state, circuit.refuses()) {
        (State::Closed, _) | (_, false) => "the next run is let through".to_owned(),
        (State::Open { .. }, true) => format!("next try in {left}"),
        (State::HalfOpen { .. }, true) => format!("one run is being tried, {left} at most"),
    }
}

fn timeouts(circuit: &Standing) -> String {
    let count = plural(circuit.circuit.timeouts.len(), "timeout", "timeouts");
    match circuit.circuit.longest() {
        Some(longest) => format!("{count} of up to {}", time(longest)),
        None => count,
    }
}

/// Where the database is and how it is, for the health of the server.
pub fn database(database: &outputs::DatabaseOutput, opened: bool) -> String {
    let state = match (&database.failure, opened) {
        (Some(_), _) => "cannot be used",
        (None, true) => "ok",
        (None, false) => "being opened",
    };
    let mut text = format!("{}, {state}", database.path);
    if database.queued > 0 {
        text.push_str(&format!(", {} queued", grouped(database.queued as u64)));
    }
    if database.dropped > 0 {
        text.push_str(&format!(", {} dropped", grouped(database.dropped)));
    }
    text
}

/// What is wrong with the database, in whole sentences.
pub fn database_problems(database: &outputs::DatabaseOutput) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(failure) = &database.failure {
        problems.push(format!(
            "the database {} cannot be used ({failure}): what is learned stays in memory",
            database.path
        ));
    }
    if let Some(aside) = &database.moved_aside {
        problems.push(format!(
            "the database was corrupt and was moved to {aside}; a new one was begun"
        ));
    }
    if database.dropped > 0 {
        problems.push(format!(
            "{} records of commands are lost: too many waited for the database",
            grouped(database.dropped)
        ));
    }
    problems
}

fn time(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if seconds < 10.0 && seconds.fract() != 0.0 => {
            format!("{:.1}s", time.as_secs_f64())
        }
        Ok(time) => times::seconds(time),
        Err(_) => "ever".to_owned(),
    }
}

fn plural(count: impl ToString, one: &str, more: &str) -> String {
    let count = count.to_string();
    let noun = if count == "1" { one } else { more };
    format!("{count} {noun}")
}

/// A command or template on one line, cut.
fn one_line(command: &str) -> String {
    let echoed = render::echo(command);
    let text = echoed.strip_prefix("$ ").unwrap_or(&echoed);
    match text.char_indices().nth(COMMAND_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines: Vec<String> = rows
        .iter()
        .map(|(label, value)| format!("{label:<width$}  {value}"))
        .collect();
    lines.join("\n")
}

fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}
