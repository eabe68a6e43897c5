//! Calls about the documents of sessions.

use agentd_core::knowledge::{
    DocumentFinds, DocumentListing, DocumentProgress, DocumentQuery, KnowledgeStats, PartRange, Password, Reading,
};
use tonic::Code;

use super::{Client, ClientError};
use crate::{
    convert::{Wire as _, WireError},
    v1::{self, index_documents_response::Part, search_documents_step},
};

impl Client {
    /// Brings documents of a session into the index, all of it where no path is named, and shows how far it is.
    ///
    /// # Errors
    /// When there is no such session or file, the index cannot be used, or the connection fails.
    pub async fn index_documents(
        &self,
        session: &str,
        paths: &[String],
        again: bool,
        mut show: impl FnMut(DocumentProgress),
    ) -> Result<DocumentListing, ClientError> {
        let request = v1::IndexDocumentsRequest { session: session.to_owned(), paths: paths.to_vec(), again };
        let mut steps = self.documents().index(request).await?.into_inner();
        while let Some(step) = steps.message().await? {
            match step.part {
                Some(Part::Progress(step)) => show(step.try_into()?),
                Some(Part::Done(done)) => return Ok(done.try_into()?),
                // From a newer daemon.
                None => {}
            }
        }
        Err(WireError::Missing("what came of indexing").into())
    }

    /// Documents of a session with their states, below a path where one is given.
    ///
    /// # Errors
    /// As of [`Self::index_documents`].
    pub async fn list_documents(&self, session: &str, path: &str) -> Result<DocumentListing, ClientError> {
        let request = v1::ListDocumentsRequest { session: session.to_owned(), path: path.to_owned() };
        Ok(self.documents().list(request).await?.into_inner().try_into()?)
    }

    /// Pages, sheets or slides of a document.
    ///
    /// # Errors
    /// As of [`Self::index_documents`]; also when the document cannot be read.
    pub async fn read_document(
        &self,
        session: &str,
        path: &str,
        range: PartRange,
        password: Option<&Password>,
    ) -> Result<Reading, ClientError> {
        let request = v1::ReadDocumentRequest {
            session: session.to_owned(),
            path: path.to_owned(),
            first: range.first,
            count: range.count.unwrap_or_default(),
            from: range.from.to_wire(),
            password: password.map(|password| password.reveal().to_owned()),
        };
        Ok(self.documents().read(request).await?.into_inner().try_into()?)
    }

    /// Finds what documents of a session say, all of them where no path is named, and shows how far those are that are brought
    /// into the index first.
    ///
    /// # Errors
    /// As of [`Self::index_documents`].
    pub async fn search_documents(
        &self,
        session: &str,
        paths: &[String],
        query: &DocumentQuery,
        mut show: impl FnMut(DocumentProgress),
    ) -> Result<DocumentFinds, ClientError> {
        let request = v1::SearchDocumentsRequest {
            session: session.to_owned(),
            paths: paths.to_vec(),
            query: query.text.clone(),
            regex: query.regex,
            limit: query.limit.to_wire(),
            neighbours: query.neighbours,
        };
        let mut steps = match self.documents().search_with_progress(request.clone()).await {
            // A daemon from before there was this method.
            Err(status) if status.code() == Code::Unimplemented => {
                return Ok(self.documents().search(request).await?.into_inner().try_into()?);
            }
            steps => steps?.into_inner(),
        };
        while let Some(step) = steps.message().await? {
            match step.part {
                Some(search_documents_step::Part::Progress(step)) => show(step.try_into()?),
                Some(search_documents_step::Part::Done(done)) => return Ok(done.try_into()?),
                // From a newer daemon.
                None => {}
            }
        }
        Err(WireError::Missing("what was found").into())
    }

    /// Size of the index, of all sessions together.
    ///
    /// # Errors
    /// When the index cannot be used, or the connection fails.
    pub async fn document_stats(&self) -> Result<KnowledgeStats, ClientError> {
        Ok(self.documents().stats(v1::DocumentStatsRequest {}).await?.into_inner().try_into()?)
    }
}
