//! Pseudo-terminals for children, and the terminal of the user.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Command;

use pty_process::blocking;
use rustix::stdio::stdin;
use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use serde::{Deserialize, Serialize};

use super::birth::Birth;
use super::{close_on_exec, signals, terminal_pair};

/// Line editing in UTF-8, which FreeBSD does not know.
#[cfg(not(target_os = "freebsd"))]
const WHOLE_CHARACTERS: InputModes = InputModes::IUTF8;
#[cfg(target_os = "freebsd")]
const WHOLE_CHARACTERS: InputModes = InputModes::empty();

/// A terminal's size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        TerminalSize { rows: 24, cols: 80 }
    }
}

/// Starts a program on a new terminal, as leader of its session; returns the child, the
/// master's end and, where the last close of the terminal discards unread output, the
/// terminal's end.
///
/// # Errors
/// No terminal is available, or the program cannot be started.
pub(super) fn spawn(
    command: Command,
    size: TerminalSize,
    birth: Birth,
) -> io::Result<(std::process::Child, OwnedFd, Option<OwnedFd>)> {
    let (master, terminal) = terminal_pair::open()?;
    resize(&master, size)?;
    erase_whole_characters(&terminal);
    let kept = terminal_pair::keep(&terminal)?;
    // SAFETY: the descriptor is the terminal's end of the pair just opened.
    let terminal = unsafe { blocking::Pts::from_fd(terminal) };
    let command = blocking::Command::from(command);
    let prepare = move || {
        birth.carry_out()?;
        signals::reset_all();
        close_on_exec::mark_in_child();
        Ok(())
    };
    // SAFETY: only calls that are safe between fork and exec.
    let command = unsafe { command.pre_exec(prepare) };
    let child = command.spawn(terminal).map_err(|error| match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(errno) => errno.into(),
    })?;
    Ok((child, master, kept))
}

/// The terminal's path, `/dev/pts/N`.
pub(crate) fn terminal_name(master: impl AsFd) -> Option<PathBuf> {
    let name = rustix::pty::ptsname(master, Vec::new()).ok()?;
    Some(OsString::from_vec(name.into_bytes()).into())
}

/// Sets a terminal's line editing to UTF-8, as terminal emulators do, so that Backspace erases a
/// character and not its last byte. Ignores errors: nothing else depends on it.
fn erase_whole_characters(terminal: &OwnedFd) {
    if let Ok(mut termios) = rustix::termios::tcgetattr(terminal) {
        termios.input_modes |= WHOLE_CHARACTERS;
        let _ = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &termios);
    }
}

/// Checks whether terminals can be opened.
///
/// # Errors
/// There is no `/dev/pts`, or all terminals are in use.
pub(crate) fn terminals_work() -> io::Result<()> {
    terminal_pair::open().map(|_| ())
}

/// Changes a terminal's size; its foreground group gets SIGWINCH.
///
/// # Errors
/// When the descriptor is no terminal.
pub(crate) fn resize(master: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let size = rustix::termios::Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

/// The process group in the foreground of a terminal.
pub(crate) fn foreground_group(master: BorrowedFd) -> Option<i32> {
    let group = rustix::termios::tcgetpgrp(master).ok()?;
    Some(group.as_raw_nonzero().get())
}

/// Whether a terminal echoes its input, and whether programs read it by lines.
pub(crate) fn input_modes(master: BorrowedFd) -> Option<(bool, bool)> {
    let modes = rustix::termios::tcgetattr(master).ok()?.local_modes;
    Some((modes.contains(LocalModes::ECHO), modes.contains(LocalModes::ICANON)))
}

/// How a terminal divides its input into lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineModes {
    /// Whether programs get whole lines; otherwise they get every byte at once.
    pub(crate) canonical: bool,
    /// Whether it erases whole UTF-8 characters, rather than bytes.
    pub utf8: bool,
    /// The character that ends the input, Ctrl-D unless the program chose another.
    pub(crate) end_of_file: u8,
    /// The character that erases the last one.
    pub(crate) erase: u8,
    /// The characters after which a new line begins: they end the line or discard it. Zero: none.
    enders: [u8; 9],
}

impl LineModes {
    /// The modes of a new terminal.
    pub(crate) const USUAL: LineModes = LineModes {
        canonical: true,
        utf8: true,
        end_of_file: 4,
        erase: 0x7f,
        enders: [b'\n', b'\r', 4, 0, 0, 0, 0, 0, 0],
    };

    /// The modes of a terminal at this moment.
    pub(crate) fn read(master: impl AsFd) -> Option<LineModes> {
        let termios = rustix::termios::tcgetattr(master).ok()?;
        let code = |index| termios.special_codes[index];
        let returns = termios.input_modes.contains(InputModes::ICRNL)
            && !termios.input_modes.contains(InputModes::IGNCR);
        let flushes = termios.local_modes.contains(LocalModes::ISIG)
            && !termios.local_modes.contains(LocalModes::NOFLSH);
        let signal = |index| if flushes { code(index) } else { 0 };
        Some(LineModes {
            canonical: termios.local_modes.contains(LocalModes::ICANON),
            utf8: termios.input_modes.intersects(WHOLE_CHARACTERS),
            end_of_file: match code(SpecialCodeIndex::VEOF) {
                0 => LineModes::USUAL.end_of_file,
                code => code,
            },
            erase: code(SpecialCodeIndex::VERASE),
            enders: [
                b'\n',
                if returns { b'\r' } else { 0 },
                code(SpecialCodeIndex::VEOF),
                code(SpecialCodeIndex::VEOL),
                code(SpecialCodeIndex::VEOL2),
                code(SpecialCodeIndex::VKILL),
                signal(SpecialCodeIndex::VINTR),
                signal(SpecialCodeIndex::VQUIT),
                signal(SpecialCodeIndex::VSUSP),
            ],
        })
    }

    /// Whether a new line begins after this character: it ends the line or discards it.
    pub(crate) fn begins_line_after(&self, byte: u8) -> bool {
        byte != 0 && self.enders.contains(&byte)
    }
}

/// The size of a terminal; `None` if it has none, or `terminal` is no terminal.
pub(crate) fn size_of(terminal: impl AsFd) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0)
        .then_some(TerminalSize { rows: size.ws_row, cols: size.ws_col })
}

/// Whether this process's stdin is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    rustix::termios::isatty(stdin())
}

/// The terminal at stdin in raw mode, to pass it through; dropping this restores its modes.
#[derive(Debug)]
pub(crate) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Puts the terminal at stdin into raw mode.
    ///
    /// # Errors
    /// When stdin is no terminal.
    pub(crate) fn enter() -> io::Result<RawTerminal> {
        let before = rustix::termios::tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(RawTerminal { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}
