//! Rules that a person pins in a session.

use crate::{daemon::Daemon, failure::Failure};

/// The pinned rules of a session.
///
/// # Errors
/// When there is no such session, or the connection fails.
pub(crate) async fn list(daemon: &Daemon, session: &str) -> anyhow::Result<Vec<String>> {
    Ok(daemon.client.session(session).await?.session.settings.pins)
}

/// Pins a rule behind those that there are.
///
/// # Errors
/// When it is too long, they are too many, or the connection fails.
pub(crate) async fn add(daemon: &Daemon, session: &str, rule: &str) -> anyhow::Result<Vec<String>> {
    let mut pins = list(daemon, session).await?;
    pins.push(rule.to_owned());
    daemon.client.set_pins(session, pins.clone()).await?;
    Ok(pins)
}

/// Removes the rule of that number, counted from 1.
///
/// # Errors
/// When there is none of that number, or the connection fails.
pub(crate) async fn remove(daemon: &Daemon, session: &str, number: usize) -> anyhow::Result<String> {
    let mut pins = list(daemon, session).await?;
    let Some(at) = number.checked_sub(1).filter(|at| *at < pins.len()) else {
        let failure = Failure::usage(format!("there is no pinned rule {number}: the session has {}", pins.len()));
        return Err(failure.hint("`agentctl sessions show SESSION` and /pin list them").into());
    };
    let removed = pins.remove(at);
    daemon.client.set_pins(session, pins).await?;
    Ok(removed)
}
