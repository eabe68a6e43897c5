//! Conversations over Messages and Responses, with servers as strict as the real ones: Messages accepts thinking only
//! after the same messages, and only its own server can read the reasoning in Responses.

use super::{providers::assert_requests_grow, *};

pub(super) const RED: &[u8] = include_bytes!("fixtures/red.png");

const BOTH: [Provider; 2] = [Provider::Anthropic, Provider::OpenAi];

/// A daemon with a project and a model that uses this wire.
pub(super) struct World {
    pub(super) model: ModelServer,
    pub(super) daemon: TempDaemon,
    pub(super) session: Option<String>,
}

impl World {
    async fn start(provider: Provider) -> Self {
        let thinks = if provider == Provider::OpenAi { ", thinking: adaptive" } else { "" };
        Self::with(provider, thinks, "").await
    }

    /// Starts with additional settings in the slot, and this content in `agentd.yaml`.
    pub(super) async fn with(provider: Provider, slot: &str, agentd_yaml: &str) -> Self {
        let model = ModelServer::start().await;
        model.acts_as(provider);
        let home = TempHome::new();
        let (wire, url) = (provider.wire(), model.base_url());
        home.write("config/models.yaml", format!("base: {{wire: {wire}, base_url: \"{url}\", id: the-model{slot}}}\n"));
        home.write("config/agentd.yaml", agentd_yaml);
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            home.write(&format!("project/{name}.txt"), format!("the words of {name}\n"));
        }
        Self { model, daemon: TempDaemon::start_in(home).await, session: None }
    }

    /// Runs a turn in the session with these replies, and asserts that no request is rejected.
    pub(super) async fn turn(&mut self, text: &str, replies: Vec<Reply>) -> Value {
        self.turn_that_exits(0, text, &[], replies).await
    }

    async fn turn_that_exits(&mut self, code: i32, text: &str, more: &[&str], replies: Vec<Reply>) -> Value {
        for reply in replies {
            self.model.reply(reply);
        }
        let project = format!("{}:rw", self.daemon.path().join("project").display());
        let mut args = vec!["run", text, "--output", "json", "--on-interrupt", "approve"];
        match &self.session {
            Some(session) => args.extend(["--session", session]),
            None => args.extend(["-C", &project]),
        }
        let output = self.daemon.agentctl(args.iter().chain(more)).await;
        assert_eq!(self.model.refusals(), [""; 0], "{text}: {}\n{}", output.stderr, self.daemon.log());
        let result = output.exits(code).json();
        assert_eq!(self.model.waiting_replies(), 0, "{text}: {result:#}");
        self.session = Some(result["session_id"].as_str().unwrap().to_owned());
        result
    }

    fn last(&self) -> Recorded {
        self.model.requests().pop().unwrap()
    }

    async fn upload(&self, name: &str, content: &[u8]) {
        let client = Client::connect(&self.daemon.socket()).await.unwrap();
        client.upload(self.session.as_deref().unwrap(), name, content).await.unwrap();
    }

    async fn ctl(&self, args: &[&str]) -> Output {
        let session = self.session.as_deref().unwrap();
        self.daemon.ok(args.iter().copied().chain([session])).await
    }
}

fn reads(names: &[&str]) -> Reply {
    let call = |reply: Reply, name: &&str| reply.and_call("read_file", json!({"path": format!("/project/{name}.txt")}));
    names.iter().fold(Reply::default(), call)
}

/// Returns the replies for a turn with `count` steps.
pub(super) fn steps(count: usize) -> Vec<Reply> {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let steps = (0..count).map(|at| reads(&names[at % 8..=at % 8]));
    steps.chain([Reply::text("Done.")]).collect()
}

/// Returns the messages or items of a request as sent.
fn sent(request: &Recorded) -> Vec<Value> {
    let body = request.sent();
    ["messages", "input"].iter().find_map(|key| body[*key].as_array().cloned()).unwrap_or_default()
}

/// Returns the answers in a request: assistant messages, or runs of the model's own items.
fn answers(request: &Recorded) -> Vec<Vec<Value>> {
    let sent = sent(request);
    if !request.sent()["messages"].is_null() {
        let own = sent.iter().filter(|message| message["role"] == "assistant");
        return own.map(|message| message["content"].as_array().cloned().unwrap_or_default()).collect();
    }
    let is_own = |item: &Value| item["type"] != "function_call_output" && item["role"] != "user";
    let runs = sent.chunk_by(|one, next| is_own(one) == is_own(next));
    runs.filter(|run| is_own(&run[0])).map(<[Value]>::to_vec).collect()
}

/// Counts the answers with thinking, and all answers in a request.
fn count_with_thinking(request: &Recorded) -> (usize, usize) {
    let thinks = |part: &Value| ["thinking", "redacted_thinking", "reasoning"].iter().any(|kind| part["type"] == *kind);
    let answers = answers(request);
    (answers.iter().filter(|answer| answer.iter().any(thinks)).count(), answers.len())
}

/// Asserts that each answer still has its thinking.
#[track_caller]
fn assert_all_have_thinking(request: &Recorded) {
    let (with_thoughts, all) = count_with_thinking(request);
    assert!(all > 0 && with_thoughts == all, "{with_thoughts} of {all}: {:#}", request.body);
}

#[tokio::test]
async fn api_key_variable_alone_configures_the_model() {
    for (provider, key, address, more) in [
        (Some(Provider::Anthropic), "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", None),
        (Some(Provider::Anthropic), "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", Some(("MODEL_BASIC_WIRE", "anthropic"))),
        (None, "OPENAI_API_KEY", "OPENAI_BASE_URL", None),
    ] {
        let model = ModelServer::start().await;
        let url = provider.map_or_else(|| model.base_url(), |_| model.root_url());
        if let Some(provider) = provider {
            model.acts_as(provider);
        }
        let mut home = TempHome::new();
        for (name, value) in [(address, url.as_str()), (key, "sk-s3cret")].into_iter().chain(more) {
            home.set(name, value);
        }
        let daemon = TempDaemon::start_in(home).await;
        model.reply(Reply::text("Hello."));
        assert_eq!(daemon.ok(["run", "hi"]).await.stdout.trim(), "Hello.", "{key} {more:?}");
        let last_request = model.requests().pop().unwrap();
        let sent = last_request.headers.get("x-api-key").or(last_request.headers.get("authorization"));
        assert!(sent.is_some_and(|sent| sent.ends_with("sk-s3cret")), "{key} {more:?}: {sent:?}");
        assert!(!daemon.log().contains("s3cret"), "{}", daemon.log());
    }
}

#[tokio::test]
async fn reasoning_is_kept_across_steps_turns_and_a_kill() {
    for provider in BOTH {
        let mut world = World::start(provider).await;
        world.turn("Read.", vec![reads(&["a"]), reads(&["b", "c", "d"]), Reply::text("Done.")]).await;
        world.daemon.kill9().await;
        world.daemon.restart().await;
        world.turn("Read on.", steps(9)).await;
        world.turn("And more.", steps(2)).await;
        assert_requests_grow(&world.model);
        assert_all_have_thinking(&world.last());
        if provider == Provider::Anthropic {
            assert_markers_at_previous_end(&world.model.requests());
            continue;
        }
        let answer_items = sent(&world.last()).into_iter().filter(|item| item["role"] == "assistant");
        let phases: Vec<Value> = answer_items.map(|item| item["phase"].clone()).collect();
        assert!(phases.contains(&json!("commentary")) && phases.contains(&json!("final_answer")), "{phases:?}");
        assert!(!phases.contains(&Value::Null), "{phases:?}");
        for request in world.model.requests() {
            assert_eq!(request.sent()["prompt_cache_key"], world.session.as_deref().unwrap());
            assert_eq!((&request.sent()["store"], request.sent().get("previous_response_id")), (&json!(false), None));
        }
    }
}

/// Checks that each request has a cache marker where the previous request ended, and one at its end.
fn assert_markers_at_previous_end(requests: &[Recorded]) {
    let marked =
        |message: &Value| message["content"].as_array().unwrap().iter().any(|block| !block["cache_control"].is_null());
    for pair in requests.windows(2) {
        let [before, next] = [sent(&pair[0]), sent(&pair[1])];
        assert!(marked(before.last().unwrap()) && marked(&next[before.len() - 1]), "{:#}", pair[1].body);
        assert_eq!(next.iter().filter(|message| marked(message)).count(), 2);
    }
}

#[tokio::test]
async fn server_accepts_mentions_uploads_and_many_pictures() {
    for (provider, picture) in
        [(Provider::Anthropic, r#""type":"image""#), (Provider::OpenAi, r#""type":"input_image""#)]
    {
        let mut world = World::with(provider, ", sees_pictures: true", "").await;
        world.turn("Read.", steps(1)).await;
        for number in 0..24 {
            world.upload(&format!("{number}.png"), RED).await;
            if number % 8 == 0 {
                world.turn("Look at it with @read_file.", steps(1)).await;
            }
        }
        world.upload("notes.txt", b"short words\n").await;
        world.turn("And these.", steps(2)).await;
        let last = world.last();
        let pictures = last.text.matches(picture).count();
        assert!((1..=20).contains(&pictures), "{provider:?}: {pictures}");
        assert!(last.text.contains("short words"), "{provider:?}");
    }
}

#[tokio::test]
async fn server_accepts_undo_and_compactions_with_kept_reasoning() {
    for provider in BOTH {
        let mut world = World::start(provider).await;
        let write = Reply::tool_call("write_file", json!({"path": "/project/new.txt", "content": "new\n"}));
        world.turn("Write.", vec![reads(&["a"]), write, Reply::text("Done.")]).await;
        world.ctl(&["undo"]).await;
        for _ in 0..2 {
            world.turn("Read.", steps(3)).await;
        }
        assert_all_have_thinking(&world.last());
        world.model.reply(Reply::text("They read files."));
        world.ctl(&["compact"]).await;
        world.turn("And now?", steps(3)).await;
        assert!(
            count_with_thinking(&world.last()).0 >= 3,
            "reasoning after the summary is missing: {:#}",
            world.last().body
        );
        world.ctl(&["compact", "--undo"]).await;
        world.turn("All of it?", steps(2)).await;
        assert!(count_with_thinking(&world.last()).0 >= 9, "{:#}", world.last().body);
    }
}

#[tokio::test]
async fn server_accepts_subagents_and_their_parent() {
    for provider in BOTH {
        let mut world = World::start(provider).await;
        world.model.respond_with(|request| {
            let body = request.sent();
            let prompts = [&body["instructions"], &body["system"][0]["text"]];
            let is_subagent =
                prompts.iter().any(|prompt| prompt.as_str().is_some_and(|it| it.contains("You are a subagent")));
            let has_results =
                ["\"tool_result\"", "\"function_call_output\""].iter().any(|it| request.text.contains(it));
            match (is_subagent, has_results) {
                (true, false) => reads(&["a"]),
                (true, true) => Reply::text("Each thing was looked at and found in order. ".repeat(10)),
                (false, false) => Reply::tool_call("delegate_task", json!({"task": "Read a."}))
                    .and_call("delegate_task", json!({"task": "Read it as well."})),
                (false, true) => Reply::text("Both are done."),
            }
        });
        assert_eq!(world.turn("Give it away.", Vec::new()).await["text"], "Both are done.", "{provider:?}");
        world.turn("Thanks.", Vec::new()).await;
        let requests = world.model.requests();
        assert!(requests.len() >= 7, "{provider:?}: {}", requests.len());
        let keys: std::collections::HashSet<String> =
            requests.iter().map(|request| request.sent()["prompt_cache_key"].to_string()).collect();
        assert_eq!(
            keys.len(),
            if provider == Provider::OpenAi { 3 } else { 1 },
            "the cache keys are not distinct: {keys:?}"
        );
    }
}

#[tokio::test]
async fn last_answer_at_a_limit_lists_tools_and_forbids_them() {
    for (provider, forbids) in [(Provider::Anthropic, json!({"type": "none"})), (Provider::OpenAi, json!("none"))] {
        let mut world = World::start(provider).await;
        let called = Reply { text: "I look.".to_owned(), ..reads(&["a"]) };
        let replies = vec![reads(&["a"]), called, Reply::text("That is all.")];
        world.turn_that_exits(6, "Read.", &["--max-steps", "2"], replies).await;
        let last = world.last().sent();
        assert_eq!(last["tool_choice"], forbids);
        assert!(last["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{provider:?}");
        world.turn("Go on.", steps(1)).await;
    }
}

#[tokio::test]
async fn length_limited_answer_continues_and_a_refusal_ends_the_turn() {
    for provider in BOTH {
        let mut world = World::start(provider).await;
        let half = json!("{\"path\": \"/project/a.txt\", \"content\": \"half of");
        let part = json!({"path": "/project/new.txt", "content": "a part"});
        let replies = vec![
            Reply::tool_call("write_file", half).finish("length"),
            Reply::tool_call("write_file", part),
            Reply::text("The first half ").finish("length"),
            Reply::text("and the second."),
        ];
        let result = world.turn("Write it.", replies).await;
        assert!(result["text"].as_str().unwrap().contains("the second"), "{provider:?}: {result:#}");
        assert_eq!(world.daemon.read("project/a.txt"), "the words of a\n", "the truncated call has run");
        let filter = if provider == Provider::OpenAi { "content_filter" } else { "refusal" };
        for reason in ["refusal", filter] {
            let refusal = Reply::text("I must not").finish(reason);
            let result = world.turn_that_exits(7, "And?", &[], vec![refusal]).await;
            assert_eq!(result["stop_reason"], "filtered", "{reason}: {result:#}");
        }
        world.turn("Something else.", steps(1)).await;
    }
}

#[tokio::test]
async fn window_overflow_during_an_answer_triggers_a_compaction() {
    let mut world = World::start(Provider::Anthropic).await;
    for _ in 0..3 {
        world.turn("Read.", steps(2)).await;
    }
    world.model.default_reply(Reply::text("All of it."));
    let full = Reply::text("Half of it").finish("model_context_window_exceeded");
    let result = world.turn("Tell.", vec![full]).await;
    assert_eq!((&result["text"], &result["compactions"][0]["cause"]), (&json!("All of it."), &json!("overflow")));
}

/// The real server rejects data that it has signed or encrypted itself if the key or organisation differs.
#[tokio::test]
async fn session_survives_a_refusal_of_its_reasoning() {
    const BOUND: &str = "messages.1.content.0: The block is bound to a different conversation";
    const UNREADABLE: &str =
        "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted.";
    for provider in BOTH {
        let mut world = World::start(provider).await;
        world.turn("Read.", steps(2)).await;
        world.model.lenient();
        let has_old = move |request: &Recorded| match provider {
            Provider::OpenAi => request.text.contains("rs_0001"),
            _ => sent(request).get(1).is_some_and(|answer| answer.to_string().contains("signature")),
        };
        world.model.respond_with(move |request| match (has_old(request), provider) {
            (false, _) => Reply::text("Here I am."),
            (true, Provider::OpenAi) => Reply::responses_error(400, "invalid_encrypted_content", UNREADABLE),
            (true, _) => Reply::messages_error(400, "invalid_request_error", BOUND),
        });
        for _ in 0..2 {
            assert_eq!(world.turn("Are you there?", Vec::new()).await["text"], "Here I am.", "{provider:?}");
        }
        // The server rejects the reasoning only once, because it is not sent again.
        let old = world.model.requests().iter().filter(|request| has_old(request)).count();
        assert_eq!(old, 3, "expected two requests of the first turn and one refused request");
        assert!(count_with_thinking(&world.last()).0 > 0, "new reasoning is missing");
    }
}

#[tokio::test]
async fn megabyte_of_reasoning_is_sent_back_after_a_kill() {
    let mut world = World::start(Provider::OpenAi).await;
    let large = "x/\u{e9}".repeat(200_000);
    let thought = json!({"id": "rs_large", "type": "reasoning", "summary": [], "encrypted_content": large});
    let call = json!({"type": "function_call", "id": "fc_large", "call_id": "call_large", "name": "read_file",
        "arguments": "{\"path\": \"/project/a.txt\"}"});
    let reply = Reply::items([thought, call]);
    world.turn("Read.", vec![reply, Reply::text("Done.")]).await;
    world.daemon.kill9().await;
    world.daemon.restart().await;
    world.turn("Read on.", steps(2)).await;
    assert_requests_grow(&world.model);
    let last = world.last();
    assert!(last.text.contains("rs_large") && last.text.len() > 1_000_000, "{} bytes", last.text.len());
}
