//! A coding task of sixty steps over three turns and a crash, with a todo list, mentions, a picture and failures: each
//! request extends the previous one without changing it.

use super::{providers::messages, *};

const RED: &[u8] = include_bytes!("fixtures/red.png");
/// Number of functions in the program that the model fixes.
const FUNCTIONS: usize = 12;

async fn world() -> World {
    let (model, mut home) = TempHome::with_server().await;
    home.set("MODEL_MULTIMODAL_ID", "eyes");
    home.write("config/tools.yaml", "optional: {web_search: {enabled: false}}\n");
    home.write("config/web.yaml", "search: {provider: searxng, base_url: 'http://127.0.0.1:9'}\n");
    home.write(
        "config/skills/review/SKILL.md",
        "---\nname: review\ndescription: Reviews changes\n---\n# How\nRead them.\n",
    );
    let function = |n: usize| format!("fn part_{n}() -> u32 {{\n    {n} + {n}\n}}\n");
    home.write("project/parts.rs", (0..FUNCTIONS).map(function).collect::<String>());
    home.write("project/notes.md", "Parts are doubled, and shall be squared.\n");
    home.write("red.png", RED);
    World { model, daemon: TempDaemon::start_in(home).await }
}

/// Returns a call that writes the todo list with `done` completed items.
fn todos(done: usize) -> Reply {
    let todo = |n: usize| {
        let status = if n < done { "completed" } else { "pending" };
        json!({"content": format!("square part {n}"), "status": status})
    };
    Reply::tool_call("todo_write", json!({"todos": (0..FUNCTIONS).map(todo).collect::<Vec<_>>()}))
}

/// Returns the replies that read, edit, test and complete one function.
fn fix_function(n: usize) -> Vec<Reply> {
    let edit = json!({"path": "/project/parts.rs", "old_string": format!("    {n} + {n}\n"), "new_string": format!("    {n} * {n}\n")});
    vec![
        Reply::tool_call("grep", json!({"pattern": format!("part_{n}\\b"), "path": "/project"}))
            .and_call("read_file", json!({"path": "/project/parts.rs", "offset": 3 * n + 1, "limit": 3})),
        Reply { text: format!("Part {n} is next."), ..Reply::tool_call("edit_file", edit) },
        // Every third test run fails.
        Reply::tool_call(
            "run_bash_command",
            json!({"command": format!("grep -c '{n} [*] {n}' parts.rs; exit {}", n % 3 % 2)}),
        )
        .and_reasoning("Does it hold?"),
        todos(n + 1),
    ]
}

impl World {
    async fn run_long_turn(&self, args: &[&str], steps: Vec<Reply>) -> Value {
        let requests_before = self.model.requests().len();
        let count = steps.len();
        for step in steps {
            self.model.reply(step);
        }
        let common = ["--output", "json", "--max-steps", "100", "--on-interrupt", "approve"];
        let output = self.ok([&["run"], args, &common].concat()).await;
        let result = output.json();
        assert_eq!(self.model.requests().len() - requests_before, count, "{result:#}");
        result
    }
}

fn tools(request: &Recorded) -> &[Value] {
    request.body["tools"].as_array().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_sixty_steps_extends_the_previous_request() {
    let mut world = world().await;
    let home = world.path().display().to_string();
    let (project, red) = (format!("{home}/project"), format!("{home}/red.png"));
    let first = format!("Square the parts as in the picture, see #{project}/notes.md. If in doubt use @web_search.");
    let mut steps = vec![Reply::tool_call("list_workspace_files", json!({})), todos(0)];
    steps.extend((0..6).flat_map(fix_function));
    steps.push(Reply::text("Half of it is done; shall I go on?"));
    let result = world.run_long_turn(&[&first, "-C", &format!("{project}:rw"), "--file", &red], steps).await;
    let session = result["session_id"].as_str().unwrap().to_owned();

    world.daemon.crash().await;
    let mut steps: Vec<Reply> = (6..FUNCTIONS).flat_map(fix_function).collect();
    steps.push(Reply::text("All parts are squared."));
    world.run_long_turn(&["Go on.", "--session", &session], steps).await;

    let look = || Reply::tool_call("read_file", json!({"path": "/project/parts.rs"}));
    let write = Reply::tool_call("write_file", json!({"path": "outputs/review.md", "content": "All good.\n"}));
    let mut steps: Vec<Reply> = (0..4).map(|_| look()).collect();
    steps.push(Reply::tool_call("search_history", json!({"query": "doubt"})));
    steps.extend([Reply::tool_call("no_such_tool", json!({})), look(), write, Reply::text("Reviewed.")]);
    world.run_long_turn(&["Now @review it.", "--session", &session], steps).await;

    let squared: String = (0..FUNCTIONS).map(|n| format!("fn part_{n}() -> u32 {{\n    {n} * {n}\n}}\n")).collect();
    let requests = world.model.requests();
    assert_eq!(world.read("project/parts.rs"), squared, "{}", tool_texts(requests.last().unwrap()));
    assert!(requests.len() > 60 && requests[0].text.contains("image"), "{}", requests.len());
    assert_eq!(requests.iter().filter(|request| request.body["model"] != "eyes").count(), 0);
    assert!(tools(&requests[0]).iter().any(|tool| tool["function"]["name"] == "web_search"));
    for (step, pair) in requests.windows(2).enumerate() {
        let [before, next] = [messages(&pair[0]), messages(&pair[1])];
        let same = before.bytes().zip(next.bytes()).take_while(|(one, other)| one == other).count();
        assert_eq!(
            same,
            before.len(),
            "step {step}: …{}",
            &before[before.floor_char_boundary(same.saturating_sub(200))..]
        );
        let known = tools(&pair[0]).len();
        assert_eq!(tools(&pair[1])[..known], *tools(&pair[0]), "step {step}");
    }
}
