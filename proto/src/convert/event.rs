//! Events.

use std::path::{Path, PathBuf};

use agentd_core::{
    agent::Subagent,
    event::{Event, EventKind, StateChange},
    ids::CallId,
    routing::{ChoiceRule, Intent, IntentKind},
    state_files::StateFileChange,
    surroundings::Surroundings,
};

use super::{WireError, all, enum_to_wire, id, moment, part, required, required_enum, to_moment};
use crate::v1::{
    self,
    event::{self as wire, state_changed},
};

impl From<&Event> for v1::Event {
    fn from(event: &Event) -> Self {
        Self {
            session_id: event.session_id.to_string(),
            turn_id: event.turn_id.map(|turn| turn.to_string()),
            seq: event.seq,
            at: Some(to_moment(event.at)),
            kind: Some((&event.kind).into()),
        }
    }
}

/// An event of a kind that is not known here, or about something of such a kind, gives [`WireError::Unknown`].
impl TryFrom<v1::Event> for Event {
    type Error = WireError;

    fn try_from(event: v1::Event) -> Result<Self, WireError> {
        Ok(Self {
            session_id: id(&event.session_id)?,
            turn_id: event.turn_id.map(|turn| id(&turn)).transpose()?,
            seq: event.seq,
            at: moment(event.at, "the time of an event")?,
            kind: event.kind.ok_or(WireError::Unknown("an event"))?.try_into()?,
        })
    }
}

impl From<&EventKind> for wire::Kind {
    fn from(kind: &EventKind) -> Self {
        match kind {
            EventKind::TurnStarted {
                trace_id,
                slot,
                model,
                reason,
                rule,
                max_steps,
                compacts,
                environment: _,
                handed_over: _,
                answer_schema: _,
                options: _,
            } => Self::TurnStarted(wire::TurnStarted {
                trace_id: trace_id.to_string(),
                slot: enum_to_wire(*slot),
                model: model.clone(),
                reason: reason.clone(),
                rule: rule.as_str().to_owned(),
                max_steps: *max_steps,
                compacts: *compacts,
            }),
            EventKind::ItemStarted { item } => Self::ItemStarted(wire::ItemStarted { item: Some(item.into()) }),
            EventKind::ItemDelta { item_id, offset, text } => {
                Self::ItemDelta(wire::ItemDelta { item_id: item_id.to_string(), offset: *offset, text: text.clone() })
            }
            EventKind::ItemCompleted { item, status } => {
                Self::ItemCompleted(wire::ItemCompleted { item: Some(item.into()), status: enum_to_wire(*status) })
            }
            EventKind::InterruptRaised { interrupt } => {
                Self::InterruptRaised(wire::InterruptRaised { interrupt: Some(interrupt.as_ref().into()) })
            }
            EventKind::InterruptResolved { interrupt_id, call_id, answer, by } => {
                Self::InterruptResolved(wire::InterruptResolved {
                    interrupt_id: interrupt_id.to_string(),
                    call_id: call_id.as_ref().map(ToString::to_string),
                    answer: Some(answer.into()),
                    by: Some(by.into()),
                })
            }
            EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated, timing } => {
                Self::UsageUpdated(wire::UsageUpdated {
                    step: *step,
                    slot: enum_to_wire(*slot),
                    model: model.clone(),
                    usage: Some(usage.into()),
                    turn: Some(turn.into()),
                    prompt: prompt.as_ref().map(Into::into),
                    delegated: *delegated,
                    timing: timing.as_ref().map(Into::into),
                })
            }
            EventKind::StateChanged { change } => {
                Self::StateChanged(wire::StateChanged { change: Some(change.into()) })
            }
            EventKind::Warning { code, message } => {
                Self::Warning(wire::Warning { code: code.clone(), message: message.clone() })
            }
            EventKind::IntentClassified { intent } => Self::IntentClassified(wire::IntentClassified {
                kind: intent.kind.as_str().to_owned(),
                confidence: u32::from(intent.confidence),
                reason: intent.reason.clone(),
                complex: intent.complex,
                by: intent.by.clone(),
            }),
            EventKind::ModelChosen { slot, model, rule, reason } => Self::ModelChosen(wire::ModelChosen {
                slot: enum_to_wire(*slot),
                model: model.clone(),
                rule: rule.as_str().to_owned(),
                reason: reason.clone(),
            }),
            EventKind::TurnEnded { result } => {
                Self::TurnEnded(wire::TurnEnded { result: Some(result.as_ref().into()) })
            }
        }
    }
}

impl TryFrom<wire::Kind> for EventKind {
    type Error = WireError;

    fn try_from(kind: wire::Kind) -> Result<Self, WireError> {
        Ok(match kind {
            wire::Kind::TurnStarted(started) => Self::TurnStarted {
                trace_id: id(&started.trace_id)?,
                slot: required_enum(started.slot)?,
                model: started.model,
                reason: started.reason,
                rule: ChoiceRule::named(&started.rule),
                max_steps: started.max_steps,
                compacts: started.compacts,
                environment: Default::default(),
                handed_over: Vec::new(),
                answer_schema: None,
                options: None,
            },
            wire::Kind::ItemStarted(started) => Self::ItemStarted { item: part(started.item, "the item")? },
            wire::Kind::ItemDelta(delta) => {
                Self::ItemDelta { item_id: id(&delta.item_id)?, offset: delta.offset, text: delta.text }
            }
            wire::Kind::ItemCompleted(completed) => Self::ItemCompleted {
                item: part(completed.item, "the item")?,
                status: required_enum(completed.status)?,
            },
            wire::Kind::InterruptRaised(raised) => {
                Self::InterruptRaised { interrupt: Box::new(part(raised.interrupt, "the interrupt")?) }
            }
            wire::Kind::InterruptResolved(resolved) => Self::InterruptResolved {
                interrupt_id: id(&resolved.interrupt_id)?,
                call_id: resolved.call_id.map(CallId::from),
                answer: part(resolved.answer, "the answer")?,
                by: part(resolved.by, "who answered")?,
            },
            wire::Kind::UsageUpdated(updated) => Self::UsageUpdated {
                step: updated.step,
                slot: required_enum(updated.slot)?,
                model: updated.model,
                usage: required(updated.usage, "the usage of a call")?.into(),
                turn: required(updated.turn, "the usage of a turn")?.into(),
                prompt: updated.prompt.map(Into::into),
                delegated: updated.delegated,
                timing: updated.timing.map(Into::into),
            },
            wire::Kind::StateChanged(changed) => Self::StateChanged {
                change: changed.change.ok_or(WireError::Unknown("a change of state"))?.try_into()?,
            },
            wire::Kind::Warning(warning) => Self::Warning { code: warning.code, message: warning.message },
            wire::Kind::IntentClassified(classified) => Self::IntentClassified {
                intent: Intent {
                    kind: IntentKind::named(&classified.kind),
                    confidence: u8::try_from(classified.confidence).unwrap_or(100).min(100),
                    reason: classified.reason,
                    complex: classified.complex,
                    by: classified.by,
                },
            },
            wire::Kind::ModelChosen(chosen) => Self::ModelChosen {
                slot: required_enum(chosen.slot)?,
                model: chosen.model,
                rule: ChoiceRule::named(&chosen.rule),
                reason: chosen.reason,
            },
            // It is no fact of the session: its stream tells of it beside the events.
            wire::Kind::ToolRequested(_) => return Err(WireError::Unknown("a call of a client's tool")),
            wire::Kind::FileRequested(_) => return Err(WireError::Unknown("a question about a client's file")),
            wire::Kind::TurnEnded(ended) => {
                Self::TurnEnded { result: Box::new(part(ended.result, "the result of a turn")?) }
            }
        })
    }
}

fn to_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<&StateChange> for state_changed::Change {
    fn from(change: &StateChange) -> Self {
        match change {
            StateChange::Todos { todos } => {
                Self::Todos(state_changed::Todos { todos: todos.iter().map(Into::into).collect() })
            }
            StateChange::Title { title } => Self::Title(title.clone()),
            StateChange::Settings { settings } => Self::Settings(settings.into()),
            StateChange::Queue { length, .. } => Self::Queue(state_changed::Queue { length: *length }),
            StateChange::Reset => Self::Reset(state_changed::Reset {}),
            StateChange::File(file) => {
                Self::File(state_changed::StateFile { path: file.path.clone(), content: file.content.clone() })
            }
            StateChange::HandedOver { path, .. } => Self::HandedOver(path.clone()),
            StateChange::Forked { from, turn } => {
                Self::Forked(state_changed::Forked { from: from.to_string(), turn: *turn })
            }
            StateChange::Agent { stack } => Self::Agent(state_changed::Agent { stack: stack.clone() }),
            StateChange::Tools { names } => Self::Tools(state_changed::Tools { names: names.clone() }),
            StateChange::Surroundings(found) => Self::Surroundings(state_changed::Surroundings {
                project: found.project.as_deref().map(to_text),
                client: found.client.as_deref().map(to_text),
                start: found.start.clone(),
                text: found.text.clone(),
            }),
            StateChange::Subagent(subagent) => Self::Subagent(state_changed::Subagent {
                call_id: subagent.call_id.to_string(),
                session_id: subagent.session_id.to_string(),
                name: subagent.name.clone(),
                task: subagent.task.clone(),
                after_seq: subagent.after,
            }),
            StateChange::TokenLevel { level, tokens, window } => Self::TokenLevel(state_changed::TokenLevelChange {
                level: enum_to_wire(*level),
                tokens: *tokens,
                window: *window,
            }),
            StateChange::Window { window } => Self::Window(window.into()),
            StateChange::Withdrawn { items, input, added } => Self::Withdrawn(state_changed::Withdrawn {
                items: items.clone(),
                input: input.clone(),
                added: added.clone(),
            }),
            StateChange::Undone { turn_id, redo, files } => Self::Undone(state_changed::Undone {
                turn_id: turn_id.to_string(),
                redo: *redo,
                files: files.iter().map(Into::into).collect(),
            }),
        }
    }
}

impl TryFrom<state_changed::Change> for StateChange {
    type Error = WireError;

    fn try_from(change: state_changed::Change) -> Result<Self, WireError> {
        Ok(match change {
            state_changed::Change::Todos(todos) => Self::Todos { todos: all(todos.todos)? },
            state_changed::Change::Title(title) => Self::Title { title },
            state_changed::Change::Settings(settings) => Self::Settings { settings: settings.try_into()? },
            state_changed::Change::Queue(queue) => Self::Queue { length: queue.length, added: None },
            state_changed::Change::Reset(_) => Self::Reset,
            state_changed::Change::File(file) => Self::File(StateFileChange { path: file.path, content: file.content }),
            // What is shown of it is for the daemon to know.
            state_changed::Change::HandedOver(path) => Self::HandedOver { path, picture: None },
            state_changed::Change::Forked(forked) => Self::Forked { from: id(&forked.from)?, turn: forked.turn },
            state_changed::Change::Withdrawn(taken) => {
                Self::Withdrawn { items: taken.items, input: taken.input, added: taken.added }
            }
            state_changed::Change::Agent(agent) => Self::Agent { stack: agent.stack },
            state_changed::Change::Tools(tools) => Self::Tools { names: tools.names },
            state_changed::Change::Surroundings(found) => Self::Surroundings(Surroundings {
                project: found.project.map(PathBuf::from),
                client: found.client.map(PathBuf::from),
                start: found.start,
                text: found.text,
            }),
            state_changed::Change::Subagent(subagent) => Self::Subagent(Subagent {
                call_id: CallId::from(subagent.call_id),
                session_id: id(&subagent.session_id)?,
                name: subagent.name,
                task: subagent.task,
                after: subagent.after_seq,
            }),
            state_changed::Change::TokenLevel(change) => {
                Self::TokenLevel { level: required_enum(change.level)?, tokens: change.tokens, window: change.window }
            }
            state_changed::Change::Window(window) => Self::Window { window: window.into() },
            state_changed::Change::Undone(undone) => {
                Self::Undone { turn_id: id(&undone.turn_id)?, redo: undone.redo, files: all(undone.files)? }
            }
        })
    }
}
