//! A TCP port of this machine that a call waits for, and the port that a failed command found in
//! use. Pure.

use core::net::{IpAddr, SocketAddr};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::Regex;

use crate::progress::wait::ProcessName;

/// How much of the end of an output is searched for an address in use.
const TAIL_BYTES: usize = 4_096;

/// A port, at one or any address of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    address: Address,
    pub number: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    Any,
    /// `localhost`: of either family.
    Loopback,
    One(IpAddr),
}

/// A text that names no port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "until_port must be a port of this machine, from 1 to 65535, perhaps with its address: \
     3000, 127.0.0.1:3000 or [::1]:3000, not {0:?}"
)]
pub struct InvalidPort(String);

impl Port {
    pub fn at_any_address(number: u16) -> Port {
        Port { address: Address::Any, number }
    }

    /// Whether connections to it reach a socket that listens at this address.
    pub fn is_served_by(&self, listening: SocketAddr) -> bool {
        let at = listening.ip().to_canonical();
        listening.port() == self.number
            && match self.address {
                Address::Any => true,
                Address::Loopback => at.is_loopback() || at.is_unspecified(),
                Address::One(wanted) => wanted == at || at.is_unspecified(),
            }
    }

    /// Where a connection finds out whether it is served.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
        let hosts = match self.address {
            Address::Any | Address::Loopback => loopback.to_vec(),
            Address::One(address) => vec![address],
        };
        hosts.into_iter().map(|host| SocketAddr::new(host, self.number)).collect()
    }
}

impl FromStr for Port {
    type Err = InvalidPort;

    fn from_str(text: &str) -> Result<Port, InvalidPort> {
        let error = || InvalidPort(text.chars().take(80).collect());
        let (host, number) = text.trim().rsplit_once(':').unwrap_or(("", text.trim()));
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(error)?;
        let address = match host.trim_start_matches('[').trim_end_matches(']') {
            "" | "*" => Address::Any,
            "localhost" => Address::Loopback,
            host => match host.parse::<IpAddr>() {
                Ok(address) if address.is_unspecified() => Address::Any,
                Ok(address) => Address::One(address.to_canonical()),
                Err(_) => return Err(error()),
            },
        };
        Ok(Port { address, number })
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Address::Any => write!(f, "{}", self.number),
            Address::Loopback => write!(f, "localhost:{}", self.number),
            Address::One(address) => write!(f, "{}", SocketAddr::new(address, self.number)),
        }
    }
}

/// The process that holds a port, as far as the machine shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PortHolder {
    pub(crate) process: Option<ProcessName>,
    /// Its user, if that is another one.
    pub(crate) user: Option<String>,
}

/// What a wait for a port has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortFound {
    /// A process of the task serves it; `None` if the port accepts connections and the process
    /// cannot be identified.
    Served(Option<ProcessName>),
    /// A process outside the task holds it.
    Held(PortHolder),
}

/// The port that a program found in use: the one that the end of its output names or, if it names
/// none, the only number of its command line that may be a port.
pub(crate) fn port_reported_in_use(output: &str, command: &str) -> Option<u16> {
    static SAYS_SO: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let words = r"(?i)EADDRINUSE|address (?:is )?already in use|address in use|\bport\b.{0,40}\b(?:already )?(?:in use|allocated|being used|taken)\b";
        Regex::new(words).ok()
    });
    static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)(?:\bport(?:\s+is|\s*=|:)?\s*|[\])0-9a-z*.:]:|^:|\s:|['\x22],\s*)([0-9]{2,5})\b",
        )
        .ok()
    });
    static NUMBER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?:^|[\s=:])([0-9]{2,5})\b(\.?)").ok());
    let start = output.ceil_char_boundary(output.len().saturating_sub(TAIL_BYTES));
    let tail = output.get(start..)?;
    let says_so = SAYS_SO.as_ref()?;
    let number = |found: regex::Captures<'_>| {
        found.get(1)?.as_str().parse::<u16>().ok().filter(|number| *number > 0)
    };
    let mut is_in_use = false;
    for line in tail.lines().rev().filter(|line| says_so.is_match(line)) {
        is_in_use = true;
        if let Some(port) = NAMED.as_ref()?.captures_iter(line).find_map(number) {
            return Some(port);
        }
    }
    if !is_in_use {
        return None;
    }
    // A number before a dot is part of an address or of a version.
    let is_whole = |found: &regex::Captures<'_>| found.get(2).is_some_and(|dot| dot.is_empty());
    let numbers = NUMBER.as_ref()?.captures_iter(command).filter(is_whole);
    let mut numbers = numbers.filter_map(number);
    let port = numbers.next()?;
    numbers.all(|other| other == port).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> Port {
        text.parse().expect("a port")
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ports_are_read_with_their_address() {
        for text in ["3000", ":3000", "*:3000", "0.0.0.0:3000", "[::]:3000", " 3000 "] {
            assert_eq!(port(text), Port::at_any_address(3000), "{text}");
        }
        assert_eq!(port("[::1]:80").to_string(), "[::1]:80");
        assert_eq!(port("localhost:80").to_string(), "localhost:80");
        for text in ["", "0", "65536", "-1", "http", "db.example:5432", "3000:", "1.2.3:4", "[::1]"]
        {
            assert!(text.parse::<Port>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_is_served_at_its_address_or_at_all() {
        assert!(port("3000").is_served_by(at("10.1.2.3:3000")));
        assert!(!port("3000").is_served_by(at("10.1.2.3:3001")));
        assert!(port("localhost:3000").is_served_by(at("[::1]:3000")));
        assert!(port("127.0.0.1:3000").is_served_by(at("[::ffff:127.0.0.1]:3000")));
        assert!(port("127.0.0.1:3000").is_served_by(at("[::]:3000")));
        assert!(!port("127.0.0.1:3000").is_served_by(at("10.1.2.3:3000")));
    }

    #[test]
    fn an_address_in_use_is_known_by_what_programs_print() {
        for (output, command, found) in [
            (
                "Error: listen EADDRINUSE: address already in use :::3000\n    at Server",
                "npm start",
                3000,
            ),
            ("listen tcp 127.0.0.1:8080: bind: address already in use", "go run .", 8080),
            ("listen tcp :8081: bind: address already in use", "./serve", 8081),
            ("OSError: [Errno 98] Address already in use", "python3 -m http.server 8000", 8000),
            (
                "nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)",
                "nginx",
                80,
            ),
            (
                "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
                "uvicorn",
                8000,
            ),
            ("Error: Port 5173 is already in use", "vite --strictPort", 5173),
            ("Web server failed to start. Port 8080 was already in use.", "java -jar a.jar", 8080),
            ("Bind for 0.0.0.0:5432 failed: port is already allocated", "docker run x", 5432),
            ("Address already in use", "serve --port=9000 127.0.0.1", 9000),
            ("  port: 4000\nerror: EADDRINUSE", "serve -p 4000", 4000),
        ] {
            assert_eq!(port_reported_in_use(output, command), Some(found), "{output}");
        }
        for (output, command) in [
            ("listening on port 3000", "npm start"),
            ("Address already in use", "serve"),
            ("Address already in use", "serve 8000 9000"),
            ("", ""),
        ] {
            assert_eq!(port_reported_in_use(output, command), None, "{output}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(output in ".{0,200}", command in ".{0,60}") {
            let _ = port_reported_in_use(&format!("EADDRINUSE {output}"), &command);
            let _ = output.parse::<Port>();
        }
    }
}
