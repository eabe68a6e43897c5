//! Model names as typed by users: a slot, a model listed by a slot's server, or the configured default.

use std::str::FromStr;

use agentd_core::{
    error::ErrorKind,
    model::{ListedModel, Slot},
};
use agentd_proto::client::Client;

use crate::{failure::Failure, terminal::clean_line};

/// Maximum number of ids shown for an ambiguous name.
const MAX_SHOWN: usize = 5;

/// A model name, not resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelName {
    /// The model from the configuration.
    Default,
    /// The model of a slot.
    Slot(Slot),
    /// A model listed by the server, named by its id or a unique part of the id.
    Listed(String),
    /// Exactly this id, even if the server does not list it.
    Exactly(String),
}

/// The model of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelChoice {
    /// Slot of the model; `None` for the configured slot.
    pub(crate) slot: Option<Slot>,
    /// Id of a model on the slot's server; `None` for the slot's own model.
    pub(crate) id: Option<String>,
}

impl FromStr for ModelName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.trim_start_matches('=').trim().is_empty() {
            return Err("missing model name: a slot, an id, or default");
        }
        Ok(match (text, text.strip_prefix('='), text.parse()) {
            ("default", ..) => Self::Default,
            (_, Some(id), _) => Self::Exactly(id.trim().to_owned()),
            (_, _, Ok(slot)) => Self::Slot(slot),
            _ => Self::Listed(text.to_owned()),
        })
    }
}

impl ModelName {
    /// Resolves the name; `slot` is the session's current slot. The server's list is only requested if the name is
    /// neither a slot nor an exact id.
    ///
    /// # Errors
    /// Fails if the server lists no such model, or its list cannot be loaded.
    pub(crate) async fn resolve(&self, client: &Client, slot: Slot) -> Result<ModelChoice, Failure> {
        let of_server = |id: String| ModelChoice { slot: Some(slot), id: Some(id) };
        Ok(match self {
            Self::Default => ModelChoice::default(),
            Self::Slot(slot) => ModelChoice { slot: Some(*slot), id: None },
            Self::Exactly(id) => of_server(id.clone()),
            Self::Listed(name) => of_server(find(&client.listed_models(slot).await?, name, slot)?),
        })
    }
}

/// Finds the listed id that a name refers to.
fn find(listed: &[ListedModel], name: &str, slot: Slot) -> Result<String, Failure> {
    let ids = || listed.iter().map(|model| model.id.as_str());
    if let Some(id) = ids().find(|id| *id == name).or_else(|| ids().find(|id| id.eq_ignore_ascii_case(name))) {
        return Ok(id.to_owned());
    }
    let wanted = name.to_lowercase();
    let parts: Vec<&str> = ids().filter(|id| id.to_lowercase().contains(&wanted)).collect();
    match parts.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => {
            let slots = "the slots are base, reasoning, vision, code and chat";
            let message = format!("the server of {slot} lists no model {name:?}; {slots}");
            let near = nearest(ids(), &wanted).map_or_else(
                || "/model and `agentctl models --available` list them".to_owned(),
                |id| format!("did you mean {}?", clean_line(id)),
            );
            Err(Failure::new(ErrorKind::NotFound, message).hint(format!("{near} (={name} uses it anyway)")))
        }
        several => {
            let shown: Vec<String> = several.iter().take(MAX_SHOWN).map(|id| clean_line(id)).collect();
            let more = if several.len() > MAX_SHOWN { ", …" } else { "" };
            Err(Failure::usage(format!("{name:?} matches several models"))
                .hint(format!("use a longer part of the id: {}{more}", shown.join(", "))))
        }
    }
}

/// Returns the most similar id, if one is similar enough. The last path segment and its beginning are compared as well.
fn nearest<'a>(ids: impl Iterator<Item = &'a str>, wanted: &str) -> Option<&'a str> {
    let length = wanted.chars().count();
    let distance = |id: &str| {
        let id = id.to_lowercase();
        let last = id.rsplit('/').next().unwrap_or(&id);
        let prefix: String = last.chars().take(length).collect();
        [id.as_str(), last, &prefix]
            .map(|id| strsim::damerau_levenshtein(id, wanted))
            .into_iter()
            .min()
            .unwrap_or(length)
    };
    let near = ids.map(|id| (distance(id), id)).min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= length.div_ceil(3)).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_found_by_a_unique_part_of_its_id() {
        let listed = ["openai/gpt-5", "openai/gpt-5-mini", "meta/Llama-4", "x\u{1b}[2J-1", "x\u{1b}[2J-2"]
            .map(|id| ListedModel { id: id.to_owned(), context_window: None });
        let found = |name: &str| find(&listed, name, Slot::Base).map_err(|failure| failure.hint.unwrap_or_default());
        assert_eq!(found("openai/gpt-5"), Ok("openai/gpt-5".to_owned()));
        assert_eq!(found("mini"), Ok("openai/gpt-5-mini".to_owned()));
        assert_eq!(found("llama"), Ok("meta/Llama-4".to_owned()));
        assert_eq!(found("gpt"), Err("use a longer part of the id: openai/gpt-5, openai/gpt-5-mini".to_owned()));
        assert_eq!(found("gbt"), Err("did you mean openai/gpt-5? (=gbt uses it anyway)".to_owned()));
        assert_eq!(found("lama-5"), Err("did you mean meta/Llama-4? (=lama-5 uses it anyway)".to_owned()));
        assert_eq!(
            found("claude"),
            Err("/model and `agentctl models --available` list them (=claude uses it anyway)".to_owned())
        );
        assert!(!found("x").unwrap_err().contains('\u{1b}'));
    }
}
