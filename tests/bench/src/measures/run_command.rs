//! A complete `agentctl run`, from the start of the process to its exit.

use crate::floor;

use super::*;

const WARM_UP: usize = 5;
const RUNS: usize = 50;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let home = Home::new(&model)?;
    let _daemon = home.start().await?;
    tokio::task::block_in_place(|| runs(&home))
}

fn runs(home: &Home) -> anyhow::Result<Vec<Row>> {
    let mut samples = Samples::default();
    for number in 0..WARM_UP + RUNS {
        let mut command = home.command("agentctl")?;
        let started = Instant::now();
        let output = command.args(["run", "Hello"]).output()?;
        if number >= WARM_UP {
            samples.add(started.elapsed());
        }
        if !output.status.success() || output.stdout.trim_ascii() != b"w000" {
            bail!("agentctl exited with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
    }
    let floor = floor::spawning(RUNS)?;
    let figures =
        vec![Figure::millis("median", samples.median()).at_most(20.0), Figure::millis("p99", samples.percentile(99))];
    Ok(vec![
        Row::new("agentctl run, total", figures)
            .over(Figure::millis("/bin/true", floor.median()))
            .with_note(format!("{RUNS} runs with a running daemon")),
    ])
}
