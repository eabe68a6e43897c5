//! Snapshot of the index for searches, the state that the writer shares with readers, and the times of last use that
//! decide which documents are evicted.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::mutex::lock;
use serde::{Deserialize, Serialize};
use tantivy::{
    DocAddress, Searcher, SegmentOrdinal, SegmentReader, TantivyDocument, Term,
    collector::DocSetCollector,
    columnar::ColumnValues,
    query::TermQuery,
    schema::{IndexRecordOption, Value as _},
};

use super::{
    DocumentId, IndexConfig, IndexError,
    folder::Folder,
    schema::{ENTRY_ORDINAL, Fields, key, split_key},
};
use crate::{analyze::Dictionary, chunk::Chunk, kind::Kind, recognition::RecognitionStamp};

/// Properties of a document besides its text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentProperties {
    /// Type of the document.
    pub kind: Option<Kind>,
    /// Number of pages, sheets or slides that were read.
    pub parts: u32,
    /// Reason why the text is incomplete, with advice. `None` if the text is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<String>,
    /// Recognition that was used, if a different recognition may find text on the unread pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recognition: Option<RecognitionStamp>,
    /// True if reading was cut short by a time or memory limit for the first time. The document is then read again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// Hash of the path from which the document was read. Another document at the same path replaces this document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
}

impl DocumentProperties {
    /// Returns true if reading the document with this recognition may find more text.
    pub fn is_outdated(&self, recognition: &RecognitionStamp) -> bool {
        self.retry || self.recognition.as_ref().is_some_and(|before| recognition.may_improve_on(before))
    }
}

/// Document that is completely indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Key of the document.
    pub id: DocumentId,
    /// Title in the document's metadata.
    pub title: Option<String>,
    /// Properties besides the text.
    #[serde(default)]
    pub about: DocumentProperties,
    /// Number of the document's chunks.
    pub chunks: u32,
    /// Time of indexing in seconds since 1970.
    pub indexed_at: u64,
    /// Number of the document in this index.
    pub(crate) owner: u32,
}

pub(crate) type Entries = HashMap<DocumentId, Arc<Entry>>;

/// Keys of a segment's chunks, by their number in the segment.
pub(crate) type Keys = Arc<dyn ColumnValues<u64>>;

/// Consistent snapshot of the searchable content. Later writes do not affect it.
pub(crate) struct View {
    pub(crate) searcher: Searcher,
    pub(crate) fields: Fields,
    pub(crate) entries: Arc<Entries>,
    /// Number of index rebuilds so far, so that one loss only triggers one rebuild.
    pub(crate) epoch: u64,
    /// Keys per segment. Cached, because every query needs them and the library would read them again each time.
    keys: Vec<OnceLock<Keys>>,
    /// Path of the index, or `None` if the index is in memory.
    pub(crate) path: Option<PathBuf>,
}

impl View {
    pub(crate) fn new(folder: &Folder, entries: Arc<Entries>, epoch: u64) -> Self {
        let searcher = folder.reader.searcher();
        let keys = searcher.segment_readers().iter().map(|_| OnceLock::new()).collect();
        Self { searcher, fields: folder.fields.clone(), entries, epoch, keys, path: folder.path.clone() }
    }

    /// Returns the keys of a segment's chunks. They are only read once.
    pub(crate) fn keys(&self, segment: SegmentOrdinal) -> tantivy::Result<Keys> {
        let cached = self.keys.get(segment as usize);
        if let Some(keys) = cached.and_then(OnceLock::get) {
            return Ok(Arc::clone(keys));
        }
        let keys = keys_of(self.searcher.segment_reader(segment))?;
        Ok(cached.map_or(&keys, |cached| cached.get_or_init(|| Arc::clone(&keys))).clone())
    }

    pub(crate) fn chunk(&self, address: DocAddress) -> Result<Chunk, IndexError> {
        let document: TantivyDocument = self.searcher.doc(address)?;
        from_record(&document, &self.fields)
    }

    /// Loads the chunk with this ordinal from a document.
    pub(crate) fn chunk_of(&self, owner: u32, ordinal: u32) -> Result<Option<Chunk>, IndexError> {
        self.address_of(owner, ordinal)?.map(|address| self.chunk(address)).transpose()
    }

    /// Returns the address of the chunk with this ordinal in a document.
    pub(crate) fn address_of(&self, owner: u32, ordinal: u32) -> Result<Option<DocAddress>, IndexError> {
        let term = Term::from_field_u64(self.fields.key, key(owner, ordinal));
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        Ok(self.searcher.search(&query, &DocSetCollector)?.into_iter().next())
    }

    /// Loads the texts of a document for embedding, with their keys.
    pub(crate) fn texts(&self, id: &DocumentId) -> Result<Vec<(u64, String)>, IndexError> {
        let Some(entry) = self.entries.get(id) else { return Ok(Vec::new()) };
        let mut texts = Vec::new();
        // An ordinal is skipped after each page.
        for ordinal in 0..entry.chunks.saturating_mul(2) {
            texts.extend(self.chunk_of(entry.owner, ordinal)?.map(|chunk| chunk.to_embed(ordinal)));
        }
        Ok(texts)
    }
}

fn keys_of(reader: &SegmentReader) -> tantivy::Result<Keys> {
    reader.fast_fields().column_first_or_default::<u64>("key")
}

fn from_record<'a, T: Deserialize<'a>>(document: &'a TantivyDocument, fields: &Fields) -> Result<T, IndexError> {
    let record = document.get_first(fields.record).and_then(|value| value.as_bytes());
    let record = record.ok_or_else(|| IndexError::Lost("a chunk has no text".to_owned()))?;
    serde_json::from_slice(record).map_err(|error| IndexError::Lost(format!("a chunk cannot be read: {error}")))
}

/// Documents found in an index when it is opened.
pub(crate) struct IndexContent {
    pub(crate) entries: Entries,
    /// Numbers of interrupted documents whose chunks remain.
    pub(crate) orphans: Vec<u32>,
    /// Lowest number that has never been used.
    pub(crate) next_owner: u32,
}

/// Scans an index for its entries and for orphaned chunks.
pub(crate) fn scan_content(folder: &Folder) -> Result<IndexContent, IndexError> {
    let searcher = folder.reader.searcher();
    let mut entries: Entries = HashMap::new();
    let mut owners: BTreeSet<u32> = BTreeSet::new();
    let mut next_owner = 0;
    for reader in searcher.segment_readers() {
        let keys = keys_of(reader)?;
        let store = reader.get_store_reader(1)?;
        for doc in 0..reader.max_doc() {
            let (owner, ordinal) = split_key(keys.get_val(doc));
            next_owner = next_owner.max(owner.saturating_add(1));
            if reader.is_deleted(doc) {
                continue;
            }
            owners.insert(owner);
            if ordinal == ENTRY_ORDINAL {
                let document: TantivyDocument = store.get(doc)?;
                let entry: Entry = from_record(&document, &folder.fields)?;
                entries.insert(entry.id, Arc::new(entry));
            }
        }
    }
    for entry in entries.values() {
        owners.remove(&entry.owner);
    }
    Ok(IndexContent { entries, orphans: owners.into_iter().collect(), next_owner })
}

/// State that the writer shares with readers.
pub(crate) struct IndexState {
    pub(crate) config: IndexConfig,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) uses: LastUses,
    view: RwLock<Arc<View>>,
    /// True while the writer has pending work that closing would wait for.
    is_busy: AtomicBool,
}

impl IndexState {
    pub(crate) fn new(config: IndexConfig, dictionary: Arc<Dictionary>, uses: LastUses, view: View) -> Self {
        Self { config, dictionary, uses, view: RwLock::new(Arc::new(view)), is_busy: AtomicBool::new(false) }
    }

    /// Sets the state that [`is_idle`](Self::is_idle) reports.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Release);
    }

    /// Returns true if closing would not have to wait for the writer.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy.load(Ordering::Acquire)
    }

    /// Returns the current view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current view.
    pub(crate) fn publish(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}

const USES_FILE: &str = "uses.json";

/// Times of last use, in seconds since 1970. If a crash loses some times, a document may be removed early. It is
/// indexed again when needed.
#[derive(Debug, Default)]
pub(crate) struct LastUses {
    times: Mutex<HashMap<DocumentId, u64>>,
}

impl LastUses {
    /// Loads the times stored in this folder.
    pub(crate) fn load(&self, folder: &Path) {
        let read = fs::read(folder.join(USES_FILE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        *lock(&self.times) = read.unwrap_or_default();
    }

    /// Stores the times of the documents that still exist.
    pub(crate) fn save(&self, folder: &Path, exists: impl Fn(&DocumentId) -> bool) -> io::Result<()> {
        let bytes = {
            let mut times = lock(&self.times);
            times.retain(|id, _| exists(id));
            serde_json::to_vec(&*times)?
        };
        let draft = folder.join("uses.json.new");
        fs::write(&draft, bytes)?;
        fs::rename(draft, folder.join(USES_FILE))
    }

    /// Records that these documents were used.
    pub(crate) fn touch<'a>(&self, ids: impl Iterator<Item = &'a DocumentId>, now: u64) {
        let mut times = lock(&self.times);
        times.extend(ids.map(|id| (*id, now)));
    }

    /// Returns the time when a document was last used or indexed.
    pub(crate) fn last(&self, entry: &Entry) -> u64 {
        let times = lock(&self.times);
        times.get(&entry.id).copied().unwrap_or_default().max(entry.indexed_at)
    }
}

/// Selects the documents to remove: all that were unused for [`gone_after`](IndexConfig::gone_after), and, while the
/// files are too large, the least recently used stale documents.
pub(crate) fn select_evicted(entries: &Entries, shared: &IndexState, bytes: u64, now: u64) -> Vec<Arc<Entry>> {
    let IndexState { config, uses, .. } = shared;
    let mut entries: Vec<(&Arc<Entry>, u64)> = entries.values().map(|entry| (entry, uses.last(entry))).collect();
    entries.sort_by_key(|(entry, used)| (*used, entry.owner));
    let all: u64 = entries.iter().map(|(entry, _)| u64::from(entry.chunks)).sum::<u64>().max(1);
    let mut excess = bytes.saturating_sub(config.most_bytes);
    let mut evicted = Vec::new();
    for (entry, used) in entries {
        let unused = now.saturating_sub(used);
        let is_gone = unused >= config.gone_after.as_secs();
        let is_early = excess > 0 && unused >= config.stale_after.as_secs();
        if is_gone || is_early {
            let share = u128::from(bytes) * u128::from(entry.chunks.max(1)) / u128::from(all);
            excess = excess.saturating_sub(u64::try_from(share).unwrap_or(u64::MAX));
            evicted.push(Arc::clone(entry));
        }
    }
    evicted
}
