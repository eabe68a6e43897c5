//! The list of models. Each server tells other things of a model, under other names; what has another type than it should
//! is passed over, and so is an id that could be none.

use agentd_core::{model::is_model_id, usage::Prices};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    ModelAbilities, WindowFacts,
    pricing::{self, number},
};

/// A model of the list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListedEntry {
    pub(super) id: String,
    /// Whose it is said to be, which tells some kinds of server.
    pub(super) owner: String,
    pub(super) window: WindowFacts,
    pub(super) abilities: ModelAbilities,
    pub(super) prices: Option<Prices>,
}

#[derive(Deserialize)]
struct WireListing<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireModel {
    id: String,
    owned_by: Option<Value>,
    /// vLLM and SGLang.
    max_model_len: Option<Value>,
    /// Groq.
    context_window: Option<Value>,
    /// OpenRouter, Together and others.
    context_length: Option<Value>,
    /// Mistral; in LM Studio the size for which the model was made.
    max_context_length: Option<Value>,
    /// LM Studio, of a model that is loaded.
    loaded_context_length: Option<Value>,
    /// OpenRouter: what the provider offers that is asked first.
    top_provider: Option<Value>,
    /// llama.cpp.
    meta: Option<Value>,
    /// Anthropic and LiteLLM, and the largest answer beside it, in the words of the one and the other.
    max_input_tokens: Option<Value>,
    max_tokens: Option<Value>,
    max_output_tokens: Option<Value>,
    /// Anthropic and Mistral.
    capabilities: Option<Value>,
    /// OpenRouter and llama.cpp.
    architecture: Option<Value>,
    /// LM Studio.
    r#type: Option<Value>,
    /// OpenRouter.
    pricing: Option<Value>,
}

/// The models of a list, in its order. None where it is no list.
pub(super) fn parse(text: &[u8]) -> Option<Vec<ListedEntry>> {
    entries(text, false)
}

/// The same of a list whose `max_context_length` bounds the window and is not its size.
pub(super) fn parse_with_bounds(text: &[u8]) -> Option<Vec<ListedEntry>> {
    entries(text, true)
}

fn entries(text: &[u8], bounds: bool) -> Option<Vec<ListedEntry>> {
    let is_bare = text.trim_ascii_start().starts_with(b"[");
    let models = if is_bare {
        serde_json::from_slice::<Vec<&RawValue>>(text).ok()?
    } else {
        serde_json::from_slice::<WireListing<'_>>(text).ok()?.data
    };
    let entry = |model: &RawValue| serde_json::from_str::<WireModel>(model.get()).ok().map(|model| model.entry(bounds));
    Some(models.into_iter().filter_map(entry).filter(|entry| is_model_id(&entry.id)).collect())
}

/// The model that is meant by an id: where none is given, the first of the list.
pub(super) fn find<'a>(entries: &'a [ListedEntry], id: &str) -> Option<&'a ListedEntry> {
    if id.is_empty() {
        return entries.first();
    }
    let is = |wanted: &str| entries.iter().find(|entry| entry.id == wanted);
    // Ollama takes a name without its tag.
    is(id).or_else(|| is(&format!("{id}:latest")))
}

impl WireModel {
    fn entry(self, bounds: bool) -> ListedEntry {
        let of = |value: &Option<Value>| value.as_ref().and_then(number);
        let within = |value: &Option<Value>, field: &str| number(value.as_ref()?.get(field)?);
        let offered = match (of(&self.context_length), within(&self.top_provider, "context_length")) {
            (Some(whole), Some(offered)) => Some(whole.min(offered)),
            (whole, offered) => whole.or(offered),
        };
        let longest = of(&self.max_context_length);
        let exact = of(&self.loaded_context_length)
            .or_else(|| of(&self.max_model_len))
            .or_else(|| within(&self.meta, "n_ctx"))
            .or_else(|| of(&self.context_window))
            .or(offered)
            .or_else(|| of(&self.max_input_tokens))
            .or(longest.filter(|_| !bounds));
        let bound = within(&self.meta, "n_ctx_train").or(longest.filter(|_| bounds));
        let owner = self.owned_by.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let window = WindowFacts::exact(exact).or(WindowFacts::bound(bound));
        let supports = |path: &str| {
            let ability = self.capabilities.as_ref()?.pointer(path)?;
            ability.get("supported").unwrap_or(ability).as_bool()
        };
        let inputs = || {
            let inputs = self.architecture.as_ref()?.get("input_modalities")?.as_array()?;
            Some(inputs.iter().any(|input| input == "image"))
        };
        let kind = || match self.r#type.as_ref()?.as_str()? {
            "vlm" => Some(true),
            "llm" => Some(false),
            _ => None,
        };
        // Elsewhere a field of that name may mean anything.
        let largest = || of(&self.max_output_tokens).or_else(|| of(&self.max_tokens));
        let max_answer = self.max_input_tokens.is_some().then(largest).flatten();
        let abilities = ModelAbilities {
            max_answer: max_answer.filter(|tokens| *tokens > 0),
            pictures: supports("/image_input").or_else(|| supports("/vision")).or_else(inputs).or_else(kind),
            adaptive_thinking: supports("/thinking/types/adaptive"),
        };
        let prices = self.pricing.as_ref().and_then(pricing::prices);
        ListedEntry { id: self.id, owner, window, abilities, prices }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(model: Value, exact: Option<u64>, bound: Option<u64>) {
        let listing = json!({"object": "list", "data": [{"id": "first"}, model]}).to_string();
        let entries = parse(listing.as_bytes()).unwrap();
        assert_eq!(find(&entries, "m").unwrap().window, WindowFacts { exact, bound }, "{listing}");
    }

    #[test]
    fn windows_are_told_under_many_names() {
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
    fn abilities_are_told_with_a_window_and_never_guessed() {
        let of = |model: Value| parse(json!({"data": [model]}).to_string().as_bytes()).unwrap().remove(0);
        let yes = json!({"supported": true});
        let told = of(json!({"id": "m", "max_input_tokens": 200_000, "max_tokens": 64_000, "capabilities": {
            "image_input": {"supported": false}, "thinking": {"supported": true, "types": {"adaptive": yes}}}}));
        assert_eq!(told.window, WindowFacts { exact: Some(200_000), bound: None });
        let abilities =
            ModelAbilities { max_answer: Some(64_000), pictures: Some(false), adaptive_thinking: Some(true) };
        assert_eq!(told.abilities, abilities);
        let other = of(json!({"id": "m", "max_input_tokens": 200_000, "max_output_tokens": 8_000, "max_tokens": 9}));
        assert_eq!(other.abilities, ModelAbilities { max_answer: Some(8_000), ..ModelAbilities::default() });
        for odd in [
            json!({"id": "m", "max_tokens": 5, "capabilities": 7}),
            json!({"id": "m", "capabilities": {"thinking": []}}),
        ] {
            assert_eq!(of(odd).abilities, ModelAbilities::default());
        }
    }

    #[test]
    fn what_cannot_be_a_window_is_none() {
        for odd in [json!(0), json!(1), json!(-5), json!(1e300), json!("many"), json!([8192]), json!({}), json!(true)] {
            check(json!({"id": "m", "context_length": odd}), None, None);
        }
        check(json!({"id": "m"}), None, None);
        check(json!({"id": "m", "meta": 7, "top_provider": [1], "owned_by": {"x": 1}}), None, None);
    }

    #[test]
    fn lists_are_read_in_their_forms_and_odd_entries_left_out() {
        let ids =
            |text: &str| parse(text.as_bytes()).map(|all| all.into_iter().map(|entry| entry.id).collect::<Vec<_>>());
        assert_eq!(ids(r#"{"data":[{"id":"a"},{"id":"b"}]}"#).unwrap(), ["a", "b"]);
        assert_eq!(ids(r#" [{"id":"a","context_length":9000}]"#).unwrap(), ["a"]);
        let odd = json!({"data": [7, {"name": "x"}, {"id": 3}, {"id": ""}, {"id": "a\u{1b}[2J"}, {"id": "x".repeat(300)}, {"id": "ok"}]});
        assert_eq!(ids(&odd.to_string()).unwrap(), ["ok"]);
        assert_eq!(ids(r#"{"models":[]}"#), None);
        assert_eq!(ids("<html>"), None);
        assert_eq!(ids(r#"{"data":[{"id":"a"}"#), None, "a list that was cut");
    }

    #[test]
    fn names_without_a_tag_are_found() {
        let entries = parse(br#"{"data":[{"id":"qwen:latest"},{"id":"llama:8b"}]}"#).unwrap();
        let found = |id| find(&entries, id).map(|entry| entry.id.as_str());
        assert_eq!(
            (found(""), found("qwen"), found("llama"), found("llama:8b")),
            (Some("qwen:latest"), Some("qwen:latest"), None, Some("llama:8b"))
        );
    }

    #[test]
    fn a_bound_is_believed_only_where_it_is_less_than_what_is_assumed() {
        let tokens = |exact, bound| WindowFacts { exact, bound }.tokens(32_768);
        assert_eq!(tokens(Some(131_072), Some(4096)), Some(131_072));
        assert_eq!(tokens(None, Some(131_072)), None);
        assert_eq!(tokens(None, Some(8192)), Some(8192));
        assert_eq!(tokens(None, None), None);
    }
}
