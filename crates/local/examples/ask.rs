//! Command line for the embedded model with simulated tools: `ask MODEL.gguf [PROMPT…]`. Each prompt is one turn in the
//! same session. Without arguments, prompts are read from standard input. Prints the model's output and its duration.

use std::{
    error::Error,
    io::{BufRead as _, Write as _},
    sync::Arc,
    time::Instant,
};

use agentd_core::{
    ids::{CallId, SessionId},
    model::{Message, ModelChunk, ModelRequest},
    ports::Model as _,
    tool::{Effect, ToolCall, ToolSpec},
};
use agentd_local::{EmbeddedConfig, EmbeddedModel};
use futures_util::{FutureExt as _, StreamExt as _};

const NOTES: &str = "Notes of the garden club, 12 May.\nThe club met at Anna's house. Twelve members came. The summer fair \
    will be on 4 July in the town park. Bob will build the stand, and Carla brings the plants. The club has 340 euros \
    left, of which 120 are for the stand. The next meeting is on 2 June at the library.\n";
const ERRANDS: &str = "- buy milk\n- call the bank\n- water the plants\n";
const LISTING: &str = "uploads/\nuploads/notes.txt (402 bytes)\nuploads/todo.md (49 bytes)\noutputs/\ntemp/";

/// Returns the simulated result of a tool call.
fn simulated_result(call: &ToolCall) -> String {
    match call.name.as_str() {
        "now" => "Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)".to_owned(),
        "list_workspace_files" => LISTING.to_owned(),
        "read_file" if call.arguments.contains("notes.txt") => NOTES.to_owned(),
        "read_file" if call.arguments.contains("todo.md") => ERRANDS.to_owned(),
        "find_files" => "uploads/notes.txt (402 bytes)".to_owned(),
        "grep" => "uploads/notes.txt:2: The club met at Anna's house.".to_owned(),
        _ => "E_PATH: there is no such file".to_owned(),
    }
}

fn tools() -> Arc<[ToolSpec]> {
    ["find_files", "grep", "list_workspace_files", "now", "read_file"]
        .into_iter()
        .map(|name| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: serde_json::json!({"type": "object"}),
            effect: Effect::Read,
        })
        .collect()
}

/// Runs one model call. Returns the text and the tool call, if any.
async fn call(model: &EmbeddedModel, request: ModelRequest) -> Result<(String, Option<ToolCall>), Box<dyn Error>> {
    let started = Instant::now();
    let (mut text, mut tool, mut first) = (String::new(), None, None);
    let mut chunks = model.stream(request);
    while let Some(chunk) = chunks.next().await {
        match chunk? {
            ModelChunk::Text(piece) => {
                first.get_or_insert_with(|| started.elapsed());
                print!("{piece}");
                std::io::stdout().flush()?;
                text.push_str(&piece);
            }
            ModelChunk::ToolCall { name, arguments, .. } => {
                print!("-> {name} {arguments}");
                tool = Some(ToolCall { call_id: CallId::generate(), name, arguments });
            }
            ModelChunk::Usage(usage) => {
                print!(
                    "   [{} prompt, {} cached, {} made]",
                    usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
                );
            }
            ModelChunk::End(finish) => {
                println!(" [{finish:?}, first word {:?}, all {:?}]", first.unwrap_or_default(), started.elapsed());
            }
            _ => {}
        }
    }
    Ok((text, tool))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: ask MODEL.gguf [PROMPT…]")?;
    let model = EmbeddedModel::new(EmbeddedConfig::new(path), || std::future::ready(Vec::new()).boxed());
    let mut prompts: Vec<String> = arguments.collect();
    if prompts.is_empty() {
        prompts = std::io::stdin().lock().lines().collect::<Result<_, _>>()?;
    }
    let session_id = SessionId::generate();
    let known_paths = vec!["uploads/notes.txt".to_owned(), "uploads/todo.md".to_owned()];
    let mut messages = Vec::new();
    for prompt in prompts {
        println!("\n> {prompt}");
        messages.push(Message::User { text: prompt });
        loop {
            let request = ModelRequest {
                tools: tools(),
                may_call: true,
                known_paths: known_paths.clone(),
                ..ModelRequest::new(session_id, messages.clone())
            };
            let (text, tool) = call(&model, request).await?;
            let tool_calls = tool.iter().cloned().collect();
            messages.push(Message::answer(text, tool_calls));
            let Some(tool) = tool else { break };
            messages.push(Message::Tool {
                call_id: tool.call_id.clone(),
                name: tool.name.clone(),
                text: simulated_result(&tool),
                pictures: Vec::new(),
            });
        }
    }
    println!("\n{:?}", model.status());
    Ok(())
}
