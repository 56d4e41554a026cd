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
        "read" => read(arguments, raw),
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
        "set" if changes_fixed_option(arguments).is_some() => {
            let (written, instead, report) = changes_fixed_option(arguments)?;
            of(format!("set {written}"), instead, Sign::Report(vec![report]))
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
        "-p" if raw.first() == Some(&"-p") => of(
            "time -p".to_owned(),
            "command time -p".to_owned(),
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

/// `read -p`, `-a`, `-n`, `-N`, `-i`. zsh has letters of its own for most of them.
fn read(arguments: &[Unquoted], raw: &[&str]) -> Option<BashUse> {
    let (mut flags, mut values) = (String::new(), String::new());
    let (mut prompt, mut count, mut array, mut is_lost) = (None, None, None, false);
    // What zsh makes of it: a word that is no value of an option there ends its options.
    let (mut is_over, mut asks_coprocess, mut bad_option) = (false, false, None);
    let mut at = 0;
    while let Some(letters) =
        arguments.get(at).and_then(|word| word.text.strip_prefix('-')).filter(|it| !it.is_empty())
    {
        let written = raw.get(at + 1).copied().unwrap_or_default();
        at += 1;
        if letters == "-" {
            break;
        }
        for (index, letter) in letters.char_indices() {
            if matches!(letter, 'r' | 's' | 'e') {
                flags.extend((letter != 'e').then_some(letter));
                continue;
            }
            if !"adinNptu".contains(letter) {
                return None;
            }
            let attached = letters.get(index + 1..).unwrap_or_default();
            let is_bad = "aNi".contains(letter) || letter == 'n' && !attached.is_empty();
            if !is_over {
                asks_coprocess |= letter == 'p';
                let refused = if letter == 'n' { attached.chars().next() } else { Some(letter) };
                bad_option = bad_option.or(refused.filter(|_| is_bad));
            }
            let value = if attached.is_empty() {
                at += 1;
                is_over |= !"dtu".contains(letter);
                raw.get(at).copied()?
            } else {
                written.get(index + 2..)?
            };
            match letter {
                'p' => prompt = Some(value),
                'n' | 'N' => count = Some(value),
                'a' => array = Some(value),
                'i' => is_lost = true,
                _ => values.push_str(&format!(" -{letter} {value}")),
            }
            break;
        }
    }
    let sign = match bad_option {
        Some(letter) => Sign::Report(vec![format!("bad option: -{letter}")]),
        None if asks_coprocess => Sign::Report(vec!["-p: no coprocess".to_owned()]),
        None if prompt.or(count).is_some() => Sign::None,
        None => return None,
    };
    let mut instead = "read".to_owned();
    if !flags.is_empty() {
        instead.push_str(&format!(" -{flags}"));
    }
    instead.push_str(&values);
    if let Some(count) = count {
        let input = if values.contains(" -u ") { "" } else { " -u 0" };
        instead.push_str(&format!("{input} -k {count}"));
    }
    if array.is_some() {
        instead.push_str(" -A");
    }
    let names = raw.get(at + 1..).unwrap_or_default();
    let (first, others) = match (array, names.split_first()) {
        (Some(array), _) => (Some(array), &[][..]),
        (None, Some((first, others))) => (Some(*first), others),
        (None, None) => (None, &[][..]),
    };
    match (prompt, first) {
        (Some(prompt), first) => {
            instead.push_str(&format!(" {}", with_prompt(first.unwrap_or("REPLY"), prompt)));
        }
        (None, Some(first)) => instead.push_str(&format!(" {first}")),
        (None, None) => {}
    }
    others.iter().for_each(|name| instead.push_str(&format!(" {name}")));
    if is_lost {
        instead.clear();
    }
    Some(BashUse { written: raw.join(" "), instead, sign, is_certain: true })
}

/// `name?prompt` as one word, with the quotes of the prompt.
fn with_prompt(name: &str, prompt: &str) -> String {
    for quote in ["$'", "'", "\""] {
        if let Some(rest) = prompt.strip_prefix(quote) {
            return format!("{quote}{name}?{rest}");
        }
    }
    format!("\"{name}?\"{prompt}")
}

/// An option of `set` that zsh does not change, with what to write and its report.
fn changes_fixed_option(arguments: &[Unquoted]) -> Option<(String, String, String)> {
    let mut takes_name = false;
    for word in arguments {
        let written = word.fixed()?;
        if takes_name && written == "monitor" {
            let report = format!("can't change option: {written}");
            return Some((format!("-o {written}"), String::new(), report));
        }
        let is_name = std::mem::replace(&mut takes_name, ends_with_o(written));
        if is_name {
            continue;
        }
        if written == "--" || !written.starts_with(['-', '+']) {
            return None;
        }
        let letters = written.strip_prefix('-').unwrap_or_default();
        let (instead, report) = match letters.chars().find(|letter| "bmt".contains(*letter)) {
            Some('b') if letters.len() == 1 => ("setopt notify", "bad option: -b".to_owned()),
            Some('b') => ("", "bad option: -b".to_owned()),
            Some(letter) => ("", format!("can't change option: -{letter}")),
            None => continue,
        };
        return Some((written.to_owned(), instead.to_owned(), report));
    }
    None
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
