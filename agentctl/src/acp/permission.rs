//! Approvals: what a person is shown before they decide, and what their decision means.
//!
//! Everything that would run is in the title (as far as it fits), in the content and in the input: editors show different ones
//! of the three. Each option has a kind of its own, because some editors keep one option of a kind.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind,
};
use agentd_core::{
    Timestamp,
    grant::GrantScope,
    interrupt::{Answer, Ask, Interrupt},
    visible,
};
use serde_json::Value;

use super::{
    edits::{self, Before},
    output,
    peer::Outcome,
    places::Places,
    tool_call::{self, SHELL},
};
use crate::render::{asking, diff::Room};

const APPROVE: &str = "approve";
const ALWAYS: &str = "always";
const REJECT: &str = "reject";

/// Bytes of a preview beside which the same is not told again, as edits and as input.
const LONG: usize = 16 * 1024;
/// Bytes of the texts of an input that stands beside a long preview.
const CUT_INPUT: usize = 512;

/// Room for the rules that an option names.
const RULES: Room = Room { rows: 3, columns: 100 };

/// The question about a call that the editor knows under this id; none where nothing is to be approved.
pub(super) fn request(
    session: &SessionId,
    call: String,
    interrupt: &Interrupt,
    places: &Places,
) -> Option<RequestPermissionRequest> {
    let Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, .. } = &interrupt.ask else {
        return None;
    };
    let is_plan = interrupt.ask.plan().is_some();
    let mut content = Vec::new();
    if !is_plan {
        let why = asking::why(reason, *layer, rule.as_deref());
        let words = format!("{} asks ({}): {why}", asking::who(&interrupt.asked_by), asking::risk(*risk));
        content.push(ToolCallContent::from(words));
    }
    // What the daemon shows is what it found, also in the editor.
    let of_call = || edits::of_call(tool, args, places, Before::OnDisk);
    let edits = match preview {
        Some(preview) if tool == "write_file" => {
            let edits = edits::shown(edits::of_patch(preview, places), LONG);
            if edits.is_empty() { of_call() } else { edits }
        }
        _ => of_call(),
    };
    let shown = preview.clone().unwrap_or_else(|| format!("{args:#}"));
    let shown = visible::lines(&shown);
    // Some editors read lines of 64 KiB at most: what is long is told once, whole.
    let is_long = shown.len() > LONG;
    let edits = if is_long { Vec::new() } else { edits };
    let input = tool_call::input(args, if is_long { CUT_INPUT } else { usize::MAX });
    let text: ToolCallContent = if is_plan { shown } else { output::fenced(&shown) }.into();
    // Some editors show the first content alone, and a diff as what it is. Of several the words tell all. A title holds the
    // whole of a command, but not of an edit.
    if let [edit] = edits.as_slice() {
        content.insert(0, edit.clone().into());
        content.push(text);
    } else {
        let place = if tool_call::kind(tool) == ToolKind::Edit { 0 } else { content.len() };
        content.insert(place, text);
        content.extend(edits.into_iter().map(ToolCallContent::from));
    }
    if let Some(unanswered) = asking::unanswered(interrupt, Timestamp::now()) {
        content.push(unanswered.into());
    }
    let (title, kind) = if is_plan {
        ("Carry out this plan? Nothing is changed before".to_owned(), ToolKind::Think)
    } else {
        (tool_call::title(tool, args), tool_call::kind(tool))
    };
    let fields = ToolCallUpdateFields::new()
        .title(title)
        .name(tool.clone())
        .kind(kind)
        .status(ToolCallStatus::Pending)
        .content(content)
        .locations(tool_call::locations(tool, args, places))
        .raw_input(input);
    Some(RequestPermissionRequest::new(session.clone(), ToolCallUpdate::new(call, fields), options(tool, grants)))
}

fn options(tool: &str, grants: &[String]) -> Vec<PermissionOption> {
    let mut options = vec![PermissionOption::new(APPROVE, "Allow once", PermissionOptionKind::AllowOnce)];
    let (rules, is_whole) = asking::rules(grants, RULES);
    // What would be kept has to be read whole: where it is longer, `agentctl answer` and the chat keep it.
    if !grants.is_empty() && is_whole {
        // Of a command its own words are enough.
        let rules = rules.join("; ");
        let rules = match rules.strip_prefix(&format!("{SHELL}: ")).filter(|_| tool == SHELL) {
            Some(command) => output::code_span(command),
            None => rules,
        };
        let name = format!("Always allow in this session: {rules}");
        options.push(PermissionOption::new(ALWAYS, name, PermissionOptionKind::AllowAlways));
    }
    options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
    options
}

/// The answer that an editor gave; none where it leaves the question open.
pub(super) fn answer(outcome: &Outcome) -> Option<Answer> {
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

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::{InterruptId, SessionId as Id, TurnId},
        policy::Risk,
    };
    use serde_json::json;

    use super::*;

    fn interrupt(tool: &str, args: Value, preview: Option<&str>, grants: &[&str]) -> Interrupt {
        Interrupt {
            id: InterruptId::generate(),
            session_id: Id::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: Default::default(),
            ask: Ask::Approval {
                tool: tool.to_owned(),
                args,
                risk: Risk::High,
                reason: "it runs a command".to_owned(),
                preview: preview.map(str::to_owned),
                layer: None,
                rule: None,
                grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
                wider: Vec::new(),
                for_good: Vec::new(),
                owner: None,
            },
            raised_at: Timestamp::now(),
            deadline: None,
            on_deadline: None,
        }
    }

    fn asked(interrupt: &Interrupt) -> Value {
        let places = Places { project: Some("/p".into()), workspace: "/w".into(), ..Places::default() };
        serde_json::to_value(request(&SessionId::new("s"), "c".to_owned(), interrupt, &places).unwrap()).unwrap()
    }

    #[test]
    fn a_command_is_in_title_content_and_input() {
        let command = "rm -rf build\u{202e}";
        let grants = ["run_bash_command: rm -rf build"];
        let asked = asked(&interrupt(SHELL, json!({"command": command}), Some(command), &grants));
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
    fn an_edit_is_shown_as_one_and_what_has_no_rule_offers_none() {
        let args = json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
        let asked = asked(&interrupt("edit_file", args, Some("--- a/a.txt"), &[]));
        let content = asked["toolCall"]["content"].as_array().unwrap();
        assert_eq!(content[0], json!({"type": "diff", "path": "/p/a.txt", "oldText": "one\n", "newText": "two\n"}));
        assert_eq!(asked["options"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_is_long_is_told_whole_and_once() {
        let (content, preview) =
            ("ü\n".repeat(10_000), format!("--- /dev/null\n+++ b/a.txt\n{}", "+ü\n".repeat(10_000)));
        let asked = asked(&interrupt("write_file", json!({"path": "a.txt", "content": content}), Some(&preview), &[]));
        let told = asked["toolCall"]["content"].as_array().unwrap();
        assert_eq!(told.iter().filter(|content| content["type"] == "diff").count(), 0);
        assert_eq!(told[0]["content"]["text"].as_str().unwrap().matches("+ü").count(), 10_000);
        let line = asked.to_string().len();
        assert!(line < preview.len() * 2, "{line} bytes");
    }

    #[test]
    fn only_an_option_that_was_offered_is_an_answer() {
        let check = |outcome: Outcome, expected: Option<Answer>| assert_eq!(answer(&outcome), expected);
        let selected = |id: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": id}}));
        check(selected("approve"), Some(Answer::Approve));
        check(selected("always"), Some(Answer::Always { scope: GrantScope::Session }));
        check(selected("reject"), Some(Answer::Reject { reason: None }));
        check(selected("other"), None);
        check(Ok(json!({"outcome": {"outcome": "cancelled"}})), None);
        check(Ok(json!(null)), None);
        check(Err(json!({"code": -32601})), None);
    }
}
