//! Tokens of a command line, with their kind, position and depth. Pure.

use std::ops::Range;

/// One token of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Range<usize>,
    /// How many compound commands (subshells, groups, loops, `case` …) contain it, not counting one
    /// that it opens or closes.
    pub depth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A word, with all its quotes and substitutions.
    Word(WordRole),
    /// `NAME=value` before a command, or as an argument of `typeset` and the like.
    Assignment,
    /// `NAME=(`; the elements follow as words.
    ArrayOpen,
    ArrayClose,
    Reserved(Reserved),
    Separator(Separator),
    /// A redirection's operator with its descriptor (`2>&`, `{fd}>`, `<<-`).
    Redirection,
    /// The body of a here-document, up to the end of its last line.
    HereDocument,
    /// From `#` to the end of the line.
    Comment,
    /// `(` of a subshell.
    Open,
    /// `)` of a subshell, or without an opening parenthesis.
    Close,
    FunctionParens,
    /// `((…))` as a command, or the head of a `for`.
    Arithmetic,
    /// `)` after the pattern of a `case`, and `|` within it.
    PatternOperator,
    /// The parentheses of `for name (…)`.
    ListParen,
    /// An operator within `[[ … ]]`.
    ConditionOperator,
}

/// The purpose of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordRole {
    Command,
    Argument,
    /// The target of a redirection.
    Target,
    Element,
    /// An operand or operator within `[[ … ]]`.
    Condition,
    /// The variable of a `for` or `select`.
    LoopName,
    /// A value of a `for` or `select`, or the count of a `repeat`.
    LoopWord,
    /// The word between `case` and `in`.
    CaseSubject,
    /// A pattern of a `case`.
    Pattern,
    /// The name in a function definition.
    FunctionName,
}

/// Declares the reserved words. Those before `elsewhere` have a text where a command may begin.
macro_rules! reserved_words {
    ($( $text:literal $name:ident, )* elsewhere $( $other:ident, )*) => {
        /// A reserved word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reserved {
            $( $name, )*
            $( $other, )*
        }

        impl Reserved {
            /// The reserved word with this text, where a command may begin.
            pub(crate) fn at_command(text: &str) -> Option<Reserved> {
                match text {
                    $( $text => Some(Reserved::$name), )*
                    _ => None,
                }
            }
        }
    };
}

reserved_words! {
    "if" If, "then" Then, "elif" Elif, "else" Else, "fi" Fi,
    "while" While, "until" Until, "for" For, "foreach" Foreach, "select" Select,
    "repeat" Repeat, "do" Do, "done" Done, "end" End,
    "case" Case, "esac" Esac, "function" Function,
    "{" BraceOpen, "}" BraceClose, "always" Always, "[[" ConditionOpen,
    "!" Not, "time" Time, "coproc" Coproc, "nocorrect" NoCorrect,
    elsewhere In, ConditionClose,
}

/// An operator between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// `;`
    Semicolon,
    /// A line end that ends a command, unlike one after `&&`, `||` or a pipe.
    Newline,
    /// `&`
    Background,
    /// `&!` and `&|`: zsh starts the command and disowns it.
    Disown,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `|&`
    PipeBoth,
    /// `;;`, `;&` and `;|` of a `case`.
    CaseEnd,
}

impl Separator {
    /// Whether a command must follow, if necessary on the next line.
    pub(crate) fn waits_for_more(self) -> bool {
        matches!(self, Separator::And | Separator::Or | Separator::Pipe | Separator::PipeBoth)
    }

    pub(crate) fn is_pipe(self) -> bool {
        matches!(self, Separator::Pipe | Separator::PipeBoth)
    }
}
