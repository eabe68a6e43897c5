//! Exports a session as an Agent Trajectory Interchange Format document: steps of the user, the model and the daemon. A
//! model call and the results of its tools form one step.
//!
//! Subagents are not included, because the format has a separate trajectory for each.

use std::io::{self, Write};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    item::{Item, ItemBody},
    session::SessionSummary,
    usage::Usage,
    visible,
};
use serde_json::{Map, Value, json};

use super::EventWriter;

/// Version of the format.
const VERSION: &str = "ATIF-v1.4";
/// Number of micro-dollars in a dollar.
const MICROS_PER_DOLLAR: f64 = 1e6;

/// Writes a trajectory step by step.
pub(super) struct Atif<'a> {
    out: &'a mut (dyn Write + Send),
    session: Option<SessionId>,
    has_head: bool,
    model: String,
    steps: u64,
    /// The model's step in progress, which is not written yet.
    open: Option<AgentStep>,
    total: Usage,
    /// Usage of a call whose step has not started yet.
    pending: Option<Usage>,
}

/// Kind of content added to a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepPart {
    Reasoning,
    Message,
    Call,
}

/// A model call with the results of its tools.
#[derive(Default)]
struct AgentStep {
    at: String,
    model: String,
    message: String,
    reasoning: String,
    calls: Vec<Value>,
    results: Vec<Value>,
    usage: Option<Usage>,
    /// Steps that occurred while the call's tools ran. They are written after this step.
    following: Vec<Value>,
}

impl<'a> Atif<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        let (model, total) = (String::new(), Usage::default());
        Self { out, session: None, has_head: false, model, steps: 0, open: None, total, pending: None }
    }

    fn item(&mut self, at: &str, item: &Item) -> io::Result<()> {
        match &item.body {
            ItemBody::UserMessage { text, .. } => self.other("user", at, text)?,
            ItemBody::Notice { text, .. } => self.other("system", at, text)?,
            ItemBody::Compaction(compaction) => self.other("system", at, &compaction.summary)?,
            ItemBody::Reasoning { text } => append(&mut self.agent_step(at, StepPart::Reasoning)?.reasoning, text),
            ItemBody::AgentMessage { text } => append(&mut self.agent_step(at, StepPart::Message)?.message, text),
            ItemBody::ToolCall(call) => {
                let arguments = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
                let arguments = arguments.unwrap_or_else(|| json!({ "text": call.arguments }));
                let call = json!({ "tool_call_id": call.call_id, "function_name": call.name, "arguments": arguments });
                self.agent_step(at, StepPart::Call)?.calls.push(call);
            }
            ItemBody::ToolResult(result) => {
                if let Some(step) = &mut self.open {
                    step.results.push(json!({ "source_call_id": result.call_id, "content": result.text }));
                }
            }
        }
        Ok(())
    }

    /// Returns the model's current step. Starts a new step if this part cannot follow the content of the current one.
    fn agent_step(&mut self, at: &str, part: StepPart) -> io::Result<&mut AgentStep> {
        if self.open.as_ref().is_some_and(|step| step.is_before(part)) {
            self.close()?;
        }
        let (model, usage) = (self.model.clone(), self.pending.take());
        let begin = || AgentStep { at: at.to_owned(), model, usage, ..AgentStep::default() };
        Ok(self.open.get_or_insert_with(begin))
    }

    fn other(&mut self, source: &str, at: &str, text: &str) -> io::Result<()> {
        let step = json!({ "timestamp": at, "source": source, "message": text });
        match &mut self.open {
            Some(open) if open.results.len() < open.calls.len() => {
                open.following.push(step);
                Ok(())
            }
            _ => {
                self.close()?;
                self.step(step)
            }
        }
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(AgentStep { at, model, message, reasoning, calls, results, usage, following }) = self.open.take()
        else {
            return Ok(());
        };
        self.step(json!({
            "timestamp": at,
            "source": "agent",
            "message": message,
            "model_name": (!model.is_empty()).then_some(model),
            "reasoning_content": (!reasoning.is_empty()).then_some(reasoning),
            "tool_calls": (!calls.is_empty()).then_some(calls),
            "observation": (!results.is_empty()).then(|| json!({ "results": results })),
            "metrics": usage.as_ref().map(metrics),
        }))?;
        following.into_iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: Value) -> io::Result<()> {
        self.head()?;
        self.steps += 1;
        let mut numbered = Map::from_iter([("step_id".to_owned(), self.steps.into())]);
        if let Value::Object(fields) = step {
            // Null fields are omitted.
            numbered.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        let comma = if self.steps > 1 { ",\n" } else { "\n" };
        let text = visible::json(serde_json::to_string(&Value::Object(numbered))?);
        write!(self.out, "{comma}{text}")
    }

    fn head(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_head, true) {
            return Ok(());
        }
        let id = self.session.map(|id| id.to_string()).unwrap_or_default();
        let mut agent = json!({ "name": "agentd", "version": env!("CARGO_PKG_VERSION") });
        if !self.model.is_empty() {
            agent["model_name"] = self.model.clone().into();
        }
        let head = format!("{{\"schema_version\":{},\"session_id\":{},\"agent\":{}", json!(VERSION), json!(id), agent);
        write!(self.out, "{},\"steps\":[", visible::json(head))
    }
}

impl AgentStep {
    /// Returns true if the part belongs to a later call than this step.
    fn is_before(&self, part: StepPart) -> bool {
        let has_output = !self.message.is_empty() || !self.calls.is_empty();
        match part {
            _ if !self.results.is_empty() => true,
            StepPart::Reasoning => has_output || !self.reasoning.is_empty(),
            StepPart::Message => has_output,
            StepPart::Call => false,
        }
    }
}

impl EventWriter for Atif<'_> {
    fn begin(&mut self, session: &SessionSummary) -> io::Result<()> {
        self.session = Some(session.id);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.session.is_some_and(|session| session != event.session_id) {
            return Ok(());
        }
        match &event.kind {
            EventKind::TurnStarted { model, .. } | EventKind::ModelChosen { model, .. } => self.model.clone_from(model),
            EventKind::ItemCompleted { item, .. } => self.item(&event.at.to_string(), item)?,
            EventKind::StateChanged { change: StateChange::Withdrawn { input, added, .. } } => {
                let texts: Vec<&str> = input.iter().chain(added).map(String::as_str).collect();
                let text = format!("Withdrawn by the user, not shown to models: {}", texts.join("\n"));
                self.other("system", &event.at.to_string(), &text)?;
            }
            // A call beside the turns belongs to no step.
            EventKind::UsageUpdated { usage, .. } if event.turn_id.is_none() => self.total += *usage,
            EventKind::UsageUpdated { usage, delegated: false, .. } => {
                self.total += *usage;
                // Usage may arrive before or after the parts of its call.
                let of_call = match &mut self.open {
                    Some(step) if step.results.is_empty() => &mut step.usage,
                    _ => &mut self.pending,
                };
                *of_call.get_or_insert_with(Usage::default) += *usage;
            }
            EventKind::TurnEnded { .. } => self.close()?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.close()?;
        self.head()?;
        let total = &self.total;
        let mut last = json!({
            "total_prompt_tokens": total.prompt_tokens,
            "total_completion_tokens": total.completion_tokens,
            "total_cached_tokens": total.cached_tokens,
            "total_steps": self.steps,
        });
        if let Some(cost) = total.cost_microusd {
            last["total_cost_usd"] = json!(cost as f64 / MICROS_PER_DOLLAR);
        }
        writeln!(self.out, "\n],\"final_metrics\":{last}}}")
    }
}

fn metrics(usage: &Usage) -> Value {
    let mut metrics = json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    });
    if let Some(cost) = usage.cost_microusd {
        metrics["cost_usd"] = json!(cost as f64 / MICROS_PER_DOLLAR);
    }
    metrics
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
