//! What a server offers, as it was last seen. It is kept on the disk, so that its tools show before it is started.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of tools of one server, and of bytes that describe them.
pub const MOST_TOOLS: usize = 512;
const MOST_BYTES: u64 = 8 << 20;

/// Everything that a server offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Catalogue {
    /// The [fingerprint](crate::ServerConfig::fingerprint) of the server that said so.
    pub fingerprint: String,
    /// Its name and version, as it says.
    pub says_it_is: String,
    /// Its own description, verbatim.
    pub about: String,
    /// Its tools, sorted by name.
    pub tools: Vec<KnownTool>,
    /// Set if it offers more than is taken.
    pub cut_off: bool,
    /// Definitions of tools that could not be used as they are, a sentence each.
    pub odd: Vec<String>,
    /// Set if it has resources that can be read.
    pub resources: bool,
    /// Set if it has prompts that can be asked for.
    pub prompts: bool,
    /// Version of the protocol that it speaks.
    pub protocol: String,
}

impl Catalogue {
    /// Returns whether an ability of the server that is no tool there is one for models, under this name.
    pub fn has_deed(&self, name: &str) -> bool {
        match name {
            "list_resources" | "read_resource" => self.resources,
            "list_prompts" | "get_prompt" => self.prompts,
            _ => false,
        }
    }
}

/// A tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownTool {
    /// Its name there.
    pub name: String,
    /// The server's description.
    pub description: String,
    /// The schema of its arguments.
    pub schema: Map<String, Value>,
}

/// Where catalogues are kept: a file for each server.
#[derive(Debug, Clone)]
pub struct CatalogueFolder(PathBuf);

impl CatalogueFolder {
    /// In this folder. It is made when the first is kept.
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Stored catalogues of these servers, by name. What cannot be read is as good as not there. Blocks.
    pub fn read<'a>(&self, servers: impl Iterator<Item = &'a str>) -> BTreeMap<String, Catalogue> {
        let read = |path: PathBuf| {
            let is_fit = fs::metadata(&path).ok()?.len() <= MOST_BYTES;
            is_fit.then(|| serde_json::from_slice(&fs::read(path).ok()?).ok()).flatten()
        };
        servers.filter_map(|server| Some((server.to_owned(), read(self.file(server))?))).collect()
    }

    /// Keeps what a server offers. Blocks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, server: &str, catalogue: &Catalogue) -> io::Result<()> {
        let text = serde_json::to_vec(catalogue)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other("it is too large"));
        }
        fs::create_dir_all(&self.0)?;
        let (file, part) = (self.file(server), self.0.join(format!(".{}.part", file_name(server))));
        fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?.write_all(&text)?;
        fs::rename(part, file)
    }

    fn file(&self, server: &str) -> PathBuf {
        self.0.join(file_name(server))
    }
}

/// Servers are named by people, who may write anything.
fn file_name(server: &str) -> String {
    format!("{}.json", crate::schema::file_name(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CatalogueFolder::new(folder.path().join("mcp"));
        let tool = KnownTool { name: "a".to_owned(), ..KnownTool::default() };
        let catalogue = Catalogue { fingerprint: "1".to_owned(), tools: vec![tool], ..Catalogue::default() };
        kept.keep("../odd name", &catalogue).unwrap();
        fs::write(folder.path().join("mcp/broken.json"), "{").unwrap();
        let large = Catalogue { says_it_is: "x".repeat(9 << 20), ..Catalogue::default() };
        assert!(kept.keep("large", &large).is_err(), "it could not be read again");
        let read = kept.read(["../odd name", "broken", "large", "never seen"].into_iter());
        assert_eq!(read, BTreeMap::from([("../odd name".to_owned(), catalogue)]));
        for (name, file) in [("a_b", "a_b.json"), ("a.b", "a_b.2e7336dc.json"), ("../a", "___a.61b4c98b.json")] {
            assert_eq!(file_name(name), file);
        }
    }
}
