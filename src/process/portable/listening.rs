//! Which processes listen at TCP ports: no portable call reports it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::process::probe::{Listener, ProcessInfo};

/// The sockets that listen: always `None`.
pub(crate) fn listeners(_pid: i32) -> Option<Vec<Listener>> {
    None
}

/// The network namespace of a process: always `None`.
pub(crate) fn network_namespace(_pid: i32) -> Option<PathBuf> {
    None
}

/// The inodes of a process's sockets: not known.
pub(crate) fn sockets_of(_pid: i32) -> Option<Vec<u64>> {
    None
}

/// A process that holds one of these sockets: not known.
pub(crate) fn holder(_listeners: &[Listener]) -> Option<ProcessInfo> {
    None
}

/// The ports at which these processes listen: not known.
pub(crate) fn ports_of(_pids: &[i32]) -> BTreeMap<i32, Vec<u16>> {
    BTreeMap::new()
}
