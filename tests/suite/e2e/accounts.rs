//! Accounts at servers that are as strict as the real ones: an API version in the address, keys that expire, client
//! certificates, and providers behind a proxy.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
    sync::Mutex,
};

use agentd_testkit::model_server::RequestHeaders;

use super::*;

const MODELS_PAGE: &str = include_str!("../../../docs/models.md");

/// Path of Azure's classic API, with the version that it requires.
const AZURE: &str = "/openai/deployments/gpt-5";
const AZURE_CALL: &str = "/openai/deployments/gpt-5/chat/completions?api-version=2024-10-21";

fn header<'a>(headers: &'a RequestHeaders, name: &str) -> &'a str {
    headers.get(name).map_or("", String::as_str)
}

/// Writes slots, each with the same further settings, so that no request asks for facts about the model.
fn slots(slots: &[(&str, String)]) -> String {
    let known = "id: m, context_window: 100000, retries: 0";
    slots.iter().map(|(slot, settings)| format!("{slot}: {{{known}, {settings}}}\n")).collect()
}

#[tokio::test]
async fn azure_classic_gets_its_version_and_its_own_key_header() {
    let model = ModelServer::start().await;
    model.default_reply(Reply::text("Hello"));
    model.guarded_by(|target, headers| match target {
        AZURE_CALL if header(headers, "api-key") == "azure-key" && !headers.contains_key("authorization") => Ok(()),
        AZURE_CALL if header(headers, "authorization") == "Bearer eyJ.entra.token" => Ok(()),
        AZURE_CALL => Err((401, "Access denied due to invalid subscription key or wrong API endpoint.".to_owned())),
        _ => Err((404, "Resource not found".to_owned())),
    });
    let url = format!("{}{AZURE}", model.root_url());
    let slot = |query: &str, more: &str| format!("base_url: '{url}{query}', {more}");
    let version = "?api-version=2024-10-21";
    let home = TempHome::new();
    let entra = "api_key: eyJ.entra.token, api_key_header: Authorization";
    home.write(
        "config/models.yaml",
        slots(&[
            ("base", slot(version, "api_key: azure-key")),
            ("reasoning", slot("", "api_key: azure-key")),
            ("vision", slot(version, "api_key: azure-key, api_key_header: Authorization")),
            ("code", slot(version, entra)),
            ("chat", format!("base_url: '{url}/chat/completions{version}', api_key: azure-key")),
        ]),
    );
    let daemon = TempDaemon::start_in(home).await;
    for (slot, code) in [("base", 0), ("reasoning", 1), ("vision", 4), ("code", 0), ("chat", 0)] {
        let output = daemon.agentctl(["run", "Hi", "--model", slot]).await;
        assert_eq!(output.code, Some(code), "{slot}: {}", output.stderr);
    }
    // The version is part of the request, but addresses are shown without their query.
    let shown = daemon.json(["models"]).await;
    assert_eq!(shown[0]["model"]["base_url"], url);
    daemon.agentctl(["doctor"]).await.shows(&[&format!("m at {url}, directly")]);
}

#[tokio::test]
async fn doctor_reports_a_server_that_fails() {
    let model = ModelServer::start().await;
    model.guarded_by(|_, _| Err((500, "out of order".to_owned())));
    let home = TempHome::new();
    home.write("config/models.yaml", slots(&[("base", format!("base_url: '{}'", model.base_url()))]));
    let daemon = TempDaemon::start_in(home).await;
    let doctor = daemon.agentctl(["doctor"]).await.fails().stdout;
    has_all(&doctor, &["no response from", "500 Internal Server Error", "base_url is in models.yaml"]);
    assert!(!doctor.contains("; base_url is in"), "a hint begins with its first word: {doctor}");
}

/// Server that only accepts one key, which can be changed, and repeats refused keys in its errors.
struct KeyServer {
    model: ModelServer,
    key: Arc<Mutex<String>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl KeyServer {
    async fn start(key: &str) -> Self {
        let model = ModelServer::start().await;
        model.default_reply(Reply::text("Hello"));
        let (key, refused) = (Arc::new(Mutex::new(key.to_owned())), Arc::<Mutex<Vec<String>>>::default());
        let (wanted, record) = (Arc::clone(&key), Arc::clone(&refused));
        model.guarded_by(move |_, headers| {
            let sent = header(headers, "authorization").trim_start_matches("Bearer ").to_owned();
            if sent == *wanted.lock().unwrap() {
                return Ok(());
            }
            record.lock().unwrap().push(sent.clone());
            Err((401, format!("Incorrect API key provided: {sent}")))
        });
        Self { model, key, refused }
    }

    fn expects(&self, key: &str) {
        key.clone_into(&mut self.key.lock().unwrap());
    }

    /// Returns the keys that were refused since the last call.
    fn refused(&self) -> Vec<String> {
        std::mem::take(&mut *self.refused.lock().unwrap())
    }
}

/// Asserts that no file of the daemon, its log and traces included, contains this text.
#[track_caller]
fn assert_nowhere(daemon: &TempDaemon, secret: &str) {
    let mut folders = vec![daemon.data()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_symlink() {
                continue;
            }
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.is_file() {
                let text = String::from_utf8_lossy(&fs::read(&entry).unwrap_or_default()).into_owned();
                assert!(!text.contains(secret), "{} contains {secret}", entry.display());
            }
        }
    }
    assert!(!daemon.log().contains(secret), "{}", daemon.log());
}

#[tokio::test]
async fn key_file_is_read_again_once_after_a_refusal() {
    let server = KeyServer::start("file-key-1").await;
    let home = TempHome::new();
    home.write("config/secret", "file-key-1\n");
    let url = server.model.base_url();
    home.write("config/models.yaml", slots(&[("base", format!("base_url: '{url}', api_key_file: secret"))]));
    let daemon = TempDaemon::start_in(home).await;
    daemon.ok(["run", "Hi"]).await;
    assert_eq!(server.refused(), [""; 0]);

    server.expects("file-key-2");
    daemon.write("config/secret", "file-key-2\n");
    daemon.ok(["run", "Hi"]).await;
    assert_eq!(server.refused(), ["file-key-1"]);
    daemon.ok(["run", "Hi"]).await;
    assert_eq!(server.refused(), [""; 0], "the new key is used from the start");

    // An unchanged file is not tried again, and a broken file is named.
    server.expects("file-key-3");
    let output = daemon.agentctl(["run", "Hi"]).await.exits(4);
    assert_eq!(server.refused(), ["file-key-2"], "{}", output.stderr);
    has_all(&output.stderr, &["[key]", "models.yaml:1"]);
    daemon.write("config/secret", "file-key-3\nfile-key-4\n");
    let output = daemon.agentctl(["run", "Hi"]).await.exits(4);
    has_all(&output.stderr, &["config/secret", "more than one line", "models.yaml:1"]);
    assert_eq!(server.refused(), ["file-key-2"]);
    assert!(!output.stderr.contains("file-key"), "{}", output.stderr);
    daemon.write("config/secret", "file-key-3");
    daemon.ok(["run", "Hi"]).await;
    assert_nowhere(&daemon, "file-key-");
}

/// Prints the content of the file `token`, and records that it ran and whether it has a terminal.
const KEY_COMMAND: &str = "#!/bin/sh
if (exec </dev/tty) 2>/dev/null; then echo terminal; else echo none; fi >>runs
echo \"noise-of-the-command $(cat token)\" >&2
cat token
";

#[tokio::test(flavor = "multi_thread")]
async fn key_command_runs_when_needed_and_once_for_concurrent_requests() {
    let server = KeyServer::start("token-of-hour-1").await;
    let home = TempHome::new();
    home.write("config/token", "token-of-hour-1\n");
    home.write("config/key.sh", KEY_COMMAND);
    home.write("config/agentd.yaml", "trace: {requests: true}\nservice: {log_level: debug}\n");
    let url = server.model.base_url();
    let base = format!("base_url: '{url}', api_key_command: 'sh key.sh'");
    home.write("config/models.yaml", format!("{}code: {{id: n, context_window: 9000}}\n", slots(&[("base", base)])));
    let daemon = TempDaemon::start_in(home).await;
    let runs = || daemon.read("config/runs").lines().map(str::to_owned).collect::<Vec<_>>();
    daemon.json(["config", "show"]).await;
    assert!(!daemon.config().join("runs").exists(), "the command runs before it is needed");
    // Slots of one account share the key.
    daemon.ok(["run", "Hi"]).await;
    daemon.ok(["run", "Hi", "--model", "code"]).await;
    assert_eq!((runs(), server.refused()), (vec!["none".to_owned()], Vec::new()));

    server.expects("token-of-hour-2");
    daemon.write("config/token", "token-of-hour-2\n");
    let turns = (0..6).map(|number| {
        let slot = if number % 2 == 0 { "base" } else { "code" };
        daemon.agentctl(["run", "Hi", "--model", slot, "--output", "stream-json"])
    });
    for output in futures_util::future::join_all(turns).await {
        let output = output.exits(0);
        assert!(!output.stdout.contains("token-of-hour") && !output.stderr.contains("token-of-hour"), "{output:?}");
    }
    let refused = server.refused();
    assert_eq!(runs().len(), 2, "{refused:?}");
    assert!((1..=6).contains(&refused.len()) && refused.iter().all(|key| key == "token-of-hour-1"), "{refused:?}");

    // The command has no newer token: one more run, and the server's error without the token.
    server.expects("token-of-hour-3");
    let output = daemon.agentctl(["run", "Hi"]).await.exits(4);
    has_all(&output.stderr, &["Incorrect API key provided: [key]", "models.yaml:1"]);
    assert_eq!((runs().len(), server.refused()), (3, vec!["token-of-hour-2".to_owned()]));
    // A reload starts with the source again.
    daemon.write("config/token", "token-of-hour-3\n");
    daemon.ok(["reload"]).await;
    daemon.ok(["run", "Hi"]).await;
    assert_eq!((runs().len(), server.refused()), (4, Vec::new()));
    let shown = daemon.ok(["config", "show"]).await.stdout;
    assert!(!shown.contains("key.sh"), "a command may contain a password: {shown}");
    assert_nowhere(&daemon, "token-of-hour");
    assert_nowhere(&daemon, "noise-of-the-command");
}

#[tokio::test]
async fn useless_key_commands_end_with_a_clear_error() {
    let server = KeyServer::start("unreachable").await;
    let commands = [
        ("base", "sleep 1000", "did not end within 300ms"),
        ("reasoning", "echo 'Password of hunter2:'; read -r it </dev/tty && echo hunter2", "exit code"),
        ("vision", "echo hunter2 >&2", "printed nothing"),
        ("code", "echo hunter2; echo hunter2", "printed more than one line"),
        ("chat", "echo hunter2; exit 3", "ended with exit code 3"),
    ];
    let url = server.model.base_url();
    let slot = |command: &str| {
        let limit = if command.starts_with("sleep") { "300ms" } else { "60s" };
        let command = command.replace('\'', "''");
        format!("base_url: '{url}', api_key_command: '{command}', timeouts: {{key_command: {limit}}}")
    };
    let home = TempHome::new();
    home.write("config/models.yaml", slots(&commands.map(|(name, command, _)| (name, slot(command)))));
    let daemon = TempDaemon::start_in(home).await;
    let doctor = daemon.agentctl(["doctor"]).await.fails();
    for (line, (name, _, problem)) in commands.iter().enumerate() {
        let output = daemon.agentctl(["run", "Hi", "--model", name]).await.exits(4);
        let place = format!("models.yaml:{}", line + 1);
        has_all(&output.stderr, &["could not get the key", problem, "run it by hand", &place]);
        has_all(&doctor.stdout, &[problem, &place]);
        assert!(!output.stderr.contains("hunter2"), "{}", output.stderr);
    }
    assert!(!doctor.stdout.contains("hunter2"), "{}", doctor.stdout);
    assert_eq!((server.model.requests().len(), server.refused()), (0, Vec::new()));
    assert_nowhere(&daemon, "hunter2");
}

/// Server with TLS that requires a client certificate, in front of a model server.
struct TlsFront {
    server: Child,
    port: String,
}

impl TlsFront {
    fn start(model: &ModelServer) -> Self {
        const SERVE: &str = "import select, socket, ssl, sys, threading
folder, upstream = sys.argv[1], int(sys.argv[2])
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(folder + '/server.pem', folder + '/server.key')
tls.load_verify_locations(folder + '/ca.pem')
tls.verify_mode = ssl.CERT_REQUIRED
def serve(connection):
    raw = connection.dup()
    try:
        client = tls.wrap_socket(connection, server_side=True)
    except OSError:
        # Unread data would reset the connection, and the client would not see the alert.
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65536):
            pass
        return
    server = socket.create_connection(('127.0.0.1', upstream))
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";
        let upstream = model.root_url().rsplit(':').next().unwrap().to_owned();
        let mut server = Command::new("python3")
            .args(["-c", SERVE])
            .arg(certificates())
            .arg(upstream)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { server, port: port.trim().to_owned() }
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Returns the folder of the test certificates: `server` and `client` are signed by `ca`, `stranger` by `other-ca`.
fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suite/e2e/fixtures/tls")
}

#[tokio::test]
async fn client_certificates_and_own_authorities_are_used_and_errors_name_them() {
    let model = ModelServer::start().await;
    model.default_reply(Reply::text("Hello"));
    let front = TlsFront::start(&model);
    let home = TempHome::new();
    for name in ["ca.pem", "other-ca.pem", "client.pem", "client.key", "stranger.pem"] {
        home.write(&format!("config/tls/{name}"), fs::read(certificates().join(name)).unwrap());
    }
    let slot = |settings: &str| format!("base_url: 'https://127.0.0.1:{}/v1'{settings}", front.port);
    let client = ", client_cert_file: tls/client.pem, client_key_file: tls/client.key";
    home.write(
        "config/models.yaml",
        slots(&[
            ("base", slot(&format!(", ca_file: tls/ca.pem{client}"))),
            ("reasoning", slot(client)),
            ("vision", slot(&format!(", ca_file: tls/other-ca.pem{client}"))),
            ("code", slot(", ca_file: tls/ca.pem")),
            ("chat", slot(", ca_file: tls/ca.pem, client_cert_file: tls/stranger.pem")),
        ]),
    );
    let daemon = TempDaemon::start_in(home).await;
    assert_eq!(daemon.ok(["run", "Hi"]).await.stdout.trim(), "Hello");
    let doctor = daemon.agentctl(["doctor"]).await.fails().stdout;
    has_all(&doctor, &[&format!("m at https://127.0.0.1:{}/v1", front.port)]);
    for (slot, code, parts) in [
        (
            "reasoning",
            1,
            ["has a certificate that is not accepted", "UnknownIssuer", "check ca_file of this model (not set)"],
        ),
        ("vision", 1, ["has a certificate that is not accepted", "UnknownIssuer", "config/tls/other-ca.pem"]),
        ("code", 4, ["requires a client certificate", "fatal alert", "check client_cert_file of this model (not set)"]),
        ("chat", 4, ["requires a client certificate", "fatal alert", "config/tls/stranger.pem"]),
    ] {
        let output = daemon.agentctl(["run", "Hi", "--model", slot]).await.exits(code);
        has_all(&output.stderr, &parts);
        has_all(&doctor, &parts);
    }
    assert_eq!(model.requests().len(), 1, "only one certificate was accepted");
    // Another model of the server is reached in the same way.
    daemon.ok(["run", "Hi", "--model", "=other"]).await;
}

#[tokio::test]
async fn providers_are_added_by_name_with_key_or_command() {
    let server = KeyServer::start("named-key").await;
    let daemon = TempDaemon::start_in(TempHome::new()).await;
    let url = server.model.base_url();
    for name in ["openrouter", "xai", "moonshot", "z.ai", "dashscope", "cerebras", "github"] {
        let args = ["models", "add", name, "--base-url", &url, "--key-stdin", "--replace", "--no-test"];
        daemon.agentctl_with(args, b"named-key\n").await.exits(0);
        daemon.ok(["run", "Hi"]).await;
        let echoes = daemon.read("config/models.yaml").contains("echo_reasoning: true");
        assert_eq!(echoes, name == "moonshot", "{name}");
        let keyless = daemon.agentctl(["models", "add", name, "--replace"]).await.exits(2);
        assert!(keyless.stderr.contains("_API_KEY") || keyless.stderr.contains("GITHUB_TOKEN"), "{}", keyless.stderr);
    }
    let command = ["models", "add", "github", "--base-url", &url, "--replace", "--key-command"];
    let failed = daemon.agentctl([&command[..], &["echo wrong"]].concat()).await;
    assert!(failed.code != Some(0) && failed.stderr.contains("nothing was changed"), "{}", failed.stderr);
    daemon.ok([&command[..], &["printf %s \"$(echo named-key)\"", "--no-test"]].concat()).await;
    let text = daemon.read("config/models.yaml");
    assert!(text.contains("api_key_command: ") && !text.contains("api_key_file"), "{text}");
    daemon.ok(["run", "Hi"]).await;
}

/// Returns the code blocks of a recipe in `docs/models.md`.
fn recipe(title: &str) -> Vec<String> {
    let (_, recipe) = MODELS_PAGE.split_once(&format!("**{title}**")).unwrap();
    let recipe = recipe.split("\n**").next().unwrap().split("\n## ").next().unwrap();
    let blocks = recipe.split("```yaml\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn bedrock_and_vertex_recipe_works_with_a_strict_proxy() {
    let blocks = recipe("AWS Bedrock and Claude on Vertex");
    let [proxy, models] = &blocks[..] else { panic!("{blocks:?}") };
    let names: Vec<&str> = proxy.lines().filter_map(|line| line.split("model_name: ").nth(1)).collect();
    assert_eq!(names, ["claude-bedrock", "claude-vertex"], "{proxy}");
    let model = ModelServer::start().await;
    model.acts_as(Provider::Anthropic).default_reply(Reply::text("Hello"));
    model.guarded_by(|target, headers| match header(headers, "x-api-key") {
        "sk-litellm" if ["/v1/messages", "/v1/models?limit=1000"].contains(&target) => Ok(()),
        "sk-litellm" => Err((404, format!("Not Found: {target}"))),
        key => Err((401, format!("Authentication Error, Invalid proxy server token passed: {key}"))),
    });
    let mut home = TempHome::new();
    home.set("LITELLM_MASTER_KEY", "sk-litellm");
    assert!(models.contains("http://127.0.0.1:4000"), "{models}");
    home.write("config/models.yaml", models.replace("http://127.0.0.1:4000", &model.root_url()));
    let daemon = TempDaemon::start_in(home).await;
    for (slot, name) in [("base", names[0]), ("code", names[1])] {
        assert_eq!(daemon.ok(["run", "Hi", "--model", slot]).await.stdout.trim(), "Hello");
        assert_eq!(model.requests().pop().unwrap().sent()["model"], name);
    }
    assert_eq!(model.refusals(), [""; 0]);
}
