//! The parts of a README that are shown: title and first paragraph, headings, the section about installing.

use super::phrases::Language;

/// A heading, and the lines of the text where it begins and where what follows it begins.
#[derive(Debug, PartialEq)]
pub(crate) struct Heading<'a> {
    pub(crate) level: usize,
    pub(crate) title: &'a str,
    line: usize,
}

/// All headings of a text without front matter, in both forms of Markdown and as HTML; none of those inside code.
pub(crate) fn headings(text: &str) -> Vec<Heading<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut fence: Option<&str> = None;
    let mut headings = Vec::new();
    for (number, line) in lines.iter().map(|line| line.trim()).enumerate() {
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark)) {
            fence = if fence.is_none() { Some(mark) } else { fence.filter(|open| *open != mark) };
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let marks = line.len() - line.trim_start_matches('#').len();
        let title = line.trim_matches('#').trim();
        let is_ruler = |sign: char| line.len() > 2 && line.chars().all(|letter| letter == sign);
        let above = number.checked_sub(1).map(|above| lines[above].trim());
        let above = above
            .filter(|above| above.chars().any(char::is_alphanumeric) && !above.starts_with(['#', '<', '-', '|', '>']));
        let html = line.strip_prefix("<h").and_then(|rest| rest.chars().next()?.to_digit(10));
        if (1..=6).contains(&marks) && line[marks..].starts_with(' ') && !title.is_empty() {
            headings.push(Heading { level: marks, title, line: number });
        } else if let (Some(above), true) = (above, is_ruler('=') || is_ruler('-')) {
            headings.push(Heading { level: if is_ruler('=') { 1 } else { 2 }, title: above, line: number });
        } else if let Some(level @ 1..=6) = html {
            let inner =
                line.split('<').filter_map(|part| Some(part.split_once('>')?.1.trim())).find(|text| !text.is_empty());
            headings.extend(inner.map(|title| Heading { level: level as usize, title, line: number }));
        }
    }
    headings
}

/// The section about installing, with its heading, up to the next heading that is not below it.
pub(crate) fn install_section(text: &str) -> Option<&str> {
    let text = without_front_matter(text);
    let headings = headings(text);
    // A title may have the word, too: "Installer of things".
    let named = headings.iter().position(|heading| heading.level > 1 && Language::names_install(heading.title));
    let at = named.or_else(|| headings.iter().position(|heading| Language::names_install(heading.title)))?;
    let first = &headings[at];
    let end = headings[at + 1..].iter().find(|heading| heading.level <= first.level);
    let offset = |line: usize| text.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
    // The line of an underlined heading is that below its title.
    let is_underlined = |heading: &Heading<'_>| {
        text.lines().nth(heading.line).is_some_and(|line| line.trim().chars().all(|letter| matches!(letter, '=' | '-')))
    };
    let start = |heading: &Heading<'_>| offset(heading.line.saturating_sub(usize::from(is_underlined(heading))));
    Some(text[start(first)..end.map_or(text.len(), start)].trim_end())
}

/// The title of a text and its first whole paragraph of prose.
pub(crate) fn opening(text: &str) -> Option<String> {
    let text = without_front_matter(text);
    let headings = headings(text);
    let title = headings.first();
    let mut is_comment = false;
    let mut fence = false;
    let mut paragraph: Vec<String> = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        is_comment |= line.starts_with("<!--");
        fence ^= line.starts_with("```") || line.starts_with("~~~");
        let is_heading = headings.iter().any(|heading| heading.line == number || heading.title == line);
        let prose = Some(prose(line)).filter(|_| !is_comment && !fence && !is_heading);
        match prose.filter(|prose| prose.chars().filter(|letter| letter.is_alphabetic()).count() > 3) {
            Some(prose) => paragraph.push(prose),
            None if !paragraph.is_empty() => break,
            None => {}
        }
        is_comment &= !line.contains("-->");
    }
    let title = title.map(|title| format!("**{}**", title.title));
    let parts: Vec<String> = title.into_iter().chain([paragraph.join("\n")]).filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// A line as prose: without tags of HTML; empty if it is a table, a picture, a row of badges or links, or a tool's note.
fn prose(line: &str) -> String {
    let is_other = line.starts_with(['|', '`', '~']) || line.starts_with('[') && line.ends_with(']');
    let mut plain = String::new();
    let (mut depth, mut outside) = (0_usize, 0_usize);
    let mut tag = false;
    for letter in line.chars() {
        match letter {
            '<' => tag = true,
            '>' if tag => tag = false,
            _ if tag => continue,
            letter => plain.push(letter),
        }
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            letter if depth == 0 && !tag && letter.is_alphabetic() => outside += 1,
            _ => {}
        }
    }
    if is_other || outside < 4 { String::new() } else { plain.trim().to_owned() }
}

/// A text without the settings that some put between two lines of dashes before it.
pub(crate) fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.trim_start().strip_prefix("---").filter(|rest| rest.starts_with(['\n', '\r'])) else {
        return text;
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if matches!(line.trim_end(), "---" | "...") && at > line.len() {
            return rest[at..].trim_start();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_is_the_title_and_one_whole_paragraph() {
        let check = |text: &str, expected: &str| assert_eq!(opening(text).as_deref(), Some(expected), "{text}");
        check("# A\n\n[![x](y)](z)\n\nOne line\nand two.\n\nMore.", "**A**\n\nOne line\nand two.");
        check("---\ntitle: x\n---\nTitle\n=====\n\nIt works.", "**Title**\n\nIt works.");
        check(
            "<h1 align=\"center\">Big</h1>\n<p align=\"center\">\n  <img src=\"a.png\">\n</p>\n\n[English](a) | [中文](b)\n\nIt is fast.",
            "**Big**\n\nIt is fast.",
        );
        check("<!-- a comment\nof two lines -->\n# B\n\n```\nrun it\n```\n\nText is here.", "**B**\n\nText is here.");
        check("Only prose is here.\n", "Only prose is here.");
        assert_eq!(opening("```\nx\n```"), None);
    }

    #[test]
    fn the_section_about_installing_ends_at_the_next_heading_beside_it() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(install_section(text), expected, "{text}");
        check(
            "# A\n## Install\n```\n# no heading\nx\n```\n### More\ny\n## Use\nz",
            Some("## Install\n```\n# no heading\nx\n```\n### More\ny"),
        );
        check("A\n=\n\nInstallation\n------------\n\nmake\n\nUse\n---\nz", Some("Installation\n------------\n\nmake"));
        check("# 工具\n\n## 安装\n\npip\n", Some("## 安装\n\npip"));
        check("# A\n\n## Use\n", None);
        let twice = "---\na: b\n---\n---\nc: d\n---\n# Install\nmake\n# Use\nx";
        check(twice, Some("# Install\nmake"));
    }

    #[test]
    fn headings_of_all_forms_are_found() {
        let levels = |text| headings(text).iter().map(|heading| (heading.level, heading.title)).collect::<Vec<_>>();
        assert_eq!(levels("# A #\n~~~\n# b\n~~~\nC\n---\n<h3>D</h3>\n#no\n---\n"), [(1, "A"), (2, "C"), (3, "D")]);
    }
}
