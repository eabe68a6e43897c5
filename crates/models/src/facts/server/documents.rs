//! Documents of single kinds of server about a model, beside their list.

use agentd_core::model::is_model_id;
use serde_json::Value;

use super::{ModelAbilities, ServerFacts, WindowFacts, pricing::number};

/// llama.cpp's `/props`: the window of one of its slots, and the name or the file of its model.
pub(super) fn properties(text: &[u8]) -> ServerFacts {
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

/// Ollama's `/api/ps`: the window that a model was given when it was loaded.
pub(super) fn running(text: &[u8], id: &str) -> WindowFacts {
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

/// Ollama's `/api/show`: the abilities of a model, and the window that its file sets; else the one for which the model was made,
/// of which Ollama gives it a part, and cuts what does not fit in silence.
pub(super) fn modelfile(text: &[u8]) -> ServerFacts {
    let Ok(shown) = serde_json::from_slice::<Value>(text) else { return ServerFacts::default() };
    let parameters = shown.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let mut set = parameters.lines().filter_map(|line| line.trim().strip_prefix("num_ctx"));
    let set = set.find_map(|number| number.trim().parse().ok());
    let made_for = shown.get("model_info").and_then(Value::as_object).and_then(|info| {
        let mut lengths = info.iter().filter(|(name, _)| name.ends_with(".context_length"));
        lengths.find_map(|(_, length)| number(length))
    });
    let window = WindowFacts::exact(set).or(WindowFacts::bound(made_for));
    let sees = shown.get("capabilities").and_then(Value::as_array).map(|all| all.iter().any(|one| one == "vision"));
    ServerFacts { window, abilities: pictures(sees), ..ServerFacts::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn llama_cpp_tells_the_window_of_a_slot() {
        let facts = |value: Value| properties(value.to_string().as_bytes());
        let told = facts(json!({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 4,
            "model_path": "/models/coder.gguf"}));
        assert_eq!((told.id.as_deref(), told.window.exact), (Some("coder.gguf"), Some(4096)));
        assert_eq!(facts(json!({"model_alias": "coder", "model_path": "x"})).id.as_deref(), Some("coder"));
        assert_eq!(facts(json!({"model_alias": "", "model_path": 7})), ServerFacts::default());
        assert_eq!(facts(json!([])), ServerFacts::default());
        assert_eq!(properties(b"<html>"), ServerFacts::default());
    }

    #[test]
    fn ollama_tells_the_window_of_a_loaded_model() {
        let told = |value: Value, id: &str| running(value.to_string().as_bytes(), id);
        let models = json!({"models": [7, {"name": "llama:8b", "context_length": 4096},
            {"name": "qwen:latest", "model": "qwen:latest", "context_length": 32_768}]});
        assert_eq!(told(models.clone(), "qwen"), WindowFacts::exact(Some(32_768)));
        assert_eq!(told(models.clone(), "llama:8b"), WindowFacts::exact(Some(4096)));
        assert_eq!(told(models, "other"), WindowFacts::default());
        assert_eq!(told(json!({"models": [{"name": "qwen"}]}), "qwen"), WindowFacts::default());
        assert_eq!(told(json!({"models": 3}), "qwen"), WindowFacts::default());
    }

    #[test]
    fn ollama_tells_the_parameter_before_the_model() {
        let told = |value: Value| modelfile(value.to_string().as_bytes()).window;
        let info = json!({"general.architecture": "qwen2", "qwen2.context_length": 131_072});
        let both =
            json!({"parameters": "stop    \"<|end|>\"\nnum_ctx                        8192", "model_info": info});
        assert_eq!(told(both), WindowFacts { exact: Some(8192), bound: Some(131_072) });
        assert_eq!(told(json!({"model_info": info})), WindowFacts { exact: None, bound: Some(131_072) });
        assert_eq!(told(json!({"parameters": 3, "model_info": 4})), WindowFacts::default());
        assert_eq!(modelfile(b""), ServerFacts::default());
    }
}
