//! Recognises text written for bash that zsh runs otherwise, and says how to write it.
//!
//! A trap that zsh reports (`no matches found`) is noted only if the report names what the text
//! contains; one that it does not report, only if the text alone proves that it acts otherwise. Text
//! in here-documents, comments and scripts for other programs is never noted. A doubtful case gives no
//! note: agents ignore advice that is often wrong.
//!
//! Limits: knows neither aliases nor functions of startup files, nor values that other commands have
//! set. Pure.

mod builtins;
mod commands;
mod finder;
mod names;
mod pieces;
mod shape;
mod values;
mod walk;
mod words;

use std::collections::HashSet;
use std::fmt;

use memchr::memmem;

use self::shape::Shape;
use self::words::array_of;
use super::command_line::CommandLine;
use crate::text::foreign;

/// The dialect in which a shell reads the text of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    Zsh,
    /// zsh with the options of `dialect: bash`.
    ZshAsBash,
    /// bash and sh take their own text as it is.
    Other,
}

/// Text that zsh runs otherwise than bash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    pub(super) kind: TrapKind,
    /// The part of the text.
    pub(super) written: String,
    /// What to write instead.
    pub(super) instead: String,
    /// The line where it is, from 1, if the text has several.
    pub(super) line: Option<usize>,
    /// Whether zsh has left out what follows.
    pub(super) skips_rest: bool,
    /// Other parts that the same happens to, each with what to write instead.
    pub(super) also: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrapKind {
    /// A pattern that no file matches.
    Unmatched {
        /// Whether the command can do without a file.
        is_optional: bool,
    },
    /// As [`TrapKind::Unmatched`], where no file is meant.
    PatternInText,
    BadPattern,
    /// `=word`.
    EqualsWord,
    NoSuchHome,
    /// A name that zsh itself uses, with its meaning there.
    SpecialName(&'static str),
    BashOnly,
    BashVariable,
    NotSplit,
    FirstElement,
    /// `unset` of an element.
    UnsetElement,
    Modifier,
    Subscript,
    ValueAsPattern,
    EchoEscape,
    SeveralRedirections,
    /// A file that `.` looks for in PATH only.
    SourcedFile,
    /// A number in arithmetic that begins with 0.
    Octal,
    /// A trap on EXIT that a function sets.
    TrapOfFunction,
    /// A key in quotes, of a table.
    QuotedKey,
    /// `set -f`.
    NoGlob,
    /// `$(which …)`, as a test of whether there is a program.
    Which,
}

impl Trap {
    /// The trap with its parts of the text changed, as by the removal of secrets.
    pub(crate) fn map(self, change: impl Fn(&str) -> String) -> Trap {
        let also = self.also.iter().map(|(written, instead)| (change(written), change(instead)));
        let also = also.collect();
        Trap { written: change(&self.written), instead: change(&self.instead), also, ..self }
    }
}

/// One line: what zsh does with the text, and what to write instead.
impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = foreign::in_backticks(&self.written);
        let instead = foreign::in_backticks(&self.instead);
        match self.kind {
            TrapKind::Unmatched { is_optional } => {
                write!(f, "No file matches {written}, so zsh did not run the command: ")?;
                let mut ways = Vec::new();
                if !self.instead.is_empty() {
                    ways.push(format!("write {instead} if the program is to see it, "));
                }
                if is_optional {
                    let optional = foreign::in_backticks(&format!("{}(N)", self.written));
                    let verb = if ways.is_empty() { "write " } else { "" };
                    ways.push(format!("{verb}{optional} if none is fine, "));
                }
                let or = if ways.is_empty() { "" } else { "or " };
                write!(f, "{}{or}begin with `setopt no_nomatch`, as bash does", ways.concat())
            }
            TrapKind::PatternInText => {
                write!(f, "zsh takes {written} as a pattern of file names: write {instead}")
            }
            TrapKind::QuotedKey => {
                write!(f, "zsh keeps the quotes in the key of {written}: write {instead}")
            }
            TrapKind::NoGlob => {
                write!(f, "zsh's {written} leaves patterns on: write {instead}")
            }
            TrapKind::BadPattern => {
                write!(f, "zsh takes {written} as an unfinished pattern: write {instead}")
            }
            TrapKind::EqualsWord => write!(
                f,
                "zsh takes a word that begins with = as the path of a program: write {instead} \
                 instead of {written}"
            ),
            TrapKind::NoSuchHome => {
                write!(f, "zsh finds no home directory {written}: write {instead}")
            }
            TrapKind::SpecialName(meaning) => {
                write!(f, "{written} is {meaning} in zsh: use another name, as {instead}")
            }
            TrapKind::BashOnly | TrapKind::BashVariable if self.instead.is_empty() => {
                write!(f, "{written} is bash's, not zsh's: pass shell: bash")
            }
            TrapKind::BashOnly => {
                // What fills an array is followed by its use.
                let fills = self.instead.starts_with("read") && self.instead.contains(" -A ")
                    || self.instead.contains("(@f)");
                let counts = if fills { " (elements count from 1)" } else { "" };
                write!(
                    f,
                    "{written} is bash's, not zsh's: write {instead}{counts}, or pass shell: bash"
                )
            }
            TrapKind::BashVariable => {
                write!(f, "{written} is bash's and empty in zsh: write {instead}")
            }
            TrapKind::NotSplit => {
                write!(
                    f,
                    "zsh does not split {written} into words: write {instead}, or use an array"
                )
            }
            TrapKind::FirstElement => write!(
                f,
                "zsh counts elements from 1, and {written} counts from 0: write {instead}, or begin \
                 with `setopt ksh_arrays`"
            ),
            TrapKind::UnsetElement => {
                write!(f, "zsh removes no element by {written}: write {instead}")
            }
            TrapKind::Modifier => {
                write!(
                    f,
                    "zsh takes the : in {written} as a modifier of the value: write {instead}"
                )
            }
            TrapKind::Subscript => {
                write!(f, "zsh takes the [ in {written} as an index of the value: write {instead}")
            }
            TrapKind::ValueAsPattern => {
                write!(
                    f,
                    "zsh takes the value of {written} literally, not as a pattern: write {instead}"
                )
            }
            TrapKind::EchoEscape => {
                write!(f, "zsh's echo replaces the escape {written}: write {instead} to keep it")
            }
            TrapKind::SeveralRedirections => {
                write!(
                    f,
                    "zsh uses every redirection of a stream in {written}, bash the last one: "
                )?;
                if self.instead.is_empty() {
                    f.write_str("begin with `setopt no_multios`")
                } else {
                    write!(f, "write {instead}, or begin with `setopt no_multios`")
                }
            }
            TrapKind::Octal => {
                write!(f, "zsh takes {written} as a decimal number: write {instead}")
            }
            TrapKind::TrapOfFunction => write!(
                f,
                "zsh runs a {written} of a function when that function returns: write {instead} before it"
            ),
            TrapKind::Which => write!(
                f,
                "zsh's which prints a line for what it does not find too: write {instead} instead of {written}"
            ),
            TrapKind::SourcedFile => {
                write!(f, "zsh looks for the file of {written} in PATH only: write {instead}")
            }
        }?;
        for (index, (written, instead)) in self.also.iter().enumerate() {
            let [written, instead] = [written, instead].map(|it| foreign::in_backticks(it));
            match (self.kind, index) {
                (TrapKind::Unmatched { .. }, _) => {
                    write!(f, "; {written} needs the same if no file matches it")?;
                }
                (_, 0) => write!(f, "; likewise {instead} for {written}")?,
                _ => write!(f, ", {instead} for {written}")?,
            }
        }
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        f.write_str(if self.skips_rest { ". Nothing after it ran." } else { "." })
    }
}

/// How a trap shows when the text runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sign {
    /// By nothing: the text proves it.
    None,
    /// By a failure of the command as a whole, which needs no report.
    Failure,
    /// By a report of zsh that ends so.
    Report(Vec<String>),
    /// By a report of zsh that ends with such a text, after these words.
    ReportOf(&'static str, Shape),
    /// By a report that a program is not found whose name has blanks.
    ReportOfWords,
    /// By a program that is not found.
    NotFound,
    /// Only beside another of its kind.
    Beside,
}

#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) trap: Trap,
    pub(super) sign: Sign,
    /// Whether zsh leaves out the rest of the text when it reports this.
    pub(super) is_fatal: bool,
    /// Whether the text alone is reason enough for a note before a run.
    pub(super) is_certain: bool,
    /// Where it is, if it is fatal.
    pub(super) at: usize,
    pub(super) in_function: bool,
}

/// The traps of one text.
#[derive(Debug, Clone, Default)]
pub struct Traps {
    /// In the order of the text.
    found: Vec<Found>,
    /// How many lines it has.
    lines: usize,
    /// Whether it sends stderr elsewhere.
    hides_reports: bool,
    /// The functions that it defines, which reports name.
    functions: HashSet<String>,
}

/// How many other parts a note names at most.
const MAX_ALSO: usize = 3;

/// How many reports are compared at most with each trap that reports itself.
const MAX_REPORTS: usize = 256;

impl Traps {
    /// Finds the traps of a text. `is_set` tells which environment variables have values.
    pub fn find(line: &CommandLine, dialect: Dialect, is_set: &dyn Fn(&str) -> bool) -> Traps {
        if dialect == Dialect::Other || !walk::may_hold_any(line) {
            return Traps::default();
        }
        let (mut found, functions) = walk::find(line, is_set);
        if dialect == Dialect::ZshAsBash {
            found.retain(|it| !is_settled_by_options(it.trap.kind));
        }
        let text = line.text();
        let hides_reports = text.contains("2>") || text.contains("&>") || text.contains("|&");
        Traps { found, lines: text.lines().count(), hides_reports, functions }
    }

    /// The trap to note before a run, from the text alone.
    pub fn before(&self) -> Option<Trap> {
        self.found.iter().find(|it| it.is_certain).map(|it| self.placed(it, None))
    }

    /// The trap to note while the text runs: one that nothing will report.
    pub fn silent(&self) -> Option<Trap> {
        self.found.iter().find(|it| it.sign == Sign::None).map(|it| self.placed(it, None))
    }

    /// Whether the output is needed to tell which trap has shown.
    pub(crate) fn needs_output(&self) -> bool {
        self.found.iter().any(|it| !matches!(it.sign, Sign::None | Sign::Failure | Sign::Beside))
    }

    /// Whether a part of the output may hold a report, by the names that reports begin with.
    pub(crate) fn may_report(&self, output: &[u8]) -> bool {
        let holds = |name: &[u8]| memmem::find(output, name).is_some();
        holds(b"zsh:") || holds(b"(eval):") || self.functions.iter().any(|it| holds(it.as_bytes()))
    }

    /// Begins to read the output of a run.
    pub(crate) fn reports(&self) -> Reports<'_> {
        Reports { traps: self, seen: None, not_found: false, read: 0 }
    }

    fn placed(&self, found: &Found, line: Option<usize>) -> Trap {
        let mut trap = found.trap.clone();
        trap.line = line.or(trap.line).filter(|_| self.lines > 1);
        trap.also = self.also(found);
        trap
    }

    /// What else of its kind is in the text, after a trap that shows.
    fn also(&self, found: &Found) -> Vec<(String, String)> {
        let trap = &found.trap;
        let is_unmatched = matches!(trap.kind, TrapKind::Unmatched { .. });
        if trap.instead.is_empty() && !is_unmatched {
            return Vec::new();
        }
        let mut also: Vec<(String, String)> = Vec::new();
        for other in &self.found {
            let is_same = other.trap.kind == trap.kind
                && other.trap.written != trap.written
                && !also.iter().any(|(written, _)| *written == other.trap.written);
            let shows = match trap.kind {
                TrapKind::Unmatched { .. } => other.at == found.at,
                TrapKind::PatternInText => true,
                TrapKind::FirstElement if other.sign == Sign::Beside => {
                    array_of(&other.trap.written) == array_of(&trap.written)
                }
                _ => other.is_certain,
            };
            let is_named = is_unmatched || !other.trap.instead.is_empty();
            if is_same && shows && is_named && also.len() < MAX_ALSO {
                also.push((other.trap.written.clone(), other.trap.instead.clone()));
            }
        }
        also
    }
}

/// The reports of zsh in the output of a run, as far as they concern the text's traps.
#[derive(Debug)]
pub(crate) struct Reports<'a> {
    traps: &'a Traps,
    /// The trap of the first report, and the line that it names.
    seen: Option<(&'a Found, Option<usize>)>,
    not_found: bool,
    read: usize,
}

impl<'a> Reports<'a> {
    /// Reads a line of the output. Returns whether no further line matters.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        // What a program has printed without a line end precedes it.
        let line = line.find("zsh:").and_then(|at| line.get(at..)).unwrap_or(line);
        let Some((at, said)) = self.report(line.trim_end_matches('\r')) else { return false };
        self.read += 1;
        self.not_found |= said.starts_with("command not found: ");
        self.seen = self.traps.found.iter().find(|it| it.sign.is_in(said)).map(|it| (it, at));
        self.seen.is_some() || self.read >= MAX_REPORTS
    }

    /// The line number and the text of a report of zsh on this text: `zsh:3: no matches found: *.x`,
    /// `f:1: …` in a function, `zsh:read:1: …` of a builtin.
    fn report<'l>(&self, line: &'l str) -> Option<(Option<usize>, &'l str)> {
        let (place, said) = line.split_once(": ")?;
        let mut parts = place.split(':');
        let by = parts.next()?;
        let is_own = by == "zsh";
        if !is_own && by != "(eval)" && !self.traps.functions.contains(by) {
            return None;
        }
        let number = parts.next_back().and_then(|number| number.parse().ok());
        Some((number.filter(|_| is_own), said))
    }

    /// The trap that has shown in a run with this exit code; `fails` is set if any part of a pipeline
    /// has failed.
    pub(crate) fn after(self, exit_code: i32, fails: bool) -> Option<Trap> {
        if let Some((found, at)) = self.seen {
            let mut trap = self.traps.placed(found, at);
            trap.skips_rest = found.is_fatal;
            return Some(trap);
        }
        let shows = |found: &&Found| match found.sign {
            Sign::None => true,
            Sign::Failure => fails || exit_code != 0,
            Sign::NotFound => self.not_found || exit_code == 127,
            Sign::Report(_) | Sign::ReportOf(..) | Sign::ReportOfWords | Sign::Beside => false,
        };
        // A report that the text has sent elsewhere.
        let is_hidden = |found: &&Found| {
            self.traps.hides_reports
                && found.is_certain
                && matches!(found.trap.kind, TrapKind::BashOnly | TrapKind::SourcedFile)
        };
        let found = self.traps.found.iter().find(shows);
        let found = found.or_else(|| self.traps.found.iter().find(is_hidden));
        found.map(|found| self.traps.placed(found, None))
    }
}

impl Sign {
    /// Whether a report says this, without what precedes its first `: `.
    fn is_in(&self, said: &str) -> bool {
        match self {
            Sign::Report(ends) => ends
                .iter()
                .any(|end| said == end || end.ends_with([' ', '`']) && said.starts_with(end)),
            Sign::ReportOf(words, shape) => {
                said.strip_prefix(words).is_some_and(|rest| shape.matches(rest))
            }
            Sign::ReportOfWords => {
                ["command not found: ", "no such file or directory: "].iter().any(|words| {
                    said.strip_prefix(words).is_some_and(|name| name.trim().contains(' '))
                })
            }
            Sign::None | Sign::Failure | Sign::NotFound | Sign::Beside => false,
        }
    }
}

/// Whether the options of `dialect: bash` make zsh do what bash does.
fn is_settled_by_options(kind: TrapKind) -> bool {
    match kind {
        TrapKind::Unmatched { .. }
        | TrapKind::PatternInText
        | TrapKind::EqualsWord
        | TrapKind::NotSplit
        | TrapKind::FirstElement
        | TrapKind::Subscript
        | TrapKind::ValueAsPattern
        | TrapKind::EchoEscape
        | TrapKind::Octal
        | TrapKind::Modifier
        | TrapKind::BadPattern
        | TrapKind::TrapOfFunction
        | TrapKind::SeveralRedirections => true,
        TrapKind::NoSuchHome
        | TrapKind::SpecialName(_)
        | TrapKind::BashOnly
        | TrapKind::BashVariable
        | TrapKind::UnsetElement
        | TrapKind::QuotedKey
        | TrapKind::NoGlob
        | TrapKind::Which
        | TrapKind::SourcedFile => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn nothing_is_set(_: &str) -> bool {
        false
    }

    fn traps(text: &str) -> Traps {
        Traps::find(&CommandLine::parse(text), Dialect::Zsh, &nothing_is_set)
    }

    /// The note after a run with this output and exit code.
    fn after(text: &str, output: &str, code: i32) -> Option<String> {
        let traps = traps(text);
        let mut reports = traps.reports();
        let _ = output.lines().any(|line| reports.read(line));
        Some(reports.after(code, false)?.to_string())
    }

    #[test]
    fn reports_are_explained() {
        for (text, report, note) in [
            (
                "ls *.foo 2>/dev/null || true",
                "zsh:1: no matches found: *.foo",
                "No file matches `*.foo`, so zsh did not run the command: write `'*.foo'` if the program \
                 is to see it, or begin with `setopt no_nomatch`, as bash does.",
            ),
            (
                "for f in *.nope; do echo $f; done; echo after",
                "zsh:1: no matches found: *.nope",
                "No file matches `*.nope`, so zsh did not run the command: write `*.nope(N)` if none is \
                 fine, or begin with `setopt no_nomatch`, as bash does. Nothing after it ran.",
            ),
            (
                "a=1\n[ \"$a\" == \"b\" ] && echo same\nls",
                "zsh:2: = not found",
                "zsh takes a word that begins with = as the path of a program: write `=` instead of \
                 `==` (line 2). Nothing after it ran.",
            ),
            (
                "echo ===== build =====",
                "zsh:1: ==== not found",
                "zsh takes a word that begins with = as the path of a program: write `'====='` instead of \
                 `=====`.",
            ),
            (
                "status=$(git status)",
                "zsh:1: read-only variable: status",
                "`status` is the exit status, as $?, in zsh: use another name, as `my_status`.",
            ),
            (
                "for path in a b; do echo $path; done; ls",
                "zsh:1: command not found: ls",
                "`path` is $PATH as an array in zsh: use another name, as `my_path`.",
            ),
            (
                "mapfile -t l < f",
                "zsh:1: command not found: mapfile",
                "`mapfile -t l < f` is bash's, not zsh's: write `l=(\"${(@f)$(<f)}\")` (elements count \
                 from 1), or pass shell: bash.",
            ),
            (
                "s=HELLO; echo ${s,,}",
                "zsh:1: bad substitution",
                "`${s,,}` is bash's, not zsh's: write `${(L)s}`, or pass shell: bash.",
            ),
            (
                "f() { ls \"$1\"/*.c; }; f 'a b'",
                "f: no matches found: a b/*.c",
                "No file matches `\"$1\"/*.c`, so zsh did not run the command: write `\"$1\"/\\*.c` if the \
                 program is to see it, or begin with `setopt no_nomatch`, as bash does.",
            ),
        ] {
            assert_eq!(after(text, report, 1).as_deref(), Some(note), "{text}");
        }
    }

    #[test]
    fn the_rest_is_said_to_be_left_out_only_where_it_is() {
        const EQUALS: &str = "zsh:1: = not found";
        for (text, report, is_left_out) in [
            ("[ a == b ]; echo", EQUALS, true),
            ("echo | [ a == b ]; echo", EQUALS, true),
            ("echo | while read x; do [ a == b ]; done; echo", EQUALS, true),
            ("[ a == b ] | cat; echo", EQUALS, false),
            ("[ a == b ] & echo", EQUALS, false),
            ("[ a == b ] && echo & echo", EQUALS, false),
            ("{ [ a == b ]; } | cat; echo", EQUALS, false),
            ("if [ a == b ]; then echo; fi & echo", EQUALS, false),
            ("if true; then ls & fi; [ a == b ]; echo", EQUALS, true),
            ("coproc [ a == b ]; echo", EQUALS, false),
            ("eval '[ a == b ]'; echo", "(eval):1: = not found", false),
            ("trap '[ a == b ]' EXIT; echo", EQUALS, false),
            ("f() { [ a == b ]; }; f; echo", "f: = not found", true),
            ("f() { [ a == b ]; }; echo; f", "f: = not found", false),
            ("f() { [ a == b ]; }; f | cat; echo", "f: = not found", false),
            ("f() { [ a == b ]; }; x=$(f); echo", "f: = not found", false),
            ("f() ( [ a == b ] ); f; echo", "f: = not found", false),
            ("pip install foo>=1.0; echo", "zsh:1: 1.0 not found", false),
            ("ls > *.foo; echo", "zsh:1: no matches found: *.foo", false),
            ("command ls *.foo; echo", "zsh:1: no matches found: *.foo", false),
            ("x=${y^^} ls; echo", "zsh:1: bad substitution", false),
            ("(( ${y^^} )); echo", "zsh:1: bad substitution", false),
            ("a=(x); unset 'a[0]'; echo", "zsh:1: a: assignment to invalid subscript range", false),
            ("case x in x) ls;;& esac; echo", "zsh:1: parse error near `&'", true),
            ("eval 'case x in x) ls;;& esac'; echo", "(eval):1: parse error near `&'", false),
        ] {
            let note = after(text, report, 1).unwrap_or_else(|| panic!("no note: {text}"));
            assert_eq!(note.ends_with(" Nothing after it ran."), is_left_out, "{text}: {note}");
        }
    }

    #[test]
    fn others_of_its_kind_are_named() {
        for (text, report, end) in [
            (
                "tr [:lower:] [:upper:]",
                "zsh:1: no matches found: [:lower:]",
                "write `'[:lower:]'`; likewise `'[:upper:]'` for `[:upper:]`.",
            ),
            (
                "rm -f *.o *.a; ls *.x",
                "zsh:1: no matches found: *.o",
                "as bash does; `*.a` needs the same if no file matches it.",
            ),
            (
                "a=(x y z); echo ${a[0]} ${a[2]}; b=(x); echo ${b[2]}",
                "",
                "with `setopt ksh_arrays`; likewise `${a[3]}` for `${a[2]}`.",
            ),
            (
                "[[ ab =~ (a)(b) ]]; echo ${BASH_REMATCH[1]}${BASH_REMATCH[2]}",
                "",
                "write `${match[1]}`; likewise `${match[2]}` for `${BASH_REMATCH[2]}`.",
            ),
        ] {
            let note = after(text, report, 1).unwrap_or_else(|| panic!("no note: {text}"));
            assert!(note.ends_with(end), "{note}");
        }
    }

    #[test]
    fn what_bash_and_zsh_run_alike_gets_no_note() {
        for text in [
            "declare -A m; m[\"foo\"]=1; echo \"${m[\"foo\"]}\"",
            "declare -A m; m[\"foo\"]=1; echo \"${m[@]}\"",
            "declare -A m; m[foo]=1; echo \"${m[foo]}\"",
            "set -f; echo a; set +f; echo *.txt",
            "set -o noglob; echo *.txt",
            "x=abc; echo \"${x:1}\" \"${x: -1}\" \"${x:0:1}\"",
            "x=010; echo $((10#$x+1)) $((8#$x))",
            "x=010; ((x=1)); echo $x",
            "x=007; echo $((x+1))",
            "printf '%s %d' 010 5",
            "a=(x y z); unset a; a=(z); echo ${a[@]}",
            "set -e; set -- -m -b",
            "read -r -t 5 a b < f",
            "time ls | grep real.txt",
            "trap 'rm -f x' EXIT; f() { echo; }; f",
            "x=$(cat <<'E'\nplain\nE\n); echo \"$x\"",
            "file=a/b.c; echo ${file:t:r} ${file:h}",
            "a=(1 2); echo $a[1] ${a[2]}",
        ] {
            let found = traps(text);
            let noted = found.before().or_else(|| found.silent());
            assert_eq!(noted.map(|trap| trap.to_string()), None, "{text}");
        }
    }

    #[test]
    fn what_nothing_reports_is_explained_from_the_text() {
        for (text, note) in [
            (
                "files=\"a b\"; for x in $files; do echo $x; done",
                "zsh does not split `$files` into words: write `${=files}`, or use an array.",
            ),
            (
                "a=(x y); echo ${a[0]}",
                "zsh counts elements from 1, and `${a[0]}` counts from 0: write `${a[1]}`, or begin with \
                 `setopt ksh_arrays`.",
            ),
            (
                "sha=abc; echo \"$sha:app.js\"",
                "zsh takes the : in `\"$sha:app.js\"` as a modifier of the value: write \
                 `\"${sha}:app.js\"`.",
            ),
            ("echo 'C:\\new'", "zsh's echo replaces the escape `\\n`: write `echo -E` to keep it."),
            (
                "exit ${PIPESTATUS[0]}",
                "`${PIPESTATUS[0]}` is bash's and empty in zsh: write `${pipestatus[1]}`.",
            ),
            (
                "curl http://127.0.0.1:9/a?b=c&d=e",
                "zsh takes `http://127.0.0.1:9/a?b=c` as a pattern of file names: write \
                 `'http://127.0.0.1:9/a?b=c'`.",
            ),
        ] {
            let note = Some(note.to_owned());
            assert_eq!(traps(text).before().map(|trap| trap.to_string()), note, "{text}");
        }
    }

    #[test]
    fn traps_are_found_beside_what_looks_like_zsh() {
        for text in [
            "# please repeat this for each (N)\nfiles=\"a b\"; for x in $files; do echo $x; done",
            "echo x | sed -E 's/(.)/y/'; files='a b'; for x in $files; do :; done",
            "awk '{print -$1}' f; fs='a b'; for x in $fs; do :; done",
            "files=`ls *.py`; for f in $files; do echo $f; done",
            "a=(x y); for ((i=0;i<2;i++)); do echo ${a[i]}; done",
            "mapfile -t l < f || exit 1",
            "password='x y'; for p in $password; do :; done",
            "grep \"^$word[[:space:]]\" f; n=x; echo \"$n[0]\"",
        ] {
            assert!(traps(text).before().is_some(), "{text}");
        }
    }

    #[test]
    fn what_a_program_prints_is_no_report_on_the_text() {
        for (text, output) in [
            ("cat log", "zsh:1: no matches found: *.foo"),
            ("ls *.foo", "a log says: no matches found: *.foo"),
            ("bash -c 'ls *.foo'", "zsh:1: no matches found: *.foo"),
            ("cat <<E\nls *.foo\nE", "zsh:2: no matches found: *.foo"),
            ("ls *.foo", "zsh:1: no matches found: *.bar"),
            ("npm test; ls *.foo", "npm: no matches found: *.foo"),
            ("echo hi # mapfile", "zsh:1: command not found: mapfile"),
            ("mapfile() { :; }; mapfile -t x", "hi"),
        ] {
            assert_eq!(after(text, output, 1), None, "{text}");
        }
    }

    #[test]
    fn options_of_the_dialect_leave_only_what_they_do_not_settle() {
        let note = |text: &str| {
            let line = CommandLine::parse(text);
            Traps::find(&line, Dialect::ZshAsBash, &nothing_is_set).before().is_some()
        };
        assert!(!note("a=(x y); echo ${a[0]}"));
        assert!(note("mapfile -t x"));
        let line = CommandLine::parse("mapfile -t x");
        assert!(Traps::find(&line, Dialect::Other, &nothing_is_set).before().is_none());
    }

    fn lines_of(fixture: &str, field: &str) -> Vec<String> {
        let text = std::fs::read_to_string(fixture).expect(fixture);
        let records = text.lines().map(|line| serde_json::from_str(line).expect("a record"));
        records
            .map(|record: serde_json::Value| record[field].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn valid_zsh_gets_no_note() {
        let lines = lines_of("tests/fixtures/dialect/valid.jsonl", "line");
        assert!(lines.len() > 500);
        for line in lines {
            let found = traps(&line);
            let noted = found.before().or_else(|| found.silent());
            assert_eq!(noted.map(|trap| trap.to_string()), None, "{line}");
        }
    }

    #[test]
    fn recorded_commands_of_agents_get_a_note_only_where_they_fail() {
        let folder = std::fs::read_dir("tests/fixtures/sessions").expect("the sessions");
        let files = folder.map(|entry| entry.expect("a file").path());
        let commands: Vec<String> =
            files.flat_map(|file| lines_of(&file.to_string_lossy(), "command")).collect();
        assert!(commands.len() > 900);
        let noted = commands.iter().filter(|command| traps(command).before().is_some());
        for command in noted {
            assert!(command.contains("/api/items?limit=2"), "{command}");
        }
    }

    #[test]
    fn repetitive_text_is_read_in_linear_time() {
        const COUNT: usize = 16_000;
        let texts: [fn(usize) -> String; 9] = [
            |count| "echo $(".repeat(count),
            |count| "a=(x); echo ${a[0]};".repeat(count),
            |count| "ls *.foo;".repeat(count),
            |count| "{ ".repeat(count) + ">a >b",
            |count| "x=1;".repeat(count) + "\"$x[0]\"",
            |count| (0..count).map(|number| format!("x{number}=1;")).collect(),
            |count| "x=1; echo \"".to_owned() + &"$x[0]".repeat(count),
            |count| "x=1; echo \"".to_owned() + &"$x[".repeat(count),
            |count| "f() { :; }; ".repeat(count),
        ];
        for text in texts {
            let time = |count: usize| {
                let text = text(count);
                let begun = Instant::now();
                let found = traps(&text);
                let mut reports = found.reports();
                reports.read("zsh:1: no matches found: *.bar");
                let _ = reports.after(1, false);
                begun.elapsed()
            };
            let (small, large) = (time(COUNT / 8), time(COUNT));
            // Eight times the text: linear takes eight times as long, quadratic 64 times.
            assert!(
                large < small * 32 + Duration::from_secs(2),
                "{:?}: {small:?} for an eighth, {large:?} for all",
                text(2)
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[\\[\\]{}()$'\"`\\\\a=~*?;&|<>#! \n]{0,80}") {
            let found = traps(&text);
            let _ = (found.before(), found.silent());
        }
    }
}
