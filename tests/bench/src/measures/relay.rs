//! Throughput of one stream: deltas per second from a fast model to a client.

use agentd_testkit::model_server::fast_text;

use crate::floor::BareClient;

use super::*;

/// Number of deltas in a response, five bytes each.
const DELTAS: u64 = 400_000;
const RUNS: usize = 3;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", &DELTAS.to_string()]).await?;
    let home = Home::new(&model)?;
    let daemon = home.start().await?;
    let bare = BareClient::new(&model.base_url)?;
    let expected = fast_text(DELTAS);
    let (mut ours, mut floor, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let answer = bare.ask().await?;
        if answer.deltas != DELTAS {
            bail!("the bare client received {} of {DELTAS} deltas", answer.deltas);
        }
        floor.push(rate(DELTAS, answer.whole));
        let seen = turn::run(&daemon.client, turn::request(None, None), || {}).await?;
        if seen.answer != expected {
            bail!("the answer differs from the model's output: {} of {} bytes", seen.answer.len(), expected.len());
        }
        if seen.missed == 0 && seen.words != expected {
            bail!("the streamed text differs from the model's output");
        }
        ours.push(rate(DELTAS, seen.whole));
        notes.push(format!("{} messages, {} bytes only at the end", seen.messages, seen.missed));
    }
    Ok(vec![
        Row::new("relay of a fast model, deltas", vec![Figure::per_second("", middle(ours)).at_least(200_000.0)])
            .over(Figure::per_second("", middle(floor)))
            .with_note(format!("all bytes correct; {}", notes.join("; "))),
    ])
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}
