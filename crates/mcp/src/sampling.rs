//! Model requests from servers (`sampling/createMessage`). The user must approve each request. It runs on the turn's
//! own model and counts against the turn's budget.
//!
//! Only text is accepted. Model hints, temperatures and similar parameters are ignored, because the user has chosen the
//! model.

#![expect(deprecated, reason = "current servers still use sampling")]

use std::sync::Arc;

use agentd_core::{
    error::ErrorKind,
    model::Message,
    ports::{SampleAnswer, SampleRequest},
    untrusted,
};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorCode, ErrorData, Role, SamplingMessage,
    SamplingMessageContentBlock as Block,
};

use crate::{
    calls::{Call, NoQuestion},
    elicitation::{self, Reply},
    log::Log,
};

/// Maximum size of a request, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of tokens in an answer, regardless of the server's request.
const MAX_TOKENS: u64 = 2000;
/// Maximum length of a request in characters, and in displayed lines: the user must not approve text that was not
/// shown, or that scrolls the question out of sight.
const MAX_LENGTH: usize = 8000;
const MAX_LINES: usize = 200;
/// Width at which displayed lines are wrapped, in characters. If the terminal wrapped a line, the rest would appear
/// without the mark.
const WIDTH: usize = 72;
/// Instructions for a request that has none.
const NO_INSTRUCTIONS: &str = "Answer the request.";
/// Protocol error code for a rejection by the user.
const REJECTED: ErrorCode = ErrorCode(-1);

/// Rejection of a request, for the server and its log.
type Refusal = (ErrorCode, String);

/// Asks the model of the call's turn, if the user approves.
pub(crate) async fn ask(
    server: &str,
    call: Option<(Arc<Call>, bool)>,
    log: &Log,
    request: CreateMessageRequestParams,
) -> Result<CreateMessageResult, ErrorData> {
    let outcome = match call {
        None => Err(invalid("sampling is allowed only during a call, where the user sees it")),
        Some((call, is_ambiguous)) => {
            let answer = call.question(ask_in(server, &call, is_ambiguous, log, request)).await;
            answer.unwrap_or_else(|no_answer| {
                Err(match no_answer {
                    NoQuestion::TooMany => invalid("too many pending requests of this call; send one at a time"),
                    NoQuestion::Over => invalid("the call is over"),
                })
            })
        }
    };
    match outcome {
        Ok(SampleAnswer { text, model, cut }) => {
            log.note(&format!("it used the model {model}, with the user's approval"));
            let reason = if cut {
                CreateMessageResult::STOP_REASON_END_MAX_TOKEN
            } else {
                CreateMessageResult::STOP_REASON_END_TURN
            };
            Ok(CreateMessageResult::new(SamplingMessage::assistant_text(text), model).with_stop_reason(reason))
        }
        Err((code, reason)) => {
            log.note(&format!("its sampling request failed: {reason}"));
            Err(ErrorData::new(code, reason, None))
        }
    }
}

/// Asks on behalf of this call, after its other questions.
async fn ask_in(
    server: &str,
    call: &Call,
    is_ambiguous: bool,
    log: &Log,
    request: CreateMessageRequestParams,
) -> Result<SampleAnswer, Refusal> {
    let request = read(request)?;
    let shown = shown(&request)?;
    let model = call.sampler.model().ok_or_else(|| invalid("no model is available to this call"))?;
    let _one_at_a_time = call.asking.lock().await;
    let message = format!("may the model {model} answer it, in up to {} tokens?", request.max_tokens);
    match elicitation::ask_user(server, call, log, &message, question_context(&shown, &request, is_ambiguous)).await {
        // Only `yes` means consent.
        Reply::Text(text) if text.trim().eq_ignore_ascii_case("yes") => {}
        Reply::Text(_) | Reply::Rejected => {
            return Err((REJECTED, "the user did not allow it: User rejected sampling request".to_owned()));
        }
        Reply::Unavailable => return Err((REJECTED, "no user is available to approve it".to_owned())),
    }
    // The server waits for the answer, so the call's time limits are suspended.
    let _waiting = call.suspend_limits();
    match call.sampler.ask(request).await {
        Some(Ok(sampled)) => Ok(sampled),
        Some(Err(error)) => {
            log.note(&format!("the model failed: {error}"));
            let reason = match error.kind() {
                // A limit of the turn was reached. Other model problems are not disclosed to the server.
                ErrorKind::Conflict => error.to_string(),
                ErrorKind::ContextOverflow => "the request is too long for the model".to_owned(),
                _ => "the model gave no answer".to_owned(),
            };
            Err((ErrorCode::INTERNAL_ERROR, reason))
        }
        None => Err(invalid("no model is available to this call")),
    }
}

fn invalid(reason: &str) -> Refusal {
    (ErrorCode::INVALID_REQUEST, reason.to_owned())
}

/// Parses the request. Only text of limited size is accepted.
fn read(request: CreateMessageRequestParams) -> Result<SampleRequest, Refusal> {
    let size = serde_json::to_vec(&request).map_or(usize::MAX, |text| text.len());
    if size > MAX_BYTES {
        return Err(invalid(&format!("the request is too large: {size} bytes; the limit is {MAX_BYTES}")));
    }
    if request.tools.is_some() || request.tool_choice.is_some() {
        return Err(invalid("tools are not supported in sampling; omit them"));
    }
    let instructions = visible_text(request.system_prompt.as_deref().unwrap_or_default());
    let instructions = instructions.unwrap_or_else(|| NO_INSTRUCTIONS.to_owned());
    let mut messages = vec![Message::System { text: instructions }];
    for SamplingMessage { role, content, .. } in request.messages {
        let texts: Option<Vec<String>> = content.into_vec().into_iter().map(text).collect();
        let texts = texts.ok_or_else(|| invalid("sampling supports only text: no pictures, sounds or results"))?;
        messages.extend(visible_text(&texts.join("\n")).map(|text| match role {
            Role::User => Message::User { text },
            Role::Assistant => Message::answer(text, Vec::new()),
        }));
    }
    if messages.len() == 1 {
        return Err(invalid("the request has no text"));
    }
    Ok(SampleRequest { messages, max_tokens: u64::from(request.max_tokens).clamp(1, MAX_TOKENS) })
}

fn text(block: Block) -> Option<String> {
    match block {
        Block::Text(content) => Some(content.text),
        _ => None,
    }
}

/// Removes invisible characters and terminal sequences, so that the model reads what the user saw. Returns `None` if
/// nothing is left.
fn visible_text(text: &str) -> Option<String> {
    let visible_text =
        untrusted::plain(text).chars().filter(|letter| !untrusted::is_unseen(*letter)).collect::<String>();
    Some(visible_text).filter(|text| !text.trim().is_empty())
}

/// Formats the texts of a request for the user. Each line from the server is marked, so that it is not mistaken for
/// ours.
fn shown(request: &SampleRequest) -> Result<String, Refusal> {
    let (mut shown, mut length, mut lines) = (String::new(), 0, 0);
    for message in &request.messages {
        let (role, text) = role_and_text(message);
        shown.push_str(&format!("\n{role}:"));
        for line in untrusted::sanitize(text).trim_end().split('\n') {
            let letters: Vec<char> = line.chars().collect();
            length += letters.len();
            // An empty line counts as a line.
            for part in letters.chunks(WIDTH).chain(letters.is_empty().then_some(&[][..])) {
                lines += 1;
                shown.push_str("\n> ");
                shown.extend(part);
            }
        }
    }
    if length > MAX_LENGTH || lines > MAX_LINES {
        return Err(invalid(&format!(
            "the request is too long to be shown to the user: it may have {MAX_LENGTH} characters and {MAX_LINES} lines"
        )));
    }
    Ok(shown)
}

/// Returns the context of the question for the user. The meaning of the answer comes last, where it is visible.
fn question_context(shown: &str, request: &SampleRequest, is_ambiguous: bool) -> String {
    let others = if is_ambiguous { elicitation::AMBIGUOUS_CALL_NOTE } else { "" };
    let characters: usize = request.messages.iter().map(|message| role_and_text(message).1.chars().count()).sum();
    format!(
        "The model would read:{shown}\nIt has {characters} characters; the answer may have {} tokens.{others}\nAnswer \
         yes to allow it this once; anything else refuses it. The model's answer goes to the server, and its tokens \
         count for this turn.",
        request.max_tokens
    )
}

/// Returns the role of a message, for display, and its text.
fn role_and_text(message: &Message) -> (&'static str, &String) {
    match message {
        Message::System { text } => ("instructions", text),
        Message::Assistant { text, .. } => ("its earlier text", text),
        Message::User { text } | Message::Pictures { text, .. } | Message::Tool { text, .. } => ("request", text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use agentd_core::{
        error::ModelError,
        interrupt::{Answer, Ask},
        ports::{Person, Sampler, ToolContext},
    };
    use futures_util::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::calls::Calls;

    const YES: Option<&str> = Some("yes");

    /// Call whose user gives this answer, and whose model gives this response.
    struct TestCall {
        calls: Calls,
        log: Log,
        context: ToolContext,
        questions: Arc<Mutex<Vec<(String, String)>>>,
        requests: Arc<Mutex<Vec<SampleRequest>>>,
    }

    impl TestCall {
        fn new(
            answer: Option<&'static str>,
            answers: impl Fn() -> Result<SampleAnswer, ModelError> + Send + Sync + 'static,
        ) -> Self {
            let (questions, requests): (Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>) = Default::default();
            let (question_log, request_log) = (Arc::clone(&questions), Arc::clone(&requests));
            let person = Person::new(move |ask| {
                if let Ask::Question { question, context, default, required, .. } = ask {
                    assert!(default.is_none() && required, "the question has a default or is optional");
                    question_log.lock().unwrap().push((question, context.unwrap()));
                }
                std::future::ready(answer.map(|text| Answer::Text { text: text.to_owned() })).boxed()
            });
            let sampler = Sampler::new("m".to_owned(), move |request| {
                request_log.lock().unwrap().push(request);
                std::future::ready(answers()).boxed()
            });
            let context = ToolContext { person, sampler, ..crate::calls::tests::context() };
            Self { calls: Calls::default(), log: Log::default(), context, questions, requests }
        }

        async fn ask(&self, request: Value) -> Result<CreateMessageResult, ErrorData> {
            let _call = self.calls.begin(&self.context);
            self.ask_again(request).await
        }

        async fn ask_again(&self, request: Value) -> Result<CreateMessageResult, ErrorData> {
            let mut whole =
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5});
            whole.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
            ask("fake", self.calls.latest(), &self.log, serde_json::from_value(whole).unwrap()).await
        }
    }

    fn fine() -> Result<SampleAnswer, ModelError> {
        Ok(SampleAnswer { text: "hello".to_owned(), model: "m".to_owned(), cut: false })
    }

    #[tokio::test]
    async fn only_an_explicit_yes_is_consent() {
        for (answer, part) in [
            (None, "no user"),
            (Some(""), "did not allow it"),
            (Some("yes, but"), "did not allow it"),
            (Some("y"), "did not allow it"),
            (Some("no"), "did not allow it"),
        ] {
            let call = TestCall::new(answer, fine);
            let refusal = call.ask(json!({})).await.unwrap_err();
            assert!(refusal.message.contains(part) && refusal.code == REJECTED, "{answer:?}: {refusal:?}");
            assert!(call.requests.lock().unwrap().is_empty(), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn unsupported_sampling_requests_are_rejected_unasked() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
        let message = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
        let text_message = |text: String| message(json!({"type": "text", "text": text}));
        for (request, part) in [
            (message(image.clone()), "only text"),
            (message(json!([{"type": "text", "text": "a"}, image])), "only text"),
            (message(result), "only text"),
            (text_message("x".repeat(MAX_BYTES)), "too large"),
            (json!({"systemPrompt": "x".repeat(MAX_BYTES)}), "too large"),
            (text_message("\u{1b} \n".to_owned()), "no text"),
            (json!({"messages": []}), "no text"),
            (json!({"tools": []}), "not supported"),
            (json!({"systemPrompt": "x".repeat(MAX_LENGTH)}), "too long to be shown"),
            (text_message("é".repeat(MAX_LENGTH)), "too long to be shown"),
            (text_message("x\n".repeat(MAX_LINES)), "too long to be shown"),
            (text_message(format!("{}x", "\n".repeat(MAX_LINES))), "too long to be shown"),
        ] {
            let call = TestCall::new(YES, fine);
            let refusal = call.ask(request).await.unwrap_err();
            assert!(refusal.message.contains(part), "{part}: {refusal:?}");
            assert!(call.questions.lock().unwrap().is_empty() && call.requests.lock().unwrap().is_empty(), "{part}");
        }
    }

    #[tokio::test]
    async fn model_receives_exactly_the_text_shown_to_the_user() {
        let call = TestCall::new(YES, fine);
        let text = format!("a\u{200b}b\u{e0041}c\u{2028}d\n{}", "é".repeat(WIDTH + 1));
        let block = |text: &str| json!({"type": "text", "text": text});
        let messages = json!([
            {"role": "assistant", "content": block("before")},
            {"role": "user", "content": [block(&text), block("Answer yes to allow it")]},
            {"role": "user", "content": block(" \n")},
        ]);
        call.ask(json!({"messages": messages})).await.unwrap();
        let questions = call.questions.lock().unwrap();
        let expected = format!("\n> abcd\n> {}\n> é\n> Answer yes to allow it\nIt has", "é".repeat(WIDTH));
        assert!(questions[0].1.contains(&expected), "{}", questions[0].1);
        assert!(questions[0].1.ends_with("its tokens count for this turn."), "{}", questions[0].1);
        let read = format!("abcd\n{}\nAnswer yes to allow it", "é".repeat(WIDTH + 1));
        let read = [Message::answer("before", Vec::new()), Message::User { text: read }];
        assert_eq!(call.requests.lock().unwrap()[0].messages[1..], read);
    }

    #[tokio::test]
    async fn sampling_is_limited_to_calls_and_a_maximum() {
        let call = TestCall::new(YES, fine);
        let refusal = call.ask_again(json!({})).await.unwrap_err();
        assert!(refusal.message.contains("during a call"), "{refusal:?}");
        assert!(call.log.last(1)[0].contains("during a call"), "{:?}", call.log.last(1));
        let _call = call.calls.begin(&call.context);
        let mut answered = 0;
        while call.ask_again(json!({})).await.is_ok() {
            answered += 1;
        }
        assert_eq!(answered, crate::calls::MAX_QUESTIONS);
        let questions = call.questions.lock().unwrap();
        assert!(questions[1].0.contains("(question 2 of this call)"), "a repeated question is not numbered");
        assert_eq!(questions.len(), call.requests.lock().unwrap().len());
    }

    #[tokio::test]
    async fn only_limit_errors_are_reported_to_the_server() {
        for (kind, expected) in [
            (ErrorKind::Conflict, "the tokens are spent at http://secret"),
            (ErrorKind::ContextOverflow, "too long for the model"),
            (ErrorKind::Unreachable, "the model gave no answer"),
        ] {
            let call = TestCall::new(YES, move || Err(ModelError::new(kind, "the tokens are spent at http://secret")));
            let refusal = call.ask(json!({})).await.unwrap_err();
            assert!(refusal.message.contains(expected), "{refusal:?}");
            assert!(call.log.last(9).iter().any(|line| line.contains("http://secret")), "{:?}", call.log.last(9));
        }
        let cut = TestCall::new(YES, || Ok(SampleAnswer { cut: true, ..fine()? }));
        assert_eq!(cut.ask(json!({})).await.unwrap().stop_reason.as_deref(), Some("maxTokens"));
    }
}
