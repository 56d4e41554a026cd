//! L3: the kernel. The only folder with `unsafe`, `libc`, `rustix` and `procfs`; signals are sent here
//! alone.
//!
//! Read in this order:
//!
//! - Start: [`program`] is what is started, [`spawn`] starts it with its own session, descriptors and
//!   signals, [`pty`] gives it a terminal, [`descriptors`] reads and writes without blocking.
//! - Watch: [`probe`] is what a scan reports, [`scans`] shares scans among tasks, [`tree`] decides
//!   which processes belong to a task, [`wait`] notices a shell's end.
//! - End: [`kill`] signals a process only if pid and start time match, [`terminate`] does it in steps,
//!   [`survivors`] when the supervisor is gone.
//! - Confine: [`sandbox`] keeps a command from what its policy denies, with mounts and rules that the
//!   commands of one policy share.
//! - Around the server: `guard` ends everything if the server dies, `launcher` and [`restorer`] are
//!   processes that outlive their starter, [`executable`] judges who may have a secret.
//! - [`files`], [`local_socket`], [`signals`], [`threads`], [`capture`]: for all layers above.
//!
//! What needs Linux is in `process/linux`; each file has a twin of the same name in
//! `process/portable`, for macOS and for the feature `portable`.

pub(crate) mod birth;
pub(crate) mod capture;
pub(crate) mod descriptors;
pub(crate) mod executable;
pub(crate) mod files;
pub(crate) mod kill;
mod launcher;
pub(crate) mod ledger;
pub(crate) mod local_socket;
mod marking;
pub(crate) mod needs;
pub(crate) mod probe;
mod program;
pub(crate) mod pty;
pub(crate) mod removal;
pub(crate) mod restorer;
pub(crate) mod scans;
pub(crate) mod signals;
pub(crate) mod spawn;
pub(crate) mod survivors;
pub(crate) mod terminate;
pub(crate) mod threads;
pub(crate) mod tree;
pub(crate) mod wait;

/// The implementation for Linux.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
#[path = "process/linux"]
mod system {
    mod alarms;
    pub(crate) mod birthmark;
    mod calls;
    pub(crate) mod close_on_exec;
    pub(crate) mod confinement;
    pub(crate) mod control_group;
    pub(crate) mod directory_watch;
    mod elf;
    pub(crate) mod ends;
    mod go;
    pub(crate) mod guard;
    pub(crate) mod hangup;
    mod hotspot;
    pub(crate) mod listening;
    pub(crate) mod locks;
    pub(crate) mod memory;
    mod mounts;
    pub(crate) mod orphans;
    pub(crate) mod processes;
    mod runtimes;
    pub(crate) mod sandbox;
    mod sockets;
    pub(crate) mod start;
    pub(crate) mod terminal_pair;
    pub(crate) mod timers;
    pub(crate) mod usage;
    pub(crate) mod vfork;
    pub(crate) mod waits;
}

/// The twin of each file, for any other Unix.
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
#[path = "process/portable"]
mod system {
    pub(crate) mod birthmark;
    pub(crate) mod close_on_exec;
    pub(crate) mod confinement;
    pub(crate) mod control_group;
    mod darwin;
    pub(crate) mod directory_watch;
    pub(crate) mod ends;
    pub(crate) mod groups;
    pub(crate) mod guard;
    pub(crate) mod hangup;
    mod libproc;
    mod lineage;
    pub(crate) mod listening;
    pub(crate) mod locks;
    pub(crate) mod memory;
    pub(crate) mod orphans;
    pub(crate) mod processes;
    mod queue;
    pub(crate) mod sandbox;
    pub(crate) mod start;
    pub(crate) mod terminal_pair;
    pub(crate) mod timers;
    pub(crate) mod usage;
    pub(crate) mod waits;
}

pub(crate) use system::*;
