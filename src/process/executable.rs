//! Which programs may have a secret, by the file that a process executes. The name of a process says
//! nothing: a process gives itself any.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{confinement, processes};
use crate::progress::wait::ProcessName;
use crate::text::foreign::{Foreign, ShowPath};

/// The programs that may read a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedPrograms {
    Any,
    /// Those with these files; by default none.
    These(Vec<PathBuf>),
}

impl Default for AllowedPrograms {
    fn default() -> AllowedPrograms {
        AllowedPrograms::These(Vec::new())
    }
}

/// The mode bit with which the kernel runs a program as its owner.
const SET_UID: u32 = 0o4000;
/// How many bytes of a program's name the kernel keeps as that of its process.
const NAME_BYTES: usize = 15;

impl AllowedPrograms {
    /// Checks that this process may have the secret.
    ///
    /// # Errors
    /// It may not; names what it executes.
    pub(crate) fn admit(&self, process: &ProcessName) -> Result<(), Refused> {
        let AllowedPrograms::These(allowed) = self else {
            return Ok(());
        };
        let executed = processes::program_file(process.pid);
        // A file that is not shown, of a process that acts as root, is one that root has installed.
        let is_of_root = executed.is_none() && processes::acts_as_root(process.pid);
        let is_listed = |path: &PathBuf| {
            let Ok(file) = std::fs::metadata(path) else { return false };
            match &executed {
                Some((executed, _)) => file.dev() == executed.dev() && file.ino() == executed.ino(),
                None => {
                    let is_named = name_of(path) == process.name.raw();
                    is_of_root && file.uid() == 0 && file.mode() & SET_UID != 0 && is_named
                }
            }
        };
        let is_allowed = allowed.iter().any(is_listed);
        // What runs as root is out of this user's reach, whatever surrounds it.
        let disguise = || confinement::disguise(process.pid).filter(|_| !is_of_root);
        let cause = match (is_allowed.then(disguise), executed) {
            (Some(None), _) => return Ok(()),
            (Some(Some(reason)), _) => Cause::Disguised(reason),
            (None, Some((_, path))) => Cause::Unlisted(path.shown()),
            (None, None) => Cause::Hidden,
        };
        Err(Refused { process: process.clone(), cause })
    }
}

/// The file that a process executes, if the process has another name than that.
pub(crate) fn beyond_name(process: &ProcessName) -> Option<Foreign> {
    let path = processes::program_of(process.pid)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    // `python3` executes `python3.11`.
    (!file.starts_with(process.name.raw())).then(|| path.shown())
}

/// The name that a process has after it has executed this file.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = name.as_bytes();
    String::from_utf8_lossy(bytes.get(..NAME_BYTES).unwrap_or(bytes)).into_owned()
}

/// A process that may not have a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub process: ProcessName,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It executes this file, which is not listed.
    Unlisted(Foreign),
    /// The file that it executes is not shown.
    Hidden,
    /// It executes a listed file, and may be something else for this reason.
    Disguised(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str) -> ProcessName {
        ProcessName { pid: std::process::id() as i32, name: name.into() }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_what_it_executes_and_not_what_it_is_called() {
        let path = std::env::current_exe().expect("this program");
        let scratch = tempfile::tempdir().expect("a directory");
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        for listed in [&path, &link] {
            let allowed = AllowedPrograms::These(vec!["/nonexistent".into(), listed.clone()]);
            assert_eq!(allowed.admit(&own("sudo")), Ok(()));
        }
        assert_eq!(AllowedPrograms::Any.admit(&own("x")), Ok(()));
        let refused =
            AllowedPrograms::default().admit(&own("sudo")).expect_err("nothing is listed");
        assert_eq!(refused.cause, Cause::Unlisted(path.shown()));
        let sudo = scratch.path().join("sudo");
        std::fs::write(&sudo, "").expect("a file");
        assert!(AllowedPrograms::These(vec![sudo]).admit(&own("sudo")).is_err());
    }
}
