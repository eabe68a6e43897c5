//! Histories of Claude Code: a line for each message, with blocks of the Messages API in it.
//!
//! An answer is written in several lines with the same id, one a block, and each repeats the usage of the whole.

use std::io::Read;

use agentd_core::usage::Usage;
use serde_json::Value;

use super::{
    history::HistoryBuilder,
    lines::{self, Line, arguments, joined, list, moment, number, text},
};
use crate::ArchiveError;

pub(super) fn read(source: &mut impl Read, history: &mut HistoryBuilder) -> Result<(), ArchiveError> {
    let mut reading = Reading { history, counted: String::new() };
    lines::each(source, |line| match line {
        Line::Value(line) => reading.line(&line),
        Line::Broken => reading.history.leave_out("unreadable line"),
    })
}

struct Reading<'a> {
    history: &'a mut HistoryBuilder,
    /// Id of the answer whose usage was counted last.
    counted: String,
}

impl Reading<'_> {
    fn line(&mut self, line: &Value) {
        let kind = text(line, "type");
        if kind == "summary" && self.history.title.is_empty() {
            text(line, "summary").clone_into(&mut self.history.title);
            return;
        }
        if kind == "custom-title" || kind == "ai-title" {
            let title = [text(line, "customTitle"), text(line, "aiTitle")].into_iter().find(|title| !title.is_empty());
            title.unwrap_or_default().clone_into(&mut self.history.title);
            return;
        }
        if !matches!(kind, "user" | "assistant") {
            return self.history.leave_out(if kind.is_empty() { "line without a type" } else { kind });
        }
        if line["isSidechain"] == true {
            return self.history.leave_out("message of a subagent");
        }
        if self.history.foreign_id.is_empty() {
            text(line, "sessionId").clone_into(&mut self.history.foreign_id);
            text(line, "cwd").clone_into(&mut self.history.folder);
        }
        self.history.now(moment(line, "timestamp"));
        let Some(message) = line.get("message") else { return self.history.leave_out("message without content") };
        if kind == "assistant" {
            self.answer(message);
        } else if line["isCompactSummary"] == true {
            self.history.summary(&joined(&message["content"]));
        } else if line["isMeta"] == true {
            self.history.leave_out("note of the program");
        } else {
            self.person(message);
        }
    }

    fn person(&mut self, message: &Value) {
        if let Some(words) = message["content"].as_str() {
            return self.history.person(words);
        }
        let mut words = Vec::new();
        for block in list(message, "content") {
            match text(block, "type") {
                "text" => words.push(text(block, "text")),
                "tool_result" => {
                    let content = joined(&block["content"]);
                    self.history.result(text(block, "tool_use_id"), &content, block["is_error"] == true);
                }
                other => self.history.leave_out(other),
            }
        }
        self.history.person(&words.join("\n"));
    }

    fn answer(&mut self, message: &Value) {
        self.history.model(text(message, "model"));
        for block in list(message, "content") {
            match text(block, "type") {
                "text" => self.history.agent(text(block, "text")),
                "thinking" => self.history.thought(text(block, "thinking")),
                "tool_use" => {
                    self.history.call(text(block, "id"), text(block, "name"), arguments(block, "input"));
                }
                other => self.history.leave_out(other),
            }
        }
        let id = text(message, "id");
        let usage = &message["usage"];
        if usage.is_object() && (id.is_empty() || id != self.counted) {
            id.clone_into(&mut self.counted);
            let (read, written) =
                (number(usage, "cache_read_input_tokens"), number(usage, "cache_creation_input_tokens"));
            self.history.usage(Usage::of_call(Some(Usage {
                prompt_tokens: number(usage, "input_tokens").saturating_add(read).saturating_add(written),
                cached_tokens: read,
                cache_write_tokens: written,
                completion_tokens: number(usage, "output_tokens"),
                ..Usage::default()
            })));
        }
    }
}
