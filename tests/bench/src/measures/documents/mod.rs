//! Documents: the speed of indexing and searching, and how often the right page is found, compared with another stack
//! in the same run.
//!
//! - [`corpus`]: documents and questions, and the Python scripts that create them. [`peer`]: the other stack.
//!   [`answers`]: the answers of both stacks.
//! - [`foreign`]: text extracted from documents by other authors. [`forms`]: typical forms of questions about manuals
//!   by other authors.
//! - [`scans`]: recognition of scans. [`hostile`]: malicious and damaged documents.
//! - [`texts`]: document texts, for a script that compares them.
//! - [`ours`]: the daemon, and its library alone. [`memory`]: memory used by the daemon and its workers.
//!
//! If packages are not available from the registries, the row reports it, and the rest of the bench still runs.

mod answers;
mod corpus;
pub(super) mod foreign;
pub(super) mod forms;
pub(super) mod hostile;
mod memory;
mod ours;
mod peer;
pub(super) mod scans;
mod texts;

use std::collections::BTreeSet;

use super::{
    documents::{
        answers::{Answers, Rank, share},
        corpus::{Corpus, Environment, FOREIGN, GENERATED, HOSTILE, MANUALS, Question, SCANS, unmeasured, with_corpus},
        memory::Peaks,
        ours::{Given, MAX_RESULTS, Ours},
        peer::{Indexed, Peer, Searched},
    },
    *,
};

/// Kinds of factual questions, by name.
const KINDS: [(&str, &str); 5] = [
    ("phrase", "a phrase in quotes"),
    ("keywords", "keywords"),
    ("number", "the number of a permit"),
    ("question", "a question in other words"),
    ("slide", "text on a slide"),
];
/// Number of times that both stacks index the documents.
const ROUNDS: usize = 3;

/// One round of indexing by both stacks, each starting without an index.
struct Round {
    given: Given,
    theirs: Indexed,
}

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    with_corpus("documents", GENERATED, measure_corpus).await
}

async fn measure_corpus(environment: Environment, corpus: Corpus) -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let (mut rounds, mut last) = (Vec::with_capacity(ROUNDS), None);
    // The rounds alternate, so that both stacks run under similar conditions.
    for round in 0..ROUNDS {
        // Stops the daemon of the previous round first.
        drop(last.take());
        let peer = Peer::new(&environment, &corpus, folder.path().join(format!("{round}.db")));
        let daemon = Ours::start().await?;
        // The second stack finds the files in the page cache, so the order alternates.
        let (given, theirs) = if round % 2 == 0 {
            let theirs = peer.index("documents").await?;
            (daemon.add(&corpus, &corpus.documents).await?, theirs)
        } else {
            (daemon.add(&corpus, &corpus.documents).await?, peer.index("documents").await?)
        };
        rounds.push(Round { given, theirs });
        last = Some((peer, daemon));
    }
    let pieces: BTreeSet<_> = rounds.iter().map(|round| (round.given.chunks, &round.given.problems)).collect();
    ensure!(pieces.len() == 1, "indexed passages differ between rounds: {pieces:?}");
    let mut rows = indexing(&corpus, &rounds);
    let (Some((peer, daemon)), Some(Round { given, theirs })) = (last, rounds.pop()) else { return Ok(rows) };
    rows.push(first_search(&corpus, &peer).await?);
    let more = daemon.add(&corpus, &corpus.filler).await?;
    let more_of_theirs = peer.index("filler").await?;
    let found = peer.search("questions").await?;
    let kinds_found = peer.search("kinds").await?.answered(&corpus.kinds);
    let (_, kinds) = daemon.search(&corpus.kinds).await?;
    let (by_socket, answered) = daemon.search(&corpus.questions).await?;
    let within = daemon.search_within(&corpus.questions).await?;
    let chunks = (given.chunks + more.chunks, theirs.chunks + more_of_theirs.chunks);
    rows.extend(searching(&within, &by_socket, &found, chunks));
    rows.push(recall(&corpus.questions, &answered, &found.answered(&corpus.questions)));
    let answers = Answers { questions: &corpus.kinds, ours: &kinds, theirs: &kinds_found };
    rows.extend(KINDS.iter().filter_map(|(form, label)| answers.of_form(form, label)));
    Ok(rows)
}

fn indexing(corpus: &Corpus, rounds: &[Round]) -> Vec<Row> {
    let pages = corpus.pages();
    let of_rounds = |figure: &dyn Fn(&Round) -> f64| Samples::of(&rounds.iter().map(figure).collect::<Vec<_>>());
    let speeds = of_rounds(&|round| rate(pages, round.given.took));
    let their_speeds = of_rounds(&|round| as_f64(pages) / round.theirs.seconds);
    let ratios = of_rounds(&|round| rate(pages, round.given.took) * round.theirs.seconds / as_f64(pages));
    let figures = vec![
        Figure::per_second("pages", speeds.median()),
        Figure::times("the other stack", ratios.median()).at_least(3.0),
    ];
    let label = format!("indexing {} documents of {pages} pages", corpus.documents.len());
    let Some(Round { given, theirs, .. }) = rounds.last() else { return Vec::new() };
    let problems = match given.problems.as_slice() {
        [] => String::new(),
        some => format!("; not read completely: {}", some.join("; ")),
    };
    let note = format!(
        "`agentctl docs add`, from files to answers; medians of {ROUNDS} rounds in turn, {:.2} to {:.2} times; {} of the documents \
         are real; {} chunks, {} of the other stack{problems}",
        ratios.percentile(0),
        ratios.percentile(100),
        corpus.real,
        given.chunks,
        theirs.chunks,
    );
    let Peaks { daemon, worker, together } =
        rounds.iter().map(|round| round.given.peaks).fold(Peaks::default(), Peaks::or);
    let memory = vec![
        Figure::megabytes("daemon", daemon).at_most(150.0),
        Figure::megabytes("largest worker", worker),
        Figure::megabytes("all processes together", together),
    ];
    let their_most = rounds.iter().map(|round| round.theirs.peak).max().unwrap_or_default();
    vec![
        Row::new(label, figures).over(Figure::per_second("the other stack", their_speeds.median())).with_note(note),
        Row::new("resident memory while indexing", memory)
            .over(Figure::megabytes("the other stack", their_most))
            .with_note(
                "the most of all rounds, that of a worker when it was last looked at, every 25 ms; each document has a worker of its \
                 own, two at a time",
            ),
    ]
}

/// Measures the first search in a newly started daemon, and in a document that has not been searched yet.
async fn first_search(corpus: &Corpus, peer: &Peer<'_>) -> anyhow::Result<Row> {
    let path = corpus.folder.join(&corpus.long.document);
    let took = Ours::start().await?.first(&path, &corpus.long.query).await?;
    let theirs = peer.first().await?;
    Ok(Row::new(
        "first search of a PDF of 300 pages, from cold",
        vec![Figure::millis("", millis(took)).at_most(2000.0)],
    )
    .over(Figure::millis("the other stack", theirs.seconds * 1e3))
    .with_note(
        "through the socket of a daemon that has done nothing yet; the other stack's libraries were loaded before",
    ))
}

fn searching(within: &Samples, by_socket: &Samples, theirs: &Searched, chunks: (u64, u64)) -> Vec<Row> {
    let their_times = Samples::of(&theirs.millis);
    let figures = vec![
        Figure::millis("p50", within.median()).at_most(2.0),
        Figure::millis("p99", within.percentile(99)).at_most(10.0),
        Figure::times("as fast", their_times.median() / within.median()).at_least(5.0),
    ];
    let note = format!(
        "{} chunks, {} in the other stack, whose p99 is {:.1} ms; five results with snippets",
        chunks.0,
        chunks.1,
        their_times.percentile(99)
    );
    let wire = vec![Figure::millis("p50", by_socket.median()), Figure::millis("p99", by_socket.percentile(99))];
    vec![
        Row::new("a search in all documents", figures)
            .over(Figure::millis("the other stack", their_times.median()))
            .with_note(note),
        Row::new("the same through the socket", wire).with_note("opens all files of the session first"),
    ]
}

fn recall(questions: &[Question], ours: &[Rank], theirs: &[Rank]) -> Row {
    let all = |_: &Question| true;
    let least = share(questions, theirs, MAX_RESULTS, all);
    let languages = [("English", false), ("Chinese", true)].map(|(name, is_chinese)| {
        let of = |ranks, within| share(questions, ranks, within, |question| question.is_chinese() == is_chinese);
        let [five, first] =
            [MAX_RESULTS, 1].map(|within| format!("{:.1} % and {:.1} %", of(ours, within), of(theirs, within)));
        format!("{name} {five}, as the first result {first}")
    });
    let missed =
        questions.iter().zip(ours).zip(theirs).filter(|((_, ours), theirs)| ours.is_none() && theirs.is_some());
    let missed: Vec<&str> = missed.map(|((question, _), _)| question.query.as_str()).take(5).collect();
    let only = if missed.is_empty() {
        String::new()
    } else {
        format!("; found only by the other stack: {}", missed.join(" | "))
    };
    // Rounded as displayed, so that equal shares meet the limit.
    let limit = (10.0 * least).floor() / 10.0;
    Row::new(
        format!("right page among the first five, of {} questions", questions.len()),
        vec![Figure::percent("", share(questions, ours, MAX_RESULTS, all)).at_least(limit)],
    )
    .over(Figure::percent("the other stack", least))
    .with_note(format!("{}{only}", languages.join("; ")))
}
