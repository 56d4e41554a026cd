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
use crate::neverhang::{Circuit, Decision, Lease, Rules, RunEnd, State};

/// What closing circuits came to.
#[derive(Debug)]
pub struct Reset {
    /// What was closed, as it was before; some may have been closed already and remember
    /// timeouts only.
    pub closed: Vec<NamedCircuit>,
    /// Why those in the database are as they were.
    pub failure: Option<StoreError>,
}

/// How long a call waits for others' locks when it is to be the one run of a circuit; on a
/// busy machine with a slow disk a short transaction of another server can take a second.
const LEASE_PATIENCE: Duration = Duration::from_secs(2);
/// How long a report does: the end of a command waits for it that has timed out or that was
/// the one run of its circuit. What is kept in memory instead no other server knows of.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

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
        if let Some(named) = self.circuits.lock().get_mut(hash) {
            return check(&mut named.circuit);
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
        // What was kept in memory goes to disk with the next report.
        let kept = self
            .circuits
            .lock()
            .get(&pattern.hash)
            .map(|named| named.circuit.clone());
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
        let named = circuits
            .entry(pattern.hash.clone())
            .or_insert_with(|| NamedCircuit {
                hash: pattern.hash.clone(),
                preview: pattern.preview.clone(),
                circuit: on_disk,
            });
        report(&mut named.circuit);
        circuits.retain(|_, named| !named.circuit.is_blank());
    }

    /// All circuits that remember something at this time, those that are not closed
    /// first.
    pub fn circuits(&self, now: SystemTime) -> Vec<NamedCircuit> {
        let now = unix_seconds(now);
        let mut found = self.read(circuits::all).unwrap_or_default();
        let memory = self.circuits.lock();
        found.retain(|named| !memory.contains_key(&named.hash));
        found.extend(memory.values().cloned());
        drop(memory);
        for named in &mut found {
            named.circuit = named.circuit.seen_at(now, &self.rules);
        }
        found.retain(|named| !named.circuit.is_blank());
        found.sort_by_key(|named| named.circuit.state == State::Closed);
        found
    }

    /// When circuits open and recover.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Closes the circuit of a pattern, or all, and forgets their timeouts.
    pub fn circuit_reset(&self, hash: Option<&str>) -> Reset {
        let is_meant = |known: &str| hash.is_none_or(|hash| hash == known);
        let mut closed: Vec<NamedCircuit> = Vec::new();
        self.circuits.lock().retain(|known, named| {
            let meant = is_meant(known);
            if meant {
                closed.push(named.clone());
            }
            !meant
        });
        let rows = self.order(|database| circuits::reset(&mut database.connection, hash));
        let (rows, failure) = match rows {
            Ok(rows) => (rows, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let in_memory = |named: &NamedCircuit| closed.iter().any(|own| own.hash == named.hash);
        let rows: Vec<NamedCircuit> = rows.into_iter().filter(|row| !in_memory(row)).collect();
        closed.extend(rows);
        Reset { closed, failure }
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
