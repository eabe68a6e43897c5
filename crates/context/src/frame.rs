//! Words of a file among the daemon's own: whole, or cut with a word about it, and never mistaken for the daemon's.

use agentd_core::untrusted::{OF_DAEMON_AND_PERSON, OF_FILES};

/// The text without what would look like the daemon's own words to a model.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        safe.push_str(before);
        safe.push_str(if opens_own(&tag[1..]) { "&lt;" } else { "<" });
        rest = &tag[1..];
    }
    safe.push_str(rest);
    safe
}

fn opens_own(tag: &str) -> bool {
    let name = tag.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
    let begins = |own: &str| name.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(own));
    let ends_behind =
        |own: &str| !name[own.len()..].starts_with(|next: char| next.is_alphanumeric() || "_-".contains(next));
    OF_DAEMON_AND_PERSON.into_iter().any(begins) || OF_FILES.into_iter().any(|own| begins(own) && ends_behind(own))
}

/// The same on one line, without characters that only steer a terminal.
pub fn one_line(text: &str) -> String {
    harmless(&text.replace(char::is_control, "\u{fffd}"))
}

/// The first bytes of a text, cut between characters.
pub fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
