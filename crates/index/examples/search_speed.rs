//! Fills an index with chunks of made-up text, half English and half Chinese, and tells how long things take.
//!
//! `cargo run --release --example search_speed -- 100000`

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_index::{
    About, Chunk, ContentHash, DocumentId, DocumentPlace, IndexConfig, IndexHandle, Kind, Query, Request, Visible,
};
use tokio_util::sync::CancellationToken;

const CHUNKS_EACH: usize = 500;

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Small ones are much more frequent, as words are.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "it is below `most`"
    )]
    fn skewed(&mut self, most: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((most as f64).powf(unit) as usize - 1).min(most - 1)
    }
}

fn english(number: usize) -> String {
    const PARTS: [&str; 20] = [
        "re", "con", "ta", "mi", "port", "ver", "ing", "sol", "ne", "dra", "cal", "tion", "bu", "let", "fa", "mer",
        "pri", "ous", "ly", "gen",
    ];
    let mut rest = number + 20;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(PARTS.get(rest % PARTS.len()).copied().unwrap_or_default());
        rest /= PARTS.len();
    }
    word
}

fn chinese(number: usize) -> String {
    const WORDS: [&str; 24] = [
        "我们",
        "公司",
        "报告",
        "发展",
        "经济",
        "收入",
        "增长",
        "市场",
        "研究",
        "技术",
        "人工智能",
        "北京",
        "数据",
        "分析",
        "管理",
        "系统",
        "项目",
        "年度",
        "计划",
        "政府",
        "社会",
        "教育",
        "环境",
        "大学",
    ];
    if let Some(word) = WORDS.get(number) {
        return (*word).to_owned();
    }
    let letter = |index: usize| u32::try_from(0x4e00 + index % 3000).ok().and_then(char::from_u32).unwrap_or('中');
    [letter(number * 7), letter(number * 13 + 5)].iter().collect()
}

fn text(numbers: &mut Numbers, is_chinese: bool) -> String {
    let mut text = String::new();
    while text.chars().count() < 400 {
        let word = numbers.skewed(30_000);
        if is_chinese {
            text.push_str(&chinese(word));
            if numbers.next().is_multiple_of(9) {
                text.push('，');
            }
        } else {
            text.push_str(&english(word));
            text.push_str(if numbers.next().is_multiple_of(11) { ". " } else { " " });
        }
    }
    text
}

fn memory(what: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    format!("{what}: VmRSS {} RssAnon {} RssFile {}", line("VmRSS:"), line("RssAnon:"), line("RssFile:"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chunks = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let folder = std::env::temp_dir().join(format!("search-speed-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let told = runtime.block_on(run(chunks, folder.clone()));
    std::fs::remove_dir_all(folder)?;
    told
}

async fn run(chunks: usize, folder: std::path::PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = IndexConfig::new(folder, Arc::new(|| 1_700_000_000));
    config.rest_after = Duration::from_secs(2);
    println!("{}", memory("before"));
    let index = IndexHandle::open(config).await?;
    println!("{}", memory("open"));
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut documents = Vec::new();
    let began = Instant::now();
    for number in 0..chunks.div_ceil(CHUNKS_EACH) {
        let id = DocumentId::new(ContentHash::of(&number.to_le_bytes()), Kind::Pdf, 1);
        let Some(mut indexing) = index.begin(&id, Some(format!("Report {number}"))).await? else { continue };
        let chunk = |page: usize| {
            let text = text(&mut numbers, number % 2 == 1);
            Chunk {
                place: DocumentPlace::Page(u32::try_from(page).unwrap_or_default()),
                bytes: 0..text.len(),
                text,
                heading: None,
            }
        };
        indexing.add((0..CHUNKS_EACH).map(chunk).collect()).await?;
        indexing.finish(About::default()).await?;
        documents.push(Visible { id, name: format!("{number}.pdf") });
    }
    let took = began.elapsed();
    let stats = index.stats().await?;
    println!(
        "indexed {} chunks in {took:?}, {:.0} a second, {} MB of files",
        stats.chunks,
        chunks as f64 / took.as_secs_f64(),
        stats.bytes >> 20
    );
    println!("{}", memory("indexing"));
    let few = documents.get(..4.min(documents.len())).unwrap_or_default().to_vec();
    for (what, visible) in [("all documents", &documents), ("4 documents", &few)] {
        for (kind, make) in KINDS {
            measure(&index, &format!("{what}, {kind}"), visible, make).await?;
        }
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    println!("{}", memory("at rest"));
    index.close().await?;
    Ok(())
}

type Make = fn(&mut Numbers) -> Query;

const KINDS: [(&str, Make); 8] = [
    ("one word", |numbers| Query::Words(english(numbers.skewed(30_000)))),
    ("two words", |numbers| {
        Query::Words(format!("{} {}", english(numbers.skewed(30_000)), english(numbers.skewed(30_000))))
    }),
    ("a question", |numbers| {
        let word: Vec<String> = (0..4).map(|_| english(numbers.skewed(30_000))).collect();
        Query::Words(format!("what is the {} of {} and {} in {}?", word[0], word[1], word[2], word[3]))
    }),
    ("a phrase", |numbers| {
        Query::Words(format!("\"{} {}\"", english(numbers.skewed(300)), english(numbers.skewed(300))))
    }),
    ("a chinese word", |numbers| Query::Words(chinese(numbers.skewed(30_000)))),
    ("a chinese question", |numbers| {
        Query::Words(format!(
            "{}的{}如何{}",
            chinese(numbers.skewed(3000)),
            chinese(numbers.skewed(3000)),
            chinese(numbers.skewed(24))
        ))
    }),
    ("a narrowed pattern", |numbers| Query::Regex {
        pattern: format!("{}\\w* {}", english(300 + numbers.skewed(3000)), english(numbers.skewed(300))),
        case_sensitive: false,
    }),
    ("a scan", |numbers| Query::Regex { pattern: format!("\\d{{{}}}", 3 + numbers.skewed(3)), case_sensitive: false }),
];

async fn measure(
    index: &IndexHandle,
    what: &str,
    documents: &[Visible],
    make: Make,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = Numbers(0xdead_beef_cafe_f00d);
    let count = if what.ends_with("scan") { 10 } else { 500 };
    let mut times = Vec::new();
    let mut hits = 0;
    for _ in 0..count {
        let mut request = Request::new(documents.to_vec(), make(&mut numbers));
        request.within = Duration::from_secs(60);
        let began = Instant::now();
        let answer = index.search(request, CancellationToken::new()).await?;
        times.push(began.elapsed());
        hits += answer.hits.len();
    }
    times.sort();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len() - 1)).copied().unwrap_or_default();
    println!(
        "{what}: p50 {:?} p99 {:?} most {:?}, {:.1} hits",
        at(50),
        at(99),
        at(100),
        hits as f64 / f64::from(count)
    );
    Ok(())
}
