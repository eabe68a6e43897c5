//! The context: the cost of a request before it is sent, the share that repeats the previous request, and whether the
//! built-in model recomputes that share.

use agentd_core::{
    error::ModelError,
    event::EventKind,
    model::{Finish, ModelChunk, ModelInfo, ModelRequest},
    ports::Model,
    turn::OnInterrupt,
    usage::Usage,
};
use agentd_engine::{Engine, EngineConfig, Ports};
use agentd_proto::client::StartRequest;
use agentd_testkit::{
    memory_audit::MemoryAudit,
    memory_disk::MemoryDisk,
    model_server::{ModelServer, Recorded, Reply},
    scripted::{NoWorkspaces, OneModel, ScriptedTools, StoppedClock},
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::sync::mpsc;

use super::*;

/// Numbers of items in the compared sessions.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const WARM_UP: usize = 20;
const TURNS: usize = 200;
/// Number of model calls in the coding session.
pub(super) const STEPS: usize = 60;
/// Number of turns with the built-in model.
const LOCAL_TURNS: usize = 4;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![assembling().await?, prefix().await?];
    rows.push(match embedded().await {
        Ok(row) => row,
        // The built-in model may be missing, which is not an error.
        Err(error) => Row::new(LOCAL, Vec::new()).with_note(format!("not measured: {error:#}")),
    });
    Ok(rows)
}

/// Model that records the time of each request and responds immediately.
struct Stopwatch {
    info: ModelInfo,
    asked: mpsc::UnboundedSender<Instant>,
}

impl Model for Stopwatch {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let _ = self.asked.send(Instant::now());
        let chunks = [ModelChunk::Text("Yes.".to_owned()), ModelChunk::End(Finish::Stop)];
        stream::iter(chunks.map(Ok)).boxed()
    }
}

/// Measures the time from the start of a turn to the model call, in sessions of different lengths over a real journal.
async fn assembling() -> anyhow::Result<Row> {
    let folder = world::folder()?;
    let path = folder.path().join("journal.db");
    let store = Arc::new(journal::open(&path).await?);
    let mut sessions = Vec::new();
    for items in SIZES {
        sessions.push(journal::session_of(&store, items).await?);
    }
    let (sender, mut asked) = mpsc::unbounded_channel();
    let info = ModelInfo {
        id: "stopwatch".to_owned(),
        wire: "none".to_owned(),
        base_url: None,
        context_window: 131_072,
        window_source: Default::default(),
        native_tools: true,
        embedded: false,
        echo_reasoning: false,
        sees_pictures: false,
        figures: Vec::new(),
    };
    let engine = Engine::new(
        Ports {
            models: Arc::new(OneModel(Arc::new(Stopwatch { info, asked: sender }))),
            toolbox: ScriptedTools::new(),
            store: Arc::clone(&store) as _,
            workspaces: Arc::new(NoWorkspaces),
            pictures: None,
            snapshots: Arc::new(MemoryDisk::default()),
            languages: Arc::new(agentd_core::ports::NoLanguages),
            exchanges: agentd_core::ports::NoExchanges::port(),
            audit: Arc::new(MemoryAudit::default()),
            clock: Arc::new(StoppedClock::default()),
        },
        EngineConfig::default(),
    );
    let mut samples = SIZES.map(|_| Samples::default());
    for number in 0..WARM_UP + TURNS {
        // The sessions alternate, so that other load on the host affects all of them.
        for (session, samples) in sessions.iter().zip(&mut samples) {
            let handle = engine.session(*session).await?;
            let begun = Instant::now();
            let mut started = handle.start_turn(turn::request(None, None).start).await?;
            let asked = asked.recv().await.context("no model request")?;
            while let Some(event) = started.events.next().await.transpose()? {
                if matches!(event.kind, EventKind::TurnEnded { .. }) {
                    break;
                }
            }
            if number >= WARM_UP {
                samples.add(asked.duration_since(begun));
            }
        }
    }
    let [few, some, many] = &samples;
    // Rounded up to hundredths, because the limit is displayed with two decimals.
    let upper_limit = (200.0 * few.median()).ceil() / 100.0;
    let figures = vec![
        Figure::millis("median", some.median()).at_most(5.0),
        Figure::millis("p99", some.percentile(99)),
        // Items outside the window must not cost anything. A factor of two allows for noise on a busy host.
        Figure::millis("with 100,000", many.median()).at_most(upper_limit),
    ];
    Ok(Row::new("assembling a request in a session of 10,000 items", figures)
        .over(Figure::millis("1,000 items", few.median()))
        .with_note(format!("{TURNS} turns each, from the start of the turn to the model call")))
}

/// Measures sixty model calls of one coding turn, through a real daemon with its real tools.
async fn prefix() -> anyhow::Result<Row> {
    let model = ModelServer::start().await;
    model.lenient();
    model.respond_with(|request| {
        coding_reply(request.messages().iter().filter(|message| message["role"] == "tool").count())
    });
    let home = Home::at(&model.base_url())?;
    let daemon = home.start().await?;
    let mut start = turn::request(None, None);
    start.start.on_interrupt = OnInterrupt::Approve;
    start.start.max_steps = u32::try_from(STEPS + 2).ok();
    let reports = usages(&daemon.client, start).await?.0;
    let broken =
        reports.iter().filter(|(_, report)| report.as_ref().is_none_or(|report| report.broken_by.is_some())).count();
    let requests = model.requests();
    // The shares are computed from the received requests, not from the daemon's own figures.
    let shares: Vec<(f64, f64)> = requests.windows(2).map(|pair| repeated_bytes(&pair[0], &pair[1])).collect();
    let (repeated, previous) = shares.iter().fold((0.0, 0.0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
    let least = shares.iter().map(|(again, before)| 100.0 * again / before).fold(f64::INFINITY, f64::min);
    let figures = vec![
        Figure::percent("overall", 100.0 * repeated / previous).at_least(95.0),
        Figure::percent("minimum", least).at_least(95.0),
    ];
    Ok(Row::new("bytes of a request that the next one repeats", figures).with_note(format!(
        "{} model calls of one coding turn; {broken} of them did not extend the previous request",
        reports.len()
    )))
}

/// Returns the number of leading bytes that both requests share, and the total number of bytes in the second request,
/// as received by the server. The tools come first, because servers read them first.
fn repeated_bytes(before: &Recorded, after: &Recorded) -> (f64, f64) {
    let parts = |request: &Recorded| -> Vec<String> {
        let tools = request.body.get("tools").map(ToString::to_string);
        tools.into_iter().chain(request.messages().iter().map(ToString::to_string)).collect()
    };
    let (before, after) = (parts(before), parts(after));
    let bytes = |part: &String| as_f64(part.len() as u64);
    let same = before.iter().zip(&after).take_while(|(then, now)| then == now);
    (same.map(|(then, _)| bytes(then)).sum(), before.iter().map(bytes).sum())
}

/// Returns the reply of a coding model after `done` results. The model plans, reads, edits, runs and reads again.
pub(super) fn coding_reply(done: usize) -> Reply {
    if done + 1 >= STEPS {
        return Reply::text("All of it is done, and the checks are green.");
    }
    let code = "fn add(left: u64, right: u64) -> u64 {\n    left + right\n}\n\n".repeat(8 + done % 9);
    let path = format!("outputs/part_{}.rs", done / 4);
    match done % 4 {
        0 if done.is_multiple_of(12) => {
            let todo = |number: usize| {
                let status = match number.cmp(&(done / 12)) {
                    std::cmp::Ordering::Less => "completed",
                    std::cmp::Ordering::Equal => "in_progress",
                    std::cmp::Ordering::Greater => "pending",
                };
                json!({"id": number.to_string(), "content": format!("Write part {number}"), "status": status})
            };
            Reply::tool_call("todo_write", json!({"todos": (0..5).map(todo).collect::<Vec<_>>()}))
        }
        0 => Reply::tool_call("grep", json!({"pattern": "fn add", "path": "outputs"})),
        1 => Reply::tool_call("write_file", json!({"path": format!("outputs/part_{done}.rs"), "content": code})),
        2 => Reply::tool_call("read_file", json!({"path": format!("outputs/part_{}.rs", done - 1)})),
        _ => {
            Reply::tool_call("run_bash_command", json!({"command": format!("wc -l outputs/*.rs; echo checked {path}")}))
        }
    }
}

/// Runs a turn. Returns the usage of each model call with its share of repeated tokens, and the session.
pub(super) async fn usages(client: &Client, start: StartRequest) -> anyhow::Result<(Vec<MeasuredCall>, SessionId)> {
    let mut stream = client.turn(start).await?;
    let mut usages = Vec::new();
    while let Some(event) = stream.next().await? {
        match event.kind {
            EventKind::UsageUpdated { usage, prompt, .. } => usages.push((usage, prompt)),
            EventKind::TurnEnded { result } if result.error.is_some() => bail!("the turn failed: {:?}", result.error),
            _ => {}
        }
    }
    Ok((usages, stream.session_id()))
}

pub(super) type MeasuredCall = (Usage, Option<agentd_core::context::PromptReport>);

const LOCAL: &str = "prompt tokens that the built-in model had computed before";

/// Measures a few turns with the built-in model.
async fn embedded() -> anyhow::Result<Row> {
    let home = Home::empty()?;
    let weights = weights().context("the built-in model is missing; run `make model`")?;
    home.install_model(&weights)?;
    let daemon = home.start().await?;
    let (mut session, mut steps): (Option<SessionId>, Vec<Usage>) = (None, Vec::new());
    for number in 0..LOCAL_TURNS {
        let mut start = turn::request(session, None);
        start.start.text = Some(format!("Write one sentence about the number {number}."));
        let (turn_usages, id) = usages(&daemon.client, start).await?;
        steps.extend(turn_usages.into_iter().map(|(usage, _)| usage));
        session = Some(id);
    }
    let later = || steps.iter().skip(1);
    let sum = |of: fn(&Usage) -> u64| later().map(of).sum::<u64>();
    let share = 100.0 * as_f64(sum(|usage| usage.cached_tokens)) / as_f64(sum(|usage| usage.prompt_tokens));
    let each = |usage: &Usage| format!("{} of {}", usage.prompt_tokens - usage.cached_tokens, usage.prompt_tokens);
    let each: Vec<String> = steps.iter().map(each).collect();
    Ok(Row::new(LOCAL, vec![Figure::percent("after the first call", share).at_least(60.0)])
        .with_note(format!("prompt tokens computed, call by call: {}", each.join(", "))))
}

/// Returns the path where `make model` stores the built-in model's file.
fn weights() -> Option<PathBuf> {
    let named = std::env::var_os("AGENTD_TEST_MODEL").map(PathBuf::from);
    let default_path = || {
        let own = std::env::var_os("AGENTD_DATA_DIR").map(PathBuf::from);
        let xdg = || std::env::var_os("XDG_DATA_HOME").map(|base| Path::new(&base).join("agentd"));
        let usual = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share/agentd"));
        let folder = own.or_else(xdg).or_else(usual)?;
        let files = std::fs::read_dir(folder.join("models")).ok()?.flatten().map(|file| file.path());
        files.filter(|file| file.extension().is_some_and(|ending| ending == "gguf")).min()
    };
    named.or_else(default_path)
}
