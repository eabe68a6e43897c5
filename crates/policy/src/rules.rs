//! Compiled rules. The patterns of each section are compiled into one automaton, so that the text is scanned only once,
//! regardless of the number of patterns.

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

/// Size limit for one compiled pattern, in bytes. Used to find the offending pattern if a section does not compile.
/// Rejects patterns such as `(\w{1000}){1000}`.
const PATTERN_SIZE: usize = 1 << 20;
/// Size limit for all compiled patterns of one section, in bytes.
const SECTION_SIZE: usize = 32 << 20;

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct RuleError {
    /// Key of the value, such as `tools.run_bash_command.patterns.high_risk`.
    pub key: String,
    /// Value as written in the file.
    pub value: String,
    /// Description of the problem.
    pub message: String,
}

/// The compiled rules of all files.
#[derive(Debug)]
pub struct Rules {
    pub(crate) enable_approval: bool,
    pub(crate) default_action: Action,
    pub(crate) global: Section,
    pub(crate) guarded: GuardedNames,
    tools: HashMap<String, ToolSection>,
}

/// Compiled rules for one tool.
#[derive(Debug, Default)]
pub(crate) struct ToolSection {
    pub(crate) patterns: Section,
    pub(crate) deny: Vec<DenyEntry>,
    network: Option<bool>,
}

/// Patterns that are matched together.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// Patterns that ask or deny, matched anywhere.
    strict: Patterns,
    /// Patterns that allow, matched at the start only: a word in the middle of a call does not make the call harmless.
    allow: Patterns,
}

#[derive(Debug, Default)]
struct Patterns {
    set: Option<RegexSet>,
    opinions: Vec<LayerVerdict>,
}

/// One entry of a denylist.
#[derive(Debug)]
pub(crate) struct DenyEntry {
    /// Program, followed by further words of the command.
    words: Vec<String>,
    /// True if the last word is a prefix (the entry ends in `*`).
    open: bool,
}

impl Default for Rules {
    /// Creates rules without any file: only the checkers and the defaults apply.
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
    /// Compiles the rules of the files.
    ///
    /// # Errors
    /// Returns an error for the first pattern that is not a valid regular expression, with its key.
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
                action: list.action.unwrap_or_else(|| default_action_for(risk, default_action)),
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
            message: "invalid file name; use `NAME`, `FOLDER/NAME` or `*.ENDING`".to_owned(),
        })?;
        Ok(Self {
            enable_approval: global.enable_approval.unwrap_or(true),
            default_action,
            global: Section::compile(&lists)?,
            guarded,
            tools,
        })
    }

    /// Returns the names of files that other programs run or obey: the built-in names and those from the rule files.
    pub fn guarded(&self) -> &GuardedNames {
        &self.guarded
    }

    /// Returns true if commands of that tool may use the network, or `None` if no rule decides.
    pub fn network(&self, tool: &str) -> Option<bool> {
        self.tool(tool).and_then(|section| section.network)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&ToolSection> {
        self.tools.get(name)
    }
}

/// Returns the default action for a list of patterns without an action.
fn default_action_for(risk: Risk, default_action: Action) -> Action {
    match (risk, default_action) {
        (Risk::Low, Action::RequireApproval) => Action::Allow,
        // A list of patterns above low risk is not meant to allow calls.
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
                action: actions[index].2.copied().unwrap_or_else(|| default_action_for(risk, default_action)),
                reason: None,
            });
        }
        let deny = rules.deny.iter().flatten().map(|entry| DenyEntry::read(name, entry)).collect::<Result<_, _>>()?;
        Ok(Self { patterns: Section::compile(&lists)?, deny, network: rules.network })
    }
}

/// Patterns under one key.
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
        let (mut strict, mut allow) = (Vec::new(), Vec::new());
        for list in lists {
            for pattern in list.patterns {
                check_syntax(&list.key, pattern)?;
                match list.action {
                    Action::Allow => allow.push((format!(r"\A(?:{pattern})"), list.opinion(pattern))),
                    Action::RequireApproval | Action::Deny => strict.push((pattern.clone(), list.opinion(pattern))),
                }
            }
        }
        let compiled =
            Patterns::compile(strict).and_then(|strict| Ok(Self { strict, allow: Patterns::compile(allow)? }));
        compiled.map_err(|error| find_invalid(lists, &error))
    }

    /// Returns all verdicts on the text except those that allow it.
    pub(crate) fn against(&self, text: &str) -> Vec<LayerVerdict> {
        self.strict.found(text).collect()
    }

    /// Returns the verdict of a pattern that allows the text, if one matches.
    pub(crate) fn allowing(&self, text: &str) -> Option<LayerVerdict> {
        strictest(self.allow.found(text))
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

/// Checks the syntax of one pattern. The pattern is parsed separately, so that an unbalanced `)` cannot close the group
/// that later encloses it. Size limits are only checked when all patterns are compiled together.
fn check_syntax(key: &str, pattern: &str) -> Result<(), RuleError> {
    let rule_error = |message: String| RuleError { key: key.to_owned(), value: pattern.to_owned(), message };
    if pattern.is_empty() {
        return Err(rule_error("an empty pattern would match everything; remove it".to_owned()));
    }
    let parsed = regex_syntax::ast::parse::Parser::new().parse(pattern);
    parsed.map(drop).map_err(|error| rule_error(invalid_pattern(pattern, &error)))
}

/// Finds the pattern that does not compile, by compiling each pattern separately. This takes as long as compiling all
/// of them together.
fn find_invalid(lists: &[List<'_>], error: &regex::Error) -> RuleError {
    for list in lists {
        for pattern in list.patterns {
            if let Err(error) = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build() {
                let message = invalid_pattern(pattern, &error);
                return RuleError { key: list.key.clone(), value: pattern.clone(), message };
            }
        }
    }
    RuleError {
        key: lists.first().map_or("patterns", |list| list.key.as_str()).to_owned(),
        value: String::new(),
        message: format!("the patterns are too large in total: {}", one_line(error)),
    }
}

fn invalid_pattern(pattern: &str, error: &dyn std::fmt::Display) -> String {
    format!("the pattern `{pattern}` is not a valid regular expression: {}", one_line(error))
}

/// Returns the last line of the error, which contains the message. The earlier lines draw the pattern.
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
                    "`{entry}` is not a program; write its name without a folder, optional words after it, and \
                     `*` only at the end"
                ),
            });
        }
        // `git push *` is equivalent to `git push`, because further words are allowed anyway.
        let open = open && !text.ends_with(char::is_whitespace);
        Ok(Self { words, open })
    }

    /// Returns the entry as written in the file.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.words.join(" "), if self.open { "*" } else { "" })
    }

    /// Returns true if the entry matches this command: the program, then the other words in order, possibly with
    /// options in between.
    pub(crate) fn matches<'a>(&self, program: &'a str, arguments: impl IntoIterator<Item = &'a str>) -> bool {
        self.follows(program, arguments, |next, word| usize::from(self.matches_word(next, word)))
    }

    /// Returns true if the entry's program is among these names, followed by its other words in order.
    pub(crate) fn is_among<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> bool {
        names.clone().find(|name| self.matches_word(0, name)).is_some_and(|program| self.matches(program, names))
    }

    /// Returns true if the entry could match this command after its unknown words are expanded. `may_be` returns true
    /// if an argument can become a word of the entry, or a longer word if the flag is set.
    pub(crate) fn may_match<W: Copy>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = W>,
        may_be: impl Fn(W, &str, bool) -> bool,
    ) -> bool {
        let last = self.words.len() - 1;
        self.follows(program, arguments, |next, argument| {
            let as_prefix = |index: usize| self.open && index == last;
            (next..=last).take_while(|&index| may_be(argument, &self.words[index], as_prefix(index))).count()
        })
    }

    /// Returns true if the arguments contain all words after the first. `covered` returns how many words one argument
    /// covers.
    fn follows<W>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = W>,
        covered: impl Fn(usize, W) -> usize,
    ) -> bool {
        let count = self.words.len();
        let found = |next: usize, argument: W| if next < count { next + covered(next, argument) } else { next };
        self.matches_word(0, program) && arguments.into_iter().fold(1, found) >= count
    }

    fn matches_word(&self, index: usize, word: &str) -> bool {
        let wanted = self.words[index].as_str();
        word == wanted || (self.open && index == self.words.len() - 1 && word.starts_with(wanted))
    }
}
