//! Properties that hold for all commands.

use std::sync::LazyLock;

use agentd_core::{policy::Verdict, session::SessionSettings};
use agentd_policy::{Policy, SHELL_TOOL};
use proptest::{collection::vec, prelude::*, sample::select, strategy::ValueTree};

use super::{
    granting,
    looking::{JOINTS, SIGNS},
    mark, run, shipped,
};

static POLICY: LazyLock<Policy> = LazyLock::new(shipped);
static DEPLOY: LazyLock<Policy> = LazyLock::new(|| super::compiled("tools: {run_bash_command: {deny: [make deploy]}}"));

/// Quotes a character in one of several ways.
fn quoted(c: char) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(c.to_string()),
        1 => Just(format!("\\{c}")),
        1 => Just(format!("'{c}'")),
        1 => Just(format!("\"{c}\"")),
        1 => Just(format!("''{c}")),
        1 => Just(format!("{c}\"\"")),
        1 => Just(format!("{c}\\\n")),
    ]
}

/// Writes each character of a word in one of several ways.
fn written(word: &'static str) -> impl Strategy<Value = String> {
    let letter = |c: char| {
        prop_oneof![
            10 => quoted(c),
            1 => Just(format!("$'\\x{:02x}'", u32::from(c))),
            1 => Just(format!("$'\\{:03o}'", u32::from(c))),
            1 => Just(format!("$'\\u{:04x}'", u32::from(c))),
        ]
    };
    word.chars().map(letter).collect::<Vec<_>>().prop_map(|letters| letters.concat())
}

/// Generates a denied command with optional text around it.
fn denied() -> impl Strategy<Value = String> {
    let folder = select(vec!["", "", "/sbin/", "/usr/sbin/", "./", "../x/", "//"]);
    let prefix = select(vec!["", "", "A=1 ", "A= B='x y' ", "2>/dev/null ", "! ", "time ", "\t  ", "\\\n"]);
    let suffix = select(vec!["", " now", " -h now", " >x", " 2>&1", " </dev/null", " 'x y'", " $X", " &", " # x"]);
    (prefix, folder, written("shutdown"), suffix).prop_map(|(a, b, c, d)| format!("{a}{b}{c}{d}"))
}

/// Generates a denied argument of a program, in spellings that the shell expands to this argument.
fn denied_argument() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        written("deploy"),
        select(vec![
            "deplo*",
            "*",
            "d?ploy",
            "[d]eploy",
            "{deploy,x}",
            "$x",
            "\"$x\"",
            "${x:-deploy}",
            "$(echo deploy)"
        ])
        .prop_map(str::to_owned),
    ];
    let before = select(vec!["", "", "-j4 ", "-C sub ", "V=1 ", "all ", "'x y' "]);
    (before, word, select(vec!["", " x", " >x", " &"])).prop_map(|(a, b, c)| format!("make {a}{b}{c}"))
}

/// Generates a command that runs another command. The inner command replaces `PLAIN`, or `QUOTED` inside single
/// quotes.
pub(crate) fn wrapped() -> impl Strategy<Value = String> {
    inside(denied())
}

fn inside(command: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let wrapper = select(vec![
        "PLAIN",
        "ls; PLAIN",
        "ls && PLAIN",
        "ls || PLAIN",
        "ls | PLAIN",
        "ls & PLAIN",
        "ls\nPLAIN",
        "(PLAIN\n)",
        "{ PLAIN\n}",
        "if ls; then PLAIN\nfi",
        "while PLAIN\ndo ls; done",
        "for i in 1; do PLAIN\ndone",
        "case x in x) PLAIN\n;; esac",
        "f() { PLAIN\n}; f",
        "echo $(PLAIN\n)",
        "echo \"$(PLAIN\n)\"",
        "X=$(PLAIN\n) ls",
        "cat <(PLAIN\n)",
        "sh -c 'QUOTED'",
        "bash -lc 'QUOTED'",
        "eval 'QUOTED'",
        "trap 'QUOTED' EXIT",
        "env sh -c 'QUOTED'",
        "timeout 5 sh -c 'QUOTED'",
        "find . -exec sh -c 'QUOTED' \\;",
        "ls | xargs sh -c 'QUOTED'",
        "nice -n 5 bash -c 'QUOTED'",
        "sudo sh -c 'QUOTED'",
        "busybox sh -c 'QUOTED'",
    ]);
    (wrapper, command).prop_map(|(wrapper, command)| {
        wrapper.replace("PLAIN", &command).replace("QUOTED", &command.replace('\'', r"'\''"))
    })
}

/// Generates pieces of shell syntax in any order.
fn shell_fragments() -> impl Strategy<Value = String> {
    let words = [
        "))",
        "[[",
        "]]",
        "$((",
        "<<EOF\n",
        "EOF\n",
        "<<<",
        "<(",
        ">(",
        " ",
        "if ",
        "then ",
        "else ",
        "fi",
        "for ",
        "in ",
        "do ",
        "done",
        "while ",
        "case ",
        "esac",
        "function ",
        "time ",
        "select ",
        "coproc ",
        "~1",
        "{a,b}",
        "{1..9}",
        "+=",
        "a",
        "x=",
        "$x",
        "$@",
        ">>",
        "2>&1",
        "&>",
        "-c",
        "sh ",
        "eval ",
        "env ",
        "xargs ",
        "find . -exec ",
        "rm ",
        "-rf ",
        "/",
        "\u{3000}",
    ];
    let token = select([&SIGNS[..], &JOINTS, &words].concat());
    vec(token, 0..120).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// A denied command is denied regardless of its spelling and position, or asked at high risk if it could not be
    /// parsed. No grant overrides this verdict.
    #[test]
    fn denied_command_never_runs_in_any_spelling(command in wrapped()) {
        let open = SessionSettings {
            confirm_exec: false,
            ..granting(&["run_bash_command: shutdown", "run_bash_command: shutdown *", "run_bash_command: sh *", "run_bash_command: ls"])
        };
        let explanation = run(&POLICY, &command, &open);
        let asks_at_high_risk = mark(&explanation) == "high"
            && explanation.grants.is_empty()
            && explanation.rule.contains("cannot be parsed");
        prop_assert!(asks_at_high_risk || mark(&explanation) == "deny", "{:?} {:?}", command, explanation);
    }

    /// The same property holds for a deny entry of several words.
    #[test]
    fn denied_argument_never_runs_in_any_spelling(command in inside(denied_argument())) {
        let policy = &*DEPLOY;
        let open = SessionSettings { confirm_exec: false, ..granting(&["run_bash_command: make *", "run_bash_command: sh *"]) };
        let explanation = run(policy, &command, &open);
        let asks_at_high_risk = matches!(mark(&explanation), "high" | "critical") && explanation.grants.is_empty();
        prop_assert!(asks_at_high_risk || mark(&explanation) == "deny", "{:?} {:?}", command, explanation);
    }

    #[test]
    fn shell_fragments_in_any_order_are_judged(command in shell_fragments()) {
        let explanation = run(&POLICY, &command, &SessionSettings::default());
        prop_assert!(explanation.grants.iter().all(|grant| grant.starts_with(SHELL_TOOL)));
    }

    #[test]
    fn any_text_gets_a_verdict(command in "\\PC{0,200}") {
        run(&POLICY, &command, &SessionSettings::default());
    }

    /// A grant for one part does not cover another part.
    #[test]
    fn grant_for_one_part_does_not_cover_another(
        one in select(vec!["make", "git commit -m x", "cargo build", "npm test"]),
        other in select(vec!["make x", "git commit", "cargo", "npm", "touch x", "rm x", "python3 x"]),
        joint in select(vec!["; ", " && ", " || ", " | ", " & ", "\n"]),
        swap in any::<bool>(),
    ) {
        let command = if swap { format!("{other}{joint}{one}") } else { format!("{one}{joint}{other}") };
        let grant = format!("{SHELL_TOOL}: {one}");
        let explanation = run(&POLICY, &command, &granting(&[&grant]));
        let asks = matches!(explanation.verdict, Verdict::Ask { .. });
        prop_assert!(asks, "{:?}", explanation);
        // The right side of a pipe is named together with its left side.
        let named = if joint == " | " { command.as_str() } else { other };
        prop_assert_eq!(&explanation.grants, &vec![format!("{SHELL_TOOL}: {named}")]);
        let explanation_with_both_grants = run(&POLICY, &command, &granting(&[&grant, &explanation.grants[0]]));
        prop_assert_eq!(mark(&explanation_with_both_grants), "allow", "{:?}", explanation_with_both_grants);
    }

    /// The offered rules are sufficient: once they are granted, the same command runs.
    #[test]
    fn offered_grants_are_sufficient(
        words in vec("make".chars().map(quoted).collect::<Vec<_>>().prop_map(|letters| letters.concat()), 1..4),
        joint in select(vec![";", "&&", "|"]),
    ) {
        let command = words.join(joint);
        let explanation = run(&POLICY, &command, &SessionSettings::default());
        prop_assert_eq!(mark(&explanation), "ask", "{:?} {:?}", command, explanation);
        let grants = explanation.grants.into_iter().map(Into::into).collect();
        let settings = SessionSettings { grants, ..SessionSettings::default() };
        prop_assert_eq!(mark(&run(&POLICY, &command, &settings)), "allow");
    }
}

/// Shows that the property above can fail: without the list of denied programs, the same commands only ask.
#[test]
fn denial_properties_fail_without_the_deny_list() {
    let policy = super::compiled("tools: {run_bash_command: {deny: [something-else]}}");
    let open = SessionSettings { confirm_exec: false, ..SessionSettings::default() };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let freed = (0..200).filter(|_| {
        let command = wrapped().new_tree(&mut runner).unwrap().current();
        // The built-in patterns ask; a grant or a setting could answer that question.
        mark(&run(&policy, &command, &open)) == "critical"
    });
    assert!(freed.count() > 100);
}

/// Commands of hostile size and depth end in a question, and judging them fits into a task's stack.
#[test]
fn huge_and_deep_commands_are_judged() {
    let deep = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    let mut commands: Vec<String> = Vec::new();
    for times in [12, 200, 5_000, 30_000] {
        for (open, close) in [
            ("(", ")"),
            ("((", "))"),
            ("( ", " )"),
            ("{ ", ";}"),
            ("$(", ")"),
            ("echo $(", ")"),
            ("\"$(", ")\""),
            ("${a:-", "}"),
            ("$((", "))"),
            ("`", "`"),
            ("if ", "then ls; fi;"),
            ("while ", "do ls; done;"),
            ("case x in x) ", ";; esac;"),
            ("{a,", "}"),
            ("[[ ( ", " ) ]]"),
            ("! ", ""),
            ("<(", ")"),
            ("sh -c '", "'"),
            ("eval ", ""),
            ("env ", ""),
            ("sudo ", ""),
            ("ls|", ""),
            ("ls;", ""),
            ("a=", ""),
            ("<<E", ""),
            ("f() ", ""),
            ("\\", ""),
            ("'", ""),
            ("\"", ""),
            ("$'", ""),
            ("~", ""),
            ("function f ", ""),
            ("elif ", ""),
            ("x=(", ")"),
            ("a[", "]"),
            ("[[ ! ", " ]]"),
            ("time ", ""),
            ("find . -exec ", " ;"),
            ("xargs ", ""),
            ("nice ", ""),
        ] {
            commands.push(deep(open, "shutdown", close, times));
            commands.push(deep(open, "ls", "", times));
        }
    }
    let judged = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        for command in commands {
            let started: String = command.chars().take(40).collect();
            let explanation = run(&POLICY, &command, &SessionSettings::default());
            assert!(!command.contains("shutdown") || mark(&explanation) != "allow", "{started} {explanation:?}");
        }
    });
    judged.unwrap().join().unwrap();
}

/// Only part of an unparsable command is shown, but all of it is searched.
#[test]
fn denied_name_is_found_at_the_end_of_unparsable_text() {
    let repeated = |text: &str| text.repeat(600);
    for command in [
        format!(": {}; shutdown", repeated("${a}")),
        format!(": {} \u{2060}; shutdown", repeated("x")),
        format!(": {}\r; shutdown", repeated("x")),
        format!(": {}; shutdown", "x".repeat(70_000)),
        format!("{} shutdown", "ls;".repeat(2_000)),
        format!(": {}; shut\\\ndown", repeated("${a}")),
        format!(": {}; 'shut'down", repeated("${a}")),
    ] {
        let explanation = run(&POLICY, &command, &SessionSettings::default());
        assert_eq!(mark(&explanation), "deny", "{}", &command[..40]);
        assert!(explanation.parts.iter().all(|part| part.text.chars().count() <= 401), "{}", &command[..40]);
    }
    let words = format!(": {}; git push", repeated("${a}"));
    let policy = super::compiled("tools: {run_bash_command: {deny: [git push]}}");
    assert_eq!(mark(&run(&policy, &words, &SessionSettings::default())), "deny");
}
