//! Anthropic's Messages through a whole daemon, against a server that binds signed thoughts to all that stands before them and
//! refuses a request for the least change: whatever is done to a conversation, it never has a reason to.

use std::sync::Arc;

use agentd_testkit::{
    daemon::{TempDaemon, TempHome, until},
    model_server::{ModelServer, Provider, Recorded, Reply},
};
use serde_json::{Value, json};

use super::{
    providers::only_grows,
    wire_world::{RED, World, reads, steps},
};

/// The messages of a request as they were sent.
fn messages(request: &Recorded) -> Vec<Value> {
    request.sent()["messages"].as_array().cloned().unwrap_or_default()
}

/// The answers of a request that have thoughts.
fn thoughtful(request: &Recorded) -> usize {
    let thinks = |block: &Value| block["type"] == "thinking" || block["type"] == "redacted_thinking";
    let messages = messages(request);
    let answers = messages.iter().filter(|message| message["role"] == "assistant");
    answers.filter(|answer| answer["content"].as_array().unwrap().iter().any(thinks)).count()
}

fn answers(request: &Recorded) -> usize {
    messages(request).iter().filter(|message| message["role"] == "assistant").count()
}

#[tokio::test]
async fn a_key_in_the_environment_and_the_name_of_the_wire_are_enough() {
    let model = ModelServer::start().await;
    model.acts_as(Provider::Anthropic);
    let mut home = TempHome::new();
    for (name, value) in [
        ("MODEL_BASIC_WIRE", "anthropic"),
        ("ANTHROPIC_BASE_URL", &model.root_url()),
        ("ANTHROPIC_API_KEY", "sk-ant-s3cret"),
    ] {
        home.set(name, value);
    }
    let daemon = TempDaemon::start_in(home).await;
    model.reply(Reply::tool_call("now", json!({}))).reply(Reply::text("It is noon."));
    let output = daemon.agentctl(["run", "What time is it?"]).await.exits(0);
    assert_eq!(output.stdout.trim(), "It is noon.");
    let asked = model.requests();
    assert!(asked.iter().all(|request| request.headers["x-api-key"] == "sk-ant-s3cret"));
    assert_eq!((asked.len(), &asked[0].body["model"]), (2, &json!("the-model")));
    let listed = daemon.agentctl(["models"]).await.exits(0).stdout;
    assert!(listed.contains("the-model") && listed.contains("anthropic"), "{listed}");
    // No log has the key.
    assert!(!daemon.log().contains("s3cret"), "{}", daemon.log());
}

#[tokio::test]
async fn a_key_alone_is_enough() {
    for (provider, key, address) in [
        (Some(Provider::Anthropic), "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        (None, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ] {
        let model = ModelServer::start().await;
        let url = provider.map_or_else(|| model.base_url(), |_| model.root_url());
        if let Some(provider) = provider {
            model.acts_as(provider);
        }
        let mut home = TempHome::new();
        home.set(address, &url);
        home.set(key, "sk-s3cret");
        let daemon = TempDaemon::start_in(home).await;
        model.reply(Reply::text("Hello."));
        let output = daemon.agentctl(["run", "hi"]).await.exits(0);
        assert_eq!(output.stdout.trim(), "Hello.", "{key}");
        let asked = model.requests().pop().unwrap();
        let sent = asked.headers.get("x-api-key").or(asked.headers.get("authorization"));
        assert!(sent.is_some_and(|sent| sent.ends_with("sk-s3cret")), "{key}: {sent:?}");
        assert!(!daemon.log().contains("s3cret"), "{}", daemon.log());
    }
}

#[tokio::test]
async fn thoughts_stay_through_steps_turns_and_a_kill_and_the_cache_is_marked_where_the_last_request_ended() {
    let mut world = World::start(Provider::Anthropic).await;
    world.turn("Read.", &[], vec![reads(&["a"]), reads(&["b", "c", "d"]), Reply::text("Done.")]).await;
    world.daemon.kill9().await;
    world.daemon.restart().await;
    world.turn("Read on.", &[], steps(9)).await;
    world.turn("And more.", &[], steps(2)).await;
    only_grows(&world.model);
    let requests = world.model.requests();
    let last = requests.last().unwrap();
    // Nothing is lost: each answer but the plain ones has its thoughts.
    assert_eq!(thoughtful(last), answers(last), "{:#}", last.body);
    let marked =
        |message: &Value| message["content"].as_array().unwrap().iter().any(|block| !block["cache_control"].is_null());
    for pair in requests.windows(2) {
        let [before, next] = [messages(&pair[0]), messages(&pair[1])];
        assert!(marked(before.last().unwrap()) && marked(&next[before.len() - 1]), "{:#}", pair[1].body);
        assert_eq!(next.iter().filter(|message| marked(message)).count(), 2);
    }
}

#[tokio::test]
async fn eight_calls_at_once_are_answered_in_one_message() {
    let mut world = World::start(Provider::Anthropic).await;
    let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let missing = reads(&["a", "nothing"]);
    world.turn("Read all.", &[], vec![reads(&all), missing, Reply::text("Done.")]).await;
    let last = world.last();
    let results = |at: usize| {
        messages(&last)[at]["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_result").count()
    };
    assert_eq!((results(2), results(4)), (8, 2));
}

#[tokio::test]
async fn a_fork_an_undo_and_a_turn_that_was_cut_off_cost_no_thoughts() {
    let mut world = World::start(Provider::Anthropic).await;
    let write = Reply::tool_call("write_file", json!({"path": "/project/new.txt", "content": "new\n"}));
    world.turn("Write.", &[], vec![reads(&["a"]), write, Reply::text("Done.")]).await;
    world.ctl(&["undo", "SESSION"]).await;
    world.turn("Again.", &[], steps(2)).await;
    let session = world.session.clone().unwrap();
    let fork = world.ctl(&["sessions", "fork", "SESSION"]).await.stdout.trim().to_owned();
    world.session = Some(fork);
    world.turn("In the fork.", &[], steps(2)).await;
    assert_eq!(thoughtful(&world.last()), answers(&world.last()));

    world.session = Some(session.clone());
    world.model.reply(reads(&["d"])).reply(Reply::never());
    let asked = world.model.requests().len();
    let running = world.daemon.spawn_agentctl(["run", "Read more.", "--session", &session]);
    world.model.wait_until(|counts| counts.requests == asked + 2).await;
    until("the result is stored", || async {
        let shown = world.ctl(&["sessions", "show", "SESSION", "--json"]).await.stdout;
        shown.contains("the words of d").then_some(())
    })
    .await;
    world.daemon.kill9().await;
    drop(running);
    world.daemon.restart().await;
    world.turn("Go on.", &[], steps(2)).await;
    assert_eq!(thoughtful(&world.last()), answers(&world.last()));
}

#[tokio::test]
async fn mentions_uploads_and_more_pictures_than_are_shown_are_taken() {
    let mut world = World::start(Provider::Anthropic).await;
    world.turn("Read.", &[], steps(1)).await;
    for number in 0..24 {
        let name = format!("{number}.png");
        world.upload(&name, RED).await;
        if number % 8 == 0 {
            world.turn("Look at it with @read_file.", &[], steps(1)).await;
        }
    }
    world.upload("notes.txt", b"short words\n").await;
    world.turn("And these.", &[], steps(2)).await;
    let last = world.last();
    let pictures = last.text.matches(r#""type":"image""#).count();
    assert!((1..=20).contains(&pictures), "{pictures}");
    assert!(last.text.contains("short words"));
}

#[tokio::test]
async fn compactions_and_their_undo_leave_thoughts_out_and_new_ones_stay() {
    let mut world = World::start(Provider::Anthropic).await;
    for _ in 0..3 {
        world.turn("Read.", &[], steps(3)).await;
    }
    world.model.reply(Reply::text("They read files."));
    world.ctl(&["compact", "SESSION"]).await;
    world.turn("And now?", &[], steps(3)).await;
    let last = world.last();
    assert!(thoughtful(&last) >= 3, "those behind the summary stay: {:#}", last.body);
    world.ctl(&["compact", "SESSION", "--undo"]).await;
    world.turn("All of it?", &[], steps(2)).await;
    assert!(thoughtful(&world.last()) >= 9, "{:#}", world.last().body);
    assert_eq!(world.model.refusals(), [""; 0]);
}

#[tokio::test]
async fn results_that_move_to_files_are_taken() {
    let mut world = World::with(Provider::Anthropic, ", context_window: 32768, retries: 0", "").await;
    for part in ["a", "b", "c"] {
        let text = format!("fact {part}\n{}", "one of many lines\n".repeat(1000));
        world.daemon.write(&format!("project/{part}.txt"), text);
    }
    let usage = json!({"input_tokens": 500, "cache_read_input_tokens": 28_000, "output_tokens": 2});
    let full = Reply { usage: Some(usage), ..Reply::text("Read.") };
    let first = world.turn("Read them.", &[], vec![reads(&["a"]), reads(&["b"]), reads(&["c"]), full]).await;
    assert_eq!(first["usage"]["cached_tokens"], 28_000, "{first:#}");
    let second = world.turn("And now?", &[], vec![Reply::text("I see.")]).await;
    assert_eq!(second["compactions"][0]["strategy"], "offload", "{second:#}");
    assert!(world.last().text.contains("[Moved to a file to make room:"));
    world.turn("More.", &[], steps(2)).await;
}

#[tokio::test]
async fn subagents_and_their_main_agent_are_taken() {
    let mut world = World::start(Provider::Anthropic).await;
    world.model.respond_with(|request| {
        let body = request.sent();
        let system = body["system"][0]["text"].as_str().unwrap();
        let is_subagent = system.contains("You are a subagent");
        let has_results = request.text.contains("\"tool_result\"");
        match (is_subagent, has_results) {
            (true, false) => reads(&["a"]),
            (true, true) => {
                Reply::text(format!("Found. {}", "Each thing was looked at and found in order. ".repeat(6)))
            }
            (false, false) => Reply::tool_call("delegate_task", json!({"task": "Read a."}))
                .and_call("delegate_task", json!({"task": "Read it as well."})),
            (false, true) => Reply::text("Both are done."),
        }
    });
    let result = world.turn("Give it away.", &[], Vec::new()).await;
    assert_eq!(result["text"], "Both are done.");
    world.turn("Thanks.", &[], Vec::new()).await;
    assert!(world.model.requests().len() >= 7);
}

#[tokio::test]
async fn a_model_of_the_other_wire_in_between_is_taken_by_both() {
    let (one, other) = (ModelServer::start().await, ModelServer::start().await);
    one.acts_as(Provider::Anthropic);
    other.acts_as(Provider::Mistral);
    let home = TempHome::new();
    let slot = |name: &str, wire: &str, server: &ModelServer| {
        format!("{name}: {{wire: {wire}, base_url: \"{}\", id: the-model}}\n", server.base_url())
    };
    home.write("config/models.yaml", slot("base", "anthropic", &one) + &slot("code", "openai", &other));
    home.write("project/a.txt", "words\n");
    let mut world = World { model: one, daemon: TempDaemon::start_in(home).await, session: None };
    world.turn("Read.", &[], vec![reads(&["a"]), reads(&["a"]), Reply::text("Done.")]).await;
    other.reply(reads(&["a"])).reply(Reply::text("Done."));
    world.turn("With the other.", &["--model", "code"], Vec::new()).await;
    assert_eq!(other.refusals(), [""; 0]);
    assert!(other.requests().iter().all(|request| !request.text.contains("thinking")));
    world.turn("And back.", &[], vec![reads(&["a"]), Reply::text("Done.")]).await;
    only_grows(&world.model);
    assert_eq!(thoughtful(&world.last()), 4, "{:#}", world.last().body);
}

#[tokio::test]
async fn the_last_answer_at_a_limit_names_tools_and_forbids_them() {
    let mut world = World::start(Provider::Anthropic).await;
    let called = Reply { text: "I look.".to_owned(), ..reads(&["a"]) };
    world
        .turn_that_exits(6, "Read.", &["--max-steps", "2"], vec![reads(&["a"]), called, Reply::text("That is all.")])
        .await;
    let last = world.last().sent();
    assert_eq!(last["tool_choice"], json!({"type": "none"}));
    assert!(last["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
    world.turn("Go on.", &[], steps(1)).await;
}

#[tokio::test]
async fn what_the_limit_cuts_is_gone_on_with_and_a_refusal_ends_the_turn() {
    let mut world = World::start(Provider::Anthropic).await;
    let cut = |reply: Reply| reply.finish("length");
    let half = json!("{\"path\": \"/project/a.txt\", \"content\": \"half of");
    let part = json!({"path": "/project/new.txt", "content": "a part"});
    let result = world
        .turn(
            "Write it.",
            &[],
            vec![
                cut(Reply::tool_call("write_file", half)),
                Reply::tool_call("write_file", part),
                cut(Reply::text("The first half ")),
                Reply::text("and the second."),
            ],
        )
        .await;
    assert!(result["text"].as_str().unwrap().contains("the second"), "{result:#}");
    world.model.reply(Reply::text("I must not").finish("refusal"));
    let session = world.session.clone().unwrap();
    let output = world.daemon.agentctl(["run", "And?", "--session", &session, "--output", "json"]).await;
    let result = world.nothing_refused("And?", output).exits(7).json();
    assert_eq!(result["stop_reason"], "filtered", "{result:#}");
    world.turn("Something else.", &[], steps(1)).await;
}

#[tokio::test]
async fn a_window_that_the_answer_fills_is_made_room_in() {
    let mut world = World::start(Provider::Anthropic).await;
    for _ in 0..3 {
        world.turn("Read.", &[], steps(2)).await;
    }
    world.model.reply(Reply::text("Half of it").finish("model_context_window_exceeded"));
    world.model.default_reply(Reply::text("All of it."));
    let session = world.session.clone().unwrap();
    let output = world.daemon.agentctl(["run", "Tell.", "--session", &session, "--output", "json"]).await;
    let result = world.nothing_refused("Tell.", output).exits(0).json();
    assert_eq!((&result["text"], &result["compactions"][0]["cause"]), (&json!("All of it."), &json!("overflow")));
}

#[tokio::test]
async fn a_session_whose_thoughts_are_refused_is_not_lost() {
    let mut world = World::start(Provider::Anthropic).await;
    world.turn("Read.", &[], steps(2)).await;
    // Another key, another organisation: the real server refuses what it has signed itself.
    world.model.lenient();
    let bound = "messages.1.content.0: The block is bound to a different conversation";
    let refusing = Arc::new(bound);
    let has_old =
        |request: &Recorded| messages(request).get(1).is_some_and(|answer| answer.to_string().contains("signature"));
    world.model.respond_with(move |request| match has_old(request) {
        false => Reply::text("Here I am."),
        true => Reply::messages_error(400, "invalid_request_error", &refusing),
    });
    for _ in 0..2 {
        let result = world.turn("Are you there?", &[], Vec::new()).await;
        assert_eq!(result["text"], "Here I am.");
    }
    // It is learnt once and not asked again.
    let old = world.model.requests().iter().filter(|request| has_old(request)).count();
    assert_eq!(old, 3, "two of the first turn, and one that was refused");
    assert!(thoughtful(&world.last()) > 0, "new thoughts go back");
}
