//! What of a long output is shown: each failure with its name and its first line, wherever it is; little
//! of what succeeded; and what is only read as it is.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::wait_until;
use crate::support::result::ToolResult;

/// A project whose tests or build print much, of which some fail in the middle.
struct Project {
    name: &'static str,
    write: fn(&Path, Fails),
    command: &'static str,
    /// What must be in the first answer if it fails.
    facts: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Yes,
    No,
}

/// How many parts a project has, of which those between two thirds of them and these fail.
const PARTS: usize = 300;

fn fails(part: usize, fails: Fails) -> bool {
    fails == Fails::Yes && [149, 150, 171].contains(&part)
}

const PROJECTS: &[Project] = &[
    Project {
        name: "pytest",
        write: |folder, failing| {
            let mut text = String::from("import pytest\n");
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = write!(text, "def test_part_{part}():\n    print('working on {part}')\n");
                let _ = write!(text, "    found = {value}\n    assert found == {part}\n");
            }
            write(folder, "test_parts.py", &text);
        },
        command: "PYTHON -m pytest -v -p no:cacheprovider",
        facts: &[
            "FAILED test_parts.py::test_part_149",
            "FAILED test_parts.py::test_part_171",
            "E       assert 150 == 149",
            "E       assert 172 == 171",
            "3 failed, 297 passed",
        ],
    },
    Project {
        name: "unittest",
        write: |folder, failing| {
            let mut text = String::from("import unittest\nclass TestParts(unittest.TestCase):\n");
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = writeln!(text, "    def test_part_{part}(self):");
                let _ = writeln!(text, "        self.assertEqual({value}, {part})");
            }
            write(folder, "test_parts.py", &text);
        },
        command: "PYTHON -m unittest -v",
        facts: &[
            "FAIL: test_part_149 ",
            "FAIL: test_part_171 ",
            "AssertionError: 150 != 149",
            "AssertionError: 172 != 171",
            "FAILED (failures=3)",
        ],
    },
    Project {
        name: "cargo test",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = write!(text, "#[test]\nfn part_number_{part}_is_as_expected() {{\n");
                let _ = writeln!(text, "    assert_eq!({value}, {part});\n}}");
            }
            cargo_project(folder, &text);
        },
        command: "cargo test --offline --color never",
        facts: &[
            "test part_number_149_is_as_expected ... FAILED",
            "test part_number_171_is_as_expected ... FAILED",
            "left: 150",
            "right: 149",
            "left: 172",
            "test result: FAILED. 297 passed; 3 failed",
        ],
    },
    Project {
        name: "cargo build",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let value = if fails(part, failing) { "\"text\"" } else { "1" };
                let _ = write!(text, "pub fn part_{part}() -> u32 {{\n    let unused = 2;\n");
                let _ = writeln!(text, "    {value}\n}}");
            }
            cargo_project(folder, &text);
        },
        command: "cargo build --offline --color never",
        facts: &[
            "error[E0308]: mismatched types",
            "--> src/lib.rs:599:5",
            "expected `u32`, found `&str`",
            "error: could not compile",
        ],
    },
    Project {
        name: "gcc and make",
        write: |folder, failing| {
            let mut rules = String::from("all: \\\n");
            for part in 0..PARTS {
                let _ =
                    writeln!(rules, " part_{part}.o{}", if part + 1 < PARTS { " \\" } else { "" });
                let broken = if fails(part, failing) { "undeclared_name" } else { "1" };
                let text =
                    format!("int part_{part}(void)\n{{\n  int unused;\n  return {broken};\n}}\n");
                write(folder, &format!("part_{part}.c"), &text);
            }
            rules.push_str("%.o: %.c\n\t$(CC) -Wall -c -o $@ $<\n");
            write(folder, "Makefile", &rules);
        },
        command: "make -k",
        facts: &[
            "part_149.c:4:10: error: ‘undeclared_name’ undeclared",
            "part_171.c:4:10: error: ‘undeclared_name’ undeclared",
            "part_171.o] Error 1",
        ],
    },
    Project {
        name: "the linker",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let _ = writeln!(text, "int part_{part}(void) {{ int unused_{part}; return 0; }}");
            }
            let missing =
                if failing == Fails::Yes { "int missing(void);" } else { "#define missing() 0" };
            let _ = writeln!(text, "{missing}\nint main(void) {{ return missing(); }}");
            write(folder, "main.c", &text);
        },
        command: "gcc -Wall -o main main.c",
        facts: &["undefined reference to `missing'", "ld returned 1 exit status"],
    },
    Project {
        name: "jest",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = writeln!(
                    text,
                    "test('part {part} adds', () => {{\n  expect({value}).toBe({part});\n}});"
                );
            }
            write(folder, "parts.test.js", &text);
            write(folder, "package.json", "{}");
        },
        command: "BIN/jest --verbose --ci",
        facts: &[
            "● part 149 adds",
            "● part 171 adds",
            "Expected: 149",
            "Received: 150",
            "Expected: 171",
            "Tests:       3 failed, 297 passed, 300 total",
        ],
    },
    Project {
        name: "vitest",
        write: |folder, failing| {
            let mut text = String::from("import { expect, test } from 'vitest';\n");
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = writeln!(
                    text,
                    "test('part {part} adds', () => {{\n  expect({value}).toBe({part});\n}});"
                );
            }
            write(folder, "parts.test.mjs", &text);
            write(folder, "package.json", "{}");
        },
        command: "ln -s MODULES node_modules; BIN/vitest run --reporter=verbose",
        facts: &[
            "FAIL  parts.test.mjs > part 149 adds",
            "FAIL  parts.test.mjs > part 171 adds",
            "AssertionError: expected 150 to be 149",
            "AssertionError: expected 172 to be 171",
            "Tests  3 failed | 297 passed (300)",
        ],
    },
    Project {
        name: "mocha",
        write: |folder, failing| {
            let mut text =
                String::from("const assert = require('assert');\ndescribe('parts', () => {\n");
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ =
                    writeln!(text, "it('part {part} adds', () => assert.equal({value}, {part}));");
            }
            text.push_str("});\n");
            write(folder, "parts.js", &text);
        },
        command: "BIN/mocha parts.js",
        facts: &[
            "1) part 149 adds",
            "3) part 171 adds",
            "150 == 149",
            "172 == 171",
            "297 passing",
            "3 failing",
        ],
    },
    Project {
        name: "node --test",
        write: |folder, failing| {
            let mut text = String::from(
                "const test = require('node:test');\nconst assert = require('assert');\n",
            );
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = writeln!(
                    text,
                    "test('part {part} adds', () => assert.equal({value}, {part}));"
                );
            }
            write(folder, "parts.test.js", &text);
        },
        command: "node --test --test-reporter=tap",
        facts: &[
            "not ok 150 - part 149 adds",
            "not ok 172 - part 171 adds",
            "150 == 149",
            "# fail 3",
        ],
    },
    Project {
        name: "tsc",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let value = if fails(part, failing) { "'text'" } else { "1" };
                let _ = writeln!(text, "export const part{part}: number = {value};");
            }
            write(folder, "parts.ts", &text);
        },
        command: "BIN/tsc --noEmit --listFiles --extendedDiagnostics parts.ts",
        facts: &[
            "parts.ts(150,14): error TS2322: Type 'string' is not assignable to type 'number'.",
            "parts.ts(172,14): error TS2322",
        ],
    },
    Project {
        name: "npm install",
        write: |folder, failing| {
            let needs = match failing {
                Fails::Yes => r#"{"dependencies": {"nope": "file:../nowhere/nope.tgz"}}"#,
                Fails::No => "{}",
            };
            write(folder, "package.json", needs);
        },
        command: "seq -f 'preparing part %g' 1 2000; npm install --offline",
        facts: &["npm error code ENOENT", "no such file or directory"],
    },
    Project {
        name: "javac",
        write: |folder, failing| {
            for part in 0..PARTS {
                let value = if fails(part, failing) { "missing" } else { "1" };
                let text =
                    format!("class Part{part} {{\n  int value() {{ return {value}; }}\n}}\n");
                write(folder, &format!("Part{part}.java"), &text);
            }
        },
        command: "javac -verbose -d out *.java",
        facts: &[
            "Part149.java:2: error: cannot find symbol",
            "Part171.java:2: error: cannot find symbol",
            "3 errors",
        ],
    },
    Project {
        name: "prove",
        write: |folder, failing| {
            let mut text = format!("use Test::More tests => {PARTS};\n");
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = writeln!(text, "is({value}, {part}, 'part {part} adds');");
            }
            write(folder, "parts.t", &text);
        },
        command: "prove -v parts.t 2>&1",
        facts: &[
            "not ok 150 - part 149 adds",
            "not ok 172 - part 171 adds",
            "#          got: '150'",
            "Failed 3/300 subtests",
        ],
    },
    Project {
        name: "ansible",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let _ = writeln!(text, "\nTASK [part {part} : install] ****************");
                if fails(part, failing) {
                    text.push_str(
                        "fatal: [web1]: FAILED! => {\"changed\": false, \"msg\": \"No package matching\"}\n",
                    );
                } else {
                    let _ = writeln!(text, "changed: [web1] => (item=package-{part})");
                }
            }
            let failed = if failing == Fails::Yes { 3 } else { 0 };
            let _ = write!(text, "\nPLAY RECAP ****\nweb1 : ok=297 changed=297 failed={failed}\n");
            write(folder, "printed", &text);
        },
        command: "sh -c 'cat printed; ! grep -q FAILED printed'",
        facts: &[
            "TASK [part 149 : install]",
            "TASK [part 171 : install]",
            "fatal: [web1]: FAILED! =>",
            "failed=3",
        ],
    },
    Project {
        name: "terraform",
        write: |folder, failing| {
            let mut text = String::new();
            for part in 0..PARTS {
                let _ = write!(
                    text,
                    "  # aws_instance.part_{part} will be created\n  + resource \"aws_instance\" \"part_{part}\" {{\n      \
                     + ami = \"ami-{part}\"\n    }}\n"
                );
                if fails(part, failing) {
                    let _ = write!(
                        text,
                        "╷\n│ Error: Invalid reference {part}\n│ \n│   on main.tf line {part}, in resource:\n╵\n"
                    );
                }
            }
            text.push_str("Plan: 300 to add, 0 to change, 0 to destroy.\n");
            write(folder, "printed", &text);
        },
        command: "sh -c 'cat printed; ! grep -q Error: printed'",
        facts: &[
            "│ Error: Invalid reference 149",
            "│   on main.tf line 149, in resource:",
            "│ Error: Invalid reference 171",
            "Plan: 300 to add",
        ],
    },
];

const FURTHER_PROJECTS: &[Project] = &[
    Project {
        name: "go test",
        write: |folder, failing| {
            let mut text = String::from("package parts\n\nimport \"testing\"\n\n");
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = write!(
                    text,
                    "func TestPart{part}(t *testing.T) {{\n\tt.Log(\"working on {part}\")\n\t\
                     if got := {value}; got != {part} {{\n\t\t\
                     t.Errorf(\"got %d, want {part}\", got)\n\t}}\n}}\n"
                );
            }
            write(folder, "parts_test.go", &text);
            write(folder, "go.mod", "module parts\n\ngo 1.19\n");
        },
        command: "GOCACHE=$PWD/.cache go test -v ./...",
        facts: &[
            "--- FAIL: TestPart149",
            "got 150, want 149",
            "--- FAIL: TestPart150",
            "--- FAIL: TestPart171",
            "got 172, want 171",
            "FAIL\tparts",
        ],
    },
    Project {
        name: "go build",
        write: |folder, failing| {
            for part in 0..PARTS {
                let value = if fails(part, failing) { "missing" } else { "1" };
                let text =
                    format!("package main\n\nfunc part{part}() int {{\n\treturn {value}\n}}\n");
                write(folder, &format!("part{part}.go"), &text);
            }
            write(folder, "main.go", "package main\n\nfunc main() {}\n");
            write(folder, "go.mod", "module parts\n\ngo 1.19\n");
        },
        command: "GOCACHE=$PWD/.cache go build -x -o parts .",
        facts: &[
            "./part149.go:4:9: undefined: missing",
            "./part150.go:4:9: undefined: missing",
            "./part171.go:4:9: undefined: missing",
        ],
    },
    Project {
        name: "cmake",
        write: |folder, failing| {
            let mut text =
                String::from("cmake_minimum_required(VERSION 3.5)\nproject(parts NONE)\n");
            for part in 0..PARTS {
                let _ = writeln!(text, "message(STATUS \"Looking for part {part}: found\")");
                if fails(part, failing) {
                    let _ = writeln!(text, "message(SEND_ERROR \"part {part} has no library\")");
                }
            }
            write(folder, "CMakeLists.txt", &text);
        },
        command: "cmake -S . -B build",
        facts: &[
            "CMake Error at CMakeLists.txt:153 (message):",
            "part 149 has no library",
            "part 150 has no library",
            "part 171 has no library",
            "Configuring incomplete, errors occurred!",
        ],
    },
    Project {
        name: "maven",
        write: |folder, failing| {
            let tests = folder.join("src/test/java");
            fs::create_dir_all(&tests).expect("a folder");
            let mut text = String::from(
                "import org.junit.Test;\nimport static org.junit.Assert.assertEquals;\n\n\
                 public class PartsTest {\n",
            );
            for part in 0..PARTS {
                let value = part + usize::from(fails(part, failing));
                let _ = write!(
                    text,
                    "    @Test public void part{part}() {{\n        \
                     System.out.println(\"working on {part}\");\n        \
                     assertEquals({part}, {value});\n    }}\n"
                );
            }
            text.push_str("}\n");
            write(&tests, "PartsTest.java", &text);
            let plugins: String =
                [("compiler", "3.10.1"), ("resources", "3.3.0"), ("surefire", "2.22.3")]
                    .map(|(name, version)| {
                        format!(
                            "<plugin><artifactId>maven-{name}-plugin</artifactId>\
                         <version>{version}</version></plugin>\n"
                        )
                    })
                    .concat();
            let text = format!(
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n\
                 <modelVersion>4.0.0</modelVersion>\n\
                 <groupId>parts</groupId><artifactId>parts</artifactId><version>1</version>\n\
                 <properties><maven.compiler.source>11</maven.compiler.source>\
                 <maven.compiler.target>11</maven.compiler.target></properties>\n\
                 <dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId>\
                 <version>4.x</version><scope>test</scope></dependency></dependencies>\n\
                 <build><plugins>\n{plugins}</plugins></build>\n</project>\n"
            );
            write(folder, "pom.xml", &text);
        },
        // Debian's repository has what it needs.
        command: "mvn -o -B -Dmaven.repo.local=/usr/share/maven-repo test",
        facts: &[
            "PartsTest.part149:",
            "expected:<149> but was:<150>",
            "PartsTest.part150:",
            "PartsTest.part171:",
            "Tests run: 300, Failures: 3, Errors: 0",
            "BUILD FAILURE",
        ],
    },
];

fn cargo_project(folder: &Path, text: &str) {
    fs::create_dir_all(folder.join("src")).expect("a folder");
    write(folder, "src/lib.rs", text);
    write(
        folder,
        "Cargo.toml",
        "[package]\nname = \"parts\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("a file of the project");
}

fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/shapes").join(name)
}

/// Runs a project in a folder of its own; it gets the programs that this one was built with.
fn run(client: &Client, env: &Env, project: &Project, failing: Fails) -> ToolResult {
    let folder = env.work().join(format!("{}-{}", project.name, failing == Fails::Yes));
    fs::create_dir_all(&folder).expect("a folder");
    (project.write)(&folder, failing);
    let modules = installed("npm/node_modules");
    let command = project
        .command
        .replace("PYTHON", &installed("python/bin/python").to_string_lossy())
        .replace("MODULES", &modules.to_string_lossy())
        .replace("BIN", &modules.join(".bin").to_string_lossy());
    // It begins after the first answer, so that none of it is in there.
    let gate = env.named_pipe(&format!("gate-{}-{}", project.name, failing == Fails::Yes));
    let command = format!(": < '{}'; {command}", gate.display());
    let directory = folder.to_string_lossy();
    // The toolchain is that of whoever runs the tests.
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let of_rust = |name: &str, folder: &str| {
        std::env::var_os(name).map_or_else(|| home.join(folder), PathBuf::from)
    };
    let environment = json!({
        "PATH": std::env::var("PATH").unwrap_or_default(),
        "CARGO_HOME": of_rust("CARGO_HOME", ".cargo"),
        "RUSTUP_HOME": of_rust("RUSTUP_HOME", ".rustup"),
    });
    let arguments = json!({
        "command": command, "cwd": directory, "env": environment, "background": true, "yield_after": 0,
    });
    let task = client.call("zsh", arguments).task_id();
    fs::write(gate, "").expect("the command waits for it");
    // A search shows nothing, so that the poll after the end is the first to show all.
    wait_until(project.name, || {
        let searched = client.poll(&task, json!({"grep": "^no such line$"}));
        (searched.status() != "running").then_some(())
    });
    client.poll(&task, json!({"listen": 0}))
}

#[test]
fn of_failing_projects_each_failure_is_in_the_first_answer() {
    let env = Env::new();
    let client = env.client();
    // For `make bench`, which counts what other servers keep of them.
    let logs = std::env::var_os("ZSH_TOOL_LOGS").map(PathBuf::from);
    let mut missing = Vec::new();
    for project in PROJECTS {
        let failed = run(&client, &env, project, Fails::Yes);
        missing.extend(missing_facts(project, &failed));
        if let Some(logs) = &logs {
            fs::create_dir_all(logs).expect("a folder");
            let raw = env.command(binary()).args(["log", "--raw", &failed.task_id()]).output();
            fs::write(logs.join(format!("{}.log", project.name)), raw.expect("it runs").stdout)
                .expect("a log");
        }
    }
    if let Some(logs) = &logs {
        fs::write(logs.join("facts.json"), facts().to_string()).expect("the facts");
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// What is not in the first answer about a failed project although it should be.
fn missing_facts(project: &Project, failed: &ToolResult) -> Vec<String> {
    let is_missing = |fact: &&&str| !failed.text.contains(**fact);
    let missing = project.facts.iter().filter(is_missing);
    missing.map(|fact| format!("{}: {fact}", project.name)).collect()
}

/// Projects whose programs are large.
pub fn of_further_projects_each_failure_is_shown_and_little_of_their_success() {
    let env = Env::new();
    let client = env.client();
    for project in FURTHER_PROJECTS {
        let failed = run(&client, &env, project, Fails::Yes);
        assert_eq!(missing_facts(project, &failed), Vec::<String>::new(), "{}", failed.text);
        let succeeded = run(&client, &env, project, Fails::No);
        assert!(succeeded.text.contains("exit=0"), "{}: {}", project.name, succeeded.text);
        assert!(succeeded.text.chars().count() < 9_000, "{}: {}", project.name, succeeded.text);
    }
}

fn facts() -> serde_json::Value {
    PROJECTS.iter().map(|project| (project.name, json!(project.facts))).collect()
}

#[test]
fn of_what_succeeds_little_is_shown_and_its_end() {
    let env = Env::new();
    let client = env.client();
    for project in PROJECTS {
        let succeeded = run(&client, &env, project, Fails::No);
        assert_eq!(succeeded.status(), "completed", "{}: {}", project.name, succeeded.text);
        assert!(succeeded.text.contains("exit=0"), "{}: {}", project.name, succeeded.text);
        assert!(succeeded.text.chars().count() < 9_000, "{}: {}", project.name, succeeded.text);
    }
}

/// A file, the command that reads it, and its lines by their numbers.
type Read = (&'static str, &'static str, fn(usize) -> String);

/// They have words of failures everywhere.
const READ: &[Read] = &[
    ("source.rs", "cat source.rs", |n| format!("    Err(error) => panic!(\"error: {n} FAILED\"),")),
    ("source.py", "sed -n 1,3000p source.py", |n| format!("raise ValueError('Traceback {n}')")),
    ("table.csv", "cat table.csv", |n| format!("{n},FAILED,error: {n},1.5")),
    ("data.json", "cat data.json", |n| format!("{{\"id\": {n}, \"error\": \"fatal: {n}\"}},")),
    ("a.diff", "cat a.diff", |n| format!("+error: {n} in the middle of a difference")),
    ("notes", "grep -n error notes", |n| format!("error: this is line {n} of some text")),
    ("letter", "cat letter", |n| format!("Dear reader, errors of the year {n} are in the book")),
];

#[test]
fn what_is_only_read_is_head_and_tail() {
    let env = Env::new();
    let client = env.client();
    for (name, command, line) in READ {
        let text: String = (1..=3_000).map(|number| line(number) + "\n").collect();
        write(&env.work(), name, &text);
        let shown = client.run(command).text;
        let gaps = shown.lines().filter(|line| line.starts_with("… ") && line.ends_with(" …"));
        assert_eq!(gaps.count(), 1, "{name}: {shown}");
        assert!(shown.chars().count() > 29_000, "{name}: {shown}");
        assert!(shown.contains(&line(1)) && shown.contains(&line(3_000)), "{name}: {shown}");
    }
}

#[test]
fn a_failing_command_shows_no_less_of_its_failure_than_one_that_succeeds() {
    let env = Env::new();
    let client = env.client();
    let mut text = String::new();
    for number in 0..2_000 {
        let _ = writeln!(text, "{}", "working on the parts of it ".repeat(number % 3 + 1));
        if number % 100 == 50 {
            let _ = writeln!(text, "error: part {number} is broken\n  --> part_{number}.c:1");
        }
    }
    write(&env.work(), "printed", &text);
    let of = |code: u32| client.run(&format!("sh -c 'cat printed; exit {code}'")).text;
    let (failed, succeeded) = (of(1), of(0));
    for line in text.lines().filter(|line| line.starts_with("error: ") || line.starts_with("  -->"))
    {
        assert!(failed.contains(line), "{line}: {failed}");
    }
    assert!(succeeded.len() < failed.len(), "{} {}", succeeded.len(), failed.len());
}

#[test]
fn what_went_wrong_in_the_middle_of_a_large_output_is_found() {
    let env = Env::new();
    let client = env.client();
    let program = "import sys\n\
        for n in range(400_000):\n    \
            print('a line of work that is done', n * 7919 % 1000, 'abcdefghij'[n % 10])\n    \
            if n == 200_000: print('Traceback (most recent call last):\\n  File \"a.py\", line 1\\nKeyError: 77')\n\
        sys.exit(1)\n";
    write(&env.work(), "work.py", program);
    let failed = client.run("python3 work.py");
    for part in
        ["Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 77", "exit=1"]
    {
        assert!(failed.text.contains(part), "{part}: {}", failed.text);
    }
    assert!(
        failed.text.contains("omitted (") && failed.text.chars().count() < 12_000,
        "{}",
        failed.text
    );
}

/// Output of which a part says what went wrong.
struct Log {
    name: &'static str,
    /// What each of many lines before and after it is, with `{}` for a number.
    ordinary: &'static str,
    failure: &'static str,
    /// What must be shown of it.
    facts: &'static [&'static str],
}

const LOGS: &[Log] = &[
    Log {
        name: "bun, with blank lines",
        ordinary: "(pass) cart > adds {} [0.01ms]",
        failure: "error: expect(received).toBe(expected)\n\nExpected: 108\nReceived: 100\n\n      at <anonymous> (/w/cart.test.ts:13:19)\n(fail) cart > adds tax [0.11ms]",
        facts: &["(fail) cart > adds tax", "Expected: 108", "cart.test.ts:13:19"],
    },
    Log {
        name: "PHPUnit, with a place behind a blank line",
        ordinary: " ✔ Cart adds {}",
        failure: "1) Tests\\CartTest::testTotal\nFailed asserting that 12 matches expected 13.\n\n/w/tests/CartTest.php:21",
        facts: &["CartTest::testTotal", "Failed asserting", "CartTest.php:21"],
    },
    Log {
        name: "Terraform, with the reason behind blank lines",
        ordinary: "module.web[{}].aws_instance.web: Refreshing state",
        failure: "Error: Unsupported argument\n\n  on main.tf line 17, in resource \"x\" \"y\":\n  17:   taxx = 1\n\nAn argument named \"taxx\" is not expected here.",
        facts: &["Unsupported argument", "on main.tf line 17", "An argument named"],
    },
    Log {
        name: "Turborepo, with a prefix",
        ordinary: "@acme/cart:build: cache hit, replaying logs {}",
        failure: "@acme/web:test: FAIL src/cart.test.ts\n@acme/web:test:   ● Cart › adds tax\n@acme/web:test: \n@acme/web:test:     expect(received).toBe(expected)\n@acme/web:test: \n@acme/web:test:     Expected: 108",
        facts: &["Cart › adds tax", "Expected: 108"],
    },
    Log {
        name: "the race detector of Go",
        ordinary: "--- PASS: TestCart{} (0.00s)",
        failure: "WARNING: DATA RACE\nWrite at 0x00c0000b4010 by goroutine 8:\n  acme.(*Cache).Put()\n      /src/cache.go:31 +0x44\n\nPrevious read at 0x00c0000b4010 by goroutine 7:\n  acme.(*Cache).Get()\n      /src/cache.go:22 +0x30\n--- FAIL: TestCacheParallel (0.02s)",
        facts: &["DATA RACE", "/src/cache.go:31", "/src/cache.go:22", "TestCacheParallel"],
    },
    Log {
        name: "Catch2, with the name of the test above",
        ordinary: "cart {} passed",
        failure: "-----------------\nNet reconnects\n-----------------\nnet_test.cpp:12\n.................\n\nnet_test.cpp:31: FAILED:\n  REQUIRE( n == 3 )\nwith expansion:\n  4 == 3",
        facts: &["Net reconnects", "net_test.cpp:31: FAILED:", "4 == 3"],
    },
    Log {
        name: "a place without a word that says error",
        ordinary: "step {} of the work is done",
        failure: "src/cart.kt:17:9: unexpected token here",
        facts: &["17:9: unexpected token here"],
    },
    Log {
        name: "an error of Pylint among conventions",
        ordinary: "cart/a{}.py:3:0: C0116: Missing function docstring (missing-function-docstring)",
        failure: "core/auth.py:14:4: E0602: Undefined variable 'usr' (undefined-variable)",
        facts: &["E0602: Undefined variable 'usr'"],
    },
    Log {
        name: "npm under BuildKit",
        ordinary: "#13 9.1 Get:{} http://deb.debian.org/debian bookworm/main amd64 cart all 1.0",
        failure: "#13 91.2 npm ERR! code ERESOLVE\n#13 91.2 npm ERR! ERESOLVE unable to resolve dependency tree",
        facts: &["ERESOLVE unable to resolve dependency tree"],
    },
    Log {
        name: "what the console had, in Jest",
        ordinary: "PASS src/a{}.test.ts\n  ● Console\n\n    console.log\n      loading\n\n      at Object.<anonymous> (src/x.ts:3:3)\n",
        failure: "FAIL src/invoice.test.ts\n  ● Invoice › rounds half up\n\n    expect(received).toBe(expected)\n\n    Expected: 3\n    Received: 2\n\n      at Object.<anonymous> (src/invoice.test.ts:42:24)\n",
        facts: &["Invoice › rounds half up", "Expected: 3", "invoice.test.ts:42:24"],
    },
    Log {
        name: "classes that passed, of Surefire",
        ordinary: "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.01 s - in com.acme.Cart{}Test",
        failure: "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.07 s <<< FAILURE! - in com.acme.LedgerTest\n[ERROR] com.acme.LedgerTest.balances  Time elapsed: 0.01 s  <<< FAILURE!\norg.opentest4j.AssertionFailedError: \n\nExpecting:\n <5>\nto be equal to:\n <0>\n\tat com.acme.LedgerTest.balances(LedgerTest.java:33)",
        facts: &["LedgerTest.balances", "to be equal to:", "LedgerTest.java:33"],
    },
    Log {
        name: "tests that passed, named after failures",
        ordinary: "  ✓ cart {} throws TypeError: x is not a function and cannot be added",
        failure: "error: no tax",
        facts: &["error: no tax"],
    },
    Log {
        name: "a log that says in passing what it could not do",
        ordinary: "cart{} could not find the cache, connection refused",
        failure: "error: no tax",
        facts: &["error: no tax"],
    },
];

#[test]
fn of_many_programs_the_failure_is_shown_whole_and_little_besides() {
    let env = Env::new();
    let client = env.client();
    for (number, log) in LOGS.iter().enumerate() {
        let ordinary = |numbers: std::ops::Range<usize>| -> String {
            numbers.map(|n| log.ordinary.replace("{}", &n.to_string()) + "\n").collect()
        };
        let text = format!("{}{}\n{}", ordinary(0..3_000), log.failure, ordinary(3_000..6_000));
        write(&env.work(), &format!("{number}.log"), &text);
        let program =
            format!("import sys\nsys.stdout.write(open('{number}.log').read())\nsys.exit(1)\n");
        write(&env.work(), "program.py", &program);
        let shown = client.run("python3 program.py").text;
        for fact in log.facts {
            assert!(shown.contains(fact), "{}: {fact}: {shown}", log.name);
        }
        let chars = shown.chars().count();
        assert!(chars < 13_000, "{}: {chars}: {shown}", log.name);
        assert!(shown.matches(" omitted (").count() <= 4, "{}: {shown}", log.name);
    }
}

#[test]
fn the_same_with_other_numbers_is_shown_once_and_a_list_of_numbers_is_not_a_repetition() {
    let env = Env::new();
    let client = env.client();
    let warnings = client.run(
        "for i in {1..3000}; do print \"warning: item $i is old\"; print \"  in file $i\"; done; false",
    );
    let once = "warning: item 1 is old\n  in file 1  (these 2 lines ×3,000 with other numbers, to line 6,000)";
    assert!(warnings.text.contains(once), "{}", warnings.text);
    let numbers = client.run("seq 1 20000; false");
    assert!(!numbers.text.contains('×') && numbers.text.contains("\n20000\n"), "{}", numbers.text);
    // The numbers of names, and of failures, are what distinguishes them.
    let names = client.run(
        "for i in {1..400}; do print \"test_$i was run and did what it should\"; print \"FAILED a.py::t[$i]\"; done; false",
    );
    for number in 1..=400 {
        assert!(names.text.contains(&format!("FAILED a.py::t[{number}]\n")), "{}", names.text);
    }
    assert!(!names.text.contains('×'), "{}", names.text);
}

#[test]
fn what_a_carriage_return_separates_is_not_lost_on_a_pipe() {
    let env = Env::new();
    let client = env.client();
    let output = |command: &str| client.run(command).output();
    let warned = "printf 'WARN disk nearly full\\rcopy 10%%\\rcopy 100%%\\n'";
    assert_eq!(output(warned), "WARN disk nearly full\ncopy 100%  (×2 redrawn)");
    assert_eq!(output("printf 'hello world\\rbye\\n'"), "hello world\nbye");
    assert_eq!(output("printf '\\r| 1\\r/ 2\\r- 3\\rdone\\r\\n'"), "- 3  (×3 redrawn)\ndone");
    let old: String = (1..=40).map(|number| format!("line {number} of an old file\r")).collect();
    write(&env.work(), "old", &old.replace("line 7 of", "the seventh line of"));
    let shown = output("cat old");
    for part in
        ["line 6 of an old file", "the seventh line of an old file", "line 40 of an old file"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let task = client.run(warned).task_id();
    let found = client.poll(&task, json!({"grep": "copy 10%"})).text;
    assert!(found.contains("1: copy 10%"), "{found}");
    let range = client.poll(&task, json!({"from_line": 1}));
    assert_eq!(range.output(), "1: WARN disk nearly full\n1: copy 10%\n1: copy 100%");
    let until = json!({"command": "printf 'copy 5%%\\rcopy 9%%'; sleep 600", "until": "copy 5%", "yield_after": 25});
    let until = client.call("zsh", until);
    assert!(until.text.contains("copy 5%"), "{}", until.text);
    client.kill_task(&until.task_id());
    let raw = env.command(binary()).args(["log", "--raw", &task]).output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&raw.stdout),
        "WARN disk nearly full\rcopy 10%\rcopy 100%\n"
    );
}

#[test]
fn what_a_carriage_return_covers_on_a_terminal_can_be_found() {
    let env = Env::new();
    let client = env.client();
    let command =
        json!({"command": "printf 'hello world\\rbye\\n'", "pty": true, "yield_after": 25});
    let result = client.call("zsh", command);
    assert_eq!(result.output(), "byelo world");
    let found = client.poll(&result.task_id(), json!({"grep": "^hello world$"})).text;
    assert!(found.contains("1: hello world"), "{found}");
}

#[test]
fn results_with_a_share_at_their_end_are_no_progress() {
    let env = Env::new();
    let client = env.client();
    let command = "for i in {1..200}; do print \"a.py::test_$i PASSED [ $(( i / 2 ))%]\"; done";
    let shown = client.run(command).output();
    for number in 1..=200 {
        assert!(shown.contains(&format!("a.py::test_{number} PASSED")), "{number}: {shown}");
    }
}

#[test]
fn text_that_is_not_utf_8_is_decoded_where_that_is_sure_and_counted_once() {
    let env = Env::new();
    let client = env.client();
    // As iconv writes them.
    for (encoding, text) in [
        ("GBK", "错误：编译失败，找不到文件"),
        ("SHIFT_JIS", "エラー：ファイルが見つかりません"),
        ("ISO-8859-1", "Fehler: für später übrig gelassen"),
        ("UTF-16LE", "Copyright (C) the authors, é"),
        ("UTF-16BE", "Copyright (C) the authors, é"),
    ] {
        let command = format!("print -r -- '{text}' | iconv -t {encoding}");
        let result = client.run(&command);
        assert_eq!(result.output(), text, "{encoding}: {}", result.text);
        assert!(result.text.contains(" not UTF-8: shown as decoded from "), "{}", result.text);
        let again = client.poll(&result.task_id(), json!({"full_output": true}));
        assert!(!again.text.contains("not UTF-8"), "{}", again.text);
        let word = text.split(' ').next().unwrap_or_default();
        let found = client.poll(&result.task_id(), json!({"grep": word}));
        assert!(found.text.contains(&format!("1: {text}")), "{}", found.text);
        let raw = env.command(binary()).args(["log", "--raw", &result.task_id()]).output();
        env.bare_zsh(&format!("{command} >expected"));
        let expected = fs::read(env.work().join("expected")).expect("it was written");
        assert_eq!(raw.expect("it runs").stdout, expected, "{encoding}");
    }
    let damaged = client.run(r"printf 'caf\xe9 au lait, 日本語\n'");
    assert_eq!(damaged.output(), "caf\u{fffd} au lait, 日本語");
    let says = "ℹ 1 byte is not UTF-8: shown as U+FFFD. zsh-tool log --raw ";
    assert!(damaged.text.contains(says), "{}", damaged.text);
}

#[test]
fn data_is_named_with_its_size_and_kind() {
    let env = Env::new();
    let client = env.client();
    let zipped =
        client.run("print begun; head -c 300000 /dev/urandom | gzip -1; print; print ended");
    let lines: Vec<String> = zipped.output().lines().map(str::to_owned).collect();
    let [begun, data, ended] = &*lines else { panic!("{}", zipped.text) };
    assert_eq!((begun.as_str(), ended.as_str()), ("begun", "ended"));
    assert!(data.starts_with("… binary: 300.") && data.contains(" KB, gzip data: "), "{data}");
    assert!(
        data.ends_with(&format!(": zsh-tool log --raw {} prints it …", zipped.task_id())),
        "{data}"
    );
    let program = client.run("cat =sleep").output();
    assert!(
        program.starts_with("… binary: ") && program.contains(", an ELF program: "),
        "{program}"
    );
    assert_eq!(program.lines().count(), 1, "{program}");
    // Names that zeros separate are text.
    assert_eq!(client.run(r"printf 'a.rs\0b.rs\0'").output(), "a.rs^@b.rs^@");
}

#[test]
fn the_end_says_what_differs_from_the_last_run_in_this_directory() {
    let env = Env::new();
    let client = env.client();
    let pytest =
        format!("{} -m pytest -q -p no:cacheprovider", installed("python/bin/python").display());
    let run = |broken: &[&str]| {
        let tests = ["a", "b", "c", "d"].map(|name| {
            format!(
                "def test_{name}():\n    assert {}\n",
                if broken.contains(&name) { 0 } else { 1 }
            )
        });
        write(&env.work(), "test_it.py", &tests.concat());
        client.run(&pytest).text
    };
    let says = |text: &str| {
        text.lines().find(|line| line.contains("Since its last run")).map(str::to_owned)
    };
    assert_eq!(says(&run(&["a", "b", "c"])), None);
    let second = says(&run(&["b", "c", "d"])).expect("a change");
    let expected = "Since its last run here: now failing: test_it.py::test_d; fixed: test_it.py::test_a; 2 as before.";
    assert!(second.contains(expected), "{second}");
    let third = says(&run(&["b", "c", "d"])).expect("no change");
    assert!(third.contains("Since its last run here: 3 as before."), "{third}");
    // Another server knows, too.
    let other = env.client();
    write(&env.work(), "test_it.py", "def test_b():\n    pass\n");
    let fixed = says(&other.run(&pytest).text).expect("a change");
    for part in ["here: fixed: ", "test_it.py::test_b", "test_it.py::test_d"] {
        assert!(fixed.contains(part), "{fixed}");
    }
    // A pipeline's exit code is not that of the tests, and what is cut says nothing of the rest.
    let piped = |filter: &str| {
        write(&env.work(), "test_it.py", "def test_b():\n    assert 0\n");
        let command = format!("{pytest} | {filter}");
        client.run(&command);
        says(&client.run(&command).text)
    };
    assert!(piped("cat").is_some_and(|says| says.contains("here: 1 as before.")));
    assert_eq!(piped("tail -n 1"), None);
    // Elsewhere it is another run, and what neither tests nor builds says nothing.
    fs::create_dir_all(env.work().join("elsewhere")).expect("a folder");
    assert_eq!(says(&client.run(&format!("cd elsewhere; {pytest}")).text), None);
    for _ in 0..2 {
        assert_eq!(says(&client.run("false").text), None);
    }
}

#[test]
fn a_poll_shows_the_lines_that_differ_from_the_last_run() {
    let env = Env::new();
    let client = env.client();
    let run = |text: &str| {
        write(&env.work(), "printed", text);
        client.run("cat printed; sleep 0.01").task_id()
    };
    let first = run("begun\ntest_a FAILED\ntest_b ok\nended in 0.5 s\n");
    let diff = |task: &str| client.poll(task, json!({"diff": "last"}));
    let none = diff(&first);
    assert!(none.is_error && none.text.contains("no earlier run of this command"), "{}", none.text);
    let second = run("begun\ntest_a ok\ntest_b ok\nended in 1.7 s\nmore\n");
    let shown = diff(&second);
    assert_eq!(shown.output(), "+2: test_a ok\n+5: more\n-2: test_a FAILED", "{}", shown.text);
    let says =
        format!("compared with task {first}, numbers aside: 2 lines new (+), 1 line gone (-).");
    assert!(shown.text.contains(&says), "{}", shown.text);
    let both = client.poll(&second, json!({"diff": "last", "grep": "x"}));
    assert!(both.is_error && both.text.contains("leave one out"), "{}", both.text);
    let elsewhere = client
        .call("zsh", json!({"command": "cat printed; sleep 0.01", "cwd": "/", "yield_after": 25}));
    assert!(diff(&elsewhere.task_id()).is_error);
}
