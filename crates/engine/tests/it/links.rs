//! Calls that read through links: judged under both names, and run with the target's name.

use std::{path::Path, sync::Arc};

use agentd_core::{
    interrupt::Answer,
    policy::{Explanation, Verdict},
    session::SessionSettings,
    tool::{Effect, FollowedLink},
};
use agentd_engine::EngineConfig;
use agentd_policy::{CallContext, Policy};
use agentd_testkit::scripted::{Play, calls, says};
use serde_json::json;

use crate::{
    grants::asked,
    policy::{compiled, granting, mark, shipped, tool},
    world::{World, answer_and_follow, input, run_with_answer, warnings},
};

/// Returns the verdict on a tool that reads `path`, a link to `leads_to`.
fn judged(policy: &Policy, path: &str, leads_to: &str, settings: &SessionSettings) -> Explanation {
    let followed = FollowedLink {
        arguments: json!({ "path": leads_to }).to_string(),
        path: path.to_owned(),
        leads_to: leads_to.to_owned(),
    };
    let (tool, roots) = (tool("read_file", Effect::Read), [Path::new("/home/me/project")]);
    let arguments = json!({ "path": path }).to_string();
    let facts = CallContext {
        foreign: None,
        tool: &tool,
        arguments: &arguments,
        followed: Some(&followed),
        start: None,
        settings,
        roots: &roots,
        memories: None,
        kept: &[],
        held: true,
        contained: true,
    };
    policy.judge(&facts)
}

#[test]
fn stricter_rule_of_link_and_target_wins() {
    let rule_file = "tools:
  read_file:
    patterns: {high_risk: ['\\.envrc'], medium_risk: ['/drafts/'], low_risk: ['docs/']}
    actions: {high_risk: deny}
";
    let check = |policy: &Policy, grants: &[&str], path: &str, leads_to: &str, expected: &str| {
        let explanation = judged(policy, path, leads_to, &granting(grants));
        assert_eq!(mark(&explanation), expected, "{path} -> {leads_to}: {explanation:?}");
        assert_eq!(explanation.leads_to.as_deref(), Some(leads_to));
        explanation
    };
    for (rules, path, leads_to, expected) in [
        (None, "CLAUDE.md", "AGENTS.md", "allow"),
        (None, "docs/a.md", "/project/.env", "high"),
        (None, "docs/a.md", "/project/.aws/credentials", "high"),
        // The name of the link is also judged, regardless of its target.
        (None, ".env", "example.txt", "high"),
        (Some(rule_file), "docs/a.md", "/project/.envrc", "deny"),
        (Some(rule_file), "docs/a.md", "/project/drafts/a.md", "ask"),
        (Some(rule_file), "/project/.envrc", "docs/a.md", "deny"),
        (Some(rule_file), "docs/a.md", "docs/b.md", "allow"),
    ] {
        let policy = rules.map_or_else(shipped, compiled);
        check(&policy, &[], path, leads_to, expected);
    }
    // A grant covers the same calls through a link as under the real name.
    let drafts = check(&compiled(rule_file), &[], "docs/a.md", "/project/drafts/a.md", "ask");
    assert_eq!(drafts.grants, ["read_file"]);
    check(&compiled(rule_file), &["read_file"], "docs/a.md", "/project/drafts/a.md", "allow");
    let secret = check(&shipped(), &["read_file"], "docs/a.md", "/project/.env", "high");
    assert!(secret.grants.is_empty() && secret.granted_by.is_empty(), "{secret:?}");
    let Verdict::Ask { reason, .. } = secret.verdict else { panic!() };
    assert_eq!(reason, "docs/a.md leads to /project/.env through a link, and /project/.env looks like a secrets file");
}

fn look(path: &str) -> Play {
    calls(&[("look", json!({ "path": path }))])
}

#[tokio::test]
async fn retargeted_link_is_not_read_after_restart() {
    for (leads_to, reads) in [(".env", true), (".env.local", false)] {
        let world = World::new([look("docs/a.md")]);
        world.disk.link("docs/a.md", ".env");
        let (_started, interrupt) = asked(&world.session().await).await;
        let (next, session) = world.restarted([says("I see.")]).settled(interrupt.session_id).await;
        next.disk.link("docs/a.md", leads_to);
        let (events, _) = answer_and_follow(&session, &interrupt, Answer::Approve).await;
        assert_eq!(warnings(&events, "changed_since_asked").is_empty(), reads, "{leads_to}");
        assert_eq!(next.tools.ran().len(), usize::from(reads), "{leads_to}");
    }
}

#[tokio::test]
async fn edits_and_approvals_cannot_bypass_denial_by_a_link() {
    let strict = "tools:\n  look: {patterns: {high_risk: ['\\.envrc']}, actions: {high_risk: deny}}\n";
    let config = || EngineConfig { policy: Arc::new(compiled(strict)), ..EngineConfig::default() };
    // The user edits the path to a link.
    let (world, session) = World::with(config(), [look(".env"), says("Then not.")]).begun().await;
    world.disk.link("docs/a.md", ".envrc");
    let (events, _) =
        run_with_answer(&session, input("Go!"), Answer::Edit { args: json!({"path": "docs/a.md"}) }).await;
    assert_eq!(warnings(&events, "edit_denied").len(), 1);
    assert!(world.tools.ran().is_empty());
    // An allowed edit reads the target of the link.
    let (world, session) = World::with(config(), [look(".env"), says("Read.")]).begun().await;
    world.disk.link("CLAUDE.md", "AGENTS.md");
    run_with_answer(&session, input("Go!"), Answer::Edit { args: json!({"path": "CLAUDE.md"}) }).await;
    assert_eq!(world.tools.ran(), [r#"look {"path":"AGENTS.md"}"#]);
}
