//! Facts that servers report about their models: which models exist, their windows, abilities and prices.
//!
//! Sources are the list of models and additional documents of specific kinds of server. Servers report different facts
//! under different names. Values of a wrong type and implausible IDs are ignored. All facts are untrusted: they are
//! bounded, and only used if plausible. If the actual window is smaller than reported, this is learnt from the server's
//! refusals.

use agentd_core::{
    error::ErrorKind,
    model::{ListedModel, MAX_LISTED_MODELS, is_model_id},
    usage::Prices,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{
    config::{ModelConfig, Wire},
    http::{
        failure::{Failure, PLAUSIBLE},
        request::Document,
        target::{Deadline, Target},
    },
};

/// Facts that a server reported about a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerFacts {
    pub(crate) id: Option<String>,
    pub(crate) window: WindowFacts,
    pub(crate) abilities: ModelAbilities,
    /// Prices of the model, if the server lists them.
    pub(crate) prices: Option<Prices>,
    /// True if the server reports the window only once the model is loaded, and the model is not loaded yet.
    pub(crate) loads_later: bool,
    /// Name under which Ollama serves the model with the configured window.
    pub(crate) variant: Option<String>,
}

/// Abilities of a model that its server reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ModelAbilities {
    /// Maximum size of an answer in tokens.
    pub(crate) max_answer: Option<u64>,
    /// True if the model accepts pictures.
    pub(crate) pictures: Option<bool>,
    /// True if the model supports adaptive reasoning.
    pub(crate) adaptive_thinking: Option<bool>,
}

/// Facts about a window, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowFacts {
    /// Exact size of the window.
    exact: Option<u64>,
    /// Size for which the model was trained. This is only an upper bound, as the server may be configured for less, and
    /// some servers truncate longer requests silently.
    bound: Option<u64>,
    /// Size that Ollama gives to a model that is not loaded yet, unless it is configured for more.
    initial: Option<u64>,
}

/// Window in tokens that Ollama gives to a model, except on machines with large graphics memory.
const OLLAMA_WINDOW: u64 = 4096;

impl WindowFacts {
    fn exact(tokens: Option<u64>) -> Self {
        Self { exact: plausible(tokens), ..Self::default() }
    }

    fn bound(tokens: Option<u64>) -> Self {
        Self { bound: plausible(tokens), ..Self::default() }
    }

    /// Merges two sets of facts. `self` takes precedence.
    fn or(self, other: Self) -> Self {
        Self {
            exact: self.exact.or(other.exact),
            bound: self.bound.or(other.bound),
            initial: self.initial.or(other.initial),
        }
    }

    /// Returns the window, if the facts change the assumed size. `reported` is the size that was reported before.
    pub(crate) fn tokens(self, assumed: u64, reported: Option<u64>) -> Option<u64> {
        let initial = self.initial.map(|initial| reported.unwrap_or(initial));
        self.exact.or(initial).or(self.bound.filter(|bound| *bound < assumed))
    }
}

fn plausible(tokens: Option<u64>) -> Option<u64> {
    tokens.filter(|tokens| PLAUSIBLE.contains(tokens))
}

/// Queries a server's facts about a model. With `sight`, also queries additional documents that may report support for
/// pictures. With `sets_window`, sets the configured window if the server is Ollama. Returns `None` if the server could
/// not be reached.
pub(crate) async fn query(
    target: &Target,
    config: &ModelConfig,
    sight: bool,
    sets_window: bool,
) -> Option<ServerFacts> {
    target.read_key().await.ok()?;
    let deadline = target.deadlines.listing();
    if config.wire == Wire::LlamaCpp {
        let text = target.get(&target.root_path("/props"), &deadline).await.ok()?;
        return Some(text.map(|text| properties(&text)).unwrap_or_default());
    }
    let Some(text) = target.get(list_path(config), &deadline).await.ok()? else { return Some(ServerFacts::default()) };
    let entries = parse(&text, false).unwrap_or_default();
    let mut facts = find(&entries, &config.id).map(|entry| entry.facts.clone()).unwrap_or_default();
    let lacks_window = config.context_window.is_none() && facts.window.exact.is_none();
    if lacks_window || sets_window || (sight && facts.abilities.pictures.is_none()) {
        let id = facts.id.as_deref().unwrap_or(&config.id);
        let found = query_other_documents(target, &entries, id, &deadline, sight || sets_window).await;
        let window = config.context_window.filter(|_| sets_window && is_ollama(&entries));
        if let (Some(window), Some(id)) = (window, &facts.id) {
            facts.variant = widened(target, id, (window, found.window), &deadline).await;
        }
        if lacks_window {
            facts.window = found.window.or(facts.window);
            facts.loads_later = found.loads_later && facts.window.exact.is_none();
        }
        facts.abilities.pictures = facts.abilities.pictures.or(found.abilities.pictures);
    }
    Some(facts)
}

/// Returns true if a list of models is Ollama's: a model is from its library, or each name has a tag.
fn is_ollama(entries: &[ListedEntry]) -> bool {
    let is_tagged = |entry: &ListedEntry| {
        let is_named = entry.facts.id.as_deref().is_some_and(|id| id.contains(':'));
        is_named && entry.owner != "llamacpp" && entry.facts.window == WindowFacts::default()
    };
    entries.iter().any(|entry| entry.owner == "library") || (!entries.is_empty() && entries.iter().all(is_tagged))
}

/// Makes Ollama serve a model with a window, if the current one is smaller. Requests in the formats of OpenAI and
/// Anthropic cannot set it, and reload a model that another request has loaded with it. Returns the name of a variant
/// that has the window as a parameter, and shares the weights.
async fn widened(
    target: &Target,
    id: &str,
    (window, current): (u64, WindowFacts),
    deadline: &Deadline,
) -> Option<String> {
    // A model in the cloud has its whole window, and no bound.
    let window = window.min(current.bound?);
    if current.exact.is_some_and(|current| current >= window) {
        return None;
    }
    let name = format!("{id}-ctx{window}");
    let body = json!({ "model": name, "from": id, "parameters": { "num_ctx": window }, "stream": false });
    let created = target.query(&target.root_path("/api/create"), body.to_string(), deadline).await;
    if !matches!(created, Ok(Some(_))) {
        tracing::warn!(
            hint = "set OLLAMA_CONTEXT_LENGTH in the environment of Ollama",
            "could not set the context window of {id} at {target} to {window} tokens"
        );
        return None;
    }
    Some(name)
}

/// Returns the path of the list of models, with all models on one page.
fn list_path(config: &ModelConfig) -> &'static str {
    if config.wire == Wire::Anthropic { "/models?limit=1000" } else { "/models" }
}

/// Queries the additional documents of known kinds of server for facts. Unless `all` is true, only for the window.
async fn query_other_documents(
    target: &Target,
    entries: &[ListedEntry],
    id: &str,
    deadline: &Deadline,
    all: bool,
) -> ServerFacts {
    let has_owner = |owner: &str| entries.iter().any(|entry| entry.owner == owner);
    let text = |document: Document| document.ok().flatten().unwrap_or_default();
    if is_ollama(entries) {
        let running = running(&text(target.get(&target.root_path("/api/ps"), deadline).await), id);
        if running.exact.is_some() && !all {
            return ServerFacts { window: running, loads_later: true, ..ServerFacts::default() };
        }
        let body = json!({ "model": id }).to_string();
        let shown = modelfile(&text(target.query(&target.root_path("/api/show"), body, deadline).await));
        // Another program may have loaded the model with another window than that in its file.
        return ServerFacts { window: shown.window.or(running), loads_later: true, ..shown };
    }
    // llama.cpp
    if has_owner("llamacpp") || entries.iter().any(|entry| entry.facts.window.bound.is_some()) {
        return properties(&text(target.get(&target.root_path("/props"), deadline).await));
    }
    // LM Studio
    if has_owner("organization_owner") {
        let entries = text(target.get(&target.root_path("/api/v0/models"), deadline).await);
        let entries = parse(&entries, true).unwrap_or_default();
        let found = find(&entries, id).map(|entry| entry.facts.clone()).unwrap_or_default();
        return ServerFacts { loads_later: true, ..found };
    }
    ServerFacts::default()
}

/// Lists the models of a server.
///
/// # Errors
/// Fails if the server lists no models or could not be reached.
pub(crate) async fn listed(target: &Target, config: &ModelConfig) -> Result<Vec<ListedModel>, Failure> {
    target.read_key().await?;
    let deadline = target.deadlines.listing();
    if config.wire == Wire::LlamaCpp {
        target.get(&target.root_path("/props"), &deadline).await?;
        let message = format!("the server at {target} has a single model that is not selected by name");
        return Err(Failure::new(ErrorKind::Configuration, message)
            .hint("to list its models, set `wire: openai` and a base_url that ends in /v1"));
    }
    let text = target.get(list_path(config), &deadline).await?;
    let entries = text.and_then(|text| parse(&text, false));
    let entries = entries.filter(|entries| !entries.is_empty()).ok_or_else(|| {
        Failure::new(ErrorKind::Provider, format!("the server at {target} does not list its models"))
            .hint("set a model by its id: /model =ID")
    })?;
    let listed =
        |entry: ListedEntry| Some(ListedModel { id: entry.facts.id?, context_window: entry.facts.window.exact });
    Ok(entries.into_iter().take(MAX_LISTED_MODELS).filter_map(listed).collect())
}

/// Entry of the list of models.
#[derive(Debug, Clone, PartialEq)]
struct ListedEntry {
    /// Declared owner, which identifies some kinds of server.
    owner: String,
    facts: ServerFacts,
}

#[derive(Deserialize)]
struct WireListing<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

/// Parses a list of models, in order. Returns `None` if `text` is not a list. If `bounds` is true, `max_context_length`
/// is an upper bound of the window instead of its size.
fn parse(text: &[u8], bounds: bool) -> Option<Vec<ListedEntry>> {
    let is_bare = text.trim_ascii_start().starts_with(b"[");
    let models = if is_bare {
        serde_json::from_slice::<Vec<&RawValue>>(text).ok()?
    } else {
        serde_json::from_slice::<WireListing<'_>>(text).ok()?.data
    };
    Some(models.into_iter().filter_map(|model| entry(&serde_json::from_str(model.get()).ok()?, bounds)).collect())
}

/// Returns the model with this ID, or the first one if the ID is empty.
fn find<'a>(entries: &'a [ListedEntry], id: &str) -> Option<&'a ListedEntry> {
    if id.is_empty() {
        return entries.first();
    }
    let by_id = |wanted: &str| entries.iter().find(|entry| entry.facts.id.as_deref() == Some(wanted));
    // Ollama accepts a name without its tag.
    by_id(id).or_else(|| by_id(&format!("{id}:latest")))
}

fn entry(model: &Value, bounds: bool) -> Option<ListedEntry> {
    let id = model.get("id")?.as_str().filter(|id| is_model_id(id))?;
    let field = |path: &str| number(model.pointer(path)?);
    // OpenRouter, Together and others. OpenRouter's second field is the limit of the provider that is tried first.
    let offered = match (field("/context_length"), field("/top_provider/context_length")) {
        (Some(whole), Some(offered)) => Some(whole.min(offered)),
        (whole, offered) => whole.or(offered),
    };
    // Mistral. In LM Studio, the size for which the model was trained.
    let longest = field("/max_context_length");
    // LM Studio for a loaded model; vLLM and SGLang; llama.cpp; Groq.
    let exact =
        ["/loaded_context_length", "/max_model_len", "/meta/n_ctx", "/context_window"].into_iter().find_map(field);
    // Anthropic and LiteLLM
    let exact = exact.or(offered).or_else(|| field("/max_input_tokens")).or(longest.filter(|_| !bounds));
    let bound = field("/meta/n_ctx_train").or(longest.filter(|_| bounds));
    // Anthropic and Mistral
    let supports = |path: &str| {
        let ability = model.get("capabilities")?.pointer(path)?;
        ability.get("supported").unwrap_or(ability).as_bool()
    };
    // OpenRouter and llama.cpp
    let inputs = || {
        let inputs = model.pointer("/architecture/input_modalities")?.as_array()?;
        Some(inputs.iter().any(|input| input == "image"))
    };
    // LM Studio
    let kind = || match model.get("type")?.as_str()? {
        "vlm" => Some(true),
        "llm" => Some(false),
        _ => None,
    };
    // LiteLLM and Anthropic. Other servers use the field for other purposes.
    let largest = || field("/max_output_tokens").or_else(|| field("/max_tokens"));
    let has_input = model.get("max_input_tokens").is_some_and(|tokens| !tokens.is_null());
    let abilities = ModelAbilities {
        max_answer: has_input.then(largest).flatten().filter(|tokens| *tokens > 0),
        pictures: supports("/image_input").or_else(|| supports("/vision")).or_else(inputs).or_else(kind),
        adaptive_thinking: supports("/thinking/types/adaptive"),
    };
    let facts = ServerFacts {
        id: Some(id.to_owned()),
        window: WindowFacts::exact(exact).or(WindowFacts::bound(bound)),
        abilities,
        prices: model.get("pricing").and_then(prices),
        loads_later: false,
        variant: None,
    };
    let owner = model.get("owned_by").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ListedEntry { owner, facts })
}

/// Maximum number of price tiers read per model.
const MAX_TIERS: usize = 8;

/// Parses the prices of a model. Returns `None` if they have another format, or depend on the model that answers.
fn prices(pricing: &Value) -> Option<Prices> {
    let overrides = pricing.get("overrides").and_then(Value::as_array).into_iter().flatten();
    let mut tiers: Vec<Prices> =
        overrides.filter_map(|tier_prices| tier(tier_prices, pricing)).take(MAX_TIERS).collect();
    tiers.sort_by_key(|tier| tier.above);
    Some(Prices { tiers, ..rates(|name| dollars(pricing.get(name)?))? }).filter(Prices::are_plausible)
}

/// Parses the prices of the tier that starts at a number of tokens. Missing prices are those of the base tier.
fn tier(prices: &Value, base: &Value) -> Option<Prices> {
    let from = number(prices.get("min_prompt_tokens")?)?;
    let rates = rates(|name| dollars(prices.get(name).or_else(|| base.get(name))?))?;
    Some(Prices { above: from.checked_sub(1).filter(|above| *above > 0)?, ..rates })
}

fn rates(of: impl Fn(&str) -> Option<f64>) -> Option<Prices> {
    Some(Prices {
        input: of("prompt")?,
        cached_input: of("input_cache_read"),
        cache_write: of("input_cache_write"),
        cache_write_1h: of("input_cache_write_1h"),
        output: of("completion")?,
        ..Prices::default()
    })
}

/// Converts a price per token to dollars per million tokens, rounded to remove noise of binary fractions.
fn dollars(price: &Value) -> Option<f64> {
    let price = price.as_f64().or_else(|| price.as_str()?.trim().parse().ok())?;
    Some((price * 1e12).round() / 1e6)
}

/// Parses a number, given as JSON number or string.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "out-of-range values are clamped")]
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64)),
        _ => None,
    }
}

/// Parses llama.cpp's `/props`: the window of one slot, and the alias or file name of the model.
fn properties(text: &[u8]) -> ServerFacts {
    let Ok(properties) = serde_json::from_slice::<Value>(text) else { return ServerFacts::default() };
    let window = properties.pointer("/default_generation_settings/n_ctx").or_else(|| properties.get("n_ctx"));
    let named = |field: &str| properties.get(field).and_then(Value::as_str);
    let file = named("model_path").map(|path| path.rsplit(['/', '\\']).next().unwrap_or(path));
    let id = named("model_alias").filter(|alias| is_model_id(alias)).or(file).filter(|id| is_model_id(id));
    ServerFacts {
        id: id.map(str::to_owned),
        window: WindowFacts::exact(window.and_then(number)),
        abilities: pictures(properties.pointer("/modalities/vision").and_then(Value::as_bool)),
        ..ServerFacts::default()
    }
}

/// Parses Ollama's `/api/ps`: the window of a loaded model.
fn running(text: &[u8], id: &str) -> WindowFacts {
    let Ok(running) = serde_json::from_slice::<Value>(text) else { return WindowFacts::default() };
    let models = running.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let tagged = format!("{id}:latest");
    let is_named = |model: &&Value| {
        ["name", "model"].iter().filter_map(|field| model.get(field)?.as_str()).any(|name| name == id || name == tagged)
    };
    let model = models.iter().find(is_named);
    WindowFacts::exact(model.and_then(|model| number(model.get("context_length")?)))
}

fn pictures(sees: Option<bool>) -> ModelAbilities {
    ModelAbilities { pictures: sees, ..ModelAbilities::default() }
}

/// Parses Ollama's `/api/show`: the abilities of a model, and the window set in its file. If the file sets none, Ollama
/// allocates only a part of the size for which the model was trained, and truncates longer requests silently.
fn modelfile(text: &[u8]) -> ServerFacts {
    let Ok(shown) = serde_json::from_slice::<Value>(text) else { return ServerFacts::default() };
    let parameters = shown.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let mut set = parameters.lines().filter_map(|line| line.trim().strip_prefix("num_ctx"));
    let set = set.find_map(|number| number.trim().parse().ok());
    let trained_for = shown.get("model_info").and_then(Value::as_object).and_then(|info| {
        let mut lengths = info.iter().filter(|(name, _)| name.ends_with(".context_length"));
        lengths.find_map(|(_, length)| number(length))
    });
    // Models in the cloud.
    let is_remote = shown.get("remote_host").and_then(Value::as_str).is_some_and(|host| !host.is_empty());
    let window = if is_remote {
        WindowFacts::exact(trained_for)
    } else {
        let initial = plausible(trained_for).map(|tokens| tokens.min(OLLAMA_WINDOW));
        WindowFacts { initial, ..WindowFacts::exact(set).or(WindowFacts::bound(trained_for)) }
    };
    let sees = shown
        .get("capabilities")
        .and_then(Value::as_array)
        .map(|all| all.iter().any(|capability| capability == "vision"));
    ServerFacts { window, abilities: pictures(sees), ..ServerFacts::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(model: Value, exact: Option<u64>, bound: Option<u64>) {
        let listing = json!({"object": "list", "data": [{"id": "first"}, model]}).to_string();
        let entries = parse(listing.as_bytes(), false).unwrap();
        let expected = WindowFacts { exact, bound, initial: None };
        assert_eq!(find(&entries, "m").unwrap().facts.window, expected, "{listing}");
    }

    #[test]
    fn windows_are_read_under_many_field_names() {
        check(json!({"id": "m", "owned_by": "vllm", "max_model_len": 131_072}), Some(131_072), None);
        check(json!({"id": "m", "context_window": 8192}), Some(8192), None);
        check(json!({"id": "m", "context_length": 200_000}), Some(200_000), None);
        check(json!({"id": "m", "context_length": "200000"}), Some(200_000), None);
        check(json!({"id": "m", "context_length": 2e5, "max_model_len": null}), Some(200_000), None);
        let openrouter = json!({"id": "m", "context_length": 1_000_000, "top_provider": {"context_length": 200_000}});
        check(openrouter, Some(200_000), None);
        check(json!({"id": "m", "max_context_length": 32_768}), Some(32_768), None);
        check(json!({"id": "m", "meta": {"n_ctx_train": 131_072}}), None, Some(131_072));
        check(json!({"id": "m", "meta": {"n_ctx_train": 131_072, "n_ctx": 4096}}), Some(4096), Some(131_072));
    }

    #[test]
    fn capabilities_are_read_and_never_guessed() {
        let of = |model: Value| parse(json!({"data": [model]}).to_string().as_bytes(), false).unwrap().remove(0).facts;
        let yes = json!({"supported": true});
        let facts = of(json!({"id": "m", "max_input_tokens": 200_000, "max_tokens": 64_000, "capabilities": {
            "image_input": {"supported": false}, "thinking": {"supported": true, "types": {"adaptive": yes}}}}));
        assert_eq!(facts.window, WindowFacts::exact(Some(200_000)));
        let abilities =
            ModelAbilities { max_answer: Some(64_000), pictures: Some(false), adaptive_thinking: Some(true) };
        assert_eq!(facts.abilities, abilities);
        let other = of(json!({"id": "m", "max_input_tokens": 200_000, "max_output_tokens": 8_000, "max_tokens": 9}));
        assert_eq!(other.abilities, ModelAbilities { max_answer: Some(8_000), ..ModelAbilities::default() });
        for invalid in [
            json!({"id": "m", "max_tokens": 5, "capabilities": 7}),
            json!({"id": "m", "capabilities": {"thinking": []}}),
        ] {
            assert_eq!(of(invalid).abilities, ModelAbilities::default());
        }
    }

    #[test]
    fn implausible_windows_are_ignored() {
        for invalid in
            [json!(0), json!(1), json!(-5), json!(1e300), json!("many"), json!([8192]), json!({}), json!(true)]
        {
            check(json!({"id": "m", "context_length": invalid}), None, None);
        }
        check(json!({"id": "m"}), None, None);
        check(json!({"id": "m", "meta": 7, "top_provider": [1], "owned_by": {"x": 1}}), None, None);
    }

    #[test]
    fn model_lists_are_read_skipping_odd_entries() {
        let ids = |text: &str| {
            parse(text.as_bytes(), false)
                .map(|all| all.into_iter().filter_map(|entry| entry.facts.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(r#"{"data":[{"id":"a"},{"id":"b"}]}"#).unwrap(), ["a", "b"]);
        assert_eq!(ids(r#" [{"id":"a","context_length":9000}]"#).unwrap(), ["a"]);
        let invalid_entries = json!({"data": [7, {"name": "x"}, {"id": 3}, {"id": ""}, {"id": "a\u{1b}[2J"}, {"id": "x".repeat(300)}, {"id": "ok"}]});
        assert_eq!(ids(&invalid_entries.to_string()).unwrap(), ["ok"]);
        assert_eq!(ids(r#"{"models":[]}"#), None);
        assert_eq!(ids("<html>"), None);
        assert_eq!(ids(r#"{"data":[{"id":"a"}"#), None, "a truncated list");
    }

    #[test]
    fn per_token_prices_become_per_million() {
        let listed = json!({
            "prompt": "0.000003", "completion": 0.000_015, "request": "0", "image": "0.0048", "internal_reasoning": "0",
            "input_cache_read": "0.0000003", "input_cache_write": "0.00000375", "input_cache_write_1h": "0.000006",
            "overrides": [{"min_prompt_tokens": 200_001, "prompt": "0.000006", "completion": "0.0000225"}, {"prompt": "1"}],
        });
        let rates = Prices {
            input: 3.0,
            cached_input: Some(0.3),
            cache_write: Some(3.75),
            cache_write_1h: Some(6.0),
            output: 15.0,
            ..Prices::default()
        };
        let tier = Prices { above: 200_000, input: 6.0, output: 22.5, ..rates.clone() };
        assert_eq!(prices(&listed), Some(Prices { tiers: vec![tier], ..rates }));
        assert_eq!(prices(&json!({"prompt": "0", "completion": "0"})), Some(Prices::default()), "a free model");
    }

    #[test]
    fn malformed_and_implausible_prices_are_ignored() {
        for invalid in [
            json!(null),
            json!("0.1"),
            json!({"prompt": "0.000003"}),
            json!({"prompt": "-1", "completion": "-1"}),
            json!({"prompt": "NaN", "completion": "0.1"}),
            json!({"prompt": "inf", "completion": "0"}),
            json!({"prompt": "1", "completion": "1"}),
            json!({"input": 0.2, "output": 0.2}),
        ] {
            assert_eq!(prices(&invalid), None, "{invalid}");
        }
    }

    #[test]
    fn malformed_documents_yield_no_facts() {
        for invalid in
            ["", "<html>", "[]", r#"{"model_alias": "", "model_path": 7}"#, r#"{"parameters": 3, "model_info": 4}"#]
        {
            assert_eq!(properties(invalid.as_bytes()), ServerFacts::default(), "{invalid}");
            assert_eq!(modelfile(invalid.as_bytes()), ServerFacts::default(), "{invalid}");
        }
        for invalid in
            [r#"{"models": 3}"#, r#"{"models": [7, {"name": "qwen"}, {"name": "other", "context_length": 4096}]}"#]
        {
            assert_eq!(running(invalid.as_bytes(), "qwen"), WindowFacts::default(), "{invalid}");
        }
    }
}
