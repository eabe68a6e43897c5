//! Last known tools and capabilities of a server, stored on disk so that the tools are available before the server is
//! started.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of tools of one server, and maximum size of its catalogue in bytes.
pub const MAX_TOOLS: usize = 512;
const MAX_BYTES: u64 = 8 << 20;

/// Tools and capabilities of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Catalogue {
    /// [Fingerprint](crate::ServerConfig::fingerprint) of the server.
    pub fingerprint: String,
    /// Name and version reported by the server.
    pub says_it_is: String,
    /// Server's own description, verbatim.
    pub about: String,
    /// Tools, sorted by name.
    pub tools: Vec<KnownTool>,
    /// True if the server offers more tools than the maximum.
    pub cut_off: bool,
    /// Problems with tool definitions that cannot be used unchanged, one sentence each.
    pub odd: Vec<String>,
    /// True if the server has resources.
    pub resources: bool,
    /// True if the server has prompts.
    pub prompts: bool,
    /// Protocol version of the server.
    pub protocol: String,
}

impl Catalogue {
    /// Returns true if the server has the resource or prompt operation that models call as the tool `name`.
    pub fn has_operation(&self, name: &str) -> bool {
        match name {
            "list_resources" | "read_resource" => self.resources,
            "list_prompts" | "get_prompt" => self.prompts,
            _ => false,
        }
    }
}

/// Tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownTool {
    /// Server's name for the tool.
    pub name: String,
    /// Server's description of the tool.
    pub description: String,
    /// JSON schema of the arguments.
    pub schema: Map<String, Value>,
}

/// Folder with one catalogue file per server.
#[derive(Debug, Clone)]
pub struct CatalogueFolder(PathBuf);

impl CatalogueFolder {
    /// Creates a store in `folder`. The folder is created when the first catalogue is stored.
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Reads the stored catalogues of these servers, by name. Unreadable files count as missing. Blocks.
    pub fn read<'a>(&self, servers: impl Iterator<Item = &'a str>) -> BTreeMap<String, Catalogue> {
        let read = |path: PathBuf| {
            let fits = fs::metadata(&path).ok()?.len() <= MAX_BYTES;
            fits.then(|| serde_json::from_slice(&fs::read(path).ok()?).ok()).flatten()
        };
        servers.filter_map(|server| Some((server.to_owned(), read(self.file(server))?))).collect()
    }

    /// Stores the catalogue of a server. Blocks.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn store(&self, server: &str, catalogue: &Catalogue) -> io::Result<()> {
        let text = serde_json::to_vec(catalogue)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("the catalogue is too large"));
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

/// Returns the file name for a server. The server name comes from the user and may contain any character.
fn file_name(server: &str) -> String {
    format!("{}.json", crate::schema::file_name(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_catalogue_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let catalogues = CatalogueFolder::new(folder.path().join("mcp"));
        let tool = KnownTool { name: "a".to_owned(), ..KnownTool::default() };
        let catalogue = Catalogue { fingerprint: "1".to_owned(), tools: vec![tool], ..Catalogue::default() };
        catalogues.store("../odd name", &catalogue).unwrap();
        fs::write(folder.path().join("mcp/broken.json"), "{").unwrap();
        let oversized_catalogue = Catalogue { says_it_is: "x".repeat(9 << 20), ..Catalogue::default() };
        assert!(
            catalogues.store("large", &oversized_catalogue).is_err(),
            "a catalogue above the read limit was stored"
        );
        let read = catalogues.read(["../odd name", "broken", "large", "never seen"].into_iter());
        assert_eq!(read, BTreeMap::from([("../odd name".to_owned(), catalogue)]));
        for (name, file) in [("a_b", "a_b.json"), ("a.b", "a_b.2e7336dc.json"), ("../a", "___a.61b4c98b.json")] {
            assert_eq!(file_name(name), file);
        }
    }
}
