//! The one tree that tools see: what is remembered in all sessions.

use agentd_testkit::model_server::Reply;
use serde_json::{Value, json};

use super::World;

impl World {
    /// What the tool tells the model that calls it once, in a turn of a new session, and the client's exit code.
    async fn tells(&self, tool: &str, arguments: Value, on_interrupt: &str) -> (String, Option<i32>) {
        let tool = tool.to_owned();
        self.model.respond_with(move |request| match request.last_role() {
            "tool" => Reply::text("over"),
            _ => Reply::tool_call(&tool, arguments.clone()),
        });
        let output = self.daemon.agentctl(["run", "Do it", "--on-interrupt", on_interrupt]).await;
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
