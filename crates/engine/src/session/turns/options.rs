//! Wishes of a client for its turn: a model, instructions, the tools that it allows, tools of its own, and the form of the answer;
//! or what the turn had that it goes on with.

use std::sync::Arc;

use agentd_core::{
    agent::{MAIN, TRANSFERS},
    answer_schema::AnswerSchema,
    client_tool::ClientTool,
    event::EventKind,
    files::SessionTree,
    ids::TurnId,
    input::AttachedPart,
    turn::{IfBusy, MAX_TURN_INSTRUCTIONS, StartTurn, StopReason, TurnOptions},
};

use crate::{
    agents,
    answer_form::AnswerForm,
    attachments::{self, Attachment},
    catalog::ToolScope,
    client::{self, ClientTools, OfferedTools},
    error::EngineError,
    session::{
        actor::{Actor, Fault},
        settings,
    },
};

impl Actor {
    /// Refuses an input that is none, or too long, and a turn that has nothing to go on with.
    pub(crate) fn check_input(&self, start: &StartTurn) -> Result<(), EngineError> {
        let limit = self.shared.config().max_input_bytes;
        match &start.text {
            Some(text) if text.len() > limit => Err(EngineError::invalid(
                format!("the input has {} bytes; {limit} are allowed", text.len()),
                "put it into a file and name the file: agentctl run --file PATH",
            )),
            Some(_) if start.compact.is_some() => Err(EngineError::invalid(
                "a turn that compacts the history has no input",
                "compact first, then give a prompt",
            )),
            Some(text) if text.trim().is_empty() => {
                Err(EngineError::invalid("the input is empty", "say what you want"))
            }
            None if start.compact.is_none() && self.open.is_none() && !self.can_continue() => {
                Err(EngineError::invalid("there is no turn to continue: the last one came to its end", "give an input"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the last turn can go on. One that was taken back cannot, where nothing else is there to go on from.
    fn can_continue(&self) -> bool {
        let was_withdrawn = || self.state.last_stop == Some(StopReason::Cancelled) && self.state.seen().is_empty();
        self.state.last_stop.is_some_and(StopReason::can_continue) && !was_withdrawn()
    }

    /// Refuses wishes that no turn could be held to, and settles whose server has the model.
    pub(crate) fn check_wishes(&self, start: &mut StartTurn) -> Result<(), EngineError> {
        let refused = |message: &str, hint: &str| Err(EngineError::invalid(message, hint));
        let joins = self.open.is_some() && start.if_busy == IfBusy::Steer;
        let brings = !(start.attached.is_empty() && start.tools.is_empty() && start.options.is_default());
        if joins && brings {
            let message = "a running turn takes no parts, tools, instructions or limits: only words can be added to it";
            return refused(message, "queue it, so that it is a turn of its own: --if-busy queue");
        }
        if start.compact.is_some() && brings {
            let message = "a turn that compacts the history takes no parts, tools, instructions or limits";
            return refused(message, "compact first, then give them with the input");
        }
        if start.text.is_none() && !start.attached.is_empty() {
            return refused("the input has parts and no words", "say in `text` what is to be done with them");
        }
        if let Some(instructions) = &start.options.instructions {
            if instructions.trim().is_empty() {
                return refused("the instructions of the turn are empty", "leave them out");
            }
            if instructions.len() > MAX_TURN_INSTRUCTIONS {
                let message =
                    format!("the instructions have {} bytes; {MAX_TURN_INSTRUCTIONS} are allowed", instructions.len());
                return refused(&message, "hand the rest over as a file");
            }
        }
        self.check_tools(start)?;
        if let Some(id) = &start.options.model {
            let slot = start.slot.or(self.state.settings.slot).unwrap_or_default();
            settings::check(&*self.shared.ports.models, slot, id)?;
            (start.slot, start.options.slot) = (Some(slot), Some(slot));
        }
        Ok(())
    }

    /// Refuses an agent that could not work. One that is not enabled works where it is named. What the project brings is known.
    pub(crate) fn check_agent(&self, start: &StartTurn) -> Result<(), EngineError> {
        let Some(id) = &start.options.agent else { return Ok(()) };
        let refused = |message: &str, hint: &str| Err(EngineError::invalid(message, hint));
        if start.text.is_none() {
            return refused("a turn that goes on does so with its own agent", "give an input with the agent");
        }
        if self.state.settings.parent.is_some() {
            let message = "the session of a subagent works as that subagent alone";
            return refused(message, "name the agent in a session of your own");
        }
        if id != MAIN && self.all_agents().get(id).is_none() {
            let shown: String = id.chars().take(100).collect();
            return refused(&format!("there is no agent {shown:?}"), "`agentctl agents` lists them");
        }
        Ok(())
    }

    fn check_tools(&self, start: &StartTurn) -> Result<(), EngineError> {
        let stock = self.stock();
        let canonical = |name: &str| self.canonical(name);
        client::check(&start.tools, &stock, canonical)?;
        let of_client = |name: &str| start.tools.iter().any(|tool| tool.name == name || tool.called() == name);
        // A subagent has the list of the turn that it works for, whose tools it need not have. What is not there is not allowed.
        if self.state.settings.parent.is_some() {
            return Ok(());
        }
        let mut allowed = start.options.allowed_tools.iter().flatten();
        let transfers = |name: &str| name.starts_with(TRANSFERS);
        let unlisted =
            |name: &str| stock.unlisted(&ToolScope::default()).any(|server| name.starts_with(&server.prefix));
        let is_there = |name: &str| stock.get(&self.canonical(name)).is_some() || unlisted(name);
        let unknown = allowed.find(|name| !of_client(name) && !transfers(name) && !is_there(name));
        let Some(unknown) = unknown else { return Ok(()) };
        let shown: String = unknown.chars().take(100).collect();
        let hint = "`agentctl tools` lists them, and so does Daemon.Tools";
        Err(EngineError::invalid(format!("{shown:?} is allowed, and there is no such tool"), hint))
    }

    /// Options of the last turn that ran here and did more than compact, and the form of its answer. What a stranger wished for a
    /// turn that was imported holds for none here.
    pub(crate) async fn begun_before(&self) -> Result<(Option<Box<TurnOptions>>, Option<AnswerSchema>), EngineError> {
        let store = &self.shared.ports.store;
        let turns = store.turns(self.id).await?;
        let imported = self.state.settings.imported.as_ref().map_or(0, |origin| origin.events);
        for turn in turns.iter().rev().take_while(|turn| turn.began > imported) {
            let first = store.events(self.id, turn.began.saturating_sub(1), 1).await?.into_iter().next();
            if let Some(EventKind::TurnStarted { compacts: false, options, answer_schema, .. }) =
                first.as_ref().map(|event| &event.kind)
            {
                return Ok((options.clone(), answer_schema.clone()));
            }
        }
        Ok((None, None))
    }

    /// The form of the answer of a turn that begins. One without an input goes on with that of the turn before it.
    pub(crate) async fn form(&self, start: &StartTurn) -> Result<Option<Arc<AnswerForm>>, Fault> {
        let goes_on = start.text.is_none() && start.compact.is_none();
        let of_last = if start.answer_schema.is_none() && goes_on { self.begun_before().await?.1 } else { None };
        Ok(AnswerForm::of(start.answer_schema.as_ref().or(of_last.as_ref()))?)
    }

    /// The name of our tool for which others have this one.
    pub(crate) fn canonical(&self, name: &str) -> String {
        let ours = agents::canonical_name(name);
        self.shared.ports.toolbox.canonical_name(ours).to_owned()
    }

    /// Files that were handed over and that the turn is to tell of, and the parts of its input.
    pub(crate) async fn handed(&mut self, parts: &[AttachedPart]) -> Result<Vec<Attachment>, Fault> {
        if self.state.handed_over.is_empty() && parts.is_empty() {
            return Ok(Vec::new());
        }
        let tree = SessionTree { workspace: self.workspace().await?, state: Arc::clone(&self.state.files) };
        Ok(attachments::read(&*self.shared.ports.workspaces, &tree, &self.state.handed_over, parts).await)
    }

    /// Takes note that whoever started a turn is gone, for one that waits, too.
    pub(crate) async fn client_left(&mut self, turn: TurnId) -> Result<(), Fault> {
        if let Some(queued) = self.queue.iter_mut().find(|queued| queued.turn_id == turn) {
            queued.start.client_is_gone();
        } else if let Some(open) = self.open.as_ref().filter(|open| open.turn_id == turn) {
            open.answering.leave();
        }
        Ok(())
    }

    /// The tools of the client of a turn that begins. A word to people where the client is gone already.
    pub(crate) fn offered(
        &mut self,
        turn: TurnId,
        tools: &[ClientTool],
    ) -> Result<(OfferedTools, Option<EventKind>), EngineError> {
        if tools.is_empty() {
            return Ok((None, None));
        }
        match self.lines.get_mut(&turn).and_then(|lines| lines.tools.take()).filter(|line| !line.is_gone()) {
            Some(line) => Ok((Some(Arc::new(ClientTools::new(tools, line)?)), None)),
            None => {
                let message = "the client that offers tools is gone: the turn goes on without them".to_owned();
                Ok((None, Some(EventKind::Warning { code: "client_tools_gone".to_owned(), message })))
            }
        }
    }
}

/// Refuses a form that no answer could come to.
pub(crate) fn check_form(start: &StartTurn, joins: bool) -> Result<(), EngineError> {
    let Some(schema) = &start.answer_schema else { return Ok(()) };
    if start.compact.is_some() {
        let message = "a turn that compacts the history has no answer that could be in a form";
        return Err(EngineError::invalid(message, "leave the schema out"));
    }
    if joins && start.if_busy == IfBusy::Steer {
        let message = "a running turn cannot be given another form of its answer";
        return Err(EngineError::invalid(message, "queue the input instead: agentctl run --if-busy queue"));
    }
    AnswerForm::compile(schema).map(drop)
}
