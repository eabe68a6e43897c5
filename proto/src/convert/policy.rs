//! Conversions for verdicts, grants, interrupts and their answers.

use agentd_core::{
    grant::{Grant, GrantScope, ScopedGrant},
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    policy::{Explanation, Layer, PartExplanation, Risk, Verdict},
};

use super::{Wire, WireError, by_name, json, mirrored, or_default, required};
use crate::{
    v1::{
        self,
        answer::{self, Answer as WireAnswer},
        answered_by::Answerer,
        interrupt,
    },
    view::{AuditChange, AuditComparison, Comparison, PolicyCall, RuleText},
};

mirrored!(Risk, "the risk of a call", [Low, Medium, High, Critical]);
mirrored!(Layer, PolicyLayer, "the layer of a rule", [Checker, Global, Tool, Default, Grant]);
mirrored!(GrantScope, "the scope of a rule", [Session, ForGood]);

mirrored! { RuleText as v1::RuleText: text path }
mirrored! {
    Comparison as v1::Comparison:
        , call = call "the call of a comparison", now = now "the current ruling", then = then "the new ruling"
}
mirrored! { AuditChange as v1::AuditChange: count, example = example "an example of a change" }
mirrored! { AuditComparison as v1::TestAuditResponse: calls skipped changes }
mirrored! { AskedBy as v1::AskedBy: agent session_title client }
mirrored! {
    Interrupt as v1::Interrupt:
        id session_id turn_id call_id ask on_deadline, raised_at = raised_at "the time of an interrupt",
        deadline = deadline "the deadline of an interrupt" ? asked_by
}
mirrored! {
    PolicyCall as v1::PolicyCall: tool, arguments = arguments_json "the arguments of a call"
        => |call| required(Some(call).filter(|call| !call.tool.is_empty()), "the tool of a call")
}
mirrored! { Explanation as v1::Explanation }
mirrored! { Answer as v1::Answer }
mirrored! { AnsweredBy as v1::AnsweredBy }

by_name! {
    Layer: |layer| layer.as_str().to_owned(), |name, field| Self::from_name(name).ok_or(WireError::Unknown(field));
}

impl From<&Explanation> for v1::Explanation {
    fn from(explanation: &Explanation) -> Self {
        let Explanation { tool, verdict, layer, rule, parts, grants, wider, granted_by, leads_to } =
            explanation.clone();
        Self {
            tool,
            ruling: Some(ruling(&verdict, layer, &rule)),
            parts: parts.to_wire(),
            grants,
            wider,
            granted_by,
            leads_to,
        }
    }
}

impl TryFrom<v1::Explanation> for Explanation {
    type Error = WireError;

    fn try_from(explanation: v1::Explanation) -> Result<Self, WireError> {
        let v1::Explanation { tool, ruling, parts, grants, wider, granted_by, leads_to } = explanation;
        let (verdict, layer, rule) = read(ruling)?;
        let parts = Wire::from_wire(parts, "parts")?;
        Ok(Self { tool, verdict, layer, rule, parts, grants, wider, granted_by, leads_to })
    }
}

impl Wire<v1::PartRuling> for PartExplanation {
    fn to_wire(&self) -> v1::PartRuling {
        v1::PartRuling { text: self.text.clone(), ruling: Some(ruling(&self.verdict, self.layer, &self.rule)) }
    }

    fn from_wire(part: v1::PartRuling, _: &'static str) -> Result<Self, WireError> {
        let (verdict, layer, rule) = read(part.ruling)?;
        Ok(Self { text: part.text, verdict, layer, rule })
    }
}

fn ruling(verdict: &Verdict, layer: Layer, rule: &str) -> v1::Ruling {
    let (kind, risk, reason) = match verdict {
        Verdict::Allow => (v1::Verdict::Allow, None, ""),
        Verdict::Ask { risk, reason } => (v1::Verdict::Ask, Some(*risk), reason.as_str()),
        Verdict::Deny { reason } => (v1::Verdict::Deny, None, reason.as_str()),
    };
    let (reason, rule) = (reason.to_owned(), rule.to_owned());
    v1::Ruling { verdict: kind as i32, risk: risk.to_wire(), reason, layer: layer.to_wire(), rule }
}

fn read(ruling: Option<v1::Ruling>) -> Result<(Verdict, Layer, String), WireError> {
    let v1::Ruling { verdict, risk, reason, layer, rule } = required(ruling, "the verdict on a call")?;
    let verdict = match v1::Verdict::try_from(verdict) {
        Ok(v1::Verdict::Allow) => Verdict::Allow,
        Ok(v1::Verdict::Ask) => Verdict::Ask { risk: Wire::from_wire(risk, "the risk of a call")?, reason },
        Ok(v1::Verdict::Deny) => Verdict::Deny { reason },
        Ok(v1::Verdict::Unspecified) => return Err(WireError::Missing("the verdict on a call")),
        Err(_) => return Err(WireError::Unknown("the verdict on a call")),
    };
    Ok((verdict, Wire::from_wire(layer, "the layer of a rule")?, rule))
}

impl From<&ScopedGrant> for v1::Grant {
    fn from(held: &ScopedGrant) -> Self {
        let Grant { rule, at, by } = held.grant.clone();
        Self { rule, scope: held.scope().to_wire(), session_id: held.session_id.to_wire(), at: at.to_wire(), by }
    }
}

impl TryFrom<v1::Grant> for ScopedGrant {
    type Error = WireError;

    fn try_from(grant: v1::Grant) -> Result<Self, WireError> {
        let v1::Grant { rule, scope, session_id, at, by } = grant;
        let session_id = match Wire::from_wire(scope, "the scope of a rule")? {
            GrantScope::ForGood => None,
            GrantScope::Session => {
                Some(required(Wire::from_wire(session_id, "the session")?, "the session of a rule")?)
            }
        };
        Ok(Self { session_id, grant: Grant { rule, at: Wire::from_wire(at, "the time of a rule")?, by } })
    }
}

impl From<&Ask> for interrupt::Ask {
    fn from(ask: &Ask) -> Self {
        match ask {
            Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, owner: _ } => {
                Self::Approval(interrupt::Approval {
                    tool: tool.clone(),
                    args_json: args.to_string(),
                    risk: risk.to_wire(),
                    reason: reason.clone(),
                    preview: preview.clone(),
                    grant: <&[String; 1]>::try_from(grants.as_slice()).ok().map(|[grant]| grant.clone()),
                    grants: grants.clone(),
                    wider: wider.clone(),
                    for_good: for_good.clone(),
                    layer: layer.to_wire(),
                    rule: rule.clone(),
                })
            }
            Ask::Question { question, context, default, required, choices, secret } => {
                Self::Question(interrupt::Question {
                    question: question.clone(),
                    context: context.clone(),
                    default: default.clone(),
                    required: *required,
                    choices: choices.clone(),
                    secret: *secret,
                })
            }
        }
    }
}

impl TryFrom<interrupt::Ask> for Ask {
    type Error = WireError;

    fn try_from(ask: interrupt::Ask) -> Result<Self, WireError> {
        Ok(match ask {
            interrupt::Ask::Approval(approval) => Self::Approval {
                tool: approval.tool,
                args: json(&approval.args_json, "the arguments of an approval")?,
                risk: Wire::from_wire(approval.risk, "the risk of a call")?,
                reason: approval.reason,
                preview: approval.preview,
                // The question is shown even if its policy layer is unknown to this version.
                layer: Wire::from_wire(approval.layer, "the layer of a rule").unwrap_or_default(),
                rule: approval.rule,
                // An older daemon sends at most one grant.
                grants: if approval.grants.is_empty() { approval.grant.into_iter().collect() } else { approval.grants },
                wider: approval.wider,
                for_good: approval.for_good,
                // The owner is internal to the daemon.
                owner: None,
            },
            interrupt::Ask::Question(asked) => {
                let interrupt::Question { question, context, default, required, choices, secret } = asked;
                Self::Question { question, context, default, required, choices, secret }
            }
        })
    }
}

impl Wire<Option<interrupt::Ask>> for Ask {
    fn to_wire(&self) -> Option<interrupt::Ask> {
        Some(self.into())
    }

    fn from_wire(wire: Option<interrupt::Ask>, _: &'static str) -> Result<Self, WireError> {
        wire.ok_or(WireError::Unknown("the request of an interrupt"))?.try_into()
    }
}

impl From<&Answer> for v1::Answer {
    fn from(answer: &Answer) -> Self {
        let answer = match answer {
            Answer::Approve => WireAnswer::Approve(answer::Approve {}),
            Answer::Reject { reason } => WireAnswer::Reject(answer::Reject { reason: reason.clone() }),
            Answer::Always { scope } => WireAnswer::Always(answer::Always { scope: scope.to_wire(), rule: None }),
            Answer::Keep { rule, scope } => {
                WireAnswer::Always(answer::Always { scope: scope.to_wire(), rule: Some(rule.clone()) })
            }
            Answer::Edit { args } => WireAnswer::Edit(answer::Edit { args_json: args.to_string() }),
            Answer::Text { text } => WireAnswer::Text(answer::Text { text: text.clone() }),
        };
        Self { answer: Some(answer) }
    }
}

impl TryFrom<v1::Answer> for Answer {
    type Error = WireError;

    fn try_from(answer: v1::Answer) -> Result<Self, WireError> {
        Ok(match answer.answer.ok_or(WireError::Unknown("an answer"))? {
            WireAnswer::Approve(_) => Self::Approve,
            WireAnswer::Reject(reject) => Self::Reject { reason: reject.reason },
            WireAnswer::Always(always) => {
                let scope = or_default(always.scope, "the scope of a rule")?;
                match always.rule {
                    Some(rule) => Self::Keep { rule, scope },
                    None => Self::Always { scope },
                }
            }
            WireAnswer::Edit(edit) => Self::Edit { args: json(&edit.args_json, "the arguments of an answer")? },
            WireAnswer::Text(text) => Self::Text { text: text.text },
        })
    }
}

impl From<&AnsweredBy> for v1::AnsweredBy {
    fn from(by: &AnsweredBy) -> Self {
        let (answerer, client) = match by {
            AnsweredBy::Client(name) => (Answerer::Client, name.as_str()),
            AnsweredBy::Deadline => (Answerer::Deadline, ""),
            AnsweredBy::Daemon => (Answerer::Daemon, ""),
        };
        Self { answerer: answerer as i32, client: client.to_owned() }
    }
}

impl TryFrom<v1::AnsweredBy> for AnsweredBy {
    type Error = WireError;

    fn try_from(by: v1::AnsweredBy) -> Result<Self, WireError> {
        match Answerer::try_from(by.answerer) {
            Ok(Answerer::Client) => Ok(Self::Client(by.client)),
            Ok(Answerer::Deadline) => Ok(Self::Deadline),
            Ok(Answerer::Daemon) => Ok(Self::Daemon),
            Ok(Answerer::Unspecified) => Err(WireError::Missing("the answerer")),
            Err(_) => Err(WireError::Unknown("the answerer")),
        }
    }
}
