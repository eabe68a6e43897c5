//! Sentences of manuals that others wrote, asked for in the forms in which people ask, beside the other stack.

use super::{
    corpus::{Corpus, Environment, Question},
    ours::Ours,
    peer::Peer,
};
use crate::{
    figures::{Figure, as_f64},
    report::Row,
    world,
};

/// The forms, and what is asked in each.
const FORMS: [(&str, &str); 6] = [
    ("keywords", "four words of the sentence"),
    ("question3", "a question with three of its words"),
    ("question4", "a question with four of its words"),
    ("extra", "four of its words, and one that the page lacks"),
    ("typo", "four of its words, one with a typo"),
    ("endings", "four of its words, with other endings"),
];
/// Share of all questions that is to be answered.
const TARGET: f64 = 92.0;

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let environment = match Environment::with_manuals().await {
        Ok(environment) => environment,
        Err(why) => return Ok(vec![Row::new("questions", Vec::new()).with_note(format!("not measured: {why:#}"))]),
    };
    let corpus = environment.corpus()?;
    let folder = world::folder()?;
    let peer = Peer::new(&environment, &corpus, folder.path().join("manuals.db"));
    let daemon = Ours::start().await?;
    let given = daemon.add(&corpus, &corpus.documents).await?;
    let theirs = peer.index("documents").await?;
    let found = peer.search().await?.answered(&corpus.questions);
    let (by_socket, answered) = daemon.search(&corpus.questions).await?;
    let within = daemon.search_within(&corpus.questions).await?;
    let mut rows: Vec<Row> = FORMS.iter().map(|form| of_form(&corpus, *form, &answered, &found)).collect();
    let note = format!(
        "{} questions in {} PDFs of {} pages; {} chunks, {} of the other stack",
        corpus.questions.len(),
        corpus.documents.len(),
        corpus.pages(),
        given.chunks,
        theirs.chunks
    );
    let all = share(&corpus.questions, &answered, |_| true);
    rows.push(
        Row::new("right page among the first five, in all forms", vec![Figure::percent("", all).at_least(TARGET)])
            .over(Figure::percent("the other stack", share(&corpus.questions, &found, |_| true)))
            .with_note(note),
    );
    let times = vec![Figure::millis("p50", within.median()).at_most(2.0), Figure::millis("p99", within.quantile(99))];
    rows.push(
        Row::new("a search in all of them", times)
            .with_note(format!("p50 through the socket, which opens all files first: {:.1} ms", by_socket.median())),
    );
    Ok(rows)
}

fn of_form(corpus: &Corpus, (form, what): (&str, &str), ours: &[bool], theirs: &[bool]) -> Row {
    let is_form = |question: &Question| question.form.as_deref() == Some(form);
    let least = share(&corpus.questions, theirs, is_form);
    // As it is shown, so that what is equal does not fail.
    let limit = (10.0 * least).floor() / 10.0;
    Row::new(
        format!("the right page for {what}"),
        vec![Figure::percent("", share(&corpus.questions, ours, is_form)).at_least(limit)],
    )
    .over(Figure::percent("the other stack", least))
}

fn share(questions: &[Question], answered: &[bool], which: impl Fn(&Question) -> bool) -> f64 {
    let of: Vec<bool> =
        questions.iter().zip(answered).filter(|(question, _)| which(question)).map(|(_, yes)| *yes).collect();
    100.0 * as_f64(of.iter().filter(|yes| **yes).count() as u64) / as_f64(of.len().max(1) as u64)
}
