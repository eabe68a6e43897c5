//! Clients of turns: the tools that clients answer themselves, the project files that clients have open, and the
//! channels to clients.
//!
//! Each call is sent with a channel for its answer. A client that answered too late about a file is not asked again for
//! a while, so that a hanging client does not block other work.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    catalogue::{CatalogueTool, ToolLabel, ToolOrigin},
    client_file::{ClientFileAnswer, ClientFileRequest, FileAction, NoAnswer},
    client_tool::{
        ClientTool, ClientToolAnswer, ClientToolCall, MAX_CLIENT_TOOL_DESCRIPTION, MAX_CLIENT_TOOL_NAME,
        MAX_CLIENT_TOOL_SCHEMA, MAX_CLIENT_TOOLS,
    },
    ports::{ClientFileAccess, ClientFiles},
    turn::StartTurn,
};
use futures_util::future::BoxFuture;
use jsonschema::Validator;
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};

use crate::{
    catalog::{AgentScope, ToolCatalog, ToolScope},
    error::{EngineError, Result, refuse_if},
};

/// Maximum number of calls queued for a client that does not receive them.
const QUEUE: usize = 64;
/// Maximum number of reasons reported for invalid arguments.
const MAX_REASONS: usize = 4;

/// A call to the client, and the channel for its answer. If the channel is dropped without an answer, the call ends
/// with an error.
#[derive(Debug)]
pub struct ClientToolRequest {
    /// The tool call to be answered.
    pub call: ClientToolCall,
    /// Channel for the client's answer.
    pub reply: oneshot::Sender<ClientToolAnswer>,
}

/// The engine's end of the channel to the client of a turn.
#[derive(Debug, Clone)]
pub struct ClientLine(mpsc::Sender<ClientToolRequest>);

impl ClientLine {
    /// Creates a channel, and returns it with the receiver for the task that serves the client.
    pub fn new() -> (Self, mpsc::Receiver<ClientToolRequest>) {
        let (sender, requests) = mpsc::channel(QUEUE);
        (Self(sender), requests)
    }

    /// Returns true if the client has disconnected.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends a call to the client and waits for the answer. `None` if the client has disconnected or its queue is full.
    pub(crate) async fn ask(&self, call: ClientToolCall) -> Option<ClientToolAnswer> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(ClientToolRequest { call, reply }).ok()?;
        answer.await.ok()
    }
}

/// Tools of a client, as offered by a turn.
pub(crate) struct ClientTools {
    tools: Vec<CatalogueTool>,
    /// The client's own name and the validator of each tool, by the name used by models.
    routes: HashMap<String, (String, Validator)>,
    pub(crate) line: ClientLine,
}

impl ClientTools {
    /// Creates the tools, which must be valid, with the channel to their client.
    pub(crate) fn new(tools: &[ClientTool], line: ClientLine) -> Result<Self> {
        let route = |tool: &ClientTool| Ok((tool.called(), (tool.name.clone(), validator(tool)?)));
        let routes = tools.iter().map(route).collect::<Result<_>>()?;
        let to_tool =
            |tool: &ClientTool| CatalogueTool::own(tool.spec(), ToolOrigin::Conversation, ToolLabel::default());
        Ok(Self { tools: tools.iter().map(to_tool).collect(), routes, line })
    }

    /// Returns the tools that the agent of a turn may use. An agent that names its tools can use only these tools.
    pub(crate) fn for_scope(&self, scope: &ToolScope) -> Vec<&CatalogueTool> {
        let named = |tool: &&CatalogueTool| match &scope.agent {
            Some(AgentScope { tools: Some(named), .. }) => named.contains(&tool.spec.name),
            _ => true,
        };
        self.tools.iter().filter(named).collect()
    }

    /// Returns the client's own name of a tool, given the name used by models.
    pub(crate) fn own_name(&self, called: &str) -> Option<&str> {
        self.routes.get(called).map(|(name, _)| name.as_str())
    }

    /// Returns the reasons why a call's arguments are invalid, or `None` if they are valid.
    pub(crate) fn problem(&self, called: &str, arguments: &str) -> Option<String> {
        let (_, validator) = self.routes.get(called)?;
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return Some(format!("the arguments are not JSON: {error}")),
        };
        let reasons: Vec<String> = validator
            .iter_errors(&value)
            .take(MAX_REASONS)
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => error.to_string(),
                path => format!("at {path}: {error}"),
            })
            .collect();
        (!reasons.is_empty()).then(|| format!("the arguments do not match the schema: {}", reasons.join("; ")))
    }
}

/// Rejects tools that a turn cannot offer.
pub(crate) fn check(tools: &[ClientTool], catalog: &ToolCatalog, canonical: impl Fn(&str) -> String) -> Result<()> {
    let count = || format!("the client offers {} tools; at most {MAX_CLIENT_TOOLS} are allowed", tools.len());
    refuse_if(tools.len() > MAX_CLIENT_TOOLS, count, "offer only the tools that this turn needs")?;
    for (at, tool) in tools.iter().enumerate() {
        let name = &tool.name;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        let is_valid = (1..=MAX_CLIENT_TOOL_NAME).contains(&name.len()) && name.chars().all(is_plain);
        let shown = || format!("invalid tool name {:?}", name.chars().take(MAX_CLIENT_TOOL_NAME).collect::<String>());
        refuse_if(!is_valid, shown, &format!("use 1 to {MAX_CLIENT_TOOL_NAME} letters, digits, `_` and `-`"))?;
        let is_repeated = tools[..at].iter().any(|before| before.name == *name);
        let repeated = || format!("the client offers two tools named {name}");
        refuse_if(is_repeated, repeated, "give each tool a unique name")?;
        let existing =
            [name.clone(), canonical(name), tool.called()].into_iter().find(|name| catalog.get(name).is_some());
        if let Some(existing) = existing {
            let message = format!("the client's tool {name} has the name of a tool of the daemon ({existing})");
            return Err(EngineError::invalid(message, "rename the client's tool"));
        }
        let is_described = !tool.description.trim().is_empty() && tool.description.len() <= MAX_CLIENT_TOOL_DESCRIPTION;
        let length = || format!("the description of the tool {name} has {} bytes", tool.description.len());
        let hint = format!("use 1 to {MAX_CLIENT_TOOL_DESCRIPTION} bytes to describe when to use the tool");
        refuse_if(!is_described, length, &hint)?;
        let (schema, limit) = (tool.parameters.to_string().len(), MAX_CLIENT_TOOL_SCHEMA);
        let size = || format!("the schema of the tool {name} has {schema} bytes; at most {limit} are allowed");
        refuse_if(schema > limit, size, "describe fewer arguments, or shorten their descriptions")?;
        validator(tool)?;
    }
    Ok(())
}

fn validator(ClientTool { name, parameters, .. }: &ClientTool) -> Result<Validator> {
    let invalid = |reason: String| {
        let hint = r#"use a schema such as {"type": "object", "properties": {"path": {"type": "string"}}}"#;
        EngineError::invalid(format!("the schema of the tool {name} does not describe arguments: {reason}"), hint)
    };
    if parameters.get("type").is_none_or(|kind| kind != "object") {
        return Err(invalid("its `type` is not `object`".to_owned()));
    }
    jsonschema::meta::validate(parameters).map_err(|problem| invalid(problem.to_string()))?;
    jsonschema::validator_for(parameters).map_err(|problem| invalid(problem.to_string()))
}

/// The tools of a turn's client, shared by the tasks of the turn.
pub(crate) type OfferedTools = Option<Arc<ClientTools>>;

/// Maximum number of questions queued for a client that does not receive them.
const FILE_QUEUE: usize = 16;
/// Time limits for reading and for writing a file. A write takes longer because the client may format and save the
/// text.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which a client is not asked after a late answer.
const PAUSE_TIME: Duration = Duration::from_secs(15);

/// A question to the client, and the channel for its answer. If the channel is dropped without an answer, the client
/// counts as disconnected.
#[derive(Debug)]
pub struct ClientFileQuestion {
    /// The question to be answered.
    pub request: ClientFileRequest,
    /// Channel for the client's answer.
    pub reply: oneshot::Sender<ClientFileAnswer>,
}

/// The engine's end of the channel to a client that has files open.
#[derive(Debug, Clone)]
pub struct FileLine {
    sender: mpsc::Sender<ClientFileQuestion>,
    access: ClientFileAccess,
    last_id: Arc<AtomicU64>,
    /// Time until which the client is not asked again.
    paused: watch::Sender<Option<Instant>>,
}

impl FileLine {
    /// Creates a channel, and returns it with the receiver for the task that serves the client.
    pub fn new(access: ClientFileAccess) -> (Self, mpsc::Receiver<ClientFileQuestion>) {
        let (sender, questions) = mpsc::channel(FILE_QUEUE);
        (Self { sender, access, last_id: Arc::default(), paused: watch::Sender::default() }, questions)
    }

    fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    async fn ask(&self, path: &str, action: FileAction) -> Result<ClientFileAnswer, NoAnswer> {
        if self.paused.borrow().is_some_and(|until| Instant::now() < until) {
            return Err(NoAnswer::Late);
        }
        let limit = if action == FileAction::Read { READ_TIMEOUT } else { WRITE_TIMEOUT };
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, answer) = oneshot::channel();
        let request = ClientFileRequest { id: format!("file-{number}"), path: path.to_owned(), action };
        match self.sender.try_send(ClientFileQuestion { request, reply }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(NoAnswer::Late),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(NoAnswer::Gone),
        }
        match timeout(limit, answer).await {
            Ok(answer) => answer.map_err(|_| NoAnswer::Gone),
            Err(_) => {
                self.paused.send_replace(Some(Instant::now() + PAUSE_TIME));
                Err(NoAnswer::Late)
            }
        }
    }
}

/// A turn to start, with the channels to its client.
#[derive(Debug)]
pub struct TurnStart {
    /// The start request itself.
    pub start: StartTurn,
    /// Channels to the turn's client.
    pub lines: ClientLines,
}

/// Channels to the client of a turn.
#[derive(Debug, Default)]
pub struct ClientLines {
    /// Channel for calls to the client's tools. Without the channel, these tools are left out.
    pub tools: Option<ClientLine>,
    /// Channels to clients that have project files open. The last client is asked first.
    pub files: Vec<FileLine>,
}

impl From<StartTurn> for TurnStart {
    fn from(start: StartTurn) -> Self {
        Self { start, lines: ClientLines::default() }
    }
}

/// Clients that have files open for a turn, including clients that join the turn later. The latest client is asked.
#[derive(Debug, Default)]
pub(crate) struct FileLines(watch::Sender<Vec<FileLine>>);

impl FileLines {
    pub(crate) fn new(lines: Vec<FileLine>) -> Self {
        Self(watch::Sender::new(lines))
    }

    /// Adds the channels of a client that joins the turn.
    pub(crate) fn join(&self, lines: Vec<FileLine>) {
        if !lines.is_empty() {
            self.0.send_modify(|known| {
                known.retain(|line| !line.is_gone());
                known.extend(lines);
            });
        }
    }

    fn last(&self) -> Option<FileLine> {
        self.0.borrow().iter().rev().find(|line| !line.is_gone()).cloned()
    }

    /// Returns the open channels, for a subagent of the turn.
    pub(crate) fn lines(&self) -> Vec<FileLine> {
        self.0.borrow().iter().filter(|line| !line.is_gone()).cloned().collect()
    }
}

impl ClientFiles for FileLines {
    fn access(&self) -> Option<ClientFileAccess> {
        self.last().map(|line| line.access)
    }

    fn ask<'a>(&'a self, path: &'a str, action: FileAction) -> BoxFuture<'a, Result<ClientFileAnswer, NoAnswer>> {
        Box::pin(async move {
            match self.last() {
                Some(line) => line.ask(path, action).await,
                None => Err(NoAnswer::Gone),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, parameters: Value) -> ClientTool {
        ClientTool { name: name.to_owned(), description: "Looks.".to_owned(), parameters, only_looks: true }
    }

    fn object() -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    #[test]
    fn invalid_client_tools_are_rejected_with_a_hint() {
        let catalog = ToolCatalog::new(Arc::default(), &[agentd_policy::read_tool()]);
        let refusal = |tools: &[ClientTool], part: &str| {
            let canonical = |name: &str| if name == "Read" { "read_file".to_owned() } else { name.to_owned() };
            let error = check(tools, &catalog, canonical).unwrap_err();
            assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
        };
        refusal(&[tool("", object())], "invalid tool name");
        refusal(&[tool("read buffer", object())], "invalid tool name");
        refusal(&[tool(&"x".repeat(49), object())], "invalid tool name");
        refusal(&[tool("read_file", object())], "has the name of a tool of the daemon");
        refusal(&[tool("Read", object())], "has the name of a tool of the daemon (read_file)");
        refusal(&[tool("a", object()), tool("a", object())], "two tools named a");
        refusal(&[ClientTool { description: " ".to_owned(), ..tool("a", object()) }], "description");
        refusal(&[tool("a", json!([]))], "not `object`");
        refusal(&[tool("a", json!({"type": "object", "properties": 7}))], "does not describe arguments");
        refusal(&[tool("a", json!({"type": "object", "description": "x".repeat(40_000)}))], "bytes");
        refusal(&vec![tool("a", object()); 65], "65 tools");
        assert!(check(&[tool("a", object()), tool("b-2", json!({"type": "object"}))], &catalog, str::to_owned).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn late_client_is_skipped_for_a_while() {
        let (line, mut questions) = FileLine::new(ClientFileAccess::Read);
        let files = FileLines::new(vec![line]);
        assert_eq!(files.ask("a", FileAction::Read).await, Err(NoAnswer::Late));
        let late = questions.recv().await.unwrap();
        assert!(late.reply.is_closed());
        assert_eq!(files.ask("b", FileAction::Read).await, Err(NoAnswer::Late));
        assert!(questions.try_recv().is_err(), "the late client was asked again at once");
        tokio::time::advance(PAUSE_TIME).await;
        let answer = async {
            let question = questions.recv().await.unwrap();
            assert_eq!(question.request.path, "c");
            question.reply.send(ClientFileAnswer::Absent).unwrap();
        };
        assert_eq!(tokio::join!(files.ask("c", FileAction::Read), answer).0, Ok(ClientFileAnswer::Absent));
    }
}
