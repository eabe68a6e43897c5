//! What may stand beside a command that a rule by prefix covers: parts that say how it ended, that keep what it printed or
//! that lead nowhere. A rule that names them would say nothing.

use agentd_core::policy::{Explanation, Layer, PartExplanation, Risk, Verdict};

use super::{
    Call, PartVerdict,
    command::shown,
    place::{StartPlace, changes_folder},
};
use crate::{
    checker::{carriers, environment, holds},
    command::{Part, Redirect, word::Word},
    grants::NeededText,
    opinion::{LayerVerdict, shortened},
};

/// Names of variables that no program reads, besides those in small letters and those of one letter.
const OWN_NAMES: &str = "BRANCH COMMIT COUNT DATE HASH HEAD OUT RESULT REV SHA STATUS TAG";
/// Words behind `set` that make a line stop earlier, or show more.
const SWITCHES: &str = "-e -u -x -eu -ex -eux -euo -euxo -o pipefail";

/// Reason of a question, also for the model.
const BESIDE_GIT: &str = "git records in the same line, in a repository that is closed to commands that nobody looked at; \
                          as calls of their own both run";

impl Call<'_> {
    /// Lets the parts run that need no rule beside one that is covered, and names those that do. Returns true if a part is
    /// covered by a rule by prefix.
    pub(super) fn judge_beside(&self, pipelines: &[Vec<Part>], judged: &mut [(PartExplanation, PartVerdict)]) -> bool {
        let wide =
            |judged: &(PartExplanation, PartVerdict)| judged.1.granted_by.clone().filter(|rule| rule.ends_with(" *"));
        let Some(rule) = judged.iter().find_map(wide) else { return false };
        let last = judged.len() - 1;
        let mut names: Vec<&str> = Vec::new();
        let mut is_led = false;
        let parts = pipelines.iter().flat_map(|parts| parts.iter().enumerate());
        for (at, ((index, part), found)) in parts.zip(judged).enumerate() {
            if index == 0 {
                is_led = wide(found).is_some();
            }
            let is_mild = matches!(found.1.opinion.verdict, Verdict::Ask { risk, .. } if risk <= Risk::Medium);
            let is_plain = !part.behind && part.redirects.iter().all(Redirect::is_harmless);
            let is_own = is_plain && self.needs_no_rule(part, index > 0 && is_led, &names)
                || at == last && changes_folder(part) && part.is_plain();
            if part.words.is_empty() && is_own {
                names.extend(part.assigns.iter().map(|assign| assign.name.as_str()));
            }
            if !is_mild || found.1.opinion.layer != Layer::Default {
                continue;
            }
            if is_own {
                found.1.granted_by = Some(rule.clone());
                found.1.opinion =
                    LayerVerdict { verdict: Verdict::Allow, layer: Layer::Grant, rule: rule.clone(), dynamic: false };
            } else {
                let reason = format!("not covered by a rule: {}", shortened(&part.exact()));
                found.1.opinion = found.1.opinion.clone().because(&reason);
            }
            found.0 = shown(part.exact(), &found.1);
        }
        true
    }

    /// Lets parts that nobody looked at ask where git records in the same line: they run with its repository closed, and git
    /// could not record. What is approved to the letter runs beside it.
    pub(super) fn ask_beside_git(
        &self,
        pipelines: &[Vec<Part>],
        place: &StartPlace<'_>,
        judged: &mut [(PartExplanation, PartVerdict)],
    ) {
        let parts = || pipelines.iter().flatten();
        let is_git = |part: &Part| carriers::unwrapped(part).words.first().is_some_and(|word| word.text == "git");
        let records = |(part, (_, found)): (&Part, &(PartExplanation, PartVerdict))| {
            let part = &Part { redirects: Vec::new(), ..part.clone() };
            found.granted_by.is_some() && is_git(part) && !self.only_looks(part)
        };
        if !parts().zip(judged.iter()).any(records) {
            return;
        }
        // Elsewhere no rule holds to the letter.
        let moved = self.leaves(place, pipelines);
        for (part, found) in parts().zip(judged) {
            let opinion = &found.1.opinion;
            let is_covered =
                |rule: &String| !is_git(part) && rule.ends_with(" *") && self.grants.reach.covers(rule, part);
            if opinion.rule != Explanation::BY_AUTO && !found.1.granted_by.as_ref().is_some_and(is_covered) {
                continue;
            }
            let own = NeededText::Pipeline {
                parts: std::slice::from_ref(part),
                folder: place.folder,
                other_names: &place.other_names,
            };
            let exact = self.grants.covering(&own, Risk::Medium).filter(|rule| !rule.ends_with(" *") && !moved);
            let (opinion, grant) = match exact {
                Some(rule) => {
                    let rule = rule.to_owned();
                    (LayerVerdict { verdict: Verdict::Allow, layer: Layer::Grant, rule, dynamic: false }, None)
                }
                None => {
                    let asks = Verdict::Ask { risk: Risk::Medium, reason: BESIDE_GIT.to_owned() };
                    let opinion = LayerVerdict::by_default(asks, "the session's confirm_exec is on");
                    (opinion, own.exact().filter(|_| !moved))
                }
            };
            found.1 = PartVerdict { opinion, grant, granted_by: exact.map(str::to_owned), ..found.1.clone() };
            found.0 = shown(part.exact(), &found.1);
        }
    }

    /// Returns true if a part changes nothing that a rule would name. It may keep the output of a pipeline that `is_led` by a
    /// covered part. `names` are variables that parts before it have set.
    fn needs_no_rule(&self, part: &Part, is_led: bool, names: &[&str]) -> bool {
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
            Some("tee") if is_led => {
                let is_output = |word: &Word| !word.text.starts_with('-') && self.grants.reach.takes_output(word);
                arguments.iter().skip_while(|word| word.text == "-a").all(is_output)
            }
            _ => false,
        }
    }
}

/// Returns true for a word in which nothing varies but how a command ended and these variables.
fn varies_by(word: &Word, names: &[&str]) -> bool {
    let is_known = |piece: &str| {
        let name = piece.trim_start_matches('{');
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
        piece.starts_with('?') || names.contains(&&name[..end])
    };
    !word.globs && !word.braces && !word.text.contains('~') && word.text.split('$').skip(1).all(is_known)
}
