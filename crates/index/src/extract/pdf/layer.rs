//! Layers of a document that are switched off, such as comments of its makers or the text in another language.

use std::collections::HashSet;

use hayro_syntax::{
    Pdf,
    object::{Array, Dict, MaybeRef, Name, Object, ObjectIdentifier},
};

/// Layers that are looked at.
const MOST: usize = 10_000;

/// The layers that are not seen.
#[derive(Debug, Default)]
pub(super) struct Layers(HashSet<ObjectIdentifier>);

impl Layers {
    pub(super) fn of(document: &Pdf) -> Self {
        let off = || {
            let catalog = document.xref().get::<Dict<'_>>(document.xref().root_id())?;
            let usual = catalog.get::<Dict<'_>>("OCProperties")?.get::<Dict<'_>>("D")?;
            Some(references(&usual.get::<Array<'_>>("OFF")?))
        };
        Self(off().unwrap_or_default().into_iter().collect())
    }

    /// Returns whether a drawing belongs to a layer that is not seen.
    pub(super) fn hides(&self, drawing: &Dict<'_>) -> bool {
        !self.0.is_empty() && self.hides_key(drawing, b"OC")
    }

    /// Returns whether the layer of this name is not seen.
    pub(super) fn hides_entry(&self, properties: &Dict<'_>, name: &Name<'_>) -> bool {
        !self.0.is_empty() && self.hides_key(properties, name.as_ref())
    }

    fn hides_key(&self, dictionary: &Dict<'_>, key: &[u8]) -> bool {
        if dictionary.get_ref(key).is_some_and(|layer| self.0.contains(&layer.into())) {
            return true;
        }
        // Some belong to several layers, and are seen where one of them is.
        let Some(several) = dictionary.get::<Dict<'_>>(key) else { return false };
        let layers = match several.get_raw::<Object<'_>>("OCGs") {
            Some(MaybeRef::NotRef(Object::Array(layers))) => references(&layers),
            Some(MaybeRef::Ref(layer)) => vec![layer.into()],
            _ => Vec::new(),
        };
        !layers.is_empty() && layers.iter().all(|layer| self.0.contains(layer))
    }
}

fn references(array: &Array<'_>) -> Vec<ObjectIdentifier> {
    let reference = |item| match item {
        MaybeRef::Ref(layer) => Some(ObjectIdentifier::from(layer)),
        MaybeRef::NotRef(_) => None,
    };
    array.raw_iter().take(MOST).filter_map(reference).collect()
}
