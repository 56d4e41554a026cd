//! The source files as the layering rules see them: code without comments, literals
//! and tests, and the module paths in it.
//!
//! A scanner, not a parser: it knows Rust's lexical forms and the trees of `use`, and
//! neither macros nor what a re-export means.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Folders of `process` that hold twins: whichever is compiled, its modules are known as
/// `process`'s own.
const TWINS: [&str; 2] = ["linux", "portable"];

/// One file below `src`.
pub struct Source {
    /// Its path below `src`, with `/`.
    pub path: String,
    /// Its module path: `["task", "state"]`; twins have the same.
    pub module: Vec<String>,
    /// Its code, without comments, the insides of literals, and tests.
    pub code: String,
    /// Whether its module documentation says that it is pure: bytes, events and the time are
    /// its arguments.
    pub says_pure: bool,
}

impl Source {
    /// Reads every `.rs` file below the folder, in the order of their paths.
    pub fn read_all(root: &Path) -> Vec<Source> {
        let mut sources = Vec::new();
        collect(root, root, &mut sources);
        sources.sort_by(|one, other| one.path.cmp(&other.path));
        sources
    }

    fn new(path: String, text: &str) -> Source {
        let stem = path.strip_suffix(".rs").unwrap_or(&path);
        let module =
            stem.split('/').filter(|part| !TWINS.contains(part)).map(str::to_owned).collect();
        let plain = without_comments_and_literals(text);
        let mut docs = text.lines().map_while(|line| line.strip_prefix("//!"));
        let says_pure = docs.any(|line| line.contains("Pure.") || line.contains("Pure:"));
        Source { module, code: without_tests(&plain), path, says_pure }
    }

    /// The folder, or for a file of the top level its own name.
    pub fn unit(&self) -> &str {
        match self.path.split_once('/') {
            Some((folder, _)) => folder,
            None => self.path.trim_end_matches(".rs"),
        }
    }

    /// Every path that starts at this root (`crate`, `std` …), `use` trees spread out.
    pub fn paths_from(&self, root: &str) -> BTreeSet<Vec<String>> {
        let mut paths = BTreeSet::new();
        for rest in roots(&self.code, root) {
            spread(rest, &[], &mut paths);
        }
        paths
    }

    /// Every path into the program's own modules, whether it starts at `crate` or at
    /// `super`.
    pub fn own_paths(&self) -> BTreeSet<Vec<String>> {
        let mut paths = self.paths_from("crate");
        for path in self.paths_from("super") {
            let up = path.iter().take_while(|part| *part == "super").count();
            let kept = self.module.len().saturating_sub(up);
            let from_root = self.module.iter().take(kept).chain(path.iter().skip(up));
            paths.insert(from_root.cloned().collect());
        }
        paths
    }

    /// Whether this word stands in the code, as a whole word.
    pub fn has_word(&self, word: &str) -> bool {
        words(&self.code, word).next().is_some()
    }

    /// Whether a path or a `use` starts with this crate's name.
    pub fn uses_crate(&self, name: &str) -> bool {
        words(&self.code, name).any(|at| {
            let before = self.code[..at].trim_end();
            let after = &self.code[at + name.len()..];
            let named_here = after.starts_with("::");
            let imported = before.ends_with("use") && after.trim_start().starts_with([';', ' ']);
            !before.ends_with("::") && (named_here || imported)
        })
    }
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let below = path.strip_prefix(root).expect("a path below the root");
            let name = below.to_string_lossy().replace('\\', "/");
            sources.push(Source::new(name, &text));
        }
    }
}

/// The texts that follow `root::`, where `root` is the first part of a path.
fn roots<'a>(code: &'a str, root: &'a str) -> impl Iterator<Item = &'a str> {
    words(code, root).filter_map(move |at| {
        let first = !code[..at].trim_end().ends_with("::");
        let rest = code[at + root.len()..].strip_prefix("::")?;
        // `super::super::x` keeps what it starts with, for the count of its steps.
        let rest = if root == "super" { &code[at..] } else { rest };
        first.then_some(rest)
    })
}

/// Where this word stands as a whole word.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Spreads `a::{b, c::d}` into its paths; gives what follows the tree.
fn spread<'a>(text: &'a str, before: &[String], paths: &mut BTreeSet<Vec<String>>) -> &'a str {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            rest = group.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                let next = spread(rest, &path, paths).trim_start();
                let next = next.strip_prefix(',').unwrap_or(next).trim_start();
                if next.len() == rest.len() {
                    // Not a tree of names after all; never stand still.
                    return next;
                }
                rest = next;
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let end = rest.find(|character| !is_name(character)).unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        match rest.strip_prefix("::") {
            Some(more) => rest = more.trim_start(),
            None => break,
        }
    }
    paths.insert(path);
    // Over `*` and `as name`, to the end of this branch.
    let end = rest.find([',', '}', ';', '\n']).unwrap_or(rest.len());
    &rest[end..]
}

/// Takes out comments and the insides of string and character literals, keeping lines.
fn without_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = literal(rest, code.chars().next_back()) {
            code.push_str("\"\"");
            length
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (taken, after) = rest.split_at(length);
        code.extend(taken.chars().filter(|character| *character == '\n'));
        rest = after;
    }
    code
}

/// The length of a block comment, with those inside it.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the literal that starts here, if one does.
fn literal(text: &str, before: Option<char>) -> Option<usize> {
    let begins_a_word = !before.is_some_and(is_name);
    let prefix = ["br", "cr", "b", "c", "r", ""]
        .into_iter()
        .find(|prefix| {
            text.strip_prefix(*prefix).is_some_and(|rest| rest.starts_with(['"', '#', '\'']))
        })
        .filter(|prefix| prefix.is_empty() || begins_a_word)?;
    let body = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let inside = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        return Some(prefix.len() + hashes + 1 + length);
    }
    if let Some(inside) = body.strip_prefix('"') {
        return Some(prefix.len() + 1 + quoted(inside, '"'));
    }
    let inside = body.strip_prefix('\'')?;
    let mut characters = inside.chars();
    let is_character = match (characters.next(), characters.next()) {
        (Some('\\'), _) => true,
        (Some(_), Some(second)) => second == '\'',
        _ => false,
    };
    // Else it is a lifetime or a label.
    is_character.then(|| prefix.len() + 1 + quoted(inside, '\''))
}

/// The length up to and with the closing quote.
fn quoted(inside: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in inside.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return at + 1;
        }
    }
    inside.len()
}

/// Takes out every item under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(ATTRIBUTE) {
        kept.push_str(&rest[..at]);
        let item = &rest[at + ATTRIBUTE.len()..];
        rest = &item[item_length(item)..];
    }
    kept.push_str(rest);
    kept
}

/// The length of an item: to its `;`, or to the end of its braces.
fn item_length(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in item.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path.to_owned(), text)
    }

    fn joined(paths: BTreeSet<Vec<String>>) -> Vec<String> {
        paths.into_iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn comments_literals_and_tests_are_no_code() {
        let text = r##"
//! crate::a
/* crate::b /* crate::c */ crate::d */
fn f<'a>(x: &'a str) -> char {
    let _ = ("crate::e \" crate::f", r#"crate::g " "#, b'\'', '"', "");
    crate::h::i(x)
}
#[cfg(test)]
use crate::j;
#[cfg(test)]
mod tests {
    use crate::k;
    fn g() { if true { crate::l() } }
}
fn after() { crate::m::n() }
"##;
        let paths = source("x.rs", text).paths_from("crate");
        assert_eq!(joined(paths), ["h::i", "m::n"]);
    }

    #[test]
    fn trees_of_use_are_spread_out() {
        let text = "use crate::{a::{b, c as d}, e::*, f};\nuse crate::g::{self, H};\n\
                    use std::{\n    collections::BTreeMap,\n    fs,\n};";
        let file = source("x.rs", text);
        assert_eq!(joined(file.paths_from("crate")), ["a::b", "a::c", "e", "f", "g::H", "g::self"]);
        assert_eq!(joined(file.paths_from("std")), ["collections::BTreeMap", "fs"]);
    }

    #[test]
    fn super_is_followed_to_the_root() {
        let text = "use super::live::Live;\nfn f() { super::super::text::lines() }";
        let paths = source("task/state.rs", text).own_paths();
        assert_eq!(joined(paths), ["task::live::Live", "text::lines"]);
    }

    #[test]
    fn a_crate_is_used_by_its_name_at_the_start_of_a_path() {
        let file = source("x.rs", "use rustix::fs;\nuse libc;\nuse crate::procfs::x;");
        assert!(file.uses_crate("rustix"));
        assert!(file.uses_crate("libc"));
        assert!(!file.uses_crate("procfs"));
        assert!(!file.uses_crate("fs"));
    }

    #[test]
    fn words_are_whole() {
        let file = source("x.rs", "#![forbid(unsafe_code)]\nfn f() { eprintln!() }");
        assert!(!file.has_word("unsafe"));
        assert!(!file.has_word("println!"));
        assert!(file.has_word("eprintln!"));
    }
}
