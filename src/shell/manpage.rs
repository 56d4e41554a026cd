//! Turns the options of a manual page into a compact table.
//!
//! Reads the output of `man` or `mandoc` for a terminal or a pipe, from man(7) and mdoc(7) sources.
//! Finds the options by their layout ([`layout`]) and by the form of the lines that name them
//! ([`tag`]). Linear in the length of the page.
//!
//! Limits: of the options without a dash, finds only operands (`if=FILE`), not those of `ps aux`.
//! On a page that describes several commands, such as that of a shell, each option has its
//! command's name. Pure.

mod layout;
mod plain;
mod tag;

use std::collections::HashSet;

pub(crate) use layout::OptionRow;
use plain::columns;

/// The longest line of a table, in characters.
pub(crate) const LINE_WIDTH: usize = 100;
/// How many lines of a table a result shows unless the caller requests the whole table.
pub(crate) const SHOWN_LINES: usize = 40;
/// The column of summaries. Longer names and arguments push it to the right.
const NAMES_WIDTH: usize = 28;
/// The column at which names and arguments are cut, to leave room for a summary.
const MAX_NAMES_WIDTH: usize = 70;
/// The gap between names and summaries.
const GAP: &str = "  ";
const CUT: char = '…';

/// Words whose dot does not end a sentence.
const ABBREVIATIONS: [&str; 8] = ["e.g", "i.e", "etc", "vs", "cf", "resp", "approx", "no"];

impl OptionRow {
    /// The first sentence of the description, at most [`LINE_WIDTH`] characters.
    fn summary(&self) -> String {
        shorten(first_sentence(&self.description), LINE_WIDTH)
    }

    /// The option as one line, or several if it has too many names.
    fn lines(&self) -> impl Iterator<Item = String> {
        let mut heads: Vec<String> = Vec::new();
        let names = &self.tag.names;
        for (at, name) in names.iter().enumerate() {
            let argument = self.tag.argument.as_ref().filter(|_| at + 1 == names.len());
            let name = one_spaced(&tag::head(std::slice::from_ref(name), argument));
            match heads.last_mut() {
                Some(head) if columns(head) + 2 + columns(&name) <= MAX_NAMES_WIDTH => {
                    head.push_str(", ");
                    head.push_str(&name);
                }
                _ => heads.push(match &self.command {
                    Some(command) => format!("{command} {name}"),
                    None => name,
                }),
            }
        }
        let summary = one_spaced(&self.summary());
        heads.into_iter().map(move |head| {
            let head = shorten(&head, MAX_NAMES_WIDTH);
            let line = format!("{head:<NAMES_WIDTH$}{GAP}{}", summary);
            shorten(line.trim_end(), LINE_WIDTH)
        })
    }
}

/// The options of a page, in order. `rendered` may contain overstrikes and escape
/// sequences.
pub fn parse(rendered: &str) -> Vec<OptionRow> {
    layout::option_rows(&plain::lines(rendered))
}

/// The whole table as text, one or more lines for each option.
pub fn to_text(rows: &[OptionRow]) -> String {
    let lines = rows.iter().flat_map(OptionRow::lines);
    lines.map(|line| line + "\n").collect()
}

/// At most `max_lines` lines of a table's text, beginning with the options in `used`. The last line
/// counts the omitted ones.
///
/// `used` are unchanged words of a command: `-xzf`, `--color=always`. Words that are not options
/// match nothing.
pub fn present(text: &str, used: &[&str], max_lines: usize) -> String {
    let lines: Vec<(&str, Vec<&str>)> = text
        .lines()
        .map(|line| {
            let head = line.split(GAP).next().unwrap_or_default();
            (line, tag::names_of(head).collect())
        })
        .collect();
    let known: HashSet<&str> = lines.iter().flat_map(|(_, names)| names).copied().collect();
    let wanted = wanted(used, &known);
    let (first, rest): (Vec<_>, Vec<_>) =
        lines.iter().partition(|(_, names)| names.iter().any(|name| wanted.contains(name)));
    let mut shown: Vec<&str> = first.iter().chain(&rest).map(|(line, _)| *line).collect();
    let mut last = String::new();
    if shown.len() > max_lines {
        let kept = max_lines.saturating_sub(1);
        last = format!("{CUT} {} more options\n", shown.len() - kept);
        shown.truncate(kept);
    }
    let shown: String = shown.iter().map(|line| format!("{line}\n")).collect();
    shown + &last
}

/// The names in a table that occur in the words of a command.
fn wanted<'a>(used: &[&str], known: &HashSet<&'a str>) -> HashSet<&'a str> {
    let mut wanted = HashSet::new();
    for word in used {
        let name = word.split('=').next().unwrap_or_default();
        let whole = spellings(name).into_iter().filter_map(|spelling| known.get(spelling.as_str()));
        let found = wanted.len();
        wanted.extend(whole);
        if wanted.len() == found {
            // `-xzf` is `-x -z -f`, and `-n5` is `-n` with its argument.
            let letters = word.strip_prefix('-').filter(|word| !word.starts_with('-'));
            let letters = letters.unwrap_or_default().chars();
            wanted.extend(letters.filter_map(|letter| known.get(format!("-{letter}").as_str())));
        }
    }
    wanted
}

/// The forms in which a page may write an option: `--no-verify` as `--[no-]verify`.
fn spellings(name: &str) -> Vec<String> {
    let mut spellings = vec![name.to_owned()];
    if let Some(bare) = name.strip_prefix("--") {
        let bare = bare.strip_prefix("no-").unwrap_or(bare);
        spellings.extend(["[no-]", "[no]", "(no-)"].map(|choice| format!("--{choice}{bare}")));
    }
    spellings
}

/// The text up to the first dot that ends a sentence, without the dot.
fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    ends.chain([text.len().saturating_sub(1)])
        .filter_map(|end| text.get(..end).zip(text.get(end..)))
        .find(|(sentence, rest)| rest.starts_with(['.', ':']) && ends_with_word(sentence))
        .map_or(text, |(sentence, _)| sentence)
}

/// Whether a dot after this text would end a sentence: it follows a word, and the word is not an
/// abbreviation.
fn ends_with_word(text: &str) -> bool {
    let word = text.rsplit([' ', '(']).next().unwrap_or_default();
    let is_word = word.ends_with(|last: char| last != '.');
    is_word && !ABBREVIATIONS.contains(&word.to_ascii_lowercase().as_str())
}

/// Replaces each run of blanks by one, so that a table's gap is unambiguous.
fn one_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts a text to at most `max_chars` characters, if possible after a word.
fn shorten(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    let kept = match kept.rsplit_once(' ') {
        // A word that takes most of the room is cut itself.
        Some((words, _)) if words.trim_end().len() * 2 > kept.len() => words,
        _ => &kept,
    };
    format!("{}{CUT}", kept.trim_end_matches([' ', ',', ';', ':', '|']))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// A page as man(7) is rendered, 60 columns wide.
    const MAN: &str = "\
MELT(1)                User Commands                 MELT(1)

N\u{8}NA\u{8}AM\u{8}ME\u{8}E
       melt - turn ice into water

SYNOPSIS
       melt -x [-f FILE]
       --usage-only
              is no option

DESCRIPTION
       Melts ice. Which kinds of it are melted is decided by
       --kind and -k, of which the later one counts.

       -a, --all
              melt all kinds, e.g. sea ice. This takes long and
              --quick does not help.

              --all can be given once.

       -c     count what was melted
       -force Melt what is still needed by somebody else, even
              --kept ice.

       -false Melt nothing.

       --init-file file
       --rc-file file
              Read file first.

   Kinds
       -k KIND, --kind=KIND
              The kind of ice: a non-
              floating one.
              -k sea
                     Salt water.

       -k n   A number.

       +m     More than m pieces.
       -m     Fewer than m pieces.

       melter [-z] [file ...]
              Another command of this page.

              -z     melt to zero

EXAMPLES
       -y     is no option here

VERSION OPTIONS
       -w     is one here

              --flat is an alias of it.

       -ctime n m
              The hour n or m.

       -1
       --one
       -      Melt one piece.

       --port  number
              The port to melt at.

       --gone,
       --lost
              They did something once.

       -l[ab] List the pieces:

           -la all of them

           -lb big ones only

       --no-melting-limit
       --no-melting-limits
       --melting-limit
       --melting-limits degrees
              How warm it gets.

       -c N   told once more, in other words
";

    /// A page as mdoc(7) is rendered.
    const MDOC: &str = "\
POUR(1)              General Commands Manual             POUR(1)

DESCRIPTION
     -4      Pours four cups.

     -L [cup:]jug
     -L cup:spoon
             Pours from one to the other.

     •   --slow/-s:

         Takes its time.
";

    fn heads(page: &str) -> Vec<String> {
        let text = to_text(&parse(page));
        let head = |line: &str| line.split(GAP).next().map(str::to_owned);
        text.lines().filter_map(head).collect()
    }

    fn summary(page: &str, name: &str) -> String {
        let rows = parse(page);
        let row = rows.iter().find(|row| row.tag.names.iter().any(|own| own == name));
        row.unwrap_or_else(|| panic!("{name} is missing: {rows:?}")).summary()
    }

    #[test]
    fn the_options_of_a_man_page_are_its_rows() {
        assert_eq!(
            heads(MAN),
            [
                "-a, --all",
                "-c",
                "-force",
                "-false",
                "--init-file, --rc-file file",
                "-k, --kind=KIND",
                "-k sea",
                "-k n",
                "melter -z",
                "-w",
                "-ctime n m",
                "-, --one, -1",
                "--port number",
                "--lost, --gone",
                "-l[ab]",
                "-la",
                "-lb",
                "--melting-limit, --no-melting-limits, --no-melting-limit",
                "--melting-limits degrees",
            ]
        );
    }

    #[test]
    fn the_options_of_an_mdoc_page_are_its_rows() {
        assert_eq!(heads(MDOC), ["-4", "-L [cup:]jug | cup:spoon", "--slow, -s"]);
        assert_eq!(summary(MDOC, "-s"), "Takes its time");
    }

    #[test]
    fn a_summary_is_the_first_sentence() {
        assert_eq!(summary(MAN, "-w"), "is one here");
        assert_eq!(summary(MAN, "--all"), "melt all kinds, e.g. sea ice");
        assert_eq!(
            summary(MAN, "-force"),
            "Melt what is still needed by somebody else, even --kept ice"
        );
        assert_eq!(summary(MAN, "--kind"), "The kind of ice: a non-floating one");
        for (text, expected) in [
            ("print . and ..", "print . and .."),
            ("print (i.e. show) it. Then", "print (i.e. show) it"),
            ("sizes in K, M etc.", "sizes in K, M etc."),
            ("one of:", "one of"),
            ("", ""),
            (".", "."),
        ] {
            assert_eq!(first_sentence(text), expected);
        }
    }

    #[test]
    fn a_long_summary_is_cut_after_a_word() {
        assert_eq!(shorten("one two, three", 10), "one two…");
        assert_eq!(shorten("onetwothree four", 8), "onetwot…");
        assert_eq!(shorten("żółw żółw", 9), "żółw żółw");
    }

    fn table(names: &[&str]) -> String {
        names.iter().map(|name| format!("{name:<28}  what it does\n")).collect()
    }

    fn first_shown(used: &[&str]) -> String {
        let text = table(&[
            "-a, --all",
            "-f, --file=ARCHIVE",
            "-v",
            "-x, --extract",
            "--[no-]verify",
            "-name pattern",
            "set -e",
            "if=FILE",
        ]);
        let shown = present(&text, used, 3);
        let names = |line: &str| line.split(GAP).next().unwrap_or_default().to_owned();
        shown.lines().take(2).map(names).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_in_use_come_first() {
        for (used, expected) in [
            (&[][..], "-a, --all -f, --file=ARCHIVE"),
            (&["--extract"], "-x, --extract -a, --all"),
            (&["-vx"], "-v -x, --extract"),
            (&["--file=a.tar", "-v"], "-f, --file=ARCHIVE -v"),
            (&["--no-verify"], "--[no-]verify -a, --all"),
            (&["--verify"], "--[no-]verify -a, --all"),
            (&["-name", "*.rs"], "-name pattern -a, --all"),
            (&["-e"], "set -e -a, --all"),
            (&["if=/dev/zero"], "if=FILE -a, --all"),
            (&["file", "-", "--", "", "-ü", "--ü=é"], "-a, --all -f, --file=ARCHIVE"),
        ] {
            assert_eq!(first_shown(used), expected, "{used:?}");
        }
    }

    #[test]
    fn omitted_options_are_counted() {
        let names: Vec<String> = (0..50).map(|number| format!("--option-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = present(&table(&names), &["--option-49"], SHOWN_LINES);
        assert_eq!(shown.lines().count(), SHOWN_LINES);
        assert!(shown.starts_with("--option-49 "), "{shown}");
        assert!(shown.ends_with("… 11 more options\n"), "{shown}");
        let all = present(&table(&names[..SHOWN_LINES]), &[], SHOWN_LINES);
        assert!(!all.contains(CUT), "{all}");
    }

    /// Pages that invite reading the same lines repeatedly.
    fn hostile_pages() -> Vec<String> {
        let lines = 20_000;
        vec![
            "       -a\n".repeat(lines),
            "       -a, --all\n\n\n\n".repeat(lines),
            (0..lines).map(|number| format!("       --o{number} x\n")).collect(),
            (0..lines).map(|number| format!("       --o{number}  x\n")).collect(),
            format!("       -a{}\n              x\n", ", -b".repeat(lines * 4)),
            format!("       -a {}\n", "[".repeat(lines * 4)),
            "       -a\n".to_owned() + &"              more and more\n".repeat(lines),
            "a\u{8}".repeat(lines * 8),
            "\u{1b}[".repeat(lines * 8),
            "\t-a\t-b".repeat(lines * 2),
        ]
    }

    #[test]
    fn no_page_takes_more_than_linear_time() {
        for page in hostile_pages() {
            let started = Instant::now();
            let rows = parse(&page);
            present(&to_text(&rows), &["-a", "-xyz"], SHOWN_LINES);
            // Quadratic work would take minutes.
            let start: String = page.chars().take(20).collect();
            assert!(started.elapsed() < Duration::from_secs(20), "{start:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_and_shown_within_bounds(page in "(\\PC|\n|\t|\u{8}|\u{1b}){0,300}") {
            check(&page)?;
        }

        #[test]
        fn anything_like_a_page_is_parsed_and_shown_within_bounds(
            page in "((\n| {1,9}|  )(-[a-zé]|--[a-z]{2}|\\[no-\\]|[=, ]|•|\\+n|word|[A-Z]{3}|\\.)){0,60}"
        ) {
            check(&page)?;
        }
    }

    fn check(page: &str) -> Result<(), TestCaseError> {
        let rows = parse(page);
        let text = to_text(&rows);
        prop_assert!(text.lines().count() >= rows.len());
        for row in &rows {
            prop_assert!(!row.tag.names.is_empty());
            prop_assert!(row.summary().chars().count() <= LINE_WIDTH);
        }
        let shown = present(&text, &["-a", "--b=c"], 5);
        prop_assert!(shown.lines().count() <= 5);
        prop_assert!(text.lines().all(|line| line.chars().count() <= LINE_WIDTH));
        Ok(())
    }
}
