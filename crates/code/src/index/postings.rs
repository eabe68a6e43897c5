//! Chunks of one term.

/// Chunks that have a term and its weight in each, in the order of the chunks. Two bytes an entry where a term is frequent:
/// distances and weights are small numbers, written with seven bits a byte.
#[derive(Debug, Default, Clone)]
pub(crate) struct Postings {
    bytes: Vec<u8>,
    last: u32,
}

impl Postings {
    /// Adds a chunk, whose number is larger than those before.
    pub(crate) fn push(&mut self, chunk: u32, weight: u32) {
        // The weight's lowest bit pattern is the most frequent one: a single use.
        write(&mut self.bytes, chunk.wrapping_sub(self.last));
        write(&mut self.bytes, weight);
        self.last = chunk;
    }

    /// Calls back with each chunk and its weight.
    pub(crate) fn for_each(&self, tell: &mut dyn FnMut(u32, u32)) {
        let mut bytes = self.bytes.iter().copied();
        let mut chunk = 0_u32;
        while let Some(distance) = read(&mut bytes) {
            let Some(weight) = read(&mut bytes) else { return };
            chunk = chunk.wrapping_add(distance);
            tell(chunk, weight);
        }
    }

    /// Gives back what growing took in advance.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let byte = bytes.next()?;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn entries_come_back(entries in proptest::collection::btree_map(0..u32::MAX, 1..u32::MAX, 0..50)) {
            let mut postings = Postings::default();
            for (chunk, weight) in &entries {
                postings.push(*chunk, *weight);
            }
            let mut back = Vec::new();
            postings.for_each(&mut |chunk, weight| back.push((chunk, weight)));
            proptest::prop_assert_eq!(back, entries.into_iter().collect::<Vec<_>>());
        }
    }
}
