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
    calls::{Call, ExpiredLimit, MOST_QUESTIONS},
    login::Refusal,
    reason::{Reason, span},
};

/// Time limits of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    /// Maximum time without a message of the server.
    pub(crate) silence: Duration,
    /// Maximum total time of a call.
    pub(crate) all: Duration,
}

/// Time limit for sending a cancellation to a server that does not read.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of repetitions of a request because of questions.
const MOST_ROUNDS: u32 = 10;
/// Delay before a request is repeated if the server only reported that it is not done.
const PAUSE: Duration = Duration::from_millis(250);

/// Reason why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The turn was cancelled.
    Cancelled,
    /// A limit was exceeded.
    Expired(ExpiredLimit),
    /// The server is gone, and the outcome is unknown.
    Gone,
    /// The server returned an error.
    Refused(ErrorData),
    /// The server requires authorisation and has done nothing.
    NotAnswered(Refusal),
    /// The server asked for something that it is not granted, for this reason.
    Ungranted(String),
    /// The server returned an invalid result.
    Odd(String),
}

/// Sends a request and waits for its result.
pub(crate) async fn request(
    connection: &Connection,
    request: ClientRequest,
    context: &ToolContext,
    time: CallTime,
) -> Result<ServerResult, NoAnswer> {
    let under_way = connection.handler.calls.begin(context);
    let call = &under_way.call;
    let expired = call.expired(time.silence, time.all);
    tokio::pin!(expired);
    let mut request = request;
    for _ in 0..=MOST_ROUNDS {
        let asked = match send(connection, request.clone(), call, context, expired.as_mut()).await? {
            ServerResult::InputRequiredResult(asked) => asked,
            answer => return Ok(answer),
        };
        let (responses, place) = match &mut request {
            ClientRequest::CallToolRequest(request) => {
                (&mut request.params.input_responses, &mut request.params.request_state)
            }
            ClientRequest::ReadResourceRequest(request) => {
                (&mut request.params.input_responses, &mut request.params.request_state)
            }
            ClientRequest::GetPromptRequest(request) => {
                (&mut request.params.input_responses, &mut request.params.request_state)
            }
            _ => return Err(NoAnswer::Odd("a list that depends on questions".to_owned())),
        };
        let state = asked.request_state.clone();
        let answers = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(NoAnswer::Cancelled),
            limit = &mut expired => return Err(NoAnswer::Expired(limit)),
            answers = answer(connection, call, asked) => answers?,
        };
        (*responses, *place) = (answers, state);
    }
    Err(NoAnswer::Odd(format!("it asked more after {MOST_ROUNDS} rounds of answers")))
}

/// Answers the questions that a server asks before it does the work. `None` if it only wants the request to be
/// repeated.
async fn answer(
    connection: &Connection,
    call: &Arc<Call>,
    asked: InputRequiredResult,
) -> Result<Option<InputResponses>, NoAnswer> {
    let asked = asked.input_requests.unwrap_or_default();
    if asked.is_empty() {
        tokio::time::sleep(PAUSE).await;
        return Ok(None);
    }
    if asked.len() > MOST_QUESTIONS as usize {
        return Err(NoAnswer::Odd(format!("{} questions at once; the limit is {MOST_QUESTIONS}", asked.len())));
    }
    let mut answers = InputResponses::new();
    for (name, asked) in asked {
        let answer = connection.handler.answer(call, asked).await;
        answers.insert(name, answer.map_err(|why| NoAnswer::Ungranted(why.message.into_owned()))?);
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
    call.known_by(handle.progress_token.clone());
    tokio::select! {
        biased;
        answer = &mut handle.rx => match answer {
            Ok(answer) => answer.map_err(|error| no_answer(connection, error)),
            Err(_) => Err(NoAnswer::Gone),
        },
        () = context.cancel.cancelled() => {
            cancel_request(handle, "the person cancelled the turn").await;
            Err(NoAnswer::Cancelled)
        }
        limit = &mut expired => {
            cancel_request(handle, "it met a limit").await;
            Err(NoAnswer::Expired(limit))
        }
    }
}

/// Cancels a request at the server.
async fn cancel_request(handle: RequestHandle<RoleClient>, why: &str) {
    let _ = tokio::time::timeout(CANCEL_TIMEOUT, handle.cancel(Some(why.to_owned()))).await;
}

fn no_answer(connection: &Connection, error: ServiceError) -> NoAnswer {
    if let Some(refusal) = Refusal::of_request(&error) {
        return NoAnswer::NotAnswered(refusal);
    }
    match error {
        ServiceError::TransportSend(error) if http::has_forgotten_us(&error) => {
            connection.lost.cancel();
            NoAnswer::Gone
        }
        ServiceError::McpError(refusal) => NoAnswer::Refused(refusal),
        ServiceError::TransportClosed | ServiceError::TransportSend(_) | ServiceError::Cancelled { .. } => {
            NoAnswer::Gone
        }
        other => NoAnswer::Odd(other.to_string()),
    }
}

impl NoAnswer {
    /// Converts the reason for a model. `refused` gives the reason of an authorisation error.
    pub(crate) fn into_output(
        self,
        server: &str,
        from: &str,
        time: CallTime,
        last_words: Option<String>,
        refused: impl FnOnce(&Refusal) -> Reason,
    ) -> ToolOutput {
        let late = |how_long: String| {
            let part = "the call was cancelled; it may have done part of the work";
            (ToolErrorCode::Timeout, format!("{how_long} and {part}. Request less, or try another way"))
        };
        let (code, what) = match self {
            Self::Cancelled => return ToolOutput::error(ToolErrorCode::Cancelled, "the turn ended while this ran"),
            Self::Refused(error) => return crate::answer::of_refusal(from, &error),
            Self::Expired(ExpiredLimit::Silence) => late(format!("sent nothing for {}", span(time.silence))),
            Self::Expired(ExpiredLimit::InAll) => late(format!("took longer than {}", span(time.all))),
            Self::Expired(ExpiredLimit::Questions) => {
                let what = format!(
                    "asked the user more than {MOST_QUESTIONS} times, and the call was cancelled; it may have done \
                     part of the work"
                );
                (ToolErrorCode::Tool, what)
            }
            Self::Gone => {
                let framed = last_words.map(|words| untrusted::framed(UntrustedSource::Mcp, server, &words));
                let said = framed.map(|words| format!(". Last output:\n{words}")).unwrap_or_default();
                let what = format!(
                    "exited during this call. It may have done part of the work: check before retrying, which \
                     restarts it{said}"
                );
                (ToolErrorCode::UnknownOutcome, what)
            }
            Self::NotAnswered(refusal) => {
                let why = refused(&refusal).for_model(server);
                (ToolErrorCode::Tool, format!("refused the call, which did not run: {why}"))
            }
            Self::Ungranted(why) => {
                (ToolErrorCode::Tool, format!("did not finish the call: its request was refused: {why}"))
            }
            Self::Odd(what) => (ToolErrorCode::Tool, format!("returned an invalid result: {what}")),
        };
        ToolOutput::error(code, format!("the MCP server {server} {what}"))
    }
}
