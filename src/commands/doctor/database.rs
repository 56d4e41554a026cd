//! The database of what commands did: where it is and whether it can be written.

use std::path::Path;

use super::Finding;
use crate::alan::store::Status;
use crate::commands::setup;
use crate::config::Config;
use crate::process::files;
use crate::record::recorder::Recorder;
use crate::text::lines::grouped;

const WHAT: &str = "database";
/// What helps whatever the cause is.
const CHOOSE: &str = "mend that, or set ALAN_DB_PATH to a file of yours";

/// Opens it as a server would, if it is there: what a server would mend is mended then.
pub fn check(config: &Config) -> Vec<Finding> {
    let recorder = setup::recorder(config, &setup::redactor(config));
    if recorder.store().path().as_os_str().is_empty() {
        let found = "none, for want of a state directory: what is learned of commands is lost \
                     with the server";
        return vec![Finding::warning(WHAT, found, CHOOSE)];
    }
    if can_be_made(recorder.store().path()) {
        let path = recorder.store().path().display();
        let found = format!("{path}, made when the first command runs");
        return vec![Finding::ok(WHAT, found)];
    }
    let mut findings = vec![contents(&recorder)];
    findings.extend(moved_aside(&recorder.store().status()));
    recorder.close();
    findings
}

/// Whether it is missing and nothing stands in its way; a check leaves nothing behind.
fn can_be_made(path: &Path) -> bool {
    let is_missing = path.symlink_metadata().is_err();
    let mut above = path.ancestors().skip(1);
    let existing = above.find(|above| above.exists());
    let is_open = |above: &Path| above.is_dir() && files::check_writable(above).is_ok();
    is_missing && existing.is_some_and(is_open)
}

fn contents(recorder: &Recorder) -> Finding {
    let store = recorder.store();
    let counts = store.counts();
    let status = store.status();
    let path = status.path.display();
    match (counts, status.failure) {
        (Ok(counts), None) => Finding::ok(
            WHAT,
            format!("{path}, {} observations", grouped(counts.observations)),
        ),
        (_, Some(cause)) => unusable(&format!("{path} cannot be used ({cause})")),
        (Err(error), None) => unusable(&error.to_string()),
    }
}

/// Commands run all the same.
fn unusable(found: &str) -> Finding {
    let found = format!("{found}: what is learned of commands is lost with the server");
    Finding::warning(WHAT, found, CHOOSE)
}

fn moved_aside(status: &Status) -> Option<Finding> {
    let aside = status.moved_aside.as_ref()?.display();
    Some(Finding::warning(
        WHAT,
        format!("it was corrupt and was moved to {aside}; a new one was begun"),
        format!("remove {aside} once you no longer need it"),
    ))
}
