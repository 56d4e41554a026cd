//! What the store does for NEVERHANG: decides about calls, takes in how they ended.
//!
//! A decision about a pattern without a circuit costs one look-up and no lock. What the
//! database cannot keep is kept in memory for this server.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::circuits::{self, NamedCircuit};
use super::{Store, StoreError, is_readable};
use crate::alan::pattern::Pattern;
use crate::alan::rows::unix_seconds;
use crate::neverhang::{Circuit, Decision, Lease, RunEnd};

/// How long a call waits for others' locks when it is to be the one run of a circuit.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// How long a report does: the end of a command waits for it.
const REPORT_PATIENCE: Duration = Duration::from_millis(20);

impl Store {
    /// Decides whether a command may run, and gives it the lease of a half-open circuit
    /// where it is to be the one run. `deadline` is its time limit (`None`: none). A
    /// database that cannot be used refuses nothing.
    pub fn circuit_check_and_lease(
        &self,
        pattern: &Pattern,
        now: SystemTime,
        deadline: Option<Duration>,
    ) -> Decision {
        let (hash, now) = (pattern.hash.as_str(), unix_seconds(now));
        let deadline = deadline.map(|deadline| deadline.as_secs_f64());
        let number = self.leases.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}-{number}", self.shared.setup.instance);
        let check = |circuit: &mut Circuit| circuit.check(now, deadline, &owner, &self.rules);
        if let Some(circuit) = self.circuits.lock().get_mut(hash) {
            return check(circuit);
        }
        let Some(mut seen) = self.read(|connection| circuits::circuit(connection, hash)) else {
            return Decision::Allow;
        };
        // Only a lease has to be written.
        match check(&mut seen) {
            Decision::Probe(_) => self
                .change_circuit(pattern, LEASE_PATIENCE, check)
                .unwrap_or(Decision::Allow),
            decided => decided,
        }
    }

    /// Reports how a run ended, with the lease that its check gave it. The median of the
    /// command's successes is looked up here; `usual` of a timeout is not looked at.
    pub fn circuit_report(
        &self,
        pattern: &Pattern,
        end: RunEnd,
        lease: Option<&Lease>,
        now: SystemTime,
    ) {
        let now = unix_seconds(now);
        let end = match end {
            RunEnd::TimedOut {
                allowed,
                waited_for_input,
                ..
            } => RunEnd::TimedOut {
                allowed,
                usual: self.look(|look| look.usual_success(&pattern.hash)),
                waited_for_input,
            },
            // Ends like these say something only of the one run of a half-open circuit.
            _ if lease.is_none() => return,
            end => end,
        };
        let report = |circuit: &mut Circuit| circuit.report(now, end, lease, &self.rules);
        // What was kept in memory goes to disk as soon as that can be had again.
        let kept = self.circuits.lock().get(&pattern.hash).cloned();
        let changed = self.change_circuit(pattern, REPORT_PATIENCE, |circuit| {
            if let Some(kept) = &kept {
                circuit.clone_from(kept);
            }
            report(circuit);
        });
        if changed.is_some() {
            self.circuits.lock().remove(&pattern.hash);
            return;
        }
        // What is on disk goes on in memory: a locked database can still be read.
        let on_disk = self.read(|connection| circuits::circuit(connection, &pattern.hash));
        let on_disk = on_disk.unwrap_or_default();
        let mut circuits = self.circuits.lock();
        report(circuits.entry(pattern.hash.clone()).or_insert(on_disk));
        circuits.retain(|_, circuit| !circuit.is_blank());
    }

    /// All circuits that remember something, those that are not closed first; of those
    /// only in memory the preview is not known.
    pub fn circuits(&self) -> Vec<NamedCircuit> {
        let mut found = self.read(circuits::all).unwrap_or_default();
        let memory = self.circuits.lock();
        found.retain(|named| !memory.contains_key(&named.hash));
        found.extend(memory.iter().map(|(hash, circuit)| NamedCircuit {
            hash: hash.clone(),
            preview: String::new(),
            circuit: circuit.clone(),
        }));
        found
    }

    /// Closes the circuit of a pattern, or all; how many there were.
    ///
    /// # Errors
    /// When the database cannot be written; circuits in memory are closed anyway.
    pub fn circuit_reset(&self, hash: Option<&str>) -> Result<usize, StoreError> {
        let mut memory = self.circuits.lock();
        let before = memory.len();
        memory.retain(|known, _| hash.is_some_and(|hash| hash != known));
        let gone = before - memory.len();
        drop(memory);
        let rows = self.order(|database| circuits::reset(&database.connection, hash))?;
        Ok(gone + rows)
    }

    fn change_circuit<T>(
        &self,
        pattern: &Pattern,
        patience: Duration,
        change: impl FnOnce(&mut Circuit) -> T,
    ) -> Option<T> {
        self.start();
        self.wait_until_open();
        if !is_readable(&self.shared.queue.lock()) {
            return None;
        }
        let changed = self.shared.pool.with(|database| {
            database.connection.busy_timeout(patience)?;
            circuits::change(
                &mut database.connection,
                &pattern.hash,
                &pattern.preview,
                change,
            )
        });
        changed.inspect_err(|error| self.note(error)).ok()
    }
}
