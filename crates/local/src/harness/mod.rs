//! Decides what to do about a request, so that the model has nothing to decide: it is asked for free text only.
//!
//! A model of 135 million parameters that is asked who it is, or what a project does, makes something up. So everything that can
//! be answered without it is: by fixed texts in ten languages, by tools whose results are shown to the letter, and for all else
//! by the sentence that it is too small, with the way to a larger model.
//!
//! - [`request`]: what was asked last, and what this turn's tool returned.
//! - [`phrases`]: the table of questions and texts, `phrases.txt`, and how a request is compared with it.
//! - [`wish`]: what a request wants. [`sums`]: the calculator.
//! - [`report`]: results of tools as answers; [`readme`]: the parts of a README.
//!
//! A turn makes one hop: a tool at the most, then the answer that shows its result.

mod phrases;
mod readme;
mod report;
mod request;
mod sums;
mod wish;

use agentd_core::{knowledge::has_document_name, model::ModelRequest};
use serde_json::{Value, json};

use self::{
    phrases::Language,
    request::OpenRequest,
    wish::{PROJECT, Wish},
};
use crate::{config::Neighbour, vocabulary::chat::Turn};

/// The next step.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Say this.
    Say(String),
    /// Say this, and how a model is connected.
    Connect(String, Ways),
    /// Call this tool.
    Call { tool: &'static str, arguments: Value },
    /// Let the model write, below this mark.
    Write { mark: String, turns: Vec<Turn> },
}

/// The lines that connect a model.
#[derive(Debug)]
pub(crate) struct Ways(&'static Language);

impl Ways {
    /// The lines, with a server in them that listens on this machine, if there is one.
    pub(crate) fn lines(&self, neighbour: Option<&Neighbour>) -> String {
        let Self(language) = self;
        let found = neighbour
            .map(|one| format!("\n\n{}", language.filled("found", &[("title", one.title), ("url", &one.url)])));
        let add = format!("agentctl models add {}", neighbour.map_or("", |one| one.name));
        let commands = [add.trim_end(), "agentctl models test", "agentctl models"];
        let steps = commands.iter().zip(language.text("steps").split(" | "));
        let steps: Vec<String> = steps.map(|(command, does)| format!("{command:<30} # {does}")).collect();
        format!("{}\n\n```sh\n{}\n```", found.unwrap_or_default(), steps.join("\n"))
    }
}

/// Facts about the model that its texts name.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Its name, as `SmolLM2-135M-Instruct`.
    pub(crate) name: String,
    /// Its window, in tokens.
    pub(crate) window: u32,
}

/// Decides what to do about a request.
pub(crate) fn plan(request: &ModelRequest, facts: &Facts) -> Plan {
    let open = OpenRequest::read(request);
    let (language, wish) = wish::read(&open.text, open.earlier.iter().copied(), open.paths);
    if let Some(outcome) = &open.outcome {
        return Plan::Say(report::answer(language, &wish, outcome));
    }
    let fixed = |name: &str| {
        let maker = if facts.name.starts_with("SmolLM2-") { " (Hugging Face, Apache-2.0)" } else { "" };
        let window = facts.window.to_string();
        language
            .filled(name, &[("model", &format!("{}{maker}", facts.name)), ("name", &facts.name), ("window", &window)])
    };
    let call = |tool: &'static str, arguments: Value| match request.tools.iter().any(|spec| spec.name == tool) {
        true if request.may_call => Plan::Call { tool, arguments },
        _ => Plan::Connect(fixed("small"), Ways(language)),
    };
    match wish {
        Wish::Fixed(name) => Plan::Say(fixed(name)),
        Wish::Connect(name) => Plan::Connect(fixed(name), Ways(language)),
        Wish::Equation(equation) => Plan::Say(equation),
        Wish::Time => call("now", json!({})),
        Wish::List(Some(folder)) => call("list_workspace_files", json!({ "path": folder })),
        Wish::List(None) => call("list_workspace_files", report::everything(open.paths)),
        Wish::Count(pattern) => match open.paths.iter().any(|path| path.starts_with(PROJECT)) {
            true => call("find_files", json!({ "pattern": pattern, "path": PROJECT.trim_end_matches('/') })),
            false => call("find_files", json!({ "pattern": pattern })),
        },
        Wish::Find(pattern) => call("find_files", json!({ "pattern": pattern })),
        Wish::Search { text, path: Some(path) } if has_document_name(&path) => {
            call("search_file", json!({ "path": path, "query": text }))
        }
        Wish::Search { text, path: None } => {
            call("grep", json!({ "pattern": text, "literal": true, "ignore_case": true }))
        }
        Wish::Search { text, path } => {
            call("grep", json!({ "pattern": text, "path": path, "literal": true, "ignore_case": true }))
        }
        Wish::Read(path) | Wish::Opening(path) | Wish::Headings(path) | Wish::Install(path) => {
            call("read_file", json!({ "path": path }))
        }
        // The one system message that this family answers well with; personas of any kind make it talk nonsense.
        Wish::FreeText => Plan::Write {
            mark: fixed("mark"),
            turns: vec![Turn::system("You are a helpful assistant."), Turn::user(open.text)],
        },
    }
}
