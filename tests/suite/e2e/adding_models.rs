//! `agentctl models add`: sets up a model that answers, starting without configuration, while the daemon runs.

use super::*;

async fn server() -> ModelServer {
    let server = ModelServer::start().await;
    server.lists([json!({"id": "first"}), json!({"id": "second"})]);
    server.default_reply(says("Here I am."));
    server
}

fn read(daemon: &TempDaemon, name: &str) -> String {
    fs::read_to_string(daemon.path().join("config").join(name)).unwrap_or_default()
}

/// An existing configuration file.
const EXISTING_CONFIG: &str = "# mine\ncode: {base_url: http://127.0.0.1:9/v1, id: other}\n";

async fn configured() -> TempDaemon {
    let home = TempHome::new();
    home.write("config/models.yaml", EXISTING_CONFIG);
    TempDaemon::start_in(home).await
}

/// Runs the command up to its question for the model, after a key was typed. Returns the terminal and its last output.
fn asked_for_model(daemon: &TempDaemon, server: &ModelServer) -> (Terminal, String) {
    let url = server.base_url();
    let args = ["models", "add", "openai", "--base-url", &url, "--no-test"];
    let mut terminal = Terminal::around(daemon, "exec \"$@\"", &args);
    terminal.answers("key of OpenAI (not shown): ", "sk-typed-secret\r");
    let list = terminal.sees("model, by number or id [first]: ");
    (terminal, list)
}

#[tokio::test(flavor = "multi_thread")]
async fn models_add_asks_for_provider_key_and_model() {
    let server = server().await;
    let daemon = configured().await;
    let (mut terminal, list) = asked_for_model(&daemon, &server);
    assert!(list.contains("second") && !list.contains("sk-typed"), "{list}");
    terminal.says("2");
    has_all(&terminal.ends(), &["base is now second"]);
    let text = read(&daemon, "models.yaml");
    assert!(text.starts_with(&format!("{EXISTING_CONFIG}base:\n")), "{text}");
    assert!(!text.contains("sk-typed") && text.contains("keys/base.key"), "{text}");
    let key = daemon.path().join("config/keys/base.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(daemon.ok(["run", "Who are you?"]).await.stdout.trim(), "Here I am.");
    let request = server.requests().pop().unwrap();
    assert_eq!(request.body["model"], "second");
    assert_eq!(request.headers.get("authorization").map(String::as_str), Some("Bearer sk-typed-secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_models_add_changes_nothing() {
    let server = server().await;
    let daemon = configured().await;
    for key in ['c', 'd'] {
        let (mut terminal, _) = asked_for_model(&daemon, &server);
        terminal.control(key);
        has_all(&terminal.ends(), &["nothing was changed"]);
        let config = daemon.path().join("config");
        assert_eq!(read(&daemon, "models.yaml"), EXISTING_CONFIG);
        assert!(!config.join("keys/base.key").exists() && !config.join("models.yaml.before").exists());
    }
}

#[tokio::test]
async fn key_from_stdin_is_stored_and_failed_add_changes_nothing() {
    let server = server().await;
    let daemon = TempDaemon::start_in(TempHome::new()).await;
    let url = server.base_url();
    let add = async |args: &[&str], input: &str| {
        let args = [&["models", "add"], args].concat();
        daemon.agentctl_with(args, input.as_bytes()).await
    };
    // If no provider is given, the available providers are listed.
    add(&[], "").await.exits(2).says(&["missing provider"]);
    add(&["nobody"], "").await.exits(2).says(&["anthropic, openai"]);
    add(&["mistral", "--base-url", &url], "").await.exits(2).says(&["MISTRAL_API_KEY"]);
    // No server listens at this URL.
    let unreachable = add(&["--base-url", "http://127.0.0.1:9/v1"], "").await;
    assert_ne!(unreachable.code, Some(0));
    assert!(unreachable.stderr.contains("nothing was changed"), "{}", unreachable.stderr);
    assert_eq!(read(&daemon, "models.yaml"), "");

    let args = ["mistral", "--base-url", &url, "--key-stdin", "--id", "second"];
    add(&args, "sk-piped\n").await;
    assert_eq!(read(&daemon, "keys/base.key"), "sk-piped\n");
    let slots = daemon.json(["models"]).await;
    holds(&slots[0]["model"], json!({"id": "second", "base_url": url}));
    let before = read(&daemon, "models.yaml");
    add(&args, "sk-other\n").await.exits(2).says(&["--replace"]);
    let broken =
        add(&["mistral", "--base-url", "http://127.0.0.1:9/v1", "--key-stdin", "--replace"], "sk-other\n").await;
    assert_ne!(broken.code, Some(0));
    assert_eq!((read(&daemon, "models.yaml"), read(&daemon, "keys/base.key")), (before, "sk-piped\n".to_owned()));
    assert_eq!(daemon.ok(["run", "Still?"]).await.stdout.trim(), "Here I am.");
}

#[tokio::test]
async fn each_slot_has_its_own_wire_address_and_key() {
    let (first, second) = (server().await, server().await);
    first.acts_as(Provider::Anthropic);
    first.lists([json!({"id": "first"})]);
    let daemon = TempDaemon::start_in(TempHome::new()).await;
    let add = async |args: &[&str], input: &str| {
        let args = [&["models", "add"], args, &["--key-stdin", "--no-test"]].concat();
        daemon.agentctl_with(args, input.as_bytes()).await.exits(0)
    };
    // Base URLs for this wire have a different form.
    add(&["anthropic", "--base-url", &first.root_url()], "sk-one").await;
    add(&["--base-url", &second.base_url(), "--slot", "code"], "sk-two").await;
    assert_eq!(
        (read(&daemon, "keys/base.key"), read(&daemon, "keys/code.key")),
        ("sk-one\n".into(), "sk-two\n".into())
    );
    daemon.ok(["run", "Who?", "--model", "base"]).await;
    daemon.ok(["run", "Who?", "--model", "code"]).await;
    let (one, two) = (first.requests().pop().unwrap(), second.requests().pop().unwrap());
    assert_eq!(one.key(), "sk-one");
    assert_eq!(two.key(), "sk-two");
}
