//! Programs that fill the screen, alone and started by others.

use std::fs;
use std::process::Command;

use super::session::Session;
use crate::support::env::Env;

fn git(env: &Env, arguments: &[&str]) -> String {
    let output = env.command("git").args(arguments).output().expect("git");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn git_opens_an_editor_and_takes_what_it_saved() {
    let env = Env::new();
    git(&env, &["init", "-q"]);
    for setting in ["user.name", "user.email", "gc.auto", "maintenance.auto"] {
        git(&env, &["config", setting, "0"]);
    }
    fs::write(env.work().join("file"), "text\n").expect("a file");
    git(&env, &["add", "file"]);
    let commit = Session::start(&env, "GIT_EDITOR='vi -u NONE' exec git commit");
    commit.shows(|text| {
        text.contains("# Please enter the commit message") && text.contains("COMMIT_EDITMSG")
    });
    commit.press("iFirst words\u{1b}").shows(|text| text.contains("First words"));
    commit.enter(":wq");
    let text = commit.ends_with_exit(0);
    assert!(text.contains("] First words\n 1 file changed, 1 insertion(+)"), "{text}");
    assert_eq!(git(&env, &["log", "--format=%s"]).trim(), "First words");
}

#[test]
fn a_pager_is_read_page_by_page_and_left() {
    let env = Env::new();
    let lines: String = (1..=100).map(|number| format!("word {number}\n")).collect();
    fs::write(env.work().join("words"), lines).expect("a file");
    let pager = Session::start(&env, "LESSHISTFILE=- exec less words");
    pager.shows(|text| text.ends_with("word 22\nword 23\nwords"));
    pager.press(" ").shows(|text| text.ends_with("word 46\n:"));
    pager.press("q");
    let text = pager.ends_with_exit(0);
    assert!(text.contains("word 23\nword 24\n"), "{text}");
}

#[test]
fn vi_writes_what_was_typed() {
    let env = Env::new();
    let vi = Session::start(&env, "exec vi -u NONE note");
    vi.shows(|text| text.contains("~ (×22)") && text.contains("\"note\""));
    vi.press("itwo words\u{1b}").shows(|text| text.starts_with("two words ⏎ ~"));
    vi.enter(":x");
    vi.ends_with_exit(0);
    let saved = Command::new("cat").arg(env.work().join("note")).output();
    assert_eq!(saved.expect("cat").stdout, b"two words\n");
}
