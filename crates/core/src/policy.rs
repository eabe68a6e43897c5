//! Verdicts of the policy on tool calls, with their reasons.

use serde::{Deserialize, Serialize};

names! {
    /// Risk of a call.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Risk {
        /// Reads only, and changes nothing.
        Low = "low",
        /// Makes changes that can be reverted.
        Medium = "medium",
        /// Runs code that cannot be reviewed beforehand, or makes changes that are hard to revert.
        High = "high",
        /// May destroy or leak data.
        Critical = "critical",
    }
}

/// Verdict of the rules, ordered from mild to strict, so that the strictest is the greatest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Allow,
    /// The user decides on the call.
    Ask {
        /// Risk of the call.
        risk: Risk,
        /// Reason why approval is required.
        reason: String,
    },
    /// The call may not run, and no approval can change that.
    Deny {
        /// Reason, sent to the model.
        reason: String,
    },
}

impl Verdict {
    /// Returns the risk of the call according to the verdict.
    pub fn risk(&self) -> Risk {
        match self {
            Self::Allow => Risk::Low,
            Self::Ask { risk, .. } => *risk,
            Self::Deny { .. } => Risk::Critical,
        }
    }

    /// Returns the strictness regardless of the reason: greater is stricter.
    pub fn strictness(&self) -> (u8, Risk) {
        let kind = match self {
            Self::Allow => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        };
        (kind, self.risk())
    }

    /// Returns the same verdict with a reason derived from the current reason.
    #[must_use]
    pub fn because(self, make: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Allow => Self::Allow,
            Self::Ask { risk, reason } => Self::Ask { risk, reason: make(reason) },
            Self::Deny { reason } => Self::Deny { reason: make(reason) },
        }
    }
}

names! {
    /// Layer of the rules that decided.
    #[derive(Hash)]
    pub enum Layer {
        /// The tool's own checker.
        Checker = "checker",
        /// The patterns for all tools.
        Global = "global",
        /// The rules for the tool.
        Tool = "tool",
        /// The defaults, because no other layer decided.
        Default = "default",
        /// A rule that the user has granted.
        Grant = "grant",
    }
}

/// A verdict with its reasons, for users: the deciding layer and rule, for the whole call and for each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Name of the tool.
    pub tool: String,
    /// Verdict on the call.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Layer of the deciding rule.
    pub layer: Layer,
    /// Rule that determined the verdict: the key of a rule file with its pattern, or a sentence about a built-in rule.
    pub rule: String,
    /// Parts of a compound command, in order; empty for other tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartExplanation>,
    /// Exact rules that `always` would grant, one for each part that needs approval. Empty if no part needs approval,
    /// or if no rule could be exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// Broader rules, one of which may be granted instead, broadest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wider: Vec<String>,
    /// Granted rules that let the call run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// Target of the path argument, if the path leads through a link. The call was then judged under both names, and
    /// this is the stricter verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
}

impl Explanation {
    /// Rule for a part of a command that is on the list of read-only commands.
    pub const ONLY_LOOKS: &'static str = "it only reads, inside the session's folders";

    /// Returns true if the call may run because each of its parts only reads, and not because of a grant, another rule
    /// or the session's mode.
    pub fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && !self.parts.is_empty() && self.parts.iter().all(PartExplanation::only_looks)
    }

    /// Rule for a call that runs because of the session's mode `auto`.
    pub const BY_AUTO: &'static str = "the session's mode is auto";

    /// Returns the limits of the call, if the call runs under this verdict.
    pub fn confinement(&self) -> Confinement {
        let of = |layer: Layer, rule: &str| match layer {
            Layer::Default if rule == Self::BY_AUTO => Confinement::Guarded,
            // A granted prefix rule. Granting git commands implies that git writes to its own folder.
            Layer::Grant if rule.ends_with(" *") && rule.contains(": git ") => Confinement::GuardedGit,
            Layer::Grant if rule.ends_with(" *") => Confinement::Guarded,
            _ => Confinement::Usual,
        };
        if self.only_looks() {
            return Confinement::ReadOnly;
        }
        if self.verdict != Verdict::Allow {
            return Confinement::Usual;
        }
        let parts = self.parts.iter().map(|part| of(part.layer, &part.rule));
        let all: Vec<Confinement> = parts.chain([of(self.layer, &self.rule)]).collect();
        let strictest = [Confinement::Guarded, Confinement::GuardedGit].into_iter().find(|limits| all.contains(limits));
        strictest.unwrap_or_default()
    }
}

/// Limits of a call's processes, depending on how closely a user has reviewed the call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Limits of every command, for a call that the user approved or wrote a rule about.
    #[default]
    Usual,
    /// Limits for a call that was not reviewed. Files in a user folder that other programs execute or follow
    /// automatically, such as `.git`, cannot be changed, and are restored if they change nevertheless.
    Guarded,
    /// Same as `Guarded`, but for git commands, which write to git's own folder. Only entries that git executes or
    /// follows are restored.
    GuardedGit,
    /// Limits for a call that needs no approval because it only reads. It can change nothing and has no network.
    ReadOnly,
}

impl Confinement {
    /// Returns true if the files are checked after the call.
    #[must_use]
    pub fn is_checked(self) -> bool {
        matches!(self, Self::Guarded | Self::GuardedGit)
    }
}

/// State of the sandbox for commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxState {
    /// Behaviour if the kernel lacks sandbox features: `enforce`, `best_effort` or `off`.
    pub mode: String,
    /// True if commands run at all.
    pub runs: bool,
    /// Version of the Landlock ABI; 0 without Landlock.
    pub landlock: u32,
    /// True if system calls are filtered.
    pub seccomp: bool,
    /// True if a command has its own process table and `/tmp`, and a read-only file system.
    pub namespaces: bool,
    /// True if commands may use the network.
    pub network: bool,
    /// Weaknesses of the sandbox, one sentence each.
    pub weaknesses: Vec<String>,
}

/// Explanation of one part of a compound command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartExplanation {
    /// The part as parsed: program and arguments without redundant quotes.
    pub text: String,
    /// Verdict on this part.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Layer of the deciding rule.
    pub layer: Layer,
    /// Rule that determined the verdict.
    pub rule: String,
}

impl PartExplanation {
    fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && self.layer == Layer::Default && self.rule == Explanation::ONLY_LOOKS
    }
}
