//! The one tree that tools see: what is remembered in all sessions, and what a session keeps in its own state.

use agentd_testkit::{daemon::until, model_server::Reply};
use serde_json::{Value, json};

use super::{World, works_through};

impl World {
    /// What the tool tells the model that calls it once, in a turn of a new session, and the client's exit code.
    async fn tells(&self, tool: &str, arguments: Value, on_interrupt: &str) -> (String, Option<i32>) {
        self.tells_with(tool, arguments, &["--on-interrupt", on_interrupt]).await
    }

    /// The same with these options. Nothing may ask, unless they say otherwise.
    async fn tells_with(&self, tool: &str, arguments: Value, options: &[&str]) -> (String, Option<i32>) {
        let tool = tool.to_owned();
        self.model.respond_with(move |request| match request.last_role() {
            "tool" => Reply::text("over"),
            _ => Reply::tool_call(&tool, arguments.clone()),
        });
        let output = self.daemon.agentctl(["run", "Do it"].iter().chain(options)).await;
        let requests = self.model.requests();
        let last = requests.last().unwrap().messages().last().unwrap();
        assert_eq!(last["role"], "tool", "{last}");
        (last["content"].as_str().unwrap().to_owned(), output.code)
    }
}

#[tokio::test]
async fn what_is_remembered_is_read_in_every_session_and_written_only_when_a_person_says_so() {
    let world = World::configured("sessions:\n  confirm_write: false\n  confirm_exec: false\n").await;
    let memory = world.daemon.data().join("memories/people/ada.md");
    let write = json!({"path": "/memories/people/ada.md", "content": "Ada likes tea.\n"});
    let (told, code) = world.tells("write_file", write.clone(), "deny").await;
    assert!(told.contains("remembered in all sessions") && !memory.exists(), "{told}");
    assert_eq!(code, Some(5));
    // Nothing else of that kind asks here.
    let (told, code) = world.tells("write_file", json!({"path": "outputs/a.md", "content": "x"}), "fail").await;
    assert!(told.contains("Created"), "{told}");
    assert_eq!(code, Some(0));

    world.tells("write_file", write.clone(), "approve").await;
    assert_eq!(std::fs::read_to_string(&memory).unwrap(), "Ada likes tea.\n");
    world.daemon.agentctl(["undo"]).await.exits(0);
    assert!(!memory.exists(), "what a turn remembered can be taken back");
    world.tells("write_file", write, "approve").await;

    let (told, _) = world.tells("read_file", json!({"path": "memories/people/ada.md"}), "fail").await;
    assert_eq!(told, "Ada likes tea.\n");
    let command = r#"cat "$MEMORIES/people/ada.md"; echo x > "$MEMORIES/x.md""#;
    let (told, _) = world.tells("run_bash_command", json!({ "command": command }), "approve").await;
    assert!(told.contains("Ada likes tea.") && !told.starts_with("exit code 0"), "{told}");
    assert!(!world.daemon.data().join("memories/x.md").exists());
}

#[tokio::test]
async fn files_of_the_state_survive_a_kill_and_go_with_a_reset() {
    let mut world = World::start().await;
    let here = ["--continue", "--on-interrupt", "fail"];
    // Nobody is asked: it changes nothing but the session itself.
    let first = json!({"path": "/state/plan.md", "content": "dig\n"});
    let (told, code) = world.tells("write_file", first, "fail").await;
    assert!(told.contains("Created /state/plan.md") && code == Some(0), "{told}");

    // Killed in the middle of a turn, once the model has heard that a file was written.
    let edit = json!({"path": "/state/plan.md", "old_string": "dig", "new_string": "dig, then sow"});
    let steps = vec![
        (&["Edited"][..], Reply::tool_call("edit_file", edit)),
        (&["never"][..], Reply::tool_call("run_bash_command", json!({"command": "sleep 60", "timeout_s": 60}))),
    ];
    works_through(&world.model, steps, Reply::text("?"));
    let running = world.daemon.spawn_agentctl(["run", "Go on", "--continue", "--on-interrupt", "approve"]);
    let heard = || async { super::tool_texts(world.model.requests().last()?).contains("Edited").then_some(()) };
    until("the model to hear of the edit", heard).await;
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    let read = || json!({"path": "/state/plan.md"});
    let (told, _) = world.tells_with("read_file", read(), &here).await;
    assert_eq!(told, "dig, then sow\n");

    // They belong to one session, are on no disk, and a reset sets them aside.
    let (told, _) = world.tells("read_file", read(), "fail").await;
    assert!(told.contains("is not there"), "{told}");
    let sessions = world.daemon.agentctl(["sessions", "list", "--json"]).await.exits(0).json();
    let id = sessions[1]["session_id"].as_str().or(sessions[1]["id"].as_str()).unwrap().to_owned();
    let here = ["--session", id.as_str(), "--on-interrupt", "fail"];
    assert_eq!(world.tells_with("read_file", read(), &here).await.0, "dig, then sow\n");
    let command = json!({"command": "ls -d state /state"});
    let (told, _) =
        world.tells_with("run_bash_command", command, &["--session", &id, "--on-interrupt", "approve"]).await;
    assert!(!told.contains("exit code 0"), "{told}");
    world.daemon.agentctl(["sessions", "reset", &id]).await.exits(0);
    world.daemon.kill9().await;
    world.daemon.restart().await;
    let (told, _) = world.tells_with("read_file", read(), &here).await;
    assert!(told.contains("is not there"), "{told}");
}
