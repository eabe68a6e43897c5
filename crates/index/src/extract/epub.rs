//! EPUB: a book as pages of the web in an archive, in the order in which they are read.

use std::collections::HashSet;

use super::{
    Teller, broken, html,
    package::{self, Package},
    xml,
};
use crate::{failure::Failure, kind::Kind};

/// Chapters that are read of a book.
const MOST: usize = 5000;

pub(super) fn extract(bytes: Vec<u8>, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let damaged = |why: String| broken(Kind::Epub, &why);
    let mut package = Package::open(bytes, Kind::Epub, teller.limits)?;
    let container = xml::parse(&package.needed("META-INF/container.xml")?).map_err(damaged)?;
    let root = container.find("rootfile").and_then(|root| root.attribute("full-path")).unwrap_or_default().to_owned();
    let book = xml::parse(&package.needed(&root)?).map_err(damaged)?;
    let said = |name: &str| book.find("metadata").and_then(|about| about.find(name)).map(xml::Node::text);
    let (Some(manifest), Some(spine)) = (book.find("manifest"), book.find("spine")) else {
        return Err(damaged("it does not say what is in it".to_owned()));
    };
    let folder = root.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
    let chapters = || spine.nodes().filter(|item| item.name == "itemref").filter_map(|item| item.attribute("idref"));
    let item = |id: &str| manifest.nodes().find(|item| item.attribute("id") == Some(id));
    let path = |id: &str| Some(resolved(&folder, item(id)?.attribute("href")?));
    let protected = protected(&mut package);
    if chapters().take(MOST).filter_map(path).any(|path| protected.contains(&path)) {
        let how =
            "it is protected against copying (DRM), and opens in the program of the shop or library that it is from";
        return Err(Failure::Protected { kind: Kind::Epub, how: how.to_owned() });
    }
    teller.head(said("title").as_deref(), None)?;
    let mut missing = None;
    let by = said("creator").filter(|by| !by.trim().is_empty());
    let mut by = by.map(|by| format!("By {}\n\n", by.trim())).unwrap_or_default();
    if chapters().nth(MOST).is_some() {
        teller.leave_out(format!("it has more than {MOST} chapters"));
    }
    // A chapter that the spine names again is shown once.
    let mut shown = HashSet::new();
    for path in chapters().take(MOST).filter_map(path).filter(|path| shown.insert(path.clone())) {
        match package.text(&path) {
            Ok(Some(page)) => {
                let text = html::markdown(&page).map_err(damaged)?;
                teller.chapter(std::mem::take(&mut by) + text.trim())?;
            }
            Ok(None) => missing = missing.or(Some(format!("{path} is missing"))),
            Err(Failure::Encrypted(kind)) => return Err(Failure::Encrypted(kind)),
            Err(failure @ Failure::TooLarge { .. }) => return Err(failure),
            Err(failure) => missing = missing.or(Some(failure.to_string())),
        }
    }
    missing.map_or(Ok(()), |why| Err(damaged(why)))
}

/// Paths of what is encrypted in the book. Fonts that are garbled, so that nobody takes them out of it, are none of that.
fn protected(package: &mut Package) -> HashSet<String> {
    const OF_FONTS: [&str; 2] = ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];
    let list = package.text("META-INF/encryption.xml").ok().flatten();
    let list = list.and_then(|list| xml::parse(&list).ok()).unwrap_or_default();
    let encrypted = list.all("EncryptedData");
    let path = |data: &xml::Node| {
        let algorithm = data.node("EncryptionMethod").and_then(|method| method.attribute("Algorithm"));
        let is_font = algorithm.is_some_and(|algorithm| OF_FONTS.contains(&algorithm));
        data.find("CipherReference").filter(|_| !is_font)?.attribute("URI").map(|path| resolved("", path))
    };
    encrypted.into_iter().filter_map(path).collect()
}

/// Path in the archive of what a page of the book names, without `..` and with its letters as they are.
fn resolved(folder: &str, href: &str) -> String {
    let href = href.split('#').next().unwrap_or_default();
    let mut bytes = Vec::new();
    let mut rest = href.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    package::resolved(folder, &String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_are_found_where_the_book_says() {
        assert_eq!(resolved("OEBPS/", "text/ch%201.xhtml#top"), "OEBPS/text/ch 1.xhtml");
        assert_eq!(resolved("OEBPS/", "../Text/a.html"), "Text/a.html");
        assert_eq!(resolved("", "100%.html"), "100%.html");
    }
}
