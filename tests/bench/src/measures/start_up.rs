//! The time from spawning the daemon to its first response.

use crate::floor;

use super::*;

const STARTS: usize = 15;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let floor = tokio::task::block_in_place(|| floor::spawning(STARTS))?.median();
    let (mut first, mut again) = (Samples::default(), Samples::default());
    for _ in 0..STARTS {
        let home = Home::new(&model)?;
        for samples in [&mut first, &mut again] {
            let daemon = home.start().await?;
            samples.add(daemon.ready_after);
            tokio::task::block_in_place(|| drop(daemon));
        }
    }
    let row = |label: &str, samples: &Samples| {
        let figures = vec![
            Figure::millis("median", samples.median()).at_most(60.0),
            Figure::millis("p99", samples.percentile(99)),
        ];
        Row::new(label, figures).over(Figure::millis("/bin/true", floor))
    };
    Ok(vec![row("daemon start to ready, empty data folder", &first), row("daemon start to ready, again", &again)])
}
