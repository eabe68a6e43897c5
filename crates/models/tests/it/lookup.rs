//! Queries to servers about their models, and when they are sent.

use std::collections::BTreeMap;

use agentd_core::{
    model::{ListedModel, ModelInfo, Slot, WindowSource},
    ports::Models,
    usage::Prices,
};

use super::*;

/// Returns the configuration of a model with only a base URL.
fn bare(server: &ModelServer) -> ModelConfig {
    ModelConfig { id: String::new(), ..config(server) }
}

fn window(info: &ModelInfo) -> (u64, WindowSource) {
    (info.context_window, info.window_source)
}

const ASSUMED: (u64, WindowSource) = (32_768, WindowSource::Default);

#[tokio::test]
async fn id_and_window_are_fetched_in_one_request() {
    let server = ModelServer::start().await;
    server.lists([json!({"id": "big", "owned_by": "vllm", "max_model_len": 131_072}), json!({"id": "small"})]);
    server.default_reply(Reply::text("Hi."));
    let model = connect(&bare(&server)).unwrap();
    assert_eq!(
        (model.info().id.as_str(), window(model.info())),
        ("default", ASSUMED),
        "no query before the first request"
    );
    assert_eq!(ask(&model, request("Hello")).await.text, "Hi.");
    assert_eq!((model.info().id.as_str(), window(model.info())), ("big", (131_072, WindowSource::Server)));
    assert_eq!(server.requests()[0].body["model"], "big");
    ask(&model, request("Hello again")).await;
    model.look_up().await;
    assert_eq!(server.requested_documents(), ["/v1/models"]);
}

#[tokio::test]
async fn configured_values_are_not_queried() {
    let server = ModelServer::start().await;
    server.lists([json!({"id": "m", "context_length": 131_072})]).default_reply(Reply::text("Hi."));
    let configured = ModelConfig { context_window: Some(9000), ..config(&server) };
    let model = connect(&configured).unwrap();
    ask(&model, request("Hello")).await;
    model.look_up().await;
    assert_eq!(window(model.info()), (9000, WindowSource::Configured));
    assert_eq!(server.requested_documents(), ["/v1/models"], "it may be Ollama, whose window must be set");
    let keyed = ModelConfig { api_key: Some("secret".into()), ..configured.clone() };
    connect(&keyed).unwrap().look_up().await;
    assert_eq!(server.requested_documents().len(), 1);
    // Querying the ID does not change the configured window either.
    let model = connect(&ModelConfig { id: String::new(), ..configured }).unwrap();
    model.look_up().await;
    assert_eq!((model.info().id.as_str(), window(model.info())), ("m", (9000, WindowSource::Configured)));
}

/// Returns the facts about a model before any query.
fn initial_info(base_url: &str, id: &str, changed: impl FnOnce(&mut ModelConfig)) -> ModelInfo {
    let mut config = ModelConfig { id: id.to_owned(), ..ModelConfig::new(Wire::OpenAi, base_url) };
    changed(&mut config);
    connect(&config).unwrap().info().clone()
}

fn source_of(info: &ModelInfo, name: &str) -> String {
    info.figures.iter().find(|figure| figure.name == name).map(|figure| figure.source.clone()).unwrap_or_default()
}

#[tokio::test]
async fn catalogue_values_are_the_default() {
    let info = initial_info("https://api.openai.com/v1", "gpt-4o", |_| {});
    assert_eq!(window(&info), (128_000, WindowSource::Catalogue));
    assert!(source_of(&info, "prices").starts_with("https://"), "{:?}", info.figures);
    let configured = initial_info("https://api.openai.com/v1", "gpt-4o", |config| {
        config.context_window = Some(9000);
        config.prices = Some(Prices { input: 1.0, output: 2.0, ..Prices::default() });
    });
    assert_eq!(window(&configured), (9000, WindowSource::Configured));
    assert_eq!(source_of(&configured, "prices"), "models.yaml or the environment");
    // A server that is not a provider may use any model names.
    let proxy = initial_info("http://127.0.0.1:9/v1", "gpt-4o", |_| {});
    assert_eq!(window(&proxy), ASSUMED);
    assert!(proxy.figures.iter().any(|figure| figure.name == "prices" && figure.value == "unknown"));
    let unknown = initial_info("https://api.openai.com/v1", "gpt-unknown", |_| {});
    assert_eq!(unknown.window_source, WindowSource::Default);
}

#[tokio::test]
async fn answer_does_not_wait_for_the_model_list() {
    let server = ModelServer::start().await;
    server.hangs_at("/v1/models").default_reply(Reply::text("Hi."));
    let model = connect(&config(&server)).unwrap();
    let outcome = ask(&model, request("Hello")).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Hi.", 0));
    assert_eq!(window(model.info()), ASSUMED);
}

#[tokio::test]
async fn missing_model_list_is_requested_once() {
    let server = ModelServer::start().await;
    server.lacks("/v1/models").default_reply(Reply::text("Hi."));
    let model = connect(&config(&server)).unwrap();
    for _ in 0..3 {
        model.look_up().await;
        assert_eq!(ask(&model, request("Hello")).await.text, "Hi.");
    }
    assert_eq!((window(model.info()), server.requested_documents().len()), (ASSUMED, 1));
    let error = model.listed().await.unwrap_err();
    assert!(error.to_string().contains("does not list its models") && error.hint().is_some(), "{error}");
}

#[tokio::test]
async fn empty_model_list_is_requested_once_while_answering() {
    let server = ModelServer::start().await;
    server.lists([]).default_reply(Reply::text("Hi."));
    let model = connect(&bare(&server)).unwrap();
    for _ in 0..3 {
        model.look_up().await;
        assert_eq!(ask(&model, request("Hello")).await.text, "Hi.");
    }
    assert_eq!(server.requested_documents().len(), 1);
    assert_eq!(last(&server).body["model"], "default");
    // After a refusal, the server may list its models.
    server.lists([json!({"id": "late"})]);
    server.reply(Reply::refusal(404, "no model is loaded"));
    ask(&model, request("Hello")).await;
    assert_eq!(ask(&model, request("Hello")).await.text, "Hi.");
    assert_eq!(last(&server).body["model"], "late");
    assert_eq!(server.requested_documents().len(), 2);
}

/// Scripts the documents of a server that reports whether one model accepts pictures.
fn report_picture_support(server: &ModelServer, kind: &str, sees: bool) {
    let inputs = if sees { json!(["text", "image"]) } else { json!(["text"]) };
    match kind {
        "OpenRouter" => {
            server.lists([json!({"id": "m", "context_length": 9000, "architecture": {"input_modalities": inputs}})])
        }
        "Mistral" => server.lists([json!({"id": "m", "max_context_length": 9000, "capabilities": {"vision": sees}})]),
        "Anthropic" => server.lists([json!({"id": "m", "max_input_tokens": 9000,
            "capabilities": {"image_input": {"supported": sees}}})]),
        "llama.cpp" => server
            .lists([json!({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 9000}})])
            .serves("/props", json!({"modalities": {"vision": sees, "audio": false}})),
        "Ollama" => server
            .lists([json!({"id": "m:latest", "owned_by": "library"})])
            .serves("/api/ps", json!({"models": [{"name": "m:latest", "context_length": 9000}]}))
            .serves(
                "/api/show",
                json!({"capabilities": if sees { json!(["completion", "vision"]) } else { json!(["tools"]) }}),
            ),
        _ => server.lists([json!({"id": "m", "owned_by": "organization_owner"})]).serves(
            "/api/v0/models",
            json!({"data": [{"id": "m", "type": if sees { "vlm" } else { "llm" },
                "loaded_context_length": 9000}]}),
        ),
    };
}

#[tokio::test]
async fn server_picture_support_applies_unless_configured() {
    for kind in ["OpenRouter", "Mistral", "Anthropic", "llama.cpp", "Ollama", "LM Studio"] {
        for sees in [true, false] {
            let server = ModelServer::start().await;
            report_picture_support(&server, kind, sees);
            let sees_pictures = async |config: ModelConfig| {
                let model = connect(&config).unwrap();
                model.look_up_vision().await;
                model.look_up_vision().await;
                model.info().sees_pictures
            };
            assert_eq!(sees_pictures(config(&server)).await, sees, "{kind}");
            // With a configured window, the list of models is queried once. With configured picture support, nothing
            // is queried.
            let configured = ModelConfig { context_window: Some(9000), ..config(&server) };
            let before = server.requested_documents().len();
            assert_eq!(sees_pictures(configured.clone()).await, sees, "{kind}");
            let queries = server.requested_documents().split_off(before);
            assert_eq!(queries.iter().filter(|path| *path == "/v1/models").count(), 1, "{kind}: {queries:?}");
            let before = server.requested_documents().len();
            let configured = ModelConfig { api_key: Some("secret".into()), ..configured };
            assert_eq!(sees_pictures(ModelConfig { sees_pictures: Some(!sees), ..configured }).await, !sees, "{kind}");
            assert_eq!(server.requested_documents().len(), before, "{kind}");
        }
    }
}

#[tokio::test]
async fn picture_support_is_cached_and_fetched_on_demand() {
    let server = ModelServer::start().await;
    let (_folder, file) = learning::records();
    report_picture_support(&server, "Ollama", true);
    server.default_reply(Reply::text("Hi."));
    let named = || learning::start(&config(&server), &file);
    let model = named();
    ask(&model, request("Hello")).await;
    model.look_up().await;
    assert!(!server.requested_documents().contains(&"/api/show".to_owned()), "no picture was sent yet");
    model.look_up_vision().await;
    assert!(model.info().sees_pictures);
    learning::wait_for_text(&file, "\"pictures\"").await;
    let model = named();
    assert!(model.info().sees_pictures);
    // The query for the window does not mention pictures, and changes nothing about them.
    model.look_up().await;
    assert!(model.info().sees_pictures);
    // The server now has another model, without support for pictures.
    report_picture_support(&server, "Ollama", false);
    model.look_up_vision().await;
    assert!(!model.info().sees_pictures);
    // A server that does not answer is not queried again for a while.
    let silent = ModelServer::start().await;
    silent.hangs_at("/v1/models");
    let model = connect(&ModelConfig { first_byte_timeout_ms: 50, ..config(&silent) }).unwrap();
    for _ in 0..3 {
        model.look_up_vision().await;
    }
    assert_eq!((model.info().sees_pictures, silent.requested_documents().len()), (false, 1));
}

#[tokio::test]
async fn window_is_fetched_from_server_specific_endpoints() {
    let look_up_window = async |server: &ModelServer, config: ModelConfig| {
        let model = connect(&config).unwrap();
        model.look_up().await;
        (model.info().id.clone(), window(model.info()), server.requested_documents())
    };
    let llama = ModelServer::start().await;
    llama.lists([json!({"id": "coder.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}})]);
    llama.serves("/props", json!({"default_generation_settings": {"n_ctx": 65_536}, "model_path": "/m/coder.gguf"}));
    let reported = (65_536, WindowSource::Server);
    let queries = ["/v1/models", "/props"].map(str::to_owned).to_vec();
    // The server serves its only model under any name.
    assert_eq!(look_up_window(&llama, config(&llama)).await, ("m".to_owned(), reported, queries));
    let plain = ModelConfig { wire: Wire::LlamaCpp, base_url: llama.root_url(), ..bare(&llama) };
    let (id, window, _) = look_up_window(&llama, plain).await;
    assert_eq!((id.as_str(), window), ("coder.gguf", reported));

    let ollama = ModelServer::start().await;
    ollama.lists([json!({"id": "qwen:latest", "owned_by": "library"})]);
    ollama.serves("/api/show", json!({"model_info": {"qwen.context_length": 131_072}}));
    let named = |server: &ModelServer| ModelConfig { id: "qwen".to_owned(), ..config(server) };
    let (id, window, queries) = look_up_window(&ollama, named(&ollama)).await;
    let initial = (4096, WindowSource::Server);
    assert_eq!((id.as_str(), window), ("qwen", initial), "a model that is not loaded gets the smallest window");
    assert_eq!(queries, ["/v1/models", "/api/show"]);
    ollama.serves("/api/show", json!({"model_info": {"qwen.context_length": 8192}}));
    assert_eq!(look_up_window(&ollama, named(&ollama)).await.1, initial);
    let cloud = json!({"remote_host": "https://ollama.com:443", "model_info": {"qwen.context_length": 131_072}});
    ollama.serves("/api/show", cloud);
    assert_eq!(look_up_window(&ollama, named(&ollama)).await.1, (131_072, WindowSource::Server));
    ollama.serves("/api/show", json!({"parameters": "num_ctx 65536", "model_info": {"qwen.context_length": 131_072}}));
    assert_eq!(look_up_window(&ollama, named(&ollama)).await.1, (65_536, WindowSource::Server));

    let studio = ModelServer::start().await;
    studio.lists([json!({"id": "m", "owned_by": "organization_owner"})]);
    let model = |loaded: Option<u64>| json!({"data": [{"id": "m", "max_context_length": 131_072, "loaded_context_length": loaded}]});
    studio.serves("/api/v0/models", model(None));
    assert_eq!(look_up_window(&studio, config(&studio)).await.1, ASSUMED);
    studio.serves("/api/v0/models", model(Some(65_536)));
    assert_eq!(look_up_window(&studio, config(&studio)).await.1, (65_536, WindowSource::Server));
}

#[tokio::test]
async fn window_is_fetched_again_after_the_model_loads() {
    let ollama = ModelServer::start().await;
    ollama.lists([json!({"id": "qwen:latest", "owned_by": "library"})]);
    ollama.serves("/api/show", json!({"model_info": {"qwen.context_length": 131_072}}));
    ollama.serves("/api/ps", json!({"models": []})).default_reply(Reply::text("Hi."));
    let model = connect(&ModelConfig { id: "qwen".to_owned(), ..config(&ollama) }).unwrap();
    ask(&model, request("Hello")).await;
    assert_eq!(window(model.info()), (4096, WindowSource::Server));
    ollama.serves("/api/ps", json!({"models": [{"name": "qwen:latest", "context_length": 32_768}]}));
    ask(&model, request("Hello")).await;
    model.look_up().await;
    assert_eq!(window(model.info()), (32_768, WindowSource::Server));
    let before = ollama.requested_documents().len();
    model.look_up().await;
    assert_eq!(ollama.requested_documents().len(), before, "the window is known");
}

#[tokio::test]
async fn configured_window_is_set_in_ollama_where_its_own_is_smaller() {
    let ask_ollama = async |parameters: &str, running: u64, wanted: u64, creates: bool| {
        let ollama = ModelServer::start().await;
        ollama.lists([json!({"id": "qwen:8b", "owned_by": "library"})]).default_reply(Reply::text("Hi."));
        ollama.serves("/api/show", json!({"parameters": parameters, "model_info": {"qwen.context_length": 40_960}}));
        ollama.serves("/api/ps", json!({"models": [{"name": "qwen:8b", "context_length": running}]}));
        if creates {
            ollama.serves("/api/create", json!({"status": "success"}));
        }
        let configured = ModelConfig { id: "qwen:8b".to_owned(), context_window: Some(wanted), ..config(&ollama) };
        let model = connect(&configured).unwrap();
        assert_eq!(ask(&model, request("Hello")).await.text, "Hi.");
        assert_eq!(window(model.info()), (wanted, WindowSource::Configured));
        last(&ollama).body["model"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask_ollama("", 4096, 16_384, true).await, "qwen:8b-ctx16384", "before the first request");
    assert_eq!(ask_ollama("", 4096, 131_072, true).await, "qwen:8b-ctx40960", "at most as it was trained for");
    assert_eq!(ask_ollama("", 4096, 16_384, false).await, "qwen:8b", "refused");
    assert_eq!(ask_ollama("", 32_768, 16_384, true).await, "qwen:8b", "set in its environment");
    assert_eq!(ask_ollama("num_ctx 16384", 4096, 16_384, true).await, "qwen:8b", "set in its file");
    assert_eq!(ask_ollama("num_ctx 4096", 32_768, 16_384, true).await, "qwen:8b-ctx16384", "its file decides");
}

#[tokio::test]
async fn fetched_facts_survive_restart() {
    let server = ModelServer::start().await;
    let (_folder, file) = learning::records();
    let start = || learning::start(&bare(&server), &file);
    server.lists([json!({"id": "big", "max_model_len": 131_072})]).default_reply(Reply::text("Hi."));
    start().look_up().await;
    learning::wait_for_text(&file, "131072").await;
    let model = start();
    assert_eq!((model.info().id.as_str(), window(model.info())), ("big", (131_072, WindowSource::Server)));
    assert_eq!(server.requested_documents().len(), 1, "no query after the restart");
    // The observed window overrides the reported one until the server reports another one.
    model.note_window(8192, WindowSource::Refusal);
    assert_eq!(window(model.info()), (8192, WindowSource::Refusal));
    learning::wait_for_text(&file, "8192").await;
    let model = start();
    model.look_up().await;
    assert_eq!(window(model.info()), (8192, WindowSource::Refusal));
    let usage = json!({"prompt_tokens": 9000, "completion_tokens": 1});
    server.reply(Reply::text("Hi.").with_usage(agentd_testkit::model_server::UsagePlace::Tail, usage));
    ask(&model, request("Hello")).await;
    assert_eq!(window(model.info()), (131_072, WindowSource::Server), "a larger request was answered");
    model.note_window(4096, WindowSource::Cut);
    model.note_window(7, WindowSource::Cut);
    assert_eq!(window(model.info()), (4096, WindowSource::Cut));
    model.forget();
    assert_eq!(window(model.info()), (131_072, WindowSource::Server));
}

#[tokio::test]
async fn model_list_is_bounded() {
    let server = ModelServer::start().await;
    server.lists((0..2000).map(|n| json!({"id": format!("m{n}"), "context_length": 4096 + n})));
    let model = connect(&ModelConfig { id: "m1999".to_owned(), ..config(&server) }).unwrap();
    let listed = model.listed().await.unwrap();
    assert_eq!(listed.len(), 500);
    assert_eq!(listed[7], ListedModel { id: "m7".to_owned(), context_window: Some(4103) });
    model.look_up().await;
    assert_eq!(model.info().context_window, 4096 + 1999, "models beyond the limit are found too");
}

#[tokio::test]
async fn model_is_selected_on_the_server_of_its_slot() {
    let server = ModelServer::start().await;
    server.lists([json!({"id": "m"}), json!({"id": "other", "context_length": 200_000})]);
    server.default_reply(Reply::text("Hi."));
    let base =
        ModelConfig { temperature: Some(0.5), max_tokens: Some(7), context_window: Some(9000), ..config(&server) };
    let plain = ModelConfig { wire: Wire::LlamaCpp, ..base.clone() };
    let slots = BTreeMap::from([(Slot::Base, base), (Slot::Code, plain)]);
    let router = routing::router(&slots).unwrap();
    let other = router.named(Slot::Chat, "other").unwrap();
    ask(&other, request("Hello")).await;
    other.look_up().await;
    assert_eq!((other.info().id.as_str(), window(other.info())), ("other", (200_000, WindowSource::Server)));
    let sent = server.requests().remove(0).body;
    assert_eq!(
        (&sent["model"], &sent["temperature"], &sent["max_tokens"]),
        (&json!("other"), &json!(null), &json!(null))
    );
    // The same model is returned the next time, with its facts.
    assert_eq!(router.named(Slot::Base, "other").unwrap().info().context_window, 200_000);
    assert_eq!(window(router.named(Slot::Base, "m").unwrap().info()), (9000, WindowSource::Configured));
    assert!(router.named(Slot::Code, "other").is_none(), "llama.cpp serves a single model");
    let router = routing::router(&BTreeMap::new()).unwrap();
    assert!(router.named(Slot::Base, "other").is_none());
}
