//! The two unit files of the service, and its environment file, which can receive API keys from this shell. A copy of
//! each written unit is stored, to detect and preserve manual changes.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{cmd::own_file, daemon, failure::Failure};

/// Name of the unit that runs the daemon.
pub(super) const SERVICE: &str = "agentd.service";
/// Name of the socket unit.
pub(super) const SOCKET: &str = "agentd.socket";

/// Unit files from the repository, in which machine-specific parts are replaced.
const SERVICE_TEXT: &str = include_str!("../../../../systemd/agentd.service");
const SOCKET_TEXT: &str = include_str!("../../../../systemd/agentd.socket");

const EXEC_LINE: &str = "ExecStart=%h/.local/bin/agentd\n";
const ENVIRONMENT_FILE: &str = "EnvironmentFile=-%E/agentd/environment\n";
const LISTEN_LINE: &str = "ListenStream=%t/agentd/agentd.sock\n";

/// One unit file of the service.
pub(super) struct UnitFile {
    pub(super) name: &'static str,
    /// Text to write. Empty if the unit is only inspected.
    text: String,
}

/// State of a unit file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UnitState {
    /// The file does not exist.
    Absent,
    /// The file has not changed since it was written.
    Written,
    /// The file has changed since it was written.
    Changed,
    /// The file was not written by `service install`, or its copy is missing.
    Foreign,
}

impl UnitState {
    /// Returns a description of the state for people.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Absent => "missing",
            Self::Written => "unchanged",
            Self::Changed => "changed by hand",
            Self::Foreign => "not written by agentctl",
        }
    }
}

/// Returns the folder of this user's units.
///
/// # Errors
/// Fails if `HOME` is not set.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    let base = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base =
        base.or_else(|| Some(PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty())?).join(".config")));
    base.map(|base| base.join("systemd/user")).ok_or_else(|| Failure::usage("HOME is not set").hint("set HOME"))
}

/// Renders the units for this program and socket; `None` for the default socket.
///
/// # Errors
/// Fails if a path contains characters that unit files do not support.
pub(super) fn render(program: &Path, socket: Option<&Path>, environment: &Path) -> Result<[UnitFile; 2], Failure> {
    let exec = format!("ExecStart={}\n", quoted(&program_path(program)?));
    let file = format!("EnvironmentFile=-{}\n", escaped_path(environment)?);
    let mut service =
        SERVICE_TEXT.replace(EXEC_LINE, &format!("{}{exec}", folders()?)).replace(ENVIRONMENT_FILE, &file);
    let mut listening = SOCKET_TEXT.to_owned();
    if let Some(socket) = socket {
        listening = listening.replace(LISTEN_LINE, &format!("ListenStream={}\n", escaped_path(socket)?));
    }
    for text in [&mut service, &mut listening] {
        text.insert_str(
            0,
            "# Written by `agentctl service install`. Put your own settings in a drop-in: systemctl --user edit\n",
        );
    }
    Ok([UnitFile { name: SERVICE, text: service }, UnitFile { name: SOCKET, text: listening }])
}

/// Returns environment lines for the folders set in this client's environment, so that the daemon uses the same
/// folders.
fn folders() -> Result<String, Failure> {
    let named = |names: [&str; 2]| names.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
    let mut lines = String::new();
    for (name, xdg, folder) in [
        ("AGENTD_CONFIG_DIR", "XDG_CONFIG_HOME", daemon::config_dir()?),
        ("AGENTD_DATA_DIR", "XDG_DATA_HOME", daemon::data_dir()?),
    ] {
        if named([name, xdg]) {
            lines.push_str(&format!("Environment={}\n", quoted(&format!("{name}={}", escaped_path(&folder)?))));
        }
    }
    Ok(lines)
}

/// Returns the path of the program for `ExecStart`, where systemd does not expand variables and forbids some
/// characters.
fn program_path(program: &Path) -> Result<String, Failure> {
    let path = escaped_path(program)?;
    if path.contains(['"', '\'', '\\']) {
        return Err(Failure::usage(format!("systemd cannot run a program at {}", program.display()))
            .hint("install the programs in a folder whose name has no quotes and no backslashes"));
    }
    Ok(path)
}

/// Escapes a path for a unit file, where `%` starts a specifier.
fn escaped_path(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| {
        Failure::usage(format!("{} cannot be used in a unit", path.display()))
            .hint("a path in a unit must be UTF-8 without control characters")
    })?;
    Ok(text.replace('%', "%%"))
}

/// Quotes a word for a unit file.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl UnitFile {
    /// Returns both units, without their text.
    pub(super) fn all() -> [Self; 2] {
        [SERVICE, SOCKET].map(|name| Self { name, text: String::new() })
    }

    /// Returns the state of the unit in this folder.
    pub(super) fn state(&self, folder: &Path) -> UnitState {
        let now = match fs::read(folder.join(self.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return UnitState::Absent,
            // An unreadable file is treated as foreign, so that it is not replaced.
            Err(_) => return UnitState::Foreign,
            Ok(now) => now,
        };
        match self.copy().and_then(|copy| fs::read(copy).ok()) {
            Some(written) if written == now => UnitState::Written,
            Some(_) => UnitState::Changed,
            None => UnitState::Foreign,
        }
    }

    /// Fails if the file was changed by hand and its text differs from the new text.
    pub(super) fn refuse_changed(&self, folder: &Path) -> Result<(), Failure> {
        let is_same = fs::read(folder.join(self.name)).is_ok_and(|now| now == self.text.as_bytes());
        if is_same { Ok(()) } else { self.refuse_foreign(folder) }
    }

    /// Fails if replacing the file would discard manual changes.
    pub(super) fn refuse_foreign(&self, folder: &Path) -> Result<(), Failure> {
        let state = self.state(folder);
        if matches!(state, UnitState::Absent | UnitState::Written) {
            return Ok(());
        }
        let path = folder.join(self.name);
        Err(Failure::usage(format!("{} is {}", path.display(), state.description()))
            .hint("--force overrides this; put your own settings in a drop-in: systemctl --user edit agentd"))
    }

    /// Writes the unit and its copy. Returns true if the unit changed.
    pub(super) fn write(&self, folder: &Path) -> Result<bool, Failure> {
        let path = folder.join(self.name);
        let is_new = fs::read(&path).map_or(true, |now| now != self.text.as_bytes());
        for path in [is_new.then_some(path), self.copy()].into_iter().flatten() {
            let failed = Failure::of_file("write", &path);
            let hint = "the folder must be writable and its disk not full";
            own_file::replace(&path, &self.text).map_err(|error| failed(error).hint(hint))?;
        }
        Ok(is_new)
    }

    /// Removes the unit and its copy.
    pub(super) fn remove(&self, folder: &Path) -> Result<(), Failure> {
        for path in [Some(folder.join(self.name)), self.copy()].into_iter().flatten() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::usage(format!("could not remove {}: {error}", path.display())));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the path of the copy of the written unit.
    fn copy(&self) -> Option<PathBuf> {
        Some(daemon::data_dir().ok()?.join("service").join(self.name))
    }
}

/// Prefix of variables that configure models.
const MODEL_PREFIX: &str = "MODEL_";

/// Returns the path of the environment file.
///
/// # Errors
/// Fails if the configuration folder is unknown.
pub(super) fn environment_file() -> Result<PathBuf, Failure> {
    Ok(daemon::config_dir()?.join("environment"))
}

/// Adds keys and URLs from this shell to the environment file, makes the file private, and returns their names. Other
/// lines stay unchanged.
///
/// # Errors
/// Fails if the file cannot be read or written.
pub(super) fn write_keys() -> Result<Vec<String>, Failure> {
    let wanted: BTreeMap<String, String> =
        daemon::variables().filter(|(name, value)| is_wanted(name) && !value.trim().is_empty()).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let path = environment_file()?;
    let before = own_file::read(&path).map_err(Failure::of_file("read", &path))?;
    own_file::replace_private(&path, &with(&before, &wanted)).map_err(Failure::of_file("write", &path))?;
    Ok(wanted.into_keys().collect())
}

fn is_wanted(name: &str) -> bool {
    let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name && (name.starts_with(MODEL_PREFIX) || daemon::INHERITED_SUFFIXES.iter().any(|end| name.ends_with(end)))
}

/// Returns the text with these variables appended and their old lines removed.
fn with(before: &str, wanted: &BTreeMap<String, String>) -> String {
    let name_of = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned());
    let is_unchanged = |line: &&str| name_of(line).is_none_or(|name| !wanted.contains_key(&name));
    let mut text: String = before.lines().filter(is_unchanged).flat_map(|line| [line, "\n"]).collect();
    text.extend(wanted.iter().map(|(name, value)| format!("{name}={}\n", quoted_value(value))));
    text
}

/// Quotes a value for systemd's environment files.
fn quoted_value(value: &str) -> String {
    let escaped: String = value
        .chars()
        .flat_map(|letter| [Some('\\').filter(|_| "\"\\`$".contains(letter)), Some(letter)])
        .flatten()
        .collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_templates_are_filled_with_paths() {
        let [service, socket] = render(
            Path::new("/opt/my $tools/100%/agentd"),
            Some(Path::new("/run/x y/a.sock")),
            Path::new("/home/me/.config/agentd/environment"),
        )
        .unwrap();
        assert!(service.text.contains("ExecStart=\"/opt/my $tools/100%%/agentd\"\n"), "{}", service.text);
        assert!(service.text.contains("EnvironmentFile=-/home/me/.config/agentd/environment\n"), "{}", service.text);
        assert!(socket.text.contains("ListenStream=/run/x y/a.sock\n"), "{}", socket.text);
        let [service, socket] = render(Path::new("/a/agentd"), None, Path::new("/e")).unwrap();
        assert!(service.text.contains("ExecStart=\"/a/agentd\"\n") && socket.text.contains(LISTEN_LINE));
        for path in ["/a\n/agentd", "/a\"b/agentd", "/a\\b/agentd"] {
            assert!(render(Path::new(path), None, Path::new("/e")).is_err(), "{path}");
        }
    }

    #[test]
    fn environment_file_keeps_other_lines_and_has_no_duplicates() {
        let wanted = BTreeMap::from([
            ("A_API_KEY".to_owned(), "k\"e$y".to_owned()),
            ("MODEL_BASIC_ID".to_owned(), "m".to_owned()),
        ]);
        let before = "# mine\nA_API_KEY=old\nOTHER=1\n";
        let text = with(before, &wanted);
        assert_eq!(text, "# mine\nOTHER=1\nA_API_KEY=\"k\\\"e\\$y\"\nMODEL_BASIC_ID=\"m\"\n");
        assert_eq!(with(&text, &wanted), text);
    }
}
