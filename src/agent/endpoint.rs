//! An OpenAI-compatible endpoint that answers one message.
//!
//! A failed connection and a status in the 500s are retried three times, with short pauses; any
//! other error would only repeat. Errors have the classes that agent programs share
//! ([`EndpointError::class`]).
//!
//! The key is sent in one header and appears nowhere else: the endpoint's messages are redacted,
//! and no type that contains the key implements `Debug`. A proxy from the environment is used,
//! except for this machine.
//!
//! Limits: `chat/completions` only; no tools, no images, no conversation. Only certificates signed
//! by Mozilla's roots are trusted. Redirects are not followed, since they would send the prompt
//! elsewhere. [`Cancel`] does not interrupt connecting; only time limits do.

mod wire;

use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Timeout};

use super::activity::AgentError;
use crate::base::cancel::Cancel;
use crate::text::redact::Redactor;
use wire::Form;
pub(crate) use wire::Piece;

/// Pauses before the second, third and fourth attempt: a refused connection is reported
/// within two seconds.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800)];
/// The time limit for connecting.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The largest whole answer.
const MAX_ANSWER: u64 = 16 << 20;
/// The longest line of a streamed answer.
const MAX_STREAM_LINE: u64 = 1 << 20;
/// How much of an error's body to read.
const MAX_ERROR: u64 = 64 << 10;

/// The settings of an endpoint.
#[derive(Clone)]
pub struct EndpointSettings {
    /// The address including the version, as in `http://127.0.0.1:11434/v1`.
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// The key, if the endpoint needs one.
    pub key: Option<String>,
    /// The variable that contains the key, for messages.
    pub key_variable: String,
}

/// An answer that ended early.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct BrokenOff {
    /// The part that had arrived.
    pub(crate) text: String,
    /// Why it ended.
    pub(crate) error: EndpointError,
}

/// Limits on an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) max_tokens: u32,
    pub(crate) temperature: f64,
    /// The time limit of all attempts together.
    pub(crate) time: Duration,
}

/// The time limit of a request with all of its attempts.
#[derive(Clone, Copy)]
struct Limit {
    whole: Duration,
    deadline: Instant,
}

/// A usable endpoint. It does not implement `Debug`, so that its key cannot be printed.
pub struct Endpoint {
    agent: Agent,
    url: String,
    model: String,
    key: Option<String>,
    key_variable: String,
    /// Removes the key from the endpoint's messages.
    redactor: Redactor,
}

impl Endpoint {
    /// Checks the settings, without connecting.
    ///
    /// # Errors
    /// If the address or the model is missing or invalid.
    pub fn new(settings: EndpointSettings) -> Result<Endpoint, SetupError> {
        let base = settings.base_url.ok_or(SetupError::NoAddress)?;
        let url = format!("{}/chat/completions", base.trim_end_matches('/'));
        let uri: Uri = url.parse().map_err(|_| SetupError::BadAddress("it does not parse"))?;
        let host = uri.host().unwrap_or_default();
        if host.is_empty() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            let cause = "it needs http:// or https:// and a host";
            return Err(SetupError::BadAddress(cause));
        }
        let key = settings.key.map(|key| key.trim().to_owned());
        let key = key.filter(|key| !key.is_empty());
        Ok(Endpoint {
            agent: agent(is_this_machine(host)),
            url,
            model: settings.model.ok_or(SetupError::NoModel)?,
            redactor: Redactor::new(key.clone()),
            key,
            key_variable: settings.key_variable,
        })
    }

    /// The whole answer to one message.
    ///
    /// # Errors
    /// If all attempts fail.
    pub(crate) fn complete(
        &self,
        prompt: &str,
        bounds: &Bounds,
        cancel: &Cancel,
    ) -> Result<String, EndpointError> {
        let body = wire::request(&self.model, prompt, Form::Whole(bounds));
        let limit = Limit { whole: bounds.time, deadline: Instant::now() + bounds.time };
        self.request(&body, Some(limit), cancel, &mut |_| true).map_err(|broken| broken.error)
    }

    /// The answer to one message, without a time limit. Each piece goes to `on_piece` as it
    /// arrives, which returns whether to continue.
    ///
    /// # Errors
    /// If the answer is incomplete: after all attempts, or immediately if part of it has arrived.
    pub(crate) fn stream(
        &self,
        prompt: &str,
        on_piece: &mut dyn FnMut(&Piece) -> bool,
    ) -> Result<String, BrokenOff> {
        let mut ask = |with_usage| {
            let body = wire::request(&self.model, prompt, Form::Stream { with_usage });
            self.request(&body, None, &Cancel::default(), on_piece)
        };
        match ask(true) {
            // It may not know the option for the usage.
            Err(broken) if broken.error.is_bad_request() => ask(false),
            answer => answer,
        }
    }

    fn request(
        &self,
        body: &str,
        limit: Option<Limit>,
        cancel: &Cancel,
        on_piece: &mut dyn FnMut(&Piece) -> bool,
    ) -> Result<String, BrokenOff> {
        let mut pauses = PAUSES.iter();
        let mut text = String::new();
        loop {
            let mut has_arrived = false;
            let mut pass_on = |piece: &Piece| {
                has_arrived |= !matches!(piece, Piece::Usage(_));
                if let Piece::Text(more) = piece {
                    text.push_str(more);
                }
                on_piece(piece)
            };
            let result = if cancel.is_cancelled() {
                Err(EndpointError::Interrupted)
            } else {
                self.attempt(body, limit, &mut pass_on)
            };
            let Err(error) = result else {
                return Ok(text);
            };
            // Pieces that were passed on cannot be withdrawn.
            let may_retry = error.may_pass() && !has_arrived;
            let pause = pauses.next().filter(|pause| {
                may_retry && limit.is_none_or(|limit| Instant::now() + **pause < limit.deadline)
            });
            let Some(pause) = pause else {
                return Err(BrokenOff { text, error });
            };
            cancel.await_cancellation(Instant::now() + *pause);
        }
    }

    fn attempt(
        &self,
        body: &str,
        limit: Option<Limit>,
        on_piece: &mut dyn FnMut(&Piece) -> bool,
    ) -> Result<(), EndpointError> {
        let response = self.send(body, limit)?;
        let is_stream = response.body().mime_type() == Some("text/event-stream");
        if limit.is_none() && is_stream {
            return self.read_stream(response, on_piece);
        }
        // An endpoint that cannot stream sends the whole answer at once.
        let text = self.read_whole(response, limit)?;
        let pieces = wire::answer(&text).map_err(|cause| self.bad_answer(&cause))?;
        if !pieces.iter().all(on_piece) {
            return Err(EndpointError::Interrupted);
        }
        Ok(())
    }

    fn read_stream(
        &self,
        response: Response<Body>,
        on_piece: &mut dyn FnMut(&Piece) -> bool,
    ) -> Result<(), EndpointError> {
        let mut lines = BufReader::new(response.into_body().into_reader());
        let mut has_ended = false;
        loop {
            let mut line = Vec::new();
            let count = lines
                .by_ref()
                .take(MAX_STREAM_LINE)
                .read_until(b'\n', &mut line)
                .map_err(|error| self.io_error(&error, None))?;
            if count == 0 && has_ended {
                return Ok(());
            }
            if count == 0 {
                return Err(self.broken("it closed before the answer was complete"));
            }
            let is_whole = line.ends_with(b"\n");
            if count as u64 == MAX_STREAM_LINE && !is_whole {
                return Err(self.bad_answer("one of its lines is longer than 1 MiB"));
            }
            let event = wire::event(&line).map_err(|cause| {
                if is_whole {
                    self.bad_answer(&cause)
                } else {
                    self.broken("it closed within a line")
                }
            })?;
            let Some(wire::Event { pieces, ends }) = event else {
                return Ok(());
            };
            has_ended |= ends;
            if !pieces.iter().all(&mut *on_piece) {
                return Err(EndpointError::Interrupted);
            }
        }
    }

    /// Sends a request. A response with a status other than 2xx is an error.
    fn send(&self, body: &str, limit: Option<Limit>) -> Result<Response<Body>, EndpointError> {
        let mut request = self.agent.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let left = limit.map(|limit| limit.deadline.saturating_duration_since(Instant::now()));
        let request = request.config().timeout_global(left).build();
        let response = request.send(body).map_err(|error| self.transport_error(error, limit))?;
        match response.status().as_u16() {
            200..300 => Ok(response),
            status => Err(self.refusal(status, response)),
        }
    }

    fn refusal(&self, status: u16, response: Response<Body>) -> EndpointError {
        let header = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let (location, retry_after) = (header("location"), header("retry-after"));
        let mut bytes = Vec::new();
        // The bytes before a read error are still worth reporting.
        let _ = response.into_body().into_reader().take(MAX_ERROR).read_to_end(&mut bytes);
        let message = match location {
            Some(to) => format!("it has moved to {to}: correct openai.base_url"),
            None => wire::error_message(&bytes),
        };
        let message = self.redactor.redact(&message);
        let mut message = format!("{} answered {status}: {message}", self.url);
        // Who waits for the end of an outage reads this.
        if let Some(retry_after) = retry_after {
            message.push_str(&format!(", retry-after: {}", self.redactor.redact(&retry_after)));
        }
        let is_unauthorised = matches!(status, 401 | 403);
        if is_unauthorised {
            message.push_str(&format!(" (the key comes from ${}", self.key_variable));
            let unset = self.key.is_none();
            message.push_str(if unset { ", which is not set)" } else { ")" });
        }
        EndpointError::Failed {
            message,
            class: if is_unauthorised { AgentError::AuthFailed } else { AgentError::ApiError },
            may_pass: (500..600).contains(&status),
            is_bad_request: matches!(status, 400 | 422),
        }
    }

    fn read_whole(
        &self,
        response: Response<Body>,
        limit: Option<Limit>,
    ) -> Result<String, EndpointError> {
        let mut bytes = Vec::new();
        response
            .into_body()
            .into_reader()
            .take(MAX_ANSWER + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.io_error(&error, limit))?;
        if bytes.len() as u64 > MAX_ANSWER {
            return Err(self.bad_answer("it is larger than 16 MiB"));
        }
        String::from_utf8(bytes).map_err(|_| self.bad_answer("it is not UTF-8"))
    }

    fn transport_error(&self, error: ureq::Error, limit: Option<Limit>) -> EndpointError {
        match error {
            ureq::Error::HostNotFound => self.unreachable("no host has that name"),
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                self.unreachable("it does not respond")
            }
            ureq::Error::ConnectionFailed => self.unreachable("the connection failed"),
            ureq::Error::Timeout(_) => self.timed_out(limit),
            ureq::Error::Io(error) => self.io_error(&error, limit),
            // The error quotes the header, which may contain the key.
            ureq::Error::Http(_) => {
                self.bad_answer("the key contains characters that are not allowed in a header")
            }
            other => self.bad_answer(&other.to_string()),
        }
    }

    fn io_error(&self, error: &io::Error, limit: Option<Limit>) -> EndpointError {
        let inner: Option<&ureq::Error> = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(ureq::Error::Timeout(_)) = inner {
            return self.timed_out(limit);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => self.unreachable(&error.to_string()),
            io::ErrorKind::TimedOut => self.timed_out(limit),
            // An untrusted certificate, or a server without TLS.
            io::ErrorKind::InvalidData => self.bad_answer(&error.to_string()),
            _ => self.broken(&error.to_string()),
        }
    }

    fn unreachable(&self, cause: &str) -> EndpointError {
        EndpointError::Unreachable { url: self.url.clone(), cause: cause.to_owned() }
    }

    /// The connection broke before the answer was complete.
    fn broken(&self, cause: &str) -> EndpointError {
        EndpointError::Failed {
            message: format!("the connection to {} broke: {cause}", self.url),
            class: AgentError::ApiError,
            may_pass: true,
            is_bad_request: false,
        }
    }

    fn bad_answer(&self, cause: &str) -> EndpointError {
        let cause = self.redactor.redact(cause);
        EndpointError::Failed {
            message: format!("{} gave an unusable answer: {cause}", self.url),
            class: AgentError::ApiError,
            may_pass: false,
            is_bad_request: false,
        }
    }

    fn timed_out(&self, limit: Option<Limit>) -> EndpointError {
        EndpointError::TimedOut {
            url: self.url.clone(),
            seconds: limit.map_or(0, |limit| limit.whole.as_secs()),
        }
    }
}

/// Opens a connection for each request, so that no request gets a dead one.
fn agent(is_this_machine: bool) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_connections(0)
        .timeout_connect(Some(CONNECT_TIME))
        .user_agent(concat!("zsh-tool/", env!("CARGO_PKG_VERSION")));
    if is_this_machine {
        config = config.proxy(None);
    }
    config.build().new_agent()
}

/// Whether a host is this machine, for which no proxy is used.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SetupError {
    #[error("openai.base_url is not set: name the endpoint, as in http://127.0.0.1:11434/v1")]
    NoAddress,
    #[error("openai.model is not set: name a model that the endpoint has")]
    NoModel,
    /// The address is invalid, for this reason.
    #[error("openai.base_url is not a valid address: {0}")]
    BadAddress(&'static str),
}

/// Why the endpoint gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    /// The connection failed.
    #[error("cannot connect to {url}: {cause}")]
    Unreachable {
        url: String,
        /// The system's error.
        cause: String,
    },
    /// It answered with an error, or the answer was unusable or incomplete.
    #[error("{message}")]
    Failed {
        /// What happened, with the endpoint's address.
        message: String,
        class: AgentError,
        /// Whether the same request may succeed a moment later.
        may_pass: bool,
        /// Whether it says that it does not understand the request.
        is_bad_request: bool,
    },
    /// It took too long.
    #[error("{url} gave no answer within {seconds} s")]
    TimedOut {
        url: String,
        /// The time limit.
        seconds: u64,
    },
    /// It was cancelled.
    #[error("was stopped before the answer was complete")]
    Interrupted,
}

impl EndpointError {
    /// The class of the failure.
    pub(crate) fn class(&self) -> AgentError {
        match self {
            EndpointError::Unreachable { .. } => AgentError::ConnectionRefused,
            EndpointError::Failed { class, .. } => *class,
            EndpointError::TimedOut { .. } | EndpointError::Interrupted => AgentError::ApiError,
        }
    }

    fn is_bad_request(&self) -> bool {
        matches!(self, EndpointError::Failed { is_bad_request: true, .. })
    }

    /// Whether the same request may succeed a moment later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            EndpointError::Unreachable { .. } => true,
            EndpointError::Failed { may_pass, .. } => *may_pass,
            EndpointError::TimedOut { .. } | EndpointError::Interrupted => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(base_url: &str) -> EndpointSettings {
        EndpointSettings {
            base_url: Some(base_url.to_owned()),
            model: Some("m".to_owned()),
            key: None,
            key_variable: "OPENAI_API_KEY".to_owned(),
        }
    }

    #[test]
    fn an_endpoint_needs_an_address_and_a_model() {
        assert!(Endpoint::new(settings("http://127.0.0.1:1/v1")).is_ok());
        let mut none = settings("");
        none.base_url = None;
        assert_eq!(Endpoint::new(none).err(), Some(SetupError::NoAddress));
        let mut none = settings("http://127.0.0.1:1/v1");
        none.model = None;
        assert_eq!(Endpoint::new(none).err(), Some(SetupError::NoModel));
        for wrong in ["", "localhost", "ftp://host/v1", "http://"] {
            let error = Endpoint::new(settings(wrong)).err();
            assert!(matches!(error, Some(SetupError::BadAddress(_))), "{wrong}");
        }
    }

    #[test]
    fn no_proxy_is_used_for_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.8.0.1", "[::1]", "LOCALHOST"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["example.com", "10.0.0.1", "localhost.example.com"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
