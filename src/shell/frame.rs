//! What is open at a position of a command line: compound commands, and the parts of
//! the word that is being read.
//!
//! One stack holds both, since each may stand in the other (`"$(case x in …)"`). It is a
//! vector, so that nesting costs memory and never the thread's stack.

use super::scan::HereDocument;

/// Something that is open.
#[derive(Debug)]
pub(super) enum Frame {
    /// `(`
    Subshell,
    /// `{`; whether it is the body of a loop or a branch, and ends that.
    Brace { is_body: bool },
    /// `if`, in zsh's form with braces or in the other.
    If(Branches),
    /// A loop of any kind.
    Loop(LoopKind, Stage),
    /// `case`
    Case,
    /// `[[`
    Condition,
    /// `NAME=(`, and where the command goes on behind it.
    Array { after: Place },
    /// A word.
    Word(Word),
    /// `"` within a word.
    DoubleQuote,
    /// `${` within a word.
    Parameter { is_quoted: bool, braces: u32 },
    /// `$(`, `<(`, `>(` or `=(` within a word: where its inside begins, and how the list
    /// of commands around the word stood.
    Substitution { inside: usize, around: List },
}

impl Frame {
    /// Whether what is in it is one deeper.
    pub fn is_compound(&self) -> bool {
        !matches!(
            self,
            Frame::Word(_)
                | Frame::DoubleQuote
                | Frame::Parameter { .. }
                | Frame::Substitution { .. }
        )
    }

    /// Whether a `)` can close it.
    pub fn is_parenthesis(&self) -> bool {
        matches!(self, Frame::Subshell | Frame::Substitution { .. })
    }
}

/// A word that is being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// Where it begins.
    pub start: usize,
    /// Open parentheses of patterns and glob qualifiers.
    pub parentheses: u32,
    /// Whether it has had any.
    pub had_parentheses: bool,
    /// Open braces, as of `{a,b}`.
    pub braces: u32,
}

/// How the branches of an `if` are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branches {
    /// Not known yet, or with `then` and `fi`.
    Words,
    /// `if [[ … ]] { … } else { … }`, a branch still to come.
    Braces,
    /// The same with a branch just closed: only `else` or `elif` goes on.
    BraceClosed,
}

/// Which loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopKind {
    /// `while` and `until`.
    Condition,
    /// `for`, `select` and `repeat`.
    Counted,
    /// `foreach`, which `end` ends.
    Foreach,
}

/// How far a loop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// In front of its body.
    Head,
    /// After `do`.
    Body,
    /// In a body of a single command, which ends with it.
    Short,
}

/// What may stand next in a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Place {
    /// A command, an assignment or a reserved word.
    #[default]
    Command,
    /// A command or another assignment.
    Assigned,
    /// An argument.
    Argument,
    /// An argument of `typeset` and its like, which may assign.
    Declaration,
    /// The variable of a `for`, or `in`.
    LoopName,
    /// What a `for` goes through, to the end of the line.
    LoopWords,
    /// The same in parentheses.
    LoopList,
    /// The count of a `repeat`.
    RepeatCount,
    /// The word behind `case`.
    CaseSubject,
    /// The `in` of a `case`.
    CaseIn,
    /// A pattern of a `case`, or `esac`.
    CasePattern,
    /// The name behind `function`.
    FunctionName,
    /// Within `[[ … ]]`.
    Condition,
    /// Within an array.
    Array,
}

impl Place {
    /// Whether the end of a line ends nothing here.
    pub fn ignores_newlines(self) -> bool {
        matches!(
            self,
            Place::CaseSubject
                | Place::CaseIn
                | Place::CasePattern
                | Place::LoopList
                | Place::Condition
                | Place::Array
        )
    }

    /// Whether a word may be an assignment here, which may be of an array.
    pub fn may_assign(self) -> bool {
        matches!(self, Place::Command | Place::Assigned | Place::Declaration)
    }
}

/// A redirection that waits for its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A file, a descriptor or a here-string.
    Plain,
    /// The delimiter of a here-document.
    Delimiter { strips_tabs: bool },
}

/// How a list of commands stands: the text itself, or a substitution within it.
#[derive(Debug, Default)]
pub(super) struct List {
    /// What may stand next.
    pub place: Place,
    /// The redirection that waits for its word.
    pub target: Option<Target>,
    /// Here-documents whose bodies follow the end of the line.
    pub here_documents: Vec<HereDocument>,
    /// Whether a command must follow, also on the next line.
    pub waits_for_more: bool,
    /// What the last token was, where that matters for the next.
    pub before: Before,
    /// Words of a condition since its last `&&`, `||` or parenthesis: behind an operand
    /// and an operator a parenthesis is a pattern's.
    pub condition_words: u32,
}

/// What the last token was, where that matters for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Before {
    /// It does not matter.
    #[default]
    Other,
    /// The end of a condition (`]]`, `))`, `)`): `{` begins the body.
    ConditionEnd,
    /// A command's name: `()` makes it a function's.
    CommandName,
}
