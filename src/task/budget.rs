//! What all spools of a server hold together, on disk against the directory's quota and
//! in memory against a limit of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What all spools together may keep in memory, where there is no disk.
pub const MEMORY_LIMIT: u64 = 64 * 1024 * 1024;

/// Where bytes of output are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Files of the state directory.
    Disk,
    /// The server's memory.
    Memory,
}

/// The bytes that all spools of a server hold, against their limits.
#[derive(Debug)]
pub struct Budget {
    disk: Account,
    memory: Account,
    exceeded: AtomicBool,
}

#[derive(Debug)]
struct Account {
    used: AtomicU64,
    limit: u64,
}

impl Account {
    fn new(limit: u64) -> Account {
        Account {
            used: AtomicU64::new(0),
            limit,
        }
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Budget {
    /// A budget of so many bytes on disk, and of [`MEMORY_LIMIT`].
    pub fn new(disk_limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            disk: Account::new(disk_limit),
            memory: Account::new(MEMORY_LIMIT),
            exceeded: AtomicBool::new(false),
        })
    }

    fn account(&self, store: Store) -> &Account {
        match store {
            Store::Disk => &self.disk,
            Store::Memory => &self.memory,
        }
    }

    /// Bytes over the limit; 0 within it.
    pub fn excess(&self, store: Store) -> u64 {
        let account = self.account(store);
        account.used().saturating_sub(account.limit)
    }

    /// Bytes that are held now.
    pub fn used(&self, store: Store) -> u64 {
        self.account(store).used()
    }

    /// Counts bytes that were written.
    pub(super) fn take(&self, store: Store, bytes: u64) {
        let account = self.account(store);
        if account.used.fetch_add(bytes, Ordering::Relaxed) + bytes > account.limit {
            self.exceeded.store(true, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were removed.
    pub(super) fn give_back(&self, store: Store, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let used = &self.account(store).used;
        let _ = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether a limit was passed since the last call.
    pub fn take_exceeded(&self) -> bool {
        self.exceeded.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_and_memory_have_limits_of_their_own() {
        let budget = Budget::new(10);
        budget.take(Store::Memory, 11);
        assert!(!budget.take_exceeded());
        budget.take(Store::Disk, 11);
        assert!(budget.take_exceeded());
        assert_eq!(budget.excess(Store::Disk), 1);
        budget.take(Store::Memory, MEMORY_LIMIT);
        assert!(budget.take_exceeded());
        assert_eq!(budget.excess(Store::Memory), 11);
    }

    #[test]
    fn more_given_back_than_taken_is_nothing_and_not_a_huge_number() {
        let budget = Budget::new(10);
        budget.take(Store::Disk, 3);
        budget.give_back(Store::Disk, 5);
        assert_eq!(budget.used(Store::Disk), 0);
    }
}
