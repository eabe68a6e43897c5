//! `mcp_secrets.env`: values that servers name by a variable, in a file that is its owner's alone.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crate::cmd::own_file;

/// The person's file, and what is to be added.
pub(super) struct Secrets {
    path: PathBuf,
    text: String,
    new: BTreeMap<String, String>,
}

impl Secrets {
    /// The name of the file in the person's folder.
    pub(super) const FILE: &'static str = "mcp_secrets.env";

    /// Reads the file of a folder.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let path = folder.join(Self::FILE);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        Ok(Self { path, text, new: BTreeMap::new() })
    }

    /// Keeps a value, under this name or one like it where it stands for another value. Returns the name.
    pub(super) fn keep(&mut self, name: &str, value: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let is_free = |name: &String| self.of(name).is_none_or(|other| other == value);
        let name = std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
        self.new.insert(name.clone(), value.to_owned());
        name
    }

    /// Writes those that a text names.
    pub(super) fn write(&self, named_in: &str) -> io::Result<()> {
        let mut text = self.text.clone();
        for (name, value) in &self.new {
            if self.of_text(name).is_some() || !named_in.contains(&format!("${{{name}}}")) {
                continue;
            }
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text += &format!("{name}={value}\n");
        }
        if text == self.text { Ok(()) } else { own_file::replace_private(&self.path, &text) }
    }

    fn of(&self, name: &str) -> Option<&str> {
        self.new.get(name).map(String::as_str).or_else(|| self.of_text(name))
    }

    fn of_text(&self, name: &str) -> Option<&str> {
        self.text.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn no_value_takes_the_place_of_another_and_only_its_owner_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(Secrets::FILE);
        std::fs::write(&path, "# mine\nINPUT_KEY=old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut secrets = Secrets::read(folder.path()).unwrap();
        assert_eq!(secrets.keep("INPUT_KEY", "new"), "INPUT_KEY_2");
        assert_eq!(secrets.keep("INPUT_KEY", "old"), "INPUT_KEY");
        assert_eq!(secrets.keep("INPUT_KEY", "third"), "INPUT_KEY_3");
        secrets.write("${INPUT_KEY} ${INPUT_KEY_2}").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\nINPUT_KEY=old\nINPUT_KEY_2=new\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
