//! A request as it arrives: the head's bytes become a method, a path, a query and
//! headers, or a fault with the status that answers it. Pure.
//!
//! Limits: HTTP/1.0 and 1.1; a body has a length told beforehand (chunked ones are refused
//! with 411), so that where the next request begins is never in doubt. What is read here
//! is untrusted to the last byte: nothing panics, and whatever can be read in two ways is
//! refused (two lengths, two hosts, folded headers, percent signs that encode nothing).

/// Bytes of a request line with its headers, the blank line included (progress.md §5).
pub const MAX_HEAD: usize = 16 * 1024;
/// Bytes of a body (progress.md §5).
pub const MAX_BODY: usize = 64 * 1024;
/// Headers of one request; browsers send about twenty.
const MAX_HEADERS: usize = 100;
/// The methods there are, as the `Allow` header names them.
pub const METHODS: &str = "GET, HEAD, POST";

/// What is to be done. HEAD is a GET whose answer has no body ([`Head::without_body`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// To read.
    Get,
    /// To change something.
    Post,
}

/// A whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// The path, percent signs decoded, for messages; [`Request::segments`] is for routing.
    pub path: String,
    segments: Vec<String>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    /// Empty when there is none.
    pub body: Vec<u8>,
}

impl Request {
    /// A request of this target (`/api/sessions?a=b`) and body without headers; for tests of
    /// routes.
    ///
    /// # Errors
    /// When the target is none.
    pub fn new(method: Method, target: &str, body: &[u8]) -> Result<Request, Fault> {
        let target = Target::parse(target)?;
        Ok(target.into_request(method, Vec::new(), body.to_vec()))
    }

    /// The path's parts between its slashes, each decoded by itself: a part may hold a
    /// slash. `/` has none; `/api/` has two, of which the second is empty.
    pub fn segments(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    /// The first value of a name in the query, decoded.
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, value) = self.query.iter().find(|(known, _)| known == name)?;
        Some(value)
    }

    /// The value of a header, by its name in any case; the first, where there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// How often a header stands there.
    pub fn count(&self, name: &str) -> usize {
        values(&self.headers, name).count()
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    values(headers, name).next()
}

fn values<'a>(headers: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// A request before its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// All but the body.
    pub request: Request,
    /// The host and port that the request is for: of its target where that is a whole URL,
    /// else of its `Host`.
    pub authority: String,
    /// Bytes of the body that follows.
    pub body_length: usize,
    /// It was HEAD.
    pub without_body: bool,
    /// The client would send another request on this connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

/// What can be wrong with a request before anybody looks at what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no request.
    #[error("{0}")]
    Malformed(&'static str),
    /// Of another method than there are.
    #[error("only {METHODS} are served")]
    Method,
    /// A chunked body.
    #[error("a body needs a Content-Length; chunked ones are not taken")]
    LengthRequired,
    /// A body beyond [`MAX_BODY`].
    #[error("a body has at most {MAX_BODY} bytes")]
    BodyTooLong,
    /// An expectation other than `100-continue`.
    #[error("the only expectation that is met is 100-continue")]
    Expectation,
    /// A head beyond [`MAX_HEAD`], or beyond the number of headers.
    #[error("a request line with its headers has at most {MAX_HEAD} bytes, {MAX_HEADERS} headers")]
    HeadTooLong,
    /// Not HTTP/1.0 or 1.1.
    #[error("only HTTP/1.0 and HTTP/1.1 are served")]
    Version,
}

impl Fault {
    /// The status that answers it.
    pub fn status(self) -> u16 {
        match self {
            Fault::Malformed(_) => 400,
            Fault::Method => 405,
            Fault::LengthRequired => 411,
            Fault::BodyTooLong => 413,
            Fault::Expectation => 417,
            Fault::HeadTooLong => 431,
            Fault::Version => 505,
        }
    }
}

/// Reads a head from what has arrived so far. `None`: more is needed. Else the head and
/// its length in bytes, after which the body begins.
///
/// # Errors
/// When it is not to be served; where the next request would begin is not known then.
pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD => return Err(Fault::HeadTooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::HeadTooLong),
        Err(httparse::Error::Version) => return Err(Fault::Version),
        Err(_) => return Err(Fault::Malformed("this is no HTTP request")),
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
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|header| {
            let value = String::from_utf8_lossy(header.value);
            (header.name.to_owned(), value.trim().to_owned())
        })
        .collect();
    let target = Target::parse(parsed.path.unwrap_or_default())?;
    let host = only(&headers, "host", "a request has one Host header at most")?;
    let authority = match (&target.authority, host) {
        (Some(authority), _) => authority.clone(),
        (None, Some(host)) => host.to_owned(),
        (None, None) => return Err(Fault::Malformed("a Host header is needed")),
    };
    let body_length = body_length(&headers)?;
    let is_new = parsed.version == Some(1);
    let expects_continue = match header(&headers, "expect") {
        Some(word) if word.eq_ignore_ascii_case("100-continue") => is_new && body_length > 0,
        Some(_) => return Err(Fault::Expectation),
        None => false,
    };
    Ok(Head {
        keep_alive: keeps_alive(&headers, is_new),
        request: target.into_request(method, headers, Vec::new()),
        authority,
        body_length,
        without_body,
        expects_continue,
    })
}

/// The value of a header that may stand there once.
fn only<'a>(
    headers: &'a [(String, String)],
    name: &'a str,
    fault: &'static str,
) -> Result<Option<&'a str>, Fault> {
    let mut found = values(headers, name);
    match (found.next(), found.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Fault::Malformed(fault)),
    }
}

fn body_length(headers: &[(String, String)]) -> Result<usize, Fault> {
    let length = only(headers, "content-length", "there are two Content-Lengths")?;
    if header(headers, "transfer-encoding").is_some() {
        return Err(match length {
            Some(_) => Fault::Malformed("Content-Length and Transfer-Encoding exclude each other"),
            None => Fault::LengthRequired,
        });
    }
    let Some(length) = length else {
        return Ok(0);
    };
    // Digits alone: `parse` by itself would take a sign.
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Malformed("the Content-Length is no number"));
    }
    match length.parse() {
        Ok(length) if length <= MAX_BODY => Ok(length),
        _ => Err(Fault::BodyTooLong),
    }
}

fn keeps_alive(headers: &[(String, String)], is_new: bool) -> bool {
    let says = |word: &str| {
        values(headers, "connection")
            .flat_map(|value| value.split(','))
            .any(|said| said.trim().eq_ignore_ascii_case(word))
    };
    match is_new {
        true => !says("close"),
        false => says("keep-alive"),
    }
}

/// A request target, decoded.
struct Target {
    /// Of a whole URL.
    authority: Option<String>,
    segments: Vec<String>,
    query: Vec<(String, String)>,
}

impl Target {
    fn parse(target: &str) -> Result<Target, Fault> {
        let (authority, rest) = match target.strip_prefix('/') {
            Some(_) => (None, target),
            None => absolute(target)?,
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let segments = match path {
            "" | "/" => Vec::new(),
            _ => path
                .split('/')
                .skip(1)
                .map(|segment| decoded(segment, Plus::IsPlus))
                .collect::<Result<_, _>>()?,
        };
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((
                    decoded(name, Plus::IsBlank)?,
                    decoded(value, Plus::IsBlank)?,
                ))
            })
            .collect::<Result<_, Fault>>()?;
        Ok(Target {
            authority,
            segments,
            query,
        })
    }

    fn into_request(
        self,
        method: Method,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Request {
        Request {
            method,
            path: format!("/{}", self.segments.join("/")),
            segments: self.segments,
            query: self.query,
            headers,
            body,
        }
    }
}

/// A whole URL as proxies send it: its authority, and what comes after.
fn absolute(target: &str) -> Result<(Option<String>, &str), Fault> {
    const FAULT: Fault = Fault::Malformed("the target is neither a path nor an http URL");
    const SCHEME: &str = "http://";
    let scheme = target.get(..SCHEME.len()).ok_or(FAULT)?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(FAULT);
    }
    let rest = target.get(SCHEME.len()..).unwrap_or_default();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority {
        "" => Err(FAULT),
        _ => Ok((Some(authority.to_owned()), path)),
    }
}

/// What a plus sign means: a blank in queries only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    IsPlus,
    IsBlank,
}

/// A part of a target with its percent signs decoded.
fn decoded(part: &str, plus: Plus) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = (
                    rest.next().and_then(hex_digit),
                    rest.next().and_then(hex_digit),
                );
                let (Some(high), Some(low)) = digits else {
                    return Err(Fault::Malformed(
                        "a percent sign of the target encodes nothing",
                    ));
                };
                high << 4 | low
            }
            b'+' if plus == Plus::IsBlank => b' ',
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Fault::Malformed("the target does not decode to UTF-8"))?;
    match text.contains(char::is_control) {
        true => Err(Fault::Malformed("the target holds a control character")),
        false => Ok(text),
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
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
    fn a_request_is_taken_apart() {
        let text = "POST /api/sessions/3dc8%2Fc9/events?wait_ms=5000&q=a+b%20c&flag HTTP/1.1\r\n\
                    Host: 127.0.0.1:8080\r\nLAST-event-id:  12 \r\nContent-Length: 5\r\n\r\n";
        let head = head(text).unwrap();
        let request = &head.request;
        assert_eq!(request.method, Method::Post);
        assert_eq!(request.path, "/api/sessions/3dc8/c9/events");
        assert_eq!(request.segments(), ["api", "sessions", "3dc8/c9", "events"]);
        assert_eq!(request.query("wait_ms"), Some("5000"));
        assert_eq!(request.query("q"), Some("a b c"));
        assert_eq!(request.query("flag"), Some(""));
        assert_eq!(request.query("none"), None);
        assert_eq!(request.header("Last-Event-ID"), Some("12"));
        assert_eq!(head.authority, "127.0.0.1:8080");
        assert_eq!(head.body_length, 5);
        assert!(head.keep_alive && !head.without_body && !head.expects_continue);
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
    fn a_target_may_be_a_whole_url_whose_host_counts() {
        let text = "GET http://127.0.0.1:80/a?b=c HTTP/1.1\r\nHost: evil\r\n\r\n";
        let head = head(text).unwrap();
        assert_eq!(head.authority, "127.0.0.1:80");
        assert_eq!(head.request.segments(), ["a"]);
        assert_eq!(head.request.query("b"), Some("c"));
        assert_eq!(get("HTTP://h").unwrap().segments(), [""; 0]);
        for target in [
            "*",
            "http://",
            "http:///a",
            "https://a/",
            "a/b",
            "ftp://a",
            "é",
        ] {
            assert!(matches!(get(target), Err(Fault::Malformed(_))), "{target}");
        }
    }

    #[test]
    fn percent_signs_that_encode_no_text_are_refused() {
        for target in [
            "/%", "/%4", "/%zz", "/%ff", "/%00", "/a%0ab", "/?a=%1", "/?%e9=1", "/%+1",
        ] {
            assert!(matches!(get(target), Err(Fault::Malformed(_))), "{target}");
        }
        assert_eq!(get("/%C3%A9").unwrap().path, "/é");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
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
        assert_eq!(
            fault("POST", "Transfer-Encoding: chunked\r\n").status(),
            411
        );
        assert_eq!(fault("POST", "Content-Length: 65537\r\n").status(), 413);
        let huge = format!("Content-Length: {}\r\n", "9".repeat(40));
        assert_eq!(fault("POST", &huge).status(), 413);
        assert_eq!(fault("POST", "Expect: a pony\r\n").status(), 417);
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
        assert_eq!(
            parse(b"\x16\x03\x01 TLS\r\n\r\n").map_err(Fault::status),
            Err(400)
        );
    }

    #[test]
    fn a_connection_is_kept_as_its_version_has_it() {
        let keeps = |version: &str, headers: &str| {
            let text = format!("GET / {version}\r\nHost: a\r\n{headers}\r\n");
            head(&text).unwrap().keep_alive
        };
        assert!(keeps("HTTP/1.1", ""));
        assert!(!keeps("HTTP/1.1", "Connection: x, Close\r\n"));
        assert!(!keeps("HTTP/1.0", ""));
        assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    }

    #[test]
    fn a_client_that_waits_to_send_its_body_is_told_to_go_on() {
        let expects = |version: &str, length: usize| {
            let text = format!(
                "POST / {version}\r\nHost: a\r\nExpect: 100-Continue\r\n\
                 Content-Length: {length}\r\n\r\n"
            );
            head(&text).unwrap().expects_continue
        };
        assert!(expects("HTTP/1.1", 3));
        assert!(!expects("HTTP/1.1", 0));
        assert!(!expects("HTTP/1.0", 3));
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
                "(Host|Content-Length|Expect|Connection|Transfer-Encoding|[a-z]{1,5}): ?[ -~é]{0,20}",
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
            let request = Request::new(Method::Get, &encoded, b"").unwrap();
            prop_assert_eq!(request.segments(), segments);
        }
    }
}
