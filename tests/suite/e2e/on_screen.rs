//! The chat as a user sees it: the rows of the screen, on wide and narrow terminals.

use super::*;

/// Columns of a wide, a usual and a narrow terminal.
const WIDTHS: [u16; 3] = [120, 80, 50];

/// Keys, as a terminal sends them. Ctrl-U erases the input, and Ctrl-R searches the history.
const UP: &str = "\u{1b}[A";
const DOWN: &str = "\u{1b}[B";
const ESCAPE: &str = "\u{1b}";
const ERASE: &str = "\u{15}";
const SEARCH: &str = "\u{12}";

/// Settings with which all calls run without approval.
const TRUSTING: &str = "sessions: {confirm_write: false, confirm_exec: false}";

/// Creates a folder with a file, and returns the folder in writable mode, as an argument of `-C`.
fn folder(world: &World, name: &str) -> String {
    let file = world.write(&format!("{name}/a"), "one\ntwo old\nthree\n");
    format!("{}:rw", file.parent().unwrap().display())
}

fn run(command: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({ "command": command }))
}

/// Returns a reply that stops in the middle of a sentence until the test releases it.
fn held() -> Reply {
    let paragraphs = (1..=20).map(|number| format!("Paragraph {number}.\n\n"));
    let end = ["Half a sent", "ence."].map(str::to_owned);
    Reply::deltas(paragraphs.chain(end)).hold_after_text("Half a sent")
}

/// Returns thirty pasted lines, as a terminal marks them.
fn paste() -> String {
    let lines: String = (0..30).map(|number| format!("line {number}\r")).collect();
    format!("\u{1b}[200~{lines}\u{1b}[201~")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_unasked_changes_have_rows_that_fit() {
    let world = World::configured(TRUSTING).await;
    let part = |line: u64| Reply::tool_call("read_file", json!({"path": "/project/a", "offset": line, "limit": 1}));
    let edit = json!({"path": "/project/a", "old_string": "old", "new_string": "new"});
    let wide = "漢字".repeat(60);
    let line = |number| if number == 3 { format!("{wide}\n") } else { format!("line {number}\n") };
    let content: String = (1..=40).map(line).collect();
    for columns in WIDTHS {
        world
            .model
            .reply(part(1))
            .reply(part(2))
            .reply(Reply::tool_call("grep", json!({"pattern": "o\\w+", "path": "/project"})))
            .reply(Reply::tool_call("edit_file", edit.clone()))
            .reply(Reply::tool_call("write_file", json!({"path": "/project/b", "content": content})))
            .reply(run("cd /project && echo x >> a && echo y > c"))
            .reply(says("It is done."));
        let folder = folder(&world, &format!("app{columns}"));
        let mut screen = Screen::ready(&world.daemon, (columns, 90), &["-C", &folder]);
        screen.types("Change it\r");
        screen.sees("It is done.");
        screen.prompt();
        screen.fits();
        let rows = screen.rows();
        let expected = [
            ("● read_file /project/a:1, 2 → ", " · 2 calls"),
            ("● grep \"o\\w+\" in /project → ", ""),
            ("● edit_file /project/a → +1 −1 · ", ""),
            ("", "-two old"),
            ("", "+two new"),
            ("● write_file /project/b → created +40 · ", ""),
            ("", "+line 19"),
            ("… 21 more lines", "/diff"),
            ("● $ cd /project && ", ""),
            ("changed: /project/a +1, /project/c +1", ""),
            ("+++ b/project/a  +1", ""),
            ("", "+x"),
            ("+++ b/project/c  +1", ""),
            ("", "+y"),
        ];
        for (start, end) in expected {
            let found = rows.iter().filter(|row| row.trim_start().starts_with(start) && row.ends_with(end)).count();
            assert_eq!(found, 1, "{start:?} … {end:?} at {columns} columns:\n{}", rows.join("\n"));
        }
        let clipped = rows.iter().filter(|row| row.contains("+漢字") && row.ends_with('…')).count();
        let counts = (screen.count("+line "), clipped, screen.count("changed 2 files"));
        assert_eq!(counts, (18, 1, 1), "{}", rows.join("\n"));
        // The diffs are for people only.
        let sent = world.model.requests().last().unwrap().body.to_string();
        assert!(sent.contains("exit code 0") && !sent.contains("@@ -"), "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_shows_removed_lines_but_no_binary_content_and_no_secret() {
    let world = World::configured(TRUSTING).await;
    let script = "cd /project\nrm a\nprintf '\\0\\1' > logo.png\necho hunter2 > key.pem\n";
    for columns in WIDTHS {
        world
            .model
            .reply(run("cd /project && sh make.sh"))
            .reply(run("cd /project && echo one > b"))
            .reply(says("It is done."));
        let folder = folder(&world, &format!("app{columns}"));
        world.write(&format!("app{columns}/make.sh"), script);
        let mut screen = Screen::ready(&world.daemon, (columns, 60), &["-C", &folder]);
        screen.types("Change it\r");
        screen.sees("It is done.");
        screen.prompt();
        screen.fits();
        let expected = [
            "→ changed 3 files ·",
            "changed: /project/a −3",
            "--- a/project/a",
            "+++ /dev/null  −3",
            "-one",
            "-two old",
            "-three",
            "+++ b/project/logo.png",
            "(binary content: 2 bytes after)",
            "(… and 1 more file)",
            "→ created +1 /pro",
            "+one",
        ];
        let counts = expected.map(|text| (text, screen.count(text)));
        assert_eq!(counts, expected.map(|text| (text, 1)), "{}", screen.rows().join("\n"));
        assert_eq!(screen.count("hunter2"), 0, "{}", screen.rows().join("\n"));
    }
}

/// Waits until the last two rows are the status of the first step and the input, below a row with this text.
#[track_caller]
fn sees_bottom(screen: &mut Screen, above: &str) {
    screen.wait(&format!("status and input are below {above:?}"), |screen| {
        let rows = screen.rows();
        let [.., status, input] = rows.as_slice() else { return false };
        let is_status = status.starts_with("ask · app") && status.contains(" rw · ") && status.contains(" · step 1");
        is_status && input.starts_with("› (Enter speaks to the turn") && screen.count(above) == 1
    });
    screen.fits();
    assert_eq!(screen.count(" · step 1"), 1, "{}", screen.rows().join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_input_stay_below_a_tool_and_text() {
    let world = World::configured(TRUSTING).await;
    for columns in WIDTHS {
        let name = format!("app{columns}");
        world.model.reply(run("until [ -e /project/go ]; do sleep 0.1; done")).reply(held());
        // The text scrolls.
        let mut screen = Screen::ready(&world.daemon, (columns, 14), &["-C", &folder(&world, &name)]);
        screen.types("Go\r");
        sees_bottom(&mut screen, "$ until [ -e /project/go ]");
        world.write(&format!("{name}/go"), "");
        sees_bottom(&mut screen, "Half a sent");
        world.model.release_held_reply();
        screen.sees("Half a sentence.");
        screen.prompt();
        screen.fits();
        assert_eq!((screen.count("ask · "), screen.count("step 1")), (1, 0), "{}", screen.rows().join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_of_a_running_turn_completes_recalls_searches_and_pastes() {
    let world = World::start().await;
    world.write("desk/my notes.txt", "the cat is out\n");
    let pasted = paste();
    for columns in WIDTHS {
        world.model.reply(says("Hello.")).reply(held()).reply(says("Noted."));
        let mut screen = Screen::ready(&world.daemon, (columns, 40), &["-C", "none"]);
        screen.types("first message\r");
        screen.sees("Hello.");
        screen.prompt();
        screen.types("Go\r");
        screen.sees("Half a sent");
        // The menu is below the input.
        screen.types("/co");
        screen.sees("  /compact  ");
        screen.fits();
        screen.types(ESCAPE);
        screen.sees_input("› /co", "/co");
        let steps: [(&[&str], &str, &str); 6] = [
            (&[ERASE, "#desk/m\t"], "› #desk/my", " notes.txt"),
            (&[ERASE, UP], "› Go", "Go"),
            (&[UP], "› first", " message"),
            (&[ERASE, SEARCH, "fir"], "search fir", "› first message"),
            (&["\t"], "› first", " message"),
            (&[ERASE, &pasted], "› [30 lines", " pasted]"),
        ];
        for (keys, start, end) in steps {
            screen.types(&keys.concat());
            screen.sees_input(start, end);
            screen.fits();
        }
        screen.types("\r");
        screen.sees_input("1 message waits: line 0", "›");
        screen.fits();
        world.model.release_held_reply();
        screen.sees("Noted.");
        screen.prompt();
        let sent = world.model.requests().last().unwrap().last_user().to_owned();
        assert!(sent.contains("line 0\nline 1\n") && sent.contains("line 29"), "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_of_a_chat_that_a_signal_ended_is_in_the_next_one() {
    let world = World::start().await;
    // The tests may run under `nohup`.
    let line = "exec python3 -c 'import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); \
                os.execv(sys.argv[1], sys.argv[1:])' \"$@\"";
    for (signal, code, input) in [(Signal::SIGHUP, 129, "Begin once"), (Signal::SIGTERM, 143, "Begin again")] {
        world.model.reply(held()).reply(says("Noted."));
        let mut screen = Screen::around(&world.daemon, (80, 24), line, &["chat"]);
        screen.prompt();
        screen.types(&format!("{input}\r"));
        screen.sees("Half a sent");
        screen.types(&format!("{}\r", paste()));
        screen.sees_input("1 message waits: line 0", "›");
        let finished = world.model.counts().finished;
        screen.signal(signal);
        assert_eq!(screen.ends(), Some(code));
        // The daemon continues the turn.
        world.model.release_held_reply();
        world.model.wait_until(|counts| counts.finished == finished + 2).await;

        world.model.reply(says("Again."));
        let mut screen = Screen::ready(&world.daemon, (80, 24), &[]);
        for (key, start, end) in [
            (UP, "› [30 lines", " pasted]"),
            (UP, "› Begin", &input["Begin".len()..]),
            (DOWN, "› [30 lines", " pasted]"),
        ] {
            screen.types(key);
            screen.sees_input(start, end);
        }
        screen.types("\r");
        screen.sees("Again.");
        screen.prompt();
        assert!(world.model.requests().last().unwrap().last_user().contains("line 29"), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_of_the_last_session_is_announced_and_answered() {
    let world = World::start().await;
    let write = Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "a"}));
    world.model.reply(write).reply(says("It is written."));
    let folder = folder(&world, "app");
    let (running, _) = world.run_until_question(&["Write it", "-C", &folder]).await;
    drop(running);
    let open = |columns| {
        let mut screen = Screen::ready(&world.daemon, (columns, 40), &["-C", &folder]);
        has_all(&screen.rows().join(" "), &["last here: Write it · ", " · waits for your answer · /resume"]);
        screen.types("/resume\r");
        screen.sees("› Write it  app/ (writable) · ");
        screen.fits();
        screen
    };
    open(120);
    open(50);
    let mut screen = open(80);
    let is_waiting = |row: &String| row.starts_with("› Write it") && row.contains(" · waits for your answer");
    assert!(screen.rows().iter().any(is_waiting), "{}", screen.rows().join("\n"));
    screen.types("\r");
    screen.sees("y yes");
    screen.types("y");
    screen.sees("It is written.");
    screen.prompt();
    screen.fits();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_listed_with_their_folder_and_found_by_their_text() {
    let world = World::start().await;
    for (name, input, answer) in
        [("barn", "Paint it red", "The retry limit is now seven."), ("roof", "Mend it", "It was mended.")]
    {
        world.model.reply(says(answer));
        world.ok(["run", input, "-C", &folder(&world, name)]).await;
    }
    for (columns, rows) in [
        (120, ["  barn/   Paint it red", "  roof/   Mend it"]),
        (80, ["  barn/   Paint it red", "  roof/   Mend it"]),
        (50, ["  barn/\n  Paint it red", "  roof/\n  Mend it"]),
    ] {
        let mut screen = Screen::around(&world.daemon, (columns, 20), "exec \"$@\"", &["sessions", "list"]);
        screen.wait(&format!("{rows:?} are shown"), |screen| {
            let shown = screen.rows().join("\n");
            rows.iter().all(|row| shown.contains(row))
        });
        screen.fits();
        assert_eq!(screen.ends(), Some(0));
    }
    for columns in WIDTHS {
        let mut screen = Screen::ready(&world.daemon, (columns, 40), &["-C", "none"]);
        screen.types("/resume\r");
        screen.sees("  Paint it red  barn/ ");
        // Only one word is in the text.
        screen.types("Wanderlust retry");
        screen.sees_input("› Paint it red  The retry limit is now", "");
        screen.fits();
        screen.types("\r");
        screen.prompt();
        has_all(&screen.rows().join("\n"), &["› Paint it red", "The retry limit is now seven."]);
        has_none(&screen.rows().join("\n"), &["mended"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_is_drawn_again_after_a_stop_and_a_resize() {
    let world = World::start().await;
    world.model.reply(says("Hello."));
    world.ok(["run", "Paint it red"]).await;
    let line = "set -m; \"$@\"; echo stopped; fg";
    let mut screen = Screen::around(&world.daemon, (80, 24), line, &["chat", "-C", "none"]);
    screen.prompt();
    screen.types("/resume\r");
    screen.sees("› Paint it red");
    screen.types("\u{1a}");
    screen.wait("the list is below the output of the shell", |screen| {
        let rows = screen.rows();
        let at = |text: &str| rows.iter().rposition(|row| row.contains(text));
        at("stopped").is_some_and(|stopped| at("› Paint it red") > Some(stopped))
    });
    let title = screen.rows().iter().rposition(|row| row.contains("Sessions ")).unwrap();
    screen.resize_to((80, u16::try_from(title).unwrap() + 1));
    screen.sees("› Paint it red");
    screen.resize_to((50, 24));
    screen.types("pa");
    screen.sees("Sessions: pa");
    screen.types("\r");
    screen.sees("Hello.");
    screen.prompt();
    let counts = ["stopped", "Sessions: "].map(|text| screen.count(text));
    assert_eq!(counts, [1, 0], "{}", screen.rows().join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_without_a_message_has_a_name() {
    let world = World::start().await;
    world.model.reply(Reply::never());
    let folder = folder(&world, "app");
    let mut screen = Screen::ready(&world.daemon, (80, 24), &["-C", &folder]);
    screen.types("Wipe it\r");
    screen.sees_input("› (Enter", "");
    screen.types(ESCAPE);
    screen.sees_input("› Wipe", " it");
    drop(screen);
    let screen = Screen::ready(&world.daemon, (80, 24), &["-C", &folder]);
    has_all(&screen.rows().join(" "), &["last here: (untitled) · "]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_key_is_reported_with_its_source() {
    for is_in_file in [false, true] {
        let (model, mut home) = TempHome::with_server().await;
        let source = if is_in_file {
            let base = format!("base:\n  base_url: {}\n  api_key: sk-hunter2\n", model.base_url());
            home.write("config/models.yaml", base);
            "/models.yaml:3"
        } else {
            home.set("MODEL_BASIC_API_KEY", "sk-hunter2");
            "`MODEL_BASIC_API_KEY` of the daemon's environment"
        };
        model.default_reply(Reply::refusal(401, "wrong key"));
        let daemon = TempDaemon::start_in(home).await;
        for columns in WIDTHS {
            let mut screen = Screen::ready(&daemon, (columns, 24), &[]);
            screen.types("Hi\r");
            screen.sees("hint:");
            screen.prompt();
            screen.fits();
            let shown = screen.rows().join(" ");
            has_all(&shown, &["401", "wrong key", source]);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_wider_than_the_window_is_not_mixed_with_the_status() {
    let world = World::start().await;
    let code: String = (100..200).map(|number| format!("{number},")).collect();
    for columns in WIDTHS {
        let (start, rest) = code.split_at(16);
        world.model.reply(Reply::deltas(["```\n", start, rest, "\nshort", "\n```\n"]).hold_after_text("short"));
        let mut screen = Screen::ready(&world.daemon, (columns, 24), &["-C", "none"]);
        screen.types("Go\r");
        screen.sees("short");
        screen.sees_input("› (Enter", "");
        let rows = screen.rows();
        assert!(rows.concat().contains(&format!("{code}short")), "at {columns} columns:\n{}", rows.join("\n"));
        assert_eq!(screen.count("ask · no folder"), 1, "at {columns} columns:\n{}", rows.join("\n"));
        world.model.release_held_reply();
        screen.prompt();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resize_in_mid_stream_redraws_status_and_input() {
    let world = World::start().await;
    world.model.reply(Reply::deltas(["One paragraph.\n\n", "Half a sent", "ence."]).hold_after_text("Half a sent"));
    let mut screen = Screen::ready(&world.daemon, (120, 24), &["-C", "none"]);
    screen.types("Go\r");
    screen.sees("Half a sent");
    for (columns, end) in [(50, "…"), (120, "cancels it)"), (60, "…"), (80, "cancels it)")] {
        screen.resize(columns);
        screen.sees_input("› (Enter speaks to the turn", end);
        screen.fits();
        let counts = ["One paragraph.", "Half a sent", "ask · no folder", "› "].map(|text| screen.count(text));
        assert_eq!(counts, [1, 1, 1, 2], "at {columns} columns:\n{}", screen.rows().join("\n"));
    }
    world.model.release_held_reply();
    screen.sees("Half a sentence.");
    screen.prompt();
    screen.fits();
    assert_eq!(screen.count("ask · no folder"), 1, "{}", screen.rows().join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_arrive_together_are_all_read() {
    let world = World::start().await;
    let mut screen = Screen::ready(&world.daemon, (80, 40), &["-C", "none"]);
    // More than the terminal's library reads at once.
    screen.types(&format!("{}end", "x".repeat(1500)));
    screen.sees_input("  xxx", "xend");
    screen.fits();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_letters_are_shown_once_and_within_the_margin() {
    let world = World::start().await;
    let text = "漢字".repeat(100);
    for columns in [121, 80, 49] {
        world.model.reply(Reply::deltas([text.as_str(), " half", " done."]).hold_after_text(" half"));
        let mut screen = Screen::ready(&world.daemon, (columns, 40), &["-C", "none"]);
        let all_once = |screen: &mut Screen, letter: char, count: usize| {
            screen.wait(&format!("{letter} is shown {count} times"), |screen| {
                screen.rows().concat().matches(letter).count() == count
            });
            screen.fits();
        };
        screen.types("Go\r");
        screen.sees("half");
        all_once(&mut screen, '漢', 100);
        // The input has several rows.
        screen.types(&"語".repeat(70));
        all_once(&mut screen, '語', 70);
        all_once(&mut screen, '漢', 100);
        screen.types(ERASE);
        screen.sees_input("› (Enter", "");
        world.model.release_held_reply();
        screen.sees("done.");
        screen.prompt();
        all_once(&mut screen, '漢', 100);
    }
}
