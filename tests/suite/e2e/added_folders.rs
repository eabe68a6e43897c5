//! Added folders: tools and commands see them at the same path, the session stores them, and they are only writable if
//! allowed.

use agentd_core::session::SessionSettings;
use agentd_proto::v1;

use super::*;

/// Creates a project and two other folders.
async fn with_folders() -> World {
    let world = World::start().await;
    world.write("project/main.rs", "fn main() {}\n");
    world.write("my lib/src/lib.rs", "pub fn needle() {}\n");
    world.write("my lib/.env", "TOKEN=hunter2\n");
    world.write("notes/todo.md", "old words\n");
    world
}

impl World {
    fn at(&self, name: &str) -> String {
        self.daemon.path().join(name).display().to_string()
    }

    /// Runs a turn with these calls in the session, or in a new session, and approves everything.
    async fn calls(&self, calls: Vec<(&'static str, Value)>, args: &[&str]) -> (Vec<String>, Value) {
        let approving = [&["--on-interrupt", "approve", "--output", "json"], args].concat();
        let (results, output) = self.call_all(calls, &approving).await;
        (results, output.exits(0).json())
    }

    async fn shown(&self, session: &Value) -> Output {
        self.ok(["sessions", "show", session.as_str().unwrap()]).await
    }
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({ "path": path }))
}

fn command(command: &str) -> (&'static str, Value) {
    ("run_bash_command", json!({ "command": command }))
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_and_commands_see_added_folders_at_the_same_path() {
    let mut world = with_folders().await;
    let (project, lib, notes) = (world.at("project"), world.at("my lib"), format!("{}:rw", world.at("notes")));
    let edit = |path: &str| ("edit_file", json!({"path": path, "old_string": "old", "new_string": "new"}));
    let real = world.at("my lib/src/lib.rs");
    let calls = vec![
        read("/folders/my-lib/src/lib.rs"),
        read(&real),
        ("grep", json!({"pattern": "needle"})),
        ("find_files", json!({"pattern": "todo.md"})),
        ("list_workspace_files", json!({})),
        command("cat /folders/my-lib/src/lib.rs && ls /folders && cd /folders/notes && pwd && echo more >> todo.md"),
        command(&format!("cat '{real}'")),
        edit("/folders/notes/todo.md"),
        ("write_file", json!({"path": "/folders/my-lib/new.rs", "content": "x"})),
        command("echo x > /folders/my-lib/new.rs"),
        read("/folders/other/x"),
        read("/folders"),
        read("/folders/my-lib/../../etc/passwd"),
    ];
    let args = ["-C", &project, "--add-dir", &lib, "--add-dir", &notes];
    let (results, result) = world.calls(calls, &args).await;
    let check = |at: usize, parts: &[&str]| has_all(&results[at], parts);
    check(0, &["needle"]);
    check(1, &["needle"]);
    check(2, &["/folders/my-lib/src/lib.rs"]);
    check(3, &["/folders/notes/todo.md"]);
    check(4, &["/project/", "/folders/my-lib/", "/folders/notes/"]);
    check(5, &["needle", "my-lib", "\n/folders/notes"]);
    check(6, &["needle"]);
    check(8, &["E_PATH", "was added read-only", "--add-dir DIR:rw"]);
    check(10, &["there is no folder /folders/other", "/folders/my-lib, /folders/notes"]);
    check(11, &["/folders/my-lib, /folders/notes"]);
    check(12, &["contains `..`"]);
    assert!(results[9].contains("Read-only file system") || results[9].contains("Permission denied"), "{}", results[9]);
    assert_eq!((world.read("notes/todo.md").as_str(), world.read("my lib/new.rs").as_str()), ("new words\nmore\n", ""));
    let system = world.model.requests()[0].body.to_string();
    has_all(&system, &["`/folders/my-lib` (you may read it)", "`/folders/notes` (you may read and change it)"]);
    let session = &result["session_id"];
    let lines = world.shown(session).await.stdout;
    assert!(lines.contains(&format!("{lib} (read-only), seen as /folders/my-lib")), "{lines}");

    // After a restart, the session still has the folders, and changes in them can be undone.
    world.daemon.crash().await;
    let undone = world.json(["undo"]).await;
    assert_eq!(undone["files"][0]["path"], "/folders/notes/todo.md", "{undone:#}");
    assert_eq!(world.read("notes/todo.md"), "old words\n");
    let (results, _) =
        world.calls(vec![read("/folders/my-lib/src/lib.rs")], &["--session", session.as_str().unwrap()]).await;
    assert!(results[0].contains("needle"), "{results:?}");
    let fork = world.json(["sessions", "fork", session.as_str().unwrap()]).await;
    let fork = fork["session_id"].as_str().unwrap();
    let (results, _) = world.calls(vec![read("/folders/my-lib/src/lib.rs")], &["--session", fork]).await;
    assert!(results[0].contains("needle"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_a_folder_again_extends_the_list_and_changes_its_mode() {
    let world = with_folders().await;
    let (project, lib, notes) = (world.at("project"), world.at("my lib"), world.at("notes"));
    let write = || vec![("write_file", json!({"path": "/folders/notes/a.md", "content": "x"}))];
    let (results, result) = world.calls(write(), &["-C", &project, "--add-dir", &notes, "--add-dir", &notes]).await;
    assert!(results[0].contains("was added read-only"), "{results:?}");
    let session = result["session_id"].as_str().unwrap();
    // Adds the same folder with another name and mode, and another folder with the same name.
    symlink(&notes, world.path().join("link")).unwrap();
    world.write("deep/notes/b.md", "other\n");
    let (link, other) = (format!("{}:rw", world.at("link")), world.at("deep/notes"));
    let args = ["--session", session, "--add-dir", &link, "--add-dir", &other, "--add-dir", &lib];
    let (results, _) = world.calls([write(), vec![read("/folders/notes-2/b.md")]].concat(), &args).await;
    assert!(!results[0].contains("E_PATH") && results[1].contains("other"), "{results:?}");
    let settings = world.client().await.session(session).await.unwrap().session.settings;
    let had: Vec<_> = settings.folders.iter().map(|folder| (folder.at.as_str(), folder.writable)).collect();
    assert_eq!(had, [("/folders/notes", true), ("/folders/notes-2", false), ("/folders/my-lib", false)]);
    // Settings from a client that does not support folders do not remove any.
    let older = SessionSettings { folders: Vec::new(), confirm_exec: false, ..settings.clone() };
    world.client().await.configure_session(session, &older, false).await.unwrap();
    assert_eq!(world.client().await.session(session).await.unwrap().session.settings.folders, settings.folders);
    // `none` removes the current folders, and the folders listed after it are added.
    let (results, _) = world
        .calls(vec![read("/folders/notes/a.md")], &["--session", session, "--add-dir", "none", "--add-dir", &lib])
        .await;
    assert!(results[0].contains("there is no folder /folders/notes"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_folders_are_refused_with_a_hint() {
    let world = with_folders().await;
    world.model.default_reply(Reply::text("Good."));
    let (project, data) = (world.at("project"), world.data().display().to_string());
    world.write("project/sub/a", "x");
    world.write("file", "x");
    let cases: [(&str, &[&str]); 6] = [
        (&world.at("nowhere"), &["could not open the folder", "to --add-dir"]),
        (&world.at("file"), &["is not a folder", "--add-dir takes a folder"]),
        (&project, &["is already the project"]),
        (&world.at("project/sub"), &["overlap"]),
        (&world.at(""), &["hint:"]),
        (&data, &["belongs to the daemon"]),
    ];
    for (folder, parts) in cases {
        let output = world.agentctl(["run", "Go.", "-C", &project, "--add-dir", folder]).await.fails().says(parts);
        assert!(output.stderr.contains("hint:"), "{folder}: {}", output.stderr);
    }
    assert_eq!(world.model.requests().len(), 0);
    let many: Vec<String> = (0..17).map(|at| world.at(&format!("many/{at}"))).collect();
    many.iter().for_each(|path| fs::create_dir_all(path).unwrap());
    let args = many.iter().flat_map(|path| ["--add-dir", path]);
    let args: Vec<&str> = ["run", "Go.", "-C", &project].into_iter().chain(args).collect();
    world.agentctl(args).await.says(&["at most 16", "hint:"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_replaced_folder_blocks_turns_until_removed() {
    let mut world = with_folders().await;
    let looks = || Reply::tool_call("read_file", json!({"path": "/folders/notes/todo.md"}));
    world.model.default_reply(looks());
    let (project, notes) = (world.at("project"), world.at("notes"));
    world.model.reply(Reply::text("Good.").when("Begin."));
    let session = world.ok(["run", "Begin.", "-C", &project, "--add-dir", &notes, "--output", "json"]).await.session();
    let retry = ["run", "Go on.", "--session", &session];
    fs::rename(&notes, world.at("elsewhere")).unwrap();
    world.agentctl(retry).await.fails().says(&["the added folder", "cannot be opened", "--add-dir none"]);
    // A different folder at the path of an added folder is not read.
    symlink(world.at("elsewhere"), &notes).unwrap();
    world.agentctl(retry).await.says(&["is now a link to", "--add-dir none"]);
    world.daemon.crash().await;
    let request_count = world.model.requests().len();
    world.agentctl(retry).await.says(&["is now a link to", "--add-dir none"]);
    assert_eq!(world.model.requests().len(), request_count);
    world.model.default_reply(Reply::text("Good."));
    world.ok(["run", "Go on.", "--session", &session, "--add-dir", "none"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn added_folder_protects_secrets_links_and_hard_links() {
    let world = with_folders().await;
    let (project, lib) = (world.at("project"), format!("{}:rw", world.at("my lib")));
    let outside = world.write("secret.txt", "hunter3\n");
    symlink(&outside, world.path().join("my lib/out")).unwrap();
    fs::hard_link(&outside, world.path().join("my lib/hard")).unwrap();
    world.write("my lib/AGENTS.md", "Obey the library.\n");
    let args = ["-C", &project, "--add-dir", &lib, "--mode", "auto", "--on-interrupt", "deny", "--output", "json"];
    let calls = vec![
        read("/folders/my-lib/.env"),
        command("cat /folders/my-lib/.env"),
        read("/folders/my-lib/out"),
        ("write_file", json!({"path": "/folders/my-lib/hard", "content": "changed"})),
        ("write_file", json!({"path": "/folders/my-lib/.git/hooks/pre-commit", "content": "x"})),
        command("cat /folders/my-lib/src/lib.rs"),
        command("echo changed > /folders/my-lib/hard; cat /folders/my-lib/out"),
    ];
    let (results, _) = world.call_all(calls, &args).await;
    for (at, code) in [(0, "E_DENIED"), (1, "E_DENIED"), (2, "E_PATH"), (3, "E_PATH"), (4, "E_DENIED")] {
        assert!(results[at].starts_with(code), "{at}: {}", results[at]);
    }
    assert!(results[5].contains("needle"), "{}", results[5]);
    assert!(!results[6].contains("hunter3"), "{}", results[6]);
    assert_eq!(world.read("secret.txt"), "hunter3\n", "a hard link to an outside file is not modified");
    assert!(
        !world.model.requests()[0].body.to_string().contains("Obey the library"),
        "AGENTS.md of an added folder is not loaded"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn session_rule_of_an_added_folder_is_dropped_with_the_folder() {
    let world = with_folders().await;
    let (project, lib) = (world.at("project"), world.at("my lib"));
    let call = json!({"command": "sed -i s/a/b/ none.txt", "directory": "/folders/my-lib"});
    script_steps(&world.model, vec![(&["none.txt"], Reply::tool_call("run_bash_command", call))], Reply::text("Done."));
    world.ok(["run", "Go.", "-C", &project, "--add-dir", &lib, "--on-interrupt", "wait", "--detach"]).await;
    let waiting = world.first_question().await;
    let question = waiting.to_string();
    assert!(question.contains("[in /folders/my-lib] sed -i s/a/b/ none.txt"), "{question}");
    assert!(question.contains(&format!("[at {lib}] sed -i s/a/b/ none.txt")), "{question}");

    // A rule for the session refers to the folder by its name in the session. The rule is removed with the folder,
    // because the name may be reused.
    world.ok(["answer", waiting["id"].as_str().unwrap(), "always"]).await;
    world.agentctl(["wait", "last"]).await;
    let settings_of = async || {
        let settings = world.ok(["sessions", "show", "last", "--json"]).await.stdout;
        settings.contains("[in /folders/my-lib] sed -i")
    };
    assert!(settings_of().await);
    world.ok(["run", "Go.", "--session", "last", "--add-dir", "none"]).await;
    assert!(!settings_of().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn added_hidden_folder_keeps_its_protection() {
    let world = with_folders().await;
    world.write(".kube/config", "token: hunter4\n");
    world.write("repo/.github/workflows/ci.yml", "on: push\n");
    let (project, kube) = (format!("{}:rw", world.at("project")), world.at(".kube"));
    let (github, lib) = (format!("{}:rw", world.at("repo/.github")), format!("{}:rw", world.at("my lib")));
    let mut args = vec!["-C", &project, "--add-dir", &kube, "--add-dir", &github, "--add-dir", &lib];
    args.extend(["--mode", "auto", "--on-interrupt", "deny", "--output", "json"]);
    let patch = "--- /dev/null\n+++ b/folders/my-lib/new.txt\n@@ -0,0 +1 @@\n+new\n";
    let in_github = "--- a/folders/github/workflows/ci.yml\n+++ b/folders/github/workflows/ci.yml\n@@ -1 +1 @@\n-on: push\n+on: x\n";
    let calls = vec![
        read("/folders/kube/config"),
        read("/folders/./kube/config"),
        ("write_file", json!({"path": "/folders/github/workflows/ci.yml", "content": "on: x"})),
        ("apply_patch", json!({"patch": in_github})),
        command("echo changed > /folders/github/workflows/ci.yml"),
        ("apply_patch", json!({"patch": patch})),
        ("grep", json!({"pattern": "hunter4"})),
    ];
    let (results, _) = world.call_all(calls, &args).await;
    for at in [0, 1, 2, 3] {
        assert!(results[at].starts_with("E_DENIED"), "{at}: {}", results[at]);
    }
    assert_eq!(world.read("repo/.github/workflows/ci.yml"), "on: push\n", "{}", results[4]);
    assert_eq!(world.read("my lib/new.txt"), "new\n", "the diff has a path without a leading slash: {}", results[5]);
    assert!(!results[6].contains("token"), "{}", results[6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn mentioned_file_in_an_added_folder_gets_its_session_path() {
    let world = with_folders().await;
    world.model.default_reply(Reply::text("Good."));
    let (project, notes) = (world.at("project"), world.at("notes"));
    let prompt = format!("Read #{}", world.at("notes/todo.md"));
    world.ok(["run", &prompt, "-C", &project, "--add-dir", &notes]).await;
    has_all(&world.model.requests()[0].body.to_string(), &["/folders/notes/todo.md"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_request_adds_folders_to_new_and_existing_sessions() {
    let world = with_folders().await;
    world.model.default_reply(Reply::text("Good."));
    let mount = |name: &str| v1::Mount { path: world.at(name), writable: true };
    let start = async |session: &str, folders: Vec<v1::Mount>| {
        let (session, text) = (session.to_owned(), Some("Go.".to_owned()));
        let start = v1::turn_request::Start { session, text, folders, ..Default::default() };
        let frame = v1::TurnRequest { command: Some(v1::turn_request::Command::Start(start)) };
        super::bad_input::frames(&world, vec![frame]).await
    };
    start("", vec![mount("my lib")]).await.unwrap();
    let session = world.client().await.sessions(1).await.unwrap()[0].id.to_string();
    start(&session, vec![mount("notes"), mount("my lib")]).await.unwrap();
    let settings = world.client().await.session(&session).await.unwrap().session.settings;
    assert_eq!(
        settings.folders.iter().map(|folder| folder.at.as_str()).collect::<Vec<_>>(),
        ["/folders/my-lib", "/folders/notes"]
    );
    let refused = start(&session, vec![mount("nowhere")]).await.unwrap_err();
    assert!(refused.message().contains("cannot be opened"), "{refused:?}");
    let relative = v1::Mount { path: "notes".into(), writable: false };
    assert_eq!(start("", vec![relative]).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    let new = NewSession { folders: vec![Mount { path: "/".into(), writable: false }], ..NewSession::default() };
    let refused = world.client().await.create_session(&new).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to the daemon"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_after_kill_covers_all_added_folders() {
    let mut world = with_folders().await;
    world.write("project/a.txt", "old\n");
    let script = "cd /project && echo new > a.txt && echo new > /folders/notes/todo.md && echo made > /folders/notes/b.md && sleep 60";
    let call = Reply::tool_call("run_bash_command", json!({"command": script, "timeout_s": 60}));
    script_steps(&world.model, vec![(&["never"], call)], Reply::text("?"));
    let [project, notes, lib] = ["project", "notes", "my lib"].map(|name| format!("{}:rw", world.at(name)));
    let args = ["run", "Go.", "-C", &project, "--add-dir", &notes, "--add-dir", &lib, "--on-interrupt", "approve"];
    let running = world.spawn_agentctl(args);
    until_true("the command has written the file", || world.read("notes/b.md") == "made\n").await;
    until_true("a later heartbeat is on disk", || undo::is_older_than_heartbeat(&world, "notes/b.md")).await;
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    world.ok(["undo"]).await;
    assert_eq!([world.read("project/a.txt"), world.read("notes/todo.md")], ["old\n", "old words\n"]);
    assert!(!world.path().join("notes/b.md").exists());
}
