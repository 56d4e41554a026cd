//! The HTTP server: a listener, an accepting thread, and a thread for each connection.
//!
//! The accepting thread waits in one `poll(2)` for new connections, for the end of the server, and
//! for clients that close an event stream, which a stream without events would not notice. A quarter
//! of the slots is reserved for clients that have shown the token; among the others, the oldest
//! connection makes room for a new one. When all slots are taken, a connection is turned away
//! without a thread. Limits: no TLS, which would protect nothing on loopback; the caller chooses the
//! address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::access::{PageAccess, Token};
use super::connection::{Connection, Limits, Site};
use super::response::{self, Response, Routes};
use super::wire::Wire;
use crate::base::cancel::Cancel;
use crate::base::sync::CondvarMutex;
use crate::monitor::dashboard;
use crate::process::descriptors::{Interest, Poller, Waker, drain_wakes};
use crate::process::files;

/// A connection needs little stack: its buffers are on the heap.
const STACK: usize = 512 * 1024;
/// The pause after an accept that failed because no descriptors are left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// The minimum time between two log messages about such failures.
const COMPLAIN_AGAIN: Duration = Duration::from_secs(60);
/// How long a client that is turned away may take to read the answer.
const TURNED_AWAY: Duration = Duration::from_secs(1);
/// How many such clients are kept at once; further ones are cut off.
const MAX_TURNED_AWAY: usize = 32;
/// How long a new connection waits for a free slot, and how long a client may take to show the token
/// before it can lose its slot.
const MAKING_ROOM: Duration = Duration::from_millis(250);
/// How long connections may take to end when the server stops; a slower answer is abandoned.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use, not local, or not permitted.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no threads or descriptors left.
    #[error("cannot start the monitor: {0}")]
    System(#[from] io::Error),
}

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// What the accepting thread, the connections and the owner share.
struct Shared {
    site: Site,
    stopping: AtomicBool,
    waker: Waker,
    /// The connections; a thread's name is its index plus one.
    slots: CondvarMutex<Vec<Option<Arc<Open>>>>,
}

/// An open connection.
struct Open {
    stream: Arc<TcpStream>,
    cancel: Cancel,
    since: Instant,
    /// The client has shown the token.
    admitted: AtomicBool,
    /// The connection sends a stream, so any input means that the client is gone.
    watched: AtomicBool,
}

impl Open {
    /// Whether the client has not shown the token; connections that are ending do not count.
    fn is_stranger(&self) -> bool {
        !self.admitted.load(Ordering::Acquire) && !self.cancel.is_cancelled()
    }

    fn end(&self) {
        self.cancel.cancel();
        // Interrupts the thread's read or write. Fails if the socket is already closed.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Server {
    /// Starts to serve; port 0 picks a free port.
    ///
    /// # Errors
    /// When it cannot listen on the address.
    pub fn start(
        address: SocketAddr,
        token: Token,
        routes: Arc<dyn Routes>,
    ) -> Result<Server, StartError> {
        Server::start_within(Limits::default(), address, token, routes)
    }

    /// As [`Server::start`], with other limits.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_within(
        limits: Limits,
        address: SocketAddr,
        token: Token,
        routes: Arc<dyn Routes>,
    ) -> Result<Server, StartError> {
        let listener =
            TcpListener::bind(address).map_err(|source| StartError::Bind { address, source })?;
        // A client may be gone between the poll and the accept.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let nonce = files::random_secret()?;
        let (waker, woken) = Waker::new()?;
        let shared = Arc::new(Shared {
            site: Site {
                access: PageAccess::new(address, token),
                routes,
                page: dashboard::page(&nonce).into(),
                nonce,
                limits,
            },
            stopping: AtomicBool::new(false),
            waker,
            slots: CondvarMutex::new(vec![None; limits.connections]),
        });
        let acceptor = Acceptor {
            shared: Arc::clone(&shared),
            listener,
            woken,
            threads: (0..limits.connections).map(|_| None).collect(),
            turned_away: Vec::new(),
            complained: None,
        };
        let thread =
            std::thread::Builder::new().name("monitor".to_owned()).spawn(move || acceptor.run())?;
        Ok(Server { shared, address, acceptor: Some(thread) })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link to the page, with the token.
    pub fn link(&self) -> String {
        self.shared.site.access.link()
    }

    /// Ends all connections and streams, and joins their threads.
    pub fn stop(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.site.routes.close();
        self.shared.waker.wake();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// The accepting thread.
struct Acceptor {
    shared: Arc<Shared>,
    listener: TcpListener,
    woken: OwnedFd,
    threads: Vec<Option<JoinHandle<()>>>,
    turned_away: Vec<(Arc<TcpStream>, Instant)>,
    /// When a failed accept was last logged.
    complained: Option<Instant>,
}

/// The outcome of a wait.
struct Woken {
    accept: bool,
    /// Streaming connections whose client is gone.
    gone: Vec<Arc<Open>>,
}

impl Acceptor {
    fn run(mut self) {
        let mut accepts = true;
        while !self.shared.stopping.load(Ordering::Acquire) {
            let woken = self.wait(accepts);
            for open in woken.gone {
                open.watched.store(false, Ordering::Release);
                open.end();
            }
            self.drain_turned_away();
            // After a failure, pause: the poll would return at once again.
            accepts = !woken.accept || self.accept();
        }
        self.end();
    }

    /// Waits for a connection (unless accepting has just failed), a wake-up, or a client's end.
    fn wait(&self, accepts: bool) -> Woken {
        let watched = self.watched();
        let mut poller = Poller::default();
        let wake = poller.watch(self.woken.as_fd(), Interest::Read);
        let listener = accepts.then(|| poller.watch(self.listener.as_fd(), Interest::Read));
        let streams: Vec<usize> =
            watched.iter().map(|open| poller.watch(open.stream.as_fd(), Interest::Read)).collect();
        for (stream, _) in &self.turned_away {
            poller.watch(stream.as_fd(), Interest::Read);
        }
        let first_deadline = self.turned_away.iter().map(|(_, deadline)| *deadline).min();
        let patience = first_deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            left.max(Duration::from_millis(1))
        });
        let pause = (!accepts).then_some(ACCEPT_AGAIN);
        poller.wait(patience.into_iter().chain(pause).min());
        if poller.ready(Some(wake)) {
            drain_wakes(&self.woken);
        }
        let gone = watched
            .iter()
            .zip(streams)
            .filter(|(_, index)| poller.ready(Some(*index)))
            .map(|(open, _)| Arc::clone(open))
            .collect();
        Woken { accept: poller.ready(listener), gone }
    }

    fn watched(&self) -> Vec<Arc<Open>> {
        let slots = self.shared.slots.lock();
        slots
            .iter()
            .flatten()
            .filter(|open| open.watched.load(Ordering::Acquire))
            .map(Arc::clone)
            .collect()
    }

    /// Accepts one connection; returns false if the system has no room for it.
    fn accept(&mut self) -> bool {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::WouldBlock
                    | ErrorKind::Interrupted
                    | ErrorKind::ConnectionAborted => true,
                    _ => {
                        self.complain(&error);
                        false
                    }
                };
            }
        };
        // Answers are written whole, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = Arc::new(stream);
        if !self.begin(&stream) {
            self.turn_away(stream);
        }
        true
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_AGAIN) {
            self.complained = Some(Instant::now());
            tracing::warn!("monitor: cannot accept a connection: {error}");
        }
    }

    /// Starts a connection's thread; returns false if there is no room for it.
    fn begin(&mut self, stream: &Arc<TcpStream>) -> bool {
        let open = Arc::new(Open {
            stream: Arc::clone(stream),
            cancel: Cancel::default(),
            since: Instant::now(),
            admitted: AtomicBool::new(false),
            watched: AtomicBool::new(false),
        });
        let Some(number) = self.take_slot(&open) else {
            return false;
        };
        // The slot's previous thread has released it and is about to end.
        if let Some(before) = self.threads.get_mut(number).and_then(Option::take) {
            let _ = before.join();
        }
        let slot = Slot { shared: Arc::clone(&self.shared), number };
        let thread = std::thread::Builder::new()
            .name(format!("monitor-{}", number + 1))
            .stack_size(STACK)
            .spawn(move || slot.serve(&open));
        let thread = thread
            .inspect_err(|error| tracing::warn!("monitor: no thread for a connection: {error}"));
        let has_begun = thread.is_ok();
        if let Some(slot) = self.threads.get_mut(number) {
            *slot = thread.ok();
        }
        has_begun
    }

    /// Takes a slot for a connection. If clients without the token hold all slots that they may
    /// have, ends the oldest of them once it has had time to show the token.
    fn take_slot(&self, open: &Arc<Open>) -> Option<usize> {
        let deadline = open.since + MAKING_ROOM;
        let mut slots = self.shared.slots.lock();
        loop {
            let free = slots.iter().position(Option::is_none);
            let others = || slots.iter().flatten();
            let strangers = || others().filter(|open| open.is_stranger());
            let leave_room = strangers().count() < slots.len() - slots.len() / 4;
            if let (Some(number), true) = (free, leave_room) {
                *slots.get_mut(number)? = Some(Arc::clone(open));
                return Some(number);
            }
            let one_is_ending = others().any(|open| open.cancel.is_cancelled());
            let oldest = strangers().min_by_key(|open| open.since).map(Arc::clone);
            let now = Instant::now();
            let until = match oldest {
                // A slot is about to become free.
                _ if leave_room && one_is_ending => deadline + MAKING_ROOM,
                Some(oldest) if now >= oldest.since + MAKING_ROOM => {
                    drop(slots);
                    oldest.end();
                    slots = self.shared.slots.lock();
                    continue;
                }
                Some(oldest) => oldest.since + MAKING_ROOM,
                None => deadline,
            };
            if now >= until {
                return None;
            }
            slots = self.shared.slots.wait(slots, Some(until));
        }
    }

    /// Answers that there is no room, without a thread: the answer fits into the socket's buffer.
    fn turn_away(&mut self, stream: Arc<TcpStream>) {
        let limit = self.shared.site.limits.connections;
        let response = Response::error(503, &format!("{limit} connections are open, try later"));
        let (head, body) = response::written(&response, "");
        let text = format!("{head}{body}");
        let answered = stream
            .set_nonblocking(true)
            .and_then(|()| (&*stream).write_all(text.as_bytes()))
            .and_then(|()| stream.shutdown(Shutdown::Write));
        // Closing now, with the request unread, would reset the connection before the client has
        // read the answer.
        if answered.is_ok() && self.turned_away.len() < MAX_TURNED_AWAY {
            let deadline = Instant::now() + TURNED_AWAY;
            self.turned_away.push((stream, deadline));
        }
    }

    /// Reads from clients that were turned away, and drops those that have closed or run out of
    /// time.
    fn drain_turned_away(&mut self) {
        let now = Instant::now();
        let mut chunk = [0; 4096];
        self.turned_away.retain(|(stream, deadline)| {
            let stays = match (&**stream).read(&mut chunk) {
                Ok(count) => count > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            stays && now < *deadline
        });
    }

    /// Ends all connections and joins their threads.
    fn end(self) {
        drop(self.listener);
        let deadline = Instant::now() + STOP_LIMIT;
        let open: Vec<Arc<Open>> = {
            let slots = self.shared.slots.lock();
            slots.iter().flatten().map(Arc::clone).collect()
        };
        for open in &open {
            open.end();
        }
        drop(open);
        let busy: Vec<bool> = {
            let mut slots = self.shared.slots.lock();
            while slots.iter().any(Option::is_some) && Instant::now() < deadline {
                slots = self.shared.slots.wait(slots, Some(deadline));
            }
            slots.iter().map(Option::is_some).collect()
        };
        for (thread, busy) in self.threads.into_iter().zip(busy) {
            match (thread, busy) {
                (Some(thread), false) => drop(thread.join()),
                (Some(_), true) => tracing::warn!("monitor: an answer takes too long to end"),
                (None, _) => {}
            }
        }
    }
}

/// A connection's slot, released when its thread ends, even by a panic.
struct Slot {
    shared: Arc<Shared>,
    number: usize,
}

impl Slot {
    fn serve(&self, open: &Open) {
        let shared = &self.shared;
        let connection = Connection {
            site: &shared.site,
            cancel: &open.cancel,
            admitted: &|| {
                open.admitted.store(true, Ordering::Release);
                // Locked once, so that `take_slot` cannot miss this between its check and its wait.
                drop(shared.slots.lock());
                shared.slots.notify_all();
            },
            streams: &|| {
                open.watched.store(true, Ordering::Release);
                shared.waker.wake();
            },
            wire: Wire::new(Arc::clone(&open.stream)),
        };
        connection.serve();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slot) = self.shared.slots.lock().get_mut(self.number) {
            *slot = None;
        }
        self.shared.slots.notify_all();
    }
}
