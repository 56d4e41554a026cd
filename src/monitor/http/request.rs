//! Parses the head of a request into a method, a path, a query and headers, or into a fault with its
//! status. Pure.
//!
//! Limits: HTTP/1.0 and 1.1, one request per connection. The target must be a path, and a body needs
//! a Content-Length (chunked bodies are refused with 411). All input is untrusted: nothing panics,
//! and ambiguous input is refused (two lengths, two hosts, folded headers, invalid percent
//! encoding).

use serde::{Deserialize, Serialize};

/// The maximum size of a request line and its headers, including the blank line, in bytes.
pub const MAX_HEAD: usize = 16 * 1024;
/// The maximum size of a body, in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// The maximum number of headers; browsers send about twenty.
const MAX_HEADERS: usize = 100;
/// The header that continues a stream of events.
const LAST_EVENT_ID: &str = "Last-Event-ID";
/// The names of a session's id in a query.
const SESSION_ID_PARAMETERS: [&str; 2] = ["sessionId", "session_id"];
/// The supported methods, as in the `Allow` header.
pub(crate) const METHODS: &str = "GET, HEAD, POST";

/// A request's method. HEAD becomes a GET whose answer has no body ([`Head::without_body`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// Reads.
    Get,
    /// Changes something.
    Post,
}

/// A whole request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub method: Method,
    segments: Vec<String>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    /// Empty when there is none.
    pub body: Vec<u8>,
}

impl Request {
    /// A request for the resource with this path.
    pub(crate) fn get(path: &[&str]) -> Request {
        Request {
            method: Method::Get,
            segments: path.iter().map(|segment| (*segment).to_owned()).collect(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// If an id in the path, the query or the body belongs to a task on a host: that host and the
    /// request to forward, which has the id there and no header but Last-Event-ID. `known` maps
    /// such an id to its host and its id there.
    pub(crate) fn split_off_host<H>(
        &self,
        known: impl Fn(&str) -> Option<(H, String)>,
    ) -> Option<(H, Request)> {
        let mut host = None;
        let mut strip = |id: &mut String| {
            if let Some((found, there)) = known(id) {
                host = Some(found);
                *id = there;
            }
        };
        let mut request = self.clone();
        request.headers.retain(|(name, _)| name.eq_ignore_ascii_case(LAST_EVENT_ID));
        request.segments.iter_mut().for_each(&mut strip);
        let ids = request.query.iter_mut();
        ids.filter(|(name, _)| SESSION_ID_PARAMETERS.contains(&name.as_str()))
            .for_each(|(_, id)| strip(id));
        if let Ok(mut body) = serde_json::from_slice::<serde_json::Value>(&request.body)
            && let Some(serde_json::Value::String(id)) = body.get_mut("sessionId")
        {
            strip(id);
            request.body = body.to_string().into_bytes();
        }
        host.map(|host| (host, request))
    }

    /// A request for this target (`/api/sessions?a=b`), without a body.
    fn of(method: Method, target: &str, headers: Vec<(String, String)>) -> Result<Request, Fault> {
        if !target.starts_with('/') {
            return Err(Fault::Malformed("the target must be a path"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments: Vec<String> = match path {
            "/" => Vec::new(),
            _ => path.split('/').skip(1).map(decoded).collect::<Result<_, _>>()?,
        };
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                // A plus sign means a blank in the query, but not in the path.
                let pair = pair.replace('+', " ");
                let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
                Ok((decoded(name)?, decoded(value)?))
            })
            .collect::<Result<_, Fault>>()?;
        Ok(Request { method, segments, query, headers, body: Vec::new() })
    }

    /// The segments of the path, each decoded separately, so that a segment may contain a slash. `/`
    /// has no segment; `/api/` has two, of which the second is empty.
    pub fn segments(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    /// The first value with this name in the query, decoded.
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, value) = self.query.iter().find(|(known, _)| known == name)?;
        Some(value)
    }

    /// The first header with this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    /// The values of all headers with this name.
    pub(crate) fn headers<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The value of a header that may occur at most once.
    fn only(&self, name: &str, fault: &'static str) -> Result<Option<&str>, Fault> {
        if self.headers(name).count() > 1 {
            return Err(Fault::Malformed(fault));
        }
        Ok(self.header(name))
    }
}

/// A request before its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The request, with an empty body.
    pub request: Request,
    /// The value of the Host header.
    pub host: String,
    /// The size of the body that follows, in bytes.
    pub body_length: usize,
    /// Whether the method was HEAD.
    pub(crate) without_body: bool,
}

/// Why a request cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not a valid request.
    #[error("{0}")]
    Malformed(&'static str),
    /// The method is not supported.
    #[error("only {METHODS} are supported")]
    Method,
    /// The body is chunked.
    #[error("a body needs a Content-Length; chunked bodies are not supported")]
    LengthRequired,
    /// The body exceeds [`MAX_BODY`].
    #[error("the body exceeds {MAX_BODY} bytes")]
    BodyTooLong,
    /// The head exceeds [`MAX_HEAD`], or there are too many headers.
    #[error("the request line and headers exceed {MAX_HEAD} bytes or {MAX_HEADERS} headers")]
    HeadTooLong,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("only HTTP/1.0 and HTTP/1.1 are supported")]
    Version,
}

impl Fault {
    /// The status of the response.
    pub fn status(self) -> u16 {
        match self {
            Fault::Malformed(_) => 400,
            Fault::Method => 405,
            Fault::LengthRequired => 411,
            Fault::BodyTooLong => 413,
            Fault::HeadTooLong => 431,
            Fault::Version => 505,
        }
    }
}

/// Parses a head from the bytes received so far. `None` means that more are needed;
/// otherwise returns the head and its length in bytes.
///
/// # Errors
/// When the request cannot be served.
pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD => return Err(Fault::HeadTooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::HeadTooLong),
        Err(httparse::Error::Version) => return Err(Fault::Version),
        Err(_) => return Err(Fault::Malformed("this is not an HTTP request")),
    };
    if length > MAX_HEAD {
        return Err(Fault::HeadTooLong);
    }
    head_of(&parsed).map(|head| Some((head, length)))
}

fn head_of(parsed: &httparse::Request) -> Result<Head, Fault> {
    let (method, without_body) = match parsed.method {
        Some("GET") => (Method::Get, false),
        Some("HEAD") => (Method::Get, true),
        Some("POST") => (Method::Post, false),
        _ => return Err(Fault::Method),
    };
    let headers = parsed.headers.iter().map(|header| {
        let value = String::from_utf8_lossy(header.value);
        (header.name.to_owned(), value.trim().to_owned())
    });
    let request = Request::of(method, parsed.path.unwrap_or_default(), headers.collect())?;
    let host = request
        .only("host", "there are several Host headers")?
        .ok_or(Fault::Malformed("a Host header is needed"))?
        .to_owned();
    let body_length = body_length(&request)?;
    Ok(Head { request, host, body_length, without_body })
}

fn body_length(request: &Request) -> Result<usize, Fault> {
    let length = request.only("content-length", "there are several Content-Length headers")?;
    if request.header("transfer-encoding").is_some() {
        return Err(match length {
            Some(_) => Fault::Malformed("Content-Length and Transfer-Encoding exclude each other"),
            None => Fault::LengthRequired,
        });
    }
    let Some(length) = length else {
        return Ok(0);
    };
    // `parse` would also accept a sign.
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Malformed("the Content-Length is not a number"));
    }
    match length.parse() {
        Ok(length) if length <= MAX_BODY => Ok(length),
        _ => Err(Fault::BodyTooLong),
    }
}

/// Decodes the percent encoding of a part of a target.
fn decoded(part: &str) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(Fault::Malformed("the target has invalid percent encoding"));
        };
        bytes.push((high << 4 | low) as u8);
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Fault::Malformed("the target does not decode to UTF-8"))?;
    if text.contains(char::is_control) {
        return Err(Fault::Malformed("the target contains a control character"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Result<Head, Fault> {
        let (head, length) = parse(text.as_bytes())?.expect("a whole head");
        assert_eq!(length, text.len());
        Ok(head)
    }

    /// A GET of this target.
    fn get(target: &str) -> Result<Request, Fault> {
        head(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).map(|head| head.request)
    }

    /// The fault of a head with these headers.
    fn fault(method: &str, headers: &str) -> Fault {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        head(&text).expect_err("a fault")
    }

    #[test]
    fn a_request_is_parsed() {
        let text = "POST /api/sessions/3dc8%2Fc9/events?wait_ms=5000&q=a+b%20c&flag HTTP/1.1\r\n\
                    Host: 127.0.0.1:8080\r\nLAST-event-id:  12 \r\nContent-Length: 5\r\n\r\n";
        let head = head(text).unwrap();
        let request = &head.request;
        assert_eq!(request.method, Method::Post);
        assert_eq!(request.segments(), ["api", "sessions", "3dc8/c9", "events"]);
        assert_eq!(request.query("wait_ms"), Some("5000"));
        assert_eq!(request.query("q"), Some("a b c"));
        assert_eq!(request.query("flag"), Some(""));
        assert_eq!(request.query("none"), None);
        assert_eq!(request.header("Last-Event-ID"), Some("12"));
        assert_eq!(head.host, "127.0.0.1:8080");
        assert_eq!(head.body_length, 5);
        assert!(!head.without_body);
    }

    #[test]
    fn a_head_that_is_not_whole_yet_is_waited_for() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
        let whole = text.find("GET /next").unwrap();
        for length in 0..whole {
            assert_eq!(parse(&text.as_bytes()[..length]), Ok(None), "{length}");
        }
        let (_, length) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(length, whole);
    }

    #[test]
    fn the_root_has_no_segments_and_a_trailing_slash_one_more() {
        assert_eq!(get("/").unwrap().segments(), [""; 0]);
        assert_eq!(get("/?x=1").unwrap().segments(), [""; 0]);
        assert_eq!(get("/api/").unwrap().segments(), ["api", ""]);
        assert_eq!(get("//api").unwrap().segments(), ["", "api"]);
        assert_eq!(get("/../../etc").unwrap().segments(), ["..", "..", "etc"]);
        assert_eq!(get("/a+b").unwrap().segments(), ["a+b"]);
    }

    #[test]
    fn a_target_that_is_no_path_is_refused() {
        for target in ["*", "http://127.0.0.1:80/a", "a/b", "?a=b", "é"] {
            assert!(matches!(get(target), Err(Fault::Malformed(_))), "{target}");
        }
    }

    #[test]
    fn percent_signs_that_encode_no_text_are_refused() {
        for target in ["/%", "/%4", "/%zz", "/%ff", "/%00", "/a%0ab", "/?a=%1", "/?%e9=1", "/%+1"] {
            assert!(matches!(get(target), Err(Fault::Malformed(_))), "{target}");
        }
        assert_eq!(get("/%C3%A9").unwrap().segments(), ["é"]);
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for headers in [
            "Host: b\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length:\r\n",
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "A: b\r\n folded\r\n",
            "A : b\r\n",
        ] {
            assert_eq!(fault("POST", headers).status(), 400, "{headers:?}");
        }
        let without_host = head("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(without_host.map_err(Fault::status), Err(400));
    }

    #[test]
    fn each_limit_has_its_status() {
        assert_eq!(fault("PUT", ""), Fault::Method);
        assert_eq!(fault("OPTIONS", ""), Fault::Method);
        assert_eq!(fault("get", ""), Fault::Method);
        assert_eq!(fault("POST", "Transfer-Encoding: chunked\r\n").status(), 411);
        assert_eq!(fault("POST", "Content-Length: 65537\r\n").status(), 413);
        let huge = format!("Content-Length: {}\r\n", "9".repeat(40));
        assert_eq!(fault("POST", &huge).status(), 413);
        let many: String = (0..MAX_HEADERS).map(|n| format!("A{n}: b\r\n")).collect();
        assert_eq!(fault("GET", &many).status(), 431);
        let long = format!("A: {}\r\n", "b".repeat(MAX_HEAD));
        assert_eq!(fault("GET", &long).status(), 431);
        let endless = "GET /".to_owned() + &"a".repeat(MAX_HEAD);
        assert_eq!(parse(endless.as_bytes()), Err(Fault::HeadTooLong));
        for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2"] {
            let text = format!("GET / {version}\r\nHost: a\r\n\r\n");
            assert_eq!(head(&text).map_err(Fault::status), Err(505), "{version}");
        }
        assert_eq!(parse(b"\x16\x03\x01 TLS\r\n\r\n").map_err(Fault::status), Err(400));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_request_of_odd_parts_makes_it_panic(
            method in "GET|POST|HEAD|[A-Z]{0,9}",
            target in "(/|http://)?[ -~é%?&=+#/]{0,60}",
            headers in prop::collection::vec(
                "(Host|Content-Length|Transfer-Encoding|[a-z]{1,5}): ?[ -~é]{0,20}",
                0..6,
            ),
        ) {
            let text = format!("{method} {target} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn every_path_survives_being_encoded(segments in prop::collection::vec("[^\\p{C}]{1,8}", 1..5)) {
            let encoded: String = segments
                .iter()
                .map(|segment| {
                    let bytes: String =
                        segment.bytes().map(|byte| format!("%{byte:02X}")).collect();
                    format!("/{bytes}")
                })
                .collect();
            let request = Request::of(Method::Get, &encoded, Vec::new()).unwrap();
            prop_assert_eq!(request.segments(), segments);
        }
    }
}
