//! Questions of documents: the part that is named, or the place that fits the question best. Pure.
//!
//! A document is too long for this model. So the index finds the place, and the model only chooses the sentence.

use agentd_core::knowledge::has_document_name;
use serde_json::{Value, json};

use super::{
    candidates::Tool,
    naming::{in_project, name, named_files},
    parts::{has_rows, only_row_of, part},
    reading::{self, Reading},
    words::{among, is_path_like, is_telling, names_file, words},
};

/// Finds that are looked at for an answer.
const FINDS: usize = 3;
/// Words for a document that was handed over.
const DOCUMENTS: &str = "document documents file report paper pdf presentation deck slides spreadsheet workbook table book \
    article contract invoice letter attachment attached uploaded upload";
/// Beginning of the line in which `agentctl` names the files that come with a prompt.
const HANDED_OVER: &str = "\n\nUploaded file";
/// Words of a question that say nothing of what is sought.
const ASKING: &str = "much many did do does was were when who whom whose why how which what is are say says according";

/// The call that answers a question of a document, if the request is one. `is_handed` tells that files came with it.
pub(crate) fn call(request: &str, known_paths: &[String], is_handed: bool, offered: &[Tool]) -> Option<(Tool, Value)> {
    let path = meant(request, known_paths, is_handed)?;
    if let Some((sheet, row)) = only_row_of(request).filter(|_| has_rows(path))
        && matches!(reading::wanted(request, path), Reading::Show | Reading::Ask)
        && offered.contains(&Tool::ReadFile)
    {
        return Some((Tool::ReadFile, json!({ "path": path, "offset": sheet, "limit": 1, "row": row })));
    }
    if let Some(part) = part(request)
        && offered.contains(&Tool::ReadFile)
    {
        return Some((Tool::ReadFile, json!({ "path": path, "offset": part, "limit": 1 })));
    }
    let query = query(request, path);
    let asks = reading::wanted(request, path) == Reading::Ask && !query.is_empty();
    let arguments = || (Tool::SearchFile, json!({ "path": path, "query": query, "max_results": FINDS }));
    (asks && offered.contains(&Tool::SearchFile)).then(arguments)
}

/// The document that the request is about: one that it names, or the newest that was handed over, if it speaks of one.
fn meant<'a>(request: &str, known_paths: &'a [String], is_handed: bool) -> Option<&'a str> {
    let named = named_files(request, known_paths);
    if !named.is_empty() {
        let mut documents: Vec<&str> = named.into_iter().filter(|path| has_document_name(path)).collect();
        // Of many that were handed over the one that the person's own words name.
        let own = request.split(HANDED_OVER).next().unwrap_or(request);
        let own: Vec<&str> = named_files(own, known_paths).into_iter().map(name).collect();
        if documents.iter().any(|path| own.contains(&name(path))) {
            documents.retain(|path| own.contains(&name(path)));
        }
        return match *documents {
            [only] => Some(only),
            // One that was handed over out of the project has the same name there.
            [first, ..] if documents.iter().all(|path| name(path) == name(first)) => {
                let mut handed = documents.into_iter().filter(|path| in_project(path).is_none());
                handed.next().filter(|_| handed.next().is_none())
            }
            _ => None,
        };
    }
    // Newest first.
    let newest = known_paths.iter().map(String::as_str).find(|path| in_project(path).is_none())?;
    let lower = request.to_lowercase();
    let shows_row = || has_rows(newest) && reading::wanted(request, newest) == Reading::Show;
    let names_place = || part(request).is_some() || only_row_of(request).is_some() && shows_row();
    let speaks_of_one = is_handed || names_place() || words(&lower).any(|word| among(DOCUMENTS, word));
    (speaks_of_one && has_document_name(newest)).then_some(newest)
}

/// The words to search a document for. Those of its name are left out where others are left.
fn query(request: &str, path: &str) -> String {
    let tells = |word: &&str| {
        let lower = word.to_lowercase();
        is_telling(word) && !is_path_like(word) && !among(ASKING, &lower) && !among(DOCUMENTS, &lower)
    };
    let (named, others): (Vec<&str>, Vec<&str>) = words(request).filter(tells).partition(|word| names_file(word, path));
    if others.is_empty() { named } else { others }.join(" ")
}

/// The finds of a search of a document, each line behind its place. Empty if nothing was found.
pub(crate) fn finds<'a>(path: &str, told: &'a str) -> Vec<(&'a str, String)> {
    let mut place = "";
    let mut finds = Vec::new();
    for line in told.lines() {
        if let Some(said) = line.strip_prefix("   ") {
            finds.extend(rows(said).into_iter().map(|row| (place, row)));
        } else if let Some((number, found)) = line.split_once(". ")
            && number.parse::<usize>().is_ok()
        {
            place = found.strip_prefix(path).unwrap_or(found).trim();
        }
    }
    finds
}

/// The rows of a table that is told in one line, each cell behind the name of its column; or the line itself.
fn rows(said: &str) -> Vec<String> {
    const BETWEEN_ROWS: &str = "| |";
    let said = said.trim();
    if !said.starts_with('|') {
        return vec![said.to_owned()];
    }
    let cells = |row: &str| row.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let is_ruler =
        |row: &Vec<String>| row.iter().all(|cell| cell.chars().all(|letter| matches!(letter, '-' | ':' | ' ')));
    let mut rows: Vec<Vec<String>> = said.split(BETWEEN_ROWS).map(cells).collect();
    let head = if rows.get(1).is_some_and(is_ruler) { rows.remove(0) } else { Vec::new() };
    rows.retain(|row| !is_ruler(row));
    let named = |(number, cell): (usize, &String)| match head.get(number).filter(|name| !name.is_empty()) {
        Some(name) => format!("{name}: {cell}"),
        None => cell.clone(),
    };
    let told = |row: &Vec<String>| {
        let filled = row.iter().enumerate().filter(|(_, cell)| !cell.is_empty());
        filled.map(named).collect::<Vec<_>>().join("; ")
    };
    rows.iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [Tool; 2] = [Tool::ReadFile, Tool::SearchFile];

    fn called(request: &str, is_handed: bool) -> Option<String> {
        let known = ["uploads/report.pdf", "uploads/notes.txt", "/project/plan.docx"].map(str::to_owned);
        call(request, &known, is_handed, &TOOLS).map(|(tool, arguments)| format!("{} {arguments}", tool.name()))
    }

    #[test]
    fn a_part_that_is_named_is_read() {
        let check = |request: &str, part: u32| {
            let expected = format!(r#"read_file {{"path":"uploads/report.pdf","offset":{part},"limit":1}}"#);
            assert_eq!(called(request, false), Some(expected), "{request}");
        };
        check("What does page 3 say?", 3);
        check("Summarise page 12 of report.pdf", 12);
        check("what is on p. 4", 4);
        check("what is on p.4?", 4);
        check("Show me the third page", 3);
        check("what stands on the 21st page?", 21);
        check("第7页说了什么？", 7);
        assert_eq!(called("What is on page 3 of notes.txt?", false), None);
    }

    #[test]
    fn a_row_that_is_named_is_read_where_there_are_rows() {
        let check = |request: &str, sheet: u32, row: u32| {
            let known = ["uploads/stock.xlsx".to_owned()];
            let (tool, arguments) = call(request, &known, false, &TOOLS).unwrap();
            let expected = json!({ "path": "uploads/stock.xlsx", "offset": sheet, "limit": 1, "row": row });
            assert_eq!((tool, arguments), (Tool::ReadFile, expected), "{request}");
        };
        check("Read row 250000 of stock.xlsx", 1, 250_000);
        check("What is in row 17?", 1, 17);
        check("what does the third row of sheet 2 say", 2, 3);
        check("第5行是什么？", 1, 5);
        check("What is the price in row 5 of stock.xlsx?", 1, 5);
        let none = |request: &str| {
            let called = call(request, &["uploads/stock.xlsx".to_owned()], false, &TOOLS);
            assert!(called.is_none_or(|(_, arguments)| arguments["row"].is_null()), "{request}");
        };
        none("I sit in row 12 of the plane, is that loud?");
        none("What is in row 5 of Sheet2 of stock.xlsx?");
        none("What is in row 5 of the Prices sheet of stock.xlsx?");
        none("Show row 5 to 10 of stock.xlsx");
        none("Compare row 5 and row 9 of stock.xlsx");
        none("Summarise stock.xlsx, but for row 2");
        none("What is the sum of column C up to row 20 in stock.xlsx?");
        none("显示前5行 stock.xlsx");
        let known = ["uploads/stock.xlsx", "uploads/report.pdf", "/project/stock.xlsx", "/project/plan.docx"];
        let known = known.map(str::to_owned);
        let path = |request: &str| call(request, &known, true, &TOOLS).map(|(_, arguments)| arguments["path"].clone());
        let handed = |request| path(&format!("{request}\n\nUploaded files: uploads/report.pdf, uploads/stock.xlsx"));
        assert_eq!(handed("Read row 5 of stock.xlsx"), Some(json!("uploads/stock.xlsx")), "out of the project");
        assert_eq!(handed("What does page 5 say?"), None, "of two");
        assert_eq!(handed("What does page 5 of report.pdf say?"), Some(json!("uploads/report.pdf")));
        assert_eq!(path("Read row 5 of stock.xlsx"), Some(json!("/project/stock.xlsx")));
        assert_eq!(path("Read row 5 of stock.xlsx and plan.docx"), None);
        let alone = "What do the plans on page 3 say?\n\nUploaded file: uploads/report.pdf";
        let known = ["uploads/report.pdf", "uploads/plans.txt"].map(str::to_owned);
        assert!(call(alone, &known, true, &TOOLS).is_some_and(|(_, arguments)| arguments["path"] == known[0]));
        let known = ["/project/a/plan.docx", "/project/b/plan.docx"].map(str::to_owned);
        assert_eq!(call("Compare page 2 of a/plan.docx and b/plan.docx", &known, false, &TOOLS), None);
        assert_eq!(called("What is in row 17 of report.pdf?", false), None, "pages have none");
    }

    #[test]
    fn a_question_of_a_document_searches_it() {
        let found = |query: &str| {
            Some(format!(r#"search_file {{"path":"uploads/report.pdf","query":"{query}","max_results":3}}"#))
        };
        assert_eq!(called("How much did revenue grow?", true), found("revenue grow"));
        assert_eq!(called("How much did revenue grow?", false), None);
        assert_eq!(called("How much did revenue grow in the report?", false), found("revenue grow"));
        assert_eq!(called("Who signed plan.docx?", false).as_deref().map(|call| &call[..12]), Some("search_file "));
        assert_eq!(called("What is the load?", true), found("load"), "a word within another one of the path");
        assert_eq!(called("合同金额是多少？", true), found("合同金额是多少"));
        assert_eq!(called("Summarise the report", true), None);
        assert_eq!(called("When is the deadline in notes.txt?", true), None);
    }

    #[test]
    fn finds_have_their_places() {
        let told = "1. uploads/report.pdf p. 3\n   Revenue grew. It was a good year.\n\n2. uploads/report.pdf Sales!A2:C9\n   Anna | 12\n\n\
                    [2 finds in 1 document; cite a find by its file and place]\n";
        let found = finds("uploads/report.pdf", told);
        let expected = [("p. 3", "Revenue grew. It was a good year."), ("Sales!A2:C9", "Anna | 12")];
        assert_eq!(found, expected.map(|(place, said)| (place, said.to_owned())));
        let table = "1. a.xlsx Sales!A2:D4\n   | Region | Amount | | --- | --- | | North | 3 | | South | 4 |\n";
        let rows = ["Region: North; Amount: 3", "Region: South; Amount: 4"].map(|row| ("Sales!A2:D4", row.to_owned()));
        assert_eq!(finds("a.xlsx", table), rows);
        assert_eq!(finds("a.pdf", "Nothing fits \"x\" in a.pdf"), []);
    }
}
