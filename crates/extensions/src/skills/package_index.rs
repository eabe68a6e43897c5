//! Package index for skills: the user's own, from the environment and pip's configuration.
//!
//! Only a few settings are passed to installers. Others could make installers build packages, or fetch them from
//! elsewhere. Values may contain passwords. They are therefore passed as variables, which other users of the host
//! cannot see, and never appear in errors or logs.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

/// Maximum size of a configuration file, in bytes.
const MAX_FILE: u64 = 256 << 10;

/// Accepted settings, by pip's names. The variable for a setting has its name in upper case, prefixed with `PIP_`.
const KEYS: [&str; 7] = ["index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "timeout"];

/// Package index that the user configured.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct PackageIndex {
    values: BTreeMap<&'static str, String>,
}

impl PackageIndex {
    /// Reads the settings from variables, then from pip's configuration files in order of precedence.
    pub(super) fn read(variables: &BTreeMap<String, String>) -> Self {
        let mut values = BTreeMap::new();
        for key in KEYS {
            if let Some(value) = variables.get(&variable(key)).and_then(|value| valid_value(key, value)) {
                values.insert(key, value);
            }
        }
        for text in files(variables).into_iter().filter_map(|path| text_of(&path)) {
            for (key, value) in settings(&text) {
                if let Some(value) = valid_value(key, &value) {
                    values.entry(key).or_insert(value);
                }
            }
        }
        Self { values }
    }

    /// Returns the variables for pip, which then reads no configuration file.
    pub(super) fn for_pip(&self) -> BTreeMap<OsString, OsString> {
        let ours = [
            // With this value, pip also ignores all of its other configuration files.
            ("PIP_CONFIG_FILE", "/dev/null"),
            ("PIP_ONLY_BINARY", ":all:"),
            ("PIP_NO_INPUT", "1"),
            ("PIP_NO_CACHE_DIR", "1"),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("PYTHONNOUSERSITE", "1"),
        ];
        let theirs = self.values.iter().map(|(key, value)| (variable(key).into(), value.into()));
        ours.into_iter().map(|(name, value)| (name.into(), value.into())).chain(theirs).collect()
    }

    /// Returns the variables for uv. uv's own variables take precedence over pip's.
    pub(super) fn for_uv(&self, variables: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
        let ours =
            [("UV_NO_CONFIG", "1"), ("UV_NO_CACHE", "1"), ("UV_PYTHON_DOWNLOADS", "never"), ("UV_NO_BUILD", "1")];
        let mut environment: BTreeMap<OsString, OsString> =
            ours.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let own = ["UV_DEFAULT_INDEX", "UV_INDEX_URL"].into_iter().find_map(|name| variables.get(name));
        let own = own.and_then(|value| valid_value("index-url", value));
        if let Some(index) = own.as_ref().or_else(|| self.values.get("index-url")) {
            environment.insert("UV_DEFAULT_INDEX".into(), index.into());
        }
        for (name, key) in [
            ("UV_EXTRA_INDEX_URL", "extra-index-url"),
            ("UV_FIND_LINKS", "find-links"),
            ("UV_NO_INDEX", "no-index"),
            ("UV_INSECURE_HOST", "trusted-host"),
        ] {
            if let Some(value) = self.values.get(key) {
                let value = if key == "find-links" { value.replace(' ', ",") } else { value.clone() };
                environment.insert(name.into(), value.into());
            }
        }
        if let Some(cert) = self.values.get("cert") {
            environment.entry("SSL_CERT_FILE".into()).or_insert_with(|| cert.into());
        }
        environment
    }

    /// Returns the files that installers must be able to read besides the system's: folders of wheels, and a
    /// certificate.
    pub(super) fn readable_paths(&self) -> Vec<PathBuf> {
        let named = ["find-links", "cert"].into_iter().filter_map(|key| self.values.get(key));
        let paths = named.flat_map(|value| value.split_whitespace());
        paths
            .map(|word| PathBuf::from(word.strip_prefix("file://").unwrap_or(word)))
            .filter(|path| path.is_absolute())
            .collect()
    }
}

/// Returns true if these installer variables name an index, or disable the index.
pub(super) fn is_named(environment: &BTreeMap<OsString, OsString>) -> bool {
    ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_NO_INDEX", "UV_NO_INDEX"]
        .iter()
        .any(|name| environment.contains_key(OsStr::new(name)))
}

/// Removes user names and passwords from URLs in the text.
pub(super) fn without_passwords(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        safe.push_str(before);
        let host = after.find(|letter: char| letter == '/' || letter.is_whitespace()).unwrap_or(after.len());
        match after[..host].rfind('@') {
            Some(end) => {
                safe.push_str("***");
                rest = &after[end..];
            }
            None => rest = after,
        }
    }
    safe.push_str(rest);
    safe
}

fn variable(key: &str) -> String {
    format!("PIP_{}", key.to_ascii_uppercase().replace('-', "_"))
}

/// Returns pip's configuration files, in order of precedence.
fn files(variables: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let named = variables.get("PIP_CONFIG_FILE").map(PathBuf::from);
    // `/dev/null` disables all configuration files.
    if named.as_deref() == Some(Path::new("/dev/null")) {
        return Vec::new();
    }
    let home = variables.get("HOME").map(PathBuf::from);
    let settings = variables.get("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.or_else(|| home.as_ref().map(|home| home.join(".config")));
    let mac = home.as_ref().map(|home| home.join("Library/Application Support/pip/pip.conf"));
    let own = settings.map(|settings| settings.join("pip/pip.conf"));
    let old = home.map(|home| home.join(".pip/pip.conf"));
    let system = ["/etc/pip.conf", "/etc/xdg/pip/pip.conf"].map(PathBuf::from);
    let all = named.into_iter().chain(own).chain(mac).chain(old).chain(system);
    all.filter(|path| path.is_absolute()).collect()
}

fn text_of(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    (about.is_file() && about.len() <= MAX_FILE).then(|| fs::read_to_string(path).ok())?
}

/// Returns the index settings in a configuration file, `install` settings first.
fn settings(text: &str) -> Vec<(&'static str, String)> {
    let mut found: Vec<(bool, &'static str, String)> = Vec::new();
    let (mut section, mut last): (Option<bool>, Option<usize>) = (None, None);
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        // Indented lines continue a value.
        if line.starts_with([' ', '\t']) {
            if let Some(value) = last.and_then(|index| found.get_mut(index)) {
                value.2.push(' ');
                value.2.push_str(bare);
            }
            continue;
        }
        last = None;
        if let Some(name) = bare.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = match name.trim() {
                "install" => Some(true),
                "global" => Some(false),
                _ => None,
            };
        } else if let (Some(install), Some((key, value))) = (section, bare.split_once(['=', ':'])) {
            let key = key.trim().to_ascii_lowercase().replace('_', "-");
            if let Some(name) = KEYS.into_iter().find(|name| *name == key) {
                found.push((install, name, value.trim().to_owned()));
                last = Some(found.len() - 1);
            }
        }
    }
    found.sort_by_key(|(install, ..)| !install);
    found.into_iter().map(|(_, key, value)| (key, value)).collect()
}

/// Returns the value of a setting, if it is valid.
fn valid_value(key: &str, value: &str) -> Option<String> {
    let parts: Vec<&str> = value.split_whitespace().collect();
    let is_location = |word: &&str| {
        ["https://", "http://", "file:///", "/"].iter().any(|begin| word.starts_with(begin))
            && !word.chars().any(char::is_control)
    };
    let is_sound = match key {
        "index-url" => parts.len() == 1 && parts.iter().all(is_location),
        "cert" => parts.len() == 1 && value.starts_with('/'),
        "timeout" => parts.len() == 1 && value.trim().parse::<u32>().is_ok(),
        "no-index" => matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"),
        "trusted-host" => {
            let host =
                |word: &&str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter));
            parts.iter().all(host)
        }
        _ => parts.iter().all(is_location),
    };
    let joined = parts.join(" ");
    (is_sound && !joined.is_empty()).then_some(if key == "no-index" { "1".to_owned() } else { joined })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_index_settings_of_the_user_are_passed() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/pip");
        fs::create_dir_all(&folder).unwrap();
        let text = "[global]\nindex-url = https://me:secret@pypi.example/simple\nno-binary = :all:\ntrusted-host =\n  a.example\n  \
                    b.example\n[install]\nno-build-isolation = true\nextra_index_url: https://other.example/simple\n[other]\n\
                    cert = /x\n";
        fs::write(folder.join("pip.conf"), text).unwrap();
        let home = home.path().to_str().unwrap();
        let with = |more: &[(&str, &str)]| {
            let mut all = variables(&[("HOME", home), ("PIP_NO_BINARY", ":all:"), ("PIP_TARGET", "/x")]);
            all.extend(variables(more));
            let index = PackageIndex::read(&all);
            let environment = index.for_pip().into_iter();
            environment.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect::<Vec<_>>()
        };
        let environment = with(&[]);
        for part in [
            "PIP_CONFIG_FILE=/dev/null",
            "PIP_ONLY_BINARY=:all:",
            "PIP_INDEX_URL=https://me:secret@pypi.example/simple",
            "PIP_EXTRA_INDEX_URL=https://other.example/simple",
            "PIP_TRUSTED_HOST=a.example b.example",
        ] {
            assert!(environment.iter().any(|line| line == part), "{part} in {environment:?}");
        }
        assert!(
            !environment
                .iter()
                .any(|line| line.contains("NO_BINARY") || line.contains("TARGET") || line.ends_with("=/x"))
        );
        let own =
            with(&[("PIP_INDEX_URL", "https://mine.example/simple"), ("PIP_FIND_LINKS", "/opt/wheels file:///w")]);
        assert!(own.iter().any(|line| line == "PIP_INDEX_URL=https://mine.example/simple"), "{own:?}");
        let none = with(&[("PIP_CONFIG_FILE", "/dev/null")]);
        assert!(!none.iter().any(|line| line.starts_with("PIP_INDEX_URL")), "{none:?}");
        for odd in ["ftp://x", "-r x", "https://a b", "", "--pre"] {
            let odd = with(&[("PIP_CONFIG_FILE", "/dev/null"), ("PIP_INDEX_URL", odd)]);
            assert!(!odd.iter().any(|line| line.starts_with("PIP_INDEX_URL")), "{odd:?}");
        }
    }

    #[test]
    fn local_wheel_folders_are_readable() {
        let links = variables(&[("PIP_FIND_LINKS", "/opt/wheels file:///w https://x/y"), ("PIP_CERT", "/etc/c.pem")]);
        let links = PackageIndex::read(&links);
        assert_eq!(links.readable_paths(), ["/opt/wheels", "/w", "/etc/c.pem"].map(PathBuf::from));
    }

    #[test]
    fn passwords_in_index_urls_are_masked() {
        let check = |text: &str, safe: &str| assert_eq!(without_passwords(text), safe);
        check("at https://me:secret@x/simple and http://y/a@b", "at https://***@x/simple and http://y/a@b");
        check("https://a@b@c/ d", "https://***@c/ d");
        check("nothing", "nothing");
    }
}
