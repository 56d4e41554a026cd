//! The monitor's HTTP server over time: slow clients, event streams, panics, its end.
//!
//! Here with the library's server in the test's own process, so that its limits can be
//! short and its routes the test's.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use zsh_tool::testing::monitor::http::access::Token;
use zsh_tool::testing::monitor::http::connection::Limits;
use zsh_tool::testing::monitor::http::listener::Server;
use zsh_tool::testing::monitor::http::request::Request;
use zsh_tool::testing::monitor::http::response::{
    EventSource, Response, Routes, SseEvent, StreamStep,
};
use zsh_tool::testing::monitor::http::sse::Pace;
use zsh_tool::testing::task::live::Cancel;

use crate::support::client::PATIENCE;
use crate::support::http::{Answer, Connection, Site};
use crate::support::processes::wait_until;

/// A limit that a test waits for.
const SHORT: Duration = Duration::from_millis(300);
/// A limit that no test reaches.
const LONG: Duration = Duration::from_secs(3600);

/// Connections at once. A place is given back a moment after its client has gone, so that
/// a test that comes back at once needs more than one.
const PLACES: usize = 8;
/// More than those: whoever does not give its place back is found out.
const MORE_THAN_PLACES: usize = 3 * PLACES;

fn limits() -> Limits {
    Limits {
        connections: PLACES,
        head: LONG,
        request: LONG,
        pace: Pace { keep_alive: LONG, write: LONG },
    }
}

/// Says when it is dropped.
struct Told(Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// The test's routes; each stream and each wait says when it is over.
struct Doors {
    over: Sender<()>,
    closed: Cancel,
    /// The receiver's other half, for waits that only the test ends.
    held: Mutex<Option<Receiver<()>>>,
}

impl Routes for Doors {
    fn answer(&self, request: &Request) -> Response {
        let told = Told(self.over.clone());
        match request.segments().as_slice() {
            ["panic"] => panic!("as the test asked for"),
            ["quiet"] => Response::Events(Box::new(Quiet { _told: told })),
            ["flood"] => Response::Events(Box::new(Flood { _told: told })),
            ["count"] => {
                let after = request.header("last-event-id");
                let after = after.and_then(|id| id.parse().ok()).unwrap_or(0);
                Response::Events(Box::new(Count(after)))
            }
            ["broken"] => Response::Events(Box::new(Broken)),
            ["until-closed"] => {
                self.closed.await_cancellation(Instant::now() + LONG);
                Response::NoContent
            }
            ["held"] => {
                let held = self.held.lock().take();
                let _ = held.map(|held| held.recv());
                Response::NoContent
            }
            _ => Response::not_found(),
        }
    }

    fn close(&self) {
        self.closed.cancel();
    }
}

/// Never has an event.
struct Quiet {
    _told: Told,
}

impl EventSource for Quiet {
    fn next(&mut self, deadline: Instant, cancel: &Cancel) -> StreamStep {
        cancel.await_cancellation(deadline);
        StreamStep::Quiet
    }
}

/// Always has a large one.
struct Flood {
    _told: Told,
}

impl EventSource for Flood {
    fn next(&mut self, _: Instant, _: &Cancel) -> StreamStep {
        StreamStep::Event(SseEvent { data: "x".repeat(64 * 1024), ..SseEvent::default() })
    }
}

/// Three events from a number on.
struct Count(u64);

impl EventSource for Count {
    fn next(&mut self, _: Instant, _: &Cancel) -> StreamStep {
        if self.0 == 3 {
            return StreamStep::End;
        }
        self.0 += 1;
        StreamStep::Event(SseEvent {
            id: Some(self.0.to_string()),
            name: Some("number"),
            data: format!("line {}\nand another", self.0),
        })
    }
}

/// Panics.
struct Broken;

impl EventSource for Broken {
    fn next(&mut self, _: Instant, _: &Cancel) -> StreamStep {
        panic!("as the test asked for");
    }
}

/// A server with the test's routes.
struct Running {
    server: Server,
    site: Site,
    /// Told at the end of each stream.
    over: Receiver<()>,
    /// Lets `/held` go on.
    release: Sender<()>,
}

fn start(limits: Limits) -> Running {
    let (over, is_over) = channel();
    let (release, held) = channel();
    let doors = Arc::new(Doors { over, closed: Cancel::default(), held: Mutex::new(Some(held)) });
    let token = Token::new("0123456789abcdef".repeat(4)).expect("a token");
    let address = ([127, 0, 0, 1], 0).into();
    let server = Server::start_within(limits, address, token, doors).expect("a server");
    Running { site: Site::of_link(&server.link()), server, over: is_over, release }
}

impl Running {
    /// A connection on which this has been asked for, with the token.
    fn asked(&self, target: &str, headers: &str) -> Connection {
        let mut connection = Connection::open(self.site.address);
        let headers = format!("{}{headers}", self.site.bearer());
        connection.send(self.site.request(&format!("GET {target}"), &headers));
        connection
    }

    /// A connection that streams, its opening read.
    fn stream(&self, target: &str, headers: &str) -> Connection {
        let (mut connection, head) = wait_until("there is room", || {
            let mut connection = self.asked(target, headers);
            let head = connection.head().expect("a head");
            (!head.contains(" 503 ")).then_some((connection, head))
        });
        assert!(head.contains("Content-Type: text/event-stream\n"), "{head}");
        assert!(head.contains("Connection: close\n"), "{head}");
        assert_eq!(connection.line().as_deref(), Some("retry: 1000"));
        assert_eq!(connection.line().as_deref(), Some(""));
        connection
    }

    /// A connection that has been answered, as soon as there is room for it.
    fn answered(&self, target: &str) -> (Connection, Answer) {
        wait_until("there is room", || {
            let mut connection = self.asked(target, "");
            let answer = connection.answer().expect("an answer");
            (answer.status != 503).then_some((connection, answer))
        })
    }

    fn await_over(&self) {
        self.over.recv_timeout(PATIENCE).expect("the stream's end");
    }
}

/// Sends one byte after another until the server is done with them; the pace is the
/// client's own, which is what the test is about.
fn trickle(connection: &mut Connection, byte: &str) {
    let started = Instant::now();
    while connection.send(byte) {
        assert!(started.elapsed() < PATIENCE, "the server never had enough");
        std::thread::sleep(SHORT / 20);
    }
}

// slow senders

#[test]
fn a_head_that_comes_a_byte_at_a_time_runs_into_the_deadline() {
    let running = start(Limits { head: SHORT, ..limits() });
    // Before the connection, from which on the server counts.
    let started = Instant::now();
    let mut connection = Connection::open(running.site.address);
    connection.send("GET / HTTP/1.1\r\nA: ");
    trickle(&mut connection, "a");
    assert!(started.elapsed() >= SHORT);
    // The answer came first, unless the bytes after it have taken it back.
    if let Some(answer) = connection.answer() {
        assert_eq!(answer.status, 408);
    }
}

#[test]
fn a_request_that_stops_halfway_is_answered_with_408() {
    let running = start(Limits { head: SHORT, request: SHORT, ..limits() });
    let body = running
        .site
        .request("POST /nothing", &format!("{}Content-Length: 9\r\n", running.site.bearer()));
    for half in ["", "\r\n\r\n", "GET / HTTP/1.1\r\nHo", &(body + "1234")] {
        let mut connection = Connection::open(running.site.address);
        connection.send(half);
        let answer = connection.answer().expect("an answer");
        assert_eq!(answer.status, 408, "{half:?}");
        assert_eq!(answer.header("Connection"), Some("close"));
        assert!(!answer.error().is_empty());
        connection.assert_closed();
    }
}

#[test]
fn slow_clients_take_no_place_for_ever() {
    let running = start(Limits { head: SHORT, ..limits() });
    let silent: Vec<Connection> =
        (0..PLACES / 2).map(|_| Connection::open(running.site.address)).collect();
    for mut connection in silent {
        assert_eq!(connection.answer().expect("an answer").status, 408);
        connection.assert_closed();
    }
    assert_eq!(running.answered("/nothing").1.status, 404);
}

// places

#[test]
fn half_sent_heads_lock_out_nobody_who_has_the_token() {
    let running = start(limits());
    let mut stalled: Vec<Connection> = (0..MORE_THAN_PLACES)
        .map(|_| {
            let mut connection = Connection::open(running.site.address);
            connection.send("GET / HTTP/1.1\r\nHo");
            connection
        })
        .collect();
    // Nobody waits until any of them is late.
    assert_eq!(running.site.get("/nothing").status, 404);
    // Those that came first have made room, and the last ones are still heard out.
    stalled[0].assert_closed();
    let last = stalled.last_mut().expect("several");
    last.send(format!("st: {}\r\n\r\n", running.site.address));
    assert_eq!(last.answer().expect("an answer").status, 200);
}

#[test]
fn strangers_leave_a_place_in_four_and_a_stream_with_the_token_makes_no_room() {
    let running = start(limits());
    let mut streams: Vec<Connection> = (0..PLACES).map(|_| running.stream("/quiet", "")).collect();
    let refused = running.asked("/nothing", "").answer().expect("an answer");
    assert_eq!(refused.status, 503);
    assert!(refused.error().contains(&PLACES.to_string()), "{refused:?}");
    streams.pop();
    running.await_over();
    assert_eq!(running.answered("/nothing").1.status, 404);
    let _strangers: Vec<Connection> =
        (0..MORE_THAN_PLACES).map(|_| Connection::open(running.site.address)).collect();
    assert_eq!(running.answered("/nothing").1.status, 404);
    // All streams are still there: only the server's end ends them.
    let Running { server, over, .. } = running;
    while over.try_recv().is_ok() {}
    server.stop();
    assert_eq!(over.iter().take(PLACES - 1).count(), PLACES - 1);
}

// streams

#[test]
fn events_come_with_id_name_and_every_line_and_go_on_after_the_last_one() {
    let running = start(limits());
    let read = |headers: &str| {
        let mut connection = running.stream("/count", headers);
        let mut text = String::new();
        while let Some(line) = connection.line() {
            text.push_str(&format!("{line}\n"));
        }
        text
    };
    let event = |n: u64| format!("id: {n}\nevent: number\ndata: line {n}\ndata: and another\n\n");
    assert_eq!(read(""), event(1) + &event(2) + &event(3));
    assert_eq!(read("Last-Event-ID: 2\r\n"), event(3));
    assert_eq!(read("Last-Event-ID: 3\r\n"), "");
}

#[test]
fn a_quiet_stream_is_kept_alive_by_comments() {
    let running = start(Limits { pace: Pace { keep_alive: SHORT / 3, write: LONG }, ..limits() });
    let mut connection = running.stream("/quiet", "");
    for _ in 0..3 {
        assert_eq!(connection.line().as_deref(), Some(":"));
        assert_eq!(connection.line().as_deref(), Some(""));
    }
}

#[test]
fn a_client_that_is_gone_ends_its_stream_although_nothing_is_sent() {
    let running = start(limits());
    for _ in 0..MORE_THAN_PLACES {
        drop(running.stream("/quiet", ""));
        running.await_over();
    }
}

#[test]
fn a_client_that_does_not_read_its_stream_is_dropped() {
    let running = start(Limits { pace: Pace { keep_alive: LONG, write: SHORT }, ..limits() });
    let connection = running.stream("/flood", "");
    running.await_over();
    drop(connection);
    assert_eq!(running.site.get("/nothing").status, 404);
}

#[test]
fn head_of_a_stream_has_no_events() {
    let running = start(limits());
    let mut connection = Connection::open(running.site.address);
    connection.send(running.site.request("HEAD /flood", &running.site.bearer()));
    let answer = connection.answer_to("HEAD").expect("an answer");
    assert_eq!(answer.header("Content-Type"), Some("text/event-stream"));
    connection.assert_closed();
}

// faults and the end

#[test]
fn a_panic_answers_its_request_and_the_server_goes_on() {
    let running = start(limits());
    for _ in 0..MORE_THAN_PLACES {
        let (mut connection, answer) = running.answered("/panic");
        assert_eq!(answer.status, 500);
        assert!(!answer.error().contains("test asked"), "{answer:?}");
        connection.assert_closed();
    }
    let mut broken = running.stream("/broken", "");
    broken.assert_closed();
    assert_eq!(running.answered("/nothing").1.status, 404);
}

#[test]
fn the_end_of_the_server_ends_streams_waits_and_connections() {
    let running = start(limits());
    let mut open = vec![
        running.stream("/quiet", ""),
        running.asked("/until-closed", ""),
        Connection::open(running.site.address),
    ];
    // It does not read: the server is in the middle of a write.
    let _flooded = running.stream("/flood", "");
    let address = running.site.address;
    let Running { server, over, .. } = running;
    server.stop();
    // Both streams and the wait have ended, and with them their threads.
    for _ in 0..3 {
        over.recv_timeout(PATIENCE).expect("an end");
    }
    for connection in &mut open {
        while connection.line().is_some() {}
    }
    // A child that another test forks meanwhile keeps the listener until its exec.
    wait_until("connections are refused", || std::net::TcpStream::connect(address).err());
}

#[test]
fn an_answer_that_hangs_does_not_hold_the_end_up() {
    let running = start(limits());
    let mut hanging = running.asked("/held", "");
    let mut served = running.asked("/nothing", "");
    assert_eq!(served.answer().expect("an answer").status, 404);
    running.await_over();
    let Running { server, over, release, .. } = running;
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < PATIENCE / 3);
    hanging.assert_closed();
    let _ = release.send(());
    over.recv_timeout(PATIENCE).expect("the thread goes on to its end");
}
