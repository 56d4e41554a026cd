//! Whether the listed secrets are there. None is shown, and no program is run for one.

use std::path::Path;

use super::Finding;
use crate::commands::setup;
use crate::config::{Config, SecretSource, Surroundings};

/// The listed secrets.
pub fn check(config: &Config) -> Vec<Finding> {
    let environment = setup::environment(config);
    let around = Surroundings {
        env: &|name| std::env::var_os(name),
        environment: &environment,
        daemons: config.daemons.clone().into(),
    };
    let listed = config.secrets.iter();
    listed
        .map(|(name, source)| finding(name, source, &around))
        .collect()
}

fn finding(name: &str, source: &SecretSource, around: &Surroundings) -> Finding {
    const WHAT: &str = "secret";
    let found = format!("{name}, {source}");
    match (source.check(around), source) {
        (Err(cause), _) => {
            let mend = format!("mend it, or take {name} out of secrets in config.yaml");
            Finding::warning(WHAT, format!("{found}: {cause}"), mend)
        }
        (Ok(()), SecretSource::File(path)) if source.is_open_to_all() => Finding::warning(
            WHAT,
            format!("{found}: every user of this machine can read it"),
            format!("run `chmod o-r {}`", quoted(path)),
        ),
        (Ok(()), SecretSource::Command(_)) => {
            Finding::ok(WHAT, format!("{found}, which is there and was not run"))
        }
        (Ok(()), SecretSource::Env(_) | SecretSource::File(_)) => {
            Finding::ok(WHAT, format!("{found}, is there"))
        }
    }
}

fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    shlex::try_quote(&path).map_or_else(|_| path.to_string(), |quoted| quoted.into_owned())
}
