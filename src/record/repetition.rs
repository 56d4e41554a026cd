//! What this server's results have told at length of each command lately: word for word the
//! same is not told again so soon, since whoever runs a command again has read it.
//!
//! Limits: of one server. Agents that share it are not told apart. Pure.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::alan::history::RETRY_WINDOW_MINUTES;

/// So long is a run of the same command a retry, by whom the last one is remembered.
const LATELY: Duration = Duration::from_secs(RETRY_WINDOW_MINUTES as u64 * 60);
/// Texts that are remembered at most before old ones are forgotten, and all if none is old.
const MOST: usize = 4_096;

/// What was told, and when.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    told: HashMap<u64, Instant>,
}

impl Repetition {
    /// Whether this is to be told of the command with this hash; it counts as told then.
    pub fn is_new(&mut self, command: &str, text: &str, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        (command, text).hash(&mut hasher);
        let key = hasher.finish();
        let is_lately = |at: &Instant| now.saturating_duration_since(*at) < LATELY;
        if self.told.get(&key).is_some_and(is_lately) {
            return false;
        }
        if self.told.len() >= MOST {
            self.told.retain(|_, at| is_lately(at));
        }
        if self.told.len() >= MOST {
            self.told.clear();
        }
        self.told.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_of_the_same_command_is_told_again_after_a_while() {
        let mut told = Repetition::default();
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
        let mut told = Repetition::default();
        let now = Instant::now();
        for number in 0..3 * MOST {
            assert!(told.is_new("a", &number.to_string(), now));
            assert!(told.told.len() <= MOST);
        }
    }
}
