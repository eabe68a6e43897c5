//! Comments on cells, which workbooks keep apart from their sheets.

use std::collections::{BTreeMap, HashMap};

use super::{
    clean,
    package::{self, Package},
    recognise::contains,
    xml::{self, Node},
};
use crate::{failure::Failure, kind::Kind, limits::Limits};

/// Comments of a sheet by row and column, both from 0.
pub(super) type Comments = BTreeMap<(u32, u32), String>;

/// Comments of a workbook.
#[derive(Debug, Default)]
pub(super) struct BookComments {
    /// By the names of their sheets.
    pub(super) sheets: HashMap<String, Comments>,
    /// Sheets with comments of which something was left out, and why.
    pub(super) truncated: Vec<String>,
}

/// Comments of one sheet that are read.
const MOST: usize = 100_000;
/// Bytes of one comment; a cell has as many letters.
const LENGTH: usize = 32 * 1024;

/// The comments of all sheets. A workbook without comments is still one: what is wrong is found by whoever reads its cells.
pub(super) fn read(bytes: &[u8], limits: &Limits) -> BookComments {
    if !contains(bytes, b"comments") {
        return BookComments::default();
    }
    Package::open(bytes, Kind::Xlsx, limits).and_then(|mut package| found(&mut package)).unwrap_or_default()
}

fn found(package: &mut Package<&[u8]>) -> Result<BookComments, Failure> {
    let mut all = BookComments::default();
    let Some(book) = tree(package, "xl/workbook.xml")? else { return Ok(all) };
    let sheets = related(package, "xl/workbook.xml")?;
    let named = book.all("sheet");
    for sheet in named {
        let (Some(name), Some(id)) = (sheet.attribute("name"), sheet.attribute("id")) else { continue };
        let Some((_, _, path)) = sheets.iter().find(|(own, ..)| own == id) else { continue };
        let beside = related(package, path)?;
        let Some((_, _, path)) = beside.iter().find(|(_, kind, _)| kind.ends_with("/comments")) else { continue };
        if let Some(told) = tree(package, path)? {
            let (comments, truncated) = comments(&told);
            all.truncated.extend(truncated.map(|why| format!("sheet {name} has {why}")));
            all.sheets.insert(name.to_owned(), comments);
        }
    }
    Ok(all)
}

fn tree(package: &mut Package<&[u8]>, path: &str) -> Result<Option<Node>, Failure> {
    Ok(package.text(path)?.and_then(|text| xml::parse(&text).ok()))
}

/// Files that a file names: id, kind and path of each.
fn related(package: &mut Package<&[u8]>, path: &str) -> Result<Vec<(String, String, String)>, Failure> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some(list) = tree(package, &format!("{folder}/_rels/{name}.rels"))? else { return Ok(Vec::new()) };
    let found = list.all("Relationship");
    let of = |node: &&Node| {
        let target = node.attribute("Target")?;
        let path = package::resolved(if target.starts_with('/') { "" } else { folder }, target);
        Some((node.attribute("Id")?.to_owned(), node.attribute("Type")?.to_owned(), path))
    };
    Ok(found.iter().filter_map(of).collect())
}

/// The comments of a sheet, and what it has too much of.
fn comments(told: &Node) -> (Comments, Option<String>) {
    let mut is_long = false;
    let authors = told.all("author");
    let list = told.all("comment");
    let mut of = |comment: &&Node| {
        let place = place(comment.attribute("ref")?)?;
        let by: Option<usize> = comment.attribute("authorId").and_then(|id| id.parse().ok());
        let by = by.and_then(|by| authors.get(by)).map(|by| by.text()).unwrap_or_default();
        let text = comment.node("text").map(Node::text).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Many programs write the name into the comment as well.
        let text = text.strip_prefix(by.trim()).map(|rest| rest.trim_start_matches([':', ' '])).unwrap_or(&text);
        is_long |= text.len() > LENGTH;
        let text = text.get(..text.floor_char_boundary(LENGTH)).unwrap_or_default();
        let by = if by.trim().is_empty() { String::new() } else { format!(" by {}", by.trim()) };
        (!text.is_empty()).then(|| (place, format!("[Comment{by}: {text}]")))
    };
    let comments = list.iter().take(MOST).filter_map(&mut of).collect();
    let truncated = match is_long {
        _ if list.len() > MOST => Some(format!("more than {MOST} comments")),
        true => Some(format!("a comment of more than {} KiB", LENGTH / 1024)),
        false => None,
    };
    (comments, truncated)
}

/// Row and column of `B3`, both from 0; none of a cell that no sheet can have.
fn place(name: &str) -> Option<(u32, u32)> {
    let digits = name.find(|letter: char| letter.is_ascii_digit())?;
    let (letters, number) = name.split_at(digits);
    let column = letters.bytes().try_fold(0_u32, |column, letter| {
        let letter = letter.to_ascii_uppercase().checked_sub(b'A').filter(|letter| *letter < 26)?;
        column.checked_mul(26)?.checked_add(u32::from(letter) + 1)
    })?;
    let (row, column) = (number.parse::<u32>().ok()?, column.checked_sub(1)?);
    let can_be = (1..=clean::MAX_ROWS).contains(&row) && column < clean::MAX_COLUMNS;
    can_be.then_some((row.checked_sub(1)?, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_at_its_cell() {
        assert_eq!((place("B3"), place("AA10"), place("3")), (Some((2, 1)), Some((9, 26)), None));
        assert_eq!((place("XFD1"), place("XFE1"), place("A0")), (Some((0, 16_383)), None, None));
        assert_eq!((place("A1073741825"), place("ZZZZZZ1")), (None, None));
        let told = xml::parse(
            "<comments><authors><author>Anna</author></authors><commentList><comment ref='B3' authorId='0'><text><r><t>Anna:\n\
             </t></r><r><t>check this</t></r></text></comment></commentList></comments>",
        );
        let expected = Comments::from([((2, 1), "[Comment by Anna: check this]".to_owned())]);
        assert_eq!(comments(&told.unwrap()), (expected, None));
        let long = "x".repeat(LENGTH + 1);
        let told = format!(
            "<comments><commentList><comment ref='A1'><text><t>{long}</t></text></comment></commentList></comments>"
        );
        let (told, truncated) = comments(&xml::parse(&told).unwrap());
        assert_eq!((told.len(), truncated.as_deref()), (1, Some("a comment of more than 32 KiB")));
    }
}
