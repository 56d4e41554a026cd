//! L7: the page and its HTTP interface.
//!
//! Read in this order:
//!
//! - [`http`]: the server: [`http::listener`] and [`http::connection`] take requests,
//!   [`http::access`] checks them, [`http::sse`] keeps streams.
//! - [`api`]: the answer for each path. [`dashboard`]: the page.
//! - [`sessions`], [`session`] and [`runs`]: tasks and agent runs as JSON, from memory and from the state
//!   directory.
//! - `events`, `changes`, `output` and `readable`: streams, and the output in them.
//! - [`hosts`] and [`far`]: sessions of connected hosts.
//!
//! May touch: sockets.

pub(crate) mod api;
mod changes;
pub(crate) mod dashboard;
mod events;
pub(crate) mod far;
pub(crate) mod hosts;
mod output;
mod readable;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod sessions;

/// The HTTP server.
pub(crate) mod http {
    pub(crate) mod access;
    pub(crate) mod connection;
    pub(crate) mod listener;
    pub(crate) mod request;
    pub(crate) mod response;
    pub(crate) mod sse;
    mod wire;
}
