//! A host's answers to the page of the server that is connected to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::http::response::{EventSource, Response, Routes, StreamStep};
use super::session::now;
use crate::base::cancel::Cancel;
use crate::peer::pages::{PULL_WAIT, PageAnswer, PageEvent, PageRequest, Pages};

/// A stream that no request continues is dropped after this time.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How many streams there may be: then the one that has been idle for longest is dropped.
const MAX_STREAMS: usize = 32;
/// An answer takes no further event once its events have this many bytes.
const ANSWER_BYTES: usize = 64 * 1024;

/// A stream between two requests, and the time of the last one.
struct Kept {
    since: Instant,
    source: Box<dyn EventSource>,
}

/// Answers requests for the page with the routes of this process.
pub(crate) struct FarPages {
    routes: Box<dyn Fn() -> Arc<dyn Routes> + Send + Sync>,
    made: std::sync::OnceLock<Arc<dyn Routes>>,
    /// The streams between two requests, by the names that the caller chose.
    streams: Mutex<HashMap<String, Kept>>,
}

impl FarPages {
    /// `routes` is called at the first request.
    pub(crate) fn new(routes: impl Fn() -> Arc<dyn Routes> + Send + Sync + 'static) -> FarPages {
        FarPages { routes: Box::new(routes), made: Default::default(), streams: Mutex::default() }
    }

    fn begin(&self, request: Value) -> Response {
        match serde_json::from_value(request) {
            Ok(request) => self.made.get_or_init(&self.routes).answer(&request),
            Err(error) => {
                Response::error(400, &format!("this is not a request for the page: {error}"))
            }
        }
    }

    fn take(&self, stream: &str) -> Option<Box<dyn EventSource>> {
        let mut streams = self.streams.lock();
        let kept = streams.remove(stream).map(|kept| kept.source);
        streams.retain(|_, kept| kept.since.elapsed() < FORGET_AFTER);
        kept
    }

    fn keep(&self, stream: String, source: Box<dyn EventSource>) {
        let mut streams = self.streams.lock();
        if streams.len() >= MAX_STREAMS {
            let oldest = streams.iter().min_by_key(|(_, kept)| kept.since);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| streams.remove(&name));
        }
        streams.insert(stream, Kept { since: Instant::now(), source });
    }
}

impl Pages for FarPages {
    fn answer(&self, request: PageRequest, cancel: &Cancel) -> PageAnswer {
        let kept = self.take(&request.stream).map(Response::Events);
        let response = kept.unwrap_or_else(|| self.begin(request.request));
        let mut answer = PageAnswer { status: 200, now: now(), ..PageAnswer::default() };
        match response {
            Response::Events(mut source) => {
                (answer.events, answer.ended) = pull(source.as_mut(), cancel);
                if !answer.ended && !cancel.is_cancelled() {
                    self.keep(request.stream, source);
                }
            }
            Response::Json(status, text) => {
                answer.status = status;
                answer.body = serde_json::from_str(&text).unwrap_or_default();
            }
            Response::NoContent => answer.status = 204,
            // A page of the same version requests none of these.
            Response::NotAllowed(_) | Response::Page(_) | Response::SetCookie(_) => {
                answer.status = 400;
            }
        }
        answer
    }
}

/// Waits for an event, then takes those that follow without a pause. Returns them, and whether the
/// stream has ended.
fn pull(source: &mut dyn EventSource, cancel: &Cancel) -> (Vec<PageEvent>, bool) {
    let mut deadline = Instant::now() + PULL_WAIT;
    let mut events: Vec<PageEvent> = Vec::new();
    let mut bytes = 0;
    while bytes < ANSWER_BYTES {
        match source.next(deadline, cancel) {
            StreamStep::Event(event) => {
                bytes += event.data.len();
                let name = event.name.map(str::to_owned);
                events.push(PageEvent { id: event.id, name, data: event.data });
                deadline = Instant::now();
            }
            StreamStep::Quiet => break,
            StreamStep::End => return (events, true),
        }
    }
    (events, false)
}
