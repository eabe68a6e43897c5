//! Route of an installer to the network: to the hosts of the person's index, by a proxy, and to nothing else.
//!
//! Hosts are those in the addresses of the index and those of `skills.package_hosts`. In the sandbox the proxy is all that there is of a network. Where there is no sandbox, or
//! `best_effort` finds no namespaces, the installer is only told of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    net::Ipv4Addr,
    sync::Arc,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    route::Routes,
};
use agentd_sandbox::{
    config::SandboxConfig,
    gateway::{Gateway, Target, target_of, written},
    host::Sandbox,
};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

#[cfg(target_os = "linux")]
use agentd_sandbox::{config::SandboxMode, policy::GATEWAY_PORT};

/// Variables with addresses of indexes, and those that say which there are none of.
const INDEXES: [&str; 2] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"];
const MORE_INDEXES: [&str; 2] = ["PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"];
const PAGES: [&str; 2] = ["PIP_FIND_LINKS", "UV_FIND_LINKS"];
const NO_INDEX: [&str; 2] = ["PIP_NO_INDEX", "UV_NO_INDEX"];
/// Variables by which installers are told of the proxy.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];

/// Network of the person.
#[derive(Debug)]
pub(super) struct Network {
    /// Variables, among them those of the person's own proxies.
    pub(super) variables: BTreeMap<String, String>,
    /// Hosts besides those in the addresses of the index.
    pub(super) hosts: Vec<String>,
}

/// Sandbox of one program, and its route out of it.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) sandbox: Option<Sandbox>,
    gateway: Option<Arc<Gateway>>,
    /// The proxy where no sandbox holds the program to it.
    _serving: Option<AbortOnDropHandle<()>>,
}

impl Route {
    /// No route.
    pub(super) fn closed(sandbox: Option<&SandboxConfig>) -> Self {
        Self { sandbox: sandbox.cloned().map(Sandbox::new), gateway: None, _serving: None }
    }

    /// Opens a route to the index that these variables name, and adds those of the proxy.
    ///
    /// # Errors
    /// When nothing would hold the program to it, or there is none.
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
        let refused = |why: String, hint: &str| {
            let message = format!("could not install the packages of the skill {skill}: {why}");
            WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint(hint)
        };
        let upstream = Routes::read(|name| network.variables.get(name).map(String::as_str));
        if let Some(other) = upstream.other_than_http() {
            return Err(refused(
                format!("they would come {other}, and an installer uses http proxies only"),
                "name a proxy with http:// in the daemon's environment",
            ));
        }
        let gateway = Arc::new(Gateway::new(hosts, upstream));
        let (route, port) = match closed.sandbox {
            #[cfg(target_os = "linux")]
            Some(sandbox) if sandbox.status().await.namespaces => {
                let config = sandbox.into_config();
                let sandbox = Sandbox::behind(config, Arc::clone(&gateway));
                (Self { sandbox: Some(sandbox), gateway: Some(gateway), _serving: None }, GATEWAY_PORT)
            }
            #[cfg(target_os = "linux")]
            Some(sandbox) if sandbox.status().await.mode == SandboxMode::Enforce => {
                return Err(refused(
                    "this system lets users make no namespaces, so nothing would keep the installer to the index"
                        .to_owned(),
                    "`agentctl doctor` says what is missing; with `sandbox.mode: best_effort` the installer is told of the index's \
                     hosts and not held to them",
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

    /// Returns when the program asked for a host that it may not reach; never, if there is no route.
    pub(super) async fn until_strayed(&self) {
        match &self.gateway {
            Some(gateway) => gateway.strayed.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Why the installation ended, where the program wanted a host that is not the index's.
    pub(super) fn strayed(&self, skill: &str) -> Option<WorkspaceError> {
        let place = written(&self.gateway.as_ref()?.refused()?);
        let message = format!(
            "could not install the packages of the skill {skill}: the index led the installer to {place}, which is none of its hosts"
        );
        Some(WorkspaceError::new(ErrorKind::Configuration, message).with_hint(format!(
            "if the index keeps its files there, add `{place}` to skills.package_hosts in agentd.yaml"
        )))
    }
}

/// The hosts that an installer with these variables needs.
fn hosts(environment: &BTreeMap<OsString, OsString>, more: &[String]) -> BTreeSet<Target> {
    let value = |name: &str| environment.get(&OsString::from(name)).and_then(|value| value.to_str());
    let all = |names: [&'static str; 2]| names.into_iter().filter_map(value).flat_map(|value| value.split([' ', ',']));
    let mut hosts = BTreeSet::new();
    let mut add = |address: &str| {
        let Some(url) = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https")) else { return };
        let Some(target) = target_of(&url) else { return };
        if url.scheme() == "http" && url.port().is_none() {
            // Servers send those who ask without TLS to the same place with it.
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

/// Adds one of the settings: a host, with the port of TLS where none is named.
fn add_host(hosts: &mut BTreeSet<Target>, host: &str) {
    let url = Url::parse(&format!("https://{host}")).ok().filter(|url| url.path() == "/" && url.username().is_empty());
    hosts.extend(url.as_ref().and_then(target_of));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_an_index_are_those_in_its_addresses_and_in_the_settings() {
        #[track_caller]
        fn check(variables: &[(&str, &str)], more: &[&str], expected: &[&str]) {
            let variables =
                variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
            let more: Vec<String> = more.iter().map(ToString::to_string).collect();
            let hosts: Vec<String> = hosts(&variables, &more).iter().map(written).collect();
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
