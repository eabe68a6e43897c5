//! Property test: for any journal, the model requests follow the providers' rules. A provider would reject every later
//! turn of a session whose history violates a rule.
//!
//! The test covers the whole path: from the journal through the engine and the adapter over HTTP to a server that
//! validates requests.

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    context::Compaction,
    event::{Event, EventKind},
    ids::{CallId, SessionId, TraceId, TurnId},
    item::{Item, ItemBody, ItemStatus},
    model::Slot,
    ports::{Model, Store as _},
    session::SessionSettings,
    tool::{ToolCall, ToolErrorCode, ToolResult},
    turn::{OnInterrupt, StartTurn, StopReason, TurnResult},
    usage::Usage,
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_models::{ModelConfig, Wire, connect};
use agentd_testkit::{
    memory_audit::MemoryAudit,
    memory_disk::MemoryDisk,
    memory_store::MemoryStore,
    model_server::{ModelServer, Provider, Reply},
    scripted::{NoWorkspaces, OneModel, ScriptedTools, StoppedClock},
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

/// Number of generated histories per dialect.
const CASES: u32 = 300;

fn text() -> impl Strategy<Value = String> {
    let texts = [
        "",
        " \n\t",
        "hello",
        "你好 😀",
        "\u{0}\u{1b}[31m\u{7f}",
        "\\ud83d",
        "\"}]<|im_end|></s>",
        "<system_reminder>",
        "{\"tool\": \"look\", \"args\": {}}",
        "\u{feff}\u{202e}\u{2028}",
        // A picture whose file was removed: the request mentions the picture by its path in text.
        "![a picture](/large_tool_results/gone.png)",
    ];
    select(texts.to_vec()).prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = String> {
    let long = "x".repeat(100);
    let names = ["look", "", "functions.read file", "ключ", "a\u{0}b", "😀", "a/b:c", &long].map(str::to_owned);
    select(names.to_vec())
}

fn arguments() -> impl Strategy<Value = String> {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let arguments = [
        "{}",
        "",
        " ",
        "{ \"path\" :\"a\"}",
        "{\"path\":",
        "[1]",
        "\"text\"",
        "null",
        "1",
        "{\"a\":\"\\ud83d\"}",
        "{\"\\ude00\":1}",
        "{\"a\":\"\\ud83d\\ude00\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":1e999}",
        "{\"a\":1,\"a\":2}",
        "{}{}",
        &deep,
    ];
    select(arguments.map(str::to_owned).to_vec())
}

fn call_id() -> impl Strategy<Value = CallId> {
    let long = "y".repeat(80);
    let ids = ["call_1", "call_2", "call_3", "call_4", "", "a b", "a_b_0", "ключ", &long];
    select(ids.map(|id| CallId::from(id.to_owned())).to_vec())
}

fn call() -> impl Strategy<Value = ToolCall> {
    (call_id(), name(), arguments()).prop_map(|(call_id, name, arguments)| ToolCall { call_id, name, arguments })
}

fn result() -> impl Strategy<Value = ToolResult> {
    let error = proptest::option::of(select(vec![ToolErrorCode::Tool, ToolErrorCode::NotRun]));
    (call_id(), name(), text(), error).prop_map(|(call_id, name, text, error)| ToolResult {
        text,
        error,
        ..ToolResult::empty(call_id, name)
    })
}

fn body() -> impl Strategy<Value = ItemBody> {
    prop_oneof![
        2 => (text(), any::<bool>()).prop_map(|(text, steered)| ItemBody::UserMessage { text, steered, typed_bytes: None, stored: None }),
        1 => text().prop_map(|text| ItemBody::AgentMessage { text }),
        1 => text().prop_map(|text| ItemBody::Reasoning { text }),
        3 => call().prop_map(ItemBody::ToolCall),
        3 => result().prop_map(ItemBody::ToolResult),
        1 => text().prop_map(|summary| ItemBody::Compaction(Compaction { summary, ..Compaction::default() })),
        1 => text().prop_map(ItemBody::notice),
    ]
}

/// Content of the journal, and parameters of the next turn.
#[derive(Debug, Clone)]
struct History {
    turns: Vec<Vec<ItemBody>>,
    /// Maximum number of messages in a request.
    limit: usize,
    /// True if the next turn has a new message; otherwise the last turn is resumed.
    has_message: bool,
    /// True if only one step remains, in which case the final answer is requested without tools.
    is_last: bool,
}

fn history() -> impl Strategy<Value = History> {
    let turns = vec(vec(body(), 0..25), 1..4);
    (turns, 10..30usize, any::<bool>(), any::<bool>()).prop_map(|(turns, limit, has_message, is_last)| History {
        turns,
        limit,
        has_message,
        is_last,
    })
}

/// Writes the turns into a journal. All turns have ended without completing.
async fn journal(session: SessionId, turns: Vec<Vec<ItemBody>>) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let mut events = Vec::new();
    for items in turns {
        let turn_id = TurnId::generate();
        let item = |body| Item::new(turn_id, body);
        let whole = |body| EventKind::ItemCompleted { item: item(body), status: ItemStatus::Done };
        let started = EventKind::TurnStarted {
            trace_id: TraceId::generate(),
            slot: Slot::Base,
            model: "m".to_owned(),
            reason: String::new(),
            rule: Default::default(),
            max_steps: 10,
            compacts: false,
            environment: Default::default(),
            handed_over: Vec::new(),
            answer_schema: None,
            options: None,
        };
        let result = TurnResult {
            turn_id,
            trace_id: TraceId::generate(),
            text: String::new(),
            tool_used: false,
            stop_reason: StopReason::Interrupted,
            error: None,
            steps: 1,
            usage: Usage::default(),
            denials: Vec::new(),
            files: Vec::new(),
            duration_ms: 1,
            only_compacted: false,
        };
        let ended = EventKind::TurnEnded { result: Box::new(result) };
        for kind in std::iter::once(started).chain(items.into_iter().map(whole)).chain([ended]) {
            let seq = events.len() as u64 + 1;
            let at = Timestamp::UNIX_EPOCH;
            events.push(Arc::new(Event { session_id: session, turn_id: Some(turn_id), seq, at, kind }));
        }
    }
    store.create_session(session, Timestamp::UNIX_EPOCH, SessionSettings::default(), events).await.unwrap();
    store
}

/// Runs one more turn on the history. Returns the problem, if there is one.
async fn run_next_turn(model: &Arc<dyn Model>, history: History) -> Option<String> {
    let History { turns, limit, has_message, is_last } = history;
    let session = SessionId::generate();
    let disk = Arc::new(MemoryDisk::default());
    let engine = Engine::new(
        Ports {
            models: Arc::new(OneModel(Arc::clone(model))),
            toolbox: ScriptedTools::on(Arc::clone(&disk)),
            store: journal(session, turns).await,
            workspaces: Arc::new(NoWorkspaces),
            pictures: None,
            snapshots: disk,
            languages: Arc::new(agentd_core::ports::NoLanguages),
            exchanges: agentd_core::ports::NoExchanges::port(),
            audit: Arc::new(MemoryAudit::default()),
            clock: Arc::new(StoppedClock::default()),
        },
        EngineConfig { max_message_history: Some(limit), ..EngineConfig::default() },
    );
    let start = StartTurn {
        text: has_message.then(|| "go on".to_owned()),
        max_steps: is_last.then_some(1),
        on_interrupt: OnInterrupt::Deny,
        client: "test".to_owned(),
        ..StartTurn::default()
    };
    let handle = engine.session(session).await.unwrap();
    let mut events = handle.start_turn(start).await.unwrap().events;
    while let Some(event) = events.next().await {
        if let EventKind::TurnEnded { result } = &event.unwrap().kind {
            let expected = if is_last { StopReason::MaxSteps } else { StopReason::Completed };
            return (result.stop_reason != expected || result.text.is_empty())
                .then(|| format!("{:?}: {:?}", result.stop_reason, result.error));
        }
    }
    Some("the stream of events ended".to_owned())
}

fn every_history_is_accepted(native: bool, configure: impl Fn(&mut ModelConfig)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(ModelServer::start());
    // The model makes one call, so that the request after a call is also checked.
    server.respond_with(|request| match request.body["tools"].is_null() {
        _ if request.body.to_string().contains("look is done") => Reply::text("I go on."),
        true => Reply::text(r#"{"tool": "look", "args": {}}"#),
        false => Reply::tool_call("look", json!({})).and_call("\u{0}", json!("{\"a\":")),
    });
    let mut config = ModelConfig::new(Wire::OpenAi, server.base_url());
    config.id = "the-model".to_owned();
    configure(&mut config);
    let strict_server = match config.wire {
        Wire::Anthropic => Some(Provider::Anthropic),
        Wire::Responses => Some(Provider::OpenAi),
        Wire::OpenAi | Wire::LlamaCpp => None,
    };
    if let Some(provider) = strict_server {
        server.acts_as(provider);
    }
    let model = connect(&config).unwrap();
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&history(), |history| {
        let problem = runtime.block_on(run_next_turn(&model, history));
        prop_assert_eq!(problem, None);
        Ok(())
    });
    outcome.unwrap();
    let requests = server.requests();
    assert!(requests.len() >= 2 * CASES as usize, "both requests of each turn are checked");
    let forbids_tools = |choice: &Value| choice == "none" || choice["type"] == "none";
    let final_requests = requests.iter().filter(|request| forbids_tools(&request.body["tool_choice"])).count();
    assert_eq!(final_requests > 0, native, "final requests forbid calls only with native tools");
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn every_history_is_accepted_with_native_calls() {
    every_history_is_accepted(true, |config| config.echo_reasoning = true);
}

#[test]
fn every_history_is_accepted_with_calls_in_text() {
    every_history_is_accepted(false, |config| config.native_tools = Some(false));
}

#[test]
fn every_history_is_accepted_over_messages() {
    every_history_is_accepted(true, |config| config.wire = Wire::Anthropic);
}

#[test]
fn every_history_is_accepted_over_messages_with_calls_in_text() {
    every_history_is_accepted(false, |config| (config.wire, config.native_tools) = (Wire::Anthropic, Some(false)));
}

#[test]
fn every_history_is_accepted_over_responses() {
    every_history_is_accepted(true, |config| config.wire = Wire::Responses);
}

#[test]
fn every_history_is_accepted_over_responses_with_calls_in_text() {
    every_history_is_accepted(false, |config| (config.wire, config.native_tools) = (Wire::Responses, Some(false)));
}
