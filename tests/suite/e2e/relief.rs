//! Context space freed in the middle of a session, as reported to users and scripts.

use super::*;

#[tokio::test]
async fn results_moved_to_files_are_reported_with_the_cause() {
    let world =
        World::prepared(|home| drop(home.write("config/models.yaml", "base: {context_window: 32768, retries: 0}")))
            .await;
    for part in ["a", "b", "c"] {
        world
            .daemon
            .write(&format!("project/{part}.txt"), format!("fact {part}\n{}", "one of many lines\n".repeat(1000)));
    }
    let project = world.path().join("project").display().to_string();
    for part in ["a", "b", "c"] {
        world.model.reply(Reply::tool_call("read_file", json!({"path": format!("/project/{part}.txt")})));
    }
    // Afterwards, the window is nearly full, as counted by the server.
    let usage = json!({"prompt_tokens": 28_500, "completion_tokens": 2, "total_tokens": 28_502});
    world.model.reply(Reply { usage: Some(usage), ..Reply::text("Read.") });
    let first = world.ok(["run", "Read them.", "-C", &project, "--output", "json"]).await.json();
    assert_eq!(first.get("compactions"), None, "{first}");
    let session = first["session_id"].as_str().unwrap();
    world.model.reply(Reply::text("I see."));
    let second = world.ok(["run", "And now?", "--session", session, "--output", "json"]).await.json();
    let report = &second["compactions"][0];
    holds(report, json!({"strategy": "offload", "cause": "critical"}));
    assert!(report["offloaded"].as_u64().is_some_and(|moved| moved > 0), "{second}");
    assert_eq!(second["compactions"].as_array().map(Vec::len), Some(1), "{second}");
    let result = tool_texts(&world.model.requests().pop().unwrap());
    assert!(result.contains("[Moved to a file to make room:") && result.contains("fact a"), "{result}");

    // The moved result can be read like any file, and is back in the context after an undo.
    let path = result.split("all of them in ").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_owned();
    world.model.reply(Reply::tool_call("grep", json!({"path": path, "pattern": "fact"})));
    world.model.reply(Reply::text("There."));
    world.ok(["run", "Which fact?", "--session", session]).await;
    let result = tool_texts(&world.model.requests().pop().unwrap());
    assert!(result.matches("fact a").count() > 1, "{result}");
    world.ok(["compact", session, "--undo"]).await;
    world.model.reply(Reply::text("All."));
    world.ok(["run", "And now?", "--session", session]).await;
    let result = tool_texts(&world.model.requests().pop().unwrap());
    assert!(!result.contains("[Moved to a file"), "{result}");
}

#[tokio::test]
async fn summary_model_compacts_and_its_failure_truncates() {
    let (model, home) = TempHome::with_server().await;
    let address = model.base_url();
    home.write(
        "config/models.yaml",
        format!("base: {{retries: 0}}\nreasoning: {{base_url: '{address}', id: scribe, retries: 0}}\n"),
    );
    home.write("config/agentd.yaml", "turns: {summary_slot: reasoning}\n");
    let world = World { daemon: TempDaemon::start_in(home).await, model };
    let asks_scribe = |request: &agentd_testkit::model_server::Recorded| request.body["model"] == "scribe";
    world.model.respond_with(move |request| match (asks_scribe(request), request.text.contains("<history>")) {
        (true, true) if request.text.contains("chapter 21") => Reply::status(500, "the scribe is ill"),
        (true, true) => Reply::text("## Decisions and reasons\n- the harbour is built of oak\n"),
        _ => Reply::text("Noted. ".repeat(60)),
    });
    let session = world.ok(["run", "We build chapter 0.", "--output", "json"]).await.session();
    let talk = async |chapters: std::ops::Range<u32>| {
        for chapter in chapters {
            let text = format!("We build chapter {chapter}. {}", "The wall is long. ".repeat(60));
            world.ok(["run", &text, "--session", &session]).await;
        }
    };
    talk(1..12).await;
    let requests_before = world.model.requests().len();
    let report = world.json(["compact", &session]).await;
    assert!(report.to_string().contains("scribe"), "{report:#}");
    let requests = world.model.requests().split_off(requests_before);
    let models: Vec<&Value> = requests.iter().map(|request| &request.body["model"]).collect();
    assert_eq!(models, [&json!("scribe")], "the turn's own model was called");
    talk(12..13).await;
    has_all(&world.model.requests().pop().unwrap().text, &["the harbour is built of oak"]);

    talk(19..31).await;
    has_all(&world.json(["compact", &session]).await.to_string(), &["truncate", "no model summarised it"]);
    talk(31..32).await;
    let input = world.model.requests().pop().unwrap().text;
    assert!(input.contains("We build chapter 30"), "the user's text is missing: {input}");
}
