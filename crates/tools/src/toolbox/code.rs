//! The tools that look at code: a call is checked on a thread that may block, and answered by the reader of code.

use std::sync::Arc;

use agentd_core::{
    ports::{CodeReader, ToolContext},
    tool::{ToolCall, ToolErrorCode, ToolOutput},
};
use agentd_workspace::failure::Failure;

use super::BuiltinToolbox;
use crate::builtin::{
    Builtin,
    code::{find_symbol, outline, repo_map, search_code},
};

impl BuiltinToolbox {
    /// Answers a call of one of them.
    pub(super) async fn look_at_code(
        &self,
        tool: Builtin,
        context: &ToolContext,
        call: &ToolCall,
    ) -> Result<ToolOutput, Failure> {
        let code: Arc<dyn CodeReader> = self.code.clone().ok_or_else(no_reader)?;
        match tool {
            Builtin::FindSymbol => {
                let prepared = self.work(context, self.read(tool, call)?, find_symbol::prepare).await?;
                find_symbol::look_up(&*code, context, prepared).await
            }
            Builtin::Outline => {
                let prepared = self.work(context, self.read(tool, call)?, outline::prepare).await?;
                outline::draw(&*code, context, prepared).await
            }
            Builtin::RepoMap => {
                let prepared = self.work(context, self.read(tool, call)?, repo_map::prepare).await?;
                repo_map::draw(&*code, context, prepared).await
            }
            Builtin::SearchCode => {
                let prepared = self.work(context, self.read(tool, call)?, search_code::prepare).await?;
                search_code::search(&*code, context, prepared).await
            }
            _ => Err(no_reader()),
        }
    }

    /// Checks the arguments of such a call.
    pub(super) fn check_code_call(&self, tool: Builtin, call: &ToolCall) -> Result<(), Failure> {
        match tool {
            Builtin::FindSymbol => self.read::<find_symbol::Args>(tool, call).map(drop),
            Builtin::Outline => self.read::<outline::Args>(tool, call).map(drop),
            Builtin::RepoMap => self.read::<repo_map::Args>(tool, call).map(drop),
            Builtin::SearchCode => self.read::<search_code::Args>(tool, call).map(drop),
            _ => Err(no_reader()),
        }
    }
}

fn no_reader() -> Failure {
    Failure::new(ToolErrorCode::UnknownTool, "code is not indexed here")
}
