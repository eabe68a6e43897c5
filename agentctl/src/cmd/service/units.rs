//! The two units, and the file of the variables that the service is started with: keys of this shell, where somebody asks for that.
//! A copy of each unit is kept as it was written, so that what somebody changed by hand is noticed and left alone.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{cmd::own_file, daemon, failure::Failure};

/// Name of the unit that runs the daemon.
pub(super) const SERVICE: &str = "agentd.service";
/// Name of the unit of its socket.
pub(super) const SOCKET: &str = "agentd.socket";

/// The units as they are published. What depends on the machine is put in its place.
const SERVICE_TEXT: &str = include_str!("../../../../systemd/agentd.service");
const SOCKET_TEXT: &str = include_str!("../../../../systemd/agentd.socket");

const EXEC: &str = "ExecStart=%h/.local/bin/agentd\n";
const ENVIRONMENT_FILE: &str = "EnvironmentFile=-%E/agentd/environment\n";
const LISTEN: &str = "ListenStream=%t/agentd/agentd.sock\n";

/// A unit.
pub(super) struct UnitFile {
    pub(super) name: &'static str,
    /// As it is to be written; empty where it is only looked for.
    text: String,
}

/// State of a unit on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UnitState {
    /// It is not there.
    Absent,
    /// It is as it was written.
    Written,
    /// It was changed since.
    Changed,
    /// Not written by `service install`, as far as is known.
    Foreign,
}

impl UnitState {
    /// Description for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Absent => "not there",
            Self::Written => "unchanged",
            Self::Changed => "changed by hand",
            Self::Foreign => "not written by agentctl",
        }
    }
}

/// The folder of this user's units.
///
/// # Errors
/// When there is no home.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    let base = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base =
        base.or_else(|| Some(PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty())?).join(".config")));
    base.map(|base| base.join("systemd/user")).ok_or_else(|| Failure::usage("HOME is not set").hint("set HOME"))
}

/// The units for a daemon of that program, at that socket or at the usual one.
///
/// # Errors
/// When a path cannot stand in a unit.
pub(super) fn rendered(program: &Path, socket: Option<&Path>, environment: &Path) -> Result<[UnitFile; 2], Failure> {
    let exec = format!("ExecStart={}\n", quoted(&program_path(program)?));
    let file = format!("EnvironmentFile=-{}\n", escaped_path(environment)?);
    let mut service = SERVICE_TEXT.replace(EXEC, &format!("{}{exec}", folders()?)).replace(ENVIRONMENT_FILE, &file);
    let mut listening = SOCKET_TEXT.to_owned();
    if let Some(socket) = socket {
        listening = listening.replace(LISTEN, &format!("ListenStream={}\n", escaped_path(socket)?));
    }
    for text in [&mut service, &mut listening] {
        text.insert_str(
            0,
            "# Written by `agentctl service install`. Put your own settings in a drop-in: systemctl --user edit\n",
        );
    }
    Ok([UnitFile { name: SERVICE, text: service }, UnitFile { name: SOCKET, text: listening }])
}

/// Lines for the folders of this client, where its environment names them: the daemon shall have the same.
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

/// The path of a program, as systemd takes it: variables are not looked for in it, and some characters not allowed.
fn program_path(program: &Path) -> Result<String, Failure> {
    let path = escaped_path(program)?;
    if path.contains(['"', '\'', '\\']) {
        return Err(Failure::usage(format!("systemd runs no program at {}", program.display()))
            .hint("install the programs in a folder whose name has no quotes and no backslashes"));
    }
    Ok(path)
}

/// A path as a unit writes it: `%` begins a specifier.
fn escaped_path(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| {
        Failure::usage(format!("{} cannot stand in a unit", path.display()))
            .hint("a path in a unit has no control characters, and is UTF-8")
    })?;
    Ok(text.replace('%', "%%"))
}

/// A word in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl UnitFile {
    /// Both units, without their text.
    pub(super) fn all() -> [Self; 2] {
        [SERVICE, SOCKET].map(|name| Self { name, text: String::new() })
    }

    /// State of the unit in that folder.
    pub(super) fn state(&self, folder: &Path) -> UnitState {
        let now = match fs::read(folder.join(self.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return UnitState::Absent,
            // What cannot be read is not ours to replace.
            Err(_) => return UnitState::Foreign,
            Ok(now) => now,
        };
        match self.copy().and_then(|copy| fs::read(copy).ok()) {
            Some(written) if written == now => UnitState::Written,
            Some(_) => UnitState::Changed,
            None => UnitState::Foreign,
        }
    }

    /// Refuses to overwrite what was changed by hand, unless it says the same.
    pub(super) fn refuse_changed(&self, folder: &Path) -> Result<(), Failure> {
        let is_same = fs::read(folder.join(self.name)).is_ok_and(|now| now == self.text.as_bytes());
        if is_same { Ok(()) } else { self.refuse_foreign(folder) }
    }

    /// Refuses where somebody else's work would be lost.
    pub(super) fn refuse_foreign(&self, folder: &Path) -> Result<(), Failure> {
        let state = self.state(folder);
        if matches!(state, UnitState::Absent | UnitState::Written) {
            return Ok(());
        }
        let path = folder.join(self.name);
        Err(Failure::usage(format!("{} is {}", path.display(), state.words()))
            .hint("--force does it all the same; own settings are kept in a drop-in: systemctl --user edit agentd"))
    }

    /// Writes it. Says whether that changed anything.
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

    /// Removes it.
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

    /// The copy of it, as it was written.
    fn copy(&self) -> Option<PathBuf> {
        Some(daemon::data_dir().ok()?.join("service").join(self.name))
    }
}

/// Ends of the names of variables that the configuration of models reads.
const ENDS: [&str; 2] = ["_API_KEY", "_BASE_URL"];

/// Beginning of the names of variables that name a model.
const MODEL: &str = "MODEL_";

/// The file.
///
/// # Errors
/// When there is no home.
pub(super) fn environment_file() -> Result<PathBuf, Failure> {
    Ok(daemon::config_dir()?.join("environment"))
}

/// Puts the keys and addresses of this shell into the file, which is its owner's alone, and returns their names. All else in it
/// stays.
///
/// # Errors
/// When the file cannot be read or written.
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
    is_name && (name.starts_with(MODEL) || ENDS.iter().any(|end| name.ends_with(end)))
}

/// The text of the file with these variables: each once, behind the lines that stay.
fn with(before: &str, wanted: &BTreeMap<String, String>) -> String {
    let name_of = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned());
    let stays = |line: &&str| name_of(line).is_none_or(|name| !wanted.contains_key(&name));
    let mut text: String = before.lines().filter(stays).flat_map(|line| [line, "\n"]).collect();
    text.extend(wanted.iter().map(|(name, value)| format!("{name}={}\n", quoted_value(value))));
    text
}

/// A value in the quotes of systemd's environment files.
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
    fn paths_are_put_where_the_published_units_have_them() {
        let [service, socket] = rendered(
            Path::new("/opt/my $tools/100%/agentd"),
            Some(Path::new("/run/x y/a.sock")),
            Path::new("/home/me/.config/agentd/environment"),
        )
        .unwrap();
        assert!(service.text.contains("ExecStart=\"/opt/my $tools/100%%/agentd\"\n"), "{}", service.text);
        assert!(service.text.contains("EnvironmentFile=-/home/me/.config/agentd/environment\n"), "{}", service.text);
        assert!(socket.text.contains("ListenStream=/run/x y/a.sock\n"), "{}", socket.text);
        let [service, socket] = rendered(Path::new("/a/agentd"), None, Path::new("/e")).unwrap();
        assert!(service.text.contains("ExecStart=\"/a/agentd\"\n") && socket.text.contains(LISTEN));
        for path in ["/a\n/agentd", "/a\"b/agentd", "/a\\b/agentd"] {
            assert!(rendered(Path::new(path), None, Path::new("/e")).is_err(), "{path}");
        }
    }

    #[test]
    fn lines_of_others_stay_and_each_name_stands_once() {
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
