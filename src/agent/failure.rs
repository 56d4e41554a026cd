//! The class of an agent's failure, where it stands in words only.
//!
//! Pure. Limits: conservative. What an agent says of its work may well name a refused
//! connection; only what reads as the program's own error counts.

use super::activity::AgentError;

/// The last lines of stderr that are looked at: a program's error and its stack.
const LAST_LINES: usize = 40;

/// A final text that is an error message is short.
const LONGEST_ERROR: usize = 2_000;

/// How a final text begins that is an error message; in lower case.
const ERROR_STARTS: [&str; 9] = [
    "api error",
    "[api error",
    "error:",
    "failed to authenticate",
    "invalid api key",
    "unexpected status",
    "credit balance is too low",
    "not logged in",
    "litellm.",
];

/// Words of each class, in lower case, the surest class first.
const WORDS: [(AgentError, &[&str]); 3] = [
    (
        AgentError::ConnectionRefused,
        &[
            "connection refused",
            "connectionrefused",
            "econnrefused",
            "unable to connect to",
            "could not connect to",
            "failed to connect to",
            "cannot connect to",
            "connection failed",
            "connection error",
            "error sending request",
            "enotfound",
            "eai_again",
            "failed to resolve",
            "could not resolve host",
            "name or service not known",
            "network is unreachable",
            "no route to host",
        ],
    ),
    (
        AgentError::AuthFailed,
        &[
            "failed to authenticate",
            "authentication_error",
            "authentication failed",
            "authenticationerror",
            "invalid api key",
            "invalid x-api-key",
            "incorrect api key",
            "api key not valid",
            "missing api key",
            "no api key",
            "unauthenticated",
            "unauthorized",
            "permission_error",
            "please run /login",
            "not logged in",
            "set an auth method",
            "invalid auth method",
            "token has expired",
            "\"code\":401",
            "api error: 401",
            "api error: 403",
        ],
    ),
    (
        AgentError::ApiError,
        &[
            "api error",
            "apierror",
            "api_error",
            "overloaded",
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "internal server error",
            "internalservererror",
            "server_error",
            "insufficient_quota",
            "quota exceeded",
            "credit balance is too low",
            "high demand",
            "unexpected status",
        ],
    ),
];

/// The class of a failure that a program tells only on stderr or in its final text.
pub fn classify_failure(stderr: &str, final_text: &str) -> Option<AgentError> {
    let of_text = is_error_message(final_text).then(|| class_of(final_text));
    of_text.flatten().or_else(|| {
        // The newest line that tells, since programs try again.
        let lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
        lines.take(LAST_LINES).find_map(class_of)
    })
}

/// The class of what a program itself calls an error.
pub(super) fn class_of(message: &str) -> Option<AgentError> {
    let message = message.to_lowercase();
    let (class, _) = WORDS
        .iter()
        .find(|(_, words)| words.iter().any(|word| message.contains(word)))?;
    Some(*class)
}

fn is_error_message(text: &str) -> bool {
    let text = text.trim();
    let start = text
        .get(..text.floor_char_boundary(40))
        .unwrap_or_default()
        .to_lowercase();
    text.len() <= LONGEST_ERROR && ERROR_STARTS.iter().any(|known| start.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentError::{ApiError, AuthFailed, ConnectionRefused};

    #[test]
    fn errors_of_real_programs_are_told_apart() {
        for (stderr, text, expected) in [
            (
                "",
                "API Error: Unable to connect to API (ConnectionRefused)",
                ConnectionRefused,
            ),
            (
                "",
                "Failed to authenticate. API Error: 401 nope",
                AuthFailed,
            ),
            (
                "",
                "API Error: 529 nope. This is a server-side issue",
                ApiError,
            ),
            ("", "API Error: 400 nope", ApiError),
            (
                "",
                "unexpected status 401 Unauthorized: nope, url: http://h/v1",
                AuthFailed,
            ),
            (
                "",
                "[API Error: {\"error\":{\"code\":401,\"status\":\"UNAUTHENTICATED\"}}]",
                AuthFailed,
            ),
            (
                "",
                "litellm.InternalServerError: OpenAIException - Connection error.",
                ConnectionRefused,
            ),
            (
                "Please set an Auth method in your settings.json\n",
                "",
                AuthFailed,
            ),
            ("Invalid auth method selected.\n", "", AuthFailed),
            (
                "warning: old\nTypeError: fetch failed\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:1\n\n",
                "",
                ConnectionRefused,
            ),
            (
                "connect ECONNREFUSED, trying again\nError: 429 Too Many Requests\n",
                "",
                ApiError,
            ),
        ] {
            assert_eq!(
                classify_failure(stderr, text),
                Some(expected),
                "{stderr}{text}"
            );
        }
    }

    #[test]
    fn what_an_agent_says_of_its_work_is_no_failure_of_its_own() {
        for (stderr, text) in [
            ("", ""),
            (
                "",
                "The server answered with connection refused; I fixed the port.",
            ),
            ("", "Users were unauthorized: the API error is handled now."),
            ("Warning: 256-color support not detected.\n", "done"),
            ("error: one test failed\n", "I could not finish"),
        ] {
            assert_eq!(classify_failure(stderr, text), None, "{stderr}{text}");
        }
        let long = format!(
            "Error: handling, a report.\n{}",
            "connection refused\n".repeat(200)
        );
        assert_eq!(classify_failure("", &long), None);
        let long_ago = format!("ECONNREFUSED\n{}", "working\n".repeat(50));
        assert_eq!(classify_failure(&long_ago, ""), None);
    }
}
