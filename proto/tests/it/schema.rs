//! Checks the stream-json schema in the documentation: every event matches it and has no undeclared field. The schema
//! is maintained by hand, so new fields must be added there.

use std::{fs, path::Path};

use agentd_core::event::Event;
use agentd_proto::v1;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::samples;

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/stream-json.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Forbids undeclared fields in the schema. `complete` is false if another part of the schema adds fields here.
fn strict(schema: &mut Value, complete: bool) {
    let Some(keys) = schema.as_object_mut() else { return };
    for (key, value) in keys.iter_mut() {
        let parts: Vec<&mut Value> = match value {
            Value::Object(parts) if ["properties", "$defs"].contains(&key.as_str()) => parts.values_mut().collect(),
            Value::Array(parts) => parts.iter_mut().collect(),
            value => vec![value],
        };
        match key.as_str() {
            "properties" | "items" => parts.into_iter().for_each(|part| strict(part, true)),
            "anyOf" => parts.into_iter().for_each(|part| strict(part, complete)),
            "oneOf" | "allOf" | "$defs" => parts.into_iter().for_each(|part| strict(part, false)),
            _ => {}
        }
    }
    if complete && keys.contains_key("$ref") {
        keys.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

fn problems(validator: &Validator, line: &Value) -> Vec<String> {
    validator.iter_errors(line).map(|error| error.to_string()).collect()
}

/// Returns events of every kind as a client writes them.
fn lines() -> Vec<Value> {
    let line = |kind| {
        let event = Event::try_from(v1::Event::from(&samples::event(kind))).unwrap();
        serde_json::to_value(&event).unwrap()
    };
    samples::kinds().into_iter().map(line).collect()
}

#[test]
fn every_event_matches_the_schema_in_the_documentation() {
    let mut schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    strict(&mut schema, true);
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in lines() {
        assert!(problems(&validator, &line).is_empty(), "{line:#}\n{:?}", problems(&validator, &line));
    }
}

#[test]
fn invalid_events_do_not_match_the_schema() {
    let mut schema = schema();
    let lenient = jsonschema::validator_for(&schema).unwrap();
    strict(&mut schema, true);
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in lines() {
        let with = |change: &dyn Fn(&mut Value)| {
            let mut line = line.clone();
            change(&mut line);
            line
        };
        let nameless = with(&|line| drop(line.as_object_mut().unwrap().remove("session_id")));
        assert!(!lenient.is_valid(&nameless), "{nameless}");
        let unknown = with(&|line| line["type"] = json!("no_such_type"));
        assert!(!lenient.is_valid(&unknown), "{unknown}");
        // A newer daemon may add fields.
        let more = with(&|line| line["no_such_field"] = json!(1));
        assert!(lenient.is_valid(&more) && !validator.is_valid(&more), "{more}");
    }
}
