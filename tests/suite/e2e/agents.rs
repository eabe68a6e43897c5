//! Agents: named in `agents.yaml`, shown, given work, and handed the session.

use agentd_testkit::{
    daemon::{TempDaemon, TempHome},
    model_server::{ModelServer, Recorded, Reply},
};
use serde_json::{Value, json};

use super::{Events as _, World, tool_texts, turn};
use agentd_proto::client::{NewSession, SessionChoice};

const AGENTS: &str = "agents:
  poet: {description: Writes verse., prompt: You rhyme., tools: [read_file, gerp], slot: code}
  critic: {description: Judges verse., prompt: You judge.}
";

async fn world() -> World {
    let model = ModelServer::start().await;
    let home = TempHome::with_model(&model.base_url());
    home.write("config/agents.yaml", AGENTS);
    World { model, daemon: TempDaemon::start_in(home).await }
}

/// Which agent a request asks.
fn agent_of(request: &Recorded) -> &'static str {
    let system = request.messages()[0]["content"].as_str().unwrap();
    let known = [("You are the agent `poet`", "poet"), ("You are the agent `critic`", "critic")];
    known.into_iter().find(|(words, _)| system.contains(words)).map_or("main", |(_, id)| id)
}

fn tools_of(request: &Recorded) -> Vec<&str> {
    let tools = request.body["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn transfer(to: &str) -> Reply {
    Reply::tool_call(format!("transfer_to_{to}"), json!({"task": "Go on"}))
}

/// The changes of agent among these lines.
fn stacks(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["change"]["state"] == "agent").map(|line| line["change"]["stack"].clone()).collect()
}

#[tokio::test]
async fn they_are_listed_and_shown_and_what_has_no_effect_is_said() {
    let world = world().await;
    let listed = world.daemon.agentctl(["agents", "list", "--json"]).await.exits(0).json();
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|card| card["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["critic", "poet", "researcher", "reviewer"]);
    let listed = world.daemon.agentctl(["agents", "list"]).await.exits(0).stdout;
    assert!(["poet", "code", "Writes verse.", "by mention"].iter().all(|words| listed.contains(words)), "{listed}");
    let shown = world.daemon.agentctl(["agents", "show", "poet"]).await.exits(0).stdout;
    assert!(["You rhyme.", "read_file", "code"].iter().all(|words| shown.contains(words)), "{shown}");
    let shown = world.daemon.agentctl(["agents", "show", "poet", "--json"]).await.exits(0).json();
    assert_eq!((&shown["slot"], &shown["tools"]), (&json!("code"), &json!(["read_file", "gerp"])));
    world.daemon.agentctl(["agents", "show", "peot"]).await.exits(2).says(&["no agent", "poet"]);
    let log = world.daemon.log();
    assert!(log.contains("poet names the tool `gerp`, which is not there, did you mean `grep`?"), "{log}");
}

#[tokio::test]
async fn a_session_is_handed_on_with_prompt_tools_and_slot_and_comes_back_with_the_answer() {
    let world = world().await;
    world.model.respond_with(|request| match agent_of(request) {
        "main" => transfer("poet"),
        _ => Reply::text("Roses are red."),
    });
    let output = world.daemon.agentctl(["run", "Write a poem", "--output", "stream-json"]).await.exits(0);
    let lines = output.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "Roses are red.");
    assert_eq!(stacks(&lines), [json!(["poet"]), json!([])]);
    let ended = lines.iter().position(|line| line["type"] == "turn_ended").unwrap();
    assert_eq!(lines[ended - 1]["change"]["stack"], json!([]), "the main agent has it before the turn has ended");

    let requests = world.model.requests();
    let [main, poet] = requests.as_slice() else { panic!("{requests:#?}") };
    assert!(tools_of(main).contains(&"transfer_to_poet") && !tools_of(main).contains(&"transfer_to_main"));
    let tools = tools_of(poet);
    assert!(
        tools.contains(&"read_file") && tools.contains(&"transfer_to_main") && tools.contains(&"transfer_to_critic")
    );
    for not in ["transfer_to_poet", "run_bash_command", "edit_file", "delegate_task"] {
        assert!(!tools.contains(&not), "{tools:?}");
    }
    // The general instructions stand first, word for word.
    let text = |request: &Recorded| request.messages()[0]["content"].as_str().unwrap().to_owned();
    let general = text(main).split("\n\nThis session began").next().unwrap().to_owned();
    assert!(text(poet).starts_with(&general) && text(poet).contains("You rhyme."), "{}", text(poet));
    assert!(tool_texts(poet).contains("has handed the conversation to you, `poet`"));
    let usage: Vec<&Value> = lines.iter().filter(|line| line["type"] == "usage_updated").collect();
    assert_eq!((&usage[1]["slot"], &usage[1]["prompt"]["broken_by"]), (&json!("code"), &json!("agent")));
    // The next turn is the main agent's.
    let session = lines[0]["session_id"].as_str().unwrap();
    world.model.respond_with(|request| Reply::text(agent_of(request)));
    let next = world.daemon.agentctl(["run", "And now?", "--session", session]).await.exits(0);
    assert_eq!(next.stdout.trim(), "main");
}

#[tokio::test]
async fn rings_and_long_chains_are_refused_and_the_session_can_be_handed_back() {
    let world = world().await;
    world.model.respond_with(|request| {
        let told = tool_texts(request);
        match agent_of(request) {
            "main" if told.contains("handed the conversation back") => Reply::text("Judged and done."),
            "main" => transfer("poet"),
            "poet" => transfer("critic"),
            "critic" if told.contains("in a ring") => transfer("main"),
            _ => transfer("poet"),
        }
    });
    let output = world.daemon.agentctl(["run", "Write a poem", "--output", "stream-json"]).await.exits(0);
    let lines = output.json_lines();
    assert_eq!(lines.last().unwrap()["text"], "Judged and done.");
    assert_eq!(stacks(&lines), [json!(["poet"]), json!(["poet", "critic"]), json!([])]);
    assert!(tool_texts(world.model.requests().last().unwrap()).contains("main → poet → critic"));
}

#[tokio::test]
async fn an_agent_that_waits_is_the_same_after_a_crash() {
    let mut world = world().await;
    world.model.respond_with(|request| match (agent_of(request), tool_texts(request)) {
        ("main", _) => transfer("critic"),
        (_, told) if told.contains("verse") => Reply::text("It is good."),
        _ => Reply::tool_call("ask_human", json!({"question": "Which verse?"})),
    });
    let client = world.client().await;
    let mut stream = client.turn(turn(SessionChoice::New(NewSession::default()), "Judge")).await.unwrap();
    let events =
        stream.stored_until(|kind| matches!(kind, agentd_core::event::EventKind::InterruptRaised { .. })).await;
    let agentd_core::event::EventKind::InterruptRaised { interrupt } = &events.last().unwrap().kind else {
        unreachable!()
    };
    assert_eq!(interrupt.asked_by.agent, "critic");
    world.daemon.kill9().await;
    world.daemon.restart().await;
    let session = events[0].session_id.to_string();
    let client = world.client().await;
    assert_eq!(client.session(&session).await.unwrap().session.agents, ["critic"]);
    let mut attached = client.subscribe(&session, events.last().unwrap().seq, false).await.unwrap();
    let answer = agentd_core::interrupt::Answer::Text { text: "the first verse".to_owned() };
    client.answer(interrupt.id, &answer, "phone").await.unwrap();
    attached.to_the_end().await;
    let last = world.model.requests().last().unwrap().clone();
    assert_eq!(agent_of(&last), "critic");
    assert!(client.session(&session).await.unwrap().session.agents.is_empty());
}

#[tokio::test]
async fn work_is_given_to_an_agent_by_name() {
    let world = world().await;
    world.model.respond_with(|request| {
        let long = "Roses are red, and violets are blue, and so the day goes on. ".repeat(5);
        match (agent_of(request), tool_texts(request)) {
            ("poet", _) => Reply::text(long),
            (_, told) if told.contains("Roses") => Reply::text("Done."),
            (_, told) if told.contains("there is no agent \"peot\"") => {
                Reply::tool_call("delegate_task", json!({"task": "Rhyme", "agent": "poet"}))
            }
            _ => Reply::tool_call("delegate_task", json!({"task": "Rhyme", "agent": "peot"})),
        }
    });
    let output = world.daemon.agentctl(["run", "Write a poem", "--output", "stream-json"]).await.exits(0);
    let lines = output.json_lines();
    let subagent =
        lines.iter().find(|line| line["change"]["state"] == "subagent").unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(subagent["change"]["name"], "poet");
    let child = subagent["change"]["session_id"].as_str().unwrap();
    // What it does stands between the events of the turn, all of it before the result of the call.
    let of_child: Vec<usize> = (0..lines.len()).filter(|at| lines[*at]["session_id"] == child).collect();
    let numbers: Vec<u64> = of_child
        .iter()
        .filter(|at| lines[**at]["type"] != "item_delta")
        .filter_map(|at| lines[*at]["seq"].as_u64())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(lines[*of_child.last().unwrap()]["type"], "turn_ended");
    let is_result = |line: &Value| {
        line["type"] == "item_completed"
            && line["item"]["name"] == "delegate_task"
            && line["item"]["kind"] == "tool_result"
    };
    let result = lines.iter().rposition(is_result).unwrap();
    assert!(of_child.iter().all(|at| *at < result), "{lines:#?}");
    let asked = world.model.requests().into_iter().find(|request| agent_of(request) == "poet").unwrap();
    let tools = tools_of(&asked);
    assert!(tools.contains(&"read_file") && !tools.iter().any(|tool| tool.starts_with("transfer_to_")), "{tools:?}");
    assert!(!tools.contains(&"delegate_task") && !tools.contains(&"run_bash_command"), "{tools:?}");
    let shown = world.daemon.agentctl(["sessions", "show", child, "--json"]).await.exits(0).json();
    assert_eq!(shown["settings"]["parent"]["agent"], "poet", "{shown:#}");
}
