//! Rule files, layers, tools other than commands, and grants.

use std::sync::Arc;

use agentd_core::{
    policy::{Layer, Verdict},
    session::SessionSettings,
    tool::Effect,
};
use agentd_policy::{CallContext, Check, Policy, RuleFile, Rules, SHELL_TOOL};
use serde_json::json;

use super::{compiled, granting, judge, mark, may_show, run, shipped, tool, with_all};

/// Example from the documentation, with every key of a rule file.
const EXAMPLE: &str = r#"
global:
  enable_approval: true
  default_action: "prompt"
  risk_patterns:
    critical:
      patterns:
        - "password\\s*[=:]\\s*['\"]?\\w+"
        - "api[_-]?key\\s*[=:]\\s*"
        - "secret\\s*[=:]\\s*"
      action: require_approval
      reason: "检测到敏感信息（密码/密钥/令牌）"
    high:
      patterns:
        - "/etc/passwd"
        - "DROP\\s+(TABLE|DATABASE)"
      action: require_approval
      reason: "检测到高风险操作"
tools:
  run_bash_command:
    enabled: true
    patterns:
      high_risk: ["rm\\s+-rf", "sudo", "chmod\\s+777", "dd\\s+if="]
      medium_risk: ["curl", "wget", "pip\\s+install", "git\\s+clone"]
    actions:
      high_risk: require_approval
      medium_risk: require_approval
  http_fetch:
    enabled: true
    patterns:
      high_risk: ["internal\\.company\\.com", "192\\.168\\."]
      medium_risk: ["api\\."]
      low_risk: ["https://docs\\."]
    actions:
      high_risk: deny
      medium_risk: require_approval
      low_risk: allow
"#;

#[test]
fn documented_rule_file_applies_to_each_named_tool() {
    let policy = compiled(EXAMPLE);
    let check = |name: &str, effect, args, expected: &str, rule: &str| {
        let explanation = judge(&policy, &tool(name, effect), &args, &SessionSettings::default());
        assert_eq!(mark(&explanation), expected, "{args} {explanation:?}");
        assert!(explanation.rule.contains(rule), "{args} {explanation:?}");
    };
    let fetch = |args, expected: &str, rule: &str| check("http_fetch", Effect::Execute, args, expected, rule);
    fetch(json!({"url": "http://internal.company.com/x"}), "deny", "tools.http_fetch.patterns.high_risk");
    fetch(json!({"url": "https://api.example.org"}), "ask", "medium_risk: api");
    fetch(json!({"url": "https://docs.example.org"}), "allow", "low_risk");
    fetch(json!({"url": "https://x.example/?https://docs."}), "high", "confirm_exec");
    fetch(json!({"url": "https://docs.x", "body": "password=hunter2"}), "critical", "global");
    let write = |args, expected: &str, rule: &str| check("write_file", Effect::Write, args, expected, rule);
    write(json!({"path": "a", "content": "api_key: x"}), "critical", "global.risk_patterns.critical");
    write(json!({"path": "a", "content": "hello"}), "ask", "confirm_write");
    write(json!({"path": "a", "password": "hunter2"}), "critical", "password");
    check("read_file", Effect::Read, json!({"path": "/etc/passwd"}), "high", "/etc/passwd");
    check("read_file", Effect::Read, json!({"path": "a"}), "allow", "");
    check(SHELL_TOOL, Effect::Execute, json!({"command": "pip  install x"}), "ask", "medium_risk");
    check(SHELL_TOOL, Effect::Execute, json!({"command": "c'ur'l x"}), "ask", "medium_risk: curl");
}

#[test]
fn json_escapes_hide_nothing_from_rules() {
    let policy = shipped();
    let settings = SessionSettings { confirm_write: false, ..SessionSettings::default() };
    let facts_of = |arguments: &str| {
        with_all(None, None, &tool("write_file", Effect::Write), &json!({}), &settings, |facts| {
            mark(&policy.judge(&CallContext { arguments, ..*facts }))
        })
    };
    assert_eq!(facts_of(r#"{"path":"a","content":"\u0070assword=hunter2"}"#), "critical");
    assert_eq!(facts_of(r#"{"path":"a","content":["x",{"y":"pass\u0077ord = hunter2"}]}"#), "critical");
    assert_eq!(facts_of(r#"{"path":"a","content":"x"}"#), "allow");
    // Unparsable arguments are not allowed.
    assert_eq!(facts_of(r#"{"path":"a","content":"#), "high");
    assert_eq!(facts_of("[1]"), "high");
    assert_eq!(facts_of(&format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100))), "high");
}

#[test]
fn invalid_pattern_is_reported_with_its_key() {
    let check = |yaml: &str, key: &str, part: &str| {
        let file: RuleFile = serde_saphyr::from_str(yaml).unwrap();
        let error = Rules::compile(&file).unwrap_err();
        assert_eq!(error.key, key);
        assert!(error.to_string().contains(part), "{error}");
    };
    check("tools: {x: {patterns: {high_risk: ['(']}}}", "tools.x.patterns.high_risk", "unclosed group");
    check("tools: {x: {patterns: {critical: ['a)(?:b']}}}", "tools.x.patterns.critical", "unopened group");
    check("global: {risk_patterns: {high: {patterns: ['(?=x)']}}}", "global.risk_patterns.high", "look-around");
    check("global: {risk_patterns: {low: {patterns: ['']}}}", "global.risk_patterns.low", "empty");
    check(r"tools: {x: {patterns: {low_risk: ['(\w{500}){500}']}}}", "tools.x.patterns.low_risk", "exceeds size limit");
    check("tools: {run_bash_command: {deny: ['/bin/rm']}}", "tools.run_bash_command.deny", "without a folder");
    check("tools: {run_bash_command: {deny: ['  ']}}", "tools.run_bash_command.deny", "not a program");
}

#[test]
fn rule_file_switches_take_effect() {
    let settings = SessionSettings::default();
    let check = |yaml: &str, command: &str, expected: &str| {
        let explanation = run(&compiled(yaml), command, &settings);
        assert_eq!(mark(&explanation), expected, "{yaml} {command} {explanation:?}");
    };
    let deny_x = "tools: {run_bash_command: {deny: [x, 'git push', 'mk*']}}";
    check(deny_x, "x", "deny");
    check(deny_x, "git -C a push --all", "deny");
    check(deny_x, "git pull", "ask");
    check(deny_x, "mkdir a", "deny");
    check(deny_x, "make", "ask");
    // Approval can be disabled, but denial cannot.
    let silent = "{global: {enable_approval: false}, tools: {run_bash_command: {deny: [x]}}}";
    check(silent, "make", "allow");
    check(silent, "rm -rf /", "allow");
    check(silent, "make; x", "deny");
    // Built-in patterns stay in force if a section is disabled.
    let disabled_section = "tools: {run_bash_command: {enabled: false, deny: [x], patterns: {high_risk: [make]}}}";
    check(disabled_section, "x", "ask");
    check(disabled_section, "make", "ask");
    check(disabled_section, "rm -rf /", "critical");
    check("global: {default_action: deny}", "make", "deny");
    check("global: {default_action: deny}", "ls", "allow");
    check("global: {default_action: allow}", "make", "allow");
    check("global: {default_action: allow}", "rm -rf /", "critical");
    let mild = "tools: {run_bash_command: {patterns: {low_risk: ['make (test|build)']}}}";
    check(mild, "make test", "allow");
    check(mild, "make test && make build", "allow");
    check(mild, "make test && make install", "ask");
    check(mild, "echo x; cmake test", "ask");
    check(mild, "make test > /etc/x", "critical");
    check(mild, "PATH=x make test", "high");
    check(mild, "make test $X", "ask");
}

#[test]
fn settings_decide_if_no_rule_matches() {
    let check = |effect, cautious: &str, trusting: &str| {
        let tool = tool("t", effect);
        let args = json!({"path": "a"});
        let policy = shipped();
        let settings = SessionSettings::default();
        assert_eq!(mark(&judge(&policy, &tool, &args, &settings)), cautious);
        let settings = SessionSettings { confirm_write: false, confirm_exec: false, ..settings };
        assert_eq!(mark(&judge(&policy, &tool, &args, &settings)), trusting);
    };
    check(Effect::Read, "allow", "allow");
    check(Effect::State, "allow", "allow");
    check(Effect::Write, "ask", "allow");
    check(Effect::Execute, "high", "allow");
}

#[test]
fn files_run_by_other_programs_ask_despite_grants() {
    let settings =
        SessionSettings { confirm_write: false, grants: vec!["write_file".into()], ..SessionSettings::default() };
    let policy = shipped();
    let check = |key: &str, text: &str, expected: &str| {
        let explanation = judge(&policy, &tool("write_file", Effect::Write), &json!({ key: text }), &settings);
        assert_eq!(mark(&explanation), expected, "{text} {explanation:?}");
        assert!(explanation.grants.is_empty(), "{explanation:?}");
    };
    for path in [
        ".bashrc",
        "/project/.git/hooks/pre-commit",
        "./.GIT/config",
        ".github/workflows/ci.yml",
        ".envrc",
        "a/.vscode/tasks.json",
        ".gitlab-ci.yml",
        ".ssh/authorized_keys",
        "lib/site-packages/x.pth",
        ".env",
        "keys/server.pem",
        "a//.git//config",
    ] {
        check("path", path, "high");
        check("file_path", path, "high");
    }
    for path in ["src/main.rs", "Makefile", "git/hooks/x", ".gitignore", ".env.example", "docs/environment.md"] {
        check("path", path, "allow");
    }
    check("patch", "--- a/src/x\n+++ b/.git/hooks/x\n@@ -1 +1 @@\n-a\n+b\n", "high");
    check("patch", "*** Begin Patch\n*** Update File: .envrc\n*** End Patch", "high");
    check("patch", "*** Begin Patch\n*** Update File: a\n*** Move to: .bashrc\n*** End Patch", "high");
    check("patch", "--- a/src/x\n+++ b/src/x\n@@ -1 +1 @@\n-a\n+b\n", "allow");
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    for head in [
        "diff --git a/.envrc b/.envrc\n",
        "diff --git a/x b/y/.envrc b/x b/y/.envrc\n",
        "diff --git a/.git/hooks/x b/.git/hooks/x\r\n",
        "diff --git \"a/.envrc\" \"b/.envrc\"\n",
        "diff --git \"a/.envr\\143\" \"b/.envr\\143\"\n",
        "diff --git a/x b/x\nrename from .env\nrename to shown\n",
        "diff --git a/x b/x\nrename from x\nrename to \".envr\\143\"\n",
        "diff --git a/x b/x\nrename from x\nrename to \".envrc\" y\n",
        "--- a/x\n+++ \"b/.gi\\164/config\"\n",
        "--- a/x\n+++ \"b/.envrc\"\t2026-01-01\n",
        "--- a/x\n+++ \"b/x\t/../.envrc\"\n",
        "--- a/x\n+++ \"b/.envrc\" b/x\n",
        "",
        "Index: x\n",
    ] {
        check("patch", &format!("{head}{hunk}"), "high");
    }
    for head in ["diff --git a/src/x b/src/x\n", "diff --git \"a/a b\" \"b/a b\"\n", "--- \"a/ä\"\n+++ \"b/ä\"\n"] {
        check("patch", &format!("{head}{hunk}"), "allow");
    }
}

#[test]
fn reading_secret_files_asks() {
    let check = |args, expected: &str| {
        let explanation = judge(&shipped(), &tool("read_file", Effect::Read), &args, &SessionSettings::default());
        assert_eq!(mark(&explanation), expected, "{args} {explanation:?}");
    };
    check(json!({"path": ".env"}), "high");
    check(json!({"file_path": "keys/ID_RSA"}), "high");
    check(json!({"path": "a\\.ssh\\config"}), "high");
    check(json!({"path": ".env.example"}), "allow");
    check(json!({"path": "src/environment.rs"}), "allow");
}

#[test]
fn each_rule_file_key_is_applied() {
    let check = |yaml: &str, command: &str, expected: &str, rule: &str| {
        let explanation = run(&compiled(yaml), command, &SessionSettings::default());
        assert_eq!(mark(&explanation), expected, "{yaml} {command} {explanation:?}");
        assert!(explanation.rule.contains(rule), "{yaml} {explanation:?}");
    };
    for (level, expected) in [("critical", "critical"), ("high", "high"), ("medium", "ask"), ("low", "low")] {
        let asks = format!("global: {{risk_patterns: {{{level}: {{patterns: [zap], action: require_approval}}}}}}");
        check(&asks, "ls zap", expected, &format!("global.risk_patterns.{level}: zap"));
        let denies = asks.replace("require_approval", "deny");
        check(&denies, "ls zap", "deny", &format!("global.risk_patterns.{level}: zap"));
        let word = if level == "critical" { level.to_owned() } else { format!("{level}_risk") };
        let tool = format!("tools: {{{SHELL_TOOL}: {{patterns: {{{word}: [zap]}}, actions: {{{word}: prompt}}}}}}");
        check(&tool, "ls zap", expected, &format!("tools.{SHELL_TOOL}.patterns.{word}: zap"));
        check(&tool.replace("prompt", "deny"), "ls zap", "deny", &format!("patterns.{word}: zap"));
        check(&tool.replace("prompt", "allow"), "zap x", "allow", &format!("patterns.{word}: zap"));
    }
    let reason = "global: {risk_patterns: {high: {patterns: [zap], action: require_approval, reason: because}}}";
    let explanation = run(&compiled(reason), "zap", &SessionSettings::default());
    let Verdict::Ask { reason, .. } = &explanation.verdict else { panic!("{explanation:?}") };
    assert!(reason.starts_with("because"), "{explanation:?}");
    let network = |yaml: &str| Rules::compile(&serde_saphyr::from_str(yaml).unwrap()).unwrap().network(SHELL_TOOL);
    assert_eq!(network("tools: {run_bash_command: {network: false}}"), Some(false));
    assert_eq!(network("tools: {run_bash_command: {network: true}}"), Some(true));
    assert_eq!(network("tools: {run_bash_command: {enabled: true}}"), None);
    // An unknown key or action is rejected with its position.
    for wrong in
        ["global: {enable_aproval: true}", "global: {default_action: maybe}", "tools: {x: {patterns: {high: [a]}}}"]
    {
        assert!(serde_saphyr::from_str::<RuleFile>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn each_asking_part_proposes_its_grant() {
    let policy = shipped();
    let check = |command: &str, grants: &[&str]| {
        let explanation = run(&policy, command, &SessionSettings::default());
        let expected: Vec<String> = grants.iter().map(|grant| format!("{SHELL_TOOL}: {grant}")).collect();
        assert_eq!(explanation.grants, expected, "{command} {explanation:?}");
    };
    check("make", &["make"]);
    check("make && make test", &["make", "make test"]);
    check("ls && make; make", &["make"]);
    check("m'ak'e \"test\"", &["make test"]);
    check("FOO=1 make > out.txt 2>&1", &["FOO=1 make 1> out.txt"]);
    check("make 2> out.txt", &["make 2> out.txt"]);
    check("make &> out.txt", &["make &> out.txt"]);
    check("make < in.txt", &["make 0< in.txt"]);
    check("printf x | make -f Makefile", &["printf x | make -f Makefile"]);
    check("make | make test | tail -3", &["make | make test | tail -3"]);
    check("make 2>&1 | tail -20", &["make"]);
    check("timeout 5 make", &["timeout 5 make"]);
    check("git commit -m 'a b'", &["git commit -m 'a b'"]);
    check("rm -rf build", &["rm -rf build"]);
    // An exact rule is not possible, not permitted or not needed.
    check("make $X", &[]);
    check("make && make $X", &[]);
    check("rm -rf /", &[]);
    check("make && sudo make install", &[]);
    check("ls | xargs make", &[]);
    check("(make)", &[]);
    check("for i in a; do make; done", &[]);
    check("ls", &[]);
}

#[test]
fn other_tools_are_granted_by_name_or_call() {
    let policy = shipped();
    let (write, deploy) = (tool("write_file", Effect::Write), tool("deploy", Effect::Execute));
    let (file, call) = (json!({"path": "a", "content": "b"}), json!({"to": "test"}));
    let none = SessionSettings::default();
    assert_eq!(judge(&policy, &write, &file, &none).grants, ["write_file"]);
    assert_eq!(mark(&judge(&policy, &write, &file, &granting(&["write_file"]))), "allow");
    assert_eq!(mark(&judge(&policy, &write, &file, &granting(&["edit_file"]))), "ask");
    assert_eq!(judge(&policy, &deploy, &call, &none).grants, [r#"deploy {"to":"test"}"#]);
    let granted = granting(&[r#"deploy {"to":"test"}"#]);
    assert_eq!(mark(&judge(&policy, &deploy, &call, &granted)), "allow");
    assert_eq!(mark(&judge(&policy, &deploy, &json!({"to": "prod"}), &granted)), "high");
    assert_eq!(mark(&judge(&policy, &deploy, &call, &granting(&["deploy"]))), "high");
    assert_eq!(judge(&policy, &deploy, &json!({}), &none).grants, Vec::<String>::new());
}

#[test]
fn upper_layers_override_individual_keys() {
    let read = |yaml: &str| serde_saphyr::from_str::<RuleFile>(yaml).unwrap();
    let mut rules = read(
        "{global: {default_action: deny, risk_patterns: {high: {patterns: [a], reason: r}}}, tools: {t: {patterns: {high_risk: [x], low_risk: [y]}, deny: [d]}}}",
    );
    let mut keys = Vec::new();
    let upper_layer = read(
        "{global: {risk_patterns: {high: {patterns: [b, c]}}}, tools: {t: {patterns: {high_risk: []}}, u: {network: true}}}",
    );
    rules.overlay(upper_layer, &mut |key| keys.push(key));
    assert_eq!(keys, ["global.risk_patterns.high.patterns", "tools.t.patterns.high_risk", "tools.u.network"]);
    let expected = read(
        "{global: {default_action: deny, risk_patterns: {high: {patterns: [b, c], reason: r}}}, tools: {t: {patterns: {high_risk: [], low_risk: [y]}, deny: [d]}, u: {network: true}}}",
    );
    assert_eq!(rules, expected);
}

#[test]
fn memory_reads_are_allowed_and_each_write_asks() {
    let policy = shipped();
    let trusting =
        SessionSettings { confirm_write: false, confirm_exec: false, ..granting(&["write_file", "apply_patch"]) };
    let write = |path: &str| {
        mark(&judge(&policy, &tool("write_file", Effect::Write), &json!({"path": path, "content": "x"}), &trusting))
    };
    for path in ["/memories/a.md", "memories/a.md", "./memories/a", ".//memories", "/memories", "/data/memories/a.md"] {
        assert_eq!(write(path), "high", "{path}");
    }
    for path in ["outputs/memories/a.md", "/project/memories/a.md", "memories.md", "/data/memoriesx/a"] {
        assert_eq!(write(path), "allow", "{path}");
    }
    let patch =
        |text: &str| mark(&judge(&policy, &tool("apply_patch", Effect::Write), &json!({ "patch": text }), &trusting));
    assert_eq!(patch("*** Begin Patch\n*** Add File: /memories/a.md\n+x\n*** End Patch"), "high");
    assert_eq!(
        patch("*** Begin Patch\n*** Update File: a\n*** Move to: memories/a\n@@\n-x\n+y\n*** End Patch"),
        "high"
    );
    assert_eq!(patch("--- a/memories/a.md\n+++ b/memories/a.md\n@@ -1 +1 @@\n-x\n+y\n"), "high");
    assert_eq!(patch("--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-x\n+/memories/a\n"), "allow");
    let cautious = SessionSettings::default();
    for (command, expected) in [
        ("cat /data/memories/a.md", "allow"),
        ("grep -r tea /data/memories", "allow"),
        ("echo x > /data/memories/a.md", "high"),
        ("rm /data/memories/a.md", "high"),
        ("cp a.md /data/memories/", "high"),
    ] {
        assert_eq!(mark(&run(&policy, command, &cautious)), expected, "{command}");
    }
    let read = judge(&policy, &tool("read_file", Effect::Read), &json!({"path": "/memories/a.md"}), &cautious);
    assert_eq!(mark(&read), "allow");
}

/// A check that objects to `forbidden` arguments, and panics on `broken` ones.
#[derive(Debug)]
struct TestCheck;

impl Check for TestCheck {
    fn objects(&self, facts: &CallContext<'_>) -> Option<String> {
        assert!(!facts.arguments.contains("broken"), "a check that fails");
        facts.arguments.contains("forbidden").then(|| "it is forbidden here".to_owned())
    }
}

#[test]
fn objecting_or_failing_check_denies_despite_grants() {
    let settings = granting(&["write_file", "run_bash_command: touch broken", "run_bash_command: touch forbidden"]);
    let trusting = SessionSettings { confirm_exec: false, confirm_write: false, ..settings };
    let policy = Policy::new(Rules::default()).with_check(Arc::new(TestCheck));
    for name in ["broken", "forbidden", "fine"] {
        let calls = [
            (tool(SHELL_TOOL, Effect::Execute), json!({"command": format!("touch {name}")})),
            (tool(SHELL_TOOL, Effect::Execute), json!({"command": format!("ls {name}")})),
            (tool("write_file", Effect::Write), json!({"path": name, "content": ""})),
            (tool("read_file", Effect::Read), json!({"path": name})),
        ];
        for (tool, args) in calls {
            let explanation = judge(&policy, &tool, &args, &trusting);
            let expected = match name {
                "broken" => Some("a check failed on it"),
                "forbidden" => Some("it is forbidden here"),
                _ => None,
            };
            match (&explanation.verdict, expected) {
                (Verdict::Allow, None) => {}
                (Verdict::Deny { reason }, Some(part)) => {
                    assert!(reason.contains(part) && explanation.grants.is_empty(), "{explanation:?}");
                    assert_eq!((explanation.layer, &explanation.rule), (Layer::Checker, reason));
                }
                _ => panic!("{args}: {explanation:?}"),
            }
        }
    }
}

#[test]
fn session_state_is_written_without_asking() {
    let policy = shipped();
    let judged = |tool_name: &str, args: serde_json::Value| {
        mark(&judge(&policy, &tool(tool_name, Effect::Write), &args, &SessionSettings::default()))
    };
    for path in ["/state/plan.md", "/state/a/b", "/./state//x", "//state/x"] {
        assert_eq!(judged("write_file", json!({"path": path, "content": "x"})), "allow", "{path}");
    }
    assert_eq!(judged("edit_file", json!({"path": "/state/a", "old_string": "x", "new_string": "y"})), "allow");
    for path in [
        "/state",
        "state/a",
        "./state/a",
        "/state/../outputs/a",
        "outputs/state/a",
        "/project/state/a",
        "state\\a",
        "/State/a",
        "/state/a/..",
    ] {
        assert_eq!(judged("write_file", json!({"path": path, "content": "x"})), "ask", "{path}");
    }
    assert_eq!(judged("write_file", json!({"path": "/state/a", "file": "outputs/b", "content": "x"})), "ask");
    assert_eq!(judged("write_file", json!({"path": ["/state/a"], "content": "x"})), "ask");
    // Another tool may interpret the path differently.
    assert_eq!(judged("files_write", json!({"path": "/state/a", "content": "x"})), "ask");
    assert_eq!(
        judged("apply_patch", json!({"patch": "*** Begin Patch\n*** Add File: /state/a\n+x\n*** End Patch"})),
        "ask"
    );
    // Findings of the rules still apply.
    assert_eq!(judged("write_file", json!({"path": "/state/.env", "content": "x"})), "high");
    assert_eq!(judged("write_file", json!({"path": "/state/a", "content": "password = 'hunter2'"})), "critical");
}

#[test]
fn file_preview_needs_both_read_and_call_permission() {
    let policies = [
        ("shipped", shipped()),
        ("none", Policy::new(Rules::default())),
        ("denying", compiled("global: {default_action: deny}")),
        ("checked", Policy::new(Rules::default()).with_check(Arc::new(TestCheck))),
        ("global", compiled("global: {risk_patterns: {critical: {patterns: [secret], action: deny}}}")),
        ("of read_file", compiled("tools: {read_file: {patterns: {medium_risk: [diary]}}}")),
        ("of grep", compiled("tools: {grep: {patterns: {high_risk: [diary]}, actions: {high_risk: deny}}}")),
        ("of edit_file", compiled("tools: {edit_file: {patterns: {high_risk: [diary]}, actions: {high_risk: deny}}}")),
    ];
    let effects = [
        ("grep", Effect::Read),
        ("find_files", Effect::Read),
        ("read_file", Effect::Read),
        ("edit_file", Effect::Write),
    ];
    let paths = [
        "a.txt",
        "diary.md",
        "secret.md",
        ".env",
        "/project/.ssh/id_ed25519",
        "/memories/a",
        "forbidden",
        "broken",
        ".git/config",
    ];
    let all = [SessionSettings::default(), granting(&["read_file", "grep", "edit_file"])];
    let reads = tool("read_file", Effect::Read);
    let (mut shown, mut withheld) = (0, 0);
    for ((rules, policy), (name, effect)) in policies.iter().flat_map(|policy| effects.map(|effect| (policy, effect))) {
        for (path, settings) in paths.iter().flat_map(|path| all.iter().map(move |settings| (path, settings))) {
            let (tool, args) = (tool(name, effect), json!({"path": path}));
            let of_call = judge(policy, &tool, &args, settings).verdict;
            let expected = judge(policy, &reads, &args, settings).verdict == Verdict::Allow
                && !matches!(of_call, Verdict::Deny { .. });
            let may = may_show(policy, &tool, &args, settings);
            assert_eq!(may, expected, "{name} of {path} under the rules {rules}");
            *(if may { &mut shown } else { &mut withheld }) += 1;
        }
    }
    assert!(shown > 100 && withheld > 100, "{shown} {withheld}");
}
