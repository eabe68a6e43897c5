//! Words, arguments and results, which are sent only where a person asks for it.

use agentd_trace::{ModelCallSpan, Span, SpanKind, ToolSpan, TurnTrace};
use serde_json::{Value, json};

use crate::{names, otlp::attributes::KeyValue};

/// Bytes of one text at the most.
const LONGEST: usize = 16 << 10;

/// Input and answer of a turn.
pub(crate) fn of_turn(turn: &TurnTrace) -> Vec<KeyValue> {
    let said = |span: &Span| match &span.kind {
        SpanKind::Input { text, .. } => Some(message("user", vec![part("text", text)])),
        _ => None,
    };
    let input: Vec<Value> = turn.spans.iter().filter_map(said).collect();
    let answer = turn.outcome.as_ref().map(|end| {
        let finish = if end.error.is_some() { "error" } else { "stop" };
        said_by_model(vec![part("text", &end.text)], finish)
    });
    let mut attributes = vec![KeyValue::new(names::INPUT_MESSAGES, Value::Array(input).to_string())];
    attributes.extend(answer.map(|answer| KeyValue::new(names::OUTPUT_MESSAGES, json!([answer]).to_string())));
    attributes
}

/// Answer of a model call: its words, and the calls that it asked for. A compaction asks for none, though it has the step of the
/// call before it.
pub(crate) fn of_call(turn: &TurnTrace, span: &Span, call: &ModelCallSpan) -> Vec<KeyValue> {
    let is_of_turn = turn.spans.iter().any(|own| own.id == span.id);
    let words = span.children.iter().filter_map(|child| match &child.kind {
        SpanKind::Message { text } => Some(part("text", text)),
        SpanKind::Reasoning { text } => Some(part("reasoning", text)),
        _ => None,
    });
    let calls = turn.spans.iter().filter_map(|span| match &span.kind {
        SpanKind::Tool(tool) if is_of_turn && tool.step == call.step => {
            let arguments = cut(&tool.arguments);
            let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
            Some(json!({"type": "tool_call", "id": tool.call_id, "name": tool.name, "arguments": arguments}))
        }
        _ => None,
    });
    let calls: Vec<Value> = calls.collect();
    let finish = match calls.is_empty() {
        _ if call.error.is_some() || span.is_open => "error",
        true => "stop",
        false => "tool_call",
    };
    let parts: Vec<Value> = words.chain(calls).collect();
    vec![KeyValue::new(names::OUTPUT_MESSAGES, json!([said_by_model(parts, finish)]).to_string())]
}

/// Arguments and result of a tool call.
pub(crate) fn of_tool(tool: &ToolSpan) -> Vec<KeyValue> {
    let arguments = tool.ran_with.as_ref().unwrap_or(&tool.arguments);
    vec![KeyValue::new(names::TOOL_ARGUMENTS, cut(arguments)), KeyValue::new(names::TOOL_RESULT, cut(&tool.text))]
}

/// The beginning of a text.
pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

fn message(role: &str, parts: Vec<Value>) -> Value {
    json!({"role": role, "parts": parts})
}

fn said_by_model(parts: Vec<Value>, finish: &str) -> Value {
    json!({"role": "assistant", "parts": parts, "finish_reason": finish})
}

fn part(kind: &str, text: &str) -> Value {
    json!({"type": kind, "content": cut(text)})
}
