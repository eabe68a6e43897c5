//! A file that requires approval to be read is not revealed by any other tool: neither its content in errors nor its
//! name.

use super::*;

/// The user's own rules: reading one file is denied, and reading another requires approval.
const RULES: &str = "tools:
  read_file:
    patterns: {high_risk: ['private\\.txt'], medium_risk: ['diary']}
    actions: {high_risk: deny}
";

/// Content of the files, which must not be revealed.
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
    /// Makes the model call these tools, one per step. Returns the results, and the result of the turn.
    async fn runs_calls(&self, on_interrupt: &str, calls: &[(&str, Value)]) -> (String, Value) {
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
fn assert_withheld(result: &str, parts: &[&str]) {
    has_all(result, parts);
    has_none(result, &SECRETS);
}

#[tokio::test]
async fn failing_edit_does_not_reveal_an_unreadable_file() {
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
    let text = [
        "old_string is not in /project/.env; reading the file requires approval, so its content is not shown",
        "old_string occurs more than once in /project/.env; reading the file requires approval",
        "/project/.env: some hunks do not match; reading the file requires approval",
        "old_string is not in /project/private.txt; reading the file requires approval",
        "/project/private.txt: some hunks do not match",
        "old_string is not in /project/diary.md; reading the file requires approval",
    ];
    // No approval is requested, since the call would fail.
    let (result, _) = world.runs_calls("wait", &failing).await;
    assert_withheld(&result, &text);
    // No approval is requested either if the user has allowed the tool permanently.
    for rule in ["edit_file", "apply_patch"] {
        world.ok(["grants", "add", rule]).await;
    }
    let (result, _) = world.runs_calls("wait", &failing).await;
    assert_withheld(&result, &text);
    // For all other files, the error quotes the current text, so that the model can correct its call.
    let (result, _) = world.runs_calls("wait", &[edit("/project/plain.md", "plain word?")]).await;
    assert!(result.contains("the closest match is at line 2:\nplain words"), "{result}");
}

#[tokio::test]
async fn failing_undo_does_not_reveal_an_unreadable_file() {
    let world = with_secrets().await;
    let write = ("write_file", json!({"path": "/project/diary.md", "content": "dear diary, it is late\n"}));
    world.runs_calls("approve", &[write]).await;
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
    // One undo fails before approval is requested, and one when the call runs.
    for on_interrupt in ["wait", "approve"] {
        let result = undo(on_interrupt).await;
        assert_withheld(&result, &["reading /project/diary.md requires approval, so the reason is not shown"]);
    }
}

#[tokio::test]
async fn file_named_in_a_search_is_judged_like_a_read() {
    let world = with_secrets().await;
    let paths = ["/project/private.txt", "/project/diary.md", "/project/.env"];
    let (text, result) = world.runs_calls("deny", &paths.map(grep)).await;
    assert_withheld(&text, &["it matches tools.read_file", "this run cannot ask"]);
    assert_eq!(result["denials"].as_array().unwrap().len(), 3, "{result:#}");
    let (text, result) = world.runs_calls("deny", &[grep("/project/plain.md"), grep("/project")]).await;
    assert_withheld(&text, &["/project/plain.md:2: plain words"]);
    assert_eq!(result["denials"], json!([]), "{result:#}");
    // A grant for reading also applies to searching.
    world.ok(["grants", "add", "read_file"]).await;
    let (text, _) = world.runs_calls("deny", &[grep("/project/diary.md"), grep("/project/private.txt")]).await;
    assert!(text.contains("/project/diary.md:2: dear diary") && !text.contains("for nobody"), "{text}");

    // An explanation in advance gives the same verdict.
    let session = result["session_id"].as_str().unwrap();
    for path in ["/project/private.txt", "/project/plain.md", "project"] {
        let call = |tool: &str| format!("{tool} {}", json!({"path": path, "pattern": "."}));
        let explain = |tool: &'static str| {
            let args = json!({"path": path, "pattern": "."}).to_string();
            let world = &world;
            async move {
                let args = ["policy", "explain", "--session", session, "--json", tool, &args];
                let mut report = world.ok(args).await.json();
                report["explanation"]["verdict"].take()
            }
        };
        assert_eq!(explain("grep").await, explain("read_file").await, "{path}");
        assert_eq!(explain("list_workspace_files").await, "allow", "{path}");
        let tried = world.write("new.yaml", "{}\n");
        let test = ["policy", "test", tried.to_str().unwrap(), "--session", session, "--json", &call("grep")];
        let report = world.ok(test).await.json();
        assert_eq!(report["calls"][0]["now"]["verdict"], explain("grep").await, "{path}");
        assert_eq!(report["calls"][0]["then"]["verdict"], "allow", "{path}");
    }
}
