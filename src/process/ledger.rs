//! What a server must leave to the one that its guard starts in its place: what it has read, which
//! requests it has not answered, and who its client is.
//!
//! It lies in memory that the guard shares with both by fork, on no disk. The reader's buffer is
//! part of it, so that nothing is copied for it. Each change is one store, and the order of
//! the stores is such that a server may be killed between any two:
//!
//! - Behind what was read there are only NULs, which no JSON contains: what the kernel had copied when
//!   the server was killed in the middle of a read ends at the first.
//! - A frame is taken by noting its request, then clearing its bytes, then moving the position. A
//!   noted request whose frame is still there was not taken: it is read again.
//!
//! Limits: if a server is killed in the system call that writes the last two bytes of an answer to a
//! client that is behind, the answer comes twice. Frames beyond [`INPUT_BYTES`], requests with ids
//! beyond [`ID_BYTES`] and more than [`SLOTS`] requests at once are not kept.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::SystemTime;

use super::descriptors::{self, BlockingFile};

/// How many requests are kept at once.
const SLOTS: usize = 256;
/// The longest id of a request, in bytes of JSON.
const ID_BYTES: usize = 128;
/// The longest frame of a request that the next server answers itself.
const FRAME_BYTES: usize = 1024;
/// The longest frame of the handshake.
const HELLO_BYTES: usize = 64 * 1024;
/// The most bytes that are read and not taken.
const INPUT_BYTES: usize = 64 * 1024 * 1024;
/// How many bytes are read at once: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;
/// From this many bytes on their memory is returned instead of cleared.
const LARGE: usize = 256 * 1024;
/// How many restarts are remembered.
const RESTARTS: usize = 16;
/// The longest cause of one, in bytes.
const CAUSE_BYTES: usize = 48;
/// Letters of a task's id.
const TASK_BYTES: usize = 8;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A call of a tool, which is not repeated.
    Call { stateless: bool },
    /// What the next server can answer as well.
    Repeatable,
    /// The handshake, which describes the client.
    Handshake,
}

impl RequestKind {
    fn code(self) -> u8 {
        match self {
            RequestKind::Call { stateless: false } => 1,
            RequestKind::Call { stateless: true } => 2,
            RequestKind::Repeatable => 3,
            RequestKind::Handshake => 4,
        }
    }

    fn from_code(code: u8) -> Option<RequestKind> {
        [
            RequestKind::Call { stateless: false },
            RequestKind::Call { stateless: true },
            RequestKind::Repeatable,
            RequestKind::Handshake,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }
}

/// The states of a slot.
const FREE: u8 = 0;
/// Noted; its frame may not have been taken.
const NOTED: u8 = 1;
const TAKEN: u8 = 2;

/// A message to the client is being written.
const WRITING: u8 = 1;
/// The end of its line is in the pipe, or was sent.
const TAIL: u8 = 2;
/// The last message was written.
const WRITTEN: u8 = 3;
/// The end of a message on a line.
const LINE_END: &[u8] = b"}\n";
/// The most bytes that are sent through the pipe: a page, which moves as a whole.
const TAIL_BYTES: usize = 4096;
/// How much of a message tells whose answer it is.
const HEAD_BYTES: usize = 256;

/// Nothing has been read yet.
const UNKNOWN_FRAMING: u8 = 0;

#[repr(C)]
struct Slot {
    state: AtomicU8,
    kind: u8,
    /// 1 once the task's id is set.
    task_set: AtomicU8,
    id_length: u8,
    frame_length: u32,
    /// Where its frame began.
    begins: u64,
    task: [u8; TASK_BYTES],
    id: [u8; ID_BYTES],
    frame: [u8; FRAME_BYTES],
}

#[repr(C)]
struct Restarted {
    /// Unix seconds, as bits.
    at: u64,
    length: u8,
    cause: [u8; CAUSE_BYTES],
}

#[repr(C)]
struct Shared {
    /// Where what is not taken begins, in the upper half, and where what was read ends.
    position: AtomicU64,
    framing: AtomicU8,
    serves_stateless: AtomicU8,
    /// How far the last message to the client has come.
    phase: AtomicU8,
    /// Whether a part of the input is no longer here.
    lost: AtomicU8,
    hello_length: AtomicU32,
    head_length: AtomicU32,
    restarts: AtomicU32,
    restarted: [Restarted; RESTARTS],
    slots: [Slot; SLOTS],
    hello: [u8; HELLO_BYTES],
    /// The beginning of the last message to the client.
    head: [u8; HEAD_BYTES],
}

/// Where the input lies.
const INPUT_AT: usize = size_of::<Shared>().next_multiple_of(4096);
const ALL_BYTES: usize = INPUT_AT + INPUT_BYTES;

/// The shared memory of a guard and its server.
#[derive(Debug)]
pub(crate) struct Ledger {
    base: *mut u8,
    /// How far the reader has come; of this process alone.
    read_at: AtomicU64,
    tail: Tail,
    /// Whether this process replaces a server that was killed.
    inherits: AtomicBool,
}

// SAFETY: what several threads use at a time are atomics; a slot's other fields belong to the thread
// that has made it not free, and the input to the reader's.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

/// Whether a message that begins like this answers the request of this id, as `message::response`
/// writes it.
fn is_answer_to(head: &[u8], id: &[u8]) -> bool {
    let rest =
        head.strip_prefix(br#"{"jsonrpc":"2.0","id":"#).and_then(|rest| rest.strip_prefix(id));
    rest.is_some_and(|rest| rest.first() == Some(&b','))
}

/// A restart of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restart {
    /// When, in Unix seconds.
    pub(crate) at: f64,
    /// How the server before had ended: `killed by SIGKILL`.
    pub(crate) cause: String,
}

/// A request that the server before has not answered.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// Its id as JSON.
    pub(crate) id: String,
    pub(crate) kind: RequestKind,
    /// The frame of one that the next server answers itself.
    pub(crate) frame: Option<Vec<u8>>,
    /// The task that it has started.
    pub(crate) task: Option<String>,
    pub(crate) entry: Entry,
}

/// What a server takes over.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// The code that [`Ledger::set_framing`] was given.
    pub(crate) framing: Option<u8>,
    /// The frame of the handshake, if there was one.
    pub(crate) hello: Option<Vec<u8>>,
    pub(crate) serves_stateless: bool,
    /// Whether the last message to the client may have been cut.
    pub(crate) is_cut: bool,
    pub(crate) unanswered: Vec<Unanswered>,
}

/// A request that is noted until this is dropped, which is when it was answered, or needs no answer.
#[derive(Debug)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    slot: usize,
}

impl Entry {
    /// Notes the task that the request has started.
    pub(crate) fn set_task(&self, id: &str) {
        let slot = self.ledger.slot(self.slot);
        if let Ok(task) = <[u8; TASK_BYTES]>::try_from(id.as_bytes()) {
            // SAFETY: the slot is this entry's.
            unsafe { (&raw mut (*slot).task).write(task) };
            // SAFETY: the slot is mapped.
            unsafe { &(*slot).task_set }.store(1, Ordering::Release);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let slot = self.ledger.slot(self.slot);
        // SAFETY: the slot is mapped.
        unsafe { &(*slot).state }.store(FREE, Ordering::Release);
    }
}

// Not all is used where no server is replaced.
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
impl Ledger {
    /// An empty one.
    ///
    /// # Errors
    /// The system gives no memory of this kind, or a limit of this process forbids it.
    pub(crate) fn create() -> io::Result<Ledger> {
        let tail = Tail::new()?;
        // SAFETY: a new mapping, of which nothing is used before it is written.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                ALL_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ledger {
            base: base.cast(),
            read_at: AtomicU64::new(0),
            tail,
            inherits: AtomicBool::new(false),
        })
    }

    fn shared(&self) -> *mut Shared {
        self.base.cast()
    }

    fn slot(&self, number: usize) -> *mut Slot {
        debug_assert!(number < SLOTS);
        // SAFETY: within the array; no reference is made.
        unsafe { (&raw mut (*self.shared()).slots).cast::<Slot>().add(number) }
    }

    /// The atomics of the shared part.
    fn flag(&self, which: impl Fn(&Shared) -> &AtomicU8) -> &AtomicU8 {
        // SAFETY: zeros are valid, the memory is mapped as long as this lives, and only atomics are
        // reached through the reference.
        which(unsafe { &*self.shared() })
    }

    fn position_word(&self) -> &AtomicU64 {
        // SAFETY: as in `flag`.
        unsafe { &(*self.shared()).position }
    }

    /// Where what is not taken begins, and where what was read ends.
    fn position(&self) -> (usize, usize) {
        let word = self.position_word().load(Ordering::Acquire);
        ((word >> 32) as usize, (word & u64::from(u32::MAX)) as usize)
    }

    fn set_position(&self, begins: usize, ends: usize) {
        let word = (begins as u64) << 32 | ends as u64;
        self.position_word().store(word, Ordering::Release);
    }

    /// These bytes of the input, which only the reader's thread uses.
    #[allow(clippy::mut_from_ref)]
    fn input(&self, from: usize, to: usize) -> &mut [u8] {
        debug_assert!(from <= to && to <= INPUT_BYTES);
        // SAFETY: within the mapping. Only the reader's thread calls this, and it holds one such
        // slice at a time.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.base.add(INPUT_AT).add(from),
                to.saturating_sub(from),
            )
        }
    }

    /// Clears bytes of the input from the first to the last.
    fn clear(&self, from: usize, to: usize) {
        const PAGE: usize = 4096;
        if to - from < LARGE {
            self.input(from, to).fill(0);
            return;
        }
        let (first, last) = (from.next_multiple_of(PAGE), to - to % PAGE);
        self.input(from, first).fill(0);
        if !self.remove(first, last) {
            self.input(first, last).fill(0);
        }
        self.input(last, to).fill(0);
    }

    /// Returns whole pages to the system, which read as zeros afterwards; false if it does not take
    /// them.
    #[cfg(target_os = "linux")]
    fn remove(&self, first: usize, last: usize) -> bool {
        // SAFETY: within the mapping.
        unsafe {
            let place = self.base.add(INPUT_AT).add(first);
            libc::madvise(place.cast(), last - first, libc::MADV_REMOVE) == 0
        }
    }

    /// Always false.
    #[cfg(not(target_os = "linux"))]
    fn remove(&self, _first: usize, _last: usize) -> bool {
        false
    }

    // The reader.

    /// Buffers the client's messages here.
    pub(crate) fn buffer<R: Read>(self: &Arc<Self>, source: R) -> KeptInput<R> {
        KeptInput { ledger: Arc::clone(self), source }
    }

    /// Notes a request of the frame that the reader has just got; `None` if it cannot be kept. Only
    /// for the reader's thread, before [`Ledger::take`].
    pub(crate) fn note(
        self: &Arc<Self>,
        id: &str,
        kind: RequestKind,
        frame: &[u8],
    ) -> Option<Entry> {
        if id.len() > ID_BYTES {
            return None;
        }
        let is_free = |number: &usize| {
            // SAFETY: the slot is mapped.
            unsafe { &(*self.slot(*number)).state }.load(Ordering::Acquire) == FREE
        };
        let number = (0..SLOTS).find(is_free)?;
        let slot = self.slot(number);
        let kept = match kind {
            RequestKind::Repeatable if frame.len() <= FRAME_BYTES => frame,
            _ => &[],
        };
        // SAFETY: a free slot is the reader's alone. Lengths are checked.
        unsafe {
            (&raw mut (*slot).kind).write(kind.code());
            (&raw mut (*slot).id_length).write(id.len() as u8);
            (&raw mut (*slot).frame_length).write(kept.len() as u32);
            (&raw mut (*slot).begins).write(self.position().0 as u64);
            ptr::copy_nonoverlapping(id.as_ptr(), (&raw mut (*slot).id).cast(), id.len());
            ptr::copy_nonoverlapping(kept.as_ptr(), (&raw mut (*slot).frame).cast(), kept.len());
            (*slot).task_set.store(0, Ordering::Release);
        }
        if kind == RequestKind::Handshake && frame.len() <= HELLO_BYTES {
            // SAFETY: the length is checked, and only the reader's thread writes here.
            unsafe {
                let hello = (&raw mut (*self.shared()).hello).cast::<u8>();
                (*self.shared()).hello_length.store(0, Ordering::Release);
                ptr::copy_nonoverlapping(frame.as_ptr(), hello, frame.len());
                (*self.shared()).hello_length.store(frame.len() as u32, Ordering::Release);
            }
        }
        // SAFETY: the slot is mapped.
        unsafe { &(*slot).state }.store(NOTED, Ordering::Release);
        Some(Entry { ledger: Arc::clone(self), slot: number })
    }

    /// Takes the frame that the reader has just got: it will not be read again. Only for the reader's
    /// thread.
    pub(crate) fn take(&self, entry: Option<&Entry>) {
        let at = self.read_at.load(Ordering::Relaxed) as usize;
        let (begins, ends) = self.position();
        if at > begins {
            self.clear(begins, at);
        }
        if at == ends {
            self.set_position(0, 0);
            self.read_at.store(0, Ordering::Relaxed);
        } else {
            self.set_position(at, ends);
        }
        self.flag(|shared| &shared.lost).store(0, Ordering::Release);
        if let Some(entry) = entry {
            // SAFETY: the slot is mapped.
            unsafe { &(*self.slot(entry.slot)).state }.store(TAKEN, Ordering::Release);
        }
    }

    /// Notes how the client frames its messages; not 0.
    pub(crate) fn set_framing(&self, code: u8) {
        self.flag(|shared| &shared.framing).store(code, Ordering::Release);
    }

    /// Notes that the client makes requests without a handshake.
    pub(crate) fn set_serves_stateless(&self) {
        self.flag(|shared| &shared.serves_stateless).store(1, Ordering::Release);
    }

    // The writer.

    /// Notes how far each message has come. `is_cut`: the line of the server before must be ended.
    pub(crate) fn output(self: &Arc<Self>, sink: BlockingFile, is_cut: bool) -> KeptOutput {
        KeptOutput { ledger: Arc::clone(self), sink, is_cut }
    }

    // The guard.

    /// Whether the next server would miss a part of the input.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.flag(|shared| &shared.lost).load(Ordering::Acquire) != 0
    }

    /// Notes a restart, for the server that this process or its next fork becomes.
    pub(crate) fn note_restart(&self, cause: &str) {
        let cause = cause.as_bytes();
        let cause = cause.get(..CAUSE_BYTES).unwrap_or(cause);
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // SAFETY: only the guard writes here, while no server runs; the length is checked.
        unsafe {
            let shared = self.shared();
            let count = (*shared).restarts.load(Ordering::Acquire);
            let rows = (&raw mut (*shared).restarted).cast::<Restarted>();
            let row = rows.add(count as usize % RESTARTS);
            (&raw mut (*row).at).write(at.as_secs_f64().to_bits());
            (&raw mut (*row).length).write(cause.len() as u8);
            ptr::copy_nonoverlapping(cause.as_ptr(), (&raw mut (*row).cause).cast(), cause.len());
            (*shared).restarts.store(count + 1, Ordering::Release);
        }
        self.inherits.store(true, Ordering::Release);
    }

    /// The restarts so far: how many, and the newest.
    pub(crate) fn restarts(&self) -> (usize, Option<Restart>) {
        // SAFETY: as in `flag`; the row was written before its number.
        unsafe {
            let shared = self.shared();
            let count = (*shared).restarts.load(Ordering::Acquire) as usize;
            let Some(last) = count.checked_sub(1) else {
                return (0, None);
            };
            let row = (&raw const (*shared).restarted).cast::<Restarted>().add(last % RESTARTS);
            let cause = (&raw const (*row).cause).read();
            let length = usize::from((&raw const (*row).length).read()).min(CAUSE_BYTES);
            let cause = String::from_utf8_lossy(cause.get(..length).unwrap_or_default());
            let at = f64::from_bits((&raw const (*row).at).read());
            (count, Some(Restart { at, cause: cause.into_owned() }))
        }
    }

    // The next server.

    /// What the server before has left, before anything is read; `None` in the first server.
    pub(crate) fn inherit(self: &Arc<Self>) -> Option<Inherited> {
        if !self.inherits.load(Ordering::Acquire) {
            return None;
        }
        let (is_cut, answered) = self.last_message();
        let (begins, ends) = self.find_input();
        self.read_at.store(begins as u64, Ordering::Relaxed);
        let is_untaken = begins < ends;
        let hello = {
            // SAFETY: no other process uses the memory now; the length was checked.
            unsafe {
                let length = (*self.shared()).hello_length.load(Ordering::Acquire) as usize;
                let hello = (&raw const (*self.shared()).hello).cast::<u8>();
                std::slice::from_raw_parts(hello, length.min(HELLO_BYTES)).to_vec()
            }
        };
        let mut unanswered = Vec::new();
        for number in 0..SLOTS {
            let slot = self.slot(number);
            // SAFETY: no other process uses the memory now; lengths are limited.
            let (state, kind, task, id, frame, began) = unsafe {
                let state = (*slot).state.load(Ordering::Acquire);
                let kind = (&raw const (*slot).kind).read();
                let task = ((*slot).task_set.load(Ordering::Acquire) == 1)
                    .then(|| (&raw const (*slot).task).read());
                let id = (&raw const (*slot).id).cast::<u8>();
                let length = usize::from((&raw const (*slot).id_length).read()).min(ID_BYTES);
                let id = std::slice::from_raw_parts(id, length).to_vec();
                let frame = (&raw const (*slot).frame).cast::<u8>();
                let length = ((&raw const (*slot).frame_length).read() as usize).min(FRAME_BYTES);
                let frame = std::slice::from_raw_parts(frame, length).to_vec();
                (state, kind, task, id, frame, (&raw const (*slot).begins).read() as usize)
            };
            let entry = Entry { ledger: Arc::clone(self), slot: number };
            let is_read_again = state == NOTED && is_untaken && began == begins;
            let is_answered = answered.as_deref().is_some_and(|head| is_answer_to(head, &id));
            let is_done = state == FREE || is_read_again || is_answered;
            let (Some(kind), false) = (RequestKind::from_code(kind), is_done) else {
                // Dropping the entry frees the slot.
                continue;
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            unanswered.push(Unanswered {
                id: text(&id),
                kind,
                frame: match kind {
                    RequestKind::Handshake => Some(hello.clone()),
                    _ => Some(frame),
                }
                .filter(|frame| !frame.is_empty()),
                task: task.map(|task| text(&task)),
                entry,
            });
        }
        let framing = self.flag(|shared| &shared.framing).load(Ordering::Acquire);
        Some(Inherited {
            framing: (framing != UNKNOWN_FRAMING).then_some(framing),
            hello: (!hello.is_empty()).then_some(hello),
            serves_stateless: self.flag(|shared| &shared.serves_stateless).load(Ordering::Acquire)
                != 0,
            is_cut,
            unanswered,
        })
    }

    /// Whether the last message to the client was cut, and else its beginning.
    fn last_message(&self) -> (bool, Option<Vec<u8>>) {
        let phase = self.flag(|shared| &shared.phase).load(Ordering::Acquire);
        let is_in_tail = self.tail.drain();
        // SAFETY: no other process uses the memory now; the length is limited.
        let head = unsafe {
            let length = (*self.shared()).head_length.load(Ordering::Acquire) as usize;
            let head = (&raw const (*self.shared()).head).cast::<u8>();
            std::slice::from_raw_parts(head, length.min(HEAD_BYTES)).to_vec()
        };
        match phase {
            WRITING => (true, None),
            TAIL if is_in_tail => (true, None),
            TAIL | WRITTEN => (false, Some(head)),
            _ => (false, None),
        }
    }

    /// Where what is not taken begins and ends, with what the kernel had copied last and without
    /// what was being cleared.
    fn find_input(&self) -> (usize, usize) {
        let (mut begins, mut ends) = self.position();
        let window = self.input(ends, INPUT_BYTES.min(ends + READ_BYTES));
        ends += window.iter().position(|byte| *byte == 0).unwrap_or(window.len());
        let untaken = self.input(begins, ends);
        begins += untaken.iter().position(|byte| *byte != 0).unwrap_or(untaken.len());
        if begins == ends {
            (begins, ends) = (0, 0);
        }
        self.set_position(begins, ends);
        (begins, ends)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // SAFETY: the mapping of `create`, which nothing uses any more.
        unsafe { libc::munmap(self.base.cast(), ALL_BYTES) };
    }
}

/// The client's messages, buffered in the ledger.
#[derive(Debug)]
pub(crate) struct KeptInput<R> {
    ledger: Arc<Ledger>,
    source: R,
}

impl<R: Read> BufRead for KeptInput<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let ledger = &self.ledger;
        let mut at = ledger.read_at.load(Ordering::Relaxed) as usize;
        let (mut begins, mut ends) = ledger.position();
        if at >= ends {
            if ends + READ_BYTES > INPUT_BYTES {
                // What was read of the frame is in the reader's own memory.
                ledger.flag(|shared| &shared.lost).store(1, Ordering::Release);
                ledger.clear(begins, ends);
                (begins, ends, at) = (0, 0, 0);
                ledger.set_position(0, 0);
                ledger.read_at.store(0, Ordering::Relaxed);
            }
            let count = self.source.read(ledger.input(ends, ends + READ_BYTES))?;
            ends += count;
            ledger.set_position(begins, ends);
        }
        Ok(ledger.input(at, ends))
    }

    fn consume(&mut self, count: usize) {
        self.ledger.read_at.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl<R: Read> Read for KeptInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// The messages to the client, of which the ledger knows whether the last was written.
///
/// The end of a line, without which it is no message, is sent by itself. To a client that waits for
/// it, it goes through a pipe that outlives this process: what is still in there was not sent. A
/// client that is behind gets it by a plain write, since each piece that goes through the pipe would
/// take one of the few places of the client's.
#[derive(Debug)]
pub(crate) struct KeptOutput {
    ledger: Arc<Ledger>,
    sink: BlockingFile,
    /// Whether the line of the server before must be ended first.
    is_cut: bool,
}

impl KeptOutput {
    fn set_phase(&self, phase: u8) {
        self.ledger.flag(|shared| &shared.phase).store(phase, Ordering::Release);
    }

    /// Notes the beginning of the message that is to be written.
    fn note_head(&self, bytes: &[u8]) {
        let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
        // SAFETY: one thread at a time writes, and the length is checked.
        unsafe {
            let shared = self.ledger.shared();
            (*shared).head_length.store(head.len() as u32, Ordering::Release);
            ptr::copy_nonoverlapping(head.as_ptr(), (&raw mut (*shared).head).cast(), head.len());
        }
    }
}

impl Write for KeptOutput {
    /// Takes a whole message.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.set_phase(WRITING);
        self.note_head(bytes);
        if std::mem::take(&mut self.is_cut) {
            self.sink.write_all(b"\n")?;
        }
        let end = match bytes.strip_suffix(LINE_END) {
            Some(_) if self.sink.holds_nothing() => {
                // What fits is sent at once, so that its reader is woken once.
                let end = if bytes.len() <= TAIL_BYTES { bytes } else { LINE_END };
                self.sink.write_all(bytes.strip_suffix(end).unwrap_or_default())?;
                self.ledger.tail.put(end)?;
                self.set_phase(TAIL);
                end
            }
            Some(body) => {
                self.sink.write_all(body)?;
                self.sink.write_all(LINE_END)?;
                &[]
            }
            None => {
                self.sink.write_all(bytes)?;
                &[]
            }
        };
        if !end.is_empty() {
            self.ledger.tail.send(end, &mut self.sink)?;
        }
        self.set_phase(WRITTEN);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// The pipe for the ends of lines.
#[derive(Debug)]
struct Tail {
    read: OwnedFd,
    write: OwnedFd,
}

impl Tail {
    fn new() -> io::Result<Tail> {
        let (read, write) = descriptors::pipe()?;
        descriptors::set_nonblocking(&read)?;
        Ok(Tail { read, write })
    }

    fn put(&self, end: &[u8]) -> io::Result<()> {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.write, end))?;
        if written == end.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Moves what is in the pipe to the client.
    fn send(&self, end: &[u8], sink: &mut BlockingFile) -> io::Result<()> {
        match sink.take_from(&self.read, end.len()) {
            Ok(moved) if moved == end.len() => Ok(()),
            Ok(moved) => {
                self.drain();
                sink.write_all(end.get(moved..).unwrap_or_default())
            }
            // A file that is appended to, for example, takes nothing from a pipe.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.drain();
                sink.write_all(end)
            }
            Err(error) => Err(error),
        }
    }

    /// Empties the pipe; returns whether anything was in it.
    fn drain(&self) -> bool {
        let mut buffer = [0; TAIL_BYTES];
        let mut read = || rustix::io::retry_on_intr(|| rustix::io::read(&self.read, &mut buffer));
        let found = read().is_ok_and(|count| count > 0);
        while found && read().is_ok_and(|count| count > 0) {}
        found
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// The same memory, as the next server has it.
    fn next(ledger: &Arc<Ledger>) -> Inherited {
        ledger.note_restart("killed by SIGKILL");
        ledger.inherit().expect("a restart was noted")
    }

    fn line(input: &mut impl BufRead) -> String {
        let mut line = String::new();
        input.read_line(&mut line).expect("a line");
        line
    }

    #[test]
    fn what_was_not_taken_is_read_again() {
        let ledger = Arc::new(Ledger::create().expect("memory"));
        assert!(ledger.inherit().is_none(), "it is the first");
        let mut input = ledger.buffer(Cursor::new(b"{1}\n{2}\n{3}\n{4".to_vec()));
        assert_eq!(line(&mut input), "{1}\n");
        let entry = ledger.note("1", RequestKind::Call { stateless: false }, b"{1}");
        ledger.take(entry.as_ref());
        entry.as_ref().expect("room").set_task("0123abcd");
        assert_eq!(line(&mut input), "{2}\n");
        let noted = ledger.note("\"two\"", RequestKind::Repeatable, b"{2}");
        std::mem::forget((entry, noted));
        // Killed between the note and the taking.
        let inherited = next(&ledger);
        let unanswered: Vec<_> = (inherited.unanswered.iter())
            .map(|it| (it.id.as_str(), it.task.as_deref(), it.kind))
            .collect();
        assert_eq!(unanswered, [("1", Some("0123abcd"), RequestKind::Call { stateless: false })]);
        drop(inherited);
        let mut input = ledger.buffer(Cursor::new(b"}\n".to_vec()));
        assert_eq!(line(&mut input), "{2}\n");
        let entry = ledger.note("\"two\"", RequestKind::Repeatable, b"{2}");
        ledger.take(entry.as_ref());
        std::mem::forget(entry);
        assert_eq!(line(&mut input), "{3}\n");
        ledger.take(None);
        assert_eq!(line(&mut input), "{4}\n");
        ledger.take(None);
        let inherited = next(&ledger);
        let ids = |inherited: &Inherited| {
            inherited.unanswered.iter().map(|it| it.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&inherited), ["\"two\""], "the first was answered when it was dropped");
        assert_eq!(inherited.unanswered[0].frame.as_deref(), Some(&b"{2}"[..]));
        drop(inherited);
        assert_eq!(ids(&next(&ledger)), [] as [String; 0]);
        assert_eq!(ledger.restarts().0, 3);
    }

    #[test]
    fn what_the_kernel_had_copied_is_found() {
        let ledger = Arc::new(Ledger::create().expect("memory"));
        let mut input = ledger.buffer(Cursor::new(b"{1}\n".to_vec()));
        line(&mut input);
        ledger.take(None);
        // A read that was not noted any more.
        ledger.input(0, 4).copy_from_slice(b"{2}\n");
        next(&ledger);
        let mut input = ledger.buffer(Cursor::new(Vec::new()));
        assert_eq!(line(&mut input), "{2}\n");
    }

    #[test]
    fn long_frames_are_kept_and_their_memory_is_cleared() {
        let ledger = Arc::new(Ledger::create().expect("memory"));
        let long = [vec![b'x'; 3_000_000], b"\nnext\n".to_vec()].concat();
        let mut input = ledger.buffer(Cursor::new(long));
        assert_eq!(line(&mut input).len(), 3_000_001);
        next(&ledger);
        assert_eq!(line(&mut input).len(), 3_000_001, "it was not taken");
        ledger.take(None);
        assert_eq!(line(&mut input), "next\n");
        ledger.take(None);
        assert!(ledger.input(0, 3_100_000).iter().all(|byte| *byte == 0));
        assert!(!ledger.is_incomplete());
    }

    #[test]
    fn an_answer_that_was_sent_is_not_given_again() {
        let ledger = Arc::new(Ledger::create().expect("memory"));
        let (ours, theirs) = io::pipe().expect("a pipe");
        let mut output = ledger.output(BlockingFile::new(theirs.into()), false);
        let mut client = io::BufReader::new(ours);
        let answer = |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        let note = |id: &str| {
            let entry = ledger.note(id, RequestKind::Repeatable, b"{}");
            ledger.take(entry.as_ref());
            std::mem::forget(entry);
        };
        note("1");
        note("12");
        output.write_all(answer("1").as_bytes()).expect("written");
        assert_eq!(line(&mut client), answer("1"));
        // Killed before the entry was freed.
        let inherited = next(&ledger);
        assert!(!inherited.is_cut);
        let ids: Vec<_> = inherited.unanswered.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["12"]);
        std::mem::forget(inherited);
        // Killed before the end of the line.
        output.set_phase(WRITING);
        output.note_head(answer("12").as_bytes());
        output.sink.write_all(b"{\"jsonrpc\"").expect("written");
        for phase in [WRITING, TAIL] {
            ledger.tail.put(LINE_END).expect("written");
            output.set_phase(phase);
            let inherited = next(&ledger);
            assert!(inherited.is_cut);
            assert_eq!(inherited.unanswered.len(), 1);
            std::mem::forget(inherited);
        }
        let mut output = ledger.output(output.sink, true);
        output.write_all(answer("12").as_bytes()).expect("written");
        assert_eq!(line(&mut client), "{\"jsonrpc\"\n");
        assert_eq!(line(&mut client), answer("12"));
    }
}
