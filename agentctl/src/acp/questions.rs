//! Requests to the editor: approvals and questions, and access to the editor's text buffers.
//!
//! A call that needs approval is shown in the title (truncated), the content and the input, because each editor shows
//! only some of the three. Each option has a different kind, because some editors show only one option per kind. A
//! question is a form if the editor supports forms, else text that the next message answers. Tools read and write the
//! project's files through the editor's buffers, so that unsaved text is visible to tools and not overwritten.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, PermissionOption, PermissionOptionKind, ReadTextFileRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionId, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, WriteTextFileRequest,
};
use agentd_core::{
    Timestamp,
    client_file::{ClientFileAnswer, ClientFileRequest, FileAction, MAX_CLIENT_FILE},
    grant::GrantScope,
    ids::InterruptId,
    interrupt::{Answer, Ask, Interrupt},
    visible,
};
use agentd_proto::client::TurnSender;
use futures_util::{
    StreamExt as _,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use super::{
    message::{Outcome, Peer},
    tool_call::{self, PriorContent, SHELL, SessionRoots, edits_of_call, edits_of_patch, shown_edits},
};
use crate::{
    render::{asking, diff::Room},
    report::{self, short_id},
    terminal::clean_line,
};

/// Answer from the editor; `None` if the user postponed it.
type EditorAnswer = (Interrupt, Option<Answer>);

/// The open questions of a turn.
#[derive(Default)]
pub(super) struct OpenQuestions {
    open: FuturesUnordered<Abortable<BoxFuture<'static, EditorAnswer>>>,
    handles: HashMap<InterruptId, AbortHandle>,
    /// Ids of all questions asked here, to avoid asking twice.
    seen: HashSet<InterruptId>,
}

impl OpenQuestions {
    /// Asks the question, with options or a form, unless it was asked before. Does nothing if the editor cannot ask
    /// this question.
    pub(super) fn ask(
        &mut self,
        peer: &Peer,
        session: &SessionId,
        call: Option<String>,
        interrupt: &Interrupt,
        roots: &SessionRoots,
    ) {
        if !self.seen.insert(interrupt.id) {
            return;
        }
        let (peer, interrupt) = (peer.clone(), interrupt.clone());
        let id = interrupt.id;
        let asking: BoxFuture<'static, EditorAnswer> = match &interrupt.ask {
            Ask::Approval { .. } => {
                let call = call.unwrap_or_else(|| id.to_string());
                let Some(request) = approval_request(session, call, &interrupt, roots) else { return };
                Box::pin(async move {
                    let method = CLIENT_METHOD_NAMES.session_request_permission;
                    let outcome = peer.request(method, &request).await;
                    let answer = outcome.as_ref().and_then(approval_answer);
                    (interrupt, answer)
                })
            }
            Ask::Question { .. } => {
                let Some(form) = form(session, call.as_deref(), &interrupt) else { return };
                Box::pin(async move {
                    let outcome = peer.request(CLIENT_METHOD_NAMES.elicitation_create, &form).await;
                    let answer = outcome.as_ref().and_then(form_answer);
                    // An empty form does not answer a question that requires an answer.
                    let answer = answer.filter(|answer| answer.misfit(&interrupt.ask).is_none());
                    (interrupt, answer)
                })
            }
        };
        let (handle, registration) = AbortHandle::new_pair();
        self.handles.insert(id, handle);
        self.open.push(Abortable::new(asking, registration));
    }

    /// Returns true if this question was asked here.
    pub(super) fn knows(&self, id: InterruptId) -> bool {
        self.seen.contains(&id)
    }

    /// Returns the next answer; never completes without open questions. This method is cancel safe.
    pub(super) async fn next(&mut self) -> EditorAnswer {
        loop {
            match self.open.next().await {
                Some(Ok(asked)) => {
                    self.handles.remove(&asked.0.id);
                    return asked;
                }
                Some(Err(_withdrawn)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// Withdraws a question that was answered elsewhere.
    pub(super) fn withdraw(&mut self, id: InterruptId) {
        if let Some(handle) = self.handles.remove(&id) {
            handle.abort();
        }
    }

    /// Withdraws all open questions.
    pub(super) fn withdraw_all(&mut self) {
        self.handles.clear();
        self.open.clear();
    }
}

const APPROVE: &str = "approve";
const ALWAYS: &str = "always";
const REJECT: &str = "reject";

/// Length of a preview in bytes above which edits are omitted and the input is truncated.
const LONG_PREVIEW: usize = 16 * 1024;
/// Maximum bytes of each input text next to a long preview.
const MAX_INPUT_TEXT: usize = 512;

/// Maximum size of the rules in an option.
const RULES_ROOM: Room = Room { rows: 3, columns: 100 };

/// Builds the request for an approval. Returns `None` for questions.
fn approval_request(
    session: &SessionId,
    call: String,
    interrupt: &Interrupt,
    roots: &SessionRoots,
) -> Option<RequestPermissionRequest> {
    let Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, .. } = &interrupt.ask else {
        return None;
    };
    let is_plan = interrupt.ask.plan().is_some();
    let mut content = Vec::new();
    if !is_plan {
        let explanation = asking::why(reason, *layer, rule.as_deref());
        let summary = format!("{} asks ({}): {explanation}", asking::who(&interrupt.asked_by), asking::risk(*risk));
        content.push(ToolCallContent::from(summary));
    }
    // The daemon's own preview takes precedence, because it reflects the current file, including unsaved text.
    let of_call = || edits_of_call(tool, args, roots, PriorContent::OnDisk);
    let edits = match preview {
        Some(preview) if tool == "write_file" => {
            let edits = shown_edits(edits_of_patch(preview, roots), LONG_PREVIEW);
            if edits.is_empty() { of_call() } else { edits }
        }
        _ => of_call(),
    };
    let shown = preview.clone().unwrap_or_else(|| format!("{args:#}"));
    let shown = visible::lines(&shown);
    // Some editors accept lines of at most 64 KiB, so a long text is sent only once.
    let is_long = shown.len() > LONG_PREVIEW;
    let edits = if is_long { Vec::new() } else { edits };
    let input = tool_call::input(args, if is_long { MAX_INPUT_TEXT } else { usize::MAX });
    let text: ToolCallContent = if is_plan { shown } else { tool_call::fenced(&shown) }.into();
    // Some editors show only the first content item, and render a diff on its own. With one edit, the diff comes first;
    // with several, the text does, because it covers all of them. A whole command fits into the title, but an edit does
    // not.
    if let [edit] = edits.as_slice() {
        content.insert(0, edit.clone().into());
        content.push(text);
    } else {
        let position = if tool_call::kind(tool, args) == ToolKind::Edit { 0 } else { content.len() };
        content.insert(position, text);
        content.extend(edits.into_iter().map(ToolCallContent::from));
    }
    if let Some(unanswered) = asking::unanswered(interrupt, Timestamp::now()) {
        content.push(unanswered.into());
    }
    let (title, kind) = if is_plan {
        ("Carry out this plan? Nothing is changed until you approve".to_owned(), ToolKind::Think)
    } else {
        (tool_call::title(tool, args), tool_call::kind(tool, args))
    };
    let fields = ToolCallUpdateFields::new()
        .title(title)
        .name(tool.clone())
        .kind(kind)
        .status(ToolCallStatus::Pending)
        .content(content)
        .locations(tool_call::locations(tool, args, roots))
        .raw_input(input);
    Some(RequestPermissionRequest::new(session.clone(), ToolCallUpdate::new(call, fields), options(tool, grants)))
}

fn options(tool: &str, grants: &[String]) -> Vec<PermissionOption> {
    let mut options = vec![PermissionOption::new(APPROVE, "Allow once", PermissionOptionKind::AllowOnce)];
    let (rules, is_whole) = asking::rules(grants, RULES_ROOM);
    // The user must be able to read the whole grant. A longer grant can be added with `agentctl answer` or in the chat.
    if !grants.is_empty() && is_whole {
        // For a command, the tool name is omitted.
        let rules = rules.join("; ");
        let rules = match rules.strip_prefix(&format!("{SHELL}: ")).filter(|_| tool == SHELL) {
            Some(command) => tool_call::code_span(command),
            None => rules,
        };
        let name = format!("Always allow in this session: {rules}");
        options.push(PermissionOption::new(ALWAYS, name, PermissionOptionKind::AllowAlways));
    }
    options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
    options
}

/// Converts the editor's response to an answer. Returns `None` if the question stays open.
fn approval_answer(outcome: &Outcome) -> Option<Answer> {
    let response: &Value = outcome.as_ref().ok()?;
    let response: RequestPermissionResponse = serde_json::from_value(response.clone()).ok()?;
    let RequestPermissionOutcome::Selected(selected) = response.outcome else { return None };
    match selected.option_id.0.as_ref() {
        APPROVE => Some(Answer::Approve),
        ALWAYS => Some(Answer::Always { scope: GrantScope::Session }),
        REJECT => Some(Answer::Reject { reason: None }),
        _ => None,
    }
}

/// Builds the form of a question. Returns `None` for approvals and secrets.
pub(super) fn form(session: &SessionId, call: Option<&str>, interrupt: &Interrupt) -> Option<Value> {
    let Ask::Question { question, context, default, required, choices, .. } = &interrupt.ask else { return None };
    // Editors show the text typed into a form, and may store it.
    if interrupt.ask.is_secret() {
        return None;
    }
    let mut message = visible::lines(question.trim());
    if let Some(context) = context {
        message.push_str(&format!("\n\n{}", visible::lines(context)));
    }
    // The editor returns a choice verbatim, so choices with hidden characters are not offered.
    let is_plain = !choices.is_empty() && choices.iter().all(|choice| visible::line(choice) == *choice);
    let (properties, needed) = if is_plain {
        let other = json!({"type": "string", "title": "Other answer", "description": "Instead of a choice"});
        (json!({"choice": {"type": "string", "title": "Answer", "enum": choices}, "other": other}), Vec::new())
    } else {
        let mut answer = json!({"type": "string", "title": "Answer"});
        // The editor also returns the default verbatim.
        if let Some(default) = default.as_ref().filter(|default| visible::is_plain(default)) {
            answer["default"] = json!(default);
        }
        let needed = if *required && default.is_none() { vec!["answer"] } else { Vec::new() };
        (json!({"answer": answer}), needed)
    };
    let mut params = json!({
        "mode": "form",
        "sessionId": session,
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": needed},
    });
    if let Some(call) = call {
        params["toolCallId"] = json!(call);
    }
    Some(params)
}

/// Reads the answer from a form. Returns `None` if the question stays open.
fn form_answer(outcome: &Outcome) -> Option<Answer> {
    let response = outcome.as_ref().ok()?;
    match response["action"].as_str()? {
        "accept" => {
            let content = &response["content"];
            let field = |name: &str| content[name].as_str().map(str::trim).filter(|text| !text.is_empty());
            let text = field("other").or_else(|| field("choice")).or_else(|| field("answer")).unwrap_or_default();
            Some(Answer::Text { text: text.to_owned() })
        }
        "decline" => Some(Answer::Reject { reason: None }),
        _ => None,
    }
}

/// Returns the question as text, with instructions for answering. A secret is only accepted in a terminal, because an
/// editor would show and store the typed text.
pub(super) fn question_text(interrupt: &Interrupt) -> Option<String> {
    let Ask::Question { question, context, default, choices, .. } = &interrupt.ask else { return None };
    let id = short_id(interrupt.id);
    let mut text = format!("\n\n**{}**\n", visible::lines(question.trim()));
    if let Some(context) = context {
        text.push_str(&format!("\n{}\n", visible::lines(context)));
    }
    if interrupt.ask.is_secret() {
        return Some(format!("{text}\nType it in a terminal, where it is not shown: `agentctl answer {id}`\n"));
    }
    for choice in asking::choices(choices) {
        text.push_str(&format!("\n- {choice}"));
    }
    if let Some(default) = default {
        text.push_str(&format!("\n\nWithout an answer: {}", visible::line(default)));
    }
    let number = if choices.is_empty() { "" } else { " (a number chooses)" };
    Some(format!(
        "{text}\n\nYour next message is the answer{number}; or `agentctl answer {id} 'TEXT'` in a terminal.\n"
    ))
}

/// Returns a message with instructions for answering a postponed question.
pub(super) fn postponed_message(interrupt: &Interrupt) -> String {
    let id = short_id(interrupt.id);
    let command = match interrupt.ask {
        Ask::Approval { .. } => format!("`agentctl answer {id} approve` or `reject`"),
        Ask::Question { .. } => format!("`agentctl answer {id} 'TEXT'`"),
    };
    format!(
        "\n\nThe question is still open; answer with {command} in a terminal. The turn waits; cancel to end it.\n\n"
    )
}

/// Time limits for the editor. The daemon's limits are slightly longer.
const READ_LIMIT: Duration = Duration::from_millis(4500);
const WRITE_LIMIT: Duration = Duration::from_secs(19);
/// Error code for a missing file.
const NOT_FOUND: i64 = -32002;
/// Maximum characters in an editor's error message.
const MAX_REASON: usize = 300;

/// Buffer requests in flight. Dropping this aborts them.
#[derive(Debug)]
pub(super) struct Buffers {
    peer: Peer,
    session: SessionId,
    /// Project folder as named by the editor.
    folder: Option<PathBuf>,
    open: JoinSet<()>,
}

impl Buffers {
    /// Creates the buffers of an editor that has this folder open.
    pub(super) fn new(peer: Peer, session: SessionId, folder: Option<PathBuf>) -> Self {
        Self { peer, session, folder, open: JoinSet::new() }
    }

    /// Sends a request to the editor and its answer to the daemon, in a separate task.
    pub(super) fn ask(&mut self, request: ClientFileRequest, sender: TurnSender) {
        while self.open.try_join_next().is_some() {}
        let (peer, session, folder) = (self.peer.clone(), self.session.clone(), self.folder.clone());
        self.open.spawn(async move {
            let answer = match folder {
                Some(folder) => asked(&peer, session, folder.join(&request.path), request.action).await,
                None => ClientFileAnswer::Absent,
            };
            // Fails if the turn has ended and no longer needs the answer.
            let _ = sender.answer_file(&request.id, answer).await;
        });
    }
}

async fn asked(peer: &Peer, session: SessionId, path: PathBuf, action: FileAction) -> ClientFileAnswer {
    match action {
        FileAction::Read => {
            let params = ReadTextFileRequest::new(session, path);
            let request = peer.request(CLIENT_METHOD_NAMES.fs_read_text_file, &params);
            read_answer(timeout(READ_LIMIT, request).await.ok().flatten())
        }
        FileAction::Write(text) => {
            let params = WriteTextFileRequest::new(session, path, text);
            let request = peer.request(CLIENT_METHOD_NAMES.fs_write_text_file, &params);
            write_answer(timeout(WRITE_LIMIT, request).await.ok().flatten())
        }
    }
}

/// Converts the response to a read request.
fn read_answer(outcome: Option<Outcome>) -> ClientFileAnswer {
    match outcome {
        Some(Ok(result)) => match result.get("content").and_then(Value::as_str) {
            Some(text) if text.len() > MAX_CLIENT_FILE => {
                ClientFileAnswer::Refused(format!("the text has {} bytes", text.len()))
            }
            Some(text) => ClientFileAnswer::Text(text.to_owned()),
            None => ClientFileAnswer::Refused("its answer has no text".to_owned()),
        },
        Some(Err(error)) if error["code"] == NOT_FOUND => ClientFileAnswer::Absent,
        Some(Err(error)) => ClientFileAnswer::Refused(reason(&error)),
        None => ClientFileAnswer::Refused("it did not answer in time".to_owned()),
    }
}

fn write_answer(outcome: Option<Outcome>) -> ClientFileAnswer {
    match outcome {
        Some(Ok(_)) => ClientFileAnswer::Written,
        Some(Err(error)) => ClientFileAnswer::Refused(reason(&error)),
        // Without a response, the result is unknown and the daemon has to check the file.
        None => ClientFileAnswer::Absent,
    }
}

fn reason(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or_default();
    report::cut(&clean_line(message), MAX_REASON)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn call(tool: &str, args: Value, preview: Option<&str>, grants: &[&str]) -> Interrupt {
        samples::interrupt(samples::approval(tool, args, preview, grants))
    }

    fn asked(interrupt: &Interrupt) -> Value {
        let roots = SessionRoots { project: Some("/p".into()), workspace: "/w".into(), ..SessionRoots::default() };
        serde_json::to_value(approval_request(&SessionId::new("s"), "c".to_owned(), interrupt, &roots).unwrap())
            .unwrap()
    }

    #[test]
    fn command_is_shown_in_title_content_and_input() {
        let command = "rm -rf build\u{202e}";
        let grants = ["run_bash_command: rm -rf build"];
        let asked = asked(&call(SHELL, json!({"command": command}), Some(command), &grants));
        let call = &asked["toolCall"];
        assert_eq!(call["title"], "`$ rm -rf build\\u{202e}`");
        assert_eq!((&call["rawInput"]["command"], &call["kind"]), (&json!("rm -rf build\\u{202e}"), &json!("execute")));
        assert!(call["content"][0]["content"]["text"].as_str().unwrap().contains("high risk"), "{call:#}");
        assert_eq!(call["content"][1]["content"]["text"], "```\nrm -rf build\\u{202e}\n```");
        let kinds: Vec<&str> =
            asked["options"].as_array().unwrap().iter().map(|option| option["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
        assert_eq!(asked["options"][1]["name"], "Always allow in this session: `rm -rf build`");
    }

    #[test]
    fn long_preview_is_sent_whole_and_once() {
        let (content, preview) =
            ("ü\n".repeat(10_000), format!("--- /dev/null\n+++ b/a.txt\n{}", "+ü\n".repeat(10_000)));
        let asked = asked(&call("write_file", json!({"path": "a.txt", "content": content}), Some(&preview), &[]));
        let blocks = asked["toolCall"]["content"].as_array().unwrap();
        assert_eq!(blocks.iter().filter(|content| content["type"] == "diff").count(), 0);
        assert_eq!(blocks[0]["content"]["text"].as_str().unwrap().matches("+ü").count(), 10_000);
        let line = asked.to_string().len();
        assert!(line < preview.len() * 2, "{line} bytes");
    }

    #[test]
    fn only_offered_options_are_answers() {
        let check = |outcome: Outcome, expected: Option<Answer>| assert_eq!(approval_answer(&outcome), expected);
        let selected = |id: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": id}}));
        check(selected("approve"), Some(Answer::Approve));
        check(selected("always"), Some(Answer::Always { scope: GrantScope::Session }));
        check(selected("reject"), Some(Answer::Reject { reason: None }));
        check(selected("other"), None);
        check(Ok(json!({"outcome": {"outcome": "cancelled"}})), None);
        check(Ok(json!(null)), None);
        check(Err(json!({"code": -32601})), None);
    }

    fn question(choices: &[&str], default: Option<&str>) -> Interrupt {
        let mut ask = samples::question("Which colour?", choices);
        if let Ask::Question { context, default: usual, .. } = &mut ask {
            (*context, *usual) = (Some("For the door".to_owned()), default.map(str::to_owned));
        }
        samples::interrupt(ask)
    }

    #[test]
    fn form_asks_for_a_choice_or_text() {
        let session = SessionId::new("s");
        let of = |interrupt: &Interrupt| form(&session, Some("c"), interrupt).unwrap();
        let choice = of(&question(&["red", "green"], None));
        assert_eq!(choice["requestedSchema"]["properties"]["choice"]["enum"], json!(["red", "green"]));
        assert_eq!((&choice["message"], &choice["toolCallId"]), (&json!("Which colour?\n\nFor the door"), &json!("c")));
        let open = of(&question(&[], Some("red")));
        assert_eq!(open["requestedSchema"]["properties"]["answer"]["default"], "red");
        assert_eq!(open["requestedSchema"]["required"], json!([]));
        assert_eq!(of(&question(&[], None))["requestedSchema"]["required"], json!(["answer"]));
        // A choice with hidden characters is not offered, so the answer must be typed.
        assert!(of(&question(&["a\u{200b}"], None))["requestedSchema"]["properties"]["answer"].is_object());
    }

    #[test]
    fn form_responses_become_answers() {
        let check = |outcome: Value, expected: Option<Answer>| assert_eq!(form_answer(&Ok(outcome)), expected);
        let text = |text: &str| Some(Answer::Text { text: text.to_owned() });
        check(json!({"action": "accept", "content": {"choice": "red"}}), text("red"));
        check(json!({"action": "accept", "content": {"choice": "red", "other": " blue "}}), text("blue"));
        check(json!({"action": "accept", "content": {"answer": "words"}}), text("words"));
        check(json!({"action": "accept"}), text(""));
        check(json!({"action": "decline"}), Some(Answer::Reject { reason: None }));
        check(json!({"action": "cancel"}), None);
        check(json!({"action": "_other"}), None);
        assert_eq!(form_answer(&Err(json!({}))), None);
    }

    #[test]
    fn editor_responses_map_to_file_answers() {
        let refused = |reason: &str| ClientFileAnswer::Refused(reason.to_owned());
        let check = |outcome: Outcome, expected: ClientFileAnswer| assert_eq!(read_answer(Some(outcome)), expected);
        check(Ok(json!({"content": "a"})), ClientFileAnswer::Text("a".to_owned()));
        check(Ok(json!({"content": 7})), refused("its answer has no text"));
        check(Ok(json!(null)), refused("its answer has no text"));
        check(Err(json!({"code": -32002, "message": "gone"})), ClientFileAnswer::Absent);
        check(Err(json!({"code": -32603, "message": "no\u{1b}[31m\nmore"})), refused("no more"));
        check(Err(json!("odd")), refused(""));
        assert_eq!(read_answer(None), refused("it did not answer in time"));
        assert_eq!(write_answer(Some(Ok(Value::Null))), ClientFileAnswer::Written);
        assert_eq!(write_answer(Some(Err(json!({"message": "read-only"})))), refused("read-only"));
    }
}
