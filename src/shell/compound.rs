//! Reserved words and what they open and close.

use std::ops::Range;

use super::frame::{Before, Branches, Frame, LoopKind, Place, Stage};
use super::reader::Reader;
use super::token::{Kind, Reserved};

impl Reader<'_> {
    pub(super) fn reserved(&mut self, word: Reserved, span: Range<usize>) {
        let end = span.end;
        let was_closed = self.list.before == Before::ConditionEnd;
        match word {
            Reserved::Fi | Reserved::Done | Reserved::End | Reserved::BraceClose => {
                self.close_short_loops();
                self.close_compound(word);
                self.note(Kind::Reserved(word), span);
            }
            Reserved::Esac | Reserved::ConditionClose => {
                self.close_compound(word);
                self.note(Kind::Reserved(word), span);
            }
            Reserved::BraceOpen => {
                let is_body = self.is_body(was_closed);
                if !is_body {
                    self.begin_command();
                }
                self.note(Kind::Reserved(word), span);
                self.push(Frame::Brace { is_body });
            }
            _ => {
                let opened = opens(word);
                if opened.is_some() {
                    self.begin_command();
                }
                self.note(Kind::Reserved(word), span);
                if let Some(frame) = opened {
                    self.push(frame);
                }
            }
        }
        self.at = end;
        self.list.waits_for_more = false;
        self.list.condition_words = 0;
        self.list.before = match word {
            Reserved::ConditionClose => Before::ConditionEnd,
            _ => Before::Other,
        };
        self.list.place = match self.list.place {
            Place::CaseIn => Place::CasePattern,
            _ => place_behind(word),
        };
        match (word, self.frames.last_mut()) {
            (Reserved::Do, Some(Frame::Loop(_, stage))) => *stage = Stage::Body,
            (Reserved::Else | Reserved::Elif, Some(Frame::If(branches)))
                if *branches == Branches::BraceClosed =>
            {
                *branches = Branches::Braces;
            }
            _ => {}
        }
    }

    /// Whether `{` here begins the body of a loop or a branch.
    pub(super) fn is_body(&self, is_condition_closed: bool) -> bool {
        match self.frames.last() {
            Some(Frame::Loop(LoopKind::Condition, Stage::Head)) => is_condition_closed,
            Some(Frame::Loop(_, Stage::Head)) => true,
            Some(Frame::If(Branches::Words)) => is_condition_closed,
            Some(Frame::If(_)) => true,
            _ => false,
        }
    }

    /// Closes what is innermost, if this word closes it.
    pub(super) fn close_compound(&mut self, word: Reserved) {
        let Some(frame) = self.frames.last() else {
            return;
        };
        let is_body = match (word, frame) {
            (Reserved::BraceClose, Frame::Brace { is_body }) => *is_body,
            (Reserved::Fi, Frame::If(_))
            | (Reserved::Done, Frame::Loop(_, Stage::Body))
            | (Reserved::End, Frame::Loop(LoopKind::Foreach, _))
            | (Reserved::Esac, Frame::Case)
            | (Reserved::ConditionClose, Frame::Condition) => false,
            _ => return,
        };
        self.pop();
        if !is_body {
            return;
        }
        match self.frames.last_mut() {
            Some(Frame::If(branches)) => *branches = Branches::BraceClosed,
            Some(Frame::Loop(..)) => {
                self.pop();
            }
            _ => {}
        }
    }

    /// A command begins: behind the head of a `for` that is its whole body.
    pub(super) fn begin_command(&mut self) {
        if let Some(Frame::Loop(kind, stage @ Stage::Head)) = self.frames.last_mut() {
            match kind {
                LoopKind::Condition => {}
                LoopKind::Counted => *stage = Stage::Short,
                LoopKind::Foreach => *stage = Stage::Body,
            }
        }
    }

    pub(super) fn close_short_loops(&mut self) {
        while let Some(Frame::Loop(_, Stage::Short) | Frame::If(Branches::BraceClosed)) =
            self.frames.last()
        {
            self.pop();
        }
    }
}

/// What a reserved word opens, besides braces.
fn opens(word: Reserved) -> Option<Frame> {
    Some(match word {
        Reserved::If => Frame::If(Branches::Words),
        Reserved::While | Reserved::Until => Frame::Loop(LoopKind::Condition, Stage::Head),
        Reserved::For | Reserved::Select | Reserved::Repeat => {
            Frame::Loop(LoopKind::Counted, Stage::Head)
        }
        Reserved::Foreach => Frame::Loop(LoopKind::Foreach, Stage::Head),
        Reserved::Case => Frame::Case,
        Reserved::ConditionOpen => Frame::Condition,
        _ => return None,
    })
}

/// What may stand behind a reserved word; `in` belongs to whatever is open.
fn place_behind(word: Reserved) -> Place {
    match word {
        Reserved::For | Reserved::Foreach | Reserved::Select => Place::LoopName,
        Reserved::Repeat => Place::RepeatCount,
        Reserved::Case => Place::CaseSubject,
        Reserved::ConditionOpen => Place::Condition,
        Reserved::Function => Place::FunctionName,
        Reserved::In => Place::LoopWords,
        _ => Place::Command,
    }
}
