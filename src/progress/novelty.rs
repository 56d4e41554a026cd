//! Decides whether an event is new or a repetition, by its kind and its words. A risen number makes
//! it new.
//!
//! Before two lines are compared, parts that change by themselves are removed: numbers, dates and
//! times, durations, pids in brackets, UUIDs, hexadecimal words, spinners and dots, the length of a
//! bar. A number or a bar that is higher than ever before makes the line new, except in a line that
//! reports a retry (`attempt 7`). In a line that reports a wait, only a number that counts parts of
//! a whole does (`1 of 3`).
//!
//! Memory is bounded by a ring of fixed size. Pure.

mod shape;
mod stamps;

use std::collections::VecDeque;
use std::hash::Hash;

use self::shape::{COUNTERS_PER_LINE, TIMES_PER_LINE};

/// How many distinct changes to remember. A remembered change, such as a repeated banner, is not
/// novel.
pub(crate) const FINGERPRINTS: usize = 200;
/// How many lines of one shape may follow a line whose duration has risen: timers that run side by
/// side have the same words and different times.
const SIDE_BY_SIDE: u8 = 20;

/// An event compared with earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Novel {
    New,
    Same,
    /// It is a repetition in which only a duration of at least seconds has risen:
    /// `Still creating... [40s elapsed]`. A time of day is not a duration.
    OnlyTime,
}

/// The most recent distinct changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Novelty {
    seen: VecDeque<Seen>,
}

impl Novelty {
    /// Adds the next event.
    pub(crate) fn add(&mut self, kind: impl Hash, payload: &str) -> Novel {
        let shape = shape::of(kind, payload);
        let mut seen = self.seen.iter_mut();
        if let Some(seen) = seen.find(|seen| seen.fingerprint == shape.fingerprint) {
            return seen.again(&shape);
        }
        let seen = Seen {
            fingerprint: shape.fingerprint,
            counters: shape.counters,
            times: shape.times,
            since_time_rose: SIDE_BY_SIDE,
        };
        keep(&mut self.seen, FINGERPRINTS, seen);
        Novel::New
    }
}

/// A remembered change, with the highest value of each of its numbers.
#[derive(Debug, Clone)]
struct Seen {
    fingerprint: u64,
    counters: [u64; COUNTERS_PER_LINE],
    times: [u64; TIMES_PER_LINE],
    /// How often it has occurred since one of its durations rose.
    since_time_rose: u8,
}

impl Seen {
    fn again(&mut self, shape: &shape::Shape) -> Novel {
        let counted = rise(&mut self.counters, &shape.counters);
        if rise(&mut self.times, &shape.times) {
            self.since_time_rose = 0;
        }
        let runs = self.since_time_rose < SIDE_BY_SIDE && shape.times.iter().any(|time| *time > 0);
        if runs {
            self.since_time_rose += 1;
        }
        match (counted, runs) {
            (true, _) => Novel::New,
            (false, true) => Novel::OnlyTime,
            (false, false) => Novel::Same,
        }
    }
}

/// Adds an item to a ring; drops the oldest beyond `capacity`.
pub(super) fn keep<T>(ring: &mut VecDeque<T>, capacity: usize, item: T) {
    if ring.len() >= capacity {
        ring.pop_front();
    }
    ring.push_back(item);
}

/// Whether a number is higher than ever; updates the highest values.
fn rise(highest: &mut [u64], numbers: &[u64]) -> bool {
    let mut rose = false;
    for (highest, number) in highest.iter_mut().zip(numbers) {
        rose |= number > highest;
        *highest = (*highest).max(*number);
    }
    rose
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive lines of programs, with the judgement of each: `N`ew, the `S`ame, or only
    /// `T`ime.
    const LINES: &[(&str, &[&str], &str)] = &[
        // Timers
        (
            "terraform",
            &[
                "aws_instance.web: Creating...",
                "aws_instance.web: Still creating... [10s elapsed]",
                "aws_instance.web: Still creating... [20s elapsed]",
                "aws_instance.web: Still creating... [1m0s elapsed]",
                "aws_instance.web: Creation complete after 1m5s [id=i-0a1b2c3d4e5f]",
            ],
            "NNTTN",
        ),
        (
            "terraform 1.9, several",
            &[
                "aws_instance.web[0]: Still creating... [00m10s elapsed]",
                "aws_instance.web[1]: Still creating... [00m10s elapsed]",
                "aws_instance.web[0]: Still creating... [00m20s elapsed]",
                "aws_instance.web[1]: Still creating... [00m20s elapsed]",
            ],
            "NSTT",
        ),
        (
            "docker compose",
            &[
                " ⠿ Container app-db-1  Waiting  3.5s",
                " ⠸ Container app-db-1  Waiting  4.5s",
                " ⠼ Container app-db-1  Waiting  5.5s",
            ],
            "NTT",
        ),
        (
            "apt",
            &[
                "Waiting for cache lock: /var/lib/dpkg/lock-frontend is held by process 4711 (apt)... 9/60s",
                "Waiting for cache lock: /var/lib/dpkg/lock-frontend is held by process 4711 (apt)... 10/60s",
                "Waiting for cache lock: /var/lib/dpkg/lock-frontend is held by process 4711 (apt)... 21/60s",
            ],
            "NTT",
        ),
        (
            "docker compose, healthy",
            &[" ⠿ Container app-db-1  Waiting  3.5s", " ✔ Container app-db-1  Healthy  5.6s"],
            "NN",
        ),
        (
            "gcloud",
            &[
                "Waiting for operation to complete... elapsed 00:00:10",
                "Waiting for operation to complete... elapsed 00:00:20",
            ],
            "NT",
        ),
        (
            "aws cloudformation",
            &["still running (5 min 10 sec)", "still running (5 min 40 sec)"],
            "NT",
        ),
        (
            "ansible",
            &[
                "ASYNC POLL on host1: jid=j318405.4711 running for 2 minutes",
                "ASYNC POLL on host1: jid=j318405.4711 running for 3 minutes",
            ],
            "NT",
        ),
        (
            "bazel",
            &[
                "    Compiling src/main.cc; 12s linux-sandbox",
                "    Compiling src/main.cc; 22s linux-sandbox",
            ],
            "NT",
        ),
        (
            "cargo test",
            &[
                "test slow::sync has been running for over 60 seconds",
                "test slow::sync has been running for over 60 seconds",
                "test slow::other has been running for over 60 seconds",
            ],
            "NSN",
        ),
        ("npm, a spinner and a timer", &["⠙ reify (12s)", "⠹ reify (13s)", "⠸ reify (14s)"], "NTT"),
        // What measures itself is no timer
        ("vite", &["page reload in 120ms", "page reload in 240ms", "page reload in 130ms"], "NSS"),
        // Stamps
        (
            "a log",
            &[
                "2026-11-22 12:00:01,123 INFO waiting for db",
                "2026-11-22 12:00:02,123 INFO waiting for db",
                "2026-11-22 12:00:03,124 INFO connected",
            ],
            "NSN",
        ),
        ("time of day", &["12:00:01 waiting for db", "12:00:02 waiting for db"], "NS"),
        (
            "ISO 8601",
            &[
                "[2026-11-22T12:00:01.000Z] poll: pending",
                "[2026-11-22T12:00:02.100Z] poll: pending",
                "[2026-11-22T12:00:03Z] poll: pending",
            ],
            "NSS",
        ),
        (
            "logrus",
            &[
                r#"time="2026-11-22T12:00:01+01:00" level=info msg="still syncing""#,
                r#"time="2026-11-22T12:00:31+01:00" level=info msg="still syncing""#,
            ],
            "NS",
        ),
        (
            "pino",
            &[
                r#"{"level":30,"time":1763816401123,"pid":4711,"msg":"no job"}"#,
                r#"{"level":30,"time":1763816406124,"pid":4711,"msg":"no job"}"#,
            ],
            "NS",
        ),
        ("epoch", &["1763816401 idle", "1763816402 idle", "1763816402.5 idle"], "NSS"),
        (
            "an access log",
            &[
                r#"127.0.0.1 - - [22/Nov/2026:12:00:01 +0000] "GET /health HTTP/1.1" 200 2"#,
                r#"127.0.0.1 - - [22/Nov/2026:12:00:11 +0000] "GET /health HTTP/1.1" 200 2"#,
            ],
            "NS",
        ),
        (
            "syslog",
            &[
                "Nov 22 12:00:01 host sshd[4711]: Connection closed by 10.0.0.5",
                "Nov 22 12:00:09 host sshd[4790]: Connection closed by 10.0.0.5",
            ],
            "NS",
        ),
        (
            "systemd",
            &[
                "Nov 22 12:00:01 host systemd[1]: app.service: Scheduled restart job, restart counter is at 4.",
                "Nov 22 12:00:11 host systemd[1]: Started app.service - Application.",
                "Nov 22 12:00:12 host systemd[1]: Started app.service - Application.",
            ],
            "NNS",
        ),
        (
            "dmesg",
            &[
                "[ 1012.345678] usb 1-1: device descriptor read/64, error -71",
                "[ 1013.145678] usb 1-1: device descriptor read/64, error -71",
            ],
            "NS",
        ),
        ("date", &["Sun Nov 22 21:24:14 UTC 2026", "Sun Nov 22 21:24:15 UTC 2026"], "NS"),
        ("a backup's name", &["skipped 20261122T120001Z", "skipped 20261122T130002Z"], "NS"),
        (
            "a compact stamp",
            &["20261122-120001 nothing to do", "20261122-120501 nothing to do"],
            "NS",
        ),
        // Identifiers
        (
            "requests by UUID",
            &[
                "request f81d4fae-7dec-11d0-a765-00a0c91e6bf6 rejected",
                "request 0b2c4711-1dec-41d0-b765-10a0c91e6bf7 rejected",
            ],
            "NS",
        ),
        ("addresses", &["object at 0x7f1c2a9d0, leaked", "object at 0x7f1c2b8e1, leaked"], "NS"),
        ("commits", &["HEAD is at 42ba7d8, nothing new", "HEAD is at fd511b9, nothing new"], "NS"),
        (
            "a worker that is started again",
            &["app[311]: worker died", "app[322]: worker died"],
            "NS",
        ),
        // Tries
        ("attempts", &["Attempt 1 failed", "Attempt 2 failed", "Attempt 3 failed"], "NSS"),
        (
            "attempts of ten",
            &["waiting for db (attempt 1/10)", "waiting for db (attempt 2/10)"],
            "NS",
        ),
        ("tries", &["try #1: no", "try #2: no", "try 3: no"], "NSN"),
        (
            "retries of logfmt",
            &[
                "level=warn msg=\"cannot dial\" retry=1 backoff=1s",
                "level=warn msg=\"cannot dial\" retry=2 backoff=2s",
                "level=warn msg=\"cannot dial\" retry=3 backoff=4s",
            ],
            "NSS",
        ),
        ("backoff", &["Retrying in 2s...", "Retrying in 4s...", "Retrying in 8 seconds..."], "NSS"),
        (
            "ssh",
            &[
                "ssh: connect to host 10.0.0.7 port 22: Connection refused",
                "ssh: connect to host 10.0.0.7 port 22: Connection refused",
            ],
            "NS",
        ),
        (
            "ssh, reconnecting",
            &["client_loop: send disconnect: Broken pipe", "reconnecting (1)", "reconnecting (2)"],
            "NNS",
        ),
        (
            "curl",
            &[
                "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server",
                "curl: (7) Failed to connect to localhost port 8080 after 2045 ms: Couldn't connect to server",
            ],
            "NS",
        ),
        (
            "curl --retry",
            &[
                "Warning: Problem: connection refused. Will retry in 1 second. 5 retries left.",
                "Warning: Problem: connection refused. Will retry in 2 seconds. 4 retries left.",
            ],
            "NS",
        ),
        ("wget", &["(try: 2) => 'index.html'", "(try: 3) => 'index.html'"], "NS"),
        (
            "pg_isready",
            &[
                "/var/run/postgresql:5432 - no response",
                "/var/run/postgresql:5432 - no response",
                "/var/run/postgresql:5432 - accepting connections",
            ],
            "NSN",
        ),
        (
            "ping",
            &[
                "From 10.0.0.1 icmp_seq=1 Destination Host Unreachable",
                "From 10.0.0.1 icmp_seq=2 Destination Host Unreachable",
            ],
            "NS",
        ),
        (
            "ping that gets answers",
            &[
                "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.045 ms",
                "64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=0.041 ms",
            ],
            "NN",
        ),
        ("a time-out", &["request 1 timed out", "request 2 timed out"], "NS"),
        (
            "node",
            &[
                "Error: connect ECONNREFUSED 127.0.0.1:6379 (1)",
                "Error: connect ECONNREFUSED 127.0.0.1:6379 (2)",
            ],
            "NS",
        ),
        (
            "connection reset",
            &["read 10 bytes, connection reset", "read 20 bytes, connection reset"],
            "NS",
        ),
        // Waits
        (
            "a loop that counts",
            &["Waiting for db... 1", "Waiting for db... 2", "Waiting for db... 3"],
            "NSS",
        ),
        ("not ready", &["3: not ready", "4: not ready"], "NS"),
        ("sleeping", &["sleeping 1", "sleeping 2"], "NS"),
        (
            "kubectl rollout status",
            &[
                "Waiting for deployment \"web\" rollout to finish: 0 of 3 updated replicas are available...",
                "Waiting for deployment \"web\" rollout to finish: 1 of 3 updated replicas are available...",
                "Waiting for deployment \"web\" rollout to finish: 1 of 3 updated replicas are available...",
                "deployment \"web\" successfully rolled out",
            ],
            "NNSN",
        ),
        (
            "kubectl wait",
            &[
                "error: timed out waiting for the condition on pods/web-0",
                "error: timed out waiting for the condition on pods/web-0",
                "pod/web-0 condition met",
            ],
            "NSN",
        ),
        (
            "kubectl get -w",
            &[
                "web-0   0/1   ContainerCreating   0   12s",
                "web-0   0/1   ContainerCreating   0   22s",
                "web-0   1/1   Running             0   25s",
            ],
            "NTN",
        ),
        (
            "helm",
            &[
                "wait.go:48: beginning wait for 5 resources with timeout of 5m0s",
                "ready.go:277: Deployment is not ready: default/web. 0 out of 1 expected pods are ready",
                "ready.go:277: Deployment is not ready: default/web. 0 out of 1 expected pods are ready",
            ],
            "NNS",
        ),
        // Spinners, dots, bars
        (
            "webpack",
            &["<s> [webpack.Progress] 10% building", "<s> [webpack.Progress] 42% building"],
            "NN",
        ),
        ("ora", &["⠋ Building", "⠙ Building", "⠹ Building", "✔ Built"], "NSSN"),
        (
            "a spinner of four characters",
            &["| working", "/ working", "- working", "\\ working"],
            "NSSS",
        ),
        ("the same in brackets", &["[|] working", "[/] working", "[-] working"], "NSS"),
        ("squares and moons", &["◐ fetching", "◓ fetching", "🌒 fetching", "fetching 🌓"], "NSSS"),
        ("dots", &["waiting", "waiting.", "waiting..", "waiting...", "waiting…"], "NSSSS"),
        ("nothing but dots", &[".", "..", "....."], "NSS"),
        ("a bar that bounces", &["[    =]", "[   = ]", "[  =  ]", "[=    ]", "[    =]"], "NSSSS"),
        ("a bar that stays", &["[==>   ] copying", "[==>   ] copying"], "NS"),
        ("a bar that grows", &["[=>    ] copying", "[==>   ] copying", "[=====>] copying"], "NNN"),
        (
            "wget's bar",
            &[
                "index.html   10%[=>          ]   1.02M  1.1MB/s    eta 9s",
                "index.html   25%[==>         ]   2.55M  1.1MB/s    eta 7s",
                "index.html   25%[==>         ]   2.55M  --.-KB/s   eta 7s",
            ],
            "NNN",
        ),
        (
            "curl -#",
            &[
                "##########                      30.5%",
                "###########                     33.1%",
                "###########                     33.1%",
            ],
            "NNS",
        ),
        (
            "pip",
            &[
                "   ━━━━━╸━━━━━━━━━ 1.2/3.4 MB 2.1 MB/s eta 0:00:02",
                "   ━━━━━━━━━━╸━━━━ 2.4/3.4 MB 2.1 MB/s eta 0:00:01",
            ],
            "NN",
        ),
        (
            "tqdm",
            &[
                " 45%|████▌     | 45/100 [00:12<00:15,  3.6it/s]",
                " 45%|████▌     | 45/100 [00:22<00:25,  3.6it/s]",
                " 46%|████▌     | 46/100 [00:23<00:25,  3.6it/s]",
            ],
            "NSN",
        ),
        // Work
        (
            "cargo",
            &[
                "   Compiling serde v1.0.219",
                "   Compiling syn v2.0.101",
                "   Compiling serde v1.0.219",
            ],
            "NNS",
        ),
        ("make", &["  CC      kernel/fork.o", "  CC      kernel/exit.o"], "NN"),
        (
            "ninja",
            &["[12/100] Linking CXX executable app", "[13/100] Linking CXX executable app"],
            "NN",
        ),
        (
            "npm",
            &[
                "npm http fetch GET 200 https://r/left-pad 24ms",
                "npm http fetch GET 200 https://r/chalk 31ms",
            ],
            "NN",
        ),
        (
            "pip, several packages",
            &[
                "Collecting numpy",
                "Collecting scipy",
                "Attempting uninstall: numpy",
                "Attempting uninstall: scipy",
            ],
            "NNNN",
        ),
        (
            "apt",
            &[
                "Get:1 http://mirror.example/debian bookworm/main amd64 libc6 amd64 2.36-9 [2756 kB]",
                "Get:2 http://mirror.example/debian bookworm/main amd64 zsh amd64 5.9-4 [870 kB]",
            ],
            "NN",
        ),
        (
            "rsync",
            &[
                "     32,768   0%    0.00kB/s    0:00:00",
                "  1,999,872  10%    1.90MB/s    0:00:09",
                "  2,031,616  10%    1.90MB/s    0:00:09",
            ],
            "NNN",
        ),
        (
            "dd",
            &[
                "1610612736 bytes (1.6 GB, 1.5 GiB) copied, 12 s, 134 MB/s",
                "1744830464 bytes (1.7 GB, 1.6 GiB) copied, 13 s, 134 MB/s",
            ],
            "NN",
        ),
        (
            "ffmpeg",
            &[
                "frame=  240 fps= 30 q=28.0 size=    1024kB time=00:00:08.00 bitrate=1048.6kbits/s speed=1x",
                "frame=  270 fps= 30 q=28.0 size=    1152kB time=00:00:09.00 bitrate=1048.6kbits/s speed=1x",
            ],
            "NN",
        ),
        (
            "git",
            &[
                "Receiving objects:  41% (41/100), 1.20 MiB | 1.10 MiB/s",
                "Receiving objects:  42% (42/100), 1.20 MiB | 1.10 MiB/s",
            ],
            "NN",
        ),
        ("thousands", &["1,999 rows", "2,000 rows", "2,001 rows"], "NNN"),
        ("training", &["epoch 1.9 loss 0.31", "epoch 2.0 loss 0.29", "epoch 2.0 loss 0.28"], "NNS"),
        (
            "pytest",
            &[
                "tests/test_timeout.py::test_a PASSED [ 10%]",
                "tests/test_timeout.py::test_a PASSED [ 20%]",
            ],
            "NN",
        ),
        ("tests with failures", &["12 passed, 3 failed", "13 passed, 3 failed"], "NN"),
        (
            "a compiler's places",
            &["src/a.rs:12:34: warning", "src/a.rs:15:02: warning", "src/b.rs:15:02: warning"],
            "NNN",
        ),
        ("what is left", &["3 left", "2 left", "1 left"], "NSS"),
    ];

    fn letters(lines: &[&str]) -> String {
        let mut novelty = Novelty::default();
        let letter = |line: &&str| match novelty.add((), line) {
            Novel::New => 'N',
            Novel::Same => 'S',
            Novel::OnlyTime => 'T',
        };
        lines.iter().map(letter).collect()
    }

    #[test]
    fn lines_of_real_programs() {
        let wrong: Vec<String> = LINES
            .iter()
            .filter(|(_, lines, wanted)| letters(lines) != *wanted)
            .map(|(program, lines, wanted)| {
                format!("{program}: {} instead of {wanted}", letters(lines))
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(LINES.len() >= 60);
    }

    #[test]
    fn a_repeated_banner_is_not_new() {
        let mut novelty = Novelty::default();
        let mut news = || {
            let banner = (0..30).map(|line| "=".repeat(line) + &"word ".repeat(line + 1));
            let fresh = banner.filter(|line| novelty.add((), line) == Novel::New);
            fresh.count()
        };
        assert_eq!(news(), 30);
        for _ in 0..20 {
            assert_eq!(news(), 0);
        }
    }

    #[test]
    fn kinds_are_distinguished() {
        let mut novelty = Novelty::default();
        assert_eq!(novelty.add("output", "a"), Novel::New);
        assert_eq!(novelty.add("command", "a"), Novel::New);
        assert_eq!(novelty.add("output", "a"), Novel::Same);
    }

    #[test]
    fn timers_side_by_side_are_timers_and_a_stopped_one_is_not() {
        let mut novelty = Novelty::default();
        let mut add = |elapsed: u64| novelty.add((), &format!("job 1: running ({elapsed}s)"));
        assert_eq!(add(30), Novel::New);
        for elapsed in [10, 40, 20, 40, 30, 50, 50] {
            let first = elapsed == 10;
            assert_eq!(add(elapsed) == Novel::Same, first, "{elapsed}");
        }
        let stopped: Vec<Novel> = (0..SIDE_BY_SIDE).map(|_| add(50)).collect();
        assert_eq!(stopped.last(), Some(&Novel::Same));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(64))]

        #[test]
        fn any_lines_are_judged_the_same_each_time_in_bounded_memory(
            lines in proptest::collection::vec(".{0,60}", 0..300)
        ) {
            let (mut one, mut other) = (Novelty::default(), Novelty::default());
            for line in &lines {
                proptest::prop_assert_eq!(one.add((), line), other.add((), line));
                proptest::prop_assert_ne!(one.add((), line), Novel::New, "{}", line);
            }
            proptest::prop_assert!(one.seen.len() <= FINGERPRINTS);
            proptest::prop_assert!(one.seen.capacity() <= 2 * FINGERPRINTS);
        }

        #[test]
        fn text_made_of_removed_parts_is_read_to_its_end(
            line in "([0-9]{1,14}|[a-f0-9]{4,9}|[.:,/T\\[\\]|=> -]|s|ms|min|0x|é|━|⠋|Nov){0,40}"
        ) {
            let mut novelty = Novelty::default();
            proptest::prop_assert_eq!(novelty.add((), &line), Novel::New);
            proptest::prop_assert_ne!(novelty.add((), &line), Novel::New);
        }

        #[test]
        fn different_words_are_new(
            words in proptest::collection::hash_set("[g-z]{3,12}", 1..100)
        ) {
            let mut novelty = Novelty::default();
            for word in &words {
                let line = format!("12:00:01 building {word} (3s)");
                proptest::prop_assert_eq!(novelty.add((), &line), Novel::New);
            }
        }
    }
}
