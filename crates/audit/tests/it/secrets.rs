//! Tests that known secrets never reach the log file.

use std::sync::Arc;

use agentd_audit::{AuditConfig, AuditLog};
use agentd_core::{
    audit::{AuditEntry, AuditFact},
    ids::SessionId,
    interrupt::AnsweredBy,
    ports::Audit as _,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, decided};

/// Generates values that contain the secret in some strings and keys, at any depth.
fn any_args(secret: String) -> impl Strategy<Value = Value> {
    let with = secret.clone();
    let text = prop_oneof![
        "[ -~]{0,12}",
        Just(secret.clone()),
        ("[ -~]{0,8}", "[ -~]{0,8}").prop_map(move |(a, b)| format!("{a}{with}{b}")),
        // JSON inside a string, in which quotes are escaped.
        Just(json!({ "inner": secret }).to_string()),
    ];
    let leaf = prop_oneof![text.clone().prop_map(Value::String), any::<u32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((text.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Collects all strings and names in a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            found.push(name.clone());
            texts(field, found);
        }),
        _ => {}
    }
}

#[test]
fn known_secrets_never_reach_the_file() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The secret contains characters that JSON escapes, and does not occur in text written by the log itself.
    let secret = r#"[0-9"\\/ ä]{3}[0-9]{4}["\\Q-Z]{3}"#;
    let case = secret.prop_flat_map(|secret: String| (any_args(secret.clone()), Just(secret)));
    proptest!(ProptestConfig::with_cases(200), |((args, secret) in case)| {
        let world = World::new();
        let escaped = { let quoted = json!(secret).to_string(); quoted[1..quoted.len() - 1].to_owned() };
        let known = [escaped.clone(), secret.clone()];
        let clean = move |text: &str| known.iter().fold(text.to_owned(), |text, known| text.replace(known.as_str(), "[redacted]"));
        let config = AuditConfig { clean: Arc::new(clean), ..world.config() };
        runtime.block_on(async {
            let log = AuditLog::open(config).unwrap();
            log.record(decided(SessionId::generate(), args)).await.unwrap();
            let fact = AuditFact::GrantAdded { rule: secret.clone(), scope: "session".to_owned(), by: AnsweredBy::Client(secret.clone()) };
            log.record(AuditEntry::general(agentd_core::Timestamp::UNIX_EPOCH, fact)).await.unwrap();
            log.close().await;
        });
        let text = world.text();
        prop_assert!(!text.contains(&escaped), "{escaped:?} is in {text}");
        let mut found = Vec::new();
        text.lines().for_each(|line| texts(&serde_json::from_str(line).unwrap(), &mut found));
        for text in found {
            prop_assert!(!text.contains(&secret) && !text.contains(&escaped), "{secret:?} is in {text}");
        }
        world.assert_valid(2);
    });
}
