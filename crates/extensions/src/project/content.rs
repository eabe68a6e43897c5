//! Parsed content of a project's files. No side effects.

use std::{path::PathBuf, sync::Arc};

use agentd_core::{
    agent::{AgentCard, Agents},
    guide::{GuideFile, GuideOrigin},
    project::{PROJECT_FOLDER, ProjectCommand, ProjectProblem},
};

use super::{
    agents,
    folder::{COMMANDS, FolderFile, INSTRUCTIONS, ProjectFolder, SKILLS},
};
use crate::files::{
    agreed_folder::of_bytes,
    front::{self, SKILL_FILE},
};

/// Content of a trusted project for sessions, parsed from the bytes that were hashed.
#[derive(Debug)]
pub(crate) struct ProjectContent {
    /// Folder with the daemon's own copy of the files.
    pub(crate) folder: PathBuf,
    /// Instructions without control characters.
    pub(crate) instructions: Option<String>,
    pub(crate) agents: Arc<Agents>,
}

/// Parts of a folder, as shown to the user.
#[derive(Debug, Default)]
pub(crate) struct FolderParts {
    pub(crate) instructions: Option<String>,
    pub(crate) agents: Vec<AgentCard>,
    pub(crate) skills: Vec<String>,
    pub(crate) commands: Vec<ProjectCommand>,
    pub(crate) problems: Vec<ProjectProblem>,
}

impl FolderParts {
    pub(crate) fn of(folder: &ProjectFolder) -> Self {
        let (agents, mut problems) = agents::agents(folder);
        let instructions = folder.file(INSTRUCTIONS).map(|file| plain(file.text()));
        let skill = |path: &str| {
            let name = path.strip_prefix(SKILLS)?.strip_prefix('/')?.strip_suffix(SKILL_FILE)?.strip_suffix('/')?;
            (!name.contains('/')).then(|| name.to_owned())
        };
        for (file, name) in folder.files.iter().filter_map(|file| Some((file, skill(&file.path)?))) {
            problems.extend(skill_problem(file, &name));
        }
        let command =
            |(name, file): (&str, &FolderFile)| ProjectCommand { name: name.to_owned(), text: file.text().to_owned() };
        Self {
            instructions: instructions.filter(|text| !text.trim().is_empty()),
            agents,
            skills: folder.files.iter().filter_map(|file| skill(&file.path)).collect(),
            commands: folder.texts_in(COMMANDS).map(command).collect(),
            problems,
        }
    }
}

/// Returns the reason why the skill in a `SKILL.md` cannot be used, if any.
fn skill_problem(file: &FolderFile, entry: &str) -> Option<ProjectProblem> {
    let text = String::from_utf8_lossy(&file.content);
    let message = match front::front(&text[..text.floor_char_boundary(front::MAX_FRONT)]) {
        Ok(front) if front::name(&front, entry).is_some() => return None,
        Ok(_) => "neither its name nor the name of its folder is a valid skill name".to_owned(),
        Err(flaw) => format!("the skill is not used: line {}: {}", flaw.line, flaw.message),
    };
    Some(ProjectProblem { file: file.path.clone(), message, is_fatal: true })
}

impl ProjectContent {
    pub(crate) fn new(parts: FolderParts, folder: PathBuf) -> Self {
        let FolderParts { instructions, agents, .. } = parts;
        Self { folder, instructions, agents: Arc::new(Agents::new(agents)) }
    }

    /// Returns the instructions for models, at most `limit` bytes.
    pub(crate) fn guide(&self, limit: usize) -> Option<GuideFile> {
        let text = self.instructions.as_ref()?;
        Some(GuideFile {
            name: format!("/project/{PROJECT_FOLDER}/{INSTRUCTIONS}"),
            origin: GuideOrigin::Trusted,
            text: text[..text.floor_char_boundary(limit)].to_owned(),
            bytes: text.len() as u64,
            digest: of_bytes(text.as_bytes())[..32].to_owned(),
        })
    }
}

fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')).collect()
}
