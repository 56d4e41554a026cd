//! Lists the sessions of connected hosts and forwards requests about them. Their ids begin with the
//! host's name here.
//!
//! Limits: only hosts that this process is connected to; the page connects to none.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::request::Request;
use super::http::response::{EventSource, Response, SseEvent, StreamStep};
use super::session::now;
use crate::base::cancel::Cancel;
use crate::peer::hosts::{Host, Hosts};
use crate::peer::pages::{PageAnswer, PageCall, PageRequest};
use crate::process::descriptors::{Interest, Poller, Waker};
use crate::process::files;

/// How long a host may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long to wait for the lists of hosts.
const LIST_LIMIT: Duration = Duration::from_secs(2);
/// How long the rest of an answer may take after its beginning.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// Clocks that differ by at most this many seconds count as equal: an answer takes time, too.
const CLOCK_PRECISION: f64 = 2.0;
/// The request for the list, as a stream.
const LIST_PATH: [&str; 2] = ["api", "events"];
/// The keys of ids in answers.
const ID_KEYS: [&str; 4] = ["id", "sessionId", "taskId", "checkId"];

/// Forwards a request about a session of a host to that host; `None` for other requests.
pub(super) fn forward(hosts: &Arc<Hosts>, request: &Request) -> Option<Response> {
    let known = |id: &str| {
        let (host, task) = id.rsplit_once(':')?;
        hosts.find(host).ok().map(|host| (Arc::clone(host), task.to_owned()))
    };
    let (host, request) = request.split_off_host(known)?;
    let name = host.entry.name.clone();
    // Only a stream needs its name.
    let mut stream = Pulled::new(host, json!(request));
    let Some(call) = PageCall::begin(&stream.host, &stream.request) else {
        let text = format!("host {name} is not connected: the next call to it connects");
        return Some(Response::error(503, &text));
    };
    let Ok(mut answer) = call.answer(ANSWER_LIMIT) else {
        let text = format!("the connection to {name} was lost, or it has not answered");
        return Some(Response::error(503, &text));
    };
    Some(match answer.status {
        204 => Response::NoContent,
        200 if answer.body.is_null() => {
            stream.ended = answer.ended;
            let mut events = HostEvents { stream, events: VecDeque::new(), woken: None };
            events.receive(answer);
            Response::Events(Box::new(events))
        }
        status => {
            with_host(&mut answer.body, &name);
            Response::json(status, &answer.body)
        }
    })
}

/// The lists of all connected hosts, kept up to date by their streams.
pub(super) struct HostLists {
    hosts: Arc<Hosts>,
    by_name: BTreeMap<String, HostList>,
}

struct HostList {
    stream: Pulled,
    /// `None` until the first list arrives.
    sessions: Option<Vec<Value>>,
}

impl HostLists {
    pub(super) fn new(hosts: Arc<Hosts>) -> HostLists {
        HostLists { hosts, by_name: BTreeMap::new() }
    }

    /// The sessions of all connected hosts that answer within [`LIST_LIMIT`].
    pub(super) fn current(hosts: Arc<Hosts>) -> Vec<Value> {
        let mut lists = HostLists::new(hosts);
        let deadline = Instant::now() + LIST_LIMIT;
        let mut sessions = lists.sessions();
        while lists.by_name.values().any(|list| list.sessions.is_none()) {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let mut poller = Poller::default();
            for fd in lists.awaited() {
                poller.watch(fd, Interest::Read);
            }
            poller.wait(Some(rest));
            sessions = lists.sessions();
        }
        sessions
    }

    /// The newest sessions of all connected hosts. Also follows hosts that connected since.
    pub(super) fn sessions(&mut self) -> Vec<Value> {
        for host in self.hosts.iter().filter(|host| host.connected().is_some()) {
            let list = self.by_name.entry(host.entry.name.clone());
            list.or_insert_with(|| HostList {
                stream: Pulled::new(Arc::clone(host), json!(Request::get(&LIST_PATH))),
                sessions: None,
            });
        }
        self.by_name.retain(|name, list| {
            loop {
                match list.stream.take() {
                    Pull::Answer(answer) => {
                        if let Some(event) = answer.events.last() {
                            list.sessions = Some(listed(&event.data, name, ahead(&answer)));
                        }
                    }
                    Pull::Nothing => return true,
                    Pull::Ended => return false,
                }
            }
        });
        self.by_name.values().flat_map(|list| list.sessions.iter().flatten().cloned()).collect()
    }

    /// Descriptors that become readable when a list changes.
    pub(super) fn awaited(&self) -> Vec<BorrowedFd<'_>> {
        self.by_name.values().filter_map(|list| list.stream.awaited()).collect()
    }
}

/// The sessions in a host's list, with the ids and times of this machine.
pub fn listed(data: &str, host: &str, ahead: f64) -> Vec<Value> {
    let mut list: Value = serde_json::from_str(data).unwrap_or_default();
    let sessions = list.get_mut("sessions").map(Value::take);
    let Some(Value::Array(mut sessions)) = sessions else {
        return Vec::new();
    };
    sessions.iter_mut().for_each(|session| localise(session, host, ahead));
    sessions
}

/// Gives a host's session the ids and times of this machine. The host's clock is `ahead` seconds
/// ahead.
fn localise(session: &mut Value, host: &str, ahead: f64) {
    with_host(session, host);
    let started = session.get("startedAt").and_then(Value::as_f64);
    let own = session.pointer_mut("/server/own").map(|own| std::mem::replace(own, false.into()));
    if let Some(fields) = session.as_object_mut() {
        // The far side keeps its own tasks as if they were detached; they end with this server.
        if own == Some(Value::Bool(true)) {
            fields.insert("detached".to_owned(), Value::Null);
        }
        fields.insert("host".to_owned(), host.into());
        if let Some(started) = started {
            fields.insert("startedAt".to_owned(), (started - ahead).into());
        }
    }
}

fn ahead(answer: &PageAnswer) -> f64 {
    let ahead = answer.now - now();
    if ahead.abs() > CLOCK_PRECISION { ahead } else { 0.0 }
}

fn with_host(answer: &mut Value, host: &str) {
    for key in ID_KEYS {
        if let Some(Value::String(id)) = answer.get_mut(key) {
            *id = format!("{host}:{id}");
        }
    }
}

/// A stream of events on a host, pulled by one request after another.
struct Pulled {
    host: Arc<Host>,
    request: PageRequest,
    call: Option<PageCall>,
    ended: bool,
}

/// What a stream from a host has for its reader.
enum Pull {
    Answer(PageAnswer),
    Nothing,
    Ended,
}

impl Pulled {
    fn new(host: Arc<Host>, request: Value) -> Pulled {
        let request = PageRequest { request, stream: files::random_id() };
        Pulled { host, request, call: None, ended: false }
    }

    fn take(&mut self) -> Pull {
        if self.ended {
            return Pull::Ended;
        }
        let Some(call) = self.call.take().or_else(|| PageCall::begin(&self.host, &self.request))
        else {
            return Pull::Ended;
        };
        let mut poller = Poller::default();
        let readable = poller.watch(call.as_fd(), Interest::Read);
        poller.wait(Some(Duration::ZERO));
        if !poller.ready(Some(readable)) {
            self.call = Some(call);
            return Pull::Nothing;
        }
        let answer = call.answer(READ_LIMIT).ok().filter(|answer| answer.status == 200);
        self.ended = answer.as_ref().is_none_or(|answer| answer.ended);
        answer.map_or(Pull::Ended, Pull::Answer)
    }

    fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.call.as_ref().map(AsFd::as_fd)
    }
}

/// The events of a session on a host.
struct HostEvents {
    stream: Pulled,
    events: VecDeque<SseEvent>,
    /// Becomes readable when the stream is cancelled.
    woken: Option<OwnedFd>,
}

impl HostEvents {
    fn receive(&mut self, answer: PageAnswer) {
        let (host, ahead) = (&self.stream.host.entry.name, ahead(&answer));
        for event in answer.events {
            let name = match event.name.as_deref() {
                Some("session") => "session",
                Some("output") => "output",
                Some("log") => "log",
                Some("end") => "end",
                _ => continue,
            };
            let mut data = event.data;
            if name == "session"
                && let Ok(mut session) = serde_json::from_str(&data)
            {
                localise(&mut session, host, ahead);
                data = session.to_string();
            }
            self.events.push_back(SseEvent { id: event.id, name: Some(name), data });
        }
    }
}

impl EventSource for HostEvents {
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> StreamStep {
        if self.woken.is_none()
            && let Ok((waker, woken)) = Waker::new()
        {
            cancel.set_waker(waker);
            self.woken = Some(woken);
        }
        loop {
            if cancel.is_cancelled() {
                return StreamStep::End;
            }
            if let Some(event) = self.events.pop_front() {
                return StreamStep::Event(event);
            }
            match self.stream.take() {
                Pull::Answer(answer) => self.receive(answer),
                Pull::Ended => return StreamStep::End,
                Pull::Nothing => {
                    let rest = deadline.saturating_duration_since(Instant::now());
                    if rest.is_zero() {
                        return StreamStep::Quiet;
                    }
                    let mut poller = Poller::default();
                    for fd in self
                        .stream
                        .awaited()
                        .into_iter()
                        .chain(self.woken.as_ref().map(AsFd::as_fd))
                    {
                        poller.watch(fd, Interest::Read);
                    }
                    poller.wait(Some(rest));
                }
            }
        }
    }
}
