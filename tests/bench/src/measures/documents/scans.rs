//! Scans: the share of words that are recognised, and the pages per second.

use std::{env, fs::File};

use agentd_index::{DocumentPlace, Extractor, Limits, Recognition, RecognitionConfig};

use crate::measures::python::answer;

use super::{texts::parts, *};

/// Minimum share of recognised words in the usual scans, in percent.
const MIN_WORDS_PERCENT: f64 = 90.0;
/// Minimum number of pages per second.
const MIN_PAGES_PER_SECOND: f64 = 1.0;
/// Number of pages of a document that are recognised in one call. No document has that many.
const PAGES_PER_CALL: u32 = 100;

/// Output of the script for one kind of scan.
#[derive(Debug, Deserialize)]
struct Verdict {
    words: u64,
    /// Number of recognised words.
    found: u64,
    /// Number of words that are compared without surrounding spaces. `ordered` counts the matching words.
    compared: u64,
    ordered: u64,
}

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let config = RecognitionConfig { folders: folders(), pages: PAGES_PER_CALL };
    if let Recognition::Missing(reason) = config.now() {
        return Ok(unmeasured("scans", reason.hint()));
    }
    with_corpus("scans", SCANS, async move |environment, corpus| measure_corpus(config, environment, corpus).await)
        .await
}

async fn measure_corpus(
    config: RecognitionConfig,
    environment: Environment,
    corpus: Corpus,
) -> anyhow::Result<Vec<Row>> {
    let extractor = Extractor::new(world::program("agentd")?, Limits::default(), 1).recognising(config);
    let mut texts: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let started = Instant::now();
    for (document, path) in corpus.documents.iter().zip(corpus.paths(&corpus.documents)) {
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let pages = texts.entry(&document.name).or_default();
        for part in parts(&extractor, file, &document.name).await {
            if let DocumentPlace::ScannedPage(number) = part.place {
                pages.entry(number.to_string()).or_default().push_str(&part.markdown());
            }
        }
    }
    let took = started.elapsed();
    let folder = world::folder()?;
    let texts_file = folder.path().join("texts.json");
    std::fs::write(&texts_file, serde_json::to_vec(&texts)?)?;
    let mut script = environment.script("scans.py");
    let verdicts: BTreeMap<String, Verdict> = answer(script.arg("judge").arg(&corpus.folder).arg(&texts_file)).await?;
    let mut rows: Vec<Row> = verdicts.iter().map(|(kind, verdict)| of_kind(kind, verdict)).collect();
    let figure = Figure::per_second("", rate(corpus.pages(), took)).at_least(MIN_PAGES_PER_SECOND);
    let note = format!("{} pages, one document at a time", corpus.pages());
    rows.push(Row::new("scanned pages per second", vec![figure]).with_note(note));
    Ok(rows)
}

/// Returns the candidates for the data folder in which `make recognition` stores the models.
fn folders() -> Vec<PathBuf> {
    let data = env::var_os("AGENTD_DATA_DIR").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share/agentd"));
    data.or(home).map(|data| data.join("models")).into_iter().collect()
}

fn of_kind(kind: &str, verdict: &Verdict) -> Row {
    let share = |part: u64, whole: u64| 100.0 * as_f64(part) / as_f64(whole.max(1));
    let figure = Figure::percent("", share(verdict.found, verdict.words));
    let figure = if kind.ends_with("-usual") || kind == "real" { figure.at_least(MIN_WORDS_PERCENT) } else { figure };
    let note = format!(
        "{} words; {:.1} % correct if spaces are ignored",
        verdict.words,
        share(verdict.ordered, verdict.compared)
    );
    Row::new(format!("words of scans: {kind}"), vec![figure]).with_note(note)
}
