//! Kept rules: what a person allowed for a session or for good.
//!
//! - `run_bash_command: git status`: this one part of a command, to the letter of its normal form. Variables and
//!   redirections around it belong to it. A folder to start in stands in front: `run_bash_command: [in /project] make`.
//! - `run_bash_command: cargo test *`: every part that begins with these words, sets no variables, writes no files and
//!   is of medium risk at the most. Only people write such rules; none is ever proposed.
//! - `write_file`: every call of this tool of medium risk at the most.
//! - `deploy {"to":"test"}`: this one call of a tool that runs something.

use agentd_core::{grant::Grant, policy::Risk};

use super::{
    command::{Part, Redirect},
    judge::SHELL_TOOL,
};

/// The kept rules that count for a call.
pub(super) struct Grants<'a> {
    rules: Vec<&'a str>,
}

/// What a rule would have to name.
pub(super) enum Wanted<'a> {
    /// A part of a command that starts in this folder.
    Part { part: &'a Part, folder: Option<&'a str> },
    /// Any call of a tool.
    Tool(&'a str),
    /// One call of a tool, to the letter.
    Call(&'a str),
}

impl<'a> Grants<'a> {
    pub(super) fn new(rules: impl IntoIterator<Item = &'a Grant>) -> Self {
        Self { rules: rules.into_iter().map(|grant| grant.rule.as_str()).collect() }
    }

    /// The rule that covers what is wanted at this risk.
    pub(super) fn covering(&self, wanted: &Wanted<'_>, risk: Risk) -> Option<&'a str> {
        if risk == Risk::Critical {
            return None;
        }
        let exact = wanted.exact();
        if risk <= wanted.highest()
            && let Some(exact) = exact
            && let Some(rule) = self.rules.iter().find(|rule| **rule == exact)
        {
            return Some(rule);
        }
        let Wanted::Part { part, folder: None } = wanted else { return None };
        self.rules.iter().copied().find(|rule| risk <= Risk::Medium && is_wide(rule, part))
    }
}

impl Wanted<'_> {
    /// The rule that names exactly this, if one can.
    pub(super) fn exact(&self) -> Option<String> {
        match self {
            Self::Part { part, folder } => {
                let place = folder.map(|folder| format!("[in {folder}] ")).unwrap_or_default();
                let exact = part.is_static().then(|| format!("{SHELL_TOOL}: {place}{}", part.exact()));
                // `ls *` as a rule would mean every `ls`.
                exact.filter(|exact| !exact.ends_with(" *"))
            }
            Self::Tool(name) => Some((*name).to_owned()),
            Self::Call(call) => Some((*call).to_owned()),
        }
    }

    /// The highest risk that an exact rule can cover.
    pub(super) fn highest(&self) -> Risk {
        match self {
            Self::Part { .. } | Self::Call(_) => Risk::High,
            Self::Tool(_) => Risk::Medium,
        }
    }
}

/// Whether a rule that ends in ` *` covers the part.
fn is_wide(rule: &str, part: &Part) -> bool {
    let Some(words) = rule.strip_prefix(SHELL_TOOL).and_then(|rule| rule.strip_prefix(": ")) else { return false };
    let Some(words) = words.strip_suffix(" *") else { return false };
    let mut words = words.split_ascii_whitespace().peekable();
    let plain = part.is_static() && part.assigns.is_empty() && part.redirects.iter().all(Redirect::is_harmless);
    plain && words.peek().is_some() && {
        let mut actual = part.words.iter();
        words.all(|word| actual.next().is_some_and(|next| !next.globs && next.text == word))
    }
}
