//! `agentctl storage` and `agentctl clean`: what takes how much room, and the removal of what nobody has used for long.

use agentd_core::storage::{CleanReport, CleanedPart, StoragePart, StorageView};
use clap::Args;

use crate::{
    daemon,
    exit::Exit,
    flags::Global,
    report::{self, Table},
    terminal::sanitize,
};

/// The arguments of `storage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl storage
  agentctl storage --json | jq '.parts[] | select(.part == \"journal\").bytes'

`agentctl clean --dry-run` shows what can be removed; `retention` in agentd.yaml, when that happens by itself.")]
pub(crate) struct StorageArgs {}

/// The arguments of `clean`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl clean --dry-run                  what would be removed now
  agentctl clean
  agentctl clean --json | jq .parts
  agentctl sessions pin 0193a5b2            exempt a session from cleaning

`retention` in agentd.yaml sets the ages. Sessions that are in use, wait for an answer or are pinned are left alone.")]
pub(crate) struct CleanArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Shows what takes how much room.
pub(crate) async fn show(global: &Global, _: StorageArgs) -> anyhow::Result<Exit> {
    let view = daemon::connect(global).await?.client.storage().await?;
    report::show(global.json, &view, || table(&view))
}

fn table(view: &StorageView) -> anyhow::Result<()> {
    let rows = view.parts.iter().filter(|part| part.files > 0).map(|part| {
        let what = what(part.part, view);
        [part.part.as_str().to_owned(), report::bytes(part.bytes), part.files.to_string(), what]
    });
    Table::of(["PART", "SIZE", "FILES", "WHAT"], rows).print("nothing is kept yet")?;
    let all = view.parts.iter().map(|part| part.bytes).sum();
    report::lines([format!("\n{} in all; {} free on the disk", report::bytes(all), report::bytes(view.free_bytes))])?;
    if view.removed_sessions > 0 {
        let sessions = report::count(view.removed_sessions, "deleted session");
        crate::terminal::note(&format!("{sessions} still to be overwritten; the journal shrinks meanwhile"));
    }
    if view.stuck_sessions > 0 {
        let sessions = report::count(view.stuck_sessions, "deleted session");
        crate::terminal::note(&format!(
            "{sessions} cannot be overwritten, as the journal is damaged; see `agentctl doctor`"
        ));
    }
    Ok(())
}

fn what(part: StoragePart, view: &StorageView) -> String {
    match part {
        StoragePart::Journal => {
            format!("what was said and done; {} of it empty", report::bytes(view.journal_spare_bytes))
        }
        StoragePart::JournalLog => "what is still to be moved into it".to_owned(),
        StoragePart::Audit => "what was asked, decided and done".to_owned(),
        StoragePart::Index => "the document index; rebuilt when it is needed".to_owned(),
        StoragePart::Workspaces => "the files of sessions".to_owned(),
        StoragePart::Undo => "what files held before turns changed them".to_owned(),
        StoragePart::Memories => "what is remembered in all sessions".to_owned(),
        StoragePart::Models => "the weights of built-in models".to_owned(),
        StoragePart::Skills => "the skills that came with agentd".to_owned(),
        StoragePart::SkillEnvironments => "packages that skills need".to_owned(),
        StoragePart::Logs => "the daemon's log".to_owned(),
        StoragePart::Traces => "requests to models, as they were sent".to_owned(),
        StoragePart::Other => String::new(),
    }
}

/// Cleans, or says what that would do.
pub(crate) async fn clean(global: &Global, args: CleanArgs) -> anyhow::Result<Exit> {
    let report = daemon::connect(global).await?.client.clean(args.dry_run, "agentctl").await?;
    report::show(global.json, &report, || report::lines(lines(&report, args.dry_run)))?;
    report.problems.iter().for_each(|problem| crate::terminal::note(&sanitize::clean_line(problem)));
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
}

fn lines(report: &CleanReport, dry_run: bool) -> Vec<String> {
    let mut lines: Vec<String> = report
        .parts
        .iter()
        .map(|part| {
            let mut of = Vec::new();
            if part.sessions > 0 && part.part != CleanedPart::Sessions {
                of.push(format!("of {}", report::count(part.sessions, "session")));
            } else if part.sessions > 0 {
                of.push(report::count(part.sessions, "session"));
            }
            if part.files > 0 {
                of.push(report::count(part.files, "file"));
            }
            of.push(report::bytes(part.bytes));
            format!("{:<12}{}", part.part.as_str(), of.join(", "))
        })
        .collect();
    let all = report::bytes(report.bytes());
    lines.push(match (report.parts.is_empty(), dry_run) {
        (true, _) => "nothing is old enough to be removed".to_owned(),
        (false, true) => format!("{all} would be removed; `agentctl clean` does it"),
        (false, false) => format!("{all} removed"),
    });
    if report.kept_sessions > 0 {
        let kept = report::count(report.kept_sessions, "session");
        lines.push(format!("{kept} left alone: in use, waiting or pinned"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleaning_is_told_in_a_few_lines() {
        let mut report = CleanReport::default();
        assert_eq!(lines(&report, true), ["nothing is old enough to be removed"]);
        report.add(CleanedPart::Workspaces, 2, 3, 2048);
        report.add(CleanedPart::Sessions, 1, 0, 1024);
        report.add(CleanedPart::Audit, 0, 1, 1024);
        report.kept_sessions = 1;
        let told = lines(&report, false);
        assert_eq!(told[0], "workspaces  of 2 sessions, 3 files, 2.0 KiB");
        assert_eq!(told[1], "audit       1 file, 1.0 KiB");
        assert_eq!(told[2], "sessions    1 session, 1.0 KiB");
        assert_eq!(told[3..], ["4.0 KiB removed", "1 session left alone: in use, waiting or pinned"]);
        assert_eq!(lines(&report, true)[3], "4.0 KiB would be removed; `agentctl clean` does it");
    }
}
