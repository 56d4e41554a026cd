//! Process trees of every kind that a command can start.

use serde_json::json;

use super::client::Client;
use super::processes::UniqueSleep;

/// How to start each tree, whether on a terminal, and its sleeps.
pub const TREES: &[(&str, bool, usize)] = &[
    ("SLEEP & wait $!", false, 1),
    ("SLEEP & wait $!", true, 1),
    ("SLEEP | cat | cat", false, 1),
    ("setsid -f SLEEP; SLEEP", false, 2),
    ("setsid -f SLEEP; SLEEP", true, 2),
    ("nohup SLEEP >/dev/null 2>&1 & SLEEP", false, 2),
    ("trap '' TERM HUP INT; SLEEP; SLEEP", false, 1),
    ("trap '' TERM HUP INT; SLEEP; SLEEP", true, 1),
    ("SLEEP & AWAIT; kill -STOP $!; wait $!", false, 1),
    ("SLEEP & AWAIT; kill -STOP $$", false, 1),
    ("(env -i setsid sh -c 'SLEEP; :' </dev/null >/dev/null 2>&1 &); SLEEP", false, 2),
    (
        "(env -i setsid sh -c 'trap \"\" TERM; SLEEP & SLEEP & wait; wait' </dev/null >/dev/null 2>&1 &); SLEEP",
        true,
        3,
    ),
    // The command is over, its processes are not.
    ("setsid -f SLEEP >/dev/null 2>&1; echo left", false, 1),
    ("SLEEP & echo left", false, 1),
];

/// Waits until the last background process has become a sleep.
const AWAIT: &str = "until [[ $(</proc/$!/comm) == sleep ]] do :; done";

/// Whether the command of a shape ends while its processes live.
pub fn is_over(command: &str) -> bool {
    command.ends_with("echo left")
}

/// The command of a shape.
pub fn command_of(shape: &str, sleep: &UniqueSleep) -> String {
    shape.replace("SLEEP", &sleep.to_string()).replace("AWAIT", AWAIT)
}

/// Starts one task per shape, in order, and waits until all their sleeps run.
pub fn plant(client: &Client) -> Vec<UniqueSleep> {
    plant_those(client, |_| true)
}

/// Like [`plant`], for these shapes.
pub fn plant_those(client: &Client, wanted: impl Fn(&str) -> bool) -> Vec<UniqueSleep> {
    TREES
        .iter()
        .filter(|(shape, ..)| wanted(shape))
        .map(|(shape, pty, sleeps)| {
            let sleep = UniqueSleep::new();
            let command = command_of(shape, &sleep);
            let wait = if is_over(shape) { 25 } else { 0 };
            client.call("zsh", json!({"command": command, "pty": pty, "yield_after": wait}));
            sleep.wait_for(*sleeps);
            sleep
        })
        .collect()
}
