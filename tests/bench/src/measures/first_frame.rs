//! The time from the start of a chat to its first prompt at a terminal, with a running daemon.

use super::{terminal::Terminal, *};

const WARM_UP: usize = 3;
const RUNS: usize = 30;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let home = Home::new(&model)?;
    let _daemon = home.start().await?;
    tokio::task::block_in_place(|| frames(&home))
}

fn frames(home: &Home) -> anyhow::Result<Vec<Row>> {
    let (mut frames, mut floor) = (Samples::default(), Samples::default());
    for number in 0..WARM_UP + RUNS {
        let frame = Terminal::agentctl(home, &["chat"])?.time_to("› ")?;
        let mut cat = Terminal::cat()?;
        cat.types("x\n")?;
        let echo = cat.time_to("x")?;
        if number >= WARM_UP {
            frames.add(frame);
            floor.add(echo);
        }
    }
    let figures = vec![Figure::millis("median", frames.median()), Figure::millis("p99", frames.percentile(99))];
    Ok(vec![
        Row::new("first frame: agentctl chat to its prompt at a terminal", figures)
            .over(Figure::millis("/bin/cat", floor.median()))
            .with_note(format!("{RUNS} chats with a running daemon; /bin/cat until its first byte at a terminal")),
    ])
}
