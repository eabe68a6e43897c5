//! Documents by other authors: the share of the words read by other libraries that is also extracted, and whether the
//! words are in the same order.

use crate::measures::python::answer;

use super::{texts::Texts, *};

/// Minimum share of the other library's words, in percent.
const MIN_WORDS_PERCENT: f64 = 99.0;
/// Maximum number of documents with missing words that are listed.
const MAX_NAMED: usize = 6;

/// Output of the script for documents of one format.
#[derive(Debug, Deserialize)]
struct Verdict {
    documents: u64,
    words: u64,
    /// Number of extracted words.
    found: u64,
    /// Number of words whose order is compared. `ordered` counts the words in the same order.
    compared: u64,
    ordered: u64,
    /// Documents with less than nine tenths of their words.
    worst: Vec<String>,
}

/// Output of the script for workbooks.
#[derive(Debug, Deserialize)]
struct BookVerdict {
    books: u64,
    cells: u64,
    equal: u64,
    comments: u64,
    /// Number of extracted comments.
    said: u64,
    /// Workbooks with cells that differ.
    wrong: Vec<String>,
}

/// Output of the script for PDFs, compared with pdfplumber.
#[derive(Debug, Deserialize)]
struct PlumberVerdict {
    documents: u64,
    words: u64,
    /// Number of extracted words.
    found: u64,
    /// Number of pages that contain tables.
    pages: u64,
    /// Number of adjacent cells in a row, according to both pdfplumber and PyMuPDF.
    pairs: u64,
    /// Number of these pairs that are also adjacent in an extracted table.
    beside: u64,
    /// Pages on which most pairs are not adjacent in an extracted table.
    apart: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Verdicts {
    texts: BTreeMap<String, Verdict>,
    books: BookVerdict,
    plumber: PlumberVerdict,
}

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    with_corpus("foreign documents", FOREIGN, measure_corpus).await
}

async fn measure_corpus(environment: Environment, corpus: Corpus) -> anyhow::Result<Vec<Row>> {
    let started = Instant::now();
    let texts = Texts::read(&corpus.folder, &corpus.documents).await?;
    let took = started.elapsed();
    let folder = world::folder()?;
    let texts_file = texts.write(folder.path())?;
    let mut script = environment.script("foreign.py");
    let verdicts: Verdicts = answer(script.arg("judge").arg(&corpus.folder).arg(&texts_file)).await?;
    let mut rows: Vec<Row> = verdicts.texts.iter().flat_map(|(format, verdict)| of_format(format, verdict)).collect();
    rows.extend(of_books(&verdicts.books));
    rows.extend(of_plumber(&verdicts.plumber));
    rows.push(
        Row::new("pages read per second", vec![Figure::per_second("", rate(corpus.pages(), took))])
            .with_note(format!("{} pages", corpus.pages())),
    );
    Ok(rows)
}

fn share(part: u64, whole: u64) -> f64 {
    100.0 * as_f64(part) / as_f64(whole.max(1))
}

fn of_books(verdict: &BookVerdict) -> [Row; 2] {
    let BookVerdict { books, cells, equal, comments, said, wrong } = verdict;
    let named = wrong.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let note = format!("{books} files, {cells} cells; {named}");
    [
        Row::new(
            "cells extracted from foreign workbooks",
            vec![Figure::percent("", share(*equal, *cells)).at_least(MIN_WORDS_PERCENT)],
        )
        .with_note(note),
        Row::new(
            "comments extracted from foreign workbooks",
            vec![Figure::percent("", share(*said, *comments)).at_least(MIN_WORDS_PERCENT)],
        )
        .with_note(format!("{said} of {comments}")),
    ]
}

fn of_plumber(verdict: &PlumberVerdict) -> [Row; 2] {
    let PlumberVerdict { documents, words, found, pages, pairs, beside, apart } = verdict;
    [
        Row::new(
            "words of PDFs that pdfplumber also reads",
            vec![Figure::percent("", share(*found, *words)).at_least(MIN_WORDS_PERCENT)],
        )
        .with_note(format!("first pages of {documents} files, {words} words, each counted once per page")),
        Row::new("adjacent table cells", vec![Figure::percent("", share(*beside, *pairs))]).with_note(format!(
            "{pairs} pairs found by both pdfplumber and PyMuPDF on {pages} pages; {}",
            apart.join(", ")
        )),
    ]
}

fn of_format(format: &str, verdict: &Verdict) -> [Row; 2] {
    let Verdict { documents, words, found, compared, ordered, worst } = verdict;
    let named = worst.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let note = format!(
        "{documents} files, {words} words, each counted once per page; {:.1} % in the same order",
        share(*ordered, *compared)
    );
    let missing = Figure::count("", as_f64(worst.len() as u64)).at_most(0.0);
    [
        Row::new(
            format!("words extracted from foreign {format}"),
            vec![Figure::percent("", share(*found, *words)).at_least(MIN_WORDS_PERCENT)],
        )
        .with_note(note),
        Row::new(format!("foreign {format} with over a tenth of the words missing"), vec![missing]).with_note(named),
    ]
}
