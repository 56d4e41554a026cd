//! Commands that wait for somebody to type something.

use super::shape::{First, Shape, asks, asks_secretly};

const TEXT: &[First] = &[First::Ran("seq 500 > text")];
const REPOSITORY: &[First] = &[First::Ran(
    "git init -q . && git config user.name Ada && git config user.email ada@localhost \
     && print one > text && git add text && git commit -qm one \
     && print two >> text && git commit -qam two && print three >> text",
)];

/// The table.
pub const SHAPES: &[Shape] = &[
    // Shells
    asks("zsh read", "read 'name?Your name: '"),
    asks("zsh read of one key", "read -k 1 'key?Press any key'"),
    asks("zsh vared", "word=text; vared -p 'Edit: ' word"),
    asks("zsh select", "select word in red green; do break; done"),
    asks("zsh, interactive", "zsh -fi"),
    asks("bash read", "bash -c 'read -p \"Continue? [y/N] \" answer'"),
    asks_secretly("bash read of a secret", "bash -c 'read -s -p \"Token: \" word'"),
    asks("bash, interactive", "bash --norc -i"),
    asks("cat", "cat"),
    asks("cat on a pipe", "cat").on_open_pipe(),
    // Passwords and keys
    asks_secretly("passwd", "passwd"),
    asks("ssh-keygen", "ssh-keygen -q -t ed25519"),
    asks_secretly("ssh-keygen, passphrase", "ssh-keygen -q -t ed25519 -f key"),
    asks_secretly("openssl, pass phrase", "openssl genrsa -aes256 2048"),
    asks_secretly("getpass", "python3 -c 'import getpass; getpass.getpass()'"),
    asks("one-time code", "one_time_code"),
    asks(
        "gpg and pinentry",
        "mkdir -m 700 keys; export GPG_TTY=$(tty); gpg --homedir keys -c text",
    )
    .after(TEXT)
    .cleaned_by("gpgconf --homedir keys --kill all"),
    // Python
    asks("python input", "python3 -c 'input(\"Proceed? [Y/n] \")'"),
    asks("python prompt", "python3 -q"),
    asks("python reads a pipe", "python3 -c 'import sys; sys.stdin.read()'").on_open_pipe(),
    asks("ipython", "ipython"),
    asks(
        "questionary confirm",
        "python3 -c 'import questionary; questionary.confirm(\"Deploy?\").ask()'",
    ),
    asks(
        "questionary select",
        "python3 -c 'import questionary; questionary.select(\"Which?\", [\"a\", \"b\"]).ask()'",
    ),
    asks("prompt_toolkit", "python3 -c 'from prompt_toolkit import prompt; prompt(\"Name: \")'"),
    asks("litecli", "litecli base"),
    asks("asyncio on a terminal", "python3 $PROGRAMS/async_prompt.py"),
    asks("asyncio on a pipe", "python3 $PROGRAMS/async_prompt.py").on_open_pipe(),
    asks("curses", "python3 $PROGRAMS/menu.py"),
    // Node
    asks("node prompt", "node"),
    asks("node prompt on a pipe", "node -i").on_open_pipe(),
    asks("node question", "node $PROGRAMS/ask.js"),
    asks("node menu", "node $PROGRAMS/choose.js"),
    asks("npm init", "npm init"),
    // Other languages' prompts
    asks("perl reads a pipe", "perl -e '<STDIN>'").on_open_pipe(),
    asks("sqlite3", "sqlite3 base"),
    asks("bc", "bc -q"),
    asks("ed", "ed text").after(TEXT),
    asks("gdb", "gdb -q -nx"),
    asks("irb", "irb"),
    asks("lua", "lua5.4 -i"),
    asks("redis-cli", "redis-cli -s ./none"),
    asks("tnftp", "tnftp"),
    asks("telnet", "telnet"),
    // Editors, pagers, dialogues
    asks("vim", "vim -u NONE -N text").after(TEXT),
    asks("nano", "nano text").after(TEXT),
    asks("less", "less text").after(TEXT),
    asks("more", "more text").after(TEXT),
    asks("dialog", "dialog --yesno question 7 20"),
    asks("whiptail", "whiptail --yesno question 7 20"),
    asks("fzf", "fzf < text").after(TEXT),
    // git and files
    asks("git commit", "GIT_EDITOR='vim -u NONE' git commit -a").after(REPOSITORY),
    asks("git rebase -i", "git stash -q; GIT_SEQUENCE_EDITOR=nano git rebase -i HEAD~1")
        .after(REPOSITORY),
    asks("git add -p", "git add -p").after(REPOSITORY),
    asks("rm -i", "rm -i text").after(TEXT),
    asks("mv -i", "cp text other; mv -i text other").after(TEXT),
    // Behind a second terminal
    asks("rlwrap", "rlwrap sh -c 'printf \"> \"; cat'"),
    asks("expect", "expect -c 'spawn -noecho sh -c \"printf name:; read x\"; interact'"),
    asks("script", "script -qc \"sh -c 'printf name:; read x'\" /dev/null"),
    asks("tmux", "tmux -L shape-read -f /dev/null new \"sh -c 'printf name:; read x'\"")
        .cleaned_by("tmux -L shape-read kill-server"),
];
