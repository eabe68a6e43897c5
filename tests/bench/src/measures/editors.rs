//! Editors: the time that `agentctl acp` adds to a turn, the time to load a long session, twenty concurrent editors,
//! and the cost of watching many sessions.

use futures_util::future::try_join_all;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::*;

/// Number of warm-up turns, which are not measured.
const WARM_UP: usize = 20;
/// Number of measured turns.
const TURNS: usize = 200;
/// Number of items in the loaded session.
const ITEMS: usize = 10_000;
/// Number of loads, each by a new process.
const LOADS: usize = 15;
/// Number of concurrent editors.
const EDITORS: usize = 20;
/// Number of prompts per editor.
const PROMPTS: usize = 10;
/// Number of watched sessions.
const WATCHED: usize = 500;
/// Number of clients that watch these sessions.
const WATCHERS: usize = 20;
/// Length of the measured idle period.
const IDLE_TIME: Duration = Duration::from_secs(5);

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    Ok(vec![
        first_update(&model).await?,
        loading(&model).await?,
        concurrent_prompts(&model).await?,
        watching(&model).await?,
    ])
}

/// An editor, simulated by the pipes of an `agentctl acp` process.
struct Editor {
    process: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    requests: u64,
}

impl Editor {
    async fn start(home: &Home) -> anyhow::Result<Self> {
        let mut command = Command::from(home.command("agentctl")?);
        command.arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let input = process.stdin.take().context("the ACP bridge has no stdin")?;
        let lines = BufReader::new(process.stdout.take().context("the ACP bridge has no stdout")?).lines();
        let mut editor = Self { process, input, lines, requests: 0 };
        editor.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await?;
        Ok(editor)
    }

    /// Sends a request and returns its ID.
    async fn send(&mut self, method: &str, params: Value) -> anyhow::Result<u64> {
        self.requests += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params});
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.requests)
    }

    async fn receive(&mut self) -> anyhow::Result<Value> {
        let line = self.lines.next_line().await?.context("the ACP bridge exited")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Sends a request. Returns the result, and the time until the first update that satisfies `is_it`.
    async fn timed(
        &mut self,
        method: &str,
        params: Value,
        is_it: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<(Value, Option<Duration>)> {
        let started = Instant::now();
        let id = self.send(method, params).await?;
        let mut first = None;
        loop {
            let line = self.receive().await?;
            if line["method"] == "session/update" && is_it(&line["params"]["update"]) {
                first.get_or_insert_with(|| started.elapsed());
            }
            if line["id"] == json!(id) && line.get("method").is_none() {
                if let Some(error) = line.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok((line["result"].clone(), first));
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        Ok(self.timed(method, params, |_| false).await?.0)
    }

    async fn new_session(&mut self, folder: &Path) -> anyhow::Result<String> {
        let opened = self.request("session/new", json!({"cwd": folder, "mcpServers": []})).await?;
        Ok(opened["sessionId"].as_str().context("session/new returned no session ID")?.to_owned())
    }

    /// Returns the time from a prompt to the first text of its response.
    async fn prompt(&mut self, session: &str) -> anyhow::Result<Duration> {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "Hello"}]});
        let is_words = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
        let (result, first) = self.timed("session/prompt", params, is_words).await?;
        ensure!(result["stopReason"] == "end_turn", "unexpected result of the prompt: {result}");
        first.context("the turn sent no text")
    }

    /// Returns the peak memory of the process, in bytes.
    fn peak(&self) -> anyhow::Result<u64> {
        let id = self.process.id().context("the ACP bridge exited")?;
        Ok(world::memory_of(id)?.peak)
    }
}

/// Compares prompts through `agentctl acp` with turns over gRPC, in alternating order.
async fn first_update(model: &ModelProcess) -> anyhow::Result<Row> {
    let home = Home::new(model)?;
    let daemon = home.start().await?;
    let folder = world::folder()?;
    let mut editor = Editor::start(&home).await?;
    let of_editor = editor.new_session(folder.path()).await?;
    // The gRPC turns also use a session created by the editor, so that both sessions have the same project and
    // instructions.
    let of_client: SessionId = editor.new_session(folder.path()).await?.parse()?;
    let (mut prompts, mut turns) = (Samples::default(), Samples::default());
    for number in 0..WARM_UP + TURNS {
        let (prompt, turn) = if number % 2 == 0 {
            let prompt = editor.prompt(&of_editor).await?;
            (prompt, turn::run(&daemon.client, turn::request(Some(of_client), None), || {}).await?.first_text)
        } else {
            let turn = turn::run(&daemon.client, turn::request(Some(of_client), None), || {}).await?.first_text;
            (editor.prompt(&of_editor).await?, turn)
        };
        if number >= WARM_UP {
            prompts.add(prompt);
            turns.add(turn);
        }
    }
    let added = prompts.median() - turns.median();
    let figures = vec![
        Figure::millis("added", added).at_most(2.0),
        Figure::millis("median", prompts.median()),
        Figure::millis("p99", prompts.percentile(99)),
    ];
    Ok(Row::new("first text after a prompt in an editor", figures)
        .over(Figure::millis("over gRPC", turns.median()))
        .with_ratio(prompts.median() / turns.median())
        .with_note(format!("{TURNS} turns each, in one session each, alternating")))
}

/// Measures loading a session of 10,000 items in newly started processes.
async fn loading(model: &ModelProcess) -> anyhow::Result<Row> {
    let home = Home::new(model)?;
    let store = journal::open(&home.journal()).await?;
    let session = journal::session_of(&store, ITEMS).await?;
    store.close().await?;
    let _daemon = home.start().await?;
    let folder = world::folder()?;
    let (mut firsts, mut wholes, mut peak) = (Samples::default(), Samples::default(), 0);
    for _ in 0..LOADS {
        let mut editor = Editor::start(&home).await?;
        let params = json!({"sessionId": session.to_string(), "cwd": folder.path(), "mcpServers": []});
        let started = Instant::now();
        let (_, first) = editor.timed("session/load", params, |_| true).await?;
        wholes.add(started.elapsed());
        firsts.add(first.context("no update for the session")?);
        peak = peak.max(editor.peak()?);
    }
    let figures = vec![
        Figure::millis("first update", firsts.median()).at_most(50.0),
        Figure::megabytes("at most", peak).at_most(30.0),
        Figure::millis("whole", wholes.median()),
    ];
    Ok(Row::new("an editor loads a session of 10,000 items", figures)
        .with_note(format!("{LOADS} loads, each by a new process")))
}

/// Measures twenty editors that send prompts concurrently.
async fn concurrent_prompts(model: &ModelProcess) -> anyhow::Result<Row> {
    let home = Home::new(model)?;
    let daemon = home.start().await?;
    let folder = world::folder()?;
    let mut editors = Vec::new();
    for _ in 0..EDITORS {
        let mut editor = Editor::start(&home).await?;
        let session = editor.new_session(folder.path()).await?;
        editors.push((editor, session));
    }
    let started = Instant::now();
    let prompted = try_join_all(editors.iter_mut().map(async |(editor, session)| {
        for _ in 0..PROMPTS {
            editor.prompt(session).await?;
        }
        editor.peak()
    }));
    let peaks = prompted.await?;
    let took = started.elapsed();
    let prompts = as_f64((EDITORS * PROMPTS) as u64);
    let figures = vec![
        Figure::millis("per prompt", millis(took) / prompts),
        Figure::megabytes("largest editor", peaks.into_iter().max().unwrap_or(0)).at_most(30.0),
        Figure::megabytes("the daemon", daemon.memory()?.resident),
    ];
    Ok(Row::new("20 editors at once", figures).with_note(format!("{PROMPTS} prompts per editor, all answered")))
}

/// Measures the processor time of an idle daemon, without clients and with clients that watch sessions.
async fn watching(model: &ModelProcess) -> anyhow::Result<Row> {
    let home = Home::new(model)?;
    let store = journal::open(&home.journal()).await?;
    for _ in 0..WATCHED {
        journal::session_of(&store, 10).await?;
    }
    store.close().await?;
    let daemon = home.start().await?;
    daemon.memory_at_rest().await?;
    let unwatched = cpu_time(&daemon).await?;
    let started = Instant::now();
    let mut streams = Vec::new();
    for _ in 0..WATCHERS {
        streams.push(daemon.client.watch(true, false).await?);
    }
    for stream in &mut streams {
        ensure!(stream.next().await?.is_some(), "the watch stream ended");
    }
    let notified = started.elapsed();
    daemon.memory_at_rest().await?;
    let watched = cpu_time(&daemon).await?;
    let figures = vec![
        Figure::millis("more in 5 s", watched - unwatched).at_most(10.0),
        Figure::millis("without them", unwatched),
        Figure::millis("until all received the list", millis(notified)),
    ];
    Ok(Row::new("20 clients watch 500 idle sessions", figures))
}

/// Returns the processor time that the daemon uses in the idle period, in milliseconds. The kernel counts in steps of
/// 10 ms.
async fn cpu_time(daemon: &Daemon) -> anyhow::Result<f64> {
    let before = world::cpu_time_of(daemon.id())?;
    tokio::time::sleep(IDLE_TIME).await;
    Ok(millis(world::cpu_time_of(daemon.id())?) - millis(before))
}
