//! The indexed documents, and the Python scripts that create and read them.

use tokio::process::Command;

use crate::measures::python::{self, Scripts};

use super::*;

/// Folder of the scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/documents");

/// The bench's own Python environment: packages in the target folder, and the corpus that the scripts created.
pub(super) struct Environment {
    scripts: Scripts,
    corpus: PathBuf,
}

impl Environment {
    /// Environment with the documents created by `make.py`.
    pub(super) async fn with_generated() -> anyhow::Result<Self> {
        Self::with("bench-corpus", &["make.py", "makers.py", "facts.py", "words.py", "real.py"]).await
    }

    /// Environment with manuals by other authors.
    pub(super) async fn with_manuals() -> anyhow::Result<Self> {
        Self::with("bench-manuals", &["manuals.py", "forms.py", "real.py"]).await
    }

    /// Environment with documents that are known to be difficult.
    pub(super) async fn with_foreign() -> anyhow::Result<Self> {
        Self::with("bench-foreign", &["foreign.py", "tables.py", "cells.py", "manuals.py", "forms.py", "real.py"]).await
    }

    /// Environment with malicious documents.
    pub(super) async fn with_hostile() -> anyhow::Result<Self> {
        Self::with(
            "bench-hostile",
            &["hostile.py", "foreign.py", "tables.py", "cells.py", "manuals.py", "forms.py", "real.py"],
        )
        .await
    }

    /// Environment with scans that contain known words.
    pub(super) async fn with_scans() -> anyhow::Result<Self> {
        Self::with(
            "bench-scans",
            &["scans.py", "foreign.py", "tables.py", "cells.py", "manuals.py", "forms.py", "real.py"],
        )
        .await
    }

    /// Creates the environment if necessary. Creation may fail, because packages come from the registries. The first
    /// script creates the corpus, using the other scripts.
    async fn with(corpus: &str, scripts: &[&str]) -> anyhow::Result<Self> {
        let environment =
            Self { scripts: Scripts::of(SCRIPTS, "bench-python")?, corpus: python::target()?.join(corpus) };
        environment.scripts.install_packages().await?;
        environment.make_corpus(scripts).await?;
        Ok(environment)
    }

    /// Creates the corpus once, and again after a script has changed.
    async fn make_corpus(&self, names: &[&str]) -> anyhow::Result<()> {
        let scripts = self.scripts.text(names)?;
        let stamp = self.corpus.join("scripts.txt");
        if fs::read_to_string(&stamp).is_ok_and(|known| known == scripts) {
            return Ok(());
        }
        python::say("generating the documents (about a minute)…");
        let maker = names.first().context("could not find the script")?;
        python::run(self.script(maker).arg(&self.corpus)).await.context("could not generate the documents")?;
        fs::write(stamp, scripts)?;
        Ok(())
    }

    /// A command for one of the scripts, with its packages.
    pub(super) fn script(&self, name: &str) -> Command {
        self.scripts.command(name)
    }

    pub(super) fn corpus(&self) -> anyhow::Result<Corpus> {
        let text = fs::read_to_string(self.corpus.join("corpus.json"))?;
        let corpus: Corpus = serde_json::from_str(&text)?;
        Ok(Corpus { folder: self.corpus.clone(), ..corpus })
    }
}

/// Description of the corpus, written by the script that created it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Corpus {
    #[serde(skip)]
    pub(super) folder: PathBuf,
    pub(super) documents: Vec<Document>,
    #[serde(default)]
    pub(super) filler: Vec<Document>,
    pub(super) questions: Vec<Question>,
    /// Further questions, grouped by form.
    #[serde(default)]
    pub(super) kinds: Vec<Question>,
    #[serde(default)]
    pub(super) long: Long,
    /// Number of documents by other authors.
    #[serde(default)]
    pub(super) real: usize,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) pages: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Question {
    document: String,
    page: Option<Page>,
    pub(super) query: String,
    /// Form of the question, if there are several.
    #[serde(default)]
    pub(super) form: Option<String>,
    /// Language of the question, if there are several.
    #[serde(default)]
    pub(super) language: Option<String>,
}

/// Number of a page or slide, or name of a sheet.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Page {
    Number(u32),
    Name(String),
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Long {
    pub(super) document: String,
    pub(super) query: String,
}

impl Corpus {
    pub(super) fn paths<'a>(&'a self, documents: &'a [Document]) -> impl Iterator<Item = PathBuf> + 'a {
        documents.iter().map(|document| self.folder.join(&document.name))
    }

    pub(super) fn pages(&self) -> u64 {
        self.documents.iter().map(|document| document.pages).sum()
    }
}

impl Question {
    /// Returns true if the question is in Chinese.
    pub(super) fn is_chinese(&self) -> bool {
        self.query.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter))
    }

    /// Returns true if the answer is at this location: a citation, or just a page or sheet.
    pub(super) fn is_answered(&self, document: &str, location: &str) -> bool {
        let is_there = match &self.page {
            None => true,
            Some(Page::Number(number)) => {
                let location =
                    location.strip_prefix("p. ").or_else(|| location.strip_prefix("slide ")).unwrap_or(location);
                location == number.to_string()
            }
            Some(Page::Name(name)) => {
                let sheet = location.rsplit_once('!').map_or(location, |(sheet, _)| sheet);
                sheet.trim_matches('\'') == name
            }
        };
        is_there && Path::new(document).file_name().is_some_and(|name| name.to_string_lossy() == self.document)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_must_be_the_right_page_of_the_document() {
        let check = |page: serde_json::Value, document: &str, location: &str, expected: bool| {
            let question: Question =
                serde_json::from_value(json!({"document": "a.pdf", "page": page, "query": "q"})).unwrap();
            assert_eq!(question.is_answered(document, location), expected, "{page} {document} {location}");
        };
        check(json!(12), "uploads/a.pdf", "p. 12", true);
        check(json!(12), "a.pdf", "12", true);
        check(json!(12), "a.pdf", "slide 12", true);
        check(json!(1), "a.pdf", "p. 12", false);
        check(json!(12), "b.pdf", "p. 12", false);
        check(json!("Sales 1"), "a.pdf", "'Sales 1'!A2:B3", true);
        check(json!("Sales 1"), "a.pdf", "Sales 1", true);
        check(json!("Sales 1"), "a.pdf", "'Sales 10'!A2:B3", false);
        check(json!(null), "uploads/a.pdf", "", true);
    }
}
