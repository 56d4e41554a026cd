//! Keeping what this process holds from other processes of the same user.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Closes this process's environment, memory and descriptors in `/proc` to other processes
/// of its user: a command that the server runs could read listed secrets there. Root reads
/// them all the same. Programs that it starts are not concerned.
pub fn close_to_others() {
    // Fails on no kernel that has it; without it a file is the better place for a secret.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
