//! All links in order, and the reason for the order.

use std::sync::Arc;

use crate::{
    links::{
        gates::{
            approvals::Approvals,
            audit::{AuditGate, AuditLogger},
        },
        history::{Repair, compaction::Compaction},
        nudges::{
            answers::{AskAgain, InForm},
            open_todos::OpenTodos,
            repetition::Repetition,
        },
        preamble::{
            files::Files,
            memory::Memory,
            planning::TurnPlan,
            recall::Recall,
            reminders::{MentionsOfInput, Pins, PlanMode, TurnInstructions},
            skills::Skills,
        },
        results::{
            bytes::BinaryOutput, diagnostics::EditDiagnostics, feedback::Condense, large_results::Truncation,
            undo::Undo,
        },
        tools::{
            agents::{Delegation, Handoff},
            client_tools::OfClient,
            find_tool::{FindTool, UnlistedServers},
            questions::Questions,
            search::Search,
            todos::Todos,
        },
    },
    turn::{
        dispatch,
        hooks::{Chain, Link},
    },
};

/// The shipped order. For requests it runs from first to last, so that what comes later sees what was
/// added before; for tool calls the first is the outermost.
///
/// 1. `audit`: outermost, so that no call ends without its being told; of a long result it tells what the model read.
/// 2. `large_results`: around all that answer calls, links too, so that no result is longer than the window takes.
/// 3. `feedback`: within it, so that what cannot be reduced, or kept, is still not too long; and around approvals and
///    undo, so that what they add to a result is a part of what is kept.
/// 4. `bytes`: within those that count what is text, and around all that answer calls, so that none of them puts bytes
///    before a model.
/// 5. `approvals`: around all that answer calls, links too, so that no call is answered that was not judged, and what
///    a person is asked about is exactly what runs.
/// 6. `audit_gate`: behind the approvals, for it tells what they came to, and around all that changes anything.
/// 7. `mcp_servers`: before all that depends on the tools of the turn, for it may begin again with more. `compaction`: before
///    all that look at the history, so that they look at what is left of it.
/// 8. `memory`, `skills`: behind the compaction, so that what it has just replaced of them is told again; memory
///    first, for what people wrote of themselves and the work counts more than what they could use.
/// 9. `files`, `mentions`, `pins`, `turn_instructions`, `recall`: what is new comes in front of what is to be done, at the
///    end of the request.
/// 10. `plan_mode`, `planning`: tell the model at the end of the request what it cannot do now. The plan is decided about
///     before what comes behind takes it for an answer.
/// 11. `search`, `find_tool`, `todos`, `questions`: they answer their own tools.
/// 12. `handoff`, `delegation`: as they do; what others do for the session is judged and told where they do it.
/// 13. `diagnostics`: around undo, which says what a call changed, and behind the approvals; and before what looks at the
///     answer, for with errors that came of an edit it is none yet.
/// 14. `answer_form`, `ask_again`, `open_todos`, `repetition`: what is wrong with an answer comes behind all that the history holds.
/// 15. `repair`: after all that add to the request, so that whatever they did, calls and results pair.
/// 16. `undo`: innermost, so that what it sees changed between its two looks is what the call changed, and not what
///     a person did while being asked.
/// 17. `client_tools`: behind it, for it stands in the place of the tool.
pub(crate) fn chain() -> Chain {
    let links: Vec<Arc<dyn Link>> = vec![
        Arc::new(AuditLogger),
        Arc::new(Truncation),
        Arc::new(Condense::default()),
        Arc::new(BinaryOutput),
        Arc::new(Approvals),
        Arc::new(AuditGate),
        Arc::new(UnlistedServers),
        Arc::new(Compaction),
        Arc::new(Memory),
        Arc::new(Skills),
        Arc::new(Files),
        Arc::new(MentionsOfInput),
        Arc::new(Pins),
        Arc::new(TurnInstructions),
        Arc::new(Recall),
        Arc::new(PlanMode),
        Arc::new(TurnPlan),
        Arc::new(Search),
        Arc::new(FindTool),
        Arc::new(Todos),
        Arc::new(Questions),
        Arc::new(Handoff),
        Arc::new(Delegation),
        Arc::new(EditDiagnostics),
        Arc::new(InForm),
        Arc::new(AskAgain),
        Arc::new(OpenTodos),
        Arc::new(Repetition),
        Arc::new(Repair),
        Arc::new(Undo),
        Arc::new(OfClient),
    ];
    Chain::new(links, dispatch::runner)
}
