//! Calls of tools that ask language servers.

use std::sync::Arc;

use agentd_core::{
    language::{SourceLocation, SourceRewrite},
    ports::{Languages, ToolContext},
    tool::{ToolErrorCode, ToolOutput},
};

use super::BuiltinToolbox;
use crate::{
    builtin::{definition, diagnostics, references, rename_symbol, source_places},
    failure::Failure,
    job::Job,
};

impl BuiltinToolbox {
    pub(super) async fn definition(
        &self,
        context: &ToolContext,
        args: definition::Args,
    ) -> Result<ToolOutput, Failure> {
        let at = self.prepare_for(context, args, definition::prepare).await?;
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
        args: references::Args,
    ) -> Result<ToolOutput, Failure> {
        let at = self.prepare_for(context, args, references::prepare).await?;
        let found = self.languages()?.references(at).await?;
        self.show_places(context, found, references::NONE).await
    }

    /// The edits of a rename.
    pub(super) async fn rewrites(
        &self,
        context: &ToolContext,
        args: rename_symbol::Args,
    ) -> Result<Vec<SourceRewrite>, Failure> {
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
