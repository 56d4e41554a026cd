//! Commands that are well and print the same again and again: spinners and bars over slow
//! work, and waits that say every few seconds that they wait. Repetition is a fact beside
//! the verdict, and proves nothing.

use super::shape::{First, Shape, healthy};

const REPEATS: &[&str] = &["prints the same"];
/// Between two lines or turns such a program sleeps, or is seen at work.
const SLEEPS: &[&str] = &["idle", "slow", "progressing"];
/// It sleeps between two turns while another part of it waits for a server.
const SLEEPS_OR_BLOCKED: &[&str] = &["blocked", "idle", "slow"];
/// Modules of npm are found beside the program that imports them.
pub const NODE: &[First] = &[First::Ran("ln -s $NODE_PATH node_modules; cp $PROGRAMS/*.*js .")];
const LATE: &[First] = &[First::Holds("python3 $PROGRAMS/late.py 85")];
const NODE_AND_LATE: &[First] = &[NODE[0], LATE[0]];

/// The table.
pub const SHAPES: &[Shape] = &[
    // Spinners and bars
    healthy("ora over a timer", "node ora.mjs 85", SLEEPS, REPEATS)
        .on_terminal()
        .after(NODE)
        .repeating(),
    healthy(
        "ora over a request",
        "node ora.mjs 0 http://127.0.0.1:$FREE_PORT/",
        SLEEPS_OR_BLOCKED,
        REPEATS,
    )
    .on_terminal()
    .after(NODE_AND_LATE)
    .repeating(),
    healthy(
        "ora on a pipe over a request",
        "node ora.mjs 0 http://127.0.0.1:$FREE_PORT/",
        &["blocked"],
        &["peer"],
    )
    .after(NODE_AND_LATE),
    healthy("spinner of clack", "node clack_spinner.mjs", SLEEPS, REPEATS)
        .on_terminal()
        .after(NODE)
        .repeating(),
    healthy("tasks of listr2", "node listr.mjs", SLEEPS, REPEATS)
        .on_terminal()
        .after(NODE)
        .repeating(),
    healthy("frames of cli-spinners on a pipe", "node frames.mjs", SLEEPS, REPEATS)
        .after(NODE)
        .repeating(),
    healthy("frames of cli-spinners", "node frames.mjs", SLEEPS, REPEATS)
        .on_terminal()
        .after(NODE)
        .repeating(),
    healthy("status of rich", "python3 $PROGRAMS/rich_status.py", SLEEPS, REPEATS)
        .on_terminal()
        .repeating(),
    healthy(
        "status of rich over a request",
        "python3 $PROGRAMS/rich_status.py http://127.0.0.1:$FREE_PORT/",
        SLEEPS_OR_BLOCKED,
        REPEATS,
    )
    .on_terminal()
    .after(LATE)
    .repeating(),
    healthy("bar of rich", "python3 $PROGRAMS/rich_bar.py", SLEEPS, &[]).on_terminal().repeating(),
    healthy("bar of tqdm", "python3 $PROGRAMS/tqdm_still.py", SLEEPS, &[])
        .on_terminal()
        .repeating(),
    healthy("bar of tqdm on a pipe", "python3 $PROGRAMS/tqdm_still.py", SLEEPS, &[]).repeating(),
    healthy("spinner of halo", "python3 $PROGRAMS/halo_spinner.py", SLEEPS, REPEATS)
        .on_terminal()
        .repeating(),
    healthy("bar of alive-progress", "python3 $PROGRAMS/alive.py", SLEEPS, &[])
        .on_terminal()
        .repeating(),
    healthy(
        "shell spinner over curl",
        "bash $PROGRAMS/spinner.sh curl -sS http://127.0.0.1:$FREE_PORT/",
        SLEEPS_OR_BLOCKED,
        REPEATS,
    )
    .on_terminal()
    .after(LATE)
    .repeating(),
    healthy(
        "shell spinner over curl on a pipe",
        "bash $PROGRAMS/spinner.sh curl -sS http://127.0.0.1:$FREE_PORT/",
        SLEEPS_OR_BLOCKED,
        REPEATS,
    )
    .after(LATE)
    .repeating(),
    healthy(
        "shell spinner over make",
        "print 'all:\\n\\t@sleep 85' > Makefile; bash $PROGRAMS/spinner.sh make",
        SLEEPS,
        REPEATS,
    )
    .on_terminal()
    .repeating(),
    healthy(
        "dash spinner over a sleep on a pipe",
        "dash $PROGRAMS/spinner.sh sleep 85",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    // Waits that say so
    healthy(
        "waiting for a deployment",
        "for i in {1..28}; do echo \"Waiting for deployment to finish...\"; sleep 3; done",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "replicas of kubectl",
        "for i in {1..45}; do echo 'Waiting for deployment \"web\" rollout to finish: 1 of 3 updated replicas are available...'; sleep 2; done",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "modifying of terraform",
        "for i in {1..28}; do printf 'aws_db.main: Still modifying... [id=db-0a1b, %02dm%02ds elapsed]\\n' $((i*3/60)) $((i*3%60)); sleep 3; done",
        SLEEPS,
        &["elapsed"],
    )
    .repeating(),
    healthy(
        "retries of ansible",
        "for i in {60..30}; do echo \"FAILED - RETRYING: [web1]: wait for the service ($i retries left).\"; sleep 3; done",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "containers of compose",
        "for i in {1..170}; do printf '\\e[1A\\e[2K ⠿ Container web-db-1  Waiting  %d.%ds\\n' $((i/2)) $((i%2*5)); sleep 0.5; done",
        SLEEPS,
        &[],
    )
    .on_terminal()
    .repeating(),
    healthy(
        "attempts of a health check",
        "i=0; until test -e healthy; do echo \"health check: attempt $((++i)) of 100: starting\"; sleep 2; done",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "pg_isready before its server",
        "until pg_isready -h 127.0.0.1 -p $FREE_PORT; do sleep 1; done",
        SLEEPS,
        &["nothing listens on 127.0.0.1:"],
    )
    .repeating(),
    healthy(
        "retries of curl",
        "curl --retry 100 --retry-connrefused --retry-delay 2 http://127.0.0.1:$FREE_PORT/",
        SLEEPS,
        &[],
    )
    .repeating(),
    healthy(
        "ruby waits for a queue",
        "ruby -e '$stdout.sync = true; loop { puts \"Waiting for queue to drain\"; sleep 2 }'",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "php waits for a worker",
        "php -r 'while (true) { echo \"Waiting for worker...\\n\"; sleep(1); }'",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy("go waits for an election", "situations-go ticker", SLEEPS, REPEATS).repeating(),
    healthy("java waits for a broker", "java -cp $BUILT Situations repeat", SLEEPS, REPEATS)
        .repeating(),
    healthy(
        "elixir waits for a node",
        "elixir -e 'Stream.interval(2000) |> Enum.each(fn _ -> IO.puts(\"waiting for node b@localhost\") end)'",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "perl bar that stands still",
        "perl -e '$| = 1; while (1) { print \"\\rstep 3 of 7\"; select(undef, undef, undef, 0.5) }'",
        SLEEPS,
        REPEATS,
    )
    .on_terminal()
    .repeating(),
    healthy(
        "lua waits for a file",
        "lua5.4 -e 'io.stdout:setvbuf(\"no\") while true do print(\"waiting for lock.pid\") os.execute(\"sleep 1\") end'",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "tcl waits for an event",
        "tclsh <<< 'proc tick {} { puts \"waiting for event\"; flush stdout; after 2000 tick }; tick; vwait forever'",
        SLEEPS,
        REPEATS,
    )
    .repeating(),
    healthy(
        "two processes of honcho",
        "print 'web: sh -c \"while :; do echo polling; sleep 2; done\"\\njob: sleep 300' > Procfile; honcho start",
        SLEEPS,
        &[],
    )
    .repeating(),
    healthy("wait-on before its server", "wait-on tcp:127.0.0.1:$FREE_PORT", SLEEPS, &[])
        .repeating(),
];
