//! Runs this crate's client against the conformance suite of the protocol. The client gets a URL, logs in if
//! necessary, calls every tool, and answers questions with the defaults.

#![allow(clippy::print_stderr, reason = "output for the person who runs the suite")]

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    ids::{CallId, SessionId, TurnId},
    interrupt::Answer,
    ports::{Person, ToolContext, Toolbox as _, Workspace},
    tool::{ToolCall, ToolSpec},
};
use agentd_mcp::{
    McpConfig, McpPool, McpToolbox, ServerConfig,
    catalogue::CatalogueFolder,
    config::{HttpWire, OAuthClient, ServerAddress},
    login::Logins,
    pool::{PoolOwner, PoolParts},
};
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

const NAME: &str = "it";
/// Maximum number of logins, since a server may change its authorisation server.
const LOGINS: usize = 3;
/// Redirect URL where nothing listens: the redirect is read from the response.
const REDIRECT: &str = "http://127.0.0.1:9/callback";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else { return ExitCode::from(2) };
    let Ok(folder) = tempfile::tempdir() else { return ExitCode::from(2) };
    let pool = McpPool::new(PoolParts {
        config: McpConfig { servers: [(NAME.to_owned(), server(url))].into(), ..McpConfig::default() },
        catalogues: CatalogueFolder::new(folder.path().join("catalogues")),
        logins: Logins::new(folder.path().join("tokens")),
        guard: "/nonexistent".into(),
        environment: BTreeMap::new(),
        clean: Default::default(),
        reserved: Box::new(|_| false),
        owner: PoolOwner::Daemon,
        plugin_check: Default::default(),
    });
    let outcome = drive(&pool).await;
    pool.close().await;
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn drive(pool: &Arc<McpPool>) -> Result<(), String> {
    let mut logins = 0;
    while let Err(error) = pool.start(NAME, None).await.map_err(|reason| reason.to_string()) {
        if !error.contains("agentctl mcp login") || logins == LOGINS {
            return Err(error);
        }
        login(pool).await?;
        logins += 1;
    }
    let toolbox = McpToolbox::new(Arc::clone(pool));
    for tool in toolbox.specs().iter() {
        let mut output = toolbox.call(&context(), &call(tool)).await;
        if output.text.contains("agentctl mcp login") {
            login(pool).await?;
            output = toolbox.call(&context(), &call(tool)).await;
        }
        eprintln!("{}: {}", tool.name, output.text);
    }
    Ok(())
}

/// Logs in like a user whose browser asks no questions.
async fn login(pool: &McpPool) -> Result<(), String> {
    let address = pool.begin_login(NAME, REDIRECT).await?;
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let answer = browser.map_err(|error| error.to_string())?.get(address).send().await;
    let answer = answer.map_err(|error| error.to_string())?;
    let callback = answer.headers().get("location").and_then(|location| location.to_str().ok());
    pool.finish_login(NAME, callback.ok_or("the server did not redirect the browser")?).await
}

fn server(url: String) -> ServerConfig {
    let (url, headers) = (url.as_str().into(), BTreeMap::new());
    let address = ServerAddress::Http { url, headers, wire: HttpWire::Streamable, client: registered() };
    let limit = Duration::from_secs(20);
    ServerConfig {
        start_timeout: limit,
        call_timeout: limit,
        call_limit: limit,
        idle_stop: None,
        ..ServerConfig::new(address)
    }
}

/// Returns the additional context from the suite.
fn suite_context() -> Option<Value> {
    serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").ok()?).ok()
}

/// Returns the client registered by the suite, if any.
fn registered() -> Option<OAuthClient> {
    let context = suite_context()?;
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    // The suite does not name the issuer.
    Some(OAuthClient { id: text("client_id")?, secret: text("client_secret").map(Into::into), issuer: None })
}

/// Returns a call with the arguments from the suite, or with placeholders for required ones.
fn call(tool: &ToolSpec) -> ToolCall {
    let context = suite_context().unwrap_or_default();
    let mut calls = context["toolCalls"].as_array().into_iter().flatten();
    let suite_call =
        calls.find(|call| call["name"].as_str().is_some_and(|name| tool.name == format!("mcp_{NAME}_{name}")));
    if let Some(suite_call) = suite_call {
        let arguments = suite_call["arguments"].to_string();
        return ToolCall { call_id: CallId::generate(), name: tool.name.clone(), arguments };
    }
    let required = tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match tool.parameters["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        _ => json!("something"),
    };
    let arguments: Map<String, Value> = required.map(|name| (name.to_owned(), value(name))).collect();
    ToolCall { call_id: CallId::generate(), name: tool.name.clone(), arguments: Value::Object(arguments).to_string() }
}

fn context() -> ToolContext {
    ToolContext {
        session_id: SessionId::generate(),
        turn_id: TurnId::generate(),
        call_id: CallId::generate(),
        workspace: Arc::new(Workspace {
            root: "/nonexistent".into(),
            project: None,
            folders: Vec::new(),
            memories: None,
            worktree: None,
        }),
        state_files: Arc::default(),
        client_files: None,
        reading: Default::default(),
        environment: Arc::default(),
        progress: Default::default(),
        person: Person::new(|_| std::future::ready(Some(Answer::Text { text: "{}".to_owned() })).boxed()),
        sampler: Default::default(),
        sight: Default::default(),
        stands_for: None,
        confinement: agentd_core::policy::Confinement::Usual,
        guarded: Default::default(),
        closed: Default::default(),
        now: Timestamp::UNIX_EPOCH,
        cancel: CancellationToken::new(),
    }
}
