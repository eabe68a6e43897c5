//! Texts with numbers.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Different texts, each stored once and numbered from 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    bytes: String,
    /// End of each text in the bytes.
    ends: Vec<u32>,
}

impl Interner {
    /// Number of a text, which is stored if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(known) = self.get(text) {
            return known;
        }
        let number = super::count(self.ends.len());
        self.bytes.push_str(text);
        self.ends.push(super::count(self.bytes.len()));
        let Self { hasher, table, bytes, ends } = self;
        let hash = hasher.hash_one(text);
        table.insert_unique(hash, number, |number| hasher.hash_one(text_of(bytes, ends, *number)));
        number
    }

    /// Number of a text, if it is stored.
    pub(crate) fn get(&self, text: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |number| self.text(*number) == text).copied()
    }

    /// Text of a number; empty if there is none.
    pub(crate) fn text(&self, number: u32) -> &str {
        text_of(&self.bytes, &self.ends, number)
    }

    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

fn text_of<'all>(bytes: &'all str, ends: &[u32], number: u32) -> &'all str {
    let at = number as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(at).copied().unwrap_or(start);
    bytes.get(start as usize..end as usize).unwrap_or_default()
}
