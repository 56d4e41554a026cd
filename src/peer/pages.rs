//! Requests of the page about what runs on a host: the far side answers them as its own page would.
//!
//! A stream of events is pulled: each request gets what has come since the one before, and the far
//! side keeps the stream until the next, so that a page that is not read costs the connection
//! nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hosts::Host;
use super::{Peer, PeerError};
use crate::task::live::Cancel;

/// The method of such a request.
pub const PAGE: &str = "zsh-tool/page";
/// How long a stream's request waits for an event.
pub const PULL_WAIT: Duration = Duration::from_secs(20);

/// The params of [`PAGE`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageRequest {
    /// The request as the page made it, without its headers.
    pub request: Value,
    /// The caller's name for the stream, if the answer is one: the same name continues it.
    pub stream: String,
}

/// The result of [`PAGE`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PageAnswer {
    pub status: u16,
    #[serde(default)]
    pub body: Value,
    /// Of a stream.
    #[serde(default)]
    pub events: Vec<PageEvent>,
    /// Nothing more comes of the stream.
    #[serde(default)]
    pub ended: bool,
    /// The clock there, in Unix seconds.
    #[serde(default)]
    pub now: f64,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageEvent {
    pub id: Option<String>,
    pub name: Option<String>,
    pub data: String,
}

/// What answers the requests on a host.
pub trait Pages: Send + Sync {
    fn answer(&self, request: PageRequest, cancel: &Cancel) -> PageAnswer;
}

/// A request under way. Dropping it cancels it.
#[derive(Debug)]
pub struct PageCall(Peer);

impl PageCall {
    /// Sends a request; `None` if the host is not connected.
    pub fn begin(host: &Host, request: &PageRequest) -> Option<PageCall> {
        let peer = Peer::carried(host.connected()?).ok()?;
        let message = json!({"jsonrpc": "2.0", "id": peer.id(), "method": PAGE, "params": request});
        peer.request(&message).ok()?;
        Some(PageCall(peer))
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The connection is lost, or the far side refuses.
    pub fn answer(mut self, limit: Duration) -> Result<PageAnswer, PeerError> {
        let begun = Instant::now();
        let result = self.0.await_result(begun, limit, &Cancel::default(), None)?;
        serde_json::from_value(result).map_err(|error| self.0.failed(io::Error::from(error), begun))
    }
}

impl AsFd for PageCall {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.stream.as_fd()
    }
}
