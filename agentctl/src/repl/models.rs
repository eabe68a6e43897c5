//! `/model`: the model of the session, chosen from the slots and from what the server of its slot lists.

use agentd_core::model::{ListedModel, ModelInfo, Slot, SlotInfo, WindowSource};
use agentd_proto::client::SessionView;

use super::{chat::Chat, conversation::ChatBackend as _, picker::Choice};
use crate::{
    exit::Exit,
    failure::Failure,
    model_name::{ModelChoice, ModelName},
    session::SessionTarget,
    terminal::{paint::number, sanitize::clean_line},
};

/// Model that can be chosen.
#[derive(Debug, PartialEq, Eq)]
struct ModelRow {
    name: ModelName,
    label: String,
    about: String,
    is_current: bool,
}

impl Chat {
    /// Chooses a model, or lists the models to choose from.
    pub(super) async fn change_model(&mut self, wanted: Option<ModelName>) -> anyhow::Result<Exit> {
        if let Some(name) = wanted {
            self.choose_model(&name).await?;
            return Ok(Exit::Done);
        }
        let now = self.model_choice().await?;
        self.slots = self.daemon.client.models_looked_up().await?;
        let slot = now.slot.unwrap_or_default();
        let listed = self.daemon.client.listed_models(slot).await.map_err(Failure::from);
        let rows = rows(&self.slots, listed.as_deref().unwrap_or_default(), &now);
        if let Err(failure) = &listed {
            let hint = failure.hint.as_deref().map_or_else(String::new, |hint| format!("; {hint}"));
            self.note(&format!("only the slots: {}{hint}", failure.message));
        }
        if self.present {
            return self.pick_model(rows).await;
        }
        let line = |row: &ModelRow| {
            let mark = if row.is_current { '›' } else { ' ' };
            format!("{mark} {:<24} {}", row.label, row.about).trim_end().to_owned() + "\n"
        };
        self.print(&rows.iter().map(line).collect::<String>())?;
        Ok(Exit::Done)
    }

    async fn pick_model(&mut self, rows: Vec<ModelRow>) -> anyhow::Result<Exit> {
        let choice = |row: &ModelRow| {
            let current = if row.is_current { "current" } else { "" };
            let about =
                [current, &row.about].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
            Choice::new(&row.label, &about)
        };
        let at = rows.iter().rposition(|row| row.is_current).unwrap_or(0);
        let choices = rows.iter().map(choice).collect();
        let picked = self.choose("Models", choices, at, None).await?;
        if let Some(row) = picked.and_then(|index| rows.get(index)) {
            self.choose_model(&row.name).await?;
        }
        Ok(Exit::Done)
    }

    async fn choose_model(&mut self, name: &ModelName) -> Result<(), Failure> {
        let slot = self.model_choice().await?.slot.unwrap_or_default();
        let choice = name.resolve(&self.daemon.client, slot).await?;
        let is_default = choice == ModelChoice::default();
        let set = match &mut self.place {
            SessionTarget::New(new) => {
                (new.slot, new.model) = (choice.slot, choice.id.clone());
                self.foreseen(&choice)
            }
            place => self.daemon.client.set_model(&place.name(), choice.slot, choice.id.as_deref()).await?,
        };
        let model = clean_line(&set.model.id);
        let how = if is_default { "as configured".to_owned() } else { format!("slot {}", set.slot) };
        let window = match set.model.window_source {
            WindowSource::Default => String::new(),
            _ => format!(" · window of {} tokens", number(set.model.context_window)),
        };
        self.note(&format!("model: {model} · {how}{window}"));
        self.known.change_status(|status| status.model = model);
        Ok(())
    }

    /// Returns the model choice of the session.
    pub(super) async fn model_choice(&mut self) -> Result<ModelChoice, Failure> {
        let Some(id) = self.place.id() else { return Ok(self.place.first_model()) };
        let settings = self.daemon.client.session(&id.to_string()).await?.session.settings;
        Ok(ModelChoice { slot: settings.slot, id: settings.model })
    }

    /// Returns the model of a session, or of a new one, without a request to the daemon.
    pub(super) fn model_of(&self, view: Option<&SessionView>) -> SlotInfo {
        self.foreseen(&view.map_or_else(
            || self.place.first_model(),
            |view| ModelChoice { slot: view.session.settings.slot, id: view.session.settings.model.clone() },
        ))
    }

    /// Returns the model of a choice without a request to the daemon.
    pub(super) fn foreseen(&self, choice: &ModelChoice) -> SlotInfo {
        let slot = choice.slot.unwrap_or_default();
        let own = self.slots.iter().find(|info| info.slot == slot).cloned();
        let unknown = || ModelInfo { native_tools: true, ..ModelInfo::default() };
        let mut info = own.unwrap_or_else(|| SlotInfo { slot, falls_back_to: None, model: unknown() });
        if let Some(id) = choice.id.as_ref().filter(|id| **id != info.model.id) {
            info.model.id.clone_from(id);
            info.model.window_source = WindowSource::Default;
        }
        info
    }
}

/// Returns the models to choose from: the configured one, the slots with a separate model, and the listed models.
fn rows(slots: &[SlotInfo], listed: &[ListedModel], now: &ModelChoice) -> Vec<ModelRow> {
    let slot = now.slot.unwrap_or_default();
    let own_id = |slot: Slot| slots.iter().find(|info| info.slot == slot).map_or("", |info| info.model.id.as_str());
    let current = now.id.as_deref().unwrap_or(own_id(slot));
    let default = ModelRow {
        name: ModelName::Default,
        label: "default".to_owned(),
        about: format!("as configured: {}", clean_line(own_id(Slot::Base))),
        is_current: *now == ModelChoice::default(),
    };
    let of_slot = |info: &SlotInfo| ModelRow {
        name: ModelName::Slot(info.slot),
        label: info.slot.to_string(),
        about: format!("slot · {} · {}", clean_line(&info.model.id), window(info.model.context_window)),
        is_current: now.id.is_none() && now.slot == Some(info.slot),
    };
    let is_own = |info: &&SlotInfo| info.falls_back_to.is_none() || now.slot == Some(info.slot);
    let of_server = |id: &str, about: String| ModelRow {
        name: ModelName::Exactly(id.to_owned()),
        label: clean_line(id),
        about,
        is_current: id == current,
    };
    // Model that was chosen although its server does not list it.
    let unlisted = now.id.as_deref().filter(|id| listed.iter().all(|model| model.id != **id));
    std::iter::once(default)
        .chain(slots.iter().filter(is_own).map(of_slot))
        .chain(unlisted.map(|id| of_server(id, "not listed".to_owned())))
        .chain(listed.iter().map(|model| of_server(&model.id, model.context_window.map(window).unwrap_or_default())))
        .collect()
}

fn window(tokens: u64) -> String {
    format!("{} tokens", number(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(slot: Slot, id: &str, falls_back_to: Option<Slot>) -> SlotInfo {
        let model = ModelInfo { id: id.to_owned(), context_window: 32_768, ..ModelInfo::default() };
        SlotInfo { slot, falls_back_to, model }
    }

    fn labels(now: &ModelChoice, listed: &[ListedModel]) -> Vec<String> {
        let slots = [
            slot(Slot::Base, "big", None),
            slot(Slot::Reasoning, "big", Some(Slot::Base)),
            slot(Slot::Code, "coder", None),
        ];
        let rows = rows(&slots, listed, now).into_iter();
        rows.map(|row| format!("{}{}", if row.is_current { "*" } else { "" }, row.label)).collect()
    }

    #[test]
    fn current_model_is_marked_in_the_choices() {
        let listed = ["big", "small\u{1b}[2J"].map(|id| ListedModel { id: id.to_owned(), context_window: Some(4096) });
        let choice = |slot, id: Option<&str>| ModelChoice { slot, id: id.map(str::to_owned) };
        assert_eq!(labels(&choice(None, None), &listed)[..4], ["*default", "base", "code", "*big"]);
        assert!(!labels(&choice(None, None), &listed)[4].contains('\u{1b}'));
        assert_eq!(labels(&choice(Some(Slot::Code), None), &listed)[..4], ["default", "base", "*code", "big"]);
        let small = choice(Some(Slot::Base), Some("small\u{1b}[2J"));
        assert_eq!(labels(&small, &listed)[..4], ["default", "base", "code", "big"]);
        assert!(labels(&small, &listed)[4].starts_with('*'));
        assert_eq!(labels(&choice(Some(Slot::Base), Some("own")), &[]), ["default", "base", "code", "*own"]);
        // A slot without a model of its own is there only where it was chosen.
        assert_eq!(labels(&choice(Some(Slot::Reasoning), None), &[])[2], "*reasoning");
    }
}
