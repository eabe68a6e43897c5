//! Quality of answers to questions about code, with annotations in the format of semble's benchmarks: `repos.json` and
//! `annotations/*.json`, next to one folder of sources per repository. The ranking was tuned on the repositories at
//! even positions in the alphabet; the other repositories provide the figure.

use std::collections::HashMap;

use agentd_code::{CodeFolder, FolderConfig, Hit, SearchQuery};

use super::*;

/// Number of hits that are evaluated.
const DEPTH: usize = 10;

struct Target {
    path: String,
    lines: Option<(u32, u32)>,
}

struct Question {
    query: String,
    targets: Vec<Target>,
}

/// Sums over questions or repositories.
#[derive(Default, Clone, Copy)]
struct Gains {
    full: f64,
    counts: f64,
    count: u64,
}

impl Gains {
    fn mean(self) -> Self {
        let count = as_f64(self.count.max(1));
        Self { full: self.full / count, counts: self.counts / count, count: 1 }
    }

    fn add(&mut self, other: Self) {
        self.full += other.full;
        self.counts += other.counts;
        self.count += other.count;
    }
}

/// Returns one row for each half of the repositories.
pub(super) fn measure(annotations: &Path, sources: &Path) -> anyhow::Result<Vec<Row>> {
    let roots = roots(annotations)?;
    let files = fs::read_dir(annotations.join("annotations"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<String> = files.filter_map(|file| file.file_stem()?.to_str().map(str::to_owned)).collect();
    names.sort();
    let mut halves = [Gains::default(); 2];
    for (half, name) in [0, 1].into_iter().cycle().zip(&names) {
        if !sources.join(name).is_dir() {
            continue;
        }
        let root = roots.get(name).cloned().flatten().unwrap_or_default();
        let text = fs::read_to_string(annotations.join("annotations").join(format!("{name}.json")))?;
        let gains = repository(&sources.join(name).join(&root), &questions(&text, &root)?);
        if let Some(sum) = halves.get_mut(half) {
            sum.add(gains.mean());
        }
    }
    let [tuned, held] = halves;
    Ok(vec![
        row("questions about code: NDCG@10, repositories not used for tuning", held, true),
        row("questions about code: NDCG@10, repositories used for tuning", tuned, false),
    ])
}

fn row(label: &str, sum: Gains, is_figure: bool) -> Row {
    let Gains { full, counts, .. } = sum.mean();
    let figure = Figure::percent("", 100.0 * full);
    let figure = if is_figure { figure.at_least(80.0) } else { figure };
    let counted = if has_ripgrep() { "by ripgrep's line counts" } else { "by number of matching lines" };
    Row::new(label, vec![figure])
        .over(Figure::percent(counted, 100.0 * counts))
        .with_note(format!("{} repositories", sum.count))
}

fn repository(folder: &Path, questions: &[Question]) -> Gains {
    let mut code = CodeFolder::new(folder, FolderConfig::new(|_| true));
    code.refresh();
    let mut sum = Gains::default();
    for question in questions {
        let gain = |hits: &[Hit]| ndcg(hits, &question.targets);
        sum.add(Gains {
            full: gain(&code.index().search(&SearchQuery::new(&question.query), DEPTH)),
            counts: gain(&counting(&code, folder, &question.query)),
            count: 1,
        });
    }
    sum
}

fn roots(annotations: &Path) -> anyhow::Result<HashMap<String, Option<String>>> {
    let repositories: Vec<Value> = serde_json::from_str(&fs::read_to_string(annotations.join("repos.json"))?)?;
    let named = repositories.iter().filter_map(|repository| {
        let root = repository["benchmark_root"].as_str().map(str::to_owned);
        Some((repository["name"].as_str()?.to_owned(), root))
    });
    Ok(named.collect())
}

fn questions(text: &str, root: &str) -> anyhow::Result<Vec<Question>> {
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

/// Returns the NDCG of the first ten results. Each target counts at the rank of the first result that includes it.
fn ndcg(hits: &[Hit], targets: &[Target]) -> f64 {
    let gain = |position: u64| 1.0 / (as_f64(position) + 2.0).log2();
    let covers = |hit: &Hit, target: &Target| {
        hit.path == target.path
            && target.lines.is_none_or(|(first, last)| hit.first_line <= last && hit.last_line >= first)
    };
    let mut positions: Vec<u64> = targets
        .iter()
        .filter_map(|target| (0..).zip(hits).find(|(_, hit)| covers(hit, target)).map(|(position, _)| position))
        .collect();
    positions.sort_unstable();
    positions.dedup();
    let ideal: f64 = (0..).take(targets.len().min(DEPTH)).map(gain).sum();
    if ideal > 0.0 { positions.into_iter().map(gain).sum::<f64>() / ideal } else { 0.0 }
}

/// Ranks files by the number of lines that contain any query word, as a user would count with grep.
fn counting(code: &CodeFolder, root: &Path, query: &str) -> Vec<Hit> {
    let query = query.to_lowercase();
    let terms: Vec<&str> =
        query.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 3).collect();
    let counts = if terms.is_empty() {
        Vec::new()
    } else {
        ripgrep(root, &terms).unwrap_or_else(|| lines_with(code, root, &terms))
    };
    let hit = |(path, count): (String, u16)| Hit {
        path,
        first_line: 1,
        last_line: u32::MAX,
        symbol: None,
        score: f32::from(count),
    };
    let mut found: Vec<Hit> = counts.into_iter().map(hit).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
    found.truncate(DEPTH);
    found
}

fn has_ripgrep() -> bool {
    std::process::Command::new("rg").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the number of matching lines in each file, counted by ripgrep, or `None` if ripgrep is not installed.
fn ripgrep(root: &Path, terms: &[&str]) -> Option<Vec<(String, u16)>> {
    let mut command = std::process::Command::new("rg");
    command.args(["--count", "--ignore-case", "--fixed-strings", "--no-config", "--color=never"]);
    command.args(terms.iter().flat_map(|word| ["-e", word])).arg(".").current_dir(root);
    let stdout = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let file = |line: &str| {
        let (path, count) = line.rsplit_once(':')?;
        Some((path.trim_start_matches("./").to_owned(), count.parse::<u32>().ok()?.try_into().unwrap_or(u16::MAX)))
    };
    Some(stdout.lines().filter_map(file).collect())
}

/// Counts the matching lines of the indexed files without ripgrep.
fn lines_with(code: &CodeFolder, root: &Path, terms: &[&str]) -> Vec<(String, u16)> {
    let count = |path: &str| {
        let text = fs::read_to_string(root.join(path)).unwrap_or_default().to_lowercase();
        let count = text.lines().filter(|line| terms.iter().any(|word| line.contains(word))).count();
        (count > 0).then(|| (path.to_owned(), u16::try_from(count).unwrap_or(u16::MAX)))
    };
    code.index().paths().filter_map(count).collect()
}
