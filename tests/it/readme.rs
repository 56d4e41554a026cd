//! The README and the reference (`zsh-tool help`) keep to the program.

use serde_json::json;

use crate::support::env::Env;
use crate::support::program::ran;

const README: &str = include_str!("../../README.md");

/// The settings in use: key and value.
fn settings(env: &Env) -> Vec<(String, String)> {
    let text = ran(env, &["config"]).text();
    let settings: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.trim_end().strip_suffix("  default"))
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
        .collect();
    assert!(settings.len() > 20, "{text}");
    settings
}

#[test]
fn the_readme_shows_settings_with_their_defaults() {
    let (_, section) = README.split_once("\n## Settings\n").expect("a section on the settings");
    let shown: Vec<(&str, &str)> = section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some((cells.next()?.trim_end_matches('`'), cells.next()?))
        })
        .collect();
    assert!(shown.len() >= 8, "{shown:?}");
    let settings = settings(&Env::new());
    for (key, default) in shown {
        let known = settings.iter().find(|(known, _)| known == key);
        let (_, value) = known.unwrap_or_else(|| panic!("{key} is no setting"));
        assert_eq!(default, value, "{key}");
    }
}

#[test]
fn the_reference_explains_every_setting_and_no_other() {
    let env = Env::new();
    let help = ran(&env, &["help", "settings"]).text();
    let (_, keys) = help.split_once("\n# Keys\n").expect("a list of keys");
    let explained: Vec<&str> = keys
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let settings = settings(&env);
    for (key, _) in &settings {
        // Some mappings have topics of their own.
        let elsewhere = ["secrets", "executors", "hosts"].contains(&key.as_str());
        assert!(elsewhere || explained.contains(&key.as_str()), "{key}");
    }
    for key in explained {
        assert!(settings.iter().any(|(known, _)| known == key), "{key} is no setting");
    }
}

#[test]
fn the_readme_names_every_tool_and_the_reference_every_argument() {
    let env = Env::new();
    let client = env.client();
    let help = ran(&env, &["help", "tools"]).text();
    let response = client.request("tools/list", json!({})).wait();
    let tools = response["result"]["tools"].as_array().expect("tools");
    for tool in tools {
        let name = tool["name"].as_str().expect("a name");
        assert!(README.contains(&format!("`{name}`")), "{name}");
        let (_, section) = help
            .split_once(&format!("\n# {name}\n"))
            .unwrap_or_else(|| panic!("no section on {name}"));
        let section = section.split("\n# ").next().expect("a section");
        for argument in tool["inputSchema"]["properties"].as_object().expect("arguments").keys() {
            assert!(section.contains(&format!("\n  {argument}")), "{argument} of {name}");
        }
    }
}

#[test]
fn the_readme_names_every_command_and_every_topic() {
    let env = Env::new();
    let help = ran(&env, &["help"]).text();
    let names = |heading: &str| -> Vec<String> {
        let names = help
            .lines()
            .skip_while(|line| !line.starts_with(heading))
            .skip(1)
            .map_while(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect()
    };
    let commands = names("Commands:");
    assert!(commands.iter().any(|name| name == "serve"), "{help}");
    for command in commands {
        assert!(README.contains(&format!("`zsh-tool {command}")), "{command}");
    }
    let topics = names("Topics");
    assert!(topics.len() >= 8, "{help}");
    for topic in topics {
        let text = ran(&env, &["help", &topic]).text();
        assert!(text.lines().count() > 10, "{text}");
        assert!(
            README.contains(&format!("`{topic}`"))
                || README.contains(&format!("zsh-tool help {topic}`")),
            "{topic}"
        );
    }
}

#[test]
fn help_on_a_command_is_its_own_and_an_unknown_topic_is_refused_with_the_known_ones() {
    let env = Env::new();
    let help = ran(&env, &["help", "alan", "query"]).text();
    assert_eq!(help, ran(&env, &["alan", "query", "--help"]).text());
    let refused = ran(&env, &["help", "nonsense"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("tools, reading"), "{}", refused.stderr);
}

#[test]
fn the_readme_is_a_page_and_not_a_book() {
    let words = README.split_whitespace().count();
    assert!(words < 1_700, "{words} words");
}
