//! The built-in model, with nothing configured. What it says is its own affair; what it uses and how it ends is not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agentd_testkit::daemon::{Output, TempHome};

/// The model's file, from `make model`.
fn weights() -> PathBuf {
    let named = std::env::var_os("AGENTD_TEST_MODEL").map(PathBuf::from);
    let folder = std::env::var_os("AGENTD_DATA_DIR").map(PathBuf::from).or_else(|| {
        let xdg = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let base = xdg.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")))?;
        Some(base.join("agentd"))
    });
    let brought = folder.and_then(|folder| {
        let files = fs::read_dir(folder.join("models")).ok()?.flatten().map(|file| file.path());
        files.filter(|file| file.extension().is_some_and(|ending| ending == "gguf")).min()
    });
    named.or(brought).expect("the built-in model is not there; run \"make test\", which brings it first")
}

/// A home that holds the model and knows of no other.
fn home() -> TempHome {
    let home = TempHome::new();
    let weights = weights();
    let models = home.data().join("models");
    fs::create_dir_all(&models).unwrap();
    std::os::unix::fs::symlink(&weights, models.join(weights.file_name().unwrap())).unwrap();
    home
}

#[track_caller]
fn tools_of(output: &Output) -> Vec<String> {
    let lines = output.json_lines();
    let calls = lines.iter().filter(|line| line["type"] == "item_completed" && line["item"]["kind"] == "tool_call");
    calls.filter_map(|call| call["item"]["name"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_built_in_model_uses_real_tools() {
    let home = home();
    let notes = home.write("notes.txt", "The ship leaves the harbour on Monday at nine. Bring warm clothes.\n");

    let output = home.agentctl(["run", "What time is it?", "--output", "stream-json"]).await.exits(0);
    assert_eq!(tools_of(&output), ["now"]);
    let result = output.json_lines().pop().unwrap();
    assert_eq!((&result["tool_used"], &result["stop_reason"]), (&true.into(), &"completed".into()));
    assert!(!result["text"].as_str().unwrap().trim().is_empty());
    assert!(output.stderr.contains("built-in model"), "it is said plainly: {}", output.stderr);

    let session = result["session_id"].as_str().unwrap();
    let args = ["run", "List my files", "--session", session, "--output", "stream-json"];
    let output = home.agentctl(args).await.exits(0);
    assert_eq!(tools_of(&output), ["list_workspace_files"]);

    let notes = notes.to_str().unwrap();
    let args = ["run", "Summarise uploads/notes.txt", "--file", notes, "--output", "stream-json"];
    let output = home.agentctl(args).await.exits(0);
    assert_eq!(tools_of(&output), ["read_file"]);
    let told = output
        .json_lines()
        .into_iter()
        .find(|line| line["item"]["text"].as_str().is_some_and(|text| text.contains("harbour")));
    assert!(told.is_some(), "the file was read: {}", output.stdout);

    // Chat needs no tool, and the pipe of the first conversation ends well.
    let output = home.agentctl_with(["chat"], "Hello!\n").await.exits(0);
    assert!(!output.stdout.trim().is_empty());
    assert_eq!(home.agentctl(["models", "--json"]).await.exits(0).json()[0]["model"]["embedded"], true);
}

#[tokio::test]
async fn the_built_in_model_cites_the_page_of_a_short_document() {
    let home = home();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/index/tests/fixtures/latin.pdf");
    let document = document.to_str().unwrap();
    let args = ["run", "When did the committee meet?", "--file", document];
    let said = home.agentctl(args).await.exits(0).stdout;
    let (cited, sentence) = said.split_once(" says:").unwrap_or_else(|| panic!("nothing is quoted: {said}"));
    assert!(cited.starts_with("uploads/latin.pdf, page "), "{said}");
    assert!(sentence.contains("committee met on day"), "{said}");
}

#[tokio::test]
async fn a_long_answer_is_cancelled_within_a_token() {
    let home = home();
    let args = ["run", "Tell me a very long story about a ship.", "--output", "stream-json"];
    let mut running = home.spawn_agentctl(args);
    running.event("item_delta").await;
    running.signal(nix::sys::signal::Signal::SIGINT);
    let (ended, _) = running.event("turn_ended").await;
    assert_eq!(ended["result"]["stop_reason"], "cancelled");
    running.output(Vec::new()).await.exits(130);
}

#[tokio::test]
async fn without_weights_it_says_how_to_bring_them() {
    let home = TempHome::new();
    let output = home.agentctl(["run", "Hello"]).await;
    assert!(matches!(output.code, Some(1 | 2)), "{output:?}");
    output.says(&["hint:"]);
    home.agentctl(["status"]).await.exits(0);
}
