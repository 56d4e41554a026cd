//! Programs that run a script, or code out of their arguments: which word is which.

use super::options::Values;

/// A program that runs a script, or code out of its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interpreter {
    names: &'static [&'static str],
    /// Letters of the options whose value is code.
    code: &'static str,
    /// Long options whose value is code.
    pub code_long: &'static [&'static str],
    /// Letters of the options whose value is a module to run.
    module: &'static str,
    /// Options that take another value.
    pub values: Values,
}

const fn interpreter(
    names: &'static [&'static str],
    code: &'static str,
    letters: &'static str,
) -> Interpreter {
    Interpreter {
        names,
        code,
        code_long: &[],
        module: "",
        values: Values { letters, long: &[] },
    }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        module: "m",
        ..interpreter(&["python", "pypy"], "c", "WXQ")
    },
    Interpreter {
        code_long: &["--eval", "--print"],
        values: Values {
            letters: "rC",
            long: &[
                "--require",
                "--import",
                "--loader",
                "--experimental-loader",
                "--env-file",
            ],
        },
        ..interpreter(&["node", "nodejs", "tsx", "ts-node"], "ep", "")
    },
    Interpreter {
        values: Values {
            letters: "oO",
            long: &["--rcfile", "--init-file"],
        },
        ..interpreter(&["bash", "sh", "zsh", "dash", "ksh", "fish"], "c", "")
    },
    interpreter(&["perl"], "eE", "IMmFiCDlx0"),
    interpreter(&["ruby"], "e", "rIEFKWCx"),
    interpreter(&["php"], "r", "dcz"),
    interpreter(&["lua", "luajit"], "e", "l"),
    interpreter(&["Rscript", "julia"], "e", ""),
    Interpreter {
        values: Values {
            letters: "",
            long: &["-cp", "-classpath", "--class-path", "--module-path", "-p"],
        },
        ..interpreter(&["java"], "", "")
    },
    interpreter(&["source", "."], "", ""),
];

/// What an option of an interpreter says of the words behind it.
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
    /// Nothing.
    Plain,
}

impl Interpreter {
    /// The interpreter of this name, with or without a version (`python3.12`).
    pub fn named(name: &str) -> Option<&'static Interpreter> {
        let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        INTERPRETERS
            .iter()
            .find(|known| known.names.contains(&name) || known.names.contains(&bare))
    }

    /// What this option says.
    pub fn option(&self, option: &str) -> ScriptOption {
        if self.code_long.contains(&option) {
            return ScriptOption::Code;
        }
        if option.starts_with("--") || self.values.long.contains(&option) {
            return match self.values.takes_next(option) {
                true => ScriptOption::Value,
                false => ScriptOption::Plain,
            };
        }
        let letters = option.strip_prefix('-').unwrap_or_default();
        for (at, letter) in letters.char_indices() {
            let is_last = at + letter.len_utf8() == letters.len();
            if self.code.contains(letter) {
                // A shell takes its code from the next word in any case: `-cx`.
                return match is_last || self.names.contains(&"sh") {
                    true => ScriptOption::Code,
                    false => ScriptOption::AttachedCode,
                };
            }
            if self.module.contains(letter) {
                return ScriptOption::Module;
            }
            if self.values.letters.contains(letter) {
                return match is_last && letter.is_ascii_alphabetic() && letter != 'i' {
                    true => ScriptOption::Value,
                    false => ScriptOption::Plain,
                };
            }
        }
        ScriptOption::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_interpreters_say_what_is_run() {
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
