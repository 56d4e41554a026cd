//! What the database costs one call, at 0 to 1,000,000 observations.
//!
//! Half of the rows are of the very command that is asked for, the rest of a thousand
//! kinds: the worst case is a key with very many rows. Prints a line of JSON for each
//! number of observations, with times in milliseconds, which `make bench` tables. Run it
//! in release mode, on a quiet machine: `cargo run --release --example store_bench`, with other
//! numbers of observations as arguments.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};
use zsh_tool::testing::alan::pattern::{CommandPattern, RemoteCommand, Ssh};
use zsh_tool::testing::alan::rows::JournalRow;
use zsh_tool::testing::alan::run::Ending;
use zsh_tool::testing::alan::run::{EndedRun, Run};
use zsh_tool::testing::alan::schema::Derivation;
use zsh_tool::testing::alan::store::{Store, StoreSettings};
use zsh_tool::testing::neverhang::Rules;
use zsh_tool::testing::text::redact::Redactor;

const CALLS: usize = 500;
/// What the monitor's page asks for.
const PLOTS: usize = 50;
const SIZES: [usize; 4] = [0, 10_000, 100_000, 1_000_000];
/// More commands than the store keeps in memory.
const OTHERS: usize = 20;
/// What is timed; a record is over when it is written, and the history that is read is that of a
/// command that others have displaced from memory.
const PARTS: [&str; 6] = ["check", "history", "record", "whole call", "plots", "history read"];

fn main() {
    let asked: Vec<usize> =
        std::env::args().skip(1).map(|size| size.parse().expect("a number")).collect();
    for size in if asked.is_empty() { SIZES.to_vec() } else { asked } {
        println!("{}", measure(size));
    }
}

fn measure(size: usize) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(StoreSettings {
        path: directory.path().join("alan.db"),
        session: "bench".to_owned(),
        derivation: Derivation {
            version: 1,
            hash: str::to_owned,
            template: str::to_owned,
            with_subcommands: |_| None,
            redactor: Redactor::default(),
        },
        old_databases: Vec::new(),
        rules: Rules::default(),
    });
    fill(&store, size);
    let asked = pattern(0);
    let mut figures: [Vec<Duration>; PARTS.len()] = Default::default();
    for number in 0..CALLS {
        let start = Instant::now();
        let now = SystemTime::now();
        store.circuit_check_and_lease(&asked, now, Some(Duration::from_secs(120)));
        let checked = Instant::now();
        let history = store.history(&asked, now);
        std::hint::black_box(history.rates());
        let seen = Instant::now();
        store.record(&run(&asked, number, now));
        store.wait_until_written();
        let written = Instant::now();
        for (figures, figure) in figures.iter_mut().zip([
            checked - start,
            seen - checked,
            written - seen,
            written - start,
        ]) {
            figures.push(figure);
        }
    }
    let [.., plots, read] = &mut figures;
    for _ in 0..PLOTS {
        let start = Instant::now();
        std::hint::black_box(store.plots(30, 50));
        plots.push(start.elapsed());
        let now = SystemTime::now();
        for other in 1..=OTHERS {
            std::hint::black_box(store.history(&pattern(other), now));
        }
        let start = Instant::now();
        std::hint::black_box(store.history(&asked, now));
        read.push(start.elapsed());
    }
    let mut measured = Map::new();
    measured.insert("observations".to_owned(), size.into());
    for (part, mut figures) in PARTS.into_iter().zip(figures) {
        figures.sort();
        let at = |place: usize| figures.get(place).map(|at| at.as_secs_f64() * 1000.0);
        let (median, p99) = (at(figures.len() / 2), at(figures.len() * 99 / 100));
        measured.insert(part.to_owned(), json!({"median": median, "p99": p99}));
    }
    Value::Object(measured)
}

fn fill(store: &Store, size: usize) {
    let now = SystemTime::now();
    let mut entries = Vec::with_capacity(size * 3);
    for number in 0..size {
        let kind = if number % 2 == 0 { 0 } else { number % 1000 };
        let at = now - Duration::from_secs(((size - number) / 2) as u64);
        let rows = run(&pattern(kind), number, at).rows(&number.to_string(), "bench");
        entries.extend(rows.observations.into_iter().map(JournalRow::Observations));
        entries.push(JournalRow::RecentCommands(rows.recent));
        entries.extend(rows.ssh.map(JournalRow::SshObservations));
    }
    store.import(&entries).expect("rows");
}

fn pattern(kind: usize) -> CommandPattern {
    CommandPattern {
        hash: format!("{kind:016x}"),
        template: format!("program{kind} *"),
        subcommand_template: Some(format!("program{kind} with *")),
        preview: format!("program{kind} with some arguments"),
        program: Some(format!("program{kind}")),
        segments: Vec::new(),
        ssh: Some(Ssh {
            host: "host".to_owned(),
            remote: Some(RemoteCommand {
                preview: "git pull".to_owned(),
                template: "git pull".to_owned(),
            }),
        }),
    }
}

fn run(pattern: &CommandPattern, number: usize, at: SystemTime) -> Run<'static> {
    let ended = EndedRun {
        pattern: pattern.clone(),
        ending: Ending::Exited(i32::from(number.is_multiple_of(3))),
        duration: Duration::from_millis(1000 + (number * 37 % 5000) as u64),
        cpu: Some(Duration::from_millis(700)),
        peak: Some(100_000_000),
        pipestatus: Vec::new(),
        output_head: "some output\nof a command\n",
        output_tail: "error: something failed\n",
        cwd: Some("/home/somebody/project".to_owned()),
        git_head: Some("0123456789012345678901234567890123456789".to_owned()),
        at,
    };
    Run::new(ended, &Redactor::default())
}
