//! The server's entry in the text of a settings file: adds, replaces and removes it, and changes
//! nothing else. Pure.
//!
//! Limits: a file that is not plain JSON, such as one with comments, is not changed. Of TOML, only the
//! lines of the entry's own table are read.

use serde_json::{Map, Value};

/// The name under which clients know the server.
const NAME: &str = "zsh-tool";
/// The headers of its table in TOML.
const HEADERS: [&str; 3] =
    ["[mcp_servers.zsh-tool]", "[mcp_servers.\"zsh-tool\"]", "[mcp_servers.'zsh-tool']"];

/// How a file is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// An object whose member `section` has the servers by name.
    Json { section: &'static str },
    /// A table `mcp_servers` with a table for each server.
    Toml,
}

/// What becomes of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    None,
    Text(String),
}

/// Why a text cannot be changed with certainty.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum NotCertain {
    #[error("it is not plain JSON ({0})")]
    NotJson(String),
    #[error("it is no JSON object")]
    NoObject,
    #[error("its {0} is no object")]
    NoSection(&'static str),
    #[error("it writes mcp_servers in a form that is not known here")]
    OddToml,
}

impl Form {
    /// The text with this entry.
    pub(super) fn with(self, text: &str, entry: &str) -> Result<Change, NotCertain> {
        match self {
            Form::Json { section } => {
                let entry = serde_json::from_str(entry).map_err(not_json)?;
                let mut all = object(text)?;
                let servers = all.entry(section).or_insert_with(|| Value::Object(Map::new()));
                let servers = servers.as_object_mut().ok_or(NotCertain::NoSection(section))?;
                let before = servers.get(NAME);
                if before == Some(&entry) {
                    return Ok(Change::None);
                }
                servers.insert(NAME.to_owned(), entry);
                written(all, text)
            }
            Form::Toml => {
                let (before, own, after) = tables(text)?;
                if own.as_deref().is_some_and(|own| same_lines(own, entry)) {
                    return Ok(Change::None);
                }
                let (header, _) = HEADERS.split_first().unwrap_or((&"", &[]));
                let gap = match before.as_str() {
                    "" => "",
                    text if text.ends_with("\n\n") => "",
                    text if text.ends_with('\n') => "\n",
                    _ => "\n\n",
                };
                let end = if after.is_empty() { "" } else { "\n" };
                Ok(Change::Text(format!("{before}{gap}{header}\n{entry}{end}{after}")))
            }
        }
    }

    /// The text of a file with nothing else.
    pub(super) fn alone(self, entry: &str) -> String {
        match self.with("", entry) {
            Ok(Change::Text(text)) => text,
            Ok(Change::None) | Err(_) => entry.to_owned(),
        }
    }

    /// The text without the entry.
    pub(super) fn without(self, text: &str) -> Result<Change, NotCertain> {
        match self {
            Form::Json { section } => {
                let mut all = object(text)?;
                let Some(servers) = all.get_mut(section) else {
                    return Ok(Change::None);
                };
                let servers = servers.as_object_mut().ok_or(NotCertain::NoSection(section))?;
                if servers.shift_remove(NAME).is_none() {
                    return Ok(Change::None);
                }
                written(all, text)
            }
            Form::Toml => {
                let (before, own, after) = tables(text)?;
                let Some(_) = own else {
                    return Ok(Change::None);
                };
                let before = if after.is_empty() { before.trim_end_matches('\n') } else { &before };
                let end = if after.is_empty() && !before.is_empty() { "\n" } else { "" };
                Ok(Change::Text(format!("{before}{end}{after}")))
            }
        }
    }
}

fn not_json(error: serde_json::Error) -> NotCertain {
    NotCertain::NotJson(error.to_string())
}

fn object(text: &str) -> Result<Map<String, Value>, NotCertain> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text).map_err(not_json)? {
        Value::Object(members) => Ok(members),
        _ => Err(NotCertain::NoObject),
    }
}

/// As the text was indented: by a tab, or by as many blanks as its first member.
fn written(all: Map<String, Value>, text: &str) -> Result<Change, NotCertain> {
    let first = text.lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or_default();
    let indent: String = first.chars().take_while(|c| matches!(c, ' ' | '\t')).take(8).collect();
    let indent = if indent.is_empty() { "  " } else { &indent };
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(&all, &mut serializer).map_err(not_json)?;
    let mut changed = String::from_utf8_lossy(&bytes).into_owned();
    if text.is_empty() || text.ends_with('\n') {
        changed.push('\n');
    }
    Ok(Change::Text(changed))
}

/// What comes before the entry's table, the lines of the table, and what comes after. Tables within
/// the table belong to it.
fn tables(text: &str) -> Result<(String, Option<String>, String), NotCertain> {
    let (mut before, mut own, mut after) = (String::new(), None::<String>, String::new());
    let mut is_own = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        let header = bare.split('#').next().unwrap_or_default().replace([' ', '\t'], "");
        if header.starts_with('[') && header.ends_with(']') {
            let inner = |own: &&str| header.starts_with(&format!("{}.", own.trim_end_matches(']')));
            is_own = HEADERS.contains(&header.as_str()) || HEADERS.iter().any(inner);
            if is_own && HEADERS.contains(&header.as_str()) {
                if own.is_some() {
                    return Err(NotCertain::OddToml);
                }
                own = Some(String::new());
                continue;
            }
            if is_own && own.is_none() {
                return Err(NotCertain::OddToml);
            }
        }
        let is_inline = bare.strip_prefix("mcp_servers").map(str::trim_start);
        if !is_own && is_inline.is_some_and(|rest| rest.starts_with(['=', '.'])) {
            return Err(NotCertain::OddToml);
        }
        match (&mut own, is_own) {
            (Some(own), true) => own.push_str(line),
            (Some(_), false) => after.push_str(line),
            (None, _) => before.push_str(line),
        }
    }
    Ok((before, own, after))
}

fn same_lines(one: &str, other: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.replace([' ', '\t'], "")).filter(|it| !it.is_empty()).collect()
    };
    lines(one) == lines(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Form = Form::Json { section: "mcpServers" };

    fn text(change: Result<Change, NotCertain>) -> String {
        match change.expect("it can be changed") {
            Change::Text(text) => text,
            Change::None => panic!("nothing was changed"),
        }
    }

    #[test]
    fn an_entry_of_json_is_added_replaced_and_removed_and_the_rest_stays() {
        let entry = r#"{"command":"/bin/zsh-tool","args":["serve"]}"#;
        let before = "{\n    \"z\": 1.50,\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\"}\n    },\n    \"a\": null\n}\n";
        let added = text(JSON.with(before, entry));
        let parsed: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(parsed["mcpServers"][NAME]["command"], "/bin/zsh-tool");
        assert_eq!(parsed["mcpServers"]["other"]["command"], "x");
        assert!(added.starts_with("{\n    \"z\"") && added.ends_with("}\n"), "{added}");
        assert_eq!(JSON.with(&added, entry), Ok(Change::None));
        let replaced = text(JSON.with(&added, r#"{"command":"/new"}"#));
        assert!(replaced.contains("/new") && !replaced.contains("/bin/zsh-tool"), "{replaced}");
        let removed: Value = serde_json::from_str(&text(JSON.without(&replaced))).unwrap();
        assert_eq!(removed, serde_json::from_str::<Value>(before).unwrap());
        assert_eq!(JSON.without(before), Ok(Change::None));
        assert_eq!(
            text(JSON.with("", "{}")),
            "{\n  \"mcpServers\": {\n    \"zsh-tool\": {}\n  }\n}\n"
        );
    }

    #[test]
    fn what_is_not_plain_json_is_left_alone() {
        for odd in ["{\n// a comment\n}", "{\"a\": 1,}", "{\"mcpServers\": [", "\u{feff}{}"] {
            assert!(matches!(JSON.with(odd, "{}"), Err(NotCertain::NotJson(_))), "{odd}");
        }
        assert_eq!(JSON.with("[]", "{}"), Err(NotCertain::NoObject));
        assert_eq!(JSON.without("{\"mcpServers\": 3}"), Err(NotCertain::NoSection("mcpServers")));
    }

    #[test]
    fn an_entry_of_toml_is_added_replaced_and_removed_and_the_rest_stays() {
        let entry = "command = \"/bin/zsh-tool\"\nargs = [\"serve\"]\n";
        let before = "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\" # z\n";
        let added = text(Form::Toml.with(before, entry));
        assert_eq!(added, format!("{before}\n[mcp_servers.zsh-tool]\n{entry}"));
        assert_eq!(Form::Toml.with(&added, entry), Ok(Change::None));
        let longer = format!("{added}\n[mcp_servers.zsh-tool.env]\nA = \"1\"\n\n[tui]\nx = 1\n");
        let replaced = text(Form::Toml.with(&longer, entry));
        assert_eq!(replaced, format!("{added}\n[tui]\nx = 1\n"));
        assert_eq!(text(Form::Toml.without(&added)), before);
        assert_eq!(text(Form::Toml.without(&replaced)), format!("{before}\n[tui]\nx = 1\n"));
        let quoted = added.replace("zsh-tool]", "\"zsh-tool\"] # here");
        assert_eq!(Form::Toml.with(&quoted, entry), Ok(Change::None));
        assert_eq!(Form::Toml.without(before), Ok(Change::None));
        assert_eq!(text(Form::Toml.with("", entry)), format!("[mcp_servers.zsh-tool]\n{entry}"));
        assert_eq!(
            text(Form::Toml.with("a = 1", entry)),
            format!("a = 1\n\n[mcp_servers.zsh-tool]\n{entry}")
        );
    }

    #[test]
    fn toml_of_another_form_is_left_alone() {
        for odd in [
            "mcp_servers = {}\n",
            "mcp_servers.zsh-tool.command = \"x\"\n",
            "[mcp_servers.zsh-tool.env]\nA = \"1\"\n",
            "[mcp_servers.zsh-tool]\n[mcp_servers.zsh-tool]\n",
        ] {
            assert_eq!(Form::Toml.with(odd, ""), Err(NotCertain::OddToml), "{odd}");
        }
    }
}
