//! Verdicts of the policy on tool calls, with reasons.

use serde::{Deserialize, Serialize};

names! {
    /// Risk of a call.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Risk {
        /// Only reads, without any changes.
        Low = "low",
        /// Makes changes that can be reverted.
        Medium = "medium",
        /// Runs code that cannot be reviewed in advance, or makes changes that are hard to revert.
        High = "high",
        /// May destroy or leak data.
        Critical = "critical",
    }
}

/// Verdict of the rules. Ordered by strictness, so that the strictest verdict is the greatest.
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
    /// The call may not run, even with an approval.
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

    /// Returns the strictness regardless of the reason. Greater values are stricter.
    pub fn strictness(&self) -> (u8, Risk) {
        let kind = match self {
            Self::Allow => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        };
        (kind, self.risk())
    }

    /// Returns the same verdict with a reason that `make` derives from the current one.
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
    /// Layer of the deciding rules.
    #[derive(Hash)]
    pub enum Layer {
        /// The checker of the tool itself.
        Checker = "checker",
        /// The patterns that apply to all tools.
        Global = "global",
        /// The rules for this tool.
        Tool = "tool",
        /// The defaults, because no other layer decided.
        Default = "default",
        /// A rule that the user has granted.
        Grant = "grant",
    }
}

/// Verdict with its reasons for users: the deciding layer and rule, for the whole call and for each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Name of the tool.
    pub tool: String,
    /// Verdict on the call.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Layer of the deciding rule.
    pub layer: Layer,
    /// Deciding rule: the key and the pattern in a rule file, or a sentence about a built-in rule.
    pub rule: String,
    /// Parts of a compound command, in order. Empty for other tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartExplanation>,
    /// Exact rules that `always` would grant: one for each part that needs approval. Empty if no part needs approval or
    /// no exact rule is possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// Broader rules, sorted from narrow to broad. One of them may be granted instead of the exact rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wider: Vec<String>,
    /// Granted rules that allow the call to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// Target of the path argument if the path leads through a link. In this case, the rules were evaluated for both
    /// paths, and this is the stricter verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
}

impl Explanation {
    /// Rule for a command part that is on the list of read-only commands.
    pub const ONLY_LOOKS: &'static str = "it only reads, inside the session's folders";

    /// Returns true if the call may run because each of its parts only reads, rather than because of a grant, another
    /// rule or the session's mode.
    pub fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && !self.parts.is_empty() && self.parts.iter().all(PartExplanation::only_looks)
    }

    /// Rule for a call that may run because the session's mode is `auto`.
    pub const BY_AUTO: &'static str = "the session's mode is auto";

    /// Returns the confinement of the call if it runs under this verdict.
    pub fn confinement(&self) -> Confinement {
        let of = |layer: Layer, rule: &str| match layer {
            Layer::Default if rule == Self::BY_AUTO => Confinement::Guarded,
            // A granted prefix rule. A grant for git commands implies that git may write to its own folder.
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

/// Restrictions on a call's processes, depending on how closely a user has reviewed the call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Restrictions for every command. Used for a call that the user approved or wrote a rule for.
    #[default]
    Usual,
    /// Restrictions for a call that was not reviewed. Files in a user folder that other programs execute or follow
    /// automatically, such as `.git`, cannot be changed, and are restored if they change anyway.
    Guarded,
    /// Like `Guarded`, but for git commands, which write to git's own folder. Only entries that git executes or follows
    /// are restored.
    GuardedGit,
    /// Restrictions for a call that needs no approval because it only reads. The call cannot change anything or use the
    /// network.
    ReadOnly,
}

impl Confinement {
    /// Returns true if the files are checked after the call.
    #[must_use]
    pub fn is_checked(self) -> bool {
        matches!(self, Self::Guarded | Self::GuardedGit)
    }
}

/// State of the sandbox in which commands run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxState {
    /// Behaviour if the kernel lacks sandbox features: `enforce`, `best_effort` or `off`.
    pub mode: String,
    /// True if commands can run.
    pub runs: bool,
    /// Version of the Landlock ABI, or 0 without Landlock.
    pub landlock: u32,
    /// True if system calls are filtered.
    pub seccomp: bool,
    /// True if a command has a separate process table and `/tmp`, and a read-only file system.
    pub namespaces: bool,
    /// True if commands may use the network.
    pub network: bool,
    /// Weaknesses of the sandbox, one sentence each.
    pub weaknesses: Vec<String>,
}

/// Explanation of one part of a compound command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartExplanation {
    /// Text of the part as parsed: program and arguments without redundant quotes.
    pub text: String,
    /// Verdict on this part.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Layer of the deciding rule.
    pub layer: Layer,
    /// Rule that determined the verdict on this part.
    pub rule: String,
}

impl PartExplanation {
    fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && self.layer == Layer::Default && self.rule == Explanation::ONLY_LOOKS
    }
}
