//! Tools, skills and agents that an input mentions with `@`.

use super::{Events as _, *};

async fn world() -> World {
    let world = World::prepared(|home| {
        home.write("config/tools.yaml", "optional: {web_search: {enabled: false}, read_url: {enabled: never}}\n");
        home.write("config/web.yaml", "search: {provider: searxng, base_url: 'http://127.0.0.1:9'}\n");
        home.write("config/skills/tax/SKILL.md", "---\nname: tax\ndescription: Taxes\n---\n# How\n");
    })
    .await;
    world.model.default_reply(Reply::text("Good."));
    world
}

/// Returns the last message of a request, which contains reminders.
fn tail(request: &Recorded) -> String {
    request.messages().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn mentioned_tool_stays_loaded_in_the_session() {
    let world = world().await;
    // Reminders follow tool results.
    world.model.respond_with(|request| match tool_texts(request).is_empty() {
        false => Reply::text("done"),
        true => Reply::tool_call("web_search", json!({"query": "x"})),
    });
    let session = world.ok(["run", "Look with @web-search.", "--output", "json"]).await.session();
    let requests = world.model.requests();
    assert!(tool_names(&requests[0]).contains(&"web_search".to_owned()), "{:?}", tool_names(&requests[0]));
    assert!(tail(&requests[0]).contains("mentioned web_search"), "{}", tail(&requests[0]));
    let answer = requests[1].messages().iter().rfind(|message| message["role"] == "tool").unwrap().to_string();
    assert!(!answer.contains("E_UNKNOWN_TOOL"), "the mentioned tool was not offered: {answer}");

    world.model.respond_with(|_| Reply::text("Good."));
    world.ok(["run", "And without.", "--session", &session]).await;
    let last = world.model.requests().last().unwrap().clone();
    assert_eq!(tool_names(&last), tool_names(&requests[0]), "the tool keeps its position");
    assert_eq!(tool_names(&last).last().unwrap(), "web_search", "the tool is appended last");
    assert_eq!(world.ok(["run", "And without.", "--output", "json"]).await.json()["stop_reason"], "completed");
    let last = world.model.requests().last().unwrap().clone();
    assert!(
        !tool_names(&last).contains(&"web_search".to_owned()) && !tail(&last).contains("mentioned"),
        "{}",
        tail(&last)
    );
}

#[tokio::test]
async fn unknown_mentions_are_reported_and_harmless() {
    let world = world().await;
    let output = world
        .ok(["run", "Use @taxx and @read_url, mail a@b.org, run `@x`."])
        .await
        .says(&["no match for @taxx; did you mean @tax?"]);
    assert!(output.stderr.contains("@read_url loads nothing") && output.stderr.contains("never"), "{}", output.stderr);
    assert_eq!(output.stderr.matches("no match for").count(), 1, "{}", output.stderr);
    assert!(!tail(&world.model.requests()[0]).contains("<system_reminder>"));
    // Mentions in piped text are not recognised.
    let piped = world.agentctl_with(["run", "What is this?"], "see @web_search and @taxx").await.exits(0);
    assert!(!piped.stderr.contains("@taxx"), "{}", piped.stderr);
    assert!(!tool_names(world.model.requests().last().unwrap()).contains(&"web_search".to_owned()));
    world.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mentions_apply_to_the_whole_turn_after_a_crash() {
    let mut world = world().await;
    world.model.respond_with(|_| Reply::tool_call("ask_human", json!({"question": "Which?"})));
    let client = world.client().await;
    let prompt = "Do it with @tax and @web_search.";
    let mut events = client.turn(turn(SessionChoice::New(NewSession::default()), prompt)).await.unwrap();
    let raised = events.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    let session = raised[0].session_id.to_string();
    drop(events);
    world.daemon.crash().await;
    world.model.respond_with(|_| Reply::text("done"));
    let asked = world.asked().await;
    world.ok(["answer", asked["id"].as_str().unwrap(), "this"]).await;
    let last = until("the answer is in a request", || async {
        world.model.requests().last().filter(|request| tool_texts(request).contains("this")).cloned()
    })
    .await;
    assert!(last.body.to_string().contains("Do it with"), "{session}");
    assert!(tool_names(&last).contains(&"web_search".to_owned()), "{:?}", tool_names(&last));
    // The reminder was sent before the crash, and remains in the context.
    assert_eq!(last.body.to_string().matches("read skills/tax/SKILL.md").count(), 1, "{}", last.body);
}
