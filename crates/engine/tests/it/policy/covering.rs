//! What a rule by prefix lets run, run by a real bash among canaries: besides its program and what only looks nothing may
//! run, and nothing may change but files of output. Commands come from a grammar of what stands around a covered command.

use agentd_core::policy::Verdict;

use super::{
    granting,
    looking::{Cage, Dice, is_bare, tried, wanted},
    run, shipped,
};

/// How many commands are judged where nobody says how many.
const JUDGED: u64 = 20_000;

/// Words in front of a program. The first 11 are harmless.
const BEFORE: (usize, [&str; 24]) = (
    11,
    [
        "",
        "",
        "",
        "",
        "time ",
        "timeout 5 ",
        "timeout 5s time ",
        "env CI=1 ",
        "CI=1 ",
        "RUST_LOG=a,b=c ",
        "GIT_EDITOR=true ",
        "timeout ./evil ",
        "timeout -k 1 5 ",
        "env ./evil ",
        "env PATH=. ",
        "RUST_LOG=$(./evil) ",
        "CC=./evil ",
        "PATH=. ",
        "LD_PRELOAD=./evil ",
        "X=1 ",
        "! ",
        "xargs ",
        "bash -c ",
        "command ",
    ],
);
/// Programs, of which the rule names the first. The first 7 are harmless.
const PROGRAMS: (usize, [&str; 11]) =
    (7, ["tool", "tool", "tool", "tool -j4", "tool a", "ls", "cat a", "./evil", "evil", "touch pwned", "rm a"]);
/// What needs no rule, and what looks like it. The first 15 are harmless.
const BESIDE: (usize, [&str; 29]) = (
    15,
    [
        "echo $?",
        "echo \"a $? b\"",
        "echo $x",
        "echo ${x}",
        "echo $(tool)",
        "x=1",
        "x=$(tool)",
        "x=$(ls | tail -3)",
        "set -e",
        "tee out.txt",
        "tee -a out.log a.txt",
        "cd src",
        "cd ..",
        "true",
        "tail -3",
        "echo ${x:-$(./evil)}",
        "echo $(./evil)",
        "echo > main.py",
        "x=$(./evil)",
        "x=`./evil`",
        "PATH=.",
        "IFS=x",
        "a[$(./evil)]=1",
        "set -k",
        "tee main.py",
        "tee .envrc",
        "tee ../tmp/x.txt",
        "cd .git",
        "cd -",
    ],
);
/// Words behind a program. The first 8 are harmless.
const WORDS: (usize, [&str; 26]) = (
    8,
    [
        "a",
        "./...",
        "src/*.txt",
        "-j$(nproc)",
        "\"-j$(nproc)\"",
        "'a b'",
        "# x",
        "\"$(cat <<'E'\nit's (a) `./evil` $(./evil) \"x\"\nE\n)\"",
        "*",
        "$?",
        "$x",
        "\"$x\"",
        "$(nproc",
        "$(nproc)$(./evil)",
        "$(nproc; ./evil)",
        "$(nproc | ./evil)",
        "$(./evil)",
        "\"$(./evil)\"",
        "`./evil`",
        "$(nproc # )",
        "$((nproc))",
        "\"$(cat <<E\n$(./evil)\nE\n)\"",
        "\"$(cat <<'E'\nx\nE)\n./evil\nE\n)\"",
        "\"$(cat <<'E'\nx\nE\n./evil)\"",
        "$(cat <<'E'\nx\nE\n)",
        "CC=./evil",
    ],
);
/// Where output goes. The first 8 are harmless.
const REDIRECTS: (usize, [&str; 20]) = (
    8,
    [
        "2>&1",
        "2>/dev/null",
        "> out.txt",
        ">> out.log",
        "&> out.txt",
        ">| src/out.txt",
        "> src/c.txt",
        "<<'E'\n./evil\nE\n",
        "> main.py",
        "2> main.py",
        "> .git/hooks/a.txt",
        "> .envrc",
        "> ../tmp/a.txt",
        "> $x.txt",
        "> a*.txt",
        "<> out.txt",
        "< a",
        "<<E\n$(./evil)\nE\n",
        "<<< ./evil",
        "> >(./evil)",
    ],
);
/// What stands around a command. The first 8 are harmless.
const SHAPES: (usize, [&str; 11]) = (
    8,
    ["X", "X", "X", "X", "(X)", "(\n X\n)", "(cd src && X)", "(X) 2>&1", "(X; ./evil)", "{ X; }", "if X; then X; fi"],
);

/// Mostly one of the harmless.
fn one<const N: usize>(dice: &mut Dice, (harmless, all): (usize, [&'static str; N])) -> &'static str {
    if dice.percent(85) { dice.one(&all[..harmless]) } else { dice.one(&all) }
}

fn simple(dice: &mut Dice) -> String {
    let text = if dice.percent(25) {
        one(dice, BESIDE).to_owned()
    } else {
        let mut text = format!("{}{}", one(dice, BEFORE), one(dice, PROGRAMS));
        while dice.percent(30) {
            text = format!("{text} {}", one(dice, WORDS));
        }
        if dice.percent(20) { format!("{text} {}", one(dice, REDIRECTS)) } else { text }
    };
    one(dice, SHAPES).replace('X', &text)
}

/// Returns true for a file of output in the project.
fn may_change(path: &str) -> bool {
    let name = path.split_once("/box/project/").map_or("", |(_, name)| name);
    [".txt", ".log"].iter().any(|ending| name.ends_with(ending)) && !name.split('/').any(|part| part.starts_with('.'))
}

#[test]
fn a_rule_lets_nothing_else_run_and_changes_nothing_but_output() {
    if is_bare() {
        return;
    }
    // The canaries would show it.
    let holds = |command: &str| Cage::new().holds(&[command.to_owned()], may_change);
    assert!(holds("tool > out.txt") && !holds("tool; ./evil") && !holds("tool > main.py"));
    let (policy, kept) = (shipped(), granting(&["run_bash_command: tool *"]));
    let may_run = |command: &str| {
        let said = run(&policy, command, &kept);
        let may_run = said.verdict == Verdict::Allow && !said.only_looks();
        assert!(!may_run || said.granted_by == ["run_bash_command: tool *"], "{command:?} {said:?}");
        may_run
    };
    let (seed, count) = wanted(JUDGED);
    let (ran, changed) = tried((seed, count), simple, may_run, may_change);
    assert!(changed.is_empty(), "AGENTD_LOOKING_SEED={seed}: these do more than the rule says: {changed:#?}");
    eprintln!("{ran} of {count} ran");
    assert!(ran > count / 50, "only {ran} of {count} ran: the grammar tries nothing");
}
