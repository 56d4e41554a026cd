//! The database of what commands did: where it is and whether it can be written.

use super::Finding;
use crate::alan::store::Status;
use crate::commands::setup;
use crate::config::Config;
use crate::record::recorder::Recorder;
use crate::text::lines::grouped;

const WHAT: &str = "database";
/// What helps whatever the cause is.
const CHOOSE: &str = "mend that, or set ALAN_DB_PATH to a file of yours";

/// Opens it as a server would: what a server would mend or take over is mended then.
pub fn check(config: &Config) -> Vec<Finding> {
    let recorder = setup::recorder(config, &setup::redactor(config));
    if recorder.store().path().as_os_str().is_empty() {
        let found = "none, for want of a state directory: what is learned of commands is lost \
                     with the server";
        return vec![Finding::warning(WHAT, found, CHOOSE)];
    }
    let mut findings = vec![contents(&recorder)];
    findings.extend(moved_aside(&recorder.store().status()));
    recorder.close();
    findings
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
