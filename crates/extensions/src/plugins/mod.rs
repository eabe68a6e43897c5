//! Plugins: folders with skills, agents, commands and MCP servers. The user adds or removes a plugin as a whole.
//!
//! - `folder`: files of a plugin, scanned before any is used, and the hash over them. `manifest`: `plugin.json`.
//! - `parts`, `servers`: the contents of a plugin.
//!
//! A plugin is copied into the data folder, and the user agrees to the hash over that copy. The copy is checked when
//! the daemon starts, when its configuration is read, when plugins are listed, and before a server from the plugin
//! starts. If the hash differs, nothing in the plugin is used.

mod folder;
mod manifest;
mod parts;
mod servers;

#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use agentd_core::{
    Timestamp,
    error::{ErrorKind, WorkspaceError},
    plugin::{PluginReport, PluginState},
    project::{ProjectCommand, ProjectFile, ProjectProblem},
};
use agentd_workspace::{exact, private};
use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::{
    folder::PluginFolder,
    manifest::{MARKETPLACES, Manifest},
    parts::PluginParts,
};
use crate::files::agreed_folder::{Agreement, Agreements, DRAFT, lock, remove_below, storage};

/// Maximum number of plugins.
const MAX_PLUGINS: usize = 100;
/// Maximum number of characters stored for a client's name, and for a source.
const MAX_NAME: usize = 1000;
/// Maximum number of plugins listed in an error about a folder that contains plugins.
const MAX_INNER: usize = 12;

/// One plugin, in the version that the user agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PluginRecord {
    name: String,
    version: String,
    /// Hash of all files.
    hash: String,
    /// Name of the plugin's folder, next to the file of all records.
    folder: String,
    /// Location from which the plugin was added.
    source: String,
    at: Timestamp,
    /// Client through which the user agreed.
    by: String,
    /// Files at the time of the agreement, to list later changes.
    files: Vec<ProjectFile>,
}

impl Agreement for PluginRecord {
    const FILE: [&'static str; 2] = ["installed.json", "plugins"];
    type Key = str;

    fn key(&self) -> &str {
        &self.name
    }

    fn folder(&self) -> &str {
        &self.folder
    }

    fn files(&self) -> &[ProjectFile] {
        &self.files
    }
}

/// Plugins added by the user. Clones share one store.
#[derive(Debug, Clone)]
pub struct PluginStore(Arc<Store>);

#[derive(Debug)]
struct Store {
    /// Folder for the records and copies.
    folder: PathBuf,
    /// Parent of the folders that plugin servers may write to.
    data: PathBuf,
    installed: RwLock<Arc<[InstalledPlugin]>>,
    /// Serialises additions and removals.
    changing: Mutex<()>,
}

/// Installed plugin and its content.
#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    /// Description of the plugin.
    pub report: PluginReport,
    /// Entries of the plugin's servers, as in `mcp_servers.yaml`, with their names.
    pub servers: Vec<(String, Value)>,
    /// Skill folders of the plugin, with the entries that are skills.
    pub(crate) skills: Vec<(PathBuf, Vec<String>)>,
}

impl InstalledPlugin {
    /// Returns true if the plugin is unchanged since the user agreed to it, so that its parts are used.
    pub fn is_used(&self) -> bool {
        self.report.state == PluginState::Installed
    }
}

/// Plugin whose files have been read.
struct LoadedPlugin {
    files: PluginFolder,
    manifest: Manifest,
    parts: PluginParts,
}

impl PluginStore {
    /// Creates the store for plugins in `folder`. Their servers may write in `data`. Reads nothing yet.
    pub fn new(folder: PathBuf, data: PathBuf) -> Self {
        let (installed, changing) = (RwLock::new(Arc::from([])), Mutex::default());
        Self(Arc::new(Store { folder, data, installed, changing }))
    }

    /// Returns the plugins as of the last check.
    pub fn installed(&self) -> Arc<[InstalledPlugin]> {
        Arc::clone(&self.0.installed.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks all plugins again. Blocks on the disk.
    pub fn refresh(&self) -> Arc<[InstalledPlugin]> {
        let _guard = lock(&self.0.changing);
        self.0.refresh()
    }

    /// Removes leftovers of additions interrupted by a crash. Blocks on the disk.
    pub fn sweep(&self) {
        let _guard = lock(&self.0.changing);
        // If the records are unreadable, no plugin is used, and none is removed.
        if let Ok(records) = self.0.records() {
            records.sweep(&self.0.folder);
        }
    }

    /// Describes a folder as a plugin. Copies nothing.
    ///
    /// # Errors
    /// Fails if the folder is not a plugin.
    pub fn inspect(&self, folder: &Path) -> Result<PluginReport, WorkspaceError> {
        let store = &self.0;
        let (_, loaded) = store.open(folder)?;
        let records = store.records()?;
        Ok(store.describe(&loaded, folder.to_path_buf(), records.of(&loaded.manifest.name), false))
    }

    /// Adds a plugin whose files have this hash, or replaces another version of the plugin. Removes incomplete copies
    /// on failure.
    ///
    /// # Errors
    /// Fails if the folder is not a plugin, has another hash, or cannot be copied.
    pub fn add(&self, folder: &Path, hash: &str, source: &str, client: &str) -> Result<PluginReport, WorkspaceError> {
        let store = &self.0;
        let _guard = lock(&store.changing);
        let (from, loaded) = store.open(folder)?;
        let name = loaded.manifest.name.clone();
        let records = store.records()?;
        if loaded.files.hash() != hash {
            let message = format!("the plugin {name} has changed since it was shown: its hash differs");
            return Err(WorkspaceError::new(ErrorKind::Conflict, message).with_hint("review it again, then add it"));
        }
        let previous = records.of(&name);
        let is_same = |record: &PluginRecord| record.hash == hash && store.is_as_agreed(record);
        if !previous.is_some_and(is_same) {
            if previous.is_none() && records.0.len() >= MAX_PLUGINS {
                let message = format!("there are {MAX_PLUGINS} plugins already");
                return Err(WorkspaceError::new(ErrorKind::Conflict, message).with_hint("remove one first"));
            }
            let failed = |error: io::Error| storage(&format!("add the plugin {name}"), &error);
            private::folder(&store.folder).map_err(failed)?;
            records.sweep(&store.folder);
            let mark = uuid::Uuid::new_v4().simple().to_string();
            let draft = store.folder.join(format!("{DRAFT}{mark}"));
            let own = format!("{name}-{}", &mark[..12]);
            let copied = copy(&from, &loaded, &draft)
                .and_then(|()| fs::rename(&draft, store.folder.join(&own)))
                .and_then(|()| private::folder(&store.data.join(&name)))
                .and_then(|()| fs::File::open(&store.folder)?.sync_all());
            let cut = |text: &str| text.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect();
            let record = PluginRecord {
                name: name.clone(),
                version: loaded.manifest.version.clone(),
                hash: hash.to_owned(),
                folder: own,
                source: cut(source),
                at: Timestamp::now(),
                by: cut(client),
                files: loaded.files.listed(),
            };
            let after = records.clone().with(record);
            if let Err(error) = copied.and_then(|()| after.store(&store.folder)) {
                records.sweep(&store.folder);
                return Err(failed(error));
            }
            after.sweep(&store.folder);
        }
        let added = store.refresh().iter().find(|plugin| plugin.report.name == name).cloned();
        added.map(|plugin| plugin.report).ok_or_else(|| {
            WorkspaceError::new(ErrorKind::Internal, format!("the plugin {name} is missing after it was added"))
        })
    }

    /// Removes a plugin, and the folder that its servers wrote to. Returns `None` if there is no such plugin.
    ///
    /// # Errors
    /// Fails if the change cannot be stored.
    pub fn remove(&self, name: &str) -> Result<Option<PluginReport>, WorkspaceError> {
        let store = &self.0;
        let _guard = lock(&store.changing);
        let records = store.records()?;
        let Some(record) = records.of(name) else { return Ok(None) };
        let report = store.load(record).report;
        let after = records.clone().without(name);
        after.store(&store.folder).map_err(|error| storage(&format!("remove the plugin {name}"), &error))?;
        after.sweep(&store.folder);
        remove_below(&store.data, name);
        store.refresh();
        Ok(Some(report))
    }

    /// Checks that a plugin is unchanged since the user agreed to it, before a part of the plugin runs. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// Returns the reason why the plugin may not run, for the user.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let records = self.0.records().map_err(|error| error.to_string())?;
        let Some(record) = records.of(name) else { return Err(format!("the plugin {name} no longer exists")) };
        if self.0.is_as_agreed(record) { Ok(()) } else { Err(changed(name)) }
    }
}

/// Builds the error for a plugin whose files have changed.
fn changed(name: &str) -> String {
    format!(
        "files of the plugin {name} differ from those that you approved; `agentctl plugin show {name}` lists them, and \
         `agentctl plugin approve {name}` approves them"
    )
}

impl Store {
    fn records(&self) -> Result<Agreements<PluginRecord>, WorkspaceError> {
        Agreements::load(&self.folder).map_err(|error| {
            storage("read the list of plugins", &error)
                .with_hint(format!("no plugin is used; fix or remove {}/installed.json", self.folder.display()))
        })
    }

    fn refresh(&self) -> Arc<[InstalledPlugin]> {
        let records = self.records().unwrap_or_else(|error| {
            tracing::error!("no plugin is used: {error}");
            Agreements::default()
        });
        let installed: Arc<[InstalledPlugin]> = records.0.iter().map(|record| self.load(record)).collect();
        *self.installed.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&installed);
        installed
    }

    /// Loads a plugin from its current files.
    fn load(&self, record: &PluginRecord) -> InstalledPlugin {
        let root = self.folder.join(&record.folder);
        let loaded = match self.read(record) {
            Ok(loaded) => loaded,
            Err(reason) => {
                let problem = ProjectProblem { file: String::new(), message: reason, is_fatal: true };
                let report = PluginReport {
                    name: record.name.clone(),
                    version: record.version.clone(),
                    state: PluginState::Changed,
                    folder: root,
                    source: record.source.clone(),
                    added_at: Some(record.at),
                    problems: vec![problem],
                    ..PluginReport::default()
                };
                return InstalledPlugin { report, servers: Vec::new(), skills: Vec::new() };
            }
        };
        let report = self.describe(&loaded, root.clone(), Some(record), true);
        if report.state == PluginState::Changed {
            tracing::warn!("{}", changed(&record.name));
        }
        let data = self.data.join(&record.name);
        let (root_text, data) = (root.to_string_lossy(), data.to_string_lossy());
        let servers = loaded.parts.servers.iter();
        let servers = servers.map(|entry| (entry.name.clone(), entry.config_entry(&root_text, &data))).collect();
        let mut skills: Vec<(PathBuf, Vec<String>)> = Vec::new();
        for (around, entry) in loaded.parts.locations {
            let around = root.join(around);
            match skills.iter_mut().find(|(folder, _)| *folder == around) {
                Some((_, entries)) => entries.push(entry),
                None => skills.push((around, vec![entry])),
            }
        }
        InstalledPlugin { report, servers, skills }
    }

    /// Reads the daemon's own copy of a plugin.
    fn read(&self, record: &PluginRecord) -> Result<LoadedPlugin, String> {
        let folder = exact::open_folder(&self.folder.join(&record.folder));
        let folder = folder.map_err(|error| format!("its folder cannot be opened: {error}"))?;
        LoadedPlugin::of(&Dir::from_std_file(folder.into()), &record.name)
    }

    fn open(&self, folder: &Path) -> Result<(Dir, LoadedPlugin), WorkspaceError> {
        let shown = folder.display();
        let opened = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).map_err(|error| {
            WorkspaceError::new(ErrorKind::NotFound, format!("the folder {shown} cannot be opened: {error}"))
                .with_hint("pass the folder of a plugin, which contains a plugin.json")
        })?;
        let fallback = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let loaded = LoadedPlugin::of(&opened, &fallback).map_err(|reason| {
            WorkspaceError::new(ErrorKind::InvalidInput, format!("{shown} cannot be added as a plugin: {reason}"))
                .with_hint("nothing was added")
        })?;
        Ok((opened, loaded))
    }

    fn describe(
        &self,
        loaded: &LoadedPlugin,
        folder: PathBuf,
        record: Option<&PluginRecord>,
        is_own_copy: bool,
    ) -> PluginReport {
        let LoadedPlugin { files, manifest, parts } = loaded;
        let hash = files.hash();
        let state = match record {
            None => PluginState::New,
            Some(record) if record.hash == hash => PluginState::Installed,
            Some(_) if is_own_copy => PluginState::Changed,
            Some(_) => PluginState::Update,
        };
        let is_used = is_own_copy && state == PluginState::Installed;
        let command = |command: &ProjectCommand| ProjectCommand {
            name: command.name.clone(),
            text: if is_used { command.text.clone() } else { String::new() },
        };
        let problems = manifest.problems.iter().chain(&files.left_out).chain(&parts.problems);
        PluginReport {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            description: manifest.description.clone(),
            license: manifest.license.clone(),
            homepage: manifest.homepage.clone(),
            state,
            hash,
            folder,
            source: record.map(|record| record.source.clone()).unwrap_or_default(),
            added_at: record.map(|record| record.at),
            files: files.files.len() as u64,
            bytes: files.bytes(),
            skills: parts.skills.clone(),
            agents: parts.agents.clone(),
            commands: parts.commands.iter().map(command).collect(),
            servers: parts.servers.iter().map(servers::ServerEntry::summary).collect(),
            unsupported: manifest.unsupported.clone(),
            installed_version: record.map(|record| record.version.clone()).unwrap_or_default(),
            changes: record.map(|record| record.changes(&files.listed())).unwrap_or_default(),
            problems: problems.cloned().collect(),
        }
    }

    /// Returns true if the daemon's copy has the files that the user agreed to.
    fn is_as_agreed(&self, record: &PluginRecord) -> bool {
        self.read(record).is_ok_and(|loaded| loaded.files.hash() == record.hash)
    }
}

/// Copies the files durably, and verifies the hash of the copy.
fn copy(from: &Dir, loaded: &LoadedPlugin, to: &Path) -> io::Result<()> {
    private::folder(to)?;
    let target = Dir::from_std_file(exact::open_folder(to)?.into());
    loaded.files.tree.copy(from, &target)?;
    let copied = PluginFolder::read(&target).map_err(io::Error::other)?;
    if copied.hash() != loaded.files.hash() {
        return Err(io::Error::other("its files changed while they were copied"));
    }
    let mut folders = vec![to.to_path_buf()];
    for file in &copied.files {
        let path = to.join(&file.path);
        fs::File::open(&path)?.sync_all()?;
        folders.extend(path.parent().map(Path::to_path_buf));
    }
    folders.sort();
    folders.dedup();
    folders.iter().try_for_each(|folder| fs::File::open(folder)?.sync_all())
}

impl LoadedPlugin {
    fn of(folder: &Dir, fallback: &str) -> Result<Self, String> {
        let files = PluginFolder::read(folder)?;
        let manifest = Manifest::of(&files, fallback)?;
        let parts = PluginParts::of(&files, &manifest);
        if !parts.is_empty() {
            return Ok(Self { files, manifest, parts });
        }
        let inner = inner_plugins(&files);
        if inner.is_empty() {
            let wrong = parts.problems.iter().find(|problem| problem.is_fatal);
            let reason = wrong.map(|problem| format!(" ({problem})")).unwrap_or_default();
            return Err(format!("it has no usable skill, agent, command or MCP server{reason}"));
        }
        Err(format!("it contains several plugins; pass the folder of one: {}", inner.join(", ")))
    }
}

/// Returns the subfolders that are plugins themselves.
fn inner_plugins(files: &PluginFolder) -> Vec<String> {
    let of_file = |file: &folder::PluginFile| {
        let folder = file.path.strip_suffix("/plugin.json")?;
        let folder =
            [".plugin", ".claude-plugin"].iter().find_map(|inner| folder.strip_suffix(inner)).unwrap_or(folder);
        Some(folder.trim_end_matches('/').to_owned()).filter(|folder| !folder.is_empty())
    };
    let is_list = |file: &folder::PluginFile| MARKETPLACES.contains(&file.path.as_str());
    let mut inner: Vec<String> = files.files.iter().filter(|file| !is_list(file)).filter_map(of_file).collect();
    inner.sort();
    inner.dedup();
    inner.truncate(MAX_INNER);
    inner
}
