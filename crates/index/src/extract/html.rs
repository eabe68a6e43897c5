//! HTML pages as Markdown, EPUB books (archives of pages in reading order), and Jupyter notebooks with the output of
//! each cell.

use std::{collections::HashSet, fmt::Write as _};

use htmd::HtmlToMarkdown;
use serde_json::Value;

use super::{
    Emitter, broken, clean,
    package::{self, Package},
};
use crate::{
    failure::{Failure, fail_if},
    kind::Kind,
};

/// Elements that contain no readable text.
const NON_TEXT_ELEMENTS: [&str; 8] = ["script", "style", "noscript", "template", "svg", "iframe", "head", "canvas"];

/// Maximum nesting depth of elements. Real pages have a few dozen levels, and parsing time grows with the square of the
/// depth.
const MAX_DEPTH: usize = 10_000;

/// Elements without content, or whose end tag is optional.
const UNCLOSED_ELEMENTS: [&str; 28] = [
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr",
];

/// Number of leading bytes that are searched for an encoding declaration.
const ENCODING_SEARCH_BYTES: usize = 4096;

pub(super) fn extract(bytes: &[u8], emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let page = decode_page(bytes);
    emitter.head(title(&page).as_deref(), None)?;
    let text = markdown(&page).map_err(|reason| broken(Kind::Html, &reason))?;
    emitter.unpaged_text(text)
}

/// Decodes a page with the encoding that the page declares.
pub(super) fn decode_page(bytes: &[u8]) -> String {
    clean::decode(bytes, declared_encoding(bytes).as_deref())
}

/// Converts a page to Markdown.
///
/// # Errors
/// Returns a description of the damage.
pub(super) fn markdown(page: &str) -> Result<String, String> {
    fail_if(depth(page) > MAX_DEPTH, || format!("its elements are nested more than {MAX_DEPTH} deep"))?;
    let converter = HtmlToMarkdown::builder().skip_tags(NON_TEXT_ELEMENTS.to_vec()).build();
    converter.convert(page).map_err(|error| error.to_string())
}

/// Returns the approximate nesting depth of the elements.
fn depth(page: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (at, _) in page.match_indices('<') {
        let rest = &page[at + 1..];
        let (ends, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let end = rest.bytes().take(12).take_while(u8::is_ascii_alphanumeric).count();
        let name = &rest[..end];
        let is_element = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !is_element || UNCLOSED_ELEMENTS.iter().any(|open| name.eq_ignore_ascii_case(open)) {
            continue;
        }
        depth = if ends { depth.saturating_sub(1) } else { depth + 1 };
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns the encoding in `<meta charset="…">` or its older form.
fn declared_encoding(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(ENCODING_SEARCH_BYTES)]).to_ascii_lowercase();
    let (_, after) = start.split_once("charset=")?;
    let letters = after.trim_start_matches(['"', '\'']).chars();
    let label: String = letters.take_while(|c| c.is_ascii_alphanumeric() || "-_:".contains(*c)).collect();
    Some(label).filter(|label| !label.is_empty())
}

fn title(page: &str) -> Option<String> {
    const MAX_TITLE_BYTES: usize = 2000;
    let lower = page.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title").filter(|length| *length <= MAX_TITLE_BYTES)?;
    let mut title = page[start..end].to_owned();
    // `&amp;` comes last, so that its result is not decoded again.
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        title = title.replace(entity, letter);
    }
    Some(title)
}

/// Maximum number of chapters in a book.
const MAX_CHAPTERS: usize = 5000;

pub(super) fn book(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let damaged = |reason: String| broken(Kind::Epub, &reason);
    let mut package = Package::open(bytes, Kind::Epub, emitter.limits)?;
    let container = package::parse(&package.required_text("META-INF/container.xml")?).map_err(damaged)?;
    let root = container.find("rootfile").and_then(|root| root.attribute("full-path")).unwrap_or_default().to_owned();
    let book = package::parse(&package.required_text(&root)?).map_err(damaged)?;
    let metadata = |name: &str| book.find("metadata").and_then(|about| about.find(name)).map(package::Node::text);
    let (Some(manifest), Some(spine)) = (book.find("manifest"), book.find("spine")) else {
        return Err(damaged("it has no list of chapters".to_owned()));
    };
    let folder = root.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
    let chapters = || spine.nodes().filter(|item| item.name == "itemref").filter_map(|item| item.attribute("idref"));
    let item = |id: &str| manifest.nodes().find(|item| item.attribute("id") == Some(id));
    let path = |id: &str| Some(resolve_href(&folder, item(id)?.attribute("href")?));
    let protected = encrypted_files(&mut package);
    if chapters().take(MAX_CHAPTERS).filter_map(path).any(|path| protected.contains(&path)) {
        let protection = "it has copy protection (DRM) and opens only in the program of its shop or library";
        return Err(Failure::Protected { kind: Kind::Epub, how: protection.to_owned() });
    }
    emitter.head(metadata("title").as_deref(), None)?;
    let mut missing = None;
    let by = metadata("creator").filter(|by| !by.trim().is_empty());
    let mut by = by.map(|by| format!("By {}\n\n", by.trim())).unwrap_or_default();
    if chapters().nth(MAX_CHAPTERS).is_some() {
        emitter.leave_out(format!("it has more than {MAX_CHAPTERS} chapters"));
    }
    // A chapter that the spine lists twice is read once.
    let mut shown = HashSet::new();
    for path in chapters().take(MAX_CHAPTERS).filter_map(path).filter(|path| shown.insert(path.clone())) {
        match package.text(&path) {
            Ok(Some(page)) => {
                let text = markdown(&page).map_err(damaged)?;
                emitter.chapter(std::mem::take(&mut by) + text.trim())?;
            }
            Ok(None) => missing = missing.or(Some(format!("{path} is missing"))),
            Err(Failure::Encrypted(kind)) => return Err(Failure::Encrypted(kind)),
            Err(failure @ Failure::TooLarge { .. }) => return Err(failure),
            Err(failure) => missing = missing.or(Some(failure.to_string())),
        }
    }
    missing.map_or(Ok(()), |reason| Err(damaged(reason)))
}

/// Returns the paths of encrypted files. Obfuscated fonts are excluded, since they do not affect the text.
fn encrypted_files(package: &mut Package) -> HashSet<String> {
    const FONT_ALGORITHMS: [&str; 2] = ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];
    let list = package.text("META-INF/encryption.xml").ok().flatten();
    let list = list.and_then(|list| package::parse(&list).ok()).unwrap_or_default();
    let encrypted = list.all("EncryptedData");
    let path = |data: &package::Node| {
        let algorithm = data.node("EncryptionMethod").and_then(|method| method.attribute("Algorithm"));
        let is_font = algorithm.is_some_and(|algorithm| FONT_ALGORITHMS.contains(&algorithm));
        data.find("CipherReference").filter(|_| !is_font)?.attribute("URI").map(|path| resolve_href("", path))
    };
    encrypted.into_iter().filter_map(path).collect()
}

/// Resolves a reference to a path in the archive: removes `..` and the fragment, and decodes percent escapes.
fn resolve_href(folder: &str, href: &str) -> String {
    let href = href.split('#').next().unwrap_or_default();
    let mut parts = href.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(b'%'));
        bytes.extend(part.bytes().skip(if code.is_some() { 2 } else { 0 }));
    }
    package::resolve_target(folder, &String::from_utf8_lossy(&bytes))
}

/// Maximum number of characters in the output of a cell.
const MAX_OUTPUT: usize = 10_000;

pub(super) fn notebook(bytes: &[u8], emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let text = clean::decode(bytes, None);
    let book: Value = serde_json::from_str(&text).map_err(|error| broken(Kind::Ipynb, &error.to_string()))?;
    // Version 3 of the format nests the cells in a worksheet.
    let cells = book.get("cells").or_else(|| book.pointer("/worksheets/0/cells")).and_then(Value::as_array);
    let cells = cells.ok_or_else(|| broken(Kind::Ipynb, "it has no cells"))?;
    let language = ["/metadata/kernelspec/language", "/metadata/language_info/name"];
    let language = language.iter().find_map(|at| book.pointer(at)?.as_str()).unwrap_or("python");
    let mut long = Vec::new();
    let shown = |(number, cell)| {
        let (text, is_cut) = formatted_cell(number, cell, language);
        long.extend(is_cut.then_some(number));
        text
    };
    let parts: Vec<String> = (1..).zip(cells).map(shown).filter(|cell| !cell.is_empty()).collect();
    let title = parts.iter().flat_map(|part| part.lines()).find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
    emitter.head(title.as_deref(), None)?;
    for number in long {
        emitter.leave_out(format!("cell {number} printed more than {MAX_OUTPUT} characters"));
    }
    emitter.unpaged_text(parts.join("\n\n"))
}

/// Formats a cell with its output. Returns true if the output was truncated.
fn formatted_cell(number: usize, cell: &Value, language: &str) -> (String, bool) {
    let source = cell.get("source").or_else(|| cell.get("input")).map(joined_lines).unwrap_or_default();
    let source = source.trim_end();
    if cell.get("cell_type").and_then(Value::as_str) != Some("code") {
        return (source.to_owned(), false);
    }
    let mut is_cut = false;
    let mut text = format!("[cell {number}]\n```{language}\n{source}\n```");
    for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
        let printed = [output.get("text"), output.pointer("/data/text~1plain"), output.get("evalue")];
        let Some(printed) = printed.into_iter().flatten().next().map(joined_lines) else { continue };
        let error = output.get("ename").and_then(Value::as_str).map(|name| format!("{name}: ")).unwrap_or_default();
        let end = printed.char_indices().nth(MAX_OUTPUT).map_or(printed.len(), |(at, _)| at);
        is_cut |= end < printed.len();
        let printed = printed.get(..end).unwrap_or_default().trim_end();
        if !printed.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n\nOutput:\n```\n{error}{printed}\n```");
        }
    }
    (text, is_cut)
}

/// Returns a text that may be given as a list of lines.
fn joined_lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_ignores_self_closing_elements() {
        assert_eq!(depth("<html><body><div><p>a<p>b<br>c < d</div><DIV><ul><li>x<li>y</ul></div><!-- <b> -->"), 4);
        assert_eq!(depth(&"<div><ul><li>".repeat(70_000)), 140_000);
        assert_eq!(depth(&"<p><tr><td>a<td>b".repeat(70_000)), 0);
    }

    #[test]
    fn title_and_encoding_are_read_from_html() {
        assert_eq!(title("<HTML><Title lang=en> A &amp; B &amp;lt; </TITLE>").as_deref(), Some(" A & B &lt; "));
        assert_eq!(title("<title>never closed"), None);
        assert_eq!(declared_encoding(b"<meta charset=\"GBK\">").as_deref(), Some("gbk"));
        assert_eq!(declared_encoding(b"<meta content='text/html; charset=Shift_JIS'>").as_deref(), Some("shift_jis"));
    }

    #[test]
    fn chapter_paths_resolve_relative_to_the_book() {
        assert_eq!(resolve_href("OEBPS/", "text/ch%201.xhtml#top"), "OEBPS/text/ch 1.xhtml");
        assert_eq!(resolve_href("OEBPS/", "../Text/a.html"), "Text/a.html");
        assert_eq!(resolve_href("", "100%.html"), "100%.html");
    }

    #[test]
    fn notebook_cells_include_their_output() {
        let cell = serde_json::json!({
            "cell_type": "code", "source": ["x = 1\n", "print(x)"],
            "outputs": [{"output_type": "stream", "text": ["1\n"]}, {"ename": "KeyError", "evalue": "'a'"}]
        });
        assert_eq!(
            formatted_cell(2, &cell, "python").0,
            "[cell 2]\n```python\nx = 1\nprint(x)\n```\n\nOutput:\n```\n1\n```\n\nOutput:\n```\nKeyError: 'a'\n```"
        );
        assert_eq!(
            formatted_cell(1, &serde_json::json!({"cell_type": "markdown", "source": "# Title\n"}), "").0,
            "# Title"
        );
        let long = "x".repeat(MAX_OUTPUT + 1);
        let (text, is_cut) =
            formatted_cell(1, &serde_json::json!({"cell_type": "code", "source": "", "outputs": [{"text": long}]}), "");
        assert!(is_cut && text.len() < MAX_OUTPUT + 100);
    }
}
