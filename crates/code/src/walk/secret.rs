//! Files that hold secrets, by their names.

/// File names that hold secrets.
const NAMES: [&str; 24] = [
    ".bash_history",
    ".dockercfg",
    ".env",
    ".git-credentials",
    ".htpasswd",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    "_netrc",
    "authorized_keys",
    "credentials",
    "credentials.json",
    "gshadow",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "kubeconfig",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
    "shadow",
];
/// Folders that hold secrets.
const FOLDERS: [&str; 9] =
    [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", "gcloud", ".password-store"];
/// Endings of files that hold secrets.
const ENDINGS: [&str; 8] = [".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".asc"];

/// Returns whether a path, by its names, holds secrets. The predicate for callers without one of their own.
#[must_use]
pub fn is_secret(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let is_example = matches!(name, ".env.example" | ".env.sample" | ".env.template");
    NAMES.contains(&name)
        || name.starts_with(".env.") && !is_example
        || ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
        || folders.split('/').any(|folder| FOLDERS.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_secrets() {
        for path in [".env", "a/.env.local", "x/id_rsa", "server.PEM", ".aws/config", "deploy/secrets.yaml", "a.key"] {
            assert!(is_secret(path), "{path}");
        }
        for path in [".env.example", "src/key.rs", "src/credentials/mod.rs", "keys.py", "monkey", ".key"] {
            assert!(!is_secret(path), "{path}");
        }
    }
}
