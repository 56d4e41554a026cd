//! What the tests, the fuzz targets and the benchmarks of this package use, under the paths that
//! it has in the crate, and functions in the place of types that only lead to a text. Not an
//! interface for other crates: it changes with every version.

pub mod agent {
    pub mod activity {
        pub use crate::agent::activity::{Activity, AgentError, Answer};
    }
    pub mod checks {
        pub use crate::agent::checks::{CheckRefusal, CheckState, Checks};
    }
    pub mod endpoint {
        pub use crate::agent::endpoint::{Endpoint, EndpointSettings};
    }
    pub mod executor {
        pub use crate::agent::executor::{
            Executor, Executors, Ids, Launch, MAX_ARGUMENT_PROMPT, PromptBy, Recovery, Reference,
            Role, UnknownExecutor,
        };
    }
    pub mod judge {
        pub use crate::agent::judge::{Evidence, Finding, Judge, Judgement};
        pub mod command {
            pub use crate::agent::judge::command::CommandJudge;
        }
        pub mod openai {
            pub use crate::agent::judge::openai::OpenaiJudge;
        }
    }
    pub mod stream {
        pub use crate::agent::stream::{Framer, Framing, Record};
    }
    pub mod usage {
        pub use crate::agent::usage::{Meter, Usage, UsageReport};
    }
    pub mod verdict {
        pub use crate::agent::verdict::{FORMAT, Verdict, read};
    }
}
pub mod alan {
    pub mod fingerprint {
        pub use crate::alan::fingerprint::of_failure;
    }
    pub mod pattern {
        pub use crate::alan::pattern::{CommandPattern, RemoteCommand, Ssh};
    }
    pub mod rows {
        pub use crate::alan::rows::JournalRow;
    }
    pub mod run {
        pub use crate::alan::run::{EndedRun, Ending, Run};
    }
    pub mod schema {
        pub use crate::alan::schema::Derivation;
    }
    pub mod store {
        pub use crate::alan::store::{Store, StoreSettings};
    }
}
pub mod base {
    pub mod clock {
        pub use crate::base::clock::{Clock, Now, SystemClock};
    }
}
pub mod commands {
    pub mod doctor {
        use std::time::Duration;

        use serde_json::Value;

        use crate::commands::doctor::checks::health_of_host;

        /// What `zsh-tool doctor` shows of what a host says about itself.
        pub fn of_host(name: &str, health: &Value) -> Vec<String> {
            let findings = health_of_host(name, health, Duration::ZERO);
            findings.iter().map(ToString::to_string).collect()
        }
    }
    pub mod oneshot {
        use std::path::Path;

        use crate::commands::oneshot::show::{cells, describe};
        use crate::commands::output;
        use crate::oneshot::sessions;

        /// What `zsh-tool oneshot show` and `list` show of the run in a directory, or why they
        /// cannot.
        ///
        /// # Errors
        /// When the run's file cannot be used.
        pub fn shown(directory: &Path) -> Result<String, String> {
            let run = sessions::view(directory).map_err(|error| error.to_string())?;
            Ok(describe(&run) + &output::columns(&[cells(&run)], &[]))
        }
    }
}
pub mod config {
    use std::ffi::OsString;
    use std::path::Path;

    pub use crate::config::UserExecutor;
    use crate::config::{Config, RunFlags, RunSettings};

    /// What `zsh-tool config` shows.
    pub struct ShownConfig {
        /// The key, the value and the source of each setting.
        pub rows: Vec<[String; 3]>,
        pub warnings: Vec<String>,
    }

    /// Reads the files in this home directory and, if given, that of a project.
    pub fn show(home: &Path, project: Option<&Path>) -> ShownConfig {
        let env = |name: &str| (name == "HOME").then(|| OsString::from(home));
        let (config, mut warnings) = Config::load(&env);
        let (runs, of_runs) = RunSettings::load(&config, &env, project, &RunFlags::default());
        warnings.extend(of_runs);
        let rows = config.rows().into_iter().chain(runs.settings());
        ShownConfig {
            rows: rows.map(|row| [row.key.to_owned(), row.value, row.source.to_string()]).collect(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
        }
    }
}
pub mod mcp {
    pub mod control {
        use std::ffi::OsString;
        use std::io;
        use std::path::{Path, PathBuf};
        use std::sync::Arc;

        use crate::commands::shared;
        use crate::config::Config;
        use crate::mcp::control::ControlSocket;
        use crate::mcp::dispatch::{Shims, Tools};
        use crate::peer::hosts::Hosts;
        use crate::task::journal::CONTROL_SOCKET;
        use crate::task::supervisor::Supervisor;

        /// Serves the control socket of a server whose files are in this home directory. Returns
        /// the socket's path and the owner of the server's tasks.
        ///
        /// # Errors
        /// When the socket cannot be made or served.
        pub fn serve(home: &Path) -> io::Result<(PathBuf, Arc<Supervisor>)> {
            let env = |name: &str| (name == "HOME").then(|| OsString::from(home));
            let (config, warnings) = Config::load(&env);
            let supervisor = shared::supervisor(&config);
            let recorder = shared::recorder(&config, &supervisor.settings.redactor);
            let hosts = Arc::new(Hosts::for_server(config.hosts.clone(), &supervisor));
            let directory = supervisor.directory().map_err(io::Error::other)?.path.clone();
            let listener = ControlSocket::bind(&directory).map_err(io::Error::other)?;
            let message_limit = shared::message_limit(&config);
            let owner = Arc::clone(&supervisor);
            let shims = Shims::Unavailable;
            let tools = Tools::new(owner, recorder, config, warnings, None, shims, hosts);
            ControlSocket::serve(Arc::new(tools), message_limit, listener)?;
            Ok((directory.join(CONTROL_SOCKET), supervisor))
        }
    }
    pub mod hosts {
        use std::ffi::OsString;
        use std::path::Path;

        use serde_json::Value;

        use crate::commands::shared;
        use crate::config::Config;
        use crate::mcp::dispatch::ProgressMessage;
        use crate::mcp::hosts::with_host;
        use crate::mcp::tools;
        use crate::peer::hosts::Purpose;

        /// Makes the result of a tool on the first host of this home directory's `config.yaml` what
        /// the client gets.
        pub fn pass_on(home: &Path, tool: &str, result: &mut Value) {
            let env = |name: &str| (name == "HOME").then(|| OsString::from(home));
            let hosts = shared::hosts(&Config::load(&env).0, Purpose::Command(Vec::new()));
            if let (Some(host), Some(tool)) = (hosts.iter().next(), tools::find(tool)) {
                with_host(result, host, tool);
            }
        }

        /// The text of a host's report of progress, as the client gets it.
        pub fn progress(params: &Value) -> Option<String> {
            ProgressMessage::from_params(params).map(|progress| progress.message)
        }
    }
    pub mod arguments {
        pub use crate::mcp::arguments::read;
    }
    pub mod clients {
        pub use crate::mcp::clients::KeptPart;
    }

    pub mod render {
        pub mod result {
            pub use crate::mcp::render::result::{Palette, TaskResult};
        }
        pub mod view {
            pub use crate::mcp::render::view::View;
        }
    }
    pub mod tools {
        pub use crate::mcp::tools::{
            KillArguments, NoArguments, PollArguments, QueryArguments, ResetArguments,
            RunArguments, SendArguments, TOOLS, TasksArguments,
        };
    }
}
pub mod monitor {
    pub mod hosts {
        pub use crate::monitor::hosts::listed;
    }
    pub mod http {
        pub mod access {
            pub use crate::monitor::http::access::{PageAccess, Token};
        }
        pub mod connection {
            pub use crate::monitor::http::connection::Limits;
        }
        pub mod listener {
            pub use crate::monitor::http::listener::Server;
        }
        pub mod request {
            pub use crate::monitor::http::request::{Head, MAX_BODY, MAX_HEAD, Request, parse};
        }
        pub mod response {
            pub use crate::monitor::http::response::{
                EventSource, Response, Routes, SseEvent, StreamStep,
            };
        }
        pub mod sse {
            pub use crate::monitor::http::sse::Pace;
        }
    }
}
pub mod neverhang {
    pub use crate::neverhang::Rules;
}
pub mod oneshot {
    pub mod log_line {
        pub use crate::oneshot::log_line::{LineKind, LogLine, Origin};
    }
    pub mod log_reader {
        pub use crate::oneshot::log_reader::{Follower, history, newest, tail};
    }
    pub mod run {
        pub use crate::oneshot::run::{OpenError, OpenRun};
    }
    pub mod run_files {
        pub use crate::oneshot::run_files::{LockError, RunFile};
    }
    pub mod state {
        pub use crate::oneshot::state::{Action, Reason, Role, RunEvent, RunState, resume};
    }
}
pub mod peer {
    pub mod hosts {
        use std::time::{Duration, SystemTime};

        use crate::peer::bootstrap::Report;
        use crate::peer::hosts::{HostError, describe, last_lines};
        use crate::text::foreign;

        /// What is shown of a host that says this while it is connected to, and whose carrier prints
        /// these errors.
        pub fn shown(said: &str, errors: &str) -> Vec<String> {
            let failed = |reason| {
                let host = "far".to_owned();
                HostError { host, reason }.to_string()
            };
            let report = |line| match Report::parse(line)? {
                Report::Ready(system) => {
                    let status = describe(&system, Duration::ZERO, SystemTime::UNIX_EPOCH);
                    Some(foreign::shown(&status).into_owned())
                }
                Report::Needed { system } => Some(failed(system)),
                Report::Failed(reason) => Some(failed(reason)),
            };
            let mut shown: Vec<String> = said.lines().filter_map(report).collect();
            shown.push(failed(last_lines(errors)));
            shown
        }
    }
    pub mod link {
        use std::io::{self, Cursor, Read};
        use std::sync::Arc;

        use crate::peer::link::{Carried, Link};
        use crate::protocol::reader::FrameReader;
        use crate::protocol::transport::Transport;

        /// What each of so many calls receives when a host sends these frames, of at most `limit`
        /// bytes each.
        ///
        /// # Errors
        /// When the connection or a call cannot begin.
        pub fn received(frames: &[u8], limit: usize, calls: usize) -> io::Result<Vec<Vec<u8>>> {
            let output = Box::new(io::sink());
            let transport = Transport::start(Box::new(io::empty()), output, limit, |_, _| {})?;
            let link = Arc::new(Link::new(transport.outbound().clone()));
            let begun = (0..calls).map(|_| Carried::begin(Arc::clone(&link)));
            let begun = begun.collect::<io::Result<Vec<_>>>()?;
            let mut frames = FrameReader::new(Cursor::new(frames), limit);
            while let Some(frame) = frames.next_frame()? {
                link.receive(frame);
            }
            link.close();
            let read = |(_call, mut stream): (Carried, _)| {
                let mut received = Vec::new();
                Read::read_to_end(&mut stream, &mut received).map(|_| received)
            };
            begun.into_iter().map(read).collect()
        }
    }
}
pub mod process {
    pub mod probe {
        pub use crate::process::probe::Identity;
    }
    pub mod signals {
        pub use crate::process::signals::Exit;
    }
    pub mod tree {
        pub use crate::process::tree::look_up;
    }
}
pub mod progress {
    pub mod status_forecast {
        pub use crate::progress::status_forecast::Status;
    }
    pub mod tracker {
        pub use crate::progress::tracker::{ChangeKind, Totals, Tracker, TrackerSettings};
    }
}
pub mod protocol {
    pub mod era {
        pub use crate::protocol::era::{Hello, negotiate};
    }
    pub mod message {
        pub use crate::protocol::message::{Incoming, parse};
    }
    pub mod outbox {
        pub use crate::protocol::outbox::{Closed, DirectWrite, OnWritten, Outbox};
    }
    pub mod reader {
        pub use crate::protocol::reader::FrameReader;
    }
    pub mod stateless {
        pub use crate::protocol::stateless::Envelope;
    }
}
pub mod sandbox {
    pub mod policy {
        pub use crate::sandbox::policy::{Policy, Settings};
    }
}
pub mod shell {
    pub mod lexer {
        pub use crate::shell::lexer::lex;
    }
    pub mod command_line {
        pub use crate::shell::command_line::CommandLine;
    }
    pub mod dialect {
        pub use crate::shell::dialect::{Dialect, Trap, Traps};
    }
    pub mod lint {
        pub use crate::shell::lint::lints;
    }
    pub mod manpage {
        pub use crate::shell::manpage::{parse, present, to_text};
    }
    pub mod mode {
        pub use crate::shell::mode::ShellMode;
    }
    pub mod normalise {
        pub use crate::shell::normalise::{hash, normalise};
    }
    pub mod outcome {
        pub use crate::shell::outcome::Outcome;
    }
    pub mod ssh {
        pub use crate::shell::ssh::ssh_of_segment;
    }
    pub mod syntax {
        pub use crate::shell::syntax::last_pipeline_segments;
    }
    pub mod template {
        pub use crate::shell::template::{template, with_subcommands};
    }
    pub mod token {
        pub use crate::shell::token::{Reserved, Separator, TokenKind, WordRole};
    }
}
pub mod task {
    pub mod environment {
        pub use crate::task::environment::EnvironmentSettings;
    }
    pub mod live {
        pub use crate::base::cancel::Cancel;
        pub use crate::task::live::{End, Facts, Input, LiveState, LiveTask, WaitStep};
    }
    pub mod registry {
        pub use crate::task::registry::TaskHandle;
    }
    pub mod stream {
        pub use crate::task::stream::PerStream;
    }
    pub mod snapshot {
        pub use crate::task::snapshot::Snapshot;
    }
    pub mod request {
        pub use crate::task::request::{Request, Stderr, Stdin};
    }
    pub mod state {
        pub use crate::task::state::KillRequest;
    }
    pub mod supervisor {
        pub use crate::task::settings::Settings;
        pub use crate::task::supervisor::Supervisor;
    }
}
pub mod text {
    pub mod ansi {
        pub use crate::text::ansi::{Colours, prompt, readable};
    }
    pub mod foreign {
        use crate::text::{foreign, frame};

        /// Whether a text is one line that nothing is hidden in, and that does not begin like a line
        /// of the tool.
        pub fn is_plain_line(text: &str) -> bool {
            !text.chars().any(foreign::is_hidden) && frame::marked(text.to_owned()) == text
        }
    }
    pub mod keys {
        pub use crate::text::keys::Key;
    }
    pub mod lines {
        pub use crate::text::lines::{
            Choice, Layout, LinePosition, OutputSpan, Piece, Repeats, Room, Shown, lay_out,
            unfinished_character,
        };
    }
    pub mod mask {
        pub use crate::text::mask::{Mask, Secret};
    }
    pub mod redact {
        pub use crate::text::redact::Redactor;
    }
    pub mod screen {
        pub use crate::text::screen::{Modes, Screen};
    }
    pub mod terminal_filter {
        pub use crate::text::terminal_filter::TerminalFilter;
    }
}
