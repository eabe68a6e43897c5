//! The daemon's side of the sandbox: starts helpers, owns their control sockets, and probes the kernel features.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::net::UnixStream as StdStream,
    },
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    policy::{Confinement, SandboxState},
    ports::Workspace,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, Command},
    sync::OnceCell,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::{ActiveConfinement, END_REQUEST, Name, Policy, Report, SandboxConfig, SandboxLimits, SandboxMode, Tree},
    extra_reads,
    gateway::{self, Gateway},
    places::{PROJECT, access_paths, exact, names},
};

/// First argument, which makes the program run as the helper.
pub const HELPER_ARGUMENT: &str = "sandbox-exec";

/// Time limit for the first helper to report the kernel features.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// Folder that the probing helpers may read, and in which they start. Not the root, because the root is replaced.
const PROBE_FOLDER: &str = "/usr";

/// Starts commands in the sandbox.
#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    /// True if commands may currently use the network.
    network: AtomicBool,
    /// Proxy to listed hosts, if there is no other network access.
    gateway: Option<Arc<Gateway>>,
    features: OnceCell<HostFeatures>,
}

/// Confinement of one command.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    /// Limits on what the command may change.
    pub(crate) confinement: Confinement,
    /// Paths that a guarded command cannot change.
    pub(crate) closed: Arc<[PathBuf]>,
    /// Standard input, if the command has one.
    pub(crate) input: Option<OwnedFd>,
    /// Limit on the writable memory of each process, if lower than the limit for all commands.
    pub(crate) memory_bytes: Option<u64>,
    /// Files and folders hidden from the command, in addition to those hidden from all commands.
    pub(crate) hidden: Vec<PathBuf>,
}

/// Features found by the probing helpers.
#[derive(Debug, Clone)]
struct HostFeatures {
    force: Result<ActiveConfinement, String>,
    /// Reason why namespaces are unavailable.
    no_namespaces: Option<String>,
    /// True if the session's folders can be mounted under their names.
    gives_names: bool,
}

impl Sandbox {
    /// Creates a sandbox with these settings, without starting a process.
    pub fn new(config: SandboxConfig) -> Self {
        Self { network: AtomicBool::new(config.network), config, gateway: None, features: OnceCell::new() }
    }

    /// Creates a sandbox whose only network access is this proxy, on a fixed port. Commands do not run in it without
    /// namespaces.
    pub fn with_gateway(config: SandboxConfig, gateway: Arc<Gateway>) -> Self {
        Self { gateway: Some(gateway), ..Self::new(SandboxConfig { network: true, ..config }) }
    }

    /// Returns true if commands are confined.
    pub fn is_on(&self) -> bool {
        self.config.mode != SandboxMode::Off
    }

    /// Returns true if commands do not run when the kernel cannot confine them.
    pub fn enforces(&self) -> bool {
        self.config.mode == SandboxMode::Enforce
    }

    /// Returns true if commands may use the network.
    pub fn allows_network(&self) -> bool {
        self.network.load(Ordering::Relaxed)
    }

    /// Returns the settings, consuming the sandbox.
    pub fn into_config(self) -> SandboxConfig {
        self.config
    }

    /// Allows or forbids the network for commands that start from now on.
    pub fn set_network(&self, allowed: bool) {
        self.network.store(allowed, Ordering::Relaxed);
    }

    /// Returns the state of the sandbox. The first call probes the kernel.
    pub async fn status(&self) -> SandboxState {
        let mode = self.config.mode;
        let features = if mode == SandboxMode::Off { None } else { Some(self.features().await) };
        let (runs, force, weaknesses) = match features.map(|features| (&features.force, &features.no_namespaces)) {
            None => {
                let reason = "the sandbox is off: commands have all your permissions";
                (true, ActiveConfinement::default(), vec![reason.to_owned()])
            }
            Some((Err(reason), _)) => (false, ActiveConfinement::default(), vec![reason.clone()]),
            Some((Ok(force), no_namespaces)) => {
                let runs = mode != SandboxMode::Enforce || force.gap().is_none();
                (runs, *force, weaknesses(*force, no_namespaces.as_deref()))
            }
        };
        let ActiveConfinement { landlock, seccomp, namespaces, .. } = force;
        let network = self.allows_network() || mode == SandboxMode::Off;
        let (mode, landlock) = (mode.to_string(), u32::from(landlock));
        SandboxState { mode, runs, landlock, seccomp, namespaces, network, weaknesses }
    }

    /// Returns true if a read-only command is guaranteed to change nothing, because its access to files and the network
    /// can be restricted or it does not run.
    pub async fn guarantees_read_only(&self) -> bool {
        match self.config.mode {
            SandboxMode::Enforce => true,
            SandboxMode::BestEffort => self.features().await.force.as_ref().is_ok_and(|force| force.gap().is_none()),
            SandboxMode::Off => false,
        }
    }

    /// Returns true if a command cannot change anything outside the session's folders or reach another process.
    pub async fn contains_commands(&self) -> bool {
        let is_whole = |force: &ActiveConfinement| force.gap().is_none() && force.namespaces;
        self.config.mode != SandboxMode::Off && self.features().await.force.as_ref().is_ok_and(is_whole)
    }

    /// Returns the kernel features, which are probed only once.
    async fn features(&self) -> &HostFeatures {
        self.features.get_or_init(|| self.probe()).await
    }

    async fn probe(&self) -> HostFeatures {
        let none = |reason| async move {
            HostFeatures { force: self.probe_with(false, false).await, no_namespaces: Some(reason), gives_names: false }
        };
        if !self.config.namespaces {
            return none("disabled".to_owned()).await;
        }
        let mut found = Err(String::new());
        for gives_names in [true, false] {
            found = self.probe_with(true, gives_names).await;
            match &found {
                Ok(force) => return HostFeatures { force: Ok(*force), no_namespaces: None, gives_names },
                Err(reason) => tracing::debug!(gives_names, "no namespaces: {reason}"),
            }
        }
        none(found.err().unwrap_or_default()).await
    }

    /// Returns the names under which a command can reach this workspace's folders.
    pub async fn names(&self, workspace: &Workspace) -> Vec<Name> {
        if !self.is_on() || !self.features().await.gives_names {
            return Vec::new();
        }
        let config = &self.config;
        names(workspace, &access_paths(workspace, &config.read, &config.write, &config.hidden))
    }

    async fn probe_with(&self, namespaces: bool, gives_names: bool) -> Result<ActiveConfinement, String> {
        let policy = Policy {
            read: vec![PROBE_FOLDER.into()],
            trees: vec![Tree { path: PROBE_FOLDER.into(), writable: false }],
            names: gives_names.then(|| Name::mounted(PROJECT, PROBE_FOLDER.as_ref())).into_iter().collect(),
            network: self.allows_network(),
            limits: self.config.limits,
            namespaces,
            ..Policy::default()
        };
        let failed = |error: io::Error| format!("could not start the sandbox's helper: {error}");
        let root: OwnedFd = std::fs::File::open(PROBE_FOLDER).map_err(failed)?.into();
        let started = self.start(&policy, Vec::new(), &BTreeMap::new(), &root, None).await.map_err(failed)?;
        let (mut child, mut guard) = started;
        let report = tokio::time::timeout(PROBE_LIMIT, guard.report()).await;
        drop(guard);
        let _ = tokio::time::timeout(PROBE_LIMIT, child.wait()).await;
        match report {
            Ok(Ok(Report::Ready(force))) => Ok(force),
            Ok(Ok(Report::Failed(reason))) => Err(reason),
            Ok(Ok(Report::Ended { .. } | Report::Begun)) => Err("invalid answer from the sandbox's helper".to_owned()),
            Ok(Err(error)) => Err(format!("the sandbox's helper did not answer: {error}")),
            Err(_) => Err("the sandbox's helper did not answer in time".to_owned()),
        }
    }

    /// Starts a command that can access the workspace's paths, within its confinement.
    pub(crate) async fn run(
        &self,
        workspace: &Workspace,
        command: Vec<OsString>,
        environment: &BTreeMap<OsString, OsString>,
        folder: &OwnedFd,
        isolation: Isolation,
    ) -> io::Result<(Child, KillGuard)> {
        let Isolation { confinement, closed, input, memory_bytes, hidden } = isolation;
        let config = &self.config;
        let names = self.names(workspace).await;
        let read_only = confinement == Confinement::ReadOnly;
        let is_writable = !read_only && workspace.project.as_ref().is_some_and(|project| project.writable);
        if let Some(worktree) = workspace.worktree.as_ref().filter(|_| is_writable) {
            // Git removes these folders together with the last branch in them. Without the folders, only commits fail.
            let _ = crate::repository::create_branch_folders(&worktree.common);
        }
        let mut environment = environment.clone();
        let extra_reads = extra_reads::find(&mut environment, workspace, config);
        let read = [config.read.as_slice(), &extra_reads.read].concat();
        let mut paths = access_paths(workspace, &read, &config.write, &config.hidden);
        paths.confine(workspace, confinement, &closed);
        // Programs with an input run without approval. They must not read URLs with passwords, which a repository's
        // configuration may contain.
        let configurations = extra_reads.repositories.iter().filter(|_| input.is_some()).map(|git| git.join("config"));
        let hidden = config.hidden.iter().cloned().chain(hidden).chain(configurations).collect();
        let policy = Policy {
            exact: [exact(workspace), extra_reads.repositories].concat(),
            read: paths.read,
            write: paths.write,
            trees: paths.trees,
            hidden,
            names,
            searched: [config.read.as_slice(), &config.write, &extra_reads.searched].concat(),
            home: config.home.clone(),
            planted: exact(workspace).into_iter().chain(config.write.iter().cloned()).collect(),
            network: self.allows_network() && !read_only,
            gateway: self.gateway.is_some(),
            limits: SandboxLimits {
                memory_bytes: config.limits.memory_bytes.into_iter().chain(memory_bytes).min(),
                ..config.limits
            },
            namespaces: self.features().await.no_namespaces.is_none(),
            // Read-only commands run without approval, so they must not run unconfined.
            enforce: config.mode == SandboxMode::Enforce || read_only,
            read_only,
            input: input.is_some(),
        };
        self.start(&policy, command, &environment, folder, input).await
    }

    async fn start(
        &self,
        policy: &Policy,
        command: Vec<OsString>,
        environment: &BTreeMap<OsString, OsString>,
        folder: &OwnedFd,
        input: Option<OwnedFd>,
    ) -> io::Result<(Child, KillGuard)> {
        let policy_text = serde_json::to_vec(policy)?;
        let length = u32::try_from(policy_text.len()).map_err(io::Error::other)?;
        let (host, helper) = StdStream::pair()?;
        let child = Command::new(&self.config.helper)
            .arg(HELPER_ARGUMENT)
            .args(command)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::from(OwnedFd::from(helper)))
            .stdout(Stdio::piped())
            // Standard input is the control socket. An input is passed as standard error, and the helper moves it to
            // standard input.
            .stderr(input.map_or_else(Stdio::piped, Stdio::from))
            // The folder is passed by descriptor, so that no rename can exchange it.
            .current_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))
            .spawn()?;
        host.set_nonblocking(true)?;
        let mut host = UnixStream::from_std(host)?;
        // The write fails if the helper has died. The missing report then reveals the failure.
        if host.write_all(&length.to_le_bytes()).await.is_ok() {
            let _ = host.write_all(&policy_text).await;
        }
        let proxy = match &self.gateway {
            Some(gateway) if policy.gateway => gateway::receive(&host).await?.map(|listener| gateway.serve(listener)),
            _ => None,
        };
        let (reader, writer) = host.into_split();
        Ok((child, KillGuard { reader: BufReader::new(reader), writer, has_begun: false, _proxy: proxy }))
    }
}

/// The daemon's end of the socket to a helper. Dropping it kills the command and all its children.
#[derive(Debug)]
pub(crate) struct KillGuard {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// True once the command is about to start.
    pub(crate) has_begun: bool,
    /// Guard of the proxy for the command, which closes the proxy when dropped.
    _proxy: Option<AbortOnDropHandle<()>>,
}

impl KillGuard {
    /// Waits for the outcome of the command. Cancel safe: the future may be dropped and created again.
    pub(crate) async fn report(&mut self) -> io::Result<Report> {
        loop {
            // A report is a single write of one short line. It is either complete, or absent because the stream ended.
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = buffer.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let report = serde_json::from_slice(line);
            let used = buffer.len().min(line.len() + 1);
            self.reader.consume(used);
            match report? {
                Report::Begun => self.has_begun = true,
                report => return Ok(report),
            }
        }
    }

    /// Requests the command to end, and kills it if it is still running after `grace`.
    pub(crate) async fn end(&mut self, grace: Duration) -> io::Result<Report> {
        // A closed pipe means that the command has already ended.
        let _ = self.writer.write_all(&[END_REQUEST]).await;
        if let Ok(report) = tokio::time::timeout(grace, self.report()).await {
            return report;
        }
        let _ = self.writer.shutdown().await;
        // After SIGKILL, only a hung disk can delay the end, so there is no further wait.
        tokio::time::timeout(grace, self.report()).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn weaknesses(force: ActiveConfinement, no_namespaces: Option<&str>) -> Vec<String> {
    let mut weaknesses: Vec<String> = force.gap().map(str::to_owned).into_iter().collect();
    if let Some(reason) = no_namespaces {
        weaknesses.push(format!(
            "no namespaces ({reason}): commands share the process list, have no private /tmp, and can change modes and \
             times of your files, but not their content"
        ));
        if (1..6).contains(&force.landlock) {
            weaknesses.push("Landlock is too old to prevent commands from killing other processes".to_owned());
        }
    } else if !force.own_proc {
        weaknesses.push("commands see the names of all processes".to_owned());
    }
    if !force.counted {
        weaknesses.push("the number of a command's processes is not limited".to_owned());
    }
    weaknesses
}
