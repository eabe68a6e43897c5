//! All links in order, with the reasons for the order.

use std::sync::Arc;

use crate::{
    links::{
        gates::{
            approvals::Approvals,
            audit::{AuditGate, AuditLogger},
        },
        history::{Recall, Repair, compaction::Compaction},
        nudges::{AskAgain, OpenTodos, Repetition, StructuredAnswer},
        preamble::{
            guides::{Files, InputMentions, Memory, Pins, PlanMode, Skills, TurnInstructions},
            planning::TurnPlan,
        },
        results::{EditDiagnostics, Results, foreign_changes::ForeignChanges, undo::Undo},
        tools::{
            agents::{Delegation, Handoff},
            search::{FindTool, Search, UnlistedServers},
            session_tools::{ClientToolCalls, Questions, Todos},
        },
    },
    turn::{
        dispatch,
        hooks::{Chain, Link, NamedLink},
    },
};

/// Creates the chain with all links. Requests pass through the links from first to last, so that later links see what
/// earlier links added. For tool calls, the first link is the outermost.
///
/// 1. `audit`: outermost, so that every call gets an audit entry when it ends. For a long result, the entry records the
///    part that the model reads.
/// 2. `results`: around everything that answers calls, links included, so that no binary output and no result longer
///    than the window reaches a model; around approvals and undo, so that the stored result includes their additions.
/// 3. `approvals`: around everything that answers calls, links included, so that no call is answered without being
///    judged, and the user approves exactly the call that runs.
/// 4. `audit_gate`: after the approvals, whose outcome it records, and around everything that changes anything.
/// 5. `mcp_servers`: before everything that depends on the turn's tools, since it may continue the turn in a new task
///    with more tools. `compaction`: before everything that reads the history, so that only the remaining history is
///    read.
/// 6. `memory`, `skills`: after the compaction, so that notices replaced by it are repeated. Memory comes first,
///    because text that users wrote about themselves and the work matters more than the available skills.
/// 7. `files`, `mentions`, `pins`, `turn_instructions`, `recall`: new information comes before instructions, which are
///    at the end of the request.
/// 8. `plan_mode`, `planning`: remind the model of its current limits at the end of the request. The user decides on
///    the plan before later links treat it as an answer.
/// 9. `search`, `find_tool`, `todos`, `questions`: implement their own tools.
/// 10. `handoff`, `delegation`: also implement their own tools. The work of other agents is judged and recorded in
///     their own sessions.
/// 11. `diagnostics`: around undo, which reports what a call changed, and after the approvals. Before the links that
///     check the answer: with errors from an edit, the turn is not finished.
/// 12. `answer_form`, `ask_again`, `open_todos`, `repetition`: notices about an answer come after everything else in
///     the history.
/// 13. `repair`: after everything that adds to the request, so that every call has exactly one result.
/// 14. `foreign_changes`: around undo, which reports the changes of a call.
/// 15. `undo`: directly around the tool, so that all changes between its two snapshots were made by the call, not by
///     the user while being asked.
/// 16. `client_tools`: inside `undo`, since it takes the place of the tool.
pub(crate) fn chain() -> Chain {
    let links = vec![
        link("audit", "outermost: records every call and its outcome in the audit log", AuditLogger),
        link(
            "results",
            "around everything that answers calls: keeps binary data out of the prompt, reduces program output to the \
             relevant lines, and stores results that are too long for the window in a file",
            Results::default(),
        ),
        link(
            "approvals",
            "asks the user where the rules require it, around everything that answers calls, so that what is shown is \
             exactly what runs",
            Approvals,
        ),
        link("audit_gate", "runs changes and commands only after their decision is in the audit log", AuditGate),
        link(
            "mcp_servers",
            "waits briefly for MCP servers whose tools are not known yet, before everything that depends on the tools \
             of a turn",
            UnlistedServers,
        ),
        link("compaction", "makes room before the window is full, before anything else reads the history", Compaction),
        link(
            "memory",
            "shows AGENTS.md files and instructions of trusted projects once, and again after changes; those of \
             folders in the project when the work reaches the folder",
            Memory,
        ),
        link(
            "skills",
            "lists the skills; loads one when it is relevant, and installs what it needs when the user allows that",
            Skills,
        ),
        link("files", "shows attached files: names, short texts in full, pictures for models with vision", Files),
        link("mentions", "reminds the model of tools, skills and agents that an input mentions with @", InputMentions),
        link("pins", "repeats pinned rules whenever the model no longer sees them", Pins),
        link(
            "turn_instructions",
            "shows the model the client's instructions for this turn, and revokes them in the next one",
            TurnInstructions,
        ),
        link("recall", "adds relevant compacted passages", Recall),
        link("plan_mode", "reminds the model that the session is in plan mode", PlanMode),
        link("planning", "asks the user to approve the plan of a turn before anything is changed", TurnPlan),
        link("search", "lets a model search the history that it no longer sees", Search),
        link("find_tool", "lets a model find unlisted tools of MCP servers, and call them from then on", FindTool),
        link("todos", "answers the todo tools and reminds the model of open todos", Todos),
        link("questions", "passes questions of the model to the user", Questions),
        link("handoff", "transfers the session to another agent, and refuses loops", Handoff),
        link(
            "delegation",
            "runs subagents in their own sessions; their calls are judged and reported there",
            Delegation,
        ),
        link(
            "diagnostics",
            "around undo, which reports the changes of a call: shows the model errors that its edits introduced, \
             before its next step",
            EditDiagnostics,
        ),
        link(
            "answer_form",
            "gives the model the schema that the answer must match, and checks the answer before the turn ends",
            StructuredAnswer,
        ),
        link(
            "ask_again",
            "asks the model again after an unusable or truncated answer, and states the problem",
            AskAgain,
        ),
        link("open_todos", "asks the model once to finish open todos, or to say why not", OpenTodos),
        link(
            "repetition",
            "warns the model when it repeats the same calls with the same results, and does not repeat unchanged files",
            Repetition,
        ),
        link(
            "repair",
            "gives every call in a request a result, also after a crash or cancel; providers require it",
            Repair,
        ),
        link(
            "foreign_changes",
            "informs the model before its next step of files that it has read and that others have changed since",
            ForeignChanges,
        ),
        link("undo", "innermost: records what the call changed, so that it can be undone", Undo),
        link("client_tools", "has the client answer calls of its own tools, instead of the toolbox", ClientToolCalls),
    ];
    Chain::new(links, dispatch::runner)
}

fn link(name: &'static str, description: &'static str, link: impl Link + 'static) -> NamedLink {
    (name, description, Arc::new(link))
}
