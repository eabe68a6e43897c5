//! What runs without asking, run by a real bash among canaries: nothing may change, no file may appear, and no program of
//! the folder may run. Commands come from a grammar that is biased to what is read in two ways.

use std::{
    collections::{BTreeMap, HashSet},
    env, fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use agentd_core::{policy::Verdict, session::SessionSettings};
use agentd_policy::{Policy, Rules};
use agentd_testkit::hostile::state;
use tempfile::TempDir;

use super::run;

/// How many commands are judged where nobody says how many.
const JUDGED: u64 = 100_000;
/// How many commands run between two looks at the canaries.
const BATCH: usize = 100;
/// How many look for something at the same time.
const THREADS: u64 = 2;

/// Programs of the list, which the judge lets run with some options.
const LOOKING: [&str; 48] = [
    "ls", "cat", "head", "tail", "wc", "grep", "egrep", "rg", "stat", "file", "du", "df", "basename", "dirname",
    "realpath", "readlink", "cut", "tr", "nl", "tac", "rev", "fold", "expand", "unexpand", "paste", "join", "comm",
    "cmp", "diff", "sort", "uniq", "od", "column", "base64", "seq", "tree", "md5sum", "cksum", "date", "find", "test",
    "[", "jq", "type", "which", "echo", "printf", "id",
];
/// Subcommands of git.
const GIT: [&str; 22] = [
    "status",
    "diff",
    "log",
    "show",
    "blame",
    "branch",
    "tag",
    "grep",
    "cat-file",
    "describe",
    "shortlog",
    "ls-files",
    "ls-tree",
    "rev-parse",
    "rev-list",
    "for-each-ref",
    "show-ref",
    "remote",
    "stash",
    "reflog",
    "worktree",
    "archive",
];
/// Programs that change or run something.
const CHANGING: [&str; 34] = [
    "timeout 5",
    "nice",
    "env",
    "env -i",
    "command",
    "nohup",
    "time",
    "exec",
    "builtin",
    "eval",
    "bash -c",
    "bash -kc",
    "sh -c",
    "bash -O extglob -c",
    "xargs",
    "sed",
    "sed -n",
    "awk",
    "tee",
    "touch",
    "cp a",
    "mv a",
    "rm",
    "mkdir",
    "ln a",
    "make",
    "./evil",
    "evil",
    "source",
    "set",
    "export",
    "trap",
    "find . -exec",
    "truncate -s0",
];
/// Options that write, run or read more, of whichever program.
const LONG: [&str; 46] = [
    "--output=pwned",
    "--output",
    "--outp=pwned",
    "-o",
    "-opwned",
    "-T.",
    "--compress-program=./evil",
    "--pre=./evil",
    "--pre",
    "-exec",
    "-execdir",
    "-ok",
    "-delete",
    "-fprint",
    "-fprintf",
    "-fls",
    "--ext-diff",
    "--textconv",
    "--no-index",
    "-O./evil",
    "--open-files-in-pager=./evil",
    "-c",
    "--exec-path=.",
    "--paginate",
    "-C",
    "--files0-from=a",
    "-f",
    "-z",
    "-k",
    "-s",
    "-v",
    "-i",
    "-n",
    "-e",
    "-w",
    "--",
    "-",
    "--color=always",
    "--stat",
    "-p",
    "--format=%h",
    "--format=%GG",
    "-name",
    "-print",
    "--help",
    "--filters",
];
/// Names and texts.
const WORDS: [&str; 44] = [
    "a",
    "b",
    "a b",
    "src",
    "src/c.txt",
    "t",
    "main.py",
    "pwned",
    "HEAD",
    "HEAD~1",
    ".",
    "evil",
    "./evil",
    "id",
    "1",
    "5",
    "+%s",
    "''",
    "'x y'",
    "\"x y\"",
    "\"a$\"",
    "'$x'",
    "*",
    "s*",
    "?",
    "[ab]",
    "*/x",
    "DIR/*",
    "{a,b}",
    "{a..b}",
    "$x",
    "\"$x\"",
    "$(./evil)",
    "`./evil`",
    "\"$(./evil)\"",
    "$'a'",
    "~",
    "a=~",
    "X=1",
    "GIT_EXTERNAL_DIFF=./evil",
    "]",
    "/dev/null",
    "'s/[]/X/;#]/evil/e'",
    "'1e ./evil'",
];
/// Commands that change something, for words and signs to be put into.
const TRAPS: [&str; 16] = [
    "timeout 5 echo evil > main.py",
    "sed 's/[]/X/;#]/evil/e' t",
    "sed -n '1e ./evil' a",
    "sed 'w pwned' a",
    "bash -kc \"git diff GIT_EXTERNAL_DIFF=./evil\"",
    "bash -o keyword -c 'cat a PATH=.'",
    "bash -O extglob -c './!(a|b)'",
    "uniq DIR/*",
    "sort */x",
    "sort -o pwned a",
    "git diff --output=pwned",
    "git -c diff.external=./evil diff",
    "printf 'x:;./evil' | make -f -",
    "find . -name a -exec ./evil ;",
    "awk 'BEGIN{system(\"./evil\")}'",
    "echo $(./evil)",
];
/// Where output goes.
const REDIRECTS: [&str; 26] = [
    ">pwned",
    "> pwned",
    ">>a",
    "2>pwned",
    "2> a",
    "&>pwned",
    "&>>a",
    ">|a",
    "<>a",
    "<a",
    "< a",
    "2>&1",
    "1>&2",
    ">&2",
    ">& pwned",
    ">&pwned",
    "2>&pwned",
    ">/dev/null",
    "2>/dev/null",
    "&>/dev/null",
    "> /dev/nullx",
    ">'/dev/null'a",
    "<<E",
    "<<<a",
    ">&-",
    "{x}>a",
];
pub(super) const JOINTS: [&str; 14] =
    [";", "; ", " && ", "&&", " || ", " | ", "|", "\n", " & ", " |& ", ";;", "\n\n", " ; ", "|\n"];
/// Put in anywhere.
pub(super) const SIGNS: [&str; 44] = [
    "'", "\"", "\\", "\\\n", "$", "`", "(", ")", "{", "}", "[", "]", "<", ">", "&", "|", ";", "#", " #", "!", "~", "*",
    "?", "=", "\n", "\r", "\0", "\t", " ", "é", "あ", "\u{a0}", "\u{85}", "\\'", "\\\"", "$'", "$\"", "<<E\n", "\nE\n",
    "$(", "${", "((", "^", "%",
];

/// Numbers that look like chance, the same for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(end).unwrap()).unwrap()
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    /// Simple commands, joined and broken in any way.
    fn line(&mut self, simple: fn(&mut Self) -> String) -> String {
        let mut text = simple(self);
        while self.percent(25) {
            text += self.one(&JOINTS);
            text += &simple(self);
        }
        if self.percent(25) {
            for _ in 0..=self.below(3) {
                let at = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect::<Vec<_>>();
                let at = at[self.below(at.len())];
                text.insert_str(at, self.one(&SIGNS));
            }
        }
        text
    }

    fn simple(&mut self) -> String {
        if self.percent(3) {
            return self.one(&TRAPS).to_owned();
        }
        let mut words = Vec::new();
        if self.percent(5) {
            words.push(self.one(&["X=1", "PATH=.", "X=$(./evil)", "GIT_PAGER=./evil", "X+=1", "!"]).to_owned());
        }
        words.push(match self.below(100) {
            0..60 => self.one(&LOOKING).to_owned(),
            60..82 => format!("git {}", self.one(&GIT)),
            82..92 => format!("{} {}", self.one(&CHANGING), self.one(&LOOKING)),
            _ => self.one(&CHANGING).to_owned(),
        });
        for _ in 0..self.below(4) {
            words.push(match self.below(100) {
                0..25 => self.letters(),
                25..40 => self.one(&LONG).to_owned(),
                40..75 => self.one(&["a", "b", "t", "src", "src/c.txt", "'x y'", "1", "HEAD", "pwned", "."]).to_owned(),
                _ => self.one(&WORDS).to_owned(),
            });
        }
        if words.last().is_some_and(|_| words[0] == "[") {
            words.push("]".to_owned());
        }
        if self.percent(12) {
            let at = self.below(words.len() + 1);
            words.insert(at, self.one(&REDIRECTS).to_owned());
        }
        words.join(" ")
    }

    /// Options of one letter, in one word.
    fn letters(&mut self) -> String {
        const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let mut text = "-".to_owned();
        for _ in 0..=self.below(3) {
            let at = self.below(LETTERS.len());
            text.push_str(&LETTERS[at..=at]);
        }
        text
    }
}

/// A folder of canaries, with a home, a place for passing things and programs that tell when they run.
pub(super) struct Cage {
    folder: TempDir,
    before: BTreeMap<String, String>,
}

impl Cage {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let project = folder.path().join("box/project");
        for name in ["src", "DIR", "--output=pwned", "home", "../home", "../tmp"] {
            fs::create_dir_all(project.join(name)).unwrap();
        }
        for name in
            ["a", "b", "x y", "src/c.txt", "src/x", "t", "DIR/1", "DIR/2", "--output=pwned/x", "-opwned", "main.py"]
        {
            fs::write(project.join(name), format!("canary {name}\nX\n")).unwrap();
        }
        fs::write(project.join("Makefile"), "a b pwned:\n\t./evil\n.PHONY: a b\n").unwrap();
        let tells = format!("#!/bin/sh\necho ran >> '{}'\n", folder.path().join("ran").display());
        for name in ["evil", "ls", "git", "sh", "less", "home/evil"] {
            fs::write(project.join(name), &tells).unwrap();
            fs::set_permissions(project.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(project.join("tool"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(project.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("ran"), "").unwrap();
        let cage = Self { folder, before: BTreeMap::new() };
        let setup = "git init -q && git add a b src && git -c user.name=a -c user.email=a@b commit -qm one && \
             echo more >> b && git tag v1";
        cage.bash(setup, &["-c", setup]);
        let before = cage.state();
        Self { before, ..cage }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("box/project")
    }

    fn state(&self) -> BTreeMap<String, String> {
        let mut state = state(&self.folder.path().join("box"), &[]);
        state.insert("ran".to_owned(), fs::read_to_string(self.folder.path().join("ran")).unwrap());
        state
    }

    /// Runs bash with the environment that commands have. The input is what it reads.
    fn bash(&self, input: &str, arguments: &[&str]) {
        let here = self.folder.path().join("box");
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "60", "bash", "--noprofile", "--norc"]).args(arguments).current_dir(self.project());
        command.env_clear().env("PATH", format!("/usr/local/bin:/usr/bin:/bin:{}", self.project().display()));
        command.env("HOME", here.join("home")).env("TMPDIR", here.join("tmp")).env("LANG", "C.UTF-8");
        command.envs([("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_OPTIONAL_LOCKS", "0"), ("TERM", "dumb")]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let status = child.wait().unwrap();
        assert_ne!(status.code(), Some(124), "it does not end: {input:?}");
    }

    /// Runs commands one behind the other. Says whether all is as it was, but for what may change.
    pub(super) fn holds(&self, commands: &[String], may_change: fn(&str) -> bool) -> bool {
        const EACH: &str = "while IFS= read -r -d '' c; do bash --noprofile --norc -c \"$c\" </dev/null; done";
        self.bash(&commands.iter().map(|command| format!("{command}\0")).collect::<String>(), &["-c", EACH]);
        let state = self.state();
        state.iter().filter(|(path, _)| !may_change(path)).eq(self.before.iter().filter(|(path, _)| !may_change(path)))
    }
}

/// Whether this machine lacks what these tests run.
pub(super) fn is_bare() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let is_bare = !["bash", "timeout", "git"].into_iter().all(has);
    if is_bare {
        eprintln!("skipped: there is no bash, no timeout or no git");
    }
    is_bare
}

/// The seed, and how many commands are judged.
pub(super) fn wanted(judged: u64) -> (u64, u64) {
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    (number("AGENTD_LOOKING_SEED").unwrap_or(20_260_101), number("AGENTD_LOOKING_COMMANDS").unwrap_or(judged))
}

/// Judges commands, and runs those that may. Says how many ran, and which of them changed what may not change.
pub(super) fn tried(
    (seed, count): (u64, u64),
    simple: fn(&mut Dice) -> String,
    may_run: impl Fn(&str) -> bool,
    may_change: fn(&str) -> bool,
) -> (u64, Vec<String>) {
    let (mut dice, mut cage) = (Dice(seed), Cage::new());
    let (mut changed, mut batch, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for index in 0..count {
        let command = dice.line(simple);
        // The same command again tells nothing new.
        if may_run(&command) && known.insert(command.clone()) {
            batch.push(command);
        }
        if batch.len() == BATCH || index + 1 == count {
            if !cage.holds(&batch, may_change) {
                // Those that change something, each tried alone; all together where none does.
                let changes = |command: &&String| !Cage::new().holds(std::slice::from_ref(*command), may_change);
                let alone: Vec<String> = batch.iter().filter(changes).cloned().collect();
                changed.extend(if alone.is_empty() { vec![batch.join("\n--\n")] } else { alone });
                cage = Cage::new();
            }
            batch.clear();
        }
        if changed.len() > 5 {
            break;
        }
    }
    (known.len() as u64, changed)
}

#[test]
fn what_runs_without_asking_changes_nothing() {
    if is_bare() {
        return;
    }
    let (seed, count) = wanted(JUDGED);
    let look = move |thread: u64| {
        let (policy, settings) = (Policy::new(Rules::default()), SessionSettings::default());
        let may_run = |command: &str| {
            let said = run(&policy, command, &settings);
            assert!(!said.rule.contains("a check failed"), "{command:?} {said:?}");
            let may_run = said.verdict == Verdict::Allow;
            assert!(!may_run || (said.only_looks() && !command.contains('\0')), "{command:?} {said:?}");
            may_run
        };
        let seed = (seed + thread).wrapping_mul(0x2545_f491_4f6c_dd1d);
        tried((seed, count / THREADS), Dice::simple, may_run, |_| false)
    };
    let threads: Vec<_> = (0..THREADS).map(|thread| thread::spawn(move || look(thread))).collect();
    for (ran, changed) in threads.into_iter().map(|thread| thread.join().unwrap()) {
        eprintln!("{ran} of {} ran", count / THREADS);
        assert!(changed.is_empty(), "AGENTD_LOOKING_SEED={seed}: these change something: {changed:#?}");
        assert!(ran > count / 200, "only {ran} of {count} ran: the grammar tries nothing");
    }
}

#[test]
fn the_canaries_tell_what_changes_something() {
    if is_bare() {
        return;
    }
    let check = |command: &str, expected: bool| {
        assert_eq!(Cage::new().holds(&[command.to_owned()], |_| false), expected, "{command}")
    };
    check("ls; cat a | sort; git status; git log", true);
    for command in [
        "echo x > pwned",
        "timeout 5 echo evil > main.py",
        "sed 's/[]/X/;#]/evil/e' t",
        "./evil",
        "evil",
        "chmod 600 a",
        "uniq DIR/*",
        "touch ../tmp/x",
        "bash -kc \"git diff GIT_EXTERNAL_DIFF=./evil\"",
        "printf 'x:;./evil' | make -f -",
    ] {
        check(command, false);
    }
    assert!(Path::new("/bin/sh").exists());
}
