//! Tests for documents without pages: sections for citing and continued reading, and visible list numbers.

use agentd_core::knowledge::{PartKind, PartRange, Reading};
use agentd_index::Limits;

use crate::{
    bench::{extractor, fixture_bytes, read},
    hostile::{part, replaced},
    library::{TestLibrary, first, named},
};

/// Builds a Word document with this body.
fn word_document(body: &str) -> Vec<u8> {
    let handbook = fixture_bytes("handbook.docx");
    let text = part(&handbook, "word/document.xml");
    let (before, _) = text.split_once("<w:body>").unwrap();
    replaced(&handbook, "word/document.xml", format!("{before}<w:body>{body}</w:body></w:document>").as_bytes())
}

/// Builds two chapters of long paragraphs. The second chapter has a section with the searched text at its end.
fn long_chapters(heading: impl Fn(usize, &str) -> String, paragraph: impl Fn(&str) -> String) -> String {
    let line = "The master of the harbour keeps a book of all the ships that came in and of their fees.";
    let filling = || (0..60).map(|number| paragraph(&format!("{line} Entry {number}."))).collect::<String>();
    [
        heading(1, "Arrival"),
        filling(),
        heading(1, "Payment"),
        filling(),
        heading(2, "Late payment"),
        filling(),
        paragraph("Whoever pays late owes a zircon."),
    ]
    .concat()
}

#[tokio::test]
async fn hit_without_pages_names_its_section() {
    let test_library = TestLibrary::new();
    let markup = |heading: &str, level: &str, paragraph: &str| {
        let (heading, level, paragraph) = (heading.to_owned(), level.to_owned(), paragraph.to_owned());
        long_chapters(
            move |depth, text| heading.replace("TEXT", text).replace("LEVEL", &format!("{level}{depth}")),
            move |text| paragraph.replace("TEXT", text),
        )
    };
    let docx = word_document(&markup(
        "<w:p><w:pPr><w:pStyle w:val=\"LEVEL\"/></w:pPr><w:r><w:t>TEXT</w:t></w:r></w:p>",
        "Heading",
        "<w:p><w:r><w:t>TEXT</w:t></w:r></w:p>",
    ));
    let rules = fixture_bytes("more/rules.odt");
    let content = part(&rules, "content.xml");
    let text = markup("<text:h text:outline-level=\"LEVEL\">TEXT</text:h>", "", "<text:p>TEXT</text:p>");
    let (before, _) = content.split_once("<text:h ").unwrap();
    let content = format!("{before}{text}</office:text></office:body></office:document-content>");
    let odt = replaced(&rules, "content.xml", content.as_bytes());
    let html = markup("<hLEVEL>TEXT</hLEVEL>", "", "<p>TEXT</p>");
    let book = fixture_bytes("more/harbour.epub");
    let names = zip::ZipArchive::new(std::io::Cursor::new(&book)).unwrap();
    let mut names: Vec<String> = names.file_names().map(|name| name.unwrap().to_string()).collect();
    names.retain(|name| name.ends_with("html"));
    let page = format!("<html xmlns=\"http://www.w3.org/1999/xhtml\"><body>{html}</body></html>");
    let epub = replaced(&book, &names[names.len() - 1], page.as_bytes());
    for (name, bytes) in [("long.docx", docx), ("long.odt", odt), ("long.epub", epub), ("long.html", html.into_bytes())]
    {
        let path = test_library.put(name, bytes);
        let finds = test_library.search(vec![named(&path, name)], "zircon").await;
        let place = finds.hits[0].place.clone();
        let (section, heading) = place.split_once(", ").unwrap_or_else(|| panic!("{name}: {place:?} {finds:?}"));
        assert_eq!(heading, "Payment > Late payment", "{name}");
        let number: u32 = section.strip_prefix("section ").unwrap().parse().unwrap();
        let read = async |first: u32| -> Reading {
            let range = PartRange { first, count: Some(1), ..PartRange::default() };
            test_library.read_range(named(&path, name), range).await.unwrap()
        };
        let reading = read(number).await;
        assert!(number > 3 && reading.parts_are == PartKind::Section, "{name}: {reading:?}");
        assert_eq!((reading.parts[0].number, reading.total), (number, number), "{name}: last section");
        assert!(reading.parts[0].text.contains("owes a zircon"), "{name}: {reading:?}");
        assert!(!read(number - 1).await.parts[0].text.contains("zircon"), "{name}");
        // Every paragraph is in exactly one section.
        let mut entries = 0;
        for number in 1..=number {
            entries += read(number).await.parts[0].text.matches("Entry 17.").count();
        }
        assert_eq!(entries, 3, "{name}");
    }
    // A document with a single section is cited as a whole.
    let finds = test_library.search(vec![crate::library::open("handbook.docx")], "\"Guests are welcome\"").await;
    assert!(first(&finds).starts_with("handbook.docx: "), "{finds:?}");
}

/// Builds a list level. `more` contains its other properties as XML.
fn level(number: usize, format: &str, text: &str, more: &str) -> String {
    format!(
        "<w:lvl w:ilvl=\"{number}\"><w:start w:val=\"1\"/><w:numFmt w:val=\"{format}\"/>{more}\
         <w:lvlText w:val=\"{text}\"/></w:lvl>"
    )
}

fn list_item(number: usize, level: usize, text: &str) -> String {
    let list = format!("<w:numPr><w:ilvl w:val=\"{level}\"/><w:numId w:val=\"{number}\"/></w:numPr>");
    format!("<w:p><w:pPr>{list}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
}

fn styled(style: &str, text: &str) -> String {
    format!("<w:p><w:pPr><w:pStyle w:val=\"{style}\"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
}

/// Builds a Word document with these lists and paragraphs.
fn numbered(lists: &[(usize, String, &str)], body: &str) -> Vec<u8> {
    let archive = word_document(body);
    let numbering = part(&archive, "word/numbering.xml");
    let root = numbering.find("<w:numbering").unwrap();
    let root = &numbering[..root + numbering[root..].find('>').unwrap() + 1];
    let abstracts: String = lists
        .iter()
        .map(|(number, levels, _)| format!("<w:abstractNum w:abstractNumId=\"{number}\">{levels}</w:abstractNum>"))
        .collect();
    let numbers: String = lists
        .iter()
        .map(|(number, _, more)| {
            format!(
                "<w:num w:numId=\"{number}\"><w:abstractNumId w:val=\"{number}\"/></w:num>{}",
                more.replace("LIST", &number.to_string())
            )
        })
        .collect();
    let archive =
        replaced(&archive, "word/numbering.xml", format!("{root}{abstracts}{numbers}</w:numbering>").as_bytes());
    let styles = part(&archive, "word/styles.xml");
    let by_style = "<w:style w:type=\"paragraph\" w:styleId=\"Clause\"><w:name w:val=\"Clause\"/><w:pPr><w:numPr>\
                    <w:numId w:val=\"4\"/></w:numPr></w:pPr></w:style><w:style w:type=\"paragraph\" w:styleId=\"SubClause\">\
                    <w:name w:val=\"SubClause\"/><w:basedOn w:val=\"Clause\"/><w:pPr><w:numPr><w:ilvl w:val=\"1\"/>\
                    <w:numId w:val=\"4\"/></w:numPr></w:pPr></w:style><w:style w:type=\"paragraph\" w:styleId=\"InnerClause\">\
                    <w:name w:val=\"InnerClause\"/><w:basedOn w:val=\"SubClause\"/></w:style>";
    let styles = styles.replace("</w:styles>", &format!("{by_style}</w:styles>"));
    replaced(&archive, "word/styles.xml", styles.as_bytes())
}

#[tokio::test]
async fn word_lists_have_their_displayed_numbers() {
    let contract =
        level(0, "decimal", "%1.", "") + &level(1, "decimal", "%1.%2", "") + &level(2, "lowerLetter", "(%3)", "");
    let articles = level(0, "decimal", "Article %1", "") + &level(1, "lowerRoman", "(%2)", "");
    let annexes = level(0, "upperRoman", "Annex %1", "") + &level(1, "decimal", "%1-%2", "<w:isLgl/>");
    let clauses = level(0, "decimal", "§ %1", "") + &level(1, "upperLetter", "%1.%2", "");
    let chinese = level(0, "chineseCountingThousand", "第%1条", "");
    let repeated_list = "<w:num w:numId=\"11\"><w:abstractNumId w:val=\"LIST\"/></w:num><w:num w:numId=\"12\"><w:abstractNumId \
                 w:val=\"LIST\"/><w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"7\"/></w:lvlOverride></w:num>";
    let bullets = level(0, "bullet", "\u{f0b7}", "");
    let lists = [
        (1, contract, ""),
        (2, articles, repeated_list),
        (3, annexes, ""),
        (4, clauses, ""),
        (5, chinese, ""),
        (6, bullets, ""),
    ];
    let rows = [
        (list_item(1, 0, "Delivery"), "1. Delivery"),
        (list_item(1, 0, "Payment"), "2. Payment"),
        (list_item(1, 1, "Currency"), "2.1 Currency"),
        (list_item(1, 1, "Late payment"), "2.2 Late payment"),
        (list_item(1, 2, "interest"), "(a) interest"),
        (list_item(1, 2, "costs"), "(b) costs"),
        (list_item(1, 0, "Term"), "3. Term"),
        (list_item(1, 1, "Length"), "3.1 Length"),
        (list_item(2, 0, "Scope"), "Article 1 Scope"),
        (list_item(2, 1, "ships"), "(i) ships"),
        (list_item(11, 0, "Seat"), "Article 2 Seat"),
        (list_item(2, 1, "boats"), "(i) boats"),
        (list_item(12, 0, "Law"), "Article 7 Law"),
        (list_item(12, 0, "Courts"), "Article 8 Courts"),
        (list_item(3, 0, "Prices"), "Annex I Prices"),
        (list_item(3, 0, "Ports"), "Annex II Ports"),
        (list_item(3, 1, "Northern ports"), "2-1 Northern ports"),
        (styled("Clause", "Liability"), "§ 1 Liability"),
        (styled("SubClause", "Limits"), "1.A Limits"),
        (styled("InnerClause", "Exceptions"), "1.B Exceptions"),
        (styled("Clause", "Notices"), "§ 2 Notices"),
        (list_item(6, 0, "bring keys"), "- bring keys"),
        (list_item(0, 0, "Not numbered"), "Not numbered"),
    ];
    let numerals = ["一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二"];
    let (mut body, mut expected): (Vec<String>, Vec<String>) =
        rows.into_iter().map(|(list_item, shown)| (list_item, shown.to_owned())).unzip();
    body.extend(numerals.map(|word_document| list_item(5, 0, &format!("附则{word_document}"))));
    expected.extend(numerals.map(|word_document| format!("第{word_document}条 附则{word_document}")));
    let bytes = numbered(&lists, &body.concat());
    let (document, failure) = read(&extractor(Limits::default()), "contract.docx", &bytes).await;
    let text = document.unwrap().markdown();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected);
    assert_eq!(failure, None);

    let test_library = TestLibrary::new();
    let path = test_library.put("contract.docx", bytes);
    for (query, marked) in [("\"Article 7\"", "[Article 7]"), ("\"2.2\"", "[2.2]"), ("\"Annex II\"", "[Annex II]")] {
        let hit = first(&test_library.search(vec![named(&path, "contract.docx")], query).await);
        assert!(hit.contains(marked), "{query}: {hit}");
    }
}

#[tokio::test]
async fn numbered_headings_keep_numbers_and_hostile_lists_terminate() {
    let deep = (0..9).map(|at| level(at, "decimal", &"%1%2%3%4%5%6%7%8%9".repeat(200), "")).collect::<String>();
    let odd = level(0, "ordinalText", "%1 %9 %0 %", "") + &level(77, "upperRoman", "%1", "");
    let huge = level(0, "upperRoman", "%1", "").replace("w:start w:val=\"1\"", "w:start w:val=\"4000000000\"");
    let bytes = numbered(
        &[(1, deep, ""), (2, odd, ""), (3, huge, "")],
        &[
            list_item(1, 8, "deep"),
            list_item(2, 0, "odd"),
            list_item(2, 77, "beyond"),
            list_item(3, 0, "huge"),
            list_item(3, 0, "huger"),
            list_item(99, 0, "unknown"),
            "<w:p><w:pPr><w:pStyle w:val=\"Heading2\"/><w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"2\"/></w:numPr>\
             </w:pPr><w:r><w:t>Scope</w:t></w:r></w:p>"
                .to_owned(),
        ]
        .concat(),
    );
    let (document, _) = read(&extractor(Limits::default()), "odd.docx", &bytes).await;
    let text = document.unwrap().markdown();
    for words in ["deep", "beyond", "4000000000 huge", "huger", "unknown", "## 2"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.len() < 2000, "{text}");
}
