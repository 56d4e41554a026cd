//! The server's entry in the text of a settings file: adds, changes and removes it, and keeps
//! everything else, also what the user has added to the entry. Pure.
//!
//! Limits: a file that is not plain JSON, such as one with comments, is not changed; of one that is, the
//! spacing may change. Of TOML, the tables are found by their lines; where that is not certain, the file
//! is not changed.

use serde_json::{Map, Value};

/// The name under which clients know the server.
const NAME: &str = "zsh-tool";
/// The table of all servers in TOML, and the entry's own.
const SERVERS: &str = "mcp_servers";
const OWN_TABLE: &str = "mcp_servers.zsh-tool";
/// A member of an entry that is no program of this machine.
const REMOTE: [&str; 2] = ["url", "httpUrl"];

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
    #[error("it has a server of this name that is no program")]
    Remote,
    #[error("it writes mcp_servers in a form that is not known here")]
    OddToml,
}

impl Form {
    /// The text with this entry: an object of JSON, or lines of TOML. Other members of an earlier entry
    /// stay.
    pub(super) fn with(self, text: &str, entry: &str) -> Result<Change, NotCertain> {
        match self {
            Form::Json { section } => {
                let entry = object(entry)?;
                let mut all = object(text)?;
                let servers = all.entry(section).or_insert_with(|| Value::Object(Map::new()));
                let servers = servers.as_object_mut().ok_or(NotCertain::NoSection(section))?;
                let own = servers.entry(NAME).or_insert_with(|| Value::Object(Map::new()));
                let own = own.as_object_mut().ok_or(NotCertain::NoSection(section))?;
                if REMOTE.iter().any(|member| own.contains_key(*member)) {
                    return Err(NotCertain::Remote);
                }
                let before = own.clone();
                own.extend(entry);
                if *own == before {
                    return Ok(Change::None);
                }
                written(&all, text)
            }
            Form::Toml => {
                let Tables { before, own, after } = Tables::read(text)?;
                let Some(own) = own else {
                    let gap = match before.as_str() {
                        "" => "",
                        text if text.ends_with("\n\n") => "",
                        text if text.ends_with('\n') => "\n",
                        _ => "\n\n",
                    };
                    return Ok(Change::Text(format!("{before}{gap}[{OWN_TABLE}]\n{entry}")));
                };
                let changed = with_lines(&own, entry)?;
                if changed == own {
                    return Ok(Change::None);
                }
                Ok(Change::Text(format!("{before}{changed}{after}")))
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
                written(&all, text)
            }
            Form::Toml => {
                let Tables { before, own, after } = Tables::read(text)?;
                if own.is_none() {
                    return Ok(Change::None);
                }
                // The blank line before it goes with it.
                let before = match before.strip_suffix("\n\n") {
                    Some(text) if after.is_empty() || after.starts_with('\n') => {
                        format!("{text}\n")
                    }
                    _ => before,
                };
                Ok(Change::Text(before + &after))
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

/// Indented as the text is: by what is before its first member.
fn written(all: &Map<String, Value>, text: &str) -> Result<Change, NotCertain> {
    let first = text.lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or_default();
    let indent: String = first.chars().take_while(|c| matches!(c, ' ' | '\t')).take(8).collect();
    let indent = if indent.is_empty() { "  " } else { &indent };
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(all, &mut serializer).map_err(not_json)?;
    let mut changed = String::from_utf8_lossy(&bytes).into_owned();
    if text.is_empty() || text.ends_with('\n') {
        changed.push('\n');
    }
    Ok(Change::Text(changed))
}

/// A text of TOML around the entry's table.
struct Tables {
    before: String,
    /// From its header to its last line, with the tables within it.
    own: Option<String>,
    after: String,
}

impl Tables {
    fn read(text: &str) -> Result<Tables, NotCertain> {
        // A line of such a text could look like a header.
        if text.contains("\"\"\"") || text.contains("'''") {
            return Err(NotCertain::OddToml);
        }
        let mut tables = Tables { before: String::new(), own: None, after: String::new() };
        let mut table = String::new();
        // What may belong to the next table: blank lines and comments.
        let mut held = String::new();
        let mut depth = 0;
        for line in text.split_inclusive('\n') {
            let starts_value = depth == 0;
            let (code, change) = bare(line);
            depth += change;
            if starts_value && code.is_empty() {
                held.push_str(line);
                continue;
            }
            let header = code.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            if let Some(name) = header.filter(|_| starts_value && change == 0) {
                table = name.replace(['"', '\'', ' ', '\t'], "");
                let is_own = table == OWN_TABLE;
                let is_within = table.starts_with(&format!("{OWN_TABLE}."));
                // Given twice, or a table within it alone.
                if (is_own && tables.own.is_some()) || (is_within && tables.own.is_none()) {
                    return Err(NotCertain::OddToml);
                }
                if is_within && !tables.after.is_empty() {
                    return Err(NotCertain::OddToml);
                }
                if is_own {
                    tables.before += &std::mem::take(&mut held);
                    tables.own = Some(String::new());
                }
            } else if starts_value {
                let key = code.split('=').next().unwrap_or_default();
                let key = key.replace(['"', '\'', ' ', '\t'], "");
                let whole = if table.is_empty() { key } else { format!("{table}.{key}") };
                let names_it = |name: &str| whole == name || whole.starts_with(&format!("{name}."));
                if whole == SERVERS || (names_it(OWN_TABLE) && !is_own_table(&table)) {
                    return Err(NotCertain::OddToml);
                }
            }
            let lines = std::mem::take(&mut held) + line;
            match &mut tables.own {
                Some(own) if is_own_table(&table) => own.push_str(&lines),
                Some(_) => tables.after.push_str(&lines),
                None => tables.before.push_str(&lines),
            }
        }
        match &tables.own {
            Some(_) => tables.after.push_str(&held),
            None => tables.before.push_str(&held),
        }
        if depth != 0 { Err(NotCertain::OddToml) } else { Ok(tables) }
    }
}

fn is_own_table(table: &str) -> bool {
    table == OWN_TABLE || table.starts_with(&format!("{OWN_TABLE}."))
}

/// A line of TOML without its comment, and by how many brackets it opens more than it closes.
fn bare(line: &str) -> (&str, i32) {
    let mut quote = None;
    let mut is_escaped = false;
    let mut depth = 0;
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (Some('"'), '\\') if !is_escaped => {
                is_escaped = true;
                continue;
            }
            (Some(open), close) if open == close && !is_escaped => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, '#') => return (line.get(..at).unwrap_or_default().trim(), depth),
            _ => {}
        }
        is_escaped = false;
    }
    (line.trim(), depth)
}

/// The entry's table with these lines in place of those of the same keys.
fn with_lines(own: &str, entry: &str) -> Result<String, NotCertain> {
    let key_of = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let mut missing: Vec<&str> = entry.lines().collect();
    let mut changed = String::new();
    let mut lines = own.split_inclusive('\n').peekable();
    // The header.
    changed.extend(lines.next());
    if !changed.ends_with('\n') {
        changed.push('\n');
    }
    let mut is_top = true;
    let mut rest = String::new();
    for line in lines {
        let (code, depth) = bare(line);
        is_top &= !code.starts_with('[');
        let at = missing.iter().position(|wanted| is_top && key_of(wanted) == key_of(code));
        match at {
            // A value of several lines.
            Some(_) if depth != 0 => return Err(NotCertain::OddToml),
            Some(at) => {
                let wanted = missing.remove(at);
                let is_same = code.replace([' ', '\t'], "") == wanted.replace([' ', '\t'], "");
                rest.push_str(if is_same { line } else { wanted });
                if !rest.ends_with('\n') {
                    rest.push('\n');
                }
            }
            None if is_top && REMOTE.contains(&key_of(code).as_str()) => {
                return Err(NotCertain::Remote);
            }
            None => rest.push_str(line),
        }
    }
    for line in missing {
        changed.push_str(line);
        changed.push('\n');
    }
    Ok(changed + &rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JSON: Form = Form::Json { section: "mcpServers" };
    const ENTRY: &str = "command = \"/bin/zsh-tool\"\nargs = [\"serve\"]\n";

    fn text(change: Result<Change, NotCertain>) -> String {
        match change.expect("it can be changed") {
            Change::Text(text) => text,
            Change::None => panic!("nothing was changed"),
        }
    }

    #[test]
    fn an_entry_of_json_is_added_changed_and_removed_and_the_rest_stays() {
        let entry = r#"{"command":"/bin/zsh-tool","args":["serve"]}"#;
        let before = "{\n    \"z\": 1.50,\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\"}\n    },\n    \"a\": null\n}\n";
        let added = text(JSON.with(before, entry));
        let parsed: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(parsed["mcpServers"][NAME]["command"], "/bin/zsh-tool");
        assert_eq!(parsed["mcpServers"]["other"]["command"], "x");
        assert!(added.starts_with("{\n    \"z\"") && added.ends_with("}\n"), "{added}");
        assert_eq!(JSON.with(&added, entry), Ok(Change::None));
        let own = added.replace("\"args\"", "\"env\": {\"A\": \"1\"},\n \"args\"");
        assert_eq!(JSON.with(&own, entry), Ok(Change::None), "more is the user's own");
        let changed = text(JSON.with(&own, r#"{"command":"/new"}"#));
        assert!(changed.contains("/new") && !changed.contains("/bin/zsh-tool"), "{changed}");
        assert!(changed.contains("\"A\": \"1\""), "{changed}");
        let removed: Value = serde_json::from_str(&text(JSON.without(&changed))).unwrap();
        assert_eq!(removed, serde_json::from_str::<Value>(before).unwrap());
        assert_eq!(JSON.without(before), Ok(Change::None));
        let alone = "{\n  \"mcpServers\": {\n    \"zsh-tool\": {\n      \"a\": 1\n    }\n  }\n}\n";
        assert_eq!(JSON.alone("{\"a\": 1}"), alone);
        let remote = r#"{"mcpServers": {"zsh-tool": {"url": "http://x"}}}"#;
        assert_eq!(JSON.with(remote, entry), Err(NotCertain::Remote));
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
    fn an_entry_of_toml_is_added_changed_and_removed_and_the_rest_stays() {
        let before = "# mine\nmodel = \"x\"\nlist = [\n  [\"[mcp_servers.zsh-tool]\"],\n]\n\n\
                      [mcp_servers.other]\ncommand = \"y\" # z\n";
        let added = text(Form::Toml.with(before, ENTRY));
        assert_eq!(added, format!("{before}\n[mcp_servers.zsh-tool]\n{ENTRY}"));
        assert_eq!(Form::Toml.with(&added, ENTRY), Ok(Change::None));
        assert_eq!(text(Form::Toml.without(&added)), before);

        let next = "\n# why\n[projects.\"/home/me/c#app\"]\ntrust_level = \"trusted\"\n";
        let own = "env = { A = \"1\" }\n\n[mcp_servers.zsh-tool.tools.zsh]\napproval = \"auto\"\n";
        let longer = format!("{added}{own}{next}");
        assert_eq!(Form::Toml.with(&longer, ENTRY), Ok(Change::None), "more is the user's own");
        assert_eq!(text(Form::Toml.without(&longer)), format!("{before}{next}"));
        let moved = longer.replace("/bin/zsh-tool", "/old/zsh-tool");
        assert_eq!(text(Form::Toml.with(&moved, ENTRY)), longer);

        let quoted = added.replace("zsh-tool]", "\"zsh-tool\"] # here");
        assert_eq!(Form::Toml.with(&quoted, ENTRY), Ok(Change::None));
        assert_eq!(Form::Toml.without(before), Ok(Change::None));
        assert_eq!(Form::Toml.alone(ENTRY), format!("[mcp_servers.zsh-tool]\n{ENTRY}"));
        let added = text(Form::Toml.with("a = 1", ENTRY));
        assert_eq!(added, format!("a = 1\n\n[mcp_servers.zsh-tool]\n{ENTRY}"));
    }

    #[test]
    fn toml_of_another_form_is_left_alone() {
        for odd in [
            "mcp_servers = {}\n",
            "mcp_servers.zsh-tool.command = \"x\"\n",
            "[mcp_servers]\nzsh-tool = { command = \"x\" }\n",
            "[mcp_servers]\n\"zsh-tool\".command = \"x\"\n",
            "[mcp_servers.zsh-tool.env]\nA = \"1\"\n",
            "[mcp_servers.zsh-tool]\n[mcp_servers.zsh-tool]\n",
            "[mcp_servers.zsh-tool]\n[x]\n[mcp_servers.zsh-tool.env]\n",
            "[mcp_servers.zsh-tool]\nargs = [\n\"x\"]\n",
            "text = \"\"\"\n[mcp_servers.zsh-tool]\n\"\"\"\n",
            "open = [\n",
        ] {
            assert_eq!(Form::Toml.with(odd, ENTRY), Err(NotCertain::OddToml), "{odd}");
        }
        let remote = "[mcp_servers.zsh-tool]\nurl = \"http://x\"\n";
        assert_eq!(Form::Toml.with(remote, ENTRY), Err(NotCertain::Remote));
    }

    proptest! {
        #[test]
        fn any_text_is_changed_and_changed_back_or_left_alone(
            lines in prop::collection::vec(prop::sample::select(vec![
                "a = 1\n", "\n", "# c\n", "[x]\n", "[mcp_servers.other]\n", "[mcp_servers.zsh-tool]\n",
                "[mcp_servers.zsh-tool.env]\n", "command = \"x\"\n", "args = [\n", "]\n", "'''\n", "é\n",
            ]), 0..9),
            other in "\\PC{0,40}",
        ) {
            for before in [lines.concat(), other] {
                let _ = JSON.with(&before, "{}");
                if let Ok(Change::Text(added)) = Form::Toml.with(&before, ENTRY) {
                    prop_assert_eq!(Form::Toml.with(&added, ENTRY), Ok(Change::None));
                    // Nothing that was there is lost, but for the lines that were changed.
                    for line in before.lines().filter(|line| !line.starts_with("command")) {
                        prop_assert!(added.contains(line), "{line}: {added}");
                    }
                }
            }
        }
    }
}
