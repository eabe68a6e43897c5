//! Comparison of the wires: the time that the daemon adds to the first token, and the share of a request that the next
//! request repeats, in one long turn and in a long conversation.

use agentd_core::turn::OnInterrupt;
use agentd_testkit::model_server::{ModelServer, Provider, Recorded, Reply};

use crate::floor::{BareClient, BareWire};

use super::*;

/// Number of warm-up turns, which are not measured.
const WARM_UP: usize = 20;
/// Number of measured turns over each wire.
const TURNS: usize = 200;
/// Number of turns in the long conversation.
const LONG: usize = 30;
/// Maximum time over the other wires, as a multiple of the time over chat completions.
const MAX_RATIO: f64 = 1.1;

/// A wire, identified by its name in the configuration.
#[derive(Debug, Clone, Copy)]
struct Wire {
    name: &'static str,
    title: &'static str,
    bare: BareWire,
    /// Provider whose rules the server enforces, if any.
    strict: Option<Provider>,
}

const CHAT: Wire = Wire { name: "openai", title: "chat completions", bare: BareWire::CHAT, strict: None };
const OTHERS: [Wire; 2] = [
    Wire { name: "responses", title: "Responses", bare: BareWire::RESPONSES, strict: Some(Provider::OpenAi) },
    Wire { name: "anthropic", title: "Messages", bare: BareWire::MESSAGES, strict: Some(Provider::Anthropic) },
];

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    // The client has one thread, as in the first-token measurement.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = tokio::task::spawn_blocking(move || runtime.block_on(first_tokens())).await??;
    for wire in [CHAT].into_iter().chain(OTHERS) {
        rows.push(repetition(wire).await?);
    }
    Ok(rows)
}

/// A daemon whose model uses one wire, with its measurements.
struct Measured {
    daemon: Daemon,
    bare: BareClient,
    session: Option<SessionId>,
    added: Samples,
    /// Must live as long as the daemon in this home.
    _home: Home,
}

async fn first_tokens() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let recorder = ModelServer::start().await;
    recorder.lenient();
    let mut measured = Vec::new();
    for wire in [CHAT].into_iter().chain(OTHERS) {
        measured.push(start(wire, &model, &recorder).await?);
    }
    // The wires alternate, so that other load on the host affects all of them.
    for number in 0..WARM_UP + TURNS {
        // The order rotates, so that each wire follows different ones.
        measured.rotate_left(1);
        for Measured { daemon, bare, session, added, .. } in &mut measured {
            let floor = bare.ask().await?.first_text;
            let ours = turn::run(&daemon.client, turn::request(*session, None), || {}).await?.first_text;
            if number >= WARM_UP {
                added.add_difference(ours, floor);
            }
        }
    }
    measured.rotate_right((WARM_UP + TURNS) % (1 + OTHERS.len()));
    let (chat, others) = measured.split_first().context("at least one wire")?;
    let of_chat = chat.added.median();
    let row = |(wire, of_wire): (Wire, &Measured)| {
        let added = of_wire.added.median();
        let figures = vec![
            Figure::times("of chat completions", added / of_chat).at_most(MAX_RATIO),
            Figure::millis("median", added),
            Figure::millis("p99", of_wire.added.percentile(99)),
        ];
        Row::new(format!("first token over {}: added", wire.title), figures)
            .over(Figure::millis("chat completions", of_chat))
            .with_ratio(added / of_chat)
            .with_note(format!("{TURNS} turns each, in one session each, alternating"))
    };
    Ok(OTHERS.into_iter().zip(others).map(row).collect())
}

async fn start(wire: Wire, model: &ModelProcess, recorder: &ModelServer) -> anyhow::Result<Measured> {
    let home = Home::empty()?
        .with_model("BASIC", &model.base_url)
        .with_wire("BASIC", wire.name)
        .with_model("REASONING", &recorder.base_url())
        .with_wire("REASONING", wire.name);
    let daemon = home.start().await?;
    let session = Some(turn::run(&daemon.client, turn::request(None, None), || {}).await?.session);
    for _ in 0..WARM_UP {
        turn::run(&daemon.client, turn::request(session, None), || {}).await?;
    }
    turn::run(&daemon.client, turn::request(session, Some(Slot::Reasoning)), || {}).await?;
    let recorded = recorder.requests().pop().context("the daemon sent no model request")?;
    let bare = BareClient::new(&model.base_url)?.over(wire.bare).with_body(recorded.text.into_bytes());
    Ok(Measured { daemon, bare, session, added: Samples::default(), _home: home })
}

/// Measures a coding turn of many steps and a conversation of many turns.
async fn repetition(wire: Wire) -> anyhow::Result<Row> {
    let model = server(wire).await;
    model.respond_with(|request| context::coding_reply(results(request)));
    let (steps, calls) = {
        let home = home(wire, &model)?;
        let daemon = home.start().await?;
        one_turn(&daemon.client, None, "Write it.", Some(context::STEPS + 2)).await?;
        (repeated(&model), model.requests().len())
    };
    let model = server(wire).await;
    model.respond_with(|request| match ends_with_user_message(request) {
        true => Reply::tool_call("run_bash_command", json!({"command": format!("seq 1 {}", results(request) + 20)})),
        false => Reply::text(format!("That was output {}.", results(request))),
    });
    let (turns, more_calls) = {
        let home = home(wire, &model)?;
        let daemon = home.start().await?;
        let mut session = None;
        for number in 0..LONG {
            session = Some(one_turn(&daemon.client, session, &format!("Count on from {number}."), None).await?);
        }
        (repeated(&model), model.requests().len())
    };
    let figures =
        vec![Figure::percent("one turn", steps).at_least(95.0), Figure::percent("many turns", turns).at_least(95.0)];
    Ok(Row::new(format!("bytes that the next request repeats over {}", wire.title), figures)
        .with_note(format!("a turn of {calls} model calls; {LONG} turns of {more_calls} together")))
}

async fn server(wire: Wire) -> ModelServer {
    let model = ModelServer::start().await;
    if let Some(provider) = wire.strict {
        model.acts_as(provider);
    }
    model
}

fn home(wire: Wire, model: &ModelServer) -> anyhow::Result<Home> {
    let home = Home::empty()?;
    let url = model.base_url();
    home.configure("models.yaml", &format!("base: {{wire: {}, base_url: \"{url}\", id: the-model}}\n", wire.name))?;
    Ok(home)
}

async fn one_turn(
    client: &Client,
    session: Option<SessionId>,
    text: &str,
    steps: Option<usize>,
) -> anyhow::Result<SessionId> {
    let mut start = turn::request(session, None);
    start.start.text = Some(text.to_owned());
    start.start.on_interrupt = OnInterrupt::Approve;
    start.start.max_steps = steps.and_then(|steps| u32::try_from(steps).ok());
    Ok(context::usages(client, start).await?.1)
}

/// Returns the share of all requests that the next request repeats at its beginning, in percent.
fn repeated(model: &ModelServer) -> f64 {
    let requests = model.requests();
    let shares = requests.windows(2).map(|pair| {
        let (before, after) = (parts(&pair[0]), parts(&pair[1]));
        let bytes = |part: &String| as_f64(part.len() as u64);
        let same = before.iter().zip(&after).take_while(|(then, now)| then == now);
        (same.map(|(then, _)| bytes(then)).sum::<f64>(), before.iter().map(bytes).sum::<f64>())
    });
    let (repeated, previous) = shares.fold((0.0, 0.0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
    100.0 * repeated / previous
}

/// Returns the parts of a request in the order in which servers read them: tools, instructions, and each part of each
/// message. Cache markers are removed.
fn parts(request: &Recorded) -> Vec<String> {
    let whole = ["tools", "system", "instructions"].iter().filter_map(|field| request.body.get(field));
    let messages = ["messages", "input"].iter().filter_map(|field| request.body[*field].as_array()).flatten();
    let of_message = |message: &Value| match message["content"].as_array() {
        Some(blocks) => blocks.iter().map(|block| format!("{}{block}", message["role"])).collect(),
        None => vec![message.to_string()],
    };
    let parts = whole.map(Value::to_string).chain(messages.flat_map(of_message));
    parts.map(|part| part.replace(r#","cache_control":{"type":"ephemeral"}"#, "").replace(MARK_FIRST, "{")).collect()
}

/// Cache marker as it appears if the fields of an object are sorted.
const MARK_FIRST: &str = r#"{"cache_control":{"type":"ephemeral"},"#;

/// Counts the tool results in a request.
fn results(request: &Recorded) -> usize {
    let marks = [r#""role":"tool""#, r#""type":"tool_result""#, r#""type":"function_call_output""#];
    marks.iter().map(|mark| request.text.matches(mark).count()).sum()
}

/// Returns true if the last message is from the user.
fn ends_with_user_message(request: &Recorded) -> bool {
    let messages = ["messages", "input"].iter().find_map(|field| request.body[*field].as_array());
    let Some(last) = messages.and_then(|messages| messages.last()) else { return false };
    let has_result =
        last["content"].as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
    last["role"] == "user" && !has_result
}
