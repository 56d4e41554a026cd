//! One connection: requests one after another, each read within its deadline, checked,
//! answered.
//!
//! The page and the trade of the token for the cookie are answered here, since no token
//! guards them; all else is for the routes. After a fault the connection ends: where the
//! next request would begin is not known.

use std::borrow::Cow;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::access::{Access, Refusal};
use super::request::{self, Fault, Head, METHODS, Method};
use super::response::{self, Around, Response, Routes};
use super::stream::{self, Pace};
use super::wire::{Wire, WireError};
use crate::task::live::Cancel;

/// How long things may take, and how many there may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once (progress.md §5).
    pub connections: usize,
    /// A request may take so long to arrive, from its first byte to its last; the first one
    /// of a connection from the connection's start.
    pub request: Duration,
    /// A connection may wait so long for its next request.
    pub idle: Duration,
    /// Times of answers and of event streams.
    pub pace: Pace,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 32,
            request: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            pace: Pace {
                keep_alive: Duration::from_secs(15),
                write: Duration::from_secs(10),
            },
        }
    }
}

/// What all connections share.
pub struct Site {
    /// Who may ask.
    pub access: Access,
    /// Who answers.
    pub routes: Arc<dyn Routes>,
    /// The dashboard.
    pub page: String,
    /// What its scripts and styles carry.
    pub nonce: String,
    /// How long things may take.
    pub limits: Limits,
}

/// One connection's side of the site.
pub struct Connection<'a> {
    site: &'a Site,
    cancel: &'a Cancel,
    /// Called when nothing more is to be read but the client's end.
    watch: &'a dyn Fn(),
    wire: Wire,
}

/// What becomes of the connection.
enum After {
    /// Another request may come.
    Stays,
    /// The last answer has been sent.
    Parts,
}

/// What is answered, and what becomes of the connection.
struct Answer {
    response: Response,
    cookie: Option<String>,
    keep_alive: bool,
    without_body: bool,
}

impl Answer {
    /// An answer after which the connection ends.
    fn last(response: Response) -> Answer {
        Answer {
            response,
            cookie: None,
            keep_alive: false,
            without_body: false,
        }
    }
}

impl<'a> Connection<'a> {
    /// A connection that has just been made. `watch` is called before a stream begins:
    /// from then on whatever arrives is the client's end, and cancels.
    pub fn new(
        site: &'a Site,
        stream: Arc<TcpStream>,
        cancel: &'a Cancel,
        watch: &'a dyn Fn(),
    ) -> Connection<'a> {
        Connection {
            site,
            cancel,
            watch,
            wire: Wire::new(stream),
        }
    }

    /// Serves it to its end.
    pub fn serve(mut self) {
        let mut deadline = Instant::now() + self.site.limits.request;
        loop {
            match self.serve_one(deadline) {
                Ok(After::Stays) => {}
                Ok(After::Parts) => return self.wire.part(),
                Err(error) => return tracing::debug!("monitor: {error}"),
            }
            if self.wire.unused().is_empty() {
                let idle = Instant::now() + self.site.limits.idle;
                // A connection that has had its answer ends without another one.
                if self.wire.read_more(idle).is_err() {
                    return;
                }
            }
            deadline = Instant::now() + self.site.limits.request;
        }
    }

    fn serve_one(&mut self, deadline: Instant) -> Result<After, WireError> {
        let answer = match self.read_head(deadline)? {
            Ok(head) => self.answer(head, deadline)?,
            Err(late_or_faulty) => Answer::last(late_or_faulty),
        };
        self.send(answer)
    }

    /// The head of the next request, or the answer to what is none.
    fn read_head(&mut self, deadline: Instant) -> Result<Result<Head, Response>, WireError> {
        loop {
            match request::parse(self.wire.unused()) {
                Ok(Some((head, length))) => {
                    self.wire.take(length);
                    return Ok(Ok(head));
                }
                Ok(None) => {}
                Err(fault) => return Ok(Err(of_fault(fault))),
            }
            match self.wire.read_more(deadline) {
                Err(WireError::Late) => return Ok(Err(too_slow())),
                other => other?,
            }
        }
    }

    fn answer(&mut self, mut head: Head, deadline: Instant) -> Result<Answer, WireError> {
        let checked = self
            .site
            .access
            .check_sender(&head)
            .and_then(|()| match is_open(&head) {
                true => Ok(()),
                false => self.site.access.check_token(&head),
            });
        if let Err(refusal) = checked {
            // Nobody reads the body of who may not send one.
            let keep_alive = head.keep_alive && head.body_length == 0;
            return Ok(Answer {
                keep_alive,
                without_body: head.without_body,
                ..Answer::last(of_refusal(refusal))
            });
        }
        if head.expects_continue && self.wire.unused().is_empty() {
            let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            self.wire.write(go_on.as_bytes(), deadline)?;
        }
        while self.wire.unused().len() < head.body_length {
            match self.wire.read_more(deadline) {
                Err(WireError::Late) => return Ok(Answer::last(too_slow())),
                other => other?,
            }
        }
        head.request.body = self.wire.take(head.body_length);
        // A handler that panics has answered nothing; what it shares guards itself.
        let answered = catch_unwind(AssertUnwindSafe(|| self.route(&head)));
        let failed = || (Response::error(500, "answering this request failed"), None);
        let keep_alive = head.keep_alive && answered.is_ok();
        let (response, cookie) = answered.unwrap_or_else(|_| failed());
        Ok(Answer {
            response,
            cookie,
            keep_alive,
            without_body: head.without_body,
        })
    }

    fn route(&self, head: &Head) -> (Response, Option<String>) {
        let request = &head.request;
        match (request.segments().as_slice(), request.method) {
            ([], Method::Get) => (self.page(), None),
            ([], Method::Post) => (Response::NotAllowed("GET, HEAD"), None),
            (["api", "token"], Method::Post) => self.trade(&request.body),
            (["api", "token"], Method::Get) => (Response::NotAllowed("POST"), None),
            _ => (self.site.routes.answer(request), None),
        }
    }

    fn page(&self) -> Response {
        Response::Page {
            content_type: "text/html; charset=utf-8",
            body: Cow::Owned(self.site.page.clone()),
        }
    }

    /// Gives the cookie for the token.
    fn trade(&self, body: &[u8]) -> (Response, Option<String>) {
        #[derive(Deserialize)]
        struct Given {
            token: String,
        }
        let Ok(given) = serde_json::from_slice::<Given>(body) else {
            return (Response::error(400, r#"expected {"token": "…"}"#), None);
        };
        match self.site.access.check_given(&given.token) {
            Ok(()) => (Response::NoContent, Some(self.site.access.cookie())),
            Err(refusal) => (of_refusal(refusal), None),
        }
    }

    fn send(&mut self, answer: Answer) -> Result<After, WireError> {
        let around = Around {
            keep_alive: answer.keep_alive,
            cookie: answer.cookie.as_deref(),
            nonce: &self.site.nonce,
        };
        let (mut text, body) = response::written(&answer.response, around);
        if !answer.without_body {
            text.push_str(body);
        }
        let pace = self.site.limits.pace;
        self.wire
            .write(text.as_bytes(), Instant::now() + pace.write)?;
        match answer.response {
            Response::Events(mut source) if !answer.without_body => {
                (self.watch)();
                let (wire, cancel) = (&self.wire, self.cancel);
                let sending = || stream::send(source.as_mut(), wire, cancel, pace);
                // What can be told of a panic here is that the stream ends.
                catch_unwind(AssertUnwindSafe(sending)).unwrap_or(Ok(()))?;
                Ok(After::Parts)
            }
            Response::Events(_) => Ok(After::Parts),
            _ if answer.keep_alive => Ok(After::Stays),
            _ => Ok(After::Parts),
        }
    }
}

/// Whether a request needs no token: the page, which holds no data, and the trade of the
/// token for the cookie.
fn is_open(head: &Head) -> bool {
    matches!(head.request.segments().as_slice(), [] | ["api", "token"])
}

fn of_fault(fault: Fault) -> Response {
    match fault {
        Fault::Method => Response::NotAllowed(METHODS),
        _ => Response::error(fault.status(), &fault.to_string()),
    }
}

fn of_refusal(refusal: Refusal) -> Response {
    Response::error(refusal.status(), &refusal.to_string())
}

fn too_slow() -> Response {
    Response::error(408, "the request took too long to arrive")
}
