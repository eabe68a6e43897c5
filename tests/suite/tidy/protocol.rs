//! Checks that the protocol page documents everything in the `.proto` files, because clients are built from it.

use std::fs;

use super::{assert_none, files, root};

/// Returns the text that follows this word at the beginning of lines in a message or service, without duplicates.
fn declared<'a>(proto: &'a str, word: &str) -> Vec<&'a str> {
    let lines = proto.lines().filter_map(|line| line.trim_start().strip_prefix(word));
    lines
        .filter_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').find(|name| !name.is_empty()))
        .collect()
}

/// Returns the names of the fields that are declared in this text.
fn fields(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains(" = "));
    lines.filter_map(|line| line.split(" = ").next()?.split(' ').next_back()).collect()
}

/// Returns the text between `begin` and `end`, excluding both.
#[track_caller]
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let behind = text.split(begin).nth(1).unwrap_or_else(|| panic!("missing {begin}"));
    behind.split(end).next().unwrap()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/protocol.md")).unwrap()
}

fn proto(noun: &str) -> String {
    fs::read_to_string(root().join(format!("proto/proto/agentd/v1/{noun}.proto"))).unwrap()
}

#[test]
fn protocol_page_lists_every_method_and_start_field() {
    let page = page();
    let mut missing = Vec::new();
    for proto in files(".proto") {
        for service in proto.text.split("\nservice ").skip(1) {
            let name = service.split(' ').next().unwrap();
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap_or_default();
            let service = service.split("\n}").next().unwrap();
            let methods = declared(service, "rpc ").into_iter().filter(|method| !row.contains(&format!("`{method}`")));
            missing.extend(methods.map(|method| format!("{name}.{method}")));
        }
    }
    let turns = proto("turn");
    let table = between(&page, "The fields of `start`:", "\nThree things");
    // Two of the fields share a row.
    let is_documented =
        |field: &&str| table.lines().any(|line| line.split(" | ").next().unwrap().contains(&format!("`{field}`")));
    let start = fields(between(&turns, "message Start {", "\n  }"));
    missing.extend(start.into_iter().filter(|field| !is_documented(field)).map(|field| format!("start.{field}")));
    assert_none("docs/protocol.md documents all services", missing);
}

#[test]
fn protocol_page_lists_no_missing_method() {
    let page = page();
    let protos = files(".proto");
    let table = between(&page, "| service | methods |", "\n\n");
    let mut invented = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let name = row.split('`').nth(1).unwrap();
        let begin = format!("\nservice {name} {{");
        let Some(proto) = protos.iter().find(|proto| proto.text.contains(&begin)) else {
            invented.push(name.to_owned());
            continue;
        };
        let methods = declared(between(&proto.text, &begin, "\n}"), "rpc ");
        let named = row.split('`').skip(3).step_by(2).filter(|name| name.chars().all(char::is_alphanumeric));
        let named = named.filter(|name| name.starts_with(char::is_uppercase));
        invented.extend(named.filter(|name| !methods.contains(name)).map(|method| format!("{name}.{method}")));
    }
    assert_none("docs/protocol.md documents only existing methods", invented);
}

#[test]
fn protocol_page_lists_every_stream_message() {
    let page = page();
    let streams = [
        ("turn", "message TurnRequest {", "  oneof command {"),
        ("event", "message Event {", "  oneof kind {"),
        ("daemon", "message WatchEvent {", "  oneof kind {"),
        ("input", "message InputPart {", "  oneof part {"),
    ];
    let mut missing = Vec::new();
    for (noun, message, oneof) in streams {
        let proto = proto(noun);
        let kinds = fields(between(between(&proto, message, "\n}"), oneof, "\n  }"));
        let is_documented = |kind: &str| page.contains(&format!("`{kind}`"));
        missing.extend(kinds.into_iter().filter(|kind| !is_documented(kind)).map(|kind| format!("{noun}: {kind}")));
    }
    let numbers: Vec<usize> = [("turn", "message ClientTool {"), ("turn", "message TurnLimits {")]
        .into_iter()
        .map(|(noun, message)| {
            let proto = proto(noun);
            let all = fields(between(&proto, message, "\n}"));
            let count = all.len();
            missing.extend(all.into_iter().filter(|field| !page.contains(&format!("`{field}`"))).map(str::to_owned));
            count
        })
        .collect();
    assert!(numbers.iter().all(|count| *count > 1), "too few messages were found: {numbers:?}");
    assert_none("docs/protocol.md documents all streamed messages", missing);
}
