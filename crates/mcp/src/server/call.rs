//! A single request to a server, with its time limits, cancellation and result. It is never retried, except that a
//! server of the newer era may ask questions first; the request is then repeated with the answers.

use std::{pin::Pin, sync::Arc, time::Duration};

use agentd_core::{
    ports::ToolContext,
    tool::{ToolErrorCode, ToolOutput},
    untrusted::{self, UntrustedSource},
};
use rmcp::{
    model::{ClientRequest, ErrorData, InputRequiredResult, InputResponses, ServerResult},
    service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError},
};

use super::{connect::Connection, http};
use crate::{
    calls::{Call, ExpiredLimit, MAX_QUESTIONS},
    login::Refusal,
    reason::{Reason, span},
};

/// Time limits of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    /// Maximum time without a message from the server.
    pub(crate) silence: Duration,
    /// Maximum total time of a call.
    pub(crate) all: Duration,
}

/// Time limit for sending a cancellation to a server that does not read.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of times that a request is repeated because of questions.
const MAX_ROUNDS: u32 = 10;
/// Delay before a request is repeated if the server only reported that it has not finished.
const PAUSE: Duration = Duration::from_millis(250);

/// Reason why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The turn was cancelled.
    Cancelled,
    /// A limit was exceeded.
    Expired(ExpiredLimit),
    /// The server is gone, and the outcome is unknown.
    Exited,
    /// The server returned an error.
    Refused(ErrorData),
    /// The server requires authorisation and has done nothing.
    NotAnswered(Refusal),
    /// The server requested something that is not granted to it, for this reason.
    NotGranted(String),
    /// The server returned an invalid result.
    Invalid(String),
}

/// Sends a request and waits for its result.
pub(crate) async fn request(
    connection: &Connection,
    request: ClientRequest,
    context: &ToolContext,
    time: CallTime,
) -> Result<ServerResult, NoAnswer> {
    let guard = connection.handler.calls.begin(context);
    let call = &guard.call;
    let expired = call.expired(time.silence, time.all);
    tokio::pin!(expired);
    let mut request = request;
    for _ in 0..=MAX_ROUNDS {
        let input = match send(connection, request.clone(), call, context, expired.as_mut()).await? {
            ServerResult::InputRequiredResult(input) => input,
            answer => return Ok(answer),
        };
        let (responses, state_slot) = match &mut request {
            ClientRequest::CallToolRequest(request) => {
                (&mut request.params.input_responses, &mut request.params.request_state)
            }
            ClientRequest::ReadResourceRequest(request) => {
                (&mut request.params.input_responses, &mut request.params.request_state)
            }
            ClientRequest::GetPromptRequest(request) => {
                (&mut request.params.input_responses, &mut request.params.request_state)
            }
            _ => return Err(NoAnswer::Invalid("a list that depends on questions".to_owned())),
        };
        let state = input.request_state.clone();
        let answers = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(NoAnswer::Cancelled),
            limit = &mut expired => return Err(NoAnswer::Expired(limit)),
            answers = answer(connection, call, input) => answers?,
        };
        (*responses, *state_slot) = (answers, state);
    }
    Err(NoAnswer::Invalid(format!("it asked further questions after {MAX_ROUNDS} rounds of answers")))
}

/// Answers the questions that a server asks before it does the work. Returns `None` if the server only wants the
/// request to be repeated.
async fn answer(
    connection: &Connection,
    call: &Arc<Call>,
    input: InputRequiredResult,
) -> Result<Option<InputResponses>, NoAnswer> {
    let input = input.input_requests.unwrap_or_default();
    if input.is_empty() {
        tokio::time::sleep(PAUSE).await;
        return Ok(None);
    }
    if input.len() > MAX_QUESTIONS as usize {
        return Err(NoAnswer::Invalid(format!("{} questions at once; the limit is {MAX_QUESTIONS}", input.len())));
    }
    let mut answers = InputResponses::new();
    for (name, input) in input {
        let answer = connection.handler.answer(call, input).await;
        answers.insert(name, answer.map_err(|reason| NoAnswer::NotGranted(reason.message.into_owned()))?);
    }
    Ok(Some(answers))
}

/// Sends a request once, and waits for its result.
async fn send(
    connection: &Connection,
    request: ClientRequest,
    call: &Call,
    context: &ToolContext,
    mut expired: Pin<&mut impl Future<Output = ExpiredLimit>>,
) -> Result<ServerResult, NoAnswer> {
    let sending = connection.peer.send_request_with_option(request, PeerRequestOptions::no_options());
    let mut handle = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(NoAnswer::Cancelled),
        limit = &mut expired => return Err(NoAnswer::Expired(limit)),
        handle = sending => handle.map_err(|error| no_answer(connection, error))?,
    };
    call.set_token(handle.progress_token.clone());
    tokio::select! {
        biased;
        answer = &mut handle.rx => match answer {
            Ok(answer) => answer.map_err(|error| no_answer(connection, error)),
            Err(_) => Err(NoAnswer::Exited),
        },
        () = context.cancel.cancelled() => {
            cancel_request(handle, "the user cancelled the turn").await;
            Err(NoAnswer::Cancelled)
        }
        limit = &mut expired => {
            cancel_request(handle, "a limit was exceeded").await;
            Err(NoAnswer::Expired(limit))
        }
    }
}

/// Cancels a request at the server.
async fn cancel_request(handle: RequestHandle<RoleClient>, reason: &str) {
    let _ = tokio::time::timeout(CANCEL_TIMEOUT, handle.cancel(Some(reason.to_owned()))).await;
}

fn no_answer(connection: &Connection, error: ServiceError) -> NoAnswer {
    if let Some(refusal) = Refusal::of_request(&error) {
        return NoAnswer::NotAnswered(refusal);
    }
    match error {
        ServiceError::TransportSend(error) if http::is_session_lost(&error) => {
            connection.closed.cancel();
            NoAnswer::Exited
        }
        ServiceError::McpError(refusal) => NoAnswer::Refused(refusal),
        ServiceError::TransportClosed | ServiceError::TransportSend(_) | ServiceError::Cancelled { .. } => {
            NoAnswer::Exited
        }
        other => NoAnswer::Invalid(other.to_string()),
    }
}

impl NoAnswer {
    /// Converts the reason for a model. `refused` returns the reason for an authorisation error.
    pub(crate) fn into_output(
        self,
        server: &str,
        from: &str,
        time: CallTime,
        last_line: Option<String>,
        refused: impl FnOnce(&Refusal) -> Reason,
    ) -> ToolOutput {
        let late = |problem_text: String| {
            let part = "the call was cancelled; it may have done part of the work";
            (ToolErrorCode::Timeout, format!("{problem_text} and {part}. Request less, or try another way"))
        };
        let (code, problem) = match self {
            Self::Cancelled => return ToolOutput::error(ToolErrorCode::Cancelled, "the turn ended while the call ran"),
            Self::Refused(error) => return crate::answer::of_refusal(from, &error),
            Self::Expired(ExpiredLimit::Silence) => late(format!("sent nothing for {}", span(time.silence))),
            Self::Expired(ExpiredLimit::Total) => late(format!("took longer than {}", span(time.all))),
            Self::Expired(ExpiredLimit::Questions) => {
                let problem = format!(
                    "asked the user more than {MAX_QUESTIONS} times, and the call was cancelled; it may have done \
                     part of the work"
                );
                (ToolErrorCode::Tool, problem)
            }
            Self::Exited => {
                let framed = last_line.map(|line| untrusted::framed(UntrustedSource::Mcp, server, &line));
                let last_output = framed.map(|line| format!(". Last output:\n{line}")).unwrap_or_default();
                let problem = format!(
                    "exited during this call. It may have done part of the work: check before retrying, which \
                     restarts it{last_output}"
                );
                (ToolErrorCode::UnknownOutcome, problem)
            }
            Self::NotAnswered(refusal) => {
                let reason = refused(&refusal).for_model(server);
                (ToolErrorCode::Tool, format!("refused the call, which did not run: {reason}"))
            }
            Self::NotGranted(reason) => {
                (ToolErrorCode::Tool, format!("did not finish the call: its request was refused: {reason}"))
            }
            Self::Invalid(problem) => (ToolErrorCode::Tool, format!("returned an invalid result: {problem}")),
        };
        ToolOutput::error(code, format!("the MCP server {server} {problem}"))
    }
}
