//! A toolbox that shows the tools of another one and answers calls from a recording.

use std::sync::Arc;

use agentd_core::{
    catalogue::Catalogue,
    ids::SessionId,
    ports::{ToolContext, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::script::Script;

/// Tools whose results are recorded. Nothing runs.
pub struct PlayedToolbox {
    shown: Arc<dyn Toolbox>,
    script: Arc<Script>,
}

impl PlayedToolbox {
    /// The tools of `shown`, with results from what `script` plays.
    #[must_use]
    pub fn new(shown: Arc<dyn Toolbox>, script: Arc<Script>) -> Self {
        Self { shown, script }
    }
}

fn at_once<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    std::future::ready(value).boxed()
}

impl Toolbox for PlayedToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.shown.specs()
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.shown.catalogue()
    }

    fn session_catalogue(&self, session: SessionId) -> Option<Arc<Catalogue>> {
        self.shown.session_catalogue(session)
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.shown.canonical_name(name)
    }

    fn meant(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.shown.meant(call)
    }

    // Files that the call was about are not here: a preview of its own could only be wrong, or refuse what once ran.
    fn preview<'a>(
        &'a self,
        _: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        at_once(Ok(self.script.preview(call)))
    }

    fn changes(&self, _: &ToolContext, _: &ToolCall) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn follow<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        at_once(None)
    }

    fn start<'a>(&'a self, _: &'a ToolContext, _: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        at_once(None)
    }

    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        at_once(true)
    }

    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        at_once(true)
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        let output = self.script.result(context.session_id, call).unwrap_or_else(|| {
            let message = format!("the recording has no result of this call of {}", call.name);
            ToolOutput::error(ToolErrorCode::NotRun, message)
        });
        at_once(output)
    }
}
