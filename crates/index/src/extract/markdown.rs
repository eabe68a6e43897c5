//! Markdown: as it is, with its lines, called by its first heading.

use super::{Teller, encoding};
use crate::failure::Failure;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let text = encoding::decode(bytes, None);
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
    teller.head(title.as_deref(), None)?;
    teller.lines(&text)
}
