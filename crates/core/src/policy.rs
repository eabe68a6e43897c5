//! Verdicts: what the rules say of a tool call, and why.

use serde::{Deserialize, Serialize};

names! {
    /// Risk of a call.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Risk {
        /// Looks, changes nothing.
        Low = "low",
        /// Changes what can be changed back.
        Medium = "medium",
        /// Runs code that nobody can read beforehand, or changes what is hard to restore.
        High = "high",
        /// May destroy or leak.
        Critical = "critical",
    }
}

/// Verdict of the rules. The order is from mild to strict, so that the strictest is the greatest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person decides.
    Ask {
        /// Its risk.
        risk: Risk,
        /// Why it is asked.
        reason: String,
    },
    /// It may not run, whoever asks.
    Deny {
        /// Reason for the model.
        reason: String,
    },
}

impl Verdict {
    /// Risk of the call, as far as the verdict says.
    pub fn risk(&self) -> Risk {
        match self {
            Self::Allow => Risk::Low,
            Self::Ask { risk, .. } => *risk,
            Self::Deny { .. } => Risk::Critical,
        }
    }

    /// Strictness, whatever the reason: greater is stricter.
    pub fn strictness(&self) -> (u8, Risk) {
        let kind = match self {
            Self::Allow => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        };
        (kind, self.risk())
    }

    /// The same verdict for another reason, made of its own.
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
    /// Which layer of the rules decided.
    #[derive(Hash)]
    pub enum Layer {
        /// The tool's own checker.
        Checker = "checker",
        /// The global patterns.
        Global = "global",
        /// The rules about the tool.
        Tool = "tool",
        /// The defaults: no other layer had an opinion.
        Default = "default",
        /// A rule that a person has kept.
        Grant = "grant",
    }
}

/// A verdict with its reasons, for people: which layer and which rule decided, about the whole and about each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The tool's name.
    pub tool: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule that decided: the key of a rule file and its pattern, or a sentence about a built-in one.
    pub rule: String,
    /// The parts of a compound command, in the order in which they stand; empty for other tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartExplanation>,
    /// The exact rules that an `always` would keep, one for each part that needs one. Empty where nothing needs one, or
    /// where no rule could be exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// Rules that reach further, one of which may be kept instead. The last reaches furthest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wider: Vec<String>,
    /// The kept rules that let it run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// The path that the call would read, where the one that it names leads there through a link. Then it was judged
    /// under both names, and this is the stricter verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
}

impl Explanation {
    /// The rule of a part of a command that is on the list of those that only look.
    pub const ONLY_LOOKS: &'static str = "it only looks, inside the session's folders";

    /// Returns whether the call may run because each of its parts only looks: nobody granted it, no rule allows it, and
    /// it would run the same with asking on.
    pub fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && !self.parts.is_empty() && self.parts.iter().all(PartExplanation::only_looks)
    }

    /// The rule of a call that runs because of the session's mode `auto`.
    pub const BY_AUTO: &'static str = "the session's mode is auto";

    /// The limits of the call, if it runs by this verdict.
    pub fn confinement(&self) -> Confinement {
        let of = |layer: Layer, rule: &str| match layer {
            Layer::Default if rule == Self::BY_AUTO => Confinement::Guarded,
            // A kept rule by prefix. A person who lets git record means that it writes to its own folder.
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

/// Limits of what a call runs, by how closely a person looked at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Those of every command: a person looked at this very call, or wrote a rule about it.
    #[default]
    Usual,
    /// Nobody looked at this very call: what others run or obey by themselves in a folder of the person, such as `.git`,
    /// cannot be changed, and is taken back where it was changed all the same.
    Guarded,
    /// The same of a command of git, which writes to its own folder: only what git runs or obeys there is taken back.
    GuardedGit,
    /// Nobody was asked, because it only looks: nothing can be changed, and no network is there.
    ReadOnly,
}

impl Confinement {
    /// Returns true if what the call leaves behind is checked when it ends.
    #[must_use]
    pub fn is_checked(self) -> bool {
        matches!(self, Self::Guarded | Self::GuardedGit)
    }
}

/// State of the sandbox of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxState {
    /// Behaviour where the kernel offers less: `enforce`, `best_effort` or `off`.
    pub mode: String,
    /// Set if commands run at all.
    pub runs: bool,
    /// The version of Landlock's interface, 0 without Landlock.
    pub landlock: u32,
    /// Set if system calls are filtered.
    pub seccomp: bool,
    /// Set if a command has a process table, a `/tmp` and a read-only file system of its own.
    pub namespaces: bool,
    /// Set if commands may use the network.
    pub network: bool,
    /// Weaknesses, one sentence each.
    pub weaknesses: Vec<String>,
}

/// Explanation of one part of a compound command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartExplanation {
    /// The part as it was understood: programs and arguments without needless quotes.
    pub text: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule that decided.
    pub rule: String,
}

impl PartExplanation {
    fn only_looks(&self) -> bool {
        self.verdict == Verdict::Allow && self.layer == Layer::Default && self.rule == Explanation::ONLY_LOOKS
    }
}
