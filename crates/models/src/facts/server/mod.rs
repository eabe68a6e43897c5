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
pub(crate) use self::listing::number;
use crate::{
    config::{ModelConfig, Wire},
    http::{
        failure::Failure,
        request::Document,
        target::{Deadline, Target},
        window,
    },
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
        let text = target.get(&target.beside("/props"), &deadline).await.ok()?;
        return Some(text.map(|text| listing::properties(&text)).unwrap_or_default());
    }
    let Some(text) = target.get(list_path(config), &deadline).await.ok()? else { return Some(ServerFacts::default()) };
    let entries = listing::parse(&text, false).unwrap_or_default();
    let mut facts = listing::find(&entries, &config.id).map(|entry| entry.facts.clone()).unwrap_or_default();
    let lacks_window = config.context_window.is_none() && facts.window.exact.is_none();
    if lacks_window || (sight && facts.abilities.pictures.is_none()) {
        let asked_for = facts.id.as_deref().unwrap_or(&config.id);
        let found = elsewhere(target, &entries, asked_for, &deadline, sight).await;
        if lacks_window {
            facts.window = found.window.or(facts.window);
            facts.loads_later = found.loads_later && facts.window.exact.is_none();
        }
        facts.abilities.pictures = facts.abilities.pictures.or(found.abilities.pictures);
    }
    Some(facts)
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
    let text = |document: Document| document.ok().flatten().unwrap_or_default();
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
    if is_of("llamacpp") || entries.iter().any(|entry| entry.facts.window.bound.is_some()) {
        return listing::properties(&text(target.get(&target.beside("/props"), deadline).await));
    }
    // LM Studio.
    if is_of("organization_owner") {
        let entries = text(target.get(&target.beside("/api/v0/models"), deadline).await);
        let entries = listing::parse(&entries, true).unwrap_or_default();
        let found = listing::find(&entries, id).map(|entry| entry.facts.clone()).unwrap_or_default();
        return ServerFacts { loads_later: true, ..found };
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
        target.get(&target.beside("/props"), &deadline).await?;
        let message = format!("the server at {target} has one model, which is not chosen by name");
        return Err(Failure::new(ErrorKind::Configuration, message)
            .hint("with `wire: openai` and the address up to /v1 it can be asked for its models"));
    }
    let text = target.get(list_path(config), &deadline).await?;
    let entries = text.and_then(|text| listing::parse(&text, false));
    let entries = entries.filter(|entries| !entries.is_empty()).ok_or_else(|| {
        Failure::new(ErrorKind::Provider, format!("the server at {target} does not list its models"))
            .hint("name one by its id: /model =ID")
    })?;
    let listed =
        |entry: ListedEntry| Some(ListedModel { id: entry.facts.id?, context_window: entry.facts.window.exact });
    Ok(entries.into_iter().take(MAX_LISTED_MODELS).filter_map(listed).collect())
}
