//! The corpora of hostile commands and paths. Each entry is called by a model in a real turn: no command runs without
//! permission, and no path leads outside.

use std::cell::Cell;

use agentd_testkit::hostile::{self, CANARY, Class, SECRET, Trap, state};

use super::*;

/// Grants that a user might have accumulated over time, none of which is intended for these calls.
const EXISTING_GRANTS: [&str; 8] =
    ["git status", "git log *", "cargo test *", "make", "ls *", "cat *", "echo *", "npm run build"];

/// Settings that fully trust the model, so that only built-in rules stop the commands.
const TRUSTING: &str = "sessions: {confirm_exec: false, confirm_write: false}\n";

/// Creates a session with a writable project, and a trap that covers the session's folders and the folders around them.
async fn session(agentd_yaml: &str) -> (World, String, Trap) {
    let world = World::configured(agentd_yaml).await;
    world.write("project/src/main.rs", "fn main() {}\n");
    world.model.reply(Reply::tool_call("list_workspace_files", json!({}))).reply(Reply::text("Hello."));
    let project = world.path().join("project");
    let mount = format!("{}:rw", project.display());
    let session = world.ok(["run", "Hi", "-C", &mount, "--output", "json"]).await.session();
    let outside = world.data();
    let trap = Trap { root: outside.join("workspace").join(&session), outside, project };
    (world, session, trap)
}

/// Returns the corpus with its folders replaced by those of this session.
fn commands(trap: &Trap, wanted: impl Fn(&str) -> bool) -> Vec<Call> {
    let (root, project) = (trap.root.to_str().unwrap(), trap.project.to_str().unwrap());
    let resolved = |line: &str| line.replace(hostile::CORPUS_ROOT, root).replace(hostile::CORPUS_PROJECT, project);
    let entries = hostile::hostile_commands().into_iter().filter(|(mark, _)| wanted(mark));
    entries.map(|(_, line)| ("run_bash_command", json!({ "command": resolved(&line) }))).collect()
}

/// Returns the number of commands in the audit log, and the commands that ran or were allowed.
async fn audited(world: &World) -> (usize, Vec<Value>) {
    let records = world.json(["audit", "--tool", "run_bash_command", "-n", "10000"]).await;
    let records = records.as_array().unwrap().clone();
    let ran = |record: &&Value| record["allowed"] != false || record["ended"]["ran"] != false;
    (records.len(), records.iter().filter(ran).cloned().collect())
}

/// Returns the state that must not change. The calls fill the window, so the daemon itself stores compacted messages.
fn folders(world: &World, trap: &Trap) -> [BTreeMap<String, String>; 3] {
    let history = trap.root.join("conversation_history");
    [state(&trap.root, &[&history]), state(&trap.project, &[]), outside_state(world, trap)]
}

/// Makes the model call all of these tools, and checks that each call is denied with this text and does not run.
async fn assert_all_denied(world: &World, session: &str, on_interrupt: &str, all: &[Call], text: &str) -> Value {
    let args = ["--session", session, "--on-interrupt", on_interrupt, "--output", "json"];
    let (results, output) = world.call_all(all.to_vec(), &args).await;
    for ((_, call), result) in all.iter().zip(&results) {
        assert!(result.starts_with("E_DENIED: ") && result.contains(text), "{call}: {result}");
    }
    assert_eq!(audited(world).await, (all.len(), Vec::new()));
    output.exits(5).json()
}

#[tokio::test]
async fn hostile_command_never_runs_without_permission() {
    let (world, session, trap) = session(TRUSTING).await;
    for rule in EXISTING_GRANTS {
        world.ok(["grants", "add", &format!("run_bash_command: {rule}")]).await;
    }
    trap.create_entries();
    let all = commands(&trap, |_| true);
    assert!(all.len() >= 900, "{}", all.len());
    let before = folders(&world, &trap);
    let result = assert_all_denied(&world, &session, "deny", &all, "").await;
    assert_eq!(result["denials"].as_array().unwrap().len(), all.len(), "every denial is listed");
    let after = folders(&world, &trap);
    let new = after.iter().zip(&before).flat_map(|(after, before)| {
        after.iter().filter(|(path, now)| before.get(*path) != Some(*now)).map(|(path, _)| path)
    });
    assert!(after == before, "files outside have changed: {:?}", new.collect::<Vec<_>>());
    world.ok(["audit", "verify"]).await;
    world.still_serves().await;
}

#[tokio::test]
async fn command_with_effects_never_runs_without_asking() {
    let (world, session, trap) = session("").await;
    trap.create_entries();
    let before = folders(&world, &trap);
    let all = hostile::asking_commands().into_iter().map(|(_, line)| ("run_bash_command", json!({ "command": line })));
    let all: Vec<Call> = all.collect();
    assert!(all.len() >= 150, "{}", all.len());
    assert_all_denied(&world, &session, "deny", &all, "").await;
    assert!(folders(&world, &trap) == before, "files outside have changed");
}

#[tokio::test]
async fn denied_command_never_runs_even_if_approved() {
    let (world, session, trap) = session(TRUSTING).await;
    let all = commands(&trap, |mark| mark == "deny");
    assert!(all.len() >= 100, "{}", all.len());
    assert_all_denied(&world, &session, "approve", &all, "on the deny list").await;
}

/// Returns the state that must not change: the secrets, and the names of everything next to the workspaces and the
/// project.
fn outside_state(world: &World, trap: &Trap) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let others = trap.root.parent().unwrap().join("other");
    for around in trap.around() {
        found.extend(state(&around.join("canary"), &[]));
        let secret = around.join("secret.txt");
        found.insert(secret.display().to_string(), fs::read_to_string(secret).unwrap());
    }
    found.extend(state(&others, &[]));
    let ours = ["agentd", "audit", "undo", "logs"];
    for folder in [world.path(), &trap.outside, &trap.root, trap.root.parent().unwrap()] {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // Entries that the daemon creates in its own folder may appear and disappear.
        let mut names: Vec<String> =
            names.filter(|name| *folder != trap.outside || !ours.iter().any(|own| name.starts_with(own))).collect();
        names.sort();
        found.insert(format!("names in {}", folder.display()), names.join(" "));
    }
    for path in ["/tmp/x", "/var/tmp/x", "/dev/shm/x", "/etc/new.txt", "/new.txt"] {
        found.insert(
            path.to_owned(),
            format!("{:?}", fs::symlink_metadata(path).map(|found| found.modified().ok()).ok()),
        );
    }
    found
}

/// Returns names longer than any file system allows. Their text does not repeat, like names written by a model.
fn long_paths() -> Vec<(Class, String)> {
    let long = |bytes: usize| (0..).flat_map(|number: u32| format!("{number}.").into_bytes()).take(bytes);
    let long = |bytes: usize| String::from_utf8(long(bytes).collect()).unwrap();
    let refused = [
        long(5000),
        long(64 * 1024),
        format!("uploads/{}", long(256)),
        format!("uploads/{}", long(64 * 1024)),
        format!("/project/{}", long(64 * 1024)),
        format!("../../{}", long(64 * 1024)),
    ];
    refused
        .map(|path| (Class::Refused, path))
        .into_iter()
        .chain([(Class::Contained, format!("uploads/{}", long(255)))])
        .collect()
}

/// Returns true if the path is relative and does not begin with a name in the session's own tree.
fn is_project_relative(path: &str) -> bool {
    let first = path.split('/').find(|part| !part.is_empty() && *part != ".");
    !path.starts_with('/') && !first.is_some_and(|first| ["uploads", "outputs", "temp", "skills"].contains(&first))
}

/// Returns calls to each of these tools with all paths.
fn calls(trap: &Trap, tools: impl Fn(&str) -> Vec<Call>) -> (Vec<(Class, String)>, Vec<Call>) {
    let paths = trap.paths().into_iter().chain(long_paths());
    let all = paths.flat_map(|(class, path)| tools(&path).into_iter().map(move |call| ((class, path.clone()), call)));
    all.unzip()
}

/// Checks that nothing sent to the model contains any content from outside.
#[track_caller]
fn assert_no_secrets_sent(world: &World) {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let first = passwd.lines().next().unwrap_or("no such file");
    let requests = world.model.requests();
    let sent = requests.last().unwrap().body.to_string();
    has_none(&sent, &[CANARY, SECRET, first]);
}

#[tokio::test]
async fn model_path_cannot_read_outside_the_workspace() {
    let (world, session, trap) = session("").await;
    trap.create_entries();
    let before = outside_state(&world, &trap);
    let (paths, calls) = calls(&trap, |path| {
        vec![
            ("read_file", json!({ "path": path })),
            ("list_workspace_files", json!({"path": path, "depth": 9})),
            ("grep", json!({"path": path, "pattern": "launch|canary|root"})),
            ("search_code", json!({"path": path, "query": "launch canary root"})),
        ]
    });
    assert!(calls.len() >= 4 * 450, "{}", calls.len());
    let (results, output) = world.call_all(calls.clone(), &["--session", &session, "--on-interrupt", "approve"]).await;
    output.exits(0);
    for (((class, path), (tool, _)), result) in paths.iter().zip(&calls).zip(&results) {
        assert!(*class != Class::Refused || result.starts_with("E_PATH: "), "{tool} {path:?}: {result}");
    }
    assert_no_secrets_sent(&world);
    assert_eq!(outside_state(&world, &trap), before);
}

#[tokio::test]
async fn model_path_cannot_write_outside_the_workspace() {
    let (world, session, trap) = session("").await;
    trap.create_entries();
    let before = outside_state(&world, &trap);
    let number = Cell::new(0);
    let (paths, calls) = calls(&trap, |path| {
        let mut calls = vec![
            ("write_file", json!({"path": path, "content": "overwritten"})),
            ("edit_file", json!({"path": path, "old_string": "code", "new_string": "overwritten"})),
        ];
        // A patch cannot contain a path with several lines. Testing every third path is sufficient.
        number.set(number.get() + 1);
        if number.get() % 3 == 0 && path.trim() == path && !path.contains(['\n', '\r']) {
            // Other changes in the same patch are not applied either.
            let patch = format!("*** Add File: outputs/{}.txt\n+beside\n*** Delete File: {path}\n", number.get());
            calls.push(("apply_patch", json!({"patch": format!("*** Begin Patch\n{patch}*** End Patch")})));
        }
        calls
    });
    assert!(calls.len() >= 2 * 450, "{}", calls.len());
    let (results, output) = world.call_all(calls.clone(), &["--session", &session, "--on-interrupt", "approve"]).await;
    output.exits(0);
    let (mut used, mut applied) = (0, 0);
    for (((class, path), (tool, _)), result) in paths.iter().zip(&calls).zip(&results) {
        let is_refused =
            result.starts_with("E_PATH: ") || (*tool == "apply_patch" && result.starts_with("E_INVALID_ARGS: "));
        let is_accepted = *class == Class::Contained || (*class == Class::Unwritable && is_project_relative(path));
        assert!(is_accepted || is_refused, "{tool} {path:?}: {result}");
        used += usize::from(!result.starts_with("E_"));
        applied += usize::from(result.starts_with("Applied the patch"));
    }
    let applied_files = fs::read_dir(trap.real("outputs")).unwrap().filter(|entry| {
        let content = fs::read_to_string(entry.as_ref().unwrap().path());
        content.is_ok_and(|text| text == "beside\n")
    });
    assert_eq!(applied_files.count(), applied);
    assert!(used > 50, "too few of the unusual names were accepted: {used}");
    assert_no_secrets_sent(&world);
    assert_eq!(outside_state(&world, &trap), before);
    assert_eq!(fs::read_to_string(trap.real("skills/known/SKILL.md")).unwrap(), "code\n");
    world.ok(["audit", "verify"]).await;
    world.still_serves().await;
}
