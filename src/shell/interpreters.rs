//! Programs that run a script, or code from their arguments. Pure.

use super::options::{Values, is_listed, is_option, values};
use super::prefix::base_name;
use super::unquote::Unquoted;

/// A program that runs a script, or code from its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interpreter {
    /// Its names, separated by blanks.
    names: &'static str,
    /// Options whose value is code.
    code: Values,
    /// Letters of the options whose value is a module to run.
    module: &'static str,
    /// Options that take another value.
    other: Values,
}

const fn interpreter(names: &'static str, code: Values, other: Values) -> Interpreter {
    Interpreter { names, code, module: "", other }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter { module: "m", ..interpreter("python pypy", values("c", ""), values("WXQ", "")) },
    interpreter(
        "node nodejs tsx ts-node",
        values("ep", "--eval --print"),
        values("rC", "--require --import --loader --experimental-loader --env-file"),
    ),
    interpreter("bash sh zsh dash ksh fish", values("c", ""), values("oO", "--rcfile --init-file")),
    interpreter("perl", values("eE", ""), values("IMmFiCDlx0", "")),
    interpreter("ruby", values("e", ""), values("rIEFKWCx", "")),
    interpreter("php", values("r", ""), values("dcz", "")),
    interpreter("lua luajit", values("e", ""), values("l", "")),
    interpreter("Rscript julia", values("e", ""), values("", "")),
    interpreter("java", values("", ""), values("", "-cp -classpath --class-path --module-path -p")),
    interpreter("source .", values("", ""), values("", "")),
];

const SHELLS: &str = "sh bash zsh dash ksh";

/// How an interpreter's option affects the words after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptOption {
    /// The next word is code.
    Code,
    /// The code is in the option itself.
    AttachedCode,
    /// The next word is a module to run.
    Module,
    /// The next word is another value of the option.
    Value,
    Plain,
}

impl Interpreter {
    /// The interpreter with this name, with or without a version (`python3.12`).
    pub(super) fn named(name: &str) -> Option<&'static Interpreter> {
        let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        INTERPRETERS
            .iter()
            .find(|known| is_listed(name, known.names) || is_listed(bare, known.names))
    }

    pub(super) fn option(&self, option: &str) -> ScriptOption {
        if is_listed(option, self.code.long) {
            return ScriptOption::Code;
        }
        if option.starts_with("--") || is_listed(option, self.other.long) {
            return value_if(is_listed(option, self.other.long));
        }
        let letters = option.strip_prefix('-').unwrap_or_default();
        for (at, letter) in letters.char_indices() {
            let is_last = at + letter.len_utf8() == letters.len();
            if self.code.letters.contains(letter) {
                // A shell takes its code from the next word even for `-cx`.
                return if is_last || is_listed("sh", self.names) {
                    ScriptOption::Code
                } else {
                    ScriptOption::AttachedCode
                };
            }
            if self.module.contains(letter) {
                return ScriptOption::Module;
            }
            if self.other.letters.contains(letter) {
                return value_if(is_last && letter.is_ascii_alphabetic() && letter != 'i');
            }
        }
        ScriptOption::Plain
    }
}

/// The text that a command gives to a shell as code: `bash -lc '…'`, `eval '…'`. `words` are those
/// of the command itself, without its prefixes.
pub(super) fn script_of(words: &[Unquoted]) -> Option<&Unquoted> {
    let (name, arguments) = words.split_first()?;
    let name = base_name(name.fixed()?);
    if name == "eval" {
        return arguments.first();
    }
    let shell = Interpreter::named(name).filter(|_| is_listed(name, SHELLS))?;
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next().filter(|word| is_option(word)) {
        match shell.option(option.fixed()?) {
            ScriptOption::Code => return arguments.next(),
            ScriptOption::Value => {
                arguments.next();
            }
            _ => {}
        }
    }
    None
}

fn value_if(takes_next: bool) -> ScriptOption {
    if takes_next { ScriptOption::Value } else { ScriptOption::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_interpreters_determine_what_runs() {
        for (name, option, says) in [
            ("python3.12", "-c", ScriptOption::Code),
            ("python3", "-um", ScriptOption::Module),
            ("python", "-Wignore", ScriptOption::Plain),
            ("python", "-W", ScriptOption::Value),
            ("bash", "-lc", ScriptOption::Code),
            ("bash", "-x", ScriptOption::Plain),
            ("perl", "-pi.e", ScriptOption::Plain),
            ("perl", "-ne", ScriptOption::Code),
            ("perl", "-MDate", ScriptOption::Plain),
            ("node", "--eval", ScriptOption::Code),
            ("node", "--require", ScriptOption::Value),
            ("perl", "-eprint", ScriptOption::AttachedCode),
        ] {
            let found = Interpreter::named(name).map(|known| known.option(option));
            assert_eq!(found, Some(says), "{name} {option}");
        }
        assert!(Interpreter::named("make").is_none());
    }
}
