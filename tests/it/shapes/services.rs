//! Servers, watchers, clients of mute servers, and waits for locks and file systems, of
//! many kinds and languages. All are well.

use super::shape::{First, Shape, healthy};

const TIMER: &[&str] = &["timer"];
const LISTENING: &[&str] = &["listening"];
const WATCHING: &[&str] = &["watching"];
const PEER: &[&str] = &["peer"];
const LOCK: &[&str] = &["lock"];
const STOPPED: &[&str] = &["stopped"];
const FUSE: &[&str] = &["FUSE", "fuse", "file system"];
const SCREEN: &[&str] = &["interactive screen"];
const SIGNAL: &[&str] = &["signal"];
const BUSY: &[&str] = &["busy"];
const IDLE: &[&str] = &["idle"];
const BLOCKED: &[&str] = &["blocked"];
const AT_WORK: &[&str] = &["slow", "progressing"];
/// Of what looks again now and then.
const IDLE_OR_AT_WORK: &[&str] = &["idle", "slow", "progressing"];

const CLUSTER: &[First] =
    &[First::Ran("mkdir sock; sh $PROGRAMS/as_user.sh initdb -D data -A trust -N >log 2>&1")];
const JEST: &[First] = &[First::Ran(
    "ln -s $NODE_PATH node_modules; print '{\"name\": \"a\"}' > package.json
print 'test(\"adds\", () => { expect(1 + 1).toBe(2) });' > a.test.js",
)];
const VITEST: &[First] = &[First::Ran(
    "ln -s $NODE_PATH node_modules; print '{\"name\": \"a\", \"type\": \"module\"}' > package.json
print 'import { expect, test } from \"vitest\"; test(\"adds\", () => { expect(1).toBe(1) });' > a.test.js",
)];
const SOURCES: &[First] = &[First::Ran(
    "ln -s $NODE_PATH node_modules; mkdir src; print 'export const a: number = 1;' > src/a.ts
print 'console.log(1)' > src/index.js; print '{\"compilerOptions\": {\"types\": [], \"noEmit\": true}}' > tsconfig.json; print '<p class=\"flex\">' > src/index.html
print '@tailwind utilities;' > src/in.css; print '{\"name\": \"a\"}' > package.json
print 'module.exports = {content: [\"src/*.html\"]}' > tailwind.config.js
print 'exports.default = () => require(\"gulp\").watch(\"src/*\", async () => {})' > gulpfile.js",
)];
const APT: &str = "mkdir -p dpkg/info dpkg/updates lists/partial archives/partial; touch dpkg/status
print 'Dir::State::status \"'$PWD'/dpkg/status\"; Dir::State::lists \"'$PWD'/lists\";
Dir::Cache \"'$PWD'\"; Dir::Cache::archives \"archives\"; Dir::Etc::sourcelist \"'$PWD'/sources\";
Dir::Etc::sourceparts \"/dev/null\"; APT::Sandbox::User \"\"; DPkg::Lock::Timeout \"600\";' > apt.conf
print \"deb [trusted=yes] http://127.0.0.1:$PEER_PORT/ ./\" > sources";
const APT_LOCKED: &[First] = &[
    First::Ran(APT),
    First::Holds("touch dpkg/lock-frontend; python3 $PROGRAMS/hold_file.py dpkg/lock-frontend"),
];

/// The table.
pub const SHAPES: &[Shape] = &[
    // Servers
    healthy("php -S", "php -S 127.0.0.1:$FREE_PORT", IDLE, LISTENING),
    healthy("php -S on a terminal", "php -S 127.0.0.1:$FREE_PORT", IDLE, LISTENING).on_terminal(),
    healthy("webrick", "ruby -run -e httpd -- --bind-address=127.0.0.1 --port=$FREE_PORT .", IDLE, LISTENING),
    healthy(
        "puma",
        "print 'run ->(env) { [200, {}, [\"hello\"]] }' > config.ru; puma -b tcp://127.0.0.1:$FREE_PORT",
        IDLE,
        LISTENING,
    ),
    healthy("java httpserver", "java -cp $BUILT Situations serve", IDLE, LISTENING),
    healthy("go net/http", "situations-go serve", IDLE, LISTENING),
    healthy("rust listener", "situations-rs serve", IDLE, LISTENING),
    healthy("mono listener", "mono $BUILT/Situations.exe serve", IDLE, LISTENING),
    healthy(
        "nginx",
        "print 'daemon off; pid nginx.pid; error_log stderr; events {} http { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; server { listen 127.0.0.1:'$FREE_PORT'; } }' > nginx.conf; nginx -p $PWD -c nginx.conf",
        IDLE,
        LISTENING,
    ),
    healthy(
        "postgres",
        "sh $PROGRAMS/as_user.sh postgres -D data -k $PWD/sock -p $FREE_PORT",
        IDLE,
        LISTENING,
    )
    .after(CLUSTER),
    healthy(
        "mariadbd",
        "mkdir data; mariadbd --no-defaults --skip-grant-tables --user=$USERNAME --datadir=$PWD/data --socket=$PWD/s --port=$FREE_PORT --bind-address=127.0.0.1 --pid-file=$PWD/pid",
        IDLE,
        LISTENING,
    ),
    healthy("memcached", "memcached -u $USERNAME -l 127.0.0.1 -p $FREE_PORT", IDLE, LISTENING),
    healthy("epmd", "epmd -address 127.0.0.1 -port $FREE_PORT", IDLE, LISTENING),
    healthy(
        "erlang listener",
        "erl -noshell -eval '{ok, L} = gen_tcp:listen(0, [{ip, {127,0,0,1}}]), gen_tcp:accept(L).'",
        IDLE,
        LISTENING,
    ),
    healthy(
        "elixir listener",
        "elixir --no-halt -e '{:ok, _} = :gen_tcp.listen(0, ip: {127, 0, 0, 1})'",
        IDLE,
        LISTENING,
    ),
    healthy(
        "lighttpd",
        "print 'server.document-root = \"'$PWD'\"\\nserver.bind = \"127.0.0.1\"\\nserver.port = '$FREE_PORT > l.conf; lighttpd -D -f l.conf",
        IDLE,
        LISTENING,
    ),
    healthy(
        "haproxy",
        "print 'defaults\\n mode http\\n timeout client 1m\\n timeout server 1m\\n timeout connect 1m\\nfrontend a\\n bind 127.0.0.1:'$FREE_PORT > h.cfg; haproxy -db -f h.cfg",
        IDLE,
        LISTENING,
    ),
    healthy("mosquitto", "mosquitto -p $FREE_PORT", IDLE, LISTENING),
    healthy("beanstalkd", "beanstalkd -l 127.0.0.1 -p $FREE_PORT", IDLE, LISTENING),
    healthy("nats-server", "nats-server -a 127.0.0.1 -p $FREE_PORT", IDLE, LISTENING),
    healthy(
        "etcd",
        "etcd --data-dir data --listen-client-urls http://127.0.0.1:$FREE_PORT --advertise-client-urls http://127.0.0.1:$FREE_PORT --listen-peer-urls unix://peer:0 --log-level error",
        IDLE_OR_AT_WORK,
        &[],
    ),
    healthy(
        "dnsmasq",
        "dnsmasq -k -C /dev/null -p $FREE_PORT -u $USERNAME -x $PWD/pid --listen-address=127.0.0.1 --bind-interfaces",
        IDLE,
        LISTENING,
    ),
    healthy("distccd", "distccd --no-detach --daemon --allow 127.0.0.1 --listen 127.0.0.1 -p $FREE_PORT --user nobody --log-stderr", IDLE, LISTENING),
    healthy("git daemon", "git daemon --listen=127.0.0.1 --port=$FREE_PORT --base-path=.", IDLE, LISTENING),
    healthy("rsync --daemon", "print -l 'use chroot = no' '[a]' 'path = .' > r.conf; rsync --daemon --no-detach --address=127.0.0.1 --port=$FREE_PORT --config=r.conf", IDLE, LISTENING),
    healthy("dbus-daemon", "dbus-daemon --session --nofork --address=unix:path=$PWD/bus", IDLE, LISTENING),
    healthy(
        "openssl s_server",
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=a -keyout k -out c 2>/dev/null; openssl s_server -accept 127.0.0.1:$FREE_PORT -key k -cert c",
        IDLE,
        LISTENING,
    ),
    healthy(
        "flask",
        "print 'from flask import Flask; app = Flask(__name__)' > app.py; flask run --port $FREE_PORT",
        IDLE,
        LISTENING,
    ),
    healthy(
        "flask that reloads",
        "print 'from flask import Flask; Flask(__name__).run(port='$FREE_PORT', debug=True, reloader_type=\"stat\")' > app.py; python3 app.py",
        IDLE_OR_AT_WORK,
        LISTENING,
    )
    .on_terminal(),
    healthy(
        "uvicorn",
        "print 'async def app(scope, receive, send): pass' > app.py; uvicorn app:app --port $FREE_PORT",
        IDLE,
        LISTENING,
    ),
    healthy(
        "django runserver",
        "django-admin startproject site_of .; python3 manage.py runserver 127.0.0.1:$FREE_PORT",
        IDLE_OR_AT_WORK,
        LISTENING,
    ),
    healthy("twist web", "twist web --listen tcp:$FREE_PORT:interface=127.0.0.1", IDLE, LISTENING),
    healthy("http-server of npm", "http-server -a 127.0.0.1 -p $FREE_PORT", IDLE, LISTENING),
    healthy("vite", "vite --host 127.0.0.1 --port $FREE_PORT", IDLE, &["listening", "watching"])
        .on_terminal()
        .after(SOURCES),
    healthy(
        "mkdocs serve",
        "print 'site_name: a' > mkdocs.yml; mkdir docs; print '# a' > docs/index.md; mkdocs serve -a 127.0.0.1:$FREE_PORT",
        IDLE_OR_AT_WORK,
        &["listening", "watching"],
    ),
    healthy(
        "supervisord",
        "print -l '[supervisord]' '[program:a]' 'command=sleep 300' > s.conf; supervisord -n -c s.conf",
        IDLE,
        TIMER,
    ),
    healthy(
        "celery worker",
        "print 'from celery import Celery; app = Celery(broker=\"memory://\")' > jobs.py; celery -A jobs worker -c 1",
        IDLE_OR_AT_WORK,
        &[],
    ),
    healthy("go waits for ^C", "situations-go interrupt", IDLE, SIGNAL),
    healthy(
        "java after its main thread",
        "java -cp $BUILT Situations sleep",
        IDLE,
        TIMER,
    ),
    healthy("go sleeps", "situations-go sleep", IDLE, TIMER),
    healthy("mono sleeps", "mono $BUILT/Situations.exe sleep", IDLE, TIMER),
    healthy("ruby sleeps", "ruby -e 'sleep 300'", IDLE, TIMER),
    healthy("php sleeps", "php -r 'sleep(300);'", IDLE, TIMER),
    healthy("erlang sleeps", "erl -noshell -eval 'timer:sleep(300000).'", IDLE, TIMER),
    healthy("npm over a sleep", "print '{\"scripts\": {\"wait\": \"sleep 300\"}}' > package.json; npm run wait", IDLE, TIMER),
    healthy("ruby over a sleep", "ruby -e 'system \"sleep 300\"'", IDLE, TIMER),
    healthy("java over a sleep", "java -cp $BUILT Situations child sleep 300", IDLE, TIMER),
    healthy("go over a sleep", "situations-go child sleep 300", IDLE, TIMER),
    healthy("concurrently over sleeps", "concurrently 'sleep 300' 'sleep 299'", IDLE, TIMER),
    healthy(
        "jshell over a script",
        "print 'Thread.sleep(300000);' > s.jsh; jshell s.jsh",
        IDLE_OR_AT_WORK,
        &[],
    )
    .on_terminal(),
    healthy("gnuplot pauses", "gnuplot -e 'pause 300'", IDLE, TIMER).on_terminal(),
    // Watchers
    healthy("jest --watchAll", "jest --watchAll", IDLE, WATCHING).on_terminal().after(JEST),
    healthy("vitest", "vitest", IDLE, WATCHING).on_terminal().after(VITEST),
    healthy("vitest without a terminal", "vitest --watch", IDLE, WATCHING).after(VITEST),
    healthy(
        "tailwind -w",
        "tailwindcss -i src/in.css -o out.css -w",
        IDLE,
        WATCHING,
    )
    .on_terminal()
    .after(SOURCES),
    healthy("nodemon", "nodemon src/index.js", IDLE, WATCHING).on_terminal().after(SOURCES),
    healthy("tsc -w", "tsc -w", IDLE, WATCHING).on_terminal().after(SOURCES),
    healthy("tsc -w without a terminal", "tsc -w", IDLE, WATCHING).after(SOURCES),
    healthy("webpack --watch", "webpack --watch --mode development", IDLE, WATCHING)
        .on_terminal()
        .after(SOURCES),
    healthy(
        "esbuild --watch",
        "esbuild src/index.js --bundle --outfile=out.js --watch",
        IDLE_OR_AT_WORK,
        &[],
    )
    .on_terminal()
    .after(SOURCES),
    healthy("mocha --watch", "mocha --watch empty.js", IDLE, WATCHING)
        .on_terminal()
        .after(&[First::Ran("print 'it(\"works\", () => {});' > empty.js")]),
    healthy("rollup -w", "rollup -w -i src/index.js -o out.js", IDLE, WATCHING)
        .on_terminal()
        .after(SOURCES),
    healthy("gulp watch", "gulp", IDLE, WATCHING).on_terminal().after(SOURCES),
    healthy("chokidar", "chokidar '*.txt' -c true", IDLE, WATCHING),
    healthy("watchfiles", "watchfiles true .", IDLE_OR_AT_WORK, &["watching", "timer"]),
    // Its prompt reads the terminal in the same process.
    healthy(
        "guard",
        "print 'class Guard::Say < Guard::Plugin; end\nguard(:say) { watch(/a/) }' > Guardfile; ruby -rguard -rguard/cli -e 'Guard::CLI.start'",
        IDLE,
        WATCHING,
    )
    .on_terminal(),
    healthy("tail -f below ruby", "touch log; ruby -e 'system \"tail -f log\"'", IDLE, WATCHING),
    // Screens
    healthy("ranger", "ranger", IDLE, SCREEN).on_terminal(),
    healthy("nnn", "nnn", IDLE, SCREEN).on_terminal(),
    healthy("textual", "python3 $PROGRAMS/textual_app.py", IDLE, SCREEN).on_terminal(),
    healthy("blessed", "node $PROGRAMS/blessed.js", IDLE, SCREEN).on_terminal(),
    healthy("calcurse", "calcurse -D data", IDLE, SCREEN).on_terminal(),
    healthy("screen over a sleep", "screen -S corpus sleep 300", &["idle", "blocked"], &[])
        .on_terminal()
        .cleaned_by("screen -S corpus -X quit; true"),
    // Peers
    healthy("ruby gets", "ruby -rnet/http -e 'Net::HTTP.get(URI(\"http://127.0.0.1:#{ENV[%q(PEER_PORT)]}/\"))'", BLOCKED, PEER),
    healthy("php gets", "php -d default_socket_timeout=300 -r 'file_get_contents(\"http://127.0.0.1:\".getenv(\"PEER_PORT\").\"/\");'", &["blocked"], PEER),
    healthy("java gets", "java -cp $BUILT Situations get http://127.0.0.1:$PEER_PORT/", BLOCKED, PEER),
    healthy("go gets", "situations-go get http://127.0.0.1:$PEER_PORT/", BLOCKED, PEER),
    healthy("npm asks a registry", "npm view a --registry http://127.0.0.1:$PEER_PORT/ --fetch-timeout=300000", BLOCKED, PEER),
    healthy("pip asks an index", "pip download --no-deps --timeout 300 -i http://127.0.0.1:$PEER_PORT/ a", BLOCKED, PEER),
    healthy("git clone over http", "git clone http://127.0.0.1:$PEER_PORT/a", BLOCKED, PEER),
    healthy("lftp", "lftp -c 'set net:timeout 300; open http://127.0.0.1:'$PEER_PORT'; cat a'", BLOCKED, PEER),
    healthy("redis-cli asks", "redis-cli -p $PEER_PORT ping", BLOCKED, PEER),
    healthy("rsync from a daemon", "rsync rsync://127.0.0.1:$PEER_PORT/a .", BLOCKED, PEER),
    healthy("apt-get update", "apt-get -c apt.conf -o Acquire::http::Timeout=300 update", BLOCKED, PEER)
        .on_terminal()
        .after(&[First::Ran(APT)]),
    healthy("ssh-keyscan", "ssh-keyscan -T 300 -p $PEER_PORT 127.0.0.1", BLOCKED, PEER),
    healthy("openssl s_client", "openssl s_client -connect 127.0.0.1:$PEER_PORT", BLOCKED, PEER),
    healthy("perl gets below make", "print 'all:\\n\\t@perl -MHTTP::Tiny -e '\"'HTTP::Tiny->new(timeout => 300)->get(\\\"http://127.0.0.1:$PEER_PORT/\\\")'\" > Makefile; make", BLOCKED, PEER),
    healthy(
        "debugpy and its adapter",
        "python3 -m debugpy --listen 127.0.0.1:$FREE_PORT --wait-for-client -c pass",
        IDLE,
        LISTENING,
    ),
    // Locks
    healthy("apt-get beside a held lock", "apt-get -c apt.conf install -y a", BLOCKED, LOCK)
        .after(APT_LOCKED)
        .repeating(),
    healthy("apt-get beside a held lock on a terminal", "apt-get -c apt.conf install -y a", BLOCKED, LOCK)
        .on_terminal()
        .after(APT_LOCKED)
        .repeating(),
    healthy("apt-get below a script beside a held lock", "sh -c 'apt-get -c apt.conf remove -y a; echo done'", BLOCKED, LOCK)
        .after(APT_LOCKED)
        .repeating(),
    healthy("flock whose holder is stopped", "flock build.lock true", BLOCKED, STOPPED).after(&[
        First::Holds("flock build.lock sh -c 'echo held; kill -STOP $$ $PPID'"),
    ]),
    healthy("record lock whose holder is stopped", "python3 $PROGRAMS/hold_file.py records", BLOCKED, STOPPED).after(&[
        First::Holds("touch records; python3 $PROGRAMS/hold_file.py records & sleep 2; kill -STOP $!; wait"),
    ]),
    healthy("ruby flock", "ruby -e 'File.open(\"build.lock\", \"w\").flock(File::LOCK_EX)'", BLOCKED, LOCK)
        .after(&[First::Holds("flock build.lock sh -c 'echo held; sleep 300'")]),
    healthy("php flock", "php -r 'flock(fopen(\"build.lock\", \"w\"), LOCK_EX);'", BLOCKED, LOCK)
        .after(&[First::Holds("flock build.lock sh -c 'echo held; sleep 300'")]),
    healthy("java file lock", "java -cp $BUILT Situations lock records", BLOCKED, LOCK)
        .after(&[First::Holds("touch records; python3 $PROGRAMS/hold_file.py records")]),
    healthy("go flock", "situations-go lock build.lock", BLOCKED, LOCK)
        .after(&[First::Holds("flock build.lock sh -c 'echo held; sleep 300'")]),
    healthy("perl flock below npm", "print 'open F, q(>build.lock); flock F, 2' > l.pl; print '{\"scripts\": {\"a\": \"perl l.pl\"}}' > package.json; npm run a", BLOCKED, LOCK)
        .after(&[First::Holds("flock build.lock sh -c 'echo held; sleep 300'")]),
    healthy(
        "cargo beside a held lock",
        "cargo build --offline",
        BLOCKED,
        LOCK,
    )
    .after(&[
        First::Ran("cargo init -q --name a --vcs none . && cargo build -q --offline"),
        First::Holds("flock target/debug/.cargo-lock sh -c 'echo held; sleep 300'"),
    ]),
    healthy(
        "python waits for sqlite",
        "python3 -c 'import sqlite3; sqlite3.connect(\"base\", timeout=600).execute(\"create table two (x)\")'",
        &["idle", "blocked", "slow"],
        &[],
    )
    .after(&[First::Holds(
        "{ print 'begin exclusive;'; print '.print held'; sleep 300 } | sqlite3 base",
    )]),
    // File systems
    healthy("read of a slow FUSE file", "cat mnt/slow", BLOCKED, FUSE)
        .after(&[First::Ran("mkdir mnt"), First::Holds("python3 $PROGRAMS/slow_fuse.py mnt")])
        .cleaned_by("fusermount -u -z mnt; true"),
    healthy("list of a slow FUSE folder", "ls mnt/deep", BLOCKED, FUSE)
        .after(&[First::Ran("mkdir mnt"), First::Holds("python3 $PROGRAMS/slow_fuse.py mnt")])
        .cleaned_by("fusermount -u -z mnt; true"),
    healthy("tar of a slow FUSE file", "tar cf - mnt/slow | gzip > slow.tar.gz", BLOCKED, FUSE)
        .after(&[First::Ran("mkdir mnt"), First::Holds("python3 $PROGRAMS/slow_fuse.py mnt")])
        .cleaned_by("fusermount -u -z mnt; true"),
    // Work
    healthy("java computes", "java -cp $BUILT Situations compute", AT_WORK, BUSY).computing(),
    healthy("go computes", "situations-go compute", AT_WORK, BUSY).computing(),
    healthy("ruby computes below npx", "npx --offline -c \"ruby -e 'i = 0; loop { i = (i * 31 + 7) % 1000003 }'\"", AT_WORK, BUSY).computing(),
];
