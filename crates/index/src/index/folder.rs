//! The files of the index: one version a folder, made anew when it is damaged; and when its segments are merged: seldom while documents
//! come in, and once they do not, until few are left.
//!
//! They are read by calls, and never as memory. The library would map them into memory. A mapped file that is cut short under whoever reads
//! it ends the whole process (`SIGBUS`), and no error is told; a read that comes up short is an error, after which the index is begun anew.
//! The terms are kept by the library itself, and the rest by the system.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::{DirBuilderExt as _, FileExt as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use tantivy::{
    HasLen, Index, IndexReader, IndexSettings, ReloadPolicy,
    directory::{
        Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, OwnedBytes, RamDirectory, WatchCallback,
        WatchHandle, WritePtr,
        error::{DeleteError, LockError, OpenReadError, OpenWriteError},
    },
    merge_policy::{LogMergePolicy, MergePolicy, NoMergePolicy},
};

use super::{
    IndexConfig, IndexError,
    schema::{Fields, Gate, SCHEMA_VERSION, analyzers},
};
use crate::analyze::{ANALYSIS_VERSION, Dictionary};

/// The open files of the index.
pub(crate) struct Folder {
    /// Where what belongs to the index besides the library's own files is kept; none where it is in memory only.
    pub(crate) path: Option<PathBuf>,
    pub(crate) fields: Fields,
    pub(crate) index: Index,
    pub(crate) reader: IndexReader,
    pub(crate) gate: Arc<Gate>,
}

impl Folder {
    /// Opens the index below its folder, or begins one, which may be in memory only. A damaged one is thrown away; then the reason is told.
    pub(crate) fn open(
        config: &IndexConfig,
        dictionary: &Arc<Dictionary>,
    ) -> Result<(Self, Option<String>), IndexError> {
        if config.in_memory {
            return Ok((Self::of(None, RamDirectory::create(), dictionary)?, None));
        }
        let root = &config.folder;
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

    fn try_open(path: &Path, dictionary: &Arc<Dictionary>) -> Result<Self, IndexError> {
        let inner = MmapDirectory::open(path).map_err(tantivy::TantivyError::from)?;
        Self::of(Some(path.to_owned()), ReadFolder { path: path.to_owned(), inner }, dictionary)
    }

    fn of(path: Option<PathBuf>, directory: impl Directory, dictionary: &Arc<Dictionary>) -> Result<Self, IndexError> {
        let fields = Fields::new();
        let gate = Arc::new(Gate::default());
        let index = Index::builder()
            .schema(fields.schema.clone())
            .settings(IndexSettings::default())
            .tokenizers(analyzers(dictionary, &gate))
            .open_or_create(directory)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { path, fields, index, reader, gate })
    }
}

/// Returns whether the files of an index are still in this folder, or in memory only. They stay readable to whoever has them open, wherever
/// they went. Blocks.
pub(crate) fn is_there(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path.join("meta.json").exists())
}

/// Bytes of all files of an index. Blocks.
pub(crate) fn size(path: Option<&Path>) -> u64 {
    let Some(Ok(files)) = path.map(fs::read_dir) else { return 0 };
    files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Does what touches files that may be damaged. The library says some damage by an error and some by a panic.
pub(crate) fn guarded<T>(act: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(IndexError::Lost("what it holds makes no sense".to_owned())))
}

/// Makes a folder that nobody else may look into: it holds the text of documents.
pub(crate) fn private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the indexes of other versions. What cannot be removed is tried again at the next start.
fn remove_others(root: &Path, own: &Path) {
    for folder in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = folder.file_name();
        let version = name.to_str().and_then(|name| name.strip_prefix('v')).unwrap_or_default();
        let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_version && folder.path() != own {
            let removed = fs::remove_dir_all(folder.path());
            tracing::info!(folder = %folder.path().display(), ok = removed.is_ok(), "removed a search index of another version");
        }
    }
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

/// The library's own folder in everything but how files are read.
#[derive(Debug, Clone)]
struct ReadFolder {
    path: PathBuf,
    inner: MmapDirectory,
}

impl Directory for ReadFolder {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let open = || {
            let file = File::open(self.path.join(path))?;
            let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            Ok(ReadFile { file, length })
        };
        let opened = open().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
            _ => OpenReadError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(Arc::new(opened))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.inner.open_write(path)
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.inner.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.inner.atomic_write(path, data)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.inner.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.inner.watch(callback)
    }
}

/// An open file of which parts are read.
#[derive(Debug)]
struct ReadFile {
    file: File,
    /// Bytes when it was opened: it is never written after that.
    length: usize,
}

impl HasLen for ReadFile {
    fn len(&self) -> usize {
        self.length
    }
}

impl FileHandle for ReadFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if range.start > range.end || range.end > self.length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a part beyond the end of a file was asked for"));
        }
        let mut bytes = vec![0; range.len()];
        self.file.read_exact_at(&mut bytes, range.start as u64)?;
        Ok(OwnedBytes::new(bytes))
    }
}
