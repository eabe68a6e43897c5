//! The commands and the picture in `README.md`: the test fails if a command does not work, if a new command has no
//! trial, and if the picture is outdated.

const PAGE: &str = include_str!("../../../README.md");
const MAKEFILE: &str = include_str!("../../../Makefile");

/// Size of the terminal for the picture.
const ROWS: u16 = 70;
const COLUMNS: u16 = 100;

/// Test of a line on the page.
#[derive(Clone, Copy)]
enum Trial {
    /// Run unchanged. The output contains this text.
    Runs(&'static str),
    /// Run with these replacements, as a user would make them. The output contains this text.
    With(&'static [(&'static str, &'static str)], &'static str),
    /// Run at a terminal, where a chat opens.
    Chat,
    /// Make target, which must exist but is not run.
    Made(&'static str),
    /// Not run, for the given reason.
    Untried(&'static str),
}
use Trial::{Chat, Made, Runs, Untried, With};

use super::*;

/// All command lines on the page, in order.
const LINES: [(&str, Trial); 19] = [
    ("git clone … agentd && cd agentd", Untried("it is where this test is from")),
    ("make chat", Made("chat")),
    ("export MODEL_BASIC_BASE_URL=http://localhost:11434/v1", Untried("the test has a server of its own")),
    ("export MODEL_BASIC_ID=qwen3 MODEL_BASIC_API_KEY=…", Untried("the same")),
    ("make install", Made("install")),
    ("agentctl stop; agentctl chat", Chat),
    ("agentctl", Chat),
    ("agentctl run 'What time is it?'", Runs("You said: What time is it?")),
    ("git diff | agentctl run 'Review this'", Runs("-print(\"Hello \" + sys.argv[1])")),
    ("agentctl run 'Fix the tests' -C .:rw", Runs("You said: Fix the tests")),
    ("agentctl run 'Compare them' --add-dir ../lib", With(&[("../lib", "/usr/share/doc")], "You said: Compare them")),
    ("agentctl run 'Summarise it' --file notes.txt", Runs("notes.txt")),
    ("agentctl run … --output json | jq .text", With(&[("…", "'Tell me'")], "You said: Tell me")),
    ("agentctl attach SESSION", With(&[("SESSION", "$SESSION")], "no turn is running")),
    (
        "agentctl interrupts; agentctl answer ID approve",
        With(&[("answer ID", "answer $(agentctl interrupts --json | jq -r '.[0].id')")], "write_file"),
    ),
    ("agentctl undo --preview; agentctl undo", Runs("written.txt")),
    ("agentctl grants list; agentctl audit", Runs("write_file")),
    ("agentctl policy explain 'rm -rf build'", Runs("verdict  ask (high)")),
    ("agentctl sessions list; agentctl doctor", Runs("all sessions can be read")),
];

/// Returns the command lines on the page, without comments.
fn commands() -> Vec<String> {
    let blocks = PAGE.split("\n```").skip(1).step_by(2).filter(|block| !block.starts_with("text\n"));
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    lines.map(|line| line.split(" # ").next().unwrap().trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Returns the picture on the page.
fn picture() -> &'static str {
    PAGE.split_once("\n```text\n").unwrap().1.split("\n```").next().unwrap()
}

/// A reader of the page, who works in the folder of a small program.
struct Reader {
    model: ModelServer,
    home: TempHome,
}

impl Reader {
    async fn new() -> Self {
        let (model, mut home) = TempHome::with_server().await;
        home.set("MODEL_BASIC_ID", "qwen3");
        home.write("greeter/greet.py", "import sys\n\nprint(\"Hello \" + sys.argv[1])\n");
        home.write("greeter/notes.txt", "The pump is blue.\n");
        Self { model, home }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("greeter")
    }

    /// Makes the folder a repository with an uncommitted change.
    async fn with_changes(&self) {
        self.types(
            "git init --quiet . && git add . && git -c user.name=me -c user.email=me@example.org commit --quiet -m x && \
             sed -i 's/print.*/print(\"Hi\")/' greet.py",
        )
        .await
        .exits(0);
    }

    /// Runs a shell line in the folder.
    async fn types(&self, line: &str) -> Output {
        let mut command = self.home.command("sh");
        let programs = program("agentctl").parent().map(Path::to_owned).unwrap();
        let before = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&before))).unwrap();
        command.env("PATH", path).current_dir(self.folder()).stdin(Stdio::null()).args(["-eu", "-c", line]);
        Running::spawn(command).output(Vec::new()).await
    }

    /// Runs a turn up to a question, leaves it pending, and returns the ID of the session.
    async fn leave_question_pending(&self) -> String {
        let line = "agentctl run 'Write it' -C .:rw --detach";
        let session = self.types(line).await.exits(0).stdout.trim().to_owned();
        until("a question is pending", || async {
            let open = self.home.json(["interrupts"]).await;
            (!open.as_array().unwrap().is_empty()).then_some(())
        })
        .await;
        session
    }
}

#[test]
fn every_readme_command_has_a_trial() {
    let listed: Vec<&str> = LINES.iter().map(|(line, _)| *line).collect();
    assert_eq!(commands(), listed, "every command of README.md is listed in this test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_readme_command_works() {
    let reader = Reader::new().await;
    reader.with_changes().await;
    reader.model.respond_with(|request| match (request.last_user(), tool_texts(request).as_str()) {
        (text, "") if text.contains("Write it") => {
            Reply::tool_call("write_file", json!({"path": "/project/written.txt", "content": "x\n"}))
        }
        (text, "") => Reply::text(format!("You said: {text}")),
        _ => says("It is written."),
    });
    let mut session = String::new();
    for (line, trial) in LINES {
        if line.contains(" ID ") {
            session = reader.leave_question_pending().await;
        }
        let (typed, expected) = match trial {
            Runs(expected) => (line.to_owned(), expected),
            With(others, expected) => {
                (others.iter().fold(line.to_owned(), |line, (this, other)| line.replace(this, other)), expected)
            }
            Made(target) => {
                assert!(MAKEFILE.contains(&format!("\n{target}: ")), "make has no target {target}");
                continue;
            }
            Chat => {
                let mut chat = Terminal::around(&reader.home, &in_folder(&reader.folder(), line), &[]);
                chat.prompt();
                chat.leaves();
                continue;
            }
            Untried(reason) => {
                println!("{line}: not tried: {reason}");
                continue;
            }
        };
        if session.is_empty() && typed.contains("$SESSION") {
            let sessions = reader.home.json(["sessions", "list"]).await;
            session = sessions[0]["id"].as_str().unwrap().to_owned();
        }
        let output = reader.types(&format!("SESSION={session}\n{typed}")).await;
        let all = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, Some(0), "{typed}\n{all}");
        // The command appears with JSON escapes, or unchanged.
        assert!(
            all.contains(expected) || all.contains(&expected.replace('"', "\\\"")),
            "{typed}: {expected:?} is not in\n{all}"
        );
        if line.contains(" ID ") {
            until("the turn has ended", || async {
                fs::read_to_string(reader.folder().join("written.txt")).ok()?;
                let shown = reader.home.json(["status"]).await;
                (shown["running_turns"] == 0).then_some(())
            })
            .await;
        }
    }
}

/// Returns a shell line that runs in the folder, with the binaries of this build.
fn in_folder(folder: &Path, line: &str) -> String {
    let programs = program("agentctl").parent().map(Path::to_owned).unwrap();
    format!("cd '{}' && export PATH='{}':\"$PATH\" && {line}", folder.display(), programs.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readme_picture_matches_the_real_screen() {
    let reader = Reader::new().await;
    reader.home.write("greeter/.git/HEAD", "ref: refs/heads/main\n");
    let edit = json!({
        "path": "/project/greet.py",
        "old_text": "print(\"Hello \" + sys.argv[1])\n",
        "new_text": "name = sys.argv[1] if len(sys.argv) > 1 else \"stranger\"\nprint(f\"Hello {name}\")\n",
    });
    reader
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "/project/greet.py"})))
        .reply(Reply::tool_call("edit_file", edit))
        .reply(says("Done: without a name, greet.py now greets a stranger."));
    let line = in_folder(&reader.folder(), "agentctl chat -C .:rw");
    let mut screen = Screen::around(&reader.home, (COLUMNS, ROWS), &line, &[]);
    screen.prompt();
    screen.types("Make greet.py work without a name, too\r");
    screen.sees("y yes");
    screen.types("y");
    screen.sees("greets a stranger.");
    screen.prompt();
    let shown = screen.rows().join("\n");
    let differ = || shown.lines().map(without_numbers).ne(picture().lines().map(without_numbers));
    assert!(!differ(), "README.md differs from the actual output:\n\n{shown}\n");
}

/// Replaces all numbers and time units in a line.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.trim_end();
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        let is_of_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',');
        let end = rest[at..].find(|letter| !is_of_number(letter)).map_or(rest.len(), |end| at + end);
        // A sentence may end after a number.
        let end = end - (rest[at..end].len() - rest[at..end].trim_end_matches(['.', ',']).len());
        out.push('#');
        rest = &rest[end..];
        rest = rest.strip_prefix(" ms").or(rest.strip_prefix(" s")).filter(ends_word).unwrap_or(rest);
    }
    out + rest
}

/// Returns true if `rest` begins at the end of a word.
fn ends_word(rest: &&str) -> bool {
    !rest.starts_with(char::is_alphanumeric)
}
