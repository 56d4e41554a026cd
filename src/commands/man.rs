//! `zsh-tool man`: this program's manual page, generated from the definition of its command
//! line. One page covers all commands; hidden ones are left out, as in `--help`.

use std::io;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, line_break, roman};

use super::{help, output};
use crate::cli::Arguments;

const NAME: &str = "zsh-tool";
/// The FILES section.
const FILES: &[(&str, &str)] = &[
    (
        "~/.config/zsh-tool/config.yaml",
        "The settings; `zsh-tool config` prints those in use and where each comes from.",
    ),
    (
        "~/.local/state/zsh-tool",
        "Output of tasks and the command history; $ZSH_TOOL_STATE_DIR overrides it.",
    ),
];
/// The SEE ALSO section.
const SEE_ALSO: &str = "zsh(1), man(1)";

/// Runs the command.
pub(crate) fn run() -> ExitCode {
    match page() {
        Ok(page) => output::conclude(output::print(&String::from_utf8_lossy(&page)), 0),
        Err(error) => {
            output::complain(format!("cannot write the manual page: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn page() -> io::Result<Vec<u8>> {
    let mut definition = Arguments::command();
    definition.build();
    let man = Man::new(definition.clone())
        .title(NAME)
        .section("1")
        .source(concat!("zsh-tool ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    let about = definition.get_about().map(ToString::to_string);
    let purpose = about.unwrap_or_default();
    let mut name = Roff::new();
    name.control("SH", ["NAME"]);
    name.text([roman(format!("{NAME} - {purpose}"))]);
    name.to_writer(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut commands = Roff::new();
    commands.control("SH", ["COMMANDS"]);
    for command in shown(&definition) {
        describe(command, NAME, &mut commands);
    }
    for topic in help::TOPICS {
        topic.add_to(&mut commands);
    }
    commands.control("SH", ["FILES"]);
    for (path, what) in FILES {
        commands.control("TP", []);
        commands.text([italic(*path)]);
        commands.text([roman(*what)]);
    }
    commands.control("SH", ["SEE ALSO"]);
    commands.text([roman(SEE_ALSO)]);
    commands.to_writer(&mut page)?;
    Ok(page)
}

/// Adds a command, or its subcommands, to the page.
fn describe(command: &Command, path: &str, page: &mut Roff) {
    let path = format!("{path} {}", command.get_name());
    if command.has_subcommands() {
        for below in shown(command) {
            describe(below, &path, page);
        }
        return;
    }
    page.control("SS", [path.as_str()]);
    let usage = command.clone().bin_name(&path).render_usage().to_string();
    page.text([bold(usage.strip_prefix("Usage: ").unwrap_or(&usage))]);
    if let Some(about) = command.get_about() {
        page.control("PP", []);
        page.text([roman(about.to_string())]);
    }
    let arguments = command.get_arguments();
    for argument in
        arguments.filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
    {
        page.control("TP", []);
        page.text(names(argument));
        let help = argument.get_help().map(ToString::to_string);
        page.text([roman(help.unwrap_or_default())]);
        let values: Vec<String> = argument
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        if argument.get_action().takes_values() && !values.is_empty() {
            page.text([line_break(), roman(format!("One of: {}.", values.join(", ")))]);
        }
    }
}

/// `-f, --follow`, `--timeout SECONDS`, `COMMAND…`
fn names(argument: &Arg) -> Vec<Inline> {
    let mut names: Vec<String> = Vec::new();
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    let mut line = vec![bold(names.join(", "))];
    if argument.get_action().takes_values() {
        let value = argument.get_value_names().and_then(<[_]>::first);
        let value = value.map_or(argument.get_id().as_str(), |value| value.as_str());
        let between = if names.is_empty() { "" } else { " " };
        line.push(italic(format!("{between}{}", value.to_uppercase())));
    }
    line
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}
