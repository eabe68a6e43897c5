//! Tests for the detection of changes to the log by other programs.

use agentd_audit::{AuditConfig, AuditLog};
use agentd_core::{
    audit::{AuditHead, AuditProblem},
    ports::{Audit as _, AuditReader as _},
};
use proptest::prelude::*;

use crate::world::{World, problems, started};

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

async fn check(change: impl Fn(&mut Vec<&str>), expected: &[AuditProblem]) {
    let world = World::with(6).await;
    let text = world.text();
    let mut lines = lines(&text);
    change(&mut lines);
    world.write(lines.concat());
    assert_eq!(world.problems(), expected);
}

#[tokio::test]
async fn each_kind_of_damage_is_identified() {
    use AuditProblem::{BeginningMissing, EndMissing, Missing, NotALine, OutOfOrder, Torn};
    check(|_| (), &[]).await;
    check(|lines| lines.retain(|line| !line.starts_with("{\"n\":3,")), &[Missing]).await;
    check(|lines| drop(lines.drain(..2)), &[BeginningMissing]).await;
    check(|lines| lines.swap(2, 3), &[Missing, OutOfOrder]).await;
    check(|lines| lines.insert(4, lines[1]), &[OutOfOrder]).await;
    check(|lines| lines.insert(4, "{}\n"), &[NotALine]).await;
    check(|lines| lines.insert(4, "\n"), &[NotALine]).await;
    check(|lines| lines.truncate(5), &[EndMissing]).await;
    check(|lines| lines.truncate(0), &[EndMissing]).await;
    check(|lines| lines[5] = &lines[5][..20], &[Torn, EndMissing]).await;
    check(|lines| lines.push("{\"n\":7"), &[Torn]).await;
}

#[tokio::test]
async fn changed_line_with_recomputed_hash_is_detected() {
    let world = World::with(5).await;
    let text = world.text();
    let lines: Vec<&str> = text.lines().collect();
    let before = agentd_audit::chain::SealedLine::read(lines[2].as_bytes()).unwrap().head();
    let (forged, head) = agentd_audit::chain::seal(&before, r#"{"at":"1970-01-01T00:00:00Z","kind":"nothing"}"#);
    world.write(format!("{}\n{}\n{}\n{forged}{}\n", lines[0], lines[1], lines[2], lines[4]));
    assert_eq!(world.problems(), [AuditProblem::Changed]);
    // All later hashes are recomputed as well, so that only the witness contains the original last hash.
    let (last, _) = agentd_audit::chain::seal(&head, r#"{"at":"1970-01-01T00:00:00Z","kind":"nothing"}"#);
    world.write(format!("{}\n{}\n{}\n{forged}{last}", lines[0], lines[1], lines[2]));
    assert_eq!(world.problems(), [AuditProblem::Changed]);
}

#[tokio::test]
async fn missing_witness_is_reported() {
    let world = World::with(3).await;
    std::fs::remove_file(world.path("audit.head")).unwrap();
    assert_eq!(world.problems(), [AuditProblem::NoWitness]);
    // A new witness does not restore lines that may be missing.
    world.add(1).await;
    world.add(1).await;
    assert_eq!(world.problems(), [AuditProblem::NoWitness]);
    assert!(!world.verify().is_intact());
}

fn line(text: &str, n: usize) -> AuditHead {
    agentd_audit::chain::SealedLine::read(text.lines().nth(n - 1).unwrap().as_bytes()).unwrap().head()
}

#[tokio::test]
async fn noted_hash_reveals_a_truncated_end_without_witness() {
    let world = World::with(6).await;
    let text = world.text();
    world.write(lines(&text)[..4].concat());
    std::fs::remove_file(world.path("audit.head")).unwrap();
    let log = AuditLog::open(AuditConfig { noted: Some(line(&text, 6)), ..world.config() }).unwrap();
    log.record(started(1)).await.unwrap();
    let report = log.verify(None).await.unwrap();
    assert!(!report.is_intact());
    assert!(problems(&report).contains(&AuditProblem::Missing), "{report:?}");
    log.close().await;
    assert!(world.text().contains("lines 5 to 6 that were written are missing"), "{}", world.text());
    assert!(world.problems().contains(&AuditProblem::Missing), "the gap is no longer reported");
}

#[tokio::test]
async fn older_noted_hash_verifies() {
    let world = World::with(6).await;
    for n in [1, 6] {
        let noted = Some(line(&world.text(), n));
        let log = AuditLog::open(AuditConfig { noted, ..world.config() }).unwrap();
        log.record(started(1)).await.unwrap();
        assert_eq!(problems(&log.verify(None).await.unwrap()), []);
        let head = log.synced_head().await.unwrap();
        assert_eq!(log.close().await, Some(head));
    }
    // A line noted elsewhere takes precedence over the file.
    let noted = Some(AuditHead { n: 3, hash: "ab".repeat(32) });
    let log = AuditLog::open(AuditConfig { noted, ..world.config() }).unwrap();
    assert!(problems(&log.verify(None).await.unwrap()).contains(&AuditProblem::Changed));
}

#[tokio::test]
async fn torn_line_is_set_aside_and_reported() {
    let world = World::with(3).await;
    let torn = "{\"n\":4,\"prev\":\"00";
    world.write(world.text() + torn);
    world.add(1).await;
    let report = world.verify();
    assert_eq!((report.lines, problems(&report)), (5, vec![AuditProblem::Recorded]));
    let torn_file = std::fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().path());
    let torn_file = torn_file.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "torn")).unwrap();
    assert_eq!(std::fs::read_to_string(&torn_file).unwrap(), torn);
    let record: serde_json::Value = serde_json::from_str(world.text().lines().nth(3).unwrap()).unwrap();
    assert_eq!(record["sha256"], agentd_audit::chain::sha256(torn.as_bytes()));
    assert_eq!(record["kept_as"], torn_file.file_name().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn truncated_end_stays_reported_after_more_records() {
    for keep in [0, 2] {
        let world = World::with(5).await;
        let text = world.text();
        world.write(lines(&text)[..keep].concat());
        world.add(1).await;
        world.add(1).await;
        let found = world.problems();
        let gap = if keep == 0 { AuditProblem::BeginningMissing } else { AuditProblem::Missing };
        assert_eq!(found, [gap, AuditProblem::Recorded], "{keep} lines kept");
    }
}

#[tokio::test]
async fn changed_last_line_is_not_repaired_silently() {
    let world = World::with(3).await;
    let text = world.text().replace("\"pid\":2", "\"pid\":9");
    world.write(&text);
    world.add(1).await;
    assert!(world.text().starts_with(&text), "the file was rewritten");
    let found = world.problems();
    assert!(found.contains(&AuditProblem::Changed) && found.contains(&AuditProblem::Recorded), "{found:?}");
}

#[tokio::test]
async fn changes_to_an_open_log_are_detected() {
    let world = World::new();
    let log = world.open();
    log.record(started(1)).await.unwrap();
    log.record(started(2)).await.unwrap();
    let whole = world.text();
    world.write(format!("{whole}{}", lines(&whole)[1]));
    let report = log.verify(None).await.unwrap();
    assert_eq!(problems(&report), [AuditProblem::OutOfOrder, AuditProblem::Foreign]);
    // The end is cut off and the witness removed, but the running daemon knows the last line.
    world.write(lines(&whole)[0]);
    std::fs::remove_file(world.path("audit.head")).unwrap();
    let found = problems(&log.verify(None).await.unwrap());
    assert_eq!(found, [AuditProblem::EndMissing, AuditProblem::NoWitness]);
    // The whole file is removed. The daemon must not continue to write to the unlinked file.
    std::fs::remove_file(world.path("audit.jsonl")).unwrap();
    log.record(started(3)).await.unwrap();
    let report = log.verify(None).await.unwrap();
    assert!(world.text().contains("\"pid\":3"));
    assert_eq!(
        problems(&report),
        [AuditProblem::BeginningMissing, AuditProblem::Recorded, AuditProblem::Recorded],
        "{report:?}"
    );
}

#[derive(Debug, Clone)]
enum Damage {
    Flip { at: prop::sample::Index, mask: u8 },
    Remove { from: prop::sample::Index, bytes: usize },
    Insert { at: prop::sample::Index, bytes: Vec<u8> },
    DropLine(prop::sample::Index),
    MoveLine(prop::sample::Index, prop::sample::Index),
    RepeatLine(prop::sample::Index, prop::sample::Index),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 1u8..).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        (index(), 1usize..600).prop_map(|(from, bytes)| Damage::Remove { from, bytes }),
        (index(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Damage::Insert { at, bytes }),
        index().prop_map(Damage::DropLine),
        (index(), index()).prop_map(|(from, to)| Damage::MoveLine(from, to)),
        (index(), index()).prop_map(|(from, to)| Damage::RepeatLine(from, to)),
    ]
}

fn apply(text: &[u8], damage: &Damage) -> Vec<u8> {
    let mut bytes = text.to_vec();
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    match damage {
        Damage::Flip { at, mask } => bytes[at.index(text.len())] ^= mask,
        Damage::Remove { from, bytes: count } => {
            let from = from.index(text.len());
            bytes.drain(from..(from + count).min(text.len()));
        }
        Damage::Insert { at, bytes: new } => {
            let at = at.index(text.len());
            bytes.splice(at..at, new.iter().copied());
        }
        Damage::DropLine(at) => {
            lines.remove(at.index(lines.len()));
            return lines.concat();
        }
        Damage::MoveLine(from, to) => {
            let line = lines.remove(from.index(lines.len()));
            lines.insert(to.index(lines.len()), line);
            return lines.concat();
        }
        Damage::RepeatLine(from, to) => {
            let line = lines[from.index(lines.len())];
            lines.insert(to.index(lines.len()), line);
            return lines.concat();
        }
    }
    bytes
}

#[test]
fn any_change_is_detected() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::with(8));
    let original = world.text().into_bytes();
    proptest!(ProptestConfig::with_cases(1500), |(damage in any_damage())| {
        let damaged = apply(&original, &damage);
        prop_assume!(damaged != original);
        world.write(&damaged);
        prop_assert!(!world.problems().is_empty(), "{damage:?} is not detected");
    });
}
