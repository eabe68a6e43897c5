//! Calls of tools that ask language servers.

use std::sync::Arc;

use agentd_core::{
    language::SourceLocation,
    ports::{Languages, ToolContext},
    tool::{ToolCall, ToolErrorCode, ToolOutput},
};
use agentd_workspace::{failure::Failure, job::Job};

use super::BuiltinToolbox;
use crate::builtin::{
    definition, diagnostics, references,
    rename_symbol::{self, PlannedRename},
    source_places,
};

impl BuiltinToolbox {
    pub(super) async fn definition(
        &self,
        context: &ToolContext,
        definition::Args(place): definition::Args,
    ) -> Result<ToolOutput, Failure> {
        let at = self.prepare_for(context, place, source_places::prepare).await?;
        let found = self.languages()?.definition(at).await?;
        self.show_places(context, found, definition::NONE).await
    }

    pub(super) async fn diagnostics(
        &self,
        context: &ToolContext,
        args: diagnostics::Args,
    ) -> Result<ToolOutput, Failure> {
        let file = self.prepare_for(context, args, diagnostics::prepare).await?;
        diagnostics::ask(&**self.languages()?, file, context).await
    }

    pub(super) async fn references(
        &self,
        context: &ToolContext,
        references::Args(place): references::Args,
    ) -> Result<ToolOutput, Failure> {
        let at = self.prepare_for(context, place, source_places::prepare).await?;
        let found = self.languages()?.references(at).await?;
        self.show_places(context, found, references::NONE).await
    }

    /// Renames a symbol: as it was shown, where it was.
    pub(super) async fn rename(
        &self,
        context: &ToolContext,
        call: &ToolCall,
        args: rename_symbol::Args,
    ) -> Result<ToolOutput, Failure> {
        let planned = match self.renames.take(context, call) {
            Some(shown) => shown,
            None => self.planned(context, args).await?,
        };
        self.write(context, planned, rename_symbol::run).await
    }

    /// Shows a rename, and keeps it until it runs.
    pub(super) async fn preview_rename(
        &self,
        context: &ToolContext,
        call: &ToolCall,
        args: rename_symbol::Args,
    ) -> Result<String, Failure> {
        let planned = self.planned(context, args).await?;
        let shown = self.work(context, planned.clone(), rename_symbol::preview).await?;
        self.renames.keep(context, call, planned);
        Ok(shown)
    }

    async fn planned(&self, context: &ToolContext, args: rename_symbol::Args) -> Result<PlannedRename, Failure> {
        let rename = self.prepare_for(context, args, rename_symbol::prepare).await?;
        rename_symbol::ask(&**self.languages()?, rename).await
    }

    fn languages(&self) -> Result<&Arc<dyn Languages>, Failure> {
        self.languages
            .as_ref()
            .ok_or_else(|| Failure::new(ToolErrorCode::UnknownTool, "no language server is asked here"))
    }

    /// Prepares a question for language servers where it may block.
    async fn prepare_for<A: Send + 'static, T: Send + 'static>(
        &self,
        context: &ToolContext,
        args: A,
        prepare: fn(&Job, A, &ToolContext, &dyn Languages) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (languages, of_call) = (Arc::clone(self.languages()?), context.clone());
        self.work_with(context, move |job| prepare(job, args, &of_call, &*languages)).await
    }

    /// Shows places that a language server found.
    async fn show_places(
        &self,
        context: &ToolContext,
        found: Vec<SourceLocation>,
        none: &str,
    ) -> Result<ToolOutput, Failure> {
        if found.is_empty() {
            return Ok(ToolOutput::ok(none));
        }
        self.work(context, found, source_places::show).await.map(ToolOutput::ok)
    }
}
