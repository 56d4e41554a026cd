//! `zsh_alan_stats`, `zsh_alan_query`, `zsh_neverhang_status` and `zsh_neverhang_reset`:
//! the command history, as aligned lines and as JSON.
//!
//! These tools run and record nothing, and show commands redacted.

use std::time::Duration;

use super::dispatch::{Answer, ToolResult, Tools, refused};
use super::outputs::{
    CircuitOutput, CircuitsOutput, ClosedOutput, DatabaseOutput, EstimateOutput, InsightOutput,
    KindOutput, QueryOutput, RecentOutput, ResetOutput, RetryOutput, StatsOutput, StreakOutput,
    UsualCostOutput,
};
use super::render::result::command_line;
use super::tools::QueryArguments;
use crate::alan::history::RETRY_WINDOW_MINUTES;
use crate::alan::insight::{self, Level, truncate};
use crate::alan::store::circuits::{CircuitStatus, Reset};
use crate::alan::store::{Status, StoreError};
use crate::history::recorder::{CommandReport, Recorder};
use crate::neverhang::{CircuitState, Rules};
use crate::shell::command_line::CommandLine;
use crate::shell::dialect::Dialect;
use crate::shell::outcome::Outcome;
use crate::text::foreign::ShowPath;
use crate::text::quantity::{grouped, plural, seconds, size};

/// The length of a circuit's hash, which names it as well as its command does.
const HASH_DIGITS: usize = 16;
/// How much of a command or a template a line shows.
const COMMAND_CHARS: usize = 80;

/// The contents of the database.
///
/// # Errors
/// When the database cannot be read.
pub(crate) fn stats(recorder: &Recorder) -> Result<ToolResult, StoreError> {
    let counts = recorder.store().counts()?;
    let most_frequent = counts.most_frequent.into_iter();
    let output = StatsOutput {
        database: database(&recorder.store().status()),
        observations: counts.observations,
        commands: counts.commands,
        templates: counts.templates,
        ssh_observations: counts.ssh_observations,
        cached_options: counts.cached_options,
        circuits_open: refusing(&recorder.circuits()),
        most_frequent: most_frequent
            .map(|(template, runs, successes, kills)| KindOutput {
                template,
                runs,
                successes,
                kills,
            })
            .collect(),
    };
    Ok(ToolResult::structured(stats_text(&output), &output))
}

/// What is known about a command.
pub(crate) fn query(recorder: &Recorder, command: &str, dialect: Dialect) -> ToolResult {
    let report = recorder.summarise(&CommandLine::parse(command), dialect);
    let output = query_output(&report);
    ToolResult::structured(query_text(&report, &output), &output)
}

impl Tools {
    pub(super) fn alan_stats(&self) -> Answer {
        stats(&self.recorder).map_err(|error| {
            let queued = self.recorder.store().status().queued;
            refused(format!("{error}: what is learned stays in memory ({queued} records)"))
        })
    }

    pub(super) fn alan_query(&self, arguments: &QueryArguments) -> Answer {
        let limit = self.config.max_command;
        if arguments.command.trim().is_empty() {
            return Err(refused("command is empty: pass the command to look up"));
        }
        if arguments.command.len() as u64 > limit {
            return Err(refused(format!("command is longer than {limit} bytes (max_command)")));
        }
        Ok(query(&self.recorder, &arguments.command, self.supervisor.dialect(arguments.shell)))
    }

    pub(super) fn neverhang_status(&self) -> Answer {
        let circuits = self.recorder.circuits();
        let output = CircuitsOutput { circuits: circuits.iter().map(circuit_output).collect() };
        let text = circuits_text(&circuits, self.recorder.store().rules());
        Ok(ToolResult::structured(text, &output))
    }

    pub(super) fn neverhang_reset(&self, command: Option<&str>) -> Answer {
        let known = command.map(CommandLine::parse);
        let known = known.map(|command| self.recorder.identify(&command));
        let hash = known
            .as_ref()
            .zip(command)
            .map(|(known, command)| if is_hash(command) { command } else { &known.pattern.hash });
        let reset = self.recorder.store().circuit_reset(hash);
        let text = reset_text(&reset, known.as_ref().map(|known| known.redacted.text()));
        if reset.closed.is_empty() && reset.failure.is_some() {
            return Err(refused(text));
        }
        let closed = reset.closed.iter().map(|named| ClosedOutput {
            hash: named.hash.clone(),
            command: named.preview.clone(),
            state: named.circuit.state.as_str(),
            timeouts: named.circuit.timeouts.len(),
        });
        let output = ResetOutput {
            closed: closed.collect(),
            failure: reset.failure.as_ref().map(ToString::to_string),
        };
        Ok(ToolResult::structured(text, &output))
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The state of the database.
pub(crate) fn database(status: &Status) -> DatabaseOutput {
    DatabaseOutput {
        path: status.path.shown().to_string(),
        failure: status.failure.clone(),
        queued: status.queued,
        dropped: status.dropped,
        moved_aside: status.moved_aside.as_ref().map(|path| path.shown().to_string()),
    }
}

/// How many circuits refuse calls.
pub(crate) fn refusing(circuits: &[CircuitStatus]) -> usize {
    circuits.iter().filter(|circuit| circuit.refuses()).count()
}

fn query_output(report: &CommandReport) -> QueryOutput {
    let history = &report.history;
    let rates = history.rates();
    let rate = |rate: f64| (rates.runs > 0).then_some(rate);
    let retries = recent(&history.retries);
    let insights = report.insights.iter();
    QueryOutput {
        command: report.identity.redacted.text().to_owned(),
        hash: report.identity.pattern.hash.clone(),
        template: report.identity.pattern.template.clone(),
        insights: insights
            .map(|insight| InsightOutput {
                level: insight.level().as_str(),
                message: insight.to_string(),
            })
            .collect(),
        runs: rates.runs,
        success_rate: rate(rates.success),
        timeout_rate: rate(rates.timeout),
        streak: StreakOutput {
            current: history.streak.current_streak,
            longest_success: history.streak.longest_success_streak,
            longest_fail: history.streak.longest_fail_streak,
        },
        retry: RetryOutput {
            window_minutes: RETRY_WINDOW_MINUTES,
            previous: retries.runs,
            succeeded: retries.succeeded,
        },
        similar: recent(&history.similar),
        failures: history.failures,
        kills: report.kills,
        estimate: history.estimate.as_ref().map(|estimate| EstimateOutput {
            basis: estimate.basis.as_str(),
            command_template: estimate.template.clone(),
            sample_size: estimate.sample_size,
            median_duration_s: estimate.median.seconds,
            median_at_least: estimate.median.is_bound,
            p90_duration_s: estimate.p90.seconds,
            p90_at_least: estimate.p90.is_bound,
        }),
        usual_cost: history.usual_cost.map(|usual| UsualCostOutput {
            cpu_s: usual.cpu_ms as f64 / 1000.0,
            peak_bytes: usual.peak_bytes,
            runs: usual.runs,
        }),
        host: history.host.clone(),
        remote: history.remote.clone(),
        circuit: report.circuit.as_ref().map(circuit_output),
    }
}

/// Counts runs without interrupted ones, which the server ended.
fn recent(outcomes: &[Outcome]) -> RecentOutput {
    let count = |is: &dyn Fn(Outcome) -> bool| outcomes.iter().filter(|o| is(**o)).count();
    RecentOutput {
        runs: count(&|outcome| outcome != Outcome::Interrupted),
        succeeded: count(&|outcome| outcome == Outcome::Success),
    }
}

fn circuit_output(status: &CircuitStatus) -> CircuitOutput {
    CircuitOutput {
        hash: status.hash.clone(),
        command: status.preview.clone(),
        state: status.circuit.state.as_str(),
        timeouts: status.circuit.timeouts.len(),
        longest_s: status.circuit.longest(),
        refuses: status.refuses(),
        retry_in_s: status.retry_in,
    }
}

fn stats_text(stats: &StatsOutput) -> String {
    let mut rows = vec![
        ("database", stats.database.path.clone()),
        ("observations", format!("{} (runs, and parts of pipelines)", grouped(stats.observations))),
        ("commands", format!("{} of {} kinds", grouped(stats.commands), grouped(stats.templates))),
        ("hosts", format!("{} connections", grouped(stats.ssh_observations))),
        ("options", format!("{} manual pages", grouped(stats.cached_options))),
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
        let lost = format!("{} records: the queue was full", stats.database.dropped);
        rows.push(("lost", lost));
    }
    aligned(&rows)
}

fn query_text(report: &CommandReport, output: &QueryOutput) -> String {
    let mut lines = vec![format!("$ {}", command_line(&output.command))];
    lines.push(aligned(&facts(output)));
    if let Some(circuit) = &report.circuit {
        let state = circuit.circuit.state.as_str();
        let next = what_next(circuit).unwrap_or_else(|| timeouts(circuit));
        lines.push(if circuit.refuses() {
            format!("⚠ NEVERHANG: {state}, {next}: a run is refused unless it gets more time")
        } else {
            format!("ℹ NEVERHANG: {state}, {next}")
        });
    }
    for (level, text) in insight::lines(&report.insights) {
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
                "{} in a row (longest: {} successes, {} failures)",
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
        let or_more = |at_least: bool| if at_least { " or more" } else { "" };
        rows.push((
            "duration",
            format!(
                "typical {}{}, 90% within {}{} ({} runs of this {})",
                duration_text(estimate.median_duration_s),
                or_more(estimate.median_at_least),
                duration_text(estimate.p90_duration_s),
                or_more(estimate.p90_at_least),
                estimate.sample_size,
                if estimate.basis == "exact" { "command" } else { "kind" }
            ),
        ));
    }
    if let Some(usual) = &output.usual_cost {
        let peak = usual.peak_bytes.map(|peak| format!(", memory {}", size(peak)));
        let runs = plural(usual.runs, "run", "runs");
        let cpu = duration_text(usual.cpu_s);
        rows.push(("cost", format!("usually cpu {cpu}{} ({runs})", peak.unwrap_or_default())));
    }
    if output.kills.kills > 0 {
        let (kills, runs) = (output.kills.kills, output.kills.runs);
        rows.push(("kills", format!("{kills} of {runs} runs of this kind")));
    }
    if let Some(host) = output.host.as_ref().filter(|host| host.tries > 0) {
        rows.push((
            "host",
            format!("{}: {} of {} connections failed", host.host, host.failed, host.tries),
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

fn circuits_text(circuits: &[CircuitStatus], rules: &Rules) -> String {
    if circuits.is_empty() {
        let window = duration_text(rules.window);
        return format!("no circuits: no command has timed out in the last {window}");
    }
    let rows: Vec<[String; 5]> = circuits
        .iter()
        .map(|circuit| {
            [
                circuit.hash.clone(),
                circuit.circuit.state.as_str().to_owned(),
                timeouts(circuit),
                what_next(circuit)
                    .unwrap_or_else(|| format!("opens after {} timeouts", rules.threshold)),
                one_line(&circuit.preview),
            ]
        })
        .collect();
    columns(&rows)
}

fn reset_text(reset: &Reset, asked: Option<&str>) -> String {
    let mut lines: Vec<String> = reset
        .closed
        .iter()
        .map(|named| {
            let count = named.circuit.timeouts.len();
            let forgotten = plural(count, "timeout", "timeouts");
            let command = one_line(&named.preview);
            match named.circuit.state {
                CircuitState::Closed => format!("was not open; {forgotten} forgotten: {command}"),
                CircuitState::Open { .. } | CircuitState::HalfOpen { .. } => {
                    format!("closed now; {forgotten} forgotten: {command}")
                }
            }
        })
        .collect();
    if let Some(failure) = &reset.failure {
        lines.push(format!("⚠ {failure}: circuits stored in the database were not changed"));
    } else if lines.is_empty() {
        lines.push(match asked {
            Some(command) => format!("nothing to close: no circuit of {}", one_line(command)),
            None => "nothing to close: no circuits".to_owned(),
        });
    }
    lines.join("\n")
}

/// What a circuit does with the next call; `None` if it is closed.
fn what_next(status: &CircuitStatus) -> Option<String> {
    let left = duration_text(status.retry_in.ceil());
    match (&status.circuit.state, status.refuses()) {
        (CircuitState::Closed, _) => None,
        (_, false) => Some("the next run is let through".to_owned()),
        (CircuitState::Open { .. }, true) => Some(format!("may be tried again in {left}")),
        (CircuitState::HalfOpen { .. }, true) => {
            Some(format!("a trial run is under way, {left} at most"))
        }
    }
}

fn timeouts(circuit: &CircuitStatus) -> String {
    let count = plural(circuit.circuit.timeouts.len(), "timeout", "timeouts");
    match circuit.circuit.longest() {
        Some(longest) => format!("{count} of up to {}", duration_text(longest)),
        None => count,
    }
}

/// The database's path and state, for the health of the server.
pub(crate) fn database_line(database: &DatabaseOutput, opened: bool) -> String {
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
pub(crate) fn database_problems(database: &DatabaseOutput) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(failure) = &database.failure {
        problems.push(format!(
            "the database {} cannot be used ({failure}): what is learned stays in memory",
            database.path
        ));
    }
    if let Some(aside) = &database.moved_aside {
        problems.push(format!(
            "the database was corrupt and was moved to {aside}; a new one was created"
        ));
    }
    if database.dropped > 0 {
        problems.push(format!(
            "{} records of commands are lost: the queue for the database was full",
            grouped(database.dropped)
        ));
    }
    problems
}

fn duration_text(length: f64) -> String {
    match Duration::try_from_secs_f64(length) {
        Ok(time) if length < 10.0 && length.fract() != 0.0 => {
            format!("{:.1}s", time.as_secs_f64())
        }
        Ok(time) => seconds(time),
        Err(_) => "a very long time".to_owned(),
    }
}

/// A command or template on one line, cut.
fn one_line(command: &str) -> String {
    truncate(&command_line(command), COMMAND_CHARS).into_owned()
}

fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines: Vec<String> =
        rows.iter().map(|(label, value)| format!("{label:<width$}  {value}")).collect();
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
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}
