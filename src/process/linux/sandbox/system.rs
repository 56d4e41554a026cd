//! File systems that show and change the kernel.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where file systems are mounted that show and change the kernel and its devices, except `/dev` and what
/// is below it.
///
/// # Errors
/// The table of mounts cannot be read.
pub(super) fn mounts() -> io::Result<Vec<PathBuf>> {
    const KINDS: [&[u8]; 22] = [
        b"proc",
        b"sysfs",
        b"devtmpfs",
        b"cgroup",
        b"cgroup2",
        b"debugfs",
        b"tracefs",
        b"securityfs",
        b"configfs",
        b"autofs",
        b"binfmt_misc",
        b"bpf",
        b"devpts",
        b"efivarfs",
        b"fusectl",
        b"hugetlbfs",
        b"mqueue",
        b"nfsd",
        b"pstore",
        b"resctrl",
        b"rpc_pipefs",
        b"selinuxfs",
    ];
    let table = std::fs::read("/proc/self/mountinfo")?;
    let mounts = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let kind = words.iter().skip_while(|word| **word != b"-").nth(1)?;
        KINDS.contains(kind).then(|| words.get(4).map(|path| unescaped(path)))?
    });
    Ok(mounts.filter(|path| !path.starts_with("/dev")).collect())
}

/// A path of the table of mounts, in which some bytes are written as `\040`.
fn unescaped(path: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((first, after)) = rest.split_first() {
        let octal = after.split_first_chunk::<3>().filter(|_| *first == b'\\');
        let escaped = octal.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 8).ok()?, after))
        });
        let (byte, after) = escaped.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_the_kernel_writes_them() {
        for (written, path) in [
            (&b"/a\\040b"[..], &b"/a b"[..]),
            (b"/\\134\\012x", b"/\\\nx"),
            (b"/\xff\\9", b"/\xff\\9"),
        ] {
            assert_eq!(unescaped(written), PathBuf::from(OsString::from_vec(path.to_vec())));
        }
        assert!(mounts().expect("the table").contains(&"/proc".into()));
    }
}
