//! The README keeps to the program: what the program has stands there.

use serde_json::json;

use crate::support::env::Env;
use crate::support::program::ran;

const README: &str = include_str!("../../README.md");

#[test]
fn the_readme_lists_the_settings_with_their_defaults() {
    let (_, section) = README
        .split_once("\n## Configuration\n")
        .expect("a section on the configuration");
    let told: Vec<(&str, &str)> = section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some((cells.next()?.trim_end_matches('`'), cells.next()?))
        })
        .collect();
    let text = ran(&Env::new(), &["config"]).text();
    let settings: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.trim_end().strip_suffix("  default"))
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key, value.trim()))
        .collect();
    assert!(settings.len() > 20, "{text}");
    for (key, value) in &settings {
        let default = told.iter().find(|(known, _)| known == key);
        let (_, default) = default.unwrap_or_else(|| panic!("{key} is not in the README"));
        match *key {
            // What `none` means there is said in words.
            "alan_db" => assert_eq!(*value, "none"),
            "daemons" => assert!(default.starts_with(&value[..9]), "{default}"),
            _ => assert_eq!(
                *default,
                value.trim_end_matches(" s").trim_end_matches(" h"),
                "{key}"
            ),
        }
    }
    for (key, _) in told {
        assert!(
            settings.iter().any(|(known, _)| *known == key),
            "{key} is no setting"
        );
    }
}

#[test]
fn the_readme_names_every_tool_and_argument() {
    let env = Env::new();
    let client = env.client();
    let response = client.request("tools/list", json!({})).wait();
    let tools = response["result"]["tools"].as_array().expect("tools");
    for tool in tools {
        let name = tool["name"].as_str().expect("a name");
        assert!(README.contains(&format!("`{name}`")), "{name}");
        for argument in tool["inputSchema"]["properties"]
            .as_object()
            .expect("arguments")
            .keys()
        {
            assert!(
                README.contains(&format!("`{argument}`")),
                "{argument} of {name}"
            );
        }
    }
}

#[test]
fn the_readme_names_every_command() {
    let help = ran(&Env::new(), &["--help"]).text();
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.contains(&"serve"), "{help}");
    for command in commands {
        assert!(
            README.contains(&format!("| `zsh-tool {command}")),
            "{command}"
        );
    }
}
