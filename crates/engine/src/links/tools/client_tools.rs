//! Tools of the client: their calls go down the line to it, and its answers come back as results. What it says is bounded and
//! made fit for models; a client that is gone ends its calls, with words that the model understands.

use std::time::Duration;

use agentd_core::{
    client_tool::{CLIENT_TOOL_PREFIX, ClientToolAnswer, ClientToolCall, MAX_CLIENT_ANSWER},
    tool::{Effect, ToolErrorCode, ToolOutput},
    untrusted,
};
use futures_util::FutureExt as _;
use tokio::time::timeout;

use crate::{
    attachments,
    turn::{
        TurnExit,
        dispatch::begin,
        hooks::{Hook, Invocation, Link, Next, Preview, done},
    },
};

/// Time limit for one answer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Words for a model on a tool whose client is no longer known.
pub(crate) const GONE: &str = "it was a tool of the client that started the turn, and that client is gone. Go on without \
    it, and say so where it matters";

pub(crate) struct OfClient;

impl Link for OfClient {
    fn prepare_call<'a>(&'a self, call: &'a Invocation<'a>) -> Hook<'a, Option<ToolOutput>> {
        let tools = call.context.tools.of_client.as_ref();
        let problem = tools.and_then(|tools| tools.problem(&call.call.name, &call.call.arguments));
        done(problem.map(|problem| ToolOutput::error(ToolErrorCode::InvalidArgs, problem)))
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        own_name(call).map(|_| done(None))
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if let Some(name) = own_name(call) { ask(call, name).boxed() } else { next.run(call) }
    }
}

/// Returns whether a model took a name for that of a client's tool.
pub(crate) fn is_meant(name: &str) -> bool {
    name.starts_with(CLIENT_TOOL_PREFIX)
}

fn own_name<'a>(call: &Invocation<'a>) -> Option<&'a str> {
    call.context.tools.of_client.as_ref()?.own_name(&call.call.name)
}

/// Has the client answer. The start is in the journal before the client hears of the call, so that a crash is told honestly.
async fn ask(invocation: &Invocation<'_>, name: &str) -> Result<ToolOutput, TurnExit> {
    let Invocation { context, call, record, .. } = invocation;
    let Some(tools) = &context.tools.of_client else { return Ok(ToolOutput::error(ToolErrorCode::UnknownTool, GONE)) };
    // A person may have changed the arguments since they were looked at.
    if let Some(problem) = tools.problem(&call.name, &call.arguments) {
        return Ok(record.noted(ToolOutput::error(ToolErrorCode::InvalidArgs, problem)));
    }
    begin(invocation).await?;
    let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments.clone() };
    let asked = ClientToolCall { call_id: call.call_id.to_string(), name: name.to_owned(), arguments };
    // It may have taken effect although nobody said so.
    let only_looks = invocation.tool().is_some_and(|tool| tool.effect == Effect::Read);
    let doubt = if only_looks { "" } else { "; whether it took effect is not known" };
    let failed = |code, text: String| ToolOutput::error(code, text + doubt);
    let output = tokio::select! {
        biased;
        answer = timeout(PATIENCE, tools.line.ask(asked)) => match answer {
            Ok(Some(answer)) => taken(invocation, answer).await,
            Ok(None) => failed(ToolErrorCode::Tool, format!("{name}: no answer came; {GONE}")),
            Err(_) => {
                let minutes = PATIENCE.as_secs() / 60;
                failed(ToolErrorCode::Timeout, format!("the client gave no answer within {minutes} minutes"))
            }
        },
        () = context.control.cancel.cancelled() => {
            failed(ToolErrorCode::Cancelled, "the turn was cancelled while the client worked on it".to_owned())
        }
        () = context.control.stopwatch.reaches(context.limits.time) => {
            failed(ToolErrorCode::Timeout, "the time of the turn was over before the client answered".to_owned())
        }
    };
    Ok(record.noted(output))
}

/// The answer as a result. Nobody has looked at what it says.
async fn taken(call: &Invocation<'_>, answer: ClientToolAnswer) -> ToolOutput {
    let ClientToolAnswer { text, failed, picture } = answer;
    let is_long = text.len() > MAX_CLIENT_ANSWER;
    let mut text = untrusted::plain(&text[..text.floor_char_boundary(MAX_CLIENT_ANSWER)]);
    if is_long {
        text.push_str(&format!("\n[the answer was longer than {} MiB: the rest is lost]", MAX_CLIENT_ANSWER >> 20));
    }
    if failed {
        let text = if text.trim().is_empty() { "the client says that it failed, and not why".to_owned() } else { text };
        return ToolOutput::error(ToolErrorCode::Tool, text);
    }
    if let Some(picture) = picture {
        if !text.is_empty() {
            text.push('\n');
        }
        let (workspaces, session) = (&*call.context.ports.workspaces, call.context.files.session);
        match attachments::keep_picture(workspaces, session, picture).await {
            Ok(picture) => {
                text.push_str(&format!("[its picture comes behind this result; it is in /{}]", picture.path));
                call.record.entries().effects.pictures.push(picture);
            }
            Err(error) => text.push_str(&format!("[its picture is lost, because it could not be stored: {error}]")),
        }
    }
    if text.is_empty() {
        text = "[done; the client said nothing]".to_owned();
    }
    ToolOutput::ok(text)
}
