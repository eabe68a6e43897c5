//! What servers tell of their models: which there are, and how large their windows are.
//!
//! - `listing`: the list of models, and what some servers tell elsewhere. It is pure.
//! - this file: which of them is asked for.
//!
//! All of it is a server's word: bounded, and believed only where it is plausible. A window that turns out to be smaller is
//! learnt from the server's refusals.

mod listing;

use agentd_core::{
    error::ErrorKind,
    model::{ListedModel, MAX_LISTED_MODELS},
    usage::Prices,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::listing::ListedEntry;
use crate::{
    config::{ModelConfig, Wire},
    http::{deadline::Deadline, failure::Failure, request::Document, target::Target, window},
};

/// Facts that a server told of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerFacts {
    /// Its id.
    pub(crate) id: Option<String>,
    /// Its window.
    pub(crate) window: WindowFacts,
    /// Its abilities.
    pub(crate) abilities: ModelAbilities,
    /// Its prices.
    pub(crate) prices: Option<Prices>,
    /// Set if the server tells the size of the window once it has loaded the model, and has not yet.
    pub(crate) loads_later: bool,
}

/// Abilities of a model, where its server tells of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ModelAbilities {
    /// The tokens that an answer may have.
    pub(crate) max_answer: Option<u64>,
    /// It can be shown pictures, or cannot.
    pub(crate) pictures: Option<bool>,
    /// It thinks as much as it finds fit, or cannot.
    pub(crate) adaptive_thinking: Option<bool>,
}

/// Facts about a window, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowFacts {
    /// Its size.
    exact: Option<u64>,
    /// The size for which the model was made. Its server may have given it less, and some then cut requests in silence: so
    /// it says only that the window is not larger.
    bound: Option<u64>,
}

impl WindowFacts {
    fn exact(tokens: Option<u64>) -> Self {
        Self { exact: plausible(tokens), bound: None }
    }

    fn bound(tokens: Option<u64>) -> Self {
        Self { exact: None, bound: plausible(tokens) }
    }

    /// These facts, and the others where they say nothing.
    fn or(self, other: Self) -> Self {
        Self { exact: self.exact.or(other.exact), bound: self.bound.or(other.bound) }
    }

    /// The window, where what was told changes what is assumed.
    pub(crate) fn tokens(self, assumed: u64) -> Option<u64> {
        self.exact.or(self.bound.filter(|bound| *bound < assumed))
    }
}

fn plausible(tokens: Option<u64>) -> Option<u64> {
    tokens.filter(|tokens| window::PLAUSIBLE.contains(tokens))
}

/// Asks a server for what it tells of a model, and wherever it may tell of that, whether the model sees. None where it could
/// not be asked.
pub(crate) async fn ask(target: &Target, config: &ModelConfig, sight: bool) -> Option<ServerFacts> {
    let deadline = target.deadlines.listing();
    if config.wire == Wire::LlamaCpp {
        return match target.get(&target.beside("/props"), &deadline).await {
            Document::There(text) => Some(listing::properties(&text)),
            Document::Refused => Some(ServerFacts::default()),
            Document::Unreachable(_) => None,
        };
    }
    let entries = match target.get(list_path(config), &deadline).await {
        Document::There(text) => listing::parse(&text).unwrap_or_default(),
        Document::Refused => return Some(ServerFacts::default()),
        Document::Unreachable(_) => return None,
    };
    let meant = listing::find(&entries, &config.id);
    let id = meant.map(|entry| entry.id.clone());
    let mut abilities = meant.map(|entry| entry.abilities).unwrap_or_default();
    let prices = meant.and_then(|entry| entry.prices.clone());
    let mut window = meant.map(|entry| entry.window).unwrap_or_default();
    let mut loads_later = false;
    let lacks_window = config.context_window.is_none() && window.exact.is_none();
    if lacks_window || (sight && abilities.pictures.is_none()) {
        let asked_for = id.as_deref().unwrap_or(&config.id);
        let found = elsewhere(target, &entries, asked_for, &deadline, sight).await;
        window = if lacks_window { found.window.or(window) } else { window };
        loads_later = found.loads_later && lacks_window && window.exact.is_none();
        abilities.pictures = abilities.pictures.or(found.abilities.pictures);
    }
    Some(ServerFacts { id, window, abilities, prices, loads_later })
}

/// Path of the list of models, all of them in one page.
fn list_path(config: &ModelConfig) -> &'static str {
    if config.wire == Wire::Anthropic { "/models?limit=1000" } else { "/models" }
}

/// Facts from the other documents of servers that are known to have some.
async fn elsewhere(
    target: &Target,
    entries: &[ListedEntry],
    id: &str,
    deadline: &Deadline,
    sight: bool,
) -> ServerFacts {
    let is_of = |owner: &str| entries.iter().any(|entry| entry.owner == owner);
    let text = |document: Document| document.text().unwrap_or_default();
    // Ollama.
    if is_of("library") {
        let running = listing::running(&text(target.get(&target.beside("/api/ps"), deadline).await), id);
        if running.exact.is_some() && !sight {
            return ServerFacts { window: running, loads_later: true, ..ServerFacts::default() };
        }
        let question = json!({ "model": id }).to_string();
        let shown = listing::modelfile(&text(target.ask(&target.beside("/api/show"), question, deadline).await));
        return ServerFacts { window: running.or(shown.window), loads_later: true, ..shown };
    }
    // llama.cpp.
    if is_of("llamacpp") || entries.iter().any(|entry| entry.window.bound.is_some()) {
        return listing::properties(&text(target.get(&target.beside("/props"), deadline).await));
    }
    // LM Studio.
    if is_of("organization_owner") {
        let entries = listing::parse_with_bounds(&text(target.get(&target.beside("/api/v0/models"), deadline).await));
        let entries = entries.unwrap_or_default();
        let found = listing::find(&entries, id).map(|entry| (entry.window, entry.abilities));
        let (window, abilities) = found.unwrap_or_default();
        return ServerFacts { window, abilities, loads_later: true, ..ServerFacts::default() };
    }
    ServerFacts::default()
}

/// The models that a server lists.
///
/// # Errors
/// When it lists none, or could not be asked.
pub(crate) async fn listed(target: &Target, config: &ModelConfig) -> Result<Vec<ListedModel>, Failure> {
    let deadline = target.deadlines.listing();
    if config.wire == Wire::LlamaCpp {
        if let Document::Unreachable(failure) = target.get(&target.beside("/props"), &deadline).await {
            return Err(failure);
        }
        let message = format!("the server at {target} has one model, which is not chosen by name");
        return Err(Failure::new(ErrorKind::Configuration, message)
            .hint("with `wire: openai` and the address up to /v1 it can be asked for its models"));
    }
    let entries = match target.get(list_path(config), &deadline).await {
        Document::There(text) => listing::parse(&text),
        Document::Refused => None,
        Document::Unreachable(failure) => return Err(failure),
    };
    let entries = entries.filter(|entries| !entries.is_empty()).ok_or_else(|| {
        Failure::new(ErrorKind::Provider, format!("the server at {target} does not list its models"))
            .hint("name one by its id: /model =ID")
    })?;
    let listed = |entry: ListedEntry| ListedModel { id: entry.id, context_window: entry.window.exact };
    Ok(entries.into_iter().take(MAX_LISTED_MODELS).map(listed).collect())
}
