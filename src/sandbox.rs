//! L2: what a sandboxed command may do, decided without touching the system. Pure.
//!
//! [`policy`] says which paths may be read and written and what of the network remains, and meets
//! two policies in one that is as tight as both. [`limits`] says what a kernel cannot enforce of it,
//! [`refusal`] which of a sandbox's refusals an output speaks of. [`git_config`] reads what git obeys.
//! The enforcement is in `process::sandbox`.

#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    allow(dead_code, reason = "nothing is protected there")
)]
pub(crate) mod git_config;
pub(crate) mod limits;
pub(crate) mod policy;
pub(crate) mod refusal;
