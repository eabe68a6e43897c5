//! HTML: what a reader of the page sees, as Markdown.

use htmd::HtmlToMarkdown;

use super::{Teller, broken, encoding};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

/// Elements of a page that are not its text.
const NO_TEXT: [&str; 8] = ["script", "style", "noscript", "template", "svg", "iframe", "head", "canvas"];

/// Bytes of its start that are searched for its own declaration.
const START: usize = 4096;

pub(super) fn extract(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let page = decoded(bytes);
    teller.head(title(&page).as_deref(), None)?;
    let text = markdown(&page).map_err(|why| broken(Kind::Html, &why))?;
    teller.text(DocumentPlace::Whole, text, None)
}

/// A page as text, in the encoding that it declares.
pub(super) fn decoded(bytes: &[u8]) -> String {
    encoding::decode(bytes, declared(bytes).as_deref())
}

/// The page as a reader sees it, as Markdown.
///
/// # Errors
/// The damage, in words of the parser.
pub(super) fn markdown(page: &str) -> Result<String, String> {
    let converter = HtmlToMarkdown::builder().skip_tags(NO_TEXT.to_vec()).build();
    converter.convert(page).map_err(|error| error.to_string())
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
    fn a_page_says_its_title_and_its_encoding() {
        assert_eq!(title("<HTML><Title lang=en> A &amp; B &amp;lt; </TITLE>").as_deref(), Some(" A & B &lt; "));
        assert_eq!(title("<title>never closed"), None);
        assert_eq!(declared(b"<meta charset=\"GBK\">").as_deref(), Some("gbk"));
        assert_eq!(declared(b"<meta content='text/html; charset=Shift_JIS'>").as_deref(), Some("shift_jis"));
    }
}
