//! Results that are worded without the model: it would only get them wrong.

/// Lines of a list that are shown.
const LINES: usize = 100;
/// Characters of a text that are shown.
const CHARACTERS: usize = 6000;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The text of a failed call, without its code.
pub(crate) fn failure(text: &str) -> Option<String> {
    let (code, rest) = text.split_once(": ")?;
    let is_code = code.strip_prefix("E_").is_some_and(|name| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    });
    is_code.then(|| format!("That did not work: {}", rest.trim()))
}

/// The time as a sentence, out of `Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)`.
pub(crate) fn time(text: &str) -> String {
    spoken_time(text.trim()).unwrap_or_else(|| format!("It is {}.", text.trim().trim_end_matches('.')))
}

fn spoken_time(text: &str) -> Option<String> {
    let (weekday, rest) = text.split_once(", ")?;
    let (date, rest) = rest.split_once('T')?;
    let time = rest.get(..5).filter(|time| time.as_bytes()[2] == b':')?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    let day: u8 = day.parse().ok()?;
    let zone = rest.split_once(" (").map(|(_, zone)| format!(" ({zone}")).unwrap_or_default();
    Some(format!("It is {time} on {weekday}, {day} {month} {year}{zone}."))
}

/// Paths as a list.
pub(crate) fn list(text: &str) -> String {
    let is_note = |line: &&str| line.starts_with('[') || line.starts_with("No file matches");
    let (notes, entries): (Vec<&str>, Vec<&str>) =
        text.lines().filter(|line| !line.trim().is_empty()).partition(is_note);
    let mut shown: Vec<String> = entries.iter().take(LINES).map(|entry| format!("- {entry}")).collect();
    if entries.len() > LINES {
        shown.push(format!("- … and {} more", entries.len() - LINES));
    }
    let head = if entries.is_empty() { "" } else { "Here is what I found:\n\n" };
    let notes = notes.join("\n");
    let gap = if shown.is_empty() || notes.is_empty() { "" } else { "\n\n" };
    let body = format!("{head}{}{gap}{notes}", shown.join("\n"));
    if body.is_empty() { "There is nothing here.".to_owned() } else { body }
}

/// Folders of a session that hold nothing of the person's.
const UNSEEN: [&str; 3] = ["skills/", "conversation_history/", "large_tool_results/"];
/// Those that are there in each session, with anything in them or not.
const AREAS: [&str; 3] = ["uploads/", "outputs/", "temp/"];

/// All files of a session as a list, without what the daemon keeps beside them.
pub(crate) fn all_files(text: &str) -> String {
    let lines = || text.lines().map(str::trim_end).filter(|line| !UNSEEN.iter().any(|unseen| line.starts_with(unseen)));
    if lines().all(|line| AREAS.contains(&line) || line.is_empty()) {
        return "There are no files yet. In a chat, `#PATH` hands one over; `agentctl chat -C FOLDER` shows a folder."
            .to_owned();
    }
    let is_empty = |area: &str| !lines().any(|line| line.len() > area.len() && line.starts_with(area));
    let kept: Vec<&str> = lines().filter(|line| !(AREAS.contains(line) && is_empty(line))).collect();
    list(&kept.join("\n"))
}

/// The number of files that a search by `pattern` found below `folder`, which is empty for everything.
pub(crate) fn count(text: &str, pattern: &str, folder: &str) -> String {
    let listed = text.lines().filter(|line| line.ends_with(')') && !line.starts_with('[')).count();
    let more = text.lines().find_map(|line| line.strip_prefix('[')?.split_once(" match; ")?.0.parse::<usize>().ok());
    let is_cut = text.lines().any(|line| line.starts_with("[the search is not complete"));
    let count = more.unwrap_or(listed);
    let (be, files) = if count == 1 { ("is", "file") } else { ("are", "files") };
    let kind = pattern.strip_prefix('*').filter(|ending| !ending.is_empty()).map(|ending| format!(" {ending}"));
    let place = if folder.is_empty() { String::new() } else { format!(" in {folder} and its folders") };
    let least = if is_cut { "at least " } else { "" };
    let number = if count == 0 { "no".to_owned() } else { count.to_string() };
    let rest = if folder.starts_with("/project") {
        " Hidden files, and those that .gitignore excludes, are not counted."
    } else {
        ""
    };
    format!("There {be} {least}{number}{} {files}{place}.{rest}", kind.unwrap_or_default())
}

/// A text as it stands, with a head that says what it is.
pub(crate) fn verbatim(head: &str, text: &str) -> String {
    let (shown, left) = match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    };
    let fence = fence(shown);
    let rest = if left > 0 { format!("\n\nThere are {left} characters more.") } else { String::new() };
    format!("{head}\n\n{fence}\n{}\n{fence}{rest}", shown.trim_end())
}

/// A fence that nothing in the text can close.
fn fence(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// A sentence quoted, with the place where it stands, if it has one.
pub(crate) fn quote(path: &str, place: &str, sentence: &str) -> String {
    let comma = if place.is_empty() { "" } else { ", " };
    format!("{path}{comma}{place} says:\n\n> {}", sentence.replace('\n', "\n> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_a_sentence() {
        let check = |text: &str, expected: &str| assert_eq!(time(text), expected, "{text}");
        check(
            "Saturday, 2026-11-21T09:31:05+01:00 (Europe/Berlin)",
            "It is 09:31 on Saturday, 21 November 2026 (Europe/Berlin).",
        );
        check("Monday, 2026-01-05T23:59:00+00:00", "It is 23:59 on Monday, 5 January 2026.");
        check("12:00", "It is 12:00.");
        check("Monday, 2026-13-05T23:59:00Z", "It is Monday, 2026-13-05T23:59:00Z.");
        check("Monday, 2026-01-05Té", "It is Monday, 2026-01-05Té.");
    }

    #[test]
    fn quotes_cite_the_place() {
        assert_eq!(quote("a.pdf", "page 2", "It rained."), "a.pdf, page 2 says:\n\n> It rained.");
        assert_eq!(quote("a.txt", "", "It rained."), "a.txt says:\n\n> It rained.");
    }

    #[test]
    fn failures_lose_their_code() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(failure(text).as_deref(), expected, "{text}");
        check("E_PATH: x.txt is not there", Some("That did not work: x.txt is not there"));
        check("E_UNKNOWN_TOOL: no", Some("That did not work: no"));
        check("Note: x", None);
        check("E_: x", None);
        check("E_mc2: x", None);
    }

    #[test]
    fn lists_keep_their_notes_apart() {
        assert_eq!(
            list("a.txt (1 B)\nb/\n[3 left out]"),
            "Here is what I found:\n\n- a.txt (1 B)\n- b/\n\n[3 left out]"
        );
        assert_eq!(list("[. is empty]"), "[. is empty]");
        assert_eq!(list(""), "There is nothing here.");
        let many: String = (0..150).map(|number| format!("{number}.txt\n")).collect();
        assert!(list(&many).ends_with("- … and 50 more"));
    }

    #[test]
    fn the_daemons_own_folders_are_no_files_of_the_person() {
        let areas = "uploads/\noutputs/\ntemp/\nskills/\nskills/x/\nconversation_history/\nlarge_tool_results/";
        assert!(all_files(areas).starts_with("There are no files yet."));
        assert_eq!(
            all_files(&format!("{areas}\nuploads/a.txt (1 byte)\n/project/\n/project/b.md (2 bytes)\n[1 left out]")),
            "Here is what I found:\n\n- uploads/\n- uploads/a.txt (1 byte)\n- /project/\n- /project/b.md (2 bytes)\n\n[1 left out]"
        );
    }

    #[test]
    fn files_are_counted_with_those_that_are_not_shown() {
        let check = |text: &str, pattern: &str, folder: &str, expected: &str| {
            assert_eq!(count(text, pattern, folder), expected, "{text}");
        };
        let unseen = "Hidden files, and those that .gitignore excludes, are not counted.";
        let project = |told: &str| format!("{told} {unseen}");
        check(
            "/project/a (1 byte)\n/project/b c (2 KB)",
            "*",
            "/project",
            &project("There are 2 files in /project and its folders."),
        );
        check(
            "/project/a.py (1 byte)",
            "*.py",
            "/project",
            &project("There is 1 .py file in /project and its folders."),
        );
        check("x (1 byte)\n[350 match; the newest 1 are shown]", "*", "", "There are 350 files.");
        check("No file matches \"*\" in the workspace.", "*", "", "There are no files.");
        let cut = "x (1 byte)\n[the search is not complete: there are too many files; search a smaller folder]";
        check(cut, "*", "", "There is at least 1 file.");
    }

    #[test]
    fn texts_stand_inside_a_fence_that_they_cannot_close() {
        assert_eq!(verbatim("x:", "a\n"), "x:\n\n```\na\n```");
        assert_eq!(verbatim("x:", "a\n````\nb"), "x:\n\n`````\na\n````\nb\n`````");
        assert!(verbatim("x:", &"y".repeat(7000)).ends_with("There are 1000 characters more."));
    }
}
