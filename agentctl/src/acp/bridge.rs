//! State shared by all requests from one editor: the daemon, the editor's capabilities, and its open sessions. This
//! module also offers a session's modes and models as editor options, and forwards changes made by other clients. The
//! mode is sent both as a mode and as an option, because older editors only support modes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak, atomic::AtomicBool},
};

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, CurrentModeUpdate, Error, InitializeRequest, Notice, NoticeSeverity, SessionConfigOption,
    SessionConfigOptionCategory, SessionConfigOptionValue, SessionConfigSelectOption, SessionId as WireId,
    SessionInfoUpdate, SessionMode as WireMode, SessionModeState, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use agentd_core::{
    Timestamp,
    event::{EventKind, StateChange},
    ids::SessionId,
    model::{Slot, SlotInfo},
    ports::ClientFileAccess,
    session::{SessionMode, SessionSettings},
    turn::{IfBusy, OnInterrupt, StartTurn},
};
use agentd_proto::client::{Client, ClientError, EventStream};
use tokio_util::sync::CancellationToken;

use super::{
    message::{self, Peer, Result, lock},
    session::{EditorFolder, OpenSession},
    tool_call::SessionRoots,
    updates::{self, EditorFeatures},
};
use crate::{
    daemon::{self, Daemon},
    failure::Failure,
    flags::Global,
    report,
    terminal::sanitize::{clean, clean_line},
};

/// Maximum characters in an editor's name.
const MAX_NAME: usize = 40;

/// The bridge between an editor and the daemon.
#[derive(Debug)]
pub(super) struct Bridge {
    global: Global,
    pub(super) peer: Peer,
    /// Cancelled when the editor has disconnected.
    pub(super) shutdown: CancellationToken,
    daemon: Mutex<Option<Daemon>>,
    pub(super) editor: Mutex<Editor>,
    sessions: Mutex<HashMap<SessionId, Arc<OpenSession>>>,
    /// True once the use of the built-in model has been announced.
    pub(super) has_announced_builtin: AtomicBool,
}

/// Capabilities of the editor.
#[derive(Debug, Clone)]
pub(super) struct Editor {
    /// Name for the audit log and for questions.
    pub(super) name: String,
    pub(super) features: EditorFeatures,
    /// True if the editor supports forms.
    pub(super) has_forms: bool,
    /// Access to the editor's files, if it provides any.
    pub(super) files: Option<ClientFileAccess>,
}

impl Default for Editor {
    fn default() -> Self {
        Self { name: "acp".to_owned(), features: EditorFeatures::default(), has_forms: false, files: None }
    }
}

impl Editor {
    /// Reads the editor's name and capabilities from its initialize request.
    pub(super) fn of(request: &InitializeRequest) -> Self {
        let can = &request.client_capabilities;
        let session = can.session.as_ref();
        let has_meta = |name: &str| can.meta.as_ref().is_some_and(|meta| meta.get(name) == Some(&true.into()));
        let name = request.client_info.as_ref().map(|info| info.title.as_ref().unwrap_or(&info.name));
        let name = name.map(|name| report::cut(&clean_line(name), MAX_NAME)).filter(|name| !name.is_empty());
        Self {
            name: name.map_or_else(|| "acp".to_owned(), |name| format!("acp: {name}")),
            features: EditorFeatures {
                notices: session.is_some_and(|session| session.notices.is_some()),
                compaction: session.is_some_and(|session| session.compaction.is_some()),
                terminals: has_meta("terminal_output"),
                files: can.fs.read_text_file,
            },
            files: match (can.fs.read_text_file, can.fs.write_text_file) {
                (true, true) => Some(ClientFileAccess::ReadWrite),
                (true, false) => Some(ClientFileAccess::Read),
                // A file that cannot be read cannot be changed either.
                (false, _) => None,
            },
            has_forms: can.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some()),
        }
    }
}

impl Bridge {
    /// Creates a bridge. The daemon is connected on first use.
    pub(super) fn new(global: Global, peer: Peer, shutdown: CancellationToken) -> Self {
        Self {
            global,
            peer,
            shutdown,
            daemon: Mutex::default(),
            editor: Mutex::default(),
            sessions: Mutex::default(),
            has_announced_builtin: AtomicBool::new(false),
        }
    }

    /// Returns the daemon, starting one if none runs. The connection is cached and survives a daemon restart.
    pub(super) async fn daemon(&self) -> Result<Daemon, Failure> {
        if let Some(daemon) = lock(&self.daemon).clone() {
            return Ok(daemon);
        }
        let daemon = daemon::connect(&self.global).await?;
        *lock(&self.daemon) = Some(daemon.clone());
        Ok(daemon)
    }

    /// Drops the cached connection, so that the next request connects again. Returns false if nothing was cached.
    pub(super) fn forget_daemon(&self) -> bool {
        lock(&self.daemon).take().is_some()
    }

    /// Returns true if the daemon runs on another machine. The editor's folders then name folders there, and the
    /// editor's files are none of that machine.
    pub(super) fn is_elsewhere(&self) -> bool {
        daemon::named_host(&self.global).is_some()
    }

    /// Returns the editor's capabilities.
    pub(super) fn editor(&self) -> Editor {
        lock(&self.editor).clone()
    }

    /// Returns the open session with this id.
    ///
    /// # Errors
    /// Fails if no such session is open.
    pub(super) fn session(&self, id: &WireId) -> Result<Arc<OpenSession>, Error> {
        let found = id.0.parse().ok().and_then(|id: SessionId| lock(&self.sessions).get(&id).cloned());
        found.ok_or_else(|| message::unknown_session(&clean_line(&id.0)))
    }

    /// Opens a session, or returns the session that is already open, with its current state.
    pub(super) fn open(&self, id: SessionId, folder: EditorFolder) -> Arc<OpenSession> {
        lock(&self.sessions).entry(id).or_insert_with(|| Arc::new(OpenSession::new(id, folder))).clone()
    }

    /// Closes a session and stops watching it.
    pub(super) fn close(&self, id: SessionId) {
        if let Some(session) = lock(&self.sessions).remove(&id) {
            session.unwatch();
        }
    }

    /// Builds the request for a turn of the editor. If a turn of another client runs or is queued, the daemon adds the
    /// text to that turn.
    pub(super) fn turn(&self, daemon: &Daemon, session: &OpenSession, text: Option<String>) -> StartTurn {
        StartTurn {
            on_interrupt: OnInterrupt::Wait,
            if_busy: IfBusy::Steer,
            client: self.editor().name,
            environment: daemon.environment_in(&session.folder),
            ..daemon.turn(text)
        }
    }

    /// Sends updates for a session.
    pub(super) async fn update(&self, session: &OpenSession, updates: Vec<SessionUpdate>) {
        for update in updates {
            self.peer.update(&session.wire, update).await;
        }
    }

    /// Sends messages during a turn: as notices if the editor supports notices, else as agent text.
    pub(super) async fn send_messages(&self, session: &OpenSession, messages: &[String]) {
        if self.editor().features.notices {
            self.update(session, messages.iter().map(|message| notice(message)).collect()).await;
        } else if !messages.is_empty() {
            let lines: Vec<String> =
                messages.iter().map(|message| format!("> {}", message.replace('\n', "\n> "))).collect();
            self.update(session, vec![updates::message(&format!("{}\n\n", lines.join("\n>\n")))]).await;
        }
    }

    /// Sends a message for the user: as a notice if the editor supports notices, else with the next turn.
    pub(super) async fn send_notice(&self, session: &OpenSession, text: &str) {
        if self.editor().features.notices {
            self.update(session, vec![notice(text)]).await;
        } else {
            session.state().notices.push(text.to_owned());
        }
    }
}

/// Returns the folders of a session with these settings.
pub(super) fn session_roots(daemon: &Daemon, id: SessionId, settings: &SessionSettings) -> SessionRoots {
    SessionRoots {
        project: settings.project.as_ref().map(|mount| mount.path.clone()),
        folders: settings.folders.clone(),
        workspace: daemon.client.hello().data_dir.join("workspace").join(settings.files_of(id).to_string()),
        is_elsewhere: daemon.client.host().is_some(),
    }
}

fn notice(text: &str) -> SessionUpdate {
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    let rest = Some(clean(rest)).filter(|rest| !rest.is_empty());
    SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, clean_line(title)).description(rest))
}

const MODE: &str = "mode";
const MODEL: &str = "model";
/// Option value that selects the model from the configuration.
const AUTOMATIC: &str = "default";

/// Settings of a session in the editor's form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OfferedSettings {
    pub(super) mode: SessionMode,
    pub(super) options: Vec<SessionConfigOption>,
}

impl OfferedSettings {
    /// Builds the options of a session, with the currently available models.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub(super) async fn of(client: &Client, settings: &SessionSettings) -> Result<Self, ClientError> {
        let slots = client.models().await?;
        Ok(Self { mode: settings.mode, options: vec![mode_option(settings.mode), model_option(settings, &slots)] })
    }

    /// Returns all modes, with the current one marked.
    pub(super) fn modes(&self) -> SessionModeState {
        let mode = |mode: SessionMode| WireMode::new(mode.as_str(), mode_name(mode)).description(mode.description());
        SessionModeState::new(self.mode.as_str(), SessionMode::ALL.map(mode).to_vec())
    }

    /// Records that the editor has received all settings.
    pub(super) fn mark_sent(&self, session: &OpenSession) {
        let mut state = session.state();
        state.mode = self.mode;
        state.options.clone_from(&self.options);
    }

    /// Returns updates for settings that have not been sent to the editor, and marks them as sent.
    pub(super) fn changes(&self, session: &OpenSession) -> Vec<SessionUpdate> {
        let mut changes = Vec::new();
        {
            let state = session.state();
            if state.mode != self.mode {
                changes.push(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(self.mode.as_str())));
            }
            if state.options != self.options {
                changes.push(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(self.options.clone())));
            }
        }
        self.mark_sent(session);
        changes
    }
}

fn mode_name(mode: SessionMode) -> &'static str {
    match mode {
        SessionMode::Ask => "Ask",
        SessionMode::AcceptEdits => "Accept edits",
        SessionMode::Plan => "Plan",
        SessionMode::Auto => "Auto",
    }
}

fn mode_option(current: SessionMode) -> SessionConfigOption {
    let choice = |mode: SessionMode| {
        SessionConfigSelectOption::new(mode.as_str(), mode_name(mode)).description(mode.description())
    };
    SessionConfigOption::select(MODE, "Approvals", current.as_str(), SessionMode::ALL.map(choice).to_vec())
        .description("How much runs without asking")
        .category(SessionConfigOptionCategory::Mode)
}

/// Builds the model option: the slots that have their own model, plus the session's current choice.
fn model_option(settings: &SessionSettings, slots: &[SlotInfo]) -> SessionConfigOption {
    let current = model_value(settings);
    let mut choices = vec![
        SessionConfigSelectOption::new(AUTOMATIC, "Automatic")
            .description("Chooses the slot for each input, as configured"),
    ];
    for info in slots {
        let is_current = current == info.slot.as_str();
        if info.falls_back_to.is_none() || is_current {
            let model = clean_line(&info.model.id);
            choices.push(SessionConfigSelectOption::new(info.slot.as_str(), format!("{}: {model}", info.slot)));
        }
    }
    if !choices.iter().any(|choice| choice.value.0.as_ref() == current) {
        choices.push(SessionConfigSelectOption::new(current.clone(), clean_line(&current.replace('=', ": "))));
    }
    SessionConfigOption::select(MODEL, "Model", current, choices).category(SessionConfigOptionCategory::Model)
}

/// Returns the value of the model option for these settings.
fn model_value(settings: &SessionSettings) -> String {
    match (settings.slot, &settings.model) {
        (None, None) => AUTOMATIC.to_owned(),
        (Some(slot), None) => slot.to_string(),
        (slot, Some(model)) => format!("{}={model}", slot.unwrap_or_default()),
    }
}

/// Parses a value of the model option into a slot and a model name.
fn model_of(value: &str) -> Option<(Option<Slot>, Option<&str>)> {
    if value == AUTOMATIC {
        return Some((None, None));
    }
    let (slot, model) = value.split_once('=').map_or((value, None), |(slot, model)| (slot, Some(model)));
    Some((Some(slot.parse().ok()?), model.filter(|model| !model.is_empty())))
}

/// Sends settings that have not been sent to the editor.
///
/// # Errors
/// Fails if the connection fails.
pub(super) async fn send_settings(bridge: &Bridge, client: &Client, session: &OpenSession) -> Result<(), ClientError> {
    let _guard = session.settings.lock().await;
    let settings = client.session(&session.id.to_string()).await?.session.settings;
    bridge.update(session, OfferedSettings::of(client, &settings).await?.changes(session)).await;
    Ok(())
}

/// Sets the mode. The options follow as an update, because editors that support options expect changes there.
pub(super) async fn set_mode(bridge: &Bridge, request: &SetSessionModeRequest) -> Result<SetSessionModeResponse> {
    let session = bridge.session(&request.session_id)?;
    let mode: SessionMode = read(request.mode_id.0.parse())?;
    let client = bridge.daemon().await?.client;
    let _guard = session.settings.lock().await;
    client.set_mode(&session.id.to_string(), mode, &bridge.editor().name).await?;
    session.state().mode = mode;
    Ok(SetSessionModeResponse::new())
}

/// Sets an option and returns all options. The mode follows as an update, for editors that only support modes.
pub(super) async fn set_option(
    bridge: &Bridge,
    request: &SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse> {
    let session = bridge.session(&request.session_id)?;
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(message::invalid_params("the value must be the id of one of the option's choices").into());
    };
    let (id, client) = (session.id.to_string(), bridge.daemon().await?.client);
    let _guard = session.settings.lock().await;
    match request.config_id.0.as_ref() {
        MODE => client.set_mode(&id, read(value.0.parse())?, &bridge.editor().name).await?,
        MODEL => {
            let (slot, model) = model_of(&value.0)
                .ok_or_else(|| message::invalid_params("no such model; use one of the option's choices"))?;
            client.set_model(&id, slot, model).await.map(|_| ())?;
        }
        _ => return Err(message::invalid_params("no such option; the options are mode and model").into()),
    }
    let settings_offer = OfferedSettings::of(&client, &client.session(&id).await?.session.settings).await?;
    session.state().options.clone_from(&settings_offer.options);
    Ok(SetSessionConfigOptionResponse::new(settings_offer.options))
}

fn read<T, E: ToString>(value: Result<T, E>) -> Result<T> {
    value.map_err(|error| message::invalid_params(error.to_string()).into())
}

/// Starts to watch a session for changes after event `after`, unless it is watched already. Watching ends when the
/// session is closed, the editor disconnects or the daemon is lost; the next prompt restarts it.
pub(super) async fn ensure_watched(bridge: &Arc<Bridge>, session: &Arc<OpenSession>, daemon: &Daemon, after: u64) {
    if session.is_watched() {
        return;
    }
    // Without a subscription, changes are sent with the next prompt.
    let Ok(events) = daemon.client.subscribe(&session.id.to_string(), after, false).await else { return };
    let (client, bridge, weak) = (daemon.client.clone(), bridge.clone(), Arc::downgrade(session));
    let watch = tokio::spawn(async move {
        tokio::select! {
            () = bridge.shutdown.cancelled() => {}
            () = follow_events(events, &client, &bridge, &weak) => {}
        }
    });
    if let Some(before) = session.state().watch.replace(watch) {
        before.abort();
    }
}

/// Builds an update with the title of a session.
pub(super) fn title(title: &str, at: Timestamp) -> SessionUpdate {
    SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(clean_line(title)).updated_at(at.to_string()))
}

async fn follow_events(mut events: EventStream, client: &Client, bridge: &Bridge, session: &Weak<OpenSession>) {
    while let Ok(Some(event)) = events.next().await {
        let Some(session) = session.upgrade() else { return };
        let EventKind::StateChanged { change } = event.kind else { continue };
        match change {
            StateChange::Title { title } => {
                bridge.update(&session, vec![self::title(&title, event.at)]).await;
            }
            // The event's settings may be outdated, so the settings are loaded again.
            StateChange::Settings { .. } => {
                let _ = send_settings(bridge, client, &session).await;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_option_values_round_trip() {
        let check = |slot: Option<Slot>, model: Option<&str>, value: &str| {
            let settings = SessionSettings { slot, model: model.map(str::to_owned), ..SessionSettings::default() };
            assert_eq!(model_value(&settings), value);
            assert_eq!(model_of(value), Some((slot, model)), "{value}");
        };
        check(None, None, "default");
        check(Some(Slot::Code), None, "code");
        check(Some(Slot::Base), Some("gpt=5"), "base=gpt=5");
        assert_eq!(model_of("nonsense"), None);
    }

    #[test]
    fn current_model_is_always_an_option() {
        let settings = SessionSettings { slot: Some(Slot::Base), model: Some("other".into()), ..Default::default() };
        let option = serde_json::to_value(model_option(&settings, &[])).unwrap();
        assert_eq!(
            (&option["currentValue"], &option["options"][1]["value"]),
            (&"base=other".into(), &"base=other".into())
        );
        assert_eq!(option["type"], "select");
    }
}
