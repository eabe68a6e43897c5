//! HTML: what a reader of the page sees, as Markdown.

use htmd::HtmlToMarkdown;

use super::{Teller, broken, clean};
use crate::{failure::Failure, kind::Kind};

/// Elements of a page that are not its text.
const NO_TEXT: [&str; 8] = ["script", "style", "noscript", "template", "svg", "iframe", "head", "canvas"];

/// Elements in each other at the most. Pages have some dozens, and what it takes to read them grows with the square.
const MOST_DEPTH: usize = 10_000;

/// Elements that hold nothing, or end where the next begins, as nobody has to write.
const OPEN_ENDED: [&str; 28] = [
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr",
];

/// Bytes of its start that are searched for its own declaration.
const START: usize = 4096;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let page = decoded(bytes);
    teller.head(title(&page).as_deref(), None)?;
    let text = markdown(&page).map_err(|why| broken(Kind::Html, &why))?;
    teller.unpaged(text)
}

/// A page as text, in the encoding that it declares.
pub(super) fn decoded(bytes: &[u8]) -> String {
    clean::decode(bytes, declared(bytes).as_deref())
}

/// The page as a reader sees it, as Markdown.
///
/// # Errors
/// The damage, in words.
pub(super) fn markdown(page: &str) -> Result<String, String> {
    if depth(page) > MOST_DEPTH {
        return Err(format!("its elements are nested more than {MOST_DEPTH} deep"));
    }
    let converter = HtmlToMarkdown::builder().skip_tags(NO_TEXT.to_vec()).build();
    converter.convert(page).map_err(|error| error.to_string())
}

/// Depth to which its elements are nested, about.
fn depth(page: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for (at, _) in page.match_indices('<') {
        let rest = &page[at + 1..];
        let (ends, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let end = rest.bytes().take(12).take_while(u8::is_ascii_alphanumeric).count();
        let name = &rest[..end];
        let is_element = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !is_element || OPEN_ENDED.iter().any(|open| name.eq_ignore_ascii_case(open)) {
            continue;
        }
        depth = if ends { depth.saturating_sub(1) } else { depth + 1 };
        most = most.max(depth);
    }
    most
}

/// `<meta charset="…">`, and the older form of it.
fn declared(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START)]).to_ascii_lowercase();
    let (_, after) = start.split_once("charset=")?;
    let label: String = after
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "-_:".contains(*c))
        .collect();
    Some(label).filter(|label| !label.is_empty())
}

/// Text of the title.
fn title(page: &str) -> Option<String> {
    const MOST: usize = 2000;
    let lower = page.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title").filter(|length| *length <= MOST)?;
    let mut title = page[start..end].to_owned();
    // The last, so that what it brings forth is not read again.
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        title = title.replace(entity, letter);
    }
    Some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_without_what_ends_by_itself() {
        assert_eq!(depth("<html><body><div><p>a<p>b<br>c < d</div><DIV><ul><li>x<li>y</ul></div><!-- <b> -->"), 4);
        assert_eq!(depth(&"<div><ul><li>".repeat(70_000)), 140_000);
        assert_eq!(depth(&"<p><tr><td>a<td>b".repeat(70_000)), 0);
    }

    #[test]
    fn a_page_says_its_title_and_its_encoding() {
        assert_eq!(title("<HTML><Title lang=en> A &amp; B &amp;lt; </TITLE>").as_deref(), Some(" A & B &lt; "));
        assert_eq!(title("<title>never closed"), None);
        assert_eq!(declared(b"<meta charset=\"GBK\">").as_deref(), Some("gbk"));
        assert_eq!(declared(b"<meta content='text/html; charset=Shift_JIS'>").as_deref(), Some("shift_jis"));
    }
}
