//! L2: command lines, as texts. Nothing here runs one. Everything is pure.
//!
//! Read in this order:
//!
//! - From text to structure: [`command_line`] is a text that was split once, as zsh does, by [`lexer`]
//!   (with `scan`, `words` and [`token`]). [`syntax`] finds its lists, pipelines and simple commands,
//!   [`unquote`] gives a word's value.
//! - What programs mean: [`programs`], `prefix` (`sudo`, `timeout`), `options`, `interpreters`.
//! - Questions about a command: [`normalise`] and [`template`] (what is the same command?), [`lint`]
//!   (what will go wrong?), [`dialect`] (what does zsh run otherwise than bash?), [`reports`] (what can its end report?), [`exit_status_source`] (whose exit
//!   code is it?), [`ssh`] (where does it run?), [`parts`] and [`permission`] (do the user's rules
//!   allow it?).
//! - [`outcome`] and [`mode`]: words that tasks and the history share.
//! - [`manpage`]: the options of a program, from its manual page.

pub(crate) mod command_line;
pub(crate) mod dialect;
pub(crate) mod exit_status_source;
mod interpreters;
pub(crate) mod lexer;
pub(crate) mod lint;
pub(crate) mod manpage;
pub(crate) mod mode;
pub(crate) mod normalise;
mod options;
pub(crate) mod outcome;
pub(crate) mod parts;
pub(crate) mod permission;
mod prefix;
pub(crate) mod programs;
pub(crate) mod purpose;
pub(crate) mod reports;
mod scan;
pub(crate) mod ssh;
pub(crate) mod syntax;
pub(crate) mod template;
pub(crate) mod token;
pub(crate) mod unquote;
mod words;
