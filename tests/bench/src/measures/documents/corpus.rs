//! The documents that are indexed, and the Python that makes and reads them.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use tokio::process::Command;

/// Where the scripts are.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/documents");

/// The bench's own environment: packages beside the build, and the corpus that they made.
pub(super) struct Environment {
    python: String,
    packages: PathBuf,
    corpus: PathBuf,
}

impl Environment {
    /// The environment, made where it is not there yet; its packages come from the registry, so that may fail.
    pub(super) async fn prepared() -> anyhow::Result<Self> {
        let built = std::env::current_exe()?;
        let target = built.parent().and_then(Path::parent).context("the bench is in no folder")?.to_owned();
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let environment = Self { python, packages: target.join("bench-python"), corpus: target.join("bench-corpus") };
        environment.bring_packages().await?;
        environment.make_corpus().await?;
        Ok(environment)
    }

    async fn bring_packages(&self) -> anyhow::Result<()> {
        let wanted = Path::new(SCRIPTS).join("requirements.txt");
        let ready = self.packages.join("ready.txt");
        if fs::read(&ready).is_ok_and(|known| fs::read(&wanted).is_ok_and(|wanted| known == wanted)) {
            return Ok(());
        }
        say("bringing the Python packages of the comparison…");
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"]);
        run(pip.arg(&self.packages).arg("-r").arg(&wanted))
            .await
            .context("its Python packages could not be brought")?;
        fs::copy(wanted, ready)?;
        Ok(())
    }

    /// Made once, and again when a script changes.
    async fn make_corpus(&self) -> anyhow::Result<()> {
        let made_by = ["make.py", "makers.py", "facts.py", "words.py", "real.py"];
        let scripts = made_by.map(|name| fs::read_to_string(Path::new(SCRIPTS).join(name)));
        let scripts = scripts.into_iter().collect::<io::Result<String>>()?;
        let stamp = self.corpus.join("scripts.txt");
        if fs::read_to_string(&stamp).is_ok_and(|known| known == scripts) {
            return Ok(());
        }
        say("making the documents, which takes a minute…");
        run(self.script("make.py").arg(&self.corpus)).await.context("the documents could not be made")?;
        fs::write(stamp, scripts)?;
        Ok(())
    }

    /// One of the scripts, with its packages.
    pub(super) fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command
            .arg(Path::new(SCRIPTS).join(name))
            .env("PYTHONPATH", &self.packages)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    pub(super) fn corpus(&self) -> anyhow::Result<Corpus> {
        let text = fs::read_to_string(self.corpus.join("corpus.json"))?;
        let corpus: Corpus = serde_json::from_str(&text)?;
        Ok(Corpus { folder: self.corpus.clone(), ..corpus })
    }
}

/// Runs a command to its end; what it says to people goes to them.
async fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).status().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// What `make.py` says of the corpus.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Corpus {
    #[serde(skip)]
    pub(super) folder: PathBuf,
    pub(super) documents: Vec<Document>,
    pub(super) filler: Vec<Document>,
    pub(super) questions: Vec<Question>,
    pub(super) long: Long,
    /// How many of the documents others made.
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
}

/// The number of a page or a slide, or the name of a sheet.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Page {
    Number(u32),
    Name(String),
}

#[derive(Debug, Clone, Deserialize)]
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
    /// Returns whether it was asked in Chinese.
    pub(super) fn is_chinese(&self) -> bool {
        self.query.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter))
    }

    /// Returns whether this is where the answer stands. `place` is what is cited, or a page or sheet by itself.
    pub(super) fn is_answered(&self, document: &str, place: &str) -> bool {
        let is_there = match &self.page {
            None => true,
            Some(Page::Number(number)) => {
                let place = place.strip_prefix("p. ").or_else(|| place.strip_prefix("slide ")).unwrap_or(place);
                place == number.to_string()
            }
            Some(Page::Name(name)) => {
                let sheet = place.rsplit_once('!').map_or(place, |(sheet, _)| sheet);
                sheet.trim_matches('\'') == name
            }
        };
        is_there && Path::new(document).file_name().is_some_and(|name| name.to_string_lossy() == self.document)
    }
}

/// The last line that a script prints, as JSON.
pub(super) async fn answer<T: serde::de::DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).output().await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        bail!("the other stack ended with {}: {said}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_the_right_page_of_the_right_document() {
        let check = |page: serde_json::Value, document: &str, place: &str, expected: bool| {
            let question: Question =
                serde_json::from_value(json!({"document": "a.pdf", "page": page, "query": "q"})).unwrap();
            assert_eq!(question.is_answered(document, place), expected, "{page} {document} {place}");
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
