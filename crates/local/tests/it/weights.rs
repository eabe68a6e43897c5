//! Tests for the real built-in model: its answers to new users, and cancellation. The quality of its texts is not
//! tested.

use std::{
    env,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use agentd_core::{ids::CallId, model::Message, ports::Model as _, tool::ToolCall};
use agentd_local::{EmbeddedConfig, EmbeddedModel};
use futures_util::StreamExt as _;
use tokio::sync::{Mutex, MutexGuard};

use crate::ask::{collect_answer, offline_model, request, until, user};

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Tools of a session, including some that the model must not use.
const TOOLS: &[&str] =
    &["find_files", "grep", "list_workspace_files", "now", "read_file", "run_bash_command", "write_file"];
const PATHS: &[&str] = &["uploads/notes.txt", "/project/README.md", "/project/src/main.rs"];

/// One model for all tests, used by one test at a time, as the tests' counters would otherwise mix.
static MODEL: LazyLock<Mutex<Arc<EmbeddedModel>>> =
    LazyLock::new(|| Mutex::new(offline_model(EmbeddedConfig { max_tokens: 24, ..EmbeddedConfig::new(weights()) })));

async fn model() -> MutexGuard<'static, Arc<EmbeddedModel>> {
    MODEL.lock().await
}

/// Returns the path of the weights, from the environment or where `make model` stores them.
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

const README: &str = "# Lamp\n\nLamp switches lights on at dusk,\nif the sensor sees none.\n\n## Install\n\n    pip install lamp\n\n## Use\n\nx\n";

/// Returns a simulated result of a tool.
fn tool_result(tool: &str) -> &'static str {
    match tool {
        "read_file" => README,
        "now" => "Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)",
        "grep" => "/project/src/main.rs:1: // later",
        _ => "/project/README.md (120 bytes)",
    }
}

/// Answers a question. Returns the tool call with its arguments, the text, and the number of sampled tokens.
async fn answered(model: &EmbeddedModel, question: &str) -> (String, String, u64) {
    let mut messages = vec![user(question)];
    let first = collect_answer(model, request(messages.clone(), TOOLS, PATHS)).await.unwrap();
    let sampled = first.usage.unwrap().completion_tokens;
    let Some((name, arguments)) = first.calls.first().cloned() else { return (String::new(), first.text, sampled) };
    let (call_id, called) = (CallId::generate(), format!("{name} {arguments}"));
    let call = ToolCall { call_id: call_id.clone(), name: name.clone(), arguments };
    messages.push(Message::answer(String::new(), vec![call]));
    messages.push(Message::Tool { call_id, text: tool_result(&name).to_owned(), name, pictures: Vec::new() });
    let second = collect_answer(model, request(messages, TOOLS, PATHS)).await.unwrap();
    assert_eq!(second.calls, []);
    (called, second.text, sampled + second.usage.unwrap().completion_tokens)
}

/// Returns the kind of an answer, identified by text that only this kind contains.
fn kind(language: &str, called: &str, text: &str, sampled: u64) -> &'static str {
    let says = |in_languages: [&str; 3]| {
        let at = ["en", "de", "zh"].iter().position(|code| *code == language).unwrap();
        text.contains(in_languages[at])
    };
    let shows = |part: &str| called.contains("README.md") && text.contains(part);
    match called.split(' ').next().unwrap() {
        _ if says(["Written freely by", "Frei geschrieben von", "自由写成"]) => "free",
        // All other kinds are fixed texts.
        _ if sampled > 0 => "invented",
        "list_workspace_files" => "list",
        "find_files" => "find",
        "grep" => "grep",
        "now" if text.contains("09:31") => "time",
        "read_file" if shows("pip install lamp") && !shows("switches lights") => "install",
        "read_file" if shows("# Lamp") => "read",
        "read_file" if shows("> Lamp switches lights on at dusk,\n> if the sensor sees none.") => "project",
        "read_file" if text.contains("## Use") => "read",
        "" if text.contains("391") || text.ends_with(" 100") => "sum",
        "" if text.contains("SmolLM2-135M-Instruct") && text.contains("8192") => "about",
        "" if text.contains("~/.local/share/agentd") => "privacy",
        "" if text.contains("agentctl usage") => "cost",
        "" if !text.contains("agentctl models add") => "unknown",
        "" if says(["too small", "zu klein", "我太小"]) => "small",
        "" if text.contains("README") => "abilities",
        "" => "connect",
        _ => "unknown",
    }
}

#[tokio::test]
async fn newcomer_questions_get_the_expected_kind_of_answer() {
    let model = model().await;
    let mut wrong_answers = Vec::new();
    let lines = include_str!("../newcomer_questions.txt").lines();
    let questions: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(questions.len(), 60);
    for line in questions {
        let (language, rest) = line.split_once(' ').unwrap();
        let (kinds, question) = rest.trim().split_once(' ').unwrap();
        let (called, text, sampled) = answered(&model, question.trim()).await;
        let kind = kind(language, &called, &text, sampled);
        if !kinds.split(',').any(|expected_kind| expected_kind == kind) {
            wrong_answers.push(format!("{line}\n    is {kind}: {called} {text}"));
        }
    }
    assert!(wrong_answers.is_empty(), "{} of 60:\n{}", wrong_answers.len(), wrong_answers.join("\n"));
}

#[tokio::test]
async fn dropped_request_stops_during_prompt_evaluation() {
    let model = model().await;
    let before = model.status().evaluated_tokens;
    let text = "Write a story like this: ".to_owned()
        + &"The fox met a hare in the wood, and they spoke of the weather. ".repeat(80);
    let mut chunks = model.stream(request(vec![user(&text)], &[], &[]));
    // The notice is sent before the prompt is evaluated.
    chunks.next().await.unwrap().unwrap();
    until(&model, |status| status.evaluated_tokens > before).await;
    drop(chunks);
    let seen = model.status().evaluated_tokens;
    let read = until(&model, |status| !status.busy).await.evaluated_tokens;
    assert!(read - seen <= 256, "{} more tokens", read - seen);
    assert!(read - before < 450, "the whole prompt was read");
}
