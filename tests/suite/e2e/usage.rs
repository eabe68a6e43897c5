//! Tokens and costs of every model call, counted once by model, session, day and slot, at the prices in effect at the
//! time.

use super::*;

/// Cost of one response from the priced model: 600 uncached tokens, 400 cached tokens, and 20 output tokens.
const CALL: u64 = 600 + 40 + 40;

fn models(base_url: &str, input: f64) -> String {
    format!(
        "base:\n  id: dear\n  prices: {{input: {input}, cached_input: 0.1, output: 2.0}}\n\
         code:\n  base_url: {base_url}\n  id: nobody-knows\n"
    )
}

fn counted(reply: Reply) -> Reply {
    let details = json!({"cached_tokens": 400});
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": details});
    reply.with_usage(UsagePlace::Tail, usage)
}

fn answers(request: &Recorded) -> Reply {
    let is_subagent = is_subagent(request);
    let all = request.body["messages"].to_string();
    counted(match (is_subagent, request.last_role()) {
        (true, _) => Reply::text("Each thing was looked at and found in order. ".repeat(10)),
        (false, "user") if all.contains("Have it done") => {
            Reply::tool_call("delegate_task", json!({"task": "Look at each thing"}))
        }
        _ => Reply::text("Done."),
    })
}

async fn world() -> World {
    let model = ModelServer::start().await;
    model.respond_with(answers);
    let home = TempHome::with_model(&model.base_url());
    home.write("config/models.yaml", models(&model.base_url(), 1.0));
    let daemon = TempDaemon::start_in(home).await;
    World { model, daemon }
}

impl World {
    async fn usage(&self, args: &[&str]) -> Value {
        self.ok(["usage", "--json"].iter().chain(args)).await.json()
    }
}

/// Returns the names of the groups with their calls, unpriced calls, and costs.
fn groups(report: &Value) -> Vec<(String, u64, u64, Option<u64>)> {
    let groups = report["groups"].as_array().unwrap().iter();
    let of = |group: &Value| {
        let usage = &group["usage"];
        let unpriced = usage["unpriced_calls"].as_u64().unwrap_or_default();
        let name = group["name"].as_str().unwrap().to_owned();
        (name, usage["calls"].as_u64().unwrap(), unpriced, usage["cost_microusd"].as_u64())
    };
    groups.map(of).collect()
}

#[tokio::test]
async fn usage_counts_each_call_once_despite_kill_and_deletion() {
    let mut world = world().await;
    world.ok(["usage"]).await.says(&["no model calls"]);

    // The turn's result counts two calls in the session and one in its subagent.
    let result = world.ok(["run", "Have it done", "--output", "json"]).await.json();
    let usage = &result["usage"];
    holds(usage, json!({"cost_microusd": 3 * CALL, "calls": 3}));
    assert_eq!(usage["unpriced_calls"], Value::Null);
    let first = result["session_id"].as_str().unwrap().to_owned();
    let lines = world.ok(["run", "Hello", "--model", "code", "--output", "stream-json"]).await;
    let lines = lines.json_lines();
    let usage = &lines.last().unwrap()["usage"];
    holds(usage, json!({"cost_microusd": null, "unpriced_calls": 1}));
    let second = lines.last().unwrap()["session_id"].as_str().unwrap().to_owned();

    let models = [("dear".into(), 3, 0, Some(3 * CALL)), ("nobody-knows".into(), 1, 1, None)];
    let report = world.usage(&[]).await;
    assert_eq!(groups(&report), models, "{report:#}");
    let total = &report["total"];
    holds(total, json!({"cost_microusd": 3 * CALL, "unpriced_calls": 1}));
    holds(total, json!({"prompt_tokens": 4000, "cached_tokens": 1600}));
    let slots = [("base".into(), 3, 0, Some(3 * CALL)), ("code".into(), 1, 1, None)];
    assert_eq!(groups(&world.usage(&["--by", "slot"]).await), slots);
    let sessions = [(first.clone(), 3, 0, Some(3 * CALL)), (second.clone(), 1, 1, None)];
    assert_eq!(groups(&world.usage(&["--by", "session"]).await), sessions);
    let days = world.usage(&["--by", "day", "--since", "today"]).await;
    assert_eq!((groups(&days).len(), &days["since"], &days["total"]), (1, &days["until"], total));
    assert_eq!(groups(&world.usage(&["--since", "2020-01-01", "--until", "2020-12-31"]).await), []);

    let table = world.ok(["usage", "--since", "7d"]).await;
    has_all(
        &table.stdout,
        &["MODEL", "CACHED", "WRITTEN", "dear", "1,800", "$0.0021", "nobody-knows", "price unknown", "total"],
    );
    assert!(table.stdout.contains("and a call of unknown price"), "{}", table.stdout);
    table.says(&["days in", "the price of 1 call is unknown"]);
    world.ok(["sessions", "show", &second]).await.shows(&["price unknown"]);

    // Reported usage is still available after a kill, and only counted once. New prices apply to later calls.
    world.daemon.kill9().await;
    let base_url = world.model.base_url();
    world.write("config/models.yaml", self::models(&base_url, 100.0));
    world.daemon.restart().await;
    assert_eq!(world.usage(&[]).await, report);
    world.ok(["run", "Again", "--model", "base", "--session", &second]).await;
    let after = world.usage(&[]).await;
    assert_eq!(groups(&after)[0], ("dear".into(), 4, 0, Some(3 * CALL + 60_080)), "{after:#}");

    // The usage of a deleted session is still counted, but nothing identifies the session.
    world.ok(["sessions", "delete", &first, "--yes"]).await;
    assert_eq!(world.usage(&[]).await, after);
    let report = world.usage(&["--by", "session"]).await;
    assert_eq!(groups(&report), [(second, 2, 1, Some(60_080)), (String::new(), 3, 0, Some(3 * CALL))]);
    assert!(!report.to_string().contains(&first), "{report:#}");

    // A model test has no session, but is counted.
    world.agentctl(["models", "test"]).await;
    assert!(world.usage(&[]).await["total"]["calls"].as_u64() > after["total"]["calls"].as_u64());
}

#[tokio::test]
async fn invalid_usage_queries_are_refused_with_examples() {
    let world = world().await;
    world.agentctl(["usage", "--since", "yesterweek"]).await.exits(2).says(&["yesterweek", "7d, 2w, today"]);
    world.agentctl(["usage", "--by", "person"]).await.exits(2).says(&["person", "session"]);
    let backwards = ["usage", "--since", "2026-02-01", "--until", "2026-01-01"];
    world.agentctl(backwards).await.exits(2).says(&["the last day", "before the first"]);
}
