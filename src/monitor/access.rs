//! Who may ask: the host a request is for, the page it comes from, the token it carries.
//! Pure.
//!
//! A page of any origin can make a browser send requests to this machine. It cannot read
//! the answers of another origin, unless its own name is made to point here (DNS
//! rebinding); then `Host` names it. So a request is for an address of ours and for our
//! port, comes from a page of ours or from no page, and carries the token, which only who
//! was given the printed link can know. Limits: other users of this machine reach the
//! port as well, and what keeps them out is the token alone.

use std::fmt;
// Plain values; nothing here speaks to a network.
use core::net::{IpAddr, SocketAddr};

use super::request::{Head, Method};

/// The port that `http://` means when none is named.
const HTTP_PORT: u16 = 80;
/// Characters of a token at least: 128 bits as hex digits.
const LEAST_TOKEN: usize = 32;
/// What the cookie's name begins with. The port follows, since a browser keeps one set of
/// cookies for all ports of a host.
const COOKIE: &str = "zsh-tool-";

/// What a request must carry; made anew at each start.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of these hex digits; `None` when they are too few or no hex digits.
    pub fn new(digits: String) -> Option<Token> {
        let is_token =
            digits.len() >= LEAST_TOKEN && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_token.then_some(Token(digits))
    }

    /// Its digits, for the link that is printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. How long it takes tells nothing of where they differ.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |differing, (a, b)| {
            std::hint::black_box(differing | (a ^ b))
        });
        own.len() == given.len() && differing == 0
    }
}

impl fmt::Debug for Token {
    /// Never shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is for another host, or for another port.
    #[error("the Host of the request is no address of this server")]
    Host,
    /// A page of another origin sends it.
    #[error("requests of other pages are not answered")]
    Origin,
    /// Neither the header nor the cookie holds the token.
    #[error("the token is missing or wrong: open the page by its link")]
    Token,
}

impl Refusal {
    /// The status that answers it.
    pub fn status(self) -> u16 {
        match self {
            Refusal::Host | Refusal::Origin => 403,
            Refusal::Token => 401,
        }
    }
}

/// The rules of one server.
#[derive(Debug, Clone)]
pub struct Access {
    address: SocketAddr,
    token: Token,
}

impl Access {
    /// Of a server that listens there, at its final port.
    pub fn new(address: SocketAddr, token: Token) -> Access {
        Access { address, token }
    }

    /// Where a person finds the page: a browser takes the token from the fragment, which
    /// it sends to nobody.
    pub fn link(&self) -> String {
        let ip = match self.address.ip() {
            // Listening everywhere is no place to go to.
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            ip => ip,
        };
        let address = SocketAddr::new(ip, self.address.port());
        format!("http://{address}/#token={}", self.token.reveal())
    }

    /// Whether the request is for this server and not sent by a page of another.
    ///
    /// # Errors
    /// When it is not.
    pub fn check_sender(&self, head: &Head) -> Result<(), Refusal> {
        if !self.is_ours(&head.authority) {
            return Err(Refusal::Host);
        }
        // With a whole URL as the target, the header counts as well: browsers cannot differ
        // there, and who does is no friend.
        if !head
            .request
            .header("host")
            .is_none_or(|host| self.is_ours(host))
        {
            return Err(Refusal::Host);
        }
        if head.request.count("origin") > 1 {
            return Err(Refusal::Origin);
        }
        match head.request.header("origin") {
            Some(origin) if !self.is_our_page(origin) => Err(Refusal::Origin),
            _ => Ok(()),
        }
    }

    /// Whether the request carries the token: `Authorization: Bearer`, or the cookie. A
    /// change by the cookie alone must say which page it comes from; browsers always do.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_token(&self, head: &Head) -> Result<(), Refusal> {
        let request = &head.request;
        if let Some(given) = request.header("authorization") {
            // One that is given counts: a wrong one is not made good by a cookie.
            return match bearer(given).is_some_and(|given| self.token.is(given)) {
                true => Ok(()),
                false => Err(Refusal::Token),
            };
        }
        if !self.has_cookie(head) {
            return Err(Refusal::Token);
        }
        // Pages of other ports are of the same *site*, so that their reads carry the
        // cookie; what they would read a browser keeps from them, what they would cost us
        // not.
        let elsewhere = request
            .header("sec-fetch-site")
            .is_some_and(|site| !matches!(site, "same-origin" | "none"));
        let is_change = request.method == Method::Post;
        if elsewhere || (is_change && request.header("origin").is_none()) {
            return Err(Refusal::Origin);
        }
        Ok(())
    }

    /// Whether a page has been given the token, which it trades for the cookie.
    ///
    /// # Errors
    /// When it is another.
    pub fn check_given(&self, token: &str) -> Result<(), Refusal> {
        match self.token.is(token) {
            true => Ok(()),
            false => Err(Refusal::Token),
        }
    }

    /// The cookie, as `Set-Cookie` has it: no script reads it, no page of another site has
    /// it sent, and it goes with the browser's session. It is sent to the data alone.
    pub fn cookie(&self) -> String {
        format!(
            "{COOKIE}{}={}; HttpOnly; SameSite=Strict; Path=/api",
            self.address.port(),
            self.token.reveal()
        )
    }

    fn has_cookie(&self, head: &Head) -> bool {
        let name = format!("{COOKIE}{}", self.address.port());
        head.request.header("cookie").is_some_and(|cookies| {
            cookies
                .split(';')
                .filter_map(|cookie| cookie.trim().split_once('='))
                .any(|(known, value)| known == name && self.token.is(value))
        })
    }

    /// Whether an origin is a page of this server; `null` is none.
    fn is_our_page(&self, origin: &str) -> bool {
        origin
            .strip_prefix("http://")
            .is_some_and(|authority| self.is_ours(authority))
    }

    /// Whether a host with its port means this server.
    fn is_ours(&self, authority: &str) -> bool {
        let Some((host, port)) = host_and_port(authority) else {
            return false;
        };
        if port != self.address.port() {
            return false;
        }
        let own = self.address.ip();
        match host {
            // A name that no resolver is asked for.
            Host::Name(name) => {
                name.eq_ignore_ascii_case("localhost")
                    && (own.is_loopback() || own.is_unspecified())
            }
            // An address as such cannot be made to point elsewhere.
            Host::Address(address) if own.is_unspecified() => !address.is_unspecified(),
            Host::Address(address) if own.is_loopback() => address.is_loopback(),
            Host::Address(address) => address == own,
        }
    }
}

enum Host<'a> {
    Name(&'a str),
    Address(IpAddr),
}

/// The parts of `host:port`; `None` for what is neither.
fn host_and_port(authority: &str) -> Option<(Host<'_>, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            let port = match rest {
                "" => None,
                _ => Some(rest.strip_prefix(':')?),
            };
            (Host::Address(IpAddr::V6(host.parse().ok()?)), port)
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            let host = match host.parse() {
                Ok(address) => Host::Address(IpAddr::V4(address)),
                Err(_) => Host::Name(host),
            };
            (host, port)
        }
    };
    let port = match port {
        None => HTTP_PORT,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
        Some(_) => return None,
    };
    Some((host, port))
}

/// The token of `Authorization: Bearer …`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::request;
    use proptest::prelude::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef";

    fn access(address: &str) -> Access {
        let token = Token::new(DIGITS.to_owned()).unwrap();
        Access::new(address.parse().unwrap(), token)
    }

    fn head(line: &str, headers: &[&str]) -> Head {
        let text = format!("{line} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
        request::parse(text.as_bytes()).unwrap().unwrap().0
    }

    /// Whether a server at `address` takes a request for this host.
    fn takes(address: &str, host: &str) -> bool {
        let head = head("GET /", &[&format!("Host: {host}")]);
        access(address).check_sender(&head) == Ok(())
    }

    #[test]
    fn a_server_on_loopback_answers_to_loopback_names_with_its_port() {
        for own in ["127.0.0.1:8080", "[::1]:8080"] {
            for host in [
                "127.0.0.1:8080",
                "localhost:8080",
                "LOCALHOST:8080",
                "[::1]:8080",
            ] {
                assert!(takes(own, host), "{host} at {own}");
            }
            for host in [
                "127.0.0.1",
                "localhost",
                "127.0.0.1:8081",
                "127.0.0.1:08080x",
                "127.0.0.1:",
                "[::1]",
                "[::1]8080",
                "[::1]:8080:8080",
                "::1:8080",
                "evil.example:8080",
                "127.0.0.1.evil.example:8080",
                "localhost.evil.example:8080",
                "localhost.:8080",
                "user@127.0.0.1:8080",
                "127.0.0.1:8080@evil.example",
                "127.1:8080",
                "2130706433:8080",
                "0x7f.0.0.1:8080",
                "0.0.0.0:8080",
                "192.168.1.2:8080",
                "",
                ":8080",
            ] {
                assert!(!takes(own, host), "{host} at {own}");
            }
        }
        assert!(takes("127.0.0.1:80", "localhost"));
    }

    #[test]
    fn a_server_elsewhere_answers_to_its_own_address() {
        assert!(takes("192.168.1.2:8080", "192.168.1.2:8080"));
        assert!(!takes("192.168.1.2:8080", "192.168.1.3:8080"));
        assert!(!takes("192.168.1.2:8080", "localhost:8080"));
        assert!(takes("0.0.0.0:8080", "192.168.1.2:8080"));
        assert!(takes("[::]:8080", "[fe80::1]:8080"));
        assert!(!takes("0.0.0.0:8080", "evil.example:8080"));
        assert!(!takes("0.0.0.0:8080", "0.0.0.0:8080"));
    }

    #[test]
    fn a_whole_url_and_its_host_header_must_both_be_ours() {
        let check = |target: &str, host: &str| {
            let head = head(&format!("GET {target}"), &[&format!("Host: {host}")]);
            access("127.0.0.1:8080").check_sender(&head)
        };
        assert_eq!(check("http://127.0.0.1:8080/", "localhost:8080"), Ok(()));
        assert_eq!(
            check("http://evil:8080/", "127.0.0.1:8080"),
            Err(Refusal::Host)
        );
        assert_eq!(
            check("http://127.0.0.1:8080/", "evil:8080"),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let check = |origins: &[&str]| {
            let mut headers = vec!["Host: 127.0.0.1:8080"];
            headers.extend(origins);
            access("127.0.0.1:8080").check_sender(&head("POST /api/token", &headers))
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["Origin: http://127.0.0.1:8080"]), Ok(()));
        assert_eq!(check(&["Origin: http://localhost:8080"]), Ok(()));
        for origin in [
            "Origin: null",
            "Origin:",
            "Origin: http://127.0.0.1:3000",
            "Origin: http://127.0.0.1",
            "Origin: https://127.0.0.1:8080",
            "Origin: http://evil.example:8080",
            "Origin: http://127.0.0.1:8080/",
            "Origin: http://127.0.0.1:8080 http://evil.example",
            "Origin: file://",
        ] {
            assert_eq!(check(&[origin]), Err(Refusal::Origin), "{origin}");
        }
        let two = ["Origin: http://127.0.0.1:8080", "Origin: null"];
        assert_eq!(check(&two), Err(Refusal::Origin));
    }

    #[test]
    fn the_token_comes_by_header_or_by_cookie() {
        let check = |line: &str, headers: &[&str]| {
            let mut all = vec!["Host: 127.0.0.1:8080"];
            all.extend(headers);
            access("127.0.0.1:8080").check_token(&head(line, &all))
        };
        let get = |headers: &[&str]| check("GET /api/sessions", headers);
        let bearer = format!("Authorization: Bearer {DIGITS}");
        let cookie = format!("Cookie: a=b; zsh-tool-8080={DIGITS}; c=d");
        assert_eq!(get(&[]), Err(Refusal::Token));
        assert_eq!(get(&[&bearer]), Ok(()));
        assert_eq!(get(&[&cookie]), Ok(()));
        let lower = format!("Authorization: bearer {DIGITS}");
        assert_eq!(get(&[&lower]), Ok(()));
        for wrong in [
            format!("Authorization: Bearer {DIGITS}0"),
            format!("Authorization: Bearer {}", &DIGITS[1..]),
            "Authorization: Bearer ".to_owned(),
            format!("Authorization: Basic {DIGITS}"),
            format!("Authorization: {DIGITS}"),
            format!("Cookie: zsh-tool-8081={DIGITS}"),
            format!("Cookie: zsh-tool-8080=x{DIGITS}"),
            "Cookie: zsh-tool-8080=".to_owned(),
            "Cookie: ;;=;".to_owned(),
        ] {
            assert_eq!(get(&[&wrong]), Err(Refusal::Token), "{wrong}");
        }
        let wrong = format!("Authorization: Bearer x{DIGITS}");
        assert_eq!(get(&[&wrong, &cookie]), Err(Refusal::Token));
    }

    #[test]
    fn a_cookie_alone_does_not_make_a_page_of_another_origin_ours() {
        let check = |line: &str, more: &str| {
            let cookie = format!("Cookie: zsh-tool-8080={DIGITS}");
            let headers = ["Host: 127.0.0.1:8080", &cookie, more];
            access("127.0.0.1:8080").check_token(&head(line, &headers))
        };
        let origin = "Origin: http://127.0.0.1:8080";
        assert_eq!(check("POST /api/tasks/1/kill", origin), Ok(()));
        assert_eq!(
            check("POST /api/tasks/1/kill", "A: b"),
            Err(Refusal::Origin)
        );
        assert_eq!(
            check("GET /api/sessions", "Sec-Fetch-Site: same-origin"),
            Ok(())
        );
        assert_eq!(check("GET /api/sessions", "Sec-Fetch-Site: none"), Ok(()));
        for site in ["same-site", "cross-site"] {
            let site = format!("Sec-Fetch-Site: {site}");
            assert_eq!(
                check("GET /api/sessions", &site),
                Err(Refusal::Origin),
                "{site}"
            );
        }
    }

    #[test]
    fn a_token_has_128_bits_and_is_not_shown() {
        assert!(Token::new(DIGITS[1..].to_owned()).is_none());
        assert!(Token::new(DIGITS.replace('0', "x")).is_none());
        let token = Token::new(DIGITS.to_owned()).unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn the_link_leads_to_the_page_also_where_the_server_listens_everywhere() {
        let link = |address: &str| access(address).link();
        let fragment = format!("/#token={DIGITS}");
        assert_eq!(
            link("127.0.0.1:81"),
            format!("http://127.0.0.1:81{fragment}")
        );
        assert_eq!(link("[::1]:81"), format!("http://[::1]:81{fragment}"));
        assert_eq!(link("0.0.0.0:81"), format!("http://127.0.0.1:81{fragment}"));
        assert_eq!(link("[::]:81"), format!("http://[::1]:81{fragment}"));
    }

    proptest! {
        #[test]
        fn no_host_makes_it_panic_and_no_name_but_localhost_is_ours(host in "\\PC{0,30}") {
            let is_ours = access("127.0.0.1:8080").is_ours(&host);
            let is_local = ["localhost:", "127.", "[::1]:", "[::ffff:", "[0"]
                .iter()
                .any(|start| host.to_ascii_lowercase().starts_with(start));
            prop_assert!(!is_ours || is_local);
        }
    }
}
