//! What a rule by prefix lets run, run by a real bash among canaries: besides its program and what only looks nothing may
//! run, and nothing may change but files of output. Commands come from a grammar of what stands around a covered command.

use std::{
    collections::HashSet,
    process::{Command, Stdio},
};

use agentd_core::policy::Verdict;

use super::{
    granting,
    looking::{Cage, Dice, culprits, number},
    run, shipped,
};

/// How many commands are judged where nobody says how many.
const JUDGED: usize = 30_000;
/// How many commands run between two looks at the canaries.
const BATCH: usize = 100;

/// Words in front of a program.
const BEFORE: [&str; 24] = [
    "",
    "",
    "",
    "",
    "time ",
    "timeout 5 ",
    "timeout 5s time ",
    "timeout ./evil ",
    "timeout -k 1 5 ",
    "env CI=1 ",
    "env ./evil ",
    "env PATH=. ",
    "CI=1 ",
    "RUST_LOG=a,b=c ",
    "RUST_LOG=$(./evil) ",
    "CC=./evil ",
    "PATH=. ",
    "LD_PRELOAD=./evil ",
    "GIT_EDITOR=true ",
    "X=1 ",
    "! ",
    "xargs ",
    "bash -c ",
    "command ",
];
/// Programs, of which the rule names the first.
const PROGRAMS: [&str; 12] =
    ["tool", "tool", "tool", "tool", "tool", "tool -j4", "ls", "cat a", "./evil", "evil", "touch pwned", "rm a"];
/// What needs no rule, and what looks like it.
const BESIDE: [&str; 28] = [
    "echo $?",
    "echo \"a $? b\"",
    "echo $x",
    "echo ${x}",
    "echo ${x:-$(./evil)}",
    "echo $(./evil)",
    "echo $(tool)",
    "echo > main.py",
    "x=1",
    "x=$(tool)",
    "x=$(./evil)",
    "x=`./evil`",
    "PATH=.",
    "IFS=x",
    "a[$(./evil)]=1",
    "set -e",
    "set -k",
    "tee out.txt",
    "tee -a out.log a.txt",
    "tee main.py",
    "tee .envrc",
    "tee ../tmp/x.txt",
    "cd src",
    "cd ..",
    "cd .git",
    "cd -",
    "true",
    "tail -3",
];
/// Words behind a program.
const WORDS: [&str; 26] = [
    "a",
    "./...",
    "src/*.txt",
    "*",
    "$?",
    "$x",
    "\"$x\"",
    "-j$(nproc)",
    "\"-j$(nproc)\"",
    "$(nproc",
    "$(nproc)$(./evil)",
    "$(nproc; ./evil)",
    "$(nproc | ./evil)",
    "$(./evil)",
    "\"$(./evil)\"",
    "`./evil`",
    "$(nproc # )",
    "$((nproc))",
    "\"$(cat <<'E'\nit's (a) `./evil` $(./evil) \"x\"\nE\n)\"",
    "\"$(cat <<E\n$(./evil)\nE\n)\"",
    "\"$(cat <<'E'\nx\nE)\n./evil\nE\n)\"",
    "\"$(cat <<'E'\nx\nE\n./evil)\"",
    "$(cat <<'E'\nx\nE\n)",
    "'a b'",
    "# x",
    "CC=./evil",
];
/// Where output goes.
const REDIRECTS: [&str; 20] = [
    "2>&1",
    "2>/dev/null",
    "> out.txt",
    ">> out.log",
    "&> out.txt",
    ">| src/out.txt",
    "> src/c.txt",
    "> main.py",
    "2> main.py",
    "> .git/hooks/a.txt",
    "> .envrc",
    "> ../tmp/a.txt",
    "> $x.txt",
    "> a*.txt",
    "<> out.txt",
    "< a",
    "<<'E'\n./evil\nE\n",
    "<<E\n$(./evil)\nE\n",
    "<<< ./evil",
    "> >(./evil)",
];
const SHAPES: [&str; 12] = [
    "X",
    "X",
    "X",
    "X",
    "X",
    "(X)",
    "(\n X\n)",
    "(cd src && X)",
    "(X; ./evil)",
    "(X) 2>&1",
    "{ X; }",
    "if X; then X; fi",
];

fn simple(dice: &mut Dice) -> String {
    let text = if dice.percent(25) {
        dice.one(&BESIDE).to_owned()
    } else {
        let mut text = format!("{}{}", dice.one(&BEFORE), dice.one(&PROGRAMS));
        while dice.percent(30) {
            text = format!("{text} {}", dice.one(&WORDS));
        }
        if dice.percent(20) { format!("{text} {}", dice.one(&REDIRECTS)) } else { text }
    };
    dice.one(&SHAPES).replace('X', &text)
}

/// Returns true for a file of output in the project.
fn may_change(path: &str) -> bool {
    let name = path.split_once("/box/project/").map_or("", |(_, name)| name);
    [".txt", ".log"].iter().any(|ending| name.ends_with(ending)) && !name.split('/').any(|part| part.starts_with('.'))
}

#[test]
fn a_rule_lets_nothing_else_run_and_changes_nothing_but_output() {
    let has = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !["bash", "timeout", "git"].into_iter().all(has) {
        eprintln!("skipped: there is no bash, no timeout or no git");
        return;
    }
    let count = number("AGENTD_LOOKING_COMMANDS").and_then(|count| usize::try_from(count).ok()).unwrap_or(JUDGED);
    let seed = number("AGENTD_LOOKING_SEED").unwrap_or(20_260_101);
    let (policy, kept) = (shipped(), granting(&["run_bash_command: tool *"]));
    let (mut dice, mut cage) = (Dice(seed), Cage::new());
    let (mut changed, mut batch, mut ran) = (Vec::new(), Vec::new(), HashSet::new());
    for index in 0..count {
        let command = dice.line(simple);
        let said = run(&policy, &command, &kept);
        if said.verdict == Verdict::Allow && !said.only_looks() && ran.insert(command.clone()) {
            assert_eq!(said.granted_by, ["run_bash_command: tool *"], "{command:?} {said:?}");
            batch.push(command);
        }
        if batch.len() == BATCH || index + 1 == count {
            if !cage.holds(&batch, may_change) {
                changed.extend(culprits(&batch, may_change));
                cage = Cage::new();
            }
            batch.clear();
        }
        assert!(changed.len() <= 5, "AGENTD_LOOKING_SEED={seed}: these do more than the rule says: {changed:#?}");
    }
    assert!(changed.is_empty(), "AGENTD_LOOKING_SEED={seed}: these do more than the rule says: {changed:#?}");
    eprintln!("{} of {count} ran", ran.len());
    assert!(ran.len() > count / 50, "only {} of {count} ran: the grammar tries nothing", ran.len());
}
