//! The built-in model without any configuration: its fixed texts, its tools, and its final answers. For its free text,
//! only the notice above the text is tested.

use super::*;

/// Returns the path of the model's file, created by `make model`.
fn weights() -> PathBuf {
    let named = std::env::var_os("AGENTD_TEST_MODEL").map(PathBuf::from);
    let folder = std::env::var_os("AGENTD_DATA_DIR").map(PathBuf::from).or_else(|| {
        let xdg = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let base = xdg.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")))?;
        Some(base.join("agentd"))
    });
    let default_path = folder.and_then(|folder| {
        let files = fs::read_dir(folder.join("models")).ok()?.flatten().map(|file| file.path());
        files.filter(|file| file.extension().is_some_and(|ending| ending == "gguf")).min()
    });
    named.or(default_path).expect("the built-in model is missing; run \"make test\", which downloads it first")
}

/// Creates a home with only the built-in model.
fn home() -> TempHome {
    let home = TempHome::new();
    let weights = weights();
    let models = home.data().join("models");
    fs::create_dir_all(&models).unwrap();
    symlink(&weights, models.join(weights.file_name().unwrap())).unwrap();
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

    let output = home.ok(["run", "What time is it?", "--output", "stream-json"]).await;
    assert_eq!(tools_of(&output), ["now"]);
    let result = output.json_lines().pop().unwrap();
    assert_eq!((&result["tool_used"], &result["stop_reason"]), (&true.into(), &"completed".into()));
    assert!(!result["text"].as_str().unwrap().trim().is_empty());
    assert!(output.stderr.contains("built-in model"), "the built-in model is not mentioned: {}", output.stderr);

    let session = result["session_id"].as_str().unwrap();
    let output = home.ok(["run", "List my files", "--session", session, "--output", "stream-json"]).await;
    assert_eq!(tools_of(&output), ["list_workspace_files"]);

    let notes = notes.to_str().unwrap();
    let output = home.ok(["run", "Summarise uploads/notes.txt", "--file", notes, "--output", "stream-json"]).await;
    assert_eq!(tools_of(&output), ["read_file"]);
    let line = output
        .json_lines()
        .into_iter()
        .find(|line| line["item"]["text"].as_str().is_some_and(|text| text.contains("harbour")));
    assert!(line.is_some(), "the file was read: {}", output.stdout);

    // A greeting needs no tool. A first chat through a pipe succeeds.
    home.agentctl_with(["chat"], "Hello!\n").await.exits(0).shows(&["the small built-in model of agentd"]);
    assert_eq!(home.json(["models"]).await[0]["model"]["embedded"], true);
}

/// Creates a project that was not designed for the model: folders, front matter, names in several languages.
fn project(home: &TempHome) -> String {
    let readme = "---\ntitle: Lamp\ntags: [light, home]\n---\n\n# Lamp\n\n[![build](https://x.invalid/b.svg)](https://x.invalid)\n\n\
        Lamp switches the lights of a house on at dusk. It listens to a sensor on the roof.\n\n## Use\n\n    lamp --start\n";
    home.write("lamp/README.md", readme);
    home.write("lamp/greet.py", "def greet(name):\n    return 'Good evening, ' + name\n");
    home.write("lamp/docs/README.md", "The pages about the sensor.\n");
    home.write("lamp/docs/Übersicht für Gäste.md", "Der Schalter ist neben der Tür.\n");
    home.write("lamp/docs/説明.txt", "屋根のセンサー。\n");
    home.write("lamp/src/core/switch.rs", "// TODO wait for the sensor\nfn main() {}\n");
    home.write("lamp/.gitignore", "target/\n");
    home.write("lamp/target/out.bin", "x");
    home.path().join("lamp").to_str().unwrap().to_owned()
}

/// Asks in a new session without a folder, as most users start.
async fn ask(home: &TempHome, project: &str, prompt: &str) -> (Vec<(String, Value)>, String) {
    let output = home.ok(["run", prompt, "-C", project, "--output", "stream-json"]).await;
    let lines = output.json_lines();
    let items = lines.iter().filter(|line| line["type"] == "item_completed" && line["item"]["kind"] == "tool_call");
    let calls = items.map(|line| {
        let arguments = line["item"]["arguments"].as_str().unwrap_or("null");
        (line["item"]["name"].as_str().unwrap().to_owned(), serde_json::from_str(arguments).unwrap())
    });
    (calls.collect(), lines.last().unwrap()["text"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn newcomer_prompts_call_the_right_tool_in_a_project() {
    let home = home();
    let project = project(&home);
    let check = async |prompt: &str, tool: &str, arguments: Value, says: &[&str]| {
        let (calls, text) = ask(&home, &project, prompt).await;
        assert_eq!(calls, [(tool.to_owned(), arguments)], "{prompt}: {text}");
        has_all(&text, says);
        text
    };
    let readme = json!({"path": "/project/README.md"});
    let opening = "Lamp switches the lights of a house on at dusk. It listens to a sensor on the roof.";
    for prompt in
        ["Summarise README.md", "Summarise README", "What does this project do?", "Worum geht es in diesem Projekt?"]
    {
        let text = check(prompt, "read_file", readme.clone(), &["**Lamp**", opening]).await;
        assert!(!text.contains("lamp --start"), "{prompt}: {text}");
    }
    check("What is in README.md?", "read_file", readme.clone(), &[opening, "lamp --start"]).await;
    check("How do I install this?", "read_file", readme.clone(), &["no section about installing", opening]).await;
    check("Show me the headings of the README", "read_file", readme, &["- Lamp\n  - Use"]).await;
    let guide = json!({"path": "/project/docs/Übersicht für Gäste.md"});
    check("Show me Übersicht für Gäste.md", "read_file", guide, &["Der Schalter"]).await;
    check("What is in 説明.txt?", "read_file", json!({"path": "/project/docs/説明.txt"}), &["屋根"]).await;

    let all = json!({"pattern": "*", "path": "/project"});
    check("How many files are here?", "find_files", all, &["Files: 6."]).await;
    let listed = check("List the files", "list_workspace_files", json!({"path": "/project"}), &["greet.py"]).await;
    has_none(&listed, &["conversation_history", "large_tool_results", "skills/", "out.bin"]);
    let todo = json!({"pattern": "TODO", "literal": true, "ignore_case": true});
    check("Find TODO in this project", "grep", todo, &["/project/src/core/switch.rs:1"]).await;
    let sensor = json!({"pattern": "sensor", "literal": true, "ignore_case": true});
    let found = check("Which files mention sensor?", "grep", sensor, &["switch.rs", "docs/README.md"]).await;
    assert!(!found.contains("greet.py"), "{found}");
}

/// The model answers from the last result alone, so it reads the complete file for each question.
#[tokio::test]
async fn repeated_question_gets_the_complete_file_again() {
    let home = home();
    let project = project(&home);
    home.write(
        "lamp/README.md",
        format!("# Lamp\n\nLamp lights the house.\n\n## Install\n\n{}\n", "pip install lamp\n".repeat(40)),
    );
    let first = home.ok(["run", "What does this project do?", "-C", &project, "--output", "json"]).await.json();
    assert!(first["text"].as_str().unwrap().contains("Lamp lights the house."), "{first:#}");
    let session = first["session_id"].as_str().unwrap();
    let second = home.ok(["run", "How do I install this?", "--session", session, "--output", "json"]).await.json();
    assert!(second["text"].as_str().unwrap().contains("pip install lamp"), "{second:#}");
}

#[tokio::test]
async fn a_file_deep_in_a_large_project_is_found_by_its_name() {
    let home = home();
    for number in 0..400 {
        home.write(&format!("large/src/part{number}.txt"), "x\n");
    }
    let old = home.write("large/a/b/c/needle.txt", "Here it is.\n");
    fs::File::options().write(true).open(old).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let large = home.path().join("large");
    let (calls, text) = ask(&home, large.to_str().unwrap(), "Read needle.txt").await;
    assert_eq!(calls, [("read_file".to_owned(), json!({"path": "/project/a/b/c/needle.txt"}))], "{text}");
    assert!(text.contains("Here it is."), "{text}");
    let (_, text) = ask(&home, large.to_str().unwrap(), "How many files are here?").await;
    assert!(text.contains("Files: 401."), "{text}");
}

#[tokio::test]
async fn the_built_in_model_cites_the_page_of_a_document() {
    let home = home();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/index/tests/fixtures/latin.pdf");
    let args = ["run", "Search latin.pdf for committee", "--file", document.to_str().unwrap()];
    home.ok(args).await.shows(&["uploads/latin.pdf p. ", "committee"]);
}

#[tokio::test]
async fn cancel_stops_a_long_answer() {
    let home = home();
    let args = ["run", "Tell me a very long story about a ship.", "--output", "stream-json"];
    let mut running = home.spawn_agentctl(args);
    running.event("item_delta").await;
    running.signal(Signal::SIGINT);
    let (ended, _) = running.event("turn_ended").await;
    assert_eq!(ended["result"]["stop_reason"], "cancelled");
    running.output(Vec::new()).await.exits(130);
}

#[tokio::test]
async fn missing_weights_give_an_error_with_a_hint() {
    let home = TempHome::new();
    let output = home.agentctl(["run", "Hello"]).await;
    assert!(matches!(output.code, Some(1 | 2)), "{output:?}");
    output.says(&["hint:"]);
    home.ok(["status"]).await;
}
