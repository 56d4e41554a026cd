//! The calls in flight on one connection: their ids and number, cancelling them, waiting for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::ceilings;
use crate::base::cancel::Cancel;
use crate::protocol::id::RequestId;

/// The maximum number of concurrent calls.
pub(crate) const MAX_CALLS: usize = 64;
/// A call that has been open for less, while its client sends another, is one of several at once: no
/// client gives up so soon.
const SHORTEST_PATIENCE: Duration = Duration::from_secs(3);
/// After so many calls that were given up, what comes at once is taken to be meant so.
const MOST_GIVEN_UP: u32 = 3;

/// Why a call cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeginError {
    /// Too many calls are in flight.
    Busy,
    /// A call with the same id is in flight.
    IdTaken,
}

/// A call that has not been answered.
#[derive(Debug)]
struct OpenCall {
    cancel: Arc<Cancel>,
    since: Instant,
    /// The client's name.
    client: String,
    is_given_up: bool,
}

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) cancel: Arc<Cancel>,
    /// How long the client had waited for an earlier call, if this one shows that it has given that up.
    pub(crate) gave_up_after: Option<Duration>,
}

#[derive(Debug, Default)]
struct CallsState {
    /// Calls without an answer, whose ids are taken.
    open: HashMap<RequestId, OpenCall>,
    /// How many calls have not yet handed their answer to the transport.
    under_way: usize,
    /// The client has sent a call while it waited for another.
    overlapped: bool,
    given_up: u32,
}

impl CallsState {
    /// The open call that its client has given up, if it sends another one now, and how long it waited.
    fn take_given_up(&mut self) -> Option<(Arc<Cancel>, Duration)> {
        if self.overlapped || self.given_up >= MOST_GIVEN_UP {
            return None;
        }
        let open = self.open.values_mut().find(|open| !open.is_given_up)?;
        let waited = open.since.elapsed();
        if waited < SHORTEST_PATIENCE {
            return None;
        }
        open.is_given_up = true;
        self.given_up += 1;
        Some((Arc::clone(&open.cancel), waited))
    }
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<CallsState>,
    changed: Condvar,
}

impl InFlight {
    /// Counts a call of this client and takes its id.
    ///
    /// With `may_give_up`, the client may give a call up without a cancellation. On a connection whose
    /// client has sent one call at a time, the next call shows it: the open one then counts as given up.
    ///
    /// # Errors
    /// When the call cannot begin; nothing is counted then.
    pub(crate) fn begin(
        &self,
        id: &RequestId,
        client: &str,
        may_give_up: bool,
    ) -> Result<Begun, BeginError> {
        let mut state = self.state.lock();
        if state.under_way >= MAX_CALLS {
            return Err(BeginError::Busy);
        }
        if state.open.contains_key(id) {
            return Err(BeginError::IdTaken);
        }
        let cancel = Arc::new(Cancel::default());
        let open = OpenCall {
            cancel: Arc::clone(&cancel),
            since: Instant::now(),
            client: client.to_owned(),
            is_given_up: false,
        };
        let given_up = may_give_up.then(|| state.take_given_up()).flatten();
        state.overlapped |= state.open.values().any(|open| !open.is_given_up);
        state.open.insert(id.clone(), open);
        state.under_way += 1;
        drop(state);
        let gave_up_after = given_up.map(|(older, waited)| {
            older.give_up(waited);
            waited
        });
        Ok(Begun { cancel, gave_up_after })
    }

    /// Cancels the call with this id, if any. The reason decides whether the call timed out.
    pub(crate) fn cancel(&self, id: &RequestId, reason: Option<&str>) {
        let call = self.state.lock().open.get(id).map(|open| {
            let waited = open.since.elapsed();
            let timed_out = ceilings::is_timeout(&open.client, reason, waited);
            (Arc::clone(&open.cancel), timed_out.then_some(waited))
        });
        match call {
            Some((cancel, Some(waited))) => cancel.time_out(waited),
            Some((cancel, None)) => cancel.cancel(),
            None => {}
        }
    }

    /// Cancels all calls.
    pub(crate) fn cancel_all(&self) {
        let open: Vec<Arc<Cancel>> = {
            let state = self.state.lock();
            state.open.values().map(|open| Arc::clone(&open.cancel)).collect()
        };
        for cancel in open {
            cancel.cancel();
        }
    }

    /// Whether a call is under way.
    pub(crate) fn any(&self) -> bool {
        self.state.lock().under_way > 0
    }

    /// Frees the id. Call it before the client can see the answer.
    pub(crate) fn free_id(&self, id: &RequestId) {
        self.state.lock().open.remove(id);
    }

    /// Notes that a call has handed its answer, if any, to the transport.
    pub(crate) fn end(&self) {
        self.state.lock().under_way -= 1;
        self.changed.notify_all();
    }

    /// Waits for at most `limit` until no call is under way; returns whether none is.
    pub(crate) fn await_none(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.state.lock();
        while state.under_way > 0 {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return state.under_way == 0;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(number: usize) -> RequestId {
        RequestId::from_value(&json!(number)).expect("a number is an id")
    }

    #[test]
    fn an_id_is_taken_until_it_is_freed_and_a_place_until_the_end() {
        let calls = InFlight::default();
        let begin = |number| calls.begin(&id(number), "", false);
        let first = begin(1).expect("room").cancel;
        assert_eq!(begin(1).err(), Some(BeginError::IdTaken));
        calls.cancel(&id(1), None);
        assert!(first.is_cancelled());
        calls.free_id(&id(1));
        assert!(!calls.await_none(Duration::ZERO));
        for number in 2..=MAX_CALLS {
            begin(number).expect("room");
        }
        assert_eq!(begin(0).err(), Some(BeginError::Busy));
        calls.end();
        assert!(begin(0).is_ok());
    }
}
