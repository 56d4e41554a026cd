//! The program for hosts that lack it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::text::foreign::ShowPath;

/// The type of the ELF program header that names the dynamic linker.
const PT_INTERP: u32 = 3;

/// How long an unused version is kept.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A program for a host.
pub(super) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: String,
}

impl Payload {
    /// The program for a system, as `uname -sm` names it: the running program if it is static and
    /// for that system, otherwise `bin/TARGET/zsh-tool` beside it. The last choice is the running
    /// program even if it is not static, since it may run there. `None` if there is no program.
    pub(super) fn for_system(system: &str) -> io::Result<Option<Payload>> {
        let running = std::env::current_exe()?;
        let own = is_own(system).then(|| read(&PathBuf::from("/proc/self/exe"))).transpose()?;
        if let Some(bytes) = own.as_ref().filter(|bytes| is_static(bytes)) {
            return Ok(Some(Payload::new(bytes.clone())));
        }
        let beside = target(system)
            .and_then(|target| Some(running.parent()?.join("bin").join(target).join("zsh-tool")))
            .filter(|path| path.is_file());
        match beside {
            Some(path) => Ok(Some(Payload::new(read(&path)?))),
            None => Ok(own.map(Payload::new)),
        }
    }

    fn new(bytes: Vec<u8>) -> Payload {
        Payload { hash: hash(&bytes), bytes }
    }
}

/// The hash of the running program.
///
/// # Errors
/// When the program cannot be read.
pub(crate) fn own_hash() -> io::Result<String> {
    let path = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe()?
    };
    read(&path).map(|bytes| hash(&bytes))
}

/// If a server installed this program, marks its version as used now and removes other versions that
/// have not been used for long. The mark is the modification time of a version's folder, which an
/// installation sets too.
///
/// # Errors
/// When the folder cannot be marked or listed.
pub(crate) fn remove_unused(now: SystemTime) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let Some((own, all)) = program.parent().and_then(|own| Some((own, own.parent()?))) else {
        return Ok(());
    };
    // Another directory (`binary_directory`) holds no versions.
    let name = format!("{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    if !(own.ends_with(name) && all.ends_with("zsh-tool")) {
        return Ok(());
    }
    File::open(own)?.set_modified(now)?;
    for other in fs::read_dir(all)?.flatten().map(|entry| entry.path()) {
        if is_unused(&other, now)
            && let Err(error) = fs::remove_dir_all(&other)
        {
            tracing::warn!("the unused version {} cannot be removed: {error}", other.shown());
        }
    }
    Ok(())
}

/// Whether this is an installed version that has not been used for long and is not running.
fn is_unused(version: &Path, now: SystemTime) -> bool {
    let used = fs::symlink_metadata(version).and_then(|version| version.modified());
    let is_old = used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > KEPT_FOR));
    // A running program cannot be opened for writing.
    is_old && File::options().append(true).open(version.join("zsh-tool")).is_ok()
}

fn read(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_own(system: &str) -> bool {
    cfg!(target_os = "linux") && system == format!("Linux {}", std::env::consts::ARCH)
}

/// The target triple of the static program for a system.
fn target(system: &str) -> Option<&'static str> {
    match system {
        "Linux x86_64" => Some("x86_64-unknown-linux-musl"),
        "Linux aarch64" => Some("aarch64-unknown-linux-musl"),
        _ => None,
    }
}

/// Whether this is a 64-bit ELF program that needs no dynamic linker.
fn is_static(program: &[u8]) -> bool {
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let has_linker = || {
        let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
        let kinds = (0..count).map(|entry| {
            let at = usize::try_from(table.checked_add(entry.checked_mul(size)?)?).ok()?;
            number(at, 4)
        });
        let kinds: Option<Vec<u64>> = kinds.collect();
        Some(kinds?.contains(&u64::from(PT_INTERP)))
    };
    program.starts_with(b"\x7fELF\x02\x01") && has_linker() == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_of_a_program_is_found_in_its_header() {
        let shell = std::fs::read("/bin/sh").expect("a shell");
        assert!(!is_static(&shell));
        assert!(!is_static(b"#!/bin/sh\n"));
        // A header without entries.
        let mut header = b"\x7fELF\x02\x01".to_vec();
        header.resize(64, 0);
        assert!(is_static(&header));
        header.truncate(20);
        assert!(!is_static(&header));
    }

    #[test]
    fn there_is_no_program_for_an_unknown_system() {
        assert!(Payload::for_system("Plan9 mips").expect("a readable program").is_none());
    }
}
