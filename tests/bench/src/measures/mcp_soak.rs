//! Resources that remain in use after a thousand starts and stops of an MCP server.

use crate::floor;

use super::{
    mcp::{NAME, configuration},
    *,
};

/// Number of cycles until everything that is only allocated once exists: threads, buffers, start-up code.
const WARM_UP: usize = 50;
const CYCLES: usize = 1000;
/// Tolerance for the allocator, in megabytes. A leak of four kilobytes per cycle would be detected.
const ALLOCATOR_TOLERANCE: f64 = 4.0;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let home = Home::new(&model)?;
    // This argument identifies the servers among all processes.
    let mark = format!("soak-of-{}", std::process::id());
    home.configure("mcp_servers.yaml", &configuration(std::iter::once(NAME.to_owned()), &mark)?)?;
    let daemon = home.start().await?;
    for _ in 0..WARM_UP {
        cycle(&daemon).await?;
    }
    let before = Leftovers::of(&daemon, &mark)?;
    let mut times = Samples::default();
    for _ in 0..CYCLES {
        let started = Instant::now();
        cycle(&daemon).await?;
        times.add(started.elapsed());
    }
    let after = Leftovers::of(&daemon, &mark)?;
    if before.processes > 0 {
        bail!("{} leftover processes before the run", before.processes);
    }
    let floor = tokio::task::block_in_place(|| floor::spawning(WARM_UP))?;
    let grown = after.resident.saturating_sub(before.resident);
    let more = |after: u64, before: u64| as_f64(after) - as_f64(before);
    let left = Row::new(
        "1,000 starts and stops of an MCP server, leftovers",
        vec![
            Figure::count("processes", as_f64(after.processes)).at_most(0.0),
            Figure::count("descriptors", more(after.descriptors, before.descriptors)).at_most(0.0),
            Figure::count("threads", more(after.threads, before.threads)),
            Figure::megabytes("memory", grown).at_most(ALLOCATOR_TOLERANCE),
        ],
    )
    .with_note(format!(
        "after {WARM_UP} warm-up cycles; {} descriptors and {:.1} MB at the end",
        after.descriptors,
        as_f64(after.resident) / 1e6
    ));
    let time = Row::new(
        "start and stop of an MCP server",
        vec![Figure::millis("median", times.median()), Figure::millis("p99", times.percentile(99))],
    )
    .over(Figure::millis("/bin/true", floor.median()));
    Ok(vec![left, time])
}

/// Starts the server, checks its tools, and stops it.
async fn cycle(daemon: &Daemon) -> anyhow::Result<()> {
    let server = daemon.client.start_mcp_server(NAME, "").await?;
    if server.connections != 1 || server.tools.len() != 1 {
        bail!("the server has {} connections and offers {:?}", server.connections, server.tools);
    }
    daemon.client.stop_mcp_server(NAME).await?;
    Ok(())
}

/// Resources that are in use.
struct Leftovers {
    /// Number of server processes, their guards, and zombie children.
    processes: u64,
    /// Number of open file descriptors of the daemon.
    descriptors: u64,
    threads: u64,
    /// Resident memory of the daemon, in bytes.
    resident: u64,
}

impl Leftovers {
    fn of(daemon: &Daemon, mark: &str) -> anyhow::Result<Self> {
        let own = format!("/proc/{}", daemon.id());
        let count = |folder: &str| fs::read_dir(format!("{own}/{folder}")).map(|entries| entries.count() as u64);
        let mut processes = 0;
        for entry in fs::read_dir("/proc")?.flatten() {
            let is_of =
                |pid: &str| pid.bytes().all(|byte| byte.is_ascii_digit()) && is_leftover(pid, daemon.id(), mark);
            processes += u64::from(entry.file_name().to_str().is_some_and(is_of));
        }
        let (descriptors, threads) = (count("fd")?, count("task")?);
        Ok(Self { processes, descriptors, threads, resident: daemon.memory()?.resident })
    }
}

/// Returns true if the process is a server or a child of the daemon.
fn is_leftover(pid: &str, daemon: u32, mark: &str) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let named = command.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name comes first and can contain anything, even a parenthesis.
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
    named || parent == Some(daemon)
}
