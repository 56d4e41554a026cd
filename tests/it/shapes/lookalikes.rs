//! Commands that look like a deadlock and are well: something outside of the task, a signal
//! that others send, a timer or a sleeper of the task can end each of these waits.

use super::shape::{First, Shape, asks, healthy};

const TIMER: &[&str] = &["timer"];
const SIGNAL: &[&str] = &["signal"];
const WATCHING: &[&str] = &["watching"];
const IDLE: &[&str] = &["idle"];
/// Of a wait for what only another process can do.
const OUTSIDE: &[&str] = &["idle", "blocked", "silent"];
/// Of what does nothing, and may end though nothing shows it.
const SILENT: &[&str] = &["silent"];
const BUSY: &[&str] = &["busy"];
const AT_WORK: &[&str] = &["slow", "progressing"];

const FIFO: &[First] = &[First::Ran("mkfifo f")];
const FIFO_HELD: &[First] =
    &[First::Ran("mkfifo f"), First::Holds("exec 3<>f; echo held; sleep 300")];

/// The table.
pub const SHAPES: &[Shape] = &[
    // Signals
    healthy(
        "python event that a handler sets",
        "python3 $PROGRAMS/handled.py handler",
        IDLE,
        SIGNAL,
    ),
    healthy("python pool above a handler", "python3 $PROGRAMS/handled.py workers", IDLE, SIGNAL),
    healthy("semaphore that a handler posts", "sleepers handler", IDLE, SIGNAL),
    healthy("signals that are read", "sleepers signals", IDLE, SIGNAL),
    healthy(
        "java latch that a handler counts down",
        "java -cp $BUILT Handled signal",
        IDLE,
        SIGNAL,
    ),
    healthy("ruby that sleeps for ever", "ruby -e 'trap(\"USR1\") { exit }; sleep'", IDLE, SIGNAL),
    healthy(
        "ruby queue that a handler fills",
        "ruby -e 'q = Queue.new; trap(\"USR1\") { Thread.new { q << 1 } }; Thread.new { sleep 300 }; q.pop'",
        IDLE,
        &["signal", "timer"],
    ),
    healthy(
        "php that waits for a signal",
        "php -r 'pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1]); pcntl_sigwaitinfo([SIGUSR1]);'",
        IDLE,
        SIGNAL,
    ),
    healthy(
        "node that waits for a signal",
        "node -e 'process.on(\"SIGUSR2\", process.exit); process.channel; setInterval(() => {}, 1 << 30)'",
        IDLE,
        &["signal", "timer"],
    ),
    healthy(
        "asyncio that waits for a signal",
        "python3 -c 'import asyncio, signal
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
asyncio.run(main())'",
        IDLE,
        SIGNAL,
    ),
    // Timers and sleepers
    healthy("java latch of a schedule", "java -cp $BUILT Handled schedule", IDLE, TIMER),
    healthy("python event of a timer", "python3 $PROGRAMS/handled.py timer", IDLE, TIMER),
    healthy("timer that is read", "sleepers timer", IDLE, TIMER),
    healthy("thread that sleeps, joined", "sleepers sleeper", IDLE, TIMER),
    healthy("pool without work", "python3 $PROGRAMS/handled.py pool", IDLE, TIMER),
    healthy("pool whose work sleeps", "python3 $PROGRAMS/handled.py sleepers", IDLE, TIMER),
    healthy("output that a child's heir holds", "python3 $PROGRAMS/handled.py heir", IDLE, TIMER),
    healthy(
        "substitution that a daemon holds",
        "bash -c 'x=$(setsid sleep 300 & echo started); echo $x'",
        &["idle", "blocked"],
        &["timer", "pipe"],
    ),
    healthy("FIFO whose writer sleeps first", "(sleep 300; print late > f) & cat f", IDLE, TIMER)
        .after(FIFO),
    healthy(
        "FIFO whose writer computes first",
        "(i=0; while ((i < 1 << 40)); do ((i++)); done; print late > f) & cat f",
        AT_WORK,
        BUSY,
    )
    .after(FIFO)
    .computing(),
    healthy(
        "FIFO below npx whose writer sleeps",
        "(sleep 300; print late > f) & npx --offline -c 'cat f'",
        IDLE,
        TIMER,
    )
    .after(FIFO),
    healthy(
        "lock that a sibling holds",
        "flock l sleep 300 & sleep 1; flock l true",
        &["idle", "blocked"],
        &["timer", "lock"],
    ),
    healthy(
        "ruby thread sleeps, main pops",
        "ruby -e 'q = Queue.new; Thread.new { sleep 300; q << 1 }; q.pop'",
        IDLE,
        TIMER,
    ),
    healthy("go channel of a sleeper", "situations-go sleep", IDLE, TIMER),
    healthy(
        "node over a child that sleeps",
        "node -e 'require(\"child_process\").execSync(\"sleep 300\")'",
        IDLE,
        TIMER,
    ),
    healthy("coprocess that sleeps", "coproc { sleep 300; print late }; read -p line", IDLE, TIMER),
    healthy(
        "reader of a slow follower",
        "touch log; tail -f log | grep --line-buffered x | sort",
        IDLE,
        WATCHING,
    ),
    healthy("java that watches files", "java -cp $BUILT Handled files", IDLE, WATCHING),
    healthy(
        "writer behind a slow pipe",
        "yes | pv -q -L 100 > /dev/null",
        &["idle", "slow", "progressing"],
        &[],
    ),
    healthy(
        "alarm over a FIFO",
        "perl -e '$SIG{ALRM} = sub { exit }; alarm 300; open F, q(f)'",
        IDLE,
        TIMER,
    )
    .after(FIFO),
    healthy("timeout over a FIFO", "timeout 300 cat f", IDLE, TIMER).after(FIFO),
    // Its handler is nowhere, and perl has become the reader.
    healthy(
        "alarm before the reader of a FIFO",
        "perl -e 'alarm shift; exec @ARGV' 300 cat f",
        SILENT,
        &[],
    )
    .after(FIFO),
    healthy(
        "alarm over an own pipe",
        "python3 -c 'import signal, os
signal.signal(signal.SIGALRM, lambda *_: exit())
signal.setitimer(signal.ITIMER_REAL, 300)
os.read(os.pipe()[0], 1)'",
        IDLE,
        TIMER,
    ),
    healthy("own pipe that a timer's signal ends", "sleepers ended", IDLE, TIMER),
    healthy("own pipe that a timer's handler fills", "sleepers answered", IDLE, TIMER),
    healthy("own socket that receives for a time", "sleepers receive", IDLE, TIMER),
    healthy("own socket that sends for a time", "sleepers send", IDLE, TIMER),
    healthy("loop of longer sleeps", "until test -e x; do sleep 3; done", IDLE, TIMER),
    healthy(
        "work beside a FIFO below make",
        "print 'all: a b\na:\n\t@cat f\nb:\n\t@while :; do :; done' > Makefile; make -j2",
        AT_WORK,
        &["one process is stuck"],
    )
    .after(FIFO)
    .computing(),
    // A server and its client in one task
    healthy("own server that sleeps", "python3 $PROGRAMS/own_server.py sleep", IDLE, TIMER),
    healthy("own server with a timer", "node $PROGRAMS/own_server.js", IDLE, TIMER),
    healthy(
        "own server that has answered",
        "python3 $PROGRAMS/answered_client.py",
        IDLE,
        &["listening"],
    ),
    healthy(
        "manager whose queue is read for a time",
        "python3 -c 'import multiprocessing as m; m.Manager().Queue().get(timeout=300)'",
        IDLE,
        TIMER,
    ),
    // It never answers, but a request from elsewhere may come.
    healthy("own server over a lock", "python3 $PROGRAMS/own_server.py lock", SILENT, &[]),
    healthy(
        "own server that reads more than curl sends",
        "python3 -c 'import socket, sys
server = socket.create_server((\"127.0.0.1\", int(sys.argv[1])))
client, _ = server.accept()
client.recv(99999)
client.recv(1)' $FREE_PORT & sleep 2; curl -s http://127.0.0.1:$FREE_PORT/",
        SILENT,
        &[],
    ),
    healthy(
        "FIFO beside short commands",
        "cat f & while :; do sleep 0.15; done",
        &["idle", "progressing"],
        TIMER,
    )
    .after(FIFO),
    healthy("lock of its own", "print lock acquired by pid $$; sleep 300", IDLE, TIMER),
    healthy("watcher after a summary", "print Done in 53ms.; touch q; tail -f q", IDLE, WATCHING),
    // Others
    healthy("FIFO that another task holds", "cat f", OUTSIDE, &[]).after(FIFO_HELD),
    healthy("pipe into a FIFO that another task holds", "cat f | sort | wc -l", OUTSIDE, &[])
        .after(FIFO_HELD),
    healthy(
        "FIFO below make that another task holds",
        "print 'all:\\n\\t@cat f' > Makefile; make",
        OUTSIDE,
        &[],
    )
    .after(FIFO_HELD),
    healthy("semaphore in a file", "sleepers shared", OUTSIDE, &[]),
    healthy("semaphore by its creator", "sleepers named", OUTSIDE, &["sem.zsh-tool-shapes"])
        .cleaned_by("sleepers forget"),
    healthy("queue of messages", "sleepers messages", OUTSIDE, &[]).cleaned_by("sleepers remove"),
    healthy("semaphore of the system", "sleepers semaphore", OUTSIDE, &[])
        .cleaned_by("sleepers remove"),
    healthy("end of another task's process", "python3 $PROGRAMS/handled.py process", OUTSIDE, &[])
        .after(&[First::Holds("print $$ > holder.pid; echo held; exec sleep 300")]),
    healthy("messages of the kernel", "dmesg -w > log", &["idle", "blocked"], &[]),
    healthy(
        "netlink socket",
        "python3 -c 'import socket; s = socket.socket(16, socket.SOCK_RAW, 0); s.bind((0, 1)); s.recv(1)'",
        OUTSIDE,
        &[],
    ),
    healthy(
        "two workers of uvicorn",
        "print 'async def app(scope, receive, send): pass' > app.py; uvicorn app:app --workers 2 --port $FREE_PORT",
        IDLE,
        &["listening", "timer"],
    ),
    healthy(
        "two workers of puma",
        "print 'run ->(env) { [200, {}, []] }' > config.ru; puma -w 2 -b tcp://127.0.0.1:$FREE_PORT",
        &["idle", "progressing"],
        &[],
    ),
    // Questions
    asks("bash read with a time limit", "bash -c 'read -t 300 -p \"Continue? \" x'"),
    asks("question below a spinner's parent", "npx --offline -c 'printf \"Proceed? \"; read x'"),
    asks("question of a background reader", "sh -c 'printf \"name: \"; head -n 1' | cat"),
];
