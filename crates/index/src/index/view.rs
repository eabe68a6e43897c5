//! What is there to be found, all of one moment, and the state that the writer shares with all who search; and when a document was last used,
//! and what may therefore go.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

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
pub struct About {
    /// Its kind.
    pub kind: Option<Kind>,
    /// Number of pages, sheets or slides that were read.
    pub parts: u32,
    /// Why that is not all of it, and what to do, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<String>,
    /// The recognition with which it was read, where letters of it were not recognised and may be by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recognition: Option<RecognitionStamp>,
    /// True if it was cut by a limit on time or memory for the first time: it is read once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// Number of the path from which it was read. Another document at that path replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
}

impl About {
    /// Returns true if reading the document with this recognition may find more text.
    pub fn is_outdated(&self, recognition: &RecognitionStamp) -> bool {
        self.retry || self.recognition.as_ref().is_some_and(|before| recognition.promises_more_than(before))
    }
}

/// A document that is in the index from its first chunk to its last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which one.
    pub id: DocumentId,
    /// Its own title.
    pub title: Option<String>,
    /// Its other properties.
    #[serde(default)]
    pub about: About,
    /// Number of its chunks.
    pub chunks: u32,
    /// When it was indexed, in seconds since 1970.
    pub indexed_at: u64,
    /// Its number in this index.
    pub(crate) owner: u32,
}

/// All documents that are there.
pub(crate) type Entries = HashMap<DocumentId, Arc<Entry>>;

/// The keys of the chunks of a segment, by their numbers in it.
pub(crate) type Keys = Arc<dyn ColumnValues<u64>>;

/// Searchable content, all of one moment. A view is not disturbed by later writes.
pub(crate) struct View {
    pub(crate) searcher: Searcher,
    pub(crate) fields: Fields,
    pub(crate) entries: Arc<Entries>,
    /// Counts the indexes that were begun anew, so that one loss is not answered twice.
    pub(crate) epoch: u64,
    /// By segment: every query looks at them, and the library would read them anew each time.
    keys: Vec<OnceLock<Keys>>,
    /// None where the files are in memory only.
    pub(crate) path: Option<PathBuf>,
}

impl View {
    pub(crate) fn new(folder: &Folder, entries: Arc<Entries>, epoch: u64) -> Self {
        let searcher = folder.reader.searcher();
        let keys = searcher.segment_readers().iter().map(|_| OnceLock::new()).collect();
        Self { searcher, fields: folder.fields.clone(), entries, epoch, keys, path: folder.path.clone() }
    }

    /// The keys of the chunks of a segment. They are read once.
    pub(crate) fn keys(&self, segment: SegmentOrdinal) -> tantivy::Result<Keys> {
        let kept = self.keys.get(segment as usize);
        if let Some(keys) = kept.and_then(OnceLock::get) {
            return Ok(Arc::clone(keys));
        }
        let keys = keys_of(self.searcher.segment_reader(segment))?;
        Ok(kept.map_or(&keys, |kept| kept.get_or_init(|| Arc::clone(&keys))).clone())
    }

    /// A chunk.
    pub(crate) fn chunk(&self, address: DocAddress) -> Result<Chunk, IndexError> {
        let document: TantivyDocument = self.searcher.doc(address)?;
        from_record(&document, &self.fields)
    }

    /// The chunk of a document with this ordinal.
    pub(crate) fn chunk_of(&self, owner: u32, ordinal: u32) -> Result<Option<Chunk>, IndexError> {
        let term = Term::from_field_u64(self.fields.key, key(owner, ordinal));
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        let found = self.searcher.search(&query, &DocSetCollector)?.into_iter().next();
        found.map(|address| self.chunk(address)).transpose()
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

/// Content of an index when it is opened.
pub(crate) struct IndexContent {
    pub(crate) entries: Entries,
    /// Numbers of documents that were cut off before they were whole.
    pub(crate) orphans: Vec<u32>,
    /// The first number that was never used.
    pub(crate) next_owner: u32,
}

/// Looks through an index for the documents that are there.
pub(crate) fn look_through(folder: &Folder) -> Result<IndexContent, IndexError> {
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

/// State that the writer shares with everybody else.
pub(crate) struct Shared {
    pub(crate) config: IndexConfig,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) uses: Uses,
    view: RwLock<Arc<View>>,
    /// Set if the writer holds what closing has to wait for.
    is_at_work: AtomicBool,
}

impl Shared {
    pub(crate) fn new(config: IndexConfig, dictionary: Arc<Dictionary>, uses: Uses, view: View) -> Self {
        Self { config, dictionary, uses, view: RwLock::new(Arc::new(view)), is_at_work: AtomicBool::new(false) }
    }

    /// Sets whether the writer holds anything that closing has to wait for.
    pub(crate) fn set_at_work(&self, is_at_work: bool) {
        self.is_at_work.store(is_at_work, Ordering::Release);
    }

    /// Returns whether the writer holds nothing that closing has to wait for.
    pub(crate) fn is_asleep(&self) -> bool {
        !self.is_at_work.load(Ordering::Acquire)
    }

    /// The current view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows this from now on.
    pub(crate) fn publish(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}

const FILE: &str = "uses.json";

/// When documents were last used, in seconds since 1970. What is lost of it in a crash makes a document go a little early, and
/// it is indexed again when it is needed.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    times: Mutex<HashMap<DocumentId, u64>>,
}

impl Uses {
    /// Loads the uses that were stored in this folder.
    pub(crate) fn load(&self, folder: &Path) {
        let read = fs::read(folder.join(FILE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = read.unwrap_or_default();
    }

    /// Writes it down, without what is not there any longer.
    pub(crate) fn save(&self, folder: &Path, is_there: impl Fn(&DocumentId) -> bool) -> io::Result<()> {
        let bytes = {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.retain(|id, _| is_there(id));
            serde_json::to_vec(&*times)?
        };
        let draft = folder.join("uses.json.new");
        fs::write(&draft, bytes)?;
        fs::rename(draft, folder.join(FILE))
    }

    /// These were used.
    pub(crate) fn touch<'a>(&self, ids: impl Iterator<Item = &'a DocumentId>, now: u64) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.extend(ids.map(|id| (*id, now)));
    }

    /// When a document was last of use to somebody.
    pub(crate) fn last(&self, entry: &Entry) -> u64 {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.get(&entry.id).copied().unwrap_or_default().max(entry.indexed_at)
    }
}

/// Which documents go, of those that are there with the time of their last use: all that nobody needed for long, and of those
/// that nobody needed lately as many as take up more than is allowed, the oldest first.
pub(crate) fn leaving(entries: &Entries, shared: &Shared, bytes: u64, now: u64) -> Vec<Arc<Entry>> {
    let Shared { config, uses, .. } = shared;
    let mut entries: Vec<(&Arc<Entry>, u64)> = entries.values().map(|entry| (entry, uses.last(entry))).collect();
    entries.sort_by_key(|(entry, used)| (*used, entry.owner));
    let all: u64 = entries.iter().map(|(entry, _)| u64::from(entry.chunks)).sum::<u64>().max(1);
    let mut excess = bytes.saturating_sub(config.most_bytes);
    let mut leaving = Vec::new();
    for (entry, used) in entries {
        let unused = now.saturating_sub(used);
        let is_gone = unused >= config.gone_after.as_secs();
        let is_early = excess > 0 && unused >= config.stale_after.as_secs();
        if is_gone || is_early {
            let share = u128::from(bytes) * u128::from(entry.chunks.max(1)) / u128::from(all);
            excess = excess.saturating_sub(u64::try_from(share).unwrap_or(u64::MAX));
            leaving.push(Arc::clone(entry));
        }
    }
    leaving
}
