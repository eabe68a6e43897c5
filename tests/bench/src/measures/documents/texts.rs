//! Document texts, for a script that compares them.

use std::fs::File;

use agentd_index::{Body, DocumentPlace, Extractor, Kind, Limits, Part, Piece};

use super::{corpus::Document, *};

/// Document texts by location: pages, slides, and sheet cells.
pub(super) struct Texts<'a>(BTreeMap<&'a str, BTreeMap<String, String>>);

impl<'a> Texts<'a> {
    /// Reads the documents in a folder. Unreadable documents have no text.
    pub(super) async fn read(
        folder: &Path,
        documents: impl IntoIterator<Item = &'a Document>,
    ) -> anyhow::Result<Texts<'a>> {
        let extractor = Extractor::new(world::program("agentd")?, Limits::default(), 2);
        let mut texts: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for document in documents {
            let path = folder.join(&document.name);
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            let pages = texts.entry(&document.name).or_default();
            parts(&extractor, file, &document.name).await.iter().for_each(|part| insert_part(part, pages));
        }
        Ok(Self(texts))
    }

    /// Writes the texts as JSON into a folder, and returns the path.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join("texts.json");
        fs::write(&path, serde_json::to_vec(&self.0)?)?;
        Ok(path)
    }
}

/// Reads the parts of a document up to the first error.
pub(super) async fn parts(extractor: &Extractor, file: File, name: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Ok(mut extraction) = extractor.extract(file, Kind::of_name(name), CancellationToken::new()).await {
        while let Some(Ok(piece)) = extraction.next().await {
            parts.extend(if let Piece::Part(part) = piece { Some(part) } else { None });
        }
    }
    parts
}

/// Adds a part to the texts of a document, by location.
fn insert_part(part: &Part, pages: &mut BTreeMap<String, String>) {
    if let (DocumentPlace::Sheet { name, .. }, Body::Table(table)) = (&part.place, &part.body) {
        for row in table.header.iter().chain(&table.rows) {
            for (column, cell) in (table.first_column + 1..).zip(&row.cells) {
                pages.entry(format!("{name}\t{}\t{column}", row.number)).or_insert_with(|| cell.clone());
            }
        }
        return;
    }
    // A text without pages is a single part.
    let location = match part.place {
        DocumentPlace::Page(number) | DocumentPlace::ScannedPage(number) | DocumentPlace::Slide(number) => {
            number.to_string()
        }
        _ => String::new(),
    };
    let page = pages.entry(location).or_default();
    page.push_str(&part.markdown());
    page.push('\n');
}
