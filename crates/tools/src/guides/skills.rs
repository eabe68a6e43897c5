//! The catalogue of skills: `skills/NAME/SKILL.md` in the person's configuration folder. Only what the front matter says
//! of each.

use std::path::Path;

use agentd_core::guide::Skill;
use serde::Deserialize;

use super::{
    disk::{NotAtHand, Pace},
    known::{Entry, Known},
    place::shown,
};
use crate::text::first_chars;

/// Skills at the most.
const MAX_SKILLS: usize = 100;
/// The front matter is looked for in so many bytes.
const MAX_FRONT: usize = 16 << 10;
/// Characters of a name.
const MAX_NAME: usize = 64;
/// Characters of a description.
const MAX_DESCRIPTION: usize = 300;

/// What is known of a skill without reading on.
#[derive(Debug, Deserialize)]
struct FrontMatter {
    #[serde(default)]
    name: Option<String>,
    description: String,
}

/// Name and description of a skill; no name where the folder's is meant.
#[derive(Debug)]
pub(super) struct Front {
    name: Option<String>,
    description: String,
}

/// The skills below a folder, sorted by name. One that says nothing of itself is left out.
pub(super) fn catalogue(
    folder: &Path,
    home: Option<&Path>,
    known: &Known,
    pace: Pace,
) -> Result<Vec<Skill>, NotAtHand> {
    let mut skills = Vec::new();
    for Entry { name: entry, .. } in known.entries(folder, pace)?.iter() {
        let path = folder.join(entry).join("SKILL.md");
        let Some(read) = known.read(&path, true, MAX_FRONT, pace)? else { continue };
        let front = read.front.get_or_init(|| {
            front(&read.text).inspect_err(|why| tracing::warn!("the skill {} is left out: {why}", path.display()))
        });
        if let Ok(Front { name, description }) = front {
            let (description, path) = (description.clone(), shown(&path, home));
            let name = name.clone().unwrap_or_else(|| line(entry, MAX_NAME));
            skills.push(Skill { name, description, path, digest: read.digest.clone() });
        }
    }
    skills.sort_by(|left, right| left.name.cmp(&right.name));
    if skills.len() > MAX_SKILLS {
        tracing::warn!("only {MAX_SKILLS} of {} skills are told", skills.len());
        skills.truncate(MAX_SKILLS);
    }
    Ok(skills)
}

/// Name and description, each in a line.
fn front(text: &str) -> Result<Front, String> {
    let front = front_matter(text).ok_or("it does not begin with front matter between lines of `---`")?;
    let FrontMatter { name, description } = serde_saphyr::from_str(front).map_err(|error| error.to_string())?;
    let name = name.map(|name| line(&name, MAX_NAME));
    let description = line(&description, MAX_DESCRIPTION);
    if description.is_empty() || name.as_ref().is_some_and(String::is_empty) {
        return Err("its name or its description is empty".to_owned());
    }
    Ok(Front { name, description })
}

/// What stands between the first line and the next of `---`.
fn front_matter(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('\u{feff}').strip_prefix("---")?;
    let start = rest.find('\n')?;
    if !rest[..start].trim().is_empty() {
        return None;
    }
    let body = &rest[start + 1..];
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&body[..at]);
        }
        at += line.len();
    }
    None
}

fn line(text: &str, most: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match first_chars(&words, most) {
        (start, true) => format!("{}…", start.trim_end()),
        (whole, false) => whole.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_descriptions_come_from_the_front_matter() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = front(text).ok();
            let found = found.as_ref().map(|front| (front.name.as_deref().unwrap_or("folder"), &*front.description));
            assert_eq!(found, expected, "{text:?}");
        };
        check("---\nname: pdf\ndescription: Fill in forms\n---\n# How\n", Some(("pdf", "Fill in forms")));
        check("---\r\ndescription: Fill in forms\r\n---\r\n", Some(("folder", "Fill in forms")));
        check("---\nname: a\ndescription: >\n  two\n  lines\nlicense: MIT\n---\n", Some(("a", "two lines")));
        check("---\ndescription: \"---\"\n---\n", Some(("folder", "---")));
        check("# no front matter\n", None);
        check("---\nname: never closed\ndescription: x\n", None);
        check("---\nname: [broken\n---\n", None);
        check("---\nname: a\n---\n", None);
        check("---\nname: a\ndescription: ' '\n---\n", None);
        check("", None);
        check("---", None);
    }

    #[test]
    fn long_descriptions_are_cut() {
        let Front { description, .. } = front(&format!("---\ndescription: {}\n---\n", "ä ".repeat(1000))).unwrap();
        assert!(description.chars().count() <= MAX_DESCRIPTION + 1 && description.ends_with('…'), "{description}");
    }
}
