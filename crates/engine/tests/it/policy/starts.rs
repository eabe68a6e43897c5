//! Start folders and `cd`: grants for one folder do not apply to another, and read-only commands follow the read
//! rules of their folder.

use agentd_core::{
    policy::Explanation,
    session::SessionSettings,
    tool::{Effect, StartFolder},
};
use agentd_policy::{Policy, SHELL_TOOL};
use serde_json::{Value, json};

use super::{PROJECT, ROOT, compiled, granting, in_project, mark, run, shipped, tool, with_all};

fn workspace() -> StartFolder {
    StartFolder { name: "/".to_owned(), paths: vec![ROOT.into()], main: None }
}

fn folder(name: &str, real: &str) -> StartFolder {
    StartFolder { name: name.to_owned(), paths: vec![real.into(), name.into()], main: None }
}

fn started(policy: &Policy, args: &Value, start: Option<&StartFolder>, settings: &SessionSettings) -> Explanation {
    with_all(start, None, &tool(SHELL_TOOL, Effect::Execute), args, settings, |facts| policy.judge(facts))
}

#[test]
fn project_grant_does_not_apply_in_other_session_folders() {
    let policy = shipped();
    let granted = granting(&["run_bash_command: make", "run_bash_command: cargo test *"]);
    let check = |command: &str, start: Option<&StartFolder>, expected: &str| {
        let explanation = started(&policy, &json!({ "command": command }), start, &granted);
        assert_eq!(mark(&explanation), expected, "{command} {start:?} {explanation:?}");
        assert!(explanation.grants.is_empty(), "{command} {start:?} {explanation:?}");
    };
    let project = in_project();
    for stays in
        [format!("cd {PROJECT} && make"), "cd /project; cargo test x".to_owned(), "cd /project/ && make".to_owned()]
    {
        check(&stays, Some(&project), "allow");
        // With an unknown start folder, `cd` may leave that folder.
        check(&stays, None, "ask");
        check(&stays, Some(&folder("/project/sub", &format!("{PROJECT}/sub"))), "ask");
    }
    for moves in [
        format!("cd {ROOT} && make"),
        format!("cd {ROOT} && cargo test x"),
        format!("pushd {ROOT} && make"),
        format!("cd /project && cd {ROOT} && make"),
        "cd /outputs && make".to_owned(),
    ] {
        check(&moves, Some(&project), "ask");
    }
    // Without grants, nothing changes: read-only commands may use all folders of the session.
    check(&format!("cd {ROOT} && ls && git status"), Some(&project), "allow");
}

/// A relative path may refer to different folders.
#[test]
fn folder_grant_applies_to_the_real_folder() {
    let policy = shipped();
    let args = json!({"command": "make", "directory": "outputs/x"});
    let in_project = folder("/project/outputs/x", &format!("{PROJECT}/outputs/x"));
    let own = folder("/outputs/x", &format!("{ROOT}/outputs/x"));
    let explanation = started(&policy, &args, Some(&in_project), &granting(&[]));
    assert_eq!(explanation.grants, ["run_bash_command: [in /project/outputs/x] make"]);
    let granted =
        granting(&["run_bash_command: [in /project/outputs/x] make", "run_bash_command: [in outputs/x] make"]);
    assert_eq!(mark(&started(&policy, &args, Some(&in_project), &granted)), "allow");
    assert_eq!(mark(&started(&policy, &args, Some(&own), &granted)), "ask");
    let unknown = started(&policy, &args, None, &granted);
    assert_eq!((mark(&unknown), unknown.grants.len()), ("ask", 0));
}

#[test]
fn folder_grant_applies_while_the_command_stays_there() {
    let policy = shipped();
    let granted = granting(&["run_bash_command: [in /outputs] make"]);
    let outputs = folder("/outputs", &format!("{ROOT}/outputs"));
    let check = |command: &str, expected: &str| {
        let args = json!({"command": command, "directory": "/outputs"});
        let explanation = started(&policy, &args, Some(&outputs), &granted);
        assert_eq!(mark(&explanation), expected, "{command} {explanation:?}");
    };
    check("make", "allow");
    check("cd /outputs && make", "allow");
    check(&format!("cd {ROOT}/outputs && make"), "allow");
    check("cd /project && make", "ask");
    check(&format!("cd {PROJECT} && make"), "ask");
    check(&format!("cd {ROOT} && make"), "ask");
}

#[test]
fn project_grant_excludes_skill_commands_in_the_workspace() {
    let policy = shipped();
    let args = json!({"command": "make; ls skills/pdf"});
    let granted = granting(&["run_bash_command: make", "run_bash_command: make *"]);
    let check = |args: &Value, start: Option<&StartFolder>, settings: &SessionSettings, expected: (&str, &[&str])| {
        let explanation = started(&policy, args, start, settings);
        let offered: Vec<&str> = explanation.grants.iter().map(String::as_str).collect();
        assert_eq!((mark(&explanation), offered.as_slice()), expected, "{args} {start:?} {explanation:?}");
    };
    check(&args, Some(&in_project()), &granted, ("allow", &[]));
    check(&args, Some(&workspace()), &granted, ("ask", &["run_bash_command: [in /] make"]));
    check(
        &json!({"command": "make skills/pdf"}),
        Some(&workspace()),
        &granted,
        ("ask", &["run_bash_command: [in /] make skills/pdf"]),
    );
    // With an unknown folder, no rule applies and none is offered.
    check(&args, None, &granted, ("ask", &[]));
    let root_grant = granting(&["run_bash_command: [in /] make"]);
    check(&args, Some(&workspace()), &root_grant, ("allow", &[]));
    check(&args, Some(&in_project()), &root_grant, ("ask", &["run_bash_command: make"]));
    check(&json!({"command": "make", "directory": "/"}), Some(&workspace()), &root_grant, ("allow", &[]));
}

/// A permanent grant names a host folder, regardless of the folder's name in a session.
#[test]
fn host_folder_grant_applies_only_in_that_folder() {
    let policy = shipped();
    let granted = granting(&[&format!("run_bash_command: [at {PROJECT}] make")]);
    let check = |args: Value, start: Option<&StartFolder>, expected: &str| {
        let explanation = started(&policy, &args, start, &granted);
        assert_eq!(mark(&explanation), expected, "{args} {start:?} {explanation:?}");
    };
    let sub = folder("/project/sub", &format!("{PROJECT}/sub"));
    let another = folder("/project", "/home/me/another");
    let (plain_call, named) = (json!({"command": "make"}), json!({"command": "make", "directory": "/project"}));
    check(plain_call.clone(), Some(&in_project()), "allow");
    check(named.clone(), Some(&in_project()), "allow");
    check(json!({"command": "cd /project && make"}), Some(&in_project()), "allow");
    check(json!({"command": "make all"}), Some(&in_project()), "ask");
    check(json!({"command": "cd /outputs && make"}), Some(&in_project()), "ask");
    check(json!({"command": "printf x | make"}), Some(&in_project()), "ask");
    for elsewhere in [Some(&another), Some(&sub), Some(&workspace()), None] {
        check(plain_call.clone(), elsewhere, "ask");
        check(named.clone(), elsewhere, "ask");
    }
    // A folder in the session's own tree at this path is not the project.
    check(named, Some(&folder("/outputs", PROJECT)), "ask");
}

/// A model may choose any folder name.
#[test]
fn grants_do_not_apply_in_folders_named_like_rule_text() {
    let policy = shipped();
    let granted =
        granting(&["run_bash_command: [in /project/a] b] make", "run_bash_command: [in /project/a] 'b]' make"]);
    let start = folder("/project/a] b", &format!("{PROJECT}/a] b"));
    let explanation = started(&policy, &json!({"command": "make", "directory": "a] b"}), Some(&start), &granted);
    assert_eq!((mark(&explanation), explanation.grants.len()), ("ask", 0), "{explanation:?}");
}

#[test]
fn git_asks_next_to_unsandboxed_commands() {
    let policy = shipped();
    let granted = granting(&["run_bash_command: touch x", "run_bash_command: cargo test", "run_bash_command: git log"]);
    let check = |command: &str, expected: &str, offered: &[&str]| {
        let explanation = run(&policy, command, &granted);
        let rules: Vec<String> = offered.iter().map(|rule| format!("{SHELL_TOOL}: {rule}")).collect();
        assert_eq!((mark(&explanation), &explanation.grants), (expected, &rules), "{command} {explanation:?}");
    };
    check("git diff; touch x", "ask", &["git diff"]);
    check("touch x && git status", "ask", &["git status"]);
    check("git show HEAD | head -3; touch x", "ask", &["git show HEAD"]);
    check("cargo test | git grep -c x", "ask", &["cargo test | git grep -c x"]);
    check("git --no-pager diff && ls && touch x", "ask", &["git --no-pager diff"]);
    // If another part asks anyway, the rule for git is granted together with that part's rule.
    check("git diff; make", "ask", &["git diff", "make"]);
    check("git log; touch x", "allow", &[]);
    check("git diff; git log", "allow", &[]);
    check("cd /project && cargo test 2>&1 | tail -3; cat a; ls; grep x a; echo done", "allow", &[]);
    let all = granting(&["run_bash_command: touch x", "run_bash_command: git diff"]);
    assert_eq!(mark(&run(&policy, "git diff; touch x", &all)), "allow");
    let mild = compiled("tools: {run_bash_command: {patterns: {low_risk: ['make test']}}}");
    assert_eq!(mark(&run(&mild, "git diff; make test", &SessionSettings::default())), "ask");
    // If commands run without approval anyway, so does this command.
    let trusting = SessionSettings { confirm_exec: false, ..SessionSettings::default() };
    assert_eq!(mark(&run(&policy, "git diff; touch x", &trusting)), "allow");
}

#[test]
fn read_only_commands_obey_read_rules_of_their_folder() {
    let rules = "tools: {read_file: {patterns: {medium_risk: ['^/project/drafts'], critical: ['^/project/locked']}, \
                 actions: {critical: deny}}}";
    let (policy, none) = (compiled(rules), SessionSettings::default());
    let trusting = SessionSettings { confirm_exec: false, ..SessionSettings::default() };
    let check = |command: &str, named: &str, real: &str, settings: &SessionSettings, expected: &str| {
        let start = folder(real, &format!("/home/me{real}"));
        for key in ["directory", "cwd"] {
            let explanation = started(&policy, &json!({"command": command, key: named}), Some(&start), settings);
            assert_eq!(mark(&explanation), expected, "{command} in {named} {explanation:?}");
        }
    };
    check("cat config", "/project/src", "/project/src", &none, "allow");
    for named in ["/project/.aws", ".aws", "/project/.AWS/", "/outputs/x/.ssh"] {
        check("cat config", named, named, &none, "high");
        check("ls; pwd", named, named, &none, "high");
        check("make", named, named, &none, "high");
        check("cp config /outputs/x", named, named, &trusting, "high");
        check("(cat config)", named, named, &trusting, "high");
    }
    // A link may lead to such a folder.
    check("cat config", "/project/link", "/project/.aws", &none, "high");
    check("cat config", "/project/link", "/project/locked", &none, "deny");
    check("cat a", "/project/drafts", "/project/drafts", &none, "ask");
    check("cat a", "drafts", "/project/drafts", &trusting, "ask");
    check("cat a", "/project/locked/x", "/project/locked/x", &none, "deny");
    // Commands that do more than read are left to the command rules.
    check("make", "/project/locked", "/project/locked", &none, "ask");
    let granted = granting(&["run_bash_command: [in /project/.aws] cat config", "run_bash_command: cat config"]);
    check("cat config", "/project/.aws", "/project/.aws", &granted, "allow");
    check("cat config", "/project/.ssh", "/project/.ssh", &granted, "high");
}

#[test]
fn denied_program_cannot_hide_in_launcher_options() {
    let policy = compiled("tools: {run_bash_command: {deny: [rm, 'git push']}}");
    for command in [
        "env '-Srm x'",
        "env -S\"rm x\"",
        "env -Srm x",
        "env -iS'rm x'",
        "env -vS 'rm x'",
        "env -S'A=1 rm x'",
        "env -SA=1 rm x",
        "env --split-string='rm x'",
        "env --split-string=rm x",
        r"env '-Srm\_x'",
        r"env -S 'rm\_x'",
        "env '-Sgit -C' a push",
        "sudo env '-Srm x'",
        "timeout 5 env '-Srm x'",
        "sh -c \"env '-Srm x'\"",
        "su -c'rm x'",
        "flock x -c'rm x'",
        "find . -exec env '-Srm x' ;",
    ] {
        assert_eq!(mark(&run(&policy, command, &SessionSettings::default())), "deny", "{command}");
    }
    for command in ["env -S'ls x'", "env -u rm2 ls", "timeout -s KILL 5 make"] {
        assert_eq!(mark(&run(&policy, command, &SessionSettings::default())), "high", "{command}");
    }
}
