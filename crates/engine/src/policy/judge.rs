//! The layers put together.

use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use agentd_core::{
    grant::Grant,
    policy::{Explanation, Layer, PartExplanation, Risk, Verdict},
    ports::Workspace,
    session::SessionSettings,
    tool::{Effect, Followed, ToolSpec},
};
use serde_json::{Map, Value};

use super::{
    checker::{bash, files, may_be, programs, reading},
    command::{Part, take_apart, word::Word},
    file::Action,
    grants::{Grants, Wanted},
    is_shallow,
    opinion::{Opinion, of_both, strictest},
    rules::{Rules, ToolSection},
};

/// The tool whose `command` a shell reads.
pub const SHELL_TOOL: &str = "run_bash_command";
/// Arguments that say what a call is about, so that a pattern which allows may look at them. What is written into a
/// file says nothing of that.
const SUBJECTS: [&str; 10] =
    ["path", "file_path", "filepath", "filename", "file", "directory", "dir", "url", "name", "query"];
/// Values up to this length are also looked at together with their keys, such as `password: …`.
const SHORT: usize = 256;

/// The rules in force.
#[derive(Debug, Default)]
pub struct Policy {
    rules: Rules,
    checks: Vec<Arc<dyn Check>>,
}

/// A check beside those that are built in, of whoever puts the engine into a program and knows more of its tools.
pub trait Check: Debug + Send + Sync {
    /// Why the call may not run, whoever allows it; none where nothing speaks against it.
    fn objects(&self, facts: &Facts<'_>) -> Option<String>;
}

/// All that a verdict depends on, besides the rules.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The tool that is called.
    pub tool: &'a ToolSpec,
    /// The arguments, as the model wrote them.
    pub arguments: &'a str,
    /// The same call without the link that a path in it leads through, where there is one and it is known.
    pub followed: Option<&'a Followed>,
    /// The session's settings, with its own kept rules.
    pub settings: &'a SessionSettings,
    /// The absolute paths of the session's folders; commands that name paths in them stay inside.
    pub roots: &'a [&'a Path],
    /// The absolute path of what all sessions share, if there is such a folder: commands may look there, and a tool that
    /// writes there asks.
    pub memories: Option<&'a Path>,
    /// The rules that were kept for good.
    pub kept: &'a [Grant],
}

/// The folders of a session, as [`Facts::roots`].
#[must_use]
pub fn roots(workspace: &Workspace) -> Vec<&Path> {
    let project = workspace.project.as_ref().map(|mount| mount.path.as_path());
    [workspace.root.as_path()].into_iter().chain(project).collect()
}

impl Policy {
    /// A policy of these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, checks: Vec::new() }
    }

    /// The same with one more check in the first layer. Rules that are read anew need it anew.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn Check>) -> Self {
        self.checks.push(check);
        self
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The verdict on one call, with its reasons. A check that fails denies. Of a call that reads through a link the
    /// stricter of two: on the name that was written, and on the one that it leads to.
    #[must_use]
    pub fn judge(&self, facts: &Facts<'_>) -> Explanation {
        let written = self.judge_form(facts);
        let Some(followed) = facts.followed else { return written };
        let real = self.judge_form(&Facts { arguments: &followed.arguments, followed: None, ..*facts });
        of_both(written, real, followed)
    }

    fn judge_form(&self, facts: &Facts<'_>) -> Explanation {
        let judge = || match self.checks.iter().find_map(|check| check.objects(facts)) {
            Some(reason) => denial(facts, reason),
            None => Call::read(&self.rules, facts).judge(),
        };
        catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| {
            denial(facts, "a check failed on it, so that nobody can tell what it would do".to_owned())
        })
    }
}

/// The first layer denies the whole call, whatever the rules and grants say of it.
fn denial(facts: &Facts<'_>, reason: String) -> Explanation {
    Explanation {
        tool: facts.tool.name.clone(),
        verdict: Verdict::Deny { reason: reason.clone() },
        layer: Layer::Checker,
        rule: reason,
        parts: Vec::new(),
        grants: Vec::new(),
        granted_by: Vec::new(),
        leads_to: None,
    }
}

/// One call while it is judged.
struct Call<'a> {
    rules: &'a Rules,
    section: Option<&'a ToolSection>,
    facts: &'a Facts<'a>,
    grants: Grants<'a>,
    /// None where they are no JSON object that could be stored.
    arguments: Option<Map<String, Value>>,
}

/// What is said of the whole call or of one part, and whether a kept rule turned it into a yes.
#[derive(Clone)]
struct Judged {
    opinion: Opinion,
    grant: Option<String>,
    granted_by: Option<String>,
    /// The patterns that were found in it.
    matched: Vec<String>,
}

impl<'a> Call<'a> {
    fn read(rules: &'a Rules, facts: &'a Facts<'a>) -> Self {
        let value = match facts.arguments.trim() {
            "" | "null" => Some(Value::Object(Map::new())),
            text => serde_json::from_str(text).ok().filter(is_shallow),
        };
        let arguments = match value {
            Some(Value::Object(fields)) => Some(fields),
            _ => None,
        };
        let grants = Grants::new(facts.settings.grants.iter().chain(facts.kept), facts.roots);
        Self { rules, section: rules.tool(&facts.tool.name), facts, grants, arguments }
    }

    fn judge(&self) -> Explanation {
        match &self.arguments {
            Some(arguments) if self.facts.tool.name == SHELL_TOOL => match command(arguments) {
                Some(command) => self.judge_command(command, arguments),
                None => self.judge_whole(Some(Opinion::unknown("it names no command"))),
            },
            Some(arguments) if self.facts.tool.effect == Effect::Write => {
                self.judge_whole(files::check(arguments, self.facts.memories))
            }
            Some(arguments) if self.facts.tool.effect == Effect::Read => self.judge_whole(files::reads(arguments)),
            Some(_) => self.judge_whole(None),
            None if matches!(self.facts.tool.effect, Effect::Write | Effect::Execute) => {
                self.judge_whole(Some(Opinion::unknown("its arguments are no JSON object")))
            }
            None => self.judge_whole(None),
        }
    }

    /// A call that is one thing.
    fn judge_whole(&self, checked: Option<Opinion>) -> Explanation {
        let opinion = strictest(checked.into_iter().chain(self.patterns_against()))
            .or_else(|| self.patterns_in_favour())
            .unwrap_or_else(|| self.by_default());
        let name = self.facts.tool.name.as_str();
        let call = match (&self.arguments, self.facts.tool.effect) {
            (Some(arguments), Effect::Execute) if !arguments.is_empty() => match arguments.get("command") {
                Some(Value::String(command)) if arguments.len() == 1 => Some(format!("{name}: {command}")),
                _ => serde_json::to_string(arguments).ok().map(|arguments| format!("{name} {arguments}")),
            },
            _ => None,
        };
        let wanted = match (&call, self.facts.tool.effect) {
            (Some(call), _) => Some(Wanted::Call(call)),
            (None, Effect::Execute) => None,
            (None, _) => Some(Wanted::Tool(name)),
        };
        let judged = self.with_grants(opinion, wanted.as_ref());
        self.explain(judged, Vec::new(), Vec::new())
    }

    /// A command: each part is judged, and the whole text as it is written.
    fn judge_command(&self, command: &str, arguments: &Map<String, Value>) -> Explanation {
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
        let mut seen = std::collections::HashSet::new();
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
        let bare = part.unread.as_deref().map(|text| text.replace(['\'', '"', '\\'], ""));
        let pieces = || {
            let unread = part.unread.as_deref().into_iter().chain(bare.as_deref());
            part.words
                .iter()
                .map(|word| word.text.as_str())
                .chain(unread)
                .flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))))
        };
        let entry = section.deny.iter().find(|entry| {
            entry.means(part.program(), arguments()) || (unsure && pieces().any(|piece| entry.means(piece, pieces())))
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

    /// What patterns say against any text of the arguments.
    fn patterns_against(&self) -> Vec<Opinion> {
        let mut found = Vec::new();
        let sections = [Some(&self.rules.global), self.section.map(|section| &section.patterns)];
        let mut look = |text: &str| found.extend(sections.iter().flatten().flat_map(|section| section.against(text)));
        match &self.arguments {
            Some(arguments) => texts(None, &Value::Object(arguments.clone()), &mut look),
            None => look(self.facts.arguments),
        }
        found
    }

    /// What patterns say in favour of what the call is about.
    fn patterns_in_favour(&self) -> Option<Opinion> {
        let arguments = self.arguments.as_ref()?;
        let subjects = || SUBJECTS.iter().filter_map(|key| arguments.get(*key)).filter_map(Value::as_str);
        let sections = [Some(&self.rules.global), self.section.map(|section| &section.patterns)];
        sections.into_iter().flatten().find_map(|section| subjects().find_map(|text| section.in_favour(text)))
    }

    /// The fourth layer.
    fn by_default(&self) -> Opinion {
        let settings = self.facts.settings;
        let (confirm, risk, reason, setting) = match self.facts.tool.effect {
            Effect::Read | Effect::State => {
                return Opinion::by_default(Verdict::Allow, "it changes nothing outside the session");
            }
            Effect::Write
                if self.arguments.as_ref().is_some_and(|args| {
                    let real = self.facts.roots.iter().copied().chain(self.facts.memories);
                    files::only_state(&self.facts.tool.name, args, real)
                }) =>
            {
                return Opinion::by_default(Verdict::Allow, "it changes only the session's own state");
            }
            Effect::Write => (settings.confirm_write, Risk::Medium, "it changes files", "confirm_write"),
            Effect::Execute if self.facts.tool.name == SHELL_TOOL => {
                (settings.confirm_exec, Risk::Medium, "it runs a command", "confirm_exec")
            }
            Effect::Execute => (settings.confirm_exec, Risk::High, "it runs a command", "confirm_exec"),
        };
        match self.rules.default_action {
            Action::Deny => Opinion::by_default(
                Verdict::Deny { reason: "no rule allows it".to_owned() },
                "global.default_action is deny",
            ),
            Action::Allow => Opinion::by_default(Verdict::Allow, "global.default_action is allow"),
            Action::RequireApproval if confirm => Opinion::by_default(
                Verdict::Ask { risk, reason: reason.to_owned() },
                format!("the session's {setting} is on"),
            ),
            Action::RequireApproval => Opinion::by_default(Verdict::Allow, format!("the session's {setting} is off")),
        }
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

    /// Asks the kept rules, and the switch for asking at all.
    fn with_grants(&self, opinion: Opinion, wanted: Option<&Wanted<'_>>) -> Judged {
        let Verdict::Ask { risk, .. } = opinion.verdict else {
            return Judged { opinion, grant: None, granted_by: None, matched: Vec::new() };
        };
        if !self.rules.enable_approval {
            let opinion = Opinion {
                verdict: Verdict::Allow,
                layer: Layer::Global,
                rule: format!("global.enable_approval is false, or this would ask: {}", opinion.rule),
                dynamic: false,
            };
            return Judged { opinion, grant: None, granted_by: None, matched: Vec::new() };
        }
        let wanted = wanted.filter(|_| !opinion.dynamic);
        if let Some(rule) = wanted.and_then(|wanted| self.grants.covering(wanted, risk)) {
            let opinion =
                Opinion { verdict: Verdict::Allow, layer: Layer::Grant, rule: rule.to_owned(), dynamic: false };
            return Judged { opinion, grant: None, granted_by: Some(rule.to_owned()), matched: Vec::new() };
        }
        let grant = wanted.filter(|wanted| risk <= wanted.highest()).and_then(Wanted::exact);
        Judged { opinion, grant, granted_by: None, matched: Vec::new() }
    }

    fn explain(&self, decided: Judged, parts: Vec<(PartExplanation, Judged)>, grants: Vec<String>) -> Explanation {
        let mut granted_by: Vec<String> = Vec::new();
        for rule in
            parts.iter().map(|(_, judged)| judged).chain([&decided]).filter_map(|judged| judged.granted_by.as_ref())
        {
            if !granted_by.contains(rule) {
                granted_by.push(rule.clone());
            }
        }
        let grants = if parts.is_empty() { decided.grant.into_iter().collect() } else { grants };
        let Opinion { verdict, layer, rule, .. } = decided.opinion;
        Explanation {
            tool: self.facts.tool.name.clone(),
            verdict,
            layer,
            rule,
            parts: parts.into_iter().map(|(part, _)| part).collect(),
            grants,
            granted_by,
            leads_to: None,
        }
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
fn command(arguments: &Map<String, Value>) -> Option<&str> {
    arguments.get("command").or_else(|| arguments.get("cmd"))?.as_str()
}

/// Every text of a value, alone and, where it is short, behind its key.
fn texts(key: Option<&str>, value: &Value, look: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => {
            look(text);
            if let Some(key) = key.filter(|_| text.len() <= SHORT) {
                look(&format!("{key}: {text}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(key, item, look)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| texts(Some(key), value, look)),
        _ => {}
    }
}
