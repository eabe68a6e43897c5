//! The changes that one call tries, one after the other. A change that got the server no further is taken back before the
//! next one is tried; one that did stays while something else is refused.

use super::{Change, refusal::Refusal};

/// Changes that one call tries at the most.
const MAX_TRIES: usize = 8;

/// Changes on trial.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// Those of the next attempt.
    current: Vec<Change>,
    /// All that were tried by themselves.
    tried: Vec<Change>,
    /// Those that changed nothing by themselves.
    in_vain: Vec<Change>,
    /// Set once those were tried together.
    together: bool,
    /// The last refusal.
    last: Option<Refusal>,
}

impl Trials {
    /// The changes that the next attempt is made with.
    pub(crate) fn current(&self) -> &[Change] {
        &self.current
    }

    /// Takes note of a refusal and picks what to try next; none where there is nothing left.
    pub(crate) fn after(&mut self, refusal: Refusal, candidates: &[Change]) -> Option<Vec<Change>> {
        if self.last.as_ref() == Some(&refusal) {
            if std::mem::take(&mut self.together) {
                return None;
            }
            self.in_vain.extend(self.current.pop());
        }
        self.last = Some(refusal);
        if self.tried.len() == MAX_TRIES {
            return None;
        }
        if let Some(next) = candidates.iter().find(|change| !self.tried.contains(change)) {
            self.tried.push(next.clone());
            self.current.push(next.clone());
            return Some(vec![next.clone()]);
        }
        // Each by itself was not enough: the server may refuse more than one of them.
        let all: Vec<Change> = self.in_vain.drain(..).filter(|change| candidates.contains(change)).collect();
        if all.len() < 2 {
            return None;
        }
        self.together = true;
        self.current.extend(all.iter().cloned());
        Some(all)
    }

    /// The changes with which the server took the request: nothing is on trial any more.
    pub(crate) fn taken(&mut self) -> Vec<Change> {
        std::mem::take(self).current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &str) -> Refusal {
        Refusal { status: 400, words: words.to_owned() }
    }

    fn field(name: &str) -> Change {
        Change::WithoutField(name.to_owned())
    }

    #[test]
    fn what_did_not_help_is_taken_back_and_what_did_stays() {
        let (a, b, c) = (field("a"), field("b"), field("c"));
        let mut trials = Trials::default();
        assert_eq!(trials.after(refusal("a or b"), &[a.clone(), b.clone()]), Some(vec![a.clone()]));
        assert_eq!(trials.after(refusal("a or b"), &[a.clone(), b.clone()]), Some(vec![b.clone()]));
        assert_eq!(trials.current(), std::slice::from_ref(&b));
        assert_eq!(trials.after(refusal("now c"), std::slice::from_ref(&c)), Some(vec![c.clone()]));
        assert_eq!(trials.taken(), [b, c]);
        assert_eq!(trials.current(), []);
    }

    #[test]
    fn where_none_helps_alone_they_are_tried_together_and_then_no_more() {
        let both = [field("a"), field("b")];
        let mut trials = Trials::default();
        for expected in [Some(vec![field("a")]), Some(vec![field("b")]), Some(both.to_vec()), None] {
            assert_eq!(trials.after(refusal("no"), &both), expected);
        }
        let mut trials = Trials::default();
        assert_eq!(trials.after(refusal("no"), &both[..1]), Some(vec![field("a")]));
        assert_eq!(trials.after(refusal("no"), &both[..1]), None);
        assert_eq!(Trials::default().after(refusal("no"), &[]), None);
    }
}
