//! How long one call may wait: a little less than its client waits for the answer.
//!
//! Pure. The setting `client_timeout` decides, otherwise the client's name. A call that the client
//! gave up lowers the ceiling of its later calls; under the name of an SDK, only those of the same
//! connection, since many programs share it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clients::{self, CODEX};
use crate::config::MAX_WAIT;
use crate::protocol::era::ClientInfo;

/// The share of the client's own limit by which a call returns before it …
const MARGIN_SHARE: u32 = 10;
/// … at least this …
const LEAST_MARGIN: Duration = Duration::from_millis(500);
/// … and at most this.
const MOST_MARGIN: Duration = Duration::from_secs(10);
/// A shorter limit of a client is taken for this one.
const SHORTEST_LIMIT: Duration = Duration::from_secs(3);
/// The shortest default of a program that uses an SDK: openai-agents 0.24 and autogen 0.7 (measured).
const SDK_LIMIT: Duration = Duration::from_secs(5);
/// How long a learned ceiling applies, in seconds.
const LEARNED_FOR_S: f64 = 30.0 * 24.0 * 3600.0;
/// The maximum number of clients in the file.
const MAX_LEARNED: usize = 100;

/// The reason that Codex 0.169 gives for every cancellation, both at its time limit and when a
/// person interrupts (recorded).
const CODEX_REASON: &str = "mcp request cancelled by caller";
/// Codex's time limits are mostly multiples of this many milliseconds …
const CODEX_STEP_MS: u128 = 5_000;
/// … and a cancellation arrives at most this late …
const CODEX_LATE_MS: u128 = 300;
/// … or this early, since on a busy machine the request took that long to arrive.
const CODEX_EARLY_MS: u128 = 100;

/// The longest wait of a call. `set` is the setting `client_timeout`.
pub(super) fn ceiling(
    client: &ClientInfo,
    takes_tasks: bool,
    set: Option<Duration>,
    learned: &[Learned],
) -> Duration {
    if let Some(limit) = set {
        return within(limit).min(MAX_WAIT);
    }
    let known = clients::known(client, takes_tasks).ceiling;
    let learned = learned.iter().find(|learned| learned.is_sure && learned.is_about(client));
    learned.map_or(known, |learned| known.min(learned.ceiling()))
}

/// The longest wait that fits into a client's own limit.
fn within(limit: Duration) -> Duration {
    let limit = limit.max(SHORTEST_LIMIT);
    let wait = limit.saturating_sub((limit / MARGIN_SHARE).clamp(LEAST_MARGIN, MOST_MARGIN));
    // Whole tenths, since people and models read it.
    Duration::from_millis(u64::try_from(wait.as_millis() / 100 * 100).unwrap_or(u64::MAX))
}

/// How long a client is taken to wait that has sent another call this long after one that it left
/// unanswered, without a cancellation.
pub(super) fn limit_of_given_up(waited: Duration) -> Duration {
    waited.min(SDK_LIMIT)
}

/// Whether the client cancelled a call because of its own time limit, and still wants the command
/// to run. `open_for` is the time since the request.
pub(super) fn is_timeout(client: &str, reason: Option<&str>, open_for: Duration) -> bool {
    let reason = reason.unwrap_or_default().to_lowercase();
    if client == CODEX && reason == CODEX_REASON {
        let ms = open_for.as_millis();
        let late = ms % CODEX_STEP_MS;
        return (ms >= CODEX_STEP_MS && late <= CODEX_LATE_MS)
            || late >= CODEX_STEP_MS - CODEX_EARLY_MS;
    }
    ["timed out", "timeout", "time-out", "time out"].iter().any(|words| reason.contains(words))
}

/// A call that timed out at the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Learned {
    pub(crate) name: String,
    pub(crate) version: String,
    /// How many seconds after the request.
    pub(crate) after_s: f64,
    /// When, in Unix seconds.
    pub(crate) at: f64,
    /// False if a person may have interrupted the call: then it does not count.
    pub(crate) is_sure: bool,
}

impl Learned {
    /// Records that the client gave a call up after this time.
    pub(super) fn new(client: &ClientInfo, after: Duration, at: f64) -> Learned {
        Learned {
            name: client.name.clone(),
            version: client.version.clone(),
            after_s: after.as_secs_f64(),
            at,
            is_sure: client.name != CODEX,
        }
    }

    /// Whether the same time limit can explain both.
    fn agrees(&self, other: &Learned) -> bool {
        (self.after_s - other.after_s).abs() * 1000.0 <= (CODEX_LATE_MS + CODEX_EARLY_MS) as f64
    }

    fn is_about(&self, client: &ClientInfo) -> bool {
        self.name == client.name && self.version == client.version
    }

    /// The longest wait of this client's calls.
    pub(super) fn ceiling(&self) -> Duration {
        within(Duration::try_from_secs_f64(self.after_s).unwrap_or_default())
    }
}

/// The entries of the file, newest first, without those that are unreadable or too old, or of no
/// program of its own.
pub(super) fn learned(content: &[u8], now: f64) -> Vec<Learned> {
    let entries: Vec<Value> = serde_json::from_slice(content).unwrap_or_default();
    let entries = entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok());
    let counts =
        |entry: &Learned| (now - entry.at).abs() <= LEARNED_FOR_S && !clients::is_sdk(&entry.name);
    entries.filter(counts).collect()
}

/// Adds a call that timed out. Of one client's calls, the shortest counts. An unsure call becomes
/// sure when the next call times out after the same time.
pub(super) fn learn(known: Vec<Learned>, mut new: Learned) -> Vec<Learned> {
    let is_same = |old: &Learned| old.name == new.name && old.version == new.version;
    let (same, others): (Vec<Learned>, Vec<Learned>) = known.into_iter().partition(is_same);
    let (sure, unsure): (Vec<Learned>, Vec<Learned>) =
        same.into_iter().partition(|old| old.is_sure);
    new.is_sure |= unsure.iter().any(|old| old.agrees(&new));
    let kept = if new.is_sure {
        new.after_s = sure.iter().map(|old| old.after_s).fold(new.after_s, f64::min);
        Vec::new()
    } else {
        sure
    };
    [vec![new], kept, others].concat().into_iter().take(MAX_LEARNED).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(name: &str) -> ClientInfo {
        ClientInfo { name: name.to_owned(), version: "1".to_owned() }
    }

    fn timed_out(name: &str, after_s: f64, at: f64) -> Learned {
        Learned { name: name.to_owned(), version: "1".to_owned(), after_s, at, is_sure: true }
    }

    #[test]
    fn the_setting_is_the_clients_own_limit() {
        for (set, seconds) in
            [(1, 2.5), (4, 3.5), (5, 4.5), (15, 13.5), (60, 54.0), (300, 290.0), (3600, 600.0)]
        {
            let set = Some(Duration::from_secs(set));
            let learned = [timed_out("x", 30.0, 0.0)];
            let ceiling = ceiling(&client("x"), false, set, &learned);
            assert_eq!(ceiling, Duration::from_secs_f64(seconds), "{set:?}");
        }
    }

    #[test]
    fn what_was_learned_lowers_the_ceiling_of_that_client_only() {
        let learned = [timed_out("claude-code", 60.0, 0.0), timed_out("x", 1.0, 0.0)];
        let ceiling = |name| ceiling(&client(name), false, None, &learned).as_secs_f64();
        assert_eq!((ceiling("claude-code"), ceiling("x"), ceiling("y")), (54.0, 2.5, 50.0));
        let newer = ClientInfo { version: "2".to_owned(), ..client("claude-code") };
        assert_eq!(super::ceiling(&newer, false, None, &learned).as_secs(), 600);
        let longer = [timed_out("codex-mcp-client", 900.0, 0.0)];
        assert_eq!(super::ceiling(&client(CODEX), false, None, &longer).as_secs(), 280);
    }

    #[test]
    fn the_shortest_call_that_timed_out_counts_for_thirty_days() {
        let day = 24.0 * 3600.0;
        let known = learn(vec![timed_out("x", 60.0, 0.0)], timed_out("y", 30.0, day));
        let known = learn(known, timed_out("x", 90.0, 2.0 * day));
        assert_eq!(known, [timed_out("x", 60.0, 2.0 * day), timed_out("y", 30.0, day)]);
        let kept = serde_json::to_vec(&known).expect("plain data");
        assert_eq!(learned(&kept, 31.0 * day), known);
        assert_eq!(learned(&kept, 31.5 * day), known[..1]);
        assert_eq!(learned(&kept, 33.0 * day), []);
    }

    #[test]
    fn under_the_name_of_an_sdk_nothing_is_kept() {
        let entries = vec![timed_out("mcp", 5.0, 0.0), timed_out("x", 5.0, 0.0)];
        let kept = serde_json::to_vec(&entries).expect("plain data");
        assert_eq!(learned(&kept, 0.0), entries[1..]);
    }

    #[test]
    fn codex_gives_one_reason_and_its_limits_are_whole_seconds() {
        let reason = Some("MCP request cancelled by caller");
        for (ms, expected) in [
            (5_001, true),
            (300_040, true),
            (299_995, true),
            (0, false),
            (50, false),
            (1_536, false),
            (5_022, true),
            (5_301, false),
            (299_899, false),
        ] {
            let open_for = Duration::from_millis(ms);
            assert_eq!(is_timeout(CODEX, reason, open_for), expected, "{ms}");
            assert!(!is_timeout("mcp", reason, open_for), "its words are a person's elsewhere");
        }
    }

    #[test]
    fn what_may_have_been_a_person_counts_once_it_repeats_itself() {
        let timed_out =
            |after_s| Learned::new(&client(CODEX), Duration::from_secs_f64(after_s), 0.0);
        let ceiling =
            |known: &[Learned]| super::ceiling(&client(CODEX), false, None, known).as_secs();
        let once = learn(Vec::new(), timed_out(60.01));
        assert_eq!(ceiling(&once), 280);
        let other = learn(once.clone(), timed_out(45.02));
        assert_eq!(ceiling(&other), 280);
        assert_eq!(ceiling(&learn(other, timed_out(60.01))), 280, "not in a row");
        let twice = learn(once, timed_out(60.2));
        assert_eq!((ceiling(&twice), twice.len()), (54, 1));
        let again = learn(twice, timed_out(30.0));
        assert_eq!((ceiling(&again), again.len()), (54, 2));
    }

    proptest! {
        #[test]
        fn any_file_is_read(content in prop::collection::vec(any::<u8>(), 0..200), now in 0.0..1e10f64) {
            learned(&content, now);
        }

        #[test]
        fn any_time_gives_a_ceiling(after_s in any::<f64>()) {
            let ceiling = ceiling(&client("x"), false, None, &[timed_out("x", after_s, 0.0)]);
            prop_assert!((within(SHORTEST_LIMIT)..=clients::UNKNOWN_CEILING).contains(&ceiling));
        }
    }
}
