//! Removes secrets that were typed into a task from the task's output.
//!
//! A task's output passes through a [`Mask`] before it is stored or shown. Every occurrence of a
//! secret becomes `[secret NAME]`, even if it arrives in pieces: the end of a chunk that may begin
//! a secret is held back until more output arrives, until the output ends, or, if it is too short
//! to reveal anything, until the output has been silent. Overlapping occurrences are masked as one.
//! Of occurrences that begin at the same byte, the longest gives the name.
//!
//! Limits: finds a secret verbatim and as quoted by JSON and the shells, but not in other forms
//! (another encoding, a line break in its middle). Pure.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use memchr::memmem::Finder;
use zeroize::Zeroizing;

/// The shortest secret. A shorter one would mask ordinary text, and is easily guessed.
pub(crate) const MIN_SECRET_BYTES: usize = 4;
/// The longest secret. A terminal's line has at most 4,095 bytes including Enter; the kernel cuts
/// longer lines silently.
pub(crate) const MAX_SECRET_BYTES: usize = 4_094;

/// After silence, the beginning of a secret is shown if it has at most this many bytes and is at
/// most a quarter of the secret. So a prompt with this ending is not withheld, and a secret that
/// arrives in two halves is not revealed.
const MAX_SHOWN: usize = 3;
/// See [`MAX_SHOWN`].
const MAX_SHOWN_DIVISOR: usize = 4;

/// The bytes that bash's `printf %q` escapes with a backslash.
const QUOTED_BY_BASH: &[u8] = b" !\"$&'()*,;<>?[\\]^`{|}";
/// The bytes that zsh's `${(q)…}` escapes with a backslash.
const QUOTED_BY_ZSH: &[u8] = b" \"#$&'()*;<>?[\\]^`{|}";

/// A secret's bytes, overwritten when dropped. They can be typed and masked but not printed, since
/// the type implements neither `Debug` nor `Display`.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// Why bytes cannot be typed and masked as a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// No bytes.
    #[error("it is empty")]
    Empty,
    /// Less than [`MIN_SECRET_BYTES`].
    #[error("it is shorter than {MIN_SECRET_BYTES} bytes, too short to be masked in output")]
    Short,
    /// More than [`MAX_SECRET_BYTES`].
    #[error("it is longer than {MAX_SECRET_BYTES} bytes, the limit of a terminal's line")]
    Long,
    /// Control characters are keys to a terminal: Enter, Ctrl-C, end of file.
    #[error(
        "it contains a line end or another control character, which a terminal treats as a key"
    )]
    Control,
}

impl Secret {
    /// Creates a secret from bytes that can be typed at a prompt.
    ///
    /// # Errors
    /// If they cannot be typed or masked.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Result<Secret, MaskError> {
        match bytes.len() {
            0 => Err(MaskError::Empty),
            _ if bytes.iter().any(u8::is_ascii_control) => Err(MaskError::Control),
            length if length < MIN_SECRET_BYTES => Err(MaskError::Short),
            length if length > MAX_SECRET_BYTES => Err(MaskError::Long),
            _ => Ok(Secret(bytes)),
        }
    }

    /// The bytes, for typing them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The forms in which programs print it: verbatim, in JSON, and quoted for a shell.
    fn forms(&self) -> Vec<Zeroizing<Vec<u8>>> {
        vec![
            self.0.clone(),
            self.escaped(b"\"\\", b"\\"),
            self.escaped(b"'", b"'\\"),
            self.escaped(QUOTED_BY_BASH, b"\\"),
            self.escaped(QUOTED_BY_ZSH, b"\\"),
        ]
    }

    /// The secret with `escape` before each special byte. A single quote ends the quoting and
    /// begins it again.
    fn escaped(&self, special: &[u8], escape: &[u8]) -> Zeroizing<Vec<u8>> {
        let capacity = self.0.len() * (escape.len() + 2);
        let mut escaped = Zeroizing::new(Vec::with_capacity(capacity));
        for byte in self.0.iter() {
            if special.contains(byte) {
                escaped.extend_from_slice(escape);
            }
            escaped.push(*byte);
            if special == b"'" && *byte == b'\'' {
                escaped.push(b'\'');
            }
        }
        escaped
    }
}

/// One form of a secret, and the label that replaces it.
struct Needle {
    form: Zeroizing<Vec<u8>>,
    label: String,
}

impl Needle {
    /// The start of the longest suffix of the bytes that is a proper prefix of this needle.
    fn beginning_at_end_of(&self, bytes: &[u8]) -> Option<usize> {
        let from = bytes.len().saturating_sub(self.form.len() - 1);
        (from..bytes.len()).find(|at| {
            let end = bytes.get(*at..).unwrap_or_default();
            self.form.starts_with(end)
        })
    }
}

/// An occurrence of a secret.
struct Occurrence {
    range: Range<usize>,
    /// The index of its needle.
    of: usize,
}

/// Masks the secrets in a stream of bytes.
#[derive(Default)]
pub struct Mask {
    needles: Vec<Needle>,
    /// The end of the output so far, which may begin a secret.
    held: Zeroizing<Vec<u8>>,
    /// How many held bytes are already masked or shown.
    settled: usize,
    /// How many held bytes belong to a label that was already shown.
    labelled: usize,
}

impl Mask {
    /// Adds a secret to mask from now on.
    pub fn cover(&mut self, name: &str, secret: &Secret) {
        let label = format!("[secret {name}]");
        for form in secret.forms() {
            if self.needles.iter().all(|known| known.form != form) {
                let label = label.clone();
                self.needles.push(Needle { form, label });
            }
        }
    }

    /// The output that can be shown now; borrowed if there is nothing to mask.
    pub fn feed<'a>(&mut self, chunk: &'a [u8]) -> Cow<'a, [u8]> {
        if chunk.is_empty() {
            return Cow::Borrowed(chunk);
        }
        if self.held.is_empty() {
            let cut = self.beginning_at_end_of(chunk);
            let found = self.occurrences(chunk);
            if found.is_empty() && cut == chunk.len() {
                return Cow::Borrowed(chunk);
            }
            return Cow::Owned(self.advance(chunk, &found, cut));
        }
        let mut bytes = std::mem::take(&mut self.held);
        // Allocate a new buffer: growing the old one could leave a copy of it in memory.
        let mut whole = Zeroizing::new(Vec::with_capacity(bytes.len() + chunk.len()));
        whole.append(&mut bytes);
        whole.extend_from_slice(chunk);
        let cut = self.beginning_at_end_of(&whole);
        let found = self.occurrences(&whole);
        Cow::Owned(self.advance(&whole, &found, cut))
    }

    /// Whether output is held back that can be shown after silence.
    pub fn waits_for_silence(&self) -> bool {
        self.settled < self.held.len()
            && self.needles.iter().all(|needle| {
                let limit = MAX_SHOWN.min(needle.form.len() / MAX_SHOWN_DIVISOR);
                needle
                    .beginning_at_end_of(&self.held)
                    .is_none_or(|at| self.held.len() - at <= limit)
            })
    }

    /// After silence: the held output, if it reveals nothing of a secret. If the rest of a secret
    /// follows later, it is masked.
    pub fn release(&mut self) -> Vec<u8> {
        if !self.waits_for_silence() {
            return Vec::new();
        }
        let shown = self.held.get(self.settled..).unwrap_or_default().to_vec();
        self.settled = self.held.len();
        shown
    }

    /// After the end of the output: the held rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let found = self.occurrences(&held);
        self.advance(&held, &found, held.len())
    }

    /// The start of the suffix of the bytes that may begin a secret.
    fn beginning_at_end_of(&self, bytes: &[u8]) -> usize {
        let beginnings = self.needles.iter();
        let first = beginnings.filter_map(|needle| needle.beginning_at_end_of(bytes));
        first.min().unwrap_or(bytes.len())
    }

    /// All occurrences in order of their starts, the longest first.
    fn occurrences(&self, bytes: &[u8]) -> Vec<Occurrence> {
        let mut found = Vec::new();
        for (of, needle) in self.needles.iter().enumerate() {
            let finder = Finder::new(needle.form.as_slice());
            let mut from = 0;
            while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
                let start = from + at;
                let range = start..start + needle.form.len();
                found.push(Occurrence { range, of });
                from = start + 1;
            }
        }
        found.sort_by_key(|found| (found.range.start, Reverse(found.range.end)));
        found
    }

    /// Shows the bytes before `cut`, masked, and holds back the rest.
    fn advance(&mut self, bytes: &[u8], found: &[Occurrence], cut: usize) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        let mut settled = self.settled;
        let mut labelled = self.labelled;
        // An occurrence after the cut may be part of a longer one.
        for Occurrence { range, of } in found.iter().take_while(|found| found.range.start < cut) {
            if range.start >= labelled {
                let label = self.needles.get(*of).map_or("", |needle| &needle.label);
                shown.extend_from_slice(bytes.get(settled..range.start).unwrap_or_default());
                shown.extend_from_slice(label.as_bytes());
            }
            labelled = labelled.max(range.end);
            settled = settled.max(labelled);
        }
        shown.extend_from_slice(bytes.get(settled..cut).unwrap_or_default());
        settled = settled.max(cut);
        self.held = Zeroizing::new(bytes.get(cut..).unwrap_or_default().to_vec());
        self.settled = settled - cut;
        self.labelled = labelled.saturating_sub(cut);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secret(text: &str) -> Secret {
        Secret::new(Zeroizing::new(text.as_bytes().to_vec()))
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn mask(secrets: &[(&str, &str)]) -> Mask {
        let mut mask = Mask::default();
        for (name, text) in secrets {
            mask.cover(name, &secret(text));
        }
        mask
    }

    fn masked(secrets: &[(&str, &str)], chunks: &[&str]) -> String {
        let mut mask = mask(secrets);
        let mut shown = Vec::new();
        for chunk in chunks {
            shown.extend_from_slice(&mask.feed(chunk.as_bytes()));
        }
        shown.extend(mask.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn secrets_that_cannot_be_typed_or_masked_are_refused() {
        let unusable = |bytes: &[u8]| Secret::new(Zeroizing::new(bytes.to_vec())).err();
        assert_eq!(unusable(b""), Some(MaskError::Empty));
        assert_eq!(unusable(b"abc"), Some(MaskError::Short));
        assert_eq!(unusable(&[b'x'; 4_094]), None);
        assert_eq!(unusable(&[b'x'; 4_095]), Some(MaskError::Long));
        for byte in [0, 3, b'\n', b'\r', b'\t', 0x1b, 0x7f] {
            let bytes = [b'a', b'b', byte, b'c', b'd'];
            assert_eq!(unusable(&bytes), Some(MaskError::Control), "{byte}");
        }
        assert_eq!(unusable("pässwörd \u{1f511}".as_bytes()), None);
        assert_eq!(unusable(b"\xff\xfe\xfd\xfc"), None);
    }

    #[test]
    fn a_secret_is_masked_however_it_is_cut() {
        let secrets = [("DB", "hunter2!")];
        let expected = "say [secret DB] twice: [secret DB]\n";
        assert_eq!(masked(&secrets, &["say hunter2! twice: hunter2!\n"]), expected);
        let halves = ["say hun", "ter2! twice: hunter2", "!\n"];
        assert_eq!(masked(&secrets, &halves), expected);
        let text = "say hunter2! twice: hunter2!\n";
        let singly: Vec<&str> = text.split("").collect();
        assert_eq!(masked(&secrets, &singly), expected);
    }

    #[test]
    fn the_beginning_of_a_secret_is_not_lost() {
        let secrets = [("DB", "hunter2!")];
        assert_eq!(masked(&secrets, &["hunt", "er"]), "hunter");
        assert_eq!(masked(&secrets, &["hunt", "hunter2!"]), "hunt[secret DB]");
    }

    #[test]
    fn the_longest_secret_gives_the_name() {
        let secrets = [("SHORT", "pass"), ("LONG", "password")];
        for chunks in [&["a password, a pass"][..], &["a pass", "word, a p", "ass"]] {
            let expected = "a [secret LONG], a [secret SHORT]";
            assert_eq!(masked(&secrets, chunks), expected, "{chunks:?}");
        }
        assert_eq!(masked(&secrets, &["passwor", "k"]), "[secret SHORT]work");
    }

    #[test]
    fn secrets_that_overlap_are_masked_whole() {
        let secrets = [("A", "abcd"), ("B", "cdef")];
        assert_eq!(masked(&secrets, &["xabcdefx"]), "x[secret A]x");
        assert_eq!(masked(&secrets, &["xabcd", "ef", "x"]), "x[secret A]x");
        assert_eq!(masked(&secrets, &["abcd", "cdef"]), "[secret A][secret B]");
        let same = [("S", "aaaa")];
        assert_eq!(masked(&same, &["aaaaaaaaab"]), "[secret S]b");
        assert_eq!(masked(&same, &["aaaaa", "aa", "aab"]), "[secret S]b");
    }

    #[test]
    fn one_value_under_two_names_is_masked_by_the_first() {
        let secrets = [("FIRST", "correct horse"), ("SECOND", "correct horse")];
        assert_eq!(masked(&secrets, &["correct horse"]), "[secret FIRST]");
    }

    #[test]
    fn quoted_forms_are_masked() {
        let secrets = [("S", r#"it's "a" \$b"#)];
        for form in [
            r#"it's "a" \$b"#,
            r#"it's \"a\" \\$b"#,
            r#"it'\''s "a" \$b"#,
            r#"it\'s\ \"a\"\ \\\$b"#,
        ] {
            let shown = masked(&secrets, &["<", form, ">"]);
            assert_eq!(shown, "<[secret S]>", "{form}");
        }
    }

    #[test]
    fn silence_shows_harmless_beginnings_and_the_rest_is_masked() {
        let mut mask = mask(&[("DB", "hunter2hunter2")]);
        assert_eq!(&*mask.feed(b"go h"), b"go ");
        assert!(mask.waits_for_silence());
        assert_eq!(mask.release(), b"h");
        assert!(!mask.waits_for_silence(), "it is shown once");
        assert_eq!(&*mask.feed(b"unter2hunter"), b"");
        assert!(!mask.waits_for_silence(), "too much of it has come");
        assert_eq!(mask.release(), b"");
        assert_eq!(&*mask.feed(b"2."), b"[secret DB].");
        assert_eq!(&*mask.feed(b"h"), b"");
        assert_eq!(mask.release(), b"h");
        assert_eq!(&*mask.feed(b"ello"), b"ello");
        assert_eq!(mask.finish(), b"");
    }

    #[test]
    fn silence_shows_a_quarter_of_a_short_secret() {
        let mut mask = mask(&[("PIN", "8264")]);
        assert_eq!(&*mask.feed(b"8"), b"");
        assert_eq!(mask.release(), b"8");
        assert_eq!(&*mask.feed(b"2"), b"");
        assert_eq!(mask.release(), b"");
        assert_eq!(mask.finish(), b"2");
    }

    #[test]
    fn output_without_secrets_is_not_copied() {
        let mut mask = mask(&[("DB", "hunter2!")]);
        assert!(matches!(mask.feed(b"nothing here\n"), Cow::Borrowed(_)));
    }

    /// The masked text by definition: all bytes of all occurrences are masked.
    fn by_definition(secrets: &[(&str, &str)], text: &str) -> String {
        let mut occurrences: Vec<(usize, usize, &str)> = Vec::new();
        for (name, secret) in secrets {
            for at in 0..text.len() {
                if text[at..].starts_with(secret) {
                    occurrences.push((at, at + secret.len(), name));
                }
            }
        }
        occurrences.sort_by_key(|(start, end, _)| (*start, Reverse(*end)));
        let mut shown = String::new();
        let mut covered = 0;
        for (start, end, name) in occurrences {
            if start >= covered {
                shown.push_str(&text[covered..start]);
                shown.push_str(&format!("[secret {name}]"));
            }
            covered = covered.max(end);
        }
        shown + &text[covered..]
    }

    /// Secrets of few letters, so that they overlap and begin one another.
    const KNOTTED: [(&str, &str); 5] =
        [("V", "abab"), ("W", "ababbab"), ("X", "bbbbb"), ("Y", "babab"), ("Z", "aabba")];

    proptest! {
        #[test]
        fn any_chunking_gives_the_masked_whole(
            chunks in prop::collection::vec("[ab]{0,9}c?", 0..12)
        ) {
            let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
            let whole = chunks.concat();
            prop_assert_eq!(masked(&KNOTTED, &chunks), by_definition(&KNOTTED, &whole));
        }

        #[test]
        fn silence_never_shows_a_secret_and_loses_nothing(
            pieces in prop::collection::vec(("[ab]{0,7}c?", any::<bool>()), 0..14)
        ) {
            let mut mask = mask(&KNOTTED);
            let (mut text, mut shown) = (String::new(), Vec::new());
            for (piece, silence) in &pieces {
                text.push_str(piece);
                shown.extend_from_slice(&mask.feed(piece.as_bytes()));
                if *silence {
                    shown.extend(mask.release());
                }
            }
            shown.extend(mask.finish());
            let shown = String::from_utf8(shown).unwrap();
            for (_, secret) in KNOTTED {
                prop_assert!(!shown.contains(secret), "{} in {}", secret, shown);
            }
            if by_definition(&KNOTTED, &text) == text {
                prop_assert_eq!(shown, text);
            }
        }

        #[test]
        fn any_bytes_come_through_unchanged_without_a_secret(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8)
        ) {
            let mut mask = mask(&[("S", "no such thing in random bytes")]);
            let mut shown = Vec::new();
            for chunk in &chunks {
                shown.extend_from_slice(&mask.feed(chunk));
            }
            shown.extend(mask.finish());
            prop_assert_eq!(shown, chunks.concat());
        }
    }
}
