//! The control socket, through which the user's other processes reach this process's tasks, with
//! the same messages, tools and limits as on stdin.
//!
//! It starts no command, so `zsh` and `secret_env` are refused. Connections of other users are closed
//! unread, and so are those of processes that a sandbox confines more than this one.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, select};
use parking_lot::Mutex;

use super::access::Access;
use super::dispatch::Tools;
use super::server::Server;
use crate::process::confinement;
use crate::process::local_socket::{self, LocalListener, PeerProcess};
use crate::protocol::message;
use crate::protocol::transport::{Outbound, Transport};
use crate::task::journal::CONTROL_SOCKET;
use crate::text::foreign::ShowPath;

/// The maximum number of connections. A further one replaces the connection that has been idle
/// longest, otherwise the oldest stream of events, whose client reconnects.
const MAX_CONNECTIONS: usize = 16;
/// A connection that sent a message this recently is not yet idle.
const RECENT: Duration = Duration::from_secs(1);
/// A connection without a call is closed after this time.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// A client that does not read an answer for this long is dropped.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// How long calls may take to end after their client has gone.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// The error code for a refused connection.
const BUSY: i64 = -32000;
/// The pause after an accept that failed because no descriptors are left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// These threads need little stack: their buffers are on the heap.
const STACK: usize = 256 * 1024;

/// A running control socket.
pub(crate) struct ControlSocket {
    shared: Arc<Shared>,
}

/// What the accepting thread and the connections share.
struct Shared {
    tools: Arc<Tools>,
    /// The maximum size of a message in bytes.
    message_limit: usize,
    open: Mutex<Vec<Arc<Connection>>>,
    /// When the newest of the closed connections that had made a request was closed.
    last_closed: Mutex<Instant>,
}

struct Connection {
    stream: UnixStream,
    server: Arc<Server>,
    opened: Instant,
    last_message: Mutex<Instant>,
}

impl ControlSocket {
    /// Serves the tools on the control socket, which is created once `directory` receives the path
    /// of this process's directory. The thread runs until the process exits.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        tools: Arc<Tools>,
        message_limit: usize,
        directory: Receiver<PathBuf>,
    ) -> io::Result<ControlSocket> {
        let listener = move || {
            let directory = directory.recv().ok()?;
            let bound = Self::bind(&directory);
            bound
                .inspect_err(|error| {
                    tracing::warn!("{error}: other processes cannot reach the tasks of this one")
                })
                .ok()
        };
        Self::run(tools, message_limit, listener)
    }

    /// Serves the tools on a socket that [`ControlSocket::bind`] has made.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn serve(
        tools: Arc<Tools>,
        message_limit: usize,
        listener: LocalListener,
    ) -> io::Result<ControlSocket> {
        Self::run(tools, message_limit, move || Some(listener))
    }

    /// Makes the socket in this process's directory.
    ///
    /// # Errors
    /// As [`LocalListener::bind`]; the text names the directory.
    pub(crate) fn bind(directory: &Path) -> Result<LocalListener, String> {
        LocalListener::bind(directory, CONTROL_SOCKET)
            .map_err(|error| format!("no control socket in {}: {error}", directory.shown()))
    }

    fn run(
        tools: Arc<Tools>,
        message_limit: usize,
        listener: impl FnOnce() -> Option<LocalListener> + Send + 'static,
    ) -> io::Result<ControlSocket> {
        let shared = Arc::new(Shared {
            tools,
            message_limit,
            open: Mutex::default(),
            last_closed: Mutex::new(Instant::now()),
        });
        let accepting = Arc::clone(&shared);
        let run = move || {
            if let Some(listener) = listener() {
                accepting.accept(&listener);
            }
        };
        std::thread::Builder::new().name("control".to_owned()).stack_size(STACK).spawn(run)?;
        Ok(ControlSocket { shared })
    }

    /// Notes that a connection that did not come through the socket has been closed.
    pub(crate) fn note_closed(&self) {
        *self.shared.last_closed.lock() = Instant::now();
    }

    /// Since when no client that has made a valid request has been connected; `None` while one is.
    pub(crate) fn unconnected_since(&self) -> Option<Instant> {
        let open = self.shared.open.lock();
        let is_used = open.iter().any(|connection| connection.server.has_requested());
        (!is_used).then(|| *self.shared.last_closed.lock())
    }

    /// Waits until the results of all calls have reached their readers, for at most `limit`.
    pub(crate) fn finish(self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let open = self.shared.open.lock().clone();
        for connection in open {
            let rest = deadline.saturating_duration_since(Instant::now());
            connection.server.await_delivered(rest);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &LocalListener) {
        loop {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!("cannot accept on the control socket: {error}");
                    std::thread::sleep(ACCEPT_AGAIN);
                    continue;
                }
            };
            if !peer.is_trusted() {
                tracing::warn!("user {} is refused at the control socket", peer.uid);
                continue;
            }
            if let Some(reason) = self.refusal(peer) {
                let text = format!(
                    "the control socket is closed to sandboxed processes ({reason}): use the shell that \
                     the server has outside of the sandbox"
                );
                tracing::warn!("{peer}: {text}");
                refuse(&stream, &text);
                continue;
            }
            if !self.make_room() {
                let text = format!(
                    "process {} is busy: all {MAX_CONNECTIONS} connections of its control socket have calls; try again when one is over",
                    std::process::id()
                );
                tracing::warn!("{text}");
                refuse(&stream, &text);
                continue;
            }
            if let Err(error) = self.open(stream, peer) {
                tracing::warn!("cannot serve a connection of the control socket: {error}");
            }
        }
    }

    /// Why a process may not even read, if that is so: a sandbox confines it. What it was not given to
    /// read may be in the output of others.
    fn refusal(&self, peer: PeerProcess) -> Option<&'static str> {
        // Elsewhere than on Linux.
        peer.pid?;
        let confined = || confinement::confinement(peer.process);
        confined().or_else(|| self.tools.supervisor.sandboxed_origin(peer.process?))
    }

    /// Makes room for a further connection if necessary, by ending the one that has been idle
    /// longest or, failing that, the oldest stream of events. Returns whether there is room.
    fn make_room(&self) -> bool {
        let mut open = self.open.lock();
        if open.len() < MAX_CONNECTIONS {
            return true;
        }
        let numbered = open.iter().enumerate();
        let evictable =
            numbered.filter_map(|(index, connection)| Some((connection.eviction_rank()?, index)));
        let Some((_, index)) = evictable.min() else {
            return false;
        };
        open.swap_remove(index).end();
        true
    }

    fn open(self: &Arc<Self>, stream: UnixStream, peer: PeerProcess) -> io::Result<()> {
        local_socket::limit_writes(&stream, WRITE_LIMIT)?;
        let access = Access::ControlSocket(peer);
        let connection = Arc::new(Connection {
            stream,
            server: Arc::new(Server::new(Arc::clone(&self.tools), access)),
            opened: Instant::now(),
            last_message: Mutex::new(Instant::now()),
        });
        let (shared, served) = (Arc::clone(self), Arc::clone(&connection));
        let run = move || {
            if let Err(error) = served.serve(shared.message_limit) {
                tracing::warn!("cannot serve a connection of the control socket: {error}");
            }
            let mut open = shared.open.lock();
            open.retain(|open| !Arc::ptr_eq(open, &served));
            if served.server.has_requested() {
                *shared.last_closed.lock() = Instant::now();
            }
        };
        self.open.lock().push(Arc::clone(&connection));
        let started = std::thread::Builder::new()
            .name("control-call".to_owned())
            .stack_size(STACK)
            .spawn(run);
        if let Err(error) = started {
            self.open.lock().retain(|open| !Arc::ptr_eq(open, &connection));
            return Err(error);
        }
        Ok(())
    }
}

/// Answers a connection that is not served.
fn refuse(mut stream: &UnixStream, text: &str) {
    let mut refusal = message::error(None, BUSY, text, None);
    refusal.push(b'\n');
    // A new connection has room for this, and its client may be gone.
    let _ = stream.write_all(&refusal);
}

impl Connection {
    /// The order in which connections are ended to make room, lowest first: idle ones, streams of
    /// events, new ones; within each group the oldest. `None` for a connection with a call.
    fn eviction_rank(&self) -> Option<(u8, Instant)> {
        let last_message = *self.last_message.lock();
        match self.server.is_busy() {
            true => self.server.streams_events().then_some((1, self.opened)),
            false if last_message.elapsed() >= RECENT => Some((0, last_message)),
            false => Some((2, last_message)),
        }
    }

    /// Serves until the client closes the connection, does not read, or is idle for too long.
    fn serve(self: &Arc<Self>, message_limit: usize) -> io::Result<()> {
        let receiver = Arc::clone(self);
        let receive = move |outbound: &Outbound, received| {
            *receiver.last_message.lock() = Instant::now();
            receiver.server.receive(outbound, received);
        };
        let input = Box::new(self.stream.try_clone()?);
        let output = Box::new(self.stream.try_clone()?);
        let transport = Transport::start(input, output, message_limit, receive)?;
        loop {
            let idle = self.last_message.lock().elapsed();
            let rest = IDLE_LIMIT.saturating_sub(idle);
            if rest.is_zero() && !self.server.is_busy() {
                break;
            }
            let check = if rest.is_zero() { IDLE_LIMIT } else { rest };
            select! {
                recv(transport.ended()) -> _ => break,
                recv(after(check)) -> _ => {}
            }
        }
        self.server.cancel_calls();
        self.end();
        self.server.await_calls(LAST_CALLS);
        self.server.take_back_undelivered();
        transport.finish(Duration::ZERO);
        Ok(())
    }

    /// Closes the connection, which ends its thread.
    fn end(&self) {
        // Fails only if the client has closed it already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
