//! Runtimes of languages: which of a process's threads serve the runtime instead of the program,
//! and what the runtime hides.
//!
//! Limits: a thread is recognised by the name that its runtime gives it, a runtime by the file that
//! the process runs or by sections that its linker writes. A program that renames its threads, or a
//! runtime that is embedded in another program, is not recognised and counts as any other program.

use std::fs::File;
use std::path::Path;

use super::elf;
use crate::process::probe::ProcessInfo;
use crate::process::processes;

/// The names of threads that serve a runtime, as `comm` cuts them to 15 bytes. A name that ends in
/// `*` is a beginning.
///
/// Their waits and wake-ups say nothing about the program: they sleep on timers of their own, and
/// they accept connections that no client of the program makes.
const HOUSEKEEPING: &[&str] = &[
    // HotSpot: `os::set_native_thread_name` with the names in `src/hotspot/share` of OpenJDK 8 to
    // 25: vmThread.cpp, watcherThread.cpp, compileBroker.cpp, monitorDeflationThread.cpp,
    // workerThread.cpp and gc/*/.
    "VM Thread",
    "VM Periodic Tas*",
    "VM Op*",
    "C1 Compiler*",
    "C2 Compiler*",
    "C1 JVMCI*",
    "JVMCI*",
    "Sweeper thread",
    "Monitor Deflati*",
    "StringDedup*",
    "GC Thread#*",
    "GC task thread#*",
    "ParGC Thread#*",
    "Gang worker#*",
    "G1 Main Marker",
    "G1 Conc#*",
    "G1 Refine#*",
    "G1 Service",
    "G1 Young RemSet*",
    "Concurrent Mark*",
    "ZDirector",
    "ZDriver*",
    "ZDriverMajor",
    "ZDriverMinor",
    "ZStat",
    "ZUncommitter*",
    "ZUnmapper*",
    "ZWorker*",
    "XDirector",
    "XDriver",
    "XStat",
    "XUncommitter*",
    "XWorker*",
    "Shenandoah*",
    "Service Thread",
    "Notification Th*",
    "Attach Listener",
    "Signal Dispatch*",
    // Threads of the class library: `java.lang.ref` and `jdk.internal.ref`.
    "Reference Handl*",
    "Finalizer",
    "Common-Cleaner",
    "JFR *",
    // .NET: `src/coreclr/vm` and `src/libraries` of dotnet/runtime name their own threads so. A
    // `.NET Timer` or `.NET Long Runni…` thread does the program's work.
    ".NET SynchManag*",
    ".NET EventPipe*",
    ".NET SigHandler",
    ".NET Finalizer",
    ".NET Tiered Com*",
    ".NET TP Gate",
    ".NET Server GC*",
    ".NET BGC*",
    "dotnet-diagnost*",
    // Mono: `mono/metadata/gc.c` and `mono/sgen`.
    "SGen worker",
    // Node: `src/node_platform.cc`, named since version 24. Without a name its waits are those of
    // a pool.
    "DelayedTaskSche*",
    "V8Worker",
    "SignalInspector",
    // Ruby: `thread_pthread.c`.
    "ruby-timer-thr",
    "timer_thread",
    // Erlang: `erts/emulator` names helpers by their number.
    "erts_aux_*",
    "erts_sched_aux*",
];

/// Whether a thread with this name serves its runtime.
pub(super) fn is_housekeeping(name: &str) -> bool {
    HOUSEKEEPING.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
    })
}

/// Programs that a runtime starts for itself, and that live as long as it does: Erlang starts all
/// others through the first one, and resolves names with the second.
const HELPERS: &[&str] = &["erl_child_setup", "inet_gethost"];

/// Whether a process serves the runtime that started it.
pub(super) fn is_helper(process: &ProcessInfo) -> bool {
    HELPERS.contains(&process.name.as_str())
}

/// The runtime of a program, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    /// None that is known.
    None,
    Go,
    Jvm,
    Node,
    Ruby,
    Erlang,
    Zsh,
}

/// Signals that programs send to each other to ask for something: SIGHUP, SIGUSR1, SIGUSR2 and
/// SIGTERM, as bits of `SigCgt`.
const ASKING: u64 =
    bit(libc::SIGHUP) | bit(libc::SIGUSR1) | bit(libc::SIGUSR2) | bit(libc::SIGTERM);

pub(super) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The programs of a Java machine.
const JAVA: &[&str] = &["java", "jshell", "javac", "jwebserver"];

pub(super) fn is_java(pid: i32) -> bool {
    program_name(pid).is_some_and(|name| JAVA.contains(&name.as_str()))
}

/// The name of a process's program without its version.
fn program_name(pid: i32) -> Option<String> {
    let program = processes::program_of(pid)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_of_version = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    Some(name.trim_end_matches(is_of_version).to_owned())
}

/// The signals that a process handles, as bits; none if that is not shown.
fn handled_signals(pid: i32) -> u64 {
    signals(pid, "SigCgt:")
}

/// The signals of a process in this line of its status, as bits; none if that is not shown.
pub(super) fn signals(pid: i32, line: &str) -> u64 {
    let status = processes::read_proc_text(processes::proc_directory(pid).join("status"));
    let shown = status
        .ok()
        .and_then(|status| u64::from_str_radix(processes::field(&status, line)?, 16).ok());
    shown.unwrap_or_default()
}

impl Runtime {
    /// The runtime of a process.
    pub(crate) fn detect(pid: i32) -> Runtime {
        let Some(name) = program_name(pid) else {
            return Runtime::None;
        };
        match name.as_str() {
            name if JAVA.contains(&name) => Runtime::Jvm,
            "node" | "nodejs" => Runtime::Node,
            "ruby" => Runtime::Ruby,
            "beam.smp" | "beam" => Runtime::Erlang,
            "zsh" | "zsh-static" => Runtime::Zsh,
            _ if is_go(&processes::proc_directory(pid).join("exe")) => Runtime::Go,
            _ => Runtime::None,
        }
    }

    /// Whether its waits do not show what its program waits for, since many threads of the program
    /// share few of the kernel's. Go and Ruby end a program themselves whose threads all wait for
    /// each other: one that lives waits for a signal.
    pub(crate) fn hides_waits(self) -> bool {
        matches!(self, Runtime::Go | Runtime::Ruby | Runtime::Erlang)
    }

    /// Which of the asking signals it handles in every program.
    fn handled_anyway(self) -> u64 {
        match self {
            Runtime::None => 0,
            // As `SigCgt` shows of programs that do nothing about signals.
            Runtime::Node => bit(libc::SIGTERM) | bit(libc::SIGUSR1),
            Runtime::Jvm => bit(libc::SIGHUP) | bit(libc::SIGUSR2) | bit(libc::SIGTERM),
            Runtime::Zsh => bit(libc::SIGHUP),
            Runtime::Go | Runtime::Ruby | Runtime::Erlang => ASKING,
        }
    }

    /// Whether a process with this runtime handles an asking signal on its program's behalf.
    pub(crate) fn handles_signals(self, pid: i32) -> bool {
        handled_signals(pid) & ASKING & !self.handled_anyway() != 0
    }
}

/// The section that Go's linker writes into every program, also into stripped ones
/// (`cmd/link/internal/ld/data.go`).
const GO_SECTION: &str = ".go.buildinfo";

fn is_go(program: &Path) -> bool {
    File::open(program).is_ok_and(|program| elf::has_section(&program, GO_SECTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_runtimes_are_known_by_their_names() {
        for name in ["VM Periodic Tas", "GC Thread#3", "C2 CompilerThre", ".NET TP Gate"] {
            assert!(is_housekeeping(name), "{name}");
        }
        for name in ["java", "Thread-0", "pool-1-thread-1", ".NET TP Worker", "node", "GC"] {
            assert!(!is_housekeeping(name), "{name}");
        }
    }

    #[test]
    fn a_program_of_another_linker_is_not_one_of_go() {
        assert!(!is_go(Path::new("/proc/self/exe")));
        assert!(!is_go(Path::new("/etc/passwd")));
        assert!(!is_go(Path::new("/nonexistent")));
    }

    #[test]
    fn handlers_that_every_program_of_a_runtime_has_do_not_count() {
        assert_eq!(Runtime::detect(std::process::id() as i32), Runtime::None);
        assert_eq!(Runtime::detect(50_000_000), Runtime::None);
        assert!(!Runtime::None.handles_signals(50_000_000));
    }
}
