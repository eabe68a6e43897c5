//! The configuration files, lowest layer first.
//!
//! This module also contains the origin of each value, and errors with location, message and suggested correction.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_extensions::plugins::InstalledPlugin;

use crate::environment::{Environment, objection};

/// Maximum size of a configuration file in bytes. Prevents reading a device or a log that was specified by mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Table of the files: subject, name in each configuration folder, and built-in content.
macro_rules! subjects {
    ($($(#[$doc:meta])* $subject:ident = $name:literal: $built_in:expr,)*) => {
        /// Subject of a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Subject { $($(#[$doc])* $subject,)* }

        impl Subject {
            /// Subjects of all configuration files.
            pub const ALL: &[Self] = &[$(Self::$subject),*];

            /// Returns the name of the file in each configuration folder.
            #[must_use]
            pub fn file_name(self) -> &'static str {
                match self { $(Self::$subject => $name,)* }
            }

            fn built_in(self) -> &'static str {
                match self { $(Self::$subject => $built_in,)* }
            }
        }
    };
}

subjects! {
    /// Settings of the daemon: `agentd.yaml`.
    Daemon = "agentd.yaml": include_str!("../../../config/agentd.yaml"),
    /// Slots and their models: `models.yaml`.
    Models = "models.yaml": include_str!("../../../config/models.yaml"),
    /// Settings of tools: `tools.yaml`.
    Tools = "tools.yaml": include_str!("../../../config/tools.yaml"),
    /// Definitions of agents: `agents.yaml`.
    Agents = "agents.yaml": include_str!("../../../config/agents.yaml"),
    /// Settings of skills: `skills.yaml`.
    Skills = "skills.yaml": include_str!("../../../config/skills.yaml"),
    /// Fetching and searching: `web.yaml`.
    Web = "web.yaml": include_str!("../../../config/web.yaml"),
    /// Language servers and limits: `languages.yaml`.
    Languages = "languages.yaml": include_str!("../../../config/languages.yaml"),
    /// Settings of MCP servers: `mcp_servers.yaml`.
    Mcp = "mcp_servers.yaml": include_str!("../../../config/mcp_servers.yaml"),
    /// Variables for MCP servers: `mcp_secrets.env`.
    McpSecrets = "mcp_secrets.env": include_str!("../../../config/mcp_secrets.env"),
    /// Variables for all files: `.env`.
    Dotenv = ".env": "",
    /// Rules for approvals: `hitl_rules.yaml`.
    HitlRules = "hitl_rules.yaml": include_str!("../../../config/hitl_rules.yaml"),
    /// Prompt of the main agent: `prompts/system.md`.
    SystemPrompt = "prompts/system.md": include_str!("../../../config/prompts/system.md"),
    /// Prompt of subagents: `prompts/subagent.md`.
    SubagentPrompt = "prompts/subagent.md": include_str!("../../../config/prompts/subagent.md"),
    /// Prompt for compaction: `prompts/compact.md`.
    CompactPrompt = "prompts/compact.md": include_str!("../../../config/prompts/compact.md"),
}

/// One file of one layer.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Subject of the file.
    pub subject: Subject,
    /// Layer of the file.
    pub origin: Origin,
    /// Text of the file.
    pub text: String,
}

impl SourceFile {
    /// Returns the folder to which relative paths in the file refer.
    pub(super) fn folder(&self) -> PathBuf {
        self.origin.path().parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Returns warnings about files that contain keys and that other users of the host can read, one sentence each.
pub fn exposed_key_files(files: &[PathBuf]) -> Vec<String> {
    let contains_keys = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            [Subject::Dotenv, Subject::McpSecrets].iter().any(|subject| subject.file_name() == name)
        })
    };
    let is_open = |path: &&PathBuf| fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0);
    let note = |path: &PathBuf| {
        let shown = path.display();
        format!("{shown} contains keys, but other users can read it; run chmod 600 '{shown}'")
    };
    files.iter().filter(contains_keys).filter(is_open).map(note).collect()
}

/// Returns the built-in files, one per subject.
pub fn built_in() -> Vec<SourceFile> {
    let file =
        |&subject: &Subject| SourceFile { subject, origin: Origin::BuiltIn, text: subject.built_in().to_owned() };
    Subject::ALL.iter().map(file).collect()
}

/// Loads all files of all layers, lowest first: built-in files, the host's folders, the user's folder.
///
/// # Errors
/// Fails if an existing file cannot be read, is too long or is not UTF-8, or if another user can write the file or its
/// folder.
pub fn load(system: &[PathBuf], user: &Path) -> Result<Vec<SourceFile>, ConfigError> {
    let mut files = built_in();
    for folder in system {
        add_folder(&mut files, folder, Origin::System)?;
    }
    add_folder(&mut files, user, Origin::User)?;
    Ok(files)
}

fn add_folder(files: &mut Vec<SourceFile>, folder: &Path, layer: fn(PathBuf) -> Origin) -> Result<(), ConfigError> {
    // If the folder is not accessible, its files are reported as missing or fail with their own error.
    if let Ok(found) = fs::metadata(folder) {
        check_owner(folder, &found)?;
    }
    for &subject in Subject::ALL {
        let path = folder.join(subject.file_name());
        if let Some(text) = read(&path)? {
            files.push(SourceFile { subject, origin: layer(path), text });
        }
    }
    Ok(())
}

/// Checks that no other user can write the file. Otherwise, rules and servers written by another user would take effect
/// as if they were the user's own.
fn check_owner(path: &Path, found: &fs::Metadata) -> Result<(), ConfigError> {
    let Some(objection) = objection(found) else { return Ok(()) };
    let shown = path.display();
    let location = ErrorLocation::File(path.to_path_buf(), None);
    Err(ConfigError::new(location, format!("unsafe permissions: {objection}")).with_hint(format!(
        "if it is yours, `chown \"$(id -u)\" '{shown}'` and `chmod go-w '{shown}'`; AGENTD_CONFIG_DIR sets another folder"
    )))
}

fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let refuse = |message: String| ConfigError::new(ErrorLocation::File(path.to_path_buf(), None), message);
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(refuse(format!("could not read the file: {error}"))),
    };
    if !meta.is_file() {
        return Err(refuse("not a regular file".to_owned()));
    }
    check_owner(path, &meta)?;
    if let Some(folder) = path.parent()
        && let Ok(found) = fs::metadata(folder)
    {
        check_owner(folder, &found)?;
    }
    if meta.len() > MAX_FILE_BYTES {
        return Err(refuse("larger than 1 MiB, the limit for configuration files".to_owned()));
    }
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Some(text)),
        Ok(Err(_)) => Err(refuse("not valid UTF-8".to_owned())),
        Err(error) => Err(refuse(format!("could not read the file: {error}"))),
    }
}

/// Origin of a value. Later variants override earlier ones, except that plugins have lower precedence than all files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Default value of agentd.
    BuiltIn,
    /// File of the host's administrator.
    System(PathBuf),
    /// File of the user.
    User(PathBuf),
    /// Plugin of the user, and the file in the plugin.
    Plugin(String, PathBuf),
    /// Variable of the daemon's environment.
    Variable(&'static str),
    /// Option on the command line.
    Flag(&'static str),
}

impl Origin {
    /// Returns the name or path of the origin for error messages.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::System(path) | Self::User(path) | Self::Plugin(_, path) => path.clone(),
            Self::BuiltIn => PathBuf::from("(built-in)"),
            Self::Variable(name) | Self::Flag(name) => PathBuf::from(name),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::System(path) | Self::User(path) => path.display().fmt(f),
            Self::Plugin(name, _) => write!(f, "plugin {name}"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Origin of each value, by key, such as `turns.max_steps` or `models.base.id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// Origins of all keys that have a value.
    pub keys: BTreeMap<String, Origin>,
}

impl Origins {
    /// Records that a layer sets `key`.
    pub(super) fn set(&mut self, key: impl Into<String>, origin: &Origin) {
        self.keys.insert(key.into(), origin.clone());
    }

    /// Returns the location to report in an error about the value of `key`.
    pub(super) fn location(&self, key: &str) -> ErrorLocation {
        match self.keys.get(key) {
            None | Some(Origin::BuiltIn) => ErrorLocation::Setting(key.to_owned()),
            Some(Origin::Flag(name)) => ErrorLocation::Flag((*name).to_owned()),
            Some(Origin::Variable(name)) => ErrorLocation::Variable((*name).to_owned()),
            Some(file) => ErrorLocation::File(file.path(), None),
        }
    }

    /// Returns true if a key with this prefix has a value.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.keys.range(prefix.to_owned()..).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }
}

/// Invalid setting in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub struct ConfigError {
    location: ErrorLocation,
    message: String,
    hint: Option<String>,
}

/// Location of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorLocation {
    /// A file. Line and column are counted from 1, and `None` if the error concerns the whole file.
    File(PathBuf, Option<(u64, u64)>),
    /// Variable in the environment.
    Variable(String),
    /// Option on the command line.
    Flag(String),
    /// A value merged from several layers.
    Setting(String),
}

impl ConfigError {
    /// Creates an error at a location.
    pub fn new(location: ErrorLocation, message: impl Into<String>) -> Self {
        Self { location, message: message.into(), hint: None }
    }

    /// Adds a suggested correction.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the correct spelling or value, if known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, Some((line, column))) => write!(f, "{}:{line}:{column}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "option {name}"),
            Self::Setting(key) => write!(f, "{key}"),
        }
    }
}

/// Returns the candidate closest to `word`, if one is close enough for a suggestion.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let tolerance = word.chars().count().div_ceil(3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// All inputs of a configuration.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The files, lowest layer first.
    pub files: Vec<SourceFile>,
    /// The plugins. Plugin agents and servers have lower precedence than all files.
    pub plugins: Arc<[InstalledPlugin]>,
    /// The environment of the daemon.
    pub env: Environment,
    /// Value of `--log-level`, if any.
    pub log_level: Option<String>,
}

impl Sources {
    pub(super) fn files_of(&self, subject: Subject) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.subject == subject)
    }

    /// Resolves a path in a file: `~/` is the user's home folder, and a relative path is relative to the file's folder.
    pub(super) fn path_in(&self, file: &SourceFile, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.env.path("HOME")) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => file.folder().join(Path::new(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_keys_are_suggested() {
        let keys = ["temperature", "base_url", "id", "idle"];
        let check = |word, expected| assert_eq!(nearest(word, keys), expected, "{word}");
        check("tempreture", Some("temperature"));
        check("Temperature", Some("temperature"));
        check("baseurl", Some("base_url"));
        check("idel", Some("idle"));
        check("colour", None);
        check("", None);
    }
}
