//! What is known of a command that nobody runs at the moment. Nothing is run for it and
//! nothing recorded.

use std::sync::Arc;
use std::time::SystemTime;

use super::account::Account;
use super::pattern::Known;
use super::recorder::Recorder;
use crate::alan::history::History;
use crate::alan::insight::Insight;
use crate::alan::rows::unix_seconds;
use crate::alan::store::KillCounts;
use crate::neverhang::{Circuit, State};
use crate::shell::lint::lints;

/// What is known of a command.
#[derive(Debug, Clone)]
pub struct Consultation {
    /// What it is known by.
    pub known: Known,
    /// What is remembered of it.
    pub history: History,
    /// Kills of its kind.
    pub kills: KillCounts,
    /// What a run without a terminal would be told now.
    pub insights: Vec<Insight>,
    /// Its circuit, where that remembers something.
    pub circuit: Option<Standing>,
}

/// A circuit as it is at the moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The pattern's hash.
    pub hash: String,
    /// The redacted command, its beginning at least.
    pub preview: String,
    /// What it remembers.
    pub circuit: Circuit,
    /// Seconds until the next try; 0 when a run would be let through.
    pub retry_in: f64,
}

impl Standing {
    /// Whether a run is refused now, unless it gets more time.
    pub fn refuses(&self) -> bool {
        self.circuit.state != State::Closed && self.retry_in > 0.0
    }
}

impl Recorder {
    /// What is known of a command.
    pub fn consult(&self, command: &str) -> Consultation {
        let known = self.known(command);
        let pitfalls = lints(&known.redacted, false);
        let circuits = self.circuits();
        // The account of a run that is never begun: what it would say is what is known.
        let account = Account::new(Arc::clone(self.common()), known.clone(), pitfalls, None);
        Consultation {
            history: History::clone(&account.history()),
            kills: self.store().kills(&known.pattern.template),
            insights: account.take_insights(),
            circuit: circuits
                .into_iter()
                .find(|standing| standing.hash == known.pattern.hash),
            known,
        }
    }

    /// All circuits that remember something, those that are not closed first.
    pub fn circuits(&self) -> Vec<Standing> {
        let now = SystemTime::now();
        let rules = self.store().rules();
        let circuits = self.store().circuits(now).into_iter();
        circuits
            .map(|named| Standing {
                retry_in: named.circuit.retry_in(unix_seconds(now), rules),
                hash: named.hash,
                preview: named.preview,
                circuit: named.circuit,
            })
            .collect()
    }
}
