//! A server put into the text of `mcp_servers.yaml`. Everything else in it stays as the person wrote it, comments too.

use super::entry::Entry;

/// The text with one more server. What cannot be done without touching what a person wrote is refused.
pub(super) fn with(text: &str, entry: &Entry) -> Result<String, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = lines.iter().position(|line| line.starts_with("servers:")) else {
        let gap = if text.is_empty() || text.ends_with("\n\n") {
            ""
        } else if text.ends_with('\n') {
            "\n"
        } else {
            "\n\n"
        };
        return Ok(format!("{text}{gap}servers:\n{}", entry.yaml("  ")));
    };
    let head = lines[at].trim_end();
    let value = head["servers:".len()..].split(" #").next().unwrap_or_default().trim();
    let mut new: String = lines[..at].concat();
    match value {
        "" => {
            new.push_str(head);
            new.push('\n');
        }
        "{}" | "null" | "~" => new.push_str("servers:\n"),
        _ => return Err("the servers are on one line, which cannot be edited in place".to_owned()),
    }
    let body = &lines[at + 1..];
    let children = || body.iter().take_while(|line| !starts_a_key(line)).filter(|line| is_content(line));
    let indent: String =
        children().next().map_or("  ".to_owned(), |line| line.chars().take_while(|letter| *letter == ' ').collect());
    let is_child = |line: &&&str| line.starts_with(&indent) && !line[indent.len()..].starts_with(' ');
    let name_of = |line: &&&str| {
        let key = line.trim().split(':').next().unwrap_or_default().trim();
        key.trim_matches(['"', '\'']).to_owned()
    };
    if children().filter(is_child).any(|line| name_of(&line) == entry.name) {
        return Err(format!("there is a server `{}` already", entry.name));
    }
    new.push_str(&entry.yaml(&indent));
    new.push_str(&body.concat());
    Ok(new)
}

/// The key that begins in a line.
pub(super) fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.trim().split_once(':')?;
    Some(key.trim_matches('"')).filter(|key| !key.is_empty())
}

/// A line that is neither empty nor a comment.
fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// A line that ends the block before it.
fn starts_a_key(line: &str) -> bool {
    is_content(line) && !line.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), command: Some("x".to_owned()), ..Entry::default() }
    }

    #[test]
    fn what_a_person_wrote_stays() {
        let check = |text: &str, expected: &str| assert_eq!(with(text, &entry("new")).unwrap(), expected, "{text}");
        check("", "servers:\n  new:\n    command: \"x\"\n");
        check("# mine\nglobal: {}\n", "# mine\nglobal: {}\n\nservers:\n  new:\n    command: \"x\"\n");
        check("servers: {}  # none yet\nglobal: {}\n", "servers:\n  new:\n    command: \"x\"\nglobal: {}\n");
        check(
            "servers: # mine\n    # the first\n    a:\n        command: y # why\nglobal:\n  idle_stop: 1m",
            "servers: # mine\n    new:\n      command: \"x\"\n    # the first\n    a:\n        command: y # why\nglobal:\n  idle_stop: 1m",
        );
    }

    #[test]
    fn what_cannot_be_done_with_care_is_refused() {
        let check = |text: &str, part: &str| {
            let why = with(text, &entry("new")).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        };
        check("servers: {a: {command: y}}\n", "on one line");
        check("servers:\n  new:\n    command: y\n", "already");
        check("servers:\n  'new': {command: y}\n", "already");
        assert!(with("servers:\n  a:\n    env:\n      new: y\n", &entry("new")).is_ok());
        assert!(with("servers:\n  a: {}\nglobal:\n  new: y\n", &entry("new")).is_ok());
    }
}
