//! A plugin in a repository of git: fetched with the person's own `git`, into a folder that goes with this.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agentd_core::ids::TurnId;

use crate::failure::Failure;

/// A copy of a repository, removed when this is dropped.
pub(super) struct Repository {
    around: PathBuf,
    folder: PathBuf,
}

impl Repository {
    /// Returns whether a source is an address and no path.
    pub(super) fn is_address(source: &str) -> bool {
        let schemes = ["https://", "http://", "ssh://", "git://", "file://", "git@"];
        schemes.iter().any(|scheme| source.starts_with(scheme))
    }

    /// Fetches the newest files, without their history. No hook runs, and no submodule is fetched.
    pub(super) fn fetch(address: &str) -> Result<Self, Failure> {
        let failed =
            |what: String| Failure::usage(what).hint("nothing was added; fetch it yourself, and add its folder");
        let around = std::env::temp_dir().join(format!("agentctl-plugin-{}", TurnId::generate()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&around)
            .map_err(|error| failed(format!("{} cannot be made: {error}", around.display())))?;
        let folder = around.join(folder_name(address));
        let fetched = Self { around, folder };
        let status = Command::new("git")
            .args([
                "-c",
                "core.hooksPath=/dev/null",
                "clone",
                "--quiet",
                "--depth",
                "1",
                "--no-recurse-submodules",
                "--",
            ])
            .arg(address)
            .arg(&fetched.folder)
            .env("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file")
            .stdout(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(fetched),
            Ok(status) => Err(failed(format!("git could not fetch {} ({status})", Self::shown(address)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failed("git is not installed".to_owned())),
            Err(error) => Err(failed(format!("git cannot be run: {error}"))),
        }
    }

    /// An address for lists, without a name and a password in it.
    pub(super) fn shown(address: &str) -> String {
        match address.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
            Some((scheme, (who, rest))) if !who.contains('/') => format!("{scheme}://{rest}"),
            _ => address.to_owned(),
        }
    }

    /// The folder of the files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // What is left takes room, and nobody sees it.
        let _ = fs::remove_dir_all(&self.around);
    }
}

/// The last part of an address, as git would call its folder: a plugin without a name goes by it.
fn folder_name(address: &str) -> String {
    let last = address.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let name: String = last
        .trim_end_matches(".git")
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter))
        .collect();
    if name.is_empty() { "plugin".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths_and_give_names() {
        for address in ["https://example.org/kit.git", "git@example.org:me/kit.git", "ssh://x/kit", "file:///tmp/kit/"]
        {
            assert!(Repository::is_address(address), "{address}");
            assert_eq!(folder_name(address), "kit");
        }
        assert_eq!(Repository::shown("https://me:hunter2@example.org/kit"), "https://example.org/kit");
        assert_eq!(Repository::shown("https://example.org/a@b"), "https://example.org/a@b");
        assert_eq!(Repository::shown("git@example.org:me/kit"), "git@example.org:me/kit");
        for path in ["./kit", "/tmp/kit.git", "kit", "ext::sh -c x", "--upload-pack=x"] {
            assert!(!Repository::is_address(path), "{path}");
        }
    }
}
