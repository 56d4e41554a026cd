//! Circuits in the database: each check and each report is one transaction, so that of
//! several servers one gets the lease.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::alan::rows::{CircuitRow, LeaseRow};
use crate::neverhang::{Circuit, Lease, State, TimedOut};

/// A circuit with the pattern that it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedCircuit {
    /// The pattern.
    pub hash: String,
    /// The redacted command.
    pub preview: String,
    /// Its circuit.
    pub circuit: Circuit,
}

/// The circuit of a pattern; a blank one where there is none.
///
/// # Errors
/// As SQLite.
pub fn circuit(connection: &Connection, hash: &str) -> rusqlite::Result<Circuit> {
    let state = connection
        .prepare_cached(
            "SELECT opened_at, half_open, lease_owner, lease_taken_at, lease_until
             FROM circuits WHERE command_hash = ?1",
        )?
        .query_row([hash], |row| {
            let lease = match (row.get(2)?, row.get(3)?, row.get(4)?) {
                (Some(owner), Some(taken_at), Some(until)) => Some(Lease {
                    owner,
                    taken_at,
                    until,
                }),
                _ => None,
            };
            Ok(state(row.get(0)?, row.get(1)?, lease))
        })
        .optional()?;
    let Some(state) = state else {
        return Ok(Circuit::default());
    };
    let mut timeouts = connection.prepare_cached(
        "SELECT at, allowed FROM circuit_timeouts WHERE command_hash = ?1 ORDER BY at",
    )?;
    let timeouts = timeouts.query_map([hash], |row| {
        Ok(TimedOut {
            at: row.get(0)?,
            allowed: row.get(1)?,
        })
    })?;
    Ok(Circuit {
        state,
        timeouts: timeouts.collect::<rusqlite::Result<_>>()?,
    })
}

fn state(opened_at: Option<f64>, half_open: bool, lease: Option<Lease>) -> State {
    match (half_open, opened_at) {
        (true, _) => State::HalfOpen { lease },
        (false, Some(since)) => State::Open { since },
        (false, None) => State::Closed,
    }
}

/// Changes the circuit of a pattern in one transaction; what the change gives.
///
/// # Errors
/// As SQLite; nothing is changed then.
pub fn change<T>(
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

/// Puts a circuit in place of the one that is there; a blank one is removed.
///
/// # Errors
/// As SQLite.
pub fn put(transaction: &Transaction<'_>, row: &CircuitRow) -> rusqlite::Result<()> {
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

/// A circuit as a row.
pub fn row(hash: &str, preview: &str, circuit: &Circuit) -> CircuitRow {
    let (opened_at, lease) = match &circuit.state {
        State::Closed => (None, None),
        State::Open { since } => (Some(*since), None),
        State::HalfOpen { lease } => (None, lease.as_ref()),
    };
    CircuitRow {
        command_hash: hash.to_owned(),
        command_preview: preview.to_owned(),
        opened_at,
        half_open: matches!(circuit.state, State::HalfOpen { .. }),
        lease: lease.map(|lease| LeaseRow {
            owner: lease.owner.clone(),
            taken_at: lease.taken_at,
            until: lease.until,
        }),
        timeouts: circuit
            .timeouts
            .iter()
            .map(|timeout| (timeout.at, timeout.allowed))
            .collect(),
    }
}

/// All circuits, those that are not closed first.
///
/// # Errors
/// As SQLite.
pub fn all(connection: &Connection) -> rusqlite::Result<Vec<NamedCircuit>> {
    let mut found = connection.prepare_cached(
        "SELECT command_hash, command_preview FROM circuits
         ORDER BY half_open OR opened_at IS NOT NULL DESC, command_preview",
    )?;
    let names = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let names: Vec<(String, String)> = names.collect::<rusqlite::Result<_>>()?;
    let circuits = names.into_iter().map(|(hash, preview)| {
        Ok(NamedCircuit {
            circuit: circuit(connection, &hash)?,
            hash,
            preview,
        })
    });
    circuits.collect()
}

/// Closes the circuit of a pattern, or all, and forgets their timeouts; gives what they
/// were.
///
/// # Errors
/// As SQLite; nothing is closed then.
pub fn reset(
    connection: &mut Connection,
    hash: Option<&str>,
) -> rusqlite::Result<Vec<NamedCircuit>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut closed = all(&transaction)?;
    closed.retain(|named| hash.is_none_or(|hash| hash == named.hash));
    for named in &closed {
        transaction
            .prepare_cached("DELETE FROM circuits WHERE command_hash = ?1")?
            .execute([&named.hash])?;
    }
    transaction.commit()?;
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::alan::schema::tests::derivation;
    use crate::alan::store::connection::open_present;

    #[test]
    fn nobody_changes_a_circuit_while_another_decides_about_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        let open = || open_present(&path, Duration::ZERO, &derivation(1)).expect("a database");
        let (mut one, mut other) = (open().0.connection, open().0.connection);
        let half_open = |circuit: &mut Circuit| circuit.state = State::HalfOpen { lease: None };
        change(&mut one, "hash", "sleep 9", half_open).expect("changed");
        let refused = change(&mut one, "hash", "sleep 9", |circuit| {
            assert_eq!(circuit.state, State::HalfOpen { lease: None });
            change(&mut other, "hash", "sleep 9", half_open)
        });
        assert!(refused.expect("changed").is_err(), "both decided at once");
    }

    #[test]
    fn a_circuit_reads_back_as_it_was_put() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("alan.db");
        let opened = open_present(&path, Duration::ZERO, &derivation(1));
        let mut connection = opened.expect("a database").0.connection;
        let lease = Lease {
            owner: "me".to_owned(),
            taken_at: 1.5,
            until: 2.5,
        };
        let timeouts = vec![
            TimedOut {
                at: 0.25,
                allowed: Some(5.0),
            },
            TimedOut {
                at: 0.5,
                allowed: None,
            },
        ];
        for state in [
            State::Open { since: 1.0 },
            State::HalfOpen { lease: None },
            State::HalfOpen { lease: Some(lease) },
            State::Closed,
        ] {
            let wanted = Circuit {
                state,
                timeouts: timeouts.clone(),
            };
            change(&mut connection, "hash", "x", |circuit| {
                *circuit = wanted.clone()
            })
            .expect("put");
            assert_eq!(circuit(&connection, "hash").expect("read"), wanted);
        }
        change(&mut connection, "hash", "x", |circuit| {
            *circuit = Circuit::default()
        })
        .expect("put");
        assert_eq!(all(&connection).expect("read"), []);
    }
}
