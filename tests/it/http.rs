//! The monitor's HTTP server as the real program runs it, spoken to in raw bytes: who is
//! answered, what is refused, what it prints and leaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;

use serde_json::json;

use crate::support::env::{Env, binary};
use crate::support::http::{Connection, Site};
use crate::support::processes::{assert_none_left, wait_until};
use crate::support::program::{Program, ran, run, zsh_tool};

/// A monitor that runs, and where.
fn monitor(env: &Env) -> (Program, Site) {
    let mut program = Program::start(zsh_tool(env, &["monitor"]));
    let site = Site::of(&mut program);
    (program, site)
}

/// Runs a test against a monitor of its own.
fn with_monitor(test: impl FnOnce(&Site)) {
    let env = Env::new();
    let (program, site) = monitor(&env);
    test(&site);
    program.signal("TERM");
    assert_eq!(program.finish_with_stdin_open().code, 0);
}

const UNKNOWN: &str = "/api/no-such-path";

// who is answered

#[test]
fn the_page_needs_no_token_and_all_else_does() {
    with_monitor(|site| {
        assert!(site.token.len() >= 32, "{site:?}");
        let page = site.ask(site.request("GET /", ""));
        assert_eq!(page.status, 200);
        assert!(page.body.starts_with("<!doctype html>"), "{}", page.body);
        assert!(!page.body.contains(&site.token));
        for target in [UNKNOWN, "/api/sessions", "/favicon.ico", "/api/token/x"] {
            let answer = site.ask(site.request(&format!("GET {target}"), ""));
            assert_eq!(answer.status, 401, "{target}");
            assert_eq!(answer.header("WWW-Authenticate"), Some("Bearer"));
            assert!(answer.error().contains("token"), "{answer:?}");
        }
        assert_eq!(site.get(UNKNOWN).status, 404);
    });
}

#[test]
fn the_token_is_traded_for_a_cookie_that_serves_in_its_place() {
    with_monitor(|site| {
        let trade = |body: &str| {
            let length = format!("Content-Length: {}\r\n", body.len());
            site.ask(site.request("POST /api/token", &length) + body)
        };
        for (body, status) in [
            (r#"{"token":"0123"}"#.to_owned(), 401),
            (format!(r#"{{"token":"{}0"}}"#, site.token), 401),
            (r#"{"token":7}"#.to_owned(), 400),
            ("{".to_owned(), 400),
            (String::new(), 400),
        ] {
            let answer = trade(&body);
            assert_eq!(answer.status, status, "{body}");
            assert_eq!(answer.header("Set-Cookie"), None, "{body}");
        }
        let given = trade(&json!({"token": site.token}).to_string());
        assert_eq!(given.status, 204);
        let cookie = given.header("Set-Cookie").expect("a cookie");
        for word in ["HttpOnly", "SameSite=Strict", "Path=/api"] {
            assert!(cookie.contains(word), "{cookie}");
        }
        let (cookie, _) = cookie.split_once(';').expect("attributes");
        let with = |line: &str, more: &str| {
            site.ask(site.request(line, &format!("Cookie: a=b; {cookie}\r\n{more}"))).status
        };
        let get = format!("GET {UNKNOWN}");
        let post = format!("POST {UNKNOWN}");
        let input = "POST /api/tasks/0123abcd/input";
        let own = format!("Origin: http://{}\r\n", site.address);
        assert_eq!(with(&get, ""), 404);
        assert_eq!(with(&post, &own), 404);
        // What no browser sends of itself: a change by cookie without an origin.
        assert_eq!(with(&post, ""), 403);
        assert_eq!(with(input, ""), 403);
        assert_eq!(with(input, "Origin: http://127.0.0.1:1\r\n"), 403);
        assert_eq!(with(&get, "Sec-Fetch-Site: same-site\r\n"), 403);
        assert_eq!(with(&get, "Authorization: Bearer 0123\r\n"), 401);
        assert_eq!(site.ask(site.request("GET /api/token", "")).status, 405);
        assert_eq!(site.ask(site.request("POST /", "")).status, 405);
    });
}

#[test]
fn a_wrong_token_is_refused_in_every_form() {
    with_monitor(|site| {
        let token = &site.token;
        let short = &token[1..];
        let port = site.address.port();
        for header in [
            format!("Authorization: Bearer {short}"),
            format!("Authorization: Bearer {token}0"),
            format!("Authorization: Basic {token}"),
            format!("Authorization: {token}"),
            format!("Cookie: zsh-tool-{port}={short}"),
            format!("Cookie: zsh-tool={token}"),
            format!("X-Token: {token}"),
        ] {
            let answer =
                site.ask(site.request(&format!("GET {UNKNOWN}"), &(header.clone() + "\r\n")));
            assert_eq!(answer.status, 401, "{header}");
        }
        let in_query = format!("GET {UNKNOWN}?token={token}");
        assert_eq!(site.ask(site.request(&in_query, "")).status, 401);
    });
}

#[test]
fn a_name_that_was_made_to_point_here_is_refused() {
    with_monitor(|site| {
        let port = site.address.port();
        let ask = |host: &str| {
            let bearer = site.bearer();
            site.ask(format!("GET {UNKNOWN} HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n")).status
        };
        for host in ["127.0.0.1", "localhost", "LocalHost", "[::1]", "127.0.0.2"] {
            assert_eq!(ask(&format!("{host}:{port}")), 404, "{host}");
        }
        for host in [
            format!("evil.example:{port}"),
            format!("127.0.0.1.evil.example:{port}"),
            format!("0.0.0.0:{port}"),
            format!("192.168.0.1:{port}"),
            format!("localhost.:{port}"),
            format!("127.0.0.1:{}", port ^ 1),
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            "[::1]".to_owned(),
            "[::1".to_owned(),
            String::new(),
        ] {
            assert_eq!(ask(&host), 403, "{host}");
        }
        // The page is nothing to them either.
        let page = site.ask(format!("GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"));
        assert_eq!(page.status, 403);
        assert!(page.error().contains("Host"), "{page:?}");
    });
}

#[test]
fn a_page_of_another_origin_is_refused_whatever_it_carries() {
    with_monitor(|site| {
        let port = site.address.port();
        let ask = |origin: &str| {
            let headers = format!("{}Origin: {origin}\r\n", site.bearer());
            let answer = site.ask(site.request(&format!("POST {UNKNOWN}"), &headers));
            assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
            answer.status
        };
        for origin in ["127.0.0.1", "localhost", "[::1]"] {
            assert_eq!(ask(&format!("http://{origin}:{port}")), 404, "{origin}");
        }
        for origin in [
            "null".to_owned(),
            String::new(),
            "http://127.0.0.1".to_owned(),
            format!("http://127.0.0.1:{}", port ^ 1),
            format!("https://127.0.0.1:{port}"),
            format!("http://evil.example:{port}"),
            format!("http://127.0.0.1:{port}.evil.example"),
            "chrome-extension://abcdef".to_owned(),
        ] {
            assert_eq!(ask(&origin), 403, "{origin}");
        }
    });
}

// what is refused

#[test]
fn a_bad_request_is_answered_with_what_is_wrong_and_the_connection_ends() {
    with_monitor(|site| {
        let host = format!("Host: {}\r\n", site.address);
        for (request, status) in [
            ("\x16\x03\x01\x02\x00\x01\r\n\r\n".to_owned(), 400),
            ("GET\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
            (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400),
            (format!("GET / HTTP/2.0\r\n{host}\r\n"), 505),
            (format!("GET /%zz HTTP/1.1\r\n{host}\r\n"), 400),
            (format!("GET /%ff%fe HTTP/1.1\r\n{host}\r\n"), 400),
            (format!("GET /a%00b HTTP/1.1\r\n{host}\r\n"), 400),
            (format!("GET /?%e2%28=1 HTTP/1.1\r\n{host}\r\n"), 400),
            (format!("GET * HTTP/1.1\r\n{host}\r\n"), 400),
            (format!("GET https://{}/ HTTP/1.1\r\n{host}\r\n", site.address), 400),
            (format!("GET / HTTP/1.1\r\n{host}A : b\r\n\r\n"), 400),
            (format!("GET / HTTP/1.1\r\n{host}A: b\r\n c\r\n\r\n"), 400),
            (format!("POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n"), 400),
            (
                format!("POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
                400,
            ),
            (format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 411),
            (format!("GET http://{}/ HTTP/1.1\r\n{host}\r\n", site.address), 400),
            (format!("PUT / HTTP/1.1\r\n{host}\r\n"), 405),
            (format!("DELETE / HTTP/1.1\r\n{host}\r\n"), 405),
            (format!("OPTIONS / HTTP/1.1\r\n{host}\r\n"), 405),
            (format!("CONNECT {} HTTP/1.1\r\n{host}\r\n", site.address), 405),
            (format!("BREW / HTTP/1.1\r\n{host}\r\n"), 405),
        ] {
            let mut connection = Connection::open(site.address);
            connection.send(&request);
            let answer = connection.answer().expect("an answer");
            assert_eq!(answer.status, status, "{request:?}");
            assert!(!answer.error().is_empty(), "{request:?}");
            assert_eq!(answer.header("Connection"), Some("close"), "{request:?}");
            if status == 405 {
                assert_eq!(answer.header("Allow"), Some("GET, HEAD, POST"));
            }
            connection.assert_closed();
        }
        assert_eq!(site.get(UNKNOWN).status, 404);
    });
}

#[test]
fn what_is_too_long_is_refused_before_it_is_read() {
    with_monitor(|site| {
        let post = |length: usize| {
            let headers = format!("Content-Length: {length}\r\n");
            let head = site.request("POST /api/token", &headers);
            site.ask(head + &"x".repeat(length))
        };
        assert_eq!(post(64 * 1024).status, 400);
        let long = post(64 * 1024 + 1);
        assert_eq!(long.status, 413);
        assert!(long.error().contains("65536"), "{long:?}");
        // Nothing of it is sent, and the answer is there.
        let announced = site.request("POST /api/token", "Content-Length: 99999999999999999999\r\n");
        assert_eq!(site.ask(announced).status, 413);

        let padded =
            |length: usize| site.request("GET /", &format!("A: {}\r\n", "a".repeat(length)));
        let fits = 16 * 1024 - padded(0).len();
        assert_eq!(site.ask(padded(fits)).status, 200);
        assert_eq!(site.ask(padded(fits + 1)).status, 431);
        let endless = format!("GET /{}", "a".repeat(20_000));
        assert_eq!(site.ask(endless).status, 431);
        let many: String = (0..200).map(|n| format!("A{n}: b\r\n")).collect();
        assert_eq!(site.ask(site.request("GET /", &many)).status, 431);
    });
}

#[test]
fn a_path_leads_to_no_file() {
    with_monitor(|site| {
        for target in [
            "/../../../../etc/passwd",
            "/..%2f..%2fetc%2fpasswd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "//etc/passwd",
            "/./",
            "/index.html",
        ] {
            let answer = site.get(target);
            assert_eq!(answer.status, 404, "{target}");
            assert!(!answer.body.contains("root:"), "{target}");
        }
    });
}

// connections

#[test]
fn head_is_get_without_the_body() {
    with_monitor(|site| {
        let page = site.ask(site.request("GET /", ""));
        let mut connection = Connection::open(site.address);
        connection.send(site.request("HEAD /", ""));
        let head = connection.answer_to("HEAD").expect("an answer");
        assert_eq!(head.head, page.head);
        connection.assert_closed();
    });
}

#[test]
fn a_connection_ends_after_one_answer() {
    with_monitor(|site| {
        for version in ["1.0", "1.1"] {
            let mut connection = Connection::open(site.address);
            let host = site.address;
            let request =
                format!("GET / HTTP/{version}\r\nHost: {host}\r\nConnection: keep-alive\r\n\r\n");
            assert!(connection.send(request.repeat(2)));
            let answer = connection.answer().expect("an answer");
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("Connection"), Some("close"));
            connection.assert_closed();
        }
    });
}

#[test]
fn a_server_without_descriptors_serves_again_when_there_are_some() {
    let env = Env::new();
    let mut command = env.command("sh");
    let script = r#"ulimit -n 24; exec "$1" monitor"#;
    let log = env.path("log");
    command
        .args(["-c", script, "sh"])
        .arg(binary())
        .env("ZSH_TOOL_LOG", "warn")
        .env("ZSH_TOOL_LOG_FILE", &log);
    let mut program = Program::start(command);
    let site = Site::of(&mut program);
    let crowd: Vec<Connection> = (0..30).map(|_| Connection::open(site.address)).collect();
    let logged = || fs::read_to_string(&log).unwrap_or_default();
    wait_until("no descriptor is left", || logged().contains("cannot accept").then_some(()));
    drop(crowd);
    assert_eq!(site.get(UNKNOWN).status, 404);
    assert_eq!(logged().matches("cannot accept").count(), 1);
    program.signal("TERM");
    assert_eq!(program.finish_with_stdin_open().code, 0);
}

#[test]
fn every_answer_carries_the_security_headers() {
    with_monitor(|site| {
        let answers = [
            site.ask(site.request("GET /", "")),
            site.ask(site.request(&format!("GET {UNKNOWN}"), "")),
            site.get(UNKNOWN),
            site.ask("nonsense\r\n\r\n"),
            site.post("/api/token", &json!({"token": site.token}).to_string()),
        ];
        for answer in answers {
            for (name, value) in [
                ("X-Content-Type-Options", "nosniff"),
                ("Referrer-Policy", "no-referrer"),
                ("Cache-Control", "no-store"),
                ("X-Frame-Options", "DENY"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{answer:?}");
            }
            let policy = answer.header("Content-Security-Policy").expect("a policy");
            assert!(policy.contains("default-src 'none'"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
        }
    });
}

// the programs

#[test]
fn the_monitor_ends_by_a_signal_also_with_clients_connected() {
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let env = Env::new();
        let (program, site) = monitor(&env);
        let mut streaming = Connection::open(site.address);
        streaming.send(site.request("GET /api/events", &site.bearer()));
        let head = streaming.head().expect("a head");
        assert!(head.contains("text/event-stream"), "{head}");
        let mut half = Connection::open(site.address);
        half.send("GET / HT");
        program.signal(signal);
        let finished = program.finish_with_stdin_open();
        assert_eq!(finished.code, 0, "{finished:?}");
        assert_eq!(finished.text(), "", "the link is all that is printed");
        assert_eq!(finished.stderr, "");
        for connection in [&mut streaming, &mut half] {
            while connection.line().is_some() {}
        }
        assert_none_left(env.mark());
    }
}

#[test]
fn an_address_that_others_reach_is_taken_when_asked_for_and_said() {
    let env = Env::new();
    let mut program = Program::start(zsh_tool(&env, &["monitor", "--addr", "0.0.0.0:0"]));
    let site = Site::of(&mut program);
    assert!(site.address.ip().is_loopback(), "{site:?}");
    assert_eq!(site.get(UNKNOWN).status, 404);
    program.signal("TERM");
    let stderr = program.finish_with_stdin_open().stderr;
    assert!(stderr.contains("can be reached by other machines"), "{stderr}");
}

#[test]
fn ipv6_is_served_as_well() {
    let env = Env::new();
    let mut program = Program::start(zsh_tool(&env, &["monitor", "--addr", "[::1]:0"]));
    let site = Site::of(&mut program);
    assert_eq!(site.get(UNKNOWN).status, 404);
    program.signal("TERM");
    assert_eq!(program.finish_with_stdin_open().code, 0);
}

#[test]
fn an_address_that_cannot_be_had_is_an_error_that_names_it() {
    let env = Env::new();
    let (program, site) = monitor(&env);
    let taken = site.address.to_string();
    for (address, code) in [(taken.as_str(), 1), ("192.0.2.1:0", 1), ("here", 2), ("127.0.0.1", 2)]
    {
        let finished = ran(&env, &["monitor", "--addr", address]);
        assert_eq!(finished.code, code, "{finished:?}");
        assert!(finished.stderr.contains(address), "{finished:?}");
        assert_eq!(finished.text(), "");
    }
    program.signal("TERM");
    assert_eq!(program.finish_with_stdin_open().code, 0);
}

/// The file in which the only server of this environment keeps its monitor's link.
fn link_file(env: &Env) -> PathBuf {
    wait_until("the link's file", || {
        let servers = fs::read_dir(env.path("state/servers")).ok()?;
        servers.flatten().map(|server| server.path().join("monitor.url")).find(|file| file.exists())
    })
}

#[test]
fn the_mcp_server_serves_http_when_it_is_configured() {
    let env = Env::new();
    env.configure("http: 127.0.0.1:0\n");
    let client = env.client();
    let health = client.call("zsh_health", json!({}));
    let address = health.raw["structuredContent"]["http"].as_str().expect("an address");
    let link_file = link_file(&env);
    assert!(health.text.contains(&link_file.display().to_string()), "{}", health.text);
    let mode = fs::metadata(&link_file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let link = fs::read_to_string(&link_file).expect("the link");
    let site = Site::of_link(link.trim_end());
    assert_eq!(address, format!("http://{}/", site.address));
    assert!(!health.text.contains(&site.token), "{}", health.text);
    let stderr = fs::read_to_string(env.path("stderr")).expect("the start line");
    assert!(stderr.contains(&link_file.display().to_string()), "{stderr}");
    assert!(!stderr.contains(&site.token), "clients log it: {stderr}");
    assert_eq!(site.ask(site.request("GET /", "")).status, 200);
    drop(client);
    wait_until("the file goes with the server", || (!link_file.exists()).then_some(()));
    assert_none_left(env.mark());
}

#[test]
fn a_person_at_a_terminal_is_given_the_whole_link() {
    let env = Env::new();
    env.configure("http: 127.0.0.1:0\n");
    let serve = format!("exec {} serve </dev/null", binary().display());
    let mut script = env.command("script");
    script.args(["--quiet", "--return", "--command", &serve, "/dev/null"]).env("SHELL", "/bin/sh");
    let finished = run(script);
    assert!(finished.text().contains("/#token="), "{finished:?}");
}

#[test]
fn commands_do_not_find_the_token_in_what_they_inherit() {
    let env = Env::new();
    env.configure("http: 127.0.0.1:0\n");
    let client = env.client();
    let result = client.run("env; ls -l /proc/self/fd; tr '\\0' '\\n' < /proc/$PPID/cmdline");
    let token = {
        let link = fs::read_to_string(link_file(&env)).expect("the link");
        Site::of_link(link.trim_end()).token
    };
    assert!(!result.text.contains(&token), "{}", result.text);
    assert!(!result.text.contains("socket:"), "{}", result.text);
}

#[test]
fn an_mcp_server_whose_monitor_cannot_listen_serves_on_and_says_so() {
    let env = Env::new();
    let (program, site) = monitor(&env);
    env.configure(&format!("http: {}\n", site.address));
    let client = env.client();
    assert_eq!(client.run("echo here").meta["exit_code"], 0);
    let health = client.call("zsh_health", json!({}));
    assert!(health.raw["structuredContent"]["http"].is_null(), "{}", health.text);
    let problem = format!("http: cannot listen on {}", site.address);
    assert!(health.text.contains(&problem), "{}", health.text);
    drop(client);
    program.signal("TERM");
    assert_eq!(program.finish_with_stdin_open().code, 0);
}

#[test]
fn an_mcp_server_serves_no_http_unless_it_is_asked_to() {
    let env = Env::new();
    let client = env.client();
    let health = client.call("zsh_health", json!({}));
    assert!(health.raw["structuredContent"]["http"].is_null(), "{}", health.text);
    assert!(!health.text.contains("monitor"), "{}", health.text);
}

#[test]
fn many_clients_at_once_are_all_answered() {
    with_monitor(|site| {
        let threads: Vec<_> = (0..24)
            .map(|_| {
                let site = site.clone();
                thread::spawn(move || {
                    for _ in 0..50 {
                        assert_eq!(site.get(UNKNOWN).status, 404);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("all answered");
        }
    });
}
