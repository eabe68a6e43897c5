//! Properties of a model server that the daemon detects, stores for its next start, shows to users, and tests on
//! request.

use super::*;

/// Counts tokens as this server does.
fn tokens(request: &Recorded) -> u64 {
    ((request.body["messages"].to_string().len() + request.body["tools"].to_string().len()) / 4) as u64
}

/// Adds token usage to a reply.
fn counted(reply: Reply, prompt_tokens: u64, cached_tokens: u64) -> Reply {
    let details = json!({ "cached_tokens": cached_tokens });
    let usage = json!({
        "prompt_tokens": prompt_tokens, "completion_tokens": 20, "prompt_tokens_details": details,
        // The same counts under the names used by Messages, because usage is sent unconverted. Messages therefore
        // reports no more than the other wires.
        "input_tokens": prompt_tokens, "cache_read_input_tokens": cached_tokens,
    });
    reply.with_usage(UsagePlace::Tail, usage)
}

fn prose(number: usize) -> String {
    (0..200).map(|line| format!("part {number} says in line {line} what the harbour has to do\n")).collect()
}

/// Replies by reading one file after the other, and then answers.
fn reads(request: &Recorded, count: usize) -> Reply {
    let all = request.body["messages"].to_string();
    match (0..count).find(|number| !all.contains(&format!("part {number} says in line 7"))) {
        Some(number) => Reply::tool_call("read_file", json!({"path": format!("/project/f{number}.txt")})),
        None => Reply::text("All read."),
    }
}

/// Makes the model read `count` files in one turn.
async fn read_all(world: &World, count: usize) -> Output {
    for number in 0..count {
        world.write(&format!("project/f{number}.txt"), prose(number));
    }
    let project = world.path().join("project");
    world.ok(["run", "Read all parts", "-C", project.to_str().unwrap(), "--output", "stream-json"]).await
}

#[tokio::test]
async fn silently_truncating_server_is_detected_reported_and_stored() {
    const REAL: u64 = 12_288;
    let mut world = World::start().await;
    let steps = std::sync::atomic::AtomicUsize::new(0);
    world.model.respond_with(move |request| {
        let step = steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let reply = if step < 6 { reads(request, 6) } else { Reply::text("All read.") };
        counted(reply, tokens(request).min(REAL), 0)
    });
    let output = read_all(&world, 6).await;
    let warnings = warnings(&output, "window_cut");
    assert_eq!(warnings.len(), 1, "{}", output.stdout);
    has_all(
        &warnings[0],
        &["reads only 12288 tokens", "OLLAMA_CONTEXT_LENGTH", "num_ctx", "MODEL_BASIC_CONTEXT_WINDOW"],
    );
    let window =
        |slots: Value| (slots[0]["model"]["context_window"].clone(), slots[0]["model"]["window_source"].clone());
    assert_eq!(world.json(["context"]).await["window"], REAL);
    let expected = (json!(REAL), json!("cut"));
    assert_eq!(window(world.json(["models"]).await), expected);
    world.ok(["doctor"]).await.shows(&["silently truncates requests to 12288 tokens"]);

    let file = world.data().join("model-facts.json");
    until("the window is stored", async || fs::read_to_string(&file).ok().filter(|text| text.contains("12288"))).await;
    world.daemon.crash().await;
    assert_eq!(window(world.json(["models"]).await), expected);

    // The window that the server reports is capped at the observed limit until the server reports a different value.
    world.model.lists([json!({"id": "scripted-model", "max_model_len": 65_536})]);
    world.daemon.crash().await;
    assert_eq!(window(world.json(["models"]).await), expected);
    until("the window is stored", async || fs::read_to_string(&file).ok().filter(|text| text.contains("65536"))).await;
    world.model.lists([json!({"id": "scripted-model", "max_model_len": 32_000})]);
    world.daemon.crash().await;
    assert_eq!(window(world.json(["models"]).await), (json!(32_000), json!("server")));
}

#[tokio::test]
async fn odd_token_counts_do_not_report_truncation() {
    let world = World::start().await;
    for kind in 0..3 {
        let last = std::sync::Mutex::new(0);
        world.model.respond_with(move |request| {
            let (whole, mut last) = (tokens(request), last.lock().unwrap());
            let before = std::mem::replace(&mut *last, whole).min(whole);
            match kind {
                // Cached tokens are excluded, reported separately, or not reported at all, depending on the server.
                0 => counted(reads(request, 5), whole - before, 0),
                1 => counted(reads(request, 5), whole - before, before),
                _ => Reply { usage_place: UsagePlace::Nowhere, ..reads(request, 5) },
            }
        });
        let output = read_all(&world, 5).await;
        assert!(warnings(&output, "window_cut").is_empty(), "{kind}: {}", output.stdout);
    }
    assert_eq!(world.json(["models"]).await[0]["model"]["window_source"], "default");
    world.ok(["doctor"]).await.shows(&["the size of its window is unknown, 32768 tokens"]);
}

/// Replies as a capable model on a well-behaved server.
fn good(request: &Recorded) -> Reply {
    let asked = request.last_user();
    let call = |reply: Reply, word: &str| reply.and_call("note_word", json!({ "word": word }));
    let reply = match () {
        () if request.last_role() == "tool" => Reply::text("OK"),
        () if asked.contains("twice in parallel") => call(call(Reply::default(), "heron"), "plover"),
        () if asked.contains("Call the tool") => call(Reply::default(), "heron"),
        () if asked.contains("code word") => Reply::text("heron-4127"),
        () => Reply::text("OK"),
    };
    counted(reply, tokens(request), if asked.contains("code word") { 6000 } else { 0 })
}

/// Runs the checks. Returns a function that maps a check's name to its state and message.
async fn checks(daemon: &TempDaemon, code: i32) -> impl Fn(&str) -> (String, String) {
    let checks = daemon.agentctl(["models", "test", "--json"]).await.exits(code).json();
    move |name: &str| {
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name} in {checks:#}"));
        let text = |field: &str| check[field].as_str().unwrap_or_default().to_owned();
        (text("state"), format!("{} {}", text("message"), text("hint")))
    }
}

#[tokio::test]
async fn models_test_passes_for_a_good_model() {
    let model = ModelServer::start().await;
    model.lists([json!({"id": "good", "max_model_len": 65_536})]).respond_with(good);
    let daemon = TempDaemon::start(&model.base_url()).await;
    let of = checks(&daemon, 0).await;
    let names = ["reachable", "tools", "parallel calls", "thoughts", "window", "silent cut", "cache", "parameters"];
    for name in names {
        assert_eq!(of(name).0, "ok", "{name}: {:?}", of(name));
    }
    assert_eq!((of("pictures").0, of("price").0), ("skipped".to_owned(), "skipped".to_owned()));
    assert!(of("window").1.contains("65536") && of("cache").1.contains("6000 of"), "{:?}", of("cache"));
    let asked: u64 = model.requests().iter().map(tokens).sum();
    daemon.ok(["models", "test"]).await.says(&["testing good: at most 6 requests, about 15,"]);
    assert!(model.requests().len() <= 12 && asked < 20_000, "{asked}");
}

#[tokio::test]
async fn models_test_checks_pictures_and_reports_the_price() {
    let model = ModelServer::start().await;
    model.lists([json!({"id": "good", "max_model_len": 65_536})]).respond_with(|request| {
        let shows = request.text.contains("iVBORw0KGgo");
        if shows { counted(Reply::text("Red."), 100, 0) } else { good(request) }
    });
    let home = TempHome::with_model(&model.base_url());
    home.write("config/models.yaml", "base: {sees_pictures: true, prices: {input: 3, output: 15}}");
    let daemon = TempDaemon::start_in(home).await;
    let of = checks(&daemon, 0).await;
    assert_eq!(of("pictures").0, "ok", "{:?}", of("pictures"));
    let (state, message) = of("price");
    assert!(state == "ok" && message.contains("about $0.0"), "{message}");
    model.respond_with(|request| {
        let shows = request.text.contains("iVBORw0KGgo");
        if shows { Reply::refusal(400, "this model takes no images") } else { good(request) }
    });
    let of = checks(&daemon, 1).await;
    assert!(of("pictures").0 == "fail" && of("pictures").1.contains("sees_pictures: false"), "{:?}", of("pictures"));
}

#[tokio::test]
async fn models_test_reports_problems_with_hints() {
    let model = ModelServer::start().await;
    model.respond_with(|request| {
        let body = &request.body;
        match () {
            () if body["tools"].is_array() => Reply::refusal(400, "model does not support tools"),
            () if !body["max_tokens"].is_null() => {
                Reply::refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
            }
            () if request.last_user().contains("<tool_result") => counted(Reply::text("OK"), 300, 0),
            () if request.last_user().contains("Call the tool") => {
                counted(Reply::text("{\"tool\": \"note_word\", \"args\": {\"word\": \"heron\"}}"), 300, 0)
            }
            () if request.last_user().contains("code word") => counted(Reply::text("I saw no code word."), 2048, 0),
            () => counted(Reply::text("OK"), 50, 0),
        }
    });
    // The errors have the form of chat completions.
    let mut home = TempHome::with_model(&model.base_url());
    home.set("MODEL_BASIC_WIRE", "openai");
    let daemon = TempDaemon::start_in(home).await;
    let of = checks(&daemon, 0).await;
    let check = |name: &str, state: &str, message: &str| {
        assert!(of(name).0 == state && of(name).1.contains(message), "{name}: {:?}", of(name));
    };
    check("tools", "warn", "--enable-auto-tool-choice");
    check("parallel calls", "skipped", "one at a time");
    check("thoughts", "ok", "accepted without earlier reasoning");
    check("window", "warn", "MODEL_BASIC_CONTEXT_WINDOW");
    check("silent cut", "warn", "only 2048 were read");
    check("cache", "warn", "no sign of a cache");
    check("parameters", "warn", "max_completion_tokens");
    assert_eq!(daemon.json(["models"]).await[0]["model"]["window_source"], "cut");

    // The test fails if the model makes no calls, and if the server is missing.
    model.respond_with(|request| counted(Reply::text("I would rather talk."), tokens(request), 0));
    let of = checks(&daemon, 1).await;
    assert!(of("tools").0 == "fail" && of("tools").1.contains("I would rather talk"), "{:?}", of("tools"));
    assert_eq!(of("parallel calls").0, "skipped");
    drop(model);
    let home = TempHome::with_model("http://127.0.0.1:9/v1");
    home.write("config/models.yaml", "base: {retries: 0}");
    let daemon = TempDaemon::start_in(home).await;
    let of = checks(&daemon, 1).await;
    assert!(of("reachable").0 == "fail" && of("reachable").1.contains("running"), "{:?}", of("reachable"));
}
