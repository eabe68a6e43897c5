//! Spans of a turn: an `invoke_agent` span that contains `chat` and `execute_tool` spans. The `invoke_agent` span of a
//! subagent is inside the `execute_tool` span that started it. Questions, warnings and compactions are events of these
//! spans. Texts, arguments and results are only exported if configured.

use agentd_core::{Timestamp, interrupt::AnsweredBy, tool::ToolErrorCode, turn::StopReason, usage::Usage};
use agentd_trace::{InterruptSpan, ModelCallSpan, Span, SpanKind, ToolSpan, TurnTrace};
use serde_json::{Value, json};

use crate::{
    names::{self, TraceContext, span_id},
    otlp::{self, KeyValue},
};

/// Maximum length of a tool's name in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Returns the spans of a turn and of its subagents' turns.
pub fn of_turn(turn: &TurnTrace, context: &TraceContext, content: bool) -> Vec<otlp::Span> {
    let mut spans = SpanWriter { trace_id: context.trace_id, content, spans: Vec::new() };
    spans.turn(turn, context.parent);
    spans.spans
}

struct SpanWriter {
    trace_id: [u8; 16],
    content: bool,
    spans: Vec<otlp::Span>,
}

impl SpanWriter {
    fn turn(&mut self, turn: &TurnTrace, parent: Option<[u8; 8]>) {
        let id = span_id(turn.session_id, turn.turn_id, "turn");
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::INVOKE_AGENT),
            KeyValue::new(names::AGENT, turn.agent.as_str()),
            KeyValue::new(names::CONVERSATION, turn.session_id.to_string()),
            KeyValue::new("agentd.turn.id", turn.turn_id.to_string()),
            KeyValue::new(names::REQUEST_MODEL, turn.model.as_str()),
        ];
        add_usage(&mut attributes, &turn.usage);
        if turn.waited_ms > 0 {
            attributes.push(KeyValue::new(names::WAITED, seconds(turn.waited_ms)));
        }
        let outcome = turn.outcome.as_ref();
        attributes.extend(outcome.map(|end| KeyValue::new("agentd.stop_reason", variant_name(&end.reason))));
        let error = failure(turn);
        let message = outcome.and_then(|end| end.error.as_ref()).map(|error| error.message.as_str());
        if self.content {
            attributes.extend(turn_content(turn));
        }
        let name = format!("{} {}", names::INVOKE_AGENT, turn.agent);
        let kind = otlp::SpanKind::Internal;
        let at = self.add(kind, name, (id, parent), (turn.at, turn.end), attributes, (error.as_deref(), message));
        self.parts(turn, &turn.spans, id, at);
    }

    /// Adds a part of a turn. If the part is an event, it is added to the span with the index `owner`.
    fn part(&mut self, turn: &TurnTrace, span: &Span, parent: [u8; 8], owner: usize) {
        match &span.kind {
            SpanKind::ModelCall(call) => {
                let at = self.chat(turn, span, call, parent);
                self.parts(turn, &span.children, parent, at);
            }
            SpanKind::Tool(tool) => self.tool(turn, span, tool, parent),
            SpanKind::Subagent(work) => work.turns.iter().for_each(|turn| self.turn(turn, Some(parent))),
            SpanKind::Interrupt(interrupt) => self.event(owner, span, "agentd.interrupt", answer(interrupt)),
            SpanKind::Compaction { .. } => {
                self.event(owner, span, "agentd.compaction", Vec::new());
                self.parts(turn, &span.children, parent, owner);
            }
            SpanKind::Warning { code, .. } => {
                self.event(owner, span, "agentd.warning", vec![KeyValue::new("agentd.code", code.as_str())]);
            }
            SpanKind::Input { .. }
            | SpanKind::Message { .. }
            | SpanKind::Reasoning { .. }
            | SpanKind::Notice { .. }
            | SpanKind::Choice { .. } => {}
        }
    }

    fn parts(&mut self, turn: &TurnTrace, spans: &[Span], parent: [u8; 8], owner: usize) {
        for span in spans {
            self.part(turn, span, parent, owner);
        }
    }

    fn chat(&mut self, turn: &TurnTrace, span: &Span, call: &ModelCallSpan, parent: [u8; 8]) -> usize {
        let mut attributes = call_attributes(turn, &call.model, call.server.as_deref(), &call.usage);
        attributes.push(KeyValue::new("gen_ai.request.stream", true));
        attributes.push(KeyValue::new(names::STEP, u64::from(call.step)));
        attributes.extend(call.slot.map(|slot| KeyValue::new("agentd.slot", slot.as_str())));
        if let Some(first) = call.first_token_ms {
            attributes.push(KeyValue::new("gen_ai.response.time_to_first_chunk", seconds(first)));
        }
        if call.retries > 0 {
            attributes.push(KeyValue::new("agentd.retries", u64::from(call.retries)));
        }
        if call.is_estimated {
            attributes.push(KeyValue::new("agentd.estimated", true));
        }
        if self.content {
            attributes.extend(call_content(turn, span, call));
        }
        let id = span_id(turn.session_id, turn.turn_id, &span.id);
        let (name, error) = (format!("{} {}", names::CHAT, call.model), (call_failure(span, call), None));
        self.add(otlp::SpanKind::Client, name, (id, Some(parent)), (span.at, span.end), attributes, error)
    }

    fn tool(&mut self, turn: &TurnTrace, span: &Span, tool: &ToolSpan, parent: [u8; 8]) {
        let id = span_id(turn.session_id, turn.turn_id, &span.id);
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::EXECUTE_TOOL),
            KeyValue::new(names::TOOL, tool_name(tool)),
            KeyValue::new("gen_ai.tool.type", "function"),
            KeyValue::new("gen_ai.tool.call.id", tool.call_id.as_str()),
            KeyValue::new(names::CONVERSATION, turn.session_id.to_string()),
            KeyValue::new(names::STEP, u64::from(tool.step)),
        ];
        if tool.name.starts_with(names::MCP_PREFIX) {
            attributes.push(KeyValue::new("mcp.method.name", "tools/call"));
        }
        if let Some(code) = tool.exit_code {
            attributes.push(KeyValue::new("process.exit.code", i64::from(code)));
        }
        if self.content {
            attributes.extend(tool_content(tool));
        }
        let (name, times) = (format!("{} {}", names::EXECUTE_TOOL, tool_name(tool)), (span.at, span.end));
        let (kind, error) = (otlp::SpanKind::Internal, (tool_failure(span, tool), None));
        let at = self.add(kind, name, (id, Some(parent)), times, attributes, error);
        // Model usage of the tool itself, through sampling.
        if tool.sampled != Usage::default() {
            let attributes = call_attributes(turn, &turn.model, None, &tool.sampled);
            let own = span_id(turn.session_id, turn.turn_id, &format!("{} sampled", span.id));
            let name = format!("{} {}", names::CHAT, turn.model);
            self.add(otlp::SpanKind::Client, name, (own, Some(id)), times, attributes, (None, None));
        }
        self.parts(turn, &span.children, id, at);
    }

    /// Adds a span and returns its index. A span with an error is marked as failed. The error message is content, so it
    /// is only exported if configured.
    fn add(
        &mut self,
        kind: otlp::SpanKind,
        name: String,
        (id, parent): ([u8; 8], Option<[u8; 8]>),
        (at, end): (Timestamp, Timestamp),
        mut attributes: Vec<KeyValue>,
        (error, message): (Option<&str>, Option<&str>),
    ) -> usize {
        attributes.extend(error.map(|error| KeyValue::new(names::ERROR, error)));
        let message = message.filter(|_| self.content).map(truncate_text).unwrap_or_default();
        let status = error.map(|_| otlp::Status { message, code: otlp::StatusCode::Error.into() });
        self.spans.push(otlp::Span {
            trace_id: self.trace_id.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: parent.map_or_else(Vec::new, |id| id.to_vec()),
            name,
            kind: kind.into(),
            start_ns: nanoseconds(at),
            end_ns: nanoseconds(end),
            attributes,
            events: Vec::new(),
            status,
        });
        self.spans.len() - 1
    }

    fn event(&mut self, owner: usize, span: &Span, name: &str, mut attributes: Vec<KeyValue>) {
        if span.duration_ms() > 0 {
            attributes.push(KeyValue::new(names::WAITED, seconds(span.duration_ms())));
        }
        if let Some(owner) = self.spans.get_mut(owner) {
            let time_ns = nanoseconds(span.at);
            owner.events.push(otlp::SpanEvent { time_ns, name: name.to_owned(), attributes });
        }
    }
}

fn call_attributes(turn: &TurnTrace, model: &str, server: Option<&str>, usage: &Usage) -> Vec<KeyValue> {
    let (host, port) = address(server.unwrap_or_default());
    let mut attributes = vec![
        KeyValue::new(names::OPERATION, names::CHAT),
        KeyValue::new(names::PROVIDER, names::provider(host)),
        KeyValue::new(names::REQUEST_MODEL, model),
        KeyValue::new(names::CONVERSATION, turn.session_id.to_string()),
    ];
    if let Some(port) = port {
        attributes.push(KeyValue::new("server.address", host));
        attributes.push(KeyValue::new("server.port", port));
    }
    add_usage(&mut attributes, usage);
    attributes
}

/// Returns the host and port of a server. The port is `None` if the text is not an address, such as the name of a wire.
pub(crate) fn address(server: &str) -> (&str, Option<u64>) {
    match server.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host.trim_matches(['[', ']']), port.parse().ok()),
        _ if server.contains('.') => (server, Some(443)),
        _ => (server, None),
    }
}

fn add_usage(attributes: &mut Vec<KeyValue>, usage: &Usage) {
    attributes.push(KeyValue::new("gen_ai.usage.input_tokens", usage.prompt_tokens));
    attributes.push(KeyValue::new("gen_ai.usage.output_tokens", usage.completion_tokens));
    for (name, tokens) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
        ("gen_ai.usage.cache_write.input_tokens", usage.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
    ] {
        if tokens > 0 {
            attributes.push(KeyValue::new(name, tokens));
        }
    }
    attributes.extend(usage.cost_microusd.map(|cost| KeyValue::new("agentd.cost.usd", dollars(cost))));
}

fn answer(interrupt: &InterruptSpan) -> Vec<KeyValue> {
    let answer = interrupt.answer.as_ref().and_then(|answer| {
        let answer = serde_json::to_value(answer).ok()?;
        Some(answer.get("answer")?.as_str()?.to_owned())
    });
    let by = match &interrupt.by {
        Some(AnsweredBy::Client(name)) => Some(name.as_str()),
        Some(AnsweredBy::Deadline) => Some("deadline"),
        Some(AnsweredBy::Daemon) => Some("daemon"),
        None => None,
    };
    let answer = answer.map(|answer| KeyValue::new("agentd.interrupt.answer", answer));
    answer.into_iter().chain(by.map(|by| KeyValue::new("agentd.interrupt.by", by))).collect()
}

/// Returns the kind of error of a turn that did not complete.
pub(crate) fn failure(turn: &TurnTrace) -> Option<String> {
    let Some(end) = &turn.outcome else { return Some("interrupted".to_owned()) };
    let error = end.error.as_ref().map(|error| variant_name(&error.kind));
    error.or_else(|| (end.reason != StopReason::Completed).then(|| variant_name(&end.reason)))
}

/// Returns the kind of error of a model call.
pub(crate) fn call_failure<'a>(span: &Span, call: &'a ModelCallSpan) -> Option<&'a str> {
    call.error.as_deref().or_else(|| span.is_open.then_some("interrupted"))
}

/// Returns the name of a tool. Models may call tools by any name: an unknown name is content, so it is not exported.
pub(crate) fn tool_name(tool: &ToolSpan) -> &str {
    match tool.error {
        Some(ToolErrorCode::UnknownTool) => "unknown",
        _ => &tool.name[..tool.name.floor_char_boundary(MAX_NAME_BYTES)],
    }
}

/// Returns the kind of error of a tool call.
pub(crate) fn tool_failure(span: &Span, tool: &ToolSpan) -> Option<&'static str> {
    match (tool.error, tool.exit_code) {
        (Some(code), _) => Some(code.as_str()),
        (None, Some(code)) if code != 0 => Some("exit_code"),
        _ => span.is_open.then_some("interrupted"),
    }
}

/// Returns the name of a unit variant, as in JSON.
fn variant_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "times and money for display, far below 2^52")]
pub(crate) fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "times and money for display, far below 2^52")]
pub(crate) fn dollars(microusd: u64) -> f64 {
    microusd as f64 / 1_000_000.0
}

pub(crate) fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or(0)
}

/// Maximum length of exported text in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;

fn turn_content(turn: &TurnTrace) -> Vec<KeyValue> {
    let input_message = |span: &Span| match &span.kind {
        SpanKind::Input { text, .. } => Some(message("user", vec![part("text", text)])),
        _ => None,
    };
    let input: Vec<Value> = turn.spans.iter().filter_map(input_message).collect();
    let answer = turn.outcome.as_ref().map(|end| {
        let finish = if end.error.is_some() { "error" } else { "stop" };
        assistant_message(vec![part("text", &end.text)], finish)
    });
    let mut attributes = vec![KeyValue::new("gen_ai.input.messages", Value::Array(input).to_string())];
    attributes.extend(answer.map(|answer| KeyValue::new(names::OUTPUT_MESSAGES, json!([answer]).to_string())));
    attributes
}

/// Returns the answer from a model call: its text and the calls that it requested. A compaction requests no calls,
/// although it has the step number of the previous call.
fn call_content(turn: &TurnTrace, span: &Span, call: &ModelCallSpan) -> Vec<KeyValue> {
    let is_of_turn = turn.spans.iter().any(|own| own.id == span.id);
    let texts = span.children.iter().filter_map(|child| match &child.kind {
        SpanKind::Message { text } => Some(part("text", text)),
        SpanKind::Reasoning { text } => Some(part("reasoning", text)),
        _ => None,
    });
    let calls = turn.spans.iter().filter_map(|span| match &span.kind {
        SpanKind::Tool(tool) if is_of_turn && tool.step == call.step => {
            let arguments = truncate_text(&tool.arguments);
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
    let parts: Vec<Value> = texts.chain(calls).collect();
    vec![KeyValue::new(names::OUTPUT_MESSAGES, json!([assistant_message(parts, finish)]).to_string())]
}

fn tool_content(tool: &ToolSpan) -> Vec<KeyValue> {
    let arguments = tool.ran_with.as_ref().unwrap_or(&tool.arguments);
    vec![
        KeyValue::new("gen_ai.tool.call.arguments", truncate_text(arguments)),
        KeyValue::new("gen_ai.tool.call.result", truncate_text(&tool.text)),
    ]
}

/// Truncates the text to the limit.
fn truncate_text(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

fn message(role: &str, parts: Vec<Value>) -> Value {
    json!({"role": role, "parts": parts})
}

fn assistant_message(parts: Vec<Value>, finish: &str) -> Value {
    json!({"role": "assistant", "parts": parts, "finish_reason": finish})
}

fn part(kind: &str, text: &str) -> Value {
    json!({"type": kind, "content": truncate_text(text)})
}
