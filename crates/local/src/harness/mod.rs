//! Decides how to answer a request, so that the model is only used for free text.
//!
//! A model with 135 million parameters makes something up when asked who it is or what a project does. Therefore, most
//! requests are answered without the model: by fixed texts in ten languages, or by tools whose results are shown
//! verbatim. For requests that are neither of these nor for free text, the answer is that the model is too small, with
//! instructions to connect a larger one.
//!
//! - [`phrases`]: the table `phrases.txt` of questions and texts, and matching requests with it.
//! - [`request_kind`]: classification of a request. [`calculator`]: exact arithmetic.
//! - [`report`]: tool results as answers, and the parts of a README.
//! - This module: the last request, the tool result of this turn, and the resulting plan.
//!
//! A turn has at most one tool call, followed by the answer that shows the result.

mod calculator;
mod phrases;
mod report;
mod request_kind;

use agentd_core::{
    knowledge::has_document_name,
    model::{Message, ModelRequest},
    tool::ToolCall,
};
use serde_json::{Value, json};

use self::{
    phrases::Language,
    request_kind::{PROJECT, RequestKind},
};
use crate::config::Neighbour;

/// Next action of the model.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Answer with this text.
    Say(String),
    /// Answer with this text and the instructions to connect a model.
    Connect(String, &'static Language),
    /// Call this tool once.
    Call { tool: &'static str, arguments: Value },
    /// Let the model write, with this notice above the text.
    Write { mark: String, text: String },
}

/// Returns the instructions to connect a model, using a server that listens on this host, if any.
pub(crate) fn connect_instructions(language: &Language, neighbour: Option<&Neighbour>) -> String {
    let found =
        neighbour.map(|one| format!("\n\n{}", language.fill("found", &[("title", one.title), ("url", &one.url)])));
    let add = format!("agentctl models add {}", neighbour.map_or("", |one| one.name));
    let commands = [add.trim_end(), "agentctl models test", "agentctl models"];
    let steps = commands.iter().zip(language.text("steps").split(" | "));
    let steps: Vec<String> = steps.map(|(command, does)| format!("{command:<30} # {does}")).collect();
    format!("{}\n\n```sh\n{}\n```", found.unwrap_or_default(), steps.join("\n"))
}

/// Facts about the model that fixed texts mention.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Name such as `SmolLM2-135M-Instruct`.
    pub(crate) name: String,
    /// Context window in tokens.
    pub(crate) window: u32,
}

/// Decides how to answer a request.
pub(crate) fn plan(request: &ModelRequest, facts: &Facts) -> Plan {
    let open = OpenRequest::read(request);
    let (language, request_kind) = request_kind::read(&open.text, open.earlier.iter().copied(), open.paths);
    if let Some(outcome) = &open.outcome {
        return Plan::Say(report::answer(language, &request_kind, outcome));
    }
    let fixed = |name: &str| {
        let maker = if facts.name.starts_with("SmolLM2-") { " (Hugging Face, Apache-2.0)" } else { "" };
        let window = facts.window.to_string();
        language.fill(name, &[("model", &format!("{}{maker}", facts.name)), ("name", &facts.name), ("window", &window)])
    };
    let call = |tool: &'static str, arguments: Value| match request.tools.iter().any(|spec| spec.name == tool) {
        true if request.may_call => Plan::Call { tool, arguments },
        _ => Plan::Connect(fixed("small"), language),
    };
    match request_kind {
        RequestKind::Fixed(name) => Plan::Say(fixed(name)),
        RequestKind::Connect(name) => Plan::Connect(fixed(name), language),
        RequestKind::Equation(equation) => Plan::Say(equation),
        RequestKind::Time => call("now", json!({})),
        RequestKind::List(Some(folder)) => call("list_workspace_files", json!({ "path": folder })),
        RequestKind::List(None) => call("list_workspace_files", report::list_arguments(open.paths)),
        RequestKind::Count(pattern) => match open.paths.iter().any(|path| path.starts_with(PROJECT)) {
            true => call("find_files", json!({ "pattern": pattern, "path": PROJECT.trim_end_matches('/') })),
            false => call("find_files", json!({ "pattern": pattern })),
        },
        RequestKind::Find(pattern) => call("find_files", json!({ "pattern": pattern })),
        RequestKind::Search { text, path: Some(path) } if has_document_name(&path) => {
            call("search_file", json!({ "path": path, "query": text }))
        }
        RequestKind::Search { text, path: None } => {
            call("grep", json!({ "pattern": text, "literal": true, "ignore_case": true }))
        }
        RequestKind::Search { text, path } => {
            call("grep", json!({ "pattern": text, "path": path, "literal": true, "ignore_case": true }))
        }
        RequestKind::Read(path)
        | RequestKind::Opening(path)
        | RequestKind::Headings(path)
        | RequestKind::Install(path) => call("read_file", json!({ "path": path })),
        RequestKind::FreeText => Plan::Write { mark: fixed("mark"), text: open.text },
    }
}

/// Prefixes of messages that the daemon adds for larger models. They are not from the user.
const DAEMON_PREFIXES: [&str; 4] = ["<memory>\n", "<skills>\n", "<files>\n", "<conversation_summary>\n"];
/// Start of the line in which `agentctl` lists the files attached to a prompt.
const UPLOAD_PREFIX: &str = "\n\nUploaded file";
/// Number of characters of a request that are read.
const MAX_REQUEST_CHARS: usize = 2000;

struct OpenRequest<'a> {
    text: String,
    /// Earlier requests, newest first.
    earlier: Vec<&'a str>,
    /// Result of this turn's tool call, if any.
    outcome: Option<Outcome<'a>>,
    /// Paths of the visible files.
    paths: &'a [String],
}

struct Outcome<'a> {
    tool: &'a str,
    text: &'a str,
    arguments: Value,
}

impl Outcome<'_> {
    /// Returns an argument of the call, or an empty string if it is missing.
    fn argument(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl<'a> OpenRequest<'a> {
    /// Parses a request. Ignores the daemon's system message and reminders, which are not intended for this model.
    fn read(request: &'a ModelRequest) -> Self {
        let mut requests: Vec<&str> = Vec::new();
        let mut calls: Vec<&ToolCall> = Vec::new();
        let mut outcome = None;
        for message in &request.messages {
            match message {
                Message::System { .. } | Message::Pictures { .. } => {}
                Message::User { text } => {
                    if DAEMON_PREFIXES.iter().any(|tag| text.starts_with(tag)) || without_reminders(text).is_empty() {
                        continue;
                    }
                    requests.push(text);
                    calls.clear();
                    outcome = None;
                }
                Message::Assistant { tool_calls, .. } => calls.extend(tool_calls),
                Message::Tool { call_id, name, text, .. } => {
                    let call = calls.iter().rev().find(|call| call.call_id == *call_id);
                    let arguments =
                        call.and_then(|call| serde_json::from_str(&call.arguments).ok()).unwrap_or_default();
                    outcome = Some(Outcome { tool: name, text, arguments });
                }
            }
        }
        let text = requests.pop().map(without_reminders).unwrap_or_default();
        let text = beginning(text.split(UPLOAD_PREFIX).next().unwrap_or_default().trim()).to_owned();
        let requests = requests.into_iter().rev().map(beginning).collect();
        Self { text, earlier: requests, outcome, paths: &request.known_paths }
    }
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(MAX_REQUEST_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Removes the reminders that the daemon adds for larger models.
fn without_reminders(text: &str) -> String {
    const START: &str = "<system_reminder>";
    const END: &str = "</system_reminder>";
    let mut output = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        output.push_str(before);
        rest = after.split_once(END).map_or("", |(_, after)| after);
    }
    output.push_str(rest);
    output.trim().to_owned()
}
