//! The page's requests about sessions on a host, which the far side answers as its own page would.
//!
//! Streams of events are pulled: each request returns the events since the last request, and the far
//! side keeps the stream in between. So a page that is not read costs the connection nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PeerError;
use super::client::Peer;
use super::hosts::Host;
use crate::base::cancel::Cancel;

/// The JSON-RPC method.
pub(crate) const PAGE: &str = "zsh-tool/page";
/// How long a stream's request waits for an event.
pub(crate) const PULL_WAIT: Duration = Duration::from_secs(20);

/// The params of [`PAGE`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PageRequest {
    /// The page's request without its headers.
    pub(crate) request: Value,
    /// A name for the stream, chosen by the caller, if the answer is a stream. A later request with
    /// this name continues it.
    pub(crate) stream: String,
}

/// The result of [`PAGE`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct PageAnswer {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) body: Value,
    /// New events, if the answer is a stream.
    #[serde(default)]
    pub(crate) events: Vec<PageEvent>,
    /// Whether the stream has ended.
    #[serde(default)]
    pub(crate) ended: bool,
    /// The host's clock, in Unix seconds.
    #[serde(default)]
    pub(crate) now: f64,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PageEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Answers the page's requests on a host.
pub(crate) trait Pages: Send + Sync {
    fn answer(&self, request: PageRequest, cancel: &Cancel) -> PageAnswer;
}

/// A request in progress. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct PageCall(Peer);

impl PageCall {
    /// Sends a request; `None` if the host is not connected.
    pub(crate) fn begin(host: &Host, request: &PageRequest) -> Option<PageCall> {
        let peer = Peer::carried(host.connected()?).ok()?;
        let message = json!({"jsonrpc": "2.0", "id": peer.id(), "method": PAGE, "params": request});
        peer.request(&message).ok()?;
        Some(PageCall(peer))
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The connection is lost, or the far side refuses.
    pub(crate) fn answer(mut self, limit: Duration) -> Result<PageAnswer, PeerError> {
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
