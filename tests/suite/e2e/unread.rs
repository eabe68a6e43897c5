//! What a model may not read without asking, no other tool shows it: not by its failures, and not by its name.

use super::*;

/// The person's own rules: one file is never read by a model, and of another they want to be asked.
const RULES: &str = "tools:
  read_file:
    patterns: {high_risk: ['private\\.txt'], medium_risk: ['diary']}
    actions: {high_risk: deny}
";

/// What stands in the files, and nobody may be told.
const SECRETS: [&str; 4] = ["hunter2", "for nobody", "dear diary", "line 2"];

async fn with_secrets() -> World {
    let world = World::with_files(&[("config/hitl_rules.yaml", RULES)]).await;
    for (path, content) in [
        (".env", "NAME=me\nKEY=hunter2\nOLD_KEY=hunter2\n"),
        ("private.txt", "first\nthis is for nobody\n"),
        ("diary.md", "so\ndear diary\n"),
        ("plain.md", "so\nplain words\n"),
    ] {
        world.write(&format!("project/{path}"), content);
    }
    world
}

impl World {
    /// Lets the model make these calls, one a step, and says what the tools told it and how the turn ended.
    async fn is_told(&self, on_interrupt: &str, calls: &[(&str, Value)]) -> (String, Value) {
        for (tool, arguments) in calls {
            self.model.reply(Reply::tool_call(*tool, arguments.clone()));
        }
        self.model.reply(Reply::text("I see."));
        let args = ["run", "Do it", "-C", &self.mount(), "--on-interrupt", on_interrupt, "--output", "json"];
        let result = self.daemon.agentctl(args).await.json();
        assert_eq!(result["text"], "I see.", "{result:#}");
        (tool_texts(self.model.requests().last().unwrap()), result)
    }
}

fn edit(path: &str, old: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": path, "old_string": old, "new_string": "x"}))
}

fn patch(path: &str, hunk: &str) -> (&'static str, Value) {
    ("apply_patch", json!({"patch": format!("*** Begin Patch\n*** Update File: {path}\n@@\n{hunk}*** End Patch\n")}))
}

fn grep(path: &str) -> (&'static str, Value) {
    ("grep", json!({"pattern": ".", "path": path}))
}

#[track_caller]
fn tells(told: &str, words: &[&str]) {
    has_all(told, words);
    has_none(told, &SECRETS);
}

#[tokio::test]
async fn an_edit_that_would_fail_tells_nothing_of_a_file_that_may_not_be_read() {
    let world = with_secrets().await;
    let failing = [
        edit("/project/.env", "KEY=hunter3"),
        edit("/project/.env", "KEY="),
        patch("/project/.env", " NAME=me\n-KEY=hunter3\n+KEY=x\n"),
        patch("/project/.env", "-NAME=you\n+KEY=x\n"),
        edit("/project/private.txt", "this is for somebody"),
        patch("/project/private.txt", " first\n-this is for somebody\n+x\n"),
        edit("/project/diary.md", "dear diary!"),
    ];
    let words = [
        "old_string is not in /project/.env; the file may not be read without asking, so nothing of it is shown",
        "old_string occurs more than once in /project/.env; the file may not be read",
        "/project/.env: not all that the patch says of it fits; the file may not be read",
        "old_string is not in /project/private.txt; the file may not be read",
        "/project/private.txt: not all that the patch says of it fits",
        "old_string is not in /project/diary.md; the file may not be read",
    ];
    // Nobody is asked, for it would fail.
    let (told, _) = world.is_told("wait", &failing).await;
    tells(&told, &words);
    // Nor where it runs without a question, for a person has allowed the tool for good.
    for rule in ["edit_file", "apply_patch"] {
        world.ok(["grants", "add", rule]).await;
    }
    let (told, _) = world.is_told("wait", &failing).await;
    tells(&told, &words);
    // Of all other files what stands there is quoted, so that the next attempt fits.
    let (told, _) = world.is_told("wait", &[edit("/project/plain.md", "plain word?")]).await;
    assert!(told.contains("the nearest place is line 2:\nplain words"), "{told}");
}

#[tokio::test]
async fn an_edit_that_cannot_be_taken_back_tells_nothing_of_such_a_file_either() {
    let world = with_secrets().await;
    let write = ("write_file", json!({"path": "/project/diary.md", "content": "dear diary, it is late\n"}));
    world.is_told("approve", &[write]).await;
    world.write("project/diary.md", "dear diary, it is later\n");
    let undo = |on_interrupt: &'static str| {
        let world = &world;
        async move {
            world.model.reply(Reply::tool_call("undo_patch", json!({}))).reply(Reply::text("I see."));
            let project = world.mount();
            world.ok(["run", "Back", "--continue", "-C", &project, "--on-interrupt", on_interrupt]).await;
            let request = world.model.requests().pop().unwrap();
            request.messages().iter().rfind(|message| message["role"] == "tool").unwrap()["content"].to_string()
        }
    };
    // Once before anybody would be asked, once where it runs.
    for on_interrupt in ["wait", "approve"] {
        let told = undo(on_interrupt).await;
        tells(&told, &["/project/diary.md may not be read without asking, so the reason is not shown"]);
    }
}

#[tokio::test]
async fn a_file_that_a_search_names_is_judged_as_read() {
    let world = with_secrets().await;
    let paths = ["/project/private.txt", "/project/diary.md", "/project/.env"];
    let (told, result) = world.is_told("deny", &paths.map(grep)).await;
    tells(&told, &["it matches tools.read_file", "this run cannot ask"]);
    assert_eq!(result["denials"].as_array().unwrap().len(), 3, "{result:#}");
    let (told, result) = world.is_told("deny", &[grep("/project/plain.md"), grep("/project")]).await;
    tells(&told, &["/project/plain.md:2: plain words"]);
    assert_eq!(result["denials"], json!([]), "{result:#}");
    // What is allowed of reading is allowed of searching.
    world.ok(["grants", "add", "read_file"]).await;
    let (told, _) = world.is_told("deny", &[grep("/project/diary.md"), grep("/project/private.txt")]).await;
    assert!(told.contains("/project/diary.md:2: dear diary") && !told.contains("for nobody"), "{told}");

    // Whoever asks beforehand is told the same.
    let session = result["session_id"].as_str().unwrap();
    for path in ["/project/private.txt", "/project/plain.md", "project"] {
        let call = |tool: &str| format!("{tool} {}", json!({"path": path, "pattern": "."}));
        let explain = |tool: &'static str| {
            let args = json!({"path": path, "pattern": "."}).to_string();
            let world = &world;
            async move {
                let args = ["policy", "explain", "--session", session, "--json", tool, &args];
                let mut said = world.ok(args).await.json();
                said["explanation"]["verdict"].take()
            }
        };
        assert_eq!(explain("grep").await, explain("read_file").await, "{path}");
        assert_eq!(explain("list_workspace_files").await, "allow", "{path}");
        let tried = world.write("new.yaml", "{}\n");
        let test = ["policy", "test", tried.to_str().unwrap(), "--session", session, "--json", &call("grep")];
        let said = world.ok(test).await.json();
        assert_eq!(said["calls"][0]["now"]["verdict"], explain("grep").await, "{path}");
        assert_eq!(said["calls"][0]["then"]["verdict"], "allow", "{path}");
    }
}
