//! Modes and models of a session, as options that the editor shows, and changes of a session that come from elsewhere. The mode
//! is there twice: older editors know modes only.

use std::sync::{Arc, Weak};

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, CurrentModeUpdate, SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue,
    SessionConfigSelectOption, SessionInfoUpdate, SessionMode as WireMode, SessionModeState, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use agentd_core::{
    Timestamp,
    event::{EventKind, StateChange},
    model::{Slot, SlotInfo},
    session::{SessionMode, SessionSettings},
};
use agentd_proto::client::{Client, ClientError, EventStream};

use super::{
    bridge::Bridge,
    refusal::{self, Trouble},
    session::OpenSession,
};
use crate::{daemon::Daemon, terminal::sanitize::clean_line};

const MODE: &str = "mode";
const MODEL: &str = "model";
/// The model that the configuration chooses.
const AUTOMATIC: &str = "default";

/// Settings of a session, as the editor is told them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offer {
    pub(super) mode: SessionMode,
    pub(super) options: Vec<SessionConfigOption>,
}

impl Offer {
    /// The settings of a session, with the models that there are now.
    ///
    /// # Errors
    /// When the connection fails.
    pub(super) async fn of(client: &Client, settings: &SessionSettings) -> Result<Self, ClientError> {
        let slots = client.models().await?;
        Ok(Self { mode: settings.mode, options: vec![mode_option(settings.mode), model_option(settings, &slots)] })
    }

    /// The modes.
    pub(super) fn modes(&self) -> SessionModeState {
        let mode = |mode: SessionMode| WireMode::new(mode.as_str(), mode_name(mode)).description(mode.description());
        SessionModeState::new(self.mode.as_str(), SessionMode::ALL.map(mode).to_vec())
    }

    /// Takes note that the editor knows all this.
    pub(super) fn told(&self, session: &OpenSession) {
        let mut state = session.state();
        state.mode = self.mode;
        state.options.clone_from(&self.options);
    }

    /// Updates about what the editor does not know yet. It does now.
    pub(super) fn news(&self, session: &OpenSession) -> Vec<SessionUpdate> {
        let mut news = Vec::new();
        {
            let state = session.state();
            if state.mode != self.mode {
                news.push(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(self.mode.as_str())));
            }
            if state.options != self.options {
                news.push(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(self.options.clone())));
            }
        }
        self.told(session);
        news
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

/// The slots that have a model of their own, and what the session has beside them.
fn model_option(settings: &SessionSettings, slots: &[SlotInfo]) -> SessionConfigOption {
    let current = model_value(settings);
    let mut choices = vec![
        SessionConfigSelectOption::new(AUTOMATIC, "Automatic")
            .description("The slot that fits each input, as configured"),
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

/// The value of the model option for these settings.
fn model_value(settings: &SessionSettings) -> String {
    match (settings.slot, &settings.model) {
        (None, None) => AUTOMATIC.to_owned(),
        (Some(slot), None) => slot.to_string(),
        (slot, Some(model)) => format!("{}={model}", slot.unwrap_or_default()),
    }
}

/// The slot and the model that a value of that option means.
fn model_of(value: &str) -> Option<(Option<Slot>, Option<&str>)> {
    if value == AUTOMATIC {
        return Some((None, None));
    }
    let (slot, model) = value.split_once('=').map_or((value, None), |(slot, model)| (slot, Some(model)));
    Some((Some(slot.parse().ok()?), model.filter(|model| !model.is_empty())))
}

/// Tells the editor what it does not know yet of the settings.
///
/// # Errors
/// When the connection fails.
pub(super) async fn tell(bridge: &Bridge, client: &Client, session: &OpenSession) -> Result<(), ClientError> {
    let _held = session.settings.lock().await;
    let settings = client.session(&session.id.to_string()).await?.session.settings;
    bridge.update(session, Offer::of(client, &settings).await?.news(session)).await;
    Ok(())
}

/// Sets the mode. The options are news that follow, since editors that know them expect to hear of it there.
pub(super) async fn set_mode(
    bridge: &Bridge,
    request: &SetSessionModeRequest,
) -> Result<SetSessionModeResponse, Trouble> {
    let session = bridge.session(&request.session_id)?;
    let mode: SessionMode = read(request.mode_id.0.parse())?;
    let client = bridge.daemon().await?.client;
    let _held = session.settings.lock().await;
    client.set_mode(&session.id.to_string(), mode, &bridge.editor().name).await?;
    session.state().mode = mode;
    Ok(SetSessionModeResponse::new())
}

/// Sets an option, and answers with all of them. The mode is news that follows, for an editor that knows modes only.
pub(super) async fn set_option(
    bridge: &Bridge,
    request: &SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Trouble> {
    let session = bridge.session(&request.session_id)?;
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(refusal::misfit("the value of this option is the id of one of its choices").into());
    };
    let (id, client) = (session.id.to_string(), bridge.daemon().await?.client);
    let _held = session.settings.lock().await;
    match request.config_id.0.as_ref() {
        MODE => client.set_mode(&id, read(value.0.parse())?, &bridge.editor().name).await?,
        MODEL => {
            let (slot, model) = model_of(&value.0).ok_or_else(|| {
                refusal::misfit("there is no such model; the option's choices are those that there are")
            })?;
            client.set_model(&id, slot, model).await.map(|_| ())?;
        }
        _ => return Err(refusal::misfit("there is no such option; there are mode and model").into()),
    }
    let offer = Offer::of(&client, &client.session(&id).await?.session.settings).await?;
    session.state().options.clone_from(&offer.options);
    Ok(SetSessionConfigOptionResponse::new(offer.options))
}

fn read<T, E: ToString>(value: Result<T, E>) -> Result<T, Trouble> {
    value.map_err(|error| refusal::misfit(error.to_string()).into())
}

/// Hears of what changes in a session behind an event number, if nobody does yet. It ends with the session, the editor or the
/// connection to the daemon, and is begun again with the next prompt.
pub(super) async fn ensure_watched(bridge: &Arc<Bridge>, session: &Arc<OpenSession>, daemon: &Daemon, after: u64) {
    if session.is_watched() {
        return;
    }
    // Without it changes are told with the next prompt.
    let Ok(events) = daemon.client.subscribe(&session.id.to_string(), after, false).await else { return };
    let (client, bridge, weak) = (daemon.client.clone(), bridge.clone(), Arc::downgrade(session));
    session.watched_by(tokio::spawn(async move {
        tokio::select! {
            () = bridge.over.cancelled() => {}
            () = hear(events, &client, &bridge, &weak) => {}
        }
    }));
}

/// The title of a session.
pub(super) fn title(title: &str, at: Timestamp) -> SessionUpdate {
    SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(clean_line(title)).updated_at(at.to_string()))
}

async fn hear(mut events: EventStream, client: &Client, bridge: &Bridge, session: &Weak<OpenSession>) {
    while let Ok(Some(event)) = events.next().await {
        let Some(session) = session.upgrade() else { return };
        let EventKind::StateChanged { change } = event.kind else { continue };
        match change {
            StateChange::Title { title } => {
                bridge.update(&session, vec![self::title(&title, event.at)]).await;
            }
            // Not those of the event: they may have changed again since.
            StateChange::Settings { .. } => {
                let _ = tell(bridge, client, &session).await;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_values_that_mean_them() {
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
    fn the_current_model_is_always_a_choice() {
        let settings = SessionSettings { slot: Some(Slot::Base), model: Some("other".into()), ..Default::default() };
        let option = serde_json::to_value(model_option(&settings, &[])).unwrap();
        assert_eq!(
            (&option["currentValue"], &option["options"][1]["value"]),
            (&"base=other".into(), &"base=other".into())
        );
        assert_eq!(option["type"], "select");
    }
}
