//! Prints the text lines in images: `ocr FOLDER-OF-THE-MODELS THREADS PICTURE...`.

use std::{
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use agentd_ocr::{ModelFiles, PageText, Picture, Recogniser};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = std::path::PathBuf::from(arguments.next().ok_or("no folder")?);
    let threads = arguments.next().and_then(|threads| threads.parse().ok()).unwrap_or(NonZeroUsize::MIN);
    let file = |name: &str| std::fs::read(folder.join(name));
    let started_at = Instant::now();
    let files = ModelFiles {
        detection: file("ocr-detection.onnx")?,
        recognition: file("ocr-recognition.onnx")?,
        letters: String::from_utf8(file("ocr-letters.txt")?)?,
    };
    let recogniser = Recogniser::load(files, threads)?;
    eprintln!("loaded in {:.2} s", started_at.elapsed().as_secs_f32());
    for path in arguments {
        let grey = image::open(&path)?.into_luma8();
        let (width, height) = (grey.width() as usize, grey.height() as usize);
        let picture = Picture::new(width, height, grey.into_raw()).ok_or("an empty picture")?;
        let started_at = Instant::now();
        let PageText { lines, is_cut } = recogniser.text(&picture, started_at + Duration::from_secs(600))?;
        let (more, seconds) = (if is_cut { " and more" } else { "" }, started_at.elapsed().as_secs_f32());
        eprintln!("{path}: {width}x{height}, {} lines{more} in {seconds:.2} s", lines.len());
        for line in lines {
            let left = line.letters.first().map_or(0.0, |letter| letter.left);
            let right = line.letters.last().map_or(0.0, |letter| letter.right);
            let (base, size, confidence) = (line.base, line.size, line.confidence);
            println!("{base:6.0} {left:6.0}-{right:<6.0} {size:5.1} {confidence:.2} {}", line.text());
        }
    }
    Ok(())
}
