//! What a line that a program prints again and again names as the cause of its wait: an address of
//! this machine, or the process that holds a lock; and what a command's text names as its end.
//!
//! Pure. The caller checks whether something listens there, and whether that process lives: a line
//! alone proves nothing.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalAddress {
    /// The address; `None` for `localhost`, which is both loopback addresses.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: u16,
}

impl LocalAddress {
    /// Whether a socket that listens at this address serves it.
    pub(crate) fn is_served_by(&self, ip: IpAddr, port: u16) -> bool {
        port == self.port
            && (ip.is_unspecified()
                || self.ip.map_or(ip.is_loopback(), |own| own == ip || own.is_unspecified()))
    }
}

impl std::fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ip {
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            Some(ip) => write!(f, "{ip}:{}", self.port),
            None => write!(f, "localhost:{}", self.port),
        }
    }
}

/// The first address of this machine that a line names: `127.0.0.1:5432`, `http://localhost:80/x`,
/// `[::1]:80`, `localhost port 80`, `host localhost, port 80`.
pub(crate) fn local_address(line: &str) -> Option<LocalAddress> {
    let mut found = hosts(line).filter_map(|(ip, rest)| {
        let port = port_after(rest)?;
        Some(LocalAddress { ip, port })
    });
    found.next()
}

/// The names of this machine in a line, each with what follows it.
fn hosts(line: &str) -> impl Iterator<Item = (Option<IpAddr>, &str)> {
    line.char_indices().filter_map(move |(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        // Part of a longer name or number.
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_')) {
            return None;
        }
        let rest = line.get(at..)?;
        if let Some(after) = rest.strip_prefix("localhost") {
            let ends = !after.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-'));
            return ends.then_some((None, after));
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (ip, after) = inside.split_once(']')?;
            let ip: Ipv6Addr = ip.parse().ok()?;
            return is_own(ip.into()).then_some((Some(ip.into()), after));
        }
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (ip, after) = rest.split_at_checked(end)?;
        let ip: Ipv4Addr = ip.parse().ok()?;
        is_own(ip.into()).then_some((Some(ip.into()), after))
    })
}

fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

/// The port in what follows a host: `:80`, ` port 80`, `", port 80`, ` (127.0.0.1), port 80`.
fn port_after(rest: &str) -> Option<u16> {
    /// How far away the word `port` may be.
    const REACH: usize = 24;
    if let Some(number) = rest.strip_prefix(':') {
        return leading_number(number);
    }
    let at = rest.find("port")?;
    let between = rest.get(..at)?;
    if between.len() > REACH || between.contains(';') {
        return None;
    }
    let number = rest.get(at..)?.strip_prefix("port")?.trim_start_matches([' ', ':', '=', '"']);
    leading_number(number)
}

fn leading_number(text: &str) -> Option<u16> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok().filter(|port| *port > 0)
}

/// The process that holds a lock, by a line that reports a wait for it: apt's `Waiting for cache
/// lock: … It is held by process 4711 (apt)`, dnf's and zypper's `… locked by … with pid 4711`,
/// gradle's `Owner PID: 4711`.
pub(crate) fn lock_holder(line: &str) -> Option<i32> {
    let lower = line.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_lock = |word: &str| matches!(word, "lock" | "locks" | "lockfile" | "locked");
    let held_by_others = ["another copy", "another instance", "already running"];
    if !words.clone().any(is_lock) && !held_by_others.iter().any(|phrase| lower.contains(phrase)) {
        return None;
    }
    while let Some(word) = words.next() {
        if matches!(word, "process" | "pid") {
            let mut ahead = words.clone();
            let number = ahead.next().filter(|word| *word != "id").or_else(|| ahead.next());
            let pid = number.and_then(|word| word.parse().ok());
            if let Some(pid) = pid.filter(|pid: &i32| *pid > 1) {
                return Some(pid);
            }
        }
    }
    None
}

/// The file of the lock that such a line names, if any: its first absolute path.
pub(crate) fn lock_path(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let path = words.find(|word| word.trim_start_matches(['\'', '"', '(']).starts_with('/'))?;
    Some(path.trim_matches(['\'', '"', '(', ')', '.', ',', ':', ';']))
}

/// Whether a command sets a timer that no observer sees, as `perl -e 'alarm shift; exec @ARGV' 60 make`
/// does: it ends the program that perl becomes, which knows nothing of it.
pub(crate) fn alarm(command: &str) -> bool {
    let mut words = command.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| matches!(word, "alarm" | "ualarm" | "setitimer" | "ITIMER_REAL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_sets_an_alarm_is_known_by_the_word() {
        for command in [
            "perl -e 'alarm shift; exec @ARGV' 200 cat f",
            "python3 -c 'import signal; signal.alarm(200); open(\"f\")'",
            "python3 -c 'import signal; signal.setitimer(signal.ITIMER_REAL, 200)'",
        ] {
            assert!(alarm(command), "{command}");
        }
        for command in ["cat f", "make alarms", "no_alarm=1 cat f", ""] {
            assert!(!alarm(command), "{command}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_found() {
        for (line, address) in [
            ("connect to 127.0.0.1:5433: connection refused", Some("127.0.0.1:5433")),
            ("Error: connect ECONNREFUSED ::1 port 80 [::1]:6379", Some("[::1]:6379")),
            ("waiting for http://localhost:3000/health", Some("localhost:3000")),
            (
                "curl: (7) Failed to connect to localhost port 8080 after 0 ms",
                Some("localhost:8080"),
            ),
            (
                "connection to server at \"localhost\" (127.0.0.1), port 5432 failed",
                Some("localhost:5432"),
            ),
            ("host=localhost port=5432 not ready", Some("localhost:5432")),
            ("tcp://0.0.0.0:9000 refused", Some("0.0.0.0:9000")),
            ("waiting for db:5432", None),
            ("10.0.0.5:80 refused", None),
            ("version 127.0.0.1.5:80", None),
            ("localhost.example.com:80", None),
            ("mylocalhost:80", None),
            ("localhost:0", None),
            ("localhost:99999", None),
            ("localhost is down; see the port 80", None),
            ("", None),
        ] {
            let found = local_address(line).map(|address| address.to_string());
            assert_eq!(found.as_deref(), address, "{line}");
        }
    }

    #[test]
    fn an_address_is_served_by_what_listens_there_or_everywhere() {
        let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let loopback: IpAddr = Ipv4Addr::LOCALHOST.into();
        let six: IpAddr = Ipv6Addr::LOCALHOST.into();
        let at = |ip| LocalAddress { ip, port: 80 };
        assert!(at(None).is_served_by(any, 80) && at(None).is_served_by(six, 80));
        assert!(at(Some(loopback)).is_served_by(loopback, 80));
        assert!(!at(Some(loopback)).is_served_by(six, 80));
        assert!(!at(None).is_served_by(loopback, 81));
    }

    #[test]
    fn the_holder_of_a_lock_is_read_from_the_line_that_waits_for_it() {
        let apt = "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. \
                   It is held by process 4711 (apt-get)... 12s";
        let dnf = "Existing lock /var/run/yum.pid: another copy is running as pid 4711.";
        let zypper =
            "System management is locked by the application with pid 4711 (/usr/bin/zypper).";
        let gradle = "Timeout waiting to lock build logic queue. Owner PID: 4711 Our PID: 4712";
        for line in [apt, dnf, zypper, gradle, "lock is held by process id 4711"] {
            assert_eq!(lock_holder(line), Some(4711), "{line}");
        }
        for line in [
            "started process 4711",
            "lock taken",
            "pid 4711",
            "process lock pid 0",
            "block 7 of process 4711",
        ] {
            assert_eq!(lock_holder(line), None, "{line}");
        }
        assert_eq!(lock_path(apt), Some("/var/lib/dpkg/lock-frontend"));
        assert_eq!(lock_path(gradle), None);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in ".{0,120}") {
            let _ = (local_address(&line), lock_holder(&line), lock_path(&line));
        }
    }
}
