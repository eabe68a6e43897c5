//! The listing commands, for users and for scripts.

use super::{damage::damage_journal, *};

#[tokio::test]
async fn sessions_are_listed_shown_renamed_reset_and_deleted() {
    let world = World::start().await;
    let daemon = &world.daemon;
    assert_eq!(daemon.json(["sessions", "list"]).await, json!([]));
    world.model.reply(Reply::text("Hello, Ada."));
    let id = &daemon.ok(["run", "I am Ada", "--output", "json"]).await.session();

    let listed = daemon.json(["sessions", "list"]).await;
    let expected = ["created_at", "id", "last_seq", "status", "title", "turns", "updated_at", "usage"];
    assert_eq!(keys(&listed[0]), expected);
    holds(&listed[0], json!({"id": id, "title": "I am Ada", "turns": 1}));

    let shown = daemon.json(["sessions", "show", &id[..30]]).await;
    let kinds: Vec<&Value> = shown["items"].as_array().unwrap().iter().map(|item| &item["item"]["kind"]).collect();
    assert_eq!(kinds, [&json!("user_message"), &json!("agent_message")]);

    daemon.ok(["sessions", "rename", id, "The", "tax", "papers"]).await;
    assert!(daemon.ok(["sessions", "list"]).await.stdout.contains("The tax papers"));

    let found = daemon.json(["sessions", "search", "ada", "\"i AM\""]).await;
    // The message with all of the words precedes the answer with one of them.
    let kinds: Vec<&Value> = found.as_array().unwrap().iter().map(|hit| &hit["kind"]).collect();
    assert_eq!((kinds, &found[0]["session_id"]), (vec![&json!("person"), &json!("model")], &json!(id)));
    daemon.ok(["sessions", "search", "where did Ada go?"]).await.shows(&["Hello, Ada."]);
    assert_eq!(keys(&found[0]), ["at", "excerpt", "kind", "marks", "seq", "session_id", "title"]);
    daemon.ok(["sessions", "search", "ada", "--session", &id[..30]]).await.shows(&["person", "Hello, Ada."]);
    daemon.ok(["sessions", "search", "nobody"]).await.says(&["no matches"]);
    daemon.agentctl(["sessions", "search", "*"]).await.exits(2).says(&["hint:"]);

    daemon.ok(["sessions", "reset", id]).await;
    daemon.ok(["run", "Who am I?", "--session", id]).await;
    let requests = world.model.requests();
    assert!(!requests[1].body["messages"].to_string().contains("Ada"), "the history from before the reset was sent");

    daemon.agentctl(["sessions", "delete", id]).await.exits(2).says(&["--yes"]);
    daemon.ok(["sessions", "delete", id, "--yes"]).await;
    assert_eq!(daemon.json(["sessions", "search", "ada"]).await, json!([]));
    daemon.agentctl(["sessions", "show", id]).await.exits(2).says(&[id, "hint:"]);
    assert_eq!(daemon.json(["sessions", "list"]).await, json!([]));
}

#[tokio::test]
async fn session_is_found_by_title_id_suffix_index_or_last() {
    let world = World::start().await;
    let daemon = &world.daemon;
    let mut ids = Vec::new();
    for text in ["Paint the barn", "Mend the roof", "Mend the roof"] {
        ids.push(daemon.ok(["run", text, "--output", "json"]).await.session());
    }
    let found = async |name: &str| {
        let shown = daemon.json(["sessions", "show", name]).await;
        shown["id"].as_str().unwrap().to_owned()
    };
    let end = |id: &str| id[id.len() - 8..].to_owned();
    assert_eq!(found("paint THE barn").await, ids[0]);
    assert_eq!(found(&end(&ids[1])).await, ids[1]);
    assert_eq!(
        (found("1").await, found("3").await, found("last").await),
        (ids[2].clone(), ids[0].clone(), ids[2].clone())
    );
    daemon.agentctl(["sessions", "show", "4"]).await.exits(2).says(&["no such session", "hint:"]);
    let output = daemon.agentctl(["sessions", "show", "Mend the roof"]).await.exits(2);
    output.says(&["matches several sessions", "Mend the roof · just now · ", &end(&ids[1]), &end(&ids[2])]);
    // The names shown to users can be used in commands. A permanent deletion does not accept an index.
    let listed = daemon.ok(["sessions", "list"]).await.stdout;
    let row = listed.lines().find(|line| line.contains("Paint the barn")).unwrap().to_owned();
    assert!(row.starts_with("3 ") && row.contains(&end(&ids[0])) && !row.contains(&ids[0]), "{listed}");
    for selector in ["1", "last"] {
        daemon
            .agentctl(["sessions", "delete", selector, "--yes"])
            .await
            .exits(2)
            .says(&["--yes requires an id or a title"]);
    }
    daemon.ok(["sessions", "delete", "Paint the barn", "--yes"]).await;
    daemon.agentctl(["sessions", "show", &ids[0]]).await.exits(2);
}

/// If the clock was set back, the last use of some sessions is in the future.
#[tokio::test]
async fn last_used_session_is_first_despite_a_clock_change() {
    let mut world = World::start().await;
    let mut sessions = Vec::new();
    for text in ["I am Ada", "I am Bob"] {
        sessions.push(world.ok(["run", text, "--output", "json"]).await.session());
    }
    assert_eq!(world.daemon.sigterm().await, Some(0));
    let day = 24 * 3600 * 1_000_000_000_u64;
    damage_journal(&world, &format!("UPDATE sessions SET updated_at = updated_at + {day} WHERE title = 'I am Bob'"));
    world.daemon.restart().await;
    let daemon = &world.daemon;
    let first = async || daemon.json(["sessions", "list"]).await[0]["id"].clone();
    assert_eq!(first().await, sessions[1]);
    daemon.ok(["run", "Who am I?", "--session", &sessions[0]]).await;
    assert_eq!(first().await, sessions[0]);
    let result = daemon.ok(["run", "And now?", "--continue", "--output", "json"]).await.json();
    assert_eq!(result["session_id"], sessions[0]);
}

#[tokio::test]
async fn models_tools_status_and_doctor_support_json() {
    let world = World::start().await;
    let daemon = &world.daemon;
    let models = daemon.json(["models"]).await;
    let slots = texts(&models, "slot");
    assert_eq!(slots, ["base", "reasoning", "vision", "code", "chat"]);
    assert_eq!(models[0]["model"]["base_url"], world.model.base_url());

    let tools = daemon.json(["tools"]).await;
    // Language server tools are only offered if this host has a language server.
    let of_servers = ["definition", "diagnostics", "references", "rename_symbol"];
    let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    let names: Vec<&str> = names.filter(|name| !of_servers.contains(name)).collect();
    let expected = "apply_patch ask_human compact_context delegate_task edit_file find_files find_symbol find_tool grep \
                    http_fetch list_workspace_files now outline read_file read_url repo_map run_bash_command search_code \
                    search_documents search_file search_history todo_read todo_write transfer_to_researcher undo_patch \
                    web_search write_file";
    assert_eq!(names.join(" "), expected);

    let status = daemon.json(["status"]).await;
    holds(&status, json!({"running": true, "pid": daemon.pid()}));
    assert_eq!(status["data_dir"], daemon.data().to_str().unwrap());

    let checks = daemon.json(["doctor"]).await;
    assert!(checks.as_array().unwrap().iter().all(|check| check["state"] != "fail"), "{checks:#}");
    assert_eq!(daemon.json(["interrupts"]).await, json!([]));
    for shell in ["bash", "zsh", "fish"] {
        assert!(daemon.ok(["completions", shell]).await.stdout.contains("agentctl"));
    }
}

#[tokio::test]
async fn completions_offer_sessions_by_title_agents_and_models() {
    let world = World::with_reply("Done.").await;
    world.ok(["run", "Paint the barn"]).await;
    let lines: [(&[&str], &str); 5] = [
        (&["attach", ""], "\tPaint the barn"),
        (&["chat", "--resume", ""], "\tPaint the barn"),
        (&["--session", ""], "\tPaint the barn"),
        (&["-c", "--model", "co"], "code"),
        (&["run", "--agent", "rese"], "researcher\t"),
    ];
    for (line, expected) in lines {
        // A daemon that answers too late offers nothing.
        until("it is offered", || async {
            let mut command = world.agentctl_command(["--", "agentctl"].iter().chain(line));
            command.env("COMPLETE", "fish");
            Running::spawn(command).output(Vec::new()).await.stdout.contains(expected).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn api_key_is_in_no_log_and_no_output() {
    let World { model, daemon } =
        World::prepared(|home| home.set("MODEL_BASIC_API_KEY", "sk-very-secret-0123456789")).await;
    model.default_reply(Reply::refusal(401, "the key sk-very-secret-0123456789 is wrong"));
    let output = daemon.agentctl(["run", "Hi", "--output", "stream-json"]).await.exits(4);
    assert_eq!(model.requests()[0].key(), "sk-very-secret-0123456789");
    assert!(output.stdout.contains("`MODEL_BASIC_API_KEY` of the daemon's environment"), "{}", output.stdout);
    for (stream, text) in [("stdout", &output.stdout), ("stderr", &output.stderr), ("the log", &daemon.log())] {
        assert!(!text.contains("very-secret"), "the key is in {stream}:\n{text}");
    }
}
