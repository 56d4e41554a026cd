//! The storage that all spools of a server use together, on disk and in memory, against its
//! limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many bytes all spools together keep in memory when there is no disk.
pub(crate) const MEMORY_LIMIT: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageKind {
    /// In files of the state directory.
    Disk,
    Memory,
}

/// The bytes that all spools of a server hold, against their limits.
#[derive(Debug)]
pub(crate) struct Budget {
    disk: Account,
    memory: Account,
    exceeded: AtomicBool,
}

#[derive(Debug)]
struct Account {
    used: AtomicU64,
    limit: u64,
}

impl Budget {
    /// A budget of this many bytes on disk, and of [`MEMORY_LIMIT`].
    pub(crate) fn new(disk_limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            disk: Account { used: AtomicU64::new(0), limit: disk_limit },
            memory: Account { used: AtomicU64::new(0), limit: MEMORY_LIMIT },
            exceeded: AtomicBool::new(false),
        })
    }

    fn account(&self, store: StorageKind) -> &Account {
        match store {
            StorageKind::Disk => &self.disk,
            StorageKind::Memory => &self.memory,
        }
    }

    /// Bytes over the limit; 0 within it.
    pub(crate) fn excess(&self, store: StorageKind) -> u64 {
        let account = self.account(store);
        account.used.load(Ordering::Relaxed).saturating_sub(account.limit)
    }

    pub(crate) fn used(&self, store: StorageKind) -> u64 {
        self.account(store).used.load(Ordering::Relaxed)
    }

    /// Counts bytes that were written.
    pub(crate) fn take(&self, store: StorageKind, bytes: u64) {
        let account = self.account(store);
        if account.used.fetch_add(bytes, Ordering::Relaxed) + bytes > account.limit {
            self.exceeded.store(true, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were removed.
    pub(crate) fn give_back(&self, store: StorageKind, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let used = &self.account(store).used;
        let _ = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether a limit was passed since the last call.
    pub(crate) fn take_exceeded(&self) -> bool {
        self.exceeded.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_and_memory_have_limits_of_their_own() {
        let budget = Budget::new(10);
        budget.take(StorageKind::Memory, 11);
        assert!(!budget.take_exceeded());
        budget.take(StorageKind::Disk, 11);
        assert!(budget.take_exceeded());
        assert_eq!(budget.excess(StorageKind::Disk), 1);
        budget.take(StorageKind::Memory, MEMORY_LIMIT);
        assert!(budget.take_exceeded());
        assert_eq!(budget.excess(StorageKind::Memory), 11);
    }

    #[test]
    fn the_count_does_not_wrap_below_zero() {
        let budget = Budget::new(10);
        budget.take(StorageKind::Disk, 3);
        budget.give_back(StorageKind::Disk, 5);
        assert_eq!(budget.used(StorageKind::Disk), 0);
    }
}
