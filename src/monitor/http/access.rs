//! Access control: checks a request's host, its origin, and its token. Pure.
//!
//! A page of any origin can make a browser send requests to this machine. It cannot read the answers
//! unless its own domain is made to resolve to this machine (DNS rebinding); then `Host` contains
//! that domain. So a request must name an address and port of this server, come from a page of this
//! server or from no page, and carry the token, which only the printed link reveals. Limits: other
//! users of this machine can reach the port; only the token keeps them out.

use std::fmt;
// Plain values; nothing here speaks to a network.
use core::net::{IpAddr, SocketAddr};

use super::request::{Head, Method};

/// The default port of `http://`.
const HTTP_PORT: u16 = 80;
/// The minimum length of a token: 128 bits as hex digits.
const MIN_TOKEN: usize = 32;
/// The prefix of the cookie's name. The port follows, since browsers share cookies between all ports
/// of a host.
const COOKIE: &str = "zsh-tool-";

/// The secret that a request must carry, new at each start.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// `None` if there are too few digits, or one is not a hex digit.
    pub fn new(digits: String) -> Option<Token> {
        let is_token =
            digits.len() >= MIN_TOKEN && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_token.then_some(Token(digits))
    }

    /// The digits, for the printed link.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in constant time, so that the duration does not reveal the first difference.
    fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own
            .iter()
            .zip(given)
            .fold(0, |differing, (a, b)| std::hint::black_box(differing | (a ^ b)));
        own.len() == given.len() && differing == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// The request names another host or port.
    #[error("the Host header does not name this server")]
    Host,
    /// A page of another origin sent it.
    #[error("requests from pages of other origins are refused")]
    Origin,
    /// Neither the header nor the cookie has the token.
    #[error("the token is missing or wrong: open the page by its link")]
    Token,
}

impl AccessRefusal {
    /// The status of the response.
    pub(crate) fn status(self) -> u16 {
        match self {
            AccessRefusal::Host | AccessRefusal::Origin => 403,
            AccessRefusal::Token => 401,
        }
    }
}

/// The access rules of one server.
#[derive(Debug, Clone)]
pub struct PageAccess {
    address: SocketAddr,
    token: Token,
}

impl PageAccess {
    /// `address` is the address on which the server listens, with its final port.
    pub fn new(address: SocketAddr, token: Token) -> PageAccess {
        PageAccess { address, token }
    }

    /// The URL of the page. The token is in the fragment, which browsers do not send.
    pub(crate) fn link(&self) -> String {
        let ip = match self.address.ip() {
            // The unspecified address cannot be opened in a browser.
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            ip => ip,
        };
        let address = SocketAddr::new(ip, self.address.port());
        format!("http://{address}/#token={}", self.token.reveal())
    }

    /// Checks that the request names this server, and was not sent by a page of another origin.
    ///
    /// # Errors
    /// When the host or the origin is wrong.
    pub fn check_sender(&self, head: &Head) -> Result<(), AccessRefusal> {
        if !self.is_ours(&head.host) {
            return Err(AccessRefusal::Host);
        }
        if head.request.headers("origin").count() > 1 {
            return Err(AccessRefusal::Origin);
        }
        match head.request.header("origin") {
            Some(origin) if !self.is_our_page(origin) => Err(AccessRefusal::Origin),
            _ => Ok(()),
        }
    }

    /// Checks that the request carries the token, in `Authorization: Bearer` or the cookie. A POST
    /// with only the cookie must have an Origin, which browsers always send.
    ///
    /// # Errors
    /// When the token is missing or wrong, or the cookie was sent by another origin's page.
    pub fn check_token(&self, head: &Head) -> Result<(), AccessRefusal> {
        let request = &head.request;
        if let Some(given) = request.header("authorization") {
            // A wrong header is refused even if the cookie is right.
            return self.check_given(bearer(given).unwrap_or_default());
        }
        if !self.has_cookie(head) {
            return Err(AccessRefusal::Token);
        }
        // Pages on other ports belong to the same *site*, so their requests carry the cookie.
        // Browsers hide the answers from such pages, but this server would still do the work.
        let elsewhere = request
            .header("sec-fetch-site")
            .is_some_and(|site| !matches!(site, "same-origin" | "none"));
        let is_change = request.method == Method::Post;
        if elsewhere || (is_change && request.header("origin").is_none()) {
            return Err(AccessRefusal::Origin);
        }
        Ok(())
    }

    /// Checks a token.
    ///
    /// # Errors
    /// When the token is wrong.
    pub(crate) fn check_given(&self, token: &str) -> Result<(), AccessRefusal> {
        if !self.token.is(token) {
            return Err(AccessRefusal::Token);
        }
        Ok(())
    }

    /// The value of `Set-Cookie`: a session cookie, hidden from scripts, not sent by pages of
    /// other sites, and restricted to the API.
    pub(crate) fn cookie(&self) -> String {
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

    /// Whether an origin is this server; `null` is not.
    fn is_our_page(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|authority| self.is_ours(authority))
    }

    /// Whether a host with its port names this server.
    fn is_ours(&self, authority: &str) -> bool {
        let has_port = authority.contains(':') && !authority.ends_with(']');
        let with_port =
            if has_port { authority.to_owned() } else { format!("{authority}:{HTTP_PORT}") };
        let own = self.address.ip();
        let Ok(address) = with_port.parse::<SocketAddr>() else {
            // `localhost` is not looked up in the DNS.
            let name = format!("localhost:{}", self.address.port());
            let is_local = own.is_loopback() || own.is_unspecified();
            return is_local && with_port.eq_ignore_ascii_case(&name);
        };
        address.port() == self.address.port()
            && match address.ip() {
                // A literal address cannot be rebound.
                ip if own.is_unspecified() => !ip.is_unspecified(),
                ip if own.is_loopback() => ip.is_loopback(),
                ip => ip == own,
            }
    }
}

/// The token of `Authorization: Bearer …`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::http::request;
    use proptest::prelude::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef";

    fn access(address: &str) -> PageAccess {
        let token = Token::new(DIGITS.to_owned()).unwrap();
        PageAccess::new(address.parse().unwrap(), token)
    }

    fn head(line: &str, headers: &[&str]) -> Head {
        let text = format!("{line} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
        request::parse(text.as_bytes()).unwrap().unwrap().0
    }

    /// Whether a server at `address` accepts a request for this host.
    fn accepts(address: &str, host: &str) -> bool {
        let head = head("GET /", &[&format!("Host: {host}")]);
        access(address).check_sender(&head) == Ok(())
    }

    #[test]
    fn a_server_on_loopback_answers_to_loopback_names_with_its_port() {
        for own in ["127.0.0.1:8080", "[::1]:8080"] {
            for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"] {
                assert!(accepts(own, host), "{host} at {own}");
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
                assert!(!accepts(own, host), "{host} at {own}");
            }
        }
        assert!(accepts("127.0.0.1:80", "localhost"));
    }

    #[test]
    fn a_server_elsewhere_answers_to_its_own_address() {
        assert!(accepts("192.168.1.2:8080", "192.168.1.2:8080"));
        assert!(!accepts("192.168.1.2:8080", "192.168.1.3:8080"));
        assert!(!accepts("192.168.1.2:8080", "localhost:8080"));
        assert!(accepts("0.0.0.0:8080", "192.168.1.2:8080"));
        assert!(accepts("[::]:8080", "[fe80::1]:8080"));
        assert!(!accepts("0.0.0.0:8080", "evil.example:8080"));
        assert!(!accepts("0.0.0.0:8080", "0.0.0.0:8080"));
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
            assert_eq!(check(&[origin]), Err(AccessRefusal::Origin), "{origin}");
        }
        let two = ["Origin: http://127.0.0.1:8080", "Origin: null"];
        assert_eq!(check(&two), Err(AccessRefusal::Origin));
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
        assert_eq!(get(&[]), Err(AccessRefusal::Token));
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
            assert_eq!(get(&[&wrong]), Err(AccessRefusal::Token), "{wrong}");
        }
        let wrong = format!("Authorization: Bearer x{DIGITS}");
        assert_eq!(get(&[&wrong, &cookie]), Err(AccessRefusal::Token));
    }

    #[test]
    fn a_cookie_does_not_admit_a_page_of_another_origin() {
        let check = |line: &str, more: &str| {
            let cookie = format!("Cookie: zsh-tool-8080={DIGITS}");
            let headers = ["Host: 127.0.0.1:8080", &cookie, more];
            access("127.0.0.1:8080").check_token(&head(line, &headers))
        };
        let origin = "Origin: http://127.0.0.1:8080";
        assert_eq!(check("POST /api/tasks/1/kill", origin), Ok(()));
        assert_eq!(check("POST /api/tasks/1/kill", "A: b"), Err(AccessRefusal::Origin));
        assert_eq!(check("GET /api/sessions", "Sec-Fetch-Site: same-origin"), Ok(()));
        assert_eq!(check("GET /api/sessions", "Sec-Fetch-Site: none"), Ok(()));
        for site in ["same-site", "cross-site"] {
            let site = format!("Sec-Fetch-Site: {site}");
            assert_eq!(check("GET /api/sessions", &site), Err(AccessRefusal::Origin), "{site}");
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
        assert_eq!(link("127.0.0.1:81"), format!("http://127.0.0.1:81{fragment}"));
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
