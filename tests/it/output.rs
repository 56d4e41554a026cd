//! Output: all of it is taken, kept within a quota, and shown as a person would read it.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::{memory_kib, wait_until};
use crate::support::result::ToolResult;

/// How much the server may grow while a gigabyte passes: what the specification allows,
/// and as much again for a build without optimisation.
const GROWTH_KIB: u64 = 16 * 1024;

#[test]
fn output_that_nobody_polls_is_drained() {
    let env = Env::new();
    let client = env.client();
    let command = "yes 0123456789abcde | head -c 2097152; touch drained";
    let task = client.start_task(command);
    wait_until("the command ends by itself", || env.work().join("drained").exists().then_some(()));
    let result = client.poll_to_end(&task);
    assert_eq!(result.status(), "completed", "{}", result.text);
    assert_eq!(result.meta["total_lines"], json!(2_097_152 / 16));
}

#[test]
fn a_gigabyte_passes_in_bounded_memory_and_its_ends_stay_readable() {
    const LAST: u64 = 118_000_000;
    let env = Env::new();
    env.configure("spool_task_quota: 67108864\n");
    let client = env.client();
    let server = client.server_pid();
    client.run("true");
    let before = memory_kib(server, "VmRSS");
    let task = client.start_task(&format!("seq 1 {LAST}"));
    let mut result = client.poll_to_end(&task);
    while result.status() == "running" {
        result = client.poll_to_end(&task);
    }
    let growth = memory_kib(server, "VmHWM").saturating_sub(before);
    assert!(growth <= GROWTH_KIB, "the server grew by {growth} KiB");
    assert_eq!(result.meta["total_lines"], json!(LAST), "{}", result.text);
    assert!(result.output().ends_with(&format!("{LAST}: {LAST}")));
    // What is gone is named in bytes and in lines.
    let gone = regex::Regex::new(r"1\.0 GB of the output \(111,\d{3},\d{3} lines\) are gone")
        .expect("a regex");
    assert!(gone.is_match(&result.footer()), "{}", result.footer());
    let whole = client.poll(&task, json!({"full_output": true}));
    assert!(whole.output().starts_with("1: 1\n2: 2\n"), "{}", whole.text);
    assert!(whole.output().ends_with(&format!("\n{LAST}: {LAST}")));
    let head = client.poll(&task, json!({"from_line": 1000, "to_line": 1001}));
    assert_eq!(head.output(), "1000: 1000\n1001: 1001");
    let newest = client.poll(&task, json!({"from_line": LAST - 1}));
    assert_eq!(newest.output(), format!("{}: {}\n{LAST}: {LAST}", LAST - 1, LAST - 1));
    let middle = client.poll(&task, json!({"from_line": 20_000_000, "to_line": 20_000_009}));
    assert!(middle.footer().contains("lines 20,000,000–20,000,009 are gone"), "{}", middle.text);
}

#[test]
fn past_a_small_quota_the_head_and_the_newest_are_kept() {
    let env = Env::new();
    env.configure("spool_task_quota: 65536\n");
    let client = env.client();
    let result = client.run("seq 1 100000");
    let output = result.output();
    assert!(output.starts_with("1\n2\n3\n"), "{}", result.text);
    assert!(output.ends_with("\n99999\n100000"), "{}", result.text);
    let gone = result.meta["insights"].to_string();
    assert!(gone.contains("are gone"), "{gone}");
    // Every number that is shown stands on its own line, and what is missing between is
    // told as gone.
    let task = result.task_id();
    let whole = client.poll(&task, json!({"full_output": true, "max_output": 490_000}));
    for (number, text) in whole.numbered() {
        if !text.starts_with('…') && !text.ends_with('…') {
            assert_eq!(text, number.to_string());
        }
    }
    assert!(whole.output().contains(" lines gone ("), "{}", whole.text);
    let found = client.poll(&task, json!({"grep": "^(7|50000|99998)$"}));
    assert_eq!(found.output(), "7: 7\n99998: 99998");
}

#[test]
fn a_line_of_ten_megabytes_is_cut_in_its_middle() {
    let env = Env::new();
    let client = env.client();
    let result = client.run("head -c 10000000 /dev/zero | tr '\\0' x; echo END; echo next");
    assert_eq!(result.meta["total_lines"], json!(2), "{}", result.footer());
    let output = result.output();
    assert!(output.starts_with("xxx"), "{output}");
    assert!(output.ends_with("xEND\nnext"), "{output}");
    assert!(output.chars().count() < 2_200, "{}", output.chars().count());
    let found = client.poll(&result.task_id(), json!({"grep": "END"}));
    assert_eq!(found.numbered().len(), 1, "{}", found.text);
}

#[test]
fn bytes_that_are_no_text_are_shown_and_break_nothing() {
    let env = Env::new();
    let client = env.client();
    for (command, shown) in [
        (r"printf 'a\xffb\n'", "a\u{fffd}b"),
        (r"printf '\xf0\x9f\x98\n'", "\u{fffd}"),
        (r"printf 'a\0b\n'", "a^@b"),
        (r"printf 'a\bb\x7f\n'", "b^?"),
        (r"printf 'tab\there\n'", "tab\there"),
        (r"printf '\e[31mred\e[0m \e]0;title\a\n'", "red "),
        (r"printf 'no line end'", "no line end"),
        (r"printf '\n\n\n'", "\n\n"),
        (r"printf '\r\n\r\n'", "\n"),
        (r"head -c 100000 /dev/urandom | tail -c 0; echo ok", "ok"),
    ] {
        let result = client.run(command);
        assert_eq!(result.output(), shown, "{command}");
    }
    let noise = client.run("head -c 300000 /dev/urandom");
    assert_eq!(noise.status(), "completed");
    client.assert_only_frames();
}

#[test]
fn a_character_in_two_writes_is_never_shown_broken() {
    let env = Env::new();
    let client = env.client();
    let go_on = env.named_pipe("go_on");
    let command = r"printf 'x\xe3\x81'; read -r _ <go_on; printf '\x82\n'";
    let task = client.start_task(command);
    let first = client.poll(&task, json!({"until": "x", "listen": 25}));
    assert!(!first.output().contains('\u{fffd}'), "{}", first.text);
    fs::write(go_on, "\n").expect("the command reads");
    let second = client.poll_to_end(&task);
    assert_eq!(second.output(), "1: xあ", "{}", second.text);
}

#[test]
fn of_a_progress_bar_only_the_newest_frame_is_shown_with_their_number() {
    let env = Env::new();
    let client = env.client();
    let command =
        r#"for n in {1..200}; do printf '\r[%3d/200] building' $n; done; echo; echo done"#;
    let result = client.run(command);
    assert_eq!(result.output(), "[200/200] building  (×200 redrawn)\ndone");
    assert_eq!(result.meta["total_lines"], json!(2));
}

#[test]
fn progress_lines_collapse_and_tables_do_not() {
    let env = Env::new();
    let client = env.client();
    let progress =
        client.run(r#"for n in 10 20 30 40; do echo "Downloading: $n%"; done; echo end"#);
    assert_eq!(progress.output(), "Downloading: 40%  (×4 redrawn)\nend");
    let kept = client.poll(&progress.task_id(), json!({"grep": "20%"}));
    assert_eq!(kept.output(), "2: Downloading: 20%", "the spool keeps all");
    for table in [
        "/dev/vda1  252G  19G  73G  21% /\ntmpfs  2.0G  0  2.0G  0% /run\n/dev/vdb  99G  50G  49G  51% /data",
        "1% a\n2% b\n3% c",
        "[#1] a\n[#2] b",
        "test 1 ... ok\ntest 2 ... ok",
        "50%\n40%\n30%",
    ] {
        let result = client.run(&format!("print -r -- {}", quoted(table)));
        assert_eq!(result.output(), table);
    }
}

#[test]
fn identical_lines_collapse_in_each_answer_and_ranges_give_each() {
    let env = Env::new();
    let client = env.client();
    let done = client.run("repeat 5 print waiting for db; print up; print 'up  (×3)'");
    assert_eq!(done.output(), "waiting for db  (×5)\nup\nup  (×3)", "{}", done.text);
    assert_eq!(done.meta["total_lines"], json!(7), "{}", done.text);

    let begin = env.named_pipe("begin");
    let go_on = env.named_pipe("go_on");
    let wait = |times: u32| format!("repeat {times} print waiting for db");
    let command =
        format!("read -r _ <begin; {}; read -r _ <go_on; {}; print up", wait(50), wait(20));
    let task = client.start_task(&command);
    fs::write(begin, "\n").expect("the command reads");
    wait_until("the first part is there", || {
        let last = client.poll(&task, json!({"from_line": 50}));
        (last.output() == "50: waiting for db").then_some(())
    });
    let first = client.poll(&task, json!({"listen": 25}));
    assert_eq!(first.output(), "50: waiting for db  (×50)", "{}", first.text);
    let lines = |result: &ToolResult| {
        ["from_line", "to_line", "omitted_lines"].map(|name| result.meta[name].clone())
    };
    assert_eq!(lines(&first), [json!(1), json!(50), json!(0)]);
    fs::write(go_on, "\n").expect("the command reads");
    let second = client.poll_to_end(&task);
    let wanted = "70: waiting for db  (×20)\n71: up";
    assert_eq!(second.output(), wanted, "{}", second.text);
    assert_eq!(lines(&second), [json!(51), json!(71), json!(0)]);

    let all = client.poll(&task, json!({"full_output": true}));
    let wanted = "70: waiting for db  (×70)\n71: up";
    assert_eq!(all.output(), wanted, "{}", all.text);
    assert_eq!(lines(&all), [json!(1), json!(71), json!(0)]);
    let range = client.poll(&task, json!({"from_line": 48, "to_line": 53}));
    let each: Vec<u64> = range.numbered().iter().map(|row| row.0).collect();
    assert_eq!(each, [48, 49, 50, 51, 52, 53], "{}", range.text);
    let found = client.poll(&task, json!({"grep": "^waiting"}));
    assert_eq!(found.numbered().len(), 70, "{}", found.text);
}

#[test]
fn the_last_line_is_always_shown() {
    let env = Env::new();
    let client = env.client();
    let command = "seq 1 100000; printf 'error: %01500d: the reason' 7";
    let arguments = json!({"command": command, "yield_after": 25, "max_output": 1000});
    let result = client.call("zsh", arguments);
    assert!(result.output().ends_with("07: the reason"), "{}", result.text);
    assert!(result.output().starts_with("1\n2\n"), "{}", result.text);
    assert!(result.output().contains("lines omitted ("), "{}", result.text);
}

#[test]
fn any_part_is_readable_after_the_end() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("seq -f 'line %.0f' 1 200000").task_id();
    for from in [1, 777, 65_536, 123_456, 199_999] {
        let arguments = json!({"from_line": from, "to_line": from + 1});
        let result = client.poll(&task, arguments);
        let expected = format!("{from}: line {from}\n{}: line {}", from + 1, from + 1);
        assert_eq!(result.output(), expected);
    }
    let found = client.poll(&task, json!({"grep": "^line 15000[01]$", "context": 1}));
    let numbers: Vec<u64> = found.numbered().iter().map(|(number, _)| *number).collect();
    assert!(numbers.contains(&150_000) && numbers.contains(&150_001), "{}", found.text);
    let past = client.poll(&task, json!({"from_line": 200_001}));
    assert!(!past.is_error, "{}", past.text);
    let again = client.poll(&task, json!({"listen": 0}));
    assert_eq!(again.meta["new_bytes"], json!(0), "{}", again.text);
}

#[test]
fn a_full_disk_stops_nothing_and_the_newest_output_is_kept() {
    let env = Env::new();
    let client = on_a_small_disk(&env);
    let result = client.run("seq 1 1000000; touch went_on");
    assert_eq!(result.status(), "completed", "{}", result.text);
    assert!(env.work().join("went_on").exists());
    assert!(result.output().ends_with("\n999999\n1000000"), "{}", result.text);
    assert!(result.output().starts_with("1\n2\n"), "{}", result.text);
    assert_disk_warning(&result.footer());
    // The next command is no worse off.
    let next = client.run("echo next");
    assert_eq!(next.output(), "next");
    let newest = client.poll(&result.task_id(), json!({"from_line": 999_999}));
    assert_eq!(newest.output(), "999999: 999999\n1000000: 1000000");
}

#[test]
fn a_limit_on_file_sizes_stops_nothing_and_the_newest_output_is_kept() {
    let env = Env::new();
    let mut command = env.command("sh");
    command.args(["-c", "ulimit -f 512; exec \"$0\" serve"]).arg(binary());
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let result = client.run("seq 1 1000000");
    assert_eq!(result.status(), "completed", "{}", result.text);
    assert!(result.output().ends_with("\n999999\n1000000"), "{}", result.text);
    assert_disk_warning(&result.footer());
}

#[test]
fn a_state_directory_that_cannot_be_used_costs_nothing_but_the_disk() {
    let env = Env::new();
    fs::write(env.path("a_file"), "").expect("a file");
    let unusable = [env.path("a_file"), env.path("a_file/below"), "/proc/state".into()];
    for state in unusable {
        let mut command = env.serve();
        command.env("ZSH_TOOL_STATE_DIR", &state);
        let client = Client::start(command, env.path("stderr"));
        client.initialize();
        let result = client.run("seq 1 100000");
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert!(result.output().ends_with("\n99999\n100000"), "{}", result.text);
        assert_disk_warning(&result.footer());
        let long = format!(": {}", "x".repeat(200_000));
        let refused = client.run(&long);
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("too long to pass as one argument"), "{}", refused.text);
        assert_eq!(client.run("echo next").output(), "next");
    }
}

#[test]
fn a_state_directory_that_is_taken_away_loses_output_and_nothing_else() {
    let env = Env::new();
    let client = env.client();
    let before = client.run("seq 1 100").task_id();
    let go_on = env.named_pipe("go_on");
    let task = client.start_until("seq 1 100; read -r _ <go_on; seq 101 200", "^100$");
    // Not file by file: the server writes there meanwhile.
    fs::rename(env.path("state"), env.path("taken")).expect("the state directory");
    fs::write(go_on, "\n").expect("the command reads");
    let lost = client.poll(&before, json!({"full_output": true}));
    assert!(lost.is_error, "{}", lost.text);
    assert!(lost.text.contains("cannot be read"), "{}", lost.text);
    client.poll_to_end(&task);
    let next = client.run("echo next");
    assert_eq!(next.output(), "next", "{}", next.text);
}

#[test]
fn a_link_in_place_of_a_spool_file_is_not_followed() {
    let env = Env::new();
    let client = env.client();
    let result = client.run("echo mine");
    let log = result.meta["log_path"].as_str().expect("a spool file").to_owned();
    fs::write(env.path("other"), "theirs\n").expect("a file");
    fs::remove_file(&log).expect("the spool file");
    std::os::unix::fs::symlink(env.path("other"), &log).expect("a link");
    let read = client.poll(&result.task_id(), json!({"full_output": true}));
    assert!(!read.text.contains("theirs"), "{}", read.text);
}

#[test]
fn lines_behind_a_gap_keep_their_numbers() {
    const LAST: u64 = 3_000_000;
    let env = Env::new();
    env.configure("spool_task_quota: 8388608\n");
    let client = env.client();
    let task = client.run(&format!("seq 1 {LAST}")).task_id();
    for line in [1, 2_500_000, LAST - 1] {
        let found = client.poll(&task, json!({"grep": format!("^{line}$")}));
        assert_eq!(found.output(), format!("{line}: {line}"));
    }
    // A range that begins or ends with lines that are gone, and a search in one.
    let from = client.poll(&task, json!({"from_line": 500_000, "max_output": 1000}));
    let begin = from.output();
    assert!(begin.starts_with("… "), "{begin}");
    assert!(begin.contains(" lines gone (500,000–"), "{begin}");
    assert!(begin.ends_with("\n3000000: 3000000"), "{begin}");
    let to = client.poll(&task, json!({"from_line": 2, "to_line": 500_000, "max_output": 1000}));
    let end = to.output();
    assert!(end.starts_with("2: 2\n3: 3\n"), "{end}");
    assert!(end.contains(" lines gone ("), "{end}");
    assert!(end.ends_with("–500,000): past the spool's quota …"), "{end}");
    let found = client.poll(&task, json!({"grep": "^2999999$", "from_line": 500_000}));
    assert_eq!(found.output(), "2999999: 2999999");
    for (number, text) in from.numbered().into_iter().chain(to.numbered()) {
        if !text.contains('…') {
            assert_eq!(text, number.to_string());
        }
    }
}

#[test]
fn new_output_whose_beginning_is_gone_says_so() {
    let env = Env::new();
    env.configure("spool_task_quota: 65536\n");
    let client = env.client();
    let go_on = env.named_pipe("go_on");
    let command = "seq 1 5000; read -r _ <go_on; seq 5001 100000";
    let task = client.start_until(command, "^5000$");
    fs::write(go_on, "\n").expect("the command reads");
    let result = client.poll_to_end(&task);
    let output = result.output();
    let first = output.lines().next().unwrap_or_default();
    assert!(first.contains(" lines gone (5,001–"), "{first}");
    assert!(output.ends_with("100000: 100000"), "{}", result.text);
    assert_eq!(result.meta["from_line"], json!(5001));
    let mut rows = output.lines();
    while let Some(row) = rows.next() {
        let next = rows.clone().next().unwrap_or_default();
        assert!(!(row.starts_with('…') && next.starts_with('…')), "{output}");
    }
}

#[test]
fn of_a_progress_bar_longer_than_the_room_only_the_newest_frame_is_the_line() {
    let env = Env::new();
    let client = env.client();
    let command = r"for n in {1..60000}; do printf '\r%06d of a bar' $n; done; echo; echo done";
    let result = client.run(command);
    assert_eq!(result.output(), "060000 of a bar  (redrawn)\ndone");
}

#[test]
fn a_line_that_has_only_ended_is_not_shown_again() {
    let env = Env::new();
    let client = env.client();
    let (once, twice) = (env.named_pipe("once"), env.named_pipe("twice"));
    let command = r"printf a; read -r _ <once; printf '\r'; read -r _ <twice; printf '\n'";
    let task = client.start_until(command, "a");
    fs::write(once, "\n").expect("the command reads");
    let returned = client.poll(&task, json!({"listen": 25}));
    assert_eq!(returned.meta["new_bytes"], json!(1), "{}", returned.text);
    assert_eq!(returned.meta["to_line"], json!(0), "{}", returned.text);
    fs::write(twice, "\n").expect("the command reads");
    let ended = client.poll_to_end(&task);
    assert_eq!(ended.meta["to_line"], json!(0), "{}", ended.text);
}

#[test]
fn a_character_that_never_gets_all_its_bytes_is_shown_once() {
    let env = Env::new();
    let client = env.client();
    for (rest, shown) in [(r"printf '\n'", "1: x\u{fffd}"), ("true", "1: x\u{fffd}")] {
        let go_on = env.named_pipe("go_on");
        let command = format!(r"printf 'x\xe3'; read -r _ <go_on; {rest}");
        let task = client.start_task(&command);
        let first = client.poll(&task, json!({"until": "x", "listen": 25}));
        assert!(!first.output().contains('\u{fffd}'), "{}", first.text);
        let silent = client.poll(&task, json!({"listen": 0}));
        assert!(!silent.output().contains('\u{fffd}'), "{}", silent.text);
        fs::write(&go_on, "\n").expect("the command reads");
        let last = client.poll_to_end(&task);
        assert_eq!(last.output(), shown, "{rest}");
        let again = client.poll(&task, json!({"listen": 0}));
        assert_eq!(again.meta["new_bytes"], json!(0), "{}", again.text);
        fs::remove_file(go_on).expect("the pipe");
    }
}

#[test]
fn a_range_past_the_end_says_how_many_lines_there_are() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("seq 1 1234").task_id();
    for arguments in [
        json!({"from_line": 1235}),
        json!({"from_line": 9000, "to_line": 9001}),
        json!({"from_line": 1235, "grep": "."}),
    ] {
        let result = client.poll(&task, arguments);
        let footer = result.footer();
        assert!(!result.is_error, "{}", result.text);
        assert!(footer.contains("the output has 1,234 lines"), "{footer}");
    }
    let last = client.poll(&task, json!({"from_line": 1234}));
    assert_eq!(last.output(), "1234: 1234");
    assert!(!last.footer().contains("has 1,234"), "{}", last.text);
}

#[test]
fn a_finished_command_costs_few_characters_beyond_its_output() {
    const MOST: usize = 80;
    let env = Env::new();
    let client = env.client();
    for (command, output) in [("print hello", "hello"), ("exit 3", ""), ("true | true", "")] {
        let result = client.run(command);
        // A host's name is of a length that its user chose, and stands before the id twice.
        let host = result.task_id().find(':').map_or(0, |colon| colon + 1);
        let own = "$ ".len() + command.len() + output.len() + 2 * host;
        let text = result.text;
        let beyond = text.chars().count() - own;
        assert!(beyond <= MOST, "{beyond} characters beyond: {text}");
    }
}

#[test]
fn arguments_that_mean_nothing_together_are_refused() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("seq 1 10").task_id();
    for (arguments, named) in [
        (json!({"grep": "1", "listen": 5}), &["grep", "listen"][..]),
        (json!({"grep": "1", "until": "2"}), &["grep", "until"]),
        (json!({"from_line": 1, "wait_for": "end"}), &["from_line", "wait_for"]),
        (json!({"to_line": 2, "full_output": true}), &["to_line", "full_output"]),
        (json!({"from_line": 1, "listen": 5, "until": "x"}), &["from_line", "listen", "until"]),
        (json!({"context": 2}), &["context", "grep"]),
        (json!({"from_line": 1, "context": 2}), &["context", "grep"]),
        (json!({"grep": "1", "from_line": 3, "to_line": 2}), &["to_line", "from_line"]),
    ] {
        let refused = client.poll(&task, arguments.clone());
        assert!(refused.is_error, "{arguments}: {}", refused.text);
        for name in named {
            assert!(refused.text.contains(name), "{name}: {}", refused.text);
        }
    }
    // What asks for nothing contradicts nothing.
    let found = client.poll(
        &task,
        json!({"grep": "^3$", "listen": 0, "full_output": false, "from_line": 2, "to_line": 4}),
    );
    assert_eq!(found.output(), "3: 3");
}

#[test]
fn spools_in_memory_share_a_limit_and_the_oldest_finished_go_first() {
    /// One task holds at most 4 MiB in memory, all together 64 MiB.
    const TASKS: usize = 20;
    let env = Env::new();
    fs::write(env.path("a_file"), "").expect("a file");
    let mut command = env.serve();
    command.env("ZSH_TOOL_STATE_DIR", env.path("a_file"));
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let tasks: Vec<String> = (0..TASKS).map(|_| client.run("seq 1 1000000").task_id()).collect();
    let oldest = client.poll(&tasks[0], json!({"from_line": 1_000_000}));
    assert!(oldest.is_error, "{}", oldest.text);
    for task in &tasks[TASKS - 12..] {
        let newest = client.poll(task, json!({"from_line": 1_000_000}));
        assert_eq!(newest.output(), "1000000: 1000000");
    }
}

fn assert_disk_warning(footer: &str) {
    assert!(footer.contains("⚠") && footer.contains("not on disk"), "no warning: {footer}");
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A server whose state directory is a file system of one megabyte, in a mount
/// namespace of its own.
pub fn on_a_small_disk(env: &Env) -> Client {
    const MOUNT: &str =
        r#"mount -t tmpfs -o size=1m,mode=700 none "$ZSH_TOOL_STATE_DIR" && exec "$0" serve"#;
    let possible = |flags: &[&str]| {
        Command::new("unshare")
            .args(flags)
            .args(["mount", "-t", "tmpfs", "none", "/mnt"])
            .output()
            .is_ok_and(|done| done.status.success())
    };
    let as_root = ["--mount"];
    let as_user = ["--mount", "--map-root-user"];
    let flags = if possible(&as_root) {
        &as_root[..]
    } else {
        assert!(
            possible(&as_user),
            "this test mounts a small file system: run it as root, or where user namespaces are allowed"
        );
        &as_user[..]
    };
    let mut command = env.command("unshare");
    command.args(flags).args(["sh", "-c", MOUNT]).arg(binary());
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    client
}
