//! Requests and answers as they are on the wire. Pure.
//!
//! Limits: reads what endpoints are known to answer, and nothing of it beyond the text.

use serde::Deserialize;
use serde_json::{Value, json};

/// Of an error's message, in characters.
const MAX_MESSAGE: usize = 300;

/// Part of an answer that comes in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Of the answer.
    Text(String),
    /// Of what the model thinks before it; a sign of life.
    Thought(String),
}

/// One line of an answer that comes in pieces.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// What it brings, and whether the model says that this is all.
    Pieces {
        /// What it brings; maybe nothing.
        pieces: Vec<Piece>,
        /// Whether it is the last one.
        ends: bool,
    },
    /// The stream is over.
    Done,
}

impl Event {
    fn nothing() -> Event {
        Event::Pieces {
            pieces: Vec::new(),
            ends: false,
        }
    }
}

/// A request for a short answer that comes whole.
pub(super) fn bounded_request(
    model: &str,
    prompt: &str,
    max_tokens: u32,
    temperature: f64,
) -> String {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": temperature,
    })
    .to_string()
}

/// A request for an answer that comes in pieces.
pub(super) fn streamed_request(model: &str, prompt: &str) -> String {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": true,
    })
    .to_string()
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    error: Option<Value>,
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

/// The text of an answer that came whole, or what is wrong with it.
pub(super) fn answer(text: &str) -> Result<String, String> {
    let answer: Answer =
        serde_json::from_str(text).map_err(|error| format!("it is no completion: {error}"))?;
    if let Some(error) = answer.error {
        return Err(shortened(&message_of(&error)));
    }
    let choice = answer.choices.into_iter().next();
    let message = choice.and_then(|choice| choice.message);
    let text = message.and_then(|message| message.content);
    text.map(Content::into_text)
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| "it holds no text".to_owned())
}

/// What a line of an event stream says, or what is wrong with it.
pub(super) fn event(line: &[u8]) -> Result<Event, String> {
    let line = String::from_utf8_lossy(line);
    // Comments, event names and empty lines say nothing.
    let Some(data) = line.strip_prefix("data:") else {
        return Ok(Event::nothing());
    };
    let data = data.trim();
    if data == "[DONE]" {
        return Ok(Event::Done);
    }
    if data.is_empty() {
        return Ok(Event::nothing());
    }
    let answer: Answer =
        serde_json::from_str(data).map_err(|error| format!("a line of it is no JSON: {error}"))?;
    if let Some(error) = answer.error {
        return Err(shortened(&message_of(&error)));
    }
    let Some(choice) = answer.choices.into_iter().next() else {
        return Ok(Event::nothing());
    };
    let ends = choice.finish_reason.is_some();
    let mut pieces = Vec::new();
    if let Some(message) = choice.message {
        pieces.extend(message.reasoning_content.map(Piece::Thought));
        pieces.extend(message.content.map(|text| Piece::Text(text.into_text())));
    }
    pieces.retain(|piece| match piece {
        Piece::Text(text) | Piece::Thought(text) => !text.is_empty(),
    });
    Ok(Event::Pieces { pieces, ends })
}

/// What an error's body says, on one line.
pub(super) fn error_message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = match serde_json::from_str::<Value>(&text) {
        Ok(value) => message_of(value.get("error").unwrap_or(&value)),
        Err(_) => text.into_owned(),
    };
    match message.trim() {
        "" => "no reason".to_owned(),
        message => shortened(message),
    }
}

/// `{"message": "…"}`, `{"detail": "…"}`, or a text.
fn message_of(error: &Value) -> String {
    let named = ["message", "detail", "error"]
        .iter()
        .find_map(|name| error.get(name)?.as_str());
    match named.or(error.as_str()) {
        Some(text) => text.to_owned(),
        None => error.to_string(),
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(line: &str) -> Vec<Piece> {
        match event(line.as_bytes()) {
            Ok(Event::Pieces { pieces, .. }) => pieces,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn an_answer_is_the_first_choices_text() {
        for (text, wanted) in [
            (
                r#"{"choices":[{"message":{"content":"B loop"}}]}"#,
                "B loop",
            ),
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
            assert_eq!(answer(text), Ok(wanted.to_owned()), "{text}");
        }
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
        for nothing in [
            "\n",
            ": keep-alive\n",
            "event: x\n",
            "data:\n",
            "data: {}\n",
        ] {
            assert_eq!(pieces(nothing), [], "{nothing:?}");
        }
        let last = br#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let ended = Event::Pieces {
            pieces: Vec::new(),
            ends: true,
        };
        assert_eq!(event(last), Ok(ended));
        assert_eq!(event(b"data:[DONE]\n"), Ok(Event::Done));
        assert_eq!(
            event(br#"data: {"error":{"message":"out of\nmemory"}}"#),
            Err("out of memory".to_owned())
        );
        assert!(event(b"data: {\"choices\"").is_err());
    }

    #[test]
    fn an_errors_message_is_found_in_every_usual_shape() {
        for (body, wanted) in [
            (
                r#"{"error":{"message":"no such model","code":1}}"#,
                "no such model",
            ),
            (r#"{"error":"no such model"}"#, "no such model"),
            (r#"{"detail":"no such model"}"#, "no such model"),
            (r#"{"message":"no such model"}"#, "no such model"),
            ("no such\nmodel\n", "no such model"),
            ("", "no reason"),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
        ] {
            assert_eq!(error_message(body.as_bytes()), wanted, "{body}");
        }
        let long = "é".repeat(10_000);
        assert_eq!(
            error_message(long.as_bytes()).chars().count(),
            MAX_MESSAGE + 1
        );
    }

    proptest! {
        #[test]
        fn nothing_that_an_endpoint_answers_panics(bytes in any::<Vec<u8>>()) {
            let _ = event(&bytes);
            let _ = event(&[b"data: ".as_slice(), &bytes].concat());
            let _ = answer(&String::from_utf8_lossy(&bytes));
            error_message(&bytes);
        }
    }
}
