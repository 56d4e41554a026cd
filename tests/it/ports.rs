//! TCP ports: a call that waits for one, what tasks listen on, and who holds a port in use.

use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, free_port};
use crate::support::processes::wait_until;
use crate::support::unprivileged;

/// A program that listens at a port, for as long as it lives.
fn serve(host: &str, port: u16) -> String {
    let family = if host.contains(':') { "AF_INET6" } else { "AF_INET" };
    format!(
        "python3 -c 'import socket, time; \
         server = socket.create_server((\"{host}\", {port}), family=socket.{family}); \
         time.sleep(600)'"
    )
}

fn until_port(client: &Client, command: &str, port: Value, more: Value) -> (String, String) {
    let mut arguments = json!({"command": command, "until_port": port, "yield_after": 40});
    for (name, value) in more.as_object().expect("arguments") {
        arguments[name] = value.clone();
    }
    let result = client.call("zsh", arguments);
    assert!(!result.is_error, "{}", result.text);
    (result.task_id(), result.text)
}

fn served(port: impl std::fmt::Display) -> String {
    format!("↻ port {port} is served by ")
}

#[test]
fn a_call_returns_when_the_command_listens_at_the_port() {
    let env = Env::new();
    let client = env.client();
    let here = |port: u16| format!("sleep 0.3; {}", serve("127.0.0.1", port));
    for (shape, pty) in [
        ("SERVE", false),
        ("(SERVE &); sleep 600", false),
        ("setsid -f SERVE; sleep 600", false),
        ("SERVE &", false),
        ("exec SERVE", true),
    ] {
        let port = free_port();
        let command = shape.replace("SERVE", &serve("127.0.0.1", port));
        let (task, text) = until_port(&client, &command, json!(port), json!({"pty": pty}));
        assert!(text.contains(&served(port)), "{shape}: {text}");
        client.kill_all_of(&task);
    }
    for address in ["localhost", "127.0.0.1", "0.0.0.0"] {
        let port = free_port();
        let wanted = json!(format!("{address}:{port}"));
        let (task, text) = until_port(&client, &here(port), wanted, json!({}));
        assert!(text.contains("is served by "), "{address}: {text}");
        client.kill_task(&task);
    }
    let port = free_port();
    let six = json!(format!("[::1]:{port}"));
    let (task, text) = until_port(&client, &serve("::1", port), six, json!({}));
    assert!(text.contains(&served(format!("[::1]:{port}"))), "{text}");
    client.kill_task(&task);
}

#[test]
fn a_poll_waits_for_the_port_of_a_detached_task_too() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let port = free_port();
    let command = format!("read < go; {}", serve("127.0.0.1", port));
    let started = client.call("zsh", json!({"command": command, "detach": true}));
    let task = started.task_id();
    std::fs::write(env.work().join("go"), "\n").expect("a reader");
    let polled = client.poll(&task, json!({"until_port": port, "listen": 40}));
    assert!(polled.text.contains(&served(port)), "{}", polled.text);
    assert_eq!(polled.meta["served_port"], json!(port));
    let listed = client.call("zsh_tasks", json!({}));
    assert!(listed.text.contains(&format!("listening on {port}")), "{}", listed.text);
    client.kill_task(&task);
}

#[test]
fn a_port_in_a_network_namespace_of_the_commands_own_counts() {
    unprivileged::require_root();
    let env = Env::new();
    let client = env.client();
    let port = free_port();
    // The same port is another one outside.
    let _outside = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let command = format!("exec unshare -n {}", serve("", port));
    let (task, text) = until_port(&client, &command, json!(port), json!({}));
    assert!(text.contains(&served(port)), "{text}");
    client.kill_task(&task);
}

#[test]
fn what_holds_the_port_instead_is_named() {
    let env = Env::new();
    let (client, other) = (env.client(), env.client());
    let port = free_port();
    let holds = serve("127.0.0.1", port);
    let (holder, _) = until_port(&other, &holds, json!(port), json!({}));
    for (server, of) in [(&client, " of another server"), (&other, "")] {
        let (task, text) = until_port(server, "sleep 600", json!(port), json!({}));
        let whose = format!("task {holder}{of} (python3 -c ");
        assert!(text.contains(&format!("⚠ port {port} is in use by ")), "{text}");
        assert!(text.contains(&whose), "{text}");
        server.kill_task(&task);
    }
    // A command that fails for it.
    for command in [
        serve("127.0.0.1", port),
        format!("node -e 'require(\"net\").createServer().listen({port}, \"127.0.0.1\")'"),
    ] {
        let failed = client.run(&command);
        assert_eq!(failed.status(), "failed", "{}", failed.text);
        assert!(failed.text.contains(&format!("⚠ port {port} is in use by ")), "{}", failed.text);
        let whose = format!("task {holder} of another server (");
        assert!(failed.text.contains(&whose), "{}", failed.text);
    }
    other.kill_task(&holder);
    let free = client.run(&format!("echo 'Address already in use: port {port}'; exit 1"));
    assert!(!free.text.contains("is in use by"), "{}", free.text);
    let mine = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let (_, text) = until_port(&client, "sleep 2", json!(port), json!({}));
    assert!(text.contains(&format!("port {port} is in use by {} ", std::process::id())), "{text}");
    assert!(!text.contains(", task "), "{text}");
    drop(mine);
}

#[test]
fn the_port_of_another_user_is_named_with_its_user() {
    unprivileged::require_root();
    let env = Env::new();
    let client = env.client();
    let port = free_port();
    let mut stranger = env.command("setpriv");
    stranger.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"]);
    stranger.arg(format!("cd / && exec {}", serve("127.0.0.1", port)));
    let mut stranger = stranger.stdin(Stdio::null()).spawn().expect("setpriv");
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).ok().map(drop));
    let (task, text) = until_port(&client, "sleep 600", json!(port), json!({}));
    stranger.kill().expect("it runs");
    stranger.wait().expect("its end");
    assert!(text.contains(&format!("port {port} is in use by ")), "{text}");
    assert!(text.contains(" of user nobody"), "{text}");
    client.kill_task(&task);
}

#[test]
fn leftovers_and_tasks_name_their_ports() {
    let env = Env::new();
    let client = env.client();
    let port = free_port();
    let command = format!("{} & sleep 600 &", serve("", port));
    let task = client.run(&command).task_id();
    let listening = format!("listening on {port}");
    wait_until("it listens", || {
        let polled = client.poll(&task, json!({"listen": 0}));
        polled.text.contains(&format!(" python3 ({listening})")).then_some(())
    });
    let listed = client.call("zsh_tasks", json!({}));
    assert!(listed.text.contains(&format!("2 still running, {listening}")), "{}", listed.text);
    client.kill_all_of(&task);
    // What is over listens on nothing, whatever other processes do.
    let _other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listed = client.call("zsh_tasks", json!({"all": true}));
    assert!(listed.text.contains(&task), "{}", listed.text);
    assert!(!listed.text.contains("listening on"), "{}", listed.text);
}

#[test]
fn what_has_not_come_yet_is_waited_for_by_the_call_that_is_named() {
    let env = Env::new();
    let client = env.client();
    env.named_pipe("go");
    let port = free_port();
    let command = format!("read < go; exec {}", serve("127.0.0.1", port));
    let (task, text) = until_port(&client, &command, json!(port), json!({"yield_after": 0}));
    assert!(text.contains(&format!("port {port} is not served yet")), "{text}");
    assert!(text.contains(&format!("next: zsh_poll until_port={port} listen=")), "{text}");
    std::fs::write(env.work().join("go"), "\n").expect("a reader");
    let polled = client.poll(&task, json!({"until_port": port, "listen": 40}));
    assert!(polled.text.contains(&served(port)), "{}", polled.text);
    assert!(!polled.text.contains("next: "), "a server that is ready: {}", polled.text);
    let arguments = json!({"command": "read < go; echo", "until": "is ready", "yield_after": 0});
    let other = client.call("zsh", arguments);
    assert!(other.text.contains("until matched no line yet"), "{}", other.text);
    assert!(other.text.contains("next: zsh_poll until=\"is ready\" listen="), "{}", other.text);
    client.kill_task(&other.task_id());
    client.kill_task(&task);
}

#[test]
fn what_names_no_port_is_refused() {
    let env = Env::new();
    let client = env.client();
    for wrong in [json!("00"), json!(70_000), json!(" "), json!("db.example:5432"), json!("http")] {
        let refused = client.call("zsh", json!({"command": "touch made", "until_port": wrong}));
        assert!(refused.is_error, "{wrong}: {}", refused.text);
        assert!(
            refused.text.contains("until_port must be a port of this machine"),
            "{}",
            refused.text
        );
    }
    assert!(!env.work().join("made").exists());
    let refused = client.call("zsh", json!({"command": "touch made", "until_port": 3.5}));
    let expected = "until_port must be a string or a whole number, not 3.5";
    assert!(refused.text.contains(expected), "{}", refused.text);
    let ended = client.call("zsh", json!({"command": "true", "until_port": 1, "yield_after": 40}));
    assert_eq!(ended.status(), "completed", "{}", ended.text);
}
