//! The listen window: a poll answers at what is new, and says what it knows when
//! nothing is.
//!
//! Where the moment of an output matters, the test itself is the author of the output:
//! see [`Puppet`].

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;

/// A wait that is never to be waited out.
const LONG: u64 = 25;

/// Far below [`LONG`], far above what an answer takes.
const AT_ONCE: Duration = Duration::from_secs(12);

/// Prints what it is told on a named pipe: a line, `part:TEXT` without a line end, and
/// `quit CODE`.
const PUPPET: &str = r#"while IFS= read -r -u 3 word; do
case $word in
quit*) exit ${word#quit};;
part:*) print -rn -- "${word#part:}";;
*) print -r -- "$word";;
esac
done 3<strings"#;

/// A running task that prints what the test wants, when the test wants it.
struct Puppet<'a> {
    client: &'a Client,
    task: String,
    strings: File,
}

impl<'a> Puppet<'a> {
    fn start(env: &Env, client: &'a Client) -> Puppet<'a> {
        let pipe = env.work().join("strings");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("the mkfifo program").success());
        // Opened for both, so that it never blocks for want of a reader.
        let strings = File::options().read(true).write(true).open(&pipe);
        let result = client.call("zsh", json!({"command": PUPPET, "yield_after": 0}));
        Puppet { client, task: result.task_id(), strings: strings.expect("the named pipe") }
    }

    fn say(&mut self, word: &str) {
        let line = format!("{word}\n");
        self.strings.write_all(line.as_bytes()).expect("the puppet listens");
    }

    fn poll(&self, arguments: Value) -> ToolResult {
        poll(self.client, &self.task, arguments)
    }

    /// Waits, without moving the cursor, until the server has read this text.
    fn has_said(&self, text: &str) {
        let pattern = regex::escape(text);
        wait_until("the server has read the output", || {
            let found = self.poll(json!({"grep": &pattern, "listen": 0}));
            found.without_numbers().contains(text).then_some(())
        });
    }
}

fn poll(client: &Client, task: &str, arguments: Value) -> ToolResult {
    client.call("zsh_poll", with_task(task, arguments))
}

fn with_task(task: &str, mut arguments: Value) -> Value {
    arguments["task_id"] = json!(task);
    arguments
}

/// Starts a command and comes back at once.
fn start(client: &Client, command: &str) -> String {
    client.call("zsh", json!({"command": command, "yield_after": 0})).task_id()
}

fn numbered(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
    lines.iter().map(|(number, text)| (*number, (*text).to_owned())).collect()
}

#[test]
fn output_within_the_window_ends_it() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    let waiting = client.call_async("zsh_poll", with_task(&puppet.task, json!({"listen": LONG})));
    client.ping();
    puppet.say("hello");
    let result = waiting.tool_result();
    assert_eq!(result.numbered(), numbered(&[(1, "hello")]));
    assert_eq!(result.status(), "running", "{}", result.text);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
    assert_eq!(result.meta["from_line"], json!(1));
    assert_eq!(result.meta["to_line"], json!(1));
    assert_eq!(result.meta["new_bytes"], json!("hello\n".len()));
    assert!(result.footer().contains("↻ line"), "{}", result.text);
}

#[test]
fn an_empty_window_lasts_two_seconds_and_says_what_is_known() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    let result = puppet.poll(json!({}));
    assert!(result.elapsed >= Duration::from_millis(1900), "{:?}", result.elapsed);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
    assert_eq!(result.numbered(), []);
    let known = result
        .footer()
        .lines()
        .find(|line| line.starts_with('◷'))
        .unwrap_or_else(|| panic!("no ◷ line: {}", result.text))
        .to_owned();
    assert!(known.contains("silent"), "{known}");
    assert!(known.contains("1 empty poll"), "{known}");
    assert!(known.chars().count() <= 160, "{known}");

    puppet.say("late");
    let next = puppet.poll(json!({"listen": LONG}));
    assert_eq!(next.numbered(), numbered(&[(1, "late")]));
    assert!(next.elapsed < AT_ONCE, "{:?}", next.elapsed);
}

#[test]
fn an_answer_says_how_long_the_next_wait_is_to_be() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    puppet.say("here");
    let result = puppet.poll(json!({"listen": LONG}));
    assert_eq!(result.numbered(), numbered(&[(1, "here")]));
    let next = result.meta["poll_meta"]["next_poll_s"].as_f64();
    let next = next.expect("seconds");
    // Programs are told tenths, and people the next whole second of the exact time.
    let whole = [next - 0.05, next + 0.05]
        .map(|exact| format!("next: zsh_poll wait_for=end listen={:.0}", exact.ceil()));
    let footer = result.footer();
    let line = footer.lines().find(|line| line.starts_with('◷'));
    assert!(
        line.is_some_and(|line| whole.iter().any(|next| line.ends_with(next))),
        "{whole:?}: {}",
        result.text
    );
}

#[test]
fn an_answer_about_what_waits_for_input_suggests_no_wait() {
    let env = Env::new();
    let client = env.client();
    let command = "read -r answer";
    let asks = client.call("zsh", json!({"command": command, "pty": true, "yield_after": 20}));
    assert!(asks.text.contains("⌨ WAITING"), "{}", asks.text);
    assert!(!asks.text.contains("next: zsh_poll"), "{}", asks.text);
    client.kill_task(&asks.task_id());
}

#[test]
fn the_end_of_the_task_ends_the_window() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    let waiting = client.call_async("zsh_poll", with_task(&puppet.task, json!({"listen": LONG})));
    client.ping();
    puppet.say("quit 6");
    let result = waiting.tool_result();
    assert_eq!(result.status(), "failed", "{}", result.text);
    assert_eq!(result.meta["exit_code"], json!(6));
    assert!(result.footer().starts_with("✘ exit=6  "), "{}", result.text);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
}

#[test]
fn a_finished_task_gives_its_rest_once_and_then_nothing() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    puppet.say("rest");
    puppet.say("quit 0");
    let end = puppet.poll(json!({"wait_for": "end", "listen": LONG}));
    assert_eq!(end.numbered(), numbered(&[(1, "rest")]));
    let again = puppet.poll(json!({"listen": LONG}));
    assert_eq!(again.numbered(), []);
    assert_eq!(again.meta["exit_code"], json!(0));
    assert!(again.elapsed < AT_ONCE, "{:?}", again.elapsed);
}

#[test]
fn waiting_for_the_end_goes_on_through_output() {
    let env = Env::new();
    let client = env.client();
    let task = start(&client, "for word in one two three; do echo $word; sleep 0.4; done");
    let result = poll(&client, &task, json!({"wait_for": "end", "listen": LONG}));
    assert_eq!(result.status(), "completed", "{}", result.text);
    assert!(result.without_numbers().ends_with("three"), "{}", result.text);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
}

#[test]
fn until_goes_on_through_output_and_names_the_line_that_matched() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("for word in one two three; do echo $word; sleep 0.3; done; {sleep}");
    let task = start(&client, &command);
    let result = poll(&client, &task, json!({"until": "^th?ree$", "listen": LONG}));
    assert_eq!(result.status(), "running", "{}", result.text);
    assert!(result.without_numbers().ends_with("three"), "{}", result.text);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
    names_the_matched_line(&result, 3);
}

#[test]
fn until_matches_the_unterminated_last_line() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    let until = with_task(&puppet.task, json!({"until": "ready>", "listen": LONG}));
    let waiting = client.call_async("zsh_poll", until);
    puppet.say("booting");
    puppet.say("part:ready> ");
    let result = waiting.tool_result();
    assert_eq!(result.status(), "running", "{}", result.text);
    assert!(result.without_numbers().contains("ready>"), "{}", result.text);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
    names_the_matched_line(&result, 2);
}

#[test]
fn a_line_that_matches_is_whole_though_its_end_is_written_by_itself() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    // As long as a program takes to start, the line has no end.
    let command = format!("print -n ready; env true; print; {sleep}");
    // A busy machine may take longer between the two writes than the wait lasts, but not each time.
    let is_whole = |_: &usize| {
        let arguments = json!({"command": command, "until": "ready", "yield_after": LONG});
        let result = client.call("zsh", arguments);
        assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
        client.kill_task(&result.task_id());
        result.text.contains("  6 B new  ")
    };
    let whole = (0..10).filter(is_whole).count();
    assert!(whole >= 8, "{whole} of 10");
}

#[test]
fn a_match_that_is_not_yet_delivered_ends_the_wait_at_once() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    for word in ["before", "the match", "after"] {
        puppet.say(word);
    }
    puppet.has_said("after");
    let result = puppet.poll(json!({"until": "match", "listen": LONG}));
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
    assert_eq!(result.numbered(), numbered(&[(1, "before"), (2, "the match"), (3, "after")]));
    names_the_matched_line(&result, 2);
}

#[test]
fn a_line_that_was_shown_matches_no_more() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    puppet.say("match");
    puppet.poll(json!({"listen": LONG}));
    let result = puppet.poll(json!({"until": "match", "listen": 1}));
    assert!(result.elapsed >= Duration::from_millis(900), "{:?}", result.elapsed);
    assert_eq!(result.numbered(), []);
}

#[test]
fn the_first_call_waits_for_its_own_pattern() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("echo starting; echo listening on 80; {sleep}");
    let arguments = json!({"command": command, "until": "listening", "yield_after": LONG});
    let result = client.call("zsh", arguments);
    assert_eq!(result.status(), "running", "{}", result.text);
    assert!(result.output().contains("listening on 80"), "{}", result.text);
    assert!(result.elapsed < AT_ONCE, "{:?}", result.elapsed);
    names_the_matched_line(&result, 2);
}

#[test]
fn empty_polls_are_counted_and_output_resets_the_count() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    let empty_polls = |result: &ToolResult| result.meta["poll_meta"]["polls_since_output"].clone();
    for expected in 1..=3 {
        let result = puppet.poll(json!({"listen": 0.1}));
        assert_eq!(empty_polls(&result), json!(expected), "{}", result.raw);
    }
    puppet.say("here");
    let result = puppet.poll(json!({"listen": LONG}));
    assert_eq!(empty_polls(&result), json!(0), "{}", result.raw);
    let result = puppet.poll(json!({"listen": 0.1}));
    assert_eq!(empty_polls(&result), json!(1), "{}", result.raw);
}

#[test]
fn deltas_never_repeat_and_never_lose_a_line() {
    const LINES: u64 = 400;
    let env = Env::new();
    let client = env.client();
    // Neighbours differ in their words, so that they are not taken for progress.
    let command = format!(
        "words=(apple berry cherry damson); \
         for i in {{1..{LINES}}}; do \
         print -r -- $words[i%4+1] $i; (( i % 10 )) || sleep 0.03; done"
    );
    let words = ["apple", "berry", "cherry", "damson"];
    let first = client.call("zsh", json!({"command": command, "yield_after": 0.2}));
    let begin = first.meta["from_line"].as_u64().unwrap_or(1);
    let mut seen: Vec<(u64, String)> =
        (begin..).zip(first.output().lines().map(str::to_owned)).collect();
    let task = first.task_id();
    let mut running = first.status() == "running";
    while running {
        let delta = poll(&client, &task, json!({"listen": LONG}));
        seen.extend(delta.numbered());
        running = delta.status() == "running";
    }
    let expected: Vec<(u64, String)> = (1..=LINES)
        .map(|number| {
            let word = words[usize::try_from(number % 4).expect("a small number")];
            (number, format!("{word} {number}"))
        })
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_partial_last_line_is_delivered_again_when_it_grew() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    puppet.say("part:abc");
    let result = puppet.poll(json!({"listen": LONG}));
    assert_eq!(result.numbered(), numbered(&[(1, "abc")]));
    let result = puppet.poll(json!({"listen": 0.1}));
    assert_eq!(result.numbered(), []);
    puppet.say("part:def");
    let result = puppet.poll(json!({"listen": LONG}));
    assert_eq!(result.numbered(), numbered(&[(1, "abcdef")]));
    puppet.say("ghi");
    puppet.say("next");
    puppet.has_said("next");
    let result = puppet.poll(json!({"listen": LONG}));
    assert_eq!(result.numbered(), numbered(&[(1, "abcdefghi"), (2, "next")]));
}

#[test]
fn ranges_grep_and_full_output_read_anything_and_move_nothing() {
    let env = Env::new();
    let client = env.client();
    let mut puppet = Puppet::start(&env, &client);
    let words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "omega"];
    for word in words {
        puppet.say(word);
    }
    puppet.has_said("omega");
    reads_any_part(&puppet);

    // The cursor is where it was: nothing has been delivered yet.
    let delta = puppet.poll(json!({"listen": LONG}));
    let all: Vec<(u64, String)> = (1..).zip(words.map(str::to_owned)).collect();
    assert_eq!(delta.numbered(), all);
    reads_any_part(&puppet);
    assert_eq!(puppet.poll(json!({"full_output": true, "listen": 0})).numbered(), all);

    puppet.say("quit 0");
    puppet.poll(json!({"wait_for": "end", "listen": LONG}));
    reads_any_part(&puppet);
    assert_eq!(puppet.poll(json!({"full_output": true})).numbered(), all);
}

/// Ranges and grep over the seven words, at any time.
fn reads_any_part(puppet: &Puppet<'_>) {
    let range = puppet.poll(json!({"from_line": 2, "to_line": 4, "listen": 0}));
    assert_eq!(range.numbered(), numbered(&[(2, "beta"), (3, "gamma"), (4, "delta")]));
    let open = puppet.poll(json!({"from_line": 6, "listen": 0}));
    assert_eq!(open.numbered(), numbered(&[(6, "zeta"), (7, "omega")]));
    let found = puppet.poll(json!({"grep": "^(gam|eps)", "listen": 0}));
    assert_eq!(found.numbered(), numbered(&[(3, "gamma"), (5, "epsilon")]));
    let around = puppet.poll(json!({"grep": "^epsilon$", "context": 1, "listen": 0}));
    let around: Vec<String> = around.output().lines().map(str::to_owned).collect();
    assert_eq!(around.len(), 3, "{around:?}");
    for (line, word) in around.iter().zip(["delta", "epsilon", "zeta"]) {
        assert!(line.ends_with(word), "{around:?}");
    }
}

/// The text below the output says which line it was.
fn names_the_matched_line(result: &ToolResult, line: u64) {
    let pattern =
        regex::Regex::new(&format!(r"(?i)(until|match)[^\n]*\bline {line}\b")).expect("a regex");
    assert!(pattern.is_match(&result.footer()), "line {line}: {}", result.text);
}

#[test]
fn until_keeps_up_with_a_line_that_grows_without_end() {
    let env = Env::new();
    let client = env.client();
    let command = "head -c 20000000 /dev/zero | tr '\\0' x; printf ' ready'; sleep 600";
    let arguments =
        json!({"command": command, "until": "x ready$", "yield_after": 50, "timeout": 60});
    let result = client.call("zsh", arguments);
    assert_eq!(result.meta["matched_line"], json!(1), "{}", result.footer());
    client.kill_task(&result.task_id());
}
