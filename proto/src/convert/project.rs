//! Conversions for projects, plugins, skills, agents and worktrees.
//!
//! Also for documents: states, content and search hits.

use std::ops::Range;

use agentd_core::{
    agent::AgentCard,
    embedding::EmbeddingReport,
    guide::{Skill, SkillListing, SkillOrigin, SkillProblem, SkillReport},
    knowledge::{
        DocumentFinds, DocumentHit, DocumentListing, DocumentProgress, DocumentQuery, DocumentState, Extent,
        ExtentUnit, KnowledgeStats, PartCursor, PartKind, PartRange, ReadPart, Reading, SearchedBy,
    },
    plugin::{PluginReport, PluginServer, PluginSkill, PluginState},
    project::{
        ProjectChange, ProjectChangeKind, ProjectCommand, ProjectFile, ProjectProblem, ProjectReport, ProjectTrust,
    },
    worktree::{SessionWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

use crate::{
    convert::{Wire, WireError, mirrored},
    v1::{self, agent_card::Names},
};

mirrored!(ProjectTrust, "the trust in a project", [Empty, Untrusted, Changed, Trusted]);
mirrored!(ProjectChangeKind, "a change of a project", [Added, Changed, Removed]);
mirrored!(PluginState, "the state of a plugin", [New, Update, Installed, Changed]);
mirrored!(SkillOrigin, "the origin of a skill", [Person, Bundled, Project, Plugin]);
mirrored!(SkillListing, "the listing of a skill", [None, Name, Shortened, Whole]);

mirrored! {
    ProjectReport as v1::Project:
        path trust hash files instructions agents skills commands changes ignored problems,
        trusted_at = trusted_at "the time of a trust"
}
mirrored! { ProjectFile as v1::ProjectFile: path bytes sha256 }
mirrored! { ProjectCommand as v1::ProjectCommand: name text }
mirrored! { ProjectChange as v1::ProjectChange: path kind }
mirrored! { ProjectProblem as v1::ProjectProblem: file message is_fatal }
mirrored! {
    PluginReport as v1::Plugin:
        name version description license homepage state hash folder source files bytes skills agents commands servers
        unsupported installed_version changes problems, added_at = added_at "the time of an addition"
}
mirrored! { PluginSkill as v1::PluginSkill: name description scripts packages }
mirrored! { PluginServer as v1::PluginServer: name command url sets reads values steering cwd }
mirrored! { AgentCard as v1::AgentCard: id enabled description prompt tools skills slot max_steps }
mirrored! { SkillProblem as v1::SkillProblem: file line message is_fatal }
mirrored! {
    SkillReport as v1::SkillReport:
        folder plugin usable license allowed_tools files bytes installed problems text ? shown
        @ skill: Skill { name description path origin enabled file_types packages .. digest: String::new() }
}
mirrored! { SessionWorktree as v1::SessionWorktree: name branch project left_out }
mirrored! {
    WorktreeReport as v1::Worktree: name branch session is_orphan folder project base changed ahead is_merged problem
}
mirrored! { WorktreeDiff as v1::WorktreeDiff: name base files text is_cut is_lossy }
mirrored! { WorktreeApplied as v1::AppliedWorktree: name commit onto files }

impl Wire<Names> for Vec<String> {
    fn to_wire(&self) -> Names {
        Names { names: self.clone() }
    }

    fn from_wire(wire: Names, _: &'static str) -> Result<Self, WireError> {
        Ok(wire.names)
    }
}

mirrored!(PartKind, "the kind of a document's parts", [Page, Sheet, Slide, Section]);

mirrored!(ExtentUnit, "the unit of an extent", [Row, Character]);

mirrored!(SearchedBy, "the method of a search", [Words, Phrase, NarrowedRegex, Scan]);

mirrored! { DocumentProgress as v1::DocumentProgress: document parts total }
mirrored! { DocumentState as v1::DocumentState: name format title parts chunks problem }
mirrored! { DocumentListing as v1::ListDocumentsResponse: documents notes }
mirrored! { PartCursor as v1::PartCursor: row column }
mirrored! { Extent as v1::Extent: unit first last total }
mirrored! { ReadPart as v1::ReadPart: number label text cut shown next }
mirrored! { Reading as v1::ReadDocumentResponse: format title parts_are total parts broken locked }
mirrored! {
    // The flag is used only to merge results, which the daemon has already done.
    DocumentFinds as v1::SearchDocumentsResponse:
        by hits searched broken notes late not_searched more locked .. is_loose: false
}
mirrored! {
    DocumentHit as v1::DocumentHit: document place score snippet marks before after
        => |hit| Ok(DocumentHit { marks: valid_marks(&hit.snippet, hit.marks), ..hit })
}
mirrored! { EmbeddingReport as v1::EmbeddingReport: texts tokens sent server }
mirrored! { KnowledgeStats as v1::DocumentStatsResponse: documents chunks bytes stale folder }

/// Default number of hits.
const DEFAULT_HITS: usize = 10;

impl From<&v1::ReadDocumentRequest> for PartRange {
    fn from(request: &v1::ReadDocumentRequest) -> Self {
        let count = Some(request.count).filter(|count| *count > 0);
        let from = request.from.map(|from| PartCursor { row: from.row, column: from.column }).unwrap_or_default();
        Self { first: request.first.max(1), count, from }
    }
}

impl From<&v1::SearchDocumentsRequest> for DocumentQuery {
    fn from(request: &v1::SearchDocumentsRequest) -> Self {
        let limit = if request.limit == 0 { DEFAULT_HITS } else { request.limit as usize };
        let (text, regex, neighbours) = (request.query.clone(), request.regex, request.neighbours);
        Self { text, regex, limit, neighbours, begin_by: None }
    }
}

/// A document that could not be searched, and the reason.
impl Wire<v1::BrokenDocument> for (String, String) {
    fn to_wire(&self) -> v1::BrokenDocument {
        v1::BrokenDocument { name: self.0.clone(), why: self.1.clone() }
    }

    fn from_wire(wire: v1::BrokenDocument, _: &'static str) -> Result<Self, WireError> {
        Ok((wire.name, wire.why))
    }
}

/// Removes marks that are not valid ranges of the text.
pub(super) fn valid_marks(text: &str, mut marks: Vec<Range<usize>>) -> Vec<Range<usize>> {
    marks.retain(|mark| text.get(mark.clone()).is_some());
    marks
}

/// Implements conversions for marks in a text, as byte ranges.
macro_rules! marks {
    ($($wire:ty)+) => {
        $(impl Wire<$wire> for Range<usize> {
            fn to_wire(&self) -> $wire {
                type Mark = $wire;
                Mark { start: self.start.to_wire(), end: self.end.to_wire() }
            }

            fn from_wire(mark: $wire, field: &'static str) -> Result<Self, WireError> {
                Ok(Wire::from_wire(mark.start, field)?..Wire::from_wire(mark.end, field)?)
            }
        })+
    };
}
marks! { v1::document_hit::Mark v1::search_hit::Mark }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_snippet_marks_are_dropped() {
        let mark = |start, end| v1::document_hit::Mark { start, end };
        let wire = v1::DocumentHit {
            snippet: "纳税".to_owned(),
            marks: vec![mark(0, 3), mark(1, 3), mark(3, 99)],
            ..v1::DocumentHit::default()
        };
        #[allow(clippy::single_range_in_vec_init, reason = "one mark is one range")]
        let expected = [0..3];
        assert_eq!(DocumentHit::try_from(wire).unwrap().marks, expected);
    }
}
