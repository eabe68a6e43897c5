//! The files of the index: one version a folder, made anew when it is damaged; and when its segments are merged: seldom while documents
//! come in, and once they do not, until few are left.

use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use tantivy::{
    Index, IndexReader, IndexSettings, ReloadPolicy,
    directory::{Directory, RamDirectory},
    merge_policy::{LogMergePolicy, MergePolicy, NoMergePolicy},
};

use super::{
    error::IndexError,
    files::ReadFolder,
    schema::{Fields, Gate, SCHEMA_VERSION, analyzers},
};
use crate::analyze::{ANALYSIS_VERSION, Dictionary};

/// The open files of the index.
pub(crate) struct Folder {
    path: PathBuf,
    /// Set if the files are in memory only.
    is_held: bool,
    pub(crate) fields: Fields,
    pub(crate) index: Index,
    pub(crate) reader: IndexReader,
    pub(crate) gate: Arc<Gate>,
}

impl Folder {
    /// Opens the index below `root`, or begins one. A damaged one is thrown away; then the reason is told.
    pub(crate) fn open(root: &Path, dictionary: &Arc<Dictionary>) -> Result<(Self, Option<String>), IndexError> {
        let path = root.join(format!("v{SCHEMA_VERSION}.{ANALYSIS_VERSION}"));
        private(root)?;
        remove_others(root, &path);
        private(&path)?;
        match guarded(|| Self::try_open(&path, dictionary)) {
            Ok(folder) => Ok((folder, None)),
            Err(error) if error.is_loss() || matches!(error, IndexError::Internal(_)) => {
                fs::remove_dir_all(&path)?;
                private(&path)?;
                Ok((guarded(|| Self::try_open(&path, dictionary))?, Some(error.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// An index that is in memory only.
    pub(crate) fn held(dictionary: &Arc<Dictionary>) -> Result<Self, IndexError> {
        Self::of(PathBuf::new(), true, RamDirectory::create(), dictionary)
    }

    fn try_open(path: &Path, dictionary: &Arc<Dictionary>) -> Result<Self, IndexError> {
        let directory = ReadFolder::open(path).map_err(tantivy::TantivyError::from)?;
        Self::of(path.to_owned(), false, directory, dictionary)
    }

    fn of(
        path: PathBuf,
        is_held: bool,
        directory: impl Directory,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Self, IndexError> {
        let fields = Fields::new();
        let gate = Arc::new(Gate::default());
        let index = Index::builder()
            .schema(fields.schema.clone())
            .settings(IndexSettings::default())
            .tokenizers(analyzers(dictionary, &gate))
            .open_or_create(directory)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { path, is_held, fields, index, reader, gate })
    }

    /// Returns whether its files are still where they were. They stay readable to whoever has them open, wherever they
    /// went.
    pub(crate) fn is_there(&self) -> bool {
        self.is_held || self.path.join("meta.json").exists()
    }

    /// The file that is there as long as the index is; none where it is in memory only.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        (!self.is_held).then(|| self.path.join("meta.json"))
    }

    /// Bytes of all its files.
    pub(crate) fn size(&self) -> u64 {
        if self.is_held { 0 } else { size(&self.path) }
    }

    /// Where what belongs to the index besides the library's own files is kept.
    pub(crate) fn path(&self) -> Option<&Path> {
        (!self.is_held).then_some(self.path.as_path())
    }
}

/// Bytes of all files in a folder.
pub(crate) fn size(path: &Path) -> u64 {
    let Ok(files) = fs::read_dir(path) else { return 0 };
    files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Does what touches files that may be damaged. The library says some damage by an error and some by a panic.
pub(crate) fn guarded<T>(act: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(IndexError::Lost("what it holds makes no sense".to_owned())))
}

/// Makes a folder that nobody else may look into: it holds the text of documents.
pub(crate) fn private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes the indexes of other versions. What cannot be removed is tried again at the next start.
fn remove_others(root: &Path, own: &Path) {
    let Ok(folders) = fs::read_dir(root) else { return };
    for folder in folders.flatten() {
        let is_version = folder.file_name().to_str().is_some_and(is_version);
        if is_version && folder.path() != own {
            let removed = fs::remove_dir_all(folder.path());
            tracing::info!(folder = %folder.path().display(), ok = removed.is_ok(), "removed a search index of another version");
        }
    }
}

fn is_version(name: &str) -> bool {
    name.strip_prefix('v')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Number of segments of about the same size that are merged at rest. A search looks for each word in each segment, which is the most
/// of its work.
const LEAST_SEGMENTS: usize = 3;
/// Chunks of a segment up to which its size does not matter.
const SMALL: u32 = 1000;
/// Sizes up to four times the smaller one are about the same, as a binary logarithm.
const SAME_SIZE: f64 = 2.0;
/// Chunks of a segment above which it is merged no more: a merge reads the texts of a segment, some 300 bytes a chunk, into memory.
const LARGE: usize = 100_000;
/// Share of the chunks of a segment that may be of removed documents before a rest writes all segments of its size anew: what is
/// removed stays in the files until then.
const REMOVED: f32 = 0.3;

/// Merges while documents come in, which takes time from them. An index in memory is gone before a merge is worth its time.
pub(super) fn at_work(in_memory: bool) -> Box<dyn MergePolicy> {
    if in_memory {
        return Box::new(NoMergePolicy);
    }
    let mut policy = LogMergePolicy::default();
    policy.set_max_docs_before_merge(LARGE);
    Box::new(policy)
}

/// Merges while nothing else is done: about two segments of each size are left.
pub(super) fn at_rest() -> Box<dyn MergePolicy> {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(LEAST_SEGMENTS);
    policy.set_min_layer_size(SMALL);
    policy.set_level_log_size(SAME_SIZE);
    policy.set_max_docs_before_merge(LARGE);
    policy.set_del_docs_ratio_before_merge(REMOVED);
    Box::new(policy)
}
