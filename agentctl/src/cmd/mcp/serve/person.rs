//! Who may say yes. What the rules want a person to be asked about is a person's to approve: in a form that the MCP client
//! shows, or at `agentctl`. The calling agent, which is a model, approves nothing unless whoever set it up said so.

use agentd_core::{
    Timestamp,
    interrupt::{Answer, Ask, Interrupt},
};
use clap::ValueEnum;
use futures_util::future::BoxFuture;
use rmcp::{
    Peer, RoleServer,
    model::{ElicitRequestParams, ElicitationAction},
    service::ElicitationMode,
};
use serde_json::json;

use crate::{
    render::{
        asking,
        sanitize::{clean, clean_line},
    },
    turn::Asker,
};

/// The characters of a question at the most. A longer one is not put: nobody shall approve what was not shown.
const LONGEST: usize = 10_000;

/// Who may approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Approvals {
    /// You, in a form that the MCP client shows; where it can show none, you by `agentctl answer`
    Person,
    /// You, by `agentctl answer` and in no other way
    Agentctl,
    /// The calling agent itself, by its tool `answer`; no person needs to know
    Caller,
}

/// Puts approvals to the person before the MCP client. Everything else is left to wait.
#[derive(Debug)]
pub(super) struct Person {
    peer: Option<Peer<RoleServer>>,
}

impl Person {
    /// The person before this client, if they are to be asked there and the client can ask.
    pub(super) fn before(peer: &Peer<RoleServer>, approvals: Approvals) -> Self {
        let asks =
            approvals == Approvals::Person && peer.supported_elicitation_modes().contains(&ElicitationMode::Form);
        Self { peer: asks.then(|| peer.clone()) }
    }

    /// Nobody.
    pub(super) fn nobody() -> Self {
        Self { peer: None }
    }

    /// Whether there is somebody to ask.
    pub(super) fn is_there(&self) -> bool {
        self.peer.is_some()
    }

    /// What the person says to an approval; none where they were not asked, or gave no answer.
    pub(super) async fn decide(&self, interrupt: &Interrupt) -> Option<Answer> {
        let peer = self.peer.as_ref()?;
        let request = form(interrupt)?;
        let result = peer.create_elicitation(request).await.ok()?;
        match result.action {
            ElicitationAction::Accept => {
                let content = result.content.unwrap_or_default();
                match content["decision"].as_str() {
                    Some("approve") => Some(Answer::Approve),
                    Some("reject") => Some(Answer::Reject { reason: content["reason"].as_str().map(str::to_owned) }),
                    // A client that agrees to everything without looking has agreed to nothing.
                    _ => None,
                }
            }
            ElicitationAction::Decline => Some(Answer::Reject { reason: None }),
            _ => None,
        }
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

/// The form for an approval; none for a question, and where it would be too long.
fn form(interrupt: &Interrupt) -> Option<ElicitRequestParams> {
    let Ask::Approval { tool, args, risk, reason, preview, layer, rule, .. } = &interrupt.ask else { return None };
    let shown = preview.clone().unwrap_or_else(|| format!("{args:#}"));
    let mut message = format!(
        "agentd asks whether it may run {} for {} ({}): {}\n\n{}",
        clean_line(tool),
        asking::who(&interrupt.asked_by),
        asking::risk(*risk),
        asking::why(reason, *layer, rule.as_deref()),
        clean(&shown).trim_end(),
    );
    if let Some(unanswered) = asking::unanswered(interrupt, Timestamp::now()) {
        message.push_str(&format!("\n\n{unanswered}"));
    }
    if message.chars().count() > LONGEST {
        return None;
    }
    let params = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "approve: it runs, once. reject: it does not run",
                    "enum": ["approve", "reject"],
                },
                "reason": {
                    "type": "string",
                    "title": "Reason",
                    "description": "What the model is told of a rejection",
                },
            },
            "required": ["decision"],
        },
    });
    serde_json::from_value(params).ok()
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::{InterruptId, SessionId, TurnId},
        interrupt::AskedBy,
        policy::Risk,
    };

    use super::*;

    fn approval(preview: &str) -> Interrupt {
        Interrupt {
            id: InterruptId::generate(),
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: AskedBy::default(),
            ask: Ask::Approval {
                tool: "run_bash_command".to_owned(),
                args: json!({}),
                risk: Risk::High,
                reason: "it deletes".to_owned(),
                preview: Some(preview.to_owned()),
                layer: None,
                rule: None,
                grants: Vec::new(),
            },
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        }
    }

    #[test]
    fn a_form_shows_all_of_it_or_is_not_shown() {
        let Some(ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }) =
            form(&approval("rm -r \u{1b}[2Jbuild"))
        else {
            panic!("no form")
        };
        assert_eq!(
            message,
            "agentd asks whether it may run run_bash_command for the main agent (high risk): it deletes\n\nrm -r build"
        );
        let schema = serde_json::to_value(requested_schema).unwrap();
        assert_eq!(schema["required"], json!(["decision"]));
        assert_eq!(schema["properties"]["decision"]["enum"], json!(["approve", "reject"]));
        assert!(form(&approval(&"x".repeat(LONGEST))).is_none());
    }

    #[test]
    fn questions_are_no_form() {
        let ask = Ask::Question { question: "Which?".to_owned(), context: None, default: None, required: true };
        assert!(form(&Interrupt { ask, ..approval("") }).is_none());
    }
}
