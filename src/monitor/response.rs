//! An answer, and who gives it: what the server of requests and the routes behind it agree
//! on, and how an answer's head is written. Pure.

use std::borrow::Cow;
use std::time::Instant;

use serde::Serialize;

use super::request::Request;
use crate::task::live::Cancel;

/// What every answer carries: no page may frame it, guess its type, keep it or be told
/// where it came from (progress.md §5).
const SECURITY_HEADERS: &str = "X-Content-Type-Options: nosniff\r\n\
                                Referrer-Policy: no-referrer\r\n\
                                Cache-Control: no-store\r\n\
                                X-Frame-Options: DENY\r\n\
                                Cross-Origin-Resource-Policy: same-origin\r\n";

/// The type of all JSON.
const JSON: &str = "application/json";
/// The type of an event stream.
const EVENT_STREAM: &str = "text/event-stream";

/// Who answers requests that may be answered: host, origin and token have been checked.
pub trait Routes: Send + Sync + 'static {
    /// The answer. Runs on the connection's thread and may wait; a panic in it becomes a
    /// 500. HEAD comes as a GET.
    fn answer(&self, request: &Request) -> Response;

    /// The server ends: whoever waits in [`Routes::answer`] comes back soon.
    fn close(&self) {}
}

/// An answer.
pub enum Response {
    /// A status and a JSON text.
    Json(u16, String),
    /// 204.
    NoContent,
    /// 200 with text of another type, such as `text/html; charset=utf-8`.
    Page {
        /// Its type.
        content_type: &'static str,
        /// The text.
        body: Cow<'static, str>,
    },
    /// 405, for a path that has other methods: these, as in `GET, HEAD`.
    NotAllowed(&'static str),
    /// 200 and a stream of events until one side has enough.
    Events(Box<dyn EventSource>),
}

impl Response {
    /// A status and a value as JSON.
    pub fn json(status: u16, value: &impl Serialize) -> Response {
        match serde_json::to_string(value) {
            Ok(text) => Response::Json(status, text),
            Err(error) => Response::error(500, &format!("cannot write the answer: {error}")),
        }
    }

    /// A status and what is wrong, as `{"error": "…"}`.
    pub fn error(status: u16, message: &str) -> Response {
        Response::Json(status, serde_json::json!({ "error": message }).to_string())
    }

    /// No such path.
    pub fn not_found() -> Response {
        Response::error(404, "there is nothing at this path")
    }
}

/// Events to be sent to one client, one after another.
pub trait EventSource: Send {
    /// The next event. Waits at most until `deadline`, and comes back at once when `cancel`
    /// is cancelled: the client is gone or the server ends
    /// ([`Cancel::wait_until`] waits for nothing else).
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> Next;
}

/// What a source of events has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// An event.
    Event(Event),
    /// Nothing before the deadline.
    Quiet,
    /// The stream is over.
    End,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// What the client sends back as `Last-Event-ID`.
    pub id: Option<String>,
    /// Its name; a browser's default is `message`.
    pub name: Option<&'static str>,
    /// May have several lines.
    pub data: String,
}

impl Event {
    /// As it is sent. Line ends in the data become lines of their own; in the id they
    /// would end it and are left out.
    pub fn wire(&self) -> String {
        let mut text = String::with_capacity(self.data.len() + 64);
        if let Some(id) = &self.id {
            let id: String = id
                .chars()
                .filter(|c| !matches!(c, '\n' | '\r' | '\0'))
                .collect();
            text.push_str(&format!("id: {id}\n"));
        }
        if let Some(name) = self.name {
            text.push_str(&format!("event: {name}\n"));
        }
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

/// What an answer's head says beside what the answer itself is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around<'a> {
    /// The connection stays for another request.
    pub keep_alive: bool,
    /// The value of `Set-Cookie`.
    pub cookie: Option<&'a str>,
    /// What scripts and styles of the page must carry.
    pub nonce: &'a str,
}

/// The head of an answer and its body; an event stream's comes later.
pub fn written<'a>(response: &'a Response, around: Around) -> (String, &'a str) {
    let (status, content_type, body): (u16, Option<&str>, Option<&str>) = match response {
        Response::Json(status, text) => (*status, Some(JSON), Some(text)),
        Response::NoContent => (204, None, None),
        Response::Page { content_type, body } => (200, Some(content_type), Some(body)),
        Response::NotAllowed(_) => (405, Some(JSON), Some(r#"{"error":"not by this method"}"#)),
        Response::Events(_) => (200, Some(EVENT_STREAM), None),
    };
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    let mut add = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    add("Content-Security-Policy", &policy(response, around.nonce));
    if let Some(content_type) = content_type {
        add("Content-Type", content_type);
    }
    if let Some(body) = body {
        add("Content-Length", &body.len().to_string());
    }
    if let Response::NotAllowed(allowed) = response {
        add("Allow", allowed);
    }
    if status == 401 {
        add("WWW-Authenticate", "Bearer");
    }
    if let Some(cookie) = around.cookie {
        add("Set-Cookie", cookie);
    }
    let stays = around.keep_alive && !matches!(response, Response::Events(_));
    add("Connection", if stays { "keep-alive" } else { "close" });
    head.push_str(SECURITY_HEADERS);
    head.push_str("\r\n");
    (head, body.unwrap_or_default())
}

/// The page runs its own scripts and styles and speaks to this server; nothing else that is
/// sent runs at all.
fn policy(response: &Response, nonce: &str) -> String {
    const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; \
                           frame-ancestors 'none'";
    match response {
        Response::Page { .. } => format!(
            "{NOTHING}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src 'self' data:"
        ),
        _ => NOTHING.to_owned(),
    }
}

/// The words of RFC 9110 for a status; clients need none.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_answer_carries_the_security_headers() {
        let page = Response::Page {
            content_type: "text/html; charset=utf-8",
            body: "<p>".into(),
        };
        for response in [
            page,
            Response::NoContent,
            Response::not_found(),
            Response::NotAllowed("GET"),
        ] {
            let (head, _) = written(&response, Around::default());
            for header in [
                "Content-Security-Policy: default-src 'none';",
                "X-Content-Type-Options: nosniff\r\n",
                "Referrer-Policy: no-referrer\r\n",
                "Cache-Control: no-store\r\n",
                "X-Frame-Options: DENY\r\n",
            ] {
                assert!(head.contains(header), "{head}");
            }
            assert!(head.ends_with("\r\n\r\n"), "{head}");
        }
    }

    #[test]
    fn an_error_is_json_that_says_what_is_wrong() {
        let response = Response::error(404, "no \"such\" thing");
        let (head, body) = written(&response, Around::default());
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert!(head.contains("Content-Length: 29\r\n"), "{head}");
        assert_eq!(body, r#"{"error":"no \"such\" thing"}"#);
    }

    #[test]
    fn an_event_has_a_line_for_each_line_of_its_data() {
        let event = Event {
            id: Some("1\n2".to_owned()),
            name: Some("output"),
            data: "a\nb\r\nc\rd\n".to_owned(),
        };
        assert_eq!(
            event.wire(),
            "id: 12\nevent: output\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"
        );
        assert_eq!(Event::default().wire(), "data: \n\n");
    }

    proptest! {
        #[test]
        fn no_data_ends_its_event_early(data in "[a-z:\\r\\n\u{2028}]{0,30}", id in "\\PC{0,5}") {
            let event = Event { id: Some(id), name: Some("x"), data };
            let wire = event.wire();
            prop_assert_eq!(wire.matches("\n\n").count(), 1);
            prop_assert!(!wire.contains('\r'));
            let is_field = |line: &str| {
                let fields = ["id: ", "event: ", "data: "];
                line.is_empty() || fields.iter().any(|field| line.starts_with(field))
            };
            prop_assert!(wire.lines().all(is_field));
        }
    }
}
