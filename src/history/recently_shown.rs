//! Remembers the long texts that results have recently shown for each command, so that a retry does
//! not repeat a text that its caller has read.
//!
//! Limits: covers one server, without distinguishing agents that share it. Pure.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::alan::history::RETRY_WINDOW_MINUTES;

/// How long a text counts as read: as long as a new run of the same command counts as a retry.
const READ_FOR: Duration = Duration::from_secs(RETRY_WINDOW_MINUTES as u64 * 60);
/// How many texts to remember before forgetting the old ones, or all if none is old.
const MAX_TEXTS: usize = 4_096;

/// Hashes of the shown texts, with the time when each was shown.
#[derive(Debug, Default)]
pub(super) struct RecentlyShown {
    shown: HashMap<u64, Instant>,
}

impl RecentlyShown {
    /// Whether to show this text for the command with this hash. If so, the text counts as shown.
    pub(super) fn is_new(&mut self, command_hash: &str, text: &str, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        (command_hash, text).hash(&mut hasher);
        let key = hasher.finish();
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < READ_FOR;
        if self.shown.get(&key).is_some_and(is_recent) {
            return false;
        }
        if self.shown.len() >= MAX_TEXTS {
            self.shown.retain(|_, at| is_recent(at));
        }
        if self.shown.len() >= MAX_TEXTS {
            self.shown.clear();
        }
        self.shown.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_text_is_shown_again_after_a_while() {
        let mut shown = RecentlyShown::default();
        let now = Instant::now();
        assert!(shown.is_new("a", "text", now));
        assert!(!shown.is_new("a", "text", now + READ_FOR / 2));
        assert!(shown.is_new("a", "another text", now));
        assert!(shown.is_new("b", "text", now));
        assert!(shown.is_new("a", "text", now + READ_FOR));
        assert!(!shown.is_new("a", "text", now + READ_FOR + READ_FOR / 2));
    }

    #[test]
    fn the_number_of_texts_is_bounded() {
        let mut shown = RecentlyShown::default();
        let now = Instant::now();
        for number in 0..3 * MAX_TEXTS {
            assert!(shown.is_new("a", &number.to_string(), now));
            assert!(shown.shown.len() <= MAX_TEXTS);
        }
    }
}
