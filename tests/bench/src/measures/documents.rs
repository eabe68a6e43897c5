//! Documents: indexing of generated PDFs, compared with reading them, and searches, compared with grep on the same files.

use std::{fmt::Write as _, fs::File};

use agentd_core::knowledge::DocumentQuery;
use agentd_index::{Extractor, Kind, Limits, Piece};
use futures_util::future::try_join_all;

use super::*;

const DOCUMENTS: usize = 100;
/// Number of pages of each document.
const PAGES: usize = 40;
/// Number of lines on each page.
const LINES: usize = 40;
/// Number of words in each line.
const WORDS: usize = 8;
/// Number of words in each query.
const QUERY_WORDS: usize = 4;
/// Number of documents that are read at the same time, as in the daemon.
const READERS: usize = 2;
/// Number of searches for the floor, each of which reads all files.
const GREPS: usize = 5;
/// Parts of the generated words. Three parts make 4,096 words.
const SYLLABLES: [&str; 16] =
    ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu", "za"];

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let (paths, queries) = generate(folder.path())?;
    let reading = read(&paths).await?;
    let home = Home::empty()?;
    let daemon = home.start().await?;
    let session = daemon.client.create_session(&Default::default()).await?.session.summary.id.to_string();
    let (indexing, chunks) = add(&home, &session, &paths).await?;
    let peak = daemon.memory()?.peak;
    let (mut searches, mut greps) = (Samples::default(), Samples::default());
    for query in &queries {
        searches.add(search(&daemon, &session, query).await?);
    }
    for query in queries.iter().take(GREPS) {
        greps.add(code::grep(folder.path(), query.trim_matches('"')).await?);
    }
    let pages = (DOCUMENTS * PAGES) as u64;
    let speed = Figure::per_second("pages", rate(pages, indexing)).at_least(100.0);
    let memory = Figure::megabytes("daemon", peak).at_most(150.0);
    let times =
        vec![Figure::millis("p50", searches.median()).at_most(10.0), Figure::millis("p99", searches.percentile(99))];
    Ok(vec![
        Row::new(format!("indexing {DOCUMENTS} PDFs of {PAGES} pages"), vec![speed, memory])
            .over(Figure::per_second("reading", rate(pages, reading)))
            .with_note(format!("`agentctl docs add`, from files to {chunks} chunks; peak memory of the daemon")),
        Row::new("a search in these documents", times)
            .over(Figure::millis("by grep", greps.median()))
            .with_note(format!("{} queries through the socket, keywords and phrases in turn", queries.len())),
    ])
}

/// Writes PDFs into a folder. Returns their paths, and two queries for each.
fn generate(folder: &Path) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
    let (mut paths, mut queries, mut words) = (Vec::new(), Vec::new(), words());
    let mut line = |count: usize| words.by_ref().take(count).collect::<Vec<_>>().join(" ");
    for number in 0..DOCUMENTS {
        let (keywords, phrase) = (line(QUERY_WORDS), line(QUERY_WORDS));
        let mut pages: Vec<Vec<String>> = (0..PAGES).map(|_| (0..LINES).map(|_| line(WORDS)).collect()).collect();
        pages[0].push(keywords.clone());
        pages[PAGES - 1].push(phrase.clone());
        let path = folder.join(format!("report-{number}.pdf"));
        fs::write(&path, pdf(&pages))?;
        paths.push(path);
        queries.extend([keywords, format!("\"{phrase}\"")]);
    }
    Ok((paths, queries))
}

/// Returns an endless sequence of words, the same in every run. Their frequencies differ as in a real text.
fn words() -> impl Iterator<Item = String> {
    let mut state = 1_usize;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rank = (state >> 52).pow(3) >> 24;
        [rank >> 8, rank >> 4, rank].map(|digit| SYLLABLES[digit % SYLLABLES.len()]).concat()
    })
}

/// Returns an uncompressed PDF of these pages, each a list of lines.
fn pdf(pages: &[Vec<String>]) -> String {
    let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>".to_owned(),
    ];
    for (page, lines) in pages.iter().enumerate() {
        let content = format!("BT /F1 10 Tf 12 TL 50 750 Td\n({}) Tj\nET", lines.join(") Tj T*\n("));
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources 3 0 R /Contents {} 0 R >>",
            5 + 2 * page
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    let (mut text, mut offsets) = ("%PDF-1.7\n".to_owned(), String::new());
    for (number, object) in (1..).zip(&objects) {
        let _ = writeln!(offsets, "{:010} 00000 n ", text.len());
        let _ = writeln!(text, "{number} 0 obj\n{object}\nendobj");
    }
    let (start, size) = (text.len(), objects.len() + 1);
    let table = format!("xref\n0 {size}\n0000000000 65535 f \n{offsets}");
    format!("{text}{table}trailer\n<< /Root 1 0 R /Size {size} >>\nstartxref\n{start}\n%%EOF\n")
}

/// Measures the time to read all documents in workers, without an index.
async fn read(paths: &[PathBuf]) -> anyhow::Result<Duration> {
    let extractor = Extractor::new(world::program("agentd")?, Limits::default(), READERS);
    let started = Instant::now();
    try_join_all(paths.iter().map(|path| read_one(&extractor, path))).await?;
    Ok(started.elapsed())
}

async fn read_one(extractor: &Extractor, path: &Path) -> anyhow::Result<()> {
    let mut extraction = extractor.extract(File::open(path)?, Some(Kind::Pdf), CancellationToken::new()).await?;
    let mut parts = 0;
    while let Some(piece) = extraction.next().await {
        parts += usize::from(matches!(piece?, Piece::Part(_)));
    }
    ensure!(parts >= PAGES, "only {parts} parts of {} were read", path.display());
    Ok(())
}

/// Runs `agentctl docs add`, as a user would. Returns its time and the number of chunks.
async fn add(home: &Home, session: &str, paths: &[PathBuf]) -> anyhow::Result<(Duration, u64)> {
    let mut command = home.command("agentctl")?;
    command.args(["docs", "add", "--json", "--session", session]).args(paths);
    let started = Instant::now();
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
    let took = started.elapsed();
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "docs add exited with {}: {stderr}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let states = report["documents"].as_array().context("docs add lists no documents")?;
    ensure!(states.len() == paths.len(), "only {} of {} documents were indexed", states.len(), paths.len());
    Ok((took, states.iter().filter_map(|state| state["chunks"].as_u64()).sum()))
}

async fn search(daemon: &Daemon, session: &str, text: &str) -> anyhow::Result<Duration> {
    let query = DocumentQuery { text: text.to_owned(), regex: false, limit: 5, neighbours: false, begin_by: None };
    let started = Instant::now();
    let finds = daemon.client.search_documents(session, &[], &query, |_| {}).await?;
    let took = started.elapsed();
    ensure!(!finds.hits.is_empty(), "no results for {text:?}");
    Ok(took)
}
