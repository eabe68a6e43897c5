//! Configurations of git that name nothing to run: as `git init`, `git clone` and `git switch --track` write them.

/// Keys of a new configuration, and of branches, whose values are plain.
const OF_CORE: &str =
    "autocrlf bare filemode ignorecase logallrefupdates precomposeunicode repositoryformatversion symlinks";
const OF_BRANCH: [&str; 3] = ["remote", "merge", "rebase"];
const OF_REMOTE: [&str; 2] = ["url", "fetch"];

/// Returns true if git runs nothing else by this configuration than by the one before: it differs in which branch follows
/// which, or is new and says only where the repository came from. Returns false if a
/// configuration cannot be read with certainty.
pub(super) fn runs_no_more(before: Option<&[u8]>, after: &[u8]) -> bool {
    let is_new = before.is_none();
    let rest = |content: &[u8]| {
        let mut entries = entries(content)?;
        entries.retain(|(section, line)| !is_plain(section, line, is_new));
        Some(entries)
    };
    match (rest(before.unwrap_or_default()), rest(after)) {
        (Some(before), Some(after)) => before == after,
        _ => false,
    }
}

/// Lines with their sections; none where a line may go on, or a section and a key share one.
fn entries(content: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(content).ok()?;
    let (mut section, mut entries) = (String::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.contains('\\') || line.contains('\r') {
            return None;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').filter(|name| !name.contains(']'))?.to_owned();
        } else {
            entries.push((section.clone(), line.to_owned()));
        }
    }
    Some(entries)
}

fn is_plain(section: &str, line: &str, is_new: bool) -> bool {
    let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else { return false };
    let is_word = |value: &str| value.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+*:@~%".contains(c));
    let of = |kind: &str| {
        let name = section.strip_prefix(kind)?.trim().strip_prefix('"')?.strip_suffix('"')?;
        (!name.contains('"')).then_some(())
    };
    if is_new && section == "user" && matches!(key, "name" | "email") {
        return true;
    }
    if !is_word(value) {
        return false;
    }
    if of("branch").is_some() {
        return OF_BRANCH.contains(&key) && (key == "merge" || !value.contains(['/', ':']));
    }
    // An address of the form `name::…` names a program.
    let of_remote =
        of("remote").is_some() && OF_REMOTE.contains(&key) && !value.contains("::") && !value.starts_with('-');
    let is_unsigned = section == "commit" && key == "gpgsign" && value == "false";
    is_new && (of_remote || is_unsigned || section == "core" && OF_CORE.split(' ').any(|plain| plain == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = git@x.org:a/b.git\n\
                       \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

    #[track_caller]
    fn check(before: Option<&str>, after: &str, expected: bool) {
        assert_eq!(runs_no_more(before.map(str::as_bytes), after.as_bytes()), expected, "{after}");
    }

    #[test]
    fn only_what_names_no_program_is_plain() {
        check(None, NEW, true);
        check(None, &format!("{NEW}[user]\n\tname = A B\n\temail = a@b.c\n[commit]\n\tgpgsign = false\n"), true);
        check(Some(NEW), &format!("{NEW}[branch \"topic\"]\n\tremote = .\n\tmerge = refs/heads/main\n"), true);
        check(Some(&format!("{NEW}[user]\n\tname = A\n")), &format!("[user]\n\tname = A\n{NEW}"), false);
        for more in [
            "[core]\n\tfsmonitor = ./x\n",
            "[core] fsmonitor = ./x\n",
            "[core]\n\tbare = false \\\n",
            "[branch \"x\"]\n\tremote = ext::sh\n",
            "[branch \"x\"]\n\tremote = ../evil\n",
            "[branch \"x\"]\n\tmergeoptions = -sx\n",
            "[include]\n\tpath = x\n",
            "[alias]\n\tst = !x\n",
            "[remote \"origin\"]\n\tuploadpack = ./x\n",
        ] {
            check(Some(NEW), &format!("{NEW}{more}"), false);
            check(None, &format!("{NEW}{more}"), false);
        }
        check(Some(NEW), &NEW.replace("a/b.git", "c/d.git"), false);
    }
}
