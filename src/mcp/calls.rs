//! The calls under way: their ids, their number, and the way to cancel one or to await
//! them all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::protocol::id::RequestId;
use crate::task::live::Cancel;

/// Calls at the same time.
pub const MAX_CALLS: usize = 64;

/// Why a call is not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBegun {
    /// As many are under way as may be.
    Busy,
    /// One under the same id is.
    IdTaken,
}

#[derive(Debug, Default)]
struct State {
    /// Those whose answer has not been given: their ids are taken.
    open: HashMap<RequestId, Arc<Cancel>>,
    /// Those whose answer has not been handed to the transport.
    under_way: usize,
}

/// The calls of one connection.
#[derive(Debug, Default)]
pub struct Calls {
    state: Mutex<State>,
    changed: Condvar,
}

impl Calls {
    /// Counts a call and takes its id.
    ///
    /// # Errors
    /// It cannot be begun; nothing has changed then.
    pub fn begin(&self, id: &RequestId) -> Result<Arc<Cancel>, NotBegun> {
        let mut state = self.state.lock();
        if state.under_way >= MAX_CALLS {
            return Err(NotBegun::Busy);
        }
        if state.open.contains_key(id) {
            return Err(NotBegun::IdTaken);
        }
        let cancel = Arc::new(Cancel::default());
        state.open.insert(id.clone(), Arc::clone(&cancel));
        state.under_way += 1;
        Ok(cancel)
    }

    /// Cancels a call, if there is one under this id.
    pub fn cancel(&self, id: &RequestId) {
        let call = self.state.lock().open.get(id).cloned();
        if let Some(cancel) = call {
            cancel.cancel();
        }
    }

    /// The id is free again: before the client can see the answer.
    pub fn free_id(&self, id: &RequestId) {
        self.state.lock().open.remove(id);
    }

    /// The answer, if there is one, is with the transport.
    pub fn end(&self) {
        self.state.lock().under_way -= 1;
        self.changed.notify_all();
    }

    /// Waits until no call is under way, for so long at most; whether none is.
    pub fn await_none(&self, limit: Duration) -> bool {
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
        let calls = Calls::default();
        let first = calls.begin(&id(1)).expect("room");
        assert_eq!(calls.begin(&id(1)).err(), Some(NotBegun::IdTaken));
        calls.cancel(&id(1));
        assert!(first.is_cancelled());
        calls.free_id(&id(1));
        assert!(!calls.await_none(Duration::ZERO));
        for number in 2..=MAX_CALLS {
            calls.begin(&id(number)).expect("room");
        }
        assert_eq!(calls.begin(&id(0)).err(), Some(NotBegun::Busy));
        calls.end();
        assert!(calls.begin(&id(0)).is_ok());
    }
}
