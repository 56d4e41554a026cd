//! A client of a monitor: requests with its token, and event streams, over plain sockets, so that a
//! test sees what a browser would.
//!
//! Every wait has a deadline. Limits: other tests cover HTTP itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use super::client::PATIENCE;

/// A monitor's address and token.
pub struct Watcher {
    address: String,
    token: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

/// One event of a stream.
#[derive(Debug, Clone)]
pub struct Seen {
    pub id: Option<String>,
    pub name: String,
    pub data: Value,
}

impl Watcher {
    /// A watcher with the link that the monitor gives.
    pub fn of(link: &str) -> Watcher {
        let (page, token) = link.trim().split_once("#token=").expect("a token in the link");
        let address = page.strip_prefix("http://").expect("a page by HTTP");
        Watcher { address: address.trim_end_matches('/').to_owned(), token: token.to_owned() }
    }

    /// The answer to a GET.
    pub fn get(&self, target: &str) -> Answered {
        answered(self.ask("GET", target, "", None))
    }

    /// The answer to a reader that has already seen this event.
    pub fn get_after(&self, target: &str, last: &str) -> Answered {
        answered(self.ask("GET", target, &format!("Last-Event-ID: {last}\r\n"), None))
    }

    /// The answer to a POST.
    pub fn post(&self, target: &str, body: &Value) -> Answered {
        let body = body.to_string();
        answered(self.ask("POST", target, "", Some(&body)))
    }

    /// A stream of events, from the beginning or after an event.
    pub fn events(&self, target: &str, last: Option<&str>) -> Stream {
        let header = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let mut reader = self.ask("GET", target, &header, None);
        let head = head(&mut reader);
        assert!(head.contains("text/event-stream"), "{head}");
        Stream { reader }
    }

    fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &str,
        body: Option<&str>,
    ) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).expect("the monitor listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let body = body.unwrap_or_default();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\
             {headers}\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("the request is taken");
        BufReader::new(stream)
    }
}

fn head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        if line.trim().is_empty() {
            return head;
        }
        head.push_str(&line);
    }
}

fn answered(mut reader: BufReader<TcpStream>) -> Answered {
    let head = head(&mut reader);
    let mut body = String::new();
    reader.read_to_string(&mut body).expect("a whole answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answered {
        status: status.unwrap_or_else(|| panic!("no status in {head}")),
        body: serde_json::from_str(&body).unwrap_or_default(),
    }
}

/// A stream of events.
pub struct Stream {
    reader: BufReader<TcpStream>,
}

impl Stream {
    /// The next event; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Seen> {
        let deadline = Instant::now() + PATIENCE;
        let (mut id, mut name, mut data) = (None, String::new(), String::new());
        loop {
            assert!(Instant::now() < deadline, "no event in {PATIENCE:?}");
            let mut line = String::new();
            if self.reader.read_line(&mut line).expect("a line of an event") == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if let Some(value) = line.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            } else if let Some(value) = line.strip_prefix("data: ") {
                data.push_str(value);
            } else if line.is_empty() && !data.is_empty() {
                let data = serde_json::from_str(&data).expect("JSON");
                return Some(Seen { id, name, data });
            }
        }
    }

    /// The next event with this name.
    pub fn next_named(&mut self, name: &str) -> Seen {
        loop {
            let seen = self.next().unwrap_or_else(|| panic!("no event {name:?} comes"));
            if seen.name == name {
                return seen;
            }
        }
    }

    /// The text of all further outputs, with the id of the last one.
    pub fn output_to_end(&mut self) -> (String, String) {
        let (mut text, mut last) = (String::new(), String::new());
        while let Some(seen) = self.next() {
            if seen.name == "output" {
                text.push_str(seen.data["text"].as_str().unwrap_or_default());
                last = seen.id.expect("an output has an id");
            }
        }
        (text, last)
    }
}
