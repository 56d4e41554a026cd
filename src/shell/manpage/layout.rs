//! Where the options of a page are: which lines name them, and which describe them.
//!
//! man(7) and mdoc(7) pages look alike once they are rendered: a line that names an
//! option, and a description that hangs to the right of it, beginning on the same line
//! where the names are short. A line that begins with an option may also be the middle of
//! a sentence. It is when it stands in the column of the line before and that line was
//! full, so that the sentence was broken there.

use std::collections::{HashMap, HashSet};

use super::plain::{self, Line, columns};
use super::tag::{self, Tag};

/// Options of a page beyond this number are passed over.
const MOST_ROWS: usize = 4_000;
/// A description is gathered up to this length in bytes; a sentence of it is shown.
const ENOUGH: usize = 400;
/// How far descriptions hang where nothing else shows it: seven columns in man(7).
const USUAL_HANG: usize = 7;
/// Headings begin before this column: sections at 0, their parts at 3.
const FIRST_TEXT_COLUMN: usize = 5;
/// What stands before the items of some lists.
const BULLETS: [char; 5] = ['•', '○', '·', '*', '∘'];

/// Sections without options of their own, by the beginnings of their names.
const WITHOUT_OPTIONS: [&str; 23] = [
    "NAME",
    "SYNOPSIS",
    "EXAMPLE",
    "SEE ALSO",
    "EXIT",
    "RETURN",
    "DIAGNOSTICS",
    "HISTORY",
    "STANDARDS",
    "CONFORMING",
    "COMPATIBILITY",
    "FILES",
    "AUTHOR",
    "BUGS",
    "REPORTING",
    "COPYRIGHT",
    "ENVIRONMENT",
    "CAVEATS",
    "VERSION",
    "LICENSE",
    "CREDITS",
    "THANKS",
    // Operators that look like options.
    "CONDITIONAL",
];

/// An option and the beginning of its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The command that takes it, on a page that describes several: `declare`.
    pub command: Option<String>,
    /// Its names and its argument.
    pub tag: Tag,
    /// The first paragraph of its description, or the beginning of that.
    pub description: String,
}

/// The options of a page, in its order, each once.
pub fn entries(lines: &[Line]) -> Vec<Entry> {
    let mut walk = Walk::new(lines);
    for at in 0..lines.len() {
        walk.step(at);
    }
    walk.close();
    walk.found.entries
}

/// The line before, as far as it says what the next one may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A blank line or a heading: anything may begin.
    Break,
    /// It names options, and its description, if it has begun, stands in a column.
    Names { indent: usize, body: Option<usize> },
    /// Other text.
    Text { indent: usize },
}

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Anything may begin with it.
    Free,
    /// It goes on with a sentence of the line before.
    Sentence,
    /// It is the first line of a description.
    Description,
}

/// An option whose description is being read.
#[derive(Debug)]
struct Open {
    command: Option<String>,
    tag: Tag,
    indent: usize,
    description: String,
    /// Its first paragraph is over.
    is_described: bool,
}

/// A line that names an option.
struct Named<'a> {
    tag: Tag,
    /// The description that begins on the same line, and its column.
    inline: Option<(&'a str, usize)>,
}

struct Walk<'a> {
    lines: &'a [Line],
    /// The width that the page was rendered for.
    width: usize,
    before: Before,
    open: Option<Open>,
    in_section_without: bool,
    /// The command whose synopsis was the last to stand above, with its indentation.
    command: Option<(usize, &'a str)>,
    /// The last column of descriptions, by the indentation of what they describe.
    hangs: HashMap<usize, usize>,
    /// `+n` of the item before, with its indentation: `-n` after it is a number.
    plus: Option<(usize, &'a str)>,
    found: Found,
}

impl<'a> Walk<'a> {
    fn new(lines: &'a [Line]) -> Walk<'a> {
        // The first line, the page's title, reaches from one margin to the other.
        let title = lines.iter().find(|line| !line.is_blank());
        Walk {
            lines,
            width: title.map_or(0, Line::end),
            before: Before::Break,
            open: None,
            in_section_without: false,
            command: None,
            hangs: HashMap::new(),
            plus: None,
            found: Found::default(),
        }
    }

    fn step(&mut self, at: usize) {
        let Some(line) = self.lines.get(at) else {
            return;
        };
        if line.is_blank() {
            self.end_paragraph();
            self.before = Before::Break;
        } else if line.indent < FIRST_TEXT_COLUMN && !line.text.starts_with('-') {
            self.heading(line);
        } else if self.in_section_without {
            self.before = Before::Text {
                indent: line.indent,
            };
        } else if let Some(named) = self.named(at) {
            self.begin(line.indent, named);
        } else {
            self.text(line);
        }
    }

    fn heading(&mut self, line: &'a Line) {
        self.close();
        self.plus = None;
        self.command = None;
        self.before = Before::Break;
        if line.indent == 0 {
            let title = line.text.to_uppercase();
            self.in_section_without = !title.contains("OPTION")
                && WITHOUT_OPTIONS
                    .iter()
                    .any(|beginning| title.starts_with(beginning));
            self.found.section += 1;
        }
    }

    /// Reads a line as one that names options, unless it continues a sentence.
    fn named(&mut self, at: usize) -> Option<Named<'a>> {
        let line = self.lines.get(at)?;
        let text = line.text.trim_start_matches(BULLETS).trim_start();
        let indent = line.indent + columns(&line.text) - columns(text);
        if let Some(rest) = text.strip_prefix('+') {
            self.plus = rest.split(' ').next().map(|name| (line.indent, name));
        }
        let named = match self.place(at) {
            Place::Description => return None,
            // Only names are followed by more than a blank within a sentence.
            Place::Sentence => self.with_gap(text, indent)?,
            // `-f filename / --from-file filename` leaves no room for a description.
            Place::Free if text.contains("/ -") => self.alone(at, text)?,
            Place::Free => self
                .with_gap(text, indent)
                .or_else(|| self.in_column(at, text, indent))
                .or_else(|| self.alone(at, text))?,
        };
        (!self.is_number(line.indent, &named.tag)).then_some(named)
    }

    fn place(&self, at: usize) -> Place {
        let Some(line) = self.lines.get(at) else {
            return Place::Free;
        };
        let column = match self.before {
            Before::Break => return Place::Free,
            Before::Names { indent, body: None } if line.indent > indent => {
                return Place::Description;
            }
            Before::Names { body: None, .. } => return Place::Free,
            Before::Names {
                body: Some(body), ..
            } => body,
            Before::Text { indent } => indent,
        };
        if line.indent == column && self.was_full(at) {
            Place::Sentence
        } else {
            Place::Free
        }
    }

    /// Whether the first word of a line had no room on the line before.
    fn was_full(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.lines.get(before));
        let (Some(before), Some(line)) = (before, self.lines.get(at)) else {
            return false;
        };
        let first_word = line.text.split(' ').next().map_or(0, columns);
        let blanks = match before.text.chars().next_back() {
            Some('-') => 0,
            Some('.' | '?' | '!') => 2,
            _ => 1,
        };
        before.end() + blanks + first_word > self.width
    }

    /// `-a, --all    description`.
    fn with_gap(&self, text: &'a str, indent: usize) -> Option<Named<'a>> {
        let (head, rest) = text.split_once("  ")?;
        let tag = Tag::parse(head)?;
        let description = rest.trim_start();
        let column = indent + columns(text) - columns(description);
        Some(Named {
            tag,
            inline: Some((description, column)),
        })
    }

    /// `-force description`: names so long that one blank is left before the column in
    /// which descriptions stand.
    fn in_column(&self, at: usize, text: &'a str, indent: usize) -> Option<Named<'a>> {
        let own = self.lines.get(at)?.indent;
        let next = self.lines.get(at + 1).filter(|next| !next.is_blank());
        let column = match next {
            Some(next) if next.indent > own => {
                if !self.was_full(at + 1) {
                    return None;
                }
                next.indent
            }
            _ => *self.hangs.get(&own).unwrap_or(&(own + USUAL_HANG)),
        };
        let blank = column.checked_sub(indent)?.checked_sub(1)?;
        let (blank, _) = text.char_indices().nth(blank)?;
        let (head, rest) = text.split_at_checked(blank)?;
        let description = rest.strip_prefix(' ')?;
        // One word there is an argument: `-mtime n`.
        let is_text = description.contains(' ') && !description.starts_with(' ');
        let goes_on = next.is_some_and(|next| next.indent == column);
        let first_word = description.split(' ').next()?;
        if !is_text || (!goes_on && tag::is_prose(first_word)) {
            return None;
        }
        let tag = Tag::parse(head)?;
        Some(Named {
            tag,
            inline: Some((description, column)),
        })
    }

    /// Names on a line of their own, with a description or further names below.
    fn alone(&self, at: usize, text: &str) -> Option<Named<'a>> {
        let tag = Tag::parse(text)?;
        let own = self.lines.get(at)?;
        let mut below = self.lines.iter().skip(at + 1);
        let next = below.find(|line| !line.is_blank())?;
        let goes_on =
            next.indent > own.indent || (next.indent == own.indent && next.text.starts_with('-'));
        goes_on.then_some(Named { tag, inline: None })
    }

    /// `-n` beside `+n`: any number.
    fn is_number(&self, indent: usize, tag: &Tag) -> bool {
        let [name] = tag.names.as_slice() else {
            return false;
        };
        self.plus
            .is_some_and(|(at, plus)| at == indent && name.strip_prefix('-') == Some(plus))
    }

    fn begin(&mut self, indent: usize, named: Named<'_>) {
        let Named { tag, inline } = named;
        self.plus = None;
        self.before = Before::Names {
            indent,
            body: inline.map(|(_, column)| column),
        };
        let described = inline.map(|(text, column)| {
            self.hangs.insert(indent, column);
            text.to_owned()
        });
        match &mut self.open {
            // Several names, one below the other, and one description.
            Some(open) if open.indent == indent && open.description.is_empty() => {
                open.tag.merge(tag);
                open.description = described.unwrap_or_default();
            }
            _ => {
                self.close();
                let above = self.command.filter(|(column, _)| *column < indent);
                self.open = Some(Open {
                    command: above.map(|(_, command)| command.to_owned()),
                    tag,
                    indent,
                    description: described.unwrap_or_default(),
                    is_described: false,
                });
            }
        }
    }

    fn text(&mut self, line: &'a Line) {
        self.command = match synopsis_of(&line.text) {
            Some(command) => Some((line.indent, command)),
            None => self.command.filter(|(column, command)| {
                // Below it, or one more line of it.
                *column < line.indent
                    || line.text.starts_with(*command)
                    || line.text.starts_with("[")
            }),
        };
        if let Before::Names { indent, body: None } = self.before {
            self.hangs.insert(indent, line.indent);
        }
        self.before = Before::Text {
            indent: line.indent,
        };
        match &mut self.open {
            Some(open) if line.indent > open.indent => {
                if !open.is_described && open.description.len() < ENOUGH {
                    plain::join(&mut open.description, &line.text);
                }
            }
            _ => self.close(),
        }
    }

    fn end_paragraph(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_described = !open.description.is_empty();
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.found.add(open);
        }
    }
}

/// The command of a line like `declare [-aAfF] [name[=value] ...]`.
fn synopsis_of(text: &str) -> Option<&str> {
    let (command, rest) = text.split_once(' ')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (rest.starts_with('[') && command.bytes().all(is_name)).then_some(command)
}

/// The options found so far. One that is described in two sections is the same, and so is
/// one that a section names twice in the same words.
#[derive(Debug, Default)]
struct Found {
    entries: Vec<Entry>,
    /// Counts the sections.
    section: usize,
    /// The section that named it first.
    names: HashMap<String, usize>,
    /// What has been named in which words.
    heads: HashSet<(Option<String>, String)>,
}

impl Found {
    fn add(&mut self, open: Open) {
        let Open {
            command,
            tag,
            description,
            ..
        } = open;
        if description.is_empty() || self.entries.len() == MOST_ROWS {
            return;
        }
        let is_known = command.is_none()
            && tag.names.iter().all(|name| {
                self.names
                    .get(name)
                    .is_some_and(|section| *section != self.section)
            });
        if is_known || !self.heads.insert((command.clone(), tag.head())) {
            return;
        }
        if command.is_none() {
            for name in &tag.names {
                self.names.entry(name.clone()).or_insert(self.section);
            }
        }
        self.entries.push(Entry {
            command,
            tag,
            description,
        });
    }
}
