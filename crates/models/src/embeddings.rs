//! Embeddings of texts, from the `/embeddings` of a server, in files of vectors, one for each group of texts.
//!
//! The header of a file has the version, the dimension, the number of texts in the group, and the model's ID with its
//! length. Records of equal length follow: the key of a text, and one byte per dimension. A file of another version,
//! model or dimension is discarded, and an incomplete record at the end is ignored. A file can be deleted at any time;
//! its texts are then sent again.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    embedding::{EmbeddingReport, SimilarTexts, TextGroup},
    error::{ErrorKind, ModelError, ModelFuture},
    model::Slot,
    mutex::lock,
    ports::{Clock, Embeddings, Store},
    route::Routes,
    spending::SideUsage,
    usage::Usage,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    config::{ModelConfig, ModelConfigError},
    http::{
        failure::Failure,
        retry::Retries,
        target::{Clients, Target},
    },
};

/// Maximum number of texts in one request.
const BATCH: usize = 32;
/// Maximum size of a text in bytes. Many models read no more than 512 tokens.
const MAX_TEXT: usize = 2000;
/// Approximate number of bytes of a token.
const BYTES_PER_TOKEN: usize = 4;
/// Maximum size of an answer in bytes.
const MAX_ANSWER: usize = 32 << 20;
/// Maximum number of dimensions, so that sums of products fit.
const MAX_DIMENSION: usize = 1 << 16;
/// Maximum number of similar texts of a query.
const MAX_SIMILAR: usize = 200;
/// Time limit for the vector of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without queries after a failed one, so that searches do not wait for a server that is gone.
const PAUSE: Duration = Duration::from_secs(60);
/// Version of the files.
const VERSION: &[u8; 4] = b"ADV1";

const UNEMBEDDED: &str = "some of this is not embedded and only found by words: run agentctl docs embed";

/// Keys of texts with their vectors.
type Vectors = Vec<(u64, Vec<i8>)>;

/// Settings of the embeddings in `models.yaml`.
#[derive(Debug, Clone)]
pub struct EmbeddingsConfig {
    /// Model and its server.
    pub model: ModelConfig,
    /// Folders whose texts may be sent to the server.
    pub folders: Vec<PathBuf>,
}

/// Embeddings of the texts in the folders that the settings name.
pub struct EmbeddingStore {
    config: EmbeddingsConfig,
    target: Target,
    folder: PathBuf,
    /// Journal and clock, to count the usage.
    journal: (Arc<dyn Store>, Arc<dyn Clock>),
    /// Held while texts are added, so that two clients do not send the same ones.
    adding: tokio::sync::Mutex<()>,
    has_reported_missing: AtomicBool,
    /// Time of the last failed query, if no later one succeeded.
    failed_at: Mutex<Option<Instant>>,
}

impl EmbeddingStore {
    /// Creates a store in this folder. Uses no network.
    ///
    /// # Errors
    /// Fails if the URL or a header is invalid.
    pub fn new(
        config: EmbeddingsConfig,
        folder: PathBuf,
        routes: Routes,
        journal: (Arc<dyn Store>, Arc<dyn Clock>),
    ) -> Result<Self, ModelConfigError> {
        let target = Target::new(&config.model, &mut Clients::new(routes))?;
        let (adding, has_reported_missing, failed_at) = Default::default();
        Ok(Self { config, target, folder, journal, adding, has_reported_missing, failed_at })
    }

    /// Returns the vectors of texts, in order, all of the same dimension.
    async fn vectors(&self, texts: &[&str], retries: u32) -> Result<Vec<Vec<i8>>, ModelError> {
        let mut retries = Retries::new(&self.config.model, retries, false);
        loop {
            match self.request(texts).await {
                Ok(vectors) => return Ok(vectors),
                Err(failure) => sleep(retries.after(failure).map_err(|failure| failure.error)?.wait).await,
            }
        }
    }

    async fn request(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, Failure> {
        let model = &self.config.model;
        let mut body = json!({"model": model.id, "input": texts, "encoding_format": "float"});
        body.as_object_mut().into_iter().for_each(|fields| fields.extend(model.body.clone()));
        let answer = self.target.exchange("/embeddings", body.to_string(), MAX_ANSWER).await?;
        let wrong = |what: &str| Failure::protocol(format!("the model at {} returned {what}", self.target));
        let answer: Value = serde_json::from_slice(&answer).map_err(|_| wrong("no JSON, or not all of it"))?;
        self.count(answer["usage"]["prompt_tokens"].as_u64().unwrap_or_default()).await;
        let mut vectors = vec![Vec::new(); texts.len()];
        for (position, entry) in answer["data"].as_array().into_iter().flatten().enumerate() {
            let index = entry["index"].as_u64().map_or(position, |index| index as usize);
            let place = vectors.get_mut(index).ok_or_else(|| wrong("too many embeddings"))?;
            *place = quantised(&entry["embedding"]).ok_or_else(|| wrong("an embedding that is not of numbers"))?;
        }
        let dimension = vectors.first().map_or(0, Vec::len);
        let is_valid = (1..=MAX_DIMENSION).contains(&dimension) && vectors.iter().all(|it| it.len() == dimension);
        is_valid.then_some(vectors).ok_or_else(|| wrong("embeddings of a wrong size"))
    }

    /// Counts the tokens of a request.
    async fn count(&self, prompt_tokens: u64) {
        let ModelConfig { id, prices, .. } = &self.config.model;
        let mut usage = Usage { prompt_tokens, ..Usage::default() };
        usage.cost_microusd = prices.as_ref().map(|prices| prices.cost_microusd(&usage, 0));
        let (model, usage) = (id.clone(), Usage::of_call(Some(usage)));
        let (store, clock) = &self.journal;
        let counted = store.count_usage(SideUsage { at: clock.now(), slot: Slot::Base, model, usage });
        if let Err(error) = counted.await {
            tracing::warn!("could not count the usage of embeddings: {error}");
        }
    }

    /// Works on the file of a group on a blocking thread.
    async fn on_file<T: Send + 'static>(
        &self,
        group: &str,
        work: impl FnOnce(&Path, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ModelError> {
        let (path, model) = (self.folder.join(group), self.config.model.id.clone());
        let done = tokio::task::spawn_blocking(move || work(&path, &model)).await.map_err(io::Error::other);
        done.flatten().map_err(|error| ModelError::new(ErrorKind::Storage, format!("could not store vectors: {error}")))
    }

    /// Finds similar texts. Also returns true if all texts of the groups are stored. Without any, nothing is sent.
    async fn search(&self, query: &str, groups: &[String]) -> Result<(SimilarTexts, bool), ModelError> {
        if !groups.iter().any(|group| self.folder.join(group).exists()) {
            return Ok((Vec::new(), false));
        }
        let vector = Arc::new(self.vectors(&[&query[..query.floor_char_boundary(MAX_TEXT)]], 0).await?.concat());
        let (mut found, mut is_whole) = (Vec::new(), true);
        for (number, group) in groups.iter().enumerate() {
            let vector = Arc::clone(&vector);
            let similar = self.on_file(group, move |path, model| {
                let (texts, stored) = read(path, model);
                if stored.first().is_some_and(|(_, one)| one.len() != vector.len()) {
                    // The next run sends the texts again.
                    return fs::remove_file(path).map(|()| (Vec::new(), false));
                }
                let similar = stored.iter().map(|(key, one)| (similarity(one, &vector), number, *key));
                Ok((similar.collect::<Vec<_>>(), !stored.is_empty() && stored.len() >= texts))
            });
            let (similar, has_all) = similar.await?;
            found.extend(similar);
            is_whole &= has_all;
        }
        found.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        Ok((found.into_iter().take(MAX_SIMILAR).map(|(_, group, key)| (group, key)).collect(), is_whole))
    }
}

/// Scales a vector to bytes. Returns `None` if it is not an array of finite numbers.
fn quantised(vector: &Value) -> Option<Vec<i8>> {
    let numbers = vector.as_array()?.iter().map(|number| Some(number.as_f64()? as f32));
    let numbers = numbers.collect::<Option<Vec<f32>>>()?;
    let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    largest.is_finite().then(|| numbers.iter().map(|number| (number * scale).round() as i8).collect())
}

/// Returns the similarity of a vector to a query, comparable between vectors.
fn similarity(vector: &[i8], query: &[i8]) -> f32 {
    let product: i32 = vector.iter().zip(query).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
    let square: i32 = vector.iter().map(|number| i32::from(*number) * i32::from(*number)).sum();
    product as f32 / (square.max(1) as f32).sqrt()
}

fn header(model: &str, dimension: usize, texts: usize) -> Vec<u8> {
    let sizes = [dimension, texts, model.len()].map(|size| u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
    [&VERSION[..], sizes.as_flattened(), model.as_bytes()].concat()
}

/// Returns the number of texts in a group and the vectors of this model in its file.
fn read(path: &Path, model: &str) -> (usize, Vectors) {
    let file = fs::read(path).unwrap_or_default();
    let number = |at: usize| file.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let (dimension, texts) = (number(4).unwrap_or_default(), number(8).unwrap_or_default());
    let Some(records) = file.strip_prefix(&*header(model, dimension, texts)) else { return (0, Vec::new()) };
    let record = |record: &[u8]| {
        let (key, vector) = record.split_first_chunk()?;
        Some((u64::from_le_bytes(*key), vector.iter().map(|number| *number as i8).collect()))
    };
    (texts, records.chunks_exact(size_of::<u64>() + dimension).filter_map(record).collect())
}

/// Returns the records of vectors.
fn records(vectors: &[(u64, Vec<i8>)]) -> Vec<u8> {
    let numbers = |vector: &[i8]| vector.iter().map(|number| *number as u8).collect::<Vec<u8>>();
    vectors.iter().flat_map(|(key, vector)| [key.to_le_bytes().to_vec(), numbers(vector)]).flatten().collect()
}

/// Starts the file of a group with the stored vectors, unless they have another dimension, and with new ones.
fn begin(path: &Path, model: &str, texts: usize, mut stored: Vectors, new: Vectors) -> io::Result<()> {
    let dimension = new.first().map_or(0, |(_, vector)| vector.len());
    stored.retain(|(_, vector)| vector.len() == dimension);
    stored.extend(new);
    let draft = path.with_extension("new");
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(&draft, [header(model, dimension, texts), records(&stored)].concat())?;
    fs::rename(draft, path)
}

impl Embeddings for EmbeddingStore {
    fn covers(&self, path: &Path) -> bool {
        // Resolved each time, because a folder or a link may be created later.
        let mut folders = self.config.folders.iter().filter_map(|folder| fs::canonicalize(folder).ok());
        folders.any(|folder| path.starts_with(folder))
    }

    fn add<'a>(&'a self, group: &'a TextGroup, report: &'a mut EmbeddingReport) -> ModelFuture<'a, ()> {
        Box::pin(async move {
            let _adding = self.adding.lock().await;
            let texts = group.texts.iter().map(|(key, text)| (*key, &text[..text.floor_char_boundary(MAX_TEXT)]));
            let texts: Vec<(u64, &str)> = texts.filter(|(_, text)| !text.trim().is_empty()).collect();
            let keys: HashSet<u64> = texts.iter().map(|(key, _)| *key).collect();
            let mut stored = self.on_file(&group.name, |path, model| Ok(read(path, model).1)).await?;
            stored.retain(|(key, _)| keys.contains(key));
            let mut known: HashSet<u64> = stored.iter().map(|(key, _)| *key).collect();
            let missing: Vec<(u64, &str)> = texts.into_iter().filter(|(key, _)| known.insert(*key)).collect();
            report.server = format!("{} ({})", self.target, self.config.model.id);
            report.texts += missing.len() as u64;
            report.tokens += missing.iter().map(|(_, text)| text.len().div_ceil(BYTES_PER_TOKEN) as u64).sum::<u64>();
            let (mut dimension, count) = (None, keys.len());
            for batch in missing.chunks(BATCH).take_while(|_| report.sent) {
                let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
                let vectors = self.vectors(&texts, self.config.model.retries).await?;
                let former = dimension.replace(vectors.first().map(Vec::len));
                let is_changed = former.is_some() && former != dimension;
                let new: Vectors = batch.iter().map(|(key, _)| *key).zip(vectors).collect();
                let stored = std::mem::take(&mut stored);
                let written = self.on_file(&group.name, move |path, model| match former {
                    None => begin(path, model, count, stored, new),
                    Some(_) if is_changed => Err(io::Error::other("their size has changed; run the command again")),
                    Some(_) => File::options().append(true).open(path)?.write_all(&records(&new)),
                });
                written.await?;
            }
            Ok(())
        })
    }

    fn nearest<'a>(&'a self, query: &'a str, groups: &'a [String]) -> BoxFuture<'a, (SimilarTexts, Option<String>)> {
        Box::pin(async move {
            let is_paused = lock(&self.failed_at).is_some_and(|failed_at| failed_at.elapsed() < PAUSE);
            if groups.is_empty() || is_paused {
                return (Vec::new(), None);
            }
            let late = || ModelError::new(ErrorKind::Timeout, format!("no vector in {QUERY_TIMEOUT:?}"));
            match timeout(QUERY_TIMEOUT, self.search(query, groups)).await.unwrap_or_else(|_| Err(late())) {
                Ok((found, is_whole)) => {
                    *lock(&self.failed_at) = None;
                    let is_new = !is_whole && !self.has_reported_missing.swap(true, Ordering::Relaxed);
                    (found, is_new.then(|| UNEMBEDDED.to_owned()))
                }
                Err(error) => {
                    let is_new = lock(&self.failed_at).replace(Instant::now()).is_none();
                    (Vec::new(), is_new.then(|| format!("searched by words only: {error}")))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(path: &Path, model: &str) -> Vec<u64> {
        read(path, model).1.iter().map(|(key, _)| *key).collect()
    }

    #[test]
    fn vectors_survive_and_other_models_and_dimensions_discard_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors/code-1");
        assert_eq!(read(&path, "small"), (0, Vec::new()));
        let first: Vectors = vec![(1, vec![127, 0, 0]), (2, vec![0, -127, 5])];
        begin(&path, "small", 2, Vec::new(), first.clone()).unwrap();
        assert_eq!(read(&path, "small"), (2, first.clone()));
        assert!(similarity(&first[1].1, &[10, -20, 0]) > similarity(&first[0].1, &[10, -20, 0]));
        // A longer ID that begins alike is another model.
        for model in ["smal", "small-2", ""] {
            assert_eq!(keys(&path, model), [0_u64; 0], "{model}");
        }
        begin(&path, "small", 3, first.clone(), vec![(3, vec![1, 2, 3])]).unwrap();
        assert_eq!((keys(&path, "small"), read(&path, "small").0), (vec![1, 2, 3], 3));
        begin(&path, "small", 3, first, vec![(4, vec![1, 2, 3, 4])]).unwrap();
        assert_eq!(keys(&path, "small"), [4]);
    }

    #[test]
    fn torn_tail_is_ignored_at_every_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("document-1");
        begin(&path, "m", 2, Vec::new(), vec![(1, vec![1, 2]), (2, vec![3, 4])]).unwrap();
        let whole = fs::read(&path).unwrap();
        let first = whole.len() - 2 * 10;
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let count = length.saturating_sub(first) / 10;
            let stored = read(&path, "m").1;
            assert_eq!(stored.len(), count, "{length}");
            begin(&path, "m", 3, stored, vec![(9, vec![5, 6])]).unwrap();
            assert_eq!(keys(&path, "m").len(), count + 1, "{length}");
        }
    }

    #[test]
    fn numbers_are_scaled_to_bytes() {
        for (vector, scaled) in [
            (json!([0.5, -0.25, 0]), Some(vec![127, -64, 0])),
            (json!([0, 0.0]), Some(vec![0, 0])),
            (json!([1e300, 1]), None),
            (json!([1, null]), None),
            (json!("AAAA"), None),
        ] {
            assert_eq!(quantised(&vector), scaled, "{vector}");
        }
    }
}
