//! What a shell offers behind a half-written command line. The daemon is asked only if it runs, and only for a
//! moment: a shell that hangs at a tab is worse than one that offers nothing.

use std::{future::Future, time::Duration};

use agentd_core::{interrupt::Ask, model::Slot, session::SessionSummary, visible};
use agentd_proto::client::{Client, ClientError};
use clap_complete::CompletionCandidate;

use crate::{daemon, flags::Global, report, terminal::sanitize};

/// Time limit for the daemon.
const LIMIT: Duration = Duration::from_millis(300);

/// Maximum number of offered sessions.
const OFFERED: usize = 50;

/// The slots.
pub(crate) fn slots() -> Vec<CompletionCandidate> {
    Slot::ALL.into_iter().map(|slot| CompletionCandidate::new(slot.as_str())).collect()
}

/// The sessions, last used first: the ends of their ids, with their titles.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    let sessions = ask(async |client: Client| client.sessions(OFFERED).await).unwrap_or_default();
    let ids = report::short_ids(sessions.iter().map(|session| session.id));
    let offers = sessions.into_iter().zip(ids).enumerate();
    let offer = |(place, (session, id)): (usize, (SessionSummary, String))| {
        offer(id, &visible::line(&session.title)).display_order(Some(place))
    };
    offers.map(offer).collect()
}

/// The agents besides the main one.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    let agents = ask(async |client: Client| client.agents().await).unwrap_or_default();
    agents.into_iter().map(|card| offer(card.id, &sanitize::clean_line(&card.description))).collect()
}

/// The plugins.
pub(crate) fn plugins() -> Vec<CompletionCandidate> {
    let plugins = ask(async |client: Client| client.known_plugins().await).unwrap_or_default();
    plugins.into_iter().map(|plugin| offer(plugin.name, &sanitize::clean_line(&plugin.description))).collect()
}

/// The interrupts that wait.
pub(crate) fn interrupts() -> Vec<CompletionCandidate> {
    let pending = ask(async |client: Client| client.interrupts(None).await).unwrap_or_default();
    let ids = report::short_ids(pending.iter().map(|interrupt| interrupt.id));
    let what = pending.iter().map(|interrupt| match &interrupt.ask {
        Ask::Approval { tool, .. } => tool,
        Ask::Question { question, .. } => question,
    });
    ids.into_iter().zip(what).map(|(id, what)| offer(id, &visible::line(what))).collect()
}

/// The MCP servers.
pub(crate) fn mcp_servers() -> Vec<CompletionCandidate> {
    let servers = ask(async |client: Client| client.mcp_servers().await).unwrap_or_default();
    servers.into_iter().map(|server| CompletionCandidate::new(server.name)).collect()
}

fn offer(value: String, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(report::cut(about, 60).into()))
}

fn ask<T, F>(question: impl FnOnce(Client) -> F) -> Option<T>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let answer = async {
            // The command line is not whole yet, so that a socket named on it is not known here.
            let place = daemon::DaemonPlace::of(&Global::default()).ok()?;
            question(place.connect().await.ok()?).await.ok()
        };
        tokio::time::timeout(LIMIT, answer).await.ok().flatten()
    })
}
