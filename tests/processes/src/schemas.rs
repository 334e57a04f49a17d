//! Outputs of commands with `--json`, held against the form that `clump schema` prints.

use crate::Job;
use serde_json::Value;

/// Checks that an output has the form that `clump schema NAME` describes: the fields that it
/// demands, no others, and values of their types.
///
/// # Panics
/// It has not.
pub fn assert_fits(name: &str, output: &Value) {
    let printed = Job::command(&format!("schema {name}")).finish();
    printed.expect_clean();
    let schema: Value = serde_json::from_str(&printed.out).expect("a schema is JSON");
    let faults = faults(&schema, name, output);
    assert!(faults.is_empty(), "{}\n{output:#}", faults.join("\n"));
}

/// Returns what of an output, called `name`, does not fit a schema: a sentence each.
pub fn faults(schema: &Value, name: &str, output: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    compare(schema, schema, output, name, &mut faults);
    faults
}

/// Adds what of a value does not fit a part of a schema; `at`: its place in the output.
fn compare(all: &Value, part: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if let Some(to) = part["$ref"].as_str() {
        let defined = all.pointer(to.trim_start_matches('#'));
        return compare(all, defined.expect("a part that is defined"), value, at, faults);
    }
    for one_of in ["anyOf", "oneOf"].iter().filter_map(|name| part[name].as_array()) {
        let fits = |part: &&Value| {
            let mut faults = Vec::new();
            compare(all, part, value, at, &mut faults);
            faults.is_empty()
        };
        if !one_of.iter().any(|part| fits(&part)) {
            faults.push(format!("{at}: {value} is none of {one_of:?}"));
        }
    }
    if part.get("const").is_some_and(|one| one != value) {
        faults.push(format!("{at}: {value} is not {}", part["const"]));
    }
    if part["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        faults.push(format!("{at}: {value} is none of {}", part["enum"]));
    }
    let types = match &part["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of(name, value)) {
        faults.push(format!("{at}: {value} is no {types:?}"));
    }
    if let Some(fields) = value.as_object() {
        compare_fields((all, part), fields, at, faults);
    }
    for (number, element) in value.as_array().into_iter().flatten().enumerate() {
        let of = part["prefixItems"].get(number).unwrap_or(&part["items"]);
        compare(all, of, element, &format!("{at}[{number}]"), faults);
    }
}

fn compare_fields(
    (all, part): (&Value, &Value),
    fields: &serde_json::Map<String, Value>,
    at: &str,
    faults: &mut Vec<String>,
) {
    let demanded = part["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = demanded.filter(|name| !fields.contains_key(*name));
    faults.extend(missing.map(|name| format!("{at}: no `{name}`")));
    let known = part["properties"].as_object();
    for (name, value) in fields {
        let at = format!("{at}.{name}");
        let others = part.get("additionalProperties");
        match known.and_then(|known| known.get(name)).or(others) {
            Some(part) => compare(all, part, value, &at, faults),
            None if known.is_some() => faults.push(format!("{at} is not described")),
            None => {}
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("a type that schemas do not have: {other}"),
    }
}
