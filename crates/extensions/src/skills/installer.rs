//! Runs the package installer for a skill's Python environment: pip, or uv if available.
//!
//! The installer is confined like commands, can only access the environment, and reaches only the hosts of the index,
//! through a proxy: the hosts in the index URLs, and those in `skills.package_hosts`. In the sandbox the proxy is the
//! only network access. Without a sandbox, or without namespaces in `best_effort` mode, the proxy is set in the
//! installer's environment but not enforced.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    net::Ipv4Addr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    policy::Confinement,
    ports::{CallProgress, Workspace},
    route::Routes,
};
use agentd_sandbox::{
    config::SandboxConfig,
    gateway::{Gateway, Target, format_target, target_of},
    host::Sandbox,
    process::{self, CommandEnd, FinishedCommand, OutputForm, RunError, Script},
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use url::Url;

use super::package_index::{self, without_passwords};

/// Time limit for an installation.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of stored output bytes of an installer.
const MAX_OUTPUT: usize = 64 << 10;
/// Maximum number of output lines shown to the user.
const MAX_LINES: usize = 8;
/// Prints the URL of pip's default index, and the host of the index files. pip has stored both here since version 10.
const BUILT_IN_INDEX: &str = "from pip._internal.models.index import PyPI as index; \
                              print(index.simple_url, index.file_storage_domain)";

/// Package installer for one environment.
#[derive(Debug)]
pub(super) struct Installer {
    /// Folder of the environment.
    pub(super) root: PathBuf,
    /// Path of uv, if it is used instead of pip.
    pub(super) uv: Option<PathBuf>,
    /// Complete environment of the process.
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) sandbox: Option<SandboxConfig>,
    pub(super) network: Network,
}

impl Installer {
    /// Selects pip's default index if the user configured none, so that the index hosts are known and no other hosts
    /// are reached.
    ///
    /// # Errors
    /// Fails if no interpreter has a pip that reports its index.
    pub(super) async fn name_index(
        &mut self,
        skill: &str,
        interpreters: &[PathBuf],
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        if package_index::is_named(&self.environment) {
            return Ok(());
        }
        for python in interpreters {
            let command = [python.as_os_str(), "-I".as_ref(), "-c".as_ref(), BUILT_IN_INDEX.as_ref()];
            let finished = self.run(skill, command.map(OsStr::to_owned).to_vec(), false, cancel).await?;
            let output = finished.stdout.text.trim();
            let Some((index, files)) = output.split_once(' ').filter(|_| finished.ended == CommandEnd::Code(0)) else {
                continue;
            };
            let variable = if self.uv.is_some() { "UV_DEFAULT_INDEX" } else { "PIP_INDEX_URL" };
            self.environment.insert(variable.into(), index.into());
            self.network.hosts.push(files.to_owned());
            return Ok(());
        }
        let message = format!("could not install the packages of the skill {skill}: no package index is configured");
        Err(WorkspaceError::new(ErrorKind::Configuration, message)
            .with_hint("set it in PIP_INDEX_URL or pip.conf, or install pip, which has a default"))
    }

    /// Runs a program, with access to the hosts of the index or without any network.
    ///
    /// # Errors
    /// Fails if the program cannot be started, times out, is cancelled, or contacts a host that does not belong to
    /// the index.
    pub(super) async fn run(
        &self,
        skill: &str,
        command: Vec<OsString>,
        with_index: bool,
        cancel: &CancellationToken,
    ) -> Result<FinishedCommand, WorkspaceError> {
        let failed = |error: String| {
            WorkspaceError::new(ErrorKind::Internal, format!("could not prepare the skill {skill}: {error}"))
        };
        let folder = fs::File::open(&self.root).map_err(|error| failed(error.to_string()))?;
        let mut environment = self.environment.clone();
        let route = match with_index {
            true => Route::open(skill, &self.network, self.sandbox.as_ref(), &mut environment).await?,
            false => Route::closed(self.sandbox.as_ref()),
        };
        let script = Script {
            command,
            folder: folder.into(),
            environment,
            timeout: TIMEOUT,
            output_cap: MAX_OUTPUT,
            output: OutputForm::Text,
            confinement: Confinement::Usual,
            closed: Default::default(),
            progress: CallProgress::default(),
        };
        let only_here = Workspace { root: self.root.clone(), ..Workspace::default() };
        let ending = cancel.child_token();
        let finished = {
            let running = process::run(script, &only_here, route.sandbox.as_ref(), &ending);
            tokio::pin!(running);
            tokio::select! {
                finished = &mut running => finished,
                () = route.until_strayed() => {
                    ending.cancel();
                    running.await
                }
            }
        };
        if let Some(strayed) = route.strayed(skill) {
            return Err(strayed);
        }
        let mut finished = finished.map_err(|error| match error {
            RunError::Io(error) => failed(error.to_string()),
            RunError::Refused(reason) => failed(reason),
        })?;
        match finished.ended {
            CommandEnd::Cancelled => Err(cancelled(skill)),
            CommandEnd::TimedOut => {
                let minutes = TIMEOUT.as_secs() / 60;
                let message = format!("the packages of the skill {skill} were not installed within {minutes} minutes");
                Err(WorkspaceError::new(ErrorKind::Timeout, message).with_hint("check the network, and try again"))
            }
            CommandEnd::Code(_) | CommandEnd::Signal(_) | CommandEnd::Lost => {
                // An error shows the last lines of the output. Only the proxy knows why a host could not be reached.
                let unreached = route.gateway.as_ref().and_then(|gateway| gateway.failed());
                finished.stderr.text.extend(unreached.map(|unreached| format!("\n{unreached}")));
                Ok(finished)
            }
        }
    }
}

/// Builds the error for a cancelled installation.
pub(super) fn cancelled(skill: &str) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Conflict, format!("the packages of the skill {skill} were not installed: cancelled"))
}

/// Builds the error for a failed installer, with the last lines of its output.
pub(super) fn refused(skill: &str, action: &str, finished: &FinishedCommand) -> WorkspaceError {
    let output = without_passwords(&format!("{}\n{}", finished.stdout.text, finished.stderr.text));
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last_lines = lines[lines.len().saturating_sub(MAX_LINES)..].join("; ");
    WorkspaceError::new(ErrorKind::InvalidInput, format!("{action} the skill {skill}: {last_lines}"))
        .with_hint("only wheels are installed; check the network, and the names and versions")
}

#[cfg(target_os = "linux")]
use agentd_sandbox::config::GATEWAY_PORT;

/// Variables for index and page URLs, and for disabling the index.
const INDEXES: [&str; 2] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"];
const MORE_INDEXES: [&str; 2] = ["PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"];
const PAGES: [&str; 2] = ["PIP_FIND_LINKS", "UV_FIND_LINKS"];
const NO_INDEX: [&str; 2] = ["PIP_NO_INDEX", "UV_NO_INDEX"];
/// Variables that configure the proxy.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];

/// The user's network settings.
#[derive(Debug)]
pub(super) struct Network {
    /// Environment variables, including those for the user's own proxies.
    pub(super) variables: BTreeMap<String, String>,
    /// Allowed hosts besides those in the index URLs.
    pub(super) hosts: Vec<String>,
}

/// Sandbox for one program, and its network route.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) sandbox: Option<Sandbox>,
    gateway: Option<Arc<Gateway>>,
    /// The running proxy, if no sandbox enforces it.
    _serving: Option<AbortOnDropHandle<()>>,
}

impl Route {
    /// Creates a route without network access.
    pub(super) fn closed(sandbox: Option<&SandboxConfig>) -> Self {
        Self { sandbox: sandbox.cloned().map(Sandbox::new), gateway: None, _serving: None }
    }

    /// Opens a route to the index in these variables, and adds the proxy variables.
    ///
    /// # Errors
    /// Fails if the route cannot be opened, or cannot be enforced although enforcement is required.
    pub(super) async fn open(
        skill: &str,
        network: &Network,
        sandbox: Option<&SandboxConfig>,
        environment: &mut BTreeMap<OsString, OsString>,
    ) -> Result<Self, WorkspaceError> {
        let closed = Self::closed(sandbox);
        let hosts = hosts(environment, &network.hosts);
        if hosts.is_empty() {
            return Ok(closed);
        }
        let refused = |reason: String, hint: &str| {
            let message = format!("could not install the packages of the skill {skill}: {reason}");
            WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint(hint)
        };
        let upstream = Routes::read(|name| network.variables.get(name).map(String::as_str));
        if let Some(other) = upstream.non_http_proxy() {
            return Err(refused(
                format!("packages would be fetched {other}, but installers support only HTTP proxies"),
                "set a proxy with http:// in the daemon's environment",
            ));
        }
        let gateway = Arc::new(Gateway::new(hosts, upstream));
        let (route, port) = match closed.sandbox {
            #[cfg(target_os = "linux")]
            Some(sandbox) if sandbox.status().await.namespaces => {
                let config = sandbox.into_config();
                let sandbox = Sandbox::with_gateway(config, Arc::clone(&gateway));
                (Self { sandbox: Some(sandbox), gateway: Some(gateway), _serving: None }, GATEWAY_PORT)
            }
            #[cfg(target_os = "linux")]
            Some(sandbox) if sandbox.enforces() => {
                return Err(refused(
                    "this system does not allow user namespaces, so the installer cannot be restricted to the index"
                        .to_owned(),
                    "`agentctl doctor` shows what is missing; with `sandbox.mode: best_effort` the restriction to the index's \
                     hosts is not enforced",
                ));
            }
            sandbox => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
                let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
                let (port, listener) = bound
                    .map_err(|error: io::Error| refused(format!("no proxy could be opened: {error}"), "try again"))?;
                let serving = Some(gateway.serve(listener));
                if let Some(sandbox) = &sandbox {
                    sandbox.set_network(true);
                }
                (Self { sandbox, gateway: Some(gateway), _serving: serving }, port)
            }
        };
        if let Some(gateway) = &route.gateway {
            environment.extend(PROXIES.map(|name| (name.into(), gateway.address(port).into())));
        }
        Ok(route)
    }

    /// Completes when the program has contacted a forbidden host. Never completes without a route.
    pub(super) async fn until_strayed(&self) {
        match &self.gateway {
            Some(gateway) => gateway.host_refused.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the error for an installation that contacted a forbidden host.
    pub(super) fn strayed(&self, skill: &str) -> Option<WorkspaceError> {
        let host = format_target(&self.gateway.as_ref()?.refused()?);
        let message = format!(
            "could not install the packages of the skill {skill}: the index referred the installer to {host}, which is not one of its hosts"
        );
        Some(WorkspaceError::new(ErrorKind::Configuration, message).with_hint(format!(
            "if the index stores its files there, add `{host}` to skills.package_hosts in agentd.yaml"
        )))
    }
}

/// Returns the hosts that an installer with these variables needs.
fn hosts(environment: &BTreeMap<OsString, OsString>, more: &[String]) -> BTreeSet<Target> {
    let value = |name: &str| environment.get(&OsString::from(name)).and_then(|value| value.to_str());
    let all = |names: [&'static str; 2]| names.into_iter().filter_map(value).flat_map(|value| value.split([' ', ',']));
    let mut hosts = BTreeSet::new();
    let mut add = |address: &str| {
        let Some(url) = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https")) else { return };
        let Some(target) = target_of(&url) else { return };
        if url.scheme() == "http" && url.port().is_none() {
            // Servers redirect plain HTTP requests to the same host with TLS.
            hosts.insert((target.0.clone(), 443));
        }
        hosts.insert(target);
    };
    all(PAGES).for_each(&mut add);
    if !NO_INDEX.into_iter().any(|name| value(name).is_some()) {
        all(INDEXES).chain(all(MORE_INDEXES)).for_each(&mut add);
    }
    if !hosts.is_empty() {
        more.iter().for_each(|host| add_host(&mut hosts, host));
    }
    hosts
}

/// Adds a host from the settings, with the TLS port by default.
fn add_host(hosts: &mut BTreeSet<Target>, host: &str) {
    let url = Url::parse(&format!("https://{host}")).ok().filter(|url| url.path() == "/" && url.username().is_empty());
    hosts.extend(url.as_ref().and_then(target_of));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_hosts_come_from_urls_and_settings() {
        #[track_caller]
        fn check(variables: &[(&str, &str)], more: &[&str], expected: &[&str]) {
            let variables =
                variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
            let more: Vec<String> = more.iter().map(ToString::to_string).collect();
            let hosts: Vec<String> = hosts(&variables, &more).iter().map(format_target).collect();
            assert_eq!(hosts, expected);
        }
        check(&[], &["b.example"], &[]);
        check(
            &[("PIP_INDEX_URL", "https://me:x@a.example/simple")],
            &["b.example", "c.example:8443", "no/host"],
            &["a.example:443", "b.example:443", "c.example:8443"],
        );
        check(&[("UV_DEFAULT_INDEX", "http://127.0.0.1:81/simple")], &[], &["127.0.0.1:81"]);
        check(&[("PIP_INDEX_URL", "http://a.example")], &[], &["a.example:80", "a.example:443"]);
        let pages = ("PIP_FIND_LINKS", "/wheels https://w.example/x");
        check(&[("PIP_NO_INDEX", "1"), pages], &[], &["w.example:443"]);
        check(&[("PIP_NO_INDEX", "1"), ("PIP_INDEX_URL", "https://a.example")], &["b.example"], &[]);
        check(
            &[("PIP_INDEX_URL", "https://a.example"), ("PIP_EXTRA_INDEX_URL", "https://b.example https://c.example:1")],
            &[],
            &["a.example:443", "b.example:443", "c.example:1"],
        );
    }
}
