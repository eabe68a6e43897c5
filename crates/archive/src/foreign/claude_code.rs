//! Histories of Claude Code: one line per message, which contains content blocks of the Messages API.
//!
//! An answer is written as several lines with the same ID, one per block. Each line repeats the usage of the whole
//! answer.

use std::io::Read;

use agentd_core::usage::Usage;
use serde_json::Value;

use super::{
    history::HistoryBuilder,
    lines::{self, arguments, joined_text, list, number, text, timestamp},
};
use crate::ArchiveError;

pub(super) fn read(source: &mut impl Read, history: &mut HistoryBuilder) -> Result<(), ArchiveError> {
    let mut counted = String::new();
    lines::each(source, history, |line, history| read_message(line, history, &mut counted))
}

/// Reads the next line. `counted` is the ID of the last answer whose usage was counted.
fn read_message(line: &Value, history: &mut HistoryBuilder, counted: &mut String) {
    let kind = text(line, "type");
    if kind == "summary" && history.title.is_empty() {
        text(line, "summary").clone_into(&mut history.title);
        return;
    }
    if kind == "custom-title" || kind == "ai-title" {
        let title = [text(line, "customTitle"), text(line, "aiTitle")].into_iter().find(|title| !title.is_empty());
        title.unwrap_or_default().clone_into(&mut history.title);
        return;
    }
    if !matches!(kind, "user" | "assistant") {
        return history.skip(if kind.is_empty() { "line without a type" } else { kind });
    }
    if line["isSidechain"] == true {
        return history.skip("subagent message");
    }
    if history.foreign_id.is_empty() {
        text(line, "sessionId").clone_into(&mut history.foreign_id);
        text(line, "cwd").clone_into(&mut history.folder);
    }
    history.set_time(timestamp(line, "timestamp"));
    let Some(message) = line.get("message") else { return history.skip("message without content") };
    if kind == "assistant" {
        answer(message, history, counted);
    } else if line["isCompactSummary"] == true {
        history.summary(&joined_text(&message["content"]));
    } else if line["isMeta"] == true {
        history.skip("program note");
    } else {
        user_message(message, history);
    }
}

fn user_message(message: &Value, history: &mut HistoryBuilder) {
    if let Some(texts) = message["content"].as_str() {
        return history.user_message(texts);
    }
    let mut texts = Vec::new();
    for block in list(message, "content") {
        match text(block, "type") {
            "text" => texts.push(text(block, "text")),
            "tool_result" => {
                let content = joined_text(&block["content"]);
                history.result(text(block, "tool_use_id"), &content, block["is_error"] == true);
            }
            other => history.skip(other),
        }
    }
    history.user_message(&texts.join("\n"));
}

fn answer(message: &Value, history: &mut HistoryBuilder, counted: &mut String) {
    history.model(text(message, "model"));
    for block in list(message, "content") {
        match text(block, "type") {
            "text" => history.assistant_message(text(block, "text")),
            "thinking" => history.reasoning(text(block, "thinking")),
            "tool_use" => history.call(text(block, "id"), text(block, "name"), arguments(block, "input")),
            other => history.skip(other),
        }
    }
    let id = text(message, "id");
    let usage = &message["usage"];
    if usage.is_object() && (id.is_empty() || id != counted) {
        id.clone_into(counted);
        let (read, written) = (number(usage, "cache_read_input_tokens"), number(usage, "cache_creation_input_tokens"));
        history.usage(Usage::of_call(Some(Usage {
            prompt_tokens: number(usage, "input_tokens").saturating_add(read).saturating_add(written),
            cached_tokens: read,
            cache_write_tokens: written,
            completion_tokens: number(usage, "output_tokens"),
            ..Usage::default()
        })));
    }
}
