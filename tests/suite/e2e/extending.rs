//! Follows `docs/extending.md` literally, starting from an empty home. The blocks are read from the page itself, so
//! that wrong instructions fail in this test.

use super::*;

const PAGE: &str = include_str!("../../../docs/extending.md");

/// A user who follows the page and approves all questions.
struct Reader {
    model: ModelServer,
    home: TempHome,
}

impl Reader {
    async fn new() -> Self {
        let (model, home) = TempHome::with_server().await;
        fs::create_dir_all(home.config()).unwrap();
        fs::create_dir_all(home.path().join(".config")).unwrap();
        symlink(home.config(), home.path().join(".config/agentd")).unwrap();
        home.ok(["start"]).await;
        Self { model, home }
    }

    /// Runs a shell block and approves every question.
    async fn types(&self, block: &str) -> Output {
        let approve = r#"agentctl() { if [ "$1" = run ]; then shift; set -- run --on-interrupt approve "$@"; fi; command agentctl "$@"; }"#;
        let mut command = self.home.command("sh");
        let programs = program("agentctl").parent().map(Path::to_owned).unwrap_or_default();
        let path = std::env::join_paths(
            [programs].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        command.env("PATH", path.unwrap()).stdin(Stdio::null());
        command.arg("-eu").arg("-c").arg(format!("{approve}\n{block}"));
        Running::spawn(command).output(Vec::new()).await
    }

    /// Makes the model call a tool once, and then repeat the result.
    fn model_calls(&self, tool: &'static str, arguments: Value) {
        self.model.respond_with(move |request| match tool_texts(request).as_str() {
            "" => Reply::default().and_call(tool, arguments.clone()),
            result => Reply::text(format!("Result: {result}")),
        });
    }

    fn first_request(&self) -> Recorded {
        self.model.requests().first().unwrap().clone()
    }
}

/// Returns the blocks with the given language in a section, in order.
fn blocks(section: &str, language: &str) -> Vec<String> {
    let (_, section) = PAGE.split_once(&format!("\n## {section}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let fence = format!("```{language}\n");
    section.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_mcp_tool_example_works() {
    const SECTION: &str = "Your own tool, through MCP";
    let reader = Reader::new().await;
    reader.home.write("words.py", &blocks(SECTION, "python")[0]);
    reader.model_calls("mcp_words_count_words", json!({"text": "to be or not to be"}));
    let output = reader.types(&blocks(SECTION, "sh")[0]).await.exits(0);
    assert!(output.stdout.contains("mcp_words_count_words") && output.stdout.contains("6 words"), "{output:?}");

    // A tool that is marked as read-only and always offered runs under its alias without a question.
    let me = blocks(SECTION, "yaml")[0].replace("/home/me", reader.home.path().to_str().unwrap());
    reader.home.write("config/mcp_servers.yaml", me);
    reader.types("agentctl reload").await.exits(0);
    reader.model_calls("count_words", json!({"text": "one two"}));
    reader.home.ok(["run", "Count.", "--on-interrupt", "fail"]).await.shows(&["2 words"]);
    reader.types("agentctl mcp logs words").await.exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_skill_example_works() {
    const SECTION: &str = "Your own skill";
    let reader = Reader::new().await;
    let [write, add, try_it] = blocks(SECTION, "sh").try_into().unwrap();
    reader.types(&write).await.exits(0);
    reader.types(&add).await.exits(0);
    assert!(reader.home.read("config/skills/invoice/SKILL.md").contains("Checks invoices"));
    let command = "python skills/invoice/scripts/total.py uploads/invoice.csv";
    assert!(write.contains(command), "the command in the skill differs from the one tested here");
    reader.model_calls("run_bash_command", json!({"command": command}));
    let output = reader.types(&try_it).await.exits(0);
    assert!(output.stdout.contains("total 960.0"), "{output:?}");
    has_all(&reader.first_request().body.to_string(), &["skills/invoice/SKILL.md", "Ordered: a pump"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_agent_example_works() {
    const SECTION: &str = "Your own agent";
    let reader = Reader::new().await;
    reader.home.write("config/agents.yaml", &blocks(SECTION, "yaml")[0]);
    reader.model.respond_with(|request| {
        let is_translator = request.body.to_string().contains("You translate. Keep names");
        match (is_translator, tool_texts(request).as_str()) {
            (true, "") => Reply::default()
                .and_call("write_file", json!({"path": "outputs/letter.fr.md", "content": "Monsieur, les pompes."})),
            (true, _) => {
                Reply::text("The letter is in outputs/letter.fr.md, in French, with its form kept as it was before.")
            }
            (false, "") => Reply::default().and_call(
                "delegate_task",
                json!({"agent": "translator", "task": "Put uploads/letter.md into French."}),
            ),
            (false, _) => Reply::text("It is done."),
        }
    });
    let output = reader.types(&blocks(SECTION, "sh")[0]).await.exits(0);
    assert!(output.stdout.contains("translator") && output.stdout.contains("It is done."), "{output:?}");
    let sessions = reader.home.json(["sessions", "list", "--all"]).await;
    let sessions = sessions.as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let letter = |session: &Value| {
        reader.home.read(&format!("data/workspace/{}/outputs/letter.fr.md", session["id"].as_str().unwrap()))
    };
    assert!(sessions.iter().any(|session| letter(session) == "Monsieur, les pompes."), "{output:?}");
}
