//! `hitl_rules.yaml` as it is written: every key may be absent, and layers of files lie over each other.

use std::collections::BTreeMap;

use agentd_core::policy::Risk;
use serde::Deserialize;

/// A file of rules, or several laid over each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleFile {
    /// Rules for all tools.
    pub global: Option<GlobalRules>,
    /// Rules for one tool, by its name.
    pub tools: Option<BTreeMap<String, ToolRules>>,
}

/// Rules for all tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GlobalRules {
    /// Set if people are asked at all. What is denied stays denied.
    pub enable_approval: Option<bool>,
    /// Action on a call that changes or runs something and that no rule speaks of.
    pub default_action: Option<Action>,
    /// Patterns that are looked for in the arguments of every tool.
    pub risk_patterns: Option<RiskPatterns>,
    /// Names of files that others run or obey, besides those that are built in.
    pub guarded_names: Option<Vec<String>>,
}

/// Patterns for all tools, by risk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RiskPatterns {
    /// May destroy or leak.
    pub critical: Option<PatternList>,
    /// Hard to restore.
    pub high: Option<PatternList>,
    /// Can be changed back.
    pub medium: Option<PatternList>,
    /// Harmless.
    pub low: Option<PatternList>,
}

/// Patterns of one risk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PatternList {
    /// Regular expressions.
    pub patterns: Option<Vec<String>>,
    /// Action on a call in which one is found.
    pub action: Option<Action>,
    /// Why, for the person who is asked.
    pub reason: Option<String>,
}

/// Rules for one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRules {
    /// Set if this section counts.
    pub enabled: Option<bool>,
    /// Regular expressions, by risk.
    pub patterns: Option<ByLevel<Vec<String>>>,
    /// Action on a call in which one is found, by risk.
    pub actions: Option<ByLevel<Action>>,
    /// Programs that are never run, each perhaps with words that follow, such as `git push`; a `*` at the end stands
    /// for any ending. Only for commands.
    pub deny: Option<Vec<String>>,
    /// Set if commands may use the network. Only for commands.
    pub network: Option<bool>,
}

/// One value for each level of a tool's section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "T: Deserialize<'de>"))]
pub struct ByLevel<T> {
    /// May destroy or leak.
    pub critical: Option<T>,
    /// Hard to restore.
    pub high_risk: Option<T>,
    /// Can be changed back.
    pub medium_risk: Option<T>,
    /// Harmless.
    pub low_risk: Option<T>,
}

impl<T> Default for ByLevel<T> {
    fn default() -> Self {
        Self { critical: None, high_risk: None, medium_risk: None, low_risk: None }
    }
}

/// Action on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It runs.
    Allow,
    /// A person decides.
    #[serde(alias = "prompt")]
    RequireApproval,
    /// It does not run.
    Deny,
}

/// Takes the upper layer's values where it has any and says which keys it took.
macro_rules! overlay {
    ($under:expr, $over:expr, $key:expr, $note:expr, $($field:ident),*) => {$(
        if let Some(value) = $over.$field {
            $under.$field = Some(value);
            $note(format!("{}.{}", $key, stringify!($field)));
        }
    )*};
}

impl RuleFile {
    /// Lays another file over this one: what it names replaces what was there, key by key, and lists are never joined.
    /// `note` is told the key of every value that it sets.
    pub fn overlay(&mut self, over: Self, note: &mut dyn FnMut(String)) {
        if let Some(global) = over.global {
            self.global.get_or_insert_default().overlay(global, note);
        }
        for (name, tool) in over.tools.into_iter().flatten() {
            let under = self.tools.get_or_insert_default().entry(name.clone()).or_default();
            under.overlay(tool, &format!("tools.{name}"), note);
        }
    }
}

impl GlobalRules {
    fn overlay(&mut self, over: Self, note: &mut dyn FnMut(String)) {
        overlay!(self, over, "global", note, enable_approval, default_action, guarded_names);
        let Some(patterns) = over.risk_patterns else { return };
        let under = self.risk_patterns.get_or_insert_default();
        let pairs = [
            (&mut under.critical, patterns.critical, Risk::Critical),
            (&mut under.high, patterns.high, Risk::High),
            (&mut under.medium, patterns.medium, Risk::Medium),
            (&mut under.low, patterns.low, Risk::Low),
        ];
        for (under, over, risk) in pairs {
            let Some(over) = over else { continue };
            let under = under.get_or_insert_default();
            let key = format!("global.risk_patterns.{}", risk.as_str());
            overlay!(under, over, key, note, patterns, action, reason);
        }
    }
}

impl ToolRules {
    fn overlay(&mut self, over: Self, key: &str, note: &mut dyn FnMut(String)) {
        overlay!(self, over, key, note, enabled, deny, network);
        if let Some(patterns) = over.patterns {
            let under = self.patterns.get_or_insert_default();
            let key = format!("{key}.patterns");
            overlay!(under, patterns, key, note, critical, high_risk, medium_risk, low_risk);
        }
        if let Some(actions) = over.actions {
            let under = self.actions.get_or_insert_default();
            let key = format!("{key}.actions");
            overlay!(under, actions, key, note, critical, high_risk, medium_risk, low_risk);
        }
    }
}

impl<T> ByLevel<T> {
    /// The values with their risks and the words under which a file has them.
    pub(crate) fn levels(&self) -> [(Risk, &'static str, Option<&T>); 4] {
        [
            (Risk::Critical, "critical", self.critical.as_ref()),
            (Risk::High, "high_risk", self.high_risk.as_ref()),
            (Risk::Medium, "medium_risk", self.medium_risk.as_ref()),
            (Risk::Low, "low_risk", self.low_risk.as_ref()),
        ]
    }
}

impl RiskPatterns {
    /// The lists with their risks.
    pub(crate) fn levels(&self) -> [(Risk, Option<&PatternList>); 4] {
        [
            (Risk::Critical, self.critical.as_ref()),
            (Risk::High, self.high.as_ref()),
            (Risk::Medium, self.medium.as_ref()),
            (Risk::Low, self.low.as_ref()),
        ]
    }
}
