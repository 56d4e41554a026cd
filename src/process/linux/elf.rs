//! Sections and symbols of 64-bit programs in this machine's byte order, as elf(5) describes them.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A larger table of symbols, or of their names, is not read.
const MAX_TABLE: u64 = 64 * 1024 * 1024;
/// More sections than programs have.
const MAX_SECTIONS: usize = 4096;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// A symbol of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Its address, from where the program is loaded if that may vary.
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// Whether a program has a section with this name.
pub(super) fn has_section(program: &File, name: &str) -> bool {
    sections(program).is_some_and(|sections| sections.iter().any(|section| section.name == name))
}

/// Whether a program may be loaded at any address; `None` for another file.
pub(super) fn is_relocated(program: &File) -> Option<bool> {
    /// `ET_DYN`.
    const SHARED: u16 = 3;
    Some(half(&header(program)?, 16)? == SHARED)
}

/// The symbols with these names; `None` if one is missing.
pub(super) fn symbols<const N: usize>(program: &File, names: [&str; N]) -> Option<[Symbol; N]> {
    let sections = sections(program)?;
    let table = |name: &str| {
        let section = sections.iter().find(|section| section.name == name)?;
        read(program, section.offset, section.size)
    };
    let (symbols, texts) = (table(".symtab")?, table(".strtab")?);
    let mut found = [None; N];
    for symbol in symbols.chunks_exact(SYMBOL) {
        let text = usize::try_from(number(symbol, 0)?).ok()?;
        let Some(text) = texts.get(text..) else {
            continue;
        };
        for (found, name) in found.iter_mut().zip(names) {
            let rest = text.strip_prefix(name.as_bytes());
            if rest.is_some_and(|rest| rest.first() == Some(&0)) {
                *found = Some(Symbol { address: word(symbol, 8)?, size: word(symbol, 16)? });
            }
        }
    }
    let all: Option<Vec<Symbol>> = found.into_iter().collect();
    all?.try_into().ok()
}

struct Section {
    name: String,
    offset: u64,
    size: u64,
}

fn header(program: &File) -> Option<[u8; 64]> {
    let mut header = [0; 64];
    program.read_exact_at(&mut header, 0).ok()?;
    // `EI_CLASS` is `ELFCLASS64`, `EI_DATA` this machine's order.
    let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    (header.starts_with(b"\x7fELF\x02") && header.get(5) == Some(&own_order)).then_some(header)
}

fn sections(program: &File) -> Option<Vec<Section>> {
    let header = header(program)?;
    let count = usize::from(half(&header, 60)?);
    if count > MAX_SECTIONS {
        return None;
    }
    let table = read(program, word(&header, 40)?, (count * SECTION) as u64)?;
    let names = table.chunks_exact(SECTION).nth(usize::from(half(&header, 62)?))?;
    let names = read(program, word(names, 24)?, word(names, 32)?)?;
    let section = |section: &[u8]| {
        let name = names.get(usize::try_from(number(section, 0)?).ok()?..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(Section {
            name: String::from_utf8_lossy(name).into_owned(),
            offset: word(section, 24)?,
            size: word(section, 32)?,
        })
    };
    table.chunks_exact(SECTION).map(section).collect()
}

fn read(program: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok().filter(|_| size <= MAX_TABLE)?;
    let mut bytes = vec![0; size];
    program.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The 64-bit word at this place.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn sections_of_this_program_are_found() {
        let own = File::open("/proc/self/exe").expect("this program");
        assert!(has_section(&own, ".text"));
        assert!(!has_section(&own, ".go.buildinfo"));
        assert!(is_relocated(&own).is_some());
        let text = File::open("/etc/passwd").expect("a file");
        assert!(!has_section(&text, ".text"));
        assert_eq!(is_relocated(&text), None);
        assert_eq!(symbols(&text, ["main"]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(bytes in proptest::collection::vec(0u8.., 0..400), keeps in 0..64usize) {
            // The header of this program.
            let program = std::fs::File::open("/proc/self/exe").expect("this program");
            let mut whole = vec![0; keeps];
            program.read_exact_at(&mut whole, 0).expect("a header");
            whole.extend(bytes);
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&whole).expect("written");
            let _ = (has_section(&file, ".text"), symbols(&file, ["main"]), is_relocated(&file));
        }
    }
}
