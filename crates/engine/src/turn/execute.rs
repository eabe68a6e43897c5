//! The innermost end of the chain: the tool itself.

use std::time::Duration;

use agentd_core::{
    ports::ToolContext,
    tool::{ToolErrorCode, ToolOutput},
};
use futures_util::{FutureExt as _, future::BoxFuture};

use super::{TurnExit, dispatch::begin, sampler::SamplingBudget};
use crate::turn::hooks::Invocation;

/// Time for a tool to end its processes after a stop before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Runs the tool of a call, for the end of a chain.
pub(crate) fn runner<'a>(invocation: &'a Invocation<'a>) -> BoxFuture<'a, Result<ToolOutput, TurnExit>> {
    execute(invocation).boxed()
}

/// Runs the tool. What it took of the turn's model is in the call's record.
async fn execute(invocation: &Invocation<'_>) -> Result<ToolOutput, TurnExit> {
    begin(invocation).await?;
    let Invocation { context, call, started, record, .. } = invocation;
    let progress = started.get().map(|id| context.recorder.progress(*id)).unwrap_or_default();
    let tab = SamplingBudget::open(invocation);
    let (confinement, closed) = (record.confinement(), record.closed());
    let tool_context =
        ToolContext { progress, sampler: tab.sampler(), confinement, closed, ..context.tool_context(call) };
    let given_up = async {
        context.control.calls.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    let mut output = tokio::select! {
        biased;
        output = context.tools.toolbox.call(&tool_context, call) => output,
        () = given_up => ToolOutput::error(ToolErrorCode::Cancelled, "the turn ended while this ran"),
    };
    tab.settle().await;
    if output.error == Some(ToolErrorCode::Cancelled) && context.is_out_of_time() {
        output.error = Some(ToolErrorCode::Timeout);
        output.text.push_str("\n[the time limit of the turn was reached]");
    }
    Ok(record.noted(output))
}
