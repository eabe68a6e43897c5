//! Parts of documents that a request names by their numbers: a page, a slide, a sheet, a row. Pure.

use super::words::{among, words};

/// Nouns for the parts of a document.
const PARTS: &str = "page pages p p. pg pg. slide slides sheet sheets seite folie página pagina";
/// Nouns for a row of a sheet.
const ROWS: &str = "row zeile fila riga ligne linha";
/// Beginnings of nouns for a sheet.
const SHEET_NOUNS: &str = "sheet worksheet tab blatt tabelle hoja feuille foglio";
/// Words that speak of more than one row.
const MORE: &str = "to until till through thru from between before after above below up down sum total average onwards bis von \
    each every all compare";
/// Endings of documents that have rows.
const SHEETS: &str = "xlsx xlsm xltx xltm xls xlt xlsb ods ots";
const ORDINALS: [&str; 10] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

/// The number of the part that the request names.
pub(super) fn part(request: &str) -> Option<u32> {
    let lower = request.to_lowercase();
    let joined = || words(&lower).find_map(|word| number(word.strip_prefix("p.")?));
    counted_by(&lower, PARTS).or_else(joined).or_else(|| joined_with(&lower, &["页", "頁", "ページ"]))
}

/// The number of the one row that the request names, and of its sheet; none where more than that row is spoken of, or a sheet by its
/// name.
pub(super) fn only_row_of(request: &str) -> Option<(u32, u32)> {
    let lower = request.split("\n\n").next().unwrap_or(request).to_lowercase();
    let row = counted_by(&lower, ROWS)
        .or_else(|| joined_with(&lower, &["行"]).filter(|row| lower.contains(&format!("第{row}行"))))?;
    let sheet = part(&lower);
    let numbers = words(&lower).filter(|word| number(word).is_some()).count();
    let names_sheet = || words(&lower).any(|word| SHEET_NOUNS.split_whitespace().any(|noun| word.starts_with(noun)));
    let is_more = numbers > 1 + usize::from(sheet.is_some())
        || words(&lower).any(|word| among(MORE, word))
        || sheet.is_none() && names_sheet();
    (!is_more).then_some((sheet.unwrap_or(1), row))
}

/// Returns whether the rows of a document have numbers, by its name.
pub(super) fn has_rows(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| among(SHEETS, &ending.to_ascii_lowercase()))
}

/// Returns whether a word only says which part is meant.
pub(super) fn names_part(word: &str) -> bool {
    let number = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    among(PARTS, word)
        || among(ROWS, word)
        || part(word).is_some()
        || only_row_of(word).is_some()
        || ORDINALS.contains(&word)
        || !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit())
}

/// The row that was asked for, below the names of the columns, and the name of its sheet, of what a tool told of a sheet from that row
/// on; none where it does not say that its first row is that one.
pub(super) fn only_row(told: &str, row: u64) -> Option<(&str, String)> {
    let label = told.lines().find_map(|line| line.strip_prefix("--- ")?.strip_suffix(" ---"))?;
    let sheet = label.rsplit_once(" (").map_or(label, |(sheet, _)| sheet);
    let table: Vec<&str> = told.lines().skip_while(|line| !line.starts_with('|')).take(3).collect();
    if label.contains(&format!("header in row {row})")) {
        return Some((sheet, table.get(..2)?.join("\n")));
    }
    let is_first = told.lines().any(|line| line.starts_with(&format!("[rows {row}-")));
    (is_first && table.get(2)?.starts_with('|')).then(|| (sheet, table.join("\n")))
}

/// The number beside one of the nouns.
fn counted_by(lower: &str, nouns: &str) -> Option<u32> {
    let ordinal = |word: &str| {
        let written = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end).and_then(number));
        let place = ORDINALS.iter().position(|ordinal| *ordinal == word);
        written.or_else(|| u32::try_from(place? + 1).ok())
    };
    let noun = |word: &str| among(nouns, word);
    words(lower).collect::<Vec<_>>().windows(2).find_map(|pair| match pair {
        [one, other] if noun(one) => number(other),
        [one, other] if noun(other) => ordinal(one),
        _ => None,
    })
}

/// The number before a noun of a script that joins both: 第3页, 3ページ.
fn joined_with(request: &str, nouns: &[&str]) -> Option<u32> {
    let before = |at: usize| {
        let start = request[..at]
            .rfind(|letter: char| !letter.is_ascii_digit())
            .map_or(0, |other| other + request[other..].chars().next().map_or(0, char::len_utf8));
        number(&request[start..at])
    };
    nouns.iter().find_map(|noun| request.match_indices(noun).find_map(|(at, _)| before(at)))
}

fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_in_several_ways() {
        let check = |request: &str, expected: Option<u32>| {
            assert_eq!(only_row_of(request).map(|(_, row)| row), expected, "{request}");
        };
        check("Read row 250000 of real.xlsx", Some(250_000));
        check("the 21st row", Some(21));
        check("Was steht in Zeile 7?", Some(7));
        check("银行的第12行", Some(12));
        check("写一首4行的诗", None);
        check("rows 3 to 5", None);
        check("row zero", None);
        check("two in a row", None);
        assert_eq!(only_row_of("row 7 of sheet 2"), Some((2, 7)));
    }

    #[test]
    fn a_row_is_shown_below_the_names_of_the_columns() {
        let foot = "[rows 17-201 of 201 of this sheet]";
        let told = format!(
            "[a.xlsx: Excel; sheet 1 of 1]\n\n--- sheet Stock (A2:B201, header in row 1) ---\n| Item | Price |\n| --- | --- |\n| Lamp | 8 |\n| Desk | 9 |\n{foot}\n"
        );
        let row = |number| only_row(&told, number).map(|(sheet, row)| format!("{sheet}: {row}"));
        assert_eq!(row(17).as_deref(), Some("sheet Stock: | Item | Price |\n| --- | --- |\n| Lamp | 8 |"));
        assert_eq!(row(16), None, "there is none of that number");
        assert_eq!(row(1).as_deref(), Some("sheet Stock: | Item | Price |\n| --- | --- |"));
        assert_eq!(only_row("[a.xlsx: Excel]\n| a |\n", 1), None);
    }
}
