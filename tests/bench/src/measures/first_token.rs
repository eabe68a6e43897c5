//! The time that the daemon and its socket add to the model's own time to the first token.

use agentd_testkit::model_server::ModelServer;

use crate::floor::{BareClient, Disk};

use super::*;

/// Number of warm-up turns, which are not measured.
const WARM_UP: usize = 20;
/// Number of measured turns.
const TURNS: usize = 300;
/// Time after which a changed folder is no longer read again in each turn: the timestamp of a more recently changed
/// folder cannot distinguish two changes. Users take longer between turns, so the measured turns wait too.
const FOLDER_SETTLE_TIME: Duration = Duration::from_millis(2500);

/// Measures with one client thread, as in `agentctl`: contention between client threads is not a cost of the daemon.
/// The bare client runs on the same thread.
pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::spawn_blocking(move || runtime.block_on(on_one_thread())).await?
}

async fn on_one_thread() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    // A second model in the bench process records the daemon's request, so that the floor can send the same request.
    let recorder = ModelServer::start().await;
    recorder.lenient();
    let home = Home::new(&model)?.with_model("REASONING", &recorder.base_url());
    let daemon = home.start().await?;
    let client = &daemon.client;
    let bare = async |session| {
        turn::run(client, turn::request(session, Some(Slot::Reasoning)), || {}).await?;
        let recorded = recorder.requests().pop().context("the daemon sent no model request")?;
        BareClient::new(&model.base_url).map(|bare| bare.with_body(recorded.body.to_string().into_bytes()))
    };

    let session = Some(turn::run(client, turn::request(None, None), || {}).await?.session);
    // The first turn may have created some of these folders.
    tokio::time::sleep(FOLDER_SETTLE_TIME).await;
    for _ in 0..WARM_UP {
        // Warm-up turns, which fill the history to the maximum that a request contains.
        turn::run(client, turn::request(session, None), || {}).await?;
    }
    let in_session = added(client, &bare(session).await?, session, "first token, in a session: added").await?;
    let fresh = added(client, &bare(None).await?, None, "first token, new session each: added").await?;
    Ok(vec![in_session, fresh])
}

async fn added(client: &Client, bare: &BareClient, session: Option<SessionId>, label: &str) -> anyhow::Result<Row> {
    let (mut added, mut whole, mut floor) = (Samples::default(), Samples::default(), Samples::default());
    let (folder, mut syncs) = (world::folder()?, Samples::default());
    let disk = Disk::in_folder(folder.path())?;
    for number in 0..WARM_UP + TURNS {
        let bare = bare.ask().await?.first_text;
        let ours = turn::run(client, turn::request(session, None), || {}).await?.first_text;
        if number >= WARM_UP {
            added.add_difference(ours, bare);
            whole.add(ours);
            floor.add(bare);
            syncs.add(disk.sync()?);
        }
    }
    let figures = vec![
        Figure::millis("median", added.median()).at_most(2.0),
        Figure::millis("p99", added.percentile(99)).at_most(5.0),
    ];
    // The ratio is computed from the total times, since the added time has no floor.
    let note = format!(
        "{TURNS} turns; total {:.2} ms, p99 {:.2} ms; the bare client {:.2} ms, p99 {:.2} ms; one block made durable \
         {:.2} ms, p99 {:.2} ms, and nothing is shown before it is durable",
        whole.median(),
        whole.percentile(99),
        floor.median(),
        floor.percentile(99),
        syncs.median(),
        syncs.percentile(99),
    );
    Ok(Row::new(label, figures)
        .over(Figure::millis("", floor.median()))
        .with_ratio(whole.median() / floor.median())
        .with_note(note))
}
