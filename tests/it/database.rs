//! The database of what commands did, where it cannot be used as it is, and what of a
//! command line gets into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::program::{Finished, ran, run, zsh_tool};
use crate::support::schema::assert_valid;
use crate::support::unprivileged;

fn database(env: &Env) -> PathBuf {
    env.path("state/alan.db")
}

/// What `doctor` says of the database.
fn doctor(finished: &Finished) -> Vec<String> {
    let text = finished.text();
    let lines = text.lines().filter(|line| {
        let what = line.split_whitespace().nth(1);
        what == Some("database:")
    });
    lines.map(str::to_owned).collect()
}

fn assert_warned(finished: &Finished, cause: &str) {
    assert_eq!(finished.code, 0, "commands run: {}", finished.text());
    let found = doctor(finished);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("warning "), "{found:?}");
    assert!(found[0].contains(cause), "{found:?}");
    assert!(found[0].contains("set ALAN_DB_PATH"), "{found:?}");
}

/// The health once the database has been opened, or cannot be: on a busy machine that
/// takes longer than a call waits for it.
fn settled_health(client: &Client) -> Value {
    wait_until("the database has been opened, or cannot be", || {
        let text = client.call("zsh_health", json!({})).text;
        (!text.contains("alan.db, being opened")).then_some(())
    });
    assert_valid(client, "zsh_health", json!({}))
}

/// Commands run, and the health says what is wrong.
fn assert_unusable(client: &Client, cause: &str) {
    assert_eq!(client.run("echo works").output(), "works");
    let health = settled_health(client);
    assert_eq!(health["status"], json!("problems"), "{health}");
    let failure = health["database"]["failure"].as_str().unwrap_or_default();
    assert!(failure.contains(cause), "{health}");
    let text = client.call("zsh_health", json!({})).text;
    assert!(text.contains("alan.db, cannot be used"), "{text}");
    let problem = text.lines().find(|line| line.starts_with("⚠ the database"));
    assert!(problem.is_some_and(|line| line.contains(cause) && line.contains("alan.db")), "{text}");
    let stats = client.call("zsh_alan_stats", json!({}));
    assert!(stats.is_error, "{}", stats.text);
    assert!(stats.text.contains("in memory (1 records)"), "{}", stats.text);
    let asked = json!({"command": "echo works"});
    let found = assert_valid(client, "zsh_alan_query", asked);
    assert_eq!(found["runs"], json!(1), "known to this server: {found}");
}

#[test]
fn a_missing_database_is_made_when_it_is_needed() {
    let env = Env::new();
    let client = env.client();
    client.ping();
    assert!(!database(&env).exists(), "nothing was asked of it yet");
    let health = settled_health(&client);
    assert_eq!(health["status"], json!("ok"), "{health}");
    assert_eq!(health["database"]["failure"], Value::Null);
    assert!(database(&env).exists());
    let text = client.call("zsh_health", json!({})).text;
    let path = database(&env).display().to_string();
    assert!(text.contains(&format!("database   {path}, ok")), "{text}");
    assert!(text.contains("neverhang  0 circuits open"), "{text}");
    let finished = ran(&env, &["doctor"]);
    let found = doctor(&finished);
    assert_eq!(found, [format!("ok       database: {path}, 0 observations")]);
}

#[test]
fn a_corrupt_database_is_moved_aside_and_that_is_said() {
    let env = Env::new();
    fs::write(database(&env), "x".repeat(9000)).expect("a file");
    let client = env.client();
    let warns = || client.run("true").text.contains("was corrupt: it was moved to");
    // A database that takes long to open is not waited for.
    wait_until("an answer warns", || warns().then_some(()));
    assert!(!warns(), "once");
    let health = settled_health(&client);
    let aside = health["database"]["moved_aside"].as_str().expect("moved");
    assert_eq!(fs::read(aside).expect("kept").len(), 9000);
    assert_eq!(health["status"], json!("problems"));
    let text = client.call("zsh_health", json!({})).text;
    assert!(text.contains(", ok"), "{text}");
    assert!(text.contains(&format!("was moved to {aside}")), "{text}");
    let stats = assert_valid(&client, "zsh_alan_stats", json!({}));
    assert!(stats["observations"].as_u64() >= Some(2), "{stats}");
    assert_eq!(stats["database"]["moved_aside"], json!(aside));
}

#[test]
fn unreadable_rows_of_an_older_database_are_counted_and_the_others_serve() {
    let env = Env::new();
    let connection = Connection::open(database(&env)).expect("a database");
    connection
        .execute_batch(include_str!("../../data/schema/1-tables.sql"))
        .expect("the tables of the first version");
    connection
        .execute_batch(
            "INSERT INTO observations
                 (id, command_hash, command_template, command_preview, exit_code, duration_ms,
                  created_at)
             VALUES ('1', 'h', 'true', 'true', 0, 5, '2026-02-11T12:00:00+00:00'),
                 ('2', 'h', 'true', x'ff00', 0, 5, '2026-02-11T12:00:01+00:00'),
                 ('3', 'h', 'true', CAST(x'74ff' AS TEXT), 0, 5, '2026-02-11T12:00:02+00:00');",
        )
        .expect("rows");
    drop(connection);
    let client = env.client();
    let warns = || {
        let text = client.run("true").text;
        text.contains("were left out: 2")
    };
    wait_until("an answer warns", || warns().then_some(()));
    assert!(!warns(), "once");
    let found = assert_valid(&client, "zsh_alan_query", json!({"command": "true"}));
    assert!(found["runs"].as_u64() >= Some(3), "the old run and the new: {found}");
    let health = settled_health(&client);
    assert_eq!(health["status"], json!("ok"), "{health}");
}

#[test]
fn doctor_moves_a_corrupt_database_aside_as_a_server_would() {
    let env = Env::new();
    fs::write(database(&env), "x".repeat(9000)).expect("a file");
    let found = doctor(&ran(&env, &["doctor"]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("ok "), "{found:?}");
    assert!(found[1].starts_with("warning "), "{found:?}");
    assert!(found[1].contains("alan.db.corrupt-"), "{found:?}");
    assert!(found[1].contains(" → remove "), "{found:?}");
}

#[test]
fn a_directory_in_its_place_costs_no_command() {
    let env = Env::new();
    fs::create_dir(database(&env)).expect("a directory");
    assert_unusable(&env.client(), "it is not a regular file");
    assert_warned(&ran(&env, &["doctor"]), "it is not a regular file");
    let exec = ran(&env, &["exec", "echo works"]);
    assert_eq!((exec.code, exec.text().as_str()), (0, "works\n"));
    for arguments in [
        &["alan", "stats"][..],
        &["alan", "query", "true"],
        &["alan", "export"],
        &["alan", "prune"],
        &["alan", "forget", "true"],
    ] {
        let finished = ran(&env, arguments);
        assert_eq!((finished.code, finished.text().as_str()), (1, ""), "{arguments:?}");
        assert!(
            finished.stderr.contains("alan.db: it is not a regular file")
                || finished.stderr.contains("alan.db: it is"),
            "{arguments:?}: {}",
            finished.stderr
        );
    }
}

#[test]
fn a_database_of_another_user_costs_no_command() {
    let env = Env::new();
    assert_eq!(ran(&env, &["alan", "stats"]).code, 0);
    let close = "chown root \"$1/state/alan.db\"";
    let client = unprivileged::client_after(&env, close);
    assert_unusable(&client, "belongs to another user (uid 0)");
    let doctor = unprivileged::command_after(&env, close, &["doctor"]);
    assert_warned(&run(doctor), "belongs to another user (uid 0)");
}

/// Files that another user has put beside it before are not written to.
#[test]
fn a_database_whose_directory_or_files_are_another_users_is_not_used() {
    for (close, cause) in [
        (
            "touch \"$1/state/alan.db-wal\"; chown root \"$1/state/alan.db-wal\"",
            "alan.db-wal belongs",
        ),
        ("chown root \"$1/state\"; chmod 777 \"$1/state\"", "state belongs to another user"),
        ("chmod 777 \"$1\"", "is writable by everyone"),
    ] {
        let env = Env::new();
        assert_eq!(ran(&env, &["alan", "stats"]).code, 0);
        let client = unprivileged::client_after(&env, close);
        assert_unusable(&client, cause);
    }
}

/// Commands would trust its files: a list of tasks, the socket by which they type to one.
#[test]
fn no_command_believes_a_state_directory_that_others_can_change() {
    for (close, cause) in [
        ("chown root \"$1/state\"; chmod 777 \"$1/state\"", "state belongs to another user"),
        ("chmod 777 \"$1\"", "is writable by everyone"),
    ] {
        for arguments in [&["tasks"][..], &["log", "x"], &["kill", "x"], &["send", "x", "y"]] {
            let env = Env::new();
            assert_eq!(ran(&env, &["alan", "stats"]).code, 0);
            let refused = run(unprivileged::command_after(&env, close, arguments));
            assert_eq!(refused.code, 1, "{arguments:?}: {}", refused.stderr);
            assert!(refused.stderr.contains(cause), "{arguments:?}: {}", refused.stderr);
        }
    }
}

/// A directory of one's own that others may write to is narrowed, and that is said.
#[test]
fn the_mode_of_an_own_directory_is_narrowed() {
    use std::os::unix::fs::PermissionsExt;
    let env = Env::new();
    let wide = env.path("home/wide");
    std::fs::create_dir(&wide).expect("a directory");
    std::fs::set_permissions(&wide, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let mut serve = env.serve();
    serve.env("ALAN_DB_PATH", wide.join("alan.db"));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let health = settled_health(&client);
    assert_eq!(health["database"]["failure"], json!(null), "{health}");
    let mode = std::fs::metadata(&wide).expect("the directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let told = std::fs::read_to_string(env.path("stderr")).expect("the server's log");
    assert!(told.contains("was 777, and is 755 now"), "{told}");
}

#[test]
fn a_read_only_file_system_costs_no_command() {
    let env = Env::new();
    let mut first = zsh_tool(&env, &["exec", "true"]);
    first.env("ALAN_DB_PATH", env.path("home/alan.db"));
    assert_eq!(run(first).code, 0);
    let close = "export ALAN_DB_PATH=\"$1/home/alan.db\"; mount --bind \"$1/home\" \"$1/home\"; \
                 mount -o remount,ro,bind \"$1/home\"";
    let client = unprivileged::client_after(&env, close);
    assert_unusable(&client, "Read-only file system");
    let doctor = unprivileged::command_after(&env, close, &["doctor"]);
    assert_warned(&run(doctor), "Read-only file system");
}

#[test]
fn without_a_place_for_it_nothing_is_kept() {
    let env = Env::new();
    let with_no_place = |arguments: &[&str]| -> Command {
        let mut command = zsh_tool(&env, arguments);
        command
            .env_remove("ZSH_TOOL_STATE_DIR")
            .env_remove("HOME")
            .env("XDG_STATE_HOME", "relative");
        command
    };
    let path = run(with_no_place(&["alan", "path"]));
    assert_eq!((path.code, path.text().as_str()), (1, ""), "{path:?}");
    assert!(path.stderr.contains("ALAN_DB_PATH"), "{path:?}");
    let exec = run(with_no_place(&["exec", "echo works"]));
    assert_eq!((exec.code, exec.text().as_str()), (0, "works\n"), "{exec:?}");
}

#[test]
fn doctor_makes_no_database_and_takes_none_over() {
    let env = Env::new();
    let root = env.path("plugin");
    original_database(&root.join("data/alan.db"));
    let own = env.path("own/alan.db");
    let mut command = zsh_tool(&env, &["doctor"]);
    command.env("ALAN_DB_PATH", &own).env("CLAUDE_PLUGIN_ROOT", &root);
    let finished = run(command);
    let found = doctor(&finished);
    let wanted =
        format!("ok       database: {}, created when the first command runs", own.display());
    assert_eq!(found, [wanted]);
    // Rows taken over into the check's scratch would be lost.
    assert!(root.join("data/alan.db").exists() && !own.exists());
    assert!(!root.join("data/alan.db.imported").exists());
}

#[test]
fn doctor_names_a_place_where_no_database_can_be_made() {
    let env = Env::new();
    let mut command = zsh_tool(&env, &["doctor"]);
    let file = env.path("file");
    fs::write(&file, "").expect("a file");
    command.env("ALAN_DB_PATH", file.join("alan.db"));
    assert_warned(&run(command), "Not a directory");
}

// Older databases

/// A database as the original zsh-tool made it, with two runs of one command.
fn original_database(path: &Path) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    let connection = Connection::open(path).expect("a database");
    connection
        .execute_batch(
            "CREATE TABLE observations (
                 id TEXT PRIMARY KEY, command_hash TEXT NOT NULL, command_template TEXT,
                 command_preview TEXT, exit_code INTEGER, duration_ms INTEGER,
                 timed_out INTEGER DEFAULT 0, output_snippet TEXT, error_snippet TEXT,
                 weight REAL DEFAULT 1.0, created_at TEXT NOT NULL, last_accessed TEXT);
             CREATE TABLE recent_commands (
                 id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
                 command_hash TEXT NOT NULL, command_template TEXT, command_preview TEXT,
                 timestamp REAL NOT NULL, duration_ms INTEGER, exit_code INTEGER,
                 timed_out INTEGER DEFAULT 0, success INTEGER DEFAULT 1);
             CREATE TABLE streaks (
                 command_hash TEXT PRIMARY KEY, current_streak INTEGER DEFAULT 0,
                 longest_success_streak INTEGER DEFAULT 0,
                 longest_fail_streak INTEGER DEFAULT 0, last_result INTEGER,
                 last_updated REAL);
             CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
             INSERT INTO observations
                 (id, command_hash, command_template, command_preview, exit_code,
                  duration_ms, output_snippet, created_at)
             VALUES
                 ('1', 'aaaa', 'make', 'make all --password hunter2', 0, 60000, 'ok',
                  '2026-01-02T03:04:05'),
                 ('2', 'aaaa', 'make', 'make all --password hunter2', 2, 61000,
                  'TOKEN=hunter2', '2026-01-02T03:05:05');
             INSERT INTO streaks VALUES ('aaaa', -1, 1, 1, 0, 1767323105.0);",
        )
        .expect("its tables");
}

#[test]
fn a_database_of_the_original_beside_the_plugin_is_taken_over() {
    let env = Env::new();
    let root = env.path("plugin");
    let old = root.join("data/alan.db");
    original_database(&old);
    let mut serve = env.serve();
    serve.env("CLAUDE_PLUGIN_ROOT", &root);
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let stats = assert_valid(&client, "zsh_alan_stats", json!({}));
    assert_eq!(stats["observations"], json!(2), "{stats}");
    assert!(!old.exists() && root.join("data/alan.db.imported").exists());
    let asked = json!({"command": "make all --password another"});
    let found = assert_valid(&client, "zsh_alan_query", asked);
    assert_eq!(found["runs"], json!(2), "{found}");
    assert_eq!(found["streak"]["current"], json!(-1), "{found}");
    drop(client);
    assert_eq!(places_of(&env, b"hunter2"), [] as [PathBuf; 0]);
}

// Secrets

/// The files of the state directory in which these bytes stand.
fn places_of(env: &Env, bytes: &[u8]) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let mut directories = vec![env.path("state")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if contains(&fs::read(&path).unwrap_or_default(), bytes) {
                places.push(path);
            }
        }
    }
    places
}

fn contains(all: &[u8], bytes: &[u8]) -> bool {
    all.windows(bytes.len()).any(|window| window == bytes)
}

/// Commands with a secret in `«»`; what would do something stands behind `false &&`.
const WITH_SECRETS: [&str; 44] = [
    ": aws configure set aws_access_key_id «AKIAQWERTYUIOPASDFGH»",
    ": «ghp_Zxcvbnmasdfghjklqwertyuiop0123456789»",
    ": «github_pat_11ABCDEFG0zxcvbnmasdfg_hjklqwertyuiopzxcvbnmasdfghjklqwertyuiop0123456789»",
    ": «glpat-zxcvbnmasdfghjklqwer»",
    ": «xoxb-1234567890-zxcvbnmasdfghjkl»",
    ": «sk-ant-api03-zxcvbnmasdfghjklqwertyuiop»",
    ": «sk-proj-zxcvbnmasdfghjklqwertyuiop0123456789»",
    ": «sk_live_zxcvbnmasdfghjklqwerty»",
    ": «AIzaSyzxcvbnmasdfghjklqwertyuiop0123456»",
    ": «npm_zxcvbnmasdfghjklqwertyuiop0123456789»",
    ": «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.zxcvbnmasdfghjklqwertyuiop»",
    ": '-----BEGIN RSA PRIVATE KEY-----\n«MIIEzxcvbnmasdfghjklqwertyuiop»\n-----END RSA PRIVATE KEY-----'",
    ": '-----BEGIN OPENSSH PRIVATE KEY-----\n«b3BlbnNzaC1rzxcvbnmasdfghjkl»\n-----END OPENSSH PRIVATE KEY-----'",
    ": curl -H 'Authorization: Bearer «zxcvbnm1.asdfghjkl»' https://x.example",
    ": curl -H \"Authorization: Basic «dXNlcjpodW50ZXIy»\" https://x.example",
    ": curl -H 'authorization: token «zxcvbnm2asdfghjkl»' https://x.example",
    ": curl -H 'X-Api-Key: «zxcvbnm3asdf»' https://x.example",
    ": curl https://me:«zxcvbnm4asdf»@x.example/path",
    ": git clone https://oauth2:«zxcvbnm5asdf»@git.example/a.git",
    ": psql postgres://me:«zxcvbnm6asdf»@db.example/app",
    ": curl 'https://x.example/?access_token=«zxcvbnm7asdf»&page=2'",
    ": curl -u me:«zxcvbnm8asdf» https://x.example",
    ": app --password «zxcvbnm9asdf» run",
    ": app --password=«zxcvbnm10asdf» run",
    ": app --token '«zxcvbnm11 asdf»' run",
    ": app --api-key=\"«zxcvbnm12 asdf»\" run",
    "false && mysql -u root -p«zxcvbnm13asdf» app",
    "false && mysqldump -p'«zxcvbnm14 asdf»' app",
    "false && sshpass -p «zxcvbnm15asdf» ssh far.example",
    "false && docker login -u me -p «zxcvbnm16asdf» registry.example",
    "false && redis-cli -a «zxcvbnm17asdf» ping",
    "MY_API_KEY=«zxcvbnm18asdf» true",
    "export GH_TOKEN=«zxcvbnm19asdf»",
    "APP_SECRET='«zxcvbnm20 asdf»' true",
    "DB_PASSWORD=\"«zxcvbnm21 asdf»\" true",
    "db_passwd=«zxcvbnm22asdf»; true",
    "export AWS_SECRET_ACCESS_KEY=«zxcvbnm23/asdf+x»",
    ": docker run -e API_KEY=«zxcvbnm24asdf» image",
    "false && ssh far.example 'mysql -p«zxcvbnm25asdf» app'",
    "sh -c 'export TOKEN=«zxcvbnm26asdf»; true'",
    ": terraform login -token=«zxcvbnm27asdf»",
    "false | true --password «zxcvbnm28asdf» | cat",
    ": curl -d '{\"password\": \"«zxcvbnm29asdf»\"}' https://x.example",
    ": $UNLISTED_SECRET «zxcvbnm30asdf-of-the-environment»",
];

/// The command, and the secret in it.
fn with_secret(marked: &str) -> (String, String) {
    let (before, rest) = marked.split_once('«').expect("a secret");
    let (secret, after) = rest.split_once('»').expect("its end");
    (format!("{before}{secret}{after}"), secret.to_owned())
}

#[test]
fn no_secret_of_a_command_line_reaches_the_state_directory() {
    let env = Env::new();
    let mut serve = env.serve();
    serve.env("UNLISTED_SECRET", "zxcvbnm30asdf-of-the-environment");
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    for marked in WITH_SECRETS {
        let (command, _) = with_secret(marked);
        client.run(&command);
        // Also where a look-up or a timeout notes the command.
        client.call("zsh_alan_query", json!({"command": command}));
    }
    let (hanging, secret) = with_secret("sleep 61; app --password «zxcvbnm31asdf»");
    let hang = json!({"command": hanging, "timeout": 0.2, "yield_after": 25});
    client.call("zsh", hang);
    let stats = assert_valid(&client, "zsh_alan_stats", json!({}));
    let recorded = stats["observations"].as_u64().unwrap_or_default();
    assert!(recorded > WITH_SECRETS.len() as u64, "{stats}");
    assert_eq!(stats["database"]["queued"], json!(0));
    let secrets = WITH_SECRETS.map(|marked| with_secret(marked).1);
    // Once with the log of the running server, once with what it leaves.
    let look = || {
        for secret in secrets.iter().chain([&secret]) {
            assert_eq!(places_of(&env, secret.as_bytes()), [] as [PathBuf; 0], "{secret}");
        }
    };
    assert!(env.path("state/alan.db-wal").exists());
    look();
    let export = ran(&env, &["alan", "export"]).text();
    assert!(export.contains("[redacted]"));
    for secret in secrets.iter().chain([&secret]) {
        assert!(!export.contains(secret.as_str()), "{secret}");
    }
    client.close_stdin();
    client.wait_exit(std::time::Duration::from_secs(20));
    look();
}

#[test]
fn secrets_that_a_command_prints_do_not_reach_the_database() {
    let env = Env::new();
    let client = env.client();
    client.run("print -r -- gh''p_Zxcvbnmasdfghjklqwertyuiop0123456789; exit 3");
    client.run("print -r -- error: the pass''word=hunter''2hunter is wrong >&2; exit 3");
    client.call("zsh_alan_stats", json!({}));
    for name in ["alan.db", "alan.db-wal"] {
        let bytes = fs::read(env.path("state").join(name)).expect("a file");
        for secret in ["ghp_Zxcvbnm", "hunter2hunter"] {
            assert!(!contains(&bytes, secret.as_bytes()), "{secret} in {name}");
        }
    }
}
