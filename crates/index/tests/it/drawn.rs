//! Tests for drawn pages of PDF documents, with a real worker.

use agentd_core::{files::PreparedPicture, ports::Pictures as _};
use agentd_index::PictureReader;
use image::RgbImage;

use crate::{
    bench::{fixture_bytes, worker},
    pages::{HELVETICA, pdf},
};

async fn prepare(document: &[u8], page: u32) -> Result<PreparedPicture, String> {
    let prepared = PictureReader::new(worker()).prepare(document, Some(page)).await;
    prepared.map(Option::unwrap).map_err(|error| error.to_string())
}

/// Draws a handwritten page of 600 × 800 points.
async fn drawn(content: &str, resources: &str, more: &[&str]) -> RgbImage {
    let prepared = prepare(&pdf(content, resources, more), 1).await.unwrap();
    image::load_from_memory(&prepared.content).unwrap().into_rgb8()
}

/// Returns the pixel at a point of the page.
fn at(picture: &RgbImage, x: u32, y: u32) -> [u8; 3] {
    picture.get_pixel(x * picture.width() / 600, (800 - y) * picture.height() / 800).0
}

#[tokio::test]
async fn pages_of_other_programs_are_drawn() {
    // Name, page, size, and the range of the share of pixels that are dark, in thousandths.
    for (name, page, size, dark) in [
        ("programs/latex.pdf", 1, (1108, 1568), 5..30),
        ("programs/office.pdf", 1, (1108, 1568), 5..40),
        ("programs/browser.pdf", 3, (1211, 1568), 3..30),
        ("programs/latex-zh.pdf", 1, (1108, 1568), 2..20),
        ("embedded.pdf", 1, (1108, 1568), 1..20),
        ("more/right.pdf", 1, (1108, 1568), 1..20),
        ("more/turned.pdf", 1, (1568, 1108), 1..20),
        ("table.pdf", 1, (1108, 1568), 2..20),
        ("scan.pdf", 1, (1568, 1046), 20..100),
    ] {
        let prepared = prepare(&fixture_bytes(name), page).await.unwrap();
        assert_eq!((prepared.width, prepared.height), size, "{name}");
        let picture = image::load_from_memory(&prepared.content).unwrap().into_luma8();
        let count = picture.pixels().filter(|pixel| pixel.0[0] < 100).count();
        let share = count * 1000 / (picture.width() * picture.height()) as usize;
        assert!(dark.contains(&share), "{name}: {share}");
    }
}

#[tokio::test]
async fn pages_that_cannot_be_drawn_are_refused_with_a_reason() {
    for (name, page, reason) in [
        ("cjk.pdf", 1, "in a font that is not in the file"),
        ("programs/latex.pdf", 3, "it has 2 pages, so there is no page 3"),
        ("programs/latex.pdf", 0, "there is no page 0"),
        ("password.pdf", 1, "protected by a password"),
    ] {
        let error = prepare(&fixture_bytes(name), page).await.unwrap_err();
        assert!(error.contains(reason), "{name}: {error}");
    }
    // Providers refuse the whole conversation for a strip.
    let strip = String::from_utf8(pdf("", "", &[])).unwrap().replace("[0 0 600 800]", "[0 0 600 001]");
    let error = prepare(strip.as_bytes(), 1).await.unwrap_err();
    assert!(error.contains("too small or too narrow"), "{error}");
}

#[tokio::test]
async fn gradients_patterns_masks_and_highlights_are_drawn() {
    let layer = "<< /Type /OCG /Name (draft) >>";
    let axial = "/Shading << /S << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [0 0 600 0] \
                 /Function << /FunctionType 2 /Domain [0 1] /C0 [1 0 0] /C1 [0 0 1] /N 1 >> >> >>";
    let shaded = drawn("/S sh", axial, &[layer]).await;
    let ([red, _, blue], [last_red, _, last_blue]) = (at(&shaded, 10, 400), at(&shaded, 590, 400));
    assert!(red > 240 && blue < 15 && last_red < 15 && last_blue > 240, "{red} {blue} {last_red} {last_blue}");

    // The left half of each tile of 20 points is green.
    let cell = "0 1 0 rg 0 0 10 20 re f";
    let cell = format!(
        "<< /Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 20 20] /XStep 20 /YStep 20 \
         /Resources << >> /Length {} >> stream\n{cell}\nendstream",
        cell.len()
    );
    let tiled = drawn("/Pattern cs /P scn 100 100 200 200 re f", "/Pattern << /P 7 0 R >>", &[layer, &cell]).await;
    assert_eq!([at(&tiled, 145, 150), at(&tiled, 155, 150), at(&tiled, 50, 150)], [[0, 255, 0], [255; 3], [255; 3]]);

    // Only the lower half of the page is in the mask.
    let mask = "1 g 0 0 600 400 re f";
    let mask = format!(
        "<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Group << /S /Transparency /CS /DeviceGray >> \
         /Length {} >> stream\n{mask}\nendstream",
        mask.len()
    );
    let state = "/ExtGState << /M << /SMask << /S /Luminosity /G 7 0 R >> >> >>";
    let masked = drawn("/M gs 0 g 0 0 600 800 re f", state, &[layer, &mask]).await;
    assert_eq!([at(&masked, 300, 200), at(&masked, 300, 600)], [[0; 3], [255; 3]]);

    let state = format!("{HELVETICA} /ExtGState << /M << /BM /Multiply >> >>");
    let marked = drawn("0 g 100 100 50 50 re f /M gs 1 1 0 rg 50 50 200 200 re f", &state, &[layer]).await;
    assert_eq!([at(&marked, 125, 125), at(&marked, 200, 200)], [[0; 3], [255, 255, 0]]);
}
