//! An OpenAI-compatible endpoint, asked for one answer to one message.
//!
//! A connection that fails, and an answer of the 500s, is tried again three times with
//! short pauses; nothing else is, since it would end the same way. What goes wrong is told
//! in the classes that agent programs share ([`EndpointError::class`]).
//!
//! The key comes in as a value; it goes out in one header and nowhere else: messages of
//! the endpoint are redacted, and nothing here can be printed that holds it. A proxy of
//! the environment is used as by other programs, but not for this machine itself.
//!
//! Limits: `chat/completions` only; no tools, no images, no conversation. Certificates
//! are trusted that Mozilla's roots have signed, not those of the system's own. Redirects
//! are not followed, since they would carry the prompt to somewhere else. While a connection
//! is waited for, only the time limits end that, and not the [`Interrupt`].

mod failure;
mod wire;

use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Timeout};

use super::interrupt::Interrupt;
use crate::text::redact::Redactor;
pub use failure::{EndpointError, SetupError};
pub use wire::Piece;

/// Pauses before the second, third and fourth attempt: a refused connection is to be
/// named within two seconds.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];
/// A connection that takes longer will not come.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// An answer that comes whole.
const MAX_ANSWER: u64 = 16 << 20;
/// One line of an answer that comes in pieces.
const MAX_STREAM_LINE: u64 = 1 << 20;
/// What is read of an error.
const MAX_ERROR: u64 = 64 << 10;

/// Where the endpoint is and how it is asked.
#[derive(Clone)]
pub struct Settings {
    /// Up to and with the version, as in `http://127.0.0.1:11434/v1`.
    pub base_url: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The key, where there is one.
    pub key: Option<String>,
    /// The variable that the key is taken from, for messages.
    pub key_variable: String,
}

/// An answer that broke off.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct BrokenOff {
    /// What had come.
    pub text: String,
    /// Why no more came.
    pub error: EndpointError,
}

/// What an answer may be at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Its length, in the model's tokens.
    pub max_tokens: u32,
    /// How free it is; 0 is not at all.
    pub temperature: f64,
    /// How long all attempts may take.
    pub time: Duration,
}

/// An endpoint that can be asked. Has no `Debug`, so that nobody prints its key.
pub struct Endpoint {
    agent: Agent,
    url: String,
    model: String,
    key: Option<String>,
    key_variable: String,
    /// Takes the key out of what the endpoint says.
    redactor: Redactor,
}

impl Endpoint {
    /// An endpoint of these settings; nobody is asked yet.
    ///
    /// # Errors
    /// When the settings name none.
    pub fn new(settings: Settings) -> Result<Endpoint, SetupError> {
        let base = settings.base_url.ok_or(SetupError::NoAddress)?;
        let url = format!("{}/chat/completions", base.trim_end_matches('/'));
        let uri: Uri = url
            .parse()
            .map_err(|_| SetupError::BadAddress("it does not parse".to_owned()))?;
        let host = uri.host().unwrap_or_default();
        if host.is_empty() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            let cause = "it needs http:// or https:// and a host".to_owned();
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
    /// When there is none, after all attempts.
    pub fn complete(
        &self,
        prompt: &str,
        bounds: &Bounds,
        interrupt: &Interrupt,
    ) -> Result<String, EndpointError> {
        let body =
            wire::bounded_request(&self.model, prompt, bounds.max_tokens, bounds.temperature);
        let deadline = Instant::now() + bounds.time;
        let mut pauses = PAUSES.iter();
        loop {
            if interrupt.is_given() {
                return Err(EndpointError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let error = match self.complete_once(&body, left, bounds.time) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = pauses.next().filter(|_| error.may_pass());
            let Some(pause) = pause.filter(|pause| Instant::now() + **pause < deadline) else {
                return Err(error);
            };
            if interrupt.wait(*pause) {
                return Err(EndpointError::Interrupted);
            }
        }
    }

    fn complete_once(
        &self,
        body: &str,
        left: Duration,
        whole: Duration,
    ) -> Result<String, EndpointError> {
        let response = self.send(body, Some(left), whole)?;
        let text = self.read_whole(response, whole)?;
        wire::answer(&text).map_err(|cause| self.bad_answer(&cause))
    }

    /// The answer to one message, told in pieces as it comes; there is no limit of time.
    /// `take` says whether more is wanted.
    ///
    /// # Errors
    /// When it is not whole: after all attempts, or at once where part of it has come.
    pub fn stream(
        &self,
        prompt: &str,
        interrupt: &Interrupt,
        take: &mut dyn FnMut(&Piece) -> bool,
    ) -> Result<String, BrokenOff> {
        let body = wire::streamed_request(&self.model, prompt);
        let mut pauses = PAUSES.iter();
        let mut text = String::new();
        loop {
            let mut told = false;
            let mut tell = |piece: &Piece| {
                told = true;
                if let Piece::Text(more) = piece {
                    text.push_str(more);
                }
                !interrupt.is_given() && take(piece)
            };
            let error = match self.stream_once(&body, &mut tell) {
                Ok(()) => return Ok(text),
                Err(error) => error,
            };
            // What has been told cannot be taken back.
            let pause = pauses.next().filter(|_| error.may_pass() && !told);
            let error = match pause {
                Some(pause) if !interrupt.wait(*pause) => continue,
                Some(_) => EndpointError::Interrupted,
                None => error,
            };
            return Err(BrokenOff { text, error });
        }
    }

    fn stream_once(
        &self,
        body: &str,
        tell: &mut dyn FnMut(&Piece) -> bool,
    ) -> Result<(), EndpointError> {
        let response = self.send(body, None, Duration::ZERO)?;
        let is_stream = response.body().mime_type() == Some("text/event-stream");
        if !is_stream {
            // An endpoint that does not stream answers whole.
            let text = self.read_whole(response, Duration::ZERO)?;
            let answer = wire::answer(&text).map_err(|cause| self.bad_answer(&cause))?;
            return match tell(&Piece::Text(answer)) {
                true => Ok(()),
                false => Err(EndpointError::Interrupted),
            };
        }
        let mut lines = BufReader::new(response.into_body().into_reader());
        let mut has_ended = false;
        loop {
            let mut line = Vec::new();
            let count = lines
                .by_ref()
                .take(MAX_STREAM_LINE)
                .read_until(b'\n', &mut line)
                .map_err(|error| self.of_io(&error, Duration::ZERO))?;
            if count == 0 {
                return match has_ended {
                    true => Ok(()),
                    false => Err(self.broken("it ended before the answer did")),
                };
            }
            if count as u64 == MAX_STREAM_LINE && !line.ends_with(b"\n") {
                return Err(self.bad_answer("a line of it is longer than 1 MiB"));
            }
            let event = wire::event(&line).map_err(|cause| match line.ends_with(b"\n") {
                true => self.bad_answer(&cause),
                false => self.broken("it ended within a line"),
            })?;
            let wire::Event::Pieces { pieces, ends } = event else {
                return Ok(());
            };
            has_ended |= ends;
            if !pieces.iter().all(&mut *tell) {
                return Err(EndpointError::Interrupted);
            }
        }
    }

    /// Sends a request; the response is one of the 200s.
    fn send(
        &self,
        body: &str,
        time: Option<Duration>,
        whole: Duration,
    ) -> Result<Response<Body>, EndpointError> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.config().timeout_global(time).build();
        let response = request
            .send(body)
            .map_err(|error| self.of_transport(error, whole))?;
        match response.status().as_u16() {
            200..300 => Ok(response),
            status => Err(self.refusal(status, response)),
        }
    }

    fn refusal(&self, status: u16, response: Response<Body>) -> EndpointError {
        let location = response.headers().get("location").cloned();
        let mut bytes = Vec::new();
        // Whatever of it can be read is better than nothing.
        let _ = response
            .into_body()
            .into_reader()
            .take(MAX_ERROR)
            .read_to_end(&mut bytes);
        let message = match location.as_ref().and_then(|to| to.to_str().ok()) {
            Some(to) => format!("it is somewhere else, at {to}: correct openai.base_url"),
            None => wire::error_message(&bytes),
        };
        let message = self.redactor.redact(&message).into_owned();
        let url = self.url.clone();
        match status {
            401 | 403 => EndpointError::Unauthorised {
                url,
                status,
                message,
                key_variable: self.key_variable.clone(),
                unset: match self.key {
                    Some(_) => "",
                    None => ", which is not set",
                },
            },
            _ => EndpointError::Status {
                url,
                status,
                message,
            },
        }
    }

    fn read_whole(
        &self,
        response: Response<Body>,
        whole: Duration,
    ) -> Result<String, EndpointError> {
        let mut bytes = Vec::new();
        response
            .into_body()
            .into_reader()
            .take(MAX_ANSWER + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.of_io(&error, whole))?;
        if bytes.len() as u64 > MAX_ANSWER {
            return Err(self.bad_answer("it is larger than 16 MiB"));
        }
        String::from_utf8(bytes).map_err(|_| self.bad_answer("it is not UTF-8"))
    }

    fn of_transport(&self, error: ureq::Error, whole: Duration) -> EndpointError {
        match error {
            ureq::Error::HostNotFound => self.unreachable("there is no host of that name"),
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                self.unreachable("nobody answers")
            }
            ureq::Error::ConnectionFailed => self.unreachable("the connection failed"),
            ureq::Error::Timeout(_) => self.timed_out(whole),
            ureq::Error::Io(error) => self.of_io(&error, whole),
            // Of a header: it may hold the key.
            ureq::Error::Http(_) => {
                self.bad_answer("the key holds characters that no header takes")
            }
            other => self.bad_answer(&other.to_string()),
        }
    }

    fn of_io(&self, error: &io::Error, whole: Duration) -> EndpointError {
        if let Some(ureq::Error::Timeout(_)) = inner(error) {
            return self.timed_out(whole);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => self.unreachable(&error.to_string()),
            io::ErrorKind::TimedOut => self.timed_out(whole),
            // A certificate that is not trusted, or no TLS at all.
            io::ErrorKind::InvalidData => self.bad_answer(&error.to_string()),
            _ => self.broken(&error.to_string()),
        }
    }

    fn unreachable(&self, cause: &str) -> EndpointError {
        EndpointError::Unreachable {
            url: self.url.clone(),
            cause: cause.to_owned(),
        }
    }

    fn broken(&self, cause: &str) -> EndpointError {
        EndpointError::Broken {
            url: self.url.clone(),
            cause: cause.to_owned(),
        }
    }

    fn bad_answer(&self, cause: &str) -> EndpointError {
        EndpointError::BadAnswer {
            url: self.url.clone(),
            cause: self.redactor.redact(cause).into_owned(),
        }
    }

    fn timed_out(&self, whole: Duration) -> EndpointError {
        EndpointError::TimedOut {
            url: self.url.clone(),
            seconds: whole.as_secs(),
        }
    }
}

/// The error of the client that stands in one of reading.
fn inner(error: &io::Error) -> Option<&ureq::Error> {
    error.get_ref()?.downcast_ref()
}

/// One connection for each request, so that none is found dead later.
fn agent(is_this_machine: bool) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_connections(0)
        .timeout_connect(Some(CONNECT_TIME))
        .user_agent(concat!("zsh-tool/", env!("CARGO_PKG_VERSION")));
    match is_this_machine {
        true => config.proxy(None).build().new_agent(),
        false => config.build().new_agent(),
    }
}

/// Whether a proxy has no business with it.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(base_url: &str) -> Settings {
        Settings {
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
    fn a_proxy_has_no_business_with_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.8.0.1", "[::1]", "LOCALHOST"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["example.com", "10.0.0.1", "localhost.example.com"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
