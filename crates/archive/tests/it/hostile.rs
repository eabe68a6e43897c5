//! Tests for malicious archives and for files that are not archives.

use std::io::{self, Read, Write as _};

use agentd_archive::{ArchiveError, unpack};
use agentd_core::archive::ArchivedSession;
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::{Unpacked, event, manifest, read, sample_archive, session};

/// Member of a tar with its content.
type Member = (String, EntryType, Vec<u8>);

fn pack(members: &[Member]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, content) in members {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        if kind.is_symlink() || kind.is_hard_link() {
            header.set_link_name("/etc/passwd").unwrap();
        }
        // Write the name directly, because the library rejects malicious names.
        let bytes = name.as_bytes();
        header.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        header.set_cksum();
        tar.append(&header, content.as_slice()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn regular(name: &str, content: &[u8]) -> Member {
    (name.to_owned(), EntryType::Regular, content.to_vec())
}

/// Returns the manifest of an archive with this session.
fn manifest_member(session: ArchivedSession) -> Member {
    regular("manifest.json", &serde_json::to_vec(&manifest(vec![session])).unwrap())
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gzipped(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

/// Builds a valid archive with one additional member and correct hashes.
fn with(name: &str, kind: EntryType, content: &[u8]) -> Vec<u8> {
    let session = session(1);
    let mut events = serde_json::to_vec(&event(session.id, 1, "one")).unwrap();
    events.push(b'\n');
    let part = format!("journal/{}/000001.jsonl", session.id);
    let mut members =
        vec![manifest_member(session), regular(&part, &events), (name.to_owned(), kind, content.to_vec())];
    let sums: String = members.iter().map(|(name, _, content)| format!("{}  {name}\n", hash(content))).collect();
    members.push(regular("SHA256SUMS", sums.as_bytes()));
    pack(&members)
}

#[track_caller]
fn assert_rejected(archive: &[u8], words: &str) {
    let error = read(archive).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn sample_archive_is_valid() {
    assert!(read(&with("files/uploads/a", EntryType::Regular, b"x")).is_ok());
    assert!(read(&sample_archive()).is_ok());
}

#[test]
fn paths_outside_the_archive_are_rejected() {
    for path in [
        "files/../../etc/cron.d/x",
        "files/uploads/../../../x",
        "files//etc/passwd",
        "files/uploads//etc/passwd",
        "files/skills/x/SKILL.md",
        "files/.metadata.json",
        "files/uploads/.",
        "files/uploads/..",
    ] {
        assert_rejected(&with(path, EntryType::Regular, b"x"), "the path of a file");
    }
    for path in ["../x", "/etc/passwd", "manifest.json/../x", "journal/x", "journal/../x.jsonl", "other"] {
        assert_rejected(&with(path, EntryType::Regular, b"x"), "unexpected member");
    }
}

#[test]
fn links_folders_and_devices_are_rejected() {
    for (kind, words) in [
        (EntryType::Symlink, "contains a link"),
        (EntryType::Link, "contains a link"),
        (EntryType::Directory, "non-regular file"),
        (EntryType::Fifo, "non-regular file"),
        (EntryType::Block, "non-regular file"),
        (EntryType::GNUSparse, "non-regular file"),
        (EntryType::XHeader, "non-regular file"),
    ] {
        assert_rejected(&with("files/uploads/a", kind, b""), words);
    }
}

#[test]
fn foreign_files_and_newer_versions_are_distinguished() {
    assert_rejected(b"", "it is empty");
    assert_rejected(b"PK\x03\x04 a zip", "not a gzip file");
    assert_rejected(&gzipped(b"only a text"), "not a session archive");
    let only = |name: &str, content: &[u8]| pack(&[regular(name, content)]);
    assert_rejected(&only("README.md", b"hello"), "does not start with a manifest");
    assert_rejected(&only("manifest.json", b"{\"name\": \"a theme\"}"), "it was written by another program");
    assert_rejected(&only("manifest.json", b"hello"), "its manifest is not from agentd");
    let newer_manifest = json!({"archive": "agentd-session", "format": 2, "sessions": "another form"}).to_string();
    assert_rejected(&only("manifest.json", newer_manifest.as_bytes()), "has format version 2");
    assert!(matches!(read(&only("manifest.json", newer_manifest.as_bytes())), Err(ArchiveError::Newer(2))));
    let empty = json!({"archive": "agentd-session", "format": 1, "made_by": "", "made_at": "2026-01-01T00:00:00Z",
        "title": "", "sessions": []});
    assert_rejected(&only("manifest.json", empty.to_string().as_bytes()), "0 sessions");
}

#[test]
fn modified_and_truncated_archives_are_rejected() {
    // The tar and gzip checksums are valid, so only the hashes reveal the change.
    let manifest_member = manifest_member(session(0));
    let file = regular("files/uploads/a", b"evil");
    let members = |sums: &str| pack(&[manifest_member.clone(), file.clone(), regular("SHA256SUMS", sums.as_bytes())]);
    let (of_manifest, of_file) = (hash(&manifest_member.2), hash(b"good"));
    assert_rejected(&members(&format!("{of_manifest}  manifest.json\n{of_file}  files/uploads/a\n")), "was changed");
    assert_rejected(&members(&format!("{of_manifest}  manifest.json\n")), "has no hash");
    let extra_sums = format!("{of_manifest}  manifest.json\n{}  files/uploads/a\n{of_file}  gone\n", hash(b"evil"));
    assert_rejected(&members(&extra_sums), "gone is missing");
    assert_rejected(&members("no hashes at all"), "list of hashes");
    let whole = sample_archive();
    for length in [whole.len() / 2, whole.len() * 3 / 4] {
        let error = read(&whole[..length]).unwrap_err();
        assert!(matches!(error, ArchiveError::Cut | ArchiveError::Changed(_)), "{error:?}");
    }
    // A truncated tar inside a complete gzip stream.
    assert_rejected(&pack(&[manifest_member]), "the archive is truncated");
}

/// Stream of `head` followed by `left` zero bytes.
struct Endless {
    head: io::Cursor<Vec<u8>>,
    left: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.head.read(buffer)?;
        if read > 0 {
            return Ok(read);
        }
        let read = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        buffer[..read].fill(0);
        self.left -= read as u64;
        Ok(read)
    }
}

/// Ten gigabytes of zeros that compress to ten megabytes are rejected based on the declared size, before unpacking.
#[test]
fn archive_bombs_are_rejected_by_declared_size() {
    let bomb = |name: &str, size: u64| {
        let (_, _, manifest_member) = manifest_member(session(0));
        let mut bytes = Vec::new();
        for (name, size, content) in
            [("manifest.json", manifest_member.len() as u64, &manifest_member[..]), (name, size, &b""[..])]
        {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(0o644);
            header.set_size(size);
            header.set_path(name).unwrap();
            header.set_cksum();
            bytes.extend(header.as_bytes());
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        // The zeros are not included: reading them would take forever.
        let head = io::Cursor::new(gzipped(&bytes));
        let mut unpacked = Unpacked::default();
        let mut source = Endless { head, left: 10 << 30 };
        let error = unpack(&mut source, &mut unpacked).unwrap_err();
        assert!(source.left > (9 << 30), "the input was read completely");
        error
    };
    for name in ["files/uploads/zeros", "SHA256SUMS"] {
        let error = bomb(name, 10 << 30);
        assert!(matches!(error, ArchiveError::TooLarge(_)), "{error:?}");
    }
    let part = format!("journal/{}/000001.jsonl", "0193a5b2-7c1d-7000-8000-000000000001");
    let error = bomb(&part, 10 << 30);
    assert!(matches!(error, ArchiveError::Hostile(_)), "{error:?}");
}

/// A member name above the length limit is rejected.
#[test]
fn member_names_are_bounded() {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(100_000);
    header.set_cksum();
    tar.append(&header, &vec![b'a'; 100_000][..]).unwrap();
    assert_rejected(&tar.into_inner().unwrap().finish().unwrap(), "a name in it is too long");
}

#[test]
fn too_many_members_are_rejected() {
    let mut members = vec![manifest_member(session(0))];
    members.extend((0..10_001).map(|n| regular(&format!("files/uploads/{n}"), b"")));
    assert_rejected(&pack(&members), "too large");
}
