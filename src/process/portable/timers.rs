//! Waits that end on time. No portable call changes how late the kernel may end them.

/// Would make the timed waits of the thread that made it end on time.
#[must_use = "it ends when it is dropped"]
pub(crate) struct PreciseWaits(());

impl PreciseWaits {
    /// Changes nothing.
    pub(crate) fn begin() -> PreciseWaits {
        PreciseWaits(())
    }
}
