//! Going back to before a turn, for files, the conversation, or both. External changes are preserved, and no data is
//! lost.

use super::*;

/// Runs three turns that write files one after the other.
async fn three_turns() -> (World, String) {
    let world = World::start().await;
    world.write("project/kept.txt", "kept\n");
    world.write("project/notes.txt", "zero\n");
    world.model.respond_with(|request: &Recorded| {
        let users = request.messages().iter().filter(|message| message["role"] == "user");
        let last = users.filter_map(|message| message["content"].as_str()).next_back().unwrap_or_default().to_owned();
        if request.last_role() == "tool" {
            return Reply::text(format!("Did {last}"));
        }
        let write = |path: &str, content: &str| {
            Reply::tool_call("write_file", json!({"path": format!("/project/{path}"), "content": content}))
        };
        match last.as_str() {
            "one" => write("notes.txt", "one\n"),
            "two" => write("notes.txt", "two\n")
                .and_call("write_file", json!({"path": "/project/made.txt", "content": "x\n"})),
            "three" => write("notes.txt", "three\n"),
            other => Reply::text(format!("Heard {other}")),
        }
    });
    let project = world.mount();
    world.ok(["run", "one", "-C", &project, "--on-interrupt", "approve", "--title", "Numbers"]).await;
    for input in ["two", "three"] {
        world.ok(["run", input, "--continue", "-C", &project, "--on-interrupt", "approve"]).await;
    }
    (world, project)
}

fn read(world: &World, name: &str) -> Option<String> {
    fs::read_to_string(world.path().join("project").join(name)).ok()
}

async fn sessions(world: &World) -> Vec<(String, String)> {
    let list = world.json(["sessions", "list"]).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|session| (text(&session["id"]), text(&session["title"]))).collect()
}

#[tokio::test]
async fn rewind_reverts_files_and_conversation_and_keeps_old_ones() {
    let (world, _) = three_turns().await;
    let old = sessions(&world).await[0].0.clone();
    let preview = world.ok(["rewind", "--to", "2", "--preview"]).await.stdout;
    assert!(preview.contains("+one") && preview.contains("-three"), "{preview}");
    assert_eq!(read(&world, "notes.txt").unwrap(), "three\n", "a preview changes nothing");

    let new = world.ok(["rewind", "--to", "2", "--yes"]).await.stdout.trim().to_owned();
    assert_eq!((read(&world, "notes.txt").unwrap().as_str(), read(&world, "made.txt")), ("one\n", None));
    assert_eq!(read(&world, "kept.txt").unwrap(), "kept\n");
    let listed = sessions(&world).await;
    assert!(listed.contains(&(new.clone(), "Numbers".to_owned())), "{listed:?}");
    assert!(listed.contains(&(old.clone(), "Numbers (before the rewind to turn 2)".to_owned())), "{listed:?}");
    let output = world.ok(["run", "again", "--session", &new]).await;
    assert!(output.stdout.trim().ends_with("again"), "{}", output.stdout);
    let asked = world.model.requests().last().unwrap().body["messages"].to_string();
    assert!(asked.contains("Did one") && !asked.contains("Did two") && !asked.contains("Did three"), "{asked}");

    // The reverted files can be restored.
    world.ok(["rewind", &old, "--to", "2", "--files", "--redo", "--yes"]).await;
    assert_eq!(
        (read(&world, "notes.txt").unwrap().as_str(), read(&world, "made.txt").as_deref()),
        ("three\n", Some("x\n"))
    );
}

#[tokio::test]
async fn rewind_leaves_externally_changed_files_alone() {
    let (mut world, _) = three_turns().await;
    world.write("project/notes.txt", "mine\n");
    world.daemon.crash().await;
    let output = world.agentctl(["rewind", "--steps", "2", "--files", "--yes", "--json"]).await.exits(1);
    let report = output.json();
    let files = report["files"]["files"].as_array().unwrap();
    let outcome = |path: &str| files.iter().find(|file| file["path"] == path).unwrap()["outcome"].clone();
    assert_eq!((outcome("/project/notes.txt"), outcome("/project/made.txt")), (json!("conflict"), json!("done")));
    assert_eq!((read(&world, "notes.txt").unwrap().as_str(), read(&world, "made.txt")), ("mine\n", None));
    assert_eq!(sessions(&world).await.len(), 1, "the rewind created no session");
}

#[tokio::test]
async fn rewind_to_the_beginning_works_and_invalid_turns_are_refused() {
    let (world, _) = three_turns().await;
    for args in [["rewind", "--to", "4"], ["rewind", "--steps", "9"], ["rewind", "--to", "0"]] {
        world.agentctl(args).await.exits(2).says(&["the session has 3"]);
    }
    let new = world.ok(["rewind", "--steps", "3", "--yes"]).await.stdout.trim().to_owned();
    assert_eq!((read(&world, "notes.txt").unwrap().as_str(), read(&world, "made.txt")), ("zero\n", None));
    world.ok(["run", "four", "--session", &new]).await;
    let asked = world.model.requests().last().unwrap().body["messages"].to_string();
    assert!(!asked.contains("Did one"), "{asked}");
}

#[tokio::test]
async fn rewind_can_revert_only_the_conversation() {
    let (world, project) = three_turns().await;
    let input = "/rewind 3\nagain\n/quit\n";
    let output = world.agentctl_with(["chat", "--continue", "-C", &project], input).await;
    assert_eq!(read(&world, "notes.txt").unwrap(), "two\n", "{}\n{}", output.stdout, output.stderr);
    let asked = world.model.requests().last().unwrap().body["messages"].to_string();
    assert!(asked.contains("Did two") && !asked.contains("Did three"), "{asked}");
    world.ok(["rewind", "--talk", "--yes"]).await;
    assert_eq!(read(&world, "notes.txt").unwrap(), "two\n");
}
