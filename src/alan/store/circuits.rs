//! The circuits of NEVERHANG: decides whether commands may run, and records how they ended.
//!
//! A command without a circuit costs one look-up and no lock. A circuit that cannot be written to
//! the database is kept in this server's memory.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{Store, StoreError, is_readable};
use crate::alan::pattern::CommandPattern;
use crate::alan::rows::{CircuitRow, unix_seconds};
use crate::neverhang::{Circuit, CircuitState, Decision, Lease, Rules, RunEnd, TimedOut};

/// The state of a command's circuit.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitStatus {
    pub hash: String,
    /// The redacted command, or its beginning.
    pub preview: String,
    pub circuit: Circuit,
    /// Seconds until a run is allowed; 0 if one is allowed now. Only [`Store::circuits`] sets it.
    pub retry_in: f64,
}

impl CircuitStatus {
    /// Whether a run is refused now, unless it has a longer time limit.
    pub fn refuses(&self) -> bool {
        self.circuit.state != CircuitState::Closed && self.retry_in > 0.0
    }

    pub(super) fn row(&self) -> CircuitRow {
        row(&self.hash, &self.preview, &self.circuit)
    }
}

/// The result of closing circuits.
#[derive(Debug)]
pub struct Reset {
    /// The circuits before the reset. Some may already have been closed and only had timeouts.
    pub closed: Vec<CircuitStatus>,
    /// Why the circuits in the database are unchanged.
    pub failure: Option<StoreError>,
}

/// How long a call waits for other processes' locks to get the lease of a half-open circuit. On a
/// busy machine with a slow disk, a short transaction of another server can take a second.
const LEASE_PATIENCE: Duration = Duration::from_secs(2);
/// How long a report waits for other processes' locks, which delays the end of a command that timed
/// out or held a lease. After that the circuit is kept in memory, where other servers do not see
/// it.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

impl Store {
    /// Decides whether a command with this time limit may run. A half-open circuit leases its one
    /// trial run to the first caller. Allows every run if the database cannot be used.
    pub fn circuit_check_and_lease(
        &self,
        pattern: &CommandPattern,
        now: SystemTime,
        deadline: Option<Duration>,
    ) -> Decision {
        let (hash, now) = (pattern.hash.as_str(), unix_seconds(now));
        let deadline = deadline.map(|deadline| deadline.as_secs_f64());
        let number = self.next_lease.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}-{number}", self.shared.instance);
        let check = |circuit: &mut Circuit| circuit.check(now, deadline, &owner, self.rules());
        if let Some(status) = self.unwritten_circuits.lock().get_mut(hash) {
            return check(&mut status.circuit);
        }
        let Some(mut current) = self.read(|connection| circuit(connection, hash)) else {
            return Decision::Allow;
        };
        // Only a lease changes the circuit.
        match check(&mut current) {
            Decision::Probe(_) => {
                self.change_circuit(pattern, LEASE_PATIENCE, check).unwrap_or(Decision::Allow)
            }
            decided => decided,
        }
    }

    /// Reports how a run ended, with the lease that its check returned. Ignores `usual` of a
    /// timeout and looks up the median of the command's successes instead.
    pub fn circuit_report(
        &self,
        pattern: &CommandPattern,
        end: RunEnd,
        lease: Option<&Lease>,
        now: SystemTime,
    ) {
        let now = unix_seconds(now);
        let end = match end {
            RunEnd::TimedOut { allowed, waited_for_input, .. } => RunEnd::TimedOut {
                allowed,
                usual: self.cached(pattern, now).usual_success(),
                waited_for_input,
            },
            // Without a lease, only a timeout matters.
            _ if lease.is_none() => return,
            end => end,
        };
        let report = |circuit: &mut Circuit| circuit.report(now, end, lease, self.rules());
        // A circuit kept in memory is written with the next report.
        let kept =
            self.unwritten_circuits.lock().get(&pattern.hash).map(|status| status.circuit.clone());
        let changed = self.change_circuit(pattern, REPORT_PATIENCE, |circuit| {
            if let Some(kept) = &kept {
                circuit.clone_from(kept);
            }
            report(circuit);
        });
        if changed.is_some() {
            self.unwritten_circuits.lock().remove(&pattern.hash);
            return;
        }
        // Continue in memory from the state on disk: a locked database can still be read.
        let on_disk = self.read(|connection| circuit(connection, &pattern.hash));
        let on_disk = on_disk.unwrap_or_default();
        let mut circuits = self.unwritten_circuits.lock();
        let status = circuits.entry(pattern.hash.clone()).or_insert_with(|| CircuitStatus {
            hash: pattern.hash.clone(),
            preview: pattern.preview.clone(),
            circuit: on_disk,
            retry_in: 0.0,
        });
        report(&mut status.circuit);
        circuits.retain(|_, status| !status.circuit.is_blank());
    }

    /// All circuits that are not blank at this time, open and half-open ones first.
    pub fn circuits(&self, now: SystemTime) -> Vec<CircuitStatus> {
        let now = unix_seconds(now);
        let mut found = self.read(all).unwrap_or_default();
        let memory = self.unwritten_circuits.lock();
        found.retain(|status| !memory.contains_key(&status.hash));
        found.extend(memory.values().cloned());
        drop(memory);
        for status in &mut found {
            status.circuit.forget_old(now, self.rules());
            status.retry_in = status.circuit.retry_in(now, self.rules());
        }
        found.retain(|status| !status.circuit.is_blank());
        found.sort_by_key(|status| status.circuit.state == CircuitState::Closed);
        found
    }

    /// When circuits open and close.
    pub fn rules(&self) -> &Rules {
        &self.shared.settings.rules
    }

    /// Closes the circuit of a pattern, or every circuit, and forgets the timeouts.
    pub fn circuit_reset(&self, hash: Option<&str>) -> Reset {
        let is_selected = |known: &String| hash.is_none_or(|hash| hash == known);
        let mut closed: Vec<CircuitStatus> = {
            let mut in_memory = self.unwritten_circuits.lock();
            in_memory.extract_if(|known, _| is_selected(known)).map(|(_, status)| status).collect()
        };
        match self.with_connection(|database| reset(&mut database.connection, hash)) {
            Ok(mut rows) => {
                rows.retain(|row| closed.iter().all(|own| own.hash != row.hash));
                closed.extend(rows);
                Reset { closed, failure: None }
            }
            Err(error) => Reset { closed, failure: Some(error) },
        }
    }

    fn change_circuit<T>(
        &self,
        pattern: &CommandPattern,
        patience: Duration,
        decide: impl FnOnce(&mut Circuit) -> T,
    ) -> Option<T> {
        self.start();
        self.wait_until_open();
        if !is_readable(&self.shared.queue.lock()) {
            return None;
        }
        let changed = self.shared.pool.with(|database| {
            database.connection.busy_timeout(patience)?;
            change(&mut database.connection, &pattern.hash, &pattern.preview, decide)
        });
        changed.inspect_err(|error| self.report_failure(error)).ok()
    }
}

/// The circuit of a pattern; a blank one if there is none.
pub(crate) fn circuit(connection: &Connection, hash: &str) -> rusqlite::Result<Circuit> {
    let state = connection
        .prepare_cached(
            "SELECT opened_at, half_open, lease_owner, lease_taken_at, lease_until
             FROM circuits WHERE command_hash = ?1",
        )?
        .query_row([hash], |row| {
            if !row.get(1)? {
                let opened_at: Option<f64> = row.get(0)?;
                return Ok(
                    opened_at.map_or(CircuitState::Closed, |since| CircuitState::Open { since })
                );
            }
            let lease = match (row.get(2)?, row.get(3)?, row.get(4)?) {
                (Some(owner), Some(taken_at), Some(until)) => {
                    Some(Lease { owner, taken_at, until })
                }
                _ => None,
            };
            Ok(CircuitState::HalfOpen { lease })
        })
        .optional()?;
    let Some(state) = state else {
        return Ok(Circuit::default());
    };
    let mut timeouts = connection.prepare_cached(
        "SELECT at, allowed FROM circuit_timeouts WHERE command_hash = ?1 ORDER BY at",
    )?;
    let timeouts =
        timeouts.query_map([hash], |row| Ok(TimedOut { at: row.get(0)?, allowed: row.get(1)? }))?;
    Ok(Circuit { state, timeouts: timeouts.collect::<rusqlite::Result<_>>()? })
}

/// Changes the circuit of a pattern in one transaction and returns the closure's result.
///
/// # Errors
/// If SQLite fails; nothing is then changed.
pub(crate) fn change<T>(
    connection: &mut Connection,
    hash: &str,
    preview: &str,
    change: impl FnOnce(&mut Circuit) -> T,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = circuit(&transaction, hash)?;
    let mut after = before.clone();
    let given = change(&mut after);
    if after != before {
        put(&transaction, &row(hash, preview, &after))?;
    }
    transaction.commit()?;
    Ok(given)
}

/// Replaces a circuit; a blank one is removed.
pub(crate) fn put(transaction: &Transaction<'_>, row: &CircuitRow) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM circuits WHERE command_hash = ?1")?
        .execute([&row.command_hash])?;
    if row.opened_at.is_none() && !row.half_open && row.timeouts.is_empty() {
        return Ok(());
    }
    let lease = row.lease.as_ref();
    transaction
        .prepare_cached(
            "INSERT INTO circuits (command_hash, command_preview, opened_at, half_open,
                 lease_owner, lease_taken_at, lease_until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            row.command_hash,
            row.command_preview,
            row.opened_at,
            row.half_open,
            lease.map(|lease| lease.owner.as_str()),
            lease.map(|lease| lease.taken_at),
            lease.map(|lease| lease.until),
        ])?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO circuit_timeouts (command_hash, at, allowed) VALUES (?1, ?2, ?3)",
    )?;
    for (at, allowed) in &row.timeouts {
        insert.execute(params![row.command_hash, at, allowed])?;
    }
    Ok(())
}

fn row(hash: &str, preview: &str, circuit: &Circuit) -> CircuitRow {
    let (opened_at, lease) = match &circuit.state {
        CircuitState::Closed => (None, None),
        CircuitState::Open { since } => (Some(*since), None),
        CircuitState::HalfOpen { lease } => (None, lease.as_ref()),
    };
    CircuitRow {
        command_hash: hash.to_owned(),
        command_preview: preview.to_owned(),
        opened_at,
        half_open: matches!(circuit.state, CircuitState::HalfOpen { .. }),
        lease: lease.cloned(),
        timeouts: circuit.timeouts.iter().map(|timeout| (timeout.at, timeout.allowed)).collect(),
    }
}

/// All circuits, open and half-open ones first.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<CircuitStatus>> {
    let mut found = connection.prepare_cached(
        "SELECT command_hash, command_preview FROM circuits
         ORDER BY half_open OR opened_at IS NOT NULL DESC, command_preview",
    )?;
    let names = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let names: Vec<(String, String)> = names.collect::<rusqlite::Result<_>>()?;
    let circuits = names.into_iter().map(|(hash, preview)| {
        Ok(CircuitStatus { circuit: circuit(connection, &hash)?, hash, preview, retry_in: 0.0 })
    });
    circuits.collect()
}

/// Closes the circuit of a pattern, or every circuit, and forgets the timeouts. Returns the
/// circuits as they were.
///
/// # Errors
/// If SQLite fails; nothing is then closed.
pub(crate) fn reset(
    connection: &mut Connection,
    hash: Option<&str>,
) -> rusqlite::Result<Vec<CircuitStatus>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut closed = all(&transaction)?;
    closed.retain(|status| hash.is_none_or(|hash| hash == status.hash));
    for status in &closed {
        transaction
            .prepare_cached("DELETE FROM circuits WHERE command_hash = ?1")?
            .execute([&status.hash])?;
    }
    transaction.commit()?;
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::alan::schema::tests::derivation;
    use crate::alan::store::connection::open_and_repair;

    #[test]
    fn no_connection_changes_a_circuit_while_another_decides_about_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        let open = || open_and_repair(&path, Duration::ZERO, &derivation(1)).expect("a database");
        let (mut one, mut other) = (open().0.connection, open().0.connection);
        let half_open =
            |circuit: &mut Circuit| circuit.state = CircuitState::HalfOpen { lease: None };
        change(&mut one, "hash", "sleep 9", half_open).expect("changed");
        let refused = change(&mut one, "hash", "sleep 9", |circuit| {
            assert_eq!(circuit.state, CircuitState::HalfOpen { lease: None });
            change(&mut other, "hash", "sleep 9", half_open)
        });
        assert!(refused.expect("changed").is_err(), "both decided at once");
    }

    #[test]
    fn a_circuit_reads_back_as_it_was_put() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        let opened = open_and_repair(&path, Duration::ZERO, &derivation(1));
        let mut connection = opened.expect("a database").0.connection;
        let lease = Lease { owner: "me".to_owned(), taken_at: 1.5, until: 2.5 };
        let timeouts =
            vec![TimedOut { at: 0.25, allowed: Some(5.0) }, TimedOut { at: 0.5, allowed: None }];
        for state in [
            CircuitState::Open { since: 1.0 },
            CircuitState::HalfOpen { lease: None },
            CircuitState::HalfOpen { lease: Some(lease) },
            CircuitState::Closed,
        ] {
            let wanted = Circuit { state, timeouts: timeouts.clone() };
            change(&mut connection, "hash", "x", |circuit| *circuit = wanted.clone()).expect("put");
            assert_eq!(circuit(&connection, "hash").expect("read"), wanted);
        }
        change(&mut connection, "hash", "x", |circuit| *circuit = Circuit::default()).expect("put");
        assert_eq!(all(&connection).expect("read"), []);
    }
}
