//! Guides: instructions for models that users write in `AGENTS.md` files and skills.

use serde::{Deserialize, Serialize};

/// Limits for the guides of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuideLimits {
    /// True if `AGENTS.md` files and the file names in `/memories` are read.
    pub memory: bool,
    /// True if skills are read.
    pub skills: bool,
    /// Maximum size of one `AGENTS.md`, in bytes.
    pub max_file_bytes: usize,
    /// Maximum total size of all `AGENTS.md` files, in bytes.
    pub max_total_bytes: usize,
}

impl GuideLimits {
    /// Returns true if no guides are read.
    pub fn reads_nothing(&self) -> bool {
        !self.memory && !self.skills
    }
}

impl Default for GuideLimits {
    fn default() -> Self {
        Self { memory: true, skills: true, max_file_bytes: 32 << 10, max_total_bytes: 64 << 10 }
    }
}

/// Guides of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guides {
    /// `AGENTS.md` files: the user's own file, then those from the outermost folder to the project itself, then trusted
    /// instructions of the project.
    pub files: Vec<GuideFile>,
    /// Names of the first entries in `/memories`, sorted. Names of folders end with a slash.
    pub memories: Vec<String>,
    /// Number of entries in `/memories` that are not in `memories`.
    pub more_memories: usize,
    /// Skills, sorted by name.
    pub skills: Vec<Skill>,
}

/// `AGENTS.md` file, `CLAUDE.md` file in its place, or instructions of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideFile {
    /// Path in the form shown to users.
    pub name: String,
    /// Origin of the file.
    pub origin: GuideOrigin,
    /// Text, up to [`GuideLimits::max_file_bytes`].
    pub text: String,
    /// Size of the whole text in bytes. Larger than `text` if the text was truncated.
    pub bytes: u64,
    /// Digest of the text, used to detect changes. Empty for a removed file.
    pub digest: String,
}

impl GuideFile {
    /// Creates a marker for a removed file.
    pub fn gone(name: String) -> Self {
        Self { name, origin: GuideOrigin::Project, text: String::new(), bytes: 0, digest: String::new() }
    }

    /// Returns true if the file was removed.
    pub fn is_gone(&self) -> bool {
        self.digest.is_empty()
    }
}

/// Origin of a guide file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuideOrigin {
    /// The user's own file, in the configuration folder.
    Person,
    /// A folder above the project.
    Above,
    /// The project's own file.
    Project,
    /// Instructions of the project that the user has trusted.
    Trusted,
}

/// Skill: a folder with a `SKILL.md`. Models see its name and description.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Name of the skill, which is the name of its folder in `skills/`.
    pub name: String,
    /// Purpose of the skill in one line.
    pub description: String,
    /// Path of the `SKILL.md` file in the form shown to users.
    pub path: String,
    /// Digest of the `SKILL.md` file, used to detect changes.
    pub digest: String,
    /// Origin of the skill.
    pub origin: SkillOrigin,
    /// True if the skill is listed to models without being mentioned.
    pub enabled: bool,
    /// File extensions without the dot. The skill is activated if a file with one of these extensions is uploaded.
    pub file_types: Vec<String>,
    /// Python packages required by the skill's scripts.
    pub packages: Vec<String>,
}

names! {
    /// Origin of a skill. If several skills have the same name, the first origin in this order takes precedence.
    #[derive(Default, PartialOrd, Ord)]
    pub enum SkillOrigin {
        /// The user's own skill, in the configuration folder.
        #[default]
        Person = "person",
        /// Part of a plugin that the user added.
        Plugin = "plugin",
        /// Bundled with the daemon.
        Bundled = "bundled",
        /// Part of the project, written by the project's authors.
        Project = "project",
    }
}

impl Skill {
    /// Returns true if the extension of this file is one of the skill's file types.
    pub fn is_for(&self, file: &str) -> bool {
        let name = file.rsplit('/').next().unwrap_or(file);
        let Some((_, ending)) = name.rsplit_once('.') else { return false };
        self.file_types.iter().any(|kind| kind.eq_ignore_ascii_case(ending))
    }

    /// Returns true if the user has chosen the skill.
    pub fn is_trusted(&self) -> bool {
        self.origin != SkillOrigin::Project
    }
}

/// Form in which a skill is listed to models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillListing {
    /// Not listed, because the skill must be mentioned, cannot be used, or does not fit.
    #[default]
    None,
    /// Listed by name, without a description.
    Name,
    /// Listed with the beginning of the description.
    Shortened,
    /// Listed with the whole description.
    Whole,
}

/// Details of a skill for users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillReport {
    /// The skill, with all properties that could be parsed.
    #[serde(flatten)]
    pub skill: Skill,
    /// Path of the skill's folder in the form shown to users.
    pub folder: String,
    /// Plugin that contains the skill. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plugin: String,
    /// True if sessions can use the skill.
    pub usable: bool,
    /// Form in which the skill is listed to models.
    #[serde(default)]
    pub shown: SkillListing,
    /// License declared in `SKILL.md`.
    pub license: Option<String>,
    /// Tools that the skill declares. The declaration does not grant any rule.
    pub allowed_tools: Vec<String>,
    /// Number of files in the skill's folder.
    pub files: u64,
    /// Total size of the skill's files, in bytes.
    pub bytes: u64,
    /// True if the skill's packages are installed or the skill needs none.
    pub installed: bool,
    /// Errors and warnings about the skill.
    pub problems: Vec<SkillProblem>,
    /// Text of `SKILL.md`. Only present if a single skill was requested.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Problem in a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillProblem {
    /// File relative to the skill's folder. Empty if the problem concerns the whole skill.
    pub file: String,
    /// Line number, starting at 1. 0 if the problem does not concern a line.
    pub line: u32,
    /// Description, shown to users.
    pub message: String,
    /// True if the problem makes the skill unusable.
    pub is_fatal: bool,
}

impl std::fmt::Display for SkillProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.file.is_empty(), self.line) {
            (true, _) => f.write_str(&self.message),
            (false, 0) => write!(f, "{}: {}", self.file, self.message),
            (false, line) => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

/// Maximum length of a skill's name, in characters.
const MAX_SKILL_NAME: usize = 64;

/// Returns true if the name is valid for a skill, both as the name of a folder in `skills/` and after an `@`.
pub fn is_skill_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.len() <= MAX_SKILL_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('.')
        && name.chars().all(is_plain)
}

/// Returns the names of skills to which a text refers as `skills/NAME/`, without duplicates.
pub fn skills_named(text: &str) -> Vec<&str> {
    const FOLDER: &str = "skills/";
    let mut found = Vec::new();
    for (at, _) in text.match_indices(FOLDER) {
        let joins_previous_word =
            text[..at].ends_with(|before: char| before.is_alphanumeric() || "-_.".contains(before));
        let rest = &text[at + FOLDER.len()..];
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
        let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        if !joins_previous_word && is_skill_name(name) && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_are_recognised_by_folder_in_text() {
        let check = |text: &str, expected: &[&str]| assert_eq!(skills_named(text), expected, "{text}");
        check("python skills/pdf/scripts/fill.py", &["pdf"]);
        check("cd ./skills/pdf && python x.py && cat skills/docx/SKILL.md skills/pdf/a", &["pdf", "docx"]);
        check("{\"path\":\"skills/a-b.c/SKILL.md\"}", &["a-b.c"]);
        check("ls skills/. skills/ skills/.. skills/.hidden /x/myskills/pdf", &[]);
        check("ls /w/1/skills/pdf", &["pdf"]);
    }

    #[test]
    fn skill_names_must_be_plain_folder_names() {
        for name in ["pdf", "code-review", "a_b", "v1.2", "7zip"] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in ["", ".hidden", "..", "a/b", "a b", "a\u{1b}[31m", "é", "-a", "a.", &"n".repeat(65)] {
            assert!(!is_skill_name(name), "{name:?}");
        }
    }
}
