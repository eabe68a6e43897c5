//! Tools of MCP servers: approvals, possible grants, and the servers to which grants apply.

use std::sync::Arc;

use agentd_core::{
    catalogue::ForeignTool,
    policy::{Explanation, Layer, Verdict},
    session::SessionSettings,
    tool::{Effect, ToolSpec},
};
use agentd_policy::{ForeignTools, Policy, check_grant_of_other};
use serde_json::{Value, json};

use super::{compiled, granting, in_project, mark, shipped, tool, with_all};

pub(super) fn weather(server: &str, granted: bool) -> ForeignTool {
    ForeignTool {
        server: server.to_owned(),
        tool: "weather".to_owned(),
        rule: format!("mcp_{server}_weather"),
        server_rule: format!("mcp_{server}_*"),
        entry: String::new(),
        granted,
        needs_project: false,
    }
}

/// Creates a tool with this name, as used in calls.
fn tool_named(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec { description: "[MCP server lab] Weather.".to_owned(), ..tool(name, effect) }
}

fn judge(policy: &Policy, foreign: &ForeignTool, name: &str, args: &Value, settings: &SessionSettings) -> Explanation {
    with_all(Some(&in_project()), Some(foreign), &tool_named(name, Effect::Execute), args, settings, |facts| {
        policy.judge(facts)
    })
}

#[test]
fn foreign_tool_asks_at_medium_risk_and_names_its_server() {
    let (lab, none) = (weather("lab", false), SessionSettings::default());
    let explanation = judge(&shipped(), &lab, "wx", &json!({"city": "Bern"}), &none);
    let Verdict::Ask { reason, .. } = &explanation.verdict else { panic!("{explanation:?}") };
    assert_eq!(reason, "tool weather of the MCP server lab: \"Weather.\"");
    assert_eq!((mark(&explanation), explanation.layer), ("ask", Layer::Default));
    assert_eq!(explanation.grants, [r#"mcp_lab_weather {"city":"Bern"}"#]);
    assert_eq!(explanation.wider, ["mcp_lab_weather", "mcp_lab_*"]);
    let bare = judge(&shipped(), &lab, "wx", &json!({}), &none);
    assert_eq!((bare.grants, bare.wider), (vec!["mcp_lab_weather".to_owned()], vec!["mcp_lab_*".to_owned()]));
    let approvals_disabled = SessionSettings { confirm_exec: false, ..none.clone() };
    assert_eq!(mark(&judge(&shipped(), &lab, "wx", &json!({}), &approvals_disabled)), "allow");
    let denies = compiled("global: {default_action: deny}");
    assert_eq!(mark(&judge(&denies, &lab, "wx", &json!({}), &none)), "deny");
    let changes = tool_named("wx", Effect::Write);
    let explanation = with_all(Some(&in_project()), Some(&lab), &changes, &json!({"city": "Bern"}), &none, |facts| {
        shipped().judge(facts)
    });
    assert_eq!((mark(&explanation), explanation.grants.as_slice()), ("ask", &["mcp_lab_weather".to_owned()][..]));
}

#[test]
fn grant_follows_the_servers_tool_under_any_alias() {
    let policy = shipped();
    let check = |rule: &str, foreign: &ForeignTool, name: &str, args: Value, expected: &str| {
        let explanation = judge(&policy, foreign, name, &args, &granting(&[rule]));
        assert_eq!(mark(&explanation), expected, "{rule} {name} {args}");
    };
    let (lab, sky) = (weather("lab", false), weather("sky", false));
    let bern = || json!({"city": "Bern"});
    check(r#"mcp_lab_weather {"city":"Bern"}"#, &lab, "wx", bern(), "allow");
    check(r#"mcp_lab_weather {"city":"Bern"}"#, &lab, "wx", json!({"city": "Thun"}), "ask");
    check("mcp_lab_weather", &lab, "wx", bern(), "allow");
    check("mcp_lab_weather", &lab, "mcp_lab_weather", json!({}), "allow");
    check("mcp_lab_*", &lab, "wx", bern(), "allow");
    // The name now refers to another server's tool.
    check("wx", &sky, "wx", bern(), "ask");
    check(r#"wx {"city":"Bern"}"#, &sky, "wx", bern(), "ask");
    check("mcp_lab_weather", &sky, "wx", bern(), "ask");
    check("mcp_lab_*", &sky, "mcp_lab_weather", bern(), "ask");
    check("mcp_*", &lab, "wx", bern(), "ask");
}

#[test]
fn risk_patterns_override_wide_grants_and_server_trust() {
    let rules = "global: {risk_patterns: {high: {patterns: [secret]}, critical: {patterns: [doom], action: deny}}}";
    let policy = compiled(rules);
    let check = |granted: bool, rules: &[&str], args: Value, expected: &str| {
        let explanation = judge(&policy, &weather("lab", granted), "wx", &args, &granting(rules));
        assert_eq!(mark(&explanation), expected, "{granted} {rules:?} {args}");
        explanation
    };
    let explanation = check(true, &[], json!({"city": "Bern"}), "allow");
    assert_eq!((explanation.layer, explanation.rule.as_str()), (Layer::Grant, "mcp_servers.yaml: servers.lab.grants"));
    assert_eq!(explanation.granted_by, ["mcp_servers.yaml: servers.lab.grants"]);
    let explanation = check(true, &["mcp_lab_weather", "mcp_lab_*"], json!({"city": "secret"}), "high");
    assert_eq!((explanation.grants.len(), explanation.wider.len()), (1, 0), "{explanation:?}");
    check(true, &["mcp_lab_*"], json!({"city": "doom"}), "deny");
    check(false, &[], json!({"city": "Bern"}), "ask");
}

#[test]
fn rule_files_name_foreign_tools_by_server() {
    let policy = compiled("tools: {blocked: {patterns: {high_risk: ['.*']}, actions: {high_risk: deny}}}");
    let tools = [tool_named("wx", Effect::Execute), tool_named("blocked", Effect::Execute)];
    let blocked = ForeignTool { rule: "mcp_lab_blocked".to_owned(), ..weather("sea", false) };
    let foreign_tools: ForeignTools =
        [("wx".to_owned(), Arc::new(weather("lab", false))), ("blocked".to_owned(), Arc::new(blocked))].into();
    let check = |rule: &str, expected: Option<Result<(), &str>>| {
        let checked = check_grant_of_other(&policy, rule, &tools, &foreign_tools);
        let outcome = checked.map(|checked| checked.map_err(|unfit| format!("{} {}", unfit.problem, unfit.hint)));
        match (outcome, expected) {
            (None, None) | (Some(Ok(())), Some(Ok(()))) => {}
            (Some(Err(error)), Some(Err(part))) => assert!(error.contains(part), "{rule}: {error}"),
            (outcome, expected) => panic!("{rule}: {outcome:?} {expected:?}"),
        }
    };
    check("mcp_lab_weather", Some(Ok(())));
    check("mcp_lab_*", Some(Ok(())));
    check(r#"mcp_lab_weather {"city":"Bern"}"#, Some(Ok(())));
    check(r#"mcp_lab_weather {"city": "Bern"}"#, Some(Err("normal form")));
    check("mcp_lab_weather Bern", Some(Err("call by call")));
    check("mcp_lab_weather: ls \u{1b}[2J", Some(Err("control characters")));
    check(r#"mcp_lab_* {"city":"Bern"}"#, Some(Err("covers all its calls")));
    check("wx", Some(Err("write `mcp_lab_weather`")));
    check("mcp_lab_blocked", Some(Err("no grant overrides")));
    check("write_file", None);
    check("mcp_gone_*", None);
}
