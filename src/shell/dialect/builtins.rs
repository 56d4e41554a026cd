//! Builtin commands and options that bash has and zsh has not. Pure.

use super::Sign;
use crate::shell::unquote::Unquoted;

/// A use of what only bash has.
pub(super) struct BashUse {
    pub(super) written: String,
    /// Empty where zsh has nothing like it.
    pub(super) instead: String,
    pub(super) sign: Sign,
    /// Whether the text alone is reason enough for a note before a run.
    pub(super) is_certain: bool,
}

/// The use in a simple command with these words, of which `raw` are the texts and `input` is the
/// redirection of stdin.
pub(super) fn bash_use(
    name: &str,
    words: &[Unquoted],
    raw: &[&str],
    input: Option<(&str, &str)>,
) -> Option<BashUse> {
    let arguments = words.get(1..).unwrap_or_default();
    let option = |letters: &str| letter_option(arguments, letters);
    let not_found = || Sign::Report(vec![format!("command not found: {name}")]);
    let bad = |letter: char| {
        Sign::Report(vec![format!("bad option: -{letter}"), format!("bad option: -- '-{letter}'")])
    };
    let of = |written: String, instead: String, sign: Sign| {
        Some(BashUse { written, instead, sign, is_certain: true })
    };
    match name {
        "mapfile" | "readarray" => {
            let array = last_name(arguments).unwrap_or("MAPFILE");
            let lines = match input {
                Some(("<", from)) if from.starts_with("<(") => {
                    format!("${}", from.trim_start_matches('<'))
                }
                Some(("<", from)) => format!("$(<{from})"),
                Some(("<<<", text)) => format!("$(print -r -- {text})"),
                _ => "$(cat)".to_owned(),
            };
            if option("dnsu").is_some() {
                return of(name.to_owned(), String::new(), not_found());
            }
            of(name.to_owned(), format!("{array}=(\"${{(@f){lines}}}\")"), not_found())
        }
        "shopt" => of(raw.join(" "), shopt(arguments), not_found()),
        "compgen" => {
            let functions = arguments.iter().any(|word| word.text == "function");
            let instead = if functions { "print -l ${(k)functions}" } else { "" };
            of(name.to_owned(), instead.to_owned(), not_found())
        }
        "help" | "complete" | "compopt" | "bind" | "caller" => {
            of(name.to_owned(), String::new(), not_found())
        }
        "read" => read(arguments, raw, raw),
        "type" if option("tP").is_some() => {
            let (letter, at) = option("tP")?;
            let instead = match letter {
                'P' => format!("whence -p{}", rest_of(raw, at)),
                _ => String::new(),
            };
            of(raw.join(" "), instead, bad(letter))
        }
        "type" if option("p").is_some() => {
            let at = option("p").map_or(0, |(_, at)| at);
            of(raw.join(" "), format!("whence -p{}", rest_of(raw, at)), Sign::None)
        }
        "export" if option("n").is_some() => {
            let at = option("n").map_or(0, |(_, at)| at);
            of(raw.join(" "), format!("typeset +x{}", rest_of(raw, at)), bad('n'))
        }
        "declare"
            if raw.get(1) == Some(&"-F")
                && raw.len() == 3
                && raw.get(2).is_some_and(|it| {
                    !it.contains('=') && !it.starts_with(|it: char| it.is_ascii_digit())
                }) =>
        {
            let function = raw.get(2).copied().unwrap_or("NAME");
            of(raw.join(" "), format!("(( $+functions[{function}] ))"), Sign::None)
        }
        "export" if option("f").is_some() => of(
            "export -f".to_owned(),
            String::new(),
            Sign::Report(vec!["invalid option(s)".to_owned()]),
        ),
        "declare" | "local" | "typeset" if option("n").is_some() => {
            of(format!("{name} -n"), String::new(), bad('n'))
        }
        "wait" if option("n").is_some() => {
            of("wait -n".to_owned(), String::new(), job_not_found("-n"))
        }
        "wait" if option("f").is_some() => {
            of("wait -f".to_owned(), String::new(), job_not_found("-f"))
        }
        "disown" => {
            option("ahr")?;
            let flag = arguments.first().map(|word| word.text.clone()).unwrap_or_default();
            of(raw.join(" "), "disown".to_owned(), job_not_found(&flag))
        }
        "printf" => {
            let format = arguments.iter().find(|word| word.text.contains("%("))?;
            let time = format.text.split_once("%(")?.1.split_once(")T")?.0;
            let report = Sign::Report(vec!["%(: invalid directive".to_owned()]);
            of(format!("%({time})T"), String::new(), report)
        }
        "trap" => {
            let signal = arguments.last().filter(|word| word.text == "RETURN")?;
            let report = format!("undefined signal: {}", signal.text);
            of("trap RETURN".to_owned(), String::new(), Sign::Report(vec![report]))
        }
        "set" => {
            let place = arguments.iter().position(|word| ends_with_o(&word.text))?;
            let name = arguments.get(place + 1)?.fixed()?;
            let only_bash =
                ["errtrace", "functrace", "posix", "history", "histexpand", "keyword", "onecmd"];
            only_bash.contains(&name).then(|| BashUse {
                written: format!("set -o {name}"),
                instead: String::new(),
                sign: Sign::Report(vec![format!("no such option: {name}")]),
                is_certain: true,
            })
        }
        "hash" | "enable" | "alias" | "unset" | "history" | "dirs" | "jobs" => {
            let letters = match name {
                "hash" => "tdlp",
                "enable" => "np",
                "alias" => "p",
                "unset" => "n",
                "history" => "cwsa",
                "dirs" => "l",
                _ => "nx",
            };
            let (letter, _) = option(letters)?;
            Some(BashUse {
                written: format!("{name} -{letter}"),
                instead: String::new(),
                sign: bad(letter),
                is_certain: false,
            })
        }
        "[" | "test" => {
            let place =
                arguments.iter().position(|word| matches!(word.text.as_str(), "<" | ">"))?;
            let before = place.checked_sub(1).and_then(|at| arguments.get(at))?;
            let after = arguments.get(place + 1)?;
            if before.text.starts_with('-') || after.text == "]" {
                return None;
            }
            let operator = &arguments.get(place)?.text;
            let inside = raw.get(1..).unwrap_or_default().join(" ");
            let inside =
                inside.trim_end_matches(']').trim_end().replace(&format!("\\{operator}"), operator);
            of(
                raw.join(" "),
                format!("[[ {inside} ]]"),
                Sign::Report(vec![format!("condition expected: {operator}")]),
            )
        }
        "time" | "-p" if raw.first() == Some(&"-p") => of(
            "time -p".to_owned(),
            format!("command time{}", rest_of(raw, 0)),
            Sign::Report(vec!["command not found: -p".to_owned()]),
        ),
        _ => None,
    }
}

fn job_not_found(flag: &str) -> Sign {
    Sign::Report(vec![format!("job not found: {flag}")])
}

/// The first of these option letters, and the place of its word among the arguments.
fn letter_option(arguments: &[Unquoted], letters: &str) -> Option<(char, usize)> {
    let options =
        arguments.iter().take_while(|word| word.text.starts_with('-') && word.text != "--");
    options.enumerate().find_map(|(at, word)| {
        let found = word.text.chars().skip(1).find(|letter| letters.contains(*letter))?;
        Some((found, at))
    })
}

/// The words after an option, each with a blank before it.
fn rest_of(raw: &[&str], option: usize) -> String {
    raw.get(option + 2..).unwrap_or_default().iter().map(|word| format!(" {word}")).collect()
}

fn ends_with_o(option: &str) -> bool {
    option.len() > 1 && option.starts_with(['-', '+']) && option.ends_with('o')
}

fn last_name(arguments: &[Unquoted]) -> Option<&str> {
    arguments.last()?.fixed().filter(|word| !word.starts_with('-'))
}

/// `read -p`, `-a`, `-n`, `-N`, `-i`, `-e`. zsh has letters of its own for most of them.
fn read(arguments: &[Unquoted], raw: &[&str], whole: &[&str]) -> Option<BashUse> {
    let kept = whole.len() - raw.len();
    let kept: String =
        whole.get(1..=kept).unwrap_or_default().iter().map(|word| format!("{word} ")).collect();
    for (at, word) in arguments.iter().enumerate() {
        let Some(letters) = word.text.strip_prefix('-').filter(|it| !it.is_empty()) else { break };
        // An option that takes the next word, or the rest of its own.
        for (index, letter) in letters.char_indices() {
            let before = letters.get(..index).unwrap_or_default();
            let earlier: String =
                raw.get(1..=at).unwrap_or_default().iter().map(|word| format!("{word} ")).collect();
            let others = if before.is_empty() { String::new() } else { format!("-{before} ") };
            let others = format!("{kept}{earlier}{others}");
            let use_of = |instead: String, reports: Vec<String>, is_certain: bool| {
                let sign = if reports.is_empty() { Sign::None } else { Sign::Report(reports) };
                Some(BashUse { written: whole.join(" "), instead, sign, is_certain })
            };
            match letter {
                'a' => {
                    let rest = rest_of(raw, at);
                    return use_of(
                        format!("read {others}-A{rest}"),
                        vec!["bad option: -a".to_owned()],
                        true,
                    );
                }
                'p' => {
                    let is_attached = index + 1 < letters.len();
                    let prompt =
                        if is_attached { "" } else { raw.get(at + 2).copied().unwrap_or_default() };
                    let prompt = prompt.trim_matches(['"', '\'']);
                    let name =
                        raw.last().copied().filter(|_| raw.len() > at + 3).unwrap_or("REPLY");
                    return use_of(
                        format!("read {others}\"{name}?{prompt}\""),
                        vec!["-p: no coprocess".to_owned()],
                        true,
                    );
                }
                'n' | 'N' => {
                    let digits = letters.get(index + 1..).unwrap_or_default();
                    let (count, skipped) = if digits.is_empty() {
                        (raw.get(at + 2).copied().unwrap_or("1"), at + 1)
                    } else {
                        (digits, at)
                    };
                    let reports = digits
                        .chars()
                        .next()
                        .map_or_else(Vec::new, |digit| vec![format!("bad option: -{digit}")]);
                    let reports =
                        if letter == 'N' { vec!["bad option: -N".to_owned()] } else { reports };
                    return use_of(
                        format!("read {others}-u 0 -k {count}{}", rest_of(raw, skipped)),
                        reports,
                        true,
                    );
                }
                'i' => return use_of(String::new(), vec!["bad option: -i".to_owned()], true),
                'd' | 't' | 'u' => break,
                _ => {}
            }
        }
        if word.text.ends_with(['d', 'u', 't']) {
            // The next word is its value; what follows that is not read.
            return read_after(arguments, raw, whole, at + 2);
        }
    }
    None
}

fn read_after(
    arguments: &[Unquoted],
    raw: &[&str],
    whole: &[&str],
    from: usize,
) -> Option<BashUse> {
    let rest = arguments.get(from..)?;
    let mut words = vec!["read"];
    words.extend(raw.get(from + 1..)?);
    read(rest, &words, whole)
}

/// What does as an option of shopt in zsh; empty if nothing does.
fn shopt(arguments: &[Unquoted]) -> String {
    if letter_option(arguments, "qpo").is_some() {
        return String::new();
    }
    let (verb, other) = if letter_option(arguments, "u").is_some() {
        ("unsetopt", "setopt")
    } else {
        ("setopt", "unsetopt")
    };
    let names = arguments.iter().filter_map(Unquoted::fixed).filter(|word| !word.starts_with('-'));
    let written: Option<Vec<String>> = names
        .map(|name| {
            Some(match name {
                "nullglob" => format!("{verb} null_glob"),
                "dotglob" => format!("{verb} glob_dots"),
                "failglob" => format!("{verb} nomatch"),
                "nocaseglob" => format!("{other} case_glob"),
                _ => return None,
            })
        })
        .collect();
    written.filter(|all| !all.is_empty()).map_or(String::new(), |all| all.join("; "))
}
