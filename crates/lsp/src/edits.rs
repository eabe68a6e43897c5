//! Files edited by a session, and the errors that the edits introduced.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use agentd_core::language::{Diagnostic, LanguageNews, Severity, SourceFile};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    protocol::Finding,
    server::{CheckPurpose, DiskChange, Findings, MAX_OPEN, OpenText, ServerError, ServerHandle},
    source::{self, Content},
};

/// Maximum number of files per session between two steps.
const MAX_FILES: usize = 100;

/// Text of each file before it was edited, or `None` if it was not read.
type PriorTexts = BTreeMap<SourceFile, Option<Content>>;

/// Server for each file.
pub(crate) type ServersOfFiles = BTreeMap<SourceFile, Arc<ServerHandle>>;

/// Edits in one session that have not been reported.
#[derive(Default)]
pub(crate) struct SessionEdits {
    /// Files as they were before the first edit since the last report.
    before: BTreeMap<SourceFile, Content>,
    edited: BTreeSet<SourceFile>,
    /// Running comparisons, at most one per server.
    comparisons: Vec<Comparison>,
}

struct Comparison {
    server: Arc<ServerHandle>,
    files: PriorTexts,
    /// Files edited since the comparison began. These files are compared afterwards.
    queued: PriorTexts,
    task: AbortOnDropHandle<Result<Vec<Diagnostic>, ServerError>>,
}

impl Comparison {
    fn begin(server: Arc<ServerHandle>, files: PriorTexts) -> Self {
        let task = AbortOnDropHandle::new(tokio::spawn(compare(Arc::clone(&server), files.clone())));
        Self { server, files, queued: BTreeMap::new(), task }
    }

    /// Starts the comparison of files that were edited in the meantime. Returns `None` if there are none.
    fn successor(self) -> Option<Self> {
        let Self { server, mut files, mut queued, .. } = self;
        for (file, before) in &mut queued {
            // The text before the first edit is the baseline.
            *before = files.remove(file).unwrap_or(before.take());
        }
        (!queued.is_empty()).then(|| Self::begin(server, queued))
    }
}

impl SessionEdits {
    /// Returns true if nothing has been edited since the last report. In that case, forgets the files that were about
    /// to be edited.
    pub(crate) fn are_settled(&mut self) -> bool {
        let are_settled = self.edited.is_empty() && self.comparisons.is_empty();
        if are_settled {
            self.before.clear();
        }
        are_settled
    }

    /// Aborts comparisons from an earlier turn, because their results would be outdated. The files are compared again.
    pub(crate) fn begin_turn(&mut self) {
        for Comparison { files, queued, .. } in std::mem::take(&mut self.comparisons) {
            for (file, before) in queued.into_iter().chain(files) {
                self.edited.insert(file.clone());
                if let Some(content) = before {
                    self.before.insert(file, content);
                }
            }
        }
    }

    /// Returns the files whose earlier text is not stored, up to the limit.
    pub(crate) fn unknown(&self, mut files: Vec<SourceFile>) -> Vec<SourceFile> {
        files.retain(|file| !self.before.contains_key(file));
        files.truncate(MAX_FILES.saturating_sub(self.before.len()));
        files
    }

    /// Stores the text of files that are about to be edited, and lets their servers check the text.
    pub(crate) async fn before(&mut self, files: ServersOfFiles) {
        for (content, file) in read(files.keys().cloned().collect()).await {
            if let (Some(server), Some(text)) = (files.get(&file), OpenText::of(&file.below, &content)) {
                server.prepare(vec![text]);
            }
            self.before.insert(file, content);
        }
    }

    /// Records files that were edited.
    pub(crate) fn after(&mut self, files: impl IntoIterator<Item = SourceFile>) {
        let capacity = MAX_FILES.saturating_sub(self.edited.len());
        self.edited.extend(files.into_iter().take(capacity));
    }

    /// Returns the edited files that are not being compared yet.
    pub(crate) fn edited(&self) -> Vec<SourceFile> {
        self.edited.iter().cloned().collect()
    }

    /// Starts comparing the edited files. If a comparison with the same server is running, they are compared
    /// afterwards. Returns true if there were any edited files.
    pub(crate) fn begin(&mut self, servers: &ServersOfFiles) -> bool {
        let mut of_servers: Vec<(Arc<ServerHandle>, PriorTexts)> = Vec::new();
        let mut before = std::mem::take(&mut self.before);
        for file in std::mem::take(&mut self.edited) {
            let Some(server) = servers.get(&file) else { continue };
            let content = before.remove(&file);
            match of_servers.iter_mut().find(|(known, _)| Arc::ptr_eq(known, server)) {
                Some((_, files)) => drop(files.insert(file, content)),
                None => of_servers.push((Arc::clone(server), BTreeMap::from([(file, content)]))),
            }
        }
        let any = !of_servers.is_empty();
        for (server, files) in of_servers {
            match self.comparisons.iter_mut().find(|known| Arc::ptr_eq(&known.server, &server)) {
                Some(comparison) => {
                    for (file, before) in files {
                        comparison.queued.entry(file).or_insert(before);
                    }
                }
                None => self.comparisons.push(Comparison::begin(server, files)),
            }
        }
        any
    }

    /// Returns true if all queried servers have answered before.
    pub(crate) fn are_warm(&self) -> bool {
        self.comparisons.iter().all(|comparison| comparison.server.is_warm())
    }

    /// Returns true if the end of a turn may wait long for all queried servers.
    pub(crate) fn all_may_wait_long(&self) -> bool {
        self.comparisons.iter().filter(|comparison| !comparison.server.may_wait_long()).count() == 0
    }

    /// Returns the results of comparisons that finish within `wait`. The other comparisons continue.
    pub(crate) async fn news(&mut self, wait: Duration) -> LanguageNews {
        let (mut news, deadline) = (LanguageNews::default(), Instant::now() + wait);
        let mut left = std::mem::take(&mut self.comparisons);
        while let Some(mut comparison) = left.pop() {
            match timeout_at(deadline, &mut comparison.task).await {
                Ok(Ok(Ok(errors))) => {
                    // Results for a file that has been edited again are outdated.
                    let edited: Vec<String> = comparison.queued.keys().map(SourceFile::name).collect();
                    news.errors.extend(errors.into_iter().filter(|error| !edited.contains(&error.file)));
                }
                Ok(Ok(Err(ServerError { message, given_up: true }))) => news.words.push(message),
                Ok(Ok(Err(error))) => tracing::debug!("could not check the last edits: {error}"),
                Ok(Err(error)) => tracing::error!("a comparison failed: {error}"),
                Err(_) => {
                    self.comparisons.push(comparison);
                    continue;
                }
            }
            left.extend(comparison.successor());
        }
        news.errors.sort();
        news
    }
}

/// Reads files and returns their content.
async fn read(files: Vec<SourceFile>) -> Vec<(Content, SourceFile)> {
    let read = |file: SourceFile| (source::read(&file.folder, &file.below), file);
    tokio::task::spawn_blocking(move || files.into_iter().map(read).collect()).await.unwrap_or_default()
}

/// Returns the errors that the edits introduced.
async fn compare(server: Arc<ServerHandle>, files: PriorTexts) -> Result<Vec<Diagnostic>, ServerError> {
    let without_prior_text: Vec<&PathBuf> =
        files.iter().filter(|(_, text)| text.is_none()).map(|(file, _)| &file.below).collect();
    let mut known: BTreeMap<PathBuf, Findings> = BTreeMap::new();
    if !without_prior_text.is_empty() {
        // For files whose earlier text was not read, the last known findings are the baseline.
        known.extend(server.last_findings_for(CheckPurpose::Comparison).await);
        known.retain(|below, _| without_prior_text.contains(&below));
    }
    let texts = files.iter().filter_map(|(file, before)| OpenText::of(&file.below, before.as_ref()?));
    known.extend(check(&server, texts.collect(), CheckPurpose::Baseline).await?);

    let (mut texts, mut changes) = (Vec::new(), Vec::new());
    for (content, file) in read(files.keys().cloned().collect()).await {
        let was_absent = files.get(&file).is_some_and(|before| *before == Some(Content::Absent));
        let change = match &content {
            Content::Absent => DiskChange::Deleted,
            _ if was_absent => DiskChange::Created,
            _ => DiskChange::Changed,
        };
        changes.push((file.below.clone(), change));
        texts.extend(OpenText::of(&file.below, &content));
    }
    server.notify_changed(changes).await;
    let now = check(&server, texts, CheckPurpose::Comparison).await?;
    let mut errors = Vec::new();
    for (file, _) in files {
        let findings = now.get(&file.below).map(|findings| &**findings).unwrap_or_default();
        let before = known.get(&file.below).map(|findings| &**findings).unwrap_or_default();
        errors.extend(new_errors(before, findings).into_iter().map(|finding| diagnostic(&file, finding)));
    }
    Ok(errors)
}

/// Returns the findings in texts, in batches that do not exceed the limit of open files.
async fn check(
    server: &ServerHandle,
    texts: Vec<OpenText>,
    purpose: CheckPurpose,
) -> Result<BTreeMap<PathBuf, Findings>, ServerError> {
    let mut all = BTreeMap::new();
    for part in texts.chunks(MAX_OPEN) {
        let names = part.iter().map(|file| file.below.clone());
        all.extend(names.zip(server.check(part.to_vec(), purpose).await?));
    }
    Ok(all)
}

/// Returns errors that occur more often than before. Errors are compared by code and message, because lines shift with
/// every edit.
fn new_errors<'a>(before: &[Finding], now: &'a [Finding]) -> Vec<&'a Finding> {
    let is_error = |finding: &&Finding| finding.severity == Severity::Error;
    let mut left: Vec<&Finding> = before.iter().filter(is_error).collect();
    let is_new = |finding: &&Finding| {
        let same = |known: &&Finding| (&known.code, &known.message) == (&finding.code, &finding.message);
        let known = left.iter().position(same);
        known.map(|at| left.swap_remove(at)).is_none()
    };
    now.iter().filter(is_error).filter(is_new).collect()
}

/// Converts a finding for users and models.
pub(crate) fn diagnostic(file: &SourceFile, finding: &Finding) -> Diagnostic {
    Diagnostic {
        file: file.name(),
        line: finding.line.saturating_add(1),
        column: finding.character.saturating_add(1),
        severity: finding.severity,
        message: finding.message.clone(),
        code: finding.code.clone(),
    }
}
