//! The part of a page that one came to read, without what every page of its site says. Pure, and in time that grows
//! with the page only; the page itself is taken apart elsewhere.

use std::ops::Range;

/// Elements around what one came to read.
const AROUND: [&str; 5] = ["nav", "footer", "aside", "dialog", "menu"];
/// Elements whose content is no text with tags in it.
const RAW: [&str; 4] = ["script", "style", "template", "textarea"];
/// Elements that hold what one came to read, the surest first.
const HEART: [&str; 2] = ["main", "article"];
/// Minimum length of text worth reading alone, in characters.
const ENOUGH: usize = 200;
/// And it is at least this part of all that the page says.
const PART: usize = 5;

/// Main content of the page; the whole page if it cannot be determined.
pub(super) fn readable(page: &str) -> String {
    let tags = tags(page);
    let all = text_length(page, &tags, 0..page.len());
    let is_enough = |length: usize| length >= ENOUGH && length * PART >= all;
    let heart = HEART.iter().find_map(|name| {
        let mut found = elements(&tags, &[name]).into_iter();
        let only = found.next().filter(|_| found.next().is_none())?;
        is_enough(text_length(page, &tags, only.clone())).then_some(only)
    });
    let room = heart.unwrap_or(0..page.len());
    let around: Vec<_> =
        elements(&tags, &AROUND).into_iter().filter(|part| room.start <= part.start && part.end <= room.end).collect();
    let left_out: usize = around.iter().map(|part| text_length(page, &tags, part.clone())).sum();
    let kept_length = text_length(page, &tags, room.clone()).saturating_sub(left_out);
    let mut kept = elements(&tags, &["title"]).first().map_or_else(String::new, |title| page[title.clone()].to_owned());
    if !is_enough(kept_length) {
        return page.to_owned();
    }
    let mut from = room.start;
    for part in around {
        kept.push_str(&page[from..part.start]);
        from = part.end;
    }
    kept.push_str(&page[from..room.end]);
    kept
}

/// A tag: its place, its name in small letters, and whether it closes.
struct Tag {
    place: Range<usize>,
    name: String,
    closes: bool,
}

/// The tags of a page, those in scripts and comments left out.
fn tags(page: &str) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    let mut at = 0;
    while let Some(start) = page[at..].find('<').map(|found| at + found) {
        if page[start..].starts_with("<!--") {
            at = page[start..].find("-->").map_or(page.len(), |end| start + end + 3);
            continue;
        }
        let closes = page[start + 1..].starts_with('/');
        let begin = start + 1 + usize::from(closes);
        let length = page[begin..].find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(page.len() - begin);
        if length == 0 {
            at = start + 1;
            continue;
        }
        let name = page[begin..begin + length].to_ascii_lowercase();
        let end = end_of_tag(page, begin + length);
        at = end;
        if !closes && RAW.contains(&name.as_str()) {
            at = end_of_raw(page, end, &name);
        }
        tags.push(Tag { place: start..end, name, closes });
    }
    tags
}

/// Returns the end of a tag: after the first `>` that is not in quotes.
fn end_of_tag(page: &str, from: usize) -> usize {
    let mut quote = None;
    for (at, byte) in page.bytes().enumerate().skip(from) {
        match (quote, byte) {
            (None, b'>') => return at + 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    page.len()
}

/// Returns the end of such an element's content: before its closing tag.
fn end_of_raw(page: &str, from: usize, name: &str) -> usize {
    let mut at = from;
    while let Some(found) = page[at..].find("</").map(|found| at + found) {
        if page.get(found + 2..found + 2 + name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name)) {
            return found;
        }
        at = found + 2;
    }
    page.len()
}

/// The outermost elements of these names, in order. One that is never closed is none.
fn elements(tags: &[Tag], names: &[&str]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<(&str, usize, usize)> = None;
    for Tag { place, name, closes } in tags {
        match &mut open {
            None if !closes && names.contains(&name.as_str()) => open = Some((name, place.start, 1)),
            Some((opened, start, depth)) if opened == name => {
                *depth = if *closes { *depth - 1 } else { *depth + 1 };
                if *depth == 0 {
                    found.push(*start..place.end);
                    open = None;
                }
            }
            _ => {}
        }
    }
    found
}

/// Amount of text between the tags, in bytes, white space left out.
fn text_length(page: &str, tags: &[Tag], room: Range<usize>) -> usize {
    let first = tags.partition_point(|tag| tag.place.start < room.start);
    let mut from = room.start;
    let mut length = 0;
    let mut count = |text: &str| length += text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    let mut raw = false;
    for tag in tags[first..].iter().take_while(|tag| tag.place.start < room.end) {
        if !raw {
            count(&page[from.min(tag.place.start)..tag.place.start]);
        }
        raw = !tag.closes && RAW.contains(&tag.name.as_str());
        from = tag.place.end;
    }
    if !raw {
        count(&page[from.min(room.end)..room.end]);
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_around_a_page_is_left_out() {
        let text = "Whales are large and live in the sea. ".repeat(10);
        let check = |page: &str, holds: &[&str], lacks: &[&str]| {
            let read = readable(page);
            assert!(holds.iter().all(|words| read.contains(words)), "{page} -> {read}");
            assert!(!lacks.iter().any(|words| read.contains(words)), "{page} -> {read}");
        };
        let whole = format!(
            "<html><title>T</title><header><NAV a='>'>menu<nav>more</nav></nav></header><p>{text}</p><aside>ad</aside>\
             <footer>imprint</footer>"
        );
        check(&whole, &["<title>T</title>", "Whales"], &["menu", "more", "ad<", "imprint"]);
        let main = format!("<title>T</title><div>before</div><main id=x><nav>menu</nav>{text}</main><div>behind</div>");
        check(&main, &["<title>T</title>", "Whales"], &["before", "behind", "menu"]);
        // Two of them are a list, and nobody can tell which is meant.
        check(&format!("<p>before</p><article>{text}</article><article>b</article>"), &["before", "Whales"], &[]);
        // A page that has little else is its menu.
        check("<nav><a>one</a></nav><p>short</p>", &["one", "short"], &[]);
        check(&format!("<main>tiny</main><p>{text}</p>"), &["tiny", "Whales"], &[]);
        // What is never closed is left as it is, and what only looks like a tag is none.
        check(&format!("<nav>open <p>{text}</p>"), &["open", "Whales"], &[]);
        check(&format!("<script>'<nav>'</script><!-- <nav> --><p>{text}</p></nav>"), &["Whales"], &[]);
        check(&format!("<p>1 < 2 {text}</p><"), &["1 < 2"], &[]);
    }

    proptest! {
        #[test]
        fn no_page_does_any_harm(
            page in "(<|>|/|nav|main|article|script|title|!--|-->|\"|'|a|é| ){0,60}", filler in "[a-zé ]{0,400}",
        ) {
            let page = format!("{page}{filler}{page}");
            prop_assert!(readable(&page).len() <= page.len() * 2);
        }
    }
}
