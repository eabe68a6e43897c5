//! The files of the configuration, lowest layer first.
//!
//! Origin of each value of the configuration, and errors with their place, message and suggested correction.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_extensions::plugins::InstalledPlugin;

use crate::environment::{Environment, objection};

/// No configuration that people write is longer; a device or a log named by mistake is not read to its end.
const LONGEST_FILE: u64 = 1 << 20;

/// One row a file: its subject, its name in each configuration folder, and the one that came with agentd.
macro_rules! subjects {
    ($($(#[$doc:meta])* $subject:ident = $name:literal: $built_in:expr,)*) => {
        /// Subject of a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Subject { $($(#[$doc])* $subject,)* }

        impl Subject {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$subject),*];

            /// Its name in each configuration folder.
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
    /// `agentd.yaml`
    Daemon = "agentd.yaml": include_str!("../../../config/agentd.yaml"),
    /// `models.yaml`
    Models = "models.yaml": include_str!("../../../config/models.yaml"),
    /// `tools.yaml`
    Tools = "tools.yaml": include_str!("../../../config/tools.yaml"),
    /// `agents.yaml`
    Agents = "agents.yaml": include_str!("../../../config/agents.yaml"),
    /// `skills.yaml`
    Skills = "skills.yaml": include_str!("../../../config/skills.yaml"),
    /// `web.yaml`
    Web = "web.yaml": include_str!("../../../config/web.yaml"),
    /// `languages.yaml`
    Languages = "languages.yaml": include_str!("../../../config/languages.yaml"),
    /// `mcp_servers.yaml`
    Mcp = "mcp_servers.yaml": include_str!("../../../config/mcp_servers.yaml"),
    /// `mcp_secrets.env`
    McpSecrets = "mcp_secrets.env": include_str!("../../../config/mcp_secrets.env"),
    /// `.env`
    Dotenv = ".env": "",
    /// `hitl_rules.yaml`
    HitlRules = "hitl_rules.yaml": include_str!("../../../config/hitl_rules.yaml"),
    /// `prompts/system.md`
    SystemPrompt = "prompts/system.md": include_str!("../../../config/prompts/system.md"),
    /// `prompts/subagent.md`
    SubagentPrompt = "prompts/subagent.md": include_str!("../../../config/prompts/subagent.md"),
    /// `prompts/compact.md`
    CompactPrompt = "prompts/compact.md": include_str!("../../../config/prompts/compact.md"),
}

/// One file of one layer.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its subject.
    pub subject: Subject,
    /// The layer.
    pub origin: Origin,
    /// Its content.
    pub text: String,
}

impl SourceFile {
    /// The folder that paths in it are relative to.
    pub(super) fn folder(&self) -> PathBuf {
        self.origin.path().parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Files with keys that other users of the machine can read, in a sentence each.
pub fn exposed(files: &[PathBuf]) -> Vec<String> {
    let holds_keys = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            [Subject::Dotenv, Subject::McpSecrets].iter().any(|subject| subject.file_name() == name)
        })
    };
    let is_open = |path: &&PathBuf| fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0);
    let note = |path: &PathBuf| {
        let shown = path.display();
        format!("others may look into {shown}, which is for keys: chmod 600 '{shown}'")
    };
    files.iter().filter(holds_keys).filter(is_open).map(note).collect()
}

/// The files that came with agentd.
pub fn built_in() -> Vec<SourceFile> {
    let file =
        |&subject: &Subject| SourceFile { subject, origin: Origin::BuiltIn, text: subject.built_in().to_owned() };
    Subject::ALL.iter().map(file).collect()
}

/// All files of all layers, lowest first: what came with agentd, the machine's folders, the person's folder.
///
/// # Errors
/// An existing file that cannot be read, or is too long, or is no UTF-8; one that another user can write, or in a
/// folder that another user can write.
pub fn gather(system: &[PathBuf], user: &Path) -> Result<Vec<SourceFile>, ConfigError> {
    let mut files = built_in();
    for folder in system {
        add_folder(&mut files, folder, Origin::System)?;
    }
    add_folder(&mut files, user, Origin::User)?;
    Ok(files)
}

fn add_folder(files: &mut Vec<SourceFile>, folder: &Path, layer: fn(PathBuf) -> Origin) -> Result<(), ConfigError> {
    // Where it cannot be looked at, its files are missing too, or tell why they cannot be read.
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

/// Foreign rules and servers would be obeyed as the person's own.
fn check_owner(path: &Path, found: &fs::Metadata) -> Result<(), ConfigError> {
    let Some(objection) = objection(found) else { return Ok(()) };
    let shown = path.display();
    Err(ConfigError::new(ErrorPlace::File(path.to_path_buf(), None), format!("it is not obeyed: {objection}")).with_hint(format!(
        "if it is yours, `chown \"$(id -u)\" '{shown}'` and `chmod go-w '{shown}'`; AGENTD_CONFIG_DIR names another folder"
    )))
}

fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let refuse = |message: String| ConfigError::new(ErrorPlace::File(path.to_path_buf(), None), message);
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(refuse(format!("could not read it: {error}"))),
    };
    if !meta.is_file() {
        return Err(refuse("it is not a file".to_owned()));
    }
    check_owner(path, &meta)?;
    if let Some(folder) = path.parent()
        && let Ok(found) = fs::metadata(folder)
    {
        check_owner(folder, &found)?;
    }
    if meta.len() > LONGEST_FILE {
        return Err(refuse("it is longer than 1 MiB, so it cannot be meant as configuration".to_owned()));
    }
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Some(text)),
        Ok(Err(_)) => Err(refuse("it is not UTF-8 text".to_owned())),
        Err(error) => Err(refuse(format!("could not read it: {error}"))),
    }
}

/// Origin of a value. A later one overrides an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It came with agentd.
    BuiltIn,
    /// A file of the machine's administrator.
    System(PathBuf),
    /// A file of the person.
    User(PathBuf),
    /// A plugin of the person, and the file in it.
    Plugin(String, PathBuf),
    /// A variable of the daemon's environment.
    Variable(&'static str),
    /// An option of the command line.
    Flag(&'static str),
}

impl Origin {
    /// The name under which errors speak of it.
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

/// Origin of each value, by its key, such as `turns.max_steps` or `models.base.id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// All keys that have a value.
    pub keys: BTreeMap<String, Origin>,
}

impl Origins {
    /// A layer sets a value.
    pub(super) fn set(&mut self, key: impl Into<String>, origin: &Origin) {
        self.keys.insert(key.into(), origin.clone());
    }

    /// The place to name in an error about the value of a key.
    pub(super) fn place(&self, key: &str) -> ErrorPlace {
        match self.keys.get(key) {
            None | Some(Origin::BuiltIn) => ErrorPlace::Setting(key.to_owned()),
            Some(Origin::Flag(name)) => ErrorPlace::Flag((*name).to_owned()),
            Some(Origin::Variable(name)) => ErrorPlace::Variable((*name).to_owned()),
            Some(file) => ErrorPlace::File(file.path(), None),
        }
    }

    /// Returns whether any key that starts so has a value.
    pub(super) fn any_below(&self, prefix: &str) -> bool {
        self.keys.range(prefix.to_owned()..).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }
}

/// Something in the configuration that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigError {
    place: ErrorPlace,
    message: String,
    hint: Option<String>,
}

/// Place of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorPlace {
    /// In a file; line and column count from 1, and are absent where the whole file is meant.
    File(PathBuf, Option<(u64, u64)>),
    /// In an environment variable.
    Variable(String),
    /// On the command line.
    Flag(String),
    /// In what several layers add up to.
    Setting(String),
}

impl ConfigError {
    /// Creates an error at a place.
    pub fn new(place: ErrorPlace, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The right spelling or value, where that can be said.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ErrorPlace {
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

/// The candidate that was most likely meant, if any is close enough to be worth a guess.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let tolerance = word.chars().count().div_ceil(3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Everything that a configuration is made of.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The files, lowest layer first.
    pub files: Vec<SourceFile>,
    /// The plugins, whose agents and servers stand below those of all files.
    pub plugins: Arc<[InstalledPlugin]>,
    /// The environment.
    pub env: Environment,
    /// `--log-level`
    pub log_level: Option<String>,
}

impl Sources {
    pub(super) fn files_about(&self, subject: Subject) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.subject == subject)
    }

    /// A path that a file names: `~/` is the person's home, and a relative one belongs to the file's own folder.
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
    fn the_nearest_key_is_named_only_when_it_is_near() {
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
