//! The time to the first token that daemon and socket add to what the model takes.

use agentd_core::{ids::SessionId, model::Slot};
use agentd_proto::client::Client;
use agentd_testkit::model_server::ModelServer;
use anyhow::Context as _;

use super::turn;
use crate::{
    figures::{Figure, Samples},
    floor::{BareClient, Disk},
    report::Row,
    world::{self, Home, ModelProcess},
};

/// Turns that are not counted.
const WARM_UP: usize = 20;
/// Turns that are.
const TURNS: usize = 300;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    // A second model in our own process keeps what the daemon sends, so that the floor sends the same.
    let recorder = ModelServer::start().await;
    let home = Home::new(&model)?.with_model("REASONING", &recorder.base_url());
    let daemon = home.start().await?;
    turn::run(&daemon.client, turn::request(None, Some(Slot::Reasoning)), || {}).await?;
    let recorded = recorder.requests().pop().context("the daemon asked no model")?;
    let bare = BareClient::new(&model.base_url)?.with_body(recorded.body.to_string().into_bytes());

    let session = turn::run(&daemon.client, turn::request(None, None), || {}).await?.session;
    let again = added(&daemon.client, &bare, Some(session), "first token, in a session: added").await?;
    let fresh = added(&daemon.client, &bare, None, "first token, new session each: added").await?;
    Ok(vec![again, fresh])
}

async fn added(client: &Client, bare: &BareClient, session: Option<SessionId>, what: &str) -> anyhow::Result<Row> {
    let (mut added, mut whole, mut floor) = (Samples::default(), Samples::default(), Samples::default());
    let (folder, mut syncs) = (world::folder()?, Samples::default());
    let disk = Disk::in_folder(folder.path())?;
    for number in 0..WARM_UP + TURNS {
        let bare = bare.ask().await?.first_words;
        let ours = turn::run(client, turn::request(session, None), || {}).await?.first_words;
        if number >= WARM_UP {
            added.add_difference(ours, bare);
            whole.add(ours);
            floor.add(bare);
            syncs.add(tokio::task::block_in_place(|| disk.sync())?);
        }
    }
    let figures = vec![
        Figure::millis("median", added.median()).at_most(1.0),
        Figure::millis("p99", added.quantile(99)).at_most(5.0),
    ];
    // The ratio is that of the whole times: what is added has no floor.
    let note = format!(
        "{TURNS} turns; in all {:.2} ms, p99 {:.2} ms; the bare client {:.2} ms, p99 {:.2} ms; one block made durable \
         {:.2} ms, p99 {:.2} ms, and nothing is shown before it is durable",
        whole.median(),
        whole.quantile(99),
        floor.median(),
        floor.quantile(99),
        syncs.median(),
        syncs.quantile(99),
    );
    Ok(Row::new(what, figures)
        .over(Figure::millis("", floor.median()))
        .with_ratio(whole.median() / floor.median())
        .with_note(note))
}
