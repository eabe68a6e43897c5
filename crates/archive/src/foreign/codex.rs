//! Histories of Codex: one line per item of the Responses API, mixed with events. Earlier versions wrote items without
//! an envelope.

use agentd_core::usage::Usage;
use serde_json::{Value, json};

use super::{
    history::HistoryBuilder,
    lines::{arguments, joined_text, list, number, text, timestamp},
};

/// Prefixes of user messages that Codex inserts.
const PROGRAM_PREFIXES: [&str; 5] =
    ["<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>", "<permissions"];

pub(super) fn read_message(line: &Value, history: &mut HistoryBuilder) {
    history.set_time(timestamp(line, "timestamp"));
    let (kind, payload) = match line.get("payload") {
        Some(payload) => (text(line, "type"), payload),
        // Without an envelope, the line is the session's metadata or an item.
        None if text(line, "type").is_empty() && line.get("id").is_some() => ("session_meta", line),
        None => ("response_item", line),
    };
    match kind {
        "session_meta" => {
            text(payload, "id").clone_into(&mut history.foreign_id);
            text(payload, "cwd").clone_into(&mut history.folder);
            history.set_time(timestamp(payload, "timestamp"));
        }
        "turn_context" => history.model(text(payload, "model")),
        "response_item" => item(payload, history),
        "compacted" => history.summary(text(payload, "message")),
        "event_msg" => event(payload, history),
        // Internal records. Events also report token usage.
        "token_usage_record" | "world_state" | "id_allocation" | "security_risk_score" => {}
        other => history.skip(if other.is_empty() { "line without a type" } else { other }),
    }
}

fn item(item: &Value, history: &mut HistoryBuilder) {
    let output =
        |field: &str| joined_text(if item[field].is_object() { &item[field]["content"] } else { &item[field] });
    match text(item, "type") {
        "message" => {
            let texts = joined_text(&item["content"]);
            match text(item, "role") {
                "assistant" => history.assistant_message(&texts),
                "user" if !PROGRAM_PREFIXES.iter().any(|start| texts.trim_start().starts_with(start)) => {
                    history.user_message(&texts);
                }
                _ => history.skip("program message"),
            }
        }
        "reasoning" => {
            let summary: Vec<&str> = list(item, "summary").iter().map(|part| text(part, "text")).collect();
            history.reasoning(&summary.join("\n"));
        }
        "function_call" => history.call(text(item, "call_id"), text(item, "name"), text(item, "arguments").to_owned()),
        "custom_tool_call" => {
            let arguments = json!({ "input": text(item, "input") }).to_string();
            history.call(text(item, "call_id"), text(item, "name"), arguments);
        }
        "local_shell_call" => history.call(text(item, "call_id"), "local_shell", arguments(item, "action")),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            history.result(text(item, "call_id"), &output("output"), false);
        }
        other => history.skip(if other.is_empty() { "item without a type" } else { other }),
    }
}

/// Reads an event. Only token counts and exit codes add information to the items.
fn event(event: &Value, history: &mut HistoryBuilder) {
    match text(event, "type") {
        "token_count" => count(event, history),
        "item_completed" => {
            let item = &event["item"];
            history.exit(text(item, "id"), item["exit_code"].as_i64());
        }
        "exec_command_end" => history.exit(text(event, "call_id"), event["exit_code"].as_i64()),
        _ => {}
    }
}

fn count(event: &Value, history: &mut HistoryBuilder) {
    let usage = &event["info"]["last_token_usage"];
    if usage.is_null() {
        return;
    }
    history.usage(Usage::of_call(Some(Usage {
        prompt_tokens: number(usage, "input_tokens"),
        cached_tokens: number(usage, "cached_input_tokens"),
        completion_tokens: number(usage, "output_tokens"),
        reasoning_tokens: number(usage, "reasoning_output_tokens"),
        ..Usage::default()
    })));
}
