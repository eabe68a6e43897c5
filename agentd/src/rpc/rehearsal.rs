//! Verdicts of other rules on the calls in the audit log. Pure: calls in, counted changes out.

use std::collections::HashMap;

use agentd_core::{
    audit::{AuditFact, AuditLine, Decision},
    policy::Verdict,
    tool::{FollowedLink, ToolSpec},
};
use agentd_engine::{DryRunSubject, LookedUp, unknown_tool};
use agentd_policy::Policy;
use agentd_proto::client::{AuditChange, AuditComparison, Comparison, PolicyCall};
use serde_json::Value;

/// Maximum number of distinct kinds of changes. Further ones are added to the most similar one.
const MOST_KINDS: usize = 200;
/// By this the log says that a text is not kept whole.
const CUT: &str = "[cut: ";

/// Two sets of rules, side by side.
pub(crate) struct PolicyDryRun<'a> {
    now: &'a Policy,
    then: &'a Policy,
    tools: &'a [ToolSpec],
    calls: u64,
    skipped: u64,
    kinds: HashMap<Kind, AuditChange>,
}

/// Common part of changes of one kind: the tool, the verdicts, and the rule that would decide.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Kind {
    tool: String,
    now: u8,
    then: u8,
    rule: String,
}

impl<'a> PolicyDryRun<'a> {
    /// These rules against those, for these tools.
    pub(crate) fn new(now: &'a Policy, then: &'a Policy, tools: &'a [ToolSpec]) -> Self {
        Self { now, then, tools, calls: 0, skipped: 0, kinds: HashMap::new() }
    }

    /// Judges a decision again. It is judged by the arguments that the model had written and by where their path led
    /// then, where the session stands now. Of links in lines of earlier versions nobody knows any more where they led.
    pub(crate) fn judge(&mut self, decision: &Decision, standpoint: &DryRunSubject) {
        let arguments = match &decision.args {
            Value::String(text) => text.clone(),
            args => args.to_string(),
        };
        let leads_to = decision.leads_to.as_deref();
        if [Some(arguments.as_str()), leads_to].into_iter().flatten().any(|text| text.contains(CUT)) {
            self.skipped += 1;
            return;
        }
        self.calls += 1;
        let unknown;
        let tool = match self.tools.iter().find(|tool| tool.name == decision.tool) {
            Some(tool) => tool,
            None => {
                unknown = unknown_tool(&decision.tool);
                &unknown
            }
        };
        let followed = leads_to.and_then(|leads_to| FollowedLink::known(&arguments, leads_to));
        // Where a command started then, no log tells.
        let looked_up = LookedUp { followed, start: None };
        let comparison = Comparison {
            now: standpoint.judge(self.now, tool, &arguments, &looked_up),
            then: standpoint.judge(self.then, tool, &arguments, &looked_up),
            call: PolicyCall { tool: decision.tool.clone(), arguments },
        };
        if comparison.changes() {
            self.count(comparison);
        }
    }

    fn count(&mut self, comparison: Comparison) {
        let (now, then) = (rank(&comparison.now.verdict), rank(&comparison.then.verdict));
        let rule = comparison.then.rule.clone();
        let mut kind = Kind { tool: comparison.call.tool.clone(), now, then, rule };
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&kind) {
            // From here on by the verdicts alone, of which there are few.
            kind.tool.clear();
            kind.rule.clear();
        }
        let change = self.kinds.entry(kind).or_insert_with(|| AuditChange { count: 0, example: comparison.clone() });
        change.count += 1;
        change.example = comparison;
    }

    /// The outcome, the most frequent changes first.
    #[must_use]
    pub(crate) fn outcome(self) -> AuditComparison {
        let mut changes: Vec<AuditChange> = self.kinds.into_values().collect();
        changes.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.example.then.rule.cmp(&b.example.then.rule)));
        AuditComparison { calls: self.calls, skipped: self.skipped, changes }
    }
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

/// The decision that a line tells of, if it tells of one.
pub(crate) fn decision(line: &AuditLine) -> Option<&Decision> {
    match &line.entry.fact {
        AuditFact::CallDecided(decision) => Some(decision),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        audit::{DecidedBy, Requester, VerdictName},
        tool::Effect,
    };
    use agentd_policy::{RuleFile, Rules, SHELL_TOOL, file::ToolRules};
    use serde_json::json;

    use super::*;

    fn denying(program: &str) -> Policy {
        let shell = ToolRules { deny: Some(vec![program.to_owned()]), ..ToolRules::default() };
        let file = RuleFile { tools: Some([(SHELL_TOOL.to_owned(), shell)].into()), ..RuleFile::default() };
        Policy::new(Rules::compile(&file).unwrap())
    }

    fn ran(tool: &str, args: Value) -> Decision {
        Decision {
            tool: tool.to_owned(),
            args,
            leads_to: None,
            asked_by: Requester { model: "m".to_owned(), agent: "main".to_owned() },
            verdict: VerdictName::Allow,
            layer: None,
            rule: None,
            risk: None,
            reason: None,
            granted_by: Vec::new(),
            allowed: true,
            by: DecidedBy::Rules,
            answer: None,
            reply: None,
        }
    }

    #[test]
    fn changes_of_one_kind_are_counted_together() {
        let (now, then) = (denying("frobnicate"), denying("terraform"));
        let tools = [ToolSpec { effect: Effect::Execute, ..unknown_tool(SHELL_TOOL) }];
        let mut rehearsal = PolicyDryRun::new(&now, &then, &tools);
        let at = DryRunSubject::default();
        for command in ["ls", "terraform plan", "terraform apply", "frobnicate", "make", "x… [cut: 9000 bytes in all]"]
        {
            rehearsal.judge(&ran(SHELL_TOOL, json!({ "command": command })), &at);
        }
        rehearsal.judge(&ran("gone", json!({"a": 1})), &at);
        rehearsal.judge(&ran("broken", json!("{\"a\":")), &at);
        let outcome = rehearsal.outcome();
        assert_eq!((outcome.calls, outcome.skipped), (7, 1));
        let changes: Vec<(u64, &str)> =
            outcome.changes.iter().map(|change| (change.count, change.example.call.arguments.as_str())).collect();
        assert_eq!(changes, [(2, r#"{"command":"terraform apply"}"#), (1, r#"{"command":"frobnicate"}"#)]);
    }

    #[test]
    fn a_read_through_a_link_is_judged_under_both_names() {
        let rules = |pattern: &str| {
            let text =
                format!("tools: {{look: {{patterns: {{high_risk: ['{pattern}']}}, actions: {{high_risk: deny}}}}}}");
            Policy::new(Rules::compile(&serde_saphyr::from_str(&text).unwrap()).unwrap())
        };
        let tools = [ToolSpec { effect: Effect::Read, ..unknown_tool("look") }];
        let check_args = |args: Value, leads_to: Option<&str>, pattern: &str, denied: u64| {
            let (now, then) = (rules("nothing"), rules(pattern));
            let mut rehearsal = PolicyDryRun::new(&now, &then, &tools);
            let decision = Decision { leads_to: leads_to.map(str::to_owned), ..ran("look", args) };
            rehearsal.judge(&decision, &DryRunSubject::default());
            let outcome = rehearsal.outcome();
            let found: u64 = outcome.changes.iter().map(|change| change.count).sum();
            assert_eq!((found, outcome.skipped), (denied, 0), "{leads_to:?} {pattern}");
        };
        let check = |leads_to: Option<&str>, pattern: &str, denied: u64| {
            // Also where the model wrote the name that the argument has elsewhere.
            for name in ["path", "file_path", "dir"] {
                check_args(json!({ name: "docs/a.md" }), leads_to, pattern, denied);
            }
        };
        check(Some("private.txt"), "private", 1);
        check(Some("private.txt"), "a\\.md", 1);
        check(None, "private", 0);
        check(None, "a\\.md", 1);
    }

    #[test]
    fn kinds_are_bounded() {
        let (now, then) = (denying("x"), denying("y"));
        let mut rehearsal = PolicyDryRun::new(&now, &then, &[]);
        let comparison = |number: usize| {
            let said = DryRunSubject::default().judge(&now, &unknown_tool("t"), "{}", &LookedUp::default());
            let call = PolicyCall { tool: format!("t{number}"), arguments: "{}".to_owned() };
            Comparison { call, now: said.clone(), then: said }
        };
        (0..10 * MOST_KINDS).for_each(|number| rehearsal.count(comparison(number)));
        let outcome = rehearsal.outcome();
        assert_eq!(outcome.changes.len(), MOST_KINDS + 1);
        assert_eq!(outcome.changes.iter().map(|change| change.count).sum::<u64>(), 10 * MOST_KINDS as u64);
    }
}
