//! Agent runs without agents: the program's own code creates and changes them, in this process or
//! in another process of this test binary.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use zsh_tool::testing::base::clock::{Clock, Now, SystemClock};
use zsh_tool::testing::oneshot::run::OpenRun;
use zsh_tool::testing::oneshot::run_files::RunFile;
use zsh_tool::testing::text::redact::Redactor;

use super::env::Env;

/// A value with the shape of GitHub's tokens.
pub const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// A value that is secret only by its variable in the environment.
pub const KNOWN_SECRET: &str = "tulips-and-umbrellas";

/// The variable that names the run for the other process.
pub const RUN_VARIABLE: &str = "ZSH_TOOL_TEST_RUN";

/// The current time.
pub fn now() -> Now {
    SystemClock.now()
}

/// The redactor of the tests.
pub fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new([KNOWN_SECRET.to_owned()]))
}

/// Creates a run with this prompt in the test's state directory.
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

/// Runs one test of this binary in a separate process for this run. The test must be marked
/// `#[ignore]`, and must do nothing without [`RUN_VARIABLE`].
pub fn elsewhere(env: &Env, test: &str, directory: &Path) -> Command {
    let own = std::env::current_exe().expect("the path of the tests");
    let mut command = env.command(own);
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(RUN_VARIABLE, directory);
    command
}

/// The run for which such a test was started.
pub fn given() -> Option<PathBuf> {
    std::env::var_os(RUN_VARIABLE).map(PathBuf::from)
}
