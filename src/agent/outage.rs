//! Failures of an agent's endpoint that pass by themselves, by what the agent says of them. Pure.

use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

use super::activity::AgentError;

/// How much of the end of a text is its error's message.
const MAX_MESSAGE: usize = 2_000;
/// Words of failures that no wait ends, in lower case.
const LASTING: [&str; 3] = ["insufficient_quota", "credit balance", "billing"];
/// Words of those that do.
const PASSING: [&str; 13] = [
    "rate limit",
    "rate_limit",
    "rate limited",
    "ratelimit",
    "too many requests",
    "overloaded",
    "internal server error",
    "internalservererror",
    "server_error",
    "unavailable",
    "high demand",
    "usage limit",
    "limit reached",
];

/// The HTTP codes of failures that pass: RFC 9110, RFC 6585 (429), and 529, with which Anthropic's
/// endpoint says that it is overloaded.
static CODE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b(408|425|429|500|502|503|504|529)\b").ok());
/// `retry-after: 30`, `try again in 2 minutes`, `Please retry after 1.5s`.
static AFTER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?:retry[-_ ]after|try again in|retry in)\W{0,4}(\d+(?:\.\d+)?)\s*(ms\b|milli|m\b|min|h\b|hour)?"#,
    )
    .ok()
});
/// `usage limit reached|1795861539`: when it ends, in Unix seconds.
static ENDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"limit reached\|(\d{10})\b").ok());

/// An outage that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    /// How long it lasts, if the endpoint says so.
    pub(crate) lasts: Option<Duration>,
}

/// The outage that an agent's error with this message is, if it is one. `now` is in Unix seconds.
pub(crate) fn of(error: AgentError, message: &str, now: f64) -> Option<Outage> {
    let begin = message.ceil_char_boundary(message.len().saturating_sub(MAX_MESSAGE));
    let message = message.get(begin..).unwrap_or_default();
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let matches =
        |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|it| it.is_match(&message));
    let passes = match error {
        AgentError::ConnectionRefused => true,
        AgentError::ApiError => !has(&LASTING) && (has(&PASSING) || matches(&CODE)),
        AgentError::AuthFailed | AgentError::ToolError => false,
    };
    passes.then(|| Outage { lasts: lasts(&message, now) })
}

fn lasts(message: &str, now: f64) -> Option<Duration> {
    if let Some(found) = ENDS.as_ref()?.captures(message) {
        let end: f64 = found.get(1)?.as_str().parse().ok()?;
        return Duration::try_from_secs_f64(end - now).ok();
    }
    let found = AFTER.as_ref()?.captures(message)?;
    let number: f64 = found.get(1)?.as_str().parse().ok()?;
    let unit = match found.get(2).map(|unit| unit.as_str()) {
        None => 1.0,
        Some("ms" | "milli") => 0.001,
        Some("m" | "min") => 60.0,
        Some(_) => 3_600.0,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentError::{ApiError, AuthFailed, ConnectionRefused, ToolError};

    #[test]
    fn outages_pass_and_other_errors_do_not() {
        let lasts = |seconds: f64| Some(Some(Duration::from_secs_f64(seconds)));
        for (error, message, expected) in [
            (ConnectionRefused, "connect ECONNREFUSED 127.0.0.1:1", Some(None)),
            (ApiError, "API Error: 529 Overloaded", Some(None)),
            (ApiError, "API Error: 503 {\"type\":\"error\"}", Some(None)),
            (ApiError, "litellm.RateLimitError: OpenAIException", Some(None)),
            (ApiError, "unexpected status 500 Internal Server Error", Some(None)),
            (ApiError, "Rate limit reached. Please try again in 20s.", lasts(20.0)),
            (ApiError, "429 Too Many Requests, retry-after: 3", lasts(3.0)),
            (ApiError, "rate_limit: please retry after 350ms", lasts(0.35)),
            (ApiError, "Too many requests; try again in 2 minutes", lasts(120.0)),
            (ApiError, "Claude AI usage limit reached|1795861539", lasts(39.0)),
            (ApiError, "API Error: 400 model not found", None),
            (ApiError, "429 insufficient_quota: check your billing", None),
            (ApiError, "the line 4290 is wrong", None),
            (AuthFailed, "401, retry-after: 3", None),
            (ToolError, "500 lines failed", None),
        ] {
            let found = of(error, message, 1_795_861_500.0).map(|outage| outage.lasts);
            assert_eq!(found, expected, "{message}");
        }
    }
}
