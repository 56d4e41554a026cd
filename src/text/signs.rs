//! What the lines of programs' output say: that something failed, why, how it ended, or a warning.
//!
//! Signs are general forms of lines, each from the documentation or the sources of the programs that
//! print it. They count for what programs report; what is only read (a source file, a diff) may
//! contain the same words. Pure.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};

use super::ansi::{self, Colours};

/// What a line says, the worthiest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sign {
    Warning,
    /// That something failed, in a log: programs that work log failures, too.
    Logged,
    /// What a failure found, in its own words: the lines of pytest that begin with `E`.
    Detail,
    /// How many tests passed, and the like.
    Summary,
    Failure,
}

/// A form of lines.
struct Form {
    sign: Sign,
    /// A pattern over bytes.
    pattern: &'static str,
    /// A line that has this form, as printed by a program of the comment above it.
    #[cfg_attr(not(test), allow(dead_code))]
    example: &'static str,
}

const fn form(sign: Sign, pattern: &'static str, example: &'static str) -> Form {
    Form { sign, pattern, example }
}

use Sign::{Detail, Failure, Logged, Summary, Warning};

const FORMS: &[Form] = &[
    // pytest
    form(
        Failure,
        r"^(FAILED|ERROR) \S*(::|\.py)",
        "FAILED tests/test_a.py::test_b - assert 1 == 2",
    ),
    form(Failure, r"^_{3,} .* _{3,}$", "_________ test_b[1-2] _________"),
    form(Detail, r"^E($| )", "E       assert 1 == 2"),
    form(
        Summary,
        r"^=+ .*\d+ (failed|passed|errors?|skipped|deselected|xfailed|warnings?)\b.*",
        "===== 1 failed, 2 passed in 0.05s =====",
    ),
    form(Summary, r"^\d+ (failed|passed|errors?)\b.* in [\d.:]+", "1 failed, 2 passed in 0.05s"),
    // unittest, nose2, Django
    form(Failure, r"^(FAIL|ERROR): \S", "FAIL: test_b (tests.TestA.test_b)"),
    form(Summary, r"^Ran \d+ tests?( |$)", "Ran 3 tests in 0.001s"),
    form(Summary, r"^(FAILED|OK) \(", "FAILED (failures=1)"),
    // Python, and other languages that name their exceptions so
    form(Failure, r"^\s*Traceback \(most recent call last\)", "Traceback (most recent call last):"),
    form(
        Failure,
        r"^\s*([a-zA-Z_]\w*[.:$]+)*[A-Z]\w*(Error|Exception|Interrupt|Failure|Exit)(:|$| \[)",
        "requests.exceptions.ConnectionError: refused",
    ),
    // Node.js, Deno, Terraform, Helm: within a box, too
    form(Failure, r"^(\xe2\x94\x82 |\| )?\s*(Uncaught )?Error: ", "│ Error: Invalid reference"),
    // rustc, cargo, and others that begin with the word
    form(Failure, r"^ {0,2}(fatal |internal )?error(\[\w+\])?: ", "error[E0308]: mismatched types"),
    form(Failure, r"^thread '.*' .*panicked at", "thread 'main' (12) panicked at src/main.rs:2:5:"),
    form(Failure, r"^test .* \.\.\. FAILED$", "test tests::adds ... FAILED"),
    form(Failure, r"^---- .* ----$", "---- tests::adds stdout ----"),
    form(Summary, r"^test result: ", "test result: FAILED. 1 passed; 1 failed"),
    // cargo-nextest
    form(
        Failure,
        r"^\s+(FAIL|SIGABRT|SIGSEGV|TIMEOUT) \[",
        "        FAIL [   0.004s] zt tests::adds",
    ),
    // go test, go build, go vet
    form(Failure, r"^\s*--- FAIL: ", "--- FAIL: TestAdd (0.00s)"),
    form(Failure, r"^FAIL(\t|$)", "FAIL\texample.com/a\t0.002s"),
    form(Failure, r"^(panic|fatal error): ", "panic: runtime error: index out of range [3]"),
    form(Failure, r"^\S+\.go:\d+:\d+: ", "./a.go:5:2: undefined: x"),
    form(Detail, r"^goroutine \d+ \[", "goroutine 1 [running]:"),
    form(Detail, r"^\s+\S+_test\.go:\d+: ", "    a_test.go:7: got 3, want 4"),
    // Jest, Vitest, Mocha, Jasmine, AVA, node:test
    form(Failure, r"^\s*FAIL\s+\S+", " FAIL  src/a.test.ts > adds"),
    form(Failure, r"^  \xe2\x97\x8f \S", "  ● sums › adds"),
    form(
        Failure,
        r"^\s*(\xe2\x9c(\x95|\x96|\x97|\x98)|\xc3\x97|\xe2\x9d\x8c) ",
        "    ✕ adds (3 ms)",
    ),
    form(Failure, r"^ {1,6}\d+\) \S", "  1) sums"),
    form(
        Summary,
        r"^\s*(Tests|Test Suites|Test Files):?\s+\d",
        "Tests:       1 failed, 2 passed, 3 total",
    ),
    form(Summary, r"^\s*\d+ (passing|failing|pending)\b", "  1 failing"),
    // TAP
    form(Failure, r"^\s*not ok\b", "not ok 2 - adds"),
    form(Summary, r"^# (fail|pass)\s+\d+", "# fail 1"),
    // RSpec, Minitest, PHPUnit
    form(Failure, r"^rspec \S+:\d+", "rspec ./spec/a_spec.rb:3 # sums adds"),
    form(Failure, r"^\d+\) \S+(::|#)\S+", "1) SumTest::testAdds"),
    form(Summary, r"^\d+ (examples?|runs|tests), \d+ ", "3 examples, 1 failure"),
    form(Summary, r"^Tests: \d+, Assertions: ", "Tests: 3, Assertions: 3, Failures: 1."),
    // GoogleTest, CTest, Catch2
    form(Failure, r"^\[  FAILED  \]", "[  FAILED  ] Sum.Adds (0 ms)"),
    form(
        Failure,
        r"\*\*\*(Failed|Exception|Timeout|Not Run)",
        "2/3 Test #2: adds ...***Failed    0.00 sec",
    ),
    form(Failure, r": FAILED:$|^FAILED:", "FAILED: CMakeFiles/a.dir/a.c.o"),
    form(Failure, r"^\S+:\d+: Failure$", "/w/a_test.cc:5: Failure"),
    form(Summary, r"^\d+% tests passed, ", "67% tests passed, 1 tests failed out of 3"),
    form(Summary, r"^\s*\d+ FAILED TESTS?$", " 1 FAILED TEST"),
    // GCC, Clang, javac, tsc, mypy, Swift, MSBuild
    form(
        Failure,
        r"^\S.*:\d+(:\d+)?(: | - )((fatal|internal compiler|syntax|semantic) )?error\b",
        "a.c:5:3: error: expected ';' before '}' token",
    ),
    form(Failure, r"\(\d+,\d+\): error ", "src/a.ts(1,7): error TS2322: Type 'string'"),
    form(
        Failure,
        r"^[\w./+-]+: ((fatal|internal compiler) )?(error|fatal): ",
        "collect2: error: ld returned 1 exit status",
    ),
    form(
        Failure,
        r"undefined reference to |undefined symbol",
        "a.c:(.text+0x5): undefined reference to `f'",
    ),
    form(Summary, r"^Found \d+ errors?", "Found 2 errors in the same file, starting at: a.ts:1"),
    form(Summary, r"^\d+ errors?( generated)?\.?$", "1 error generated."),
    // ESLint, Ruff, Flake8, Pylint
    form(Failure, r"^\s+\d+:\d+\s+error\b", "  3:7  error  'x' is never used  no-unused-vars"),
    form(Failure, r"^\S+:\d+:\d+: [A-Z]+\d+ ", "a.py:1:1: F401 'os' imported but unused"),
    form(Summary, r"^\s*\xe2\x9c\x96 \d+ problems?", "✖ 2 problems (1 error, 1 warning)"),
    // make, ninja, CMake, Bazel
    form(Failure, r"^\S*make(\[\d+\])?: \*\*\*", "make: *** [Makefile:3: all] Error 1"),
    form(Failure, r"^ninja: (build stopped|error)", "ninja: build stopped: subcommand failed."),
    form(Failure, r"^CMake Error\b", "CMake Error at CMakeLists.txt:3 (add_library):"),
    form(Failure, r"^\*\*\* ", "*** buffer overflow detected ***: terminated"),
    // npm, pnpm, Yarn, pip, webpack, Vite
    form(Failure, r"^npm (ERR!|error)", "npm error code ERESOLVE"),
    form(Failure, r"\bERR_PNPM_|\bELIFECYCLE\b", " ERR_PNPM_OUTDATED_LOCKFILE  Cannot install"),
    form(Failure, r"^(error|ERROR)( in)? \S", "error Command failed with exit code 1."),
    form(Failure, r"^\s*ERROR: ", "ERROR: No matching distribution found for nope"),
    // Gradle, Maven, sbt, Kotlin
    form(Failure, r"^> Task .* FAILED$|^\S.* > .* FAILED$", "SumTest > adds() FAILED"),
    form(Failure, r"^(FAILURE: |\* What went wrong:)", "* What went wrong:"),
    form(Failure, r"^BUILD FAILED|\bBUILD FAILURE\b", "BUILD FAILED in 3s"),
    form(Failure, r"^\[(ERROR|error|FATAL)\] *\S", "[ERROR] /w/A.java:[3,9] cannot find symbol"),
    form(Failure, r"^e: \S", "e: file:///w/A.kt:3:5 Unresolved reference: x"),
    form(
        Summary,
        r"Tests run: \d+, Failures: ",
        "[INFO] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0",
    ),
    form(Summary, r"^(BUILD SUCCESS|\d+ tests completed)", "3 tests completed, 1 failed"),
    // dotnet test
    form(Failure, r"^  Failed \S", "  Failed SumTests.Adds [3 ms]"),
    form(Summary, r"^(Failed|Passed)! +- ", "Failed!  - Failed:     1, Passed:     2"),
    // Ansible
    form(Failure, r"^(fatal|failed): \[", "fatal: [web1]: FAILED! => {\"changed\": false}"),
    form(Summary, r"^PLAY RECAP|\bok=\d+ .*\bfailed=\d+", "PLAY RECAP *********"),
    // Java
    form(Failure, r"^(Exception in thread |Caused by: )", "Caused by: java.io.IOException: closed"),
    // PHP, Ruby, Elixir
    form(Failure, r"^(PHP )?(Fatal|Parse) error: ", "PHP Fatal error:  Uncaught Exception: x"),
    form(
        Failure,
        r"^\S+:\d+:in .* \(\w+\)$",
        "a.rb:1:in 'f': undefined method 'g' (NoMethodError)",
    ),
    form(Failure, r"^\s*\*\* \(\w", "** (RuntimeError) x"),
    // git
    form(Failure, r"^(fatal: |CONFLICT \()", "CONFLICT (content): Merge conflict in a"),
    form(Failure, r"^ ! \[", " ! [rejected]        main -> main (fetch first)"),
    // Shells and the kernel
    form(
        Failure,
        r"^(\S*/)?(zsh|bash|sh|dash|ksh)(:\d+|: line \d+|: \d+)?: \S",
        "bash: line 1: nope: command not found",
    ),
    form(
        Failure,
        r": (command not found|No such file or directory|Permission denied|not found)$",
        "cat: nope: No such file or directory",
    ),
    form(
        Failure,
        r"^(Segmentation fault|Bus error|Aborted|Killed|Illegal instruction)|\(core dumped\)",
        "Segmentation fault (core dumped)",
    ),
    form(
        Failure,
        r"\b[Aa]ssertion\b.*\b[Ff]ailed\b|\bAssertionError\b",
        "a: a.c:3: main: Assertion `0' failed.",
    ),
    // curl, ssh, rsync, Docker, systemd
    form(Failure, r"^curl: \(\d+\) ", "curl: (7) Failed to connect to localhost port 1"),
    form(
        Failure,
        r"^(ssh: |Host key verification failed|rsync error: )",
        "Host key verification failed.",
    ),
    form(Failure, r"^(ERROR: )?[Ff]ailed to ", "Failed to start nginx.service: Unit not found."),
    // The kernel, Valgrind, sanitizers
    form(
        Failure,
        r"\b(Out of memory: Killed|BUG: |Oops: |segfault at |EXT4-fs error)",
        "[  1.5] Out of memory: Killed process 12 (node)",
    ),
    form(
        Failure,
        r"^==\d+==\s*(Invalid|ERROR|Use of|Conditional jump)",
        "==12== Invalid read of size 4",
    ),
    // Swift, Bazel, Test::More, Dart, Robot Framework, Behave, Common Test
    form(
        Failure,
        r"\bTest Case '.*' failed\b",
        "Test Case 'SumTests.testAdds' failed (0.003 seconds)",
    ),
    form(Failure, r"^//\S+\s+(FAILED|TIMEOUT|NO STATUS)\b", "//cart:cart_test   FAILED in 1.2s"),
    form(Failure, r"^\s*#\s+Failed test ", "#   Failed test 'adds'"),
    form(Failure, r" \[E\]$", "00:01 +3 -1: adds two [E]"),
    form(Failure, r"\| FAIL \|$", "Adds two                    | FAIL |"),
    form(Failure, r"\bASSERT FAILED\b|^%%% .* FAILED", "ASSERT FAILED: expected 1"),
    // MSVC, Pylint, RuboCop, ShellCheck, go vet, LaTeX
    form(
        Failure,
        r"\(\d+(,\d+)?\)\s?: (fatal )?error ",
        r"C:\w\a.cpp(12): error C2065: 'x': undeclared",
    ),
    form(Failure, r"^LINK : ", "LINK : fatal error LNK1120: 1 unresolved externals"),
    form(Failure, r"^\S+:\d+:\d+: [A-Z]+\d*:? ", "cart.py:12:4: E1101: no member"),
    form(Failure, r" \(error\): ", "In a.sh line 3: SC1073 (error): Couldn't parse"),
    form(Failure, r"^vet: ", "vet: ./a.go:12:2: undefined: x"),
    form(Failure, r"^! ", "! Undefined control sequence."),
    // R, Lua, Perl
    form(Failure, r"^(Error in |lua: |Can't locate )", "Error in f(x) : object 'y' not found"),
    // apt, kubectl, psql, SQLite, resolvers of packages
    form(Failure, r"^E: \S", "E: Unable to locate package nope"),
    form(
        Failure,
        r"^(Error from server|The \S+ .* is invalid)",
        "Error from server (NotFound): pods \"a\" not found",
    ),
    form(
        Failure,
        r"^psql:\S+:\d+: (ERROR|FATAL)",
        "psql:m.sql:3: ERROR:  relation \"cart\" does not exist",
    ),
    form(
        Failure,
        r"^Parse error near line|^Error: near line",
        "Parse error near line 3: no such table",
    ),
    form(
        Failure,
        r"version solving failed|requirements could not be resolved|^Could not find ",
        "Your requirements could not be resolved to an installable set of packages.",
    ),
    // Annotations of CI
    form(Failure, r"^(##\[error\]|::error)", "##[error]Process completed with exit code 1."),
    // Other languages
    form(
        Failure,
        r"^(erreur|Erreur|Fehler|FEHLER|\xe9\x94\x99\xe8\xaf\xaf|\xd0\x9e\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba\xd0\xb0)\s?(:|\xef\xbc\x9a)",
        "Fehler: Datei nicht gefunden",
    ),
    // Logs with levels
    form(
        Logged,
        r"^.*\b(ERROR|FATAL|CRITICAL|SEVERE|PANIC|EMERGENCY)\b",
        "2026-01-02 03:04:05,678 ERROR [main] no connection",
    ),
    form(
        Logged,
        r"(?i)\blevel=(error|fatal|panic)\b",
        "time=2026-01-02 level=ERROR msg=\"no connection\"",
    ),
    form(
        Logged,
        r#""(level|severity)": ?"(?i:error|fatal|critical|panic)""#,
        r#"{"level":"error","msg":"x"}"#,
    ),
    form(
        Logged,
        r"\[(emerg|alert|crit|error|ERR)\]",
        "2026/01/02 03:04:05 [emerg] 1#1: unknown directive",
    ),
    form(Logged, r"^[EF]\d{4} \d\d:\d\d", "E0102 03:04:05.678 1 cart.go:12] no connection"),
    // Warnings of all of them
    form(Warning, r"^\s*(\S+: )?([Ww]arning|WARN(ING)?)\b", "warning: unused variable: `x`"),
    form(
        Warning,
        r": [Ww]arning: |Warning: |\bWARN(ING)?\b",
        "a.c:3:7: warning: unused variable 'x'",
    ),
];

/// Forms of lines at the beginnings of which only a record of what programs printed is recognised.
const RECORDS: &[&str] = &[
    r"^=+ test session starts",
    r"^_{3,} .* _{3,}$",
    r"^running \d+ tests?$",
    r"^test result: ",
    r"^error\[E\d+\]: ",
    r"^thread '.*' .*panicked at",
    r"^(=== RUN|--- (FAIL|PASS)|ok  \t|FAIL\t)",
    r"^(PASS|FAIL) \S",
    r"^Test (Suites|Files):?\s+\d",
    r"^(TAP version \d|not ok \d|ok \d+ - )",
    r"^\[(==========|----------|  FAILED  |       OK )\]",
    r"^\S*make(\[\d+\])?: ",
    r"^\S+:\d+:\d+: (fatal )?(error|warning): ",
    r"^(npm (ERR!|error|WARN|warn)|> \S+@\S+ \w+$)",
    r"^(> Task :|BUILD (FAILED|SUCCESS)|\[(INFO|ERROR|WARNING)\] )",
    r"^Traceback \(most recent call last\):",
    r"^(Exception in thread |Caused by: )",
    r"^Ran \d+ tests? in ",
    r"^(PLAY|TASK) \[",
    r"^##\[(error|warning|group|section)\]",
    r"^(\$|\xe2\x9d\xaf) \S",
    r"^\S*[\w.-]+@[\w.-]+:\S*[$#%] ",
    r"^.?.?.?.?\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*\b(DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b",
];

/// Words one of which each line has that says more than a warning, but for numbered failures (`1) adds`);
/// other lines may have them too.
const WORDS: &[&str] = &[
    "rror",
    "RROR",
    "FAIL",
    "ailed",
    "ailure",
    "ailing",
    "atal",
    "panic",
    "PANIC",
    "Traceback",
    "xception",
    "nterrupt",
    "Exit:",
    "Exit\n",
    "___",
    "\nE ",
    "\nE\n",
    " passed",
    "test result",
    "Tests",
    "Test Suites",
    "Test Files",
    "Ran ",
    "OK (",
    "stdout ----",
    "stderr ----",
    "SIG",
    "● ",
    "✕",
    "✖",
    "✗",
    "✘",
    "❌",
    "× ",
    "passing",
    "pending",
    "not ok",
    "# pass",
    "# fail",
    "rspec ",
    "runs, ",
    "tests, ",
    "tests completed",
    "example, ",
    "examples, ",
    "***",
    "undefined ",
    "Found ",
    "CRITICAL",
    "SEVERE",
    "What went wrong",
    "\ne: ",
    "Passed!",
    "PLAY RECAP",
    "ok=",
    "Caused by: ",
    ":in ",
    "** (",
    "CONFLICT (",
    " ! [",
    "sh:",
    "No such file",
    "denied",
    "not found",
    "core dumped",
    "Aborted",
    "Killed",
    "Illegal",
    ".go:",
    "goroutine ",
    "curl: (",
    "ELIFECYCLE",
    "ERR_PNPM",
    "Not Run",
    "BUILD ",
    ".py:",
    ".rb:",
    " E  ",
    "\tE  ",
    "Oops",
    "segfault",
    "Invalid read",
    "Invalid write",
    " [E]",
    "LINK",
    "vet: ",
    "\n! ",
    "lua: ",
    "Can't ",
    "\nE: ",
    "is invalid",
    "solving",
    "be resolved",
    "Could not",
    "ssh: ",
    "TIMEOUT",
    "crit]",
    "emerg]",
    "alert]",
    "ERR]",
    "erreur",
    "Erreur",
    "Fehler",
    "FEHLER",
    "错误",
    "Ошибка",
    "\nE0",
    "\nF0",
    "\nE1",
    "\nF1",
    "BUG: ",
    "EMERGENCY",
    "NO STATUS",
    "Use of",
    "Conditional",
    "skipped",
    "deselected",
    "xfailed",
    "warnings",
];

static POSSIBLE: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(WORDS).ok()
});

/// Where in a text lines may say something worth more than a warning: places within them, in order.
/// All others say nothing that [`sign_of`] knows.
pub(crate) fn possible(text: &[u8]) -> impl Iterator<Item = usize> {
    let words = POSSIBLE.as_ref().map(|words| words.find_iter(text));
    words.into_iter().flatten().map(|found| found.end() - 1)
}

/// The forms of one sign as one pattern.
fn of_sign(sign: Sign) -> Option<Regex> {
    let forms = FORMS.iter().filter(|form| form.sign == sign).map(|form| form.pattern);
    any_of(forms)
}

/// ASCII alone has classes, since compiled for all of Unicode they would take MiB.
fn any_of(patterns: impl Iterator<Item = &'static str>) -> Option<Regex> {
    let all: Vec<String> = patterns.map(|pattern| format!("(?:{pattern})")).collect();
    RegexBuilder::new(&all.join("|")).unicode(false).build().ok()
}

static SIGNS: LazyLock<Vec<(Sign, Regex)>> = LazyLock::new(|| {
    let order = [Summary, Failure, Detail, Logged, Warning];
    order.into_iter().filter_map(|sign| Some((sign, of_sign(sign)?))).collect()
});

static RECORD: LazyLock<Option<Regex>> = LazyLock::new(|| any_of(RECORDS.iter().copied()));

/// How much of a line is looked at, in bytes.
const LOOKED_AT: usize = 400;

/// What programs that run others put before their lines, and CI before those of its steps.
const PREFIXES: &[&str] = &[
    // concurrently, pytest-xdist, timestamps in brackets
    r"\[[^\]]+\] ",
    // Docker Compose, Foreman
    r"[\w.-]+ *\| ",
    // BuildKit
    r"#\d+ [\d.]+ ",
    // GitHub's and other timestamps, syslog
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)? +",
    r"\d\d:\d\d:\d\d[\d.,]* +",
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \S+: ",
    // gh run view --log
    r"[^\t]+\t[^\t]+\t",
    // Turborepo, pnpm, Lerna, Nx
    r"@?[\w./-]+(?::[\w./-]+)+: ",
    r"@[\w.-]+/[\w.-]+: ",
    // Boxes, and lines that are further in
    r"(?:\xe2\x94\x82|\|) ?",
    r"[ \t]+",
];

static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let all = PREFIXES.join("|");
    RegexBuilder::new(&format!("^(?:{all})")).unicode(false).build().ok()
});

/// How many prefixes a line may have.
const MOST_PREFIXES: usize = 3;

/// What a line says, if it has such a form, by itself or after prefixes. It may have escape sequences.
pub(crate) fn sign_of(line: &str) -> Option<Sign> {
    let line = line.get(..line.floor_char_boundary(LOOKED_AT)).unwrap_or(line);
    let plain;
    let line = if line.contains('\u{1b}') {
        plain = ansi::readable(line.as_bytes(), Colours::Drop, None);
        plain.as_str()
    } else {
        line
    };
    let mut rest = line.as_bytes();
    let mut sign = sign_at(rest);
    for _ in 0..MOST_PREFIXES {
        // Logs may have prefixes before a line that says more.
        if sign.is_some_and(|sign| sign > Logged) {
            break;
        }
        let prefix = PREFIX.as_ref().and_then(|prefix| prefix.find(rest));
        let Some(after) = prefix.and_then(|prefix| rest.get(prefix.end()..)) else {
            break;
        };
        rest = after;
        sign = sign.max(sign_at(rest));
    }
    sign
}

fn sign_at(line: &[u8]) -> Option<Sign> {
    SIGNS.iter().find(|(_, forms)| forms.is_match(line)).map(|(sign, _)| *sign)
}

/// Words one of which each summary has. Most output has none, and is not looked at further.
const SUMMARIES: &[&str] = &[
    "passed",
    "failed",
    "Passed!",
    "Failed!",
    "failures",
    "Failures",
    "errors",
    "error",
    "test result",
    "Tests",
    "Test ",
    "tests",
    "OK (",
    "FAILED",
    "Ran ",
    "passing",
    "failing",
    "# pass",
    "# fail",
    "examples",
    "BUILD",
    "PLAY RECAP",
    "ok=",
    "problem",
];

/// Whether a text has a line that says how tests or a build have ended.
pub(crate) fn sums_up(text: &str) -> bool {
    SUMMARIES.iter().any(|word| text.contains(word))
        && text.lines().any(|line| sign_of(line) == Some(Summary))
}

/// Whether it is a failure of which only a header above says what has failed: Ansible prints that of
/// a task before what each host did.
pub(crate) fn needs_header(line: &str) -> bool {
    ["fatal: [", "failed: ["].iter().any(|start| line.starts_with(start))
}

/// Whether it is such a header.
pub(crate) fn is_header(line: &str) -> bool {
    ["TASK [", "RUNNING HANDLER ["].iter().any(|start| line.starts_with(start))
}

/// Whether a line is one that a runner, a compiler or a shell prints, as the record of a session has
/// them.
pub(crate) fn is_of_a_record(line: &str) -> bool {
    let line = line.get(..line.floor_char_boundary(LOOKED_AT)).unwrap_or(line);
    let plain = ansi::readable(line.as_bytes(), Colours::Drop, None);
    RECORD.as_ref().is_some_and(|record| record.is_match(plain.as_bytes()))
}

/// A number that lines share which differ only in numbers and addresses; two failures with the same one count as
/// equal. Others have the same only by chance.
pub(crate) fn kind_of(line: &[u8]) -> u64 {
    // FNV-1a.
    let mut kind: u64 = 0xcbf2_9ce4_8422_2325;
    let (mut after_digit, mut in_address) = (false, false);
    for byte in line.trim_ascii() {
        let begins_address = after_digit && *byte == b'x';
        in_address = begins_address || (in_address && byte.is_ascii_hexdigit());
        let is_digit = byte.is_ascii_digit() || in_address;
        if !(is_digit && after_digit) {
            let shown = if is_digit { b'0' } else { *byte };
            kind = (kind ^ u64::from(shown)).wrapping_mul(0x0100_0000_01b3);
        }
        after_digit = is_digit;
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_an_example_that_only_it_needs() {
        for form in FORMS {
            let alone = any_of(std::iter::once(form.pattern)).expect(form.pattern);
            assert!(alone.is_match(form.example.as_bytes()), "{}: {}", form.pattern, form.example);
            let sign = sign_of(form.example).expect(form.example);
            assert!(sign >= form.sign || sign == Summary, "{}: {sign:?}", form.example);
        }
        assert!(RECORDS.iter().all(|record| any_of(std::iter::once(*record)).is_some()));
    }

    #[test]
    fn each_form_but_numbered_failures_has_a_word_that_is_looked_for() {
        for form in FORMS.iter().filter(|form| form.sign > Warning) {
            let is_numbered = form.example.trim_start().starts_with("1) ");
            let text = format!("x\n{}\n", form.example);
            assert!(is_numbered || possible(text.as_bytes()).next().is_some(), "{}", form.example);
        }
    }

    #[test]
    fn prefixes_hide_no_sign() {
        for prefix in [
            "[web] ",
            "web-1  | ",
            "#12 3.450 ",
            "2026-01-02T03:04:05.1234567Z ",
            "build\tRun tests\t2026-01-02T03:04:05Z ",
            "[2026-01-02T03:04:05Z] ",
            "03:04:05 ",
            "web:test: ",
            "@acme/web: ",
            "Jan 02 03:04:05 host app[12]: ",
            "[gw0] ",
            "│ ",
            "    ",
            "\t",
        ] {
            for line in [
                "FAILED tests/a.py::test_b - assert 1 == 2",
                "Traceback (most recent call last):",
                "error[E0308]: mismatched types",
                "--- FAIL: TestAdd (0.00s)",
                "a.c:5:3: error: expected ';'",
                "npm error code ERESOLVE",
                "make: *** [Makefile:3: all] Error 1",
                "Error: Invalid reference",
                "E       assert 1 == 2",
                "fatal: not a git repository",
            ] {
                let sign = sign_of(&format!("{prefix}{line}"));
                assert!(sign.is_some_and(|sign| sign > Logged), "{prefix}{line}: {sign:?}");
            }
        }
    }

    #[test]
    fn each_summary_is_found_by_its_words() {
        for form in FORMS.iter().filter(|form| form.sign == Summary) {
            assert!(sums_up(&format!("x\n{}\n", form.example)), "{}", form.example);
        }
        assert!(!sums_up("all is well\n"));
    }

    #[test]
    fn ordinary_lines_say_nothing() {
        for line in [
            "",
            "hello world",
            "tests/test_a.py::test_b PASSED  [ 50%]",
            "test tests::adds ... ok",
            "ok  \texample.com/a\t0.002s",
            "    let error = parse(text)?;",
            "Compiling thiserror v1.0.0",
            "   Compiling error-chain v0.12.4",
            "-rw-r--r-- 1 root root 12 Jan  1 00:00 error.log",
            "1. First, do this",
            "no errors found",
            "0 errors",
        ] {
            let sign = sign_of(line);
            assert!(sign.is_none() || sign == Some(Summary), "{line}: {sign:?}");
        }
    }

    #[test]
    fn colours_hide_no_sign() {
        assert_eq!(sign_of("\u{1b}[31mFAILED\u{1b}[0m tests/a.py::\u{1b}[1mtest_b"), Some(Failure));
        assert_eq!(sign_of("\u{1b}[31m== \u{1b}[1m1 failed\u{1b}[0m, 2 passed =="), Some(Summary));
    }
}
