//! Source code: the first index, changes, searches and maps, measured on the worker that the daemon starts for a
//! folder. The quality of answers is also measured if annotations are available.

mod quality;

use agentd_code::{CodePool, PoolConfig};
use agentd_core::{
    code::{CodeAnswer, CodeQuestion},
    ports::CodeReader as _,
};
use tokio::process::Command;

use super::*;

/// Minimum number of lines in the tree, which consists of crates that cargo has unpacked.
const LINES: u64 = 1_000_000;
/// Number of files in the mapped folder.
const MAP_FILES: usize = 5000;
/// Number of rounds over all questions.
const ROUNDS: usize = 20;
/// Number of files that are changed.
const CHANGES: usize = 30;
/// Number of maps that are drawn.
const MAPS: usize = 11;
/// Number of searches for the floor, each of which reads the whole tree.
const GREPS: usize = 3;
/// Queries of three kinds: words, symbols and questions.
const QUERIES: [&str; 8] = [
    "how is a connection closed when the peer resets it",
    "parse a header value",
    "Deserialize",
    "where are tasks woken",
    "poll_next",
    "utf8 validation",
    "retry with backoff",
    "BTreeMap::range",
];

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let (root, lines) = tokio::task::block_in_place(|| tree(folder.path()))?;
    let mut rows = tree_rows(&root, lines).await?;
    rows.push(map_row(folder.path()).await?);
    if let (Some(annotations), Some(sources)) = (at("AGENTD_CODE_ANNOTATIONS"), at("AGENTD_CODE_SOURCES")) {
        rows.extend(tokio::task::block_in_place(|| quality::measure(&annotations, &sources))?);
    }
    Ok(rows)
}

fn at(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

/// Copies the sources of crates that cargo has unpacked until the tree has at least [`LINES`] lines.
fn tree(folder: &Path) -> anyhow::Result<(PathBuf, u64)> {
    let root = folder.join("tree");
    let mut lines = 0;
    for file in source_files()? {
        let Ok(text) = fs::read(&file.0) else { continue };
        lines += as_u64(memchr::memchr_iter(b'\n', &text).count());
        let path = root.join(&file.1);
        fs::create_dir_all(path.parent().context("the path has no parent")?)?;
        fs::write(path, text)?;
        if lines >= LINES {
            return Ok((root, lines));
        }
    }
    bail!("too little unpacked source in the cargo registry: {lines} lines")
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Returns the absolute and relative paths of the Rust files that cargo has unpacked.
fn source_files() -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let home = at("CARGO_HOME").or_else(|| at("HOME").map(|home| home.join(".cargo"))).context("no home folder")?;
    let registry = home.join("registry/src");
    let mut files = Vec::new();
    let mut folders = vec![registry.clone()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "rs") {
                files.push((path.clone(), path.strip_prefix(&registry)?.to_owned()));
            }
        }
    }
    // Sorted, so that every run on this host uses the same files.
    files.sort();
    Ok(files)
}

async fn ask(pool: &CodePool, root: &Path, question: CodeQuestion) -> anyhow::Result<(CodeAnswer, usize)> {
    let outcome = pool.ask(root.to_owned(), question, Arc::new(|_| {}), CancellationToken::new()).await?;
    Ok((outcome.answer, outcome.index.files))
}

fn search(query: &str) -> CodeQuestion {
    CodeQuestion::Search { query: query.to_owned(), below: String::new(), limit: 10, similar: Vec::new() }
}

fn pool() -> anyhow::Result<CodePool> {
    Ok(CodePool::new(PoolConfig::new(world::program("agentd")?)))
}

async fn tree_rows(root: &Path, lines: u64) -> anyhow::Result<Vec<Row>> {
    let root = root.canonicalize()?;
    let pool = pool()?;
    let started = Instant::now();
    let (_, files) = ask(&pool, &root, search("begin")).await?;
    let took = started.elapsed();
    let index = Row::new(
        "a first index of 1 M lines",
        vec![
            Figure::per_second("lines", rate(lines, took)).at_least(100_000.0),
            Figure::megabytes("worker memory", worker_memory(&root)?).at_most(100.0),
        ],
    )
    .with_note(format!("{lines} lines of Rust in {files} files, two threads"));
    let mut searches = Samples::default();
    for _ in 0..ROUNDS {
        for query in QUERIES {
            let started = Instant::now();
            let (answer, _) = ask(&pool, &root, search(query)).await?;
            searches.add(started.elapsed());
            ensure!(matches!(&answer, CodeAnswer::Hits(hits) if !hits.is_empty()), "no results for {query}");
        }
    }
    let mut greps = Samples::default();
    for query in QUERIES.iter().cycle().take(GREPS) {
        greps.add(grep(&root, query).await?);
    }
    let search_row = Row::new(
        "a search in 1 M lines of code",
        vec![Figure::millis("median", searches.median()).at_most(2.0), Figure::millis("p99", searches.percentile(99))],
    )
    .over(Figure::millis("by grep", greps.median()))
    .with_ratio(searches.median() / greps.median())
    .with_note("questions, words and symbols, in the worker, including the texts of ten hits".to_owned());
    let changed = changes(&pool, &root).await?;
    Ok(vec![index, search_row, changed])
}

/// Measures the time that grep takes to search a folder for the last word of a query.
pub(super) async fn grep(root: &Path, query: &str) -> anyhow::Result<Duration> {
    let word = query.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next_back().context("no word")?;
    let started = Instant::now();
    let mut grep = Command::new("grep");
    grep.args(["-rnwF", "--", word, "."]).current_dir(root).stdout(Stdio::null()).stderr(Stdio::null());
    grep.status().await?;
    Ok(started.elapsed())
}

/// Measures the time from the end of a write to a result that includes the change.
async fn changes(pool: &CodePool, root: &Path) -> anyhow::Result<Row> {
    let mut times = Samples::default();
    for number in 0..CHANGES {
        let name = format!("freshly_written_{number}_marker");
        fs::write(root.join("changed.rs"), format!("pub fn {name}() {{}}\n"))?;
        let started = Instant::now();
        let question = CodeQuestion::Symbol { name: name.clone(), below: String::new() };
        let (answer, _) = ask(pool, root, question).await?;
        times.add(started.elapsed());
        ensure!(matches!(&answer, CodeAnswer::Symbol(found) if found.definitions.len() == 1), "no such symbol: {name}");
    }
    Ok(Row::new(
        "a changed file is found",
        vec![Figure::millis("median", times.median()).at_most(200.0), Figure::millis("at most", times.percentile(100))],
    )
    .with_note(format!("{CHANGES} changes in 1 M lines, each queried immediately")))
}

/// Measures a map of 5,000 indexed files.
async fn map_row(folder: &Path) -> anyhow::Result<Row> {
    let root = folder.join("map");
    let files = source_files()?.into_iter().take(MAP_FILES);
    for (from, path) in files {
        let target = root.join(path);
        fs::create_dir_all(target.parent().context("the path has no parent")?)?;
        fs::copy(from, target)?;
    }
    let (root, pool) = (root.canonicalize()?, pool()?);
    let question = CodeQuestion::Map { max_tokens: 1000 };
    let (_, files) = ask(&pool, &root, question.clone()).await?;
    let mut times = Samples::default();
    for _ in 0..MAPS {
        let started = Instant::now();
        ask(&pool, &root, question.clone()).await?;
        times.add(started.elapsed());
    }
    Ok(Row::new("a map of 5,000 files of code", vec![Figure::millis("median", times.median()).at_most(50.0)])
        .with_note(format!("{files} files, 1,000 tokens, with a warm index")))
}

/// Returns the private memory of a folder's worker in bytes, without the pages of its binary.
fn worker_memory(root: &Path) -> anyhow::Result<u64> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if line.contains("code-worker") && line.contains(&*root.to_string_lossy()) {
            let status = fs::read_to_string(entry.path().join("status"))?;
            let kilobytes_field =
                status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no figures")?;
            let kilobytes: u64 = kilobytes_field.trim().trim_end_matches(" kB").trim().parse()?;
            return Ok(kilobytes * 1024);
        }
    }
    bail!("no worker process")
}
