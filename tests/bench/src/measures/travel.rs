//! Export, import, replay, rewind and trace page of sessions with many items.

use std::io;

use agentd_core::{
    ids::{CallId, TurnId},
    item::ItemBody,
    ports::{Snapshots as _, Store as _, ToolContext, Workspaces as _},
    session::Mount,
    tool::{ToolCall, ToolResult},
    usage::Usage,
};
use agentd_proto::client::{ExportPart, PlayMode, PlayRequest, PlayStep};
use agentd_testkit::store_contract::EventScript;
use agentd_tools::WorkspaceFolders;
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};

use super::*;

const ITEMS: usize = 10_000;
const STEPS: usize = 1000;
const TURNS: u64 = 500;
const CHANGED: usize = 50;
const RUNS: usize = 5;
/// Number of events per read, as in an export.
const PAGE: usize = 500;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let (from, to) = (Home::empty()?, Home::empty()?);
    let store = journal::open(&from.journal()).await?;
    let started = Instant::now();
    let long = journal::session_of(&store, ITEMS).await?;
    let stored = started.elapsed();
    let stepped = session_of_steps(&store).await?;
    let read = reading(&store, long).await?;
    store.close().await?;

    let (daemon, other) = (from.start().await?, to.start().await?);
    let (archive, exported) = export(&daemon.client, long).await?;
    let started = Instant::now();
    other.client.import(archive.as_slice(), None, false, "agentd-bench").await?;
    let imported = started.elapsed();
    let note = format!("{:.1} MB as an archive", archive.len() as f64 / 1e6);
    let mut rows = vec![
        Row::new("export of a session of 10,000 items", vec![Figure::millis("", exported.median()).at_most(1000.0)])
            .over(Figure::millis("reading its events", read.median()))
            .with_note(note),
        Row::new("import of the same session", vec![Figure::millis("", millis(imported))])
            .over(Figure::millis("storing its events in batches", millis(stored))),
    ];
    rows.push(replay(&daemon.client).await?);
    rows.push(page(&from, stepped).await?);
    rows.push(rewind().await?);
    Ok(rows)
}

/// Measures reading the events of a session from the journal.
async fn reading(store: &SqliteStore, session: SessionId) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..RUNS {
        let (started, mut after) = (Instant::now(), 0);
        loop {
            let page = store.events(session, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
        }
        samples.add(started.elapsed());
    }
    Ok(samples)
}

async fn export(client: &Client, session: SessionId) -> anyhow::Result<(Vec<u8>, Samples)> {
    let (mut archive, mut samples) = (Vec::new(), Samples::default());
    for _ in 0..RUNS {
        archive.clear();
        let started = Instant::now();
        let mut parts = client.export_archive(&session.to_string(), false).await?;
        while let Some(part) = parts.next().await? {
            if let ExportPart::Data(data) = part {
                archive.extend_from_slice(&data);
            }
        }
        samples.add(started.elapsed());
    }
    Ok((archive, samples))
}

/// Measures a strict replay of one long session in turns per second. Each request is compared with its recording.
async fn replay(client: &Client) -> anyhow::Result<Row> {
    let started = Instant::now();
    let learned = play(client, recording(TURNS)?, true).await?;
    let learning = started.elapsed();
    let started = Instant::now();
    play(client, learned.clone(), false).await?;
    let played = started.elapsed();
    let short = play(client, recording(TURNS / 10)?, true).await?;
    let started = Instant::now();
    play(client, short, false).await?;
    let floor = rate(TURNS / 10, started.elapsed());
    let figures = vec![
        Figure::per_second("", rate(TURNS, played)).at_least(500.0),
        Figure::per_second("while recording requests", rate(TURNS, learning)),
    ];
    Ok(Row::new("turns of a strict replay of 500 turns", figures)
        .over(Figure::per_second("of 50 turns", floor))
        .with_note(format!("{:.1} MB recording", learned.len() as f64 / 1e6)))
}

/// Replays a recording strictly. Returns the recording, with the requests of this replay if `update` is true.
async fn play(client: &Client, text: Vec<u8>, update: bool) -> anyhow::Result<Vec<u8>> {
    let request = PlayRequest { text, mode: PlayMode::Strict, project: None, writable: false, approve: false, update };
    let mut steps = client.play(request).await?;
    let mut learned = Vec::new();
    loop {
        match steps.next().await?.context("the replay ended without a report")? {
            PlayStep::Event(_) => {}
            PlayStep::Data(piece) => learned.extend_from_slice(&piece),
            PlayStep::Outcome(report) => {
                ensure!(report.problems.is_empty(), "the replay differs from the recording: {:?}", report.problems);
                return Ok(learned);
            }
        }
    }
}

/// Returns a recording with `turns` turns, as a user would write it.
fn recording(turns: u64) -> anyhow::Result<Vec<u8>> {
    let began = "2026-01-31T12:00:00Z";
    let mut lines = vec![serde_json::json!({
        "fact": "recording", "version": 1, "agentd": "bench", "began": began, "title": "Many turns",
    })];
    for number in 0..turns {
        let (input, answer) = (format!("What is number {number}?"), format!("It is the one behind {}.", number + 1));
        lines.extend([
            serde_json::json!({"fact": "turn", "at": began, "input": input, "slot": "base", "max_steps": 9}),
            serde_json::json!({"fact": "answer", "slot": "base", "parts": [{"text": answer}]}),
            serde_json::json!({"fact": "end", "reason": "completed", "text": answer, "steps": 1}),
        ]);
    }
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    Ok(lines.join("\n").into_bytes())
}

/// Creates a session with one turn of many steps, each with a call and its result.
async fn session_of_steps(store: &SqliteStore) -> anyhow::Result<SessionId> {
    let (id, at) = (SessionId::generate(), Timestamp::now());
    store.create_session(id, at, SessionSettings::default(), Vec::new()).await?;
    let mut script = EventScript::new(id, at);
    store.append(vec![script.turn_started(), script.input("Read all of it.")]).await?;
    for number in 0..STEPS {
        let (call_id, name) = (CallId::generate(), "read_file".to_owned());
        let arguments = format!("{{\"path\":\"/project/src/part{number}.rs\"}}");
        let call = ToolCall { call_id: call_id.clone(), name: name.clone(), arguments };
        let text = "fn part() -> Part { Part::default() }\n".repeat(20);
        let result = ToolResult { text, ..ToolResult::empty(call_id, name) };
        let usage = Usage { prompt_tokens: 2000, completion_tokens: 40, ..Usage::default() };
        let events = vec![
            script.completed(ItemBody::AgentMessage { text: format!("I read part {number}.") }),
            script.completed(ItemBody::ToolCall(call)),
            script.paid(usage),
            script.completed(ItemBody::ToolResult(result)),
        ];
        store.append(events).await?;
    }
    store.append(vec![script.turn_ended(StopReason::Completed)]).await?;
    Ok(id)
}

/// Measures creating a trace page with many steps, including the process start.
async fn page(home: &Home, session: SessionId) -> anyhow::Result<Row> {
    let folder = world::folder()?;
    let (path, id) = (folder.path().join("page.html"), session.to_string());
    let mut samples = Samples::default();
    for _ in 0..RUNS {
        let mut command = home.command("agentctl")?;
        command
            .args(["trace", &id, "--force", "--html"])
            .arg(&path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let started = Instant::now();
        let status = tokio::task::spawn_blocking(move || command.status()).await??;
        samples.add(started.elapsed());
        ensure!(status.success(), "could not write the page: {status}");
    }
    let floor = crate::floor::spawning(RUNS)?;
    let bytes = fs::metadata(&path)?.len();
    Ok(Row::new(
        "the page of a session of 1,000 steps, generated",
        vec![Figure::millis("median", samples.median()).at_most(500.0)],
    )
    .over(Figure::millis("/bin/true", floor.median()))
    .with_note(format!("{:.1} MB", bytes as f64 / 1e6)))
}

/// Measures reverting the changes of a few files among 20,000.
async fn rewind() -> anyhow::Result<Row> {
    let home = world::folder()?;
    let project = home.path().join("project");
    let tree = project.clone();
    tokio::task::spawn_blocking(move || snapshot::make_tree(&tree)).await??;
    let snapshots = FileSnapshots::new(home.path().join("undo"), SnapshotConfig::default());
    let session = SessionId::generate();
    let mount = Mount { path: project.clone(), writable: true };
    let folders = WorkspaceFolders::new(home.path().join("workspace"));
    let call = agentd_testkit::scripted::tool_context(session, folders.open(session, Some(mount).into()).await?);
    let (mut samples, mut floor) = (Samples::default(), Samples::default());
    for run in 0..RUNS {
        let call = ToolContext { call_id: CallId::generate(), turn_id: TurnId::generate(), ..call.clone() };
        let before = snapshots.before(&call, None).await?;
        let took = change(&project, run)?;
        let changes = before.after.await?.files;
        ensure!(changes.len() == CHANGED, "{} files were changed", changes.len());
        let started = Instant::now();
        let done = snapshots.undo(session, &call.workspace, changes, false).await?;
        samples.add(started.elapsed());
        ensure!(done.changes.len() == CHANGED, "{} files were undone", done.changes.len());
        floor.add(took);
    }
    let figures = vec![Figure::millis("median", samples.median()).at_most(300.0)];
    Ok(Row::new("reverting 50 of 20,000 files", figures)
        .over(Figure::millis("writing these files durably", floor.median()))
        .with_note("the other files are not read"))
}

/// Changes files durably, and returns the time taken.
fn change(project: &Path, run: usize) -> io::Result<Duration> {
    let started = Instant::now();
    for number in 0..CHANGED {
        let path = project.join(format!("part{}", number % 20)).join(format!("module{number}")).join("source7.rs");
        fs::write(&path, format!("// changed in run {run}\n"))?;
        fs::File::open(&path)?.sync_all()?;
    }
    Ok(started.elapsed())
}
