//! What fuzzing has found worth keeping (`tests/fuzz/seeds`), through the same checks
//! without a fuzzer.

#[path = "../fuzz/checks/arguments.rs"]
mod arguments;
#[path = "../fuzz/checks/config.rs"]
mod config;
#[path = "../fuzz/checks/frames.rs"]
mod frames;
#[path = "../fuzz/checks/host_texts.rs"]
mod host_texts;
#[path = "../fuzz/checks/http_heads.rs"]
mod http_heads;
#[path = "../fuzz/checks/man_pages.rs"]
mod man_pages;
#[path = "../fuzz/checks/sessions.rs"]
mod sessions;
#[path = "../fuzz/checks/socket_messages.rs"]
mod socket_messages;
#[path = "../fuzz/checks/templates.rs"]
mod templates;
#[path = "../fuzz/checks/terminal.rs"]
mod terminal;
#[path = "../fuzz/checks/verdicts.rs"]
mod verdicts;

use std::fs;
use std::path::Path;

/// Checks each seed of a target; the last one that is named is the one that failed.
fn replay(target: &str, check: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds");
    let seeds = fs::read_dir(seeds.join(target)).expect("seeds of the target");
    let mut count = 0;
    for seed in seeds {
        let path = seed.expect("a seed").path();
        println!("{}", path.display());
        check(&fs::read(&path).expect("a seed's bytes"));
        count += 1;
    }
    assert!(count > 0, "{target} has no seeds");
}

#[test]
fn seeds_of_arguments_keep_their_promises() {
    replay("arguments", arguments::check);
}

#[test]
fn seeds_of_config_keep_their_promises() {
    replay("config", config::check);
}

#[test]
fn seeds_of_frames_keep_their_promises() {
    replay("frames", frames::check);
}

#[test]
fn seeds_of_host_texts_keep_their_promises() {
    replay("host_texts", host_texts::check);
}

#[test]
fn seeds_of_http_heads_keep_their_promises() {
    replay("http_heads", http_heads::check);
}

#[test]
fn seeds_of_man_pages_keep_their_promises() {
    replay("man_pages", man_pages::check);
}

#[test]
fn seeds_of_sessions_keep_their_promises() {
    replay("sessions", sessions::check);
}

#[test]
fn seeds_of_socket_messages_keep_their_promises() {
    replay("socket_messages", socket_messages::check);
    socket_messages::remove_files();
}

#[test]
fn seeds_of_templates_keep_their_promises() {
    replay("templates", templates::check);
}

#[test]
fn seeds_of_terminal_keep_their_promises() {
    replay("terminal", terminal::check);
}

#[test]
fn seeds_of_verdicts_keep_their_promises() {
    replay("verdicts", verdicts::check);
}
