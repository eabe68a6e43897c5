//! Kept rules: what a person allowed for a session or for good.
//!
//! - `run_bash_command: git status`: this one simple command, to the letter of its normal form. Variables and redirections
//!   around it belong to it. A folder to start in stands in front: `run_bash_command: [in /project] make`. Without one it
//!   means wherever commands start that name no folder; `run_bash_command: [at /home/me/app] make` names a folder of this
//!   machine in the project, by whatever name the session has it.
//! - `run_bash_command: printf x | make -f -`: this one pipeline. A rule for one command of it says nothing of that command
//!   where something is piped into it.
//! - `run_bash_command: cargo test *`: every command that begins with these words, is nothing but plain words, runs no
//!   other command, names no path outside the session's folders and no secret, and is of medium risk at the most. Such a
//!   rule is offered for the programs of `judge::prefix` and one session; others are written by people.
//! - `write_file`: every call of this tool of medium risk at the most.
//! - `deploy {"to":"test"}`: this one call of a tool that runs something.
//! - `mcp_lab_weather`, `mcp_lab_*`: every call of this tool of an MCP server, or of any tool of it, of medium risk at the most.
//!   The first is the name that is made of the server's and the tool's, also where models call the tool otherwise.

use std::path::Path;

use agentd_core::{grant::Grant, policy::Risk};

use super::{
    checker::{carriers, is_tame},
    command::{Part, Redirect, Stdin, exact, word::Word},
    judge::SHELL_TOOL,
};

/// The kept rules that count for a call.
pub(super) struct Grants<'a> {
    rules: Vec<&'a str>,
    /// The session's folders, which a wide rule does not lead out of.
    roots: &'a [&'a Path],
}

/// Text that a rule would have to name.
pub(super) enum NeededText<'a> {
    /// A simple command, or a whole pipeline, that starts in this folder.
    /// Rules may have other names of it.
    Pipeline { parts: &'a [Part], folder: Option<&'a str>, other_names: &'a [String] },
    /// Any call of a tool.
    Tool(&'a str),
    /// One call of a tool, to the letter.
    Call(&'a str),
}

impl<'a> Grants<'a> {
    pub(super) fn new(rules: impl IntoIterator<Item = &'a Grant>, roots: &'a [&'a Path]) -> Self {
        Self { rules: rules.into_iter().map(|grant| grant.rule.as_str()).collect(), roots }
    }

    /// Returns whether a rule by prefix would cover a command of medium risk.
    pub(super) fn would_cover(&self, rule: &str, part: &Part) -> bool {
        covers(rule, part, self.roots)
    }

    /// The rule that covers what is wanted at this risk.
    pub(super) fn covering(&self, wanted: &NeededText<'_>, risk: Risk) -> Option<&'a str> {
        if risk == Risk::Critical {
            return None;
        }
        let exact = wanted.exact();
        if risk <= wanted.highest()
            && let Some(exact) = exact
            && let Some(rule) = self.rules.iter().find(|rule| **rule == exact || wanted.is_also(rule))
        {
            return Some(rule);
        }
        let NeededText::Pipeline { parts: [part], folder: None, .. } = wanted else { return None };
        self.rules.iter().copied().find(|rule| risk <= Risk::Medium && covers(rule, part, self.roots))
    }
}

impl NeededText<'_> {
    /// The rule that names exactly this, if one can.
    pub(super) fn exact(&self) -> Option<String> {
        match self {
            Self::Pipeline { parts, folder, .. } => {
                // What is piped into a command alone belongs to no rule about it.
                let alone = parts.first().is_none_or(|first| first.stdin != Stdin::Pipe);
                let place = folder.map(|folder| format!("[in {folder}] ")).unwrap_or_default();
                let known = alone && parts.iter().all(Part::is_static);
                let exact = known.then(|| format!("{SHELL_TOOL}: {place}{}", exact(parts)));
                // `ls *` as a rule would mean every `ls`.
                exact.filter(|exact| !exact.ends_with(" *"))
            }
            Self::Tool(name) => Some((*name).to_owned()),
            Self::Call(call) => Some((*call).to_owned()),
        }
    }

    /// Returns whether a rule names exactly this, with another name of the folder. To be asked where there is an exact
    /// rule.
    fn is_also(&self, rule: &str) -> bool {
        let Self::Pipeline { parts, other_names, .. } = self else { return false };
        let Some(text) = rule.strip_prefix(SHELL_TOOL).and_then(|rule| rule.strip_prefix(": ")) else { return false };
        let command = other_names.iter().find_map(|name| text.strip_prefix(name.as_str())?.strip_prefix(' '));
        command.is_some_and(|command| command == exact(parts))
    }

    /// The highest risk that an exact rule can cover.
    pub(super) fn highest(&self) -> Risk {
        match self {
            Self::Pipeline { .. } | Self::Call(_) => Risk::High,
            Self::Tool(_) => Risk::Medium,
        }
    }
}

/// Returns whether a rule that ends in ` *` covers the part. What stands in place of the star stays in the session's
/// folders: who allows `cargo test *` does not think of `--target-dir /etc`.
fn covers(rule: &str, part: &Part, roots: &[&Path]) -> bool {
    let Some(words) = rule.strip_prefix(SHELL_TOOL).and_then(|rule| rule.strip_prefix(": ")) else { return false };
    let Some(words) = words.strip_suffix(" *") else { return false };
    let plain = part.words.iter().all(Word::is_plain)
        && part.assigns.is_empty()
        && part.redirects.iter().all(Redirect::is_harmless)
        && part.stdin != Stdin::Pipe
        && !part.behind
        && !carriers::carries(part);
    let mut actual = part.words.iter();
    let mut granted = words.split_ascii_whitespace().peekable();
    let begins = granted.peek().is_some() && granted.all(|word| actual.next().is_some_and(|next| next.text == word));
    plain && begins && actual.all(|word| is_tame(word, roots))
}
