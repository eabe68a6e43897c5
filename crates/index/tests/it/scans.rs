//! Tests for the recognition of scanned pages. Require the models that `make recognition` downloads.

use std::{
    env,
    fs::File,
    io::Cursor,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use agentd_core::{
    knowledge::{DocumentProgress, DocumentQuery, PartRange, RECOGNITION_MODELS},
    ports::Knowledge as _,
};
use agentd_index::{
    DocumentPlace, Extractor, Failure, Kind, Limits, Piece, ReadingPass, RecognitionConfig, UnreadPages, UnreadReason,
    WantedParts,
};
use futures_util::future::join;
use image::{GrayImage, ImageFormat, Luma};
use tokio_util::sync::CancellationToken;

use crate::{
    bench::{Document, cited_parts, extractor, fixture, fixture_bytes, read, read_file, variant},
    library::{TestLibrary, named, open, query},
    pages::{HELVETICA, pdf},
};

/// Returns the folder of the models, from the environment or where `make recognition` stores them.
pub(crate) fn models() -> PathBuf {
    let named = |key: &str| env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let share = || named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")));
    let data = named("AGENTD_DATA_DIR").or_else(|| Some(share()?.join("agentd"))).unwrap_or_default();
    let folder = named("AGENTD_TEST_RECOGNITION").unwrap_or_else(|| data.join("models"));
    assert!(folder.join("ocr-letters.txt").is_file(), "no models in {}: run `make recognition`", folder.display());
    folder
}

pub(crate) fn recognising(pages: u32) -> Extractor {
    extractor(Limits::default()).recognising(RecognitionConfig { folders: vec![models()], pages })
}

async fn read_scan(extractor: &Extractor, name: &str) -> (Option<Document>, Option<Failure>) {
    read_file(extractor, File::open(fixture(name)).unwrap(), Kind::of_name(name)).await
}

/// Returns the locations of these parts.
async fn places(extractor: &Extractor, name: &str, first: u32, last: u32) -> Vec<DocumentPlace> {
    let wanted = WantedParts { named: Kind::of_name(name), first, last: Some(last), ..WantedParts::default() };
    let file = File::open(fixture(name)).unwrap();
    let mut extraction = extractor.extract(file, wanted, CancellationToken::new()).await.unwrap();
    let mut places = Vec::new();
    while let Some(piece) = extraction.next().await {
        if let Piece::Part(part) = piece.unwrap() {
            places.push(part.place);
        }
    }
    places
}

const HARBOUR: [&str; 3] =
    ["Harbour notice", "lighthouse at the northern pier is repaired", "Mooring fees rise to 45 euros a night"];

#[track_caller]
fn assert_contains(part: &str, place: &str, wanted: &[&str]) {
    assert!(part.starts_with(place), "{part}");
    for wanted in wanted {
        assert!(part.contains(wanted), "{wanted}: {part}");
    }
}

#[tokio::test]
async fn scanned_pages_are_recognised_and_marked() {
    let (document, failure) = read_scan(&recognising(10), "scan.pdf").await;
    let parts = cited_parts(&document.unwrap());
    assert_eq!((failure, parts.len()), (None, 4), "{parts:?}");
    assert_contains(&parts[0], "[p. 1 (recognised)]\n# Harbour notice\n\nThe lighthouse", &HARBOUR);
    assert_contains(&parts[1], "[p. 2 (recognised)]", &["总则", "各部门应当在每月五日之前提交报表"]);
    assert_contains(&parts[2], "[p. 3 (recognised)]", &HARBOUR);
    assert_eq!(parts[3].trim(), "[p. 4 (recognised)]", "an empty page has no text");
}

/// Builds a page with the image of the harbour notice, followed by `content`, with `attributes` in its dictionary.
fn scanned_page(content: &str, attributes: &str) -> Vec<u8> {
    let picture = image::open(fixture("scan.png")).unwrap().into_luma8();
    let hex: String = picture.as_raw().iter().map(|pixel| format!("{pixel:02x}")).collect();
    let (width, height, length) = (picture.width(), picture.height(), hex.len() + 1);
    let picture = format!(
        "<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceGray /BitsPerComponent 8 \
         /Filter /ASCIIHexDecode /Length {length} >> stream\n{hex}>\nendstream"
    );
    let content = format!("q 600 0 0 400 0 90 cm /X Do Q {content}");
    let resources = format!("{HELVETICA} /XObject << /X 7 0 R >>");
    let page = pdf(&content, &resources, &["<< /Type /OCG /Name (draft) >>", &picture]);
    let text = String::from_utf8(page).unwrap();
    text.replacen("/MediaBox [0 0 600 800]", &format!("{attributes} /MediaBox [0 0 600 500]"), 1).into_bytes()
}

#[tokio::test]
async fn scanned_page_with_stamp_or_comment_is_recognised() {
    let extractor = recognising(10);
    let stamp = "BT /F1 12 Tf 280 20 Td (PAID 17) Tj ET";
    let comment = "/Annots [<< /Type /Annot /Subtype /Text /Rect [10 10 30 30] /T (Anna) /Contents (call them) >>]";
    for (content, attributes, own_text) in [(stamp, "", "PAID 17"), ("", comment, "Comment by Anna: call them")] {
        let (document, failure) = read(&extractor, "page.pdf", &scanned_page(content, attributes)).await;
        let parts = cited_parts(&document.unwrap());
        assert_eq!((failure, parts.len()), (None, 1), "{parts:?}");
        assert_contains(&parts[0], "[p. 1 (recognised)]\n# Harbour notice", &HARBOUR);
        assert!(parts[0].ends_with(&format!("\n\n{own_text}")), "{parts:?}");
    }
    // A filled-in form has more characters, and a page of text over an image has many.
    let form = |count: usize| {
        let line = |number: usize| {
            format!(
                "BT /F1 6 Tf 10 {} Td (Typed line number {number} of it) Tj ET ",
                80 - number * if count > 10 { 2 } else { 7 }
            )
        };
        (0..count).map(line).collect::<String>()
    };
    let (document, failure) = read(&extractor, "page.pdf", &scanned_page(&form(8), "")).await;
    let parts = cited_parts(&document.unwrap());
    assert_eq!(failure, None, "{parts:?}");
    assert_contains(
        &parts[0],
        "[p. 1 (recognised)]\n# Harbour notice",
        &[&HARBOUR[..], &["Typed line number 7"]].concat(),
    );
    let (document, failure) = read(&extractor, "page.pdf", &scanned_page(&form(30), "")).await;
    let parts = cited_parts(&document.unwrap());
    assert!(failure.is_none() && parts[0].starts_with("[p. 1]") && !parts[0].contains("Harbour"), "{parts:?}");
    // Without models, the page's own text is returned, with a note about the missing text.
    let empty_folder = tempfile::tempdir().unwrap();
    let without = RecognitionConfig { folders: vec![empty_folder.path().to_owned()], pages: 9 };
    let without = crate::bench::extractor(Limits::default()).recognising(without);
    let (document, failure) = read(&without, "page.pdf", &scanned_page(stamp, "")).await;
    assert_eq!(cited_parts(&document.unwrap()), ["[p. 1]\nPAID 17"]);
    let failure = failure.unwrap();
    let unread = UnreadPages { pictures: 1, with_text: 1, why: UnreadReason::NoModels };
    assert!(matches!(failure, Failure::Scanned { unread: reported, .. } if reported == unread), "{failure:?}");
    assert_eq!(
        failure.to_string(),
        "could not read all of the PDF: the picture on its one page was not searched for text"
    );
}

#[tokio::test]
async fn existing_ocr_layer_is_not_duplicated() {
    let extractor = recognising(10);
    let layer = |text: &str| format!("BT 3 Tr /F1 5 Tf 20 400 Td ({text}) Tj ET");
    let (document, failure) = read(&extractor, "page.pdf", &scanned_page(&layer("Harbour notice"), "")).await;
    let parts = cited_parts(&document.unwrap());
    assert_eq!((failure, parts[0].matches("notice").count()), (None, 1), "{parts:?}");
    assert_contains(&parts[0], "[p. 1 (recognised)]", &HARBOUR);
    let whole = "A whole page that some program recognised before. ".repeat(4);
    let (document, failure) = read(&extractor, "page.pdf", &scanned_page(&layer(&whole), "")).await;
    assert_eq!((failure, cited_parts(&document.unwrap())), (None, vec![format!("[p. 1]\n{}", whole.trim())]));
}

#[tokio::test]
async fn archived_scans_beyond_the_budget_are_each_reported() {
    let files = [("a.pdf", "scan.pdf"), ("b.pdf", "scan.pdf"), ("c.png", "scan.png")];
    let files = files.map(|(name, of)| (name, fixture_bytes(of))).to_vec();
    let (document, failure) = read(&recognising(2), "all.zip", &crate::archives::zip_of(&files)).await;
    let message = failure.unwrap().to_string();
    assert!(message.contains("3 of its 3 files were not read"), "{message}");
    let list = document.unwrap().parts.pop().unwrap().markdown();
    for line in ["pages from 3 on", "pages from 1 on", "c.png (12 KB), not read: the picture: its text was not"] {
        assert!(list.contains(line), "{line}: {list}");
    }
    assert!(!list.lines().last().unwrap().contains("page"), "{list}");
}

#[tokio::test]
async fn damage_does_not_hide_unrecognised_pages() {
    let mut bytes = fixture_bytes("scan.pdf");
    let end = bytes.windows(5).rposition(|window| window == b"%%EOF").unwrap();
    bytes.truncate(end);
    let (_, failure) = read(&recognising(1), "scan.pdf", &bytes).await;
    let message = failure.unwrap().to_string();
    assert!(message.contains("pages from 2 on were not recognised yet"), "{message}");
    assert!(message.contains("it is also damaged (it ends early"), "{message}");
}

#[tokio::test]
async fn tiff_pages_are_read_except_group_3_fax() {
    let extractor = recognising(10);
    let (document, failure) = read_scan(&extractor, "pages.tif").await;
    let (parts, failure) = (cited_parts(&document.unwrap()), failure.unwrap());
    assert_eq!((variant(&failure).as_str(), parts.len()), ("Foreign", 3), "{parts:?}");
    assert!(
        failure.to_string().contains("a group 3 fax; save it as PNG") && failure.hint().contains("PDF"),
        "{failure}"
    );
    for (part, number) in parts.iter().zip(1..=2) {
        assert_contains(part, &format!("[p. {number} (recognised)]"), &HARBOUR);
    }
    // A single page can be read, and so can the intact pages of a damaged file.
    assert_eq!(places(&extractor, "pages.tif", 2, 2).await, [DocumentPlace::ScannedPage(2)]);
    let mut damaged = fixture_bytes("pages.tif");
    // Overwrite the width of the first page, whose directory is near byte 2188.
    damaged[2188 + 2 + 8..2188 + 2 + 12].copy_from_slice(&[0; 4]);
    let (document, failure) = read(&extractor, "pages.tif", &damaged).await;
    let parts = cited_parts(&document.unwrap());
    assert_eq!((variant(&failure.unwrap()).as_str(), parts.len()), ("Broken", 3), "{parts:?}");
    assert_contains(&parts[1], "[p. 2 (recognised)]", &HARBOUR);
    // Pages beyond the budget are reported by number, and a rare format is not reported as damage.
    let failure_of = async |name: &str| read_scan(&recognising(1), name).await.1.unwrap();
    let failure = failure_of("pages.tif").await.to_string();
    assert!(failure.contains("2 of its 3 pages") && failure.contains("pages from 2 on"), "{failure}");
    let failure = failure_of("palette.tif").await;
    assert!(variant(&failure) == "Foreign" && failure.to_string().contains("PNG"), "{failure}");
}

#[tokio::test]
async fn pictures_of_all_formats_are_one_page_documents() {
    let extractor = recognising(20);
    let page = image::open(fixture("scan.png")).unwrap().into_luma8();
    // The second image is upside down.
    let mut files = ["scan.png", "scan.jpg"].map(|name| (name, fixture_bytes(name))).to_vec();
    for (name, format) in [
        ("a.tiff", ImageFormat::Tiff),
        ("a.webp", ImageFormat::WebP),
        ("a.gif", ImageFormat::Gif),
        ("a.bmp", ImageFormat::Bmp),
    ] {
        let mut bytes = Cursor::new(Vec::new());
        // Some encoders only accept colour.
        image::DynamicImage::ImageLuma8(page.clone()).into_rgba8().write_to(&mut bytes, format).unwrap();
        files.push((name, bytes.into_inner()));
    }
    for (name, bytes) in files {
        let (document, failure) = read(&extractor, name, &bytes).await;
        let document = document.unwrap();
        assert_eq!((failure, document.kind), (None, Kind::Picture), "{name}");
        assert_contains(&cited_parts(&document)[0], "[p. 1 (recognised)]", &HARBOUR);
        let (_, failure) = read(&extractor, name, &bytes[..bytes.len() / 3]).await;
        let is_reported = matches!(
            failure,
            None | Some(Failure::Broken { .. } | Failure::Mismatch { .. } | Failure::TooLarge { .. })
        );
        assert!(is_reported, "{name}: {failure:?}");
    }
}

/// Encodes an image as PNG.
fn png(width: u32, height: u32, grey: impl Fn(u32, u32) -> u8) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let picture = GrayImage::from_fn(width, height, |x, y| Luma([grey(x, y)]));
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// Returns a pseudo-random number for a position.
fn noise_at(x: u32, y: u32) -> u8 {
    let mixed = (x.wrapping_mul(0x9e37_79b9) ^ y.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0xc2b2_ae35);
    (mixed >> 24) as u8
}

#[tokio::test]
async fn pictures_without_text_yield_nothing() {
    let extractor = recognising(10);
    for (name, bytes) in [
        ("white.png", png(800, 1000, |_, _| 255)),
        ("black.png", png(800, 1000, |_, _| 0)),
        ("noise.png", png(800, 1000, noise_at)),
        ("coarse.png", png(800, 1000, |x, y| noise_at(x / 9, y / 9))),
        ("specks.png", png(800, 1000, |x, y| if noise_at(x / 3, y / 3) > 252 { 0 } else { 235 })),
        ("gradient.png", png(800, 1000, |x, y| ((x + y) / 8) as u8)),
        ("board.png", png(800, 1000, |x, y| if (x / 20 + y / 20) % 2 == 0 { 0 } else { 255 })),
        ("stripes.png", png(800, 1000, |_, y| if y / 12 % 2 == 0 { 40 } else { 220 })),
        ("dot.png", png(1, 1, |_, _| 0)),
        ("thread.png", png(4000, 2, |x, _| if x % 7 < 3 { 0 } else { 255 })),
    ] {
        let (document, failure) = read(&extractor, name, &bytes).await;
        assert_eq!((failure, document.unwrap().markdown().as_str()), (None, ""), "{name}");
    }
}

#[tokio::test]
async fn damaged_and_huge_pictures_are_distinguished() {
    let extractor = recognising(10);
    let whole = fixture_bytes("scan.png");
    let mut huge = whole.clone();
    // Width and height in the header.
    huge[16..24].copy_from_slice(&[0, 0, 0x70, 0, 0, 0, 0x70, 0]);
    for (name, bytes) in
        [("cut.png", &whole[..whole.len() / 2]), ("huge.png", &huge[..]), ("head.jpg", b"\xff\xd8\xff\xe0")]
    {
        let (_, failure) = read(&extractor, name, bytes).await;
        assert!(matches!(failure, Some(Failure::Broken { .. } | Failure::TooLarge { .. })), "{name}: {failure:?}");
    }
}

#[tokio::test]
async fn rest_of_a_long_scan_is_recognised_on_demand() {
    let extractor = recognising(1);
    let (document, failure) = read_scan(&extractor, "scan.pdf").await;
    let parts = cited_parts(&document.unwrap());
    assert_eq!(parts.len(), 4, "{parts:?}");
    assert_contains(&parts[0], "[p. 1 (recognised)]", &HARBOUR);
    assert!(parts[1..].iter().all(|part| !part.contains("recognised")), "{parts:?}");
    let failure = failure.unwrap();
    assert_eq!(
        failure.to_string(),
        "could not read all of the PDF: 3 of its 4 pages are pictures, probably scanned; pages from 2 on \
         were not recognised yet"
    );
    assert!(failure.hint().contains("offset"), "{failure:?}");

    let wanted = WantedParts { named: Some(Kind::Pdf), first: 3, ..WantedParts::default() };
    let file = File::open(fixture("scan.pdf")).unwrap();
    let mut extraction = extractor.extract(file, wanted, CancellationToken::new()).await.unwrap();
    assert!(matches!(extraction.next().await, Some(Ok(Piece::Head(_)))));
    let Some(Ok(Piece::Part(part))) = extraction.next().await else { panic!("no page") };
    assert_eq!(part.place, DocumentPlace::ScannedPage(3));
    assert_contains(&part.markdown(), "", &HARBOUR);
}

#[tokio::test]
async fn recognition_stops_at_the_last_wanted_page() {
    let extractor = recognising(10);
    assert_eq!(places(&extractor, "scan.pdf", 2, 3).await, [2, 3].map(DocumentPlace::ScannedPage));
    // Reading one page only reports the progress of that page.
    let (test_library, steps) = (TestLibrary::with(extractor), Arc::new(Mutex::new(Vec::new())));
    let recorded = Arc::clone(&steps);
    let progress = Arc::new(move |step: DocumentProgress| recorded.lock().unwrap().push(step.parts));
    let range = PartRange { first: 1, count: Some(1), ..PartRange::default() };
    let reading = test_library.library.read(open("scan.pdf"), range, progress, CancellationToken::new()).await.unwrap();
    assert_eq!((reading.total, reading.parts.len(), reading.broken), (4, 1, None));
    assert_eq!(*steps.lock().unwrap(), [0, 1]);
}

#[tokio::test]
async fn reason_for_missing_recognition_is_reported() {
    let empty_folder = tempfile::tempdir().unwrap();
    let config = |pages| RecognitionConfig { folders: vec![empty_folder.path().to_owned()], pages };
    for (config, why, hint) in
        [(config(0), UnreadReason::Off, "recognised_pages"), (config(9), UnreadReason::NoModels, "make recognition")]
    {
        let extractor = extractor(Limits::default()).recognising(config);
        for name in ["scan.pdf", "scan.png"] {
            let (document, failure) = read_scan(&extractor, name).await;
            let failure = failure.unwrap();
            assert!(matches!(failure, Failure::Scanned { unread, .. } if unread.why == why), "{failure:?}");
            assert!(failure.hint().contains(hint), "{}", failure.hint());
            assert!(document.unwrap().markdown().is_empty(), "{name}");
        }
    }
    install_damaged_models(empty_folder.path());
    let extractor = extractor(Limits::default()).recognising(config(9));
    let (_, failure) = read_scan(&extractor, "scan.pdf").await;
    assert!(
        matches!(failure, Some(Failure::Scanned { unread, .. }) if unread.why == UnreadReason::NoModels),
        "{failure:?}"
    );
}

/// Copies the models, or invalid files with the same names, into the expected folder.
fn install_models(folder: &Path) {
    for file in std::fs::read_dir(models()).unwrap().flatten() {
        symlink(file.path(), folder.join(file.file_name())).unwrap();
    }
}

fn install_damaged_models(folder: &Path) {
    for name in RECOGNITION_MODELS {
        std::fs::write(folder.join(name), "no model").unwrap();
    }
}

#[tokio::test]
async fn scan_is_reread_if_more_pages_may_be_recognised() {
    let pages = async |test_library: &TestLibrary| {
        let finds = test_library.search(vec![open("scan.pdf")], "lighthouse").await;
        let mut pages: Vec<String> = finds.hits.iter().map(|hit| hit.place.clone()).collect();
        pages.sort();
        (pages.join(", "), finds.broken.len())
    };
    let test_library = TestLibrary::with(recognising(1));
    assert_eq!(pages(&test_library).await, ("p. 1 (recognised)".to_owned(), 1));
    let test_library = test_library.reopened(recognising(3)).await;
    let all = ("p. 1 (recognised), p. 3 (recognised)".to_owned(), 1);
    assert_eq!(pages(&test_library).await, all);
    // Recognised text is retained, although less would be recognised now.
    let test_library = test_library.reopened(recognising(1)).await;
    assert_eq!(pages(&test_library).await, all);
    let empty_folder = RecognitionConfig { folders: Vec::new(), pages: 9 };
    let test_library = test_library.reopened(extractor(Limits::default()).recognising(empty_folder)).await;
    assert_eq!(pages(&test_library).await, all);
}

#[tokio::test]
async fn documents_are_reread_after_models_are_repaired() {
    let folder = tempfile::tempdir().unwrap();
    install_damaged_models(folder.path());
    let config = RecognitionConfig { folders: vec![folder.path().to_owned()], pages: 9 };
    let test_library = TestLibrary::with(extractor(Limits::default()).recognising(config));
    // The archive also contains text, so that it is indexed.
    let notice = scanned_page("", "");
    let files = vec![("notes.md", b"text".to_vec()), ("notice.pdf", notice)];
    let path = test_library.put("mixed.zip", crate::archives::zip_of(&files));
    let both = || vec![open("scan.png"), named(&path, "uploads/mixed.zip")];
    let finds = test_library.search(both(), "lighthouse").await;
    assert_eq!((finds.hits.len(), finds.broken.len()), (0, 2), "{finds:?}");
    for name in RECOGNITION_MODELS {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    install_models(folder.path());
    let finds = test_library.search(both(), "lighthouse").await;
    assert_eq!((finds.hits.len(), finds.broken.len()), (2, 0), "{finds:?}");
}

#[tokio::test]
async fn documents_do_not_wait_for_a_scan() {
    let extractor = recognising(10);
    let test_library = TestLibrary::with(extractor.clone());
    // Held while the other documents are read, as if another scan were being recognised.
    let busy = extractor.turn(ReadingPass::Full, &CancellationToken::new()).await.unwrap();
    let read = |name: &str| test_library.read(open(name));
    let mut scans = pin!(join(read("scan.pdf"), read("scan.png")));
    let others = async {
        let reading = read("latin.pdf").await.unwrap();
        let both = test_library.search(vec![open("latin.pdf"), open("cjk.pdf")], "QUARTZ-2").await;
        (reading, both)
    };
    let (reading, finds) = tokio::select! {
        biased;
        read = &mut scans => panic!("recognised without a turn: {read:?}"),
        others = others => others,
    };
    assert!(reading.parts[0].text.contains("QUARTZ-1") && finds.hits[0].place == "p. 2", "{reading:?} {finds:?}");
    drop(busy);
    let (pages, picture) = scans.await;
    assert_contains(&pages.unwrap().parts[0].text, "", &HARBOUR);
    assert_contains(&picture.unwrap().parts[0].text, "", &HARBOUR);
}

#[tokio::test]
async fn search_past_its_deadline_starts_no_further_document() {
    let extractor = recognising(10);
    let test_library = TestLibrary::with(extractor.clone());
    let search = async |names: &[&str], begin_by: Instant| {
        let documents = names.iter().map(|name| open(name)).collect();
        let query = DocumentQuery { begin_by: Some(begin_by), ..query("QUARTZ-2") };
        test_library.library.search(documents, query, Arc::new(|_| {}), CancellationToken::new()).await.unwrap()
    };
    assert!(!test_library.search(vec![open("latin.pdf")], "QUARTZ-2").await.hits.is_empty());
    // Indexed documents are searched even after the deadline.
    let finds = search(&["latin.pdf", "cjk.pdf", "scan.pdf"], Instant::now()).await;
    assert_eq!((finds.hits.is_empty(), finds.searched, finds.not_searched), (false, 1, 2), "{finds:?}");
    assert!(finds.broken.is_empty() && !finds.is_complete(), "{finds:?}");
    // A scan does not wait for its turn beyond the deadline.
    let busy = extractor.turn(ReadingPass::Full, &CancellationToken::new()).await.unwrap();
    let finds = search(&["latin.pdf", "scan.pdf"], Instant::now() + Duration::from_millis(300)).await;
    assert_eq!((finds.hits.is_empty(), finds.searched, finds.not_searched), (false, 1, 1), "{finds:?}");
    drop(busy);
    let finds = search(&["latin.pdf", "scan.pdf"], Instant::now() + Duration::from_secs(600)).await;
    assert_eq!((finds.searched, finds.not_searched, finds.is_complete()), (2, 0, true), "{finds:?}");
}
