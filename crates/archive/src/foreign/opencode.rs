//! Histories of OpenCode in the format of `opencode export`: one object with the messages and their parts.

use std::io::Read;

use agentd_core::{Timestamp, usage::Usage};
use serde_json::Value;

use super::{
    history::HistoryBuilder,
    lines::{arguments, joined_text, list, number, text},
};
use crate::ArchiveError;

/// Magic bytes of the database in which OpenCode stores its sessions.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

pub(super) fn read(source: &mut impl Read, history: &mut HistoryBuilder) -> Result<(), ArchiveError> {
    let mut bytes = Vec::new();
    source.by_ref().take(SQLITE_MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes == SQLITE_MAGIC {
        return Err(ArchiveError::Foreign("it is a database; import the output of `opencode export SESSION`"));
    }
    source.read_to_end(&mut bytes)?;
    // OpenCode prints a status message to the same stream before the object.
    let start = bytes.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let session: Value = serde_json::from_slice(&bytes[start..])
        .map_err(|_| ArchiveError::Foreign("it is not complete output of `opencode export`"))?;
    let info = &session["info"];
    if info.is_null() || !session["messages"].is_array() {
        return Err(ArchiveError::Foreign("it has no messages"));
    }
    text(info, "id").clone_into(&mut history.foreign_id);
    text(info, "title").clone_into(&mut history.title);
    text(info, "directory").clone_into(&mut history.folder);
    history.set_time(timestamp_millis(&info["time"], "created"));
    list(&session, "messages").iter().for_each(|message| read_message(message, history));
    Ok(())
}

fn timestamp_millis(value: &Value, field: &str) -> Option<Timestamp> {
    let millis = value[field].as_f64().filter(|millis| (0.0..4.0e12).contains(millis))?;
    Timestamp::from_millisecond(millis as i64).ok()
}

fn read_message(message: &Value, history: &mut HistoryBuilder) {
    let info = &message["info"];
    let time = &info["time"];
    history.set_time(timestamp_millis(time, "created"));
    if text(info, "role") == "user" {
        let mut texts = Vec::new();
        for part in list(message, "parts") {
            match text(part, "type") {
                "text" if part["synthetic"] == true => history.skip("program note"),
                "text" => texts.push(text(part, "text")),
                other => history.skip(other),
            }
        }
        return history.user_message(&texts.join("\n"));
    }
    if text(info, "role") != "assistant" {
        return history.skip("message without role");
    }
    history.model(text(info, "modelID"));
    list(message, "parts").iter().for_each(|part| answer(part, history));
    history.set_time(timestamp_millis(time, "completed"));
    if !info["tokens"].is_null() {
        count(&info["tokens"], info["cost"].as_f64(), history);
    }
}

fn answer(part: &Value, history: &mut HistoryBuilder) {
    match text(part, "type") {
        "text" => history.assistant_message(text(part, "text")),
        "reasoning" => history.reasoning(text(part, "text")),
        "tool" => {
            let (state, id) = (&part["state"], text(part, "callID"));
            history.call(id, text(part, "tool"), arguments(state, "input"));
            history.exit(id, state["metadata"]["exit"].as_i64());
            match text(state, "status") {
                "completed" => history.result(id, &joined_text(&state["output"]), false),
                "error" => history.result(id, text(state, "error"), true),
                // Calls in other states have no result.
                _ => {}
            }
        }
        // Steps are derived from the items.
        "step-start" | "step-finish" => {}
        other => history.skip(other),
    }
}

fn count(tokens: &Value, cost: Option<f64>, history: &mut HistoryBuilder) {
    let cache = &tokens["cache"];
    let (read, written) = (number(cache, "read"), number(cache, "write"));
    let cost = cost.filter(|cost| (0.0..1.0e6).contains(cost) && *cost > 0.0);
    history.usage(Usage::of_call(Some(Usage {
        prompt_tokens: number(tokens, "input").saturating_add(read).saturating_add(written),
        cached_tokens: read,
        cache_write_tokens: written,
        completion_tokens: number(tokens, "output").saturating_add(number(tokens, "reasoning")),
        reasoning_tokens: number(tokens, "reasoning"),
        cost_microusd: cost.map(|cost| (cost * 1e6).round() as u64),
        ..Usage::default()
    })));
}
