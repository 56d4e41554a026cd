//! The quota of the state directory, counted by all spools of a server together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The bytes that all spools of a server hold on disk, against the directory's quota.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    limit: u64,
    exceeded: AtomicBool,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            used: AtomicU64::new(0),
            limit,
            exceeded: AtomicBool::new(false),
        })
    }

    /// Bytes over the limit; 0 within it.
    pub fn excess(&self) -> u64 {
        self.used.load(Ordering::Relaxed).saturating_sub(self.limit)
    }

    /// Bytes on disk now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts bytes that were written.
    pub(super) fn take(&self, bytes: u64) {
        if self.used.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            self.exceeded.store(true, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were removed.
    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether the limit was passed since the last call.
    pub fn take_exceeded(&self) -> bool {
        self.exceeded.swap(false, Ordering::Relaxed)
    }
}
