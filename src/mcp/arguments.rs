//! Checks a call's arguments against the tool's schema. An error names the argument, what is
//! expected, and the nearest valid name.
//!
//! Some models fill in every argument, since a strict schema makes all of them required. What stands
//! for nothing counts as left out, and numbers, booleans, lists and objects may be written as text.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::tools::Tool;
use crate::alan::insight::truncate;
use crate::sandbox::policy::UnknownSandbox;
use crate::text::foreign::Foreign;
use crate::text::invisible;

/// Less similar names are not suggested (0 to 1, Jaro-Winkler).
const MIN_SIMILARITY: f64 = 0.75;
/// How much of a wrong value an error repeats.
const SHOWN_CHARS: usize = 40;
/// Waits; those above the ceiling of the client's calls are limited to it.
const WAITS: [&str; 2] = ["yield_after", "listen"];

/// String arguments that also accept whole numbers.
const NUMBERS_ACCEPTED: [&str; 1] = ["until_port"];

/// Optional text that means something when it is empty: an empty line to type.
const EMPTY_ACCEPTED: [&str; 1] = ["input"];

/// What an empty text or list leaves out only beside others that were filled in: it may be meant.
const MAY_BE_MEANT: [&str; 1] = ["sandbox"];

/// A wrong argument, described so that the caller can correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(pub String);

/// Checks arguments against a tool's schema and deserializes them.
///
/// # Errors
/// Describes the first wrong argument.
pub fn read<T: DeserializeOwned>(
    tool: &Tool,
    arguments: Option<&Value>,
) -> Result<T, ArgumentError> {
    let (schema, tool) = (&tool.schema, tool.wire_name);
    let empty = Map::new();
    let given = match arguments {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(given)) => given,
        Some(other) => {
            return Err(ArgumentError(format!(
                "the arguments of {tool} must be an object, not {}",
                show(other)
            )));
        }
    };
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut checked = Map::new();
    let (mut is_filled_in, mut has_empty_sandbox) = (false, false);
    for (name, value) in given {
        let property = properties.get(name).ok_or_else(|| unknown(tool, name, properties))?;
        let value = match read_text(property, value) {
            Some(read) => read,
            None => value.clone(),
        };
        let is_optional = !required.contains(&name.as_str());
        if value.is_null() {
            continue;
        }
        if is_optional && means_nothing(name, property, &value) {
            if MAY_BE_MEANT.contains(&name.as_str()) {
                has_empty_sandbox = true;
            } else {
                is_filled_in = true;
            }
            continue;
        }
        let value = check_type(name, property, value)?;
        check_bounds(name, property, &value)?;
        checked.insert(name.clone(), value);
    }
    if has_empty_sandbox && !is_filled_in {
        return Err(ArgumentError(format!("{UnknownSandbox}; leave it out for the user's")));
    }
    // Beside others that were filled in, it is one of them.
    checked.retain(|name, value| !(is_filled_in && is_empty_input(name, value)));
    for name in required {
        if !checked.contains_key(name) {
            return Err(ArgumentError(format!("{tool} needs the argument {name}")));
        }
    }
    serde_json::from_value(Value::Object(checked))
        .map_err(|error| ArgumentError(format!("the arguments of {tool} are wrong: {error}")))
}

fn unknown(tool: &str, name: &str, properties: &Map<String, Value>) -> ArgumentError {
    let nearest = properties
        .keys()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let name = Foreign::from(truncate(name, SHOWN_CHARS));
    ArgumentError(match nearest {
        Some((_, nearest)) => format!("{tool} has no argument {name}: did you mean {nearest}?"),
        None => {
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            if known.is_empty() {
                format!("{tool} takes no arguments, so no {name}")
            } else {
                format!("{tool} has no argument {name}: it takes {}", known.join(", "))
            }
        }
    })
}

fn type_of(property: &Value) -> &str {
    property.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// A number, a boolean, a list or an object that was passed as text.
fn read_text(property: &Value, value: &Value) -> Option<Value> {
    let text = value.as_str()?.trim();
    let read = || serde_json::from_str::<Value>(text).ok();
    match type_of(property) {
        "boolean" if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        "boolean" if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        "number" | "integer" => read().filter(Value::is_number),
        "array" => read().filter(Value::is_array),
        "object" => read().filter(Value::is_object),
        _ => None,
    }
}

/// Whether the value of an optional argument is one that models pass to leave it out: empty, or 0
/// where counting begins with 1.
fn means_nothing(name: &str, property: &Value, value: &Value) -> bool {
    let counts_from_one =
        || property.get("minimum").and_then(Value::as_f64).is_some_and(|least| least >= 1.0);
    match value {
        Value::String(text) if type_of(property) == "string" => {
            let is_port = NUMBERS_ACCEPTED.contains(&name);
            (text.is_empty() && !is_empty_input(name, value)) || (is_port && text == "0")
        }
        Value::String(text) => text.trim().is_empty(),
        Value::Number(number) => {
            number.as_f64() == Some(0.0) && (counts_from_one() || NUMBERS_ACCEPTED.contains(&name))
        }
        Value::Array(items) => items.iter().all(|item| item == ""),
        _ => false,
    }
}

/// Whether this is an empty line to type.
fn is_empty_input(name: &str, value: &Value) -> bool {
    EMPTY_ACCEPTED.contains(&name) && value == ""
}

fn check_type(name: &str, property: &Value, value: Value) -> Result<Value, ArgumentError> {
    let wrong = |what: &str| ArgumentError(format!("{name} must be {what}, not {}", show(&value)));
    match type_of(property) {
        "string" if value.is_u64() && NUMBERS_ACCEPTED.contains(&name) => {
            return Ok(Value::from(value.to_string()));
        }
        "string" => {
            if !value.is_string() {
                let number =
                    if NUMBERS_ACCEPTED.contains(&name) { " or a whole number" } else { "" };
                return Err(wrong(&format!("a string{number}")));
            }
            let choices = property.get("enum").and_then(Value::as_array);
            if let Some(choices) = choices
                && !choices.contains(&value)
            {
                let choices: Vec<String> = choices.iter().map(show).collect();
                return Err(wrong(&choices.join(" or ")));
            }
        }
        "boolean" if !value.is_boolean() => return Err(wrong("true or false")),
        "number" if !value.is_number() => return Err(wrong("a number")),
        "integer" if !value.is_i64() && !value.is_u64() => {
            let whole =
                value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
            return match whole {
                Some(number) => Ok(Value::from(number as i64)),
                None => Err(wrong("a whole number")),
            };
        }
        "array" => {
            let Some(items) = value.as_array() else {
                return Err(wrong("a list of strings"));
            };
            if let Some((place, item)) =
                items.iter().enumerate().find(|(_, item)| !item.is_string())
            {
                let item = show(item);
                return Err(ArgumentError(format!("{name}[{place}] must be a string, not {item}")));
            }
        }
        "object" => {
            let Some(entries) = value.as_object() else {
                return Err(wrong("an object of names and strings"));
            };
            if let Some((key, entry)) = entries.iter().find(|(_, entry)| !entry.is_string()) {
                let (key, entry) = (Foreign::from(truncate(key, SHOWN_CHARS)), show(entry));
                return Err(ArgumentError(format!("{name}.{key} must be a string, not {entry}")));
            }
        }
        _ => {}
    }
    Ok(value)
}

fn check_bounds(name: &str, property: &Value, value: &Value) -> Result<(), ArgumentError> {
    let Some(number) = value.as_f64() else {
        return Ok(());
    };
    let bound = |name: &str| property.get(name).and_then(Value::as_f64);
    if let Some(minimum) = bound("minimum").filter(|minimum| number < *minimum) {
        return Err(ArgumentError(format!("{name} must be at least {minimum}, not {number}")));
    }
    let maximum = bound("maximum").filter(|_| !WAITS.contains(&name));
    if let Some(maximum) = maximum.filter(|maximum| number > *maximum) {
        return Err(ArgumentError(format!("{name} must be at most {maximum}, not {number}")));
    }
    Ok(())
}

fn show(value: &Value) -> String {
    // JSON escapes what controls a terminal, not what is not seen.
    invisible::show(truncate(&value.to_string(), SHOWN_CHARS)).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::arbitrary;
    use crate::mcp::tools::{self, PollArguments, RunArguments, SendArguments};

    fn run(arguments: Value) -> Result<RunArguments, String> {
        let tool = tools::find("zsh").ok_or("no tool")?;
        read(tool, Some(&arguments)).map_err(|error| error.0)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            (json!({}), "zsh needs the argument command"),
            (json!({"command": 5}), "command must be a string, not 5"),
            (
                json!({"command": "x", "yeild_after": 1}),
                "zsh has no argument yeild_after: did you mean yield_after?",
            ),
            (json!({"command": "x", "timeout": "1m"}), "timeout must be a number, not \"1m\""),
            (json!({"command": "x", "timeout": -1}), "timeout must be at least 0, not -1"),
            (json!({"command": "x", "pty": "yes"}), "pty must be true or false, not \"yes\""),
            (json!({"command": "x", "rows": 1.5}), "rows must be a whole number, not 1.5"),
            (json!({"command": "x", "rows": -1}), "rows must be at least 1, not -1"),
            (json!({"command": "x", "rows": 9999}), "rows must be at most 500, not 9999"),
            (json!({"command": "x", "env": {"A": 1}}), "env.A must be a string, not 1"),
            (json!(["x"]), "the arguments of zsh must be an object, not [\"x\"]"),
        ];
        for (arguments, wanted) in table {
            assert_eq!(run(arguments.clone()).err().as_deref(), Some(wanted), "{arguments}");
        }
    }

    #[test]
    fn whole_numbers_may_be_written_as_fractions() {
        let read = run(json!({"command": "x", "rows": 5.0, "timeout": 5}));
        assert_eq!(read.as_ref().ok().and_then(|read| read.rows), Some(5));
        assert_eq!(read.ok().and_then(|read| read.timeout), Some(5.0));
    }

    #[test]
    fn what_means_nothing_is_left_out_and_text_is_read() {
        let nothing = json!({
            "command": "x", "host": "", "timeout": "", "timeout_mode": "", "yield_after": null,
            "description": "", "pty": "False", "cwd": "", "env": "", "session": "", "stdin": "",
            "stdin_open": "", "background": "", "detach": null, "detached_hours": "", "until": "",
            "until_port": "", "rows": 0, "cols": "0", "max_output": 0,
        });
        let read = run(nothing).expect("nothing is wrong");
        let given = serde_json::to_value(&read).expect("plain data");
        let given: Vec<&String> = given
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, it)| !it.is_null())
            .map(|it| it.0)
            .collect();
        assert_eq!(given, ["command", "pty"]);
        assert_eq!(read.pty, Some(false));
        let written = json!({
            "command": "x", "timeout": "30", "yield_after": " 0.5 ", "pty": "TRUE", "rows": "5",
            "env": "{\"A\": \"\"}", "until_port": 0,
        });
        let read = run(written).expect("nothing is wrong");
        assert_eq!((read.timeout, read.yield_after), (Some(30.0), Some(0.5)));
        assert_eq!((read.pty, read.rows, read.until_port), (Some(true), Some(5), None));
        assert_eq!(read.env.unwrap()["A"], "");
    }

    #[test]
    fn lists_are_of_strings() {
        let tool = tools::find("zsh_send").unwrap();
        for (keys, wanted) in [
            (json!("Up"), "keys must be a list of strings, not \"Up\""),
            (json!(["Up", 5]), "keys[1] must be a string, not 5"),
        ] {
            let arguments = json!({"task_id": "x", "keys": keys});
            let read = read::<SendArguments>(tool, Some(&arguments));
            assert_eq!(read.err().map(|error| error.0).as_deref(), Some(wanted), "{arguments}");
        }
    }

    #[test]
    fn choices_are_listed() {
        let tool = tools::find("zsh_poll").unwrap();
        let arguments = json!({"task_id": "x", "wait_for": "never"});
        let read = read::<PollArguments>(tool, Some(&arguments));
        assert_eq!(
            read.err().map(|error| error.0).as_deref(),
            Some("wait_for must be \"output\" or \"end\", not \"never\"")
        );
    }

    /// Arguments, mostly with names that the tool has, with any values.
    fn any_arguments(tool: &'static tools::Tool) -> impl Strategy<Value = Value> {
        let names = tool.schema.get("properties").and_then(Value::as_object);
        let names: Vec<String> = names.map(|names| names.keys().cloned().collect()).unwrap();
        let other = arbitrary::json(
            &["true", "background", "INT", "C-c", "1", "-1", "4000"].map(str::to_owned),
        );
        // Types that most arguments accept, and words that a few accept.
        let value = prop_oneof![
            "\\PC{0,6}".prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            (-2i64..200).prop_map(Value::from),
            (-1.0f64..1e4).prop_map(Value::from),
            other,
        ];
        let name = if names.is_empty() {
            "\\PC{0,6}".boxed()
        } else {
            prop_oneof![9 => prop::sample::select(names), 1 => "\\PC{0,6}"].boxed()
        };
        prop::collection::vec((name, value), 0..4).prop_map(Value::from_iter)
    }

    /// What a tool's method receives is within its schema's bounds.
    fn assert_within(schema: &Value, arguments: &Value) {
        for (name, property) in schema["properties"].as_object().unwrap() {
            let Some(number) = arguments.get(name).and_then(Value::as_f64) else {
                continue;
            };
            let bound = |word: &str| property.get(word).and_then(Value::as_f64);
            assert!(bound("minimum").is_none_or(|least| number >= least), "{name}: {number}");
            let is_bounded = !WAITS.contains(&name.as_str());
            let most = bound("maximum").filter(|_| is_bounded);
            assert!(most.is_none_or(|most| number <= most), "{name}: {number}");
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_within_bounds_or_refused(
            (at, arguments) in (0..tools::TOOLS.len())
                .prop_flat_map(|at| (Just(at), any_arguments(&tools::TOOLS[at]))),
        ) {
            let tool = &tools::TOOLS[at];
            // Read as any type: the checks are the schema's.
            match read::<Value>(tool, Some(&arguments)) {
                Ok(arguments) => assert_within(&tool.schema, &arguments),
                Err(error) => prop_assert!(!error.0.is_empty()),
            }
            let given = Some(&arguments);
            let _ = read::<RunArguments>(tool, given);
            let _ = read::<PollArguments>(tool, given);
            let _ = read::<SendArguments>(tool, given);
            let _ = read::<tools::KillArguments>(tool, given);
            let _ = read::<tools::QueryArguments>(tool, given);
        }

        #[test]
        fn what_is_no_object_is_refused(arguments in arbitrary::json(&[])) {
            let tool = tools::find("zsh").unwrap();
            prop_assert!(read::<RunArguments>(tool, Some(&arguments)).is_err());
        }
    }
}
