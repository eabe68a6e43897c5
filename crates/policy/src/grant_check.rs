//! Checks rules that the user writes by hand. A rule that could never apply is rejected with a reason, instead of being
//! stored without effect.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use agentd_core::{
    catalogue::ForeignTool,
    grant::Grant,
    policy::{Risk, Verdict},
    session::SessionSettings,
    tool::{Effect, ToolSpec},
};
use serde_json::{Map, Value, json};

use super::{
    SHELL_TOOL,
    command::{self, Line, Part},
    grants::{self, Folder},
    judge::{CallContext, Policy},
};

/// Maximum length of a rule, in bytes.
const MAX_RULE: usize = 16 * 1024;

/// Foreign (MCP) tools, keyed by the names under which models call them.
pub type ForeignTools = BTreeMap<String, Arc<ForeignTool>>;

/// Reason why a rule is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfitGrant {
    /// Description of the problem.
    pub problem: String,
    /// Hint on what to write instead.
    pub hint: String,
}

type GrantCheck<T = ()> = Result<T, UnfitGrant>;

fn reject<T>(problem: impl Into<String>, hint: impl Into<String>) -> GrantCheck<T> {
    Err(UnfitGrant { problem: problem.into(), hint: hint.into() })
}

/// Checks a rule against the known tools and the rules in force.
///
/// # Errors
/// Returns the reason if the rule is rejected.
pub fn check_grant(policy: &Policy, rule: &str, tools: &[ToolSpec]) -> GrantCheck {
    is_text(rule)?;
    let name = rule.split([':', ' ']).next().unwrap_or_default();
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        let shown: String = name.chars().take(80).collect();
        return reject(format!("no such tool: {shown:?}"), "begin the rule with a tool from `agentctl tools`");
    };
    let rest = &rule[name.len()..];
    let by_command = rest.strip_prefix(": ").map(str::trim);
    let check = GrantChecker { policy, tool, foreign: None, rule };
    match tool.effect {
        Effect::Execute if name == SHELL_TOOL => match by_command {
            Some(command) => check.command(command),
            None => reject(
                format!("{SHELL_TOOL} can run anything, which a rule cannot allow"),
                format!(
                    "name a command, as `{SHELL_TOOL}: cargo test`, or its first words, as `{SHELL_TOOL}: cargo test *`"
                ),
            ),
        },
        Effect::Execute => check.call(rest, by_command),
        Effect::Network => check.call(rest, None),
        _ if rest.is_empty() => Ok(()),
        _ => {
            reject(format!("a rule for {name} covers all its calls and takes no arguments"), format!("write `{name}`"))
        }
    }
}

/// Like [`check_grant`], for a rule about foreign tools. Returns `None` if the rule is not about foreign tools.
pub fn check_grant_of_other(
    policy: &Policy,
    rule: &str,
    tools: &[ToolSpec],
    others: &ForeignTools,
) -> Option<Result<(), UnfitGrant>> {
    let name = rule.split([':', ' ']).next().unwrap_or_default();
    let is_named = |(_, other): &(&String, &Arc<ForeignTool>)| name == other.rule || name == other.server_rule;
    if let Some((called, other)) = others.iter().find(is_named) {
        let tool = tools.iter().find(|tool| tool.name == *called)?;
        if let Err(error) = is_text(rule) {
            return Some(Err(error));
        }
        return Some(GrantChecker { policy, tool, foreign: Some(&**other), rule }.of_other(&rule[name.len()..], name));
    }
    others.get(name).map(|other| {
        reject(
            format!("a rule for `{name}` must name its server: another tool may get the same name later"),
            format!("write `{}`", other.rule),
        )
    })
}

/// Checks the length and the characters of a rule.
fn is_text(rule: &str) -> GrantCheck {
    if rule.is_empty() || rule.len() > MAX_RULE || rule.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return reject(
            format!("a rule must have 1 to {MAX_RULE} bytes, without control characters"),
            "write it as the approval question shows it",
        );
    }
    Ok(())
}

struct GrantChecker<'a> {
    policy: &'a Policy,
    tool: &'a ToolSpec,
    foreign: Option<&'a ForeignTool>,
    rule: &'a str,
}

impl GrantChecker<'_> {
    /// Checks a rule about commands.
    fn command(&self, text: &str) -> GrantCheck {
        let (location, command) = grants::split(text);
        let folder = location.map(|location| match location {
            Folder::Named(folder) | Folder::Real(folder) => folder,
        });
        if let (Some(Folder::Real(path)), true) = (location, folder.is_some_and(|folder| !folder.starts_with('/'))) {
            return reject(
                format!("`[at {path}]` needs an absolute path on this machine"),
                "write the path of the project, or of a folder in it, as `pwd -P` prints it",
            );
        }
        if let Some(folder) = folder.filter(|folder| !folder.starts_with('/')) {
            return reject(
                "a rule must name a folder by its absolute path, which is the same in every session",
                format!("write `[in /project/{folder}]`, or `[in /{folder}]` for one of the session's own"),
            );
        }
        if command == "*" || command.is_empty() {
            return reject(
                "a rule must not match every command",
                format!("name the first words of the commands: `{SHELL_TOOL}: cargo test *`"),
            );
        }
        match command.strip_suffix(" *") {
            Some(prefix) => check_prefix(prefix, folder),
            None => self.exact(command, folder, &text[..text.len() - command.len()]),
        }
    }

    /// Checks a rule about exactly one command or pipeline.
    fn exact(&self, command: &str, folder: Option<&str>, prefix: &str) -> GrantCheck {
        let pipelines = match command::read(command) {
            Line::Plain(pipelines) => pipelines,
            Line::Other(_) => Vec::new(),
        };
        let named: Vec<String> = pipelines
            .iter()
            .filter(|parts| parts.iter().all(Part::is_static))
            .map(|parts| command::exact(parts))
            .collect();
        if named.len() < pipelines.len() || named.is_empty() {
            return reject(
                "what this runs cannot be known in advance, so no rule can name it",
                "write plain words without variables, substitutions, loops or brackets",
            );
        }
        if named != [command] {
            let mut rules: Vec<String> = named.iter().map(|exact| format!("`{SHELL_TOOL}: {prefix}{exact}`")).collect();
            rules.dedup();
            return match rules.as_slice() {
                [one] => reject("the command is not in normal form", format!("write {one}")),
                several => reject(
                    "a rule covers one command or pipeline, not several",
                    format!("add one rule for each: {}", several.join(", ")),
                ),
            };
        }
        let mut arguments = Map::from_iter([("command".to_owned(), json!(command))]);
        if let Some(folder) = folder {
            arguments.insert("directory".to_owned(), json!(folder));
        }
        self.check_rules(&Value::Object(arguments))
    }

    /// Checks a rule about a foreign tool or all tools of a server, with any arguments or with exactly the given
    /// arguments.
    fn of_other(&self, rest: &str, name: &str) -> GrantCheck {
        if rest.is_empty() {
            return self.check_rules(&json!({}));
        }
        if name.ends_with('*') || !matches!(self.tool.effect, Effect::Execute | Effect::Network) {
            let problem = format!("a rule for {name} covers all its calls and takes no arguments");
            return reject(problem, format!("write `{name}`"));
        }
        self.call(rest, rest.strip_prefix(": ").map(str::trim))
    }

    /// Checks a rule about a single call to a tool other than the shell that runs something.
    fn call(&self, rest: &str, by_command: Option<&str>) -> GrantCheck {
        let name = self.foreign.map_or(&self.tool.name, |foreign| &foreign.rule);
        if let Some(command) = by_command.filter(|command| !command.is_empty()) {
            return self.check_rules(&json!({ "command": command }));
        }
        match serde_json::from_str::<Map<String, Value>>(rest.trim()) {
            Ok(arguments) if !arguments.is_empty() => {
                let arguments = Value::Object(arguments);
                let exact = format!("{name} {arguments}");
                if exact != self.rule {
                    return reject("the call is not in normal form", format!("write `{exact}`"));
                }
                self.check_rules(&arguments)
            }
            _ => reject(
                format!("{name} can only be allowed call by call"),
                format!("write its arguments: `{name} {{\"…\": \"…\"}}`"),
            ),
        }
    }

    /// Checks that the rules in force allow the grant to apply.
    fn check_rules(&self, arguments: &Value) -> GrantCheck {
        let settings = SessionSettings::default();
        let grants = [Grant::from(self.rule)];
        let roots: [&Path; 0] = [];
        let arguments = arguments.to_string();
        let context = CallContext {
            tool: self.tool,
            foreign: self.foreign,
            arguments: &arguments,
            followed: None,
            start: None,
            settings: &settings,
            roots: &roots,
            memories: None,
            kept: &grants,
            held: true,
            contained: true,
        };
        match self.policy.judge(&context).verdict {
            Verdict::Deny { reason } => {
                reject(format!("the rules deny it, which no grant overrides: {reason}"), "change hitl_rules.yaml first")
            }
            Verdict::Ask { risk: Risk::Critical, reason } => {
                reject(format!("critical risk cannot be allowed in advance: {reason}"), "answer it when asked")
            }
            _ => Ok(()),
        }
    }
}

/// Checks a rule by prefix.
fn check_prefix(words: &str, folder: Option<&str>) -> GrantCheck {
    if folder.is_some() {
        return reject("a rule that ends in ` *` cannot name a folder", "omit `[in …]`");
    }
    match words.split_ascii_whitespace().find(|word| !command::is_plain_text(word)) {
        None => Ok(()),
        Some(word) => reject(
            format!("`{word}` is not a plain word: no quotes, variables or patterns before ` *`"),
            format!("write plain words and one `*` at the end: `{SHELL_TOOL}: cargo test *`"),
        ),
    }
}
