//! MCP servers: those of the configuration and of sessions, and what they see of the environment.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use agentd_core::ports::Toolbox;
use agentd_extensions::plugins::PluginStore;
use agentd_mcp::{
    Clean, McpConfig, McpPool, PluginCheck, SessionServers,
    catalogue::CatalogueFolder,
    login::Logins,
    pool::{PoolOwner, PoolParts},
    session::SessionServersParts,
};
use futures_util::FutureExt as _;

use crate::{environment::Environment, redact::Redactor};

/// Variables of the daemon's environment that servers see. They are programs of the person, and work in the person's
/// home; no possible secret is among them.
const PASSED: [&str; 14] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Default search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The pool of the configuration. Nothing is started; what servers offered when they were last reached is read, which
/// blocks.
pub fn pool(
    config: &McpConfig,
    data: &Path,
    env: &Environment,
    guard: &Path,
    redactor: Redactor,
    ours: Arc<dyn Toolbox>,
    plugins: PluginStore,
) -> Arc<McpPool> {
    let environment = environment(env);
    let own: Vec<String> = agentd_engine::own_tools().into_iter().map(|tool| tool.name).collect();
    let reserved = move |name: &str| {
        // What other systems call our tools is free: a person may give such a name to another one.
        ours.specs().iter().any(|spec| spec.name == name) || own.iter().any(|tool| tool == name)
    };
    McpPool::new(PoolParts {
        config: config.clone(),
        catalogues: CatalogueFolder::new(data.join("mcp").join("catalogues")),
        guard: guard.to_owned(),
        logins: Logins::new(data.join("mcp").join("tokens")).over(env.routes()),
        environment,
        clean: Clean::new(move |words| redactor.clean(words)),
        reserved: Box::new(reserved),
        owner: PoolOwner::Daemon,
        plugin_check: plugin_check(plugins),
    })
}

/// The check of a plugin before one of its servers starts.
fn plugin_check(plugins: PluginStore) -> PluginCheck {
    PluginCheck::new(move |name| {
        let (plugins, name) = (plugins.clone(), name.to_owned());
        async move {
            let checked = tokio::task::spawn_blocking(move || plugins.check(&name)).await;
            checked.unwrap_or_else(|_| Err("its plugin could not be looked at".to_owned()))
        }
        .boxed()
    })
}

/// Servers that clients bring for sessions. They see of the daemon's environment as much as its own servers do.
pub fn session_servers(env: &Environment, guard: &Path, redactor: Redactor) -> Arc<SessionServers> {
    let (learning, cleaning) = (redactor.clone(), redactor);
    Arc::new(SessionServers::new(SessionServersParts {
        guard: guard.to_owned(),
        environment: environment(env),
        routes: env.routes(),
        clean: Clean::new(move |words| cleaning.clean(words)),
        learn_secrets: Box::new(move |secrets| learning.learn_brought(secrets)),
    }))
}

/// Environment of servers before anything is added.
fn environment(env: &Environment) -> BTreeMap<String, String> {
    let mut environment = env.only(&PASSED);
    environment.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    environment
}
