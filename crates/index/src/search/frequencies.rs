//! In how many chunks a term stands: looked up once for each search.
//!
//! The same term is a part of several queries of one search, and of each in more than one place, and every time the library
//! would look for it in all segments.

use std::{cell::RefCell, collections::HashMap};

use tantivy::{Searcher, Term, query::Bm25StatisticsProvider, schema::Field};

/// Inputs of scores, for one search.
pub(crate) struct Frequencies<'a> {
    searcher: &'a Searcher,
    known: RefCell<HashMap<Term, u64>>,
}

impl<'a> Frequencies<'a> {
    pub(crate) fn new(searcher: &'a Searcher) -> Self {
        Self { searcher, known: RefCell::default() }
    }
}

impl Bm25StatisticsProvider for Frequencies<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.searcher.total_num_tokens(field)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.searcher.total_num_docs()
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        if let Some(known) = self.known.borrow().get(term) {
            return Ok(*known);
        }
        let found = Searcher::doc_freq(self.searcher, term)?;
        self.known.borrow_mut().insert(term.clone(), found);
        Ok(found)
    }
}
