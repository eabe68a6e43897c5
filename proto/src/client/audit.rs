//! Calls about the audit log.

use agentd_core::audit::{AuditRecord, AuditReport, RecordQuery};

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES, convert,
    v1::{self, audit_client::AuditClient},
};

impl Client {
    fn audit(&self) -> AuditClient<tonic::transport::Channel> {
        AuditClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The newest records that fit the query, oldest first; fewer where they would be too large for one message.
    ///
    /// # Errors
    /// When the log cannot be read, or the connection fails.
    pub async fn audit_records(&self, query: &RecordQuery) -> Result<Vec<AuditRecord>, ClientError> {
        let request = v1::ListAuditRequest::from(query);
        Ok(convert::all(self.audit().list(request).await?.into_inner().records)?)
    }

    /// Verifies the log. With a hash that was noted elsewhere, reports whether that line is still in it.
    ///
    /// # Errors
    /// When the log cannot be read, or the connection fails.
    pub async fn verify_audit(&self, noted_hash: Option<String>) -> Result<AuditReport, ClientError> {
        let request = v1::VerifyAuditRequest { noted_hash: noted_hash.unwrap_or_default() };
        Ok(self.audit().verify(request).await?.into_inner().try_into()?)
    }
}
