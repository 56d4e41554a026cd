//! Colours of programs, where they are wanted and where not.

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::Env;

/// Lines of programs that colour, and how they read with colours.
const COLOURFUL: &[(&str, &str)] = &[
    ("printf '\\e[31;1mred\\e[m plain\\n'", "\u{1b}[1;31mred\u{1b}[0m plain"),
    ("printf '\\e[38;5;208m256\\e[39m\\n'", "\u{1b}[38;5;208m256\u{1b}[0m"),
    ("printf '\\e[38;2;1;2;3mtrue\\n\\e[0mnext\\n'", "\u{1b}[38;2;1;2;3mtrue\u{1b}[0m\nnext"),
    ("mkdir folder; LS_COLORS='di=01;34' ls --color=always", "\u{1b}[1;34mfolder\u{1b}[0m"),
    ("printf '\\e[33m10%%\\r\\e[K\\e[32mdone\\e[0m\\n'", "\u{1b}[32mdone\u{1b}[0m"),
];

fn shown(client: &Client, command: &str, pty: bool) -> String {
    let arguments = json!({"command": command, "pty": pty, "yield_after": 20});
    client.call("zsh", arguments).output()
}

fn without_colours(text: &str) -> String {
    let lines = text.lines();
    let bare = lines.map(|line| {
        let colours = zsh_tool::testing::text::ansi::Colours::Drop;
        zsh_tool::testing::text::ansi::readable(line.as_bytes(), colours, None)
    });
    bare.collect::<Vec<_>>().join("\n")
}

#[test]
fn colours_stay_on_a_terminal_where_colour_is_on() {
    for (command, wanted) in COLOURFUL {
        let env = Env::new();
        env.configure("color: always\n");
        assert_eq!(shown(&env.client(), command, true), *wanted, "{command}");
    }
}

#[test]
fn colours_go_from_a_pipe_and_where_colour_is_off() {
    for (command, wanted) in COLOURFUL {
        // On a pipe, nothing is drawn over.
        let redraws = command.contains("\\r");
        for (color, pty) in [("always", false), ("never", true), ("auto", true)] {
            if redraws && !pty {
                continue;
            }
            let env = Env::new();
            env.configure(&format!("color: {color}\n"));
            let text = shown(&env.client(), command, pty);
            assert_eq!(text, without_colours(wanted), "{command} {color} {pty}");
        }
    }
}

#[test]
fn lolcat_colours_each_letter_and_its_text_stays() {
    let env = Env::new();
    env.configure("color: always\n");
    let client = env.client();
    let command = "export PATH=$PATH:/usr/games; echo colourful words | lolcat --force --seed 1";
    let coloured = shown(&client, command, true);
    assert!(coloured.matches("\u{1b}[38;").count() > 1, "{coloured:?}");
    let first = coloured.lines().next().unwrap_or_default();
    assert!(first.ends_with("\u{1b}[0m"), "{coloured:?}");
    assert_eq!(without_colours(first), "colourful words");
    let plain = shown(&client, command, false);
    assert_eq!(plain.trim_end(), "colourful words");
    // What is matched and searched is the text, whatever its colours.
    let arguments =
        json!({"command": command, "pty": true, "until": "^colourful words$", "yield_after": 20});
    let matched = client.call("zsh", arguments);
    assert_eq!(matched.meta["matched_line"], json!(1), "{}", matched.text);
}
