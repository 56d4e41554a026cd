//! A connection: a `reader` thread that hands over frames, and a `writer` thread that writes what is
//! queued for the client.
//!
//! A sender holds an [`Outbound`], a clonable handle to the connection's [`Outbox`]. One thread at a
//! time writes, so frames never mix. [`Transport::ended`] reports when either side of the connection
//! ends. After the output has ended, all senders get [`Closed`] and none of them blocks. Limits:
//! messages are bytes here; requests and their answers are matched elsewhere.
//!
//! A read from stdin cannot be cancelled. When a signal ends the server while its client keeps
//! stdin open, the reader thread stays in `read(2)` until the process exits: [`Transport::finish`]
//! does not wait for it, and no other code may.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::framing::{Frame, FrameError, Framing};
use super::outbox::{Closed, DirectWrite, OnWritten, Outbox};
use super::reader::FrameReader;

/// How many messages are queued for a client that reads slowly.
const MAX_QUEUED: usize = 1024;

/// One for each of the two threads, so that reporting an end never blocks.
const ENDS: usize = 2;

/// What ended one side of the connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamEnd {
    /// The client closed the input.
    #[error("end of input")]
    Input,
    /// The input can no longer be read.
    #[error("cannot read from the client: {0}")]
    InputFailed(#[source] io::Error),
    /// The output can no longer be written, usually because the client is gone (EPIPE).
    #[error("cannot write to the client: {0}")]
    OutputFailed(#[source] io::Error),
}

/// The outcome of [`Transport::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    /// All queued messages have been written.
    Flushed,
    /// The output had failed before.
    ClientGone,
    /// The client did not read in time; the rest stays unsent.
    GaveUp,
}

/// Sends messages to the client; cheap to clone, for any thread.
#[derive(Clone)]
pub(crate) struct Outbound(Arc<Outbox>);

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbound")
    }
}

impl Outbound {
    /// Whether the queue is full because the client does not read.
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// How the client frames its messages, once it has sent one.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.0.framing()
    }

    /// Queues one JSON message, without framing. Waits while the queue is full because the client
    /// does not read.
    ///
    /// # Errors
    /// When the client is gone or the transport finishes, even during the wait.
    pub(crate) fn send(&self, message: Vec<u8>) -> Result<(), Closed> {
        self.send_and(message, None)
    }

    /// As [`Outbound::send`], and calls `on_written` once the message has been written. If the write
    /// fails, `on_written` is dropped.
    ///
    /// # Errors
    /// As [`Outbound::send`].
    pub(crate) fn send_and(
        &self,
        message: Vec<u8>,
        on_written: Option<OnWritten>,
    ) -> Result<(), Closed> {
        self.0.queue(message, on_written)
    }

    /// As [`Outbound::send_and`], but if nothing else is to be written, the caller gets the message
    /// back to write it. Not for the reader thread, since writing waits whenever the client does not
    /// read.
    ///
    /// # Errors
    /// As [`Outbound::send`].
    pub(crate) fn hand_over(
        &self,
        message: Vec<u8>,
        on_written: Option<OnWritten>,
    ) -> Result<Option<DirectWrite>, Closed> {
        self.0.hand_over(message, on_written)
    }
}

/// Takes no more messages once it is dropped.
struct Closing(Arc<Outbox>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// A running connection. If it is dropped without [`finish`](Self::finish), what is queued is still
/// written, and the reader thread ends with the input.
pub(crate) struct Transport {
    outbound: Outbound,
    ended: Receiver<StreamEnd>,
    reader: JoinHandle<()>,
    /// Returns whether everything was written.
    writer: JoinHandle<bool>,
    /// Disconnected when the writer ends.
    writer_done: Receiver<Infallible>,
    closing: Closing,
}

impl Transport {
    /// Starts both threads. A frame of more than `frame_limit` bytes is an error. `handler` gets each
    /// frame on the reader thread, so it must return soon. If it panics, the panic is logged and the
    /// next frame is read.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start<H>(
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
        frame_limit: usize,
        handler: H,
    ) -> io::Result<Transport>
    where
        H: FnMut(&Outbound, Result<Frame, FrameError>) + Send + 'static,
    {
        Transport::start_on(FrameReader::new(input, frame_limit), output, handler)
    }

    /// The same with a reader of frames, whose client may have sent some before.
    ///
    /// # Errors
    /// As [`Transport::start`].
    pub(crate) fn start_on<B, H>(
        frames: FrameReader<B>,
        output: Box<dyn Write + Send>,
        handler: H,
    ) -> io::Result<Transport>
    where
        B: BufRead + Send + 'static,
        H: FnMut(&Outbound, Result<Frame, FrameError>) + Send + 'static,
    {
        let (writer_running, writer_done) = bounded::<Infallible>(0);
        let (end, ended) = bounded(ENDS);
        let outbox = Arc::new(Outbox::new(output, MAX_QUEUED));

        let writer = thread::Builder::new().name("writer".to_owned()).spawn({
            let end = end.clone();
            let outbox = Arc::clone(&outbox);
            move || {
                let _running = writer_running;
                let written = outbox.write_queued();
                let flushed = written.is_ok();
                if let Err(error) = written {
                    report(&end, StreamEnd::OutputFailed(error));
                }
                flushed
            }
        })?;
        let closing = Closing(Arc::clone(&outbox));
        let outbound = Outbound(outbox);
        let reader = thread::Builder::new().name("reader".to_owned()).spawn({
            let outbound = outbound.clone();
            move || {
                if let Some(known) = frames.framing() {
                    outbound.0.set_framing(known);
                }
                report(&end, read_frames(frames, &outbound, handler))
            }
        })?;

        Ok(Transport { outbound, ended, reader, writer, writer_done, closing })
    }

    /// The handle for sending.
    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Receives one message when the input ends and one when the output fails.
    pub(crate) fn ended(&self) -> &Receiver<StreamEnd> {
        &self.ended
    }

    /// Writes the queued messages within `limit`, and closes the queue: all senders, even waiting
    /// ones, get [`Closed`] from now on. Frames read later are still handed over.
    pub(crate) fn finish(self, limit: Duration) -> Finished {
        let deadline = Instant::now() + limit;
        drop(self.closing);
        if self.reader.is_finished() && self.reader.join().is_err() {
            tracing::error!("the reader thread panicked");
        }
        match self.writer_done.recv_deadline(deadline) {
            Ok(never) => match never {},
            // The thread that writes is blocked in the kernel until the process exits.
            Err(RecvTimeoutError::Timeout) => Finished::GaveUp,
            Err(RecvTimeoutError::Disconnected) => match self.writer.join() {
                Ok(true) => Finished::Flushed,
                Ok(false) => Finished::ClientGone,
                Err(_) => {
                    tracing::error!("the writer thread panicked");
                    Finished::ClientGone
                }
            },
        }
    }
}

fn read_frames<B, H>(mut frames: FrameReader<B>, outbound: &Outbound, mut handler: H) -> StreamEnd
where
    B: BufRead,
    H: FnMut(&Outbound, Result<Frame, FrameError>),
{
    loop {
        let received = match frames.next_frame() {
            Ok(Some(received)) => received,
            Ok(None) => return StreamEnd::Input,
            Err(error) => return StreamEnd::InputFailed(error),
        };
        // Before the handler, so that the first answer already has the right framing.
        if let Some(detected) = frames.framing() {
            outbound.0.set_framing(detected);
        }
        // A panic may leave the handler's state inconsistent, but a wrong answer later is better
        // than a server that no longer reads.
        if catch_unwind(AssertUnwindSafe(|| handler(outbound, received))).is_err() {
            tracing::error!("the handler of a frame panicked; reading continues");
        }
    }
}

fn report(end: &Sender<StreamEnd>, ended: StreamEnd) {
    tracing::debug!("{ended}");
    // Fails only if the transport has been dropped, so that nothing waits for its end.
    let _ = end.try_send(ended);
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor, ErrorKind, PipeReader, PipeWriter};

    use super::*;
    use crate::protocol::framing::MAX_FRAME_BYTES;

    /// Long enough for any machine; only a failing test waits for it.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The client's ends of a connection within the process.
    #[derive(Debug)]
    pub(crate) struct Peer {
        /// The server's input; dropping it ends the input.
        pub to_server: PipeWriter,
        /// The server's output; dropping it makes the server's next write fail.
        pub from_server: PipeReader,
    }

    impl Transport {
        /// Starts on two pipes and returns their other ends. Real pipes show the kernel's behaviour
        /// when full, closed or broken.
        pub(crate) fn memory<H>(handler: H) -> io::Result<(Transport, Peer)>
        where
            H: FnMut(&Outbound, Result<Frame, FrameError>) + Send + 'static,
        {
            let (input, to_server) = io::pipe()?;
            let (from_server, output) = io::pipe()?;
            let transport =
                Transport::start(Box::new(input), Box::new(output), MAX_FRAME_BYTES, handler)?;
            let peer = Peer { to_server, from_server };
            Ok((transport, peer))
        }
    }

    fn echo(outbound: &Outbound, received: Result<Frame, FrameError>) {
        let answer = received.unwrap_or_else(|error| error.to_string().into_bytes());
        let _ = outbound.send(answer);
    }

    fn read_to_end(mut input: impl Read) -> String {
        let mut text = String::new();
        input.read_to_string(&mut text).expect("a readable pipe");
        text
    }

    #[test]
    fn frames_are_answered_in_order_and_in_their_framing() {
        for (input, output) in [
            ("{1}\r\n\n{2}\n{3}", "{1}\n{2}\n{3}\n"),
            (
                "Content-Length: 3\n\n{1}Content-Length: 4\r\n\r\n{\n2}",
                "Content-Length: 3\r\n\r\n{1}Content-Length: 4\r\n\r\n{\n2}",
            ),
            (
                "Content-Length: x\r\n\r\n",
                "Content-Length: 61\r\n\r\nbad Content-Length `x`: a decimal number of bytes is expected",
            ),
        ] {
            let (transport, mut peer) = Transport::memory(echo).expect("pipes");
            peer.to_server.write_all(input.as_bytes()).expect("room");
            drop(peer.to_server);
            let ended = transport.ended().recv_timeout(PATIENCE);
            assert!(matches!(ended, Ok(StreamEnd::Input)), "{ended:?}");
            assert_eq!(transport.finish(PATIENCE), Finished::Flushed);
            assert_eq!(read_to_end(peer.from_server), output);
        }
    }

    #[test]
    fn the_threads_have_names() {
        let (transport, mut peer) = Transport::memory(|outbound, _| {
            let name = thread::current().name().unwrap_or_default().to_owned();
            let _ = outbound.send(name.into_bytes());
        })
        .expect("pipes");
        peer.to_server.write_all(b"{}\n").expect("room");
        let mut line = String::new();
        let mut from_server = BufReader::new(&peer.from_server);
        from_server.read_line(&mut line).expect("a readable pipe");
        assert_eq!(line, "reader\n");
        assert_eq!(transport.writer.thread().name(), Some("writer"));
    }

    #[test]
    fn an_answer_leaves_while_the_input_stays_open_and_finish_does_not_wait_for_it() {
        let (transport, mut peer) = Transport::memory(echo).expect("pipes");
        peer.to_server.write_all(b"{1}\n").expect("room");
        let mut line = String::new();
        let mut from_server = BufReader::new(&peer.from_server);
        from_server.read_line(&mut line).expect("a readable pipe");
        assert_eq!(line, "{1}\n");

        let outbound = transport.outbound().clone();
        outbound.send(b"{2}".to_vec()).expect("an open connection");
        assert_eq!(transport.finish(PATIENCE), Finished::Flushed);
        line.clear();
        from_server.read_line(&mut line).expect("a readable pipe");
        assert_eq!(line, "{2}\n");
        assert_eq!(outbound.send(b"{3}".to_vec()), Err(Closed));
        drop(peer.to_server);
    }

    #[test]
    fn messages_of_many_threads_do_not_mix() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        let reader = thread::spawn(move || read_to_end(peer.from_server));
        let senders: Vec<_> = (b'a'..b'i')
            .map(|letter| {
                let outbound = transport.outbound().clone();
                thread::spawn(move || (0..100).try_for_each(|_| outbound.send(vec![letter; 5000])))
            })
            .collect();
        for sender in senders {
            assert_eq!(sender.join().expect("no panic"), Ok(()));
        }
        assert_eq!(transport.finish(PATIENCE), Finished::Flushed);
        let text = reader.join().expect("no panic");
        assert_eq!(text.lines().count(), 800);
        for line in text.lines() {
            let first = line.get(..1).unwrap_or_default();
            assert_eq!(line, first.repeat(5000));
        }
    }

    #[test]
    fn what_is_sent_while_another_thread_writes_follows_in_order() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        let outbound = transport.outbound().clone();
        let first = outbound.hand_over(b"{1}".to_vec(), None).expect("open").expect("idle");
        outbound.send(b"{2}".to_vec()).expect("open");
        let third = outbound.hand_over(b"{3}".to_vec(), None).expect("open");
        assert!(third.is_none(), "it has to wait for {{2}}");
        first.write();
        assert_eq!(transport.finish(PATIENCE), Finished::Flushed);
        drop(peer.to_server);
        assert_eq!(read_to_end(peer.from_server), "{1}\n{2}\n{3}\n");
    }

    #[test]
    fn finishing_waits_for_a_thread_that_writes() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        let outbound = transport.outbound().clone();
        let (written, is_written) = bounded(1);
        let on_written = Box::new(move || written.send(()).expect("a test that waits"));
        let last = outbound.hand_over(b"{1}".to_vec(), Some(on_written)).expect("open");
        let finishing = thread::spawn(move || transport.finish(PATIENCE));
        while outbound.send(b"{2}".to_vec()).is_ok() {}
        last.expect("idle").write();
        is_written.recv_timeout(PATIENCE).expect("written");
        assert_eq!(finishing.join().expect("no panic"), Finished::Flushed);
        drop(peer.to_server);
        assert!(read_to_end(peer.from_server).starts_with("{1}\n"));
    }

    #[test]
    fn a_panic_after_a_write_ends_the_connection_and_drops_what_is_queued() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        let outbound = transport.outbound().clone();
        let first = outbound.hand_over(b"{1}".to_vec(), None).expect("open").expect("idle");
        let panics: OnWritten = Box::new(|| panic!("wanted by the test"));
        outbound.send_and(b"{2}".to_vec(), Some(panics)).expect("open");
        let (written, is_written) = bounded(1);
        let reports = Box::new(move || written.send(()).expect("a test that waits"));
        outbound.send_and(b"{3}".to_vec(), Some(reports)).expect("open");
        first.write();
        assert_eq!(is_written.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
        drop(peer.to_server);
        assert_eq!(read_to_end(peer.from_server), "{1}\n{2}\n");
        assert_eq!(outbound.send(b"{4}".to_vec()), Err(Closed));
        assert_eq!(transport.finish(PATIENCE), Finished::ClientGone);
    }

    #[test]
    fn a_thread_that_finds_the_client_gone_closes_the_connection() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        drop(peer.from_server);
        let outbound = transport.outbound().clone();
        outbound.hand_over(b"{1}".to_vec(), None).expect("open").expect("idle").write();
        let ended = transport.ended().recv_timeout(PATIENCE);
        assert!(matches!(&ended, Ok(StreamEnd::OutputFailed(_))), "{ended:?}");
        assert!(outbound.hand_over(b"{2}".to_vec(), None).is_err());
        assert_eq!(transport.finish(PATIENCE), Finished::ClientGone);
        drop(peer.to_server);
    }

    #[test]
    fn a_client_that_is_gone_is_reported_once_and_blocks_no_sender() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        drop(peer.from_server);
        let outbound = transport.outbound().clone();
        while outbound.send(vec![b'x'; 100_000]).is_ok() {}
        let ended = transport.ended().recv_timeout(PATIENCE);
        assert!(
            matches!(&ended, Ok(StreamEnd::OutputFailed(error)) if error.kind() == ErrorKind::BrokenPipe),
            "{ended:?}"
        );
        assert_eq!(outbound.send(b"{}".to_vec()), Err(Closed));
        assert!(transport.ended().is_empty());
        assert_eq!(transport.finish(PATIENCE), Finished::ClientGone);
        drop(peer.to_server);
    }

    #[test]
    fn a_client_that_does_not_read_is_given_up_after_the_limit() {
        let (transport, peer) = Transport::memory(echo).expect("pipes");
        let outbound = transport.outbound().clone();
        outbound.send(vec![b'x'; 1 << 20]).expect("an open connection");
        let sender = thread::spawn(move || while outbound.send(b"{}".to_vec()).is_ok() {});
        assert_eq!(transport.finish(Duration::from_millis(20)), Finished::GaveUp);
        sender.join().expect("no panic");
        drop(peer);
    }

    #[test]
    fn a_panic_of_the_handler_costs_that_frame_only() {
        let (transport, mut peer) = Transport::memory(|outbound, received| {
            if matches!(&received, Ok(frame) if frame == b"boom") {
                panic!("wanted by the test");
            }
            echo(outbound, received);
        })
        .expect("pipes");
        peer.to_server.write_all(b"{1}\nboom\n{2}\n").expect("room");
        drop(peer.to_server);
        let ended = transport.ended().recv_timeout(PATIENCE);
        assert!(matches!(ended, Ok(StreamEnd::Input)), "{ended:?}");
        assert_eq!(transport.finish(PATIENCE), Finished::Flushed);
        assert_eq!(read_to_end(peer.from_server), "{1}\n{2}\n");
    }

    #[test]
    fn an_input_that_fails_is_reported_after_the_frames_before() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::ConnectionReset.into())
            }
        }
        let input = Box::new(Cursor::new(b"{1}\n{2").chain(Broken));
        let (seen, frames) = bounded(2);
        let transport =
            Transport::start(input, Box::new(io::sink()), MAX_FRAME_BYTES, move |_, received| {
                let _ = seen.send(received);
            })
            .expect("threads");
        let ended = transport.ended().recv_timeout(PATIENCE);
        assert!(
            matches!(&ended, Ok(StreamEnd::InputFailed(error)) if error.kind() == ErrorKind::ConnectionReset),
            "{ended:?}"
        );
        assert_eq!(frames.iter().collect::<Vec<_>>(), [Ok(b"{1}".to_vec())]);
    }
}
