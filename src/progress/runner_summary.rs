//! Whether output ends with the summary of a test runner or a build tool, after which a process that
//! only waits has nothing left to do. Pure.
//!
//! Only the end counts: a watcher prints the same summary and then says what it waits for.

/// A runner's summary at the end of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunnerSummary<'a> {
    /// The line that gives the result, without white space at its ends.
    pub(crate) line: &'a str,
    /// `None` if the line does not tell.
    pub(crate) passed: Option<bool>,
}

/// How many lines may follow the line that gives the result: the other lines of the summary.
const MAX_TRAILING: usize = 14;
/// How many lines of failures may follow Mocha's summary.
const MAX_FAILURE_LINES: usize = 400;
/// A longer line is no summary.
const MAX_LINE: usize = 300;

/// What a watcher says after a summary: there, the process waits by design.
const WATCHES: &[&str] = &[
    "watch usage",
    "watching",
    "waiting for",
    "press ",
    "hit ",
    "type `",
    "to quit",
    "listening",
    "serving",
];

/// Finds the summary at the end of these lines, which contain no escape sequences.
pub(crate) fn find<'a>(lines: &[&'a str]) -> Option<RunnerSummary<'a>> {
    let shown = lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty());
    for line in shown.take(MAX_TRAILING + 1) {
        let lower = line.to_ascii_lowercase();
        if line.len() > MAX_LINE || WATCHES.iter().any(|word| lower.contains(word)) {
            return None;
        }
        if let Some(passed) = result(line, &lower) {
            return Some(RunnerSummary { line, passed });
        }
        if !belongs_to_summary(line, &lower) {
            break;
        }
    }
    mocha_failures(lines)
}

/// Mocha's summary, which its failures follow, indented: `1 passing (12ms)`, `1 failing`.
fn mocha_failures<'a>(lines: &[&'a str]) -> Option<RunnerSummary<'a>> {
    let is_inside = |line: &&&str| line.is_empty() || line.starts_with("  ");
    let inside = lines.iter().rev().take_while(is_inside).take(MAX_FAILURE_LINES);
    let mut inside = inside.map(|line| line.trim()).filter(|line| !line.is_empty());
    let counted = |line: &str, word: &str| {
        let (count, rest) = line.split_once(' ').unwrap_or_default();
        count.parse::<u64>().is_ok() && rest.starts_with(word)
    };
    let line = inside.find(|line| counted(line, "failing"))?;
    let is_pair = inside.next().is_some_and(|line| counted(line, "passing ("));
    is_pair.then_some(RunnerSummary { line, passed: Some(false) })
}

/// Whether this line gives a result, and which.
fn result(line: &str, lower: &str) -> Option<Option<bool>> {
    let inner = line.trim_matches(|c: char| c == '=' || c == '-' || c == '#' || c == ' ');
    let words: Vec<&str> = lower.split(|c: char| c.is_whitespace() || c == ',').collect();
    let starts = |beginnings: &[&str]| beginnings.iter().any(|begin| line.starts_with(begin));
    let verdict = |failed: bool| Some(Some(!failed));

    // cargo test, Deno.
    if let Some(rest) = line.strip_prefix("test result: ") {
        return verdict(!rest.starts_with("ok"));
    }
    if starts(&["ok | ", "FAILED | "]) && lower.contains(" passed") {
        return verdict(line.starts_with("FAILED"));
    }
    // Jest, Vitest.
    if let Some(counts) = line.strip_prefix("Tests:").or(line.strip_prefix("Tests  ")) {
        return has_count(counts, &["passed", "failed", "total", "skipped", "todo"])
            .then(|| Some(!has_failures(&counts.to_ascii_lowercase())));
    }
    // PHPUnit, Pest, JUnit and Surefire.
    if starts(&["OK (", "There was 1 failure", "FAILURES!", "ERRORS!"]) {
        return verdict(!line.starts_with("OK"));
    }
    if let Some(at) = line.find("Tests run: ") {
        let begins = matches!(line.get(..at), Some("" | "[INFO] " | "[ERROR] " | "[WARNING] "));
        return begins.then(|| Some(!has_failures(lower)));
    }
    if starts(&["[INFO] BUILD SUCCESS", "[ERROR] BUILD FAILURE", "[INFO] BUILD FAILURE"]) {
        return verdict(line.contains("FAILURE"));
    }
    // Gradle, sbt.
    if starts(&["BUILD SUCCESSFUL", "BUILD FAILED"]) {
        return verdict(line.starts_with("BUILD FAILED"));
    }
    if starts(&["[info] Passed: Total", "[error] Failed: Total", "[info] All tests passed."]) {
        return verdict(line.starts_with("[error]"));
    }
    if starts(&["[success] Total time: ", "[error] Total time: "]) {
        return verdict(line.starts_with("[error]"));
    }
    // pytest: `== 1 failed, 2 passed in 0.79s ==`, also without its frame (`-q`).
    if lower.contains(" in ") && inner.ends_with(|c: char| c == 's' || c == ')') {
        let (counts, time) = lower.rsplit_once(" in ")?;
        let time = time.trim_start_matches(|c: char| c == '=' || c == ' ');
        let first = counts.trim_start_matches(|c: char| c == '=' || c == ' ');
        let kinds = ["passed", "failed", "error", "errors", "skipped", "deselected", "xfailed"];
        let is_counted = has_count(first, &kinds) || first.starts_with("no tests ran");
        if is_counted
            && first.starts_with(|c: char| c.is_ascii_digit() || c == 'n')
            && time.starts_with(|c: char| c.is_ascii_digit())
        {
            return verdict(has_failures(first));
        }
    }
    // unittest, nose2.
    if matches!(line, "OK" | "FAILED" | "NO TESTS RAN") || starts(&["OK (skipped=", "FAILED ("]) {
        return verdict(!line.starts_with("OK"));
    }
    // TAP: node --test, tap, bats.
    if let Some((mark, rest)) = line.split_once(' ')
        && matches!(mark, "#" | "ℹ")
        && let Some(count) = rest.strip_prefix("fail ")
        && let Ok(count) = count.trim().parse::<u64>()
    {
        return verdict(count > 0);
    }
    // prove.
    if starts(&["Result: PASS", "Result: FAIL", "Result: NOTESTS"]) {
        return verdict(!line.ends_with("PASS"));
    }
    if matches!(line, "All tests successful.") {
        return verdict(false);
    }
    // Mocha, Cypress, AVA, Karma, Playwright, Bun: `3 passing (12ms)`, `2 tests failed`.
    let number = words.first().is_some_and(|word| word.parse::<u64>().is_ok());
    if number {
        match words.get(1..).unwrap_or_default() {
            ["passing", time] | ["passed", time] if time.starts_with('(') => return verdict(false),
            ["passing" | "failing"] => return verdict(lower.ends_with("failing")),
            ["test" | "tests", word @ ("passed" | "failed")] => return verdict(*word == "failed"),
            // RSpec, Minitest, Rails, ExUnit, Busted, Jasmine: `3 examples, 1 failure`.
            [what, ..]
                if matches!(
                    what.trim_end_matches(':'),
                    "example"
                        | "examples"
                        | "runs"
                        | "tests"
                        | "test"
                        | "specs"
                        | "spec"
                        | "doctests"
                        | "doctest"
                        | "successes"
                ) && (lower.contains("failure") || lower.contains("passed")) =>
            {
                return verdict(has_failures(lower));
            }
            _ => {}
        }
    }
    if lower.starts_with("ran ")
        && (lower.contains(" tests across") || lower.contains(" test across"))
    {
        return Some(None);
    }
    // Nextest, gotestsum.
    if starts(&["Summary ["]) && lower.contains(" run:") {
        return verdict(has_failures(lower));
    }
    if line.starts_with("DONE ") && lower.contains(" test") && lower.contains(" in ") {
        return verdict(has_failures(lower));
    }
    // go test: a line for each package; the last one, or FAIL alone.
    if line == "PASS" || line == "FAIL" {
        return verdict(line == "FAIL");
    }
    if let Some((mark @ ("ok" | "FAIL"), rest)) = line.split_once(|c: char| c == '\t' || c == ' ')
        && let Some(time) = rest.split_whitespace().nth(1)
        && (time == "(cached)"
            || (time.ends_with('s') && time.starts_with(|c: char| c.is_ascii_digit())))
    {
        return verdict(mark == "FAIL");
    }
    // .NET.
    if starts(&["Passed!", "Failed!"]) && lower.contains("total:") {
        return verdict(line.starts_with("Failed"));
    }
    if starts(&["Test Run Successful.", "Test Run Failed."]) {
        return verdict(line.ends_with("Failed."));
    }
    // CTest: `100% tests passed, 0 tests failed out of 3`.
    if lower.contains("% tests passed") {
        return verdict(!line.starts_with("100%"));
    }
    // GoogleTest, Catch2, doctest.
    if starts(&["[  PASSED  ]", "[  FAILED  ]"]) && lower.contains(" test") {
        return verdict(line.starts_with("[  FAILED"));
    }
    if line.starts_with("All tests passed (") {
        return verdict(false);
    }
    if line.starts_with("test cases:") || line.starts_with("[doctest] test cases:") {
        return verdict(
            has_failures(lower) || lower.contains("failed |") && !lower.contains("0 failed"),
        );
    }
    // Swift, Flutter, Elm, EUnit, Karma, tox.
    if lower.starts_with("executed ")
        && lower.contains(" test")
        && has_count(lower, &["failures", "failure"])
    {
        return verdict(has_failures(lower));
    }
    if let Some(rest) = lower.strip_prefix("executed ")
        && rest.contains(" of ")
        && (rest.contains("success") || rest.contains("failed"))
    {
        return verdict(rest.contains("failed"));
    }
    if line.ends_with(": All tests passed!") || line.ends_with(": Some tests failed.") {
        return verdict(line.ends_with("failed."));
    }
    if matches!(line, "TEST RUN PASSED" | "TEST RUN FAILED") {
        return verdict(line.ends_with("FAILED"));
    }
    if starts(&["All ", "Failed: "])
        && (line.ends_with(" tests passed.") || lower.contains(" passed:"))
    {
        return verdict(!line.starts_with("All "));
    }
    if starts(&["congratulations :) (", "evaluation failed :( ("]) {
        return verdict(line.starts_with("evaluation"));
    }
    // Yarn.
    if line.starts_with("Done in ") && line.trim_end_matches('.').ends_with('s') {
        return verdict(false);
    }
    None
}

/// Whether a text has a number before one of these words.
fn has_count(text: &str, kinds: &[&str]) -> bool {
    counts(text).any(|(_, kind)| kinds.contains(&kind))
}

/// Whether a text counts failures or errors: `1 failed`, `failures: 2`.
fn has_failures(lower: &str) -> bool {
    let fails = |word: &str| word.starts_with("fail") || word.starts_with("error");
    counts(lower).any(|(count, kind)| count > 0 && fails(kind))
}

/// The numbers of a text, each with the word after it, or before it where that ends in `:`.
fn counts(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let is_edge = |c: char| matches!(c, ',' | '(' | ')' | '.' | '|' | ';' | '=' | '!' | '[' | ']');
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(is_edge)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let pairs: Vec<(u64, &str)> = words
        .windows(2)
        .filter_map(|pair| match *pair {
            [name, count] if name.ends_with(':') => {
                Some((count.parse().ok()?, name.trim_end_matches(':')))
            }
            [count, kind] if !kind.ends_with(':') => Some((count.parse().ok()?, kind)),
            _ => None,
        })
        .collect();
    pairs.into_iter()
}

/// Whether a line may follow the result in a summary: times, seeds, totals, hints, coverage.
fn belongs_to_summary(line: &str, lower: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "time:",
        "snapshots:",
        "ran all test",
        "jest did not exit",
        "'this usually means",
        "this usually means",
        "force exiting jest",
        "randomized with seed",
        "run options:",
        "finished in",
        "duration",
        "start at",
        "test files",
        "tests",
        "type errors",
        "errors ",
        "# ",
        "ℹ ",
        "coverage",
        "total ",
        "total:",
        "total test time",
        "wall clock",
        "took ",
        "done",
        "seed",
        "slow test",
        "a worker process has failed",
        "1 failed test",
        "failed tests",
        "[info]",
        "[error]",
        "required test coverage",
        "code coverage",
        "html report",
        "to open last html report",
        "error summary",
        "passed:",
        "failed:",
        "skipped:",
        "pending",
        "files=",
        "result:",
        "=> ",
        "error: test failed",
        "error: test run failed",
        "error: could not",
        "make:",
        "make[",
        "npm err",
        "npm error",
        "exit status",
        "info ",
        "error command failed",
        "fail",
        "pass",
        "assertions:",
        "generated ",
        "expired ",
        "the following tests failed",
        "errors while running",
        "consider enabling",
        "see ",
        "line-coverage",
        "randomised",
        "you can skip",
        "statements",
        "branches",
        "functions",
        "lines",
        "logfile",
        "actionable",
        "deprecated",
        "caused by",
    ];
    let is_rule = line.chars().all(|c| "=-─━_|+# .".contains(c));
    let is_table = line.contains(" | ") || line.ends_with('|');
    let is_actionable = lower.contains(" actionable task");
    let is_ctest_row =
        line.split_once(" - ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    is_rule
        || is_table
        || is_actionable
        || is_ctest_row
        || BEGINNINGS.iter().any(|begin| lower.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, line: &str, passed: bool) {
        let lines: Vec<&str> = output.lines().collect();
        let summary = RunnerSummary { line, passed: Some(passed) };
        assert_eq!(find(&lines), Some(summary), "{output}");
    }

    #[test]
    fn the_summaries_of_runners_are_found() {
        for (output, line, passed) in [
            (
                "PASS jt/b.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       2 passed, 2 total\n\
                 Snapshots:   0 total\nTime:        3.147 s\nRan all test suites matching jt/b.\n\
                 Jest did not exit one second after the test run has completed.\n\n\
                 'This usually means that there are asynchronous operations that weren't stopped in your tests. Consider running Jest with `--detectOpenHandles` to troubleshoot this issue.\n",
                "Tests:       2 passed, 2 total",
                true,
            ),
            (
                "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 passed, 3 total\n\
                 Snapshots:   0 total\nTime:        4.143 s\nRan all test suites matching jt/a.",
                "Tests:       1 failed, 2 passed, 3 total",
                false,
            ),
            ("Ran 2 tests in 0.001s\n\nFAILED (failures=1)", "FAILED (failures=1)", false),
            ("Ran 2 tests in 0.001s\n\nOK", "OK", true),
            (
                "Files=1, Tests=2,  0 wallclock secs ( 0.03 usr +  0.00 sys)\nResult: FAIL\n",
                "Result: FAIL",
                false,
            ),
            ("=== 1 failed, 8 passed in 0.23s ===\n", "=== 1 failed, 8 passed in 0.23s ===", false),
            (
                "12 passed, 1 skipped in 63.20s (0:01:03)",
                "12 passed, 1 skipped in 63.20s (0:01:03)",
                true,
            ),
            (
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n",
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                true,
            ),
            (
                "test result: FAILED. 2 passed; 1 failed; 0 ignored\n\nerror: test failed, to rerun pass `--lib`",
                "test result: FAILED. 2 passed; 1 failed; 0 ignored",
                false,
            ),
            (
                "  1 passing (5ms)\n  1 failing\n\n  1) b:\n     Error: x\n      at Context.<anonymous> (mt/a.js:1:35)\n\n",
                "1 failing",
                false,
            ),
            ("  \u{2500}\n\n  1 test failed\n", "1 test failed", false),
            ("  3 passing (12ms)\n", "3 passing (12ms)", true),
            (
                " Test Files  1 failed (1)\n      Tests  1 failed | 1 passed (2)\n   Start at  10:00:00\n   Duration  1.2s (transform 1ms)",
                "Tests  1 failed | 1 passed (2)",
                false,
            ),
            ("ok  \tx/a\t0.004s\nFAIL\tx/b\t0.1s\nFAIL", "FAIL", false),
            ("ok  \tx/a\t0.004s\nok  \tx/b\t(cached)", "ok  \tx/b\t(cached)", true),
            (
                "Finished in 0.01 seconds (files took 0.1 seconds to load)\n3 examples, 1 failure\n",
                "3 examples, 1 failure",
                false,
            ),
            (
                "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] ---\n[INFO] BUILD SUCCESS\n[INFO] ---\n[INFO] Total time:  2 s",
                "[INFO] BUILD SUCCESS",
                true,
            ),
            (
                "BUILD SUCCESSFUL in 3s\n2 actionable tasks: 2 executed",
                "BUILD SUCCESSFUL in 3s",
                true,
            ),
            (
                "100% tests passed, 0 tests failed out of 3\n\nTotal Test time (real) =   0.02 sec",
                "100% tests passed, 0 tests failed out of 3",
                true,
            ),
            ("Done in 3.21s.", "Done in 3.21s.", true),
            (
                "# tests 2\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 52.1",
                "# fail 1",
                false,
            ),
        ] {
            check(output, line, passed);
        }
    }

    #[test]
    fn watchers_and_other_output_have_no_summary() {
        for output in [
            "Tests:       2 passed, 2 total\nTime: 1 s\nRan all test suites.\n\nWatch Usage\n \u{203a} Press f to run only failed tests.",
            " Tests  1 passed (1)\n Duration  1s\n\n PASS  Waiting for file changes...\n       press h to show help, press q to quit",
            "=== 3 passed in 0.1s ===\nroot@host:/app# ",
            "3 passing (12ms)\nconnecting to the database",
            "it works\nserver ready on port 3000",
            "Ran 2 tests in 0.001s",
            "downloaded 3 of 5 files in 3s",
            "",
        ] {
            let lines: Vec<&str> = output.lines().collect();
            assert_eq!(find(&lines), None, "{output}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            find(&[&text]);
        }
    }
}
