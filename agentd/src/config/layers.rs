//! The files of the configuration, lowest layer first.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    error::{ConfigError, ErrorPlace},
    origin::Origin,
};
use crate::ownership;

/// No configuration that people write is longer; a device or a log named by mistake is not read to its end.
const LONGEST_FILE: u64 = 1 << 20;

/// Subject of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `agentd.yaml`
    Daemon,
    /// `models.yaml`
    Models,
    /// `tools.yaml`
    Tools,
    /// `agents.yaml`
    Agents,
    /// `skills.yaml`
    Skills,
    /// `web.yaml`
    Web,
    /// `languages.yaml`
    Languages,
    /// `mcp_servers.yaml`
    Mcp,
    /// `mcp_secrets.env`
    McpSecrets,
    /// `.env`
    Dotenv,
    /// `hitl_rules.yaml`
    HitlRules,
    /// `prompts/system.md`
    SystemPrompt,
    /// `prompts/subagent.md`
    SubagentPrompt,
    /// `prompts/compact.md`
    CompactPrompt,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Daemon,
        Self::Models,
        Self::Tools,
        Self::Agents,
        Self::Skills,
        Self::Web,
        Self::Languages,
        Self::Mcp,
        Self::McpSecrets,
        Self::Dotenv,
        Self::HitlRules,
        Self::SystemPrompt,
        Self::SubagentPrompt,
        Self::CompactPrompt,
    ];

    /// Its name in each configuration folder.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Daemon => "agentd.yaml",
            Self::Models => "models.yaml",
            Self::Tools => "tools.yaml",
            Self::Agents => "agents.yaml",
            Self::Skills => "skills.yaml",
            Self::Web => "web.yaml",
            Self::Languages => "languages.yaml",
            Self::Mcp => "mcp_servers.yaml",
            Self::McpSecrets => "mcp_secrets.env",
            Self::Dotenv => ".env",
            Self::HitlRules => "hitl_rules.yaml",
            Self::SystemPrompt => "prompts/system.md",
            Self::SubagentPrompt => "prompts/subagent.md",
            Self::CompactPrompt => "prompts/compact.md",
        }
    }

    fn built_in(self) -> &'static str {
        match self {
            Self::Daemon => include_str!("../../../config/agentd.yaml"),
            Self::Models => include_str!("../../../config/models.yaml"),
            Self::Tools => include_str!("../../../config/tools.yaml"),
            Self::Agents => include_str!("../../../config/agents.yaml"),
            Self::Skills => include_str!("../../../config/skills.yaml"),
            Self::Web => include_str!("../../../config/web.yaml"),
            Self::Languages => include_str!("../../../config/languages.yaml"),
            Self::Mcp => include_str!("../../../config/mcp_servers.yaml"),
            Self::McpSecrets => include_str!("../../../config/mcp_secrets.env"),
            Self::Dotenv => "",
            Self::HitlRules => include_str!("../../../config/hitl_rules.yaml"),
            Self::SystemPrompt => include_str!("../../../config/prompts/system.md"),
            Self::SubagentPrompt => include_str!("../../../config/prompts/subagent.md"),
            Self::CompactPrompt => include_str!("../../../config/prompts/compact.md"),
        }
    }
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
#[must_use]
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
#[must_use]
pub fn built_in() -> Vec<SourceFile> {
    Subject::ALL
        .map(|subject| SourceFile { subject, origin: Origin::BuiltIn, text: subject.built_in().to_owned() })
        .to_vec()
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
    for subject in Subject::ALL {
        let path = folder.join(subject.file_name());
        if let Some(text) = read(&path)? {
            files.push(SourceFile { subject, origin: layer(path), text });
        }
    }
    Ok(())
}

/// Foreign rules and servers would be obeyed as the person's own.
fn check_owner(path: &Path, found: &fs::Metadata) -> Result<(), ConfigError> {
    let Some(objection) = ownership::objection(found) else { return Ok(()) };
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
