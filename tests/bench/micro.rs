//! How long the pure parts take that go over every byte of output, every command line and
//! every message: `cargo bench --bench micro`, or `make bench`, which tables the figures.
//!
//! Inputs are the fixtures of the tests where there are some, so that they are what real
//! programs print; each is repeated to a size at which the clock does not matter. Limits:
//! nothing here reads, writes or waits; what the kernel and the database cost is measured
//! from outside.

use std::hint::black_box;
use std::io::Cursor;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use zsh_tool::testing::agent::executor::Executors;
use zsh_tool::testing::agent::stream::Framer;
use zsh_tool::testing::base::clock::{Clock, SystemClock};
use zsh_tool::testing::mcp::clients::KeptPart;
use zsh_tool::testing::mcp::render::result::{Palette, TaskResult};
use zsh_tool::testing::mcp::render::view::View;
use zsh_tool::testing::process::probe::Identity;
use zsh_tool::testing::process::signals::Exit;
use zsh_tool::testing::progress::tracker::{ChangeKind, Totals, Tracker, TrackerSettings};
use zsh_tool::testing::protocol::message;
use zsh_tool::testing::protocol::reader::FrameReader;
use zsh_tool::testing::shell::command_line::CommandLine;
use zsh_tool::testing::shell::dialect::{Dialect, Traps};
use zsh_tool::testing::shell::lexer::lex;
use zsh_tool::testing::shell::outcome::Outcome;
use zsh_tool::testing::shell::template::template;
use zsh_tool::testing::task::live::{End, Facts, Input, LiveTask};
use zsh_tool::testing::task::stream::PerStream;
use zsh_tool::testing::text::ansi::{self, Colours};
use zsh_tool::testing::text::lines::{
    Choice, Layout, LinePosition, OutputSpan, Piece, Repeats, Room, Shown, lay_out,
};
use zsh_tool::testing::text::redact::Redactor;
use zsh_tool::testing::text::screen::Screen;

/// As much as a worker reads at once.
const CHUNK: usize = 64 * 1024;
/// What a result shows at most, unless more is asked for.
const SHOWN_CHARS: usize = 30_000;
const FRAME_LIMIT: usize = 16 << 20;
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Real command lines: the table that templates are tested with.
const COMMANDS: &str = include_str!("../fixtures/commands/commands.txt");
/// What a terminal got from a program that draws the whole screen.
const FULL_SCREEN: &[u8] = include_bytes!("../fixtures/pty/less.raw");
/// What it got from programs that rewrite the line of their progress.
const REWRITTEN: &[u8] = include_bytes!("../fixtures/pty/git-clone.raw");
/// The stdout of an agent program.
const AGENT: &[u8] = include_bytes!("../fixtures/agents/claude/streams/ok.ndjson");

const PLAIN_LINE: &[u8] = b"the quick brown fox jumps over the lazy dog, 64 bytes in a line\n";
const COLOURED_LINE: &[u8] =
    b"\x1b[1m\x1b[32m   Compiling\x1b[0m zsh-tool v0.1.0 (\x1b[4m/home/somebody/project\x1b[0m)\n";

fn output(criterion: &mut Criterion) {
    let plain = repeated(PLAIN_LINE, CHUNK);
    let mut group = criterion.benchmark_group("output");
    bytes(&mut group, "counting lines", &plain, |output| {
        LinePosition::FIRST.after(output).next_line()
    });
    bytes(&mut group, "plain lines to text", &plain, readable);
    let coloured = repeated(COLOURED_LINE, CHUNK);
    bytes(&mut group, "coloured lines to text", &coloured, readable);
    let rewritten = repeated(REWRITTEN, CHUNK);
    bytes(&mut group, "rewritten lines to text", &rewritten, readable);
    let piece = [OutputSpan::Read(Piece { start: LinePosition::FIRST, bytes: plain.clone() })];
    bytes(&mut group, "laying out a result", &plain, |_| {
        lay_out(
            &piece,
            &Layout {
                room: Room::with_chars(SHOWN_CHARS),
                numbered: true,
                repeats: Repeats::Collapse,
                choice: Choice::Worth { aim: SHOWN_CHARS },
                colours: Colours::Drop,
                columns: None,
                read_call: "zsh_poll task_id=3dc8c9ee",
                raw_call: "",
            },
        )
    });
    let drawing = repeated(FULL_SCREEN, CHUNK);
    let mut screen = Screen::new(24, 80);
    bytes(&mut group, "screen of a terminal", &drawing, |drawing| {
        screen.feed(drawing);
        screen.take_replies()
    });
    group.finish();
}

/// Every line as a result shows it.
fn readable(output: &[u8]) -> usize {
    output
        .split(|byte| *byte == b'\n')
        .map(|line| ansi::readable(line, Colours::Drop, Some(80)).len())
        .sum()
}

fn command_lines(criterion: &mut Criterion) {
    let commands: Vec<&str> = COMMANDS.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let mut group = criterion.benchmark_group("command line");
    group.throughput(Throughput::Elements(commands.len() as u64));
    let each = |what: fn(&str) -> usize| {
        let commands = commands.clone();
        move || commands.iter().map(|command| what(command)).sum::<usize>()
    };
    group.bench_function("reading as zsh does", |bencher| {
        bencher.iter(each(|command| lex(black_box(command)).tokens.len()));
    });
    group.bench_function("reading and template", |bencher| {
        bencher.iter(each(|command| template(&CommandLine::parse(black_box(command))).len()));
    });
    let redactor = Redactor::default();
    let parsed: Vec<CommandLine> = commands.iter().map(|it| CommandLine::parse(*it)).collect();
    let nothing_is_set = |_: &str| false;
    group.bench_function("text written for bash", |bencher| {
        bencher.iter(|| {
            for line in &parsed {
                black_box(Traps::find(line, Dialect::Zsh, &nothing_is_set));
            }
        });
    });
    group.bench_function("redaction", |bencher| {
        let redact = |command: &&str| redactor.redact(black_box(command)).len();
        bencher.iter(|| commands.iter().map(redact).sum::<usize>());
    });
    group.finish();
}

fn redaction(criterion: &mut Criterion) {
    let redactor = Redactor::default();
    let plain = String::from_utf8_lossy(&repeated(PLAIN_LINE, CHUNK)).into_owned();
    let entries = b"DATABASE_PASSWORD=correct-horse-battery user=somebody host=localhost\n";
    let secret = String::from_utf8_lossy(&repeated(entries, CHUNK)).into_owned();
    let mut group = criterion.benchmark_group("redaction of output");
    for (name, output) in [("without a secret", &plain), ("a secret in each line", &secret)] {
        bytes(&mut group, name, output.as_bytes(), |_| redactor.redact(black_box(output)).len());
    }
    group.finish();
}

fn results(criterion: &mut Criterion) {
    let task = LiveTask::new(facts());
    let mut group = criterion.benchmark_group("result");
    group.throughput(Throughput::Elements(1));
    group.bench_function("of a running task", |bencher| {
        bencher.iter(|| rendered(black_box(&task)));
    });
    task.report(|state| {
        state.ended = Some(End {
            exit: Exit::Code(1),
            exit_assumed: false,
            outcome: Outcome::Failure,
            duration: Duration::from_millis(400),
            pipestatus: vec![1, 0],
            moved_to: None,
            output_cut: false,
            cost: None,
            over_memory: None,
        });
    });
    group.bench_function("of a finished task", |bencher| {
        bencher.iter(|| rendered(black_box(&task)));
    });
    group.finish();
}

/// The text and its twin for programs.
fn rendered(task: &LiveTask) -> usize {
    let shown =
        Shown { text: "hello\nworld".to_owned(), from_line: 1, to_line: 2, ..Shown::default() };
    let result = TaskResult {
        shown,
        new_bytes: PerStream { output: 12, errors: 0 },
        ..TaskResult::new(View::take(task), Vec::new())
    };
    let log_path = "/home/somebody/.local/state/zsh-tool/output/3dc8c9ee.0".to_owned();
    let meta = result
        .meta(&task.facts, None, MAX_WAIT, PerStream { output: Some(log_path), errors: None })
        .to_string();
    meta.len() + result.text(&task.facts, None, MAX_WAIT, Palette::Plain, KeptPart::Ends).len()
}

fn facts() -> Facts {
    Facts {
        id: "3dc8c9ee".to_owned(),
        command: "make -j8 test | tee log".to_owned(),
        chosen_shell: None,
        description: None,
        part_of: None,
        detached: None,
        directory: PathBuf::from("/home/somebody/project"),
        started: SystemClock.now(),
        timeout: Some(Duration::from_secs(120)),
        at_timeout: Default::default(),
        memory_max: None,
        sandbox: None,
        input: Input::None,
        shell: Identity { pid: 1, started: 0 },
        start_notes: Vec::new(),
        in_session: false,
    }
}

fn frames(criterion: &mut Criterion) {
    const FRAME: &[u8] = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"zsh","arguments":{"command":"make -j8 test","yield_after":10}}}
"#;
    let stream = repeated(FRAME, CHUNK);
    let mut group = criterion.benchmark_group("protocol");
    group.throughput(Throughput::Elements((stream.len() / FRAME.len()) as u64));
    group.bench_function("frames to messages", |bencher| {
        bencher.iter(|| {
            let mut reader = FrameReader::new(Cursor::new(black_box(&stream)), FRAME_LIMIT);
            let mut messages = 0;
            while let Ok(Some(Ok(frame))) = reader.next_frame() {
                messages += usize::from(message::parse(&frame).is_ok());
            }
            messages
        });
    });
    group.finish();
}

fn tracker(criterion: &mut Criterion) {
    let start = Instant::now();
    let mut group = criterion.benchmark_group("progress");
    group.throughput(Throughput::Elements(1));
    let mut tracker = Tracker::new(TrackerSettings::default(), start);
    let mut now = start;
    let mut totals = Totals::default();
    group.bench_function("a look, a change and a judgement", |bencher| {
        bencher.iter(|| {
            now += Duration::from_secs(10);
            totals.io += 1000;
            totals.output += 64;
            tracker.probe(now, totals, None);
            tracker.change(now, ChangeKind::Output, black_box("12 of 340 tests passed"));
            tracker.status(now)
        });
    });
    let mut tracker = Tracker::new(TrackerSettings::default(), start);
    group.bench_function("a heartbeat", |bencher| {
        bencher.iter(|| tracker.heartbeat(black_box(start)));
    });
    group.finish();
}

fn agents(criterion: &mut Criterion) {
    let executors = Executors::new(&[]).expect("the built-in list");
    let executor = executors.find("claude").expect("a built-in executor");
    let stream = repeated(AGENT, CHUNK);
    let mut group = criterion.benchmark_group("agent");
    bytes(&mut group, "stream to activities", &stream, |stream| {
        let mut framer = Framer::new(executor.framing());
        let mut records = framer.push(stream);
        records.extend(framer.finish());
        let activities = records.iter().map(|record| executor.classify(record).len());
        activities.sum::<usize>()
    });
    group.finish();
}

/// Times work on bytes, told as bytes a second.
fn bytes<R>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    input: &[u8],
    mut work: impl FnMut(&[u8]) -> R,
) {
    group.throughput(Throughput::Bytes(input.len() as u64));
    group.bench_function(name, |bencher| bencher.iter(|| work(black_box(input))));
}

/// Whole copies of `part`, about as many bytes.
fn repeated(part: &[u8], bytes: usize) -> Vec<u8> {
    part.repeat((bytes / part.len()).max(1))
}

criterion_group! {
    name = micro;
    // Shorter than the default, since so many are timed; the spread is told with each.
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = output, command_lines, redaction, results, frames, tracker, agents
}
criterion_main!(micro);
