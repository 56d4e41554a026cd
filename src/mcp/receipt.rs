//! The receipt of a kill: who was signalled, who is gone, who lives and why.

use serde_json::{Value, json};

use super::insight::size;
use super::render::{DIM, Palette, RED, YELLOW, echo, leftovers_meta, status_line, status_word};
use super::times::millis;
use super::view::View;
use crate::alan::kill::{KillClass, KillInsight};
use crate::task::kill_run::{Receipt, SurvivalReason};
use crate::task::live::Facts;
use crate::task::sending::NoReceipt;
use crate::task::state::KillOrder;

/// The receipt of a kill, as text.
pub fn text(
    facts: &Facts,
    view: &View,
    order: KillOrder,
    receipt: &Result<Receipt, NoReceipt>,
    palette: Palette,
) -> String {
    let mut lines = vec![echo(&facts.command)];
    match (receipt, order) {
        (Err(NoReceipt::Ended), _) => {
            lines.push("receipt: it had ended before, nothing of it lives".to_owned());
        }
        (Err(NoReceipt::Busy | NoReceipt::Late), _) => lines.push(format!(
            "receipt: none yet; the kill goes on, see zsh_poll task_id={}",
            facts.id
        )),
        // Nobody is meant to go: who lives is no survivor.
        (Ok(receipt), KillOrder::Only(signal)) if !order.ends() => lines.push(format!(
            "receipt: {} sent to {}",
            signal.name(),
            processes(receipt.signalled)
        )),
        (Ok(receipt), _) => {
            let survivors = match receipt.survivors.len() {
                0 if receipt.unseen => {
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
                let why = match survivor.why {
                    SurvivalReason::OtherUser => "belongs to another user",
                    SurvivalReason::StillAlive => "still alive",
                };
                format!("  {} {}: {why}", survivor.pid, survivor.name)
            }));
        }
    }
    lines.push(status_line(facts, view, palette));
    if view.unshown() > 0 {
        lines.push(format!(
            "↻ {} of its output not shown yet: zsh_poll task_id={}",
            size(view.unshown()),
            facts.id
        ));
    }
    lines.join("\n")
}

/// What the kill says of the command, in its class's colour.
pub fn insight_line(insight: &KillInsight, palette: Palette) -> String {
    let (sign, colour) = match insight.class {
        KillClass::EarlyKill { .. } | KillClass::PatternProblem { .. } => ("⚠", YELLOW),
        KillClass::LateKill { .. } => ("⚠", RED),
        KillClass::NormalKill { .. } | KillClass::Unknown => ("ℹ", DIM),
    };
    palette.paint(colour, &format!("{sign} A.L.A.N.: {insight}"))
}

fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}

/// The receipt of a kill, for programs.
pub fn meta(
    facts: &Facts,
    view: &View,
    receipt: Option<&Receipt>,
    insight: Option<&KillInsight>,
) -> Value {
    let survivors: Vec<Value> = receipt
        .iter()
        .flat_map(|receipt| &receipt.survivors)
        .map(|survivor| {
            json!({
                "pid": survivor.pid,
                "name": survivor.name,
                "why": match survivor.why {
                    SurvivalReason::OtherUser => "other_user",
                    SurvivalReason::StillAlive => "still_alive",
                },
            })
        })
        .collect();
    json!({
        "task_id": facts.id,
        "status": status_word(view),
        "exit_code": view.end().map(|end| end.exit.code()),
        "signalled": receipt.map_or(0, |receipt| receipt.signalled),
        "gone": receipt.map_or(0, |receipt| receipt.gone),
        "survivors": survivors,
        "took_ms": receipt.map_or(0, |receipt| millis(receipt.took)),
        "leftovers": leftovers_meta(view.leftovers()),
        "insight": insight.map(|insight| json!({
            "category": insight.class.as_str(),
            "message": insight.to_string(),
        })),
    })
}
