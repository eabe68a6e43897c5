//! `diagnostics`: what a language server finds in a file.

use std::sync::Arc;

use agentd_core::{
    language::{Diagnostic, Severity, SourceFile},
    ports::{Languages, ToolContext},
    tool::ToolOutput,
};
use agentd_workspace::{failure::Failure, job::Job, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    call::{Call, Tool},
    source_places,
};

/// Findings that are shown.
const MAX_SHOWN: usize = 100;

/// Returns the errors and warnings that a compiler would report in a source file of the project, without building it. New
/// errors of your own edits are told to you without it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, such as /project/src/main.rs. Leave it out for all files that were edited or asked about lately.
    path: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = "diagnostics";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let languages = call.languages()?;
        let text = match source_places::prepare_for(call, self, prepare).await? {
            Some(file) => {
                let name = file.name();
                show(&name, languages.diagnostics(file).await?)
            }
            None => {
                let mut all = languages.last_diagnostics(Arc::clone(&call.context.workspace)).await;
                // The call names none of these files.
                all.retain(|finding| call.context.reading.allow(&finding.file));
                show("the files that language servers were asked about lately", all)
            }
        };
        Ok(ToolOutput::ok(text))
    }
}

fn prepare(
    job: &Job,
    args: Args,
    context: &ToolContext,
    languages: &dyn Languages,
) -> Result<Option<SourceFile>, Failure> {
    let file = |path: String| source_places::file(context, &job.files.meant(&path)?, languages);
    args.path.map(file).transpose()
}

fn show(name: &str, findings: Vec<Diagnostic>) -> String {
    let mut told: Vec<Diagnostic> = findings
        .into_iter()
        .filter(|finding| matches!(finding.severity, Severity::Error | Severity::Warning))
        .collect();
    if told.is_empty() {
        return format!("No errors and no warnings in {name}.");
    }
    told.sort_by_key(|finding| (finding.severity, finding.line, finding.column));
    let more = told.len().saturating_sub(MAX_SHOWN);
    let shown: Vec<String> = told.iter().take(MAX_SHOWN).map(Diagnostic::to_string).collect();
    let more = if more == 0 { String::new() } else { format!("\n[and {} more]", text::count(more, "finding")) };
    format!("{}{more}", shown.join("\n"))
}
