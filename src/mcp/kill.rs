//! `zsh_kill`: kills a task, and reports how many processes were signalled and are gone, and which
//! survived and why.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::clients::KeptPart;
use super::dispatch::{Answer, CallContext, ClientProfile, NoResult, ToolResult, Tools, refused};
use super::outputs::TaskFacts;
use super::render::result::{
    DIM, Palette, RED, YELLOW, command_line, kept_line, millis, name_leftovers, status_line,
};
use super::render::view::View;
use super::tools::KillArguments;
use crate::alan::kill::{KillClass, KillInsight};
use crate::base::cancel::Cancel;
use crate::process::probe::ProcessInfo;
use crate::process::signals::Signal;
use crate::progress::wait::ProcessName;
use crate::task::live::{ActiveCall, Facts, LiveState, WaitStep};
use crate::task::registry::TaskHandle;
use crate::task::sandboxes;
use crate::task::state::KillRequest;
use crate::task::supervisor::KillError;
use crate::task::termination::{Receipt, SurvivalReason};
use crate::task::worker_requests::MAX_REQUESTS;
use crate::text::foreign;
use crate::text::quantity::size;

/// How long the call waits for the task's end after the receipt, if the client waits as long: longer
/// than the task waits for the end of its output.
const END_AFTER_KILL: Duration = Duration::from_secs(8);

impl Tools {
    pub(super) fn kill(&self, arguments: &KillArguments, call: &mut CallContext) -> Answer {
        let task = self.find(&arguments.task_id)?;
        let request = match &arguments.signal {
            None => KillRequest::Escalate,
            Some(name) => KillRequest::Only(Signal::from_name(name).ok_or_else(|| {
                let known = Signal::ALL.map(Signal::name).join(", ");
                refused(format!("signal must be one of {known}, not {}", foreign::shown(name)))
            })?),
        };
        let _active_call = ActiveCall::begin(&task.live);
        let begun = Instant::now();
        let receipt = self.supervisor.kill(&task, request);
        // What has survived may end for another reason, which is news then.
        let ends_it = match &receipt {
            Ok(receipt) => receipt.survivors.is_empty(),
            Err(error) => *error == KillError::Late,
        };
        if request == KillRequest::Escalate {
            task.live.state().told.kill_asked = ends_it && !call.for_person;
        }
        if let Err(KillError::Busy) = receipt {
            return Err(refused(format!(
                "task {} has {MAX_REQUESTS} requests pending: try again in a moment",
                task.id()
            )));
        }
        if let Ok(receipt) = &receipt
            && request.is_terminating()
        {
            let left = call.client.ceiling.saturating_sub(begun.elapsed());
            await_end(&task, receipt, left.min(END_AFTER_KILL), call.cancel);
        }
        // A cancelled call has no answer, so it must not count as one that reports the end.
        if !call.cancel.begin_answer() {
            return Err(NoResult::Cancelled);
        }
        let view = call.report_end(&task);
        let facts = &task.live.facts;
        let run_record = self.recorder.record_of(task.id());
        let insight = run_record.and_then(|run_record| run_record.take_kill_insight());
        let unproved = match receipt {
            Err(KillError::Ended) => self.supervisor.unattributed(),
            _ => Vec::new(),
        };
        let started = facts.shell.started;
        let unproved: Vec<ProcessName> = unproved
            .iter()
            .filter(|process| process.id.started >= started)
            .map(ProcessInfo::label)
            .collect();
        let mut text = receipt_text(facts, &view, request, &receipt, &unproved, call.client);
        let made = facts.sandbox.iter().flat_map(|it| sandboxes::notes_made(it, &view.made));
        for note in made {
            let line = call.client.palette.paint(YELLOW, &format!("⚠ {note}"));
            text.push('\n');
            text.push_str(&line);
        }
        if let Some(insight) = &insight {
            text.push('\n');
            text.push_str(&insight_line(insight, call.client.palette));
        }
        let meta = receipt_meta(&view, receipt.ok().as_ref(), insight.as_ref());
        let mut result = ToolResult::text(text);
        result.meta = Some(meta);
        Ok(result)
    }
}

/// Waits for the end of a task whose shell is gone by this receipt, so that the status beside the
/// receipt says the same. A program that waited for input, or was stopped or stuck, may still count
/// as such.
fn await_end(task: &TaskHandle, receipt: &Receipt, most: Duration, cancel: &Cancel) {
    let survives = |pid: i32| receipt.survivors.iter().any(|survivor| survivor.pid == pid);
    if survives(task.live.facts.shell.pid) {
        return;
    }
    let has_ended = |state: &LiveState| {
        let agrees = state.leftovers.is_empty() || !receipt.survivors.is_empty();
        if state.closed || (state.ended.is_some() && agrees) {
            WaitStep::Found(())
        } else {
            WaitStep::WaitDespiteOutput(None)
        }
    };
    let limit = Instant::now() + most;
    task.live.wait_for(Some(limit), cancel, has_ended, Instant::now);
}

/// The receipt of a kill, as text. `unproved` are processes that may be the task's.
fn receipt_text(
    facts: &Facts,
    view: &View,
    request: KillRequest,
    receipt: &Result<Receipt, KillError>,
    unproved: &[ProcessName],
    client: ClientProfile,
) -> String {
    let mut lines = Vec::new();
    match (receipt, request) {
        (Err(KillError::Ended), _) if !view.task.kept.is_empty() => {
            lines.push("receipt: the task had already ended; nothing was signalled".to_owned());
        }
        (Err(KillError::Ended), _) if !unproved.is_empty() => {
            lines.push(format!(
                "receipt: the task had already ended; nothing was signalled\n\
                 not ended, since nothing shows which command started them: {}",
                name_leftovers(unproved, &BTreeMap::new())
            ));
        }
        (Err(KillError::Ended), _) => {
            lines.push("receipt: the task had already ended with all its processes".to_owned());
        }
        (Err(KillError::Busy | KillError::Late), _) => lines.push(format!(
            "receipt: none yet; the kill continues, see zsh_poll task_id={}",
            facts.id
        )),
        // The signal ends no process, so there are no survivors to report.
        (Ok(receipt), KillRequest::Only(signal)) if !request.is_terminating() => {
            let count = receipt.signalled;
            let noun = if count == 1 { "process" } else { "processes" };
            lines.push(format!("receipt: {} sent to {count} {noun}", signal.name()));
        }
        (Ok(receipt), _) if receipt.signalled == 0 && !receipt.kept.is_empty() => {
            lines.push("receipt: nothing was signalled".to_owned());
        }
        (Ok(receipt), _) => {
            let survivors = match receipt.survivors.len() {
                0 if receipt.is_incomplete => {
                    "survivors not known (processes cannot be listed)".to_owned()
                }
                0 => "no survivors".to_owned(),
                1 => "1 survivor".to_owned(),
                count => format!("{count} survivors"),
            };
            lines.push(format!(
                "receipt: {} signalled, {} gone, {survivors}, {} ms",
                receipt.signalled,
                receipt.gone,
                millis(receipt.took)
            ));
            lines.extend(receipt.survivors.iter().map(|survivor| {
                let reason = match survivor.why {
                    SurvivalReason::OtherUser => "belongs to another user",
                    SurvivalReason::StillAlive => "still alive",
                };
                format!("  {} {}: {reason}", survivor.pid, survivor.name)
            }));
        }
    }
    lines.extend(kept_line(kept(view, receipt.as_ref().ok())));
    let command = format!("$ {}", command_line(&facts.command));
    let status = status_line(facts, view, client.palette);
    match client.kept.part {
        KeptPart::Ends => {
            lines.insert(0, command);
            lines.push(status);
        }
        KeptPart::Head => {
            lines.insert(0, status);
            lines.push(command);
        }
    }
    if view.unshown > 0 {
        lines.push(format!(
            "↻ {} of its output not shown yet: zsh_poll task_id={}",
            size(view.unshown),
            facts.id
        ));
    }
    lines.join("\n")
}

/// The daemons that the kill has spared.
fn kept<'a>(view: &'a View, receipt: Option<&'a Receipt>) -> &'a [ProcessName] {
    receipt.map_or(&view.task.kept, |receipt| &receipt.kept)
}

/// What the history says about the kill, in the colour of its class.
fn insight_line(insight: &KillInsight, palette: Palette) -> String {
    let (sign, colour) = match insight.class {
        KillClass::EarlyKill { .. } | KillClass::PatternProblem { .. } => ("⚠", YELLOW),
        KillClass::LateKill { .. } => ("⚠", RED),
        KillClass::NormalKill { .. } | KillClass::Unknown => ("ℹ", DIM),
    };
    palette.paint(colour, &format!("{sign} A.L.A.N.: {insight}"))
}

/// The receipt of a kill, as JSON; without a receipt all its counts are 0.
fn receipt_meta(view: &View, receipt: Option<&Receipt>, insight: Option<&KillInsight>) -> Value {
    let kept = kept(view, receipt);
    let none = Receipt::default();
    let receipt = receipt.unwrap_or(&none);
    TaskFacts::from(&view.task).with(json!({
        "signalled": receipt.signalled,
        "gone": receipt.gone,
        "survivors": receipt.survivors,
        "kept": kept,
        "took_ms": millis(receipt.took),
        "leftovers": view.task.leftovers,
        "insight": insight.map(|insight| json!({
            "category": insight.class.as_str(),
            "message": insight.to_string(),
        })),
    }))
}
