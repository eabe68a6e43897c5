//! The file of `--schema`: the JSON Schema that an answer has to match.

use std::{fs::File, io::Read as _, path::Path};

use agentd_core::answer_schema::{AnswerSchema, MAX_ANSWER_SCHEMA};

use crate::failure::Failure;

/// Reads the file, before anything is sent anywhere. No more of it is read than a schema may have.
pub(crate) fn read(path: &Path) -> Result<AnswerSchema, Failure> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        Failure::usage(format!("could not read the schema {shown}: {error}"))
            .hint("--schema takes the path of a file that holds a JSON Schema")
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::usage(format!("the schema {shown} is a folder"))
            .hint("--schema takes the path of a file that holds a JSON Schema"));
    }
    file.take(MAX_ANSWER_SCHEMA as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > MAX_ANSWER_SCHEMA {
        return Err(Failure::usage(format!("the schema {shown} has more than {MAX_ANSWER_SCHEMA} bytes"))
            .hint("leave descriptions and examples out, or ask for the answer in parts"));
    }
    let text = String::from_utf8(text)
        .map_err(|_| Failure::usage(format!("the schema {shown} is no UTF-8")).hint("save it as UTF-8"))?;
    AnswerSchema::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|problem| Failure::usage(format!("{shown}: {}", problem.message)).hint(problem.hint))
}
