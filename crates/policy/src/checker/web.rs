//! Tools that ask servers: what only fetches, and what sends something.

use agentd_core::web::{WebMethod, is_harmless_header};
use serde_json::{Map, Value};

/// Description of what a call sends, where it does more than fetch, for the person who is asked. A header can turn a
/// fetch into anything, so only those count as harmless that are known to be.
pub(crate) fn sends(arguments: &Map<String, Value>) -> Option<String> {
    let method = match arguments.get("method") {
        None | Some(Value::Null) => WebMethod::Get,
        Some(Value::String(name)) => match WebMethod::of(name) {
            Some(method) => method,
            None => return Some("it sends a request that is not known beforehand".to_owned()),
        },
        Some(_) => return Some("it sends a request that is not known beforehand".to_owned()),
    };
    if !method.is_fetch() {
        return Some(format!("it sends a request of {}", method.as_str()));
    }
    if !matches!(arguments.get("body"), None | Some(Value::Null)) {
        return Some("it sends a body".to_owned());
    }
    let harmless = |name: &String| is_harmless_header(name);
    match arguments.get("headers") {
        None | Some(Value::Null) => None,
        Some(Value::Object(headers)) if headers.keys().all(harmless) => None,
        Some(_) => Some("it sends headers of its own".to_owned()),
    }
}

/// Returns whether a call, as it was written, only fetches.
pub fn only_fetches(arguments: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(arguments).is_ok_and(|arguments| sends(&arguments).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_fetches_is_told_from_what_sends() {
        let check = |arguments: &str, expected: Option<&str>| {
            let parsed: Map<String, Value> = serde_json::from_str(arguments).unwrap();
            assert_eq!(sends(&parsed).as_deref(), expected, "{arguments}");
            assert_eq!(only_fetches(arguments), expected.is_none(), "{arguments}");
        };
        check(r#"{"url":"http://a/"}"#, None);
        check(r#"{"url":"http://a/","method":" get ","body":null,"headers":{}}"#, None);
        check(r#"{"method":"HEAD","headers":{"Accept":"text/html","accept-language":"de"}}"#, None);
        check(r#"{"method":"POST"}"#, Some("it sends a request of POST"));
        check(r#"{"method":"delete"}"#, Some("it sends a request of DELETE"));
        check(r#"{"method":"OPTIONS"}"#, Some("it sends a request of OPTIONS"));
        check(r#"{"method":"BREW"}"#, Some("it sends a request that is not known beforehand"));
        check(r#"{"method":["GET"]}"#, Some("it sends a request that is not known beforehand"));
        check(r#"{"body":"x"}"#, Some("it sends a body"));
        check(r#"{"headers":{"X-HTTP-Method-Override":"DELETE"}}"#, Some("it sends headers of its own"));
        check(r#"{"headers":{"Authorization":"Bearer x"}}"#, Some("it sends headers of its own"));
        check(r#"{"headers":"accept: x"}"#, Some("it sends headers of its own"));
        // Of two, the last counts, as it does for the tool.
        check(r#"{"method":"GET","method":"POST"}"#, Some("it sends a request of POST"));
        assert!(!only_fetches("nonsense") && !only_fetches("[]"));
    }
}
