//! L1: bytes that programs printed, as text for a model or a person. Everything here is pure.
//!
//! Read in this order:
//!
//! - A line of output: [`ansi`] makes the text that a terminal finally shows, with [`canvas`] for the
//!   moves of the cursor, [`sgr`] for colours and [`line_drawing`] for boxes. [`lines`] numbers lines
//!   and cuts them to a size; [`progress_lines`] folds bars that print a line for each step.
//! - A whole screen: [`screen`] emulates a terminal, [`sequences`] adds what the emulation lacks,
//!   [`keys`] is the way back.
//! - What may be believed: [`foreign`] is the type of text that others wrote, among the tool's own
//!   words; [`frame`] marks output that looks like the tool's; [`invisible`] shows invisible characters;
//!   [`terminal_filter`] is for a person's terminal.
//! - Secrets: [`redact`] before text is stored, [`mask`] for secrets that were typed.
//! - [`pattern`]: a caller's pattern for lines. [`quoting`] and [`quantity`]: words and numbers.

pub(crate) mod ansi;
pub(crate) mod binary;
pub(crate) mod canvas;
pub(crate) mod encoding;
pub(crate) mod failures;
pub(crate) mod foreign;
pub(crate) mod frame;
pub(crate) mod invisible;
pub(crate) mod keys;
pub(crate) mod line_drawing;
pub(crate) mod lines;
pub(crate) mod mask;
pub(crate) mod pattern;
pub(crate) mod progress_lines;
pub(crate) mod quantity;
pub(crate) mod quoting;
pub(crate) mod redact;
pub(crate) mod screen;
pub(crate) mod segments;
pub(crate) mod sequences;
pub(crate) mod sgr;
pub(crate) mod signs;
pub(crate) mod terminal_filter;
