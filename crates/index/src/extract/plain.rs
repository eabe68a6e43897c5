//! Text as it is.

use super::{Teller, encoding};
use crate::{document::DocumentPlace, failure::Failure};

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    teller.head(None, None)?;
    teller.text(DocumentPlace::Whole, encoding::decode(bytes, None), None)
}
