//! What documents say, at a terminal.

use std::io::Write as _;

use agentd_core::knowledge::{DocumentFinds, DocumentHit, DocumentState, KnowledgeStats, Reading};
use serde_json::json;

use crate::{
    render::{
        look::Look,
        paint::{CODE, QUIET, STRONG, paint},
        sanitize::{clean, clean_line},
    },
    report::{self, Table},
};

/// A table of documents, and below it what is wrong with some.
pub(super) fn states(states: &[DocumentState]) -> anyhow::Result<()> {
    let mut table = Table::new(["DOCUMENT", "FORMAT", "PARTS", "CHUNKS", "TITLE"]);
    for DocumentState { name, format, title, parts, chunks, .. } in states {
        let chunks = chunks.map_or_else(|| "not indexed".to_owned(), |chunks| chunks.to_string());
        let parts = if *parts == 0 { String::new() } else { parts.to_string() };
        let title = clean_line(title.as_deref().unwrap_or_default());
        table.row_with_long_end([clean_line(name), clean_line(format), parts, chunks, title]);
    }
    table.print("there is no document")?;
    for state in states {
        if let Some(problem) = &state.problem {
            crate::note(&format!("{}: {}", clean_line(&state.name), clean_line(problem)));
        }
    }
    Ok(())
}

/// Pages, each below its name.
pub(super) fn reading(path: &str, first: u32, reading: &Reading) -> anyhow::Result<()> {
    let Reading { format, title, parts_are, total, parts, broken } = reading;
    let color = Look::detect().out_color;
    let mut out = anstream::stdout().lock();
    let title = title.as_deref().map(|title| format!("  {}", clean_line(title))).unwrap_or_default();
    let whole = format!("{}  {format}, {}{title}", clean_line(path), report::count(*total, parts_are.noun()));
    writeln!(out, "{}", paint(color, QUIET, &whole))?;
    for part in parts {
        writeln!(out, "\n{}\n{}", paint(color, STRONG, &clean_line(&part.label)), clean(part.text.trim_end()))?;
        if part.cut {
            writeln!(out, "{}", paint(color, QUIET, "[the rest is left out]"))?;
        }
    }
    drop(out);
    match parts.last() {
        None if *total > 0 => crate::note(&format!("it has {}", report::count(*total, parts_are.noun()))),
        None => crate::note("it has no text"),
        Some(last) if last.number < *total && first <= *total => {
            crate::note(&format!("there is more: --page {}", last.number + 1));
        }
        Some(_) => {}
    }
    if let Some(why) = broken {
        crate::note(&format!("it could not be read to its end: {}", clean_line(why)));
    }
    Ok(())
}

/// Finds: where, and the words around, with what was looked for in bold.
pub(super) fn finds(finds: &DocumentFinds) -> anyhow::Result<()> {
    let color = Look::detect().out_color;
    let mut out = anstream::stdout().lock();
    for hit in &finds.hits {
        writeln!(out, "{}\n    {}", paint(color, CODE, &place(hit)), marked(hit, color))?;
    }
    drop(out);
    if finds.hits.is_empty() {
        crate::note(&format!("nothing was found in {}", report::count(finds.searched as u64, "document")));
    }
    for note in &finds.notes {
        crate::note(&clean_line(note));
    }
    for (name, why) in &finds.broken {
        crate::note(&format!("{} could not be searched to its end: {}", clean_line(name), clean_line(why)));
    }
    if finds.late {
        crate::note("the search is not complete: it took too long; name a document with --in");
    }
    Ok(())
}

/// The same with the citation of each find.
pub(super) fn finds_as_json(finds: &DocumentFinds) -> anyhow::Result<()> {
    let hit = |hit: &DocumentHit| {
        json!({
            "document": hit.document, "place": hit.place, "citation": hit.citation(), "score": hit.score,
            "snippet": hit.snippet, "marks": hit.marks.iter().map(|mark| [mark.start, mark.end]).collect::<Vec<_>>(),
        })
    };
    let broken = |(name, why): &(String, String)| json!({ "document": name, "why": why });
    report::json(&json!({
        "hits": finds.hits.iter().map(hit).collect::<Vec<_>>(),
        "searched": finds.searched,
        "by": finds.by,
        "complete": !finds.late,
        "notes": finds.notes,
        "broken": finds.broken.iter().map(broken).collect::<Vec<_>>(),
    }))
}

fn place(hit: &DocumentHit) -> String {
    let (document, place) = (clean_line(&hit.document), clean_line(&hit.place));
    if place.is_empty() { document } else { format!("{document}  {place}") }
}

/// The snippet in one line, with what was looked for in bold.
fn marked(hit: &DocumentHit, color: bool) -> String {
    let (mut line, mut at) = (String::new(), 0);
    for mark in &hit.marks {
        let (Some(before), Some(found)) = (hit.snippet.get(at..mark.start), hit.snippet.get(mark.clone())) else {
            continue;
        };
        line.push_str(&in_line(before));
        line.push_str(&paint(color, STRONG, &in_line(found)));
        at = mark.end;
    }
    line.push_str(&in_line(hit.snippet.get(at..).unwrap_or_default()));
    line
}

/// Without escapes and in one line, as a part of one: spaces at its ends stay.
fn in_line(part: &str) -> String {
    clean(part).replace(['\n', '\r', '\t'], " ")
}

/// How much there is.
pub(super) fn stats(stats: &KnowledgeStats) -> anyhow::Result<()> {
    let KnowledgeStats { documents, chunks, bytes, stale, folder } = stats;
    let mut out = anstream::stdout().lock();
    writeln!(out, "documents  {documents}")?;
    writeln!(out, "chunks     {chunks}")?;
    writeln!(out, "stale      {stale}")?;
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let megabytes = *bytes as f64 / 1e6;
    writeln!(out, "size       {megabytes:.1} MB")?;
    writeln!(out, "folder     {}", clean_line(&folder.display().to_string()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_are_one_line_without_escapes_and_with_bold_hits() {
        let hit = DocumentHit {
            document: "uploads/\u{1b}[2Ja.pdf".to_owned(),
            place: "p. 2".to_owned(),
            score: 1.0,
            snippet: "the\n\u{1b}[31m纳税 is due".to_owned(),
            marks: vec![9..15, 99..100],
            before: None,
            after: None,
        };
        assert_eq!(place(&hit), "uploads/a.pdf  p. 2");
        assert_eq!(marked(&hit, false), "the 纳税 is due");
        assert_eq!(marked(&hit, true), "the \u{1b}[1m纳税\u{1b}[0m is due");
    }
}
