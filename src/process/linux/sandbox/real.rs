//! Paths without links. Each is resolved once, and again when another file is there.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use parking_lot::Mutex;

/// How many paths are remembered.
const MAX_KNOWN: usize = 512;

/// A file's device and inode.
type Identity = (u64, u64);

/// The path without links; `None` if there is no such file.
pub(super) fn path(given: &PathBuf) -> Option<PathBuf> {
    static KNOWN: Mutex<Option<HashMap<PathBuf, (Identity, PathBuf)>>> = Mutex::new(None);
    let now = identity(given)?;
    let known = KNOWN.lock().as_ref().and_then(|known| known.get(given).cloned());
    if let Some((then, real)) = known
        && then == now
        && (real == *given || identity(&real) == Some(now))
    {
        return Some(real);
    }
    let real = given.canonicalize().ok()?;
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(given.clone(), (now, real.clone()));
    Some(real)
}

fn identity(path: &PathBuf) -> Option<Identity> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino()))
}
