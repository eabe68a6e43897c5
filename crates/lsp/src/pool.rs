//! All servers, and the port that engine and tools call.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentd_core::{
    ids::SessionId,
    language::{
        Diagnostic, LanguageError, LanguageNews, Patience, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    },
    ports::{Confiner, Languages, Workspace},
};
use futures_util::{FutureExt as _, future::BoxFuture, future::join_all};
use tokio::time::Instant;

use crate::{
    config::{LanguageConfig, ServerConfig},
    edits::{self, SessionEdits},
    program, questions,
    server::{ServerHandle, ServerParts},
};

/// Servers that are known at once, running or not.
const MAX_SERVERS: usize = 24;
/// Sessions whose edits are remembered at once.
const MAX_SESSIONS: usize = 1000;
/// Words that are remembered as told.
const MAX_TOLD: usize = 4000;
/// Time for which it is remembered where a program is.
const PROGRAM_AGE: Duration = Duration::from_secs(10);

/// A server that was found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// Its name.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
}

/// All language servers.
pub struct LanguagePool {
    search_path: OsString,
    confiner: Arc<dyn Confiner>,
    state: Mutex<PoolState>,
}

struct PoolState {
    config: Arc<LanguageConfig>,
    /// By the name of the server and the folder of its work.
    servers: HashMap<(String, PathBuf), (Arc<ServerHandle>, Instant)>,
    programs: HashMap<String, (Instant, Option<PathBuf>)>,
    sessions: HashMap<SessionId, Arc<tokio::sync::Mutex<SessionEdits>>>,
    told: Vec<(SessionId, String)>,
    closed: bool,
}

/// A server with the file that it is for.
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
    /// Servers of this configuration, none of which runs yet. Programs are looked for in the search path.
    #[must_use]
    pub fn new(config: LanguageConfig, search_path: OsString, confiner: Arc<dyn Confiner>) -> Self {
        let state = PoolState {
            config: Arc::new(config),
            servers: HashMap::new(),
            programs: HashMap::new(),
            sessions: HashMap::new(),
            told: Vec::new(),
            closed: false,
        };
        Self { search_path, confiner, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows another configuration. All servers end, and are started anew where they are needed, those included that were
    /// given up.
    pub fn reconfigure(&self, config: LanguageConfig) {
        let mut state = self.state();
        state.config = Arc::new(config);
        state.servers.clear();
        state.programs.clear();
        state.told.clear();
    }

    /// The servers whose programs are there now.
    #[must_use]
    pub fn found(&self) -> Vec<FoundServer> {
        let config = Arc::clone(&self.state().config);
        let found = |server: &ServerConfig| {
            let program = program::find(&server.command, &self.search_path)?;
            Some(FoundServer { name: server.name.clone(), program })
        };
        config.servers.iter().filter_map(found).collect()
    }

    /// Ends all servers, for good.
    pub async fn close(&self) {
        let servers: Vec<_> = {
            let mut state = self.state();
            state.closed = true;
            state.sessions.clear();
            state.servers.drain().map(|(_, (server, _))| server).collect()
        };
        join_all(servers.iter().map(|server| server.stop())).await;
    }

    /// The server of a file; none where there is none.
    pub(crate) fn server_of(&self, file: &SourceFile) -> Option<Arc<ServerHandle>> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let (config, program) = state.server_for(file, &self.search_path)?;
        let limits = state.config.limits.clone();
        let root = root_of(file, &config.root_markers);
        let key = (config.name.clone(), file.folder.join(&root));
        let now = Instant::now();
        if let Some((server, used)) = state.servers.get_mut(&key) {
            *used = now;
            return Some(Arc::clone(server));
        }
        if state.servers.len() >= MAX_SERVERS {
            let oldest = state.servers.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| state.servers.remove(&key));
        }
        let confiner = Arc::clone(&self.confiner);
        let folder = file.folder.clone();
        let server = Arc::new(ServerHandle::spawn(ServerParts { config, limits, program, folder, root, confiner }));
        state.servers.insert(key, (Arc::clone(&server), now));
        Some(server)
    }

    fn edits_of(&self, session: SessionId) -> Arc<tokio::sync::Mutex<SessionEdits>> {
        let mut state = self.state();
        if state.sessions.len() >= MAX_SESSIONS && !state.sessions.contains_key(&session) {
            state.sessions.clear();
        }
        Arc::clone(state.sessions.entry(session).or_default())
    }

    /// Those of the words that the session has not heard yet.
    fn untold(&self, session: SessionId, words: Vec<String>) -> Vec<String> {
        let mut state = self.state();
        let mut untold = Vec::new();
        for word in words {
            let entry = (session, word);
            if !state.told.contains(&entry) {
                if state.told.len() >= MAX_TOLD {
                    state.told.clear();
                }
                untold.push(entry.1.clone());
                state.told.push(entry);
            }
        }
        untold
    }

    async fn all_news(&self, session: SessionId, patience: Patience) -> LanguageNews {
        let known = self.state().sessions.get(&session).cloned();
        let Some(edits) = known else { return LanguageNews::default() };
        let mut edits = edits.lock().await;
        if edits.is_settled() {
            edits.forget_unedited();
            return LanguageNews::default();
        }
        let limits = self.state().config.limits.clone();
        edits.begin(|file| self.server_of(file));
        let is_warm = patience == Patience::End || edits.are_warm();
        let news = edits.news(if is_warm { limits.wait } else { limits.cold_wait.min(limits.wait) }).await;
        LanguageNews { words: self.untold(session, news.words), ..news }
    }
}

impl PoolState {
    /// The first server for files of that name whose program is there.
    fn server_for(&mut self, file: &SourceFile, search_path: &OsString) -> Option<(Arc<ServerConfig>, PathBuf)> {
        let extension = file.below.extension()?.to_str()?.to_lowercase();
        let config = Arc::clone(&self.config);
        let mut fit = config.servers.iter().filter(|server| server.languages.contains_key(&extension));
        fit.find_map(|server| {
            let program = self.program(&server.command, search_path)?;
            // By its name: where the walls close the folder that has it, another one may have it too.
            let named = PathBuf::from(&server.command);
            (!program::is_of(&program, &file.folder)).then(|| (Arc::new(server.clone()), named))
        })
    }

    fn program(&mut self, command: &str, search_path: &OsString) -> Option<PathBuf> {
        match self.programs.get(command) {
            Some((at, program)) if at.elapsed() < PROGRAM_AGE => program.clone(),
            _ => {
                let program = program::find(command, search_path);
                self.programs.insert(command.to_owned(), (Instant::now(), program.clone()));
                program
            }
        }
    }
}

/// The outermost folder on the way to a file that has one of the markers, below the folder of the person; empty for that one.
fn root_of(file: &SourceFile, markers: &[String]) -> PathBuf {
    let mut folders: Vec<&Path> = file.below.ancestors().skip(1).collect();
    folders.reverse();
    let has_marker =
        |folder: &&Path| markers.iter().any(|marker| file.folder.join(folder).join(marker).symlink_metadata().is_ok());
    folders.into_iter().find(has_marker).unwrap_or(Path::new("")).to_path_buf()
}

impl Languages for LanguagePool {
    fn knows(&self, file: &SourceFile) -> bool {
        let mut state = self.state();
        !state.closed && state.server_for(file, &self.search_path).is_some()
    }

    fn before_edit(&self, session: SessionId, files: Vec<SourceFile>) -> BoxFuture<'_, ()> {
        async move {
            let edits = self.edits_of(session);
            edits.lock().await.before(files, |file| self.server_of(file)).await;
        }
        .boxed()
    }

    fn after_edit(&self, session: SessionId, files: Vec<SourceFile>) -> BoxFuture<'_, ()> {
        async move {
            let edits = self.edits_of(session);
            edits.lock().await.after(files);
        }
        .boxed()
    }

    fn news(&self, session: SessionId, patience: Patience) -> BoxFuture<'_, LanguageNews> {
        self.all_news(session, patience).boxed()
    }

    fn last_diagnostics(&self, workspace: Arc<Workspace>) -> BoxFuture<'_, Vec<Diagnostic>> {
        async move {
            let servers: Vec<_> = self.state().servers.values().map(|(server, _)| Arc::clone(server)).collect();
            let mut all = Vec::new();
            for server in servers {
                for (below, findings) in server.recall_all().await {
                    let file = SourceFile::below(&workspace, &server.folder, &below);
                    all.extend(
                        file.iter().flat_map(|file| findings.iter().map(|finding| edits::diagnostic(file, finding))),
                    );
                }
            }
            all.sort();
            all.dedup();
            all
        }
        .boxed()
    }

    fn diagnostics(&self, file: SourceFile) -> BoxFuture<'_, Result<Vec<Diagnostic>, LanguageError>> {
        async move { questions::diagnostics(self.of_file(file)?).await }.boxed()
    }

    fn definition(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>> {
        async move { questions::definition(self.of_file(at.file.clone())?, at).await }.boxed()
    }

    fn references(&self, at: SourcePosition) -> BoxFuture<'_, Result<Vec<SourceLocation>, LanguageError>> {
        async move { questions::references(self.of_file(at.file.clone())?, at).await }.boxed()
    }

    fn rename(&self, at: SourcePosition, name: String) -> BoxFuture<'_, Result<Vec<SourceRewrite>, LanguageError>> {
        async move { questions::rename(self.of_file(at.file.clone())?, at, name).await }.boxed()
    }
}

impl LanguagePool {
    fn of_file(&self, file: SourceFile) -> Result<ServerOfFile, LanguageError> {
        let server = self.server_of(&file).ok_or_else(|| {
            LanguageError::new(format!("no language server for {} is installed here; use grep", file.name()))
        })?;
        Ok(ServerOfFile { server, file })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_outermost_folder_with_a_marker_is_the_root() {
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
