//! Parses lines that name an option: `-b, --block-size=SIZE`, `-name pattern`, `--slurp/-s:`.
//!
//! A sentence may also begin with an option (`-p is used with …`), so the words after the names
//! count as an argument only if they look like one. Limit: of the options without a dash,
//! recognises only operands (`if=FILE`). Pure.

/// The longest line that names an option, in bytes; longer lines are sentences.
const MAX_LINE: usize = 500;
/// The most words of an argument; more words are a sentence. `a | b | c` counts as one word.
const MAX_ARGUMENT_WORDS: usize = 8;
/// The most names of one option; further names are ignored.
pub(crate) const MAX_NAMES: usize = 100;
/// The longest merged form of an argument, in bytes.
const MAX_ARGUMENT: usize = 160;

/// Words between two names of one option.
const SEPARATORS: [&str; 5] = ["or", "and", "/", "|", ","];

/// Words of sentences, which are not names of arguments.
const PROSE: [&str; 42] = [
    "a", "also", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "cannot",
    "could", "does", "for", "from", "had", "has", "have", "if", "implies", "in", "is", "it", "may",
    "must", "not", "of", "on", "or", "should", "takes", "that", "the", "then", "to", "was", "were",
    "when", "will", "with",
];

/// An option's argument, as the page writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// Part of the same word: `=SIZE`, `[=WHEN]`, `[SUFFIX]`.
    Attached(String),
    /// Separate words: `pattern`.
    Separate(String),
}

/// The names of an option, with its argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// `-b`, `--block-size`, `--[no-]atomic`; the one that shows the argument comes last.
    pub names: Vec<String>,
    pub argument: Option<Argument>,
}

impl Tag {
    /// Parses a line; `None` if it names no option.
    pub fn parse(line: &str) -> Option<Tag> {
        let line = line.trim().trim_end_matches(':');
        if line.len() > MAX_LINE {
            return None;
        }
        operand(line).or_else(|| Parser::default().parse(&words(line)))
    }

    /// Adds the names and the argument of another line with the same description.
    pub(crate) fn merge(&mut self, other: Tag) {
        let argument = match (self.argument.take(), other.argument) {
            (Some(Argument::Separate(own)), Some(Argument::Separate(more)))
                if own != more
                    && other.names.iter().any(|name| self.names.contains(name))
                    && own.len() + more.len() < MAX_ARGUMENT =>
            {
                Some(Argument::Separate(format!("{own} | {more}")))
            }
            (own, None) => {
                self.put_names_first(other.names);
                self.argument = own;
                return;
            }
            (_, more) => more,
        };
        self.argument = argument;
        let own = std::mem::replace(&mut self.names, other.names);
        self.put_names_first(own);
    }

    fn put_names_first(&mut self, names: Vec<String>) {
        let own = std::mem::replace(&mut self.names, names);
        self.names.retain(|name| !own.contains(name));
        self.names.extend(own);
        self.names.truncate(MAX_NAMES);
    }

    /// Whether the only name is a dash, which is an option only together with another name.
    pub(crate) fn is_dash(&self) -> bool {
        self.names == ["-"]
    }

    /// The names and the argument as a table shows them.
    pub fn head(&self) -> String {
        head(&self.names, self.argument.as_ref())
    }
}

/// Names and an argument as a table shows them.
pub(super) fn head(names: &[String], argument: Option<&Argument>) -> String {
    let names = names.join(", ");
    match argument {
        Some(Argument::Attached(text)) => names + text,
        Some(Argument::Separate(text)) => format!("{names} {text}"),
        None => names,
    }
}

/// The names in the output of [`head`], with or without a command before it.
pub(crate) fn names_of(head: &str) -> impl Iterator<Item = &str> {
    head.split(", ").filter_map(|piece| {
        let mut words = piece.split(' ');
        match words.find_map(name_of) {
            Some((name, _)) => Some(name),
            None => piece.split('=').next().filter(|name| !name.is_empty()),
        }
    })
}

/// `if=FILE`: a word in lower case, and one in upper case that stands for a value.
fn operand(line: &str) -> Option<Tag> {
    let (name, value) = line.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_value = value.starts_with(|first: char| first.is_ascii_uppercase())
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (is_name && is_value).then(|| Tag {
        names: vec![name.to_owned()],
        argument: Some(Argument::Attached(format!("={value}"))),
    })
}

#[derive(Debug, Default)]
struct Parser<'a> {
    names: Vec<&'a str>,
    /// The last name read.
    own: &'a str,
    /// The words after it.
    words: Vec<&'a str>,
    /// The last name with an argument, and that argument.
    shown: Option<(&'a str, Argument)>,
}

impl<'a> Parser<'a> {
    fn parse(mut self, words: &[&'a str]) -> Option<Tag> {
        let is_name = |word: &&str| name_of(word).is_some_and(|(_, rest)| rest.is_empty());
        let all_are_names = words.len() > 2 && words.iter().all(is_name);
        let mut expects_name = true;
        for (index, word) in words.iter().enumerate() {
            let next_is_name = words.get(index + 1).is_some_and(|next| begins_name(next));
            if SEPARATORS.contains(word) && next_is_name {
                expects_name = true;
                continue;
            }
            let (word, comma) = match word.strip_suffix(',') {
                Some(word) => (word, true),
                None => (*word, false),
            };
            // `-c --stdout`: no argument begins with two dashes.
            if expects_name || all_are_names || is_long_name(word) {
                self.take_names(word)?;
            } else {
                self.take_argument(word, words.len() == 2)?;
            }
            expects_name = comma;
        }
        if expects_name {
            return None;
        }
        self.end_argument();
        self.finish()
    }

    /// `--slurp/-s`: one word, several names.
    fn take_names(&mut self, word: &'a str) -> Option<()> {
        let mut rest = word;
        while let Some(at) = next_name(rest) {
            let (piece, more) = (rest.get(..at)?, rest.get(at + 1..)?);
            let next = more.get(..next_name(more).unwrap_or(more.len()))?;
            if name_of(next).is_none_or(|(_, rest)| rest.starts_with(',')) {
                // `-mattr=a1,-a2,...`: the whole rest is an argument.
                break;
            }
            self.take_name(piece)?;
            rest = more;
        }
        self.take_name(rest)
    }

    fn take_name(&mut self, piece: &'a str) -> Option<()> {
        self.end_argument();
        let (name, attached) = name_of(piece)?;
        if !is_argument(attached) {
            return None;
        }
        self.own = name;
        if !self.names.contains(&name) && self.names.len() < MAX_NAMES {
            self.names.push(name);
        }
        if !attached.is_empty() {
            self.shown = Some((name, Argument::Attached(attached.to_owned())));
        }
        Some(())
    }

    fn take_argument(&mut self, word: &'a str, is_only_one: bool) -> Option<()> {
        let is_dashed = word.starts_with('-') && word != "-";
        let fits = is_argument(word) && (!is_dashed || is_only_one);
        self.words.push(word);
        let bars = self.words.iter().filter(|word| **word == "|").count();
        let words = self.words.len().saturating_sub(2 * bars);
        (fits && words <= MAX_ARGUMENT_WORDS).then_some(())
    }

    fn end_argument(&mut self) {
        if self.words.is_empty() {
            return;
        }
        let words = self.words.join(" ");
        self.words.clear();
        let argument = match self.shown.take() {
            // `-F[num] file`: both belong to it.
            Some((name, Argument::Attached(attached))) if name == self.own => {
                Argument::Attached(format!("{attached} {words}"))
            }
            _ => Argument::Separate(words),
        };
        self.shown = Some((self.own, argument));
    }

    fn finish(mut self) -> Option<Tag> {
        if let Some((owner, _)) = &self.shown {
            self.names.retain(|name| name != owner);
            self.names.push(owner);
        }
        Some(Tag {
            names: self.names.into_iter().map(without_sign_choice).collect(),
            argument: self.shown.map(|(_, argument)| argument),
        })
    }
}

/// `[-+]O` becomes `-O`.
fn without_sign_choice(name: &str) -> String {
    match strip_sign_choice(name) {
        Some(rest) => format!("-{rest}"),
        None => name.to_owned(),
    }
}

fn strip_sign_choice(name: &str) -> Option<&str> {
    name.strip_prefix("[-+]").or_else(|| name.strip_prefix("[+-]"))
}

fn begins_name(word: &str) -> bool {
    word.starts_with('-') || strip_sign_choice(word).is_some()
}

fn is_long_name(word: &str) -> bool {
    word.strip_prefix("--")
        .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_alphanumeric()))
}

/// The separator before a further name in a word.
fn next_name(word: &str) -> Option<usize> {
    let bytes = word.as_bytes();
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let mut depth = 0_usize;
    for (at, (byte, next)) in pairs.enumerate() {
        match byte {
            b'[' | b'<' | b'{' | b'(' => depth += 1,
            b']' | b'>' | b'}' | b')' => depth = depth.saturating_sub(1),
            b'/' | b'|' | b',' if depth == 0 && *next == b'-' => return Some(at),
            _ => {}
        }
    }
    None
}

/// The name that a word begins with, and the rest, which must be an argument.
fn name_of(piece: &str) -> Option<(&str, &str)> {
    if piece == "-" || piece == "--" {
        return Some((piece, ""));
    }
    let (dashes, body) = match strip_sign_choice(piece) {
        Some(body) => (piece.len() - body.len(), body),
        None => match piece.strip_prefix("--") {
            Some(body) => (2, body),
            None => (1, piece.strip_prefix('-')?),
        },
    };
    let length = negation(body) + name_length(body.get(negation(body)..)?, dashes)?;
    let (name, rest) = piece.split_at_checked(dashes + length)?;
    let is_argument = rest.is_empty()
        || rest.starts_with(['=', '[', '<', '{', '(', '#'])
        // `-Xcheck:jni`, but not `-4w:+4w`, a span of time.
        || rest.len() > 1 && rest.starts_with([':', '/']) && !starts_with_digit(body)
        || rest.starts_with(",...");
    // `--map-<LANG>`
    let is_whole = !name.ends_with('-') || rest.starts_with(['<', '(']);
    let is_name = is_whole && !name.ends_with('.') && !is_number(name) && !is_file_mode(name);
    (is_argument && is_name).then_some((name, rest))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// `-500`, but not `-5`.
fn is_number(name: &str) -> bool {
    name.len() > 2 && name.bytes().skip(1).all(|byte| byte.is_ascii_digit())
}

/// `-rwxr-xr-x`, as `ls -l` prints it.
fn is_file_mode(name: &str) -> bool {
    name.len() == 10 && name.bytes().all(|byte| b"-rwxsStT".contains(&byte))
}

/// The length of a `[no-]` at the beginning.
fn negation(body: &str) -> usize {
    ["[no-]", "[no]", "(no-)"]
        .into_iter()
        .find(|prefix| body.starts_with(prefix))
        .map_or(0, str::len)
}

fn name_length(body: &str, dashes: usize) -> Option<usize> {
    let first = body.chars().next()?;
    if first.is_ascii_alphanumeric() {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        return Some(body.bytes().position(|byte| !is_part(byte)).unwrap_or(body.len()));
    }
    // `-?`, `-#`, `-:`, `-??`.
    let is_sign = dashes == 1 && "?#:@%!$*^~+_".contains(first);
    is_sign.then(|| body.len() - body.trim_start_matches(first).len())
}

pub(crate) fn is_prose(word: &str) -> bool {
    PROSE.contains(&word)
}

/// Whether a word may be the name of an argument.
fn is_argument(word: &str) -> bool {
    let is_sentence = (word.ends_with('.') && !word.ends_with("..."))
        || word.contains(['\'', '’'])
        || word.matches(')').count() > word.matches('(').count()
        || is_prose(word);
    !is_sentence
}

/// The words of a line; text in brackets is one word.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'[' | b'<' | b'{' | b'(' => depth += 1,
            b']' | b'>' | b'}' | b')' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => {
                words.extend(line.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        // An unclosed bracket encloses nothing.
        return line.split_ascii_whitespace().collect();
    }
    words.extend(line.get(start..));
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Option<String> {
        Tag::parse(line).map(|tag| tag.head())
    }

    #[test]
    fn lines_that_name_options_are_read() {
        for (line, expected) in [
            ("-a, --all", "-a, --all"),
            ("--block-size=SIZE", "--block-size=SIZE"),
            ("-f FILE, --file=FILE", "-f, --file=FILE"),
            ("--block-size=SIZE, -B", "-B, --block-size=SIZE"),
            ("--color[=WHEN], --colour[=WHEN]", "--color, --colour[=WHEN]"),
            ("-i[SUFFIX], --in-place[=SUFFIX]", "-i, --in-place[=SUFFIX]"),
            ("-n", "-n"),
            ("-name pattern", "-name pattern"),
            ("-exec command {} +", "-exec command {} +"),
            ("-exec command ;", "-exec command ;"),
            ("-perm -mode", "-perm -mode"),
            ("-size n[cwbkMG]", "-size n[cwbkMG]"),
            ("-L [bind_address:]port:host:hostport", "-L [bind_address:]port:host:hostport"),
            ("[-+]O [shopt_option]", "-O [shopt_option]"),
            ("--[no-]atomic", "--[no-]atomic"),
            ("--[no-]signed, --signed=(true|false)", "--[no-]signed, --signed=(true|false)"),
            ("--recurse=check|on-demand, --no-recurse", "--no-recurse, --recurse=check|on-demand"),
            ("--slurp/-s:", "--slurp, -s"),
            ("--color-output / -C and --plain / -M:", "--color-output, -C, --plain, -M"),
            ("-h or --help", "-h, --help"),
            ("-a|--all", "-a, --all"),
            ("--arg name value:", "--arg name value"),
            ("-:, --next", "-:, --next"),
            ("-#, --progress-bar", "-#, --progress-bar"),
            ("-, -l, --login", "-, -l, --login"),
            ("-NUM, -C NUM, --context=NUM", "-NUM, -C, --context=NUM"),
            ("-t, --type=", "-t, --type="),
            ("--data <name of a file>", "--data <name of a file>"),
            ("-c[color][={always|never}", "-c[color][={always|never}"),
            ("--", "--"),
            ("if=FILE", "if=FILE"),
            ("-c --stdout --to-stdout", "-c, --stdout, --to-stdout"),
            ("-L --license -V --version", "-L, --license, -V, --version"),
            ("-S .suf --suffix .suf", "-S, --suffix .suf"),
            (
                "-t dsa | ecdsa | ecdsa-sk | ed25519 | ed25519-sk | rsa",
                "-t dsa | ecdsa | ecdsa-sk | ed25519 | ed25519-sk | rsa",
            ),
            (
                "--form text height width formheight [ label y x item y x ] ...",
                "--form text height width formheight [ label y x item y x ] ...",
            ),
            ("-Xcheck:jni", "-Xcheck:jni"),
            ("-b#", "-b#"),
            ("--map-<LANG>=[+|-]<extension>", "--map-<LANG>=[+|-]<extension>"),
            ("-hh | -??", "-hh, -??"),
            ("-mattr=a1,+a2,-a3,...", "-mattr=a1,+a2,-a3,..."),
            ("-xn,... or --tabs=n,...", "-xn, --tabs=n,..."),
        ] {
            assert_eq!(read(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn sentences_are_not() {
        for line in [
            "",
            "text",
            "--alt-svc can be used several times in a command line",
            "-name and -regex) are performed first.",
            "-p is used",
            "-x.",
            "-x, the other",
            "-x,",
            "-depth Don't descend",
            "-a -b file",
            "--foo-",
            "---",
            "--log-file=/tmp/log).",
            "-500 bytes",
            "-4w:+4w",
            "-rwxr-xr-x",
            "-é",
            "PATH=/usr/bin",
            "Path=FILE",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn names_are_found_again_in_a_table() {
        for (head, expected) in [
            ("-B, --block-size=SIZE", &["-B", "--block-size"][..]),
            ("-L [a:]port:host | socket", &["-L"]),
            ("--color[=WHEN]", &["--color"]),
            ("--[no-]atomic", &["--[no-]atomic"]),
            ("if=FILE", &["if"]),
        ] {
            assert_eq!(names_of(head).collect::<Vec<_>>(), expected, "{head}");
        }
    }

    #[test]
    fn forms_of_one_option_are_merged() {
        let mut tag = Tag::parse("-L port:host").expect("a tag");
        tag.merge(Tag::parse("-L port:socket").expect("a tag"));
        assert_eq!(tag.head(), "-L port:host | port:socket");
        let mut tag = Tag::parse("--init-file file").expect("a tag");
        tag.merge(Tag::parse("--rcfile file").expect("a tag"));
        assert_eq!(tag.head(), "--init-file, --rcfile file");
        let mut tag = Tag::parse("--size=N").expect("a tag");
        tag.merge(Tag::parse("-s").expect("a tag"));
        assert_eq!(tag.head(), "-s, --size=N");
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(line in "\\PC{0,80}") {
            let _ = Tag::parse(&line);
            let _ = names_of(&line).count();
        }

        #[test]
        fn anything_like_an_option_is_read_without_a_panic(
            line in "(-|--|\\[-\\+\\]|\\[no-\\]|[a-zé=,/|<>\\[\\](){}.: ]){0,40}"
        ) {
            if let Some(tag) = Tag::parse(&line) {
                prop_assert!(!tag.names.is_empty());
                prop_assert!(tag.names.len() <= MAX_NAMES);
            }
        }
    }
}
