//! Sources of skills, and the skills of a session.

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use agentd_core::{
    guide::{Skill, SkillOrigin},
    project::PROJECT_FOLDER,
};
use agentd_workspace::{exact, text::first_chars};
use cap_std::fs::Dir;

use super::SkillSettings;
use crate::{
    files::{
        disk::{DiskAccess, Entry, GuideCache, NotCached, shown},
        front::{self, MAX_FRONT, MAX_LISTED_DESCRIPTION, SKILL_FILE},
        requirements,
        tree::Tree,
    },
    plugins::InstalledPlugin,
    project::SKILLS,
};

/// Maximum number of skills.
const MAX_SKILLS: usize = 200;
/// A project's skill folder that is used without trust.
const OF_PROJECTS: &str = ".claude/skills";

/// Folder of skills and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) folder: PathBuf,
    /// Original folder shown to the user, if `folder` is a copy.
    pub(crate) copy_of: Option<PathBuf>,
    pub(crate) origin: SkillOrigin,
    /// Entries of the folder that are skills; `None` for all.
    pub(crate) entries: Option<Vec<String>>,
    /// Plugin that provides the folder.
    pub(crate) plugin: Option<String>,
}

impl Source {
    /// Creates a source for an original folder.
    pub(crate) fn new(folder: PathBuf, origin: SkillOrigin) -> Self {
        Self { folder, copy_of: None, origin, entries: None, plugin: None }
    }

    /// Returns the skill folders of a plugin.
    fn of_plugin(plugin: &InstalledPlugin) -> impl Iterator<Item = Self> {
        let name = plugin.report.name.clone();
        plugin.skills.iter().map(move |(folder, entries)| Self {
            entries: Some(entries.clone()),
            plugin: Some(name.clone()),
            ..Self::new(folder.clone(), SkillOrigin::Plugin)
        })
    }

    /// Returns a path in this folder as shown to the user.
    pub(crate) fn display_path(&self, path: &Path) -> PathBuf {
        match (&self.copy_of, path.strip_prefix(&self.folder)) {
            (Some(original), Ok(below)) => original.join(below),
            _ => path.to_path_buf(),
        }
    }

    /// Returns true if links are followed. Skills of projects and plugins must not lead elsewhere.
    pub(crate) fn follows(&self) -> bool {
        !matches!(self.origin, SkillOrigin::Project | SkillOrigin::Plugin)
    }
}

/// Folder that may be a skill.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) source: Source,
    pub(crate) folder: PathBuf,
    /// Name of the folder.
    pub(crate) entry: String,
    /// False for a skill that is not offered, because its files prevent its use.
    pub(crate) is_sound: bool,
}

impl Candidate {
    /// Opens the folder, without following links for skills of projects and plugins.
    pub(super) fn open(&self) -> io::Result<Dir> {
        if self.source.follows() {
            Dir::open_ambient_dir(&self.folder, cap_std::ambient_authority())
        } else {
            Ok(Dir::from_std_file(exact::open_folder(&self.folder)?.into()))
        }
    }
}

/// Returns the skill sources for a session. If two skills have one name, the earlier source wins, so skills from
/// projects and plugins never replace the user's own. `trusted` is the daemon's copy of the skills in `.agentd/`, if
/// the user trusts the project.
pub(crate) fn sources(
    person: &Path,
    plugins: &[InstalledPlugin],
    bundled: Option<&Path>,
    project: Option<&Path>,
    trusted: Option<PathBuf>,
) -> Vec<Source> {
    let own = Source::new(person.to_path_buf(), SkillOrigin::Person);
    let bundled = bundled.map(|folder| Source::new(folder.to_path_buf(), SkillOrigin::Bundled));
    let trusted = project.zip(trusted).map(|(project, copy)| Source {
        copy_of: Some(project.join(PROJECT_FOLDER).join(SKILLS)),
        ..Source::new(copy, SkillOrigin::Project)
    });
    let of_project = project.map(|project| Source::new(project.join(OF_PROJECTS), SkillOrigin::Project));
    let of_plugins = plugins.iter().filter(|plugin| plugin.is_used()).flat_map(Source::of_plugin);
    std::iter::once(own).chain(of_plugins).chain(bundled).chain(trusted).chain(of_project).collect()
}

/// Returns the folders that may be skills, ordered by source and name.
pub(crate) fn candidates(
    sources: &[Source],
    cache: &GuideCache,
    access: DiskAccess,
) -> Result<Vec<Candidate>, NotCached> {
    let mut found = Vec::new();
    for source in sources {
        let is_meant = |name: &String| source.entries.as_ref().is_none_or(|entries| entries.contains(name));
        for Entry { name, .. } in cache.entries(&source.folder, access)?.iter().filter(|entry| is_meant(&entry.name)) {
            let folder = source.folder.join(name);
            found.push(Candidate { source: source.clone(), folder, entry: name.clone(), is_sound: true });
        }
    }
    Ok(found)
}

/// Skill and its folder.
pub(crate) type FoundSkill = (Skill, Candidate);

/// Returns the skills from one source, with their folders. Folders without valid front matter are skipped.
pub(crate) fn skills(
    source: &Source,
    settings: &SkillSettings,
    home: Option<&Path>,
    cache: &GuideCache,
    access: DiskAccess,
) -> Result<Vec<FoundSkill>, NotCached> {
    let mut skills = Vec::new();
    for mut candidate in candidates(std::slice::from_ref(source), cache, access)? {
        let skill = skill(&mut candidate, settings, home, cache, access)?;
        skills.extend(skill.map(|skill| (skill, candidate)));
    }
    Ok(skills)
}

/// Selects a session's skills from those of its sources, sorted by name. If several skills have one name, the first
/// usable one is selected.
pub(crate) fn select(mut found: Vec<FoundSkill>) -> Vec<FoundSkill> {
    let mut skills: Vec<FoundSkill> = Vec::new();
    found.sort_by_key(|(_, candidate)| !candidate.is_sound);
    for (skill, candidate) in found {
        if !skills.iter().any(|(other, _)| other.name.eq_ignore_ascii_case(&skill.name)) {
            skills.push((skill, candidate));
        }
    }
    if skills.len() > MAX_SKILLS {
        tracing::warn!("only {MAX_SKILLS} of {} skills are used", skills.len());
        skills.truncate(MAX_SKILLS);
    }
    skills.sort_by(|(left, _), (right, _)| left.name.cmp(&right.name));
    skills
}

fn skill(
    candidate: &mut Candidate,
    settings: &SkillSettings,
    home: Option<&Path>,
    cache: &GuideCache,
    access: DiskAccess,
) -> Result<Option<Skill>, NotCached> {
    let path = candidate.folder.join(SKILL_FILE);
    let follows = candidate.source.follows();
    let Some(read) = cache.read(&path, follows, MAX_FRONT, access)? else { return Ok(None) };
    let front = read.front.get_or_init(|| {
        front::front(&read.text).inspect_err(|flaw| {
            tracing::warn!("the skill {}:{} is skipped: {}", path.display(), flaw.line, flaw.message);
        })
    });
    let Ok(front) = front else { return Ok(None) };
    let Some(name) = front::name(front, &candidate.entry) else {
        tracing::warn!(
            "the skill {} is skipped: neither its name nor the name of its folder is a valid skill name",
            path.display()
        );
        return Ok(None);
    };
    let listed =
        cache.read(&candidate.folder.join(requirements::PACKAGES_FILE), follows, requirements::MAX_FILE, access)?;
    // If the list is invalid, the skill's packages are not installed. The check of the skill reports the problems.
    let packages = requirements::packages(front, listed.as_ref().map(|read| read.text.as_str())).unwrap_or_default();
    candidate.is_sound = is_sound(candidate, &read.is_sound, access)?;
    let setting = settings.get(&name);
    let enabled = setting.and_then(|setting| setting.enabled).unwrap_or_else(|| is_listed(candidate.source.origin));
    let description =
        setting.and_then(|setting| setting.description.clone()).unwrap_or_else(|| front.description.clone());
    Ok(Some(Skill {
        description: line(&description),
        path: shown(&candidate.source.display_path(&path), home),
        digest: read.digest.clone(),
        origin: candidate.source.origin,
        enabled: enabled && candidate.is_sound,
        file_types: setting.map(|setting| setting.file_types.clone()).unwrap_or_default(),
        packages,
        name,
    }))
}

/// Returns true if a skill's files do not prevent its use. The result is cached as long as the `SKILL.md` is unchanged.
/// An unusable skill is scanned each time, until it is repaired.
fn is_sound(candidate: &Candidate, checked: &OnceLock<()>, access: DiskAccess) -> Result<bool, NotCached> {
    if candidate.source.origin == SkillOrigin::Bundled || checked.get().is_some() {
        return Ok(true);
    }
    if access == DiskAccess::CachedOnly {
        return Err(NotCached);
    }
    let tree = candidate.open().and_then(|folder| Tree::of(&folder));
    let is_sound = tree.is_ok_and(|tree| tree.problems.is_empty());
    if is_sound {
        checked.get_or_init(|| ());
    }
    Ok(is_sound)
}

/// Returns true if skills of this origin are by default listed for models even if they are not mentioned. Bundled
/// skills are loaded when they are named, or for an uploaded file of their type.
pub(crate) fn is_listed(origin: SkillOrigin) -> bool {
    origin != SkillOrigin::Bundled
}

fn line(text: &str) -> String {
    let single_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match first_chars(&single_line, MAX_LISTED_DESCRIPTION) {
        (start, true) => format!("{}…", start.trim_end()),
        (whole, false) => whole.to_owned(),
    }
}
