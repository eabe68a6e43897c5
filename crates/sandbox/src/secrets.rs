//! Finds files that contain keys and passwords, by name or by content. Also lists the secret files in a project, at any
//! depth, to hide them from programs that run without approval.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use agentd_core::ports::SecretFile;

/// Folders that only contain secrets, in any location.
const FOLDERS: &[&str] = &[
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".mozilla",
    ".oci",
    ".password-store",
    ".ssh",
    ".terraform.d",
    ".thunderbird",
];

/// Files that only contain secrets, in any location.
const FILES: &[&str] = &[
    ".boto",
    ".dockercfg",
    ".env",
    ".envrc",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".mylogin.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".terraformrc",
    ".vault-token",
    ".yarnrc.yml",
    "_netrc",
    "access_tokens.db",
    "application_default_credentials.json",
    "auth.json",
    "cookies",
    "cookies.sqlite",
    "credentials",
    "credentials.db",
    "credentials.json",
    "credentials.tfrc.json",
    "credentials.toml",
    "key4.db",
    "kubeconfig",
    "login data",
    "logins.json",
    "rclone.conf",
    "secring.gpg",
];

/// Common file names that denote secrets in a particular program's folder.
const NAMES_IN_FOLDERS: &[(&str, &str)] = &[
    (".bundle", "config"),
    (".config", "bravesoftware"),
    (".config", "chromium"),
    (".config", "gcloud"),
    (".config", "google-chrome"),
    (".docker", "config.json"),
    (".gradle", "gradle.properties"),
    (".m2", "settings-security.xml"),
    (".m2", "settings.xml"),
    ("etc", "npmrc"),
    ("gh", "hosts.yml"),
    ("glab-cli", "config.yml"),
    ("share", "keyrings"),
    ("share", "kwalletd"),
    ("uv", "credentials"),
];

/// File extensions of key stores.
const KEY_STORE_EXTENSIONS: &[&str] = &[".jks", ".kdbx", ".keychain", ".keystore", ".p12", ".pfx", ".ppk"];

/// Settings that may contain a password among other values. They remain useful without the lines that contain a
/// password.
const REDUCED: &[(&str, &str)] =
    &[(".cargo", "config"), (".cargo", "config.toml"), ("cargo", "config.toml"), ("", ".gitconfig"), ("git", "config")];

/// Text that occurs in every private key file.
pub(super) const PRIVATE: &str = "PRIVATE KEY-----";

/// Words that occur in lines with a key.
const KEY_WORDS: &[&str] = &[
    "_auth",
    "access-key",
    "access_key",
    "accesskey",
    "api-key",
    "api_key",
    "apikey",
    "authorization",
    "bearer",
    "credential",
    "oauth",
    "passphrase",
    "passwd",
    "password",
    "private key-----",
    "private-key",
    "private_key",
    "secret",
    "smtppass",
    "token",
];

/// Prefixes that identify keys, if at least [`MIN_KEY_LENGTH`] characters follow.
const PREFIXES: &[&str] = &[
    "AKIA",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "npm_",
    "pypi-",
    "sk-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
];
const MIN_KEY_LENGTH: usize = 16;

/// Classification of a file or folder by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretName {
    /// The file always contains secrets.
    Secret,
    /// The file may be a key, depending on its content.
    Key,
    /// Any other file name.
    Other,
}

/// Classifies a file or folder by its name.
pub(super) fn classify(path: &Path, is_folder: bool) -> SecretName {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let (name, parent) = (part(path.file_name()), part(path.parent().and_then(Path::file_name)));
    let is_below = NAMES_IN_FOLDERS.contains(&(parent.as_str(), name.as_str()));
    if is_folder {
        return if is_below || FOLDERS.contains(&name.as_str()) { SecretName::Secret } else { SecretName::Other };
    }
    let is_history = name.starts_with('.') && name.ends_with("_history");
    let is_login = name.starts_with("id_") && !name.ends_with(".pub");
    if is_below
        || is_history
        || FILES.contains(&name.as_str())
        || KEY_STORE_EXTENSIONS.iter().any(|end| name.ends_with(end))
    {
        SecretName::Secret
    } else if is_login || name.ends_with(".pem") || name.ends_with(".key") {
        SecretName::Key
    } else {
        SecretName::Other
    }
}

/// Returns true for settings that remain useful without their keys.
pub(super) fn is_reducible(path: &Path) -> bool {
    let name = |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).unwrap_or_default().to_owned();
    let (file, parent) = (name(path.file_name()), name(path.parent().and_then(Path::file_name)));
    REDUCED.iter().any(|(folder, known)| file == *known && (folder.is_empty() || parent == *folder))
}

/// Returns true if the settings contain text that looks like a key.
pub(super) fn has_key(text: &str) -> bool {
    text.lines().any(is_secret)
}

/// Removes text that looks like a key from settings. Single lines are dropped; if a section header or a multi-line
/// value looks like a key, everything up to the next section is dropped.
pub(super) fn without_keys(text: &str) -> String {
    let mut remaining = String::new();
    let mut is_skipping = false;
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let mut line = first.to_owned();
        while line.ends_with('\\')
            && let Some(more) = lines.next()
        {
            line.push('\n');
            line.push_str(more);
        }
        if first.trim_start().starts_with('[') {
            is_skipping = false;
        }
        if is_secret(&line) {
            let head = first.trim_start().starts_with('[');
            is_skipping |= head || continues(&line);
        } else if !is_skipping {
            remaining.push_str(&line);
            remaining.push('\n');
        }
    }
    remaining
}

/// Returns true if the value in a line continues on the next line.
fn continues(line: &str) -> bool {
    let end = line.trim_end();
    ["\"\"\"", "'''"].iter().any(|quote| line.matches(quote).count() % 2 == 1)
        || end.ends_with(['[', '{', '(', ',', '='])
}

fn is_secret(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let assigns = || line.contains(['=', ':', '[']) || line.contains("-----");
    let is_named = KEY_WORDS.iter().any(|word| lower.contains(word)) && assigns();
    let is_long = |(at, prefix): (usize, &str)| {
        let rest = line.get(at + prefix.len()..).unwrap_or_default();
        rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || "_-".contains(*letter)).count()
            >= MIN_KEY_LENGTH
    };
    let is_key = || PREFIXES.iter().any(|prefix| line.match_indices(prefix).any(is_long));
    is_named || is_key() || has_user_info(line)
}

/// Returns true if a URL has user information before its host: a password, or a key in place of a user name.
fn has_user_info(line: &str) -> bool {
    line.match_indices("://").any(|(at, _)| {
        let rest = line.get(at + 3..).unwrap_or_default();
        let host = rest.split(['/', '"', '\'']).next();
        let user = host.and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
        user.is_some_and(|user| user != "git")
    })
}

/// Maximum number of searched entries per project. In a larger project, no program runs without approval.
const MAX_ENTRIES: usize = 1_000_000;
/// Folders that contain installed packages.
pub(super) const PACKAGES: [&str; 3] = ["__pycache__", "node_modules", "site-packages"];

/// Lists the secret files and folders in a folder, sorted by path. Files whose names satisfy `is_secret` are included.
/// Blocks on disk access.
///
/// # Errors
/// Returns the reason if the folder cannot be searched completely.
pub(crate) fn project_secrets(folder: &Path, is_secret: fn(&str) -> bool) -> Result<Vec<SecretFile>, String> {
    let (mut found, mut pending, mut budget) = (Vec::new(), vec![folder.to_path_buf()], MAX_ENTRIES);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            budget = budget.checked_sub(1).ok_or_else(|| {
                format!("its folder has more than {MAX_ENTRIES} files, too many to find and hide secrets")
            })?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_hidden = match classify(&path, is_folder) {
                SecretName::Secret => true,
                SecretName::Key if path.extension().is_none() => true,
                _ => !is_folder && (is_secret(&name) || path.ends_with(".git/config")),
            };
            if is_hidden {
                // A broken link has no content to hide.
                let inode = fs::metadata(&path).map(|found| (found.dev(), found.ino()));
                found.extend(inode.ok().map(|inode| SecretFile { path, inode }));
            } else if is_folder && !PACKAGES.contains(&name.as_str()) {
                pending.push(path);
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_files_are_recognised_by_name() {
        #[track_caller]
        fn check(path: &str, expected: SecretName) {
            let is_folder = path.ends_with('/');
            assert_eq!(classify(Path::new(path), is_folder), expected, "{path}");
        }
        for path in [
            "/h/.config/git/credentials",
            "/h/.local/share/uv/credentials/",
            "/h/.local/share/uv/credentials/credentials.toml",
            "/h/.netrc",
            "/h/x/.npmrc",
            "/h/.docker/config.json",
            "/h/.config/gh/hosts.yml",
            "/h/.kube/",
            "/h/.aws/",
            "/h/.config/gcloud/",
            "/h/.local/share/keyrings/",
            "/h/.bash_history",
            "/h/x/passwords.KDBX",
            "/h/.config/google-chrome/",
        ] {
            check(path, SecretName::Secret);
        }
        for path in ["/h/x/id_ed25519", "/h/id_work", "/h/x/server.pem", "/h/x/server.key"] {
            check(path, SecretName::Key);
        }
        for path in [
            "/h/.config/git/config",
            "/h/x/id_ed25519.pub",
            "/h/go/pkg/mod/grpc/credentials/",
            "/h/x/config.json",
            "/h/x/hosts.yml",
            "/h/.config/git/",
            "/h/x/history",
        ] {
            check(path, SecretName::Other);
        }
    }

    #[test]
    fn key_like_text_is_removed_from_settings() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!((without_keys(text).as_str(), has_key(text)), (expected, text != expected), "{text}");
        }
        check("[user]\n\tname = A B\n\temail = a@b.example\n", "[user]\n\tname = A B\n\temail = a@b.example\n");
        check("[user]\nname = A\n[github]\ntoken = abc\nuser = a\n", "[user]\nname = A\n[github]\nuser = a\n");
        check("[url \"https://u:p@h/\"]\n\tinsteadOf = x\n[core]\nbare = false\n", "[core]\nbare = false\n");
        check("[url \"ssh://git@h/\"]\n\tinsteadOf = x\n", "[url \"ssh://git@h/\"]\n\tinsteadOf = x\n");
        check("[http]\nproxy = http://u:p@h:80\nlowSpeedTime = 3\n", "[http]\nlowSpeedTime = 3\n");
        check("[credential]\nhelper = \"!f() { echo x; }; f\"\n[a]\nb = 1\n", "[a]\nb = 1\n");
        check("[a]\nx = \"!echo \\\n password=abc \\\n\"\ny = 1\n", "[a]\ny = 1\n");
        check("[http]\nextraHeader = X: ghp_0123456789abcdefghij\n", "[http]\n");
        check(
            "[registries.x]\nindex = \"i\"\ntoken = \"\"\"\nabc\n\"\"\"\n[net]\noffline = true\n",
            "[registries.x]\nindex = \"i\"\n[net]\noffline = true\n",
        );
        check("registries = { x = { token = \"t\" } }\n[build]\njobs = 2\n", "[build]\njobs = 2\n");
        check("[http]\nextraHeader = Authorization: Basic abc\n", "[http]\n");
    }
}
