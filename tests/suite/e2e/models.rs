//! The models of a server: they are listed, selected and stored, and their context windows are detected.

use super::*;

/// An arrow key, as a terminal sends it.
const DOWN: &str = "\u{1b}[B";

/// Starts a daemon whose server has three models. The first model is the default.
async fn world() -> World {
    let model = ModelServer::start().await;
    model.lists([
        json!({"id": "first", "owned_by": "vllm", "max_model_len": 65_536}),
        json!({"id": "lab/second-large", "max_model_len": 131_072}),
        json!({"id": "lab/third\u{1b}[2J"}),
        json!({"id": "lab/fourth"}),
    ]);
    let daemon = TempDaemon::start(&model.base_url()).await;
    World { model, daemon }
}

fn requested_models(world: &World) -> Vec<String> {
    let model = |request: agentd_testkit::model_server::Recorded| request.body["model"].as_str().unwrap().to_owned();
    world.model.requests().into_iter().map(model).collect()
}

#[tokio::test]
async fn models_and_windows_are_listed_with_their_source() {
    let world = world().await;
    assert_eq!(world.model.requested_documents(), [""; 0], "a starting daemon sends no request");
    let slots = world.json(["models"]).await;
    let base = &slots[0]["model"];
    holds(base, json!({"id": "first", "context_window": 65_536, "window_source": "server"}));
    let table = world.ok(["models"]).await.stdout;
    assert!(["first", "65536", "server"].iter().all(|word| table.contains(word)), "{table}");
    let shown = world.ok(["models", "show"]).await.stdout;
    let parts = ["window", "65536 tokens", "its server", "prices", "unknown", "set prices in models.yaml"];
    assert!(parts.iter().all(|word| shown.contains(word)), "{shown}");
    world.agentctl(["models", "show", "nowhere"]).await.exits(2);
    let listed = world.json(["models", "--available"]).await;
    let expected = json!([
        {"id": "first", "context_window": 65_536},
        {"id": "lab/second-large", "context_window": 131_072},
        {"id": "lab/fourth"},
    ]);
    assert_eq!(listed, expected);
    let table = world.ok(["models", "--available"]).await.stdout;
    assert!(["lab/second-large", "131072"].iter().all(|word| table.contains(word)), "{table}");

    let home = TempHome::with_model(&world.model.base_url());
    home.write("config/models.yaml", "base: {context_window: 16384}");
    let daemon = TempDaemon::start_in(home).await;
    let slots = daemon.json(["models"]).await;
    holds(&slots[0]["model"], json!({"context_window": 16_384, "window_source": "configured"}));
}

#[tokio::test]
async fn piped_input_may_fill_the_window_reported_by_the_server() {
    let world = world().await;
    world.model.default_reply(Reply::text("Read."));
    // The text exceeds the window that is assumed when the real window is unknown.
    let long: String = (0..3500).map(|n| format!("line {n} of the change that is piped in\n")).collect();
    let output = world.agentctl_with(["run", "Review this"], long.as_bytes()).await.exits(0);
    assert!(!output.stderr.contains("stored as"), "{}", output.stderr);
    assert!(world.model.requests()[0].last_user().contains("line 3499 of"), "the input was truncated");
}

#[tokio::test]
async fn model_option_selects_a_model_for_the_session() {
    let world = world().await;
    world.model.default_reply(Reply::text("Here."));
    let run = async |args: &[&str]| {
        let args = [&["run", "Who are you?", "--output", "json"], args].concat();
        let output = world.ok(args).await;
        output.session()
    };
    let session = run(&["--model", "SECOND"]).await;
    let options = ["--session", session.as_str()];
    run(&options).await;
    world.ok(["sessions", "show", session.as_str()]).await.shows(&["model     lab/second-large (slot base)"]);
    run(&[&options[..], &["--model", "=elsewhere/own"]].concat()).await;
    run(&[&options[..], &["--model", "default"]].concat()).await;
    assert_eq!(requested_models(&world), ["lab/second-large", "lab/second-large", "elsewhere/own", "first"]);

    let output = world.agentctl(["run", "Hi", "--model", "lab/secnd-large"]).await.exits(2);
    output.says(&["lists no model \"lab/secnd-large\"", "did you mean lab/second-large?", "=lab/secnd-large"]);
    world.agentctl(["run", "Hi", "--model", "lab/"]).await.exits(2).says(&["matches several models"]);
    assert_eq!(requested_models(&world).len(), 4, "no model was called");

    // In a script, `/model` lists the models, one per line.
    let listed = world.agentctl_with(["chat"], b"/model\n/model second\n/model\n").await.exits(0);
    let marked: Vec<&str> = listed.stdout.lines().filter(|line| line.starts_with('›')).collect();
    let names: Vec<&str> = marked.iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(names, ["default", "first", "lab/second-large"], "{}", listed.stdout);
}

#[tokio::test]
async fn server_without_a_model_list_leaves_only_the_slots() {
    let world = World::start().await;
    world.model.lacks("/v1/models");
    let output = world.agentctl_with(["chat"], b"/model\n").await.exits(0);
    output.says(&["only the slots", "does not list its models", "/model =ID"]).shows(&["› default"]);
    world.agentctl(["models", "--available"]).await.exits(1).says(&["does not list its models"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_can_be_chosen_from_a_list_at_the_terminal() {
    let world = world().await;
    world.model.default_reply(says("Here I am."));
    // The first lookup may take longer than a greeting waits for the result.
    world.ok(["models", "--available"]).await;
    let mut terminal = Terminal::open(&world.daemon, &["-C", "none"]);
    // The greeting contains the name of the model, not a placeholder.
    let greeting = terminal.prompt();
    assert!(greeting.contains("first") && !greeting.contains("default"), "{greeting:?}");
    terminal.says_for("/model", "Models (type to search");
    let list = terminal.sees("lab/fourth");
    assert!(list.contains("first  current") && list.contains("65,536 tokens"), "{list:?}");
    terminal.presses_for("second", "leaves): second");
    terminal.presses_last("\r", "model: lab/second-large");
    terminal.hears("Who are you?", "Here I am.");
    terminal.hears("/current", "model     lab/second-large (slot base)");
    // The marker is at the current model. Esc cancels the selection.
    terminal.says("/model");
    // The bytes are `› `, which the terminal library does not decode.
    terminal.answers("\u{e2}\u{80}\u{ba} lab/second-large  current", DOWN);
    terminal.answers("\u{e2}\u{80}\u{ba} lab/fourth", "\u{1b}");
    terminal.prompt();
    terminal.hears("/model fourth", "model: lab/fourth");
    terminal.hears("And now?", "Here I am.");
    terminal.hears("/model default", "model: first");
    terminal.leaves();
    assert_eq!(requested_models(&world), ["lab/second-large", "lab/fourth"]);
}

#[tokio::test]
async fn model_choice_survives_a_restart() {
    let mut world = world().await;
    world.model.default_reply(Reply::text("Here."));
    let session = world.ok(["run", "Hi", "--output", "json", "--model", "fourth"]).await.session();
    world.daemon.restart().await;
    world.ok(["run", "Hi again", "--session", &session]).await;
    assert_eq!(requested_models(&world), ["lab/fourth", "lab/fourth"]);
}
