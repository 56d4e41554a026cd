//! Output that is no text: which lines are, and what kind of data it is by its first bytes. Pure.

/// How many control characters in ten bytes make a line that is not UTF-8 no text.
const CONTROLS_IN_TEN: usize = 1;

/// Whether a line of output is no text. Names that zeros separate are text.
pub(crate) fn is_binary(line: &[u8]) -> bool {
    if line.iter().all(|byte| *byte >= 0x20 && *byte < 0x7f) {
        return false;
    }
    let zeros = memchr::memchr_iter(0, line).count();
    let controls = line.iter().filter(|byte| is_control(**byte)).count();
    let is_utf_8 = std::str::from_utf8(line).is_ok();
    if is_utf_8 {
        return zeros * 2 > line.len() || (zeros > 0 && controls * 10 > line.len());
    }
    let wrong: usize = line.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    (zeros > 0 && (zeros + wrong) * 3 > line.len()) || controls * 10 >= line.len() * CONTROLS_IN_TEN
}

/// Whether a line could be text if there were no data around it.
pub(crate) fn is_clean(line: &[u8]) -> bool {
    let wrong: usize = line.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // A few bytes in another encoding are still text.
    wrong * 10 <= line.len() * MOST_WRONG_IN_TEN && !line.iter().any(|byte| is_control(*byte))
}

/// The text at the end of a line of data, if it has some: at least a few printable characters with a
/// blank among them.
pub(crate) fn text_at_end(line: &[u8]) -> Option<usize> {
    let printable = |byte: &&u8| (0x20..0x7f).contains(*byte) || **byte == b'\t';
    let length = line.iter().rev().take_while(printable).count();
    let begin = line.len() - length;
    let text = line.get(begin..).unwrap_or_default();
    (length >= TEXT_AT_END && begin > 0 && text.contains(&b' ')).then_some(begin)
}

/// How many bytes in ten of a line of text may be wrong.
const MOST_WRONG_IN_TEN: usize = 3;
/// How long the text at the end of a line of data is at least; in random data, so much is rare.
const TEXT_AT_END: usize = 9;

/// Control characters that no program prints to be read.
fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, 0 | b'\t' | b'\r' | 0x07 | 0x08 | 0x0b | 0x0c | 0x1b)
}

/// First bytes of files, and what they are.
const KINDS: &[(&[u8], &str)] = &[
    (b"\x7fELF", "an ELF program"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"!<arch>\n", "an ar archive"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "RIFF media"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"\x1aE\xdf\xa3", "Matroska media"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "WebAssembly"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"MZ", "a Windows program"),
    (b"PAR1", "a Parquet file"),
    (b"wOF2", "a WOFF2 font"),
    (b"\0\x01\0\0", "a TrueType font"),
];

/// Whether data of this kind has long texts in it.
pub(crate) fn has_texts(kind: &str) -> bool {
    kind.ends_with(" program") || kind.ends_with("database") || kind.ends_with("document")
}

/// What a tar archive is called.
pub(crate) const TAR: &str = "a tar archive";

/// Where the mark of a tar archive is.
const TAR_MARK_AT: usize = 257;

/// What data is that begins with these bytes; `None` if it is not known.
pub(crate) fn kind(begins: &[u8]) -> Option<&'static str> {
    let is_tar = begins.get(TAR_MARK_AT..).is_some_and(|rest| rest.starts_with(b"ustar"));
    let known = KINDS.iter().find(|(mark, _)| begins.starts_with(mark)).map(|(_, kind)| *kind);
    known.or_else(|| is_tar.then_some(TAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_in_every_form() {
        for line in [
            &b"plain"[..],
            b"\x1b[31mred\x1b[0m\ttab\r",
            "日本語".as_bytes(),
            b"caf\xe9 au lait",
            b"src/a.rs\0src/b.rs\0",
            b"",
            b"\x07bell and \x08back",
        ] {
            assert!(!is_binary(line), "{line:?}");
        }
    }

    #[test]
    fn data_is_not_text() {
        for line in [
            &b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0"[..],
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xcd",
            b"\0\0\0\0\0\0",
            b"\x89\x01\x02\xf3\x1e\x99",
        ] {
            assert!(is_binary(line), "{line:?}");
        }
        assert_eq!(kind(b"\x1f\x8b\x08"), Some("gzip data"));
        assert_eq!(kind(b"hello"), None);
    }
}
