//! The wire format of requests and answers. Pure.
//!
//! Limits: reads only the text and the usage of answers, in the formats of known endpoints.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Bounds;
use crate::agent::json;
use crate::agent::usage::Usage;
use crate::text::lines::truncate;

/// How much of an error's message is kept, in characters.
const MAX_MESSAGE: usize = 300;

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// Part of the answer.
    Text(String),
    /// Part of the model's reasoning before the answer; a sign of life.
    Thought(String),
    /// What the answer cost, in tokens.
    Usage(Usage),
}

/// One line of a streamed answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Event {
    pub(crate) pieces: Vec<Piece>,
    /// Whether the model marks these pieces as the last.
    pub(crate) ends: bool,
}

/// How an answer is to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Whole(&'a Bounds),
    Stream {
        /// Whether to ask for the usage, which streams do not contain otherwise.
        with_usage: bool,
    },
}

/// The body of a request.
pub(super) fn request(model: &str, prompt: &str, form: Form<'_>) -> String {
    let messages = json!([{"role": "user", "content": prompt}]);
    let body = match form {
        Form::Whole(bounds) => json!({
            "model": model,
            "messages": messages,
            "max_tokens": bounds.max_tokens,
            "temperature": bounds.temperature,
        }),
        Form::Stream { with_usage: false } => {
            json!({"model": model, "messages": messages, "stream": true})
        }
        Form::Stream { with_usage: true } => json!({
            "model": model,
            "messages": messages,
            "stream": true,
            "stream_options": {"include_usage": true},
        }),
    };
    body.to_string()
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    usage: Value,
}

impl Answer {
    /// The error describes what is wrong; `wrong` begins it if the text cannot be parsed.
    fn parse(text: &str, wrong: &str) -> Result<Answer, String> {
        let answer: Answer =
            serde_json::from_str(text).map_err(|error| format!("{wrong}: {error}"))?;
        match &answer.error {
            Some(error) => Err(one_line(&message_of(error))),
            None => Ok(answer),
        }
    }

    fn usage(&self) -> Option<Piece> {
        let usage = Usage {
            input_tokens: json::count_at(&self.usage, &["prompt_tokens"]),
            output_tokens: json::count_at(&self.usage, &["completion_tokens"]),
            ..Usage::default()
        };
        usage.is_reported().then_some(Piece::Usage(usage))
    }
}

#[derive(Deserialize)]
struct Choice {
    #[serde(alias = "delta")]
    message: Option<Message>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

impl Content {
    fn into_text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

/// The text of a whole answer, and its usage. The error describes what is wrong with it.
pub(super) fn answer(text: &str) -> Result<Vec<Piece>, String> {
    let answer = Answer::parse(text, "it is not a completion")?;
    let usage = answer.usage();
    let message = answer.choices.into_iter().next().and_then(|choice| choice.message);
    let text = message.and_then(|message| message.content);
    let text = text.map(Content::into_text).filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| "it contains no text".to_owned())?;
    Ok([Piece::Text(text)].into_iter().chain(usage).collect())
}

/// Parses a line of an event stream; `None` if the stream has ended. The error describes what is
/// wrong with the line.
pub(super) fn event(line: &[u8]) -> Result<Option<Event>, String> {
    let line = String::from_utf8_lossy(line);
    // Comments, event names and empty lines carry no data.
    let data = line.strip_prefix("data:").unwrap_or_default().trim();
    if data == "[DONE]" {
        return Ok(None);
    }
    if data.is_empty() {
        return Ok(Some(Event::default()));
    }
    let answer = Answer::parse(data, "one of its lines is not JSON")?;
    let usage = answer.usage();
    let mut event = Event::default();
    if let Some(choice) = answer.choices.into_iter().next() {
        event.ends = choice.finish_reason.is_some();
        if let Some(message) = choice.message {
            event.pieces.extend(message.reasoning_content.map(Piece::Thought));
            event.pieces.extend(message.content.map(|text| Piece::Text(text.into_text())));
        }
    }
    event.pieces.retain(|piece| match piece {
        Piece::Text(text) | Piece::Thought(text) => !text.is_empty(),
        Piece::Usage(_) => true,
    });
    event.pieces.extend(usage);
    Ok(Some(event))
}

/// The message in an error's body, on one line.
pub(super) fn error_message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = match serde_json::from_str::<Value>(&text) {
        Ok(value) => message_of(value.get("error").unwrap_or(&value)),
        Err(_) => text.into_owned(),
    };
    match message.trim() {
        "" => "no reason given".to_owned(),
        message => one_line(message),
    }
}

/// `{"message": "…"}`, `{"detail": "…"}`, or a text.
fn message_of(error: &Value) -> String {
    let named = ["message", "detail", "error"].iter().find_map(|name| error.get(name)?.as_str());
    match named.or(error.as_str()) {
        Some(text) => text.to_owned(),
        None => error.to_string(),
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    truncate(&words.join(" "), MAX_MESSAGE).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(line: &str) -> Vec<Piece> {
        match event(line.as_bytes()) {
            Ok(Some(event)) => event.pieces,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn cost(input: u64, output: u64) -> Piece {
        let (input_tokens, output_tokens) = (Some(input), Some(output));
        Piece::Usage(Usage { input_tokens, output_tokens, ..Usage::default() })
    }

    #[test]
    fn an_answer_is_the_first_choices_text() {
        for (text, wanted) in [
            (r#"{"choices":[{"message":{"content":"B loop"}}]}"#, "B loop"),
            (
                r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"A"},
                   "finish_reason":"stop"},{"message":{"content":"other"}}],"usage":{}}"#,
                "A",
            ),
            (
                r#"{"choices":[{"message":{"content":[{"type":"text","text":"C "},{"text":"d"}]}}]}"#,
                "C d",
            ),
        ] {
            assert_eq!(answer(text), Ok(vec![Piece::Text(wanted.to_owned())]), "{text}");
        }
        let text = r#"{"choices":[{"message":{"content":"A"}}],
            "usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;
        assert_eq!(answer(text), Ok(vec![Piece::Text("A".to_owned()), cost(10, 5)]));
        for wrong in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"choices":[]}"#,
            r#"{"choices":[{"message":{"content":null}}]}"#,
            r#"{"choices":[{"message":{"content":" "}}]}"#,
        ] {
            assert!(answer(wrong).is_err(), "{wrong}");
        }
        let error = r#"{"error":{"message":"model \"x\" not found"}}"#;
        assert_eq!(answer(error), Err("model \"x\" not found".to_owned()));
    }

    #[test]
    fn a_stream_brings_text_thoughts_and_an_end() {
        let delta = |inner: &str| format!("data: {{\"choices\":[{{\"delta\":{inner}}}]}}\r\n");
        assert_eq!(pieces(&delta(r#"{"role":"assistant","content":""}"#)), []);
        assert_eq!(
            pieces(&delta(r#"{"content":" two words"}"#)),
            [Piece::Text(" two words".to_owned())]
        );
        assert_eq!(
            pieces(&delta(r#"{"reasoning_content":"hm","content":null}"#)),
            [Piece::Thought("hm".to_owned())]
        );
        for nothing in ["\n", ": keep-alive\n", "event: x\n", "data:\n", "data: {}\n"] {
            assert_eq!(pieces(nothing), [], "{nothing:?}");
        }
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}"#;
        assert_eq!(pieces(usage), [cost(10, 5)]);
        let last = br#"data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}"#;
        let ended = Event { pieces: Vec::new(), ends: true };
        assert_eq!(event(last), Ok(Some(ended)));
        assert_eq!(event(b"data:[DONE]\n"), Ok(None));
        assert_eq!(
            event(br#"data: {"error":{"message":"out of\nmemory"}}"#),
            Err("out of memory".to_owned())
        );
        assert!(event(b"data: {\"choices\"").is_err());
    }

    #[test]
    fn an_errors_message_is_found_in_every_usual_shape() {
        for (body, wanted) in [
            (r#"{"error":{"message":"no such model","code":1}}"#, "no such model"),
            (r#"{"error":"no such model"}"#, "no such model"),
            (r#"{"detail":"no such model"}"#, "no such model"),
            (r#"{"message":"no such model"}"#, "no such model"),
            ("no such\nmodel\n", "no such model"),
            ("", "no reason given"),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
        ] {
            assert_eq!(error_message(body.as_bytes()), wanted, "{body}");
        }
        let long = "é".repeat(10_000);
        assert_eq!(error_message(long.as_bytes()).chars().count(), MAX_MESSAGE + 1);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in any::<Vec<u8>>()) {
            let _ = event(&bytes);
            let _ = event(&[b"data: ".as_slice(), &bytes].concat());
            let _ = answer(&String::from_utf8_lossy(&bytes));
            error_message(&bytes);
        }
    }
}
