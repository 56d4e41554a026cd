//! What becomes of what is remembered, and of the commands, when the database, the disk
//! or a server fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use serde_json::json;

use crate::support::client::{Client, PATIENCE};
use crate::support::database::{open_database, try_open_database};
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::program::ran;
use crate::support::state_files::assert_task_files_whole;
use crate::support::unprivileged;

/// Of many commands while the database is out of reach, the one in the middle takes less
/// than this: far more than it needs, and less than the shortest wait for the database,
/// half a second, in each of them would take.
const WITHOUT_WAITING: Duration = Duration::from_millis(400);
/// Rounds of the loop of kills that every run of the tests makes.
const KILLS: usize = 40;

/// Results count the retries that the history knows of.
fn env_with_all_insights() -> Env {
    let env = Env::new();
    env.configure("insights: all\n");
    env
}

fn database(env: &Env) -> PathBuf {
    env.path("state/alan.db")
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).expect(sql)
}

#[track_caller]
fn assert_sound(path: &Path) {
    let connection = open_database(path);
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(found, "ok");
    // In one snapshot, since the server may still write.
    connection.execute_batch("BEGIN").expect("a snapshot");
    let recent = number(&connection, "SELECT count(*) FROM recent_commands");
    let runs = "SELECT count(*) FROM observations WHERE duration_ms > 0";
    assert_eq!(recent, number(&connection, runs), "half a record");
}

/// What a new database holds; nothing while it and its tables are still being made, and
/// while something else that is no database still stands in its place.
fn count(path: &Path, sql: &str) -> Option<i64> {
    let counted =
        try_open_database(path).and_then(|found| found.query_row(sql, [], |row| row.get(0)));
    match counted {
        Err(error) if error.to_string().contains("no such table") => None,
        Err(rusqlite::Error::SqliteFailure(error, _))
            if matches!(error.code, ErrorCode::CannotOpen | ErrorCode::NotADatabase) =>
        {
            None
        }
        counted => Some(counted.expect(sql)),
    }
}

fn observations(path: &Path) -> i64 {
    count(path, "SELECT count(*) FROM observations").unwrap_or(0)
}

#[track_caller]
fn wait_for_observations(path: &Path, wanted: i64) {
    let mut last = 0;
    wait_until("all that was recorded is in the file", || {
        last = observations(path);
        (last == wanted).then_some(())
    });
    assert_sound(path);
}

/// Runs commands, none of which waits for the database but the first. What was recorded
/// of each is known at the next.
#[track_caller]
fn run_many(client: &Client, count: u32) {
    let first = client.run("echo again");
    assert_eq!(first.status(), "completed", "{}", first.text);
    let mut took = Vec::new();
    for round in 2..count + 2 {
        let result = client.run("echo again");
        assert_eq!(result.status(), "completed", "{}", result.text);
        let wanted = format!("Retry #{round}.");
        assert!(result.text.contains(&wanted), "{}", result.text);
        took.push(result.elapsed);
    }
    assert_none_waited(took);
}

/// Looks at the one in the middle: a busy machine holds up some of many, a wait for the
/// database would hold up all.
#[track_caller]
fn assert_none_waited(mut took: Vec<Duration>) {
    took.sort();
    let middle = took.get(took.len() / 2);
    let middle = middle.expect("one command at least");
    assert!(*middle < WITHOUT_WAITING, "{took:?}");
}

/// Runs commands until a result warns of the database, which happens once.
#[track_caller]
fn assert_warns_once(client: &Client, cause: &str) {
    let told = wait_until("the warning is given", || {
        let result = client.run("echo hi");
        assert_eq!(result.status(), "completed", "{}", result.text);
        result.text.contains("alan.db").then_some(result)
    });
    assert!(told.text.contains(cause), "{}", told.text);
    let next = client.run("echo hi");
    assert!(!next.text.contains("alan.db"), "{}", next.text);
    assert!(next.text.contains("Retry #"), "{}", next.text);
}

#[test]
fn a_start_does_not_touch_the_database() {
    let env = env_with_all_insights();
    let client = env.client();
    client.request("tools/list", json!({})).wait();
    client.ping();
    assert!(!database(&env).exists());
    client.close_stdin();
    client.wait_exit(PATIENCE);
    assert!(!database(&env).exists(), "nor does the end of a server");
    let client = env.client();
    client.run("true");
    wait_for_observations(&database(&env), 1);
}

#[test]
fn a_second_server_killed_while_it_starts_harms_nothing() {
    let env = env_with_all_insights();
    let client = env.client();
    client.run("true");
    wait_for_observations(&database(&env), 1);
    for round in 0..12_u64 {
        let second = env.client_before_initialize();
        // A place in its start, another one in each round; some have work by then.
        if round % 2 == 0 {
            second.initialize();
            second.call_async("zsh", json!({"command": "true"}));
        }
        thread::sleep(Duration::from_millis(5 * round));
        second.signal("KILL");
        second.wait_exit(PATIENCE);
    }
    assert_sound(&database(&env));
    let before = observations(&database(&env));
    let result = client.run("true");
    assert!(result.text.contains("Retry #2"), "{}", result.text);
    wait_until("it goes on recording", || (observations(&database(&env)) > before).then_some(()));
    assert_sound(&database(&env));
}

/// Servers that are killed with records on their way to the file: what was there stays
/// there, the file stays sound, and so does the file of every task.
pub fn kill_again_and_again(rounds: usize) {
    let env = env_with_all_insights();
    let path = database(&env);
    let (mut committed, mut task_files) = (0, 0);
    for round in 0..rounds {
        let client = env.client();
        let calls: Vec<_> = (0..12)
            .map(|call| {
                let command = format!("print {round} {call} | cat");
                client.call_async("zsh", json!({"command": command, "yield_after": 25}))
            })
            .collect();
        // Some are answered, others run, and their records are anywhere in between.
        let answered = round % 12;
        for call in calls.into_iter().take(answered) {
            assert_eq!(call.tool_result().status(), "completed");
        }
        if path.exists() && committed > 0 {
            let now = observations(&path);
            assert!(now >= committed, "round {round}: {now} < {committed}");
            committed = now;
        }
        client.kill_server();
        client.wait_exit(PATIENCE);
        task_files += assert_task_files_whole(&env);
        if committed > 0 || count(&path, "SELECT count(*) FROM recent_commands").is_some() {
            assert_sound(&path);
            let now = observations(&path);
            assert!(now >= committed, "round {round}: {now} < {committed}");
            committed = now;
        }
    }
    assert!(committed > rounds as i64, "hardly anything was recorded");
    assert!(task_files > rounds, "hardly any task had a file");
    eprintln!("{committed} observations, {task_files} files of tasks");
    // The rest of the state reads as well, and the next server starts from it.
    let tasks = ran(&env, &["tasks"]);
    assert_eq!(tasks.code, 0, "{tasks:?}");
    let client = env.client();
    assert_eq!(client.run("true").status(), "completed");
    wait_for_observations(&path, committed + 1);
}

#[test]
fn a_server_killed_with_writes_on_their_way_leaves_a_sound_database() {
    kill_again_and_again(KILLS);
}

#[test]
fn two_servers_record_ten_thousand_observations_in_one_file() {
    let env = env_with_all_insights();
    // A pipeline of 24 segments makes 25 observations.
    let pipeline = vec![":"; 24].join(" | ");
    let calls = 200;
    thread::scope(|scope| {
        for server in 0..2 {
            let (env, pipeline) = (&env, &pipeline);
            scope.spawn(move || {
                let client = env.client();
                for call in 0..calls {
                    let command = format!("{pipeline} # {server} {call}");
                    let result = client.run(&command);
                    assert_eq!(result.status(), "completed", "{}", result.text);
                }
                client.close_stdin();
                client.wait_exit(PATIENCE);
            });
        }
    });
    let path = database(&env);
    wait_for_observations(&path, 10_000);
    let recent = number(&open_database(&path), "SELECT count(*) FROM recent_commands");
    assert_eq!(recent, 400);
}

#[test]
fn a_database_that_others_hold_locked_delays_no_command() {
    // One that others may read, and one that nobody may.
    for mode in ["NORMAL", "EXCLUSIVE"] {
        commands_go_on_while_locked(mode, Duration::ZERO);
    }
}

/// Commands while another process holds the database, for so long at least: none waits for
/// it, one result says so, and all are recorded once it is free.
pub fn commands_go_on_while_locked(mode: &str, at_least: Duration) {
    let env = env_with_all_insights();
    drop({
        let client = env.client();
        client.run("true");
        wait_for_observations(&database(&env), 1);
        client
    });
    let holder = open_database(&database(&env));
    holder.pragma_update(None, "locking_mode", mode).expect("a mode");
    holder.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    let locked = Instant::now();
    let client = env.client();
    run_many(&client, 30);
    assert_warns_once(&client, "locked");
    run_many_more(&client, 30);
    let mut commands = 61;
    let pause = Duration::from_secs(1);
    let mut beyond = Vec::new();
    while locked.elapsed() < at_least {
        let result = client.run("sleep 1");
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert!(!result.text.contains("alan.db"), "{}", result.text);
        beyond.push(result.elapsed.saturating_sub(pause));
        commands += 1;
    }
    if !beyond.is_empty() {
        assert_none_waited(beyond);
    }
    holder.execute_batch("ROLLBACK").expect("released");
    drop(holder);
    wait_until("what was recorded meanwhile is written", || {
        (observations(&database(&env)) > commands).then_some(())
    });
    assert_sound(&database(&env));
}

#[track_caller]
fn run_many_more(client: &Client, count: u32) {
    let results = (0..count).map(|_| client.run("echo more"));
    let took = results.map(|result| {
        assert_eq!(result.status(), "completed", "{}", result.text);
        result.elapsed
    });
    assert_none_waited(took.collect());
}

#[test]
fn a_circuit_counts_while_the_database_is_locked() {
    let env = env_with_all_insights();
    let client = env.client();
    client.run("true");
    wait_for_observations(&database(&env), 1);
    let holder = open_database(&database(&env));
    holder.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    let hang = || {
        let arguments = json!({"command": "sleep 600", "timeout": 0.2, "yield_after": 25});
        client.call("zsh", arguments)
    };
    for _ in 0..3 {
        assert_eq!(hang().status(), "timeout");
    }
    let refused = hang();
    assert!(refused.is_error, "{}", refused.text);
}

#[test]
fn a_corrupt_database_is_moved_aside_and_the_next_one_serves() {
    let env = env_with_all_insights();
    let rubbish = b"neither a database nor anything else\n".repeat(400);
    fs::write(database(&env), &rubbish).expect("written");
    let client = env.client();
    run_many(&client, 10);
    wait_for_observations(&database(&env), 11);
    let names = fs::read_dir(env.path("state")).expect("the state");
    let aside = names
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains("alan.db.corrupt-"));
    let aside = aside.expect("it was moved aside");
    assert_eq!(fs::read(&aside).expect("kept"), rubbish);
}

#[test]
fn a_database_that_becomes_corrupt_under_a_server_is_begun_anew() {
    let env = env_with_all_insights();
    let path = database(&env);
    {
        let client = env.client();
        for _ in 0..30 {
            client.run("echo much");
        }
    }
    wait_for_observations(&path, 30);
    let client = env.client();
    client.run("echo much");
    let mut bytes = fs::read(&path).expect("the file");
    bytes.iter_mut().skip(100).for_each(|byte| *byte = 0xff);
    fs::write(&path, &bytes).expect("damaged");
    wait_until("a new one is begun", || {
        assert_eq!(client.run("echo much").status(), "completed");
        let names = fs::read_dir(env.path("state")).expect("the state");
        let mut names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.any(|name| name.contains("corrupt-")).then_some(())
    });
    client.run("echo last");
    wait_until("it holds the newest", || {
        let last = "SELECT count(*) FROM observations WHERE command_preview = 'echo last'";
        (count(&path, last) == Some(1)).then_some(())
    });
    assert_sound(&path);
}

#[test]
fn a_missing_directory_is_made_private() {
    let env = env_with_all_insights();
    let path = env.path("elsewhere/deeper/alan.db");
    let mut serve = env.serve();
    serve.env("ALAN_DB_PATH", &path);
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    client.run("true");
    wait_until("the database is made", || path.exists().then_some(()));
    wait_for_observations(&path, 1);
    let mode = |path: &Path| fs::metadata(path).expect("it").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().expect("a parent")), 0o700);
}

#[test]
fn a_directory_that_cannot_be_made_costs_a_warning() {
    let env = env_with_all_insights();
    fs::write(env.path("file"), "").expect("written");
    let mut serve = env.serve();
    serve.env("ALAN_DB_PATH", env.path("file/alan.db"));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    assert_warns_once(&client, "Not a directory");
}

#[test]
fn a_read_only_database_costs_a_warning_and_stays_as_it_is() {
    let env = env_with_all_insights();
    drop({
        let client = env.client();
        client.run("true");
        wait_for_observations(&database(&env), 1);
        client
    });
    let protected = |path: &Path| {
        let mode = fs::Permissions::from_mode(0o444);
        fs::set_permissions(path, mode).expect("read-only");
    };
    protected(&database(&env));
    let client = unprivileged::client(&env);
    assert_warns_once(&client, "Permission denied");
    run_many(&client, 20);
    let mode = fs::metadata(database(&env)).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o400);
    assert_eq!(observations(&database(&env)), 1);
}

/// Mounts a small file system and puts the database there.
fn on_small_disk(size: &str) -> String {
    format!(
        "mkdir \"$1/small\"; mount -t tmpfs -o size={size},mode=0700,uid=65534 tmpfs \"$1/small\"; \
         export ALAN_DB_PATH=\"$1/small/alan.db\""
    )
}

#[test]
fn a_disk_that_is_full_from_the_start_costs_a_warning() {
    let env = env_with_all_insights();
    let client = unprivileged::client_after(&env, &on_small_disk("16k"));
    assert_warns_once(&client, "disk");
    run_many(&client, 20);
}

#[test]
fn what_is_recorded_on_a_full_disk_is_written_when_there_is_space() {
    let env = env_with_all_insights();
    let client = unprivileged::client_after(&env, &on_small_disk("4m"));
    let small = env.path("small");
    let small = small.display();
    client.run("true");
    // The copy stands where the test sees it. One that was made while the server wrote
    // tells nothing, or there is nothing to copy yet.
    let copy = env.work().join("copy.db");
    let written = || {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(env.work().join(format!("copy.db{suffix}")));
        }
        for suffix in ["", "-wal"] {
            let copied =
                client.run(&format!("cp {small}/alan.db{suffix} {}{suffix}", copy.display()));
            if copied.status() != "completed" {
                return None;
            }
        }
        let count = "SELECT count(*) FROM observations WHERE command_preview = 'echo again'";
        let found = try_open_database(&copy).ok()?;
        found.query_row(count, [], |row| row.get::<_, i64>(0)).ok()
    };
    wait_until("the first is written", written);
    let fill = format!("yes 'all of it' > {small}/fill");
    // The end of this very command may be the first that cannot be written.
    let filled = client.run(&fill);
    assert_eq!(filled.status(), "failed", "{}", filled.text);
    if !filled.text.contains("is full).") {
        assert_warns_once(&client, "is full).");
    }
    run_many(&client, 20);
    client.run(&format!("rm {small}/fill"));
    wait_until("all is written", || (written() == Some(21)).then_some(()));
}
