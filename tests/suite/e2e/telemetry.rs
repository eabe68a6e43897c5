//! Telemetry of turns: it is built from the journal, and each turn is exported once despite failures of the daemon or
//! the collector.

use agentd_testkit::collector::{Collector, CollectorBehaviour, ReceivedSpan};

use super::*;

/// Text that must not leave the host unless the user enables it.
const SECRET: &str = "zanzibar";

fn counted(reply: Reply, tokens: u64) -> Reply {
    let details = json!({"cached_tokens": 4});
    let usage = json!({"prompt_tokens": tokens, "completion_tokens": 20, "prompt_tokens_details": details});
    reply.with_usage(UsagePlace::Tail, usage)
}

/// Replies as a main agent that delegates two tasks and reads a missing file, or as a subagent that answers.
fn answers(request: &Recorded) -> Reply {
    match (is_subagent(request), request.last_role()) {
        (true, _) => counted(Reply::text(format!("The {SECRET} was looked at and found in order. ").repeat(10)), 300),
        (false, "tool") => counted(Reply::text(format!("All of {SECRET} is done.")), 200),
        _ => {
            let task = |which: &str| json!({"task": format!("Look at the {which} {SECRET}")});
            let reply = Reply::tool_call("delegate_task", task("left"))
                .and_call("delegate_task", task("right"))
                .and_call("read_file", json!({"path": format!("{SECRET}.txt")}));
            counted(reply, 100)
        }
    }
}

async fn model() -> ModelServer {
    let model = ModelServer::start().await;
    model.respond_with(answers);
    model
}

fn home(model: &ModelServer, variables: &[(&str, &str)]) -> TempHome {
    let mut home = TempHome::with_model(&model.base_url());
    home.write("config/models.yaml", "base:\n  id: dear\n  prices: {input: 1.0, cached_input: 0.1, output: 2.0}\n");
    variables.iter().for_each(|(name, value)| home.set(name, *value));
    home
}

async fn ask(daemon: &TempDaemon) -> Value {
    daemon.ok(["run", &format!("Have the {SECRET} done"), "--output", "json"]).await.json()
}

/// Waits until `count` user turns have arrived, and returns all spans.
async fn turns(collector: &Collector, count: usize) -> Vec<ReceivedSpan> {
    let is_turn = |span: &&ReceivedSpan| span.name == "invoke_agent main";
    until("the spans have arrived", || async {
        let spans = collector.spans();
        (spans.iter().filter(is_turn).count() >= count).then_some(spans)
    })
    .await
}

fn sum(spans: &[ReceivedSpan], name: &str) -> f64 {
    let calls = spans.iter().filter(|span| span.name.starts_with("chat "));
    calls.filter_map(|span| span.attributes.get(name)).filter_map(Value::as_f64).sum()
}

/// Checks that the spans of a turn form a tree without duplicates, whose sums match the turn's result.
#[track_caller]
fn check(spans: &[ReceivedSpan], result: &Value) {
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "a span was exported twice: {spans:#?}");
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    spans.iter().for_each(|span| *names.entry(span.name.as_str()).or_default() += 1);
    let expected = [
        ("chat dear", 4),
        ("execute_tool delegate_task", 2),
        ("execute_tool read_file", 1),
        ("invoke_agent main", 1),
        ("invoke_agent subagent", 2),
    ];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    let by_id = |id: &str| spans.iter().find(|span| span.id == id);
    let above = |name: &str| -> BTreeSet<String> {
        let spans = spans.iter().filter(|span| span.name == name);
        spans.filter_map(|span| Some(by_id(&span.parent)?.name.clone())).collect()
    };
    assert_eq!(above("invoke_agent subagent"), BTreeSet::from(["execute_tool delegate_task".to_owned()]));
    assert_eq!(above("execute_tool delegate_task"), BTreeSet::from(["invoke_agent main".to_owned()]));
    assert_eq!(above("chat dear").len(), 2, "calls of the turn and of its subagents");
    for span in spans {
        assert!(span.time.0 <= span.time.1, "{span:#?}");
        assert_eq!(span.trace, spans[0].trace);
        if let Some(parent) = by_id(&span.parent) {
            assert!(parent.time.0 <= span.time.0 && span.time.1 <= parent.time.1, "{span:#?} in {parent:#?}");
        }
    }
    let root = spans.iter().find(|span| span.name == "invoke_agent main").unwrap();
    let usage = &result["usage"];
    for (attribute, key) in [
        ("gen_ai.usage.input_tokens", "prompt_tokens"),
        ("gen_ai.usage.output_tokens", "completion_tokens"),
        ("gen_ai.usage.cache_read.input_tokens", "cached_tokens"),
    ] {
        assert_eq!(sum(spans, attribute), usage[key].as_f64().unwrap(), "{attribute}");
        assert_eq!(root.attributes[attribute], usage[key], "{attribute}");
    }
    let cost = usage["cost_microusd"].as_f64().unwrap() / 1e6;
    assert!((sum(spans, "agentd.cost.usd") - cost).abs() < 1e-9);
    assert_eq!(root.attributes["gen_ai.conversation.id"], result["session_id"]);
    let failed: Vec<&str> = spans.iter().filter(|span| span.is_error).map(|span| span.name.as_str()).collect();
    assert_eq!(failed, ["execute_tool read_file"]);
}

#[tokio::test]
async fn spans_of_a_turn_are_sent_once_without_content() {
    let (model, collector) = (model().await, Collector::start().await);
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=hushhush%2B1");
    let service = [("OTEL_SERVICE_NAME", "shop"), ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=dev")];
    let endpoint = collector.http();
    let home = home(&model, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), headers, service[0], service[1]]);
    let daemon = TempDaemon::start_in(home).await;
    let result = ask(&daemon).await;
    let spans = turns(&collector, 1).await;
    check(&spans, &result);
    let resource = &spans[0].resource;
    assert_eq!((&resource["service.name"], &resource["deployment.environment"]), (&json!("shop"), &json!("dev")));
    assert!(!format!("{spans:?}").contains(SECRET), "{spans:#?}");
    let chat = spans.iter().find(|span| span.name == "chat dear").unwrap();
    assert_eq!((chat.kind, &chat.attributes["gen_ai.operation.name"]), (3, &json!("chat")));
    assert!(chat.attributes["gen_ai.response.time_to_first_chunk"].as_f64().unwrap() >= 0.0);
    assert_eq!(chat.attributes["server.address"], "127.0.0.1");

    // The sums of the metrics match those of the spans.
    let points = until("the metrics have arrived", || async {
        Some(collector.points()).filter(|points| points.iter().any(|it| it.name == "gen_ai.invoke_agent.duration"))
    })
    .await;
    let of = |name: &'static str| points.iter().filter(move |point| point.name == name);
    let spent: f64 = of("gen_ai.client.inference.usage.input_tokens").map(|point| point.value).sum();
    assert_eq!(spent, result["usage"]["prompt_tokens"].as_f64().unwrap());
    assert_eq!(of("gen_ai.client.inference.duration").map(|point| point.count).sum::<u64>(), 4);
    assert_eq!(of("gen_ai.execute_tool.duration").map(|point| point.count).sum::<u64>(), 3);
    assert_eq!(of("gen_ai.invoke_agent.duration").map(|point| point.count).sum::<u64>(), 3);

    // The key is sent to the collector, but never shown.
    let requests = collector.requests();
    assert!(requests.iter().all(|(_, headers)| headers["x-api-key"] == "hushhush+1"), "{requests:#?}");
    assert!(!daemon.log().contains("hushhush"), "{}", daemon.log());
}

#[tokio::test]
async fn client_trace_is_continued_and_content_sent_if_enabled() {
    let (model, collector) = (model().await, Collector::start().await);
    let grpc = collector.grpc();
    let home = home(
        &model,
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &grpc),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ],
    );
    let daemon = TempDaemon::start_in(home).await;
    let mut command = daemon.agentctl_command(["run", "Have it done"]);
    command.env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    Running::spawn(command).output(Vec::new()).await.exits(0);
    let spans = turns(&collector, 1).await;
    assert!(spans.iter().all(|span| span.trace == "0af7651916cd43dd8448eb211c80319c"), "{spans:#?}");
    let root = spans.iter().find(|span| span.name == "invoke_agent main").unwrap();
    assert_eq!(root.parent, "b7ad6b7169203331");
    assert!(root.attributes["gen_ai.input.messages"].as_str().unwrap().contains("Have it done"));
    let tool = spans.iter().find(|span| span.name == "execute_tool read_file").unwrap();
    assert!(tool.attributes["gen_ai.tool.call.arguments"].as_str().unwrap().contains(SECRET));
    assert!(collector.points().is_empty(), "metrics were exported without an endpoint");
}

#[tokio::test]
async fn unsent_turns_are_sent_after_a_kill_and_sent_ones_are_not() {
    let (model, collector) = (model().await, Collector::start().await);
    let endpoint = collector.http();
    let mut daemon = TempDaemon::start_in(home(&model, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).await;
    let first = ask(&daemon).await;
    let received = turns(&collector, 1).await;
    check(&received, &first);
    until("the position is on disk", || async {
        let text = fs::read_to_string(daemon.data().join("telemetry-traces.json")).ok()?;
        text.contains(first["turn_id"].as_str().unwrap()).then_some(())
    })
    .await;

    collector.set_behaviour(CollectorBehaviour::Answers(503));
    let second = ask(&daemon).await;
    daemon.kill9().await;
    collector.set_behaviour(CollectorBehaviour::Takes);
    daemon.restart().await;
    let spans = turns(&collector, 2).await;
    check(&spans[received.len()..], &second);

    // A turn that was interrupted by the kill is exported as interrupted.
    model.respond_with(|_| Reply::text("never").delay_ms(600_000));
    let requests_before = model.requests().len();
    let mut running = daemon.spawn_agentctl(["run", "Hello", "--output", "stream-json"]);
    until_true("the model is called", || model.requests().len() > requests_before).await;
    daemon.crash().await;
    let spans = turns(&collector, 3).await;
    let root = spans.iter().rev().find(|span| span.name == "invoke_agent main").unwrap();
    assert_eq!((root.is_error, &root.attributes["agentd.stop_reason"]), (true, &json!("interrupted")));
    running.end_input();
}

#[tokio::test]
async fn hanging_or_missing_collector_delays_no_turn_and_no_stop() {
    let (model, collector) = (model().await, Collector::start().await);
    collector.set_behaviour(CollectorBehaviour::Hangs);
    let endpoint = collector.http();
    let unreachable = "http://127.0.0.1:9";
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{endpoint}/v1/traces")),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", unreachable.to_owned()),
    ];
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let daemon = TempDaemon::start_in(home(&model, &variables)).await;
    for _ in 0..3 {
        assert_eq!(ask(&daemon).await["stop_reason"], "completed");
    }
    until_true("the collector was called", || !collector.requests().is_empty()).await;
    assert_eq!(daemon.sigterm().await, Some(0), "{}", daemon.log());
    assert!(collector.spans().is_empty());
}

#[tokio::test]
async fn telemetry_is_off_unless_configured() {
    let (model, collector) = (model().await, Collector::start().await);
    let endpoint = collector.http();
    let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_SDK_DISABLED", "true")];
    let daemon = TempDaemon::start_in(home(&model, &off)).await;
    ask(&daemon).await;
    assert!(!daemon.data().join("telemetry-traces.json").exists());
    assert_eq!(daemon.sigterm().await, Some(0));
    assert!(collector.requests().is_empty());

    // If telemetry is enabled later in the configuration, only later turns are exported.
    let home = home(&model, &[]);
    home.write("config/agentd.yaml", format!("telemetry: {{endpoint: \"{endpoint}\"}}\n"));
    let daemon = TempDaemon::start_in(home).await;
    let result = ask(&daemon).await;
    check(&turns(&collector, 1).await, &result);

    // Invalid settings are reported, but do not end the daemon.
    let wrong = TempDaemon::start_in(self::home(&model, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "hush://hush")])).await;
    ask(&wrong).await;
    let log = wrong.log();
    assert!(log.contains("telemetry is off: OTEL_EXPORTER_OTLP_ENDPOINT") && !log.contains("hush"), "{log}");
}

#[tokio::test]
async fn oversized_telemetry_is_sent_in_parts() {
    let (model, collector) = (model().await, Collector::start().await);
    collector.set_behaviour(CollectorBehaviour::AtMost(2500));
    let endpoint = collector.http();
    let daemon = TempDaemon::start_in(home(&model, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).await;
    let result = ask(&daemon).await;
    // The span of the turn itself is in the first part.
    let spans = until("all spans have arrived", || async { Some(collector.spans()).filter(|it| it.len() == 10) }).await;
    check(&spans, &result);
}

#[tokio::test]
async fn invalid_setting_keeps_pending_turns_for_a_later_start() {
    let (model, collector) = (model().await, Collector::start().await);
    collector.set_behaviour(CollectorBehaviour::Answers(503));
    let endpoint = collector.http();
    let mut daemon = TempDaemon::start_in(home(&model, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).await;
    let mut command = daemon.agentctl_command(["run", "Leave it out"]);
    command.env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    Running::spawn(command).output(Vec::new()).await.exits(0);
    let due = ask(&daemon).await;
    assert_eq!(daemon.sigterm().await, Some(0));
    collector.set_behaviour(CollectorBehaviour::Takes);
    daemon.set("OTEL_EXPORTER_OTLP_TIMEOUT", "10s");
    daemon.restart().await;
    assert!(daemon.log().contains("telemetry is off: OTEL_EXPORTER_OTLP_TIMEOUT"), "{}", daemon.log());
    assert_eq!(daemon.sigterm().await, Some(0));
    // Pending data is exported once the setting is corrected.
    daemon.set("OTEL_EXPORTER_OTLP_TIMEOUT", "10000");
    daemon.restart().await;
    let spans = turns(&collector, 1).await;
    check(&spans, &due);
    assert!(spans.iter().all(|span| span.trace != "0af7651916cd43dd8448eb211c80319c"), "{spans:#?}");
}

#[tokio::test]
async fn imported_turns_are_not_sent() {
    let (model, collector) = (model().await, Collector::start().await);
    let endpoint = collector.http();
    let daemon = TempDaemon::start_in(home(&model, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).await;
    let first = ask(&daemon).await;
    let session = first["session_id"].as_str().unwrap();
    let file = daemon.path().join("a.tar.gz");
    let file = file.to_str().unwrap();
    daemon.ok(["sessions", "export", session, "-o", file]).await;
    daemon.ok(["sessions", "import", file, "--as-new"]).await;
    let second = ask(&daemon).await;
    let spans = turns(&collector, 2).await;
    let sessions: BTreeSet<&str> = spans
        .iter()
        .filter(|span| span.name == "invoke_agent main")
        .filter_map(|span| span.attributes["gen_ai.conversation.id"].as_str())
        .collect();
    assert_eq!(sessions, BTreeSet::from([session, second["session_id"].as_str().unwrap()]));
}
