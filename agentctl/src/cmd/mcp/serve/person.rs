//! Approvals by a user: in a form of the MCP client, or with `agentctl`. The calling agent is a model and must not
//! approve calls, unless the user who configured the server allows it.

use agentd_core::{
    Timestamp,
    interrupt::{Answer, Ask, Interrupt},
    visible,
};
use clap::ValueEnum;
use futures_util::future::BoxFuture;
use rmcp::{
    Peer, RoleServer,
    model::{
        CallToolResponse, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest,
        InputRequiredResult, InputResponses,
    },
};
use serde_json::{Value, json};

use super::CallContext;
use crate::{
    render::{
        asking,
        diff::{self, Room},
    },
    turn::Asker,
};

/// Maximum characters in a question. A longer approval is not shown in the client, because it must be shown completely.
const MAX_QUESTION: usize = 10_000;

/// Clients that may approve: the MCP client of the user, `agentctl`, or the calling agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Approvals {
    /// You, in a form shown by the MCP client, or by `agentctl answer` if it has no forms
    Person,
    /// You, only by `agentctl answer`
    Agentctl,
    /// The calling agent itself, with the tool `answer`; you are not asked
    Caller,
}

/// Asks the user of the MCP client for approvals. Other interrupts remain pending.
#[derive(Debug)]
pub(super) enum Person {
    /// The client cannot ask a user.
    Unavailable,
    /// The question is sent during a call.
    During(Peer<RoleServer>),
    /// The question is sent in the result of a call, and the client repeats the call with the answer. Supported since
    /// protocol version 2026-07-28.
    Between,
}

impl Person {
    /// Returns the user of this client, if `approvals` allows it and the client supports forms.
    pub(super) fn of(context: &CallContext, approvals: Approvals) -> Self {
        let capabilities = context.client_capabilities().and_then(|client| client.elicitation);
        // A client that declares elicitation without details supports forms.
        let shows_forms = capabilities.is_some_and(|asks| asks.form.is_some() || asks.url.is_none());
        if approvals != Approvals::Person || !shows_forms {
            return Self::Unavailable;
        }
        match context.protocol_version() {
            Some(version) if !version.has_initialize() => Self::Between,
            _ => Self::During(context.peer.clone()),
        }
    }

    /// Returns true if a user can be asked.
    pub(super) fn is_available(&self) -> bool {
        !matches!(self, Self::Unavailable)
    }

    /// Asks for approval during the call. Returns `None` if the user was not asked or did not answer.
    pub(super) async fn decide(&self, interrupt: &Interrupt) -> Option<Answer> {
        let Self::During(peer) = self else { return None };
        let result = peer.create_elicitation(form(interrupt)?).await.ok()?;
        answer_in(interrupt, result)
    }

    /// Builds a result that asks for the first interrupt with a form. Returns `None` if the client does not support
    /// this, or if no form can be built.
    pub(super) fn asks(&self, pending: &[Interrupt]) -> Option<CallToolResponse> {
        let Self::Between = self else { return None };
        let (id, form) = pending.iter().find_map(|interrupt| Some((interrupt.id.to_string(), form(interrupt)?)))?;
        let asked = [(id.clone(), InputRequest::Elicitation(ElicitRequest::new(form)))];
        Some(InputRequiredResult::new(Some(asked.into()), Some(id)).into())
    }

    /// Returns the answer sent with the repeated call. An error means that the form was not answered and must be sent
    /// again.
    pub(super) fn repeated_answer(
        &self,
        interrupt: &Interrupt,
        answers: Option<InputResponses>,
    ) -> Result<Option<Answer>, ()> {
        if !matches!(self, Self::Between) || form(interrupt).is_none() {
            return Ok(None);
        }
        let answer = answers.and_then(|mut answers| answers.remove(&interrupt.id.to_string())).ok_or(())?;
        Ok(answer_in(interrupt, serde_json::from_value(answer).map_err(drop)?))
    }
}

/// Returns the answer in a completed form, if any.
fn answer_in(interrupt: &Interrupt, result: ElicitResult) -> Option<Answer> {
    let content = result.content.unwrap_or_default();
    let is_question = matches!(interrupt.ask, Ask::Question { .. });
    match (result.action, content["decision"].as_str()) {
        (ElicitationAction::Accept, _) if is_question => answer_of(&content),
        (ElicitationAction::Accept, Some("approve")) => Some(Answer::Approve),
        (ElicitationAction::Accept, Some("reject")) => {
            Some(Answer::Reject { reason: content["reason"].as_str().map(str::to_owned) })
        }
        (ElicitationAction::Decline, _) if !is_question => Some(Answer::Reject { reason: None }),
        // Accepting the form without a decision is not an approval. The calling agent answers an unanswered question.
        _ => None,
    }
}

impl Asker for Person {
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(self.decide(interrupt))
    }

    fn leaves(&self) -> bool {
        true
    }
}

/// Builds a form for an interrupt, if possible.
fn form(interrupt: &Interrupt) -> Option<ElicitRequestParams> {
    choice_form(interrupt).or_else(|| approval_form(interrupt))
}

/// Builds a form for a question with choices. Returns `None` for other interrupts, secrets and questions of MCP
/// servers.
fn choice_form(interrupt: &Interrupt) -> Option<ElicitRequestParams> {
    let Ask::Question { question, context, choices, .. } = &interrupt.ask else { return None };
    if choices.is_empty() || interrupt.ask.is_from_mcp_server() || interrupt.ask.is_secret() {
        return None;
    }
    let mut message = visible::lines(question);
    if let Some(context) = context {
        message.push_str(&format!("\n\n{}", visible::lines(context)));
    }
    // The client returns a choice verbatim, so choices with hidden characters are not offered.
    let is_plain = choices.iter().all(|choice| visible::line(choice) == *choice);
    let schema = json!({
        "type": "object",
        "properties": {
            "choice": { "type": "string", "title": "Answer", "enum": choices },
            "other": { "type": "string", "title": "Other answer", "description": "Instead of a choice" },
        },
    });
    is_plain.then(|| form_of(&message, &schema)).flatten()
}

/// Builds a form with this message and schema. Returns `None` if the message is too long.
fn form_of(message: &str, schema: &Value) -> Option<ElicitRequestParams> {
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    (message.chars().count() <= MAX_QUESTION).then(|| serde_json::from_value(params).ok()).flatten()
}

/// Returns the answer in a form with choices, if any.
fn answer_of(content: &Value) -> Option<Answer> {
    let field = |name: &str| content[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    field("other").or_else(|| field("choice")).map(|text| Answer::Text { text: text.to_owned() })
}

/// Builds a form for an approval. Returns `None` for questions, and if the form would be too long or would not show
/// everything that would run.
fn approval_form(interrupt: &Interrupt) -> Option<ElicitRequestParams> {
    let Ask::Approval { tool, args, risk, reason, preview, layer, rule, .. } = &interrupt.ask else { return None };
    if preview
        .as_deref()
        .is_some_and(|preview| is_marked(preview) || !(is_change(preview) || is_whole(tool, args, preview)))
    {
        return None;
    }
    let shown = preview.clone().unwrap_or_else(|| format!("{args:#}"));
    let mut message = format!(
        "agentd asks whether it may run {} for {} ({}): {}\n\n{}",
        visible::line(tool),
        asking::who(&interrupt.asked_by),
        asking::risk(*risk),
        asking::why(reason, *layer, rule.as_deref()),
        diff::preview(&shown, Room::WITHOUT_END, false).join("\n"),
    );
    if let Some(unanswered) = asking::unanswered(interrupt, Timestamp::now()) {
        message.push_str(&format!("\n\n{unanswered}"));
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "approve: run it once. reject: do not run it",
                "enum": ["approve", "reject"],
            },
            "reason": { "type": "string", "title": "Reason", "description": "Reason for a rejection, shown to the model" },
        },
        "required": ["decision"],
    });
    form_of(&message, &schema)
}

/// Returns true if the preview is marked as truncated. Lines of a file have a prefix in a diff, so they cannot imitate
/// the mark.
fn is_marked(preview: &str) -> bool {
    preview
        .lines()
        .any(|line| ["… (", "(too large for a diff", "(binary content"].iter().any(|mark| line.starts_with(mark)))
}

/// Returns true if the preview is a diff of existing files only. Such a diff marks truncation, and may omit unchanged
/// text.
fn is_change(preview: &str) -> bool {
    preview.starts_with("--- a/") && !preview.lines().any(|line| line.starts_with("@@ -0,0") || line == "--- /dev/null")
}

/// Returns true if the preview contains every text in the arguments, so that nothing was truncated.
fn is_whole(tool: &str, args: &Value, preview: &str) -> bool {
    match args {
        Value::String(text) => shows(tool, text, preview),
        Value::Array(values) => values.iter().all(|value| is_whole(tool, value, preview)),
        Value::Object(fields) => fields.values().all(|value| is_whole(tool, value, preview)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Returns true if the preview contains the text, verbatim or line by line in order as in a diff.
fn shows(tool: &str, text: &str, preview: &str) -> bool {
    if preview.contains(text.trim()) {
        return true;
    }
    let mut shown = preview.lines();
    // The framing lines of a patch only locate changes, so they need not be shown.
    let is_frame = |line: &str| tool == "apply_patch" && !line.starts_with(['+', '-']);
    let mut lines = text.lines().filter(|line| !line.is_empty() && !is_frame(line));
    lines.all(|line| shown.any(|of_diff| of_diff == line || of_diff.strip_prefix(['+', '-', ' ']) == Some(line)))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::samples;

    fn approval(preview: &str) -> Interrupt {
        samples::interrupt(samples::approval("run_bash_command", json!({}), Some(preview), &[]))
    }

    #[test]
    fn approval_form_shows_the_whole_preview_or_nothing() {
        let Some(ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }) =
            form(&approval("rm -r \u{1b}[2Jbuild"))
        else {
            panic!("no form")
        };
        assert_eq!(
            message,
            "agentd asks whether it may run run_bash_command for the main agent (high risk): it runs a command\n\n\
             rm -r \\u{1b}[2Jbuild"
        );
        let schema = serde_json::to_value(requested_schema).unwrap();
        assert_eq!(schema["required"], json!(["decision"]));
        assert_eq!(schema["properties"]["decision"]["enum"], json!(["approve", "reject"]));
        assert!(form(&approval(&"x".repeat(MAX_QUESTION))).is_none());
    }

    #[test]
    fn truncated_preview_has_no_form() {
        let check = |tool: &str, args: Value, preview: &str, expected: bool| {
            let mut interrupt = approval(preview);
            if let Ask::Approval { tool: of, args: with, .. } = &mut interrupt.ask {
                (*of, *with) = (tool.to_owned(), args.clone());
            }
            assert_eq!(form(&interrupt).is_some(), expected, "{args} {preview:?}");
        };
        let diff = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,3 @@\n+one\n+two\n+one\n";
        check("write_file", json!({"path": "a.txt", "content": "one\ntwo\none\n"}), diff, true);
        check("write_file", json!({"path": "a.txt", "content": "one\ntwo\none\none\n"}), diff, false);
        check("write_file", json!({"path": "a.txt", "content": "one\ntwo and more\none\n"}), diff, false);
        check("write_file", json!({"path": "b.txt", "content": "one\n"}), diff, false);
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n+one\n*** End Patch";
        check("apply_patch", json!({ "patch": patch }), diff, true);
        check("apply_patch", json!({ "patch": patch.replace("+two", "+two\n+three") }), diff, false);
        let change = "--- a/a.txt\n+++ b/a.txt\n@@ -7,1 +7,1 @@\n-one\n+two\n";
        check("write_file", json!({"path": "a.txt", "content": "0\n0\n0\n0\n0\n0\ntwo\n"}), change, true);
        let cut = format!("{change}… (the rest of the diff is left out; this version is 1234)\n");
        check("edit_file", json!({"path": "a.txt", "old_string": "one", "new_string": "two"}), &cut, false);
        check("http_fetch", json!({"body": "abc", "headers": {"X": "y"}, "n": 1}), "GET\nX: y\n\nabc", true);
        check("http_fetch", json!({"body": "abc", "headers": {"X": "z"}}), "GET\nX: y\n\nabc", false);
    }

    #[test]
    fn question_with_choices_becomes_a_list_form() {
        assert!(form(&samples::interrupt(samples::question("Which?", &[]))).is_none());
        let of = |question: &str, choices: [&str; 2]| {
            choice_form(&samples::interrupt(samples::question(question, &choices)))
        };
        let Some(ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }) =
            of("Which\u{1b}[2J?", ["red", "green"])
        else {
            panic!("no form")
        };
        assert_eq!(message, "Which\\u{1b}[2J?");
        let schema = serde_json::to_value(requested_schema).unwrap();
        assert_eq!(schema["properties"]["choice"]["enum"], json!(["red", "green"]));
        assert!(of("Which?", ["red", "gr\u{202e}een"]).is_none());
        assert!(of(&format!("{}lab asks: x", Ask::MCP_SERVER_PREFIX), ["a", "b"]).is_none());
        let text = |text: &str| Some(Answer::Text { text: text.to_owned() });
        assert_eq!(answer_of(&json!({"choice": "red"})), text("red"));
        assert_eq!(answer_of(&json!({"choice": "red", "other": " blue "})), text("blue"));
        assert_eq!(answer_of(&json!({"choice": 1})), None);
        assert_eq!(answer_of(&Value::Null), None);
    }
}
