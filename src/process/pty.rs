//! Pseudo-terminals: a child with a terminal of its own, and the terminal that a person
//! sits at.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Command;

use pty_process::blocking;
use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use super::terminal_pair;

/// A terminal's size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Starts a program on a new terminal, as leader of its session; gives back the
/// master's end. `prepare` runs in the child after the terminal is set up and must make
/// only calls that are safe between fork and exec.
///
/// # Errors
/// When no terminal can be had or the program cannot be started.
pub(super) fn spawn<F>(
    command: Command,
    size: TerminalSize,
    prepare: F,
) -> io::Result<(std::process::Child, OwnedFd)>
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    let (master, terminal) = terminal_pair::open()?;
    resize(&master, size)?;
    erase_whole_characters(&terminal);
    // SAFETY: the descriptor is the terminal's end of the pair just opened.
    let terminal = unsafe { blocking::Pts::from_fd(terminal) };
    let command = blocking::Command::from(command);
    // SAFETY: the caller's closure is safe between fork and exec, as documented.
    let command = unsafe { command.pre_exec(prepare) };
    let child = command.spawn(terminal).map_err(|error| match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(errno) => errno.into(),
    })?;
    Ok((child, master))
}

/// What the terminal is called in the file system: `/dev/pts/N`.
pub fn terminal_name(master: impl AsFd) -> Option<PathBuf> {
    let name = rustix::pty::ptsname(master, Vec::new()).ok()?;
    Some(OsString::from_vec(name.into_bytes()).into())
}

/// Tells the line editing of a terminal that text is UTF-8, as terminals of today do:
/// Backspace takes back a character and not its last byte. Without it only that is lost.
fn erase_whole_characters(terminal: &OwnedFd) {
    if let Ok(mut termios) = rustix::termios::tcgetattr(terminal) {
        termios.input_modes |= InputModes::IUTF8;
        let _ = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &termios);
    }
}

/// Tries whether terminals can be had.
///
/// # Errors
/// Why not: no `/dev/pts`, or all are in use.
pub fn terminals_work() -> io::Result<()> {
    terminal_pair::open().map(|_| ())
}

/// Changes a terminal's size; its foreground group gets SIGWINCH.
///
/// # Errors
/// When the descriptor is no terminal.
pub fn resize(master: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let size = rustix::termios::Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

/// The process group in the foreground of a terminal.
pub fn foreground_group(master: BorrowedFd) -> Option<i32> {
    let group = rustix::termios::tcgetpgrp(master).ok()?;
    Some(group.as_raw_nonzero().get())
}

/// Whether a terminal shows what is typed, and whether it takes it by lines.
pub fn input_modes(master: BorrowedFd) -> Option<(bool, bool)> {
    let modes = rustix::termios::tcgetattr(master).ok()?.local_modes;
    Some((
        modes.contains(LocalModes::ECHO),
        modes.contains(LocalModes::ICANON),
    ))
}

/// How a terminal makes lines of what is typed into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineModes {
    /// Whether it does: programs get whole lines then, and else every byte at once.
    pub canonical: bool,
    /// Whether it erases whole characters of UTF-8, and else bytes.
    pub utf8: bool,
    /// The character that ends the input, Ctrl-D unless the program chose another.
    pub end_of_file: u8,
    /// The character that takes the last one back.
    pub erase: u8,
    /// The characters after which a new line begins: they end the line or throw it away.
    enders: [Option<u8>; 9],
}

impl LineModes {
    /// A terminal as it is given to programs.
    pub const USUAL: LineModes = LineModes {
        canonical: true,
        utf8: true,
        end_of_file: 4,
        erase: 0x7f,
        enders: [
            Some(b'\n'),
            Some(b'\r'),
            Some(4),
            None,
            None,
            None,
            None,
            None,
            None,
        ],
    };

    /// The modes of a terminal at this moment.
    pub fn of(master: impl AsFd) -> Option<LineModes> {
        let termios = rustix::termios::tcgetattr(master).ok()?;
        let code = |index| termios.special_codes[index];
        // Zero stands for a character that is switched off.
        let given = |index| Some(code(index)).filter(|code| *code != 0);
        let returns = termios.input_modes.contains(InputModes::ICRNL)
            && !termios.input_modes.contains(InputModes::IGNCR);
        let flushes = termios.local_modes.contains(LocalModes::ISIG)
            && !termios.local_modes.contains(LocalModes::NOFLSH);
        let signal = |index| given(index).filter(|_| flushes);
        Some(LineModes {
            canonical: termios.local_modes.contains(LocalModes::ICANON),
            utf8: termios.input_modes.contains(InputModes::IUTF8),
            end_of_file: given(SpecialCodeIndex::VEOF).unwrap_or(LineModes::USUAL.end_of_file),
            erase: code(SpecialCodeIndex::VERASE),
            enders: [
                Some(b'\n'),
                returns.then_some(b'\r'),
                given(SpecialCodeIndex::VEOF),
                given(SpecialCodeIndex::VEOL),
                given(SpecialCodeIndex::VEOL2),
                given(SpecialCodeIndex::VKILL),
                signal(SpecialCodeIndex::VINTR),
                signal(SpecialCodeIndex::VQUIT),
                signal(SpecialCodeIndex::VSUSP),
            ],
        })
    }

    /// Whether a new line begins after this character.
    pub fn begins_anew_after(&self, byte: u8) -> bool {
        self.enders.contains(&Some(byte))
    }
}

/// The size of a terminal; `None` for what is none, or has none.
pub fn size_of(terminal: impl AsFd) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(TerminalSize {
        rows: size.ws_row,
        cols: size.ws_col,
    })
}

/// Whether this process's stdin is a terminal.
pub fn stdin_is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stdin())
}

/// The terminal at stdin in raw mode, for passing it through; put back when dropped.
#[derive(Debug)]
pub struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Puts the terminal at stdin into raw mode.
    ///
    /// # Errors
    /// When stdin is no terminal.
    pub fn enter() -> io::Result<RawTerminal> {
        let before = rustix::termios::tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &raw)?;
        Ok(RawTerminal { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(
            rustix::stdio::stdin(),
            OptionalActions::Drain,
            &self.before,
        );
    }
}
