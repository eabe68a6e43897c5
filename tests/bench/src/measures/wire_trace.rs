//! The time that request tracing adds to a turn, measured with two daemons in parallel, one of which traces its
//! requests.

use super::{turn::TurnRecord, *};

/// Number of deltas in a response.
const DELTAS: &str = "200";
/// Number of warm-up turns, which are not measured.
const WARM_UP: usize = 20;
/// Number of measured turns for each daemon.
const TURNS: usize = 300;
/// Time after which newly created folders are no longer read again in each turn.
const FOLDER_SETTLE_TIME: Duration = Duration::from_millis(2500);

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", DELTAS]).await?;
    let (without, with) = (Home::new(&model)?, Home::new(&model)?);
    with.configure("agentd.yaml", "trace: {requests: true}\n")?;
    let (quiet, traced) = (without.start().await?, with.start().await?);
    let sessions = (begin(&quiet).await?, begin(&traced).await?);
    tokio::time::sleep(FOLDER_SETTLE_TIME).await;
    let (mut off, mut on) = ((Samples::default(), Samples::default()), (Samples::default(), Samples::default()));
    for number in 0..WARM_UP + TURNS {
        // The order of the two daemons alternates.
        let (plain, traced_time) = if number % 2 == 0 {
            let plain = ask(&quiet, sessions.0).await?;
            (plain, ask(&traced, sessions.1).await?)
        } else {
            let traced_time = ask(&traced, sessions.1).await?;
            (ask(&quiet, sessions.0).await?, traced_time)
        };
        if number < WARM_UP {
            continue;
        }
        off.0.add(plain.first_text);
        off.1.add(plain.whole);
        on.0.add(traced_time.first_text);
        on.1.add(traced_time.whole);
    }
    let folder = with.data().join("traces").join(sessions.1.to_string());
    let bytes = std::fs::metadata(folder.join("trace.jsonl")).context("no trace was stored")?.len();
    let share = (on.1.median() / off.1.median() - 1.0) * 100.0;
    let figures = vec![
        Figure::percent("of a turn", share).at_most(3.0),
        Figure::millis("to the first token", on.0.median() - off.0.median()).at_most(0.2),
    ];
    let note = format!(
        "{TURNS} turns of one session each, alternating; a turn {:.2} ms with and {:.2} ms without, its first token {:.2} and \
         {:.2} ms; {:.0} KB of trace per turn",
        on.1.median(),
        off.1.median(),
        on.0.median(),
        off.0.median(),
        f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / f64::from(u32::try_from(WARM_UP + TURNS)?),
    );
    Ok(vec![Row::new("added by tracing requests", figures).with_note(note)])
}

async fn begin(daemon: &Daemon) -> anyhow::Result<SessionId> {
    Ok(turn::run(&daemon.client, turn::request(None, None), || {}).await?.session)
}

async fn ask(daemon: &Daemon, session: SessionId) -> anyhow::Result<TurnRecord> {
    turn::run(&daemon.client, turn::request(Some(session), None), || {}).await
}
