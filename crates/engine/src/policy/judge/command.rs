//! Commands: each part is judged by itself, and the whole text as it is written.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
};

use agentd_core::policy::{Explanation, Layer, PartExplanation, Risk, Verdict};
use serde_json::{Map, Value};

use super::{Call, Judged};
use crate::policy::{
    checker::{bash, may_be, programs, reading},
    command::{Part, take_apart, word::Word},
    grants::Wanted,
    opinion::{Opinion, strictest},
    rules::ToolSection,
};

impl Call<'_> {
    /// A command: each part is judged, and the whole text as it is written.
    pub(super) fn judge_command(&self, command: &str, arguments: &Map<String, Value>) -> Explanation {
        let folder = ["directory", "cwd"].iter().find_map(|key| arguments.get(*key)).and_then(Value::as_str);
        let parts = take_apart(command);
        // Git obeys what lies in the folder where it starts, and anybody may have written that.
        let stays = |place: &str| self.facts.roots.iter().any(|root| Path::new(place) == *root);
        let leaves = |part: &Part| {
            changes_folder(part) && !matches!(part.arguments(), [word] if word.is_static() && stays(&word.text))
        };
        // In loops and functions a part that stands later may run earlier.
        let moves = parts.iter().any(leaves);
        let wanders = moves || folder.is_some_and(|folder| folder != "." && !stays(folder));
        let start = match folder {
            _ if moves => Start::Unknown,
            Some(folder) => Start::In(folder),
            None => Start::Usual,
        };
        let judged: Vec<(PartExplanation, Judged)> =
            parts.iter().map(|part| self.judge_part(part, start, wanders)).collect();
        // What a part was judged by already needs no second question.
        let is_new =
            |whole: &Opinion| whole.is_deny() || !judged.iter().any(|(_, part)| part.matched.contains(&whole.rule));
        let whole = strictest(self.patterns_against().into_iter().filter(is_new));
        let leading = judged.iter().map(|(_, judged)| judged).reduce(|best, next| {
            let louder = |judged: &Judged| (judged.opinion.verdict.clone(), judged.opinion.layer != Layer::Default);
            if louder(next) > louder(best) { next } else { best }
        });
        let leading = leading.cloned();
        let leading = leading.unwrap_or_else(|| self.with_grants(self.by_default(), None));
        let decided = match whole {
            Some(whole) if whole.verdict > leading.opinion.verdict => self.with_grants(whole, None),
            // The question about the whole cannot be answered by rules about parts.
            Some(_) => Judged { grant: None, ..leading },
            None => leading,
        };
        let asks = judged.iter().filter(|(part, _)| matches!(part.verdict, Verdict::Ask { .. }));
        let grants: Option<Vec<String>> = asks.map(|(_, judged)| judged.grant.clone()).collect();
        let mut grants = grants.filter(|_| decided.grant.is_some()).unwrap_or_default();
        let mut seen = HashSet::new();
        grants.retain(|grant| seen.insert(grant.clone()));
        self.explain(decided, judged, grants)
    }

    fn judge_part(&self, part: &Part, start: Start<'_>, wanders: bool) -> (PartExplanation, Judged) {
        let (plain, bare) = (part.plain(false), part.plain(true));
        let checked = bash::check(part, self.facts.roots);
        let denied = self.denied(part, checked.as_ref());
        let sections =
            || [Some(&self.rules.global), self.section.map(|section| &section.patterns)].into_iter().flatten();
        let texts = || [Some(&plain), (bare != plain).then_some(&bare)].into_iter().flatten();
        let found: Vec<Opinion> =
            sections().flat_map(|section| texts().flat_map(|text| section.against(text))).collect();
        let matched = found.iter().map(|opinion| opinion.rule.clone()).collect();
        let opinion = strictest(checked.into_iter().chain(denied).chain(found))
            .or_else(|| sections().filter(|_| part.is_static()).find_map(|section| section.in_favour(&plain)))
            .unwrap_or_else(|| self.by_default_of(part, wanders));
        let wanted = match start {
            _ if !part.is_static() => None,
            Start::Usual => Some(Wanted::Part { part, folder: None }),
            Start::In(folder) => Some(Wanted::Part { part, folder: Some(folder) }),
            // A change of folder does the same wherever it starts; anything else may mean something else there.
            Start::Unknown => changes_folder(part).then_some(Wanted::Part { part, folder: None }),
        };
        let judged = Judged { matched, ..self.with_grants(opinion, wanted.as_ref()) };
        let text = part.exact();
        let Opinion { verdict, layer, rule, .. } = judged.opinion.clone();
        (PartExplanation { text, verdict, layer, rule }, judged)
    }

    /// What the denylist says of a part.
    fn denied(&self, part: &Part, checked: Option<&Opinion>) -> Option<Opinion> {
        let section = self.section?;
        let arguments = || part.arguments().iter().map(|word| word.text.as_str());
        // Where nobody knows what will run, a name that is denied may stand anywhere.
        let unsure = checked.is_some_and(|opinion| opinion.dynamic)
            || part.unread.is_some()
            || programs::carries_others(part.program());
        // What could not be read is looked at as it is written and without its quotes.
        let bare = part.unread.as_deref().map(|text| text.replace("\\\n", "").replace(['\'', '"', '\\'], ""));
        let unread = part.unread.as_deref().into_iter().chain(bare.as_deref());
        let texts = part.words.iter().map(|word| word.text.as_str()).chain(unread).filter(|_| unsure);
        let pieces: Vec<&str> = texts
            .flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))))
            .collect();
        // Each once: a text of the longest size may hold the same word ten thousand times.
        let names: BTreeSet<&str> = pieces.iter().copied().collect();
        let entry = section.deny.iter().find(|entry| {
            entry.means(part.program(), arguments())
                || names.iter().any(|name| entry.means(name, pieces.iter().copied()))
        });
        let Some(entry) = entry else {
            return self.mentioned(section, part).or_else(|| may_become_denied(section, part));
        };
        let rule = format!("tools.{}.deny: {}", self.facts.tool.name, entry.text());
        let reason = format!("{} is on the list of commands that are never run", entry.text());
        Some(Opinion { verdict: Verdict::Deny { reason }, layer: Layer::Tool, rule, dynamic: false })
    }

    /// A denied name among the words of a program that may well run it: only a person can tell.
    fn mentioned(&self, section: &ToolSection, part: &Part) -> Option<Opinion> {
        let speaks = programs::speaks(part.program());
        let words = part.arguments().iter().chain(part.assigns.iter().map(|assign| &assign.value));
        let mut pieces = words.filter_map(|word| {
            let text = match word.text.split_once('=') {
                Some((_, value)) => value,
                None if speaks => return None,
                None => word.text.as_str(),
            };
            let mut words = text.split_ascii_whitespace();
            let name = words.next()?.rsplit('/').next().unwrap_or_default();
            Some((name, words.collect::<Vec<_>>()))
        });
        let entry = pieces
            .find_map(|(name, rest)| section.deny.iter().find(|entry| entry.means(name, rest.iter().copied())))?;
        let text = entry.text();
        let reason = format!("{text} is on the list of commands that are never run, and stands among the words");
        let rule = format!("tools.{}.deny: {text}", self.facts.tool.name);
        Some(Opinion { verdict: Verdict::Ask { risk: Risk::High, reason }, layer: Layer::Tool, rule, dynamic: false })
    }

    fn by_default_of(&self, part: &Part, wanders: bool) -> Opinion {
        if part.transparent {
            return Opinion::by_default(Verdict::Allow, "the command inside is judged in its place");
        }
        let shown: Vec<&Path> = self.facts.roots.iter().copied().chain(self.facts.memories).collect();
        if !(wanders && part.program() == "git") && reading::only_looks(part, &shown) {
            return Opinion::by_default(Verdict::Allow, "it only looks, inside the session's folders");
        }
        self.by_default()
    }
}

/// Where a part of a command runs.
#[derive(Debug, Clone, Copy)]
enum Start<'a> {
    /// Where commands start that name no folder.
    Usual,
    /// In the folder that the call names.
    In(&'a str),
    /// Wherever another part of the command has gone.
    Unknown,
}

fn changes_folder(part: &Part) -> bool {
    matches!(part.program(), "cd" | "pushd" | "popd")
}

/// A denied program whose arguments are not known yet, and may become those that are denied with it.
fn may_become_denied(section: &ToolSection, part: &Part) -> Option<Opinion> {
    let may_be = |word: Option<&Word>, wanted: &str, goes_on| word.is_none_or(|word| may_be(word, wanted, goes_on));
    // What `xargs` adds stands at the end, and can be anything.
    let arguments = || part.arguments().iter().map(Some).chain(part.open_ended.then_some(None));
    let entry = section.deny.iter().find(|entry| entry.may_mean(part.program(), arguments(), may_be))?;
    Some(Opinion::unknown(format!(
        "it may become {}, which is on the list of commands that are never run",
        entry.text()
    )))
}

/// The command of a call, under either name that the tool knows.
pub(super) fn command(arguments: &Map<String, Value>) -> Option<&str> {
    arguments.get("command").or_else(|| arguments.get("cmd"))?.as_str()
}
