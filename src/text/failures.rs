//! The names of what has failed in the output of test runners and compilers. Pure.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

/// How many names of a run are kept, and how many characters of each.
pub(crate) const MOST_NAMES: usize = 300;
const NAME_CHARS: usize = 160;

/// Lines that name what failed: the name is the only group of each alternative. Numbers of lines are
/// no part of it, since they change with other lines of the file.
const FORMS: &[&str] = &[
    // pytest
    r"^(?:FAILED|ERROR) (\S*?(?:::|\.py)[^\[\s]*(?:\[.*?\])?)(?: - .*)?$",
    // unittest: the name with its class
    r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))$",
    // cargo test, cargo-nextest
    r"^test (\S+)(?: - .*)? \.\.\. FAILED$",
    r"^\s+(?:FAIL|SIGABRT|SIGSEGV|TIMEOUT) \[\s*[\d.]+s\] (.+)$",
    // go test
    r"^\s*--- FAIL: (\S+)",
    // Jest, Vitest, Mocha
    r"^\s*\xe2\x97\x8f (\S.*)$",
    r"^\s*FAIL\s+(\S+ > .+)$",
    r"^ {1,6}\d+\) (\S.*?):?$",
    // TAP
    r"^\s*not ok \d+ - (.+?)(?: # .*)?$",
    // GoogleTest, CTest
    r"^\[  FAILED  \] ([\w/]+\.[\w/]+)",
    r"^\s*\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Not Run)\)",
    // RSpec, PHPUnit
    r"^rspec \S+ # (.+)$",
    r"^\d+\) (\S+::\S+)",
    // Gradle, Maven, dotnet test
    r"^(\S.* > .*) FAILED$",
    r"^\[ERROR\] +([\w.]+\.\w+):\d+",
    r"^  Failed (\S+)",
    // GCC, Clang, javac, mypy; tsc; rustc
    r"^(\S[^:]*:)\d+(?::\d+)?:? (?:fatal )?(error: .+)$",
    r"^(\S+)\(\d+,\d+\): (error TS\d+: .+)$",
    r"^(error\[E\d+\]: .+)$",
];

static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let all: Vec<String> = FORMS.iter().map(|form| format!("(?:{form})")).collect();
    // Compiled for all of Unicode, the classes would take MiB.
    RegexBuilder::new(&all.join("|")).unicode(false).build().ok()
});

/// What a line of plain text names as failed, if it does.
pub(crate) fn name_in(line: &str) -> Option<String> {
    let found = NAMED.as_ref()?.captures(line.as_bytes())?;
    let parts = found.iter().skip(1).flatten();
    let parts: Vec<&[u8]> = parts.map(|part| part.as_bytes().trim_ascii()).collect();
    let name = parts.join(&b' ');
    let name = String::from_utf8_lossy(&name);
    (!name.is_empty()).then(|| name.chars().take(NAME_CHARS).collect())
}

/// What differs between the failures of two runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    pub new: Vec<String>,
    pub gone: Vec<String>,
    /// How many there were before, too.
    pub same: usize,
}

impl Change {
    pub(crate) fn between(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Change {
        Change {
            new: now.difference(before).cloned().collect(),
            gone: before.difference(now).cloned().collect(),
            same: now.intersection(before).count(),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty() && self.same == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_named_by_each_tool() {
        for (line, name) in [
            ("FAILED tests/a.py::test_b[x - y] - assert 1 == 2", "tests/a.py::test_b[x - y]"),
            ("FAILED tests/a.py::TestA::test_b", "tests/a.py::TestA::test_b"),
            ("FAIL: test_b (tests.TestA.test_b)", "test_b (tests.TestA.test_b)"),
            ("test tests::adds ... FAILED", "tests::adds"),
            ("        FAIL [   0.004s] zt tests::adds", "zt tests::adds"),
            ("    --- FAIL: TestAdd/small (0.00s)", "TestAdd/small"),
            ("  ● sums › adds", "sums › adds"),
            (" FAIL  src/a.test.ts > sums > adds", "src/a.test.ts > sums > adds"),
            ("    1) adds two", "adds two"),
            ("not ok 2 - adds two # time=1ms", "adds two"),
            ("[  FAILED  ] Sum.Adds (0 ms)", "Sum.Adds"),
            ("SumTest > adds() FAILED", "SumTest > adds()"),
            (
                "a.c:5:3: error: expected ';' before '}' token",
                "a.c: error: expected ';' before '}' token",
            ),
            ("src/a.ts(1,7): error TS2322: Type 'string'", "src/a.ts error TS2322: Type 'string'"),
            ("error[E0308]: mismatched types", "error[E0308]: mismatched types"),
        ] {
            assert_eq!(name_in(line).as_deref(), Some(name), "{line}");
        }
        for line in
            ["", "all is well", "test tests::adds ... ok", "ok 1 - adds", "PASS src/a.test.ts"]
        {
            assert_eq!(name_in(line), None, "{line}");
        }
    }

    #[test]
    fn a_change_has_what_is_new_what_is_gone_and_how_many_stay() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let change = Change::between(&set(&["a", "b", "c"]), &set(&["b", "c", "d"]));
        let expected = Change { new: vec!["d".to_owned()], gone: vec!["a".to_owned()], same: 2 };
        assert_eq!(change, expected);
        assert!(Change::between(&set(&[]), &set(&[])).is_none());
    }
}
