//! A data folder from version 0.1.0 can be opened and continued. It contains a running turn, a pending question, an old
//! fork and grants.

use std::process::Command;

use agentd_testkit::{
    daemon::{TempDaemon, TempHome, until},
    model_server::{ModelServer, Reply},
};
use serde_json::{Value, json};

use super::{World, tool_texts};

/// The packed data folder, created by [`pack_a_data_folder`] next to the binaries of that version.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suite/e2e/fixtures/earlier/data.tar.gz");

fn writes(content: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": "outputs/plan.txt", "content": content}))
}

fn touches(name: &str) -> Reply {
    Reply::tool_call("run_bash_command", json!({"command": format!("touch outputs/{name} && echo made {name}")}))
}

fn run_tar(args: &[&str]) {
    assert!(Command::new("tar").args(args).status().unwrap().success(), "tar {args:?}");
}

impl World {
    /// Returns the ID of the session with this title.
    async fn session_titled(&self, title: &str) -> String {
        let listed = self.daemon.agentctl(["sessions", "list", "--json"]).await.exits(0).json();
        let session = listed.as_array().unwrap().iter().find(|session| session["title"] == title);
        let id = session.map(|session| session["id"].as_str().unwrap().to_owned());
        id.unwrap_or_else(|| panic!("{title} is missing: {listed:#}"))
    }

    async fn plan_of(&self, session: &str) -> String {
        self.daemon.agentctl(["files", "get", session, "outputs/plan.txt"]).await.exits(0).stdout
    }

    async fn continues(&self, session: &str, text: &str, reply: Reply) -> Value {
        self.model.reply(reply);
        self.daemon.agentctl(["run", text, "--session", session, "--output", "json"]).await.exits(0).json()
    }
}

#[tokio::test]
async fn data_folder_of_the_last_version_opens_and_continues() {
    let model = ModelServer::start().await;
    let home = TempHome::with_model(&model.base_url());
    run_tar(&["-xzf", DATA, "-C", home.path().to_str().unwrap()]);
    let world = World { daemon: TempDaemon::start_in(home).await, model };

    // The turn that was running when the daemon was killed ends with an accurate reason, and its session can be
    // continued.
    let interrupted_session = world.session_titled("Tell me everything").await;
    let events = world.daemon.agentctl(["sessions", "show", &interrupted_session, "--json"]).await.exits(0).stdout;
    assert!(events.contains("interrupted"), "{events}");
    let result = world.continues(&interrupted_session, "And now?", Reply::text("Now I can.")).await;
    assert_eq!(result["text"], "Now I can.");
    assert!(world.model.requests().last().unwrap().body.to_string().contains("Tell me everything"));

    // The question is still pending, and an approval runs the call as shown.
    let waiting = world.daemon.agentctl(["interrupts", "--json"]).await.exits(0).json();
    assert_eq!(waiting.as_array().unwrap().len(), 1, "{waiting:#}");
    assert!(waiting[0].to_string().contains("touch outputs/asked"), "{waiting:#}");
    let asking = world.session_titled("Make the other one").await;
    world.model.reply(Reply::text("Made it."));
    world.daemon.agentctl(["answer", waiting[0]["id"].as_str().unwrap(), "approve"]).await.exits(0);
    until("the turn has ended", || async {
        let request = world.model.requests().last().cloned()?;
        tool_texts(&request).contains("made asked").then_some(())
    })
    .await;
    let result = world.continues(&asking, "Was it made?", Reply::text("Yes.")).await;
    assert_eq!(result["text"], "Yes.");

    // The fork has the content before its cut, the original has all content, and undo can still restore the earlier
    // contents.
    let (origin, fork) = (world.session_titled("Plan the garden").await, world.session_titled("Another way").await);
    assert_eq!((world.plan_of(&fork).await, world.plan_of(&origin).await), ("dig\n".into(), "dig, then sow\n".into()));
    world.continues(&fork, "Go on", Reply::text("Going.")).await;
    let request = world.model.requests().last().unwrap().body.to_string();
    assert!(request.contains("Plan the garden") && !request.contains("the second step"), "{request}");
    world.daemon.agentctl(["undo", &origin]).await.exits(0);
    assert_eq!(world.plan_of(&origin).await, "dig\n");

    // Permanent grants apply, and all other calls require approval.
    let granted = world.daemon.agentctl(["grants", "list", "--json"]).await.exits(0).json();
    assert_eq!(granted.as_array().unwrap().len(), 2, "{granted:#}");
    for (name, denials) in [("granted", 0), ("other", 1)] {
        world.model.reply(touches(name)).reply(Reply::text("Tried."));
        let args = ["run", "Try it", "--on-interrupt", "deny", "--output", "json"];
        let result = world.daemon.agentctl(args).await.json();
        assert_eq!(result["denials"].as_array().unwrap().len(), denials, "{name}: {result:#}");
    }
    world.daemon.agentctl(["audit", "verify"]).await.exits(0);
}

/// Packs the data folder of a killed daemon into the file named by `AGENTD_PACK_DATA`.
#[tokio::test]
#[ignore = "makes the fixture of the test above"]
async fn pack_a_data_folder() {
    let world = World::start().await;
    let approving = ["--on-interrupt", "approve", "--output", "json"];

    world.model.reply(writes("dig\n")).reply(Reply::text("Noted."));
    let first = world.daemon.agentctl([&["run", "Plan the garden"], &approving[..]].concat()).await.exits(0).json();
    let origin = first["session_id"].as_str().unwrap();
    world.model.reply(writes("dig, then sow\n")).reply(Reply::text("Done."));
    let second = ["run", "Now the second step", "--session", origin];
    world.daemon.agentctl([&second[..], &approving[..]].concat()).await.exits(0);
    world
        .daemon
        .agentctl(["sessions", "fork", origin, "--at-turn", "1", "--files", "--name", "Another way"])
        .await
        .exits(0);
    world.daemon.agentctl(["grants", "add", "run_bash_command: touch outputs/granted"]).await.exits(0);
    world.daemon.agentctl(["grants", "add", "run_bash_command: echo *"]).await.exits(0);

    world.model.reply(touches("asked"));
    let args = ["run", "Make the other one", "--on-interrupt", "wait", "--output", "stream-json"];
    let mut asking = world.daemon.spawn_agentctl(args);
    asking.event("interrupt_raised").await;
    world.model.reply(Reply::text("All that I know of gardens is").hang_after_text("gardens"));
    let mut running = world.daemon.spawn_agentctl(["run", "Tell me everything", "--output", "stream-json"]);
    running.event("item_delta").await;
    world.daemon.kill9().await;

    let target = std::env::var("AGENTD_PACK_DATA").unwrap();
    run_tar(&["-czf", &target, "--exclude=data/skills", "-C", world.daemon.path().to_str().unwrap(), "data"]);
}
