//! MCP servers: the cost of many unused servers, and the time that the pool adds to a call.
//!
//! A call is timed in this process, through the same pool and guard as in the daemon, and compared with a bare client
//! of the same server. In whole turns, the difference would be lost in the noise of two model requests.

use agentd_core::{
    ids::CallId,
    ports::{ToolContext, Toolbox as _, Workspace},
    tool::ToolCall,
};
use agentd_mcp::{
    McpConfig, McpPool, McpToolbox, ServerConfig,
    catalogue::CatalogueFolder,
    config::ServerAddress,
    login::Logins,
    pool::{PoolOwner, PoolParts},
};
use rmcp::{
    RoleClient, ServiceExt as _, model::CallToolRequestParams, service::RunningService, transport::TokioChildProcess,
};

use crate::{MCP_SERVER, mcp_server::TOOL};

use super::*;

/// Number of unused servers.
const SERVERS: usize = 50;
const STARTS: usize = 15;
const TURNS: usize = 60;
const WARM_UP: usize = 50;
const CALLS: usize = 1000;
/// Name of the server if there is only one.
pub(super) const NAME: &str = "bench";

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let mut rows = idle_servers().await?;
    rows.push(call_overhead().await?);
    Ok(rows)
}

/// Returns the configuration of servers with these names, each running this binary. `mark` is the last argument of each
/// server, so that the servers can be found among all processes.
pub(super) fn configuration(names: impl Iterator<Item = String>, mark: &str) -> anyhow::Result<String> {
    let server = json!({"command": std::env::current_exe()?, "args": [MCP_SERVER, mark]});
    let servers: BTreeMap<String, &Value> = names.map(|name| (name, &server)).collect();
    Ok(json!({ "servers": servers }).to_string())
}

async fn idle_servers() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["fast", "1"]).await?;
    let (without, with) = (Home::new(&model)?, Home::new(&model)?);
    let names = || (0..SERVERS).map(|number| format!("server{number}"));
    with.configure("mcp_servers.yaml", &configuration(names(), "idle")?)?;
    // Each server is started once, like a user's servers, so that its tools are cached.
    let daemon = with.start().await?;
    for name in names() {
        daemon.client.start_mcp_server(&name, "").await?;
    }
    close(daemon);
    close(without.start().await?);

    let (mut floor, mut ours, mut added) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..STARTS {
        let bare = without.start().await?;
        let full = with.start().await?;
        floor.add(bare.ready_after);
        ours.add(full.ready_after);
        added.add_difference(full.ready_after, bare.ready_after);
        close(bare);
        close(full);
    }
    let start = Row::new(
        "50 idle MCP servers, added to the daemon's start",
        vec![Figure::millis("median", added.median()).at_most(5.0)],
    )
    .over(Figure::millis("without them", floor.median()))
    .with_ratio(ours.median() / floor.median());

    let (bare, full) = (without.start().await?, with.start().await?);
    let (mut floor, mut ours, mut added) = (Samples::default(), Samples::default(), Samples::default());
    for number in 0..WARM_UP + TURNS {
        let one = turn::run(&bare.client, turn::request(None, None), || {}).await?.whole;
        let other = turn::run(&full.client, turn::request(None, None), || {}).await?.whole;
        if number >= WARM_UP {
            floor.add(one);
            ours.add(other);
            added.add_difference(other, one);
        }
    }
    let servers = full.client.mcp_servers().await?;
    let offered = servers.iter().filter(|server| server.reached && server.tools.len() == 1).count();
    ensure!(offered == SERVERS, "only {offered} of {SERVERS} servers are known");
    ensure!(servers.iter().all(|server| server.connections == 0), "a server was started before it was called");
    let turns = Row::new(
        "50 idle MCP servers, added to a turn without calls",
        vec![Figure::millis("median", added.median()).at_most(0.5)],
    )
    .over(Figure::millis("without them", floor.median()))
    .with_ratio(ours.median() / floor.median())
    .with_note("no server was started; the difference is noise");
    close(bare);
    close(full);
    Ok(vec![start, turns])
}

fn close(daemon: Daemon) {
    tokio::task::block_in_place(|| drop(daemon));
}

async fn call_overhead() -> anyhow::Result<Row> {
    let folder = world::folder()?;
    let pool = pool(folder.path().to_owned())?;
    pool.start(NAME, None).await.map_err(|reason| anyhow::anyhow!("{reason}"))?;
    let toolbox = McpToolbox::new(Arc::clone(&pool));
    let name = format!("mcp_{NAME}_{TOOL}");
    ensure!(toolbox.has(&name), "the pool does not offer {name}");
    let context = context(folder.path().to_owned());
    let bare = bare_client().await?;

    let (mut floor, mut ours, mut added) = (Samples::default(), Samples::default(), Samples::default());
    for number in 0..WARM_UP + CALLS {
        let text = format!("call {number}");
        let params = CallToolRequestParams::new(TOOL).with_arguments(serde_json::from_value(json!({ "text": text }))?);
        let begun = Instant::now();
        let answer = bare.call_tool(params).await?;
        let one = begun.elapsed();
        let content =
            answer.content.first().and_then(|content| content.as_text()).context("the server returned no text")?;
        ensure!(content.text == text, "unexpected answer of the server: {:?}", content.text);

        let arguments = json!({ "text": text }).to_string();
        let call = ToolCall { call_id: CallId::generate(), name: name.clone(), arguments };
        let begun = Instant::now();
        let output = toolbox.call(&context, &call).await;
        let other = begun.elapsed();
        if output.error.is_some() || !output.text.contains(&text) {
            bail!("unexpected answer through the pool: {:?}", output.text);
        }
        if number >= WARM_UP {
            floor.add(one);
            ours.add(other);
            added.add_difference(other, one);
        }
    }
    pool.close().await;
    bare.cancel().await?;
    let figures =
        vec![Figure::millis("median", added.median()).at_most(1.0), Figure::millis("p99", added.percentile(99))];
    Ok(Row::new("added by the pool to a call of a running MCP server", figures)
        .over(Figure::millis("bare client", floor.median()))
        .with_ratio(ours.median() / floor.median())
        .with_note(format!("{CALLS} calls each, alternating; the pool marks the result as untrusted")))
}

fn pool(folder: PathBuf) -> anyhow::Result<Arc<McpPool>> {
    let command = std::env::current_exe()?.to_string_lossy().into_owned();
    let day = std::time::Duration::from_secs(86_400);
    let server = ServerConfig {
        enabled: true,
        address: ServerAddress::Stdio {
            command,
            args: vec![MCP_SERVER.into()],
            env: BTreeMap::new(),
            cwd: folder.clone(),
        },
        tools: BTreeMap::new(),
        defaults: Default::default(),
        grants: Default::default(),
        sampling: Default::default(),
        eager: false,
        start_timeout: day,
        call_timeout: day,
        call_limit: day,
        idle_stop: None,
        plugin: None,
    };
    Ok(McpPool::new(PoolParts {
        config: McpConfig { servers: [(NAME.to_owned(), server)].into(), ..McpConfig::default() },
        catalogues: CatalogueFolder::new(folder.join("catalogues")),
        logins: Logins::new(folder.join("tokens")),
        guard: world::program("agentd")?,
        environment: BTreeMap::new(),
        clean: Default::default(),
        reserved: Box::new(|_| false),
        owner: PoolOwner::Daemon,
        plugin_check: Default::default(),
    }))
}

fn context(root: PathBuf) -> ToolContext {
    let workspace = Workspace { root, project: None, folders: Vec::new(), memories: None, worktree: None };
    agentd_testkit::scripted::tool_context(SessionId::generate(), workspace)
}

async fn bare_client() -> anyhow::Result<RunningService<RoleClient, ()>> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg(MCP_SERVER);
    Ok(().serve(TokioChildProcess::new(command)?).await?)
}
