//! Guides: what people wrote for models to know before they begin: `AGENTS.md` files and skills.

use serde::{Deserialize, Serialize};

/// Limits on how much of them is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuideLimits {
    /// Set if `AGENTS.md` files and the names of `/memories` are.
    pub memory: bool,
    /// Set if skills are.
    pub skills: bool,
    /// Bytes of one `AGENTS.md` at the most.
    pub max_file_bytes: usize,
    /// Bytes of all of them at the most.
    pub max_total_bytes: usize,
}

impl GuideLimits {
    /// Returns whether there is nothing to read.
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
    /// `AGENTS.md` files: the person's own first, then from the outermost folder to the project itself; instructions of the
    /// project that the person has trusted come last.
    pub files: Vec<GuideFile>,
    /// The first names below `/memories`, sorted, folders with a slash at their end.
    pub memories: Vec<String>,
    /// Number of further ones.
    pub more_memories: usize,
    /// The skills, sorted by name.
    pub skills: Vec<Skill>,
}

/// One `AGENTS.md`, or `CLAUDE.md` in its place, or the instructions of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideFile {
    /// Its path, as people are shown it.
    pub name: String,
    /// Whose it is.
    pub origin: GuideOrigin,
    /// Its text, up to [`GuideLimits::max_file_bytes`].
    pub text: String,
    /// Size of the whole text in bytes; more than the text has where it was cut.
    pub bytes: u64,
    /// Says whether it is as it was: the same for the same text. Empty for a file that is gone.
    pub digest: String,
}

impl GuideFile {
    /// The mark of a file that was there before.
    pub fn gone(name: String) -> Self {
        Self { name, origin: GuideOrigin::Project, text: String::new(), bytes: 0, digest: String::new() }
    }

    /// Returns true if the file was there before and is gone.
    pub fn is_gone(&self) -> bool {
        self.digest.is_empty()
    }
}

/// Whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuideOrigin {
    /// The person's own, beside their configuration.
    Person,
    /// Of a folder above the project.
    Above,
    /// The project's.
    Project,
    /// Instructions of the project's that the person has trusted.
    Trusted,
}

/// A skill: a folder with a `SKILL.md`, of which models know the name and the description.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Its name, which is that of its folder below `skills/`.
    pub name: String,
    /// Its purpose, in a line.
    pub description: String,
    /// The path of its `SKILL.md`, as people are shown it.
    pub path: String,
    /// Says whether that is as it was.
    pub digest: String,
    /// Whose it is.
    pub origin: SkillOrigin,
    /// Set if models are told of it without its being mentioned.
    pub enabled: bool,
    /// Endings of files, without the dot, that it is for: a file of that kind that is handed over brings it.
    pub file_types: Vec<String>,
    /// The Python packages that its scripts need.
    pub packages: Vec<String>,
}

names! {
    /// Whose a skill is. The earlier ones come first where two have one name.
    #[derive(Default, PartialOrd, Ord)]
    pub enum SkillOrigin {
        /// The person's own, beside their configuration.
        #[default]
        Person = "person",
        /// It came with a plugin that the person has added.
        Plugin = "plugin",
        /// It came with agentd.
        Bundled = "bundled",
        /// It came with the project, by whoever wrote that.
        Project = "project",
    }
}

impl Skill {
    /// Returns whether it is for a file of that name.
    pub fn is_for(&self, file: &str) -> bool {
        let name = file.rsplit('/').next().unwrap_or(file);
        let Some((_, ending)) = name.rsplit_once('.') else { return false };
        self.file_types.iter().any(|kind| kind.eq_ignore_ascii_case(ending))
    }

    /// Returns whether the person has it by their own choice.
    pub fn is_trusted(&self) -> bool {
        self.origin != SkillOrigin::Project
    }
}

/// Form in which a skill is listed to models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillListing {
    /// Not at all: it is listed when mentioned, cannot be used, or finds no room.
    #[default]
    None,
    /// The name alone.
    Name,
    /// The name and the beginning of the description.
    Shortened,
    /// The name and the description.
    Whole,
}

/// All that is known of the folder of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillReport {
    /// The skill, as far as it can be told.
    #[serde(flatten)]
    pub skill: Skill,
    /// Its folder, as people are shown it.
    pub folder: String,
    /// The plugin that it came with; empty where none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plugin: String,
    /// Set if sessions can use it.
    pub usable: bool,
    /// Form in which models are shown it.
    #[serde(default)]
    pub shown: SkillListing,
    /// Under what terms it may be used, as it says.
    pub license: Option<String>,
    /// Tools that it says it uses. That allows none.
    pub allowed_tools: Vec<String>,
    /// Files in it.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Set if its packages are installed, where it needs any.
    pub installed: bool,
    /// Its problems and oddities.
    pub problems: Vec<SkillProblem>,
    /// Text of its `SKILL.md`; only where one skill is asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Something about a file of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillProblem {
    /// The file, below the skill's folder; empty where the whole is meant.
    pub file: String,
    /// The line, from 1; 0 where none is meant.
    pub line: u32,
    /// The problem.
    pub message: String,
    /// Set if the skill cannot be used because of it.
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

/// Characters of the name of a skill.
const MAX_SKILL_NAME: usize = 64;

/// Returns whether a name can be that of a skill: of a folder below `skills/`, and behind an `@`.
pub fn is_skill_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.len() <= MAX_SKILL_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('.')
        && name.chars().all(plain)
}

/// The names of skills that a text names by their folders, as in `skills/NAME/`, each once.
pub fn skills_named(text: &str) -> Vec<&str> {
    const FOLDER: &str = "skills/";
    let mut found = Vec::new();
    for (at, _) in text.match_indices(FOLDER) {
        let glued = text[..at].ends_with(|before: char| before.is_alphanumeric() || "-_.".contains(before));
        let rest = &text[at + FOLDER.len()..];
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
        let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        if !glued && is_skill_name(name) && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_skills_by_their_folders() {
        let check = |text: &str, expected: &[&str]| assert_eq!(skills_named(text), expected, "{text}");
        check("python skills/pdf/scripts/fill.py", &["pdf"]);
        check("cd ./skills/pdf && python x.py && cat skills/docx/SKILL.md skills/pdf/a", &["pdf", "docx"]);
        check("{\"path\":\"skills/a-b.c/SKILL.md\"}", &["a-b.c"]);
        check("ls skills/. skills/ skills/.. skills/.hidden /x/myskills/pdf", &[]);
        check("ls /w/1/skills/pdf", &["pdf"]);
    }

    #[test]
    fn names_are_those_of_plain_folders() {
        for name in ["pdf", "code-review", "a_b", "v1.2", "7zip"] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in ["", ".hidden", "..", "a/b", "a b", "a\u{1b}[31m", "é", "-a", "a.", &"n".repeat(65)] {
            assert!(!is_skill_name(name), "{name:?}");
        }
    }

    #[test]
    fn skills_are_for_files_by_their_endings() {
        let skill = Skill { file_types: vec!["docx".to_owned()], ..Skill::default() };
        for (file, is_for) in [("uploads/a.docx", true), ("A.DOCX", true), ("docx", false), ("a.docx.pdf", false)] {
            assert_eq!(skill.is_for(file), is_for, "{file}");
        }
    }
}
