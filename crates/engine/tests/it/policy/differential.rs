//! What bash runs of a script, against what was judged: scripts of odd quotes, comments and here-documents are run by
//! a real bash in which no program can be found, and which tells the name of each that it looked for.

use std::{fs, path::Path, process::Command};

use agentd_core::{policy::Verdict, session::SessionSettings};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    strategy::ValueTree,
    test_runner::TestRunner,
};
use tempfile::TempDir;

use super::{compiled, run};

/// How many scripts are tried. Each takes a few milliseconds.
const SCRIPTS: usize = 600;
/// Ends what runs for too long.
const TIMEOUT: &str = "/usr/bin/timeout";
/// Told instead of running a program: the name, into a file.
const TELL: &str = "() { printf '%s\\0' \"$1\" >>\"$TOLD\"\n}";

/// Pieces that end, begin or hide something.
const PIECES: [&str; 64] = [
    "zz",
    "zz\n",
    "\nzz\n",
    ";zz",
    ";zz #",
    " ",
    "\n",
    "\t",
    ";",
    "|",
    "&",
    "&&",
    "'",
    "\"",
    "\\",
    "\\\n",
    "#",
    " # ",
    ")#",
    "$",
    "$$",
    "$${x",
    "${x",
    "}",
    "${x#",
    "$x",
    "$(",
    ")",
    "`",
    "<(",
    "(",
    "((",
    "))",
    "$((1",
    "$[1",
    "]",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "<<\"E\"\n",
    "<<$'E'\n",
    "<<\\E\n",
    "<<E'x'\n",
    "E\n",
    "\nE\n",
    "E)\n",
    "\tE\n",
    "E\\\n",
    "$'",
    "$\"",
    "\\'",
    "\\$",
    "{",
    "; }",
    "[[ ",
    " ]]",
    " =~ ",
    "a[",
    "x=(",
    "=",
    "!",
    "<<<",
    "<",
    "esac",
];

/// Scripts that everybody reads in the same way.
const PLAIN: [&str; 34] = [
    "aa x",
    "cat <<E\nzz\nE\n",
    "cat <<'E'\nzz $(zz)\nE\n",
    "cat <<\"E\"\nzz\nE\n",
    "cat <<-E\n\tzz\n\tE\n",
    "cat <<E\nzz \\\nE\nE\n",
    "cat <<A - <<B\nzz\nA\nzz\nB\n",
    "echo \"$(bb)\"",
    "echo \"$(cat <<E\nzz\nE\n)\"",
    "echo $(aa # zz\n)",
    "aa # zz",
    "aa 'x # y'",
    "aa \"x # y\"",
    "aa $'x\\'; zz'",
    "aa \\$'x'",
    "echo ${x:-y}",
    "echo \"${x:-y}\"",
    "echo $$",
    "diff <(aa) <(bb)",
    "(aa; bb)",
    "{ aa; }",
    "x=(a b)",
    "a[1]=x",
    "[[ a =~ (a|b) ]]",
    "[[ -n x && -n y ]]",
    "if aa; then bb; fi",
    "aa | bb",
    "aa && bb",
    "echo `bb`",
    "echo $((1 + 1))",
    "aa \\\n x",
    "case x in x) aa;; esac",
    "for i in a; do bb; done",
    "aa <<<x 2>&1",
];

/// Plain scripts behind each other, with a few pieces anywhere.
fn scripts() -> impl Strategy<Value = String> {
    let plain = vec((select(PLAIN.to_vec()), select(vec!["\n", "; ", "\n", " ", ""])), 1..4);
    let pieces = vec((any::<Index>(), select(PIECES.to_vec())), 0..5);
    (plain, pieces).prop_map(|(plain, pieces)| {
        let mut script: String = plain.into_iter().flat_map(|(text, joint)| [text, joint]).collect();
        for (place, piece) in pieces {
            script.insert_str(place.index(script.len() + 1), piece);
        }
        script
    })
}

/// The names of the programs that bash looked for. It stands in an empty folder, and ends after some seconds.
fn looked_for(bash: &str, folder: &Path, script: &str) -> Vec<String> {
    let told = folder.join("told");
    let here = folder.join("here");
    fs::write(&told, "").unwrap();
    fs::create_dir_all(&here).unwrap();
    let mut command = Command::new(TIMEOUT);
    command.args(["-k", "1", "10", bash, "--noprofile", "--norc", "-c", script]).current_dir(&here).env_clear();
    command.env("PATH", folder.join("nothing")).env("TOLD", &told).env("BASH_FUNC_command_not_found_handle%%", TELL);
    command.stdin(std::process::Stdio::null()).output().unwrap();
    let mut names: Vec<String> = fs::read_to_string(&told).unwrap().split_terminator('\0').map(str::to_owned).collect();
    names.sort();
    names
}

/// Whether the text of a part is that of a program, perhaps behind assignments.
fn runs(part: &str, name: &str) -> bool {
    let (first, _) = part.split_once('=').unwrap_or_default();
    let assigns = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_[]".contains(&byte));
    let ends = |at: usize| part[at + name.len()..].is_empty() || part[at + name.len()..].starts_with(' ');
    part.match_indices(name).any(|(at, _)| ends(at) && (at == 0 || assigns && part[..at].ends_with(' ')))
}

/// A name as the parts show it.
fn shown(name: &str) -> String {
    // The number of a process stands where `$$` was written: no other number of these scripts is as long.
    let pieces = name.split_inclusive(|c: char| !c.is_ascii_digit());
    let unnumbered = pieces.map(|piece| {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        if piece.len() - rest.len() > 1 { format!("$${rest}") } else { piece.to_owned() }
    });
    let name = unnumbered.collect::<String>();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:,@%+=-".contains(&byte);
    if name.bytes().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

#[test]
fn bash_runs_nothing_that_was_not_judged() {
    let found = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
    let Some(bash) = found.filter(|_| Command::new(TIMEOUT).arg("--version").output().is_ok()) else {
        eprintln!("skipped: there is no bash, or no timeout");
        return;
    };
    let folder = TempDir::new().unwrap();
    // Whatever is understood may run.
    let policy = compiled("global: {default_action: allow}");
    let mut runner = TestRunner::deterministic();
    let strategy = scripts();
    let (mut allowed, mut hidden) = (0, Vec::new());
    for _ in 0..SCRIPTS {
        let script = strategy.new_tree(&mut runner).unwrap().current();
        let said = run(&policy, &script, &SessionSettings::default());
        if said.verdict != Verdict::Allow {
            continue;
        }
        allowed += 1;
        // `$$`, `$?` and `$#` are numbers, of which no program has the name.
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let is_seen = |name: &String| is_number(name) || said.parts.iter().any(|part| runs(&part.text, &shown(name)));
        let unseen: Vec<String> =
            looked_for(bash, folder.path(), &script).into_iter().filter(|name| !is_seen(name)).collect();
        if !unseen.is_empty() {
            let parts: Vec<&String> = said.parts.iter().map(|part| &part.text).collect();
            hidden.push(format!("{script:?}\n    runs {unseen:?}, judged {parts:?}"));
        }
    }
    assert!(hidden.is_empty(), "{} of {allowed}:\n{}", hidden.len(), hidden.join("\n"));
    assert!(allowed > SCRIPTS / 10, "{allowed}");
    // It tells what it looked for.
    assert_eq!(looked_for(bash, folder.path(), "aa | bb"), ["aa", "bb"]);
}
