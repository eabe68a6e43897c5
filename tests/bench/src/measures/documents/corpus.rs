//! The indexed documents, and the Python scripts that create and read them.

use tokio::process::Command;

use crate::measures::python::{self, Scripts};

use super::*;

/// Folder of the scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/documents");

/// Source of a corpus: its folder, and the scripts. The first script creates the corpus and uses the other scripts.
#[derive(Clone, Copy)]
pub(super) struct CorpusSource {
    folder: &'static str,
    scripts: &'static [&'static str],
}

/// Documents generated from a fixed seed.
pub(super) const GENERATED: CorpusSource =
    CorpusSource { folder: "bench-corpus", scripts: &["make.py", "makers.py", "facts.py", "words.py", "real.py"] };

/// Manuals by other authors.
pub(super) const MANUALS: CorpusSource =
    CorpusSource { folder: "bench-manuals", scripts: &["manuals.py", "forms.py", "real.py"] };

/// Documents that are known to be difficult.
pub(super) const FOREIGN: CorpusSource = CorpusSource {
    folder: "bench-foreign",
    scripts: &["foreign.py", "tables.py", "cells.py", "manuals.py", "forms.py", "real.py"],
};

/// Hostile documents that must not stop the reader.
pub(super) const HOSTILE: CorpusSource = CorpusSource {
    folder: "bench-hostile",
    scripts: &["hostile.py", "foreign.py", "tables.py", "cells.py", "manuals.py", "forms.py", "real.py"],
};

/// Scans whose words are known.
pub(super) const SCANS: CorpusSource = CorpusSource {
    folder: "bench-scans",
    scripts: &["scans.py", "foreign.py", "tables.py", "cells.py", "manuals.py", "forms.py", "real.py"],
};

/// Returns the row of a subject that is not measured, with the reason.
pub(super) fn unmeasured(subject: &str, reason: impl std::fmt::Display) -> Vec<Row> {
    vec![Row::new(subject, Vec::new()).with_note(format!("not measured: {reason}"))]
}

/// Measures a subject with its corpus, or reports why there is no corpus.
pub(super) async fn with_corpus(
    subject: &str,
    source: CorpusSource,
    measure: impl AsyncFnOnce(Environment, Corpus) -> anyhow::Result<Vec<Row>>,
) -> anyhow::Result<Vec<Row>> {
    match Environment::with(source).await {
        Ok(environment) => {
            let corpus = environment.corpus()?;
            measure(environment, corpus).await
        }
        Err(reason) => Ok(unmeasured(subject, format!("{reason:#}"))),
    }
}

/// The benchmark's own Python environment: packages in the target folder, and the corpus that the scripts created.
pub(super) struct Environment {
    scripts: Scripts,
    corpus: PathBuf,
}

impl Environment {
    /// Creates the environment if necessary. This can fail, because packages are downloaded from the registries.
    async fn with(source: CorpusSource) -> anyhow::Result<Self> {
        let CorpusSource { folder, scripts } = source;
        let environment =
            Self { scripts: Scripts::of(SCRIPTS, "bench-python")?, corpus: python::target()?.join(folder) };
        environment.scripts.install_packages().await?;
        environment.make_corpus(scripts).await?;
        Ok(environment)
    }

    /// Creates the corpus if it does not exist or a script has changed.
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

    /// Returns a command that runs one of the scripts with its packages.
    pub(super) fn script(&self, name: &str) -> Command {
        self.scripts.command(name)
    }

    fn corpus(&self) -> anyhow::Result<Corpus> {
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

    /// Returns true if the answer is at this location, which is a citation or just a page or sheet.
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
