//! The passages of a text, and the sentences of a passage: slices of what was said, whatever lines it is broken into. Pure.

/// Lines that belong together: a paragraph, or one entry of a list with the lines that it goes on in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passage<'a> {
    /// As it was written, from its first letter to its last.
    pub(crate) text: &'a str,
    /// Indentation of a list entry; none for what is no such entry.
    pub(crate) entry: Option<usize>,
    /// Set if it stands right behind the one before it, without an empty line.
    pub(crate) adjoins: bool,
}

/// The passages of a text. Headings stand by themselves, what is quoted is not joined to what is not, and the fences of code
/// belong to none.
pub(crate) fn passages(text: &str) -> Vec<Passage<'_>> {
    let mut passages: Vec<Passage<'_>> = Vec::new();
    // Where the open passage begins, and whether it is quoted.
    let mut open: Option<(usize, bool)> = None;
    let mut adjoins = false;
    let mut at = 0;
    for whole in text.split_inclusive('\n') {
        let line = whole.trim();
        let begin = at + (whole.len() - whole.trim_start().len());
        at += whole.len();
        if line.is_empty() || line.starts_with("```") || line.starts_with("~~~") {
            adjoins = adjoins && !line.is_empty();
            open = None;
            continue;
        }
        let (is_entry, is_quoted) = (is_entry(line), line.starts_with('>'));
        let goes_on = open.filter(|(_, quoted)| !is_entry && !is_heading(line) && *quoted == is_quoted);
        match (goes_on, passages.last_mut()) {
            (Some((first, _)), Some(passage)) => passage.text = &text[first..begin + line.len()],
            _ => {
                let entry = is_entry.then(|| whole.chars().take_while(|letter| letter.is_whitespace()).count());
                passages.push(Passage { text: line, entry, adjoins });
            }
        }
        open = (!is_heading(line)).then_some(goes_on.unwrap_or((begin, is_quoted)));
        adjoins = true;
    }
    passages
}

fn is_heading(line: &str) -> bool {
    line.starts_with('#') && line.trim_start_matches('#').starts_with(' ')
}

/// Returns whether a line begins an entry of a list. A number or a sign that a sentence goes on with is none.
fn is_entry(line: &str) -> bool {
    let is_set_off = |rest: &str| rest.starts_with(char::is_whitespace);
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = (1..=3).contains(&(line.len() - rest.len()))
        && (rest.starts_with('、') || rest.strip_prefix(['.', ')']).is_some_and(is_set_off));
    is_numbered || line.starts_with(['•', '·']) || line.strip_prefix(['-', '*', '+', '–']).is_some_and(is_set_off)
}

/// Short forms that end in a dot and no sentence, without it.
const SHORT: &[&str] = &[
    "dr", "mr", "mrs", "ms", "prof", "st", "jr", "sr", "vs", "etc", "cf", "approx", "no", "nr", "fig", "vol", "pp",
    "inc", "ltd", "co", "corp", "dept", "est", "min", "max", "incl", "excl", "resp", "ref", "sec", "ch", "ed", "al",
    "ca", "bzw", "usw", "evtl", "ggf", "inkl", "exkl", "abs", "art", "bspw", "vgl", "sog", "tel", "str", "mind",
    "bzgl", "zzgl", "hr", "fr", "mme", "mlle", "ex", "env", "sra", "srta", "ud", "uds", "ej", "pág", "pag", "sig",
    "dott", "ecc", "др", "см", "напр", "ул", "г", "гг", "им", "рис", "стр", "тыс", "млн",
];

/// The sentences of a passage, where it is certain that one ends: not behind a short form, and not where a small letter
/// follows. One that is longer than `most` characters then is split there, too.
pub(crate) fn sentences(passage: &str, most: usize) -> Vec<&str> {
    let is_long = |sentence: &str| sentence.chars().count() > most;
    let certain = split(passage, true).into_iter();
    let all = certain.flat_map(|sentence| if is_long(sentence) { split(sentence, false) } else { vec![sentence] });
    all.map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

fn split(passage: &str, certain: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (index, mark) in passage.char_indices() {
        let end = index + mark.len_utf8();
        let rest = &passage[end..];
        let is_before_blank = rest.starts_with(char::is_whitespace);
        let goes_on = || certain && rest.trim_start().starts_with(char::is_lowercase);
        let ends = match mark {
            '。' | '！' | '？' => true,
            '!' | '?' => is_before_blank,
            ';' => is_before_blank && !goes_on(),
            '.' => is_before_blank && !goes_on() && !is_short_form(&passage[begin..index]),
            _ => false,
        };
        if ends {
            parts.push(&passage[begin..end]);
            begin = end;
        }
    }
    parts.push(&passage[begin..]);
    parts
}

/// Returns whether what stands before a dot ends in a short form: one that is known, or single letters.
fn is_short_form(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    let is_letters =
        |word: &str| word.split('.').all(|part| part.chars().count() == 1 && part.chars().all(char::is_alphabetic));
    SHORT.contains(&word.as_str()) || is_letters(&word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_joined_where_one_goes_on_in_the_next() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(passages(text).iter().map(|passage| passage.text).collect::<Vec<_>>(), expected, "{text}");
        };
        check("one\ntwo\r\n  three \n\n\nfour", &["one\ntwo\r\n  three", "four"]);
        check("# head\none\n## next\n#tag", &["# head", "one", "## next", "#tag"]);
        check("> said\n> more\nmine", &["> said\n> more", "mine"]);
        check("so:\n```\nlet a;\nlet b;\n```\nend", &["so:", "let a;\nlet b;", "end"]);
        check("- one\n  goes on\n- two\nhere\n10) ten", &["- one\n  goes on", "- two\nhere", "10) ten"]);
        check("less than\n3.5 or\n-5 or\n--force or\n**both**", &["less than\n3.5 or\n-5 or\n--force or\n**both**"]);
        check("", &[]);
    }

    #[test]
    fn sentences_end_where_it_is_certain() {
        let check = |text: &str, expected: &[&str]| assert_eq!(sentences(text, 60), expected, "{text}");
        check("Ask Dr. Smith, e.g. by mail. Then go!", &["Ask Dr. Smith, e.g. by mail.", "Then go!"]);
        check("Nie z. B. Tabs. Danke; bis dann", &["Nie z. B. Tabs.", "Danke; bis dann"]);
        check("What? no\nsuch thing", &["What?", "no\nsuch thing"]);
        check("一。二！三", &["一。", "二！", "三"]);
        // Whoever writes without large letters writes sentences, too.
        let small = "never push to main. look at the list of what is open; it is there.";
        check(small, &["never push to main.", "look at the list of what is open;", "it is there."]);
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_or_said_twice(text in "([a-zA-ZäЖ规。.;!?:#>`*-]{0,3}[ \t\r\n]{0,2}){0,30}", most in 1usize..40) {
            let letters = |text: &str| text.replace(char::is_whitespace, "");
            let found = passages(&text);
            let all: String = found.iter().map(|passage| letters(passage.text)).collect();
            let fenceless: String = text
                .split_inclusive('\n')
                .filter(|line| !line.trim().starts_with("```"))
                .map(letters)
                .collect();
            prop_assert_eq!(all, fenceless);
            for passage in found {
                let parts: String = sentences(passage.text, most).into_iter().map(letters).collect();
                prop_assert_eq!(parts, letters(passage.text));
            }
        }
    }
}
