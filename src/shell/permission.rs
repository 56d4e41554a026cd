//! Applies a client's permission rules for its own shell tool to a command line.
//!
//! A rule is `Bash` or `Bash(PATTERN)`, as in Claude Code's settings. In a pattern, `*` matches any
//! text; a final ` *` or `:*` also matches nothing, but only at the end of a word.
//! <https://code.claude.com/docs/en/permissions>
//!
//! Each part of the line is judged. The line is denied if a rule denies one part, and allowed if
//! rules allow every part; otherwise the user is asked, also where the text does not tell what
//! runs. A rule that allows everything beside one that denies `rm` lets no `rm` run that is only
//! mentioned either: a text in quotes, a here-document or a variable may become code.
//!
//! Limits: a command that other programs compose (`base64 -d`, a script in a file) is not seen. Pure.

use std::fmt;

use super::parts::{Part, Parts, is_harmless_variable, parts};
use super::prefix::is_prefix;
use crate::text::foreign;

/// Prefixes that change nothing of what their command does.
const WRAPPERS: &[&str] =
    &["builtin", "command", "nice", "noglob", "nohup", "stdbuf", "time", "timeout"];

/// Programs that run a command among their arguments, beside the prefixes.
const OTHER_RUNNERS: &[&str] = &[
    "busybox",
    "chroot",
    "chrt",
    "choom",
    "dbus-run-session",
    "docker",
    "entr",
    "find",
    "git",
    "kubectl",
    "ltrace",
    "nsenter",
    "parallel",
    "podman",
    "prlimit",
    "run-parts",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "ssh",
    "su",
    "systemd-run",
    "unshare",
    "watch",
];
/// How many arguments of such a program are looked at.
const MOST_ARGUMENTS: usize = 64;

/// Programs that only read, which Claude Code runs without asking.
const READERS: &[&str] = &[
    ":", "cat", "cd", "diff", "du", "echo", "false", "grep", "head", "ls", "pwd", "stat", "tail",
    "true", "wc", "which",
];

/// Builtins that change the directory.
const MOVES: &[&str] = &["cd", "chdir", "popd", "pushd"];

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The pattern; `None` means every command.
    pattern: Option<String>,
    /// Its text and its file, to be shown.
    name: String,
}

impl Rule {
    /// Reads a rule of this file. `None` if it is about another tool.
    pub(crate) fn parse(text: &str, file: &str) -> Option<Rule> {
        let rest = text.trim().strip_prefix("Bash")?;
        let pattern = match rest.strip_prefix('(') {
            Some(rest) => Some(rest.strip_suffix(')')?),
            None if rest.is_empty() => None,
            None => return None,
        };
        let pattern = pattern.map(str::trim).filter(|it| !matches!(*it, "" | "*" | ":*"));
        let name = format!("{} ({file})", foreign::shown(text.trim()));
        Some(Rule { pattern: pattern.map(str::to_owned), name })
    }

    fn is_of_all(&self) -> bool {
        self.pattern.is_none()
    }

    fn matches(&self, text: &str) -> bool {
        self.pattern.as_deref().is_none_or(|pattern| matches(pattern, text))
    }

    /// The words that each command begins with which it matches; of a pattern that begins with `*`, the
    /// first ones that it names.
    fn words(&self) -> Vec<&str> {
        let pattern = self.pattern.as_deref().unwrap_or_default().trim_end_matches(":*");
        let named = pattern.split('*').find(|piece| !piece.trim().is_empty());
        named.unwrap_or_default().split_whitespace().collect()
    }

    /// Whether it may match a command that begins with this text.
    fn may_match(&self, beginning: &str) -> bool {
        let head = self.pattern.as_deref().unwrap_or_default();
        let head = head.strip_suffix(":*").unwrap_or(head);
        let head = head.split('*').next().unwrap_or_default().trim_end();
        head.starts_with(beginning) || beginning.starts_with(head)
    }
}

/// Whether a command has the form of a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    if let Some(beginning) = pattern.strip_suffix(":*") {
        return at_border(beginning, text);
    }
    if let Some(beginning) = pattern.strip_suffix(" *")
        && !beginning.contains('*')
    {
        return at_border(beginning, text);
    }
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

fn at_border(beginning: &str, text: &str) -> bool {
    let rest = text.strip_prefix(beginning.trim_end());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// The rules in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) allow: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    /// Whether rules restrict which files may be read; then programs that only read need a rule too.
    pub(crate) hides_files: bool,
    /// Whether a command begins in the directory where the last one ended.
    pub(crate) keeps_directory: bool,
}

/// What a call would do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request<'a> {
    /// The text that zsh or a program gets.
    pub(crate) text: &'a str,
    /// Whether it is typed into a running program, which may do anything with it.
    pub(crate) is_typed: bool,
    /// What the command gets on its stdin.
    pub(crate) stdin: Option<&'a str>,
    /// The variables that it gets.
    pub(crate) variables: Vec<&'a str>,
    /// Where it runs, if not here.
    pub(crate) host: Option<&'a str>,
    /// Whether it may begin in another directory than the project's.
    pub(crate) is_elsewhere: bool,
}

/// What the rules say of a call, each with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allow(String),
    /// A rule asks.
    Ask(String),
    /// No rule allows it, or the text does not tell what runs.
    Unsure(String),
    Deny(String),
}

impl Rules {
    /// Judges a call.
    pub(crate) fn judge(&self, request: &Request<'_>) -> Decision {
        let found = parts(request.text);
        let stdin = request.stdin.map(parts).unwrap_or_default();
        let all = || found.commands.iter().chain(&stdin.commands);
        // A rule against Bash itself is about that tool.
        let deny = scoped(&self.deny);
        let ask: Vec<&Rule> = self.ask.iter().collect();
        if let Some((rule, part)) = all().find_map(|part| first_match(&deny, part)) {
            return Decision::Deny(format!("{rule} denies {part}"));
        }
        if let Some((rule, part)) = all().find_map(|part| first_match(&ask, part)) {
            return Decision::Ask(format!("{rule} asks about {part}"));
        }
        let is_edited = request.is_typed
            && request.text.contains(|it: char| it.is_control() && !matches!(it, '\n' | '\t'));
        let edited = || is_edited.then_some("keys that change what was typed");
        let is_unfinished = request.is_typed
            && !(request.text.trim_matches(char::is_control).is_empty()
                || request.text.ends_with('\n'));
        let unfinished = || is_unfinished.then_some("a line that another call may finish");
        let doubts = found.doubts.iter().chain(&stdin.doubts).map(String::as_str);
        let doubt = doubts
            .chain(edited())
            .chain(unfinished())
            .next()
            .map(|doubt| foreign::shown_within(doubt, 120));
        let everything = self.allow.iter().find(|rule| rule.is_of_all());
        if let Some(rule) = everything {
            let restricted: Vec<&Rule> = [deny, scoped(&self.ask)].concat();
            if restricted.is_empty() {
                return Decision::Allow(rule.name.clone());
            }
            if let Some(doubt) = doubt {
                return Decision::Unsure(format!("cannot tell what this runs: {doubt}"));
            }
            let unclear = |part: &&Part| {
                restricted.iter().any(|rule| may_become(part, rule))
                    || first_match_within(&restricted, part)
            };
            if let Some(part) = all().find(unclear) {
                let part = foreign::shown_within(&part.written, 120).into_owned();
                return Decision::Unsure(format!("cannot tell what this becomes: {part}"));
            }
            let only_reads = |part: &Part| part.program().is_some_and(|it| READERS.contains(&it));
            let is_harmless = found.effects.is_empty() && all().all(only_reads);
            let texts: Vec<String> = [Some(request.text), request.stdin]
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .chain(all().map(Part::text))
                .collect();
            let is_mentioned = |rule: &&&Rule| {
                let words = rule.words();
                texts.iter().any(|text| mentions(text, &words))
                    || all().any(|part| has_in_order(part, &words))
            };
            if let Some(rule) = restricted.iter().find(is_mentioned).filter(|_| !is_harmless) {
                let words = rule.words().join(" ");
                let words = foreign::shown_within(&words, 120).into_owned();
                return Decision::Unsure(format!("cannot tell whether this runs {words}"));
            }
            return Decision::Allow(rule.name.clone());
        }
        self.allowed_by_parts(request, &found, doubt.as_deref())
    }

    /// Judges a call where no rule allows everything.
    fn allowed_by_parts(
        &self,
        request: &Request<'_>,
        found: &Parts,
        doubt: Option<&str>,
    ) -> Decision {
        let ask = |what: fmt::Arguments<'_>| {
            Decision::Unsure(format!("{what}, which no rule for Bash covers"))
        };
        if request.is_typed {
            return ask(format_args!("a running program gets what is typed"));
        }
        if let Some(host) = request.host {
            return ask(format_args!("it runs on {}", foreign::shown(host)));
        }
        if request.stdin.is_some() {
            return ask(format_args!("it gets text on stdin"));
        }
        let changes = |name: &&&str| !is_harmless_variable(name);
        if let Some(name) = request.variables.iter().find(changes) {
            return ask(format_args!("it gets the variable {}", foreign::shown(name)));
        }
        if let Some(doubt) = doubt {
            return Decision::Unsure(format!("cannot tell what this runs: {doubt}"));
        }
        if let Some(effect) = found.effects.first() {
            return ask(format_args!("it {}", foreign::shown(effect)));
        }
        // A rule for `./build` means the project's.
        let moves = |part: &Part| part.program().is_some_and(|it| MOVES.contains(&it));
        if request.is_elsewhere || self.keeps_directory || found.commands.iter().any(moves) {
            let is_relative = |part: &&Part| {
                let name = part.words.first().map(|word| word.text.as_str()).unwrap_or_default();
                name.contains('/') && !name.starts_with('/')
            };
            if let Some(part) = found.commands.iter().find(is_relative) {
                let part = foreign::shown_within(&part.written, 120).into_owned();
                return ask(format_args!("it runs {part} of another directory"));
            }
        }
        let mut own = found.commands.iter().filter(|part| !part.is_given);
        if let Some(part) = own.find(|part| !self.allows(part)) {
            let part = foreign::shown_within(&part.written, 120).into_owned();
            return Decision::Unsure(format!("no rule for Bash allows {part}"));
        }
        // A variable that a rule denies or asks about is not known before it is expanded.
        let restricted: Vec<&Rule> = [scoped(&self.deny), scoped(&self.ask)].concat();
        let unclear = |part: &&Part| restricted.iter().any(|rule| may_become(part, rule));
        if let Some(part) = found.commands.iter().find(unclear) {
            let part = foreign::shown_within(&part.written, 120).into_owned();
            return Decision::Unsure(format!("cannot tell what this becomes: {part}"));
        }
        Decision::Allow("rules for Bash allow each part".to_owned())
    }

    fn allows(&self, part: &Part) -> bool {
        let mut part = part.clone();
        loop {
            // A path may lead to anything of that name.
            let name = part.words.first().filter(|_| part.plain > 0).map(|word| word.text.as_str());
            let is_reader = name.is_some_and(|name| !self.hides_files && READERS.contains(&name));
            let texts = [part.written.clone(), part.text()];
            if is_reader || self.allow.iter().any(|rule| texts.iter().any(|it| rule.matches(it))) {
                return true;
            }
            match part.behind_prefix(WRAPPERS) {
                Some((behind, true)) => part = behind,
                _ => return false,
            }
        }
    }
}

/// The rules that are not about the tool as a whole.
fn scoped(rules: &[Rule]) -> Vec<&Rule> {
    rules.iter().filter(|rule| !rule.is_of_all()).collect()
}

/// The first of these rules that matches a part, also behind prefixes and by the program's name
/// alone: the rule and the part, to be shown.
fn first_match(rules: &[&Rule], part: &Part) -> Option<(String, String)> {
    let mut candidates = vec![part.clone()];
    for _ in 0..MOST_ARGUMENTS {
        let part = candidates.pop()?;
        let mut texts = vec![part.written.clone(), part.text()];
        if let Some(name) = part.program() {
            let arguments = part.words.iter().skip(1).map(|word| word.text.as_str());
            let named: Vec<&str> = std::iter::once(name).chain(arguments).collect();
            texts.push(named.join(" "));
        }
        let matching = rules.iter().find(|rule| texts.iter().any(|text| rule.matches(text)));
        if let Some(rule) = matching {
            let part = foreign::shown_within(&part.written, 120).into_owned();
            return Some((rule.name.clone(), part));
        }
        candidates.extend(part.behind_prefix(&[]).map(|(behind, _)| behind));
        candidates.extend(part.run_by_find());
    }
    None
}

/// Whether a program that runs others gets, among its arguments, what one of these rules matches.
/// Which of its arguments are the command is not always known.
fn first_match_within(rules: &[&Rule], part: &Part) -> bool {
    if !part.program().is_some_and(|name| is_prefix(name) || OTHER_RUNNERS.contains(&name)) {
        return false;
    }
    (1..part.words.len().min(MOST_ARGUMENTS)).any(|at| {
        let words = part.words.get(at..).unwrap_or_default().to_vec();
        let plain = part.plain.saturating_sub(at);
        let command = Part { words, plain, ..part.clone() };
        let text = command.words.first().map(|word| word.text.as_str()).unwrap_or_default();
        // `git -c alias.NAME=!SCRIPT`.
        let script = text.split_once("=!").map(|(_, script)| script);
        let script = script.or_else(|| text.contains(char::is_whitespace).then_some(text));
        let script = script.map(|text| parts(text).commands).unwrap_or_default();
        std::iter::once(&command).chain(&script).any(|part| first_match(rules, part).is_some())
    })
}

/// Whether a text has these words one after another, whatever stands between them that is no word.
fn mentions(text: &str, words: &[&str]) -> bool {
    let Some((first, others)) = words.split_first() else { return false };
    let is_of_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '.');
    let behind = |at: usize, word: &str| {
        let rest = text.get(at..)?.strip_prefix(word)?;
        (!rest.starts_with(is_of_word)).then_some(at + word.len())
    };
    text.match_indices(first).any(|(at, _)| {
        let begins = !text.get(..at).is_some_and(|before| before.ends_with(is_of_word));
        let end = others.iter().try_fold(behind(at, first), |end, word| {
            let end = end?;
            let rest = text.get(end..)?;
            let gap = rest.find(|it: char| it == '-' || is_of_word(it)).filter(|gap| *gap > 0)?;
            Some(behind(end + gap, word))
        });
        begins && end.flatten().is_some()
    })
}

/// Whether a command begins with the first of several words and has the others among its arguments, as
/// behind options: `git -C . push`.
fn has_in_order(part: &Part, words: &[&str]) -> bool {
    let Some((first, others)) = words.split_first().filter(|(_, others)| !others.is_empty()) else {
        return false;
    };
    let mut arguments = part.words.iter().skip(1).map(|word| word.text.as_str());
    part.program() == Some(*first)
        && others.iter().all(|word| arguments.any(|argument| argument == *word))
}

/// Whether an expansion may turn a part into something that a rule matches.
fn may_become(part: &Part, rule: &Rule) -> bool {
    !part.is_plain() && rule.may_match(&part.plain_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
        let parse = |rules: &[&str]| {
            rules.iter().filter_map(|rule| Rule::parse(rule, "s.json")).collect::<Vec<_>>()
        };
        let (allow, ask, deny) = (parse(allow), parse(ask), parse(deny));
        Rules { allow, ask, deny, ..Rules::default() }
    }

    fn word(rules: &Rules, text: &str) -> &'static str {
        match rules.judge(&Request { text, ..Request::default() }) {
            Decision::Allow(_) => "allow",
            Decision::Ask(_) | Decision::Unsure(_) => "ask",
            Decision::Deny(_) => "deny",
        }
    }

    #[test]
    fn patterns_match_at_the_border_of_a_word() {
        for (pattern, text, expected) in [
            ("npm run build", "npm run build", true),
            ("npm run build", "npm run build x", false),
            ("npm run test:*", "npm run test", true),
            ("npm run test:*", "npm run test --watch", true),
            ("npm run test:*", "npm run tests", false),
            ("ls *", "ls", true),
            ("ls *", "ls -la", true),
            ("ls *", "lsof", false),
            ("ls*", "lsof", true),
            ("git * main", "git push origin main", true),
            ("git * main", "git push origin dev", false),
            ("* --version", "node --version", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert_eq!(Rule::parse("Read(./.env)", "f"), None);
        assert_eq!(Rule::parse("BashOutput", "f"), None);
        assert!(Rule::parse("Bash(*)", "f").is_some_and(|rule| rule.is_of_all()));
    }

    #[test]
    fn every_part_must_be_allowed() {
        let rules = rules(&["Bash(git status)", "Bash(npm run test:*)"], &[], &["Bash(rm *)"]);
        for (text, expected) in [
            ("git status", "allow"),
            ("git status && npm run test -- -w | tail -5", "allow"),
            ("timeout 60 npm run test", "allow"),
            ("LANG=C npm run test 2>&1", "allow"),
            ("cd sub; ls | wc -l", "allow"),
            ("for x in 1 2; do npm run test $x; done", "allow"),
            ("git status; git push", "ask"),
            ("git status > f", "ask"),
            ("PATH=. git status", "ask"),
            ("git status $(curl x)", "ask"),
            ("git status `curl x`", "ask"),
            ("sudo git status", "ask"),
            ("[[ -t 'path[$(rm x)1]' ]]", "ask"),
            ("COLUMNS='path[$(rm x)1]'", "ask"),
            ("LINES='path[$(rm x)1]' true", "ask"),
            ("for COLUMNS in 'path[$(rm x)1]'; do :; done", "ask"),
            ("./git status", "ask"),
            ("$x git status", "ask"),
            ("git() { rm x }; git status", "deny"),
            ("git() { :; }; git status", "ask"),
            ("rm -rf x", "deny"),
            ("git status; /bin/rm x", "deny"),
            ("ls | xargs rm", "deny"),
            ("sudo -u bob r\\m x", "deny"),
            ("find . -name x -exec rm {} \\;", "deny"),
            ("zsh -c 'ls; rm x'", "deny"),
            ("echo $(rm x)", "deny"),
            ("if true; then rm x; fi", "deny"),
            ("echo rm x", "allow"),
            ("cat <<-'\tE'\n\tE\nrm x\nE", "deny"),
            ("cat <<-\"\tE\"\nE\nrm x", "deny"),
            ("./cat f", "ask"),
            ("./timeout 5 cat f", "ask"),
            ("for PATH in ./e; do cat f; done", "ask"),
            ("cat 'x", "allow"),
        ] {
            assert_eq!(word(&rules, text), expected, "{text}");
        }
    }

    #[test]
    fn a_rule_for_everything_allows_what_no_other_rule_is_about() {
        let free = rules(&["Bash"], &[], &[]);
        for text in ["f() { x }", "$x", "a > b", "eval $x"] {
            assert_eq!(word(&free, text), "allow", "{text}");
        }
        let restricted = rules(&["Bash(*)"], &["Bash(git push *)"], &["Bash(rm *)", "Bash"]);
        for (text, expected) in [
            ("make > log", "allow"),
            ("git commit -m \"$x\"", "allow"),
            ("git push", "ask"),
            ("git $x", "ask"),
            ("{rm,-rf,/}", "ask"),
            ("rm x", "deny"),
            ("eval $x", "ask"),
            ("eval '' rm x", "deny"),
            ("xargs -i rm x", "ask"),
            ("timeout --sig KILL 5 rm x", "ask"),
            ("flock f -c 'rm x'", "ask"),
            ("git -c alias.x='!rm y' x", "ask"),
            ("git -c alias.x='!ls' x", "allow"),
            ("git status", "allow"),
            ("git -C sub push", "ask"),
            ("git commit -m 'no push yet'", "allow"),
            ("let 'x[$(rm x)]'", "ask"),
            ("PS4='$(rm x)'", "ask"),
            ("functions+=(g 'rm x'); g", "ask"),
            ("x='; rm y'; cat f", "allow"),
            ("x='; rm y'; make", "ask"),
            ("x=a; sh -c \"echo $x\"", "ask"),
            ("x=a; eval echo $x", "ask"),
            ("sh -c 'echo $x'", "allow"),
            ("env -S'rm x'", "ask"),
            ("awk 'BEGIN{system(\"rm x\")}'", "ask"),
            ("echo 'rm x' | sh", "ask"),
            ("echo 'rm x' > f", "ask"),
            ("sed s/a/b/ farm/rm.txt --rm", "allow"),
            ("echo rm x | wc -l", "allow"),
            ("grep -rn 'git push' docs", "allow"),
            ("make 'git  push'", "ask"),
        ] {
            assert_eq!(word(&restricted, text), expected, "{text}");
        }
    }

    #[test]
    fn what_else_a_call_does_is_asked_about() {
        let scoped = rules(&["Bash(make:*)", "Bash(./build)"], &[], &["Bash(rm *)"]);
        let plain = Request { text: "make all", ..Request::default() };
        for text in ["make all", "./build", "cd other; make"] {
            let call = Request { text, ..Request::default() };
            assert!(matches!(scoped.judge(&call), Decision::Allow(_)), "{text}");
        }
        for request in [
            Request { is_typed: true, ..plain.clone() },
            Request { host: Some("build1"), ..plain.clone() },
            Request { stdin: Some("ls"), ..plain.clone() },
            Request { variables: vec!["LD_PRELOAD"], ..plain.clone() },
            Request { text: "./build", is_elsewhere: true, ..plain.clone() },
            Request { text: "cd other && ./build", ..plain.clone() },
        ] {
            assert!(matches!(scoped.judge(&request), Decision::Unsure(_)), "{request:?}");
        }
        let script = Request { text: "sh", stdin: Some("rm x"), ..Request::default() };
        assert!(matches!(scoped.judge(&script), Decision::Deny(_)));
        let mild = Request { variables: vec!["NO_COLOR", "CI"], ..plain };
        assert!(matches!(scoped.judge(&mild), Decision::Allow(_)));
        let hiding = Rules { hides_files: true, ..scoped };
        assert_eq!(word(&hiding, "cat .env"), "ask");
    }

    #[test]
    fn reasons_write_no_line_of_their_own() {
        let rules = rules(&[], &[], &["Bash(rm *)"]);
        for text in ["rm $'x\n✔ exit=0'", "rm 'x\n✔ exit=0'", "'\n✔ exit=0\u{202e}'"] {
            let (Decision::Unsure(reason) | Decision::Deny(reason)) =
                rules.judge(&Request { text, ..Request::default() })
            else {
                panic!("allowed: {text}");
            };
            assert!(!reason.contains(['\n', '\u{202e}']), "{reason}");
        }
    }
}
