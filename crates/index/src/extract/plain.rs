//! Text as it is, with its lines.

use super::{Teller, encoding};
use crate::failure::Failure;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let text = encoding::decode(bytes, None);
    teller.head(None, None)?;
    teller.lines(&text)
}
