//! One connection: reads one request within its deadline, checks it and answers it.
//!
//! The page and the request that exchanges the token for a cookie need no authentication and are
//! answered here; the routes answer everything else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::access::{AccessRefusal, PageAccess};
use super::request::{self, Fault, Head, METHODS, Method};
use super::response::{self, Response, Routes};
use super::sse::{self, Pace};
use super::wire::{Wire, WireError};
use crate::base::cancel::Cancel;

/// The number of connections, and the time limits of each.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; a quarter is reserved for clients that have shown the token.
    pub connections: usize,
    /// From the connection's start until the head of the request has arrived.
    pub head: Duration,
    /// From the connection's start until the whole request has arrived.
    pub request: Duration,
    /// The times of answers and of event streams.
    pub pace: Pace,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 32,
            head: Duration::from_secs(3),
            request: Duration::from_secs(10),
            pace: Pace { keep_alive: Duration::from_secs(15), write: Duration::from_secs(10) },
        }
    }
}

/// What all connections share.
pub(crate) struct Site {
    pub(crate) access: PageAccess,
    pub(crate) routes: Arc<dyn Routes>,
    /// The dashboard's HTML.
    pub(crate) page: Arc<str>,
    /// The nonce of its scripts and styles.
    pub(crate) nonce: String,
    pub(crate) limits: Limits,
}

/// A connection, ready to serve its request.
pub(crate) struct Connection<'a> {
    pub(crate) site: &'a Site,
    pub(crate) cancel: &'a Cancel,
    /// Called once the client has shown the token.
    pub(crate) admitted: &'a dyn Fn(),
    /// Called when a stream begins; any later input means that the client is gone.
    pub(crate) streams: &'a dyn Fn(),
    pub(crate) wire: Wire,
}

impl Connection<'_> {
    pub(crate) fn serve(mut self) {
        match self.serve_request() {
            Ok(()) => self.wire.close_gracefully(),
            Err(error) => tracing::debug!("monitor: {error}"),
        }
    }

    fn serve_request(&mut self) -> Result<(), WireError> {
        let start = Instant::now();
        let (response, without_body) = match self.read_head(start + self.site.limits.head)? {
            Ok(mut head) => {
                let deadline = start + self.site.limits.request;
                (self.answer(&mut head, deadline)?, head.without_body)
            }
            Err(late_or_faulty) => (late_or_faulty, false),
        };
        self.send(response, without_body)
    }

    /// Reads the head of the request; the inner error is the response to a late or faulty head.
    fn read_head(&mut self, deadline: Instant) -> Result<Result<Head, Response>, WireError> {
        loop {
            match request::parse(self.wire.unused()) {
                Ok(Some((head, length))) => {
                    self.wire.take(length);
                    return Ok(Ok(head));
                }
                Ok(None) => {}
                Err(fault) => return Ok(Err(fault_response(fault))),
            }
            match self.wire.read_more(deadline) {
                Err(WireError::Late) => return Ok(Err(too_slow())),
                other => other?,
            }
        }
    }

    fn answer(&mut self, head: &mut Head, deadline: Instant) -> Result<Response, WireError> {
        let access = &self.site.access;
        let checked = access.check_sender(head).and_then(|()| {
            let admitted = access.check_token(head);
            if admitted.is_ok() {
                (self.admitted)();
            }
            if is_open(head) { Ok(()) } else { admitted }
        });
        if let Err(refusal) = checked {
            return Ok(refusal_response(refusal));
        }
        while self.wire.unused().len() < head.body_length {
            match self.wire.read_more(deadline) {
                Err(WireError::Late) => return Ok(too_slow()),
                other => other?,
            }
        }
        head.request.body = self.wire.take(head.body_length);
        // A handler that panics has not sent anything, and shared state is behind locks.
        let answered = catch_unwind(AssertUnwindSafe(|| self.route(head)));
        Ok(answered.unwrap_or_else(|_| Response::error(500, "answering this request failed")))
    }

    fn route(&self, head: &Head) -> Response {
        let request = &head.request;
        match (request.segments().as_slice(), request.method) {
            ([], Method::Get) => Response::Page(Arc::clone(&self.site.page)),
            ([], Method::Post) => Response::NotAllowed("GET, HEAD"),
            (["api", "token"], Method::Post) => self.exchange_token(&request.body),
            (["api", "token"], Method::Get) => Response::NotAllowed("POST"),
            _ => self.site.routes.answer(request),
        }
    }

    /// Exchanges the token for the cookie.
    fn exchange_token(&self, body: &[u8]) -> Response {
        #[derive(Deserialize)]
        struct Given {
            token: String,
        }
        let Ok(given) = serde_json::from_slice::<Given>(body) else {
            return Response::error(400, r#"expected {"token": "…"}"#);
        };
        match self.site.access.check_given(&given.token) {
            Ok(()) => Response::SetCookie(self.site.access.cookie()),
            Err(refusal) => refusal_response(refusal),
        }
    }

    fn send(&mut self, response: Response, without_body: bool) -> Result<(), WireError> {
        let (mut text, body) = response::written(&response, &self.site.nonce);
        if !without_body {
            text.push_str(body);
        }
        let pace = self.site.limits.pace;
        self.wire.write(text.as_bytes(), Instant::now() + pace.write)?;
        if let Response::Events(mut source) = response
            && !without_body
        {
            (self.streams)();
            let (wire, cancel) = (&self.wire, self.cancel);
            let sending = || sse::send(source.as_mut(), wire, cancel, pace);
            // After a panic the stream can only end.
            catch_unwind(AssertUnwindSafe(sending)).unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

/// Whether a request needs no token: the page, which contains no data, and the exchange of
/// the token for the cookie.
fn is_open(head: &Head) -> bool {
    matches!(head.request.segments().as_slice(), [] | ["api", "token"])
}

fn fault_response(fault: Fault) -> Response {
    match fault {
        Fault::Method => Response::NotAllowed(METHODS),
        _ => Response::error(fault.status(), &fault.to_string()),
    }
}

fn refusal_response(refusal: AccessRefusal) -> Response {
    Response::error(refusal.status(), &refusal.to_string())
}

fn too_slow() -> Response {
    Response::error(408, "the request took too long to arrive")
}
