//! Whether output ends with the summary of a test runner or a build tool, after which a process that
//! only waits has nothing left to do. Pure.
//!
//! Only the end counts: a watcher prints the same summary and then says what it waits for.

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

/// Finds the line that gives the result in the summary at the end of these lines, which contain no
/// escape sequences; it comes without white space at its ends.
pub(crate) fn find<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let shown = lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty());
    for line in shown.take(MAX_TRAILING + 1) {
        let lower = line.to_ascii_lowercase();
        if line.len() > MAX_LINE || WATCHES.iter().any(|word| lower.contains(word)) {
            return None;
        }
        if is_result(line, &lower) {
            return Some(line);
        }
        if !belongs_to_summary(line, &lower) {
            break;
        }
    }
    mocha_failures(lines)
}

/// Mocha's summary, which its failures follow, indented: `1 passing (12ms)`, `1 failing`.
fn mocha_failures<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let is_inside = |line: &&&str| line.is_empty() || line.starts_with("  ");
    let inside = lines.iter().rev().take_while(is_inside).take(MAX_FAILURE_LINES);
    let mut inside = inside.map(|line| line.trim()).filter(|line| !line.is_empty());
    let counted = |line: &str, word: &str| {
        let (count, rest) = line.split_once(' ').unwrap_or_default();
        count.parse::<u64>().is_ok() && rest.starts_with(word)
    };
    let line = inside.find(|line| counted(line, "failing"))?;
    let is_pair = inside.next().is_some_and(|line| counted(line, "passing ("));
    is_pair.then_some(line)
}

/// Lines that are a result as a whole: unittest, nose2; go test; prove; Elm, Karma.
const RESULTS: &[&str] = &[
    "OK",
    "FAILED",
    "NO TESTS RAN",
    "PASS",
    "FAIL",
    "All tests successful.",
    "TEST RUN PASSED",
    "TEST RUN FAILED",
];
/// How a result begins, whatever follows.
const RESULT_BEGINNINGS: &[&str] = &[
    // cargo test, Deno.
    "test result: ",
    // PHPUnit, Pest, unittest.
    "OK (",
    "There was 1 failure",
    "FAILURES!",
    "ERRORS!",
    "FAILED (",
    // Maven, Gradle, sbt.
    "[INFO] BUILD SUCCESS",
    "[ERROR] BUILD FAILURE",
    "[INFO] BUILD FAILURE",
    "BUILD SUCCESSFUL",
    "BUILD FAILED",
    "[info] Passed: Total",
    "[error] Failed: Total",
    "[info] All tests passed.",
    "[success] Total time: ",
    "[error] Total time: ",
    // JUnit and Surefire.
    "Tests run: ",
    "[INFO] Tests run: ",
    "[ERROR] Tests run: ",
    "[WARNING] Tests run: ",
    // prove.
    "Result: PASS",
    "Result: FAIL",
    "Result: NOTESTS",
    // .NET.
    "Test Run Successful.",
    "Test Run Failed.",
    // Catch2, doctest.
    "All tests passed (",
    "test cases:",
    "[doctest] test cases:",
    // tox.
    "congratulations :) (",
    "evaluation failed :( (",
];
/// How a result begins, and what comes later in it in lower case.
const MARKED_RESULTS: &[(&str, &str)] = &[
    ("ok | ", " passed"),
    ("FAILED | ", " passed"),
    // Nextest.
    ("Summary [", " run:"),
    ("Passed!", "total:"),
    ("Failed!", "total:"),
    // GoogleTest.
    ("[  PASSED  ]", " test"),
    ("[  FAILED  ]", " test"),
    // EUnit.
    ("All ", " tests passed."),
    ("All ", " passed:"),
    ("Failed: ", " passed:"),
    // Bun.
    ("Ran ", " tests across"),
    ("Ran ", " test across"),
];

/// Whether this line gives the result of a run.
fn is_result(line: &str, lower: &str) -> bool {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|begin| line.starts_with(begin));
    let is_marked = |(begin, mark): &(&str, &str)| line.starts_with(begin) && lower.contains(mark);
    RESULTS.contains(&line)
        || begins(RESULT_BEGINNINGS)
        || MARKED_RESULTS.iter().any(is_marked)
        || is_counted(line, lower)
        || is_timed(line, lower)
        // CTest: `100% tests passed, 0 tests failed out of 3`. Flutter.
        || lower.contains("% tests passed")
        || line.ends_with(": All tests passed!")
        || line.ends_with(": Some tests failed.")
}

/// Whether a line counts tests, as the summaries of many runners do.
fn is_counted(line: &str, lower: &str) -> bool {
    // Jest, Vitest.
    if let Some(counts) = line.strip_prefix("Tests:").or(line.strip_prefix("Tests  ")) {
        return has_count(counts, &["passed", "failed", "total", "skipped", "todo"]);
    }
    // TAP: node --test, tap, bats.
    if let Some(count) = line.strip_prefix("# fail ").or(line.strip_prefix("ℹ fail ")) {
        return count.trim().parse::<u64>().is_ok();
    }
    // Swift, Karma.
    if let Some(rest) = lower.strip_prefix("executed ") {
        return rest.contains(" test") && has_count(rest, &["failures", "failure"])
            || rest.contains(" of ") && (rest.contains("success") || rest.contains("failed"));
    }
    let mut words = lower.split(|c: char| c.is_whitespace() || c == ',');
    if words.next().is_none_or(|word| word.parse::<u64>().is_err()) {
        return false;
    }
    match words.collect::<Vec<_>>()[..] {
        // Mocha, Cypress, AVA, Karma, Playwright, Bun: `3 passing (12ms)`, `2 tests failed`.
        ["passing" | "passed", time] => time.starts_with('('),
        ["passing" | "failing"] | ["test" | "tests", "passed" | "failed"] => true,
        // RSpec, Minitest, Rails, ExUnit, Busted, Jasmine: `3 examples, 1 failure`.
        [what, ..] => {
            COUNTED.contains(&what.trim_end_matches(':'))
                && (lower.contains("failure") || lower.contains("passed"))
        }
        [] => false,
    }
}

/// What runners count.
const COUNTED: &[&str] = &[
    "example",
    "examples",
    "runs",
    "tests",
    "test",
    "specs",
    "spec",
    "doctests",
    "doctest",
    "successes",
];

/// Whether a line gives a result with the time it took.
fn is_timed(line: &str, lower: &str) -> bool {
    let is_time = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    // go test, a line for each package.
    if let Some(("ok" | "FAIL", rest)) = line.split_once(['\t', ' '])
        && let Some(time) = rest.split_whitespace().nth(1)
    {
        return time == "(cached)" || time.ends_with('s') && is_time(time);
    }
    // Yarn, gotestsum.
    if line.starts_with("Done in ") {
        return line.trim_end_matches('.').ends_with('s');
    }
    let Some((counts, time)) = lower.rsplit_once(" in ") else { return false };
    if line.starts_with("DONE ") {
        return lower.contains(" test");
    }
    // pytest: `== 1 failed, 2 passed in 0.79s ==`, also without its frame (`-q`).
    let kinds = ["passed", "failed", "error", "errors", "skipped", "deselected", "xfailed"];
    let counts = counts.trim_start_matches(['=', ' ']);
    let (count, time) = (counts, time.trim_matches(['=', ' ']));
    time.ends_with(['s', ')'])
        && is_time(time)
        && (count.starts_with("no tests ran") || is_time(count) && has_count(count, &kinds))
}

/// Whether a text has a number before one of these words.
fn has_count(text: &str, kinds: &[&str]) -> bool {
    counts(text).any(|(_, kind)| kinds.contains(&kind))
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
    fn check(output: &str, line: &str) {
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(find(&lines), Some(line), "{output}");
    }

    #[test]
    fn the_summaries_of_runners_are_found() {
        for (output, line) in [
            (
                "PASS jt/b.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       2 passed, 2 total\n\
                 Snapshots:   0 total\nTime:        3.147 s\nRan all test suites matching jt/b.\n\
                 Jest did not exit one second after the test run has completed.\n\n\
                 'This usually means that there are asynchronous operations that weren't stopped in your tests. Consider running Jest with `--detectOpenHandles` to troubleshoot this issue.\n",
                "Tests:       2 passed, 2 total",
            ),
            (
                "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 passed, 3 total\n\
                 Snapshots:   0 total\nTime:        4.143 s\nRan all test suites matching jt/a.",
                "Tests:       1 failed, 2 passed, 3 total",
            ),
            ("Ran 2 tests in 0.001s\n\nFAILED (failures=1)", "FAILED (failures=1)"),
            ("Ran 2 tests in 0.001s\n\nOK", "OK"),
            (
                "Files=1, Tests=2,  0 wallclock secs ( 0.03 usr +  0.00 sys)\nResult: FAIL\n",
                "Result: FAIL",
            ),
            ("=== 1 failed, 8 passed in 0.23s ===\n", "=== 1 failed, 8 passed in 0.23s ==="),
            (
                "12 passed, 1 skipped in 63.20s (0:01:03)",
                "12 passed, 1 skipped in 63.20s (0:01:03)",
            ),
            (
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n",
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            ),
            (
                "test result: FAILED. 2 passed; 1 failed; 0 ignored\n\nerror: test failed, to rerun pass `--lib`",
                "test result: FAILED. 2 passed; 1 failed; 0 ignored",
            ),
            (
                "  1 passing (5ms)\n  1 failing\n\n  1) b:\n     Error: x\n      at Context.<anonymous> (mt/a.js:1:35)\n\n",
                "1 failing",
            ),
            ("  \u{2500}\n\n  1 test failed\n", "1 test failed"),
            ("  3 passing (12ms)\n", "3 passing (12ms)"),
            (
                " Test Files  1 failed (1)\n      Tests  1 failed | 1 passed (2)\n   Start at  10:00:00\n   Duration  1.2s (transform 1ms)",
                "Tests  1 failed | 1 passed (2)",
            ),
            ("ok  \tx/a\t0.004s\nFAIL\tx/b\t0.1s\nFAIL", "FAIL"),
            ("ok  \tx/a\t0.004s\nok  \tx/b\t(cached)", "ok  \tx/b\t(cached)"),
            (
                "Finished in 0.01 seconds (files took 0.1 seconds to load)\n3 examples, 1 failure\n",
                "3 examples, 1 failure",
            ),
            (
                "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] ---\n[INFO] BUILD SUCCESS\n[INFO] ---\n[INFO] Total time:  2 s",
                "[INFO] BUILD SUCCESS",
            ),
            ("BUILD SUCCESSFUL in 3s\n2 actionable tasks: 2 executed", "BUILD SUCCESSFUL in 3s"),
            (
                "100% tests passed, 0 tests failed out of 3\n\nTotal Test time (real) =   0.02 sec",
                "100% tests passed, 0 tests failed out of 3",
            ),
            ("Done in 3.21s.", "Done in 3.21s."),
            (
                "# tests 2\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 52.1",
                "# fail 1",
            ),
        ] {
            check(output, line);
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
