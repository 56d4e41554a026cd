//! Splits an agent's stdout into records: JSON values, on one line or over several, and lines of
//! text.
//!
//! If a value turns out to be invalid, its lines become separate records and framing continues with
//! the line that revealed it, so that a broken record affects no other. Each byte is examined a
//! bounded number of times. Limits: a line longer than [`MAX_RECORD`] is cut, with a note, and is
//! then not JSON. Pure.

/// The longest record; agents write far shorter ones.
pub(crate) const MAX_RECORD: usize = 16 << 20;

/// How deep values may nest; the JSON parser has the same limit.
const MAX_DEPTH: usize = 127;

/// Ends a line that was cut.
const CUT_NOTE: &str = " [… the rest of this line is omitted: it is longer than 16 MiB]";

/// U+FEFF at the start of a stream, which some programs print.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The format of a program's stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// JSON values, on one line or over several, with other lines between them.
    Lines,
    /// Plain text; every line is a record.
    Plain,
}

/// A JSON value or a line of an agent's stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The unchanged text of a JSON object or array.
    Json(String),
    /// A line of text, without its line ending. Blank lines are records only with
    /// [`Framing::Plain`].
    Line(String),
}

/// Splits a stream of bytes into records.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    /// The bytes of the unfinished line, at most [`MAX_RECORD`].
    line: Vec<u8>,
    /// Whether bytes of that line were dropped.
    is_cut: bool,
    /// Whether a line has ended.
    is_begun: bool,
    /// The lines of the unfinished value.
    open: Vec<String>,
    open_bytes: usize,
    nesting: Nesting,
}

impl Framer {
    /// A framer at the start of a stream.
    pub fn new(framing: Framing) -> Framer {
        Framer {
            framing,
            line: Vec::new(),
            is_cut: false,
            is_begun: false,
            open: Vec::new(),
            open_bytes: 0,
            nesting: Nesting::new(),
        }
    }

    /// The records that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            self.keep(line);
            self.end_line(&mut records);
            rest = after.get(1..).unwrap_or_default();
        }
        self.keep(rest);
        records
    }

    /// The remaining records at the end of the stream.
    pub fn finish(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut records);
        }
        self.give_up(&mut records);
        records
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_RECORD - self.line.len();
        self.is_cut |= bytes.len() > room;
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.line.extend_from_slice(kept);
    }

    fn end_line(&mut self, records: &mut Vec<Record>) {
        let bytes = std::mem::take(&mut self.line);
        let is_cut = std::mem::take(&mut self.is_cut);
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let text = text_of(&bytes, is_first);
        match self.framing {
            _ if is_cut => {
                self.give_up(records);
                records.push(Record::Line(text + CUT_NOTE));
            }
            Framing::Plain => records.push(Record::Line(text)),
            Framing::Lines if self.open.is_empty() => self.outside_value(&text, records),
            Framing::Lines => self.within_value(text, records),
        }
    }

    /// Handles a line that does not continue a value.
    fn outside_value(&mut self, line: &str, records: &mut Vec<Record>) {
        let Some(tail) = complete_values(line, records) else {
            return;
        };
        let mut nesting = Nesting::new();
        match nesting.feed_line(tail) {
            Step::Open => {
                self.nesting = nesting;
                self.keep_open(tail.to_owned(), records);
            }
            Step::Complete(_) | Step::Broken => records.push(Record::Line(tail.to_owned())),
        }
    }

    /// Handles a line that continues the open value.
    fn within_value(&mut self, line: String, records: &mut Vec<Record>) {
        match self.nesting.feed_line(&line) {
            Step::Open => self.keep_open(line, records),
            Step::Broken => {
                self.give_up(records);
                self.outside_value(&line, records);
            }
            Step::Complete(end) => {
                let (last, rest) = line.split_at(end);
                let mut value = self.open.join("\n");
                value.push('\n');
                value.push_str(last);
                if is_json(&value) {
                    self.take_open();
                    records.push(Record::Json(value));
                } else {
                    self.give_up(records);
                    records.push(Record::Line(last.to_owned()));
                }
                self.outside_value(rest, records);
            }
        }
    }

    fn keep_open(&mut self, line: String, records: &mut Vec<Record>) {
        self.open_bytes += line.len() + 1;
        self.open.push(line);
        if self.open_bytes > MAX_RECORD {
            self.give_up(records);
        }
    }

    /// The open value is invalid: each of its lines becomes a record.
    fn give_up(&mut self, records: &mut Vec<Record>) {
        for line in self.take_open() {
            if let Some(tail) = complete_values(&line, records) {
                records.push(Record::Line(tail.to_owned()));
            }
        }
    }

    fn take_open(&mut self) -> Vec<String> {
        self.open_bytes = 0;
        std::mem::take(&mut self.open)
    }
}

/// A line without its carriage return. The first line also loses a byte order mark.
fn text_of(bytes: &[u8], is_first: bool) -> String {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let bytes = if is_first { bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes) } else { bytes };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Pushes the complete values at the beginning of a line. Returns the rest, unless it is blank.
fn complete_values<'a>(line: &'a str, records: &mut Vec<Record>) -> Option<&'a str> {
    let mut rest = line;
    loop {
        let value = rest.trim_start();
        if value.is_empty() {
            return None;
        }
        let Step::Complete(end) = Nesting::new().feed(value) else {
            return Some(rest);
        };
        let (value, after) = value.split_at(end);
        if !is_json(value) {
            return Some(rest);
        }
        records.push(Record::Json(value.to_owned()));
        rest = after;
    }
}

fn is_json(value: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok()
}

/// The state of a value after a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The value continues.
    Open,
    /// The value ends before this byte.
    Complete(usize),
    /// The value is invalid.
    Broken,
}

/// What may come next in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// The token that contains the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Text,
    Escape,
    /// A number, `true`, `false` or `null`; the JSON parser checks it later.
    Word,
}

/// Follows the structure of one object or array, byte by byte.
#[derive(Debug)]
struct Nesting {
    /// The closing bracket of each open object and array.
    closing: Vec<u8>,
    expects: Expects,
    within: Within,
}

impl Nesting {
    fn new() -> Nesting {
        Nesting { closing: Vec::new(), expects: Expects::Value, within: Within::Nothing }
    }

    /// Feeds a complete line, with its newline if the value continues after it.
    fn feed_line(&mut self, line: &str) -> Step {
        match self.feed(line) {
            Step::Open => self.feed("\n"),
            step => step,
        }
    }

    fn feed(&mut self, text: &str) -> Step {
        for (at, byte) in text.bytes().enumerate() {
            match self.byte(byte) {
                Step::Open => {}
                Step::Complete(_) => return Step::Complete(at + 1),
                Step::Broken => return Step::Broken,
            }
        }
        Step::Open
    }

    fn byte(&mut self, byte: u8) -> Step {
        match (self.within, byte) {
            // JSON strings contain no control characters: the value is broken.
            (Within::Text | Within::Escape, 0..=0x1f) => return Step::Broken,
            (Within::Escape, _) => self.within = Within::Text,
            (Within::Text, b'\\') => self.within = Within::Escape,
            (Within::Text, b'"') => self.end_text(),
            (Within::Text, _) => {}
            (Within::Word, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.') => {}
            (Within::Word | Within::Nothing, _) => {
                self.within = Within::Nothing;
                return self.structure(byte);
            }
        }
        Step::Open
    }

    fn end_text(&mut self) {
        self.within = Within::Nothing;
        self.expects = match self.expects {
            Expects::Key | Expects::KeyOrEnd => Expects::Colon,
            _ => Expects::CommaOrEnd,
        };
    }

    fn structure(&mut self, byte: u8) -> Step {
        use Expects::{Colon, CommaOrEnd, Key, KeyOrEnd, Value, ValueOrEnd};
        let closing = self.closing.last().copied();
        match (byte, self.expects, closing) {
            (b' ' | b'\t' | b'\r' | b'\n', ..) => {}
            (b'{', Value | ValueOrEnd, _) => return self.open(b'}', KeyOrEnd),
            (b'[', Value | ValueOrEnd, _) => return self.open(b']', ValueOrEnd),
            (_, KeyOrEnd | ValueOrEnd | CommaOrEnd, Some(closing)) if byte == closing => {
                return self.close();
            }
            (_, _, None) => return Step::Broken,
            (b'"', Value | ValueOrEnd | Key | KeyOrEnd, _) => self.within = Within::Text,
            (b':', Colon, _) => self.expects = Value,
            (b',', CommaOrEnd, Some(b'}')) => self.expects = Key,
            (b',', CommaOrEnd, _) => self.expects = Value,
            (b'-' | b'0'..=b'9' | b't' | b'f' | b'n', Value | ValueOrEnd, _) => {
                self.within = Within::Word;
                self.expects = CommaOrEnd;
            }
            _ => return Step::Broken,
        }
        Step::Open
    }

    fn open(&mut self, closing: u8, expects: Expects) -> Step {
        if self.closing.len() >= MAX_DEPTH {
            return Step::Broken;
        }
        self.closing.push(closing);
        self.expects = expects;
        Step::Open
    }

    fn close(&mut self) -> Step {
        self.closing.pop();
        self.expects = Expects::CommaOrEnd;
        if self.closing.is_empty() { Step::Complete(1) } else { Step::Open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(framing: Framing, bytes: &[u8]) -> Vec<Record> {
        let mut framer = Framer::new(framing);
        let mut records = framer.push(bytes);
        records.extend(framer.finish());
        records
    }

    fn lines(text: &str) -> Vec<Record> {
        frame(Framing::Lines, text.as_bytes())
    }

    fn json(text: &str) -> Record {
        Record::Json(text.to_owned())
    }

    fn line(text: &str) -> Record {
        Record::Line(text.to_owned())
    }

    #[test]
    fn one_value_a_line() {
        let text = "{\"a\":1}\n{\"b\":[{}]}\r\n\n[1,2]\n";
        let expected = [json("{\"a\":1}"), json("{\"b\":[{}]}"), json("[1,2]")];
        assert_eq!(lines(text), expected);
    }

    #[test]
    fn a_value_indented_over_many_lines() {
        let text = "start\n{\n  \"a\": [\n    1,\n    \"}\"\n  ]\n}\nend";
        let value = "{\n  \"a\": [\n    1,\n    \"}\"\n  ]\n}";
        assert_eq!(lines(text), [line("start"), json(value), line("end")]);
        let with_returns = text.replace('\n', "\r\n");
        assert_eq!(lines(&with_returns), lines(text));
    }

    #[test]
    fn values_that_share_a_line() {
        let text = "{\"a\":1}{\"b\":2} {\"c\":3} over\n{\"d\":\n4}{\"e\":5}\n";
        let expected = [
            json("{\"a\":1}"),
            json("{\"b\":2}"),
            json("{\"c\":3}"),
            line(" over"),
            json("{\"d\":\n4}"),
            json("{\"e\":5}"),
        ];
        assert_eq!(lines(text), expected);
    }

    #[test]
    fn text_that_resembles_json_is_text() {
        for text in [
            "[INFO] starting {",
            "{ braces }",
            "[1/3] building",
            "{'a': 1}",
            "{\"a\":nulL}",
            "{\"a\":01}",
            "}",
            "\"text\"",
            "42",
        ] {
            let after = format!("{text}\n{{\"a\":1}}");
            assert_eq!(lines(&after), [line(text), json("{\"a\":1}")], "{text}");
        }
    }

    #[test]
    fn a_broken_value_affects_no_other() {
        let torn_in_text = "{\"a\":\"tor\n{\"b\":1}\n";
        assert_eq!(lines(torn_in_text), [line("{\"a\":\"tor"), json("{\"b\":1}")]);
        // The next line could continue the broken value, until the line after it.
        let torn_in_structure = "{\"a\":\n{\"b\":1}\n{\"c\":2}\n";
        let expected = [line("{\"a\":"), json("{\"b\":1}"), json("{\"c\":2}")];
        assert_eq!(lines(torn_in_structure), expected);
        let at_the_end = "{\"c\":2}\n{\n \"a\": 1,\n";
        let expected = [json("{\"c\":2}"), line("{"), line(" \"a\": 1,")];
        assert_eq!(lines(at_the_end), expected);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_record() {
        assert_eq!(lines("\u{feff}{\"a\":1}"), [json("{\"a\":1}")]);
        assert_eq!(
            frame(Framing::Plain, "\u{feff}a\n\u{feff}b".as_bytes()),
            [line("a"), line("\u{feff}b")]
        );
    }

    #[test]
    fn plain_text_keeps_its_blank_lines() {
        let records = frame(Framing::Plain, b"a\r\n\n{\"b\":1}\nlast");
        let expected = [line("a"), line(""), line("{\"b\":1}"), line("last")];
        assert_eq!(records, expected);
    }

    #[test]
    fn a_line_of_five_mebibytes_is_kept_with_the_lines_after_it() {
        let long = format!("{{\"a\":\"{}\"}}", "é".repeat(5 << 19));
        let text = format!("{long}\n{{\"b\":1}}\n");
        let mut framer = Framer::new(Framing::Lines);
        let mut records = Vec::new();
        for part in text.as_bytes().chunks(4093) {
            records.extend(framer.push(part));
        }
        assert_eq!(records.len(), 2);
        assert_eq!(records, [json(&long), json("{\"b\":1}")]);
    }

    #[test]
    fn an_overlong_line_is_cut_with_a_note() {
        let mut framer = Framer::new(Framing::Lines);
        assert_eq!(framer.push(b"{\n"), []);
        for _ in 0..17 {
            assert_eq!(framer.push(&[b'x'; 1 << 20]), []);
            assert!(framer.line.len() <= MAX_RECORD);
        }
        let records = framer.push(b"\n{\"a\":1}\n");
        let [brace, cut, after] = records.as_slice() else {
            panic!("{} records", records.len());
        };
        assert_eq!(*brace, line("{"));
        let Record::Line(cut) = cut else {
            panic!("no line");
        };
        assert!(cut.ends_with(CUT_NOTE) && cut.len() == MAX_RECORD + CUT_NOTE.len());
        assert_eq!(*after, json("{\"a\":1}"));
    }

    #[test]
    fn a_value_that_never_ends_is_not_kept_forever() {
        let mut framer = Framer::new(Framing::Lines);
        let mut records = framer.push(b"{\"a\":[\n");
        let item = format!("\"{}\",\n", "x".repeat(1 << 20));
        for _ in 0..40 {
            records.extend(framer.push(item.as_bytes()));
            assert!(framer.open_bytes <= MAX_RECORD);
        }
        records.extend(framer.finish());
        assert_eq!(records.len(), 41);
    }

    #[test]
    fn hostile_nesting_takes_no_longer_than_its_length() {
        // Quadratic work would exceed the test's time limit.
        for hostile in ["[\n", "[\n{\n", "{\"a\":\n", "[[[[[[[[\n", "{\"a\":[\n{\"b\":1},\n"] {
            let text = hostile.repeat((512 << 10) / hostile.len());
            assert!(!lines(&text).is_empty());
        }
    }

    /// Bytes that often form and often break values.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"{\"a\":1}".to_vec()),
            Just(b"{\n \"b\": [\n  true\n ]\n}".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just("{\"ü\":\"\\\"}é\"}".as_bytes().to_vec()),
            Just(b"{\"torn\":\"".to_vec()),
            Just(b"[".to_vec()),
            Just(b"text".to_vec()),
            Just(b"\xef\xbb\xbf".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_records(
            bytes in hostile(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
            is_plain in any::<bool>(),
        ) {
            let framing = if is_plain { Framing::Plain } else { Framing::Lines };
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut framer = Framer::new(framing);
            let mut records = Vec::new();
            let mut from = 0;
            for cut in cuts {
                records.extend(framer.push(&bytes[from..cut]));
                from = cut;
            }
            records.extend(framer.finish());
            prop_assert_eq!(records, frame(framing, &bytes));
        }

        #[test]
        fn nothing_but_blanks_and_line_ends_is_lost(bytes in hostile()) {
            let visible = |text: &str| -> String {
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                text.chars().filter(|c| !c.is_whitespace()).collect()
            };
            let given = visible(&String::from_utf8_lossy(&bytes));
            let got: String = frame(Framing::Lines, &bytes)
                .iter()
                .map(|record| match record {
                    Record::Json(text) | Record::Line(text) => {
                        text.chars().filter(|c| !c.is_whitespace()).collect::<String>()
                    }
                })
                .collect();
            prop_assert_eq!(got, given);
        }

        #[test]
        fn a_whole_line_of_json_after_anything_is_found(bytes in hostile()) {
            // A stray line of text ends an open value first.
            let text = [bytes.as_slice(), b"\n]}stray\n{\"type\":\"result\"}\n"].concat();
            let records = frame(Framing::Lines, &text);
            prop_assert_eq!(records.last(), Some(&json("{\"type\":\"result\"}")));
        }
    }
}
