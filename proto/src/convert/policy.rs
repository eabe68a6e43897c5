//! Verdicts of the rules with their reasons.

use agentd_core::policy::{Explanation, Layer, PartExplanation, Verdict};

use super::{WireError, all, enum_to_wire, optional_enum, part, required};
use crate::{
    v1,
    view::{AuditChange, AuditComparison, Comparison, PolicyCall, RuleText},
};

impl From<&PolicyCall> for v1::PolicyCall {
    fn from(call: &PolicyCall) -> Self {
        Self { tool: call.tool.clone(), arguments_json: call.arguments.clone() }
    }
}

impl TryFrom<v1::PolicyCall> for PolicyCall {
    type Error = WireError;

    fn try_from(call: v1::PolicyCall) -> Result<Self, WireError> {
        if call.tool.is_empty() {
            return Err(WireError::Missing("the tool of a call"));
        }
        Ok(Self { tool: call.tool, arguments: call.arguments_json })
    }
}

impl From<&RuleText> for v1::RuleText {
    fn from(rules: &RuleText) -> Self {
        Self { text: rules.text.clone(), path: rules.path.clone() }
    }
}

impl From<v1::RuleText> for RuleText {
    fn from(rules: v1::RuleText) -> Self {
        Self { text: rules.text, path: rules.path }
    }
}

impl From<&Explanation> for v1::Explanation {
    fn from(said: &Explanation) -> Self {
        let parts = said.parts.iter().map(|part| v1::PartRuling {
            text: part.text.clone(),
            ruling: Some(ruling(&part.verdict, part.layer, &part.rule)),
        });
        Self {
            tool: said.tool.clone(),
            ruling: Some(ruling(&said.verdict, said.layer, &said.rule)),
            parts: parts.collect(),
            grants: said.grants.clone(),
            wider: said.wider.clone(),
            granted_by: said.granted_by.clone(),
            leads_to: said.leads_to.clone(),
        }
    }
}

impl TryFrom<v1::Explanation> for Explanation {
    type Error = WireError;

    fn try_from(said: v1::Explanation) -> Result<Self, WireError> {
        let (verdict, layer, rule) = read(said.ruling)?;
        Ok(Self {
            tool: said.tool,
            verdict,
            layer,
            rule,
            parts: all(said.parts)?,
            grants: said.grants,
            wider: said.wider,
            granted_by: said.granted_by,
            leads_to: said.leads_to,
        })
    }
}

impl TryFrom<v1::PartRuling> for PartExplanation {
    type Error = WireError;

    fn try_from(part: v1::PartRuling) -> Result<Self, WireError> {
        let (verdict, layer, rule) = read(part.ruling)?;
        Ok(Self { text: part.text, verdict, layer, rule })
    }
}

fn ruling(verdict: &Verdict, layer: Layer, rule: &str) -> v1::Ruling {
    let (kind, risk, reason) = match verdict {
        Verdict::Allow => (v1::Verdict::Allow, v1::Risk::Unspecified as i32, ""),
        Verdict::Ask { risk, reason } => (v1::Verdict::Ask, enum_to_wire(*risk), reason.as_str()),
        Verdict::Deny { reason } => (v1::Verdict::Deny, v1::Risk::Unspecified as i32, reason.as_str()),
    };
    let (layer, rule) = (layer.as_str().to_owned(), rule.to_owned());
    v1::Ruling { verdict: kind as i32, risk, reason: reason.to_owned(), layer, rule }
}

fn read(ruling: Option<v1::Ruling>) -> Result<(Verdict, Layer, String), WireError> {
    let v1::Ruling { verdict, risk, reason, layer, rule } = required(ruling, "the verdict on a call")?;
    let verdict = match v1::Verdict::try_from(verdict) {
        Ok(v1::Verdict::Allow) => Verdict::Allow,
        Ok(v1::Verdict::Ask) => Verdict::Ask { risk: required(optional_enum(risk)?, "the risk of a call")?, reason },
        Ok(v1::Verdict::Deny) => Verdict::Deny { reason },
        Ok(v1::Verdict::Unspecified) => return Err(WireError::Missing("the verdict on a call")),
        Err(_) => return Err(WireError::Unknown("the verdict on a call")),
    };
    let layers = [Layer::Checker, Layer::Global, Layer::Tool, Layer::Default, Layer::Grant];
    let layer = layers.into_iter().find(|known| known.as_str() == layer);
    Ok((verdict, layer.ok_or(WireError::Unknown("the layer of a rule"))?, rule))
}

impl From<&Comparison> for v1::Comparison {
    fn from(comparison: &Comparison) -> Self {
        Self {
            call: Some((&comparison.call).into()),
            now: Some((&comparison.now).into()),
            then: Some((&comparison.then).into()),
        }
    }
}

impl TryFrom<v1::Comparison> for Comparison {
    type Error = WireError;

    fn try_from(comparison: v1::Comparison) -> Result<Self, WireError> {
        Ok(Self {
            call: part(comparison.call, "the call of a comparison")?,
            now: part(comparison.now, "what holds now")?,
            then: part(comparison.then, "what would hold")?,
        })
    }
}

impl From<&AuditComparison> for v1::TestAuditResponse {
    fn from(comparison: &AuditComparison) -> Self {
        let changes = comparison
            .changes
            .iter()
            .map(|change| v1::AuditChange { count: change.count, example: Some((&change.example).into()) });
        Self { calls: comparison.calls, skipped: comparison.skipped, changes: changes.collect() }
    }
}

impl TryFrom<v1::TestAuditResponse> for AuditComparison {
    type Error = WireError;

    fn try_from(answer: v1::TestAuditResponse) -> Result<Self, WireError> {
        let changes = answer.changes.into_iter().map(|change| {
            Ok(AuditChange { count: change.count, example: part(change.example, "an example of a change")? })
        });
        Ok(Self { calls: answer.calls, skipped: answer.skipped, changes: changes.collect::<Result<_, WireError>>()? })
    }
}
