//! Files in the place of others, where there are namespaces: settings without the keys in them, and a front for git that
//! tells it what the environment may have been kept from telling.
//!
//! They are made in a folder in memory and mounted from there. Git obeys the configuration of whatever folder it is run in, but
//! for what its command line says, which stands above all else: so each git of the system is preceded by one that says it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use nix::mount::{MsFlags, mount};

use super::{
    super::places::FRESH,
    raw::{self, Below},
};
use crate::environment::GIT_CONFIG;

/// Name of the folder in which they are made, among temporary files. It cannot be changed from there.
const NAME: &str = ".agentd";
const OPTIONS: &str = "mode=0755,size=8m";

/// Places in which systems keep git. It starts the one in its own folder for parts of itself.
const GITS: [&str; 6] = [
    "/usr/bin/git",
    "/usr/local/bin/git",
    "/usr/lib/git-core/git",
    "/usr/libexec/git-core/git",
    "/usr/local/libexec/git-core/git",
    "/usr/local/lib/git-core/git",
];

/// Puts these texts in the place of files, and fronts before git. The file system is as the command will see it, and read-only.
///
/// # Errors
/// When a text could not be put where it belongs: then a key could be read.
pub(super) fn set(reduced: &[(PathBuf, String)]) -> io::Result<()> {
    let stage = Path::new(FRESH[0]).join(NAME);
    fs::create_dir(&stage)?;
    let none: Option<&str> = None;
    mount(Some("tmpfs"), &stage, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(OPTIONS))?;
    for (number, (path, text)) in reduced.iter().enumerate() {
        let made = stage.join(format!("settings{number}"));
        fs::write(&made, text)?;
        // What was covered by something hidden cannot be read either.
        if let Ok(place) = path.canonicalize() {
            put(&made, &place)?;
        }
    }
    let mut fronted = Vec::new();
    for (number, git) in GITS.iter().enumerate() {
        // One that is a script knows better where it is.
        let Some(git) = fs::canonicalize(git).ok().filter(|git| is_program(git) && !fronted.contains(git)) else {
            continue;
        };
        let program = stage.join(format!("git{number}"));
        fs::write(&program, "")?;
        mount(Some(&git), &program, none, MsFlags::MS_BIND, none)?;
        let front = stage.join(format!("front{number}"));
        fs::write(&front, text_of_front(&program))?;
        fs::set_permissions(&front, fs::Permissions::from_mode(0o755))?;
        put(&front, &git)?;
        fronted.push(git);
    }
    raw::make_read_only(&stage, Below::AsItIs)
}

/// Mounts a file over another one.
fn put(made: &Path, place: &Path) -> io::Result<()> {
    let none: Option<&str> = None;
    mount(Some(made), place, none, MsFlags::MS_BIND, none)?;
    raw::make_read_only(place, Below::AsItIs)
}

fn is_program(path: &Path) -> bool {
    let mut first = [0; 4];
    fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut first)).is_ok()
        && &first == b"\x7fELF"
}

/// Git is also started by the names of its parts, which are links to it.
fn text_of_front(program: &Path) -> String {
    let settings: String = GIT_CONFIG.iter().map(|(key, value)| format!(" -c {key}={value}")).collect();
    format!(
        "#!/bin/sh\ncase ${{0##*/}} in git-*) n=${{0##*/}}; set -- \"${{n#git-}}\" \"$@\";; esac\n\
         exec {} --no-optional-locks{settings} \"$@\"\n",
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_says_what_git_is_told_and_passes_on_the_rest() {
        let text = text_of_front(Path::new("/tmp/.agentd/git0"));
        assert!(text.contains("exec /tmp/.agentd/git0 --no-optional-locks -c safe.bareRepository=explicit"), "{text}");
        assert!(text.contains(" -c core.fsmonitor=false ") && text.ends_with(" \"$@\"\n"), "{text}");
    }
}
