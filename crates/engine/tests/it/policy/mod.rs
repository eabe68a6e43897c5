//! Verdicts under the shipped rules, by tables of commands.
//!
//! - `rules`: rule files, the layers, tools other than commands, grants.
//! - `scope`: scope of denials, patterns and grants.
//! - `handwritten`: handwritten grants.
//! - `names`: a session's folders under the names that commands use.
//! - `starts`: grants for a folder, and folders with secrets.
//! - `covering`: effects of commands covered by a prefix rule, in a real bash.
//! - `looking`: effects of commands that need no approval, in a real bash.
//! - `memory`: memory used for judging.
//! - `modes`: the modes of a session.
//! - `others`: tools of MCP servers.
//! - `web`: requests over the network.
//! - `prefixes`: prefix rules that are offered.
//! - `properties`: properties of all commands.

mod covering;
mod handwritten;
mod looking;
mod memory;
mod modes;
mod names;
mod others;
mod prefixes;
pub(crate) mod properties;
mod rules;
mod scope;
mod starts;
mod web;

use std::path::Path;

use agentd_core::{
    catalogue::ForeignTool,
    policy::{Explanation, Risk, Verdict},
    session::SessionSettings,
    tool::{Effect, StartFolder, ToolSpec},
};
use agentd_policy::{CallContext, Policy, RuleFile, Rules, SHELL_TOOL};
use agentd_testkit::hostile;
use serde_json::{Value, json};

/// Folders of the test sessions.
const ROOT: &str = hostile::CORPUS_ROOT;
const PROJECT: &str = hostile::CORPUS_PROJECT;
/// Folder shared by all sessions.
const MEMORIES: &str = "/data/memories";

pub(crate) fn shipped() -> Policy {
    compiled(include_str!("../../../../../config/hitl_rules.yaml"))
}

pub(crate) fn compiled(yaml: &str) -> Policy {
    let file: RuleFile = serde_saphyr::from_str(yaml).unwrap();
    Policy::new(Rules::compile(&file).unwrap())
}

pub(crate) fn tool(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}), effect }
}

pub(crate) fn granting(grants: &[&str]) -> SessionSettings {
    SessionSettings { grants: grants.iter().map(|grant| (*grant).into()).collect(), ..SessionSettings::default() }
}

pub(crate) fn judge(policy: &Policy, tool: &ToolSpec, args: &Value, settings: &SessionSettings) -> Explanation {
    with_facts(tool, args, settings, |facts| policy.judge(facts))
}

pub(crate) fn may_show(policy: &Policy, tool: &ToolSpec, args: &Value, settings: &SessionSettings) -> bool {
    with_facts(tool, args, settings, |facts| policy.may_show(facts))
}

fn with_facts<T>(
    tool: &ToolSpec,
    args: &Value,
    settings: &SessionSettings,
    then: impl FnOnce(&CallContext<'_>) -> T,
) -> T {
    with_all(Some(&in_project()), None, tool, args, settings, then)
}

/// Returns the start folder for test commands that name no folder.
fn in_project() -> StartFolder {
    StartFolder { name: "/project".to_owned(), paths: vec![PROJECT.into(), "/project".into()], main: None }
}

fn with_all<T>(
    start: Option<&StartFolder>,
    foreign: Option<&ForeignTool>,
    tool: &ToolSpec,
    args: &Value,
    settings: &SessionSettings,
    then: impl FnOnce(&CallContext<'_>) -> T,
) -> T {
    let roots = [ROOT, PROJECT, "/project"].map(Path::new);
    let memories = Some(Path::new(MEMORIES));
    then(&CallContext {
        tool,
        foreign,
        arguments: &args.to_string(),
        followed: None,
        start,
        settings,
        roots: &roots,
        memories,
        kept: &[],
        held: true,
        contained: true,
    })
}

pub(crate) fn run(policy: &Policy, command: &str, settings: &SessionSettings) -> Explanation {
    judge(policy, &tool(SHELL_TOOL, Effect::Execute), &json!({ "command": command }), settings)
}

pub(crate) fn mark(explanation: &Explanation) -> &'static str {
    match &explanation.verdict {
        Verdict::Allow => "allow",
        Verdict::Ask { risk: Risk::Low, .. } => "low",
        Verdict::Ask { risk: Risk::Medium, .. } => "ask",
        Verdict::Ask { risk: Risk::High, .. } => "high",
        Verdict::Ask { risk: Risk::Critical, .. } => "critical",
        Verdict::Deny { .. } => "deny",
    }
}

/// Builds the settings of a session with some earlier grants.
fn with_earlier_grants() -> SessionSettings {
    let grants = [
        "git status",
        "git log *",
        "cargo test *",
        "make",
        "ls *",
        "cat *",
        "echo *",
        "npm run build",
        "python3 *",
        "find *",
        "rm *",
    ];
    granting(&grants.map(|grant| format!("{SHELL_TOOL}: {grant}")).each_ref().map(String::as_str))
}

/// Asserts that the verdict of each command fits the expected one.
#[track_caller]
fn check_corpus(corpus: &[(String, String)], settings: &SessionSettings, fits: impl Fn(&str, &str) -> bool) {
    let policy = shipped();
    let wrong = corpus.iter().filter_map(|(expected, command)| {
        let explanation = run(&policy, command, settings);
        let found = mark(&explanation);
        (!fits(expected, found)).then(|| {
            format!("{expected} but {found}: {command:?}\n    by {:?} {}", explanation.layer, explanation.rule)
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), corpus.len(), wrong.join("\n"));
}

#[test]
fn everyday_commands_get_the_expected_verdict() {
    let corpus = hostile::commands(include_str!("../../corpus/everyday_commands.txt"));
    assert!(corpus.len() >= 100, "{}", corpus.len());
    check_corpus(&corpus, &SessionSettings::default(), |expected, found| expected == found);
}

/// Returns true if the verdict is as strict as expected: `ask` requires at least a high-risk question, `deny`
/// requires a denial that no answer can override.
fn is_asked_or_denied(expected: &str, found: &str) -> bool {
    match expected {
        "deny" => found == "deny",
        "critical" => matches!(found, "critical" | "deny"),
        _ => matches!(found, "high" | "critical" | "deny"),
    }
}

#[test]
fn hostile_commands_ask_or_are_denied_despite_grants() {
    let corpus = hostile::hostile_commands();
    assert!(corpus.len() >= 900, "{}", corpus.len());
    let trusting = SessionSettings { confirm_exec: false, confirm_write: false, ..with_earlier_grants() };
    for settings in [SessionSettings::default(), with_earlier_grants(), trusting] {
        check_corpus(&corpus, &settings, is_asked_or_denied);
    }
}

#[test]
fn commands_that_are_not_read_only_ask() {
    let corpus = hostile::commands(include_str!("../../corpus/asking_commands.txt"));
    assert!(corpus.len() >= 150, "{}", corpus.len());
    check_corpus(&corpus, &SessionSettings::default(), |_, found| found != "allow");
    let rules = ["cargo test *", "make", "make -f -", "make test", "printf x", "ls *", "npm run build", "echo evil"];
    let granted = granting(&rules.map(|rule| format!("{SHELL_TOOL}: {rule}")).each_ref().map(String::as_str));
    // A rule for a program covers the program only after a plain `time` or `timeout`.
    let (covered, others): (Vec<_>, Vec<_>) =
        corpus.into_iter().partition(|(_, command)| ["timeout 5 ls", "time ls"].contains(&command.as_str()));
    check_corpus(&others, &granted, |_, found| found != "allow");
    check_corpus(&covered, &granted, |_, found| found == "allow");
    assert_eq!(covered.len(), 2);
}
