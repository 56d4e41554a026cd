//! Commands that cannot end: a child that is stuck below a runtime or a build tool,
//! deadlocks of many runtimes, pipes without another end, and input that cannot come.

use super::shape::{First, Shape, stuck};

const DEADLOCK: &[&str] = &["deadlock"];
/// What nothing can write to any more, or read from.
const NO_OTHER_END: &[&str] = &["deadlock", "FIFO", "pipe"];
/// What is read is held by the task itself or by the server.
const NO_INPUT: &[&str] = &["input", "deadlock", "pipe"];

const FIFO: &[First] = &[First::Ran("mkfifo f")];
const SCRIPT: &[First] = &[First::Ran(
    "print '{\"name\": \"a\", \"scripts\": {\"hang\": \"mkfifo f; cat f\"}}' > package.json",
)];
const REPOSITORY: &[First] = &[First::Ran(
    "git init -q . && git config user.name Ada && git config user.email ada@localhost \
     && print one > a && git add a && git commit -qm one && print two > a && git commit -qam two",
)];

/// The table.
pub const SHAPES: &[Shape] = &[
    // A stuck child
    stuck("npm run over a FIFO", "npm run hang", NO_OTHER_END).after(SCRIPT),
    stuck("npx over a FIFO", "npx --offline -c 'cat f'", NO_OTHER_END).after(FIFO),
    stuck("pnpm run over a FIFO", "pnpm run hang", NO_OTHER_END).after(SCRIPT),
    stuck("yarn run over a FIFO", "yarn run hang", NO_OTHER_END).after(SCRIPT),
    stuck(
        "node over a FIFO",
        "node -e 'require(\"child_process\").execSync(\"mkfifo f; cat f\")'",
        NO_OTHER_END,
    ),
    stuck(
        "node that spawns over a FIFO",
        "node -e 'require(\"child_process\").spawn(\"cat\", [\"f\"], {stdio: \"inherit\"})'",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "node over a reader of its pipe",
        "node -e 'require(\"child_process\").spawn(\"cat\", {stdio: [\"pipe\", 1, 2]})'",
        NO_INPUT,
    ),
    stuck("concurrently over a FIFO", "concurrently 'cat f' 'cat f'", NO_OTHER_END).after(FIFO),
    stuck("make over a FIFO", "print 'all:\\n\\t@cat f' > Makefile; make -j2", NO_OTHER_END)
        .after(FIFO),
    stuck(
        "ninja over a FIFO",
        "print 'rule hang\\n  command = cat f\\nbuild a: hang' > build.ninja; ninja",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "scons over a FIFO",
        "print 'Command(\"a\", [], \"cat f\")' > SConstruct; scons -Q",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "ant over a FIFO",
        "print '<project default=\"a\"><target name=\"a\"><exec executable=\"cat\"><arg value=\"f\"/></exec></target></project>' > build.xml; ant -q",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "gulp over a FIFO",
        "ln -s $NODE_PATH node_modules; print 'exports.default = (done) => require(\"child_process\").exec(\"cat f\", done)' > gulpfile.js; gulp",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "invoke over a FIFO",
        "print 'from invoke import task\\n@task\\ndef hang(c):\\n    c.run(\"cat f\", in_stream=False)' > tasks.py; invoke hang",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck("ruby over a FIFO", "ruby -e 'system \"cat f\"'", NO_OTHER_END).after(FIFO),
    stuck("ruby that reads from a FIFO's reader", "ruby -e 'puts `cat f`'", NO_OTHER_END)
        .after(FIFO),
    stuck(
        "rake over a FIFO",
        "print 'task(:default) { sh \"cat f\" }' > Rakefile; rake",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "python over a FIFO",
        "python3 -c 'import subprocess; subprocess.run([\"cat\", \"f\"])'",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "pytest over a FIFO",
        "print 'import subprocess\\ndef test_a():\\n    subprocess.check_output([\"cat\", \"f\"])' > test_a.py; pytest -q",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck("asyncio over a FIFO", "python3 $PROGRAMS/lost_event.py loop-child", NO_OTHER_END)
        .after(FIFO),
    stuck("perl over a FIFO", "perl -e 'system \"cat\", \"f\"; print 1'", NO_OTHER_END).after(FIFO),
    stuck("php over a FIFO", "php -r 'passthru(\"cat f\");'", NO_OTHER_END).after(FIFO),
    stuck("java over a FIFO", "java -cp $BUILT Situations child cat f", NO_OTHER_END).after(FIFO),
    stuck("go over a FIFO", "situations-go child cat f", NO_OTHER_END).after(FIFO),
    stuck("go that reads from a FIFO's reader", "situations-go output cat f", NO_OTHER_END)
        .after(FIFO),
    stuck("mono over a FIFO", "mono $BUILT/Situations.exe child cat f", NO_OTHER_END).after(FIFO),
    stuck("lua over a FIFO", "lua5.4 -e 'print(io.popen(\"cat f\"):read())'", NO_OTHER_END)
        .after(FIFO),
    stuck(
        "gawk over a FIFO",
        "gawk 'BEGIN { \"cat f\" | getline line; print line }'",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck(
        "cargo over a FIFO",
        "cargo init -q --name a --vcs none .; print 'fn main() { let _ = std::fs::read(\"f\"); }' > build.rs; cargo build -q --offline",
        NO_OTHER_END,
    )
    .after(FIFO),
    stuck("bash over a FIFO", "bash -c 'x=$(cat f); echo $x'", NO_OTHER_END).after(FIFO),
    stuck("fish over a FIFO", "fish -c 'cat f; echo done'", NO_OTHER_END).after(FIFO),
    stuck("parallel over a FIFO", "parallel -u cat ::: f", NO_OTHER_END).after(FIFO),
    stuck("script over a FIFO", "script -qc 'cat f' /dev/null", NO_OTHER_END)
        .on_terminal()
        .after(FIFO),
    stuck(
        "expect over a FIFO",
        "expect -c 'set timeout -1; spawn cat f; expect eof'",
        NO_OTHER_END,
    )
    .after(FIFO),
    // Locks
    stuck("vfork over a FIFO", "python3 $PROGRAMS/vfork_fifo.py", &["FIFO"]).after(FIFO),
    stuck(
        "lock that its holder takes again",
        "python3 -c 'import fcntl
held, wanted = open(\"l\", \"w\"), open(\"l\", \"w\")
fcntl.flock(held, fcntl.LOCK_EX)
fcntl.flock(wanted, fcntl.LOCK_EX)'",
        &["which it holds itself"],
    ),
    stuck("semaphore without a name", "sleepers unnamed", &["the only thread"]),
    stuck("go pipe", "situations-go pipe", DEADLOCK),
    stuck("java synchronized", "java -cp $BUILT Situations synchronized", DEADLOCK),
    stuck("java locks", "java -cp $BUILT Situations locks", DEADLOCK),
    stuck("java pool of one thread", "java -cp $BUILT Situations pool", DEADLOCK),
    stuck("java queue", "java -cp $BUILT Situations queue", DEADLOCK),
    stuck("java latch", "java -cp $BUILT Situations latch", DEADLOCK),
    stuck("go mutexes", "situations-go mutexes", DEADLOCK),
    stuck("go mutexes beside C", "situations-cgo found", DEADLOCK),
    stuck("go channel", "situations-go channel", DEADLOCK),
    stuck("go group", "situations-go group", DEADLOCK),
    stuck("go calls C that takes a lock twice", "cgo_locks", DEADLOCK),
    stuck("rust mutexes", "situations-rs mutexes", DEADLOCK),
    stuck("rust channel", "situations-rs channel", DEADLOCK),
    stuck("rust condition", "situations-rs condition", DEADLOCK),
    stuck("mono locks", "mono $BUILT/Situations.exe locks", DEADLOCK),
    stuck("mono event", "mono $BUILT/Situations.exe event", DEADLOCK),
    stuck(
        "ruby mutex",
        "ruby -e 'm = Mutex.new; r, = $ends = IO.pipe; Thread.new { m.synchronize { r.read } }; sleep 0.2; m.lock'",
        NO_OTHER_END,
    ),
    stuck(
        "ruby queue",
        "ruby -e 'q = Queue.new; r, = $ends = IO.pipe; Thread.new { q << r.read }; q.pop'",
        NO_OTHER_END,
    ),
    stuck("python event", "python3 $PROGRAMS/lost_event.py event", DEADLOCK),
    stuck("python pool of one thread", "python3 $PROGRAMS/lost_event.py pool", DEADLOCK),
    stuck("python queue that is joined", "python3 $PROGRAMS/lost_event.py join", DEADLOCK),
    stuck("asyncio event", "python3 $PROGRAMS/lost_event.py loop", NO_INPUT),
    stuck("asyncio and its thread", "python3 $PROGRAMS/lost_event.py executor", DEADLOCK),
    stuck(
        "python queue between processes",
        "python3 $PROGRAMS/lost_event.py process-queue",
        NO_OTHER_END,
    ),
    stuck("readers who want to write", "read_write_lock", DEADLOCK),
    stuck("node Atomics", "node $PROGRAMS/atomics.js", DEADLOCK),
    stuck("node worker on Atomics", "node $PROGRAMS/atomics.js worker", DEADLOCK),
    // Pipes
    stuck("python over cat on its pipe", "python3 $PROGRAMS/lost_event.py open-pipe", NO_INPUT),
    stuck("php and its child", "php -d default_socket_timeout=-1 $PROGRAMS/forked.php", DEADLOCK),
    stuck("pair of sockets", "own_ends sockets", NO_OTHER_END),
    stuck("counter of events", "own_ends counter", DEADLOCK),
    stuck("full pipe without a reader", "own_ends", NO_OTHER_END),
    stuck("full pipe behind a FIFO", "seq 1000000 | (cat f; cat)", NO_OTHER_END).after(FIFO),
    stuck(
        "FIFO below a directory that is open",
        "mkdir d; mkfifo d/f; python3 -c 'import os; os.open(\"f\", os.O_RDONLY, dir_fd=os.open(\"d\", os.O_RDONLY))'",
        NO_OTHER_END,
    ),
    stuck("FIFO open at both ends", "exec 3<>f; read -u 3 line", NO_OTHER_END).after(FIFO),
    stuck(
        "perl open2",
        "perl -MIPC::Open2 -e 'open2(my $r, my $w, \"cat\"); print scalar <$r>'",
        NO_INPUT,
    ),
    stuck("bash coproc", "bash -c 'coproc cat; read -u ${COPROC[0]} line'", NO_INPUT),
    // Input that cannot come
    stuck("git amends in vim", "GIT_EDITOR='vim -u NONE' git commit --amend", NO_INPUT)
        .after(REPOSITORY),
    stuck(
        "git rebases in vim",
        "GIT_SEQUENCE_EDITOR='vim -u NONE' git rebase -i HEAD~1",
        NO_INPUT,
    )
    .after(REPOSITORY),
    stuck("vim without a terminal", "vim -u NONE text", NO_INPUT),
    stuck(
        "python selects its output",
        "python3 -c 'import os,select; os.dup2(2,0); select.select([0],[],[])'",
        NO_INPUT,
    ),
    stuck(
        "perl selects its output",
        "perl -e 'my $r = \"\"; vec($r, 2, 1) = 1; select($r, undef, undef, undef)'",
        NO_INPUT,
    ),
    stuck(
        "python polls its output",
        "python3 -c 'import select; p = select.poll(); p.register(1, select.POLLIN); p.poll()'",
        NO_INPUT,
    ),
    // Locks of files, and terminals
    stuck("two locks of files", "perl $PROGRAMS/two_files.pl", &["deadlock", "lock"]),
    stuck(
        "own terminal",
        "python3 -c 'import os; own, other = os.openpty(); os.read(other, 1)'",
        NO_OTHER_END,
    ),
    stuck("lock of the parent", "flock l flock l true", &["deadlock", "lock"]),
    stuck("lock of the script's descriptor", "exec 9>l; flock 9; flock l true", DEADLOCK),
    stuck("lock of bash's descriptor", "bash -c '(flock 8; flock l true; exit) 8>l; exit'", DEADLOCK),
];
