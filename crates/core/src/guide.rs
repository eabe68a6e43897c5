//! Guides: what people wrote for models to know before they begin: `AGENTS.md` files and the catalogue of skills.

/// How much of them is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuideLimits {
    /// Whether `AGENTS.md` files and the names of `/memories` are.
    pub memory: bool,
    /// Whether skills are.
    pub skills: bool,
    /// Bytes of one `AGENTS.md` at the most.
    pub max_file_bytes: usize,
    /// Bytes of all of them at the most.
    pub max_total_bytes: usize,
}

impl GuideLimits {
    /// Whether there is nothing to read.
    #[must_use]
    pub fn reads_nothing(&self) -> bool {
        !self.memory && !self.skills
    }
}

impl Default for GuideLimits {
    fn default() -> Self {
        Self { memory: true, skills: true, max_file_bytes: 32 << 10, max_total_bytes: 64 << 10 }
    }
}

/// What there is for one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guides {
    /// `AGENTS.md` files: the person's own first, then from the outermost folder to the project itself.
    pub files: Vec<GuideFile>,
    /// The first names below `/memories`, sorted, folders with a slash at their end.
    pub memories: Vec<String>,
    /// How many more there are.
    pub more_memories: usize,
    /// The skills, sorted by name.
    pub skills: Vec<Skill>,
}

/// One `AGENTS.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideFile {
    /// Its path, as people are shown it.
    pub name: String,
    /// Whose it is.
    pub origin: GuideOrigin,
    /// What it says, up to [`GuideLimits::max_file_bytes`].
    pub text: String,
    /// Its whole size in bytes.
    pub bytes: u64,
    /// Says whether it is as it was: the same for the same text.
    pub digest: String,
}

/// Whose an `AGENTS.md` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuideOrigin {
    /// The person's own, beside their configuration.
    Person,
    /// Of a folder above the project.
    Above,
    /// The project's.
    Project,
}

/// A skill: a folder with a `SKILL.md`, of which models know the name and the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// The path of its `SKILL.md`, as people are shown it.
    pub path: String,
    /// Says whether that is as it was.
    pub digest: String,
}
