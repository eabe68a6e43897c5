//! Changes to a session's settings, and the choice of its model: a slot's model, or a model chosen by ID from the
//! slot's server.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    event::StateChange,
    folder::{AddedFolder, Mounts},
    ids::SessionId,
    interrupt::AnsweredBy,
    model::{MAX_MODEL_ID, Slot, SlotInfo, is_model_id},
    ports::{Model, Models, Workspaces},
    session::{MAX_PIN, MAX_PINS, Mount, SessionMode, SessionSettings},
};
use futures_util::future::{join, join_all};
use tokio::time::timeout;

use crate::{
    error::{EngineError, Result, refuse_if},
    session::actor::{Actor, Fault},
    turn::route::SlotChoice,
};

/// Maximum length of a recorded client name, in characters.
const MAX_NAME: usize = 100;

/// Returns the audit log entry for a mode set by a client.
pub(crate) fn mode_change_entry(id: SessionId, at: Timestamp, mode: SessionMode, client: &str) -> AuditEntry {
    AuditEntry::of_session(at, id, AuditFact::ModeSet { mode, by: named_client(client) })
}

/// Returns a client's name for the audit log.
pub(crate) fn named_client(client: &str) -> AnsweredBy {
    let client = if client.is_empty() { "an unnamed client" } else { client };
    AnsweredBy::Client(client.chars().take(MAX_NAME).collect())
}

/// Merges a session's folders with the added folders.
///
/// # Errors
/// Fails if a folder cannot be added.
pub(crate) async fn with_folders(
    workspaces: &dyn Workspaces,
    mounts: Mounts,
    added: Vec<AddedFolder>,
) -> Result<Vec<AddedFolder>> {
    if added.is_empty() && mounts.folders.is_empty() {
        return Ok(Vec::new());
    }
    Ok(workspaces.add_folders(mounts, added.iter().map(AddedFolder::mount).collect()).await?)
}

/// Returns true if the folder is already added with the same mode.
fn is_already_added(folder: &AddedFolder, mounts: &Mounts) -> bool {
    mounts.folders.iter().any(|known| known.path == folder.path && known.writable == folder.writable)
}

impl Actor {
    /// Replaces the settings. The session's grants are retained, except those that name a removed folder. Refused while
    /// a turn is open: the turn keeps its settings, even after a restart. A call that the user was shown and approves
    /// later must not run in another folder or under other rules.
    pub(crate) async fn configure(&mut self, settings: SessionSettings, only_these_folders: bool) -> Result<(), Fault> {
        self.refuse_while_open("the session's settings")?;
        let mut mounts = self.state.settings.mounts();
        if only_these_folders {
            mounts.folders.retain(|folder| settings.folders.iter().any(|other| other.path == folder.path));
        }
        let former_project = std::mem::replace(&mut mounts.project, settings.project.clone());
        let added: Vec<AddedFolder> =
            settings.folders.iter().filter(|folder| !is_already_added(folder, &mounts)).cloned().collect();
        let folders = if added.is_empty() && former_project == mounts.project {
            mounts.folders
        } else {
            with_folders(&*self.shared.ports.workspaces, mounts, added).await?
        };
        let before = &self.state.settings;
        let project_path = |project: &Option<Mount>| project.as_ref().map(|mount| mount.path.clone());
        let is_moved = project_path(&settings.project) != project_path(&before.project);
        // The folder's name may later belong to another folder, for which nothing was granted.
        let is_removed = |folder: &&AddedFolder| folders.iter().all(|other| other.path != folder.path);
        let removed: Vec<&AddedFolder> = before.folders.iter().filter(is_removed).collect();
        let mut grants = before.grants.clone();
        grants.retain(|grant| !removed.iter().any(|folder| folder.is_named_in(&grant.rule)));
        let settings = SessionSettings {
            confirm_write: settings.confirm_write,
            confirm_exec: settings.confirm_exec,
            grants,
            slot: settings.slot,
            // A model belongs to the server of its slot.
            model: before.model.clone().filter(|_| before.slot == settings.slot),
            project: settings.project,
            folders,
            worktree: before.worktree.clone().filter(|_| !is_moved),
            trace: settings.trace.or(before.trace),
            ..before.clone()
        };
        self.set(settings).await
    }

    /// Adds folders to the session, unless this changes nothing.
    pub(crate) async fn add_folders(&mut self, added: Vec<Mount>) -> Result<(), Fault> {
        let mounts = self.state.settings.mounts();
        let added: Vec<AddedFolder> =
            added.into_iter().map(AddedFolder::unnamed).filter(|folder| !is_already_added(folder, &mounts)).collect();
        if added.is_empty() {
            return Ok(());
        }
        let folders = with_folders(&*self.shared.ports.workspaces, mounts, added).await?;
        if folders == self.state.settings.folders {
            return Ok(());
        }
        self.refuse_while_open("the session's folders")?;
        self.set(SessionSettings { folders, ..self.state.settings.clone() }).await
    }

    fn refuse_while_open(&self, subject: &str) -> Result<(), Fault> {
        if self.open.is_none() {
            return Ok(());
        }
        let message = format!("{subject} cannot be changed while a turn is open");
        Err(EngineError::busy(message, "wait for the turn to end, answer its question, or cancel it; then retry")
            .into())
    }

    /// Sets the mode. The mode applies from the next call, even in a running turn.
    pub(crate) async fn set_mode(&mut self, mode: SessionMode, client: String) -> Result<(), Fault> {
        if self.state.settings.mode == mode {
            return Ok(());
        }
        let of_subagent = || "a subagent uses the mode of its parent session";
        refuse_if(self.state.settings.parent.is_some(), of_subagent, "set it in the parent session")?;
        let entry = mode_change_entry(self.id, self.shared.ports.clock.now(), mode, &client);
        // The mode takes effect only if it is in the audit log.
        self.shared.ports.audit.record(entry).await?;
        self.change_settings(SessionSettings { mode, ..self.state.settings.clone() }).await
    }

    /// Stores the settings if they differ. Grants and mode also apply to a running turn.
    pub(crate) async fn change_settings(&mut self, settings: SessionSettings) -> Result<(), Fault> {
        if settings == self.state.settings {
            return Ok(());
        }
        self.change(StateChange::Settings { settings }).await
    }

    /// Adopts the settings of the parent session.
    pub(crate) async fn adopt(&mut self, settings: SessionSettings) -> Result<(), Fault> {
        if let Some(open) = &self.open {
            return Err(self.busy(open).into());
        }
        let SessionSettings { parent, agent, pinned, project, worktree, .. } = self.state.settings.clone();
        let mut settings = SessionSettings { parent, agent, pinned, ..settings };
        if worktree.is_some() {
            // A subagent stays in its own worktree.
            settings = SessionSettings { project, worktree, ..settings };
        }
        if settings == self.state.settings { Ok(()) } else { self.set(settings).await }
    }

    pub(crate) async fn set(&mut self, settings: SessionSettings) -> Result<(), Fault> {
        // The project may have changed with the settings.
        self.workspace = None;
        self.project = Default::default();
        self.change(StateChange::Settings { settings }).await?;
        // Another slot may have another window.
        self.record_level().await
    }

    /// Sets the pinned rules, which apply from the next turn.
    pub(crate) async fn set_pins(&mut self, pins: Vec<String>) -> Result<(), Fault> {
        let pins: Vec<String> = pins.iter().map(|pin| pin.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let refused = |reason: String| Err(EngineError::new(ErrorKind::InvalidInput, reason).into());
        if pins.len() > MAX_PINS {
            return refused(format!("at most {MAX_PINS} pinned rules are allowed; write the rest to AGENTS.md"));
        }
        if pins.iter().any(|pin| pin.is_empty() || pin.chars().count() > MAX_PIN) {
            return refused(format!("a pinned rule must have 1 to {MAX_PIN} characters"));
        }
        self.change_settings(SessionSettings { pins, ..self.state.settings.clone() }).await
    }

    /// Sets whether the session is exempt from cleaning.
    pub(crate) async fn pin(&mut self, pinned: bool) -> Result<(), Fault> {
        self.change_settings(SessionSettings { pinned, ..self.state.settings.clone() }).await
    }

    /// Returns the model of a slot in this session.
    pub(crate) fn model(&self, slot: Slot) -> Arc<dyn Model> {
        let models = &self.shared.ports.models;
        let named = self.chosen(slot).and_then(|id| models.named(slot, id));
        named.unwrap_or_else(|| models.get(slot))
    }

    /// Returns the model ID chosen for a slot, by the client for the open turn, or for the session.
    pub(crate) fn chosen(&self, slot: Slot) -> Option<&str> {
        let (options, settings) = (&self.options, &self.state.settings);
        let of_turn = options.model.as_deref().filter(|_| options.slot == Some(slot));
        of_turn.or_else(|| settings.model.as_deref().filter(|_| settings.slot == Some(slot)))
    }

    /// Checks that the model chosen for a slot is still available, because the configuration may have changed.
    pub(crate) fn check_model(&self, slot: Slot) -> Result<()> {
        let Some(id) = self.chosen(slot) else { return Ok(()) };
        check(&*self.shared.ports.models, slot, id).map_err(|error| {
            EngineError::new(ErrorKind::Configuration, format!("the model of this session cannot be used: {error}"))
                .with_hint("reset the model with /model default, or set another one with /model")
        })
    }

    /// Queries the models of a turn for their IDs and window sizes, unless these are known.
    pub(crate) async fn look_up(&self, choice: SlotChoice) {
        let (model, (_, chat)) = (self.model(choice.slot), self.chat(choice));
        // A server that does not reply in time is queried again with the request.
        let _ = timeout(LOOK_UP_TIMEOUT, join(model.look_up(), chat.look_up())).await;
    }

    /// Determines which models accept pictures.
    pub(crate) async fn look_up_vision(&self) {
        let models = Slot::ALL.map(|slot| self.model(slot));
        let _ = timeout(LOOK_UP_TIMEOUT, join_all(models.iter().map(|model| model.look_up_vision()))).await;
    }

    /// Sets the slot, and the model on the slot's server. Both apply from the next turn; a running turn is not
    /// affected.
    pub(crate) async fn set_model(&mut self, slot: Option<Slot>, model: Option<String>) -> Result<SlotInfo, Fault> {
        let settings = self.state.settings.clone();
        let of_subagent = || "a subagent uses the model of its parent session";
        refuse_if(settings.parent.is_some(), of_subagent, "set it in the parent session")?;
        let slot = if model.is_some() { slot.or(settings.slot) } else { slot };
        let settings = with_checked_model(&*self.shared.ports.models, SessionSettings { slot, model, ..settings })?;
        if settings != self.state.settings {
            self.set(settings).await?;
        }
        let slot = slot.unwrap_or_default();
        self.look_up(SlotChoice::by_name(slot)).await;
        // Another model has another window.
        self.record_level().await?;
        Ok(SlotInfo { slot, falls_back_to: None, model: self.model(slot).info().clone() })
    }
}

/// Time limit for querying servers about their models while the user waits.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the model named in the settings, if any, and sets its slot.
///
/// # Errors
/// Fails if the named model cannot be the model of a session.
pub(crate) fn with_checked_model(models: &dyn Models, settings: SessionSettings) -> Result<SessionSettings> {
    let Some(id) = settings.model.as_deref() else { return Ok(settings) };
    let slot = settings.slot.unwrap_or_default();
    check(models, slot, id)?;
    Ok(SessionSettings { slot: Some(slot), ..settings })
}

/// Checks that the server of a slot accepts this model ID.
pub(crate) fn check(models: &dyn Models, slot: Slot, id: &str) -> Result<()> {
    let invalid = || format!("invalid model id: it must have 1 to {MAX_MODEL_ID} bytes, in one line");
    refuse_if(!is_model_id(id), invalid, "list the available models with `agentctl models --available`")?;
    if models.named(slot, id).is_some() {
        return Ok(());
    }
    let embedded = || format!("the slot {slot} uses the built-in model and has no server for the model {id:?}");
    refuse_if(models.get(slot).info().embedded, embedded, "set a server in models.yaml or in MODEL_BASIC_BASE_URL")?;
    let message = format!("the server of the slot {slot} has a single model, which is not chosen by id");
    let hint = "set `wire: openai` and the address up to /v1 to list its models";
    Err(EngineError::invalid(message, hint))
}
