//! Classifies paths: system files, secrets, devices, and paths inside the session's folders.

use std::path::{Component, Path};

use super::tables::holds;
use crate::command::word::Word;

/// Location that a word points to, judged by the word alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// Below the folder in which the command runs, or in one of the session's folders.
    Inside,
    /// A folder for temporary files.
    Temporary,
    /// Anywhere else on the host.
    Outside,
    /// System files of the host.
    System,
}

const SYSTEM: [&str; 15] =
    ["etc", "boot", "dev", "sys", "proc", "bin", "sbin", "lib", "lib32", "lib64", "usr", "var", "root", "opt", "run"];

/// Names of files that contain secrets.
const SECRET_NAMES: &str = ".netrc _netrc .npmrc .pypirc .pgpass .git-credentials .htpasswd id_rsa id_dsa id_ecdsa \
    id_ed25519 credentials credentials.json shadow gshadow sudoers authorized_keys .vault-token secrets.yaml \
    secrets.yml secrets.json kubeconfig environ .bash_history";
/// Names of folders that contain secrets.
const SECRET_FOLDERS: [&str; 9] =
    [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", "gcloud", ".password-store"];
/// Endings of files that contain secrets.
const SECRET_ENDINGS: [&str; 8] = [".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".asc"];

/// Returns the location that a word points to.
pub(super) fn location(word: &Word, roots: &[&Path]) -> Location {
    text_location(&word.text, word.varies, roots)
}

pub(super) fn text_location(text: &str, varies: bool, roots: &[&Path]) -> Location {
    let path = Path::new(text);
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() {
        return if varies || has_parent || text.starts_with('~') { Location::Outside } else { Location::Inside };
    }
    if has_parent || varies {
        return Location::System;
    }
    if roots.iter().any(|root| path.starts_with(root)) {
        return Location::Inside;
    }
    let first = path.components().find_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    match first.as_deref() {
        None => Location::System,
        Some("tmp") => Location::Temporary,
        Some(name) if name.contains(['*', '?', '[']) || SYSTEM.contains(&name) => Location::System,
        Some(_) => Location::Outside,
    }
}

/// Returns true if the names on a path, in any case, mark a file as secret. Such a file is never indexed.
pub fn holds_secrets(path: &str) -> bool {
    is_secret(&path.to_ascii_lowercase())
}

/// Returns true if the text names something secret.
pub(super) fn is_secret(text: &str) -> bool {
    text.split(['/', '=', ':', '@', ',']).any(|name| {
        holds(SECRET_NAMES, name)
            || SECRET_FOLDERS.contains(&name)
            || name == ".env"
            || (name.starts_with(".env.") && !matches!(name, ".env.example" | ".env.sample" | ".env.template"))
            || (name.len() > 4 && SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending)))
    })
}

/// Returns true if a word names something secret, or could expand to such a name.
pub(super) fn may_be_secret(word: &Word) -> bool {
    let text = word.text.as_str();
    // A value may directly follow the option letter.
    let letters =
        text.strip_prefix('-').filter(|letters| letters.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    let value = letters.and_then(|letters| letters.find('.').map(|at| &letters[at..]));
    is_secret(text)
        || value.is_some_and(is_secret)
        || letters.is_some_and(|letters| is_secret(&letters[1..]))
        || word.braces && text.split(['{', '}', ',']).any(is_secret)
        || (word.globs || word.braces) && with_braces_as_globs(text).split(['/', '=']).any(may_match_secret)
}

/// Replaces each brace group with `*`, a glob that matches at least as much.
fn with_braces_as_globs(text: &str) -> String {
    let (mut replaced, mut depth) = (String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                replaced.push('*');
            }
            _ if depth > 0 => {}
            _ => replaced.push(c),
        }
    }
    replaced
}

/// Returns true if a glob may match the name of a secret. Globs that match every name are ignored.
fn may_match_secret(glob: &str) -> bool {
    if !glob.contains(['*', '?', '[']) || glob.trim_matches('*').is_empty() {
        return false;
    }
    let ending = glob.rsplit_once('.').map(|(_, ending)| ending).filter(|ending| !ending.trim_matches('*').is_empty());
    SECRET_NAMES.split_ascii_whitespace().chain(SECRET_FOLDERS).chain([".env"]).any(|name| glob_matches(glob, name))
        || ending.is_some_and(|ending| SECRET_ENDINGS.iter().any(|secret| glob_matches(ending, &secret[1..])))
}

/// Returns true if a glob matches a name. As in the shell, a leading dot is only matched by a dot.
fn glob_matches(glob: &str, name: &str) -> bool {
    fn from(glob: &[u8], name: &[u8], steps_left: &mut usize) -> bool {
        if *steps_left == 0 {
            return true;
        }
        *steps_left -= 1;
        match glob {
            [] => name.is_empty(),
            [b'*', rest @ ..] => (0..=name.len()).any(|at| from(rest, &name[at..], steps_left)),
            [b'?', rest @ ..] => !name.is_empty() && from(rest, &name[1..], steps_left),
            [b'[', rest @ ..] => {
                let end = rest.iter().skip(1).position(|byte| *byte == b']').map_or(rest.len(), |at| at + 2);
                !name.is_empty() && from(&rest[end.min(rest.len())..], &name[1..], steps_left)
            }
            [byte, rest @ ..] => name.first() == Some(byte) && from(rest, &name[1..], steps_left),
        }
    }
    // A class may match a leading dot; `*` and `?` do not.
    if name.starts_with('.') && !glob.starts_with(['.', '[']) {
        return false;
    }
    // A glob that takes more steps to match is assumed to hide something.
    from(glob.as_bytes(), name.as_bytes(), &mut 4_000)
}

/// Returns true if a word can expand to `wanted` or, if `as_prefix`, to a word that begins with it.
pub(crate) fn may_be(word: &Word, wanted: &str, as_prefix: bool) -> bool {
    let text = word.text.to_lowercase();
    if !word.is_static() {
        return true;
    }
    // Shell options decide what classes match. With `as_prefix`, only the start of the glob is known.
    if word.globs {
        return as_prefix || text.contains(['[', '(']) || glob_matches(&text, &wanted.to_lowercase());
    }
    word.text == wanted || as_prefix && word.text.starts_with(wanted)
}

/// Returns true if a path reads from a device or from another process.
pub(super) fn is_device(text: &str) -> bool {
    const HARMLESS: &str =
        "/dev/null /dev/zero /dev/random /dev/urandom /dev/stdin /dev/stdout /dev/stderr /dev/tty /dev/shm /dev/";
    if let Some(name) = text.strip_prefix("/dev/") {
        return !holds(HARMLESS, text) && !name.starts_with("fd/") && !name.starts_with("shm/");
    }
    let Some((process, rest)) = text.strip_prefix("/proc/").and_then(|rest| rest.split_once('/')) else { return false };
    let is_process =
        process.contains("self") || process.contains(['*', '?', '[', '$']) || process.parse::<u32>().is_ok();
    is_process && !matches!(rest, "status" | "stat" | "limits" | "io" | "statm" | "mountinfo" | "cgroup" | "mounts")
}

/// Returns true for a glob with a literal start and a plain extension. It can match neither options nor secrets.
pub(crate) fn is_narrow_glob(word: &Word) -> bool {
    let ending = word.text.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_plain_ending = !ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.globs && word.is_static() && is_plain_ending && !word.text.starts_with(['*', '?', '[', '-'])
}

/// Returns true if a word, including any value that an option contains, stays in the session's folders and away from
/// secrets.
pub(crate) fn is_confined(word: &Word, roots: &[&Path]) -> bool {
    let text = word.text.as_str();
    // A git range without an end, such as `main..`.
    let is_range = |part: &str| {
        let revision = part.trim_end_matches("..");
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_.^~-".contains(letter);
        !revision.is_empty() && !revision.starts_with('-') && revision.chars().all(is_part)
    };
    if may_be_secret(word)
        || is_device(text)
        || text.split(['/', '=']).any(|part| part.ends_with("..") && !part.ends_with("...") && !is_range(part))
    {
        return false;
    }
    if word.globs && text.split('/').any(|name| name.starts_with(['.', '[', '?']) && name.contains(['*', '?', '['])) {
        return false;
    }
    if !text.contains('/') {
        return !text.starts_with('~');
    }
    if text.starts_with('/') {
        return matches!(text_location(text, word.varies, roots), Location::Inside)
            || matches!(text, "/dev/null" | "/tmp");
    }
    // An option may contain a path directly after its letter.
    if text.starts_with('-') {
        return text.split_once('=').is_some_and(|(name, value)| {
            !name.contains('/')
                && matches!(text_location(value, false, roots), Location::Inside)
                && !value.starts_with('~')
        });
    }
    let bytes = text.as_bytes();
    let hidden = |at: usize| {
        !(bytes[at - 1].is_ascii_alphanumeric() || matches!(bytes[at - 1], b'_' | b'.' | b'-' | b'/' | b'*' | b']'))
    };
    !text.starts_with('~') && !(1..bytes.len()).any(|at| bytes[at] == b'/' && hidden(at))
}
