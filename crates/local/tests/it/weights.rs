//! The real built-in model. Choices and determinism are tested here; how good its words are is not.

use std::{
    env,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use agentd_core::{model::Finish, ports::Model as _};
use agentd_local::{EmbeddedConfig, EmbeddedModel};
use futures_util::StreamExt as _;
use tokio::sync::{Mutex, MutexGuard};

use crate::ask::{assistant, hear, request, until, user};

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const TOOLS: &[&str] = &["find_files", "grep", "list_workspace_files", "now", "read_file", "run_bash_command"];
const PATHS: &[&str] = &["uploads/notes.txt", "uploads/todo.md"];

/// One model for all tests, one test at a time: their counts would mix otherwise.
static MODEL: LazyLock<Mutex<Arc<EmbeddedModel>>> = LazyLock::new(|| {
    Mutex::new(EmbeddedModel::new(EmbeddedConfig { max_tokens: 24, ..EmbeddedConfig::new(weights()) }))
});

async fn model() -> MutexGuard<'static, Arc<EmbeddedModel>> {
    MODEL.lock().await
}

/// Where `make model` puts the weights, or where the environment says.
fn weights() -> PathBuf {
    let named = |key: &str| env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = named("AGENTD_TEST_MODEL").unwrap_or_else(|| {
        let share = || named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")));
        let data = named("AGENTD_DATA_DIR").or_else(|| Some(share()?.join("agentd"))).unwrap_or_default();
        data.join("models").join(FILE)
    });
    assert!(path.is_file(), "{} is missing: run `make model`, or set AGENTD_TEST_MODEL", path.display());
    path
}

#[tokio::test]
async fn the_sentences_of_the_tour_run_their_tools() {
    let model = model().await;
    let check = async |sentence: &str, expected: Option<(&str, &str)>| {
        let heard = hear(&model, request(vec![user(sentence)], TOOLS, PATHS)).await.unwrap();
        let calls: Vec<(&str, &str)> = heard.calls.iter().map(|(name, args)| (name.as_str(), args.as_str())).collect();
        assert_eq!(calls, expected.into_iter().collect::<Vec<_>>(), "{sentence}: {}", heard.text);
        assert_eq!(heard.text.is_empty(), expected.is_some());
        if expected.is_some() {
            assert_eq!(heard.finish, Some(Finish::Stop));
        }
    };
    check("What time is it?", Some(("now", "{}"))).await;
    check("List my files", Some(("list_workspace_files", "{}"))).await;
    check("Summarise uploads/notes.txt", Some(("read_file", r#"{"path":"uploads/notes.txt"}"#))).await;
    check("Hello!", None).await;
    check("What is the capital of France?", None).await;
}

#[tokio::test]
async fn greedy_answers_are_always_the_same_and_reuse_the_prefix() {
    let model = model().await;
    let messages = vec![user("What is the capital of France?")];
    let first = hear(&model, request(messages.clone(), &[], &[])).await.unwrap();
    let between = hear(&model, request(vec![user("Tell me of the moon.")], &[], &[])).await.unwrap();
    assert_ne!(first.text, between.text);
    let again = hear(&model, request(messages.clone(), &[], &[])).await.unwrap();
    assert_eq!(first.text, again.text);

    let before = model.status().evaluated_tokens;
    let mut longer = messages;
    longer.extend([assistant(&first.text), user("And of Italy?")]);
    let next = hear(&model, request(longer, &[], &[])).await.unwrap().usage.unwrap();
    let evaluated = model.status().evaluated_tokens - before;
    assert!(next.cached_tokens >= first.usage.unwrap().prompt_tokens, "{next:?}");
    assert!(evaluated < next.prompt_tokens + next.completion_tokens, "{evaluated} {next:?}");
}

#[tokio::test]
async fn a_dropped_answer_stops_within_a_token() {
    let model = model().await;
    let mut chunks = model.stream(request(vec![user("Write a long story about a fox.")], &[], &[]));
    for _ in 0..3 {
        chunks.next().await.unwrap().unwrap();
    }
    drop(chunks);
    let seen = model.status().generated_tokens;
    let made = until(&model, |status| !status.busy).await.generated_tokens;
    assert!(made - seen <= 1, "{} more tokens", made - seen);
}

#[tokio::test]
async fn a_dropped_request_stops_while_its_prompt_is_read() {
    let model = model().await;
    let before = model.status().evaluated_tokens;
    let text = "The fox met a hare in the wood, and they spoke of the weather. ".repeat(80);
    let mut chunks = model.stream(request(vec![user(&text)], &[], &[]));
    {
        let reading = until(&model, |status| status.evaluated_tokens > before);
        futures_util::pin_mut!(reading);
        let first = futures_util::future::select(reading, chunks.next()).await;
        assert!(matches!(first, futures_util::future::Either::Left(_)), "the answer came before the prompt was read");
    }
    drop(chunks);
    let seen = model.status().evaluated_tokens;
    let read = until(&model, |status| !status.busy).await.evaluated_tokens;
    assert!(read - seen <= 256, "{} more tokens", read - seen);
    assert!(read - before < 1000, "the whole prompt was read");
}

#[tokio::test]
async fn a_dropped_request_stops_between_candidates() {
    let model = model().await;
    let before = model.status();
    let mut chunks = model.stream(request(vec![user("What time is it on the moon, in a wood?")], TOOLS, PATHS));
    {
        let scoring = until(&model, |status| status.evaluated_tokens > before.evaluated_tokens);
        futures_util::pin_mut!(scoring);
        futures_util::future::select(scoring, chunks.next()).await;
    }
    drop(chunks);
    until(&model, |status| !status.busy).await;
    assert_eq!(model.status().generated_tokens, before.generated_tokens);
}
