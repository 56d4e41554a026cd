//! What the lines of programs' output say: that something failed, why, how it ended, or a warning.
//!
//! Signs are general forms of lines, each from the documentation or the sources of the programs that
//! print it. They count for what programs report; what is only read (a source file, a diff) may
//! contain the same words. Pure.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};

use super::ansi::{self, Colours};

/// What a line says, the worthiest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sign {
    Warning,
    /// Words that mostly say that something failed, though the line has no other form.
    Vague,
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
    #[cfg(test)]
    example: &'static str,
}

#[cfg_attr(not(test), allow(unused_variables))]
const fn form(sign: Sign, pattern: &'static str, example: &'static str) -> Form {
    Form {
        sign,
        pattern,
        #[cfg(test)]
        example,
    }
}

use Sign::{Detail, Failure, Logged, Summary, Vague, Warning};

/// Lines that say nothing, though they have words of signs: names of tests that passed say what would
/// be a failure, and runners head what tests print or sum up each of their parts.
const ORDINARY: &[&str] = &[
    // Jest, and the routes that Next.js lists
    r"^\s*\xe2\x97\x8f (Console$|/)",
    // Maven, of one class
    r"Tests run: \d+, Failures: 0, Errors: 0\b.*Time elapsed: ",
    // Tests that passed: of Mocha, Vitest, node:test, TAP, Bun, Automake, Jest, cargo test, go test,
    // GoogleTest, nextest, Robot Framework, pytest
    r"^\s*(\xe2\x9c(\x93|\x94|\x85)|\xe2\x88\x9a|\xf0\x9f\x9f\xa2) ",
    r"^\s*(ok \d|\(pass\) |PASS(ED)?[: ]|--- PASS: |=== (RUN|PAUSE|CONT|NAME) |PASS \[)",
    r"^\[ (RUN     |      OK) \]|\| PASS \|$|^\S+::\S+.* PASSED( +\[ *\d+%\])?$",
    r"( \.\.\.+|  ) ?(ok|OK|PASSED|Passed)( +\(?[\d.]+ ?m?s(ec)?\)?)?$",
];

/// Lines that begin like a failure of theirs but say less.
const MILD: &[Form] = &[
    // Compilers and linters, of a place in a file
    form(
        Warning,
        r"^(\w:)?[^\s:]+:\d+(:\d+)?:? ?(- )?\s*([Ww]arning|WARN(ING)?|note|NOTE|[Ii]nfo|INFO|remark|hint|[Dd]ebug|DEBUG)\b",
        "a.go:3:7: warning: unused",
    ),
    // Pylint: conventions, hints and warnings
    form(Warning, r"^\S+:\d+:\d+: [CRWI]\d{4}: ", "a.py:1:0: C0116: Missing docstring"),
    // Perl
    form(Warning, r"^Use of .* at \S+ line \d+\.$", "Use of uninitialized value at a.pl line 3."),
];

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
    form(Detail, r"^goroutine \d+ \[", "goroutine 1 [running]:"),
    form(Detail, r"^\s+\S+_test\.go:\d+: ", "    a_test.go:7: got 3, want 4"),
    // Jest, Vitest, Mocha, Jasmine, AVA, node:test
    form(Failure, r"^\s*FAIL\s+\S+", " FAIL  src/a.test.ts > adds"),
    form(Failure, r"^  \xe2\x97\x8f \S", "  ● sums › adds"),
    form(
        Failure,
        r"^\s*(\xe2\x9c(\x95|\x96|\x97|\x98)|\xc3\x97|\xe2\x9d\x8c|\xe2\x9b\x94|\xf0\x9f\x94\xb4|\xe2\xa8\xaf) ",
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
    // Bun, go test -json, JUnit's XML
    form(Failure, r"^\s*\(fail\) ", "(fail) cart > adds tax [0.11ms]"),
    form(Failure, r#""Action": ?"(build-)?fail""#, r#"{"Action":"fail","Test":"TestTax"}"#),
    form(Failure, r"<(failure|error) [^>]*(message|type)=", r#"<failure message="expected 1">"#),
    form(Summary, r"^# (fail|pass)\s+\d+", "# fail 1"),
    // RSpec, Minitest, PHPUnit
    form(Failure, r"^(rspec|cucumber) \S+:\d+", "rspec ./spec/a_spec.rb:3 # sums adds"),
    form(Failure, r"^\d+\) \S+(::|#)\S+", "1) SumTest::testAdds"),
    form(Failure, r"^\S+#\S+ \[\S+:\d+\]:?$", "CartTest#test_tax [test/cart_test.rb:17]:"),
    // NUnit, Julia, doctest, Spock, Kotest, Karate, Hypothesis, sqllogictest, LTP, shUnit2
    form(Failure, r"^\d+\) (Failed|Error|Invalid) : ", "1) Failed : Acme.Tests.Cart.AddsTax"),
    form(Failure, r"(Test Failed|Error During Test) at ", "adds: Test Failed at /w/runtests.jl:9"),
    form(Failure, r"^\s*(Failed example:|Condition not satisfied)", "Failed example:"),
    form(Failure, r"\bexpected:? ?[<\[(].* but (was|found|got)\b", "expected:<108> but was:<100>"),
    form(
        Failure,
        r"\bmatch failed: |^query (result mismatch|failed)|\bFalsif(ying example|ied)\b",
        "cart.feature:12 - match failed: EQUALS",
    ),
    form(Failure, r": T(FAIL|BROK): |^ASSERT:", "tax01.c:17: TFAIL: total() returned 100"),
    // Behind the name of a test: ScalaTest, xUnit.net, Meson, pg_regress, Karma, Zig, pre-commit
    form(
        Failure,
        r"\*\*\* FAILED \*\*\*|(\.\.\.+|\]|:) *\[?(FAIL(ED|URE)?|Failed|failed)\b",
        "- should add tax *** FAILED ***",
    ),
    form(
        Failure,
        r"\[ *FAIL(ED)? *\]|  FAIL(ED)? |[^\d\s] +FAIL(ED)?( in [\d.]+ ?m?s)?$",
        "    Acme.Tests.Cart.AddsTax [FAIL]",
    ),
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
    form(
        Failure,
        r"\(\d+(,\d+)*\)\s?: ((fatal|internal) )?(error|ERROR)\b",
        "src/a.ts(1,7): error TS2322: Type 'string'",
    ),
    form(Failure, r"^\S+ : (fatal )?error \w+", "cart.obj : error LNK2019: unresolved symbol"),
    form(
        Failure,
        r"^[\w./+-]+: ((fatal|internal compiler) )?(error|fatal)\b",
        "collect2: error: ld returned 1 exit status",
    ),
    // Anything that names a place in a source file: compilers, linters, and others without the word
    form(
        Failure,
        r"^(\w:)?[^\s:()]*\w\.\w+:\d+:\d+($|:| - | (lint|parse|format|[A-Z]+\d)\S*)",
        "src/cart.kt:17:9: unexpected token",
    ),
    form(Failure, r"^\S+:\d+ \w+ error: ", "Dockerfile:17 DL3020 error: Use COPY"),
    form(
        Failure,
        r"undefined reference to |[Uu]ndefined symbol|symbol\(s\) not found",
        "a.c:(.text+0x5): undefined reference to `f'",
    ),
    form(Summary, r"^Found \d+ errors?", "Found 2 errors in the same file, starting at: a.ts:1"),
    form(Summary, r"^\d+ errors?( generated)?\.?$", "1 error generated."),
    // ESLint, Ruff, Flake8, Pylint
    form(
        Failure,
        r"^\s+\d+:\d+\s+(error\b|\xe2\x9c\x96 )",
        "  3:7  error  'x' is never used  no-unused-vars",
    ),
    form(
        Failure,
        r"^\s*error \xe2\x80\xa2 ",
        "  error • Undefined name 'tax' • lib/cart.dart:17:9",
    ),
    form(Failure, r"^In \S+ line \d+:$", "In deploy.sh line 9:"),
    form(Failure, r"^\S+:\d+:\d+: [A-Z]+\d+ ", "a.py:1:1: F401 'os' imported but unused"),
    form(Summary, r"^\s*\xe2\x9c\x96 \d+ problems?", "✖ 2 problems (1 error, 1 warning)"),
    // make, ninja, CMake, Bazel
    form(Failure, r"^[^\s:]+(:\d+)?: \*\*\* ", "make: *** [Makefile:3: all] Error 1"),
    form(Failure, r"^ninja: (build stopped|error)", "ninja: build stopped: subcommand failed."),
    form(Failure, r"^CMake Error\b", "CMake Error at CMakeLists.txt:3 (add_library):"),
    form(Failure, r"^\*\*\* ", "*** buffer overflow detected ***: terminated"),
    // npm, pnpm, Yarn, pip, webpack, Vite
    form(Failure, r"^npm error|^\w+ ERR! ", "npm ERR! code ERESOLVE"),
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
    form(Failure, r"^(Fatal|FATAL|%Error(-\w+)?): ", "Fatal: unable to open config file"),
    form(Failure, r"^\s*[A-Z]\w+ ([Ee]rror|[Ee]xception):", "  Liquid Exception: no file"),
    form(Failure, r"^Error [a-z]+ ", "Error opening input file x.mp4."),
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
    // The runtimes of C++ and Rust, gdb, sanitizers, the race detector of Go, the dynamic linker
    form(
        Failure,
        r"^terminate called |^\s+what\(\): |^Program (received|terminated with) signal ",
        "terminate called after throwing an instance of 'std::out_of_range'",
    ),
    form(
        Failure,
        r"\bhas overflowed its stack\b|\bruntime error: |^WARNING: (DATA RACE|ThreadSanitizer)",
        "thread 'main' has overflowed its stack",
    ),
    form(Failure, r": version `\S+' not found", "./a: libc.so.6: version `GLIBC_2.38' not found"),
    // What the C library says of errors
    form(
        Failure,
        r"(: |^)(No space left on device|Permission denied \(|Read-only file system|Address already in use|Too many open files|Cannot allocate memory|Operation not permitted|Input/output error|Exec format error|Disk quota exceeded|No route to host|Network is unreachable|Name or service not known|Temporary failure in name resolution)",
        "cp: error writing 'x': No space left on device",
    ),
    // patch, perl
    form(Failure, r"^Hunk #\d+ FAILED|\bhunks? FAILED\b", "Hunk #2 FAILED at 88."),
    form(
        Failure,
        r" at \S+\.(pl|pm|t|PL|cgi) line \d+[.,]",
        "syntax error at cart.pl line 17, near \"}\"",
    ),
    // Elm, Oracle, SQL Server, CloudFormation, Kubernetes
    form(Failure, r"^-- [A-Z ]+ -{3,} \S+\.elm$", "-- TYPE MISMATCH ------------ src/Cart.elm"),
    form(
        Failure,
        r"\b(ORA|PLS|TNS)-\d{5}\b|^Msg \d+, Level (1[1-9]|2\d)\b",
        "ORA-00942: table or view does not exist",
    ),
    form(
        Failure,
        r"\b(CREATE|UPDATE|DELETE|ROLLBACK|IMPORT)(_ROLLBACK)?_FAILED\b",
        "AppStack | 60/100 | CREATE_FAILED | AWS::Lambda::Function",
    ),
    form(
        Failure,
        r"^\s*Warning\s+\w*(Failed|BackOff|Unhealthy|Evicted)|\b(CrashLoopBackOff|ImagePullBackOff|ErrImagePull|OOMKilled)\b",
        "Warning  FailedMount  3m  kubelet  MountVolume.SetUp failed",
    ),
    // curl, ssh, rsync, Docker, systemd
    form(Failure, r"^curl: \(\d+\) ", "curl: (7) Failed to connect to localhost port 1"),
    form(
        Failure,
        r"^(ssh: |Host key verification failed|rsync( error)?: |Job for \S+ failed)",
        "Host key verification failed.",
    ),
    form(
        Failure,
        r"^(ERROR: |\[[\w:.-]+\]:? )?(\w+ )?[Ff]ailed to ",
        "Failed to start nginx.service: Unit not found.",
    ),
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
        r"version solving failed|requirements could not be resolved|^Could not find |^ +Problem \d+$",
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
    // Pino
    form(Logged, r#"^\{"level":[56]0,"#, r#"{"level":50,"msg":"no connection"}"#),
    form(Logged, r"^(ERRO|FATA|PANI)\[\d", "ERRO[0003] no connection"),
    form(Logged, r"^((err|ERR): |\[([EF]|ERR|FTL)\] )", "err: no connection"),
    // Warnings of all of them
    form(Warning, r"^\s*(\S+: )?([Ww]arning|WARN(ING)?)\b", "warning: unused variable: `x`"),
    form(
        Warning,
        r": [Ww]arning: |Warning: |\bWARN(ING)?\b",
        "a.c:3:7: warning: unused variable 'x'",
    ),
];

/// Levels of lines of logs that report no failure, whatever their words.
const CALM: &str = r"^.{0,60}\b(INFO|DEBUG|TRACE|NOTICE|info|debug|trace|notice)\b";

/// Forms that count if neither another one nor the level of a log says what a line is.
const VAGUES: &[Form] = &[
    form(
        Vague,
        r"[a-zA-Z)\]'\x22`] failed(: [^\d\s]|[.;!,]|$| (because|with|after|due)\b)",
        "upload failed: x",
    ),
    form(
        Vague,
        r"\b([Cc]annot|[Cc]ould not|[Uu]nable to|[Ff]ailed to) [a-z]",
        "unable to open database file",
    ),
    form(
        Vague,
        r"\bE(CONNREFUSED|CONNRESET|NOTFOUND|NOENT|NOSPC|ACCES|PERM|ADDRINUSE|TIMEDOUT|MFILE|RESOLVE)\b",
        "getaddrinfo ENOTFOUND api.acme.test",
    ),
    form(
        Vague,
        r"\b(deadline exceeded|already in use|[Cc]onnection (refused|reset|timed out)|[Nn]o space left|marked build as failure|UNMET DEPENDENCY)\b",
        "listen tcp :8080: bind: address already in use",
    ),
    form(Vague, r"\b[Ss]yntax error\b|\b[Aa]n (\w+ )?error occurred\b", "syntax error near `('"),
    form(Vague, r"^([a-z_]\w*\.)+[A-Z]\w+: \S", "acme.errors.TaxMissing: no tax"),
    form(
        Vague,
        r"^(fail|panic|FAIL)\b|^ERR! |^\S+: invalid |\b([Uu]nknown|[Uu]nrecognized|[Ii]nvalid) (flag|option|command|argument)",
        "unknown flag: --taxx",
    ),
    form(
        Vague,
        r"\b[Ee]xit(ed)? (with )?(exit )?(code|status) [1-9]|\bnon-zero (exit )?(status|code)\b",
        "Process exited with code 137",
    ),
    form(Vague, r"\b[Ee]xpected .*\b(but|got|found)\b", "expected 108, found 100"),
];

/// Lines that belong to the failure above them even if they are not indented and come after a blank
/// line: what was expected, the difference, where it is, and notes.
const CONTINUATIONS: &[&str] = &[
    r"^\s*([Ee]xpected|EXPECTED|[Rr]eceived|[Aa]ctual|ACTUAL|[Gg]ot|[Bb]ut was|[Ff]ound|Message|[Dd]iff|DETAIL|HINT|CONTEXT)\b",
    r"^\s*(Error Message:|Stack ?[Tt]race|stack traceback|Backtrace|Previous (read|write)|Goroutine \d|What went wrong|Caused by)",
    r"^\s*(at|in|from|note|help) ?:? ?\S+",
    r"^\s*(\w:)?[^\s:]*\w\.\w+(:\d+|\(\d+)",
    r"^\s*([-+>|^~]|\d+ ?\||#\d|\xe2\x94|\xe2\x95|\xe2\x9d\xaf)",
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
    r"^ *Test (Suites|Files):?\s+\d",
    r"^(TAP version \d|not ok \d|ok \d+ - )",
    r"^\[(==========|----------|  FAILED  |       OK )\]",
    r"^\S*make(\[\d+\])?: ",
    r"^\S+:\d+:\d+: (fatal )?(error|warning): ",
    r"^(npm (ERR!|error|WARN|warn)|> \S+@\S+ \w+$)",
    r"^(> Task :|BUILD (FAILED|SUCCESS)|\[(INFO|ERROR|WARNING)\] )",
    r"^Traceback \(most recent call last\):",
    r"^(Exception in thread |Caused by: )",
    r"^Ran \d+ tests? in ",
    r"^\d+ (errors?|warnings?)$",
    r"^Plan: \d+ to add, ",
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
    "cucumber ",
    " Problem ",
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
    "goroutine ",
    "curl: (",
    "ELIFECYCLE",
    "ERR_PNPM",
    "Not Run",
    "BUILD ",
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
    "ERR!",
    "(fail)",
    "\"fail\"",
    "-fail\"",
    "⛔",
    "🔴",
    "⨯",
    "#test",
    " but was",
    " but found",
    " but got",
    "xpected ",
    "mismatch",
    "alsif",
    "TBROK",
    "ASSERT:",
    "not satisfied",
    "During Test",
    "error •",
    "\nIn ",
    "terminate called",
    "what():",
    " signal ",
    "overflowed",
    "DATA RACE",
    "Sanitizer",
    "version `",
    "o space left",
    "onnection re",
    "onnection timed",
    "already in use",
    "Read-only",
    "Address already",
    "Too many open",
    "not permitted",
    "Input/output",
    "quota exceeded",
    "No route",
    "unreachable",
    "not known",
    ".pl line",
    ".pm line",
    ".t line",
    ".PL line",
    ".cgi line",
    ".elm",
    "ORA-",
    "PLS-",
    "TNS-",
    "\nMsg ",
    "BackOff",
    "Unhealthy",
    "Evicted",
    "ErrImage",
    "OOMKilled",
    "rsync: ",
    "ERRO[",
    "FATA[",
    "PANI[",
    "\nerr: ",
    "\nERR: ",
    "\n[E] ",
    "\n[F] ",
    "FTL] ",
    "annot ",
    "ould not ",
    "nable to ",
    "deadline",
    "UNMET",
    "\nfail",
    "nvalid ",
    "nknown ",
    "nrecognized ",
    "xit code",
    "xit status",
    "xited with",
    "non-zero",
    "level\":5",
    "level\":6",
    "\npanic",
    "ECONN",
    "ENOTFOUND",
    "ENOENT",
    "ENOSPC",
    "EACCES",
    "EPERM",
    "EADDRINUSE",
    "ETIMEDOUT",
    "EMFILE",
    "ERESOLVE",
    "errors.",
    "exceptions.",
];

/// The endings of source files, after which compilers and linters write a line: words like those above.
const SOURCES: &str = "c cc cpp cxx cu h hh hpp m mm go rs zig nim v sv vhd d java kt kts scala groovy \
    gradle clj cs fs vb swift dart js jsx mjs cjs ts tsx mts cts vue svelte astro css scss sass less html \
    json yaml yml toml xml md mdx rst tex py pyi pyx rb erb php pl pm lua r R jl sh bash zsh sql proto \
    graphql tf hcl hs ml mli elm ex exs erl hrl f f90 f95 f03 for ads adb pas s S asm cmake bzl nix tcl el";

static POSSIBLE: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let places = SOURCES.split_whitespace().map(|ending| format!(".{ending}:"));
    let words = WORDS.iter().map(|word| (*word).to_owned()).chain(places);
    AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(words).ok()
});

/// Where in a text lines may say something worth more than a warning: places within them, in order.
/// All others say nothing that [`sign_of`] knows.
pub(crate) fn possible(text: &[u8]) -> impl Iterator<Item = usize> {
    let words = POSSIBLE.as_ref().map(|words| words.find_iter(text));
    words.into_iter().flatten().map(|found| found.end() - 1)
}

/// The forms of one sign as one pattern.
fn of_sign(forms: &[Form], sign: Sign) -> Option<Regex> {
    any_of(forms.iter().filter(|form| form.sign == sign).map(|form| form.pattern))
}

/// ASCII alone has classes, since compiled for all of Unicode they would take MiB.
fn any_of<'a>(patterns: impl Iterator<Item = &'a str>) -> Option<Regex> {
    let all: Vec<String> = patterns.map(|pattern| format!("(?:{pattern})")).collect();
    RegexBuilder::new(&all.join("|")).unicode(false).build().ok()
}

/// What lines say by their forms; the first that a line has counts.
static SIGNS: LazyLock<Vec<(Option<Sign>, Regex)>> = LazyLock::new(|| {
    let signs = [Summary, Failure, Detail, Logged, Warning];
    let forms = signs.into_iter().map(|sign| (Some(sign), of_sign(FORMS, sign)));
    let mild = std::iter::once((Some(Warning), of_sign(MILD, Warning)));
    let rest = [(None, any_of(std::iter::once(CALM))), (Some(Vague), of_sign(VAGUES, Vague))];
    let all = mild.chain(forms).chain(rest);
    all.filter_map(|(sign, forms)| Some((sign, forms?))).collect()
});

static SAYS_NOTHING: LazyLock<Option<Regex>> = LazyLock::new(|| any_of(ORDINARY.iter().copied()));

static CONTINUATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| any_of(CONTINUATIONS.iter().copied()));

/// Words that a summary has if something failed.
static FAILING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let counted = r"(fail(ed|ing|ures?|s)?|errors?|problems?|broken|Errors?|Fail(ed|ures?)|FAILED)";
    any_of([&*format!(r"\b[1-9]\d* {counted}\b|\b{counted}[:=]? ?[1-9]|FAIL")].into_iter())
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
    // Yarn
    r"\xe2\x9e\xa4 YN\d{4}: ",
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
    let line = plain_beginning(line);
    let mut rest = line.as_bytes();
    let mut sign = None;
    for prefixes in 0..=MOST_PREFIXES {
        if SAYS_NOTHING.as_ref().is_some_and(|forms| forms.is_match(rest)) {
            return None;
        }
        // What follows a prefix may say more, or that a test passed whose name speaks of failures.
        if sign <= Some(Logged) {
            sign = sign.max(sign_at(rest));
        }
        match after_prefix(rest).filter(|_| prefixes < MOST_PREFIXES) {
            Some(after) => rest = after,
            None => break,
        }
    }
    sign
}

/// As much of a line as is looked at, without escape sequences.
fn plain_beginning(line: &str) -> Cow<'_, str> {
    let line = line.get(..line.floor_char_boundary(LOOKED_AT)).unwrap_or(line);
    if line.contains('\u{1b}') {
        ansi::readable(line.as_bytes(), Colours::Drop, None).into()
    } else {
        line.into()
    }
}

fn after_prefix(line: &[u8]) -> Option<&[u8]> {
    let prefix = PREFIX.as_ref()?.find(line)?;
    line.get(prefix.end()..)
}

/// What a line says by itself.
fn sign_at(line: &[u8]) -> Option<Sign> {
    SIGNS.iter().find(|(_, forms)| forms.is_match(line)).and_then(|(sign, _)| *sign)
}

/// A line without what programs that run others put before it; indentation stays.
pub(crate) fn without_prefix(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..MOST_PREFIXES {
        let is_further_in = rest.starts_with([' ', '\t', '|', '\u{2502}']);
        let after = after_prefix(rest.as_bytes()).map_or(0, <[u8]>::len);
        match rest.get(rest.len() - after..) {
            Some(after) if !is_further_in && !after.is_empty() => rest = after,
            _ => break,
        }
    }
    rest
}

/// Whether a line belongs to the failure above it by what it says.
pub(crate) fn continues(line: &str) -> bool {
    let line = plain_beginning(line);
    CONTINUATION.as_ref().is_some_and(|forms| forms.is_match(line.as_bytes()))
}

/// Whether a summary counts a failure.
pub(crate) fn counts_failures(summary: &str) -> bool {
    let line = plain_beginning(summary);
    FAILING.as_ref().is_none_or(|forms| forms.is_match(line.as_bytes()))
}

/// As [`kind_of`], but of what a line says of the place in a file that it begins with, if it does.
pub(crate) fn kind_of_message(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    let (place, message) = line.split_at_checked(end)?;
    let is_place =
        place.windows(2).any(|pair| matches!(pair, [b':' | b'(', digit] if digit.is_ascii_digit()));
    is_place.then(|| kind_of(message))
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
    let plain = plain_beginning(line);
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
        for form in FORMS.iter().chain(MILD).chain(VAGUES) {
            let alone = any_of(std::iter::once(form.pattern)).expect(form.pattern);
            assert!(alone.is_match(form.example.as_bytes()), "{}: {}", form.pattern, form.example);
            let sign = sign_of(form.example).expect(form.example);
            assert!(sign >= form.sign || sign == Summary, "{}: {sign:?}", form.example);
        }
        assert!(RECORDS.iter().all(|record| any_of(std::iter::once(*record)).is_some()));
    }

    #[test]
    fn a_line_tells_a_record_from_another_text() {
        let of_records = [
            " Test Files  1 failed (1)",
            "Test Suites: 1 failed, 3 total",
            "1 error",
            "3 errors",
            "Plan: 300 to add, 0 to change, 0 to destroy.",
        ];
        let of_others = ["3 errors in the book", "Plan: to add more", "Test files are in tests/"];
        assert_eq!(of_records.iter().find(|line| !is_of_a_record(line)), None);
        assert_eq!(of_others.iter().find(|line| is_of_a_record(line)), None);
    }

    #[test]
    fn each_form_but_numbered_failures_has_a_word_that_is_looked_for() {
        for form in FORMS.iter().chain(VAGUES).filter(|form| form.sign > Warning) {
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
    fn what_failed_says_so_in_the_words_of_many_programs() {
        for line in [
            "cart.cu(17): error: identifier \"tax\" is undefined",
            "cart_test.cpp(17): error: in \"cart/adds_tax\": check total() == 108 has failed",
            "cart_test.cpp(17): ERROR: CHECK( total() == 108 ) is NOT correct!",
            "MSBUILD : error MSB1003: Specify a project or solution file.",
            "%Error: cart.v:17:9: Can't find definition of variable: 'tax'",
            "scons: *** [cart.o] Error 1",
            "Makefile:17: *** missing separator.  Stop.",
            "Fatal: cannot open repo",
            "src/conn.c:88:12: runtime error: signed integer overflow",
            "  what():  vector::_M_range_check: __n (which is 9)",
            "Program received signal SIGSEGV, Segmentation fault.",
            "dpkg: error processing package foo (--configure):",
            "rsync: [sender] link_stat \"/srv/x\" failed: No such file or directory (2)",
            "lerna ERR! npm run test exited 1 in '@acme/web'",
            "Msg 208, Level 16, State 1, Server x, Line 3",
            "Undefined symbols for architecture arm64:",
            "write: No space left on device",
            "deploy@db: Permission denied (publickey,password).",
            "Job for app.service failed because the control process exited with error code.",
            "Died: no tax at cart.pl line 17.",
            "[vite]: Rollup failed to resolve import \"./tax\" from \"/app/src/cart.js\".",
            "➤ YN0001: │ Error: @acme/tax@workspace:*: Workspace not found",
            "Warning  FailedMount  3m  kubelet  MountVolume.SetUp failed for volume",
            "  9:3  ✖  Unexpected unknown property \"colr\"  property-no-unknown",
            "cart.py:14:4: E0602: Undefined variable 'usr' (undefined-variable)",
            "[info] - should add tax *** FAILED ***",
            "  61/100 cart:tax            FAIL            0.10s   exit status 1",
            "test tax                      ... FAILED       42 ms",
            "Chrome 120.0 (Linux) Cart adds tax FAILED",
            "1/3 cart.test.adds tax...FAIL (TestExpectedEqual)",
            "  [FAILED] adds tax",
            "== [models/cart.sql] FAIL",
            "ruff........................................Failed",
            "WARNING: DATA RACE",
            "    expected:<108> but was:<100>",
            "cart.f90:17:9:",
            "src/cart.ts:17:9 lint/suspicious/noDoubleEquals ━━━━━━━━━━",
            "cart.proto:17:9: \"Tax\" is not defined.",
            "./store/db.go:41:9: undefined: openConn",
            "C:\\w\\cart.rs:17:9: unexpected token",
            "@acme/web:lint: src/cart.ts:17:9: unexpected token",
        ] {
            assert!(sign_of(line) >= Some(Failure), "{line}: {:?}", sign_of(line));
        }
        for line in [
            "upload failed: ./secret to s3://b/secret An error occurred (AccessDenied)",
            "===> Compiling src/cart.erl failed",
            "ERRO[0003] tax missing",
            "[E] tax missing",
            "cannot find module './tax'",
            "getaddrinfo ENOTFOUND api.acme.test",
            "context deadline exceeded",
            "dial tcp 127.0.0.1:5432: connect: connection refused",
            "acme.errors.TaxMissing: no tax",
            "Process exited with code 137",
        ] {
            assert!(sign_of(line) >= Some(Vague), "{line}: {:?}", sign_of(line));
        }
    }

    #[test]
    fn what_passed_or_is_said_in_passing_is_no_failure() {
        for line in [
            "  ● Console",
            "  ● /cart/1    12 kB",
            "➤ YN0013: │ left-pad@npm:1.0.0 can't be found in the cache and will be fetched",
            "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.02 s",
            "  ✓ fails with TypeError: x is not a function (3 ms)",
            "✔ cannot add twice",
            "ok 3 - returns Error: not found",
            "=== RUN   TestParse/error: unknown",
            "tests/test_a.py::test_assert[AssertionError: 1] PASSED [ 50%]",
            "test parser::rejects_fatal_error: ... ok",
            "[web] ✓ reports a FAIL",
            "[3/9] cart failed: 0, errors: 0",
            "cart.ts:17:9 compiled",
            "2026-01-02 03:04:05 INFO connection refused by peer, retrying",
            "2026-01-02 03:04:05 DEBUG cannot resolve host yet",
            "src/cart.c:17:9: note: in expansion of macro",
            "src/cart.ts:17:9: warning: unused variable",
            "cart.py:1:0: C0116: Missing function or method docstring",
            "10:20:30 GET /index.html",
            "http://localhost:8080:1:2",
            "at f (src/cart.ts:17:9)",
        ] {
            let sign = sign_of(line);
            assert!(sign <= Some(Warning), "{line}: {sign:?}");
        }
    }

    #[test]
    fn a_summary_that_counts_no_failure_is_told_from_one_that_does() {
        for (line, counts) in [
            ("test result: FAILED. 1 passed; 1 failed", true),
            ("test result: ok. 12 passed; 0 failed; 0 ignored", false),
            ("[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0", false),
            ("[ERROR] Tests run: 2, Failures: 0, Errors: 1, Skipped: 0", true),
            ("===== 10 passed in 0.05s =====", false),
            ("===== 10 failed, 2 passed in 0.05s =====", true),
            ("# fail 0", false),
            ("Found 2 errors in the same file", true),
        ] {
            assert_eq!(counts_failures(line), counts, "{line}");
        }
    }

    #[test]
    fn what_is_said_of_two_places_is_of_one_kind() {
        let kind = |line: &str| kind_of_message(line.as_bytes());
        assert_eq!(kind("a.py:1:0: C0116: Missing"), kind("src/b.py:3:0: C0116: Missing"));
        assert_ne!(kind("a.py:1:0: C0116: Missing"), kind("a.py:1:0: E0602: Undefined"));
        assert_eq!(kind("src/a.ts(1,7): error TS1"), kind("b.ts(9,7): error TS1"));
        assert_eq!(kind("error: it broke"), None);
        assert_eq!(kind(""), None);
    }

    #[test]
    fn prefixes_are_taken_off_and_indentation_is_not() {
        for (line, rest) in [
            ("@acme/web:test:     Expected: 108", "    Expected: 108"),
            ("#9 301.2    88 |     return c->fdd;", "   88 |     return c->fdd;"),
            ("web-1  | \t/src/main.go:31", "\t/src/main.go:31"),
            ("    indented", "    indented"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_prefix(line), rest);
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
