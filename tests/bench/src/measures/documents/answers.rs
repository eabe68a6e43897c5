//! Questions that were answered, beside the answers of the other stack.

use super::*;

/// Place among the finds at which a question is answered, from 0; none if it is at none of those that count.
pub(super) type Rank = Option<usize>;

/// Share of the questions of a kind that are answered among so many finds, in per cent.
pub(super) fn share(questions: &[Question], ranks: &[Rank], within: usize, which: impl Fn(&Question) -> bool) -> f64 {
    let of = questions.iter().zip(ranks).filter(|(question, _)| which(question));
    let yes: Vec<bool> = of.map(|(_, rank)| rank.is_some_and(|rank| rank < within)).collect();
    100.0 * as_f64(yes.iter().filter(|yes| **yes).count() as u64) / as_f64(yes.len().max(1) as u64)
}

/// Questions with the answers of both.
#[derive(Clone, Copy)]
pub(super) struct Answers<'a> {
    pub(super) questions: &'a [Question],
    pub(super) ours: &'a [Rank],
    pub(super) theirs: &'a [Rank],
}

impl Answers<'_> {
    /// The questions of a kind; at least as many as the other stack answers are to be answered. None where there are none.
    pub(super) fn row(&self, what: impl Into<String>, which: impl Fn(&Question) -> bool) -> Option<Row> {
        let count = self.questions.iter().filter(|question| which(question)).count();
        let of = |ranks, within| share(self.questions, ranks, within, &which);
        let least = of(self.theirs, FINDS);
        // As it is shown, so that what is equal does not fail.
        let limit = (10.0 * least).floor() / 10.0;
        let row = Row::new(what, vec![Figure::percent("", of(self.ours, FINDS)).at_least(limit)])
            .over(Figure::percent("the other stack", least))
            .with_note(format!("of {count}; as the first {:.1} % and {:.1} %", of(self.ours, 1), of(self.theirs, 1)));
        (count > 0).then_some(row)
    }

    /// The questions of a form.
    pub(super) fn of_form(&self, form: &str, what: &str) -> Option<Row> {
        self.row(format!("the right page for {what}"), |question| question.form.as_deref() == Some(form))
    }
}
