//! Measures retrieval on annotated repositories, and the speed on a tree of any size.
//!
//! ```text
//! code-eval quality ANNOTATIONS SOURCES [--verbose]
//! code-eval speed FOLDER
//! ```
//!
//! `ANNOTATIONS` has `repos.json` and `annotations/*.json` in the format of semble's benchmarks; `SOURCES` has one folder per
//! repository. Ranking was tuned on the repositories with even places in the alphabet; the others are the figure.

use std::{
    collections::HashMap,
    error::Error,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use agentd_code::{CodeFolder, FolderConfig, Hit, Ranking, SearchQuery};
use agentd_core::code::{MapFile, MapFocus};
use serde_json::Value;

type Anything<T> = Result<T, Box<dyn Error>>;

const DEPTH: usize = 10;

struct Target {
    path: String,
    lines: Option<(u32, u32)>,
}

struct Question {
    query: String,
    targets: Vec<Target>,
}

#[derive(Default, Clone, Copy)]
struct Figures {
    full: f64,
    terms: f64,
    counts: f64,
}

fn main() -> Anything<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["quality", annotations, sources, rest @ ..] => {
            quality(Path::new(annotations), Path::new(sources), rest.contains(&"--verbose"))
        }
        ["speed", folder] => speed(Path::new(folder)),
        ["map", folder, tokens] => {
            let mut code = CodeFolder::new(Path::new(folder), FolderConfig::new(|_| true));
            code.refresh();
            print!("{}", MapFile::render(&code.map(&MapFocus::default(), tokens.parse()?)));
            Ok(())
        }
        ["ask", folder, query] => {
            let mut code = CodeFolder::new(Path::new(folder), FolderConfig::new(|_| true));
            code.refresh();
            for answer in code.search(query, "", DEPTH) {
                let hit = &answer;
                let symbol = hit.symbol.as_ref().map_or("", |symbol| &symbol.name);
                println!("{:7.2} {}:{}-{} {symbol}", hit.score, hit.path, hit.first_line, hit.last_line);
            }
            Ok(())
        }
        _ => Err(
            "code-eval quality ANNOTATIONS SOURCES [--verbose] | speed FOLDER | map FOLDER TOKENS | ask FOLDER QUERY"
                .into(),
        ),
    }
}

fn quality(annotations: &Path, sources: &Path, is_verbose: bool) -> Anything<()> {
    let roots = roots(annotations)?;
    let mut files: Vec<_> =
        fs::read_dir(annotations.join("annotations"))?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut halves = [(Figures::default(), 0_usize); 2];
    println!("{:<20} {:>9} {:>9} {:>9}  half", "repository", "full", "BM25", "counting");
    for (place, file) in files.iter().enumerate() {
        let name = file.file_stem().and_then(|stem| stem.to_str()).ok_or("a name that is no text")?;
        let root = roots.get(name).cloned().flatten().unwrap_or_default();
        let mut code = CodeFolder::new(&sources.join(name).join(&root), FolderConfig::new(|_| true));
        code.refresh();
        let questions = questions(&fs::read_to_string(file)?, &root)?;
        let mut sum = Figures::default();
        for question in &questions {
            let ask = |ranking| code.index().search(&SearchQuery::new(&question.query).with_ranking(ranking), DEPTH);
            let hits = ask(Ranking::Full);
            let full = ndcg(&hits, &question.targets);
            sum.full += full;
            sum.terms += ndcg(&ask(Ranking::TermsOnly), &question.targets);
            sum.counts += ndcg(&counting(&code, &sources.join(name).join(&root), &question.query), &question.targets);
            if is_verbose && full < 0.99 {
                println!("  {full:.2} {}", question.query);
                println!("       wanted {:?}", question.targets.iter().map(|target| &target.path).collect::<Vec<_>>());
                let shown = |hit: &Hit| {
                    let symbol = hit.symbol.as_ref().map_or("", |symbol| &symbol.name);
                    format!("{}:{}({symbol}) {:.1}", hit.path, hit.first_line, hit.score)
                };
                println!("       found  {}", hits.iter().take(5).map(shown).collect::<Vec<_>>().join("  "));
            }
        }
        let asked = questions.len().max(1) as f64;
        let mean = Figures { full: sum.full / asked, terms: sum.terms / asked, counts: sum.counts / asked };
        let is_held = place % 2;
        println!(
            "{name:<20} {:>9.3} {:>9.3} {:>9.3}  {}",
            mean.full,
            mean.terms,
            mean.counts,
            ["tuned", "held"][is_held]
        );
        let (half, count) = &mut halves[is_held];
        half.full += mean.full;
        half.terms += mean.terms;
        half.counts += mean.counts;
        *count += 1;
    }
    for (name, (half, count)) in ["tuned half", "held half"].iter().zip(halves) {
        let count = count.max(1) as f64;
        println!("{name:<20} {:>9.3} {:>9.3} {:>9.3}", half.full / count, half.terms / count, half.counts / count);
    }
    Ok(())
}

fn roots(annotations: &Path) -> Anything<HashMap<String, Option<String>>> {
    let repositories: Vec<Value> = serde_json::from_str(&fs::read_to_string(annotations.join("repos.json"))?)?;
    let named = repositories.iter().filter_map(|repository| {
        let root = repository["benchmark_root"].as_str().map(str::to_owned);
        Some((repository["name"].as_str()?.to_owned(), root))
    });
    Ok(named.collect())
}

fn questions(text: &str, root: &str) -> Anything<Vec<Question>> {
    let items: Vec<Value> = serde_json::from_str(text)?;
    let target = |value: &Value| {
        let path = value.as_str().or_else(|| value["path"].as_str()).unwrap_or_default();
        let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned();
        let line = |name: &str| value[name].as_u64().and_then(|line| u32::try_from(line).ok());
        Target { path: below, lines: line("start_line").zip(line("end_line")) }
    };
    let all =
        |item: &Value, name: &str| item[name].as_array().map(|found| found.iter().map(target).collect::<Vec<_>>());
    let questions = items.iter().map(|item| {
        let mut targets = all(item, "relevant").unwrap_or_default();
        targets.extend(all(item, "secondary").unwrap_or_default());
        Question { query: item["query"].as_str().unwrap_or_default().to_owned(), targets }
    });
    Ok(questions.collect())
}

/// NDCG of the first ten results: each target counts at the place of the first result that covers it.
fn ndcg(hits: &[Hit], targets: &[Target]) -> f64 {
    let gain = |place: usize| 1.0 / ((place + 2) as f64).log2();
    let covers = |hit: &Hit, target: &Target| {
        hit.path == target.path
            && target.lines.is_none_or(|(first, last)| hit.first_line <= last && hit.last_line >= first)
    };
    let mut places: Vec<usize> =
        targets.iter().filter_map(|target| hits.iter().position(|hit| covers(hit, target))).collect();
    places.sort_unstable();
    places.dedup();
    let ideal: f64 = (0..targets.len().min(DEPTH)).map(gain).sum();
    if ideal > 0.0 { places.into_iter().map(gain).sum::<f64>() / ideal } else { 0.0 }
}

/// Files by the number of lines with any word of the query, as somebody would count them with grep.
fn counting(code: &CodeFolder, root: &Path, query: &str) -> Vec<Hit> {
    let query = query.to_lowercase();
    let words: Vec<&str> =
        query.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 3).collect();
    let mut found: Vec<Hit> = Vec::new();
    for path in code.index().paths() {
        let text = fs::read_to_string(root.join(path)).unwrap_or_default().to_lowercase();
        let count = text.lines().filter(|line| words.iter().any(|word| line.contains(word))).count();
        if count > 0 {
            found.push(Hit {
                path: path.to_owned(),
                first_line: 1,
                last_line: u32::MAX,
                symbol: None,
                score: count as f32,
            });
        }
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
    found.truncate(DEPTH);
    found
}

/// Questions for the speed: words that code of any kind has, rare ones, symbols.
const ASKED: [&str; 12] = [
    "how are errors converted and returned",
    "parse the configuration file",
    "read and write bytes of a stream",
    "new",
    "HashMap",
    "spawn a thread and wait for it",
    "Iterator::next",
    "serialize a value into a buffer",
    "timer wheel deadline",
    "impl Display for Error",
    "unicode normalization tables",
    "get the length of the slice",
];

fn speed(folder: &Path) -> Anything<()> {
    let before = resident();
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut code = CodeFolder::new(folder, FolderConfig::new(|_| true));
    let report = code.refresh();
    let (took, cpu) = (start.elapsed(), cpu_time() - cpu);
    let index = code.index();
    let lines = index.line_count();
    println!("files {}, skipped {}, lines {lines}", index.file_count(), report.skipped.len());
    println!("chunks {}, terms {}", index.chunk_count(), index.term_count());
    println!("first index {:.2} s, {:.0} lines/s", took.as_secs_f64(), lines as f64 / took.as_secs_f64());
    println!("processor {cpu:.2} s, {:.0} lines/s on one core", lines as f64 / cpu);
    println!("resident {:.1} MB more than before", (resident().saturating_sub(before)) as f64 / 1e6);
    let mut times: Vec<Duration> = Vec::new();
    for query in ASKED.iter().cycle().take(ASKED.len() * 40) {
        let start = Instant::now();
        let hits = index.search(&SearchQuery::new(query), DEPTH);
        times.push(start.elapsed());
        assert!(hits.len() <= DEPTH);
    }
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!("query p50 {:.3} ms, p95 {:.3} ms", at(50), at(95));
    let start = Instant::now();
    let answers = code.search(ASKED[0], "", DEPTH);
    println!("answers with text {:.3} ms ({})", start.elapsed().as_secs_f64() * 1e3, answers.len());
    let start = Instant::now();
    code.refresh();
    println!("refresh without changes {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let path = answers.first().map(|answer| answer.path.clone()).unwrap_or_default();
    let start = Instant::now();
    code.update(&[&path]);
    println!("update of one file {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    let mut maps: Vec<Duration> = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        drop(code.map(&MapFocus::default(), 1000));
        maps.push(start.elapsed());
    }
    maps.sort_unstable();
    println!(
        "map of 1000 tokens: best {:.1} ms, median {:.1} ms",
        maps[0].as_secs_f64() * 1e3,
        maps[3].as_secs_f64() * 1e3
    );
    let start = Instant::now();
    let found = code.find_symbol("Error", "");
    println!(
        "symbol {:.1} ms, {} definitions, {} references",
        start.elapsed().as_secs_f64() * 1e3,
        found.definitions.len(),
        found.references.len()
    );
    Ok(())
}

/// Resident memory in bytes, where the system tells it.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Processor time of all threads in seconds, at the usual hundred ticks.
fn cpu_time() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}
