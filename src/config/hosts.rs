//! The other machines, containers and pods on which commands may run:
//! `hosts: {NAME: {ssh: DESTINATION}}`, or `{command: [program, argument…]}` for any program that
//! connects its stdin and stdout to a program there.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::layers::{SettingSource, Sources};
use super::value::{Choice, Field, Raw, Time, ValueParser, is_name, listed};
use super::{InstallChoice, hours};
use crate::text::foreign;

pub(super) const KEY: &str = "hosts";

const EXPECTED: &str =
    "expected {ssh: DESTINATION} or {command: [program, argument…]}, one of them";
/// The command for which `ssh: DESTINATION` is short. It must not prompt.
const SSH: [&str; 4] = ["ssh", "-T", "-o", "BatchMode=yes"];
/// How long tasks there survive a lost connection.
const LINGER: Duration = Duration::from_secs(60);

/// A host on which commands may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostEntry {
    /// Letters, digits, `-`, `_` and `.`.
    pub(crate) name: String,
    /// The carrier: a program and its arguments, which run the command appended to them on the
    /// host.
    pub(crate) carrier: Vec<String>,
    /// The directory in which commands start; `None` for the user's home there.
    pub(crate) directory: Option<String>,
    /// How long tasks there survive a lost connection.
    pub(crate) linger: Duration,
    pub(crate) install: InstallChoice,
    /// The directory there in which to install this program, instead of one in the cache.
    pub(crate) binary_directory: Option<String>,
}

/// The listed hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HostList(Vec<HostEntry>);

/// The error for a name that is not listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "host {} is not known: {known}; the user lists hosts in config.yaml, as \
     `hosts: {{NAME: {{ssh: DESTINATION}}}}`", foreign::in_quotes(.name, SHOWN_CHARS)
)]
pub(crate) struct UnknownHost {
    name: String,
    known: String,
}

/// How much of an unknown name an error repeats.
const SHOWN_CHARS: usize = 40;

impl HostList {
    /// Reads the section. An entry with an error causes a warning and is not listed.
    pub(super) fn read(sources: &mut Sources<'_>) -> (HostList, SettingSource) {
        let mut hosts = Vec::<HostEntry>::new();
        let expected = format!("a mapping of names to hosts: {EXPECTED}; no host is listed");
        let Some((source, fields)) = sources.section(KEY, &expected) else {
            return (HostList::default(), SettingSource::Default);
        };
        let home = sources.home.clone();
        for field in fields {
            let problem = match host(&field, home.as_deref()) {
                Ok(host) if hosts.iter().any(|known| known.name == host.name) => {
                    "given twice".to_owned()
                }
                Ok(host) => {
                    hosts.push(host);
                    continue;
                }
                Err(problem) => problem,
            };
            let key = format!("{KEY}.{}", field.key);
            sources.warn(source.at(field.line), Some(key), format!("{problem}; ignored"));
        }
        (HostList(hosts), source)
    }

    /// The error for a name that is not listed.
    pub(crate) fn unknown(&self, name: &str) -> UnknownHost {
        let known = if self.0.is_empty() {
            "no host is listed".to_owned()
        } else {
            format!("the hosts are {}", self.names())
        };
        UnknownHost { name: name.to_owned(), known }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HostEntry> {
        self.0.iter()
    }

    fn names(&self) -> String {
        listed(&self.0.iter().map(|host| host.name.as_str()).collect::<Vec<_>>())
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the program, since its arguments may be secret.
        let shown = |host: &HostEntry| {
            let program = host.carrier.first().map_or("", String::as_str);
            format!("{} ({})", host.name, foreign::shown(program))
        };
        f.write_str(&listed(&self.0.iter().map(shown).collect::<Vec<_>>()))
    }
}

fn host(field: &Field, home: Option<&Path>) -> Result<HostEntry, String> {
    if !is_name(&field.key, &['-', '_', '.']) {
        return Err("a name takes letters, digits, -, _ and . only".to_owned());
    }
    let Raw::Map(parts) = &field.value else {
        return Err(EXPECTED.to_owned());
    };
    let mut carriers = Vec::new();
    let mut host = HostEntry {
        name: field.key.clone(),
        carrier: Vec::new(),
        directory: None,
        linger: LINGER,
        install: InstallChoice::Auto,
        binary_directory: None,
    };
    for part in parts {
        match part.key.as_str() {
            "ssh" => {
                // A word that begins with a hyphen would be an option of ssh.
                let destination = part.value.text().filter(|text| {
                    !text.is_empty() && !text.starts_with('-') && !text.contains('\0')
                });
                let destination =
                    destination.ok_or("ssh takes a destination, as `user@machine`")?.to_owned();
                carriers.push(SSH.map(str::to_owned).into_iter().chain([destination]).collect());
            }
            "command" => carriers.push(part.value.command(home).ok_or(
                "command takes a list: the program's name, absolute path or path that begins with \
                 `~/`, and its arguments, as text",
            )?),
            "directory" => host.directory = Some(remote_path(&part.value, "directory")?),
            "binary_directory" => {
                host.binary_directory = Some(remote_path(&part.value, "binary_directory")?);
            }
            "linger" => {
                let range = Duration::from_secs(1)..=hours(24);
                host.linger = Time::seconds(range)
                    .read(&part.value, None)
                    .map_err(|problem| format!("linger: {problem}"))?;
            }
            "install" => {
                let choice = Choice::new().read(&part.value, None);
                host.install = choice.map_err(|_| "install takes auto or never")?;
            }
            other => {
                return Err(format!(
                    "{} is unknown; a host has ssh or command, directory, linger, install and \
                     binary_directory",
                    foreign::in_quotes(other, SHOWN_CHARS)
                ));
            }
        }
    }
    match <[Vec<String>; 1]>::try_from(carriers) {
        Ok([carrier]) => Ok(HostEntry { carrier, ..host }),
        Err(_) => Err(EXPECTED.to_owned()),
    }
}

/// A path on the host.
fn remote_path(raw: &Raw, key: &str) -> Result<String, String> {
    let path = raw.text().filter(|path| {
        (path.starts_with('/') || path.starts_with("~/")) && !path.contains(['\0', '\n'])
    });
    path.map(str::to_owned)
        .ok_or_else(|| format!("{key} takes an absolute path, or one that begins with `~/`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::load_file as load;

    fn listed_host<'a>(config: &'a Config, name: &str) -> &'a HostEntry {
        config.hosts.iter().find(|host| host.name == name).unwrap()
    }

    #[test]
    fn each_kind_of_host_is_read() {
        let (config, warnings) = load(
            "hosts:\n  build1: {ssh: me@build1}\n  web:\n    command: [docker, exec, -i, web]\n    \
             linger: 5\n    install: never\n    directory: /srv\n    binary_directory: ~/bin\n",
        );
        assert_eq!(warnings, [""; 0]);
        let build = listed_host(&config, "build1");
        assert_eq!(build.carrier, ["ssh", "-T", "-o", "BatchMode=yes", "me@build1"]);
        assert_eq!((build.linger, build.install), (LINGER, InstallChoice::Auto));
        let web = listed_host(&config, "web");
        assert_eq!(web.carrier, ["docker", "exec", "-i", "web"]);
        assert_eq!((web.linger, web.install), (Duration::from_secs(5), InstallChoice::Never));
        assert_eq!(web.directory.as_deref(), Some("/srv"));
        assert_eq!(web.binary_directory.as_deref(), Some("~/bin"));
        let row = config.rows().into_iter().find(|row| row.key == KEY).unwrap();
        assert_eq!(row.value, "build1 (ssh), web (docker)");
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let (config, _) = load("hosts: {a: {ssh: a}, b: {ssh: b}}");
        let error = config.hosts.unknown("c").to_string();
        assert!(error.starts_with("host \"c\" is not known: the hosts are a, b;"), "{error}");
        let error = Config::default().hosts.unknown("c").to_string();
        assert!(error.contains("not known: no host is listed;"), "{error}");
    }

    #[test]
    fn errors_are_named_with_their_line_and_leave_the_rest() {
        for (entry, expected) in [
            ("x: build1", "FILE:3: hosts.x: expected {ssh: DESTINATION}"),
            ("x: {linger: 5}", "FILE:3: hosts.x: expected {ssh: DESTINATION}"),
            ("x: {ssh: a, command: [b]}", "FILE:3: hosts.x: expected {ssh: DESTINATION}"),
            ("x: {ssh: -oProxyCommand=x}", "FILE:3: hosts.x: ssh takes a destination"),
            ("x: {command: docker}", "FILE:3: hosts.x: command takes a list"),
            ("x: {ssh: a, linger: never}", "FILE:3: hosts.x: linger: expected"),
            ("x: {ssh: a, install: maybe}", "FILE:3: hosts.x: install takes auto or never"),
            ("x: {ssh: a, directory: src}", "FILE:3: hosts.x: directory takes an absolute path"),
            ("x: {ssh: a, port: 22}", "FILE:3: hosts.x: \"port\" is unknown; a host has"),
            ("a:b: {ssh: a}", "FILE:3: hosts.a:b: a name takes letters"),
            ("good: {ssh: a}", "FILE:3: hosts.good: given twice"),
        ] {
            let (config, warnings) = load(&format!("hosts:\n  good: {{ssh: a}}\n  {entry}\n"));
            assert_eq!(warnings.len(), 1, "{entry}: {warnings:?}");
            assert!(warnings[0].starts_with(expected), "{entry}: {warnings:?}");
            assert_eq!(config.hosts.iter().count(), 1, "{entry}");
        }
    }
}
