//! Real folders, through the jail.

use cap_std::fs::DirEntry;

use super::{Backend, Content, Entries, Entry, Kind, Listed, OpenFile};
use crate::{
    failure::Failure,
    jail::Jail,
    path::ToolPath,
    target::{self, Target},
};

impl Backend for Jail {
    fn is_folder(&self, path: &ToolPath) -> Result<bool, Failure> {
        Ok(self.open(path)?.1.is_dir())
    }

    fn open_file(&self, path: &ToolPath) -> Result<OpenFile, Failure> {
        let (file, metadata) = self.open_regular(path)?;
        Ok(OpenFile { content: Content::Disk(file), size: metadata.len(), modified: metadata.modified().ok() })
    }

    fn entries(&self, folder: &ToolPath) -> Result<Entries, Failure> {
        let opened = self.open_folder(folder)?;
        let entries = opened.entries().map_err(|error| Failure::io(&format!("list {folder}"), &error))?;
        Ok(Box::new(entries.map(|entry| entry.map_or(Listed::Unreadable, |entry| listed(&entry)))))
    }

    fn target(&self, path: &ToolPath, max_content: u64) -> Result<Target, Failure> {
        target::on_disk(self, path, max_content)
    }

    fn open_if_there(&self, path: &ToolPath) -> Option<Content> {
        self.open_linked(path).map(Content::Disk)
    }
}

/// The entry, if its name is UTF-8 and it can be looked at.
fn listed(entry: &DirEntry) -> Listed {
    let name = entry.file_name();
    if name.as_encoded_bytes().starts_with(b".") {
        return Listed::Hidden(name.to_string_lossy().into_owned());
    }
    let (Some(name), Ok(metadata)) = (name.to_str(), entry.metadata()) else { return Listed::Unreadable };
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    Listed::Entry(Entry {
        name: name.to_owned(),
        kind,
        size: if kind == Kind::File { metadata.len() } else { 0 },
        modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
    })
}
