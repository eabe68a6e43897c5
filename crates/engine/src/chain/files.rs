//! Files that the person handed over since the session's last turn.

use super::Link;
use crate::{
    guides::frame::one_line,
    prompt::Draft,
    turn::{TurnContext, TurnState},
};

/// Names that are told at the most.
const MAX_NAMES: usize = 20;

pub(crate) struct Files;

impl Link for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn about(&self) -> &'static str {
        "which files a person handed over since they were last told"
    }

    fn before_model(&self, context: &TurnContext, state: &TurnState, draft: &mut Draft) {
        let can = |tool| context.tool(tool).is_some();
        if let Some(reminder) = reminder(&state.uploads, can(READ), can(SEARCH)) {
            draft.remind(reminder);
        }
    }
}

/// What opens them.
const READ: &str = "read_file";
/// What finds places in documents, with what to cite them by.
const SEARCH: &str = "search_file";
/// Names of what has pages, sheets or slides and is better searched than read.
const DOCUMENTS: [&str; 6] = [".pdf", ".docx", ".xlsx", ".xls", ".ods", ".pptx"];

fn reminder(uploads: &[String], can_read: bool, can_search: bool) -> Option<String> {
    let (last, named) = (uploads.last()?, uploads.iter().rev().take(MAX_NAMES).rev());
    let names: Vec<String> = named.map(|name| one_line(name)).collect();
    let more = match uploads.len() - names.len() {
        0 => String::new(),
        more => format!(", and {more} before them"),
    };
    let opens = if can_read { format!(" {READ} opens them, as {}.", one_line(last)) } else { String::new() };
    let is_document = |name: &&String| DOCUMENTS.iter().any(|ending| name.to_ascii_lowercase().ends_with(ending));
    let finds = match names.iter().rfind(is_document) {
        Some(name) if can_search => {
            format!(" {SEARCH} finds what one says about something and the place to cite, as {name}.")
        }
        _ => String::new(),
    };
    Some(format!("The person has handed over since the last turn: {}{more}.{opens}{finds}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_names_are_told() {
        let check = |uploads: &[&str], expected: Option<&str>| {
            let uploads: Vec<String> = uploads.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(reminder(&uploads, true, true).as_deref(), expected);
        };
        check(&[], None);
        check(
            &["uploads/a.pdf", "uploads/b.txt"],
            Some(
                "The person has handed over since the last turn: uploads/a.pdf, uploads/b.txt. read_file opens them, as \
                 uploads/b.txt. search_file finds what one says about something and the place to cite, as uploads/a.pdf.",
            ),
        );
        let many: Vec<String> = (0..100).map(|n| format!("uploads/{n}")).collect();
        let told = reminder(&many, false, false).unwrap();
        assert!(told.ends_with("uploads/99, and 80 before them."), "{told}");
    }
}
