//! Where a command runs: the folder where it starts, whether a part of it goes elsewhere, and what the folder says of what
//! is done there.

use std::path::Path;

use agentd_core::guide::skills_named;
use serde_json::{Map, Value, json};

use super::{Call, CallContext, PROJECT, read_tool};
use crate::{
    checker::{carriers, files, is_tame},
    command::{Part, word::Word},
    lasting::other_names,
    opinion::{LayerVerdict, strictest},
};

/// The name of the workspace, where commands start that name no folder and see no project.
const WORKSPACE: &str = "/";

/// Where a command starts.
pub(super) struct StartPlace<'a> {
    /// The folder, as a rule names it; none where commands start that name no folder.
    pub(super) folder: Option<&'a str>,
    /// Other names of it that rules may have.
    pub(super) other_names: Vec<String>,
    /// Nobody can tell where it starts, so that no rule may mean that.
    is_unknown: bool,
    /// Git would obey what anybody may have written there.
    is_strange: bool,
    /// Verdict on anything done there, as if each word that names a file named the folder.
    pub(super) secret: Option<LayerVerdict>,
    /// Verdict on reading there.
    pub(super) reading: Option<LayerVerdict>,
}

impl Call<'_> {
    /// Where the command starts.
    pub(super) fn place<'p>(&'p self, command: &str, arguments: &'p Map<String, Value>) -> StartPlace<'p> {
        let named = ["directory", "cwd"].iter().find_map(|key| arguments.get(*key)).and_then(Value::as_str);
        let is_mounted = self.facts.roots.contains(&Path::new(PROJECT));
        let usual = if is_mounted { PROJECT } else { WORKSPACE };
        let real = self.facts.start.map(|start| start.name.as_str());
        // Of a folder that is named both names count: the one that is written, and the one that links lead to.
        let both = || named.into_iter().chain(real.filter(|_| named.is_some()));
        let folder = real.filter(|real| named.is_some() || *real != usual).or(named);
        StartPlace {
            // By its real name: what a call writes may mean another folder in another session, or tomorrow.
            folder,
            other_names: self
                .facts
                .start
                .map(|start| other_names(start, folder.is_none() && !is_mounted))
                .unwrap_or_default(),
            // A name with a bracket could be read as the end of the name in a rule, and the rest as the command.
            is_unknown: real.is_none() && (named.is_some() || is_mounted && !skills_named(command).is_empty())
                || folder.is_some_and(|folder| folder.contains(']')),
            is_strange: named.is_some_and(|folder| folder != "." && !self.is_root(folder)),
            secret: strictest(both().filter_map(|folder| files::reads(&path(folder)))),
            reading: strictest(both().filter_map(|folder| self.reading(folder))),
        }
    }

    /// Verdict against reading in a folder without asking.
    fn reading(&self, folder: &str) -> Option<LayerVerdict> {
        let (tool, arguments) = (read_tool(), Value::Object(path(folder)).to_string());
        let facts = CallContext { tool: &tool, arguments: &arguments, followed: None, ..*self.facts };
        let said = self.policy.judge_form(&facts);
        let verdict = said.verdict.because(|reason| format!("it starts in {folder}, and {reason}"));
        let opinion = LayerVerdict { verdict, layer: said.layer, rule: said.rule, dynamic: false };
        opinion.speaks_against().then_some(opinion)
    }

    /// Returns whether rules that were kept for where it starts may not mean where its parts run. A change to the
    /// folder in which it is already is none.
    pub(super) fn leaves(&self, place: &StartPlace<'_>, pipelines: &[Vec<Part>]) -> bool {
        let is_start = |folder: &str| {
            self.facts.start.is_some_and(|start| start.paths.iter().any(|path| Path::new(folder) == path))
        };
        place.is_unknown || pipelines.iter().flatten().any(|part| moves_but_to(part, is_start))
    }

    /// Returns true if all parts run in the usual folder or below it, in none that other programs obey. The last part runs
    /// nothing where it goes.
    pub(super) fn descends(&self, place: &StartPlace<'_>, pipelines: &[Vec<Part>]) -> bool {
        let Some(start) = self.facts.start.filter(|_| place.folder.is_none() && !place.is_unknown) else {
            return false;
        };
        let is_below = |folder: &str| {
            let is_here = !folder.starts_with(['/', '-']) && !folder.is_empty();
            (is_here || start.paths.iter().any(|path| Path::new(folder).starts_with(path)))
                && is_tame(&Word::literal(folder), self.facts.roots)
                && self.grants.reach.is_unguarded(folder)
        };
        let parts: Vec<&Part> = pipelines.iter().flatten().collect();
        let running = match parts.split_last() {
            Some((last, others)) if changes_folder(last) => others,
            _ => parts.as_slice(),
        };
        running.iter().all(|part| !moves_but_to(part, is_below))
    }

    /// Returns whether git would obey what anybody may have written: it works in a folder that is none of the session's
    /// own, or in one below.
    pub(super) fn strays(&self, place: &StartPlace<'_>, pipelines: &[Vec<Part>]) -> bool {
        place.is_strange || pipelines.iter().flatten().any(|part| moves_but_to(part, |folder| self.is_root(folder)))
    }

    fn is_root(&self, folder: &str) -> bool {
        self.facts.roots.iter().any(|root| Path::new(folder) == *root)
    }
}

/// The arguments of a call that reads there.
fn path(folder: &str) -> Map<String, Value> {
    Map::from_iter([("path".to_owned(), json!(folder))])
}

/// Returns whether a part changes the folder for those behind it, and not to one of these.
fn moves_but_to(part: &Part, stays: impl Fn(&str) -> bool) -> bool {
    let names = || part.arguments().iter().flat_map(|word| super::command::pieces(&word.text));
    let moves =
        changes_folder(part) || carriers::carries(part) && names().any(|name| matches!(name, "cd" | "pushd" | "popd"));
    moves && !matches!(part.arguments(), [word] if word.is_plain() && stays(&word.text))
}

pub(super) fn changes_folder(part: &Part) -> bool {
    matches!(part.program(), "cd" | "pushd" | "popd")
}
