//! Programs that the settings of a repository name: found, and turned off.

use std::collections::BTreeSet;

use agentd_core::error::WorkspaceError;
use agentd_workspace::failure::refused;

use super::{git::Git, place::GitPlace};

/// Settings with a free name in the middle that name a program, or have one be needed, and what stands in their place.
const FREE: [(&str, &[&str], &str); 7] = [
    ("filter.", &[".clean", ".smudge", ".process"], ""),
    ("filter.", &[REQUIRED], "false"),
    // A driver without a command is an error where it is needed: the usual way of merging takes its place.
    ("merge.", &[".driver"], "git merge-file --quiet %A %O %B"),
    ("diff.", &[".command", ".textconv"], ""),
    ("remote.", &[".uploadpack", ".receivepack", ".promisor", ".vcs"], ""),
    ("hook.", &[".command", ".event"], "false"),
    // They are no program, and would make another kind of merge.
    ("branch.", &[".mergeoptions"], ""),
];
const REQUIRED: &str = ".required";

impl Git {
    /// The same place, in which no program runs that the repository names.
    ///
    /// # Errors
    /// When its settings cannot be read, or may be others in the next call.
    pub(super) async fn own_programs(&self, place: GitPlace) -> Result<GitPlace, WorkspaceError> {
        let listed = self.succeeds(&place, &["config", "--list", "--name-only", "-z"], "read the settings").await?;
        let mut settings = BTreeSet::new();
        for name in listed.parts()? {
            let shown = String::from_utf8_lossy(name);
            // These depend on the branch and the folder, which may be others when git asks again.
            if shown.starts_with("includeif.") {
                return Err(unsafe_settings(&place, &shown));
            }
            let Some((name, value)) = replaced(&shown) else { continue };
            if shown.contains(char::REPLACEMENT_CHARACTER) {
                return Err(unsafe_settings(&place, &shown));
            }
            settings.insert((name, value));
        }
        Ok(GitPlace { settings: settings.into_iter().collect(), ..place })
    }
}

impl GitPlace {
    /// Filters that the repository names, without which it wants no file committed.
    pub(super) fn required_filters(&self) -> Vec<&str> {
        let names = self.settings.iter().map(|(name, _)| name);
        names.filter_map(|name| name.strip_prefix("filter.")?.strip_suffix(REQUIRED)).collect()
    }
}

/// The setting that turns off what one of this name would run.
fn replaced(name: &str) -> Option<(String, &'static str)> {
    let is_meant = |(start, ends, _): &&(&str, &[&str], &str)| {
        name.starts_with(start) && ends.iter().any(|end| name.ends_with(end)) && name.matches('.').count() > 1
    };
    let (start, _, value) = FREE.iter().find(is_meant)?;
    let name = match name.rsplit_once('.') {
        Some((hook, _)) if *start == "hook." => format!("{hook}.enabled"),
        _ => name.to_owned(),
    };
    Some((name, *value))
}

fn unsafe_settings(place: &GitPlace, name: &str) -> WorkspaceError {
    let message = format!("the settings of the repository {} have {name:?}", place.common.display());
    refused(message, "worktrees are only made where such settings cannot bring in programs: remove it from .git/config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_name_programs_are_known() {
        let check = |name: &str, expected: Option<(&str, &str)>| {
            assert_eq!(replaced(name).as_ref().map(|(name, value)| (name.as_str(), *value)), expected, "{name}");
        };
        check("filter.evil.smudge", Some(("filter.evil.smudge", "")));
        check("filter.a.b.required", Some(("filter.a.b.required", "false")));
        check("filter.clean", None);
        check("merge.tool", None);
        check("merge.x.driver", Some(("merge.x.driver", "git merge-file --quiet %A %O %B")));
        check("hook.lint.command", Some(("hook.lint.enabled", "false")));
        check("branch.main.mergeoptions", Some(("branch.main.mergeoptions", "")));
        check("branch.main.remote", None);
    }
}
