//! What a command line is made of: tokens with their kind, place and depth.

use std::ops::Range;

/// One token of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// How many compound commands (subshells, groups, loops, `case` …) it is within; the
    /// words that open and close one are outside of it.
    pub depth: u32,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A word, with all its quotes and substitutions.
    Word(Role),
    /// `NAME=value` in front of a command, or as an argument of `typeset` and its like.
    Assignment,
    /// `NAME=(`; the elements follow as words.
    ArrayOpen,
    /// The end of an array.
    ArrayClose,
    /// A reserved word where it is one.
    Reserved(Reserved),
    /// What stands between two commands.
    Separator(Separator),
    /// A redirection's operator with its descriptor (`2>&`, `{fd}>`, `<<-`).
    Redirection,
    /// The body of a here-document up to its last line's end.
    HereDocument,
    /// From `#` to the end of the line.
    Comment,
    /// `(` of a subshell.
    Open,
    /// `)` of a subshell, or one that nothing opened.
    Close,
    /// The `()` of a function.
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

/// What a word is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A command's name.
    Command,
    /// What follows a command's name.
    Argument,
    /// What a redirection's operator applies to.
    Target,
    /// An array's element.
    Element,
    /// An operand or operator within `[[ … ]]`.
    Condition,
    /// The variable of a `for` or `select`.
    LoopName,
    /// What a `for` or `select` goes through, or the count of a `repeat`.
    LoopWord,
    /// The word between `case` and `in`.
    CaseSubject,
    /// A pattern of a `case`.
    Pattern,
    /// The name of a function that is being defined.
    FunctionName,
}

/// A reserved word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the word itself")]
pub enum Reserved {
    If,
    Then,
    Elif,
    Else,
    Fi,
    While,
    Until,
    For,
    Foreach,
    Select,
    Repeat,
    In,
    Do,
    Done,
    End,
    Case,
    Esac,
    Function,
    BraceOpen,
    BraceClose,
    Always,
    ConditionOpen,
    ConditionClose,
    Not,
    Time,
    Coproc,
    NoCorrect,
}

impl Reserved {
    /// The reserved word that this text is where a command may begin.
    pub fn at_command(text: &str) -> Option<Reserved> {
        Some(match text {
            "if" => Reserved::If,
            "then" => Reserved::Then,
            "elif" => Reserved::Elif,
            "else" => Reserved::Else,
            "fi" => Reserved::Fi,
            "while" => Reserved::While,
            "until" => Reserved::Until,
            "for" => Reserved::For,
            "foreach" => Reserved::Foreach,
            "select" => Reserved::Select,
            "repeat" => Reserved::Repeat,
            "do" => Reserved::Do,
            "done" => Reserved::Done,
            "end" => Reserved::End,
            "case" => Reserved::Case,
            "esac" => Reserved::Esac,
            "function" => Reserved::Function,
            "{" => Reserved::BraceOpen,
            "}" => Reserved::BraceClose,
            "always" => Reserved::Always,
            "[[" => Reserved::ConditionOpen,
            "!" => Reserved::Not,
            "time" => Reserved::Time,
            "coproc" => Reserved::Coproc,
            "nocorrect" => Reserved::NoCorrect,
            _ => return None,
        })
    }
}

/// What stands between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// `;`
    Semicolon,
    /// The end of a line that ends a command; not after an operator that waits for more.
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
    /// Whether a command must follow, also on the next line.
    pub fn waits_for_more(self) -> bool {
        matches!(
            self,
            Separator::And | Separator::Or | Separator::Pipe | Separator::PipeBoth
        )
    }

    /// Whether it is `|` or `|&`.
    pub fn is_pipe(self) -> bool {
        matches!(self, Separator::Pipe | Separator::PipeBoth)
    }
}
