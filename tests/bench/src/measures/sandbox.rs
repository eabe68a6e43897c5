//! The time that the sandbox adds to a command. The helper is the daemon's own binary.

use agentd_core::{
    ids::CallId,
    ports::{Toolbox as _, Workspaces as _},
    tool::ToolCall,
};
use agentd_sandbox::{config::SandboxConfig, host::Sandbox};
use agentd_testkit::scripted::tool_context;
use agentd_tools::{BuiltinToolbox, ToolboxConfig, WorkspaceFolders};

use super::*;

const WARM_UP: usize = 20;
const RUNS: usize = 200;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let session_id = SessionId::generate();
    let workspace = WorkspaceFolders::new(folder.path().to_owned()).open(session_id, None.into()).await?;
    let sandbox = Arc::new(Sandbox::new(SandboxConfig::new(world::program("agentd")?)));
    let status = sandbox.status().await;
    let mut config = ToolboxConfig::new(|| jiff::tz::TimeZone::UTC);
    config.sandbox = Some(sandbox);
    let toolbox = BuiltinToolbox::new(config);
    let context = tool_context(session_id, workspace);
    let call = ToolCall {
        call_id: CallId::generate(),
        name: "run_bash_command".to_owned(),
        arguments: r#"{"command": "true"}"#.to_owned(),
    };
    let (mut bare, mut locked, mut added) = (Samples::default(), Samples::default(), Samples::default());
    for number in 0..WARM_UP + RUNS {
        // Runs with and without the sandbox alternate, so that other load on the host affects both.
        let started = Instant::now();
        let mut command = tokio::process::Command::new("bash");
        command.args(["--noprofile", "--norc", "-c", "true"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().await?;
        let floor = started.elapsed();
        let started = Instant::now();
        let output = toolbox.call(&context, &call).await;
        let whole = started.elapsed();
        if output.error.is_some() || !output.text.starts_with("exit code 0") {
            bail!("the command failed: {}", output.text);
        }
        if number >= WARM_UP {
            bare.add(floor);
            locked.add(whole);
            added.add_difference(whole, floor);
        }
    }
    let figures = vec![Figure::millis("median", locked.median()), Figure::millis("p99", locked.percentile(99))];
    let more = vec![Figure::millis("median", added.median()).at_most(10.0)];
    let offered = format!("Landlock {}, namespaces: {}", status.landlock, status.namespaces);
    Ok(vec![
        Row::new("`true` in the sandbox", figures)
            .over(Figure::millis("bare bash", bare.median()))
            .with_note(format!("{RUNS} calls of run_bash_command; {offered}")),
        Row::new("added by the sandbox", more),
    ])
}
