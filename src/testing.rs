//! What the tests, the fuzz targets and the benchmarks of this package use, under the paths that
//! it has in the crate. Not an interface for other crates: it changes with every version.

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
pub mod config {
    pub use crate::config::UserExecutor;
}
pub mod mcp {
    pub mod arguments {
        pub use crate::mcp::arguments::read;
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
    pub mod http {
        pub mod access {
            pub use crate::monitor::http::access::Token;
        }
        pub mod connection {
            pub use crate::monitor::http::connection::Limits;
        }
        pub mod listener {
            pub use crate::monitor::http::listener::Server;
        }
        pub mod request {
            pub use crate::monitor::http::request::Request;
        }
        pub mod response {
            pub use crate::monitor::http::response::{
                Event, EventSource, Response, Routes, StreamStep,
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
        pub use crate::oneshot::state::{Action, Event, Reason, Role, RunState, resume};
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
        pub use crate::protocol::message::parse;
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
pub mod shell {
    pub mod lexer {
        pub use crate::shell::lexer::lex;
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
        pub use crate::shell::token::{Reserved, Role, Separator, TokenKind};
    }
}
pub mod task {
    pub mod environment {
        pub use crate::task::environment::EnvironmentSettings;
    }
    pub mod journal {
        pub use crate::task::journal::Entry;
    }
    pub mod live {
        pub use crate::task::live::{Cancel, End, Facts, Input, LiveState, LiveTask, WaitStep};
    }
    pub mod registry {
        pub use crate::task::registry::TaskHandle;
    }
    pub mod request {
        pub use crate::task::request::{Request, Stderr, Stdin};
    }
    pub mod state {
        pub use crate::task::state::KillRequest;
    }
    pub mod supervisor {
        pub use crate::task::supervisor::{Settings, Supervisor};
    }
}
pub mod text {
    pub mod ansi {
        pub use crate::text::ansi::{Colours, prompt, readable};
    }
    pub mod keys {
        pub use crate::text::keys::Key;
    }
    pub mod lines {
        pub use crate::text::lines::{
            Layout, LinePosition, OutputSpan, Piece, Repeats, Room, Shown, lay_out,
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
}
