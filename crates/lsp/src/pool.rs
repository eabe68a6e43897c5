//! All language servers, and the port for engine and tools.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{
    ids::SessionId,
    language::{
        Diagnostic, LanguageError, LanguageNews, Patience, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
    mutex::lock,
    ports::{Confiner, Languages, Workspace},
    tool::FileChangeKind,
};
use futures_util::{FutureExt as _, future::BoxFuture, future::join_all};
use tokio::time::Instant;

use crate::{
    config::{LanguageConfig, ServerConfig},
    edits::{self, ServersOfFiles, SessionEdits},
    program::{self, FoundProgram, ProgramPlaces, Programs},
    questions,
    server::{CheckPurpose, DiskChange, ServerHandle, ServerParts},
};

/// Maximum number of running servers. To stay within the limit, the least recently used server is stopped.
const MAX_SERVERS: usize = 6;
/// Maximum number of sessions whose edits are tracked.
const MAX_SESSIONS: usize = 1000;
/// Maximum number of messages remembered as reported.
const MAX_REPORTED: usize = 4000;

/// Server that is installed on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// Name of the server.
    pub name: String,
    /// Path of the program, or `None` if only a rustup proxy exists and no toolchain contains the program.
    pub program: Option<PathBuf>,
    /// Installation advice, if the program is missing.
    pub hint: Option<String>,
}

/// Pool of all language servers.
pub struct LanguagePool {
    programs: Arc<Programs>,
    confiner: Arc<dyn Confiner>,
    state: Mutex<PoolState>,
}

struct PoolState {
    config: Arc<LanguageConfig>,
    /// Servers by name and project root, with the time of last use.
    servers: HashMap<(String, PathBuf), (Arc<ServerHandle>, Instant)>,
    sessions: HashMap<SessionId, Arc<tokio::sync::Mutex<SessionEdits>>>,
    reported: Vec<(SessionId, String)>,
    closed: bool,
}

/// Server with the file for which it was chosen.
pub(crate) struct ServerOfFile {
    pub(crate) server: Arc<ServerHandle>,
    pub(crate) file: SourceFile,
}

impl std::fmt::Debug for LanguagePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LanguagePool").finish_non_exhaustive()
    }
}

impl LanguagePool {
    /// Creates a pool without running servers.
    pub fn new(config: LanguageConfig, places: ProgramPlaces, confiner: Arc<dyn Confiner>) -> Self {
        let state = PoolState {
            config: Arc::new(config),
            servers: HashMap::new(),
            sessions: HashMap::new(),
            reported: Vec::new(),
            closed: false,
        };
        Self { programs: Arc::new(Programs::new(places)), confiner, state: Mutex::new(state) }
    }

    /// Applies another configuration. Servers whose settings changed, and servers that were given up, are stopped and
    /// started again on demand. Other servers keep running.
    pub fn reconfigure(&self, config: LanguageConfig) {
        self.programs.cache().clear();
        let mut state = lock(&self.state);
        let same_limits = state.config.limits == config.limits;
        state.servers.retain(|_, (server, _)| {
            same_limits && !server.is_given_up() && config.servers.contains(&server.parts.config)
        });
        state.config = Arc::new(config);
        state.reported.clear();
    }

    /// Returns the servers that are installed, or for which only a rustup proxy exists. May block.
    pub fn found(&self) -> Vec<FoundServer> {
        let config = Arc::clone(&lock(&self.state).config);
        let found = |server: &ServerConfig| {
            let name = server.name.clone();
            match self.programs.find(&server.command) {
                FoundProgram::Installed(program) => Some(FoundServer { name, program: Some(program), hint: None }),
                FoundProgram::Absent => None,
                FoundProgram::NotInToolchains => {
                    let command = Path::new(&server.command).file_name().unwrap_or_default().to_string_lossy();
                    let hint = format!("install it with `rustup component add {command}`, then `agentctl reload`");
                    Some(FoundServer { name, program: None, hint: Some(hint) })
                }
            }
        };
        config.servers.iter().filter_map(found).collect()
    }

    /// Stops all servers permanently.
    pub async fn close(&self) {
        let servers: Vec<_> = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.sessions.clear();
            state.servers.drain().map(|(_, (server, _))| server).collect()
        };
        join_all(servers.iter().map(|server| server.stop())).await;
    }

    /// Returns the servers for files. Files without a server are omitted.
    async fn servers_of(&self, files: Vec<SourceFile>) -> ServersOfFiles {
        let (config, programs) = (Arc::clone(&lock(&self.state).config), Arc::clone(&self.programs));
        let needed = tokio::task::spawn_blocking(move || {
            let needed = |file: SourceFile| {
                let server = needed_server(&config, &programs, &file)?;
                Some((server.clone(), root_of(&file, &server.root_markers), file))
            };
            files.into_iter().filter_map(needed).collect::<Vec<_>>()
        });
        let needed = needed.await.unwrap_or_default();
        let mut state = lock(&self.state);
        let mut servers = ServersOfFiles::new();
        if state.closed {
            return servers;
        }
        for (config, root, file) in needed {
            let server = state.server(config, root, &file.folder, &self.confiner);
            servers.insert(file, server);
        }
        servers
    }

    async fn of_file(&self, file: SourceFile) -> Result<ServerOfFile, LanguageError> {
        let server = self.servers_of(vec![file.clone()]).await.remove(&file).ok_or_else(|| {
            LanguageError::new(format!("no language server for {} is installed here; use grep", file.name()))
        })?;
        Ok(ServerOfFile { server, file })
    }

    fn edits_of(&self, session: SessionId) -> Arc<tokio::sync::Mutex<SessionEdits>> {
        let mut state = lock(&self.state);
        if state.sessions.len() >= MAX_SESSIONS && !state.sessions.contains_key(&session) {
            state.sessions.clear();
        }
        Arc::clone(state.sessions.entry(session).or_default())
    }

    /// Returns the messages that have not been reported to this session.
    fn filter_new(&self, session: SessionId, messages: Vec<String>) -> Vec<String> {
        let mut state = lock(&self.state);
        let mut new_messages = Vec::new();
        for message in messages {
            let entry = (session, message);
            if !state.reported.contains(&entry) {
                if state.reported.len() >= MAX_REPORTED {
                    state.reported.clear();
                }
                new_messages.push(entry.1.clone());
                state.reported.push(entry);
            }
        }
        new_messages
    }

    async fn all_news(&self, session: SessionId, patience: Patience) -> LanguageNews {
        let known = lock(&self.state).sessions.get(&session).cloned();
        let Some(edits) = known else { return LanguageNews::default() };
        let mut edits = edits.lock().await;
        if edits.are_settled() {
            return LanguageNews::default();
        }
        let limits = lock(&self.state).config.limits.clone();
        let servers = self.servers_of(edits.edited()).await;
        let has_started = edits.begin(&servers);
        let wait = match patience {
            Patience::End if edits.all_may_wait_long() => limits.wait,
            // An earlier step already waited for comparisons that were running.
            Patience::Step if !has_started => Duration::ZERO,
            Patience::Step if edits.are_warm() => limits.wait,
            Patience::Step | Patience::End => limits.cold_wait.min(limits.wait),
        };
        let news = edits.news(wait).await;
        LanguageNews { words: self.filter_new(session, news.words), ..news }
    }

    /// Notifies running servers of changes to files of other kinds, such as settings and inputs of code generators.
    async fn notify_changed(&self, files: Vec<(SourceFile, DiskChange)>) {
        if files.is_empty() {
            return;
        }
        let servers: Vec<_> = lock(&self.state).servers.values().map(|(server, _)| Arc::clone(server)).collect();
        for server in servers {
            let ServerParts { folder, root, .. } = &*server.parts;
            let is_of = |file: &SourceFile| file.folder == *folder && file.below.starts_with(root);
            let of_server = files.iter().filter(|(file, _)| is_of(file));
            let changes: Vec<_> = of_server.map(|(file, change)| (file.below.clone(), *change)).collect();
            if !changes.is_empty() {
                server.notify_changed(changes).await;
            }
        }
    }
}

impl PoolState {
    fn server(
        &mut self,
        config: ServerConfig,
        root: PathBuf,
        folder: &Path,
        confiner: &Arc<dyn Confiner>,
    ) -> Arc<ServerHandle> {
        let (key, now) = ((config.name.clone(), folder.join(&root)), Instant::now());
        if let Some((server, used)) = self.servers.get_mut(&key) {
            *used = now;
            return Arc::clone(server);
        }
        if self.servers.len() >= MAX_SERVERS {
            let oldest = self.servers.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.servers.remove(&key));
        }
        let server = Arc::new(ServerHandle::spawn(ServerParts {
            config,
            limits: self.config.limits.clone(),
            folder: folder.to_path_buf(),
            root,
            confiner: Arc::clone(confiner),
        }));
        self.servers.insert(key, (Arc::clone(&server), now));
        server
    }
}

/// Returns the first installed server for a file. May block.
fn needed_server<'c>(config: &'c LanguageConfig, programs: &Programs, file: &SourceFile) -> Option<&'c ServerConfig> {
    let is_installed = |server: &&ServerConfig| matches!(programs.find(&server.command), FoundProgram::Installed(program) if !program::is_of(&program, &file.folder));
    config.servers.iter().filter(|server| server.language_of(&file.below).is_some()).find(is_installed)
}

/// Returns the outermost folder above a file with a root marker, relative to the project. Empty for the project itself.
fn root_of(file: &SourceFile, markers: &[String]) -> PathBuf {
    let mut folders: Vec<&Path> = file.below.ancestors().skip(1).collect();
    folders.reverse();
    let has_marker =
        |folder: &&Path| markers.iter().any(|marker| file.folder.join(folder).join(marker).symlink_metadata().is_ok());
    folders.into_iter().find(has_marker).unwrap_or(Path::new("")).to_path_buf()
}

impl Languages for LanguagePool {
    fn knows(&self, file: &SourceFile) -> bool {
        let config = Arc::clone(&lock(&self.state).config);
        needed_server(&config, &self.programs, file).is_some()
    }

    fn begin_turn(&self, session: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let known = lock(&self.state).sessions.get(&session).cloned();
            if let Some(edits) = known {
                edits.lock().await.begin_turn();
            }
        })
    }

    fn before_edit(&self, session: SessionId, files: Vec<SourceFile>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let edits = self.edits_of(session);
            let mut edits = edits.lock().await;
            let servers = self.servers_of(edits.unknown(files)).await;
            edits.before(servers).await;
        })
    }

    fn after_edit(&self, session: SessionId, files: Vec<(SourceFile, FileChangeKind)>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let servers = self.servers_of(files.iter().map(|(file, _)| file.clone()).collect()).await;
            let (compared, others): (Vec<_>, Vec<_>) =
                files.into_iter().partition(|(file, _)| servers.contains_key(file));
            if !compared.is_empty() {
                self.edits_of(session).lock().await.after(compared.into_iter().map(|(file, _)| file));
            }
            self.notify_changed(others.into_iter().map(|(file, kind)| (file, kind.into())).collect()).await;
        })
    }

    fn end_session(&self, session: SessionId) {
        let mut state = lock(&self.state);
        state.sessions.remove(&session);
        state.reported.retain(|(of, _)| *of != session);
    }

    fn news(&self, session: SessionId, patience: Patience) -> BoxFuture<'_, LanguageNews> {
        self.all_news(session, patience).boxed()
    }

    fn last_diagnostics(&self, workspace: Arc<Workspace>) -> BoxFuture<'_, Vec<Diagnostic>> {
        async move {
            let servers: Vec<_> = lock(&self.state).servers.values().map(|(server, _)| Arc::clone(server)).collect();
            let mut all = Vec::new();
            for server in servers {
                let below = |path: &Path| workspace.source_file_below(&server.parts.folder, path);
                if below(Path::new("")).is_none() {
                    continue;
                }
                for (path, findings) in server.last_findings_for(CheckPurpose::Question).await {
                    let file = below(&path);
                    let of_file = |file| findings.iter().map(move |finding| edits::diagnostic(file, finding));
                    all.extend(file.iter().flat_map(of_file));
                }
            }
            all.sort();
            all.dedup();
            all
        }
        .boxed()
    }

    fn diagnostics(&self, file: SourceFile) -> BoxFuture<'_, Result<Vec<Diagnostic>, LanguageError>> {
        async move { questions::diagnostics(self.of_file(file).await?).await }.boxed()
    }

    fn definition(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>> {
        async move { questions::definition(self.of_file(at.file.clone()).await?, at).await }.boxed()
    }

    fn references(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>> {
        async move { questions::references(self.of_file(at.file.clone()).await?, at).await }.boxed()
    }

    fn rename(&self, at: SourcePosition, name: String) -> BoxFuture<'_, Result<Vec<SourceRewrite>, LanguageError>> {
        let wait = lock(&self.state).config.limits.wait;
        async move { questions::rename(self.of_file(at.file.clone()).await?, at, name, wait).await }.boxed()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

    use agentd_core::ports::{ConfineError, ConfinedProcess, ConfinedProgram, SecretFile};

    use super::*;
    use crate::config::LanguageLimits;

    /// Confiner that always fails.
    pub(crate) struct NoSandbox;

    impl Confiner for NoSandbox {
        fn start(&self, _: ConfinedProgram) -> BoxFuture<'_, Result<ConfinedProcess, ConfineError>> {
            std::future::ready(Err(ConfineError { message: "no sandbox".to_owned(), lasting: true })).boxed()
        }

        fn secrets(&self, _: PathBuf) -> BoxFuture<'_, Result<Vec<SecretFile>, ConfineError>> {
            std::future::ready(Ok(Vec::new())).boxed()
        }
    }

    pub(crate) fn config(command: &Path, names: &[&str]) -> LanguageConfig {
        let second = Duration::from_secs(1);
        let server = |name: &&str| ServerConfig {
            name: (*name).to_owned(),
            command: command.display().to_string(),
            args: Vec::new(),
            environment: BTreeMap::new(),
            languages: BTreeMap::from([((*name).to_owned(), String::new())]),
            root_markers: vec!["root".to_owned()],
        };
        let limits = LanguageLimits {
            idle_stop: None,
            start_timeout: second,
            request_timeout: second,
            wait: second,
            cold_wait: second,
            memory_bytes: None,
        };
        LanguageConfig { servers: names.iter().map(server).collect(), limits }
    }

    #[tokio::test]
    async fn reload_ends_only_changed_or_failed_servers() {
        let (tools, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = tools.path().join("server");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let file = |below: String| {
            fs::create_dir_all(folder.path().join(&below).with_file_name("root")).unwrap();
            fs::write(folder.path().join(&below), "").unwrap();
            SourceFile { folder: folder.path().into(), mount: "/project".to_owned(), below: below.into() }
        };
        let places = ProgramPlaces { search_path: "".into(), rustup: None };
        let pool = LanguagePool::new(config(&program, &["one", "two"]), places, Arc::new(NoSandbox));
        let count = || lock(&pool.state).servers.len();
        let both_files = vec![file("a/x.one".to_owned()), file("a/x.two".to_owned())];
        assert_eq!(pool.servers_of(both_files.clone()).await.len(), 2);
        let refused = pool.diagnostics(both_files[0].clone()).await.unwrap_err();
        assert!(refused.message.contains("no sandbox"), "{refused}");
        pool.reconfigure(config(&program, &["one", "two"]));
        assert_eq!(count(), 1, "the other server is retried");
        pool.servers_of(both_files).await;
        pool.reconfigure(config(&program, &["two"]));
        assert_eq!(count(), 1);
        let mut other = config(&program, &["two"]);
        other.servers[0].args.push("more".to_owned());
        pool.reconfigure(other);
        assert_eq!(count(), 0);
        pool.servers_of((0..9).map(|number| file(format!("{number}/x.two"))).collect()).await;
        assert_eq!(count(), MAX_SERVERS);
    }

    #[test]
    fn outermost_folder_with_a_marker_is_the_root() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("app/part/src")).unwrap();
        fs::write(folder.path().join("app/package.json"), "").unwrap();
        fs::write(folder.path().join("app/part/package.json"), "").unwrap();
        let root = |below: &str| {
            let file =
                SourceFile { folder: folder.path().into(), mount: "/project".to_owned(), below: PathBuf::from(below) };
            root_of(&file, &["package.json".to_owned()])
        };
        assert_eq!(root("app/part/src/a.ts"), Path::new("app"));
        assert_eq!(root("other/a.ts"), Path::new(""));
        assert_eq!(root("a.ts"), Path::new(""));
        fs::write(folder.path().join("package.json"), "").unwrap();
        assert_eq!(root("app/part/src/a.ts"), Path::new(""));
    }
}
