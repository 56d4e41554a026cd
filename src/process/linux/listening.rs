//! Which processes listen at TCP ports, from the tables of `/proc/<pid>/net` and the names of
//! descriptors.
//!
//! Limits: the tables list the sockets of other users' processes, but only root can see which
//! process holds them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use procfs::net::{TcpNetEntries, TcpState};
use procfs::{FromReadSI, current_system_info};

use super::sockets::inode_of;
use crate::process::probe::{Listener, ProcessInfo};
use crate::process::processes;

/// The sockets that listen in the network namespace of a process; `None` where that cannot be
/// read.
pub(crate) fn listeners(pid: i32) -> Option<Vec<Listener>> {
    let directory = processes::proc_directory(pid).join("net");
    let read = |name: &str| {
        let table = TcpNetEntries::from_file(directory.join(name), current_system_info());
        Some(table.ok()?.0)
    };
    // A kernel without IPv6 has one table only.
    let tables = [read("tcp")?, read("tcp6").unwrap_or_default()];
    let listening = tables.into_iter().flatten().filter(|socket| socket.state == TcpState::Listen);
    let listener = |local: SocketAddr| SocketAddr::new(local.ip().to_canonical(), local.port());
    Some(
        listening
            .map(|socket| Listener {
                address: listener(socket.local_address),
                inode: socket.inode,
                uid: socket.uid,
            })
            .collect(),
    )
}

/// The network namespace of a process, as a name to compare; `None` where it is not shown.
pub(crate) fn network_namespace(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(processes::proc_directory(pid).join("ns/net")).ok()
}

/// The inodes of a process's sockets; `None` where it does not show its descriptors.
pub(crate) fn sockets_of(pid: i32) -> Option<Vec<u64>> {
    match std::fs::read_dir(processes::proc_directory(pid).join("fd")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        _ => Some(
            processes::descriptor_names(pid).filter_map(|name| inode_of(name.to_str()?)).collect(),
        ),
    }
}

/// A process that holds one of these sockets, among all that show their descriptors.
pub(crate) fn holder(listeners: &[Listener]) -> Option<ProcessInfo> {
    let mut found = None;
    processes::visit(|process| {
        let holds = |inode: &u64| listeners.iter().any(|listener| listener.inode == *inode);
        if found.is_none()
            && sockets_of(process.id.pid).is_some_and(|sockets| sockets.iter().any(holds))
        {
            found = Some(process);
        }
    });
    found
}

/// The ports at which these processes listen, in order; omits processes that listen at none.
pub(crate) fn ports_of(pids: &[i32]) -> BTreeMap<i32, Vec<u16>> {
    let mut tables: BTreeMap<Option<PathBuf>, Vec<Listener>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for pid in pids {
        let table = tables
            .entry(network_namespace(*pid))
            .or_insert_with(|| listeners(*pid).unwrap_or_default());
        if table.is_empty() {
            continue;
        }
        let sockets = sockets_of(*pid).unwrap_or_default();
        let own = table.iter().filter(|listener| sockets.contains(&listener.inode));
        let mut ports: Vec<u16> = own.map(|listener| listener.address.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        if !ports.is_empty() {
            found.insert(*pid, ports);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_of_this_process_is_found_with_its_holder() {
        let socket = TcpListener::bind("[::1]:0").or_else(|_| TcpListener::bind("127.0.0.1:0"));
        let address = socket.as_ref().expect("a port").local_addr().expect("an address");
        let own = std::process::id() as i32;
        assert!(ports_of(&[own])[&own].contains(&address.port()));
        let mut all = listeners(own).expect("tables");
        all.retain(|listener| listener.address == address);
        assert_eq!(all.len(), 1);
        assert_eq!(holder(&all).map(|process| process.id.pid), Some(own));
        assert_eq!(holder(&[]), None);
        drop(socket);
        assert!(!listeners(own).expect("tables").iter().any(|other| other.address == address));
    }
}
