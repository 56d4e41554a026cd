//! Keeping what this process holds from other processes of the same user.
//!
//! Limits: no portable call does. Other processes of the user may see its environment, as
//! `ps -E` does; a file of mode 0600 is the better place for a secret.

/// Does what the system allows, which is nothing.
pub fn close_to_others() {}
