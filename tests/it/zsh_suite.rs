//! zsh's own tests, chunk by chunk, run by bare zsh and by the tool: the same bytes, the
//! same exit code, the same number of processes left.
//!
//! `scripts/zsh-suite` fetches them. A chunk runs behind the preparations of its file, as
//! one command; what its file expects of it does not matter here, only that both runs
//! agree. Each chunk gets a prologue, since the startup file defines a function that
//! changes the directory. Chunks on which bare zsh does not agree with itself (they print
//! pids, or the time) are left out and counted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use zsh_tool::testing::shell::command_line::CommandLine;
use zsh_tool::testing::shell::dialect::{Dialect, Traps};

use crate::support::env::{ADDED, BARE_ZSH, Env, shell_exit_code};
use crate::support::processes::{end, processes_with, wait_until};
use crate::support::program::{exec_merged, zsh_tool};

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/zsh-suite");

/// Files that are no tests of a shell that runs one command: they start other shells on
/// terminals and type into them, or give up the user that the test runs as.
const LEFT_OUT: &[&str] = &[
    "P01privileged",
    "V08zpty",
    "W02jobs",
    "W03jobparameters",
    "X02zlevi",
    "X03zlebindkey",
    "X04zlehighlight",
    "Y01completion",
    "Y02compmatch",
    "Y03arguments",
];

/// Chunks whose runs differ, and why.
const DIFFERENT: &[(&str, &str)] = &[];

/// Chunks that also bash runs, with another result.
const TAKEN_FOR_BASH: &[&str] = &["A04redirect:349", "B03print:228", "B03print:232"];

/// Chunks in which programs that run at once write to one place, in an order that neither
/// shell decides: what they write is compared without its order.
const IN_ANY_ORDER: &[&str] = &["D03procsubst:18", "D03procsubst:22"];

/// `make test` takes every so many'th chunk.
const SAMPLE: usize = 12;

/// Chunks that run at once: most of their time they wait.
const AT_ONCE: usize = 4;

/// No chunk takes the tool longer, in seconds, unless it hangs.
const LONGEST: &str = "60";

#[test]
fn a_sample_of_zshs_own_tests_runs_as_in_bare_zsh() {
    runs_as_in_bare_zsh(SAMPLE);
}

#[test]
fn no_chunk_is_taken_for_text_written_for_bash() {
    let note = |chunk: Chunk| {
        let line = CommandLine::parse(chunk.command);
        let found = Traps::find(&line, Dialect::Zsh, &|_| false);
        let trap = found.before().or_else(|| found.silent())?;
        Some(format!("{}: {trap}", chunk.name))
    };
    let noted: Vec<String> = all_chunks().into_iter().filter_map(note).collect();
    let known = |line: &&String| TAKEN_FOR_BASH.iter().any(|name| line.starts_with(name));
    let unknown: Vec<&String> = noted.iter().filter(|line| !known(line)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Compares every `step`th chunk.
pub fn runs_as_in_bare_zsh(step: usize) {
    let chunks: Vec<Chunk> = all_chunks().into_iter().step_by(step).collect();
    let count = chunks.len();
    assert!(count > 100, "only {count} chunks");
    let queue = Mutex::new(chunks.into_iter());
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic under the lock").next();
                    let Some(chunk) = next else { return };
                    let verdict = compare(&chunk);
                    let mut results = results.lock().expect("no panic under the lock");
                    results.insert(chunk.name, verdict);
                }
            });
        }
    });
    let results = results.into_inner().expect("no panic under the lock");
    judge(count, &results);
}

fn judge(count: usize, results: &BTreeMap<String, Verdict>) {
    let unsteady = results.values().filter(|verdict| matches!(verdict, Verdict::Unsteady)).count();
    let different: Vec<(&String, &String)> = results
        .iter()
        .filter_map(|(name, verdict)| match verdict {
            Verdict::Different(how) => Some((name, how)),
            _ => None,
        })
        .collect();
    let equal = count - unsteady - different.len();
    println!(
        "{count} chunks: {equal} equal, {} different, {unsteady} unsteady in bare zsh",
        different.len()
    );
    let unknown: Vec<String> = different
        .iter()
        .filter(|(name, _)| !DIFFERENT.iter().any(|(known, _)| known == name))
        .map(|(name, how)| format!("{name}: {how}"))
        .collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n\n"));
    for (name, reason) in DIFFERENT {
        let is_equal = matches!(results.get(*name), Some(Verdict::Equal));
        assert!(!is_equal, "{name} is equal now, so this is no reason: {reason}");
    }
    assert!(unsteady * 10 < count, "{unsteady} of {count} say nothing");
}

/// A piece of a test file that zsh's own test runner evaluates at once.
struct Chunk {
    /// The file and the line on which it begins.
    name: String,
    /// The file's preparations and the piece.
    command: String,
}

fn all_chunks() -> Vec<Chunk> {
    let fetched = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/zsh-suite"))
        .stdin(Stdio::null())
        .status();
    assert!(fetched.expect("scripts/zsh-suite").success());
    let folder = Path::new(SUITE).join("Test");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the suite")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == "ztst"))
        .collect();
    paths.sort();
    let mut chunks = Vec::new();
    for path in paths {
        let file = path.file_stem().expect("a name").to_string_lossy();
        if !LEFT_OUT.contains(&&*file) {
            let text = fs::read(&path).expect("a test file");
            chunks.extend(chunks_of(&file, &String::from_utf8_lossy(&text)));
        }
    }
    chunks
}

/// Sections begin with `%`; pieces are runs of indented lines, what follows them says what
/// is expected.
fn chunks_of(file: &str, text: &str) -> Vec<Chunk> {
    let mut preparations = String::new();
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut section = "";
    let mut in_piece = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix('%') {
            section = name.trim();
            in_piece = false;
        } else if !line.starts_with([' ', '\t']) {
            in_piece = false;
        } else if section == "prep" {
            preparations += line;
            preparations += "\n";
        } else if section == "test" {
            if !in_piece {
                chunks.push(Chunk {
                    name: format!("{file}:{}", index + 1),
                    command: preparations.clone(),
                });
            }
            in_piece = true;
            let chunk = chunks.last_mut().expect("one was begun");
            chunk.command += line;
            chunk.command += "\n";
        }
    }
    chunks
}

impl Chunk {
    /// What counts of a run of this chunk.
    fn ran(&self, mut ran: Ran) -> Ran {
        if IN_ANY_ORDER.contains(&self.name.as_str()) {
            let mut characters: Vec<char> = ran.output.chars().collect();
            characters.sort_unstable();
            ran.output = characters.into_iter().collect();
        }
        ran
    }
}

enum Verdict {
    Equal,
    Unsteady,
    Different(String),
}

/// What one run did.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    exit_code: i64,
    output: String,
    /// Processes that outlived it.
    left: usize,
}

fn compare(chunk: &Chunk) -> Verdict {
    let env = Env::new();
    fs::write(env.path("zdotdir/.zshenv"), "go() { cd \"$1\" }\n").expect("a startup file");
    // A busy machine may delay what a chunk does side by side: a second look decides.
    for is_last in [false, true] {
        let first = chunk.ran(bare(&env, &chunk.command));
        let own = chunk.ran(by_the_tool(&env, &chunk.command));
        if own == first {
            return Verdict::Equal;
        }
        let again = || chunk.ran(bare(&env, &chunk.command));
        if again() != first || again() != first {
            return Verdict::Unsteady;
        }
        if is_last {
            return Verdict::Different(format!(
                "{}\nbare: {first:?}\ntool: {own:?}",
                chunk.command
            ));
        }
    }
    unreachable!("the last look decides")
}

fn surround(env: &Env, mut command: Command) -> Command {
    // Each run finds the same place, empty.
    fs::remove_dir_all(env.work()).expect("the last run's files");
    fs::create_dir(env.work()).expect("a directory to work in");
    command
        .env("ZTST_testdir", env.work())
        .env("ZTST_srcdir", Path::new(SUITE).join("Test"))
        .env("ZTST_exe", "zsh")
        .env("ZTST_fd", "2")
        .current_dir(env.work())
        .stdin(Stdio::null());
    command
}

fn bare(env: &Env, text: &str) -> Ran {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut zsh = surround(env, env.command("setsid"));
    // A session of its own, as the tool gives it.
    zsh.args(["bash", "-c", BARE_ZSH, "bash", text])
        .envs(ADDED.iter().copied())
        .stdout(writer.try_clone().expect("a second end"))
        .stderr(writer);
    let mut child = zsh.spawn().expect("setsid is installed");
    drop(zsh);
    let gathering = thread::spawn(move || {
        let mut output = Vec::new();
        reader.read_to_end(&mut output).expect("the output");
        output
    });
    let status = wait_until("the end of zsh", || child.try_wait().expect("a child"));
    let left = processes_with(env.mark());
    end(&left);
    let output = gathering.join().expect("the output");
    Ran {
        exit_code: shell_exit_code(status),
        output: String::from_utf8_lossy(&output).into_owned(),
        left: left.len(),
    }
}

fn by_the_tool(env: &Env, text: &str) -> Ran {
    let exec = zsh_tool(env, &["exec", "--timeout", LONGEST, "--", text]);
    let ran = exec_merged(&mut surround(env, exec));
    // `1 process was still running and had to be killed: …`
    let left = ran.status.lines().find_map(|line| {
        let (count, rest) = line.split_once(' ')?;
        rest.starts_with("process").then_some(count)
    });
    Ran {
        exit_code: ran.code,
        output: String::from_utf8_lossy(&ran.output).into_owned(),
        left: left.map_or(0, |count| count.parse().expect("a count")),
    }
}
