//! Adds, indexes and searches documents, first through the daemon's socket and then with the library alone.

use std::fs::File;

use agentd_core::{
    knowledge::{DocumentFinds, DocumentQuery, OpenDocument},
    ports::Knowledge as _,
};
use agentd_index::{Extractor, IndexConfig, Library, Limits};

use super::{corpus::Document, memory::Watch, *};

/// Number of requested results. An answer counts if these results include the right page.
pub(super) const MAX_RESULTS: usize = 5;
/// Number of measurements per question.
const ROUNDS: usize = 5;

/// A daemon with documents.
pub(super) struct Ours {
    home: Home,
    daemon: Daemon,
    session: String,
}

/// Result of adding documents to the daemon.
pub(super) struct Given {
    pub(super) took: Duration,
    pub(super) chunks: u64,
    pub(super) peaks: Peaks,
    /// Names of documents that could not be read, each with a reason.
    pub(super) problems: Vec<String>,
}

impl Ours {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let home = Home::empty()?;
        let daemon = home.start().await?;
        let session = daemon.client.create_session(&Default::default()).await?.session.summary.id.to_string();
        Ok(Self { home, daemon, session })
    }

    /// Runs `agentctl docs add`, as a user would.
    pub(super) async fn add(&self, corpus: &Corpus, documents: &[Document]) -> anyhow::Result<Given> {
        let mut command = self.home.command("agentctl")?;
        command.args(["docs", "add", "--json", "--session", &self.session]).args(corpus.paths(documents));
        let watch = Watch::of(self.daemon.id());
        let started = Instant::now();
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
        let took = started.elapsed();
        let peaks = watch.peaks();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "docs add exited with {}: {stderr}", output.status);
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let states = report["documents"].as_array().context("docs add lists no documents")?;
        ensure!(states.len() == documents.len(), "only {} of {} documents were indexed", states.len(), documents.len());
        let problem = |state: &Value| Some(format!("{}: {}", state["name"].as_str()?, state["problem"].as_str()?));
        Ok(Given {
            took,
            chunks: states.iter().filter_map(|state| state["chunks"].as_u64()).sum(),
            peaks,
            problems: states.iter().filter_map(problem).collect(),
        })
    }

    /// Returns the number of child processes that are still running.
    pub(super) fn workers(&self) -> usize {
        memory::children(self.daemon.id()).len()
    }

    /// Measures the very first search, in a newly uploaded document.
    pub(super) async fn first(&self, path: &Path, query: &str) -> anyhow::Result<Duration> {
        let name = path.file_name().context("the document has no name")?.to_string_lossy().into_owned();
        let uploaded = self.daemon.client.upload(&self.session, &name, tokio::fs::File::open(path).await?).await?;
        let started = Instant::now();
        let finds =
            self.daemon.client.search_documents(&self.session, &[uploaded.path], &search_query(query), |_| {}).await?;
        let took = started.elapsed();
        ensure!(!finds.hits.is_empty(), "{query:?} was not found in {name}: {:?}", finds.broken);
        Ok(took)
    }

    /// Asks all questions about all documents through the socket. Returns the time of each question, and the rank of
    /// its answer.
    pub(super) async fn search(&self, questions: &[Question]) -> anyhow::Result<(Samples, Vec<Rank>)> {
        let (mut samples, mut answered) = (Samples::default(), Vec::new());
        for question in questions {
            let finds =
                self.daemon.client.search_documents(&self.session, &[], &search_query(&question.query), |_| {}).await?;
            answered.push(rank(question, &finds));
        }
        for question in questions {
            let query = search_query(&question.query);
            let started = Instant::now();
            self.daemon.client.search_documents(&self.session, &[], &query, |_| {}).await?;
            samples.add(started.elapsed());
        }
        Ok((samples, answered))
    }

    /// Stops the daemon, and queries its library directly with the same index and files. This measures a search without
    /// the cost of the socket and of opening files.
    pub(super) async fn search_within(self, questions: &[Question]) -> anyhow::Result<Samples> {
        let Self { home, daemon, session } = self;
        drop(daemon);
        let uploads = home.data().join("workspace").join(session).join("uploads");
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let extractor = Extractor::new(world::program("agentd")?, Limits::default(), 1);
        let library = Library::new(extractor, IndexConfig::new(home.data().join("index"), Arc::new(now)));
        let mut samples = Samples::default();
        for round in 0..=ROUNDS {
            for question in questions {
                let documents = opened(&uploads)?;
                let (query, cancel) = (search_query(&question.query), CancellationToken::new());
                let started = Instant::now();
                library.search(documents, query, Arc::new(|_| {}), cancel).await?;
                // The first round only warms up caches.
                if round > 0 {
                    samples.add(started.elapsed());
                }
            }
        }
        library.close().await;
        Ok(samples)
    }
}

fn search_query(query: &str) -> DocumentQuery {
    DocumentQuery { text: query.to_owned(), regex: false, limit: MAX_RESULTS, neighbours: false, begin_by: None }
}

fn rank(question: &Question, finds: &DocumentFinds) -> Rank {
    finds.hits.iter().take(MAX_RESULTS).position(|hit| question.is_answered(&hit.document, &hit.place))
}

fn opened(folder: &Path) -> anyhow::Result<Vec<OpenDocument>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    let open = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(OpenDocument::new(format!("uploads/{name}"), File::open(path)?))
    };
    paths.into_iter().map(open).collect()
}
