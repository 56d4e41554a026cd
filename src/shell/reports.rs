//! Judges by a command's text what its end can report besides the exit code.
//!
//! A shell must outlive its last command to report the statuses of a pipeline or the final
//! directory. Most commands have neither, and zsh then runs the unchanged text. Only a command that
//! certainly has nothing to report runs without a report.
//!
//! Limits: aliases and functions that the text does not define are unknown. If startup files may
//! define them, the caller passes those files to [`added_by_startup`]. Pure.

use super::command_line::CommandLine;
use super::token::{TokenKind, WordRole};
use super::unquote::unquote;

/// What the end of a command can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reportable {
    /// The statuses of a pipeline of two or more parts.
    pub(crate) pipestatus: bool,
    /// A directory other than the initial one.
    pub(crate) directory: bool,
    /// Whether the text lists functions or traps every command, so that an added function would be
    /// visible.
    pub(crate) shows_functions: bool,
}

impl Reportable {
    /// Everything, as after startup files of unknown content.
    pub(crate) const ALL: Reportable =
        Reportable { pipestatus: true, directory: true, shows_functions: false };

    pub(crate) fn is_nothing(self) -> bool {
        !self.pipestatus && !self.directory
    }
}

/// Words that change the directory, or run text or functions that may.
const MOVES: &[&str] =
    &["autoload", "cd", "chdir", "emulate", "eval", "fc", "popd", "pushd", "source"];

/// Words that list functions or run a trap before each command.
const SHOWS: &[&str] =
    &["DEBUG", "TRAPDEBUG", "functions", "unfunction", "whence", "zshexit", "zshexit_functions"];

/// Declarations list functions with these options.
const SHOWS_WITH_OPTION: &[&str] = &["typeset -f", "typeset +f", "declare -f", "declare +f"];

pub(crate) fn reportable(line: &CommandLine) -> Reportable {
    let text = line.text();
    let is_pipe = |kind| matches!(kind, TokenKind::Separator(separator) if separator.is_pipe());
    let shows = |word: &str| SHOWS.contains(&word);
    Reportable {
        pipestatus: line.lexed().tokens.iter().any(|token| is_pipe(token.kind)),
        directory: may_move(line),
        shows_functions: words(text).any(shows)
            || SHOWS_WITH_OPTION.iter().any(|option| text.contains(option)),
    }
}

/// What the functions and aliases of a startup file can add to a command's report. A file that
/// names `ZDOTDIR` may make zsh read other files.
pub(crate) fn added_by_startup(text: &str) -> Reportable {
    Reportable {
        pipestatus: words(text).any(|word| word == "alias"),
        directory: may_move(&CommandLine::parse(text)) || text.contains("ZDOTDIR"),
        shows_functions: false,
    }
}

fn may_move(line: &CommandLine) -> bool {
    line.lexed().tokens.iter().any(|token| {
        let written = line.written(&token.span);
        match token.kind {
            TokenKind::Comment | TokenKind::HereDocument => false,
            TokenKind::Word(WordRole::Command) => runs_a_mover(written),
            // Arguments count too: `builtin cd`, `trap 'cd /' USR1`.
            _ => names_a_mover(written),
        }
    })
}

fn runs_a_mover(written: &str) -> bool {
    let word = unquote(written);
    match word.fixed() {
        // `.` is `source`; `-` runs the command after it.
        Some(name) => name == "." || names_a_mover(written) || MOVES.contains(&name),
        None => true,
    }
}

fn names_a_mover(written: &str) -> bool {
    words(written).any(|word| MOVES.contains(&word))
}

/// The runs of letters, digits and underscores in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_between_commands_has_statuses_and_any_other_bar_has_none() {
        let table = [
            ("true | false", true),
            ("a |& b", true),
            ("{ a | b }", true),
            ("a\nif x; then b | c; fi", true),
            ("echo 'a | b'", false),
            ("echo \"a | b\"", false),
            ("a || b", false),
            ("x=$(a | b); echo $x", false),
            ("cat <<E\na | b\nE", false),
            ("case x in a|b) true;; esac", false),
            ("[[ a == (b|c) ]]", false),
            ("echo a # | b", false),
            ("echo >| file", false),
            ("a &| b", false),
            ("(( a | b ))", false),
        ];
        for (text, expected) in table {
            assert_eq!(reportable(&CommandLine::parse(text)).pipestatus, expected, "{text}");
        }
    }

    #[test]
    fn only_commands_that_may_change_the_directory_are_found() {
        let table = [
            ("cd /usr", true),
            ("cd", true),
            ("make && cd /usr", true),
            ("pushd x", true),
            ("\\cd /", true),
            ("'cd' /", true),
            ("c''d /", true),
            ("builtin cd /", true),
            ("$command /", true),
            ("`echo cd` /", true),
            ("$(echo cd) /", true),
            (". ./env", true),
            ("source env", true),
            ("eval \"$text\"", true),
            ("trap 'cd /' USR1", true),
            ("f() { cd /; }; f", true),
            ("functions[f]='cd /'", true),
            ("emulate sh -c x", true),
            ("make", false),
            ("npm run dev", false),
            ("git -C x status", false),
            ("make -C cdrom abcd", false),
            ("echo $HOME > out", false),
            ("ls # cd /", false),
            ("cat > f <<E\ncd /\nE", false),
            ("FOO=1 make ./x", false),
        ];
        for (text, expected) in table {
            assert_eq!(reportable(&CommandLine::parse(text)).directory, expected, "{text}");
            assert_eq!(added_by_startup(text).directory, expected, "{text}");
        }
    }

    #[test]
    fn a_startup_file_adds_the_effects_of_its_aliases_and_functions() {
        assert!(added_by_startup("alias -g L='| less'").pipestatus);
        assert!(added_by_startup("export ZDOTDIR=~/.zsh").directory);
        let harmless = "# cd there\nexport PATH=~/bin:$PATH\n";
        assert_eq!(added_by_startup(harmless), Reportable::default());
    }

    #[test]
    fn commands_that_list_functions_are_found() {
        let table = [
            ("functions", true),
            ("typeset -f", true),
            ("trap 'echo x' DEBUG", true),
            ("TRAPDEBUG() { : }", true),
            ("typeset -A table", false),
            ("my_functions=1", false),
        ];
        for (text, expected) in table {
            assert_eq!(reportable(&CommandLine::parse(text)).shows_functions, expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_judged(text in ".{0,200}") {
            reportable(&CommandLine::parse(&text));
        }
    }
}
