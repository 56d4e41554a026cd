//! `zsh-tool help TOPIC`: the reference. The texts are in `data/help`. The tools' arguments are
//! generated from their schemas, and the settings from their table; `tools.txt` adds details that
//! the schemas leave out to stay short.
//!
//! The texts have one markup: `# Heading`, paragraphs, a term indented by two spaces over its
//! description, and examples indented by four.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::roff::{Roff, bold, roman};
use serde_json::Value;

use super::output::{self, EXIT_USAGE};
use crate::cli::Arguments;
use crate::config;
use crate::mcp::tools::TOOLS;
use crate::text::foreign;

/// A part of the reference.
pub(super) struct Topic {
    name: &'static str,
    title: &'static str,
    text: fn() -> String,
}

/// A topic whose text is the file of its name.
macro_rules! written {
    ($name:literal, $title:literal) => {
        Topic {
            name: $name,
            title: $title,
            text: || include_str!(concat!("../../data/help/", $name, ".txt")).to_owned(),
        }
    };
}

/// All topics, in the order in which they are listed.
pub(super) const TOPICS: &[Topic] = &[
    Topic { name: "tools", title: "The MCP tools and their arguments", text: tools },
    written!("reading", "How to read an answer"),
    written!("clients", "Clients, and how to add this server to them"),
    Topic {
        name: "settings",
        title: "Every setting, its default and its environment variable",
        text: settings,
    },
    written!("history", "What A.L.A.N. stores and says, and what NEVERHANG refuses"),
    written!("http", "The page and its HTTP endpoints"),
    written!("runs", "Agent runs (zsh-tool oneshot)"),
    written!("secrets", "Secrets that zsh_send types by name"),
    written!("hosts", "Commands on other machines, in containers and in pods"),
    written!("permissions", "Who decides what may run"),
    written!("sandbox", "What commands may read, write and reach"),
    written!("files", "Where things are kept"),
    written!("platforms", "What each platform promises"),
    written!("shell", "How a command differs from zsh -c"),
];

/// Runs the command: prints a topic, the help of a command, or the list of both.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let text = match words {
        [] => overview(),
        words => match topic(words).or_else(|| of_command(words)) {
            Some(help) => help,
            None => {
                let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
                output::complain(format!(
                    "there is no help on {}: the topics are {}, and every command has help",
                    foreign::shown(&words.join(" ")),
                    names.join(", ")
                ));
                return ExitCode::from(EXIT_USAGE);
            }
        },
    };
    output::conclude(output::print(&text), 0)
}

fn topic(words: &[String]) -> Option<String> {
    let topic = TOPICS.iter().find(|topic| words == [topic.name])?;
    Some(format!("{}\n\n{}", topic.title, (topic.text)()))
}

fn overview() -> String {
    let mut text = Arguments::command().render_help().to_string();
    text.push_str("\nTopics (zsh-tool help TOPIC):\n");
    for Topic { name, title, .. } in TOPICS {
        text.push_str(&format!("  {name:<12} {title}\n"));
    }
    text
}

fn of_command(words: &[String]) -> Option<String> {
    let mut command = Arguments::command();
    command.build();
    let mut found = &mut command;
    for word in words {
        found = found.find_subcommand_mut(word)?;
    }
    Some(found.render_help().to_string())
}

impl Topic {
    /// Adds the topic to the manual page.
    pub(super) fn add_to(&self, page: &mut Roff) {
        let heading = self.title.to_uppercase();
        page.control("SH", [heading.as_str()]);
        let text = (self.text)();
        for block in text.trim_end().split("\n\n") {
            if let Some(heading) = block.strip_prefix("# ") {
                page.control("SS", [heading]);
            } else if block.starts_with("    ") {
                page.control("PP", []);
                page.control("nf", []);
                for line in block.lines() {
                    page.text([roman(line)]);
                }
                page.control("fi", []);
            } else if let Some((term, description)) = definition(block) {
                page.control("TP", []);
                page.text([bold(term)]);
                page.text([roman(description)]);
            } else {
                page.control("PP", []);
                page.text([roman(block.replace('\n', " "))]);
            }
        }
    }
}

/// The term of a definition, and its description as one line.
fn definition(block: &str) -> Option<(&str, String)> {
    let (term, description) = block.strip_prefix("  ")?.split_once('\n')?;
    let lines: Vec<&str> = description.lines().map(str::trim).collect();
    Some((term, lines.join(" ")))
}

/// The width of a line of generated text.
const WIDTH: usize = 88;

/// A definition in the markup of the texts.
fn define(text: &mut String, term: &str, description: &str) {
    const INDENT: &str = "      ";
    text.push_str(&format!("  {term}\n"));
    let mut line = INDENT.to_owned();
    for word in description.split_whitespace() {
        if line.len() > INDENT.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = INDENT.to_owned();
        }
        line.push_str(word);
        line.push(' ');
    }
    text.push_str(line.trim_end());
    text.push_str("\n\n");
}

fn tools() -> String {
    let mut text = String::new();
    for tool in TOOLS.iter() {
        text.push_str(&format!("# {}\n\n", tool.wire_name));
        define(&mut text, tool.title, tool.description);
        let required = tool.schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        let properties = tool.schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let description = property.get("description").and_then(Value::as_str);
            let required = if is_required(name) { " (required)" } else { "" };
            let term = format!("{name}{required}{}", choices(property));
            define(&mut text, &term, description.unwrap_or_default());
        }
    }
    text.push_str(include_str!("../../data/help/tools.txt"));
    text
}

/// `: deadline | progress`, for an argument with fixed choices.
fn choices(property: &Value) -> String {
    let words = property.get("enum").and_then(Value::as_array);
    let words: Vec<&str> = words.into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() {
        return String::new();
    }
    format!(": {}", words.join(" | "))
}

fn settings() -> String {
    let mut text = include_str!("../../data/help/settings.txt").to_owned();
    text.push_str("\n# Keys\n\n");
    for setting in config::documentation() {
        let other = setting.env.map(|name| format!(" or ${name}"));
        let named_after = config::variable_of(setting.key);
        let term = format!("{} (${named_after}{})", setting.key, other.unwrap_or_default());
        define(&mut text, &term, setting.description);
    }
    text
}
