//! What comes to the page's port: a head is read the same however much of it arrives at once, it is
//! bounded, and only a request that names this server, and has the token, is let in.

use std::net::SocketAddr;

use zsh_tool::testing::monitor::http::access::{PageAccess, Token};
use zsh_tool::testing::monitor::http::request::{Head, MAX_BODY, MAX_HEAD, Request, parse};

const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    match parse(data) {
        Ok(Some((head, length))) => {
            assert!(length <= MAX_HEAD && length <= data.len());
            let (received, _) = data.split_at(length);
            assert_eq!(parse(received), Ok(Some((head.clone(), length))));
            for missing in [1, 2, length / 2] {
                let beginning = received.get(..length.saturating_sub(missing));
                assert_eq!(parse(beginning.unwrap_or_default()), Ok(None));
            }
            check_request(&head);
            check_access(&head, received);
        }
        Ok(None) => assert!(data.len() < MAX_HEAD),
        Err(fault) => {
            assert!((400..=505).contains(&fault.status()));
            // What is wrong does not become right when more arrives.
            assert_eq!(parse(&[data, b"\r\nHost: a\r\n\r\n"].concat()), Err(fault));
        }
    }
}

fn check_request(head: &Head) {
    assert!(head.body_length <= MAX_BODY);
    assert!(head.request.body.is_empty());
    assert_eq!(head.request.header("HOST"), Some(head.host.as_str()));
    assert!(!head.host.contains(['\r', '\n', '\0']));
    for segment in head.request.segments() {
        assert!(!segment.contains(char::is_control), "{segment:?}");
    }
    // A host gets it in this form.
    let text = serde_json::to_string(&head.request).expect("a request has a form in JSON");
    let read: Request = serde_json::from_str(&text).expect("what is written can be read");
    assert_eq!(read, head.request);
}

fn check_access(head: &Head, received: &[u8]) {
    let token = Token::new(TOKEN.to_owned()).expect("a token");
    let access = PageAccess::new(ADDRESS, token);
    if access.check_sender(head).is_ok() {
        assert!(is_ours(&head.host), "{}", head.host);
        if let Some(origin) = head.request.header("origin") {
            assert!(origin.strip_prefix("http://").is_some_and(is_ours), "{origin}");
        }
    }
    if access.check_token(head).is_ok() {
        assert!(received.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()));
    }
}

fn is_ours(authority: &str) -> bool {
    let address = authority.parse::<SocketAddr>();
    authority.eq_ignore_ascii_case("localhost:8080")
        || address.is_ok_and(|it| it.ip().is_loopback() && it.port() == ADDRESS.port())
}
