//! OpenAI's Responses through a whole daemon, against a server that wants encrypted thoughts back byte for byte in front of what
//! they came with, and refuses a request for the least change: whatever is done to a conversation, it never has a reason to.

use agentd_testkit::{
    daemon::{TempDaemon, TempHome, until},
    model_server::{ModelServer, Provider, Recorded, Reply},
};
use serde_json::{Value, json};

use super::{
    providers::only_grows,
    wire_world::{RED, World, reads, steps},
};

async fn start() -> World {
    World::with(Provider::OpenAi, ", thinking: adaptive", "").await
}

fn items(request: &Recorded) -> Vec<Value> {
    request.sent()["input"].as_array().cloned().unwrap_or_default()
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}

/// How many items of that kind a request has.
fn count(request: &Recorded, wanted: &str) -> usize {
    items(request).iter().filter(|item| kind(item) == wanted).count()
}

/// The answers of a request: runs of items that are the model's.
fn answers(request: &Recorded) -> Vec<Vec<Value>> {
    let is_own = |item: &Value| kind(item) != "function_call_output" && item["role"] != "user";
    let items = items(request);
    let runs = items.chunk_by(|one, next| is_own(one) == is_own(next));
    runs.filter(|run| is_own(&run[0])).map(<[Value]>::to_vec).collect()
}

/// Each answer has its thoughts.
#[track_caller]
fn all_thoughtful(request: &Recorded) {
    let answers = answers(request);
    assert!(!answers.is_empty());
    for answer in answers {
        assert!(answer.iter().any(|item| kind(item) == "reasoning"), "{answer:#?}\nof {:#}", request.body);
    }
}

#[tokio::test]
async fn thoughts_stay_through_steps_turns_and_a_kill_and_one_key_names_the_cache() {
    let mut world = start().await;
    world.turn("Read.", &[], vec![reads(&["a"]), reads(&["b", "c", "d"]), Reply::text("Done.")]).await;
    world.daemon.kill9().await;
    world.daemon.restart().await;
    world.turn("Read on.", &[], steps(9)).await;
    world.turn("And more.", &[], steps(2)).await;
    only_grows(&world.model);
    let last = world.last();
    all_thoughtful(&last);
    let of_model = items(&last).into_iter().filter(|item| item["role"] == "assistant");
    let phases: Vec<Value> = of_model.map(|item| item["phase"].clone()).collect();
    assert!(phases.contains(&json!("commentary")) && phases.contains(&json!("final_answer")), "{phases:?}");
    assert!(!phases.contains(&Value::Null), "{phases:?}");
    let session = world.session.clone().unwrap();
    for request in world.model.requests() {
        assert_eq!(request.sent()["prompt_cache_key"], session.as_str());
        assert_eq!((&request.sent()["store"], request.sent().get("previous_response_id")), (&json!(false), None));
    }
}

#[tokio::test]
async fn eight_calls_at_once_have_eight_results() {
    let mut world = start().await;
    let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
    world.turn("Read all.", &[], vec![reads(&all), reads(&["a", "nothing"]), Reply::text("Done.")]).await;
    let last = world.last();
    assert_eq!((count(&last, "function_call"), count(&last, "function_call_output")), (10, 10));
    let items = items(&last);
    let outputs: Vec<&str> = items.iter().filter_map(|item| item["output"].as_str()).collect();
    for (name, output) in all.iter().zip(&outputs) {
        assert!(output.contains(&format!("the words of {name}")), "{output}");
    }
}

#[tokio::test]
async fn a_fork_an_undo_and_a_turn_that_was_cut_off_cost_no_thoughts() {
    let mut world = start().await;
    let write = Reply::tool_call("write_file", json!({"path": "/project/new.txt", "content": "new\n"}));
    world.turn("Write.", &[], vec![reads(&["a"]), write, Reply::text("Done.")]).await;
    world.ctl(&["undo", "SESSION"]).await;
    world.turn("Again.", &[], steps(2)).await;
    let session = world.session.clone().unwrap();
    let fork = world.ctl(&["sessions", "fork", "SESSION"]).await.stdout.trim().to_owned();
    world.session = Some(fork);
    world.turn("In the fork.", &[], steps(2)).await;
    all_thoughtful(&world.last());

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
    all_thoughtful(&world.last());
}

#[tokio::test]
async fn mentions_uploads_and_more_pictures_than_are_shown_are_taken() {
    let mut world = World::with(Provider::OpenAi, ", sees_pictures: true", "").await;
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
    let pictures = last.text.matches(r#""type":"input_image""#).count();
    assert!((1..=20).contains(&pictures), "{pictures}");
    assert!(last.text.contains("short words"));
}

#[tokio::test]
async fn compactions_and_their_undo_are_taken_and_what_stays_has_its_thoughts() {
    let mut world = start().await;
    for _ in 0..3 {
        world.turn("Read.", &[], steps(3)).await;
    }
    world.model.reply(Reply::text("They read files."));
    world.ctl(&["compact", "SESSION"]).await;
    world.turn("And now?", &[], steps(3)).await;
    assert!(count(&world.last(), "reasoning") >= 3, "{:#}", world.last().body);
    world.ctl(&["compact", "SESSION", "--undo"]).await;
    world.turn("All of it?", &[], steps(2)).await;
    assert!(count(&world.last(), "reasoning") >= 12, "{:#}", world.last().body);
    all_thoughtful(&world.last());
    assert_eq!(world.model.refusals(), [""; 0]);
}

#[tokio::test]
async fn results_that_move_to_files_are_taken() {
    let mut world = World::with(Provider::OpenAi, ", context_window: 32768, retries: 0", "").await;
    for part in ["a", "b", "c"] {
        let text = format!("fact {part}\n{}", "one of many lines\n".repeat(1000));
        world.daemon.write(&format!("project/{part}.txt"), text);
    }
    // Cached tokens are among those of the request.
    let usage = json!({"input_tokens": 28_500, "input_tokens_details": {"cached_tokens": 28_000}, "output_tokens": 2});
    let full = Reply { usage: Some(usage), ..Reply::text("Read.") };
    let first = world.turn("Read them.", &[], vec![reads(&["a"]), reads(&["b"]), reads(&["c"]), full]).await;
    assert_eq!(first["usage"]["cached_tokens"], 28_000, "{first:#}");
    let second = world.turn("And now?", &[], vec![Reply::text("I see.")]).await;
    assert_eq!(second["compactions"][0]["strategy"], "offload", "{second:#}");
    assert!(world.last().text.contains("[Moved to a file to make room:"));
    world.turn("More.", &[], steps(2)).await;
}

#[tokio::test]
async fn subagents_and_their_main_agent_are_taken_and_have_caches_of_their_own() {
    let mut world = start().await;
    world.model.respond_with(|request| {
        let is_subagent = request.sent()["instructions"].as_str().unwrap().contains("You are a subagent");
        let has_results = request.text.contains("\"function_call_output\"");
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
    let requests = world.model.requests();
    let keys: std::collections::HashSet<String> =
        requests.iter().map(|request| request.sent()["prompt_cache_key"].to_string()).collect();
    assert!(requests.len() >= 7 && keys.len() == 3, "{keys:?}");
}

#[tokio::test]
async fn a_model_of_another_wire_in_between_is_taken_by_both() {
    for between in [Provider::Mistral, Provider::Anthropic] {
        let (one, other) = (ModelServer::start().await, ModelServer::start().await);
        one.acts_as(Provider::OpenAi);
        other.acts_as(between);
        let home = TempHome::new();
        let slot = |name: &str, wire: &str, server: &ModelServer| {
            format!("{name}: {{wire: {wire}, base_url: \"{}\", id: the-model}}\n", server.base_url())
        };
        home.write("config/models.yaml", slot("base", "responses", &one) + &slot("code", between.wire(), &other));
        home.write("project/a.txt", "words\n");
        let mut world = World { model: one, daemon: TempDaemon::start_in(home).await, session: None };
        world.turn("Read.", &[], vec![reads(&["a"]), reads(&["a"]), Reply::text("Done.")]).await;
        other.reply(reads(&["a"])).reply(Reply::text("Done."));
        world.turn("With the other.", &["--model", "code"], Vec::new()).await;
        assert_eq!(other.refusals(), [""; 0]);
        let foreign = |request: &Recorded| request.text.contains("encrypted_content") || request.text.contains("rs_0");
        assert!(!other.requests().iter().any(foreign));
        world.turn("And back.", &[], vec![reads(&["a"]), Reply::text("Done.")]).await;
        only_grows(&world.model);
        let last = world.last();
        let with_thoughts =
            answers(&last).iter().filter(|run| run.iter().any(|item| kind(item) == "reasoning")).count();
        assert_eq!(with_thoughts, 4, "{between:?}: {:#}", last.body);
    }
}

#[tokio::test]
async fn the_last_answer_at_a_limit_names_tools_and_forbids_them() {
    let mut world = start().await;
    let called = Reply { text: "I look.".to_owned(), ..reads(&["a"]) };
    world
        .turn_that_exits(6, "Read.", &["--max-steps", "2"], vec![reads(&["a"]), called, Reply::text("That is all.")])
        .await;
    let last = world.last().sent();
    assert_eq!(last["tool_choice"], "none");
    assert!(last["tools"].as_array().is_some_and(|tools| !tools.is_empty()));
    world.turn("Go on.", &[], steps(1)).await;
}

#[tokio::test]
async fn what_the_limit_cuts_is_gone_on_with_and_a_refusal_ends_the_turn() {
    let mut world = start().await;
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
    let untouched = std::fs::read_to_string(world.daemon.path().join("project/a.txt")).unwrap();
    assert_eq!(untouched, "the words of a\n", "the cut call has not run");
    for reason in ["refusal", "content_filter"] {
        world.model.reply(Reply::text("I must not").finish(reason));
        let session = world.session.clone().unwrap();
        let output = world.daemon.agentctl(["run", "And?", "--session", &session, "--output", "json"]).await;
        let result = world.nothing_refused("And?", output).exits(7).json();
        assert_eq!(result["stop_reason"], "filtered", "{reason}: {result:#}");
    }
    world.turn("Something else.", &[], steps(1)).await;
}

#[tokio::test]
async fn an_answer_that_fails_or_loses_an_event_is_asked_for_again() {
    let mut world = start().await;
    let gap = |events: &[Value]| Reply::events(events.iter().map(ToString::to_string));
    let event = |number: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text, "sequence_number": number});
    let lossy = gap(&[event(0, "Half "), event(1, "of "), event(3, "it.")]);
    let error =
        json!({"type": "error", "code": "server_error", "message": "The server had an error", "sequence_number": 2});
    let broken = gap(&[event(0, "Half "), event(1, "of "), error]);
    let failed = Reply::text("Half of it.").finish("failed");
    for reply in [lossy, broken, failed] {
        let result = world.turn("Tell.", &[], vec![reads(&["a"]), reply, Reply::text("All of it.")]).await;
        assert_eq!(result["text"], "All of it.", "{result:#}");
    }
    world.turn("Go on.", &[], steps(1)).await;
    only_grows(&world.model);
}

#[tokio::test]
async fn thoughts_of_a_megabyte_go_back_through_a_kill() {
    let mut world = start().await;
    let large = "x/\u{e9}".repeat(200_000);
    let thought = json!({"id": "rs_large", "type": "reasoning", "summary": [], "encrypted_content": large});
    let call = json!({"type": "function_call", "id": "fc_large", "call_id": "call_large", "name": "read_file",
        "arguments": "{\"path\": \"/project/a.txt\"}"});
    let reply = Reply::items([thought, call]);
    world.turn("Read.", &[], vec![reply, Reply::text("Done.")]).await;
    world.daemon.kill9().await;
    world.daemon.restart().await;
    world.turn("Read on.", &[], steps(2)).await;
    only_grows(&world.model);
    let last = world.last();
    assert!(last.text.contains("rs_large") && last.text.len() > 1_000_000, "{} bytes", last.text.len());
}

#[tokio::test]
async fn a_session_whose_thoughts_are_refused_is_not_lost() {
    let mut world = start().await;
    world.turn("Read.", &[], steps(2)).await;
    // Another key, another organisation: the real server refuses what it has encrypted itself.
    world.model.lenient();
    let has_old = |request: &Recorded| request.text.contains("rs_0001");
    let refused = "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted.";
    world.model.respond_with(move |request| match has_old(request) {
        false => Reply::text("Here I am."),
        true => Reply::responses_error(400, "invalid_encrypted_content", refused),
    });
    for _ in 0..2 {
        let result = world.turn("Are you there?", &[], Vec::new()).await;
        assert_eq!(result["text"], "Here I am.");
    }
    // It is learnt once and not asked again.
    let old = world.model.requests().iter().filter(|request| has_old(request)).count();
    assert_eq!(old, 3, "two of the first turn, and one that was refused");
    assert!(count(&world.last(), "reasoning") > 0, "new thoughts go back");
}
