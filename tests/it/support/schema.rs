//! Checks structured results against the output schemas of their tools.

use serde_json::{Value, json};

use super::client::Client;

/// Calls a tool and returns its structured result, which must match its schema without undescribed
/// members.
pub fn assert_valid(client: &Client, tool: &str, arguments: Value) -> Value {
    let schema = closed(output_schema(client, tool));
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let result = client.call(tool, arguments);
    let structured = result.raw["structuredContent"].clone();
    let errors: Vec<String> = validator
        .iter_errors(&structured)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{structured}");
    structured
}

/// A tool's output schema from the list of tools.
fn output_schema(client: &Client, tool: &str) -> Value {
    let listed = client.request("tools/list", json!({})).wait();
    let tools = listed["result"]["tools"].as_array().cloned();
    tools
        .unwrap_or_default()
        .into_iter()
        .find(|listed| listed["name"] == json!(tool))
        .map(|listed| listed["outputSchema"].clone())
        .filter(Value::is_object)
        .unwrap_or_else(|| panic!("{tool} has no output schema: {listed}"))
}

/// The schema without additional properties in any object.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for member in members.values_mut() {
                *member = closed(member.take());
            }
            let object = [json!("object"), json!(["object", "null"])];
            if members.get("type").is_some_and(|kind| object.contains(kind)) {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(members) => {
            for member in members {
                *member = closed(member.take());
            }
        }
        _ => {}
    }
    schema
}
