//! Index directory and merge policies. Each version of the index has its own directory, which is recreated if damaged.
//! Segments are merged rarely while documents are added, and down to a few once the index is idle.
//!
//! Files are read with system calls and never mapped. If a mapped file is truncated while in use, `SIGBUS` kills the
//! whole process without an error. A short read is an ordinary error, after which the index is recreated. The library
//! caches the terms itself, and the operating system caches the rest.

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

/// Index files, opened for reading and writing.
pub(crate) struct Folder {
    /// Directory for additional files of the index, besides the library's own. `None` if the index is only in memory.
    pub(crate) path: Option<PathBuf>,
    pub(crate) fields: Fields,
    pub(crate) index: Index,
    pub(crate) reader: IndexReader,
    pub(crate) gate: Arc<Gate>,
}

impl Folder {
    /// Opens the index in its folder, or in memory. Creates a missing index. Deletes and recreates a damaged index, and
    /// also returns the reason in that case.
    pub(crate) fn open(
        config: &IndexConfig,
        dictionary: &Arc<Dictionary>,
    ) -> Result<(Self, Option<String>), IndexError> {
        if config.in_memory {
            return Ok((Self::of(None, RamDirectory::create(), dictionary)?, None));
        }
        let root = &config.folder;
        let path = root.join(format!("v{SCHEMA_VERSION}.{ANALYSIS_VERSION}"));
        create_private_folder(root)?;
        remove_other_versions(root, &path);
        create_private_folder(&path)?;
        match catch_damage(|| Self::try_open(&path, dictionary)) {
            Ok(folder) => Ok((folder, None)),
            Err(error) if error.is_damage() || matches!(error, IndexError::Internal(_)) => {
                fs::remove_dir_all(&path)?;
                create_private_folder(&path)?;
                Ok((catch_damage(|| Self::try_open(&path, dictionary))?, Some(error.to_string())))
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

/// Returns true if the index files still exist or the index is in memory. Open files remain readable even after
/// deletion. Blocks.
pub(crate) fn files_exist(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path.join("meta.json").exists())
}

/// Returns the size of all files of an index, in bytes. Blocks.
pub(crate) fn size(path: Option<&Path>) -> u64 {
    let Some(Ok(files)) = path.map(fs::read_dir) else { return 0 };
    files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Runs an operation on files that may be damaged. The library reports some damage as an error and some as a panic.
pub(crate) fn catch_damage<T>(act: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(IndexError::Lost("its content is invalid".to_owned())))
}

/// Creates a folder that only its owner can access, because the folder contains the text of documents.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the indexes of other versions. A failed removal is retried at the next start.
fn remove_other_versions(root: &Path, own: &Path) {
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

/// Minimum number of segments of about the same size that are merged at rest. A search looks up each word in each
/// segment, which is most of the search time.
const MIN_SEGMENTS: usize = 3;
/// Number of chunks up to which segments count as the same size.
const SMALL_SEGMENT: u32 = 1000;
/// Binary logarithm of the maximum size ratio at which segments count as equally large.
const MAX_SIZE_RATIO_LOG2: f64 = 2.0;
/// Number of chunks above which a segment is no longer merged. A merge loads the texts of a segment into memory, about
/// 300 bytes per chunk.
const LARGE_SEGMENT: usize = 100_000;
/// Share of removed chunks above which a segment is rewritten at rest. Removed text stays in the files until then.
const MAX_REMOVED_SHARE: f32 = 0.3;

/// Returns the merge policy while documents are added. Merges rarely, since merging slows down adding. An in-memory
/// index is dropped before a merge pays off.
pub(super) fn busy_merge_policy(in_memory: bool) -> Box<dyn MergePolicy> {
    if in_memory {
        return Box::new(NoMergePolicy);
    }
    let mut policy = LogMergePolicy::default();
    policy.set_max_docs_before_merge(LARGE_SEGMENT);
    Box::new(policy)
}

/// Returns the merge policy at rest, which leaves about two segments of each size.
pub(super) fn idle_merge_policy() -> Box<dyn MergePolicy> {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(MIN_SEGMENTS);
    policy.set_min_layer_size(SMALL_SEGMENT);
    policy.set_level_log_size(MAX_SIZE_RATIO_LOG2);
    policy.set_max_docs_before_merge(LARGE_SEGMENT);
    policy.set_del_docs_ratio_before_merge(MAX_REMOVED_SHARE);
    Box::new(policy)
}

/// Directory that reads files with system calls and delegates everything else to the library.
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

/// Open file that is read in ranges.
#[derive(Debug)]
struct ReadFile {
    file: File,
    /// Size in bytes when the file was opened. Index files are never modified afterwards.
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, "read beyond the end of a file"));
        }
        let mut bytes = vec![0; range.len()];
        self.file.read_exact_at(&mut bytes, range.start as u64)?;
        Ok(OwnedBytes::new(bytes))
    }
}
