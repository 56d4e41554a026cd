//! The far side's answers to a page that is elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use super::http::response::{EventSource, Response, Routes, StreamStep};
use super::session::now;
use crate::peer::pages::{PULL_WAIT, PageAnswer, PageEvent, PageRequest, Pages};
use crate::task::live::Cancel;

/// A stream that is not asked for is forgotten after this time …
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// … and the one that was asked for longest ago, if there are more.
const MOST_STREAMS: usize = 32;
/// How many bytes of events an answer has at least, if there are as many.
const ENOUGH: usize = 64 * 1024;

/// A stream, and since when no request waits for it.
struct Kept {
    since: Instant,
    source: Box<dyn EventSource>,
}

/// Answers by these routes.
pub(crate) struct FarPages {
    routes: Box<dyn Fn() -> Arc<dyn Routes> + Send + Sync>,
    made: std::sync::OnceLock<Arc<dyn Routes>>,
    /// Those that no request waits for.
    streams: Mutex<HashMap<String, Kept>>,
}

impl FarPages {
    /// `routes` makes them at the first request.
    pub(crate) fn new(routes: impl Fn() -> Arc<dyn Routes> + Send + Sync + 'static) -> FarPages {
        FarPages { routes: Box::new(routes), made: Default::default(), streams: Mutex::default() }
    }

    fn begin(&self, request: Value) -> Response {
        match serde_json::from_value(request) {
            Ok(request) => self.made.get_or_init(&self.routes).answer(&request),
            Err(error) => Response::error(400, &format!("no request of a page: {error}")),
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
        if streams.len() >= MOST_STREAMS {
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
            // None of these is asked for by a page of the same version.
            Response::NotAllowed(_) | Response::Page(_) | Response::SetCookie(_) => {
                answer.status = 400;
            }
        }
        answer
    }
}

/// The events that there are, after a wait for the first of them; and whether no more come.
fn pull(source: &mut dyn EventSource, cancel: &Cancel) -> (Vec<PageEvent>, bool) {
    let mut deadline = Instant::now() + PULL_WAIT;
    let mut events: Vec<PageEvent> = Vec::new();
    let mut bytes = 0;
    while bytes < ENOUGH {
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
