//! Rules as they are used: every pattern compiled once, into one automaton a section, which reads a text once however
//! many patterns there are.

use std::collections::HashMap;

use agentd_core::{
    guarded::GuardedNames,
    policy::{Layer, Risk, Verdict},
};
use regex::{RegexBuilder, RegexSet, RegexSetBuilder};

use super::{
    file::{Action, ByLevel, RuleFile, ToolRules},
    opinion::{LayerVerdict, strictest},
};

/// Size limit of one compiled pattern, in bytes, where not all fit together. A pattern such as `(\w{1000}){1000}` is no
/// rule.
const PATTERN_SIZE: usize = 1 << 20;
/// Size limit of all patterns of one section.
const SECTION_SIZE: usize = 32 << 20;

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct RuleError {
    /// The key of the value, such as `tools.run_bash_command.patterns.high_risk`.
    pub key: String,
    /// The value, as it is written.
    pub value: String,
    /// The problem.
    pub message: String,
}

/// The rules of all files, compiled.
#[derive(Debug)]
pub struct Rules {
    pub(crate) enable_approval: bool,
    pub(crate) default_action: Action,
    pub(crate) global: Section,
    pub(crate) guarded: GuardedNames,
    tools: HashMap<String, ToolSection>,
}

/// Rules for one tool.
#[derive(Debug, Default)]
pub(crate) struct ToolSection {
    pub(crate) patterns: Section,
    pub(crate) deny: Vec<DenyEntry>,
    network: Option<bool>,
}

/// Patterns that are looked for together.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// Patterns that ask or deny, found anywhere.
    strict: Patterns,
    /// Patterns that allow, found at the start only: a word deep inside a call does not make it harmless.
    mild: Patterns,
}

#[derive(Debug, Default)]
struct Patterns {
    set: Option<RegexSet>,
    opinions: Vec<LayerVerdict>,
}

/// An entry of a denylist.
#[derive(Debug)]
pub(crate) struct DenyEntry {
    /// The words, the program first.
    words: Vec<String>,
    /// Set if the last word may go on.
    open: bool,
}

impl Default for Rules {
    /// The rules where no file says anything: the checkers and the defaults.
    fn default() -> Self {
        Self {
            enable_approval: true,
            default_action: Action::RequireApproval,
            global: Section::default(),
            guarded: GuardedNames::default(),
            tools: HashMap::new(),
        }
    }
}

impl Rules {
    /// Compiles what the files say.
    ///
    /// # Errors
    /// The first pattern that is no regular expression, with its key.
    pub fn compile(file: &RuleFile) -> Result<Self, RuleError> {
        let none = super::file::GlobalRules::default();
        let global = file.global.as_ref().unwrap_or(&none);
        let default_action = global.default_action.unwrap_or(Action::RequireApproval);
        let mut lists = Vec::new();
        for (risk, list) in global.risk_patterns.iter().flat_map(super::file::RiskPatterns::levels) {
            let Some(list) = list else { continue };
            lists.push(List {
                layer: Layer::Global,
                risk,
                key: format!("global.risk_patterns.{}", risk.as_str()),
                patterns: list.patterns.as_deref().unwrap_or_default(),
                action: list.action.unwrap_or_else(|| usual(risk, default_action)),
                reason: list.reason.as_deref(),
            });
        }
        let mut tools = HashMap::new();
        for (name, rules) in file.tools.iter().flatten() {
            if rules.enabled != Some(false) {
                tools.insert(name.clone(), ToolSection::compile(name, rules, default_action)?);
            }
        }
        let guarded = GuardedNames::with(global.guarded_names.as_deref().unwrap_or_default());
        let guarded = guarded.map_err(|value| RuleError {
            key: "global.guarded_names".to_owned(),
            value,
            message: "not a file name; write `NAME`, `FOLDER/NAME` or `*.ENDING`".to_owned(),
        })?;
        Ok(Self {
            enable_approval: global.enable_approval.unwrap_or(true),
            default_action,
            global: Section::compile(&lists)?,
            guarded,
            tools,
        })
    }

    /// Names that others run or obey: those of the table, and those of the files.
    pub fn guarded(&self) -> &GuardedNames {
        &self.guarded
    }

    /// Returns whether commands of that tool may use the network, where the rules say anything about it.
    pub fn network(&self, tool: &str) -> Option<bool> {
        self.tool(tool).and_then(|section| section.network)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&ToolSection> {
        self.tools.get(name)
    }
}

/// Action where a list of patterns names none.
fn usual(risk: Risk, default_action: Action) -> Action {
    match (risk, default_action) {
        (Risk::Low, Action::RequireApproval) => Action::Allow,
        // A list above low risk was not written to let calls pass.
        (Risk::Medium | Risk::High | Risk::Critical, Action::Allow) => Action::RequireApproval,
        (_, action) => action,
    }
}

impl ToolSection {
    fn compile(name: &str, rules: &ToolRules, default_action: Action) -> Result<Self, RuleError> {
        let none = ByLevel::default();
        let actions = rules.actions.as_ref().unwrap_or(&none).levels();
        let mut lists = Vec::new();
        for (index, (risk, level, patterns)) in rules.patterns.iter().flat_map(ByLevel::levels).enumerate() {
            let Some(patterns) = patterns else { continue };
            lists.push(List {
                layer: Layer::Tool,
                risk,
                key: format!("tools.{name}.patterns.{level}"),
                patterns,
                action: actions[index].2.copied().unwrap_or_else(|| usual(risk, default_action)),
                reason: None,
            });
        }
        let deny = rules.deny.iter().flatten().map(|entry| DenyEntry::read(name, entry)).collect::<Result<_, _>>()?;
        Ok(Self { patterns: Section::compile(&lists)?, deny, network: rules.network })
    }
}

/// Patterns of one key.
struct List<'a> {
    layer: Layer,
    risk: Risk,
    key: String,
    patterns: &'a [String],
    action: Action,
    reason: Option<&'a str>,
}

impl List<'_> {
    fn opinion(&self, pattern: &str) -> LayerVerdict {
        let rule = format!("{}: {pattern}", self.key);
        let reason = || match self.reason {
            Some(reason) => format!("{reason} ({rule})"),
            None => format!("it matches {rule}"),
        };
        let verdict = match self.action {
            Action::Allow => Verdict::Allow,
            Action::RequireApproval => Verdict::Ask { risk: self.risk, reason: reason() },
            Action::Deny => Verdict::Deny { reason: reason() },
        };
        LayerVerdict { verdict, layer: self.layer, rule, dynamic: false }
    }
}

impl Section {
    fn compile(lists: &[List<'_>]) -> Result<Self, RuleError> {
        let (mut strict, mut mild) = (Vec::new(), Vec::new());
        for list in lists {
            for pattern in list.patterns {
                check_syntax(&list.key, pattern)?;
                match list.action {
                    Action::Allow => mild.push((format!(r"\A(?:{pattern})"), list.opinion(pattern))),
                    Action::RequireApproval | Action::Deny => strict.push((pattern.clone(), list.opinion(pattern))),
                }
            }
        }
        let compiled = Patterns::compile(strict).and_then(|strict| Ok(Self { strict, mild: Patterns::compile(mild)? }));
        compiled.map_err(|error| culprit(lists, &error))
    }

    /// All that the patterns say of a text but that it may pass.
    pub(crate) fn against(&self, text: &str) -> Vec<LayerVerdict> {
        self.strict.found(text).collect()
    }

    /// Returns whether a pattern says of a text that it may pass.
    pub(crate) fn in_favour(&self, text: &str) -> Option<LayerVerdict> {
        strictest(self.mild.found(text))
    }
}

impl Patterns {
    fn compile(patterns: Vec<(String, LayerVerdict)>) -> Result<Self, regex::Error> {
        if patterns.is_empty() {
            return Ok(Self::default());
        }
        let (texts, opinions): (Vec<String>, Vec<LayerVerdict>) = patterns.into_iter().unzip();
        let set = RegexSetBuilder::new(&texts).size_limit(SECTION_SIZE).dfa_size_limit(SECTION_SIZE).build()?;
        Ok(Self { set: Some(set), opinions })
    }

    fn found(&self, text: &str) -> impl Iterator<Item = LayerVerdict> {
        let set = self.set.as_ref().filter(|set| set.is_match(text));
        let indices = set.into_iter().flat_map(|set| set.matches(text).into_iter());
        indices.map(|index| self.opinions[index].clone())
    }
}

/// Returns whether a pattern is a regular expression, by its syntax alone: it stands for itself, and no unbalanced `)`
/// of it may reach beyond what it is wrapped in. Whether it can be used shows when all are compiled together.
fn check_syntax(key: &str, pattern: &str) -> Result<(), RuleError> {
    let refuse = |message: String| RuleError { key: key.to_owned(), value: pattern.to_owned(), message };
    if pattern.is_empty() {
        return Err(refuse("an empty pattern would match everything; remove it".to_owned()));
    }
    let parsed = regex_syntax::ast::parse::Parser::new().parse(pattern);
    parsed.map(drop).map_err(|error| refuse(unusable(pattern, &error)))
}

/// Which pattern it is that cannot be compiled. Each is tried alone, which takes as long as all together.
fn culprit(lists: &[List<'_>], error: &regex::Error) -> RuleError {
    for list in lists {
        for pattern in list.patterns {
            if let Err(error) = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build() {
                let message = unusable(pattern, &error);
                return RuleError { key: list.key.clone(), value: pattern.clone(), message };
            }
        }
    }
    RuleError {
        key: lists.first().map_or("patterns", |list| list.key.as_str()).to_owned(),
        value: String::new(),
        message: format!("the patterns are too many or too large together: {}", one_line(error)),
    }
}

fn unusable(pattern: &str, error: &dyn std::fmt::Display) -> String {
    format!("the pattern `{pattern}` is not a regular expression that can be used: {}", one_line(error))
}

/// The end of the message, which says what is wrong; before it stands a drawing of several lines.
fn one_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

impl DenyEntry {
    fn read(tool: &str, entry: &str) -> Result<Self, RuleError> {
        let (text, open) = entry.strip_suffix('*').map_or((entry, false), |text| (text, true));
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() || text.contains(['*', '?', '[', '/']) {
            return Err(RuleError {
                key: format!("tools.{tool}.deny"),
                value: entry.to_owned(),
                message: format!(
                    "`{entry}` is not a program; write its name without folder, perhaps with words that follow it, and a \
                     `*` only at the end"
                ),
            });
        }
        // `git push *` means what `git push` means: words may follow anyway.
        let open = open && !text.ends_with(char::is_whitespace);
        Ok(Self { words, open })
    }

    /// The entry as it is written.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.words.join(" "), if self.open { "*" } else { "" })
    }

    /// Returns whether it means this command: the program, and then the other words in their order, wherever options
    /// stand between them.
    pub(crate) fn means<'a>(&self, program: &'a str, arguments: impl IntoIterator<Item = &'a str>) -> bool {
        self.follows(program, arguments, |next, word| usize::from(self.fits(next, word)))
    }

    /// Returns whether its program is among these names, and its other words among them in their order.
    pub(crate) fn is_among<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> bool {
        names.clone().find(|name| self.fits(0, name)).is_some_and(|program| self.means(program, names))
    }

    /// Returns whether it may mean this command, once it is known what stands in place of some words. `may_be` says of
    /// an argument whether it can become a word of the entry, or a longer one where that goes on.
    pub(crate) fn may_mean<W: Copy>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = W>,
        may_be: impl Fn(W, &str, bool) -> bool,
    ) -> bool {
        let last = self.words.len() - 1;
        self.follows(program, arguments, |next, argument| {
            let goes_on = |index: usize| self.open && index == last;
            (next..=last).take_while(|&index| may_be(argument, &self.words[index], goes_on(index))).count()
        })
    }

    /// Returns whether the arguments hold all words after the first, where `taken` says how many of them one argument
    /// has.
    fn follows<W>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = W>,
        taken: impl Fn(usize, W) -> usize,
    ) -> bool {
        let count = self.words.len();
        let found = |next: usize, argument: W| if next < count { next + taken(next, argument) } else { next };
        self.fits(0, program) && arguments.into_iter().fold(1, found) >= count
    }

    fn fits(&self, index: usize, word: &str) -> bool {
        let wanted = self.words[index].as_str();
        word == wanted || (self.open && index == self.words.len() - 1 && word.starts_with(wanted))
    }
}
