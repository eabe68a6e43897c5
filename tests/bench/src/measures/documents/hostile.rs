//! Malicious and damaged documents: each results in a readable message, and the daemon is unaffected. For the largest
//! documents, reading the end is also compared with reading the beginning.

use std::fs::File;

use agentd_index::{Extractor, Kind, Limits, Piece, WantedParts, Window};

use crate::measures::python::answer;

use super::{corpus::Document, texts::Texts, *};

/// Maximum memory of the daemon, in megabytes.
const MAX_MEMORY: f64 = 150.0;
/// Number of characters read from rows.
const CHARACTERS: usize = 20_000;
/// Number of reads at each end of a document.
const READS: usize = 3;
/// Minimum share of the words in damaged PDFs, in percent.
const MIN_WORDS_PERCENT: f64 = 84.0;
/// Form of a question that must not be answered.
const SECRET: &str = "secret";

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    with_corpus("hostile documents", HOSTILE, measure_corpus).await
}

async fn measure_corpus(environment: Environment, corpus: Corpus) -> anyhow::Result<Vec<Row>> {
    let daemon = Ours::start().await?;
    let mut rows = Vec::new();
    for (label, documents) in [("with malicious content", &corpus.documents), ("damaged at random", &corpus.filler)] {
        let given = daemon.add(&corpus, documents).await?;
        rows.extend(of_given(label, documents, &given, daemon.workers()));
    }
    rows.extend(found(&daemon, &corpus).await?);
    rows.extend(read_both_ends(&corpus).await?);
    let row = words(&environment, &corpus).await;
    rows.push(row.unwrap_or_else(|reason| Row::broken("words of damaged PDFs", format!("not measured: {reason:#}"))));
    Ok(rows)
}

/// Returns true if the message describes a problem with the file, rather than a crash of the reader.
fn is_clear(problem: &str) -> bool {
    problem.contains("could not read") && !problem.contains("its reader") && !problem.contains(char::is_control)
}

fn of_given(label: &str, documents: &[Document], given: &Given, workers: usize) -> [Row; 2] {
    let unclear: Vec<&str> = given.problems.iter().map(String::as_str).filter(|problem| !is_clear(problem)).collect();
    let count = |number: usize| as_f64(number as u64);
    let figures = vec![
        Figure::count("unclear", count(unclear.len())).at_most(0.0),
        Figure::count("workers left", count(workers)).at_most(0.0),
    ];
    let note = format!(
        "{} files in {:.0} s: {} read whole, {} reported with the reason{}{}",
        documents.len(),
        given.took.as_secs_f64(),
        documents.len() - given.problems.len(),
        given.problems.len(),
        if unclear.is_empty() { "" } else { ": " },
        unclear.join("; "),
    );
    let memory = vec![
        Figure::megabytes("daemon", given.peaks.daemon).at_most(MAX_MEMORY),
        Figure::megabytes("largest worker", given.peaks.worker),
    ];
    [
        Row::new(format!("documents {label}"), figures).with_note(note),
        Row::new(format!("resident memory with documents {label}"), memory),
    ]
}

/// Checks that the daemon, after reading all documents, finds text in some of them, but none from the files they refer
/// to.
async fn found(daemon: &Ours, corpus: &Corpus) -> anyhow::Result<[Row; 2]> {
    let (secrets, questions): (Vec<Question>, Vec<Question>) =
        corpus.questions.iter().cloned().partition(|question| question.form.as_deref() == Some(SECRET));
    let (times, answered) = daemon.search(&questions).await?;
    let (_, leaks) = daemon.search(&secrets).await?;
    let share = share(&questions, &answered, usize::MAX, |_| true);
    let leaked = leaks.iter().flatten().count() as u64;
    Ok([
        Row::new("text found after all documents were added", vec![Figure::percent("", share).at_least(100.0)])
            .with_note(format!("{} searches, the slowest took {:.0} ms", answered.len(), times.percentile(100))),
        Row::new("host files exposed by links in documents", vec![Figure::count("", as_f64(leaked)).at_most(0.0)]),
    ])
}

/// Measures reading the first and the last pages and rows of documents.
async fn read_both_ends(corpus: &Corpus) -> anyhow::Result<[Row; 2]> {
    let page = |number| WantedParts { first: number, last: Some(number), ..WantedParts::default() };
    let row = |row| WantedParts { window: Some(Window { row, letters: CHARACTERS }), ..WantedParts::default() };
    let (first_page, last_page) =
        (read(corpus, "pages.pdf", page(1)).await?, read(corpus, "pages.pdf", page(20_000)).await?);
    let (first_row, last_row) =
        (read(corpus, "rows.xlsx", row(1)).await?, read(corpus, "rows.xlsx", row(999_000)).await?);
    Ok([
        Row::new("reading page 20,000 of a PDF", vec![Figure::millis("", last_page.median())])
            .over(Figure::millis("page 1", first_page.median())),
        Row::new("reading row 999,000 of a workbook", vec![Figure::millis("", last_row.median())])
            .over(Figure::millis("row 1", first_row.median())),
    ])
}

/// Output of the script for damaged PDFs.
#[derive(Debug, Deserialize)]
struct Verdict {
    documents: u64,
    /// Number of words that PyMuPDF reads, counted once per page. `found` counts the extracted words.
    words: u64,
    found: u64,
    /// The PDFs with the most missing words.
    worst: Vec<String>,
}

/// Compares the extracted words with those that another library reads in damaged PDFs.
async fn words(environment: &Environment, corpus: &Corpus) -> anyhow::Result<Row> {
    let damaged = corpus.filler.iter().filter(|document| document.name.ends_with(".pdf"));
    let texts = Texts::read(&corpus.folder, damaged).await?;
    let folder = world::folder()?;
    let mut script = environment.script("hostile.py");
    let script = script.arg("judge").arg(&corpus.folder).arg(texts.write(folder.path())?);
    let Verdict { documents, words, found, worst } = answer(script).await?;
    let share = 100.0 * as_f64(found) / as_f64(words.max(1));
    Ok(Row::new(
        "words of damaged PDFs that PyMuPDF reads",
        vec![Figure::percent("", share).at_least(MIN_WORDS_PERCENT)],
    )
    .with_note(format!("{documents} files, {words} words; files with the most missing words: {}", worst.join(", "))))
}

/// Measures the time from opening a file to the last requested part.
async fn read(corpus: &Corpus, name: &str, wanted: WantedParts) -> anyhow::Result<Samples> {
    let extractor = Extractor::new(world::program("agentd")?, Limits::default(), 1);
    let path = corpus.folder.join("bombs").join(name);
    let mut samples = Samples::default();
    for _ in 0..READS {
        let started = Instant::now();
        let wanted = WantedParts { named: Kind::of_name(name), ..wanted.clone() };
        let mut extraction = extractor.extract(File::open(&path)?, wanted, CancellationToken::new()).await?;
        let mut parts = 0;
        while let Some(piece) = extraction.next().await {
            parts += u32::from(matches!(piece?, Piece::Part(_)));
        }
        ensure!(parts > 0, "no part of {name} was read");
        samples.add(started.elapsed());
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_problem_states_what_is_wrong_with_the_file() {
        assert!(is_clear("could not read a.docx: it is too large; split it"));
        assert!(!is_clear("could not read a.docx: its reader was lost"));
        assert!(!is_clear("a.docx: error 5"));
    }
}
