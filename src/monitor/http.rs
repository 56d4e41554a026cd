//! The server: a listener, a thread that accepts, a thread for each connection.
//!
//! The accepting thread waits in one `poll(2)` for new connections, for the end of the
//! server, and for the ends of clients that listen to a stream, which hear nothing of it
//! while nothing is sent to them. A connection beyond the limit is told so without a
//! thread. Limits: no TLS, which on loopback would protect from nobody; the address is the
//! caller's decision.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::access::{Access, Token};
use super::connection::{Connection, Limits, Site};
use super::dashboard;
use super::response::{self, Around, Response, Routes};
use crate::base::sync::Monitor;
use crate::process::descriptors::{Interest, Poller, Waker, drain_wakes};
use crate::process::files;
use crate::task::live::Cancel;

/// A connection's own needs are small; what it reads is on the heap.
const STACK: usize = 512 * 1024;
/// When no connection can be accepted (no descriptor is left), the next try is so late …
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// … and the log hears of it no more often than this.
const COMPLAIN_AGAIN: Duration = Duration::from_secs(60);
/// A client that is told that there is no room gets so long to read it …
const TURNED_AWAY: Duration = Duration::from_secs(1);
/// … and of so many at once; those that are turned away beyond are cut off.
const MAX_TURNED_AWAY: usize = 32;
/// Connections get so long to end with the server; an answer that takes longer goes on
/// alone, and nobody reads it.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, not of this machine, or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No thread or no descriptor is left.
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
    /// The connections, by the number of their thread less one.
    slots: Monitor<Vec<Option<Arc<Open>>>>,
}

/// A connection that is open.
struct Open {
    stream: Arc<TcpStream>,
    cancel: Cancel,
    /// It sends a stream: whatever arrives is the client's end.
    watched: AtomicBool,
}

impl Open {
    fn end(&self) {
        self.cancel.cancel();
        // Wakes its thread out of a read or a write; one that is closed already is fine.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Server {
    /// Starts to serve; port 0 takes any that is free.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn start(
        address: SocketAddr,
        token: Token,
        routes: Arc<dyn Routes>,
    ) -> Result<Server, StartError> {
        Server::start_within(Limits::default(), address, token, routes)
    }

    /// The same with other limits.
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
                access: Access::new(address, token),
                routes,
                page: dashboard::page(&nonce),
                nonce,
                limits,
            },
            stopping: AtomicBool::new(false),
            waker,
            slots: Monitor::new(vec![None; limits.connections]),
        });
        let acceptor = Acceptor {
            shared: Arc::clone(&shared),
            listener,
            woken,
            threads: (0..limits.connections).map(|_| None).collect(),
            turned_away: Vec::new(),
            complained: None,
        };
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || acceptor.run())?;
        Ok(Server {
            shared,
            address,
            acceptor: Some(thread),
        })
    }

    /// Where it listens.
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

/// What the accepting thread works with.
struct Acceptor {
    shared: Arc<Shared>,
    listener: TcpListener,
    woken: OwnedFd,
    threads: Vec<Option<JoinHandle<()>>>,
    turned_away: Vec<(Arc<TcpStream>, Instant)>,
    /// When it was logged last that nothing can be accepted.
    complained: Option<Instant>,
}

/// What a wait was ended by.
struct Woken {
    accept: bool,
    /// Connections whose streams nobody reads any more.
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
            self.hear_out();
            // After a failure a pause: the poll would return at once again.
            accepts = !woken.accept || self.accept();
        }
        self.end();
    }

    /// Waits for a connection (unless accepting has just failed), a wake-up, or the end of
    /// a client.
    fn wait(&self, accepts: bool) -> Woken {
        let watched = self.watched();
        let mut poller = Poller::default();
        let wake = poller.watch(self.woken.as_fd(), Interest::Read);
        let listener = accepts.then(|| poller.watch(self.listener.as_fd(), Interest::Read));
        let streams: Vec<usize> = watched
            .iter()
            .map(|open| poller.watch(open.stream.as_fd(), Interest::Read))
            .collect();
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
            .filter(|(_, place)| poller.ready(Some(*place)))
            .map(|(open, _)| Arc::clone(open))
            .collect();
        Woken {
            accept: poller.ready(listener),
            gone,
        }
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

    /// Accepts one connection; false: the system has no room for one.
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
        // Answers are written whole; waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = Arc::new(stream);
        if !self.begin(&stream) {
            self.turn_away(stream);
        }
        true
    }

    fn complain(&mut self, error: &io::Error) {
        if self
            .complained
            .is_none_or(|last| last.elapsed() >= COMPLAIN_AGAIN)
        {
            self.complained = Some(Instant::now());
            tracing::warn!("monitor: cannot accept a connection: {error}");
        }
    }

    /// Starts a connection's thread; false: there is no room for it.
    fn begin(&mut self, stream: &Arc<TcpStream>) -> bool {
        let open = Arc::new(Open {
            stream: Arc::clone(stream),
            cancel: Cancel::default(),
            watched: AtomicBool::new(false),
        });
        let Some(number) = self.take_slot(&open) else {
            return false;
        };
        // Its last thread has given the place back and is at its end.
        if let Some(before) = self.threads.get_mut(number).and_then(Option::take) {
            let _ = before.join();
        }
        let slot = Slot {
            shared: Arc::clone(&self.shared),
            number,
        };
        let thread = std::thread::Builder::new()
            .name(format!("monitor-{}", number + 1))
            .stack_size(STACK)
            .spawn(move || slot.serve(&open));
        let thread = thread
            .inspect_err(|error| tracing::warn!("monitor: no thread for a connection: {error}"));
        let has_begun = thread.is_ok();
        if let Some(place) = self.threads.get_mut(number) {
            *place = thread.ok();
        }
        has_begun
    }

    fn take_slot(&self, open: &Arc<Open>) -> Option<usize> {
        let mut slots = self.shared.slots.lock();
        let number = slots.iter().position(Option::is_none)?;
        *slots.get_mut(number)? = Some(Arc::clone(open));
        Some(number)
    }

    /// Tells a client that there is no room, without a thread: the answer fits into the
    /// socket's buffer.
    fn turn_away(&mut self, stream: Arc<TcpStream>) {
        let most = self.shared.site.limits.connections;
        let response = Response::error(503, &format!("{most} connections are open, try later"));
        let (head, body) = response::written(&response, Around::default());
        let text = format!("{head}{body}");
        let told = stream
            .set_nonblocking(true)
            .and_then(|()| (&*stream).write_all(text.as_bytes()))
            .and_then(|()| stream.shutdown(Shutdown::Write));
        // Closing now would take the answer back, since the request has not been read.
        if told.is_ok() && self.turned_away.len() < MAX_TURNED_AWAY {
            let deadline = Instant::now() + TURNED_AWAY;
            self.turned_away.push((stream, deadline));
        }
    }

    /// Reads what those say who were turned away, until they go or have had their time.
    fn hear_out(&mut self) {
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

/// A connection's place among the connections, given back when its thread ends, also by a
/// panic.
struct Slot {
    shared: Arc<Shared>,
    number: usize,
}

impl Slot {
    fn serve(&self, open: &Open) {
        let watch = || {
            open.watched.store(true, Ordering::Release);
            self.shared.waker.wake();
        };
        let stream = Arc::clone(&open.stream);
        Connection::new(&self.shared.site, stream, &open.cancel, &watch).serve();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(place) = self.shared.slots.lock().get_mut(self.number) {
            *place = None;
        }
        self.shared.slots.notify_all();
    }
}
