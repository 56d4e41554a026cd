//! Whether a process waits for the other end of a connection.
//!
//! The descriptors that its threads are blocked on are looked up among the TCP sockets of
//! its network namespace. Limits: Linux; TCP alone. A socket that listens makes a server
//! of its owner, which waits for whoever comes and is not held up.

use std::path::{Path, PathBuf};

use crate::process::{probe, processes};

/// `TCP_ESTABLISHED` and `TCP_SYN_SENT` of the kernel's `tcp_states.h`.
const CONNECTED: [&str; 2] = ["01", "02"];
/// `TCP_LISTEN`.
const LISTENING: &str = "0A";

/// Whether a process is blocked on connections and listens on none of the sockets that it
/// waits for.
pub fn waits_for_peer(pid: i32) -> bool {
    let sockets: Vec<String> = probe::awaited(pid)
        .iter()
        .map(PathBuf::as_path)
        .filter_map(inode_of)
        .collect();
    if sockets.is_empty() {
        return false;
    }
    let states: Vec<String> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| {
            std::fs::read_to_string(processes::directory(pid).join("net").join(table)).ok()
        })
        .flat_map(|table| states_of(&table, &sockets))
        .collect();
    states
        .iter()
        .any(|state| CONNECTED.contains(&state.as_str()))
        && !states.iter().any(|state| state == LISTENING)
}

/// `socket:[12345]`
fn inode_of(name: &Path) -> Option<String> {
    let name = name.to_str()?.strip_prefix("socket:[")?;
    name.strip_suffix(']').map(str::to_owned)
}

/// The states of these sockets, in hexadecimal, as the lines of `/proc/net/tcp` have them.
fn states_of(table: &str, inodes: &[String]) -> Vec<String> {
    const STATE: usize = 3;
    const INODE: usize = 9;
    table
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let is_asked = inodes
                .iter()
                .any(|asked| Some(&asked.as_str()) == words.get(INODE));
            is_asked.then(|| words.get(STATE).map(|state| (*state).to_owned()))?
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_by_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:8A2B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n   \
            1: 0100007F:8A2C 0100007F:8A2B 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1\n";
        let states = |inodes: &[&str]| {
            let inodes: Vec<String> = inodes.iter().map(|inode| (*inode).to_owned()).collect();
            states_of(table, &inodes)
        };
        assert_eq!(states(&["4243"]), ["01"]);
        assert_eq!(states(&["4242", "4243"]), ["0A", "01"]);
        assert!(states(&["4"]).is_empty());
        assert_eq!(inode_of(Path::new("socket:[77]")).as_deref(), Some("77"));
        assert_eq!(inode_of(Path::new("pipe:[77]")), None);
    }
}
