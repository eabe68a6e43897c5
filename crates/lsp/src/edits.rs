//! Files that a session has edited, and which errors are new since.

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

/// Files that are remembered of one session between two steps.
const MAX_FILES: usize = 100;

/// Text of a file before it was edited; none where nobody looked.
type Before = Option<Content>;

/// The servers of some files.
pub(crate) type ServersOfFiles = BTreeMap<SourceFile, Arc<ServerHandle>>;

/// Edits of one session that are not settled.
#[derive(Default)]
pub(crate) struct SessionEdits {
    /// Files as they were before the first edit since the last news.
    before: BTreeMap<SourceFile, Content>,
    edited: BTreeSet<SourceFile>,
    /// Comparisons that are under way, one for each server.
    comparisons: Vec<Comparison>,
}

struct Comparison {
    server: Arc<ServerHandle>,
    files: BTreeMap<SourceFile, Before>,
    /// Files that were edited since it began: they are compared when it has ended.
    next: BTreeMap<SourceFile, Before>,
    task: AbortOnDropHandle<Result<Vec<Diagnostic>, ServerError>>,
}

impl Comparison {
    fn begin(server: Arc<ServerHandle>, files: BTreeMap<SourceFile, Before>) -> Self {
        let task = AbortOnDropHandle::new(tokio::spawn(compare(Arc::clone(&server), files.clone())));
        Self { server, files, next: BTreeMap::new(), task }
    }

    /// The comparison of what was edited meanwhile; none where nothing was.
    fn successor(self) -> Option<Self> {
        let Self { server, mut files, mut next, .. } = self;
        for (file, before) in &mut next {
            // What was there before the first of the edits counts.
            *before = files.remove(file).unwrap_or(before.take());
        }
        (!next.is_empty()).then(|| Self::begin(server, next))
    }
}

impl SessionEdits {
    /// Returns whether nothing was edited since the last news. Then files that were about to be edited are forgotten.
    pub(crate) fn are_settled(&mut self) -> bool {
        let are_settled = self.edited.is_empty() && self.comparisons.is_empty();
        if are_settled {
            self.before.clear();
        }
        are_settled
    }

    /// Ends comparisons that an earlier turn has left: by now they would tell what is not so any more. Their files are compared
    /// anew.
    pub(crate) fn begin_turn(&mut self) {
        for Comparison { files, next, .. } in std::mem::take(&mut self.comparisons) {
            for (file, before) in next.into_iter().chain(files) {
                self.edited.insert(file.clone());
                if let Some(content) = before {
                    self.before.insert(file, content);
                }
            }
        }
    }

    /// The files of these that are not known as they were, as far as there is room.
    pub(crate) fn unknown(&self, mut files: Vec<SourceFile>) -> Vec<SourceFile> {
        files.retain(|file| !self.before.contains_key(file));
        files.truncate(MAX_FILES.saturating_sub(self.before.len()));
        files
    }

    /// Takes note of files that are about to be edited, and has their servers look at them as they are.
    pub(crate) async fn before(&mut self, files: ServersOfFiles) {
        for (content, file) in read(files.keys().cloned().collect()).await {
            if let (Some(server), Some(text)) = (files.get(&file), OpenText::of(&file.below, &content)) {
                server.look_ahead(vec![text]);
            }
            self.before.insert(file, content);
        }
    }

    /// Takes note of files that were edited.
    pub(crate) fn after(&mut self, files: impl IntoIterator<Item = SourceFile>) {
        let room = MAX_FILES.saturating_sub(self.edited.len());
        self.edited.extend(files.into_iter().take(room));
    }

    /// Files that were edited, and are not compared yet.
    pub(crate) fn edited(&self) -> Vec<SourceFile> {
        self.edited.iter().cloned().collect()
    }

    /// Begins to compare what was edited, or has it compared after what is under way with the same server. True if there was
    /// anything.
    pub(crate) fn begin(&mut self, servers: &ServersOfFiles) -> bool {
        let mut of_servers: Vec<(Arc<ServerHandle>, BTreeMap<SourceFile, Before>)> = Vec::new();
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
                        comparison.next.entry(file).or_insert(before);
                    }
                }
                None => self.comparisons.push(Comparison::begin(server, files)),
            }
        }
        any
    }

    /// Returns whether all servers that are asked have answered before.
    pub(crate) fn are_warm(&self) -> bool {
        self.comparisons.iter().all(|comparison| comparison.server.is_warm())
    }

    /// Returns true if the end of a turn may wait long for all servers that are asked.
    pub(crate) fn deserve_time(&self) -> bool {
        self.comparisons.iter().filter(|comparison| !comparison.server.deserves_time()).count() == 0
    }

    /// Outcome of the comparisons that end within this time. The others go on.
    pub(crate) async fn news(&mut self, wait: Duration) -> LanguageNews {
        let (mut news, deadline) = (LanguageNews::default(), Instant::now() + wait);
        let mut left = std::mem::take(&mut self.comparisons);
        while let Some(mut comparison) = left.pop() {
            match timeout_at(deadline, &mut comparison.task).await {
                Ok(Ok(Ok(errors))) => {
                    // Of a file that was edited since it is not known any more.
                    let edited: Vec<String> = comparison.next.keys().map(SourceFile::name).collect();
                    news.errors.extend(errors.into_iter().filter(|error| !edited.contains(&error.file)));
                }
                Ok(Ok(Err(ServerError { message, given_up: true }))) => news.words.push(message),
                Ok(Ok(Err(error))) => tracing::debug!("nothing is known of the last edits: {error}"),
                Ok(Err(error)) => tracing::error!("a comparison broke: {error}"),
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

/// Reads files. Each comes back with what it holds.
async fn read(files: Vec<SourceFile>) -> Vec<(Content, SourceFile)> {
    let read = |file: SourceFile| (source::read(&file.folder, &file.below), file);
    tokio::task::spawn_blocking(move || files.into_iter().map(read).collect()).await.unwrap_or_default()
}

/// Errors in files that were not there before they were edited.
async fn compare(
    server: Arc<ServerHandle>,
    files: BTreeMap<SourceFile, Before>,
) -> Result<Vec<Diagnostic>, ServerError> {
    let unseen: Vec<&PathBuf> = files.iter().filter(|(_, text)| text.is_none()).map(|(file, _)| &file.below).collect();
    let mut known: BTreeMap<PathBuf, Findings> = BTreeMap::new();
    if !unseen.is_empty() {
        // Nobody saw the texts before: what was known last is what there is.
        known.extend(server.recall(CheckPurpose::Comparison).await);
        known.retain(|below, _| unseen.contains(&below));
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
    server.tell_changed(changes).await;
    let now = check(&server, texts, CheckPurpose::Comparison).await?;
    let mut errors = Vec::new();
    for (file, _) in files {
        let findings = now.get(&file.below).map(|findings| &**findings).unwrap_or_default();
        let before = known.get(&file.below).map(|findings| &**findings).unwrap_or_default();
        errors.extend(new_errors(before, findings).into_iter().map(|finding| diagnostic(&file, finding)));
    }
    Ok(errors)
}

/// Findings in texts: no more at once than can be open.
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

/// Errors that are there more often than before, by what they say: lines move with every edit.
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

/// A finding for people and models.
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
