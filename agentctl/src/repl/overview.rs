//! `/todos`, `/cost`, and the settings of a session before its first turn.

use std::{collections::BTreeMap, path::Path};

use agentd_core::{
    context::PromptReport, event::EventKind, folder::Mounts, grant::ScopedGrant, model::Slot, session::Mount,
    turn::TurnResult, visible,
};

use super::{chat::Chat, conversation::ChatBackend as _, replay};
use crate::{
    exit::Exit,
    failure::Failure,
    render::{
        closing,
        context::{todo_count, todo_row},
    },
    report::count,
    terminal::{paint::number, sanitize::clean_line},
    turn::{Arrival, Line as _, SocketLine},
};

/// Model calls of a turn.
#[derive(Debug, Default)]
struct TurnCalls {
    /// Number of tokens of the requests that repeated the previous request.
    repeated: u64,
    /// Models that answered, each with the reason for its choice.
    choices: Vec<String>,
    misses: CacheMisses,
}

/// Returns a line about a choice of a model.
fn choice(slot: Slot, model: &str, reason: &str) -> String {
    format!("{} of {slot}: {}", clean_line(model), clean_line(reason))
}

/// Reasons for cache misses, each with the number of misses and of tokens.
#[derive(Debug, Default)]
struct CacheMisses(BTreeMap<String, (usize, u64)>);

impl CacheMisses {
    /// Adds the misses of a request, as reported by the daemon and by the server.
    fn add(&mut self, prompt: &PromptReport) {
        let own = prompt.broken_by.as_ref().map(|segment| (format!("changed: {segment}"), 0));
        let remarks = prompt.remarks.iter().map(|remark| (format!("server: {}", remark.reason), remark.tokens));
        for (reason, tokens) in own.into_iter().chain(remarks) {
            let (times, sum) = self.0.entry(reason).or_default();
            *times += 1;
            *sum += tokens;
        }
    }

    /// Returns a line for each reason.
    fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().take(MISSES).map(|(reason, (times, tokens))| {
            let times = if *times > 1 { format!(" ×{times}") } else { String::new() };
            let tokens = if *tokens > 0 { format!(" ({} tokens)", number(*tokens)) } else { String::new() };
            format!("cache missed, {}{times}{tokens}", clean_line(reason))
        })
    }
}

/// Maximum number of reasons shown.
const MISSES: usize = 6;

impl Chat {
    /// Shows the complete todo list.
    pub(super) async fn todos(&mut self) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let todos = self.daemon.client.session(&id.to_string()).await?.session.todos;
        todos.iter().for_each(|todo| self.note(&todo_row(todo)));
        self.note(&if todos.is_empty() { "the todo list is empty".to_owned() } else { todo_count(&todos) });
        Ok(Exit::Done)
    }

    /// Shows tokens and money of the last turn and of the session.
    pub(super) async fn cost(&mut self) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let summary = self.daemon.client.session(&id.to_string()).await?.session.summary;
        if let Some((result, TurnCalls { repeated, choices, misses })) = self.last_turn(summary.last_seq).await? {
            self.note(&format!("last turn  {}", closing::took(&result, repeated)));
            choices.into_iter().chain(misses.lines()).for_each(|line| self.note(&format!("           {line}")));
        }
        self.note(&format!("session    {} · {}", closing::spent(&summary.usage, 0), count(summary.turns, "turn")));
        if summary.usage.cost_microusd.is_none() {
            self.note("money is told where the price of the model is known: set prices in models.yaml");
        }
        Ok(Exit::Done)
    }

    /// Returns the last turn that has ended.
    async fn last_turn(&mut self, last_seq: u64) -> anyhow::Result<Option<(TurnResult, TurnCalls)>> {
        let id = self.session()?;
        let items = self.daemon.client.items(&id.to_string(), 0, replay::LOOKED_AT).await?;
        let Some(begun) = replay::begins(&items, u64::MAX).pop() else { return Ok(None) };
        let mut line = SocketLine::attach(&self.daemon, id, begun - 1).await?;
        let (mut last, mut calls) = (None, TurnCalls::default());
        while let Some(arrival) = line.next().await? {
            let Arrival::Event(event) = arrival else { continue };
            match &event.kind {
                EventKind::TurnStarted { slot, model, reason, .. } => {
                    calls = TurnCalls { choices: vec![choice(*slot, model, reason)], ..TurnCalls::default() };
                }
                EventKind::ModelChosen { slot, model, reason, .. } => calls.choices.push(choice(*slot, model, reason)),
                EventKind::UsageUpdated { prompt: Some(prompt), .. } => {
                    calls.repeated = calls.repeated.saturating_add(prompt.repeated_tokens);
                    calls.misses.add(prompt);
                }
                EventKind::TurnEnded { result } => {
                    last = Some((TurnResult::clone(result), std::mem::take(&mut calls)));
                }
                _ => {}
            }
            // Another client's turn may follow.
            if event.seq >= last_seq {
                break;
            }
        }
        Ok(last)
    }

    /// Returns the folder of the session, or of the new one.
    ///
    /// # Errors
    /// Fails if the daemon is lost.
    pub(super) async fn project(&mut self) -> Result<Option<Mount>, Failure> {
        Ok(self.mounts().await?.project)
    }

    /// Returns the folders of the session, or of the new one.
    ///
    /// # Errors
    /// Fails if the daemon is lost.
    pub(super) async fn mounts(&mut self) -> Result<Mounts, Failure> {
        match self.place.id() {
            Some(id) => Ok(self.daemon.client.session(&id.to_string()).await?.session.settings.mounts()),
            None => Ok(self.place.mounts()),
        }
    }

    /// Shows the settings of a session that would start now.
    pub(super) async fn tell_new_session(&mut self) -> anyhow::Result<Exit> {
        let client = self.daemon.client.clone();
        let (tools, skills, grants) = tokio::join!(client.tools(""), client.skills(""), client.grants(None));
        let (tools, skills) = (tools?, skills?);
        self.note("session   new: it begins with the first thing you say");
        let shown = |path: &Path, writable: bool| {
            let access = if writable { "writable" } else { "read-only" };
            format!("{} ({access})", visible::line(&path.display().to_string()))
        };
        let Mounts { project, folders } = self.place.mounts();
        let project = project.map(|mount| shown(&mount.path, mount.writable));
        self.note(&format!("project   {}", project.as_deref().unwrap_or("no folder in view")));
        for folder in folders {
            self.note(&format!("folder    {}, seen as {}", shown(&folder.path, folder.writable), folder.at));
        }
        let mode = self.known.status().chosen.unwrap_or_else(|| self.place.first_mode());
        self.note(&format!("mode      {mode}: {}", mode.description()));
        let info = self.model_of(None);
        let (model, window) = (clean_line(&info.model.id), number(info.model.context_window));
        self.note(&format!("model     {model} (slot {}, a window of {window} tokens)", info.slot));
        let shown = tools.iter().filter(|tool| tool.visible).count();
        self.note(&format!("tools     {shown} of {} shown to the model; /tools lists them", tools.len()));
        let skills = skills.iter().filter(|skill| skill.usable).count();
        self.note(&format!("skills    {skills}; /skills lists them"));
        self.tell_lasting_grants(&grants?);
        Ok(Exit::Done)
    }

    /// Lists the rules that apply in every session.
    pub(super) async fn list_lasting_grants(&mut self) -> anyhow::Result<Exit> {
        let held = self.daemon.client.grants(None).await?;
        self.note("a new session has the rules that hold in every session:");
        self.tell_lasting_grants(&held);
        Ok(Exit::Done)
    }

    fn tell_lasting_grants(&mut self, held: &[ScopedGrant]) {
        if held.iter().all(|held| held.session_id.is_some()) {
            self.note("granted   nothing for good");
        }
        let lasting = held.iter().filter(|held| held.session_id.is_none());
        lasting.for_each(|held| self.note(&format!("granted   {}", visible::line(&held.grant.rule))));
    }
}
