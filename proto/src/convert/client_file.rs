//! Questions about files that a client holds, and their answers.

use agentd_core::client_file::{ClientFileAnswer, ClientFileRequest, FileAction};

use super::WireError;
use crate::v1::{
    event::{FileRequested, file_requested},
    turn_request::{FileAnswer, file_answer},
};

impl From<ClientFileRequest> for FileRequested {
    fn from(ClientFileRequest { id, path, action }: ClientFileRequest) -> Self {
        let action = match action {
            FileAction::Read => file_requested::Action::Read(file_requested::Read {}),
            FileAction::Write(text) => file_requested::Action::Write(file_requested::Write { text }),
        };
        Self { request_id: id, path, action: Some(action) }
    }
}

impl TryFrom<FileRequested> for ClientFileRequest {
    type Error = WireError;

    fn try_from(FileRequested { request_id, path, action }: FileRequested) -> Result<Self, WireError> {
        let action = match action {
            Some(file_requested::Action::Read(_)) => FileAction::Read,
            Some(file_requested::Action::Write(write)) => FileAction::Write(write.text),
            None => return Err(WireError::Unknown("the action of a question about a client's file")),
        };
        Ok(Self { id: request_id, path, action })
    }
}

/// The answer to a question.
pub(crate) fn file_answer(request_id: &str, answer: ClientFileAnswer) -> FileAnswer {
    let outcome = match answer {
        ClientFileAnswer::Text(text) => file_answer::Outcome::Text(text),
        ClientFileAnswer::Written => file_answer::Outcome::Written(file_answer::Written {}),
        ClientFileAnswer::Absent => file_answer::Outcome::Absent(file_answer::Absent {}),
        ClientFileAnswer::Refused(why) => file_answer::Outcome::Error(why),
    };
    FileAnswer { request_id: request_id.to_owned(), outcome: Some(outcome) }
}

/// The answer of a frame.
#[must_use]
pub fn answered_file(answer: FileAnswer) -> ClientFileAnswer {
    match answer.outcome {
        Some(file_answer::Outcome::Text(text)) => ClientFileAnswer::Text(text),
        Some(file_answer::Outcome::Written(_)) => ClientFileAnswer::Written,
        Some(file_answer::Outcome::Absent(_)) => ClientFileAnswer::Absent,
        Some(file_answer::Outcome::Error(why)) => ClientFileAnswer::Refused(why),
        None => ClientFileAnswer::Refused(String::new()),
    }
}
