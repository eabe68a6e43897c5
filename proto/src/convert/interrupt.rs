//! Interrupts and their answers.

use agentd_core::{
    ids::CallId,
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    policy::{Layer, Risk},
};

use super::{
    WireError, enum_to_wire, id, json, mirrored, moment, optional_enum, optional_moment, required, required_enum,
    to_moment,
};
use crate::v1::{self, answer, interrupt};

mirrored!(Risk, "the risk of a call", [Low, Medium, High, Critical]);

mirrored!(Layer, PolicyLayer, "the layer of a rule", [Checker, Global, Tool, Default, Grant]);

impl From<&AskedBy> for v1::AskedBy {
    fn from(by: &AskedBy) -> Self {
        Self { agent: by.agent.clone(), session_title: by.session_title.clone(), client: by.client.clone() }
    }
}

impl From<v1::AskedBy> for AskedBy {
    fn from(by: v1::AskedBy) -> Self {
        Self { agent: by.agent, session_title: by.session_title, client: by.client }
    }
}

impl From<&Interrupt> for v1::Interrupt {
    fn from(interrupt: &Interrupt) -> Self {
        Self {
            id: interrupt.id.to_string(),
            session_id: interrupt.session_id.to_string(),
            turn_id: interrupt.turn_id.to_string(),
            call_id: interrupt.call_id.as_ref().map(ToString::to_string),
            raised_at: Some(to_moment(interrupt.raised_at)),
            deadline: interrupt.deadline.map(to_moment),
            on_deadline: interrupt.on_deadline.as_ref().map(Into::into),
            asked_by: Some((&interrupt.asked_by).into()),
            ask: Some((&interrupt.ask).into()),
        }
    }
}

impl TryFrom<v1::Interrupt> for Interrupt {
    type Error = WireError;

    fn try_from(interrupt: v1::Interrupt) -> Result<Self, WireError> {
        Ok(Self {
            id: id(&interrupt.id)?,
            session_id: id(&interrupt.session_id)?,
            turn_id: id(&interrupt.turn_id)?,
            call_id: interrupt.call_id.map(CallId::from),
            asked_by: interrupt.asked_by.map(Into::into).unwrap_or_default(),
            ask: interrupt.ask.ok_or(WireError::Unknown("what an interrupt asks"))?.try_into()?,
            raised_at: moment(interrupt.raised_at, "the time of an interrupt")?,
            deadline: optional_moment(interrupt.deadline, "the deadline of an interrupt")?,
            on_deadline: interrupt.on_deadline.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<&Ask> for interrupt::Ask {
    fn from(ask: &Ask) -> Self {
        match ask {
            Ask::Approval { tool, args, risk, reason, preview, layer, rule, grants, wider, for_good, owner: _ } => {
                Self::Approval(interrupt::Approval {
                    tool: tool.clone(),
                    args_json: args.to_string(),
                    risk: enum_to_wire(*risk),
                    reason: reason.clone(),
                    preview: preview.clone(),
                    grant: <&[String; 1]>::try_from(grants.as_slice()).ok().map(|[grant]| grant.clone()),
                    grants: grants.clone(),
                    wider: wider.clone(),
                    for_good: for_good.clone(),
                    layer: layer.map(enum_to_wire).unwrap_or_default(),
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
                risk: required_enum(approval.risk)?,
                reason: approval.reason,
                preview: approval.preview,
                // A layer that is newer than we are is no reason not to show the question.
                layer: optional_enum(approval.layer).unwrap_or_default(),
                rule: approval.rule,
                // An older daemon names one at the most.
                grants: if approval.grants.is_empty() { approval.grant.into_iter().collect() } else { approval.grants },
                wider: approval.wider,
                for_good: approval.for_good,
                // For the daemon alone.
                owner: None,
            },
            interrupt::Ask::Question(question) => Self::Question {
                question: question.question,
                context: question.context,
                default: question.default,
                required: question.required,
                choices: question.choices,
                secret: question.secret,
            },
        })
    }
}

impl From<&Answer> for v1::Answer {
    fn from(answer: &Answer) -> Self {
        let answer = match answer {
            Answer::Approve => answer::Answer::Approve(answer::Approve {}),
            Answer::Reject { reason } => answer::Answer::Reject(answer::Reject { reason: reason.clone() }),
            Answer::Always { scope } => {
                answer::Answer::Always(answer::Always { scope: enum_to_wire(*scope), rule: None })
            }
            Answer::Keep { rule, scope } => {
                answer::Answer::Always(answer::Always { scope: enum_to_wire(*scope), rule: Some(rule.clone()) })
            }
            Answer::Edit { args } => answer::Answer::Edit(answer::Edit { args_json: args.to_string() }),
            Answer::Text { text } => answer::Answer::Text(answer::Text { text: text.clone() }),
        };
        Self { answer: Some(answer) }
    }
}

impl TryFrom<v1::Answer> for Answer {
    type Error = WireError;

    fn try_from(answer: v1::Answer) -> Result<Self, WireError> {
        Ok(match answer.answer.ok_or(WireError::Unknown("an answer"))? {
            answer::Answer::Approve(_) => Self::Approve,
            answer::Answer::Reject(reject) => Self::Reject { reason: reject.reason },
            answer::Answer::Always(always) => {
                let scope = optional_enum(always.scope)?.unwrap_or_default();
                match always.rule {
                    Some(rule) => Self::Keep { rule, scope },
                    None => Self::Always { scope },
                }
            }
            answer::Answer::Edit(edit) => Self::Edit { args: json(&edit.args_json, "the arguments of an answer")? },
            answer::Answer::Text(text) => Self::Text { text: text.text },
        })
    }
}

impl From<&AnsweredBy> for v1::AnsweredBy {
    fn from(by: &AnsweredBy) -> Self {
        use v1::answered_by::Answerer;
        let (answerer, client) = match by {
            AnsweredBy::Client(name) => (Answerer::Client, name.clone()),
            AnsweredBy::Deadline => (Answerer::Deadline, String::new()),
            AnsweredBy::Daemon => (Answerer::Daemon, String::new()),
        };
        Self { answerer: answerer as i32, client }
    }
}

impl TryFrom<v1::AnsweredBy> for AnsweredBy {
    type Error = WireError;

    fn try_from(by: v1::AnsweredBy) -> Result<Self, WireError> {
        use v1::answered_by::Answerer;
        let answerer = Answerer::try_from(by.answerer).map_err(|_| WireError::Unknown("who answered"))?;
        required(
            match answerer {
                Answerer::Unspecified => None,
                Answerer::Client => Some(Self::Client(by.client)),
                Answerer::Deadline => Some(Self::Deadline),
                Answerer::Daemon => Some(Self::Daemon),
            },
            "who answered",
        )
    }
}
