//! Tests for histories of other applications.

use agentd_archive::{
    ArchiveError,
    foreign::{ForeignFormat, ForeignHistory, read},
};
use agentd_core::{
    event::{Event, EventKind},
    item::ItemBody,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Formats the items of a history as lines.
pub(crate) fn describe_events(events: &[Event]) -> Vec<String> {
    let one = |event: &Event| match &event.kind {
        EventKind::TurnStarted { .. } => Some("turn".to_owned()),
        EventKind::TurnEnded { result } => Some(format!("end: {}", result.text)),
        EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::UserMessage { text, .. } => Some(format!("person: {text}")),
            ItemBody::AgentMessage { text } => Some(format!("model: {text}")),
            ItemBody::Reasoning { text } => Some(format!("thought: {text}")),
            ItemBody::ToolCall(call) => Some(format!("call: {} {}", call.name, call.arguments)),
            ItemBody::ToolResult(result) => Some(format!(
                "result: {} {}{}",
                result.name,
                result.text,
                result.error.map(|error| format!(" {}", error.as_str())).unwrap_or_default()
            )),
            ItemBody::Notice { text, .. } => Some(format!("notice: {}", text.lines().next().unwrap_or_default())),
            ItemBody::Compaction(_) => None,
        },
        EventKind::UsageUpdated { usage, model, .. } => {
            Some(format!("usage: {model} {} {} {}", usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens))
        }
        EventKind::StateChanged { .. } => Some("title".to_owned()),
        _ => None,
    };
    events.iter().filter_map(one).collect()
}

/// Returns the first notice of an imported history.
fn notice(program: &str) -> String {
    format!(
        "notice: This history comes from {program}. Its tools belong to that program and are not available; files may \
         have changed since."
    )
}

/// Checks the invariants that hold for every history.
pub(crate) fn check_invariants(history: &ForeignHistory) {
    assert_eq!(history.session.events, history.events.len() as u64);
    let mut before = None;
    for (event, seq) in history.events.iter().zip(1..) {
        assert_eq!((event.seq, event.session_id), (seq, history.session.id));
        assert!(before.is_none_or(|before| before <= event.at), "time goes back");
        before = Some(event.at);
    }
    let calls = |wanted: fn(&ItemBody) -> Option<&str>| {
        let items = history.events.iter().filter_map(|event| match &event.kind {
            EventKind::ItemCompleted { item, .. } => wanted(&item.body),
            _ => None,
        });
        let mut ids: Vec<String> = items.map(str::to_owned).collect();
        ids.sort();
        ids
    };
    let call_ids = calls(|body| match body {
        ItemBody::ToolCall(call) => Some(call.call_id.as_str()),
        _ => None,
    });
    let answered_ids = calls(|body| match body {
        ItemBody::ToolResult(result) => Some(result.call_id.as_str()),
        _ => None,
    });
    assert_eq!(call_ids, answered_ids, "every call has one result");
}

#[test]
fn claude_code_history_is_read() {
    let base =
        json!({"sessionId": "c7d1fb1a-0885-4d8b-8427-0f09a0c1a94f", "cwd": "/home/me/app", "isSidechain": false});
    let line = |kind: &str, at: &str, message: Value| {
        let mut line = base.clone();
        line["type"] = kind.into();
        line["timestamp"] = format!("2026-01-31T12:{at}Z").into();
        line["message"] = message;
        line
    };
    let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 7});
    let answer = |block: Value| json!({"id": "msg_1", "model": "claude-x", "content": [block], "usage": usage});
    let mut sidechain = line("assistant", "00:06", answer(json!({"type": "text", "text": "aside"})));
    sidechain["isSidechain"] = true.into();
    let mut meta = line("user", "00:00", json!({"content": "Caveat"}));
    meta["isMeta"] = true.into();
    let history = lines(&[
        json!({"type": "summary", "summary": "Fix the tests", "leafUuid": "x"}),
        json!({"type": "file-history-snapshot"}),
        meta,
        line("user", "00:01", json!({"role": "user", "content": "Fix it"})),
        line("assistant", "00:02", answer(json!({"type": "thinking", "thinking": "Hm.", "signature": "s"}))),
        line("assistant", "00:03", answer(json!({"type": "text", "text": "I look."}))),
        line(
            "assistant",
            "00:04",
            answer(json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}})),
        ),
        line(
            "user",
            "00:05",
            json!({"content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true,
            "content": [{"type": "text", "text": "no such file"}]}]}),
        ),
        sidechain,
        line("user", "00:07", json!({"content": [{"type": "text", "text": "And now?"}, {"type": "image"}]})),
        line(
            "assistant",
            "00:08",
            json!({"id": "msg_2", "model": "<synthetic>", "content": [{"type": "text", "text": "Done."}]}),
        ),
    ]) + "not json\n";
    let read = |text: &str| read(text.as_bytes(), ForeignFormat::ClaudeCode).unwrap();
    let found = read(&history);
    check_invariants(&found);
    assert_eq!(
        describe_events(&found.events),
        [
            "turn",
            &notice("Claude Code"),
            "person: Fix it",
            "thought: Hm.",
            "usage: claude-x 105 90 7",
            "model: I look.",
            "call: Bash {\"command\":\"ls\"}",
            "result: Bash no such file E_TOOL",
            "end: I look.",
            "turn",
            "person: And now?",
            "model: Done.",
            "end: Done.",
            "title"
        ]
    );
    let expected =
        ["1 × file-history-snapshot", "1 × image", "1 × program note", "1 × subagent message", "1 × unreadable line"];
    assert_eq!(found.left_out, expected);
    assert_eq!(found.session.settings.project.as_ref().unwrap().path.to_str(), Some("/home/me/app"));
    assert_eq!(found.session.created_at, "2026-01-31T12:00:00Z".parse().unwrap());
    assert_eq!(found.session.id, read(&history).session.id, "the same history gets the same session ID");
}

#[test]
fn both_codex_formats_are_read() {
    let at = "2026-01-31T12:00:00Z";
    let line = |kind: &str, payload: Value| json!({"timestamp": at, "type": kind, "payload": payload});
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let items = [
        message("user", "input_text", "<environment_context>x</environment_context>"),
        message("user", "input_text", "Two and two?"),
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Adding."}], "encrypted_content": "e"}),
        json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"bc\"]}", "call_id": "c1"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "4"}),
        json!({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c2"}),
        json!({"type": "ghost_snapshot"}),
        message("assistant", "output_text", "Four."),
    ];
    let mut current_format = vec![
        line("session_meta", json!({"id": "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5", "cwd": "/tmp/x", "timestamp": at})),
        line("turn_context", json!({"model": "gpt-x"})),
    ];
    current_format.extend(items.iter().map(|item| line("response_item", item.clone())));
    current_format.push(line("event_msg", json!({"type": "agent_message", "message": "Four."})));
    current_format.push(line(
        "event_msg",
        json!({"type": "token_count", "info": {"last_token_usage": {
        "input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 9, "reasoning_output_tokens": 3}}}),
    ));
    let found = read(lines(&current_format).as_bytes(), ForeignFormat::Codex).unwrap();
    check_invariants(&found);
    let notice = notice("Codex");
    let common = [
        "turn",
        &notice,
        "person: Two and two?",
        "thought: Adding.",
        "call: shell {\"command\":[\"bc\"]}",
        "result: shell 4",
        "call: shell {}",
        "model: Four.",
    ];
    let end = ["result: shell the history has no result for this call E_UNKNOWN_OUTCOME", "end: Four."];
    assert_eq!(describe_events(&found.events), [&common[..], &["usage: gpt-x 100 40 9"], &end].concat());
    assert_eq!(found.left_out, ["1 × ghost_snapshot", "1 × program message"]);

    let mut old_format = vec![json!({"id": "abc", "timestamp": at, "instructions": null})];
    old_format.extend(items);
    let found = read(lines(&old_format).as_bytes(), ForeignFormat::Codex).unwrap();
    check_invariants(&found);
    assert_eq!(describe_events(&found.events), [&common[..], &end].concat());
}

#[test]
fn opencode_export_is_read() {
    let export = json!({
        "info": {"id": "ses_1", "title": "Greeting  test", "directory": "/home/me/app", "time": {"created": 1_769_860_800_000_u64}},
        "messages": [
            {"info": {"role": "user", "time": {"created": 1_769_860_801_000_u64}},
             "parts": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "a note", "synthetic": true}]},
            {"info": {"role": "assistant", "modelID": "m-1", "cost": 0.0125, "time": {"created": 1_769_860_802_000_u64},
                      "tokens": {"input": 10, "output": 3, "reasoning": 2, "cache": {"read": 80, "write": 5}}},
             "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "Think."},
                {"type": "tool", "callID": "t1", "tool": "bash", "state": {"status": "completed", "input": {"command": "ls"}, "output": "a.txt"}},
                {"type": "tool", "callID": "t2", "tool": "read", "state": {"status": "error", "input": {}, "error": "gone"}},
                {"type": "patch"},
                {"type": "text", "text": "Hi."},
                {"type": "step-finish"}]}
        ]
    });
    let text = format!("Exporting session: ses_1\n{export:#}\n");
    let found = read(text.as_bytes(), ForeignFormat::OpenCode).unwrap();
    check_invariants(&found);
    assert_eq!(
        describe_events(&found.events)[2..],
        [
            "person: Hello",
            "thought: Think.",
            "call: bash {\"command\":\"ls\"}",
            "result: bash a.txt",
            "call: read {}",
            "result: read gone E_TOOL",
            "model: Hi.",
            "usage: m-1 95 80 5",
            "end: Hi.",
            "title"
        ]
    );
    assert_eq!(found.left_out, ["1 × patch", "1 × program note"]);
    let cost = found.events.iter().find_map(|event| match &event.kind {
        EventKind::UsageUpdated { usage, .. } => usage.cost_microusd,
        _ => None,
    });
    assert_eq!(cost, Some(12_500));
}

#[test]
fn duplicate_call_ids_and_wrong_clocks_are_tolerated() {
    let line = |at: &str, payload: Value| json!({"timestamp": at, "type": "response_item", "payload": payload});
    let (at, never) = ("2026-01-31T12:00:00Z", "2199-01-01T00:00:00Z");
    let call = json!({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": null});
    let output = json!({"type": "function_call_output", "call_id": null, "output": "4"});
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Two and two?"}]});
    let history = [line(never, user), line(at, call.clone()), line(at, call), line(at, output)];
    let found = read(lines(&history).as_bytes(), ForeignFormat::Codex).unwrap();
    check_invariants(&found);
    assert_eq!(found.left_out, Vec::<String>::new());
    assert_eq!(found.events.last().unwrap().at, at.parse().unwrap());
}

#[test]
fn files_without_a_history_are_rejected() {
    let read_error = |text: &[u8], format| read(text, format).unwrap_err();
    for format in [ForeignFormat::ClaudeCode, ForeignFormat::Codex] {
        assert!(matches!(read_error(b"", format), ArchiveError::Hostile(_)));
        assert!(matches!(read_error(b"\x1f\x8b\0\xff\n{}\n[]\n7\n", format), ArchiveError::Hostile(_)));
    }
    for text in ["", "{}", "{\"info\": {}, \"messages\": 7}", "[1]"] {
        assert!(matches!(read_error(text.as_bytes(), ForeignFormat::OpenCode), ArchiveError::Foreign(_)), "{text}");
    }
    let database = read_error(&[b"SQLite format 3\0".as_slice(), &[0xff; 4000]].concat(), ForeignFormat::OpenCode);
    assert!(database.to_string().contains("import the output of `opencode export SESSION`"), "{database}");
}

#[test]
fn long_text_is_truncated_and_long_lines_skipped() {
    let words = "ö".repeat(100_000);
    let line = json!({"type": "user", "sessionId": "s", "message": {"content": words}}).to_string();
    let found = read(line.as_bytes(), ForeignFormat::ClaudeCode).unwrap();
    let message = describe_events(&found.events).into_iter().find(|line| line.starts_with("person")).unwrap();
    assert!(message.len() < 101_000 && message.contains("more bytes omitted"), "{}", message.len());
    let endless = format!("{}\n{}\n", "x".repeat(33 << 20), line);
    let found = read(endless.as_bytes(), ForeignFormat::ClaudeCode).unwrap();
    assert_eq!(found.left_out, ["1 × unreadable line"]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "(user|assistant|message|text|tool_use|tool_result|t1|[a-z]{0,3}|2026-01-31T12:00:00Z)".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = "(type|message|content|role|payload|id|call_id|tool_use_id|name|input|text|info|messages|parts|state|\
                   usage|timestamp|arguments|output|summary|time|created|tokens|tool|callID|status)";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(key, inner, 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_foreign_history_is_read_or_rejected(all in proptest::collection::vec(any_json(), 0..8)) {
        for format in [ForeignFormat::ClaudeCode, ForeignFormat::Codex, ForeignFormat::OpenCode] {
            if let Ok(history) = read(lines(&all).as_bytes(), format) {
                check_invariants(&history);
            }
        }
    }
}
