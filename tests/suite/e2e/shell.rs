//! Shell variables for models that the daemon was not started with, and the effective configuration, are reported to
//! the user without any secret.

use super::*;

/// Returns the greeting of a chat, up to the prompt.
fn greeting(home: &TempHome) -> String {
    // The terminal is wide enough that no sentence is wrapped.
    let mut terminal = Terminal::around(home, "stty rows 40 cols 300 && exec \"$@\"", &["chat", "-C", "none"]);
    let output = terminal.prompt();
    terminal.leaves();
    output
}

/// Starts a daemon without any variables for models.
async fn bare() -> TempDaemon {
    let mut daemon = TempDaemon::start_in(TempHome::new()).await;
    // Every user's terminal sets this variable.
    daemon.set("LC_ALL", "C.UTF-8");
    daemon
}

async fn status(daemon: &TempDaemon) -> Output {
    daemon.ok(["status"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_variables_are_reported_until_a_restart() {
    let model = ModelServer::start().await;
    let mut daemon = bare().await;
    daemon.set("OPENAI_API_KEY", "s3cret-openai");
    assert!(!status(&daemon).await.stdout.contains("is set here"));
    daemon.set("MODEL_BASIC_BASE_URL", model.base_url());
    daemon.set("MODEL_BASIC_API_KEY", "s3cret-model");
    let text = "MODEL_BASIC_BASE_URL and MODEL_BASIC_API_KEY are set here, but the daemon was started without them";
    let (greeted, stated) = (greeting(&daemon), status(&daemon).await.stdout);
    let doctor = daemon.agentctl(["doctor"]).await.stdout;
    for output in [&greeted, &stated, &doctor] {
        assert!(output.contains(text) && output.contains("agentctl stop"), "{output}");
        assert!(!output.contains("found OPENAI_API_KEY"), "a less useful hint was printed: {output}");
    }
    assert!(!greeted.contains("set MODEL_BASIC_BASE_URL"), "the hint names a variable that is set: {greeted}");
    let json = daemon.json(["status"]).await;
    assert_eq!(json["environment"][0]["variables"], json!(["MODEL_BASIC_BASE_URL", "MODEL_BASIC_API_KEY"]), "{json:#}");

    // The next daemon uses these variables. A changed value is reported again.
    daemon.ok(["stop"]).await;
    daemon.ok(["start"]).await;
    for output in [greeting(&daemon), status(&daemon).await.stdout] {
        assert!(!output.contains("is set here") && !output.contains("are set here"), "{output}");
        assert!(!output.contains("OPENAI_API_KEY"), "the key of another model was suggested: {output}");
    }
    daemon.set("MODEL_BASIC_API_KEY", "s3cret-other");
    let text = "MODEL_BASIC_API_KEY is set here, but the daemon was started with another value of it";
    assert!(greeting(&daemon).contains(text) && status(&daemon).await.stdout.contains(text));

    let all = format!("{greeted}{stated}{doctor}{json}{}", daemon.log());
    assert!(!all.contains("s3cret") && !all.contains(&model.base_url()), "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misspelt_variables_and_unused_keys_are_reported() {
    let mut daemon = bare().await;
    daemon.set("OPENROUTER_API_KEY", "s3cret-router");
    let line = "export MODEL_BASIC_BASE_URL=https://openrouter.ai/api/v1 MODEL_BASIC_API_KEY=$OPENROUTER_API_KEY";
    let doctor = daemon.agentctl(["doctor"]).await.stdout;
    for output in [greeting(&daemon), status(&daemon).await.stdout, doctor] {
        assert!(output.contains("found OPENROUTER_API_KEY") && output.contains(line), "{output}");
        assert!(!output.contains("s3cret"), "{output}");
    }
    daemon.set("MODEL_BASIC_BASEURL", "http://s3cret.example/v1");
    let doctor = daemon.agentctl(["doctor"]).await.stdout;
    for output in [greeting(&daemon), status(&daemon).await.stdout, doctor] {
        assert!(
            output.contains("MODEL_BASIC_BASEURL") && output.contains("did you mean MODEL_BASIC_BASE_URL?"),
            "{output}"
        );
        assert!(!output.contains("s3cret"), "{output}");
    }
    assert!(!daemon.log().contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_without_a_model_warns_before_the_first_message() {
    let daemon = bare().await;
    let output = greeting(&daemon);
    assert!(output.contains("No model can answer yet") && output.contains("make model"), "{output}");
    assert!(output.contains("no folder in view (-C . shows this one)"), "{output}");
    daemon.write("data/models/smol/weights.gguf", "");
    let output = greeting(&daemon);
    assert!(output.contains("the small built-in model") && !output.contains("No model can answer"), "{output}");
}

#[tokio::test]
async fn config_show_lists_values_without_secrets() {
    let mut home = TempHome::new();
    home.set("MODEL_CODE_BASE_URL", "http://me:s3cret-url@127.0.0.1:9/v1");
    home.set("MODEL_CODE_API_KEY", "s3cret-env");
    home.write("config/models.yaml", "base: {base_url: http://127.0.0.1:9/v1, api_key: s3cret-file, id: large}\n");
    home.write(
        "config/mcp_servers.yaml",
        "servers:\n  near: {command: cat, args: [--token, s3cret-arg], env: {KEY: s3cret-env-of-mcp}}\n  \
         far: {url: \"https://far.example/mcp?key=s3cret-query\", headers: {Authorization: \"Bearer s3cret-header\"}}\n",
    );
    home.write("config/agentd.yaml", "turns: {max_steps: 7}\n");
    let daemon = TempDaemon::start_in(home).await;
    let shown = daemon.ok(["config", "show"]).await;
    let row = |key: &str| shown.stdout.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    assert!(row("turns.max_steps").contains(" 7 "), "{}", shown.stdout);
    assert!(row("models.base.id").contains("large"), "{}", shown.stdout);
    assert!(row("models.base.api_key").contains("•••"), "{}", shown.stdout);
    assert!(row("models.code.base_url").contains("http://•••@127.0.0.1:9/v1"), "{}", shown.stdout);
    assert!(row("models.code.base_url").contains("$MODEL_CODE_BASE_URL"), "{}", shown.stdout);
    let all = daemon.ok(["config", "show", "--all"]).await.shows(&["undo.max_files", "200000"]);
    let json = daemon.json(["config", "show"]).await;
    assert_eq!(json["values"]["turns.max_steps"], 7);
    assert_eq!(json["values"]["tools.command_timeout"], "2m");
    assert_eq!(json["values"]["mcp_servers.near"]["env"], json!({"KEY": "•••"}));
    assert_eq!(json["origins"]["turns.max_steps"], json!(daemon.config().join("agentd.yaml")));
    let missing: Vec<_> =
        json["origins"].as_object().unwrap().keys().filter(|key| json["values"][*key].is_null()).collect();
    assert!(missing.is_empty(), "settings without a value: {missing:?}");
    for output in [shown.stdout, shown.stderr, all.stdout, json.to_string(), daemon.log()] {
        assert!(!output.contains("s3cret"), "{output}");
    }
}
