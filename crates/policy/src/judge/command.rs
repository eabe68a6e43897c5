//! Judges commands: each part separately, and the whole text as written.

use std::{collections::HashSet, path::Path};

use agentd_core::policy::{Explanation, Layer, PartExplanation, Risk, Verdict};
use serde_json::{Map, Value};

use super::{
    Call, NAMES, PartVerdict, patterns,
    place::{StartLocation, changes_folder},
};
use crate::{
    checker::{bash, carriers, may_be, programs, read_only},
    command::{Doubt, Line, Part, guesses, read, unfolded_pipelines, unquoted, word::Word},
    grants::NeededText,
    opinion::{LayerVerdict, strictest},
    rules::{DenyEntry, Section, ToolSection},
};

/// Maximum length of a command in an explanation, in characters.
const MAX_SHOWN: usize = 400;

impl Call<'_> {
    /// Judges each part of a command, and the whole text as written.
    pub(super) fn judge_command(&self, command: &str, arguments: &Map<String, Value>) -> Explanation {
        let start = self.start_location(command, arguments);
        let line = read(command);
        let judged = match &line {
            Line::Plain(pipelines) => self.judge_pipelines(pipelines, &start).0,
            Line::Other(doubt) => self.judge_folded(command, *doubt, &start),
        };
        // A pattern match that already decided a part does not need a second question.
        let is_new = |whole: &LayerVerdict| {
            matches!(whole.verdict, Verdict::Deny { .. })
                || !judged.iter().any(|part| part.matched.contains(&whole.rule))
        };
        let whole = strictest(self.patterns_against().into_iter().filter(is_new));
        let decisive = judged.iter().reduce(|best, next| {
            // If all parts may run, a part that is not read-only provides the reason.
            let priority = |judged: &PartVerdict| {
                let opinion = &judged.opinion;
                (opinion.verdict.clone(), opinion.layer != Layer::Default, !opinion.only_looks())
            };
            if priority(next) > priority(best) { next } else { best }
        });
        let decisive = decisive.cloned();
        let decisive = decisive.unwrap_or_else(|| self.with_grants(self.by_default(), &[]));
        let mut decided = match whole {
            Some(whole) if whole.verdict > decisive.opinion.verdict => self.with_grants(whole, &[]),
            // Rules about parts cannot answer a question about the whole command.
            Some(_) => PartVerdict { grant: None, ..decisive },
            None => decisive,
        };
        if let Line::Plain(pipelines) = &line
            && decided.grant.is_some()
        {
            decided.wider = self.by_prefix(pipelines, &start);
        }
        let questions = judged.iter().filter(|judged| matches!(judged.opinion.verdict, Verdict::Ask { .. }));
        let grants: Option<Vec<String>> = questions.map(|judged| judged.grant.clone()).collect();
        let mut grants = grants.filter(|_| decided.grant.is_some()).unwrap_or_default();
        let mut seen = HashSet::new();
        grants.retain(|grant| seen.insert(grant.clone()));
        self.explain(decided, judged, grants)
    }

    /// Judges lines of plain words. The second value is true if a rule by prefix covers one of the parts.
    fn judge_pipelines(&self, pipelines: &[Vec<Part>], start: &StartLocation<'_>) -> (Vec<PartVerdict>, bool) {
        let (folder, moved) = (start.folder, self.leaves(start, pipelines));
        let descends = self.descends(start, pipelines);
        let other_names = start.other_names.as_slice();
        let mut judged = Vec::new();
        for (pipeline, found) in pipelines.iter().zip(self.opinions_of(pipelines, start)) {
            // A rule for a single command does not cover the command if input is piped into it.
            let is_piped = found.iter().skip(1).any(|(opinion, _)| matches!(opinion.verdict, Verdict::Ask { .. }));
            for (index, (opinion, matched)) in found.into_iter().enumerate() {
                let part = &pipeline[index];
                let own = NeededText::Pipeline { parts: std::slice::from_ref(part), folder, other_names };
                let whole = NeededText::Pipeline { parts: pipeline, folder, other_names };
                let wanted: &[NeededText<'_>] = match (pipeline.as_slice(), index) {
                    // The command does not run in the folder that a rule would name. A command that changes the folder
                    // has the same effect everywhere.
                    ([_], _) if moved && changes_folder(part) => {
                        &[NeededText::Pipeline { parts: pipeline, folder: None, other_names }]
                    }
                    _ if moved && descends => &[NeededText::Below(part)],
                    _ if moved => &[],
                    ([_], _) => &[whole],
                    (_, 0) if is_piped => &[whole, own],
                    (_, 0) => &[own, whole],
                    _ => &[whole],
                };
                judged.push(PartVerdict { text: part.exact(), matched, ..self.with_grants(opinion, wanted) });
            }
        }
        let is_covered = self.judge_beside(pipelines, &mut judged);
        self.ask_beside_git(pipelines, start, &mut judged);
        (judged, is_covered)
    }

    /// Returns the prefix rule that is offered for a command and the other commands of its pipeline, if the whole
    /// pipeline would run under that rule.
    fn by_prefix(&self, pipelines: &[Vec<Part>], start: &StartLocation<'_>) -> Vec<String> {
        let [pipeline] = pipelines else { return Vec::new() };
        let rule = pipeline.first().and_then(patterns::prefix_rule);
        let runs = |rule: &String| {
            let Self { policy, rules, section, facts, .. } = *self;
            let call = Call { policy, rules, section, facts, grants: self.grants.and(rule), arguments: None };
            all_run(&call.judge_pipelines(pipelines, start).0)
        };
        rule.filter(runs).into_iter().collect()
    }

    /// Judges a line that contains more than plain words. The line runs if rules by prefix cover all of its commands.
    fn judge_folded(&self, command: &str, doubt: Doubt, start: &StartLocation<'_>) -> Vec<PartVerdict> {
        let unfolded_pipelines = unfolded_pipelines(command).map(|pipelines| self.judge_pipelines(&pipelines, start));
        let unfolded_pipelines = unfolded_pipelines.and_then(|(judged, is_covered)| is_covered.then_some(judged));
        if let Some(judged) = unfolded_pipelines.as_ref().filter(|judged| all_run(judged)) {
            return judged.clone();
        }
        let mut other = self.judge_other(command, doubt, start);
        let reason_of = |part: &PartVerdict| match &part.opinion.verdict {
            Verdict::Ask { reason, .. } if part.opinion.layer == Layer::Default => Some(reason.clone()),
            _ => None,
        };
        let reason = unfolded_pipelines.and_then(|judged| judged.iter().find_map(reason_of));
        if let Some(reason) = reason.filter(|_| other.opinion.layer == Layer::Default) {
            other.opinion = other.opinion.because(&reason);
        }
        vec![other]
    }

    /// Returns the verdicts on each part, with the patterns that matched the part. Read-only enforcement applies only
    /// to a line whose parts are all read-only. In any other line, a part that could have further effects requires a
    /// question.
    fn opinions_of(&self, pipelines: &[Vec<Part>], start: &StartLocation<'_>) -> Vec<Vec<(LayerVerdict, Vec<String>)>> {
        let is_foreign = self.uses_foreign_config(start, pipelines);
        let of_pipeline =
            |parts: &Vec<Part>| parts.iter().map(|part| self.opinion_of(part, start, is_foreign)).collect::<Vec<_>>();
        let mut found: Vec<_> = pipelines.iter().map(of_pipeline).collect();
        if found.iter().flatten().any(|(opinion, _)| !opinion.only_looks()) {
            for (part, (opinion, _)) in pipelines.iter().flatten().zip(found.iter_mut().flatten()) {
                if opinion.only_looks() && read_only::runs_configured_programs(part) {
                    *opinion = self.by_default().because(read_only::CONFIGURED_PROGRAMS);
                }
            }
        }
        found
    }

    /// Judges an untrusted line that contains more than plain words, by judging every possible command in it.
    fn judge_other(&self, command: &str, doubt: Doubt, start: &StartLocation<'_>) -> PartVerdict {
        let (guesses, complete) = guesses(command);
        let reason = match doubt {
            Doubt::Unclear(reason) => Some(reason),
            _ if complete => None,
            _ => Some("it has too many commands to review"),
        };
        let mut found = Vec::new();
        if let Some(reason) = reason {
            found.push(LayerVerdict::unknown(format!("the command cannot be parsed: {reason}")));
            let unquoted = unquoted(command);
            // A denied name may occur anywhere in the text.
            let denied = |text| self.section?.deny.iter().find(|entry| entry.is_among(pieces(text)));
            let denied = [command, unquoted.as_str()].into_iter().find_map(denied);
            found.extend(denied.map(|entry| self.denial(entry)));
        }
        found.extend(guesses.iter().flat_map(|guess| self.against(guess)).map(|(opinion, _)| opinion));
        found.extend(self.sections().flat_map(|section| section.against(&unquoted(command))));
        found.extend(start.secret.clone());
        let matched = found.iter().map(|opinion| opinion.rule.clone()).collect();
        let opinion = strictest(found).unwrap_or_else(|| {
            let (Doubt::Escaped(reason) | Doubt::Compound(reason) | Doubt::Unclear(reason)) = doubt;
            self.by_default().because(reason)
        });
        PartVerdict { text: command.to_owned(), matched, ..self.with_grants(opinion, &[]) }
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = &Section> {
        [Some(&self.rules.global), self.section.map(|section| &section.patterns)].into_iter().flatten()
    }

    /// Returns the adverse verdicts on a part and on every command that the part may run. The flag marks pattern
    /// matches.
    fn against(&self, part: &Part) -> Vec<(LayerVerdict, bool)> {
        let mut found = self.against_one(part);
        if carriers::carries(part) {
            match carriers::inner(part) {
                Some(inner) => found.extend(inner.iter().flat_map(|part| self.against_one(part))),
                None => found.push((LayerVerdict::unknown("it has too many commands to review"), false)),
            }
        }
        found
    }

    fn against_one(&self, part: &Part) -> Vec<(LayerVerdict, bool)> {
        let (plain, base) = (part.plain(false), part.plain(true));
        let checked = bash::check(part, self.facts.roots);
        let denied = self.denied(part, checked.as_ref());
        let texts = || [Some(&plain), (base != plain).then_some(&base)].into_iter().flatten();
        let patterns = self.sections().flat_map(|section| texts().flat_map(|text| section.against(text)));
        checked
            .into_iter()
            .chain(denied)
            .map(|opinion| (opinion, false))
            .chain(patterns.map(|found| (found, true)))
            .collect()
    }

    /// Returns the verdict on a part, with the patterns that matched it.
    fn opinion_of(&self, part: &Part, start: &StartLocation<'_>, is_foreign: bool) -> (LayerVerdict, Vec<String>) {
        let mut against = self.against(part);
        against.extend(start.secret.clone().map(|opinion| (opinion, false)));
        let matched = against.iter().filter(|(_, pattern)| *pattern).map(|(opinion, _)| opinion.rule.clone()).collect();
        let opinion = strictest(against.into_iter().map(|(opinion, _)| opinion));
        let allowed =
            || self.sections().filter(|_| part.is_plain()).find_map(|section| section.allowing(&part.plain(false)));
        // Without enforcement, being read-only is not sufficient to run a command without a question.
        let is_read_only =
            || self.facts.held && !(is_foreign && read_only::runs_configured_programs(part)) && self.only_looks(part);
        let opinion = opinion.or_else(allowed).unwrap_or_else(|| match (is_read_only(), &start.reading) {
            (true, None) => LayerVerdict::by_default(Verdict::Allow, Explanation::ONLY_LOOKS),
            (true, Some(reading)) => reading.clone(),
            (false, _) => self.unless_git(part, self.by_default()).because(read_only::question_reason(part)),
        });
        (opinion, matched)
    }

    pub(super) fn only_looks(&self, part: &Part) -> bool {
        let names = NAMES.iter().map(Path::new);
        let shown: Vec<&Path> = self.facts.roots.iter().copied().chain(self.facts.memories).chain(names).collect();
        read_only::only_looks(part, &shown)
    }

    /// Returns the denylist's verdict on a part.
    fn denied(&self, part: &Part, checked: Option<&LayerVerdict>) -> Option<LayerVerdict> {
        let section = self.section?;
        let arguments = || part.arguments().iter().map(|word| word.text.as_str());
        // If the program that will run is unknown, a denied name matches anywhere in the part.
        let has_effects = part.guessed && !(part.assigns.is_empty() && part.redirects.is_empty());
        let is_uncertain =
            has_effects || checked.is_some_and(|opinion| opinion.dynamic) || programs::may_run_others(part);
        let targets = part.redirects.iter().map(|redirect| &redirect.target);
        let words = part.words.iter().chain(part.assigns.iter().map(|assign| &assign.value)).chain(targets);
        let pieces = words.filter(|_| is_uncertain).flat_map(|word| pieces(&word.text));
        let entry = section
            .deny
            .iter()
            .find(|entry| entry.matches(part.program(), arguments()) || entry.is_among(pieces.clone()));
        let Some(entry) = entry else {
            return self.ask_about_mentioned(section, part).or_else(|| may_become_denied(section, part));
        };
        Some(self.denial(entry))
    }

    fn denial(&self, entry: &DenyEntry) -> LayerVerdict {
        let rule = format!("tools.{}.deny: {}", self.facts.tool.name, entry.text());
        let reason = format!("{} is on the deny list", entry.text());
        LayerVerdict { verdict: Verdict::Deny { reason }, layer: Layer::Tool, rule, dynamic: false }
    }

    /// Asks about a denied name among the arguments of a program that may run the named program. Only the user can
    /// decide whether it does.
    fn ask_about_mentioned(&self, section: &ToolSection, part: &Part) -> Option<LayerVerdict> {
        let takes_only_text = programs::takes_only_text(part.program());
        let words = part.arguments().iter().chain(part.assigns.iter().map(|assign| &assign.value));
        let mut pieces = words.filter_map(|word| {
            let text = match word.text.split_once('=') {
                Some((_, value)) => value,
                None if takes_only_text => return None,
                None => word.text.as_str(),
            };
            let mut words = text.split_ascii_whitespace();
            let name = words.next()?.rsplit('/').next().unwrap_or_default();
            Some((name, words.collect::<Vec<_>>()))
        });
        let entry = pieces
            .find_map(|(name, rest)| section.deny.iter().find(|entry| entry.matches(name, rest.iter().copied())))?;
        let text = entry.text();
        let reason = format!("{text} is on the deny list and occurs in the arguments");
        let rule = format!("tools.{}.deny: {text}", self.facts.tool.name);
        Some(LayerVerdict {
            verdict: Verdict::Ask { risk: Risk::High, reason },
            layer: Layer::Tool,
            rule,
            dynamic: false,
        })
    }
}

/// Returns true if no part requires a question or is denied.
fn all_run(judged: &[PartVerdict]) -> bool {
    judged.iter().all(|part| part.opinion.verdict == Verdict::Allow)
}

/// Converts a part for the explanation and shortens its text.
pub(super) fn shown(PartVerdict { text, opinion, .. }: PartVerdict) -> PartExplanation {
    let text = match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    let LayerVerdict { verdict, layer, rule, .. } = opinion;
    PartExplanation { text, verdict, layer, rule }
}

/// Returns the names that occur in the text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')))
}

/// Asks about a denied program whose arguments are not yet known and could match the denied arguments.
fn may_become_denied(section: &ToolSection, part: &Part) -> Option<LayerVerdict> {
    let may_be = |word: Option<&Word>, wanted: &str, as_prefix| word.is_none_or(|word| may_be(word, wanted, as_prefix));
    // `xargs` appends its arguments at the end, and they can be anything.
    let arguments = || part.arguments().iter().map(Some).chain(part.open_ended.then_some(None));
    let entry = section.deny.iter().find(|entry| entry.may_match(part.program(), arguments(), may_be))?;
    Some(LayerVerdict::unknown(format!("it may become {}, which is on the deny list", entry.text())))
}

/// Returns the command in a call, under either name of the argument.
pub(super) fn command(arguments: &Map<String, Value>) -> Option<&str> {
    arguments.get("command").or_else(|| arguments.get("cmd"))?.as_str()
}
