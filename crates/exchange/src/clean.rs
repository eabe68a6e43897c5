//! Secrets taken out of bodies, so that what is JSON stays JSON. Pure.

use serde_json::{Map, Value};

use crate::Clean;

/// A body without known secrets: of JSON each text by itself, of a stream of events each of its objects.
pub(crate) fn cleaned(body: String, clean: &Clean) -> String {
    // Nearly always nothing is found, and the body stays as it is to the byte.
    let cleaned = clean(&body);
    if cleaned == body {
        return body;
    }
    if let Ok(value) = serde_json::from_str(&body) {
        return scrubbed(value, clean).to_string();
    }
    body.split_inclusive('\n').map(|line| cleaned_line(line, clean)).collect()
}

fn cleaned_line(line: &str, clean: &Clean) -> String {
    let at = line.find(['{', '[']).filter(|at| line[..*at].trim_end().ends_with(':') || *at == 0);
    let (before, data) = line.split_at(at.unwrap_or(0));
    match serde_json::from_str(data) {
        Ok(value) if at.is_some() => format!("{before}{}{}", scrubbed(value, clean), &data[data.trim_end().len()..]),
        _ => clean(line),
    }
}

fn scrubbed(value: Value, clean: &Clean) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(values) => values.into_iter().map(|value| scrubbed(value, clean)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (clean(&name), scrubbed(value, clean)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn secrets_go_and_json_stays_json() {
        let clean: Clean = Arc::new(|text| text.replace("s3cret\"", "*").replace("s3cret", "*"));
        let check = |body: &str, expected: &str| assert_eq!(cleaned(body.to_owned(), &clean), expected);
        check("{\"a\" :  1}", "{\"a\" :  1}");
        check("{\"a\":  \"the s3cret\"}", "{\"a\":\"the *\"}");
        check("{\"s3cret\":[\"s3cret\\\" x\"]}", "{\"*\":[\"* x\"]}");
        check("data: {\"a\":\"s3cret\"}\n\ndata: [DONE]\n", "data: {\"a\":\"*\"}\n\ndata: [DONE]\n");
        check("no json: s3cret", "no json: *");
    }
}
