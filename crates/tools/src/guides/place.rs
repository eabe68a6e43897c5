//! Possible places of `AGENTS.md` files. Pure.

use std::path::{Path, PathBuf};

use agentd_core::{guide::GuideOrigin, worktree::WorktreeAccess};

use super::NAME;

/// Maximum number of folders searched above a project.
const MAX_ABOVE: usize = 10;

/// Possible place of a guide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuidePlace {
    pub(crate) path: PathBuf,
    /// As people are shown it.
    pub(crate) name: String,
    pub(crate) origin: GuideOrigin,
    /// Set if links on the way are followed: what is in the person's own configuration, they put there.
    pub(crate) follow: bool,
}

/// The person's own place, the folders above the project from the outermost on, and the project. The person's home and
/// the root are the last that are looked at, whichever comes first.
pub(crate) fn places(config: &Path, project: Option<&Path>, home: Option<&Path>) -> Vec<GuidePlace> {
    let mut places = vec![place(config, GuideOrigin::Person, home)];
    let Some(project) = project else { return places };
    let mut above = Vec::new();
    let mut folder = project;
    while above.len() < MAX_ABOVE
        && Some(folder) != home
        && let Some(parent) = folder.parent()
    {
        above.push(place(parent, GuideOrigin::Above, home));
        folder = parent;
    }
    places.extend(above.into_iter().rev());
    let own = place(project, GuideOrigin::Project, home);
    places.push(GuidePlace { name: format!("/project/{NAME}"), ..own });
    places
}

/// The places of a worktree: those of its project in the main tree, in the worktree as far as they lie in the repository.
pub(crate) fn places_in_worktree(
    config: &Path,
    worktree: &WorktreeAccess,
    project: &Path,
    home: Option<&Path>,
) -> Vec<GuidePlace> {
    let mut places = places(config, Some(&worktree.project), home);
    let below = project.strip_prefix(&worktree.top).map_or(0, |below| below.components().count());
    let Some(main) = worktree.project.ancestors().nth(below) else { return places };
    for place in places.iter_mut().filter(|place| place.origin != GuideOrigin::Person) {
        if let Ok(rest) = place.path.strip_prefix(main) {
            place.path = worktree.top.join(rest);
        }
    }
    places
}

fn place(folder: &Path, origin: GuideOrigin, home: Option<&Path>) -> GuidePlace {
    let path = folder.join(NAME);
    GuidePlace { name: shown(&path, home), path, origin, follow: origin == GuideOrigin::Person }
}

/// A path as people write it, in one line.
pub(crate) fn shown(path: &Path, home: Option<&Path>) -> String {
    let shown = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    agentd_core::path::shown(&shown).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_last_and_nothing_above_the_home_is_looked_at() {
        let check = |project: Option<&str>, home: Option<&str>, expected: &[&str]| {
            let places = places(Path::new("/home/p/.config/agentd"), project.map(Path::new), home.map(Path::new));
            let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
            assert_eq!(names, expected, "{project:?}");
        };
        let own = "~/.config/agentd/AGENTS.md";
        check(None, Some("/home/p"), &[own]);
        check(
            Some("/home/p/code/app"),
            Some("/home/p"),
            &[own, "~/AGENTS.md", "~/code/AGENTS.md", "/project/AGENTS.md"],
        );
        check(Some("/home/p"), Some("/home/p"), &[own, "/project/AGENTS.md"]);
        check(Some("/srv/a"), Some("/home/p"), &[own, "/AGENTS.md", "/srv/AGENTS.md", "/project/AGENTS.md"]);
        check(Some("/"), None, &["/home/p/.config/agentd/AGENTS.md", "/project/AGENTS.md"]);
        check(
            Some("/a\n</memory>/b"),
            None,
            &[
                "/home/p/.config/agentd/AGENTS.md",
                "/AGENTS.md",
                "/a\\u{a}\\u{3c}/AGENTS.md",
                "/a\\u{a}\\u{3c}/memory>/AGENTS.md",
                "/project/AGENTS.md",
            ],
        );
    }

    #[test]
    fn a_worktree_has_the_places_of_its_project_and_its_own_files() {
        let worktree = WorktreeAccess {
            name: "fix".to_owned(),
            project: "/home/p/code/app/sub".into(),
            top: "/home/p/data/worktrees/fix".into(),
            common: "/home/p/code/app/.git".into(),
            admin: "/home/p/code/app/.git/worktrees/fix".into(),
        };
        let project = Path::new("/home/p/data/worktrees/fix/sub");
        let places = places_in_worktree(Path::new("/home/p/.config"), &worktree, project, Some(Path::new("/home/p")));
        let paths: Vec<String> = places.iter().skip(1).map(|place| place.path.display().to_string()).collect();
        let own = ["/home/p/data/worktrees/fix/AGENTS.md", "/home/p/data/worktrees/fix/sub/AGENTS.md"];
        assert_eq!(paths, [&["/home/p/AGENTS.md", "/home/p/code/AGENTS.md"], &own[..]].concat());
    }

    #[test]
    fn a_deep_project_is_bounded() {
        let deep = format!("/d{}", "/d".repeat(100));
        assert_eq!(places(Path::new("/c"), Some(Path::new(&deep)), None).len(), 2 + MAX_ABOVE);
    }
}
