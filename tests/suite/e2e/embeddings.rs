//! Code and documents found by meaning, with a strict server for embeddings.

use agentd_testkit::embedding_server::{EMBEDDING_KEY, EmbeddingBehaviour, EmbeddingServer};

use super::*;

/// A question in none of the words of the code that answers it.
const QUESTION: &str = "mend the automobile";

const GARAGE: &str = "/// Brings it back to life.\npub fn repair_vehicle(part: u32) -> u32 {\n    part + 1\n}\n";

async fn garage(folders: &str) -> (World, EmbeddingServer) {
    let server = EmbeddingServer::start().await;
    let settings = format!("api_key: {EMBEDDING_KEY}, id: small-embedder, retries: 0, folders: [{folders}]");
    let files = [
        ("config/models.yaml", format!("embeddings: {{base_url: \"{}\", {settings}}}\n", server.base_url())),
        ("shop/src/garage.rs", GARAGE.to_owned()),
        ("shop/src/weather.rs", "pub fn forecast(day: u32) -> bool {\n    day > 3\n}\n".to_owned()),
        ("shop/.env", "GARAGE_TOKEN=hunter2\n".to_owned()),
        ("shop/secrets.yaml", "automobile: hunter2\n".to_owned()),
        ("other/private.rs", "pub fn repair_secretly() {}\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    (World::with_files(&files).await, server)
}

impl World {
    /// Searches the code of a folder for the question.
    async fn searches(&self, folder: &str) -> String {
        let folder = self.path().join(folder).display().to_string();
        let (results, output) =
            self.call_all(vec![("search_code", json!({"query": QUESTION}))], &["-C", &folder]).await;
        output.exits(0);
        results[0].clone()
    }

    async fn finds(&self, folder: &str) -> bool {
        self.searches(folder).await.contains("1. /project/src/garage.rs:1-4 function repair_vehicle")
    }
}

/// Returns the texts of all requests since the last call.
fn sent(server: &EmbeddingServer) -> Vec<String> {
    server.take_requests().concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn code_in_other_words_is_found_only_with_embeddings() {
    let (mut world, server) = garage("../shop").await;
    let result = world.searches("shop").await;
    has_all(&result, &["No match for", "run agentctl docs embed"]);
    // The note is given once, and nothing was sent or stored.
    has_none(&world.searches("shop").await, &["docs embed"]);
    assert!(server.take_requests().is_empty() && !world.data().join("embeddings").exists());

    // Counting sends no text.
    let counted = world.json(["docs", "embed"]).await;
    let shown = format!("{} (small-embedder)", server.base_url());
    holds(&counted, json!({"texts": 2, "sent": false, "server": shown}));
    world.agentctl(["docs", "embed"]).await.exits(2).says(&["cannot ask whether to send 2 texts (about", "--yes"]);
    assert_eq!(sent(&server), [""; 0]);
    assert!(!world.data().join("embeddings").exists());
    world.ok(["docs", "embed", "--yes"]).await.shows(&["sent 2 texts (about ", &server.base_url(), "(small-embedder)"]);
    let texts = sent(&server);
    assert!(texts.len() == 2 && texts.contains(&GARAGE.to_owned()), "{texts:?}");
    assert!(world.finds("shop").await);
    assert_eq!(sent(&server), [QUESTION]);
    // A name is searched as before.
    let call = ("search_code", json!({"query": "repair_vehicle"}));
    let shop = world.path().join("shop").display().to_string();
    let (results, _) = world.call_all(vec![call], &["-C", &shop]).await;
    assert!(results[0].contains("1. /project/src/garage.rs"), "{}", results[0]);
    assert_eq!(sent(&server), [""; 0]);

    // Only what has changed is sent again.
    world.write("shop/src/weather.rs", "pub fn outlook(day: u32) -> bool {\n    day > 4\n}\n");
    world.ok(["docs", "embed", "--yes"]).await.shows(&["sent 1 text "]);
    assert!(sent(&server)[0].contains("outlook"));
    world.ok(["docs", "embed", "--yes"]).await.shows(&["nothing new to embed"]);
    // The vectors outlive the daemon.
    world.daemon.kill9().await;
    world.daemon.restart().await;
    assert!(world.finds("shop").await);

    // A folder that is not named is searched by words only.
    sent(&server);
    has_all(&world.searches("other").await, &["No match for"]);
    holds(&world.json(["docs", "embed"]).await, json!({"texts": 0}));
    assert_eq!(sent(&server), [""; 0]);
    assert_eq!(server.refusals(), [""; 0]);
    let usage = world.json(["usage"]).await.to_string();
    assert!(usage.contains("small-embedder"), "{usage}");
    assert!(!world.log().contains(EMBEDDING_KEY));
}

#[tokio::test(flavor = "multi_thread")]
async fn question_shows_the_size_before_anything_is_sent() {
    let (world, server) = garage("../shop").await;
    world.searches("shop").await;
    let asks = || {
        let mut terminal = Terminal::around(&world.daemon, "\"$@\"; echo ended with $?", &["docs", "embed"]);
        terminal.sees("Send 2 texts (about ");
        terminal.sees("[y/N]");
        terminal
    };
    asks().says_for("n", "ended with 130");
    assert_eq!(sent(&server), [""; 0]);
    let mut terminal = asks();
    terminal.says_for("y", "sent 2 texts");
    terminal.sees("ended with 0");
    assert!(world.finds("shop").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_in_other_words_are_found_with_their_place() {
    let (world, server) = garage("uploads").await;
    world.write("notes.md", "# Workshop\n\nHow to repair a vehicle.\n");
    world.write("weather.md", "# Forecast\n\nIt will rain.\n");
    world.write("secrets.json", "{\"vehicle\": \"hunter2\"}\n");
    world.model.default_reply(Reply::text("Certainly."));
    let names = ["notes.md", "weather.md", "secrets.json"];
    let paths: Vec<String> = names.iter().map(|name| world.path().join(name).display().to_string()).collect();
    world.docs(&["add", &paths[0], &paths[1], &paths[2]]).await.exits(0);
    let found = async || world.docs(&["search", QUESTION, "--json"]).await.json();
    let before = found().await;
    holds(&before, json!({"hits": []}));
    assert!(before["notes"].to_string().contains("run agentctl docs embed"), "{before}");
    world.ok(["docs", "embed", "--yes"]).await.shows(&["sent "]);
    let texts = sent(&server).concat();
    assert!(texts.contains("How to repair a vehicle") && !texts.contains("hunter2"), "{texts}");
    let after = found().await;
    holds(&after["hits"][0], json!({"document": "uploads/notes.md"}));
    // Phrases and regular expressions demand their words.
    sent(&server);
    let phrase = world.docs(&["search", "\"mend the automobile\"", "--json"]).await.json();
    holds(&phrase, json!({"hits": []}));
    let regex = world.docs(&["search", "--regex", QUESTION, "--json"]).await.json();
    holds(&regex, json!({"hits": []}));
    assert_eq!(sent(&server), [""; 0]);
    // Without the setting, searches are as before, and `embed` has a hint.
    world.write("config/models.yaml", "{}\n");
    world.ok(["reload"]).await;
    holds(&found().await, json!({"hits": [], "notes": []}));
    world.agentctl(["docs", "embed"]).await.fails().says(&["no server for embeddings", "models.yaml"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_fails_leaves_the_search_by_words() {
    let (world, server) = garage("../shop").await;
    world.searches("shop").await;
    world.ok(["docs", "embed", "--yes"]).await;
    world.ok(["reload"]).await;
    let words = json!({"query": "vehicle forecast"});
    let shop = world.path().join("shop").display().to_string();
    let search = async || world.call_all(vec![("search_code", words.clone())], &["-C", &shop]).await.0[0].clone();
    // A search discards the vectors if their size no longer fits, and the next run sends the texts again.
    server.has_dimension(64);
    has_all(&search().await, &["/project/src/garage.rs", "run agentctl docs embed"]);
    world.ok(["docs", "embed", "--yes"]).await.shows(&["sent 2 texts"]);
    for behaviour in [
        EmbeddingBehaviour::Refuses(500),
        EmbeddingBehaviour::Refuses(401),
        EmbeddingBehaviour::Raw("{}".to_owned()),
        EmbeddingBehaviour::Hangs,
    ] {
        world.ok(["reload"]).await;
        server.behaves(behaviour);
        has_all(&search().await, &["/project/src/garage.rs", "/project/src/weather.rs", "searched by words only: "]);
        has_none(&search().await, &["searched by words only"]);
    }
    // A server that is gone.
    let url = server.base_url();
    drop(server);
    world.ok(["reload"]).await;
    has_all(&search().await, &["/project/src/garage.rs", "searched by words only: "]);
    world.write("shop/src/new.rs", "pub fn unseen() {}\n");
    world.agentctl(["docs", "embed", "--yes"]).await.fails().says(&[&url]);
    world.still_serves().await;
}
