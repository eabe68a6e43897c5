//! OpenDocument texts and presentations.

use super::{
    Emitter, broken,
    package::{self, Child, Node, Package},
};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

/// Maximum number of spaces for one element.
const MAX_SPACES: usize = 100;
/// Maximum number of repetitions of a table cell.
const MAX_REPEATS: usize = 100;

/// Returns the number of times a cell is repeated.
fn repeated(cell: &Node) -> usize {
    cell.attribute("number-columns-repeated").and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Reads a text document with its headers and footers.
pub(super) fn text(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let (mut package, content) = open_content(bytes, Kind::Odt, emitter)?;
    let body = content.find("body").and_then(|body| body.node("text"));
    let mut blocks = body.map(|body| blocks_of(body, 0)).unwrap_or_default();
    let styles = package.text("styles.xml")?.map(|styles| package::parse(&styles)).and_then(Result::ok);
    let mut margins = Vec::new();
    for name in ["header", "footer", "header-first", "footer-first", "header-left", "footer-left"] {
        let masters = styles.as_ref().and_then(|styles| styles.find("master-styles"));
        for one in masters.map(|masters| masters.all(name)).unwrap_or_default() {
            let label = if name.starts_with("header") { "Header" } else { "Footer" };
            margins.extend(blocks_of(one, 0).into_iter().map(|line| format!("{label}: {line}")));
        }
    }
    super::add_margins(&mut blocks, margins);
    emitter.unpaged_text(blocks.join("\n\n"))
}

pub(super) fn presentation(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let (_, content) = open_content(bytes, Kind::Odp, emitter)?;
    let pages = content.all("page");
    for (number, page) in (1..).zip(pages) {
        let (mut blocks, mut notes) = (Vec::new(), Vec::new());
        for node in page.nodes() {
            if node.name == "notes" {
                notes.extend(blocks_of(node, 0));
                continue;
            }
            // Text of the title frame.
            let title = (node.attribute("class") == Some("title")).then(|| blocks_of(node, 0).join(" "));
            match title.filter(|title| !title.is_empty()) {
                Some(title) => blocks.push(format!("# {title}")),
                None => write_block(node, 0, &mut blocks),
            }
        }
        let notes = Some(notes.join("\n\n")).filter(|notes| !notes.is_empty());
        emitter.text(DocumentPlace::Slide(number), blocks.join("\n\n"), notes, None)?;
    }
    Ok(())
}

fn open_content(bytes: Vec<u8>, kind: Kind, emitter: &mut Emitter<'_>) -> Result<(Package, Node), Failure> {
    let mut package = Package::open(bytes, kind, emitter.limits)?;
    if package.text("META-INF/manifest.xml")?.is_some_and(|manifest| manifest.contains("encryption-data")) {
        return Err(Failure::Encrypted(kind));
    }
    let content = package::parse(&package.required_text("content.xml")?).map_err(|reason| broken(kind, &reason))?;
    let title = package.text("meta.xml")?.and_then(|meta| Some(package::parse(&meta).ok()?.find("title")?.text()));
    let slides = (kind == Kind::Odp).then(|| content.all("page").len());
    emitter.head(title.as_deref(), slides)?;
    // Empty cells only fill the row.
    let is_left_out = |cell: &Node| repeated(cell) > MAX_REPEATS && !cell.text().trim().is_empty();
    if content.all("table-cell").into_iter().any(is_left_out) {
        emitter.leave_out(format!("a table row repeats a cell more than {MAX_REPEATS} times"));
    }
    Ok((package, content))
}

/// Returns the blocks of an element's content.
fn blocks_of(node: &Node, depth: usize) -> Vec<String> {
    let mut blocks = Vec::new();
    for node in node.nodes() {
        write_block(node, depth, &mut blocks);
    }
    blocks
}

fn write_block(node: &Node, depth: usize, blocks: &mut Vec<String>) {
    match node.name.as_str() {
        "h" => {
            let level = node.attribute("outline-level").and_then(|level| level.parse().ok()).unwrap_or(1_usize);
            let text = Some(line(node)).filter(|text| !text.is_empty());
            blocks.extend(text.map(|text| format!("{} {text}", "#".repeat(level.clamp(1, 6)))));
        }
        "p" => {
            blocks.extend(Some(line(node)).filter(|text| !text.is_empty()));
            // Frames are anchored in the paragraph but displayed beside it.
            blocks.extend(node.all("text-box").into_iter().flat_map(|frame| blocks_of(frame, depth)));
        }
        "list" => {
            for item in node.nodes() {
                let indent = "  ".repeat(depth);
                for (number, block) in blocks_of(item, depth + 1).into_iter().enumerate() {
                    let is_nested = block.trim_start().starts_with("- ");
                    let mark = if number == 0 && !is_nested { format!("{indent}- ") } else { String::new() };
                    blocks.push(format!("{mark}{block}"));
                }
            }
        }
        "table" => blocks.extend(super::table(node.all("table-row").into_iter().map(cells).collect())),
        // Deleted text, and templates of tables of contents, which duplicate text.
        "tracked-changes" | "index-title-template" | "table-of-content-source" | "notes" | "sequence-decls" => {}
        _ => blocks.extend(blocks_of(node, depth)),
    }
}

fn cells(row: &Node) -> Vec<String> {
    let mut cells = Vec::new();
    for cell in row.nodes().filter(|cell| cell.name.ends_with("table-cell")) {
        let text = blocks_of(cell, 0).join("<br>");
        (0..repeated(cell).min(MAX_REPEATS)).for_each(|_| cells.push(text.clone()));
    }
    cells
}

/// Returns the text of a paragraph with its line breaks. Notes and comments are enclosed in brackets.
fn line(node: &Node) -> String {
    let mut text = String::new();
    add(node, &mut text);
    text.trim().to_owned()
}

fn add(node: &Node, text: &mut String) {
    for child in &node.children {
        match child {
            // Consecutive white space counts as one space. Additional spaces are separate elements.
            Child::Text(more) => {
                let mut last = text.chars().next_back();
                for letter in more.chars() {
                    let letter = if letter.is_ascii_whitespace() { ' ' } else { letter };
                    if letter != ' ' || last != Some(' ') {
                        text.push(letter);
                    }
                    last = Some(letter);
                }
            }
            Child::Node(node) => match node.name.as_str() {
                "s" => {
                    let count = node.attribute("c").and_then(|count| count.parse().ok()).unwrap_or(1_usize);
                    text.push_str(&" ".repeat(count.min(MAX_SPACES)));
                }
                "tab" => text.push('\t'),
                "line-break" => text.push('\n'),
                "note" => {
                    let body = node.node("note-body").map(line).unwrap_or_default();
                    text.push_str(&format!(" [Note: {body}]"));
                }
                "annotation" => {
                    let by = node.node("creator").map(Node::text).map(|by| format!(" by {by}")).unwrap_or_default();
                    let paragraphs: Vec<String> = node.nodes().filter(|node| node.name == "p").map(line).collect();
                    text.push_str(&format!(" [Comment{by}: {}]", paragraphs.join(" ")));
                }
                "text-box" | "tracked-changes" => {}
                "p" | "h" => {
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    add(node, text);
                }
                _ => add(node, text),
            },
        }
    }
}
