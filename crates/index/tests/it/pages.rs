//! Tests for handwritten PDF pages, with operators and tables that the other available programs do not produce.

use std::fmt::Write as _;

use agentd_index::Limits;

use crate::bench::{Document, cited_parts, document, extractor, read};

/// Builds a document with one page. The resources may refer to additional objects, numbered from 6.
pub(crate) fn pdf(content: &str, resources: &str, more: &[&str]) -> Vec<u8> {
    let stream = format!("<< /Length {} >> stream\n{content}\nendstream", content.len());
    let resources = format!("<< {resources} >>");
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R /OCProperties << /OCGs [6 0 R] /D << /OFF [6 0 R] >> >> >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources 5 0 R >>",
        &stream,
        &resources,
    ];
    objects.extend(more);
    let mut text = "%PDF-1.7\n".to_owned();
    for (number, object) in (1..).zip(&objects) {
        writeln!(text, "{number} 0 obj {object} endobj").unwrap();
    }
    text.push_str("trailer << /Root 1 0 R /Size 20 >>\n%%EOF\n");
    text.into_bytes()
}

pub(crate) const HELVETICA: &str = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>";

async fn read_page(bytes: &[u8]) -> (Option<Document>, String) {
    let (document, failure) = read(&extractor(Limits::default()), "page.pdf", bytes).await;
    let failure = failure.map(|failure| failure.to_string());
    (document, failure.unwrap_or_default())
}

/// Returns the text of a page and asserts that there is no failure.
async fn text(content: &str, resources: &str, more: &[&str]) -> String {
    let (document, failure) = read_page(&pdf(content, resources, more)).await;
    assert_eq!(failure, "", "{content}");
    cited_parts(&document.unwrap()).join("\n").trim_start_matches("[p. 1]\n").trim().to_owned()
}

#[tokio::test]
async fn actual_text_hidden_layers_and_mirroring_are_respected() {
    // Replacement text takes precedence over glyphs.
    let content = "BT /F1 12 Tf 10 700 Td /Span << /ActualText (fi) >> BDC (X) Tj EMC (nal) Tj ET";
    assert_eq!(text(content, HELVETICA, &[]).await, "final");
    let named = format!("{HELVETICA} /Properties << /P << /ActualText <FEFF5317 4EAC> >> >>");
    assert_eq!(text("BT /F1 12 Tf 10 700 Td /Span /P BDC (ab) Tj EMC ET", &named, &[]).await, "北京");
    // A hidden layer.
    let content = "BT /F1 12 Tf 10 700 Td (seen) Tj ET /OC /L BDC BT /F1 12 Tf 10 600 Td (unseen) Tj ET EMC";
    let resources = format!("{HELVETICA} /Properties << /L 6 0 R >>");
    assert_eq!(text(content, &resources, &["<< /Type /OCG /Name (draft) >>"]).await, "seen");
    // A mirrored page.
    let content = "q -1 0 0 1 600 0 cm BT /F1 12 Tf 100 700 Td (first line) Tj 0 -14 Td (second line) Tj ET Q";
    assert_eq!(text(content, HELVETICA, &[]).await, "first line second line");
}

#[tokio::test]
async fn letters_on_a_curve_are_read_in_order() {
    let mut content = "BT /F1 12 Tf 10 750 Td (A seal:) Tj ET ".to_owned();
    for (number, letter) in (0_u8..).zip("HARBOUR OF BREST".chars()) {
        let angle = (f32::from(number) * 12.0 - 90.0).to_radians();
        let (sin, cos) = angle.sin_cos();
        let (x, y) = (300.0 + 60.0 * sin, 400.0 + 60.0 * cos);
        // Upright at the top of the circle.
        write!(content, "BT /F1 10 Tf {cos} {} {sin} {cos} {x} {y} Tm ({letter}) Tj ET ", -sin).unwrap();
    }
    let text = text(&content, HELVETICA, &[]).await;
    let seen = |letter: char| text.matches(letter).count();
    assert_eq!((seen('R'), seen('B'), seen('O'), seen('E')), (3, 2, 2, 1), "{text}");
}

#[tokio::test]
async fn letters_are_derived_from_glyph_names() {
    let encoding = "/Encoding << /Differences [1 /alpha /element /braceleft /summation] >>";
    let font = format!("/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /CMSY10 {encoding} >> >>");
    assert_eq!(text("BT /F1 12 Tf 10 700 Td <01020304> Tj ET", &font, &[]).await, "α∈{∑");
}

#[tokio::test]
async fn rtl_words_are_split_at_gaps_without_spaces() {
    // The codes 1 to 8: و ه ي ح ز م ة and a space.
    let names = "/uni0648 /uni0647 /uni064A /uni062D /uni0632 /uni0645 /uni0629 /space";
    let font = format!(
        "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Naskh /Encoding << /Differences [1 {names}] >> \
         /FirstChar 1 /LastChar 8 /Widths [500 500 500 500 500 500 500 250] >> >>"
    );
    // In drawing order from the left: normal gaps, narrow gaps, a negative gap for a mark, and stored spaces with a
    // stretched word.
    for drawn in [
        "<07060504> -293 <0302> -293 <01>",
        "<07060504> -150 <0302> -151 <01>",
        "<0706> -120 <0504> -290 <0302> -290 <01>",
        "<0706> 208 () -208 <0504> -150 <0302> -151 <01>",
        "<07> -250 <06> -190 <0504> -250 <08> -250 <03> -180 <02> 0 <0801>",
    ] {
        let line = format!("[{drawn}] TJ 0 -14 Td ");
        let text = text(&format!("BT /F1 12 Tf 10 700 Td {} ET", line.repeat(10)), &font, &[]).await;
        assert_eq!(text, ["و هي حزمة"; 10].join(" "), "{drawn}");
    }
}

#[tokio::test]
async fn chinese_without_embedded_font_uses_its_encoding() {
    let descendant = "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /SimSun \
         /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> >>";
    let font = format!(
        "/Font << /F1 << /Type /Font /Subtype /Type0 /BaseFont /SimSun /Encoding /GBK-EUC-H /DescendantFonts [{descendant}] >> >>"
    );
    assert_eq!(text("BT /F1 12 Tf 10 700 Td <B9D8D3DA> Tj ET", &font, &[]).await, "关于");
}

#[tokio::test]
async fn vertical_japanese_is_read_from_the_right() {
    let descendant = "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light \
         /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> >>";
    let font = format!(
        "/Font << /F1 << /Type /Font /Subtype /Type0 /BaseFont /Ryumin-Light-V /Encoding /UniJIS-UCS2-V \
         /DescendantFonts [{descendant}] >> >>"
    );
    let column = |text: &str| text.encode_utf16().map(|unit| format!("{unit:04X}")).collect::<String>();
    let lines = ["親譲りの無鉄砲で小供の時から", "損ばかりしている小学校に居る"];
    let content = format!("BT /F1 12 Tf 500 700 Td <{}> Tj -20 0 Td <{}> Tj ET", column(lines[0]), column(lines[1]));
    assert_eq!(text(&content, &font, &[]).await, lines.concat());
}

#[tokio::test]
async fn acrobat_9_encryption_is_supported() {
    assert_eq!(cited_parts(&document("more/acrobat9.pdf").await), cited_parts(&document("latin.pdf").await));
}

#[tokio::test]
async fn nested_forms_and_states_terminate() {
    let levels = 11;
    let form = |level: usize| {
        let content =
            if level == levels { "BT /F1 12 Tf 10 700 Td (end) Tj ET".to_owned() } else { "/X Do ".repeat(10) };
        let nested_resources =
            if level == levels { String::new() } else { format!("/XObject << /X {} 0 R >>", level + 7) };
        let length = content.len();
        format!(
            "<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << {HELVETICA} {nested_resources} >> /Length {length} >> \
             stream\n{content}\nendstream"
        )
    };
    let forms: Vec<String> = (0..=levels).map(form).collect();
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    let tenfold = pdf("/X Do", &format!("{HELVETICA} /XObject << /X 6 0 R >>"), &forms);
    let states = pdf(&"q ".repeat(2_000_000), HELVETICA, &[]);
    let marks = pdf(&"/A BMC ".repeat(2_000_000), HELVETICA, &[]);
    let numbers = pdf("BT /F1 1e38 Tf 1e38 1e38 1e38 1e38 1e38 1e38 Tm (abc) Tj ET", HELVETICA, &[]);
    for bytes in [tenfold, states, marks, numbers] {
        let (document, failure) = read_page(&bytes).await;
        let is_truncated = failure.contains("page 1 has more than 20000 forms");
        assert!(document.unwrap().parts.len() == 1 && (failure.is_empty() || is_truncated), "{failure}");
    }
}

#[tokio::test]
async fn text_beyond_the_limit_is_omitted_and_reported() {
    // Pieces of the maximum length of a string.
    let shown = format!("({}) Tj ", "x".repeat(30_000)).repeat(20);
    let content = format!("BT /F1 1 Tf 10 700 Td {shown} ET");
    let (document, failure) = read_page(&pdf(&content, HELVETICA, &[])).await;
    assert!(failure.contains("page 1 has more than 500000 letters"), "{failure}");
    assert!(document.unwrap().markdown().starts_with("xxx"));
    let comment = "word ".repeat(30_000);
    let page = String::from_utf8(pdf("", HELVETICA, &[])).unwrap();
    let annotated =
        format!("/Annots [<< /Type /Annot /Subtype /Text /Rect [1 1 9 9] /Contents ({comment}) >>] /MediaBox");
    let (document, failure) = read_page(page.replacen("/MediaBox", &annotated, 1).as_bytes()).await;
    assert!(failure.contains("page 1 has a field or a comment of more than 100000 letters"), "{failure}");
    assert!(document.unwrap().markdown().len() > 90_000);
}

#[tokio::test]
async fn overwide_csv_rows_are_truncated_to_sheet_limits() {
    let (wide, long) = ("x,".repeat(20_000), "x".repeat(64 * 1024 + 1));
    let wide = format!("name,price\nbefore,1\n{wide}\nbehind,2\n{long},3\n");
    let (document, failure) = read(&extractor(Limits::default()), "wide.csv", wide.as_bytes()).await;
    let failure = failure.unwrap().to_string();
    assert!(failure.starts_with("could not read all of the CSV file: row 3 has more than 16384 columns"), "{failure}");
    assert!(failure.contains("; cell A5 has more than 64 KiB"), "{failure}");
    let text = document.unwrap().markdown();
    assert!(text.contains("before") && text.contains("behind"), "{}", text.len());
}
