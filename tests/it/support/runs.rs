//! Agent runs without agents: made and changed by the program's own code, in this process
//! or in another one that is this test binary again.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use zsh_tool::base::clock::{Clock, Now, SystemClock};
use zsh_tool::oneshot::run::OpenRun;
use zsh_tool::oneshot::run_files::RunFile;
use zsh_tool::text::redact::Redactor;

use super::env::Env;

/// Of the shape that GitHub gives its tokens.
pub const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// A value that only the environment says is secret.
pub const KNOWN_SECRET: &str = "tulips-and-umbrellas";

/// Names the run to the other process.
pub const RUN_VARIABLE: &str = "ZSH_TOOL_TEST_RUN";

/// The present moment.
pub fn now() -> Now {
    SystemClock.now()
}

/// What takes secrets out.
pub fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new([KNOWN_SECRET.to_owned()]))
}

/// A run of this prompt in the test's state directory, open.
pub fn create(env: &Env, prompt: &str) -> OpenRun {
    let now = now();
    let file = RunFile {
        prompt: prompt.to_owned(),
        directory: env.work(),
        executor: "claude".to_owned(),
        auditor: "codex".to_owned(),
        model: None,
        auditor_model: Some("small".to_owned()),
        ..RunFile::created(NonZeroU32::new(5).expect("not 0"), now)
    };
    OpenRun::create(&env.path("state"), file, redactor(), now).expect("a new run")
}

/// Opens the run of a directory.
pub fn open(directory: &Path) -> OpenRun {
    OpenRun::open(directory, redactor()).expect("a run")
}

/// One test of this binary, to be run in a process of its own for this run. The test is to
/// be marked `#[ignore]`, and to do nothing without [`RUN_VARIABLE`].
pub fn elsewhere(env: &Env, test: &str, directory: &Path) -> Command {
    let own = std::env::current_exe().expect("the path of the tests");
    let mut command = env.command(own);
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(RUN_VARIABLE, directory);
    command
}

/// The run that such a test was started for.
pub fn given() -> Option<PathBuf> {
    std::env::var_os(RUN_VARIABLE).map(PathBuf::from)
}
