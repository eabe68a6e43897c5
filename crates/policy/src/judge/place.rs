//! Working directory of a command: its start folder, changes of folder within the line, and the verdict on acting in
//! that folder. Also decides which parts may accompany a command that a rule by prefix covers: parts that print an exit
//! status, store output or have no effect, so that a rule naming them would be meaningless.

use std::path::Path;

use agentd_core::{
    guide::skills_named,
    policy::{Explanation, Layer, Risk, Verdict},
};
use serde_json::{Map, Value, json};

use super::{Call, CallContext, PROJECT, PartVerdict, read_tool};
use crate::{
    checker::{carriers, environment, files, holds, is_confined},
    command::{Part, Redirect, word::Word},
    grants::{NeededText, other_names},
    opinion::{LayerVerdict, shortened, strictest},
};

/// Name of the workspace, the default folder for commands in a session without a project.
const WORKSPACE: &str = "/";

/// Start folder of a command.
pub(super) struct StartLocation<'a> {
    /// Name of the folder in rules. `None` for the default folder.
    pub(super) folder: Option<&'a str>,
    /// Other names of the folder that rules may use.
    pub(super) other_names: Vec<String>,
    /// True if the start folder is unknown, so that no rule can apply.
    is_unknown: bool,
    /// True if git would apply configuration in the folder whose author is unknown.
    has_foreign_config: bool,
    /// Verdict on any action in the folder, as if the command named the folder as an argument.
    pub(super) secret: Option<LayerVerdict>,
    /// Verdict on reading in the folder.
    pub(super) reading: Option<LayerVerdict>,
}

impl Call<'_> {
    /// Determines the folder in which the command starts.
    pub(super) fn start_location<'p>(&'p self, command: &str, arguments: &'p Map<String, Value>) -> StartLocation<'p> {
        let named = ["directory", "cwd"].iter().find_map(|key| arguments.get(*key)).and_then(Value::as_str);
        let is_mounted = self.facts.roots.contains(&Path::new(PROJECT));
        let default = if is_mounted { PROJECT } else { WORKSPACE };
        let real = self.facts.start.map(|start| start.name.as_str());
        // If the call names a folder, two names are judged: the name as written, and the name after resolving links.
        let both = || named.into_iter().chain(real.filter(|_| named.is_some()));
        let folder = real.filter(|real| named.is_some() || *real != default).or(named);
        StartLocation {
            // Uses the real name, because the name in the call may mean another folder in another session, or later.
            folder,
            other_names: self
                .facts
                .start
                .map(|start| other_names(start, folder.is_none() && !is_mounted))
                .unwrap_or_default(),
            // A bracket in the name could be parsed as the end of the folder in a rule, and the text after it as the
            // command.
            is_unknown: real.is_none() && (named.is_some() || is_mounted && !skills_named(command).is_empty())
                || folder.is_some_and(|folder| folder.contains(']')),
            has_foreign_config: named.is_some_and(|folder| folder != "." && !self.is_root(folder)),
            secret: strictest(both().filter_map(|folder| files::reads(&path(folder)))),
            reading: strictest(both().filter_map(|folder| self.reading(folder))),
        }
    }

    /// Returns the verdict against reading in a folder without a question. Returns `None` if reading is allowed.
    fn reading(&self, folder: &str) -> Option<LayerVerdict> {
        let (tool, arguments) = (read_tool(), Value::Object(path(folder)).to_string());
        let facts = CallContext { tool: &tool, arguments: &arguments, followed: None, ..*self.facts };
        let explanation = self.policy.judge_form(&facts);
        let verdict = explanation.verdict.because(|reason| format!("it starts in {folder}, and {reason}"));
        let opinion = LayerVerdict { verdict, layer: explanation.layer, rule: explanation.rule, dynamic: false };
        (opinion.verdict != Verdict::Allow).then_some(opinion)
    }

    /// Returns true if parts may run in a folder other than the start folder, which rules name. Changing to the current
    /// folder is ignored.
    pub(super) fn leaves(&self, location: &StartLocation<'_>, pipelines: &[Vec<Part>]) -> bool {
        let is_start = |folder: &str| {
            self.facts.start.is_some_and(|start| start.paths.iter().any(|path| Path::new(folder) == path))
        };
        location.is_unknown || pipelines.iter().flatten().any(|part| leaves_folder(part, is_start))
    }

    /// Returns true if all parts run in or below the default folder, and not in a guarded folder. The last part may
    /// change the folder, since no part runs after it.
    pub(super) fn descends(&self, location: &StartLocation<'_>, pipelines: &[Vec<Part>]) -> bool {
        let Some(start) = self.facts.start.filter(|_| location.folder.is_none() && !location.is_unknown) else {
            return false;
        };
        let is_below = |folder: &str| {
            let is_relative = !folder.starts_with(['/', '-']) && !folder.is_empty();
            (is_relative || start.paths.iter().any(|path| Path::new(folder).starts_with(path)))
                && is_confined(&Word::literal(folder), self.facts.roots)
                && self.grants.scope.is_unguarded(folder)
        };
        let parts: Vec<&Part> = pipelines.iter().flatten().collect();
        let running = match parts.split_last() {
            Some((last, others)) if changes_folder(last) => others,
            _ => parts.as_slice(),
        };
        running.iter().all(|part| !leaves_folder(part, is_below))
    }

    /// Returns true if git would apply configuration whose author is unknown: git works in a folder other than the
    /// session's own folders, possibly in a subfolder of these.
    pub(super) fn uses_foreign_config(&self, location: &StartLocation<'_>, pipelines: &[Vec<Part>]) -> bool {
        location.has_foreign_config
            || pipelines.iter().flatten().any(|part| leaves_folder(part, |folder| self.is_root(folder)))
    }

    fn is_root(&self, folder: &str) -> bool {
        self.facts.roots.iter().any(|root| Path::new(folder) == *root)
    }
}

/// Returns the arguments of a call that reads in `folder`.
fn path(folder: &str) -> Map<String, Value> {
    Map::from_iter([("path".to_owned(), json!(folder))])
}

/// Returns true if a part changes the folder for later parts to a folder for which `is_same` returns false.
fn leaves_folder(part: &Part, is_same: impl Fn(&str) -> bool) -> bool {
    let names = || part.arguments().iter().flat_map(|word| super::command::pieces(&word.text));
    let changes =
        changes_folder(part) || carriers::carries(part) && names().any(|name| matches!(name, "cd" | "pushd" | "popd"));
    changes && !matches!(part.arguments(), [word] if word.is_plain() && is_same(&word.text))
}

pub(super) fn changes_folder(part: &Part) -> bool {
    matches!(part.program(), "cd" | "pushd" | "popd")
}

/// Names of variables that no program reads. Names in lowercase and names of one letter are also allowed.
const OWN_NAMES: &str = "BRANCH COMMIT COUNT DATE HASH HEAD OUT RESULT REV SHA STATUS TAG";
/// Arguments of `set` that make a line stop earlier or print more.
const SWITCHES: &str = "-e -u -x -eu -ex -eux -euo -euxo -o pipefail";

/// Reason for a question, also shown to the model.
const BESIDE_GIT: &str = "git writes to the repository, which is read-only for unreviewed commands; use separate calls";

impl Call<'_> {
    /// Approves parts that need no rule next to a covered part. For parts that need a rule, adds their names to the
    /// questions. Returns true if a rule by prefix covers a part.
    pub(super) fn judge_beside(&self, pipelines: &[Vec<Part>], judged: &mut [PartVerdict]) -> bool {
        let prefix_rule = |judged: &PartVerdict| judged.granted_by.clone().filter(|rule| rule.ends_with(" *"));
        let Some(rule) = judged.iter().find_map(prefix_rule) else { return false };
        let last = judged.len() - 1;
        let mut names: Vec<&str> = Vec::new();
        let mut after_granted = false;
        let parts = pipelines.iter().flat_map(|parts| parts.iter().enumerate());
        for (at, ((index, part), found)) in parts.zip(judged).enumerate() {
            if index == 0 {
                after_granted = prefix_rule(found).is_some();
            }
            let is_mild = matches!(found.opinion.verdict, Verdict::Ask { risk, .. } if risk <= Risk::Medium);
            let is_plain = !part.background && part.redirects.iter().all(Redirect::is_harmless);
            let is_own = is_plain && self.needs_no_rule(part, index > 0 && after_granted, &names)
                || at == last && changes_folder(part) && part.is_plain();
            if part.words.is_empty() && is_own {
                names.extend(part.assigns.iter().map(|assign| assign.name.as_str()));
            }
            if !is_mild || found.opinion.layer != Layer::Default {
                continue;
            }
            if is_own {
                found.granted_by = Some(rule.clone());
                found.opinion = LayerVerdict::granted(rule.clone());
            } else {
                let reason = format!("not covered by a rule: {}", shortened(&part.exact()));
                found.opinion = found.opinion.clone().because(&reason);
            }
        }
        true
    }

    /// Makes unapproved parts require a question if git writes to the repository in the same line. Unapproved parts run
    /// with the repository read-only, so that git could not write. Parts with an exact approval can run alongside git.
    pub(super) fn ask_beside_git(
        &self,
        pipelines: &[Vec<Part>],
        location: &StartLocation<'_>,
        judged: &mut [PartVerdict],
    ) {
        let parts = || pipelines.iter().flatten();
        let is_git =
            |part: &Part| carriers::without_wrappers(part).words.first().is_some_and(|word| word.text == "git");
        let records = |(part, found): (&Part, &PartVerdict)| {
            let part = &Part { redirects: Vec::new(), ..part.clone() };
            found.granted_by.is_some() && is_git(part) && !self.only_looks(part)
        };
        if !parts().zip(judged.iter()).any(records) {
            return;
        }
        // Exact rules do not apply after a change of folder.
        let moved = self.leaves(location, pipelines);
        for (part, found) in parts().zip(judged) {
            let opinion = &found.opinion;
            let is_covered =
                |rule: &String| !is_git(part) && rule.ends_with(" *") && self.grants.scope.covers(rule, part);
            if opinion.rule != Explanation::BY_AUTO && !found.granted_by.as_ref().is_some_and(is_covered) {
                continue;
            }
            let own = NeededText::Pipeline {
                parts: std::slice::from_ref(part),
                folder: location.folder,
                other_names: &location.other_names,
            };
            let exact = self.grants.covering(&own, Risk::Medium).filter(|rule| !rule.ends_with(" *") && !moved);
            let (opinion, grant) = match exact {
                Some(rule) => {
                    let rule = rule.to_owned();
                    (LayerVerdict::granted(rule), None)
                }
                None => {
                    let question = Verdict::Ask { risk: Risk::Medium, reason: BESIDE_GIT.to_owned() };
                    let opinion = LayerVerdict::by_default(question, "the session's confirm_exec is on");
                    (opinion, own.exact().filter(|_| !moved))
                }
            };
            (found.opinion, found.grant, found.granted_by) = (opinion, grant, exact.map(str::to_owned));
        }
    }

    /// Returns true if a part needs no rule because it changes nothing that a rule would name. With `after_granted`,
    /// the part follows a covered part in the pipeline and may store its output. `names` are variables set by earlier
    /// parts.
    fn needs_no_rule(&self, part: &Part, after_granted: bool, names: &[&str]) -> bool {
        let arguments = part.arguments();
        let is_known = |word: &Word| word.is_plain() || varies_by(word, names);
        match part.words.first().map(|word| word.text.as_str()) {
            None => {
                let is_own = |name: &str| {
                    let is_short = name.len() == 1 || !name.contains(|c: char| c.is_ascii_uppercase());
                    (is_short || holds(OWN_NAMES, name)) && !environment::is_trusted(name)
                };
                part.assigns.iter().all(|assign| is_own(&assign.name) && is_known(&assign.value))
            }
            Some(_) if !part.assigns.is_empty() => false,
            Some("echo") => arguments.iter().all(is_known),
            Some("set") => arguments.iter().all(|word| word.is_plain() && holds(SWITCHES, &word.text)),
            Some("tee") if after_granted => {
                let is_output = |word: &Word| !word.text.starts_with('-') && self.grants.scope.takes_output(word);
                arguments.iter().skip_while(|word| word.text == "-a").all(is_output)
            }
            _ => false,
        }
    }
}

/// Returns true if the only variables in a word are exit statuses and `names`.
fn varies_by(word: &Word, names: &[&str]) -> bool {
    let is_known = |piece: &str| {
        let name = piece.trim_start_matches('{');
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
        piece.starts_with('?') || names.contains(&&name[..end])
    };
    !word.globs && !word.braces && !word.text.contains('~') && word.text.split('$').skip(1).all(is_known)
}
