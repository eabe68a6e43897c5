//! Combines the layers. `command` judges shell commands part by part. `place` judges the folders in which commands run,
//! and decides which other parts may accompany a part that a rule by prefix covers. `patterns` matches the strings in
//! any call and offers wider rules for commands. `mode` applies the session's mode.

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
    catalogue::ForeignTool,
    client_tool::CLIENT_TOOL_PREFIX,
    folder::with_real_paths,
    grant::Grant,
    policy::{Explanation, Layer, Risk, Verdict},
    ports::Workspace,
    session::SessionSettings,
    tool::{Effect, FollowedLink, READ_TOOL, StartFolder, ToolSpec, WRITE_TOOL, saved_file},
    tool_table::{PathUse, ToolRow},
};
use serde_json::{Map, Value, json};

use super::{
    PROJECT, SHELL_TOOL,
    checker::files,
    file::Action,
    grants::{Grants, NeededText, PrefixScope},
    is_shallow,
    opinion::{LayerVerdict, describe_foreign, of_both, strictest},
    rules::{Rules, ToolSection},
};

/// Returns the spec of [`READ_TOOL`], which is used to judge other calls as reads of a file.
pub fn read_tool() -> ToolSpec {
    ToolSpec { name: READ_TOOL.to_owned(), description: String::new(), parameters: json!({}), effect: Effect::Read }
}

/// Policy with the rules in force.
#[derive(Debug, Default)]
pub struct Policy {
    rules: Rules,
    checks: Vec<Arc<dyn Check>>,
}

/// A check in addition to the built-in checks, for programs that embed the engine and have more information about their
/// tools.
pub trait Check: Debug + Send + Sync {
    /// Returns the reason why the call must not run, regardless of any grant, or `None` if there is no objection.
    fn objects(&self, facts: &CallContext<'_>) -> Option<String>;
}

/// Facts on which a verdict depends, besides the rules.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// Tool that is called.
    pub tool: &'a ToolSpec,
    /// Server of a foreign tool, and the tool's name on that server.
    pub foreign: Option<&'a ForeignTool>,
    /// Arguments, as the model wrote them.
    pub arguments: &'a str,
    /// The call with the link in its path resolved, if the path contains a link whose target is known.
    pub followed: Option<&'a FollowedLink>,
    /// Start folder of the command, if the call runs a command and the folder is known.
    pub start: Option<&'a StartFolder>,
    /// Settings of the session, including its grants.
    pub settings: &'a SessionSettings,
    /// Absolute paths of the session's folders. Commands that only name paths in these folders stay inside.
    pub roots: &'a [&'a Path],
    /// Absolute path of the folder shared by all sessions, if there is one. Commands may read there. Tools that write
    /// there require a question.
    pub memories: Option<&'a Path>,
    /// Permanent grants of the user.
    pub kept: &'a [Grant],
    /// True if the sandbox prevents commands that run because they are read-only from changing anything. If false, such
    /// a command is judged like any other.
    pub held: bool,
    /// True if the sandbox prevents commands from changing anything outside the session's folders and from reaching
    /// other processes. If false, the auto mode does not apply to commands.
    pub contained: bool,
}

/// Names of the folders that commands may only read: folders in the session's own tree, and the folder shared by all
/// sessions.
const NAMES: [&str; 7] =
    ["/uploads", "/outputs", "/temp", "/skills", "/large_tool_results", "/conversation_history", "/memories"];

/// Returns a session's folders for [`CallContext::roots`]. The user's folders are listed by real path and by name.
pub fn roots(workspace: &Workspace) -> Vec<&Path> {
    let project = workspace.project.as_ref().map(|mount| [mount.path.as_path(), Path::new(PROJECT)]);
    let folders = workspace.folders.iter().flat_map(|folder| [folder.path.as_path(), Path::new(&folder.at)]);
    [workspace.root.as_path()].into_iter().chain(project.into_iter().flatten()).chain(folders).collect()
}

impl Policy {
    /// Creates a policy with these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules, checks: Vec::new() }
    }

    /// Adds a check to the first layer. The check has to be added again after the rules are reloaded.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn Check>) -> Self {
        self.checks.push(check);
        self
    }

    /// Returns the rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the verdict on one call, with its reasons. A panic while the call is judged denies the call. For a path
    /// that leads through a link, the stricter of two verdicts applies: on the path as written, and on the target of
    /// the link. A tool that reads the contents of a file is also judged as a call to `read_file`, so that no tool
    /// shows a file that `read_file` would not show.
    pub fn judge(&self, facts: &CallContext<'_>) -> Explanation {
        let as_written = self.judge_reading(facts);
        let Some(followed) = facts.followed else { return as_written };
        let real = self.judge_reading(&CallContext { arguments: &followed.arguments, followed: None, ..*facts });
        of_both(as_written, real, followed)
    }

    /// Returns the stricter of the verdicts on the call and on reading the path that it names. Files and folders are
    /// not distinguished: in practice, a folder that may not be read contains nothing that may be read.
    fn judge_reading(&self, facts: &CallContext<'_>) -> Explanation {
        let named = self.judge_saving(facts, self.judge_form(facts));
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

    /// Returns the stricter of the verdicts on a call and on writing the file into which the call saves what it reads.
    /// That file is judged as in a call to `write_file`.
    fn judge_saving(&self, facts: &CallContext<'_>, read: Explanation) -> Explanation {
        let Some(path) = saved_file(&facts.tool.name, facts.arguments) else { return read };
        let tool = ToolSpec { name: WRITE_TOOL.to_owned(), effect: Effect::Write, ..read_tool() };
        let arguments = json!({ "path": path }).to_string();
        let facts = CallContext { tool: &tool, foreign: None, arguments: &arguments, followed: None, ..*facts };
        let write = self.judge_form(&facts);
        if write.verdict.strictness() > read.verdict.strictness() {
            Explanation { tool: read.tool, ..write }
        } else {
            read
        }
    }

    /// Returns true if the call may show the contents of a file that it finds, or errors in the file. The path of the
    /// file is in the arguments of `facts`. Reading the file must be allowed without a question, and the call must not
    /// be denied for the file. A search checks both for each file, so the second condition is only evaluated if it can
    /// differ from the first.
    pub fn may_show(&self, facts: &CallContext<'_>) -> bool {
        let tool = read_tool();
        let read = self.judge_form(&CallContext { tool: &tool, foreign: None, followed: None, ..*facts });
        let denies = || matches!(self.judge_form(facts).verdict, Verdict::Deny { .. });
        // The verdict on another tool's call can differ from the verdict on reading the file that the call names.
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

/// Returns the first layer's denial of the whole call, which applies regardless of rules and grants.
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

/// A call that is being judged.
struct Call<'a> {
    policy: &'a Policy,
    rules: &'a Rules,
    section: Option<&'a ToolSection>,
    facts: &'a CallContext<'a>,
    grants: Grants<'a>,
    /// Parsed arguments. `None` if they are not a JSON object that can be stored.
    arguments: Option<Map<String, Value>>,
}

/// Verdict on the whole call or on one part, and the grant that approved it, if any.
#[derive(Clone)]
struct PartVerdict {
    /// Command of the part; empty for a whole call.
    text: String,
    opinion: LayerVerdict,
    grant: Option<String>,
    /// Wider rules that the user may choose instead.
    wider: Vec<String>,
    granted_by: Option<String>,
    /// Patterns of rules that matched.
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
        let scope = PrefixScope { roots: facts.roots, guarded: &rules.guarded };
        let grants = Grants::new(facts.settings.grants.iter().chain(facts.kept), scope);
        Self { policy, rules, section: rules.tool(&facts.tool.name), facts, grants, arguments }
    }

    fn judge(&self) -> Explanation {
        match &self.arguments {
            Some(arguments) if self.facts.tool.name == SHELL_TOOL => match command::command(arguments) {
                Some(command) => self.judge_command(command, arguments),
                None => self.judge_whole(Some(LayerVerdict::unknown("it has no command"))),
            },
            Some(arguments) if self.facts.tool.effect == Effect::Write => {
                let CallContext { roots, memories, .. } = *self.facts;
                let scope = files::WriteScope { roots, memories, guarded: &self.rules.guarded };
                self.judge_whole(self.by_both_names(arguments, |arguments| files::check(arguments, scope)))
            }
            Some(arguments) if self.facts.tool.effect == Effect::Read => {
                self.judge_whole(self.by_both_names(arguments, files::reads))
            }
            Some(_) => self.judge_whole(None),
            None if matches!(self.facts.tool.effect, Effect::Write | Effect::Execute | Effect::Network) => {
                self.judge_whole(Some(LayerVerdict::unknown("its arguments are not a JSON object")))
            }
            None => self.judge_whole(None),
        }
    }

    /// Returns the stricter of the verdicts on the file names in the call and on their real host paths: the name
    /// `/folders/config` does not show that the folder is `~/.config`.
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

    /// Judges a call that has no parts.
    fn judge_whole(&self, checked: Option<LayerVerdict>) -> Explanation {
        let opinion = strictest(checked.into_iter().chain(self.patterns_against()))
            .or_else(|| self.patterns_in_favour())
            .unwrap_or_else(|| self.by_default());
        // A grant for a foreign tool applies to that tool, under any name by which models call it.
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

    /// Returns the verdict of the fourth layer.
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
        let other = self.facts.foreign.map(|foreign| describe_foreign(foreign, tool));
        let (risk, reason) = match &other {
            // The effect of a foreign tool is unknown, but being foreign does not by itself raise the risk.
            Some(other) => (Risk::Medium, other.as_str()),
            None if tool.effect == Effect::Write => (Risk::Medium, "it changes files"),
            None if tool.name == SHELL_TOOL => (Risk::Medium, "it runs a command"),
            None if tool.name.starts_with(CLIENT_TOOL_PREFIX) => {
                (Risk::Medium, "it acts in the client that started the turn")
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

    /// Returns true if the call only changes files in the session's own state.
    fn changes_only_state(&self) -> bool {
        let real = self.facts.roots.iter().copied().chain(self.facts.memories);
        self.arguments.as_ref().is_some_and(|args| files::only_state(&self.facts.tool.name, args, real))
    }

    /// Returns the default verdict on a web request. A fetch changes nothing, provided that the server honours the
    /// semantics of HTTP methods.
    fn by_default_of_the_web(&self) -> LayerVerdict {
        let Some(arguments) = &self.arguments else {
            return LayerVerdict::unknown("its arguments are not a JSON object");
        };
        let Some(effect) = files::sends(arguments) else {
            return LayerVerdict::by_default(Verdict::Allow, "it only fetches");
        };
        let verdict = match self.rules.default_action {
            Action::Deny => Verdict::Deny { reason: "no rule allows it".to_owned() },
            Action::Allow => Verdict::Allow,
            Action::RequireApproval => Verdict::Ask { risk: Risk::Medium, reason: effect.clone() },
        };
        LayerVerdict::by_default(verdict, effect)
    }

    /// Applies the grants and the switch for approvals. Any of the wanted texts is sufficient; the first is offered to
    /// the user.
    fn with_grants(&self, opinion: LayerVerdict, wanted: &[NeededText<'_>]) -> PartVerdict {
        let (text, grant, wider, granted_by, matched) = Default::default();
        let ungranted = PartVerdict { text, opinion, grant, wider, granted_by, matched };
        let Verdict::Ask { risk, .. } = ungranted.opinion.verdict else { return ungranted };
        if !self.rules.enable_approval {
            let opinion = LayerVerdict {
                verdict: Verdict::Allow,
                layer: Layer::Global,
                rule: format!("global.enable_approval is false, or this would ask: {}", ungranted.opinion.rule),
                dynamic: false,
            };
            return PartVerdict { opinion, ..ungranted };
        }
        let wanted = if ungranted.opinion.dynamic { &[] } else { wanted };
        if let Some(rule) = wanted.iter().find_map(|wanted| self.grants.covering(wanted, risk)) {
            let opinion = LayerVerdict::granted(rule.to_owned());
            return PartVerdict { opinion, granted_by: Some(rule.to_owned()), ..ungranted };
        }
        if risk <= Risk::Medium
            && !ungranted.opinion.dynamic
            && let Some(foreign) = self.facts.foreign.filter(|foreign| foreign.granted)
        {
            let rule = format!("mcp_servers.yaml: servers.{}.grants", foreign.server);
            let opinion = LayerVerdict::granted(rule.clone());
            return PartVerdict { opinion, granted_by: Some(rule), ..ungranted };
        }
        let possible = |wanted: &&NeededText<'_>| risk <= wanted.highest_covered_risk();
        let grant = wanted.iter().find(possible).and_then(NeededText::exact);
        // Wider rules for commands come from `by_prefix` or are written by hand. Other built-in tools have no rule
        // between one call and all calls.
        let of_other = if self.facts.foreign.is_some() { wanted.get(1..).unwrap_or_default() } else { &[] };
        let wider = of_other.iter().filter(possible).filter_map(NeededText::exact).collect();
        PartVerdict { grant, wider, ..ungranted }
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
