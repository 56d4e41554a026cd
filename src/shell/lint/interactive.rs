//! Recognises programs that need a terminal: editors, pagers and full-screen programs.
//!
//! A known program does not count if an option lets it run without a terminal. Of the programs that
//! start an editor, only git, crontab and a few others are known. Pure.

use super::Lint;
use crate::shell::options::{Values, count_options, is_listed, is_option, values};
use crate::shell::syntax::Simple;
use crate::shell::unquote::Unquoted;

const EDITORS: &str = "\
    vi vim nvim view vimdiff gvim nano pico micro joe jed ne mcedit kak hx helix emacs mg vipw \
    vigr sudoedit";
const PAGERS: &str = "less more most";
const SCREENS: &str = "\
    top htop btop iotop nvtop glances watch mc ranger nnn lazygit lazydocker k9s tig cmatrix \
    dialog whiptail cfdisk alsamixer nmtui";

/// Options with which a program needs no terminal.
const WITHOUT: &str = "\
    --version --help --headless --batch -batch --script -script --daemon -es -Es -es! -v -V -h -b";

/// Why this simple command needs a terminal, if it does. `editor_is_set` is set if the command line
/// chooses the editor that programs start.
pub(super) fn terminal_need(simple: &Simple, editor_is_set: bool) -> Option<Lint> {
    let name = simple.program()?;
    let (_, words) = simple.core().split_first()?;
    let has = |option: &str| words.iter().any(|word| word.fixed() == Some(option));
    if is_listed(name, EDITORS) && !does_without(words) {
        return Some(Lint::EditorWithoutTerminal { program: name.to_owned() });
    }
    let is_last = !simple.ended_by.is_some_and(|separator| separator.is_pipe());
    if is_listed(name, PAGERS) && is_last && !does_without(words) {
        return Some(Lint::PagerWithoutTerminal { program: name.to_owned() });
    }
    let in_batch = words.iter().any(|word| is_batch(name, word));
    if is_listed(name, SCREENS) && !does_without(words) && !in_batch {
        return Some(Lint::ScreenWithoutTerminal { program: name.to_owned() });
    }
    let starts_editor = match name {
        "git" => return git(words).filter(|_| !editor_is_set),
        "crontab" => has("-e"),
        "sudo" => has("-e") || has("--edit"),
        "visudo" => {
            return (!has("-c")).then(|| Lint::EditorWithoutTerminal { program: name.to_owned() });
        }
        "kubectl" | "systemctl" => has("edit"),
        _ => false,
    };
    let words = match name {
        "kubectl" | "systemctl" => format!("{name} edit"),
        _ => format!("{name} -e"),
    };
    (starts_editor && !editor_is_set).then_some(Lint::EditorWithoutTerminal { program: words })
}

fn does_without(words: &[Unquoted]) -> bool {
    let mut follows_command = false;
    words.iter().any(|word| {
        let text = word.text.as_str();
        let is_quit = |command: &str| {
            let command = command.trim_start_matches(':');
            ["q", "wq", "x", "cq"].iter().any(|quit| command.starts_with(quit))
        };
        let quits = match text.strip_prefix('+') {
            Some(command) => is_quit(command),
            None => follows_command && is_quit(text),
        };
        follows_command = text == "-c";
        quits || is_listed(text, WITHOUT)
    })
}

/// `top -bn1`, `iotop -bo`.
fn is_batch(name: &str, word: &Unquoted) -> bool {
    matches!(name, "top" | "iotop")
        && is_option(word)
        && !word.text.starts_with("--")
        && word.text.contains('b')
}

/// The options of git(1) and of `git commit` that take a value.
const GIT: Values = values("Cc", "--git-dir --work-tree --namespace");
const COMMIT: Values = values("mFCctSu", "");

/// Options that give a commit or a tag its message.
const MESSAGES: &str = "--message --file --reuse-message --no-edit --fixup --dry-run --help";

/// The editor that git starts.
fn git(words: &[Unquoted]) -> Option<Lint> {
    let mut at = count_options(words, GIT);
    let command = words.get(at)?.fixed()?;
    at += 1;
    let options = words.get(at..)?.iter().filter(|word| is_option(word));
    let letters: String =
        options.clone().map(|word| COMMIT.letters_of(word.fixed_part())).collect();
    let has_long = |names: &str| {
        options
            .clone()
            .filter_map(|word| word.fixed_part().split('=').next())
            .any(|name| is_listed(name, names))
    };
    let has_message = letters.contains(['m', 'F', 'C']) || has_long(MESSAGES);
    let starts = match command {
        "commit" => !has_message,
        "tag" => (letters.contains(['a', 's']) || has_long("--annotate --sign")) && !has_message,
        "rebase" => letters.contains('i') || has_long("--interactive"),
        "config" => letters.contains('e') || has_long("--edit"),
        _ => false,
    };
    let flag = if command == "rebase" { " -i" } else { "" };
    starts.then(|| Lint::EditorWithoutTerminal { program: format!("git {command}{flag}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::command_line::CommandLine;
    use crate::shell::syntax::simple_commands;

    fn needs(command: &str) -> Option<Lint> {
        simple_commands(&CommandLine::parse(command))
            .iter()
            .find_map(|simple| terminal_need(simple, false))
    }

    #[test]
    fn programs_that_need_a_terminal_are_known() {
        let editor = |name: &str| Lint::EditorWithoutTerminal { program: name.to_owned() };
        let screen = |name: &str| Lint::ScreenWithoutTerminal { program: name.to_owned() };
        let pager = |name: &str| Lint::PagerWithoutTerminal { program: name.to_owned() };
        for (command, need) in [
            ("vim file", editor("vim")),
            ("sudo /usr/bin/nano /etc/hosts", editor("nano")),
            ("emacs -nw x", editor("emacs")),
            ("git commit", editor("git commit")),
            ("git commit -a --amend", editor("git commit")),
            ("git -C d -c a=b commit -v", editor("git commit")),
            ("git rebase -i HEAD~3", editor("git rebase -i")),
            ("git tag -a v1", editor("git tag")),
            ("git config --global --edit", editor("git config")),
            ("crontab -e", editor("crontab -e")),
            ("sudo -e /etc/hosts", editor("sudo -e")),
            ("sudo visudo", editor("visudo")),
            ("kubectl edit deploy/x", editor("kubectl edit")),
            ("less file", pager("less")),
            ("git log | less -R", pager("less")),
            ("top", screen("top")),
            ("htop", screen("htop")),
            ("watch -n1 date", screen("watch")),
        ] {
            assert_eq!(needs(command), Some(need), "{command}");
        }
    }

    #[test]
    fn programs_that_run_without_a_terminal_are_no_finding() {
        for command in [
            "vim -es -c 'normal x' -c wq file",
            "vim +qa file",
            "vim -c ':wq' file",
            "nvim --headless +PlugInstall",
            "emacs --batch -l x.el",
            "vim --version",
            "git commit -m x",
            "git commit -am 'x y'",
            "git commit -m\"$(cat <<'E'\nx\nE\n)\"",
            "git commit --amend --no-edit",
            "git commit --message=x",
            "git commit -qF msg.txt",
            "git commit --fixup HEAD",
            "git rebase main",
            "git rebase --continue",
            "git tag v1",
            "git tag -a v1 -m x",
            "git tag -l",
            "git log",
            "git config user.name x",
            "crontab -l",
            "visudo -c",
            "man ls",
            "less file | grep x",
            "top -bn1 | head",
            "top -b -n 1",
            "htop --version",
            "echo vim",
            "which vim",
        ] {
            assert_eq!(needs(command), None, "{command}");
        }
    }
}
