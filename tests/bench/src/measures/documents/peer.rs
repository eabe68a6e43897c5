//! Runs the other stack through its script.

use crate::measures::python::answer;

use super::*;

/// Result of an indexing run.
#[derive(Debug, Deserialize)]
pub(super) struct Indexed {
    pub(super) seconds: f64,
    pub(super) chunks: u64,
    /// Peak memory of the stack's process, in bytes.
    pub(super) peak: u64,
}

/// Result of a search run.
#[derive(Debug, Deserialize)]
pub(super) struct Searched {
    /// Time of each query in each round.
    pub(super) millis: Vec<f64>,
    /// The results for each question.
    found: Vec<Vec<Find>>,
}

#[derive(Debug, Deserialize)]
struct Find {
    document: String,
    page: Option<String>,
}

impl Searched {
    /// Returns the rank of the answer to each question.
    pub(super) fn answered(&self, questions: &[Question]) -> Vec<Rank> {
        let rank = |(question, finds): (&Question, &Vec<Find>)| {
            finds.iter().position(|find| question.is_answered(&find.document, find.page.as_deref().unwrap_or_default()))
        };
        questions.iter().zip(&self.found).map(rank).collect()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct First {
    pub(super) seconds: f64,
}

/// The other stack and its database.
pub(super) struct Peer<'a> {
    environment: &'a Environment,
    database: PathBuf,
    folder: &'a Path,
}

impl<'a> Peer<'a> {
    /// Creates the stack with a database at this path.
    pub(super) fn new(environment: &'a Environment, corpus: &'a Corpus, database: PathBuf) -> Self {
        Self { environment, database, folder: &corpus.folder }
    }

    /// Indexes `documents` or `filler`.
    pub(super) async fn index(&self, which: &str) -> anyhow::Result<Indexed> {
        let mut script = self.environment.script("peer.py");
        answer(script.arg("index").arg(&self.database).arg(self.folder).arg(which)).await
    }

    /// Asks `questions` or `kinds`.
    pub(super) async fn search(&self, which: &str) -> anyhow::Result<Searched> {
        let mut script = self.environment.script("peer.py");
        answer(script.arg("search").arg(&self.database).arg(self.folder).arg(which)).await
    }

    pub(super) async fn first(&self) -> anyhow::Result<First> {
        let mut script = self.environment.script("peer.py");
        answer(script.arg("first").arg(self.folder)).await
    }
}
