//! Costs of whole sessions, compared with the servers' own figures for each request, whether or not the request
//! succeeds.

use std::sync::Mutex;

use agentd_testkit::proxy::{ProxyBehaviour, TestProxy};

use super::*;

/// Prices per token in micro-dollars: input, cache read, cache write, cache write for an hour, output.
const BASE_PRICES: [u64; 5] = [10, 1, 12, 25, 50];
/// Prices for requests with more tokens than the threshold.
const LONG_PRICES: [u64; 5] = [20, 2, 24, 50, 75];
const LONG_THRESHOLD: u64 = 200_000;

/// Token counts of one request, as reported by the server.
#[derive(Debug, Clone, Copy)]
struct Counts {
    fresh: u64,
    cached: u64,
    written: u64,
    hour: u64,
    answer: u64,
}

impl Counts {
    fn prompt(self) -> u64 {
        self.fresh + self.cached + self.written + self.hour
    }

    fn charge(self) -> u64 {
        let prices = if self.prompt() > LONG_THRESHOLD { LONG_PRICES } else { BASE_PRICES };
        let tokens = [self.fresh, self.cached, self.written, self.hour, self.answer];
        tokens.iter().zip(prices).map(|(tokens, price)| tokens * price).sum()
    }

    /// Returns the counts under the names of Messages or chat completions. Usage over Responses is rendered from these
    /// counts.
    fn usage(self, wire: &str) -> Value {
        let Self { fresh, cached, written, hour, answer } = self;
        if wire == "anthropic" {
            return json!({
                "input_tokens": fresh, "output_tokens": answer, "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": written + hour,
                "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": hour},
            });
        }
        json!({
            "prompt_tokens": self.prompt(), "completion_tokens": answer,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        })
    }
}

/// Total costs charged by a server, and the kinds of its requests.
#[derive(Debug, Default)]
struct Bill {
    money: u64,
    prompt: u64,
    kinds: Vec<&'static str>,
}

fn answer(wire: &str, bill: &Mutex<Bill>, request: &Recorded) -> Reply {
    let mut bill = bill.lock().unwrap();
    let text = &request.text;
    let number = u64::try_from(bill.kinds.len()).unwrap();
    let last = text.contains("This message comes from the daemon");
    let has_kind = |kind| bill.kinds.contains(&kind);
    let (kind, reply) = if last || text.contains("<history>") {
        ("summary", Reply::text("## What the person wants\nA tidy house."))
    } else if text.contains("You are a subagent") {
        ("subagent", Reply::text("Each thing was looked at and found in order. ".repeat(10)))
    } else if text.contains("Have it done") && !has_kind("call") {
        ("call", Reply::tool_call("delegate_task", json!({"task": "Look at each thing"})))
    } else if text.contains("Break off") && !has_kind("broken") {
        // Over Responses, a failure includes the counts. Over the other wires, the counts are sent before the stream
        // breaks off.
        let end = if wire == "responses" { "failed" } else { "" };
        ("broken", Reply::text("Half an answer").finish(end).without_done())
    } else if text.contains("A long one") && !has_kind("long") {
        ("long", Reply::text("Done."))
    } else {
        ("plain", Reply::text("Done."))
    };
    // The count exceeds any estimate, so that no server appears to have truncated a request.
    let fresh = if kind == "long" { LONG_THRESHOLD } else { 30_000 + 70 * number };
    // Only Messages counts cache writes for an hour, and the initial count over Messages includes one output token.
    let hour = if wire == "anthropic" { 30 + number } else { 0 };
    let answer = if wire == "anthropic" && kind == "broken" { 1 } else { 20 + number };
    let counts = Counts { fresh, cached: 300 + number, written: 200 + number, hour, answer };
    bill.money += counts.charge();
    bill.prompt += counts.prompt();
    bill.kinds.push(kind);
    reply.with_usage(UsagePlace::Tail, counts.usage(wire))
}

fn prices() -> Value {
    let of = |[input, cached, written, hour, output]: [u64; 5]| json!({"input": input, "cached_input": cached, "cache_write": written, "cache_write_1h": hour, "output": output});
    let (mut prices, mut tier) = (of(BASE_PRICES), of(LONG_PRICES));
    tier["above"] = LONG_THRESHOLD.into();
    prices["tiers"] = json!([tier]);
    prices
}

fn home(wire: &str, base_url: &str) -> TempHome {
    let home = TempHome::new();
    let slot = json!({"base_url": base_url, "wire": wire, "id": "m", "context_window": 1_000_000, "prices": prices()});
    home.write("config/models.yaml", format!("{:#}", json!({ "base": slot })));
    home
}

async fn run(daemon: &TempDaemon, session: &mut Option<String>, input: &str) -> Value {
    let mut args = vec!["run", input, "--output", "json"];
    args.extend(session.iter().flat_map(|id| ["--session", id.as_str()]));
    let result = daemon.ok(args).await.json();
    *session = result["session_id"].as_str().map(str::to_owned);
    result
}

#[tokio::test]
async fn session_cost_equals_the_servers_charge_on_every_wire() {
    for wire in ["openai", "responses", "anthropic"] {
        let (model, bill) = (ModelServer::start().await, Arc::new(Mutex::new(Bill::default())));
        let charged = Arc::clone(&bill);
        model.respond_with(move |request| answer(wire, &charged, request));
        let mut daemon = TempDaemon::start_in(home(wire, &model.base_url())).await;
        let mut session = None;
        for number in 0..8 {
            run(&daemon, &mut session, &format!("Always be brief.\n\nPiece of work {number}")).await;
        }
        let id = session.clone().unwrap();
        for input in ["Have it done", "Break off", "", "And now?", "A long one"] {
            if input.is_empty() {
                daemon.ok(["compact", &id]).await;
                continue;
            }
            let before = bill.lock().unwrap().money;
            let result = run(&daemon, &mut session, input).await;
            let spent = bill.lock().unwrap().money - before;
            assert_eq!(result["usage"]["cost_microusd"], json!(spent), "{wire} {input}: {result:#}");
        }

        let (money, prompt) = {
            let bill = bill.lock().unwrap();
            let request_kinds = bill.kinds.join(" ");
            has_all(&request_kinds, &["call", "subagent", "broken", "long", "summary"]);
            assert_eq!(bill.kinds.len(), model.requests().len(), "{wire}");
            (bill.money, bill.prompt)
        };
        daemon.crash().await;
        let report = daemon.json(["usage", "--by", "session"]).await;
        let total = &report["total"];
        holds(total, json!({"cost_microusd": money, "prompt_tokens": prompt}));
        assert_eq!((&report["groups"][0]["name"], &total["unpriced_calls"]), (&json!(id), &Value::Null), "{report:#}");
        let shown = daemon.json(["sessions", "show", &id]).await;
        assert!(shown.to_string().contains(&format!("\"cost_microusd\":{money}")), "{wire} {money}: {shown:#}");
    }
}

#[tokio::test]
async fn cancelled_answer_is_charged_for_its_counted_tokens() {
    let model = ModelServer::start().await;
    let counts = Counts { fresh: 9000, cached: 300, written: 200, hour: 100, answer: 1 };
    model.reply(
        Reply::text("Half an answer").with_usage(UsagePlace::Tail, counts.usage("anthropic")).hang_after_text("Half"),
    );
    let daemon = TempDaemon::start_in(home("anthropic", &model.base_url())).await;
    let mut running = daemon.spawn_agentctl(["run", "Hello", "--output", "stream-json"]);
    running.event("item_delta").await;
    running.signal(Signal::SIGINT);
    running.output(Vec::new()).await;
    let total = until("the call is counted", || async {
        let total = daemon.json(["usage"]).await["total"].clone();
        (total["calls"] == 1).then_some(total)
    })
    .await;
    assert_eq!(total["cost_microusd"], json!(counts.charge()), "{total:#}");
    holds(&total, json!({"prompt_tokens": 9600, "unpriced_calls": null}));
}

#[tokio::test]
async fn openrouter_gets_cache_marks_for_claude_and_its_charge_counts() {
    let model = ModelServer::start().await;
    let listed = json!({
        "id": "anthropic/claude-x", "context_length": 200_000,
        "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
    });
    let other = json!({"id": "other/m", "context_length": 200_000});
    model
        .acts_as(Provider::OpenRouter)
        .serves("/api/v1/models", agentd_testkit::model_server::listing([listed, other]));
    let usage = json!({
        "prompt_tokens": 9000, "completion_tokens": 20, "cost": 0.012_345_6, "is_byok": false,
        "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 8000},
        "cost_details": {"upstream_inference_cost": 0.5},
    });
    model.respond_with(move |request| {
        let reply = match request.last_role() {
            "user" => Reply::tool_call("list_files", json!({})),
            _ => Reply::text("Done."),
        };
        reply.with_usage(UsagePlace::LastChunk, usage.clone())
    });
    let proxy =
        TestProxy::start(ProxyBehaviour::Leads(model.root_url().trim_start_matches("http://").parse().unwrap())).await;
    let mut home = TempHome::new();
    home.set("http_proxy", format!("http://{}", proxy.place()));
    let slot = |id: &str| json!({"base_url": "http://openrouter.ai/api/v1", "id": id});
    let mut unknown = slot("anthropic/claude-x");
    unknown["base_url"] = format!("{}/api/v1", model.root_url()).into();
    let slots = json!({"base": slot("anthropic/claude-x"), "code": slot("other/m"), "chat": unknown});
    home.write("config/models.yaml", format!("{slots:#}"));
    let daemon = TempDaemon::start_in(home).await;

    let result = daemon.ok(["run", "Look", "--model", "base", "--output", "json"]).await.json();
    assert_eq!(result["usage"]["cost_microusd"], json!(2 * 12_346), "{result:#}");
    assert_eq!(result["usage"]["cache_write_tokens"], json!(16_000), "{result:#}");
    let requests = model.requests();
    let marked = |request: &Recorded| -> Vec<usize> {
        let messages = request.messages().iter().enumerate();
        let is_marked =
            |message: &Value| message["content"].to_string().contains(r#""cache_control":{"type":"ephemeral"}"#);
        messages.filter(|(_, message)| is_marked(message)).map(|(at, _)| at).collect()
    };
    assert_eq!((marked(&requests[0]), requests[0].body["usage"]["include"] == true), (vec![0, 1], true));
    // The second request has the markers of the first request, and one more marker after the result.
    assert_eq!(marked(&requests[1]), [0, 1, 3], "{:#}", requests[1].body);
    assert_eq!(requests[1].last_role(), "tool");
    daemon.ok(["models", "show", "base"]).await.shows(&["in $3, cached $0.3, out $15", "its server"]);

    // Other models get no markers. Other servers get neither markers nor the request for costs, as their costs are not
    // trusted.
    for (slot, asks, cost) in [("code", true, Some(12_346)), ("chat", false, Some(26_730 + 300))] {
        model.reply(Reply::text("Done.").with_usage(
            UsagePlace::LastChunk,
            json!({
                "prompt_tokens": 9000, "completion_tokens": 20, "cost": 0.012_345_6,
                "prompt_tokens_details": {"cached_tokens": 100},
            }),
        ));
        let result = daemon.ok(["run", "Look", "--model", slot, "--output", "json"]).await.json();
        assert_eq!(result["usage"]["cost_microusd"], json!(cost), "{slot}: {result:#}");
        let request = model.requests().pop().unwrap();
        assert_eq!((marked(&request), request.body["usage"]["include"] == true), (vec![], asks), "{slot}");
    }
}
