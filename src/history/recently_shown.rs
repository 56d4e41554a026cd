//! Remembers the long texts that results have shown recently for each command, so that a retry
//! does not show the same text again: its caller has read it.
//!
//! Limits: one server only. Agents that share a server are not distinguished. Pure.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::alan::history::RETRY_WINDOW_MINUTES;

/// How long a text counts as read: while a run of the same command is a retry.
const LATELY: Duration = Duration::from_secs(RETRY_WINDOW_MINUTES as u64 * 60);
/// How many texts are remembered before old ones are forgotten, or all if none is old.
const MOST: usize = 4_096;

/// What was shown, and when.
#[derive(Debug, Default)]
pub(super) struct RecentlyShown {
    shown: HashMap<u64, Instant>,
}

impl RecentlyShown {
    /// Whether to show this text for the command with this hash; it then counts as shown.
    pub fn is_new(&mut self, command: &str, text: &str, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        (command, text).hash(&mut hasher);
        let key = hasher.finish();
        let is_lately = |at: &Instant| now.saturating_duration_since(*at) < LATELY;
        if self.shown.get(&key).is_some_and(is_lately) {
            return false;
        }
        if self.shown.len() >= MOST {
            self.shown.retain(|_, at| is_lately(at));
        }
        if self.shown.len() >= MOST {
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
    fn the_same_of_the_same_command_is_told_again_after_a_while() {
        let mut told = RecentlyShown::default();
        let now = Instant::now();
        assert!(told.is_new("a", "text", now));
        assert!(!told.is_new("a", "text", now + LATELY / 2));
        assert!(told.is_new("a", "another text", now));
        assert!(told.is_new("b", "text", now));
        assert!(told.is_new("a", "text", now + LATELY));
        assert!(!told.is_new("a", "text", now + LATELY + LATELY / 2));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut told = RecentlyShown::default();
        let now = Instant::now();
        for number in 0..3 * MOST {
            assert!(told.is_new("a", &number.to_string(), now));
            assert!(told.shown.len() <= MOST);
        }
    }
}
