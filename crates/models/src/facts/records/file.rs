//! The file of records. It can be lost without harm: everything in it can be learnt anew.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{MAX_RECORDS, record::ModelRecord};

/// The bytes of a file that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Version of the file's form. A file of another one is not read.
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct WireFile<'a> {
    version: u64,
    #[serde(borrow)]
    models: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct WrittenFile<'a> {
    version: u64,
    models: &'a [ModelRecord],
}

/// Reads the records, each as far as it can be read.
pub(super) fn read(path: &Path, now: i64) -> Vec<ModelRecord> {
    let text = match bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("{} cannot be read, so servers are asked anew: {error}", path.display());
            return Vec::new();
        }
    };
    match serde_json::from_slice::<WireFile<'_>>(&text) {
        Ok(file) if file.version == VERSION => {
            let record = |text: &RawValue| serde_json::from_str::<ModelRecord>(text.get()).ok()?.sound(now);
            file.models.into_iter().take(MAX_RECORDS).filter_map(record).collect()
        }
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!("{} is damaged, so servers are asked anew: {error}", path.display());
            Vec::new()
        }
    }
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(path)?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(io::Error::other("it is no file of at most 1 MiB"));
    }
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Writes the records in place of those that are there: all or nothing, for their owner only.
pub(super) fn write(path: &Path, models: &[ModelRecord]) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&WrittenFile { version: VERSION, models })?;
    let draft = path.with_extension("draft");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&text)?;
    file.flush()?;
    drop(file);
    fs::rename(&draft, path)
}
