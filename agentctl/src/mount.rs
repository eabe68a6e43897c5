//! The folder of `-C DIR[:ro|:rw]`.

use std::{fs, path::PathBuf, str::FromStr};

use agentd_core::session::Mount;

use crate::failure::Failure;

/// A folder as it stands on the command line. Read-only unless it says otherwise, because a folder is quickly
/// named and slowly restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountArg {
    path: PathBuf,
    writable: bool,
}

impl FromStr for MountArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, writable) = match text.rsplit_once(':') {
            Some((path, "rw")) => (path, true),
            Some((path, "ro")) => (path, false),
            _ => (text, false),
        };
        if path.is_empty() {
            return Err("the folder has no name; give one, such as `-C .` or `-C src:rw`");
        }
        Ok(Self { path: path.into(), writable })
    }
}

impl MountArg {
    /// The folder with its absolute path.
    ///
    /// # Errors
    /// When there is no such folder, or it cannot be read.
    pub(crate) fn resolve(&self) -> Result<Mount, Failure> {
        let shown = self.path.display();
        let path = fs::canonicalize(&self.path).map_err(|error| {
            Failure::usage(format!("cannot open the folder {shown}: {error}"))
                .hint("name a folder that exists after -C")
        })?;
        if !path.is_dir() {
            return Err(Failure::usage(format!("{shown} is not a folder"))
                .hint("-C takes a folder; pass a single file with --file"));
        }
        if path.to_str().is_none() {
            return Err(Failure::usage(format!("the path of the folder {shown} is not UTF-8"))
                .hint("rename the folder, or mount one above it"));
        }
        Ok(Mount { path, writable: self.writable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_say_whether_it_is_writable() {
        #[track_caller]
        fn check(text: &str, path: &str, writable: bool) {
            assert_eq!(text.parse(), Ok(MountArg { path: path.into(), writable }));
        }
        check(".", ".", false);
        check("src:ro", "src", false);
        check("src:rw", "src", true);
        check("odd:name", "odd:name", false);
        check("odd:rw:ro", "odd:rw", false);
        assert!(":rw".parse::<MountArg>().is_err());
        assert!("".parse::<MountArg>().is_err());
    }

    #[test]
    fn only_folders_can_be_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let arg = |path: &std::path::Path| MountArg { path: path.into(), writable: true };
        let mount = arg(folder.path()).resolve().unwrap();
        assert!(mount.path.is_absolute() && mount.writable);
        assert_eq!(arg(&file).resolve().unwrap_err().exit, crate::exit::Exit::Usage);
        assert_eq!(arg(&folder.path().join("none")).resolve().unwrap_err().exit, crate::exit::Exit::Usage);
    }
}
