//! Handwritten grants: rules that could never match are rejected, with a hint for a valid rule.

use agentd_core::tool::{Effect, ToolSpec};
use agentd_policy::{SHELL_TOOL, check_grant};
use serde_json::json;

use super::{compiled, granting, judge, mark, run, shipped, tool};

fn tools() -> Vec<ToolSpec> {
    vec![
        tool("deploy", Effect::Execute),
        tool("read_file", Effect::Read),
        tool(SHELL_TOOL, Effect::Execute),
        tool("write_file", Effect::Write),
    ]
}

#[test]
fn valid_grants_are_accepted() {
    let policy = shipped();
    let check = |rule: &str| assert_eq!(check_grant(&policy, rule, &tools()), Ok(()), "{rule}");
    check("write_file");
    check("read_file");
    check("run_bash_command: cargo test");
    check("run_bash_command: git commit -m 'two words'");
    check("run_bash_command: [in /project] make");
    check("run_bash_command: [at /home/me/app] make");
    check("run_bash_command: [at /home/me/a\\] b] make");
    check("run_bash_command: cargo test *");
    check("run_bash_command: npm *");
    check("run_bash_command: make 2> errors.txt");
    check("run_bash_command: cat a.txt | make -f Makefile");
    check("deploy: make");
    check(r#"deploy {"to":"test"}"#);
}

#[test]
fn ineffective_grants_are_rejected_with_a_suggestion() {
    let policy = shipped();
    let check = |rule: &str, problem: &str, hint: &str| {
        let unfit = check_grant(&policy, rule, &tools()).expect_err(rule);
        assert!(unfit.problem.contains(problem) && unfit.hint.contains(hint), "{rule}: {unfit:?}");
    };
    check("", "1 to", "approval");
    check("write\u{1b}[2J_file", "control characters", "approval");
    check(&format!("run_bash_command: {}", "x".repeat(20_000)), "bytes", "approval");
    check("write_flie", "no such tool: \"write_flie\"", "agentctl tools");
    check("*", "no such tool", "agentctl tools");
    check("cargo test", "no such tool: \"cargo\"", "begin the rule with a tool");
    check("write_file *.md", "all its calls", "`write_file`");
    check("run_bash_command", "anything", "name a command");
    check(r#"run_bash_command {"command":"ls"}"#, "anything", "name a command");
    check("run_bash_command: *", "every command", "cargo test *");
    check("run_bash_command:  ", "every command", "cargo test *");
    check("run_bash_command: [in sub] make", "absolute path", "[in /project/sub]");
    check("run_bash_command: [at app] make", "absolute path", "pwd -P");
    check("run_bash_command: [at /home/me/app]  make", "normal form", "[at /home/me/app] make");
    check("run_bash_command: [in /project] make *", "cannot name a folder", "[in …]");
    check("run_bash_command: git 'commit' *", "not a plain word", "plain words");
    check("run_bash_command: a; b *", "not a plain word", "plain words");
    check("run_bash_command: make  \"all\"", "normal form", "`run_bash_command: make all`");
    check(
        "run_bash_command: make && git push",
        "one command",
        "`run_bash_command: make`, `run_bash_command: git push`",
    );
    check("run_bash_command: make > out.txt", "normal form", "`run_bash_command: make 1> out.txt`");
    check("run_bash_command: (make)", "cannot be known", "plain words");
    check("run_bash_command: rm $FILE", "cannot be known", "without variables");
    check("run_bash_command: shutdown now", "deny", "hitl_rules.yaml");
    check("run_bash_command: rm -rf /", "critical", "when asked");
    check("deploy", "call by call", "deploy {");
    check("deploy *", "call by call", "deploy {");
    check(r#"deploy {"to": "test"}"#, "normal form", r#"`deploy {"to":"test"}`"#);
    let rules = compiled("tools: {deploy: {patterns: {high_risk: [prod]}, actions: {high_risk: deny}}}");
    let unfit = check_grant(&rules, r#"deploy {"to":"prod"}"#, &tools()).unwrap_err();
    assert!(unfit.problem.contains("deny"), "{unfit:?}");
}

#[test]
fn proposed_grants_can_be_added_by_hand() {
    let policy = shipped();
    let none = granting(&[]);
    for command in [
        "make && git push origin main",
        "FOO='a b' make > out.txt",
        "cp 'a b' c",
        "cd /home/me/project; make",
        "make 2> errors.txt",
        "printf 'all: ;' | make -f Makefile",
        "make | tee log",
    ] {
        let explanation = run(&policy, command, &none);
        assert!(!explanation.grants.is_empty(), "{command}: {explanation:?}");
        for rule in &explanation.grants {
            assert_eq!(check_grant(&policy, rule, &tools()), Ok(()), "{command}");
        }
        let rules: Vec<&str> = explanation.grants.iter().map(String::as_str).collect();
        assert_eq!(mark(&run(&policy, command, &granting(&rules))), "allow", "{command}: {rules:?}");
    }
    let explanation = judge(&policy, &tool("deploy", Effect::Execute), &json!({"to": "test", "n": [1, "ä"]}), &none);
    assert_eq!(check_grant(&policy, &explanation.grants[0], &tools()), Ok(()));
}
