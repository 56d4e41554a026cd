//! Keys, pastes and the end of input on a terminal, with the programs that people use.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use zsh_tool::testing::text::keys::Key;
use zsh_tool::testing::text::screen::Modes;

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;

/// Far above the time in which a waiting task is found.
const LONG: u32 = 25;

// The bytes of keys.

#[test]
fn names_have_the_codes_that_terminfo_tells_programs() {
    let listed = Command::new("infocmp")
        .args(["-1", "xterm-256color"])
        .output()
        .expect("the infocmp program");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let wanted = |capability: &str| {
        let line = listed
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{capability}=")))
            .unwrap_or_else(|| panic!("{capability} is not in terminfo: {listed}"));
        line.trim_end_matches(',')
            .replace("\\E", "\u{1b}")
            .replace("^?", "\u{7f}")
            .replace("\\177", "\u{7f}")
    };
    // What terminfo tells is what is sent after its own `smkx`.
    let modes = Modes { application_cursor: true, bracketed_paste: false };
    let mut pairs: Vec<(String, String)> = [
        ("Up", "kcuu1"),
        ("Down", "kcud1"),
        ("Left", "kcub1"),
        ("Right", "kcuf1"),
        ("Home", "khome"),
        ("End", "kend"),
        ("PageUp", "kpp"),
        ("PageDown", "knp"),
        ("Insert", "kich1"),
        ("Delete", "kdch1"),
        ("Backspace", "kbs"),
        ("S-Tab", "kcbt"),
        ("S-Up", "kri"),
        ("S-Down", "kind"),
        ("S-Left", "kLFT"),
        ("S-Right", "kRIT"),
        ("S-Home", "kHOM"),
        ("S-End", "kEND"),
        ("S-PageUp", "kPRV"),
        ("S-PageDown", "kNXT"),
        ("S-Insert", "kIC"),
        ("S-Delete", "kDC"),
    ]
    .map(|(name, capability)| (name.to_owned(), capability.to_owned()))
    .into();
    // F13 and on are F1 and on with something held down.
    for (first, held) in [(0, ""), (12, "S-"), (24, "C-"), (36, "C-S-"), (48, "M-")] {
        for number in 1..=12 {
            pairs.push((format!("{held}F{number}"), format!("kf{}", first + number)));
        }
    }
    for (name, capability) in pairs {
        let key = Key::parse(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let sent = String::from_utf8(key.bytes(modes)).expect("text");
        assert_eq!(sent, wanted(&capability), "{name}, {capability}");
    }
}

#[test]
fn keys_reach_the_program_in_the_modes_that_it_asked_for() {
    let env = Env::new();
    let client = env.client();
    let command = r"stty raw -echo; printf 'up\e[?1h'; cat -v";
    let task = on_terminal(&client, command).task_id();
    for (keys, shown) in [
        (json!(["Up", "C-Left", "PageDown"]), "^[OA^[[1;5D^[[6~"),
        (json!(["Enter", "Backspace", "C-c", "x"]), "^M^?^Cx"),
        (json!(["S-Tab", "C-M-x", "C-Space", "M-é"]), "^[[Z^[^X^@^[M-CM-)"),
    ] {
        brings(&client, &task, json!({"keys": keys}), shown);
    }
    let all = json!({"input": "text", "keys": ["F5"], "eof": true});
    brings(&client, &task, all, "text^M^[[15~^D");
    client.kill_task(&task);
}

#[test]
fn backspace_is_what_the_terminal_erases_with() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&client, "read -r word; echo \"<$word>\"").task_id();
    let keys = json!({"keys": ["a", "b", "é", "日", "Backspace", "Backspace", "c", "Enter"]});
    brings(&client, &task, keys, "<abc>");
}

#[test]
fn what_cannot_be_pressed_is_refused_and_nothing_is_sent() {
    let env = Env::new();
    let client = env.client();
    let command = "trap 'echo resized' WINCH; echo up; read -r line; echo \"<$line>\"";
    let task = on_terminal(&client, command).task_id();
    let wrong = json!({"input": "lost", "keys": ["Enter", "Ctrl-C"], "rows": 30, "cols": 90});
    let refused = send(&client, &task, wrong);
    assert!(refused.is_error, "{}", refused.text);
    for word in ["\"Ctrl-C\" is not a key", "did you mean C-c?", "PageDown"] {
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
    brings(&client, &task, json!({"input": "kept"}), "<kept>");
    let end = client.poll_to_end(&task);
    let all = client.poll(&end.task_id(), json!({"full_output": true}));
    for word in ["lost", "resized"] {
        assert!(!all.output().contains(word), "{word}: {}", all.text);
    }
}

#[test]
fn keys_for_a_task_without_a_terminal_say_how_to_run_it_again() {
    let env = Env::new();
    let client = env.client();
    let keys = json!({"keys": ["Up"]});
    let arguments = json!({"command": "cat", "stdin_open": true, "yield_after": 0});
    let piped = client.call("zsh", arguments).task_id();
    let refused = send(&client, &piped, keys.clone());
    assert!(refused.is_error, "{}", refused.text);
    for word in ["pipe", "pty: true", "input"] {
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
    let ended = send(&client, &piped, json!({"eof": true, "listen": LONG}));
    assert_eq!(ended.status(), "completed", "{}", ended.text);
    let deaf = client.start_task("sleep 98765");
    let refused = send(&client, &deaf, keys);
    assert!(refused.is_error, "{}", refused.text);
    assert!(refused.text.contains("pty: true"), "{}", refused.text);
    client.kill_task(&deaf);
}

#[test]
fn a_pipe_that_was_ended_takes_nothing_more() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = format!("cat; echo over; {sleep}");
    let arguments = json!({"command": command, "stdin_open": true, "yield_after": 0});
    let task = client.call("zsh", arguments).task_id();
    let ended = send(&client, &task, json!({"eof": true, "listen": LONG}));
    assert!(ended.footer().contains("stdin=closed"), "{}", ended.text);
    for arguments in [json!({"input": "x"}), json!({"eof": true})] {
        let refused = send(&client, &task, arguments);
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("is closed"), "{}", refused.text);
    }
    client.kill_task(&task);
}

// Programs.

#[test]
fn a_menu_is_answered_with_arrow_keys() {
    let env = Env::new();
    let client = env.client();
    let command = "dialog --menu Pick 12 40 3 a apple b banana c cherry 2>choice; \
                   echo; echo \"exit=$? choice=$(<choice)\"";
    let task = on_terminal(&client, command).task_id();
    send(&client, &task, json!({"keys": ["Down", "Down", "Up"]}));
    brings(&client, &task, json!({"keys": ["Enter"]}), "exit=0 choice=b");
    let command = "dialog --yesno Sure 8 30; code=$?; echo; echo code=$code.";
    let task = on_terminal(&client, command).task_id();
    brings(&client, &task, json!({"keys": ["Right", "Enter"]}), "code=1.");
}

#[test]
fn a_question_with_buttons_is_answered_with_tab() {
    let env = Env::new();
    let client = env.client();
    for (keys, code) in [
        (json!(["Enter"]), "code=0."),
        (json!(["Tab", "Enter"]), "code=1."),
        (json!(["Tab", "S-Tab", "Enter"]), "code=0."),
        (json!(["Escape"]), "code=255."),
    ] {
        let command = "whiptail --yesno Sure 10 40; echo code=$?.";
        let task = on_terminal(&client, command).task_id();
        brings(&client, &task, json!({"keys": keys}), code);
    }
}

#[test]
fn an_editor_is_driven_with_arrow_keys_and_saved() {
    let env = Env::new();
    let client = env.client();
    let file = env.work().join("text");
    fs::write(&file, "one\ntwo\nthree\n").expect("a file");
    let started = on_terminal(&client, "vim -N -u NONE -i NONE text; echo left");
    let task = started.task_id();
    let moved = send(&client, &task, json!({"keys": ["Down", "Down", "Up", "End", "a"]}));
    assert_eq!(moved.meta["screen"]["alternate"], json!(true), "{}", moved.text);
    send(&client, &task, json!({"input": " and", "enter": true}));
    send(&client, &task, json!({"input": "a half", "keys": ["Escape"], "enter": false}));
    brings(&client, &task, json!({"input": ":wq"}), "left");
    let saved = fs::read_to_string(&file).expect("the file");
    assert_eq!(saved, "one\ntwo and\na half\nthree\n");
}

#[test]
fn a_pager_turns_its_pages() {
    let env = Env::new();
    let client = env.client();
    let command = "seq 1000 1500 >pages; LESS= less pages; echo left";
    let task = on_terminal(&client, command).task_id();
    for (key, shown) in
        [("PageDown", "1030"), ("End", "1499"), ("Home", "1001"), ("Space", "1040"), ("q", "left")]
    {
        brings(&client, &task, json!({"keys": [key]}), shown);
    }
}

#[test]
fn the_interrupt_key_ends_a_command_and_not_the_shell_around_it() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = asleep(&client, "", &sleep);
    send(&client, &task, json!({"keys": ["C-c"], "listen": LONG}));
    let end = client.poll_to_end(&task);
    assert_eq!(end.meta["exit_code"], json!(130), "{}", end.text);
    let task = on_terminal(&client, "zsh -f -i").task_id();
    send(&client, &task, json!({"input": sleep.to_string()}));
    wait_for_foreground(&sleep);
    send(&client, &task, json!({"keys": ["C-c"], "listen": LONG}));
    brings(&client, &task, json!({"input": "echo \"status <$?>\""}), "status <130>");
    let ended = ended_at_prompt(&client, &task);
    assert_ne!(ended.status(), "running", "{}", ended.text);
    sleep.assert_gone();
}

#[test]
fn a_command_is_stopped_and_taken_up_again_in_an_interactive_shell() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = on_terminal(&client, "zsh -f -i").task_id();
    send(&client, &task, json!({"input": sleep.to_string()}));
    wait_for_foreground(&sleep);
    brings(&client, &task, json!({"keys": ["C-z"]}), "suspended");
    // The shell says so before it gives the terminal away.
    brings(&client, &task, json!({"input": "fg"}), "continued");
    wait_for_foreground(&sleep);
    brings(&client, &task, json!({"keys": ["C-z"]}), "suspended");
    brings(&client, &task, json!({"input": "kill %1; echo ended"}), "terminated");
    client.kill_all_of(&task);
    sleep.assert_gone();
}

#[test]
fn without_job_control_the_suspend_key_stops_nothing_and_signals_do() {
    let env = Env::new();
    let client = env.client();
    let go = env.named_pipe("go");
    let command = "echo pid $$; read -r line <go; echo \"<$line>\"";
    let arguments = json!({"command": command, "pty": true, "until": "pid", "yield_after": LONG});
    let started = client.call("zsh", arguments);
    let task = started.task_id();
    let output = started.output();
    let pid = output.trim().strip_prefix("pid ").expect("a pid");
    // The task's group is orphaned: the kernel stops none of those by a key.
    brings(&client, &task, json!({"keys": ["C-z"]}), "^Z");
    wait_until("it sleeps on", || {
        let state = state_of(pid);
        assert_ne!(state, Some('T'), "the key has stopped it");
        (state == Some('S')).then_some(())
    });
    for (signal, stopped) in [("STOP", true), ("CONT", false)] {
        client.call("zsh_kill", json!({"task_id": task, "signal": signal}));
        wait_until("the signal has its effect", || {
            ((state_of(pid) == Some('T')) == stopped).then_some(())
        });
    }
    fs::write(go, "on it went\n").expect("a reader");
    let end = client.poll_to_end(&task);
    assert_eq!(end.meta["exit_code"], json!(0), "{}", end.text);
}

#[test]
fn the_up_key_brings_history_back() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&client, "PYTHON_BASIC_REPL=1 exec python3 -q").task_id();
    brings(&client, &task, json!({"input": "n = 20"}), ">>> ");
    brings(&client, &task, json!({"input": "n = n + 1; print('n is', n)"}), "n is 21");
    brings(&client, &task, json!({"keys": ["Up", "Enter"]}), "n is 22");
    assert_eq!(ended_at_prompt(&client, &task).status(), "completed");
}

// Pastes.

#[test]
fn several_lines_arrive_in_a_shell_as_one_paste() {
    let env = Env::new();
    let client = env.client();
    for shell in ["zsh -f -i", "bash --norc --noprofile -i"] {
        let task = on_terminal(&client, &format!("PS1='ready> ' {shell}")).task_id();
        // Had it been typed, the first lines would run at once.
        let lines = "touch one\ntouch two\n\u{1b}[201~touch three\ntouch four";
        let pasted = json!({"input": lines, "enter": false});
        brings(&client, &task, pasted, "touch four");
        for name in ["one", "two", "three", "four"] {
            assert!(!env.work().join(name).exists(), "{shell} ran {name}");
        }
        brings(&client, &task, json!({"keys": ["C-c"]}), "ready>");
        let lines = "n=1\nn=$((n + 20))\necho \"n is $n\"";
        brings(&client, &task, json!({"input": lines}), "n is 21");
        ended_at_prompt(&client, &task);
    }
}

#[test]
fn lines_are_typed_one_by_one_where_no_paste_is_asked_for() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&client, "PYTHON_BASIC_REPL=1 exec python3 -q").task_id();
    let lines = "def twice(x):\n    return x * 2\n\nprint('it is', twice(21))";
    brings(&client, &task, json!({"input": lines}), "it is 42");
    assert_eq!(ended_at_prompt(&client, &task).status(), "completed");
}

// What waits, and the end.

#[test]
fn a_long_text_typed_into_a_file_is_whole() {
    let env = Env::new();
    let client = env.client();
    let text: String = (1..=1000).map(|n| format!("{n:05} {}\n", "x".repeat(94))).collect();
    assert!(text.len() > 100_000);
    let task = on_terminal(&client, "cat >whole").task_id();
    let arguments = json!({"input": text, "enter": false, "eof": true, "listen": 0});
    let sent = send(&client, &task, arguments);
    assert!(!sent.is_error, "{}", sent.text);
    assert_eq!(client.poll_to_end(&task).status(), "completed");
    let whole = fs::read_to_string(env.work().join("whole")).expect("the file");
    assert!(whole == text, "{} of {} bytes", whole.len(), text.len());
}

#[test]
fn what_a_program_does_not_read_waits_and_is_told() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = asleep(&client, "stty -echo; ", &sleep);
    let line = format!("{}\n", "y".repeat(99));
    let sent =
        send(&client, &task, json!({"input": line.repeat(1000), "enter": false, "listen": 0}));
    assert!(!sent.is_error, "{}", sent.text);
    let told = wait_until("what the terminal has room for is written", || {
        let polled = client.poll(&task, json!({"listen": 0}));
        let queued = polled.meta["queued_input"].as_u64()?;
        (queued < 100_000).then_some(polled)
    });
    let queued = told.meta["queued_input"].as_u64().expect("a number");
    assert!(queued > 50_000, "{queued}");
    assert!(told.footer().contains("KB of input wait to be read"), "{}", told.text);
    let pressed = send(&client, &task, json!({"keys": ["C-c"], "listen": 0}));
    assert!(pressed.footer().contains("signal=INT"), "{}", pressed.text);
    let too_much = send(&client, &task, json!({"input": "z".repeat(1024 * 1024), "listen": 0}));
    assert!(too_much.is_error && too_much.text.contains("does not read"), "{}", too_much.text);
    client.call("zsh_kill", json!({"task_id": task, "signal": "INT"}));
    assert_eq!(client.poll_to_end(&task).meta["exit_code"], json!(130));
    sleep.assert_gone();
}

#[test]
fn what_the_terminal_drops_of_a_long_line_is_told() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&client, "stty -echo; wc -c").task_id();
    let sent =
        send(&client, &task, json!({"input": "x".repeat(5000), "eof": true, "listen": LONG}));
    assert!(sent.text.contains("dropped 905 bytes"), "{}", sent.text);
    assert!(sent.text.contains("stdin_open: true"), "{}", sent.text);
    let end = client.poll_to_end(&task);
    let all = client.poll(&end.task_id(), json!({"full_output": true}));
    assert!(all.output().ends_with("4096"), "{}", all.text);
}

#[test]
fn the_end_of_input_is_the_end_whatever_stands_on_the_line() {
    let env = Env::new();
    let client = env.client();
    for (command, input, enter, shown) in [
        ("cat >f; echo \"first <$(<f)>\"; cat", "part", false, "first <part>"),
        ("cat >f; echo \"first <$(<f)>\"; cat", "line", true, "first <line>"),
        // One end ends one program: the second still reads.
        ("stty eof ^X; cat >f; echo \"first <$(<f)>\"; cat", "own\u{4}", false, "first <own\u{4}>"),
    ] {
        let task = on_terminal(&client, command).task_id();
        let arguments = json!({"input": input, "enter": enter, "eof": true});
        let shown = shown.replace('\u{4}', "^D");
        brings(&client, &task, arguments, &shown);
        let second = client.poll(&task, json!({"wait_for": "end", "listen": LONG}));
        assert_eq!(second.meta["waiting_for"], json!("input"), "{}", second.text);
        send(&client, &task, json!({"eof": true, "listen": LONG}));
        assert_eq!(client.poll_to_end(&task).status(), "completed");
    }
}

#[test]
fn calls_side_by_side_do_not_mix_what_they_type() {
    const CALLS: usize = 26;
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&client, "stty -echo; cat >mixed").task_id();
    let calls: Vec<_> = ('a'..='z')
        .map(|letter| {
            let text = letter.to_string();
            let keys: Vec<String> = std::iter::repeat_n(text.clone(), 50)
                .chain(["Enter".to_owned()])
                .collect();
            client.call_async(
                "zsh_send",
                json!({"task_id": task, "input": text.repeat(50), "enter": false, "keys": keys, "listen": 0}),
            )
        })
        .collect();
    for call in calls {
        let sent = call.tool_result();
        assert!(!sent.is_error, "{}", sent.text);
    }
    send(&client, &task, json!({"eof": true, "listen": LONG}));
    client.poll_to_end(&task);
    let mixed = fs::read_to_string(env.work().join("mixed")).expect("the file");
    assert_eq!(mixed.lines().count(), CALLS);
    for line in mixed.lines() {
        let first = line.chars().next().map(|letter| letter.to_string().repeat(100));
        assert_eq!(Some(line), first.as_deref());
    }
}

/// Starts a command on a terminal; comes back when it waits for input.
fn on_terminal(client: &Client, command: &str) -> ToolResult {
    let arguments = json!({"command": command, "pty": true, "yield_after": LONG});
    let started = client.call("zsh", arguments);
    assert!(!started.meta["waiting_for"].is_null(), "{}", started.text);
    started
}

/// Starts a command on a terminal that sleeps in the end.
fn asleep(client: &Client, command: &str, sleep: &UniqueSleep) -> String {
    let arguments = json!({"command": format!("{command}{sleep}"), "pty": true, "yield_after": 0});
    let task = client.call("zsh", arguments).task_id();
    sleep.wait_for(1);
    task
}

/// A process's state letter.
fn state_of(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until a shell's job sleeps in the foreground of its terminal: keys that send
/// signals reach it from then on.
fn wait_for_foreground(sleep: &UniqueSleep) {
    wait_until("it sleeps in the foreground", || {
        let job = sleep.running().into_iter().next()?;
        let stat = fs::read_to_string(format!("/proc/{}/stat", job.pid)).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // The state, the parent, the group, the session, the terminal and its group.
        let [state, _, group, _, _, foreground, ..] = fields[..] else {
            return None;
        };
        (state == "S" && group == foreground).then_some(())
    });
}

/// Ends the input of a shell that is about to read its next line; how it ended. What it
/// ran last may have been seen before it reads again, and an end that is typed until then
/// is none to its line editor.
fn ended_at_prompt(client: &Client, task: &str) -> ToolResult {
    wait_until("it waits for its next line", || {
        let polled = client.poll(task, json!({"listen": 0}));
        (polled.meta["waiting_for"] == json!("input")).then_some(())
    });
    send(client, task, json!({"eof": true, "listen": LONG}));
    client.poll_to_end(task)
}

fn send(client: &Client, task: &str, mut arguments: Value) -> ToolResult {
    arguments["task_id"] = json!(task);
    client.call("zsh_send", arguments)
}

/// Sends, and waits until what comes from then on holds a text.
fn brings(client: &Client, task: &str, arguments: Value, wanted: &str) {
    let sent = send(client, task, arguments);
    assert!(!sent.is_error, "{}", sent.text);
    let mut brought = sent.output();
    wait_until(&format!("{wanted} is shown"), || {
        if brought.contains(wanted) {
            return Some(());
        }
        let polled = client.poll(task, json!({"listen": 1}));
        brought.push('\n');
        brought.push_str(&polled.without_numbers());
        let may_come = polled.status() == "running" || brought.contains(wanted);
        assert!(may_come, "{wanted} never came: {}\n{brought}\n{}", sent.text, polled.text);
        None
    });
}
