//! The skills bundled with agentd, and the folders of all other skills.
//!
//! Bundled skills are embedded in the binary and unpacked into the data folder once per edition, because commands run
//! scripts from them.
//!
//! Also sets up the MCP servers from the configuration and from sessions, and selects the environment variables that
//! these servers receive.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::ports::Toolbox;
use agentd_extensions::{
    plugins::PluginStore,
    project::ProjectStore,
    skills::{SkillConfig, SkillStore},
};
use agentd_mcp::{
    McpConfig, McpPool, PluginCheck, SecretFilter, SessionServers,
    catalogue::CatalogueFolder,
    login::Logins,
    pool::{PoolOwner, PoolParts},
    session::SessionServersParts,
};
use agentd_sandbox::config::SandboxConfig;
use futures_util::FutureExt as _;

use crate::{
    config::Config,
    environment::{Environment, OWN_PROGRAM},
    paths::Paths,
    redact::Redactor,
};

mod bundled {
    //! Files of `skills/`, embedded at build time.
    include!(concat!(env!("OUT_DIR"), "/bundled_skills.rs"));
}

/// Prefix of the folder name of an edition.
const EDITION: &str = "bundled-";

/// Variables of the daemon's environment that are passed to package installers: program locations, the user's package
/// index and proxies, and locale.
const PASSED_TO_INSTALLERS: &str = "PATH HOME LANG LC_ALL XDG_CONFIG_HOME http_proxy https_proxy all_proxy no_proxy \
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE PIP_INDEX_URL \
    PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_NO_INDEX PIP_TRUSTED_HOST PIP_TIMEOUT PIP_CONFIG_FILE PIP_CERT \
    UV_INDEX_URL UV_DEFAULT_INDEX";

/// Returns the folder that contains the Python environments of skills.
pub fn environments(paths: &Paths) -> PathBuf {
    paths.data.join("skill_environments")
}

/// Creates the store of all skills. Unpacks the bundled skills if necessary. If unpacking fails, only the bundled
/// skills are missing.
pub async fn skill_store(
    config: &Config,
    paths: &Paths,
    env: &Environment,
    sandbox: SandboxConfig,
    projects: ProjectStore,
    plugins: PluginStore,
) -> SkillStore {
    let data = paths.data.clone();
    let unpacked = tokio::task::spawn_blocking(move || unpack(&data.join("skills"))).await;
    let bundled = match unpacked.map_err(io::Error::other).flatten() {
        Ok(folder) => Some(folder),
        Err(error) => {
            tracing::warn!("could not unpack the bundled skills: {error}");
            None
        }
    };
    let skill_config = SkillConfig {
        person: paths.config.join("skills"),
        bundled,
        environments: environments(paths),
        home: env.path("HOME"),
        plugins: Some(plugins),
        projects: Some(projects),
        variables: env.only(PASSED_TO_INSTALLERS),
        sandbox: Some(sandbox),
        package_hosts: config.daemon.skills.package_hosts.clone(),
    };
    SkillStore::new(skill_config, config.skills.clone())
}

/// Unpacks this edition into a folder in `folder`, and removes earlier editions.
fn unpack(folder: &Path) -> io::Result<PathBuf> {
    let edition = format!("{EDITION}{}", bundled::EDITION);
    let target = folder.join(&edition);
    if target.is_dir() {
        return Ok(target);
    }
    let private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let draft = folder.join(".unpacking");
    match fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => private(&draft)?,
    }
    for (name, content) in bundled::FILES {
        let path = draft.join(name);
        path.parent().map_or(Ok(()), private)?;
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, content)?;
    }
    fs::rename(&draft, &target)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(EDITION) && name != *edition {
            // If a folder cannot be removed, it only uses disk space.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(target)
}

/// Variables of the daemon's environment that are passed to MCP servers, which are the user's programs and run in the
/// user's home folder. None of these variables may contain a secret.
const PASSED_TO_SERVERS: &str = "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER XDG_CACHE_HOME \
    XDG_CONFIG_HOME XDG_DATA_HOME";

/// Default search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Creates the pool of configured MCP servers without starting any. Reads the servers' cached tool lists, which blocks.
pub fn pool(
    config: &McpConfig,
    data: &Path,
    env: &Environment,
    redactor: Redactor,
    builtin: Arc<dyn Toolbox>,
    plugins: PluginStore,
) -> Arc<McpPool> {
    let environment = environment(env);
    let own: Vec<String> = agentd_engine::own_tools().into_iter().map(|tool| tool.name).collect();
    let reserved = move |name: &str| {
        // Names that other systems use for built-in tools are not reserved, so the user may assign them to other tools.
        builtin.specs().iter().any(|spec| spec.name == name) || own.iter().any(|tool| tool == name)
    };
    McpPool::new(PoolParts {
        config: config.clone(),
        catalogues: CatalogueFolder::new(data.join("mcp").join("catalogues")),
        guard: OWN_PROGRAM.into(),
        logins: Logins::new(data.join("mcp").join("tokens")).with_routes(env.routes()),
        environment,
        clean: SecretFilter::new(move |text| redactor.clean(text)),
        reserved: Box::new(reserved),
        owner: PoolOwner::Daemon,
        plugin_check: PluginCheck::new(move |name| {
            let (plugins, name) = (plugins.clone(), name.to_owned());
            async move {
                let checked = tokio::task::spawn_blocking(move || plugins.check(&name)).await;
                checked.unwrap_or_else(|_| Err("could not read its plugin".to_owned()))
            }
            .boxed()
        }),
    })
}

/// Creates the pool of servers that clients provide for sessions. These servers receive the same environment variables
/// as configured servers.
pub fn session_servers(env: &Environment, redactor: Redactor) -> Arc<SessionServers> {
    let (learner, cleaner) = (redactor.clone(), redactor);
    Arc::new(SessionServers::new(SessionServersParts {
        guard: OWN_PROGRAM.into(),
        environment: environment(env),
        routes: env.routes(),
        clean: SecretFilter::new(move |text| cleaner.clean(text)),
        learn_secrets: Box::new(move |secrets| learner.set_session_server_secrets(secrets)),
    }))
}

/// Returns the base environment of MCP servers.
fn environment(env: &Environment) -> BTreeMap<String, String> {
    let mut environment = env.only(PASSED_TO_SERVERS);
    environment.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_skills_are_unpacked_once_per_version() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("skills");
        fs::create_dir_all(folder.join("bundled-before/pdf")).unwrap();
        fs::create_dir_all(folder.join(".unpacking/half")).unwrap();
        let unpacked = unpack(&folder).unwrap();
        assert!(unpacked.join("pdf/SKILL.md").is_file() && !unpacked.join("half").exists());
        let shared = |skill: &str| fs::read(unpacked.join(skill).join("scripts/cli.py")).unwrap();
        assert_eq!(shared("pdf"), shared("documents"), "each skill has its own copy");
        assert!(!folder.join("bundled-before").exists() && !folder.join(".unpacking").exists());
        fs::remove_file(unpacked.join("pdf/SKILL.md")).unwrap();
        assert_eq!(unpack(&folder).unwrap(), unpacked);
        assert!(!unpacked.join("pdf/SKILL.md").exists(), "an unpacked edition is not written again");
    }
}
