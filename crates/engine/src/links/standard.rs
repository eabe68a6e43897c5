//! All links in order, with the reasons for the order.

use std::sync::Arc;

use crate::{
    links::{
        gates::{
            approvals::Approvals,
            audit::{AuditGate, AuditLogger},
        },
        history::{Recall, Repair, compaction::Compaction},
        nudges::{AskAgain, InForm, OpenTodos, Repetition},
        preamble::{
            guides::{Files, Memory, MentionsOfInput, Pins, PlanMode, Skills, TurnInstructions},
            planning::TurnPlan,
        },
        results::{EditDiagnostics, Results, undo::Undo},
        tools::{
            agents::{Delegation, Handoff},
            search::{FindTool, Search, UnlistedServers},
            session_tools::{OfClient, Questions, Todos},
        },
    },
    turn::{
        dispatch,
        hooks::{Chain, Link, NamedLink},
    },
};

/// Creates the chain with all links. Requests pass them from first to last, so that later links see what earlier ones
/// added; for tool calls, the first link is the outermost.
///
/// 1. `audit`: outermost, so that every call gets an audit entry when it ends. Of a long result, it records the part
///    that the model reads.
/// 2. `results`: around everything that answers calls, links included, so that no binary output and no result longer
///    than the window reaches a model; around approvals and undo, so that the stored result includes what they add.
/// 3. `approvals`: around everything that answers calls, links included, so that no call is answered without being
///    judged, and the user approves exactly what runs.
/// 4. `audit_gate`: after the approvals, whose outcome it records, and around everything that changes anything.
/// 5. `mcp_servers`: before everything that depends on the turn's tools, since it may continue the turn
///    in a new task with more of them. `compaction`: before everything that reads the history, so that it reads what
///    is left.
/// 6. `memory`, `skills`: after the compaction, so that notices it has just replaced are repeated. Memory comes first:
///    what users wrote about themselves and the work matters more than what they could use.
/// 7. `files`, `mentions`, `pins`, `turn_instructions`, `recall`: new information comes before what is to be done, at
///    the end of the request.
/// 8. `plan_mode`, `planning`: remind the model at the end of the request of what it cannot do now. The plan is decided
///    on before later links treat it as an answer.
/// 9. `search`, `find_tool`, `todos`, `questions`: implement their own tools.
/// 10. `handoff`, `delegation`: likewise; the work of other agents is judged and recorded in their own sessions.
/// 11. `diagnostics`: around undo, which reports what a call changed, and after the approvals. Before the links that
///     check the answer: with errors from an edit, the turn is not finished.
/// 12. `answer_form`, `ask_again`, `open_todos`, `repetition`: problems of an answer come after everything that the
///     history holds.
/// 13. `repair`: after everything that adds to the request, so that calls and results pair up in any case.
/// 14. `undo`: innermost, so that what changes between its two looks was changed by the call, and not by the user while
///     being asked.
/// 15. `client_tools`: after undo, since it takes the place of the tool.
pub(crate) fn chain() -> Chain {
    let links = vec![
        link("audit", "outermost: tells the audit log of every call and of what came of it", AuditLogger),
        link(
            "results",
            "around all that answers calls: no bytes reach the prompt, what programs print is reduced to what decides, and what is \
             too long for the window is kept in a file",
            Results::default(),
        ),
        link(
            "approvals",
            "asks a person where the rules want it, around all that answer calls, so that what is shown is exactly what runs",
            Approvals,
        ),
        link("audit_gate", "lets nothing run or change anything before its decision is in the audit log", AuditGate),
        link(
            "mcp_servers",
            "waits a little for MCP servers whose tools are not known yet, before all that depends on the tools of a turn",
            UnlistedServers,
        ),
        link(
            "compaction",
            "makes room before the window is full, and first of all that look at the history",
            Compaction,
        ),
        link(
            "memory",
            "what AGENTS.md files and trusted projects say, told once, and again where they changed; those of folders in the project \
             when the work comes to the folder",
            Memory,
        ),
        link(
            "skills",
            "which skills there are; one is brought into the session when something is about it, and what it needs installed when \
             a person allows that",
            Skills,
        ),
        link("files", "files that a person handed over: named, short texts whole, pictures for models that see", Files),
        link(
            "mentions",
            "tools, skills and agents that an input names with @: the model is reminded of them",
            MentionsOfInput,
        ),
        link("pins", "tells the rules that a person pinned, whenever the model no longer sees them", Pins),
        link(
            "turn_instructions",
            "tells the model what the client wants of this turn alone, and in the next one that it is over",
            TurnInstructions,
        ),
        link("recall", "tells passages of what was set aside, where an input is about them", Recall),
        link("plan_mode", "tells the model while the session is in plan mode", PlanMode),
        link("planning", "asks a person about the plan with which a turn begins, before anything is changed", TurnPlan),
        link("search", "lets a model find what it no longer sees of its session", Search),
        link(
            "find_tool",
            "lets a model find tools of MCP servers that it is not shown, and call them from there on",
            FindTool,
        ),
        link("todos", "answers the todo tools and reminds the model of what is to be done", Todos),
        link("questions", "hands the questions of the model on to a person", Questions),
        link("handoff", "hands the session to another agent, and refuses circles of them", Handoff),
        link(
            "delegation",
            "lets sessions of their own do parts of the work; what they do is judged and told where they do it",
            Delegation,
        ),
        link(
            "diagnostics",
            "around undo, which says what a call changed: tells the model of errors that its edits brought, before its next step",
            EditDiagnostics,
        ),
        link(
            "answer_form",
            "tells the model which schema the answer has to match, and checks the answer before the turn ends with it",
            InForm,
        ),
        link(
            "ask_again",
            "tells the model what was wrong with an answer that is none, or cut, before it is asked again",
            AskAgain,
        ),
        link(
            "open_todos",
            "asks the model once to finish the todos that its turn leaves open, or to say why not",
            OpenTodos,
        ),
        link(
            "repetition",
            "tells the model when it makes the same calls again and again and gets the same results, and shows no file twice",
            Repetition,
        ),
        link(
            "repair",
            "every call in a request gets its result, whatever a crash or a cancel left behind; providers refuse others",
            Repair,
        ),
        link(
            "undo",
            "innermost: what changed between its two looks is what the call changed, and can be taken back",
            Undo,
        ),
        link("client_tools", "has the client answer calls of its own tools, in the place of the toolbox", OfClient),
    ];
    Chain::new(links, dispatch::runner)
}

fn link(name: &'static str, description: &'static str, link: impl Link + 'static) -> NamedLink {
    (name, description, Arc::new(link))
}
