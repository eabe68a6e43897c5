//! Queries for sentences from manuals by other authors, in typical forms, compared with the other stack.

use super::*;

/// Forms of queries, with their descriptions.
const FORMS: [(&str, &str); 6] = [
    ("keywords", "four words of the sentence"),
    ("question3", "a question with three of its words"),
    ("question4", "a question with four of its words"),
    ("extra", "four of its words and a word missing on the page"),
    ("typo", "four of its words, one with a typo"),
    ("endings", "four of its words, with other endings"),
];
/// Forms of queries that quote text exactly as it appears on a page.
const VERBATIM_FORMS: [(&str, &str); 9] = [
    ("phrase", "four words in quotes"),
    ("zh", "ten letters of Chinese"),
    ("ja", "ten letters of Japanese"),
    ("ko", "three words of Korean"),
    ("vi", "four words of Vietnamese"),
    ("ar", "four words of Arabic"),
    ("ar-question", "a question in Arabic with four words of a line"),
    ("fa", "four words of Persian"),
    ("fa-question", "a question in Persian with four words of a line"),
];
/// Languages with queries in all forms. The other languages have too few sentences.
const LANGUAGES: [(&str, &str); 7] = [
    ("en", "English"),
    ("de", "German"),
    ("fr", "French"),
    ("es", "Spanish"),
    ("it", "Italian"),
    ("pt", "Portuguese"),
    ("ru", "Russian"),
];
/// Minimum share of answered questions, in percent.
const MIN_PERCENT: f64 = 92.0;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    with_corpus("questions", MANUALS, measure_corpus).await
}

async fn measure_corpus(environment: Environment, corpus: Corpus) -> anyhow::Result<Vec<Row>> {
    let folder = world::folder()?;
    let peer = Peer::new(&environment, &corpus, folder.path().join("manuals.db"));
    let daemon = Ours::start().await?;
    let given = daemon.add(&corpus, &corpus.documents).await?;
    let theirs = peer.index("documents").await?;
    let found = peer.search("questions").await?.answered(&corpus.questions);
    let (by_socket, answered) = daemon.search(&corpus.questions).await?;
    let within = daemon.search_within(&corpus.questions).await?;
    let answers = Answers { questions: &corpus.questions, ours: &answered, theirs: &found };
    let of_form = |(form, label): &(&str, &str)| {
        answers
            .of_form(form, label)
            .unwrap_or_else(|| Row::broken(*label, "not measured: the corpus has no questions of this form".to_owned()))
    };
    let mut rows: Vec<Row> = FORMS.iter().chain(&VERBATIM_FORMS).map(of_form).collect();
    let is_formed = |question: &Question| FORMS.iter().any(|(form, _)| question.form.as_deref() == Some(*form));
    rows.extend(LANGUAGES.iter().filter_map(|(language, name)| {
        let is_asked = |question: &Question| is_formed(question) && question.language.as_deref() == Some(*language);
        answers.row(format!("the right page in {name}, in all forms"), is_asked)
    }));
    let note = format!(
        "{} questions in {} PDFs of {} pages; {} chunks, {} of the other stack",
        corpus.questions.iter().filter(|question| is_formed(question)).count(),
        corpus.documents.len(),
        corpus.pages(),
        given.chunks,
        theirs.chunks
    );
    let all = |ranks: &[Rank]| share(&corpus.questions, ranks, MAX_RESULTS, is_formed);
    rows.push(
        Row::new(
            "right page among the first five, in all forms",
            vec![Figure::percent("", all(&answered)).at_least(MIN_PERCENT)],
        )
        .over(Figure::percent("the other stack", all(&found)))
        .with_note(note),
    );
    let times = vec![Figure::millis("p50", within.median()).at_most(2.0), Figure::millis("p99", within.percentile(99))];
    rows.push(
        Row::new("a search in all manuals", times)
            .with_note(format!("p50 through the socket, which opens all files first: {:.1} ms", by_socket.median())),
    );
    Ok(rows)
}
