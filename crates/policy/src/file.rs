//! `hitl_rules.yaml` as written. Every key is optional, and files of several layers are overlaid on each other.

use std::collections::BTreeMap;

use agentd_core::policy::Risk;
use serde::Deserialize;

/// A rule file, or several rule files merged into one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleFile {
    /// Rules for all tools.
    pub global: Option<GlobalRules>,
    /// Rules for individual tools, by name.
    pub tools: Option<BTreeMap<String, ToolRules>>,
}

/// Rules for all tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GlobalRules {
    /// True if the user is asked for approval. Denials apply either way.
    pub enable_approval: Option<bool>,
    /// Action for calls that change files or run something, if no rule matches them.
    pub default_action: Option<Action>,
    /// Patterns that are matched against the arguments of every tool.
    pub risk_patterns: Option<RiskPatterns>,
    /// Names of files that other programs run or obey, in addition to the built-in names.
    pub guarded_names: Option<Vec<String>>,
}

/// Patterns for all tools, by risk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RiskPatterns {
    /// Calls that may destroy or leak data.
    pub critical: Option<PatternList>,
    /// Calls whose effect is hard to restore.
    pub high: Option<PatternList>,
    /// Calls whose effect can be reverted.
    pub medium: Option<PatternList>,
    /// Calls that are harmless.
    pub low: Option<PatternList>,
}

/// Patterns for one risk level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PatternList {
    /// Regular expressions to match.
    pub patterns: Option<Vec<String>>,
    /// Action for calls that match.
    pub action: Option<Action>,
    /// Reason, shown in the approval prompt.
    pub reason: Option<String>,
}

/// Rules for one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRules {
    /// True if this section applies.
    pub enabled: Option<bool>,
    /// Regular expressions, by risk.
    pub patterns: Option<ByLevel<Vec<String>>>,
    /// Action for calls that match, by risk.
    pub actions: Option<ByLevel<Action>>,
    /// Programs that are never run, optionally followed by arguments, such as `git push`. A trailing `*` matches any
    /// ending. Only for commands.
    pub deny: Option<Vec<String>>,
    /// True if commands may use the network. Only for commands.
    pub network: Option<bool>,
}

/// One value for each risk level of a tool's section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "T: Deserialize<'de>"))]
pub struct ByLevel<T> {
    /// Calls that may destroy or leak data.
    pub critical: Option<T>,
    /// Calls whose effect is hard to restore.
    pub high_risk: Option<T>,
    /// Calls whose effect can be reverted.
    pub medium_risk: Option<T>,
    /// Calls that are harmless.
    pub low_risk: Option<T>,
}

impl<T> Default for ByLevel<T> {
    fn default() -> Self {
        Self { critical: None, high_risk: None, medium_risk: None, low_risk: None }
    }
}

/// Action for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The call runs without asking the user.
    Allow,
    /// The user is asked for approval.
    #[serde(alias = "prompt")]
    RequireApproval,
    /// The call does not run.
    Deny,
}

/// Copies each value that the upper layer sets and reports its key to `note`.
macro_rules! overlay {
    ($under:expr, $over:expr, $key:expr, $note:expr, $($field:ident),*) => {$(
        if let Some(value) = $over.$field {
            $under.$field = Some(value);
            $note(format!("{}.{}", $key, stringify!($field)));
        }
    )*};
}

impl RuleFile {
    /// Overlays another file on this one, key by key. Lists are replaced, never joined. Calls `note` with the key of
    /// every value that is set.
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
    /// Returns the values with their risks and their keys in the file.
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
    /// Returns the lists with their risks.
    pub(crate) fn levels(&self) -> [(Risk, Option<&PatternList>); 4] {
        [
            (Risk::Critical, self.critical.as_ref()),
            (Risk::High, self.high.as_ref()),
            (Risk::Medium, self.medium.as_ref()),
            (Risk::Low, self.low.as_ref()),
        ]
    }
}
