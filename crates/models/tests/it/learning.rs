//! Learning from refusals: changes are tried, recorded only if they helped, and known after a restart.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use agentd_core::{model::Slot, ports::Models, route::Routes};
use agentd_models::{Effort, ModelRecords, ModelRouter, Thinking};

use super::*;

const REASONING_MISSING: &str = "The `reasoning_content` in the thinking mode must be passed back to the API.";

/// Creates a temporary folder, and returns the path of a record file in it.
pub(super) fn records() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model-facts.json");
    (folder, file)
}

fn router(config: &ModelConfig, file: &Path) -> ModelRouter {
    let slots = BTreeMap::from([(Slot::Base, config.clone())]);
    let records = ModelRecords::open(file.to_owned());
    ModelRouter::with_records(&slots, routing::embedded(), records, Routes::default()).unwrap()
}

/// Starts the model of a daemon whose records are in that file.
pub(super) fn start(config: &ModelConfig, file: &Path) -> Arc<dyn Model> {
    router(config, file).get(Slot::Base)
}

/// Waits until the file contains a text.
pub(super) async fn wait_for_text(file: &Path, part: &str) -> String {
    agentd_testkit::daemon::until(part, async || fs::read_to_string(file).ok().filter(|text| text.contains(part))).await
}

/// Returns a conversation in which the model has reasoned and called a tool.
fn conversation() -> ModelRequest {
    let mut request = request_with_tools("What time is it?");
    let reasoning = Some("I should look.".to_owned());
    let (text, tool_calls, origin) = (String::new(), vec![tool_call("c1", "{}")], Default::default());
    request.messages.extend([Message::Assistant { text, reasoning, tool_calls, origin }, result("c1", "noon")]);
    request
}

fn has_tools(request: &Recorded) -> bool {
    request.body["tools"].is_array()
}

#[tokio::test]
async fn text_tools_are_learnt_unless_native_is_configured() {
    let server = ModelServer::start().await;
    server.respond_with(|request| match has_tools(request) {
        true => Reply::refusal(400, "registry.ollama.ai/library/gemma3:latest does not support tools"),
        false => Reply::text("{\"tool\": \"now\", \"args\": {}}"),
    });
    let (_folder, file) = records();
    let config = ModelConfig { retries: 0, ..config(&server) };
    let model = start(&config, &file);
    // A single refusal may be accidental.
    for native in [true, false] {
        assert_eq!(ask(&model, request_with_tools("Hi")).await.calls.len(), 1);
        assert_eq!(model.info().native_tools, native);
    }
    wait_for_text(&file, "\"times\": 2").await;
    // Another configuration has its own record.
    assert!(start(&ModelConfig { temperature: Some(0.5), ..config.clone() }, &file).info().native_tools);
    // If the configuration requires the field, the user gets the error.
    let required = ModelConfig { native_tools: Some(true), ..config };
    let outcome = ask(&start(&required, &file), request_with_tools("Hi")).await;
    assert!(outcome.message().contains("does not support tools"), "{outcome:?}");
}

#[tokio::test]
async fn reasoning_is_echoed_if_the_server_requires_it() {
    let server = ModelServer::start().await;
    server.respond_with(|request| {
        let has_reasoning = |message: &Value| message["reasoning_content"] == "I should look.";
        match request.messages().iter().any(has_reasoning) || request.messages().len() == 2 {
            true => Reply::text("Noon."),
            false => Reply::refusal(400, REASONING_MISSING),
        }
    });
    let (_folder, file) = records();
    let model = start(&config(&server), &file);
    ask(&model, request("Hi")).await;
    assert!(!model.info().echo_reasoning, "the server has not required it");
    let outcome = ask(&model, conversation()).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Noon.", 1), "{outcome:?}");
    assert!(model.info().echo_reasoning);
    wait_for_text(&file, "echo_reasoning").await;
    let outcome = ask(&start(&config(&server), &file), conversation()).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Noon.", 0));
}

#[tokio::test]
async fn text_after_a_result_is_merged_if_turns_must_alternate() {
    let server = ModelServer::start().await;
    server.respond_with(|request| {
        let is_user_after_result = |pair: &[Value]| pair[0]["role"] == "tool" && pair[1]["role"] == "user";
        match request.messages().windows(2).any(is_user_after_result) {
            true => Reply::refusal(400, "Unexpected role 'user' after role 'tool'"),
            false => Reply::text("Noon."),
        }
    });
    let (_folder, file) = records();
    let model = start(&config(&server), &file);
    let mut with_user_text = conversation();
    with_user_text.messages.push(user("And the date, please."));
    let outcome = ask(&model, with_user_text.clone()).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Noon.", 1), "{outcome:?}");
    let sent = last(&server);
    assert_eq!(sent.last_role(), "tool");
    let content = sent.messages().last().unwrap()["content"].as_str().unwrap();
    assert_eq!(content, "noon\n\n<person_says>\nAnd the date, please.\n</person_says>");
    wait_for_text(&file, "words_in_results").await;
    let outcome = ask(&start(&config(&server), &file), with_user_text).await;
    assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Noon.", 0));
}

#[tokio::test]
async fn unhelpful_change_is_not_remembered() {
    let server = ModelServer::start().await;
    let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
    // The reason is something else, not the tools or the usage request.
    server.respond_with(|_| Reply::refusal(400, "the model is on fire"));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert_eq!((outcome.kind(), outcome.retries.len()), (Some(ErrorKind::Rejected), 3), "{outcome:?}");
    assert!(outcome.message().contains("the model is on fire"), "{outcome:?}");
    server.respond_with(|_| Reply::text("Fine."));
    let outcome = ask(&model, request_with_tools("Hi")).await;
    assert!(outcome.usage.is_some(), "usage is requested as before: {outcome:?}");
    assert_eq!(server.requests()[4].body["stream_options"]["include_usage"], true);
    assert!(has_tools(&server.requests()[4]));
    // All parts were accepted, so none is suspected.
    server.reply(Reply::refusal(400, "the model is on fire"));
    assert_eq!(ask(&model, request_with_tools("Hi")).await.retries, []);
    let model = connect(&ModelConfig { retries: 0, ..config(&server) }).unwrap();
    // A change without a complete answer is not recorded either.
    server.reply(Reply::refusal(400, "unknown field")).reply(Reply::text("Hello there").without_done().cut_after(100));
    assert_eq!(ask(&model, request("Hi")).await.kind(), Some(ErrorKind::CutStream));
    ask(&model, request("Hi")).await;
    assert_eq!(last(&server).body["stream_options"]["include_usage"], true);
}

#[tokio::test]
async fn learnt_changes_expire() {
    let server = ModelServer::start().await;
    let (_folder, file) = records();
    let model = start(&config(&server), &file);
    server.reply(Reply::refusal(400, "unknown field stream_options"));
    ask(&model, request("Hi")).await;
    let text = wait_for_text(&file, "without_field").await;
    let now = text.split("\"used\": ").nth(1).unwrap().split(',').next().unwrap().parse::<i64>().unwrap();
    let sends = async |at: i64| {
        fs::write(&file, text.replace(&now.to_string(), &at.to_string())).unwrap();
        ask(&start(&config(&server), &file), request("Hi")).await;
        !last(&server).body["stream_options"].is_null()
    };
    let day = 24 * 60 * 60;
    assert_eq!((sends(now).await, sends(now - 6 * day).await, sends(now - 8 * day).await), (false, false, true));
    assert!(sends(now + 31 * day).await, "a future timestamp is invalid");
}

#[tokio::test]
async fn damaged_learning_file_is_ignored() {
    let server = ModelServer::start().await;
    server.respond_with(|request| match request.body["stream_options"].is_null() {
        true => Reply::text("Fine."),
        false => Reply::refusal(400, "unknown field stream_options"),
    });
    let (_folder, file) = records();
    let base_url = server.base_url();
    for damaged in [
        String::new(),
        "{\"version\":1,\"models\":[".to_owned(),
        "{\"version\":9,\"models\":[]}".to_owned(),
        "\u{0}".repeat(100),
        " ".repeat(2 << 20),
        "[".repeat(100_000),
        json!({"version": 1, "models": [7, null, {"address": base_url, "model": "m", "wire": "openai", "settings": 3}]}).to_string(),
    ] {
        fs::write(&file, damaged).unwrap();
        let outcome = ask(&start(&config(&server), &file), request("Hi")).await;
        assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Fine.", 1));
        // With the recorded change, the request succeeds.
        wait_for_text(&file, "without_field").await;
        let outcome = ask(&start(&config(&server), &file), request("Hi")).await;
        assert_eq!((outcome.text.as_str(), outcome.retries.len()), ("Fine.", 0));
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(ask(&start(&config(&server), &file), request("Hi")).await.text, "Fine.");
}

#[tokio::test]
async fn learning_file_contains_no_secrets() {
    let server = ModelServer::start().await;
    server.reply(Reply::refusal(400, "unknown field stream_options; your key is sk-hunter2"));
    let (_folder, file) = records();
    let mut config = config(&server);
    config.base_url = config.base_url.replace("http://", "http://me:hunter2@");
    config.api_key = Some("sk-hunter2".into());
    ask(&start(&config, &file), request("Hi")).await;
    let text = wait_for_text(&file, "without_field").await;
    assert!(!text.contains("hunter2") && text.contains(&server.base_url()), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn learning_file_stays_small_with_many_models() {
    let server = ModelServer::start().await;
    let (_folder, file) = records();
    let router = router(&config(&server), &file);
    for number in 0..400 {
        let model = router.named(Slot::Base, &format!("model-{number}-{}", "x".repeat(200))).unwrap();
        model.note_window(4096 + number, agentd_core::model::WindowSource::Refusal);
    }
    let text = wait_for_text(&file, "model-399-").await;
    assert_eq!(text.matches("\"address\"").count(), 256);
    assert!(text.len() < 256 * 1024, "{}", text.len());
}

#[tokio::test]
async fn refused_parameter_is_omitted_and_remembered() {
    use Wire::{Anthropic, Responses};
    for (wire, sent, refusal) in [
        (Anthropic, "\"temperature\"", "`temperature` may only be set to 1 when thinking is enabled"),
        (Anthropic, "\"temperature\"", "temperature: Extra inputs are not permitted"),
        (Anthropic, "\"thinking\"", "adaptive thinking is not supported on this model"),
        (Anthropic, "\"output_config\"", "This model does not support the effort parameter."),
        (Anthropic, "\"cache_control\"", "messages.0.content.0.text.cache_control: Extra inputs are not permitted"),
        (Responses, "\"temperature\"", "Unsupported parameter: 'temperature' is not supported with this model."),
        (Responses, "\"effort\"", "Unsupported parameter: 'reasoning.effort' is not supported with this model."),
        (Responses, "\"effort\"", "Unsupported value: 'max' is not supported with this model (reasoning.effort)"),
        (Responses, "\"summary\":\"auto\"", "Your organization must be verified to generate reasoning summaries."),
        (Responses, "\"reasoning\":{", "Unsupported parameter: 'reasoning' is not supported with this model."),
        (Responses, "\"include\"", "Encrypted content is not supported with this model: 'include'."),
        (Responses, "\"prompt_cache_key\"", "Unknown parameter: 'prompt_cache_key'."),
        (Responses, "\"max_output_tokens\"", "Unsupported parameter: 'max_output_tokens' is not supported."),
    ] {
        let server = ModelServer::start().await;
        server.lenient();
        server.respond_with(move |request| match request.text.contains(sent) {
            true => Reply::refusal(400, refusal),
            false => Reply::text("Hi"),
        });
        let mut config = ModelConfig { wire, ..config(&server) };
        (config.temperature, config.max_tokens) = (Some(0.5), Some(100));
        (config.thinking, config.effort) = (Some(Thinking::Adaptive), Some(Effort::Max));
        let model = connect(&config).unwrap();
        assert_eq!(ask(&model, request_with_tools("Hi")).await.error, None, "{refusal}");
        let before = server.requests().len();
        assert_eq!(ask(&model, request_with_tools("Hi")).await.retries, [], "{refusal}");
        assert_eq!(server.requests().len(), before + 1);
    }
}
