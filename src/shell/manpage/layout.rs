//! Finds the lines of a page that name options and the lines that describe them.
//!
//! Rendered man(7) and mdoc(7) pages have the same layout: a line names an option, and its
//! description is indented further, beginning on the same line if the names are short. A line that
//! begins with an option may also continue a sentence. It does if it begins in the column of the
//! previous line and that line was full, so that the renderer broke the sentence there. Pure.

use std::collections::{HashMap, HashSet};

use super::plain::{self, Line, columns};
use super::tag::{self, Tag};

/// The most options of a page; further ones are ignored.
const MAX_ROWS: usize = 4_000;
/// How much of a description to read, in bytes; only a sentence is shown.
const MAX_DESCRIPTION: usize = 400;
/// The usual indentation of descriptions: seven columns in man(7), or four in nested
/// lists.
const USUAL_HANGS: [usize; 2] = [7, 4];
/// Headings begin before this column: sections at 0, their parts at 3.
const FIRST_TEXT_COLUMN: usize = 5;
const BULLETS: [char; 5] = ['•', '○', '·', '*', '∘'];

/// The beginnings of names of sections that define no options.
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
pub struct OptionRow {
    /// The command that takes it, on a page that describes several: `declare`.
    pub command: Option<String>,
    pub tag: Tag,
    /// The first paragraph of its description, or the beginning of that paragraph.
    pub description: String,
}

/// The options of a page, in order, each once.
pub(super) fn option_rows(lines: &[Line]) -> Vec<OptionRow> {
    let mut walk = Walk::new(lines);
    for at in 0..lines.len() {
        walk.step(at);
    }
    walk.close();
    walk.found.rows
}

/// What the previous line was, which limits what the next one may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A blank line or a heading: anything may follow.
    Break,
    /// A line that names options; `body` is the column of the description, if that has begun.
    Names {
        indent: usize,
        body: Option<usize>,
    },
    Text {
        indent: usize,
    },
}

/// What a line may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayoutPosition {
    /// It may begin anything.
    Free,
    /// It continues a sentence of the previous line.
    Sentence,
    /// It is the first line of a description.
    Description,
}

/// An option whose description is being read.
#[derive(Debug)]
struct Open {
    row: OptionRow,
    indent: usize,
    /// Whether its first paragraph has ended.
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
    /// The width of the rendered page.
    width: usize,
    before: Before,
    open: Option<Open>,
    in_section_without: bool,
    /// The command of the last synopsis, with its indentation.
    command: Option<(usize, &'a str)>,
    /// The last column of descriptions, by the indentation of their options.
    hangs: HashMap<usize, usize>,
    /// `+n` of the previous item, with its indentation: `-n` after it is a number.
    plus: Option<(usize, &'a str)>,
    found: FoundRows,
}

impl<'a> Walk<'a> {
    fn new(lines: &'a [Line]) -> Walk<'a> {
        // The first line, the page's title, extends from one margin to the other.
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
            found: FoundRows::default(),
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
            self.before = Before::Text { indent: line.indent };
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
                && WITHOUT_OPTIONS.iter().any(|beginning| title.starts_with(beginning));
            self.found.section += 1;
        }
    }

    /// Parses a line that names options, unless it continues a sentence.
    fn named(&mut self, at: usize) -> Option<Named<'a>> {
        let line = self.lines.get(at)?;
        let text = line.text.trim_start_matches(BULLETS).trim_start();
        let indent = line.indent + columns(&line.text) - columns(text);
        if let Some(rest) = text.strip_prefix('+') {
            self.plus = rest.split(' ').next().map(|name| (line.indent, name));
        }
        let named = match self.place(at) {
            LayoutPosition::Description => return None,
            // Within a sentence, only names are followed by more than one blank.
            LayoutPosition::Sentence => self.with_gap(text, indent)?,
            // `-f filename / --from-file filename` leaves no room for a description.
            LayoutPosition::Free if text.contains("/ -") => self.alone(at, text)?,
            LayoutPosition::Free => self
                .with_gap(text, indent)
                .filter(|named| !self.is_argument_with_gap(at, named))
                .or_else(|| self.in_column(at, text, indent))
                .or_else(|| self.alone(at, text))?,
        };
        let is_option = !self.is_number(line.indent, &named.tag)
            && (!named.tag.is_dash() || self.names_are_open_at(line.indent));
        is_option.then_some(named)
    }

    /// Whether the previous line names an option without a description so far.
    fn names_are_open_at(&self, indent: usize) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.indent == indent && open.row.description.is_empty())
    }

    fn place(&self, at: usize) -> LayoutPosition {
        let Some(line) = self.lines.get(at) else {
            return LayoutPosition::Free;
        };
        let column = match self.before {
            Before::Break => return LayoutPosition::Free,
            Before::Names { indent, body: None } if line.indent > indent => {
                return LayoutPosition::Description;
            }
            Before::Names { body: None, .. } => return LayoutPosition::Free,
            Before::Names { body: Some(body), .. } => body,
            Before::Text { indent } => indent,
        };
        if line.indent == column && self.was_full(at) {
            LayoutPosition::Sentence
        } else {
            LayoutPosition::Free
        }
    }

    /// Whether the first word of a line did not fit on the previous line.
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
        Some(Named { tag, inline: Some((description, column)) })
    }

    /// `-force description`: names so long that only one blank is left before the column of
    /// descriptions.
    fn in_column(&self, at: usize, text: &'a str, indent: usize) -> Option<Named<'a>> {
        let own = self.lines.get(at)?.indent;
        let next = self.lines.get(at + 1).filter(|next| !next.is_blank());
        if let Some(next) = next.filter(|next| next.indent > own) {
            let column = next.indent;
            let is_broken = self.was_full(at + 1);
            return is_broken.then(|| described_at(column, text, indent, true))?;
        }
        let usual = USUAL_HANGS.map(|hang| own + hang);
        let mut columns = self.hangs.get(&own).copied().into_iter().chain(usual);
        columns.find_map(|column| {
            let continues = next.is_some_and(|next| next.indent == column);
            described_at(column, text, indent, continues)
        })
    }

    /// `--port  NUMBER`, with the description below.
    fn is_argument_with_gap(&self, at: usize, named: &Named<'_>) -> bool {
        let (own, next) = (self.lines.get(at), self.lines.get(at + 1));
        let (Some((text, column)), Some(own), Some(next)) = (named.inline, own, next) else {
            return false;
        };
        !text.contains(' ') && own.indent < next.indent && next.indent < column
    }

    /// Names on a separate line, with a description or further names below.
    fn alone(&self, at: usize, text: &str) -> Option<Named<'a>> {
        let tag = Tag::parse(text.strip_suffix(',').unwrap_or(text))?;
        let own = self.lines.get(at)?;
        let mut below = self.lines.iter().skip(at + 1);
        let next = below.find(|line| !line.is_blank())?;
        let continues =
            next.indent > own.indent || (next.indent == own.indent && next.text.starts_with('-'));
        continues.then_some(Named { tag, inline: None })
    }

    /// `-n` next to `+n`: any number.
    fn is_number(&self, indent: usize, tag: &Tag) -> bool {
        let [name] = tag.names.as_slice() else {
            return false;
        };
        self.plus.is_some_and(|(at, plus)| at == indent && name.strip_prefix('-') == Some(plus))
    }

    fn begin(&mut self, indent: usize, named: Named<'_>) {
        let Named { tag, inline } = named;
        self.plus = None;
        self.before = Before::Names { indent, body: inline.map(|(_, column)| column) };
        let described = inline.map(|(text, column)| {
            self.hangs.insert(indent, column);
            text.to_owned()
        });
        match &mut self.open {
            // Several lines of names with one description.
            Some(open) if open.indent == indent && open.row.description.is_empty() => {
                open.row.tag.merge(tag);
                open.row.description = described.unwrap_or_default();
            }
            _ => {
                self.close();
                let above = self.command.filter(|(column, _)| *column < indent);
                self.open = Some(Open {
                    row: OptionRow {
                        command: above.map(|(_, command)| command.to_owned()),
                        tag,
                        description: described.unwrap_or_default(),
                    },
                    indent,
                    is_described: false,
                });
            }
        }
    }

    fn text(&mut self, line: &'a Line) {
        self.command = match synopsis_of(&line.text) {
            Some(command) => Some((line.indent, command)),
            None => self.command.filter(|(column, command)| {
                // Below the synopsis, or another line of it.
                *column < line.indent
                    || line.text.starts_with(*command)
                    || line.text.starts_with("[")
            }),
        };
        if let Before::Names { indent, body: None } = self.before {
            self.hangs.insert(indent, line.indent);
        }
        self.before = Before::Text { indent: line.indent };
        match &mut self.open {
            Some(open) if line.indent > open.indent => {
                if !open.is_described && open.row.description.len() < MAX_DESCRIPTION {
                    plain::join(&mut open.row.description, &line.text);
                }
            }
            _ => self.close(),
        }
    }

    fn end_paragraph(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_described = !open.row.description.is_empty();
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.found.add(open.row);
        }
    }
}

/// Names with one blank before the column where their description begins. `continues` is set if
/// the next line is in that column.
fn described_at(column: usize, text: &str, indent: usize, continues: bool) -> Option<Named<'_>> {
    let blank = column.checked_sub(indent)?.checked_sub(1)?;
    let (blank, _) = text.char_indices().nth(blank)?;
    let (head, rest) = text.split_at_checked(blank)?;
    let description = rest.strip_prefix(' ')?;
    // A single word there is an argument: `-mtime n`.
    let is_text = description.contains(' ') && !description.starts_with(' ');
    let first_word = description.split(' ').next()?;
    let may_begin = description.starts_with(|first: char| first.is_alphabetic() || first == '(')
        && !tag::is_prose(first_word);
    if !is_text || (!continues && !may_begin) {
        return None;
    }
    Some(Named { tag: Tag::parse(head)?, inline: Some((description, column)) })
}

/// The command of a line like `declare [-aAfF] [name[=value] ...]`.
fn synopsis_of(text: &str) -> Option<&str> {
    let (command, rest) = text.split_once(' ')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (rest.starts_with('[') && command.bytes().all(is_name)).then_some(command)
}

/// The options found so far. An option described in two sections counts once, as does an option
/// that a section names twice in the same words.
#[derive(Debug, Default)]
struct FoundRows {
    rows: Vec<OptionRow>,
    /// The number of sections so far.
    section: usize,
    /// The section that first named each option.
    names: HashMap<String, usize>,
    /// The commands and heads so far.
    heads: HashSet<(Option<String>, String)>,
}

impl FoundRows {
    fn add(&mut self, row: OptionRow) {
        if row.description.is_empty() || self.rows.len() == MAX_ROWS {
            return;
        }
        let section = self.section;
        let is_elsewhere = |name| self.names.get(name).is_some_and(|first| *first != section);
        let names = &row.tag.names;
        let is_known = row.command.is_none() && names.iter().all(is_elsewhere);
        if is_known || !self.heads.insert((row.command.clone(), row.tag.head())) {
            return;
        }
        if row.command.is_none() {
            for name in names {
                self.names.entry(name.clone()).or_insert(section);
            }
        }
        self.rows.push(row);
    }
}
