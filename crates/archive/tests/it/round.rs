//! Round-trip tests: written archives can be read.

use agentd_archive::ArchiveWriter;
use agentd_core::archive::TreeFile;
use proptest::prelude::*;

use super::{Unpacked, event, file, manifest, read, sample_archive, session};

#[test]
fn large_session_round_trips() {
    let (mut first, mut second) = (session(3000), session(1));
    second.settings.pins = vec!["Never push.".to_owned()];
    first.settings.confirm_write = false;
    let sessions = vec![first.clone(), second.clone()];
    let mut events: Vec<_> = (1..=3000).map(|seq| event(first.id, seq, &"many words ".repeat(100))).collect();
    events.push(event(second.id, 1, "few"));
    let long = format!("outputs/{}/{}", "folder".repeat(30), "name".repeat(50));
    let files = vec![
        (file("uploads/a.txt", 5), b"hello".to_vec()),
        (TreeFile { executable: true, ..file(&long, 0) }, Vec::new()),
        (file("outputs/größe 漢字.bin", 70_000), vec![7; 70_000]),
    ];
    let mut archive = ArchiveWriter::begin(Vec::new(), &manifest(sessions.clone())).unwrap();
    events.iter().for_each(|event| archive.event(event).unwrap());
    files.iter().for_each(|(file, content)| archive.file(file, &mut content.as_slice()).unwrap());
    let archive = archive.finish().unwrap();
    assert_eq!(read(&archive).unwrap(), Unpacked { sessions, events, files });
}

#[test]
fn file_resized_during_export_keeps_the_archive_valid() {
    let mut archive = ArchiveWriter::begin(Vec::new(), &manifest(vec![session(0)])).unwrap();
    archive.file(&file("uploads/a", 5), &mut &b"he"[..]).unwrap();
    archive.file(&file("uploads/b", 3), &mut &b"too long"[..]).unwrap();
    let read = read(&archive.finish().unwrap()).unwrap();
    assert_eq!(read.files[0].1, b"he\0\0\0");
    assert_eq!(read.files[1].1, b"too");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any changed byte or truncation is detected, or does not affect the result.
    #[test]
    fn any_damage_is_detected_or_harmless(at in any::<prop::sample::Index>(), with in 1..=255_u8, cut in any::<bool>()) {
        let whole = sample_archive();
        let mut damaged = whole.clone();
        let at = at.index(damaged.len());
        if cut { damaged.truncate(at) } else { damaged[at] ^= with }
        if let Ok(read) = read(&damaged) {
            prop_assert_eq!(read, super::read(&whole).unwrap());
        }
    }

    #[test]
    fn random_bytes_are_rejected(noise in proptest::collection::vec(any::<u8>(), 0..2000), gzipped in any::<bool>()) {
        let mut bytes = if gzipped { vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3] } else { Vec::new() };
        bytes.extend(noise);
        prop_assert!(read(&bytes).is_err());
    }
}
