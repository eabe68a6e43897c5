//! Delegated work: whether 20 concurrent subagents keep one model busy.

use crate::world::folder;

use super::*;

const SUBAGENTS: usize = 20;
const ROUNDS: usize = 5;
/// Time that the model takes to respond to a subagent.
const THINKING_TIME: Duration = Duration::from_millis(400);

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let folder = folder()?;
    let path = folder.path().join("replies.json");
    std::fs::write(&path, replies().to_string())?;
    let script = path.to_string_lossy().into_owned();
    let model = ModelProcess::start(&["script", &script]).await?;
    let home = Home::new(&model)?;
    home.configure("agentd.yaml", &format!("turns: {{parallel_calls: {SUBAGENTS}}}\n"))?;
    let daemon = home.start().await?;
    let mut times = Samples::default();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let seen = turn::run(&daemon.client, turn::request(None, None), || {}).await?;
        times.add(started.elapsed());
        if seen.answer != "All parts are done." {
            bail!("unexpected answer of the turn: {:?}", seen.answer);
        }
    }
    let made = daemon.client.filtered_sessions("", 1000, true, &Default::default()).await?.0.len();
    if made != ROUNDS * (SUBAGENTS + 1) {
        bail!("unexpected number of sessions: {made}");
    }
    let busy = 100.0 * millis(THINKING_TIME) / times.median();
    let each = (times.median() - millis(THINKING_TIME)) / as_f64(SUBAGENTS as u64);
    let note = format!("{each:.1} ms added by the daemon per subagent, from the call to its result in the journal");
    Ok(vec![
        Row::new(
            "20 subagents at once on one model, share of time in which it serves all",
            vec![Figure::percent("", busy).at_least(70.0)],
        )
        .with_note(note),
    ])
}

/// Returns the model's replies. The main agent delegates all parts in one step and answers once it has the reports.
/// Each subagent needs [`THINKING_TIME`] to answer.
fn replies() -> Value {
    let report = "Each thing was looked at and found in order. ".repeat(6);
    let calls: Vec<Value> = (0..SUBAGENTS)
        .map(|part| json!({"name": "delegate_task", "arguments": {"task": format!("Part {part}")}}))
        .collect();
    let thinks = u64::try_from(THINKING_TIME.as_millis()).unwrap_or_default();
    json!([
        {"match": "You are a subagent", "repeat": true, "text": report, "first_delay_ms": thinks},
        {"match": "found in order", "repeat": true, "text": "All parts are done."},
        {"repeat": true, "tool_calls": calls},
    ])
}
