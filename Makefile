# Every target works on a fresh Debian machine that has Rust: what else is missing,
# scripts/need installs and says so. `make` alone lists the targets.
# install and uninstall honour PREFIX (default ~/.claude/plugins) and DESTDIR.

.DEFAULT_GOAL := help
.PHONY: help build build-tests test-programs demo demo-static test test-long test-portable test-xnu-poll check-macos check-linux test-by-host test-sandboxed test-static test-arm64 test-clients install uninstall static release bench replay fuzz deny fmt lint ci

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## Build the release binary, target/release/zsh-tool.
	@scripts/need cargo cc
	cargo build --release

demo: ## Build, then show a client session with the real server.
	@scripts/need cargo cc zsh man python3 less page:tee
	cargo build --release
	python3 scripts/demo target/release/zsh-tool

demo-static: static ## Show the session with the static binary in an empty root; needs root.
	scripts/demo-in-empty-root

# What the Rust tests drive.
PROGRAMS = zsh zsh-static man bash python3 infocmp make vim less gdb node git ssh sshd \
	dialog whiptail sudo su passwd setpriv script top htop vi lolcat
# What the corpus of shapes runs besides.
PROGRAMS += npm sqlite3 bc ed nano fzf tmux rlwrap expect lua5.4 irb gpg \
	pinentry-curses openssl redis-cli busybox nc socat telnet tnftp \
	direnv inotifywait entr strace curl psql flock xz watch
# Programs of many kinds, for the verdict on each.
PROGRAMS += php nginx memcached webrick erl iex guard ranger nnn guile fish mc javac redis-cli dash
# Those of the long form besides.
LONG_PROGRAMS = go cmake mvn mcs mono puma postgres mariadbd lighttpd haproxy mosquitto beanstalkd \
	nats-server etcd dnsmasq distccd rsync dbus-daemon gnuplot calcurse screen lftp fusermount \
	gawk dc calc units sbcl swipl gforth newlisp jimsh tclsh pry ksh tcsh mksh ninja scons ant \
	parallel pv rake aspell fdisk cfdisk parted s-nail mutt tig ncdu w3m
PAGES = ls tar grep git-push curl bash rsync find ssh jq gzip
# Tests wait for processes more than they work: more at once than there are cores.
export RUST_TEST_THREADS ?= 6

build-tests:
	@scripts/need cargo cc
	cargo test --no-run
	cargo test --no-run --features shuttle --test model

test-programs:
	@scripts/need $(PROGRAMS)
	@scripts/need $(addprefix page:,$(PAGES))
	@scripts/zsh-suite
	@scripts/shape-programs

test: test-programs ## Run the Rust tests with the real zsh and man, and the model check.
	@scripts/need cargo cc
	cargo test
	@$(MAKE) --no-print-directory test-by-host
	cargo test --features shuttle --test model

# SOAK_CALLS and LAST_LINES say how many calls and commands the soaks take, SOAK_MINUTES how long the
# one with kills goes on.
test-long: ## Bear faults for long, watch process shapes, run all of zsh's own tests, many calls, long calls.
	@scripts/need cargo cc $(PROGRAMS) $(LONG_PROGRAMS)
	@scripts/zsh-suite
	@scripts/shape-programs long
	@$(MAKE) --no-print-directory test-sandboxed
	cargo test --test it -- --ignored long::
	RUST_TEST_THREADS=1 cargo test --test it -- --ignored soak:: soak_restarts::
	tests/clients/run long

test-portable: ## Run the Rust tests without what Linux alone can do.
	@scripts/need cargo cc $(PROGRAMS)
	@scripts/need $(addprefix page:,$(PAGES))
	@scripts/shape-programs
	scripts/test-but tests/portable.txt '' --features portable --lib --bins --test it --test layering

# A preload reaches the poll(2) of the C library, which rustix calls with use-libc.
XNU_POLL = target/xnu_poll.so
$(XNU_POLL): tests/xnu_poll.c
	@scripts/need cc
	@mkdir -p target
	cc -O2 -Wall -Wextra -shared -fPIC -o $@ $<

test-xnu-poll: $(XNU_POLL) ## Run the tests of test-portable with the poll(2) of macOS, which reports less.
	@scripts/need cargo cc $(PROGRAMS)
	@scripts/need $(addprefix page:,$(PAGES))
	@scripts/shape-programs
	@cat tests/portable.txt tests/xnu_poll.txt >target/xnu_poll.txt
	scripts/test-but target/xnu_poll.txt '' --features portable,rustix/use-libc \
		--lib --bins --test it --test layering \
		--config "target.'cfg(unix)'.runner = ['env', 'LD_PRELOAD=$(CURDIR)/$(XNU_POLL)']"

check-macos: ## Type-check for macOS on both processors.
	scripts/check-macos

check-linux: ## Build for Linux on both processors, unoptimized, and run a command with each binary.
	scripts/check-linux

# By a carrier that stays on this machine.
BY_HOST = command_text exit_codes output kill pty keys screen waiting timing late_output leftovers \
	line_view long_lines listen_window sessions programs
test-by-host: ## Run the tests of the core, of terminals and of kills once more, on a host.
	@scripts/need cargo cc $(PROGRAMS)
	ZSH_TOOL_TESTS_BY_HOST=1 scripts/test-but tests/by_host.txt \
		'^($(shell echo $(BY_HOST) | tr ' ' '|'))::' --test it

test-sandboxed: ## Watch the process shapes once more, each in a sandbox.
	@scripts/need cargo cc $(PROGRAMS)
	@scripts/shape-programs
	ZSH_TOOL_TESTS_SANDBOX=workspace cargo test --test it shapes::

test-static: static ## Run the integration tests with the static binary.
	@scripts/need cargo cc $(PROGRAMS)
	@scripts/need $(addprefix page:,$(PAGES))
	@scripts/shape-programs
	ZSH_TOOL_BIN=$(CURDIR)/target/x86_64-unknown-linux-musl/release/zsh-tool cargo test --test it

test-clients: ## Drive the server with the official SDKs, Claude Code and a browser.
	tests/clients/run

test-arm64: ## Run the integration tests with the static binary for arm64, emulated by qemu.
	@scripts/need cargo cc $(PROGRAMS)
	@scripts/need $(addprefix page:,$(PAGES))
	@scripts/shape-programs
	scripts/test-arm64

install: build ## Install the Claude Code plugin under ~/.claude/plugins and enable it.
	scripts/install

uninstall: ## Take back what install did; data/ stays.
	scripts/uninstall

static: ## Build the static musl binary.
	scripts/build-static.sh

release: ## Make all packages of a release, target/release-files; TARGETS=some, URL=where they will be.
	scripts/release $(TARGETS)

bench: build static test-programs ## Measure the performance figures, with peers beside it; writes data/benchmarks.md.
	@scripts/need cargo cc zsh python3 python3-venv node npm ssh sshd
	python3 tests/bench/run.py --save data/benchmarks.md

# Every fourth line takes some minutes; EVERY=1 takes all.
replay: build ## Run command lines of many packages beside bare zsh and bash, and compare all that they do.
	@scripts/need cargo cc zsh bash python3 python3-venv git jq unshare
	python3 tests/replay/run.py --every $(or $(EVERY),4)

fuzz: ## Fuzz the parsers, each for TIME=60 seconds; needs a nightly toolchain.
	@scripts/need cargo cc c++
	scripts/fuzz $(or $(TIME),60)

# Building cargo-deny takes minutes, so lint does without it. What advisories there are is
# known to a database on the network alone: `cargo deny check advisories`.
deny: ## Check the licences, duplicates and sources of dependencies.
	@scripts/need cargo cc
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
	cargo deny check licenses bans sources

fmt: ## Format the sources.
	cargo fmt
	rustfmt --edition 2024 tests/fuzz/targets/*.rs

lint: ## Check formatting, lints, shell scripts and version numbers.
	@scripts/need cargo cc c++ shellcheck jq
	cargo fmt --check
	rustfmt --edition 2024 --check tests/fuzz/targets/*.rs
	cargo check --locked --manifest-path tests/fuzz/Cargo.toml --target-dir target
	cargo clippy --all-targets -- -D warnings
	cargo clippy --features portable,conformance --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --document-private-items
	shellcheck $$(scripts/list-shell-scripts)
	scripts/check-versions

ci: ## Run what the continuous integration runs.
	bash .ci/run
