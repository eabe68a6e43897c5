//! Access to files in ZIP packages, as used by office documents and books, and XML as a tree. Element and attribute
//! names have no prefixes.

use std::io::{self, Cursor, Read as _, Write as _};

use memchr::memmem;
use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::broken;
use crate::{
    failure::{Failure, Limits, fail_if},
    kind::Kind,
};

/// Maximum nesting depth of elements. Deeper text is added to the last element.
const MAX_DEPTH: usize = 200;

/// Element of an XML document.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Child>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Child {
    /// Text with resolved entities.
    Text(String),
    Node(Node),
}

impl Node {
    /// Returns the value of an attribute, ignoring its prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Iterates over the child elements.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|child| match child {
            Child::Node(node) => Some(node),
            Child::Text(_) => None,
        })
    }

    pub(super) fn node(&self, name: &str) -> Option<&Self> {
        self.nodes().find(|node| node.name == name)
    }

    /// Returns the first descendant with this name.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        self.nodes().find_map(|node| if node.name == name { Some(node) } else { node.find(name) })
    }

    /// Returns the descendants with this name in document order, without those nested in another match.
    pub(super) fn all(&self, name: &str) -> Vec<&Self> {
        self.nodes().flat_map(|node| if node.name == name { vec![node] } else { node.all(name) }).collect()
    }

    /// Returns all text inside the element.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.add_text(&mut text);
        text
    }

    fn add_text(&self, text: &mut String) {
        for child in &self.children {
            match child {
                Child::Text(more) => text.push_str(more),
                Child::Node(node) => node.add_text(text),
            }
        }
    }

    fn from_tag(tag: &BytesStart<'_>) -> Self {
        let mut attributes = tag.attributes();
        let attributes = attributes.with_checks(false).flatten().map(|attribute| {
            let raw = attribute.value.into_owned();
            let value = quick_xml::escape::unescape(&raw).map(std::borrow::Cow::into_owned);
            (attribute.key.local_name().as_ref().to_owned(), value.unwrap_or(raw))
        });
        Self { name: tag.local_name().as_ref().to_owned(), attributes: attributes.collect(), children: Vec::new() }
    }
}

/// Parses a document. The root is an unnamed node that contains the document's root element.
///
/// # Errors
/// Returns the parser's message. Content before the damage is discarded.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = false;
    let mut open = vec![Node::default()];
    // Number of open elements that are too deep for the tree.
    let mut beyond = 0_usize;
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(_) if open.len() > MAX_DEPTH => beyond += 1,
            Event::Start(tag) => open.push(Node::from_tag(&tag)),
            Event::Empty(tag) => add(&mut open, Child::Node(Node::from_tag(&tag))),
            Event::End(_) if beyond > 0 => beyond -= 1,
            Event::End(_) => close(&mut open),
            Event::Text(text) => {
                let text = text.replace("\r\n", "\n");
                add(&mut open, Child::Text(text));
            }
            Event::CData(text) => add(&mut open, Child::Text(text.to_string())),
            Event::GeneralRef(entity) => {
                let name = entity.to_string();
                let letters = quick_xml::escape::unescape(&format!("&{name};")).map(std::borrow::Cow::into_owned);
                // Entities that the document defines are not expanded, as they could produce any amount of text.
                let other = || if name == "nbsp" { " ".to_owned() } else { format!("&{name};") };
                add(&mut open, Child::Text(letters.unwrap_or_else(|_| other())));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    Ok(open.pop().unwrap_or_default())
}

fn add(open: &mut [Node], child: Child) {
    let Some(node) = open.last_mut() else { return };
    match (node.children.last_mut(), child) {
        (Some(Child::Text(text)), Child::Text(more)) => text.push_str(&more),
        (_, child) => node.children.push(child),
    }
}

fn close(open: &mut Vec<Node>) {
    if open.len() > 1
        && let Some(done) = open.pop()
    {
        add(open, Child::Node(done));
    }
}

/// Maximum size of a file as a multiple of the text limit, because markup takes more space than text.
const MARKUP_FACTOR: u64 = 4;

/// ZIP package of a document.
pub(super) struct Package<B = Vec<u8>> {
    archive: ZipArchive<Cursor<B>>,
    kind: Kind,
    max_bytes: u64,
}

impl<B: AsRef<[u8]>> Package<B> {
    pub(super) fn open(bytes: B, kind: Kind, limits: &Limits) -> Result<Self, Failure> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(kind, &error.to_string()))?;
        Ok(Self { archive, kind, max_bytes: limits.bytes_out.saturating_mul(MARKUP_FACTOR) })
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.archive.file_names().flatten().map(|name| name.to_string()).collect()
    }

    /// Writes the package with new content for some files.
    pub(super) fn rewrite(mut self, contents: &[(String, Vec<u8>)]) -> Result<Vec<u8>, Failure> {
        let kind = self.kind;
        let failed = |error: zip::result::ZipError| broken(kind, &error.to_string());
        let mut other = ZipWriter::new(Cursor::new(Vec::new()));
        for index in 0..self.archive.len() {
            let file = self.archive.by_index_raw(index).map_err(failed)?;
            let name = file.name().map_err(failed)?.to_string();
            match contents.iter().find(|(changed, _)| *changed == name) {
                Some((_, content)) => {
                    drop(file);
                    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
                    other.start_file(name, stored).map_err(failed)?;
                    other.write_all(content).map_err(|error| broken(kind, &error.to_string()))?;
                }
                None => other.raw_copy_file(file).map_err(failed)?,
            }
        }
        Ok(other.finish().map_err(failed)?.into_inner())
    }

    /// Returns a file as text, or `None` if the file does not exist.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.bytes(name)?.map(|bytes| super::clean::decode(&bytes, None)))
    }

    /// Returns the content of a file, or `None` if the file does not exist.
    pub(super) fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let Some(index) = self.archive.index_for_name(name) else { return Ok(None) };
        let broken = |reason: String| broken(self.kind, &format!("{name}: {reason}"));
        let file = self.archive.by_index(index).map_err(|error| match error {
            zip::result::ZipError::UnsupportedArchive(zip::result::ZipError::PASSWORD_REQUIRED) => {
                Failure::Encrypted(self.kind)
            }
            error => broken(error.to_string()),
        })?;
        let mut bytes = Vec::new();
        file.take(self.max_bytes + 1).read_to_end(&mut bytes).map_err(|error| broken(error.to_string()))?;
        fail_if(bytes.len() as u64 > self.max_bytes, || Failure::too_large(name, self.max_bytes))?;
        Ok(Some(bytes))
    }

    /// Returns the first `bytes` bytes of a file, or fewer if the file is damaged.
    pub(super) fn beginning(&mut self, name: &str, bytes: u64) -> Option<String> {
        let index = self.archive.index_for_name(name)?;
        let mut start = Vec::new();
        // For a damaged file, returns the content before the damage.
        let _ = self.archive.by_index(index).ok()?.take(bytes).read_to_end(&mut start);
        Some(String::from_utf8_lossy(&start).into_owned())
    }

    /// Returns true if any file except those excluded by `but` may contain a tag, or if the files are too large to be
    /// searched. The search takes a tenth of the parsing time.
    pub(super) fn may_have_tag(&mut self, tag: &str, but: impl Fn(&str) -> bool) -> bool {
        let mut left = self.max_bytes;
        (0..self.archive.len()).any(|index| {
            // Files that cannot be opened are not read by any other code either.
            let Ok(file) = self.archive.by_index(index) else { return false };
            let is_other = file.name().is_ok_and(|name| but(&name));
            !is_other && contains_tag(file, tag, &mut left)
        })
    }

    /// Returns a required file as text.
    pub(super) fn required_text(&mut self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| broken(self.kind, &format!("{name} is missing")))
    }
}

/// Resolves a path relative to a folder in the archive.
pub(super) fn resolve_target(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns true if an XML stream may contain a tag, or if `left` is exhausted. The number of bytes read is subtracted
/// from `left`.
fn contains_tag(mut file: impl io::Read, tag: &str, left: &mut u64) -> bool {
    const BUFFER_BYTES: usize = 64 * 1024;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES + tag.len());
    let mut is_first = true;
    loop {
        let carried = buffer.len();
        let read = file.by_ref().take(BUFFER_BYTES as u64).read_to_end(&mut buffer);
        let count = buffer.len() - carried;
        // The tag is encoded differently in UTF-16.
        let is_wide =
            std::mem::take(&mut is_first) && (buffer.starts_with(b"\xff\xfe") || buffer.starts_with(b"\xfe\xff"));
        *left = left.saturating_sub(count as u64);
        if is_wide || *left == 0 || memmem::find(&buffer, tag.as_bytes()).is_some() {
            return true;
        }
        if read.is_err() || count == 0 {
            return false;
        }
        // The end remains in the buffer, because the tag may span two pieces.
        buffer.drain(..buffer.len().saturating_sub(tag.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_tree_matches_its_source() {
        let tree =
            parse("<?xml version='1.0'?><a:r x:k='1 &lt; 2'><b>Q &amp; A</b>&#8364;<c/><![CDATA[<x>]]></a:r>").unwrap();
        let root = tree.node("r").unwrap();
        assert_eq!(root.attribute("k"), Some("1 < 2"));
        assert_eq!((root.text().as_str(), root.nodes().count()), ("Q & A€<x>", 2));
        let deep = "<d>".repeat(5000) + "text" + &"</d>".repeat(5000);
        assert_eq!(parse(&deep).unwrap().text(), "text");
        assert_eq!(parse("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>").unwrap().text(), "&e;");
        assert!(parse("<a").is_err());
    }

    fn package(text: &[u8], limits: &Limits) -> Package {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("sheet.xml", SimpleFileOptions::default()).unwrap();
        zip.write_all(text).unwrap();
        Package::open(zip.finish().unwrap().into_inner(), Kind::Xlsx, limits).unwrap()
    }

    #[test]
    fn tag_is_found_at_any_offset() {
        let limits = Limits::default();
        for before in [0, 1, 65_530, 65_536, 65_537, 131_070, 400_000] {
            let text = format!("{}<mergeCells>{}", " ".repeat(before), " ".repeat(100));
            let mut package = package(text.as_bytes(), &limits);
            assert!(package.may_have_tag("mergeCell", |_| false), "{before}");
            assert!(!package.may_have_tag("mergeCellz", |_| false), "{before}");
            assert!(!package.may_have_tag("mergeCell", |name| name == "sheet.xml"));
        }
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain("<a/>".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert!(package(&wide, &limits).may_have_tag("mergeCell", |_| false), "the search limit was reached");
    }

    #[test]
    fn oversized_part_may_contain_any_tag() {
        let text = vec![b' '; 300_000];
        let is_complete = |bytes_out| {
            let limits = Limits { bytes_out, ..Limits::default() };
            package(&text, &limits).may_have_tag("mergeCell", |_| false)
        };
        assert!(is_complete(300_000 / MARKUP_FACTOR) && !is_complete(300_000 / MARKUP_FACTOR + 1));
    }
}
