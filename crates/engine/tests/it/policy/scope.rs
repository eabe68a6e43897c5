//! Scope of denials, patterns and grants.

use agentd_core::{policy::Layer, session::SessionSettings, tool::Effect};
use agentd_policy::SHELL_TOOL;
use serde_json::json;

use super::{compiled, granting, judge, mark, run, shipped, tool};

#[test]
fn denied_argument_cannot_hide_in_shell_expansions() {
    let policy = compiled("tools: {run_bash_command: {deny: [make deploy, 'git push*', 'task delete ns']}}");
    let trusting = SessionSettings {
        confirm_exec: false,
        ..granting(&["run_bash_command: make *", "run_bash_command: git *", "run_bash_command: task *"])
    };
    let check = |command: &str, expected: &str| {
        let explanation = run(&policy, command, &trusting);
        assert_eq!(mark(&explanation), expected, "{command} {explanation:?}");
        assert!(expected == "allow" || explanation.grants.is_empty(), "{command} {explanation:?}");
    };
    for command in [
        "make deplo*",
        "make d?ploy",
        "make *",
        "make deplo[xy]",
        "make deplo[[:alpha:]]",
        "shopt -s nocaseglob; make DEPLO*",
        "make {x,deploy}",
        "make {deploy,}",
        "x=deploy; make $x",
        "x=deploy; make \"$x\"",
        "make -j4 ${x:-deploy}",
        "make $(echo deploy)",
        "make `echo deploy`",
        "echo deploy | xargs make",
        "find . -exec make {} +",
        "find . -exec make {} \\;",
        "for t in deploy; do make $t; done",
        "git -C a pu*",
        "git p{ush,ull}",
        "git $x",
        "x='delete ns'; task $x prod",
        "task delete n*",
        "task * prod",
    ] {
        check(command, "high");
    }
    check("make 'deploy'", "deny");
    check("git pushing", "deny");
    check("make tes*", "allow");
    check("make *.o", "allow");
    check("make -C a{b,c}", "high");
    check("task delete pod*", "allow");
    check("cmake $x", "allow");
}

#[test]
fn whole_command_pattern_applies_despite_granted_parts() {
    let rules = r"tools: {run_bash_command: {patterns: {high_risk: ['\bgit push\b', 'make.*&&.*push']}}}";
    let policy = compiled(rules);
    let grants = granting(&["run_bash_command: make", "run_bash_command: git push"]);
    let explanation = run(&policy, "make && git push", &grants);
    assert_eq!((mark(&explanation), explanation.grants.len()), ("high", 0), "{explanation:?}");
    assert!(explanation.rule.contains("make.*&&.*push"), "{explanation:?}");
    assert_eq!(mark(&run(&policy, "git push && make", &grants)), "allow");
}

#[test]
fn grant_covers_only_its_command() {
    let policy = shipped();
    let check = |grant: &str, command: &str, expected: &str| {
        let explanation = run(&policy, command, &granting(&[grant]));
        assert_eq!(mark(&explanation), expected, "{grant}: {command} {explanation:?}");
        if expected == "allow" {
            assert_eq!((explanation.layer, explanation.granted_by), (Layer::Grant, vec![grant.to_owned()]));
        }
    };
    let make = "run_bash_command: make";
    check(make, "make", "allow");
    check(make, "'make'", "allow");
    check(make, "ls; make 2>&1 | tail -5", "allow");
    check(make, "make test", "ask");
    check(make, "make && make test", "ask");
    check(make, "FOO=1 make", "ask");
    check(make, "make > out.txt", "ask");
    check(make, "/tmp/make", "high");
    check(make, "./make", "ask");
    check(make, "make; rm -rf /", "critical");
    check(make, "make $(rm -rf /)", "critical");
    check(make, "make() { ls; }; make", "high");
    let cargo = "run_bash_command: cargo test *";
    check(cargo, "cargo test", "allow");
    check(cargo, "cargo test --all 2>&1", "allow");
    check(cargo, "cargo 'test' x", "allow");
    check(cargo, "cargo testing", "ask");
    check(cargo, "cargo build", "ask");
    check(cargo, "X=1 cargo test", "ask");
    check(cargo, "cargo test > x", "ask");
    check(cargo, "cargo test $X", "ask");
    check(cargo, "cargo test --config x", "high");
    check(cargo, "cargo test && cargo build", "ask");
    check(cargo, "cargo test; make", "ask");
    check(cargo, "cargo test $(make)", "ask");
    check(cargo, "make | cargo test", "ask");
    // Arguments that match the star must stay in the session's folders.
    check(cargo, "cargo test --manifest-path sub/Cargo.toml", "allow");
    check(cargo, "cargo test --target-dir /etc/x", "ask");
    check(cargo, "cargo test --target-dir=/etc/x", "ask");
    check(cargo, "cargo test --target-dir ../x", "ask");
    check(cargo, "cargo test --target-dir ~/x", "ask");
    // A rule for another tool or an invalid rule covers nothing.
    check("write_file", "make", "ask");
    check("run_bash_command", "make", "ask");
    check("run_bash_command: *", "make", "ask");
    check("run_bash_command:make", "make", "ask");
    check("make", "make", "ask");
    // No grant allows critical or denied commands.
    check("run_bash_command: rm -rf /", "rm -rf /", "critical");
    check("run_bash_command: shutdown *", "shutdown now", "deny");
}

#[test]
fn grant_names_whole_pipelines_and_redirected_descriptors() {
    let policy = shipped();
    let check = |grant: &str, command: &str, expected: &str| {
        let explanation = run(&policy, command, &granting(&[&format!("{SHELL_TOOL}: {grant}")]));
        assert_eq!(mark(&explanation), expected, "{grant}: {command} {explanation:?}");
    };
    let fed = "printf 'all: ;' | make -f Makefile";
    check(fed, fed, "allow");
    check(fed, "printf 'all:  ;' | make -f Makefile", "ask");
    check(fed, "make -f Makefile", "ask");
    check(fed, "printf 'all: ;'|make -f 'Makefile' && ls", "allow");
    check(fed, "printf 'all: ;' | make -f Makefile | tee x", "ask");
    check("make -f Makefile", "make -f Makefile", "allow");
    check("make -f Makefile", "make -f Makefile | tail -3", "allow");
    check("make -f Makefile", fed, "ask");
    check("make *", fed, "ask");
    check("make *", "make -f Makefile 2>&1 | tail -3", "allow");
    check("make", "make < Makefile", "ask");
    check("make 1> out.txt", "make > out.txt", "allow");
    check("make 1> out.txt", "make 2> out.txt", "ask");
    check("make 2> out.txt", "make > out.txt", "ask");
    check("make 2> out.txt", "make 2>> out.txt", "ask");
    check("make 1> out.txt", "make &> out.txt", "ask");
    // Rules from older versions are not matched: redirections without a descriptor, or a command without its wrapper.
    check("make > out.txt", "make > out.txt", "ask");
    check("timeout 5 *", "timeout 5 make", "ask");
    check("bash *", "bash x.sh", "ask");
    check("make", "timeout 5 make", "ask");
    check("make *", "make *.o", "ask");
    check("echo 'a | b'", "echo a | b", "ask");
    check("[in /project] make", "make", "ask");
}

#[test]
fn grant_names_the_start_folder() {
    let policy = shipped();
    let shell = tool(SHELL_TOOL, Effect::Execute);
    let call_in_project = json!({"command": "make", "directory": "/project", "timeout_s": 5});
    let explanation =
        judge(&policy, &shell, &call_in_project, &granting(&["run_bash_command: make", "run_bash_command: make *"]));
    assert_eq!(
        (mark(&explanation), explanation.grants),
        ("ask", vec!["run_bash_command: [in /project] make".to_owned()])
    );
    let explanation = judge(&policy, &shell, &call_in_project, &granting(&["run_bash_command: [in /project] make"]));
    assert_eq!(mark(&explanation), "allow");
}

#[test]
fn grants_do_not_apply_after_a_change_of_directory() {
    let policy = shipped();
    let grants = granting(&["run_bash_command: make", "run_bash_command: cargo test *", "run_bash_command: cd /tmp"]);
    let check = |command: &str, expected: &str, proposed: &[&str]| {
        let explanation = run(&policy, command, &grants);
        let proposed: Vec<String> = proposed.iter().map(|rule| format!("{SHELL_TOOL}: {rule}")).collect();
        assert_eq!((mark(&explanation), &explanation.grants), (expected, &proposed), "{command} {explanation:?}");
    };
    check("make", "allow", &[]);
    check("cd /home/me/project && make", "allow", &[]);
    check("cd /home/me/project && cargo test x && npm test", "ask", &["npm test"]);
    for command in [
        "cd uploads && make",
        "cd ../uploads; cargo test x",
        "cd uploads; cd ..; cargo test x",
        "(cd uploads && make)",
        "pushd uploads && make",
        "cd /home/me/project && popd && make",
        "cd /home/me/project && cd uploads && make",
        "cd -- uploads && make",
        "command cd uploads && make",
        "builtin cd uploads && make",
        "cd && make",
        "cd - && make",
        "cd /tmp && make",
        "for i in 1 2; do make; cd uploads; done",
        "bash -c 'cd uploads && make'",
    ] {
        check(command, "ask", &[]);
    }
    check("cd $X && make", "ask", &[]);
    // A prefix rule applies to any folder, and covers commands in folders inside the usual one.
    check("cd uploads; cargo test x", "allow", &[]);
    check("cd /project/uploads && cargo test x && cd ..", "allow", &[]);
}

#[test]
fn verdict_marks_read_only_commands() {
    let only_looks = |yaml: &str, command: &str, settings: &SessionSettings| {
        let explanation = run(&compiled(yaml), command, settings);
        assert_eq!(mark(&explanation), "allow", "{yaml} {command} {explanation:?}");
        explanation.only_looks()
    };
    let none = SessionSettings::default();
    let trusting = SessionSettings { confirm_exec: false, ..SessionSettings::default() };
    assert!(only_looks("{}", "ls", &none));
    assert!(only_looks("{}", "ls && git status | head -3", &trusting));
    assert!(only_looks("global: {default_action: allow}", "cat a.txt", &none));
    assert!(!only_looks("{}", "make", &trusting));
    assert!(!only_looks("{}", "ls; make", &granting(&["run_bash_command: make"])));
    assert!(!only_looks("global: {default_action: allow}", "make", &none));
    assert!(!only_looks("global: {enable_approval: false}", "make", &none));
    let mild = "tools: {run_bash_command: {patterns: {low_risk: ['make test']}}}";
    assert!(!only_looks(mild, "ls; make test", &none));
    let read = judge(&compiled("{}"), &tool("read_file", Effect::Read), &json!({"path": "a"}), &none);
    assert!(mark(&read) == "allow" && !read.only_looks());
}
