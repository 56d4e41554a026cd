//! A setting that is an address to listen on, or nothing.

use std::net::SocketAddr;
use std::path::Path;

use super::value::{Kind, Raw, expected};

/// What stands for no address.
const OFF: &str = "off";

/// An address with its port, or `off`.
pub(crate) struct Address;

impl Kind for Address {
    type Value = Option<SocketAddr>;

    fn read(&self, raw: &Raw, _: Option<&Path>) -> Result<Option<SocketAddr>, String> {
        let what = "an address with its port such as 127.0.0.1:0, or off";
        match raw {
            Raw::Bool(false) => Ok(None),
            Raw::Text(text) if text.trim().eq_ignore_ascii_case(OFF) => Ok(None),
            Raw::Text(text) => match text.trim().parse() {
                Ok(address) => Ok(Some(address)),
                Err(_) => expected(what, raw),
            },
            _ => expected(what, raw),
        }
    }

    fn show(&self, value: &Option<SocketAddr>) -> String {
        value.map_or_else(|| OFF.to_owned(), |address| address.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_off_is_none() {
        let read = |text: &str| Address.read(&Raw::Text(text.to_owned()), None);
        assert_eq!(read("127.0.0.1:0"), Ok(Some(([127, 0, 0, 1], 0).into())));
        assert!(matches!(read(" [::1]:8080 "), Ok(Some(address)) if address.port() == 8080));
        assert_eq!(read("Off"), Ok(None));
        assert_eq!(Address.read(&Raw::Bool(false), None), Ok(None));
        for wrong in [
            "127.0.0.1",
            "8080",
            "localhost:80",
            "127.0.0.1:65536",
            "",
            "on",
        ] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.contains("127.0.0.1:0, or off"), "{problem}");
        }
        assert!(Address.read(&Raw::Bool(true), None).is_err());
        assert!(Address.read(&Raw::Integer(8080), None).is_err());
    }
}
