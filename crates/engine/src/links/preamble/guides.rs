//! Links that add context before a turn's input, and again when that context changes.
//!
//! - Guides (`AGENTS.md` files) and the list of skills are added before the input, and again after a compaction that
//!   replaced them. Guides of project folders are shown when a call first reaches the folder.
//! - A skill is linked into the session when an input mentions it, an attached file has a type that the skill handles,
//!   or a call names the skill's folder. Missing packages are requested together with the call that runs the skill.
//! - Attached files (pictures are shown), mentions in an input, pinned rules, plan mode, and the client's instructions
//!   for one turn.

use std::{path::Path, sync::Arc};

use agentd_context::{RequestBuilder, meter::pictures_left_out, text::one_line};
use agentd_core::{
    audit::DecidedBy,
    files::Picture,
    guide::{self, GuideFile},
    item::{Item, ItemBody, NoticeTopic},
    ports,
    session::SessionMode,
    tool::{Effect, ToolErrorCode, ToolOutput},
};
use futures_util::FutureExt as _;

use crate::{
    attachments,
    error::EngineError,
    instructions::{self, PreambleContext, last_sources, memory_notice, skills_notice},
    turn::{
        Flow, TurnContext, TurnState, dispatch,
        hooks::{Hook, Invocation, Link, Next, Reminder, done},
        request::reminder_or_over,
    },
};

pub(crate) struct Memory;

impl Link for Memory {
    fn preamble(&self, preamble: &PreambleContext<'_>) -> Option<ItemBody> {
        memory_notice(preamble)
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        Box::pin(async move {
            repeat_notice(context, state, NoticeTopic::Memory, memory_notice).await?;
            add_folder_notes(context, state).await
        })
    }
}

/// Repeats a notice that a compaction has just replaced.
fn repeat_notice<'a>(
    context: &'a TurnContext,
    state: &'a mut TurnState,
    topic: NoticeTopic,
    notice: fn(&PreambleContext<'_>) -> Option<ItemBody>,
) -> Hook<'a> {
    let compacted = state.compacted_at == Some(state.steps) && !state.only_compacts();
    if !compacted || last_sources(&state.history, topic).is_some() {
        return done(());
    }
    Box::pin(async move {
        let limits = context.config.guides;
        let (workspaces, workspace) = (&*context.ports.workspaces, &context.files.workspace);
        let Some(guides) = instructions::read_guides(workspaces, workspace, limits).await else { return Ok(()) };
        let window = context.smallest_window();
        let (history, tools) = (&state.history, &context.tools.visible);
        let preamble = PreambleContext { guides: &guides, limits, window, history, attached: &[], tools };
        if let Some(body) = notice(&preamble) {
            context.append_notice(state, body).await?;
        }
        Ok(())
    })
}

/// Returns the paths that calls have reached since the last check. After a compaction, the whole remaining history is
/// checked, because guides shown for the replaced part are no longer visible.
fn touched_paths(context: &TurnContext, state: &TurnState) -> Vec<String> {
    let compacted = state.compacted_at == Some(state.steps);
    let from = if compacted { 0 } else { state.searched_items.min(state.history.len()) };
    let is_new = |item: &&Arc<Item>| {
        let is_read_again = matches!(item.body, ItemBody::Notice { topic: NoticeTopic::ReadAgain, .. });
        compacted || state.searched_items > 0 || is_read_again || item.turn_id == context.ids.turn
    };
    let project = context.files.workspace.project.as_ref();
    let is_inside = |here: &&Path| project.is_some_and(|project| here.starts_with(&project.path));
    let here = context.control.environment.folder().filter(is_inside);
    let start = here.and_then(Path::to_str).unwrap_or("/project");
    let is_command = |name: &str| context.tool(name).is_some_and(|tool| tool.effect == Effect::Execute);
    instructions::touched_paths(state.history[from..].iter().filter(is_new), start, is_command)
}

/// Shows the guides of folders that calls have reached since the last check. The first check of a turn also covers
/// guides shown earlier, and reports guides that were changed or removed.
async fn add_folder_notes(context: &TurnContext, state: &mut TurnState) -> Flow {
    let (limits, workspace) = (context.config.guides, &context.files.workspace);
    if !limits.memory || !state.asks_model() || workspace.project.is_none() {
        return Ok(());
    }
    let (shown_files, is_first) = (instructions::known_files(&state.history), state.searched_items == 0);
    let mut paths = touched_paths(context, state);
    if is_first {
        paths.extend(shown_files.keys().map(|name| (*name).to_owned()));
    }
    let guides_read = instructions::read_folder_guides(&*context.ports.workspaces, workspace, limits, paths).await;
    let Some(mut files) = guides_read else { return Ok(()) };
    if is_first {
        let gone = shown_files.keys().filter(|name| files.iter().all(|file| file.name != **name));
        let gone: Vec<GuideFile> = gone.map(|name| GuideFile::gone((*name).to_owned())).collect();
        files.extend(gone);
    }
    let quote_rules = context.quote_rules();
    files.retain(|file| {
        let is_news = shown_files.get(file.name.as_str()).is_none_or(|digest| is_first && *digest != file.digest);
        is_news && quote_rules.allow(&file.name)
    });
    if let Some(body) = instructions::folder_notice(&state.history, &files, context.smallest_window(), limits) {
        context.append_notice(state, body).await?;
    }
    state.searched_items = state.history.len();
    Ok(())
}

pub(crate) struct Skills;

impl Link for Skills {
    fn preamble(&self, preamble: &PreambleContext<'_>) -> Option<ItemBody> {
        skills_notice(preamble)
    }

    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        if state.only_compacts() || context.tools.mentions.skills.is_empty() {
            return done(());
        }
        Box::pin(async move {
            for loaded in &context.tools.mentions.skills {
                if let Err(message) = link_skill(context, &loaded.skill.name).await? {
                    context.recorder.warn("skill", message).await?;
                }
            }
            Ok(())
        })
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        repeat_notice(context, state, NoticeTopic::Skills, skills_notice)
    }

    fn prepare_call<'a>(&'a self, call: &'a Invocation<'a>) -> Hook<'a, Option<ToolOutput>> {
        let text = unescape_slashes(&call.call.arguments);
        let names: Vec<String> = guide::skills_named(&text).into_iter().map(str::to_owned).collect();
        let effect = call.tool().map(|tool| tool.effect);
        if names.is_empty() || !matches!(effect, Some(Effect::Read | Effect::Execute)) {
            return done(None);
        }
        Box::pin(async move {
            for name in names {
                if let Err(message) = link_skill(call.context, &name).await? {
                    return Ok(Some(ToolOutput::error(ToolErrorCode::Path, message)));
                }
            }
            if effect == Some(Effect::Execute)
                && let Some(skills) = skills_port(call.context)
            {
                let missing = skills.missing(&call.context.files.workspace, &text);
                let missing = call.context.or_cancelled(missing).await?;
                let mut entries = call.record.entries();
                if entries.packages.is_empty() {
                    entries.packages = missing;
                }
            }
            Ok(None)
        })
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        // An approver was shown the packages to be installed. A grant added in the meantime covers only the command.
        let has_consent = call.record.answered().is_none_or(|answered| answered.by != DecidedBy::Grant);
        let packages = if has_consent { call.record.entries().packages.clone() } else { Vec::new() };
        let is_command = call.tool().is_some_and(|tool| tool.effect == Effect::Execute);
        let runs_skill = || is_command && !guide::skills_named(&unescape_slashes(&call.call.arguments)).is_empty();
        if packages.is_empty() && !runs_skill() {
            return next.run(call);
        }
        Box::pin(async move {
            let Some(skills) = skills_port(call.context) else { return next.run(call).await };
            if !packages.is_empty() {
                // Shows progress during the installation, and records that the call has started, in case of a crash.
                dispatch::begin(call).await?;
            }
            let progress = call.started.get().map(|id| call.context.recorder.progress(*id)).unwrap_or_default();
            for wanted in &packages {
                if let Err(error) = skills.install(wanted, &progress, &call.context.control.calls).await {
                    let is_stopped = call.context.control.calls.is_cancelled();
                    let code = if is_stopped { call.context.stop_code() } else { ToolErrorCode::Tool };
                    let message = format!("{}. The command did not run", EngineError::from(error).sentence());
                    return Ok(ToolOutput::error(code, message));
                }
            }
            let mut output = next.run(call).await?;
            let command = unescape_slashes(&call.call.arguments);
            let failed = skills.import_failed(&call.context.files.workspace, &command, &output.text);
            // If a script lacked a package, the user is asked to install it with the next call.
            if let Some(package) = call.context.or_cancelled(failed).await? {
                output.text += &format!(
                    "\n\nThe skill needs the Python package {package}, which it does not declare. Retry the same \
                     command: the user is then asked whether to install {package} for the skill."
                );
            }
            Ok(output)
        })
    }
}

/// Unescapes slashes in arguments, so that names of skills can be found. JSON can escape a slash.
fn unescape_slashes(arguments: &str) -> String {
    arguments.replace("\\/", "/")
}

fn skills_port(context: &TurnContext) -> Option<&dyn ports::Skills> {
    context.ports.workspaces.skills().filter(|_| context.config.guides.skills)
}

/// Links a skill into the session, if a skill with that name exists. The inner error is a sentence about
/// the problem.
async fn link_skill(context: &TurnContext, name: &str) -> Flow<Result<(), String>> {
    let Some(skills) = skills_port(context) else { return Ok(Ok(())) };
    context.make_folders().await?;
    let linked = context.or_cancelled(skills.link(&context.files.workspace, name)).await?;
    Ok(linked.map(drop).map_err(|error| EngineError::from(error).sentence()))
}

/// Maximum size of one picture, in bytes. The daemon's pictures are far smaller, so a larger file is no longer one of
/// them.
const MAX_BYTES: usize = 16 << 20;

/// Placeholder for a picture.
const NO_VISION: &str = "(You cannot see pictures. If their content matters, say so.)";
/// Note if a picture exists but is no longer shown.
const NO_LONGER_SHOWN: &str = "(Some of these pictures are no longer shown.)";

pub(crate) struct Files;

impl Link for Files {
    fn preamble(&self, preamble: &PreambleContext<'_>) -> Option<ItemBody> {
        attachments::notice(preamble.attached, preamble.tools, preamble.window)
    }

    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // A turn that resumes after a restart has already warned the user.
        let is_first_step = state.steps == 0 && !state.only_compacts();
        let of_this_turn = state.history.iter().filter(|item| item.turn_id == context.ids.turn).cloned();
        if !is_first_step
            || has_vision(context)
            || attachments::pictures(&of_this_turn.collect::<Vec<_>>()).next().is_none()
        {
            return done(());
        }
        let message = format!(
            "the model {} has no vision and is not shown pictures. Set a model with vision in the slot `vision` of \
             models.yaml or in MODEL_MULTIMODAL_*, or set `sees_pictures: true` if it has vision",
            context.models.model.info().id
        );
        context.recorder.warn("pictures_not_shown", message).boxed()
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        if !has_vision(context) || attachments::pictures(&state.history).next().is_none() {
            return done(());
        }
        load(context, state).boxed()
    }

    fn before_model(&self, context: &TurnContext, state: &TurnState, draft: &mut RequestBuilder) {
        let has_vision = context.next_model(state).sees_pictures;
        let note = if has_vision { NO_LONGER_SHOWN } else { NO_VISION };
        let mut left_out = pictures_left_out(attachments::pictures(&state.history).count());
        for message in &mut draft.messages {
            message.retain_pictures(
                |shown| {
                    let is_left_out = left_out > 0;
                    left_out = left_out.saturating_sub(1);
                    let loaded = state.pictures.get(&shown.picture.path).cloned().flatten();
                    shown.content = loaded.filter(|_| has_vision && !is_left_out);
                    shown.content.is_some()
                },
                note,
            );
        }
    }
}

/// Returns true if any model used in the turn may have vision.
fn has_vision(context: &TurnContext) -> bool {
    context.models.model.info().sees_pictures || context.models.chat.info().sees_pictures
}

/// Reads the visible pictures that are not yet loaded. Missing pictures are skipped.
async fn load(context: &TurnContext, state: &mut TurnState) -> Flow {
    let left_out = pictures_left_out(attachments::pictures(&state.history).count());
    let shown: Vec<Picture> = attachments::pictures(&state.history).skip(left_out).cloned().collect();
    state.pictures.retain(|path, _| shown.iter().any(|picture| picture.path == *path));
    for Picture { path, .. } in shown {
        if state.pictures.contains_key(&path) {
            continue;
        }
        let read = context.ports.workspaces.read_file(context.files.tree(), path.clone(), 0, MAX_BYTES);
        let read = context.or_cancelled(read).await?;
        let read = read.inspect_err(|error| tracing::warn!("could not read {path} for the model: {error}"));
        state.pictures.insert(path, read.ok().map(|piece| Arc::from(piece.content)));
    }
    Ok(())
}

/// Maximum number of problems to report individually.
const MAX_PROBLEMS: usize = 5;

pub(crate) struct InputMentions;

impl Link for InputMentions {
    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // A turn that resumes after a restart has already warned the user.
        if state.steps > 0 || context.tools.mentions.problems.is_empty() {
            return done(());
        }
        Box::pin(async move {
            let problems = &context.tools.mentions.problems;
            let more = problems.len().saturating_sub(MAX_PROBLEMS);
            let more = (more > 0).then(|| format!("{more} more mentioned names also load nothing"));
            for problem in problems.iter().take(MAX_PROBLEMS).cloned().chain(more) {
                context.recorder.warn("mention", problem).await?;
            }
            Ok(())
        })
    }

    fn reminder(&self, context: &TurnContext, _: &TurnState) -> Option<Reminder> {
        let reminders = context.tools.mentions.reminders(|tool| context.tools.visible.get(tool).is_some());
        Some(Reminder::new(NoticeTopic::Mentions, reminders.join("\n")))
    }
}

const PINNED_RULES: &str = "The user pinned these rules for this session; they apply until the user removes them:";
const NO_PINNED_RULES: &str = "The user removed all pinned rules.";

pub(crate) struct Pins;

impl Link for Pins {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let pins: String = context.settings.pins.iter().map(|pin| format!("\n- {}", one_line(pin))).collect();
        let now = (!pins.is_empty()).then(|| format!("{PINNED_RULES}{pins}"));
        reminder_or_over(state, NoticeTopic::Pins, now, NO_PINNED_RULES)
    }
}

const PLAN_MODE: &str = "The session is in plan mode: calls that change files and commands that are not read-only are \
    refused. Read what you need, then answer with a step-by-step plan of your changes and let the user decide. Do not \
    ask for permission to make them: the user ends plan mode.";

/// Reminder when plan mode ends, because the text above stays in the history.
const PLAN_MODE_ENDED: &str = "The user ended plan mode: you may change files and run commands again.";

pub(crate) struct PlanMode;

impl Link for PlanMode {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let now = (context.rules.grants.mode() == SessionMode::Plan).then(|| PLAN_MODE.to_owned());
        reminder_or_over(state, NoticeTopic::Mode, now, PLAN_MODE_ENDED)
    }
}

const INSTRUCTIONS: &str = "Instructions for this turn, from the user's client. They apply to this turn only:";

/// Reminder in the next turn without instructions.
const INSTRUCTIONS_ENDED: &str = "The instructions of that turn no longer apply.";

pub(crate) struct TurnInstructions;

impl Link for TurnInstructions {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let now = context.options.instructions.as_ref().map(|text| format!("{INSTRUCTIONS}\n\n{text}"));
        reminder_or_over(state, NoticeTopic::TurnInstructions, now, INSTRUCTIONS_ENDED)
    }
}
