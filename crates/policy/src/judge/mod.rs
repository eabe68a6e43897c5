//! The layers put together. `command` judges what a shell is given, part by part, `place` where that runs, and what may stand
//! beside a part that a rule by prefix covers; `patterns` looks through the texts of any call, and has the wider rules
//! that are offered for commands. `mode` is the session's mode.

mod command;
mod mode;
mod patterns;
mod place;

use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use agentd_core::{
    catalogue::Foreign,
    client_tool::CLIENT_TOOL_PREFIX,
    folder::with_real_paths,
    grant::Grant,
    policy::{Explanation, Layer, Risk, Verdict},
    ports::Workspace,
    session::SessionSettings,
    tool::{Effect, FollowedLink, StartFolder, ToolSpec},
    tool_table::{PathUse, ToolRow},
};
use serde_json::{Map, Value, json};

use super::{
    PROJECT, READ_TOOL, SHELL_TOOL,
    checker::files,
    file::Action,
    grants::{Grants, NeededText, Reach},
    is_shallow,
    opinion::{LayerVerdict, described, of_both, strictest},
    rules::{Rules, ToolSection},
};

/// That tool, for what is judged as if it called it.
pub fn read_tool() -> ToolSpec {
    ToolSpec { name: READ_TOOL.to_owned(), description: String::new(), parameters: json!({}), effect: Effect::Read }
}

/// The rules in force.
#[derive(Debug, Default)]
pub struct Policy {
    rules: Rules,
    checks: Vec<Arc<dyn Check>>,
}

/// A check beside those that are built in, of whoever puts the engine into a program and knows more of its tools.
pub trait Check: Debug + Send + Sync {
    /// Why the call may not run, whoever allows it; none where nothing speaks against it.
    fn objects(&self, facts: &CallContext<'_>) -> Option<String>;
}

/// All that a verdict depends on, besides the rules.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// The tool that is called.
    pub tool: &'a ToolSpec,
    /// Whose it is, where it is somebody else's.
    pub foreign: Option<&'a Foreign>,
    /// The arguments, as the model wrote them.
    pub arguments: &'a str,
    /// The same call without the link that a path in it leads through, where there is one and it is known.
    pub followed: Option<&'a FollowedLink>,
    /// Where the command of the call starts, if it runs one and it is known.
    pub start: Option<&'a StartFolder>,
    /// The session's settings, with its own kept rules.
    pub settings: &'a SessionSettings,
    /// The absolute paths of the session's folders; commands that name paths in them stay inside.
    pub roots: &'a [&'a Path],
    /// The absolute path of what all sessions share, if there is such a folder: commands may look there, and a tool that
    /// writes there asks.
    pub memories: Option<&'a Path>,
    /// The rules that were kept for good.
    pub kept: &'a [Grant],
    /// True where commands that run without asking can change nothing, whatever they do. Where they could, one that only
    /// looks is judged as any other.
    pub held: bool,
    /// True where a command changes nothing outside of the session's folders, and reaches no other process, whatever it
    /// does. Elsewhere none runs that nobody looked at.
    pub contained: bool,
}

/// The names by which commands know the folders that they only look into: those of the session's own tree, and what all
/// sessions share.
const NAMES: [&str; 7] =
    ["/uploads", "/outputs", "/temp", "/skills", "/large_tool_results", "/conversation_history", "/memories"];

/// The folders of a session, as [`CallContext::roots`]. Those of the person are there by their real paths and by their names.
pub fn roots(workspace: &Workspace) -> Vec<&Path> {
    let project = workspace.project.as_ref().map(|mount| [mount.path.as_path(), Path::new(PROJECT)]);
    let folders = workspace.folders.iter().flat_map(|folder| [folder.path.as_path(), Path::new(&folder.at)]);
    [workspace.root.as_path()].into_iter().chain(project.into_iter().flatten()).chain(folders).collect()
}

impl Policy {
    /// A policy of these rules.
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
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The verdict on one call, with its reasons. A check that fails denies. Of a call that reads through a link the
    /// stricter of two: on the name that was written, and on the one that it leads to. What looks into a file that it
    /// names is judged as reading it, too, so that no tool shows what `read_file` would not.
    pub fn judge(&self, facts: &CallContext<'_>) -> Explanation {
        let written = self.judge_reading(facts);
        let Some(followed) = facts.followed else { return written };
        let real = self.judge_reading(&CallContext { arguments: &followed.arguments, followed: None, ..*facts });
        of_both(written, real, followed)
    }

    /// The stricter of what is said of the call, and of reading what it names. Whether that is a file or a folder is not
    /// asked: of a folder that may not be read nothing below it may, as good as always.
    fn judge_reading(&self, facts: &CallContext<'_>) -> Explanation {
        let named = self.judge_form(facts);
        let name = facts.tool.name.as_str();
        let shows_names = ToolRow::named(name).is_some_and(|tool| tool.path == PathUse::Names);
        if facts.tool.effect != Effect::Read || name == READ_TOOL || shows_names {
            return named;
        }
        let tool = read_tool();
        files::named(facts.arguments).iter().fold(named, |strictest, path| {
            let arguments = json!({ "path": path }).to_string();
            let read = self.judge_form(&CallContext {
                tool: &tool,
                foreign: None,
                arguments: &arguments,
                followed: None,
                ..*facts
            });
            if read.verdict.strictness() > strictest.verdict.strictness() {
                Explanation { tool: name.to_owned(), ..read }
            } else {
                strictest
            }
        })
    }

    /// Returns whether the call may show of a file what it comes upon, or tells where it goes wrong: whether reading it
    /// is allowed without asking, and the call itself would not be denied if it named it, which are the facts'
    /// arguments. A search asks that of each of its files, so the second is judged only where it can make a difference.
    pub fn may_show(&self, facts: &CallContext<'_>) -> bool {
        let tool = read_tool();
        let read = self.judge_form(&CallContext { tool: &tool, foreign: None, followed: None, ..*facts });
        let denies = || matches!(self.judge_form(facts).verdict, Verdict::Deny { .. });
        // A call of another tool may be judged otherwise than reading what it names.
        let is_known = self.rules.tool(&facts.tool.name).is_some() || !self.checks.is_empty();
        let is_set_apart = facts.tool.effect != Effect::Read || is_known && facts.tool.name != READ_TOOL;
        read.verdict == Verdict::Allow && !(is_set_apart && denies())
    }

    fn judge_form(&self, facts: &CallContext<'_>) -> Explanation {
        let judge = || match self.checks.iter().find_map(|check| check.objects(facts)) {
            Some(reason) => denial(facts, reason),
            None => {
                let call = Call::read(self, facts);
                call.in_plan(call.judge())
            }
        };
        catch_unwind(AssertUnwindSafe(judge))
            .unwrap_or_else(|_| denial(facts, "a check failed on it, so its effect is unknown".to_owned()))
    }
}

/// The first layer denies the whole call, whatever the rules and grants say of it.
fn denial(facts: &CallContext<'_>, reason: String) -> Explanation {
    Explanation {
        tool: facts.tool.name.clone(),
        verdict: Verdict::Deny { reason: reason.clone() },
        layer: Layer::Checker,
        rule: reason,
        parts: Vec::new(),
        grants: Vec::new(),
        wider: Vec::new(),
        granted_by: Vec::new(),
        leads_to: None,
    }
}

/// One call while it is judged.
struct Call<'a> {
    policy: &'a Policy,
    rules: &'a Rules,
    section: Option<&'a ToolSection>,
    facts: &'a CallContext<'a>,
    grants: Grants<'a>,
    /// None where they are no JSON object that could be stored.
    arguments: Option<Map<String, Value>>,
}

/// Verdict on the whole call or on one part, and whether a grant turned it into a yes.
#[derive(Clone)]
struct PartVerdict {
    /// Command of the part; empty for a whole call.
    text: String,
    opinion: LayerVerdict,
    grant: Option<String>,
    /// Rules that reach further and that it may keep instead.
    wider: Vec<String>,
    granted_by: Option<String>,
    /// The patterns that were found in it.
    matched: Vec<String>,
}

impl<'a> Call<'a> {
    fn read(policy: &'a Policy, facts: &'a CallContext<'a>) -> Self {
        let rules = &policy.rules;
        let value = match facts.arguments.trim() {
            "" | "null" => Some(Value::Object(Map::new())),
            text => serde_json::from_str(text).ok().filter(is_shallow),
        };
        let arguments = match value {
            Some(Value::Object(fields)) => Some(fields),
            _ => None,
        };
        let reach = Reach { roots: facts.roots, guarded: &rules.guarded };
        let grants = Grants::new(facts.settings.grants.iter().chain(facts.kept), reach);
        Self { policy, rules, section: rules.tool(&facts.tool.name), facts, grants, arguments }
    }

    fn judge(&self) -> Explanation {
        match &self.arguments {
            Some(arguments) if self.facts.tool.name == SHELL_TOOL => match command::command(arguments) {
                Some(command) => self.judge_command(command, arguments),
                None => self.judge_whole(Some(LayerVerdict::unknown("it names no command"))),
            },
            Some(arguments) if self.facts.tool.effect == Effect::Write => {
                let CallContext { roots, memories, .. } = *self.facts;
                let places = files::WritePlaces { roots, memories, guarded: &self.rules.guarded };
                self.judge_whole(self.by_both_names(arguments, |arguments| files::check(arguments, places)))
            }
            Some(arguments) if self.facts.tool.effect == Effect::Read => {
                self.judge_whole(self.by_both_names(arguments, files::reads))
            }
            Some(_) => self.judge_whole(None),
            None if matches!(self.facts.tool.effect, Effect::Write | Effect::Execute | Effect::Network) => {
                self.judge_whole(Some(LayerVerdict::unknown("its arguments are no JSON object")))
            }
            None => self.judge_whole(None),
        }
    }

    /// The stricter of what is said of the names that the call has for files, and of the paths that these have on this machine:
    /// in `/folders/config` nothing tells any more that it is `~/.config`.
    fn by_both_names(
        &self,
        arguments: &Map<String, Value>,
        check: impl Fn(&Map<String, Value>) -> Option<LayerVerdict>,
    ) -> Option<LayerVerdict> {
        let folders = &self.facts.settings.folders;
        let real = |value: &Value| match value {
            Value::String(text) => with_real_paths(text, folders).map_or_else(|| value.clone(), Value::String),
            other => other.clone(),
        };
        let named = check(arguments);
        if folders.is_empty() {
            return named;
        }
        let real = arguments.iter().map(|(key, value)| (key.clone(), real(value))).collect();
        strictest(named.into_iter().chain(check(&real)))
    }

    /// A call that is one thing.
    fn judge_whole(&self, checked: Option<LayerVerdict>) -> Explanation {
        let opinion = strictest(checked.into_iter().chain(self.patterns_against()))
            .or_else(|| self.patterns_in_favour())
            .unwrap_or_else(|| self.by_default());
        // What is allowed of a tool of somebody else is allowed of that one, whatever models call it.
        let name = self.facts.foreign.map_or(self.facts.tool.name.as_str(), |foreign| &foreign.rule);
        let call = match (&self.arguments, self.facts.tool.effect) {
            (Some(arguments), Effect::Execute | Effect::Network) if !arguments.is_empty() => {
                match arguments.get("command") {
                    Some(Value::String(command)) if arguments.len() == 1 => Some(format!("{name}: {command}")),
                    _ => serde_json::to_string(arguments).ok().map(|arguments| format!("{name} {arguments}")),
                }
            }
            _ => None,
        };
        let mut wanted: Vec<NeededText<'_>> = match (&call, self.facts.tool.effect) {
            (Some(call), _) => vec![NeededText::Call(call)],
            (None, Effect::Execute | Effect::Network) => Vec::new(),
            (None, _) => vec![NeededText::Tool(name)],
        };
        if let Some(foreign) = self.facts.foreign {
            let wider = [NeededText::Tool(&foreign.rule), NeededText::Tool(&foreign.server_rule)];
            wanted.extend(wider.into_iter().skip(usize::from(matches!(wanted.as_slice(), [NeededText::Tool(_)]))));
        }
        let judged = self.with_grants(opinion, &wanted);
        self.explain(judged, Vec::new(), Vec::new())
    }

    /// The fourth layer.
    fn by_default(&self) -> LayerVerdict {
        let (settings, tool) = (self.facts.settings, self.facts.tool);
        let (confirm, setting) = match tool.effect {
            Effect::Read | Effect::State => {
                return LayerVerdict::by_default(Verdict::Allow, "it changes nothing outside the session");
            }
            Effect::Network => return self.by_default_of_the_web(),
            Effect::Write if self.changes_only_state() => {
                return LayerVerdict::by_default(Verdict::Allow, "it changes only the session's own state");
            }
            Effect::Write => (settings.confirm_write, "confirm_write"),
            Effect::Execute => (settings.confirm_exec, "confirm_exec"),
        };
        let other = self.facts.foreign.map(|foreign| described(foreign, tool));
        let (risk, reason) = match &other {
            // Whether it runs anything nobody knows; that somebody else answers it is no danger of its own.
            Some(other) => (Risk::Medium, other.as_str()),
            None if tool.effect == Effect::Write => (Risk::Medium, "it changes files"),
            None if tool.name == SHELL_TOOL => (Risk::Medium, "it runs a command"),
            None if tool.name.starts_with(CLIENT_TOOL_PREFIX) => {
                (Risk::Medium, "it acts in the program that started the turn")
            }
            None => (Risk::High, "it runs a command"),
        };
        match self.rules.default_action {
            Action::Deny => LayerVerdict::by_default(
                Verdict::Deny { reason: "no rule allows it".to_owned() },
                "global.default_action is deny",
            ),
            Action::Allow => LayerVerdict::by_default(Verdict::Allow, "global.default_action is allow"),
            Action::RequireApproval if confirm && let Some(rule) = self.allowed_by_mode() => {
                LayerVerdict::by_default(Verdict::Allow, rule)
            }
            Action::RequireApproval if confirm => LayerVerdict::by_default(
                Verdict::Ask { risk, reason: reason.to_owned() },
                format!("the session's {setting} is on"),
            ),
            Action::RequireApproval => {
                LayerVerdict::by_default(Verdict::Allow, format!("the session's {setting} is off"))
            }
        }
    }

    /// Returns whether the call changes nothing but files of the session's own state.
    fn changes_only_state(&self) -> bool {
        let real = self.facts.roots.iter().copied().chain(self.facts.memories);
        self.arguments.as_ref().is_some_and(|args| files::only_state(&self.facts.tool.name, args, real))
    }

    /// Verdict on a fetch, which changes nothing anywhere, as far as servers keep to what they promise.
    fn by_default_of_the_web(&self) -> LayerVerdict {
        let Some(arguments) = &self.arguments else { return LayerVerdict::unknown("its arguments are no JSON object") };
        let Some(what) = files::sends(arguments) else {
            return LayerVerdict::by_default(Verdict::Allow, "it only fetches");
        };
        let verdict = match self.rules.default_action {
            Action::Deny => Verdict::Deny { reason: "no rule allows it".to_owned() },
            Action::Allow => Verdict::Allow,
            Action::RequireApproval => Verdict::Ask { risk: Risk::Medium, reason: what.clone() },
        };
        LayerVerdict::by_default(verdict, what)
    }

    /// Asks the kept rules, and the switch for asking at all. Any of what is wanted is enough; the first is proposed.
    fn with_grants(&self, opinion: LayerVerdict, wanted: &[NeededText<'_>]) -> PartVerdict {
        let (text, grant, wider, granted_by, matched) = Default::default();
        let none = PartVerdict { text, opinion, grant, wider, granted_by, matched };
        let Verdict::Ask { risk, .. } = none.opinion.verdict else { return none };
        if !self.rules.enable_approval {
            let opinion = LayerVerdict {
                verdict: Verdict::Allow,
                layer: Layer::Global,
                rule: format!("global.enable_approval is false, or this would ask: {}", none.opinion.rule),
                dynamic: false,
            };
            return PartVerdict { opinion, ..none };
        }
        let wanted = if none.opinion.dynamic { &[] } else { wanted };
        if let Some(rule) = wanted.iter().find_map(|wanted| self.grants.covering(wanted, risk)) {
            let opinion = LayerVerdict::granted(rule.to_owned());
            return PartVerdict { opinion, granted_by: Some(rule.to_owned()), ..none };
        }
        if risk <= Risk::Medium
            && !none.opinion.dynamic
            && let Some(foreign) = self.facts.foreign.filter(|foreign| foreign.granted)
        {
            let rule = format!("mcp_servers.yaml: servers.{}.grants", foreign.server);
            let opinion = LayerVerdict::granted(rule.clone());
            return PartVerdict { opinion, granted_by: Some(rule), ..none };
        }
        let possible = |wanted: &&NeededText<'_>| risk <= wanted.highest();
        let grant = wanted.iter().find(possible).and_then(NeededText::exact);
        // Of commands people write wider rules themselves, and of other tools there is none between one call and all.
        let of_other = if self.facts.foreign.is_some() { wanted.get(1..).unwrap_or_default() } else { &[] };
        let wider = of_other.iter().filter(possible).filter_map(NeededText::exact).collect();
        PartVerdict { grant, wider, ..none }
    }

    fn explain(&self, decided: PartVerdict, parts: Vec<PartVerdict>, grants: Vec<String>) -> Explanation {
        let mut granted_by: Vec<String> = Vec::new();
        for rule in parts.iter().chain([&decided]).filter_map(|judged| judged.granted_by.as_ref()) {
            if !granted_by.contains(rule) {
                granted_by.push(rule.clone());
            }
        }
        let grants = if parts.is_empty() { decided.grant.into_iter().collect() } else { grants };
        let LayerVerdict { verdict, layer, rule, .. } = decided.opinion;
        Explanation {
            tool: self.facts.tool.name.clone(),
            verdict,
            layer,
            rule,
            parts: parts.into_iter().map(command::shown).collect(),
            grants,
            wider: decided.wider,
            granted_by,
            leads_to: None,
        }
    }
}
