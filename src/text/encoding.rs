//! Text that is not UTF-8: how much of it there is, which encoding it likely has, and its decoding. Pure.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

use super::binary;

/// How much of a text is looked at to find its encoding, in bytes.
const LOOKED_AT: usize = 64 * 1024;
/// The marks at the beginning of text in UTF-16.
const MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];
/// UTF-8 is damaged, and not another encoding, if it has more than this many bytes of characters beyond
/// ASCII for each byte that is wrong: other encodings have some by chance.
const VALID_IN_DAMAGED: u64 = 5;
/// With fewer bytes beyond ASCII, an encoding is a guess.
const SURE_FROM: usize = 3;

/// What is known of text that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// How many bytes of what was looked at are not UTF-8.
    pub bytes: u64,
    /// The likely encoding, if there is one.
    pub encoding: Option<&'static Encoding>,
    /// Whether the text is decoded from it; otherwise these bytes are shown as U+FFFD.
    pub is_sure: bool,
}

/// What is known of a text that comes in these parts, which may begin and end within a character;
/// `None` if it is UTF-8, or if it is no text.
pub(crate) fn find<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Found> {
    let ends_lines = |part: &[u8]| {
        let ends = [b"\n\0", b"\0\n"];
        // Names of one letter that zeros separate have no ends of lines.
        ends.iter().any(|end| memchr::memmem::find(part, *end).is_some())
    };
    let first = parts.clone().next();
    let has_mark =
        first.is_some_and(|first| first.starts_with(&MARKS[0]) || first.starts_with(&MARKS[1]));
    let wide = first.filter(|first| has_mark || ends_lines(first)).and_then(utf_16);
    if let Some(encoding) = wide {
        let bytes = parts.map(|part| part.len() as u64).sum();
        return Some(Found { bytes, encoding: Some(encoding), is_sure: true });
    }
    if parts.clone().all(|part| std::str::from_utf8(part).is_ok()) {
        return None;
    }
    let mut counts = Counts::default();
    parts.clone().for_each(|part| counts.add(part));
    let Counts { invalid, valid, odd } = counts;
    if invalid == 0 {
        return None;
    }
    let is_data = |part: &[u8]| part.split(|byte| *byte == b'\n').any(binary::is_binary);
    if parts.clone().any(is_data) {
        return None;
    }
    // Damaged UTF-8 stays that.
    if valid > invalid * VALID_IN_DAMAGED || odd == 0 {
        return Some(Found { bytes: invalid, encoding: None, is_sure: false });
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    let mut beyond_ascii = 0;
    let mut left = LOOKED_AT;
    for part in parts.clone() {
        let looked_at = part.get(..part.len().min(left)).unwrap_or_default();
        // Not within a character.
        let whole = memchr::memrchr(b'\n', looked_at).filter(|_| looked_at.len() < part.len());
        let part = whole.map_or(looked_at, |newline| looked_at.get(..newline).unwrap_or_default());
        // What is UTF-8 says nothing of the rest.
        for line in
            part.split(|byte| *byte == b'\n').filter(|line| std::str::from_utf8(line).is_err())
        {
            detector.feed(line, false);
        }
        beyond_ascii += part.iter().filter(|byte| !byte.is_ascii()).count();
        left -= part.len();
    }
    detector.feed(b"", true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    let is_text = |part: &[u8]| {
        let (text, has_errors) = encoding.decode_without_bom_handling(part);
        !has_errors && !text.chars().any(|character| ('\u{80}'..'\u{a0}').contains(&character))
    };
    let is_sure = beyond_ascii >= SURE_FROM && parts.clone().all(is_text);
    Some(Found { bytes: invalid, encoding: Some(encoding), is_sure })
}

/// Counts of bytes.
#[derive(Default)]
struct Counts {
    /// Those that are not UTF-8, but for characters cut at the ends of parts.
    invalid: u64,
    /// … and are not the beginning of a character either.
    odd: u64,
    /// Those of characters beyond ASCII.
    valid: u64,
}

impl Counts {
    fn add(&mut self, part: &[u8]) {
        let is_cut = |byte: &&u8| is_continuation(**byte);
        let cut = part.iter().take(UNFINISHED_BYTES).take_while(is_cut).count();
        let whole = part.get(cut..).unwrap_or_default();
        let whole = whole.get(..whole.len() - unfinished_character(whole));
        for chunk in whole.unwrap_or_default().utf8_chunks() {
            let wrong = chunk.invalid().len() as u64;
            self.invalid += wrong;
            self.odd += if wrong == 1 { 1 } else { 0 };
            self.valid += chunk.valid().bytes().filter(|byte| !byte.is_ascii()).count() as u64;
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    (0x80..0xc0).contains(&byte)
}

/// The kind of UTF-16 that a text is in, by its mark or since every other byte is zero.
fn utf_16(part: &[u8]) -> Option<&'static Encoding> {
    match part {
        // UTF-32 is not decoded.
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, ..] => return Some(UTF_16LE),
        [0xfe, 0xff, ..] => return Some(UTF_16BE),
        _ => {}
    }
    let part = part.get(..part.len().min(LOOKED_AT)).unwrap_or_default();
    let zeros = |from: usize| part.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    let units = part.len() / 2;
    let (many, few) = (even.max(odd), even.min(odd));
    // Text in Latin letters; other scripts have the mark.
    if units < 4 || many * 10 < units * 7 || few * 20 > units {
        return None;
    }
    Some(if odd > even { UTF_16LE } else { UTF_16BE })
}

/// Decodes a part of a text, to UTF-8.
pub(crate) fn decode(encoding: &'static Encoding, part: &[u8]) -> Vec<u8> {
    let mut bytes = part;
    if encoding == UTF_16LE || encoding == UTF_16BE {
        // A part begins after the byte of a line's end, which may be half of it.
        let zeros =
            |from: usize| bytes.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
        let (even, odd) = (zeros(0), zeros(1));
        let is_shifted = if encoding == UTF_16LE { even > odd } else { odd > even };
        if is_shifted {
            bytes = bytes.get(1..).unwrap_or_default();
        }
        bytes = bytes.get(..bytes.len() & !1).unwrap_or_default();
    }
    if encoding == UTF_16LE || encoding == UTF_16BE {
        return encoding.decode(bytes).0.into_owned().into_bytes();
    }
    let is_utf_8 = |line: &[u8]| std::str::from_utf8(line).is_ok();
    let lines = || bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.is_ascii());
    let (all, valid) = (lines().count(), lines().filter(|line| is_utf_8(line)).count());
    // By chance, a few lines of another encoding are UTF-8, too.
    if valid * 5 < all {
        return encoding.decode_without_bom_handling(bytes).0.into_owned().into_bytes();
    }
    let mut text = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_utf_8(line) {
            text.extend_from_slice(line);
        } else {
            text.extend_from_slice(encoding.decode_without_bom_handling(line).0.as_bytes());
        }
    }
    text
}

/// A line in UTF-8, if its encoding is sure; otherwise as it is.
pub(crate) fn decoded_line(line: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(0, line).is_none() && std::str::from_utf8(line).is_ok() {
        return Cow::Borrowed(line);
    }
    if let Some(encoding) = utf_16(line) {
        return Cow::Owned(decode(encoding, line));
    }
    match find(std::iter::once(line)) {
        Some(Found { encoding: Some(encoding), is_sure: true, .. }) => {
            Cow::Owned(decode(encoding, line))
        }
        _ => Cow::Borrowed(line),
    }
}

/// The most bytes of an unfinished character.
pub(crate) const UNFINISHED_BYTES: usize = 3;

/// The number of bytes at the end that begin an incomplete character. Callers hold them back while
/// more output may follow.
pub fn unfinished_character(bytes: &[u8]) -> usize {
    for (present, byte) in (1..).zip(bytes.iter().rev().take(UNFINISHED_BYTES)) {
        let expected = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if expected > present { present } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{BIG5, EUC_KR, GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};

    fn encoded(encoding: &'static Encoding, text: &str) -> Vec<u8> {
        let (bytes, _, has_errors) = encoding.encode(text);
        assert!(!has_errors, "{text}");
        bytes.into_owned()
    }

    fn utf_16(text: &str, little: bool, mark: bool) -> Vec<u8> {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units
            .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
            .collect()
    }

    fn read(bytes: &[u8]) -> (String, Option<Found>) {
        let found = find(std::iter::once(bytes));
        let text = match found {
            Some(Found { encoding: Some(encoding), is_sure: true, .. }) => decode(encoding, bytes),
            _ => bytes.to_vec(),
        };
        (String::from_utf8_lossy(&text).into_owned(), found)
    }

    #[test]
    fn text_in_the_usual_encodings_is_decoded() {
        for (encoding, text) in [
            (GBK, "编译失败：找不到文件，请检查路径\n第二行也是中文\n"),
            (BIG5, "編譯失敗：找不到檔案，請檢查路徑\n第二行也是中文\n"),
            (SHIFT_JIS, "コンパイルに失敗しました：ファイルが見つかりません\n二行目\n"),
            (EUC_KR, "컴파일에 실패했습니다: 파일을 찾을 수 없습니다\n"),
            (WINDOWS_1251, "Ошибка компиляции: файл не найден\nвторая строка\n"),
            (
                WINDOWS_1252,
                "Fehler beim Übersetzen: Datei für später nicht gefunden\nprêt à être lancé\n",
            ),
        ] {
            let (shown, found) = read(&encoded(encoding, text));
            assert_eq!(shown, text, "{}", encoding.name());
            let found = found.expect("it is not UTF-8");
            assert!(found.is_sure && found.bytes > 0, "{}: {found:?}", encoding.name());
        }
        for (little, mark) in [(true, true), (true, false), (false, true), (false, false)] {
            let text =
                "Copyright (C) Microsoft Corporation. All rights reserved.\r\nsecond é line\r\n";
            let (shown, found) = read(&utf_16(text, little, mark));
            assert_eq!(shown, text, "{little} {mark}");
            assert!(found.is_some_and(|found| found.is_sure), "{little} {mark}");
        }
    }

    #[test]
    fn a_part_that_begins_within_a_character_of_two_bytes_is_decoded() {
        let all = utf_16("first line\nsecond line\n", true, true);
        let behind = all.iter().position(|byte| *byte == b'\n').expect("a line end") + 1;
        assert_eq!(read(&all[behind..]).0, "second line\n");
    }

    #[test]
    fn lines_in_utf_8_stay_beside_others() {
        let all = [
            "résumé: ok\nprêt à être\n".as_bytes(),
            &encoded(WINDOWS_1252, "für später übrig gelassen\n"),
        ];
        assert_eq!(read(&all.concat()).0, "résumé: ok\nprêt à être\nfür später übrig gelassen\n");
    }

    #[test]
    fn long_text_is_not_cut_within_a_character() {
        let text: String = (0..6_000).map(|line| format!("第{line}行：编译失败\n")).collect();
        assert!(read(&encoded(GBK, &text)).0 == text);
    }

    #[test]
    fn utf_8_stays_and_damage_is_counted() {
        assert_eq!(read("日本語 é\n".as_bytes()).1, None);
        assert_eq!(read(&"日本語".as_bytes()[1..7]).1, None, "cut characters");
        assert_eq!(read(b"plain").1, None);
        let (shown, found) = read(b"\xe6\x97\xa5\xe6\x9c\xac \xff and \xe8\xaa\x9e\n");
        assert_eq!(shown, "日本 \u{fffd} and 語\n");
        assert_eq!(found, Some(Found { bytes: 1, encoding: None, is_sure: false }));
        let (shown, found) = read(b"\xf0\x9f\x98 cut\n");
        assert_eq!(shown, "\u{fffd} cut\n");
        assert_eq!(found, Some(Found { bytes: 3, encoding: None, is_sure: false }));
        let (shown, found) = read(b"one \xe9 alone\n");
        assert_eq!(shown, "one \u{fffd} alone\n");
        assert!(found.is_some_and(|found| !found.is_sure && found.bytes == 1), "{found:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(0u8.., 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn utf_8_is_never_decoded(text in "\\PC{0,300}") {
            let (shown, found) = read(text.as_bytes());
            proptest::prop_assert_eq!(shown, text);
            proptest::prop_assert!(found.is_none());
        }
    }
}
