//! Responses, the traits that produce them, and how a response's head is written. Pure.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::request::Request;
use crate::base::cancel::Cancel;

/// Sent with every response: no framing, type sniffing, caching or referrer.
const SECURITY_HEADERS: &str = "X-Content-Type-Options: nosniff\r\n\
                                Referrer-Policy: no-referrer\r\n\
                                Cache-Control: no-store\r\n\
                                X-Frame-Options: DENY\r\n\
                                Cross-Origin-Resource-Policy: same-origin\r\n";

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const EVENT_STREAM: &str = "text/event-stream";

/// Answers requests whose host, origin and token have been checked.
pub trait Routes: Send + Sync + 'static {
    /// Answers a request, on the connection's thread, where it may wait. A panic becomes a 500. HEAD
    /// arrives as a GET.
    fn answer(&self, request: &Request) -> Response;

    /// Called when the server stops: waiting calls of [`Routes::answer`] must return soon.
    fn close(&self) {}
}

/// A response to a request.
pub enum Response {
    /// A status and a JSON text.
    Json(u16, String),
    /// 204.
    NoContent,
    /// 204 with this value of `Set-Cookie`.
    SetCookie(String),
    /// 200 with the page.
    Page(Arc<str>),
    /// 405, with the methods that the path supports, as in `GET, HEAD`.
    NotAllowed(&'static str),
    /// 200 and a stream of events until one side ends it.
    Events(Box<dyn EventSource>),
}

impl Response {
    /// A value as JSON.
    pub fn json(status: u16, value: &impl Serialize) -> Response {
        match serde_json::to_string(value) {
            Ok(text) => Response::Json(status, text),
            Err(error) => Response::error(500, &format!("cannot write the answer: {error}")),
        }
    }

    /// An error message as JSON: `{"error": "…"}`.
    pub fn error(status: u16, message: &str) -> Response {
        Response::Json(status, serde_json::json!({ "error": message }).to_string())
    }

    /// 404 for an unknown path.
    pub fn not_found() -> Response {
        Response::error(404, "there is nothing at this path")
    }
}

/// Produces the events for one client.
pub trait EventSource: Send {
    /// The next event. Waits until `deadline` at the latest, and returns at once when `cancel` is
    /// cancelled because the client is gone or the server stops.
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> StreamStep;
}

/// What [`EventSource::next`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamStep {
    /// An event to send.
    Event(SseEvent),
    /// No event before the deadline.
    Quiet,
    /// The stream is over.
    End,
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// The client repeats it as `Last-Event-ID` when it reconnects.
    pub id: Option<String>,
    /// The event's type; browsers default to `message`.
    pub name: Option<&'static str>,
    /// The payload, which may have several lines.
    pub data: String,
}

impl SseEvent {
    /// The event in wire format. Each line of the data becomes a `data:` line; line ends in the id
    /// are dropped, since they would end it.
    pub fn wire(&self) -> String {
        let mut text = String::with_capacity(self.data.len() + 64);
        if let Some(id) = &self.id {
            let id: String = id.chars().filter(|c| !matches!(c, '\n' | '\r' | '\0')).collect();
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

/// A response's head and body; an event stream's body follows later. `nonce` belongs to the page's
/// scripts and styles.
pub(crate) fn written<'a>(response: &'a Response, nonce: &str) -> (String, &'a str) {
    let (status, content_type, body): (u16, Option<&str>, Option<&str>) = match response {
        Response::Json(status, text) => (*status, Some(JSON), Some(text)),
        Response::NoContent | Response::SetCookie(_) => (204, None, None),
        Response::Page(page) => (200, Some(HTML), Some(page)),
        Response::NotAllowed(_) => {
            (405, Some(JSON), Some(r#"{"error":"this path does not support the method"}"#))
        }
        Response::Events(_) => (200, Some(EVENT_STREAM), None),
    };
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    let mut add = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    add("Content-Security-Policy", &policy(response, nonce));
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
    if let Response::SetCookie(cookie) = response {
        add("Set-Cookie", cookie);
    }
    add("Connection", "close");
    head.push_str(SECURITY_HEADERS);
    head.push_str("\r\n");
    (head, body.unwrap_or_default())
}

/// The Content-Security-Policy: the page runs its own scripts and styles and connects to
/// this server; other responses run nothing.
fn policy(response: &Response, nonce: &str) -> String {
    const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; \
                           frame-ancestors 'none'";
    match response {
        Response::Page(_) => format!(
            "{NOTHING}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src 'self' data:"
        ),
        _ => NOTHING.to_owned(),
    }
}

/// The reason phrase of RFC 9110, which clients ignore.
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
        let page = Response::Page("<p>".into());
        for response in
            [page, Response::NoContent, Response::not_found(), Response::NotAllowed("GET")]
        {
            let (head, _) = written(&response, "");
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
        let (head, body) = written(&response, "");
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert!(head.contains("Content-Length: 29\r\n"), "{head}");
        assert_eq!(body, r#"{"error":"no \"such\" thing"}"#);
    }

    #[test]
    fn an_event_has_a_line_for_each_line_of_its_data() {
        let event = SseEvent {
            id: Some("1\n2".to_owned()),
            name: Some("output"),
            data: "a\nb\r\nc\rd\n".to_owned(),
        };
        assert_eq!(
            event.wire(),
            "id: 12\nevent: output\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"
        );
        assert_eq!(SseEvent::default().wire(), "data: \n\n");
    }

    proptest! {
        #[test]
        fn no_data_ends_its_event_early(data in "[a-z:\\r\\n\u{2028}]{0,30}", id in "\\PC{0,5}") {
            let event = SseEvent { id: Some(id), name: Some("x"), data };
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
