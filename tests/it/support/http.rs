//! An HTTP client that sends the test's bytes unchanged.
//!
//! Every read has a deadline. Limits: reads only answers that have a length or end with the
//! connection, as the server under test writes them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::client::PATIENCE;
use super::program::Program;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The head, including the status line.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The text of an error.
    pub fn error(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("JSON");
        body["error"].as_str().expect("an error").to_owned()
    }
}

/// A connection to a server.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Connection { reader: BufReader::new(stream) }
    }

    /// Sends these bytes; returns false if the server has stopped reading.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.reader.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// The next line, without its end; `None` when the server has closed.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no line: {error}"),
        }
    }

    /// The head of the next answer, up to the blank line.
    pub fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        loop {
            match self.line()?.as_str() {
                "" => return Some(head),
                line => head.push_str(&format!("{line}\n")),
            }
        }
    }

    /// The next answer, if there is one before the server closes.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET")
    }

    /// The next answer. An answer to HEAD has no body, whatever its length header.
    pub fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let head = self.head()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut answer = Answer {
            status: status.unwrap_or_else(|| panic!("no status: {head}")),
            head,
            body: String::new(),
        };
        let length: usize = match answer.header("Content-Length") {
            Some(length) if method != "HEAD" => length.parse().expect("a length"),
            _ => 0,
        };
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).expect("the whole body");
        answer.body = String::from_utf8(body).expect("UTF-8");
        Some(answer)
    }

    /// Waits until the server closes the connection, without sending more.
    pub fn assert_closed(&mut self) {
        assert_eq!(self.line(), None);
    }
}

/// A server's address and token.
#[derive(Debug, Clone)]
pub struct Site {
    pub address: SocketAddr,
    pub token: String,
}

impl Site {
    /// The site of a printed link.
    pub fn of_link(link: &str) -> Site {
        let rest = link.strip_prefix("http://").expect("an http link");
        let (address, token) = rest.split_once("/#token=").expect("a token");
        Site { address: address.parse().expect("an address"), token: token.to_owned() }
    }

    /// The site of a newly started `zsh-tool monitor`.
    pub fn of(program: &mut Program) -> Site {
        Site::of_link(&program.read_line())
    }

    /// A request with this line, these headers (each with its line end) and the Host header.
    pub fn request(&self, line: &str, headers: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.address)
    }

    /// The header with the token.
    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// The answer to a request on a new connection.
    pub fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut connection = Connection::open(self.address);
        // A refusal may arrive before the whole request is sent.
        connection.send(request);
        connection.answer().expect("an answer")
    }

    /// The answer to a GET with the token.
    pub fn get(&self, target: &str) -> Answer {
        self.ask(self.request(&format!("GET {target}"), &self.bearer()))
    }

    /// The answer to a POST with the token.
    pub fn post(&self, target: &str, body: &str) -> Answer {
        let headers = format!("{}Content-Length: {}\r\n", self.bearer(), body.len());
        let head = self.request(&format!("POST {target}"), &headers);
        self.ask(format!("{head}{body}"))
    }
}
