//! Insights from a command's end. Pure.

use super::{Insight, TreeChange, UniversalExit};
use crate::alan::fingerprint::Fingerprint;
use crate::alan::history::{History, RunPlace};
use crate::shell::outcome::{Outcome, benign, of_exit};

/// The exit code of a writer whose reader has closed the pipe, which is normal in a pipeline.
const SIGPIPE_EXIT: i32 = 141;
/// The fewest equal failures in a row that are reported.
const SAME_FAILURES: u32 = 2;
/// The lowest similarity of a suggested name; 1 is equal.
const MIN_SIMILARITY: f64 = 0.8;
/// The text before or after the name of a command that was not found.
const NOT_FOUND: &str = "command not found";

/// The facts about a command's end.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndFacts {
    /// `None` while it is unknown.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) exit_code: i32,
    /// The program that determined the exit code.
    pub(crate) program: Option<String>,
    /// Whether timeout(1) limits that program.
    pub(crate) time_limited: bool,
    /// Whether it ran over SSH.
    pub(crate) ssh: bool,
    /// The exit codes of a pipeline's segments, from the left.
    pub(crate) pipestatus: Vec<i32>,
    /// The programs of these segments, as far as they are known.
    pub(crate) segment_programs: Vec<Option<String>>,
    /// Whether it printed nothing.
    pub(crate) silent: bool,
    /// For exit 127: the name that was not found, by [`missing_command`].
    pub(crate) missing: Option<String>,
    /// Set if the kernel killed one of its processes because memory ran out.
    pub(crate) out_of_memory: Option<OutOfMemory>,
    /// Its failure, by [`crate::alan::fingerprint::of_failure`].
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) place: RunPlace,
}

/// Details of an out-of-memory kill, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutOfMemory {
    /// The highest memory use seen in the command's processes.
    pub highest: Option<u64>,
    /// The limit that was reached.
    pub limit: Option<u64>,
}

/// The insights about an end. `history` is from before the run; `nearest` is the known name
/// [`nearest`] to a command that was not found.
pub(crate) fn insights(facts: &EndFacts, nearest: Option<&str>, history: &History) -> Vec<Insight> {
    let mut insights = Vec::new();
    if !facts.outcome.is_some_and(Outcome::is_complete) {
        return insights;
    }
    if facts.exit_code == 0 && facts.silent {
        insights.push(Insight::NoOutput);
    }
    insights.extend(exit(facts, nearest));
    insights.extend(masked(facts));
    insights.extend(same_failure(facts, history));
    insights
}

fn exit(facts: &EndFacts, nearest: Option<&str>) -> Option<Insight> {
    if let Some(exit) = universal(facts, nearest) {
        return Some(Insight::Exit(exit));
    }
    let program = facts.program.as_deref()?;
    benign(program, facts.exit_code).map(|meaning| Insight::NormalExit {
        program: program.to_owned(),
        code: facts.exit_code,
        meaning,
    })
}

fn universal(facts: &EndFacts, nearest: Option<&str>) -> Option<UniversalExit> {
    Some(match facts.exit_code {
        124 if facts.time_limited => UniversalExit::TimeLimit,
        126 => UniversalExit::NotExecutable,
        127 => UniversalExit::NotFound { nearest: nearest.map(str::to_owned) },
        130 => UniversalExit::Interrupted,
        137 => UniversalExit::Killed { out_of_memory: facts.out_of_memory },
        139 => UniversalExit::SegmentationFault,
        143 => UniversalExit::Terminated,
        255 if facts.ssh => UniversalExit::SshConnection,
        _ => return None,
    })
}

/// The failed segments before the last one, if the pipeline's exit code is that of the last
/// segment: under `pipefail` no failure is hidden. A code that is an answer (`grep x f | wc -l`) is
/// not a failure.
fn masked(facts: &EndFacts) -> Vec<Insight> {
    let others = match facts.pipestatus.split_last() {
        Some((last, others)) if *last == facts.exit_code => others,
        _ => &[],
    };
    let program = |index: usize| facts.segment_programs.get(index)?.as_deref();
    others
        .iter()
        .enumerate()
        .filter(|(_, code)| **code != SIGPIPE_EXIT)
        .filter(|(index, code)| of_exit(**code, program(*index)) == Outcome::Failure)
        .map(|(index, code)| Insight::MaskedSegment { segment: index + 1, code: *code })
        .collect()
}

fn same_failure(facts: &EndFacts, history: &History) -> Option<Insight> {
    let fingerprint = facts.fingerprint.as_ref()?;
    let times = history.same_failures(&fingerprint.hash);
    let success = history.last_success.as_ref();
    (times >= SAME_FAILURES).then(|| Insight::SameFailure {
        times,
        line: fingerprint.first_line().to_owned(),
        changes: success.map_or(Vec::new(), |then| changes(then, &facts.place)),
    })
}

/// The differences between two places. Unknown values do not differ.
fn changes(then: &RunPlace, now: &RunPlace) -> Vec<TreeChange> {
    let differing = |then: &Option<String>, now: &Option<String>| {
        let both = then.clone().zip(now.clone());
        both.filter(|(then, now)| then != now)
    };
    let directory = differing(&then.cwd, &now.cwd);
    let head = differing(&then.git_head, &now.git_head);
    let directory = directory.map(|(from, to)| TreeChange::Directory { from, to });
    let head = head.map(|(from, to)| TreeChange::GitHead { from, to });
    directory.into_iter().chain(head).collect()
}

/// Extracts the name from a shell's message that a command was not found: `zsh: command not found:
/// carg`, `bash: line 1: carg: command not found`, `sh: 1: carg: not found`.
pub(crate) fn missing_command(output: &str) -> Option<&str> {
    let line = output.lines().rev().find(|line| line.contains("not found"))?;
    let name = match line.split_once(&format!("{NOT_FOUND}: ")) {
        Some((_, name)) => name,
        None => line
            .strip_suffix("not found")?
            .trim_end_matches("command ")
            .trim_end_matches([':', ' '])
            .rsplit([':', ' '])
            .next()?,
    };
    let name = name.trim();
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// The programs that must exist if this kind of command succeeded: those whose status had to be
/// 0. For `a; b && c | d` these are `b` and `d`, for `a || b` none.
pub(crate) fn programs_of(template: &str) -> Vec<&str> {
    let words: Vec<&str> = template.split_whitespace().collect();
    let ends_list = |word: &&str| matches!(*word, ";" | ";;" | "&" | "&!");
    let Some(list) = words.rsplit(ends_list).next() else {
        return Vec::new();
    };
    if list.contains(&"||") {
        return Vec::new();
    }
    let members = list.split(|word| *word == "&&");
    let last_segments = members.filter_map(|member| {
        let segments = member.rsplit(|word| matches!(*word, "|" | "|&"));
        segments.into_iter().next()?.first().copied()
    });
    last_segments
        .filter(|name| name.starts_with(char::is_alphanumeric))
        .filter(|name| !matches!(*name, "done" | "fi" | "esac"))
        .collect()
}

/// The candidate nearest to a mistyped name, if any is near enough. A transposition counts as one
/// slip. The first of equally near candidates wins.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        if candidate == name || candidate.is_empty() {
            continue;
        }
        let similarity = similarity(name, candidate);
        if similarity >= MIN_SIMILARITY && best.is_none_or(|(highest, _)| similarity > highest) {
            best = Some((similarity, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// One slip is allowed in any name of three letters or more; longer names allow more.
fn similarity(name: &str, candidate: &str) -> f64 {
    let slips = strsim::damerau_levenshtein(name, candidate);
    let length = name.chars().count().max(candidate.chars().count());
    match slips {
        0 => 1.0,
        1 if length >= 3 => 0.95,
        _ => 1.0 - slips as f64 / length as f64,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::alan::history::EqualFailures;
    use crate::text::redact::Redactor;

    fn ended(exit_code: i32, program: &str) -> EndFacts {
        EndFacts {
            outcome: Some(crate::shell::outcome::of_exit(exit_code, Some(program))),
            exit_code,
            program: Some(program.to_owned()),
            ..EndFacts::default()
        }
    }

    fn texts(facts: &EndFacts) -> Vec<String> {
        let insights = insights(facts, None, &History::default());
        insights.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_a_silent_success_is_reported() {
        let mut facts = ended(0, "true");
        facts.silent = true;
        assert_eq!(texts(&facts), ["No output produced."]);
        facts.exit_code = 1;
        facts.outcome = Some(Outcome::Failure);
        assert_eq!(texts(&facts), [""; 0]);
    }

    #[test]
    fn benign_exits_are_answers() {
        for (program, text) in [
            ("grep", "grep exit 1 = no match (normal)"),
            ("rg", "rg exit 1 = no match (normal)"),
            ("diff", "diff exit 1 = files differ (normal)"),
            ("cmp", "cmp exit 1 = files differ (normal)"),
            ("test", "test exit 1 = condition false (normal)"),
            ("[", "[ exit 1 = condition false (normal)"),
        ] {
            assert_eq!(texts(&ended(1, program)), [text]);
        }
        assert_eq!(texts(&ended(1, "rm")), [""; 0]);
        assert_eq!(texts(&ended(2, "grep")), [""; 0]);
    }

    #[test]
    fn universal_exits_have_one_phrase_each() {
        for (code, program, text) in [
            (126, "x", "permission denied (exit 126)"),
            (127, "x", "command not found (exit 127)"),
            (130, "x", "interrupted by SIGINT (exit 130)"),
            (137, "x", "killed by SIGKILL (exit 137)"),
            (139, "x", "segmentation fault (exit 139)"),
            (143, "x", "terminated by SIGTERM (exit 143)"),
        ] {
            assert_eq!(texts(&ended(code, program)), [text]);
        }
        assert_eq!(texts(&ended(124, "make")), [""; 0]);
        let limited = EndFacts { time_limited: true, ..ended(124, "make") };
        assert_eq!(texts(&limited), ["the time limit of timeout(1) was reached (exit 124)"]);
        assert_eq!(texts(&ended(255, "make")), [""; 0]);
        let ssh = EndFacts { ssh: true, ..ended(255, "ssh") };
        assert_eq!(texts(&ssh), ["SSH connection failed (exit 255)"]);
        let unseen = OutOfMemory::default();
        let hungry = EndFacts { out_of_memory: Some(unseen), ..ended(137, "cc") };
        assert_eq!(texts(&hungry), ["killed by the kernel, out of memory (exit 137)"]);
        let seen = OutOfMemory { highest: Some(61_000_000), limit: Some(64_000_000) };
        let hungry = EndFacts { out_of_memory: Some(seen), ..ended(137, "cc") };
        assert_eq!(
            texts(&hungry),
            [
                "killed by the kernel, out of memory (exit 137): it was seen with 61.0 MB, the limit is 64.0 MB"
            ]
        );
    }

    #[test]
    fn a_code_caused_from_outside_has_no_phrase() {
        for outcome in [Outcome::Killed, Outcome::Timeout, Outcome::Interrupted] {
            let facts = EndFacts { outcome: Some(outcome), ..ended(143, "make") };
            assert_eq!(texts(&facts), [""; 0]);
        }
    }

    #[test]
    fn masked_segments_are_reported_but_not_broken_pipes() {
        let facts = EndFacts { pipestatus: vec![2, 141, 0, 1, 3], ..ended(3, "x") };
        assert_eq!(
            texts(&facts),
            [
                "pipe segment 1 exited 2 (masked by downstream)",
                "pipe segment 4 exited 1 (masked by downstream)"
            ]
        );
        let shown = EndFacts { pipestatus: vec![3, 0], ..ended(3, "x") };
        assert_eq!(texts(&shown), [""; 0], "pipefail shows it");
    }

    #[test]
    fn the_second_equal_failure_is_reported_with_the_changes() {
        let print = crate::alan::fingerprint::of_failure("error: no", 2, &Redactor::default());
        let print = print.expect("a fingerprint");
        let facts = EndFacts {
            fingerprint: Some(print.clone()),
            place: RunPlace { cwd: Some("/b".to_owned()), git_head: None },
            ..ended(2, "make")
        };
        let insights_after = |failures: usize| {
            let mut equal_failures = EqualFailures::default();
            for _ in 0..failures {
                equal_failures.add(Outcome::Failure, Some(&print.hash));
            }
            equal_failures.add(Outcome::Success, None);
            let history = History {
                equal_failures,
                last_success: Some(RunPlace { cwd: Some("/a".to_owned()), git_head: None }),
                ..History::default()
            };
            let insights = insights(&facts, None, &history);
            insights.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(insights_after(0), [""; 0]);
        assert_eq!(
            insights_after(2),
            ["Same failure 3 times: \"error: no\". Since the last success: directory /a → /b."]
        );
    }

    #[test]
    fn the_missing_command_is_read_from_each_shells_message() {
        for (output, name) in [
            ("zsh: command not found: carg\n", Some("carg")),
            ("zsh:1: command not found: carg", Some("carg")),
            ("bash: line 1: carg: command not found", Some("carg")),
            ("sh: 1: carg: not found", Some("carg")),
            ("page not found on this server", None),
            ("all is well", None),
        ] {
            assert_eq!(missing_command(output), name, "{output}");
        }
    }

    #[test]
    fn the_nearest_name_is_found_and_far_ones_are_not() {
        let known = ["cargo", "git", "docker", "print", "ls"];
        for (name, wanted) in [
            ("carg", Some("cargo")),
            ("gti", Some("git")),
            ("dokcer", Some("docker")),
            ("xyzzy", None),
            ("sl", None),
            ("git", None),
        ] {
            assert_eq!(nearest(name, known), wanted, "{name}");
        }
    }

    #[test]
    fn a_success_shows_the_programs_that_had_to_succeed() {
        for (template, wanted) in [
            ("git status", vec!["git"]),
            ("cd * && make -j8 *", vec!["cd", "make"]),
            ("gti ; true", vec!["true"]),
            ("gti | head -*", vec!["head"]),
            ("gti || git status", vec![]),
            ("cd * && cargo test | tail -*", vec!["cd", "tail"]),
            ("for * in * ; do make ; done", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(programs_of(template), wanted, "{template}");
        }
    }

    proptest! {
        #[test]
        fn any_name_has_a_nearest_one_or_none(name in any::<String>(), known in prop::collection::vec(any::<String>(), 0..4)) {
            let found = nearest(&name, known.iter().map(String::as_str));
            prop_assert!(found.is_none_or(|found| known.iter().any(|name| name == found)));
        }

        #[test]
        fn any_output_names_a_missing_command_or_none(output in any::<String>()) {
            let _ = missing_command(&output);
            let _ = missing_command(&format!("{output}not found"));
        }
    }
}
