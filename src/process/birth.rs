//! What a program does to itself between fork and exec, so that it holds for all that it starts.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::birthmark::Birthmark;
use super::sandbox::Sandbox;

#[derive(Debug, Clone, Default)]
pub(crate) struct Birth {
    /// What it and all that it starts are known by.
    pub(crate) birthmark: Option<Birthmark>,
    /// `cgroup.procs` of the control group that it enters, open for writing.
    pub(crate) group: Option<RawFd>,
    /// What confines it.
    pub(crate) sandbox: Option<Arc<Sandbox>>,
}

impl Birth {
    /// Runs in the child; makes only system calls.
    ///
    /// # Errors
    /// The control group does not take it, or its sandbox cannot be enforced.
    pub(crate) fn carry_out(&self) -> io::Result<()> {
        /// The writer itself.
        const SELF: &[u8] = b"0";
        self.birthmark.into_iter().for_each(Birthmark::set);
        if let Some(group) = self.group {
            // SAFETY: reads a constant only.
            let written = unsafe { libc::write(group, SELF.as_ptr().cast(), SELF.len()) };
            if written < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.sandbox.as_ref().map_or(Ok(()), |sandbox| sandbox.carry_out())
    }
}
