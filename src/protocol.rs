//! L3: JSON-RPC over two streams. Knows messages, and neither tools nor tasks.
//!
//! Read in this order:
//!
//! - [`transport`]: a connection with a reader and a writer thread, or with memory in tests;
//!   [`outbox`] is what waits to be written.
//! - [`reader`] and [`framing`]: bytes to frames, in bounded memory.
//! - [`message`] and [`id`]: frames to requests, results to bytes.
//! - [`era`] and [`stateless`]: the two eras of MCP; [`tasks`]: the tasks extension of the second.
//!
//! May touch: stdin and stdout.

pub(crate) mod era;
pub(crate) mod framing;
pub(crate) mod id;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod reader;
pub(crate) mod stateless;
pub(crate) mod tasks;
pub(crate) mod transport;
